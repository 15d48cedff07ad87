// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packet sockets on veth devices.
#![allow(unsafe_code)] // a socket option

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use weir_packet::checksum::Sum;
use weir_packet::offload::segment_packet;
use weir_packet::{Batch, Packet, VlanTag};

use crate::common::*;

#[test]
fn a_tcp_sender_with_offloads() {
    in_namespaces("af_packet::tcp_inside");
}

/// A sender on the host gives the device long segments without checksums. They are for segments no longer than
/// the MTU allows, and the receiver, behind another port, gets long packets with the bytes.
#[test]
#[ignore = "the other test runs it, in namespaces of its own"]
fn tcp_inside() {
    assert_inside();
    let (a, b) = (Host::new(), Host::new());
    run(&format!(
        "ip link add a1 type veth peer name a0 netns {}
        ip link add b1 type veth peer name b0 netns {}
        ip link set a1 up; ip link set b1 up",
        a.id, b.id
    ));
    a.run(|| run("ip addr add 10.0.0.1/24 dev a0; ip addr add fd00::1/64 dev a0 nodad; ip link set a0 up"));
    b.run(|| run("ip addr add 10.0.0.2/24 dev b0; ip addr add fd00::2/64 dev b0 nodad; ip link set b0 up"));
    let pool = pool();
    let first = port("af_packet", "dev=a1", &pool).unwrap();
    let second = port("af_packet", "dev=b1", &pool).unwrap();
    for address in ["10.0.0.2:5000", "[fd00::2]:5000"] {
        let before = b.run(|| counter("b0", RX_PACKETS));
        let done = tcp(&a, &b, address, 8 << 20);
        let ((), packets, on_wire) = bridge([&*first, &*second], &done, 1514);
        let received = b.run(|| counter("b0", RX_PACKETS)) - before;
        assert!(
            on_wire > 2 * packets,
            "{packets} packets for {on_wire} on the wire"
        );
        assert!(
            on_wire > 2 * received,
            "{received} packets for {on_wire} on the wire"
        );
    }
    for port in [first, second] {
        assert_eq!(port.counters().rx_errors.load(Relaxed), 0);
        assert_eq!(port.counters().tx_errors.load(Relaxed), 0);
    }
}

#[test]
fn udp_segments() {
    in_namespaces("af_packet::udp_inside");
}

/// Checks the checksum of a UDP datagram over IPv4 in an untagged frame, and returns its payload.
fn datagram(frame: &[u8]) -> &[u8] {
    let [src, dst] = [26, 30].map(|at| *frame[at..].first_chunk::<4>().unwrap());
    let mut sum = Sum::default();
    sum.add_pseudo_v4(src, dst, 17, (frame.len() - 34) as u16);
    sum.add(&frame[34..]);
    assert_eq!(sum.finish(), 0);
    &frame[42..]
}

fn is_datagram(packet: &Packet) -> bool {
    let data = packet.data();
    data[12..14] == [8, 0] && data[23] == 17 && data[36..38] == [0, 9]
}

/// A UDP sender that leaves segmentation to the device (`UDP_SEGMENT`).
#[test]
#[ignore = "the other test runs it, in namespaces of its own"]
fn udp_inside() {
    assert_inside();
    run(
        "ip link add v0 type veth peer name v1; ip link set v0 up; ip link set v1 up
        ip addr add 10.0.0.1/24 dev v0; ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev v0",
    );
    let pool = pool();
    let [other, port] = ["dev=v0", "dev=v1"].map(|keys| port("af_packet", keys, &pool).unwrap());
    settle(&*other, &*port, &mut pool.cache());
    drop(other);
    let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
    let size = 500_i32;
    let len = size_of_val(&size) as libc::socklen_t;
    // SAFETY: the value is whole and lives through the call.
    let done = unsafe {
        let value = (&raw const size).cast();
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            value,
            len,
        )
    };
    if done != 0 {
        skip("no UDP_SEGMENT");
    }
    let payload: Vec<u8> = (0..20_200_u32).map(|n| (n / 7) as u8).collect();
    for _ in 0..5 {
        assert_eq!(
            socket.send_to(&payload, "10.0.0.2:9").unwrap(),
            payload.len()
        );
    }
    let long = receive(&*port, &mut pool.cache(), 5, is_datagram);
    assert!(long.iter().all(|packet| packet.wire_packets() == 41));
    let mut found = Vec::new();
    for packet in &long {
        assert!(segment_packet(packet, &mut pool.cache(), |part| found.push(part)));
    }
    let parts: Vec<_> = found.iter().map(|packet| datagram(packet.data())).collect();
    assert!(parts.iter().all(|part| part.len() <= 500));
    assert!(parts.concat() == payload.repeat(5));
    assert_eq!(port.counters().rx_errors.load(Relaxed), 0);
}

#[test]
fn tags_full_rings_down_and_gone() {
    in_namespaces("af_packet::losses_inside");
}

#[test]
#[ignore = "the other test runs it, in namespaces of its own"]
fn losses_inside() {
    assert_inside();
    let pool = pool();
    let error = port("af_packet", "dev=absent", &pool).unwrap_err();
    assert!(
        error.to_string().starts_with("af_packet: absent: "),
        "{error}"
    );
    run("ip link add v0 type veth peer name v1; ip link set v0 up; ip link set v1 up");
    let [first, second] = ["dev=v0", "dev=v1"].map(|keys| port("af_packet", keys, &pool).unwrap());
    assert_eq!(second.facts().name, "v1");
    assert_eq!(second.facts().mtu, Some(1500));
    assert!(second.facts().address.is_some());
    let mut cache = pool.cache();
    let frame = |number: u32, length| {
        let mut bytes = vec![2; length];
        bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
        bytes[14..18].copy_from_slice(&number.to_be_bytes());
        pool.packet(&bytes).unwrap()
    };
    let ours = |packet: &Packet| packet.data()[12..14] == [0x88, 0xb5];
    settle(&*first, &*second, &mut cache);
    settle(&*second, &*first, &mut cache);
    let refused = first.counters().tx_errors.load(Relaxed);
    // A tag in the metadata is a tag in the metadata again.
    let mut tagged = frame(0, 60);
    let tag = VlanTag {
        proto: 0x88a8,
        tci: 0x6005,
    };
    tagged.set_vlan(Some(tag));
    assert_eq!(first.send(0, &[tagged, frame(1, 1514)]).unwrap(), 2);
    let found = receive(&*second, &mut cache, 2, ours);
    assert_eq!(found[0].vlan(), Some(tag));
    assert_eq!(found[0].data(), frame(0, 60).data());
    assert_eq!(found[1].vlan(), None);
    assert_eq!(found[1].data(), frame(1, 1514).data());
    drop(found);
    // The host refuses a frame that is longer than the MTU allows, and takes those around it.
    assert_eq!(
        first
            .send(0, &[frame(1, 60), frame(2, 1600), frame(3, 60)])
            .unwrap(),
        3
    );
    assert_eq!(first.counters().tx_errors.load(Relaxed), refused + 1);
    assert_eq!(receive(&*second, &mut cache, 2, ours).len(), 2);

    // More frames than the ring holds (8 MiB): the rest is counted, and the order is kept.
    let total = 7000;
    let mut dropped = second.counters().rx_dropped.load(Relaxed);
    let end = Instant::now() + LONG;
    loop {
        // They are made before, so that blocks of the ring fill up before their time is over.
        let frames: Vec<_> = (0..total).map(|n| frame(n, 1514)).collect();
        let mut sent = 0;
        while sent < frames.len() {
            let next = sent..frames.len().min(sent + 64);
            sent += first.send(0, &frames[next]).unwrap();
            assert!(Instant::now() < end, "{sent} sent");
        }
        drop(frames);
        let mut numbers = Vec::new();
        // The kernel hands over a block that is not full after a millisecond.
        while wait(&[second.descriptor(0).unwrap()], Duration::from_millis(200)) {
            let mut batch = Batch::new();
            second.receive(0, &mut cache, &mut batch).unwrap();
            for packet in batch.drain().filter(ours) {
                numbers.push(u32::from_be_bytes(
                    *packet.data()[14..].first_chunk().unwrap(),
                ));
            }
        }
        assert_eq!(second.receive(0, &mut cache, &mut Batch::new()).unwrap(), 0);
        assert!(numbers.is_sorted());
        let lost = u64::from(total) - numbers.len() as u64;
        assert!(lost > 0);
        // Other frames of the host may be lost besides.
        let before = dropped;
        dropped = second.counters().rx_dropped.load(Relaxed);
        let new = dropped - before;
        assert!(new >= lost && new < lost + 100, "{new}, {lost}");
        if numbers.len() > 4000 {
            break;
        }
        // The sender had to wait for a processor, and blocks were handed over before they were full.
        assert!(Instant::now() < end, "{}", numbers.len());
    }

    // Memory that is exhausted loses frames, and the ring goes on.
    let small = weir_packet::Pool::new(weir_packet::PoolConfig {
        limit: 1,
        ..weir_packet::PoolConfig::default()
    });
    let mut few = small.cache();
    let mut held = Vec::new();
    while let Some(packet) = few.alloc(100) {
        held.push(packet);
    }
    assert_eq!(first.send(0, &[frame(1, 60), frame(2, 60)]).unwrap(), 2);
    let end = Instant::now() + LONG;
    while second.counters().rx_dropped.load(Relaxed) < dropped + 2 {
        assert_eq!(second.receive(0, &mut few, &mut Batch::new()).unwrap(), 0);
        assert!(Instant::now() < end);
    }
    drop(held);

    // A device that is down refuses frames, and goes on when it is up again.
    run("ip link set v1 down");
    let before = second.counters().tx_errors.load(Relaxed);
    for _ in 0..3 {
        second.receive(0, &mut cache, &mut Batch::new()).unwrap();
    }
    assert_eq!(second.send(0, &[frame(1, 60), frame(2, 60)]).unwrap(), 2);
    assert_eq!(second.counters().tx_errors.load(Relaxed), before + 2);
    run("ip link set v1 up");
    settle(&*first, &*second, &mut cache);
    settle(&*second, &*first, &mut cache);
    assert_eq!(first.send(0, &[frame(9, 60)]).unwrap(), 1);
    let found = receive(&*second, &mut cache, 1, ours);
    assert_eq!(found[0].data(), frame(9, 60).data());
    assert_eq!(second.send(0, &[frame(8, 60)]).unwrap(), 1);
    let found = receive(&*first, &mut cache, 1, ours);
    assert_eq!(found[0].data(), frame(8, 60).data());
    // A device that is gone ends the port.
    run("ip link del v0");
    let end = Instant::now() + LONG;
    // Frames that the host sent before come first.
    while second.receive(0, &mut cache, &mut Batch::new()).is_ok() {
        assert!(Instant::now() < end);
    }
    assert!(second.send(0, &[frame(1, 60)]).is_err());
}
