// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reader's side.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{Ordering::*, fence};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};

use super::memory::{self, FIXED, Map, READ_ONLY};
use super::{
    DEVICES, Ends, FRAMES, HEAD, HEADER, Head, LOST, LOST_AT, MAGIC, Meta, PAGE, Shape, VERSION,
};

/// A frame of a ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What is known of it.
    pub meta: Meta,
    /// Its bytes, as far as they were captured.
    pub data: Vec<u8>,
    /// Its length in bytes.
    pub original: u32,
}

/// Reads frames from rings; see the module documentation.
#[derive(Debug)]
pub struct Consumer {
    shape: Shape,
    rings: Map,
    reader: Map,
    socket: OwnedFd,
    tails: Vec<u64>,
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

impl Consumer {
    /// Takes the ends that the stack sent. Fails if they are not those of a ring.
    pub fn new(Ends([file, words, socket]): Ends) -> io::Result<Self> {
        let (seals, bytes) = memory::state(&file)?;
        if seals & (FIXED | READ_ONLY) != FIXED | READ_ONLY || bytes < PAGE {
            return Err(wrong("the rings are not sealed"));
        }
        let head = Map::new(&file, PAGE, false)?;
        let word = |n: usize| head.load(8 * n, Acquire);
        if (word(0), word(1)) != (MAGIC, VERSION) {
            return Err(wrong("the stack has rings of another version"));
        }
        let size = |word| usize::try_from(word).unwrap_or(usize::MAX);
        let shape = Shape::new(size(word(2)), size(word(3)))?;
        if bytes != shape.bytes() || memory::state(&words)?.1 != shape.reader_bytes() {
            return Err(wrong("the rings have another length than they say"));
        }
        Ok(Self {
            shape,
            rings: Map::new(&file, shape.bytes(), false)?,
            reader: Map::new(&words, shape.reader_bytes(), true)?,
            socket,
            tails: vec![0; shape.cpus],
        })
    }

    /// Appends the frames that are there now, at most about `most`, in the order of their times.
    /// Returns whether there was one.
    pub fn read(&mut self, most: usize, into: &mut Vec<Record>) -> io::Result<bool> {
        let start = into.len();
        for cpu in 0..self.shape.cpus {
            let head = self.rings.load(self.shape.words(cpu) + HEAD, Acquire);
            let mut left = most.div_ceil(self.shape.cpus);
            while self.tails[cpu] != head && left > 0 {
                let (record, next) = self.record(cpu, head)?;
                into.push(record);
                self.tails[cpu] = next;
                left -= 1;
            }
            let tail = self.tails[cpu];
            self.reader.store(self.shape.tail(cpu), tail, Release);
        }
        // Each ring is in order already.
        into[start..].sort_by_key(|record| record.meta.time_ns);
        Ok(into.len() > start)
    }

    /// Reads the record at the tail of a CPU. Returns it and the place of the next one.
    fn record(&self, cpu: usize, head: u64) -> io::Result<(Record, u64)> {
        let (tail, used) = (self.tails[cpu], head.wrapping_sub(self.tails[cpu]));
        let bad = || wrong("the stack wrote a record that does not fit");
        if used > self.shape.ring as u64 || used < HEADER as u64 {
            return Err(bad());
        }
        let mut bytes = [0; HEADER];
        self.copy(cpu, tail, &mut bytes);
        let found = Head::from_bytes(bytes).ok_or_else(bad)?;
        if found.record() as u64 > used {
            return Err(bad());
        }
        let mut data = vec![0; found.captured as usize];
        self.copy(cpu, tail + HEADER as u64, &mut data);
        let record = Record {
            meta: found.meta,
            data,
            original: found.original,
        };
        Ok((record, tail + found.record() as u64))
    }

    fn copy(&self, cpu: usize, at: u64, bytes: &mut [u8]) {
        let (start, size) = (self.shape.ring(cpu), self.shape.ring);
        let offset = (at & (size as u64 - 1)) as usize;
        let first = bytes.len().min(size - offset);
        let (first, rest) = bytes.split_at_mut(first);
        self.rings.read(start + offset, first);
        self.rings.read(start, rest);
    }

    /// Sleeps until there are frames, at most `limit`. Returns `false` if the stack has ended the
    /// capture; frames may still be there. A signal ends the sleep.
    pub fn wait(&self, limit: Duration) -> io::Result<bool> {
        self.reader.store(0, 1, Relaxed);
        // Pairs with the fence of `publish`.
        fence(SeqCst);
        let there = |cpu| self.rings.load(self.shape.words(cpu) + HEAD, Acquire) != self.tails[cpu];
        let waits = !(0..self.shape.cpus).any(there);
        let limit = if waits { limit } else { Duration::ZERO };
        let limit = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut polled, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.reader.store(0, 0, Relaxed);
        let events = polled[0].revents();
        while events.contains(PollFlags::IN) {
            let mut woken = [0; 8];
            match recv(&self.socket, &mut woken, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Ok(false),
                Ok(_) => {}
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => break,
                Err(_) => return Ok(false),
            }
        }
        Ok(!events.intersects(PollFlags::HUP | PollFlags::ERR))
    }

    /// Returns the frames that the stack has pushed, and those that it has lost, on all CPUs.
    pub fn counts(&self) -> (u64, u64) {
        let sum = |at| {
            let words = (0..self.shape.cpus).map(|cpu| self.shape.words(cpu) + at);
            words.map(|at| self.rings.load(at, Relaxed)).sum()
        };
        (sum(FRAMES), sum(LOST))
    }

    /// Returns the frames that devices have lost. Those of more than 256 devices are not told apart.
    pub fn lost(&self) -> BTreeMap<u32, u64> {
        let mut lost = BTreeMap::new();
        for cpu in 0..self.shape.cpus {
            for n in 0..DEVICES {
                let at = self.shape.words(cpu) + LOST_AT + 16 * n;
                let key = self.rings.load(at, Relaxed);
                if let Some(device) = key.checked_sub(1) {
                    *lost.entry(device as u32).or_default() += self.rings.load(at + 8, Relaxed);
                }
            }
        }
        lost
    }
}
