// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program's allocator. Rules come by the million, from many connections at once: the C library's
//! spends a system call on each page of a thread's heap, and eight octets on each object.
#![allow(unsafe_code)] // an allocator, and an option of a C library

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_option_large_os_pages, mi_option_set_enabled_default,
};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// What any block is aligned to.
const ALIGNED: usize = size_of::<usize>();

/// mimalloc, asked for an alignment only where that is more than any block has: of most sizes it else
/// takes a larger block, and a longer way.
struct Allocator;

// SAFETY: mimalloc's blocks, from its own functions; those with and without an alignment free and move
// each other's.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED {
            // SAFETY: takes any size.
            return unsafe { mi_malloc(layout.size()) }.cast();
        }
        // SAFETY: by the caller's contract.
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: by the caller's contract it is one of ours.
        unsafe { mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the caller's contract.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: by the caller's contract.
        unsafe { MiMalloc.realloc(block, layout, size) }
    }
}

/// Asks for pages of 2 MiB where the system gives them: a page fault a rule's page is a good part of
/// what inserting it costs. The first thing the program does.
pub fn prefer_large_pages() {
    // SAFETY: it sets an integer and is not to be called from two threads; there is only one yet.
    unsafe { mi_option_set_enabled_default(mi_option_large_os_pages, true) }
}
