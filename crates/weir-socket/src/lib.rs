// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets of programs: UDP, TCP, ping, raw and packet sockets of a namespace.
//!
//! A [`Socket`] speaks Linux's binary interface: addresses are the bytes of a `sockaddr`, options and control
//! messages those that `setsockopt` and `sendmsg` take on a 64-bit machine, errors are positive errnos. It has no
//! descriptor and never blocks. What arrives goes to its [`User`], which an embedding program or the server of
//! intercepted programs implements.
//!
//! | module | contents |
//! |---|---|
//! | `socket` | the state that all kinds have, and the choice of the kind's functions |
//! | `udp`, `ping`, `raw`, `packet`, `tcp` | the kinds |
//! | `address`, `control`, `options` | Linux's bytes: `sockaddr`, control messages, options |
//! | `ports`, `bind`, `connect` | who has which address and port, and who gets a packet |
//! | `mroute` | multicast routing daemons |
//! | `outgoing`, `receive`, `error`, `group` | the way out, the way in, ICMP errors and the error queue, multicast |
//!
//! The protocols call the functions that [`MODULE`] registers in each namespace ([`weir_inet::sockets`]).
//!
//! An owner calls [`Socket::close`] when its program has closed the socket: the namespace holds open sockets.
#![deny(unsafe_code)]

mod abi;
pub mod address;
mod bind;
mod connect;
mod control;
mod error;
mod group;
mod listed;
mod mroute;
mod options;
mod outgoing;
mod packet;
mod ping;
mod ports;
mod raw;
mod receive;
mod ring;
pub mod shown;
mod socket;
mod tcp;
mod udp;

use std::sync::Arc;

use weir_core::layers::{Event, Hears, Module};
use weir_inet::sockets::{self, Arrived, Hooks, Report};
use weir_netlink::errno;
use weir_packet::Packet;
use weir_packet::header::icmp::ICMP_REDIRECT;
use weir_packet::header::ndisc::NDISC_REDIRECT;

pub use listed::listed;
pub use socket::Socket;
pub use tcp::metrics::{Entry as MetricsEntry, Metrics};

pub(crate) use weir_core::{cpu, device, namespace, parts};

use cpu::Cx;
use namespace::Namespace;

static HOOKS: Hooks = Hooks {
    raw: raw::receive,
    datagram,
    segment,
    echo_reply: ping::reply,
    error,
};

/// Sockets in the stack (`inet_init`, `packet_init`).
pub static MODULE: Module = Module {
    namespace: Some(|parts, new| {
        sockets::register(parts, &HOOKS);
        ports::fill(parts, new.domain, new.seed);
    }),
    device_event: Some(Hears::of(
        &[Event::Up, Event::Down, Event::Gone],
        packet::device_event,
    )),
    ..Module::NONE
};

fn datagram(cx: &mut Cx<'_>, arrived: &Arrived<'_>, packet: Packet) -> Option<Packet> {
    udp::receive(cx, arrived, packet)
}

fn segment(cx: &mut Cx<'_>, arrived: &Arrived<'_>, packet: Packet) -> Option<Packet> {
    tcp::receive(cx, arrived, packet)
}

/// Passes an ICMP error to raw sockets and to the sockets of its protocol (`icmp_socket_deliver`).
fn error(cx: &mut Cx<'_>, report: &Report<'_>) -> bool {
    let raw = raw::report(cx, report);
    let redirect = if report.ipv6 {
        NDISC_REDIRECT
    } else {
        ICMP_REDIRECT
    };
    if raw && report.ty == redirect {
        return true;
    }
    match i32::from(report.protocol) {
        abi::IPPROTO_UDP => udp::report(cx, report),
        abi::IPPROTO_TCP => tcp::report(cx, report),
        abi::IPPROTO_ICMP if !report.ipv6 => ping::report(cx, report),
        abi::IPPROTO_ICMPV6 if report.ipv6 => ping::report(cx, report),
        _ => false,
    }
}

/// Returns the open sockets of a namespace in the order in which they were opened.
pub fn all(ns: &Namespace) -> Vec<Arc<Socket>> {
    ports::tables_made(ns).map_or_else(Vec::new, ports::Tables::all)
}

/// Returns what a namespace's TCP connections have learned about their peers.
pub fn metrics(ns: &Namespace) -> &Metrics {
    ports::tables(ns).tcp_connections.metrics()
}

/// Checks a value of `net.ipv4.tcp_*` that is no list of numbers.
///
/// # Errors
/// ENOENT for an unknown congestion control, EINVAL for a malformed key.
pub fn check_setting(path: &str, text: &str) -> Result<(), i32> {
    match path {
        "ipv4/tcp_congestion_control" if weir_tcp::Algorithm::of(text.trim()).is_none() => {
            Err(errno::ENOENT)
        }
        "ipv4/tcp_fastopen_key" if weir_tcp::fast_open::Keys::parse(text).is_none() => {
            Err(errno::EINVAL)
        }
        _ => Ok(()),
    }
}

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
    /// When it was received, in ns since 1970 as programs see it.
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

    /// Returns the bytes that wait for the program, and those that wait to be sent, which `/proc/net` and `ss` show.
    /// Called with no lock held.
    fn queued(&self) -> (usize, usize) {
        (0, 0)
    }

    /// Makes memory of this length in bytes that the program can map (`PACKET_RX_RING`), all zero; 0 takes it away.
    /// `None` if there is no memory, or if programs cannot map any.
    fn memory(&self, length: usize) -> Option<std::sync::Arc<dyn Memory>> {
        let _ = length;
        None
    }

    /// A frame was put into the memory. Called with a lock of the socket held.
    fn arrived(&self) {}
}

/// Memory that a program has mapped. Positions are below its length.
pub trait Memory: Send + Sync {
    /// Returns the byte at a position.
    fn byte(&self, at: usize) -> u8;

    /// Writes bytes. What was written before is visible to a program that sees them.
    fn write(&self, at: usize, bytes: &[u8]);
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
