// SPDX-License-Identifier: Apache-2.0 OR MIT
//! UDP ports that somebody in the stack listens on (`struct udp_sock` with `encap_rcv`).

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use weir_netlink::{Error, errno};
use weir_packet::Packet;
use weir_sync::hash::RcuHash;
use weir_sync::rcu::{Domain, Guard};

use crate::cpu::Cx;
use crate::device::Device;
use crate::layers::Module;
use crate::namespace::Namespace;
use crate::parts::Key;

/// A UDP port of one address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    /// True for IPv6, false for IPv4.
    pub ipv6: bool,
    /// The port number.
    pub port: u16,
}

/// The fields of the outer header.
#[derive(Debug, Clone, Copy)]
pub struct Outer {
    /// The source address.
    pub src: IpAddr,
    /// The destination address.
    pub dst: IpAddr,
    /// The type of service or traffic class.
    pub tos: u8,
    /// The time to live or hop limit.
    pub ttl: u8,
}

/// A datagram for a socket: whose UDP header begins at `at`, its checksum verified.
pub struct Datagram<'a> {
    /// The port it is for.
    pub port: Port,
    /// That port's socket.
    pub socket: Socket,
    /// The outer header.
    pub outer: &'a Outer,
    /// Where the UDP header begins.
    pub at: usize,
}

/// Takes a datagram that a device received.
pub type Receive = fn(&mut Cx<'_>, &Arc<Device>, &Datagram<'_>, Packet);

/// A port that is listened on.
#[derive(Clone, Copy)]
pub struct Socket {
    /// Who listens.
    pub receive: Receive,
    /// UDP checksums over IPv6 may be missing.
    pub zero_csum6: bool,
    /// The listener's own (`sk_user_data`).
    pub data: u32,
}

/// The ports of a namespace that are listened on.
#[derive(Default)]
pub struct Ports(OnceLock<RcuHash<Port, Socket>>);

static PORTS: Key<Ports, 5> = Key::new();

/// UDP in the stack.
pub static MODULE: Module = Module {
    namespace: Some(|parts, _| parts.fill(&PORTS, Ports::default())),
    ..Module::NONE
};

/// The UDP ports of a namespace.
pub fn ports(ns: &Namespace) -> &Ports {
    ns.parts.get(&PORTS)
}

impl Ports {
    /// The socket of a port.
    #[inline]
    pub fn socket(&self, port: Port, guard: &Guard) -> Option<Socket> {
        self.0.get()?.get(&port, guard).copied()
    }

    /// Listens on a port.
    ///
    /// # Errors
    /// EADDRINUSE if somebody in the stack listens there already.
    pub fn listen(
        &self,
        domain: &Domain,
        port: Port,
        socket: Socket,
        guard: &Guard,
    ) -> Result<(), Error> {
        let sockets = self.0.get_or_init(|| RcuHash::new(domain));
        match sockets.insert_if_absent(port, socket, guard) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::new(errno::EADDRINUSE)),
        }
    }

    /// Listens on a port no more.
    pub fn close(&self, port: Port, guard: &Guard) {
        if let Some(sockets) = self.0.get() {
            sockets.remove(&port, guard);
        }
    }
}
