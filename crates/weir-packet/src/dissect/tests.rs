// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::header::ethernet::ethernet;
use crate::header::ipv4::ipv4;
use crate::header::ipv6::ipv6;
use crate::header::transport::{tcp, udp};
use crate::{Pool, PoolConfig};

/// Dissects the given bytes behind an Ethernet header of this type.
fn keys(ethertype: u16, parts: &[&[u8]]) -> (FlowKeys, Dissected) {
    let mut k = FlowKeys::EMPTY;
    let frame = [&ethernet([2; 6], [4; 6], ethertype)[..], &parts.concat()].concat();
    let d = dissect_frame(&frame, Used::ALL, &mut k);
    (k, d)
}

fn ip(protocol: u8, frag: u16, len: usize) -> [u8; 20] {
    ipv4(
        [10, 0, 0, 1],
        [10, 0, 0, 2],
        protocol,
        63,
        0x10,
        1,
        frag,
        len,
    )
}

#[test]
fn ipv4_tcp_in_vlan() {
    let (mut k, d) = keys(
        0x8100,
        &[
            &[0xa0, 0x64, 8, 0],
            &ip(6, 0, 20),
            &tcp(0x1234, 80, 0, 0, 0x12),
        ],
    );
    assert_eq!((d.good, d.transport), (true, 24));
    assert_eq!((k.n_proto, k.ip_proto, k.addr_type), (0x0800, 6, ADDR_IPV4));
    assert_eq!((k.eth_dst, k.eth_src), ([2; 6], [4; 6]));
    assert_eq!(
        (k.vlan.id, k.vlan.priority, k.vlan.dei, k.vlan.tpid),
        (100, 5, 0, 0x8100)
    );
    assert_eq!((k.vlan.eth_type, k.num_of_vlans), (0x0800, 1));
    assert_eq!((k.src_port, k.dst_port, k.tcp_flags), (0x1234, 80, 0x12));
    assert_eq!((k.tos, k.ttl), (0x10, 63));
    assert_eq!((k.src_v4(), k.dst_v4()), ([10, 0, 0, 1], [10, 0, 0, 2]));
    let h = flow_hash(&k, 7);
    std::mem::swap(&mut k.src, &mut k.dst);
    std::mem::swap(&mut k.src_port, &mut k.dst_port);
    assert_eq!(h, flow_hash(&k, 7));
    assert_ne!(h, flow_hash(&k, 8));
}

/// The fast path and the slow path give the same result, with and without a tag in the metadata.
#[test]
fn fast_and_slow_path_agree() {
    let v4 = [&ip(17, 0x4000, 20)[..], &udp(5, 6, 12), &[0; 12]].concat();
    let v6 = [
        &ipv6([1; 16], [2; 16], 6, 9, 8, 7, 20)[..],
        &tcp(5, 6, 0, 0, 0xfff),
    ]
    .concat();
    for (protocol, data) in [(ETH_P_IP, v4), (ETH_P_IPV6, v6)] {
        for tag in [
            None,
            Some(VlanTag {
                proto: 0x88a8,
                tci: 0xffff,
            }),
        ] {
            for used in [Used::ALL, Used::FIVE_TUPLE, Used::VLAN, Used::TCP, Used::IP] {
                let (mut short, mut long) = (FlowKeys::EMPTY, FlowKeys::EMPTY);
                let a = dissect_network(&data, protocol, tag, used, &mut short);
                let b = slow_path(&data, protocol, tag, used, &mut long);
                assert_eq!((short, a), (long, b), "{protocol:#x} {tag:?} {used:?}");
            }
        }
    }
}

#[test]
fn a_packet_with_its_outer_tag_in_the_metadata() {
    let pool = Pool::new(PoolConfig::default());
    let frame = [
        &ethernet([2; 6], [4; 6], 0x8100)[..],
        &[0, 7, 8, 0],
        &ip(1, 0, 8),
        &[8, 1, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    let mut p = pool.packet(&frame).unwrap();
    p.reset_mac();
    p.set_network(14);
    p.protocol = 0x8100;
    p.set_vlan(Some(VlanTag {
        proto: 0x88a8,
        tci: 0x3005,
    }));
    (p.iif, p.hash) = (4, 99);
    let mut k = FlowKeys::EMPTY;
    assert!(dissect(&p, Used::ALL, &mut k).good);
    assert_eq!((k.vlan.id, k.vlan.priority, k.vlan.dei), (5, 1, 1));
    assert_eq!((k.vlan.tpid, k.vlan.eth_type), (0x88a8, 0x8100));
    assert_eq!(
        (k.cvlan.id, k.cvlan.tpid, k.cvlan.eth_type),
        (7, 0x8100, 0x0800)
    );
    assert_eq!((k.num_of_vlans, k.icmp_type, k.icmp_code), (2, 8, 1));
    assert_eq!((k.ingress_ifindex, k.hash, k.eth_src), (4, 99, [4; 6]));
    p.unset_mac();
    dissect(&p, Used::ALL, &mut k);
    assert_eq!((k.eth_src, k.eth_dst), ([0; 6], [0; 6]));
}

#[test]
fn fragments_have_no_ports() {
    let seg = tcp(1, 2, 0, 0, 2);
    for (frag, flags) in [
        (IP_MF, IS_FRAGMENT | FIRST_FRAGMENT),
        (IP_MF | 5, IS_FRAGMENT),
        (5, IS_FRAGMENT),
    ] {
        let (k, d) = keys(0x0800, &[&ip(6, frag, 20), &seg]);
        assert_eq!(
            (k.ip_flags, k.src_port, k.tcp_flags, k.ip_proto),
            (flags, 0, 0, 6)
        );
        assert_eq!((d.good, d.transport), (true, 20));
        let data = [&ip(6, frag, 20)[..], &seg].concat();
        let mut k = FlowKeys::EMPTY;
        dissect_network(
            &data,
            ETH_P_IP,
            None,
            Used::ALL | Used::FIRST_FRAGMENT,
            &mut k,
        );
        let first = flags & FIRST_FRAGMENT != 0;
        assert_eq!((k.src_port, k.tcp_flags), (0, if first { 2 } else { 0 }));
    }
    let v6 = |off: u8| {
        keys(
            0x86dd,
            &[
                &ipv6([1; 16], [2; 16], 44, 9, 0, 0, 28),
                &[6, 0, 0, off, 0, 0, 0, 1],
                &seg,
            ],
        )
    };
    assert_eq!(
        (v6(1).0.ip_flags, v6(1).0.ip_proto),
        (IS_FRAGMENT | FIRST_FRAGMENT, 6)
    );
    assert_eq!(
        (v6(8).0.ip_flags, v6(8).0.src_port, v6(8).1.transport),
        (IS_FRAGMENT, 0, 48)
    );
}

#[test]
fn mpls_up_to_seven_labels() {
    let lse = |label: u32, bos: u32| (label << 12 | 5 << 9 | bos << 8 | 64).to_be_bytes();
    let (k, d) = keys(0x8847, &[&lse(16, 0), &lse(17, 1), &ip(6, 0, 0)]);
    assert_eq!(
        (k.n_proto, k.mpls_used, k.ip_proto, d.good),
        (0x8847, 3, 0, true)
    );
    assert_eq!(
        k.mpls[1],
        MplsLse {
            label: 17,
            tc: 5,
            bos: 1,
            ttl: 64,
            pad: 0
        }
    );
    let many: Vec<u8> = (0..9).flat_map(|i| lse(i, 0)).collect();
    let (k, d) = keys(0x8847, &[&many]);
    assert_eq!((k.mpls_used, k.mpls[6].label, d.good), (0x7f, 6, true));
    let (k, d) = keys(0x8848, &[&lse(1, 0), &[0, 0]]);
    assert_eq!((k.mpls_used, d.good, d.transport), (1, false, 4));
    let (k, _) = keys(0x0800, &[&ip(137, 0, 4), &lse(9, 1)]);
    assert_eq!((k.mpls[0].label, k.ip_proto, k.n_proto), (9, 137, 0x8847));
}

#[test]
fn pppoe_hsr_and_session_ids() {
    let head = |p: [u8; 2]| [0x11, 0, 0x12, 0x34, 0, 30, p[0], p[1]];
    let (k, d) = keys(0x8864, &[&head([0, 0x21]), &ip(17, 0, 8), &udp(7, 8, 0)]);
    assert_eq!(
        (k.pppoe_sid, k.ppp_proto, k.n_proto, k.dst_port),
        (0x1234, 0x21, 0x0800, 8)
    );
    assert_eq!(d.transport, 28);
    let (k, d) = keys(0x8864, &[&head([0xc0, 0x21])]);
    assert_eq!(
        (k.ppp_proto, k.n_proto, d.good),
        (0xc021, 0x8864, true),
        "LCP"
    );
    for bad in [[0x01, 0x21], [0, 0x20]] {
        assert!(!keys(0x8864, &[&head(bad)]).1.good);
    }
    assert!(
        !keys(0x8864, &[&[0x12, 0, 0, 0, 0, 0, 0, 0x21]]).1.good,
        "version and type"
    );
    let (k, _) = keys(0x892f, &[&[0, 0, 0, 0, 8, 0], &ip(6, 0, 0)]);
    assert_eq!((k.n_proto, k.ip_proto), (0x0800, 6));
    let (k, _) = keys(0x0800, &[&ip(50, 0, 8), &[1, 2, 3, 4, 5, 6, 7, 8]]);
    assert_eq!(
        (k.spi, k.src_port, k.dst_port),
        (0x0102_0304, 0x0102, 0x0304)
    );
    let (k, _) = keys(0x0800, &[&ip(51, 0, 8), &[1, 2, 3, 4, 5, 6, 7, 8]]);
    assert_eq!(
        (k.spi, k.src_port, k.dst_port),
        (0x0506_0708, 0x0506, 0x0708)
    );
    let (k, _) = keys(0x0800, &[&ip(115, 0, 4), &[0, 0, 1, 0]]);
    assert_eq!((k.l2tpv3_sid, k.src_port), (0x100, 0));
}

#[test]
fn stops_before_tunnels_and_at_unknown_protocols() {
    let inner = ip(17, 0, 8);
    for protocol in [4u8, 41, 47] {
        let (k, d) = keys(0x0800, &[&ip(protocol, 0, 20), &inner, &udp(1, 2, 0)]);
        assert_eq!((k.ip_proto, k.src_port, k.ip_flags), (protocol, 0, 0));
        assert_eq!((k.n_proto, d.good, d.transport), (0x0800, true, 20));
    }
    let (k, d) = keys(0x88b5, &[&[1; 50]]);
    assert_eq!((k.n_proto, d.good, d.transport), (0x88b5, false, 0));
    let (k, d) = keys(0x0806, &[&[0, 1, 8, 0, 6, 4, 0, 3], &[7; 20]]);
    assert_eq!(
        (k.arp_op, k.arp_sip, d.good),
        (0, [0; 4], false),
        "neither request nor reply"
    );
    // An endless chain of tags: the walk ends anyway.
    let (k, d) = keys(0x8100, &[&[0, 1, 0x81, 0].repeat(300)]);
    assert_eq!((k.num_of_vlans, k.n_proto, d.good), (16, 0x8100, true));
    let (k, d) = keys(
        0x86dd,
        &[
            &ipv6([1; 16], [2; 16], 60, 9, 0, 0, 0),
            &[60, 0, 0, 0, 0, 0, 0, 0].repeat(300),
        ],
    );
    assert_eq!((k.ip_proto, d.good, d.transport), (60, true, 40 + 16 * 8));
}

#[test]
fn a_short_tcp_header_has_ports_but_no_flags() {
    let mut t = tcp(1, 2, 0, 0, 0x12);
    t[12] = 0x40;
    let (k, _) = keys(0x0800, &[&ip(6, 0, 20), &t]);
    assert_eq!((k.src_port, k.tcp_flags), (1, 0));
    let (k, _) = keys(0x0800, &[&ip(6, 0, 20), &tcp(1, 2, 0, 0, 0x12)[..4]]);
    assert_eq!((k.src_port, k.dst_port, k.tcp_flags), (1, 2, 0));
    let (k, d) = keys(0x0800, &[&[0x44], &ip(6, 0, 0)[1..]]);
    assert_eq!(
        (k.addr_type, d.good),
        (ADDR_NONE, false),
        "header length below 20"
    );
}
