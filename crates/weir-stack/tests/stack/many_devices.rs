// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names and indices of very many devices in one namespace.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::world::World;
use weir_netlink::errno::{EEXIST, EINVAL};
use weir_netlink::{IfInfoMsg, Writer, ifla, messages, nlm, rtm};
use weir_stack::request::Peer;
use weir_stack::{Connection, NsId};

/// A client without descriptors and processes.
struct Nobody;

impl Peer for Nobody {
    fn namespace_by_fd(&self, _: u32) -> Option<NsId> {
        None
    }

    fn namespace_by_pid(&self, _: u32) -> Option<NsId> {
        None
    }
}

/// Adds the request for a dummy device with an index, or the next free one.
fn create(out: &mut Writer, name: &str, index: i32) {
    let flags = nlm::F_REQUEST | nlm::F_CREATE | nlm::F_EXCL | nlm::F_ACK;
    let mark = out.message(rtm::NEWLINK, flags, 1, 0);
    out.fixed(&IfInfoMsg {
        index,
        ..IfInfoMsg::default()
    });
    out.put_str(ifla::IFNAME, name);
    let info = out.nest(ifla::LINKINFO);
    out.put_str(ifla::info::KIND, "dummy");
    out.end(info);
    out.finish(mark).unwrap();
}

/// Sends requests. Returns the errno of each.
fn send(client: &mut Connection, requests: &Writer) -> Vec<i32> {
    client.request(requests.bytes());
    let mut found = Vec::new();
    while let Some(answer) = client.mailbox().take() {
        for message in messages(&answer) {
            if message.header.ty == nlm::ERROR {
                let code = message.payload()[..4].try_into().unwrap();
                found.push(-i32::from_ne_bytes(code));
            }
        }
    }
    found
}

fn one(client: &mut Connection, name: &str, index: i32) -> i32 {
    let mut out = Writer::new();
    create(&mut out, name, index);
    let answers = send(client, &out);
    assert_eq!(answers.len(), 1, "{name}: {answers:?}");
    answers[0]
}

#[test]
fn a_namespace_holds_65536_devices_and_lists_them_in_parts() {
    const COUNT: u32 = 65_536;
    let mut world = World::new();
    let ns = world.stack.create_namespace();
    let mut client = Connection::new(&world.stack, &ns, 9, Box::new(Nobody), None);
    for start in (0..COUNT).step_by(256) {
        let mut out = Writer::new();
        for number in start..start + 256 {
            create(&mut out, &format!("d{number}"), 0);
        }
        assert_eq!(send(&mut client, &out), [0; 256]);
    }
    assert_eq!(one(&mut client, "d65535", 0), EEXIST);
    // A dump goes on as its reader reads; no part has more than a datagram.
    let mut out = Writer::new();
    let mark = out.message(rtm::GETLINK, nlm::F_REQUEST | nlm::F_DUMP, 1, 0);
    out.fixed(&IfInfoMsg::default());
    out.finish(mark).unwrap();
    client.request(out.bytes());
    let (mut seen, mut last, mut longest) = (0, 0, 0);
    while let Some(answer) = client.mailbox().take() {
        longest = longest.max(answer.len());
        for message in messages(&answer).filter(|message| message.header.ty == rtm::NEWLINK) {
            let index = i32::from_ne_bytes(message.payload()[4..8].try_into().unwrap());
            assert!(index > last);
            (last, seen) = (index, seen + 1);
        }
        client.pump();
    }
    assert_eq!(
        (seen, ns.all_devices().len()),
        (COUNT + 1, COUNT as usize + 1)
    );
    assert!(longest <= 1 << 16, "{longest}");
    drop(client);
    assert!(world.stack.remove_namespace(ns.id));
    assert_eq!(ns.all_devices().len(), 0);
    world.dummy("d0", [2, 0, 0, 0, 0, 1]);
}

#[test]
fn indices_that_are_taken_are_passed_over() {
    let world = World::new();
    let ns = world.stack.create_namespace();
    let mut client = Connection::new(&world.stack, &ns, 9, Box::new(Nobody), None);
    assert_eq!(one(&mut client, "none", -1), EINVAL);
    assert_eq!(one(&mut client, "last", i32::MAX), 0);
    assert_eq!(one(&mut client, "again", i32::MAX), EEXIST);
    assert_eq!(one(&mut client, "third", 3), 0);
    for name in ["a", "b"] {
        assert_eq!(one(&mut client, name, 0), 0);
    }
    let index = |name: &str| ns.device_by_name(name).unwrap().ifindex();
    // 1 is the loopback device, and 3 is taken.
    assert_eq!((index("lo"), index("a"), index("b")), (1, 2, 4));
    assert_eq!(index("last"), i32::MAX as u32);
}
