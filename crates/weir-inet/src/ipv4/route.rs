// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routing decisions for received packets (`ip_route_input_slow`, `__fib_validate_source`) and for
//! locally generated ones (`ip_route_output_key_hash`).
//!
//! Where 6.1 says `NOT_SPECIFIED`, the drop reasons are those of newer kernels. A blackhole route,
//! a prohibit route and a missing route all count as `IP_INNOROUTES`.
//!
//! Not implemented: source routes, `fib_multipath_use_neigh`.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use weir_netlink::{errno, rta};
use weir_packet::header::Ipv4;
use weir_packet::header::icmp::is_error_v4;
use weir_packet::header::ipv4::{IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP};
use weir_packet::{DropReason, Packet};
use weir_sync::rcu::Guard;

use super::group::{ALL_HOSTS, is_local};
use super::{forwards_multicast, larger, on_either, select};
use crate::device::Device;
use crate::fib::encap::Encap;
use crate::fib::host::{WithRoutes, l3_output};
use crate::fib::lookup::{Flow, Found, HashPolicy, Hint, LookupFlags};
use crate::fib::route::NextHop;
use crate::fib::table::Table;
use crate::ipv4::WithIpv4;
use crate::namespace::Namespace;
use crate::settings::WithSettings;
use crate::settings::{HasIp, Ipv4 as Conf, Ipv4Conf};

/// The index of the loopback device, which is the incoming device of locally generated packets
/// (`LOOPBACK_IFINDEX`).
const LOOPBACK: u32 = 1;

/// The way a packet leaves the host.
#[derive(Debug, Clone, Copy)]
pub struct Hop<'g> {
    /// The outgoing device.
    pub device: &'g Arc<Device>,
    /// The gateway, or the destination itself.
    pub next_hop: IpAddr,
    /// The MTU in bytes.
    pub mtu: u32,
    /// The destination is the broadcast address of a subnet.
    pub broadcast: bool,
    /// The hop of the route, if `next_hop` is its gateway.
    pub via: Option<&'g NextHop<Arc<Device>>>,
    /// The encapsulation of packets.
    pub encap: Option<&'g Arc<Encap>>,
}

type Route<'g> = Found<'g, u32, Arc<Device>>;

impl<'g> Hop<'g> {
    /// Creates the hop to a destination on the link of a device, without a route.
    pub fn on_link(device: &'g Arc<Device>, dst: Ipv4Addr) -> Self {
        Self {
            device,
            next_hop: dst.into(),
            mtu: device.mtu().min(0xffff),
            broadcast: dst.is_broadcast(),
            via: None,
            encap: None,
        }
    }

    /// Creates the hop of a route to `dst`, which may be an exception of the route. Returns `None` if the route's
    /// device is gone.
    #[inline]
    pub fn new(ns: &Namespace, found: &Route<'g>, dst: Ipv4Addr, guard: &Guard) -> Option<Self> {
        let mut hop = Self::of(found, dst)?;
        let exception = ns.fib().v4.exceptions.find(dst.into(), found, guard);
        if let Some(gateway) = exception.and_then(|one| one.gateway) {
            (hop.next_hop, hop.via) = (gateway, None);
        }
        Some(hop)
    }

    #[inline]
    fn of(found: &Route<'g>, dst: Ipv4Addr) -> Option<Self> {
        let device = found.hop.device.as_ref()?;
        let mtu = match found.info.mtu() {
            0 => device.mtu().min(0xffff),
            mtu => mtu,
        };
        let encap = found.info.encap_of(found.hop);
        let next_hop = match found.hop.gateway {
            Some(gateway) => gateway,
            // Labelled packets without a gateway go to everybody (`mpls_xmit`).
            None if Encap::is_mpls(encap) => IpAddr::V4(Ipv4Addr::BROADCAST),
            None => IpAddr::V4(dst),
        };
        Some(Self {
            device,
            next_hop,
            mtu: mtu.saturating_sub(Encap::headroom(encap)),
            broadcast: found.info.kind() == rta::rtn::BROADCAST,
            via: found.hop.gateway.is_some().then_some(found.hop),
            encap,
        })
    }
}

/// The kind of address of a packet for the local host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// One of our addresses.
    Us,
    /// A broadcast address.
    All,
    /// A multicast group.
    Group,
}

/// The routing decision for a received packet.
#[derive(Debug, Clone, Copy)]
pub enum Verdict<'g> {
    /// Drop it.
    Drop(DropReason),
    /// Reject it, because there is no route; the errno is the reason (`ip_error`).
    Refuse(i32),
    /// Deliver it locally.
    Local(To),
    /// Route it as a multicast packet, and deliver it locally as well if it is for us.
    Multicast(bool),
    /// Forward it.
    Forward(Hop<'g>),
}

/// Returns the transport ports at the start of `payload`, or zeros if the protocol has none.
fn ports(protocol: u8, payload: &[u8]) -> (u16, u16) {
    match (protocol, payload) {
        (IPPROTO_TCP | IPPROTO_UDP, [a, b, c, d, ..]) => {
            (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]))
        }
        _ => (0, 0),
    }
}

/// The fields of a packet that routing depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    src: Ipv4Addr,
    dst: Ipv4Addr,
    tos: u8,
    mark: u32,
    /// The protocol and ports, if rules or hashes need them.
    proto: u8,
    sport: u16,
    dport: u16,
    /// The key of the tunnel the packet was received from, if rules need it.
    tunnel: u64,
}

impl Key {
    fn flow(&self, iif: u32, l3_table: u32) -> Flow<u32> {
        Flow {
            l3_table,
            dst: self.dst.into(),
            src: self.src.into(),
            iif,
            mark: self.mark,
            tos: self.tos,
            proto: self.proto,
            sport: self.sport,
            dport: self.dport,
            tunnel: self.tunnel,
            ..Flow::default()
        }
    }
}

/// Routes packets received on one device. It caches the last decision.
pub struct Input<'g> {
    ns: &'g Namespace,
    device: &'g Arc<Device>,
    guard: &'g Guard,
    loopback: bool,
    forwards: bool,
    rp_filter: i32,
    accept_local: bool,
    route_localnet: bool,
    /// The rules have been changed from the default.
    custom_rules: bool,
    /// Rules or hashes depend on ports.
    needs_ports: bool,
    last: Option<(Key, Verdict<'g>)>,
}

impl<'g> Input<'g> {
    /// Creates a router for packets received on `device`.
    pub fn new(ns: &'g Namespace, device: &'g Arc<Device>, guard: &'g Guard) -> Self {
        let flags = device.flags();
        let custom_rules = ns.fib().v4.rules().are_changed(guard);
        Self {
            ns,
            device,
            guard,
            // A VRF is the loopback device of its addresses.
            loopback: flags & weir_netlink::ifla::iff::LOOPBACK != 0 || device.is_l3_master(),
            forwards: device.conf().ipv4.on(Ipv4Conf::Forwarding),
            rp_filter: larger(ns, device, Ipv4Conf::RpFilter),
            accept_local: on_either(ns, device, Ipv4Conf::AcceptLocal),
            route_localnet: on_either(ns, device, Ipv4Conf::RouteLocalnet),
            custom_rules,
            needs_ports: custom_rules || ns.conf().ipv4.get(Conf::FibMultipathHashPolicy) != 0,
            last: None,
        }
    }

    /// Returns the local table if packets may be forwarded by their route alone: no rule and
    /// no check of their source is to be applied. A packet that goes back to its device needs more, and one whose
    /// destination is an exception of the route.
    #[inline]
    pub(super) fn straight(&self) -> Option<Option<&'g Table<u32, Arc<Device>>>> {
        if self.loopback || !self.forwards || self.rp_filter != 0 || self.custom_rules {
            return None;
        }
        let table = self.ns.fib().v4.table(rta::table::LOCAL, self.guard);
        Some(table.map(|table| &**table))
    }

    /// Returns the index of the device.
    #[inline]
    pub(super) fn ifindex(&self) -> u32 {
        self.device.ifindex()
    }

    /// Returns whether the device forwards packets.
    pub fn forwards(&self) -> bool {
        self.forwards
    }

    /// Routes a packet with a validated header; `data` begins with it. `tunnel` returns the key of
    /// the tunnel the packet was received from. `hint` is what a look-ahead found for the
    /// destination.
    #[inline]
    pub fn route(
        &mut self,
        header: &Ipv4<'_>,
        data: &[u8],
        mark: u32,
        tunnel: impl FnOnce() -> u64,
        hint: Hint<'g, Arc<Device>>,
    ) -> Verdict<'g> {
        let mut key = Key {
            src: header.src().into(),
            dst: header.dst().into(),
            // Without the ECN bits and the precedence (`IPTOS_RT_MASK`).
            tos: header.tos() & 0x1c,
            mark,
            proto: 0,
            sport: 0,
            dport: 0,
            tunnel: 0,
        };
        if self.custom_rules {
            key.tunnel = tunnel();
        }
        if self.needs_ports {
            key.proto = header.protocol();
            if !header.is_fragment() {
                let payload = data.get(header.header_len()..).unwrap_or_default();
                (key.sport, key.dport) = ports(key.proto, payload);
            }
        }
        if let Some((last, verdict)) = &self.last
            && *last == key
        {
            return *verdict;
        }
        let verdict = self.find(&key, header, data, hint);
        // Don't cache ICMP: an error may be routed by the addresses of the packet it quotes.
        if header.protocol() != IPPROTO_ICMP {
            self.last = Some((key, verdict));
        }
        verdict
    }

    fn find(
        &self,
        key: &Key,
        header: &Ipv4<'_>,
        data: &[u8],
        hint: Hint<'g, Arc<Device>>,
    ) -> Verdict<'g> {
        let (src, dst) = (key.src, key.dst);
        if src.is_multicast() || src.is_broadcast() {
            return Verdict::Drop(DropReason::IP_INVALID_SOURCE);
        }
        if dst.is_multicast() {
            return self.group(key, header.protocol());
        }
        if dst.is_broadcast() || (src.is_unspecified() && dst.is_unspecified()) {
            return self.broadcast(key);
        }
        if src.is_unspecified() {
            return Verdict::Drop(DropReason::IP_INVALID_SOURCE);
        }
        if dst.is_unspecified() {
            return Verdict::Drop(DropReason::IP_INVALID_DEST);
        }
        if (dst.is_loopback() || src.is_loopback()) && !self.loopback && !self.route_localnet {
            return Verdict::Drop(DropReason::IP_LOCALNET);
        }
        let flow = key.flow(self.device.ifindex(), self.device.l3_table());
        let found = self
            .ns
            .fib()
            .v4
            .lookup_after(hint, &flow, LookupFlags::default(), self.guard);
        let found = match found {
            Ok(found) => found,
            Err(_) if !self.forwards => return Verdict::Refuse(errno::EHOSTUNREACH),
            Err(errno) => return Verdict::Refuse(errno),
        };
        match found.info.kind() {
            rta::rtn::BROADCAST => {
                let forwards = self.device.conf().ipv4.on(Ipv4Conf::BcForwarding)
                    && self.ns.conf().all.ipv4.on(Ipv4Conf::BcForwarding);
                if !forwards {
                    return self.broadcast(key);
                }
            }
            rta::rtn::LOCAL => {
                return match self.check_source(key, dst, 0) {
                    Ok(()) => Verdict::Local(To::Us),
                    Err(reason) => Verdict::Drop(reason),
                };
            }
            _ if !self.forwards => return Verdict::Refuse(errno::EHOSTUNREACH),
            rta::rtn::UNICAST => {}
            _ => return Verdict::Drop(DropReason::IP_INVALID_DEST),
        }
        let found = if found.is_multipath() {
            let hash = multipath_hash(self.ns, &flow, header, data);
            found.select(hash)
        } else {
            found
        };
        let Some(hop) = Hop::new(self.ns, &found, dst, self.guard) else {
            return Verdict::Drop(DropReason::IP_INNOROUTES);
        };
        match self.check_source(key, dst, found.hop.oif) {
            Ok(()) => Verdict::Forward(hop),
            Err(reason) => Verdict::Drop(reason),
        }
    }

    /// Decides on a broadcast to us.
    fn broadcast(&self, key: &Key) -> Verdict<'g> {
        if !key.src.is_unspecified()
            && let Err(reason) = self.check_source(key, Ipv4Addr::UNSPECIFIED, 0)
        {
            return Verdict::Drop(reason);
        }
        Verdict::Local(To::All)
    }

    /// Returns whether the device or its VRF is a member of a group. Every device is one of 224.0.0.1, also while it is
    /// down.
    fn is_member(&self, group: Ipv4Addr) -> bool {
        let has = |device: &Arc<Device>| device.ipv4().groups.has(group);
        let vrf = || self.device.l3_master(self.guard);
        group == ALL_HOSTS || has(self.device) || vrf().is_some_and(has)
    }

    /// Decides on a multicast packet (`ip_route_input_mc`).
    fn group(&self, key: &Key, protocol: u8) -> Verdict<'g> {
        let ours = self.is_member(key.dst);
        let routed = !is_local(key.dst) && forwards_multicast(self.ns, self.device);
        if !ours && !routed {
            return Verdict::Drop(DropReason::IP_INVALID_DEST);
        }
        let src = key.src;
        if src.is_loopback() && !self.loopback && !self.route_localnet {
            return Verdict::Drop(DropReason::IP_LOCALNET);
        }
        if !src.is_unspecified() {
            if let Err(reason) = self.check_source(key, Ipv4Addr::UNSPECIFIED, 0) {
                return Verdict::Drop(reason);
            }
        } else if protocol != weir_packet::header::ipv4::IPPROTO_IGMP
            && key.dst.octets()[..3] != [224, 0, 0]
        {
            return Verdict::Drop(DropReason::IP_INVALID_SOURCE);
        }
        match routed {
            true => Verdict::Multicast(ours),
            false => Verdict::Local(To::Group),
        }
    }

    /// Checks whether the source address is plausible (`fib_validate_source`). `oif` is the index
    /// of the outgoing device, or 0 for local delivery.
    #[inline]
    fn check_source(&self, key: &Key, dst: Ipv4Addr, oif: u32) -> Result<(), DropReason> {
        // Packets on the loopback device are our own.
        if self.loopback {
            return Ok(());
        }
        if self.rp_filter == 0
            && (self.device.ifindex() != oif
                || !on_either(self.ns, self.device, Ipv4Conf::SendRedirects))
            && (self.accept_local || !self.custom_rules)
        {
            if self.accept_local || !is_ours(self.ns, key.src, self.guard) {
                return Ok(());
            }
            return Err(DropReason::IP_LOCAL_SOURCE);
        }
        self.check_source_fully(key, dst, oif)
    }

    /// Performs the full check (`__fib_validate_source`).
    fn check_source_fully(&self, key: &Key, dst: Ipv4Addr, oif: u32) -> Result<(), DropReason> {
        let strict = || {
            if self.rp_filter == 0 {
                Ok(())
            } else {
                Err(DropReason::IP_RPFILTER)
            }
        };
        let marked = on_either(self.ns, self.device, Ipv4Conf::SrcValidMark);
        let flow = Flow {
            dst: key.src.into(),
            src: dst.into(),
            iif: if oif == 0 { LOOPBACK } else { oif },
            l3_table: self.device.l3_table(),
            mark: if marked { key.mark } else { 0 },
            tos: key.tos,
            proto: key.proto,
            sport: key.dport,
            dport: key.sport,
            ..Flow::default()
        };
        let fib = &self.ns.fib().v4;
        let Ok(found) = fib.lookup(&flow, LookupFlags::default(), self.guard) else {
            return strict();
        };
        match found.info.spec.kind {
            rta::rtn::UNICAST => {}
            rta::rtn::LOCAL if self.accept_local => {}
            rta::rtn::LOCAL => return Err(DropReason::IP_LOCAL_SOURCE),
            _ => return Err(DropReason::IP_INVALID_SOURCE),
        }
        let ours = self.device.ifindex();
        if found
            .info
            .paths(self.guard)
            .iter()
            .any(|hop| hop.oif == ours)
        {
            return Ok(());
        }
        if self.device.ipv4().addresses.list(self.guard).is_empty() {
            return strict();
        }
        if self.rp_filter == 1 {
            return Err(DropReason::IP_RPFILTER);
        }
        // Loose mode accepts any route, and there is one.
        Ok(())
    }
}

/// Returns whether an address is one of the namespace's own (`inet_lookup_ifaddr_rcu`).
#[inline]
pub fn is_ours(ns: &Namespace, address: Ipv4Addr, guard: &Guard) -> bool {
    let Some(local) = ns.fib().v4.table(rta::table::LOCAL, guard) else {
        return false;
    };
    if !local.may_cover(address.into()) {
        return false;
    }
    let flow = Flow {
        dst: address.into(),
        ..Flow::default()
    };
    let found = local.lookup(&flow, LookupFlags::default(), guard);
    found.is_ok_and(|found| found.info.kind() == rta::rtn::LOCAL)
}

/// Returns whether an address is one of those in the table of an L3 domain (0: none).
fn is_ours_in(ns: &Namespace, table: u32, address: Ipv4Addr, guard: &Guard) -> bool {
    table != 0 && ns.fib().v4.address_type(address, table, guard) == rta::rtn::LOCAL
}

/// Returns the `RTN_*` type of an address as seen from a device (`inet_addr_type_dev_table`).
pub fn address_type_on(
    ns: &Namespace,
    device: &Arc<Device>,
    address: Ipv4Addr,
    guard: &Guard,
) -> u8 {
    ns.fib().v4.address_type_on(device, address, guard)
}

/// Returns whether an address is that of another host, as options of IPv4 ask ([`Here`](weir_packet::header::ipv4_options::Here)).
pub fn is_elsewhere(ns: &Namespace, address: [u8; 4], guard: &Guard) -> bool {
    address_type(ns, address.into(), guard) == rta::rtn::UNICAST
}

/// Returns the `RTN_*` type of an address according to the local table (`inet_addr_type`).
pub fn address_type(ns: &Namespace, address: Ipv4Addr, guard: &Guard) -> u8 {
    ns.fib().v4.address_type(address, rta::table::LOCAL, guard)
}

/// Computes the hash that selects a multipath hop. An ICMP error takes the path of the packet it
/// quotes (`fib_multipath_hash`).
fn multipath_hash(ns: &Namespace, flow: &Flow<u32>, header: &Ipv4<'_>, data: &[u8]) -> u32 {
    let policy = ns.conf().ipv4.get(Conf::FibMultipathHashPolicy);
    let mut flow = *flow;
    if policy == 0 && header.protocol() == IPPROTO_ICMP && !header.is_fragment() {
        let message = data.get(header.header_len()..).unwrap_or_default();
        if message.first().is_some_and(|ty| is_error_v4(*ty))
            && let Some(inner) = message.get(8..).and_then(Ipv4::new)
        {
            flow.src = u32::from_be_bytes(inner.src());
            flow.dst = u32::from_be_bytes(inner.dst());
        }
    }
    if policy == 0 {
        // As in Linux, both directions of a flow use the same hop.
        (flow.src, flow.dst) = (flow.src.min(flow.dst), flow.src.max(flow.dst));
    }
    let fields = ns.conf().ipv4.get(Conf::FibMultipathHashFields);
    HashPolicy::new(policy, fields).hash(&flow)
}

/// Computes the hash that selects a multipath hop of a packet that is sent.
pub fn flow_hash(ns: &Namespace, flow: &Flow<u32>) -> u32 {
    let fields = ns.conf().ipv4.get(Conf::FibMultipathHashFields);
    let policy = ns.conf().ipv4.get(Conf::FibMultipathHashPolicy);
    HashPolicy::new(policy, fields).hash(flow)
}

/// The routing key of a locally generated packet.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// The destination address.
    pub dst: Ipv4Addr,
    /// The source address, if already selected.
    pub src: Option<Ipv4Addr>,
    /// The type of service.
    pub tos: u8,
    /// Firewall mark.
    pub mark: u32,
    /// The transport protocol.
    pub proto: u8,
}

/// The route of a locally generated packet.
#[derive(Debug, Clone, Copy)]
pub struct Output<'g> {
    /// The outgoing hop.
    pub hop: Hop<'g>,
    /// The source address.
    pub src: Ipv4Addr,
    /// `RTAX_HOPLIMIT`, or 0 for the default.
    pub hop_limit: u32,
}

/// Routes a locally generated packet.
///
/// # Errors
/// A positive errno.
pub fn output<'g>(ns: &'g Namespace, wanted: &Wanted, guard: &'g Guard) -> Result<Output<'g>, i32> {
    output_by(ns, wanted, 0, guard)
}

/// Like [`output`], through the device with index `oif` (0: any). Without a route, a destination is on the link of that
/// device, unless the device is in a VRF.
///
/// # Errors
/// A positive errno.
pub fn output_by<'g>(
    ns: &'g Namespace,
    wanted: &Wanted,
    oif: u32,
    guard: &'g Guard,
) -> Result<Output<'g>, i32> {
    let (l3_table, oif) = l3_output(ns, oif, guard);
    if let Some(src) = wanted.src
        && (src.is_multicast()
            || src.is_broadcast()
            || src.is_unspecified()
            || !(is_ours(ns, src, guard) || is_ours_in(ns, l3_table, src, guard)))
    {
        return Err(errno::EINVAL);
    }
    let flow = Flow {
        dst: wanted.dst.into(),
        src: wanted.src.map_or(0, u32::from),
        iif: LOOPBACK,
        oif,
        l3_table,
        mark: wanted.mark,
        tos: wanted.tos & 0x1c,
        proto: wanted.proto,
        ..Flow::default()
    };
    let found = match ns.fib().v4.lookup(&flow, LookupFlags::default(), guard) {
        Ok(found) => found,
        // The caller knows better: the destination is on the link.
        Err(errno) => {
            let device = ns.device(oif, guard).filter(|_| l3_table == 0);
            let device = device.ok_or(errno)?;
            if !device.is_up() || !device.has_ipv4() {
                return Err(errno::ENETUNREACH);
            }
            let any = Ipv4Addr::UNSPECIFIED;
            let chosen = || select::select_address(ns, device, any, rta::scope::LINK, guard);
            return Ok(Output {
                hop: Hop::on_link(device, wanted.dst),
                src: wanted.src.or_else(chosen).unwrap_or(any),
                hop_limit: 0,
            });
        }
    };
    let hop_limit = found.info.metric(rta::ax::HOPLIMIT);
    if found.info.spec.kind == rta::rtn::LOCAL {
        let prefsrc = match found.info.spec.prefsrc {
            Some(IpAddr::V4(address)) => Some(address),
            _ => None,
        };
        let named = found.hop.device.as_ref();
        let device = named
            .and_then(|named| named.l3_master(guard))
            .or_else(|| ns.device(LOOPBACK, guard))
            .ok_or(errno::ENETUNREACH)?;
        let hop = Hop {
            device,
            next_hop: wanted.dst.into(),
            mtu: device.mtu().min(0xffff),
            broadcast: false,
            via: None,
            encap: None,
        };
        return Ok(Output {
            hop,
            src: wanted.src.or(prefsrc).unwrap_or(wanted.dst),
            hop_limit,
        });
    }
    let found = if found.is_multipath() {
        found.select(flow_hash(ns, &flow))
    } else {
        found
    };
    let hop = Hop::new(ns, &found, wanted.dst, guard).ok_or(errno::ENETUNREACH)?;
    let src = match wanted.src {
        Some(src) => src,
        None => preferred_source(ns, &found, guard).unwrap_or(Ipv4Addr::UNSPECIFIED),
    };
    if src.is_loopback() && !on_either(ns, hop.device, Ipv4Conf::RouteLocalnet) {
        return Err(errno::EINVAL);
    }
    Ok(Output {
        hop,
        src,
        hop_limit,
    })
}

/// Returns the preferred source of a route (`fib_result_prefsrc`).
pub(super) fn preferred_source(
    ns: &Namespace,
    found: &Route<'_>,
    guard: &Guard,
) -> Option<Ipv4Addr> {
    if let Some(IpAddr::V4(address)) = found.info.spec.prefsrc {
        return Some(address);
    }
    let gateway = match found.hop.gateway {
        Some(IpAddr::V4(gateway)) => gateway,
        _ => Ipv4Addr::UNSPECIFIED,
    };
    let device = found.hop.device.as_ref()?;
    select::select_address(ns, device, gateway, found.info.spec.scope, guard)
}

/// Returns our address as the packet's sender knows it: the destination if that is one of our
/// addresses, else the source we would reply from (`fib_compute_spec_dst`).
pub fn specific_destination(
    ns: &Namespace,
    device: &Device,
    packet: &Packet,
    to: Option<To>,
    guard: &Guard,
) -> Option<Ipv4Addr> {
    let header = Ipv4::new(packet.data())?;
    if to == Some(To::Us) {
        return Some(header.dst().into());
    }
    let src = Ipv4Addr::from(header.src());
    if src.is_unspecified() {
        return select::select_address(ns, device, Ipv4Addr::UNSPECIFIED, rta::scope::LINK, guard);
    }
    let flow = Flow {
        dst: src.into(),
        iif: LOOPBACK,
        l3_table: device.l3_table(),
        tos: header.tos() & 0x1c,
        ..Flow::default()
    };
    match ns.fib().v4.lookup(&flow, LookupFlags::default(), guard) {
        Ok(found) => preferred_source(ns, &found, guard),
        Err(_) => select::select_address(ns, device, src, rta::scope::UNIVERSE, guard),
    }
}
