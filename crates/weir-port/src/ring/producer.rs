// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stack's side.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*, fence};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};

use super::memory::{self, FIXED, Map, READ_ONLY};
use super::{
    DEVICES, Ends, FRAMES, HEAD, HEADER, Head, LOST, LOST_AT, MAGIC, Meta, PAGE, Shape, VERSION,
};

/// A frame in up to three parts that follow each other.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pieces<'a>(pub [&'a [u8]; 3]);

impl Pieces<'_> {
    /// Returns the bytes of the frame.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.iter().map(|piece| piece.len()).sum()
    }

    /// Returns whether the frame has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What the stack keeps of a CPU's ring. One thread at a time writes it. It is made of atomics so
/// that a second one could garble frames but not memory.
#[repr(align(128))]
#[derive(Debug)]
struct Cpu {
    /// The end of the last record.
    head: AtomicU64,
    /// The head that the reader knows of.
    published: AtomicU64,
    /// The last valid tail.
    tail: AtomicU64,
    frames: AtomicU64,
    lost: AtomicU64,
    /// The devices that lost frames, plus one, and how many.
    lost_at: Box<[(AtomicU64, AtomicU64)]>,
}

impl Cpu {
    fn new() -> Self {
        Self {
            head: AtomicU64::new(0),
            published: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            frames: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            lost_at: (0..DEVICES).map(|_| Default::default()).collect(),
        }
    }
}

/// Writes frames into rings; see the module documentation.
#[derive(Debug)]
pub struct Producer {
    shape: Shape,
    rings: Map,
    reader: Map,
    socket: OwnedFd,
    cpus: Box<[Cpu]>,
    /// The most bytes of a frame that are copied.
    snap: usize,
    gone: AtomicBool,
}

impl Producer {
    /// Makes the rings of `cpus` CPUs, each of `ring` bytes: a power of two from
    /// [`MIN_RING`](super::MIN_RING) to [`MAX_RING`](super::MAX_RING). At most `snap` bytes of a
    /// frame are copied. Returns what the reader gets.
    pub fn new(cpus: usize, ring: usize, snap: usize) -> io::Result<(Self, Ends)> {
        let shape = Shape::new(cpus, ring)?;
        let file = memory::file(c"weir-capture", shape.bytes())?;
        let words = memory::file(c"weir-capture-reader", shape.reader_bytes())?;
        let rings = Map::new(&file, shape.bytes(), true)?;
        let reader = Map::new(&words, shape.reader_bytes(), true)?;
        memory::seal(&file, FIXED | READ_ONLY)?;
        memory::seal(&words, FIXED)?;
        let kind = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (socket, theirs) = socketpair(kind.0, kind.1, SocketFlags::CLOEXEC, None)?;
        for (n, word) in [MAGIC, VERSION, cpus as u64, ring as u64]
            .iter()
            .enumerate()
        {
            rings.store(8 * n, *word, Release);
        }
        let producer = Self {
            shape,
            rings,
            reader,
            socket,
            cpus: (0..cpus).map(|_| Cpu::new()).collect(),
            // A record never fills more than half a ring.
            snap: snap.min(ring / 2 - HEADER),
            gone: AtomicBool::new(false),
        };
        Ok((producer, Ends([file, words, theirs])))
    }

    /// Copies a frame into the ring of a CPU. Returns `false` if it is lost, for want of room. The
    /// reader sees the frame after [`publish`](Self::publish). Only the CPU itself may call this.
    #[inline]
    pub fn push(&self, cpu: usize, meta: Meta, frame: Pieces<'_>) -> bool {
        let Some(own) = self.cpus.get(cpu) else {
            return false;
        };
        let length = frame.len();
        let head = Head {
            captured: length.min(self.snap) as u32,
            original: length as u32,
            meta,
        };
        let at = own.head.load(Relaxed);
        let record = head.record() as u64;
        if !self.has_room(cpu, own, at, record) {
            self.lose(cpu, own, meta.device);
            return false;
        }
        self.copy(cpu, at, &head.to_bytes());
        let (mut to, mut left) = (at + HEADER as u64, head.captured as usize);
        for piece in frame.0 {
            let part = piece.get(..left).unwrap_or(piece);
            self.copy(cpu, to, part);
            to += part.len() as u64;
            left -= part.len();
        }
        own.head.store(at + record, Relaxed);
        own.frames.store(own.frames.load(Relaxed) + 1, Relaxed);
        true
    }

    /// Returns whether a record fits. Looks at the reader's tail only if the last one it knows of
    /// leaves no room.
    #[inline]
    fn has_room(&self, cpu: usize, own: &Cpu, at: u64, record: u64) -> bool {
        let size = self.shape.ring as u64;
        if record <= size - (at - own.tail.load(Relaxed)) {
            return true;
        }
        let tail = self.reader.load(self.shape.tail(cpu), Acquire);
        // The reader may have written anything.
        let Some(used) = at.checked_sub(tail).filter(|used| *used <= size) else {
            return false;
        };
        own.tail.store(tail, Relaxed);
        record <= size - used
    }

    /// Copies bytes into a ring, around its end if they reach it.
    #[inline]
    fn copy(&self, cpu: usize, at: u64, bytes: &[u8]) {
        let (start, size) = (self.shape.ring(cpu), self.shape.ring);
        let offset = (at & (size as u64 - 1)) as usize;
        match bytes.split_at_checked(size - offset) {
            Some((first, rest)) => {
                self.rings.write(start + offset, first);
                self.rings.write(start, rest);
            }
            None => self.rings.write(start + offset, bytes),
        }
    }

    /// Counts a lost frame of a device.
    #[cold]
    fn lose(&self, cpu: usize, own: &Cpu, device: u32) {
        let words = self.shape.words(cpu);
        let lost = own.lost.load(Relaxed) + 1;
        own.lost.store(lost, Relaxed);
        self.rings.store(words + LOST, lost, Relaxed);
        let key = u64::from(device) + 1;
        let probes = (0..DEVICES).map(|n| (device as usize + n) % DEVICES);
        for at in probes {
            let (of, count) = &own.lost_at[at];
            let found = of.load(Relaxed);
            if found == key || found == 0 {
                of.store(key, Relaxed);
                let lost = count.load(Relaxed) + 1;
                count.store(lost, Relaxed);
                self.rings.store(words + LOST_AT + 16 * at, key, Relaxed);
                self.rings
                    .store(words + LOST_AT + 16 * at + 8, lost, Relaxed);
                return;
            }
        }
    }

    /// Shows the reader the frames that a CPU has pushed, and wakes it if it sleeps.
    #[inline]
    pub fn publish(&self, cpu: usize) {
        let Some(own) = self.cpus.get(cpu) else {
            return;
        };
        let head = own.head.load(Relaxed);
        if own.published.load(Relaxed) == head {
            return;
        }
        own.published.store(head, Relaxed);
        let words = self.shape.words(cpu);
        self.rings
            .store(words + FRAMES, own.frames.load(Relaxed), Relaxed);
        self.rings.store(words + HEAD, head, Release);
        // Pairs with the fence of a reader that goes to sleep: either it sees the head, or this sees
        // that it sleeps.
        fence(SeqCst);
        if self.reader.load(0, Relaxed) != 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if self.reader.swap(0, 0, AcqRel) == 0 {
            return;
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // A reader that lets its queue fill up is awake. Any other error means that it is gone.
        match send(&self.socket, &[0], flags) {
            Ok(_) | Err(rustix::io::Errno::AGAIN) => {}
            Err(_) => self.gone.store(true, Relaxed),
        }
    }

    /// Returns whether the reader is known to be gone.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    /// Waits until the reader is gone, at most `limit`. Returns whether it is.
    pub fn wait_gone(&self, limit: std::time::Duration) -> bool {
        let limit = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        // Hang-ups and errors are always reported.
        let mut polled = [PollFd::new(&self.socket, PollFlags::empty())];
        let found = poll(&mut polled, Some(&limit)).is_ok_and(|count| count > 0);
        if found
            && polled[0]
                .revents()
                .intersects(PollFlags::HUP | PollFlags::ERR)
        {
            self.gone.store(true, Relaxed);
        }
        self.is_gone()
    }

    /// Tells the reader that no frames follow.
    pub fn finish(&self) {
        self.gone.store(true, Relaxed);
        // It may be gone already.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// Returns the frames pushed and the frames lost so far, on all CPUs.
    pub fn counts(&self) -> (u64, u64) {
        let sum = |of: fn(&Cpu) -> &AtomicU64| {
            let cpus = self.cpus.iter();
            cpus.map(|cpu| of(cpu).load(Relaxed)).sum()
        };
        (sum(|cpu| &cpu.frames), sum(|cpu| &cpu.lost))
    }

    /// Returns the bytes of memory that the rings take.
    pub fn bytes(&self) -> usize {
        self.shape.bytes()
    }
}

impl AsFd for Producer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

const _: () = assert!(LOST_AT + 16 * DEVICES <= super::WORDS && PAGE.is_multiple_of(8));
