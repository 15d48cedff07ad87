// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of dissection. Well-formed frames are compared with an independent parser (etherparse).
//! Arbitrary bytes must not cause a panic, and no group of keys may depend on which others are
//! wanted.

use etherparse::{LinkExtSlice, NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use proptest::test_runner::contextualize_config;
use weir_packet::dissect::{ADDR_IPV4, ADDR_IPV6, FIRST_FRAGMENT, IS_FRAGMENT, dissect_frame};
use weir_packet::header::ethernet::ethernet;
use weir_packet::header::ipv4::{fill_check, ipv4};
use weir_packet::header::ipv6::ipv6;
use weir_packet::{FlowKeys, Pool, PoolConfig, Used, VlanTag, dissect, five_tuple_hash, flow_hash};

/// Generates a transport header and its protocol.
fn transport() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let tcp = (any::<[u8; 20]>(), 5u8..=15).prop_map(|(mut h, words)| {
        h[12] = words << 4 | h[12] & 15;
        let mut v = h.to_vec();
        v.resize(usize::from(words) * 4, 1);
        (6, v)
    });
    let udp = any::<[u8; 4]>().prop_map(|p| (17, [&p[..], &[0, 8, 0, 0]].concat()));
    let icmp =
        (any::<[u8; 8]>(), prop_oneof![Just(1u8), Just(58)]).prop_map(|(h, p)| (p, h.to_vec()));
    let other = (200u8..=250, proptest::collection::vec(any::<u8>(), 0..30));
    prop_oneof![4 => tcp, 3 => udp, 2 => icmp, 1 => other]
}

fn v4() -> impl Strategy<Value = (u16, Vec<u8>)> {
    let frag =
        prop_oneof![4 => Just(0u16), 2 => Just(0x4000), 1 => Just(0x2000), 1 => any::<u16>()];
    let fields = (any::<[u8; 4]>(), any::<[u8; 4]>(), any::<u8>(), any::<u8>());
    (fields, frag, 0usize..=10, transport()).prop_map(|((s, d, ttl, tos), frag, words, (p, t))| {
        let options = vec![1u8; words * 4];
        let h = ipv4(s, d, p, ttl, tos, 7, frag & 0x7fff, words * 4 + t.len());
        let mut b = [&h[..], &options, &t].concat();
        b[0] = 0x45 + words as u8;
        assert!(fill_check(&mut b));
        (0x0800, b)
    })
}

fn v6() -> impl Strategy<Value = (u16, Vec<u8>)> {
    // In the order and number that RFC 8200 recommends, which etherparse requires.
    let ext = (any::<[bool; 4]>(), 0u8..3, any::<u16>());
    let fields = (
        any::<[u8; 16]>(),
        any::<[u8; 16]>(),
        any::<u8>(),
        any::<u8>(),
        0u32..1 << 20,
    );
    (fields, ext, transport()).prop_map(|((s, d, hop, class, label), (on, len, frag), (p, t))| {
        let kinds = [0u8, 60, 43, 44];
        let chain: Vec<u8> = kinds
            .iter()
            .zip(on)
            .filter(|(_, on)| *on)
            .map(|(k, _)| *k)
            .collect();
        let mut body = Vec::new();
        for (i, kind) in chain.iter().enumerate() {
            let next = chain.get(i + 1).copied().unwrap_or(p);
            if *kind == 44 {
                let [a, b] = frag.to_be_bytes();
                body.extend([next, 0, a, b, 1, 2, 3, 4]);
            } else {
                body.extend([next, len]);
                body.resize(body.len() + 6 + usize::from(len) * 8, 0);
            }
        }
        body.extend(t);
        let first = chain.first().copied().unwrap_or(p);
        (
            0x86dd,
            [&ipv6(s, d, first, hop, class, label, body.len())[..], &body].concat(),
        )
    })
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let tags = proptest::collection::vec(
        (prop_oneof![Just(0x8100u16), Just(0x88a8)], any::<u16>()),
        0..=3,
    );
    let arp = (any::<[u8; 20]>(), 1u16..4).prop_map(|(a, op)| {
        let [x, y] = op.to_be_bytes();
        (0x0806u16, [&[0, 1, 8, 0, 6, 4, x, y][..], &a].concat())
    });
    let net = prop_oneof![4 => v4(), 4 => v6(), 1 => arp];
    (any::<[u8; 6]>(), any::<[u8; 6]>(), tags, net).prop_map(|(dst, src, tags, (proto, body))| {
        let mut protos: Vec<u16> = tags.iter().map(|t| t.0).collect();
        protos.push(proto);
        let mut f = ethernet(dst, src, protos[0]).to_vec();
        for (i, (_, tci)) in tags.iter().enumerate() {
            f.extend(tci.to_be_bytes());
            f.extend(protos[i + 1].to_be_bytes());
        }
        f.extend(body);
        f
    })
}

fn keys(frame: &[u8], used: Used) -> (FlowKeys, bool, usize) {
    let mut k = FlowKeys::EMPTY;
    let d = dissect_frame(frame, used, &mut k);
    (k, d.good, d.transport)
}

fn wide(a: &[u8]) -> [u8; 16] {
    let mut w = [0; 16];
    w[..a.len()].copy_from_slice(a);
    w
}

proptest! {
    #![proptest_config(contextualize_config(ProptestConfig::with_cases(if cfg!(miri) { 5 } else { 2000 })))]

    #[test]
    fn agrees_with_etherparse(f in frame()) {
        let (k, good, at) = keys(&f, Used::ALL);
        let peer = SlicedPacket::from_ethernet(&f).unwrap();
        let link = peer.link.as_ref().and_then(|l| l.to_header()).and_then(|l| l.ethernet2()).unwrap();
        prop_assert_eq!((k.eth_dst, k.eth_src), (link.destination, link.source));
        let tags: Vec<_> = peer.link_exts.iter().filter_map(|e| match e {
            LinkExtSlice::Vlan(v) => Some(v.clone()),
            LinkExtSlice::Macsec(_) => None,
        }).collect();
        prop_assert_eq!(usize::from(k.num_of_vlans), tags.len());
        for (tag, key) in tags.iter().zip([k.vlan, k.cvlan]) {
            prop_assert_eq!(key.id, u16::from(tag.vlan_identifier()));
            prop_assert_eq!(key.priority, u8::from(tag.priority_code_point()));
            prop_assert_eq!(key.eth_type, tag.ether_type().0);
        }
        let fragment = k.ip_flags & IS_FRAGMENT != 0;
        match peer.net.as_ref().unwrap() {
            NetSlice::Ipv4(ip) => {
                let h = ip.header();
                prop_assert_eq!((k.n_proto, k.addr_type, k.ip_proto), (0x0800, ADDR_IPV4, h.protocol().0));
                prop_assert_eq!((k.src, k.dst), (wide(&h.source()), wide(&h.destination())));
                prop_assert_eq!((k.tos, k.ttl), (h.dcp().value() << 2 | u8::from(h.ecn()), h.ttl()));
                prop_assert_eq!(fragment, ip.is_payload_fragmented());
                let first = fragment && h.fragments_offset().value() == 0;
                prop_assert_eq!(k.ip_flags & FIRST_FRAGMENT != 0, first);
                prop_assert_eq!(at, tags.len() * 4 + usize::from(h.ihl()) * 4);
            }
            NetSlice::Ipv6(ip) => {
                let h = ip.header();
                prop_assert_eq!((k.n_proto, k.addr_type), (0x86dd, ADDR_IPV6));
                prop_assert_eq!((k.src, k.dst), (h.source(), h.destination()));
                prop_assert_eq!((k.tos, k.ttl), (h.traffic_class(), h.hop_limit()));
                prop_assert_eq!(k.flow_label, h.flow_label().value());
                // Etherparse calls a fragment header of a whole packet "not fragmented".
                prop_assert!(fragment || !ip.is_payload_fragmented());
                if !ip.is_payload_fragmented() || k.ip_flags & FIRST_FRAGMENT != 0 {
                    prop_assert_eq!(k.ip_proto, ip.payload().ip_number.0);
                }
            }
            NetSlice::Arp(arp) => {
                let op = arp.operation().0;
                prop_assert_eq!(good, op < 3);
                if good {
                    let eth = arp.to_packet().try_eth_ipv4().unwrap();
                    prop_assert_eq!(u16::from(k.arp_op), op);
                    prop_assert_eq!((k.arp_sha, k.arp_sip), (eth.sender_mac, eth.sender_ipv4));
                    prop_assert_eq!((k.arp_tha, k.arp_tip), (eth.target_mac, eth.target_ipv4));
                }
                return Ok(());
            }
        }
        prop_assert!(good);
        if fragment {
            prop_assert_eq!((k.src_port, k.dst_port, k.tcp_flags, k.icmp_type), (0, 0, 0, 0));
            return Ok(());
        }
        match peer.transport {
            Some(TransportSlice::Tcp(t)) => {
                prop_assert_eq!((k.src_port, k.dst_port), (t.source_port(), t.destination_port()));
                prop_assert_eq!(k.tcp_flags & 1 != 0, t.fin());
                prop_assert_eq!(k.tcp_flags & 16 != 0, t.ack());
                prop_assert_eq!(k.tcp_flags & 128 != 0, t.cwr());
            }
            Some(TransportSlice::Udp(u)) => {
                prop_assert_eq!((k.src_port, k.dst_port), (u.source_port(), u.destination_port()));
            }
            Some(TransportSlice::Icmpv4(i)) => {
                prop_assert_eq!((k.icmp_type, k.icmp_code), (i.type_u8(), i.code_u8()));
            }
            Some(TransportSlice::Icmpv6(i)) => {
                prop_assert_eq!((k.icmp_type, k.icmp_code), (i.type_u8(), i.code_u8()));
            }
            None => prop_assert_eq!((k.src_port, k.dst_port), (0, 0)),
        }
    }

    /// A frame truncated anywhere gives no keys that the whole one does not give.
    #[test]
    fn cut_frames(f in frame(), cut in any::<prop::sample::Index>()) {
        let (whole, ..) = keys(&f, Used::ALL);
        let (part, _, at) = keys(&f[..cut.index(f.len() + 1)], Used::ALL);
        prop_assert!(at <= f.len());
        for (p, w) in part.words().iter().zip(whole.words()) {
            for (p, w) in p.to_ne_bytes().iter().zip(w.to_ne_bytes()) {
                prop_assert!(*p == w || *p == 0 || part.ip_proto != whole.ip_proto || part.n_proto != whole.n_proto);
            }
        }
    }

    /// Arbitrary bytes cause no panic; wanted keys do not depend on which other groups are wanted;
    /// stale keys of wanted groups are overwritten.
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200), f in frame(), at in any::<prop::sample::Index>(), used in any::<u32>()) {
        let mut f = f;
        let from = at.index(f.len());
        for (to, b) in f[from..].iter_mut().zip(&bytes) {
            *to = *b;
        }
        for frame in [&bytes, &f] {
            let (all, good, end) = keys(frame, Used::ALL);
            let groups = [Used::ETH, Used::VLAN, Used::CVLAN, Used::ADDRS, Used::IP, Used::PORTS, Used::TCP, Used::ICMP, Used::PPPOE, Used::SESSION, Used::FLOW_LABEL];
            // MPLS and ARP decide how far the walk goes, so they are always included.
            let mut some = Used::MPLS | Used::ARP;
            for (i, g) in groups.iter().enumerate() {
                if used & 1 << i != 0 {
                    some |= *g;
                }
            }
            let (k, good2, end2) = keys(frame, some);
            prop_assert_eq!((good, end), (good2, end2));
            prop_assert_eq!((all.n_proto, all.ip_proto, all.addr_type, all.ip_flags), (k.n_proto, k.ip_proto, k.addr_type, k.ip_flags));
            let same = |g: Used, a: &[u8], b: &[u8]| if some.has(g) { a == b } else { b.iter().all(|b| *b == 0) };
            prop_assert!(same(Used::ETH, &all.eth_src, &k.eth_src));
            prop_assert!(same(Used::ADDRS, &all.dst, &k.dst));
            prop_assert!(same(Used::PORTS, &all.dst_port.to_ne_bytes(), &k.dst_port.to_ne_bytes()));
            prop_assert!(same(Used::ICMP, &[all.icmp_type], &[k.icmp_type]));
            prop_assert!(same(Used::IP, &[all.tos, all.ttl], &[k.tos, k.ttl]));
            let mut stale = FlowKeys::EMPTY;
            stale.words_mut().fill(u64::MAX);
            dissect_frame(frame, Used::ALL, &mut stale);
            prop_assert_eq!((stale.src, stale.vlan, stale.cvlan, stale.mpls), (all.src, all.vlan, all.cvlan, all.mpls));
            prop_assert_eq!((stale.arp_op, stale.tcp_flags, stale.num_of_vlans, stale.ppp_proto), (all.arp_op, all.tcp_flags, all.num_of_vlans, all.ppp_proto));
            prop_assert_eq!((stale.spi, stale.l2tpv3_sid, stale.flow_label, stale.mpls_used), (all.spi, all.l2tpv3_sid, all.flow_label, all.mpls_used));
        }
    }

    /// The hash of a packet is that of its keys, whether or not it needs them, also where bytes are arbitrary or end
    /// early.
    #[test]
    fn the_hash_of_a_packet_is_that_of_its_keys(
        f in frame(), bytes in proptest::collection::vec(any::<u8>(), 0..60), at in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(), tag in any::<Option<u16>>(), seed in any::<u64>(),
    ) {
        let pool = Pool::new(PoolConfig { limit: 2 << 20, ..PoolConfig::default() });
        let mut other = f.clone();
        let from = at.index(f.len());
        for (to, b) in other[from..].iter_mut().zip(&bytes) {
            *to = *b;
        }
        let part = f[..14 + cut.index(f.len() - 13)].to_vec();
        for frame in [f, other, part] {
            let mut packet = pool.packet(&frame).unwrap();
            packet.protocol = u16::from_be_bytes([frame[12], frame[13]]);
            packet.set_network(14);
            packet.set_vlan(tag.map(|tci| VlanTag { proto: 0x8100, tci }));
            let mut keys = FlowKeys::EMPTY;
            dissect(&packet, Used::FIVE_TUPLE, &mut keys);
            prop_assert_eq!(five_tuple_hash(&packet, seed), flow_hash(&keys, seed));
        }
    }

    #[test]
    fn hash_is_symmetric(src in any::<[u8; 16]>(), dst in any::<[u8; 16]>(), sp in any::<u16>(), dp in any::<u16>(), seed in any::<u64>()) {
        let mut k = FlowKeys { src, dst, src_port: sp, dst_port: dp, ip_proto: 6, ..FlowKeys::EMPTY };
        let h = flow_hash(&k, seed);
        (k.src, k.dst, k.src_port, k.dst_port) = (dst, src, dp, sp);
        prop_assert_eq!(h, flow_hash(&k, seed));
        prop_assert_ne!(h, 0);
    }
}

/// Hashes of neighbouring flows spread evenly over a few buckets.
#[test]
fn hash_spreads() {
    let mut buckets = [0u32; 16];
    let n = 1 << 14;
    for i in 0..n {
        let mut k = FlowKeys {
            ip_proto: 17,
            addr_type: ADDR_IPV4,
            dst_port: 53,
            ..FlowKeys::EMPTY
        };
        k.set_src_v4([10, 0, (i >> 8) as u8, i as u8]);
        k.set_dst_v4([192, 0, 2, 1]);
        k.src_port = (i % 7) as u16;
        buckets[(flow_hash(&k, 42) % 16) as usize] += 1;
    }
    for b in buckets {
        assert!(
            (n / 16 * 9 / 10..n / 16 * 11 / 10).contains(&b),
            "{buckets:?}"
        );
    }
}
