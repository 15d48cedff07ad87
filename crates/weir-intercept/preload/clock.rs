// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A library that is preloaded into programs whose clock is the stack's: reads of the clock become system calls, which
//! the supervisor answers.
//!
//! The C library reads the clock without a system call, from the kernel's vDSO. `build.rs` compiles this file on its own
//! and the crate embeds the result; it needs no other library.
#![no_std]
#![crate_type = "cdylib"]

use core::arch::asm;

#[cfg(target_arch = "x86_64")]
const CLOCK_GETTIME: usize = 228;
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
const CLOCK_GETTIME: usize = 113;
const CLOCK_REALTIME: i32 = 0;
const TIME_UTC: i32 = 1;
const EFAULT: i32 = 14;

/// `struct timespec`, and with microseconds `struct timeval`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Time {
    seconds: i64,
    fraction: i64,
}

extern "C" {
    fn __errno_location() -> *mut i32;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// Calls `clock_gettime` of the kernel.
fn read(clock: i32, time: *mut Time) -> isize {
    let result: isize;
    // SAFETY: the kernel checks the address.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("syscall", inlateout("rax") CLOCK_GETTIME as isize => result, in("rdi") clock as isize, in("rsi") time,
             lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("svc 0", in("x8") CLOCK_GETTIME, inlateout("x0") clock as isize => result, in("x1") time, options(nostack));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "riscv64")]
    unsafe {
        asm!("ecall", in("a7") CLOCK_GETTIME, inlateout("a0") clock as isize => result, in("a1") time, options(nostack));
    }
    result
}

/// # Safety
/// As of the C library.
#[no_mangle]
pub unsafe extern "C" fn clock_gettime(clock: i32, time: *mut Time) -> i32 {
    match read(clock, time) {
        0 => 0,
        error => {
            *__errno_location() = -error as i32;
            -1
        }
    }
}

/// # Safety
/// As of the C library.
#[no_mangle]
pub unsafe extern "C" fn gettimeofday(time: *mut Time, zone: *mut [i32; 2]) -> i32 {
    if !zone.is_null() {
        *zone = [0; 2];
    }
    let mut now = Time { seconds: 0, fraction: 0 };
    if read(CLOCK_REALTIME, &mut now) != 0 {
        *__errno_location() = EFAULT;
        return -1;
    }
    if !time.is_null() {
        *time = Time { seconds: now.seconds, fraction: now.fraction / 1000 };
    }
    0
}

/// # Safety
/// As of the C library.
#[no_mangle]
pub unsafe extern "C" fn time(result: *mut i64) -> i64 {
    let mut now = Time { seconds: 0, fraction: 0 };
    read(CLOCK_REALTIME, &mut now);
    if !result.is_null() {
        *result = now.seconds;
    }
    now.seconds
}

/// # Safety
/// As of the C library.
#[no_mangle]
pub unsafe extern "C" fn timespec_get(time: *mut Time, base: i32) -> i32 {
    if base == TIME_UTC && read(CLOCK_REALTIME, time) == 0 {
        return base;
    }
    0
}
