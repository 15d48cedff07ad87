// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Multicast routing (`net/ipv4/ipmr.c`, `ipmr_base.c`): the table that a routing daemon fills, and the packets that go by
//! it.
//!
//! | file | contents |
//! |---|---|
//! | [`cache`] | entries by source and group; the decision about a packet |
//! | [`vif`] | the devices between which packets are routed |
//! | `forward` | the packet path |
//!
//! A namespace has one table, as Linux without `CONFIG_IP_MROUTE_MULTIPLE_TABLES`, and none before its first use. Packets
//! read VIFs and entries under RCU. A packet without an entry takes the table's lock, waits, and is reported to the
//! daemon. The entry that the daemon adds sends it on.
//!
//! Not implemented: PIM (`MRT_PIM` and the register VIF, as without `CONFIG_IP_PIMSM_V1` and `_V2`), tunnels as VIFs,
//! router alerts in unicast packets, reports of IGMPv1 and v2 by this host in the way of packets of its
//! programs. A packet that was forwarded and is delivered to a member on the outgoing device is not
//! forwarded again. (In Linux an entry whose parent is also an outgoing VIF may forward it until its TTL ends.)

pub mod cache;
mod forward;
#[cfg(test)]
mod tests;
pub mod vif;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use weir_netlink::errno;
use weir_netlink::ifla::iff;
use weir_packet::header::ipv4_options::Compiled;
use weir_packet::{DropReason, Packet};
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::rcu::{Domain, Guard, Published};

pub use cache::{Entry, Key, MAX_VIFS};
pub(super) use forward::{input, looped};
pub use forward::{resolve, resolve_later};
pub use vif::{Vif, Vifs};

use super::WithIpv4;
use cache::{Cache, Uses};

use crate::clock::TimerId;
use crate::conf::Target;
use crate::cpu::Cx;
use crate::device::{Device, DeviceKey};
use crate::fib::host::Host;
use crate::listen::{self, ConfEvent, conf4};
use crate::namespace::Namespace;
use crate::settings::{HasIp, Ipv4Conf, WithSettings};
use crate::stack::Stack;
use weir_core::netdev::ask_for_all;

/// The number of the only table (`RT_TABLE_DEFAULT`).
pub const TABLE: u32 = 253;

/// What a flush removes (`MRT_FLUSH_*`).
pub mod flush {
    /// The daemon's entries, and those that are not resolved.
    pub const ENTRIES: i32 = 1;
    /// Other entries.
    pub const STATIC_ENTRIES: i32 = 2;
    /// The daemon's VIFs.
    pub const VIFS: i32 = 4;
    /// Other VIFs.
    pub const STATIC_VIFS: i32 = 8;
}

/// The kinds of reports to the daemon (`IGMPMSG_*`).
pub mod report {
    /// No entry is known for a packet.
    pub const NO_CACHE: u8 = 1;
    /// A packet came by the wrong VIF.
    pub const WRONG_VIF: u8 = 2;
}

/// The socket of a routing daemon.
pub trait Daemon: Send + Sync {
    /// Returns the number that no other socket of the namespace has.
    fn cookie(&self) -> u64;
    /// Takes a packet, or a report in the form of one (`struct igmpmsg`). Returns false if there is no room. May be
    /// called with the table's lock held.
    fn take(&self, cx: &Cx<'_>, device: &Arc<Device>, ns: &Namespace, packet: &Packet) -> bool;
}

/// A VIF that a program asks for (`struct vifctl`).
#[derive(Debug, Clone, Copy)]
pub struct NewVif {
    /// The number.
    pub number: u8,
    /// `VIFF_*`
    pub flags: u8,
    /// The local address, or the index of the device in the machine's byte order.
    pub local: [u8; 4],
    /// The remote address.
    pub remote: [u8; 4],
}

/// An entry that a program asks for (`struct mfcctl`).
#[derive(Debug, Clone, Copy)]
pub struct NewEntry {
    /// The source and the group.
    pub key: Key,
    /// The VIF that packets have to come by.
    pub parent: u16,
    /// The thresholds of the VIFs. 0 and 255 mean that no packet leaves by it.
    pub thresholds: [u8; MAX_VIFS],
    /// Entries with other parents are others (`MRT_ADD_MFC_PROXY`).
    pub proxy: bool,
}

impl NewEntry {
    fn by_parent(&self) -> Option<u16> {
        self.proxy.then_some(self.parent)
    }
}

/// A packet that waits for an entry.
struct Waiting {
    packet: Packet,
    /// The device that it came by.
    device: DeviceKey,
    options: Option<Compiled>,
}

/// A key without an entry.
struct Unresolved {
    /// Greater than that of every older one.
    number: u64,
    /// When it is given up, in ns.
    expires: u64,
    packets: Vec<Waiting>,
}

/// The packets that an added entry sends on.
pub struct Resolved {
    entry: Arc<Entry>,
    packets: Vec<Waiting>,
}

/// The state that the lock guards.
#[derive(Default)]
struct State {
    daemon: Option<Arc<dyn Daemon>>,
    /// All entries, the oldest first.
    entries: BTreeMap<u64, Arc<Entry>>,
    unresolved: BTreeMap<Key, Unresolved>,
    /// The keys without an entry by number, the oldest first.
    ages: BTreeMap<u64, Key>,
    /// The last number of an entry or of a key without one.
    last: u64,
    /// The timer of the first key without an entry that is given up.
    timer: Option<TimerId>,
}

impl State {
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Has packets of a key wait until a time.
    fn await_entry(&mut self, key: Key, expires: u64) {
        let number = self.number();
        let one = Unresolved {
            number,
            expires,
            packets: Vec::new(),
        };
        self.unresolved.insert(key, one);
        self.ages.insert(number, key);
    }

    /// Ends the wait for an entry. Returns the packets.
    fn end_wait(&mut self, key: Key) -> Option<Vec<Waiting>> {
        let one = self.unresolved.remove(&key)?;
        self.ages.remove(&one.number);
        Some(one.packets)
    }
}

/// The multicast routes of a namespace.
pub struct Router {
    vifs: Published<Vifs>,
    cache: Cache,
    /// The daemon wants to know of packets by the wrong VIF.
    assert: AtomicBool,
    state: Mutex<State, order::MulticastRoutes>,
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Router").finish_non_exhaustive()
    }
}

/// A route, as listeners are told of it and as dumps show it.
#[derive(Debug, Clone)]
pub enum Route {
    /// One that packets go by.
    Known(Arc<Entry>),
    /// A key whose packets wait for an entry.
    Unresolved(Key),
}

/// What listeners hear.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A route came, changed or went (`false`).
    Route(&'a Route, bool),
    /// A report to the daemon: the bytes of a `struct igmpmsg` and what follows.
    Report(&'a [u8]),
}

/// Returns the multicast routes of a namespace, if it has ever had some.
#[inline]
pub fn of(ns: &Namespace) -> Option<&Router> {
    ns.ipv4().multicast.get()
}

fn make<'a>(host: &Host<'a>) -> &'a Router {
    let domain = &host.stack.domain;
    host.ns.ipv4().multicast.get_or_make(|| Router::new(domain))
}

/// Adds to a counter that is shown as a setting, and tells the listeners.
fn count_forwarding(stack: &Stack, ns: &Namespace, target: &Target, by: i32) {
    let conf = match target {
        Target::Device(device) => &device.conf().ipv4,
        _ => &ns.conf().all.ipv4,
    };
    conf.set(
        Ipv4Conf::McForwarding,
        conf.get(Ipv4Conf::McForwarding) + by,
    );
    conf4(
        stack,
        ns,
        &ConfEvent::Changed(target, Ipv4Conf::McForwarding),
    );
}

fn tell(host: &Host<'_>, route: &Route, is_new: bool) {
    listen::multicast4(host.stack, host.ns, &Event::Route(route, is_new));
}

/// Drops packets that no entry came for. Observers of drops see them without the table's lock.
fn discard(stack: &Stack, waiting: Vec<Waiting>) {
    if waiting.is_empty() {
        return;
    }
    stack.post(Box::new(move |cx| {
        for one in waiting {
            match cx.device(one.device) {
                Some(device) => forward::drop(cx, device, DropReason::NOT_SPECIFIED, one.packet),
                None => cx.consume(one.packet),
            }
        }
    }));
}

/// Makes a socket the daemon of its namespace (`MRT_INIT`).
///
/// # Errors
/// EADDRINUSE if there is one.
pub fn init(host: &Host<'_>, daemon: Arc<dyn Daemon>) -> Result<(), i32> {
    let router = make(host);
    let mut state = router.lock();
    if state.daemon.is_some() {
        return Err(errno::EADDRINUSE);
    }
    state.daemon = Some(daemon);
    count_forwarding(host.stack, host.ns, &Target::All, 1);
    Ok(())
}

/// Ends the daemon with a cookie, and removes its VIFs and entries (`MRT_DONE`, `mrtsock_destruct`).
///
/// # Errors
/// EACCES if the socket is not the daemon's.
pub fn done(host: &Host<'_>, cookie: u64) -> Result<(), i32> {
    let router = of(host.ns).ok_or(errno::EACCES)?;
    let mut state = router.lock();
    if !router.is_daemon(&state, cookie) {
        return Err(errno::EACCES);
    }
    count_forwarding(host.stack, host.ns, &Target::All, -1);
    state.daemon = None;
    router.flush_locked(host, &mut state, flush::VIFS | flush::ENTRIES);
    Ok(())
}

/// Adds a VIF for the socket with a cookie (`MRT_ADD_VIF`).
///
/// # Errors
/// EADDRINUSE if the number is taken, EADDRNOTAVAIL without a device, ENOBUFS for a tunnel, EINVAL for other flags.
pub fn add_vif(host: &Host<'_>, new: &NewVif, cookie: u64) -> Result<(), i32> {
    let router = make(host);
    let state = router.lock();
    let vifs = router.vifs.load(host.guard);
    if vifs.get(new.number).is_some() {
        return Err(errno::EADDRINUSE);
    }
    let device = match new.flags {
        vif::flag::TUNNEL => return Err(errno::ENOBUFS),
        vif::flag::USE_IFINDEX => host.ns.device(u32::from_ne_bytes(new.local), host.guard),
        0 => super::ways::owner_of(host.ns, new.local.into(), host.guard),
        _ => return Err(errno::EINVAL),
    };
    let device = device.filter(|device| device.has_ipv4() && !device.is_leaving());
    let device = device.ok_or(errno::EADDRNOTAVAIL)?.clone();
    let is_static = !router.is_daemon(&state, cookie);
    let vif = Arc::new(Vif {
        number: new.number,
        device: device.clone(),
        flags: u16::from(new.flags) | if is_static { vif::flag::STATIC } else { 0 },
        local: new.local,
        remote: new.remote,
        input: vif::Count::default(),
        output: vif::Count::default(),
    });
    router.vifs.replace(vifs.with(new.number, Some(vif)));
    ask_for_all(host.stack, host.guard, &device, iff::ALLMULTI, true);
    count_forwarding(host.stack, host.ns, &Target::Device(device.clone()), 1);
    // The event of a device that has begun to leave meanwhile may not have found the VIF.
    if device.is_leaving() {
        router.remove_vif(host, new.number);
        return Err(errno::EADDRNOTAVAIL);
    }
    Ok(())
}

/// Removes a VIF (`MRT_DEL_VIF`).
///
/// # Errors
/// EADDRNOTAVAIL if there is none of the number.
pub fn delete_vif(host: &Host<'_>, number: u8) -> Result<(), i32> {
    let router = of(host.ns).ok_or(errno::EADDRNOTAVAIL)?;
    let _state = router.lock();
    match router.remove_vif(host, number) {
        true => Ok(()),
        false => Err(errno::EADDRNOTAVAIL),
    }
}

/// Adds an entry or changes one (`ipmr_mfc_add`). The caller sends the returned packets on by [`resolve`] or
/// [`resolve_later`].
///
/// # Errors
/// ENFILE for a parent that cannot be, EINVAL for a group that is none.
pub fn add(
    host: &Host<'_>,
    new: &NewEntry,
    is_static: bool,
    now: u64,
) -> Result<Option<Resolved>, i32> {
    if usize::from(new.parent) >= MAX_VIFS {
        return Err(errno::ENFILE);
    }
    let router = make(host);
    let mut state = router.lock();
    let found = router.cache.find(new.key, new.by_parent(), host.guard);
    let group = new.key.group;
    if found.is_none() && !group.is_unspecified() && !group.is_multicast() {
        return Err(errno::EINVAL);
    }
    let vifs = router.vifs.load(host.guard);
    let mut thresholds = new.thresholds;
    for (at, ttl) in thresholds.iter_mut().enumerate() {
        if *ttl == 0 || vifs.get(at as u8).is_none() {
            *ttl = 255;
        }
    }
    let uses = found.map_or_else(|| Arc::new(Uses::default()), |old| old.uses.clone());
    uses.last.store(now, Relaxed);
    let entry = Arc::new(Entry {
        key: new.key,
        parent: new.parent as u8,
        thresholds,
        is_static: is_static || found.is_some_and(|old| old.is_static),
        number: found.map_or_else(|| state.number(), |old| old.number),
        uses,
    });
    let is_new = found.is_none();
    router.cache.put(&entry, host.guard);
    state.entries.insert(entry.number, entry.clone());
    let waited = match is_new {
        true => state.end_wait(new.key),
        false => None,
    };
    router.stop_idle(host.stack, &mut state);
    let Some(packets) = waited else {
        tell(host, &Route::Known(entry), true);
        return Ok(None);
    };
    // Listeners hear of it when the packets are on their way.
    Ok(Some(Resolved { entry, packets }))
}

/// Removes an entry (`ipmr_mfc_delete`).
///
/// # Errors
/// ENOENT if there is none.
pub fn delete(host: &Host<'_>, which: &NewEntry) -> Result<(), i32> {
    let router = of(host.ns).ok_or(errno::ENOENT)?;
    let mut state = router.lock();
    let found = router.cache.find(which.key, which.by_parent(), host.guard);
    let entry = found.ok_or(errno::ENOENT)?.clone();
    router.cache.remove(&entry, host.guard);
    state.entries.remove(&entry.number);
    tell(host, &Route::Known(entry), false);
    Ok(())
}

/// Removes what the flags name ([`flush`]; `mroute_clean_tables`).
pub fn flush_all(host: &Host<'_>, flags: i32) {
    if let Some(router) = of(host.ns) {
        router.flush_locked(host, &mut router.lock(), flags);
    }
}

/// Removes the VIFs of a device that goes (`ipmr_device_event`). Its settings are gone already.
pub(super) fn device_gone(host: &Host<'_>, device: &Arc<Device>) {
    let Some(router) = of(host.ns) else { return };
    let _state = router.lock();
    while let Some(number) = router.vifs.load(host.guard).of(device) {
        router.remove_vif(host, number);
    }
}

impl Router {
    fn new(domain: &Domain) -> Self {
        Self {
            vifs: Published::new(domain, Vifs::default()),
            cache: Cache::new(domain),
            assert: AtomicBool::new(false),
            state: Mutex::new(State::default()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State, order::MulticastRoutes> {
        self.state.lock()
    }

    fn is_daemon(&self, state: &State, cookie: u64) -> bool {
        let daemon = state.daemon.as_ref();
        daemon.is_some_and(|daemon| daemon.cookie() == cookie)
    }

    /// Returns whether the socket with a cookie is the daemon's.
    pub fn is_daemons(&self, cookie: u64) -> bool {
        self.is_daemon(&self.lock(), cookie)
    }

    /// Returns the VIFs.
    pub fn vifs<'g>(&'g self, guard: &'g Guard) -> &'g Vifs {
        self.vifs.load(guard)
    }

    /// Returns the entry of exactly this key (`ipmr_cache_find`).
    pub fn entry<'g>(&'g self, key: Key, guard: &'g Guard) -> Option<&'g Arc<Entry>> {
        self.cache.find(key, None, guard)
    }

    /// Returns all routes, as dumps show them: the oldest first, then those that are not resolved, the newest first.
    pub fn routes(&self) -> Vec<Route> {
        let state = self.lock();
        let known = state.entries.values().cloned().map(Route::Known);
        let waiting = state.ages.values().rev().copied().map(Route::Unresolved);
        known.chain(waiting).collect()
    }

    /// Returns the number of keys whose packets wait for an entry.
    pub fn waiting(&self) -> usize {
        self.lock().unresolved.len()
    }

    /// Returns whether packets by the wrong VIF are reported (`MRT_ASSERT`).
    pub fn asserts(&self) -> bool {
        self.assert.load(Relaxed)
    }

    fn remove_vif(&self, host: &Host<'_>, number: u8) -> bool {
        let vifs = self.vifs.load(host.guard);
        let Some(vif) = vifs.get(number) else {
            return false;
        };
        let device = vif.device.clone();
        self.vifs.replace(vifs.with(number, None));
        ask_for_all(host.stack, host.guard, &device, iff::ALLMULTI, false);
        if device.has_ipv4() && !device.is_leaving() {
            count_forwarding(host.stack, host.ns, &Target::Device(device), -1);
        }
        true
    }

    fn flush_locked(&self, host: &Host<'_>, state: &mut State, flags: i32) {
        let wanted = |is_static: bool, own: i32, others: i32| {
            flags & if is_static { others } else { own } != 0
        };
        let vifs: Vec<u8> = {
            let all = self.vifs.load(host.guard).iter();
            let gone = all.filter(|vif| {
                let is_static = vif.flags & vif::flag::STATIC != 0;
                wanted(is_static, flush::VIFS, flush::STATIC_VIFS)
            });
            gone.map(|vif| vif.number).collect()
        };
        for number in vifs {
            self.remove_vif(host, number);
        }
        let gone =
            |entry: &Arc<Entry>| wanted(entry.is_static, flush::ENTRIES, flush::STATIC_ENTRIES);
        let all = std::mem::take(&mut state.entries);
        let (gone, stay): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.into_iter().partition(|(_, entry)| gone(entry));
        state.entries = stay;
        for entry in gone.into_values() {
            self.cache.remove(&entry, host.guard);
            tell(host, &Route::Known(entry), false);
        }
        if flags & flush::ENTRIES != 0 {
            while let Some((_, key)) = state.ages.pop_last() {
                tell(host, &Route::Unresolved(key), false);
                discard(host.stack, state.end_wait(key).unwrap_or_default());
            }
            self.stop_idle(host.stack, state);
        }
    }

    /// Stops the timer if no packet waits.
    fn stop_idle(&self, stack: &Stack, state: &mut State) {
        if state.unresolved.is_empty()
            && let Some(timer) = state.timer.take()
        {
            stack.timers.cancel(timer);
        }
    }
}

/// Sets whether packets by the wrong VIF are reported (`MRT_ASSERT`).
pub fn set_assert(host: &Host<'_>, on: bool) {
    make(host).assert.store(on, Relaxed);
}

/// A route with the VIFs of the present, as messages show it (`mr_fill_mroute`).
#[derive(Debug, Clone)]
pub struct Shown {
    /// The index of the parent's device.
    pub iif: Option<u32>,
    /// The VIFs that packets leave by: number, index of the device, threshold.
    pub hops: Vec<(u8, u32, u8)>,
    /// Packets, bytes, and packets by the wrong VIF.
    pub counts: [u64; 3],
    /// The time since the last packet in ns.
    pub idle: u64,
}

impl Entry {
    /// Returns the packets, the bytes, and the packets by the wrong VIF.
    pub fn counts(&self) -> [u64; 3] {
        let Uses {
            packets,
            bytes,
            wrong,
            ..
        } = &*self.uses;
        [packets, bytes, wrong].map(|count| count.load(Relaxed))
    }

    /// Returns what messages show.
    pub fn shown(&self, vifs: &Vifs, now: u64) -> Shown {
        let index = |vif: &Arc<Vif>| vif.device.ifindex();
        let ways = vifs.iter().filter(|vif| self.leads_to(vif.number));
        let hop = |vif: &Arc<Vif>| {
            let ttl = self.thresholds.get(usize::from(vif.number));
            (vif.number, index(vif), ttl.copied().unwrap_or(255))
        };
        Shown {
            iif: vifs.get(self.parent).map(index),
            hops: ways.map(hop).collect(),
            counts: self.counts(),
            idle: now.saturating_sub(self.uses.last.load(Relaxed)),
        }
    }
}

impl Route {
    /// Returns the source and the group.
    pub fn key(&self) -> Key {
        match self {
            Self::Known(entry) => entry.key,
            Self::Unresolved(key) => *key,
        }
    }
}

impl From<(Ipv4Addr, Ipv4Addr)> for Key {
    fn from((origin, group): (Ipv4Addr, Ipv4Addr)) -> Self {
        Self { origin, group }
    }
}
