// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::sync::Mutex;

use weir_packet::checksum::Sum;
use weir_packet::header::ethernet::ethernet;
use weir_packet::header::ipv4::ipv4;
use weir_packet::header::transport::tcp;
use weir_packet::vnet::{GSO_NONE, GSO_TCPV4, NEEDS_CSUM, TCP_CHECK};
use weir_packet::{Pool, PoolConfig, VlanTag};
use weir_sync::rcu::Domain;

use super::*;

/// A file that keeps what it is given.
#[derive(Default)]
struct Kept(Mutex<Vec<u8>>);

impl File for Kept {
    fn frame(&self, parts: [&[u8]; vnet::PARTS]) -> bool {
        *self.0.lock().unwrap() = parts.concat();
        true
    }

    fn gone(&self) {}

    fn id(&self) -> u64 {
        1
    }
}

fn tap(flags: u32) -> Tun {
    Tun {
        flags: AtomicU32::new(flag::TAP | flag::NO_PI | flags),
        owner: AtomicU32::new(u32::MAX),
        group: AtomicU32::new(u32::MAX),
        hardware: AtomicU16::new(arphrd::ETHER),
        offloads: AtomicU64::new(0),
        vnet: AtomicU32::new(vnet::LEN as u32),
        sndbuf: AtomicU32::new(0),
        carrier: AtomicBool::new(true),
        little: AtomicBool::new(false),
        files: Published::new(&Domain::new(Default::default()), Files::default()),
    }
}

/// A frame whose checksum field holds the sum of the pseudo header, as a sender leaves it.
fn frame(payload: &[u8]) -> Vec<u8> {
    let (src, dst) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let mut segment = tcp(1000, 2000, 7, 9, 0x10).to_vec();
    segment.extend(payload);
    let mut sum = Sum::default();
    sum.add_pseudo_v4(src, dst, 6, segment.len() as u16);
    segment[16..18].copy_from_slice(&(!sum.finish()).to_be_bytes());
    let mut frame = ethernet([2; 6], [4; 6], ETH_P_IP).to_vec();
    frame.extend(ipv4(src, dst, 6, 64, 0, 9, 0, segment.len()));
    frame.extend(segment);
    frame
}

fn header(flags: u8, gso_type: u8) -> Header {
    let [s0, s1] = 34_u16.to_ne_bytes();
    let [o0, o1] = TCP_CHECK.to_ne_bytes();
    let [g0, g1] = 1000_u16.to_ne_bytes();
    Header::parse([flags, gso_type, 0, 0, g0, g1, s0, s1, o0, o1])
}

/// The checksum of a long frame is left to the program, with a tag in front of it or without.
#[test]
fn a_long_tagged_frame_leaves_its_checksum_to_the_program() {
    let pool = Pool::new(PoolConfig::default());
    let whole = frame(&[7; 5000]);
    let packet = pool.packet(&whole).unwrap();
    let mut packet = apply(header(NEEDS_CSUM, GSO_TCPV4), packet).unwrap();
    assert!(packet.segments().is_some());
    for tci in [None, Some(5)] {
        packet.set_vlan(tci.map(|tci| VlanTag { proto: 0x8100, tci }));
        let (with, without) = (tap(flag::VNET_HDR), tap(0));
        let file = Kept::default();
        assert!(with.deliver(&file, &packet));
        let mut given = file.0.lock().unwrap().split_off(vnet::LEN);
        assert!(tci.is_none() || given.drain(12..16).as_slice() == [0x81, 0, 0, 5]);
        assert_eq!(given, whole);
        // Without the header nothing can be left.
        assert!(without.deliver(&file, &packet));
        let mut given = std::mem::take(&mut *file.0.lock().unwrap());
        assert!(tci.is_none() || given.drain(12..16).as_slice() == [0x81, 0, 0, 5]);
        assert_eq!(given, packet.data());
        assert_ne!(given, whole);
    }
}

#[test]
fn a_checksum_is_good_if_the_device_has_computed_it() {
    let pool = Pool::new(PoolConfig::default());
    for (flags, good) in [(NEEDS_CSUM, true), (vnet::DATA_VALID, false), (0, false)] {
        let packet = pool.packet(&frame(b"short")).unwrap();
        let packet = apply(header(flags, GSO_NONE), packet).unwrap();
        assert_eq!(packet.flags.contains(Flags::CSUM_GOOD), good, "{flags}");
    }
}
