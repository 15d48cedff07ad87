// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The path of multicast packets through a router (`ip_mr_input`, `ip_mr_forward`, `ipmr_queue_xmit`,
//! `ipmr_cache_unresolved`, `ipmr_cache_report`).
//!
//! Packets leave by the VIFs from the highest number to the lowest. They are not answered with ICMP errors.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use weir_packet::header::Ipv4;
use weir_packet::header::ipv4::IPPROTO_IGMP;
use weir_packet::header::ipv4_options::Compiled;
use weir_packet::{DropReason, Flags, Packet, PacketType, edit};

use super::cache::Arrival;
use super::{
    Entry, Event, Key, Resolved, Route, Router, State, Vif, Vifs, Waiting, of, report, tell,
};
use crate::clock::{Holds, SECOND};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::fib::host::Host;
use crate::ipv4::local;
use crate::ipv4::output::{self, Groups};
use crate::ipv4::route::To;
use crate::ipv4::ways::{self, Wish};
use crate::listen;
use crate::mib::{Count, Ip};
use crate::namespace::Namespace;
use crate::stack::Stack;

/// The time in ns that packets wait for an entry.
const PATIENCE: u64 = 10 * SECOND;
/// The number of packets of one source and group that wait.
const MOST_WAITING: usize = 4;
/// The protocol by which Linux routes what it forwards (`IPPROTO_IPIP`).
const IPPROTO_IPIP: u8 = 4;

fn key_of(header: &Ipv4<'_>) -> Key {
    Key {
        origin: header.src().into(),
        group: header.dst().into(),
    }
}

/// Returns whether a packet is a copy of one that this host has sent.
fn is_own(packet: &Packet) -> bool {
    packet.pkt_type() == PacketType::Loopback
}

pub(super) fn drop(cx: &Cx<'_>, device: &Device, reason: DropReason, packet: Packet) {
    cx.drop(device, Place::Ipv4Forward, reason, packet);
}

/// Routes a packet that begins with its validated header and came by a device that routes multicast packets. It is for
/// this host as well if `local`; then it is returned (`ip_mr_input`).
pub fn input<'g, 'c: 'g>(
    cx: &mut Cx<'c>,
    (device, ns): (&Arc<Device>, &'g Arc<Namespace>),
    packet: Packet,
    local: bool,
    options: Option<&Compiled>,
    groups: &mut Groups<'g>,
) -> Option<Packet> {
    let guard = cx.guard;
    let (Some(router), Some(header)) = (of(ns), Ipv4::new(packet.data())) else {
        return unless(local, cx, device, packet);
    };
    let key = key_of(&header);
    if !local && header.protocol() == IPPROTO_IGMP {
        // Hosts report a group to the group itself.
        let daemon = router.lock().daemon.clone();
        if let Some(daemon) = daemon {
            daemon.take(cx, device, ns, &packet);
            cx.consume(packet);
            return None;
        }
    }
    let vifs = router.vifs.load(guard);
    let vif = vifs.of(device);
    if let Some(entry) = router.cache.find_for(key, vif, guard) {
        let route = By {
            router,
            vifs,
            entry,
            vif,
        };
        return route.forward(cx, (device, ns), packet, local, options, groups);
    }
    let Some(vif) = vif else {
        return unless(local, cx, device, packet);
    };
    let (packet, copy) = match local {
        true => {
            let copy = copy(cx, &packet);
            (Some(packet), copy)
        }
        false => (None, Some(packet)),
    };
    match copy {
        Some(copy) => wait(cx, (device, ns), router, (key, vif), copy, options),
        None => device.count_drop(Place::Ipv4Forward, DropReason::NOMEM),
    }
    packet
}

/// Drops a packet that is not for this host.
fn unless(local: bool, cx: &Cx<'_>, device: &Device, packet: Packet) -> Option<Packet> {
    if local {
        return Some(packet);
    }
    drop(cx, device, DropReason::NOT_SPECIFIED, packet);
    None
}

fn copy(cx: &Cx<'_>, packet: &Packet) -> Option<Packet> {
    let mut copy = packet.copy()?;
    cx.stack.trace.copied(&mut copy);
    Some(copy)
}

/// The copy of a packet that comes back to its host from the device that sent it (`ip_mc_finish_output`). Returns it if it
/// is for this host as well.
pub fn looped<'g, 'c: 'g>(
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

/// The way of packets by an entry.
struct By<'g> {
    router: &'g Router,
    vifs: &'g Vifs,
    entry: &'g Arc<Entry>,
    /// The highest VIF of the device that the packet came by.
    vif: Option<u8>,
}

impl<'g> By<'g> {
    /// Sends a packet by all VIFs of the entry. Returns it if it is for this host as well (`ip_mr_forward`).
    fn forward<'c: 'g>(
        &self,
        cx: &mut Cx<'c>,
        (device, ns): (&Arc<Device>, &'g Arc<Namespace>),
        packet: Packet,
        local: bool,
        options: Option<&Compiled>,
        groups: &mut Groups<'g>,
    ) -> Option<Packet> {
        let (entry, guard) = (self.entry, cx.guard);
        entry.uses.count(packet.len(), cx.now);
        let parent = self.vifs.get(entry.parent);
        let arrival = Arrival {
            vif: self.vif,
            by_parent: parent.is_some_and(|parent| Arc::ptr_eq(&parent.device, device)),
            ttl: Ipv4::new(packet.data()).map_or(0, |header| header.ttl()),
        };
        let Some(ways) = self.router.cache.ways(entry, arrival, guard) else {
            if !is_own(&packet) {
                entry.uses.wrong.fetch_add(1, Relaxed);
                self.assert(cx, (device, ns), &packet);
            }
            return unless(local, cx, device, packet);
        };
        if let Some(parent) = parent {
            parent.input.add(packet.len());
        }
        let mut left = ways;
        let mut packet = Some(packet);
        while left != 0 {
            let number = left.ilog2();
            left &= !(1 << number);
            let last = left == 0 && !local;
            let out = match last {
                true => packet.take(),
                false => packet.as_ref().and_then(|packet| copy(cx, packet)),
            };
            match (out, self.vifs.get(number as u8)) {
                (Some(out), Some(vif)) => send(cx, (device, ns), vif, out, options, groups),
                (Some(out), None) => drop(cx, device, DropReason::NOT_SPECIFIED, out),
                (None, _) => device.count_drop(Place::Ipv4Forward, DropReason::NOMEM),
            }
        }
        unless(local, cx, device, packet?)
    }

    /// Tells the daemon of a packet by a VIF that other packets of the entry leave by.
    fn assert(&self, cx: &Cx<'_>, (device, ns): (&Arc<Device>, &Arc<Namespace>), packet: &Packet) {
        let Some(vif) = self.vif.filter(|vif| self.entry.leads_to(*vif)) else {
            return;
        };
        if self.router.asserts() && self.entry.uses.may_report(cx.now) {
            let state = self.router.lock();
            tell_daemon(cx, (device, ns), &state, packet, (report::WRONG_VIF, vif));
        }
    }
}

/// Sends a packet by a VIF (`ipmr_queue_xmit`).
fn send<'g, 'c: 'g>(
    cx: &mut Cx<'c>,
    (device, ns): (&Arc<Device>, &'g Arc<Namespace>),
    vif: &'g Vif,
    mut packet: Packet,
    options: Option<&Compiled>,
    groups: &mut Groups<'g>,
) {
    let Some(header) = Ipv4::new(packet.data()) else {
        return drop(cx, device, DropReason::IP_INHDR, packet);
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
        return drop(cx, device, DropReason::IP_OUTNOROUTES, packet);
    };
    let hop = &way.hop;
    if packet.network_len() > hop.mtu as usize && header.dont_fragment() {
        cx.mib(ns).ip.add(Ip::FragFails, 1);
        return drop(cx, device, DropReason::PKT_TOO_BIG, packet);
    }
    let octets = packet.len();
    vif.output.add(octets);
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
    let Some(mut copy) = copy(cx, packet) else {
        return device.count_drop(Place::Ipv4Local, DropReason::NOMEM);
    };
    local::come_back(cx, device, ns, &mut copy, To::Group);
    // It meets its entry again, which counts it.
    if let (Some(router), Some(header)) = (of(ns), Ipv4::new(copy.data())) {
        let (key, vif) = (key_of(&header), router.vifs.load(cx.guard).of(device));
        if let Some(entry) = router.cache.find_for(key, vif, cx.guard) {
            entry.uses.count(copy.len(), cx.now);
        }
    }
    local::deliver(cx, device, ns, copy, To::Group);
}

/// Has a packet wait for an entry, and reports the first one of its source and group (`ipmr_cache_unresolved`).
fn wait(
    cx: &Cx<'_>,
    (device, ns): (&Arc<Device>, &Arc<Namespace>),
    router: &Router,
    (key, vif): (Key, u8),
    packet: Packet,
    options: Option<&Compiled>,
) {
    let host = Host {
        stack: cx.stack,
        ns,
        guard: cx.guard,
    };
    let mut state = router.lock();
    if !state.unresolved.contains_key(&key) {
        let kind = report::NO_CACHE;
        if !tell_daemon(cx, (device, ns), &state, &packet, (kind, vif)) {
            return drop(cx, device, DropReason::NOT_SPECIFIED, packet);
        }
        state.await_entry(key, cx.now + PATIENCE);
        tell(&host, &Route::Unresolved(key), true);
        if state.timer.is_none() {
            arm(cx.stack, ns, &mut state, cx.now + PATIENCE);
        }
    }
    let waiting = Waiting {
        packet,
        device: device.key,
        options: options.copied(),
    };
    match state.unresolved.get_mut(&key) {
        Some(one) if one.packets.len() < MOST_WAITING => one.packets.push(waiting),
        _ => drop(cx, device, DropReason::NOT_SPECIFIED, waiting.packet),
    }
}

fn arm(stack: &Stack, ns: &Arc<Namespace>, state: &mut State, time: u64) {
    let ns = Arc::downgrade(ns);
    let fire = Box::new(move |cx: &mut Cx<'_>| expire(cx, &ns));
    state.timer = Some(stack.arm(time, Holds::Packet, fire));
}

/// Gives up the packets that have waited long enough (`ipmr_expire_process`).
fn expire(cx: &mut Cx<'_>, ns: &Weak<Namespace>) {
    let Some(ns) = ns.upgrade() else { return };
    let Some(router) = of(&ns) else { return };
    let host = Host {
        stack: cx.stack,
        ns: &ns,
        guard: cx.guard,
    };
    let mut state = router.lock();
    state.timer = None;
    // All wait for the same time.
    while let Some((_, key)) = state.ages.first_key_value() {
        let key = *key;
        match state.unresolved.get(&key) {
            Some(one) if one.expires > cx.now => {
                let next = one.expires;
                return arm(cx.stack, &ns, &mut state, next);
            }
            _ => {
                state.ages.pop_first();
                tell(&host, &Route::Unresolved(key), false);
                super::discard(cx.stack, state.end_wait(key).unwrap_or_default());
            }
        }
    }
}

/// Reports a packet to the daemon and to the listeners. Returns whether the daemon has it (`ipmr_cache_report`).
fn tell_daemon(
    cx: &Cx<'_>,
    (device, ns): (&Arc<Device>, &Arc<Namespace>),
    state: &State,
    packet: &Packet,
    (kind, vif): (u8, u8),
) -> bool {
    /// The length of the IGMP header behind the packet's own (`struct igmphdr`).
    const IGMP: usize = 8;
    let Some(daemon) = &state.daemon else {
        return false;
    };
    let data = packet.data();
    let len = Ipv4::new(data).map_or(0, |header| header.header_len());
    let (Some(header), Some(mut message)) = (data.get(..len), cx.stack.pool.alloc(0)) else {
        return false;
    };
    if !message.append(header) || !message.append(&[kind, 0, 0, 0, 0, 0, 0, 0]) {
        return false;
    }
    if let Some(head) = message.data_mut().first_chunk_mut::<{ Ipv4::LEN }>() {
        // `struct igmpmsg`: the length, and the kind, a zero and the VIF in place of TTL, protocol and checksum.
        head[2..4].copy_from_slice(&((len + IGMP) as u16).to_be_bytes());
        head[8..12].copy_from_slice(&[kind, 0, vif, 0]);
    }
    message.set_network(0);
    listen::multicast4(cx.stack, ns, &Event::Report(message.data()));
    let taken = daemon.take(cx, device, ns, &message);
    cx.consume(message);
    taken
}

/// Sends packets on that an entry was added for, and tells the listeners of it (`ipmr_cache_resolve`).
pub fn resolve(cx: &mut Cx<'_>, ns: &Arc<Namespace>, resolved: Resolved) {
    let guard = cx.guard;
    let Some(router) = of(ns) else { return };
    let Resolved { entry, packets } = resolved;
    let mut groups = Groups::default();
    for one in packets {
        let Some(device) = cx.device(one.device) else {
            cx.consume(one.packet);
            continue;
        };
        let vifs = router.vifs.load(guard);
        let by = By {
            router,
            vifs,
            entry: &entry,
            vif: vifs.of(device),
        };
        let options = one.options.as_ref();
        by.forward(cx, (device, ns), one.packet, false, options, &mut groups);
    }
    groups.flush(cx);
    let host = Host {
        stack: cx.stack,
        ns,
        guard,
    };
    tell(&host, &Route::Known(entry), true);
}

/// The same where no CPU's context is at hand.
pub fn resolve_later(host: &Host<'_>, resolved: Resolved) {
    let ns = host.ns.clone();
    host.stack
        .post(Box::new(move |cx| resolve(cx, &ns, resolved)));
}
