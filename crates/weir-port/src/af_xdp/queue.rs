// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A queue of the port: a bound AF_XDP socket, its rings, and the frames that they hold.
//!
//! The fill ring always holds the same number of frames. For each received frame the port gives the kernel
//! another frame of the pool. If that is outside the registered memory, the port copies the received frame
//! into it and returns the kernel its own.
//!
//! A packet to send whose frame is inside the registered memory is lent to the transmit ring, and returns to the
//! pool when the completion ring holds its address. Others are copied into frames of the queue's own.
#![allow(unsafe_code)] // socket options, and memory that the kernel writes to

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use weir_packet::batch::BATCH;
use weir_packet::header::{Ethernet, Vlan};
use weir_packet::packet::FRAME_DATA;
use weir_packet::vnet::Wired;
use weir_packet::{Batch, Cache, Packet, Pool, edit};

use super::ring::Ring;
use crate::port::{Counters, Sieve};

/// Entries per ring, frames to receive into, and packets lent to the transmit ring at most.
const ENTRIES: u32 = 2048;
/// Frames to send copies in.
const SENDING: usize = 1024;
/// All frames of a queue, and the fewest with which it works.
const TOGETHER: usize = ENTRIES as usize + SENDING;
const FEWEST: usize = 256;
/// Frames that a system call sends at most in copy mode; 32 unless set (`XDP_MAX_TX_SKB_BUDGET` of newer kernels).
const TX_BUDGET: libc::c_int = 9;
/// Bytes of a frame: the UMEM's chunk.
pub(super) const CHUNK: u64 = 2048;
/// Calls without a frame between two questions to the socket.
const IDLE: u32 = 32;
/// The least memory to register, in bytes.
const LEAST: usize = 4 << 20;
/// How long to wait for the kernel to release a queue, when a port begins and when it has ended.
const RELEASE: Duration = Duration::from_millis(500);
const LAST: Duration = Duration::from_secs(60);

/// Converts the result of a system call.
fn answer(result: libc::c_int) -> io::Result<libc::c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: the value is whole and lives through the call.
    answer(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, value, len) })
        .map(drop)
}

/// Reads an option, a structure of integers.
fn get<T>(socket: &OwnedFd, option: libc::c_int) -> io::Result<T> {
    // SAFETY: the callers' structures consist of integers, for which zeros are valid.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut len = size_of::<T>() as libc::socklen_t;
    let (fd, at) = (socket.as_raw_fd(), (&raw mut value).cast());
    // SAFETY: the structure has room for `len` octets.
    answer(unsafe { libc::getsockopt(fd, libc::SOL_XDP, option, at, &raw mut len) })?;
    if len as usize != size_of::<T>() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(value)
}

/// The pool's memory from its start, as registered with the kernel.
#[derive(Debug)]
pub(super) struct Memory {
    pool: Pool,
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the pool keeps the memory alive, and its frames have one owner each.
unsafe impl Send for Memory {}

impl Memory {
    /// Registers the pool's memory so far with a socket, or as much as may be locked (`RLIMIT_MEMLOCK`).
    fn register(socket: &OwnedFd, pool: &Pool) -> io::Result<Self> {
        let (base, mut bytes) = pool.region();
        loop {
            let umem = libc::xdp_umem_reg {
                addr: base.addr().get() as u64,
                len: bytes as u64,
                chunk_size: CHUNK as u32,
                headroom: 0,
                flags: 0,
                tx_metadata_len: 0,
            };
            match set(socket, libc::XDP_UMEM_REG, &umem) {
                Ok(()) => break,
                Err(error)
                    if bytes > LEAST
                        && matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::ENOMEM)) =>
                {
                    bytes /= 2;
                }
                Err(error) => return Err(error),
            }
        }
        let pool = pool.clone();
        Ok(Self { pool, base, bytes })
    }

    /// Returns whether a packet's frame is one of the registered chunks.
    fn holds(&self, packet: &Packet) -> bool {
        self.pool.owns(packet)
            && packet.capacity() as u64 == CHUNK
            && packet.umem_address() < self.bytes as u64
    }

    /// Allocates up to `count` frames of the registered memory. It looks through all free frames of the pool.
    fn frames(&self, count: usize) -> Vec<Packet> {
        let mut inside = Vec::new();
        let mut outside = Vec::new();
        let all = self.pool.stats().frames;
        while inside.len() < count && outside.len() < all {
            match self.pool.alloc(FRAME_DATA) {
                Some(packet) if self.holds(&packet) => inside.push(packet),
                Some(packet) => outside.push(packet),
                None => break,
            }
        }
        inside
    }

    /// Returns the bytes at an address, or `None` if they cross the end of a chunk.
    ///
    /// # Safety
    /// The caller owns the chunk, and the kernel does not use it.
    unsafe fn bytes(&self, address: u64, len: usize) -> Option<NonNull<[u8]>> {
        let inside = (address % CHUNK) as usize + len <= CHUNK as usize;
        if !inside || address >= self.bytes as u64 {
            return None;
        }
        // SAFETY: the range lies in one chunk of the registered memory.
        let at = unsafe { self.base.add(address as usize) };
        Some(NonNull::slice_from_raw_parts(at, len))
    }
}

/// The chunks of the memory that the rings of one direction hold: a bit each.
#[derive(Debug)]
struct Lent(Vec<u64>);

impl Lent {
    fn set(&mut self, address: u64) {
        let chunk = address / CHUNK;
        if let Some(word) = self.0.get_mut((chunk / 64) as usize) {
            *word |= 1 << (chunk % 64);
        }
    }

    /// Removes a chunk. Returns false if it was not lent.
    fn take(&mut self, address: u64) -> bool {
        let (chunk, bit) = (address / CHUNK, 1 << (address / CHUNK % 64));
        let Some(word) = self.0.get_mut((chunk / 64) as usize) else {
            return false;
        };
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }

    /// The addresses of all chunks.
    fn all(&self) -> impl Iterator<Item = u64> + '_ {
        let chunks = 0..self.0.len() as u64 * 64;
        let is_set = |chunk: &u64| self.0[(chunk / 64) as usize] >> (chunk % 64) & 1 != 0;
        chunks.filter(is_set).map(|chunk| chunk * CHUNK)
    }
}

/// An entry of the transmit ring.
fn descriptor(addr: u64, len: usize) -> libc::xdp_desc {
    libc::xdp_desc {
        addr,
        len: len as u32,
        options: 0,
    }
}

/// The receiving half.
#[derive(Debug)]
pub(super) struct Receiver {
    memory: Memory,
    fill: Ring<u64>,
    ring: Ring<libc::xdp_desc>,
    lent: Lent,
    /// The kernel's count of lost frames at the last look.
    lost: u64,
    /// How often there was no frame.
    idle: u32,
}

/// The sending half.
#[derive(Debug)]
pub(super) struct Sender {
    memory: Memory,
    completion: Ring<u64>,
    ring: Ring<libc::xdp_desc>,
    /// The addresses of all frames to send copies in, and of those that are free.
    all: Vec<u64>,
    free: Vec<u64>,
    /// The packets that the kernel has not sent yet, and their number.
    lent: Lent,
    flying: u32,
}

/// Binds a socket to an address. Waits as long as `limit` for a queue that is in use: after the last user has closed its
/// socket, the kernel releases the queue from a work queue (`xp_release_deferred`).
fn bind_to(socket: &OwnedFd, at: &libc::sockaddr_xdp, limit: Duration) -> io::Result<()> {
    let len = size_of_val(at) as libc::socklen_t;
    let end = Instant::now() + limit;
    loop {
        // SAFETY: the address is whole and lives through the call.
        let done = unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(at).cast(), len) };
        match answer(done) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < end => {
                std::thread::sleep(RELEASE / 100);
            }
            result => return result.map(drop),
        }
    }
}

/// The address of a queue of a device.
fn place((ifindex, queue): (u32, u32), flags: u16) -> libc::sockaddr_xdp {
    libc::sockaddr_xdp {
        sxdp_family: super::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: ifindex,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    }
}

/// A socket that finds out when the kernel has released a queue: it has stopped the driver before
/// (`xp_clear_dev` in `net/xdp/xsk_buff_pool.c`).
#[derive(Debug)]
pub(super) struct Probe {
    socket: OwnedFd,
    at: (u32, u32),
    memory: NonNull<u8>,
}

// SAFETY: the probe owns its mapping; nothing of it is bound to a thread.
unsafe impl Send for Probe {}
// SAFETY: nothing is accessed through a shared reference.
unsafe impl Sync for Probe {}

impl Probe {
    /// Memory to register: two chunks.
    const BYTES: usize = 2 * CHUNK as usize;

    /// Prepares a socket for a queue (`ifindex`, number).
    pub(super) fn new(socket: OwnedFd, at: (u32, u32)) -> io::Result<Self> {
        let (access, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        let none = std::ptr::null_mut();
        // SAFETY: a new mapping at an address of the kernel's choice.
        let memory = unsafe { libc::mmap(none, Self::BYTES, access, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let probe = Self { socket, at, memory };
        let umem = libc::xdp_umem_reg {
            addr: memory.addr().get() as u64,
            len: Self::BYTES as u64,
            chunk_size: CHUNK as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set(&probe.socket, libc::XDP_UMEM_REG, &umem)?;
        for option in [
            libc::XDP_UMEM_FILL_RING,
            libc::XDP_UMEM_COMPLETION_RING,
            libc::XDP_RX_RING,
        ] {
            set(&probe.socket, option, &2_u32)?;
        }
        Ok(probe)
    }

    /// Waits until the queue is released. Returns false if it is still in use after the limit.
    fn wait(&self, limit: Duration) -> bool {
        let bound = bind_to(&self.socket, &place(self.at, libc::XDP_COPY), limit);
        // Any other error comes after this check, or says that the device or the queue is gone.
        bound
            .err()
            .is_none_or(|error| error.raw_os_error() != Some(libc::EBUSY))
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`. A socket that is bound has pinned the memory for itself.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), Self::BYTES) };
    }
}

/// Binds a socket to a queue of a device. Returns its halves.
pub(super) fn bind(
    socket: &OwnedFd,
    pool: &Pool,
    (ifindex, queue): (u32, u32),
    flags: u16,
) -> io::Result<(Receiver, Sender)> {
    // Taken first, so that the memory to register holds them even if all older frames are in use.
    let mut receiving: Vec<_> = std::iter::repeat_with(|| pool.alloc(FRAME_DATA))
        .take(TOGETHER)
        .map_while(|frame| frame)
        .collect();
    let memory = Memory::register(socket, pool)?;
    for option in [
        libc::XDP_UMEM_FILL_RING,
        libc::XDP_UMEM_COMPLETION_RING,
        libc::XDP_RX_RING,
        libc::XDP_TX_RING,
    ] {
        set(socket, option, &ENTRIES)?;
    }
    // An older kernel sends in smaller parts.
    let _ = set(socket, TX_BUDGET, &ENTRIES);
    let offsets: libc::xdp_mmap_offsets = get(socket, libc::XDP_MMAP_OFFSETS)?;
    let fill = Ring::map(socket, libc::XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, ENTRIES)?;
    let completion = Ring::map(
        socket,
        libc::XDP_UMEM_PGOFF_COMPLETION_RING,
        &offsets.cr,
        ENTRIES,
    )?;
    let receive = Ring::map(socket, libc::XDP_PGOFF_RX_RING as u64, &offsets.rx, ENTRIES)?;
    let transmit = Ring::map(socket, libc::XDP_PGOFF_TX_RING as u64, &offsets.tx, ENTRIES)?;
    bind_to(socket, &place((ifindex, queue), flags), RELEASE)?;

    receiving.retain(|frame| memory.holds(frame));
    if receiving.len() < TOGETHER {
        receiving.extend(memory.frames(TOGETHER - receiving.len()));
    }
    if receiving.len() < FEWEST {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let sending = receiving.split_off(receiving.len() - receiving.len() * SENDING / TOGETHER);
    let chunks = memory.bytes / CHUNK as usize;
    let mut sender = Sender {
        memory: Memory {
            pool: pool.clone(),
            ..memory
        },
        completion,
        ring: transmit,
        all: sending.into_iter().map(Packet::lend).collect(),
        free: Vec::new(),
        lent: Lent(vec![0; chunks.div_ceil(64)]),
        flying: 0,
    };
    sender.free.clone_from(&sender.all);
    let mut receiver = Receiver {
        fill,
        ring: receive,
        lent: Lent(vec![0; chunks.div_ceil(64)]),
        lost: 0,
        idle: 0,
        memory,
    };
    for packet in receiving {
        receiver.give(packet.lend());
    }
    Ok((receiver, sender))
}

impl Receiver {
    /// Gives the kernel a lent frame to receive into.
    fn give(&mut self, address: u64) {
        self.lent.set(address);
        // There is room: the rings hold at most as many frames as the fill ring has entries.
        let _ = self.fill.push(address);
    }

    /// Takes frames until the batch is full or the ring is empty, and returns how many, with those that `sieve`
    /// dropped. With a sieve it takes 64 at most.
    pub(super) fn receive(
        &mut self,
        cache: &mut Cache,
        batch: &mut Batch,
        counters: &Counters,
        sieve: Option<Sieve<'_>>,
    ) -> usize {
        if self.ring.len() == 0 {
            return 0;
        }
        let mut found = [descriptor(0, 0); BATCH];
        let room = found.get_mut(..batch.room().min(BATCH)).unwrap_or_default();
        let count = self.ring.pop_many(room);
        if count == 0 {
            return 0;
        }
        let mut ours = 0;
        for n in 0..count {
            if self.lent.take(found[n].addr) {
                found[ours] = found[n];
                ours += 1;
            }
        }
        // The kernel does not do this. The check keeps frames with one owner.
        Counters::add(&counters.rx_errors, (count - ours) as u64);
        let found = found.get(..ours).unwrap_or_default();
        let dropped = sieve.map_or(0, |sieve| self.judge(found, sieve));
        let before = batch.len();
        let mut back = [0; BATCH];
        for ((n, frame), back) in found.iter().enumerate().zip(&mut back) {
            *back = match dropped >> n & 1 {
                1 => frame.addr,
                _ => self.take(*frame, cache, batch, counters),
            };
        }
        let back = back.get(..ours).unwrap_or_default();
        back.iter().for_each(|address| self.lent.set(*address));
        // There is room: the rings hold at most as many frames as the fill ring has entries.
        let _ = self.fill.push_many(back);
        batch.len() - before + dropped.count_ones() as usize
    }

    /// Has received frames judged in the kernel's place for them.
    fn judge(&self, found: &[libc::xdp_desc], sieve: Sieve<'_>) -> u64 {
        let mut frames: [&[u8]; BATCH] = [&[]; BATCH];
        for (slot, frame) in frames.iter_mut().zip(found) {
            // SAFETY: the frame is lent and not in a ring; nobody writes to it before it is back in one.
            let bytes = unsafe { self.memory.bytes(frame.addr, frame.len as usize) };
            // SAFETY: as above.
            *slot = bytes.map_or(&[], |bytes| unsafe { bytes.as_ref() });
        }
        sieve(frames.get(..found.len()).unwrap_or_default())
    }

    /// Appends a received frame to the batch. Returns the address of the frame that takes its place in the
    /// fill ring.
    fn take(
        &self,
        frame: libc::xdp_desc,
        cache: &mut Cache,
        batch: &mut Batch,
        counters: &Counters,
    ) -> u64 {
        let (address, len) = (frame.addr, frame.len as usize);
        match cache.alloc(len.min(FRAME_DATA)) {
            Some(fresh) if self.memory.holds(&fresh) => {
                // SAFETY: the frame was lent, and the kernel has given it back.
                let packet = unsafe { self.memory.pool.take_back(address, len) };
                match packet {
                    Some(mut packet) => {
                        (packet.time, packet.dev, packet.iif) = (0, 0, 0);
                        let _ = batch.push(packet);
                    }
                    None => Counters::add(&counters.rx_errors, 1),
                }
                fresh.lend()
            }
            Some(mut fresh) => {
                // SAFETY: the frame is lent and not in a ring; nobody writes to it.
                let bytes = unsafe { self.memory.bytes(address, fresh.len()) };
                if let Some(bytes) = bytes {
                    // SAFETY: as above.
                    fresh.data_mut().copy_from_slice(unsafe { bytes.as_ref() });
                    let _ = batch.push(fresh);
                } else {
                    Counters::add(&counters.rx_errors, 1);
                }
                address
            }
            None => {
                Counters::add(&counters.rx_dropped, 1);
                address
            }
        }
    }

    /// Wakes the kernel if it waits for frames to receive into.
    pub(super) fn wake(&self, socket: &OwnedFd) {
        if self.fill.needs_wakeup() {
            let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
            // SAFETY: no memory is passed. The call only wakes the driver; its result does not matter.
            unsafe { libc::recv(fd, std::ptr::null_mut(), 0, flags) };
        }
    }

    /// Polls the device for the socket's time of busy polling.
    pub(super) fn poll(&self, socket: &OwnedFd) {
        let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
        // SAFETY: no memory is passed. The result does not matter.
        unsafe { libc::recv(fd, std::ptr::null_mut(), 0, flags) };
    }

    /// Returns whether to ask the socket for errors, at the first and each 32nd call without a frame: a caller
    /// that polls busily would spend its time on these system calls.
    pub(super) fn is_time_to_ask(&mut self) -> bool {
        self.idle = self.idle.wrapping_add(1);
        self.idle % IDLE == 1
    }

    /// Returns how many frames the kernel has lost since the last call.
    pub(super) fn lost(&mut self, socket: &OwnedFd) -> io::Result<u64> {
        let stats: libc::xdp_statistics = get(socket, libc::XDP_STATISTICS)?;
        // A frame without room in the fill ring counts in `rx_dropped` of the device's driver only.
        let lost = stats
            .rx_dropped
            .wrapping_add(stats.rx_ring_full)
            .wrapping_add(stats.rx_fill_ring_empty_descs);
        Ok(lost.wrapping_sub(std::mem::replace(&mut self.lost, lost)))
    }
}

impl Sender {
    /// Takes back the frames that the kernel has sent, and passes the packets among them on.
    fn collect(&mut self, mut spent: impl FnMut(Packet)) {
        let mut found = [0; BATCH];
        loop {
            let count = self.completion.pop_many(&mut found);
            for address in found.iter().take(count) {
                if self.lent.take(*address) {
                    self.flying -= 1;
                    // SAFETY: the frame was lent, and the kernel has sent it.
                    let packet = unsafe { self.memory.pool.take_back(*address, 0) };
                    packet.into_iter().for_each(&mut spent);
                } else if self.free.len() < self.all.len() {
                    self.free.push(address / CHUNK * CHUNK);
                }
            }
            if count < BATCH {
                return;
            }
        }
    }

    /// Frees the packets that the kernel has sent.
    pub(super) fn reclaim(&mut self, cache: &mut Cache) {
        self.collect(|packet| cache.free(packet));
    }

    /// Does the same by way of a batch, as far as there is room.
    pub(super) fn settle(&mut self, spent: &mut Batch) {
        // A packet without room returns to its pool here.
        self.collect(|packet| drop(spent.push(packet)));
    }

    /// Copies a frame of `len` bytes into one of the queue's own at an address.
    fn copy(&self, frame: &Wired<'_>, address: u64) {
        // SAFETY: the frame is lent and not in a ring, so this queue alone uses it.
        if let Some(mut to) = unsafe { self.memory.bytes(address, frame.len()) } {
            // SAFETY: as above.
            let mut to = unsafe { to.as_mut() };
            for part in frame.parts() {
                let (here, rest) = to.split_at_mut(part.len());
                here.copy_from_slice(part);
                to = rest;
            }
        }
    }

    /// Copies frames into the transmit ring and returns how many.
    pub(super) fn send(&mut self, frames: &[Packet], counters: &Counters) -> usize {
        self.collect(drop);
        for (done, packet) in frames.iter().enumerate() {
            let frame = Wired::new(packet);
            if frame.len() > FRAME_DATA {
                Counters::add(&counters.tx_errors, 1);
                continue;
            }
            if self.ring.room() == 0 {
                return done;
            }
            let Some(address) = self.free.pop() else {
                return done;
            };
            self.copy(&frame, address);
            let _ = self.ring.push(descriptor(address, frame.len()));
        }
        frames.len()
    }

    /// Returns whether a packet's frame can be sent from where it is, with a VLAN tag put in front of its payload.
    fn is_in_place(&self, packet: &Packet) -> bool {
        let tags = packet.vlan().is_none()
            || packet.headroom() >= Vlan::LEN && packet.len() >= Ethernet::LEN;
        tags && self.memory.holds(packet)
    }

    /// Returns how many frames there is room for, and a bit for each of them that is sent from where it is.
    fn room(&self, frames: &[Packet]) -> (usize, u64) {
        let mut entries = self.ring.room();
        let mut lendable = ENTRIES.saturating_sub(self.flying) as usize;
        let mut free = self.free.len();
        let mut in_place = 0;
        for (n, packet) in frames.iter().enumerate() {
            if Wired::new(packet).len() > FRAME_DATA {
                continue;
            }
            let stays = self.is_in_place(packet);
            let left = match stays {
                true => &mut lendable,
                false => &mut free,
            };
            if *left == 0 || entries == 0 {
                return (n, in_place);
            }
            *left -= 1;
            entries -= 1;
            in_place |= u64::from(stays) << n;
        }
        (frames.len(), in_place)
    }

    /// Moves frames into the transmit ring, those in the registered memory without a copy, and returns how many.
    /// `show` gets them before. Packets that are not lent to the ring are spent.
    pub(super) fn pass(
        &mut self,
        frames: &mut Batch,
        spent: &mut Batch,
        counters: &Counters,
        show: &mut dyn FnMut(&[Packet]),
    ) -> usize {
        self.settle(spent);
        let (count, in_place) = self.room(frames.as_slice());
        show(frames.get(..count).unwrap_or_default());
        let mut sent = Batch::new();
        frames.move_first(count, &mut sent);
        let mut entries = [descriptor(0, 0); BATCH];
        let mut used = 0;
        for (n, mut packet) in sent.into_iter().enumerate() {
            if Wired::new(&packet).len() > FRAME_DATA {
                Counters::add(&counters.tx_errors, 1);
                let _ = spent.push(packet);
                continue;
            }
            let entry = if in_place >> n & 1 == 1 {
                if packet.vlan().is_some() {
                    packet.reset_mac();
                    // There is room for the tag.
                    let _ = edit::vlan_to_data(&mut packet);
                }
                let len = packet.len();
                let address = packet.lend();
                self.lent.set(address);
                self.flying += 1;
                descriptor(address, len)
            } else {
                let frame = Wired::new(&packet);
                // There is one, as counted above.
                let address = self.free.pop().unwrap_or_default();
                self.copy(&frame, address);
                let entry = descriptor(address, frame.len());
                let _ = spent.push(packet);
                entry
            };
            if let Some(slot) = entries.get_mut(used) {
                *slot = entry;
            }
            used += 1;
        }
        // There is room, as counted above.
        let _ = self.ring.push_many(entries.get(..used).unwrap_or_default());
        count
    }

    /// Has the kernel send what is in the ring, as far as it can now. With `always` it does not say whether it
    /// needs this.
    ///
    /// # Errors
    /// The device is gone.
    pub(super) fn wake(&self, socket: &OwnedFd, always: bool) -> io::Result<()> {
        let mut left = self.ring.len();
        while left > 0 && (always || self.ring.needs_wakeup()) {
            let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
            // SAFETY: no memory is passed.
            let sent = unsafe { libc::send(fd, std::ptr::null(), 0, flags) };
            let error = match sent {
                -1 => io::Error::last_os_error(),
                _ => return Ok(()),
            };
            let now = self.ring.len();
            match error.raw_os_error() {
                // In copy mode, a call sends a limited number of frames.
                Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS) if now < left => left = now,
                Some(libc::EINTR) => {}
                Some(libc::ENXIO | libc::ENODEV) => return Err(error),
                // The device is down or busy. The frames wait in the ring.
                _ => return Ok(()),
            }
        }
        Ok(())
    }
}

/// Closes a queue and returns its frames to the pool: at once if the kernel copied, otherwise when the probe finds that
/// the driver has stopped.
pub(super) fn close(socket: OwnedFd, receiver: Receiver, sender: Sender, probe: Option<Probe>) {
    // The kernel stops to use the frames when the socket and all its mappings are gone.
    drop(socket);
    let Receiver {
        memory,
        fill,
        ring,
        lent,
        ..
    } = receiver;
    let Sender {
        completion,
        ring: transmit,
        all,
        lent: sending,
        ..
    } = sender;
    drop((fill, ring, completion, transmit));
    let give_back = move || {
        for address in lent.all().chain(sending.all()).chain(all) {
            // SAFETY: the frame was lent, and the kernel no longer uses it.
            drop(unsafe { memory.pool.take_back(address, 0) });
        }
    };
    let Some(probe) = probe else {
        return give_back();
    };
    let wait = move || {
        if probe.wait(LAST) {
            give_back();
        }
    };
    let thread = std::thread::Builder::new().name("af_xdp".into());
    // Without a thread the frames stay lent: the driver may still write to them.
    drop(thread.spawn(wait));
}
