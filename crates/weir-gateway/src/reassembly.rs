// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reassembly of fragmented packets from the namespace (RFC 791, 3.2; RFC 8200, 4.5). Overlapping fragments discard the
//! packet (RFC 5722).

use std::net::IpAddr;

use crate::wire::Fragment;

/// The most packets that are incomplete at a time.
const MOST: usize = 64;
/// How long fragments wait for the others (`ipfrag_time`), in ns.
const TIME: u64 = 30_000_000_000;
/// The longest payload of a packet.
const LONGEST: usize = 65_535;

/// A packet that was put together.
#[derive(Debug)]
pub(crate) struct Whole {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub protocol: u8,
    pub hops: u8,
    pub tos: u8,
    pub payload: Vec<u8>,
}

#[derive(Debug)]
struct Incomplete {
    key: (IpAddr, IpAddr, u32, u8),
    since: u64,
    hops: u8,
    tos: u8,
    data: Vec<u8>,
    /// The ranges of `data` that are there, in order, without overlap.
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
    /// Takes a fragment. Returns the packet if it is complete.
    pub(crate) fn add(&mut self, now: u64, fragment: &Fragment<'_>) -> Option<Whole> {
        self.all
            .retain(|packet| now.saturating_sub(packet.since) < TIME);
        let end = fragment.offset + fragment.data.len();
        let misaligned = fragment.more && !fragment.data.len().is_multiple_of(8);
        if fragment.data.is_empty() || end > LONGEST || misaligned {
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
                    data: Vec::new(),
                    ranges: Vec::new(),
                    total: None,
                });
                self.all.len() - 1
            }
        };
        match self.all.get_mut(at)?.put(fragment, end) {
            Some(false) => None,
            Some(true) => {
                let packet = self.all.remove(at);
                Some(Whole {
                    src: fragment.src,
                    dst: fragment.dst,
                    protocol: fragment.protocol,
                    hops: packet.hops,
                    tos: packet.tos,
                    payload: packet.data,
                })
            }
            None => {
                self.all.remove(at);
                None
            }
        }
    }
}

impl Incomplete {
    /// Returns whether the packet is complete, or nothing if the fragments contradict each other.
    fn put(&mut self, fragment: &Fragment<'_>, end: usize) -> Option<bool> {
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
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        self.data
            .get_mut(start..end)?
            .copy_from_slice(fragment.data);
        let Some(total) = self.total else {
            return Some(false);
        };
        if self.data.len() > total {
            return None;
        }
        let there: usize = self.ranges.iter().map(|range| range.1 - range.0).sum();
        Some(there == total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn fragment(id: u32, offset: usize, more: bool, data: &[u8]) -> Fragment<'_> {
        Fragment {
            src: Ipv4Addr::new(10, 0, 2, 15).into(),
            dst: Ipv4Addr::new(192, 0, 2, 1).into(),
            id,
            protocol: 17,
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
        assert_eq!(whole.payload, b"start...middle..end");
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
