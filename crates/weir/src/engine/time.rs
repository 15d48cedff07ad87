// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a run's virtual time moves: by `weir play`, after the script, and by what clients sleep.
//!
//! A client's wait for some time is noted as a deadline of this clock ([`weir_intercept::waits`]). One loop,
//! [`Engine::drive`], moves the clock, whoever asks for it: it waits until all clients wait, moves the clock to
//! the next timer or deadline, and ends one wait. So everything a client does happens at one time of
//! this clock, clients that wait for the same time go on one after the other, and a script has one
//! answer. Whenever a client has been told something on the way it may go on by itself, and is waited for.
//!
//! While a script runs, [`Engine::follow`] drives to the next deadline as soon as nothing else can happen.
//! A `weir play` drives to where it was told, deadlines among it; so does the run when the script has ended,
//! for what the script left in the background.
//!
//! With `--frozen-clock` there are no such waits: clients sleep by the machine's clock, beside this one.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_intercept::waits::{Activity, Waits};
use weir_stack::cpu::Pause;

use super::{Engine, lock};

/// How long clients that do not come to rest hold up a `weir play`, of the machine's time.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked whether they rest: soon at first, then less often.
const FIRST_LOOK: Duration = Duration::from_micros(50);
const LAST_LOOK: Duration = Duration::from_millis(5);

/// How far time is to go.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    /// To this time, ns.
    Until(u64),
    /// Until no timer holds a packet; then on to deadlines of clients up to this time, if there is one.
    Packets(Option<u64>),
}

/// What is under way between clients and the stack, and who moves the clock.
#[derive(Default)]
pub struct Time {
    /// Waits of the run's clients, where they go by this clock.
    waits: OnceLock<Arc<Waits>>,
    /// Looks at a socket for a request, begun and ended.
    begun: AtomicU64,
    ended: AtomicU64,
    /// Datagrams that clients were sent.
    told: Arc<AtomicU64>,
    /// Held by who moves the clock.
    driving: Mutex<()>,
}

/// A request under way.
pub struct Serving<'a>(&'a Time);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, SeqCst);
    }
}

/// A request that waits for others.
struct Paused<'a>(&'a Time);

impl<'a> Paused<'a> {
    fn new(time: &'a Time) -> Self {
        time.ended.fetch_add(1, SeqCst);
        Self(time)
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.0.begun.fetch_add(1, SeqCst);
    }
}

impl Time {
    /// Until the value goes, a request may be under way.
    pub fn serving(&self) -> Serving<'_> {
        self.begun.fetch_add(1, SeqCst);
        Serving(self)
    }

    /// Counts datagrams that clients were sent.
    pub fn told(&self) -> &Arc<AtomicU64> {
        &self.told
    }
}

/// Sleeps between looks, ever longer.
struct Looks(Duration);

impl Looks {
    fn new() -> Self {
        Self(FIRST_LOOK)
    }

    fn sleep(&mut self) {
        std::thread::sleep(self.0);
        self.0 = (self.0 * 2).min(LAST_LOOK);
    }
}

impl Engine {
    /// Has clients wait by this stack's clock.
    pub fn take_waits(&self) -> Arc<Waits> {
        let stack = self.stack.clone();
        let make = || Waits::new(move || stack.clock.now());
        self.time.waits.get_or_init(make).clone()
    }

    /// Moves the clock as clients wait for it, until there are none or [`Waits::release`] is called.
    pub fn follow(&self) {
        let Some(waits) = self.time.waits.get() else {
            return;
        };
        let mut looks = Looks::new();
        while waits.until_any() {
            if self.is_interrupted() {
                // Time goes no further: the machine's serves to end what is under way.
                waits.release();
                return;
            }
            let driving = self.driving();
            if self.clients() == Activity::Waiting {
                self.step(waits);
                looks = Looks::new();
            } else {
                drop(driving);
                looks.sleep();
            }
        }
    }

    /// Ends the first wait; moves the clock to where it is over if that lies ahead.
    fn step(&self, waits: &Waits) {
        if waits.expire(self.stack.clock.now()) {
            return;
        }
        let Some(deadline) = waits.earliest() else {
            return;
        };
        // Without all their devices captures begin later.
        drop(self.begin_playback());
        if self.pace(Some(deadline), Some(deadline)) == Pause::Limit {
            waits.expire(deadline);
        }
    }

    /// Moves the clock on for a command or at the run's end; everything there is to do is done then.
    ///
    /// For a command of a client (`on_request`) its request is not under way meanwhile, but is again before anybody
    /// else may move the clock.
    pub(super) fn drive(&self, goal: Goal, on_request: bool) {
        let _driving = self.driving();
        let _paused = on_request.then(|| Paused::new(&self.time));
        let waits = self.time.waits.get();
        let mut patient = waits.is_some();
        loop {
            patient = patient && self.wait_for_clients();
            if self.is_interrupted() || self.is_stopping() {
                return;
            }
            if waits.is_some_and(|waits| waits.expire(self.stack.clock.now())) {
                continue;
            }
            let deadline = waits.and_then(|waits| waits.earliest());
            let pause = match goal {
                Goal::Until(time) => self.pace(Some(time), deadline.filter(|at| *at <= time)),
                Goal::Packets(grace) => {
                    let pause = self.pace(None, deadline);
                    let more = deadline.filter(|at| grace.is_some_and(|grace| *at <= grace));
                    match more {
                        Some(_) if pause == Pause::Done => self.pace(more, more),
                        _ => pause,
                    }
                }
            };
            match (pause, waits, deadline) {
                (Pause::Done, ..) => return,
                (Pause::Limit, Some(waits), Some(deadline)) => drop(waits.expire(deadline)),
                _ => {}
            }
        }
    }

    /// Lets the clock go on, up to a deadline and until a client has been told something.
    fn pace(&self, until: Option<u64>, deadline: Option<u64>) -> Pause {
        if self.time.waits.get().is_none() {
            return self.cpu().run_paced(until, deadline, || true);
        }
        let told = self.time.told.load(SeqCst);
        let silent = || self.time.told.load(SeqCst) == told;
        self.cpu().run_paced(until, deadline, silent)
    }

    fn driving(&self) -> std::sync::MutexGuard<'_, ()> {
        let driving = self.time.driving.lock();
        driving.unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until clients rest or are gone; false if they do not come to rest.
    pub fn wait_for_clients(&self) -> bool {
        let (since, mut looks) = (Instant::now(), Looks::new());
        while !self.is_interrupted() && self.clients() == Activity::Busy {
            if since.elapsed() > PATIENCE {
                return false;
            }
            looks.sleep();
        }
        true
    }

    /// Whether clients wait, and the stack has nothing for them either.
    fn clients(&self) -> Activity {
        let Some(waits) = self.time.waits.get() else {
            return Activity::Ended;
        };
        let Some(before) = self.idle_since() else {
            return Activity::Busy;
        };
        let activity = waits.ask();
        if activity == Activity::Waiting && self.idle_since() != Some(before) {
            return Activity::Busy;
        }
        activity
    }

    /// If no request waits or is under way, a number that is another one after each.
    fn idle_since(&self) -> Option<u64> {
        let begun = self.time.begun.load(SeqCst);
        if self.time.ended.load(SeqCst) != begun {
            return None;
        }
        let sockets: Vec<_> = lock(&self.sockets).values().cloned().collect();
        let mut fds: Vec<_> = sockets
            .iter()
            .map(|socket| {
                let mut interest = PollFlags::IN;
                if socket.has_more() {
                    interest |= PollFlags::OUT;
                }
                PollFd::from_borrowed_fd(socket.as_fd(), interest)
            })
            .collect();
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // A closed socket is readable until its thread has seen that.
        (poll(&mut fds, Some(&now)) == Ok(0)).then_some(begun)
    }

    fn is_interrupted(&self) -> bool {
        self.stack.interrupt.load(SeqCst)
    }
}
