// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What programs hear of errors about the outer packets of tunnels over IPv6. The expectations are what Linux 6.1 says
//! with the same two hosts.
#![allow(clippy::unwrap_used)] // Tests may panic.

use std::net::IpAddr;

use crate::world::{World, at};
use libc::{AF_INET, AF_INET6, EHOSTUNREACH, EMSGSIZE, SOL_IP, SOL_IPV6};
use weir_netlink::{IfInfoMsg, RtMsg, Writer, af, ifla, messages, nlm, rta, rtm};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn link(world: &mut World, host: usize, name: &str, kind: &str, fill: impl FnOnce(&mut Writer)) {
    world.accepted(host, rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
        out.fixed(&IfInfoMsg::default());
        out.put_str(ifla::IFNAME, name);
        if kind == "dummy" {
            out.put_u32(ifla::MTU, 1300);
        }
        let info = out.nest(ifla::LINKINFO);
        out.put_str(ifla::info::KIND, kind);
        let data = out.nest(ifla::info::DATA);
        fill(out);
        out.end(data);
        out.end(info);
    });
    world.set_up(host, name);
}

fn route(world: &mut World, host: usize, (dst, dst_len): (&str, u8), fill: impl Fn(&mut Writer)) {
    world.accepted(host, rtm::NEWROUTE, nlm::F_CREATE, |out| {
        out.fixed(&RtMsg {
            family: af::INET6,
            dst_len,
            table: rta::table::MAIN as u8,
            protocol: rta::prot::BOOT,
            ty: rta::rtn::UNICAST,
            ..RtMsg::default()
        });
        out.put_ip(rta::DST, ip(dst));
        fill(out);
    });
}

/// Makes host 1 a router behind which fd09:1::/64 is a link with an MTU of 1,300 bytes; it has no route to the rest of
/// fd09::/16. Host 0 has a tunnel of a kind to a remote there, with the addresses 10.9.0.1/24 and 2001:db8::1/64.
fn with_tunnel(kind: &str, remote: &str) -> World {
    let mut world = World::new();
    for host in [0, 1] {
        world.sysctl(host, "ipv6/icmp/ratelimit", "0");
    }
    world.sysctl(1, "ipv6/conf/all/forwarding", "1");
    link(&mut world, 1, "d0", "dummy", |_| {});
    let index = world.index(1, "d0");
    route(&mut world, 1, ("fd09:1::", 64), |out| {
        out.put_u32(rta::OIF, index);
    });
    route(&mut world, 0, ("fd09::", 16), |out| {
        out.put_ip(rta::GATEWAY, ip("fd00::2"));
    });
    link(&mut world, 0, "t0", kind, |out| {
        // What `ip` sends for `mode any`.
        let (local, to, ttl, limit) = match kind {
            "ip6tnl" => (
                ifla::iptun::LOCAL,
                ifla::iptun::REMOTE,
                ifla::iptun::TTL,
                ifla::iptun::ENCAP_LIMIT,
            ),
            _ => (
                ifla::gre::LOCAL,
                ifla::gre::REMOTE,
                ifla::gre::TTL,
                ifla::gre::ENCAP_LIMIT,
            ),
        };
        out.put_ip(local, ip("fd00::1"));
        out.put_ip(to, ip(remote));
        out.put_u8(ttl, 64);
        out.put_u8(limit, 4);
    });
    world.address(0, "t0", ip("10.9.0.1"), 24);
    world.address(0, "t0", ip("2001:db8::1"), 64);
    world.pass(5_000);
    world
}

/// Returns the MTU metric of host 0's route to an address.
fn path_mtu(world: &mut World, dst: &str) -> Option<u32> {
    let answer = world.answers(0, rtm::GETROUTE, |out| {
        out.fixed(&RtMsg {
            family: af::INET6,
            dst_len: 128,
            ..RtMsg::default()
        });
        out.put_ip(rta::DST, ip(dst));
    });
    let route = messages(&answer).next().unwrap();
    assert_eq!(route.header.ty, rtm::NEWROUTE);
    let metrics = route.attrs::<RtMsg>().find_type(rta::METRICS)?;
    let mtu = metrics.attrs().find_type(rta::ax::MTU)?;
    Some(mtu.u32().unwrap())
}

/// What the error queue says: the errno, who says so (`SO_EE_ORIGIN_*`), type, code and information.
type Heard = (i32, u8, u8, u8, u32);

/// Sends datagrams of a length through the tunnel. Returns what the program hears after each, and how much is quoted.
fn heard(world: &mut World, family: i32, len: usize, times: usize) -> Vec<Option<(Heard, usize)>> {
    let six = family == AF_INET6;
    let socket = world.udp(0, family);
    let (level, option) = match six {
        true => (SOL_IPV6, libc::IPV6_RECVERR),
        false => (SOL_IP, libc::IP_RECVERR),
    };
    world.set_int(&socket, level, option, 1).unwrap();
    let to = at(if six { "2001:db8::9" } else { "10.9.0.9" }, 9);
    world.connect(&socket, &to).unwrap();
    let once = |world: &mut World| {
        assert_eq!(world.send(&socket, &vec![0; len]), Ok(len));
        world.pass(10);
        let error = socket.error()?;
        assert!(socket.error().is_none(), "there is one");
        let messages = error.messages();
        let (.., value) = messages
            .iter()
            .find(|(of, ty, _)| (*of, *ty) == (level, option))
            .unwrap();
        let word = |at: usize| i32::from_ne_bytes(value[at..at + 4].try_into().unwrap());
        let what = (word(0), value[4], value[5], value[6], word(8) as u32);
        Some((what, error.data.len()))
    };
    (0..times).map(|_| once(world)).collect()
}

const NO_ROUTE_4: Heard = (EHOSTUNREACH, 2, 3, 1, 0);
const NO_ROUTE_6: Heard = (EHOSTUNREACH, 3, 1, 3, 0);

#[test]
fn a_program_hears_that_the_remote_of_its_tunnel_cannot_be_reached() {
    for kind in ["ip6tnl", "ip6gre"] {
        let mut world = with_tunnel(kind, "fd09:2::1");
        if kind == "ip6gre" {
            // The error about a packet is told to the sender of the next one.
            assert_eq!(heard(&mut world, AF_INET6, 100, 1), [None]);
        }
        let six = heard(&mut world, AF_INET6, 100, 3);
        assert_eq!(six, [Some((NO_ROUTE_6, 100)); 3], "{kind}");
        let four = heard(&mut world, AF_INET, 100, 3);
        assert_eq!(four, [Some((NO_ROUTE_4, 100)); 3], "{kind}");
    }
}

#[test]
fn a_program_hears_how_much_fits_the_path_of_its_tunnel() {
    let mut world = with_tunnel("ip6tnl", "fd09:1::1");
    assert_eq!(heard(&mut world, AF_INET6, 100, 1), [None]);
    // From the second datagram on it is a fragment that does not fit.
    let six = |quoted| Some(((EMSGSIZE, 3, 2, 0, 1280), quoted));
    let found = heard(&mut world, AF_INET6, 1350, 3);
    assert_eq!(found, [six(1136), six(1128), six(1128)]);
    let four = |mtu| Some(((EMSGSIZE, 2, 3, 4, mtu), 520));
    // The tunnel keeps the path MTU: it says less at the second packet, and the third fits.
    let mut world = with_tunnel("ip6tnl", "fd09:1::1");
    let found = heard(&mut world, AF_INET, 1350, 3);
    assert_eq!(found, [four(1280), four(1252), None]);
    // This one tells nobody of the error itself.
    let mut world = with_tunnel("ip6gre", "fd09:1::1");
    assert_eq!(path_mtu(&mut world, "fd09:1::1"), None);
    let found = heard(&mut world, AF_INET, 1350, 3);
    assert_eq!(found, [None, four(1248), None]);
    assert_eq!(path_mtu(&mut world, "fd09:1::1"), Some(1300));
    assert_eq!(path_mtu(&mut world, "fd09:1::2"), None);
    world.pass(590_000);
    assert_eq!(path_mtu(&mut world, "fd09:1::1"), Some(1300));
    world.pass(60_000);
    assert_eq!(path_mtu(&mut world, "fd09:1::1"), None);
}

#[test]
fn a_tunnel_keeps_its_address() {
    // `ip` asks for no address of another length than the device's.
    for (kind, len, errno) in [
        ("ip6tnl", 6, libc::EINVAL),
        ("ip6tnl", 16, libc::EOPNOTSUPP),
        ("ip6gre", 15, libc::EINVAL),
        ("ip6gretap", 5, libc::EINVAL),
        ("ip6gretap", 6, 0),
    ] {
        let mut world = with_tunnel(kind, "fd09:1::1");
        let index = world.index(0, "t0") as i32;
        let asked = |ty: u16, len: usize| {
            move |out: &mut Writer| {
                out.fixed(&IfInfoMsg {
                    index,
                    ..IfInfoMsg::default()
                });
                out.put(ty, &[2; 16][..len]);
            }
        };
        let found = world.request(0, rtm::NEWLINK, 0, asked(ifla::ADDRESS, len));
        assert_eq!(found, errno, "{kind} {len}");
        if errno == libc::EINVAL {
            let found = world.request(0, rtm::NEWLINK, 0, asked(ifla::BROADCAST, len));
            assert_eq!(found, errno, "{kind} {len}");
        }
    }
}
