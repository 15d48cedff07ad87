// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Timed waits under a clock that is not the machine's ([`crate::waits`]).
//!
//! The kernel serves calls whose arguments cannot be read or are invalid, and refuses them. It also
//! serves calls on more than [`MOST`] descriptors and the waits of `weir` itself, since `weir
//! capture` looks at its capture periodically.
use super::{Handled, Supervisor};
use crate::backend::Errno;
use crate::look;
use crate::seccomp::{Answer, Call};
use crate::sys;
use crate::waits::{Futex, Span, Wait};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;
/// A wait of at least this long counts as infinite (`sleep infinity` waits for 24 days at a time).
const ENDLESS: u64 = 20 * 24 * 3600 * SECOND;
/// The maximum number of descriptors that one call may wait for here.
const MOST: usize = 256;
/// The size of a struct pollfd. `REVENTS` is the offset of its returned events.
const POLLFD: usize = 8;
const REVENTS: usize = 6;

/// The conditions of a wait other than time.
#[derive(Default)]
struct Wanted {
    /// Descriptors and events.
    descriptors: Vec<(i32, u32)>,
    futex: Option<Futex>,
    mask: Option<u64>,
    writes: Vec<(u64, Vec<u8>)>,
}

impl Supervisor {
    /// Serves a call with a time-out.
    pub(super) fn wait(&mut self, call: &Call) -> Handled {
        if is_poll(call)
            && let Some(found) = self.poll_errors(call)?
        {
            return Ok(Answer::Value(found));
        }
        if !has_time(call) {
            return Ok(Answer::Continue);
        }
        let Some(waits) = self.setup.waits.clone() else {
            return Ok(Answer::Continue);
        };
        let noted = self.waiting(call).is_some_and(|wait| waits.note(wait));
        Ok(if noted {
            Answer::Later
        } else {
            Answer::Continue
        })
    }

    fn waiting(&mut self, call: &Call) -> Option<Wait> {
        let name = fs::read_to_string(format!("/proc/{}/comm", call.tid)).ok()?;
        if name.trim_end() == "weir" {
            return None;
        }
        let (mut span, wanted) = wanted(call).ok()??;
        let process = self.process(call);
        if self.readers.has(process) {
            if let Some((clock, deadline)) = span.absolute.take() {
                let now = super::clock::time_of(self.setup.waits.as_ref()?, clock)?;
                span.length = deadline.saturating_sub(now);
                if span.length == 0 {
                    return Some(over(call, process));
                }
            }
            // The program sees that the whole time has passed.
            span.coarse = false;
            let now = self.setup.waits.as_ref()?.now();
            if span.length == 0 && self.readers.looks(process, now) {
                span.length = super::clock::STEP;
            }
        }
        if span.length == 0 || span.length >= ENDLESS {
            return None;
        }
        let descriptors = duplicates(process, &wanted.descriptors).ok()?;
        let futex = matches!(call.number, libc::SYS_futex);
        Some(Wait {
            call: *call,
            process,
            span,
            descriptors,
            futex: wanted.futex,
            mask: wanted.mask,
            writes: wanted.writes,
            again: false,
            exact: self.readers.has(process),
            brief: false,
            result: if futex {
                Err(Errno(libc::ETIMEDOUT))
            } else {
                Ok(0)
            },
        })
    }

    /// Answers the owner of the clock whether all programs wait.
    pub(super) fn answer_question(&mut self) {
        let Some(waits) = self.setup.waits.clone() else {
            return;
        };
        let Some(question) = waits.question() else {
            return;
        };
        let processes = self.all_wait();
        let all_wait = processes.is_some();
        let processes = processes.unwrap_or_default();
        if all_wait {
            self.readers.keep(&processes);
            self.created.keep(&processes);
        }
        waits.answer(question, all_wait, &processes);
    }

    /// Returns the processes if all of them wait. [`crate::waits`] explains the two looks.
    fn all_wait(&mut self) -> Option<Vec<u32>> {
        let waits = self.setup.waits.clone()?;
        let first = look::below(self.setup.keeper)?;
        let states: HashMap<u32, look::Thread> = first
            .iter()
            .map(|(&(_, tid), thread)| (tid, *thread))
            .collect();
        let state = |tid: u32| states.get(&tid).copied();
        if waits.sweep(state) {
            return None;
        }
        let mut trapped: HashSet<u32> = waits.threads().into_iter().collect();
        trapped.extend(self.calls.threads());
        // Between the program's end and the moment at which the owner has seen it, nothing moves: what is left in the
        // background has other goals.
        let alive = |(&(process, _), thread): (&(u32, u32), &look::Thread)| {
            process == self.setup.program && !thread.has_ended()
        };
        if !first.iter().any(alive) && waits.is_followed() {
            return None;
        }
        let rest = |(&(_, tid), thread): (&(u32, u32), &look::Thread)| {
            thread.is_resting(trapped.contains(&tid))
                || thread.state == b'D' && look::waits_for_pipe(tid)
        };
        if !first.iter().all(rest) {
            return None;
        }
        let preempted = |(&(_, tid), thread): (&(u32, u32), &look::Thread)| {
            thread.is_asleep() && !trapped.contains(&tid) && look::is_off_cpu(tid) == Some(false)
        };
        if look::tells_off_cpu() && first.iter().any(preempted)
            || look::below(self.setup.keeper)? != first
        {
            return None;
        }
        // A process shows as ended an instant before its parent is woken. A process seen as ended
        // for the first time may be in that instant.
        let ended = first.iter().filter(|(_, thread)| thread.has_ended());
        let ended: BTreeSet<u32> = ended.map(|(&(_, tid), _)| tid).collect();
        if !ended.is_subset(&std::mem::replace(&mut self.ended, ended.clone())) {
            return None;
        }
        // A thread may have changed a futex since the first sweep, before it fell asleep itself. The second look shows the
        // signals.
        if waits.sweep(state) || waits.has_again() {
            return None;
        }
        let (_, ready) = waits.descriptors()?;
        let mut fds = vec![self.listener.as_fd(), ready.as_fd()];
        fds.extend(self.refused.fds());
        let events = sys::poll_in(&fds, Some(0)).ok()?;
        // The listener hangs up when no program is left.
        let quiet = events.iter().all(|event| event & libc::POLLIN == 0);
        quiet.then(|| first.keys().map(|(process, _)| *process).collect())
    }
}

fn is_poll(call: &Call) -> bool {
    #[cfg(target_arch = "x86_64")]
    if call.number == libc::SYS_poll {
        return true;
    }
    call.number == libc::SYS_ppoll
}

/// Returns whether a call has a time-out; a `poll` stops without one, too.
fn has_time(call: &Call) -> bool {
    #[cfg(target_arch = "x86_64")]
    if call.number == libc::SYS_poll {
        return call.int(2) > 0;
    }
    call.number != libc::SYS_ppoll || call.args[2] != 0
}

/// A wait whose deadline the stack's clock has passed; the machine's may not have.
fn over(call: &Call, process: u32) -> Wait {
    Wait {
        call: *call,
        process,
        span: Span {
            length: 0,
            absolute: None,
            coarse: false,
        },
        descriptors: Vec::new(),
        futex: None,
        mask: None,
        writes: Vec::new(),
        result: match call.number {
            libc::SYS_futex => Err(Errno(libc::ETIMEDOUT)),
            _ => Ok(0),
        },
        again: false,
        exact: true,
        brief: false,
    }
}

/// Returns the duration and the conditions of a wait, or `None` if the kernel serves it.
fn wanted(call: &Call) -> Result<Option<(Span, Wanted)>, Errno> {
    let tid = call.tid;
    let [first, second, third, fourth, fifth, sixth] = call.args;
    let mut wanted = Wanted::default();
    let span = match call.number {
        libc::SYS_nanosleep => relative(tid, first)?,
        libc::SYS_clock_nanosleep => {
            let clock = call.int(0);
            if !is_clock(clock) {
                return Ok(None); // a clock of processor time
            }
            if call.int(1) & libc::TIMER_ABSTIME != 0 {
                absolute(tid, third, clock)?
            } else {
                relative(tid, third)?
            }
        }
        libc::SYS_ppoll => {
            wanted.poll(tid, first, second)?;
            wanted.mask = mask(tid, fourth, fifth)?;
            wanted.writes.push((third, vec![0; 16]));
            relative(tid, third)?
        }
        libc::SYS_pselect6 => {
            wanted.select(tid, call.int(0), [second, third, fourth])?;
            if sixth != 0 {
                let pair: [u8; 16] = sys::read_array(tid, sixth)?;
                wanted.mask = mask(tid, word(&pair, 0), word(&pair, 8))?;
            }
            wanted.writes.push((fifth, vec![0; 16]));
            relative(tid, fifth)?
        }
        libc::SYS_epoll_pwait => {
            wanted.descriptors.push((call.int(0), libc::POLLIN as u32));
            wanted.mask = mask(tid, fifth, sixth)?;
            milliseconds(call.int(3))
        }
        libc::SYS_epoll_pwait2 => {
            wanted.descriptors.push((call.int(0), libc::POLLIN as u32));
            wanted.mask = mask(tid, fifth, sixth)?;
            relative(tid, fourth)?
        }
        libc::SYS_futex => {
            let value = third as u32;
            let futex = Futex {
                address: first,
                value,
            };
            if u32::from_ne_bytes(sys::read_array(tid, first)?) != value {
                return Ok(None);
            }
            wanted.futex = Some(futex);
            let operation = call.int(1);
            if operation & !libc::FUTEX_PRIVATE_FLAG == libc::FUTEX_WAIT {
                relative(tid, fourth)?
            } else if operation & libc::FUTEX_CLOCK_REALTIME != 0 {
                absolute(tid, fourth, libc::CLOCK_REALTIME)?
            } else {
                absolute(tid, fourth, libc::CLOCK_MONOTONIC)?
            }
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll => {
            wanted.poll(tid, first, second)?;
            milliseconds(call.int(2))
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select => {
            wanted.select(tid, call.int(0), [second, third, fourth])?;
            wanted.writes.push((fifth, vec![0; 16]));
            let pair: [u8; 16] = sys::read_array(tid, fifth)?;
            match (word(&pair, 0), word(&pair, 8).checked_mul(1_000)) {
                (seconds, Some(nanoseconds)) => span_of(seconds, nanoseconds, SECOND)?,
                _ => return Ok(None),
            }
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait => {
            wanted.descriptors.push((call.int(0), libc::POLLIN as u32));
            milliseconds(call.int(3))
        }
        _ => return Ok(None),
    };
    Ok(Some((span, wanted)))
}

impl Wanted {
    /// Records an array of struct pollfd and its content on expiry.
    fn poll(&mut self, tid: u32, address: u64, count: u64) -> Result<(), Errno> {
        let count = usize::try_from(count).ok().filter(|count| *count <= MOST);
        let count = count.ok_or(Errno(libc::EINVAL))?;
        let mut array = vec![0; count * POLLFD];
        if count > 0 && sys::read_memory(tid, address, &mut array)? < array.len() {
            return Err(Errno(libc::EFAULT));
        }
        for entry in array.chunks_exact_mut(POLLFD) {
            let fd = i32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]);
            let events = u16::from_ne_bytes([entry[4], entry[5]]);
            if fd >= 0 {
                self.descriptors.push((fd, events.into()));
            }
            entry[REVENTS..].fill(0);
        }
        self.writes.push((address, array));
        Ok(())
    }

    /// Records the three sets of `select`: reading, writing, exceptions.
    fn select(&mut self, tid: u32, count: i32, sets: [u64; 3]) -> Result<(), Errno> {
        let count = usize::try_from(count).map_err(|_| Errno(libc::EINVAL))?;
        if count > 1 << 16 {
            return Err(Errno(libc::EINVAL));
        }
        // The kernel reads and writes whole words.
        let length = count.div_ceil(64) * 8;
        let events = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
        for (address, events) in sets.into_iter().zip(events) {
            if address == 0 || length == 0 {
                continue;
            }
            let mut set = vec![0; length];
            if sys::read_memory(tid, address, &mut set)? < length {
                return Err(Errno(libc::EFAULT));
            }
            let chosen = |fd: &usize| set[fd / 8] >> (fd % 8) & 1 == 1;
            let chosen = (0..count).filter(chosen);
            self.descriptors
                .extend(chosen.map(|fd| (fd as i32, events as u32)));
            self.writes.push((address, vec![0; length]));
        }
        Ok(())
    }
}

/// Duplicates descriptors of a process, each with its events.
fn duplicates(process: u32, wanted: &[(i32, u32)]) -> Result<Vec<(OwnedFd, u32)>, Errno> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    if wanted.len() > MOST {
        return Err(Errno(libc::EMFILE));
    }
    let process = sys::pidfd_open(process)?;
    let duplicate = |&(fd, events): &(i32, u32)| {
        sys::pidfd_getfd(process.as_fd(), fd).map(|duplicate| (duplicate, events))
    };
    wanted.iter().map(duplicate).collect()
}

/// Returns whether a clock measures elapsed time.
fn is_clock(clock: i32) -> bool {
    const CLOCKS: [i32; 4] = [
        libc::CLOCK_REALTIME,
        libc::CLOCK_MONOTONIC,
        libc::CLOCK_BOOTTIME,
        libc::CLOCK_TAI,
    ];
    CLOCKS.contains(&clock)
}

fn word(bytes: &[u8; 16], at: usize) -> u64 {
    let word = bytes[at..].first_chunk();
    word.map_or(0, |word| u64::from_ne_bytes(*word))
}

/// Returns the signal mask of a call, if it has one.
fn mask(tid: u32, address: u64, size: u64) -> Result<Option<u64>, Errno> {
    match (address, size) {
        (0, _) => Ok(None),
        (_, 8) => Ok(Some(u64::from_ne_bytes(sys::read_array(tid, address)?))),
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// Converts seconds, and nanoseconds below `bound`, to a span.
fn span_of(seconds: u64, nanoseconds: u64, bound: u64) -> Result<Span, Errno> {
    if seconds > i64::MAX as u64 || nanoseconds >= bound {
        return Err(Errno(libc::EINVAL));
    }
    Ok(Span {
        length: seconds.saturating_mul(SECOND).saturating_add(nanoseconds),
        absolute: None,
        coarse: false,
    })
}

/// Reads a struct timespec as a span.
fn relative(tid: u32, address: u64) -> Result<Span, Errno> {
    let pair: [u8; 16] = sys::read_array(tid, address)?;
    span_of(word(&pair, 0), word(&pair, 8), SECOND)
}

/// Returns the time left until a struct timespec of a clock.
fn absolute(tid: u32, address: u64, clock: i32) -> Result<Span, Errno> {
    let deadline = relative(tid, address)?.length;
    let left = deadline.saturating_sub(sys::clock_time(clock)?);
    Ok(Span {
        length: rounded(left),
        absolute: Some((clock, deadline)),
        coarse: false,
    })
}

fn milliseconds(count: i32) -> Span {
    Span {
        length: u64::try_from(count).unwrap_or(0) * MILLISECOND,
        absolute: None,
        coarse: true,
    }
}

/// Rounds a time up to a twentieth of its power of ten (125 ms, 1.25 s, 60 s), at least to a
/// millisecond.
fn rounded(time: u64) -> u64 {
    let mut power = 1;
    while time / power >= 10 {
        power *= 10;
    }
    // The same unit serves up to the next power, which it divides.
    let unit = (power / 20).max(MILLISECOND);
    time.div_ceil(unit).saturating_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_until_a_deadline_is_rounded_up() {
        for (time, expected) in [
            (0, 0),
            (1, MILLISECOND),
            (199_940_000, 200 * MILLISECOND),
            (124_100_000, 125 * MILLISECOND),
            (12_900_000, 13 * MILLISECOND),
            (999_999_999, SECOND),
            (1_249_900_000, 1_250 * MILLISECOND),
            (59_999_000_000, 60 * SECOND),
            (999_000_000_000, 1_000 * SECOND),
        ] {
            assert_eq!(rounded(time), expected, "{time}");
        }
    }
}
