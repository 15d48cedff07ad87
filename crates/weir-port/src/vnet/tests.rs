// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use weir_packet::checksum::Sum;
use weir_packet::header::ethernet::ethernet;
use weir_packet::header::ipv4::ipv4;
use weir_packet::header::transport::{tcp, udp};
use weir_packet::vnet::{
    GSO_ECN, GSO_NONE, GSO_TCPV4, GSO_UDP_L4, NEEDS_CSUM, NONE, TCP_CHECK, UDP_CHECK,
};
use weir_packet::{Pool, PoolConfig};

use super::*;

const TCP: u8 = 6;
const UDP: u8 = 17;

fn header(gso_type: u8, gso_size: u16, start: u16, offset: u16) -> Header {
    with_flags(NEEDS_CSUM, gso_type, gso_size, (start, offset))
}

fn with_flags(flags: u8, gso_type: u8, gso_size: u16, (start, offset): (u16, u16)) -> Header {
    let mut bytes = [flags, gso_type, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes[4..6].copy_from_slice(&gso_size.to_ne_bytes());
    bytes[6..8].copy_from_slice(&start.to_ne_bytes());
    bytes[8..].copy_from_slice(&offset.to_ne_bytes());
    Header::parse(bytes)
}

/// A frame whose checksum field holds the sum of the pseudo header, as a sender leaves it.
fn frame(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let mut segment = match protocol {
        TCP => tcp(1000, 2000, 7, 9, 0x18).to_vec(),
        _ => udp(1000, 2000, payload.len()).to_vec(),
    };
    segment.extend(payload);
    let at = usize::from(if protocol == TCP {
        TCP_CHECK
    } else {
        UDP_CHECK
    });
    let mut sum = Sum::default();
    sum.add_pseudo_v4(src, dst, protocol, segment.len() as u16);
    segment[at..at + 2].copy_from_slice(&(!sum.finish()).to_be_bytes());
    let mut frame = ethernet([2; 6], [4; 6], 0x0800).to_vec();
    frame.extend(ipv4(src, dst, protocol, 64, 0, 9, 0, segment.len()));
    frame.extend(segment);
    frame
}

/// Returns the packets of a frame, and the numbers of rx_errors and rx_dropped.
fn deliver_to(batch: &mut Batch, header: Header, frame: &[u8]) -> (Vec<Packet>, [u64; 2]) {
    let pool = Pool::new(PoolConfig::default());
    let counters = Counters::default();
    let mut waiting = VecDeque::new();
    let mut out = Out {
        batch,
        waiting: &mut waiting,
    };
    deliver(header, frame, None, &mut pool.cache(), &mut out, &counters);
    let lost = [&counters.rx_errors, &counters.rx_dropped];
    (waiting.into(), lost.map(|counter| counter.load(Relaxed)))
}

/// Checks that the sum over the segment and its pseudo header is right.
fn check_sum(frame: &[u8], protocol: u8) {
    let segment = &frame[34..];
    let mut sum = Sum::default();
    let (src, dst) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    sum.add_pseudo_v4(src, dst, protocol, segment.len() as u16);
    sum.add(segment);
    assert_eq!(sum.finish(), 0);
}

#[test]
fn a_checksum_is_completed_where_the_header_says() {
    for (protocol, offset) in [(TCP, TCP_CHECK), (UDP, UDP_CHECK)] {
        let mut batch = Batch::new();
        let whole = frame(protocol, b"odd");
        let (rest, lost) = deliver_to(&mut batch, header(GSO_NONE, 0, 34, offset), &whole);
        assert_eq!((batch.len(), rest.len(), lost), (1, 0, [0, 0]));
        check_sum(batch[0].data(), protocol);
        // A field outside the frame.
        for (start, offset) in [(34, 1000), (1000, 16), (u16::MAX, u16::MAX)] {
            let (_, lost) = deliver_to(
                &mut Batch::new(),
                header(GSO_NONE, 0, start, offset),
                &whole,
            );
            assert_eq!(lost, [1, 0]);
        }
    }
}

#[test]
fn segments_beyond_the_batch_wait_in_order() {
    let payload: Vec<u8> = (0..60_000_u32).map(|n| n as u8).collect();
    let whole = frame(TCP, &payload);
    let mut batch = Batch::new();
    // Without a checksum to complete, the port splits the frame itself.
    let header = with_flags(0, GSO_TCPV4, 500, (34, 16));
    let (rest, lost) = deliver_to(&mut batch, header, &whole);
    assert_eq!(lost, [0, 0]);
    assert!(batch.is_full());
    assert_eq!(batch.len() + rest.len(), 120);
    let mut found: Vec<u8> = Vec::new();
    for packet in batch.iter().chain(&rest) {
        check_sum(packet.data(), TCP);
        found.extend(&packet.data()[54..]);
    }
    assert_eq!(found, payload);
    let mut waiting: VecDeque<_> = rest.into();
    batch.drain();
    let mut out = Out {
        batch: &mut batch,
        waiting: &mut waiting,
    };
    assert!(out.refill());
    assert_eq!(batch.len(), 56);
}

/// A long frame becomes one packet, and the header for the host describes it again.
#[test]
fn a_long_frame_passes_whole() {
    let pool = Pool::new(PoolConfig::default());
    let payload: Vec<u8> = (0..60_001_u32).map(|n| n as u8).collect();
    let tag = VlanTag {
        proto: 0x8100,
        tci: 5,
    };
    for (protocol, gso_type, offset, size, headers) in [
        (TCP, GSO_TCPV4, TCP_CHECK, 1448, 54),
        (TCP, GSO_TCPV4 | GSO_ECN, TCP_CHECK, 1448, 54),
        (UDP, GSO_UDP_L4, UDP_CHECK, 1000, 42),
    ] {
        let mut whole = frame(protocol, &payload);
        if gso_type & GSO_ECN != 0 {
            // CWR
            whole[47] |= 0x80;
        }
        let mut batch = Batch::new();
        let (rest, lost) = deliver_to(&mut batch, header(gso_type, size, 34, offset), &whole);
        assert_eq!((batch.len(), rest.len(), lost), (1, 0, [0, 0]));
        let packet = &mut batch.as_mut_slice()[0];
        let segments = packet.segments().unwrap();
        let count = 60_001_u16.div_ceil(size);
        assert_eq!((segments.size, segments.count), (size, count));
        assert!(packet.flags.contains(Flags::CSUM_GOOD));
        check_sum(packet.data(), protocol);
        for added in [0, 4] {
            packet.set_vlan((added > 0).then_some(tag));
            let out = Outgoing::new(packet);
            let [vnet, frame @ ..] = out.parts();
            let vnet = vnet.first_chunk().copied().unwrap();
            let expected = header(gso_type, size, 34 + added, offset);
            assert_eq!(Header::parse(vnet), expected);
            assert_eq!(vnet[2..4], (headers + added).to_ne_bytes());
            let mut frame = frame.concat();
            if added > 0 {
                assert_eq!(frame.drain(12..16).as_slice(), [0x81, 0, 0, 5]);
            }
            // The checksum is the sum of the pseudo header again.
            assert_eq!(frame, whole);
        }
        let mut found: Vec<u8> = Vec::new();
        assert!(offload::segment_packet(packet, &mut pool.cache(), |part| {
            check_sum(part.data(), protocol);
            found.extend(&part.data()[usize::from(headers)..]);
        }));
        assert_eq!(found, payload);
    }
}

#[test]
fn a_short_frame_has_an_empty_header() {
    let pool = Pool::new(PoolConfig::default());
    let packet = pool.packet(&frame(TCP, b"short")).unwrap();
    let out = Outgoing::new(&packet);
    assert_eq!(out.parts()[0], NONE);
    assert_eq!(out.parts()[1..].concat(), packet.data());
}

#[test]
fn a_frame_inside_a_tunnel_is_an_error() {
    let whole = frame(UDP, &[0; 4000]);
    for (kind, start, offset) in [(GSO_TCPV4, 84, 16), (GSO_TCPV4, 34, 16), (3, 34, 6)] {
        let mut batch = Batch::new();
        let (rest, lost) = deliver_to(&mut batch, header(kind, 1000, start, offset), &whole);
        assert_eq!((batch.len(), rest.len(), lost), (0, 0, [1, 0]));
    }
}

proptest! {
    /// Any header with any frame is served or counted.
    #[test]
    fn any_header_is_served_or_counted(
        bytes in any::<[u8; LEN]>(),
        known in 0_u8..8,
        size in 1_u16..3000,
        start in 0_u16..80,
        payload in prop::collection::vec(any::<u8>(), 0..3000),
        cut in 0_usize..3000,
    ) {
        let mut whole = frame(TCP, &payload);
        whole.truncate(whole.len() - cut.min(whole.len()));
        for header in [Header::parse(bytes), header(known, size, start, 16)] {
            let mut batch = Batch::new();
            let (rest, lost) = deliver_to(&mut batch, header, &whole);
            prop_assert!(batch.len() + rest.len() + (lost[0] + lost[1]) as usize > 0);
        }
    }
}
