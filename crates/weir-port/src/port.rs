// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Live ports exchange frames with the host's network, or with another program, as they arrive.
//!
//! A [`Port`] moves batches between the outside and packets of the caller's pool. It does not know the
//! device it serves. Each kind is one file and one line in [`KINDS`](crate::kinds::KINDS).
//!
//! A port is made in two steps, because the process that has the privileges need not be the process
//! that runs the stack. [`Kind::open`] opens the files with the privileges and in the network
//! namespace of the caller. [`Kind::adopt`] makes the port from them, if need be in another process
//! that received them (`SCM_RIGHTS`).

use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use weir_packet::{Batch, Cache, LongPackets, Packet, Pool};

use crate::keys::Keys;
use crate::{Error, Result};

/// Judges received frames before packets are made of them: returns a bit for each frame that is
/// dropped.
pub type Sieve<'a> = &'a mut dyn FnMut(&[&[u8]]) -> u64;

/// A live port. One thread at a time polls a queue; any thread may call [`Port::send`].
pub trait Port: Send + Sync + fmt::Debug {
    /// The kind's name in [`KINDS`](crate::kinds::KINDS).
    fn kind(&self) -> &'static str;

    /// Describes the other end as it is now.
    fn facts(&self) -> Facts {
        Facts::default()
    }

    /// Returns whether the other end is there: connected, or a device that still exists.
    fn has_carrier(&self) -> bool {
        true
    }

    /// The number of queues, at least 1. Each queue receives and transmits.
    fn queues(&self) -> u16 {
        1
    }

    /// Returns the descriptor to poll for a queue. It is readable when frames wait, and readable or
    /// writable when the queue has room again after [`Port::send`] took fewer frames than it was given.
    /// It stays the same for the life of the port. `None` means that the queue never receives and
    /// always has room.
    fn descriptor(&self, queue: u16) -> Option<BorrowedFd<'_>>;

    /// Appends the frames that wait at a queue to `batch`, in packets from `memory`. If there is a `sieve` and
    /// the port [sifts](Port::sifts), the sieve judges frames first, up to 64 at a time, and no packets are made
    /// of those that it drops. Returns the number of frames taken, with those, or 0 if none waits. It stops when
    /// the batch is full or the memory is exhausted. Call it again after a full batch: frames that the port holds
    /// already do not make the descriptor readable.
    ///
    /// # Errors
    /// The port cannot go on: its device is gone, or the other end has hung up for good.
    fn take(
        &self,
        queue: u16,
        memory: &mut Cache,
        batch: &mut Batch,
        sieve: Option<Sieve<'_>>,
    ) -> io::Result<usize>;

    /// Takes frames without a sieve; see [`take`](Port::take).
    ///
    /// # Errors
    /// As for [`Port::take`].
    fn receive(&self, queue: u16, memory: &mut Cache, batch: &mut Batch) -> io::Result<usize> {
        self.take(queue, memory, batch, None)
    }

    /// The time of the stack's clock, in ns, at which the next frame of queue 0 is due. `None` if there is none.
    /// Under virtual time the stack calls [`Port::receive`] then, in place of polling a descriptor.
    fn due(&self) -> Option<u64> {
        None
    }

    /// Writes what waits inside the port. The port is not used afterwards.
    ///
    /// # Errors
    /// Frames that the port took are lost.
    fn close(&self) -> io::Result<()> {
        Ok(())
    }

    /// Returns whether [`take`](Port::take) has frames judged.
    fn sifts(&self) -> bool {
        false
    }

    /// The long packets that [`send`](Port::send) takes. [`receive`](Port::receive) may return others.
    fn long_packets(&self) -> LongPackets {
        LongPackets::NONE
    }

    /// Sends frames in order, as many as the queue has room for, and returns how many. A frame that the
    /// other end refuses counts as sent, and in [`Counters::tx_errors`].
    ///
    /// # Errors
    /// As for [`Port::receive`].
    fn send(&self, queue: u16, frames: &[Packet]) -> io::Result<usize>;

    /// Does the same, and removes the frames that it sends from `frames`. A port whose ring refers to the pool's
    /// memory keeps their packets, without a copy, until the kernel has sent them. `show` gets every frame that is
    /// sent, in order and perhaps in parts, before its packet changes hands. Packets that the port no longer needs,
    /// of these frames or of earlier ones, go to `spent`, which the caller frees; packets that do not fit return to
    /// their pool.
    ///
    /// # Errors
    /// As for [`Port::receive`]. Frames that were not shown are still in `frames`.
    fn pass(
        &self,
        queue: u16,
        frames: &mut Batch,
        spent: &mut Batch,
        show: &mut dyn FnMut(&[Packet]),
    ) -> io::Result<usize> {
        let sent = self.send(queue, frames.as_slice())?.min(frames.len());
        show(frames.get(..sent).unwrap_or_default());
        let rest = sent - frames.move_first(sent, spent);
        frames.move_first(rest, &mut Batch::new());
        Ok(sent)
    }

    /// The counters of frames lost at the border.
    fn counters(&self) -> &Counters;
}

/// A description of a port's other end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The Ethernet address of the host's device that the port uses.
    pub address: Option<[u8; 6]>,
    /// The largest network packet in bytes.
    pub mtu: Option<u32>,
    /// The host's device, or the path of a socket.
    pub name: String,
}

/// Frames lost at the border.
#[derive(Debug, Default)]
pub struct Counters {
    /// Received frames that were too long or malformed.
    pub rx_errors: AtomicU64,
    /// Received frames that were lost because a ring was full or memory was exhausted.
    pub rx_dropped: AtomicU64,
    /// Frames that the other end refused.
    pub tx_errors: AtomicU64,
}

impl Counters {
    /// Adds to a counter.
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        if count > 0 {
            counter.fetch_add(count, Relaxed);
        }
    }
}

/// A stack's clock.
#[derive(Clone)]
pub struct Clock {
    now: Arc<dyn Fn() -> (u64, u64) + Send + Sync>,
    is_virtual: bool,
}

impl Clock {
    /// A clock that `now` reads: its time, and the time at its start in nanoseconds since 1970.
    pub fn new(is_virtual: bool, now: impl Fn() -> (u64, u64) + Send + Sync + 'static) -> Self {
        let now = Arc::new(now);
        Self { now, is_virtual }
    }

    /// A real clock that starts now.
    pub fn real() -> Self {
        let start = Instant::now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        let epoch = wall.map_or(0, |since| since.as_nanos() as u64);
        Self::new(false, move || (start.elapsed().as_nanos() as u64, epoch))
    }

    /// Nanoseconds since the clock's start.
    pub fn now(&self) -> u64 {
        (self.now)().0
    }

    /// Nanoseconds since 1970.
    pub fn stamp(&self) -> u64 {
        let (now, epoch) = (self.now)();
        epoch.saturating_add(now)
    }

    /// Returns whether time is virtual.
    pub fn is_virtual(&self) -> bool {
        self.is_virtual
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock")
            .field("is_virtual", &self.is_virtual)
            .finish_non_exhaustive()
    }
}

/// The place where a port is attached.
#[derive(Clone, Debug)]
pub struct Site {
    /// The pool whose packets the port receives into.
    pub pool: Pool,
    /// The stack's clock.
    pub clock: Clock,
    /// The device's name: `dev` or `netns/dev`.
    pub device: String,
    /// The device's Ethernet address, if the port is the cable behind it.
    pub address: Option<[u8; 6]>,
    /// The seed of random numbers.
    pub seed: u64,
}

impl Site {
    /// A place at no device of a stack, with a real clock.
    pub fn new(pool: &Pool) -> Self {
        Self {
            pool: pool.clone(),
            clock: Clock::real(),
            device: "port".into(),
            address: None,
            seed: 0,
        }
    }
}

/// Makes a port of its open files.
pub type Adopt = fn(&Keys, Vec<OwnedFd>, &Site) -> Result<Arc<dyn Port>>;

/// A kind of live port.
#[derive(Debug)]
pub struct Kind {
    /// The name on the command line.
    pub name: &'static str,
    /// The keys of the description.
    pub keys: &'static [&'static str],
    /// Opens the files with the caller's privileges and in the caller's network namespace.
    pub open: fn(&Keys) -> Result<Vec<OwnedFd>>,
    /// Makes the port from the files.
    pub adopt: Adopt,
    /// A kind without a live outside is also served under virtual time: then the function returns whether a port
    /// of this description never ends.
    pub virtual_time: Option<fn(&Keys) -> bool>,
}

/// Returns a converter of I/O errors that says what failed.
pub(crate) fn failed(kind: &str, what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let what = what.into();
    move |cause| Error::io(kind, what, cause)
}
