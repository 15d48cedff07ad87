// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program's allocator. Many connections at once insert rules by the million. The C library's
//! allocator would spend a system call on each page of a thread's heap, and eight bytes on each
//! object.
#![allow(unsafe_code)] // an allocator, and an option of a C library

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_option_large_os_pages, mi_option_set_enabled_default, mi_zalloc,
};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// mimalloc, with an explicit alignment only where it exceeds that of every block: for most sizes
/// an explicit alignment takes a larger block and a slower path.
struct Allocator;

/// Returns whether every block of this size has this alignment: one word, or two (`MI_MAX_ALIGN_SIZE`) from two words on.
#[inline]
fn is_aligned(layout: Layout) -> bool {
    const WORD: usize = size_of::<usize>();
    layout.align() <= WORD || layout.align() == 2 * WORD && layout.size() >= 2 * WORD
}

// SAFETY: the blocks come from mimalloc's own functions. Its aligned and unaligned functions free
// and move each other's blocks.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_aligned(layout) {
            // SAFETY: takes any size.
            return unsafe { mi_malloc(layout.size()) }.cast();
        }
        // SAFETY: by the caller's contract.
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: by the caller's contract the block came from this allocator.
        unsafe { mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_aligned(layout) {
            // SAFETY: takes any size.
            return unsafe { mi_zalloc(layout.size()) }.cast();
        }
        // SAFETY: by the caller's contract.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: by the caller's contract.
        unsafe { MiMalloc.realloc(block, layout, size) }
    }
}

/// Enables pages of 2 MiB if the system offers them: the page faults of small pages are a large
/// part of the cost of inserting a rule. The program calls this first.
pub fn prefer_large_pages() {
    // SAFETY: it sets an integer and must not be called from two threads; only one exists so far.
    unsafe { mi_option_set_enabled_default(mi_option_large_os_pages, true) }
}
