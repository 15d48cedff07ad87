// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Units of time: all times are in nanoseconds.

/// Nanoseconds per millisecond.
pub const MS: u64 = 1_000_000;
/// Nanoseconds per second.
pub const SECOND: u64 = 1_000_000_000;
/// How long TIME_WAIT lasts (`TCP_TIMEWAIT_LEN`).
pub const TIME_WAIT: u64 = 60 * SECOND;
