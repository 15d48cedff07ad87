// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Multicast routing of IPv4 (`net/ipv4/ipmr.c`), beside what it shares with IPv6 ([`crate::multicast`]).
//!
//! Packets that are not forwarded are not answered with ICMP errors. Not implemented: tunnels that VIFs make, router alerts in
//! unicast packets.

use std::net::Ipv4Addr;
use std::sync::Arc;

use weir_netlink::{errno, rta};
use weir_packet::checksum::verify;
use weir_packet::header::ipv4::{IPPROTO_IGMP, IPPROTO_PIM};
use weir_packet::header::ipv4_options::Compiled;
use weir_packet::header::{ETH_P_IP, Ipv4};
use weir_packet::{DropReason, Flags, Packet, edit};
use weir_sync::once_box::OnceBox;

use super::WithIpv4;
use super::local;
use super::output::{self, Groups};
use super::route::To;
use super::ways::{self, Wish};
use crate::conf::Target;
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::fib::host::{AnyRule, Host};
use crate::fib::rule::Entry;
use crate::layers::{Hears, Module};
use crate::listen::{self, ConfEvent, conf4};
use crate::mib::{Count, Ip};
use crate::multicast::{
    self, Event, Family, Key, NewVif, PIM, Vif, is_pim_register, report, tables,
};
use crate::namespace::Namespace;
use crate::protocols::{Protocol, protocols};
use crate::settings::{HasIp, Ipv4Conf, WithSettings};
use crate::stack::Stack;
use crate::udp::Outer;

/// The protocol by which Linux routes what it forwards (`IPPROTO_IPIP`).
const IPPROTO_IPIP: u8 = 4;

/// `PIM_V1_VERSION`
const PIM_V1_VERSION: [u8; 4] = [16, 0, 0, 0];
/// `PIM_V1_REGISTER`
const PIM_V1_REGISTER: u8 = 1;

/// Flags of a VIF (`VIFF_*`).
mod flag {
    /// An IP tunnel.
    pub const TUNNEL: u8 = 1;
    /// What leaves by it goes to the daemon.
    pub const REGISTER: u8 = 4;
    /// The device is given by its index.
    pub const USE_IFINDEX: u8 = 8;
}

/// IPv4, whose multicast packets are routed.
#[derive(Debug, Clone, Copy)]
pub struct V4;

/// The addresses of a VIF, as the request has them.
#[derive(Debug, Clone, Copy)]
pub struct Ends {
    /// The local address, or the index of the device in the machine's byte order.
    pub local: [u8; 4],
    /// The remote address.
    pub remote: [u8; 4],
}

/// Rules of multicast routes that name devices.
pub static RULES_MODULE: Module = Module {
    device_event: Some(Hears::of(tables::EVENTS, tables::device_event::<V4>)),
    ..Module::NONE
};

/// A multicast routing table.
pub type Router = multicast::Router<V4>;

impl Family for V4 {
    type Address = Ipv4Addr;
    type Ends = Ends;
    type Options = Compiled;
    type Out<'g> = Groups<'g>;

    type Prefix = u32;

    const TABLE: u32 = rta::table::DEFAULT;
    const REGISTER: u16 = flag::REGISTER as u16;
    const OWNED: u16 = (flag::TUNNEL | flag::REGISTER) as u16;
    const REGISTER_NAME: &'static str = "pimreg";
    const REGISTER_MTU: u32 = 1500 - Ipv4::LEN as u32 - PIM as u32;
    const ETHERTYPE: u16 = ETH_P_IP;
    const TABLES: u32 = 1_000_000_000;
    const PLACE: Place = Place::Ipv4Forward;
    const JUDGES_OWN: bool = false;
    const OWN_BY_OUTPUT: bool = true;

    fn place(ns: &Namespace) -> &OnceBox<multicast::Routers<Self>> {
        &ns.ipv4().multicast
    }

    fn tell(stack: &Stack, ns: &Namespace, router: &Router, event: &Event<'_, Ipv4Addr>) {
        listen::multicast4(stack, ns, router, event);
    }

    fn any_rule(rule: &Entry<Self::Prefix>) -> AnyRule<'_> {
        AnyRule::Multicast4(rule)
    }

    fn counts(device: &Device) -> bool {
        // The settings of a device that leaves are gone already.
        device.has_ipv4() && !device.is_leaving()
    }

    fn count(stack: &Stack, ns: &Namespace, target: &Target, by: i32) {
        let conf = match target {
            Target::Device(device) => &device.conf().ipv4,
            _ => &ns.conf().all.ipv4,
        };
        let slot = Ipv4Conf::McForwarding;
        conf.set(slot, conf.get(slot) + by);
        conf4(stack, ns, &ConfEvent::Changed(target, slot));
    }

    fn head(packet: &[u8]) -> Option<(Key<Ipv4Addr>, u8)> {
        let header = Ipv4::new(packet)?;
        let key = Key {
            origin: header.src().into(),
            group: header.dst().into(),
        };
        Some((key, header.ttl()))
    }

    fn report(packet: &[u8], kind: u8, vif: u16) -> Option<Vec<u8>> {
        let [low, high] = vif.to_le_bytes();
        if matches!(kind, report::WHOLE | report::WRONG_VIF_WHOLE) {
            let mut head = *packet.first_chunk::<{ Ipv4::LEN }>()?;
            let whole = Ipv4::new(packet)?
                .total_len()
                .wrapping_add(Ipv4::LEN as u16);
            head[0] = 0x45;
            head[2..4].copy_from_slice(&whole.to_be_bytes());
            head[8..12].copy_from_slice(&[kind, 0, low, high]);
            return Some([&head, packet].concat());
        }
        // A `struct igmpmsg` is a header with other fields; a `struct igmphdr` follows.
        let len = Ipv4::new(packet)?.header_len();
        let igmp = [kind, 0, 0, 0, 0, 0, 0, 0];
        let mut report = [packet.get(..len)?, &igmp].concat();
        let whole = report.len() as u16;
        let head = report.first_chunk_mut::<{ Ipv4::LEN }>()?;
        // The kind, a zero and the VIF take the places of TTL, protocol and checksum.
        head[2..4].copy_from_slice(&whole.to_be_bytes());
        head[8..12].copy_from_slice(&[kind, 0, low, high]);
        Some(report)
    }

    fn prepare(host: &Host<'_>, device: &Device) {
        device.conf().ipv4.set(Ipv4Conf::RpFilter, 0);
        let protocol = Protocol {
            ipv6: false,
            number: IPPROTO_PIM,
        };
        protocols(host.ns).add(&host.stack.domain, protocol, receive_pim, host.guard);
    }

    fn send<'g, 'c: 'g>(
        cx: &mut Cx<'c>,
        (device, ns): (&Arc<Device>, &'g Arc<Namespace>),
        vif: &'g Vif<V4>,
        packet: Packet,
        options: Option<&Compiled>,
        out: &mut Groups<'g>,
    ) {
        send(cx, (device, ns), vif, packet, options, out);
    }

    fn flush(cx: &mut Cx<'_>, out: &mut Groups<'_>) {
        out.flush(cx);
    }
}

/// Adds a VIF for the socket with a cookie (`MRT_ADD_VIF`).
///
/// # Errors
/// EADDRINUSE if the number is taken, EADDRNOTAVAIL without a device, ENOBUFS for a tunnel and for a register VIF
/// whose device's name is taken, EINVAL for other flags.
pub fn add_vif(host: &Host<'_>, router: &Router, new: &NewVif<V4>, cookie: u64) -> Result<(), i32> {
    if new.flags == flag::REGISTER {
        return router.add_own_vif(host, new, cookie, || router.make_register(host));
    }
    router.add_vif(host, new, cookie, || {
        let device = match new.flags {
            flag::TUNNEL => return Err(errno::ENOBUFS),
            flag::USE_IFINDEX => host
                .ns
                .device(u32::from_ne_bytes(new.ends.local), host.guard),
            0 => ways::owner_of(host.ns, new.ends.local.into(), host.guard),
            _ => return Err(errno::EINVAL),
        };
        let device = device.filter(|device| device.has_ipv4());
        device.ok_or(errno::EADDRNOTAVAIL)
    })
}

/// Routes a packet that begins with its validated header and came by a device that routes multicast packets. It is for
/// this host as well if `local`; then it is returned (`ip_mr_input`).
pub(super) fn input<'g, 'c: 'g>(
    cx: &mut Cx<'c>,
    (device, ns): (&Arc<Device>, &'g Arc<Namespace>),
    packet: Packet,
    local: bool,
    options: Option<&Compiled>,
    groups: &mut Groups<'g>,
) -> Option<Packet> {
    let Ok(router) = tables::of_packet::<V4>(ns, device, &packet, cx.guard) else {
        // As in Linux, this host does not get it either.
        return multicast::unless::<V4>(false, cx, device, packet);
    };
    let protocol = Ipv4::new(packet.data()).map(|header| header.protocol());
    if !local && protocol == Some(IPPROTO_IGMP) {
        // Hosts report a group to the group itself.
        let daemon = router.and_then(Router::daemon);
        if let Some(daemon) = daemon {
            daemon.take(cx, device, ns, &packet);
            cx.consume(packet);
            return None;
        }
    }
    multicast::input::<V4>(cx, (device, ns), router, packet, local, options, groups)
}

/// Takes a message of PIM to this host, and has the register device receive the packet of a register (`pim_rcv`, or
/// `pim_rcv_v1` if it is one of IGMP).
fn receive_pim(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    _: &Outer,
    at: usize,
    packet: Packet,
) -> Option<Packet> {
    let ns = device.namespace(cx.guard);
    let v2 = Ipv4::new(packet.data()).is_some_and(|header| header.protocol() == IPPROTO_PIM);
    let message = packet.data().get(at..).unwrap_or_default();
    let split: Option<(&[u8; PIM], &[u8])> = message.split_first_chunk();
    let is_register = split.is_some_and(|(head, inner)| {
        let kind = match v2 {
            true => is_pim_register(head) && (verify(head) || verify(message)),
            false => {
                let router = tables::of_packet::<V4>(ns, device, &packet, cx.guard);
                router.ok().flatten().is_some_and(Router::speaks_pim)
                    && head[1] == PIM_V1_REGISTER
                    && head[4..] == PIM_V1_VERSION
            }
        };
        kind && Ipv4::new(inner).is_some_and(|inner| {
            let len = usize::from(inner.total_len());
            Ipv4Addr::from(inner.dst()).is_multicast() && len != 0 && len + PIM <= message.len()
        })
    });
    match is_register {
        true => multicast::decapsulate::<V4>(cx, (device, ns), packet, at + PIM),
        false => Some(packet),
    }
}

/// The copy of a packet that comes back to its host from the device that sent it (`ip_mc_finish_output`). Returns it if it
/// is for this host as well.
pub(super) fn looped<'g, 'c: 'g>(
    cx: &mut Cx<'c>,
    device: &'g Arc<Device>,
    packet: Packet,
    local: bool,
) -> Option<Packet> {
    let ns = device.namespace(cx.guard);
    let mut groups = Groups::default();
    let packet = input(cx, (device, ns), packet, local, None, &mut groups);
    groups.flush(cx);
    packet
}

/// Sends a packet by a VIF (`ipmr_queue_xmit`).
fn send<'g, 'c: 'g>(
    cx: &mut Cx<'c>,
    (device, ns): (&Arc<Device>, &'g Arc<Namespace>),
    vif: &'g Vif<V4>,
    mut packet: Packet,
    options: Option<&Compiled>,
    groups: &mut Groups<'g>,
) {
    let Some(header) = Ipv4::new(packet.data()) else {
        return cx.drop(device, Place::Ipv4Forward, DropReason::IP_INHDR, packet);
    };
    let wish = Wish {
        dst: header.dst().into(),
        src: None,
        oif: vif.device.ifindex(),
        tos: header.tos(),
        mark: 0,
        protocol: IPPROTO_IPIP,
        ports: (0, 0),
        any_source: false,
        on_link: false,
    };
    let Ok(way) = ways::find(ns, &wish, cx.guard) else {
        return cx.drop(
            device,
            Place::Ipv4Forward,
            DropReason::IP_OUTNOROUTES,
            packet,
        );
    };
    let hop = &way.hop;
    if packet.network_len() > hop.mtu as usize && header.dont_fragment() {
        cx.mib(ns).ip.add(Ip::FragFails, 1);
        return cx.drop(device, Place::Ipv4Forward, DropReason::PKT_TOO_BIG, packet);
    }
    let octets = packet.len();
    vif.count_sent(octets);
    edit::ipv4_decrement_ttl(packet.data_mut());
    packet.flags.insert(Flags::FORWARDED);
    let mib = cx.mib(ns);
    mib.ip.add(Ip::OutForwDatagrams, 1);
    mib.ip.add(Ip::OutRequests, 1);
    mib.ip.add(Ip::OutOctets, 2 * octets as u64);
    if let Some(options) = options {
        output::record_out(cx, ns, &mut packet, hop, options);
    }
    if way.loops {
        deliver(cx, hop.device, ns, &packet);
    }
    output::push_fitting(cx, device, ns, hop, packet, groups);
}

/// Delivers a copy of a forwarded packet to members on the device that it leaves by.
fn deliver(cx: &mut Cx<'_>, device: &Arc<Device>, ns: &Arc<Namespace>, packet: &Packet) {
    let Some(mut copy) = multicast::copy(cx, packet) else {
        return device.count_drop(Place::Ipv4Local, DropReason::NOMEM);
    };
    local::come_back(cx, device, ns, &mut copy, To::Group);
    if let Ok(Some(router)) = tables::of_packet::<V4>(ns, device, &copy, cx.guard) {
        router.met_again(cx, (device, ns), &copy);
    }
    local::deliver(cx, device, ns, copy, To::Group);
}
