// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tunnels over IPv6 and what should not reach them: packets that end early, errors that quote such packets, routes that
//! lead back to the tunnel.

#![allow(clippy::unwrap_used)] // Test helpers may panic.

use std::net::Ipv6Addr;

use crate::world::{World, device_mac, host_mac, ip};
use weir_netlink::{IfInfoMsg, RtMsg, Writer, af, ifla, nlm, rta, rtm};
use weir_packet::DropReason;
use weir_packet::header::ethernet::ethernet;
use weir_packet::header::ipv4::ipv4;
use weir_packet::header::ipv6::ipv6;
use weir_packet::header::transport::fill_check_v6;
use weir_stack::drops::Place;

const OWN: &str = "2001:db8:1::1";
const REMOTE: &str = "2001:db8:1::2";

fn octets(text: &str) -> [u8; 16] {
    text.parse::<Ipv6Addr>().unwrap().octets()
}

/// Adds a tunnel from [`OWN`] and sets it up.
fn tunnel(world: &mut World, name: &str, kind: &str, remote: &str, limit: Option<u8>) {
    let (local, to, ttl, encap_limit, flags) = match kind {
        "ip6tnl" => (
            ifla::iptun::LOCAL,
            ifla::iptun::REMOTE,
            ifla::iptun::TTL,
            ifla::iptun::ENCAP_LIMIT,
            ifla::iptun::FLAGS,
        ),
        _ => (
            ifla::gre::LOCAL,
            ifla::gre::REMOTE,
            ifla::gre::TTL,
            ifla::gre::ENCAP_LIMIT,
            ifla::gre::FLAGS,
        ),
    };
    let errno = world.request(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
        out.fixed(&IfInfoMsg::default());
        out.put_str(ifla::IFNAME, name);
        let info = out.nest(ifla::LINKINFO);
        out.put_str(ifla::info::KIND, kind);
        let data = out.nest(ifla::info::DATA);
        out.put_ip(local, ip(OWN));
        out.put_ip(to, ip(remote));
        out.put_u8(ttl, 64);
        match limit {
            Some(limit) => out.put_u8(encap_limit, limit),
            // `IP6_TNL_F_IGN_ENCAP_LIMIT`
            None => out.put_u32(flags, 1),
        }
        out.end(data);
        out.end(info);
    });
    assert_eq!(errno, 0, "{name}");
    world.set_up(name, true);
}

/// Adds a route of an address through a device.
fn route(world: &mut World, dst: &str, name: &str) {
    let index = world.device(name).ifindex();
    let errno = world.request(rtm::NEWROUTE, nlm::F_CREATE, |out: &mut Writer| {
        out.fixed(&RtMsg {
            family: af::INET6,
            dst_len: 128,
            table: rta::table::MAIN as u8,
            protocol: rta::prot::BOOT,
            ty: rta::rtn::UNICAST,
            ..RtMsg::default()
        });
        out.put_ip(rta::DST, ip(dst));
        out.put_u32(rta::OIF, index);
    });
    assert_eq!(errno, 0, "{dst}");
}

/// A router with the underlay d1, which forwards between d1 and its tunnels.
fn underlay() -> World {
    let mut world = World::new();
    world.sysctl("net/ipv6/conf/all/forwarding", "1");
    world.sysctl("net/ipv6/conf/default/accept_dad", "0");
    world.sysctl("net/ipv6/icmp/ratelimit", "0");
    world.dummy("d1", device_mac(1));
    world.address("d1", ip(OWN), 64);
    world.neighbour("d1", ip(REMOTE), host_mac(1));
    world.neighbour("d1", ip("2001:db8:1::9"), host_mac(1));
    world.pass(3_000);
    world
}

/// Returns a frame with an IPv6 packet from the host behind d1.
fn frame(src: &str, dst: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let header = ipv6(octets(src), octets(dst), protocol, 64, 0, 0, payload.len());
    let link = ethernet(device_mac(1), host_mac(1), 0x86dd);
    [&link[..], &header, payload].concat()
}

fn inner6(payload: usize) -> Vec<u8> {
    let (src, dst) = (octets("2001:db8:1::9"), octets("2001:db8:9::1"));
    let header = ipv6(src, dst, 59, 64, 0, 0, payload);
    [&header[..], &vec![0; payload]].concat()
}

fn inner4() -> Vec<u8> {
    let header = ipv4([10, 0, 0, 1], [10, 0, 0, 2], 253, 64, 0, 0, 0, 0);
    header.to_vec()
}

/// The destination options with an encapsulation limit, in front of a protocol.
fn limited(protocol: u8, limit: u8) -> Vec<u8> {
    vec![protocol, 0, 4, 1, limit, 1, 1, 0]
}

fn received(world: &World, name: &str) -> u64 {
    world.device(name).totals().rx_packets
}

#[test]
fn packets_that_end_early_do_not_come_out() {
    let gre = |protocol: u16, flags: u16, inner: &[u8]| {
        let mut all = [flags.to_be_bytes(), protocol.to_be_bytes()].concat();
        all.extend(vec![0; 4 * (flags & 0x3000).count_ones() as usize]);
        all.extend(inner);
        all
    };
    let option = |inner: &[u8], protocol| [&limited(protocol, 4)[..], inner].concat();
    let (six, four) = (inner6(8), inner4());
    // The kind, the outer protocol, what follows, and from which length on it is a packet. IPv6 checks the length of the
    // inner payload after the tunnel.
    let cases: [(&str, u8, Vec<u8>, usize); 7] = [
        ("ip6tnl", 41, six.clone(), 40),
        ("ip6tnl", 4, four.clone(), 20),
        ("ip6tnl", 60, option(&six, 41), 48),
        ("ip6tnl", 60, option(&four, 4), 28),
        ("ip6gre", 47, gre(0x86dd, 0, &six), 44),
        ("ip6gre", 47, gre(0x800, 0x3000, &four), 32),
        ("ip6gre", 60, option(&gre(0x86dd, 0x1000, &six), 47), 56),
    ];
    for (kind, protocol, whole, least) in cases {
        let mut world = underlay();
        tunnel(&mut world, "t0", kind, REMOTE, Some(4));
        for len in 0..=whole.len() {
            let before = received(&world, "t0");
            world.arrive("d1", &[frame(REMOTE, OWN, protocol, &whole[..len])]);
            let came_out = received(&world, "t0") - before;
            assert_eq!(
                came_out,
                u64::from(len >= least),
                "{kind} {protocol}: {len}"
            );
        }
    }
}

#[test]
fn errors_that_quote_too_little_are_no_errors() {
    for (kind, protocol, start) in [("ip6tnl", 41, 0), ("ip6gre", 47, 4)] {
        let mut world = underlay();
        tunnel(&mut world, "t0", kind, REMOTE, Some(4));
        world.pass(3_000);
        let header = if start == 4 {
            vec![0, 0, 0x86, 0xdd]
        } else {
            Vec::new()
        };
        let inner = inner6(8);
        let payload = [&limited(protocol, 3)[..], &header, &inner].concat();
        let (own, remote) = (octets(OWN), octets(REMOTE));
        let sent = ipv6(own, remote, 60, 64, 0, 0, payload.len());
        let quoted = [&sent[..], &payload].concat();
        let mut told = 0;
        for len in 0..=quoted.len() {
            for (ty, code, info) in [(1, 3, 0), (2, 0, 1300), (2, 0, 0), (3, 0, 0), (4, 0, 44)] {
                let mut message = vec![ty, code, 0, 0];
                message.extend(u32::to_be_bytes(info));
                message.extend(&quoted[..len]);
                let router = "2001:db8:1::9";
                fill_check_v6(octets(router), own, 58, &mut message);
                world.left();
                world.arrive("d1", &[frame(router, OWN, 58, &message)]);
                let now = world.left().len();
                // Without the inner header, there is nobody to tell.
                assert!(now == 0 || len >= 48 + start + 40, "{kind}: {len}, {ty}");
                told += now;
            }
        }
        // ip6gre tells the sender of the next packet.
        assert_eq!(told > 0, kind == "ip6tnl", "{kind}: {told}");
    }
}

/// Sends a packet to 2001:db8:9::9 through the router.
fn pass_on(world: &mut World, len: usize) {
    let payload = vec![0; len];
    let packet = frame(REMOTE, "2001:db8:9::9", 59, &payload);
    world.arrive("d1", &[packet]);
}

#[test]
fn a_tunnel_whose_remote_is_behind_itself_sends_nothing() {
    for kind in ["ip6tnl", "ip6gre"] {
        let mut world = underlay();
        tunnel(&mut world, "t0", kind, "2001:db8:7::7", Some(4));
        route(&mut world, "2001:db8:7::7", "t0");
        route(&mut world, "2001:db8:9::9", "t0");
        world.pass(3_000);
        world.left();
        let before = world.device("t0").totals();
        pass_on(&mut world, 100);
        let after = world.device("t0").totals();
        assert_eq!(after.tx_packets, before.tx_packets, "{kind}");
        assert_eq!(after.tx_errors, before.tx_errors + 1, "{kind}");
        assert!(world.left().iter().all(|(name, ..)| name != "d1"), "{kind}");
        let reason = DropReason::RECURSION_LIMIT;
        assert!(world.dropped("t0", Place::Transmit, reason) > 0, "{kind}");
    }
}

#[test]
fn tunnels_in_a_circle_come_to_an_end() {
    for kind in ["ip6tnl", "ip6gre"] {
        for limit in [None, Some(0), Some(4), Some(255)] {
            for len in [0, 100, 1200] {
                let mut world = underlay();
                tunnel(&mut world, "t0", kind, "2001:db8:7::7", limit);
                tunnel(&mut world, "t1", kind, "2001:db8:8::8", limit);
                route(&mut world, "2001:db8:7::7", "t1");
                route(&mut world, "2001:db8:8::8", "t0");
                route(&mut world, "2001:db8:9::9", "t0");
                world.pass(3_000);
                let sent = |world: &World| {
                    let of = |name| world.device(name).totals();
                    let (one, other) = (of("t0"), of("t1"));
                    (
                        one.tx_packets + other.tx_packets,
                        one.tx_errors + other.tx_errors + one.tx_dropped + other.tx_dropped,
                    )
                };
                let before = sent(&world);
                pass_on(&mut world, len);
                let after = sent(&world);
                let what = format!("{kind} {limit:?} {len}: {before:?} {after:?}");
                // The depth of transmits bounds it without a limit, the length of the packet, or the limit.
                let most = match limit {
                    Some(0) => 1,
                    Some(4) => 5,
                    _ => 8,
                };
                assert!(after.0 - before.0 <= most, "{what}");
                let deepest = world.dropped("t0", Place::Transmit, DropReason::RECURSION_LIMIT)
                    + world.dropped("t1", Place::Transmit, DropReason::RECURSION_LIMIT);
                assert!(after.1 > before.1 || deepest > 0, "{what}");
            }
        }
    }
}
