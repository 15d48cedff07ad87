// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `array` and `percpu_array`: values by index, all present from the beginning and zero.
//!
//! As in Linux, a look-up during an update may see words of 8 bytes of both values.

use crate::memory::Words;
use crate::{Error, Update};
use weir_sync::primitive::atomic::{AtomicU64, Ordering};

/// An array of values.
pub(crate) struct Array {
    words: Words<AtomicU64>,
    /// Words of a value.
    stride: usize,
    max_entries: u32,
}

impl Array {
    /// Creates an array of values of `value_size` bytes.
    pub(crate) fn new(value_size: usize, max_entries: u32) -> Result<Self, Error> {
        if value_size == 0 || max_entries == 0 {
            return Err(Error::Inval);
        }
        if value_size > i32::MAX as usize {
            return Err(Error::TooBig);
        }
        let stride = value_size.div_ceil(8);
        let words = stride.checked_mul(max_entries as usize);
        Ok(Self {
            words: Words::new(words.ok_or(Error::TooBig)?)?,
            stride,
            max_entries,
        })
    }

    /// Copies a value from byte `from` on, a multiple of 8.
    pub(crate) fn look_up(&self, index: u32, from: usize, out: &mut [u8]) -> Result<(), Error> {
        if index >= self.max_entries {
            return Err(Error::NoEnt);
        }
        let first = index as usize * self.stride + from / 8;
        for (at, out) in out.chunks_mut(8).enumerate() {
            let word = self.words.at(first + at).load(Ordering::Relaxed);
            out.copy_from_slice(&word.to_ne_bytes()[..out.len()]);
        }
        Ok(())
    }

    /// Stores a value from byte `from` on, a multiple of 8.
    pub(crate) fn update(
        &self,
        index: u32,
        from: usize,
        value: &[u8],
        mode: Update,
    ) -> Result<(), Error> {
        if index >= self.max_entries {
            return Err(Error::TooBig);
        }
        if mode == Update::NoExist {
            return Err(Error::Exist);
        }
        let first = index as usize * self.stride + from / 8;
        for (at, value) in value.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..value.len()].copy_from_slice(value);
            let word = u64::from_ne_bytes(word);
            self.words.at(first + at).store(word, Ordering::Relaxed);
        }
        Ok(())
    }
}
