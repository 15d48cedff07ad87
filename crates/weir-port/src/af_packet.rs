// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `af_packet`: packet sockets on one of the host's devices (packet(7), `net/packet/af_packet.c`).
//!
//! | key | meaning | default |
//! |---|---|---|
//! | `dev` | the device | |
//! | `fanout` | the id of a fanout group (`PACKET_FANOUT_HASH`) that several ports share | none |
//! | `queues` | the number of sockets, 1 to 16; more than one form a fanout group of their own | 1 |
//! | `promisc` | `yes` makes the device promiscuous; `no` | `yes` |
//! | `bypass` | `yes` bypasses the host device's qdisc (`PACKET_QDISC_BYPASS`); `no` | `no` |
//!
//! The port receives through a ring that it shares with the kernel (`TPACKET_V3`, 64 blocks of 128 KiB; the
//! kernel hands a block over after 1 ms at the latest) and copies each frame once, into a packet. It sends
//! with `sendmmsg` directly from packets. The send buffer (`SO_SNDBUF`) bounds the frames in flight; a frame
//! that the host device's qdisc drops counts in `tx_errors`. Opening needs `CAP_NET_RAW` in the caller's
//! network namespace.
//!
//! A sender on the host may leave segmentation and checksums to the device (`tso`, `gso`, `tx-checksumming`).
//! The header that the kernel puts in front of each frame says so (`PACKET_VNET_HDR`). The port completes
//! checksums and passes long TCP and UDP frames on as one packet. It sends long packets the same way, UDP from
//! Linux 6.2 on. Not implemented: segmentation of frames inside a tunnel (`rx_errors`; turn off
//! `tx-udp_tnl-segmentation` and the like on the host's device); transmit rings.
#![allow(unsafe_code)] // socket options, a shared ring, and sendmmsg with structures made here

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use weir_packet::{Batch, Cache, LongPackets, Packet};

use crate::keys::Keys;
use crate::port::{Counters, Facts, Kind, Port, Sieve, Site, failed};
use crate::vnet::{self, Outgoing};
use crate::{Error, Result};

mod block;
mod ring;

pub(crate) use block::each_frame;
use ring::Ring;

/// The kind.
pub static KIND: Kind = Kind {
    name: NAME,
    keys: &["dev", "fanout", "queues", "promisc", "bypass"],
    open,
    adopt,
    virtual_time: None,
};

const NAME: &str = "af_packet";
const QUEUES: u16 = 16;
/// The maximum number of frames per system call.
const TOGETHER: usize = 64;
/// The first value of each key is the default.
const PROMISC: &[&str] = &["yes", "no"];
const BYPASS: &[&str] = &["no", "yes"];

/// Converts the result of a system call.
fn answer(result: libc::c_int) -> io::Result<libc::c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// Sets an option of packet sockets.
fn set<T>(socket: &impl AsRawFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: the value is whole and lives through the call.
    let done =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, value, len) };
    answer(done).map(drop)
}

/// Returns whether a header describes the offloads of each of the socket's frames.
fn has_headers(socket: &OwnedFd) -> io::Result<bool> {
    let (mut set, option) = (0_i32, libc::PACKET_VNET_HDR);
    let mut len = size_of_val(&set) as libc::socklen_t;
    let (fd, value) = (socket.as_raw_fd(), (&raw mut set).cast());
    // SAFETY: the value has room for `len` octets.
    answer(unsafe { libc::getsockopt(fd, libc::SOL_PACKET, option, value, &raw mut len) })?;
    Ok(set != 0)
}

/// Opens a packet socket bound to the host's device `name`. It receives frames of the ethertype
/// `protocol`, or none if that is 0.
fn bound(name: &str, protocol: u16) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    // SAFETY: the name ends with a zero.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is passed. Protocol 0: nothing is received before the socket is bound.
    let socket = answer(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: it has just been made, and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    if protocol != 0 {
        // Skips frames that the host itself sends on the device.
        set(&socket, libc::PACKET_IGNORE_OUTGOING, &1_i32)?;
        ring::ask(&socket)?;
    }
    let at = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of_val(&at) as libc::socklen_t;
    // SAFETY: the address is whole and lives through the call.
    answer(unsafe { libc::bind(socket.as_raw_fd(), (&raw const at).cast(), len) })?;
    Ok(socket)
}

/// Returns the address to which a socket is bound.
fn place(socket: &OwnedFd) -> io::Result<libc::sockaddr_ll> {
    // SAFETY: zero bytes are a valid address.
    let mut at: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&at) as libc::socklen_t;
    // SAFETY: the address has room for `len` octets.
    answer(unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut at).cast(), &raw mut len) })?;
    if i32::from(at.sll_family) != libc::AF_PACKET {
        return Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT));
    }
    Ok(at)
}

fn open(keys: &Keys) -> Result<Vec<OwnedFd>> {
    let name = keys.require("dev")?;
    let queues: u16 = keys.number("queues", 1)?;
    if !(1..=QUEUES).contains(&queues) {
        return Err(Error::new(
            NAME,
            format!("queues must be from 1 to {QUEUES}"),
        ));
    }
    let promisc = keys.choice("promisc", PROMISC)? == 0;
    let bypass = keys.choice("bypass", BYPASS)? == 1;
    let fanout: Option<u16> = match keys.get("fanout") {
        Some(_) => Some(keys.number("fanout", 0)?),
        // Other processes are unlikely to use this number for a group.
        None => (queues > 1).then_some(std::process::id() as u16),
    };
    let socket = || -> io::Result<OwnedFd> {
        let socket = bound(name, libc::ETH_P_ALL as u16)?;
        if promisc {
            let membership = libc::packet_mreq {
                mr_ifindex: place(&socket)?.sll_ifindex,
                mr_type: libc::PACKET_MR_PROMISC as _,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            set(&socket, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
        }
        if bypass {
            set(&socket, libc::PACKET_QDISC_BYPASS, &1_i32)?;
        }
        if let Some(group) = fanout {
            let kind = libc::PACKET_FANOUT_HASH as i32;
            set(
                &socket,
                libc::PACKET_FANOUT,
                &(i32::from(group) | kind << 16),
            )?;
        }
        Ok(socket)
    };
    (0..queues)
        .map(|_| socket().map_err(failed(NAME, name)))
        .collect()
}

fn adopt(_: &Keys, files: Vec<OwnedFd>, _: &Site) -> Result<Arc<dyn Port>> {
    Ok(Arc::new(AfPacketPort::new(files)?))
}

/// The sending half of a packet socket. Any thread may send.
#[derive(Debug)]
pub struct AfPacket {
    socket: OwnedFd,
}

impl AfPacket {
    /// Opens a socket on the host's device `name`. It receives nothing.
    pub fn open(name: &str) -> io::Result<Self> {
        bound(name, 0).map(|socket| Self { socket })
    }

    /// Sends frames from the first on, as many as there is room for now but at most 64, and returns
    /// how many. Returns 0 if there is no room for the first. A frame that the host refuses for
    /// another reason is an error only if it is the first one.
    pub fn send<'f>(&self, frames: impl IntoIterator<Item = &'f [u8]>) -> io::Result<usize> {
        let frames = frames.into_iter().map(|frame| [frame]);
        match send(&self.socket, frames) {
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(0),
            result => result,
        }
    }

    /// Waits until the socket has room. It does not wait for room in the qdisc behind the socket.
    pub fn wait(&self) -> io::Result<()> {
        let mut poll = libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one structure, which lives through the call.
        answer(unsafe { libc::poll(&raw mut poll, 1, -1) }).map(drop)
    }
}

/// Sends frames of `N` parts each with one system call and returns how many. Returns 0 if there
/// is no room for the first.
fn send<'f, const N: usize>(
    socket: &OwnedFd,
    frames: impl Iterator<Item = [&'f [u8]; N]>,
) -> io::Result<usize> {
    let none = libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    };
    let mut parts = [[none; N]; TOGETHER];
    let mut count = 0;
    for (parts, frame) in parts.iter_mut().zip(frames) {
        for (part, bytes) in parts.iter_mut().zip(frame) {
            part.iov_base = bytes.as_ptr().cast_mut().cast();
            part.iov_len = bytes.len();
        }
        count += 1;
    }
    if count == 0 {
        return Ok(0);
    }
    // SAFETY: zero bytes are a valid message without address, parts and control data.
    let mut messages: [libc::mmsghdr; TOGETHER] = unsafe { std::mem::zeroed() };
    for (message, parts) in messages.iter_mut().zip(&mut parts) {
        message.msg_hdr.msg_iov = parts.as_mut_ptr();
        message.msg_hdr.msg_iovlen = parts.len() as _;
    }
    let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
    // SAFETY: `count` messages of `N` parts each, whose frames live as long as `frames`; they are read only.
    let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count, flags as _) };
    match answer(sent) {
        Ok(sent) => Ok(sent as usize),
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Ok(0),
        Err(error) => Err(error),
    }
}

/// A queue of [`AfPacketPort`].
#[derive(Debug)]
struct Queue {
    // Field order: the ring is unmapped before its socket is closed.
    ring: Mutex<Ring>,
    socket: OwnedFd,
}

/// Packet sockets on one of the host's devices.
#[derive(Debug)]
pub struct AfPacketPort {
    queues: Vec<Queue>,
    facts: Facts,
    /// The kernel takes long UDP packets.
    udp: bool,
    counters: Counters,
}

impl AfPacketPort {
    /// Makes the port from bound sockets that have a ring.
    ///
    /// # Errors
    /// There is no socket, one is not a packet socket with `PACKET_VNET_HDR`, or its ring cannot be mapped.
    pub fn new(sockets: Vec<OwnedFd>) -> Result<Self> {
        let first = sockets
            .first()
            .ok_or_else(|| Error::new(NAME, "a packet socket port has at least one socket"))?;
        let facts = facts(first).map_err(failed(NAME, "the socket's device"))?;
        let queues = sockets.into_iter().map(|socket| {
            if !has_headers(&socket).map_err(failed(NAME, "PACKET_VNET_HDR"))? {
                return Err(Error::new(NAME, "a socket is without PACKET_VNET_HDR"));
            }
            let ring = Ring::map(&socket).map_err(failed(NAME, "the socket's ring"))?;
            Ok(Queue {
                ring: Mutex::new(ring),
                socket,
            })
        });
        Ok(Self {
            queues: queues.collect::<Result<_>>()?,
            facts,
            udp: vnet::kernel_segments_udp(),
            counters: Counters::default(),
        })
    }

    fn queue(&self, queue: u16) -> &Queue {
        &self.queues[usize::from(queue) % self.queues.len()]
    }
}

/// Describes the device of a bound socket.
fn facts(socket: &OwnedFd) -> io::Result<Facts> {
    let at = place(socket)?;
    // SAFETY: zero bytes are an empty name and an empty union.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    ifreq.ifr_ifru.ifru_ifindex = at.sll_ifindex;
    let mut ask = |code| {
        // SAFETY: these requests read and write the structure and nothing else.
        answer(unsafe { libc::ioctl(socket.as_raw_fd(), code, &raw mut ifreq) })
    };
    ask(libc::SIOCGIFNAME as _)?;
    ask(libc::SIOCGIFMTU as _)?;
    // SAFETY: the request has just set the MTU.
    let mtu = unsafe { ifreq.ifr_ifru.ifru_mtu };
    let name = ifreq.ifr_name.iter().map(|byte| *byte as u8);
    let name: Vec<u8> = name.take_while(|byte| *byte != 0).collect();
    let address = at.sll_addr.first_chunk().filter(|_| at.sll_halen == 6);
    Ok(Facts {
        address: address.copied(),
        mtu: u32::try_from(mtu).ok(),
        name: String::from_utf8_lossy(&name).into_owned(),
    })
}

impl Port for AfPacketPort {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    fn has_carrier(&self) -> bool {
        // The kernel unbinds the socket when the device goes.
        let place = self.queues.first().map(|queue| place(&queue.socket));
        place.is_some_and(|at| at.is_ok_and(|at| at.sll_ifindex > 0))
    }

    fn queues(&self) -> u16 {
        self.queues.len() as u16
    }

    fn descriptor(&self, queue: u16) -> Option<BorrowedFd<'_>> {
        Some(self.queue(queue).socket.as_fd())
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
        let mut ring = queue.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let count = ring.receive(memory, batch, &self.counters, sieve);
        if count == 0 {
            // The socket reports once that its device went down or away.
            if let Some(error) = rustix::net::sockopt::socket_error(&queue.socket)?.err() {
                let error = io::Error::from(error);
                if error.raw_os_error() != Some(libc::ENETDOWN)
                    || place(&queue.socket)?.sll_ifindex == -1
                {
                    return Err(error);
                }
            }
            Counters::add(&self.counters.rx_dropped, ring::lost(&queue.socket)?);
        }
        Ok(count)
    }

    fn long_packets(&self) -> LongPackets {
        vnet::long_packets(self.udp)
    }

    fn send(&self, queue: u16, frames: &[Packet]) -> io::Result<usize> {
        let socket = &self.queue(queue).socket;
        let mut done = 0;
        while let Some(rest) = frames.get(done..).filter(|rest| !rest.is_empty()) {
            let mut out = [const { None }; TOGETHER];
            for (slot, packet) in out.iter_mut().zip(rest) {
                *slot = Some(Outgoing::new(packet));
            }
            let frames = out.iter().flatten().map(Outgoing::parts);
            match send(socket, frames) {
                Ok(0) => return Ok(done),
                Ok(sent) => done += sent,
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENXIO | libc::ENODEV)) => {
                    return Err(error);
                }
                // The device is down, its qdisc is full, or it refuses the frame.
                Err(_) => {
                    Counters::add(&self.counters.tx_errors, 1);
                    done += 1;
                }
            }
        }
        Ok(done)
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
