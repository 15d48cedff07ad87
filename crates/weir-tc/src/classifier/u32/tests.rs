// SPDX-License-Identifier: Apache-2.0 OR MIT
//! u32 compared with a slow oracle written after tc-u32(8): random nodes in a few tables that link
//! to each other, and random packets. The class must be the one that the oracle finds.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::contextualize_config;
use weir_netlink::tca::{self, u32 as attr};
use weir_netlink::{Fixed, TcMsg, TcU32Key, TcU32Sel, Writer, nlm, rtm};

use crate::testing::{Stack, vectors};
use crate::verdict::Verdict;

/// The numbers of buckets of the tables; table 0 is the root.
const BUCKETS: [u32; 4] = [1, 1, 2, 16];

/// A key: value and mask of a word, its offset, and whether the offset counts from the next header.
type Key = (u8, u8, i32, bool);

#[derive(Debug, Clone)]
struct Rule {
    table: usize,
    bucket: u32,
    keys: Vec<Key>,
    link: Option<Link>,
    /// The node has a class, which is its own number.
    terminal: bool,
}

#[derive(Debug, Clone)]
struct Link {
    to: usize,
    /// The mask of the hash and the offset of its word.
    hash: (u32, i16),
    /// The fixed part of the next header's offset, if the link moves it.
    plus: Option<u16>,
    /// Offset and shift of the part that is read from the packet.
    read: Option<(i16, u8)>,
    eat: bool,
}

/// Bytes are 0 to 3, so that many packets match.
fn rule() -> impl Strategy<Value = Rule> {
    let key = (
        0..4_u8,
        prop_oneof![Just(0_u8), Just(1), Just(3)],
        -4..24_i32,
        any::<bool>(),
    );
    let link = (
        1..4_usize,
        (
            prop_oneof![Just(0_u32), Just(3), Just(0x300), Just(0x0f00_0000)],
            -2..20_i16,
        ),
        proptest::option::of(0..9_u16),
        proptest::option::of((0..8_i16, 0..4_u8)),
        any::<bool>(),
    )
        .prop_map(|(to, hash, plus, read, eat)| Link {
            to,
            hash,
            plus,
            read,
            eat,
        });
    (
        0..4_usize,
        0..16_u32,
        prop::collection::vec(key, 0..3),
        proptest::option::weighted(0.4, link),
        any::<bool>(),
    )
        .prop_map(|(table, bucket, keys, link, terminal)| Rule {
            table,
            bucket: bucket % BUCKETS[table],
            keys,
            link,
            terminal,
        })
}

fn send(stack: &Stack, handle: u32, fill: impl FnOnce(&mut Writer)) {
    let mut w = Writer::new();
    let flags = nlm::F_REQUEST | nlm::F_CREATE | nlm::F_EXCL;
    let mark = w.message(rtm::NEWTFILTER, flags, 1, 0);
    w.fixed(&TcMsg {
        ifindex: 3,
        parent: 0xffff_fff2,
        handle,
        info: TcMsg::make_info(1, 3),
        ..TcMsg::default()
    });
    w.put_str(tca::KIND, "u32");
    let options = w.nest(tca::OPTIONS);
    fill(&mut w);
    w.end(options);
    w.finish(mark).unwrap();
    stack.request(w.bytes()).unwrap();
}

impl Rule {
    fn key(&(value, mask, off, next): &Key) -> TcU32Key {
        TcU32Key {
            mask: u32::from_be_bytes([0, mask, 0, 0]).to_be(),
            val: u32::from_be_bytes([0, value & mask, 0, 0]).to_be(),
            off,
            offmask: -i32::from(next),
        }
    }

    fn add(&self, stack: &Stack, number: usize) {
        let mut head = TcU32Sel {
            nkeys: self.keys.len() as u8,
            ..TcU32Sel::default()
        };
        head.flags = if self.terminal {
            attr::TERMINAL as u8
        } else {
            0
        };
        if let Some(link) = &self.link {
            (head.hmask, head.hoff) = (link.hash.0.to_be(), link.hash.1);
            if let Some(plus) = link.plus {
                head.flags |= attr::OFFSET as u8;
                head.off = plus;
            }
            if let Some((from, shift)) = link.read {
                head.flags |= attr::VAROFFSET as u8;
                (head.offoff, head.offshift, head.offmask) = (from, shift, 0x0707_u16.to_be());
            }
            if link.eat {
                head.flags |= attr::EAT as u8;
            }
        }
        let mut selector = head.to_vec();
        for key in &self.keys {
            selector.extend(Self::key(key).to_vec());
        }
        send(stack, 0, |w| {
            w.put(attr::SEL, &selector);
            if self.table != 0 {
                w.put_u32(attr::HASH, (self.table as u32) << 20 | self.bucket << 12);
            }
            if let Some(link) = &self.link {
                w.put_u32(attr::LINK, (link.to as u32) << 20);
            }
            w.put_u32(attr::CLASSID, 0x1_0000 | number as u32);
        });
    }
}

/// The result of walking a bucket.
enum End {
    Class(usize),
    /// No node matched.
    Through,
    /// The packet is too short, or there are too many links.
    Stop,
}

struct Oracle<'a> {
    rules: &'a [Rule],
    /// The rules by table and bucket, in the order of their ids.
    buckets: BTreeMap<(usize, u32), Vec<usize>>,
    packet: &'a [u8],
    /// The offset of the next header from the current one. It is kept on return from a table.
    next: i64,
}

impl Oracle<'_> {
    /// Reads bytes from the network header. Bytes in front of the frame read as 0.
    fn read(&self, at: i64, len: usize) -> Option<u64> {
        let octet = |at: i64| match usize::try_from(at + 14) {
            Ok(at) => self.packet.get(at).copied(),
            Err(_) => Some(0),
        };
        (0..len as i64).try_fold(0, |sum, i| Some(sum << 8 | u64::from(octet(at + i)?)))
    }

    fn walk(&mut self, table: usize, bucket: u32, off: i64, depth: usize) -> End {
        let nodes = self.buckets.get(&(table, bucket)).cloned();
        'node: for number in nodes.unwrap_or_default() {
            let rule = &self.rules[number];
            for &(value, mask, at, from_next) in &rule.keys {
                let at = off + i64::from(at) + if from_next { self.next } else { 0 };
                let Some(word) = self.read(at, 4) else {
                    return End::Stop;
                };
                if (word >> 16) as u8 & mask != value & mask {
                    continue 'node;
                }
            }
            if let Some(link) = &rule.link {
                if depth == 8 {
                    return End::Stop;
                }
                match self.follow(link, off, depth) {
                    End::Through => {}
                    end => return end,
                }
            }
            if rule.terminal {
                return End::Class(number);
            }
        }
        End::Through
    }

    fn follow(&mut self, link: &Link, mut off: i64, depth: usize) -> End {
        let buckets = u64::from(BUCKETS[link.to]);
        let mut bucket = 0;
        if buckets > 1 {
            let Some(word) = self.read(off + i64::from(link.hash.1), 4) else {
                return End::Stop;
            };
            let mask = u64::from(link.hash.0);
            let shift = if mask == 0 { 0 } else { mask.trailing_zeros() };
            bucket = ((word & mask) >> shift) % buckets;
        }
        if link.plus.is_some() || link.read.is_some() {
            let mut next = i64::from(link.plus.unwrap_or(0)) + 3;
            if let Some((at, shift)) = link.read {
                let Some(word) = self.read(off + i64::from(at), 2) else {
                    return End::Stop;
                };
                next += (word as i64 & 0x0707) >> shift;
            }
            self.next = next / 4 * 4;
        }
        if link.eat {
            off += self.next;
            self.next = 0;
        }
        let moves = link.plus.is_some() || link.read.is_some() || link.eat;
        if moves && off >= self.packet.len() as i64 - 14 {
            return End::Through;
        }
        self.walk(link.to, bucket as u32, off, depth + 1)
    }
}

fn clsact() -> Stack {
    let stack = Stack::default();
    let all = vectors(include_str!("../../../tests/vectors/control.vec"));
    let add = all.iter().find(|(c, _)| c == "tc qdisc add dev d0 clsact");
    for bytes in &add.unwrap().1 {
        stack.request(bytes).unwrap();
    }
    stack
}

proptest! {
    #![proptest_config(contextualize_config(ProptestConfig::with_cases(300)))]

    #[test]
    fn equals_a_linear_search(
        rules in prop::collection::vec(rule(), 1..24),
        packets in prop::collection::vec(prop::collection::vec(0..4_u8, 4..40), 1..8),
    ) {
        let stack = clsact();
        for (number, &buckets) in BUCKETS.iter().enumerate().skip(1) {
            send(&stack, (number as u32) << 20, |w| w.put_u32(attr::DIVISOR, buckets));
        }
        let mut buckets: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (number, rule) in rules.iter().enumerate() {
            rule.add(&stack, number + 1);
            buckets.entry((rule.table, rule.bucket)).or_default().push(number);
        }
        for payload in &packets {
            let frame = [&[2; 12][..], &[8, 0], payload].concat();
            let mut oracle = Oracle {
                rules: &rules,
                buckets: buckets.clone(),
                packet: &frame,
                next: 0,
            };
            let wanted = match oracle.walk(0, 0, 0, 0) {
                End::Class(number) => number + 1,
                _ => 0,
            };
            let mut packet = stack.packet(&frame);
            let (verdict, _) = stack.hook(3, true, &mut packet);
            prop_assert_eq!(verdict, Verdict::Pass);
            prop_assert_eq!(usize::from(packet.tc_index), wanted, "{:?}", payload);
        }
    }
}
