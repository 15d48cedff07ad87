// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packet sockets.
#![allow(clippy::unwrap_used)] // Tests may panic.

use crate::world::{World, at};
use libc::{
    AF_INET, AF_PACKET, EINVAL, EMSGSIZE, ENETDOWN, ENODEV, ENOPROTOOPT, ENXIO, SOCK_DGRAM,
    SOCK_RAW, SOL_PACKET,
};
use weir_netlink::ifla::iff;

const ETH_P_ALL: u16 = 3;
const ETH_P_IP: u16 = 0x0800;

fn ll(protocol: u16, index: u32, address: &[u8]) -> Vec<u8> {
    let mut bytes = (AF_PACKET as u16).to_ne_bytes().to_vec();
    bytes.extend(protocol.to_be_bytes());
    bytes.extend(index.to_ne_bytes());
    bytes.extend([0, 0, 0, address.len() as u8]);
    bytes.extend(address);
    bytes.resize(20, 0);
    bytes
}

fn network(protocol: u16) -> i32 {
    protocol.to_be().into()
}

#[test]
fn all_frames_of_a_device_both_ways() {
    let mut world = World::new();
    let index = world.index(1, "v1");
    let raw = world.open(1, AF_PACKET, SOCK_RAW, network(ETH_P_ALL));
    let cooked = world.open(1, AF_PACKET, SOCK_DGRAM, network(ETH_P_IP));
    let silent = world.open(1, AF_PACKET, SOCK_RAW, 0);
    world.bind(&raw, &ll(ETH_P_ALL, index, &[])).unwrap();
    let ping = world.open(0, AF_INET, SOCK_DGRAM, libc::IPPROTO_ICMP);
    let request = [8, 0, 0, 0, 0, 0, 0, 1];
    world.send_to(&ping, &at("10.0.0.2", 0), &request).unwrap();
    world.pass(10);
    raw.got();
    cooked.got();
    world.send_to(&ping, &at("10.0.0.2", 0), &request).unwrap();
    world.pass(10);
    let got = raw.got();
    let kinds: Vec<_> = got.iter().map(|one| one.from[10]).collect();
    assert_eq!(kinds, [0, 4], "to us, from us");
    assert_eq!(got[0].data[12..15], [8, 0, 0x45]);
    assert_eq!(got[0].from[2..4], ETH_P_IP.to_be_bytes());
    assert_eq!(got[0].from[4..8], index.to_ne_bytes());
    assert_eq!(got[0].from[12..18], got[0].data[6..12]);
    // One protocol: only what is received, without the header.
    let one = cooked.one();
    assert_eq!((one.data[0], one.from[10]), (0x45, 0));
    assert!(silent.got().is_empty());
    let statistics = raw.socket.option(0, SOL_PACKET, 6, &[0; 8]).unwrap();
    assert!(statistics[0] >= 2);
    assert_eq!(
        raw.socket.option(0, SOL_PACKET, 6, &[0; 8]).unwrap(),
        [0; 8]
    );
    world.close(&raw);
    world.close(&cooked);
    world.send_to(&ping, &at("10.0.0.2", 0), &request).unwrap();
    world.pass(10);
    assert!(raw.got().is_empty() && cooked.got().is_empty());
}

#[test]
fn frames_are_sent() {
    let mut world = World::new();
    let index = world.index(0, "v0");
    let sender = world.open(0, AF_PACKET, SOCK_RAW, network(ETH_P_ALL));
    assert_eq!(world.send(&sender, &[0; 60]), Err(ENXIO));
    world.bind(&sender, &ll(ETH_P_ALL, index, &[])).unwrap();
    let receiver = world.open(1, AF_PACKET, SOCK_RAW, network(0x88b5));
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame.extend(b"hello");
    assert_eq!(world.send(&sender, &frame), Ok(19));
    world.pass(10);
    let got = receiver.one();
    assert_eq!((got.data, got.from[10]), (frame, 1));
    // Its own frames are not shown to it.
    assert!(sender.got().is_empty());
    let cooked = world.open(0, AF_PACKET, SOCK_DGRAM, 0);
    world
        .send_to(&cooked, &ll(0x88b5, index, &[0xff; 6]), b"hello")
        .unwrap();
    world.pass(10);
    let got = receiver.one();
    let own = world.hosts[0].ns.device_by_name("v0").unwrap().address();
    assert_eq!(
        (&got.data[6..12], &got.data[12..]),
        (&own[..], &b"\x88\xb5hello"[..])
    );
    assert_eq!(world.send(&sender, &[0; 13]), Err(EINVAL));
    assert_eq!(world.send(&sender, &[0; 1515]), Err(EMSGSIZE));
    assert_eq!(
        world.send_to(&cooked, &ll(0x88b5, index, &[])[..19], b"x"),
        Err(EINVAL)
    );
    let mut lie = ll(0x88b5, index, &[]);
    lie[11] = 9;
    assert_eq!(world.send_to(&cooked, &lie, b"x"), Err(EINVAL));
    assert_eq!(
        world.send_to(&cooked, &ll(0x88b5, 99, &[0; 6]), b"x"),
        Err(ENXIO)
    );
    assert_eq!(world.bind(&sender, &ll(0, 99, &[])), Err(ENODEV));
    assert_eq!(world.bind(&sender, &ll(0, 99, &[])[..19]), Err(EINVAL));
    // The device goes down.
    world.set_flags(0, "v0", 0, iff::UP);
    assert_eq!(sender.socket.take_error(), ENETDOWN);
    assert_eq!(world.send(&sender, &[0; 60]), Err(ENETDOWN));
    // A ring in the form TPACKET_V1 is refused; taking one away that is not there is nothing.
    let ring: Vec<u8> = [4096_u32, 4, 2048, 8]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    assert_eq!(world.set(&sender, SOL_PACKET, 5, &ring), Err(EINVAL));
    assert_eq!(world.set(&sender, SOL_PACKET, 5, &[0; 16]), Ok(()));
    assert_eq!(
        sender.socket.option(0, SOL_PACKET, 11, &[0; 4]),
        Ok(32_i32.to_ne_bytes().to_vec())
    );
    assert_eq!(
        sender.socket.option(0, SOL_PACKET, 13, &[0; 4]),
        Err(ENOPROTOOPT)
    );
}
