// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Readers that hold up grace periods: who they are, where they pinned, and for how long.
//!
//! A failed attempt to complete a grace period notes the epoch of the oldest pinned reader and the
//! time. Later attempts that fail for the same epoch measure how long this reader has been in the
//! way. So a pin costs no clock, and the age is a lower bound: it starts with the first attempt.
//! Models and Miri have no clock, and see no stalls.

use crate::spin::SpinLock;
use core::panic::Location;
use core::time::Duration;
use std::sync::OnceLock;

/// A reader that is or was in the way of a grace period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowReader {
    /// The name given to [`super::Domain::named_reader`], or else the name of the thread that
    /// pinned last.
    pub name: String,
    /// The thread's number in the system (`gettid`), or 0 if it is not known.
    pub thread: u32,
    /// The file and line that pinned.
    pub place: String,
    /// How long it has been in the way at least.
    pub age: Duration,
}

impl core::fmt::Display for SlowReader {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { name, place, .. } = self;
        write!(f, "{name}")?;
        if self.thread != 0 {
            write!(f, " (thread {})", self.thread)?;
        }
        write!(f, ", pinned at {place}, {:.1?}", self.age)
    }
}

/// A reader that has been in the way for longer than [`super::Config::stall`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The reader.
    pub reader: SlowReader,
    /// The number of waiting callbacks.
    pub waiting: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl core::fmt::Display for Stall {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self {
            reader,
            waiting,
            bytes,
        } = self;
        write!(
            f,
            "rcu: {reader}, holds up {waiting} callbacks of {bytes} bytes"
        )
    }
}

type Hear = Box<dyn Fn(&Stall) + Send + Sync>;

/// The oldest reader in the way, and what became of earlier ones.
#[derive(Default)]
struct Seen {
    /// The epoch of the reader in the way, and the time of the first failed attempt.
    blocked: Option<(u64, Time)>,
    #[cfg_attr(any(loom, miri), allow(dead_code))]
    reported: bool,
    stalls: u64,
    slowest: Option<SlowReader>,
}

#[derive(Default)]
pub(super) struct Watch {
    seen: SpinLock<Seen>,
    #[cfg_attr(any(loom, miri), allow(dead_code))]
    hear: OnceLock<Hear>,
}

/// A reader is remembered as the slowest when it exceeds the one before by this.
#[cfg(not(any(loom, miri)))]
const NOTICE: Duration = Duration::from_millis(1);

impl Watch {
    pub(super) fn listen(&self, hear: Hear) {
        let _ = self.hear.set(hear);
    }

    pub(super) fn stalls(&self) -> u64 {
        self.seen.lock().stalls
    }

    pub(super) fn slowest(&self) -> Option<SlowReader> {
        self.seen.lock().slowest.clone()
    }

    /// Returns how long the readers of an epoch have been in the way.
    pub(super) fn age(&self, epoch: u64) -> Duration {
        match self.seen.lock().blocked {
            Some((blocked, since)) if blocked == epoch => elapsed(since),
            _ => Duration::ZERO,
        }
    }
}

/// What [`Watch::blocked`] finds.
#[cfg(not(any(loom, miri)))]
pub(super) struct Blocked {
    age: Duration,
    /// Whether the reader is to be reported, for the first time.
    pub(super) stalled: bool,
}

#[cfg(not(any(loom, miri)))]
impl Watch {
    /// Notes that a reader of epoch `least` is in the way. Returns something if the reader should be
    /// looked at.
    pub(super) fn blocked(&self, least: u64, stall: Duration) -> Option<Blocked> {
        // Another thread that looks at the moment sees the same.
        let mut seen = self.seen.try_lock()?;
        let since = match seen.blocked {
            Some((epoch, since)) if epoch == least => since,
            _ => {
                seen.blocked = Some((least, now()));
                seen.reported = false;
                return None;
            }
        };
        let age = elapsed(since);
        let slowest = seen.slowest.as_ref();
        let known = slowest.map_or(Duration::ZERO, |slow| slow.age);
        let stalled = age >= stall && !seen.reported;
        if age < known + NOTICE && !stalled {
            return None;
        }
        seen.reported |= stalled;
        Some(Blocked { age, stalled })
    }

    /// Remembers the reader in the way.
    pub(super) fn found(&self, blocked: &Blocked, reader: &mut SlowReader) {
        reader.age = blocked.age;
        let mut seen = self.seen.lock();
        let slowest = seen.slowest.as_ref();
        if slowest.is_none_or(|slow| slow.age < reader.age) {
            seen.slowest = Some(reader.clone());
        }
        seen.stalls += u64::from(blocked.stalled);
    }

    /// Reports a reader.
    pub(super) fn report(&self, stall: &Stall) {
        if let Some(hear) = self.hear.get() {
            hear(stall);
        }
    }
}

/// The thread and the place of a slot's last pin. Written by the thread that pins, and only read
/// for messages, so models leave it out.
#[derive(Default)]
pub(super) struct Trail {
    name: SpinLock<Option<Box<str>>>,
    #[cfg(not(loom))]
    thread: core::sync::atomic::AtomicU32,
    #[cfg(not(loom))]
    place: core::sync::atomic::AtomicPtr<Location<'static>>,
}

impl Trail {
    /// Names the reader that owns the slot.
    pub(super) fn set_name(&self, name: Option<Box<str>>) {
        *self.name.lock() = name;
    }

    /// Notes where the slot was pinned.
    #[inline(always)]
    pub(super) fn pinned(&self, place: &'static Location<'static>) {
        #[cfg(not(loom))]
        {
            let place = core::ptr::from_ref(place).cast_mut();
            self.place
                .store(place, core::sync::atomic::Ordering::Relaxed);
        }
        #[cfg(loom)]
        let _ = place;
    }

    /// Notes that the calling thread is another one than before.
    #[cold]
    pub(super) fn changed_thread(&self) {
        #[cfg(not(loom))]
        self.thread
            .store(system_thread(), core::sync::atomic::Ordering::Relaxed);
    }

    #[cfg(not(loom))]
    pub(super) fn read(&self) -> SlowReader {
        use core::sync::atomic::Ordering::Relaxed;
        let thread = self.thread.load(Relaxed);
        let place = self.place.load(Relaxed);
        // SAFETY: only `pinned` stores here, and it stores references for all time.
        #[allow(unsafe_code)]
        let place = unsafe { place.as_ref() };
        let given = self.name.lock().as_deref().map(str::to_owned);
        SlowReader {
            name: given.unwrap_or_else(|| thread_name(thread)),
            thread,
            place: place.map_or_else(String::new, |at| format!("{}:{}", at.file(), at.line())),
            age: Duration::ZERO,
        }
    }

    #[cfg(loom)]
    pub(super) fn read(&self) -> SlowReader {
        SlowReader {
            name: String::new(),
            thread: 0,
            place: String::new(),
            age: Duration::ZERO,
        }
    }
}

/// Returns the calling thread's number in the system. Reads it once a thread.
#[cfg(not(loom))]
fn system_thread() -> u32 {
    use core::cell::Cell;
    thread_local! {
        static NUMBER: Cell<u32> = const { Cell::new(0) };
    }
    if NUMBER.get() == 0 && cfg!(target_os = "linux") && !cfg!(miri) {
        // It is a link to `PID/task/TID`.
        let link = std::fs::read_link("/proc/thread-self").ok();
        let number = link.and_then(|link| link.file_name()?.to_str()?.parse().ok());
        NUMBER.set(number.unwrap_or(0));
    }
    NUMBER.get()
}

#[cfg(not(loom))]
fn thread_name(thread: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm"));
    match name {
        Ok(name) if thread != 0 => name.trim_end().to_owned(),
        _ => "a thread that has ended".to_owned(),
    }
}

#[cfg(not(any(loom, miri)))]
pub(super) type Time = std::time::Instant;
#[cfg(not(any(loom, miri)))]
pub(super) fn now() -> Time {
    std::time::Instant::now()
}
#[cfg(not(any(loom, miri)))]
pub(super) fn elapsed(start: Time) -> Duration {
    start.elapsed()
}
#[cfg(any(loom, miri))]
pub(super) type Time = ();
#[cfg(any(loom, miri))]
pub(super) fn now() {}
/// Models have no clock, so patience runs out at once.
#[cfg(any(loom, miri))]
pub(super) fn elapsed((): ()) -> Duration {
    Duration::MAX
}
