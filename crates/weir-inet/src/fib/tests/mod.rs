// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares tables and rules with Linux's results for the same commands. Each expectation names its
//! command; the texts are those of `ip`.

mod exception;
mod filter;
mod v6;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_netlink::{Error, errno, fra, nlm, rta};
use weir_sync::rcu::{Config, Domain};

use super::address::Ifaddr;
use super::lookup::{Flow, HashPolicy, LookupFlags};
use super::route::{HopConfig, Metrics, Route, RouteConfig, RouteInfo, flag};
use super::rule::Rule;
use super::sync::Loss;
use super::{Address, Family, Fib, FibHost, RouteDevice};

#[derive(Debug)]
struct State {
    ifindex: u32,
    up: AtomicBool,
    carrier: AtomicBool,
    ignore_linkdown: AtomicBool,
}

#[derive(Debug, Clone)]
struct Dev(Arc<State>);

impl RouteDevice for Dev {
    fn ifindex(&self) -> u32 {
        self.0.ifindex
    }
    fn is_up(&self) -> bool {
        self.0.up.load(Ordering::Relaxed)
    }
    fn is_loopback(&self) -> bool {
        self.0.ifindex == 1
    }
    fn group(&self) -> u32 {
        self.0.ifindex * 10
    }
    fn ignores_linkdown(&self, _ipv6: bool) -> bool {
        self.0.ignore_linkdown.load(Ordering::Relaxed)
    }
    fn ipv6_disabled(&self) -> bool {
        false
    }
}

/// Returns a device with an index.
fn at(ifindex: u32) -> Dev {
    Dev(Arc::new(State {
        ifindex,
        up: AtomicBool::new(true),
        carrier: AtomicBool::new(true),
        ignore_linkdown: AtomicBool::new(false),
    }))
}

/// A namespace with lo (1), v0 (2) and v1 (3), all up.
struct World {
    domain: Domain,
    fib: Fib<Dev>,
    devices: Vec<Dev>,
}

impl FibHost<Dev> for World {
    fn device(&self, ifindex: u32) -> Option<Dev> {
        self.devices.get(ifindex.checked_sub(1)? as usize).cloned()
    }
    fn has_carrier(&self, device: &Dev) -> bool {
        device.0.carrier.load(Ordering::Relaxed)
    }
}

const V0: u32 = 2;
const V1: u32 = 3;
const ADD: u16 = nlm::F_CREATE | nlm::F_EXCL;

impl World {
    fn new() -> Self {
        Self::of(3)
    }

    /// Creates the namespace with so many devices.
    fn of(devices: u32) -> Self {
        let domain = Domain::new(Config::default());
        let device = |ifindex| {
            Dev(Arc::new(State {
                ifindex,
                up: AtomicBool::new(true),
                carrier: AtomicBool::new(true),
                ignore_linkdown: AtomicBool::new(false),
            }))
        };
        Self {
            fib: Fib::new(&domain),
            domain,
            devices: (1..=devices).map(device).collect(),
        }
    }

    /// Creates the namespace with 10.0.0.1/24 on v0, 127.0.0.1/8 on lo and 192.168.7.1/24 on v1.
    fn with_addresses() -> Self {
        let world = Self::new();
        world.address(1, "127.0.0.1", 8, None);
        world.address(V0, "10.0.0.1", 24, Some("10.0.0.255"));
        world.address(V1, "192.168.7.1", 24, None);
        world
    }

    fn ifaddr(text: &str, prefix_len: u8, broadcast: Option<&str>) -> Ifaddr {
        let local = text.parse().unwrap();
        Ifaddr {
            local,
            address: local,
            prefix_len,
            broadcast: broadcast.map(|text| text.parse().unwrap()),
            secondary: false,
            no_prefix_route: false,
            metric: 0,
        }
    }

    fn address(&self, ifindex: u32, text: &str, prefix_len: u8, broadcast: Option<&str>) {
        let address = Self::ifaddr(text, prefix_len, broadcast);
        let device = self.device(ifindex).unwrap();
        self.fib.v4.address_came(
            &device,
            &address,
            &[address],
            self,
            &self.domain.pin(),
            &mut Vec::new(),
        );
    }

    fn add(&self, flags: u16, config: RouteConfig<u32>) -> Result<u16, Error> {
        let mut events = Vec::new();
        let config = RouteConfig {
            nlflags: flags,
            ..config
        };
        self.fib
            .v4
            .add(&config, self, &self.fib.v6, &self.domain.pin(), &mut events)?;
        Ok(events.first().map_or(0, |event| event.flags))
    }

    fn add6(&self, flags: u16, config: RouteConfig<u128>) -> Result<Vec<String>, Error> {
        let mut events = Vec::new();
        let config = RouteConfig {
            nlflags: flags,
            ..config
        };
        self.fib
            .v6
            .add(&config, self, &self.domain.pin(), &mut events)?;
        Ok(events.iter().map(|event| show(&event.route)).collect())
    }

    fn get(&self, dst: &str) -> Result<String, i32> {
        self.get_flow(Flow {
            dst: v4(dst),
            iif: 1,
            ..Flow::default()
        })
    }

    fn get_flow(&self, flow: Flow<u32>) -> Result<String, i32> {
        let guard = self.domain.pin();
        let found = self.fib.v4.lookup(&flow, LookupFlags::default(), &guard)?;
        Ok(format!(
            "{} table {} dev {}",
            show_hop(found.info, 0),
            found.table,
            found.hop.oif
        ))
    }

    fn show4(&self, table: u32) -> Vec<String> {
        list(&self.fib.v4, table, &self.domain)
    }

    fn show6(&self, table: u32) -> Vec<String> {
        list(&self.fib.v6, table, &self.domain)
    }
}

fn v4(text: &str) -> u32 {
    text.parse::<Ipv4Addr>().unwrap().into()
}

fn v6(text: &str) -> u128 {
    text.parse::<Ipv6Addr>().unwrap().into()
}

/// Builds `ip route add PREFIX [via GATEWAY] dev` with the scope and protocol that iproute2
/// chooses.
fn route<K: Address>(prefix: &str, via: &str, oif: u32) -> RouteConfig<K> {
    let (dst, len) = prefix.split_once('/').unwrap();
    let gateway: Option<IpAddr> = (!via.is_empty()).then(|| via.parse().unwrap());
    let direct = gateway.is_none() && !K::IPV6;
    RouteConfig {
        dst: K::from_ip(dst.parse().unwrap()).unwrap(),
        dst_len: len.parse().unwrap(),
        protocol: rta::prot::BOOT,
        scope: if direct {
            rta::scope::LINK
        } else {
            rta::scope::UNIVERSE
        },
        priority: if K::IPV6 { 1024 } else { 0 },
        hop: HopConfig {
            oif,
            gateway,
            ..HopConfig::default()
        },
        ..RouteConfig::default()
    }
}

fn show_hop<D: RouteDevice>(info: &RouteInfo<D>, index: usize) -> String {
    let hop = &info.hops[index];
    let mut text = match hop.gateway {
        Some(gateway) => format!("via {gateway} dev {}", hop.oif),
        None => format!("dev {}", hop.oif),
    };
    if hop.flags() & flag::DEAD != 0 {
        text += " dead";
    }
    if hop.flags() & flag::LINKDOWN != 0 {
        text += " linkdown";
    }
    text
}

fn show<K: Address>(route: &Route<K, Dev>) -> String {
    let kinds = [
        "none",
        "",
        "local ",
        "broadcast ",
        "anycast ",
        "multicast ",
        "blackhole ",
    ];
    let spec = &route.info.spec;
    let kind = kinds
        .get(usize::from(spec.kind))
        .copied()
        .unwrap_or("other ");
    let mut text = format!("{kind}{}/{}", route.dst.ip(), route.dst_len);
    if route.tos != 0 {
        text += &format!(" tos {}", route.tos);
    }
    for index in 0..route.info.hops.len() {
        text += &format!(" {}", show_hop(&route.info, index));
    }
    for sibling in &route.siblings {
        text += &format!(" {}", show_hop(sibling, 0));
    }
    if let Some(prefsrc) = spec.prefsrc {
        text += &format!(" src {prefsrc}");
    }
    if spec.priority != 0 {
        text += &format!(" metric {}", spec.priority);
    }
    text
}

fn list<K: Address>(family: &Family<K, Dev>, table: u32, domain: &Domain) -> Vec<String> {
    let guard = domain.pin();
    let mut lines = Vec::new();
    let Some(table) = family.table(table, &guard) else {
        return lines;
    };
    // One prefix at a time, to test every resumption.
    let mut cursor = None;
    loop {
        let step = table.dump(cursor, &guard, |dst, len, leaf| {
            lines.extend(table.routes_of(dst, len, leaf).iter().map(show));
            ControlFlow::Break((dst, len))
        });
        match step {
            ControlFlow::Break(place) => cursor = Some(place),
            ControlFlow::Continue(()) => return lines,
        }
    }
}

#[test]
fn addresses_make_and_take_routes() {
    let world = World::with_addresses();
    assert_eq!(
        world.show4(rta::table::LOCAL),
        [
            "local 10.0.0.1/32 dev 2 src 10.0.0.1",
            "broadcast 10.0.0.255/32 dev 2 src 10.0.0.1",
            "local 127.0.0.1/32 dev 1 src 127.0.0.1",
            "local 127.0.0.0/8 dev 1 src 127.0.0.1",
            "broadcast 127.255.255.255/32 dev 1 src 127.0.0.1",
            "local 192.168.7.1/32 dev 3 src 192.168.7.1",
            "broadcast 192.168.7.255/32 dev 3 src 192.168.7.1",
        ]
        .map(str::to_owned)
        .to_vec()
        .in_dump_order(),
    );
    assert_eq!(
        world.show4(rta::table::MAIN),
        [
            "10.0.0.0/24 dev 2 src 10.0.0.1",
            "192.168.7.0/24 dev 3 src 192.168.7.1"
        ]
    );
    // The routes of a second address of the prefix use the first one as source.
    let first = World::ifaddr("10.0.0.1", 24, Some("10.0.0.255"));
    let second = Ifaddr {
        secondary: true,
        ..World::ifaddr("10.0.0.2", 24, Some("10.0.0.255"))
    };
    let device = world.device(V0).unwrap();
    let mut events = Vec::new();
    world.fib.v4.address_came(
        &device,
        &second,
        &[first, second],
        &world,
        &world.domain.pin(),
        &mut events,
    );
    assert_eq!(events.len(), 1, "only its own route");
    assert!(
        world
            .show4(rta::table::LOCAL)
            .contains(&"local 10.0.0.2/32 dev 2 src 10.0.0.1".to_owned())
    );
    // Deleting the secondary address removes only its local route.
    events.clear();
    world
        .fib
        .v4
        .address_went(&device, &second, &[first], None, false, &mut events);
    assert_eq!(events.len(), 1);
    // Delete the last address.
    world
        .fib
        .v4
        .address_went(&device, &first, &[], None, false, &mut events);
    assert_eq!(
        world.show4(rta::table::MAIN),
        ["192.168.7.0/24 dev 3 src 192.168.7.1"]
    );
    assert!(
        !world
            .show4(rta::table::LOCAL)
            .iter()
            .any(|line| line.contains("10.0.0."))
    );
}

trait Sorted {
    fn in_dump_order(self) -> Self;
}
impl Sorted for Vec<String> {
    /// Sorts in dump order: by address, longer prefixes first.
    fn in_dump_order(mut self) -> Self {
        self.sort_by_key(|line| {
            let prefix = line
                .split(' ')
                .find(|word| word.contains('/'))
                .unwrap()
                .to_owned();
            let (address, len) = prefix.split_once('/').unwrap();
            (v4(address), std::cmp::Reverse(len.parse::<u8>().unwrap()))
        });
        self
    }
}

#[test]
fn adds_appends_prepends_replaces() {
    let world = World::with_addresses();
    let errno_of = |result: Result<u16, Error>| result.unwrap_err().errno;
    let via = |last: u8| route::<u32>("1.0.0.0/8", &format!("10.0.0.{last}"), 0);
    assert_eq!(
        world.add(ADD, via(99)).unwrap(),
        nlm::F_CREATE | nlm::F_EXCL
    );
    assert_eq!(errno_of(world.add(ADD, via(98))), errno::EEXIST);
    let append = nlm::F_CREATE | nlm::F_APPEND;
    assert_eq!(world.add(append, via(98)).unwrap(), append);
    assert_eq!(errno_of(world.add(append, via(98))), errno::EEXIST);
    assert_eq!(world.add(nlm::F_CREATE, via(97)).unwrap(), nlm::F_CREATE);
    world
        .add(
            ADD,
            RouteConfig {
                priority: 5,
                ..via(98)
            },
        )
        .unwrap();
    world
        .add(
            ADD,
            RouteConfig {
                tos: 0x10,
                ..via(98)
            },
        )
        .unwrap();
    let main = || -> Vec<String> {
        let lines = world.show4(rta::table::MAIN);
        lines
            .into_iter()
            .filter(|line| line.starts_with("1."))
            .collect()
    };
    assert_eq!(
        main(),
        [
            "1.0.0.0/8 tos 16 via 10.0.0.98 dev 2",
            "1.0.0.0/8 via 10.0.0.97 dev 2",
            "1.0.0.0/8 via 10.0.0.99 dev 2",
            "1.0.0.0/8 via 10.0.0.98 dev 2",
            "1.0.0.0/8 via 10.0.0.98 dev 2 metric 5",
        ]
    );
    let replace = nlm::F_CREATE | nlm::F_REPLACE;
    assert_eq!(world.add(replace, via(90)).unwrap(), nlm::F_REPLACE);
    assert_eq!(main()[1], "1.0.0.0/8 via 10.0.0.90 dev 2");
    assert_eq!(main().len(), 5);
    assert_eq!(
        world.add(replace, via(90)).unwrap(),
        0,
        "the same again: nothing to announce"
    );
    assert_eq!(errno_of(world.add(replace, via(98))), errno::EEXIST);
    let change = nlm::F_REPLACE;
    assert_eq!(
        errno_of(world.add(change, route("8.0.0.0/8", "", V0))),
        errno::ENOENT
    );
    // Deletes remove the first route that matches the given attributes.
    let mut events = Vec::new();
    let any = RouteConfig {
        kind: rta::rtn::UNSPEC,
        scope: rta::scope::NOWHERE,
        protocol: 0,
        ..route::<u32>("1.0.0.0/8", "10.0.0.98", 0)
    };
    world
        .fib
        .v4
        .delete(&any, &world.domain.pin(), &mut events)
        .unwrap();
    world
        .fib
        .v4
        .delete(&any, &world.domain.pin(), &mut events)
        .unwrap();
    assert_eq!(main().len(), 3);
    assert_eq!(
        world.fib.v4.delete(&any, &world.domain.pin(), &mut events),
        Err(Error::new(errno::ESRCH))
    );
    assert!(events.iter().all(|event| !event.new && event.flags == 0));
    let elsewhere = RouteConfig { table: 77, ..any };
    assert_eq!(
        world
            .fib
            .v4
            .delete(&elsewhere, &world.domain.pin(), &mut events),
        Err(Error::msg(errno::ESRCH, "FIB table does not exist"))
    );
}

#[test]
fn refuses_as_linux() {
    let world = World::with_addresses();
    let refused = |config: RouteConfig<u32>| {
        let error = world.add(ADD, config).unwrap_err();
        (error.errno, error.message.unwrap_or_default().into_owned())
    };
    let text = |errno: i32, text: &str| (errno, text.to_owned());
    // ip route add 2.0.0.0/8 via 77.0.0.1
    assert_eq!(
        refused(route("2.0.0.0/8", "77.0.0.1", 0)),
        text(errno::ENETUNREACH, "Nexthop has invalid gateway")
    );
    // ip route add 2.0.0.0/8 via 10.0.0.9 dev v1
    assert_eq!(
        refused(route("2.0.0.0/8", "10.0.0.9", V1)),
        text(errno::ENETUNREACH, "Nexthop has invalid gateway")
    );
    // ip route add 5.0.0.0/8 dev v0 src 9.9.9.9
    let source = RouteConfig {
        prefsrc: Some("9.9.9.9".parse().unwrap()),
        ..route("5.0.0.0/8", "", V0)
    };
    assert_eq!(
        refused(source),
        text(errno::EINVAL, "Invalid prefsrc address")
    );
    assert_eq!(refused(route("5.0.0.0/8", "", 99)), text(errno::ENODEV, ""));
    let onlink = RouteConfig {
        flags: u32::from(flag::ONLINK),
        ..route("5.0.0.0/8", "10.0.0.255", V0)
    };
    assert_eq!(
        refused(onlink),
        text(errno::EINVAL, "Nexthop has invalid gateway")
    );
    let blackhole = RouteConfig {
        kind: rta::rtn::BLACKHOLE,
        ..route("5.0.0.0/8", "", V0)
    };
    assert_eq!(
        refused(blackhole),
        text(
            errno::EINVAL,
            "Gateway, device and multipath can not be specified for this route type"
        )
    );
    let host = RouteConfig {
        scope: rta::scope::HOST,
        ..route("5.0.0.0/8", "10.0.0.7", V0)
    };
    assert_eq!(
        refused(host),
        text(
            errno::EINVAL,
            "Route with host scope can not have a gateway"
        )
    );
    world
        .device(V1)
        .unwrap()
        .0
        .up
        .store(false, Ordering::Relaxed);
    assert_eq!(
        refused(route("5.0.0.0/8", "", V1)),
        text(errno::ENETDOWN, "Device for nexthop is not up")
    );
    assert_eq!(
        refused(RouteConfig {
            flags: u32::from(flag::ONLINK),
            ..route("5.0.0.0/8", "9.9.9.9", V1)
        }),
        text(errno::ENETDOWN, "Nexthop device is not up")
    );
}

#[test]
fn looks_up_as_one_trie_until_rules_change() {
    let world = World::with_addresses();
    let unreachable = RouteConfig {
        kind: rta::rtn::UNREACHABLE,
        scope: rta::scope::UNIVERSE,
        ..route("127.6.6.6/32", "", 0)
    };
    world.add(ADD, unreachable).unwrap();
    assert_eq!(world.get("127.6.6.6"), Err(errno::EHOSTUNREACH));
    assert_eq!(world.get("127.6.6.7").unwrap(), "dev 1 table 254 dev 1");
    assert_eq!(world.get("10.0.0.9").unwrap(), "dev 2 table 254 dev 2");
    assert_eq!(world.get("10.0.0.1").unwrap(), "dev 2 table 254 dev 2");
    assert_eq!(world.get("8.8.8.8"), Err(errno::ENETUNREACH));
    for (kind, error) in [
        (rta::rtn::BLACKHOLE, errno::EINVAL),
        (rta::rtn::PROHIBIT, errno::EACCES),
        (rta::rtn::THROW, errno::ENETUNREACH),
    ] {
        let config = RouteConfig {
            kind,
            scope: rta::scope::UNIVERSE,
            ..route(&format!("9.0.0.{kind}/32"), "", 0)
        };
        world.add(ADD, config).unwrap();
        assert_eq!(world.get(&format!("9.0.0.{kind}")), Err(error));
    }
    // ip rule add from 1.2.3.4 lookup 100: from now on the local table comes first.
    let rule = Rule {
        src: v4("1.2.3.4"),
        src_len: 32,
        ..Rule::lookup(0, 100)
    };
    world
        .fib
        .v4
        .rules()
        .add(rule, None, None, ADD, |_| None)
        .unwrap();
    assert_eq!(world.get("127.6.6.6").unwrap(), "dev 1 table 255 dev 1");
    assert_eq!(world.get("8.8.8.8"), Err(errno::ENETUNREACH));
    world
        .add(
            ADD,
            RouteConfig {
                table: 100,
                ..route("0.0.0.0/0", "10.0.0.3", 0)
            },
        )
        .unwrap();
    let flow = Flow {
        dst: v4("8.8.8.8"),
        src: v4("1.2.3.4"),
        iif: 1,
        ..Flow::default()
    };
    assert_eq!(
        world.get_flow(flow).unwrap(),
        "via 10.0.0.3 dev 2 table 100 dev 2"
    );
}

#[test]
fn tries_shorter_prefixes_when_a_route_does_not_fit() {
    let world = World::with_addresses();
    world.add(ADD, route("0.0.0.0/0", "10.0.0.2", 0)).unwrap();
    world
        .add(
            ADD,
            RouteConfig {
                tos: 8,
                ..route("1.2.0.0/16", "10.0.0.3", 0)
            },
        )
        .unwrap();
    assert_eq!(
        world.get("1.2.3.4").unwrap(),
        "via 10.0.0.2 dev 2 table 254 dev 2"
    );
    let flow = Flow {
        dst: v4("1.2.3.4"),
        tos: 8,
        ..Flow::default()
    };
    assert_eq!(
        world.get_flow(flow).unwrap(),
        "via 10.0.0.3 dev 2 table 254 dev 2"
    );
    let by_device = Flow {
        dst: v4("1.2.3.4"),
        oif: V1,
        tos: 8,
        ..Flow::default()
    };
    assert_eq!(world.get_flow(by_device), Err(errno::ENETUNREACH));
}

#[test]
fn rules_select_jump_and_suppress() {
    let world = World::with_addresses();
    world.add(ADD, route("0.0.0.0/0", "10.0.0.2", 0)).unwrap();
    world
        .add(
            ADD,
            RouteConfig {
                table: 7,
                ..route("0.0.0.0/0", "10.0.0.7", 0)
            },
        )
        .unwrap();
    let rules = world.fib.v4.rules();
    let add = |rule: Rule<u32>, priority, goto| {
        rules.add(rule, priority, goto, ADD, |name| {
            (name == "v0").then_some(V0)
        })
    };
    let priorities = || -> Vec<u32> {
        rules
            .entries(&world.domain.pin())
            .iter()
            .map(|entry| entry.rule.priority)
            .collect()
    };
    assert_eq!(priorities(), [0, 32_766, 32_767]);
    let marked = Rule {
        mark: 7,
        mask: u32::MAX,
        ..Rule::lookup(0, 7)
    };
    assert_eq!(
        add(marked.clone(), None, None).unwrap().rule.priority,
        32_765
    );
    let twin = Rule {
        priority: 32_765,
        ..marked.clone()
    };
    assert_eq!(
        add(twin, Some(32_765), None).unwrap_err().errno,
        errno::EEXIST
    );
    let flow = Flow {
        dst: v4("8.8.8.8"),
        mark: 7,
        iif: 1,
        ..Flow::default()
    };
    assert!(world.get_flow(flow).unwrap().starts_with("via 10.0.0.7"));
    assert!(world.get("8.8.8.8").unwrap().starts_with("via 10.0.0.2"));
    // Packets from a tunnel, or from a certain user.
    let selective = Rule {
        tunnel: 5,
        uids: Some((3, 4)),
        ..Rule::lookup(0, 7)
    };
    add(selective.clone(), Some(9), None).unwrap();
    for (tunnel, uid, router) in [(5, 3, 7), (5, 4, 7), (5, 5, 2), (0, 3, 2), (6, 3, 2)] {
        let flow = Flow {
            mark: 0,
            tunnel,
            uid,
            ..flow
        };
        let way = world.get_flow(flow).unwrap();
        assert!(way.starts_with(&format!("via 10.0.0.{router}")), "{way}");
    }
    world.fib.v4.rules().delete(&selective, false).unwrap();
    // Put a rule in front that looks up main but suppresses its default route.
    let suppress = Rule {
        suppress_prefixlen: Some(0),
        ..Rule::lookup(0, rta::table::MAIN)
    };
    add(suppress, Some(10), None).unwrap();
    let unmarked = Rule {
        flags: fra::f::INVERT,
        ..marked
    };
    add(unmarked, Some(20), None).unwrap();
    assert!(world.get("8.8.8.8").unwrap().starts_with("via 10.0.0.7"));
    assert!(
        world
            .get("10.0.0.9")
            .unwrap()
            .starts_with("dev 2 table 254")
    );
    // Skip it with a goto.
    let jump = Rule {
        action: fra::act::GOTO,
        ..Rule::lookup(0, 0)
    };
    assert!(
        add(jump.clone(), Some(15), Some(15)).is_err(),
        "not backwards"
    );
    assert!(add(jump.clone(), Some(15), None).is_err());
    let entry = add(jump.clone(), Some(15), Some(32_766)).unwrap();
    assert_eq!(entry.flags() & fra::f::UNRESOLVED, 0);
    assert!(world.get("8.8.8.8").unwrap().starts_with("via 10.0.0.2"));
    let lost = add(jump, Some(16), Some(99)).unwrap();
    assert_ne!(lost.flags() & fra::f::UNRESOLVED, 0);
    // Match iif by name, before and after the device exists.
    let by_name = Rule {
        iif: "v9".into(),
        action: fra::act::PROHIBIT,
        ..Rule::lookup(0, 0)
    };
    let entry = add(by_name.clone(), Some(5), None).unwrap();
    assert_ne!(entry.flags() & fra::f::IIF_DETACHED, 0);
    let from_v9 = Flow {
        dst: v4("8.8.8.8"),
        iif: 9,
        ..Flow::default()
    };
    assert!(world.get_flow(from_v9).is_ok());
    rules.device_came("v9", 9);
    assert_eq!(world.get_flow(from_v9), Err(errno::EACCES));
    rules.device_went(9);
    assert!(world.get_flow(from_v9).is_ok());
    // Deletes.
    assert_eq!(rules.delete(&by_name, false).unwrap().rule.priority, 5);
    assert_eq!(
        rules.delete(&by_name, false).unwrap_err().errno,
        errno::ENOENT
    );
    assert_eq!(priorities(), [0, 10, 15, 16, 20, 32_765, 32_766, 32_767]);
}

#[test]
fn multipath_follows_weights_and_devices() {
    let world = World::with_addresses();
    let hop = |gateway: &str, weight| HopConfig {
        gateway: Some(gateway.parse().unwrap()),
        weight,
        ..HopConfig::default()
    };
    let config = RouteConfig {
        multipath: Some(vec![hop("10.0.0.5", 3), hop("192.168.7.5", 1)]),
        ..route("3.0.0.0/8", "", 0)
    };
    let config = RouteConfig {
        scope: rta::scope::UNIVERSE,
        ..config
    };
    world.add(ADD, config).unwrap();
    assert_eq!(
        world.show4(rta::table::MAIN)[0],
        "3.0.0.0/8 via 10.0.0.5 dev 2 via 192.168.7.5 dev 3"
    );
    let share = |world: &World| {
        let guard = world.domain.pin();
        let mut by = [0u32; 4];
        for port in 0..4_000u16 {
            let flow = Flow {
                dst: v4("3.1.2.3"),
                src: v4("10.0.0.1"),
                proto: 6,
                sport: port,
                dport: 80,
                ..Flow::default()
            };
            let found = world
                .fib
                .v4
                .lookup(&flow, LookupFlags::default(), &guard)
                .unwrap();
            assert!(found.is_multipath());
            by[found.select(HashPolicy::Layer4.hash(&flow)).hop.oif as usize] += 1;
        }
        by
    };
    let by = share(&world);
    assert!((2_850..3_150).contains(&by[2]), "three of four: {by:?}");
    // v0 goes down, so everything uses v1. v0's own routes are removed; the multipath route stays.
    let v0 = world.device(V0).unwrap();
    v0.0.up.store(false, Ordering::Relaxed);
    let gone = world.fib.v4.device_lost(V0, Loss::Down, false);
    assert_eq!(
        gone.iter().map(show).collect::<Vec<_>>().len(),
        2,
        "subnet and broadcast"
    );
    assert_eq!(share(&world)[3], 4_000);
    assert_eq!(
        world.show4(rta::table::MAIN)[0],
        "3.0.0.0/8 via 10.0.0.5 dev 2 dead linkdown via 192.168.7.5 dev 3"
    );
    v0.0.up.store(true, Ordering::Relaxed);
    world.fib.v4.device_found(&v0, true);
    assert!((2_850..3_150).contains(&share(&world)[2]));
    world.fib.v4.device_lost(V0, Loss::Down, false);
    world.fib.v4.device_lost(V1, Loss::Gone, false);
    assert!(world.show4(rta::table::MAIN).is_empty());
}

#[test]
fn a_lost_carrier_only_marks() {
    let world = World::with_addresses();
    let v0 = world.device(V0).unwrap();
    assert!(
        world
            .fib
            .v4
            .device_lost(V0, Loss::Carrier, false)
            .is_empty()
    );
    assert_eq!(
        world.show4(rta::table::MAIN)[0],
        "10.0.0.0/24 dev 2 linkdown src 10.0.0.1"
    );
    assert!(world.get("10.0.0.9").is_ok());
    v0.0.ignore_linkdown.store(true, Ordering::Relaxed);
    assert_eq!(world.get("10.0.0.9"), Err(errno::ENETUNREACH));
    world.fib.v4.device_found(&v0, true);
    assert!(world.get("10.0.0.9").is_ok());
}

#[test]
fn routes_go_with_their_source_address() {
    let world = World::with_addresses();
    let source = "192.168.7.1".parse().unwrap();
    world
        .add(
            ADD,
            RouteConfig {
                prefsrc: Some(source),
                ..route("5.0.0.0/8", "", V0)
            },
        )
        .unwrap();
    let device = world.device(V1).unwrap();
    let address = World::ifaddr("192.168.7.1", 24, None);
    world
        .fib
        .v4
        .address_went(&device, &address, &[], None, false, &mut Vec::new());
    assert_eq!(
        world.show4(rta::table::MAIN),
        ["10.0.0.0/24 dev 2 src 10.0.0.1"]
    );
}

#[test]
fn metrics_are_part_of_a_route() {
    let world = World::with_addresses();
    let mut metrics = Metrics::default();
    metrics.values[usize::from(rta::ax::MTU) - 1] = 1400;
    let config = RouteConfig {
        metrics: Some(Box::new(metrics)),
        ..route::<u32>("5.0.0.0/8", "", V0)
    };
    world.add(ADD, config).unwrap();
    let guard = world.domain.pin();
    let flow = Flow {
        dst: v4("5.5.5.5"),
        ..Flow::default()
    };
    let found = world
        .fib
        .v4
        .lookup(&flow, LookupFlags::default(), &guard)
        .unwrap();
    assert_eq!(found.info.metric(rta::ax::MTU), 1400);
    assert_eq!(found.info.metric(rta::ax::HOPLIMIT), 0);
    assert!(!found.info.is_locked(rta::ax::MTU));
}

#[test]
fn an_empty_fib_is_small() {
    assert!(size_of::<Fib<Dev>>() < 1024, "{}", size_of::<Fib<Dev>>());
}

/// Whoever brings a device up revives its routes late, when it has gone down and away again: none stays.
#[test]
fn stress_no_route_by_a_device_that_went_away_is_revived() {
    let world = World::new();
    let device = world.device(V0).unwrap();
    let up = &device.0.up;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                world.fib.v4.device_found(&device, true);
            }
        });
        let mut left = 0;
        for _ in 0..20_000 {
            up.store(true, Ordering::SeqCst);
            let added = world.add(ADD, route("10.9.0.0/16", "", V0));
            assert!(added.is_ok(), "{added:?}");
            up.store(false, Ordering::SeqCst);
            world.fib.v4.device_lost(V0, Loss::Down, false);
            left += world.show4(rta::table::MAIN).len();
            world.fib.v4.device_lost(V0, Loss::Gone, true);
        }
        done.store(true, Ordering::Relaxed);
        assert_eq!(left, 0);
    });
}
