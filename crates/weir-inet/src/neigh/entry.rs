// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One neighbour and its state machine (`neigh_update`, `neigh_timer_handler`,
//! `__neigh_event_send`).

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

use weir_netlink::nda::ntf;
use weir_packet::{DropReason, Packet};
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::rcu::Guard;

use super::{Key, Told};
use crate::clock::{Holds, MILLISECOND, TimerId};
use crate::cpu::Cx;
use crate::device::{Device, Mac};
use crate::drops::Place;
use crate::settings::{Conf, Neigh, WithSettings};
use crate::stack::Stack;

/// Entry states (`NUD_*`) and groups of them.
#[allow(missing_docs)] // the names are Linux's
pub mod nud {
    use weir_netlink::nda::nud as wire;

    pub const NONE: u8 = wire::NONE as u8;
    pub const INCOMPLETE: u8 = wire::INCOMPLETE as u8;
    pub const REACHABLE: u8 = wire::REACHABLE as u8;
    pub const STALE: u8 = wire::STALE as u8;
    pub const DELAY: u8 = wire::DELAY as u8;
    pub const PROBE: u8 = wire::PROBE as u8;
    pub const FAILED: u8 = wire::FAILED as u8;
    pub const NOARP: u8 = wire::NOARP as u8;
    pub const PERMANENT: u8 = wire::PERMANENT as u8;
    /// The states with a running timer.
    pub const IN_TIMER: u8 = INCOMPLETE | REACHABLE | DELAY | PROBE;
    /// The states with a known address.
    pub const VALID: u8 = PERMANENT | NOARP | REACHABLE | PROBE | STALE | DELAY;
    /// The states in which the address is used without verification.
    pub const CONNECTED: u8 = PERMANENT | NOARP | REACHABLE;
}

/// The data of the state machine. It is guarded by the entry's lock, which is never held across
/// calls to other modules.
struct Inner {
    timer: Option<TimerId>,
    waiting: VecDeque<Packet>,
    waiting_octets: usize,
    probes: u32,
    /// The time of the last confirmation. It may be negative for a new entry, that is, before the
    /// clock's start.
    confirmed: i64,
    updated: u64,
    reachable_time: u64,
    protocol: u8,
}

/// A neighbour entry; see the module documentation. The fields that packets use come first and
/// share a cache line with the reference counts in front.
#[repr(C)]
pub struct Neighbour {
    mac: AtomicU64,
    used: AtomicU64,
    state: AtomicU8,
    flags: AtomicU8,
    /// The entry has been removed from the table. Changes under the lock.
    dead: AtomicBool,
    /// The device and the address.
    pub key: Key,
    inner: Mutex<Inner, order::Neighbour>,
}

/// The states in which a packet is sent at once.
const READY: u8 = nud::CONNECTED | nud::DELAY | nud::PROBE;

/// A requested change of an entry (`neigh_update`).
#[derive(Debug, Clone, Copy)]
pub struct Update {
    /// The new link-layer address, if it is known.
    pub mac: Option<Mac>,
    /// The new state.
    pub state: u8,
    /// Whether to replace an existing address (`NEIGH_UPDATE_F_OVERRIDE`).
    pub replace: bool,
    /// Whether a different address only makes a connected entry stale (`F_WEAK_OVERRIDE`).
    pub weak: bool,
    /// Whether the request comes from a user (`NEIGH_UPDATE_F_ADMIN`).
    pub admin: bool,
    /// Sets or clears the router flag, if given.
    pub router: Option<bool>,
    /// Sets or clears the mark of an entry that a control plane created and maintains
    /// (`NTF_EXT_LEARNED`), if given.
    pub learned_elsewhere: Option<bool>,
}

/// The actions to take after an entry's timer fired.
#[derive(Default)]
struct Expired {
    changed: bool,
    probe: bool,
    /// A copy of the newest waiting packet.
    last: Option<Packet>,
    lost: VecDeque<Packet>,
}

/// The reason why an update was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The entry is permanent or needs no link-layer address, and the request does not come from a
    /// user.
    NotAdmin,
    /// The entry has been removed.
    Dead,
    /// The new state needs an address, but none is known.
    NoAddress,
}

#[inline]
fn unpack(value: u64) -> Mac {
    let [a, b, c, d, e, f, _, _] = value.to_ne_bytes();
    [a, b, c, d, e, f]
}

fn pack(mac: Mac) -> u64 {
    u64::from_ne_bytes([mac[0], mac[1], mac[2], mac[3], mac[4], mac[5], 0, 0])
}

/// Returns the device's neighbour settings for the address family.
pub(super) fn conf(device: &Device, address: IpAddr) -> &Conf<Neigh> {
    if address.is_ipv4() {
        &device.conf().neigh4
    } else {
        &device.conf().neigh6
    }
}

fn ms(conf: &Conf<Neigh>, slot: Neigh) -> u64 {
    conf.get(slot).max(0) as u64 * MILLISECOND
}

impl Neighbour {
    /// Creates an entry. A group address, and any address on a device without address resolution,
    /// is resolved immediately (`arp_constructor`, `ndisc_constructor`). `broadcast` says that the
    /// namespace has the address as a broadcast address.
    pub(super) fn new(key: Key, device: &Device, broadcast: bool, now: u64) -> Self {
        use weir_netlink::ifla::iff;
        let flags = device.flags();
        let fixed = if key.address.is_multicast() {
            super::output::group_address(key.address, device)
        } else if flags & (iff::NOARP | iff::LOOPBACK) != 0 {
            Some(device.address())
        } else if broadcast || flags & iff::POINTOPOINT != 0 {
            Some(device.broadcast())
        } else {
            None
        };
        let conf = conf(device, key.address);
        Self {
            key,
            state: AtomicU8::new(if fixed.is_some() {
                nud::NOARP
            } else {
                nud::NONE
            }),
            flags: AtomicU8::new(0),
            dead: AtomicBool::new(false),
            mac: AtomicU64::new(fixed.map_or(0, pack)),
            used: AtomicU64::new(now),
            inner: Mutex::new(Inner {
                timer: None,
                waiting: VecDeque::new(),
                waiting_octets: 0,
                probes: 0,
                confirmed: long_ago(conf, now),
                updated: now,
                reachable_time: reachable_time(conf, &key),
                protocol: 0,
            }),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner, order::Neighbour> {
        self.inner.lock()
    }

    /// Returns the state (`NUD_*`).
    #[inline]
    pub fn state(&self) -> u8 {
        self.state.load(Relaxed)
    }

    /// Returns whether the entry has been removed from the table.
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.dead.load(Relaxed)
    }

    /// Returns the flags (`NTF_*`).
    pub fn flags(&self) -> u8 {
        self.flags.load(Relaxed)
    }

    /// Returns the link-layer address if it is known.
    #[inline]
    pub fn mac(&self) -> Option<Mac> {
        (self.state() & nud::VALID != 0).then(|| unpack(self.mac.load(Relaxed)))
    }

    /// Returns the link-layer address if packets may be sent there at once.
    #[inline]
    pub fn ready(&self) -> Option<Mac> {
        (self.state() & READY != 0).then(|| unpack(self.mac.load(Relaxed)))
    }

    /// Returns the time of the last use, in ns of the stack's clock.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Prefetches the fields that a packet reads.
    #[inline]
    pub fn prefetch(&self) {
        weir_sync::primitive::prefetch(&raw const self.mac);
    }

    /// Records that a packet uses the entry.
    #[inline]
    pub fn touch(&self, now: u64) {
        if self.used.load(Relaxed) != now {
            self.used.store(now, Relaxed);
        }
    }

    /// Returns whether a timer runs, which holds a reference in Linux.
    pub fn has_timer(&self) -> bool {
        self.inner().timer.is_some()
    }

    /// Returns (confirmed, updated, probes, protocol), with times in ns of the stack's clock.
    pub fn facts(&self) -> (i64, u64, u32, u8) {
        let inner = self.inner();
        (inner.confirmed, inner.updated, inner.probes, inner.protocol)
    }

    /// Sets the origin of the entry (`NDA_PROTOCOL`).
    pub fn set_protocol(&self, protocol: u8) {
        self.inner().protocol = protocol;
    }

    /// Sets or clears a flag (`NTF_*`). Returns whether it changed.
    fn set_flag(&self, flag: u8, yes: bool) -> bool {
        let before = if yes {
            self.flags.fetch_or(flag, Relaxed)
        } else {
            self.flags.fetch_and(!flag, Relaxed)
        };
        (before & flag != 0) != yes
    }

    /// Records that the neighbour is reachable (`neigh_confirm`).
    pub fn confirm(&self, now: u64) {
        self.inner().confirmed = now as i64;
    }

    fn set_state(&self, state: u8) {
        self.state.store(state, Relaxed);
    }

    fn arm(self: &Arc<Self>, stack: &Stack, inner: &mut Inner, time: u64) {
        self.disarm(stack, inner);
        let holds = if inner.waiting.is_empty() {
            Holds::Nothing
        } else {
            Holds::Packet
        };
        let me = Arc::downgrade(self);
        let fire = Box::new(move |cx: &mut Cx<'_>| {
            if let Some(entry) = me.upgrade() {
                entry.timer(cx);
            }
        });
        inner.timer = Some(stack.arm(time, holds, fire));
    }

    fn disarm(&self, stack: &Stack, inner: &mut Inner) {
        if let Some(timer) = inner.timer.take() {
            stack.timers.cancel(timer);
        }
    }

    /// Queues a packet until the address is resolved (`__neigh_event_send`). Returns the packet if
    /// it can be sent now.
    pub fn wait(
        self: &Arc<Self>,
        cx: &mut Cx<'_>,
        device: &Arc<Device>,
        packet: Packet,
    ) -> Option<Packet> {
        let conf = conf(device, self.key.address);
        let mut inner = self.inner();
        let state = self.state();
        if self.is_dead() {
            drop(inner);
            cx.drop(device, Place::Neighbour, DropReason::NEIGH_DEAD, packet);
            return None;
        }
        if state & (nud::CONNECTED | nud::DELAY | nud::PROBE) != 0 {
            return Some(packet);
        }
        if state & nud::STALE != 0 {
            self.set_state(nud::DELAY);
            inner.updated = cx.now;
            let time = cx.now + ms(conf, Neigh::DelayFirstProbeTime);
            self.arm(cx.stack, &mut inner, time);
            return Some(packet);
        }
        let mut probe = false;
        if state & nud::INCOMPLETE == 0 {
            if !may_ask(conf) {
                self.set_state(nud::FAILED);
                inner.updated = cx.now;
                drop(inner);
                cx.drop(device, Place::Neighbour, DropReason::NEIGH_FAILED, packet);
                return None;
            }
            inner.probes = conf.get(Neigh::UcastSolicit).max(0) as u32;
            self.set_state(nud::INCOMPLETE);
            inner.updated = cx.now;
            probe = true;
        }
        let limit = conf.get(Neigh::UnresQlenBytes).max(0) as usize;
        let mut lost = Vec::new();
        while inner.waiting_octets + packet.capacity() > limit {
            let Some(oldest) = inner.waiting.pop_front() else {
                break;
            };
            inner.waiting_octets -= oldest.capacity();
            lost.push(oldest);
        }
        inner.waiting_octets += packet.capacity();
        inner.waiting.push_back(packet);
        // The timer now holds a packet, so arm it again.
        let time = match inner.timer {
            Some(timer) if !probe => timer.time(),
            _ => cx.now + retransmit(conf),
        };
        self.arm(cx.stack, &mut inner, time);
        let last = probe
            .then(|| inner.waiting.back().and_then(Packet::copy))
            .flatten();
        drop(inner);
        for packet in lost {
            cx.drop(
                device,
                Place::Neighbour,
                DropReason::NEIGH_QUEUEFULL,
                packet,
            );
        }
        if probe {
            self.probe(cx, device, last.as_ref());
        }
        None
    }

    /// Sends one probe: first to the neighbour itself, then to user space listeners, then by
    /// multicast or broadcast (`neigh_probe`, `arp_solicit`, `ndisc_solicit`).
    fn probe(self: &Arc<Self>, cx: &mut Cx<'_>, device: &Arc<Device>, waiting: Option<&Packet>) {
        let conf = conf(device, self.key.address);
        let probes = self.inner().probes;
        let alone = most(conf, Neigh::UcastSolicit);
        if probes >= alone && probes - alone < most(conf, Neigh::AppSolicit) {
            super::tell(cx.stack, cx.guard, self, Told::Wanted);
        } else if let Some(protocol) = super::protocol(cx.stack, self.key.address) {
            let to = (probes < alone).then(|| self.mac()).flatten();
            (protocol.solicit)(cx, device, self.key.address, to, waiting);
        }
        self.inner().probes += 1;
    }

    /// Handles the entry's timer (`neigh_timer_handler`).
    fn timer(self: &Arc<Self>, cx: &mut Cx<'_>) {
        let Some(device) = cx.device(self.key.device).cloned() else {
            return;
        };
        let expired = self.expire(cx.stack, &device, cx.now);
        let changed = expired.changed;
        self.follow(cx, &device, expired);
        if changed {
            self.notify(cx.stack, cx.guard);
        }
    }

    /// Moves the entry to its next state after its timer expired. Returns the actions left to do.
    fn expire(self: &Arc<Self>, stack: &Stack, device: &Device, now: u64) -> Expired {
        let conf = conf(device, self.key.address);
        let mut inner = self.inner();
        self.disarm(stack, &mut inner);
        let state = self.state();
        let delay = ms(conf, Neigh::DelayFirstProbeTime);
        let mut next = now + 10 * MILLISECOND;
        let mut changed = false;
        if self.is_dead() || state & nud::IN_TIMER == 0 {
            return Expired::default();
        }
        if state & nud::REACHABLE != 0 {
            if now < after(&inner, inner.reachable_time) {
                next = after(&inner, inner.reachable_time);
            } else if now <= self.used() + delay {
                // This change is not announced.
                self.set_state(nud::DELAY);
                inner.updated = now;
                next = now + delay;
            } else {
                self.set_state(nud::STALE);
                inner.updated = now;
                changed = true;
            }
        } else if state & nud::DELAY != 0 {
            if now < after(&inner, delay) {
                self.set_state(nud::REACHABLE);
                next = after(&inner, inner.reachable_time);
            } else {
                self.set_state(nud::PROBE);
                inner.probes = 0;
                next = now + retransmit(conf);
            }
            inner.updated = now;
            changed = true;
        } else {
            next = now + retransmit(conf);
        }
        let probing = nud::INCOMPLETE | nud::PROBE;
        let mut lost = VecDeque::new();
        if self.state() & probing != 0 && inner.probes >= most_probes(conf, self.state()) {
            self.set_state(nud::FAILED);
            inner.updated = now;
            lost = std::mem::take(&mut inner.waiting);
            inner.waiting_octets = 0;
            changed = true;
        }
        if self.state() & nud::IN_TIMER != 0 {
            self.arm(stack, &mut inner, next.max(now + 1));
        }
        Expired {
            changed,
            probe: self.state() & probing != 0,
            last: inner.waiting.back().and_then(Packet::copy),
            lost,
        }
    }

    /// Carries out the actions that [`Self::expire`] returned, with no lock held.
    fn follow(self: &Arc<Self>, cx: &mut Cx<'_>, device: &Arc<Device>, expired: Expired) {
        for packet in expired.lost {
            self.report(cx, device, packet);
        }
        if expired.probe {
            self.probe(cx, device, expired.last.as_ref());
        }
    }

    /// Drops a packet whose neighbour does not answer and sends an ICMP error.
    fn report(&self, cx: &mut Cx<'_>, device: &Arc<Device>, packet: Packet) {
        if let Some(protocol) = super::protocol(cx.stack, self.key.address) {
            (protocol.failed)(cx, device, &packet);
        }
        cx.drop(device, Place::Neighbour, DropReason::NEIGH_FAILED, packet);
    }

    /// Updates the entry (`__neigh_update`). Packets that were waiting are sent on a stack CPU.
    pub fn update(
        self: &Arc<Self>,
        stack: &Stack,
        guard: &Guard,
        device: &Arc<Device>,
        update: Update,
    ) -> Result<(), Refused> {
        let conf = conf(device, self.key.address);
        let now = stack.clock.now();
        let mut inner = self.inner();
        let old = self.state();
        let mut new = update.state;
        if self.is_dead() {
            return Err(Refused::Dead);
        }
        if !update.admin && old & (nud::NOARP | nud::PERMANENT) != 0 {
            return Err(Refused::NotAdmin);
        }
        let old_mac = self.mac();
        let learned = update.learned_elsewhere;
        let marked = learned.is_some_and(|yes| self.set_flag(ntf::EXT_LEARNED, yes));
        if new & nud::VALID == 0 {
            self.disarm(stack, &mut inner);
            let mut changed = old & nud::VALID != 0;
            self.set_state(new);
            let lost = if new & nud::FAILED != 0 && old & (nud::INCOMPLETE | nud::PROBE) != 0 {
                changed = true;
                inner.waiting_octets = 0;
                std::mem::take(&mut inner.waiting)
            } else {
                VecDeque::new()
            };
            drop(inner);
            if !lost.is_empty() {
                let (me, device) = (self.clone(), device.clone());
                stack.post(Box::new(move |cx| {
                    lost.into_iter()
                        .for_each(|packet| me.report(cx, &device, packet))
                }));
            }
            if changed {
                self.notify(stack, guard);
            }
            return Ok(());
        }
        let mac = match (update.mac, old_mac) {
            // The same address again: keep the existing one.
            (Some(mac), Some(old)) if mac == old => old,
            (Some(mac), _) => mac,
            (None, Some(old)) => old,
            (None, None) => {
                drop(inner);
                if marked {
                    self.notify(stack, guard);
                }
                return Err(Refused::NoAddress);
            }
        };
        if new & nud::CONNECTED != 0 {
            inner.confirmed = now as i64;
        }
        let mut take_mac = true;
        if let Some(old_mac) = old_mac.filter(|old| *old != mac)
            && !update.replace
        {
            take_mac = false;
            if update.weak && old & nud::CONNECTED != 0 {
                new = nud::STALE;
            } else {
                drop(inner);
                if marked {
                    self.notify(stack, guard);
                }
                return Ok(());
            }
            let _ = old_mac;
        } else if old_mac == Some(mac)
            && new == nud::STALE
            && old & nud::VALID != 0
            && !update.admin
        {
            // An unconfirmed hint does not downgrade a valid entry.
            new = old;
        }
        let mac_changed = take_mac && old_mac != Some(mac);
        let router_changed = update
            .router
            .is_some_and(|yes| self.set_flag(ntf::ROUTER, yes));
        let state_changed = new != old;
        if mac_changed || state_changed {
            inner.updated = now;
        }
        if state_changed {
            self.disarm(stack, &mut inner);
            if new & nud::PROBE != 0 {
                inner.probes = 0;
            }
        }
        if take_mac {
            self.mac.store(pack(mac), Relaxed);
            if mac_changed && new & nud::CONNECTED == 0 {
                inner.confirmed = long_ago(conf, now);
            }
        }
        self.set_state(new);
        if state_changed && new & nud::REACHABLE != 0 {
            let time = now + inner.reachable_time;
            self.arm(stack, &mut inner, time);
        }
        let waiting = std::mem::take(&mut inner.waiting);
        inner.waiting_octets = 0;
        drop(inner);
        if !waiting.is_empty() {
            let (me, device) = (self.clone(), device.clone());
            stack.post(Box::new(move |cx| {
                for packet in waiting {
                    super::output::send_resolved(cx, &device, &me, packet);
                }
            }));
        }
        if mac_changed || state_changed || router_changed || marked {
            self.notify(stack, guard);
        }
        if state_changed && new & (nud::DELAY | nud::PROBE) != 0 {
            // The state takes effect at once: for a requested DELAY the delay counts as over, for
            // PROBE a probe is sent.
            let expired = self.expire(stack, device, now);
            if expired.changed {
                self.notify(stack, guard);
            }
            let (me, device) = (self.clone(), device.clone());
            stack.post(Box::new(move |cx| me.follow(cx, &device, expired)));
        }
        Ok(())
    }

    /// Marks the entry as used on request, without a packet: clears the permanent state and starts
    /// resolution if necessary (`NEIGH_UPDATE_F_USE`, `neigh_event_send`). Solicitations are sent
    /// on a stack CPU.
    pub fn make_used(
        self: &Arc<Self>,
        stack: &Stack,
        guard: &Guard,
        device: &Arc<Device>,
        learned_elsewhere: bool,
    ) -> Result<(), Refused> {
        let conf = conf(device, self.key.address);
        let now = stack.clock.now();
        let mut inner = self.inner();
        if self.is_dead() {
            return Err(Refused::Dead);
        }
        let marked = self.set_flag(ntf::EXT_LEARNED, learned_elsewhere);
        let mut state = self.state() & !nud::PERMANENT;
        let mut probe = false;
        if state & (nud::CONNECTED | nud::DELAY | nud::PROBE | nud::INCOMPLETE) == 0 {
            inner.updated = now;
            if state & nud::STALE != 0 {
                state = nud::DELAY;
                let time = now + ms(conf, Neigh::DelayFirstProbeTime);
                self.arm(stack, &mut inner, time);
            } else if may_ask(conf) {
                inner.probes = conf.get(Neigh::UcastSolicit).max(0) as u32;
                state = nud::INCOMPLETE;
                self.arm(stack, &mut inner, now + retransmit(conf));
                probe = true;
            } else {
                state = nud::FAILED;
            }
        }
        self.set_state(state);
        drop(inner);
        self.touch(now);
        if probe {
            let (me, device) = (self.clone(), device.clone());
            stack.post(Box::new(move |cx| me.probe(cx, &device, None)));
        }
        if marked {
            self.notify(stack, guard);
        }
        Ok(())
    }

    /// Marks the entry as removed and drops its waiting packets.
    pub(super) fn kill(self: &Arc<Self>, stack: &Stack, guard: &Guard) {
        let lost = {
            let mut inner = self.inner();
            self.dead.store(true, Relaxed);
            self.disarm(stack, &mut inner);
            inner.waiting_octets = 0;
            std::mem::take(&mut inner.waiting)
        };
        let device = stack.device(self.key.device, guard).cloned();
        if let (Some(device), false) = (device, lost.is_empty()) {
            stack.post(Box::new(move |cx| {
                for packet in lost {
                    cx.drop(&device, Place::Neighbour, DropReason::NEIGH_DEAD, packet);
                }
            }));
        }
        super::tell(stack, guard, self, Told::Gone);
    }

    fn notify(&self, stack: &Stack, guard: &Guard) {
        super::tell(stack, guard, self, Told::Changed);
    }
}

/// Returns the initial confirmation time of an entry that was never confirmed (`___neigh_create`).
fn long_ago(conf: &Conf<Neigh>, now: u64) -> i64 {
    (now as i64).saturating_sub_unsigned(2 * ms(conf, Neigh::BaseReachableTime))
}

/// Returns the time that is `time` ns after the entry's last confirmation.
fn after(inner: &Inner, time: u64) -> u64 {
    inner.confirmed.saturating_add_unsigned(time).max(0) as u64
}

/// Returns the maximum number of probes (`neigh_max_probes`).
fn most_probes(conf: &Conf<Neigh>, state: u8) -> u32 {
    let multicast = match state & nud::PROBE != 0 {
        true => Neigh::McastResolicit,
        false => Neigh::McastSolicit,
    };
    let all = [Neigh::UcastSolicit, Neigh::AppSolicit, multicast];
    all.map(|slot| most(conf, slot))
        .into_iter()
        .fold(0, u32::saturating_add)
}

/// Returns the maximum number of probes of one kind.
fn most(conf: &Conf<Neigh>, slot: Neigh) -> u32 {
    conf.get(slot).max(0) as u32
}

/// Returns whether unknown addresses are resolved at all.
fn may_ask(conf: &Conf<Neigh>) -> bool {
    most(conf, Neigh::McastSolicit) != 0 || most(conf, Neigh::AppSolicit) != 0
}

/// Returns the time between two probes in ns, at least 10 ms.
fn retransmit(conf: &Conf<Neigh>) -> u64 {
    ms(conf, Neigh::RetransTime).max(10 * MILLISECOND)
}

/// Returns a reachable time between half and one and a half times the base
/// (`neigh_rand_reach_time`). It is derived from the entry's key.
fn reachable_time(conf: &Conf<Neigh>, key: &Key) -> u64 {
    let base = ms(conf, Neigh::BaseReachableTime);
    if base == 0 {
        return 0;
    }
    crate::random::seed_of(u64::from(key.device.0), &key.address.to_string()) % base + base / 2
}

impl std::fmt::Debug for Neighbour {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Neighbour")
            .field("key", &self.key)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
