// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filters of an instance that has only a few, in a form that is compared with the headers of plain packets
//! as they are.
//!
//! Most instances have one filter, or a handful. Their keys need neither dissection nor hashes: a filter is a row
//! of bits and a row of values as wide as the headers ([`Plain`]), and a packet matches it if the two agree in
//! those bits. Packets that are not plain are left to the tables ([`List`](super::mask::List)), which hold the same
//! filters.

use std::sync::Arc;

use weir_packet::Used;
use weir_packet::dissect::ADDR_IPV4;
use weir_packet::header::ethernet::ETH_P_IP;
use weir_packet::header::ipv4::{IPPROTO_TCP, IPPROTO_UDP};
use weir_sync::bits::set_bits;

use super::Filter;
use super::plain::{Differ, IP, L4, Load};
use crate::early::{PLAIN_BITS, PLAIN_VALUES, Plain, Source};

/// The highest number of filters that are compared one by one.
pub const FEW: usize = 4;

/// The filters; see the module's documentation.
#[derive(Debug)]
pub struct Few {
    /// Those that a plain packet can match, in the order in which a lookup tries them.
    rows: Box<[Row]>,
}

/// A filter as bits of the headers.
#[derive(Debug)]
struct Row {
    /// The bits that the filter reads, and those that make headers plain, except for the protocol above IP.
    bits: Plain,
    /// Their values.
    values: Plain,
    filter: Arc<Filter>,
}

/// What becomes of a filter.
enum Form {
    Row(Row),
    /// No plain packet matches it.
    Never,
}

/// Bits of headers, and their values.
struct Bits {
    bits: Plain,
    values: Plain,
    /// A plain packet can have these values.
    possible: bool,
}

impl Bits {
    /// Demands values of the bytes at an offset. Bits outside of `bits` are 0 in `values`.
    fn demand(&mut self, at: usize, bits: &[u8], values: &[u8]) {
        let places = self.bits.iter_mut().zip(&mut self.values).skip(at);
        for ((to, value), (bits, demanded)) in places.zip(bits.iter().zip(values)) {
            // What makes headers plain is demanded first.
            self.possible &= (*value ^ demanded) & *to & bits == 0;
            *to |= bits;
            *value |= demanded;
        }
    }

    /// Demands a value of bits whose value is known.
    fn known(&mut self, bits: u8, demanded: u8, value: u8) {
        self.possible &= (value ^ demanded) & bits == 0;
    }
}

impl Form {
    /// Returns `None` if a filter reads what rows do not have.
    fn of(filter: &Arc<Filter>, used: Used) -> Option<Self> {
        let mut row = Bits {
            bits: [0; size_of::<Plain>()],
            values: [0; size_of::<Plain>()],
            possible: true,
        };
        for ((at, bits), values) in PLAIN_BITS.iter().zip(PLAIN_VALUES) {
            row.demand(*at, bits, values);
        }
        let mask = &filter.under().mask;
        if mask.ranges != 0 {
            return None;
        }
        // The bits of the protocol above IP that are read, the value, and whether something behind IP is read.
        let (mut read, mut protocol, mut above) = (0, 0, false);
        for (&(place, bits), value) in mask.halves().iter().zip(filter.packed()) {
            let (b, v) = (bits.to_ne_bytes(), value.to_ne_bytes());
            match Load::of(place, used)? {
                Load::Octets(at) => row.demand(usize::from(at), &b, &v),
                Load::Protocols => {
                    let [n0, n1] = ETH_P_IP.to_ne_bytes();
                    row.known(b[0], v[0], n0);
                    row.known(b[1], v[1], n1);
                    row.demand(IP + 9, &b[2..3], &v[2..3]);
                    row.known(b[3], v[3], ADDR_IPV4);
                    (read, protocol) = (b[2], v[2]);
                }
                Load::Service => {
                    row.demand(IP + 1, &b[..1], &v[..1]);
                    row.demand(IP + 8, &b[1..2], &v[1..2]);
                    row.known(b[2], v[2], 0);
                    row.known(b[3], v[3], 0);
                }
                Load::Ports => {
                    let swapped = |[s0, s1, d0, d1]: [u8; 4]| {
                        let (src, dst) =
                            (u16::from_ne_bytes([s0, s1]), u16::from_ne_bytes([d0, d1]));
                        let ([s0, s1], [d0, d1]) = (src.to_be_bytes(), dst.to_be_bytes());
                        [s0, s1, d0, d1]
                    };
                    row.demand(L4, &swapped(b), &swapped(v));
                    above = true;
                }
                // They depend on the length of the header.
                Load::Flags => return None,
                Load::Zero => b.iter().zip(v).for_each(|(bits, v)| row.known(*bits, v, 0)),
            }
        }
        if above && read != 0xff {
            return None;
        }
        if !row.possible || above && !matches!(protocol, IPPROTO_TCP | IPPROTO_UDP) {
            return Some(Self::Never);
        }
        Some(Self::Row(Row {
            bits: row.bits,
            values: row.values,
            filter: filter.clone(),
        }))
    }
}

impl Few {
    /// Returns the rows of filters, which are in the order in which a lookup tries them. The filters' masks read
    /// these groups of keys. Returns `None` if there are no filters, or some that read what rows do not
    /// have.
    pub fn of(filters: &[Arc<Filter>], used: Used) -> Option<Self> {
        if filters.is_empty() {
            return None;
        }
        let forms = filters.iter().map(|filter| Form::of(filter, used));
        let forms: Vec<_> = forms.collect::<Option<_>>()?;
        let rows = forms.into_iter().filter_map(|form| match form {
            Form::Row(row) => Some(row),
            Form::Never => None,
        });
        Some(Self {
            rows: rows.collect(),
        })
    }

    /// Returns the rows that packets match, each as the packets and the filter.
    #[inline]
    pub fn matched(&self, rows: [u64; FEW]) -> impl Iterator<Item = (u64, &Filter)> {
        let rows = rows.into_iter().zip(&self.rows);
        let rows = rows.filter(|(which, _)| *which != 0);
        rows.map(|(which, row)| (which, &*row.filter))
    }

    /// Returns the number of the row that plain headers match.
    #[inline(always)]
    fn row_of(&self, differ: impl Differ, head: &Plain) -> Option<usize> {
        let mut rows = self.rows.iter();
        rows.position(|row| !differ(head, &row.values, &row.bits))
    }

    /// Returns the filter that plain headers match.
    #[inline(always)]
    pub fn filter_of(&self, differ: impl Differ, head: &Plain) -> Option<&Filter> {
        let row = self.rows.get(self.row_of(differ, head)?)?;
        Some(&row.filter)
    }

    /// Looks up the packets with a bit in `wanted`. Returns a bit for each packet that matches a row, and one for each that
    /// was not looked up. [`isa::find_few`](super::isa::find_few) instantiates this function once for each family of
    /// processors.
    #[inline(always)]
    pub(crate) fn find(
        &self,
        differ: impl Differ,
        packets: &impl Source,
        wanted: u64,
    ) -> ([u64; FEW], u64) {
        let (mut rows, mut left) = ([0; FEW], 0);
        for lane in set_bits(wanted) {
            let bit = 1 << lane;
            let Some(head) = packets.plain(lane) else {
                left |= bit;
                continue;
            };
            let found = self.row_of(differ, head);
            if let Some(row) = found.and_then(|row| rows.get_mut(row)) {
                *row |= bit;
            }
        }
        (rows, left)
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;
    use weir_netlink::tca::{self, flower as attr};
    use weir_netlink::{TcMsg, Writer, nlm, rtm};
    use weir_packet::Batch;

    use super::super::stress::stack;
    use super::*;
    use crate::classifier::Lookup;
    use crate::context::Context;
    use crate::testing::{Stack, ipv4};

    /// A filter: keys with their masks.
    #[derive(Debug, Clone)]
    struct Rule {
        macs: [Option<(u8, u8)>; 2],
        addresses: [Option<(u8, u8)>; 2],
        tos: Option<(u8, u8)>,
        ttl: Option<(u8, u8)>,
        protocol: Option<u8>,
        ports: [Option<u16>; 2],
        flags: Option<u16>,
    }

    fn rule() -> impl Strategy<Value = Rule> {
        let octet = || proptest::option::of((0..3_u8, select(vec![0xff_u8, 0xfe, 1])));
        let port = || proptest::option::of(0..3_u16);
        let protocol = proptest::option::weighted(0.8, select(vec![6_u8, 17, 132, 1]));
        let flags = proptest::option::weighted(0.1, select(vec![2_u16, 0x10]));
        let keys = (
            [octet(), octet()],
            [octet(), octet()],
            octet(),
            octet(),
            protocol,
        );
        (keys, [port(), port()], flags).prop_map(
            |((macs, addresses, tos, ttl, protocol), ports, flags)| Rule {
                macs,
                addresses,
                tos,
                ttl,
                protocol,
                ports,
                flags,
            },
        )
    }

    impl Rule {
        /// Encodes the request for a new filter, or for one in place of that with a handle. The class tells the filter.
        fn request(&self, class: u32, handle: u32) -> Vec<u8> {
            let mut w = Writer::new();
            let how = if handle == 0 {
                nlm::F_EXCL
            } else {
                nlm::F_REPLACE
            };
            let mark = w.message(rtm::NEWTFILTER, nlm::F_REQUEST | nlm::F_CREATE | how, 1, 0);
            w.fixed(&TcMsg {
                ifindex: 3,
                handle,
                parent: 0xffff_fff2,
                info: TcMsg::make_info(1, 0x0800),
                ..TcMsg::default()
            });
            w.put_str(tca::KIND, "flower");
            let options = w.nest(tca::OPTIONS);
            w.put_be16(attr::KEY_ETH_TYPE, 0x0800);
            let macs = [
                (attr::KEY_ETH_DST, attr::KEY_ETH_DST_MASK),
                (attr::KEY_ETH_SRC, attr::KEY_ETH_SRC_MASK),
            ];
            let addresses = [
                (attr::KEY_IPV4_SRC, attr::KEY_IPV4_SRC_MASK),
                (attr::KEY_IPV4_DST, attr::KEY_IPV4_DST_MASK),
            ];
            for (field, (key, mask)) in self.macs.iter().zip(macs) {
                if let Some((value, bits)) = field {
                    w.put(key, &[2, 0, 0, 0, 0, *value]);
                    w.put(mask, &[255, 255, 255, 255, 255, *bits]);
                }
            }
            for (field, (key, mask)) in self.addresses.iter().zip(addresses) {
                if let Some((value, bits)) = field {
                    w.put(key, &[10, 0, 0, *value]);
                    w.put(mask, &[255, 255, 255, *bits]);
                }
            }
            for (field, key, mask) in [
                (self.tos, attr::KEY_IP_TOS, attr::KEY_IP_TOS_MASK),
                (self.ttl, attr::KEY_IP_TTL, attr::KEY_IP_TTL_MASK),
            ] {
                if let Some((value, bits)) = field {
                    w.put_u8(key, value);
                    w.put_u8(mask, bits);
                }
            }
            if let Some(protocol) = self.protocol {
                w.put_u8(attr::KEY_IP_PROTO, protocol);
                let keys = match protocol {
                    6 => Some([attr::KEY_TCP_SRC, attr::KEY_TCP_DST]),
                    17 => Some([attr::KEY_UDP_SRC, attr::KEY_UDP_DST]),
                    132 => Some([attr::KEY_SCTP_SRC, attr::KEY_SCTP_DST]),
                    _ => None,
                };
                let keys = keys.into_iter().flatten();
                for (key, port) in keys.zip(self.ports) {
                    port.into_iter().for_each(|port| w.put_be16(key, port));
                }
                if let Some(flags) = self.flags.filter(|_| protocol == 6) {
                    w.put_be16(attr::KEY_TCP_FLAGS, flags);
                    w.put_be16(attr::KEY_TCP_FLAGS_MASK, flags);
                }
            }
            w.put_u32(attr::CLASSID, 0x1_0000 | class);
            w.end(options);
            w.finish(mark).unwrap();
            w.into_vec()
        }
    }

    /// Frames with the values that the filters ask for, and what makes headers other than plain.
    fn frame() -> impl Strategy<Value = Vec<u8>> {
        let protocol = select(vec![6_u8, 6, 17, 17, 17, 132, 1, 47, 4]);
        let ip = (protocol, [0..3_u8, 0..3_u8], [0..3_u8, 0..3_u8]);
        let other = select(vec![0_u8, 0, 0, 0, 0, 1, 2, 3, 4]);
        let cut = prop_oneof![9 => Just(80_usize), 1 => 14..60_usize];
        (ip, [0..3_u16, 0..3_u16], [0..3_u8, 0..3_u8], other, cut).prop_map(
            |((protocol, [src, dst], [tos, ttl]), [sport, dport], [to, from], other, cut)| {
                let mut frame = ipv4(protocol, [10, 0, 0, src], [10, 0, 0, dst], sport, dport);
                frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from]);
                (frame[15], frame[22]) = (tos, ttl);
                frame.resize(80, 0x55);
                match other {
                    1 => frame[14] = 0x46,
                    2 => frame[20] = 0x20,
                    3 => frame[21] = 3,
                    4 => frame.splice(12..12, [0x81, 0, 0, 7]).for_each(drop),
                    _ => {}
                }
                frame.truncate(cut);
                frame
            },
        )
    }

    /// Encodes the deletion of the filter with a handle.
    fn deletion(handle: u32) -> Vec<u8> {
        let mut w = Writer::new();
        let mark = w.message(rtm::DELTFILTER, nlm::F_REQUEST, 1, 0);
        w.fixed(&TcMsg {
            ifindex: 3,
            handle,
            parent: 0xffff_fff2,
            info: TcMsg::make_info(1, 0x0800),
            ..TcMsg::default()
        });
        w.put_str(tca::KIND, "flower");
        w.finish(mark).unwrap();
        w.into_vec()
    }

    /// Returns the classes of the packets looked up one by one, which is in the tables, and as a batch.
    fn classes(stack: &Stack, frames: &[Vec<u8>]) -> [Vec<u16>; 2] {
        let packets = || frames.iter().map(|frame| stack.packet(frame));
        let alone = packets().map(|mut packet| {
            stack.hook(3, true, &mut packet);
            packet.tc_index
        });
        let alone = alone.collect();
        let mut batch = Batch::new();
        packets().for_each(|packet| batch.push(packet).unwrap());
        let guard = stack.domain.pin();
        let (mut copies, mut ended, mut zero) = (Vec::new(), Vec::new(), || 0);
        let mut cx = Context::new(&guard, 0, 0, 3, &mut zero, &mut copies);
        let mut lookup = Lookup::default();
        let tc = &stack.devices[&3].tc;
        tc.ingress_batch(&mut cx, &mut lookup, (&mut batch, None), &mut ended);
        [alone, batch.iter().map(|packet| packet.tc_index).collect()]
    }

    proptest! {
        #[test]
        fn rows_match_what_the_tables_match(rules in vec(rule(), 1..=FEW), frames in vec(frame(), 64)) {
            let stack = stack();
            for (class, rule) in (1..).zip(&rules) {
                // Two filters with one key are refused.
                let _ = stack.request(&rule.request(class, 0));
            }
            let [alone, together] = classes(&stack, &frames);
            prop_assert_eq!(together, alone);
            // Two runs of packets alike.
            let runs: Vec<_> = (0..64).map(|n| frames[n / 32].clone()).collect();
            let [alone, together] = classes(&stack, &runs);
            prop_assert_eq!(together, alone);
            stack.request(&rules[0].request(9, 1)).unwrap();
            let [alone, together] = classes(&stack, &frames);
            prop_assert_eq!(&together, &alone);
            prop_assert!(!together.contains(&1));
            stack.request(&deletion(1)).unwrap();
            let [alone, together] = classes(&stack, &frames);
            prop_assert_eq!(&together, &alone);
            prop_assert!(!together.contains(&9));
        }
    }
}
