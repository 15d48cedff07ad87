// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pointers that readers load under a guard and writers replace: Linux's `rcu_dereference` and
//! `rcu_replace_pointer`, including the free.
#![allow(unsafe_code)] // owns boxes behind atomic pointers

use super::{Domain, Guard};
use crate::primitive::atomic::{AtomicPtr, Ordering};
use core::fmt;
use std::sync::Arc;

/// A published value that is always present. The handle is two words; the value is in a box of its
/// own.
///
/// Readers never wait. Writers do not wait for each other either: the last replacement wins, and
/// each replaced value is freed once. A writer whose new value depends on the old one needs a lock
/// of its own.
///
/// Ordering: a load acquires what the replacement released.
pub struct Published<T: Send + Sync + 'static> {
    inner: PublishedOption<T>,
}

impl<T: Send + Sync + 'static> Published<T> {
    /// Publishes `value` in `domain`.
    pub fn new(domain: &Domain, value: T) -> Self {
        Self {
            inner: PublishedOption::new(domain, Some(value)),
        }
    }

    /// Returns the value. Any thread that holds a guard of the same domain may call it; panics on
    /// another domain's guard.
    #[inline]
    pub fn load<'g>(&'g self, guard: &'g Guard) -> &'g T {
        self.inner
            .load(guard)
            .expect("a Published always holds a value")
    }

    /// Replaces the value; the old one is dropped after a grace period. Any thread may call it,
    /// with or without a guard.
    pub fn replace(&self, value: T) {
        self.inner.replace(Some(value));
    }

    /// Replaces the value and returns the old one, which is dropped after a grace period.
    pub fn swap<'g>(&'g self, value: T, guard: &'g Guard) -> &'g T {
        self.inner
            .swap(Some(value), guard)
            .expect("a Published always holds a value")
    }

    /// Returns the domain in which the value is published.
    pub fn domain(&self) -> &Domain {
        self.inner.domain()
    }

    /// Returns the value, by exclusive borrow.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner
            .get_mut()
            .expect("a Published always holds a value")
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for Published<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.load(&self.inner.domain.pin()).fmt(f)
    }
}

/// A published value that may be absent; otherwise like [`Published`].
pub struct PublishedOption<T: Send + Sync + 'static> {
    pointer: AtomicPtr<T>,
    domain: Domain,
}

impl<T: Send + Sync + 'static> PublishedOption<T> {
    /// Publishes `value` in `domain`.
    pub fn new(domain: &Domain, value: Option<T>) -> Self {
        Self {
            pointer: AtomicPtr::new(into_raw(value)),
            domain: domain.clone(),
        }
    }

    /// Returns the value, if there is one. Any thread that holds a guard of the same domain may
    /// call it; panics on another domain's guard.
    #[inline]
    pub fn load<'g>(&'g self, guard: &'g Guard) -> Option<&'g T> {
        guard.check(&self.domain);
        // SAFETY: a value is freed only after a grace period from its replacement, which the guard
        // blocks, or by the drop of `self`, which the borrow of `self` excludes.
        unsafe { self.pointer.load(Ordering::Acquire).as_ref() }
    }

    /// Returns true if there is a value. Needs no guard; the answer may be outdated when it is
    /// used.
    #[inline]
    pub fn is_some(&self) -> bool {
        !self.pointer.load(Ordering::Relaxed).is_null()
    }

    /// Replaces the value; the old one is dropped after a grace period. Any thread may call it,
    /// with or without a guard. Returns true if there was an old value.
    pub fn replace(&self, value: Option<T>) -> bool {
        let old = self.pointer.swap(into_raw(value), Ordering::AcqRel);
        self.retire(old);
        !old.is_null()
    }

    /// Replaces the value and returns the old one, which is dropped after a grace period.
    pub fn swap<'g>(&'g self, value: Option<T>, guard: &'g Guard) -> Option<&'g T> {
        guard.check(&self.domain);
        let old = self.pointer.swap(into_raw(value), Ordering::AcqRel);
        self.retire(old);
        // SAFETY: it was retired while the guard is held, so it is not freed before the guard is
        // gone.
        unsafe { old.as_ref() }
    }

    /// Removes and returns the value. See [`PublishedOption::swap`].
    pub fn take<'g>(&'g self, guard: &'g Guard) -> Option<&'g T> {
        self.swap(None, guard)
    }

    /// Returns the value, by exclusive borrow.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: no reader can hold a reference, because each borrows `self`.
        unsafe { self.pointer.load(Ordering::Acquire).as_mut() }
    }

    /// Returns the domain in which the value is published.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    fn retire(&self, old: *mut T) {
        if !old.is_null() {
            // SAFETY: it came from `into_raw`, and only one swap unlinked it.
            unsafe { self.domain.retire(old) };
        }
    }
}

/// A published value that is shared with other owners; otherwise like [`PublishedOption`]. The box
/// is the [`Arc`]'s own, and a reader can keep the value beyond its guard at the cost of a
/// reference.
pub struct PublishedArc<T: Send + Sync + 'static> {
    pointer: AtomicPtr<T>,
    domain: Domain,
}

impl<T: Send + Sync + 'static> PublishedArc<T> {
    /// Publishes `value` in `domain`.
    pub fn new(domain: &Domain, value: Option<Arc<T>>) -> Self {
        Self {
            pointer: AtomicPtr::new(arc_into_raw(value)),
            domain: domain.clone(),
        }
    }

    /// Returns the value, if there is one, as [`PublishedOption::load`] does.
    #[inline]
    pub fn load<'g>(&'g self, guard: &'g Guard) -> Option<&'g T> {
        guard.check(&self.domain);
        // SAFETY: this pointer's reference is given up only after a grace period from its
        // replacement, which the guard blocks, or by the drop of `self`, which the borrow of `self`
        // excludes.
        unsafe { self.pointer.load(Ordering::Acquire).as_ref() }
    }

    /// Returns a new reference to the value, if there is one.
    #[inline]
    pub fn get(&self, guard: &Guard) -> Option<Arc<T>> {
        let value: *const T = self.load(guard)?;
        // SAFETY: it came from `Arc::into_raw`, and this pointer's reference is kept as in `load`
        // while the new one is taken.
        unsafe {
            Arc::increment_strong_count(value);
            Some(Arc::from_raw(value))
        }
    }

    /// Replaces the value; the reference to the old one is dropped after a grace period.
    pub fn replace(&self, value: Option<Arc<T>>) {
        let old = self.pointer.swap(arc_into_raw(value), Ordering::AcqRel);
        if !old.is_null() {
            // SAFETY: from `arc_into_raw`, and only one swap unlinked it.
            self.domain.defer_drop(unsafe { Arc::from_raw(old) });
        }
    }
}

impl<T: Send + Sync + 'static> Drop for PublishedArc<T> {
    fn drop(&mut self) {
        let value = self.pointer.load(Ordering::Acquire);
        if !value.is_null() {
            // SAFETY: from `arc_into_raw`; no reader is left, because each borrows `self`.
            drop(unsafe { Arc::from_raw(value) });
        }
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for PublishedArc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load(&self.domain.pin()).fmt(f)
    }
}

fn arc_into_raw<T>(value: Option<Arc<T>>) -> *mut T {
    value.map_or(core::ptr::null_mut(), |value| {
        Arc::into_raw(value).cast_mut()
    })
}

fn into_raw<T>(value: Option<T>) -> *mut T {
    value.map_or(core::ptr::null_mut(), |value| {
        Box::into_raw(Box::new(value))
    })
}

impl<T: Send + Sync + 'static> Drop for PublishedOption<T> {
    fn drop(&mut self) {
        let value = self.pointer.load(Ordering::Acquire);
        if !value.is_null() {
            // SAFETY: from `into_raw`; no reader is left, because each borrows `self`.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for PublishedOption<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load(&self.domain.pin()).fmt(f)
    }
}
