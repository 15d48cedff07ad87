// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `af_packet`: a packet socket on one of the machine's own devices, frames out (packet(7)).
//!
//! For embedding programs that put it behind a device of the stack. Making one needs `CAP_NET_RAW` in the
//! machine's network namespace. What the socket may hold (`SO_SNDBUF`), and the machine's qdisc behind it,
//! bound what it takes. Not implemented: receiving; rings (`PACKET_TX_RING`).
#![allow(unsafe_code)] // bind, sendmmsg and poll with structures made here

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Frames in one system call.
const TOGETHER: usize = 64;

/// The sending half of a packet socket. Any thread may send.
#[derive(Debug)]
pub struct AfPacket {
    socket: OwnedFd,
}

/// What a system call answered.
fn answer(result: libc::c_int) -> io::Result<libc::c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

impl AfPacket {
    /// On the machine's device `name`; receives nothing.
    pub fn open(name: &str) -> io::Result<Self> {
        let name = CString::new(name)?;
        // SAFETY: the name ends with a zero.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: no memory is passed. Protocol 0: nothing is received.
        let socket = answer(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: it has just been made, and nobody else has it.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let at = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: 0,
            sll_ifindex: index as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let len = size_of_val(&at) as libc::socklen_t;
        // SAFETY: the address is whole and lives through the call.
        answer(unsafe { libc::bind(socket.as_raw_fd(), (&raw const at).cast(), len) })?;
        Ok(Self { socket })
    }

    /// Sends frames from the first on, as many of them, at most 64, as there is room for now; how many. 0: there is
    /// none for the first. A frame the machine refuses for another reason is an error only if it is the first.
    pub fn send<'f>(&self, frames: impl IntoIterator<Item = &'f [u8]>) -> io::Result<usize> {
        let mut parts = [libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        }; TOGETHER];
        let mut count = 0;
        for (part, frame) in parts.iter_mut().zip(frames) {
            part.iov_base = frame.as_ptr().cast_mut().cast();
            part.iov_len = frame.len();
            count += 1;
        }
        if count == 0 {
            return Ok(0);
        }
        // SAFETY: zeros are a message without address, parts and control data.
        let mut messages: [libc::mmsghdr; TOGETHER] = unsafe { std::mem::zeroed() };
        for (message, part) in messages.iter_mut().zip(&mut parts) {
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        let fd = self.socket.as_raw_fd();
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: `count` messages of one part each, whose frames live as long as `frames`; they are read only.
        let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count, flags as _) };
        match answer(sent) {
            Ok(sent) => Ok(sent as usize),
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN | libc::ENOBUFS) => Ok(0),
                _ => Err(error),
            },
        }
    }

    /// Waits until there is room, where the socket itself has none; a full qdisc behind it says nothing.
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
