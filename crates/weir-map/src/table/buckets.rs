// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of a table's buckets: atomics of several sizes in one mapping, or in vectors under loom.
#![allow(unsafe_code)] // atomics of several sizes in one mapping

use super::HEAD;
use crate::Error;
#[cfg(not(loom))]
use crate::memory::Mapping;
use weir_sync::primitive::atomic::{AtomicU8, AtomicU32, AtomicU64};

#[cfg(not(loom))]
pub(super) use mapped::{Bucket, Buckets};
#[cfg(loom)]
pub(super) use modelled::{Bucket, Buckets};

#[cfg(not(loom))]
mod mapped {
    use super::{AtomicU8, AtomicU32, AtomicU64, Error, HEAD, Mapping};
    use core::marker::PhantomData;

    pub(in crate::table) struct Buckets {
        memory: Mapping,
    }

    impl Buckets {
        pub(in crate::table) fn new(count: usize, stride: usize) -> Result<Self, Error> {
            let bytes = count.checked_mul(stride).ok_or(Error::NoMem)?;
            Ok(Self {
                memory: Mapping::new(bytes)?,
            })
        }

        #[inline(always)]
        fn at<T>(&self, offset: usize) -> &T {
            // SAFETY: the callers pass buckets below the count and words below the stride. The
            // memory is zeroed, which is a value of each atomic integer, and each place is accessed
            // with one size only.
            unsafe { &*self.memory.start().add(offset).cast::<T>() }
        }

        #[inline(always)]
        pub(in crate::table) fn control(&self, stride: usize, bucket: usize) -> &AtomicU64 {
            self.at(bucket * stride)
        }
        #[inline(always)]
        pub(in crate::table) fn tags(&self, stride: usize, bucket: usize) -> &AtomicU32 {
            self.at(bucket * stride + 8)
        }
        #[inline(always)]
        pub(in crate::table) fn reference(
            &self,
            stride: usize,
            bucket: usize,
            slot: usize,
        ) -> &AtomicU8 {
            self.at(bucket * stride + 12 + slot)
        }
        #[inline(always)]
        pub(in crate::table) fn word(
            &self,
            stride: usize,
            bucket: usize,
            word: usize,
        ) -> &AtomicU32 {
            self.at(bucket * stride + HEAD + 4 * word)
        }
        /// Two words at once. `word` is even, and the words are never accessed singly.
        #[inline(always)]
        pub(in crate::table) fn double(
            &self,
            stride: usize,
            bucket: usize,
            word: usize,
        ) -> &AtomicU64 {
            self.at(bucket * stride + HEAD + 4 * word)
        }
        #[inline(always)]
        pub(in crate::table) fn address(&self, stride: usize, bucket: usize) -> *const u8 {
            self.memory.start().wrapping_add(bucket * stride)
        }
        /// Returns a bucket below the count.
        #[inline(always)]
        pub(in crate::table) fn bucket(&self, stride: usize, bucket: usize) -> Bucket<'_> {
            Bucket(self.address(stride, bucket), PhantomData)
        }
    }

    /// A bucket, by its address: however many places are accessed, the address is computed once.
    #[derive(Clone, Copy)]
    pub(in crate::table) struct Bucket<'a>(*const u8, PhantomData<&'a Buckets>);

    impl<'a> Bucket<'a> {
        #[inline(always)]
        fn at<T>(self, offset: usize) -> &'a T {
            // SAFETY: the bucket lies in the mapping that `'a` borrows, and the callers pass places below its stride.
            // The memory is zeroed, which is a value of each atomic integer, and each place is accessed with one
            // size only.
            unsafe { &*self.0.add(offset).cast::<T>() }
        }
        #[inline(always)]
        pub(in crate::table) fn control(self) -> &'a AtomicU64 {
            self.at(0)
        }
        #[inline(always)]
        pub(in crate::table) fn tags(self) -> &'a AtomicU32 {
            self.at(8)
        }
        #[inline(always)]
        pub(in crate::table) fn reference(self, slot: usize) -> &'a AtomicU8 {
            self.at(12 + slot)
        }
        #[inline(always)]
        pub(in crate::table) fn word(self, word: usize) -> &'a AtomicU32 {
            self.at(HEAD + 4 * word)
        }
        /// Two words at once, as [`Buckets::double`].
        #[inline(always)]
        pub(in crate::table) fn double(self, word: usize) -> &'a AtomicU64 {
            self.at(HEAD + 4 * word)
        }
        #[inline(always)]
        pub(in crate::table) fn address(self) -> *const u8 {
            self.0
        }
    }
}

#[cfg(loom)]
mod modelled {
    use super::{AtomicU8, AtomicU32, AtomicU64, Error, HEAD};

    pub(in crate::table) struct Buckets {
        control: Vec<AtomicU64>,
        tags: Vec<AtomicU32>,
        references: Vec<AtomicU8>,
        words: Vec<AtomicU32>,
    }

    impl Buckets {
        pub(in crate::table) fn new(count: usize, stride: usize) -> Result<Self, Error> {
            let words = count * (stride - HEAD) / 4;
            Ok(Self {
                control: (0..count).map(|_| AtomicU64::new(0)).collect(),
                tags: (0..count).map(|_| AtomicU32::new(0)).collect(),
                references: (0..4 * count).map(|_| AtomicU8::new(0)).collect(),
                words: (0..words).map(|_| AtomicU32::new(0)).collect(),
            })
        }
        pub(in crate::table) fn control(&self, _: usize, bucket: usize) -> &AtomicU64 {
            &self.control[bucket]
        }
        pub(in crate::table) fn tags(&self, _: usize, bucket: usize) -> &AtomicU32 {
            &self.tags[bucket]
        }
        pub(in crate::table) fn reference(
            &self,
            _: usize,
            bucket: usize,
            slot: usize,
        ) -> &AtomicU8 {
            &self.references[4 * bucket + slot]
        }
        pub(in crate::table) fn word(
            &self,
            stride: usize,
            bucket: usize,
            word: usize,
        ) -> &AtomicU32 {
            &self.words[bucket * ((stride - HEAD) / 4) + word]
        }
        pub(in crate::table) fn address(&self, _: usize, _: usize) -> *const u8 {
            core::ptr::null()
        }
        pub(in crate::table) fn bucket(&self, stride: usize, bucket: usize) -> Bucket<'_> {
            Bucket {
                buckets: self,
                stride,
                bucket,
            }
        }
    }

    #[derive(Clone, Copy)]
    pub(in crate::table) struct Bucket<'a> {
        buckets: &'a Buckets,
        stride: usize,
        bucket: usize,
    }

    impl<'a> Bucket<'a> {
        pub(in crate::table) fn control(self) -> &'a AtomicU64 {
            self.buckets.control(self.stride, self.bucket)
        }
        pub(in crate::table) fn tags(self) -> &'a AtomicU32 {
            self.buckets.tags(self.stride, self.bucket)
        }
        pub(in crate::table) fn reference(self, slot: usize) -> &'a AtomicU8 {
            self.buckets.reference(self.stride, self.bucket, slot)
        }
        pub(in crate::table) fn word(self, word: usize) -> &'a AtomicU32 {
            self.buckets.word(self.stride, self.bucket, word)
        }
        pub(in crate::table) fn address(self) -> *const u8 {
            self.buckets.address(self.stride, self.bucket)
        }
    }
}
