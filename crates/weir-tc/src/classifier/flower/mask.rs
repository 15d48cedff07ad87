// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The masks of an instance, and the filters under each.
//!
//! Mirrors `struct fl_flow_mask`, `fl_check_assign_mask`, `fl_mask_put` and `fl_lookup_range`
//! (net/sched/cls_flower.c). Filters hold references to their mask. The list that the data path
//! walks is published anew whenever a mask is added or removed.
//!
//! In front of each mask's table is a filter that recognizes most keys that are not in it
//! ([`Sieve`]). It takes only a few bytes per filter, so a lookup of a packet that matches nothing
//! stays in the near caches. Packets of a batch are looked up together (`isa::find_group`): the
//! hashes of their keys under a mask are computed in parallel, and the memory for those that pass
//! the sieves is prefetched before any of it is read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_netlink::Error;
use weir_netlink::errno::EINVAL;
use weir_packet::{FlowKeys, Used};
use weir_sync::bits::set_bits;
use weir_sync::cycles::cycles;
use weir_sync::hash::{RcuHash, RcuSet, Reached, Search};
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::primitive::CachePadded;
use weir_sync::primitive::atomic::{AtomicBool, AtomicU32, Ordering::*};
use weir_sync::rcu::{Domain, Guard, Published, PublishedOption};
use weir_sync::sieve::{Sieve, fold, spot};

use super::Filter;
use super::few::{FEW, Few};
use super::key::{Key, Mask, Packed, sum};
use super::keyed::WITHIN;
use super::lanes::{self, Column, GROUP, Half, Product, Sums};
use super::plain::{self, Deciding, Differ, Heads, Load, TOGETHER};
use super::shape::Shapes;
use crate::early::{Plain, Source, is_plain};

/// Odd factors for mixing a folded hash; see [`place_of`].
const MIX: [u32; 2] = [0x7feb_352d, 0x846c_a68b];

/// Returns the position of a hash computed by [`sum`] in the table.
#[inline(always)]
pub(super) fn place(sum: u64) -> u64 {
    place_of(fold(sum) as u32)
}

/// Does the same for a folded hash. The mixed hash is in both halves of the result, because a set
/// uses bits of both ends.
#[inline(always)]
fn place_of(folded: u32) -> u64 {
    let half = folded.wrapping_mul(MIX[0]);
    let half = (half ^ (half >> 15)).wrapping_mul(MIX[1]);
    u64::from(half) << 32 | u64::from(half)
}

/// Returns the folded hash whose position has this upper half.
fn folded_of(upper: u32) -> u32 {
    const BACK: [u32; 2] = [inverse(MIX[0]), inverse(MIX[1])];
    let half = upper.wrapping_mul(BACK[1]);
    (half ^ (half >> 15) ^ (half >> 30)).wrapping_mul(BACK[0])
}

/// Returns the multiplicative inverse of an odd number modulo 2^32. An odd number is its own
/// inverse modulo 2^3, and each step of Newton's iteration doubles the number of correct bits.
const fn inverse(odd: u32) -> u32 {
    let mut inverse = odd;
    let mut right = 3;
    while right < 32 {
        inverse = inverse.wrapping_mul(2_u32.wrapping_sub(odd.wrapping_mul(inverse)));
        right *= 2;
    }
    inverse
}

/// Returns the ranges of a filter's key.
fn ranges_of(filter: &Filter) -> u64 {
    filter.under().mask.ranges_of(filter.packed())
}

/// Returns whether two filters under a mask have the same key.
fn same_key(a: &Filter, b: &Filter) -> bool {
    a.packed() == b.packed()
}

/// The ranges of the filters under a mask that has ranges.
#[derive(Debug, Default)]
struct Ranges {
    /// For each range the filters that have it, in the order of insertion.
    filters: BTreeMap<u64, BTreeSet<u64>>,
    /// The position of each filter in that order, by handle.
    places: BTreeMap<u32, u64>,
    /// The position of the next filter.
    next: u64,
}

/// The filters under one mask. The counts that requests write are in cache lines of their own,
/// separate from the fields that requests and packets read: the reference count of the `Arc` in
/// front, and the count of holders.
#[repr(align(64))]
pub struct UnderMask {
    /// The mask.
    pub mask: Mask,
    /// Cached encodings of the keys of filters.
    pub shapes: Shapes,
    /// The filters by key. Growing the set and refilling the sieve do not read the filters, because
    /// with a million filters each read would be a cache miss.
    filters: RcuSet<Filter>,
    /// Recognizes the hashes of the filters' keys, without ranges.
    sieve: Sieve,
    /// The original keys of filters that have bits outside the mask, by the address of the filter.
    originals: RcuHash<usize, Key>,
    /// The number of filters and requests that hold the mask; 0 while it is being removed.
    refs: CachePadded<AtomicU32>,
    /// The ranges as words, in the order of the first filter of each; empty if the mask has no
    /// ranges.
    ranges: Published<Vec<u64>>,
    /// Guards changes of the ranges.
    order: Mutex<Ranges, order::Ranges>,
}

impl UnderMask {
    fn new(domain: &Domain, mask: &Key) -> Arc<Self> {
        Arc::new(Self {
            mask: Mask::new(*mask),
            shapes: Shapes::default(),
            filters: RcuSet::new(domain),
            originals: RcuHash::new(domain),
            sieve: Sieve::new(domain),
            refs: CachePadded(AtomicU32::new(1)),
            ranges: Published::new(domain, Vec::new()),
            order: Mutex::default(),
        })
    }

    /// Stores the original key of a filter.
    pub fn store_original(&self, filter: &Filter, key: Key, guard: &Guard) {
        self.originals
            .insert(std::ptr::from_ref(filter).addr(), key, guard);
    }

    /// Removes the original key of a filter whose memory is about to be freed.
    pub fn remove_original(&self, filter: &Filter) {
        let guard = self.originals.domain().pin();
        self.originals
            .remove(&std::ptr::from_ref(filter).addr(), &guard);
    }

    /// Returns the original key of a filter, if it was stored.
    pub fn original<'g>(&'g self, filter: &Filter, guard: &'g Guard) -> Option<&'g Key> {
        self.originals
            .get(&std::ptr::from_ref(filter).addr(), guard)
    }

    fn hold(&self) -> bool {
        self.refs
            .fetch_update(AcqRel, Acquire, |n| (n > 0).then(|| n + 1))
            .is_ok()
    }

    /// Returns the filter that matches a packet's keys. `sum` is their hash under the mask, without
    /// ranges.
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

    /// Inserts a filter into the table by calling `put` with its position, and adds its hash to the
    /// sieve.
    fn sift<R>(&self, filter: &Filter, guard: &Guard, put: impl FnOnce(u64) -> R) -> R {
        let full = sum(filter.packed());
        let sum = match self.mask.ranges {
            0 => full,
            _ => self.mask.sum(filter.packed()),
        };
        let put = || put(place(full));
        self.sieve.add(sum, guard, put, |each| {
            match each {
                // Without ranges the folded hash is sufficient, because folding it again does not
                // change it.
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

    /// Packs a key and prefetches the memory that [`insert`](Self::insert) will read and write.
    pub fn prefetch_insert(&self, key: &Key, guard: &Guard) -> Packed {
        let packed = self.mask.pack(key);
        let sum = sum(&packed);
        let reader = self.filters.reader(guard);
        if let Some(search) = reader.and_then(|reader| reader.search(place(sum))) {
            search.before_insertion();
        }
        // If the mask has ranges, this is not the right word of the sieve.
        self.sieve.view(guard).prefetch(spot(sum));
        packed
    }

    /// Inserts a filter. Returns `false` if another filter has its key.
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

    /// Removes a filter.
    pub fn remove(&self, filter: &Arc<Filter>, guard: &Guard) {
        self.filters
            .remove(place(sum(filter.packed())), filter, guard);
        self.change_ranges(guard, |order| {
            order.remove(filter);
        });
    }

    /// Replaces `old` by `new`, which has the same handle.
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
        let mut order = self.order.lock();
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
    /// Returns whether the key of the packet in a lane equals `packed`. The mask must not have
    /// ranges.
    #[inline(always)]
    fn is(&self, columns: &[Column], lane: usize, packed: &[u32]) -> bool {
        let mut differ = 0;
        for (half, packed) in self.halves.iter().zip(packed) {
            differ |= half.of(columns, lane) ^ packed;
        }
        differ == 0
    }
}

/// Returns whether the columns hold a key in a lane.
#[inline(always)]
fn is_at(columns: [&Column; WITHIN], lane: usize, key: [u32; WITHIN]) -> bool {
    let differences = columns.into_iter().zip(key);
    let differences = differences.map(|(column, half)| column[lane % GROUP] ^ half);
    differences.fold(0, |all, difference| all | difference) == 0
}

/// The number of masks whose sieves are read together.
const ABREAST: usize = 16;

/// Batches with fewer packets are looked up one by one.
const FEW_PACKETS: u32 = 8;
/// Batches with no more runs of packets with the same keys are looked up run by run.
pub(super) const FEW_RUNS: usize = 4;

/// Returns the lanes among `wanted` whose half-words differ from those of the lane before, or where that is not
/// wanted.
#[inline(always)]
fn leaders(columns: &[Column], wanted: u64) -> u64 {
    let mut differ = [0; GROUP];
    for column in columns {
        for lane in 1..GROUP {
            differ[lane] |= column[lane] ^ column[lane - 1];
        }
    }
    let mut leaders = !(wanted << 1);
    for (lane, differ) in differ.iter().enumerate() {
        leaders |= u64::from(*differ != 0) << lane;
    }
    leaders & wanted
}

/// The scratch memory for batched lookups.
pub struct Scratch {
    /// The keys of each packet if a mask has ranges, because these are not in columns; otherwise
    /// the keys of one packet at a time.
    keys: [FlowKeys; GROUP],
    /// The half-words of the keys that masks read.
    columns: Vec<Column>,
    /// For each mask the hashes of the keys under it.
    sums: Vec<Sums>,
    /// For each mask the packets that passed its sieve.
    passed: Vec<u64>,
    /// Most packets of the last group had a filter.
    dense: bool,
    /// Whether the dissection is timed.
    pub timed: bool,
    /// The number of packets whose dissection was not asked for yet.
    pub dissected: u64,
    /// The cycles it took, as far as it was timed.
    pub cycles: u64,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            keys: [FlowKeys::EMPTY; GROUP],
            columns: Vec::new(),
            sums: Vec::new(),
            passed: Vec::new(),
            dense: false,
            timed: false,
            dissected: 0,
            cycles: 0,
        }
    }
}

/// The masks from the point of view of the data path.
pub struct List {
    /// The masks in order of creation.
    masks: Vec<Entry>,
    /// The half-words of a key that at least one mask reads, and the bits that any mask reads. If
    /// there is only one mask, a column holds the same bits as the filters' keys.
    columns: Vec<(u8, u32)>,
    /// The places of these half-words in the headers of plain packets; empty if some are not in headers.
    plain: Vec<Load>,
    /// The bits of plain headers that decide these half-words, if all are in headers.
    deciding: Option<Deciding>,
    /// The parts of a packet that the masks need together.
    pub used: Used,
    /// At least one mask has ranges.
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
        let plain: Vec<Load> = (columns.iter())
            .map(|&(place, _)| Load::of(place, used))
            .collect::<Option<_>>()
            .unwrap_or_default();
        let ranged = masks.iter().any(|under| under.mask.ranges != 0);
        Self {
            deciding: (!ranged && !plain.is_empty()).then(|| {
                let bits = columns.iter().map(|&(_, bits)| bits);
                Deciding::of(plain.iter().copied().zip(bits))
            }),
            ranged,
            masks: masks.into_iter().map(entry).collect(),
            plain,
            columns,
            used,
        }
    }

    fn masks(&self) -> Vec<Arc<UnderMask>> {
        self.masks.iter().map(|entry| entry.under.clone()).collect()
    }

    /// Returns whether there are no masks, which means that there are no filters.
    pub fn is_empty(&self) -> bool {
        self.masks.is_empty()
    }

    /// Returns the index of the keys of the packet in a lane in the scratch memory.
    #[inline(always)]
    fn keys_at(&self, lane: usize) -> usize {
        if self.ranged { lane % GROUP } else { 0 }
    }

    /// Returns the filter that matches a packet's keys, under the first mask that has one.
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

    /// Looks up the packets of a batch with a bit in `wanted` run by run, if they are a few runs of plain packets
    /// whose headers agree in all bits that decide. `few` are the filters, if there are only a few. Fills `runs` with
    /// those that have a filter. Returns `false` if the packets are not such runs; nothing has then been looked up.
    /// [`isa::find_runs`](super::isa::find_runs) instantiates this function once for each family of processors.
    #[inline(always)]
    pub(super) fn find_runs<'g>(
        &'g self,
        differ: impl Differ,
        few: Option<&'g Few>,
        (packets, wanted): (&impl Source, u64),
        runs: &mut [Option<(u64, &'g Filter)>; FEW_RUNS],
        guard: &'g Guard,
    ) -> bool {
        let Some(deciding) = &self.deciding else {
            return false;
        };
        let mut firsts = [0; FEW_RUNS];
        let mut count = 0;
        let mut before: Option<&Plain> = None;
        for lane in set_bits(wanted) {
            // What agrees with plain headers in the bits that decide is plain.
            let Some(head) = packets.head(lane) else {
                return false;
            };
            if before.is_some_and(|before| deciding.agree(differ, before, head)) {
                continue;
            }
            let Some(first) = firsts.get_mut(count).filter(|_| is_plain(head)) else {
                return false;
            };
            (*first, before) = (lane, Some(head));
            count += 1;
        }
        let mut keys = FlowKeys::EMPTY;
        let mut rest = wanted;
        let mut runs = runs.iter_mut();
        // From the last run to the first, each has the packets from its own first one on.
        for &first in firsts.iter().take(count).rev() {
            let run = rest & u64::MAX << first;
            rest &= !run;
            let filter = match few {
                Some(few) => packets
                    .head(first)
                    .and_then(|head| few.filter_of(differ, head)),
                None => {
                    packets.keys(first, self.used, &mut keys);
                    self.find(&keys, guard)
                }
            };
            if let Some(filter) = filter
                && let Some(slot) = runs.next()
            {
                *slot = Some((run, filter));
            }
        }
        true
    }

    /// Does the same as [`find`](Self::find) for the packets of a batch with a bit in the given
    /// number, and overlaps their cache misses. Calls `found` for those that have a filter.
    /// [`isa::find_group`](super::isa::find_group) instantiates this function once for each family of processors.
    #[inline(always)]
    pub(super) fn find_group<'g>(
        &'g self,
        product: impl Product,
        (packets, wanted): (&impl Source, u64),
        scratch: &mut Scratch,
        guard: &'g Guard,
        mut found: impl FnMut(usize, &'g Filter),
    ) {
        let count = wanted.count_ones();
        if count < FEW_PACKETS {
            for lane in set_bits(wanted) {
                let [keys, ..] = &mut scratch.keys;
                packets.keys(lane, self.used, keys);
                if let Some(filter) = self.find(keys, guard) {
                    found(lane, filter);
                }
            }
            return;
        }
        if scratch.columns.len() < self.columns.len() {
            scratch.columns.resize(self.columns.len(), [0; GROUP]);
        }
        if scratch.sums.len() < self.masks.len() {
            scratch.sums.resize(self.masks.len(), [0; GROUP]);
        }
        // If most packets have a filter under the only mask, reading its sieve would be a waste.
        let sifted = self.masks.len() > 1 || !scratch.dense;
        // The table's slots are then prefetched packet by packet, and arrive while the next packets
        // are dissected.
        let only = self.masks.first().filter(|_| !sifted && !self.ranged);
        let only = only.and_then(|only| Some((&only.halves, only.under.filters.reader(guard)?)));
        let summands = only.as_ref().map_or(&[][..], |(halves, _)| halves);
        let mut searches = [None; GROUP];
        let before = scratch.timed.then(cycles);
        let mut dissect = wanted;
        if !self.ranged && !self.plain.is_empty() {
            for from in (0..GROUP).step_by(TOGETHER) {
                if !lanes::wants(wanted, from) {
                    continue;
                }
                let mut heads: Heads<'_> = [&plain::NONE; TOGETHER];
                let mut plain = 0_u64;
                for (lane, head) in (from..).zip(&mut heads) {
                    if wanted >> lane & 1 == 1
                        && let Some(found) = packets.plain(lane)
                    {
                        *head = found;
                        plain |= 1 << lane;
                    }
                }
                let loads = self.plain.iter().zip(&self.columns);
                for (column, (load, &(_, bits))) in scratch.columns.iter_mut().zip(loads) {
                    let lanes = column
                        .get_mut(from..)
                        .and_then(|rest| rest.first_chunk_mut());
                    if let Some(lanes) = lanes {
                        load.fill(&heads, bits, lanes);
                    }
                }
                dissect &= !plain;
                if let (Some((_, reader)), [sums, ..]) = (&only, &mut scratch.sums[..]) {
                    for lane in set_bits(plain) {
                        // The columns of the only mask are in the order of its half-words.
                        let parts = summands.iter().zip(&scratch.columns);
                        let sum = parts.fold(0_u64, |sum, (of, column)| {
                            sum.wrapping_add(of.part(column[lane]))
                        });
                        sums[lane] = fold(sum) as u32;
                        searches[lane] = reader.search(place_of(sums[lane]));
                    }
                }
            }
        }
        for lane in set_bits(dissect) {
            let keys = &mut scratch.keys[self.keys_at(lane)];
            packets.keys(lane, self.used, keys);
            let halves = keys.halves();
            let columns = scratch.columns.iter_mut().zip(&self.columns);
            let mut sum = 0_u64;
            for (n, (column, &(place, bits))) in columns.enumerate() {
                if let Some(&half) = halves.get(usize::from(place)) {
                    column[lane] = half & bits;
                    // The columns of the only mask are in the order of its half-words.
                    let part = summands.get(n).map_or(0, |of| of.part(half & bits));
                    sum = sum.wrapping_add(part);
                }
            }
            if let (Some((_, reader)), [sums, ..]) = (&only, &mut scratch.sums[..]) {
                sums[lane] = fold(sum) as u32;
                searches[lane] = reader.search(place_of(sums[lane]));
            }
        }
        scratch.dissected += u64::from(count);
        if let Some(before) = before {
            scratch.cycles += cycles().wrapping_sub(before);
        }
        // Packets with the keys of the one before have its filter. If there are only a few runs of them, the first
        // of each is looked up for all.
        let columns = scratch.columns.get(..self.columns.len());
        let leaders = match &self.deciding {
            // `find_runs` has found too many.
            Some(_) if dissect == 0 => wanted,
            _ => leaders(columns.unwrap_or_default(), wanted),
        };
        if !self.ranged && leaders.count_ones() as usize <= FEW_RUNS {
            let mut rest = leaders;
            while rest != 0 {
                let first = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                let end = rest & rest.wrapping_neg();
                let run = wanted & end.wrapping_sub(1) & u64::MAX << first;
                let [keys, ..] = &mut scratch.keys;
                packets.keys(first, self.used, keys);
                if let Some(filter) = self.find(keys, guard) {
                    set_bits(run).for_each(|lane| found(lane, filter));
                }
            }
            scratch.dense = false;
            return;
        }
        scratch.passed.clear();
        // The words of several sieves are prefetched before any of them is read.
        let sums = scratch.sums.chunks_mut(ABREAST);
        for (masks, sums) in self.masks.chunks(ABREAST).zip(sums) {
            for (entry, sums) in masks.iter().zip(&mut *sums) {
                if only.is_some() {
                    continue;
                }
                lanes::sums(product, &entry.halves, &scratch.columns, wanted, sums);
                if sifted {
                    lanes::prefetch(sums, wanted, entry.under.sieve.view(guard));
                }
            }
            let passed = masks.iter().zip(sums).map(|(entry, sums)| match sifted {
                true => lanes::test(product, sums, wanted, entry.under.sieve.view(guard)),
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
            self.settle(packets, scratch, (searches, only.is_some()), guard, found);
        }
        scratch.dense = hits > count / 2;
    }

    /// Looks up packets under the masks whose sieves they passed. Calls `found` with the lane of
    /// each packet that has a filter. With the given searches comes whether those under the only
    /// mask have begun.
    #[inline(always)]
    fn settle<'g>(
        &'g self,
        packets: &impl Source,
        scratch: &mut Scratch,
        (mut searches, searching): ([Option<Search<'g, Filter>>; GROUP], bool),
        guard: &'g Guard,
        mut found: impl FnMut(usize, &'g Filter),
    ) {
        // Each stage prefetches what the next one reads: slots, then filters. If the slots show
        // that a sieve gave a false positive, the packet continues with the next mask it passed.
        let (Some(first), Some(columns)) = (
            self.masks.first(),
            scratch.columns.get(..self.columns.len()),
        ) else {
            return;
        };
        // If there is only one mask and its keys are stored inline in the filters, each half-word
        // has its own column.
        let few = (self.masks.len() == 1 && columns.len() <= WITHIN)
            .then(|| std::array::from_fn(|n| columns.get(n).unwrap_or(&[0; GROUP])));
        let mut under = [first; GROUP];
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
                if searching {
                    continue;
                }
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
        // Only a few packets are looked up individually: those under masks with ranges, and those
        // whose first candidate turned out to have another key.
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
                packets.keys(lane, self.used, keys);
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

/// The number of masks compared one by one with that of a new filter.
const NEAR: usize = 8;

/// The masks of an instance.
pub struct Masks {
    domain: Domain,
    list: Published<List>,
    by_key: RcuHash<Key, Arc<UnderMask>>,
    /// The filters, if there are only a few, in a form for packets.
    few: PublishedOption<Few>,
    /// There have been more than a few filters. Changes of filters then take no lock.
    many: AtomicBool,
    /// Guards the creation and removal of masks. Contains the filters until there are more than a few.
    change: Mutex<Vec<Arc<Filter>>, order::Classifier>,
}

impl Masks {
    /// Creates an empty set of masks.
    pub fn new(domain: &Domain) -> Self {
        Self {
            domain: domain.clone(),
            list: Published::new(domain, List::new(Vec::new())),
            by_key: RcuHash::new(domain),
            few: PublishedOption::new(domain, None),
            many: AtomicBool::new(false),
            change: Mutex::default(),
        }
    }

    /// Returns the masks.
    #[inline]
    pub fn list<'g>(&'g self, guard: &'g Guard) -> &'g List {
        self.list.load(guard)
    }

    /// Returns the filters in a form for packets, if there are only a few.
    #[inline]
    pub fn few<'g>(&'g self, guard: &'g Guard) -> Option<&'g Few> {
        self.few.load(guard)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Filter>>, order::Classifier> {
        self.change.lock()
    }

    /// Takes note of a filter that is no longer in its table, and of one that is now.
    pub fn changed(&self, old: Option<&Arc<Filter>>, new: Option<&Arc<Filter>>, guard: &Guard) {
        if self.many.load(Relaxed) {
            return;
        }
        let mut few = self.lock();
        if self.many.load(Relaxed) {
            return;
        }
        few.retain(|other| old.is_none_or(|old| !Arc::ptr_eq(other, old)));
        // A request that deletes the filter marks it first, and comes here later.
        if let Some(new) = new.filter(|new| !new.is_deleted()) {
            let same = |other: &Filter| Arc::ptr_eq(other.under(), new.under());
            few.retain(|other| !same(other) || !same_key(other, new));
            few.push(new.clone());
        }
        if few.len() > FEW {
            self.many.store(true, Relaxed);
            few.clear();
            self.few.replace(None);
            return;
        }
        let list = self.list.load(guard);
        let place = |filter: &Arc<Filter>| {
            let mut masks = list.masks.iter();
            masks.position(|entry| Arc::ptr_eq(&entry.under, filter.under()))
        };
        few.sort_by_key(place);
        self.few.replace(Few::of(&few, list.used));
    }

    /// Returns the mask with the bits of `key`, created if necessary, with a reference
    /// (`fl_check_assign_mask`). If `old` is given, it must be that mask. `near` is the result of
    /// [`near`](Self::near).
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
        let mut masks = self.list.load(guard).masks();
        masks.push(under.clone());
        self.list.replace(List::new(masks));
        // Other requests find the mask by its key, without the lock: packets must see their filters by then.
        self.by_key.insert(*key, under.clone(), guard);
        Ok(under)
    }

    /// Removes all masks with all filters from the data path at once. No more filters are inserted,
    /// but requests that found a filter earlier may still remove it.
    pub fn clear(&self, guard: &Guard) {
        let mut few = self.lock();
        self.many.store(true, Relaxed);
        few.clear();
        self.few.replace(None);
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

    /// Returns the mask with the bits of `key` if it is one of the first few. Comparing a few masks
    /// is faster than hashing a key.
    pub fn near<'g>(&'g self, key: &Key, guard: &'g Guard) -> Option<&'g Arc<UnderMask>> {
        let few = self.list.load(guard).masks.iter().take(NEAR);
        few.map(|entry| &entry.under)
            .find(|under| under.mask.key.is(key))
    }

    /// Drops a reference to a mask (`fl_mask_put`). The last reference removes the mask.
    pub fn put(&self, under: &Arc<UnderMask>, guard: &Guard) {
        if under.refs.fetch_sub(1, AcqRel) != 1 {
            return;
        }
        let _lock = self.lock();
        self.by_key
            .remove_if(&under.mask.key, guard, |other| Arc::ptr_eq(other, under));
        let mut masks = self.list.load(guard).masks();
        masks.retain(|other| !Arc::ptr_eq(other, under));
        if masks.is_empty() {
            // No request has a filter, because each holds its mask.
            self.many.store(false, Relaxed);
        }
        self.list.replace(List::new(masks));
    }
}
