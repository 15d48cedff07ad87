// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bytes of a frame into dissection, every header walk, and the header edits.
//!
//! Invariants: dissection stays inside the frame and does not depend on which other keys are
//! requested; pushing and popping a VLAN tag leaves the frame unchanged; decrementing a TTL keeps a
//! correct header checksum correct.

use weir_packet::dissect::dissect_frame;
use weir_packet::edit::{ipv4_decrement_ttl, untag, vlan_pop, vlan_push, vlan_to_data};
use weir_packet::header::{Ethernet, Icmp, ipv4, ipv4_options, ipv6, ipv6_ext, ndisc, transport};
use weir_packet::{FlowKeys, Packet, Pool, PoolConfig, Used, checksum};

/// Dissects a frame and edits it.
pub fn run(bytes: &[u8]) {
    dissection(bytes);
    let payload = bytes.get(Ethernet::LEN..).unwrap_or_default();
    walks(payload);
    let pool = Pool::new(PoolConfig {
        limit: 1,
        huge_pages: false,
        ..PoolConfig::default()
    });
    if let Some(packet) = pool.packet(bytes) {
        edits(packet);
    }
}

fn dissection(frame: &[u8]) {
    let mut all = FlowKeys::EMPTY;
    let end = dissect_frame(frame, Used::ALL, &mut all);
    assert!(end.transport <= frame.len(), "ends outside");
    let mut some = FlowKeys::EMPTY;
    let groups = Used::MPLS | Used::ARP | Used::PORTS;
    assert_eq!(dissect_frame(frame, groups, &mut some), end, "another way");
    let (a, b) = (
        (all.ip_proto, all.src_port, all.ip_flags),
        (some.ip_proto, some.src_port, some.ip_flags),
    );
    assert_eq!(a, b, "keys depend on the groups requested");
}

fn walks(payload: &[u8]) {
    if let Some(header) = ipv4::whole_header(payload) {
        let _ = ipv4_options::options(header).count();
        let mut header = header.to_vec();
        let here = ipv4_options::Here {
            address: [192, 0, 2, 1],
            time: 1,
            elsewhere: &|ip| ip[3] & 1 == 1,
        };
        if let Ok(options) = ipv4_options::compile(&mut header, &here) {
            ipv4_options::forward(&mut header, &options, [192, 0, 2, 2]);
            ipv4_options::fragment(&mut header);
            assert!(
                ipv4_options::options(&header).all(|o| o.is_ok()),
                "compiled options walk"
            );
        }
        assert!(ipv4::fill_check(&mut header) && checksum::verify(&header));
        ipv4_decrement_ttl(&mut header);
        assert!(checksum::verify(&header), "checksum after the TTL");
    }
    let mut walk = ipv6_ext::extensions(payload);
    for ext in walk.by_ref().flatten() {
        let _ = ipv6_ext::check_options(ext.bytes, ext.kind == ipv6::NEXTHDR_HOP, 8);
    }
    let up = ipv6::upper_layer(payload);
    if let Some(up) = up.filter(|up| up.offset <= payload.len() && !up.later_fragment) {
        assert_eq!((up.protocol, up.offset), walk.upper(), "two walks differ");
        let message = payload.get(up.offset..).unwrap_or_default();
        let _ = Icmp::new(message).map(|i| i.icmp_type());
        let _ = ndisc::options(message.get(24..).unwrap_or_default()).count();
        let _ = transport::tcp_options(message).count();
    }
}

fn edits(mut packet: Packet) {
    packet.reset_mac();
    packet.set_network(Ethernet::LEN);
    let Some(ethertype) = Ethernet::new(packet.data()).map(|e| e.ethertype()) else {
        return;
    };
    packet.protocol = ethertype;
    let before = packet.data().to_vec();
    vlan_push(&mut packet, 0x88a8, 5).expect("there is room and a header");
    vlan_push(&mut packet, 0x8100, 6).expect("there is room and a header");
    assert_eq!(packet.len(), before.len() + 4);
    for tci in [6, 5] {
        let popped = vlan_pop(&mut packet);
        // The tag below ours may be truncated.
        if popped.is_ok() {
            assert_eq!(popped.map(|t| t.map(|t| t.tci)), Ok(Some(tci)));
        }
    }
    if packet.vlan().is_some() {
        let _ = vlan_to_data(&mut packet);
    }
    assert_eq!(packet.data(), before, "pushed and popped");
    if untag(&mut packet).is_some() && packet.vlan().is_some() {
        assert_eq!(vlan_to_data(&mut packet), Ok(()));
        assert_eq!(packet.data(), before, "untagged and tagged");
    }
}
