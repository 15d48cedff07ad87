// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cycle counter of the processor.

/// Reads the CPU's cycle counter, or nanoseconds if there is none.
#[inline]
#[allow(unsafe_code)] // the intrinsic is unsafe by declaration only
pub fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: RDTSC has no preconditions on x86-64.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::sync::OnceLock;
        use std::time::Instant;
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}
