// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Times as the table keeps them: ticks of 10 ms in 32 bits, compared by their difference.

/// The nanoseconds in a tick.
const TICK: u64 = 10_000_000;
/// The ticks in a second.
const SECOND: u32 = 100;

/// Returns the time in ticks.
#[inline(always)]
pub(crate) fn ticks(now: u64) -> u32 {
    (now / TICK) as u32
}

/// Returns seconds as ticks, at most half of the range (`INT_MAX` jiffies in Linux).
#[inline(always)]
pub(crate) fn seconds(seconds: u32) -> u32 {
    seconds.saturating_mul(SECOND).min(i32::MAX as u32)
}

/// Returns whether a deadline has passed (`nf_ct_is_expired`).
#[inline(always)]
pub(crate) fn is_over(deadline: u32, now: u32) -> bool {
    deadline.wrapping_sub(now) as i32 <= 0
}

/// Returns the seconds until a deadline, rounded down.
pub(crate) fn left(deadline: u32, now: u32) -> u32 {
    let left = deadline.wrapping_sub(now) as i32;
    left.max(0) as u32 / SECOND
}
