// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `List`: up to one value for each packet of a batch, stored inline.
//!
//! An array of 64 values has to be filled before it is used, which takes longer than the work for a batch of one packet.
//! A list is filled only up to its length.
#![allow(unsafe_code)] // the array is initialised only up to its length

use crate::batch::BATCH;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

/// Up to [`BATCH`] values.
pub struct List<T: Copy> {
    len: usize,
    items: [MaybeUninit<T>; BATCH],
}

impl<T: Copy> List<T> {
    /// Creates an empty list.
    #[inline]
    pub const fn new() -> List<T> {
        List {
            len: 0,
            items: [const { MaybeUninit::uninit() }; BATCH],
        }
    }

    /// Appends a value. Returns false, and changes nothing, if the list is full.
    #[inline]
    pub fn push(&mut self, value: T) -> bool {
        match self.items.get_mut(self.len) {
            Some(slot) => {
                slot.write(value);
                self.len += 1;
                true
            }
            None => false,
        }
    }

    /// Removes all values.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

impl<T: Copy> Default for List<T> {
    #[inline]
    fn default() -> Self {
        List::new()
    }
}

/// Takes the first values, as many as fit. In place: a list that a function returns is copied, whatever its length.
impl<T: Copy> Extend<T> for List<T> {
    #[inline]
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        let slots = self.items.get_mut(self.len..).unwrap_or_default();
        let mut taken = 0;
        for (slot, value) in slots.iter_mut().zip(values) {
            slot.write(value);
            taken += 1;
        }
        self.len += taken;
    }
}

impl<T: Copy> Deref for List<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the first `len` slots are initialised.
        unsafe { std::slice::from_raw_parts(self.items.as_ptr().cast(), self.len) }
    }
}

impl<T: Copy> DerefMut for List<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the first `len` slots are initialised.
        unsafe { std::slice::from_raw_parts_mut(self.items.as_mut_ptr().cast(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_holds_as_many_values_as_a_batch_packets() {
        let mut list = List::new();
        assert!(list.is_empty() && list.last_mut().is_none());
        assert!((0..BATCH).all(|n| list.push(n)));
        assert!(!list.push(BATCH));
        assert!(list.iter().copied().eq(0..BATCH));
        if let Some(last) = list.last_mut() {
            *last = 7;
        }
        assert_eq!((list.len(), list.last()), (BATCH, Some(&7)));
        list.clear();
        assert!(list.is_empty() && list.push(1) && *list == [1]);
        let mut values = 0..;
        list.extend(values.by_ref());
        assert!(list.iter().copied().eq([1].into_iter().chain(0..BATCH - 1)));
        assert_eq!(values.next(), Some(BATCH - 1), "no value is lost");
        list.clear();
        list.extend(0..2);
        list.extend(2..3);
        assert_eq!(*list, [0, 1, 2]);
    }
}
