// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who watches the stack's ends of all sockets, and serves what happens there.
//!
//! One thread at a time: the supervisor of a launch in the process of the stack, between the calls that it answers
//! ([`Backend::attend`](weir_intercept::Backend::attend)), or else a thread of its own. A connection makes work for both
//! sides in turn; two threads would spend more time on waking each other and on the lock of the CPU than on that work.
//! Under virtual time the driver of the clock serves sockets ([`crate::engine::time`]).

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Condvar, Mutex, PoisonError, Weak};
use std::thread::ThreadId;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno as Os;
use weir_intercept::{Attendant, Errno, SocketId};

use super::stream;
use super::{Ending, Engine, lock};

/// The most events that are taken at once.
const EVENTS: usize = 128;
/// How long the thread leaves events to the driver of virtual time.
const LATER: Duration = Duration::from_millis(1);
/// How often the thread looks whether the stack is gone: nothing else ends its wait.
const SECOND: Duration = Duration::from_secs(1);

/// Whether a supervisor watches the sockets.
#[derive(Debug, Default)]
pub(super) struct Attendance {
    /// The thread of the supervisor that does.
    by: Mutex<Option<ThreadId>>,
    /// Nobody attends any more.
    left: Condvar,
}

impl Attendance {
    /// Takes the work over, unless somebody has it.
    fn take(&self) -> bool {
        let mut by = lock(&self.by);
        let takes = by.is_none();
        if takes {
            *by = Some(std::thread::current().id());
        }
        takes
    }

    fn leave(&self) {
        *lock(&self.by) = None;
        self.left.notify_all();
    }

    fn is_taken(&self) -> bool {
        lock(&self.by).is_some()
    }

    /// Returns whether the calling thread attends.
    pub(super) fn is_mine(&self) -> bool {
        *lock(&self.by) == Some(std::thread::current().id())
    }

    /// Waits for at most `time` until nobody attends. Returns whether that is so.
    fn await_leave(&self, time: Duration) -> bool {
        let by = lock(&self.by);
        let waited = (self.left).wait_timeout_while(by, time, |by| by.is_some());
        waited.unwrap_or_else(PoisonError::into_inner).0.is_none()
    }
}

/// The connections that calls of the supervisor that attends wait for.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    /// How many calls there are at each listening stream, in the order of the ids.
    calls: Vec<(SocketId, usize)>,
    /// The streams at which connections have come for them.
    arrived: BTreeSet<u64>,
}

impl Awaited {
    /// Returns whether there is a call for each of `count` connections at a listening stream. The supervisor then hears of
    /// them.
    pub(super) fn take(&mut self, listener: u64, count: usize) -> bool {
        let place = (self.calls).binary_search_by_key(&listener, |(listener, _)| listener.0);
        let enough = place.is_ok_and(|place| self.calls[place].1 >= count);
        if enough {
            self.arrived.insert(listener);
        }
        enough
    }
}

/// A supervisor that watches the sockets.
struct Watcher {
    engine: Weak<Engine>,
    watch: OwnedFd,
}

impl AsFd for Watcher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

impl Attendant for Watcher {
    fn serve(&self) {
        if let Some(engine) = self.engine.upgrade() {
            engine.serve_sockets();
        }
    }

    fn awaits(&self, calls: Vec<(SocketId, usize)>) {
        if let Some(engine) = self.engine.upgrade() {
            lock(&engine.inet.awaited).calls = calls;
        }
    }

    fn arrived(&self) -> Vec<(SocketId, usize)> {
        let Some(engine) = self.engine.upgrade() else {
            return Vec::new();
        };
        let arrived = std::mem::take(&mut lock(&engine.inet.awaited).arrived);
        let unshown = |id| {
            let endpoint = engine.endpoint(SocketId(id)).ok()?;
            let socket = endpoint.socket().ok()?;
            let unshown = endpoint.stream.as_ref()?.unshown(&socket);
            Some((SocketId(id), unshown))
        };
        arrived.into_iter().filter_map(unshown).collect()
    }

    fn show(&self, listener: SocketId) {
        if let Some(engine) = self.engine.upgrade()
            && let Ok(endpoint) = engine.endpoint(listener)
        {
            engine.with_cx(|cx| endpoint.show_waiting(cx));
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.awaits(Vec::new());
        for (listener, _) in self.arrived() {
            self.show(listener);
        }
        if let Some(engine) = self.engine.upgrade() {
            engine.inet.attendance.leave();
        }
    }
}

impl Engine {
    /// Lets a supervisor watch the sockets. `None` if there are none, somebody else does, or the clock's driver serves them.
    pub(in super::super) fn attend_sockets(&self) -> Option<Box<dyn Attendant>> {
        let watch = rustix::io::dup(self.inet.watch.get()?).ok()?;
        if self.time.serves_sockets() || !self.inet.attendance.take() {
            return None;
        }
        let engine = self.me.clone();
        Some(Box::new(Watcher { engine, watch }))
    }

    /// Watches the stack's end of a socket from now on.
    pub(super) fn watch(
        &self,
        id: u64,
        wire: &OwnedFd,
        events: epoll::EventFlags,
    ) -> Result<(), Errno> {
        let os = |error: Os| Errno(error.raw_os_error());
        let watch = match self.inet.watch.get() {
            Some(watch) => watch,
            None => self.begin_watch()?,
        };
        let data = epoll::EventData::new_u64(id);
        epoll::add(watch, wire, data, events).map_err(os)
    }

    /// Makes the epoll of all sockets and starts the thread that serves it.
    fn begin_watch(&self) -> Result<&OwnedFd, Errno> {
        let made = epoll::create(epoll::CreateFlags::CLOEXEC);
        let made = made.map_err(|error| Errno(error.raw_os_error()))?;
        let mut first = false;
        let watch = self.inet.watch.get_or_init(|| {
            first = true;
            made
        });
        if first {
            let (engine, attendance) = (self.me.clone(), self.inet.attendance.clone());
            let own = rustix::io::dup(watch).map_err(|error| Errno(error.raw_os_error()))?;
            std::thread::Builder::new()
                .name("weir-sockets".into())
                .spawn(move || serve(&engine, &attendance, own.as_fd()))?;
        }
        Ok(watch)
    }

    /// Serves what programs have written to their streams, and the sockets that they have closed, in the order of the
    /// sockets. Returns whether there was anything.
    ///
    /// Under virtual time the clock's driver calls this when all programs wait: what a program writes until it waits then
    /// leaves in the same segments in every run.
    pub(in super::super) fn serve_sockets(&self) -> bool {
        let Some(watch) = self.inet.watch.get() else {
            return false;
        };
        let _serving = self.time.serving();
        let _turn = lock(&self.inet.turn);
        let events = events(watch);
        let later = std::mem::take(&mut *lock(&self.inet.later));
        let events = events.iter().map(|event| (event.data.u64(), event.flags));
        let later = later.into_iter().map(|id| (id, epoll::EventFlags::empty()));
        let mut ready: Vec<(u64, epoll::EventFlags)> = events.chain(later).collect();
        ready.sort_unstable_by_key(|(id, _)| *id);
        // An event and work for later are one.
        ready.dedup_by(|next, first| {
            let same = next.0 == first.0;
            if same {
                first.1 |= next.1;
            }
            same
        });
        for &(id, flags) in &ready {
            self.inet_event(id, flags);
        }
        !ready.is_empty()
    }

    /// Closes the sockets that programs have closed. Under virtual time what others have written waits.
    pub(super) fn serve_closed(&self) {
        let Some(watch) = self.inet.watch.get() else {
            return;
        };
        let _turn = lock(&self.inet.turn);
        loop {
            let events = events(watch);
            for event in &events {
                let (id, flags) = (event.data.u64(), event.flags);
                if flags.contains(epoll::EventFlags::HUP) || !self.time.serves_sockets() {
                    self.inet_event(id, flags);
                } else {
                    lock(&self.inet.later).insert(id);
                    self.time.sent().fetch_add(1, SeqCst);
                }
            }
            if events.len() < EVENTS {
                return;
            }
        }
    }

    /// Returns whether a program has ever opened a socket.
    pub(in super::super) fn has_inet(&self) -> bool {
        self.inet.watch.get().is_some()
    }

    /// Returns whether a program has written to a stream, or closed a socket, and nobody has looked at it.
    pub(in super::super) fn inet_is_busy(&self) -> bool {
        let Some(watch) = self.inet.watch.get() else {
            return false;
        };
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        !lock(&self.inet.later).is_empty()
            || poll(&mut [PollFd::new(watch, PollFlags::IN)], Some(&now)) != Ok(0)
    }

    /// Serves an event of a socket's end.
    fn inet_event(&self, id: u64, events: epoll::EventFlags) {
        let Ok(endpoint) = self.endpoint(SocketId(id)) else {
            self.tun_event(id);
            return;
        };
        if endpoint.stream.is_none() {
            self.take_packets(&endpoint);
            if events.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
                self.with_cx(|cx| self.close_endpoint(cx, &endpoint, Ending::Closed));
            }
            return;
        }
        let what = match self.time.serves_sockets() {
            true => stream::WOKEN | stream::EVENT | stream::ENDS,
            false => stream::EVENT | stream::ends(events),
        };
        self.with_cx(|cx| endpoint.run_now(cx, self, what));
    }
}

/// Takes events that have come, at most [`EVENTS`].
fn events(watch: &OwnedFd) -> Vec<epoll::Event> {
    let mut events = Vec::with_capacity(EVENTS);
    let none = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // An error leaves the list empty.
    let _ = epoll::wait(
        watch,
        rustix::buffer::spare_capacity(&mut events),
        Some(&none),
    );
    events
}

/// Serves the ends of all sockets until the stack is gone.
fn serve(engine: &Weak<Engine>, attendance: &Attendance, watch: BorrowedFd<'_>) {
    let second = Timespec {
        tv_sec: SECOND.as_secs() as i64,
        tv_nsec: 0,
    };
    loop {
        // The event is still in the epoll while this thread is not counted as serving.
        let mut ready = [PollFd::from_borrowed_fd(watch, PollFlags::IN)];
        let waited = match attendance.await_leave(SECOND) {
            true => poll(&mut ready, Some(&second)),
            false => Ok(0),
        };
        let Some(engine) = engine.upgrade() else {
            return;
        };
        if engine.is_stopping() {
            return;
        }
        // Somebody may have begun to attend meanwhile.
        if !matches!(waited, Ok(1..)) || attendance.is_taken() {
            continue;
        }
        if engine.time.serves_sockets() {
            std::thread::sleep(LATER);
        } else {
            engine.serve_sockets();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_taken_if_there_is_a_call_for_each() {
        let mut awaited = Awaited {
            calls: vec![(SocketId(3), 2), (SocketId(7), 1)],
            ..Awaited::default()
        };
        assert!(!awaited.take(3, 3) && !awaited.take(5, 1));
        assert!(awaited.arrived.is_empty());
        assert!(awaited.take(3, 1) && awaited.take(3, 2) && awaited.take(7, 1));
        assert!(awaited.arrived.iter().eq(&[3, 7]));
        awaited.calls.clear();
        assert!(!awaited.take(7, 1));
    }

    #[test]
    fn one_thread_attends_at_a_time() {
        let attendance = Attendance::default();
        assert!(!attendance.is_taken() && !attendance.is_mine());
        assert!(attendance.take() && !attendance.take() && attendance.is_mine());
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(!attendance.take() && !attendance.is_mine()));
        });
        attendance.leave();
        assert!(!attendance.is_mine() && attendance.await_leave(SECOND));
    }
}
