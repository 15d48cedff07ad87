// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client that sends requests and does not read: its queue is bounded, it is told that answers
//! were lost, and it is served when it reads again.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use weir_netlink::{IfInfoMsg, Message, Writer, errno, ifla, messages, nlm, rtm};
use weir_stack::connection::{ANSWER_OCTETS, NoPeer};
use weir_stack::notify::Mailbox;
use weir_stack::{Config, Connection, Stack};

/// The size of the longest answer: a link whose alternative names fill an attribute.
const LONGEST: usize = 70_000;
/// The length of a name in bytes, including its NUL.
const NAME: usize = 128;

fn client(stack: &Stack) -> Connection {
    let ns = stack.namespace(Stack::INITIAL).unwrap();
    let mut client = Connection::new(stack, &ns, 7, Box::new(NoPeer), None);
    client.options.ext_ack = true;
    client
}

/// Writes a request for the loopback device.
fn about(out: &mut Writer, (ty, seq): (u16, u32), flags: u16, rest: impl FnOnce(&mut Writer)) {
    let message = out.message(ty, nlm::F_REQUEST | flags, seq, 0);
    out.fixed(&IfInfoMsg {
        index: 1,
        ..IfInfoMsg::default()
    });
    rest(out);
    out.finish(message).unwrap();
}

/// Returns the errno of an acknowledgement.
fn errno_of(message: &Message<'_>) -> i32 {
    assert_eq!(message.header.ty, nlm::ERROR);
    -i32::from_ne_bytes(*message.payload().first_chunk().unwrap())
}

/// Adds alternative names, one per request, until one is rejected. Returns their number, and the
/// errno and text of the error.
fn name(client: &mut Connection) -> (usize, i32, String) {
    for number in 0..10_000 {
        let mut out = Writer::new();
        about(&mut out, (rtm::NEWLINKPROP, 1), nlm::F_ACK, |out| {
            let list = out.nest(ifla::PROP_LIST);
            out.put_str(ifla::ALT_IFNAME, &format!("{number:0>127}"));
            out.end(list);
        });
        client.request(out.bytes());
        let answer = client.mailbox().take().unwrap();
        let message = messages(&answer).next().unwrap();
        if errno_of(&message) != 0 {
            let said = String::from_utf8_lossy(message.payload()).into_owned();
            return (number, errno_of(&message), said);
        }
    }
    panic!("names are accepted without end");
}

/// Sends one datagram with `count` requests for the link, without reading.
fn ask(client: &mut Connection, count: u32) {
    let mut out = Writer::new();
    for seq in 1..=count {
        about(&mut out, (rtm::GETLINK, seq), 0, |_| ());
    }
    client.request(out.bytes());
}

/// Reads everything. Returns the sequence number of the last link, and the errno and sequence
/// number of the message after it.
fn read(client: &mut Connection) -> (u32, Option<(i32, u32)>) {
    let (mut last, mut refused) = (0, None);
    while let Some(answer) = client.mailbox().take() {
        for message in messages(&answer) {
            assert!(refused.is_none(), "the error is the last answer");
            if message.header.ty == rtm::NEWLINK {
                assert_eq!(message.header.seq, last + 1);
                last += 1;
            } else {
                refused = Some((errno_of(&message), message.header.seq));
            }
        }
    }
    (last, refused)
}

#[test]
fn a_datagram_of_131072_requests() {
    let stack = weir_stack::build(Config::default());
    let mut client = client(&stack);
    ask(&mut client, 131_072);
    assert!(client.mailbox().octets() <= Mailbox::LIMIT + ANSWER_OCTETS);
    assert!(client.is_congested());
    let (answered, refused) = read(&mut client);
    assert!(answered > 100);
    assert_eq!(refused, Some((errno::ENOBUFS, answered + 1)));
    // The client has read: there is room again.
    ask(&mut client, 2);
    assert_eq!(read(&mut client), (2, None));
}

#[test]
fn a_link_has_as_many_names_as_fit_an_attribute() {
    let stack = weir_stack::build(Config::default());
    let mut client = client(&stack);
    let (count, errno, said) = name(&mut client);
    assert_eq!((count, errno), (496, errno::EINVAL));
    assert!(said.contains("effective property list too long"), "{said}");
    ask(&mut client, 1);
    let octets = client.mailbox().octets();
    assert!((count * NAME..LONGEST).contains(&octets), "{octets}");
    assert_eq!(read(&mut client), (1, None));
    ask(&mut client, 200);
    assert!(client.mailbox().octets() <= Mailbox::LIMIT + LONGEST + ANSWER_OCTETS);
    let (answered, refused) = read(&mut client);
    assert_eq!(refused, Some((errno::ENOBUFS, answered + 1)));
}

/// A dump without room waits, and the next one gets EBUSY, as on Linux.
#[test]
fn dumps_wait_for_the_client() {
    let stack = weir_stack::build(Config::default());
    let mut client = client(&stack);
    let mut out = Writer::new();
    for seq in 1..=10_000 {
        let message = out.message(rtm::GETLINK, nlm::F_REQUEST | nlm::F_DUMP, seq, 0);
        out.fixed(&IfInfoMsg::default());
        out.finish(message).unwrap();
    }
    client.request(out.bytes());
    assert!(client.mailbox().octets() <= Mailbox::LIMIT + LONGEST + ANSWER_OCTETS);
    assert!(client.is_dumping());
    while client.mailbox().take().is_some() {}
    while client.pump() {}
    let mut done = false;
    while let Some(answer) = client.mailbox().take() {
        done |= messages(&answer).any(|message| message.header.ty == nlm::DONE);
    }
    assert!(done && !client.is_dumping());
}
