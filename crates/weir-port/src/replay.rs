// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `replay`: frames in memory that arrive again and again, as fast as they are taken.
//!
//! For benchmarks: it is what a device's ring with frames that have just arrived is to its driver.
//! Frames that are sent are forgotten. It has no descriptor, so it must be polled, and no kind on the
//! command line.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use weir_packet::batch::BATCH;
use weir_packet::{Batch, Buffers, Cache, Packet};

use crate::port::{Counters, Port, Sieve};

/// The unit in which frames are stored, in bytes: one cache line.
const LINE: usize = 64;

/// The port; see the module's documentation.
#[derive(Debug)]
pub struct Replay {
    /// The frames one after the other, each from the start of a line.
    lines: Box<[[u8; LINE]]>,
    /// The place of each frame in `lines` and its length, both in bytes.
    frames: Box<[(u32, u32)]>,
    /// The next frame. One thread at a time receives.
    at: AtomicUsize,
    /// The most frames that one call of `receive` returns.
    most: AtomicUsize,
    counters: Counters,
}

impl Replay {
    /// Copies the frames. Frames longer than a packet of the frame class are left out.
    pub fn new<F: AsRef<[u8]>>(all: &[F]) -> Self {
        let (mut lines, mut frames) = (Vec::new(), Vec::new());
        let all = all.iter().map(AsRef::as_ref);
        for frame in all.filter(|frame| frame.len() <= weir_packet::packet::FRAME_DATA) {
            frames.push(((lines.len() * LINE) as u32, frame.len() as u32));
            for part in frame.chunks(LINE) {
                let mut line = [0; LINE];
                for (to, from) in line.iter_mut().zip(part) {
                    *to = *from;
                }
                lines.push(line);
            }
        }
        Self {
            lines: lines.into(),
            frames: frames.into(),
            at: AtomicUsize::new(0),
            most: AtomicUsize::new(BATCH),
            counters: Counters::default(),
        }
    }

    /// Sets the most frames that one call returns.
    pub fn limit(&self, most: usize) {
        self.most.store(most, Relaxed);
    }

    /// Takes up to `most` frames that follow each other in memory.
    fn pull(&self, most: usize) -> &[(u32, u32)] {
        let at = self.at.load(Relaxed);
        let rest = self.frames.get(at..).unwrap_or_default();
        let taken = rest.get(..most.min(rest.len())).unwrap_or_default();
        let next = at + taken.len();
        self.at
            .store(if next == self.frames.len() { 0 } else { next }, Relaxed);
        taken
    }

    /// Returns the bytes of frames by their places.
    #[inline(always)]
    fn bytes<'s>(&'s self) -> impl Fn(&(u32, u32)) -> &'s [u8] {
        let all = self.lines.as_flattened();
        move |&(start, len)| {
            let (start, len) = (start as usize, len as usize);
            all.get(start..start + len).unwrap_or_default()
        }
    }
}

/// Makes packets of up to `count` frames. Returns how many there is memory for.
#[inline]
fn fill<'f>(
    memory: &mut Cache,
    batch: &mut Batch,
    count: usize,
    frames: impl Iterator<Item = &'f [u8]>,
) -> usize {
    let mut buffers = Buffers::new();
    memory.take(&mut buffers, count);
    // All fit: longer frames were left out.
    let made = buffers.fill(batch, frames);
    memory.give(&mut buffers);
    made
}

impl Port for Replay {
    fn kind(&self) -> &'static str {
        "replay"
    }

    fn descriptor(&self, _: u16) -> Option<BorrowedFd<'_>> {
        None
    }

    fn sifts(&self) -> bool {
        true
    }

    fn take(
        &self,
        _: u16,
        memory: &mut Cache,
        batch: &mut Batch,
        sieve: Option<Sieve<'_>>,
    ) -> io::Result<usize> {
        let taken = self.pull(self.most.load(Relaxed).min(batch.room()));
        let Some(sieve) = sieve else {
            let count = fill(memory, batch, taken.len(), taken.iter().map(self.bytes()));
            Counters::add(&self.counters.rx_dropped, (taken.len() - count) as u64);
            return Ok(count);
        };
        let mut frames: [&[u8]; BATCH] = [&[]; BATCH];
        for (frame, bytes) in frames.iter_mut().zip(taken.iter().map(self.bytes())) {
            *frame = bytes;
        }
        let frames = frames.get(..taken.len()).unwrap_or_default();
        let dropped = sieve(frames);
        if dropped.count_ones() as usize == taken.len() {
            return Ok(taken.len());
        }
        let kept = frames
            .iter()
            .enumerate()
            .filter(|(n, _)| dropped >> n & 1 == 0);
        let wanted = taken.len() - dropped.count_ones() as usize;
        let count = fill(memory, batch, wanted, kept.map(|(_, frame)| *frame));
        Counters::add(&self.counters.rx_dropped, (wanted - count) as u64);
        Ok(taken.len())
    }

    fn send(&self, _: u16, frames: &[Packet]) -> io::Result<usize> {
        Ok(frames.len())
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

#[cfg(test)]
mod tests {
    use weir_packet::{Pool, PoolConfig};

    use super::*;

    #[test]
    fn frames_arrive_again_and_again_in_order() {
        let frames: Vec<Vec<u8>> = (1..=100)
            .map(|len| vec![len; usize::from(len) * 9])
            .collect();
        let port = Replay::new(&frames);
        let pool = Pool::new(PoolConfig::default());
        let mut memory = pool.cache();
        port.limit(33);
        let mut seen = 0;
        for _ in 0..20 {
            let mut batch = Batch::new();
            let count = port.receive(0, &mut memory, &mut batch).unwrap();
            assert!((1..=33).contains(&count) && count == batch.len());
            for packet in &batch {
                assert_eq!(packet.data(), frames[seen % frames.len()]);
                seen += 1;
            }
        }
        assert!(seen > 3 * frames.len());
    }

    #[test]
    fn frames_that_a_sieve_drops_become_no_packets() {
        let frames: Vec<Vec<u8>> = (0..100).map(|len| vec![len; 60]).collect();
        let port = Replay::new(&frames);
        let pool = Pool::new(PoolConfig::default());
        let (mut memory, mut batch) = (pool.cache(), Batch::new());
        let mut judged = Vec::new();
        let mut odd = |frames: &[&[u8]]| {
            judged.extend(frames.iter().map(|frame| frame[0]));
            0xaaaa_aaaa_aaaa_aaaa
        };
        let taken = port.take(0, &mut memory, &mut batch, Some(&mut odd));
        assert_eq!(taken.unwrap(), 64);
        assert_eq!(judged, (0..64).collect::<Vec<u8>>());
        let kept: Vec<u8> = batch.iter().map(|packet| packet.data()[0]).collect();
        assert_eq!(kept, (0..64).step_by(2).collect::<Vec<u8>>());
    }
}
