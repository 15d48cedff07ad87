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
//! frame is read into the packet of one that early drop drops. Where the kernel allows io_uring, a system call reads or
//! writes up to 64 frames: twice as many as the last one found, at first one. While long frames arrive, each is read by
//! a call of its own, into a packet that holds it as a whole.
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
use crate::uring::{self, Calls};
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
    /// Writes many frames at once. A CPU that finds it in use writes one by one.
    output: Mutex<Option<Calls>>,
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
    /// Reads many frames at once.
    many: Option<Many>,
}

/// Reads of many frames at once.
#[derive(Debug)]
struct Many {
    calls: Calls,
    /// The number of frames to read by the next call.
    next: usize,
    /// A place per frame for the part that does not fit into a packet, as [`Input::buffer`]. Memory that no long frame
    /// has used is not resident.
    long: Box<[u8]>,
}

impl Many {
    fn new(file: &File) -> Option<Self> {
        Some(Self {
            calls: Calls::new(file.as_fd())?,
            next: 1,
            long: vec![0; BATCH * JUMBO_DATA].into(),
        })
    }
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
        let queue = |file: OwnedFd| {
            let file = File::from(file);
            let input = Input {
                long: None,
                expects_long: false,
                buffer: vec![0; JUMBO_DATA].into(),
                spare: Vec::new(),
                read: Vec::new(),
                waiting: VecDeque::new(),
                many: Many::new(&file),
            };
            let output = Calls::new(file.as_fd());
            Queue {
                file,
                input: Mutex::new(input),
                output: Mutex::new(output),
            }
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

    /// Writes a frame. Returns false without room for it.
    fn write(&self, mut file: &File, packet: &Packet) -> io::Result<bool> {
        let frame = Outgoing::new(packet);
        let parts = frame.parts().map(IoSlice::new);
        // The device takes a frame whole or not at all.
        let result = file.write_vectored(&parts).map(|_whole| ());
        self.written(result.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)))
    }

    /// Writes plain frames at once, and returns how many.
    fn write_many(&self, calls: &mut Calls, frames: &[Packet]) -> io::Result<usize> {
        let mut none = vnet::NONE;
        let header = part(&mut none);
        let mut all = [[header; 2]; BATCH];
        for ([_, data], packet) in all.iter_mut().zip(frames) {
            *data = libc::iovec {
                iov_base: packet.data().as_ptr().cast_mut().cast(),
                iov_len: packet.len(),
            };
        }
        let all = all.get(..frames.len()).unwrap_or_default();
        // SAFETY: the header and the packets live through the call, which reads them.
        let results = unsafe { calls.make(uring::Kind::Write, all) };
        let results = results.get(..all.len()).unwrap_or_default();
        // A frame without room in front of one with room is lost.
        let last = results.iter().rposition(|result| *result != -libc::EAGAIN);
        let done = last.map_or(0, |last| last + 1);
        for result in results.iter().take(done) {
            let result = if *result < 0 { Err(-result) } else { Ok(()) };
            if !self.written(result)? {
                Counters::add(&self.counters.tx_errors, 1);
            }
        }
        Ok(done)
    }

    /// Counts the result of a write. Returns false without room for the frame.
    fn written(&self, result: std::result::Result<(), i32>) -> io::Result<bool> {
        match result {
            Ok(()) => return Ok(true),
            Err(libc::EAGAIN) => return Ok(false),
            Err(libc::EBADFD) => return Err(io::Error::from_raw_os_error(libc::EBADFD)),
            // The device is down or refuses the frame.
            Err(_) => Counters::add(&self.counters.tx_errors, 1),
        }
        Ok(true)
    }
}

/// Returns whether a packet's frame is the header that leaves nothing to the receiver and the data.
fn is_plain(packet: &Packet) -> bool {
    packet.vlan().is_none() && packet.segments().is_none()
}

/// The result of reading a frame.
enum Found {
    /// It is the last of the frames that wait.
    Short,
    /// A frame of this length is in the packet for long frames or in the buffer: it is longer than a packet of
    /// the frame class, or stands for several.
    Long(Header, usize),
}

/// Where the port's caller wants frames.
struct Caller<'a, 'b> {
    memory: &'a mut Cache,
    batch: &'a mut Batch,
    counters: &'a Counters,
    sieve: Option<Sieve<'b>>,
    /// Frames that the sieve dropped.
    dropped: usize,
}

/// A packet's room for a header and a frame.
fn room(packet: &mut Packet) -> &mut [u8] {
    packet.rewind();
    // A packet of the frame class has this room.
    packet.push(vnet::LEN);
    packet.put(FRAME_DATA);
    packet.data_mut()
}

/// Takes the header off a packet that `read` bytes were read into. Returns it with the length of the frame.
fn take_header(packet: &mut Packet, read: usize) -> (Header, usize) {
    let header = packet.data().first_chunk().copied();
    let _ = packet.pull(vnet::LEN);
    let len = read.saturating_sub(vnet::LEN);
    packet.trim(len);
    (Header::parse(header.unwrap_or(vnet::NONE)), len)
}

fn part(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    }
}

impl Input {
    /// Reads a frame. A packet that no frame was read into stays for the next time.
    fn read(&mut self, mut file: &File, memory: &mut Cache) -> io::Result<Found> {
        let spare = self.spare.pop().or_else(|| memory.alloc(0));
        let Some(mut packet) = spare else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        if self.expects_long && self.long.is_none() {
            self.long = memory.alloc(JUMBO_DATA);
        }
        let place = match &mut self.long {
            Some(packet) => packet.data_mut(),
            None => &mut self.buffer,
        };
        let (begin, rest) = place.split_at_mut(FRAME_DATA);
        let mut parts = [IoSliceMut::new(room(&mut packet)), IoSliceMut::new(rest)];
        let read = match file.read_vectored(&mut parts) {
            Ok(read) => read,
            Err(error) => {
                self.spare.push(packet);
                return Err(error);
            }
        };
        let (header, len) = take_header(&mut packet, read);
        if len <= FRAME_DATA && !header.is_long() {
            self.read.push((header, packet));
            return Ok(Found::Short);
        }
        if let Some(begin) = begin.get_mut(..packet.len()) {
            begin.copy_from_slice(packet.data());
        }
        self.spare.push(packet);
        Ok(Found::Long(header, len))
    }

    /// Returns how many frames, up to `limit`, to read at once; 1 for a call of its own.
    fn at_once(&self, limit: usize) -> usize {
        match &self.many {
            Some(many) if !self.expects_long && many.calls.works() => many.next.min(limit),
            _ => 1,
        }
    }

    /// Reads up to `count` frames at once.
    fn read_many(&mut self, count: usize, to: &mut Caller<'_, '_>) -> io::Result<()> {
        let Some(mut many) = self.many.take() else {
            return Ok(());
        };
        let mut packets = [const { None }; BATCH];
        let mut calls = [[uring::NOTHING; 2]; BATCH];
        let mut wanted = 0;
        let places = many.long.chunks_exact_mut(JUMBO_DATA);
        for ((slot, parts), place) in packets.iter_mut().zip(&mut calls).zip(places).take(count) {
            let spare = self.spare.pop().or_else(|| to.memory.alloc(0));
            let Some(mut packet) = spare else {
                break;
            };
            let rest = place.get_mut(FRAME_DATA..).unwrap_or_default();
            *parts = [part(room(&mut packet)), part(rest)];
            *slot = Some(packet);
            wanted += 1;
        }
        let calls = calls.get(..wanted).unwrap_or_default();
        // SAFETY: each packet and each place is read into once, and nobody else uses them meanwhile.
        let results = unsafe { many.calls.make(uring::Kind::Read, calls) };
        let mut end = match wanted {
            0 => Err(io::ErrorKind::OutOfMemory.into()),
            _ => Ok(()),
        };
        let mut found = 0;
        let places = many.long.chunks_exact_mut(JUMBO_DATA);
        for ((packet, result), place) in packets.into_iter().flatten().zip(results).zip(places) {
            let mut packet = packet;
            let Ok(read) = usize::try_from(result) else {
                self.spare.push(packet);
                end = Err(io::Error::from_raw_os_error(-result));
                continue;
            };
            found += 1;
            let (header, len) = take_header(&mut packet, read);
            if len <= FRAME_DATA && !header.is_long() {
                self.read.push((header, packet));
                continue;
            }
            if let Some(begin) = place.get_mut(..packet.len()) {
                begin.copy_from_slice(packet.data());
            }
            self.spare.push(packet);
            self.deliver(to);
            match place.get(..len) {
                Some(frame) if !to.drops(header, frame) => {
                    self.expects_long = true;
                    let mut out = Out {
                        batch: to.batch,
                        waiting: &mut self.waiting,
                    };
                    vnet::deliver(header, frame, None, to.memory, &mut out, to.counters);
                }
                Some(_) => {}
                None => Counters::add(&to.counters.rx_errors, 1),
            }
        }
        many.next = (2 * found).clamp(1, BATCH);
        self.many = Some(many);
        end
    }

    /// Has the frames that wait judged, and appends those that are kept.
    fn deliver(&mut self, to: &mut Caller<'_, '_>) {
        let mut dropped = 0;
        if let Some(sieve) = to.sieve.as_mut().filter(|_| !self.read.is_empty()) {
            let mut frames: [&[u8]; BATCH] = [&[]; BATCH];
            for (slot, (header, packet)) in frames.iter_mut().zip(&self.read) {
                // A frame with an error to be counted is shown as empty.
                let judged = header.is_of_one(packet.data());
                *slot = if judged { packet.data() } else { &[] };
            }
            dropped = sieve(frames.get(..self.read.len()).unwrap_or_default());
        }
        let mut out = Out {
            batch: to.batch,
            waiting: &mut self.waiting,
        };
        for (n, (header, packet)) in self.read.drain(..).enumerate() {
            match dropped >> n & 1 {
                1 => self.spare.push(packet),
                _ => vnet::deliver_packet(header, packet, to.memory, &mut out, to.counters),
            }
        }
        to.dropped += dropped.count_ones() as usize;
    }
}

impl Caller<'_, '_> {
    /// Has a long frame judged.
    fn drops(&mut self, header: Header, frame: &[u8]) -> bool {
        let drops = match &mut self.sieve {
            Some(sieve) => header.is_of_one(frame) && sieve(&[frame]) & 1 == 1,
            None => false,
        };
        self.dropped += usize::from(drops);
        drops
    }
}

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
        sieve: Option<Sieve<'_>>,
    ) -> io::Result<usize> {
        let queue = self.queue(queue);
        let mut input = queue.input.lock().unwrap_or_else(PoisonError::into_inner);
        let input = &mut *input;
        let before = batch.len();
        let waiting = &mut input.waiting;
        if !(Out { batch, waiting }).refill() {
            return Ok(batch.len() - before);
        }
        let mut caller = Caller {
            memory,
            batch,
            counters: &self.counters,
            sieve,
            dropped: 0,
        };
        let to = &mut caller;
        let end = loop {
            let room = to.batch.room().min(BATCH - to.dropped.min(BATCH));
            if input.read.len() >= room {
                input.deliver(to);
                if to.batch.is_full() || to.dropped >= BATCH {
                    break Ok(());
                }
                continue;
            }
            let at_once = input.at_once(room - input.read.len());
            let found = match at_once {
                1 => input.read(&queue.file, to.memory),
                count => input.read_many(count, to).map(|()| Found::Short),
            };
            match found {
                Ok(Found::Short) => {
                    if let (1, Some(many)) = (at_once, &mut input.many) {
                        many.next = 2;
                    }
                }
                Ok(Found::Long(header, len)) => {
                    // The frames in front of it go first.
                    input.deliver(to);
                    let place = input.long.as_ref().map_or(&*input.buffer, Packet::data);
                    let Some(frame) = place.get(..len) else {
                        Counters::add(&self.counters.rx_errors, 1);
                        continue;
                    };
                    if to.drops(header, frame) {
                        continue;
                    }
                    let mut out = Out {
                        batch: to.batch,
                        waiting: &mut input.waiting,
                    };
                    input.expects_long = true;
                    let counters = &self.counters;
                    match input.long.take() {
                        Some(mut packet) => {
                            packet.trim(len);
                            vnet::deliver_packet(header, packet, to.memory, &mut out, counters);
                        }
                        None => {
                            let frame = input.buffer.get(..len).unwrap_or_default();
                            vnet::deliver(header, frame, None, to.memory, &mut out, counters);
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
        input.deliver(to);
        let dropped = to.dropped;
        input.spare.drain(..).for_each(|packet| memory.free(packet));
        if let Some(packet) = input.long.take() {
            memory.free(packet);
        }
        // The next frames are unlikely to be long unless one of these was.
        input.expects_long &= batch.iter().any(|packet| packet.len() > FRAME_DATA);
        end.map(|()| batch.len() - before + dropped)
    }

    fn long_packets(&self) -> LongPackets {
        vnet::long_packets(self.udp)
    }

    fn send(&self, queue: u16, frames: &[Packet]) -> io::Result<usize> {
        let queue = self.queue(queue);
        let mut output = queue.output.try_lock().ok();
        let mut sent = 0;
        while let Some(packet) = frames.get(sent) {
            let rest = frames.get(sent..).unwrap_or_default();
            let plain = rest
                .iter()
                .take(BATCH)
                .take_while(|packet| is_plain(packet));
            let calls = output.as_mut().and_then(|output| output.as_mut());
            match (calls.filter(|calls| calls.works()), plain.count()) {
                (Some(calls), count @ 2..) => {
                    let done = self.write_many(calls, rest.get(..count).unwrap_or_default())?;
                    sent += done;
                    // A kernel that takes no more calls at once takes single ones.
                    if done < count && calls.works() {
                        return Ok(sent);
                    }
                }
                _ => match self.write(&queue.file, packet)? {
                    true => sent += 1,
                    false => return Ok(sent),
                },
            }
        }
        Ok(sent)
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
