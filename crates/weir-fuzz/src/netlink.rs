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
    Bench::new().feed(options, requests);
}

/// Stacks for many inputs. Each input gets a stack that no request has changed: a new one, or the one before if all
/// requests that it was sent were refused, and its tables are what they were at first, to the byte.
#[derive(Default)]
pub struct Benches(Option<Bench>);

impl Benches {
    /// Feeds `bytes` to a stack without changes.
    pub fn run(&mut self, bytes: &[u8]) {
        let Some((&options, requests)) = bytes.split_first() else {
            return;
        };
        let mut bench = self.0.take().unwrap_or_else(Bench::new);
        let before = bench.tables(options);
        if bench.feed(options, requests) {
            return;
        }
        // As in Linux, a refused change of a link may have been made in part.
        let after = bench.tables.iter().find(|(of, _)| *of == options);
        if after.is_some_and(|(_, after)| before != *after) {
            return;
        }
        self.0 = Some(bench);
    }
}

/// A stack with its devices.
struct Bench {
    stack: Stack,
    cpu: Cpu,
    /// The dumps of all tables, for each kind of client that has asked.
    tables: Vec<(u8, Vec<u8>)>,
}

impl Bench {
    fn new() -> Self {
        let stack = weir_stack::build(Config::default());
        let mut cpu = Cpu::new(&stack, 0);
        let mut client = Client::new(&stack, 0);
        for request in router::PAIRS.map(router::pair) {
            client.datagram(&request);
        }
        cpu.settle();
        Self {
            stack,
            cpu,
            tables: Vec::new(),
        }
    }

    /// Returns the dumps of all tables before any request.
    fn tables(&mut self, options: u8) -> Vec<u8> {
        if let Some((_, tables)) = self.tables.iter().find(|(of, _)| *of == options) {
            return tables.clone();
        }
        let tables = Client::new(&self.stack, options).dump();
        self.tables.push((options, tables.clone()));
        tables
    }

    /// Sends the requests and reads all tables. Returns whether a request may have changed something; if none did, the
    /// new dumps are in [`tables`](Self::tables).
    fn feed(&mut self, options: u8, requests: &[u8]) -> bool {
        let mut client = Client::new(&self.stack, options);
        if options & 8 != 0 {
            client.datagram(requests);
        } else {
            for message in messages(requests).take(MESSAGES) {
                client.datagram(message.bytes);
                // Runs the work that changes leave to the data path: link states, neighbour
                // solicitations.
                self.cpu.settle();
            }
        }
        // Runs the timers: lifetimes, neighbour states.
        let now = self.stack.clock.now();
        self.cpu.run_until(Some(now + 10_000_000_000));
        client.take();
        let changed = client.changes > client.refusals;
        let tables = client.dump();
        if !changed {
            self.tables.retain(|(of, _)| *of != options);
            self.tables.push((options, tables));
            return false;
        }
        // Tears down all namespaces with their objects.
        for namespace in self.stack.all_namespaces() {
            self.stack.remove_namespace(namespace.id);
        }
        self.cpu.settle();
        true
    }
}

/// A client and a second socket subscribed to every group.
pub(crate) struct Client {
    socket: Connection,
    monitor: Connection,
    /// The answers since the last dump of all tables began.
    answers: Vec<u8>,
    /// The number of requests that may change something.
    changes: usize,
    /// The number of requests that were refused.
    refusals: usize,
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
            answers: Vec::new(),
            changes: 0,
            refusals: 0,
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
        let changes = |message: &Message<'_>| {
            message.header.ty >= nlm::MIN_TYPE && message.header.ty & 3 != 2
        };
        self.changes += messages(datagram).filter(changes).count();
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

    /// Returns the dumps of all tables.
    fn dump(&mut self) -> Vec<u8> {
        self.answers.clear();
        for table in TABLES {
            let mut dump = [0; HEADER_LEN + 4];
            dump[..4].copy_from_slice(&20_u32.to_ne_bytes());
            dump[4..6].copy_from_slice(&table.to_ne_bytes());
            dump[6..8].copy_from_slice(&(nlm::F_REQUEST | nlm::F_DUMP).to_ne_bytes());
            self.datagram(&dump);
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
            self.datagram(w.bytes());
        }
        std::mem::take(&mut self.answers)
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
            self.refusals += messages(&datagram).filter(refuses_change).count();
            self.answers.extend_from_slice(&datagram);
        }
    }
}

/// Returns whether a message is the refusal of a request that would change something. It contains that request's header
/// behind the errno.
fn refuses_change(message: &Message<'_>) -> bool {
    let payload = message.payload();
    let ty = payload.get(8..10).and_then(|ty| ty.first_chunk());
    message.header.ty == nlm::ERROR
        && payload.first_chunk() != Some(&[0; 4])
        && ty.is_some_and(|ty| u16::from_ne_bytes(*ty) & 3 != 2)
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
