// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Maps that evict: `lru_hash`, in the ways of Linux's `bpf_lru_list.c` and some of its own.
//!
//! # Nodes
//! A map of `max_entries` has that many *nodes*. A node is a permission to hold an entry; the entry
//! itself lies in a slot of the [table](crate::table). A *lane*, one per CPU, has some free nodes, and
//! a list of *pending* slots that it filled since it last took the lock of a *shard*. A lane without
//! a free node takes the lock once: it hands over its pending slots, takes free nodes, and evicts
//! entries until it has as many free nodes as the local free target.
//!
//! [`Spread`] says how many shards there are: one with all entries, one a CPU with a fixed part of the
//! nodes, or one a CPU that lends unused nodes to others.
//!
//! # Locks
//! A thread takes a lane, then a shard, then a bucket. It never waits for a second lane, shard or
//! bucket.

use crate::fifo::Pool;
use crate::memory::Words;
use crate::policy::{Lists, Policy, Reason, Work};
use crate::shape::{Shape, fold, hash};
use crate::table::{Placed, Slot, Table};
use crate::{Error, Update};
use weir_sync::percpu;
use weir_sync::primitive::CachePadded;
use weir_sync::primitive::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use weir_sync::spin::{SpinGuard, SpinLock};

/// The number of keys that batched operations handle at once.
pub const BATCH: usize = 64;

/// How the entries of an LRU map are spread over lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// All CPUs share the lists.
    #[default]
    Common,
    /// Each CPU has lists and an equal part of the nodes of its own (`BPF_F_NO_COMMON_LRU`). A CPU
    /// that updates at a pathological rate evicts its own entries only; nodes of an idle CPU stay
    /// unused.
    PerCpu,
    /// Each CPU has lists of its own, and takes nodes from a common stock while it has any. When
    /// the stock is empty, a CPU with less than its equal part takes nodes from the CPU that
    /// has most; any other evicts its own entries.
    Borrow,
}

/// The options of an LRU map.
#[derive(Clone, Copy, Debug, Default)]
pub struct LruOptions {
    /// The eviction policy.
    pub policy: Policy,
    /// How entries are spread over lists.
    pub spread: Spread,
    /// The number of CPUs; the threads of a CPU are those bound to it by [`percpu::bind`], and a share
    /// of the unbound ones. The default is the number of CPUs of the machine.
    pub cpus: Option<usize>,
    /// The number of entries that a rotation, and a search for victims, looks at. The default is the
    /// number of nodes that are wanted, `local_free` or the rest of a batch.
    pub nr_scans: Option<u32>,
    /// The number of free nodes that a CPU takes at once. It is never more than a fair part. The default
    /// is a 1250th of the entries within 16 and 128, or the rest of a batch if that is more.
    pub local_free: Option<u32>,
    /// The ticks of `set_time` after which an entry that was not used is no longer found.
    pub idle: Option<u32>,
    /// Counts hits and misses. It costs every look-up a write to its CPU's counters.
    pub count_lookups: bool,
}

/// The counters of an LRU map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LruStats {
    /// Look-ups that found their key; 0 unless `count_lookups` is set.
    pub hits: u64,
    /// Look-ups that did not; 0 unless `count_lookups` is set.
    pub misses: u64,
    /// Evictions from the inactive list, or the small queue.
    pub evicted_inactive: u64,
    /// Evictions from the main queue.
    pub evicted_main: u64,
    /// Evictions by force.
    pub evicted_forced: u64,
    /// Removals of entries that were idle for too long.
    pub evicted_idle: u64,
    /// Insertions for which the CPU had a free node.
    pub local_hits: u64,
    /// Acquisitions of the lock of a shard.
    pub global_locks: u64,
    /// Insertions that found no node at all.
    pub failed: u64,
}

/// Sees the key and the value of a lost entry.
pub type OnEvict = dyn Fn(&[u8], &[u8], Reason) + Send + Sync;

/// A CPU's free nodes and pending slots.
#[derive(Debug, Default)]
struct Lane {
    free: u32,
    /// Slots that are in no list yet, with the folded hashes of their keys.
    pending: Vec<(u32, u32)>,
    /// Lost entries that `on_evict` has not seen yet: key, value, reason.
    lost: Vec<(Vec<u8>, Vec<u8>, Reason)>,
    local_hits: u64,
    failed: u64,
}

/// The lists and nodes of a CPU, or of all. They lie on other cache lines than their lock, at which other CPUs look
/// while they wait.
#[repr(align(128))]
struct Shard {
    lists: Lists,
    /// Free nodes.
    free: u32,
    /// Evictions by reason.
    evicted: [u64; 3],
}

#[derive(Debug, Default)]
struct Lookups {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// The state of a shard that is accessed without its lock.
#[derive(Debug, Default)]
struct Outside {
    /// Free nodes that came back.
    returned: AtomicU32,
    /// Nodes of the shard: free, in its lanes or in entries. Only for [`Spread::Borrow`].
    held: AtomicU32,
}

/// The core of an LRU map. See the module documentation.
pub(crate) struct Lru<S: Shape> {
    table: Table<S>,
    pool: Pool,
    lanes: Box<[CachePadded<SpinLock<Lane>>]>,
    shards: Box<[CachePadded<SpinLock<Shard>>]>,
    outside: Box<[CachePadded<Outside>]>,
    lookups: Box<[CachePadded<Lookups>]>,
    /// For each slot the shard whose node it uses; empty if there is one shard.
    owners: Words<AtomicU32>,
    /// For each slot the time of its last use; empty unless entries expire.
    stamps: Words<AtomicU32>,
    time: AtomicU32,
    /// Nodes that no shard has. Only for [`Spread::Borrow`].
    stock: CachePadded<AtomicU32>,
    spread: Spread,
    most: u8,
    max_entries: u32,
    /// The number of free nodes that a lane takes at once, and the most that it takes for a batch.
    target: u32,
    most_local: u32,
    /// `nr_scans`; 0 for as many as the nodes that are wanted.
    scans: u32,
    idle: u32,
    /// Whether a use of an entry does more than mark it.
    watched: bool,
    count_lookups: bool,
    expired: AtomicU64,
    on_evict: Option<Box<OnEvict>>,
}

impl<S: Shape> Lru<S> {
    pub(crate) fn new(
        shape: S,
        max_entries: u32,
        options: LruOptions,
        on_evict: Option<Box<OnEvict>>,
    ) -> Result<Self, Error> {
        let machine = || std::thread::available_parallelism().map_or(1, usize::from);
        let cpus = options.cpus.unwrap_or_else(machine).min(percpu::MAX_CPUS);
        if cpus == 0 || options.nr_scans == Some(0) || options.local_free == Some(0) {
            return Err(Error::Inval);
        }
        let exact = options.policy == Policy::Exact;
        if exact && options.spread != Spread::Common {
            return Err(Error::NotSupp);
        }
        let (lanes, shards) = match options.spread {
            Spread::Common if exact => (1, 1),
            // More lanes than CPUs, so that a preempted thread seldom holds the one that another needs.
            Spread::Common => (cpus.max(LANES), 1),
            Spread::PerCpu | Spread::Borrow => (cpus, cpus),
        };
        let table = Table::new(shape, max_entries)?;
        // The kernel rounds the entries of a map with separate lists to a multiple of the CPUs.
        let max_entries = match options.spread {
            Spread::PerCpu => (max_entries / cpus as u32)
                .max(1)
                .saturating_mul(cpus as u32),
            _ => max_entries,
        };
        let part = max_entries / shards as u32;
        let most_local = match options.policy {
            Policy::Clock => max_entries / lanes as u32 / 2,
            // Free nodes are entries less, so fewer of them wait.
            Policy::S3Fifo => max_entries / lanes as u32 / 16,
            Policy::Exact => 1,
        };
        // Free nodes are entries less, so a small map has fewer of them than the kernel's 128.
        let local_free = options
            .local_free
            .unwrap_or((max_entries / 1250).clamp(16, 128));
        let target = local_free.min(most_local.max(1));
        let most_local = options.local_free.map_or(most_local.max(1), |_| target);
        let slots = table.slots();
        let lists = |_| -> Result<_, Error> {
            Ok(CachePadded(SpinLock::new(Shard {
                lists: Lists::new(options.policy, part.max(1), slots)?,
                free: if options.spread == Spread::Borrow {
                    0
                } else {
                    part
                },
                evicted: [0; 3],
            })))
        };
        let map = Self {
            pool: Pool::new(slots, options.policy.queues() * shards)?,
            owners: Words::new(if shards > 1 { slots as usize } else { 0 })?,
            stamps: Words::new(if options.idle.is_some() {
                slots as usize
            } else {
                0
            })?,
            table,
            lanes: (0..lanes)
                .map(|_| CachePadded(SpinLock::default()))
                .collect(),
            shards: (0..shards).map(lists).collect::<Result<_, _>>()?,
            outside: (0..shards).map(|_| CachePadded::default()).collect(),
            lookups: (0..lanes).map(|_| CachePadded::default()).collect(),
            time: AtomicU32::new(0),
            stock: CachePadded(AtomicU32::new(match options.spread {
                Spread::Borrow => max_entries,
                _ => 0,
            })),
            spread: options.spread,
            most: options.policy.most_references(),
            max_entries,
            target,
            most_local,
            scans: options.nr_scans.unwrap_or(0),
            idle: options.idle.unwrap_or(0),
            watched: exact || options.idle.is_some(),
            count_lookups: options.count_lookups,
            expired: AtomicU64::new(0),
            on_evict,
        };
        Ok(map)
    }

    pub(crate) fn table(&self) -> &Table<S> {
        &self.table
    }

    pub(crate) fn max_entries(&self) -> u32 {
        self.max_entries
    }

    /// The bytes of the map's mappings; pages that were never written have no memory yet.
    pub(crate) fn bytes(&self) -> usize {
        let lists = self.shards.iter().map(|shard| shard.lock().lists.bytes());
        self.table.bytes()
            + self.pool.bytes()
            + 4 * (self.owners.len() + self.stamps.len())
            + lists.sum::<usize>()
    }

    /// Sets the time, in ticks of the caller's choice. Entries that were not used for the time to idle
    /// are no longer found.
    pub(crate) fn set_time(&self, ticks: u32) {
        self.time.store(ticks, Ordering::Relaxed);
    }

    /// Returns the number of the calling thread's lane.
    #[inline(always)]
    fn lane_number(&self) -> usize {
        match percpu::bound() {
            Some(cpu) => cpu % self.lanes.len(),
            None => {
                let token = (percpu::thread_token() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (((token >> 32) * self.lanes.len() as u64) >> 32) as usize
            }
        }
    }

    /// Takes the lane of the calling thread, or another if its lane is taken and any will do.
    #[inline(always)]
    fn lane(&self) -> (usize, SpinGuard<'_, Lane>) {
        let own = self.lane_number();
        match self.lanes[own].try_lock() {
            Some(lane) => (own, lane),
            None => self.lane_slow(own),
        }
    }

    #[cold]
    fn lane_slow(&self, own: usize) -> (usize, SpinGuard<'_, Lane>) {
        if self.spread == Spread::Common {
            for next in 1..self.lanes.len() {
                let next = (own + next) % self.lanes.len();
                if let Some(lane) = self.lanes[next].try_lock() {
                    return (next, lane);
                }
            }
        }
        (own, self.lanes[own].lock())
    }

    /// Whether a look-up need not do more than [`Lru::mark`].
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        !(self.watched | self.count_lookups)
    }

    /// Counts a use in an entry's reference byte.
    #[inline(always)]
    pub(crate) fn mark(&self, reference: &AtomicU8) {
        let references = reference.load(Ordering::Relaxed);
        if references < self.most {
            reference.store(references + 1, Ordering::Relaxed);
        }
    }

    /// Marks a slot as used.
    #[inline(always)]
    fn touch(&self, slot: u32) {
        self.mark(self.table.reference(slot));
        if self.watched {
            self.touch_slow(slot);
        }
    }

    #[cold]
    fn touch_slow(&self, slot: u32) {
        if self.idle > 0 {
            self.stamp(slot);
        }
        if self.most == 0
            && let Lists::Exact(list) = &self.shards[0].lock().lists
        {
            list.touch(slot);
        }
    }

    #[inline(always)]
    fn stamp(&self, slot: u32) {
        let now = self.time.load(Ordering::Relaxed);
        let stamp = self.stamps.at(slot as usize);
        if stamp.load(Ordering::Relaxed) != now {
            stamp.store(now, Ordering::Relaxed);
        }
    }

    /// Whether a slot's entry has been idle for too long.
    #[inline(always)]
    fn is_idle(&self, slot: u32) -> bool {
        self.idle > 0 && {
            let used = self.stamps.at(slot as usize).load(Ordering::Relaxed);
            self.time.load(Ordering::Relaxed).wrapping_sub(used) > self.idle
        }
    }

    #[inline(always)]
    fn count(&self, hits: u64, misses: u64) {
        if self.count_lookups {
            let lane = &self.lookups[self.lane_number()];
            lane.hits.fetch_add(hits, Ordering::Relaxed);
            lane.misses.fetch_add(misses, Ordering::Relaxed);
        }
    }

    /// Looks a key up, and reads its slot with `read`, which may run several times.
    #[inline(always)]
    pub(crate) fn look_up(&self, key: &[u8], read: impl FnMut(u32)) -> bool {
        let found = match self.table.search(hash(key), key, read) {
            Some((slot, ())) if !self.is_idle(slot) => {
                self.touch(slot);
                true
            }
            _ => false,
        };
        self.count(u64::from(found), u64::from(!found));
        found
    }

    /// Looks a key up without marking it as used, as the bpf system call does.
    #[inline(always)]
    pub(crate) fn peek(&self, key: &[u8], read: impl FnMut(u32)) -> bool {
        match self.table.search(hash(key), key, read) {
            Some((slot, ())) => !self.is_idle(slot),
            None => false,
        }
    }

    /// Inserts or changes a key; `value` writes the value under the bucket's lock.
    #[inline(always)]
    pub(crate) fn update(
        &self,
        key: &[u8],
        mode: Update,
        value: impl Fn(Slot<'_, S>),
    ) -> Result<(), Error> {
        let hash = hash(key);
        let (number, mut lane) = self.lane();
        let result = self.update_in(number, &mut lane, hash, key, mode, 1, value);
        self.report(lane);
        result
    }

    /// Inserts or changes up to [`BATCH`] keys. Returns how many were, and the error of the next.
    #[inline(always)]
    pub(crate) fn update_batch<'k>(
        &self,
        count: usize,
        key: impl Fn(usize) -> &'k [u8],
        mode: Update,
        value: impl Fn(usize, Slot<'_, S>),
    ) -> (usize, Result<(), Error>) {
        let mut hashes = [0; BATCH];
        let count = count.min(BATCH);
        for (at, hash) in hashes[..count].iter_mut().enumerate() {
            *hash = crate::shape::hash(key(at));
            self.table.prefetch_to_write(*hash);
        }
        let (number, mut lane) = self.lane();
        let mut result = (count, Ok(()));
        for (at, &hash) in hashes[..count].iter().enumerate() {
            let value = |slot: Slot<'_, S>| value(at, slot);
            let left = (count - at) as u32;
            let done = self.update_in(number, &mut lane, hash, key(at), mode, left, value);
            if let Err(error) = done {
                result = (at, Err(error));
                break;
            }
        }
        self.report(lane);
        result
    }

    /// Inserts or changes a key. `left` is the number of keys of the batch that are left, for which a
    /// lane takes free nodes at once.
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "the state of one operation")]
    fn update_in(
        &self,
        number: usize,
        lane: &mut Lane,
        hash: u64,
        key: &[u8],
        mode: Update,
        left: u32,
        value: impl Fn(Slot<'_, S>),
    ) -> Result<(), Error> {
        if self.idle > 0 {
            self.drop_idle(hash, key, lane);
        }
        if lane.free == 0 {
            // An existing entry is changed without a node, so a full map neither refuses nor evicts it.
            if self.table.search(hash, key, |_| ()).is_some() || mode == Update::Exist {
                match self.table.upsert(hash, key, mode, false, &value)? {
                    Placed::Changed(slot) => {
                        self.touch(slot);
                        return Ok(());
                    }
                    _ if mode == Update::Exist => return Err(Error::NoEnt),
                    _ => {}
                }
            }
            if !self.refill(number, lane, left) {
                lane.failed += 1;
                return Err(Error::NoMem);
            }
        } else {
            lane.local_hits += 1;
        }
        match self.table.upsert(hash, key, mode, true, &value)? {
            Placed::Changed(slot) => self.touch(slot),
            Placed::New(slot) => {
                lane.free -= 1;
                if self.most > 0 {
                    lane.pending.push((slot, fold(hash)));
                } else {
                    self.admit(&mut self.shards[0].lock(), &[(slot, 0)], 0);
                }
                self.own(number, slot);
            }
            // A list has the slot already.
            Placed::Revived(slot) => {
                lane.free -= 1;
                self.own(number, slot);
            }
            Placed::Absent | Placed::Full => return Err(Error::NoMem),
        }
        Ok(())
    }

    /// Notes a new entry's owner and time.
    #[inline(always)]
    fn own(&self, number: usize, slot: u32) {
        if self.shards.len() > 1 {
            let shard = (number % self.shards.len()) as u32;
            self.owners
                .at(slot as usize)
                .store(shard, Ordering::Relaxed);
        }
        if self.idle > 0 {
            self.stamp(slot);
        }
    }

    /// Removes a key's entry if it has been idle for too long.
    #[cold]
    fn drop_idle(&self, hash: u64, key: &[u8], lane: &mut Lane) {
        let found = self.table.search(hash, key, |_| ());
        if found.is_none_or(|(slot, ())| !self.is_idle(slot)) {
            return;
        }
        let lost = &mut lane.lost;
        if self
            .remove_hashed(hash, key, |slot| self.keep(lost, slot, Reason::Idle))
            .is_some()
        {
            self.expired.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the node of a slot whose entry was removed.
    fn give_back(&self, slot: u32) {
        let owner = self.owner(slot);
        if self.spread == Spread::Borrow {
            self.outside[owner].held.fetch_sub(1, Ordering::Relaxed);
            self.stock.fetch_add(1, Ordering::Relaxed);
        } else {
            self.outside[owner].returned.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn owner(&self, slot: u32) -> usize {
        if self.shards.len() > 1 {
            self.owners.at(slot as usize).load(Ordering::Relaxed) as usize
        } else {
            0
        }
    }

    /// Copies a lost entry for the callback. The slot's bucket is locked.
    #[inline(always)]
    fn keep(&self, lost: &mut Vec<(Vec<u8>, Vec<u8>, Reason)>, slot: u32, reason: Reason) {
        if self.on_evict.is_some() {
            let shape = self.table.shape();
            let (mut key, mut value) = (vec![0; shape.key_size()], vec![0; shape.value_size()]);
            self.table.read_key(slot, &mut key);
            self.table.read_value(slot, 0, &mut value);
            lost.push((key, value, reason));
        }
    }

    /// Releases a lane, then reports what was lost.
    #[inline(always)]
    fn report(&self, mut lane: SpinGuard<'_, Lane>) {
        if lane.lost.is_empty() {
            return;
        }
        let lost = core::mem::take(&mut lane.lost);
        drop(lane);
        if let Some(on_evict) = &self.on_evict {
            for (key, value, reason) in lost {
                on_evict(&key, &value, reason);
            }
        }
    }

    /// Gets free nodes for a lane, `left` of which will be used soon. Returns whether it has any now.
    #[inline(never)]
    fn refill(&self, number: usize, lane: &mut Lane, left: u32) -> bool {
        let own = number % self.shards.len();
        let target = self.target.max(left.min(self.most_local));
        lane.pending.reserve(2 * target as usize);
        let mut borrow = false;
        {
            let mut shard = self.shards[own].lock();
            self.admit(&mut shard, &lane.pending, target);
            lane.pending.clear();
            self.collect(own, &mut shard);
            lane.free = shard.free.min(target);
            shard.free -= lane.free;
            if self.spread == Spread::Borrow && lane.free < target {
                lane.free += self.stocked(own, target - lane.free);
                let fair = self.max_entries / self.shards.len() as u32;
                borrow = self.outside[own].held.load(Ordering::Relaxed) < fair;
            }
            if lane.free < target && !borrow {
                lane.free += self.evict(own, &mut shard, &mut lane.lost, target - lane.free);
            }
        }
        if borrow && lane.free < target {
            self.take_from_richest(own, lane, target);
        }
        lane.free > 0 || self.refill_from_others(number, lane)
    }

    /// Moves nodes that came back to a shard's free nodes.
    #[inline(always)]
    fn collect(&self, number: usize, shard: &mut Shard) {
        let returned = &self.outside[number].returned;
        if returned.load(Ordering::Relaxed) > 0 {
            shard.free += returned.swap(0, Ordering::Relaxed);
        }
    }

    /// Takes up to `want` nodes from the common stock.
    fn stocked(&self, own: usize, want: u32) -> u32 {
        let (relaxed, stock) = (Ordering::Relaxed, &self.stock);
        let take = |stock: u32| (stock > 0).then(|| stock.saturating_sub(want));
        match stock.fetch_update(relaxed, relaxed, take) {
            Ok(before) => {
                let got = before.min(want);
                self.outside[own].held.fetch_add(got, relaxed);
                got
            }
            Err(_) => 0,
        }
    }

    /// Adds pending slots to a shard's lists, and rotates them for `want` evictions unless it is 0.
    fn admit(&self, shard: &mut Shard, pending: &[(u32, u32)], want: u32) {
        let work = self.work(want, |_, _| ());
        shard.lists.admit(&work, pending);
        if want > 0 {
            shard.lists.rotate(&work);
        }
    }

    /// Returns what a policy works on to get `want` nodes.
    #[inline(always)]
    fn work<F: FnMut(u32, Reason)>(&self, want: u32, lost: F) -> Work<'_, S, F> {
        Work {
            table: &self.table,
            pool: &self.pool,
            scans: match self.scans {
                0 => want.max(self.target),
                scans => scans,
            },
            lost,
        }
    }

    /// Evicts up to `want` entries of a shard, and returns the number of nodes it got.
    #[inline(always)]
    fn evict(
        &self,
        number: usize,
        shard: &mut Shard,
        lost: &mut Vec<(Vec<u8>, Vec<u8>, Reason)>,
        want: u32,
    ) -> u32 {
        let mut evicted = [0; 3];
        let mut elsewhere = 0;
        let mut work = self.work(want, |slot, reason| {
            match reason {
                Reason::Inactive => evicted[0] += 1,
                Reason::Main => evicted[1] += 1,
                Reason::Forced | Reason::Idle => evicted[2] += 1,
            }
            self.keep(lost, slot, reason);
            let owner = self.owner(slot);
            if owner != number {
                elsewhere += 1;
                if self.spread == Spread::PerCpu {
                    self.outside[owner].returned.fetch_add(1, Ordering::Relaxed);
                } else {
                    self.outside[owner].held.fetch_sub(1, Ordering::Relaxed);
                    self.outside[number].held.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let got = shard.lists.evict(&mut work, want);
        for (sum, new) in shard.evicted.iter_mut().zip(evicted) {
            *sum += new;
        }
        if self.spread == Spread::PerCpu {
            got - elsewhere
        } else {
            got
        }
    }

    /// Evicts entries of the shard that holds most nodes, for a lane of another.
    #[cold]
    fn take_from_richest(&self, own: usize, lane: &mut Lane, target: u32) {
        let held = |at: &usize| self.outside[*at].held.load(Ordering::Relaxed);
        let Some(richest) = (0..self.shards.len()).max_by_key(held) else {
            return;
        };
        let mut shard = self.shards[richest].lock();
        let want = target - lane.free;
        let got = self.evict(richest, &mut shard, &mut lane.lost, want);
        drop(shard);
        self.outside[richest].held.fetch_sub(got, Ordering::Relaxed);
        self.outside[own].held.fetch_add(got, Ordering::Relaxed);
        lane.free += got;
    }

    /// Looks for a node in the other lanes: their pending slots can be evicted, and their free nodes
    /// taken.
    #[cold]
    fn refill_from_others(&self, number: usize, lane: &mut Lane) -> bool {
        for next in 1..self.lanes.len() {
            let next = (number + next) % self.lanes.len();
            if self.spread == Spread::PerCpu && next % self.shards.len() != number {
                continue;
            }
            let Some(mut other) = self.lanes[next].try_lock() else {
                continue;
            };
            let owner = next % self.shards.len();
            let pending = core::mem::take(&mut other.pending);
            let free = core::mem::take(&mut other.free);
            drop(other);
            if self.spread == Spread::Borrow {
                self.outside[owner].held.fetch_sub(free, Ordering::Relaxed);
                let own = number % self.shards.len();
                self.outside[own].held.fetch_add(free, Ordering::Relaxed);
            }
            lane.free += free;
            let mut shard = self.shards[owner].lock();
            self.admit(&mut shard, &pending, 0);
            if lane.free == 0 {
                lane.free += self.evict(owner, &mut shard, &mut lane.lost, 1);
            }
            if lane.free > 0 {
                return true;
            }
        }
        for owner in 0..self.shards.len() {
            if self.spread == Spread::PerCpu && owner != number {
                continue;
            }
            let mut shard = self.shards[owner].lock();
            self.collect(owner, &mut shard);
            if shard.free > 0 {
                shard.free -= 1;
                lane.free += 1;
            } else {
                lane.free += self.evict(owner, &mut shard, &mut lane.lost, 1);
            }
            if lane.free > 0 {
                return true;
            }
        }
        false
    }

    /// Removes a key; `read` sees the slot under the lock.
    pub(crate) fn remove(&self, key: &[u8], read: impl FnMut(u32)) -> bool {
        let removed = self.remove_hashed(hash(key), key, read);
        removed.is_some_and(|slot| !self.is_idle(slot))
    }

    fn remove_hashed(&self, hash: u64, key: &[u8], read: impl FnMut(u32)) -> Option<u32> {
        let removed = if self.most > 0 {
            self.table.remove(hash, key, true, read)
        } else {
            let shard = self.shards[0].lock();
            let removed = self.table.remove(hash, key, false, read);
            if let (Some(slot), Lists::Exact(list)) = (removed, &shard.lists) {
                list.unlink(slot);
            }
            removed
        };
        if let Some(slot) = removed {
            self.give_back(slot);
        }
        removed
    }

    /// Whether an entry in a slot can be found.
    pub(crate) fn is_present(&self, slot: u32) -> bool {
        !self.is_idle(slot)
    }

    /// Counts the nodes that are free, and those of entries.
    #[cfg(test)]
    pub(crate) fn nodes(&self) -> (u32, u32) {
        let mut free = self.stock.load(Ordering::Relaxed);
        free += self.lanes.iter().map(|lane| lane.lock().free).sum::<u32>();
        free += self
            .shards
            .iter()
            .map(|shard| shard.lock().free)
            .sum::<u32>();
        let returned = |shard: &CachePadded<Outside>| shard.returned.load(Ordering::Relaxed);
        free += self.outside.iter().map(returned).sum::<u32>();
        let (mut live, mut next) = (0, 0);
        while let Some(slot) = self.table.next_live(next, |_| ()) {
            (live, next) = (live + 1, slot + 1);
        }
        (free, live)
    }

    /// Returns the counters.
    pub(crate) fn stats(&self) -> LruStats {
        let mut stats = LruStats {
            evicted_idle: self.expired.load(Ordering::Relaxed),
            ..LruStats::default()
        };
        for lookups in &self.lookups {
            stats.hits += lookups.hits.load(Ordering::Relaxed);
            stats.misses += lookups.misses.load(Ordering::Relaxed);
        }
        for lane in &self.lanes {
            let lane = lane.lock();
            stats.local_hits += lane.local_hits;
            stats.failed += lane.failed;
        }
        for shard in &self.shards {
            stats.global_locks += shard.stats().acquisitions;
            let shard = shard.lock();
            stats.evicted_inactive += shard.evicted[0];
            stats.evicted_main += shard.evicted[1];
            stats.evicted_forced += shard.evicted[2];
        }
        stats
    }
}

/// The least number of lanes of a map with common lists.
const LANES: usize = if cfg!(loom) { 2 } else { 16 };
