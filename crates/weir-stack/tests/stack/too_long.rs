// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A route with more next hops than fit an attribute (its length has 16 bits): it was built up by
//! many requests, and no message can hold it. Linux returns EMSGSIZE (`rt6_fill_node`); listeners
//! learn that they missed something.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::net::Ipv6Addr;

use crate::world::World;
use weir_netlink::{RtMsg, Writer, af, errno, messages, nlm, rta, rtm};
use weir_stack::Connection;
use weir_stack::connection::NoPeer;

/// The length of `struct rtnexthop` and a gateway in bytes: 8, 4 and 16.
const HOP: u32 = 28;

fn route(out: &mut Writer, hop: Option<(u32, u32)>) {
    out.fixed(&RtMsg {
        family: af::INET6,
        dst_len: if hop.is_some() { 48 } else { 128 },
        table: rta::table::MAIN as u8,
        protocol: rta::prot::STATIC,
        ty: rta::rtn::UNICAST,
        ..RtMsg::default()
    });
    out.put_ipv6(rta::DST, Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 0));
    if let Some((number, device)) = hop {
        let [high, low] = [(number >> 16) as u16, number as u16];
        out.put_ipv6(
            rta::GATEWAY,
            Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, high + 1, low),
        );
        out.put_u32(rta::OIF, device);
    }
}

/// Returns the errno at the end of a dump of routes.
fn dump(connection: &mut Connection) -> i32 {
    let mut out = Writer::new();
    let message = out.message(rtm::GETROUTE, nlm::F_REQUEST | nlm::F_DUMP, 7, 0);
    out.fixed(&RtMsg {
        family: af::INET6,
        ..RtMsg::default()
    });
    out.finish(message).unwrap();
    connection.request(out.bytes());
    for _ in 0..10_000 {
        while let Some(datagram) = connection.mailbox().take() {
            let done = messages(&datagram).find(|message| message.header.ty == nlm::DONE);
            if let Some(done) = done {
                return -i32::from_ne_bytes(*done.payload().first_chunk().unwrap());
            }
        }
        connection.pump();
    }
    panic!("the dump does not end");
}

#[test]
fn a_route_that_no_message_can_hold() {
    let mut world = World::new();
    world.port(1);
    let device = world.device("d1").ifindex();
    let open =
        |world: &World, id| Connection::new(&world.stack, &world.ns, id, Box::new(NoPeer), None);
    let (listener, mut reader) = (open(&world, 2), open(&world, 3));
    assert!(listener.mailbox().set_group(rtm::grp::IPV6_ROUTE, true));
    let most = u32::from(u16::MAX) / HOP;
    let mut missed = None;
    for number in 0..most + 20 {
        let flags = nlm::F_CREATE | nlm::F_APPEND;
        let errno = world.request(rtm::NEWROUTE, flags, |out| {
            route(out, Some((number, device)))
        });
        assert_eq!(errno, 0, "next hop {number}");
        while listener.mailbox().take().is_some() {}
        if listener.mailbox().take_overrun() {
            missed.get_or_insert(number);
        } else {
            assert_eq!(missed, None);
        }
        if number == most / 2 {
            assert_eq!(dump(&mut reader), 0);
        }
    }
    let missed = missed.unwrap();
    assert!((most - 10..=most).contains(&missed), "{missed} of {most}");
    assert_eq!(dump(&mut reader), errno::EMSGSIZE);
    let get = |out: &mut Writer| route(out, None);
    assert_eq!(
        world.request(rtm::GETROUTE, 0, get),
        0,
        "one of its next hops is shown"
    );
}
