// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receive ring of a packet socket (`TPACKET_V3`): blocks of frames that the kernel and the port
//! own in turn.
//!
//! The kernel fills a block, sets `TP_STATUS_USER` and continues with the next one. The port takes the
//! frames in order and sets `TP_STATUS_KERNEL`. Both sides write nothing but that status word.
#![allow(unsafe_code)] // memory shared with the kernel

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_packet::batch::BATCH;
use weir_packet::{Batch, Cache, Packet};

use super::{answer, block, set};
use crate::port::{Counters, Sieve};
use crate::vnet::{self, Out};

/// Bytes of a block. The longest frame fits.
const BLOCK: usize = 128 << 10;
/// Blocks per ring.
const BLOCKS: usize = 64;
/// The kernel hands over a block that is not full after this many milliseconds.
const HANDED_OVER: u32 = 1;
/// The frame size the kernel wants to be told. Frames may be longer (`TPACKET_V3`).
const FRAME: usize = 2048;

/// Creates the socket's ring. Call it before the socket is bound.
pub(super) fn ask(socket: &OwnedFd) -> io::Result<()> {
    // Each frame comes after a header that describes the sender's offloads.
    set(socket, libc::PACKET_VNET_HDR, &1_i32)?;
    let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
    set(socket, libc::PACKET_VERSION, &version)?;
    let request = libc::tpacket_req3 {
        tp_block_size: BLOCK as u32,
        tp_block_nr: BLOCKS as u32,
        tp_frame_size: FRAME as u32,
        tp_frame_nr: (BLOCK / FRAME * BLOCKS) as u32,
        tp_retire_blk_tov: HANDED_OVER,
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    };
    set(socket, libc::PACKET_RX_RING, &request)
}

/// Returns how many frames the kernel has dropped since the last call because the ring was full.
pub(super) fn lost(socket: &OwnedFd) -> io::Result<u64> {
    let mut stats = libc::tpacket_stats_v3 {
        tp_packets: 0,
        tp_drops: 0,
        tp_freeze_q_cnt: 0,
    };
    let mut len = size_of_val(&stats) as libc::socklen_t;
    let (fd, level, option) = (
        socket.as_raw_fd(),
        libc::SOL_PACKET,
        libc::PACKET_STATISTICS,
    );
    // SAFETY: the structure has room for `len` octets.
    answer(unsafe { libc::getsockopt(fd, level, option, (&raw mut stats).cast(), &raw mut len) })?;
    Ok(stats.tp_drops.into())
}

/// A mapped ring.
#[derive(Debug)]
pub(super) struct Ring {
    base: NonNull<u8>,
    /// The block that holds the next frame.
    block: usize,
    /// Whether the kernel has handed that block over.
    held: bool,
    /// The number of frames not yet taken from that block, and the offset of the first of them.
    left: u32,
    offset: usize,
    /// Segments of the last frame that did not fit into the caller's batch.
    waiting: VecDeque<Packet>,
}

// SAFETY: the ring owns its mapping; nothing of it is bound to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of a socket.
    pub(super) fn map(socket: &OwnedFd) -> io::Result<Self> {
        let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let (none, fd) = (std::ptr::null_mut(), socket.as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(none, BLOCK * BLOCKS, access, shared, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            base,
            block: 0,
            held: false,
            left: 0,
            offset: 0,
            waiting: VecDeque::new(),
        })
    }

    fn block(&self) -> NonNull<libc::tpacket_block_desc> {
        // SAFETY: `block < BLOCKS`, so the block lies in the mapping; blocks are page aligned.
        unsafe { self.base.add(self.block * BLOCK) }.cast()
    }

    fn header(&self) -> *mut libc::tpacket_hdr_v1 {
        // SAFETY: the header lies in the block; no reference to shared memory is made.
        unsafe { &raw mut (*self.block().as_ptr()).hdr.bh1 }
    }

    /// The word that says who owns the block.
    fn status(&self) -> &AtomicU32 {
        // SAFETY: the word lies in the mapping, is aligned, and all access to it is by this.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header()).block_status) }
    }

    /// Takes frames until the batch is full, `sieve` has dropped 64 or the ring is empty. Returns how many
    /// packets that were, with the frames that `sieve` dropped.
    pub(super) fn receive(
        &mut self,
        memory: &mut Cache,
        batch: &mut Batch,
        counters: &Counters,
        mut sieve: Option<Sieve<'_>>,
    ) -> usize {
        let before = batch.len();
        let mut dropped = 0;
        loop {
            let mut out = Out {
                batch,
                waiting: &mut self.waiting,
            };
            if !out.refill() {
                break;
            }
            if self.left == 0 && self.held {
                // The kernel reports a readable socket while the port holds a block, so the port returns it
                // after the last segment.
                self.held = false;
                self.status()
                    .store(libc::TP_STATUS_KERNEL, Ordering::Release);
                self.block = (self.block + 1) % BLOCKS;
            }
            if batch.is_full() || dropped >= BATCH {
                break;
            }
            if !self.held {
                if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                    break;
                }
                self.held = true;
                (self.left, self.offset) = block::frames(self.bytes());
            }
            while self.left > 0 && !batch.is_full() && dropped < BATCH {
                match &mut sieve {
                    Some(sieve) => dropped += self.sift(memory, batch, counters, sieve),
                    None => self.take(memory, batch, counters),
                }
            }
        }
        batch.len() - before + dropped
    }

    /// Has the next frames judged, takes those that are kept, and returns how many were dropped.
    fn sift(
        &mut self,
        memory: &mut Cache,
        batch: &mut Batch,
        counters: &Counters,
        sieve: &mut Sieve<'_>,
    ) -> usize {
        let block = self.bytes();
        let count = batch.room().min(self.left as usize).min(BATCH);
        // A frame that becomes several packets, or has its tag elsewhere, is shown as empty.
        let mut frames: [&[u8]; BATCH] = [&[]; BATCH];
        let mut at = Some(self.offset);
        for slot in frames.iter_mut().take(count) {
            let Some(offset) = at else {
                break;
            };
            let frame = block::frame(block, offset);
            let frame =
                frame.filter(|frame| frame.tag.is_none() && frame.header.is_of_one(frame.data));
            *slot = frame.map_or(&[], |frame| frame.data);
            at = block::next(block, offset);
        }
        let dropped = sieve(frames.get(..count).unwrap_or_default());
        for n in 0..count {
            if self.left == 0 {
                break;
            }
            match dropped >> n & 1 {
                1 => self.advance(block, counters),
                // Segments that find no room in the batch wait.
                _ => self.take(memory, batch, counters),
            }
        }
        dropped.count_ones() as usize
    }

    /// Returns the block, which the port holds.
    fn bytes<'a>(&self) -> &'a [u8] {
        // SAFETY: the block lies in the mapping. The kernel does not write to it while the port holds it.
        // The callers use the slice before they return the block, and the mapping lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.block().cast().as_ptr(), BLOCK) }
    }

    /// Takes the frame at the offset and advances.
    fn take(&mut self, memory: &mut Cache, batch: &mut Batch, counters: &Counters) {
        let block = self.bytes();
        match block::frame(block, self.offset) {
            Some(frame) => {
                let mut out = Out {
                    batch,
                    waiting: &mut self.waiting,
                };
                let (header, tag) = (frame.header, frame.tag);
                vnet::deliver(header, frame.data, tag, memory, &mut out, counters);
            }
            None => Counters::add(&counters.rx_errors, 1),
        }
        self.advance(block, counters);
    }

    /// Goes on to the next frame.
    fn advance(&mut self, block: &[u8], counters: &Counters) {
        self.left -= 1;
        if self.left > 0 {
            match block::next(block, self.offset) {
                Some(next) => self.offset = next,
                None => {
                    Counters::add(&counters.rx_errors, self.left.into());
                    self.left = 0;
                }
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and nobody uses it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), BLOCK * BLOCKS) };
    }
}
