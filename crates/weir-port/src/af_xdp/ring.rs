// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rings that an AF_XDP socket shares with the kernel (`net/xdp/xsk_queue.h`): arrays of a power of two
//! of entries, with a producer and a consumer index that count without end.
#![allow(unsafe_code)] // memory shared with the kernel

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// An entry: an address (fill and completion ring) or `xdp_desc` (receive and transmit ring).
pub(super) trait Entry: Copy {}
impl Entry for u64 {}
impl Entry for libc::xdp_desc {}

/// A mapped ring of which this process has one end.
#[derive(Debug)]
pub(super) struct Ring<T> {
    base: NonNull<u8>,
    bytes: usize,
    entries: NonNull<T>,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    size: u32,
    of: PhantomData<T>,
}

// SAFETY: the ring owns its mapping; nothing of it is bound to a thread.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Entry> Ring<T> {
    /// Maps a ring of `size` entries at page offset `page` of the socket.
    pub(super) fn map(
        socket: &OwnedFd,
        page: u64,
        offsets: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Self> {
        let bytes = offsets.desc as usize + size as usize * size_of::<T>();
        let (access, shared) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_POPULATE,
        );
        let (none, fd) = (std::ptr::null_mut(), socket.as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(none, bytes, access, shared, fd, page as libc::off_t) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base: NonNull<u8> = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the kernel reports offsets inside the ring, which it maps whole, and aligns them.
        let at = |offset: u64| unsafe { base.add(offset as usize) };
        Ok(Self {
            base,
            bytes,
            entries: at(offsets.desc).cast(),
            producer: at(offsets.producer).cast(),
            consumer: at(offsets.consumer).cast(),
            flags: at(offsets.flags).cast(),
            size,
            of: PhantomData,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: the word lies in the mapping, and all access to it is atomic.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.consumer.as_ref() }
    }

    /// The entry of an index.
    fn entry(&self, index: u32) -> NonNull<T> {
        // SAFETY: the size is a power of two, so the masked index is below it.
        unsafe { self.entries.add((index & (self.size - 1)) as usize) }
    }

    /// Returns the number of entries between the two ends.
    pub(super) fn len(&self) -> u32 {
        let producer = self.producer().load(Ordering::Acquire);
        let consumer = self.consumer().load(Ordering::Acquire);
        producer.wrapping_sub(consumer).min(self.size)
    }

    /// Returns the number of entries that can be produced.
    pub(super) fn room(&self) -> u32 {
        self.size - self.len()
    }

    /// Returns whether the kernel waits for a system call before it looks at the ring.
    pub(super) fn needs_wakeup(&self) -> bool {
        // SAFETY: the word lies in the mapping, and all access to it is atomic.
        let flags = unsafe { self.flags.as_ref() };
        flags.load(Ordering::Acquire) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Produces an entry. Returns false if the ring is full.
    #[must_use]
    pub(super) fn push(&mut self, entry: T) -> bool {
        if self.room() == 0 {
            return false;
        }
        let index = self.producer().load(Ordering::Relaxed);
        // SAFETY: the entry lies in the mapping. The kernel reads it after the producer index moves.
        unsafe { self.entry(index).write(entry) };
        self.producer()
            .store(index.wrapping_add(1), Ordering::Release);
        true
    }

    /// Produces as many of the entries as there is room for, in order, and returns how many.
    pub(super) fn push_many(&mut self, entries: &[T]) -> usize {
        let index = self.producer().load(Ordering::Relaxed);
        let taken = entries.len().min(self.room() as usize);
        for (n, entry) in entries.iter().take(taken).enumerate() {
            // SAFETY: the entry lies in the mapping. The kernel reads it after the producer index moves.
            unsafe { self.entry(index.wrapping_add(n as u32)).write(*entry) };
        }
        self.producer()
            .store(index.wrapping_add(taken as u32), Ordering::Release);
        taken
    }

    /// Consumes as many entries as there are and fit into `to`, and returns how many.
    pub(super) fn pop_many(&mut self, to: &mut [T]) -> usize {
        let index = self.consumer().load(Ordering::Relaxed);
        let taken = to.len().min(self.len() as usize);
        for (n, slot) in to.iter_mut().take(taken).enumerate() {
            // SAFETY: the entry lies in the mapping. The kernel writes to it after the consumer index moves.
            *slot = unsafe { self.entry(index.wrapping_add(n as u32)).read() };
        }
        self.consumer()
            .store(index.wrapping_add(taken as u32), Ordering::Release);
        taken
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and nobody uses it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
