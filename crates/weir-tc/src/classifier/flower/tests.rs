// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flower compared with a linear oracle: random filters over few values in several priorities and
//! chains, and random packets. The filter found must be the one that a linear search in Linux's
//! order finds.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::contextualize_config;
use weir_netlink::tca::{self, act, flower as attr, gact};
use weir_netlink::{Fixed, TcGen, TcMsg, Writer, nlm, rtm};
use weir_packet::tunnel::{Ends, Tunnel};
use weir_packet::{Batch, Packet};

use crate::classifier::Lookup;
use crate::context::Context;
use crate::testing::{Stack, ipv4};
use crate::verdict::Verdict;

use super::stress::stack;

/// A filter. Values are small so that filters overlap.
#[derive(Debug, Clone)]
struct Rule {
    chain: u32,
    prio: u16,
    src: Option<(u8, u8)>,
    dst: Option<(u8, u8)>,
    proto: Option<u8>,
    port: Option<u16>,
    range: Option<(u16, u16)>,
    /// The key of the tunnel, and its TTL with a mask.
    enc_id: Option<u8>,
    enc_ttl: Option<(u8, u8)>,
    /// The chain the filter goes to. Without one, the class identifies the filter.
    goto: Option<u32>,
}

/// The header fields of a packet.
#[derive(Debug, Clone)]
struct Flow {
    src: u8,
    dst: u8,
    proto: u8,
    port: u16,
    /// Key and TTL of the tunnel metadata, if present.
    tunnel: Option<(u8, u8)>,
}

fn rule() -> impl Strategy<Value = Rule> {
    let address =
        || proptest::option::of((0..4_u8, prop_oneof![Just(0xff_u8), Just(0xfe), Just(0)]));
    let fields = (
        0..3_u32,
        1..4_u16,
        address(),
        address(),
        proptest::option::of(prop_oneof![Just(6_u8), Just(17)]),
        proptest::option::of(0..4_u16),
        proptest::option::of((0..3_u16, 1..4_u16)),
        proptest::option::weighted(0.2, 0..3_u8),
        proptest::option::weighted(0.2, (0..4_u8, prop_oneof![Just(0xff_u8), Just(0xfe)])),
        proptest::option::weighted(0.2, 0..3_u32),
    );
    fields.prop_map(
        |(chain, prio, src, dst, proto, port, range, enc_id, enc_ttl, goto)| Rule {
            enc_id,
            enc_ttl,
            chain,
            prio,
            src,
            dst,
            proto,
            // Ports need a protocol; a filter has one port or a range.
            port: port.filter(|_| proto.is_some()),
            range: range
                .filter(|_| proto.is_some() && port.is_none())
                .map(|(min, len)| (min, min + len)),
            // Only to later chains, so that no packet loops.
            goto: goto.filter(|&goto| goto > chain),
        },
    )
}

fn flow() -> impl Strategy<Value = Flow> {
    (
        0..4_u8,
        0..4_u8,
        prop_oneof![Just(6_u8), Just(17)],
        0..8_u16,
        proptest::option::of((0..3_u8, 0..4_u8)),
    )
        .prop_map(|(src, dst, proto, port, tunnel)| Flow {
            tunnel,
            src,
            dst,
            proto,
            port,
        })
}

impl Rule {
    /// Returns the identity of a filter within its priority: the mask and the key under it.
    fn identity(&self) -> impl PartialEq + use<> {
        let masked = |field: Option<(u8, u8)>| field.map(|(value, mask)| (value & mask, mask));
        (
            masked(self.src),
            masked(self.dst),
            self.proto,
            self.port,
            self.range,
            self.enc_id,
            masked(self.enc_ttl),
        )
    }

    /// Returns the fields that decide whether two filters share a mask.
    fn mask(&self) -> impl PartialEq + use<> {
        let mask = |field: Option<(u8, u8)>| field.map(|(_, mask)| mask);
        let (src, dst) = (mask(self.src), mask(self.dst));
        (
            src,
            dst,
            self.proto.is_some(),
            self.port.is_some(),
            self.range.is_some(),
            self.enc_id.is_some(),
            mask(self.enc_ttl),
        )
    }

    fn matches(&self, flow: &Flow) -> bool {
        let fits = |field: Option<(u8, u8)>, value: u8| {
            field.is_none_or(|(want, mask)| want & mask == value & mask)
        };
        fits(self.src, flow.src)
            && fits(self.dst, flow.dst)
            && self.proto.is_none_or(|proto| proto == flow.proto)
            && self.port.is_none_or(|port| port == flow.port)
            && self
                .range
                .is_none_or(|(min, max)| (min..=max).contains(&flow.port))
            && self
                .enc_id
                .is_none_or(|id| id == flow.tunnel.map_or(0, |(id, _)| id))
            && fits(self.enc_ttl, flow.tunnel.map_or(0, |(_, ttl)| ttl))
    }

    /// Encodes the request. The filter's action has index `number`.
    fn request(&self, number: u32) -> Vec<u8> {
        let mut w = Writer::new();
        let mark = w.message(
            rtm::NEWTFILTER,
            nlm::F_REQUEST | nlm::F_CREATE | nlm::F_EXCL,
            1,
            0,
        );
        w.fixed(&TcMsg {
            ifindex: 3,
            parent: 0xffff_fff2,
            info: TcMsg::make_info(self.prio, 0x0800),
            ..TcMsg::default()
        });
        w.put_str(tca::KIND, "flower");
        w.put_u32(tca::CHAIN, self.chain);
        let options = w.nest(tca::OPTIONS);
        w.put_be16(attr::KEY_ETH_TYPE, 0x0800);
        for (field, key, mask) in [
            (self.src, attr::KEY_IPV4_SRC, attr::KEY_IPV4_SRC_MASK),
            (self.dst, attr::KEY_IPV4_DST, attr::KEY_IPV4_DST_MASK),
        ] {
            if let Some((value, bits)) = field {
                w.put(key, &[10, 0, 0, value]);
                w.put(mask, &[255, 255, 255, bits]);
            }
        }
        if let Some(proto) = self.proto {
            w.put_u8(attr::KEY_IP_PROTO, proto);
            let port = if proto == 6 {
                attr::KEY_TCP_DST
            } else {
                attr::KEY_UDP_DST
            };
            if let Some(value) = self.port {
                w.put_be16(port, value);
            }
            if let Some((min, max)) = self.range {
                w.put_be16(attr::KEY_PORT_DST_MIN, min);
                w.put_be16(attr::KEY_PORT_DST_MAX, max);
            }
        }
        if let Some(id) = self.enc_id {
            w.put_be32(attr::KEY_ENC_KEY_ID, u32::from(id));
        }
        if let Some((ttl, bits)) = self.enc_ttl {
            w.put_u8(attr::KEY_ENC_IP_TTL, ttl);
            w.put_u8(attr::KEY_ENC_IP_TTL_MASK, bits);
        }
        let actions = w.nest(attr::ACT);
        let action = w.nest(1);
        w.put_str(act::KIND, "gact");
        let parms = w.nest(act::OPTIONS);
        let control = match self.goto {
            Some(chain) => 0x2000_0000 | chain as i32,
            None => 0,
        };
        w.put_fixed(
            gact::PARMS,
            &TcGen {
                index: number,
                action: control,
                ..TcGen::default()
            },
        );
        w.end(parms);
        w.end(action);
        w.end(actions);
        // The class identifies the filter that a packet matched.
        w.put_u32(attr::CLASSID, 0x1_0000 | number);
        w.end(options);
        w.finish(mark).unwrap();
        assert_eq!(TcGen::LEN, 20);
        w.into_vec()
    }
}

/// Returns the filter that a packet matches in a chain according to the oracle. Filters of a
/// priority are tried by masks in order of creation, and under a mask with ranges by ranges in
/// order of creation. A mask keeps its position while any filter has it, so the order is that of
/// all `rules` ever added, of which only those not in `gone` match.
fn oracle(rules: &[(u32, Rule)], gone: &[u32], chain: u32, flow: &Flow) -> Option<u32> {
    let mut prios: Vec<u16> = rules
        .iter()
        .filter(|(_, rule)| rule.chain == chain)
        .map(|(_, rule)| rule.prio)
        .collect();
    prios.sort_unstable();
    prios.dedup();
    for prio in prios {
        let of_prio: Vec<_> = rules
            .iter()
            .filter(|(_, rule)| (rule.chain, rule.prio) == (chain, prio))
            .collect();
        let mut masks = Vec::new();
        for (_, rule) in &of_prio {
            if !masks.contains(&rule.mask()) {
                masks.push(rule.mask());
            }
        }
        for mask in masks {
            let under: Vec<_> = of_prio
                .iter()
                .filter(|(_, rule)| rule.mask() == mask)
                .collect();
            let mut ranges = Vec::new();
            for (_, rule) in &under {
                if !ranges.contains(&rule.range) {
                    ranges.push(rule.range);
                }
            }
            for range in ranges {
                let mut all = under.iter().filter(|(_, rule)| rule.range == range);
                let Some((number, rule)) =
                    all.find(|(number, rule)| !gone.contains(number) && rule.matches(flow))
                else {
                    continue;
                };
                return match rule.goto {
                    Some(next) => oracle(rules, gone, next, flow),
                    None => Some(*number),
                };
            }
        }
    }
    None
}

/// Returns the packet.
fn packet(stack: &Stack, flow: &Flow) -> Packet {
    let frame = ipv4(
        flow.proto,
        [10, 0, 0, flow.src],
        [10, 0, 0, flow.dst],
        9,
        flow.port,
    );
    let mut packet = stack.packet(&frame);
    let tunnel = flow.tunnel.map(|(id, ttl)| {
        Arc::new(Tunnel {
            ends: Ends::V4([10, 0, 0, 1], [10, 0, 0, 2]),
            options: None,
            id: u32::from(id),
            has_id: true,
            src_port: 0,
            dst_port: 4789,
            tos: 0,
            ttl,
            checksum: true,
            dont_fragment: false,
            transmit: false,
            bridge: false,
            hop: false,
        })
    });
    assert!(packet.set_tunnel(tunnel));
    packet
}

fn found(stack: &Stack, flow: &Flow) -> Option<u32> {
    let mut packet = packet(stack, flow);
    assert_eq!(stack.hook(3, true, &mut packet).0, Verdict::Pass);
    Some(u32::from(packet.tc_index)).filter(|&number| number != 0)
}

/// Returns the filters found for a batch of packets that are looked up together.
fn found_together(stack: &Stack, flows: &[Flow]) -> Vec<Option<u32>> {
    let mut batch = Batch::new();
    for flow in flows {
        batch.push(packet(stack, flow)).unwrap();
    }
    let guard = stack.domain.pin();
    let (mut copies, mut ended) = (Vec::new(), Vec::new());
    let mut zero = || 0;
    let mut cx = Context::new(&guard, 0, 0, 3, &mut zero, &mut copies);
    let mut lookup = Lookup::default();
    let tc = &stack.devices[&3].tc;
    tc.ingress_batch(&mut cx, &mut lookup, (&mut batch, None), &mut ended);
    assert_eq!(cx.whole, None);
    assert!(ended.is_empty() && copies.is_empty());
    let class = |packet: &Packet| Some(u32::from(packet.tc_index)).filter(|&number| number != 0);
    batch.iter().map(class).collect()
}

/// Deletes the filter with a number, by its priority and handle.
fn delete(stack: &Stack, rule: &Rule, handle: u32) {
    let mut w = Writer::new();
    let mark = w.message(rtm::DELTFILTER, nlm::F_REQUEST, 1, 0);
    w.fixed(&TcMsg {
        ifindex: 3,
        parent: 0xffff_fff2,
        handle,
        info: TcMsg::make_info(rule.prio, 0x0800),
        ..TcMsg::default()
    });
    w.put_str(tca::KIND, "flower");
    w.put_u32(tca::CHAIN, rule.chain);
    w.finish(mark).unwrap();
    stack.request(w.bytes()).unwrap();
}

proptest! {
    #![proptest_config(contextualize_config(ProptestConfig::with_cases(200)))]

    #[test]
    fn equals_a_linear_search(
        rules in prop::collection::vec(rule(), 1..24),
        gone in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        flows in prop::collection::vec(flow(), 1..12),
        size in 1..=64_usize,
    ) {
        let stack = stack();
        let mut added: Vec<(u32, Rule)> = Vec::new();
        let mut handles = Vec::new();
        for (number, rule) in (1..).zip(rules) {
            stack.heard();
            let twin = added.iter().any(|(_, other)| {
                (other.chain, other.prio, other.identity()) == (rule.chain, rule.prio, rule.identity())
            });
            let result = stack.request(&rule.request(number));
            prop_assert_eq!(result.is_err(), twin, "{:?}", result.err());
            if !twin {
                let heard = stack.heard();
                let new = heard.iter().rfind(|a| a.message().header.ty == rtm::NEWTFILTER);
                handles.push(new.unwrap().message().fixed::<TcMsg>().unwrap().handle);
                added.push((number, rule));
            }
        }
        for flow in &flows {
            prop_assert_eq!(found(&stack, flow), oracle(&added, &[], 0, flow), "{:?}", flow);
        }
        // From one packet to a full batch: groups that are full, partly filled, and too small.
        let many: Vec<Flow> = flows.iter().cycle().take(size).cloned().collect();
        let wanted: Vec<_> = many.iter().map(|flow| oracle(&added, &[], 0, flow)).collect();
        prop_assert_eq!(found_together(&stack, &many), wanted);
        let mut dead = Vec::new();
        for index in gone {
            let at = index.index(added.len());
            let (number, rule) = &added[at];
            if dead.contains(number) {
                continue;
            }
            delete(&stack, rule, handles[at]);
            dead.push(*number);
            for flow in &flows {
                prop_assert_eq!(found(&stack, flow), oracle(&added, &dead, 0, flow), "{:?}", flow);
            }
            let wanted: Vec<_> = many.iter().map(|flow| oracle(&added, &dead, 0, flow)).collect();
            prop_assert_eq!(found_together(&stack, &many), wanted);
        }
    }
}

/// Neighbouring addresses, as in typical rules, spread evenly over the positions and tags of a
/// table.
#[test]
fn keys_spread() {
    let packed = |n: u64| -> super::key::Packed {
        let n = n as u32;
        [0x0008_1104, 10, n, n % 7].into_iter().collect()
    };
    let mut places = vec![0_u32; 1 << 14];
    let mut hashes: Vec<u64> = (0..10_000_u64)
        .map(|n| super::mask::place(super::key::sum(&packed(n.swap_bytes() >> 40))))
        .inspect(|hash| places[(hash >> 50) as usize] += 1)
        .collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 10_000);
    assert!(
        *places.iter().max().unwrap() < 9,
        "{:?}",
        places.iter().max()
    );
}
