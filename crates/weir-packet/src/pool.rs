// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packet memory: `Pool` (shared) and `Cache` (one CPU's magazine in front of it).
//!
//! ```text
//! Cache (per CPU) magazine of up to 512 free frames; no lock, no atomics
//!    │  refill and flush, 256 at a time, under the lock
//! depot           arrays of free frames by class, and the arena that provides new ones
//!    ▲  taken as a whole when the depot runs short
//! returned        lock-free stack: packets dropped where no Cache is available
//! ```
//! A packet may be dropped anywhere, on any thread; it goes to `returned` with one
//! compare-and-swap. A stage that frees many packets passes them to [`Cache::free_bulk`] instead,
//! which only copies pointers.
//!
//! The memory lives as long as any `Pool`, `Cache` or `Packet` of it. [`PoolConfig::limit`] is the
//! budget; past it `alloc` returns `None`. Frames in the magazines of other CPUs do not count as
//! free.
//!
//! The last owner is found without a counter on the fast path; see `returned`.
//!
//! Locks: only the depot's spinlock.
#![allow(unsafe_code)] // raw records, and the pool's own lifetime

use crate::arena::{Arena, Class, FRAME, PAGE, RECORD};
use crate::batch::{Batch, give_back_batch};
use crate::buffers::{Buffers, shift};
use crate::depot::{Depot, Shared, free_shared};
use crate::packet::Packet;
use crate::record::{self, FRAME_DATA, JUMBO_DATA, Record, class_of};
use crate::returned::Returned;
use std::ptr::NonNull;
use weir_sync::primitive::atomic::{AtomicU64, AtomicUsize, Ordering};
use weir_sync::primitive::{CachePadded, prefetch_to_write};
use weir_sync::spin::{LockStats, SpinLock};

/// The maximum number of frames in a magazine.
const MAGAZINE: usize = 512;
/// The number of frames moved between a magazine and the depot at once.
const MOVE: usize = MAGAZINE / 2;

/// The configuration of a pool.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// The maximum size of the packet memory in bytes, rounded up to 2 MiB. Default: 256 MiB.
    pub limit: usize,
    /// Bytes to make usable at once, rounded up to 2 MiB. Default: 0, on demand.
    pub prealloc: usize,
    /// Whether to use huge pages where the machine provides them. Default: true.
    pub huge_pages: bool,
}

impl Default for PoolConfig {
    fn default() -> PoolConfig {
        PoolConfig {
            limit: 256 << 20,
            prealloc: 0,
            huge_pages: true,
        }
    }
}

/// A snapshot of a pool's memory usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes made usable.
    pub committed: usize,
    /// Bytes allowed.
    pub limit: usize,
    /// Existing frames of 2048 bytes.
    pub frames: usize,
    /// Frames of 2048 bytes that are free in the depot, not counting magazines.
    pub frames_free: usize,
    /// Existing jumbo frames.
    pub jumbos: usize,
    /// Jumbo frames that are free in the depot.
    pub jumbos_free: usize,
    /// Allocations refused because the budget was spent.
    pub refused: u64,
    /// The counters of the depot's lock.
    pub lock: LockStats,
}

/// A shared handle of packet memory. Cloning it is cheap.
pub struct Pool(NonNull<Shared>);

// SAFETY: `Shared` consists of atomics and a lock.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// Creates a pool. Reserves address space for the limit and takes memory on demand. If address
    /// space is short, the limit is halved until it fits; [`Stats::limit`] reports the result.
    pub fn new(config: PoolConfig) -> Pool {
        let mut pages = config.limit.div_ceil(PAGE).max(1);
        let arena = loop {
            match Arena::reserve(pages, config.huge_pages) {
                Ok(arena) => break arena,
                Err(_) => pages /= 2,
            }
        };
        let shared = NonNull::from(Box::leak(Box::new(Shared {
            returned: CachePadded(Returned::new()),
            handles: AtomicUsize::new(1),
            refused: AtomicU64::new(0),
            base: arena.base().addr().get(),
            bytes: arena.pages() * PAGE,
            start: arena.base(),
            committed: AtomicUsize::new(0),
            depot: CachePadded(SpinLock::new(Depot {
                arena,
                shared: std::ptr::null(),
                free: [Vec::new(), Vec::new()],
                total: [0; 2],
                closed: false,
            })),
        })));
        let pool = Pool(shared);
        {
            let mut depot = pool.shared().depot.lock();
            depot.shared = shared.as_ptr();
            for _ in 0..config.prealloc.div_ceil(PAGE) {
                if !depot.grow(Class::Frame) {
                    break;
                }
            }
        }
        pool
    }

    #[inline]
    fn shared(&self) -> &Shared {
        // SAFETY: a handle keeps the pool alive.
        unsafe { self.0.as_ref() }
    }

    /// Allocates a packet of `len` bytes (of unspecified content) with a headroom of 256 bytes and
    /// all metadata initialised. Returns `None` if `len` exceeds a jumbo frame or the budget is
    /// spent.
    pub fn alloc(&self, len: usize) -> Option<Packet> {
        let class = class_for(len)?;
        let record = self.shared().take(class)?;
        // SAFETY: the pool returned sole ownership of the record.
        Some(unsafe { Packet::init(record) }.with_len(len))
    }

    /// Allocates a packet with these bytes.
    pub fn packet(&self, bytes: &[u8]) -> Option<Packet> {
        let mut packet = self.alloc(bytes.len())?;
        packet.data_mut().copy_from_slice(bytes);
        Some(packet)
    }

    /// Creates a magazine in front of this pool, for one CPU.
    pub fn cache(&self) -> Cache {
        Cache {
            pool: self.clone(),
            free: Vec::with_capacity(MAGAZINE),
            cold: 0,
            list: Vec::new(),
        }
    }

    /// Makes at least this many bytes usable, rounded up to 2 MiB, or as many as the limit allows.
    pub fn commit(&self, bytes: usize) {
        let mut depot = self.shared().depot.lock();
        while depot.arena.committed() * PAGE < bytes && !depot.closed {
            if !depot.grow(Class::Frame) {
                return;
            }
        }
    }

    /// Returns the address and size in bytes of the pool's memory so far. It only grows at the end,
    /// up to the limit, which is reserved at once. Register it as an AF_XDP UMEM with 2048-byte
    /// chunks and no headroom of its own. Jumbo frames and the first 32 chunks of each page are
    /// never given to a ring.
    pub fn region(&self) -> (NonNull<u8>, usize) {
        let depot = self.shared().depot.lock();
        (depot.arena.base(), depot.arena.committed() * PAGE)
    }

    /// Takes back a lent frame, without a lock, with `len` bytes of data at `address`. The ring returned the
    /// address; it may be anywhere in the frame. The metadata is as after `alloc_bulk`. Returns
    /// `None` if the data does not fit in the frame, or if `address` is not in a frame of the frame
    /// class; in the latter case nothing is taken back.
    ///
    /// # Safety
    /// The frame was lent by [`Packet::lend`] and has not been taken back since, and the device no
    /// longer uses it.
    pub unsafe fn take_back(&self, address: u64, len: usize) -> Option<Packet> {
        let address = usize::try_from(address).ok()?;
        let (page, at) = (address / PAGE, address % PAGE);
        let (frame, start) = (at / FRAME, at % FRAME);
        let shared = self.shared();
        let is_usable = address < shared.committed.load(Ordering::Acquire);
        if !is_usable || !Class::Frame.frames().contains(&frame) {
            return None;
        }
        // SAFETY: the record lies in a committed page of the arena.
        let record = unsafe { shared.start.add(page * PAGE + frame * RECORD) };
        // SAFETY: by contract the frame was lent, so its record has no other owner.
        unsafe { Packet::init(record.cast()) }.with_data(start, len)
    }

    /// Returns true if the packet is of this pool.
    pub fn owns(&self, packet: &Packet) -> bool {
        self.shared().owns(packet.as_record())
    }

    /// Returns the memory usage.
    pub fn stats(&self) -> Stats {
        let shared = self.shared();
        let mut depot = shared.depot.lock();
        shared.collect(&mut depot);
        Stats {
            committed: depot.arena.committed() * PAGE,
            limit: depot.arena.pages() * PAGE,
            frames: depot.total[Class::Frame as usize],
            frames_free: depot.free[Class::Frame as usize].len(),
            jumbos: depot.total[Class::Jumbo as usize],
            jumbos_free: depot.free[Class::Jumbo as usize].len(),
            refused: shared.refused.load(Ordering::Relaxed),
            lock: shared.depot.stats(),
        }
    }
}

impl Clone for Pool {
    fn clone(&self) -> Pool {
        self.shared().handles.fetch_add(1, Ordering::Relaxed);
        Pool(self.0)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let shared = self.shared();
        if shared.handles.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let live = {
            let mut depot = shared.depot.lock();
            depot.closed = true;
            depot.absorb(shared.returned.close());
            let free: usize = depot.free.iter().map(Vec::len).sum();
            depot.total.iter().sum::<usize>() - free
        };
        if shared.returned.settle(live) {
            // SAFETY: no handle is left, and all packets have been freed.
            unsafe { free_shared(self.0.as_ptr()) };
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Pool").field(&self.stats()).finish()
    }
}

/// One CPU's magazine: allocates and frees frames without a lock. Dropping it returns its frames to
/// the depot.
pub struct Cache {
    pool: Pool,
    free: Vec<NonNull<Record>>,
    /// About so many of the frames, the first ones, came from the depot, where another CPU may have used them last, and have
    /// not been prefetched.
    cold: usize,
    /// An empty list; see [`Cache::take_list`].
    list: Vec<Packet>,
}

// SAFETY: the magazine owns its records, and nothing is bound to a thread.
unsafe impl Send for Cache {}

impl Cache {
    /// Returns the pool behind the magazine.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Allocates as [`Pool::alloc`] does, without a lock as long as the magazine has frames.
    #[inline]
    pub fn alloc(&mut self, len: usize) -> Option<Packet> {
        if len > FRAME_DATA {
            return self.pool.alloc(len);
        }
        if self.free.is_empty() {
            self.refill(1);
        }
        let record = self.free.pop()?;
        // SAFETY: the magazine owned the record, which is of the frame class and has room for `len` bytes.
        Some(unsafe {
            record::init_whole(record, len as u32);
            Packet::from_record(record)
        })
    }

    /// Allocates a packet with these bytes, as [`Pool::packet`] does.
    pub fn packet(&mut self, bytes: &[u8]) -> Option<Packet> {
        let mut packet = self.alloc(bytes.len())?;
        packet.data_mut().copy_from_slice(bytes);
        Some(packet)
    }

    /// Appends up to `n` empty packets of the frame class to a batch, no more than fit, and returns
    /// how many. Their `time`, `dev` and `iif` are not initialised.
    #[inline]
    pub fn alloc_bulk(&mut self, batch: &mut Batch, n: usize) -> usize {
        let want = n.min(batch.room());
        if self.free.len() < want {
            self.refill(want);
            self.prefetch_next(want, |_| 0);
        }
        let n = want.min(self.free.len());
        let rest = self.free.len() - n;
        if let Some(records) = self.free.get(rest..) {
            // SAFETY: the magazine owned the records; there is room for all of them, and the
            // magazine forgets them just below.
            unsafe { batch.extend_from_records(records) };
        }
        self.free.truncate(rest);
        self.prefetch_next(n, |_| 0);
        n
    }

    /// Takes up to `n` buffers, no more than fit, and returns how many. Takes none if the buffers are of
    /// another pool.
    #[inline]
    pub fn take(&mut self, buffers: &mut Buffers, n: usize) -> usize {
        if !buffers.are_of(self.pool.shared()) {
            return 0;
        }
        let want = n.min(buffers.room());
        if self.free.len() < want {
            self.refill(want);
            self.prefetch_next(want, |record| shift(record, 0));
        }
        let n = want.min(self.free.len());
        let rest = self.free.len() - n;
        if let Some(records) = self.free.get(rest..) {
            // SAFETY: the magazine owned the records, which are of the frame class; there is room for all of
            // them, and the magazine forgets them just below. The buffers are of this pool.
            unsafe { buffers.extend(self.pool.shared(), records) };
        }
        self.free.truncate(rest);
        self.prefetch_next(n, |record| shift(record, 0));
        n
    }

    /// Gives all buffers back. Buffers of another pool return to that.
    #[inline]
    pub fn give(&mut self, buffers: &mut Buffers) {
        if !buffers.are_of(self.pool.shared()) {
            return drop(std::mem::take(buffers));
        }
        if self.free.len() + buffers.len() > MAGAZINE {
            self.flush(MOVE);
        }
        self.free.extend_from_slice(buffers.records());
        buffers.forget();
    }

    /// Frees all packets of a batch into the magazine. Packets of another pool and jumbo packets
    /// return to their own pool.
    #[inline]
    pub fn free_bulk(&mut self, batch: &mut Batch) {
        if self.free.len() + batch.len() > MAGAZINE {
            self.flush(MOVE);
        }
        // The packets are forgotten below; this drops the tunnel metadata they refer to.
        if Packet::any_has_tunnel(batch) {
            batch.iter_mut().for_each(Packet::drop_tunnel);
        }
        let (free, shared) = (&mut self.free, self.pool.shared());
        batch.forget_if(|records| {
            let all = shared.owns_frames(records);
            if all {
                free.extend_from_slice(records);
            }
            all
        });
        if batch.is_empty() {
            return;
        }
        let mut others = Batch::new();
        for packet in batch.drain() {
            if let Err(other) = self.put(packet) {
                // Always fits: all of these packets came from one batch.
                let _ = others.push(other);
            }
        }
        give_back_batch(&mut others);
    }

    /// Returns an empty list with the memory of the last one that was kept.
    #[inline]
    pub fn take_list(&mut self) -> Vec<Packet> {
        std::mem::take(&mut self.list)
    }

    /// Keeps the memory of a list, whose packets are dropped.
    #[inline]
    pub fn keep_list(&mut self, mut list: Vec<Packet>) {
        list.clear();
        if list.capacity() > self.list.capacity() {
            self.list = list;
        }
    }

    /// Prefetches up to `n` frames that will be taken next, if other CPUs may have their lines: the metadata, and the
    /// line where the data will begin, which is `shift` bytes further on than usual.
    #[inline]
    fn prefetch_next(&mut self, n: usize, shift: impl Fn(NonNull<Record>) -> usize) {
        let end = self.free.len();
        let (from, to) = (end - n.min(end), end.min(self.cold));
        if from >= to {
            return;
        }
        self.cold = from;
        for record in self.free.get(from..to).unwrap_or_default() {
            prefetch_to_write(record.as_ptr());
            let frame = record::short_frame_of(*record);
            prefetch_to_write(
                frame
                    .as_ptr()
                    .wrapping_add(record::HEADROOM + shift(*record)),
            );
        }
    }

    /// Frees one packet.
    #[inline(always)]
    pub fn free(&mut self, packet: Packet) {
        if self.free.len() >= MAGAZINE {
            self.flush(MOVE);
        }
        drop(self.put(packet));
    }

    /// Frees a packet that is of this pool and of the frame class.
    #[inline]
    fn put(&mut self, packet: Packet) -> Result<(), Packet> {
        let record = packet.as_record();
        if !self.pool.shared().owns(record) || class_of(record) != Class::Frame {
            return Err(packet);
        }
        debug_assert!(self.free.len() < MAGAZINE && self.free.capacity() >= MAGAZINE);
        // SAFETY: a magazine is made with room for `MAGAZINE` frames, and the callers have made sure that it is not full.
        unsafe { std::hint::assert_unchecked(self.free.len() < self.free.capacity()) };
        self.free.push(packet.into_record());
        Ok(())
    }

    #[cold]
    fn refill(&mut self, want: usize) {
        let shared = self.pool.shared();
        let mut depot = shared.depot.lock();
        shared.ensure(&mut depot, Class::Frame, want.max(MOVE));
        let free = &mut depot.free[Class::Frame as usize];
        let n = free
            .len()
            .min(MOVE.max(want))
            .min(MAGAZINE - self.free.len());
        let from = free.len() - n;
        self.free.extend(free.drain(from..));
        self.cold = self.free.len();
        if self.free.len() < want {
            let short = (want - self.free.len()) as u64;
            shared.refused.fetch_add(short, Ordering::Relaxed);
        }
    }

    /// Moves the `n` coldest frames to the depot.
    #[cold]
    fn flush(&mut self, n: usize) {
        let mut depot = self.pool.shared().depot.lock();
        let n = n.min(self.free.len());
        depot.free[Class::Frame as usize].extend(self.free.drain(..n));
        self.cold = self.cold.saturating_sub(n);
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.flush(MAGAZINE);
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache")
            .field("free", &self.free.len())
            .finish()
    }
}

impl Packet {
    /// Returns a deep copy, like [`copy`](Self::copy), in memory of a CPU's cache, which usually
    /// needs no lock.
    pub fn copy_from(&self, cache: &mut Cache) -> Option<Packet> {
        let to = if self.end() <= FRAME {
            cache.alloc(0)
        } else {
            cache.pool().alloc(FRAME_DATA + 1)
        };
        Some(self.copy_to(to?))
    }
}

#[inline]
fn class_for(len: usize) -> Option<Class> {
    if len <= FRAME_DATA {
        Some(Class::Frame)
    } else if len <= JUMBO_DATA {
        Some(Class::Jumbo)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
