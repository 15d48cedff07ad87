// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The only source of atomics, cells and threads.
//!
//! All lock-free code in the workspace takes its atomics, fences, cells, thread functions and
//! thread-locals from here, so `--cfg loom` replaces all of them with the model checker's. Where
//! the two differ, names and shapes follow loom's (`UnsafeCell::with`). `Arc` is std's in both
//! configurations: no model is about its counts, and loom's supports neither `Weak` nor unsized
//! contents.
//!
//! The module also has [`Backoff`] (waiting), [`CachePadded`], [`full_fence`] and [`prefetch`],
//! which differ between the two configurations.
#![allow(unsafe_code)] // `prefetch` calls an intrinsic which cannot fault

#[cfg(not(loom))]
mod imp {
    pub use core::sync::atomic;
    pub use std::alloc::{alloc, dealloc};
    pub use std::sync::{Condvar, Mutex, MutexGuard};
    pub use std::thread;
}
#[cfg(loom)]
mod imp {
    pub use loom::alloc::{alloc, dealloc};
    pub use loom::sync::{Condvar, Mutex, MutexGuard, atomic};
    pub use loom::thread;
}

pub use imp::{Condvar, Mutex, MutexGuard, atomic, thread};
/// Raw memory. Loom reports leaks and double frees.
pub use imp::{alloc, dealloc};
pub use std::sync::{Arc, Weak};

#[cfg(loom)]
pub use loom::cell::UnsafeCell;

/// A cell whose content is accessed through raw pointers inside a closure, as loom's is.
#[cfg(not(loom))]
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// Wraps `value`.
    pub const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    /// Calls `f` with a pointer for reading. Code that dereferences it upholds the aliasing rules.
    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Calls `f` with a pointer for writing. Code that dereferences it upholds the aliasing rules.
    #[inline(always)]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

/// Keeps a value on cache lines of its own: 128 bytes, because adjacent lines are fetched in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

impl<T> core::ops::Deref for CachePadded<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> core::ops::DerefMut for CachePadded<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// A backoff for waiting on another thread: it spins first, then yields, then (only in
/// [`Backoff::snooze`]) sleeps for 50 microseconds at a time. Under loom every step is a yield.
#[derive(Debug, Default)]
pub struct Backoff {
    step: u32,
}

impl Backoff {
    /// Rounds of doubling spins before the thread yields the processor.
    const SPIN: u32 = 6;
    /// Rounds before `snooze` sleeps.
    #[cfg(not(loom))]
    const YIELD: u32 = 64;

    /// Creates a backoff at its first step.
    pub const fn new() -> Self {
        Self { step: 0 }
    }

    /// Waits briefly, without ever sleeping. For locks held for well under a microsecond.
    #[inline]
    pub fn spin(&mut self) {
        if self.step > Self::SPIN || cfg!(loom) {
            thread::yield_now();
        } else {
            for _ in 0..1u32 << self.step {
                core::hint::spin_loop();
            }
        }
        self.step = self.step.saturating_add(1);
    }

    /// Waits briefly, and sleeps once the wait has taken long. For events that another thread
    /// decides on.
    pub fn snooze(&mut self) {
        #[cfg(not(loom))]
        if self.step > Self::YIELD {
            return thread::sleep(core::time::Duration::from_micros(50));
        }
        self.spin();
    }
}

/// Issues a sequentially consistent fence, in a thread that has just done an atomic
/// read-modify-write.
///
/// On x86 the locked instruction, whatever its ordering, is already that fence, so only the
/// compiler must be restrained. Elsewhere, and under loom and Miri, this is a real fence.
#[inline(always)]
pub fn full_fence() {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
    #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
    atomic::fence(atomic::Ordering::SeqCst);
}

/// Prefetches the cache line at `pointer` for writing, taking it from another processor's cache if
/// necessary. Any address is allowed: it cannot fault.
#[inline(always)]
pub fn prefetch_to_write<T>(pointer: *const T) {
    // The intrinsic becomes a prefetch for reading unless the target has a feature that the baseline of x86-64 lacks,
    // and a line that is read first moves twice. Processors without the instruction take it for a no-op.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint; it has no effect on memory that a program can observe.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = pointer;
}

/// Prefetches the cache line at `pointer` for reading. Any address is allowed: it cannot fault.
#[inline(always)]
pub fn prefetch<T>(pointer: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint; it has no effect on memory that a program can observe.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(pointer.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = pointer;
}
