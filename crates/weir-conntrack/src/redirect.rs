// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The translation of single packets, without a connection: for actions that choose the other end themselves.
//!
//! Packets towards a service get another destination, and those of its answers another source. ICMP errors are
//! translated with the packet inside, in both directions, as `nf_nat_icmp_reply_translation` does for a connection.

use crate::headers::{Headers, is_error};
use crate::nat::{Manip, translate, translate_error};
use crate::status::ips;
use crate::tuple::{Direction, Family, Tuple};

/// What [`Seen`] needs of a connection's status: its destination is translated, and nothing else.
const STATUS: u32 = ips::DST_NAT | ips::NAT_DONE_MASK;

/// The ends of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    headers: Headers,
    /// The packet is an ICMP error about another one.
    is_error: bool,
    flow: Tuple,
}

impl Seen {
    /// Reads a packet that begins at its network header. `None` if it is truncated or a fragment, or an ICMP error about
    /// such a packet.
    pub fn read(packet: &[u8], family: Family) -> Option<Self> {
        let headers = Headers::read(packet, family).ok()?;
        let own = headers.tuple(packet)?;
        let is_error = own.icmp().is_some_and(|(kind, ..)| is_error(family, kind));
        let flow = if is_error {
            let inside = headers.segment(packet).get(8..)?;
            let inner = Headers::read(inside, family).ok()?;
            inner.tuple(inside)?.invert()?
        } else {
            own
        };
        Some(Self {
            headers,
            is_error,
            flow,
        })
    }

    /// Returns the ends in the direction of the packet. Those of an ICMP error are the inverse of those of the packet that
    /// it is about, so an error goes where an answer to that packet would go.
    pub fn flow(&self) -> &Tuple {
        &self.flow
    }

    /// Translates the packet that was read to another destination. Returns false if that is not possible: an ICMP redirect,
    /// or an error about a packet of which too little is there.
    pub fn send_to(&self, packet: &mut [u8], address: [u8; 16], port: u16) -> bool {
        let target = Tuple {
            dst: address,
            dst_port: port,
            ..self.flow
        };
        if !self.is_error {
            translate(packet, &self.headers, &target, Manip::Destination);
            return true;
        }
        let Some(reply) = target.invert() else {
            return false;
        };
        let tuples = [&self.flow, &reply];
        let (direction, manip) = (Direction::Original, Manip::Destination);
        translate_error(packet, &self.headers, tuples, STATUS, direction, manip).is_ok()
    }

    /// Translates the packet that was read to another source. Returns false as [`send_to`](Self::send_to) does.
    pub fn send_from(&self, packet: &mut [u8], address: [u8; 16], port: u16) -> bool {
        let target = Tuple {
            src: address,
            src_port: port,
            ..self.flow
        };
        if !self.is_error {
            translate(packet, &self.headers, &target, Manip::Source);
            return true;
        }
        let Some(original) = target.invert() else {
            return false;
        };
        let tuples = [&original, &self.flow];
        let (direction, manip) = (Direction::Reply, Manip::Source);
        translate_error(packet, &self.headers, tuples, STATUS, direction, manip).is_ok()
    }
}
