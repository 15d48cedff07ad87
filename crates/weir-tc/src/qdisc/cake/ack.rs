// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ACK filter: finds a waiting acknowledgement that a later one makes redundant.
//!
//! Mirrors `cake_ack_filter` and its helpers (net/sched/sch_cake.c).

use std::collections::VecDeque;

use weir_packet::Packet;

use super::tin::Waiting;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const ECE_CWR: u8 = 0xc0;
/// The flags that must be clear except for ACK. ECE and CWR are compared separately.
const PLAIN: u8 = 0x3f;

const END: u8 = 0;
const NOP: u8 = 1;
const SACK: u8 = 5;
const TIMESTAMP: u8 = 8;
const MD5SIG: u8 = 19;

/// A TCP segment in IPv4, IPv6, or IPv6 in IPv4.
struct Segment<'a> {
    addresses: &'a [u8],
    tcp: &'a [u8],
    /// Bytes after the IP header, according to that header.
    payload: i64,
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    match bytes.get(at..at + 4) {
        Some(&[a, b, c, d]) => u32::from_be_bytes([a, b, c, d]),
        _ => 0,
    }
}

/// Returns whether sequence number `a` is after `b`.
fn after(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) < 0
}

/// Finds the TCP segment of a packet (`cake_get_iphdr`, `cake_get_tcphdr`).
fn segment(packet: &Packet) -> Option<Segment<'_>> {
    const TCP: u8 = 6;
    const IPV6: u8 = 41;
    let ip = packet.network();
    let first = *ip.first()?;
    let (ip, v4) = match first >> 4 {
        4 => {
            let header = usize::from(first & 0xf) * 4;
            match *ip.get(9)? {
                TCP => (ip, Some(header)),
                IPV6 => (ip.get(header..)?, None),
                _ => return None,
            }
        }
        6 => (ip, None),
        _ => return None,
    };
    let (addresses, rest, payload) = match v4 {
        Some(header) => {
            let total = i64::from(be16(ip, 2)?);
            (ip.get(12..20)?, ip.get(header..)?, total - header as i64)
        }
        None if *ip.get(6)? == TCP => (ip.get(8..40)?, ip.get(40..)?, i64::from(be16(ip, 4)?)),
        None => return None,
    };
    let len = usize::from(*rest.get(12)? >> 4) * 4;
    if len < 20 {
        return None;
    }
    Some(Segment {
        addresses,
        tcp: rest.get(..len)?,
        payload,
    })
}

/// An iterator over TCP options: kind and contents. It ends at the first malformed option.
struct Options<'a>(&'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match *self.0 {
                [] | [END, ..] => return None,
                [NOP, ref rest @ ..] => self.0 = rest,
                [kind, len, ..] => {
                    let option = self.0.get(2..usize::from(len))?;
                    self.0 = self.0.get(usize::from(len)..)?;
                    return Some((kind, option));
                }
                [_] => return None,
            }
        }
    }
}

impl<'a> Segment<'a> {
    fn options(&self) -> Options<'a> {
        Options(&self.tcp[20..])
    }

    fn option(&self, wanted: u8) -> Option<&'a [u8]> {
        let found = self.options().find(|(kind, _)| *kind == wanted);
        found.map(|(_, option)| option)
    }

    fn flags(&self) -> u8 {
        self.tcp[13]
    }

    fn ack_seq(&self) -> u32 {
        be32(self.tcp, 8)
    }

    /// Returns the timestamp option, zeros if there is none (`cake_tcph_get_tstamp`).
    fn timestamps(&self) -> (u32, u32) {
        match self.option(TIMESTAMP) {
            Some(times) if times.len() == 8 => (be32(times, 0), be32(times, 4)),
            _ => (0, 0),
        }
    }

    /// Returns whether the segment is a pure acknowledgement with timestamps not after `new`
    /// (`cake_tcph_may_drop`).
    fn may_drop(&self, new: (u32, u32)) -> bool {
        if self.tcp[12] & 0x0f != 0 || self.flags() & PLAIN != ACK {
            return false;
        }
        self.options().all(|(kind, option)| match kind {
            MD5SIG => true,
            SACK => option.len() % 8 == 0,
            TIMESTAMP if option.len() == 8 => {
                !after(be32(option, 0), new.0) && !after(be32(option, 4), new.1)
            }
            _ => false,
        })
    }

    /// Returns the selectively acknowledged ranges.
    fn sacks(&self) -> Vec<(u32, u32)> {
        let option = self.option(SACK).unwrap_or_default();
        let ranges = option.chunks_exact(8);
        ranges
            .map(|range| (be32(range, 0), be32(range, 4)))
            .collect()
    }
}

/// Compares the selective acknowledgements of `a` with those of `b` (`cake_tcph_sack_compare`).
/// Returns less than 0 if `a` acknowledges something that `b` does not, 0 if both acknowledge the
/// same, and more than 0 if `a` acknowledges less.
fn compare_sacks(a: &Segment<'_>, b: &Segment<'_>) -> i32 {
    let (in_a, in_b) = (a.sacks(), b.sacks());
    match (in_a.is_empty(), in_b.is_empty()) {
        (true, true) => return 0,
        (true, false) => return 1,
        (false, true) => return -1,
        (false, false) => {}
    }
    for (start, end) in &in_a {
        // The range reports a duplicate; such an acknowledgement is never dropped.
        let duplicate = after(a.ack_seq(), *start);
        let covers = |other: &(u32, u32)| !after(other.0, *start) && !after(*end, other.1);
        if duplicate || !in_b.iter().any(covers) {
            return -1;
        }
    }
    let octets = |ranges: &[(u32, u32)]| {
        let lens = ranges.iter().map(|(start, end)| end.wrapping_sub(*start));
        lens.fold(0, u32::wrapping_add)
    };
    i32::from(octets(&in_b) > octets(&in_a))
}

/// Returns the index of an acknowledgement in a flow's queue that the last packet makes redundant.
/// There must be two such acknowledgements. In `aggressive` mode one is enough if it directly
/// precedes the last packet and has the same ECN flags.
pub fn redundant(queue: &VecDeque<Waiting>, aggressive: bool) -> Option<usize> {
    if queue.len() < 2 {
        return None;
    }
    let last = queue.len() - 1;
    let new = segment(&queue.get(last)?.packet)?;
    if new.flags() & (ACK | SYN) != ACK {
        return None;
    }
    let times = new.timestamps();
    let (mut found, mut count): (Option<(usize, u8)>, i32) = (None, 0);
    for (at, waiting) in queue.iter().enumerate().take(last) {
        let Some(old) = segment(&waiting.packet) else {
            continue;
        };
        if old.tcp[..4] != new.tcp[..4] || old.addresses != new.addresses {
            continue;
        }
        let echo = old.flags() & ECE_CWR;
        if found.is_some_and(|(_, flags)| flags != echo) {
            // Its ECN signal differs and is not repeated by this segment.
            found = None;
            count -= 1;
        }
        if !old.may_drop(times)
            || old.payload != old.tcp.len() as i64
            || after(old.ack_seq(), new.ack_seq())
        {
            continue;
        }
        let sacks = compare_sacks(&old, &new);
        if sacks < 0 || (sacks == 0 && old.ack_seq() == new.ack_seq()) {
            continue;
        }
        let (first, _) = *found.get_or_insert((at, echo));
        count += 1;
        if count > 1 {
            return Some(first);
        }
    }
    let (at, echo) = found?;
    let next = at + 1 == last && echo == new.flags() & ECE_CWR;
    (aggressive && next).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Stack, ipv4};

    /// Makes a segment with flags, acknowledgement number, options and `data` payload bytes.
    fn tcp(stack: &Stack, (flags, ack): (u8, u32), options: &[u8], data: usize) -> Waiting {
        let mut frame = ipv4(6, [10, 0, 0, 1], [10, 0, 0, 2], 5, 6);
        frame.truncate(34 + 8);
        frame.extend(ack.to_be_bytes());
        frame.extend([((20 + options.len()) * 4) as u8, flags]);
        frame.extend([0; 6]);
        frame.extend(options);
        frame.extend(vec![0; data]);
        let total = (frame.len() - 14) as u16;
        frame[16..18].copy_from_slice(&total.to_be_bytes());
        Waiting {
            packet: stack.packet(&frame),
            arrived: 0,
            adjusted: 0,
        }
    }

    fn sack(ranges: &[(u32, u32)]) -> Vec<u8> {
        let mut option = vec![NOP, NOP, SACK, 2 + 8 * ranges.len() as u8];
        for (start, end) in ranges {
            option.extend(start.to_be_bytes());
            option.extend(end.to_be_bytes());
        }
        option
    }

    fn times(value: u32) -> Vec<u8> {
        let mut option = vec![NOP, NOP, TIMESTAMP, 10];
        option.extend(value.to_be_bytes());
        option.extend(value.to_be_bytes());
        option
    }

    /// Segments: flags, acknowledgement number, options and payload bytes.
    type Segments<'a> = &'a [(u8, u32, &'a [u8], usize)];

    fn check(segments: Segments<'_>, gentle: Option<usize>, aggressive: Option<usize>) {
        let stack = Stack::default();
        let make = |(flags, ack, options, data): &(u8, u32, &[u8], usize)| {
            tcp(&stack, (*flags, *ack), options, *data)
        };
        let queue: VecDeque<Waiting> = segments.iter().map(make).collect();
        assert_eq!(redundant(&queue, false), gentle);
        assert_eq!(redundant(&queue, true), aggressive);
    }

    #[test]
    fn only_redundant_acknowledgements_are_dropped() {
        let plain: &[u8] = &[];
        check(&[(ACK, 1, plain, 0)], None, None);
        check(&[(ACK, 1, plain, 0), (ACK, 2, plain, 0)], None, Some(0));
        let three = [(ACK, 1, plain, 0), (ACK, 2, plain, 0), (ACK, 3, plain, 0)];
        check(&three, Some(0), Some(0));
        // Duplicates are a signal and stay, and so do data, other flags and later acknowledgements.
        check(&[(ACK, 2, plain, 0), (ACK, 2, plain, 0)], None, None);
        check(&[(ACK, 1, plain, 9), (ACK, 2, plain, 0)], None, None);
        check(&[(ACK | 1, 1, plain, 0), (ACK, 2, plain, 0)], None, None);
        check(&[(ACK, 3, plain, 0), (ACK, 2, plain, 0)], None, None);
        check(
            &[(ACK, u32::MAX, plain, 0), (ACK, 2, plain, 0)],
            None,
            Some(0),
        );
        check(&[(ACK, 1, plain, 0), (ACK | SYN, 2, plain, 0)], None, None);
        // A packet with data acknowledges as well.
        check(&[(ACK, 1, plain, 0), (ACK | 8, 2, plain, 9)], None, Some(0));
    }

    #[test]
    fn ecn_signals_are_kept() {
        let plain: &[u8] = &[];
        let echo = ACK | 0x40;
        check(&[(echo, 1, plain, 0), (ACK, 2, plain, 0)], None, None);
        let changed = [(echo, 1, plain, 0), (ACK, 2, plain, 0), (ACK, 3, plain, 0)];
        check(&changed, None, Some(1));
        let kept = [(ACK, 1, plain, 0), (ACK, 2, plain, 0), (echo, 3, plain, 0)];
        check(&kept, Some(0), Some(0));
    }

    #[test]
    fn options_are_compared() {
        let (one, more) = (sack(&[(10, 20)]), sack(&[(10, 30)]));
        check(&[(ACK, 5, &one, 0), (ACK, 5, &more, 0)], None, Some(0));
        check(&[(ACK, 5, &more, 0), (ACK, 5, &one, 0)], None, None);
        check(&[(ACK, 5, &one, 0), (ACK, 6, &[], 0)], None, None);
        check(&[(ACK, 5, &[], 0), (ACK, 5, &one, 0)], None, Some(0));
        let duplicate = sack(&[(2, 4)]);
        check(
            &[(ACK, 5, &duplicate, 0), (ACK, 6, &duplicate, 0)],
            None,
            None,
        );
        let (old, new) = (times(7), times(8));
        check(&[(ACK, 1, &old, 0), (ACK, 2, &new, 0)], None, Some(0));
        check(&[(ACK, 1, &new, 0), (ACK, 2, &old, 0)], None, None);
        // The segment has an unknown option.
        check(&[(ACK, 1, &[99, 4, 0, 0], 0), (ACK, 2, &[], 0)], None, None);
    }
}
