// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receive ring of a packet socket (`TPACKET_V3`): blocks of frames that the kernel and the port
//! own in turn.
//!
//! The kernel fills a block, sets `TP_STATUS_USER` and continues with the next one. The port takes the
//! frames in order and sets `TP_STATUS_KERNEL`. Both sides write nothing but that status word.
#![allow(unsafe_code)] // memory shared with the kernel

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_packet::packet::JUMBO_DATA;
use weir_packet::{Batch, Cache, Packet, VlanTag};

use super::{answer, set};
use crate::port::Counters;

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
    /// The number of frames not yet taken from that block, and the offset of the first of them.
    left: u32,
    offset: usize,
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
            left: 0,
            offset: 0,
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

    /// Takes frames until the batch is full or the ring is empty, and returns how many.
    pub(super) fn receive(
        &mut self,
        memory: &mut Cache,
        batch: &mut Batch,
        counters: &Counters,
    ) -> usize {
        let before = batch.len();
        loop {
            if self.left == 0 {
                if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                    break;
                }
                // SAFETY: the block is ours until its status says otherwise.
                let (count, first) = unsafe {
                    let header = self.header();
                    ((*header).num_pkts, (*header).offset_to_first_pkt)
                };
                (self.left, self.offset) = (count, first as usize);
            }
            while self.left > 0 && !batch.is_full() {
                if let Some(packet) = self.frame(memory, counters) {
                    let _ = batch.push(packet);
                }
                self.left -= 1;
            }
            if self.left > 0 {
                break;
            }
            self.status()
                .store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.block = (self.block + 1) % BLOCKS;
            if batch.is_full() {
                break;
            }
        }
        batch.len() - before
    }

    /// Takes the frame at the offset and advances. Returns `None` if the frame is lost.
    fn frame(&mut self, memory: &mut Cache, counters: &Counters) -> Option<Packet> {
        let start = self.offset;
        if start + size_of::<libc::tpacket3_hdr>() > BLOCK {
            // The kernel does not do this. The check keeps reads inside the block.
            Counters::add(&counters.rx_errors, 1);
            return None;
        }
        // SAFETY: the header lies in the block, which is ours.
        let header = unsafe {
            let at = self
                .block()
                .cast::<u8>()
                .add(start)
                .cast::<libc::tpacket3_hdr>();
            at.as_ptr().read_unaligned()
        };
        self.offset = start.saturating_add(header.tp_next_offset as usize);
        let (from, len) = (
            start + usize::from(header.tp_mac),
            header.tp_snaplen as usize,
        );
        if header.tp_len != header.tp_snaplen || len > JUMBO_DATA || from + len > BLOCK {
            Counters::add(&counters.rx_errors, 1);
            return None;
        }
        // SAFETY: the frame lies in the block, which is ours.
        let bytes = unsafe {
            let at = self.block().cast::<u8>().add(from);
            std::slice::from_raw_parts(at.as_ptr(), len)
        };
        let Some(mut packet) = memory.packet(bytes) else {
            Counters::add(&counters.rx_dropped, 1);
            return None;
        };
        if header.tp_status & libc::TP_STATUS_CSUMNOTREADY != 0 {
            weir_packet::offload::complete_checksum(packet.data_mut());
        }
        if header.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
            let known = header.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let proto = if known {
                header.hv1.tp_vlan_tpid
            } else {
                0x8100
            };
            let tci = header.hv1.tp_vlan_tci as u16;
            packet.set_vlan(Some(VlanTag { proto, tci }));
        }
        Some(packet)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and nobody uses it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), BLOCK * BLOCKS) };
    }
}
