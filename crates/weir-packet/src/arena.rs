// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frame memory: one contiguous range of 2 MiB pages.
//!
//! The whole range is reserved as address space when the pool is created, and committed page by
//! page. So it can be registered as one AF_XDP UMEM, and masking any address in it gives the base
//! of its page.
//!
//! A page is divided by class:
//!
//! | class | frame | frames per page | metadata |
//! |---|---|---|---|
//! | frame | 2048 B | 992 (chunks 32..1024) | 64 B records at offset `64 * i`, in chunks 0..32 |
//! | jumbo | 69632 B (68 KiB) | 29 (1..30) | 64 B records at offset `64 * i`, in chunk 0 |
//!
//! Record `i` of a page belongs to frame `i` of that page. The frame class starts at `i = 32` and
//! the jumbo class ends before that, so the address of a record alone determines the class and the
//! frame; no pointer is stored. The page header, which identifies the pool, occupies the first 64
//! bytes.
//!
//! Transparent huge pages are requested by advice. Normal pages are used where the kernel does not
//! provide them.

#![allow(unsafe_code)] // memory mapping and raw frame addresses

use std::io;
use std::ptr::NonNull;

/// The size of an arena page, in bytes.
pub const PAGE: usize = 2 << 20;
/// The size of a frame of the frame class (the UMEM chunk), in bytes.
pub const FRAME: usize = 2048;
/// The size of a jumbo frame, in bytes: room for the largest IP packet, link headers and headroom.
pub const JUMBO: usize = 68 * 1024;
/// The size of a metadata record, in bytes.
pub const RECORD: usize = 64;
/// The first frame index of the frame class.
pub const FRAME_FIRST: usize = FRAME_CHUNKS * RECORD / FRAME;
const FRAME_CHUNKS: usize = PAGE / FRAME;
/// The first and the end frame index of the jumbo class.
pub const JUMBO_FIRST: usize = 1;
pub const JUMBO_END: usize = PAGE / JUMBO;

const _: () = assert!(JUMBO_END <= FRAME_FIRST && JUMBO_END * RECORD <= JUMBO);

/// The two frame sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// 2048 bytes.
    Frame,
    /// 68 KiB.
    Jumbo,
}

impl Class {
    /// Returns the size of a frame, in bytes.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            Class::Frame => FRAME,
            Class::Jumbo => JUMBO,
        }
    }

    /// Returns the frame indices of a page of this class.
    pub const fn frames(self) -> std::ops::Range<usize> {
        match self {
            Class::Frame => FRAME_FIRST..FRAME_CHUNKS,
            Class::Jumbo => JUMBO_FIRST..JUMBO_END,
        }
    }
}

/// A reserved range, of which the first pages are committed.
pub struct Arena {
    base: NonNull<u8>,
    pages: usize,
    committed: usize,
    mapping: Option<Mapping>,
}

// SAFETY: the arena owns its mapping, and nothing in it is bound to a thread.
unsafe impl Send for Arena {}

impl Arena {
    /// Reserves `pages` pages of address space. No page is usable before [`commit`](Self::commit).
    /// Reserving zero pages always succeeds.
    pub fn reserve(pages: usize, huge: bool) -> io::Result<Arena> {
        let (base, mapping) = match pages {
            0 => (NonNull::dangling(), None),
            _ => {
                let (mapping, base) = Mapping::reserve(pages, huge)?;
                (base, Some(mapping))
            }
        };
        Ok(Arena {
            base,
            pages,
            committed: 0,
            mapping,
        })
    }

    /// Returns the address of the first page.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the number of pages reserved: the limit.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Returns the number of committed pages.
    pub fn committed(&self) -> usize {
        self.committed
    }

    /// Makes the next page usable: zeroed, readable, writable. Returns `None` at the limit.
    pub fn commit(&mut self) -> Option<NonNull<u8>> {
        if self.committed == self.pages {
            return None;
        }
        // SAFETY: `committed < pages`, so the page lies inside the reserved range.
        let page = unsafe { self.base.add(self.committed * PAGE) };
        if !self.mapping.as_mut()?.commit(page) {
            return None;
        }
        self.committed += 1;
        Some(page)
    }
}

#[cfg(not(miri))]
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    huge: bool,
}

#[cfg(not(miri))]
impl Mapping {
    fn reserve(pages: usize, huge: bool) -> io::Result<(Mapping, NonNull<u8>)> {
        // Reserves one page more than needed, so that an aligned range fits.
        let bytes = pages
            .checked_add(1)
            .and_then(|p| p.checked_mul(PAGE))
            .ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: a new private anonymous mapping at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let skip = start.as_ptr().align_offset(PAGE);
        // SAFETY: `skip < PAGE` and the mapping is one page longer than `pages`.
        let base = unsafe { start.add(skip) };
        Ok((Mapping { start, bytes, huge }, base))
    }

    /// Makes a page of the range usable in place. It is never mapped again: a fixed mapping that
    /// fails (no huge pages available) leaves a hole, into which another thread may map.
    fn commit(&mut self, page: NonNull<u8>) -> bool {
        // SAFETY: `page` is a whole page of this reserved range, not yet handed out.
        let done = unsafe {
            libc::mprotect(
                page.as_ptr().cast(),
                PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        if done != 0 {
            return false;
        }
        if self.huge {
            // SAFETY: the page was made usable just above, and the advice does not change its
            // content.
            unsafe { libc::madvise(page.as_ptr().cast(), PAGE, libc::MADV_HUGEPAGE) };
        }
        true
    }
}

#[cfg(not(miri))]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `reserve`, and its owner is being dropped.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

// Miri does not support fixed mappings, so the whole range is allocated at once.
#[cfg(miri)]
struct Mapping {
    base: NonNull<u8>,
    layout: std::alloc::Layout,
}

#[cfg(miri)]
impl Mapping {
    fn reserve(pages: usize, _huge: bool) -> io::Result<(Mapping, NonNull<u8>)> {
        let layout = std::alloc::Layout::from_size_align(pages * PAGE, PAGE)
            .map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the layout is not empty (`pages >= 1`).
        let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
            .ok_or(io::ErrorKind::OutOfMemory)?;
        Ok((Mapping { base, layout }, base))
    }

    fn commit(&mut self, _page: NonNull<u8>) -> bool {
        true
    }
}

#[cfg(miri)]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: allocated by `reserve` with this layout.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), self.layout) };
    }
}
