// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A live port of a source and a sink: each frame of the source arrives at its time, and the sink gets the frames that
//! the port is sent, with the time of the stack's clock.
//!
//! In real time the port's descriptor is a timer. A pipe is read by a thread of its own, which starts the timer when a
//! frame has come, so that a pipe without data delays nothing else. Under virtual time there is no descriptor: the
//! stack asks when the next frame is due ([`Port::due`]).

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use weir_packet::packet::JUMBO_DATA;
use weir_packet::vnet::Wired;
use weir_packet::{Batch, Cache, Packet};

use crate::port::{Clock, Counters, Facts, Port, Sieve, Site, failed};
use crate::{Direction, Error, Frame, Result, Sink, Source};

/// The most frames of a pipe that wait for the stack.
const AHEAD: usize = 256;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a timer that ends after `ns` nanoseconds.
fn start(timer: &OwnedFd, ns: u64) {
    // An interval of 0 would stop the timer.
    let ns = ns.max(1);
    let times = Itimerspec {
        it_interval: Timespec::default(),
        it_value: Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as _,
        },
    };
    // It fails for invalid times only.
    let _ = timerfd_settime(timer, TimerfdTimerFlags::empty(), &times);
}

/// The result of asking a feed for a frame.
enum Next {
    Frame,
    /// A pipe has no frame now.
    Later,
    End,
}

/// A source of a port, and the time stamp at which the port begins.
pub(crate) struct Feed {
    origin: Origin,
    /// `None` is that of the first frame.
    zero: Option<u64>,
}

/// Begins to read a source, whose name is for errors, from a stream.
pub(crate) type Open = fn(&str, Box<dyn Read + Send>) -> Result<Box<dyn Source>>;

enum Origin {
    Source(Box<dyn Source>),
    Pipe(String, File, Open),
    Piped(Piped),
}

impl Feed {
    /// A source that begins at its time stamp 0.
    pub(crate) fn from_zero(source: Box<dyn Source>) -> Self {
        Self {
            origin: Origin::Source(source),
            zero: Some(0),
        }
    }

    /// A source that begins with its first frame.
    pub(crate) fn from_first(source: Box<dyn Source>) -> Self {
        Self {
            origin: Origin::Source(source),
            zero: None,
        }
    }

    /// A source from a pipe, named `name` in errors, which begins when its first frame comes.
    pub(crate) fn pipe(name: &str, file: File, open: Open) -> Self {
        Self {
            origin: Origin::Pipe(name.to_owned(), file, open),
            zero: None,
        }
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Next> {
        let source: &mut dyn Source = match &mut self.origin {
            Origin::Source(source) => &mut **source,
            Origin::Piped(piped) => return piped.next(frame),
            Origin::Pipe(name, file, open) => {
                let file = file.try_clone();
                let file = file.map_err(|cause| Error::io(name, "cannot be read", cause))?;
                self.origin = Origin::Source(open(name, Box::new(file))?);
                return self.next(frame);
            }
        };
        Ok(match source.read(frame)? {
            true => Next::Frame,
            false => Next::End,
        })
    }
}

/// The frames of a pipe that its thread has read.
struct Waiting {
    frames: VecDeque<Frame>,
    /// The end of the pipe, and its error if there was one.
    end: Option<Result<()>>,
    /// The port is gone.
    stopped: bool,
}

struct Shared {
    waiting: Mutex<Waiting>,
    room: Condvar,
    timer: OwnedFd,
}

/// The thread that reads a pipe.
struct Piped {
    shared: Arc<Shared>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// Reads a file that may have no data for long, until the event occurs.
struct Stoppable(File, Arc<OwnedFd>);

impl Read for Stoppable {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut both = [
                PollFd::new(&self.0, PollFlags::IN),
                PollFd::new(&*self.1, PollFlags::IN),
            ];
            poll(&mut both, None)?;
            if !both[1].revents().is_empty() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            match self.0.read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
    }
}

impl Shared {
    /// Reads the pipe to its end.
    fn read(&self, name: &str, file: Stoppable, open: Open) -> Result<()> {
        let mut reader = open(name, Box::new(file))?;
        loop {
            let mut frame = Frame::default();
            if !reader.read(&mut frame)? {
                return Ok(());
            }
            let mut waiting = lock(&self.waiting);
            while waiting.frames.len() >= AHEAD && !waiting.stopped {
                let woken = self.room.wait(waiting);
                waiting = woken.unwrap_or_else(PoisonError::into_inner);
            }
            if waiting.stopped {
                return Ok(());
            }
            waiting.frames.push_back(frame);
            if waiting.frames.len() == 1 {
                start(&self.timer, 0);
            }
        }
    }
}

impl Piped {
    fn new(name: String, file: File, open: Open, timer: OwnedFd) -> io::Result<Self> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let shared = Arc::new(Shared {
            waiting: Mutex::new(Waiting {
                frames: VecDeque::new(),
                end: None,
                stopped: false,
            }),
            room: Condvar::new(),
            timer,
        });
        let (inner, input) = (shared.clone(), Stoppable(file, stop.clone()));
        let read = move || {
            let end = inner.read(&name, input, open);
            lock(&inner.waiting).end = Some(end);
            start(&inner.timer, 0);
        };
        let thread = std::thread::Builder::new().name("capture".into());
        let thread = Some(thread.spawn(read)?);
        Ok(Self {
            shared,
            stop,
            thread,
        })
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Next> {
        let mut waiting = lock(&self.shared.waiting);
        if let Some(next) = waiting.frames.pop_front() {
            self.shared.room.notify_one();
            *frame = next;
            return Ok(Next::Frame);
        }
        match waiting.end.take() {
            None => Ok(Next::Later),
            Some(end) => end.map(|()| Next::End),
        }
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        lock(&self.shared.waiting).stopped = true;
        self.shared.room.notify_one();
        // A write to a new eventfd has room.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}

/// A feed in progress.
struct Playing {
    feed: Feed,
    frame: Frame,
    /// The frame is the next one to arrive.
    held: bool,
    /// The time of the clock that corresponds to the feed's first time stamp, and that stamp.
    begun: Option<(u64, Option<u64>)>,
    over: bool,
    /// The error that ended the feed, until [`Port::receive`] returns it.
    failure: Option<String>,
}

impl Playing {
    /// Returns the time at which the next frame, or an error, is due. `None` if there is none for now.
    fn due(&mut self, clock: &Clock) -> Option<u64> {
        let begun = *self.begun.get_or_insert_with(|| {
            // A feed that begins with its first frame is completed below.
            (clock.now(), self.feed.zero)
        });
        if self.failure.is_some() {
            return Some(clock.now());
        }
        if self.over {
            return None;
        }
        if !self.held {
            match self.feed.next(&mut self.frame) {
                Ok(Next::Frame) => self.held = true,
                Ok(Next::Later) => return None,
                Ok(Next::End) => {
                    self.over = true;
                    return None;
                }
                Err(error) => {
                    self.failure = Some(error.to_string());
                    return Some(clock.now());
                }
            }
        }
        let (start, zero) = match begun {
            (start, Some(zero)) => (start, zero),
            (_, None) => {
                let (start, zero) = (clock.now(), self.frame.time_ns);
                self.begun = Some((start, Some(zero)));
                (start, zero)
            }
        };
        // Time stamps in a capture may go backwards; the clock does not.
        Some(
            self.frame
                .time_ns
                .saturating_sub(zero)
                .saturating_add(start),
        )
    }
}

/// A sink, the number of its only interface, and a frame to write from.
struct Writing {
    sink: Box<dyn Sink>,
    interface: u32,
    frame: Frame,
}

/// The port.
pub(crate) struct Paced {
    kind: &'static str,
    name: String,
    clock: Clock,
    /// Readable when frames are due. There is none under virtual time.
    timer: Option<OwnedFd>,
    playing: Option<Mutex<Playing>>,
    writing: Option<Mutex<Writing>>,
    counters: Counters,
}

impl Paced {
    /// Makes a port whose other end is called `name`.
    pub(crate) fn new(
        kind: &'static str,
        name: String,
        feed: Option<Feed>,
        sink: Option<Box<dyn Sink>>,
        site: &Site,
    ) -> Result<Self> {
        let mut timer = None;
        let mut feed = feed;
        if feed.is_some() && !site.clock.is_virtual() {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let made = timerfd_create(TimerfdClockId::Monotonic, flags);
            let made = made.map_err(|error| failed(kind, "timerfd")(error.into()))?;
            start(&made, 0);
            if let Some(Feed { origin, .. }) = &mut feed
                && let Origin::Pipe(name, file, open) = origin
            {
                let piped = file.try_clone().and_then(|file| {
                    let timer = made.try_clone()?;
                    Piped::new(name.clone(), file, *open, timer)
                });
                *origin = Origin::Piped(piped.map_err(failed(kind, name.clone()))?);
            }
            timer = Some(made);
        }
        let writing = sink.map(|mut sink| -> Result<_> {
            let interface = sink.interface(&site.device)?;
            Ok(Mutex::new(Writing {
                sink,
                interface,
                frame: Frame::default(),
            }))
        });
        let playing = feed.map(|feed| {
            Mutex::new(Playing {
                feed,
                frame: Frame::default(),
                held: false,
                begun: None,
                over: false,
                failure: None,
            })
        });
        Ok(Self {
            kind,
            name,
            clock: site.clock.clone(),
            timer,
            playing,
            writing: writing.transpose()?,
            counters: Counters::default(),
        })
    }
}

impl fmt::Debug for Paced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paced")
            .field("kind", &self.kind)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Port for Paced {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn facts(&self) -> Facts {
        Facts {
            name: self.name.clone(),
            ..Facts::default()
        }
    }

    fn descriptor(&self, _: u16) -> Option<BorrowedFd<'_>> {
        self.timer.as_ref().map(AsFd::as_fd)
    }

    fn due(&self) -> Option<u64> {
        lock(self.playing.as_ref()?).due(&self.clock)
    }

    fn take(
        &self,
        _: u16,
        memory: &mut Cache,
        batch: &mut Batch,
        _: Option<Sieve<'_>>,
    ) -> io::Result<usize> {
        let Some(playing) = &self.playing else {
            return Ok(0);
        };
        let mut playing = lock(playing);
        if let Some(timer) = &self.timer {
            // Empty unless the timer has ended.
            let _ = rustix::io::read(timer, &mut [0_u8; 8]);
        }
        let before = batch.len();
        let now = self.clock.now();
        while !batch.is_full() {
            let Some(due) = playing.due(&self.clock) else {
                break;
            };
            if playing.failure.is_some() && batch.len() > before {
                // The frames before the error arrive first.
                break;
            }
            if let Some(failure) = playing.failure.take() {
                playing.over = true;
                return Err(io::Error::other(failure));
            }
            if due > now && self.clock.now() < due {
                if let Some(timer) = &self.timer {
                    start(timer, due - now);
                }
                break;
            }
            playing.held = false;
            let data = &playing.frame.data;
            match playing.frame.is_complete() && data.len() <= JUMBO_DATA {
                false => Counters::add(&self.counters.rx_errors, 1),
                true => match memory.packet(data) {
                    Some(packet) => drop(batch.push(packet)),
                    None => Counters::add(&self.counters.rx_dropped, 1),
                },
            }
        }
        Ok(batch.len() - before)
    }

    fn send(&self, _: u16, frames: &[Packet]) -> io::Result<usize> {
        let Some(writing) = &self.writing else {
            return Ok(frames.len());
        };
        let mut writing = lock(writing);
        let time_ns = self.clock.stamp();
        let Writing {
            sink,
            interface,
            frame,
        } = &mut *writing;
        for packet in frames {
            frame.data.clear();
            for part in Wired::new(packet).parts() {
                frame.data.extend_from_slice(part);
            }
            frame.time_ns = time_ns;
            frame.orig_len = frame.data.len() as u32;
            frame.interface = *interface;
            frame.direction = Direction::Out;
            sink.write(frame)
                .map_err(|error| io::Error::other(error.to_string()))?;
        }
        if !self.clock.is_virtual() {
            // A reader sees the frames at once.
            sink.flush()
                .map_err(|error| io::Error::other(error.to_string()))?;
        }
        Ok(frames.len())
    }

    fn close(&self) -> io::Result<()> {
        let Some(writing) = &self.writing else {
            return Ok(());
        };
        let finished = lock(writing).sink.finish();
        finished
            .map(drop)
            .map_err(|error| io::Error::other(error.to_string()))
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
