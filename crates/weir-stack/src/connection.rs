// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server side of one netlink socket (`struct netlink_sock`): options, groups and the running
//! dump.
//!
//! The owner (a server loop, a test, an embedding program) passes in datagrams with
//! [`Connection::request`] and takes answers and notifications from its [`Mailbox`]. A dump
//! continues only when the owner calls [`Connection::pump`], so that a client that does not read
//! costs a few datagrams of memory. While [`Connection::is_congested`] is true, the owner should
//! not read requests.
//!
//! The answers to one datagram with many requests may exceed [`Mailbox::LIMIT`] bytes. The excess
//! answers are lost, as Linux loses those beyond the receive buffer (`netlink_overrun`), and the
//! first request without an answer gets ENOBUFS. All requests are still executed. Linux also sets
//! an error on the socket (`sk_err`); this is impossible for the socket that stands in for it here.
//!
//! The acknowledgements for one datagram are sent together, up to [`ANSWER_OCTETS`]. Starting a
//! second dump while one is running gets EBUSY, as on Linux.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::{
    AckOptions, Error, Header, Message, Writer, errno, messages, nlm, rtm, write_ack, write_done,
};

use weir_sync::lane::Lanes;
use weir_sync::rcu::{Guard, Reader};

use crate::diag;
use crate::genl;
use crate::link::nlmon;
use crate::namespace::{Namespace, NsId};
use crate::nfnl;
use crate::notify::{Mailbox, Subscribers, Waker};
use crate::request::{Ctl, Dump, DumpCtl};
use crate::rtnl;
use crate::stack::Stack;

pub use crate::request::Peer;

/// The number of bytes of answers collected before they are sent as one datagram.
pub const ANSWER_OCTETS: usize = 16 << 10;
/// The size limit of a dump datagram in bytes (`NLMSG_GOODSIZE`). The C library's `getifaddrs` and
/// Go's `net.Interfaces` read into one page of 4 KiB, and a longer datagram would be cut. Linux
/// sends longer ones to a reader with a larger buffer, but the size of that buffer is not seen here.
pub const DUMP_OCTETS: usize = 3776;
/// The same for dumps of traffic control: only libraries that ask for the size first or read into
/// 16 KiB or more send these requests, and fewer datagrams list a million rules faster.
pub const TC_DUMP_OCTETS: usize = 7936;
/// The number of bytes of dump datagrams written before the client is woken. Otherwise it would
/// sleep and be woken for each datagram.
const TOGETHER: usize = 124 << 10;
/// The number of queued answer bytes above which the owner should stop reading requests.
const CONGESTED: usize = 256 << 10;

/// Returns the size limit in bytes of a datagram of the dump that a request of type `ty` asks for.
fn dump_octets(protocol: Protocol, ty: u16) -> usize {
    match (protocol, ty) {
        (Protocol::Route, rtm::NEWQDISC..=rtm::GETACTION | rtm::NEWCHAIN..=rtm::GETCHAIN) => {
            TC_DUMP_OCTETS
        }
        _ => DUMP_OCTETS,
    }
}

/// A client without namespaces of its own: both lookups return `None`.
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

/// The socket options (`SOL_NETLINK`).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// `NETLINK_EXT_ACK`
    pub ext_ack: bool,
    /// `NETLINK_CAP_ACK`
    pub cap_ack: bool,
    /// `NETLINK_GET_STRICT_CHK`
    pub strict: bool,
}

/// The netlink protocol of a socket.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `NETLINK_ROUTE`
    #[default]
    Route,
    /// `NETLINK_GENERIC`
    Generic,
    /// `NETLINK_NETFILTER`
    Netfilter,
    /// `NETLINK_SOCK_DIAG`
    SockDiag,
}

impl Protocol {
    /// Returns `NETLINK_*`.
    pub fn number(self) -> u16 {
        match self {
            Self::Route => 0,
            Self::SockDiag => 4,
            Self::Netfilter => 12,
            Self::Generic => 16,
        }
    }

    /// Returns the sockets of a namespace that use this protocol. Port ids and groups are separate
    /// per protocol.
    pub fn sockets(self, ns: &Namespace) -> &Subscribers {
        match self {
            Self::Route => &ns.subscribers,
            Self::Generic => &ns.generic,
            Self::Netfilter => &ns.netfilter,
            Self::SockDiag => &ns.diagnosis,
        }
    }
}

/// Whether there is room for answers to the current datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// There is room.
    Some,
    /// The mailbox is full.
    None,
    /// The mailbox is full, and the client has been told so with ENOBUFS.
    Told,
}

struct Running {
    dump: Box<dyn Dump>,
    seq: u32,
    /// The size limit of a datagram in bytes.
    octets: usize,
    /// The table's generation at the first datagram of the dump.
    generation: Option<u32>,
}

/// One netlink socket; see the module documentation.
pub struct Connection {
    stack: Stack,
    ns: Arc<Namespace>,
    protocol: Protocol,
    mailbox: Arc<Mailbox>,
    peer: Box<dyn Peer>,
    /// The socket's options, set by the owner.
    pub options: Options,
    dump: Option<Running>,
    answers: Vec<u8>,
    room: Room,
    reader: Reader,
    /// The stack's lanes. They are taken out while requests are served.
    lanes: Option<Arc<Lanes>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.protocol.sockets(&self.ns).remove(&self.mailbox);
    }
}

impl Connection {
    /// Opens an rtnetlink socket in a namespace. `waker` runs when the empty mailbox receives a
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

    /// Like [`new`](Self::new), for any protocol.
    pub fn open(
        stack: &Stack,
        ns: &Arc<Namespace>,
        protocol: Protocol,
        portid: u32,
        peer: Box<dyn Peer>,
        waker: Option<Waker>,
    ) -> Self {
        let mailbox = Mailbox::new(portid, waker);
        // Port id 0 is the kernel's: requests of the stack's owner are no messages of a program.
        if portid != 0 {
            mailbox.set_tap(nlmon::tap(stack, ns, protocol.number()));
        }
        protocol.sockets(ns).add(&mailbox);
        if protocol == Protocol::Netfilter {
            nfnl::conntrack::events::listen(ns, stack.clock.epoch_ns());
        }
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

    /// Returns the queue of answers and notifications.
    pub fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// Returns the socket's namespace.
    pub fn namespace(&self) -> &Arc<Namespace> {
        &self.ns
    }

    /// Returns the socket's protocol.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Returns whether the mailbox is so full that no more requests should be read.
    pub fn is_congested(&self) -> bool {
        self.mailbox.octets() > CONGESTED
    }

    /// Returns whether a dump is waiting to be continued.
    pub fn is_dumping(&self) -> bool {
        self.dump.is_some()
    }

    /// Serves one datagram of requests (`netlink_rcv_skb`).
    pub fn request(&mut self, datagram: &[u8]) {
        self.request_shown(datagram, || {});
    }

    /// As [`request`](Self::request). Calls `shown` after the datagram was shown to the devices that watch netlink, and
    /// before it is served.
    pub fn request_shown(&mut self, datagram: &[u8], shown: impl FnOnce()) {
        self.room = Room::Some;
        self.mailbox.show(datagram);
        shown();
        // Use one read section for all requests and renew it before each: starting a new one costs
        // more than a small request.
        let mut guard = self.reader.pin();
        let lanes = self.lanes.take();
        // A lane is taken only for several requests: a single one is over before it can contend
        // with others.
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
                // Send a reply as a datagram of its own, as Linux does: pyroute2 takes everything
                // behind it in the same datagram as part of the answer.
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
                // A dump that was started sends its own end message.
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

    /// Acknowledges a datagram of requests without serving them, to measure the cost of the
    /// transport alone.
    pub fn acknowledge_all(&mut self, datagram: &[u8]) {
        for message in messages(datagram) {
            self.acknowledge(&message, None);
        }
        self.flush();
    }

    /// Refuses a datagram of `len` bytes of which only `start` was read. Answers its first message
    /// with ENOBUFS, which Linux returns when it has no memory for a datagram.
    pub fn refuse_too_long(&mut self, start: &[u8], len: usize) {
        let Some(bytes) = start.first_chunk() else {
            return;
        };
        let first = Message {
            header: Header::from_bytes(bytes),
            bytes,
        };
        let taken = start.len();
        let text = format!("Requests of more than {taken} bytes are not accepted: {len}");
        let error = Error::msg(errno::ENOBUFS, text);
        // Don't echo the message: it may be truncated.
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
            Protocol::Netfilter => nfnl::start(&mut ctl, dumping),
            Protocol::SockDiag => diag::start(&mut ctl, dumping),
        };
        match started? {
            None => Ok(Served::Done),
            Some(dump) => {
                self.flush();
                let seq = message.header.seq;
                self.dump = Some(Running {
                    dump,
                    seq,
                    octets: dump_octets(self.protocol, message.header.ty),
                    generation: None,
                });
                // Otherwise the owner continues the dump once the client has read.
                if !self.is_congested() {
                    self.pump();
                }
                Ok(Served::Dumping)
            }
        }
    }

    /// Continues the running dump by a few datagrams (`netlink_dump`). Returns `false` if no dump
    /// is running.
    pub fn pump(&mut self) -> bool {
        let Some(mut running) = self.dump.take() else {
            return false;
        };
        let guard = self.stack.domain.pin();
        let mut out = Writer::with_datagrams(running.octets, TOGETHER / running.octets);
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
                // A single message is larger than the usual datagram: send it in a datagram of its
                // own.
                out.set_limit(usize::MAX);
                running.dump.fill_one(&ctl, &mut out)
            }
            filled => filled,
        };
        // As in Linux, the end message is sent with the last messages if it fits.
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
                debug_assert!(written.is_ok(), "an unbounded writer is never full");
            }
        }
        for datagram in out.into_datagrams() {
            self.mailbox.answer(datagram);
        }
        true
    }

    /// Acknowledges a request (`netlink_ack`): errors always, success if the client asked for it.
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
        debug_assert!(written.is_ok(), "an unbounded writer is never full");
        self.answers = out.into_vec();
    }

    fn flush(&mut self) {
        if !self.answers.is_empty() {
            let answers = std::mem::take(&mut self.answers);
            self.put(answers);
        }
    }

    /// Queues an answer for the client.
    fn put(&mut self, datagram: Vec<u8>) {
        self.mailbox.answer(datagram);
        if self.room == Room::Some && self.mailbox.octets() > Mailbox::LIMIT {
            self.room = Room::None;
        }
    }

    /// Returns whether there is room for the answer to a request. The first answer without room
    /// becomes ENOBUFS.
    #[inline]
    fn has_room(&mut self, message: &Message<'_>) -> bool {
        if self.room == Room::None {
            self.room = Room::Told;
            let text = "The client reads too slowly: answers from here on are lost";
            let error = Error::msg(errno::ENOBUFS, text);
            // Don't echo the request: it may be long.
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
