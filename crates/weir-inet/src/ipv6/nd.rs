// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Neighbour discovery (RFC 4861, `net/ipv6/ndisc.c`): sending and receiving solicitations and
//! advertisements, the messages of duplicate address detection, and redirects sent by a router.
//!
//! From a router solicitation, a router learns its sender; nobody answers it. A router advertisement
//! ends the router solicitations of its receiver ([`super::solicit`]); its contents and redirects are
//! accepted and ignored (`accept_redirects` is only stored).
//!
//! A router answers for the addresses of proxy entries (`proxy_ndp`), and like for anycast addresses after a random
//! time (`proxy_delay`, `proxy_qlen`), unless it is asked by unicast.
//!
//! Not implemented: nonces in duplicate address detection (`enhanced_dad`: a
//! solicitation that is looped back counts as another host's), unsolicited advertisements (`ndisc_notify`),
//! `accept_untracked_na`.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use weir_netlink::ifa;
use weir_packet::header::icmp::fill_check_v6;
use weir_packet::header::ipv6::{IPPROTO_ICMPV6, NEXTHDR_HOP, ipv6};
use weir_packet::header::ndisc::{
    NA_OVERRIDE, NA_ROUTER, NA_SOLICITED, ND_OPT_REDIRECT_HDR, ND_OPT_SOURCE_LL_ADDR,
    ND_OPT_TARGET_LL_ADDR, NDISC_NEIGHBOUR_ADVERTISEMENT, NDISC_NEIGHBOUR_SOLICITATION,
    NDISC_REDIRECT, NDISC_ROUTER_ADVERTISEMENT, NDISC_ROUTER_SOLICITATION, Neighbour, Redirect,
    RedirectMut, RouterSolicitation, advertisement, dad_solicitation, options, solicitation,
    solicited_node,
};
use weir_packet::header::{ETH_P_IPV6, Icmp, Ipv6};
use weir_packet::packet::Flags;
use weir_packet::{Batch, DropReason, NodeType, Packet, PacketType, VlanTag};

use super::forward::Hop;
use super::select::{link_local_of, own_kind, select_address};
use super::{output, redirected};
use crate::cpu::Cx;
use crate::device::{Device, Mac};
use crate::drops::Place;
use crate::ipv4::WithIpv4;
use crate::ipv6::WithIpv6;
use crate::layers::Site;
use crate::mib::Count;
use crate::mib::{Icmp as Counter, Ip, Way};
use crate::namespace::Namespace;
use crate::neigh::WithNeighbours;
use crate::neigh::proxy::{self, Proxies, Proxy};
use crate::neigh::{Update, nud};
use crate::settings::WithSettings;
use crate::settings::{Ipv6 as Slot, Ipv6Conf};
use crate::sockets::{Arrived, interest, sockets};
use crate::stack::Stack;
use weir_sync::rcu::Guard;

/// The hop limit of all messages. It proves that no router forwarded them.
const HOP_LIMIT: u8 = 255;
pub(super) const ALL_NODES: Ipv6Addr = super::group::ALL_NODES[1];

/// The header fields of a message on a device's link.
pub(super) struct Outgoing<'a> {
    pub src: Ipv6Addr,
    pub dst: Ipv6Addr,
    pub hop_limit: u8,
    /// The hop-by-hop options header, or nothing.
    pub options: &'a [u8],
    /// The priority in the queue (`skb->priority`).
    pub priority: u32,
    /// The VLAN tag, if the device is below a VLAN device whose packet this is.
    pub tag: Option<VlanTag>,
    /// This host's raw sockets get a copy.
    pub loops: bool,
}

impl Outgoing<'_> {
    /// The header of a message of neighbour discovery.
    fn discovery(src: Ipv6Addr, dst: Ipv6Addr) -> Self {
        Self {
            src,
            dst,
            hop_limit: HOP_LIMIT,
            options: &[],
            priority: 0,
            tag: None,
            loops: false,
        }
    }
}

/// Sends an ICMPv6 message to a neighbour or a group on the device's link (`ndisc_send_skb`,
/// `mld_sendpack`).
pub(super) fn send(cx: &mut Cx<'_>, device: &Arc<Device>, out: &Outgoing<'_>, message: &[u8]) {
    let options = out.options;
    let len = options.len() + message.len();
    let Some(mut packet) = cx.stack.pool.alloc(Ipv6::LEN + len) else {
        return;
    };
    let protocol = match options {
        [] => IPPROTO_ICMPV6,
        _ => NEXTHDR_HOP,
    };
    let (src, dst) = (out.src.octets(), out.dst.octets());
    let head = ipv6(src, dst, protocol, out.hop_limit, 0, 0, len);
    let parts = head.iter().chain(options).chain(message);
    for (to, from) in packet.data_mut().iter_mut().zip(parts) {
        *to = *from;
    }
    packet.set_network(0);
    packet.set_transport(Ipv6::LEN + options.len());
    packet.protocol = ETH_P_IPV6;
    packet.priority = out.priority;
    packet.set_vlan(out.tag);
    packet.flags.insert(Flags::LOCAL);
    packet.time = cx.now;
    packet.dev = device.key.0;
    let mib = cx.mib6(device);
    mib.ip(Ip::OutRequests, 1);
    mib.ip(Ip::OutOctets, packet.len() as u64);
    mib.icmp(Counter::OutMsgs);
    mib.message(Way::Out, message.first().copied().unwrap_or(0));
    if out.loops {
        loop_back(cx, device, &packet, Ipv6::LEN + options.len());
    }
    let batch = Batch::from(packet);
    output::count_multicast(cx, device, out.dst, &batch);
    crate::neigh::output(cx, device, out.dst.into(), false, batch);
}

/// Passes a copy of a message, which begins at `at`, to this host's raw sockets, as one that comes back from the device. The host
/// itself takes none of its own (`dev_loopback_xmit`).
fn loop_back(cx: &mut Cx<'_>, device: &Arc<Device>, packet: &Packet, at: usize) {
    let ns = device.namespace(cx.guard);
    let Some(mut copy) = packet.copy() else {
        return device.count_drop(Place::Ipv6Local, DropReason::NOMEM);
    };
    copy.set_pkt_type(PacketType::Loopback);
    copy.iif = device.ifindex();
    let mib = cx.mib6(device);
    mib.ip(Ip::InReceives, 1);
    mib.ip(Ip::InOctets, copy.len() as u64);
    mib.ip(Ip::InDelivers, 1);
    mib.icmp(Counter::InMsgs);
    let kind = copy.data().get(at).copied();
    mib.message(Way::In, kind.unwrap_or(0));
    if let Some(hooks) = sockets(ns).hooks(interest::RAW) {
        let arrived = Arrived {
            device,
            ns,
            ipv6: true,
            at,
            group: true,
        };
        (hooks.raw)(cx, &arrived, IPPROTO_ICMPV6, &copy);
    }
    cx.consume(copy);
}

/// Sends a message of neighbour discovery.
pub(super) fn send_nd(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    src: Ipv6Addr,
    dst: Ipv6Addr,
    message: &[u8],
) {
    send(cx, device, &Outgoing::discovery(src, dst), message);
}

/// Sends a solicitation for `target`, to the neighbour `to` alone or by multicast
/// (`ndisc_solicit`). `waiting` is a packet that waits for the answer; if its source is ours, the
/// solicitation uses it.
pub fn solicit(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    target: Ipv6Addr,
    to: Option<Mac>,
    waiting: Option<&Packet>,
) {
    let header = waiting.and_then(|packet| Ipv6::new(packet.network()));
    let source = header.map(|header| Ipv6Addr::from(header.src()));
    let own = |source: &Ipv6Addr| {
        let address = device.ipv6().addresses.get(*source, cx.guard);
        address.is_some_and(|address| !address.is_tentative())
    };
    let source = source
        .filter(own)
        .or_else(|| link_local_of(device, cx.guard));
    let Some(source) = source else {
        return;
    };
    // If the entry has an address and is being probed, its own header leads to the target.
    let dst = match to {
        Some(_) => target,
        None => Ipv6Addr::from(solicited_node(target.octets())),
    };
    let message = solicitation(
        source.octets(),
        dst.octets(),
        target.octets(),
        Some(device.address()),
    );
    send_nd(cx, device, source, dst, &message);
}

/// Sends a solicitation for `target` by a port of a bond: `src` is an address of the bond or of a device above it, or
/// unspecified, and then the message has no link-layer address (`bond_ns_send`).
pub fn solicit_by_port(
    cx: &mut Cx<'_>,
    port: &Arc<Device>,
    (src, target): (Ipv6Addr, Ipv6Addr),
    tag: Option<VlanTag>,
) {
    let dst = Ipv6Addr::from(solicited_node(target.octets()));
    let mac = (!src.is_unspecified()).then(|| port.address());
    let message = solicitation(src.octets(), dst.octets(), target.octets(), mac);
    let out = Outgoing {
        tag,
        ..Outgoing::discovery(src, dst)
    };
    send(cx, port, &out, &message);
}

/// Sends a solicitation to find out whether another host has the tentative address `target`
/// (`ndisc_send_ns` from the unspecified address, RFC 4862).
pub fn probe_address(cx: &mut Cx<'_>, device: &Arc<Device>, target: Ipv6Addr) {
    let dst = Ipv6Addr::from(solicited_node(target.octets()));
    let message = dad_solicitation(target.octets());
    send_nd(cx, device, Ipv6Addr::UNSPECIFIED, dst, &message);
}

/// Advertises `target` as ours (`ndisc_send_na`).
fn advertise(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    dst: Ipv6Addr,
    target: Ipv6Addr,
    flags: u32,
    with_option: bool,
) {
    let own = device.ipv6().addresses.get(target, cx.guard).is_some();
    let source = if own {
        Some(target)
    } else {
        let ns = device.namespace(cx.guard);
        select_address(ns, Some(device), dst, cx.guard)
    };
    let Some(source) = source else {
        return;
    };
    let mac = with_option.then(|| device.address());
    let message = advertisement(source.octets(), dst.octets(), flags, target.octets(), mac);
    send_nd(cx, device, source, dst, &message);
}

/// Advertises a device's addresses to its neighbours without being asked (`ndisc_send_unsol_na`).
pub(super) fn announce(stack: &Stack, guard: &Guard, device: &Arc<Device>) {
    if device.ipv6().addresses.list(guard).is_empty() {
        return;
    }
    let device = device.clone();
    stack.post(Box::new(move |cx| {
        let mut flags = NA_OVERRIDE;
        if device.conf().ipv6.on(Ipv6Conf::Forwarding) {
            flags |= NA_ROUTER;
        }
        for address in device.ipv6().addresses.list(cx.guard) {
            if !address.is_tentative() {
                advertise(cx, &device, ALL_NODES, address.address, flags, true);
            }
        }
    }));
}

/// Receives a message addressed to us that starts `at` bytes into the packet. Its checksum has been
/// verified (`ndisc_rcv`).
pub fn receive(cx: &mut Cx<'_>, device: &Arc<Device>, at: usize, packet: Packet) {
    match judge(cx, device, at, &packet) {
        Ok(()) => cx.consume(packet),
        Err(reason) => cx.drop(device, Place::Ipv6Local, reason, packet),
    }
}

fn judge(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    at: usize,
    packet: &Packet,
) -> Result<(), DropReason> {
    let data = packet.data();
    let header = Ipv6::new(data).ok_or(DropReason::PKT_TOO_SMALL)?;
    let message = data.get(at..).unwrap_or_default();
    let icmp = Icmp::new(message).ok_or(DropReason::PKT_TOO_SMALL)?;
    if packet.flags.contains(Flags::REASSEMBLED) {
        return Err(DropReason::IPV6_NDISC_FRAG);
    }
    if header.hop_limit() != HOP_LIMIT {
        return Err(DropReason::IPV6_NDISC_HOP_LIMIT);
    }
    if icmp.code() != 0 {
        return Err(DropReason::IPV6_NDISC_BAD_CODE);
    }
    let ends = Ends {
        src: header.src().into(),
        dst: header.dst().into(),
        looped: packet.pkt_type() == PacketType::Loopback,
    };
    match icmp.icmp_type() {
        NDISC_NEIGHBOUR_SOLICITATION => {
            let delays = packet.pkt_type() != PacketType::Host && proxy::is_delayed(device, true);
            solicited(cx, device, ends, message, delays)
        }
        NDISC_NEIGHBOUR_ADVERTISEMENT => advertised(cx, device, ends, message),
        NDISC_ROUTER_SOLICITATION => router_solicited(cx, device, ends, message),
        NDISC_ROUTER_ADVERTISEMENT => {
            super::ra::received(cx, device, ends.src, message, packet.node_type())
        }
        NDISC_REDIRECT if matches!(packet.node_type(), NodeType::Host | NodeType::NoDefault) => {
            Err(DropReason::NOT_SPECIFIED)
        }
        NDISC_REDIRECT => better_hop(cx, device, &header, message),
        _ => Ok(()),
    }
}

/// The source and destination of a message.
#[derive(Clone, Copy)]
struct Ends {
    src: Ipv6Addr,
    dst: Ipv6Addr,
    /// The message is our own, looped back.
    looped: bool,
}

/// Returns the first link-layer address option of type `kind`. All options must be well formed
/// (`ndisc_parse_options`).
fn option(bytes: &[u8], kind: u8) -> Result<Option<Mac>, DropReason> {
    let mut found = None;
    for option in options(bytes) {
        let option = option.map_err(|_| DropReason::IPV6_NDISC_BAD_OPTIONS)?;
        if option.kind == kind && found.is_none() {
            // A different length belongs to a different link layer.
            if option.body.len() != 6 {
                return Err(DropReason::NOT_SPECIFIED);
            }
            found = option.mac();
        }
    }
    Ok(found)
}

/// Learns or confirms a neighbour's address (`ndisc_update`).
pub(super) fn update(
    cx: &Cx<'_>,
    device: &Arc<Device>,
    address: Ipv6Addr,
    make: bool,
    update: Update,
) -> bool {
    let ns = device.namespace(cx.guard);
    let address = IpAddr::V6(address);
    let entry = match ns.neighbours().get(device.key, address, cx.guard) {
        Some(entry) => Some(entry.clone()),
        None if make => ns
            .neighbours()
            .get_or_make(cx.stack, device, address, cx.guard),
        None => None,
    };
    let Some(entry) = entry else {
        return false;
    };
    // As in Linux, a rejected update is not an error of the message.
    let _ = entry.update(cx.stack, cx.guard, device, update);
    true
}

/// Returns the entry by which a router answers for another host (`pndisc_is_router`).
fn proxy_for(ns: &Namespace, device: &Device, target: Ipv6Addr) -> Option<Proxy> {
    let conf = &device.conf().ipv6;
    let on = conf.on(Ipv6Conf::ProxyNdp) || ns.conf().all.ipv6.on(Ipv6Conf::ProxyNdp);
    if !on || !conf.on(Ipv6Conf::Forwarding) {
        return None;
    }
    ns.neighbours()
        .proxies
        .find(Some(device.key), target.into())
}

/// Handles a neighbour solicitation (`ndisc_recv_ns`). If `delays` is set, an answer for another host waits.
fn solicited(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    ends: Ends,
    message: &[u8],
    delays: bool,
) -> Result<(), DropReason> {
    let ns = device.namespace(cx.guard);
    let header = Neighbour::new(message).ok_or(DropReason::PKT_TOO_SMALL)?;
    let target = Ipv6Addr::from(header.target());
    let detection = ends.src.is_unspecified();
    let to_solicited_node = ends
        .dst
        .octets()
        .starts_with(&[0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff]);
    if target.is_multicast() || (detection && !to_solicited_node) {
        return Err(DropReason::NOT_SPECIFIED);
    }
    let rest = message.get(Neighbour::LEN..).unwrap_or_default();
    let mac = option(rest, ND_OPT_SOURCE_LL_ADDR)?;
    if detection && mac.is_some() {
        return Err(DropReason::NOT_SPECIFIED);
    }
    let to_group = ends.dst.is_multicast();
    let own = device.ipv6().addresses.get(target, cx.guard);
    let mut proxy = None;
    match own {
        Some(address) if address.is_tentative() => {
            // Another host is detecting the same address.
            if detection {
                let site = Site::new(cx.stack, cx.guard, ns, device);
                device.ipv6().addresses.duplicate(&site, target);
            }
            return Ok(());
        }
        Some(_) => {}
        None => {
            if own_kind(ns, device, target, cx.guard) != Some(weir_netlink::rta::rtn::ANYCAST) {
                match proxy_for(ns, device, target) {
                    Some(entry) => proxy = Some(entry),
                    None => return Err(DropReason::IPV6_NDISC_NS_OTHERHOST),
                }
            }
            if delays && to_group {
                return wait(cx, device, ends, message);
            }
        }
    }
    let mine = own.is_some();
    let mut flags = 0;
    let is_router = match proxy {
        Some(proxy) => proxy.flags & weir_netlink::nda::ntf::ROUTER != 0,
        None => device.conf().ipv6.on(Ipv6Conf::Forwarding),
    };
    if is_router {
        flags |= NA_ROUTER;
    }
    if detection {
        if mine {
            flags |= NA_OVERRIDE;
        }
        advertise(cx, device, ALL_NODES, target, flags, true);
        return Ok(());
    }
    let known = update(
        cx,
        device,
        ends.src,
        !to_group || mac.is_some(),
        Update {
            mac,
            state: nud::STALE,
            replace: true,
            weak: true,
            admin: false,
            router: None,
            learned_elsewhere: None,
        },
    );
    if known {
        flags |= NA_SOLICITED;
        if mine && to_group {
            flags |= NA_OVERRIDE;
        }
        advertise(cx, device, ends.src, target, flags, to_group);
    }
    Ok(())
}

/// Lets a solicitation wait, and handles it again (`pndisc_redo`).
fn wait(cx: &Cx<'_>, device: &Arc<Device>, ends: Ends, message: &[u8]) -> Result<(), DropReason> {
    let message = message.to_vec();
    let again = move |cx: &mut Cx<'_>, device: &Arc<Device>| {
        if let Err(reason) = solicited(cx, device, ends, &message, false) {
            device.count_drop(Place::Ipv6Local, reason);
        }
    };
    match Proxies::delay(cx, device, true, again) {
        true => Ok(()),
        false => Err(DropReason::NOT_SPECIFIED),
    }
}

/// Handles a neighbour advertisement (`ndisc_recv_na`).
fn advertised(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    ends: Ends,
    message: &[u8],
) -> Result<(), DropReason> {
    let ns = device.namespace(cx.guard);
    let header = Neighbour::new(message).ok_or(DropReason::PKT_TOO_SMALL)?;
    let target = Ipv6Addr::from(header.target());
    let flags = header.flags();
    let asked = flags & NA_SOLICITED != 0;
    if target.is_multicast()
        || (ends.dst.is_multicast() && asked)
        || (!asked && device.conf().ipv6.on(Ipv6Conf::DropUnsolicitedNa))
    {
        return Err(DropReason::NOT_SPECIFIED);
    }
    let rest = message.get(Neighbour::LEN..).unwrap_or_default();
    let mac = option(rest, ND_OPT_TARGET_LL_ADDR)?;
    if let Some(own) = device.ipv6().addresses.get(target, cx.guard) {
        if own.has(ifa::f::TENTATIVE) && !ends.looped {
            let site = Site::new(cx.stack, cx.guard, ns, device);
            device.ipv6().addresses.duplicate(&site, target);
        }
        return Ok(());
    }
    let entry = ns
        .neighbours()
        .get(device.key, IpAddr::V6(target), cx.guard);
    if let Some(entry) = entry.filter(|entry| entry.state() & nud::FAILED == 0) {
        let entry = entry.clone();
        let was_router = entry.flags() & weir_netlink::nda::ntf::ROUTER != 0;
        update(
            cx,
            device,
            target,
            false,
            Update {
                mac,
                state: if asked { nud::REACHABLE } else { nud::STALE },
                replace: flags & NA_OVERRIDE != 0,
                weak: true,
                admin: false,
                router: Some(flags & NA_ROUTER != 0),
                learned_elsewhere: None,
            },
        );
        if was_router && entry.flags() & weir_netlink::nda::ntf::ROUTER == 0 {
            let site = Site::new(cx.stack, cx.guard, ns, device);
            super::ra::router_ended(&site, target);
        }
    }
    Ok(())
}

/// Handles a router solicitation (`ndisc_recv_rs`).
fn router_solicited(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    ends: Ends,
    message: &[u8],
) -> Result<(), DropReason> {
    let rest = message
        .get(RouterSolicitation::LEN..)
        .ok_or(DropReason::PKT_TOO_SMALL)?;
    if !device.conf().ipv6.on(Ipv6Conf::Forwarding) || ends.src.is_unspecified() {
        return Ok(());
    }
    let mac = option(rest, ND_OPT_SOURCE_LL_ADDR)?;
    update(
        cx,
        device,
        ends.src,
        true,
        Update {
            mac,
            state: nud::STALE,
            replace: true,
            weak: true,
            admin: false,
            router: Some(false),
            learned_elsewhere: None,
        },
    );
    Ok(())
}

/// Handles a redirect (`ndisc_redirect_rcv`).
fn better_hop(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    header: &Ipv6<'_>,
    message: &[u8],
) -> Result<(), DropReason> {
    if let Some(accepted) = redirected::judge(cx, device, header, message)?
        && update(cx, device, accepted.target, true, accepted.neighbour)
    {
        accepted.take(cx, device);
    }
    Ok(())
}

/// Sends a redirect to the sender of a packet that leaves through the device it came in by
/// (`ip6_forward`, `ndisc_send_redirect`). Redirects are limited to one per second and a burst of
/// six for a destination, and to the rate of errors for a sender.
pub fn redirect(cx: &mut Cx<'_>, device: &Arc<Device>, hop: &Hop<'_>, packet: &Packet) {
    let guard = cx.guard;
    let ns = device.namespace(guard);
    let about = packet.network();
    let Some(header) = Ipv6::new(about) else {
        return;
    };
    let (from, to) = (Ipv6Addr::from(header.src()), Ipv6Addr::from(header.dst()));
    if !ns.ipv4().peers.may_send(to.into(), 1000, cx.now) {
        return;
    }
    let Some(source) = link_local_of(device, guard) else {
        return;
    };
    // RFC 4861, 8.1: the target is a router's link-local address or the destination itself.
    if hop.gateway && !hop.next_hop.is_unicast_link_local() {
        return;
    }
    let Ok(route) = output::route(ns, source, from, device.ifindex(), guard) else {
        return;
    };
    if route.next_hop != from || route.is_local() || from.is_unspecified() || from.is_multicast() {
        return;
    }
    let limit = ns.conf().ipv6.get(Slot::IcmpRateLimit).max(0) as u64;
    if !ns.ipv4().peers.may_send(from.into(), limit, cx.now) {
        return;
    }
    let target = if hop.gateway { hop.next_hop } else { to };
    let entry = ns.neighbours().get(device.key, IpAddr::V6(target), guard);
    let mac = entry.and_then(|entry| entry.mac());
    let message = redirect_message(source, from, target, to, mac, about);
    send_nd(cx, device, source, from, &message);
}

/// Builds the message: the better hop, the destination, the hop's link-layer address, and as much
/// of the packet as fits.
fn redirect_message(
    source: Ipv6Addr,
    from: Ipv6Addr,
    target: Ipv6Addr,
    destination: Ipv6Addr,
    mac: Option<Mac>,
    about: &[u8],
) -> Vec<u8> {
    let mut message = vec![0; Redirect::LEN];
    if let Some(mut header) = RedirectMut::new(&mut message) {
        header
            .set_icmp_type(NDISC_REDIRECT)
            .set_target(target.octets())
            .set_destination(destination.octets());
    }
    if let Some(mac) = mac {
        message.extend([ND_OPT_TARGET_LL_ADDR, 1]);
        message.extend(mac);
    }
    let room = output::MIN_MTU as usize - Ipv6::LEN - message.len() - 8;
    // A multiple of eight bytes; the option's header takes another eight.
    let len = about.len().min(room) & !7;
    message.extend([ND_OPT_REDIRECT_HDR, (len / 8 + 1) as u8, 0, 0, 0, 0, 0, 0]);
    message.extend(about.get(..len).unwrap_or_default());
    fill_check_v6(source.octets(), from.octets(), &mut message);
    message
}
