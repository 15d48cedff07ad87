// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one door to atomics, cells and threads.
//!
//! All lock-free code in the workspace takes its atomics, fences, cells, thread functions and
//! thread-locals from here, so that `--cfg loom` swaps the lot for the model checker's. The names and
//! shapes are loom's where the two differ (`UnsafeCell::with`). `Arc` is std's in both worlds: its
//! counts are never the subject of a model, and loom's has neither `Weak` nor unsized contents.
//!
//! Also here, because they differ between the worlds: [`Backoff`] (waiting), [`CachePadded`],
//! [`full_fence`] and [`prefetch`].
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
/// Raw memory; loom reports what is not freed, or freed twice.
pub use imp::{alloc, dealloc};
pub use std::sync::{Arc, Weak};

#[cfg(loom)]
pub use loom::cell::UnsafeCell;

/// A cell whose contents are reached through raw pointers inside a closure, as loom's.
#[cfg(not(loom))]
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    /// Calls `f` with a pointer for reading; the caller of the unsafe dereference upholds aliasing.
    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Calls `f` with a pointer for writing; the caller of the unsafe dereference upholds aliasing.
    #[inline(always)]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }

    /// Unwraps the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

/// Keeps a value on cache lines of its own: 128 bytes, as adjacent lines are fetched in pairs.
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

/// How a thread waits for another: first spinning, then yielding, then (only [`Backoff::snooze`])
/// sleeping for 50 microseconds at a time. Under loom every step is a yield.
#[derive(Debug, Default)]
pub struct Backoff {
    step: u32,
}

impl Backoff {
    /// Rounds of doubling spins before the processor is given away.
    const SPIN: u32 = 6;
    /// Rounds before `snooze` sleeps.
    #[cfg(not(loom))]
    const YIELD: u32 = 64;

    /// A fresh wait.
    pub const fn new() -> Self {
        Self { step: 0 }
    }

    /// Waits a little; never sleeps. For locks held for well under a microsecond.
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

    /// Waits a little, sleeping once it has taken long. For events another thread decides on.
    pub fn snooze(&mut self) {
        #[cfg(not(loom))]
        if self.step > Self::YIELD {
            return thread::sleep(core::time::Duration::from_micros(50));
        }
        self.spin();
    }
}

/// A sequentially consistent fence, where the thread has just done an atomic read-modify-write.
///
/// On x86 the locked instruction, whatever its ordering, is that fence already, so only the compiler
/// is held back; elsewhere, under loom and under Miri it is a real fence.
#[inline(always)]
pub fn full_fence() {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
    #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
    atomic::fence(atomic::Ordering::SeqCst);
}

/// Asks for the cache line at `pointer` ahead of a write, away from whatever processor has it. Any
/// address will do: it cannot fault.
#[inline(always)]
pub fn prefetch_to_write<T>(pointer: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint; it does not access memory as far as the program can tell.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_ET0>(pointer.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = pointer;
}

/// Asks for the cache line at `pointer` ahead of a read. Any address will do: it cannot fault.
#[inline(always)]
pub fn prefetch<T>(pointer: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint; it does not access memory as far as the program can tell.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(pointer.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = pointer;
}
