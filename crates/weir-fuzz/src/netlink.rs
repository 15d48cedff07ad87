// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bytes of rtnetlink requests into a stack.
//!
//! The first byte holds options: 1 extended ACKs, 2 capped ACKs, 4 strict checks, 8 the rest of the
//! input is one datagram. Without option 8 each message is a datagram of its own, and a dump that
//! it starts is read to the end before the next message is sent. The stack has the devices that the
//! recorded requests of weir-netlink's tests expect: `d0` (3) and `d1` (5), ends of veth pairs.
//!
//! Invariants: everything received, on the client's own socket and on one subscribed to every
//! group, consists of complete messages with complete attributes; a request that asks for an answer
//! gets one with its sequence number; the number of answers is bounded; and every table can be
//! dumped afterwards.

use weir_netlink::{HEADER_LEN, Message, TcMsg, Writer, attrs, messages, nlm, rtm};
use weir_stack::connection::{NoPeer, Options, Protocol};
use weir_stack::{Config, Connection, Cpu, Stack};

use crate::router;

/// Maximum number of messages used from one input.
const MESSAGES: usize = 256;
/// Maximum number of datagrams of one dump; a longer dump is considered endless. The tables of a
/// new stack, its sysctls and neighbour parameters, fit in a few datagrams.
const DUMP_DATAGRAMS: usize = 10_000;
/// The tables dumped at the end: links, addresses, routes, neighbours, rules, qdiscs, namespace
/// ids.
const TABLES: [u16; 7] = [18, 22, 26, 30, 34, 38, 90];

/// The dumps for the first end of each pair: its classes, and the filters and chains of the places
/// where a qdisc may have them.
const PLACES: [(u16, u32); 8] = [
    (rtm::GETTCLASS, 0),
    (rtm::GETTFILTER, 0),
    (rtm::GETTFILTER, 0x1_0000),
    (rtm::GETTFILTER, 0xffff_fff2),
    (rtm::GETTFILTER, 0xffff_fff3),
    (rtm::GETCHAIN, 0x1_0000),
    (rtm::GETCHAIN, 0xffff_fff2),
    (rtm::GETCHAIN, 0xffff_fff3),
];

/// Feeds `bytes` to a new stack.
pub fn run(bytes: &[u8]) {
    let Some((&options, requests)) = bytes.split_first() else {
        return;
    };
    let stack = weir_stack::build(Config::default());
    let mut cpu = Cpu::new(&stack, 0);
    let mut client = Client::new(&stack, options);
    for request in router::PAIRS.map(router::pair) {
        client.datagram(&request);
    }
    if options & 8 != 0 {
        client.datagram(requests);
    } else {
        for message in messages(requests).take(MESSAGES) {
            client.datagram(message.bytes);
            // Runs the work that changes leave to the data path: link states, neighbour
            // solicitations.
            cpu.settle();
        }
    }
    // Runs the timers: lifetimes, neighbour states.
    cpu.run_until(Some(stack.clock.now() + 10_000_000_000));
    client.take();
    for table in TABLES {
        let mut dump = [0; HEADER_LEN + 4];
        dump[..4].copy_from_slice(&20_u32.to_ne_bytes());
        dump[4..6].copy_from_slice(&table.to_ne_bytes());
        dump[6..8].copy_from_slice(&(nlm::F_REQUEST | nlm::F_DUMP).to_ne_bytes());
        client.datagram(&dump);
    }
    for (place, ifindex) in PLACES.iter().flat_map(|place| [(place, 3), (place, 5)]) {
        let mut w = Writer::new();
        let message = w.message(place.0, nlm::F_REQUEST | nlm::F_DUMP, 1, 0);
        w.fixed(&TcMsg {
            ifindex,
            parent: place.1,
            ..TcMsg::default()
        });
        w.finish(message)
            .expect("a writer without a limit is never full");
        client.datagram(w.bytes());
    }
    // Tears down all namespaces with their objects.
    for namespace in stack.all_namespaces() {
        stack.remove_namespace(namespace.id);
    }
    cpu.settle();
}

/// A client and a second socket subscribed to every group.
pub(crate) struct Client {
    socket: Connection,
    monitor: Connection,
}

impl Client {
    fn new(stack: &Stack, options: u8) -> Client {
        Self::open(stack, Protocol::Route, options)
    }

    /// Opens both sockets in the initial namespace.
    pub(crate) fn open(stack: &Stack, protocol: Protocol, options: u8) -> Client {
        let namespace = stack
            .namespace(Stack::INITIAL)
            .expect("a stack has an initial namespace");
        let socket = || Connection::open(stack, &namespace, protocol, 1, Box::new(NoPeer), None);
        let mut client = Client {
            socket: socket(),
            monitor: socket(),
        };
        client.socket.options = Options {
            ext_ack: options & 1 != 0,
            cap_ack: options & 2 != 0,
            strict: options & 4 != 0,
        };
        for group in 1..64 {
            client.monitor.mailbox().set_group(group, true);
        }
        client
    }

    /// Sends one datagram, reads every answer, and checks them.
    pub(crate) fn datagram(&mut self, datagram: &[u8]) {
        self.socket.request(datagram);
        let mut answered = Vec::new();
        for count in 0.. {
            assert!(count < DUMP_DATAGRAMS, "an endless dump");
            self.take_into(&mut answered);
            if !self.socket.pump() {
                break;
            }
        }
        self.take_into(&mut answered);
        for message in messages(datagram) {
            // The flags of a dump have other meanings in requests that create something.
            let gets = message.header.ty & 3 == 2;
            let dumps = gets && message.is_dump() && self.socket.protocol() == Protocol::Route;
            let asks = message.header.has(nlm::F_ACK) || dumps;
            let served = match self.socket.protocol() {
                Protocol::Route => message.is_served() && message.family().is_some(),
                _ => message.header.ty >= nlm::MIN_TYPE && message.header.has(nlm::F_REQUEST),
            };
            assert!(
                !(asks && served) || answered.contains(&message.header.seq),
                "no answer to {:?}",
                message.header
            );
        }
    }

    pub(crate) fn take(&mut self) {
        self.take_into(&mut Vec::new());
    }

    /// Checks the messages queued on both sockets and appends the sequence numbers of answers to
    /// `answered`.
    fn take_into(&mut self, answered: &mut Vec<u32>) {
        while let Some(datagram) = self.monitor.mailbox().take() {
            check(&datagram);
        }
        while let Some(datagram) = self.socket.mailbox().take() {
            check(&datagram);
            answered.extend(messages(&datagram).map(|message| message.header.seq));
        }
    }
}

/// Checks that messages and attributes are complete.
fn check(datagram: &[u8]) {
    assert!(!datagram.is_empty(), "an empty datagram");
    let mut walk = messages(datagram);
    for message in walk.by_ref() {
        if let Some(at) = first_attribute(&message) {
            let mut walk = attrs(message.bytes.get(at..).unwrap_or_default());
            for _ in walk.by_ref() {}
            assert!(
                walk.rest().is_empty(),
                "a broken attribute in {:?}",
                message.header
            );
        }
    }
    assert!(
        walk.rest().is_empty(),
        "a broken message: {:?}",
        walk.rest()
    );
}

/// Returns the offset of the first attribute of an rtnetlink or nfnetlink message, after its family's fixed
/// header.
fn first_attribute(message: &Message<'_>) -> Option<usize> {
    let fixed = match message.header.ty {
        16..=19 | 108..=111 => 16,                  // ifinfomsg
        20..=23 | 104..=107 => 8,                   // ifaddrmsg, nhmsg
        24..=27 | 32..=35 | 72..=75 => 12,          // rtmsg, fib_rule_hdr, ifaddrlblmsg
        28..=31 => 12,                              // ndmsg
        36..=47 | 100..=103 => 20,                  // tcmsg
        48..=51 | 64..=67 | 80..=83 | 88..=91 => 4, // tcamsg, ndtmsg, netconfmsg, rtgenmsg
        0x100..=0x2ff => 4,                         // nfgenmsg
        _ => return None,
    };
    Some(HEADER_LEN + fixed)
}
