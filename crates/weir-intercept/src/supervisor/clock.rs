// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads of the clock under a clock that is not the machine's.
//!
//! The C library reads the clock without a system call. A preloaded library (`preload/clock.rs`) makes it one, which stops
//! here and returns the stack's time. Programs without the C library (Go, static ones) read the machine's clock.
//!
//! A program that reads the clock again and again, and waits for nothing, would never see it move. After
//! [`PATIENCE`] reads at one time a read waits for [`STEP`]. Event loops round the rest of a time down and look at their
//! descriptors without waiting until it has passed (FRR's). After [`LOOKS`] such calls at one time, the next one waits for
//! [`STEP`], or until a descriptor is ready.
use super::{Handled, Supervisor};
use crate::backend::Errno;
use crate::seccomp::{Answer, Call};
use crate::sys;
use crate::waits::{Span, Wait, Waits};
use std::collections::BTreeMap;

/// The value of the clocks that begin with the machine, when the stack's clock begins, in ns.
const BEGIN: u64 = 100 * SECOND;
const SECOND: u64 = 1_000_000_000;
/// The number of reads at one time after which a read lets the clock move.
const PATIENCE: u32 = 2_000;
/// The number of calls with a time-out of 0 at one time after which such a call waits.
const LOOKS: u32 = 64;
/// How far the clock moves for a program that only looks, in ns.
pub(super) const STEP: u64 = 1_000_000;

/// What a process has done at one time.
#[derive(Debug, Default)]
struct Seen {
    /// The time, ns of the stack's clock.
    at: u64,
    /// Reads of the clock, after the first.
    reads: u32,
    /// Calls with a time-out of 0.
    looks: u32,
}

impl Seen {
    /// Begins anew if the clock has moved. Returns whether it has.
    fn follow(&mut self, now: u64) -> bool {
        let moved = self.at != now;
        if moved {
            *self = Self {
                at: now,
                ..Self::default()
            };
        }
        moved
    }
}

/// The processes that read the stack's clock, and what they have done at the time of the last read.
#[derive(Debug, Default)]
pub(super) struct Readers(BTreeMap<u32, Seen>);

impl Readers {
    /// Returns whether a process reads the stack's clock, so that its deadlines refer to it.
    pub(super) fn has(&self, process: u32) -> bool {
        self.0.contains_key(&process)
    }

    /// Counts a call with a time-out of 0. Returns whether it waits for [`STEP`].
    pub(super) fn looks(&mut self, process: u32, now: u64) -> bool {
        let Some(seen) = self.0.get_mut(&process) else {
            return false;
        };
        seen.follow(now);
        seen.looks += 1;
        let waits = seen.looks > LOOKS;
        if waits {
            seen.looks = 0;
        }
        waits
    }

    /// Forgets processes that are gone. `processes` is sorted.
    pub(super) fn keep(&mut self, processes: &[u32]) {
        self.0
            .retain(|process, _| processes.binary_search(process).is_ok());
    }
}

/// Returns the time of a clock in ns, or `None` for clocks that the kernel has.
pub(super) fn time_of(waits: &Waits, clock: i32) -> Option<u64> {
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => {
            Some(waits.wall_time())
        }
        libc::CLOCK_MONOTONIC
        | libc::CLOCK_MONOTONIC_RAW
        | libc::CLOCK_MONOTONIC_COARSE
        | libc::CLOCK_BOOTTIME => Some(BEGIN + waits.now()),
        _ => None,
    }
}

impl Supervisor {
    /// Serves `clock_gettime`, `gettimeofday` and `time`.
    pub(super) fn read_clock(&mut self, call: &Call) -> Handled {
        let Some(waits) = self.setup.waits.clone() else {
            return Ok(Answer::Continue);
        };
        let (clock, at) = match call.number {
            libc::SYS_clock_gettime => (call.int(0), call.args[1]),
            _ => (libc::CLOCK_REALTIME, call.args[0]),
        };
        let Some(time) = time_of(&waits, clock) else {
            return Ok(Answer::Continue);
        };
        let process = self.process(call);
        let now = waits.now();
        let seen = self.readers.0.entry(process).or_default();
        if !seen.follow(now) {
            seen.reads += 1;
        }
        let words = |time: u64| {
            let fraction = match call.number {
                libc::SYS_clock_gettime => time % SECOND,
                _ => time % SECOND / 1_000,
            };
            let mut bytes = (time / SECOND).to_ne_bytes().to_vec();
            if !is_time(call) {
                bytes.extend(fraction.to_ne_bytes());
            }
            bytes
        };
        let result = |time: u64| {
            if is_time(call) {
                (time / SECOND) as i64
            } else {
                0
            }
        };
        if seen.reads > PATIENCE {
            seen.reads = 0;
            let wait = Wait {
                call: *call,
                process,
                span: Span {
                    length: STEP,
                    absolute: None,
                    coarse: false,
                },
                descriptors: Vec::new(),
                futex: None,
                mask: Some(u64::MAX),
                writes: vec![(at, words(time + STEP))],
                result: Ok(result(time + STEP)),
                again: false,
                exact: true,
                brief: true,
            };
            if waits.note(wait) {
                return Ok(Answer::Later);
            }
        }
        if at != 0 {
            sys::write_memory(call.tid, at, &words(time))?;
        } else if call.number == libc::SYS_clock_gettime {
            return Err(Errno(libc::EFAULT));
        }
        Ok(Answer::Value(result(time)))
    }
}

/// Returns whether a call is `time`, which returns the seconds.
fn is_time(call: &Call) -> bool {
    #[cfg(target_arch = "x86_64")]
    return call.number == libc::SYS_time;
    #[cfg(not(target_arch = "x86_64"))]
    return {
        let _ = call;
        false
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_waits_after_many_at_one_time() {
        let mut readers = Readers::default();
        assert!(!(0..1_000).any(|_| readers.looks(1, 5)), "no reader");
        readers.0.insert(1, Seen::default());
        for now in [5, 6] {
            assert!(!(0..LOOKS).any(|_| readers.looks(1, now)));
        }
        assert!(readers.looks(1, 6));
        assert!(!(0..LOOKS).any(|_| readers.looks(1, 6)));
        assert!(readers.looks(1, 6));
    }
}
