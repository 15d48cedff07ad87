// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The virtual time of a run, moved by `weir play`, after the script, and by the sleeps of clients.
//!
//! The wait of a client becomes a deadline of this clock ([`weir_intercept::waits`]). One loop,
//! [`Engine::drive`], moves the clock for all callers: it waits until all clients wait, moves the
//! clock to the next timer or deadline, and ends one wait. So every action of a client happens at
//! one time of this clock, and clients that wait for the same time continue one after the other.
//! This makes the result of a script deterministic. When a client receives a datagram on the way,
//! it may act before its deadline, so the loop waits for it again.
//!
//! While a script runs, [`Engine::follow`] drives to the next deadline as soon as nothing else can
//! happen. A `weir play` drives to the requested time, with the deadlines before it. After the end
//! of the script the run does the same for the processes left in the background.
//!
//! With `--frozen-clock` there are no such waits: clients sleep by the machine's clock,
//! independently of this one.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_intercept::waits::{Activity, Waits};
use weir_stack::cpu::Pause;
use weir_sync::progress::{Progress, Work};

use super::{Engine, lock};

/// The machine time for which clients that do not come to rest delay a `weir play`.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pauses between checks whether clients rest: short at first, then longer.
const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LAST_PAUSE: Duration = Duration::from_millis(5);

/// The goal of a move of the clock.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    /// Move to this time, ns.
    Until(u64),
    /// Move until no timer holds a packet; then continue to deadlines of clients up to this time,
    /// if it is set.
    Packets(Option<u64>),
}

/// The requests in progress between clients and the stack, and the lock of the clock's driver.
#[derive(Default)]
pub struct Time {
    /// The waits of the run's clients, if they follow this clock.
    waits: OnceLock<Arc<Waits>>,
    /// The checks of sockets for requests, and what they serve.
    requests: Progress,
    /// Counts the datagrams sent to clients.
    sent: Arc<AtomicU64>,
    /// Held by the thread that moves the clock.
    driving: Mutex<()>,
    /// Held while the driver serves sockets or lets packets run: a program that this has woken calls the stack after it.
    stepping: Mutex<()>,
    /// The number of threads that serve the sockets of programs when all programs wait.
    servers: AtomicU64,
}

/// Serves the sockets of programs when all programs wait, until it is dropped.
struct Server<'a>(&'a Time);

impl<'a> Server<'a> {
    fn new(time: &'a Time) -> Self {
        time.servers.fetch_add(1, SeqCst);
        Self(time)
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        self.0.servers.fetch_sub(1, SeqCst);
    }
}

impl Time {
    /// Marks a request as possibly in progress until the value is dropped.
    pub fn serving(&self) -> Work<'_> {
        self.requests.begin()
    }

    /// Returns whether the driver of the clock serves sockets.
    pub fn serves_sockets(&self) -> bool {
        self.servers.load(SeqCst) > 0
    }

    /// Waits until the driver of the clock has finished the work of the present time. The caller's request is in progress, so
    /// the clock does not move.
    pub fn between_steps(&self) {
        if self.serves_sockets() {
            drop(lock(&self.stepping));
        }
    }

    /// Returns the counter of datagrams sent to clients.
    pub fn sent(&self) -> &Arc<AtomicU64> {
        &self.sent
    }
}

/// Sleeps between checks, with growing pauses.
struct Backoff(Duration);

impl Backoff {
    fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    fn sleep(&mut self) {
        std::thread::sleep(self.0);
        self.0 = (self.0 * 2).min(LAST_PAUSE);
    }
}

impl Engine {
    /// Makes clients wait by this stack's clock.
    pub fn take_waits(&self) -> Arc<Waits> {
        let (stack, same) = (self.stack.clone(), self.stack.clone());
        let make = || Waits::new(move || stack.clock.now(), move || same.clock.wall_ns());
        self.time.waits.get_or_init(make).clone()
    }

    /// Moves the clock as clients wait for it, until there are none left or [`Waits::release`] is
    /// called.
    pub fn follow(&self) {
        let Some(waits) = self.time.waits.get() else {
            return;
        };
        let _server = Server::new(&self.time);
        let mut backoff = Backoff::new();
        while waits.until_any(|| self.inet_is_busy() || self.has_packets_under_way()) {
            if self.is_interrupted() {
                // Virtual time has stopped, so clients finish by the machine's clock.
                waits.release();
                return;
            }
            let driving = self.driving();
            if self.clients() == Activity::Waiting && self.step(waits) {
                backoff = Backoff::new();
            } else {
                drop(driving);
                backoff.sleep();
            }
        }
    }

    /// Ends the first wait, and moves the clock to its deadline if that lies ahead. Without a deadline it moves the clock
    /// as long as packets are under way. Returns false if there is nothing to do.
    fn step(&self, waits: &Waits) -> bool {
        let _stepping = lock(&self.time.stepping);
        if self.serve_sockets() || waits.expire(self.stack.clock.now()) {
            return true;
        }
        let deadline = waits.earliest();
        if deadline.is_none() && !self.has_packets_under_way() {
            return false;
        }
        // Captures whose devices do not all exist begin later.
        drop(self.begin_playback());
        if self.pace(deadline, deadline) == Pause::Limit
            && let Some(deadline) = deadline
        {
            waits.expire(deadline);
        }
        true
    }

    /// Returns whether programs have sockets and the stack has a packet that waits for a timer.
    fn has_packets_under_way(&self) -> bool {
        self.has_inet() && self.stack.timers.packets_wait()
    }

    /// Moves the clock for a command or at the end of the run, and completes all the work that is
    /// due.
    ///
    /// With `on_request` the request of the client that asked does not count as in progress
    /// meanwhile. It counts again before anyone else may move the clock.
    pub(super) fn drive(&self, goal: Goal, on_request: bool) {
        let _driving = self.driving();
        let _paused = on_request.then(|| self.time.requests.pause());
        let waits = self.time.waits.get();
        let _server = waits.map(|_| Server::new(&self.time));
        let mut patient = waits.is_some();
        loop {
            patient = patient && self.wait_for_clients();
            if self.is_interrupted() || self.is_stopping() {
                return;
            }
            let _stepping = lock(&self.time.stepping);
            if waits.is_some() && self.serve_sockets() {
                continue;
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

    /// Runs the clock up to a deadline, or until a client receives a datagram.
    fn pace(&self, until: Option<u64>, deadline: Option<u64>) -> Pause {
        if self.time.waits.get().is_none() {
            return self.cpu().run_paced(until, deadline, || true);
        }
        let sent = self.time.sent.load(SeqCst);
        let silent = || self.time.sent.load(SeqCst) == sent;
        self.cpu().run_paced(until, deadline, silent)
    }

    fn driving(&self) -> std::sync::MutexGuard<'_, ()> {
        let driving = self.time.driving.lock();
        driving.unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until clients rest or are gone. Returns false if they do not come to rest.
    pub fn wait_for_clients(&self) -> bool {
        let (since, mut backoff) = (Instant::now(), Backoff::new());
        while !self.is_interrupted() && self.clients() == Activity::Busy {
            if since.elapsed() > PATIENCE {
                return false;
            }
            backoff.sleep();
        }
        true
    }

    /// Returns whether clients wait and the stack has nothing for them either.
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

    /// Returns a number that changes with each request, or `None` if a request waits or is in
    /// progress.
    fn idle_since(&self) -> Option<u64> {
        self.time.requests.idle(|| self.has_requests())
    }

    /// Returns whether a request waits, or an answer waits for room.
    fn has_requests(&self) -> bool {
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
        // A closed socket is readable until its thread has noticed.
        poll(&mut fds, Some(&now)) != Ok(0)
    }

    fn is_interrupted(&self) -> bool {
        self.stack.interrupt.load(SeqCst)
    }
}
