// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Timers of programs under a clock that is not the machine's ([`crate::alarms`]).
//!
//! Not served: `timerfd_gettime`, which reports a timer that is not armed; the overrun of a timer that repeats faster
//! than its program reads it.
use super::clock::time_of;
use super::{Handled, Supervisor};
use crate::alarms::{Alarm, Expiry, Timer};
use crate::backend::Errno;
use crate::seccomp::{Answer, Call};
use crate::sys;
use crate::waits::Waits;
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;
/// The offset of the signal, and of the way of notification, in a struct sigevent.
const SIGNAL: usize = 8;
const NOTIFY: usize = 12;

/// The timers of `timer_create` by process: the clock and the signal of each, in the order of their creation, which is
/// that of their ids.
#[derive(Debug, Default)]
pub(super) struct Created(BTreeMap<u32, Vec<(i32, i32)>>);

impl Created {
    /// Forgets processes that are gone. `processes` is sorted.
    pub(super) fn keep(&mut self, processes: &[u32]) {
        self.0
            .retain(|process, _| processes.binary_search(process).is_ok());
    }
}

/// Two times of a struct itimerspec or itimerval in ns: the interval, and the time until the timer expires.
fn pair(bytes: &[u8; 32], unit: u64) -> Result<(u64, u64), Errno> {
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at * 8..at * 8 + 8]);
        i64::from_ne_bytes(word)
    };
    let time = |at| match (u64::try_from(word(at)), u64::try_from(word(at + 1))) {
        (Ok(seconds), Ok(fraction)) if fraction < SECOND / unit => Ok(seconds
            .saturating_mul(SECOND)
            .saturating_add(fraction * unit)),
        _ => Err(Errno(libc::EINVAL)),
    };
    Ok((time(0)?, time(2)?))
}

/// The bytes of [`pair`].
fn bytes_of((interval, value): (u64, u64), unit: u64) -> Vec<u8> {
    let word = |time: u64| [time / SECOND, time % SECOND / unit];
    let words = [word(interval), word(value)].concat();
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

impl Supervisor {
    /// Serves the calls that arm and read timers.
    pub(super) fn timer(&mut self, call: &Call) -> Handled {
        let Some(waits) = self.setup.waits.clone() else {
            return Ok(Answer::Continue);
        };
        let process = self.process(call);
        match call.number {
            libc::SYS_setitimer => {
                let old = self.left(&waits, process, Timer::Real);
                if call.args[1] != 0 {
                    let value = sys::read_array(call.tid, call.args[1])?;
                    let (interval, value) = pair(&value, 1_000)?;
                    let expiry = Expiry::Signal(libc::SIGALRM);
                    arm(&waits, process, Timer::Real, value, interval, expiry);
                }
                if call.args[2] != 0 {
                    sys::write_memory(call.tid, call.args[2], &bytes_of(old, 1_000))?;
                }
                Ok(Answer::Value(0))
            }
            libc::SYS_getitimer => {
                let left = self.left(&waits, process, Timer::Real);
                sys::write_memory(call.tid, call.args[1], &bytes_of(left, 1_000))?;
                Ok(Answer::Value(0))
            }
            libc::SYS_timer_create => self.note_timer(call, process),
            libc::SYS_timer_settime => self.set_posix_timer(call, &waits, process),
            libc::SYS_timer_gettime => {
                let left = self.left(&waits, process, Timer::Posix(call.int(0)));
                sys::write_memory(call.tid, call.args[1], &bytes_of(left, 1))?;
                Ok(Answer::Value(0))
            }
            libc::SYS_timer_delete => {
                waits.set_alarm(process, Timer::Posix(call.int(0)), None);
                Ok(Answer::Continue)
            }
            libc::SYS_timerfd_settime => self.set_descriptor(call, &waits, process),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_alarm => {
                let (_, left) = self.left(&waits, process, Timer::Real);
                let value = call.args[0] as u32;
                let expiry = Expiry::Signal(libc::SIGALRM);
                let value = u64::from(value) * SECOND;
                arm(&waits, process, Timer::Real, value, 0, expiry);
                Ok(Answer::Value(left.div_ceil(SECOND) as i64))
            }
            _ => Ok(Answer::Continue),
        }
    }

    /// The interval of a timer, and the time until it expires.
    fn left(&self, waits: &Arc<Waits>, process: u32, timer: Timer) -> (u64, u64) {
        let now = waits.now();
        let left = |(time, interval): (u64, u64)| (interval, time.saturating_sub(now).max(1));
        waits.alarm(process, timer).map_or((0, 0), left)
    }

    fn note_timer(&mut self, call: &Call, process: u32) -> Handled {
        let signal = match call.args[1] {
            0 => libc::SIGALRM,
            at => {
                let event: [u8; 16] = sys::read_array(call.tid, at)?;
                let int = |at: usize| {
                    i32::from_ne_bytes([event[at], event[at + 1], event[at + 2], event[at + 3]])
                };
                match int(NOTIFY) {
                    libc::SIGEV_NONE => 0,
                    _ => int(SIGNAL),
                }
            }
        };
        let timers = self.created.0.entry(process).or_default();
        timers.push((call.int(0), signal));
        Ok(Answer::Continue)
    }

    fn set_posix_timer(&mut self, call: &Call, waits: &Arc<Waits>, process: u32) -> Handled {
        let id = call.int(0);
        let timers = self.created.0.get(&process);
        let known = usize::try_from(id)
            .ok()
            .and_then(|id| timers?.get(id).copied());
        let Some((clock, signal)) = known else {
            return Ok(Answer::Continue);
        };
        let Some(now) = time_of(waits, clock) else {
            return Ok(Answer::Continue); // a clock of processor time
        };
        let value = sys::read_array(call.tid, call.args[2])?;
        let (interval, value) = pair(&value, 1)?;
        let value = until(value, call.int(1) & libc::TIMER_ABSTIME != 0, now);
        let old = self.left(waits, process, Timer::Posix(id));
        if call.args[3] != 0 {
            sys::write_memory(call.tid, call.args[3], &bytes_of(old, 1))?;
        }
        arm(
            waits,
            process,
            Timer::Posix(id),
            value,
            interval,
            Expiry::Signal(signal),
        );
        Ok(Answer::Value(0))
    }

    fn set_descriptor(&mut self, call: &Call, waits: &Arc<Waits>, process: u32) -> Handled {
        let fd = call.int(0);
        let about = fs::read_to_string(format!("/proc/{}/fdinfo/{fd}", call.tid));
        let about = about.map_err(|_| Errno(libc::EBADF))?;
        let clock = about.lines().find_map(|line| line.strip_prefix("clockid:"));
        let clock = clock.and_then(|clock| clock.trim().parse().ok());
        let Some(now) = clock.and_then(|clock| time_of(waits, clock)) else {
            return Ok(Answer::Continue); // no timer: the kernel says so
        };
        let value = sys::read_array(call.tid, call.args[2])?;
        let (interval, value) = pair(&value, 1)?;
        let value = until(value, call.int(1) & libc::TFD_TIMER_ABSTIME != 0, now);
        let own = sys::pidfd_open(process)?;
        let duplicate = sys::pidfd_getfd(own.as_fd(), fd)?;
        self.still_waiting(call)?;
        // An expiry that nobody has read is void.
        sys::disarm_timer(duplicate.as_fd())?;
        let timer = Timer::Descriptor(fd);
        let old = self.left(waits, process, timer);
        if call.args[3] != 0 {
            sys::write_memory(call.tid, call.args[3], &bytes_of(old, 1))?;
        }
        arm(
            waits,
            process,
            timer,
            value,
            interval,
            Expiry::Descriptor(duplicate),
        );
        Ok(Answer::Value(0))
    }
}

/// The time until a timer expires; 0 disarms it.
fn until(value: u64, is_absolute: bool, now: u64) -> u64 {
    match (is_absolute, value) {
        (true, 1..) => value.saturating_sub(now).max(1),
        _ => value,
    }
}

fn arm(waits: &Waits, process: u32, timer: Timer, value: u64, interval: u64, expiry: Expiry) {
    let alarm = (value > 0).then(|| {
        let time = waits.now().saturating_add(value);
        (time, Alarm { interval, expiry })
    });
    waits.set_alarm(process, timer, alarm);
}
