// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kinds of IP tunnels share (`net/ipv4/ip_tunnel.c`): ipip, sit, gre, gretap and erspan; ip6tnl, ip6gre,
//! ip6gretap and ip6erspan over IPv6; and the kinds of tunnels in UDP datagrams: vxlan and geneve.
//!
//! | file | contents |
//! |---|---|
//! | [`parms`] | parameters and attributes |
//! | [`lookup`] | the tunnel of a received packet, by local address, remote address and key |
//! | [`inner`] | what is read and changed in inner packets, of all tunnels |
//! | `isatap` | IPv4 addresses in those of next hops and senders |
//! | [`ip6`] | tunnels over IPv6: outer headers, MTU, what they can do by their addresses |
//! | [`outer`] | outer headers, routes and errors about packets that do not fit |
//! | [`receive`] | decapsulation |
//! | [`udp`], [`ports`] | tunnels in UDP datagrams: outer headers and inner frames, listening |
//!
//! A kind is a [`Flavour`]. The underlay is the namespace in which the device was created, even after the device moves.
//!
//! The first tunnel of a kind in a namespace brings the fallback devices of its module (`tunl0`; `sit0`; `gre0`, `gretap0`,
//! `erspan0`; `ip6tnl0`; `ip6tnl0` and `ip6gre0`), which receive what no other tunnel takes, as loading the module does in
//! Linux. A namespace without tunnels has none. `net.core.fb_tunnels_only_for_init_net` is not served.
//!
//! Captures show the packets of devices without a link-layer header with an Ethernet header without addresses.
//!
//! ipip and sit tunnels without a remote send by the next hops of routes, whose addresses packets carry to them as metadata
//! ([`Link::next_hop`]).
//!
//! Not implemented: remotes that are multicast groups (refused), remotes by the inner packet's next hop of the other kinds
//! (packets through a tunnel without a remote are dropped and counted as fifo errors), encapsulation in UDP (fou, gue: EINVAL
//! as without the modules) and ICMP errors about outer packets.
//! [`crate::tunnel_ioctl`] serves the ioctls of `ip tunnel`.

pub mod inner;
pub mod ip6;
pub(crate) mod isatap;
pub mod lookup;
pub mod outer;
pub mod parms;
pub mod ports;
pub mod receive;
pub mod udp;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use weir_netlink::ifla::{arphrd, iff};
use weir_netlink::{Attr, Error, LinkStats64, Writer, errno};
use weir_packet::tunnel::{Ends, Tunnel as Metadata};
use weir_packet::{Batch, DropReason, Packet};
use weir_sync::once_box::OnceBox;
use weir_sync::rcu::{Guard, Published};

use self::inner::{Inner, Remembered};
use self::isatap::Router;
use self::lookup::{Family, TUNNELS, Tunnels, tunnels};
use self::parms::Parms;
use crate::cpu::Cx;
use crate::device::{AddressOrigin, Device, Mac};
use crate::drops::Place;
use crate::features::{Offer, bit};
use crate::ipv4::route::Wanted;
use crate::kind::{InterfaceId, check_mac};
use crate::layers::Module;
use crate::namespace::{Namespace, NsId};
use crate::protocols::{Failed, Protocol, Receive, protocols};
use crate::request::Ctl;
use crate::stack::Stack;
use crate::{Link, NewLink, ethernet, ipv4, register};

/// The largest outer packet in bytes (`IP_MAX_MTU`).
const IP_MAX_MTU: u32 = 0xffff;
/// The smallest MTU in bytes (`ETH_MIN_MTU`, `IPV4_MIN_MTU`).
const MIN_MTU: u32 = 68;

/// A kind of tunnel.
pub struct Flavour {
    /// `IFLA_INFO_KIND`
    pub name: &'static str,
    /// The table its tunnels are in.
    pub family: Family,
    /// `ARPHRD_*`; in external mode, `ARPHRD_NONE` for gre.
    pub hardware: u16,
    /// It carries Ethernet frames.
    pub ethernet: bool,
    /// The protocol of the outer packets' payload.
    pub protocol: u8,
    /// The smallest and the largest MTU in bytes; a maximum of 0 means no limit.
    pub mtu: (u32, u32),
    /// Returns the parameters that a request gives for a new tunnel, or for one that has these.
    pub parse: Parse,
    /// Writes `IFLA_INFO_DATA`.
    pub fill: fn(&Parms, &mut Writer),
    /// Returns the length in bytes of the header between the outer and the inner packet.
    pub header_len: fn(&Parms) -> u32,
    /// Sends a packet.
    pub send: Send,
    /// The kinds of the same module, and of those it needs, with the names of their fallback devices.
    pub fallbacks: &'static [Fallback],
    /// The protocols that the module receives.
    pub receivers: Receivers,
}

/// Protocols with their receivers, and those who are told of errors about packets that were sent.
pub type Receivers = &'static [(Protocol, Receive, Option<Failed>)];

/// A kind with the name and the parameters of its fallback device.
pub type Fallback = (&'static Flavour, &'static str, fn() -> Parms);

/// Returns the parameters that `IFLA_INFO_DATA` gives a tunnel that has these, if it is not new.
pub type Parse = fn(Option<Attr<'_>>, Option<&Parms>) -> Result<Parms, Error>;

/// Sends a packet of a device by its tunnel.
pub type Send = fn(&IpTunnel, &mut Cx<'_>, &Arc<Device>, &Namespace, &Inner, Packet);

/// Error counters in addition to those of every device.
#[derive(Debug, Default)]
pub struct Errors {
    /// The route leads back to the tunnel.
    pub collisions: AtomicU64,
    /// There is no route.
    pub tx_carrier: AtomicU64,
    /// The tunnel has no remote.
    pub tx_fifo: AtomicU64,
    /// A checksum is missing or unexpected.
    pub rx_crc: AtomicU64,
    /// A sequence number is missing or old.
    pub rx_fifo: AtomicU64,
    /// The outer ECN bits contradict the inner ones, or an option is not understood.
    pub rx_frame: AtomicU64,
    /// The inner frame is too short.
    pub rx_length: AtomicU64,
}

impl Errors {
    /// Adds the counters to those of the device.
    pub fn add_to(&self, stats: &mut LinkStats64) {
        stats.collisions += self.collisions.load(Relaxed);
        stats.tx_carrier_errors += self.tx_carrier.load(Relaxed);
        stats.tx_fifo_errors += self.tx_fifo.load(Relaxed);
        stats.rx_crc_errors += self.rx_crc.load(Relaxed);
        stats.rx_fifo_errors += self.rx_fifo.load(Relaxed);
        stats.rx_frame_errors += self.rx_frame.load(Relaxed);
        stats.rx_length_errors += self.rx_length.load(Relaxed);
    }
}

/// The tunnel's part of a device (`struct ip_tunnel`).
pub struct IpTunnel {
    /// The kind.
    pub flavour: &'static Flavour,
    /// The smallest and the largest MTU in bytes, as they are shown; a maximum of 0 means no limit.
    bounds: (u32, u32),
    /// The parameters.
    pub parms: Published<Parms>,
    /// The underlay namespace.
    pub net: Weak<Namespace>,
    /// It is the fallback device of its kind.
    pub fallback: bool,
    /// Error counters.
    pub errors: Errors,
    /// The sequence number of the next packet sent.
    pub sent: AtomicU32,
    /// The sequence number expected next, or 0 before the first.
    pub expected: AtomicU32,
    remembered: OnceLock<Remembered>,
    /// How many of the next packets are answered with "unreachable".
    pub failures: AtomicU32,
    /// When the last error about an outer packet came, in nanoseconds.
    pub failed: AtomicU64,
    /// The potential routers of ISATAP, if there have ever been any. Changes hold the lock of the namespace's tunnels.
    routers: OnceLock<Published<Vec<Router>>>,
    /// The source of outer packets over IPv4 that the tunnel has begun with, which is its permanent address.
    first: Ipv4Addr,
    /// The permanent address of a device of IPv6 packets, from which its IPv6 link-local address is made.
    permanent: Option<Mac>,
}

/// The `Link` implementation that the device owns.
struct Handle(Arc<IpTunnel>);

/// The namespaces' tunnels.
pub static MODULE: Module = Module {
    namespace: Some(|parts, _| parts.fill(&TUNNELS, OnceBox::default())),
    above: Some(above),
    ..Module::NONE
};

/// The tunnels whose underlay is a namespace that is being deleted.
fn above(
    ns: &Namespace,
    device: Option<&Device>,
    _guard: &Guard,
    add: &mut dyn FnMut(Arc<Device>),
) {
    if device.is_none()
        && let Some(tunnels) = tunnels(ns)
    {
        tunnels.devices().into_iter().for_each(add);
    }
}

/// Creates a tunnel (`ip_tunnel_newlink`).
pub fn create(
    flavour: &'static Flavour,
    ctl: &mut Ctl<'_>,
    new: NewLink<'_>,
) -> Result<Arc<Device>, Error> {
    let parms = (flavour.parse)(new.data, None)?;
    check(&parms)?;
    let net = match Arc::ptr_eq(&new.link_ns, ctl.ns) {
        true => new.ns.clone(),
        false => new.link_ns.clone(),
    };
    load(ctl.stack, ctl.guard, &net, flavour);
    make(
        ctl.stack,
        ctl.guard,
        flavour,
        &net,
        parms,
        &new,
        Origin::Request,
    )
}

/// Creates a tunnel with a name or a pattern of one by an ioctl (`ip_tunnel_create`).
pub(crate) fn create_by_ioctl(
    stack: &Stack,
    guard: &Guard,
    flavour: &'static Flavour,
    net: &Arc<Namespace>,
    parms: Parms,
    name: String,
) -> Result<Arc<Device>, Error> {
    let new = new_link(net, name, flavour);
    make(stack, guard, flavour, net, parms, &new, Origin::Ioctl)
}

/// What a tunnel is made by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// A request for a link.
    Request,
    /// An ioctl.
    Ioctl,
    /// The module: it is a fallback device.
    Module,
}

/// Returns the request for a link of a kind without anything but a name.
fn new_link<'a>(net: &Arc<Namespace>, name: String, flavour: &Flavour) -> NewLink<'a> {
    NewLink {
        ns: net.clone(),
        name,
        ifindex: 0,
        mtu: None,
        address: flavour.ethernet.then_some([0; 6]),
        broadcast: None,
        txqlen: None,
        group: None,
        queues: (None, None),
        link: None,
        link_ns: net.clone(),
        flags: (0, 0),
        data: None,
    }
}

/// Refuses what is not served.
pub(crate) fn check(parms: &Parms) -> Result<(), Error> {
    if parms.remote.is_multicast() {
        return Err(Error::unsupported(
            "Tunnels to multicast groups are not supported",
        ));
    }
    Ok(())
}

/// Makes the fallback devices of a kind's module and receives its protocols, once in each namespace.
pub(crate) fn load(stack: &Stack, guard: &Guard, net: &Arc<Namespace>, flavour: &'static Flavour) {
    let all = tunnels_of(stack, net);
    for (flavour, name, parms) in flavour.fallbacks {
        if all.has_fallback(flavour.family, guard) {
            continue;
        }
        for (protocol, receive, failed) in flavour.receivers {
            let all = protocols(net);
            all.add(&stack.domain, *protocol, *receive, guard);
            if let Some(failed) = failed {
                all.add_failed(&stack.domain, *protocol, *failed, guard);
            }
        }
        let new = new_link(net, (*name).to_owned(), flavour);
        let parms = parms();
        // Without the name, which another device has, there is no fallback device.
        let _ = make(stack, guard, flavour, net, parms, &new, Origin::Module);
    }
}

/// Returns the tunnels of a namespace, made if it has none yet.
fn tunnels_of<'n>(stack: &Stack, net: &'n Namespace) -> &'n Tunnels {
    let all = net.parts.get(&TUNNELS);
    all.get_or_make(|| Tunnels::new(&stack.domain))
}

fn make(
    stack: &Stack,
    guard: &Guard,
    flavour: &'static Flavour,
    net: &Arc<Namespace>,
    parms: Parms,
    new: &NewLink<'_>,
    origin: Origin,
) -> Result<Arc<Device>, Error> {
    let fallback = origin == Origin::Module;
    let all = tunnels_of(stack, net);
    if !fallback && all.same(flavour.family, &parms, guard).is_some() {
        return Err(Error::new(errno::EEXIST));
    }
    let parms = configured(flavour, parms, fallback);
    let (mtu, to_one) = bind(flavour, net, &parms, guard);
    let mtu = match new.mtu {
        // One that is out of range has no effect.
        Some(wanted) if flavour.family.is_ipv6() => {
            let fits = ip6::check_mtu(flavour, &parms, wanted).is_ok();
            if fits { wanted } else { mtu }
        }
        Some(mtu) => mtu.clamp(MIN_MTU, largest(flavour, &parms)),
        None => mtu,
    };
    let bounds = match (origin, flavour.family) {
        (Origin::Ioctl, Family::Ipip | Family::Gre) => (MIN_MTU, largest(flavour, &parms)),
        _ => flavour.mtu,
    };
    let first = match parms.local {
        IpAddr::V4(local) if !flavour.ethernet => local,
        _ => Ipv4Addr::UNSPECIFIED,
    };
    let tunnel = Arc::new(IpTunnel {
        first,
        flavour,
        bounds,
        parms: Published::new(&stack.domain, parms),
        net: Arc::downgrade(net),
        fallback,
        errors: Errors::default(),
        sent: AtomicU32::new(0),
        expected: AtomicU32::new(0),
        remembered: OnceLock::new(),
        failures: AtomicU32::new(0),
        failed: AtomicU64::new(0),
        routers: OnceLock::new(),
        permanent: match flavour.family.is_ipv6() && !flavour.ethernet {
            true => Some(new.ns.random_mac()),
            false => None,
        },
    });
    let mut device = ethernet(Box::new(Handle(tunnel.clone())), &new.ns, new, 0);
    device.mtu = mtu;
    if fallback {
        device.address_origin = AddressOrigin::Permanent;
    }
    if !flavour.ethernet {
        device.flags = iff::NOARP | if to_one { iff::POINTOPOINT } else { 0 };
        device.address_origin = match flavour.family.is_ipv6() {
            true => AddressOrigin::Random,
            false => AddressOrigin::Permanent,
        };
    }
    let group = new.group.unwrap_or(0);
    let device = register(stack, &new.ns, device, new.ifindex, group)?;
    if let Err(error) = all.enter(&device, &tunnel, guard) {
        crate::unregister(stack, &[device]);
        return Err(error);
    }
    if net.is_closing() {
        crate::unregister(stack, &[device]);
        return Err(Error::new(errno::ENODEV));
    }
    Ok(device)
}

/// Returns the parameters with what follows from them.
fn configured(flavour: &Flavour, mut parms: Parms, fallback: bool) -> Parms {
    // `ip6gre0` has no capabilities.
    if flavour.family.is_ipv6() && !(fallback && flavour.family == Family::Ip6Gre) {
        ip6::configure(&mut parms);
    }
    parms
}

/// Returns the number of bytes that a tunnel adds to what its MTU counts, without options of the outer header.
fn overhead(flavour: &Flavour, parms: &Parms) -> u32 {
    let ip = if parms.local.is_ipv6() { 40 } else { 20 };
    ip + (flavour.header_len)(parms) + if flavour.ethernet { 14 } else { 0 }
}

/// Returns the largest MTU in bytes.
fn largest(flavour: &Flavour, parms: &Parms) -> u32 {
    IP_MAX_MTU - overhead(flavour, parms)
}

/// Returns the MTU in bytes by the device that the outer packets probably leave by, and whether the tunnel has a
/// remote (`ip_tunnel_bind_dev`).
fn bind(flavour: &Flavour, net: &Namespace, parms: &Parms, guard: &Guard) -> (u32, bool) {
    if flavour.family.is_ipv6() {
        let mtu = ip6::route_mtu(flavour, net, parms, guard);
        let mtu = mtu.unwrap_or_else(|| ip6::default_mtu(flavour, parms));
        return (mtu, ip6::is_to_one(parms));
    }
    let mut lower = None;
    let has_remote = !parms.remote.is_unspecified();
    if let (IpAddr::V4(dst), IpAddr::V4(src), true) = (parms.remote, parms.local, has_remote) {
        let wanted = Wanted {
            dst,
            src: (!src.is_unspecified()).then_some(src),
            tos: parms.tos & 0x1e,
            mark: parms.fwmark,
            proto: flavour.protocol,
        };
        let route = ipv4::route::output_by(net, &wanted, parms.link, guard);
        lower = route.ok().map(|route| route.hop.device.clone());
    }
    let lower = lower.or_else(|| net.device(parms.link, guard).cloned());
    let mtu = lower.map_or(1500, |lower| lower.mtu().min(IP_MAX_MTU));
    let mtu = mtu.saturating_sub(overhead(flavour, parms)).max(MIN_MTU);
    (mtu.max(flavour.mtu.0), has_remote)
}

impl IpTunnel {
    /// Drops a packet for which the tunnel has no destination.
    pub fn no_way(&self, cx: &Cx<'_>, device: &Device, packet: Packet) {
        if !self.parms.load(cx.guard).external {
            self.errors.tx_fifo.fetch_add(1, Relaxed);
        }
        outer::error(cx, device, DropReason::TUNNEL_TXINFO, packet);
    }

    /// Returns the potential routers of ISATAP, the newest first.
    pub(crate) fn routers<'g>(&'g self, guard: &'g Guard) -> &'g [Router] {
        let routers = self.routers.get();
        routers.map_or(&[], |routers| routers.load(guard))
    }

    /// Sets the potential routers. The caller holds the lock of the namespace's tunnels.
    fn set_routers(&self, to: Vec<Router>) {
        let domain = self.parms.domain();
        let routers = self
            .routers
            .get_or_init(|| Published::new(domain, Vec::new()));
        routers.replace(to);
    }

    /// Returns the cache of the metadata of received packets and of next hops.
    pub fn remembered(&self) -> &Remembered {
        self.remembered
            .get_or_init(|| Remembered::new(self.parms.domain()))
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().into(),
        IpAddr::V6(address) => address.octets().into(),
    }
}

/// Returns whether an IPv4 address means something in one place only (`__ipv6_isatap_ifid`).
fn is_local_use(octets: [u8; 4]) -> bool {
    let [a, b, c, _] = octets;
    let address = std::net::Ipv4Addr::from(octets);
    a == 0
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || (a, b, c) == (192, 0, 2)
        || (a, b, c) == (192, 88, 99)
        || (a == 198 && b & 0xfe == 18)
        || address.is_multicast()
        || address.is_broadcast()
}

impl Handle {
    fn parms<'g>(&'g self, guard: &'g Guard) -> &'g Parms {
        self.0.parms.load(guard)
    }

    fn with<R>(&self, get: impl FnOnce(&Parms) -> R) -> R {
        get(self.parms(&self.0.parms.domain().pin()))
    }
}

impl Link for Handle {
    fn kind(&self) -> &'static str {
        self.0.flavour.name
    }

    fn hardware_type(&self) -> u16 {
        match self.0.flavour.family {
            Family::Gre if self.with(|parms| parms.external) => arphrd::NONE,
            _ => self.0.flavour.hardware,
        }
    }

    fn is_bare(&self) -> bool {
        !self.0.flavour.ethernet
    }

    fn hardware_addresses(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let own = self.with(|parms| (octets(parms.local), octets(parms.remote)));
        (!self.0.flavour.ethernet).then_some(own)
    }

    fn check_address(&self, mac: &Mac) -> Result<(), Error> {
        if !self.0.flavour.ethernet {
            return Err(Error::new(errno::EOPNOTSUPP));
        }
        check_mac(mac)
    }

    /// The fallback devices of Ethernet frames have no address until they are given one (`dev_validate_addr`).
    fn open(&self, _stack: &Stack, _guard: &Guard, device: &Arc<Device>) -> Result<(), Error> {
        match self.0.flavour.ethernet {
            true => check_mac(&device.address()),
            false => Ok(()),
        }
    }

    fn interface_id(&self) -> InterfaceId {
        if self.0.flavour.ethernet {
            return InterfaceId::Ethernet;
        }
        if self.hardware_type() == arphrd::NONE {
            return InterfaceId::Random;
        }
        if let Some([a, b, c, d, e, f]) = self.0.permanent {
            let id = [a ^ 2, b, c, 0xff, 0xfe, d, e, f];
            return InterfaceId::Fixed(u64::from_be_bytes(id));
        }
        match self.with(|parms| parms.local) {
            // IPv4-compatible (`addrconf_sit_config`).
            IpAddr::V4(local)
                if self.0.flavour.family == Family::Sit && !self.with(|parms| parms.isatap) =>
            {
                match self.with(|parms| parms.remote.is_unspecified()) || local.is_unspecified() {
                    true => InterfaceId::None,
                    false => InterfaceId::Fixed(u32::from(local).into()),
                }
            }
            IpAddr::V4(local) if !local.is_unspecified() => {
                let universal = if is_local_use(local.octets()) { 0 } else { 2 };
                let low = u64::from(u32::from(local));
                InterfaceId::Fixed(universal << 56 | 0x5efe << 32 | low)
            }
            _ => InterfaceId::None,
        }
    }

    fn permanent_address(&self) -> Option<Vec<u8>> {
        if !self.0.first.is_unspecified() {
            return Some(self.0.first.octets().into());
        }
        let mut address = vec![0; 16];
        address.splice(..6, self.0.permanent?);
        Some(address)
    }

    /// Those of sit that have one remote, without ISATAP (`addrconf_sit_config`).
    fn has_group_route(&self) -> bool {
        self.0.flavour.family != Family::Sit
            || self.with(|parms| !parms.isatap && !parms.remote.is_unspecified())
    }

    fn next_hop(&self, guard: &Guard, next_hop: IpAddr) -> Option<Arc<Metadata>> {
        let parms = self.parms(guard);
        let by_hop = match self.0.flavour.family {
            Family::Ipip | Family::Sit => parms.remote.is_unspecified() && !parms.external,
            _ => false,
        };
        if !by_hop && !parms.isatap {
            return None;
        }
        let to = match next_hop {
            IpAddr::V4(address) => address.octets(),
            IpAddr::V6(address) => isatap::embedded(address, parms.isatap).octets(),
        };
        let metadata = Metadata {
            hop: true,
            ..receive::between(Ends::V4([0; 4], to))
        };
        Some(self.0.remembered().share(metadata, guard))
    }

    fn may_be_deleted(&self) -> bool {
        !self.0.fallback
    }

    fn may_move(&self) -> bool {
        !self.0.fallback
    }

    fn mtu_bounds(&self) -> (u32, u32) {
        self.0.bounds
    }

    fn check_mtu(&self, mtu: u32) -> Result<(), Error> {
        if self.0.flavour.family.is_ipv6() {
            return self.with(|parms| ip6::check_mtu(self.0.flavour, parms, mtu));
        }
        if self.0.flavour.mtu.1 != 0 {
            return Ok(());
        }
        let largest = self.with(|parms| largest(self.0.flavour, parms));
        match (MIN_MTU..=largest).contains(&mtu) {
            true => Ok(()),
            false => Err(Error::new(errno::EINVAL)),
        }
    }

    fn features(&self) -> Offer {
        let mut changeable =
            bit::SG | bit::HW_CSUM | bit::FRAGLIST | bit::HIGHDMA | bit::GSO_SOFTWARE;
        let mut fixed = bit::LLTX;
        match self.0.flavour.family {
            Family::Erspan => {
                changeable &= !bit::GSO_SOFTWARE;
                fixed = 0;
            }
            Family::Ip6Erspan => (changeable, fixed) = (0, 0),
            _ => {}
        }
        let numbered = self.with(|parms| parms.oflags & parms::GRE_SEQ != 0);
        if self.0.flavour.family.is_ipv6() && numbered {
            changeable &= !bit::GSO_SOFTWARE;
        }
        let active = changeable | fixed;
        Offer {
            active,
            changeable,
            vlan: 0,
            off: 0,
        }
    }

    /// Each inner packet gets its own outer headers.
    fn takes_long_packets(&self) -> bool {
        false
    }

    /// Frames are merged by their Ethernet headers.
    fn polls(&self) -> bool {
        self.0.flavour.ethernet
    }

    fn no_queue(&self) -> bool {
        !self.0.flavour.ethernet
    }

    fn lower(&self, _stack: &Stack) -> Option<(NsId, u32)> {
        let link = self.with(|parms| parms.link);
        Some((self.0.net.upgrade()?.id, link))
    }

    fn link_namespace(&self) -> Option<NsId> {
        Some(self.0.net.upgrade()?.id)
    }

    fn transmit(&self, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
        let tunnel = &self.0;
        let Some(net) = tunnel.net.upgrade() else {
            return cx.drop_batch(device, Place::Transmit, DropReason::DEV_READY, batch);
        };
        for mut packet in batch {
            let inner = if tunnel.flavour.ethernet {
                let tagged = packet.vlan().is_some();
                if tagged && weir_packet::edit::vlan_to_data(&mut packet).is_err() {
                    cx.drop(device, Place::Transmit, DropReason::NOMEM, packet);
                    continue;
                }
                // Nothing is copied from the packet in a tagged frame over IPv4.
                let inner = Inner::of(packet.data(), tagged);
                match inner.first == inner.protocol || tunnel.flavour.family.is_ipv6() {
                    true => inner,
                    false => Inner {
                        protocol: inner.first,
                        first: inner.first,
                        link: inner.link,
                        ..Inner::default()
                    },
                }
            } else {
                Inner::of_packet(packet.data(), packet.protocol)
            };
            (tunnel.flavour.send)(tunnel, cx, device, &net, &inner, packet);
        }
    }

    fn counts_itself(&self) -> bool {
        true
    }

    fn add_stats(&self, stats: &mut LinkStats64) {
        self.0.errors.add_to(stats);
    }

    fn fill_data(&self, stack: &Stack, out: &mut Writer) {
        (self.0.flavour.fill)(self.parms(&stack.domain.pin()), out);
    }

    fn change(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        data: Option<Attr<'_>>,
    ) -> Result<(), Error> {
        change(&self.0, ctl, device, data)
    }

    fn removed(&self, stack: &Stack, device: &Arc<Device>) {
        if let Some(net) = self.0.net.upgrade()
            && let Some(tunnels) = tunnels(&net)
        {
            tunnels.leave(device, &self.0, &stack.domain.pin());
        }
    }
}

/// Changes the parameters (`ip_tunnel_changelink`).
fn change(
    tunnel: &Arc<IpTunnel>,
    ctl: &mut Ctl<'_>,
    device: &Arc<Device>,
    data: Option<Attr<'_>>,
) -> Result<(), Error> {
    let guard = ctl.guard;
    let invalid = || Error::new(errno::EINVAL);
    let before = tunnel.parms.load(guard);
    let parms = (tunnel.flavour.parse)(data, Some(before))?;
    check(&parms)?;
    let net = tunnel.net.upgrade().ok_or(Error::new(errno::ENODEV))?;
    if tunnel.fallback {
        return Err(invalid());
    }
    // The protocol and the mode stay.
    if matches!(tunnel.flavour.family, Family::Ipip | Family::Ip6Tnl) && parms.external {
        return Err(invalid());
    }
    if !tunnel.flavour.ethernet && !tunnel.flavour.family.is_ipv6() {
        let to_one = !parms.remote.is_unspecified();
        if to_one != (device.flags() & iff::POINTOPOINT != 0) {
            return Err(invalid());
        }
    }
    update(tunnel, device, &net, parms, guard)
}

/// Gives a tunnel other parameters (`ip_tunnel_update`, `ip6_tnl_update`).
pub(crate) fn update(
    tunnel: &Arc<IpTunnel>,
    device: &Arc<Device>,
    net: &Namespace,
    mut parms: Parms,
    guard: &Guard,
) -> Result<(), Error> {
    let old = tunnel.parms.load(guard);
    parms.external = old.external;
    if tunnel.flavour.family.is_ipv6() {
        return change_ip6(tunnel, device, net, parms, guard);
    }
    (parms.proto, parms.isatap) = (old.proto, old.isatap);
    let bound = (parms.link, parms.fwmark) != (old.link, old.fwmark);
    let before = (tunnel.flavour.header_len)(old);
    let after = (tunnel.flavour.header_len)(&parms);
    let mut mtu = bind(tunnel.flavour, net, &parms, guard).0;
    if tunnel.flavour.family == Family::Erspan {
        // `ip_tunnel_encap_setup` forgets the header behind that of GRE.
        mtu += parms.erspan.header_len() as u32;
    }
    let all = tunnels(net).ok_or(Error::new(errno::ENODEV))?;
    all.change(device, tunnel, parms, guard)?;
    if bound {
        device.set_mtu(mtu);
    } else if before != after && tunnel.flavour.family != Family::Erspan {
        let mtu = (device.mtu() + before).saturating_sub(after);
        device.set_mtu(mtu.max(MIN_MTU));
    }
    Ok(())
}

/// Changes the parameters of a tunnel over IPv6 (`ip6_tnl_changelink`, `ip6_tnl_update`).
fn change_ip6(
    tunnel: &Arc<IpTunnel>,
    device: &Arc<Device>,
    net: &Namespace,
    mut parms: Parms,
    guard: &Guard,
) -> Result<(), Error> {
    let flavour = tunnel.flavour;
    ip6::configure(&mut parms);
    let mtu = ip6::route_mtu(flavour, net, &parms, guard);
    let to_one = ip6::is_to_one(&parms) && !flavour.ethernet;
    let all = tunnels(net).ok_or(Error::new(errno::ENODEV))?;
    all.change(device, tunnel, parms, guard)?;
    let flags = if to_one { iff::POINTOPOINT } else { 0 };
    device.change_flags(flags, iff::POINTOPOINT);
    if let Some(mtu) = mtu {
        device.set_mtu(mtu);
    }
    Ok(())
}
