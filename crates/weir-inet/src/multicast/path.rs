// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The path of multicast packets through a router (`ip_mr_forward`, `ipmr_cache_unresolved`, `ipmr_cache_report`, and those
//! of `ip6mr.c`).
//!
//! Packets leave by the VIFs from the highest number to the lowest.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use weir_packet::{DropReason, Packet, PacketType};
use weir_sync::rcu::Guard;

use super::cache::Arrival;
use super::{Entry, Event, Family, Key, Resolved, Route, Router, State, Vifs, Waiting, of, report};
use crate::clock::{Holds, SECOND};
use crate::cpu::Cx;
use crate::device::Device;
use crate::fib::host::Host;
use crate::namespace::Namespace;
use crate::stack::Stack;

/// The time in ns that packets wait for an entry.
const PATIENCE: u64 = 10 * SECOND;
/// The number of packets of one source and group that wait.
const MOST_WAITING: usize = 4;

/// Returns whether a packet is a copy of one that this host has sent.
pub(super) fn is_own(packet: &Packet) -> bool {
    packet.pkt_type() == PacketType::Loopback
}

/// Drops a packet that is not forwarded.
pub(super) fn drop<F: Family>(cx: &Cx<'_>, device: &Device, packet: Packet) {
    cx.drop(device, F::PLACE, DropReason::NOT_SPECIFIED, packet);
}

/// Routes a packet that begins with its validated header and came by a device that routes multicast packets. It is for
/// this host as well if `local`; then it is returned (`ip_mr_input`, `ip6_mr_input`).
pub(crate) fn input<'g, 'c: 'g, F: Family>(
    cx: &mut Cx<'c>,
    (device, ns): (&Arc<Device>, &'g Arc<Namespace>),
    router: Option<&'g Router<F>>,
    packet: Packet,
    local: bool,
    options: Option<&F::Options>,
    out: &mut F::Out<'g>,
) -> Option<Packet> {
    let guard = cx.guard;
    let (Some(router), Some((key, _))) = (router, F::head(packet.data())) else {
        return unless::<F>(local, cx, device, packet);
    };
    let vif = match router.find(device, key, guard) {
        Ok(by) => return by.forward(cx, (device, ns), packet, local, options, out),
        Err(vif) => vif,
    };
    let Some(vif) = vif else {
        return unless::<F>(local, cx, device, packet);
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
        None => device.count_drop(F::PLACE, DropReason::NOMEM),
    }
    packet
}

/// Drops a packet that is not for this host.
pub(crate) fn unless<F: Family>(
    local: bool,
    cx: &Cx<'_>,
    device: &Device,
    packet: Packet,
) -> Option<Packet> {
    if local {
        return Some(packet);
    }
    drop::<F>(cx, device, packet);
    None
}

/// Copies a packet, which begins another trace.
pub(crate) fn copy(cx: &Cx<'_>, packet: &Packet) -> Option<Packet> {
    let mut copy = packet.copy()?;
    cx.stack.trace.copied(&mut copy);
    Some(copy)
}

impl<F: Family> Router<F> {
    /// Finds the entry of a packet that came by a device, or else returns the highest VIF of the device.
    fn find<'g>(
        &'g self,
        device: &Arc<Device>,
        key: Key<F::Address>,
        guard: &'g Guard,
    ) -> Result<By<'g, F>, Option<u8>> {
        let vifs = self.vifs.load(guard);
        let vif = vifs.of(device);
        let entry = self.cache.find_for(key, vif, guard).ok_or(vif)?;
        Ok(By {
            router: self,
            vifs,
            entry,
            vif,
        })
    }

    /// Reports a packet to the daemon and to the listeners. Returns whether the daemon has it (`ipmr_cache_report`,
    /// `ip6mr_cache_report`).
    pub(super) fn tell_daemon(
        &self,
        cx: &Cx<'_>,
        (device, ns): (&Arc<Device>, &Arc<Namespace>),
        state: &State<F>,
        packet: &Packet,
        (kind, vif): (u8, u16),
    ) -> bool {
        let Some(daemon) = &state.daemon else {
            return false;
        };
        let report = F::report(packet.data(), kind, vif);
        let Some(mut message) = report.and_then(|report| cx.stack.pool.packet(&report)) else {
            return false;
        };
        message.set_network(0);
        F::tell(cx.stack, ns, self, &Event::Report(message.data()));
        let taken = daemon.take(cx, device, ns, &message);
        cx.consume(message);
        taken
    }

    /// A copy of a forwarded packet, which members on the outgoing device get, meets its entry again, and is counted there.
    pub(crate) fn met_again(
        &self,
        cx: &Cx<'_>,
        (device, ns): (&Arc<Device>, &Arc<Namespace>),
        packet: &Packet,
    ) {
        let Some((key, ttl)) = F::head(packet.data()) else {
            return;
        };
        if let Ok(by) = self.find(device, key, cx.guard) {
            let _ = by.judge(cx, (device, ns), packet, ttl);
        }
    }
}

/// The way of packets by an entry.
struct By<'g, F: Family> {
    router: &'g Router<F>,
    vifs: &'g Vifs<F>,
    entry: &'g Arc<Entry<F::Address>>,
    /// The highest VIF of the device that the packet came by.
    vif: Option<u8>,
}

impl<'g, F: Family> By<'g, F> {
    /// Sends a packet by all VIFs of the entry. Returns it if it is for this host as well (`ip_mr_forward`,
    /// `ip6_mr_forward`).
    fn forward<'c: 'g>(
        &self,
        cx: &mut Cx<'c>,
        (device, ns): (&Arc<Device>, &'g Arc<Namespace>),
        packet: Packet,
        local: bool,
        options: Option<&F::Options>,
        out: &mut F::Out<'g>,
    ) -> Option<Packet> {
        let ttl = F::head(packet.data()).map_or(0, |(_, ttl)| ttl);
        let Some(ways) = self.judge(cx, (device, ns), &packet, ttl) else {
            return unless::<F>(local, cx, device, packet);
        };
        if let Some(parent) = self.vifs.get(self.entry.parent) {
            parent.input.add(packet.len());
        }
        let mut left = ways;
        let mut packet = Some(packet);
        while left != 0 {
            let number = left.ilog2();
            left &= !(1 << number);
            let last = left == 0 && !local;
            let one = match last {
                true => packet.take(),
                false => packet.as_ref().and_then(|packet| copy(cx, packet)),
            };
            match (one, self.vifs.get(number as u8)) {
                (Some(one), Some(vif)) if vif.flags & F::REGISTER != 0 => {
                    self.router.register(cx, (device, ns), vif, one);
                }
                (Some(one), Some(vif)) => F::send(cx, (device, ns), vif, one, options, out),
                (Some(one), None) => drop::<F>(cx, device, one),
                (None, _) => device.count_drop(F::PLACE, DropReason::NOMEM),
            }
        }
        unless::<F>(local, cx, device, packet?)
    }

    /// Counts a packet. Returns the VIFs that it leaves by, one bit each, or `None` if it came by the wrong one.
    fn judge(
        &self,
        cx: &Cx<'_>,
        (device, ns): (&Arc<Device>, &Arc<Namespace>),
        packet: &Packet,
        ttl: u8,
    ) -> Option<u32> {
        let entry = self.entry;
        entry.uses.count(packet.len(), cx.now);
        let parent = self.vifs.get(entry.parent);
        let arrival = Arrival {
            vif: self.vif,
            by_parent: parent.is_some_and(|parent| Arc::ptr_eq(&parent.device, device)),
            ttl,
        };
        let ways = self.router.cache.ways(entry, arrival, cx.guard);
        if ways.is_none() && (F::JUDGES_OWN || !is_own(packet)) {
            entry.uses.wrong.fetch_add(1, Relaxed);
            self.assert(cx, (device, ns), packet);
        }
        ways
    }

    /// Tells the daemon of a packet by a VIF that other packets of the entry leave by.
    fn assert(&self, cx: &Cx<'_>, (device, ns): (&Arc<Device>, &Arc<Namespace>), packet: &Packet) {
        let router = self.router;
        // PIM has packets come by other VIFs when it changes trees.
        let told = |vif: &u8| router.speaks_pim() || self.entry.leads_to(*vif);
        let Some(vif) = self.vif.filter(told) else {
            return;
        };
        if !router.asserts() || !self.entry.uses.may_report(cx.now) {
            return;
        }
        let state = router.lock();
        let whole = router.reports_wrong_whole();
        for kind in [report::WRONG_VIF, report::WRONG_VIF_WHOLE] {
            if kind == report::WRONG_VIF || whole {
                router.tell_daemon(cx, (device, ns), &state, packet, (kind, vif.into()));
            }
        }
    }
}

/// Has a packet wait for an entry, and reports the first one of its source and group (`ipmr_cache_unresolved`,
/// `ip6mr_cache_unresolved`).
fn wait<F: Family>(
    cx: &Cx<'_>,
    (device, ns): (&Arc<Device>, &Arc<Namespace>),
    router: &Router<F>,
    (key, vif): (Key<F::Address>, u8),
    packet: Packet,
    options: Option<&F::Options>,
) {
    let host = Host {
        stack: cx.stack,
        ns,
        guard: cx.guard,
    };
    let mut state = router.lock();
    if !state.unresolved.contains_key(&key) {
        let kind = report::NO_CACHE;
        if !router.tell_daemon(cx, (device, ns), &state, &packet, (kind, vif.into())) {
            return drop::<F>(cx, device, packet);
        }
        state.await_entry(key, cx.now + PATIENCE);
        router.tell(&host, &Route::Unresolved(key), true);
        if state.timer.is_none() {
            arm(cx.stack, (ns, router.id), &mut state, cx.now + PATIENCE);
        }
    }
    let waiting = Waiting {
        packet,
        device: device.key,
        options: options.copied(),
    };
    match state.unresolved.get_mut(&key) {
        Some(one) if one.packets.len() < MOST_WAITING => one.packets.push(waiting),
        _ => drop::<F>(cx, device, waiting.packet),
    }
}

fn arm<F: Family>(
    stack: &Stack,
    (ns, table): (&Arc<Namespace>, u32),
    state: &mut State<F>,
    time: u64,
) {
    let ns = Arc::downgrade(ns);
    let fire = Box::new(move |cx: &mut Cx<'_>| expire::<F>(cx, &ns, table));
    state.timer = Some(stack.arm(time, Holds::Packet, fire));
}

/// Gives up the packets that have waited long enough (`ipmr_expire_process`).
fn expire<F: Family>(cx: &mut Cx<'_>, ns: &Weak<Namespace>, table: u32) {
    let Some(ns) = ns.upgrade() else { return };
    let Some(router) = of::<F>(&ns, table) else {
        return;
    };
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
                return arm(cx.stack, (&ns, table), &mut state, next);
            }
            _ => {
                state.ages.pop_first();
                router.tell(&host, &Route::Unresolved(key), false);
                super::discard(cx.stack, state.end_wait(key).unwrap_or_default());
            }
        }
    }
}

/// Sends packets on that an entry was added for, and tells the listeners of it (`ipmr_cache_resolve`,
/// `ip6mr_cache_resolve`).
pub fn resolve<F: Family>(cx: &mut Cx<'_>, ns: &Arc<Namespace>, resolved: Resolved<F>) {
    let guard = cx.guard;
    let Resolved {
        table,
        entry,
        packets,
    } = resolved;
    let Some(router) = of::<F>(ns, table) else {
        return;
    };
    let mut out = F::Out::default();
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
        by.forward(cx, (device, ns), one.packet, false, options, &mut out);
    }
    F::flush(cx, &mut out);
    std::mem::drop(out);
    let host = Host {
        stack: cx.stack,
        ns,
        guard,
    };
    router.tell(&host, &Route::Known(entry), true);
}

/// The same where no CPU's context is at hand.
pub fn resolve_later<F: Family>(host: &Host<'_>, resolved: Resolved<F>) {
    let ns = host.ns.clone();
    host.stack
        .post(Box::new(move |cx| resolve(cx, &ns, resolved)));
}
