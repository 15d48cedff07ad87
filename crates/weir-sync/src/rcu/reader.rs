// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reader slots, [`Reader`] and [`Guard`]. The protocol is told at the head of [`crate::rcu`].
//!
//! A slot's word: bits 0-15 the guards that hold it, bit 16 set while a [`Reader`] owns it, the rest
//! the epoch. Zero: free for anyone to claim. Slots are never given back before the domain ends, so
//! there are as many as there were ever readers and guards at one time.
//!
//! A slot in use accounts for one strong count of the domain; whoever takes it from "last guard, no
//! owner" back to zero gives that count back. So a guard borrows nothing: it may outlive its reader.
#![allow(unsafe_code)] // raw slots and hand-kept reference counts

use super::callback::owes;
use super::domain::{Domain, Inner};
use crate::percpu::thread_token;
use crate::primitive::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::primitive::{Arc, CachePadded, full_fence};
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

const COUNT: u64 = 0xffff;
const OWNED: u64 = 1 << 16;
const EPOCH_SHIFT: u32 = 17;

#[cfg(not(loom))]
thread_local! {
    /// See [`guards_held`].
    static HELD: Cell<usize> = const { Cell::new(0) };
}
#[cfg(loom)]
loom::thread_local! {
    static HELD: Cell<usize> = Cell::new(0);
}

/// Guards the calling thread holds, of all domains.
#[inline(always)]
pub(super) fn guards_held() -> usize {
    HELD.with(Cell::get)
}

pub(super) struct Slot {
    word: AtomicU64,
    /// Token of the thread that pinned last; only ever compared with one's own.
    thread: AtomicUsize,
    next: AtomicPtr<CachePadded<Slot>>,
}

/// All slots of a domain: a list that only grows, at its head.
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
        // SAFETY: slots live until the domain's drop, which has `&mut self`.
        let deref = |slot: *mut CachePadded<Slot>| unsafe { slot.as_ref() };
        core::iter::successors(deref(self.head.load(Ordering::Acquire)), move |slot| {
            deref(slot.next.load(Ordering::Acquire))
        })
        .map(|slot| &slot.0)
    }

    /// Takes a free slot, making one if there is none, and leaves `word()` in it.
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
        })));
        loop {
            match self
                .head
                .compare_exchange(head, slot, Ordering::SeqCst, Ordering::Acquire)
            {
                Ok(_) => break,
                Err(now) => head = now,
            }
            // SAFETY: still ours alone; not yet linked.
            unsafe { &*slot }.next.store(head, Ordering::Relaxed);
        }
        // SAFETY: from a box, not null.
        unsafe { NonNull::from(&(*slot).0) }
    }

    /// The least epoch among the pinned slots, at most `now`.
    pub(super) fn least(&self, now: u64) -> u64 {
        self.iter()
            .map(|slot| slot.word.load(Ordering::Acquire))
            .filter(|word| word & COUNT != 0)
            .fold(now, |least, word| least.min(word >> EPOCH_SHIFT))
    }

    /// Does the calling thread hold a guard of this domain?
    pub(super) fn held_here(&self) -> bool {
        let here = thread_token();
        guards_held() != 0
            && self.iter().any(|slot| {
                slot.word.load(Ordering::Relaxed) & COUNT != 0
                    && slot.thread.load(Ordering::Relaxed) == here
            })
    }

    /// Readers registered, guards held, slots.
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
            // SAFETY: made by `claim` from a box; no guard or reader is left to point to it.
            let boxed = unsafe { Box::from_raw(slot) };
            slot = boxed.next.load(Ordering::Acquire);
        }
    }
}

/// A slot in use and the domain it keeps alive.
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
        // SAFETY: `inner` is what the domain's `Arc` points to.
        unsafe { Arc::increment_strong_count(inner.as_ptr()) };
        Self { slot, inner }
    }

    #[inline(always)]
    fn slot(&self) -> &Slot {
        // SAFETY: lives as long as the domain, of which this claim holds a count.
        unsafe { self.slot.as_ref() }
    }

    #[inline(always)]
    fn inner(&self) -> &Inner {
        // SAFETY: this claim holds a strong count.
        unsafe { self.inner.as_ref() }
    }

    /// Frees the slot: called by whoever saw the last guard and the owner gone.
    #[cold]
    fn release(self) {
        self.slot().word.store(0, Ordering::Release);
        // SAFETY: gives back the count taken in `new`; this is the end of the claim.
        unsafe { Arc::decrement_strong_count(self.inner.as_ptr()) };
    }
}

#[inline(always)]
fn pinned_word(inner: &Inner) -> u64 {
    (inner.epoch.load(Ordering::SeqCst) << EPOCH_SHIFT) | 1
}

/// A registered reader, for a thread that pins over and over: one per stack CPU, or per connection.
///
/// It may move to another thread, and be dropped while guards of it exist (they stay good).
pub struct Reader {
    claim: Claim,
}

// SAFETY: a claim's word is changed by atomic read-modify-writes only, from any thread.
unsafe impl Send for Reader {}
// SAFETY: as above; a second thread's guard rides on the epoch of the first.
unsafe impl Sync for Reader {}

impl Reader {
    pub(super) fn new(domain: &Domain) -> Self {
        Self {
            claim: Claim::new(domain, || OWNED),
        }
    }

    /// Starts a read section. Any thread, any context; never waits. Nests: inner guards ride on the
    /// epoch of the outermost one.
    ///
    /// Ordering: a full fence; loads under the guard are not moved before it.
    ///
    /// # Panics
    /// When 65,535 guards of this reader exist, as only leaking them can bring about.
    #[inline]
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

    /// The domain it reads.
    pub fn domain(&self) -> Domain {
        self.claim.inner().handle()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
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

/// A read section: what is loaded with it stays valid until it is dropped or re-pinned.
///
/// Stays on its thread. Hold it for a batch or a request, not across a wait: while it exists no grace
/// period that began after it can end.
pub struct Guard {
    claim: Claim,
    here: PhantomData<*const ()>,
}

// SAFETY: `&Guard` only proves that the section is open; it is closed by value.
unsafe impl Sync for Guard {}

impl Guard {
    /// A guard in a slot of its own.
    pub(super) fn new(domain: &Domain) -> Self {
        Self::enter(Claim::new(domain, || pinned_word(domain.inner())))
    }

    #[inline(always)]
    fn enter(claim: Claim) -> Self {
        full_fence();
        claim.slot().thread.store(thread_token(), Ordering::Relaxed);
        HELD.with(|held| held.set(held.get() + 1));
        Self {
            claim,
            here: PhantomData,
        }
    }

    /// Ends this section and starts the next one: what a stack CPU does once per loop turn. Without
    /// effect while another guard of the same reader exists.
    ///
    /// Costs one load when no grace period began since, else as [`Reader::pin`].
    #[inline]
    pub fn repin(&mut self) {
        let slot = self.claim.slot();
        let word = slot.word.load(Ordering::Relaxed);
        let epoch = self.claim.inner().epoch.load(Ordering::SeqCst);
        if word & COUNT != 1 || word >> EPOCH_SHIFT == epoch {
            return;
        }
        let next = (epoch << EPOCH_SHIFT) | (word & OWNED) | 1;
        // Fails only if another guard came or the owner went meanwhile: then the next turn will do.
        let _ = slot
            .word
            .compare_exchange(word, next, Ordering::SeqCst, Ordering::Relaxed);
        full_fence();
    }

    /// The domain it holds.
    pub fn domain(&self) -> Domain {
        self.claim.inner().handle()
    }

    /// Panics unless the guard is one of `domain`: an object is only as safe as the guard it is read
    /// under.
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
        // Before the slot is let go, for then the domain may be gone too.
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
