// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests that attach something to devices race with requests that delete them. Nothing may
//! remain attached to a removed device.
#![allow(clippy::unwrap_used)] // Tests may panic.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use weir_netlink::nda::{self, ntf, nud};
use weir_netlink::{
    IfAddrMsg, IfInfoMsg, NdMsg, RtMsg, TcMsg, Writer, af, ifa, ifla, messages, nlm, rta, rtm, tca,
};
use weir_stack::connection::Peer;
use weir_stack::ipv4::WithIpv4;
use weir_stack::ipv6::WithIpv6;
use weir_stack::neigh::WithNeighbours;
use weir_stack::{Config, Connection, Namespace, NsId, Stack};

/// The index of the current device. Each device gets its own, so that leftovers of one are not
/// swept away with the next.
static INDEX: AtomicU32 = AtomicU32::new(100);

fn index() -> u32 {
    INDEX.load(Relaxed)
}

/// The destination of the routes.
const V4: [u8; 4] = [198, 51, 100, 1];
const V6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

fn family(address: &[u8]) -> u8 {
    match address.len() {
        4 => af::INET,
        _ => af::INET6,
    }
}

/// A peer whose process ids stand for namespaces.
struct Processes;

impl Peer for Processes {
    fn namespace_by_fd(&self, _fd: u32) -> Option<NsId> {
        None
    }

    fn namespace_by_pid(&self, pid: u32) -> Option<NsId> {
        Some(NsId(pid.into()))
    }
}

struct Client(Connection);

impl Client {
    fn new(stack: &Stack, port: u32) -> Self {
        Self::of(stack, &stack.namespace(Stack::INITIAL).unwrap(), port)
    }

    fn of(stack: &Stack, ns: &Arc<Namespace>, port: u32) -> Self {
        Self(Connection::new(stack, ns, port, Box::new(Processes), None))
    }

    fn request(&mut self, ty: u16, flags: u16, fill: impl FnOnce(&mut Writer)) {
        let mut out = Writer::new();
        let message = out.message(ty, nlm::F_REQUEST | flags, 1, 0);
        fill(&mut out);
        out.finish(message).unwrap();
        self.0.request(out.bytes());
        while self.0.mailbox().take().is_some() {}
    }

    fn add_device(&mut self) {
        self.add("dummy");
    }

    fn add(&mut self, kind: &str) {
        INDEX.fetch_add(1, Relaxed);
        self.request(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&IfInfoMsg {
                index: index() as i32,
                flags: ifla::iff::UP,
                change: ifla::iff::UP,
                ..IfInfoMsg::default()
            });
            out.put_str(ifla::IFNAME, "x0");
            let nest = out.nest(ifla::LINKINFO);
            out.put_str(ifla::info::KIND, kind);
            if kind == "vxlan" {
                let data = out.nest(ifla::info::DATA);
                out.put_u32(ifla::vxlan::ID, 7);
                out.put_be16(ifla::vxlan::PORT, 4789);
                out.end(data);
            }
            out.end(nest);
        });
    }

    fn delete_device(&mut self) {
        self.request(rtm::DELLINK, 0, |out| {
            out.fixed(&IfInfoMsg {
                index: index() as i32,
                ..IfInfoMsg::default()
            });
        });
    }

    /// Adds a device on top of the device.
    fn add_upper(&mut self, kind: &str, data: impl FnOnce(&mut Writer)) {
        self.request(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&IfInfoMsg::default());
            out.put_u32(ifla::LINK, index());
            let nest = out.nest(ifla::LINKINFO);
            out.put_str(ifla::info::KIND, kind);
            let inside = out.nest(ifla::info::DATA);
            data(out);
            out.end(inside);
            out.end(nest);
        });
    }

    fn add_vlan(&mut self) {
        self.add_upper("vlan", |out| out.put_u16(ifla::vlan::ID, 5));
    }

    fn add_vxlan(&mut self) {
        self.add_upper("vxlan", |out| {
            out.put_u32(ifla::vxlan::ID, 5);
            out.put_u32(ifla::vxlan::LINK, index());
        });
    }

    fn add_neighbour(&mut self, address: &[u8]) {
        self.request(rtm::NEWNEIGH, nlm::F_CREATE | nlm::F_REPLACE, |out| {
            out.fixed(&NdMsg {
                family: family(address),
                ifindex: index() as i32,
                state: nud::PERMANENT,
                ..NdMsg::default()
            });
            out.put(nda::DST, address);
            out.put(nda::LLADDR, &[2, 0, 0, 0, 0, 9]);
        });
    }

    fn add_forwarding(&mut self) {
        self.request(rtm::NEWNEIGH, nlm::F_CREATE | nlm::F_REPLACE, |out| {
            out.fixed(&NdMsg {
                family: af::BRIDGE,
                ifindex: index() as i32,
                state: nud::PERMANENT,
                flags: ntf::SELF,
                ..NdMsg::default()
            });
            out.put(nda::LLADDR, &[2, 0, 0, 0, 0, 9]);
            out.put(nda::DST, &V4);
        });
    }

    /// Adds a filter with an action of its own.
    fn add_filter(&mut self) {
        let at = |parent| TcMsg {
            ifindex: index() as i32,
            parent,
            info: 1 << 16 | u32::from(0x0003_u16.to_be()),
            ..TcMsg::default()
        };
        self.request(rtm::NEWQDISC, nlm::F_CREATE, |out| {
            out.fixed(&TcMsg {
                info: 0,
                handle: 0xffff_0000,
                ..at(tca::h::CLSACT)
            });
            out.put_str(tca::KIND, "clsact");
        });
        self.request(rtm::NEWTFILTER, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&at(0xffff_fff2));
            out.put_str(tca::KIND, "matchall");
            let options = out.nest(tca::OPTIONS);
            // `TCA_MATCHALL_ACT` with one action, `TCA_GACT_PARMS` in its options.
            let actions = out.nest(2);
            let one = out.nest(1);
            out.put_str(tca::act::KIND, "gact");
            let inside = out.nest(tca::act::OPTIONS);
            out.put(2, &[0_u32, 0, 2, 0, 0].map(u32::to_ne_bytes).concat());
            out.end(inside);
            out.end(one);
            out.end(actions);
            out.end(options);
        });
    }

    /// Counts the actions of the kind that the filters create.
    fn actions(&mut self) -> usize {
        let mut out = Writer::new();
        let message = out.message(rtm::GETACTION, nlm::F_REQUEST | nlm::F_DUMP, 1, 0);
        out.raw(&[0; 4]);
        let tab = out.nest(1);
        let one = out.nest(1);
        out.put_str(tca::act::KIND, "gact");
        out.end(one);
        out.end(tab);
        out.finish(message).unwrap();
        self.0.request(out.bytes());
        let mut found = 0;
        while self.0.pump() {}
        while let Some(datagram) = self.0.mailbox().take() {
            let actions = messages(&datagram).filter(|message| message.header.ty == rtm::GETACTION);
            // `TCA_ROOT_TAB`, in an answer of the request's type.
            for action in actions {
                let all = action.attrs_after(4).find(|attr| attr.ty == 1);
                found += all.map_or(0, |all| all.attrs().count());
            }
        }
        found
    }

    fn move_to(&mut self, to: u32) {
        self.request(rtm::NEWLINK, 0, |out| {
            out.fixed(&IfInfoMsg {
                index: index() as i32,
                ..IfInfoMsg::default()
            });
            out.put_u32(ifla::NET_NS_PID, to);
        });
    }

    fn add_qdisc(&mut self) {
        self.request(rtm::NEWQDISC, nlm::F_CREATE | nlm::F_REPLACE, |out| {
            out.fixed(&TcMsg {
                ifindex: index() as i32,
                parent: tca::h::ROOT,
                ..TcMsg::default()
            });
            out.put_str(tca::KIND, "pfifo");
        });
    }

    fn add_address(&mut self, address: &[u8]) {
        self.request(rtm::NEWADDR, nlm::F_CREATE | nlm::F_REPLACE, |out| {
            out.fixed(&IfAddrMsg {
                family: family(address),
                prefixlen: 8 * address.len() as u8,
                index: index(),
                ..IfAddrMsg::default()
            });
            out.put(ifa::LOCAL, address);
            out.put(ifa::ADDRESS, address);
        });
    }

    /// Adds a route to the device itself, which need not be up.
    fn add_route(&mut self) {
        self.request(rtm::NEWROUTE, nlm::F_CREATE | nlm::F_APPEND, |out| {
            out.fixed(&RtMsg {
                family: af::INET,
                dst_len: 32,
                table: rta::table::LOCAL as u8,
                protocol: rta::prot::STATIC,
                scope: rta::scope::HOST,
                ty: rta::rtn::LOCAL,
                ..RtMsg::default()
            });
            out.put(rta::DST, &V4);
            out.put_u32(rta::OIF, index());
        });
    }

    /// Adds a route through one next hop among others.
    fn add_route6(&mut self) {
        self.request(rtm::NEWROUTE, nlm::F_CREATE | nlm::F_APPEND, |out| {
            out.fixed(&RtMsg {
                family: af::INET6,
                dst_len: 128,
                table: rta::table::MAIN as u8,
                protocol: rta::prot::STATIC,
                ty: rta::rtn::UNICAST,
                ..RtMsg::default()
            });
            out.put(rta::DST, &V6);
            // `struct rtnexthop` with a gateway.
            let mut hop = [28_u16.to_ne_bytes(), [0, 0]].concat();
            hop.extend(index().to_ne_bytes());
            hop.extend([20_u16, rta::GATEWAY].map(u16::to_ne_bytes).concat());
            hop.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            out.put(rta::MULTIPATH, &hop);
        });
    }

    /// Counts the routes to an address in all tables.
    fn routes(&mut self, to: &[u8]) -> usize {
        let mut out = Writer::new();
        let message = out.message(rtm::GETROUTE, nlm::F_REQUEST | nlm::F_DUMP, 1, 0);
        out.fixed(&RtMsg {
            family: family(to),
            ..RtMsg::default()
        });
        out.finish(message).unwrap();
        self.0.request(out.bytes());
        let mut found = 0;
        while self.0.pump() {}
        while let Some(datagram) = self.0.mailbox().take() {
            for message in messages(&datagram).filter(|message| message.header.ty == rtm::NEWROUTE)
            {
                let dst = message.attrs::<RtMsg>().find_type(rta::DST);
                found += usize::from(dst.is_some_and(|dst| dst.payload == to));
            }
        }
        found
    }
}

fn stack() -> Stack {
    weir_stack::build(Config {
        cpus: 1,
        ..Config::default()
    })
}

fn rounds() -> usize {
    match std::env::var_os("WEIR_TEST_SHORT") {
        Some(_) => 200,
        None => 2000,
    }
}

struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Runs `round` repeatedly in one thread while each of `beside` runs repeatedly in a thread of its
/// own.
fn race(stack: &Stack, beside: &[fn(&mut Client)], mut round: impl FnMut(&mut Client)) {
    let (done, port) = (AtomicBool::new(false), AtomicU32::new(100));
    let client = || Client::new(stack, port.fetch_add(1, Relaxed));
    std::thread::scope(|scope| {
        for work in beside {
            let (mut client, done) = (client(), &done);
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    work(&mut client);
                }
            });
        }
        // Stops the other threads even if `round` panics.
        let _end = End(&done);
        let mut client = client();
        for _ in 0..rounds() {
            round(&mut client);
        }
    });
}

/// Tests run one at a time, because they share the device's index.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn stress_nothing_is_added_to_a_device_being_deleted() {
    let _turn = TURN.lock();
    let stack = stack();
    let ns = stack.namespace(Stack::INITIAL).unwrap();
    let mut first = Client::new(&stack, 1);
    first.add_device();
    first.add_neighbour(&V4);
    first.add_vlan();
    first.add_vxlan();
    first.add_filter();
    assert_eq!(ns.neighbours().all(&stack.domain.pin()).len(), 1);
    assert_eq!(ns.all_devices().len(), 4);
    assert_eq!(first.actions(), 1);
    first.delete_device();
    let beside: &[fn(&mut Client)] = &[
        |client| client.add_neighbour(&V4),
        |client| client.add_neighbour(&V6),
        Client::add_vlan,
        Client::add_vxlan,
        Client::add_filter,
        Client::delete_device,
    ];
    race(&stack, beside, |client| {
        client.add_device();
        client.delete_device();
    });
    Client::new(&stack, 1).delete_device();
    assert_eq!(ns.all_devices().len(), 1, "{:?}", ns.all_devices());
    assert_eq!(ns.neighbours().all(&stack.domain.pin()).len(), 0);
    assert_eq!(Client::new(&stack, 1).actions(), 0);
}

#[test]
fn stress_a_deleted_vxlan_device_forwards_nothing() {
    let _turn = TURN.lock();
    let stack = stack();
    let ns = stack.namespace(Stack::INITIAL).unwrap();
    let mut all = Vec::new();
    race(
        &stack,
        &[Client::add_forwarding as fn(&mut Client)],
        |client| {
            client.add("vxlan");
            all.extend(ns.device_by_name("x0"));
            client.delete_device();
        },
    );
    let guard = stack.domain.pin();
    assert!(!all.is_empty(), "none came");
    for device in all {
        let entries = device.link.fdb().unwrap().messages(&stack, &guard, &device);
        assert_eq!(entries.len(), 0);
    }
}

#[test]
fn stress_nothing_is_added_to_a_device_being_moved() {
    let _turn = TURN.lock();
    let stack = stack();
    let ns = stack.namespace(Stack::INITIAL).unwrap();
    let other = stack.create_namespace();
    let [here, there] = [&ns, &other].map(|ns| u32::try_from(ns.id.0).unwrap());
    let mut far = Client::of(&stack, &other, 1);
    Client::new(&stack, 2).add_device();
    let beside: &[fn(&mut Client)] = &[
        Client::add_qdisc,
        |client| client.add_address(&[192, 0, 2, 1]),
        |client| client.add_address(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        |client| client.add_neighbour(&V4),
        Client::add_route,
        Client::add_route6,
    ];
    race(&stack, beside, |client| {
        client.move_to(there);
        let device = other.device_by_name("x0").expect("the device was moved");
        let guard = stack.domain.pin();
        assert_eq!(device.tc.root_kind(), "noop");
        assert!(device.ipv4().addresses.list(&guard).is_empty());
        assert!(device.ipv6().addresses.list(&guard).is_empty());
        far.move_to(here);
    });
    let mut client = Client::new(&stack, 2);
    client.move_to(there);
    for address in [&V4[..], &V6] {
        assert_eq!(client.routes(address), 0);
    }
    for ns in [&ns, &other] {
        assert_eq!(ns.neighbours().all(&stack.domain.pin()).len(), 0);
    }
}

#[test]
fn stress_nothing_is_attached_to_a_device_being_deleted() {
    let _turn = TURN.lock();
    let stack = stack();
    let ns = stack.namespace(Stack::INITIAL).unwrap();
    let mut first = Client::new(&stack, 1);
    first.add_device();
    first.add_route();
    first.add_route6();
    for address in [&V4[..], &V6] {
        assert_eq!(first.routes(address), 1);
    }
    first.delete_device();
    let mut all = Vec::new();
    let beside: &[fn(&mut Client)] = &[
        Client::add_qdisc,
        |client| client.add_address(&[192, 0, 2, 1]),
        |client| client.add_address(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        Client::add_route,
        Client::add_route6,
        Client::delete_device,
    ];
    race(&stack, beside, |client| {
        client.add_device();
        all.extend(ns.device_by_name("x0"));
        client.delete_device();
    });
    let mut client = Client::new(&stack, 1);
    client.delete_device();
    for address in [&V4[..], &V6] {
        assert_eq!(client.routes(address), 0);
    }
    let guard = stack.domain.pin();
    assert!(!all.is_empty(), "every device was gone before it was seen");
    for device in all {
        assert!(!device.is_registered());
        assert_eq!(device.tc.root_kind(), "noop");
        assert!(device.ipv4().addresses.list(&guard).is_empty());
        assert!(device.ipv6().addresses.list(&guard).is_empty());
    }
}
