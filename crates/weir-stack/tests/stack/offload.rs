// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receive offload and segmentation end to end: a router that merges frames sends the same frames as one that
//! does not, whatever device they leave by.
#![allow(clippy::unwrap_used)] // Tests may panic.

use crate::world::{Packet, World, device_mac, host_mac, udp};
use weir_netlink::ifla::vlan;
use weir_netlink::{
    IfInfoMsg, TcEtfQopt, TcMqprioQopt, TcMsg, TcNetemQopt, TcNetemReorder, TcRateSpec, TcTbfQopt,
    Writer, ifla, messages, nlm, rtm, tca,
};
use weir_packet::DropReason as Reason;
use weir_packet::header::transport::{fill_check_v4, tcp};
use weir_stack::Config;
use weir_stack::drops::Place;
use weir_stack::features::bit;
use weir_stack::link::update_features;

const DF: u16 = 0x4000;
const ACK: u16 = 0x10;
const SIZE: usize = 1000;

/// The frames of a TCP flow with `count` full segments, as the host behind `d1` sends them.
fn flow(count: usize, dst: [u8; 4], frag_off: u16) -> Vec<Vec<u8>> {
    let frame = |n: usize| {
        let base = Packet {
            dst,
            protocol: 6,
            id: 40 + n as u16,
            frag_off,
            ..Packet::default()
        };
        let mut segment = tcp(4000, 80, 7 + (n * SIZE) as u32, 9, ACK).to_vec();
        segment.extend((0..SIZE).map(|at| (at * 3 + n) as u8));
        fill_check_v4(base.src, base.dst, 6, &mut segment);
        Packet {
            payload: &segment,
            ..base
        }
        .from(1)
    };
    (0..count).map(frame).collect()
}

/// Turns a feature on or off, as `ethtool -K` does.
fn set(world: &World, name: &str, features: u64, on: bool) {
    let device = world.device(name);
    device
        .features
        .want(if on { features } else { 0 }, features);
    update_features(&world.stack, &world.stack.domain.pin(), &device);
}

/// A router that merges what `d1` receives.
fn merging() -> World {
    let world = World::router();
    set(&world, "d1", bit::GRO, true);
    world
}

/// The frames that left `d2` and everything behind it.
fn frames(world: &World) -> Vec<Vec<u8>> {
    world
        .left()
        .into_iter()
        .map(|(_, _, frame)| frame)
        .collect()
}

/// What a router without offloads sends for these frames, after the same preparation.
fn plain(prepare: impl Fn(&mut World), input: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut world = World::router();
    prepare(&mut world);
    world.arrive("d1", input);
    frames(&world)
}

fn root(world: &mut World, name: &str, kind: &str) {
    root_with(world, name, kind, |_| {});
}

fn root_with(world: &mut World, name: &str, kind: &str, options: impl FnOnce(&mut Writer)) {
    let ifindex = world.device(name).ifindex() as i32;
    let made = world.request(rtm::NEWQDISC, nlm::F_CREATE | nlm::F_REPLACE, |out| {
        out.fixed(&TcMsg {
            ifindex,
            parent: tca::h::ROOT,
            ..TcMsg::default()
        });
        out.put_str(tca::KIND, kind);
        options(out);
    });
    assert_eq!(made, 0);
}

#[test]
fn a_device_with_the_features_gets_one_long_packet() {
    let mut world = merging();
    world.arrive("d1", &flow(20, [10, 0, 2, 2], DF));
    let (name, frame) = world.one();
    assert_eq!((name.as_str(), frame.len()), ("d2", 14 + 40 + 20 * SIZE));
    let (one, two) = (world.device("d1").totals(), world.device("d2").totals());
    assert_eq!((one.rx_packets, two.tx_packets), (20, 1));
}

#[test]
fn nothing_is_merged_in_virtual_time_unless_asked_for() {
    let mut world = World::router();
    assert!(world.device("d1").features.active() & bit::GRO != 0);
    world.arrive("d1", &flow(20, [10, 0, 2, 2], DF));
    assert_eq!(world.left().len(), 20);
    let mut world = merging();
    set(&world, "d1", bit::GRO, false);
    world.arrive("d1", &flow(20, [10, 0, 2, 2], DF));
    assert_eq!(world.left().len(), 20);
}

#[test]
fn frames_are_merged_by_default_in_real_time() {
    let mut world = World::with(Config {
        virtual_time: false,
        ..Config::default()
    });
    world.sysctl("net/ipv6/conf/all/disable_ipv6", "1");
    world.sysctl("net/ipv4/ip_forward", "1");
    for n in [1, 2] {
        world.port(n);
        world.neighbour(&format!("d{n}"), [10, 0, n, 2].into(), host_mac(n));
    }
    world.left();
    for (on, count) in [(true, 1), (false, 20), (true, 1)] {
        if on != (world.device("d1").features.active() & bit::GRO != 0) {
            set(&world, "d1", bit::GRO, on);
        }
        world.arrive("d1", &flow(20, [10, 0, 2, 2], DF));
        let found = world.left().into_iter();
        assert_eq!(found.filter(|(name, ..)| name == "d2").count(), count);
    }
}

#[test]
fn segments_leave_a_device_without_the_feature() {
    let input = flow(64, [10, 0, 2, 2], DF);
    for off in [bit::TSO, bit::SG, bit::HW_CSUM] {
        let mut world = merging();
        set(&world, "d2", off, false);
        world.arrive("d1", &input);
        assert_eq!(frames(&world), plain(|_| {}, &input));
    }
}

#[test]
fn the_limits_of_the_device_hold() {
    let input = flow(20, [10, 0, 2, 2], DF);
    let limit = |size: u32, segs: u32| {
        move |world: &mut World| {
            let device = world.device("d2");
            device.set_offload(weir_stack::device::Offload {
                gso_max_size: size,
                gso_max_segs: segs,
                ..device.offload()
            });
        }
    };
    for (size, segs) in [(5000, 65_535), (65_536, 10)] {
        let mut world = merging();
        limit(size, segs)(&mut world);
        world.arrive("d1", &input);
        assert_eq!(frames(&world), plain(|_| {}, &input));
    }
    let mut world = merging();
    let device = world.device("d1");
    device.set_offload(weir_stack::device::Offload {
        gro_max_size: 5100,
        ..device.offload()
    });
    world.arrive("d1", &input);
    // Five segments with their headers are 5,040 bytes.
    let lengths: Vec<_> = frames(&world).iter().map(Vec::len).collect();
    assert_eq!(lengths, [14 + 40 + 5 * SIZE; 4]);
}

#[test]
fn a_qdisc_counts_packets_of_the_wire() {
    let input = flow(20, [10, 0, 2, 2], DF);
    for kind in [
        "pfifo",
        "pfifo_fast",
        "fq_codel",
        "codel",
        "sfq",
        "fq",
        "pie",
        "hhf",
    ] {
        let mut world = merging();
        root(&mut world, "d2", kind);
        world.arrive("d1", &input);
        let (bytes, packets, _) = world.device("d2").tc.root_stats().unwrap();
        assert_eq!(
            (bytes, packets),
            (20 * (14 + 40 + SIZE as u64), 20),
            "{kind}"
        );
        assert_eq!(frames(&world).len(), 1, "{kind}");
    }
}

/// cake splits long packets (`split-gso` is its default).
#[test]
fn a_qdisc_that_splits_sends_packets_of_the_wire() {
    let input = flow(20, [10, 0, 2, 2], DF);
    let mut world = merging();
    root(&mut world, "d2", "cake");
    world.arrive("d1", &input);
    let (bytes, packets, queue) = world.device("d2").tc.root_stats().unwrap();
    assert_eq!((bytes, packets), (20 * (14 + 40 + SIZE as u64), 20));
    assert_eq!((queue.qlen, queue.backlog, queue.drops), (0, 0, 0));
    assert_eq!(frames(&world), plain(|_| {}, &input));
}

const MS: u64 = 1_000_000;
const CLOCK_TAI: i32 = 11;
/// A frame of [`flow`] takes this long at the 10 Mbit/s of a dummy, in ns.
const FRAME_TIME: u64 = (54 + SIZE as u64) * 800;

/// A router that merges what `d1` receives and sends to `d3`, which has two queues and `taprio`: from 1 ms on, the
/// gate of all packets is open for 5 ms and closed for 5 ms.
fn gated(flags: u32) -> World {
    let mut world = merging();
    world.dummy_with("d3", device_mac(3), 2);
    world.address("d3", [10, 0, 3, 1].into(), 24);
    world.neighbour("d3", [10, 0, 3, 2].into(), host_mac(3));
    let base = world.stack.clock.epoch_ns() + MS;
    root_with(&mut world, "d3", "taprio", |out| {
        let nest = out.nest(tca::OPTIONS);
        let mut classes = TcMqprioQopt {
            num_tc: 2,
            ..TcMqprioQopt::default()
        };
        (classes.count[0], classes.count[1], classes.offset[1]) = (1, 1, 1);
        out.put_fixed(tca::taprio::PRIOMAP, &classes);
        let list = out.nest(tca::taprio::SCHED_ENTRY_LIST);
        for mask in [1, 2] {
            let entry = out.nest(tca::taprio::SCHED_ENTRY);
            out.put_u32(tca::taprio::ENTRY_GATE_MASK, mask);
            out.put_u32(tca::taprio::ENTRY_INTERVAL, 5 * MS as u32);
            out.end(entry);
        }
        out.end(list);
        out.put_u64(tca::taprio::SCHED_BASE_TIME, base);
        out.put_i32(tca::taprio::SCHED_CLOCKID, CLOCK_TAI);
        out.put_u32(tca::taprio::FLAGS, flags);
        out.end(nest);
    });
    world.pass(2);
    world
}

/// The times at which the frames leave that a long packet of 20 segments stands for, and the frames.
fn gated_departures(mut world: World) -> Vec<u64> {
    let input = flow(20, [10, 0, 3, 2], DF);
    world.arrive("d1", &input);
    world.pass(100);
    let left = world.left();
    let mut plain = World::router();
    plain.dummy("d3", device_mac(3));
    plain.address("d3", [10, 0, 3, 1].into(), 24);
    plain.neighbour("d3", [10, 0, 3, 2].into(), host_mac(3));
    plain.arrive("d1", &input);
    assert!(left.iter().map(|(_, _, frame)| frame).eq(&frames(&plain)));
    let (bytes, packets, queue) = world.device("d3").tc.root_stats().unwrap();
    assert_eq!((bytes, packets), (20 * (54 + SIZE as u64), 20));
    assert_eq!((queue.qlen, queue.backlog, queue.drops), (0, 0, 0));
    left.into_iter().map(|(_, time, _)| time).collect()
}

/// A long packet that no gate is open long enough for leaves as its segments, as many as each interval carries
/// (`taprio_enqueue_segmented`).
#[test]
fn taprio_splits_what_exceeds_its_intervals() {
    let departures = gated_departures(gated(0));
    let windows = [2, 11, 21, 31].map(|ms| [ms * MS; 5]);
    assert_eq!(departures, windows.concat());
}

/// With txtime-assist, each segment has a time of its own.
#[test]
fn txtime_assist_gives_each_segment_its_time() {
    let mut world = gated(u32::from(tca::taprio::FLAG_TXTIME_ASSIST));
    const DELTA: u64 = 1000;
    let ifindex = world.device("d3").ifindex() as i32;
    for class in [1, 2] {
        let made = world.request(rtm::NEWQDISC, nlm::F_CREATE | nlm::F_REPLACE, |out| {
            out.fixed(&TcMsg {
                ifindex,
                parent: 0x8001_0000 | class,
                ..TcMsg::default()
            });
            out.put_str(tca::KIND, "etf");
            let nest = out.nest(tca::OPTIONS);
            let options = TcEtfQopt {
                delta: DELTA as i32,
                clockid: CLOCK_TAI,
                // TC_ETF_SKIP_SOCK_CHECK
                flags: 1 << 2,
            };
            out.put_fixed(tca::etf::PARMS, &options);
            out.end(nest);
        });
        assert_eq!(made, 0);
    }
    // In what is left of the first interval, 4 frames can be sent.
    let windows = [(2, 4), (11, 5), (21, 5), (31, 5), (41, 1)];
    let times = windows.into_iter().flat_map(|(ms, count)| {
        let times = (0..count).map(move |n| ms * MS + n * FRAME_TIME);
        times.map(|time| (time - DELTA + 1).max(2 * MS))
    });
    assert_eq!(gated_departures(world), times.collect::<Vec<_>>());
}

/// A long packet larger than the burst is split, and one within it passes whole (`tbf_segment`).
#[test]
fn tbf_splits_beyond_its_burst() {
    let input = flow(20, [10, 0, 2, 2], DF);
    for (burst, long) in [(5000, false), (1000, false), (40_000, true)] {
        let mut world = merging();
        root_with(&mut world, "d2", "tbf", |out| {
            let nest = out.nest(tca::OPTIONS);
            out.put_fixed(
                tca::tbf::PARMS,
                &TcTbfQopt {
                    rate: TcRateSpec {
                        linklayer: 1,
                        rate: 1_000_000,
                        ..TcRateSpec::default()
                    },
                    limit: 1 << 20,
                    ..TcTbfQopt::default()
                },
            );
            out.put_u32(tca::tbf::BURST, burst);
            out.end(nest);
        });
        world.arrive("d1", &input);
        world.pass(1000);
        let (bytes, packets, queue) = world.device("d2").tc.root_stats().unwrap();
        assert_eq!((queue.qlen, queue.backlog), (0, 0));
        if burst == 1000 {
            // Not even a segment fits. The packet is dropped as one.
            assert_eq!((packets, queue.drops), (0, 1));
            continue;
        }
        assert_eq!(
            (bytes, packets, queue.drops),
            (20 * (54 + SIZE as u64), 20, 0)
        );
        match long {
            true => assert_eq!(frames(&world).len(), 1),
            false => assert_eq!(frames(&world), plain(|_| {}, &input)),
        }
    }
}

/// netem splits a long packet only if a bit of it is to change.
#[test]
fn netem_splits_what_it_corrupts() {
    let input = flow(20, [10, 0, 2, 2], DF);
    for (probability, count) in [(u32::MAX, 20), (0, 1)] {
        let mut world = merging();
        root_with(&mut world, "d2", "netem", |out| {
            let nest = out.nest(tca::OPTIONS);
            out.fixed(&TcNetemQopt {
                limit: 1000,
                ..TcNetemQopt::default()
            });
            let corrupt = TcNetemReorder {
                probability,
                correlation: 0,
            };
            out.put_fixed(tca::netem::CORRUPT, &corrupt);
            out.end(nest);
        });
        world.arrive("d1", &input);
        world.pass(1000);
        let (bytes, packets, queue) = world.device("d2").tc.root_stats().unwrap();
        assert_eq!((bytes, packets), (20 * (54 + SIZE as u64), 20));
        assert_eq!((queue.qlen, queue.backlog, queue.drops), (0, 0, 0));
        let left = frames(&world);
        assert_eq!(left.len(), count);
        if count > 1 {
            for (left, whole) in left.iter().zip(plain(|_| {}, &input)) {
                let bits = left.iter().zip(whole).map(|(a, b)| (a ^ b).count_ones());
                assert_eq!(bits.sum::<u32>(), 1);
            }
        }
    }
}

#[test]
fn segments_that_do_not_fit_are_fragmented_or_refused() {
    let small = |world: &mut World| world.set_mtu("d2", 900);
    let mut world = merging();
    small(&mut world);
    let input = flow(8, [10, 0, 2, 2], 0);
    world.arrive("d1", &input);
    let expected = plain(small, &input);
    assert_eq!(expected.len(), 16);
    assert_eq!(frames(&world), expected);
    let mut world = merging();
    small(&mut world);
    world.arrive("d1", &flow(8, [10, 0, 2, 2], DF));
    let (name, _) = world.one();
    assert_eq!(name, "d1", "an ICMP message");
    let dropped = world.dropped("d1", Place::Ipv4Forward, Reason::PKT_TOO_BIG);
    assert_eq!(dropped, 1);
}

/// Adds a VLAN device on `d2` with the network 10.0.5.0/24.
fn add_vlan(world: &mut World) {
    let lower = world.device("d2").ifindex();
    let made = world.request(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
        out.fixed(&IfInfoMsg::default());
        out.put_str(ifla::IFNAME, "d2.5");
        out.put_u32(ifla::LINK, lower);
        let nest = out.nest(ifla::LINKINFO);
        out.put_str(ifla::info::KIND, "vlan");
        let data = out.nest(ifla::info::DATA);
        out.put_u16(vlan::ID, 5);
        out.end(data);
        out.end(nest);
    });
    assert_eq!(made, 0);
    world.set_up("d2.5", true);
    world.address("d2.5", [10, 0, 5, 1].into(), 24);
    world.neighbour("d2.5", [10, 0, 5, 2].into(), host_mac(5));
}

#[test]
fn segments_leave_in_a_vlan() {
    // The VLAN features of a dummy have no segmentation.
    let input = flow(20, [10, 0, 5, 2], DF);
    let mut world = merging();
    add_vlan(&mut world);
    world.arrive("d1", &input);
    let expected = plain(add_vlan, &input);
    assert_eq!(expected.len(), 20);
    assert_eq!(frames(&world), expected);
}

/// Adds a vxlan device over `d2` with the network 10.0.6.0/24.
fn add_vxlan(world: &mut World) {
    use ifla::vxlan as attr;
    let made = world.request(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
        out.fixed(&IfInfoMsg::default());
        out.put_str(ifla::IFNAME, "x0");
        out.put(ifla::ADDRESS, &device_mac(6));
        let nest = out.nest(ifla::LINKINFO);
        out.put_str(ifla::info::KIND, "vxlan");
        let data = out.nest(ifla::info::DATA);
        out.put_u32(attr::ID, 7);
        out.put(attr::LOCAL, &[10, 0, 2, 1]);
        out.put(attr::GROUP, &[10, 0, 2, 2]);
        out.put_be16(attr::PORT, 4789);
        out.end(data);
        out.end(nest);
    });
    assert_eq!(made, 0);
    world.set_up("x0", true);
    world.address("x0", [10, 0, 6, 1].into(), 24);
    world.neighbour("x0", [10, 0, 6, 2].into(), host_mac(6));
}

#[test]
fn segments_leave_in_a_tunnel() {
    let input = flow(20, [10, 0, 6, 2], DF);
    let mut world = merging();
    add_vxlan(&mut world);
    world.arrive("d1", &input);
    let expected = plain(add_vxlan, &input);
    assert_eq!(expected.len(), 20);
    assert_eq!(frames(&world), expected);
}

#[test]
fn datagrams_are_merged_for_forwarding_only_on_request() {
    let datagram = |n: u16, dst: [u8; 4]| {
        let payload = udp([10, 0, 1, 2], dst, 500, 600, &[n as u8; 300]);
        Packet {
            dst,
            id: 90 + n,
            payload: &payload,
            ..Packet::default()
        }
        .from(1)
    };
    let input: Vec<_> = (0..10).map(|n| datagram(n, [10, 0, 2, 2])).collect();
    let mut world = merging();
    world.arrive("d1", &input);
    assert_eq!(world.left().len(), 10);
    // `rx-gro-list` merges them too.
    for feature in [bit::GRO_FRAGLIST, bit::GRO_UDP_FWD] {
        set(&world, "d1", feature, true);
        world.arrive("d1", &input);
        assert_eq!(world.left().len(), 1);
        set(&world, "d1", feature, feature == bit::GRO_UDP_FWD);
    }
    set(&world, "d2", bit::GSO_UDP_L4, false);
    world.arrive("d1", &input);
    assert_eq!(frames(&world), plain(|_| {}, &input));
    // A local port gets each datagram: every one is answered, as far as the limits allow.
    let input: Vec<_> = (0..5).map(|n| datagram(n, [10, 0, 1, 1])).collect();
    let slow = |world: &mut World| world.sysctl("net/ipv4/icmp_ratelimit", "0");
    slow(&mut world);
    world.arrive("d1", &input);
    assert_eq!(frames(&world), plain(slow, &input));
}

#[test]
fn an_ingress_filter_counts_packets_of_the_wire() {
    let mut world = merging();
    let ifindex = world.device("d1").ifindex() as i32;
    let at = |parent| TcMsg {
        ifindex,
        parent,
        ..TcMsg::default()
    };
    let made = world.request(rtm::NEWQDISC, nlm::F_CREATE | nlm::F_EXCL, |out| {
        out.fixed(&TcMsg {
            handle: 0xffff_0000,
            ..at(tca::h::CLSACT)
        });
        out.put_str(tca::KIND, "clsact");
    });
    assert_eq!(made, 0);
    let made = world.request(rtm::NEWTFILTER, nlm::F_CREATE | nlm::F_EXCL, |out| {
        out.fixed(&TcMsg {
            info: 1 << 16 | u32::from(0x0003_u16.to_be()),
            ..at(tca::h::CLSACT & 0xffff_0000 | 0xfff2)
        });
        out.put_str(tca::KIND, "matchall");
        let options = out.nest(tca::OPTIONS);
        out.end(options);
    });
    assert_eq!(made, 0);
    world.arrive("d1", &flow(20, [10, 0, 2, 2], DF));
    let (name, frame) = world.one();
    assert_eq!((name.as_str(), frame.len()), ("d2", 14 + 40 + 20 * SIZE));
    let answers = world.answers(rtm::GETQDISC, nlm::F_DUMP, |out| {
        out.fixed(&TcMsg::default());
    });
    let counted = messages(&answers).find_map(|message| {
        let of = |ty| message.attrs::<TcMsg>().find_type(ty);
        let basic = of(tca::KIND)
            .filter(|kind| kind.c_str() == b"clsact")
            .and(of(tca::STATS2))?
            .attrs()
            .find_type(tca::stats::BASIC)?;
        let bytes = basic.u64().unwrap();
        Some((
            bytes,
            u32::from_ne_bytes(*basic.payload[8..].first_chunk().unwrap()),
        ))
    });
    assert_eq!(counted, Some((40 + 20 * SIZE as u64, 20)));
}
