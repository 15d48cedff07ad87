// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::header::ethernet::ethernet;
use crate::header::ipv4::{self, ipv4};
use crate::{Pool, PoolConfig};

fn pool() -> Pool {
    Pool::new(PoolConfig {
        limit: 1,
        ..PoolConfig::default()
    })
}

/// Creates a frame as receive leaves it: MAC header set, network header after it, `pulled` bytes
/// pulled.
fn received(pool: &Pool, frame: &[u8], pulled: usize) -> Packet {
    let mut p = pool.packet(frame).unwrap();
    p.reset_mac();
    p.set_network(14);
    p.protocol = u16::from_be_bytes([frame[12], frame[13]]);
    assert!(p.pull(pulled));
    p
}

const ADDRS: [u8; 12] = [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2];

fn tagged(tags: &[[u8; 4]], rest: &[u8]) -> Vec<u8> {
    [&ADDRS[..], &tags.concat(), rest].concat()
}

const OUTER: [u8; 4] = [0x88, 0xa8, 0x20, 0x05];
const INNER: [u8; 4] = [0x81, 0x00, 0x00, 0x07];
const IP: [u8; 6] = [0x08, 0x00, 0x45, 1, 2, 3];

#[test]
fn untag_moves_the_outer_tag() {
    let pool = pool();
    let mut p = received(&pool, &tagged(&[OUTER, INNER], &IP), 0);
    assert_eq!(untag(&mut p), Some(0x8100));
    assert_eq!(
        p.vlan(),
        Some(VlanTag {
            proto: 0x88a8,
            tci: 0x2005
        })
    );
    assert_eq!(p.data(), tagged(&[INNER], &IP));
    assert_eq!((p.mac(), p.network()), (p.data(), &p.data()[14..]));
    assert_eq!(untag(&mut p), Some(0x8100), "only one tag is held");
    let mut p = received(&pool, &tagged(&[INNER], &[8]), 0);
    assert_eq!(untag(&mut p), None, "cut off");
}

#[test]
fn push_and_pop_are_inverse() {
    for pulled in [0, 14] {
        let pool = pool();
        let mut p = received(&pool, &tagged(&[], &IP), pulled);
        vlan_push(&mut p, 0x8100, 7).unwrap();
        assert_eq!(p.mac(), tagged(&[], &IP));
        assert_eq!(p.protocol, 0x0800, "the tag is in the metadata");
        vlan_push(&mut p, 0x88a8, 0x2005).unwrap();
        assert_eq!(p.mac(), tagged(&[INNER], &IP));
        assert_eq!((p.protocol, p.network()), (0x8100, &p.mac()[18..]));
        assert_eq!(p.len(), if pulled == 0 { 22 } else { 4 });
        vlan_to_data(&mut p).unwrap();
        assert_eq!(p.mac(), tagged(&[OUTER, INNER], &IP));
        assert_eq!((p.protocol, p.vlan()), (0x88a8, None));
        assert_eq!(vlan_pop(&mut p).unwrap().map(|t| t.tci), Some(0x2005));
        assert_eq!(p.vlan().map(|t| (t.proto, t.tci)), Some((0x8100, 7)));
        assert_eq!((p.mac(), p.protocol), (&tagged(&[], &IP)[..], 0x0800));
        assert_eq!(p.network(), &IP[2..]);
        assert_eq!(vlan_pop(&mut p).unwrap().map(|t| t.tci), Some(7));
        assert_eq!(vlan_pop(&mut p), Ok(None));
        assert_eq!((p.mac(), p.len()), (&tagged(&[], &IP)[..], 18 - pulled));
    }
}

#[test]
fn impossible_vlan_edits_are_refused() {
    let pool = pool();
    let mut p = received(&pool, &tagged(&[], &IP), 0);
    assert!(p.push(p.headroom() - 2).is_some());
    p.reset_mac();
    vlan_push(&mut p, 0x8100, 1).unwrap();
    assert_eq!(vlan_push(&mut p, 0x8100, 2), Err(EditError::NoRoom));
    let mut p = pool.packet(&[0; 60]).unwrap();
    p.set_vlan(Some(VlanTag {
        proto: 0x8100,
        tci: 1,
    }));
    assert_eq!(
        vlan_to_data(&mut p),
        Err(EditError::Malformed),
        "no MAC header"
    );
    let mut p = received(&pool, &tagged(&[INNER], &[]), 0);
    assert_eq!(vlan_pop(&mut p), Err(EditError::Malformed));
    assert_eq!(p.data(), tagged(&[INNER], &[]));
}

#[test]
fn ttl_decrement_updates_the_checksum() {
    for ttl in 0..=255u8 {
        let mut h = ipv4([10, 1, 2, 3], [192, 0, 2, 1], 17, ttl, 0, 0xbeef, 0, 100);
        let new = ipv4_decrement_ttl(&mut h);
        assert_eq!(new, ttl.checked_sub(1));
        assert!(checksum::verify(&h), "ttl {ttl}");
        assert_eq!(ipv4::Ipv4::new(&h).unwrap().ttl(), ttl.saturating_sub(1));
    }
    assert_eq!(ipv4_decrement_ttl(&mut [0; 19]), None);
    let mut h = crate::header::ipv6::ipv6([0; 16], [1; 16], 6, 2, 0, 0, 0);
    assert_eq!(ipv6_decrement_hop_limit(&mut h), Some(1));
    assert_eq!(ipv6_decrement_hop_limit(&mut h), Some(0));
    assert_eq!(ipv6_decrement_hop_limit(&mut h), None);
}

#[test]
fn ethernet_header_bytes() {
    assert_eq!(ethernet([1; 6], [2; 6], 0x0800), tagged(&[], &IP)[..14]);
}

#[test]
fn labels_are_pushed_and_popped() {
    for pulled in [0, 14] {
        let pool = pool();
        let mut p = received(&pool, &tagged(&[], &IP), pulled);
        assert_eq!(mpls_pop(&mut p, 0x86dd, 14, true), Ok(()), "no label");
        mpls_push(&mut p, 0x0006_4140, 0x8847, 14, true).unwrap();
        let labelled = [0x88, 0x47, 0, 6, 0x41, 0x40, 0x45, 1, 2, 3];
        assert_eq!(p.mac(), tagged(&[], &labelled));
        assert_eq!((p.protocol, p.network()), (0x8847, &labelled[2..]));
        mpls_pop(&mut p, 0x0800, 14, true).unwrap();
        assert_eq!((p.mac(), p.protocol), (&tagged(&[], &IP)[..], 0x0800));
        assert_eq!((p.network(), p.len()), (&IP[2..], 18 - pulled));
        mpls_push(&mut p, 1, 0x8848, 0, false).unwrap();
        assert_eq!(p.network(), [&[0, 0, 0, 1][..], &tagged(&[], &IP)].concat());
    }
    let pool = pool();
    let mut p = received(&pool, &tagged(&[], &IP), 0);
    assert_eq!(
        mpls_push(&mut p, 1, 0x0800, 14, true),
        Err(EditError::Malformed)
    );
    p.protocol = 0x8847;
    assert_eq!(
        mpls_pop(&mut p, 0x0800, 15, true),
        Err(EditError::Malformed),
        "18 bytes"
    );
}

#[test]
fn ethernet_headers_are_pushed_and_popped() {
    let pool = pool();
    let mut p = received(&pool, &tagged(&[], &IP), 14);
    assert_eq!(
        eth_push(&mut p, [3; 6], [4; 6]),
        Err(EditError::Malformed),
        "there is one"
    );
    eth_pop(&mut p).unwrap();
    assert_eq!((p.mac(), p.network()), (&IP[2..], &IP[2..]));
    assert_eq!(eth_pop(&mut p), Err(EditError::Malformed), "there is none");
    eth_push(&mut p, [3; 6], [4; 6]).unwrap();
    assert_eq!(p.mac(), [&[3; 6][..], &[4; 6], &[8, 0], &IP[2..]].concat());
    vlan_push(&mut p, 0x8100, 1).unwrap();
    assert_eq!(eth_pop(&mut p), Err(EditError::Malformed), "tagged");
}

#[test]
fn only_ecn_capable_packets_are_marked() {
    for tos in 0..=255 {
        let mut h = ipv4([10, 1, 2, 3], [192, 0, 2, 1], 17, 9, tos, 0xbeef, 0, 100);
        let set = ipv4_set_ce(&mut h);
        assert_eq!(set, tos & 3 != 0, "tos {tos}");
        assert!(checksum::verify(&h), "tos {tos}");
        let expected = if set { tos | 3 } else { tos };
        assert_eq!(ipv4::Ipv4::new(&h).unwrap().tos(), expected);
        let mut h = [6 << 4 | tos >> 4, tos << 4 | 5, 9];
        assert_eq!(ipv6_set_ce(&mut h), set);
        assert_eq!(h, [6 << 4 | tos >> 4, expected << 4 | 5, 9]);
    }
    assert!(!ipv4_set_ce(&mut [0; 19]) && !ipv6_set_ce(&mut [6]));
}
