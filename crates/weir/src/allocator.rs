// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program's allocator. Rules come by the million, from many connections at once: the C library's
//! spends a system call on each page of a thread's heap, and eight octets on each object.
#![allow(unsafe_code)] // an option of a C library

use libmimalloc_sys::{mi_option_large_os_pages, mi_option_set_enabled_default};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Asks for pages of 2 MiB where the system gives them: a page fault a rule's page is a good part of
/// what inserting it costs. The first thing the program does.
pub fn prefer_large_pages() {
    // SAFETY: it sets an integer and is not to be called from two threads; there is only one yet.
    unsafe { mi_option_set_enabled_default(mi_option_large_os_pages, true) }
}
