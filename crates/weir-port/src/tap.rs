// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tap`: a TAP device of the host (`drivers/net/tun.c`). The port receives the frames that the kernel
//! sends on it.
//!
//! | key | meaning | default |
//! |---|---|---|
//! | `name` | the device, created if it does not exist; may contain one `%d` | `weir%d` |
//! | `queues` | the number of queues, 1 to 16 (`IFF_MULTI_QUEUE` if more than 1) | 1 |
//!
//! Opening needs `/dev/net/tun` and `CAP_NET_ADMIN` in the caller's network namespace, or a persistent
//! device that the caller owns. Frames are read directly into packets and written directly from them. The next
//! frame is read into the packet of one that early drop drops.
//!
//! Senders on the host leave segmentation and checksums to the device (`TUNSETOFFLOAD`; UDP segmentation from
//! Linux 6.2 on). The header in front of each frame says so (`IFF_VNET_HDR`). The port completes checksums and
//! passes long frames on as one packet. It sends long packets the same way. Not implemented: tunnels, whose
//! frames the kernel segments before the port reads them.
#![allow(unsafe_code)] // ioctls with a structure made here

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, Mutex, PoisonError};

use weir_packet::batch::BATCH;
use weir_packet::packet::{FRAME_DATA, JUMBO_DATA};
use weir_packet::{Batch, Cache, LongPackets, Packet};

use crate::keys::Keys;
use crate::port::{Counters, Facts, Kind, Port, Sieve, Site, failed};
use crate::vnet::{self, Header, Out, Outgoing};
use crate::{Error, Result};

/// The kind.
pub static KIND: Kind = Kind {
    name: NAME,
    keys: &["name", "queues"],
    open,
    adopt,
    virtual_time: None,
};

const NAME: &str = "tap";
const QUEUES: u16 = 16;
/// The work that the kernel may leave to the port: checksums and TCP segmentation, with ECN.
const OFFLOADS: libc::c_uint =
    libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
/// UDP segmentation (`TUN_F_USO4`, `TUN_F_USO6`), which older kernels refuse.
const UDP_OFFLOADS: libc::c_uint = 0x20 | 0x40;

/// A TAP device.
#[derive(Debug)]
pub struct Tap {
    name: String,
    queues: Vec<Queue>,
    /// The kernel takes long UDP packets.
    udp: bool,
    counters: Counters,
}

#[derive(Debug)]
struct Queue {
    file: File,
    input: Mutex<Input>,
}

/// The state of reading a queue.
#[derive(Debug)]
struct Input {
    /// Room for the longest frame. The part that does not fit into a packet of the frame class is read into
    /// its place in `long`, the packet for the next long frame. While none arrive, or without memory, it is read
    /// into its place in `buffer`.
    long: Option<Packet>,
    expects_long: bool,
    buffer: Box<[u8]>,
    /// Packets to read into, during a call.
    spare: Vec<Packet>,
    /// Frames that were read and wait to be judged.
    read: Vec<(Header, Packet)>,
    /// Segments of the last frame that did not fit into the caller's batch.
    waiting: VecDeque<Packet>,
}

/// Issues a request about the device behind a descriptor (`struct ifreq`).
fn request(file: &impl AsRawFd, code: libc::c_ulong, ifreq: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: these requests read and write the structure and nothing else.
    match unsafe { libc::ioctl(file.as_raw_fd(), code as _, std::ptr::from_mut(ifreq)) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Tells the kernel which work it may leave to the port.
fn take_over(file: &File, offloads: libc::c_uint) -> io::Result<()> {
    let offloads = libc::c_ulong::from(offloads);
    // SAFETY: the argument is a number.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, offloads) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn empty() -> libc::ifreq {
    // SAFETY: zeros are an empty name and an empty union.
    unsafe { std::mem::zeroed() }
}

fn name_of(ifreq: &libc::ifreq) -> String {
    let bytes = ifreq.ifr_name.iter().map(|byte| *byte as u8);
    let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn open(keys: &Keys) -> Result<Vec<OwnedFd>> {
    let name = keys.get("name").unwrap_or("weir%d");
    let queues: u16 = keys.number("queues", 1)?;
    if !(1..=QUEUES).contains(&queues) {
        return Err(Error::new(
            NAME,
            format!("queues must be from 1 to {QUEUES}"),
        ));
    }
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains(['/', '\0']) {
        return Err(Error::new(
            NAME,
            format!("{name} is not a valid device name"),
        ));
    }
    let mut ifreq = empty();
    for (to, byte) in ifreq.ifr_name.iter_mut().zip(name.bytes()) {
        *to = byte as _;
    }
    let multi = if queues > 1 { libc::IFF_MULTI_QUEUE } else { 0 };
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | multi;
    (0..queues)
        .map(|_| {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_NONBLOCK)
                .open("/dev/net/tun")
                .map_err(failed(NAME, "/dev/net/tun"))?;
            ifreq.ifr_ifru.ifru_flags = flags as _;
            // The first queue resolves the name; the others attach to it.
            request(&file, libc::TUNSETIFF as _, &mut ifreq).map_err(failed(NAME, name))?;
            let taken = take_over(&file, OFFLOADS | UDP_OFFLOADS);
            taken
                .or_else(|_| take_over(&file, OFFLOADS))
                .map_err(failed(NAME, "TUNSETOFFLOAD"))?;
            Ok(file.into())
        })
        .collect()
}

fn adopt(_: &Keys, files: Vec<OwnedFd>, _: &Site) -> Result<Arc<dyn Port>> {
    Ok(Arc::new(Tap::new(files)?))
}

impl Tap {
    /// Makes the port from the device's open queues.
    ///
    /// # Errors
    /// There is no queue, or the first descriptor is not a TAP device with `IFF_VNET_HDR`.
    pub fn new(files: Vec<OwnedFd>) -> Result<Self> {
        let mut ifreq = empty();
        let first = files
            .first()
            .ok_or_else(|| Error::new(NAME, "a TAP device has at least one queue"))?;
        request(first, libc::TUNGETIFF as _, &mut ifreq).map_err(failed(NAME, "TUNGETIFF"))?;
        // SAFETY: the request has just set the flags.
        let flags = i32::from(unsafe { ifreq.ifr_ifru.ifru_flags });
        if flags & libc::IFF_VNET_HDR == 0 {
            return Err(Error::new(NAME, "the device is without IFF_VNET_HDR"));
        }
        let queue = |file: OwnedFd| Queue {
            file: file.into(),
            input: Mutex::new(Input {
                long: None,
                expects_long: false,
                buffer: vec![0; JUMBO_DATA].into(),
                spare: Vec::new(),
                read: Vec::new(),
                waiting: VecDeque::new(),
            }),
        };
        Ok(Self {
            name: name_of(&ifreq),
            queues: files.into_iter().map(queue).collect(),
            udp: vnet::kernel_segments_udp(),
            counters: Counters::default(),
        })
    }

    fn queue(&self, queue: u16) -> &Queue {
        &self.queues[usize::from(queue) % self.queues.len()]
    }
}

/// The result of reading a frame.
enum Found {
    /// It is the last of the frames that wait.
    Short,
    /// A frame of this length is in the packet for long frames or in the buffer: it is longer than a packet of
    /// the frame class, or stands for several.
    Long(Header, usize),
}

impl Input {
    /// Reads a frame. A packet that no frame was read into stays for the next time.
    fn read(&mut self, mut file: &File, memory: &mut Cache) -> io::Result<Found> {
        let spare = self.spare.pop().or_else(|| memory.alloc(0));
        let Some(mut packet) = spare else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        packet.rewind();
        let mut header = [0; vnet::LEN];
        if self.expects_long && self.long.is_none() {
            self.long = memory.alloc(JUMBO_DATA);
        }
        let place = match &mut self.long {
            Some(packet) => packet.data_mut(),
            None => &mut self.buffer,
        };
        let (begin, rest) = place.split_at_mut(FRAME_DATA);
        // A packet of the frame class has this room.
        let room = packet.put(FRAME_DATA).unwrap_or_default();
        let mut parts = [
            IoSliceMut::new(&mut header),
            IoSliceMut::new(room),
            IoSliceMut::new(rest),
        ];
        let read = match file.read_vectored(&mut parts) {
            Ok(read) => read,
            Err(error) => {
                self.spare.push(packet);
                return Err(error);
            }
        };
        let header = Header::parse(header);
        let len = read.saturating_sub(vnet::LEN);
        if len <= FRAME_DATA && !header.is_long() {
            packet.trim(len);
            self.read.push((header, packet));
            return Ok(Found::Short);
        }
        begin.copy_from_slice(packet.data());
        self.spare.push(packet);
        Ok(Found::Long(header, len))
    }

    /// Has the frames that wait judged, and appends those that are kept. Returns the number of the others.
    fn deliver(
        &mut self,
        memory: &mut Cache,
        batch: &mut Batch,
        counters: &Counters,
        sieve: Option<&mut Sieve<'_>>,
    ) -> usize {
        let mut dropped = 0;
        if let Some(sieve) = sieve.filter(|_| !self.read.is_empty()) {
            let mut frames: [&[u8]; BATCH] = [&[]; BATCH];
            for (slot, (header, packet)) in frames.iter_mut().zip(&self.read) {
                // A frame with an error to be counted is shown as empty.
                let judged = header.is_of_one(packet.data());
                *slot = if judged { packet.data() } else { &[] };
            }
            dropped = sieve(frames.get(..self.read.len()).unwrap_or_default());
        }
        let mut out = Out {
            batch,
            waiting: &mut self.waiting,
        };
        for (n, (header, packet)) in self.read.drain(..).enumerate() {
            match dropped >> n & 1 {
                1 => self.spare.push(packet),
                _ => vnet::deliver_packet(header, packet, memory, &mut out, counters),
            }
        }
        dropped.count_ones() as usize
    }
}

impl Tap {}

impl Port for Tap {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn facts(&self) -> Facts {
        Facts {
            name: self.name.clone(),
            ..Facts::default()
        }
    }

    fn queues(&self) -> u16 {
        self.queues.len() as u16
    }

    fn descriptor(&self, queue: u16) -> Option<BorrowedFd<'_>> {
        Some(self.queue(queue).file.as_fd())
    }

    fn sifts(&self) -> bool {
        true
    }

    fn take(
        &self,
        queue: u16,
        memory: &mut Cache,
        batch: &mut Batch,
        mut sieve: Option<Sieve<'_>>,
    ) -> io::Result<usize> {
        let queue = self.queue(queue);
        let mut input = queue.input.lock().unwrap_or_else(PoisonError::into_inner);
        let input = &mut *input;
        let before = batch.len();
        let waiting = &mut input.waiting;
        if !(Out { batch, waiting }).refill() {
            return Ok(batch.len() - before);
        }
        let mut dropped = 0;
        let end = loop {
            let room = batch.room().min(BATCH - dropped.min(BATCH));
            if input.read.len() >= room {
                dropped += input.deliver(memory, batch, &self.counters, sieve.as_mut());
                if batch.is_full() || dropped >= BATCH {
                    break Ok(());
                }
            }
            match input.read(&queue.file, memory) {
                Ok(Found::Short) => {}
                Ok(Found::Long(header, len)) => {
                    // The frames in front of it go first.
                    dropped += input.deliver(memory, batch, &self.counters, sieve.as_mut());
                    let place = input.long.as_ref().map_or(&*input.buffer, Packet::data);
                    let Some(frame) = place.get(..len) else {
                        Counters::add(&self.counters.rx_errors, 1);
                        continue;
                    };
                    if let Some(sieve) = &mut sieve
                        && header.is_of_one(frame)
                        && sieve(&[frame]) & 1 == 1
                    {
                        dropped += 1;
                        continue;
                    }
                    let mut out = Out {
                        batch,
                        waiting: &mut input.waiting,
                    };
                    input.expects_long = true;
                    let counters = &self.counters;
                    match input.long.take() {
                        Some(mut packet) => {
                            packet.trim(len);
                            vnet::deliver_packet(header, packet, memory, &mut out, counters);
                        }
                        None => {
                            let frame = input.buffer.get(..len).unwrap_or_default();
                            vnet::deliver(header, frame, None, memory, &mut out, counters);
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                    Counters::add(&self.counters.rx_dropped, 1);
                    break Ok(());
                }
                Err(error) => break Err(error),
            }
        };
        dropped += input.deliver(memory, batch, &self.counters, sieve.as_mut());
        input.spare.drain(..).for_each(|packet| memory.free(packet));
        if let Some(packet) = input.long.take() {
            memory.free(packet);
            // The next frames are unlikely to be long unless one of these was.
            input.expects_long = batch.iter().any(|packet| packet.len() > FRAME_DATA);
        }
        end.map(|()| batch.len() - before + dropped)
    }

    fn long_packets(&self) -> LongPackets {
        vnet::long_packets(self.udp)
    }

    fn send(&self, queue: u16, frames: &[Packet]) -> io::Result<usize> {
        let mut file = &self.queue(queue).file;
        for (sent, packet) in frames.iter().enumerate() {
            let frame = Outgoing::new(packet);
            let parts = frame.parts().map(IoSlice::new);
            // The device takes a frame whole or not at all.
            let result = file.write_vectored(&parts).map(|_whole| ());
            if let Err(error) = result {
                match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(sent),
                    Some(libc::EBADFD) => return Err(error),
                    // The device is down or refuses the frame.
                    _ => Counters::add(&self.counters.tx_errors, 1),
                }
            }
        }
        Ok(frames.len())
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
