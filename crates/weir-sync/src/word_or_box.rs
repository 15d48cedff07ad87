// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small number that may become a box once, in one word.
//!
//! The lowest bit tells them apart: a number has it set, and a box is aligned. Threads replace the number by
//! compare-and-swap, so a box that was made of a number takes its place only if the number is still the same. No
//! change is lost.
#![allow(unsafe_code)] // owns the box behind an atomic pointer

use crate::primitive::atomic::{AtomicPtr, Ordering};
use core::fmt;
use core::marker::PhantomData;

/// A number or a box; see the module documentation.
///
/// Ordering: a thread that sees the box acquires what the thread that made it released. Numbers order nothing else.
pub struct WordOrBox<T> {
    word: AtomicPtr<T>,
    owns: PhantomData<*mut T>,
}

/// What a [`WordOrBox`] holds.
#[derive(Debug, PartialEq, Eq)]
pub enum Held<'a, T> {
    /// The number.
    Word(u64),
    /// The value in the box, which stays.
    Boxed(&'a T),
}

// SAFETY: it owns its value and nothing else.
unsafe impl<T: Send> Send for WordOrBox<T> {}
// SAFETY: threads share the value, and one may drop what another made.
unsafe impl<T: Send + Sync> Sync for WordOrBox<T> {}

impl<T> Default for WordOrBox<T> {
    fn default() -> Self {
        Self {
            word: AtomicPtr::new(Self::pack(0)),
            owns: PhantomData,
        }
    }
}

impl<T> WordOrBox<T> {
    /// Numbers are less than this.
    pub const LIMIT: u64 = 1 << 63;

    #[inline]
    fn pack(word: u64) -> *mut T {
        const { assert!(align_of::<T>() > 1, "a box has a free bit") };
        const { assert!(usize::BITS == 64, "a number fits") };
        debug_assert!(word < Self::LIMIT, "{word} is too large");
        core::ptr::without_provenance_mut((word << 1 | 1) as usize)
    }

    #[inline]
    fn held(&self, word: *mut T) -> Held<'_, T> {
        match word.addr() & 1 {
            // SAFETY: not a number, so a published box, which stays until `self` is dropped.
            0 => Held::Boxed(unsafe { &*word }),
            _ => Held::Word((word.addr() >> 1) as u64),
        }
    }

    /// Returns what there is. It begins with the number 0.
    #[inline]
    pub fn get(&self) -> Held<'_, T> {
        self.held(self.word.load(Ordering::Acquire))
    }

    /// Replaces the number `before` by `after`.
    ///
    /// # Errors
    /// What there is instead of `before`.
    pub fn replace(&self, before: u64, after: u64) -> Result<(), Held<'_, T>> {
        let (before, after) = (Self::pack(before), Self::pack(after));
        match self
            .word
            .compare_exchange(before, after, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => Ok(()),
            Err(now) => Err(self.held(now)),
        }
    }

    /// Returns the value in the box, which `make` makes of the number if there is none.
    pub fn boxed(&self, make: impl Fn(u64) -> T) -> &T {
        let mut held = self.get();
        loop {
            let before = match held {
                Held::Boxed(value) => return value,
                Held::Word(before) => before,
            };
            let made = Box::into_raw(Box::new(make(before)));
            let published = self.word.compare_exchange(
                Self::pack(before),
                made,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match published {
                // SAFETY: as in `held`.
                Ok(_) => return unsafe { &*made },
                Err(now) => {
                    // SAFETY: from a box, and nobody else has seen it.
                    drop(unsafe { Box::from_raw(made) });
                    held = self.held(now);
                }
            }
        }
    }
}

impl<T> Drop for WordOrBox<T> {
    fn drop(&mut self) {
        let word = self.word.load(Ordering::Acquire);
        if word.addr() & 1 == 0 {
            // SAFETY: from a box, and no borrow of `self` is left.
            drop(unsafe { Box::from_raw(word) });
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for WordOrBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_number_becomes_a_box_once() {
        let place = WordOrBox::<u32>::default();
        assert_eq!((place.get(), size_of_val(&place)), (Held::Word(0), 8));
        let most = WordOrBox::<u32>::LIMIT - 1;
        assert_eq!(place.replace(0, most), Ok(()));
        assert_eq!(place.replace(0, 1), Err(Held::Word(most)));
        assert_eq!(place.replace(most, 7), Ok(()));
        assert_eq!(*place.boxed(|word| word as u32 + 1), 8);
        assert_eq!(*place.boxed(|_| 0), 8);
        assert_eq!(place.replace(7, 9), Err(Held::Boxed(&8)));
        assert_eq!(place.get(), Held::Boxed(&8));
    }

    #[test]
    fn stress_no_change_is_lost_and_nothing_leaks() {
        let owner = Arc::new(());
        for _ in 0..500 {
            let place = WordOrBox::default();
            std::thread::scope(|scope| {
                // One thread counts to 3, as long as there is a number.
                scope.spawn(|| (0..3).all(|word| place.replace(word, word + 1).is_ok()));
                for _ in 0..2 {
                    scope.spawn(|| {
                        let (word, _) = place.boxed(|word| (word, owner.clone()));
                        assert!(*word <= 3);
                    });
                }
            });
            assert_eq!(Arc::strong_count(&owner), 2);
            let Held::Boxed((word, _)) = place.get() else {
                panic!("no box")
            };
            let tried = place.replace(*word, 9);
            assert!(tried.is_err());
        }
        assert_eq!(Arc::strong_count(&owner), 1);
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::models::{Tracked, check};
    use crate::primitive::Arc;
    use loom::thread;

    /// A thread changes the number while two others make a box. All see one box, and it has the last number.
    #[test]
    fn the_box_is_made_of_the_last_number() {
        check(3, || {
            let place = Arc::new(WordOrBox::<(u64, Tracked)>::default());
            let boxes = || {
                let place = place.clone();
                thread::spawn(move || {
                    let (word, made) = place.boxed(|word| (word, Tracked::new(1)));
                    (*word, made.read())
                })
            };
            let threads = [boxes(), boxes()];
            let changed = place.replace(0, 5).is_ok();
            for thread in threads {
                let expected = if changed { 5 } else { 0 };
                assert_eq!(thread.join().unwrap(), (expected, 1));
            }
        });
    }
}
