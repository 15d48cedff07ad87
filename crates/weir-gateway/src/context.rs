// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What identifies a flow, and what it works with.

use std::net::{IpAddr, SocketAddr};

use crate::counters::{Counters, add};
use crate::wire::{Outbox, Unreachable};

/// What identifies a flow. Echo requests have their identifier in place of the source's port, and 0 in place of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub protocol: u8,
    pub src: SocketAddr,
    pub dst: SocketAddr,
}

/// What flows work with.
pub(crate) struct Cx<'a> {
    pub now: u64,
    pub out: &'a mut Outbox,
    pub scratch: &'a mut [u8],
    pub counters: &'a Counters,
    /// The gateway's own addresses, from which errors come.
    pub own: [Option<IpAddr>; 2],
}

impl Cx<'_> {
    /// Answers a packet to `dst` with an ICMP error. Errors about a port come from its host, others from the gateway.
    pub(crate) fn unreachable(
        &mut self,
        dst: IpAddr,
        src: IpAddr,
        reason: Unreachable,
        whole: &[u8],
    ) {
        let own = self.own[usize::from(dst.is_ipv6())];
        let from = match reason {
            Unreachable::Port => dst,
            _ => own.unwrap_or(dst),
        };
        add(&self.counters.unreachable, 1);
        self.out.unreachable(from, src, reason, whole);
    }
}
