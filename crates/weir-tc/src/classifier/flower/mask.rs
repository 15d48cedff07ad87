// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The masks of an instance, and the filters under each.
//!
//! Mirrors `struct fl_flow_mask`, `fl_check_assign_mask`, `fl_mask_put` and `fl_lookup_range`
//! (net/sched/cls_flower.c). A mask is held by its filters; the list the data path walks is published
//! anew when one comes or goes.
//!
//! In front of each mask's table stands a sieve that knows most keys which are not in it ([`Sieve`]):
//! few octets a filter, so that what matches nothing never leaves the near caches. Packets of a batch
//! are looked up together (`lanes::find_group`): their keys' hashes under a mask are computed side by
//! side, and the memory behind what passes the sieves is asked for before any of it is read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use weir_netlink::Error;
use weir_netlink::errno::EINVAL;
use weir_packet::{FlowKeys, Packet, Used};
use weir_sync::bits::set_bits;
use weir_sync::hash::{RcuHash, RcuSet, Reached, Search};
use weir_sync::primitive::atomic::{AtomicU32, Ordering::*};
use weir_sync::primitive::{CachePadded, Mutex, MutexGuard};
use weir_sync::rcu::{Domain, Guard, Published};
use weir_sync::sieve::{Sieve, fold, spot};

use super::Filter;
use super::key::{Key, Mask, Packed, keys_of, sum};
use super::keyed::WITHIN;
use super::lanes::{self, Column, GROUP, Half, Product, Sums};
use super::shape::Shapes;

/// Odd numbers that a folded hash is multiplied with; see [`place_of`].
const MIX: [u32; 2] = [0x7feb_352d, 0x846c_a68b];

/// Where a hash of [`sum`] is found.
#[inline(always)]
pub(super) fn place(sum: u64) -> u64 {
    place_of(fold(sum) as u32)
}

/// The same of a hash that is folded: mixed, and twice, for both ends of what a set wants.
#[inline(always)]
fn place_of(folded: u32) -> u64 {
    let half = folded.wrapping_mul(MIX[0]);
    let half = (half ^ (half >> 15)).wrapping_mul(MIX[1]);
    u64::from(half) << 32 | u64::from(half)
}

/// The folded hash whose place has this upper half.
fn folded_of(upper: u32) -> u32 {
    const BACK: [u32; 2] = [inverse(MIX[0]), inverse(MIX[1])];
    let half = upper.wrapping_mul(BACK[1]);
    (half ^ (half >> 15) ^ (half >> 30)).wrapping_mul(BACK[0])
}

/// What an odd number is multiplied with for 1, modulo 2^32: each of Newton's steps doubles the bits that
/// are right, of which an odd number has three.
const fn inverse(odd: u32) -> u32 {
    let mut inverse = odd;
    let mut right = 3;
    while right < 32 {
        inverse = inverse.wrapping_mul(2_u32.wrapping_sub(odd.wrapping_mul(inverse)));
        right *= 2;
    }
    inverse
}

/// The ranges of a filter's key.
fn ranges_of(filter: &Filter) -> u64 {
    filter.under().mask.ranges_of(filter.packed())
}

/// Whether two filters under a mask have the same key.
fn same_key(a: &Filter, b: &Filter) -> bool {
    a.packed() == b.packed()
}

/// The ranges of the filters under a mask that has ranges.
#[derive(Debug, Default)]
struct Ranges {
    /// Of each range the filters that have it, by the order in which they came.
    filters: BTreeMap<u64, BTreeSet<u64>>,
    /// The place of each filter in that order, by handle.
    places: BTreeMap<u32, u64>,
    /// The place of the next filter.
    next: u64,
}

/// The filters under one mask. Counts that requests write stand on lines of their own, off what they and
/// packets read: the count of the references in front, and that of the holders.
#[repr(align(64))]
pub struct UnderMask {
    /// The mask.
    pub mask: Mask,
    /// How what filters match is shown.
    pub shapes: Shapes,
    /// Filters by key. The set grows, and the sieve is filled, without a look at them: of a million none
    /// would be in a cache.
    filters: RcuSet<Filter>,
    /// Knows the hashes of their keys, without ranges.
    sieve: Sieve,
    /// Keys as given of filters that have bits outside the mask, by where the filter is.
    wholes: RcuHash<usize, Key>,
    /// Filters and requests that hold the mask; 0 once it is going.
    refs: CachePadded<AtomicU32>,
    /// Ranges as words, in the order of the first filter of each; empty without ranges.
    ranges: Published<Vec<u64>>,
    /// Guards changes of the ranges.
    order: Mutex<Ranges>,
}

impl UnderMask {
    fn new(domain: &Domain, mask: &Key) -> Arc<Self> {
        Arc::new(Self {
            mask: Mask::new(*mask),
            shapes: Shapes::default(),
            filters: RcuSet::new(domain),
            wholes: RcuHash::new(domain),
            sieve: Sieve::new(domain),
            refs: CachePadded(AtomicU32::new(1)),
            ranges: Published::new(domain, Vec::new()),
            order: Mutex::default(),
        })
    }

    /// Keeps the key of a filter as it was given.
    pub fn keep_whole(&self, filter: &Filter, key: Key, guard: &Guard) {
        self.wholes
            .insert(std::ptr::from_ref(filter).addr(), key, guard);
    }

    /// The filter's memory is about to be another's.
    pub fn drop_whole(&self, filter: &Filter) {
        let guard = self.wholes.domain().pin();
        self.wholes
            .remove(&std::ptr::from_ref(filter).addr(), &guard);
    }

    /// The key of a filter as it was given, if it was kept.
    pub fn whole<'g>(&'g self, filter: &Filter, guard: &'g Guard) -> Option<&'g Key> {
        self.wholes.get(&std::ptr::from_ref(filter).addr(), guard)
    }

    fn hold(&self) -> bool {
        self.refs
            .fetch_update(AcqRel, Acquire, |n| (n > 0).then(|| n + 1))
            .is_ok()
    }

    /// The filter that matches a packet's keys; `sum` is their hash under the mask, without ranges.
    #[inline]
    fn find<'g>(&'g self, keys: &FlowKeys, sum: u64, guard: &'g Guard) -> Option<&'g Filter> {
        if self.mask.ranges == 0 {
            return self.lookup(keys, sum, 0, guard);
        }
        let mut ranges = self.ranges.load(guard).iter();
        ranges.find_map(|&range| {
            let fits = self.mask.in_range(range, keys);
            if fits {
                self.lookup(keys, sum, range, guard)
            } else {
                None
            }
        })
    }

    #[inline]
    fn lookup<'g>(
        &'g self,
        keys: &FlowKeys,
        sum: u64,
        ranges: u64,
        guard: &'g Guard,
    ) -> Option<&'g Filter> {
        let masked = self.mask.masked(keys, ranges);
        let sum = sum.wrapping_add(self.mask.sum_of_ranges(ranges));
        self.filters
            .find(place(sum), |filter| masked.is(filter.packed()), guard)
    }

    /// Puts a filter into the table by `put`, which gets its place, for the sieve to know it.
    fn sift<R>(&self, filter: &Filter, guard: &Guard, put: impl FnOnce(u64) -> R) -> R {
        let whole = sum(filter.packed());
        let sum = match self.mask.ranges {
            0 => whole,
            _ => self.mask.sum(filter.packed()),
        };
        let put = || put(place(whole));
        self.sieve.add(sum, guard, put, |each| {
            match each {
                // Without ranges it is the same hash, and folding it again changes nothing.
                Some(each) if self.mask.ranges == 0 => {
                    let uppers = self.filters.uppers(guard);
                    uppers.for_each(|upper| each(u64::from(folded_of(upper))));
                }
                Some(each) => {
                    let filters = self.filters.iter(guard);
                    filters.for_each(|filter| each(self.mask.sum(filter.packed())));
                }
                None => {}
            }
            self.filters.len(guard)
        })
    }

    /// Packs a key, and asks for the memory that [`insert`](Self::insert) reads and writes.
    pub fn ask(&self, key: &Key, guard: &Guard) -> Packed {
        let packed = self.mask.pack(key);
        let sum = sum(&packed);
        let reader = self.filters.reader(guard);
        if let Some(search) = reader.and_then(|reader| reader.search(place(sum))) {
            search.before_insertion();
        }
        // With ranges it is another word.
        self.sieve.view(guard).prefetch(spot(sum));
        packed
    }

    /// Puts a filter in; `false` if another has its key.
    pub fn insert(&self, filter: &Arc<Filter>, guard: &Guard) -> bool {
        let put = |place| {
            self.filters
                .insert_if_absent(place, filter.clone(), same_key, guard)
        };
        if self.sift(filter, guard, put).is_err() {
            return false;
        }
        self.change_ranges(guard, |order| {
            let place = order.next;
            order.next += 1;
            order.add(filter, place);
        });
        true
    }

    /// Takes a filter out.
    pub fn remove(&self, filter: &Arc<Filter>, guard: &Guard) {
        self.filters
            .remove(place(sum(filter.packed())), filter, guard);
        self.change_ranges(guard, |order| {
            order.remove(filter);
        });
    }

    /// Puts `new` where `old` is; both have the same handle.
    pub fn replace(&self, old: &Arc<Filter>, new: &Arc<Filter>, guard: &Guard) {
        self.sift(new, guard, |place| {
            self.filters.insert(place, new.clone(), same_key, guard);
        });
        if old.packed() != new.packed() {
            self.filters.remove(place(sum(old.packed())), old, guard);
        }
        self.change_ranges(guard, |order| {
            if let Some(place) = order.remove(old) {
                order.add(new, place);
            }
        });
    }

    fn change_ranges(&self, guard: &Guard, change: impl FnOnce(&mut Ranges)) {
        if self.mask.ranges == 0 {
            return;
        }
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut order);
        let mut ranges: Vec<_> = order
            .filters
            .iter()
            .filter_map(|(&range, all)| Some((*all.first()?, range)))
            .collect();
        ranges.sort_unstable();
        let ranges: Vec<u64> = ranges.into_iter().map(|(_, range)| range).collect();
        if *self.ranges.load(guard) != ranges {
            self.ranges.replace(ranges);
        }
    }
}

impl Ranges {
    fn add(&mut self, filter: &Filter, place: u64) {
        let range = self::ranges_of(filter);
        self.filters.entry(range).or_default().insert(place);
        self.places.insert(filter.keyed.handle, place);
    }

    fn remove(&mut self, filter: &Filter) -> Option<u64> {
        let range = self::ranges_of(filter);
        let place = self.places.remove(&filter.keyed.handle)?;
        if let Some(all) = self.filters.get_mut(&range) {
            all.remove(&place);
            if all.is_empty() {
                self.filters.remove(&range);
            }
        }
        Some(place)
    }
}

/// A mask in the data path's list.
struct Entry {
    halves: Box<[Half]>,
    under: Arc<UnderMask>,
}

impl Entry {
    /// Whether the key of the packet in a lane, under the mask, which has no ranges, is `packed`.
    #[inline(always)]
    fn is(&self, columns: &[Column], lane: usize, packed: &[u32]) -> bool {
        let mut differ = 0;
        for (half, packed) in self.halves.iter().zip(packed) {
            differ |= half.of(columns, lane) ^ packed;
        }
        differ == 0
    }
}

/// Whether the columns hold a key in a lane.
#[inline(always)]
fn is_at(columns: [&Column; WITHIN], lane: usize, key: [u32; WITHIN]) -> bool {
    let differences = columns.into_iter().zip(key);
    let differences = differences.map(|(column, half)| column[lane % GROUP] ^ half);
    differences.fold(0, |all, difference| all | difference) == 0
}

/// Masks whose sieves are read side by side.
const ABREAST: usize = 16;

/// Fewer packets than these are looked up one by one.
const FEW_PACKETS: u32 = 8;

/// Memory for the look-up of batches, used again and again.
pub struct Scratch {
    /// Of each packet where a mask has ranges, for these are not in columns; else of one at a time.
    keys: [FlowKeys; GROUP],
    /// The parts of the keys that masks read.
    columns: Vec<Column>,
    /// Of each mask the hashes of the keys under it.
    sums: Vec<Sums>,
    /// Of each mask the packets that passed its sieve.
    passed: Vec<u64>,
    /// Most packets of the last group had a filter.
    dense: bool,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            keys: [FlowKeys::EMPTY; GROUP],
            columns: Vec::new(),
            sums: Vec::new(),
            passed: Vec::new(),
            dense: false,
        }
    }
}

/// The masks as the data path sees them.
pub struct List {
    /// In the order in which they came to be.
    masks: Vec<Entry>,
    /// The halves of a key's words that some mask reads, and the bits that any does. Under a mask alone a
    /// column holds what the filters' keys do.
    columns: Vec<(u8, u32)>,
    /// What of a packet they need together.
    pub used: Used,
    /// Some mask has ranges.
    ranged: bool,
}

impl List {
    fn new(masks: Vec<Arc<UnderMask>>) -> Self {
        let used = masks
            .iter()
            .fold(Used::BASIC, |used, under| used | under.mask.used);
        let mut columns = BTreeMap::new();
        for &(place, bits) in masks.iter().flat_map(|under| under.mask.halves()) {
            *columns.entry(place).or_default() |= bits;
        }
        let columns: Vec<_> = columns.into_iter().collect();
        let entry = |under: Arc<UnderMask>| {
            let halves = lanes::halves(&under.mask);
            let halves = halves.map(|(place, half)| {
                half.in_column(columns.partition_point(|&(column, _)| column < place))
            });
            Entry {
                halves: halves.collect(),
                under,
            }
        };
        Self {
            ranged: masks.iter().any(|under| under.mask.ranges != 0),
            masks: masks.into_iter().map(entry).collect(),
            columns,
            used,
        }
    }

    fn masks(&self) -> Vec<Arc<UnderMask>> {
        self.masks.iter().map(|entry| entry.under.clone()).collect()
    }

    /// Whether there is no mask, hence no filter.
    pub fn is_empty(&self) -> bool {
        self.masks.is_empty()
    }

    /// Where in a scratch the keys of the packet in a lane are.
    #[inline(always)]
    fn keys_at(&self, lane: usize) -> usize {
        if self.ranged { lane % GROUP } else { 0 }
    }

    /// The filter that matches a packet's keys: under the first mask that has one.
    #[inline]
    pub fn find<'g>(&'g self, keys: &FlowKeys, guard: &'g Guard) -> Option<&'g Filter> {
        self.masks.iter().find_map(|entry| {
            let sum = entry.under.mask.sum_of(keys);
            if !entry.under.sieve.view(guard).passes(spot(sum)) {
                return None;
            }
            entry.under.find(keys, sum, guard)
        })
    }

    /// [`find`](Self::find) for the packets of a batch with a bit in the number given, their cache misses
    /// overlapped; tells `found` of those that have a filter. Called by [`lanes::find_group`], which has it
    /// compiled once for each family of processors.
    #[inline(always)]
    pub(super) fn find_group<'g>(
        &'g self,
        product: impl Product,
        (packets, wanted): (&[Packet], u64),
        scratch: &mut Scratch,
        guard: &'g Guard,
        mut found: impl FnMut(usize, &'g Filter),
    ) {
        let count = wanted.count_ones();
        if count < FEW_PACKETS {
            for lane in set_bits(wanted) {
                let [keys, ..] = &mut scratch.keys;
                keys_of(&packets[lane], self.used, keys);
                if let Some(filter) = self.find(keys, guard) {
                    found(lane, filter);
                }
            }
            return;
        }
        if scratch.columns.len() < self.columns.len() {
            scratch.columns.resize(self.columns.len(), [0; GROUP]);
        }
        for lane in set_bits(wanted) {
            let keys = &mut scratch.keys[self.keys_at(lane)];
            keys_of(&packets[lane], self.used, keys);
            let halves = keys.halves();
            for (column, &(place, bits)) in scratch.columns.iter_mut().zip(&self.columns) {
                if let Some(&half) = halves.get(usize::from(place)) {
                    column[lane] = half & bits;
                }
            }
        }
        // Other lanes hold what was there before.
        if scratch.sums.len() < self.masks.len() {
            scratch.sums.resize(self.masks.len(), [0; GROUP]);
        }
        scratch.passed.clear();
        // Where most packets have a filter under the one mask, its sieve would be read in vain.
        let sifted = self.masks.len() > 1 || !scratch.dense;
        // The words of the sieves of some masks are asked for before any of them is read.
        let sums = scratch.sums.chunks_mut(ABREAST);
        for (masks, sums) in self.masks.chunks(ABREAST).zip(sums) {
            for (entry, sums) in masks.iter().zip(&mut *sums) {
                lanes::sums(product, &entry.halves, &scratch.columns, sums);
                if sifted {
                    lanes::ask(sums, wanted, entry.under.sieve.view(guard));
                }
            }
            let passed = masks.iter().zip(sums).map(|(entry, sums)| match sifted {
                true => lanes::pass(product, sums, entry.under.sieve.view(guard)) & wanted,
                false => wanted,
            });
            scratch.passed.extend(passed);
        }
        let mut hits = 0;
        if scratch.passed.iter().any(|&passed| passed != 0) {
            let found = |lane, filter| {
                hits += 1;
                found(lane, filter);
            };
            self.settle(packets, scratch, guard, found);
        }
        scratch.dense = hits > count / 2;
    }

    /// Looks packets up under the masks whose sieves they passed; tells `found` of those that have a
    /// filter, by their lanes.
    #[inline(always)]
    fn settle<'g>(
        &'g self,
        packets: &[Packet],
        scratch: &mut Scratch,
        guard: &'g Guard,
        mut found: impl FnMut(usize, &'g Filter),
    ) {
        // Each stage asks for what the next one reads: slots, filters. A packet whose slots say that a
        // sieve was wrong goes on with the next mask it passed.
        let (Some(first), Some(columns)) = (
            self.masks.first(),
            scratch.columns.get(..self.columns.len()),
        ) else {
            return;
        };
        // Under one mask a column each of a key that lies in the filter.
        let few = (self.masks.len() == 1 && columns.len() <= WITHIN)
            .then(|| std::array::from_fn(|n| columns.get(n).unwrap_or(&[0; GROUP])));
        let mut under = [first; GROUP];
        let mut searches: [Option<Search<'g, Filter>>; GROUP] = [None; GROUP];
        let mut reached: [Option<Reached<'g, Filter>>; GROUP] = [None; GROUP];
        let (mut open, mut done, mut left) = (u64::MAX, 0_u64, 0);
        while open != 0 {
            let mut begun = 0;
            let sums = scratch.sums.iter();
            for ((entry, passed), sums) in self.masks.iter().zip(&mut scratch.passed).zip(sums) {
                let now = *passed & open & !begun;
                if now == 0 {
                    continue;
                }
                begun |= now;
                if entry.under.mask.ranges != 0 {
                    left |= now;
                    continue;
                }
                *passed &= !now;
                let reader = entry.under.filters.reader(guard);
                for lane in set_bits(now) {
                    let place = place_of(sums[lane]);
                    searches[lane] = reader.as_ref().and_then(|reader| reader.search(place));
                    under[lane] = entry;
                }
            }
            open = 0;
            for lane in set_bits(begun & !left) {
                reached[lane] = searches[lane].and_then(Search::reach);
                match &reached[lane] {
                    Some(_) => done |= 1 << lane,
                    None => open |= 1 << lane,
                }
            }
        }
        // Seldom a packet is looked at alone: under masks with ranges, and those behind one whose filter
        // was another's.
        left = scratch
            .passed
            .iter()
            .fold(left, |left, passed| left | passed);
        for lane in set_bits(done) {
            let is_it = |filter: &Filter| match few {
                Some(few) => filter
                    .keyed
                    .within()
                    .is_some_and(|key| is_at(few, lane, key)),
                None => under[lane].is(columns, lane, filter.packed()),
            };
            let filter = reached[lane].and_then(|reached| reached.finish(is_it));
            if let Some(filter) = filter {
                found(lane, filter);
                left &= !(1 << lane);
            }
        }
        for lane in set_bits(left) {
            let keys = &mut scratch.keys[self.keys_at(lane)];
            if !self.ranged {
                keys_of(&packets[lane], self.used, keys);
            }
            let mut masks = self.masks.iter().zip(&scratch.passed);
            let filter = masks.find_map(|(entry, passed)| match passed >> lane & 1 {
                0 => None,
                _ => {
                    let sum = entry.under.mask.sum_of(keys);
                    entry.under.find(keys, sum, guard)
                }
            });
            if let Some(filter) = filter {
                found(lane, filter);
            }
        }
    }
}

/// Masks compared one by one with that of a new filter.
const FEW: usize = 8;

/// The masks of an instance.
pub struct Masks {
    domain: Domain,
    list: Published<List>,
    by_key: RcuHash<Key, Arc<UnderMask>>,
    /// Guards that masks come and go.
    change: Mutex<()>,
}

impl Masks {
    /// No masks.
    pub fn new(domain: &Domain) -> Self {
        Self {
            domain: domain.clone(),
            list: Published::new(domain, List::new(Vec::new())),
            by_key: RcuHash::new(domain),
            change: Mutex::default(),
        }
    }

    /// The masks.
    #[inline]
    pub fn list<'g>(&'g self, guard: &'g Guard) -> &'g List {
        self.list.load(guard)
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.change.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `fl_check_assign_mask`: the mask with the bits of `key`, held, made if need be. With `old`, it
    /// must be that one. `near` is what [`near`](Self::near) found.
    pub fn get(
        &self,
        key: &Key,
        old: Option<&Arc<UnderMask>>,
        near: Option<&Arc<UnderMask>>,
        guard: &Guard,
    ) -> Result<Arc<UnderMask>, Error> {
        if let Some(old) = old {
            if old.mask.key != *key || !old.hold() {
                return Err(Error::new(EINVAL));
            }
            return Ok(old.clone());
        }
        let there = near.or_else(|| self.by_key.get(key, guard));
        if let Some(under) = there.filter(|under| under.hold()) {
            return Ok(under.clone());
        }
        let _lock = self.lock();
        if let Some(under) = self.by_key.get(key, guard).filter(|under| under.hold()) {
            return Ok(under.clone());
        }
        let under = UnderMask::new(&self.domain, key);
        self.by_key.insert(*key, under.clone(), guard);
        let mut masks = self.list.load(guard).masks();
        masks.push(under.clone());
        self.list.replace(List::new(masks));
        Ok(under)
    }

    /// Forgets all masks with all filters, at once for packets. Nothing comes any more, but requests that
    /// found a filter before may still take it out.
    pub fn clear(&self, guard: &Guard) {
        let _lock = self.lock();
        let all: Vec<_> = self
            .by_key
            .iter(guard)
            .map(|(_, under)| under.clone())
            .collect();
        self.list.replace(List::new(Vec::new()));
        for under in all {
            under.filters.clear(guard);
        }
    }

    /// The mask with the bits of `key`, if it is one of the first: of a few the right one is found sooner
    /// than the hash of a key is computed.
    pub fn near<'g>(&'g self, key: &Key, guard: &'g Guard) -> Option<&'g Arc<UnderMask>> {
        let few = self.list.load(guard).masks.iter().take(FEW);
        few.map(|entry| &entry.under)
            .find(|under| under.mask.key.is(key))
    }

    /// `fl_mask_put`: lets go of a mask; with the last filter it goes.
    pub fn put(&self, under: &Arc<UnderMask>, guard: &Guard) {
        if under.refs.fetch_sub(1, AcqRel) != 1 {
            return;
        }
        let _lock = self.lock();
        self.by_key
            .remove_if(&under.mask.key, guard, |other| Arc::ptr_eq(other, under));
        let mut masks = self.list.load(guard).masks();
        masks.retain(|other| !Arc::ptr_eq(other, under));
        self.list.replace(List::new(masks));
    }
}
