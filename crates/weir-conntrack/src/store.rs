// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of connections.
//!
//! An entry is half a cache line with what every packet needs: generation, status, deadline, mark, zone, and the
//! original tuple of an IPv4 connection. The tuple of replies follows from it unless the connection is translated. All
//! else lies in arrays beside it: the state of TCP, the start of UDP streams, the tuples of translated replies, IPv6
//! addresses, labels, counters and times. The arrays are mapped for 262,144 entries at a time, and the kernel provides a
//! page of them when it is first written. So a table costs memory for the connections that there have been at once, and
//! an array that nobody uses costs nothing.
//!
//! Entries are used again at once, as with `SLAB_TYPESAFE_BY_RCU`: a reader may look at an entry that has just become
//! another connection. The generation, which changes at each removal, and the index's sequence locks tell it. The
//! highest bit of the status is a lock. Its holder alone changes the status, and only under it an entry begins and ends:
//! whoever finds the expected generation under the lock keeps the connection until it unlocks.
#![allow(unsafe_code)] // structures of atomics in zeroed memory

use std::sync::OnceLock;

use weir_map::{Words, Zero};
use weir_sync::percpu::PerCpu;
use weir_sync::primitive::atomic::{AtomicU32, AtomicU64, Ordering::*};
use weir_sync::primitive::{Backoff, prefetch};
use weir_sync::spin::SpinLock;

use crate::key::{IPV6, Key, Words as KeyWords, meta};
use crate::tuple::{Direction, Family, Tuple, Zone, invert_ports};

/// The entries of a segment.
const SEGMENT: usize = if cfg!(loom) { 4 } else { 1 << 18 };
/// The largest number of segments.
const SEGMENTS: usize = if cfg!(loom) { 1 } else { 1 << 9 };
/// The number of free entries that a CPU and the depot exchange at a time.
const BATCH: usize = if cfg!(loom) { 2 } else { 64 };

/// Bit of a number in the index: the key is that of the reply direction.
pub(crate) const REPLY: u32 = 1 << 31;

/// The direction of the key that a number of the index stands for.
#[inline(always)]
pub(crate) fn direction_of(number: u32) -> Direction {
    if number & REPLY == 0 {
        Direction::Original
    } else {
        Direction::Reply
    }
}

/// An entry; see the module documentation.
#[derive(Default)]
#[repr(C, align(32))]
pub(crate) struct Entry {
    pub(crate) generation: AtomicU32,
    /// `IPS_*` and [`LOCK`]; no `IPS_*` while the entry is free.
    status: AtomicU32,
    /// When the connection expires, in ticks.
    pub(crate) deadline: AtomicU32,
    pub(crate) mark: AtomicU32,
    /// The addresses of the original tuple, and its ports, as in [`KeyWords`].
    addresses: AtomicU64,
    ports: AtomicU32,
    /// Zone, protocol and family as in [`meta`], the directions outside of the zone, and bits that say which other
    /// arrays are used.
    zone: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Entry>() == 32);

/// Bit of `status`: the entry is locked.
const LOCK: u32 = 1 << 31;

/// The bits of `zone` that are [`meta`].
const META: u32 = (1 << 25) - 1;
/// The lowest bit of `zone` for a direction whose key is in zone 0.
const OUTSIDE: u32 = 25;
/// Bit of `zone`: the connection has labels.
const LABELS: u32 = 1 << 27;
/// Bit of `zone`: the connection's packets are counted.
const COUNTED: u32 = 1 << 28;
/// Bit of `zone`: the connection's times are kept.
const TIMED: u32 = 1 << 29;
/// Bit of `zone`: the tuple of replies is stored, since it is not the inverse of the original one.
const TRANSLATED: u32 = 1 << 30;
/// Bit of `zone`: the ports of replies are not the swapped ones of the original tuple (ICMP).
const ANSWERED: u32 = 1 << 31;
/// The bits of `zone` that are compared with a key's [`meta`] at once. All but those of `META` are rare.
const PLAIN: u32 = META | 3 << OUTSIDE | TRANSLATED | ANSWERED;

/// The state of a TCP connection; see `tcp.rs`.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Windows(pub(crate) [AtomicU32; 13]);

/// The words of a translated connection's reply tuple: source, destination and ports.
#[derive(Default)]
#[repr(C)]
struct Reply([AtomicU32; 3]);

/// The IPv6 addresses of a tuple.
#[derive(Default)]
#[repr(C)]
struct Addresses([AtomicU64; 4]);

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
unsafe impl Zero for Reply {}
// SAFETY: as above.
unsafe impl Zero for Addresses {}
// SAFETY: as above.
unsafe impl Zero for Labels {}
// SAFETY: as above.
unsafe impl Zero for Account {}

/// What lies beside the entries of a segment.
struct Segment {
    windows: Words<Windows>,
    /// When a UDP connection with packets in both directions becomes a stream, in ticks.
    streams: Words<AtomicU32>,
    replies: Words<Reply>,
    /// The addresses of both directions' tuples.
    addresses: [Words<Addresses>; 2],
    labels: Words<Labels>,
    accounts: Words<Account>,
    /// A bit for each entry that may be removed early.
    embryonic: Words<AtomicU64>,
}

impl Segment {
    fn new() -> Option<Self> {
        Some(Self {
            windows: Words::new(SEGMENT).ok()?,
            streams: Words::new(SEGMENT).ok()?,
            replies: Words::new(SEGMENT).ok()?,
            addresses: [Words::new(SEGMENT).ok()?, Words::new(SEGMENT).ok()?],
            labels: Words::new(SEGMENT).ok()?,
            accounts: Words::new(SEGMENT).ok()?,
            embryonic: Words::new(SEGMENT.div_ceil(64)).ok()?,
        })
    }
}

#[derive(Default)]
struct Depot {
    free: Vec<u32>,
    next: u32,
}

impl Entry {
    /// Returns whether the entry is of a connection without peculiarities, and a number of the index stands for the
    /// words of a key. Of an IPv6 connection these are hashes.
    #[inline(always)]
    pub(crate) fn has_plain(&self, number: u32, key: KeyWords) -> bool {
        let reply = number >> 31;
        let addresses = self.addresses.load(Relaxed).rotate_left(32 * reply);
        let ports = self.ports.load(Relaxed).rotate_left(16 * reply);
        let others = (ports ^ key.ports) | (self.zone.load(Relaxed) & PLAIN ^ key.meta);
        (addresses ^ key.addresses) | u64::from(others) == 0
    }
}

/// The memory of connections; see the module documentation.
pub(crate) struct Store {
    /// The entries by segment. They are apart from the other arrays because a look-up needs nothing else: the places of
    /// ten million entries lie on few cache lines.
    entries: Box<[OnceLock<Words<Entry>>]>,
    /// The other arrays, which are mapped before the entries.
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
    store: &'a Store,
    pub(crate) entry: &'a Entry,
    pub(crate) index: u32,
}

impl Store {
    pub(crate) fn new() -> Self {
        Self {
            entries: (0..SEGMENTS).map(|_| OnceLock::new()).collect(),
            segments: (0..SEGMENTS).map(|_| OnceLock::new()).collect(),
            magazines: PerCpu::new(),
            depot: SpinLock::new(Depot::default()),
            used: AtomicU32::new(0),
        }
    }

    /// Returns an entry that was used at least once.
    #[inline(always)]
    pub(crate) fn slot(&self, index: u32) -> Option<Slot<'_>> {
        Some(Slot {
            store: self,
            entry: self.entry(index)?,
            index,
        })
    }

    /// Returns the same without its arrays.
    #[inline(always)]
    pub(crate) fn entry(&self, index: u32) -> Option<&Entry> {
        let at = index as usize;
        let entries = self.entries.get(at / SEGMENT)?.get()?;
        Some(entries.at(at % SEGMENT))
    }

    #[inline(always)]
    fn segment(&self, index: u32) -> Option<&Segment> {
        self.segments.get(index as usize / SEGMENT)?.get()
    }

    /// Prefetches the windows of an entry.
    #[inline]
    pub(crate) fn prefetch_windows(&self, index: u32) {
        if let Some(segment) = self.segment(index) {
            // They may lie on two lines.
            let [first, .., last] = &segment.windows.at(index as usize % SEGMENT).0;
            prefetch(std::ptr::from_ref(first));
            prefetch(std::ptr::from_ref(last));
        }
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
            let number = first as usize / SEGMENT;
            let (segment, entries) = (self.segments.get(number)?, self.entries.get(number)?);
            if segment.get().is_none() {
                let _ = segment.set(Segment::new()?);
            }
            if entries.get().is_none() {
                let _ = entries.set(Words::new(SEGMENT).ok()?);
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
            let word = slot.segment().embryonic.at(at as usize % SEGMENT / 64);
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

/// The lock of an entry. Its holder alone changes the status, and may change the state of the protocol.
pub(crate) struct Locked<'a>(&'a AtomicU32);

impl Locked<'_> {
    /// Replaces the status.
    pub(crate) fn set_status(&self, status: u32) {
        self.0.store(status | LOCK, Relaxed);
    }

    /// Sets bits of the status. Returns whether all of them were clear.
    pub(crate) fn add_status(&self, bits: u32) -> bool {
        let old = self.0.load(Relaxed);
        self.0.store(old | bits, Relaxed);
        old & bits == 0
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        // Nobody else writes while the bit is set.
        self.0.store(self.0.load(Relaxed) & !LOCK, Release);
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
    fn segment(&self) -> &'a Segment {
        (self.store.segment(self.index))
            .expect("the arrays of a segment are mapped before its entries")
    }

    #[inline(always)]
    fn at(&self) -> usize {
        self.index as usize % SEGMENT
    }

    /// Locks the entry.
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'a> {
        let status = &self.entry.status;
        let mut backoff = Backoff::new();
        loop {
            let now = status.load(Relaxed);
            let free = now & LOCK == 0;
            if free && (status.compare_exchange_weak(now, now | LOCK, Acquire, Relaxed)).is_ok() {
                return Locked(status);
            }
            backoff.spin();
        }
    }

    /// Returns `IPS_*`; 0 while the entry is free.
    #[inline(always)]
    pub(crate) fn status(&self) -> u32 {
        self.entry.status.load(Acquire) & !LOCK
    }

    #[inline(always)]
    pub(crate) fn windows(&self) -> &'a Windows {
        self.segment().windows.at(self.at())
    }

    /// Returns when the UDP connection becomes a stream, in ticks.
    #[inline(always)]
    pub(crate) fn stream(&self) -> &'a AtomicU32 {
        self.segment().streams.at(self.at())
    }

    /// Writes the key of a connection that is not in the index yet. The caller holds the lock.
    pub(crate) fn set_key(&self, tuples: [(&Tuple, KeyWords); 2], zone: Zone) {
        let entry = self.entry;
        let [(original, words), (reply, reply_words)] = tuples;
        let translated = original.invert().as_ref() != Some(reply);
        let outside = u32::from(!zone.directions & Zone::BOTH) << OUTSIDE;
        let kind = meta(zone.id, original.protocol, original.family);
        let mut bits = if translated { TRANSLATED } else { 0 };
        if original.is_icmp() {
            bits |= ANSWERED;
        }
        entry.zone.store(kind | outside | bits, Relaxed);
        entry.addresses.store(words.addresses, Relaxed);
        entry.ports.store(words.ports, Relaxed);
        if translated {
            let [src, dst, ports] = &self.segment().replies.at(self.at()).0;
            src.store(reply_words.addresses as u32, Relaxed);
            dst.store((reply_words.addresses >> 32) as u32, Relaxed);
            ports.store(reply_words.ports, Relaxed);
        }
        if original.family == Family::V6 {
            self.set_addresses(Direction::Original, original);
            if translated {
                self.set_addresses(Direction::Reply, reply);
            }
        }
    }

    fn set_addresses(&self, direction: Direction, tuple: &Tuple) {
        let ([a, b], [c, d]) = (halves(&tuple.src), halves(&tuple.dst));
        let addresses = &self.segment().addresses[direction as usize].at(self.at()).0;
        for (to, word) in addresses.iter().zip([a, b, c, d]) {
            to.store(word, Relaxed);
        }
    }

    #[inline(always)]
    pub(crate) fn zone(&self) -> Zone {
        let zone = self.entry.zone.load(Relaxed);
        Zone {
            id: zone as u16,
            directions: !(zone >> OUTSIDE) as u8 & Zone::BOTH,
        }
    }

    #[inline(always)]
    pub(crate) fn protocol(&self) -> u8 {
        (self.entry.zone.load(Relaxed) >> 16) as u8
    }

    #[inline(always)]
    pub(crate) fn family(&self) -> Family {
        if self.entry.zone.load(Relaxed) & IPV6 != 0 {
            Family::V6
        } else {
            Family::V4
        }
    }

    /// Returns a direction's key.
    #[inline(always)]
    pub(crate) fn words(&self, direction: Direction) -> KeyWords {
        let zone = self.entry.zone.load(Relaxed);
        let outside = zone & (1 << OUTSIDE << direction as u32) != 0;
        let original = KeyWords {
            addresses: self.entry.addresses.load(Relaxed),
            ports: self.entry.ports.load(Relaxed),
            meta: zone & META & if outside { !0xffff } else { !0 },
        };
        if direction == Direction::Original {
            return original;
        }
        if zone & TRANSLATED != 0 {
            let [src, dst, ports] = &self.segment().replies.at(self.at()).0;
            return KeyWords {
                addresses: u64::from(src.load(Relaxed)) | u64::from(dst.load(Relaxed)) << 32,
                ports: ports.load(Relaxed),
                ..original
            };
        }
        let mut ports = original.ports.rotate_left(16);
        if zone & ANSWERED != 0 {
            // A tuple without an inverse has its replies stored.
            let answer = invert_ports(ports, self.protocol(), self.family());
            ports = answer.unwrap_or_default().rotate_left(16);
        }
        KeyWords {
            addresses: original.addresses.rotate_left(32),
            ports,
            ..original
        }
    }

    pub(crate) fn tuple(&self, direction: Direction) -> Tuple {
        let KeyWords {
            addresses, ports, ..
        } = self.words(direction);
        let (src_port, dst_port) = (ports as u16, (ports >> 16) as u16);
        let protocol = self.protocol();
        match self.family() {
            Family::V4 => Tuple::v4(
                (addresses as u32).to_ne_bytes(),
                ((addresses >> 32) as u32).to_ne_bytes(),
                src_port,
                dst_port,
                protocol,
            ),
            Family::V6 => {
                let derived = direction == Direction::Reply
                    && self.entry.zone.load(Relaxed) & TRANSLATED == 0;
                let stored = if derived {
                    Direction::Original
                } else {
                    direction
                };
                let words = &self.segment().addresses[stored as usize].at(self.at()).0;
                let word = |n: usize| words[n].load(Relaxed);
                let (src, dst) = (joined([word(0), word(1)]), joined([word(2), word(3)]));
                let (src, dst) = if derived { (dst, src) } else { (src, dst) };
                Tuple::v6(src, dst, src_port, dst_port, protocol)
            }
        }
    }

    /// Returns whether `key` is what a number of the index stands for.
    #[inline(always)]
    pub(crate) fn has(&self, number: u32, key: &Key<'_>) -> bool {
        self.entry.has_plain(number, key.words) && key.words.meta & IPV6 == 0
            || self.has_any(direction_of(number), key)
    }

    fn has_any(&self, direction: Direction, key: &Key<'_>) -> bool {
        self.words(direction) == key.words
            && (key.tuple.family == Family::V4 || self.tuple(direction) == *key.tuple)
    }

    /// Marks the entry as one that may be removed early, or not.
    pub(crate) fn set_embryonic(&self, embryonic: bool) {
        let word = self.segment().embryonic.at(self.at() / 64);
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
        let words = &self.segment().labels.at(self.at()).0;
        Some(joined([words[0].load(Relaxed), words[1].load(Relaxed)]))
    }

    /// Sets the labels. The caller holds the lock.
    pub(crate) fn set_labels(&self, labels: &[u8; 16]) {
        let words = &self.segment().labels.at(self.at()).0;
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
        for counter in self
            .segment()
            .accounts
            .at(self.at())
            .counts
            .iter()
            .flatten()
        {
            counter.store(0, Relaxed);
        }
    }

    /// Counts a packet, if packets are counted.
    #[inline]
    pub(crate) fn count(&self, direction: Direction, packets: u64, bytes: u64) {
        if self.entry.zone.load(Relaxed) & COUNTED != 0 {
            let counts = &self.segment().accounts.at(self.at()).counts[direction as usize];
            counts[0].fetch_add(packets, Relaxed);
            counts[1].fetch_add(bytes, Relaxed);
        }
    }

    pub(crate) fn counts(&self) -> Option<[[u64; 2]; 2]> {
        if self.entry.zone.load(Acquire) & COUNTED == 0 {
            return None;
        }
        let counts = &self.segment().accounts.at(self.at()).counts;
        Some([0, 1].map(|d: usize| [0, 1].map(|at: usize| counts[d][at].load(Relaxed))))
    }

    pub(crate) fn start_time(&self, now: u64) {
        self.segment()
            .accounts
            .at(self.at())
            .started
            .store(now, Relaxed);
        self.entry.zone.fetch_or(TIMED, Release);
    }

    pub(crate) fn started(&self) -> Option<u64> {
        let timed = self.entry.zone.load(Acquire) & TIMED != 0;
        timed.then(|| self.segment().accounts.at(self.at()).started.load(Relaxed))
    }
}
