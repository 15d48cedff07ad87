// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Timed waits of a launch's programs, under a clock that is not the machine's.
//!
//! With a [`Waits`] (see [`crate::Launcher::waits`]) every call that waits for some time stops:
//! `nanosleep`, `clock_nanosleep`, `poll`, `ppoll`, `select`, `pselect6`, `epoll_wait`,
//! `epoll_pwait`, `epoll_pwait2`, and `futex` with a time-out. The supervisor computes the deadline
//! by the stack's clock and leaves the caller waiting. The owner of that clock does the rest:
//!
//! 1. [`Waits::ask`] reports whether all programs of the launch wait. If they do, only time can
//!    wake one.
//! 2. The owner moves its clock to [`Waits::earliest`] and runs every event up to then.
//! 3. [`Waits::expire`] ends the wait as the kernel would have.
//!
//! A wait also ends early when it would in the kernel: when one of its descriptors becomes ready
//! (the supervisor polls duplicates of them), when a signal is pending, or when the futex has
//! another value. The call then continues in the kernel, which sees the same condition.
//!
//! # Detecting that all programs wait
//! The supervisor looks at every thread below the keeper twice. A thread that is asleep both times,
//! without a context switch in between, has slept all the time. If that holds for all threads,
//! there was a moment at which all were asleep, and only the supervisor, the stack and the outside
//! world could wake one. A thread that is about to fall asleep may look asleep before it has looked a last time for a
//! reason not to; only one that has left its CPU counts as asleep. The supervisor itself does the looking, between two
//! calls, and then checks whether another call has stopped.
//!
//! # What programs observe
//! Programs with the C library read the stack's clock (`supervisor/clock.rs`). Static ones and those of Go read the
//! machine's, and their absolute deadlines refer
//! to that clock. The remaining time is rounded up (125 ms, 1.25 s, 60 s), so that the time between
//! a program's read of the clock and its call does not matter. A program may read the clock after a
//! wait, find that less time has passed, and wait for the rest. It waits for that rest in real
//! time, because the stack's clock has already counted the whole wait. A wait of twenty days or
//! more counts as infinite.
use crate::alarms::{Alarm, Alarms, Timer};
use crate::backend::Errno;
use crate::look::{self, Thread};
use crate::rank::{Rank, Ranks};
use crate::seccomp::{Answer, Call, Listener};
use crate::sys;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The minimum duration of a wait given in milliseconds, in real time. The rest by the machine's
/// clock is then a smaller number of milliseconds, and recognisable as the rest of a wait.
const COARSE: Duration = Duration::from_micros(1_100);
/// The machine time after which a brief wait ends.
const BRIEF: Duration = Duration::from_millis(2);
/// How often [`Waits::until_any`] asks for packets.
const LOOK: Duration = Duration::from_micros(200);
/// The minimum tolerance in recognising the rest of a wait.
const TOLERANCE: Duration = Duration::from_millis(4);

/// The length of a wait without a limit of time.
pub(crate) const ENDLESS: u64 = u64::MAX;
/// The kernel restarts a call that returns this after a signal, or makes it EINTR (`ERESTARTSYS`).
pub(crate) const RESTART: i32 = 512;

/// The result of [`Waits::ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// There are no programs, or none any more.
    Ended,
    /// All programs wait.
    Waiting,
    /// Some program runs, or ran a moment ago.
    Busy,
}

/// The duration of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// The duration by the stack's clock, ns.
    pub(crate) length: u64,
    /// The clock and time (ns) of an absolute deadline.
    pub(crate) absolute: Option<(i32, u64)>,
    /// The call gives its time-out in milliseconds.
    pub(crate) coarse: bool,
}

/// The value that a futex must have for the wait to go on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Futex {
    pub(crate) address: u64,
    pub(crate) value: u32,
}

/// A call that waits.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) call: Call,
    /// The caller's process.
    pub(crate) process: u32,
    pub(crate) span: Span,
    /// Duplicates of the descriptors that the call waits for as well, with the events.
    pub(crate) descriptors: Vec<(OwnedFd, u32)>,
    pub(crate) futex: Option<Futex>,
    /// The signals blocked during the wait, if the call changes them.
    pub(crate) mask: Option<u64>,
    /// The bytes written into the caller's memory on expiry. `result` is the value that the call
    /// then returns.
    pub(crate) writes: Vec<(u64, Vec<u8>)>,
    pub(crate) result: Result<i64, Errno>,
    /// A call on a socket of the stack, which only the supervisor can serve: when it ends early, the supervisor does so
    /// again ([`Waits::take_again`]).
    pub(crate) again: bool,
    /// The caller reads the stack's clock, so it never waits for a rest by the machine's.
    pub(crate) exact: bool,
    /// A read of the clock by a program that only reads it: if the clock cannot move soon, the read returns what it is.
    pub(crate) brief: bool,
}

struct Noted {
    wait: Wait,
    number: u64,
    since: Instant,
}

/// The deadline (ns of the stack's clock), the rank and the id of a thread that waits.
type Key = (u64, Rank, u32);

/// The last expired wait of a process.
struct Past {
    span: Span,
    since: Instant,
}

/// The state shared with the supervisor.
struct Attached {
    listener: Arc<Listener>,
    /// An epoll of all descriptors that calls wait for.
    ready: OwnedFd,
    /// Wakes the supervisor to answer a question.
    bell: OwnedFd,
}

#[derive(Default)]
struct State {
    attached: Option<Arc<Attached>>,
    /// The waits by deadline, rank and thread id. Threads with the same deadline therefore wake in the
    /// same order in every run of a script.
    waits: BTreeMap<Key, Noted>,
    ranks: Ranks,
    past: BTreeMap<u32, Past>,
    alarms: Alarms,
    /// The calls that ended early and that the supervisor serves again.
    again: Vec<Call>,
    last: u64,
    asked: u64,
    answered: u64,
    all_wait: bool,
    /// [`Waits::until_any`] no longer blocks.
    unfollowed: bool,
    /// The kernel serves all waits from now on.
    released: bool,
    ended: bool,
}

/// The timed waits of a launch; see the module documentation.
pub struct Waits {
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
    /// The wall-clock time, ns since 1970.
    wall: Box<dyn Fn() -> u64 + Send + Sync>,
    state: Mutex<State>,
    changed: Condvar,
}

impl std::fmt::Debug for Waits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waits").finish_non_exhaustive()
    }
}

impl Waits {
    /// Creates the waits of a launch, under a clock that returns its time in nanoseconds. `wall` is the wall-clock time
    /// in nanoseconds since 1970.
    pub fn new(
        clock: impl Fn() -> u64 + Send + Sync + 'static,
        wall: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Arc<Waits> {
        Arc::new(Waits {
            clock: Box::new(clock),
            wall: Box::new(wall),
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time of the clock in ns.
    pub(crate) fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Returns the wall-clock time in ns since 1970.
    pub(crate) fn wall_time(&self) -> u64 {
        (self.wall)()
    }

    /// Arms or disarms a timer of a process.
    pub(crate) fn set_alarm(&self, process: u32, timer: Timer, alarm: Option<(u64, Alarm)>) {
        let mut state = self.state();
        let rank = state.ranks.of(process, process);
        state.alarms.set(process, timer, rank, alarm);
        drop(state);
        self.changed.notify_all();
    }

    /// Returns the time for which a timer is armed, and its interval.
    pub(crate) fn alarm(&self, process: u32, timer: Timer) -> Option<(u64, u64)> {
        self.state().alarms.get(process, timer)
    }

    /// Returns whether all programs wait.
    pub fn ask(&self) -> Activity {
        let mut state = self.state();
        let Some(attached) = state.attached.clone().filter(|_| !state.ended) else {
            return Activity::Ended;
        };
        state.asked += 1;
        let mine = state.asked;
        sys::wake(attached.bell.as_fd());
        while state.answered < mine && !state.ended {
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        match (state.ended, state.all_wait) {
            (true, _) => Activity::Ended,
            (_, true) => Activity::Waiting,
            (_, false) => Activity::Busy,
        }
    }

    /// Returns the earliest deadline, ns of the stack's clock.
    pub fn earliest(&self) -> Option<u64> {
        let state = self.state();
        let first = state.waits.keys().next().map(|(time, ..)| *time);
        let first = first.filter(|time| *time != u64::MAX);
        first.into_iter().chain(state.alarms.earliest()).min()
    }

    /// Blocks until there is a wait, or `also` says that packets are under way, for which it is asked from time to time.
    /// Returns false if there will be none, or after
    /// [`Waits::unfollow`]. Once the program has ended, [`Waits::ask`] says busy until then.
    pub fn until_any(&self, also: impl Fn() -> bool) -> bool {
        let mut state = self.state();
        loop {
            if state.ended || state.released || state.unfollowed {
                return false;
            }
            if !state.waits.is_empty() || state.alarms.earliest().is_some() || also() {
                return true;
            }
            let waited = self.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends [`Waits::until_any`]; waits themselves go on.
    pub fn unfollow(&self) {
        self.state().unfollowed = true;
        self.changed.notify_all();
    }

    /// Ends the first wait whose deadline is at or before `now`, or lets the first timer of a program expire. Returns false
    /// if there is none.
    pub fn expire(&self, now: u64) -> bool {
        loop {
            let mut state = self.state();
            if state.alarms.expire(now) {
                return true;
            }
            let Some((key, noted)) = state.waits.first_key_value() else {
                return false;
            };
            if key.0 > now {
                return false;
            }
            let least = if noted.wait.span.coarse {
                COARSE
            } else {
                Duration::ZERO
            };
            let left = least.saturating_sub(noted.since.elapsed());
            if left > Duration::ZERO {
                drop(state);
                std::thread::sleep(left);
                continue;
            }
            if let Some((_, noted)) = state.waits.pop_first() {
                if !noted.wait.again && !noted.wait.exact {
                    let past = Past {
                        span: noted.wait.span,
                        since: noted.since,
                    };
                    state.past.insert(noted.wait.process, past);
                }
                state.finish(noted, true);
            }
            return true;
        }
    }

    /// Leaves all present and future waits to the kernel and the machine's clock.
    pub fn release(&self) {
        let mut state = self.state();
        state.released = true;
        for noted in std::mem::take(&mut state.waits).into_values() {
            state.finish(noted, false);
        }
        self.changed.notify_all();
    }

    /// Attaches the supervisor, which starts.
    pub(crate) fn attach(&self, listener: &Arc<Listener>, keeper: u32) -> Result<(), Errno> {
        let attached = Attached {
            listener: listener.clone(),
            ready: sys::epoll_create()?,
            bell: sys::event_fd()?,
        };
        let mut state = self.state();
        state.attached = Some(Arc::new(attached));
        state.ranks = Ranks::new(keeper);
        Ok(())
    }

    /// Records the end of the supervisor.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        state.waits.clear();
        self.changed.notify_all();
    }

    /// Returns the descriptors that the supervisor polls: the bell, and one that is readable when a
    /// descriptor that a call waits for is ready.
    pub(crate) fn descriptors(&self) -> Option<(OwnedFd, OwnedFd)> {
        let attached = self.state().attached.clone()?;
        let bell = attached.bell.try_clone().ok()?;
        Some((bell, attached.ready.try_clone().ok()?))
    }

    /// Takes over a call. Returns false if the kernel must serve it: a retry for the rest of a
    /// wait, or a wait on descriptors that cannot be polled.
    pub(crate) fn note(&self, wait: Wait) -> bool {
        let now = (self.clock)();
        let mut state = self.state();
        let Some(attached) = state.attached.clone() else {
            return false;
        };
        let past = state.past.get(&wait.process);
        let is_rest =
            !wait.again && !wait.exact && past.is_some_and(|past| past.is_rest(&wait.span));
        if state.released || is_rest {
            return false;
        }
        state.last += 1;
        let noted = Noted {
            number: state.last,
            since: Instant::now(),
            wait,
        };
        for (at, (fd, events)) in noted.wait.descriptors.iter().enumerate() {
            let ready = attached.ready.as_fd();
            if sys::epoll_add(ready, fd.as_fd(), *events, noted.number).is_err() {
                // Either a regular file, which is always ready, or no room: the kernel serves the
                // call.
                attached.forget(&noted.wait.descriptors[..at]);
                return false;
            }
        }
        let (process, tid) = (noted.wait.process, noted.wait.call.tid);
        let key = (
            now.saturating_add(noted.wait.span.length),
            state.ranks.of(process, tid),
            tid,
        );
        // A thread has one wait at a time: a previous one was interrupted.
        if let Some(old) = state.waits.insert(key, noted) {
            attached.forget(&old.wait.descriptors);
        }
        self.changed.notify_all();
        true
    }

    /// Ends the waits that have a descriptor ready.
    pub(crate) fn take_ready(&self) {
        let mut state = self.state();
        let Some(attached) = state.attached.clone() else {
            return;
        };
        for number in sys::epoll_ready(attached.ready.as_fd()) {
            let found = state.waits.iter().find(|(_, noted)| noted.number == number);
            if let Some(key) = found.map(|(key, _)| key.clone())
                && let Some(noted) = state.waits.remove(&key)
            {
                state.finish(noted, false);
            }
        }
    }

    /// Ends waits whose caller is gone or has a signal to handle, and waits whose futex has
    /// changed. Returns whether it ended any. `look` returns the state of a thread, of this moment or of one at which
    /// nothing moved.
    pub(crate) fn sweep(&self, look: impl Fn(u32) -> Option<Thread>) -> bool {
        let mut state = self.state();
        let Some(attached) = state.attached.clone() else {
            return false;
        };
        let over: Vec<_> = state
            .waits
            .iter()
            .filter(|(_, noted)| {
                let late = noted.wait.brief && noted.since.elapsed() >= BRIEF;
                late || attached.is_over(&noted.wait, &look)
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in &over {
            if let Some(noted) = state.waits.remove(key) {
                state.finish(noted, false);
            }
        }
        !over.is_empty()
    }

    /// Returns the calls on sockets that have ended early, which the supervisor serves again.
    pub(crate) fn take_again(&self) -> Vec<Call> {
        std::mem::take(&mut self.state().again)
    }

    /// Returns the interval of [`sweep`](Self::sweep), or `None` if there is no wait.
    pub(crate) fn sweep_interval(&self) -> Option<Duration> {
        let state = self.state();
        let waits = &mut state.waits.values();
        let futexes = waits.any(|noted| noted.wait.futex.is_some() || noted.wait.brief);
        let interval = if futexes { 1 } else { 10 };
        (!state.waits.is_empty()).then(|| Duration::from_millis(interval))
    }

    /// Returns the number of the last question if it is not answered.
    pub(crate) fn question(&self) -> Option<u64> {
        let state = self.state();
        (state.answered < state.asked).then_some(state.asked)
    }

    /// Answers a question. `processes` are all processes of the launch, sorted.
    pub(crate) fn answer(&self, question: u64, all_wait: bool, processes: &[u32]) {
        let mut state = self.state();
        (state.answered, state.all_wait) = (question, all_wait);
        if all_wait {
            state
                .past
                .retain(|process, _| processes.binary_search(process).is_ok());
            state.alarms.keep(processes);
            state.ranks.keep(processes);
        }
        self.changed.notify_all();
    }

    /// Returns whether the owner still moves the clock for the program, which it does until it has seen its end.
    pub(crate) fn is_followed(&self) -> bool {
        let state = self.state();
        !(state.unfollowed || state.released || state.ended)
    }

    /// Returns the threads that wait here.
    pub(crate) fn threads(&self) -> Vec<u32> {
        self.state().waits.keys().map(|(.., tid)| *tid).collect()
    }

    /// Returns whether the supervisor has to serve calls again.
    pub(crate) fn has_again(&self) -> bool {
        !self.state().again.is_empty()
    }
}

impl State {
    /// Answers a call that was removed from the waits: with its result on expiry, otherwise by
    /// leaving it to the kernel.
    fn finish(&mut self, noted: Noted, by_time: bool) {
        let Some(attached) = &self.attached else {
            return;
        };
        let mut wait = noted.wait;
        // The duplicates are closed before the answer, so that a close by the client is the last one.
        let descriptors = std::mem::take(&mut wait.descriptors);
        attached.forget(&descriptors);
        drop(descriptors);
        if wait.brief && !by_time {
            self.again.push(wait.call);
            sys::wake(attached.bell.as_fd());
            return;
        }
        if wait.again && !by_time {
            let has_signal =
                look::thread(wait.call.tid).is_some_and(|thread| thread.has_signal(wait.mask));
            if !has_signal {
                self.again.push(wait.call);
                sys::wake(attached.bell.as_fd());
                return;
            }
        }
        let answer = if !by_time && wait.again {
            // A call with a time limit is not restarted.
            let limited = wait.span.length != ENDLESS;
            Err(Errno(if limited { libc::EINTR } else { RESTART }))
        } else if !by_time {
            Ok(Answer::Continue)
        } else if attached.listener.is_waiting(&wait.call) {
            for (address, bytes) in &wait.writes {
                // The kernel also ignores memory that cannot be written.
                let _ = sys::write_memory(wait.call.tid, *address, bytes);
            }
            wait.result.map(Answer::Value)
        } else {
            return;
        };
        attached.listener.answer(&wait.call, answer);
    }
}

impl Attached {
    fn forget(&self, descriptors: &[(OwnedFd, u32)]) {
        for (fd, _) in descriptors {
            // The client still has the file open, so closing the duplicate does not remove it from
            // the epoll.
            sys::epoll_remove(self.ready.as_fd(), fd.as_fd());
        }
    }

    fn is_over(&self, wait: &Wait, look: impl Fn(u32) -> Option<Thread>) -> bool {
        if !self.listener.is_waiting(&wait.call) {
            return true;
        }
        let changed = |futex: Futex| {
            let now = sys::read_array(wait.call.tid, futex.address);
            now.is_ok_and(|now| u32::from_ne_bytes(now) != futex.value)
        };
        wait.futex.is_some_and(changed)
            || look(wait.call.tid).is_some_and(|thread| thread.has_signal(wait.mask))
    }
}

impl Past {
    /// Returns whether a wait is for the rest of this one, which ended sooner than the machine's
    /// clock says.
    fn is_rest(&self, span: &Span) -> bool {
        match (self.span.absolute, span.absolute) {
            (Some(deadline), Some(again)) => deadline == again,
            (None, None) if span.length < self.span.length => {
                let whole = Duration::from_nanos(self.span.length);
                let again = Duration::from_nanos(span.length) + self.since.elapsed();
                again.abs_diff(whole) <= TOLERANCE.max(whole / 8)
            }
            _ => false,
        }
    }
}
