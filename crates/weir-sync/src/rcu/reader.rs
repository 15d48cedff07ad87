// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reader slots, [`Reader`] and [`Guard`]. [`crate::rcu`] explains the protocol.
//!
//! A slot's word holds the number of guards in bits 0-15, a flag in bit 16 that is set while a
//! [`Reader`] owns the slot, and the epoch in the rest. A zero word means that any thread may claim
//! the slot. Slots are not freed before the domain is dropped, so there are as many as the peak
//! number of readers and guards.
//!
//! A slot in use accounts for one strong count of the domain. The thread that takes it from "last
//! guard, no owner" back to zero gives that count back. So a guard borrows nothing, and may outlive
//! its reader.
#![allow(unsafe_code)] // raw slots and hand-kept reference counts

use super::callback::owes;
use super::domain::{Domain, Inner};
use super::watch::{SlowReader, Trail};
use crate::percpu::thread_token;
use crate::primitive::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::primitive::{Arc, CachePadded, full_fence};
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::panic::Location;
use core::ptr::NonNull;

const COUNT: u64 = 0xffff;
const OWNED: u64 = 1 << 16;
const EPOCH_SHIFT: u32 = 17;

#[cfg(not(loom))]
thread_local! {
    /// The count returned by [`guards_held`].
    static HELD: Cell<usize> = const { Cell::new(0) };
}
#[cfg(loom)]
loom::thread_local! {
    static HELD: Cell<usize> = Cell::new(0);
}

/// Returns the number of guards the calling thread holds, of all domains.
#[inline(always)]
pub(super) fn guards_held() -> usize {
    HELD.with(Cell::get)
}

pub(super) struct Slot {
    word: AtomicU64,
    /// The token of the thread that pinned last. A thread only compares it with its own token.
    thread: AtomicUsize,
    next: AtomicPtr<CachePadded<Slot>>,
    /// What reports show about the reader.
    trail: Trail,
}

/// All slots of a domain: a linked list that only grows, at its head.
pub(super) struct Slots {
    head: AtomicPtr<CachePadded<Slot>>,
}

impl Slots {
    pub(super) fn new() -> Self {
        Self {
            head: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Slot> {
        // SAFETY: slots live until the domain is dropped, which takes `&mut self`.
        let deref = |slot: *mut CachePadded<Slot>| unsafe { slot.as_ref() };
        core::iter::successors(deref(self.head.load(Ordering::Acquire)), move |slot| {
            deref(slot.next.load(Ordering::Acquire))
        })
        .map(|slot| &slot.0)
    }

    /// Claims a free slot, or creates one if there is none, and stores `word()` in it.
    fn claim(&self, word: impl Fn() -> u64) -> NonNull<Slot> {
        for slot in self.iter() {
            if slot.word.load(Ordering::Relaxed) == 0
                && slot
                    .word
                    .compare_exchange(0, word(), Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok()
            {
                return NonNull::from(slot);
            }
        }
        let mut head = self.head.load(Ordering::Acquire);
        let slot = Box::into_raw(Box::new(CachePadded(Slot {
            word: AtomicU64::new(word()),
            thread: AtomicUsize::new(0),
            next: AtomicPtr::new(head),
            trail: Trail::default(),
        })));
        loop {
            match self
                .head
                .compare_exchange(head, slot, Ordering::SeqCst, Ordering::Acquire)
            {
                Ok(_) => break,
                Err(now) => head = now,
            }
            // SAFETY: not linked yet, so no other thread has access.
            unsafe { &*slot }.next.store(head, Ordering::Relaxed);
        }
        // SAFETY: it came from a box, so it is not null.
        unsafe { NonNull::from(&(*slot).0) }
    }

    /// Returns the minimum of `now` and the epochs of the pinned slots.
    pub(super) fn least(&self, now: u64) -> u64 {
        self.iter()
            .map(|slot| slot.word.load(Ordering::Acquire))
            .filter(|word| word & COUNT != 0)
            .fold(now, |least, word| least.min(word >> EPOCH_SHIFT))
    }

    /// Returns true if the calling thread holds a guard of this domain.
    pub(super) fn held_here(&self) -> bool {
        let here = thread_token();
        guards_held() != 0
            && self.iter().any(|slot| {
                slot.word.load(Ordering::Relaxed) & COUNT != 0
                    && slot.thread.load(Ordering::Relaxed) == here
            })
    }

    /// Returns the pinned reader with the oldest epoch, and that epoch.
    pub(super) fn oldest(&self) -> Option<(u64, SlowReader)> {
        let pinned = self.iter().filter_map(|slot| {
            let word = slot.word.load(Ordering::Acquire);
            (word & COUNT != 0).then_some((word >> EPOCH_SHIFT, slot))
        });
        let (epoch, slot) = pinned.min_by_key(|(epoch, _)| *epoch)?;
        Some((epoch, slot.trail.read()))
    }

    /// Returns the numbers of readers registered, of guards held, and of slots.
    pub(super) fn census(&self) -> (usize, usize, usize) {
        self.iter()
            .fold((0, 0, 0), |(readers, guards, slots), slot| {
                let word = slot.word.load(Ordering::Relaxed);
                let owned = usize::from(word & OWNED != 0);
                (readers + owned, guards + (word & COUNT) as usize, slots + 1)
            })
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        let mut slot = self.head.load(Ordering::Acquire);
        while !slot.is_null() {
            // SAFETY: created by `claim` from a box; no guard or reader is left that points to it.
            let boxed = unsafe { Box::from_raw(slot) };
            slot = boxed.next.load(Ordering::Acquire);
        }
    }
}

/// A slot in use, and the domain it keeps alive.
#[derive(Clone, Copy)]
struct Claim {
    slot: NonNull<Slot>,
    inner: NonNull<Inner>,
}

impl Claim {
    /// Claims a slot and takes a strong count of the domain for it.
    fn new(domain: &Domain, word: impl Fn() -> u64) -> Self {
        let slot = domain.inner().slots.claim(word);
        let inner = NonNull::from(domain.inner());
        // SAFETY: `inner` is the pointer of the domain's `Arc`.
        unsafe { Arc::increment_strong_count(inner.as_ptr()) };
        Self { slot, inner }
    }

    #[inline(always)]
    fn slot(&self) -> &Slot {
        // SAFETY: the slot lives as long as the domain, of which this claim holds a count.
        unsafe { self.slot.as_ref() }
    }

    #[inline(always)]
    fn inner(&self) -> &Inner {
        // SAFETY: this claim holds a strong count.
        unsafe { self.inner.as_ref() }
    }

    /// Frees the slot. Called by the thread that saw both the last guard and the owner gone.
    #[cold]
    fn release(self) {
        let slot = self.slot();
        // Another thread may get this one's token.
        slot.thread.store(0, Ordering::Relaxed);
        slot.word.store(0, Ordering::Release);
        // SAFETY: gives back the count taken in `new`, and ends the claim.
        unsafe { Arc::decrement_strong_count(self.inner.as_ptr()) };
    }
}

#[inline(always)]
fn pinned_word(inner: &Inner) -> u64 {
    (inner.epoch.load(Ordering::SeqCst) << EPOCH_SHIFT) | 1
}

/// A registered reader, for a thread that pins repeatedly: one per stack CPU or per connection.
///
/// It may move to another thread, and may be dropped while it has guards, which stay valid.
pub struct Reader {
    claim: Claim,
    /// The slot has the reader's name, which ends with the reader.
    named: bool,
}

// SAFETY: a claim's word is changed only by atomic read-modify-writes, from any thread.
unsafe impl Send for Reader {}
// SAFETY: as above; a second thread's guard is covered by the epoch of the first.
unsafe impl Sync for Reader {}

impl Reader {
    pub(super) fn new(domain: &Domain, name: Option<&str>) -> Self {
        let claim = Claim::new(domain, || OWNED);
        let named = name.is_some();
        if named {
            claim.slot().trail.set_name(name.map(Box::from));
        }
        Self { claim, named }
    }

    /// Starts a read section. Any thread may call it in any context; it never waits. Nests: inner
    /// guards share the epoch of the outermost one.
    ///
    /// Ordering: a full fence; loads under the guard are not moved before it.
    ///
    /// # Panics
    /// If 65,535 guards of this reader exist, which only leaking guards can cause.
    #[inline]
    #[track_caller]
    pub fn pin(&self) -> Guard {
        let slot = self.claim.slot();
        let mut word = slot.word.load(Ordering::Relaxed);
        loop {
            let next = if word & COUNT == 0 {
                pinned_word(self.claim.inner()) | OWNED
            } else {
                assert!(
                    word & COUNT < COUNT,
                    "a reader's guards are dropped, not leaked"
                );
                word + 1
            };
            match slot
                .word
                .compare_exchange_weak(word, next, Ordering::SeqCst, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        Guard::enter(self.claim)
    }

    /// Returns the reader's domain.
    pub fn domain(&self) -> Domain {
        self.claim.inner().handle()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.named {
            self.claim.slot().trail.set_name(None);
        }
        let word = self.claim.slot().word.fetch_and(!OWNED, Ordering::AcqRel);
        if word & COUNT == 0 {
            self.claim.release();
        }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reader")
    }
}

/// A read section: everything loaded under it stays valid until it is dropped or re-pinned.
///
/// A guard stays on its thread. Hold it for a batch or a request, but not across a wait: while it
/// exists, no grace period that began after it can end.
pub struct Guard {
    claim: Claim,
    here: PhantomData<*const ()>,
}

// SAFETY: `&Guard` only proves that the section is open; closing it takes the guard by value.
unsafe impl Sync for Guard {}

impl Guard {
    /// Creates a guard in a slot of its own.
    #[track_caller]
    pub(super) fn new(domain: &Domain) -> Self {
        Self::enter(Claim::new(domain, || pinned_word(domain.inner())))
    }

    #[inline(always)]
    #[track_caller]
    fn enter(claim: Claim) -> Self {
        full_fence();
        let (slot, here) = (claim.slot(), thread_token());
        if slot.thread.load(Ordering::Relaxed) != here {
            slot.thread.store(here, Ordering::Relaxed);
            slot.trail.changed_thread();
        }
        slot.trail.pinned(Location::caller());
        HELD.with(|held| held.set(held.get() + 1));
        Self {
            claim,
            here: PhantomData,
        }
    }

    /// Ends this section and starts the next one, as a stack CPU does once per loop turn. Has no
    /// effect while another guard of the same reader exists.
    ///
    /// Costs one load if no grace period has begun since; otherwise as much as [`Reader::pin`].
    #[inline]
    #[track_caller]
    pub fn repin(&mut self) {
        let slot = self.claim.slot();
        let word = slot.word.load(Ordering::Relaxed);
        let epoch = self.claim.inner().epoch.load(Ordering::SeqCst);
        if word & COUNT != 1 || word >> EPOCH_SHIFT == epoch {
            return;
        }
        let next = (epoch << EPOCH_SHIFT) | (word & OWNED) | 1;
        // Fails only if a guard was added or the owner was dropped meanwhile; the next turn
        // succeeds then.
        let _ = slot
            .word
            .compare_exchange(word, next, Ordering::SeqCst, Ordering::Relaxed);
        full_fence();
        slot.trail.pinned(Location::caller());
    }

    /// Returns the guard's domain.
    pub fn domain(&self) -> Domain {
        self.claim.inner().handle()
    }

    /// Panics unless the guard belongs to `domain`: a guard of another domain does not protect the
    /// object.
    #[inline(always)]
    pub fn check(&self, domain: &Domain) {
        assert!(
            core::ptr::eq(self.claim.inner.as_ptr(), domain.inner()),
            "an object is read under a guard of its own domain"
        );
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        let held = guards_held().wrapping_sub(1);
        HELD.with(|all| all.set(held));
        // Computed before the slot is released, because the domain may be gone afterwards.
        let settle = held == 0 && owes() && !std::thread::panicking();
        let domain = settle.then(|| self.domain());
        let word = self.claim.slot().word.fetch_sub(1, Ordering::AcqRel);
        if word & (COUNT | OWNED) == 1 {
            self.claim.release();
        }
        if let Some(domain) = domain {
            domain.inner().settle();
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}
