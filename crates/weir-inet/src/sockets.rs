// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the protocols pass upwards to sockets of programs (`raw_local_deliver`, `udp_rcv`, `tcp_v4_rcv`, `ping_rcv`,
//! the `err_handler` of `struct net_protocol`).
//!
//! The sockets are on a higher floor, which registers its functions here. Each namespace has a set of the kinds of
//! sockets that are open in it. A namespace without sockets costs a packet one load.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use weir_packet::Packet;

use crate::cpu::Cx;
use crate::device::Device;
use crate::layers::Module;
use crate::namespace::Namespace;
use crate::parts::{Key, NamespaceParts};

/// The kinds of sockets that packets are passed to, as bits.
pub mod interest {
    /// UDP over IPv4 or IPv6.
    pub const UDP: u32 = 1;
    /// Raw sockets.
    pub const RAW: u32 = 2;
    /// Ping sockets.
    pub const PING: u32 = 4;
    /// TCP.
    pub const TCP: u32 = 8;
    /// Any socket.
    pub const ANY: u32 = UDP | RAW | PING | TCP;
}

/// A packet for the host. Its data begin with the IP header.
#[derive(Clone, Copy)]
pub struct Arrived<'a> {
    /// The device that received it.
    pub device: &'a Arc<Device>,
    /// The namespace.
    pub ns: &'a Namespace,
    /// Above IPv6.
    pub ipv6: bool,
    /// Where the header behind the IP header and its extensions begins.
    pub at: usize,
    /// It was sent to a group or to all.
    pub group: bool,
}

/// A received ICMP error about a packet of ours.
#[derive(Clone, Copy)]
pub struct Report<'a> {
    /// The device that received it.
    pub device: &'a Arc<Device>,
    /// The namespace.
    pub ns: &'a Namespace,
    /// ICMPv6.
    pub ipv6: bool,
    /// Who sent the error.
    pub from: IpAddr,
    /// The TTL or hop limit, and the TOS or traffic class, with which the error came.
    pub ttl: u8,
    /// See [`ttl`](Self::ttl).
    pub tos: u8,
    /// The type.
    pub ty: u8,
    /// The code.
    pub code: u8,
    /// ICMP: the MTU of "fragmentation needed" or the pointer of "parameter problem". ICMPv6: the second word.
    pub info: u32,
    /// The quoted packet from its IP header.
    pub quoted: &'a [u8],
    /// The protocol of the quoted packet.
    pub protocol: u8,
    /// Where that protocol's header begins in the quoted packet. At least 8 bytes of it are there.
    pub at: usize,
}

/// The functions of the sockets.
pub struct Hooks {
    /// Gives copies of a packet to the raw sockets of a protocol. Returns whether there was one.
    pub raw: fn(&mut Cx<'_>, &Arrived<'_>, u8, &Packet) -> bool,
    /// Takes a UDP datagram whose checksum is right, trimmed to its length. Returns it if no socket has the port.
    pub datagram: fn(&mut Cx<'_>, &Arrived<'_>, Packet) -> Option<Packet>,
    /// Takes a TCP segment whose checksum is right. Returns it if no socket wants it.
    pub segment: fn(&mut Cx<'_>, &Arrived<'_>, Packet) -> Option<Packet>,
    /// Gives a copy of an echo reply to its ping socket. Returns whether there was one.
    pub echo_reply: fn(&mut Cx<'_>, &Arrived<'_>, &Packet) -> bool,
    /// Tells sockets of an error. Returns whether the protocol has a socket for it.
    pub error: fn(&mut Cx<'_>, &Report<'_>) -> bool,
}

/// The sockets of a namespace, as the protocols see them.
#[derive(Default)]
pub struct Sockets {
    interest: AtomicU32,
    hooks: Option<&'static Hooks>,
}

static SOCKETS: Key<Sockets, 10> = Key::new();

/// The place of the sockets in a namespace.
pub static MODULE: Module = Module {
    namespace: Some(|parts, _| parts.fill(&SOCKETS, Sockets::default())),
    ..Module::NONE
};

/// Registers the functions of the sockets in a new namespace.
pub fn register(parts: &mut NamespaceParts, hooks: &'static Hooks) {
    parts.get_mut(&SOCKETS).hooks = Some(hooks);
}

/// Returns the sockets of a namespace.
#[inline]
pub fn sockets(ns: &Namespace) -> &Sockets {
    ns.parts.get(&SOCKETS)
}

impl Sockets {
    /// Returns the functions if there are sockets of one of the kinds.
    #[inline]
    pub fn hooks(&self, kinds: u32) -> Option<&'static Hooks> {
        match self.interest.load(Relaxed) & kinds {
            0 => None,
            _ => self.hooks,
        }
    }

    /// Says whether there are sockets of a kind.
    pub fn set_interest(&self, kind: u32, some: bool) {
        match some {
            true => self.interest.fetch_or(kind, Relaxed),
            false => self.interest.fetch_and(!kind, Relaxed),
        };
    }
}
