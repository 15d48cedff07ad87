// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A namespace is deleted with everything inside: nothing stays, and its sockets hear of each route.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::{Arc, Weak};

use weir_netlink::{IfInfoMsg, Writer, ifla, messages, nlm, rtm};
use weir_stack::connection::NoPeer;
use weir_stack::{Config, Connection, NsId, Stack};

fn message(out: &mut Writer, flags: u16, fill: impl FnOnce(&mut Writer)) {
    let mark = out.message(rtm::NEWLINK, nlm::F_REQUEST | flags, 1, 0);
    fill(out);
    out.finish(mark).unwrap();
}

fn up(index: i32) -> IfInfoMsg {
    let flags = ifla::iff::UP;
    IfInfoMsg {
        index,
        flags,
        change: flags,
        ..IfInfoMsg::default()
    }
}

/// Makes a namespace whose loopback and two dummy devices are up. Its routes are those of these devices.
fn namespace(stack: &Stack) -> (NsId, Connection) {
    let id = stack.add_namespace();
    let ns = stack.namespace(id).unwrap();
    let mut client = Connection::new(stack, &ns, 1, Box::new(NoPeer), None);
    let mut out = Writer::new();
    message(&mut out, 0, |out| out.fixed(&up(1)));
    for name in ["d0", "d1"] {
        message(&mut out, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&up(0));
            out.put_str(ifla::IFNAME, name);
            let info = out.nest(ifla::LINKINFO);
            out.put_str(ifla::info::KIND, "dummy");
            out.end(info);
        });
    }
    client.request(out.bytes());
    assert!(client.mailbox().take().is_none());
    (id, client)
}

/// Returns the number of notifications of a type that wait for a client.
fn heard(client: &Connection, ty: u16) -> usize {
    let mut found = 0;
    while let Some(datagram) = client.mailbox().take() {
        found += messages(&datagram).filter(|m| m.header.ty == ty).count();
    }
    found
}

#[test]
fn nothing_stays_of_a_namespace() {
    let stack = weir_stack::build(Config::default());
    let (id, client) = namespace(&stack);
    let ns = Arc::downgrade(client.namespace());
    let all = client.namespace().all_devices();
    let devices: Vec<Weak<_>> = all.iter().map(Arc::downgrade).collect();
    drop(all);
    assert_eq!(devices.len(), 3);
    drop(client);
    assert!(stack.remove_namespace(id));
    assert!(stack.domain.drain());
    assert!(devices.iter().all(|device| device.strong_count() == 0));
    assert_eq!(ns.strong_count(), 0);
}

#[test]
fn a_listener_hears_of_each_route() {
    let stack = weir_stack::build(Config::default());
    let (id, client) = namespace(&stack);
    for group in [rtm::grp::IPV4_ROUTE, rtm::grp::IPV6_ROUTE] {
        assert!(client.mailbox().set_group(group, true));
    }
    assert!(stack.remove_namespace(id));
    // Of IPv6, each dummy device has ff00::/8, fe80::/64 and its address, and the loopback device has ::1. Of IPv4, the
    // loopback device has 127.0.0.0/8 and 127.0.0.1.
    assert_eq!(heard(&client, rtm::DELROUTE), 9);
}
