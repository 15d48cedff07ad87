// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reassembly of fragmented packets from the namespace (RFC 791, 3.2; RFC 8200, 4.5). Overlapping fragments discard the
//! packet (RFC 5722).
//!
//! That of a namespace (`weir-inet`) keeps the stack's packets, and counts and times them with it. The gateway is not in the
//! stack and has bytes.

use std::net::IpAddr;

use weir_packet::header::ipv4::ipv4;
use weir_packet::header::ipv6::ipv6;
use weir_packet::header::{Ipv4, Ipv6};

use crate::wire::Fragment;

/// The most packets that are incomplete at a time.
const MOST: usize = 64;
/// How long fragments wait for the others (`ipfrag_time`), in ns.
const TIME: u64 = 30_000_000_000;
/// The longest packet of IPv4, and the longest payload of IPv6, in bytes.
const LONGEST: usize = 65_535;

#[derive(Debug)]
struct Incomplete {
    key: (IpAddr, IpAddr, u32, u8),
    since: u64,
    hops: u8,
    tos: u8,
    /// Room for the header, then the payload as far as it is there.
    data: Vec<u8>,
    /// The ranges of the payload that are there, in order, without overlap.
    ranges: Vec<(usize, usize)>,
    /// The length of the whole payload, once the last fragment is there.
    total: Option<usize>,
}

/// The packets of which some fragments are there.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    all: Vec<Incomplete>,
}

impl Reassembly {
    /// The bytes that are held.
    pub(crate) fn bytes(&self) -> usize {
        self.all.iter().map(|packet| packet.data.capacity()).sum()
    }

    /// Takes a fragment. Returns the packet, with a header that has neither options nor extensions, if it is complete.
    pub(crate) fn add(&mut self, now: u64, fragment: &Fragment<'_>) -> Option<Vec<u8>> {
        self.all
            .retain(|packet| now.saturating_sub(packet.since) < TIME);
        let end = fragment.offset + fragment.data.len();
        let (header, longest) = match fragment.src {
            IpAddr::V4(_) => (Ipv4::LEN, LONGEST - Ipv4::LEN),
            IpAddr::V6(_) => (Ipv6::LEN, LONGEST),
        };
        let misaligned = fragment.more && !fragment.data.len().is_multiple_of(8);
        if fragment.data.is_empty() || end > longest || misaligned {
            return None;
        }
        let key = (fragment.src, fragment.dst, fragment.id, fragment.protocol);
        let at = match self.all.iter().position(|packet| packet.key == key) {
            Some(at) => at,
            None => {
                if self.all.len() >= MOST {
                    self.all.remove(0);
                }
                self.all.push(Incomplete {
                    key,
                    since: now,
                    hops: fragment.hops,
                    tos: fragment.tos,
                    data: vec![0; header],
                    ranges: Vec::new(),
                    total: None,
                });
                self.all.len() - 1
            }
        };
        match self.all.get_mut(at)?.put(fragment, header, end) {
            Some(false) => None,
            Some(true) => Some(self.all.remove(at).finish(header)),
            None => {
                self.all.remove(at);
                None
            }
        }
    }
}

impl Incomplete {
    /// Returns whether the packet is complete, or nothing if the fragments contradict each other.
    fn put(&mut self, fragment: &Fragment<'_>, header: usize, end: usize) -> Option<bool> {
        let start = fragment.offset;
        if !fragment.more && self.total.replace(end).is_some_and(|total| total != end) {
            return None;
        }
        let place = self.ranges.partition_point(|range| range.0 < start);
        if self.ranges.get(place) == Some(&(start, end)) {
            return Some(false); // the same once more
        }
        let before = place
            .checked_sub(1)
            .and_then(|place| self.ranges.get(place));
        let overlaps = before.is_some_and(|range| range.1 > start)
            || self.ranges.get(place).is_some_and(|range| range.0 < end);
        if overlaps || self.total.is_some_and(|total| end > total) {
            return None;
        }
        self.ranges.insert(place, (start, end));
        if self.data.len() < header + end {
            self.data.resize(header + end, 0);
        }
        self.data
            .get_mut(header + start..header + end)?
            .copy_from_slice(fragment.data);
        let Some(total) = self.total else {
            return Some(false);
        };
        if self.data.len() > header + total {
            return None;
        }
        let there: usize = self.ranges.iter().map(|range| range.1 - range.0).sum();
        Some(there == total)
    }

    /// The packet, with its header.
    fn finish(self, header: usize) -> Vec<u8> {
        let Self {
            key: (src, dst, _, protocol),
            hops,
            tos,
            mut data,
            ..
        } = self;
        let length = data.len() - header;
        let place = data.get_mut(..header).unwrap_or_default();
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let (src, dst) = (src.octets(), dst.octets());
                place.copy_from_slice(&ipv4(src, dst, protocol, hops, tos, 0, 0, length));
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let (src, dst) = (src.octets(), dst.octets());
                place.copy_from_slice(&ipv6(src, dst, protocol, hops, tos, 0, length));
            }
            // No fragment has ends of both families.
            _ => {}
        }
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Input, read_whole};
    use std::net::Ipv4Addr;

    fn fragment(id: u32, offset: usize, more: bool, data: &[u8]) -> Fragment<'_> {
        Fragment {
            src: Ipv4Addr::new(10, 0, 2, 15).into(),
            dst: Ipv4Addr::new(192, 0, 2, 1).into(),
            id,
            protocol: 253,
            hops: 64,
            tos: 0,
            offset,
            more,
            data,
        }
    }

    #[test]
    fn fragments_in_any_order_make_the_packet() {
        let mut all = Reassembly::default();
        assert!(all.add(0, &fragment(1, 16, false, b"end")).is_none());
        assert!(all.add(0, &fragment(1, 8, true, b"middle..")).is_none());
        assert!(all.add(0, &fragment(1, 8, true, b"middle..")).is_none());
        let whole = all.add(0, &fragment(1, 0, true, b"start...")).unwrap();
        let Input::Packet(packet) = read_whole(&whole) else {
            panic!("a packet");
        };
        assert_eq!((packet.protocol, packet.hops), (253, 64));
        assert_eq!(packet.payload, b"start...middle..end");
        assert_eq!(packet.whole, whole);
        assert!(all.all.is_empty());
    }

    #[test]
    fn contradictions_and_leftovers_are_dropped() {
        let mut all = Reassembly::default();
        all.add(0, &fragment(1, 0, true, b"0123456789abcdef"));
        all.add(0, &fragment(1, 8, true, b"overlaps"));
        assert!(all.all.is_empty());
        all.add(0, &fragment(2, 8, false, b"end"));
        all.add(0, &fragment(2, 16, false, b"end"));
        assert!(all.all.is_empty());
        assert!(all.add(0, &fragment(3, 65_528, false, &[0; 16])).is_none());
        assert!(all.add(0, &fragment(3, 0, true, b"odd")).is_none());
        for id in 0..1000 {
            all.add(0, &fragment(id, 0, true, &[0; 8]));
        }
        assert_eq!(all.all.len(), MOST);
        all.add(TIME, &fragment(5000, 0, true, &[0; 8]));
        assert_eq!(all.all.len(), 1);
    }
}
