// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Protocols above IPv4 and IPv6 that somebody in the stack receives (`inet_add_protocol`, `inet6_add_protocol`).

use std::sync::{Arc, OnceLock};

use weir_packet::{Flags, Packet};
use weir_sync::hash::RcuHash;
use weir_sync::rcu::{Domain, Guard};

use crate::cpu::Cx;
use crate::device::Device;
use crate::layers::Module;
use crate::namespace::Namespace;
use crate::parts::Key;
use crate::sockets::Report;
use crate::udp::Outer;

/// A protocol of one address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protocol {
    /// True above IPv6, false above IPv4.
    pub ipv6: bool,
    /// `IPPROTO_*`
    pub number: u8,
}

/// Takes a packet that a device received for the host: data begin with the IP header, and the protocol's own header
/// is at the given offset. Returns a packet that it has no receiver for, which is answered with "port
/// unreachable".
pub type Receive = fn(&mut Cx<'_>, &Arc<Device>, &Outer, usize, Packet) -> Option<Packet>;

/// Takes an ICMP error about a packet of the protocol that this host sent (`err_handler`).
pub type Failed = fn(&mut Cx<'_>, &Report<'_>);

/// The protocols that are received in a namespace.
#[derive(Default)]
pub struct Protocols {
    receivers: OnceLock<RcuHash<Protocol, Receive>>,
    /// Those who are told of errors.
    errors: OnceLock<RcuHash<Protocol, Failed>>,
}

static PROTOCOLS: Key<Protocols, 8> = Key::new();

/// The protocols in the stack.
pub static MODULE: Module = Module {
    namespace: Some(|parts, _| parts.fill(&PROTOCOLS, Protocols::default())),
    ..Module::NONE
};

/// The protocols that are received in a namespace.
pub fn protocols(ns: &Namespace) -> &Protocols {
    ns.parts.get(&PROTOCOLS)
}

impl Protocols {
    /// Returns the receiver of a protocol.
    #[inline]
    pub fn receiver(&self, protocol: Protocol, guard: &Guard) -> Option<Receive> {
        self.receivers.get()?.get(&protocol, guard).copied()
    }

    /// Sets the receiver of a protocol.
    pub fn add(&self, domain: &Domain, protocol: Protocol, receive: Receive, guard: &Guard) {
        let all = self.receivers.get_or_init(|| RcuHash::new(domain));
        all.insert(protocol, receive, guard);
    }

    /// Returns who is told of errors about packets of a protocol.
    pub fn failed(&self, protocol: Protocol, guard: &Guard) -> Option<Failed> {
        self.errors.get()?.get(&protocol, guard).copied()
    }

    /// Sets who is told of errors about packets of a protocol.
    pub fn add_failed(&self, domain: &Domain, protocol: Protocol, failed: Failed, guard: &Guard) {
        let all = self.errors.get_or_init(|| RcuHash::new(domain));
        all.insert(protocol, failed, guard);
    }
}

/// Clears the metadata that belongs to the packet's path so far (`skb_scrub_packet`).
pub fn scrub(cx: &Cx<'_>, packet: &mut Packet, elsewhere: bool) {
    packet.set_tunnel(None);
    packet.set_conn(None);
    packet.set_vlan(None);
    packet.unset_transport();
    packet.flags = Flags::NONE;
    (packet.iif, packet.queue, packet.hash) = (0, 0, 0);
    packet.time = cx.now;
    if elsewhere {
        packet.mark = 0;
    }
}
