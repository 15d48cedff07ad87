// SPDX-License-Identifier: Apache-2.0 OR MIT
use proptest::prelude::*;

use super::*;
use crate::header::ethernet::ethernet;
use crate::header::ipv4::ipv4;
use crate::header::ipv6::ipv6;
use crate::header::transport::{tcp, udp};
use crate::offload::segment_packet;
use crate::packet::VlanTag;
use crate::pool::{Pool, PoolConfig};

const ACK: u16 = 0x10;
const LIMITS: Limits = Limits {
    max_size: 65_536,
    udp: true,
};

/// A sender's next frame.
#[derive(Clone, Copy, Debug)]
struct Next {
    flow: u8,
    size: usize,
    flags: u16,
    /// The step of the IPv4 identification.
    step: u16,
    /// A bit that spoils the transport checksum, adds padding, changes the type of service or loses a frame.
    odd: u8,
}

/// The senders: flow n is TCP or UDP, over IPv4 or IPv6, tagged or not.
struct Senders {
    sequence: [u32; 8],
    id: [u16; 8],
}

impl Senders {
    fn frame(&mut self, next: Next) -> Vec<u8> {
        let flow = usize::from(next.flow % 8);
        let (is_udp, six) = (flow & 1 != 0, flow & 2 != 0);
        let payload: Vec<u8> = (0..next.size).map(|n| (n * 7 + flow) as u8).collect();
        let sequence = self.sequence[flow];
        self.sequence[flow] = sequence.wrapping_add(next.size as u32);
        let id = self.id[flow].wrapping_add(next.step);
        self.id[flow] = id;
        let port = 1000 + flow as u16;
        let mut segment = match is_udp {
            true => udp(port, 53, payload.len()).to_vec(),
            false => tcp(port, 80, sequence, 7, next.flags).to_vec(),
        };
        segment.extend(&payload);
        let protocol = if is_udp { IPPROTO_UDP } else { IPPROTO_TCP };
        let tos = u8::from(next.odd == 3) * 3;
        let mut frame = ethernet([2; 6], [4; 6], if six { 0x86dd } else { 0x0800 }).to_vec();
        match six {
            true => frame.extend(ipv6([1; 16], [2; 16], protocol, 64, tos, 0, segment.len())),
            false => frame.extend(ipv4(
                [10, 0, 0, 1],
                [10, 0, 0, 2],
                protocol,
                64,
                tos,
                id,
                0x4000,
                segment.len(),
            )),
        }
        frame.extend(segment);
        assert!(complete_checksum(&mut frame));
        match next.odd {
            1 => *frame.last_mut().unwrap() ^= 1,
            2 => frame.extend([0; 6]),
            _ => {}
        }
        frame
    }
}

fn next() -> impl Strategy<Value = Next> {
    let size = prop_oneof![6 => Just(1400_usize), 2 => Just(100_usize), 1 => 0_usize..1500];
    let flags = prop_oneof![8 => Just(ACK), 1 => Just(ACK | 8), 1 => Just(ACK | 1), 1 => Just(ACK | 0x80), 1 => Just(2)];
    let step = prop_oneof![8 => Just(1_u16), 2 => Just(0_u16), 1 => any::<u16>()];
    let odd = prop_oneof![12 => Just(0_u8), 1 => 1_u8..5];
    (0_u8..8, size, flags, step, odd).prop_map(|(flow, size, flags, step, odd)| Next {
        flow,
        size,
        flags,
        step,
        odd,
    })
}

/// Returns the bytes that name the flow of a frame: addresses, protocol and ports.
fn flow_of(frame: &[u8]) -> Vec<u8> {
    match Headers::of(frame) {
        Some(headers) => frame[headers.transport..headers.transport + 4].to_vec(),
        None => Vec::new(),
    }
}

/// Merges the frames and splits the result. Returns the frames again and the number of long packets.
fn there_and_back(
    frames: &[Vec<u8>],
    limits: Limits,
    tag: Option<VlanTag>,
) -> (Vec<Vec<u8>>, usize) {
    let pool = Pool::new(PoolConfig::default());
    let mut memory = pool.cache();
    let mut batch = Batch::new();
    for frame in frames {
        let mut packet = memory.packet(frame).unwrap();
        packet.reset_mac();
        packet.set_network(14);
        packet.set_vlan(tag);
        packet.mark = 7;
        batch.push(packet).unwrap();
    }
    let (count, mut gone) = (batch.len(), 0);
    let out = merge(batch, limits, &mut memory, |_| gone += 1);
    assert_eq!(out.len() + gone, count);
    let (mut back, mut long) = (Vec::new(), 0);
    for packet in out {
        let Some(segments) = packet.segments() else {
            back.push(packet.data().to_vec());
            continue;
        };
        long += 1;
        assert!(packet.len() - 14 < limits.max_size, "{}", packet.len());
        let before = back.len();
        assert!(segment_packet(&packet, &mut memory, |segment| {
            assert_eq!((segment.vlan(), segment.mark), (tag, 7));
            assert!(segment.segments().is_none());
            assert_eq!(segment.network(), &segment.data()[14..]);
            assert!(segment.network().len() <= segments.longest());
            back.push(segment.data().to_vec());
        }));
        assert_eq!(back.len() - before, usize::from(segments.count));
    }
    (back, long)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn receive_offload_and_segmentation_give_back_the_packets(
        list in proptest::collection::vec(next(), 1..=64),
        max_size in prop_oneof![Just(65_536_usize), 1500_usize..9000],
        udp in any::<bool>(),
        tagged in any::<bool>(),
        start in any::<u32>(),
    ) {
        let mut senders = Senders { sequence: [start; 8], id: [start as u16; 8] };
        let frames: Vec<_> = list.iter().map(|next| senders.frame(*next)).collect();
        let tag = tagged.then_some(VlanTag { proto: 0x8100, tci: 5 });
        let (back, _) = there_and_back(&frames, Limits { max_size, udp }, tag);
        // The order within a flow is kept.
        let mut flows: Vec<_> = frames.iter().map(|frame| flow_of(frame)).collect();
        flows.sort();
        flows.dedup();
        for flow in flows {
            let of = |list: &[Vec<u8>]| -> Vec<Vec<u8>> {
                list.iter().filter(|frame| flow_of(frame) == flow).cloned().collect()
            };
            prop_assert_eq!(of(&frames), of(&back));
        }
        prop_assert_eq!(frames.len(), back.len());
    }
}

fn steady(flow: u8, count: usize, size: usize) -> Vec<Next> {
    let next = Next {
        flow,
        size,
        flags: ACK,
        step: 1,
        odd: 0,
    };
    vec![next; count]
}

fn sent(list: &[Next]) -> Vec<Vec<u8>> {
    let mut senders = Senders {
        sequence: [9; 8],
        id: [9; 8],
    };
    list.iter().map(|next| senders.frame(*next)).collect()
}

#[test]
fn a_steady_flow_becomes_one_packet() {
    for (flow, long) in [(0, 1), (1, 1), (2, 1), (3, 1)] {
        let frames = sent(&steady(flow, 40, 1000));
        let (back, merged) = there_and_back(&frames, LIMITS, None);
        assert_eq!(merged, long, "flow {flow}");
        assert_eq!(back, frames);
    }
    // 46 segments of 1,400 bytes are the most that fit.
    assert_eq!(
        there_and_back(&sent(&steady(0, 64, 1400)), LIMITS, None).1,
        2
    );
}

#[test]
fn only_forwarding_merges_datagrams() {
    let frames = sent(&steady(1, 10, 500));
    let limits = Limits {
        udp: false,
        ..LIMITS
    };
    assert_eq!(there_and_back(&frames, limits, None).1, 0);
}

#[test]
fn two_flows_are_merged_side_by_side() {
    let mut list = steady(0, 8, 1000);
    for (n, next) in list.iter_mut().enumerate() {
        next.flow = [0, 4][n % 2];
    }
    assert_eq!(there_and_back(&sent(&list), LIMITS, None).1, 2);
}

#[test]
fn push_congestion_and_a_gap_end_a_packet() {
    let mut list = steady(0, 9, 1000);
    list[2].flags |= 8; // the first packet: 0 to 2
    list[5].odd = 3; // congestion experienced: 3 and 4, 5, 6 to 8
    assert_eq!(there_and_back(&sent(&list), LIMITS, None).1, 3);
    let mut frames = sent(&steady(0, 6, 1000));
    frames.remove(2);
    assert_eq!(there_and_back(&frames, LIMITS, None).1, 2);
}
