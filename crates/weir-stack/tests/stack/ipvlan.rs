// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data path of ipvlans in the modes l2 and l3.
#![allow(clippy::unwrap_used)] // Tests may panic.

use std::sync::{Arc, Mutex};

use crate::world::{World, device_mac, host_mac, ip};
use weir_netlink::ifla::ipvlan;
use weir_netlink::{IfInfoMsg, errno, ifla, nlm, rtm};
use weir_packet::Batch;
use weir_stack::datapath;
use weir_stack::device::{Direction, Observer, Tap};

const BROADCAST: [u8; 6] = [0xff; 6];
const L2: u16 = 0;
const L3: u16 = 1;

/// The received frames: (device name, bytes).
#[derive(Default)]
struct Received(Mutex<Vec<(String, Vec<u8>)>>);

impl Observer for Received {
    fn frame(&self, tap: &Tap<'_>) {
        if tap.direction == Direction::Rx {
            let frame = (tap.device.name(), tap.packet.data().to_vec());
            self.0.lock().unwrap().push(frame);
        }
    }
}

impl Received {
    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = std::mem::take(&mut *self.0.lock().unwrap())
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        names.sort();
        names
    }
}

fn add(world: &mut World, name: &str, mode: u16, flags: u16) -> i32 {
    let link = world.device("d1").ifindex();
    world.request(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
        out.fixed(&IfInfoMsg::default());
        out.put_str(ifla::IFNAME, name);
        out.put_u32(ifla::LINK, link);
        let info = out.nest(ifla::LINKINFO);
        out.put_str(ifla::info::KIND, "ipvlan");
        let data = out.nest(ifla::info::DATA);
        out.put_u16(ipvlan::MODE, mode);
        out.put_u16(ipvlan::FLAGS, flags);
        out.end(data);
        out.end(info);
    })
}

/// Makes a device `d1` with the ipvlans `i1` and `i2`, up, with the addresses 10.0.1.11 and 10.0.1.12.
fn with(mode: u16, flags: u16) -> (World, Arc<Received>) {
    let mut world = World::ipv4_only();
    world.sysctl("net/ipv4/conf/all/arp_ignore", "1");
    world.dummy("d1", device_mac(1));
    let received = Arc::new(Received::default());
    for n in [1, 2] {
        let name = format!("i{n}");
        assert_eq!(add(&mut world, &name, mode, flags), 0);
        world.set_up(&name, true);
        world.address(&name, ip(&format!("10.0.1.1{n}")), 24);
        world.neighbour(&name, ip("10.0.1.2"), host_mac(1));
        let guard = world.stack.domain.pin();
        world.device(&name).observe(&guard, received.clone());
    }
    world.left();
    (world, received)
}

/// An ARP request for 10.0.1.`to` from 10.0.1.`from`.
fn arp(src: [u8; 6], from: u8, to: u8) -> Vec<u8> {
    let mut request = [BROADCAST, src].concat();
    request.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    request.extend_from_slice(&src);
    request.extend_from_slice(&[10, 0, 1, from, 0, 0, 0, 0, 0, 0, 10, 0, 1, to]);
    request.resize(60, 0);
    request
}

/// An echo request from 10.0.1.`from` to 10.0.1.`to`.
fn echo(dst: [u8; 6], src: [u8; 6], from: u8, to: u8) -> Vec<u8> {
    let mut frame = [dst, src].concat();
    frame.extend_from_slice(&[8, 0]);
    let mut header = vec![0x45, 0, 0, 46, 0, 0, 0, 0, 64, 1, 0, 0];
    header.extend_from_slice(&[10, 0, 1, from, 10, 0, 1, to]);
    let sum = sum_of(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend_from_slice(&header);
    let mut echo = vec![8, 0, 0, 0, 0, 1, 0, 1];
    echo.resize(26, 0);
    let sum = sum_of(&echo);
    echo[2..4].copy_from_slice(&sum.to_be_bytes());
    frame.extend_from_slice(&echo);
    frame
}

/// The Internet checksum (RFC 1071).
fn sum_of(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}

#[test]
fn a_frame_goes_to_the_ipvlan_with_its_ip_address() {
    for mode in [L2, L3] {
        let (mut world, received) = with(mode, 0);
        world.arrive("d1", &[echo(device_mac(1), host_mac(1), 2, 12)]);
        assert_eq!(received.names(), ["i2"]);
        // The lower device keeps what nobody has.
        world.arrive("d1", &[echo(device_mac(1), host_mac(1), 2, 13)]);
        assert!(received.names().is_empty());
        world.set_up("i2", false);
        world.arrive("d1", &[echo(device_mac(1), host_mac(1), 2, 12)]);
        assert!(received.names().is_empty());
    }
}

#[test]
fn mode_l2_copies_group_frames_and_answers_arp() {
    let (mut world, received) = with(L2, 0);
    world.arrive("d1", &[arp(host_mac(1), 2, 12)]);
    assert_eq!(received.names(), ["i1", "i2"]);
    let left = world.left();
    let answers = left.iter().filter(|(_, _, frame)| frame[12..14] == [8, 6]);
    assert_eq!(answers.count(), 1, "{left:x?}");
    // The neighbour of i2 is known now: the answer leaves by the lower device.
    world.arrive("d1", &[echo(device_mac(1), host_mac(1), 2, 12)]);
    assert_eq!(received.names(), ["i2"]);
    assert_eq!(world.left().len(), 1);
    // A frame of an ipvlan that comes back is not copied.
    world.arrive("d1", &[arp(device_mac(1), 11, 12)]);
    assert!(received.names().is_empty());
}

/// Sends a frame by a device.
fn send(world: &mut World, name: &str, frame: &[u8]) {
    let device = world.device(name);
    let packet = world.stack.pool.packet(frame).unwrap();
    world
        .cpu
        .with(|cx| datapath::transmit(cx, &device, Batch::from(packet)));
    world.cpu.settle();
}

#[test]
fn ipvlans_reach_each_other_as_the_flags_say() {
    const BRIDGE: u16 = 0;
    const PRIVATE: u16 = 1;
    const VEPA: u16 = 2;
    let own = device_mac(1);
    for mode in [L2, L3] {
        for (flags, crossed, left) in [(BRIDGE, 1, 0), (PRIVATE, 0, 0), (VEPA, 0, 1)] {
            let (mut world, received) = with(mode, flags);
            world.address("d1", ip("10.0.1.1"), 24);
            world.neighbour("d1", ip("10.0.1.12"), host_mac(1));
            world.left();
            send(&mut world, "i1", &echo(own, own, 11, 12));
            let case = (mode, flags);
            assert_eq!(received.names().len(), crossed, "{case:?}");
            assert_eq!(world.left().len(), left, "{case:?}");
        }
    }
    // Nobody has the IP address: the lower device gets the frame, and it does not leave.
    let (mut world, received) = with(L2, BRIDGE);
    send(&mut world, "i1", &echo(own, own, 11, 99));
    assert!(received.names().is_empty());
    assert!(world.left().is_empty());
    assert_eq!(world.device("d1").totals().rx_packets, 0);
}

#[test]
fn mode_l3_routes_what_leaves_in_the_namespace_of_the_lower_device() {
    let (mut world, received) = with(L3, 0);
    world.address("d1", ip("10.0.1.1"), 24);
    world.neighbour("d1", ip("10.0.1.2"), host_mac(7));
    world.left();
    world.arrive("d1", &[echo(device_mac(1), host_mac(1), 2, 11)]);
    assert_eq!(received.names(), ["i1"]);
    let left = world.left();
    assert_eq!(left.len(), 1, "{left:x?}");
    assert_eq!(left[0].2[..6], host_mac(7), "the lower device's neighbour");
}

#[test]
fn an_address_belongs_to_one_ipvlan() {
    let (mut world, _) = with(L2, 0);
    let refused = world.try_address(rtm::NEWADDR, "i1", ip("10.0.1.12"), 24);
    assert_eq!(refused, errno::EADDRINUSE);
    assert_eq!(
        world.try_address(rtm::DELADDR, "i2", ip("10.0.1.12"), 24),
        0
    );
    world.address("i1", ip("10.0.1.12"), 24);
    assert_eq!(add(&mut world, "i3", 2, 0), errno::EOPNOTSUPP);
    assert_eq!(add(&mut world, "i3", 3, 0), errno::EINVAL);
}

#[test]
fn ipvlans_go_with_their_lower_device() {
    let (mut world, _) = with(L2, 0);
    let index = world.device("d1").ifindex() as i32;
    let done = world.request(rtm::DELLINK, 0, |out| {
        out.fixed(&IfInfoMsg {
            index,
            ..IfInfoMsg::default()
        });
    });
    assert_eq!(done, 0);
    assert!(world.ns.device_by_name("i1").is_none());
}
