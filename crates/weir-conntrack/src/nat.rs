// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Network address translation (net/netfilter/nf_nat_core.c, nf_nat_proto.c): the choice of addresses and ports, and
//! the translation of packets and of the packets inside ICMP errors.
//!
//! The search for a free port begins at a random offset and makes at most 240 attempts, so it takes no longer in a
//! range that is nearly full. If all of them fail and the connection does not become unique otherwise, the packet is
//! dropped, and the counter `no_port` grows.

use weir_packet::checksum::Sum;
use weir_packet::jhash2;

use crate::conntrack::{Conntrack, Fresh};
use crate::headers::Headers;
use crate::range::Range;
use crate::sctp;
use crate::status::ips;
use crate::tuple::{DCCP, Direction, Family, ICMP, ICMPV6, SCTP, TCP, Tuple, UDP, UDPLITE, Zone};

/// The attempts of the first round.
const ATTEMPTS: u32 = 128;

/// What is translated (`enum nf_nat_manip_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manip {
    /// The source.
    Source,
    /// The destination.
    Destination,
}

impl Manip {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Source => Self::Destination,
            Self::Destination => Self::Source,
        }
    }

    /// The bit that says that a connection's original direction is translated so.
    pub(crate) const fn bit(self) -> u32 {
        match self {
            Self::Source => ips::SRC_NAT,
            Self::Destination => ips::DST_NAT,
        }
    }

    /// The bit that says that it has been decided.
    pub(crate) const fn done(self) -> u32 {
        match self {
            Self::Source => ips::SRC_NAT_DONE,
            Self::Destination => ips::DST_NAT_DONE,
        }
    }
}

/// The packet cannot be translated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Untranslatable;

/// Whether the part of a tuple that `manip` names is within the range (`l4proto_in_range`).
fn port_in(tuple: &Tuple, manip: Manip, (first, last): (u16, u16)) -> bool {
    let port = match (tuple.is_icmp(), tuple.protocol, manip) {
        (true, ..) => tuple.src_port,
        (_, TCP | UDP | UDPLITE | SCTP | DCCP, Manip::Source) => tuple.src_port,
        (_, TCP | UDP | UDPLITE | SCTP | DCCP, Manip::Destination) => tuple.dst_port,
        _ => return true,
    };
    (first..=last).contains(&port)
}

fn source_in(tuple: &Tuple, range: &Range) -> bool {
    let address = range.addresses.is_none_or(|(first, last)| {
        // Both families compare as big-endian numbers.
        (first..=last).contains(&tuple.src)
    });
    address && (range.ports).is_none_or(|ports| port_in(tuple, Manip::Source, ports))
}

/// Returns the part of a range of `len` that a hash falls on.
fn scale(hash: u32, len: u32) -> u32 {
    ((u64::from(hash) * u64::from(len)) >> 32) as u32
}

impl Conntrack {
    /// Whether the reply to a translated tuple is that of another connection (`nf_nat_used_tuple`).
    fn is_used(&self, tuple: &Tuple, zone: Zone) -> bool {
        let zone = zone.of(Direction::Reply);
        tuple
            .invert()
            .is_none_or(|reply| self.is_taken(&reply, zone))
    }

    /// Chooses the address (`find_best_ips_proto`).
    fn choose_address(&self, tuple: &mut Tuple, range: &Range, manip: Manip, zone: Zone) {
        let Some((first, last)) = range.addresses else {
            return;
        };
        let (src, dst) = (tuple.src, tuple.dst);
        let place = match manip {
            Manip::Source => &mut tuple.src,
            Manip::Destination => &mut tuple.dst,
        };
        if first == last {
            *place = first;
            return;
        }
        let word = |octets: &[u8; 16], at: usize| {
            let octets = octets.get(4 * at..).and_then(|rest| rest.first_chunk());
            octets.map_or(0, |octets| u32::from_be_bytes(*octets))
        };
        let words = match tuple.family {
            Family::V4 => 1,
            Family::V6 => 4,
        };
        // A client keeps its address towards a server, whichever stack translates. Linux hashes the words as a
        // little-endian processor loads them.
        let keys = [0, 1, 2, 3].map(|at| word(&src, at).swap_bytes());
        let start = word(&dst, words - 1).swap_bytes() ^ u32::from(zone.id);
        let mut hash = jhash2(&keys, start);
        let mut whole = false;
        for at in 0..words {
            let (min, len) = if whole {
                (0, u32::MAX)
            } else {
                let (min, max) = (word(&first, at), word(&last, at));
                (min, max.wrapping_sub(min).wrapping_add(1))
            };
            let chosen = min.wrapping_add(scale(hash, len));
            if let Some(to) = place.get_mut(4 * at..4 * at + 4) {
                to.copy_from_slice(&chosen.to_be_bytes());
            }
            whole |= chosen != word(&last, at);
            let after = match manip {
                Manip::Source => word(&dst, at),
                Manip::Destination => chosen,
            };
            hash ^= after.swap_bytes();
        }
    }

    /// Chooses the port (`nf_nat_l4proto_unique_tuple`). Returns false if it found none that is free.
    fn choose_port(
        &self,
        tuple: &mut Tuple,
        range: &Range,
        manip: Manip,
        zone: Zone,
        random: &mut dyn FnMut() -> u32,
    ) -> bool {
        let icmp = tuple.is_icmp();
        if !icmp && !matches!(tuple.protocol, TCP | UDP | UDPLITE | SCTP | DCCP) {
            return true;
        }
        let by_source = icmp || manip == Manip::Source;
        let port = if by_source {
            tuple.src_port
        } else {
            tuple.dst_port
        };
        let (first, last) = match range.ports {
            Some((first, last)) if icmp => (first, last.max(first)),
            Some((first, last)) => (first.min(last), first.max(last)),
            None if icmp => (0, u16::MAX),
            // The destination's port says which service it is.
            None if manip == Manip::Destination => return true,
            None => match port {
                0..512 => (1, 511),
                512..1024 => (600, 1023),
                _ => (1024, u16::MAX),
            },
        };
        let size = u32::from(last - first) + 1;
        let mut attempts = size.min(ATTEMPTS);
        loop {
            let offset = random() & 0xffff;
            for at in 0..attempts {
                let port = first + ((offset + at) % size) as u16;
                if by_source {
                    tuple.src_port = port;
                } else {
                    tuple.dst_port = port;
                }
                if !self.is_used(tuple, zone) {
                    return true;
                }
            }
            if attempts >= size || attempts < 16 {
                return false;
            }
            attempts /= 2;
        }
    }

    /// Chooses address and port (`get_unique_tuple`). Also returns whether the choice is free: another translation of
    /// the connection may still make it so.
    fn choose(
        &self,
        original: &Tuple,
        range: &Range,
        manip: Manip,
        zone: Zone,
        random: &mut dyn FnMut() -> u32,
    ) -> (Tuple, bool) {
        if manip == Manip::Source {
            if source_in(original, range) {
                if !self.is_used(original, zone) {
                    return (*original, true);
                }
            } else {
                // A source that is translated already keeps its translation.
                let mut same = None;
                self.same_source(original, zone.of(Direction::Original), |reply| {
                    let Some(mut theirs) = reply.invert() else {
                        return false;
                    };
                    (theirs.dst, theirs.dst_port) = (original.dst, original.dst_port);
                    let fits = source_in(&theirs, range);
                    same = fits.then_some(theirs);
                    fits
                });
                if let Some(same) = same
                    && !self.is_used(&same, zone)
                {
                    return (same, true);
                }
            }
        }
        let mut tuple = *original;
        self.choose_address(&mut tuple, range, manip, zone);
        let suits = match range.ports {
            Some(ports) => {
                port_in(&tuple, manip, ports) && (ports.0 == ports.1 || !self.is_used(&tuple, zone))
            }
            None => !self.is_used(&tuple, zone),
        };
        let free = suits || self.choose_port(&mut tuple, range, manip, zone, random);
        (tuple, free)
    }

    /// Decides the translation of a connection that is not in the table yet (`nf_nat_setup_info`). Without a range
    /// the address stays, and the port changes only if the connection would clash with another.
    pub(crate) fn set_up(
        &self,
        fresh: &mut Fresh,
        range: Option<&Range>,
        manip: Manip,
        random: &mut dyn FnMut() -> u32,
    ) -> Result<(), Untranslatable> {
        let current = fresh.reply.invert().ok_or(Untranslatable)?;
        let stay = {
            let address = match manip {
                Manip::Source => current.src,
                Manip::Destination => current.dst,
            };
            Range {
                addresses: Some((address, address)),
                ports: None,
            }
        };
        let range = match range {
            Some(range) if range.addresses.is_some() => range,
            _ => &stay,
        };
        let (new, free) = self.choose(&current, range, manip, fresh.zone, random);
        fresh.no_port |= !free;
        if new != current {
            fresh.reply = new.invert().ok_or(Untranslatable)?;
            fresh.status |= manip.bit();
        }
        fresh.status |= manip.done();
        Ok(())
    }
}

/// A half-word in network order.
fn load(bytes: &[u8], at: usize) -> Option<u16> {
    let octets = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*octets))
}

fn store(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(to) = bytes.get_mut(at..at + 2) {
        to.copy_from_slice(&value.to_be_bytes());
    }
}

/// What a change of a packet adds to a checksum over it: the sum of the complements of the old words and of the new
/// words. The result is that of [`replace_u32`](weir_packet::checksum::replace_u32) word by word.
#[derive(Clone, Copy)]
struct Delta(u32);

impl Delta {
    /// The change of an address. Both have the same length, a multiple of 4 bytes.
    #[inline(always)]
    fn of(old: &[u8], new: &[u8]) -> Self {
        let words = |octets: &[u8]| {
            let (words, _) = octets.as_chunks::<4>();
            words
                .iter()
                .map(|word| u32::from_be_bytes(*word))
                .map(|word| (word >> 16) + (word & 0xffff))
                .sum::<u32>()
        };
        Self(old.len() as u32 / 2 * 0xffff - words(old) + words(new))
    }

    /// Adds the change of another half-word.
    fn and(self, old: u16, new: u16) -> Self {
        Self(self.0 + u32::from(!old) + u32::from(new))
    }

    /// Returns the checksum after the change. It is never 0xffff.
    #[inline(always)]
    fn apply(self, check: u16) -> u16 {
        let mut sum = 0xffff + u32::from(!check) + self.0;
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        !(sum as u16)
    }
}

/// Translates the source or the destination of the packet that begins at its network header: to the source or the
/// destination of `target` (`nf_nat_ipv4_manip_pkt`, `nf_nat_ipv6_manip_pkt`). The packet may be the truncated one
/// inside an ICMP error.
pub(crate) fn translate(packet: &mut [u8], headers: &Headers, target: &Tuple, manip: Manip) {
    let (old, new) = match manip {
        Manip::Source => (headers.src, target.src),
        Manip::Destination => (headers.dst, target.dst),
    };
    let width = match headers.family {
        Family::V4 => 4,
        Family::V6 => 16,
    };
    let new = new.get(..width).unwrap_or_default();
    let delta = Delta::of(old.get(..width).unwrap_or_default(), new);
    if let Some(segment) = packet.get_mut(headers.transport..headers.len) {
        transport(segment, headers, target, manip, delta);
    }
    let at = match (headers.family, manip) {
        (Family::V4, Manip::Source) => 12,
        (Family::V4, Manip::Destination) => 16,
        (Family::V6, Manip::Source) => 8,
        (Family::V6, Manip::Destination) => 24,
    };
    if headers.family == Family::V4
        && let Some(check) = load(packet, 10)
    {
        store(packet, 10, delta.apply(check));
    }
    if let Some(to) = packet.get_mut(at..at + width) {
        to.copy_from_slice(new);
    }
}

/// Translates the transport header (`l4proto_manip_pkt`).
fn transport(segment: &mut [u8], headers: &Headers, target: &Tuple, manip: Manip, delta: Delta) {
    let (at, port) = match manip {
        Manip::Source => (0, target.src_port),
        Manip::Destination => (2, target.dst_port),
    };
    match (headers.protocol, headers.family) {
        (protocol @ (TCP | UDP | UDPLITE | DCCP), _) => {
            let Some(old) = load(segment, at) else {
                return;
            };
            store(segment, at, port);
            // Inside an ICMP error, the checksum of TCP or DCCP may be missing.
            let (place, least, unused_zero) = match protocol {
                TCP => (16, 20, false),
                DCCP => (6, 12, false),
                _ => (6, 8, true),
            };
            match load(segment, place) {
                Some(0) if protocol == UDP => {}
                Some(check) if segment.len() >= least => {
                    let check = delta.and(old, port).apply(check);
                    let zero = check == 0 && unused_zero;
                    store(segment, place, if zero { 0xffff } else { check });
                }
                _ => {}
            }
        }
        (SCTP, _) => {
            store(segment, at, port);
            // Its checksum covers no address.
            sctp::fill_checksum(segment);
        }
        (ICMP, Family::V4) => {
            let query = matches!(segment.first(), Some(0 | 8 | 13..=18));
            if let (true, Some(old), Some(check)) = (query, load(segment, 4), load(segment, 2)) {
                let id = target.src_port;
                store(segment, 2, Delta(0).and(old, id).apply(check));
                store(segment, 4, id);
            }
        }
        (ICMPV6, Family::V6) => {
            let Some(check) = load(segment, 2) else {
                return;
            };
            let mut delta = delta;
            if let (Some(128 | 129), Some(old)) = (segment.first(), load(segment, 4)) {
                let id = target.src_port;
                delta = delta.and(old, id);
                store(segment, 4, id);
            }
            store(segment, 2, delta.apply(check));
        }
        _ => {}
    }
}

/// Translates an ICMP error and the packet inside (`nf_nat_icmp_reply_translation`,
/// `nf_nat_icmpv6_reply_translation`). `tuples` are those of the connection.
pub(crate) fn translate_error(
    packet: &mut [u8],
    headers: &Headers,
    tuples: [&Tuple; 2],
    status: u32,
    direction: Direction,
    manip: Manip,
) -> Result<(), Untranslatable> {
    let redirect = match headers.family {
        Family::V4 => 5,
        Family::V6 => 137,
    };
    let message = packet
        .get_mut(headers.transport..headers.len)
        .ok_or(Untranslatable)?;
    let &mut [kind, ..] = message.first_chunk_mut::<8>().ok_or(Untranslatable)?;
    if kind == redirect
        && (status & ips::NAT_DONE_MASK != ips::NAT_DONE_MASK || status & ips::NAT_MASK != 0)
    {
        // The hosts would begin to talk to each other without the translation.
        return Err(Untranslatable);
    }
    let mut bit = manip.bit();
    if direction == Direction::Reply {
        bit ^= ips::NAT_MASK;
    }
    if status & bit == 0 {
        return Ok(());
    }
    let reverse = tuples[direction.other() as usize];
    let inside = message.get_mut(8..).unwrap_or_default();
    let inner = Headers::read(inside, headers.family).map_err(|_| Untranslatable)?;
    let ported = matches!(inner.protocol, TCP | UDP | UDPLITE | SCTP | DCCP);
    if ported && inner.segment(inside).len() < 8 {
        return Err(Untranslatable);
    }
    translate(inside, &inner, reverse, manip.other());
    if headers.family == Family::V4 {
        store(message, 2, 0);
        let check = Sum::new().add(message).finish();
        store(message, 2, check);
    }
    let target = reverse.invert().ok_or(Untranslatable)?;
    translate(packet, headers, &target, manip);
    if headers.family == Family::V6 {
        let message = packet
            .get_mut(headers.transport..headers.len)
            .ok_or(Untranslatable)?;
        let (mut src, mut dst) = (headers.src, headers.dst);
        match manip {
            Manip::Source => src = target.src,
            Manip::Destination => dst = target.dst,
        }
        store(message, 2, 0);
        let mut sum = Sum::new();
        sum.add_pseudo_v6(src, dst, ICMPV6, message.len() as u32);
        let check = sum.add(message).finish();
        store(message, 2, check);
    }
    Ok(())
}
