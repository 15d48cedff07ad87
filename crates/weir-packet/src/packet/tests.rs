// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::{Pool, PoolConfig};
use weir_sync::list::LocklessList;

fn pool(pages: usize) -> Pool {
    Pool::new(PoolConfig {
        limit: pages * PAGE,
        ..PoolConfig::default()
    })
}

#[test]
fn data_grows_and_shrinks_within_the_frame() {
    let pool = pool(1);
    let mut p = pool.packet(b"hello").unwrap();
    assert_eq!((p.len(), p.headroom(), p.tailroom()), (5, 256, 1787));
    assert!(p.push(257).is_none() && p.put(1788).is_none() && !p.pull(6));
    assert_eq!(p.data(), b"hello", "unchanged");
    p.push(2).unwrap().copy_from_slice(b">>");
    p.put(2).unwrap().copy_from_slice(b"<<");
    assert_eq!(p.data(), b">>hello<<");
    assert!(p.pull(3));
    p.trim(100);
    p.trim(4);
    assert_eq!((p.data(), p.headroom()), (&b"ello"[..], 257));
    assert!(p.append(b"!") && !p.append(&[0; 2000]));
    assert_eq!(p.data(), b"ello!");
    assert!(p.push(usize::MAX).is_none() && p.put(usize::MAX / 2).is_none());
    assert!(!p.pull(usize::MAX));
    p.rewind();
    assert!(p.is_empty() && p.headroom() == 256);
}

#[test]
fn push_and_pull_do_not_move_headers() {
    let pool = pool(1);
    let mut p = pool.packet(b"mmnnnttd").unwrap();
    assert!(p.mac().is_empty() && p.network().is_empty() && p.network_offset().is_none());
    p.reset_mac();
    p.set_network(2);
    p.set_transport(5);
    assert_eq!(
        (p.mac(), p.network(), p.transport()),
        (&b"mmnnnttd"[..], &b"nnnttd"[..], &b"ttd"[..])
    );
    assert_eq!((p.mac_len(), p.pulled_from_mac()), (2, Some(0)));
    assert!(p.data_to_network());
    assert_eq!(
        (p.data(), p.mac(), p.pulled_from_mac()),
        (&b"nnnttd"[..], &b"mmnnnttd"[..], Some(2))
    );
    assert_eq!(
        (p.network_offset(), p.transport_offset()),
        (Some(0), Some(3))
    );
    assert!(p.pull(4));
    assert_eq!((p.network_offset(), p.network()), (None, &b"nnnttd"[..]));
    p.network_mut()[0] = b'N';
    p.transport_mut()[0] = b'T';
    p.mac_mut()[0] = b'M';
    assert!(p.data_to_mac());
    assert_eq!(p.data(), b"MmNnnTtd");
    p.trim(1);
    assert!(
        p.network().is_empty() && !p.data_to_network(),
        "past the end"
    );
    p.set_network(1 << 20);
    assert!(!p.has_network());
}

#[test]
fn copies_are_deep_and_may_shrink() {
    let pool = pool(2);
    let mut big = pool.alloc(9000).unwrap();
    assert_eq!(big.capacity(), JUMBO);
    for (i, b) in big.data_mut().iter_mut().enumerate() {
        *b = i as u8;
    }
    big.reset_mac();
    big.set_network(14);
    (big.mark, big.time, big.iif) = (1, 2, 3);
    big.set_vlan(Some(VlanTag {
        proto: 0x88a8,
        tci: 7,
    }));
    big.set_pkt_type(PacketType::Multicast);
    assert!(big.pull(14));
    let copy = big.copy().unwrap();
    assert_eq!((copy.data(), copy.mac()), (big.data(), big.mac()));
    assert_eq!((copy.mark, copy.time, copy.iif), (1, 2, 3));
    assert_eq!(
        (copy.vlan(), copy.pkt_type()),
        (big.vlan(), PacketType::Multicast)
    );
    big.trim(100);
    let small = big.copy().unwrap();
    assert_eq!((small.capacity(), small.data()), (FRAME, big.data()));
    big.data_mut().fill(0);
    assert_eq!(small.data()[1], 15);
}

#[test]
fn copies_with_more_headroom() {
    let pool = pool(2);
    let mut p = pool.packet(&[7; 100]).unwrap();
    p.reset_mac();
    p.set_network(14);
    p.mark = 5;
    assert!(p.pull(14));
    let wide = p.copy_with_headroom(1000).unwrap();
    assert_eq!(
        (wide.headroom(), wide.capacity(), wide.mark),
        (1014, FRAME, 5)
    );
    assert_eq!(
        (wide.mac(), wide.network(), wide.data()),
        (p.mac(), p.network(), p.data())
    );
    assert!(!wide.has_transport());
    let wider = p.copy_with_headroom(2000).unwrap();
    assert_eq!(
        (wider.headroom(), wider.capacity(), wider.mac()),
        (2014, JUMBO, p.mac())
    );
    assert_eq!(p.copy_with_headroom(100).map(|c| c.headroom()), Some(270));
    assert!(p.copy_with_headroom(65530).is_none() && p.copy_with_headroom(usize::MAX).is_none());
}

#[test]
fn the_largest_packets_fit() {
    let pool = pool(1);
    // An IP packet of 65535 bytes, an Ethernet header, and two VLAN tags.
    let mut p = pool.alloc(65535 + 14 + 8).unwrap();
    assert!(p.push(200).is_some());
    assert!(p.pull(65000) && !p.pull(600), "offsets are 16 bits");
    assert!(pool.alloc(JUMBO_DATA + 1).is_none());
}

#[test]
fn swapped_metadata_stays_with_its_frame() {
    let pool = pool(2);
    let (mut a, mut b) = (pool.packet(&[1; 10]).unwrap(), pool.alloc(9000).unwrap());
    (a.mark, b.mark) = (1, 2);
    std::mem::swap::<Meta>(&mut a, &mut b);
    assert_eq!((a.mark, b.mark, a.len(), b.len()), (2, 1, 10, 9000));
}

#[test]
fn lent_frames_are_taken_back() {
    let pool = pool(1);
    let p = pool.packet(b"abc").unwrap();
    let (base, bytes) = pool.region();
    let address = p.lend();
    assert!((address as usize) < bytes);
    // SAFETY: the region is readable, and this test owns the frame while it is lent.
    assert_eq!(unsafe { base.add(address as usize).read() }, b'a');
    // SAFETY: the frame was lent just above.
    let mut p = unsafe { pool.take_back(address + 1, 2) }.unwrap();
    assert_eq!((p.data(), p.headroom()), (&b"bc"[..], 257));
    p.trim(0);
    // SAFETY: addresses outside of frames take nothing back.
    unsafe {
        assert!(pool.take_back(0, 0).is_none() && pool.take_back(u64::MAX, 0).is_none());
        assert!(pool.take_back(bytes as u64, 0).is_none());
    }
    drop(p);
    let s = pool.stats();
    assert_eq!(s.frames, s.frames_free);
}

#[test]
fn waits_in_a_lockless_list() {
    let pool = pool(1);
    let list = LocklessList::new();
    for i in 0..3u8 {
        let mut p = pool.packet(&[i]).unwrap();
        (p.chain, p.cb, p.mark) = (8, 9, u32::from(i));
        list.push(p);
    }
    let out: Vec<_> = list
        .take_all()
        .map(|p| (p.data()[0], p.mark, p.chain, p.cb))
        .collect();
    assert_eq!(out, [(0, 0, 0, 0), (1, 1, 0, 0), (2, 2, 0, 0)]);
    list.push(pool.packet(&[7]).unwrap());
    drop(list);
    let s = pool.stats();
    assert_eq!(s.frames, s.frames_free);
}

#[test]
fn a_departure_time_does_not_affect_the_other_marks() {
    let pool = pool(1);
    let mut packet = pool.alloc(60).unwrap();
    packet.time = 5;
    assert_eq!(packet.departure(), None, "a time stamp is none");
    packet.set_departure(Some(9));
    packet.set_vlan(Some(VlanTag {
        proto: 0x88a8,
        tci: 3,
    }));
    assert_eq!((packet.departure(), packet.time), (Some(9), 9));
    assert_eq!(packet.copy().unwrap().departure(), Some(9));
    packet.set_node_type(NodeType::Default);
    packet.set_node_type(NodeType::NoDefault);
    packet.set_vlan(None);
    assert_eq!(packet.copy().unwrap().node_type(), NodeType::NoDefault);
    packet.set_node_type(NodeType::Unspecified);
    assert_eq!(packet.departure(), Some(9));
    packet.set_departure(None);
    assert_eq!(packet.departure(), None);
    drop(packet);
    assert_eq!(pool.alloc(60).unwrap().departure(), None);
}

#[test]
fn tunnel_metadata_is_shared_and_dropped_with_the_packet() {
    use crate::tunnel::{Ends, Tunnel};
    let pool = pool(1);
    let tunnel = Arc::new(Tunnel {
        ends: Ends::V4([10, 0, 0, 1], [10, 0, 0, 2]),
        options: None,
        id: 7,
        has_id: true,
        src_port: 0,
        dst_port: 4789,
        tos: 0,
        ttl: 0,
        checksum: true,
        dont_fragment: false,
        transmit: true,
        bridge: false,
        hop: false,
    });
    let mut p = pool.packet(b"frame").unwrap();
    p.reset_mac();
    assert!(p.tunnel().is_none() && p.set_tunnel(Some(tunnel.clone())));
    p.set_vlan(Some(VlanTag {
        proto: 0x88a8,
        tci: 3,
    }));
    p.set_vlan(None);
    let copies = [p.copy().unwrap(), p.copy_with_headroom(300).unwrap()];
    for packet in [&p, &copies[0], &copies[1]] {
        assert!(Arc::ptr_eq(packet.tunnel().unwrap(), &tunnel));
    }
    assert_eq!(Arc::strong_count(&tunnel), 5 - 1);
    let list = LocklessList::new();
    list.push(p);
    let mut p = list.take_all().next().unwrap();
    assert!(p.tunnel().is_some(), "a list keeps it");
    let room = p.headroom();
    assert!(room == 248 && p.push(room + 1).is_none());
    p.push(room).unwrap().fill(0xff);
    assert_eq!((p.headroom(), p.tunnel().unwrap().id), (0, 7));
    assert!(p.set_tunnel(None) && p.tunnel().is_none() && p.headroom() == 8);
    p.push(8).unwrap().fill(0xff);
    assert!(!p.set_tunnel(Some(tunnel.clone())), "no room");
    assert!(p.tunnel().is_none() && p.data()[0] == 0xff);
    let mut batch = crate::Batch::new();
    for copy in copies {
        batch.push(copy).unwrap();
    }
    drop(batch);
    assert_eq!(Arc::strong_count(&tunnel), 1);
}

/// The notes of a batch in a list are before a packet's data and headers.
#[test]
fn a_list_does_not_change_frames() {
    let pool = pool(1);
    for headroom in 0..=HEADROOM {
        for pulled in [0, 1, 14, 40] {
            let make = |number: usize| {
                let mut packet = pool.alloc(0).unwrap();
                packet.push(HEADROOM - headroom).unwrap().fill(7);
                packet.put(60).unwrap().fill(number as u8);
                packet.reset_mac();
                assert!(packet.pull(pulled));
                packet
            };
            let list = LocklessList::new();
            list.push_all((0..40).map(make));
            let taken: Vec<_> = list.take_all().collect();
            for (number, mut packet) in taken.into_iter().enumerate() {
                assert_eq!((packet.dev, packet.chain, packet.cb), (0, 0, 0));
                assert_eq!(packet.headroom(), headroom + pulled);
                packet.push(pulled).unwrap();
                let (before, after) = packet.data().split_at(HEADROOM - headroom);
                assert!(before.iter().all(|&byte| byte == 7));
                assert!(after.iter().all(|&byte| byte == number as u8));
            }
        }
    }
}

#[test]
fn heads_are_the_first_bytes_of_the_data() {
    let pool = pool(2);
    let bytes: Vec<u8> = (0..200).collect();
    let mut short = pool.packet(&bytes).unwrap();
    let mut jumbo = pool.alloc(FRAME_DATA + 1).unwrap();
    jumbo.data_mut()[..200].copy_from_slice(&bytes);
    for pulled in [0, 14, 100] {
        assert!(short.pull(pulled) && jumbo.pull(pulled));
        let expected: [u8; 54] = *short.data().first_chunk().unwrap();
        assert_eq!(short.short_head(), Some(&expected));
        assert_eq!(jumbo.short_head::<54>(), None);
        for packet in [&mut short, &mut jumbo] {
            assert_eq!(packet.head_mut(), Some(&mut expected.clone()));
        }
    }
    short.trim(53);
    assert!(short.short_head::<54>().is_none() && short.head_mut::<54>().is_none());
    assert!(short.head_mut::<53>().is_some());
}

#[test]
fn data_begin_at_a_network_header_that_is_whole() {
    let pool = pool(2);
    let bytes: Vec<u8> = (0..60).collect();
    let mut packet = pool.packet(&bytes).unwrap();
    let mut jumbo = pool.alloc(FRAME_DATA + 1).unwrap();
    jumbo.set_network(14);
    assert_eq!(
        jumbo.begin_at_network(|_: &[u8; 20], _| Some((20, ()))),
        None
    );
    // Unset, behind the end, too short for the header and for the length, or refused.
    assert_eq!(
        packet.begin_at_network(|_: &[u8; 0], _| Some((0, ()))),
        None
    );
    packet.set_network(61);
    assert_eq!(
        packet.begin_at_network(|_: &[u8; 0], _| Some((0, ()))),
        None
    );
    packet.set_network(14);
    assert_eq!(
        packet.begin_at_network(|_: &[u8; 47], _| Some((0, ()))),
        None
    );
    assert_eq!(
        packet.begin_at_network(|_: &[u8; 20], _| Some((47, ()))),
        None
    );
    assert_eq!(
        packet.begin_at_network(|_: &[u8; 20], _| None::<(u32, ())>),
        None
    );
    assert_eq!(packet.data(), bytes);
    let read = packet.begin_at_network(|header: &[u8; 20], whole| Some((30, (*header, whole))));
    assert_eq!(read, Some((*bytes[14..].first_chunk().unwrap(), 46)));
    assert_eq!(packet.data(), &bytes[14..44]);
    assert_eq!(
        (packet.network(), packet.transport()),
        (&bytes[14..44], &bytes[34..44])
    );
}

#[test]
fn unladen_packets_are_received_alike() {
    let pool = pool(2);
    let (arrival, protocol) = (Arrival::new(7, 8, 9), 0x0800);
    let mut packets = [(); 2].map(|()| pool.packet(&[5; 60]).unwrap());
    assert_eq!(packets[0].unladen(), Some(&[5; 60][..]));
    packets[0].set_received(arrival, (PacketType::Host, protocol), 14);
    packets[1].set_received_unladen(arrival, protocol, 14);
    for packet in &packets {
        assert_eq!((packet.altered(14), packet.mac_len()), (0, 14));
        assert_eq!(packet.pkt_type(), PacketType::Host);
        assert_eq!((packet.protocol, packet.time), (protocol, 7));
        assert_eq!((packet.dev, packet.iif), (8, 9));
    }
    let laden: [fn(&mut Packet); 4] = [
        |p| p.set_departure(Some(1)),
        |p| p.nest = 1,
        |p| p.flags.insert(Flags::SKIP_CLASSIFY),
        |p| {
            let tag = VlanTag {
                proto: 0x8100,
                tci: 1,
            };
            p.set_vlan(Some(tag));
        },
    ];
    for change in laden {
        let mut packet = pool.packet(&[5; 60]).unwrap();
        change(&mut packet);
        assert!(packet.unladen().is_none());
    }
    assert!(pool.alloc(FRAME_DATA + 1).unwrap().unladen().is_none());
}
