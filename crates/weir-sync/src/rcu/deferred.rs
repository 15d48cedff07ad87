// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A closure to be called once later, in four words. Closures of up to three words are stored
//! inline, larger ones are boxed. Dropping a [`Deferred`] drops the closure without calling it.
#![allow(unsafe_code)] // type erasure by hand

use core::mem::{MaybeUninit, align_of, size_of};

type Storage = MaybeUninit<[usize; 3]>;

/// Calls the closure in the storage if the flag is true, and otherwise only drops it.
type Act = unsafe fn(*mut Storage, bool);

pub(super) struct Deferred {
    act: Act,
    storage: Storage,
}

// SAFETY: `new` takes only closures that are `Send`.
unsafe impl Send for Deferred {}

impl Deferred {
    pub(super) fn new<F: FnOnce() + Send + 'static>(f: F) -> Self {
        let mut storage = Storage::uninit();
        if size_of::<F>() <= size_of::<Storage>() && align_of::<F>() <= align_of::<Storage>() {
            // SAFETY: just checked that `F` fits.
            unsafe { storage.as_mut_ptr().cast::<F>().write(f) };
            Self {
                act: act_inline::<F>,
                storage,
            }
        } else {
            // SAFETY: a thin pointer fits into three words.
            unsafe {
                storage
                    .as_mut_ptr()
                    .cast::<*mut F>()
                    .write(Box::into_raw(Box::new(f)))
            };
            Self {
                act: act_boxed::<F>,
                storage,
            }
        }
    }

    /// Calls the closure.
    pub(super) fn call(self) {
        let mut this = core::mem::ManuallyDrop::new(self);
        // SAFETY: the storage holds the closure that `act` was created for, and `this` is not
        // dropped, so the closure is consumed once.
        unsafe { (this.act)(&mut this.storage, true) }
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        // SAFETY: `call` forgets `self`, so the closure is still there.
        unsafe { (self.act)(&mut self.storage, false) }
    }
}

/// # Safety
/// `storage` holds an `F`, which this call consumes.
unsafe fn act_inline<F: FnOnce()>(storage: *mut Storage, call: bool) {
    // SAFETY: by contract.
    let f = unsafe { storage.cast::<F>().read() };
    if call {
        f();
    }
}

/// # Safety
/// `storage` holds a pointer from `Box<F>`, which this call consumes.
unsafe fn act_boxed<F: FnOnce()>(storage: *mut Storage, call: bool) {
    // SAFETY: by contract.
    let f = unsafe { Box::from_raw(storage.cast::<*mut F>().read()) };
    if call {
        f();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Closures without captures, of one word, of three, of more, and over-aligned ones: each is
    /// called once or dropped once.
    #[test]
    fn closures_of_all_sizes_are_called_or_dropped_once() {
        #[repr(align(64))]
        struct Wide(usize);
        let ran = Arc::new(AtomicUsize::new(0));
        let make = |kind: usize| {
            let ran = ran.clone();
            let (pair, large, wide) = ([1usize, 2], [3usize; 9], Wide(4));
            match kind {
                0 => Deferred::new(|| ()),
                1 => Deferred::new(move || _ = ran.fetch_add(1, Ordering::Relaxed)),
                2 => Deferred::new(move || _ = ran.fetch_add(pair[1] - pair[0], Ordering::Relaxed)),
                3 => Deferred::new(move || _ = ran.fetch_add(large[8] - 2, Ordering::Relaxed)),
                _ => Deferred::new(move || {
                    let wide = &wide;
                    ran.fetch_add(wide.0 - 3, Ordering::Relaxed);
                }),
            }
        };
        (0..5).for_each(|kind| make(kind).call());
        assert_eq!(
            (ran.load(Ordering::Relaxed), Arc::strong_count(&ran)),
            (4, 1)
        );
        (0..5).for_each(|kind| drop(make(kind)));
        assert_eq!(
            (ran.load(Ordering::Relaxed), Arc::strong_count(&ran)),
            (4, 1)
        );
    }
}
