// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Maps that evict: `lru_hash`, in the ways of Linux's `bpf_lru_list.c` and some of its own.
//!
//! # Nodes
//! A map of `max_entries` has that many *nodes*. A node is a permission to hold an entry; the entry
//! itself lies in a slot of the [table](crate::table). A *lane*, one per CPU, has some free nodes, the
//! slots that it filled lately, and with the clock some old slots to evict. A lane without a free node
//! gets some in [`refill`]: it hands its new slots over to the lists of a *shard*, takes free nodes,
//! and evicts entries until it has as many free nodes as the local free target.
//!
//! [`Spread`] says how many shards there are: one with all entries, one a CPU with a fixed part of the
//! nodes, or one a CPU that lends unused nodes to others.
//!
//! # Locks
//! A thread takes a lane, then a shard, then a bucket. It never waits for a second lane, shard or
//! bucket.

mod refill;

use crate::fifo::Pool;
use crate::marks::Marks;
use crate::memory::Words;
use crate::policy::{Lists, Policy, Reason};
use crate::shape::{Shape, fold, hash};
use crate::table::{Placed, Slot, Table};
use crate::{Error, Update};
use refill::{BAGS, Lane};
use weir_sync::percpu;
use weir_sync::primitive::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use weir_sync::primitive::{CachePadded, prefetch_to_write};
use weir_sync::spin::{SpinGuard, SpinLock};

/// The number of keys that batched operations handle at once.
pub const BATCH: usize = 64;

/// A batch of insertions prefetches the home bucket of the key this far ahead, since a processor drops some of a burst
/// of 64.
const FAR: usize = 16;

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
    /// The number of entries that a rotation, and a search for victims, looks at. The default of a search is the
    /// number of nodes that are wanted, `local_free` or the rest of a batch; that of a rotation is `local_free`, or half
    /// of the entries that a CPU draws from the lists at once if that is more.
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

/// The lists of a CPU, or of all. They lie on other cache lines than their lock, at which other CPUs look
/// while they wait.
#[repr(align(128))]
struct Shard {
    lists: Lists,
    /// Evictions by reason, but for those of lanes.
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
    /// Free nodes, but for those of lanes. None for [`Spread::Borrow`].
    free: AtomicU32,
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
    /// For each slot the shard whose node it uses; empty if there is one shard, or if the reference bytes have it.
    owners: Words<AtomicU32>,
    /// For each slot the time of its last use; empty unless entries expire.
    stamps: Words<AtomicU32>,
    time: AtomicU32,
    /// Nodes that no shard has. Only for [`Spread::Borrow`].
    stock: CachePadded<AtomicU32>,
    spread: Spread,
    /// Whether lanes fill and empty chunks of the lists.
    bags: bool,
    /// Whether nobody looks at the key and the value of an evicted entry.
    blind: bool,
    marks: Marks,
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
        let marks = Marks::new(options.policy.most_references(), shards);
        let owners = if shards > 1 && !marks.has_owner() {
            slots as usize
        } else {
            0
        };
        let lists = |_| -> Result<_, Error> {
            Ok(CachePadded(SpinLock::new(Shard {
                lists: Lists::new(options.policy, part.max(1), slots)?,
                evicted: [0; 3],
            })))
        };
        // Lanes have up to three chunks for themselves, so small maps and many lanes have small ones.
        let bags = options.policy == Policy::Clock;
        let chunk = bags.then(|| (max_entries / (8 * lanes as u32)).clamp(1, 128));
        let free = match options.spread {
            Spread::Borrow => 0,
            _ => part,
        };
        let map = Self {
            pool: Pool::new(slots, options.policy.queues() * shards, BAGS * lanes, chunk)?,
            owners: Words::new(owners)?,
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
            outside: (0..shards)
                .map(|_| {
                    CachePadded(Outside {
                        free: AtomicU32::new(free),
                        held: AtomicU32::new(0),
                    })
                })
                .collect(),
            bags,
            blind: on_evict.is_none(),
            lookups: (0..lanes).map(|_| CachePadded::default()).collect(),
            time: AtomicU32::new(0),
            stock: CachePadded(AtomicU32::new(match options.spread {
                Spread::Borrow => max_entries,
                _ => 0,
            })),
            spread: options.spread,
            marks,
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
        self.marks.mark(reference);
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
        if !self.marks.counts()
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
            if at < FAR {
                self.table.prefetch_to_write(*hash);
            }
        }
        let (number, mut lane) = self.lane();
        let mut result = (count, Ok(()));
        for (at, &hash) in hashes[..count].iter().enumerate() {
            if let Some(&next) = hashes[..count].get(at + FAR) {
                self.table.prefetch_to_write(next);
            }
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
        // Others may remove the entry as soon as its bucket is unlocked.
        let value = |slot: Slot<'_, S>| {
            if let Some(new) = slot.begins() {
                self.own(number, new);
            }
            value(slot);
        };
        if self.idle > 0 {
            self.drop_idle(hash, key, lane);
        }
        if lane.free == 0 {
            // An existing entry is changed without a node, so a full map neither refuses nor evicts it.
            if self.table.search(hash, key, |_| ()).is_some() || mode == Update::Exist {
                match self.table.upsert(hash, key, mode, false, value)? {
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
        match self.table.upsert(hash, key, mode, true, value)? {
            Placed::Changed(slot) => self.touch(slot),
            Placed::New(slot) => {
                lane.free -= 1;
                if self.bags {
                    self.fill(number, lane, slot);
                } else if self.marks.counts() {
                    lane.pending.push((slot, fold(hash)));
                } else {
                    self.admit(&mut self.shards[0].lock(), &[(slot, 0)]);
                }
            }
            // A list has the slot already.
            Placed::Revived(_) => lane.free -= 1,
            Placed::Absent | Placed::Full => return Err(Error::NoMem),
        }
        Ok(())
    }

    /// Notes a new entry's owner and time. Its bucket is locked.
    #[inline(always)]
    fn own(&self, number: usize, slot: u32) {
        if self.shards.len() > 1 {
            let shard = number % self.shards.len();
            if self.marks.has_owner() {
                self.marks.set_owner(self.table.reference(slot), shard);
            } else {
                let owner = self.owners.at(slot as usize);
                owner.store(shard as u32, Ordering::Relaxed);
            }
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

    /// Prefetches a slot's owner, unless it lies in the slot's bucket.
    #[inline(always)]
    fn prefetch_owner(&self, slot: u32) {
        if self.owners.len() > 0 {
            prefetch_to_write(self.owners.at(slot as usize));
        }
    }

    /// Returns the node of an entry that was removed to its owner.
    fn give_back(&self, owner: usize) {
        if self.spread == Spread::Borrow {
            self.outside[owner].held.fetch_sub(1, Ordering::Relaxed);
            self.stock.fetch_add(1, Ordering::Relaxed);
        } else {
            self.outside[owner].free.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn owner(&self, slot: u32) -> usize {
        if self.shards.len() == 1 {
            0
        } else if self.marks.has_owner() {
            self.marks.owner(self.table.reference(slot))
        } else {
            self.owners.at(slot as usize).load(Ordering::Relaxed) as usize
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

    /// Removes a key; `read` sees the slot under the lock.
    pub(crate) fn remove(&self, key: &[u8], read: impl FnMut(u32)) -> bool {
        let removed = self.remove_hashed(hash(key), key, read);
        removed.is_some_and(|slot| !self.is_idle(slot))
    }

    fn remove_hashed(&self, hash: u64, key: &[u8], mut read: impl FnMut(u32)) -> Option<u32> {
        let mut owner = 0;
        let read = |slot| {
            owner = self.owner(slot);
            read(slot);
        };
        let removed = if self.marks.counts() {
            self.table.remove(hash, key, true, read)
        } else {
            let shard = self.shards[0].lock();
            let removed = self.table.remove(hash, key, false, read);
            if let (Some(slot), Lists::Exact(list)) = (removed, &shard.lists) {
                list.unlink(slot);
            }
            removed
        };
        if removed.is_some() {
            self.give_back(owner);
        }
        removed
    }

    /// Whether an entry in a slot can be found.
    pub(crate) fn is_present(&self, slot: u32) -> bool {
        !self.is_idle(slot)
    }

    /// Whether each shard has as many nodes as its lanes and its entries take. Only for [`Spread::Borrow`].
    #[cfg(test)]
    pub(crate) fn is_balanced(&self) -> bool {
        let mut held = vec![0; self.shards.len()];
        for (number, lane) in self.lanes.iter().enumerate() {
            held[number % self.shards.len()] += lane.lock().free;
        }
        let mut next = 0;
        while let Some(slot) = self.table.next_live(next, |_| ()) {
            held[self.owner(slot)] += 1;
            next = slot + 1;
        }
        let counted = self
            .outside
            .iter()
            .map(|shard| shard.held.load(Ordering::Relaxed));
        counted.eq(held)
    }

    /// Counts the nodes that are free, and those of entries.
    #[cfg(test)]
    pub(crate) fn nodes(&self) -> (u32, u32) {
        let mut free = self.stock.load(Ordering::Relaxed);
        free += self.lanes.iter().map(|lane| lane.lock().free).sum::<u32>();
        let outside = |shard: &CachePadded<Outside>| shard.free.load(Ordering::Relaxed);
        free += self.outside.iter().map(outside).sum::<u32>();
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
            stats.evicted_inactive += lane.evicted;
            stats.evicted_forced += lane.forced;
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
