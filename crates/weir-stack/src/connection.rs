// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server side of one netlink socket (`struct netlink_sock`): options, groups, the running dump.
//!
//! The owner (a server loop, a test, an embedding program) gives it datagrams with
//! [`Connection::request`] and takes answers and notifications from its [`Mailbox`]. A dump goes on
//! only when the owner calls [`Connection::pump`], so that a client that does not read costs a few
//! datagrams of memory; as long as [`Connection::is_congested`], the owner should not read requests.
//!
//! Answers to one datagram of many requests may be more than [`Mailbox::LIMIT`] octets. Those beyond are lost, as
//! in Linux those beyond the receive buffer (`netlink_overrun`), and the first request without an answer gets
//! ENOBUFS; all are served. Linux marks the socket (`sk_err`), which nobody can do to the one that stands for it.
//!
//! Acknowledgements of one datagram travel together, up to [`ANSWER_OCTETS`]; a second dump
//! while one runs gets EBUSY, as from Linux.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::{
    AckOptions, Error, Header, Message, Writer, errno, messages, nlm, write_ack, write_done,
};

use weir_sync::lane::Lanes;
use weir_sync::rcu::{Guard, Reader};

use crate::genl;
use crate::namespace::{Namespace, NsId};
use crate::notify::{Mailbox, Subscribers, Waker};
use crate::rtnl::{self, Ctl, Dump, DumpCtl};
use crate::stack::Stack;

/// Octets of answers collected before they are sent as one datagram.
pub const ANSWER_OCTETS: usize = 16 << 10;
/// Octets of one datagram of a dump (below the smallest receive buffer in use, 8 KiB).
pub const DUMP_OCTETS: usize = 7936;
/// Datagrams of a dump that are written before the client is woken for the first of them, who else would
/// sleep and be woken for each.
const TOGETHER: usize = 4;
/// Octets of answers that may wait before the owner should stop reading requests.
const CONGESTED: usize = 256 << 10;

/// What the stack may ask about the client behind a socket.
pub trait Peer: Send + Sync {
    /// The namespace that a file descriptor of the client stands for (`get_net_ns_by_fd`).
    fn namespace_by_fd(&self, fd: u32) -> Option<NsId>;
    /// The namespace a process is in (`get_net_ns_by_pid`).
    fn namespace_by_pid(&self, pid: u32) -> Option<NsId>;
}

/// A client without namespaces of its own: both look-ups answer nothing.
#[derive(Debug, Default)]
pub struct NoPeer;

impl Peer for NoPeer {
    fn namespace_by_fd(&self, _: u32) -> Option<NsId> {
        None
    }

    fn namespace_by_pid(&self, _: u32) -> Option<NsId> {
        None
    }
}

/// Socket options (`SOL_NETLINK`).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// `NETLINK_EXT_ACK`
    pub ext_ack: bool,
    /// `NETLINK_CAP_ACK`
    pub cap_ack: bool,
    /// `NETLINK_GET_STRICT_CHK`
    pub strict: bool,
}

/// The netlink protocol a socket speaks.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `NETLINK_ROUTE`
    #[default]
    Route,
    /// `NETLINK_GENERIC`
    Generic,
}

impl Protocol {
    /// The sockets of a namespace that speak it; port ids and groups are a matter between them.
    pub fn sockets(self, ns: &Namespace) -> &Subscribers {
        match self {
            Self::Route => &ns.subscribers,
            Self::Generic => &ns.generic,
        }
    }
}

/// Whether answers to a datagram find room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// They do.
    Some,
    /// The mailbox is full.
    None,
    /// It is, and the client has been told.
    Told,
}

struct Running {
    dump: Box<dyn Dump>,
    seq: u32,
    /// What the table's generation was at the first datagram.
    generation: Option<u32>,
}

/// One netlink socket; see the module's head.
pub struct Connection {
    stack: Stack,
    ns: Arc<Namespace>,
    protocol: Protocol,
    mailbox: Arc<Mailbox>,
    peer: Box<dyn Peer>,
    /// The socket's options, the owner's to set.
    pub options: Options,
    dump: Option<Running>,
    answers: Vec<u8>,
    room: Room,
    reader: Reader,
    /// Those of the stack; taken out while requests are served.
    lanes: Option<Arc<Lanes>>,
}

impl Connection {
    /// Opens a rtnetlink socket in a namespace. `waker` is called when the empty mailbox gets a
    /// datagram.
    pub fn new(
        stack: &Stack,
        ns: &Arc<Namespace>,
        portid: u32,
        peer: Box<dyn Peer>,
        waker: Option<Waker>,
    ) -> Self {
        Self::open(stack, ns, Protocol::Route, portid, peer, waker)
    }

    /// As [`new`](Self::new), of a protocol.
    pub fn open(
        stack: &Stack,
        ns: &Arc<Namespace>,
        protocol: Protocol,
        portid: u32,
        peer: Box<dyn Peer>,
        waker: Option<Waker>,
    ) -> Self {
        let mailbox = Mailbox::new(portid, waker);
        protocol.sockets(ns).add(&mailbox);
        Self {
            stack: stack.clone(),
            ns: ns.clone(),
            protocol,
            mailbox,
            peer,
            options: Options::default(),
            dump: None,
            answers: Vec::new(),
            room: Room::Some,
            reader: stack.domain.reader(),
            lanes: Some(stack.lanes.clone()),
        }
    }

    /// Where answers and notifications wait.
    pub fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// The socket's namespace.
    pub fn namespace(&self) -> &Arc<Namespace> {
        &self.ns
    }

    /// What it speaks.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Whether so much waits in the mailbox that no more requests should be read.
    pub fn is_congested(&self) -> bool {
        self.mailbox.octets() > CONGESTED
    }

    /// Whether a dump waits to be continued.
    pub fn is_dumping(&self) -> bool {
        self.dump.is_some()
    }

    /// Serves one datagram of requests (`netlink_rcv_skb`).
    pub fn request(&mut self, datagram: &[u8]) {
        self.room = Room::Some;
        // One read section for all, renewed before each: to begin one costs more than a small request.
        let mut guard = self.reader.pin();
        let lanes = self.lanes.take();
        // One request alone is over before it meets another.
        let first = messages(datagram).next();
        let first = first.filter(|first| first.bytes.len() < datagram.len());
        let rules = first.is_some_and(|first| rtnl::makes_rules(first.header.ty));
        let lane = lanes.as_ref().filter(|_| rules).map(|lanes| lanes.enter());
        let ticks = Cell::new(None);
        for message in messages(datagram) {
            guard.repin();
            if !message.header.has(nlm::F_REQUEST) {
                self.acknowledge(&message, None);
                continue;
            }
            if message.header.ty < nlm::MIN_TYPE {
                self.acknowledge(&message, None);
                continue;
            }
            let acknowledged = self.answers.len();
            let served = self.serve(&message, &guard, &ticks);
            if self.answers.len() > acknowledged {
                // A reply is a datagram of its own, as from Linux: pyroute2 takes what is behind it
                // in one datagram for part of the answer.
                let reply = self.answers.split_off(acknowledged);
                self.flush();
                if self.answers.capacity() > 2 * ANSWER_OCTETS {
                    self.answers = Vec::new();
                }
                if self.has_room(&message) {
                    self.put(reply);
                }
            }
            match served {
                Ok(Served::Done) => self.acknowledge(&message, None),
                // A dump that started answers with its own end.
                Ok(Served::Dumping) => {}
                Err(error) => self.acknowledge(&message, Some(&error)),
            }
            if self.answers.len() >= ANSWER_OCTETS {
                self.flush();
            }
        }
        drop(lane);
        self.lanes = lanes;
        self.flush();
    }

    /// Acknowledges a datagram of requests without serving them: what remains when that costs nothing.
    pub fn acknowledge_all(&mut self, datagram: &[u8]) {
        for message in messages(datagram) {
            self.acknowledge(&message, None);
        }
        self.flush();
    }

    /// Refuses a datagram of `len` octets of which only `start` was taken: its first message is answered
    /// with ENOBUFS, which is what Linux gives where it has no memory for a datagram.
    pub fn refuse_too_long(&mut self, start: &[u8], len: usize) {
        let Some(bytes) = start.first_chunk() else {
            return;
        };
        let first = Message {
            header: Header::from_bytes(bytes),
            bytes,
        };
        let taken = start.len();
        let text = format!("Requests of more than {taken} octets are not taken: {len}");
        let error = Error::msg(errno::ENOBUFS, text);
        // The message itself cannot be shown: it may be cut.
        let cap = std::mem::replace(&mut self.options.cap_ack, true);
        self.acknowledge(&first, Some(&error));
        self.options.cap_ack = cap;
        self.flush();
    }

    fn serve(
        &mut self,
        message: &Message<'_>,
        guard: &Guard,
        ticks: &Cell<Option<u32>>,
    ) -> Result<Served, Error> {
        let mut ctl = Ctl {
            stack: &self.stack,
            ns: &self.ns,
            guard,
            peer: &*self.peer,
            message: *message,
            portid: self.mailbox.portid.load(Relaxed),
            strict: self.options.strict,
            ticks,
            answers: &mut self.answers,
        };
        let dumping = self.dump.is_some();
        let started = match self.protocol {
            Protocol::Route => rtnl::start(&mut ctl, dumping),
            Protocol::Generic => genl::start(&mut ctl, dumping),
        };
        match started? {
            None => Ok(Served::Done),
            Some(dump) => {
                self.flush();
                let seq = message.header.seq;
                self.dump = Some(Running {
                    dump,
                    seq,
                    generation: None,
                });
                // Else the owner goes on with it when the client has read.
                if !self.is_congested() {
                    self.pump();
                }
                Ok(Served::Dumping)
            }
        }
    }

    /// Continues the running dump by a few datagrams (`netlink_dump`); `false` when none runs.
    pub fn pump(&mut self) -> bool {
        let Some(mut running) = self.dump.take() else {
            return false;
        };
        let guard = self.stack.domain.pin();
        let mut out = Writer::with_datagrams(DUMP_OCTETS, TOGETHER);
        let mut flags = nlm::F_MULTI;
        if running.dump.is_filtered() {
            flags |= nlm::F_DUMP_FILTERED;
        }
        let ctl = |flags| DumpCtl {
            stack: &self.stack,
            ns: &self.ns,
            guard: &guard,
            portid: self.mailbox.portid.load(Relaxed),
            seq: running.seq,
            flags,
        };
        let generation = running.dump.generation(&ctl(flags));
        let changed = *running.generation.get_or_insert(generation) != generation;
        if changed {
            flags |= nlm::F_DUMP_INTR;
        }
        let ctl = ctl(flags);
        let filled = match running.dump.fill(&ctl, &mut out) {
            Err(error) if error.errno == errno::EMSGSIZE && out.is_empty() => {
                // One message larger than the usual datagram: it gets one of its own.
                out.set_limit(usize::MAX);
                running.dump.fill_one(&ctl, &mut out)
            }
            filled => filled,
        };
        // The end travels with the last messages when it fits, as Linux does.
        let end = match filled {
            Ok(false) => None,
            Ok(true) => Some(None),
            Err(error) => Some(Some(error)),
        };
        match end {
            None => self.dump = Some(running),
            Some(error) => {
                out.set_limit(usize::MAX);
                let flags = flags & !nlm::F_MULTI;
                let written = write_done(
                    &mut out,
                    flags,
                    ctl.seq,
                    ctl.portid,
                    error.as_ref(),
                    self.options.ext_ack,
                );
                debug_assert!(written.is_ok(), "a writer without a bound is never full");
            }
        }
        for datagram in out.into_datagrams() {
            self.mailbox.answer(datagram);
        }
        true
    }

    /// `netlink_ack`: errors always, successes when asked.
    fn acknowledge(&mut self, message: &Message<'_>, error: Option<&Error>) {
        if error.is_none_or(|e| e.errno == 0) && !message.header.has(nlm::F_ACK) {
            return;
        }
        if self.has_room(message) {
            self.write_ack(message, error);
        }
    }

    fn write_ack(&mut self, message: &Message<'_>, error: Option<&Error>) {
        let options = AckOptions {
            cap: self.options.cap_ack,
            ext: self.options.ext_ack,
        };
        let mut out = Writer::from_vec(std::mem::take(&mut self.answers));
        let written = write_ack(
            &mut out,
            message,
            self.mailbox.portid.load(Relaxed),
            error,
            options,
        );
        debug_assert!(written.is_ok(), "a writer without a bound is never full");
        self.answers = out.into_vec();
    }

    fn flush(&mut self) {
        if !self.answers.is_empty() {
            let answers = std::mem::take(&mut self.answers);
            self.put(answers);
        }
    }

    /// An answer for the client.
    fn put(&mut self, datagram: Vec<u8>) {
        self.mailbox.answer(datagram);
        if self.room == Room::Some && self.mailbox.octets() > Mailbox::LIMIT {
            self.room = Room::None;
        }
    }

    /// Whether the answer to a request has room. The first one that has none becomes ENOBUFS.
    #[inline]
    fn has_room(&mut self, message: &Message<'_>) -> bool {
        if self.room == Room::None {
            self.room = Room::Told;
            let text = "The client reads too late: answers are lost from here on";
            let error = Error::msg(errno::ENOBUFS, text);
            // Without the request: it may be a long one.
            let cap = std::mem::replace(&mut self.options.cap_ack, true);
            self.write_ack(message, Some(&error));
            self.options.cap_ack = cap;
            self.flush();
        }
        self.room == Room::Some
    }
}

enum Served {
    Done,
    Dumping,
}
