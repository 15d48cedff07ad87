// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls on internet sockets that wait: for a datagram, a connection, or the end of a handshake.
//!
//! The caller stays stopped while the supervisor serves others. It polls a duplicate of the caller's descriptor, and
//! serves the call again when that is ready. A wait ends by the socket's `SO_RCVTIMEO` or `SO_SNDTIMEO`, when a signal is
//! pending (the kernel then restarts the call, or returns EINTR), or with the caller.
use super::internet::{Connecting, InetSocket};
use super::{Handled, Supervisor};
use crate::backend::{Errno, SocketId};
use crate::look;
use crate::seccomp::{Answer, Call};
use crate::sys;
use crate::waits::{ENDLESS, RESTART, Span, Wait};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How often signals and deadlines are looked for.
const INTERVAL: Duration = Duration::from_millis(10);

/// What a call waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waiting {
    /// A datagram.
    Datagram,
    /// A connection to accept from this socket.
    Accept(InetSocket),
    /// The end of a handshake.
    Connect(Connecting),
    /// Room for data.
    Room,
    /// A pipe of `splice`: data (POLLIN) or room (POLLOUT).
    Pipe(i16),
}

impl Waiting {
    fn events(self) -> i16 {
        match self {
            Waiting::Datagram | Waiting::Accept(_) => libc::POLLIN,
            Waiting::Connect(_) | Waiting::Room => libc::POLLOUT,
            Waiting::Pipe(events) => events,
        }
    }

    /// The option that limits the wait, and the error after that time. A pipe has no such option.
    fn limit(self) -> (i32, i32) {
        match self {
            Waiting::Pipe(_) => (0, libc::EAGAIN),
            Waiting::Datagram | Waiting::Accept(_) => (libc::SO_RCVTIMEO, libc::EAGAIN),
            Waiting::Connect(_) => (libc::SO_SNDTIMEO, libc::EINPROGRESS),
            Waiting::Room => (libc::SO_SNDTIMEO, libc::EAGAIN),
        }
    }
}

/// A call that waits.
#[derive(Debug)]
struct Parked {
    call: Call,
    file: OwnedFd,
    waiting: Waiting,
    deadline: Option<Instant>,
    /// When the call began to wait.
    since: Instant,
}

impl Parked {
    /// Returns whether both wait for connections of one listener.
    fn accepts_with(&self, other: &Self) -> bool {
        matches!((self.waiting, other.waiting),
            (Waiting::Accept(one), Waiting::Accept(another)) if one.id == another.id)
    }
}

/// Returns whether a call waits for its turn at the listener of the call before it. A connection is for one; the others look
/// for the next one after that.
fn follows(parked: &Parked, before: Option<&Parked>) -> bool {
    before.is_some_and(|before| before.accepts_with(parked))
}

/// The calls that wait.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Those that wait for connections of one listener follow each other, in the order of their coming.
    parked: Vec<Parked>,
    /// The handshakes of calls that wait by the stack's clock, by thread, with the id of the call.
    connecting: BTreeMap<u32, (u64, Connecting)>,
    looked: Option<Instant>,
    /// What the stack knows of those that wait for connections.
    told: Vec<(SocketId, usize)>,
}

impl Calls {
    /// The descriptors to poll, with their events: those of all calls but those that [follow](follows) another.
    pub(super) fn fds(&self) -> impl Iterator<Item = (BorrowedFd<'_>, i16)> {
        let mut before = None;
        let polled = self.parked.iter().filter(move |parked| {
            let first = !follows(parked, before);
            before = Some(*parked);
            first
        });
        polled.map(|parked| (parked.file.as_fd(), parked.waiting.events()))
    }

    /// Adds a call.
    fn add(&mut self, parked: Parked) {
        let place = self
            .parked
            .iter()
            .rposition(|other| other.accepts_with(&parked));
        let place = place.map_or(self.parked.len(), |place| place + 1);
        self.parked.insert(place, parked);
    }

    /// How many calls wait for a connection of each listener, in the order of the ids.
    fn accepts(&self) -> Vec<(SocketId, usize)> {
        let listener = |parked: &Parked| match parked.waiting {
            Waiting::Accept(InetSocket { id, .. }) => Some(id.0),
            _ => None,
        };
        let mut ids: Vec<u64> = self.parked.iter().filter_map(listener).collect();
        ids.sort_unstable();
        let calls = ids.chunk_by(|one, other| one == other);
        calls
            .filter_map(|calls| Some((SocketId(*calls.first()?), calls.len())))
            .collect()
    }

    /// Takes the first call that waits for a connection of a listener.
    fn take_accept(&mut self, listener: SocketId) -> Option<Parked> {
        let accepts =
            |parked: &Parked| matches!(parked.waiting, Waiting::Accept(one) if one.id == listener);
        let place = self.parked.iter().position(accepts)?;
        Some(self.parked.remove(place))
    }

    /// The longest time to poll.
    pub(super) fn interval(&self) -> Option<Duration> {
        (!self.parked.is_empty()).then_some(INTERVAL)
    }

    /// The threads that wait.
    pub(super) fn threads(&self) -> impl Iterator<Item = u32> + '_ {
        self.parked.iter().map(|parked| parked.call.tid)
    }
}

impl Supervisor {
    /// Lets a call wait. `file` is a duplicate of its descriptor.
    pub(super) fn park(&mut self, call: &Call, file: OwnedFd, waiting: Waiting) -> Handled {
        let limit = match waiting {
            Waiting::Pipe(_) => None,
            _ => sys::time_option(file.as_fd(), waiting.limit().0)?,
        };
        if let Some(waits) = self.setup.waits.clone() {
            if let Waiting::Connect(connecting) = waiting {
                self.calls
                    .connecting
                    .insert(call.tid, (call.id, connecting));
            }
            let span = Span {
                length: limit.map_or(ENDLESS, |limit| limit.as_nanos() as u64),
                absolute: None,
                coarse: false,
            };
            let wait = Wait {
                call: *call,
                process: self.process(call),
                span,
                descriptors: vec![(file, waiting.events() as u32)],
                futex: None,
                mask: None,
                writes: Vec::new(),
                result: Err(Errno(waiting.limit().1)),
                again: true,
                exact: true,
                brief: false,
            };
            return match waits.note(wait) {
                true => Ok(Answer::Later),
                false => Err(Errno(libc::EAGAIN)),
            };
        }
        // A thread has one call at a time: an earlier one was interrupted.
        self.calls.parked.retain(|other| other.call.tid != call.tid);
        let since = Instant::now();
        self.calls.add(Parked {
            call: *call,
            file,
            waiting,
            deadline: limit.map(|limit| since + limit),
            since,
        });
        Ok(Answer::Later)
    }

    /// Serves the calls whose descriptors are ready. `events` are those of [`Calls::fds`].
    pub(super) fn resume(&mut self, mut events: impl Iterator<Item = i16> + Clone) {
        if events.clone().all(|event| event == 0) {
            return self.look();
        }
        let mut ready: Vec<Parked> = Vec::new();
        // The next call of a listener is polled after the first has been served.
        let mut follower = false;
        let mut waiting = std::mem::take(&mut self.calls.parked)
            .into_iter()
            .peekable();
        while let Some(parked) = waiting.next() {
            let event = if follower { None } else { events.next() };
            follower = waiting
                .peek()
                .is_some_and(|next| follows(next, Some(&parked)));
            match event {
                Some(0) | None => self.calls.parked.push(parked),
                Some(_) => ready.push(parked),
            }
        }
        for parked in ready {
            self.go_on(parked, true);
        }
        self.look();
    }

    /// Serves a call again that has waited. `shown` says that a connection may make its listener readable. Returns false if
    /// the caller is gone.
    fn go_on(&mut self, parked: Parked, shown: bool) -> bool {
        let call = parked.call;
        if !self.listener.is_waiting(&call) {
            return false;
        }
        let answer = match parked.waiting {
            Waiting::Connect(connecting) => {
                self.files.again(&call, parked.file);
                self.connected(&call, connecting)
            }
            Waiting::Datagram | Waiting::Room => {
                self.files.again(&call, parked.file);
                self.handle(&call)
            }
            Waiting::Accept(listener) => self.accept_from(&call, listener, parked.file, shown),
            Waiting::Pipe(_) => {
                // The other process may wait for this one to be the last.
                drop(parked.file);
                self.handle(&call)
            }
        };
        self.files.done();
        self.keep_times(&call, parked.deadline, parked.since);
        self.listener.answer(&call, answer);
        true
    }

    /// Gives connections that have come by the work of this thread to the calls that wait for them, and tells the stack
    /// which others calls wait for.
    pub(super) fn accept_arrived(&mut self) {
        let Some(attendant) = self.attendant.take() else {
            return;
        };
        let mut arrived = attendant.arrived();
        while !arrived.is_empty() {
            for (listener, mut count) in arrived {
                while count > 0
                    && let Some(parked) = self.calls.take_accept(listener)
                {
                    count -= usize::from(self.go_on(parked, false));
                }
                if count > 0 {
                    attendant.show(listener);
                }
            }
            arrived = attendant.arrived();
        }
        let accepts = self.calls.accepts();
        if accepts != self.calls.told {
            attendant.awaits(accepts.clone());
            self.calls.told = accepts;
        }
        self.attendant = Some(attendant);
    }

    /// Serves the calls again that have waited by the stack's clock.
    pub(super) fn resume_by_clock(&mut self) {
        let Some(waits) = self.setup.waits.clone() else {
            return;
        };
        for call in waits.take_again() {
            let noted = self.calls.connecting.remove(&call.tid);
            let connecting = noted.filter(|(id, _)| *id == call.id);
            if self.listener.is_waiting(&call) {
                let answer = match connecting {
                    Some((_, connecting)) => self.connected(&call, connecting),
                    None => self.handle(&call),
                };
                self.files.done();
                self.listener.answer(&call, answer);
            }
        }
    }

    /// Forgets the calls whose callers are gone. Returns whether there were any.
    pub(super) fn forget_dead(&mut self) -> bool {
        let parked = self.calls.parked.len();
        let listener = &self.listener;
        self.calls
            .parked
            .retain(|parked| listener.is_waiting(&parked.call));
        let ended = self.setup.waits.as_ref();
        let ended = ended.is_some_and(|waits| waits.sweep(look::thread));
        ended || self.calls.parked.len() < parked
    }

    /// A call that waits again has the times that it had.
    fn keep_times(&mut self, call: &Call, deadline: Option<Instant>, since: Instant) {
        let again = self.calls.parked.iter_mut();
        if let Some(again) = again.into_iter().find(|other| other.call.id == call.id) {
            (again.deadline, again.since) = (deadline, since);
        }
    }

    /// Ends the waits whose time is over, whose caller has a signal to handle, or is gone.
    fn look(&mut self) {
        let now = Instant::now();
        let due = self.calls.looked.is_none_or(|last| now - last >= INTERVAL);
        if !due {
            return;
        }
        self.calls.looked = Some(now);
        for parked in std::mem::take(&mut self.calls.parked) {
            let call = parked.call;
            // One that has just begun to wait is left for the next time.
            let recent = now - parked.since < INTERVAL;
            let error = if recent && parked.deadline.is_none_or(|deadline| now < deadline) {
                self.calls.parked.push(parked);
                continue;
            } else if !self.listener.is_waiting(&call) {
                continue;
            } else if parked.deadline.is_some_and(|deadline| now >= deadline) {
                parked.waiting.limit().1
            } else if look::thread(call.tid).is_some_and(|thread| thread.has_signal(None)) {
                // With a time limit the call is not restarted.
                parked.deadline.map_or(RESTART, |_| libc::EINTR)
            } else {
                self.calls.parked.push(parked);
                continue;
            };
            drop(parked.file);
            self.listener.answer(&call, Err(Errno(error)));
        }
    }
}
