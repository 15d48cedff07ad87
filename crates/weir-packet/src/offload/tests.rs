// SPDX-License-Identifier: Apache-2.0 OR MIT
use proptest::prelude::*;

use super::*;
use crate::checksum::{verify, verify_v4, verify_v6};
use crate::header::ethernet::ethernet;
use crate::header::ipv4::ipv4;
use crate::header::ipv6::ipv6;
use crate::header::transport::{tcp, udp};

const V4: ([u8; 4], [u8; 4]) = ([10, 0, 0, 1], [10, 0, 0, 2]);
const V6: ([u8; 16], [u8; 16]) = ([1; 16], [2; 16]);

/// A frame whose transport checksum is not computed.
fn frame(ipv6_: bool, protocol: u8, tagged: bool, flags: u16, payload: &[u8]) -> Vec<u8> {
    let mut transport = match protocol {
        IPPROTO_TCP => tcp(1000, 2000, 0xffff_fff0, 7, flags).to_vec(),
        _ => udp(1000, 2000, payload.len()).to_vec(),
    };
    transport.extend(payload);
    let ethertype = if ipv6_ { ETH_P_IPV6 } else { ETH_P_IP };
    let mut frame = ethernet([2; 6], [4; 6], if tagged { 0x8100 } else { ethertype }).to_vec();
    if tagged {
        frame.extend([0, 5]);
        frame.extend(ethertype.to_be_bytes());
    }
    match ipv6_ {
        true => frame.extend(ipv6(V6.0, V6.1, protocol, 64, 0, 0, transport.len())),
        false => frame.extend(ipv4(V4.0, V4.1, protocol, 64, 0, 9, 0, transport.len())),
    }
    frame.extend(transport);
    frame
}

/// The transport segment of a frame whose lengths and checksums are right.
fn checked(frame: &[u8]) -> Vec<u8> {
    let headers = Headers::of(frame).unwrap();
    let packet = &frame[headers.network..];
    let segment = &frame[headers.transport..];
    match headers.ipv6 {
        true => {
            let ip = Ipv6::new(packet).unwrap();
            assert_eq!(usize::from(ip.payload_len()), packet.len() - Ipv6::LEN);
            assert!(verify_v6(ip.src(), ip.dst(), headers.protocol, segment));
        }
        false => {
            let ip = Ipv4::new(packet).unwrap();
            assert_eq!(usize::from(ip.total_len()), packet.len());
            assert!(verify(&packet[..20]));
            assert!(verify_v4(ip.src(), ip.dst(), headers.protocol, segment));
        }
    }
    if headers.protocol == IPPROTO_UDP {
        let length = u16::from_be_bytes([segment[4], segment[5]]);
        assert_eq!(usize::from(length), segment.len());
    }
    segment.to_vec()
}

fn segments(frame: &[u8], size: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let count = segment(frame, size, |head, part| all.push([head, part].concat()));
    assert_eq!(count, all.len());
    all
}

proptest! {
    /// Segments are whole frames in themselves, and together they hold the payload, in order.
    #[test]
    fn segments_are_whole_and_hold_everything(
        v6 in any::<bool>(),
        is_tcp in any::<bool>(),
        tagged in any::<bool>(),
        payload in prop::collection::vec(any::<u8>(), 1..5000),
        size in 1_usize..2000,
    ) {
        let protocol = if is_tcp { IPPROTO_TCP } else { IPPROTO_UDP };
        let whole = frame(v6, protocol, tagged, 0x99, &payload);
        let all = segments(&whole, size);
        prop_assert_eq!(all.len(), payload.len().div_ceil(size));
        let mut joined: Vec<u8> = Vec::new();
        for (n, frame) in all.iter().enumerate() {
            let segment = checked(frame);
            let header = if is_tcp { 20 } else { UDP };
            if is_tcp {
                let sequence = u32::from_be_bytes(segment[4..8].try_into().unwrap());
                prop_assert_eq!(sequence, 0xffff_fff0_u32.wrapping_add(joined.len() as u32));
                let (first, last) = (n == 0, n + 1 == all.len());
                let flags = 0x10 | if first { FIRST_ONLY } else { 0 } | if last { LAST_ONLY } else { 0 };
                prop_assert_eq!(segment[13], flags);
            }
            prop_assert!(segment.len() - header <= size);
            joined.extend(&segment[header..]);
        }
        prop_assert_eq!(joined, payload);
    }

    /// A completed checksum is right, whatever stood there, and padding does not count.
    #[test]
    fn checksums_are_completed(
        v6 in any::<bool>(),
        is_tcp in any::<bool>(),
        payload in prop::collection::vec(any::<u8>(), 0..200),
        padding in 0_usize..20,
    ) {
        let protocol = if is_tcp { IPPROTO_TCP } else { IPPROTO_UDP };
        let mut whole = frame(v6, protocol, false, 0x18, &payload);
        let len = whole.len();
        whole.resize(len + padding, 0xa5);
        prop_assert!(complete_checksum(&mut whole));
        checked(&whole[..len]);
    }

    /// No octets make it panic.
    #[test]
    fn anything_may_come(mut octets in prop::collection::vec(any::<u8>(), 0..120), size in 0_usize..50) {
        complete_checksum(&mut octets);
        segment(&octets, size, |_, _| {});
    }
}

#[test]
fn other_frames_are_left_alone() {
    let mut arp = ethernet([2; 6], [4; 6], 0x0806).to_vec();
    arp.extend([0; 46]);
    let before = arp.clone();
    assert!(!complete_checksum(&mut arp));
    assert_eq!(arp, before);
    assert!(segments(&arp, 10).is_empty());
    let whole = frame(false, IPPROTO_TCP, false, 0x10, &[1; 100]);
    assert!(segments(&whole, 0).is_empty());
    assert!(segments(&whole[..40], 10).is_empty());
}
