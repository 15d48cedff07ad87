// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place for a value that is made on first use: `OnceLock<Box<T>>` in one word instead of two.
//!
//! Several threads may make a value at once. The first one to publish it wins, and the others drop theirs, so nobody
//! waits. What a value is made of must therefore be the same for all of them.
#![allow(unsafe_code)] // owns the box behind an atomic pointer

use crate::primitive::atomic::{AtomicPtr, Ordering};
use core::fmt;
use core::marker::PhantomData;

/// A boxed value that is made on first use; see the module documentation.
///
/// Ordering: a thread that gets the value acquires what the thread that made it released.
pub struct OnceBox<T> {
    pointer: AtomicPtr<T>,
    owns: PhantomData<*mut T>,
}

// SAFETY: the box owns its value and nothing else.
unsafe impl<T: Send> Send for OnceBox<T> {}
// SAFETY: threads share the value, and one may drop what another made.
unsafe impl<T: Send + Sync> Sync for OnceBox<T> {}

impl<T> Default for OnceBox<T> {
    fn default() -> Self {
        Self {
            pointer: AtomicPtr::new(core::ptr::null_mut()),
            owns: PhantomData,
        }
    }
}

impl<T> OnceBox<T> {
    /// Returns the value, if it was made.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: a published box stays until `self` is dropped.
        unsafe { self.pointer.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the value, and makes it if necessary.
    pub fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let made = Box::into_raw(Box::new(make()));
        let published = self.pointer.compare_exchange(
            core::ptr::null_mut(),
            made,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        match published {
            // SAFETY: as in `get`.
            Ok(_) => unsafe { &*made },
            Err(first) => {
                // SAFETY: from a box, and nobody else has seen it.
                drop(unsafe { Box::from_raw(made) });
                // SAFETY: as in `get`.
                unsafe { &*first }
            }
        }
    }

    /// Takes the value out, if it was made.
    pub fn take(&mut self) -> Option<Box<T>> {
        let value = self.pointer.swap(core::ptr::null_mut(), Ordering::Acquire);
        // SAFETY: from a box, and no borrow of `self` is left.
        (!value.is_null()).then(|| unsafe { Box::from_raw(value) })
    }
}

impl<T> Drop for OnceBox<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_value_is_made_once() {
        let place = OnceBox::<u32>::default();
        assert_eq!((place.get(), size_of_val(&place)), (None, 8));
        assert_eq!((*place.get_or_make(|| 7), *place.get_or_make(|| 8)), (7, 7));
        assert_eq!(place.get(), Some(&7));
    }

    #[test]
    fn a_value_is_taken_out() {
        let mut place = OnceBox::<u32>::default();
        assert_eq!(place.take(), None);
        place.get_or_make(|| 7);
        assert_eq!((place.take(), place.get()), (Some(Box::new(7)), None));
        assert_eq!(*place.get_or_make(|| 8), 8);
    }

    #[test]
    fn stress_one_value_for_all_and_nothing_leaks() {
        let owner = Arc::new(());
        for _ in 0..500 {
            let place = OnceBox::default();
            let all: Vec<*const Arc<()>> = std::thread::scope(|scope| {
                let make = || &raw const *place.get_or_make(|| owner.clone()) as usize;
                let threads: Vec<_> = (0..3).map(|_| scope.spawn(make)).collect();
                let values = threads.into_iter().map(|thread| thread.join().unwrap());
                values.map(|value| value as *const Arc<()>).collect()
            });
            assert!(all.iter().all(|value| *value == all[0]));
            assert_eq!(Arc::strong_count(&owner), 2);
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

    /// Two threads make a value while a third looks. All see the same whole value, and the other one is freed.
    #[test]
    fn all_threads_see_one_value() {
        check(3, || {
            let place = Arc::new(OnceBox::default());
            let made = || {
                let place = place.clone();
                thread::spawn(move || place.get_or_make(|| Tracked::new(1)).read())
            };
            let threads = [made(), made()];
            if let Some(value) = place.get() {
                assert_eq!(value.read(), 1);
            }
            for thread in threads {
                assert_eq!(thread.join().unwrap(), 1);
            }
            assert!(place.get().is_some());
        });
    }
}
