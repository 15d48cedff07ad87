// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data path of a bridge that filters VLANs: ingress checks, tags at egress, entries and counters per VLAN.
#![allow(clippy::unwrap_used)] // Tests may panic.

use crate::world::{World, device_mac, host_mac, ip};
use weir_netlink::ifla::bridge::{
    VLAN_INFO_ONLY_OPTS, VLAN_INFO_PVID, VLAN_INFO_RANGE_BEGIN, VLAN_INFO_RANGE_END,
    VLAN_INFO_UNTAGGED,
};
use weir_netlink::ifla::vlandb;
use weir_netlink::{BrVlanMsg, BridgeVlanInfo, IfInfoMsg, Writer, af, errno, ifla, nlm, rtm};
use weir_packet::DropReason;
use weir_stack::drops::Place;

const BROADCAST: [u8; 6] = [0xff; 6];
const BRIDGE: [u8; 6] = [2, 0, 0, 0, 9, 9];
const Q: u16 = 0x8100;
const AD: u16 = 0x88a8;

/// Makes a bridge `br0` with the ports `d1` to `d4`, all up. `fill` writes its data.
fn bridged(fill: impl FnOnce(&mut Writer)) -> World {
    let mut world = World::ipv4_only();
    for n in 1..=4 {
        world.dummy(&format!("d{n}"), device_mac(n));
    }
    let made = world.request(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
        out.fixed(&IfInfoMsg::default());
        out.put_str(ifla::IFNAME, "br0");
        out.put(ifla::ADDRESS, &BRIDGE);
        let nest = out.nest(ifla::LINKINFO);
        out.put_str(ifla::info::KIND, "bridge");
        let data = out.nest(ifla::info::DATA);
        out.put_u8(ifla::br::VLAN_FILTERING, 1);
        fill(out);
        out.end(data);
        out.end(nest);
    });
    assert_eq!(made, 0);
    let master = world.device("br0").ifindex();
    for n in 1..=4 {
        let index = world.device(&format!("d{n}")).ifindex() as i32;
        let done = world.request(rtm::NEWLINK, 0, |out| {
            out.fixed(&IfInfoMsg {
                index,
                ..IfInfoMsg::default()
            });
            out.put_u32(ifla::MASTER, master);
        });
        assert_eq!(done, 0);
    }
    world.set_up("br0", true);
    world.left();
    world
}

/// Adds a device to VLANs, or takes it out of them. Returns the errno.
fn vlan(world: &mut World, ty: u16, name: &str, (first, last): (u16, u16), flags: u16) -> i32 {
    let index = world.device(name).ifindex() as i32;
    world.request(ty, 0, |out| {
        out.fixed(&IfInfoMsg {
            family: af::BRIDGE,
            index,
            ..IfInfoMsg::default()
        });
        let nest = out.nest(ifla::AF_SPEC);
        if name == "br0" {
            out.put_u16(ifla::bridge::FLAGS, 2);
        }
        let mut put = |vid, flags| {
            let info = BridgeVlanInfo { flags, vid };
            out.put_fixed(ifla::bridge::VLAN_INFO, &info);
        };
        if first == last {
            put(first, flags);
        } else {
            put(first, flags | VLAN_INFO_RANGE_BEGIN);
            put(last, flags | VLAN_INFO_RANGE_END);
        }
        out.end(nest);
    })
}

fn add(world: &mut World, name: &str, vid: u16, flags: u16) {
    assert_eq!(vlan(world, rtm::SETLINK, name, (vid, vid), flags), 0);
}

fn delete(world: &mut World, name: &str, vid: u16) {
    assert_eq!(vlan(world, rtm::DELLINK, name, (vid, vid), 0), 0);
}

/// Returns a frame with the given tags, the outer one first.
fn frame(dst: [u8; 6], src: [u8; 6], tags: &[(u16, u16)]) -> Vec<u8> {
    let mut frame = [dst, src].concat();
    for (protocol, tci) in tags {
        frame.extend_from_slice(&protocol.to_be_bytes());
        frame.extend_from_slice(&tci.to_be_bytes());
    }
    frame.extend_from_slice(&[0x88, 0xb5]);
    frame.resize(60 + 4 * tags.len(), 7);
    frame
}

/// Returns the tags of a frame.
fn tags(frame: &[u8]) -> Vec<(u16, u16)> {
    let words = frame[12..].chunks_exact(2);
    let words: Vec<u16> = words
        .map(|two| u16::from_be_bytes([two[0], two[1]]))
        .collect();
    words
        .chunks_exact(2)
        .take_while(|pair| matches!(pair[0], Q | AD))
        .map(|pair| (pair[0], pair[1]))
        .collect()
}

type Left = Vec<(String, Vec<(u16, u16)>)>;

/// Receives a frame and returns the ports by which it left, with its tags there.
fn through(
    world: &mut World,
    name: &str,
    (dst, src): ([u8; 6], [u8; 6]),
    sent: &[(u16, u16)],
) -> Left {
    world.arrive(name, &[frame(dst, src, sent)]);
    let left = world.left().into_iter();
    left.map(|(name, _, frame)| {
        let tags = tags(&frame);
        assert_eq!(frame[12 + 4 * tags.len()..][..2], [0x88, 0xb5]);
        (name, tags)
    })
    .collect()
}

fn untagged(name: &str) -> (String, Vec<(u16, u16)>) {
    (name.to_owned(), Vec::new())
}

fn tagged(name: &str, tci: u16) -> (String, Vec<(u16, u16)>) {
    (name.to_owned(), vec![(Q, tci)])
}

#[test]
fn frames_stay_in_their_vlan_and_leave_with_or_without_a_tag() {
    let mut world = bridged(|_| {});
    // d1: access port of VLAN 10; d2: trunk of 10 and 20; d3: access port of 20; d4: default VLAN 1.
    for (name, vid) in [("d1", 10), ("d3", 20)] {
        add(&mut world, name, vid, VLAN_INFO_PVID | VLAN_INFO_UNTAGGED);
        delete(&mut world, name, 1);
    }
    add(&mut world, "d2", 10, 0);
    add(&mut world, "d2", 20, 0);
    let flood = (BROADCAST, host_mac(1));
    assert_eq!(through(&mut world, "d1", flood, &[]), [tagged("d2", 10)]);
    assert_eq!(
        through(&mut world, "d2", (BROADCAST, host_mac(2)), &[(Q, 20)]),
        [untagged("d3")]
    );
    // Untagged frames of the trunk are in VLAN 1, as those of d4.
    assert_eq!(
        through(&mut world, "d2", (BROADCAST, host_mac(2)), &[]),
        [untagged("d4")]
    );
    // A priority tag keeps its priority and gets the VLAN.
    assert_eq!(
        through(&mut world, "d1", flood, &[(Q, 5 << 13)]),
        [tagged("d2", 5 << 13 | 10)]
    );
    // A tagged frame of a VLAN the port is not in, and one that it is in.
    assert!(through(&mut world, "d1", flood, &[(Q, 20)]).is_empty());
    let reason = DropReason::NOT_SPECIFIED;
    assert_eq!(world.dropped("d1", Place::Receive, reason), 1);
    assert_eq!(
        through(&mut world, "d1", flood, &[(Q, 10)]),
        [tagged("d2", 10)]
    );
    // The inner tag is payload.
    assert_eq!(
        through(
            &mut world,
            "d2",
            (BROADCAST, host_mac(2)),
            &[(Q, 20), (Q, 7)]
        ),
        [("d3".to_owned(), vec![(Q, 7)])]
    );
    // So is a tag of the other protocol, whose frame is untagged.
    assert_eq!(
        through(&mut world, "d1", flood, &[(AD, 20)]),
        [("d2".to_owned(), vec![(Q, 10), (AD, 20)])]
    );
    // Without a PVID, untagged frames are refused.
    delete(&mut world, "d4", 1);
    assert!(through(&mut world, "d4", flood, &[]).is_empty());
}

#[test]
fn addresses_are_learned_per_vlan() {
    let mut world = bridged(|_| {});
    for name in ["d1", "d2", "d3"] {
        add(&mut world, name, 10, 0);
        add(&mut world, name, 20, 0);
    }
    let (host, other) = (host_mac(1), host_mac(2));
    through(&mut world, "d1", (BROADCAST, host), &[(Q, 10)]);
    through(&mut world, "d2", (BROADCAST, host), &[(Q, 20)]);
    let to_host = (host, other);
    assert_eq!(
        through(&mut world, "d3", to_host, &[(Q, 10)]),
        [tagged("d1", 10)]
    );
    assert_eq!(
        through(&mut world, "d3", to_host, &[(Q, 20)]),
        [tagged("d2", 20)]
    );
    // In VLAN 1, the address is unknown; the newest port comes first.
    assert_eq!(
        through(&mut world, "d3", to_host, &[]),
        [untagged("d4"), untagged("d2"), untagged("d1")]
    );
    // An entry goes with its VLAN.
    delete(&mut world, "d1", 10);
    add(&mut world, "d1", 10, 0);
    assert_eq!(
        through(&mut world, "d3", to_host, &[(Q, 10)]),
        [tagged("d2", 10), tagged("d1", 10)]
    );
    // The port that has left gets no frames of the VLAN, and its entry is gone.
    delete(&mut world, "d2", 20);
    assert_eq!(
        through(&mut world, "d3", to_host, &[(Q, 20)]),
        [tagged("d1", 20)]
    );
}

#[test]
fn nothing_is_learned_from_a_refused_frame() {
    let mut world = bridged(|_| {});
    add(&mut world, "d2", 10, 0);
    through(&mut world, "d1", (BROADCAST, host_mac(1)), &[(Q, 10)]);
    add(&mut world, "d1", 10, 0);
    add(&mut world, "d3", 10, 0);
    let left = through(&mut world, "d2", (host_mac(1), host_mac(2)), &[(Q, 10)]);
    assert_eq!(left, [tagged("d3", 10), tagged("d1", 10)]);
}

#[test]
fn the_bridge_itself_is_in_vlans_like_a_port() {
    let mut world = bridged(|_| {});
    world.address("br0", ip("10.0.1.1"), 24);
    add(&mut world, "d2", 10, 0);
    let mut request = [BROADCAST, host_mac(2)].concat();
    request.extend_from_slice(&[0x81, 0, 0, 10, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    request.extend_from_slice(&host_mac(2));
    request.extend_from_slice(&[10, 0, 1, 2, 0, 0, 0, 0, 0, 0, 10, 0, 1, 1]);
    request.resize(64, 0);
    // The bridge is not in VLAN 10.
    world.arrive("d2", std::slice::from_ref(&request));
    assert!(world.left().is_empty());
    // Its untagged frames are in VLAN 10 now, and frames of VLAN 10 reach it untagged.
    add(&mut world, "br0", 10, VLAN_INFO_PVID | VLAN_INFO_UNTAGGED);
    world.arrive("d2", std::slice::from_ref(&request));
    let left = world.left();
    assert_eq!(left.len(), 1);
    let (name, _, answer) = &left[0];
    assert_eq!(name, "d2");
    assert_eq!(
        (&answer[..6], &answer[6..12]),
        (&host_mac(2)[..], &BRIDGE[..])
    );
    assert_eq!(tags(answer), [(Q, 10)]);
    assert_eq!(answer[24..26], [0, 2]);
}

#[test]
fn a_provider_bridge_takes_customers_frames_as_payload() {
    let mut world = bridged(|out| out.put_be16(ifla::br::VLAN_PROTOCOL, AD));
    add(&mut world, "d1", 100, VLAN_INFO_PVID | VLAN_INFO_UNTAGGED);
    add(&mut world, "d2", 100, 0);
    let flood = (BROADCAST, host_mac(1));
    assert_eq!(
        through(&mut world, "d1", flood, &[(Q, 7)]),
        [("d2".to_owned(), vec![(AD, 100), (Q, 7)])]
    );
    // The provider's bridges forward the customers' bridge group address, and not their own.
    let bpdu = |last| ([1, 0x80, 0xc2, 0, 0, last], host_mac(1));
    assert_eq!(through(&mut world, "d1", bpdu(0), &[]).len(), 1);
    assert_eq!(through(&mut world, "d1", bpdu(0x0b), &[]).len(), 1);
    assert_eq!(through(&mut world, "d1", bpdu(8), &[]).len(), 0);
}

#[test]
fn a_range_is_added_and_deleted_at_once() {
    let mut world = bridged(|_| {});
    assert_eq!(vlan(&mut world, rtm::SETLINK, "d1", (2, 4094), 0), 0);
    assert_eq!(vlan(&mut world, rtm::SETLINK, "d2", (2, 4094), 0), 0);
    let flood = (BROADCAST, host_mac(1));
    for vid in [2, 1000, 4094] {
        let left = through(&mut world, "d1", flood, &[(Q, vid)]);
        assert_eq!(left, [tagged("d2", vid)]);
    }
    assert_eq!(vlan(&mut world, rtm::DELLINK, "d2", (2, 1999), 0), 0);
    assert!(through(&mut world, "d1", flood, &[(Q, 1000)]).is_empty());
    let left = through(&mut world, "d1", flood, &[(Q, 2000)]);
    assert_eq!(left, [tagged("d2", 2000)]);
    for (range, flags) in [
        ((0, 0), 0),
        ((4095, 4095), 0),
        ((9, 5), 0),
        ((5, 9), VLAN_INFO_PVID),
    ] {
        let done = vlan(&mut world, rtm::SETLINK, "d1", range, flags);
        assert_eq!(done, errno::EINVAL, "{range:?}");
    }
}

/// Sends RTM_NEWVLAN or RTM_DELVLAN with an entry of one VLAN or a range. Returns the errno.
fn entry(
    world: &mut World,
    ty: u16,
    name: &str,
    (vid, last): (u16, u16),
    flags: u16,
    fill: impl FnOnce(&mut Writer),
) -> i32 {
    let ifindex = world.device(name).ifindex();
    world.request(ty, 0, |out| {
        out.fixed(&BrVlanMsg {
            family: af::BRIDGE,
            ifindex,
            ..BrVlanMsg::default()
        });
        let nest = out.nest(vlandb::ENTRY);
        out.put_fixed(vlandb::ENTRY_INFO, &BridgeVlanInfo { flags, vid });
        if last != vid {
            out.put_u16(vlandb::ENTRY_RANGE, last);
        }
        fill(out);
        out.end(nest);
    })
}

/// RTM_NEWVLAN adds VLANs, sets states, and refuses what is not served; RTM_DELVLAN deletes.
#[test]
fn entries_add_and_delete_vlans_and_set_states() {
    let mut world = bridged(|_| {});
    let (new, del) = (rtm::NEWVLAN, rtm::DELVLAN);
    for name in ["d1", "d2"] {
        assert_eq!(entry(&mut world, new, name, (10, 19), 0, |_| {}), 0);
    }
    let flood = (BROADCAST, host_mac(1));
    let blocked = |out: &mut Writer| out.put_u8(vlandb::ENTRY_STATE, 4);
    let only = VLAN_INFO_ONLY_OPTS;
    assert_eq!(through(&mut world, "d1", flood, &[(Q, 12)]).len(), 1);
    assert_eq!(entry(&mut world, new, "d2", (12, 13), only, blocked), 0);
    assert!(through(&mut world, "d1", flood, &[(Q, 12)]).is_empty());
    assert_eq!(through(&mut world, "d1", flood, &[(Q, 14)]).len(), 1);
    // A VLAN that learns drops what it receives, and finds the source later.
    let learning = |out: &mut Writer| out.put_u8(vlandb::ENTRY_STATE, 2);
    assert_eq!(entry(&mut world, new, "d1", (15, 15), only, learning), 0);
    let place = Place::Receive;
    let reason = DropReason::BRIDGE_INGRESS_STP_STATE;
    let before = world.dropped("d1", place, reason);
    assert!(through(&mut world, "d1", (BROADCAST, host_mac(9)), &[(Q, 15)]).is_empty());
    assert_eq!(world.dropped("d1", place, reason), before + 1);
    let forwarding = |out: &mut Writer| out.put_u8(vlandb::ENTRY_STATE, 3);
    assert_eq!(entry(&mut world, new, "d1", (15, 15), only, forwarding), 0);
    assert_eq!(entry(&mut world, new, "d3", (15, 15), 0, |_| {}), 0);
    let left = through(&mut world, "d2", (host_mac(9), host_mac(2)), &[(Q, 15)]);
    assert_eq!(left, [tagged("d1", 15)]);
    assert_eq!(entry(&mut world, del, "d2", (10, 16), 0, |_| {}), 0);
    assert!(through(&mut world, "d1", flood, &[(Q, 14)]).is_empty());
    assert_eq!(through(&mut world, "d1", flood, &[(Q, 17)]).len(), 1);
    let router = |out: &mut Writer| out.put_u8(vlandb::ENTRY_MCAST_ROUTER, 2);
    let wrong = |out: &mut Writer| out.put_u8(vlandb::ENTRY_STATE, 5);
    let range = VLAN_INFO_RANGE_BEGIN;
    let nothing = |_: &mut Writer| {};
    let done = entry(&mut world, new, "d1", (17, 17), only, router);
    assert_eq!(done, 0);
    // The port has no tunnels (`vlan_tunnel`).
    let tunnel = |out: &mut Writer| {
        let nest = out.nest(vlandb::ENTRY_TUNNEL_INFO);
        out.put_u32(vlandb::TINFO_ID, 5);
        out.end(nest);
    };
    let done = entry(&mut world, new, "d1", (17, 17), only, tunnel);
    assert_eq!(done, errno::EINVAL);
    let router = |out: &mut Writer| out.put_u8(vlandb::ENTRY_MCAST_ROUTER, 4);
    let done = entry(&mut world, new, "d1", (17, 17), only, router);
    assert_eq!(done, errno::EINVAL);
    let done = entry(&mut world, new, "d1", (17, 17), only, wrong);
    assert_eq!(done, errno::EINVAL);
    for (vids, flags, wanted) in [
        ((0, 0), only, errno::EINVAL),
        ((4095, 4095), only, errno::EINVAL),
        ((17, 4095), only, errno::EINVAL),
        ((18, 17), only, errno::EINVAL),
        ((17, 18), only | VLAN_INFO_PVID, errno::EINVAL),
        ((17, 17), range, errno::EINVAL),
        ((99, 99), only, errno::ENOENT),
    ] {
        let done = entry(&mut world, new, "d1", vids, flags, nothing);
        assert_eq!(done, wanted, "{vids:?} {flags}");
    }
    assert_eq!(through(&mut world, "d1", flood, &[(Q, 17)]).len(), 1);
}

/// Returns (vid, received bytes and packets, sent bytes and packets) of a port's VLANs.
fn counters(world: &mut World, name: &str) -> Vec<(u16, [u64; 4])> {
    let device = world.device(name);
    let guard = world.stack.domain.pin();
    let above = device.master(&guard);
    let bridging = device.link.bridging();
    let bridging = bridging.or_else(|| above.and_then(|above| above.link.bridging()));
    let parts = bridging.unwrap().extended_statistics(&guard, &device);
    let part = parts.concat();
    let attrs = weir_netlink::attrs(&part);
    attrs
        .filter(|attr| attr.ty == ifla::bridge_xstats::VLAN)
        .map(|attr| {
            let word =
                |at: usize| u64::from_ne_bytes(attr.payload[8 * at..][..8].try_into().unwrap());
            let vid = u16::from_ne_bytes(attr.payload[32..34].try_into().unwrap());
            (vid, [0, 1, 2, 3].map(word))
        })
        .collect()
}

/// Sends a frame of VLAN 10 each way between `d1` and `d2`, and returns the counters of `d1` in that VLAN.
fn counted(per_port: u8) -> [u64; 4] {
    let mut world = bridged(|out| {
        out.put_u8(ifla::br::VLAN_STATS_ENABLED, 1);
        out.put_u8(ifla::br::VLAN_STATS_PER_PORT, per_port);
    });
    for name in ["d1", "d2"] {
        add(&mut world, name, 10, 0);
    }
    for (name, src) in [("d1", 1), ("d2", 2)] {
        through(&mut world, name, (BROADCAST, host_mac(src)), &[(Q, 10)]);
    }
    let all = counters(&mut world, "d1");
    all.into_iter().find(|(vid, _)| *vid == 10).unwrap().1
}

#[test]
fn vlans_are_counted_together_or_per_port() {
    // 60 bytes without the Ethernet header and the tag.
    assert_eq!(counted(0), [92, 2, 92, 2]);
    assert_eq!(counted(1), [46, 1, 46, 1]);
}
