// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Multicast routing of IPv6 (`net/ipv6/ip6mr.c`, `ip6_mc_input`), beside what it shares with IPv4 ([`crate::multicast`]).
//!
//! While there is a daemon, packets to groups of a scope above that of the link are routed, whatever device they come by.
//! MLD messages with a router alert go to this host instead, even if it is no member. A packet that does not fit the
//! outgoing device is answered with "packet too big".

use std::net::Ipv6Addr;
use std::sync::Arc;

use weir_netlink::{errno, rta};
use weir_packet::checksum::{verify, verify_v6};
use weir_packet::edit::ipv6_decrement_hop_limit;
use weir_packet::header::icmp::ICMPV6_PKT_TOOBIG;
use weir_packet::header::ipv4::IPPROTO_PIM;
use weir_packet::header::ipv6::{IPPROTO_ICMPV6, NEXTHDR_HOP, upper_layer};
use weir_packet::header::ipv6_ext::tlvs;
use weir_packet::header::{ETH_P_IPV6, Ipv6};
use weir_packet::{Batch, DropReason, Flags, Packet};
use weir_sync::once_box::OnceBox;

use super::select::is_member;
use super::{WithIpv6, icmp, local, output};
use crate::conf::Target;
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::fib::host::{AnyRule, Host};
use crate::fib::rule::Entry;
use crate::layers::{Hears, Module};
use crate::listen::{self, ConfEvent, conf6};
use crate::mib::{Count, Ip};
use crate::multicast::{
    self, Event, Family, Key, NewVif, PIM, Vif, is_pim_register, report, tables,
};
use crate::namespace::Namespace;
use crate::protocols::{Protocol, protocols};
use crate::settings::{HasIp, Ipv6Conf, WithSettings};
use crate::stack::Stack;
use crate::udp::Outer;

/// `IPV6_TLV_ROUTERALERT`
const ROUTER_ALERT: u8 = 5;
/// The ICMPv6 types of MLD (`ipv6_is_mld`).
const MLD: [u8; 4] = [130, 131, 132, 143];

/// The flag of a MIF whose packets go to the daemon (`MIFF_REGISTER`).
const REGISTER: u8 = 1;

/// IPv6, whose multicast packets are routed.
#[derive(Debug, Clone, Copy)]
pub struct V6;

/// Rules of multicast routes that name devices.
pub static RULES_MODULE: Module = Module {
    device_event: Some(Hears::of(tables::EVENTS, tables::device_event::<V6>)),
    ..Module::NONE
};

/// A multicast routing table.
pub type Router = multicast::Router<V6>;

impl Family for V6 {
    type Address = Ipv6Addr;
    type Ends = ();
    type Options = ();
    type Out<'g> = ();

    type Prefix = u128;

    const TABLE: u32 = rta::table::MAIN;
    const REGISTER: u16 = REGISTER as u16;
    const OWNED: u16 = REGISTER as u16;
    const REGISTER_NAME: &'static str = "pim6reg";
    const REGISTER_MTU: u32 = 1500 - Ipv6::LEN as u32 - PIM as u32;
    const ETHERTYPE: u16 = ETH_P_IPV6;
    const TABLES: u32 = 100_000_000;
    const PLACE: Place = Place::Ipv6Forward;
    const JUDGES_OWN: bool = true;
    const OWN_BY_OUTPUT: bool = false;

    fn place(ns: &Namespace) -> &OnceBox<multicast::Routers<Self>> {
        &ns.ipv6().multicast
    }

    fn tell(stack: &Stack, ns: &Namespace, router: &Router, event: &Event<'_, Ipv6Addr>) {
        listen::multicast6(stack, ns, router, event);
    }

    fn any_rule(rule: &Entry<Self::Prefix>) -> AnyRule<'_> {
        AnyRule::Multicast6(rule)
    }

    fn counts(device: &Device) -> bool {
        device.has_ipv6()
    }

    fn count(stack: &Stack, ns: &Namespace, target: &Target, by: i32) {
        let conf = match target {
            Target::Device(device) => &device.conf().ipv6,
            _ => &ns.conf().all.ipv6,
        };
        let slot = Ipv6Conf::McForwarding;
        conf.set(slot, conf.get(slot) + by);
        conf6(stack, ns, &ConfEvent::Changed(target, slot));
    }

    fn head(packet: &[u8]) -> Option<(Key<Ipv6Addr>, u8)> {
        let header = Ipv6::new(packet)?;
        let key = Key {
            origin: header.src().into(),
            group: header.dst().into(),
        };
        Some((key, header.hop_limit()))
    }

    fn report(packet: &[u8], kind: u8, vif: u16) -> Option<Vec<u8>> {
        let header = Ipv6::new(packet)?;
        // A `struct mrt6msg` has the addresses where the header has them. Unless the packet follows, as many bytes do, which
        // mean nothing.
        let mut report = vec![0; 2 * Ipv6::LEN];
        if matches!(kind, report::WHOLE | report::WRONG_VIF_WHOLE) {
            report.truncate(Ipv6::LEN);
            report.extend_from_slice(packet);
        }
        let head = report.first_chunk_mut::<{ Ipv6::LEN }>()?;
        head[1] = kind;
        head[2..4].copy_from_slice(&vif.to_ne_bytes());
        head[8..24].copy_from_slice(&header.src());
        head[24..40].copy_from_slice(&header.dst());
        Some(report)
    }

    fn prepare(host: &Host<'_>, _: &Device) {
        let protocol = Protocol {
            ipv6: true,
            number: IPPROTO_PIM,
        };
        protocols(host.ns).add(&host.stack.domain, protocol, receive_pim, host.guard);
    }

    fn send<'g, 'c: 'g>(
        cx: &mut Cx<'c>,
        (device, ns): (&Arc<Device>, &'g Arc<Namespace>),
        vif: &'g Vif<V6>,
        packet: Packet,
        _: Option<&()>,
        (): &mut (),
    ) {
        send(cx, (device, ns), vif, packet);
    }

    fn flush(_: &mut Cx<'_>, (): &mut ()) {}
}

/// Adds a MIF for the socket with a cookie (`MRT6_ADD_MIF`). `flags` are `MIFF_*`.
///
/// # Errors
/// EADDRINUSE if the number is taken, EADDRNOTAVAIL without a device, ENOBUFS for a register MIF whose device's name
/// is taken, EINVAL for other flags.
pub fn add_mif(
    host: &Host<'_>,
    router: &Router,
    number: u8,
    flags: u8,
    ifindex: u16,
    cookie: u64,
) -> Result<(), i32> {
    let new = NewVif {
        number,
        flags,
        ends: (),
    };
    if flags == REGISTER {
        return router.add_own_vif(host, &new, cookie, || router.make_register(host));
    }
    router.add_vif(host, &new, cookie, || {
        if flags != 0 {
            return Err(errno::EINVAL);
        }
        let device = host.ns.device(ifindex.into(), host.guard);
        device.ok_or(errno::EADDRNOTAVAIL)
    })
}

/// Returns whether multicast packets are routed: there is a daemon.
#[inline]
pub(super) fn is_on(ns: &Namespace) -> bool {
    ns.conf().all.ipv6.on(Ipv6Conf::McForwarding)
}

/// Routes a packet to a group that begins with its validated header, while [`is_on`]. It is for this host as well if
/// `local`; then it is returned.
#[cold]
pub(super) fn input<'g, 'c: 'g>(
    cx: &mut Cx<'c>,
    (device, ns): (&Arc<Device>, &'g Arc<Namespace>),
    packet: Packet,
    local: bool,
) -> Option<Packet> {
    let Some(header) = Ipv6::new(packet.data()) else {
        return multicast::unless::<V6>(local, cx, device, packet);
    };
    if header.dst()[1] & 15 <= 2 {
        return multicast::unless::<V6>(local, cx, device, packet);
    }
    if is_alert(packet.data()) {
        return multicast::unless::<V6>(is_mld(packet.data()), cx, device, packet);
    }
    let Ok(router) = tables::of_packet::<V6>(ns, device, &packet, cx.guard) else {
        return multicast::unless::<V6>(local, cx, device, packet);
    };
    multicast::input::<V6>(cx, (device, ns), router, packet, local, None, &mut ())
}

/// Takes a message of PIM to this host, and has the register device receive the packet of a register (`pim6_rcv`).
fn receive_pim(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    _: &Outer,
    at: usize,
    packet: Packet,
) -> Option<Packet> {
    let ns = device.namespace(cx.guard);
    let outer = Ipv6::new(packet.data());
    let message = packet.data().get(at..).unwrap_or_default();
    let split: Option<(&[u8; PIM], &[u8])> = message.split_first_chunk();
    let parts = split.and_then(|(head, inner)| Some((head, outer?, Ipv6::new(inner)?)));
    let is_register = parts.is_some_and(|(head, outer, inner)| {
        let len = usize::from(inner.payload_len());
        is_pim_register(head)
            && (verify_v6(outer.src(), outer.dst(), IPPROTO_PIM, head) || verify(message))
            && Ipv6Addr::from(inner.dst()).is_multicast()
            && len != 0
            && len + PIM <= message.len()
    });
    let left = match is_register {
        true => multicast::decapsulate::<V6>(cx, (device, ns), packet, at + PIM),
        false => Some(packet),
    };
    if let Some(packet) = left {
        cx.drop(device, Place::Ipv6Local, DropReason::NOT_SPECIFIED, packet);
    }
    None
}

/// Returns whether the hop-by-hop options have a router alert for MLD.
fn is_alert(packet: &[u8]) -> bool {
    let options = packet.get(Ipv6::LEN..).and_then(|rest| {
        let len = (usize::from(*rest.get(1)?) + 1) * 8;
        rest.get(..len)
    });
    let hop = Ipv6::new(packet).is_some_and(|header| header.next_header() == NEXTHDR_HOP);
    let Some(options) = options.filter(|_| hop) else {
        return false;
    };
    let mut all = tlvs(options).filter_map(Result::ok);
    all.any(|tlv| tlv.kind == ROUTER_ALERT && tlv.body == [0, 0])
}

fn is_mld(packet: &[u8]) -> bool {
    let upper = upper_layer(packet).filter(|upper| upper.protocol == IPPROTO_ICMPV6);
    let ty = upper.and_then(|upper| packet.get(upper.offset));
    ty.is_some_and(|ty| MLD.contains(ty))
}

/// Sends a packet by a MIF (`ip6mr_forward2`).
fn send(
    cx: &mut Cx<'_>,
    (device, ns): (&Arc<Device>, &Arc<Namespace>),
    vif: &Vif<V6>,
    mut packet: Packet,
) {
    let drop = |cx: &mut Cx<'_>, reason, packet| {
        cx.drop(device, Place::Ipv6Forward, reason, packet);
    };
    let Some(header) = Ipv6::new(packet.data()) else {
        return drop(cx, DropReason::IP_INHDR, packet);
    };
    let group = Ipv6Addr::from(header.dst());
    let any = Ipv6Addr::UNSPECIFIED;
    let Ok(route) = output::route(ns, any, group, vif.device.ifindex(), cx.guard) else {
        return drop(cx, DropReason::IP_OUTNOROUTES, packet);
    };
    let (out, octets) = (route.device, packet.len());
    vif.count_sent(octets);
    ipv6_decrement_hop_limit(packet.data_mut());
    packet.flags.insert(Flags::FORWARDED);
    packet.dev = out.key.0;
    let mib = cx.mib6(route.named);
    mib.ip(Ip::OutForwDatagrams, 1);
    mib.ip(Ip::OutOctets, octets as u64);
    if out.conf().ipv6.on(Ipv6Conf::DisableIpv6) || !out.has_ipv6() {
        mib.ip(Ip::OutDiscards, 1);
        return cx.drop(out, Place::Ipv6Out, DropReason::IPV6DISABLED, packet);
    }
    let mtu = route.mtu();
    if packet.network_len() > mtu as usize {
        icmp::send_error(cx, out, &packet, ICMPV6_PKT_TOOBIG, 0, mtu);
        mib.ip(Ip::FragFails, 1);
        return drop(cx, DropReason::PKT_TOO_BIG, packet);
    }
    if is_member(out, group, cx.guard) {
        deliver(cx, out, ns, &packet);
    }
    let batch = Batch::from(packet);
    output::count_multicast(cx, route.named, group, &batch);
    crate::neigh::output(cx, out, route.next_hop.into(), false, batch);
}

/// Delivers a copy of a forwarded packet to members on the device that it leaves by.
fn deliver(cx: &mut Cx<'_>, device: &Arc<Device>, ns: &Arc<Namespace>, packet: &Packet) {
    let Some(mut copy) = multicast::copy(cx, packet) else {
        return device.count_drop(Place::Ipv6Local, DropReason::NOMEM);
    };
    local::come_back(cx, device, &mut copy);
    if let Ok(Some(router)) = tables::of_packet::<V6>(ns, device, &copy, cx.guard) {
        router.met_again(cx, (device, ns), &copy);
    }
    local::deliver(cx, device, device, copy);
}
