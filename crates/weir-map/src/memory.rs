// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Zeroed memory for atomics. The kernel provides a page when it is first written, so a map of ten
//! million entries costs nothing until it is used.
#![allow(unsafe_code)] // anonymous mappings, and references into them

use crate::Error;

/// Mappings of at least this size ask for huge pages.
const HUGE: usize = 4 << 20;

#[cfg(not(any(loom, miri)))]
mod imp {
    use super::{Error, HUGE};
    use core::ptr::NonNull;

    /// An anonymous private mapping.
    #[derive(Debug)]
    pub(crate) struct Mapping {
        start: NonNull<u8>,
        len: usize,
    }

    // SAFETY: the mapping owns its memory, and hands out pointers only.
    unsafe impl Send for Mapping {}
    // SAFETY: as above.
    unsafe impl Sync for Mapping {}

    impl Mapping {
        pub(crate) fn new(len: usize) -> Result<Self, Error> {
            let len = len
                .max(1)
                .checked_next_multiple_of(4096)
                .ok_or(Error::NoMem)?;
            // One more huge page, so that the start can be aligned to one.
            let extra = if len >= HUGE { 2 << 20 } else { 0 };
            let whole = len.checked_add(extra).ok_or(Error::NoMem)?;
            // SAFETY: a new anonymous mapping does not touch other memory.
            let at = unsafe {
                libc::mmap(
                    core::ptr::null_mut(),
                    whole,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                    -1,
                    0,
                )
            };
            if at == libc::MAP_FAILED {
                return Err(Error::NoMem);
            }
            let Some(mut start) = NonNull::new(at.cast::<u8>()) else {
                return Err(Error::NoMem);
            };
            if extra > 0 {
                let front = start.as_ptr().align_offset(extra).min(extra);
                // SAFETY: both ranges lie in the mapping just made, and nothing points into them.
                // A failure only leaves them mapped.
                unsafe {
                    if front > 0 {
                        libc::munmap(start.as_ptr().cast(), front);
                    }
                    start = start.add(front);
                    if extra > front {
                        libc::munmap(start.as_ptr().add(len).cast(), extra - front);
                    }
                    libc::madvise(start.as_ptr().cast(), len, libc::MADV_HUGEPAGE);
                }
            }
            Ok(Self { start, len })
        }

        #[inline(always)]
        pub(crate) fn start(&self) -> *mut u8 {
            self.start.as_ptr()
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: the mapping is ours, and no reference into it outlives `self`.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        }
    }
}

#[cfg(any(loom, miri))]
mod imp {
    use super::Error;

    /// Zeroed memory of the allocator: Miri has no mappings.
    #[derive(Debug)]
    pub(crate) struct Mapping(#[allow(dead_code)] Box<[u128]>, *mut u8);

    // SAFETY: the mapping owns its memory, and hands out pointers only.
    unsafe impl Send for Mapping {}
    // SAFETY: as above.
    unsafe impl Sync for Mapping {}

    impl Mapping {
        pub(crate) fn new(len: usize) -> Result<Self, Error> {
            let mut words = vec![0u128; len / 16 + 1].into_boxed_slice();
            let start = words.as_mut_ptr().cast();
            Ok(Self(words, start))
        }

        #[inline(always)]
        pub(crate) fn start(&self) -> *mut u8 {
            self.1
        }
    }
}

pub(crate) use imp::Mapping;

/// A zeroed array of atomics, or of structures of atomics. The kernel provides a page when it is first written.
pub struct Words<T> {
    #[cfg(not(loom))]
    memory: Mapping,
    #[cfg(not(loom))]
    len: usize,
    #[cfg(not(loom))]
    of: core::marker::PhantomData<T>,
    #[cfg(loom)]
    words: Box<[T]>,
}

/// A type whose zeroed memory is a valid value: an atomic integer, or a structure of them.
///
/// # Safety
/// All bytes zero must be a value of the type, and the type must not need a drop.
pub unsafe trait Zero: Sync + Default {}
// SAFETY: an atomic integer is as large as its integer and has no invalid values.
unsafe impl Zero for weir_sync::primitive::atomic::AtomicU32 {}
// SAFETY: as above.
unsafe impl Zero for weir_sync::primitive::atomic::AtomicU64 {}

impl<T: Zero> Words<T> {
    /// Maps `len` zeroes.
    #[cfg(not(loom))]
    pub fn new(len: usize) -> Result<Self, Error> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or(Error::NoMem)?;
        Ok(Self {
            memory: Mapping::new(bytes)?,
            len,
            of: core::marker::PhantomData,
        })
    }

    /// Allocates `len` zeroes.
    #[cfg(loom)]
    pub fn new(len: usize) -> Result<Self, Error> {
        Ok(Self {
            words: (0..len).map(|_| T::default()).collect(),
        })
    }

    /// Returns the element at `index`, which is below the length.
    #[inline(always)]
    pub fn at(&self, index: usize) -> &T {
        #[cfg(loom)]
        return &self.words[index];
        #[cfg(not(loom))]
        {
            assert!(index < self.len);
            // SAFETY: the index is in bounds, and zeroed memory is a `T`.
            unsafe { &*self.memory.start().cast::<T>().add(index) }
        }
    }

    /// Returns `len` elements from `first` on, all of which exist.
    #[inline(always)]
    pub(crate) fn run(&self, first: usize, len: usize) -> &[T] {
        #[cfg(loom)]
        return &self.words[first..first + len];
        #[cfg(not(loom))]
        {
            assert!(first <= self.len && len <= self.len - first);
            // SAFETY: the elements are in bounds, and zeroed memory is a `T`.
            unsafe { core::slice::from_raw_parts(self.memory.start().cast::<T>().add(first), len) }
        }
    }

    /// Returns the number of elements.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        #[cfg(loom)]
        return self.words.len();
        #[cfg(not(loom))]
        self.len
    }
}
