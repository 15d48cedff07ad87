// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ARP (RFC 826, `net/ipv4/arp.c`): requests, replies, and learning from received packets.
//!
//! Honours `arp_ignore`, `arp_filter`, `arp_accept`, `arp_announce`, `arp_notify`,
//! `drop_gratuitous_arp`, `proxy_arp`, `proxy_arp_pvlan`, proxy entries, `medium_id` and the
//! neighbour's `locktime`, `proxy_delay` and `proxy_qlen`.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use weir_netlink::ifla::iff;
use weir_netlink::rta;
use weir_packet::header::arp::{ARPOP_REPLY, ARPOP_REQUEST, arp};
use weir_packet::header::ethernet::{BROADCAST, ethernet};
use weir_packet::header::{Arp, ETH_P_ARP, Ipv4};
use weir_packet::{Batch, DropReason, Flags, Packet, PacketType};
use weir_sync::rcu::Guard;

use super::route::{self, Wanted};
use super::{larger, on_either, select};
use crate::clock::MILLISECOND;
use crate::cpu::Cx;
use crate::device::{Device, Mac};
use crate::drops::Place;
use crate::ipv4::WithIpv4;
use crate::mib::Count;
use crate::mib::Ext;
use crate::namespace::Namespace;
use crate::neigh::WithNeighbours;
use crate::neigh::proxy::{self, Proxies};
use crate::neigh::{Neighbour, Update, nud};
use crate::settings::HasIp;
use crate::settings::WithSettings;
use crate::settings::{Ipv4Conf, Neigh};
use crate::stack::Stack;
use crate::stages::Stage;

/// The contents of an ARP packet.
#[derive(Debug, Clone, Copy)]
struct Message {
    op: u16,
    sha: Mac,
    sip: Ipv4Addr,
    tha: Mac,
    tip: Ipv4Addr,
}

/// Receives ARP packets, all from one device (`arp_rcv`).
pub fn receive(cx: &mut Cx<'_>, device: &Arc<Device>, batch: &mut Batch) {
    let count = batch.len();
    for mut packet in batch.drain() {
        if device.flags() & iff::NOARP != 0
            || matches!(
                packet.pkt_type(),
                PacketType::OtherHost | PacketType::Loopback
            )
        {
            cx.consume(packet);
            continue;
        }
        match read(&mut packet) {
            Ok(_) if !device.has_ipv4() => {
                cx.drop(device, Place::Arp, DropReason::NOT_SPECIFIED, packet);
            }
            Ok(message) => match process(cx, device, &message, packet.pkt_type(), false) {
                Ok(()) => cx.consume(packet),
                Err(reason) => cx.drop(device, Place::Arp, reason, packet),
            },
            Err(reason) => cx.drop(device, Place::Arp, reason, packet),
        }
    }
    cx.state.stages.end(Stage::Local, count);
}

fn read(packet: &mut Packet) -> Result<Message, DropReason> {
    if !packet.data_to_network() {
        return Err(DropReason::PKT_TOO_SMALL);
    }
    let header = Arp::new(packet.data()).ok_or(DropReason::PKT_TOO_SMALL)?;
    // Ethernet devices accept both of their hardware types (6: IEEE 802).
    if header.hlen() != 6
        || header.plen() != 4
        || !matches!(header.hardware(), 1 | 6)
        || header.protocol() != 0x0800
        || !matches!(header.op(), ARPOP_REQUEST | ARPOP_REPLY)
    {
        return Err(DropReason::NOT_SPECIFIED);
    }
    Ok(Message {
        op: header.op(),
        sha: header.sha(),
        sip: header.sip().into(),
        tha: header.tha(),
        tip: header.tip().into(),
    })
}

/// Processes an ARP message (`arp_process`). It has waited if `waited` is set.
fn process(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    message: &Message,
    pkt_type: PacketType,
    waited: bool,
) -> Result<(), DropReason> {
    let guard = cx.guard;
    let ns = device.namespace(guard);
    let Message { op, sip, tip, .. } = *message;
    if tip.is_multicast() || (tip.is_loopback() && !on_either(ns, device, Ipv4Conf::RouteLocalnet))
    {
        return Err(DropReason::IP_INVALID_DEST);
    }
    if sip == tip && on_either(ns, device, Ipv4Conf::DropGratuitousArp) {
        return Err(DropReason::NOT_SPECIFIED);
    }
    if sip.is_unspecified() {
        // The sender is probing whether an address is free (RFC 5227).
        if op == ARPOP_REQUEST
            && route::address_type_on(ns, device, tip, guard) == rta::rtn::LOCAL
            && !is_ignored(ns, device, sip, tip, guard)
        {
            answer(cx, device, message);
        }
        return Ok(());
    }
    if op == ARPOP_REQUEST
        && let Some(whose) = question(cx, device, ns, message)
    {
        if whose == Whose::Nobody {
            return Ok(());
        }
        let learned = learn(cx, device, ns, message);
        if whose == Whose::Ours {
            if learned {
                answer(cx, device, message);
            }
            return Ok(());
        }
        if waited || pkt_type == PacketType::Host || !proxy::is_delayed(device, false) {
            answer(cx, device, message);
            return Ok(());
        }
        let message = *message;
        let again = move |cx: &mut Cx<'_>, device: &Arc<Device>| {
            if let Err(reason) = process(cx, device, &message, pkt_type, true) {
                device.count_drop(Place::Arp, reason);
            }
        };
        return match Proxies::delay(cx, device, false, again) {
            true => Ok(()),
            false => Err(DropReason::NOT_SPECIFIED),
        };
    }
    update(cx, device, ns, message, pkt_type);
    Ok(())
}

/// For whom a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// It is not answered.
    Nobody,
    /// The address is our own.
    Ours,
    /// We are a proxy for the address.
    Others,
}

/// Returns for whom to answer a request, or `None` if it does not concern us.
fn question(cx: &Cx<'_>, device: &Arc<Device>, ns: &Namespace, message: &Message) -> Option<Whose> {
    let guard = cx.guard;
    let Message { sip, tip, .. } = *message;
    // Route a packet from the sender to the requested address.
    let mut bytes = [0; 20];
    let mut edit = weir_packet::header::Ipv4Mut::new(&mut bytes)?;
    edit.set_version_ihl(0x45)
        .set_src(sip.octets())
        .set_dst(tip.octets());
    let mut input = route::Input::new(ns, device, guard);
    let header = Ipv4::new(&bytes)?;
    match input.route(&header, &bytes, 0, || 0, None) {
        route::Verdict::Local(route::To::Us) => {
            if is_ignored(ns, device, sip, tip, guard) {
                return Some(Whose::Nobody);
            }
            let filtered = on_either(ns, device, Ipv4Conf::ArpFilter)
                && is_filtered(ns, device, sip, tip, guard);
            if filtered {
                cx.mib(ns).ext.add(Ext::ArpFilter, 1);
            }
            Some(if filtered { Whose::Nobody } else { Whose::Ours })
        }
        route::Verdict::Forward(hop) => {
            let answers = is_proxied(ns, device, hop.device)
                || is_private(ns, device, hop.device, message)
                || (!Arc::ptr_eq(device, hop.device) && is_entered(ns, device, tip));
            (input.forwards() && answers).then_some(Whose::Others)
        }
        _ => None,
    }
}

/// Records the sender. Returns whether the table had room (`neigh_event_ns`).
fn learn(cx: &mut Cx<'_>, device: &Arc<Device>, ns: &Namespace, message: &Message) -> bool {
    let address = IpAddr::V4(message.sip);
    let Some(entry) = ns
        .neighbours()
        .get_or_make(cx.stack, device, address, cx.guard)
    else {
        return false;
    };
    change(cx, device, &entry, message.sha, nud::STALE, true);
    true
}

fn change(
    cx: &Cx<'_>,
    device: &Arc<Device>,
    entry: &Arc<Neighbour>,
    mac: Mac,
    state: u8,
    replace: bool,
) {
    let update = Update {
        mac: Some(mac),
        state,
        replace,
        weak: false,
        admin: false,
        router: None,
        learned_elsewhere: None,
    };
    // A permanent entry stays as it is.
    let _ = entry.update(cx.stack, cx.guard, device, update);
}

/// Updates a known neighbour from a reply or from a request to another host.
fn update(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    ns: &Namespace,
    message: &Message,
    pkt_type: PacketType,
) {
    let guard = cx.guard;
    let Message { op, sip, .. } = *message;
    let address = IpAddr::V4(sip);
    let mut entry = ns.neighbours().get(device.key, address, guard).cloned();
    let accepts = match larger(ns, device, Ipv4Conf::ArpAccept) {
        1 => true,
        2 => {
            let any = Ipv4Addr::UNSPECIFIED;
            select::confirm_address(ns, Some(device), sip, any, rta::scope::LINK, guard).is_some()
        }
        _ => false,
    };
    if entry.is_none() && !accepts {
        return;
    }
    let unicast = || own_type(ns, device, sip, guard) == rta::rtn::UNICAST;
    // A gratuitous reply has its own hardware address as target.
    let gratuitous =
        sip == message.tip && (op != ARPOP_REPLY || message.tha == message.sha) && unicast();
    if entry.is_none() && (gratuitous || (op == ARPOP_REPLY && unicast())) {
        entry = ns
            .neighbours()
            .get_or_make(cx.stack, device, address, guard);
    }
    let Some(entry) = entry else { return };
    let (_, updated, _, _) = entry.facts();
    let locked = device.conf().neigh4.get(Neigh::Locktime).max(0) as u64 * MILLISECOND;
    // If several replies arrive, the first one counts.
    let replace = cx.now > updated + locked || gratuitous;
    let state = if op == ARPOP_REPLY && pkt_type == PacketType::Host {
        nud::REACHABLE
    } else {
        nud::STALE
    };
    change(cx, device, &entry, message.sha, state, replace);
}

/// Returns the `RTN_*` type of an address (`inet_addr_type_dev_table`).
fn own_type(ns: &Namespace, device: &Arc<Device>, address: Ipv4Addr, guard: &Guard) -> u8 {
    route::address_type_on(ns, device, address, guard)
}

/// Returns whether `arp_ignore` suppresses the reply.
fn is_ignored(
    ns: &Namespace,
    device: &Device,
    sip: Ipv4Addr,
    tip: Ipv4Addr,
    guard: &Guard,
) -> bool {
    let any = Ipv4Addr::UNSPECIFIED;
    let (on, sip, scope) = match larger(ns, device, Ipv4Conf::ArpIgnore) {
        1 => (Some(device), any, rta::scope::HOST),
        2 => (Some(device), sip, rta::scope::HOST),
        3 => (None, any, rta::scope::LINK),
        8 => return true,
        _ => return false,
    };
    select::confirm_address(ns, on, sip, tip, scope, guard).is_none()
}

/// Returns whether `arp_filter` suppresses the reply, because it would not leave through this
/// device.
fn is_filtered(
    ns: &Namespace,
    device: &Arc<Device>,
    sip: Ipv4Addr,
    tip: Ipv4Addr,
    guard: &Guard,
) -> bool {
    let wanted = Wanted {
        dst: sip,
        src: Some(tip),
        tos: 0,
        mark: 0,
        proto: 0,
    };
    let route = route::output_by(ns, &wanted, device.l3_master_index(guard), guard);
    !route.is_ok_and(|route| Arc::ptr_eq(route.hop.device, device))
}

/// Returns whether we act as a proxy for the address (`arp_fwd_proxy`).
fn is_proxied(ns: &Namespace, device: &Arc<Device>, out: &Arc<Device>) -> bool {
    if Arc::ptr_eq(device, out) || !on_either(ns, device, Ipv4Conf::ProxyArp) {
        return false;
    }
    let medium = |device: &Device| device.conf().ipv4.get(Ipv4Conf::MediumId);
    match medium(device) {
        0 => true,
        -1 => false,
        own => medium(out) != own && medium(out) != -1,
    }
}

/// Returns whether neighbours on one link reach each other through us (`arp_fwd_pvlan`).
fn is_private(ns: &Namespace, device: &Arc<Device>, out: &Arc<Device>, message: &Message) -> bool {
    Arc::ptr_eq(device, out)
        && message.sip != message.tip
        && on_either(ns, device, Ipv4Conf::ProxyArpPvlan)
}

/// Returns whether there is a proxy entry for the address.
fn is_entered(ns: &Namespace, device: &Device, address: Ipv4Addr) -> bool {
    let proxies = &ns.neighbours().proxies;
    proxies.find(Some(device.key), address.into()).is_some()
}

/// Replies to a request.
fn answer(cx: &mut Cx<'_>, device: &Arc<Device>, message: &Message) {
    let ours = device.address();
    let body = arp(
        ARPOP_REPLY,
        ours,
        message.tip.octets(),
        message.sha,
        message.sip.octets(),
    );
    send(cx, device, message.sha, &body);
}

/// Sends an ARP packet (`arp_send_dst`).
fn send(cx: &mut Cx<'_>, device: &Arc<Device>, to: Mac, body: &[u8]) {
    if device.flags() & iff::NOARP != 0 {
        return;
    }
    let Some(mut packet) = cx
        .stack
        .pool
        .packet(&ethernet(to, device.address(), ETH_P_ARP))
    else {
        return device.count_drop(Place::Arp, DropReason::NOMEM);
    };
    let written = packet.append(body);
    debug_assert!(written, "a frame holds an ARP packet");
    packet.reset_mac();
    packet.set_network(14);
    packet.protocol = ETH_P_ARP;
    packet.flags.insert(Flags::LOCAL);
    packet.set_pkt_type(PacketType::Outgoing);
    packet.time = cx.now;
    packet.iif = 0;
    packet.dev = device.key.0;
    let mut batch = Batch::new();
    // An empty batch has room.
    let _ = batch.push(packet);
    cx.transmit(device, batch);
}

/// Sends a request for `target`, to the neighbour `to` alone or by broadcast (`arp_solicit`).
/// `waiting` is a packet that waits for the reply.
pub fn solicit(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    target: Ipv4Addr,
    to: Option<Mac>,
    waiting: Option<&Packet>,
) {
    let guard = cx.guard;
    let ns = device.namespace(guard);
    let own = waiting
        .and_then(|packet| Ipv4::new(packet.data()))
        .map(|header| Ipv4Addr::from(header.src()))
        .filter(|src| own_type(ns, device, *src, guard) == rta::rtn::LOCAL);
    let source = match larger(ns, device, Ipv4Conf::ArpAnnounce) {
        1 => own.filter(|own| select::is_on_link(device, target, Some(*own), guard)),
        2 => None,
        _ => own,
    };
    let source = source
        .or_else(|| select::select_address(ns, device, target, rta::scope::LINK, guard))
        .unwrap_or(Ipv4Addr::UNSPECIFIED);
    let body = arp(
        ARPOP_REQUEST,
        device.address(),
        source.octets(),
        [0; 6],
        target.octets(),
    );
    send(cx, device, to.unwrap_or(BROADCAST), &body);
}

/// Announces a device's addresses to its neighbours if `arp_notify` asks for it.
pub fn notify(stack: &Stack, guard: &Guard, ns: &Namespace, device: &Arc<Device>) {
    if larger(ns, device, Ipv4Conf::ArpNotify) != 0 {
        announce(stack, guard, device);
    }
}

/// Announces a device's addresses to its neighbours (`inetdev_send_gratuitous_arp`).
pub fn announce(stack: &Stack, guard: &Guard, device: &Arc<Device>) {
    if device.ipv4().addresses.list(guard).is_empty() {
        return;
    }
    let device = device.clone();
    stack.post(Box::new(move |cx| {
        let ours = device.address();
        for address in device.ipv4().addresses.list(cx.guard) {
            let own = address.local.octets();
            send(
                cx,
                &device,
                BROADCAST,
                &arp(ARPOP_REQUEST, ours, own, [0; 6], own),
            );
        }
    }));
}
