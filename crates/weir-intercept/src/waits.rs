// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Timed waits of a launch's programs, under a clock that is not the machine's.
//!
//! With a [`Waits`] (see [`crate::Launcher::waits`]) a call that waits for some time stops: `nanosleep`,
//! `clock_nanosleep`, `poll`, `ppoll`, `select`, `pselect6`, `epoll_wait`, `epoll_pwait`, `epoll_pwait2`, and
//! `futex` with a time-out. The supervisor notes when the wait would be over by the stack's clock and
//! leaves the caller waiting. Whoever keeps that clock does the rest:
//!
//! 1. [`Waits::ask`] says whether all programs of the launch wait: then only time can wake one.
//! 2. It moves its clock to [`Waits::earliest`], with all that happens on the way.
//! 3. [`Waits::expire`] ends the wait as the kernel would have.
//!
//! A wait also ends early, as it would have: when a descriptor it names becomes ready (the supervisor
//! holds duplicates and polls them), when a signal is pending, or when a futex has another value. The call then
//! goes on in the kernel, which finds the same.
//!
//! # Whether all wait
//! Every thread below the keeper is looked at twice. One that is asleep both times, and was not switched in
//! between, has slept all the time; if that is so for all, there was a moment at which all were asleep,
//! and nobody was left to wake another but the supervisor, the stack and the world outside. The
//! supervisor itself looks, between two calls, and then whether another call has stopped.
//!
//! # What programs see of it
//! They read the machine's clock, which is not trapped. So an absolute deadline is one of that clock: what is
//! left of it is rounded up (125 ms, 1.25 s, 60 s), so that the time between a program's look at the clock
//! and its call does not matter. A program that looks at the clock after a
//! wait, finds that less time has passed, and waits for the rest, waits for that rest in real time: its wait has been counted.
//! A wait of twenty days or longer is taken for one without end.
use crate::backend::Errno;
use crate::seccomp::{Answer, Call, Listener};
use crate::sys;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A wait of milliseconds lasts at least this long, so that what is left of it by the machine's clock
/// is a smaller number of milliseconds, and known as the rest of a wait.
const COARSE: Duration = Duration::from_micros(1_100);
/// How far off the rest of a wait may be, at least.
const TOLERANCE: Duration = Duration::from_millis(4);

/// What [`Waits::ask`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// There are no programs (any more).
    Ended,
    /// All programs wait.
    Waiting,
    /// Some program is at work, or was just now.
    Busy,
}

/// How long a call waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// By the stack's clock, ns.
    pub(crate) length: u64,
    /// Clock and time, ns, of an absolute deadline.
    pub(crate) absolute: Option<(i32, u64)>,
    /// In milliseconds.
    pub(crate) coarse: bool,
}

/// A value that a futex has to have for the wait to go on.
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
    /// Duplicates of the descriptors it waits for as well, with the events.
    pub(crate) descriptors: Vec<(OwnedFd, u32)>,
    pub(crate) futex: Option<Futex>,
    /// Signals blocked while it waits, if they are others.
    pub(crate) mask: Option<u64>,
    /// What is written into the caller's memory when time is up, and what the call then returns.
    pub(crate) writes: Vec<(u64, Vec<u8>)>,
    pub(crate) result: Result<i64, Errno>,
}

struct Noted {
    wait: Wait,
    number: u64,
    since: Instant,
}

/// A wait of a process that is over.
struct Past {
    span: Span,
    since: Instant,
}

/// What waits share with the supervisor.
struct Attached {
    listener: Arc<Listener>,
    /// An epoll of all descriptors waited for.
    ready: OwnedFd,
    /// Wakes the supervisor for a question.
    bell: OwnedFd,
}

#[derive(Default)]
struct State {
    attached: Option<Arc<Attached>>,
    /// By deadline and thread. No two threads of one deadline are woken in another order in another run
    /// of the same script, as long as processes are made in one order.
    waits: BTreeMap<(u64, u32), Noted>,
    past: BTreeMap<u32, Past>,
    last: u64,
    asked: u64,
    answered: u64,
    all_wait: bool,
    /// Nobody sleeps until there is a wait any more.
    unfollowed: bool,
    /// Waits are the kernel's from now on.
    released: bool,
    ended: bool,
}

/// The timed waits of a launch; see the module's head.
pub struct Waits {
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
    state: Mutex<State>,
    changed: Condvar,
}

impl std::fmt::Debug for Waits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waits").finish_non_exhaustive()
    }
}

impl Waits {
    /// Under a clock that tells its time in nanoseconds.
    pub fn new(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Arc<Waits> {
        Arc::new(Waits {
            clock: Box::new(clock),
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all programs wait.
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

    /// When the next wait is over, ns of the stack's clock.
    pub fn earliest(&self) -> Option<u64> {
        self.state().waits.keys().next().map(|(time, _)| *time)
    }

    /// Sleeps until there is a wait; false if there will be none any more, or after [`Waits::unfollow`].
    pub fn until_any(&self) -> bool {
        let mut state = self.state();
        loop {
            if state.ended || state.released || state.unfollowed {
                return false;
            }
            if !state.waits.is_empty() {
                return true;
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends [`Waits::until_any`]; waits go on.
    pub fn unfollow(&self) {
        self.state().unfollowed = true;
        self.changed.notify_all();
    }

    /// Ends the first wait that is over at `now`; false if none is.
    pub fn expire(&self, now: u64) -> bool {
        loop {
            let mut state = self.state();
            let Some((&key, noted)) = state.waits.first_key_value() else {
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
            if let Some(noted) = state.waits.remove(&key) {
                let past = Past {
                    span: noted.wait.span,
                    since: noted.since,
                };
                state.past.insert(noted.wait.process, past);
                state.over(noted, true);
            }
            return true;
        }
    }

    /// Gives all waits, and those to come, to the kernel and the machine's clock.
    pub fn release(&self) {
        let mut state = self.state();
        state.released = true;
        for noted in std::mem::take(&mut state.waits).into_values() {
            state.over(noted, false);
        }
        self.changed.notify_all();
    }

    /// The supervisor begins.
    pub(crate) fn attach(&self, listener: &Arc<Listener>) -> Result<(), Errno> {
        let attached = Attached {
            listener: listener.clone(),
            ready: sys::epoll_create()?,
            bell: sys::event_fd()?,
        };
        self.state().attached = Some(Arc::new(attached));
        Ok(())
    }

    /// The supervisor ends.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        state.waits.clear();
        self.changed.notify_all();
    }

    /// What the supervisor polls: the bell, and what is readable when a descriptor waited for is ready.
    pub(crate) fn descriptors(&self) -> Option<(OwnedFd, OwnedFd)> {
        let attached = self.state().attached.clone()?;
        let bell = attached.bell.try_clone().ok()?;
        Some((bell, attached.ready.try_clone().ok()?))
    }

    /// Takes over a call; gives it back if it is the kernel's: another try for the rest of a wait, or
    /// one whose descriptors cannot be polled.
    pub(crate) fn note(&self, wait: Wait) -> bool {
        let now = (self.clock)();
        let mut state = self.state();
        let Some(attached) = state.attached.clone() else {
            return false;
        };
        let past = state.past.get(&wait.process);
        if state.released || past.is_some_and(|past| past.is_for(&wait.span)) {
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
                // A regular file, which is always ready, or no room: the kernel knows.
                attached.forget(&noted.wait.descriptors[..at]);
                return false;
            }
        }
        let key = (
            now.saturating_add(noted.wait.span.length),
            noted.wait.call.tid,
        );
        // A thread waits once: what it waited for before was interrupted.
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
            if let Some(key) = found.map(|(key, _)| *key)
                && let Some(noted) = state.waits.remove(&key)
            {
                state.over(noted, false);
            }
        }
    }

    /// Ends waits whose caller is gone or has a signal to handle, or whose futex has changed; whether it
    /// ended any.
    pub(crate) fn take_care(&self) -> bool {
        let mut state = self.state();
        let Some(attached) = state.attached.clone() else {
            return false;
        };
        let over: Vec<_> = state
            .waits
            .iter()
            .filter(|(_, noted)| attached.is_over(&noted.wait))
            .map(|(key, _)| *key)
            .collect();
        for key in &over {
            if let Some(noted) = state.waits.remove(key) {
                state.over(noted, false);
            }
        }
        !over.is_empty()
    }

    /// How often [`take_care`](Self::take_care) is to look, if there is anything to look at.
    pub(crate) fn care_interval(&self) -> Option<Duration> {
        let state = self.state();
        let futexes = state.waits.values().any(|noted| noted.wait.futex.is_some());
        let interval = if futexes { 1 } else { 10 };
        (!state.waits.is_empty()).then(|| Duration::from_millis(interval))
    }

    /// The number of the last question, if it is not answered.
    pub(crate) fn question(&self) -> Option<u64> {
        let state = self.state();
        (state.answered < state.asked).then_some(state.asked)
    }

    /// Answers a question; `processes` are all there are.
    pub(crate) fn answer(&self, question: u64, all_wait: bool, processes: &[u32]) {
        let mut state = self.state();
        (state.answered, state.all_wait) = (question, all_wait);
        if all_wait {
            state.past.retain(|process, _| processes.contains(process));
        }
        self.changed.notify_all();
    }

    /// The threads that wait here.
    pub(crate) fn threads(&self) -> Vec<u32> {
        self.state().waits.keys().map(|(_, tid)| *tid).collect()
    }
}

impl State {
    /// Answers a call that has been taken out: by time, or by the kernel.
    fn over(&self, noted: Noted, by_time: bool) {
        let Some(attached) = &self.attached else {
            return;
        };
        let wait = noted.wait;
        attached.forget(&wait.descriptors);
        let answer = if !by_time {
            Ok(Answer::Continue)
        } else if attached.listener.is_waiting(&wait.call) {
            for (address, bytes) in &wait.writes {
                // The kernel, too, leaves what cannot be written.
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
            // The open file lives on in the client: closing the duplicate does not take it out.
            sys::epoll_remove(self.ready.as_fd(), fd.as_fd());
        }
    }

    fn is_over(&self, wait: &Wait) -> bool {
        if !self.listener.is_waiting(&wait.call) {
            return true;
        }
        let changed = |futex: Futex| {
            let now = sys::read_array(wait.call.tid, futex.address);
            now.is_ok_and(|now| u32::from_ne_bytes(now) != futex.value)
        };
        wait.futex.is_some_and(changed)
            || crate::look::thread(wait.call.tid).is_some_and(|thread| thread.has_signal(wait.mask))
    }
}

impl Past {
    /// Whether a wait is for the rest of this one, which was over sooner than the machine's clock says.
    fn is_for(&self, span: &Span) -> bool {
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
