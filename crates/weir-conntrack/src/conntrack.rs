// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of a namespace's connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

use weir_sync::percpu::PerCpu;
use weir_sync::primitive::atomic::fence;
use weir_sync::spin::SpinLock;

use crate::clock;
use crate::connection::{
    Change, Counters, Create, DccpInfo, Event, Handle, Listener, Origin, SctpInfo, Snapshot,
    Statistics, TcpChange, TcpInfo,
};
use crate::dccp::Dccp;
use crate::deadline;
use crate::index::Insertion;
use crate::key::{Key, Secret, Words};
use crate::levels::Levels;
use crate::sctp::Sctp;
use crate::settings::{Setting, Settings};
use crate::status::{ipct, ips, tcp_flag};
use crate::store::{REPLY, Slot, Store, direction_of};
use crate::tcp::Tcp;
use crate::tuple::{DCCP, Direction, SCTP, TCP, Tuple, Zone};

/// The connections that the index has room for at least.
const LEAST: usize = if cfg!(loom) { 4 } else { 1024 };
/// The largest number of connections, whatever [`Setting::max`] says.
const MOST: usize = 1 << 26;
/// The buckets that move with each new connection while the index grows.
const STEP: usize = 8;
/// The words of 64 entries that are searched for a connection to remove early.
const EARLY: usize = 1024;

/// The number of the next table in the process.
static NUMBER: AtomicU32 = AtomicU32::new(1);

/// The counters of a CPU.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) found: AtomicU32,
    pub(crate) invalid: AtomicU32,
    pub(crate) insert: AtomicU32,
    pub(crate) insert_failed: AtomicU32,
    pub(crate) clash_resolve: AtomicU32,
    pub(crate) drop: AtomicU32,
    pub(crate) early_drop: AtomicU32,
    pub(crate) error: AtomicU32,
    pub(crate) removed: AtomicU32,
    pub(crate) no_port: AtomicU32,
}

/// Counts one.
#[inline(always)]
pub(crate) fn bump(counter: &AtomicU32) {
    counter.fetch_add(1, Relaxed);
}

/// A connection that is not in the table yet.
#[derive(Clone, Debug)]
pub(crate) struct Fresh {
    pub(crate) original: Tuple,
    pub(crate) reply: Tuple,
    pub(crate) zone: Zone,
    pub(crate) status: u32,
    pub(crate) mark: u32,
    pub(crate) labels: Option<[u8; 16]>,
    /// Seconds until it expires.
    pub(crate) timeout: u32,
    pub(crate) state: State,
    /// The bytes of the first packet.
    pub(crate) bytes: u64,
    /// The translation found no free port.
    pub(crate) no_port: bool,
}

/// The state of a connection's protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) enum State {
    Tcp(Tcp),
    Sctp(Sctp),
    Dccp(Dccp),
    /// Every other protocol.
    None,
}

impl State {
    /// Whether the protocol has a state that requests and events show.
    pub(crate) const fn is_shown(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Makes the state of a connection that a request makes.
    pub(crate) fn requested(new: &Create) -> Self {
        match new.original.protocol {
            TCP => {
                let mut tcp = Tcp::default();
                if let Some(change) = &new.tcp {
                    change_tcp(&mut tcp, change);
                }
                Self::Tcp(tcp)
            }
            SCTP => {
                let mut sctp = Sctp::default();
                if let Some(to) = &new.sctp {
                    (sctp.state, sctp.tags) = (to.state, to.tags);
                }
                Self::Sctp(sctp)
            }
            DCCP => {
                let mut dccp = Dccp::default();
                if let Some(to) = &new.dccp {
                    change_dccp(&mut dccp, to);
                }
                Self::Dccp(dccp)
            }
            _ => Self::None,
        }
    }

    /// Writes the state of a new connection, whose lock the caller holds.
    fn save(&self, slot: &Slot<'_>, now: u64) {
        match self {
            Self::Tcp(tcp) => tcp.save(slot),
            Self::Sctp(sctp) => sctp.save(slot),
            Self::Dccp(dccp) => dccp.save(slot),
            // UDP: after two seconds it is a stream.
            Self::None => {
                let stream = clock::ticks(now).wrapping_add(clock::seconds(2));
                slot.stream().store(stream, Relaxed);
            }
        }
    }
}

/// Whether a connection is about to end, so that it may go while the table is nearly full (`can_early_drop`).
fn is_closing(slot: &Slot<'_>) -> bool {
    match slot.protocol() {
        TCP => Tcp::is_closing(Tcp::state_of(slot)),
        SCTP => Sctp::load(slot).state.is_closing(),
        DCCP => Dccp::load(slot).state.is_closing(),
        _ => false,
    }
}

/// Why a connection did not enter the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// This entry has one of the keys.
    Clash(Handle, Direction),
    /// The table is full, and nothing can be removed early.
    Full,
    /// There is no memory.
    NoMemory,
}

/// What [`Conntrack::collect`] has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Collected {
    /// The entries that it looked at.
    pub seen: u32,
    /// The connections that it removed.
    pub removed: u32,
    /// It has reached the end of the table; the next call begins at the start.
    pub wrapped: bool,
}

/// The table of a namespace's connections; see the crate's documentation.
pub struct Conntrack {
    number: u32,
    settings: Arc<Settings>,
    pub(crate) secret: Secret,
    pub(crate) store: Store,
    pub(crate) index: Levels,
    /// Connections by source, for source NAT.
    sources: Levels,
    count: AtomicU32,
    /// Where the next early removal begins.
    hand: AtomicU32,
    /// Where the next collection begins.
    collected: AtomicU32,
    pub(crate) stats: PerCpu<Stats>,
    listens: AtomicBool,
    listener: SpinLock<Option<Arc<dyn Listener>>>,
    /// Somebody calls [`Conntrack::collect`] from time to time.
    collects: AtomicBool,
}

impl std::fmt::Debug for Conntrack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conntrack")
            .field("number", &self.number)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl Conntrack {
    /// Makes an empty table, whose memory is used connection by connection. Its index has room for the
    /// connections that [`Setting::max`] allows now, and grows when there are more. Returns `None` without address
    /// space.
    pub fn new(settings: &Arc<Settings>, seed: u64) -> Option<Self> {
        let most = (settings.get(Setting::max) as usize).clamp(LEAST, MOST);
        Some(Self {
            number: NUMBER.fetch_add(1, Relaxed),
            settings: settings.clone(),
            secret: Secret::new(seed),
            store: Store::new(),
            index: Levels::new(2 * most)?,
            sources: Levels::new(most)?,
            count: AtomicU32::new(0),
            hand: AtomicU32::new(0),
            collected: AtomicU32::new(0),
            stats: PerCpu::new(),
            listens: AtomicBool::new(false),
            listener: SpinLock::new(None),
            collects: AtomicBool::new(false),
        })
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Returns the table's number, which its packets carry.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns how many connections there are (`nf_conntrack_count`).
    pub fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    /// Returns the number of buckets (`nf_conntrack_buckets`).
    pub fn buckets(&self) -> usize {
        self.index.buckets()
    }

    /// Returns the counters of the CPUs that have counted.
    pub fn statistics(&self) -> Vec<Statistics> {
        let of = |(cpu, stats): (usize, &Stats)| Statistics {
            cpu: cpu as u32,
            found: stats.found.load(Relaxed),
            invalid: stats.invalid.load(Relaxed),
            insert: stats.insert.load(Relaxed),
            insert_failed: stats.insert_failed.load(Relaxed),
            clash_resolve: stats.clash_resolve.load(Relaxed),
            drop: stats.drop.load(Relaxed),
            early_drop: stats.early_drop.load(Relaxed),
            error: stats.error.load(Relaxed),
            search_restart: 0,
            chain_too_long: 0,
            removed: stats.removed.load(Relaxed),
            no_port: stats.no_port.load(Relaxed),
        };
        self.stats.iter().map(of).collect()
    }

    /// Sets who gets the events, instead of anybody before.
    pub fn listen(&self, listener: Option<Arc<dyn Listener>>) {
        let mut place = self.listener.lock();
        self.listens.store(listener.is_some(), Release);
        *place = listener;
    }

    fn listener(&self) -> Option<Arc<dyn Listener>> {
        if !self.listens.load(Acquire) || !self.settings.is(Setting::events) {
            return None;
        }
        self.listener.lock().clone()
    }

    /// Tells the listener what happened to a connection.
    #[inline]
    pub(crate) fn tell(&self, events: u32, slot: &Slot<'_>, origin: Origin, now: u64) {
        self.tell_left(events, slot, None, origin, now);
    }

    /// The same with the seconds that the connection has left, if they differ from what its entry says.
    #[inline]
    pub(crate) fn tell_left(
        &self,
        events: u32,
        slot: &Slot<'_>,
        left: Option<u32>,
        origin: Origin,
        now: u64,
    ) {
        if events != 0 && self.listens.load(Relaxed) {
            self.tell_listener(events, slot, left, origin, now);
        }
    }

    #[cold]
    fn tell_listener(
        &self,
        events: u32,
        slot: &Slot<'_>,
        left: Option<u32>,
        origin: Origin,
        now: u64,
    ) {
        if let Some(listener) = self.listener() {
            let connection = &mut self.copy(slot, now);
            connection.timeout = left.unwrap_or(connection.timeout);
            listener.event(&Event {
                events,
                connection,
                origin,
                now,
            });
        }
    }

    // Looking up.

    #[inline]
    pub(crate) fn key<'a>(&self, tuple: &'a Tuple, zone: u16) -> Key<'a> {
        Key::new(&self.secret, tuple, zone)
    }

    /// Returns the entry of a live connection.
    #[inline(always)]
    pub(crate) fn slot(&self, handle: Handle) -> Option<Slot<'_>> {
        let slot = self.store.slot(handle.index)?;
        let entry = slot.entry;
        let same = entry.generation.load(Acquire) == handle.generation
            && slot.status() & ips::CONFIRMED != 0;
        same.then_some(slot)
    }

    /// Returns an entry that was used at least once.
    pub(crate) fn entry(&self, index: u32) -> Option<Slot<'_>> {
        self.store.slot(index)
    }

    /// Finds a connection, expired or not.
    #[inline(always)]
    fn find_key(&self, key: &Key<'_>) -> Option<(Slot<'_>, Handle, Direction)> {
        match (self.index).find_home(key.hash, |number| self.compare(number, key)) {
            Some(found) => found,
            None => self.find_beyond(key),
        }
    }

    /// The same if the key is not in its home bucket.
    #[inline(never)]
    fn find_beyond(&self, key: &Key<'_>) -> Option<(Slot<'_>, Handle, Direction)> {
        let mut found = None;
        self.index.find(key.hash, |number| {
            found = self.compare(number, key);
            found.is_some()
        })?;
        found
    }

    /// Compares the key that a number of the index stands for.
    #[inline(always)]
    pub(crate) fn compare(
        &self,
        number: u32,
        key: &Key<'_>,
    ) -> Option<(Slot<'_>, Handle, Direction)> {
        let direction = direction_of(number);
        let index = number & !REPLY;
        let slot = self.store.slot(index)?;
        let generation = slot.entry.generation.load(Acquire);
        let same = slot.has(number, key);
        same.then_some((slot, Handle { index, generation }, direction))
    }

    /// Finds a connection. Removes it if it has expired.
    #[inline]
    pub(crate) fn look_up(&self, key: &Key<'_>, now: u64) -> Option<(Handle, Direction)> {
        self.look_up_at(key, clock::ticks(now), now)
    }

    /// The same with the time in ticks as well.
    #[inline(always)]
    pub(crate) fn look_up_at(
        &self,
        key: &Key<'_>,
        ticks: u32,
        now: u64,
    ) -> Option<(Handle, Direction)> {
        let (slot, handle, direction) = self.find_key(key)?;
        // The entry may have become another connection since. Then only the handle is stale, and what the deadline says
        // does no harm.
        if self.is_over(&slot, handle, ticks) {
            self.kill(handle, Origin::Packet, now);
            return None;
        }
        Some((handle, direction))
    }

    /// Returns the connection with a key and the key's direction.
    pub fn find(&self, tuple: &Tuple, zone: u16, now: u64) -> Option<(Handle, Direction)> {
        self.look_up(&self.key(tuple, zone), now)
    }

    /// Returns whether a key is that of a connection (`nf_conntrack_tuple_taken`).
    pub(crate) fn is_taken(&self, tuple: &Tuple, zone: u16) -> bool {
        self.find_key(&self.key(tuple, zone)).is_some()
    }

    // Life.

    /// Puts a connection into the table (`__nf_conntrack_confirm`). Returns its name.
    pub(crate) fn confirm(&self, fresh: &Fresh, now: u64) -> Result<Handle, Refused> {
        let stats = self.stats.local();
        let keys = [
            Key::of(
                &self.secret,
                &fresh.original,
                fresh.zone,
                Direction::Original,
            ),
            Key::of(&self.secret, &fresh.reply, fresh.zone, Direction::Reply),
        ];
        let newest = self.index.newest();
        newest.prefetch(keys[0].hash);
        newest.prefetch(keys[1].hash);
        if self.count.fetch_add(1, Relaxed) >= self.most() && !self.drop_early(now) {
            self.count.fetch_sub(1, Relaxed);
            bump(&stats.drop);
            return Err(Refused::Full);
        }
        let Some(index) = self.store.take() else {
            self.count.fetch_sub(1, Relaxed);
            return Err(Refused::NoMemory);
        };
        let Some(slot) = self.store.slot(index) else {
            return Err(Refused::NoMemory);
        };
        self.keep_growing(STEP);
        let entry = slot.entry;
        // Somebody with an old name of the entry may lock it at any time.
        let lock = slot.lock();
        // Whoever reads what follows sees that the generation is another one.
        fence(Release);
        slot.set_key(
            [
                (&fresh.original, keys[0].words),
                (&fresh.reply, keys[1].words),
            ],
            fresh.zone,
        );
        entry.mark.store(fresh.mark, Relaxed);
        let deadline = clock::ticks(now).wrapping_add(clock::seconds(fresh.timeout));
        entry.deadline.store(deadline, Relaxed);
        fresh.state.save(&slot, now);
        if let Some(labels) = &fresh.labels {
            slot.set_labels(labels);
        }
        if self.settings.is(Setting::acct) {
            slot.start_counts();
            if fresh.bytes > 0 {
                slot.count(Direction::Original, 1, fresh.bytes);
            }
        }
        if self.settings.is(Setting::timestamp) {
            slot.start_time(now);
        }
        let status = fresh.status | ips::CONFIRMED;
        lock.set_status(status);
        let generation = entry.generation.load(Relaxed);
        drop(lock);
        let handle = Handle { index, generation };
        let insertion = |at: usize, number: u32| Insertion {
            hash: keys[at].hash,
            number,
            equal: {
                let key = &keys[at];
                move |number| self.compare(number, key).is_some()
            },
        };
        let inserted = self
            .index
            .insert_pair(insertion(0, index), insertion(1, index | REPLY));
        if let Err(number) = inserted {
            let other = number & !REPLY;
            let generation = self
                .store
                .slot(other)
                .map_or(0, |slot| slot.entry.generation.load(Acquire));
            let other = Handle {
                index: other,
                generation,
            };
            self.recycle(&slot);
            // An expired connection does not stand in the way.
            let over = self
                .slot(other)
                .is_some_and(|slot| self.is_over(&slot, other, clock::ticks(now)));
            if over {
                self.kill(other, Origin::Packet, now);
                return self.confirm(fresh, now);
            }
            return Err(Refused::Clash(other, direction_of(number)));
        }
        if fresh.status & ips::SRC_NAT_DONE != 0 {
            let hash = self.source_hash(keys[0].words);
            self.sources.insert(hash, index);
        }
        if status & ips::ASSURED == 0 {
            slot.set_embryonic(true);
        }
        bump(&stats.insert);
        Ok(handle)
    }

    /// Returns how many connections there may be, as many as the index has room for. The index grows first if it has
    /// no room for another one.
    #[inline]
    fn most(&self) -> u32 {
        let limit = match self.settings.get(Setting::max) as usize {
            // No limit, as in Linux.
            0 => MOST,
            limit => limit.min(MOST),
        };
        let mut room = self.index.room() / 2;
        if room < limit && self.count() as usize > room {
            room = self.grow(room, limit);
        }
        limit.min(room) as u32
    }

    /// Makes room for the connections of the limit, or for twice as many as now if there is none. Returns for how many
    /// there is room.
    #[cold]
    fn grow(&self, room: usize, limit: usize) -> usize {
        let keys = if limit == MOST { 2 * room } else { limit };
        if self.sources.grow(keys, |number| self.source_of(number)) {
            self.index.grow(2 * keys, |number| self.hash_of(number));
        }
        self.index.room().min(2 * self.sources.room()) / 2
    }

    /// Moves a part of the numbers, if an index grows.
    #[inline]
    fn keep_growing(&self, buckets: usize) {
        if self.index.is_moving() {
            self.index.advance(buckets, |number| self.hash_of(number));
        }
        if self.sources.is_moving() {
            self.sources
                .advance(buckets, |number| self.source_of(number));
        }
    }

    /// The hash of the key that a number of the index stands for.
    fn hash_of(&self, number: u32) -> u64 {
        let direction = direction_of(number);
        self.store
            .slot(number & !REPLY)
            .map_or(0, |slot| slot.words(direction).hash(&self.secret))
    }

    /// The hash of an entry's source.
    fn source_of(&self, index: u32) -> u64 {
        self.store
            .slot(index)
            .map_or(0, |slot| self.source_hash(slot.words(Direction::Original)))
    }

    /// The hash of a connection's source (`hash_by_src`).
    fn source_hash(&self, words: Words) -> u64 {
        let source = Words {
            addresses: words.addresses & 0xffff_ffff,
            ports: words.ports & 0xffff,
            ..words
        };
        source.hash(&self.secret)
    }

    /// Calls `matches` with the reply tuples of the connections that have the same source and source NAT, until it
    /// returns true (`find_appropriate_src`).
    pub(crate) fn same_source(
        &self,
        original: &Tuple,
        zone: u16,
        mut matches: impl FnMut(&Tuple) -> bool,
    ) {
        let key = self.key(original, zone);
        self.sources.find(self.source_hash(key.words), |index| {
            let Some(slot) = self.store.slot(index) else {
                return false;
            };
            let theirs = slot.tuple(Direction::Original);
            let same = theirs.src == original.src
                && theirs.src_port == original.src_port
                && slot.words(Direction::Original).meta == key.words.meta;
            same && matches(&slot.tuple(Direction::Reply))
        });
    }

    /// Makes an entry that is in no index free.
    fn recycle(&self, slot: &Slot<'_>) {
        {
            let lock = slot.lock();
            lock.set_status(0);
            slot.entry.generation.fetch_add(1, Release);
        }
        self.store.give(slot.index);
        self.count.fetch_sub(1, Relaxed);
    }

    /// Removes a connection (`nf_ct_kill`). Returns false if it has gone.
    pub(crate) fn kill(&self, handle: Handle, origin: Origin, now: u64) -> bool {
        let Some(slot) = self.slot(handle) else {
            return false;
        };
        {
            let lock = slot.lock();
            let status = slot.status();
            let live = status & (ips::CONFIRMED | ips::DYING) == ips::CONFIRMED
                && slot.entry.generation.load(Relaxed) == handle.generation;
            if !live {
                return false;
            }
            lock.add_status(ips::DYING);
        }
        slot.set_embryonic(false);
        self.tell(ipct::DESTROY, &slot, origin, now);
        let status = slot.status();
        for direction in [Direction::Original, Direction::Reply] {
            let number = match direction {
                Direction::Original => handle.index,
                Direction::Reply => handle.index | REPLY,
            };
            self.index.remove(self.hash_of(number), number);
        }
        if status & ips::SRC_NAT_DONE != 0 {
            self.sources
                .remove(self.source_of(handle.index), handle.index);
        }
        bump(&self.stats.local().removed);
        self.recycle(&slot);
        true
    }

    /// Removes a connection that is not assured, the one that has been in the table longest as far as entries are
    /// reused in order (`early_drop`).
    fn drop_early(&self, now: u64) -> bool {
        for _ in 0..4 {
            let hand = self.hand.load(Relaxed);
            let (found, next) = self.store.embryo(hand, EARLY);
            self.hand.store(next, Relaxed);
            let Some(slot) = found.and_then(|index| self.store.slot(index)) else {
                return false;
            };
            let handle = Handle {
                index: slot.index,
                generation: slot.entry.generation.load(Acquire),
            };
            if self.kill(handle, Origin::Packet, now) {
                bump(&self.stats.local().early_drop);
                return true;
            }
        }
        false
    }

    /// Returns the number of entries that [`collect`](Self::collect) looks at until it begins again.
    pub fn entries(&self) -> u32 {
        self.store.used()
    }

    /// Notes that somebody collects from now on. Returns false if somebody does already.
    #[inline]
    pub fn start_collecting(&self) -> bool {
        !self.collects.load(Relaxed) && !self.collects.swap(true, SeqCst)
    }

    /// Notes that nobody collects any more. The caller looks at the count again afterwards.
    pub fn stop_collecting(&self) {
        self.collects.store(false, SeqCst);
    }

    /// Looks at the next `most` entries and removes the connections that have expired (`gc_worker`). If the table is
    /// nearly full, closing TCP connections go too.
    pub fn collect(&self, now: u64, most: u32) -> Collected {
        let mut done = Collected::default();
        self.keep_growing(most as usize);
        let used = self.store.used();
        let ticks = clock::ticks(now);
        let limit = self.settings.get(Setting::max);
        let crowded = limit != 0 && u64::from(self.count()) * 100 > u64::from(limit) * 95;
        let mut at = self.collected.load(Relaxed);
        while done.seen < most {
            if at >= used {
                at = 0;
                done.wrapped = true;
                break;
            }
            let Some(slot) = self.store.slot(at) else {
                break;
            };
            let entry = slot.entry;
            let status = slot.status();
            if status & (ips::CONFIRMED | ips::DYING) == ips::CONFIRMED {
                let handle = Handle {
                    index: at,
                    generation: entry.generation.load(Acquire),
                };
                if status & ips::OFFLOAD != 0 {
                    self.end_if_alone(&slot, now);
                }
                let over = self.is_over(&slot, handle, ticks)
                    || crowded && status & ips::ASSURED != 0 && is_closing(&slot);
                if over && self.kill(handle, Origin::Packet, now) {
                    done.removed += 1;
                }
            }
            done.seen += 1;
            at += 1;
        }
        self.collected.store(at, Relaxed);
        done
    }

    // Control.

    /// Copies a connection.
    fn copy(&self, slot: &Slot<'_>, now: u64) -> Snapshot {
        let entry = slot.entry;
        let generation = entry.generation.load(Relaxed);
        let tcp = (slot.protocol() == TCP).then(|| {
            let _lock = slot.lock();
            let tcp = Tcp::load(slot);
            TcpInfo {
                state: tcp.state,
                scale: tcp.seen.map(|seen| seen.scale),
                flags: tcp.seen.map(|seen| seen.flags),
            }
        });
        let sctp = (slot.protocol() == SCTP).then(|| {
            let _lock = slot.lock();
            let Sctp { state, tags, .. } = Sctp::load(slot);
            SctpInfo { state, tags }
        });
        let dccp = (slot.protocol() == DCCP).then(|| {
            let _lock = slot.lock();
            let dccp = Dccp::load(slot);
            DccpInfo {
                state: dccp.state,
                reversed: dccp.reversed,
                handshake: dccp.handshake,
            }
        });
        let status = slot.status();
        let counters = slot
            .counts()
            .map(|counts| counts.map(|[packets, bytes]| Counters { packets, bytes }));
        Snapshot {
            handle: Handle {
                index: slot.index,
                generation,
            },
            id: (self.secret).hash(u64::from(slot.index) | 1 << 63, u64::from(generation)) as u32,
            original: slot.tuple(Direction::Original),
            reply: slot.tuple(Direction::Reply),
            zone: slot.zone(),
            status,
            mark: entry.mark.load(Relaxed),
            labels: slot.labels(),
            timeout: deadline::left(slot, clock::ticks(now)),
            tcp,
            sctp,
            dccp,
            counters,
            started: slot.started(),
            stopped: (status & ips::DYING != 0)
                .then(|| slot.started().map(|_| now))
                .flatten(),
        }
    }

    /// Returns a copy of a connection, if it is still there.
    pub fn snapshot(&self, handle: Handle, now: u64) -> Option<Snapshot> {
        let slot = self.slot(handle)?;
        self.end_if_alone(&slot, now);
        let copy = self.copy(&slot, now);
        fence(Acquire);
        // The entry may have become another connection meanwhile.
        self.slot(handle).map(|_| copy)
    }

    /// Returns a copy of the first live connection whose index is at least `from`.
    pub fn next(&self, from: u32, now: u64) -> Option<Snapshot> {
        let ticks = clock::ticks(now);
        (from..self.store.used()).find_map(|index| {
            let slot = self.store.slot(index)?;
            let entry = slot.entry;
            let generation = entry.generation.load(Acquire);
            let live = slot.status() & (ips::CONFIRMED | ips::DYING) == ips::CONFIRMED
                && !self.is_over(&slot, Handle { index, generation }, ticks);
            live.then(|| self.snapshot(Handle { index, generation }, now))?
        })
    }

    /// Changes a connection. Returns false if it has gone.
    pub fn change(&self, handle: Handle, change: &Change, now: u64, origin: Origin) -> bool {
        let Some(slot) = self.slot(handle) else {
            return false;
        };
        let entry = slot.entry;
        let mut events = 0;
        {
            let lock = slot.lock();
            if entry.generation.load(Relaxed) != handle.generation {
                return false;
            }
            if let Some(status) = change.status {
                let keep = ips::UNCHANGEABLE;
                lock.set_status(slot.status() & keep | status & !keep);
                slot.set_embryonic(status & ips::ASSURED == 0);
                events |= ipct::ASSURED | ipct::REPLY;
            }
            if let Some(timeout) = change.timeout {
                let deadline = clock::ticks(now).wrapping_add(clock::seconds(timeout));
                deadline::set(&slot, deadline);
            }
            if let Some((mark, mask)) = change.mark {
                let old = entry.mark.load(Relaxed);
                entry.mark.store(old & !mask | mark & mask, Relaxed);
                events |= ipct::MARK;
            }
            if let Some((labels, mask)) = &change.labels {
                merge_labels(&slot, labels, mask);
                events |= ipct::LABEL;
            }
            if let Some(to) = &change.tcp
                && slot.protocol() == TCP
            {
                let mut tcp = Tcp::load(&slot);
                change_tcp(&mut tcp, to);
                tcp.save(&slot);
                events |= ipct::PROTOINFO;
            }
            if let Some(to) = &change.sctp
                && slot.protocol() == SCTP
            {
                let mut sctp = Sctp::load(&slot);
                (sctp.state, sctp.tags) = (to.state, to.tags);
                sctp.save(&slot);
                events |= ipct::PROTOINFO;
            }
            if let Some(to) = &change.dccp
                && slot.protocol() == DCCP
            {
                let mut dccp = Dccp::load(&slot);
                change_dccp(&mut dccp, to);
                dccp.save(&slot);
                events |= ipct::PROTOINFO;
            }
            if change.zero_counters {
                slot.zero_counts();
            }
        }
        self.tell(events, &slot, origin, now);
        true
    }

    /// Removes a connection. Returns false if it has gone.
    pub fn delete(&self, handle: Handle, now: u64, origin: Origin) -> bool {
        self.kill(handle, origin, now)
    }
}

/// Changes the labels under a mask (`nf_connlabels_replace`). Returns whether they were different. The caller holds the lock.
pub(crate) fn merge_labels(slot: &Slot<'_>, labels: &[u8; 16], mask: &[u8; 16]) -> bool {
    let old = slot.labels();
    let was = old.unwrap_or_default();
    let new = std::array::from_fn(|at| was[at] & !mask[at] ^ labels[at]);
    if old != Some(new) {
        slot.set_labels(&new);
    }
    was != new
}

fn change_dccp(dccp: &mut Dccp, to: &DccpInfo) {
    (dccp.state, dccp.reversed, dccp.handshake) = (to.state, to.reversed, to.handshake);
}

fn change_tcp(tcp: &mut Tcp, change: &TcpChange) {
    if let Some(state) = change.state {
        tcp.state = state;
    }
    for (seen, flags) in tcp.seen.iter_mut().zip(change.flags) {
        if let Some((flags, mask)) = flags {
            seen.flags = seen.flags & !mask | flags & mask;
        }
    }
    let both = tcp.seen[0].flags & tcp.seen[1].flags & tcp_flag::WINDOW_SCALE;
    if let Some(scale) = change.scale
        && both != 0
    {
        for (seen, scale) in tcp.seen.iter_mut().zip(scale) {
            // RFC 7323: larger ones count as 14.
            seen.scale = scale.min(14);
        }
    }
}
