// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of connections.
//!
//! An entry is one cache line with all that a packet of UDP or ICMP over IPv4 needs. The windows of a TCP connection,
//! IPv6 addresses, labels, counters and times lie in arrays beside it. All are mapped for 65,536 entries at a time,
//! and the kernel provides a page of them when it is first written. So a table costs memory for the connections that
//! there have been at once, and an array that nobody uses costs nothing.
//!
//! Entries are used again at once, as with `SLAB_TYPESAFE_BY_RCU`: a reader may look at an entry that has just become
//! another connection. The generation, which changes at each removal, and the index's sequence locks tell it.
#![allow(unsafe_code)] // structures of atomics in zeroed memory

use std::sync::OnceLock;

use weir_map::{Words, Zero};
use weir_sync::percpu::PerCpu;
use weir_sync::primitive::Backoff;
use weir_sync::primitive::atomic::{AtomicU32, AtomicU64, Ordering::*};
use weir_sync::spin::SpinLock;

use crate::key::Words3;
use crate::tuple::{Direction, Family, Tuple, Zone};

/// The entries of a segment.
const SEGMENT: usize = 1 << 16;
/// The largest number of segments.
const SEGMENTS: usize = 1 << 11;
/// The number of free entries that a CPU and the depot exchange at a time.
const BATCH: usize = 64;

/// An entry; see the module documentation.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct Entry {
    pub(crate) generation: AtomicU32,
    /// Guards the protocol's state.
    lock: AtomicU32,
    /// When the connection expires, in ticks.
    pub(crate) deadline: AtomicU32,
    /// `IPS_*`; 0 while the entry is free.
    pub(crate) status: AtomicU32,
    pub(crate) mark: AtomicU32,
    /// The zone, its directions, and bits that say which other arrays are used.
    zone: AtomicU32,
    /// The protocol and the family.
    kind: AtomicU32,
    /// The words of both directions' tuples.
    tuples: [[AtomicU32; 3]; 2],
    /// State of the protocol.
    pub(crate) state: [AtomicU32; 3],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Entry>() == 64);

/// Bit of `zone`: the connection has labels.
const LABELS: u32 = 1 << 24;
/// Bit of `zone`: the connection's packets are counted.
const COUNTED: u32 = 1 << 25;
/// Bit of `zone`: the connection's times are kept.
const TIMED: u32 = 1 << 26;

/// The windows of a TCP connection.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Windows(pub(crate) [AtomicU32; 11]);

/// The IPv6 addresses of both tuples.
#[derive(Default)]
#[repr(C)]
struct Addresses([AtomicU64; 8]);

#[derive(Default)]
#[repr(C)]
struct Labels([AtomicU64; 2]);

/// Packets and bytes of each direction, and the time at which the connection began.
#[derive(Default)]
#[repr(C)]
struct Account {
    counts: [[AtomicU64; 2]; 2],
    started: AtomicU64,
}

// SAFETY: each consists of atomic integers, and zero is a value of each.
unsafe impl Zero for Entry {}
// SAFETY: as above.
unsafe impl Zero for Windows {}
// SAFETY: as above.
unsafe impl Zero for Addresses {}
// SAFETY: as above.
unsafe impl Zero for Labels {}
// SAFETY: as above.
unsafe impl Zero for Account {}

struct Segment {
    entries: Words<Entry>,
    windows: Words<Windows>,
    addresses: Words<Addresses>,
    labels: Words<Labels>,
    accounts: Words<Account>,
    /// A bit for each entry that may be removed early.
    embryonic: Words<AtomicU64>,
}

impl Segment {
    fn new() -> Option<Self> {
        Some(Self {
            entries: Words::new(SEGMENT).ok()?,
            windows: Words::new(SEGMENT).ok()?,
            addresses: Words::new(SEGMENT).ok()?,
            labels: Words::new(SEGMENT).ok()?,
            accounts: Words::new(SEGMENT).ok()?,
            embryonic: Words::new(SEGMENT / 64).ok()?,
        })
    }
}

#[derive(Default)]
struct Depot {
    free: Vec<u32>,
    next: u32,
}

/// The memory of connections; see the module documentation.
pub(crate) struct Store {
    segments: Box<[OnceLock<Segment>]>,
    /// Free entries of a CPU.
    magazines: PerCpu<SpinLock<Vec<u32>>>,
    /// The free entries of no CPU, and the first that was never used.
    depot: SpinLock<Depot>,
    /// The first entry that was never used; for readers.
    used: AtomicU32,
}

/// A reference to an entry and its arrays.
#[derive(Clone, Copy)]
pub(crate) struct Slot<'a> {
    segment: &'a Segment,
    pub(crate) entry: &'a Entry,
    pub(crate) index: u32,
}

impl Store {
    pub(crate) fn new() -> Self {
        Self {
            segments: (0..SEGMENTS).map(|_| OnceLock::new()).collect(),
            magazines: PerCpu::new(),
            depot: SpinLock::new(Depot::default()),
            used: AtomicU32::new(0),
        }
    }

    /// Returns an entry that was used at least once.
    #[inline(always)]
    pub(crate) fn slot(&self, index: u32) -> Option<Slot<'_>> {
        let at = index as usize;
        let segment = self.segments.get(at / SEGMENT)?.get()?;
        Some(Slot {
            segment,
            entry: segment.entries.at(at % SEGMENT),
            index,
        })
    }

    /// Returns the first index that was never used.
    pub(crate) fn used(&self) -> u32 {
        self.used.load(Acquire)
    }

    /// Takes a free entry. Returns `None` without memory.
    pub(crate) fn take(&self) -> Option<u32> {
        let mut magazine = self.magazines.local().lock();
        if let Some(index) = magazine.pop() {
            return Some(index);
        }
        let mut depot = self.depot.lock();
        let keep = depot.free.len().saturating_sub(BATCH);
        magazine.extend(depot.free.drain(keep..));
        if magazine.is_empty() {
            let first = depot.next;
            let segment = self.segments.get(first as usize / SEGMENT)?;
            if segment.get().is_none() {
                let _ = segment.set(Segment::new()?);
            }
            depot.next = first + BATCH as u32;
            self.used.store(depot.next, Release);
            // The lowest is used first.
            magazine.extend((first..depot.next).rev());
        }
        magazine.pop()
    }

    /// Returns an entry that the caller has made free.
    pub(crate) fn give(&self, index: u32) {
        let mut magazine = self.magazines.local().lock();
        magazine.push(index);
        if magazine.len() > 2 * BATCH {
            self.depot.lock().free.extend(magazine.drain(..BATCH));
        }
    }

    /// Finds a connection that may be removed early, from the entry `from` on, in at most `words` words of 64
    /// entries each. Returns the entry, if there is one, and the entry to go on with.
    pub(crate) fn embryo(&self, from: u32, words: usize) -> (Option<u32>, u32) {
        let used = self.used();
        if used == 0 {
            return (None, 0);
        }
        let mut at = from % used;
        for _ in 0..words {
            let Some(slot) = self.slot(at) else { break };
            let word = slot.segment.embryonic.at(at as usize % SEGMENT / 64);
            let bits = word.load(Relaxed) >> (at % 64);
            if bits != 0 {
                let found = at + bits.trailing_zeros();
                return (Some(found), found + 1);
            }
            at = (at | 63) + 1;
            if at >= used {
                at = 0;
            }
        }
        (None, at)
    }
}

/// The lock of an entry's protocol state.
pub(crate) struct Locked<'a>(&'a AtomicU32);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.store(0, Release);
    }
}

/// The address words of a tuple.
fn halves(octets: &[u8; 16]) -> [u64; 2] {
    let word = u128::from_be_bytes(*octets);
    [(word >> 64) as u64, word as u64]
}

fn joined(words: [u64; 2]) -> [u8; 16] {
    (u128::from(words[0]) << 64 | u128::from(words[1])).to_be_bytes()
}

impl<'a> Slot<'a> {
    #[inline(always)]
    fn at(&self) -> usize {
        self.index as usize % SEGMENT
    }

    /// Locks the protocol's state.
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'a> {
        let lock = &self.entry.lock;
        let mut backoff = Backoff::new();
        while lock.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            backoff.spin();
        }
        Locked(lock)
    }

    #[inline(always)]
    pub(crate) fn windows(&self) -> &'a Windows {
        self.segment.windows.at(self.at())
    }

    /// Writes the key of a connection that is not in the index yet.
    pub(crate) fn set_key(&self, tuples: [(&Tuple, Words3); 2], zone: Zone) {
        let entry = self.entry;
        let family = tuples[0].0.family;
        let kind = u32::from(tuples[0].0.protocol) | (family as u32) << 8;
        entry.kind.store(kind, Relaxed);
        let zone = u32::from(zone.id) | u32::from(zone.directions) << 16;
        entry.zone.store(zone, Relaxed);
        for (to, (_, words)) in entry.tuples.iter().zip(tuples) {
            for (to, word) in to.iter().zip(words) {
                to.store(word, Relaxed);
            }
        }
        if family == Family::V6 {
            let addresses = &self.segment.addresses.at(self.at()).0;
            let all = tuples.iter().flat_map(|(tuple, _)| {
                let (src, dst) = (halves(&tuple.src), halves(&tuple.dst));
                [src[0], src[1], dst[0], dst[1]]
            });
            for (to, word) in addresses.iter().zip(all) {
                to.store(word, Relaxed);
            }
        }
    }

    #[inline(always)]
    pub(crate) fn zone(&self) -> Zone {
        let zone = self.entry.zone.load(Relaxed);
        Zone {
            id: zone as u16,
            directions: (zone >> 16) as u8,
        }
    }

    #[inline(always)]
    pub(crate) fn protocol(&self) -> u8 {
        self.entry.kind.load(Relaxed) as u8
    }

    #[inline(always)]
    pub(crate) fn family(&self) -> Family {
        if self.entry.kind.load(Relaxed) >> 8 == Family::V6 as u32 {
            Family::V6
        } else {
            Family::V4
        }
    }

    #[inline(always)]
    pub(crate) fn words(&self, direction: Direction) -> Words3 {
        let words = &self.entry.tuples[direction as usize];
        [0, 1, 2].map(|at: usize| words[at].load(Relaxed))
    }

    /// Zone, protocol and family as in [`crate::key::meta`].
    #[inline(always)]
    pub(crate) fn meta(&self, direction: Direction) -> u32 {
        let kind = self.entry.kind.load(Relaxed);
        u32::from(self.zone().of(direction)) | kind << 16
    }

    pub(crate) fn tuple(&self, direction: Direction) -> Tuple {
        let [src, dst, ports] = self.words(direction);
        let (src_port, dst_port) = ((ports >> 16) as u16, ports as u16);
        let protocol = self.protocol();
        match self.family() {
            Family::V4 => Tuple::v4(
                src.to_be_bytes(),
                dst.to_be_bytes(),
                src_port,
                dst_port,
                protocol,
            ),
            Family::V6 => {
                let words = &self.segment.addresses.at(self.at()).0;
                let at = 4 * direction as usize;
                let word = |n: usize| words[at + n].load(Relaxed);
                let (src, dst) = (joined([word(0), word(1)]), joined([word(2), word(3)]));
                Tuple::v6(src, dst, src_port, dst_port, protocol)
            }
        }
    }

    /// Returns whether the direction's key is `key`.
    #[inline(always)]
    pub(crate) fn has(&self, direction: Direction, key: &crate::key::Key) -> bool {
        self.words(direction) == key.words
            && self.meta(direction) == key.meta
            && (key.tuple.family == Family::V4 || self.tuple(direction) == key.tuple)
    }

    /// Marks the entry as one that may be removed early, or not.
    pub(crate) fn set_embryonic(&self, embryonic: bool) {
        let word = self.segment.embryonic.at(self.at() / 64);
        let bit = 1 << (self.index % 64);
        if embryonic {
            word.fetch_or(bit, Relaxed);
        } else if word.load(Relaxed) & bit != 0 {
            word.fetch_and(!bit, Relaxed);
        }
    }

    pub(crate) fn labels(&self) -> Option<[u8; 16]> {
        if self.entry.zone.load(Acquire) & LABELS == 0 {
            return None;
        }
        let words = &self.segment.labels.at(self.at()).0;
        Some(joined([words[0].load(Relaxed), words[1].load(Relaxed)]))
    }

    /// Sets the labels. The caller holds the lock.
    pub(crate) fn set_labels(&self, labels: &[u8; 16]) {
        let words = &self.segment.labels.at(self.at()).0;
        for (to, word) in words.iter().zip(halves(labels)) {
            to.store(word, Relaxed);
        }
        self.entry.zone.fetch_or(LABELS, Release);
    }

    /// Begins to count packets.
    pub(crate) fn start_counts(&self) {
        self.zero_counts();
        self.entry.zone.fetch_or(COUNTED, Release);
    }

    pub(crate) fn zero_counts(&self) {
        for counter in self.segment.accounts.at(self.at()).counts.iter().flatten() {
            counter.store(0, Relaxed);
        }
    }

    /// Counts a packet, if packets are counted.
    #[inline]
    pub(crate) fn count(&self, direction: Direction, packets: u64, bytes: u64) {
        if self.entry.zone.load(Relaxed) & COUNTED != 0 {
            let counts = &self.segment.accounts.at(self.at()).counts[direction as usize];
            counts[0].fetch_add(packets, Relaxed);
            counts[1].fetch_add(bytes, Relaxed);
        }
    }

    pub(crate) fn counts(&self) -> Option<[[u64; 2]; 2]> {
        if self.entry.zone.load(Acquire) & COUNTED == 0 {
            return None;
        }
        let counts = &self.segment.accounts.at(self.at()).counts;
        Some([0, 1].map(|d: usize| [0, 1].map(|at: usize| counts[d][at].load(Relaxed))))
    }

    pub(crate) fn start_time(&self, now: u64) {
        self.segment
            .accounts
            .at(self.at())
            .started
            .store(now, Relaxed);
        self.entry.zone.fetch_or(TIMED, Release);
    }

    pub(crate) fn started(&self) -> Option<u64> {
        let timed = self.entry.zone.load(Acquire) & TIMED != 0;
        timed.then(|| self.segment.accounts.at(self.at()).started.load(Relaxed))
    }
}
