// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads of the clock under a clock that is not the machine's.
//!
//! The C library reads the clock without a system call. A preloaded library (`preload/clock.rs`) makes it one, which stops
//! here and returns the stack's time. Programs without the C library (Go, static ones) read the machine's clock.
//!
//! A program that reads the clock again and again, and waits for nothing, would never see it move. After
//! [`PATIENCE`] reads at one time a read waits for [`STEP`].
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
/// How far the clock moves for a program that only reads it, in ns.
const STEP: u64 = 1_000_000;

/// The processes that read the stack's clock: the time of the last read, and the reads at that time.
#[derive(Debug, Default)]
pub(super) struct Readers(BTreeMap<u32, (u64, u32)>);

impl Readers {
    /// Returns whether a process reads the stack's clock, so that its deadlines refer to it.
    pub(super) fn has(&self, process: u32) -> bool {
        self.0.contains_key(&process)
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
        let reads = self.readers.0.entry(process).or_default();
        *reads = if reads.0 == now {
            (now, reads.1 + 1)
        } else {
            (now, 0)
        };
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
        if reads.1 > PATIENCE {
            reads.1 = 0;
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
