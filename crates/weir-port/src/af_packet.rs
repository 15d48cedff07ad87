// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `af_packet`: sends frames through a packet socket on one of the host's own devices (packet(7)).
//!
//! For embedding programs that put it behind a device of the stack. Creating one requires
//! `CAP_NET_RAW` in the host's network namespace. The socket's send buffer (`SO_SNDBUF`) and the
//! host's qdisc behind it bound what it accepts. Not implemented: receiving; rings
//! (`PACKET_TX_RING`).
#![allow(unsafe_code)] // bind, sendmmsg and poll with structures made here

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The maximum number of frames per system call.
const TOGETHER: usize = 64;

/// The sending half of a packet socket. Any thread may send.
#[derive(Debug)]
pub struct AfPacket {
    socket: OwnedFd,
}

/// Converts the result of a system call.
fn answer(result: libc::c_int) -> io::Result<libc::c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

impl AfPacket {
    /// Opens a socket on the host's device `name`. It receives nothing.
    pub fn open(name: &str) -> io::Result<Self> {
        let name = CString::new(name)?;
        // SAFETY: the name ends with a NUL.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: no memory is passed. With protocol 0 the socket receives nothing.
        let socket = answer(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: the descriptor was just created and has no other owner.
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
        // SAFETY: the address is fully initialised and lives through the call.
        answer(unsafe { libc::bind(socket.as_raw_fd(), (&raw const at).cast(), len) })?;
        Ok(Self { socket })
    }

    /// Sends frames from the first on, as many as there is room for now but at most 64, and returns
    /// how many. Returns 0 if there is no room for the first. A frame that the host refuses for
    /// another reason is an error only if it is the first one.
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
        // SAFETY: zero bytes are a valid message without address, parts and control data.
        let mut messages: [libc::mmsghdr; TOGETHER] = unsafe { std::mem::zeroed() };
        for (message, part) in messages.iter_mut().zip(&mut parts) {
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        let fd = self.socket.as_raw_fd();
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: `count` messages of one part each, whose frames live as long as `frames` and are
        // only read.
        let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count, flags as _) };
        match answer(sent) {
            Ok(sent) => Ok(sent as usize),
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN | libc::ENOBUFS) => Ok(0),
                _ => Err(error),
            },
        }
    }

    /// Waits until the socket itself has room. It cannot detect a full qdisc behind the socket.
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
