// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Multicast routing of both families (`net/ipv4/ipmr_base.c`, and what `ipmr.c` and `net/ipv6/ip6mr.c` have in common):
//! the table that a routing daemon fills, and the packets that go by it.
//!
//! | file | contents |
//! |---|---|
//! | [`cache`] | entries by source and group; the decision about a packet |
//! | [`vif`] | the devices between which packets are routed |
//! | [`tables`] | the tables of a namespace, and the rules that choose one |
//! | `path` | the packet path |
//! | `register` | the register VIF of PIM |
//! | [`crate::ipv4::multicast`], [`crate::ipv6::multicast`] | what differs: headers, reports, the way out |
//!
//! A namespace has several tables of a family, each with a daemon, VIFs and entries of its own, and none before their first
//! use. Rules choose the table of a packet ([`tables`]). Packets read VIFs and entries under RCU. A packet without an entry takes the table's lock, waits, and is reported
//! to the daemon. The entry that the daemon adds sends it on. VIFs are called MIFs in IPv6.
//!
//! Not implemented: reports of groups by this host in the way of packets of its programs. A packet that was
//! forwarded and is delivered to a member on the outgoing device is not forwarded again. (In Linux an entry whose parent is
//! also an outgoing VIF may forward it until its TTL ends.)

pub mod cache;
mod path;
mod register;
pub mod tables;
#[cfg(test)]
mod tests;
pub mod vif;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use weir_netlink::errno;
use weir_netlink::ifla::iff;
use weir_packet::Packet;
use weir_sync::once_box::OnceBox;
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::rcu::{Domain, Guard, Published};

pub use cache::{Address, Entry, Key, MAX_VIFS};
pub(crate) use path::{copy, input, unless};
pub use path::{resolve, resolve_later};
pub use register::PIM;
pub(crate) use register::{decapsulate, is_pim_register};
pub use tables::{Routers, all, exists, make, of};
pub use vif::{Vif, Vifs};

use cache::{Cache, Uses};

use crate::clock::TimerId;
use crate::conf::Target;
use crate::cpu::Cx;
use crate::device::{Device, DeviceKey};
use crate::drops::Place;
use crate::fib;
use crate::fib::host::{AnyRule, Host};
use crate::namespace::Namespace;
use crate::stack::Stack;
use weir_core::netdev::{ask_for_all, unregister};

/// A family of addresses, whose packets are routed.
pub trait Family: Copy + std::fmt::Debug + Send + Sync + 'static {
    /// Its addresses.
    type Address: Address;
    /// What requests for VIFs say of addresses.
    type Ends: Copy + std::fmt::Debug + Send + Sync;
    /// What is known of a packet beside its bytes.
    type Options: Copy + Send + 'static;
    /// Packets on their way out, which are sent together.
    type Out<'g>: Default;

    /// The address of a rule.
    type Prefix: fib::Address;

    /// The number of the table that every namespace has.
    const TABLE: u32;
    /// The flag of a register VIF.
    const REGISTER: u16;
    /// The flags of VIFs whose devices come and go with them.
    const OWNED: u16;
    /// The name of the register device of [`TABLE`](Self::TABLE), with which those of others begin.
    const REGISTER_NAME: &'static str;
    /// The MTU of register devices in bytes.
    const REGISTER_MTU: u32;
    /// `ETH_P_*`
    const ETHERTYPE: u16;
    /// The least number that no other table can have.
    const TABLES: u32;
    /// Where packets that are not forwarded are dropped.
    const PLACE: Place;
    /// Packets of this host count as received by the wrong VIF, and are reported so.
    const JUDGES_OWN: bool;
    /// Rules see packets of this host as leaving by their device, and not as received by it.
    const OWN_BY_OUTPUT: bool;

    /// Returns the place of the tables in a namespace.
    fn place(ns: &Namespace) -> &OnceBox<Routers<Self>>;
    /// Tells the listeners of an event of a table.
    fn tell(stack: &Stack, ns: &Namespace, router: &Router<Self>, event: &Event<'_, Self::Address>);
    /// Returns a rule as listeners are told of it.
    fn any_rule(rule: &fib::rule::Entry<Self::Prefix>) -> AnyRule<'_>;
    /// Returns whether VIFs of a device count in its `mc_forwarding`.
    fn counts(device: &Device) -> bool;
    /// Adds to `mc_forwarding`, which counts daemons and VIFs, and tells the listeners.
    fn count(stack: &Stack, ns: &Namespace, target: &Target, by: i32);
    /// Returns the source, the group and the time to live of a packet that begins with its header.
    fn head(packet: &[u8]) -> Option<(Key<Self::Address>, u8)>;
    /// Returns the bytes of a report about a packet by a VIF; `kind` is one of [`report`].
    fn report(packet: &[u8], kind: u8, vif: u16) -> Option<Vec<u8>>;
    /// Sets up a register device that has been made, and has the namespace take registers.
    fn prepare(host: &Host<'_>, device: &Device);
    /// Sends a packet that `device` has received by a VIF.
    fn send<'g, 'c: 'g>(
        cx: &mut Cx<'c>,
        from: (&Arc<Device>, &'g Arc<Namespace>),
        vif: &'g Vif<Self>,
        packet: Packet,
        options: Option<&Self::Options>,
        out: &mut Self::Out<'g>,
    );
    /// Sends what `out` holds.
    fn flush(cx: &mut Cx<'_>, out: &mut Self::Out<'_>);
}

/// What a flush removes (`MRT_FLUSH_*`, `MRT6_FLUSH_*`).
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

/// The kinds of reports to the daemon (`IGMPMSG_*`, `MRT6MSG_*`).
pub mod report {
    /// No entry is known for a packet.
    pub const NO_CACHE: u8 = 1;
    /// A packet came by the wrong VIF.
    pub const WRONG_VIF: u8 = 2;
    /// A packet left by the register VIF. It follows the report.
    pub const WHOLE: u8 = 3;
    /// A packet came by the wrong VIF. It follows the report.
    pub const WRONG_VIF_WHOLE: u8 = 4;
}

/// The socket of a routing daemon.
pub trait Daemon: Send + Sync {
    /// Returns the number that no other socket of the namespace has.
    fn cookie(&self) -> u64;
    /// Takes a packet, or a report in the form of one (`struct igmpmsg`, `struct mrt6msg`). Returns false if there is no room. May be
    /// called with the table's lock held.
    fn take(&self, cx: &Cx<'_>, device: &Arc<Device>, ns: &Namespace, packet: &Packet) -> bool;
}

/// An entry that a program asks for (`struct mfcctl`, `struct mf6cctl`).
#[derive(Debug, Clone, Copy)]
pub struct NewEntry<A> {
    /// The source and the group.
    pub key: Key<A>,
    /// The VIF that packets have to come by.
    pub parent: u16,
    /// The thresholds of the VIFs. 0 and 255 mean that no packet leaves by it.
    pub thresholds: [u8; MAX_VIFS],
    /// Entries with other parents are others (`MRT_ADD_MFC_PROXY`).
    pub proxy: bool,
}

impl<A> NewEntry<A> {
    fn by_parent(&self) -> Option<u16> {
        self.proxy.then_some(self.parent)
    }
}

/// A packet that waits for an entry.
struct Waiting<F: Family> {
    packet: Packet,
    /// The device that it came by.
    device: DeviceKey,
    options: Option<F::Options>,
}

/// A key without an entry.
struct Unresolved<F: Family> {
    /// Greater than that of every older one.
    number: u64,
    /// When it is given up, in ns.
    expires: u64,
    packets: Vec<Waiting<F>>,
}

/// The packets that an added entry sends on.
pub struct Resolved<F: Family> {
    /// The number of the table.
    table: u32,
    entry: Arc<Entry<F::Address>>,
    packets: Vec<Waiting<F>>,
}

/// The state that the lock guards.
struct State<F: Family> {
    daemon: Option<Arc<dyn Daemon>>,
    /// All entries, the oldest first.
    entries: BTreeMap<u64, Arc<Entry<F::Address>>>,
    unresolved: BTreeMap<Key<F::Address>, Unresolved<F>>,
    /// The keys without an entry by number, the oldest first.
    ages: BTreeMap<u64, Key<F::Address>>,
    /// The last number of an entry or of a key without one.
    last: u64,
    /// The timer of the first key without an entry that is given up.
    timer: Option<TimerId>,
}

impl<F: Family> Default for State<F> {
    fn default() -> Self {
        Self {
            daemon: None,
            entries: BTreeMap::new(),
            unresolved: BTreeMap::new(),
            ages: BTreeMap::new(),
            last: 0,
            timer: None,
        }
    }
}

impl<F: Family> State<F> {
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Has packets of a key wait until a time.
    fn await_entry(&mut self, key: Key<F::Address>, expires: u64) {
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
    fn end_wait(&mut self, key: Key<F::Address>) -> Option<Vec<Waiting<F>>> {
        let one = self.unresolved.remove(&key)?;
        self.ages.remove(&one.number);
        Some(one.packets)
    }
}

/// A multicast routing table of a family in a namespace (`struct mr_table`).
pub struct Router<F: Family> {
    /// Its number.
    id: u32,
    /// The table that was made after it.
    next: OnceBox<Router<F>>,
    vifs: Published<Vifs<F>>,
    cache: Cache<F::Address>,
    /// The daemon wants to know of packets by the wrong VIF.
    assert: AtomicBool,
    /// The daemon speaks PIM.
    pim: AtomicBool,
    /// Reports of packets by the wrong VIF are followed by one with the packet.
    wrong_whole: AtomicBool,
    state: Mutex<State<F>, order::MulticastRoutes>,
}

impl<F: Family> std::fmt::Debug for Router<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Router").finish_non_exhaustive()
    }
}

/// A route, as listeners are told of it and as dumps show it.
#[derive(Debug, Clone)]
pub enum Route<A> {
    /// One that packets go by.
    Known(Arc<Entry<A>>),
    /// A key whose packets wait for an entry.
    Unresolved(Key<A>),
}

/// What listeners hear.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a, A> {
    /// A route came, changed or went (`false`).
    Route(&'a Route<A>, bool),
    /// A report to the daemon: the bytes of a `struct igmpmsg` or `struct mrt6msg`, and what follows.
    Report(&'a [u8]),
}

/// Drops packets that no entry came for. Observers of drops see them without the table's lock.
fn discard<F: Family>(stack: &Stack, waiting: Vec<Waiting<F>>) {
    if waiting.is_empty() {
        return;
    }
    stack.post(Box::new(move |cx| {
        for one in waiting {
            match cx.device(one.device) {
                Some(device) => path::drop::<F>(cx, device, one.packet),
                None => cx.consume(one.packet),
            }
        }
    }));
}

/// Ends the daemon whose socket has a cookie (`mrtsock_destruct`, `ip6mr_sk_done`).
pub fn closed<F: Family>(host: &Host<'_>, cookie: u64) {
    for router in all::<F>(host.ns) {
        // Most sockets are not the daemon's.
        let _ = router.done(host, cookie);
    }
}

/// A VIF that a program asks for (`struct vifctl`, `struct mif6ctl`).
#[derive(Debug, Clone, Copy)]
pub struct NewVif<F: Family> {
    /// The number.
    pub number: u8,
    /// `VIFF_*`, `MIFF_*`
    pub flags: u8,
    /// What the request says of its addresses.
    pub ends: F::Ends,
}

/// Removes the VIFs of a device that goes (`ipmr_device_event`, `ip6mr_device_event`).
pub(crate) fn device_gone<F: Family>(host: &Host<'_>, device: &Arc<Device>) {
    for router in all::<F>(host.ns) {
        let _state = router.lock();
        while let Some(number) = router.vifs.load(host.guard).of(device) {
            router.remove_vif(host, number);
        }
    }
}

impl<F: Family> Router<F> {
    fn new(domain: &Domain, id: u32) -> Self {
        Self {
            id,
            next: OnceBox::default(),
            vifs: Published::new(domain, Vifs::default()),
            cache: Cache::new(domain),
            assert: AtomicBool::new(false),
            pim: AtomicBool::new(false),
            wrong_whole: AtomicBool::new(false),
            state: Mutex::new(State::default()),
        }
    }

    /// Returns the number of the table.
    pub fn id(&self) -> u32 {
        self.id
    }

    fn tell(&self, host: &Host<'_>, route: &Route<F::Address>, is_new: bool) {
        F::tell(host.stack, host.ns, self, &Event::Route(route, is_new));
    }

    /// Makes a socket the daemon of the table (`MRT_INIT`, `MRT6_INIT`).
    ///
    /// # Errors
    /// EADDRINUSE if there is one.
    pub fn init(&self, host: &Host<'_>, daemon: Arc<dyn Daemon>) -> Result<(), i32> {
        let mut state = self.lock();
        if state.daemon.is_some() {
            return Err(errno::EADDRINUSE);
        }
        state.daemon = Some(daemon);
        F::count(host.stack, host.ns, &Target::All, 1);
        Ok(())
    }

    /// Ends the daemon with a cookie, and removes its VIFs and entries (`MRT_DONE`, `MRT6_DONE`).
    ///
    /// # Errors
    /// EACCES if the socket is not the daemon's.
    pub fn done(&self, host: &Host<'_>, cookie: u64) -> Result<(), i32> {
        let mut state = self.lock();
        if !self.is_daemon(&state, cookie) {
            return Err(errno::EACCES);
        }
        F::count(host.stack, host.ns, &Target::All, -1);
        state.daemon = None;
        let gone = self.flush_locked(host, &mut state, flush::VIFS | flush::ENTRIES);
        drop(state);
        unregister(host.stack, &gone);
        Ok(())
    }

    /// Fails if a VIF cannot be added beside others.
    fn check_room(vifs: &Vifs<F>, new: &NewVif<F>) -> Result<(), i32> {
        let registers = u16::from(new.flags) & F::REGISTER != 0;
        match vifs.get(new.number).is_some() || registers && vifs.register().is_some() {
            true => Err(errno::EADDRINUSE),
            false => Ok(()),
        }
    }

    /// Adds a VIF with a device of its own, which `make` makes, for the socket with a cookie.
    ///
    /// # Errors
    /// As [`add_vif`](Self::add_vif), EADDRINUSE for a second register VIF.
    pub(crate) fn add_own_vif(
        &self,
        host: &Host<'_>,
        new: &NewVif<F>,
        cookie: u64,
        make: impl FnOnce() -> Result<Arc<Device>, i32>,
    ) -> Result<(), i32> {
        Self::check_room(self.vifs.load(host.guard), new)?;
        // Devices come and go without the table's lock.
        let device = make()?;
        let added = self.add_vif(host, new, cookie, || Ok(&device));
        if added.is_err() {
            unregister(host.stack, &[device]);
        }
        added
    }

    /// Adds a VIF for the socket with a cookie. `find` returns its device.
    ///
    /// # Errors
    /// EADDRINUSE if the number is taken, EADDRNOTAVAIL for a device that leaves, those of `find`.
    pub(crate) fn add_vif<'d>(
        &self,
        host: &Host<'_>,
        new: &NewVif<F>,
        cookie: u64,
        find: impl FnOnce() -> Result<&'d Arc<Device>, i32>,
    ) -> Result<(), i32> {
        let state = self.lock();
        let vifs = self.vifs.load(host.guard);
        Self::check_room(vifs, new)?;
        let device = find()?;
        if device.is_leaving() {
            return Err(errno::EADDRNOTAVAIL);
        }
        let is_static = !self.is_daemon(&state, cookie);
        let vif = Arc::new(Vif {
            number: new.number,
            device: device.clone(),
            flags: u16::from(new.flags) | if is_static { vif::STATIC } else { 0 },
            ends: new.ends,
            input: vif::Count::default(),
            output: vif::Count::default(),
        });
        self.vifs.replace(vifs.with(new.number, Some(vif)));
        ask_for_all(host.stack, host.guard, device, iff::ALLMULTI, true);
        if F::counts(device) {
            F::count(host.stack, host.ns, &Target::Device(device.clone()), 1);
        }
        // The event of a device that has begun to leave meanwhile may not have found the VIF.
        if device.is_leaving() {
            self.remove_vif(host, new.number);
            return Err(errno::EADDRNOTAVAIL);
        }
        Ok(())
    }

    /// Removes a VIF (`MRT_DEL_VIF`, `MRT6_DEL_MIF`).
    ///
    /// # Errors
    /// EADDRNOTAVAIL if there is none of the number.
    pub fn delete_vif(&self, host: &Host<'_>, number: u8) -> Result<(), i32> {
        let state = self.lock();
        let vif = self.remove_vif(host, number).ok_or(errno::EADDRNOTAVAIL)?;
        drop(state);
        unregister(host.stack, vif.own_device().as_slice());
        Ok(())
    }

    /// Adds an entry or changes one (`ipmr_mfc_add`, `ip6mr_mfc_add`). The caller sends the returned packets on by
    /// [`resolve`] or [`resolve_later`].
    ///
    /// # Errors
    /// ENFILE for a parent that cannot be, EINVAL for a group that is none.
    pub fn add(
        &self,
        host: &Host<'_>,
        new: &NewEntry<F::Address>,
        is_static: bool,
        now: u64,
    ) -> Result<Option<Resolved<F>>, i32> {
        if usize::from(new.parent) >= MAX_VIFS {
            return Err(errno::ENFILE);
        }
        let mut state = self.lock();
        let found = self.cache.find(new.key, new.by_parent(), host.guard);
        let group = new.key.group;
        if found.is_none() && group != Address::ANY && !group.is_group() {
            return Err(errno::EINVAL);
        }
        let vifs = self.vifs.load(host.guard);
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
        self.cache.put(&entry, host.guard);
        state.entries.insert(entry.number, entry.clone());
        let waited = match is_new {
            true => state.end_wait(new.key),
            false => None,
        };
        self.stop_idle(host.stack, &mut state);
        let Some(packets) = waited else {
            self.tell(host, &Route::Known(entry), true);
            return Ok(None);
        };
        // Listeners hear of it when the packets are on their way.
        Ok(Some(Resolved {
            table: self.id,
            entry,
            packets,
        }))
    }

    /// Removes an entry (`ipmr_mfc_delete`, `ip6mr_mfc_delete`).
    ///
    /// # Errors
    /// ENOENT if there is none.
    pub fn delete(&self, host: &Host<'_>, which: &NewEntry<F::Address>) -> Result<(), i32> {
        let mut state = self.lock();
        let found = self.cache.find(which.key, which.by_parent(), host.guard);
        let entry = found.ok_or(errno::ENOENT)?.clone();
        self.cache.remove(&entry, host.guard);
        state.entries.remove(&entry.number);
        self.tell(host, &Route::Known(entry), false);
        Ok(())
    }

    /// Removes what the flags name ([`flush`]; `mroute_clean_tables`).
    pub fn flush(&self, host: &Host<'_>, flags: i32) {
        let gone = self.flush_locked(host, &mut self.lock(), flags);
        unregister(host.stack, &gone);
    }

    fn lock(&self) -> MutexGuard<'_, State<F>, order::MulticastRoutes> {
        self.state.lock()
    }

    fn is_daemon(&self, state: &State<F>, cookie: u64) -> bool {
        let daemon = state.daemon.as_ref();
        daemon.is_some_and(|daemon| daemon.cookie() == cookie)
    }

    /// Returns the daemon.
    pub(crate) fn daemon(&self) -> Option<Arc<dyn Daemon>> {
        self.lock().daemon.clone()
    }

    /// Returns whether the socket with a cookie is the daemon's.
    pub fn is_daemons(&self, cookie: u64) -> bool {
        self.is_daemon(&self.lock(), cookie)
    }

    /// Returns the VIFs.
    pub fn vifs<'g>(&'g self, guard: &'g Guard) -> &'g Vifs<F> {
        self.vifs.load(guard)
    }

    /// Returns the entry of exactly this key (`ipmr_cache_find`).
    pub fn entry<'g>(
        &'g self,
        key: Key<F::Address>,
        guard: &'g Guard,
    ) -> Option<&'g Arc<Entry<F::Address>>> {
        self.cache.find(key, None, guard)
    }

    /// Returns all routes, as dumps show them: the oldest first, then those that are not resolved, the newest first.
    pub fn routes(&self) -> Vec<Route<F::Address>> {
        let state = self.lock();
        let known = state.entries.values().cloned().map(Route::Known);
        let waiting = state.ages.values().rev().copied().map(Route::Unresolved);
        known.chain(waiting).collect()
    }

    /// Returns the number of keys whose packets wait for an entry.
    pub fn waiting(&self) -> usize {
        self.lock().unresolved.len()
    }

    /// Returns whether packets by the wrong VIF are reported (`MRT_ASSERT`, `MRT6_ASSERT`).
    pub fn asserts(&self) -> bool {
        self.assert.load(Relaxed)
    }

    /// Sets whether packets by the wrong VIF are reported.
    pub fn set_assert(&self, on: bool) {
        self.assert.store(on, Relaxed);
    }

    /// Returns whether the daemon speaks PIM.
    pub fn speaks_pim(&self) -> bool {
        self.pim.load(Relaxed)
    }

    /// Returns whether reports of packets by the wrong VIF are followed by one with the packet.
    pub fn reports_wrong_whole(&self) -> bool {
        self.wrong_whole.load(Relaxed)
    }

    /// Sets whether the daemon speaks PIM (`MRT_PIM`, `MRT6_PIM`). [`report::WRONG_VIF_WHOLE`] asks for these reports too.
    pub fn set_pim(&self, value: i32) {
        let _state = self.lock();
        let on = value != 0;
        if self.pim.swap(on, Relaxed) != on {
            self.set_assert(on);
            let whole = value == report::WRONG_VIF_WHOLE.into();
            self.wrong_whole.store(whole, Relaxed);
        }
    }

    /// Removes a VIF. The caller unregisters its device without the table's lock, if that is its own.
    fn remove_vif(&self, host: &Host<'_>, number: u8) -> Option<Arc<Vif<F>>> {
        let vifs = self.vifs.load(host.guard);
        let vif = vifs.get(number)?;
        let device = vif.device.clone();
        self.vifs.replace(vifs.with(number, None));
        ask_for_all(host.stack, host.guard, &device, iff::ALLMULTI, false);
        if F::counts(&device) {
            F::count(host.stack, host.ns, &Target::Device(device), -1);
        }
        Some(vif.clone())
    }

    /// Removes what the flags name. Returns the devices that the caller unregisters without the table's lock.
    fn flush_locked(&self, host: &Host<'_>, state: &mut State<F>, flags: i32) -> Vec<Arc<Device>> {
        let wanted = |is_static: bool, own: i32, others: i32| {
            flags & if is_static { others } else { own } != 0
        };
        let vifs: Vec<u8> = {
            let all = self.vifs.load(host.guard).iter();
            let gone = all.filter(|vif| {
                let is_static = vif.flags & vif::STATIC != 0;
                wanted(is_static, flush::VIFS, flush::STATIC_VIFS)
            });
            gone.map(|vif| vif.number).collect()
        };
        let removed = vifs
            .into_iter()
            .filter_map(|number| self.remove_vif(host, number));
        let devices = removed.filter_map(|vif| vif.own_device()).collect();
        let gone =
            |entry: &Arc<Entry<_>>| wanted(entry.is_static, flush::ENTRIES, flush::STATIC_ENTRIES);
        let all = std::mem::take(&mut state.entries);
        let (gone, stay): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.into_iter().partition(|(_, entry)| gone(entry));
        state.entries = stay;
        for entry in gone.into_values() {
            self.cache.remove(&entry, host.guard);
            self.tell(host, &Route::Known(entry), false);
        }
        if flags & flush::ENTRIES != 0 {
            while let Some((_, key)) = state.ages.pop_last() {
                self.tell(host, &Route::Unresolved(key), false);
                discard(host.stack, state.end_wait(key).unwrap_or_default());
            }
            self.stop_idle(host.stack, state);
        }
        devices
    }

    /// Stops the timer if no packet waits.
    fn stop_idle(&self, stack: &Stack, state: &mut State<F>) {
        if state.unresolved.is_empty()
            && let Some(timer) = state.timer.take()
        {
            stack.timers.cancel(timer);
        }
    }
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

impl<A: Address> Entry<A> {
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
    pub fn shown<F: Family>(&self, vifs: &Vifs<F>, now: u64) -> Shown {
        let index = |vif: &Arc<Vif<F>>| vif.device.ifindex();
        let ways = vifs.iter().filter(|vif| self.leads_to(vif.number));
        let hop = |vif: &Arc<Vif<F>>| {
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

impl<A: Address> Route<A> {
    /// Returns the source and the group.
    pub fn key(&self) -> Key<A> {
        match self {
            Self::Known(entry) => entry.key,
            Self::Unresolved(key) => *key,
        }
    }
}
