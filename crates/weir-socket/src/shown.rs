// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `/proc/net` and `NETLINK_SOCK_DIAG` show of a socket (`struct inet_diag_msg`, `get_tcp4_sock`).

use std::net::{IpAddr, Ipv6Addr};

use crate::address::mapped;
use crate::packet;
use crate::socket::{Proto, Socket};
use crate::tcp::Tcp;

/// The kind of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// UDP.
    Udp,
    /// A ping socket.
    Ping,
    /// A raw socket.
    Raw,
    /// TCP.
    Tcp,
    /// A packet socket.
    Packet,
}

/// States (`TCP_*`) that datagram sockets have, too.
pub mod state {
    /// `TCP_ESTABLISHED`
    pub const ESTABLISHED: u8 = 1;
    /// `TCP_CLOSE`
    pub const CLOSE: u8 = 7;
    /// `TCP_LISTEN`
    pub const LISTEN: u8 = 10;
}

/// What is shown of a socket.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The kind.
    pub kind: Kind,
    /// `AF_*`
    pub family: i32,
    /// `SOCK_*`
    pub ty: i32,
    /// `IPPROTO_*`, or the EtherType of a packet socket.
    pub protocol: i32,
    /// `TCP_*`
    pub state: u8,
    /// The local address and port. IPv4-mapped addresses of IPv6 sockets are IPv6.
    pub local: (IpAddr, u16),
    /// The peer.
    pub remote: (IpAddr, u16),
    /// The index of the device that the socket is bound to; of a packet socket, -1 if it is gone.
    pub device: i32,
    /// The bytes that wait for the program, and those that wait to be sent. Of a listening socket, the connections
    /// that wait, and how many may.
    pub queued: (u32, u32),
    /// Which timer runs (`tr`), in how many ms it expires, and how often it has.
    pub timer: (u8, u32, u8),
    /// User id, inode and cookie.
    pub uid: u32,
    /// The inode of the program's descriptor.
    pub inode: u64,
    /// `SO_COOKIE`
    pub cookie: u64,
    /// Lost datagrams.
    pub drops: u32,
    /// `SO_MARK`
    pub mark: u32,
    /// `IP_TOS`
    pub tos: u8,
    /// `IPV6_TCLASS`
    pub tclass: u8,
    /// `IPV6_V6ONLY`
    pub v6only: bool,
    /// `SO_RCVBUF` and `SO_SNDBUF`.
    pub buffers: (u32, u32),
    /// `RCV_SHUTDOWN` and `SEND_SHUTDOWN`.
    pub shutdown: u8,
    /// A packet socket sees frames.
    pub running: bool,
    /// `struct tcp_info`, and the name of the congestion control.
    pub tcp: Option<(Vec<u8>, String)>,
    /// `struct tcp_bbr_info`
    pub congestion_info: Option<[u8; 20]>,
}

/// Completes what is shown of a socket. TCP has more to tell than the common state.
pub trait Describe {
    /// Fills in the kind's own fields, at the time `now` (ns).
    fn describe(&self, socket: &Socket, now: u64, shown: &mut Shown);
}

impl Describe for packet::Packet {
    fn describe(&self, _: &Socket, _: u64, shown: &mut Shown) {
        let (device, protocol, running) = self.shown();
        (shown.device, shown.protocol, shown.running) = (device, protocol.into(), running);
    }
}

impl Describe for Tcp {
    fn describe(&self, socket: &Socket, now: u64, shown: &mut Shown) {
        let figures = self.figures(socket, now);
        shown.state = figures.state;
        shown.timer = figures.timer;
        shown.buffers = figures.buffers;
        shown.shutdown = figures.shutdown;
        // The owner's buffers are part of the socket's.
        let listening = figures.state == state::LISTEN;
        let (received, sent) = if listening { (0, 0) } else { shown.queued };
        shown.queued = (
            received.saturating_add(figures.queued.0),
            sent.saturating_add(figures.queued.1),
        );
        shown.tcp = Some((figures.info, figures.congestion.to_owned()));
        shown.congestion_info = figures.congestion_info;
    }
}

impl Socket {
    /// Returns as which kind the socket is shown.
    pub fn shown_as(&self) -> Kind {
        match &self.proto {
            Proto::Udp => Kind::Udp,
            Proto::Ping => Kind::Ping,
            Proto::Raw => Kind::Raw,
            Proto::Packet(_) => Kind::Packet,
            Proto::Tcp(_) => Kind::Tcp,
        }
    }

    /// Returns what is shown of the socket at the time `now`, in ns of the stack's clock.
    pub fn shown(&self, now: u64) -> Shown {
        let (received, sent) = self.user().queued();
        let (inode, uid) = self.identity();
        let count = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let ipv6 = self.is_v6();
        let as_family = |ip: IpAddr| match ip {
            IpAddr::V4(_) if ipv6 => mapped(ip).into(),
            ip => ip,
        };
        let none = match ipv6 {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => IpAddr::from([0; 4]),
        };
        let mut shown = {
            let state = self.state();
            let peer = state.peer;
            Shown {
                kind: self.shown_as(),
                family: self.family(),
                ty: self.kind(),
                protocol: self.protocol(),
                state: match peer {
                    Some(_) => state::ESTABLISHED,
                    None => state::CLOSE,
                },
                local: (as_family(state.local.ip), state.local.port),
                remote: peer.map_or((none, 0), |peer| (as_family(peer.ip), peer.port)),
                device: state.device as i32,
                queued: (count(received), count(sent)),
                timer: (0, 0, 0),
                uid,
                inode,
                cookie: self.cookie(),
                drops: state.drops,
                mark: state.options.mark,
                tos: state.options.tos,
                tclass: state.options.tclass,
                v6only: state.options.v6only,
                buffers: (state.options.rcvbuf, state.options.sndbuf),
                shutdown: u8::from(state.shut.0) | u8::from(state.shut.1) << 1,
                running: false,
                tcp: None,
                congestion_info: None,
            }
        };
        match &self.proto {
            Proto::Packet(packet) => packet.describe(self, now, &mut shown),
            Proto::Tcp(tcp) => tcp.describe(self, now, &mut shown),
            _ => {}
        }
        shown
    }
}
