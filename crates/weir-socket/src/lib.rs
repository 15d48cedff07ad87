// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets of programs: UDP, TCP, ping, raw and packet sockets of a namespace.
//!
//! A [`Socket`] speaks Linux's binary interface: addresses are the bytes of a `sockaddr`, options and control
//! messages those that `setsockopt` and `sendmsg` take on a 64-bit machine, errors are positive errnos. It has no
//! descriptor and never blocks. What arrives goes to its [`User`], which an embedding program or the server of
//! intercepted programs implements.
#![deny(unsafe_code)]

use std::sync::Arc;

use weir_core::cpu::Cx;
use weir_core::namespace::Namespace;
use weir_netlink::errno;

/// What a socket is ready for: `POLLIN` and so on, with the values of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ready(pub u16);

impl Ready {
    /// Data, a connection to accept or the end of the stream (`POLLIN`).
    pub const IN: u16 = 0x1;
    /// Room to send (`POLLOUT`).
    pub const OUT: u16 = 0x4;
    /// An error, or a message in the error queue (`POLLERR`).
    pub const ERR: u16 = 0x8;
    /// Both directions are closed (`POLLHUP`).
    pub const HUP: u16 = 0x10;
    /// The peer has closed its direction (`POLLRDHUP`).
    pub const RDHUP: u16 = 0x2000;
}

/// A datagram on its way to a program.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The sender: the bytes of a `sockaddr_in`, `sockaddr_in6` or `sockaddr_ll`; empty if there is none.
    pub from: &'a [u8],
    /// The control messages (`struct cmsghdr` with padding), as the socket's options want them.
    pub control: &'a [u8],
    /// The data.
    pub data: &'a [u8],
    /// Flags of `struct msghdr`: `MSG_ERRQUEUE`.
    pub flags: i32,
    /// The length that the sender's datagram has, in bytes; more than the data where they were cut.
    pub length: usize,
    /// When it was received, in ns of the stack's clock.
    pub time: u64,
}

/// A datagram from a program.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outgoing<'a> {
    /// The receiver's address; empty for the connected one.
    pub to: &'a [u8],
    /// The control messages.
    pub control: &'a [u8],
    /// The data.
    pub data: &'a [u8],
    /// `MSG_*`
    pub flags: i32,
}

/// The owner of a socket.
pub trait User: Send + Sync {
    /// Takes a datagram. Returns false if there is no room, which the socket counts (`RcvbufErrors`). The data path
    /// calls it without a lock of the socket held; it must not block.
    fn message(&self, message: &Message<'_>) -> bool;

    /// What the socket is ready for has changed: a stream has data, room, a connection to accept, an error or an
    /// end. Called without a lock of the socket held; it may call the socket's functions.
    fn wake(&self, cx: &mut Cx<'_>, ready: Ready);
}

/// The direction that [`Socket::shutdown`] closes: `SHUT_RD`, `SHUT_WR`, `SHUT_RDWR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// No more data are received.
    Read,
    /// No more data are sent.
    Write,
    /// Both.
    Both,
}

/// A socket of a program (`struct sock`).
#[derive(Debug)]
pub struct Socket {}

impl Socket {
    /// Opens a socket in a namespace (`inet_create`, `inet6_create`, `packet_create`). `kind` is `SOCK_*` without flags.
    ///
    /// # Errors
    /// EAFNOSUPPORT, EPROTONOSUPPORT, ESOCKTNOSUPPORT, EPERM as Linux has them.
    pub fn open(
        cx: &mut Cx<'_>,
        ns: &Arc<Namespace>,
        family: i32,
        kind: i32,
        protocol: i32,
        user: Arc<dyn User>,
    ) -> Result<Arc<Self>, i32> {
        let _ = (cx, ns, family, kind, protocol, user);
        Err(errno::EAFNOSUPPORT)
    }

    /// Gives the socket a local address.
    ///
    /// # Errors
    /// EINVAL, EADDRINUSE, EADDRNOTAVAIL, EACCES, EAFNOSUPPORT.
    pub fn bind(&self, cx: &mut Cx<'_>, address: &[u8]) -> Result<(), i32> {
        let _ = (cx, address);
        Err(errno::EOPNOTSUPP)
    }

    /// Sets the peer; AF_UNSPEC removes it. A stream begins its handshake.
    ///
    /// # Errors
    /// EINPROGRESS for a stream whose handshake has begun; ENETUNREACH, EISCONN, EALREADY and so on.
    pub fn connect(&self, cx: &mut Cx<'_>, address: &[u8]) -> Result<(), i32> {
        let _ = (cx, address);
        Err(errno::EOPNOTSUPP)
    }

    /// Waits for connections of a stream.
    ///
    /// # Errors
    /// EOPNOTSUPP for other sockets, EADDRINUSE.
    pub fn listen(&self, cx: &mut Cx<'_>, backlog: i32) -> Result<(), i32> {
        let _ = (cx, backlog);
        Err(errno::EOPNOTSUPP)
    }

    /// Takes a connection that waits.
    ///
    /// # Errors
    /// EAGAIN if none waits, EINVAL if the socket does not listen.
    pub fn accept(&self, cx: &mut Cx<'_>, user: Arc<dyn User>) -> Result<Arc<Self>, i32> {
        let _ = (cx, user);
        Err(errno::EOPNOTSUPP)
    }

    /// Sends a datagram. Returns the number of bytes.
    ///
    /// # Errors
    /// As `sendmsg(2)`; a pending error of the socket first.
    pub fn send(&self, cx: &mut Cx<'_>, message: &Outgoing<'_>) -> Result<usize, i32> {
        let _ = (cx, message);
        Err(errno::EOPNOTSUPP)
    }

    /// Queues data of a stream. Returns how many bytes there was room for.
    ///
    /// # Errors
    /// EAGAIN without room, EPIPE after the end, ENOTCONN, or the pending error.
    pub fn write(&self, cx: &mut Cx<'_>, data: &[u8]) -> Result<usize, i32> {
        let _ = (cx, data);
        Err(errno::EOPNOTSUPP)
    }

    /// Passes received data of a stream to `take`, in order, until there are no more or it takes less than it is
    /// offered. Returns how many bytes it took in all; 0 is the end of the stream.
    ///
    /// # Errors
    /// EAGAIN if nothing is there yet, ENOTCONN, or the pending error (ECONNRESET, ETIMEDOUT).
    pub fn read(
        &self,
        cx: &mut Cx<'_>,
        take: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<usize, i32> {
        let _ = (cx, take);
        Err(errno::EOPNOTSUPP)
    }

    /// Passes the oldest message of the error queue to `take` (`MSG_ERRQUEUE`). Returns false if the queue is empty.
    pub fn receive_error(&self, take: &mut dyn FnMut(&Message<'_>)) -> bool {
        let _ = take;
        false
    }

    /// Returns the pending error and clears it (`SO_ERROR`); 0 if there is none.
    pub fn take_error(&self) -> i32 {
        0
    }

    /// What the socket is ready for.
    pub fn ready(&self) -> Ready {
        Ready::default()
    }

    /// Returns the local address (`getsockname`).
    pub fn local_address(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Returns the peer's address.
    ///
    /// # Errors
    /// ENOTCONN.
    pub fn peer_address(&self) -> Result<Vec<u8>, i32> {
        Err(errno::ENOTCONN)
    }

    /// Sets an option.
    ///
    /// # Errors
    /// ENOPROTOOPT, EINVAL, EPERM, ENODEV and so on.
    pub fn set_option(
        &self,
        cx: &mut Cx<'_>,
        level: i32,
        name: i32,
        value: &[u8],
    ) -> Result<(), i32> {
        let _ = (cx, level, name, value);
        Err(errno::ENOPROTOOPT)
    }

    /// Returns an option's value. `room` is what the caller has, in bytes: some options depend on it.
    ///
    /// # Errors
    /// ENOPROTOOPT, EINVAL, ENOTCONN.
    pub fn option(&self, level: i32, name: i32, room: &[u8]) -> Result<Vec<u8>, i32> {
        let _ = (level, name, room);
        Err(errno::ENOPROTOOPT)
    }

    /// Closes one or both directions.
    ///
    /// # Errors
    /// ENOTCONN.
    pub fn shutdown(&self, cx: &mut Cx<'_>, how: Shutdown) -> Result<(), i32> {
        let _ = (cx, how);
        Err(errno::ENOTCONN)
    }

    /// The program has closed the socket. A stream sends what it has, or, if `reset`, resets the connection: data
    /// were unread, or `SO_LINGER` says so.
    pub fn close(&self, cx: &mut Cx<'_>, reset: bool) {
        let _ = (cx, reset);
    }
}
