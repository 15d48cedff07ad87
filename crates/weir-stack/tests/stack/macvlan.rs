// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data path of macvlans: the modes, groups, sources, and the way between two macvlans and the lower device.
#![allow(clippy::unwrap_used)] // Tests may panic.

use std::sync::{Arc, Mutex};

use crate::world::{World, device_mac, host_mac, ip};
use weir_netlink::ifla::{iff, macvlan, macvlan_mode as mode};
use weir_netlink::{IfInfoMsg, Writer, errno, ifla, nlm, rtm};
use weir_stack::device::{Direction, Observer, Tap};

const BROADCAST: [u8; 6] = [0xff; 6];
const GROUP: [u8; 6] = [1, 0, 0x5e, 1, 2, 3];

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

/// Adds a macvlan to `d1`. Returns the errno.
fn add(world: &mut World, name: &str, n: u8, mode: u32, more: impl FnOnce(&mut Writer)) -> i32 {
    let link = world.device("d1").ifindex();
    world.request(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
        out.fixed(&IfInfoMsg::default());
        out.put_str(ifla::IFNAME, name);
        out.put(ifla::ADDRESS, &mac(n));
        out.put_u32(ifla::LINK, link);
        let info = out.nest(ifla::LINKINFO);
        out.put_str(ifla::info::KIND, "macvlan");
        let data = out.nest(ifla::info::DATA);
        out.put_u32(macvlan::MODE, mode);
        more(out);
        out.end(data);
        out.end(info);
    })
}

fn mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 9, 0, n]
}

/// Makes a device `d1` with a macvlan for each mode, named `m1` and so on, all up.
fn with(modes: &[u32]) -> (World, Arc<Received>) {
    let mut world = World::ipv4_only();
    world.dummy("d1", device_mac(1));
    let received = Arc::new(Received::default());
    for (n, mode) in (1..).zip(modes) {
        let name = format!("m{n}");
        assert_eq!(add(&mut world, &name, n, *mode, |_| {}), 0);
        world.set_up(&name, true);
    }
    let guard = world.stack.domain.pin();
    for n in 1..=modes.len() {
        let name = format!("m{n}");
        world.device(&name).observe(&guard, received.clone());
    }
    drop(guard);
    world.left();
    (world, received)
}

fn frame(dst: [u8; 6], src: [u8; 6]) -> Vec<u8> {
    let mut frame = [dst, src].concat();
    frame.extend_from_slice(&[0x88, 0xb5]);
    frame.resize(60, 7);
    frame
}

/// An ARP request for 10.0.1.`to` from 10.0.1.2.
fn arp(src: [u8; 6], to: u8) -> Vec<u8> {
    let mut request = [BROADCAST, src].concat();
    request.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    request.extend_from_slice(&src);
    request.extend_from_slice(&[10, 0, 1, 2, 0, 0, 0, 0, 0, 0, 10, 0, 1, to]);
    request.resize(60, 0);
    request
}

const ALL: [u32; 4] = [mode::BRIDGE, mode::BRIDGE, mode::VEPA, mode::PRIVATE];

#[test]
fn a_frame_goes_to_the_macvlan_with_its_address() {
    let (mut world, received) = with(&ALL);
    world.arrive(
        "d1",
        &[frame(mac(2), host_mac(1)), frame(mac(3), host_mac(1))],
    );
    assert_eq!(received.names(), ["m2", "m3"]);
    // Nobody has the address: the lower device keeps the frame.
    world.arrive(
        "d1",
        &[
            frame(mac(9), host_mac(1)),
            frame(device_mac(1), host_mac(1)),
        ],
    );
    assert!(received.names().is_empty());
    assert_eq!(world.device("m2").totals().rx_packets, 1);
    assert_eq!(world.device("m2").totals().rx_bytes, 60);
    world.set_up("m2", false);
    world.arrive("d1", &[frame(mac(2), host_mac(1))]);
    assert!(received.names().is_empty());
}

#[test]
fn a_group_frame_from_outside_goes_to_all_that_accept_the_group() {
    let (mut world, received) = with(&ALL);
    world.arrive("d1", &[frame(BROADCAST, host_mac(1))]);
    assert_eq!(received.names(), ["m1", "m2", "m3", "m4"]);
    assert_eq!(world.device("m1").totals().multicast, 1);
    world.arrive("d1", &[frame(GROUP, host_mac(1))]);
    assert!(received.names().is_empty());
    world.set_flags("m3", iff::ALLMULTI, iff::ALLMULTI);
    world.arrive("d1", &[frame(GROUP, host_mac(1))]);
    assert_eq!(received.names(), ["m3"]);
    assert_eq!(world.device("d1").allmulti(), 1);
    world.set_up("m3", false);
    assert_eq!(world.device("d1").allmulti(), 0);
}

#[test]
fn a_frame_of_a_macvlan_that_comes_back_goes_to_those_that_have_not_seen_it() {
    let (mut world, received) = with(&ALL);
    // A switch reflects frames of vepa to all others, those of bridge to vepa, those of private to nobody else.
    for (from, to) in [(3, &["m1", "m2"][..]), (1, &["m3"][..]), (4, &["m4"][..])] {
        world.arrive("d1", &[frame(BROADCAST, mac(from))]);
        assert_eq!(received.names(), to, "from m{from}");
    }
}

/// Sends an ARP request from a macvlan by pinging its network, and returns where it went.
fn sent(world: &mut World, received: &Received, name: &str, n: u8) -> (Vec<String>, usize) {
    world.address(name, ip("10.0.1.1"), 24);
    received.names();
    world.left();
    // An answer to a host that asks goes to the host, by the lower device.
    world.arrive("d1", &[arp(host_mac(1), 1)]);
    let answers = world.left();
    let own = answers
        .iter()
        .filter(|(_, _, frame)| frame[6..12] == mac(n));
    let count = own.count();
    (received.names(), count)
}

#[test]
fn the_stack_of_a_macvlan_answers_through_the_lower_device() {
    let (mut world, received) = with(&ALL);
    let (heard, answers) = sent(&mut world, &received, "m1", 1);
    assert_eq!(heard, ["m1", "m2", "m3", "m4"]);
    assert_eq!(answers, 1);
    assert_eq!(world.device("m1").totals().tx_packets, 1);
}

#[test]
fn macvlans_of_mode_bridge_reach_each_other_and_the_others_do_not() {
    let (mut world, received) = with(&[mode::BRIDGE, mode::BRIDGE, mode::VEPA]);
    // Only the device that has the address answers.
    world.sysctl("net/ipv4/conf/all/arp_ignore", "1");
    world.address("m1", ip("10.0.1.1"), 24);
    // The answer to an address behind m2 goes there, and not outside.
    world.arrive("d1", &[arp(mac(2), 1)]);
    // m2 is of mode bridge, so the request, which bears its address, has been seen by m1 already.
    assert_eq!(received.names(), ["m3"]);
    world.set_up("m2", false);
    world.left();
    world.arrive("d1", &[arp(mac(2), 1)]);
    assert_eq!(received.names(), ["m1", "m3"]);
    let left = world.left();
    let answers = left.iter().filter(|(_, _, frame)| frame[12..14] == [8, 6]);
    assert_eq!(
        answers.count(),
        1,
        "m2 is down, so the answer leaves: {left:x?}"
    );
    world.set_up("m2", true);
    // An entry for m2 is there now. What m1 sends to it stays inside, and passes the lower device.
    let before = world.device("d1").totals();
    world.arrive("d1", &[echo(mac(1), host_mac(1))]);
    assert_eq!(received.names(), ["m1", "m2"]);
    assert!(world.left().is_empty());
    let after = world.device("d1").totals();
    assert_eq!(
        after.rx_packets - before.rx_packets,
        1,
        "the echo request alone"
    );
    // A macvlan of mode vepa gets nothing directly.
    let (mut world, received) = with(&[mode::VEPA, mode::BRIDGE]);
    world.address("m1", ip("10.0.1.1"), 24);
    world.neighbour("m1", ip("10.0.1.2"), mac(2));
    world.arrive("d1", &[echo(mac(1), host_mac(1))]);
    assert_eq!(received.names(), ["m1"]);
    assert_eq!(world.left().len(), 1);
}

/// An echo request from 10.0.1.2 to 10.0.1.1.
fn echo(dst: [u8; 6], src: [u8; 6]) -> Vec<u8> {
    let mut frame = [dst, src].concat();
    frame.extend_from_slice(&[8, 0]);
    let mut header = vec![
        0x45, 0, 0, 46, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 1, 2, 10, 0, 1, 1,
    ];
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
fn mode_source_takes_the_frames_of_listed_hosts() {
    let (mut world, received) = with(&[mode::BRIDGE]);
    let made = add(&mut world, "m2", 2, mode::SOURCE, |out| {
        out.put_u32(macvlan::MACADDR_MODE, 3);
        let list = out.nest(macvlan::MACADDR_DATA);
        out.put(macvlan::MACADDR, &host_mac(1));
        out.put(macvlan::MACADDR, &host_mac(2));
        out.end(list);
    });
    assert_eq!(made, 0);
    world.set_up("m2", true);
    let guard = world.stack.domain.pin();
    world.device("m2").observe(&guard, received.clone());
    drop(guard);
    // The frame goes to its addressee too, unless nodst is set.
    world.arrive("d1", &[frame(mac(1), host_mac(1))]);
    assert_eq!(received.names(), ["m1", "m2"]);
    world.arrive("d1", &[frame(mac(1), host_mac(3))]);
    assert_eq!(received.names(), ["m1"]);
    let index = world.device("m2").ifindex() as i32;
    let change = |world: &mut World, fill: &dyn Fn(&mut Writer)| {
        world.request(rtm::NEWLINK, 0, |out| {
            out.fixed(&IfInfoMsg {
                index,
                ..IfInfoMsg::default()
            });
            let info = out.nest(ifla::LINKINFO);
            out.put_str(ifla::info::KIND, "macvlan");
            let data = out.nest(ifla::info::DATA);
            fill(out);
            out.end(data);
            out.end(info);
        })
    };
    assert_eq!(change(&mut world, &|out| out.put_u16(macvlan::FLAGS, 2)), 0);
    world.arrive("d1", &[frame(mac(1), host_mac(1))]);
    assert_eq!(received.names(), ["m2"]);
    let flush = |out: &mut Writer| out.put_u32(macvlan::MACADDR_MODE, 2);
    assert_eq!(change(&mut world, &flush), 0);
    world.arrive("d1", &[frame(mac(1), host_mac(1))]);
    assert_eq!(received.names(), ["m1"]);
    let unknown = |out: &mut Writer| out.put_u32(macvlan::MACADDR_MODE, 4);
    assert_eq!(change(&mut world, &unknown), errno::EINVAL);
}

#[test]
fn mode_passthru_takes_every_frame_of_the_lower_device() {
    let mut world = World::ipv4_only();
    world.dummy("d1", device_mac(1));
    assert_eq!(add(&mut world, "m1", 1, mode::PASSTHRU, |_| {}), 0);
    assert_eq!(
        add(&mut world, "m2", 2, mode::BRIDGE, |_| {}),
        errno::EINVAL
    );
    world.set_up("m1", true);
    let received = Arc::new(Received::default());
    let guard = world.stack.domain.pin();
    world.device("m1").observe(&guard, received.clone());
    drop(guard);
    assert_eq!(world.device("m1").address(), device_mac(1));
    assert_eq!(world.device("d1").promiscuity(), 1);
    world.arrive(
        "d1",
        &[frame(mac(7), host_mac(1)), frame(BROADCAST, host_mac(1))],
    );
    assert_eq!(received.names(), ["m1", "m1"]);
    world.set_up("m1", false);
    assert_eq!(world.device("d1").promiscuity(), 0);
}

#[test]
fn macvlans_go_with_their_lower_device_and_leave_no_handler_behind() {
    let (mut world, received) = with(&ALL);
    let delete = |world: &mut World, name: &str| {
        let index = world.device(name).ifindex() as i32;
        let done = world.request(rtm::DELLINK, 0, |out| {
            out.fixed(&IfInfoMsg {
                index,
                ..IfInfoMsg::default()
            });
        });
        assert_eq!(done, 0);
    };
    delete(&mut world, "m1");
    world.arrive(
        "d1",
        &[frame(mac(1), host_mac(1)), frame(mac(2), host_mac(1))],
    );
    assert_eq!(received.names(), ["m2"]);
    for name in ["m2", "m3", "m4"] {
        delete(&mut world, name);
    }
    let guard = world.stack.domain.pin();
    assert!(world.device("d1").rx_handler(&guard).is_none());
    drop(guard);
    assert_eq!(add(&mut world, "m1", 1, mode::VEPA, |_| {}), 0);
    delete(&mut world, "d1");
    assert!(world.ns.device_by_name("m1").is_none());
}
