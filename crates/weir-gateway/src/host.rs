// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets of the host.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol, SocketFlags, SocketType, connect, ipproto, socket_with,
};

use crate::config::Outside;
use crate::wire::{TCP, UDP, Unreachable};

fn open(to: SocketAddr, kind: SocketType, protocol: Option<Protocol>) -> Result<OwnedFd, Errno> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    socket_with(
        family,
        kind,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        protocol,
    )
}

/// Opens a socket of the host, or of the model in its place, to `to`. Returns it, and whether it is connected already.
pub(crate) fn connected(
    outside: Option<Outside>,
    protocol: u8,
    to: SocketAddr,
) -> Result<(OwnedFd, bool), Errno> {
    match (outside, protocol) {
        (Some(outside), _) => (outside.open)(protocol, to),
        (None, TCP) => tcp(to),
        (None, UDP) => Ok((udp(to)?, true)),
        (None, _) => Ok((ping(to)?, true)),
    }
}

/// Begins to connect to `to`. Returns the socket, and whether it is connected.
fn tcp(to: SocketAddr) -> Result<(OwnedFd, bool), Errno> {
    let socket = open(to, SocketType::STREAM, None)?;
    // Bytes leave as they come: the namespace's own sockets hold small segments back if they want to.
    let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
    let _ = rustix::net::sockopt::set_socket_keepalive(&socket, true);
    match connect(&socket, &to) {
        Ok(()) => Ok((socket, true)),
        Err(Errno::INPROGRESS) => Ok((socket, false)),
        Err(error) => Err(error),
    }
}

/// A UDP socket that is connected to `to`.
fn udp(to: SocketAddr) -> Result<OwnedFd, Errno> {
    let socket = open(to, SocketType::DGRAM, None)?;
    connect(&socket, &to)?;
    Ok(socket)
}

/// An ICMP datagram socket (`ping_sk`) that is connected to `to`; EACCES where `net.ipv4.ping_group_range` does not contain
/// the group.
fn ping(to: SocketAddr) -> Result<OwnedFd, Errno> {
    let protocol = match to {
        SocketAddr::V4(_) => ipproto::ICMP,
        SocketAddr::V6(_) => ipproto::ICMPV6,
    };
    let socket = open(to, SocketType::DGRAM, Some(protocol))?;
    connect(&socket, &to)?;
    Ok(socket)
}

/// Returns whether the process may open ICMP datagram sockets.
pub(crate) fn may_ping(any: SocketAddr) -> bool {
    let protocol = match any {
        SocketAddr::V4(_) => ipproto::ICMP,
        SocketAddr::V6(_) => ipproto::ICMPV6,
    };
    open(any, SocketType::DGRAM, Some(protocol)).is_ok()
}

/// The answer to a packet whose socket failed with this error. `None` for one that is dropped: the sender tries again.
pub(crate) fn reason(error: Errno) -> Option<Unreachable> {
    match error {
        Errno::CONNREFUSED => Some(Unreachable::Port),
        Errno::NETUNREACH | Errno::AFNOSUPPORT | Errno::NETDOWN => Some(Unreachable::Net),
        Errno::HOSTUNREACH | Errno::TIMEDOUT | Errno::HOSTDOWN => Some(Unreachable::Host),
        Errno::ACCESS | Errno::PERM => Some(Unreachable::Prohibited),
        Errno::ADDRNOTAVAIL | Errno::INVAL => Some(Unreachable::Host),
        _ => None,
    }
}
