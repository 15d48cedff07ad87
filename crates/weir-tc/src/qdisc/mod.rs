// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queueing disciplines: they hold the packets in front of a device, decide the order in which they
//! leave, and drop.
//!
//! Mirrors `struct Qdisc` and `struct Qdisc_ops` (net/sched/sch_api.c, sch_generic.c). A kind is
//! one file with a [`Qdisc`] and one entry in [`KINDS`]. A [`Node`] is a qdisc in a device's tree.
//! It holds the state common to all kinds and the [`Qdisc`] of its kind.
//!
//! The lock of a node guards its queue and statistics. A packet takes the lock of the root and,
//! under it, the locks of the children it passes, parent before child. A batch takes the root's
//! lock once.

mod bands;
mod bits;
pub mod blackhole;
pub mod cake;
pub mod cbq;
pub mod cbs;
pub mod choke;
mod classes;
pub mod codel;
pub mod drr;
mod ecn;
pub mod etf;
pub mod ets;
pub mod fifo;
pub mod fq;
pub mod fq_codel;
pub mod fq_pie;
pub mod gred;
mod heap;
pub mod hfsc;
pub mod hhf;
pub mod htb;
mod idle;
pub mod ingress;
pub mod mq;
pub mod mqprio;
pub mod multiq;
pub mod netem;
mod node;
pub mod noqueue;
pub mod pfifo_fast;
pub mod pie;
pub mod plug;
pub mod prio;
mod qevent;
pub mod qfq;
pub mod red;
pub mod root;
mod rounds;
mod run;
pub mod sfb;
pub mod sfq;
pub mod skbprio;
pub mod stab;
mod store;
pub mod taprio;
pub mod tbf;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::errno::{EINVAL, EOPNOTSUPP};
use weir_netlink::tca::h;
use weir_netlink::{Attr, Error, Policy, Strictness, Table, TcMsg, Writer};
use weir_packet::dissect::five_tuple_hash;
use weir_packet::{DropReason, Packet};

pub use self::node::{Gone, Inner, Leaf, Node, Open, Wakes};
pub use self::run::{Arrivals, Departures, Taker};
use crate::block::Block;
use crate::context::{Context, Copy};
use crate::counters::Queue;
use crate::env::Env;
use crate::host::Device;
use crate::txq::TrafficClasses;
use crate::verdict::{Code, Outcome, code};

/// The qdisc kinds.
pub static KINDS: &[Ops] = &[
    noqueue::OPS,
    blackhole::OPS,
    fifo::PFIFO,
    fifo::BFIFO,
    fifo::PFIFO_HEAD_DROP,
    pfifo_fast::OPS,
    prio::OPS,
    tbf::OPS,
    netem::OPS,
    htb::OPS,
    hfsc::OPS,
    cbq::OPS,
    codel::OPS,
    fq_codel::OPS,
    cake::OPS,
    fq::OPS,
    sfq::OPS,
    red::OPS,
    gred::OPS,
    ets::OPS,
    drr::OPS,
    qfq::OPS,
    plug::OPS,
    pie::OPS,
    fq_pie::OPS,
    choke::OPS,
    skbprio::OPS,
    cbs::OPS,
    etf::OPS,
    hhf::OPS,
    sfb::OPS,
    mq::OPS,
    multiq::OPS,
    mqprio::OPS,
    taprio::OPS,
    ingress::INGRESS,
    ingress::CLSACT,
];

/// The entry of a kind in [`KINDS`].
pub struct Ops {
    /// Name of the kind.
    pub kind: &'static str,
    /// Makes a qdisc from its options.
    pub create: fn(&Create<'_>) -> Result<Box<dyn Qdisc>, Error>,
    /// Whether the options may be changed later.
    pub can_change: bool,
    /// Whether it has classes (`cl_ops`).
    pub classful: bool,
    /// Whether a class gets a new pfifo when its qdisc is removed.
    pub refills: bool,
    /// Whether its classes, or the qdisc itself, take filters (`tcf_block`).
    pub filters: bool,
    /// Whether each class named by [`Qdisc::queues`] is a transmit queue of the device with its own
    /// root (`TCQ_F_MQROOT`).
    pub queues: bool,
    /// Whether it shows itself as the qdisc under each of its classes.
    pub own_leaves: bool,
    /// Whether it enters the transmit queues itself after it was announced (`attach`).
    pub attach: bool,
    /// Whether its own statistics are attributes, which are not sent as `TCA_XSTATS` to old
    /// clients.
    pub nested_stats: bool,
    /// The texts for wrong rate estimators (`TCA_RATE`) of a new and of an existing class, if its
    /// classes can have estimators.
    pub class_rates: Option<[&'static str; 2]>,
    /// Whether it stands at the ingress hook of a device (`TCQ_F_INGRESS`).
    pub ingress: bool,
    /// Whether its ingress and egress blocks can be shared.
    pub shares: (bool, bool),
}

impl Ops {
    /// Makes the entry of a kind without classes and filters.
    pub const fn new(
        kind: &'static str,
        create: fn(&Create<'_>) -> Result<Box<dyn Qdisc>, Error>,
    ) -> Self {
        Self {
            kind,
            create,
            can_change: false,
            classful: false,
            refills: false,
            filters: false,
            queues: false,
            attach: false,
            own_leaves: false,
            nested_stats: false,
            class_rates: None,
            ingress: false,
            shares: (false, false),
        }
    }
}

impl std::fmt::Debug for Ops {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.kind)
    }
}

/// Returns the kind with a name (`qdisc_lookup_ops`).
pub fn find_ops(kind: &[u8]) -> Option<&'static Ops> {
    KINDS.iter().find(|ops| ops.kind.as_bytes() == kind)
}

/// The context in which a qdisc is made or changed.
pub struct Create<'a> {
    /// The environment of the request.
    pub env: &'a Env<'a>,
    /// The device of the tree.
    pub device: &'a Arc<dyn Device>,
    /// The handle of the qdisc.
    pub handle: u32,
    /// The class it is put under, `TC_H_ROOT` or `TC_H_INGRESS`.
    pub parent: u32,
    /// The options (`TCA_OPTIONS`).
    pub options: Option<Attr<'a>>,
    /// Index of the shared block at ingress, 0 for none.
    pub ingress_block: u32,
    /// Index of the shared block at egress, 0 for none.
    pub egress_block: u32,
    /// Whether another `netem` of the tree duplicates packets; `None` if there is no other.
    pub other_netem: Option<bool>,
}

impl Create<'_> {
    /// Returns a block for the filters of the qdisc or of one of its classes.
    pub fn block(&self) -> Arc<Block> {
        ingress::block(self, 0)
    }

    /// Makes the initial queue of a class (`qdisc_create_dflt` with `pfifo`).
    pub fn pfifo(&self, classid: u32) -> Leaf {
        let queue = fifo::pfifo(self.device.tx_queue_len());
        self.leaf(&fifo::PFIFO, queue, classid)
    }

    /// Makes a pfifo with a limit (`fifo_create_dflt` with `pfifo`).
    pub fn pfifo_of(&self, limit: u32, classid: u32) -> Leaf {
        self.leaf(&fifo::PFIFO, fifo::pfifo(limit), classid)
    }

    /// Makes a [`pfifo`](Self::pfifo) that is shown by default. Class 0 puts it under the qdisc
    /// itself.
    pub fn shown_pfifo(&self, classid: u32) -> Leaf {
        let queue = fifo::pfifo(self.device.tx_queue_len());
        let parent = self.handle | (classid & h::MIN_MASK);
        let node = Node::new(&fifo::PFIFO, queue, 0, parent, false);
        self.number(&node);
        Leaf::new(Some(node))
    }

    /// Makes the queue for the only class of a qdisc (`fifo_create_dflt` with `bfifo`).
    pub fn bfifo(&self, limit: u32) -> Leaf {
        self.leaf(&fifo::BFIFO, fifo::bfifo(limit), 1)
    }

    /// Makes the initial qdisc of a transmit queue of the device (`qdisc_create_dflt` with the
    /// default kind).
    pub fn default_queue(&self, classid: u32) -> Leaf {
        let ops = find_ops(self.env.host.default_qdisc().as_bytes());
        let parent = self.handle | (classid & h::MIN_MASK);
        let create = Create {
            handle: 0,
            parent,
            options: None,
            ..*self
        };
        let make = |ops: &'static Ops| {
            let queue = (ops.create)(&create).ok()?;
            Some(Node::new(ops, queue, 0, parent, false))
        };
        let node = ops.and_then(make).or_else(|| make(&pfifo_fast::OPS));
        node.iter().for_each(|node| self.number(node));
        Leaf::new(node)
    }

    fn leaf(&self, ops: &'static Ops, queue: Box<dyn Qdisc>, classid: u32) -> Leaf {
        let parent = self.handle | (classid & h::MIN_MASK);
        let node = Node::new(ops, queue, 0, parent, true);
        self.number(&node);
        Leaf::new(Some(node))
    }

    /// Gives a new qdisc its sequence number.
    pub fn number(&self, node: &Node) {
        node.seq.store(self.env.net.node_number(), Relaxed);
    }

    /// Returns the time of the stack's clock, in ns.
    pub fn now(&self) -> u64 {
        self.env.host.now()
    }

    /// Returns the length of the device's largest frame, in bytes (`psched_mtu`).
    pub fn psched_mtu(&self) -> u32 {
        self.device.mtu().wrapping_add(self.device.header_len())
    }
}

/// The result of enqueueing a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enqueued {
    /// The packet was enqueued.
    Queued,
    /// The packet was dropped; see [`Drops`].
    Dropped,
    /// The packet was enqueued, but another one was dropped (`NET_XMIT_CN`).
    Congested,
    /// An action stole the packet or sent it elsewhere (`__NET_XMIT_STOLEN`).
    Stolen,
}

/// Packets that a qdisc dropped, with their reasons. The caller frees and counts them outside the
/// lock.
pub type Drops = Vec<(Packet, DropReason)>;

/// The number and the bytes of waiting packets. Both are read and written as one word, because a
/// load of both right after a store of each would wait for both stores.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Packets.
    pub len: u32,
    /// Bytes.
    pub backlog: u32,
}

impl Load {
    /// Packs both counts into one word. Sums and differences of words are those of both counts,
    /// because no count goes below zero.
    #[inline]
    fn word(self) -> u64 {
        u64::from(self.len) | u64::from(self.backlog) << 32
    }

    #[inline]
    fn of_word(word: u64) -> Self {
        Self {
            len: word as u32,
            backlog: (word >> 32) as u32,
        }
    }

    /// Adds a packet.
    #[inline]
    pub fn add(&mut self, octets: u32) {
        self.moved(Self::default(), Self::of_packet(octets));
    }

    /// Subtracts a packet.
    #[inline]
    pub fn sub(&mut self, octets: u32) {
        self.moved(Self::of_packet(octets), Self::default());
    }

    #[inline]
    fn of_packet(octets: u32) -> Self {
        Self {
            len: 1,
            backlog: octets,
        }
    }

    /// Applies the change of a part from `before` to `after`.
    #[inline]
    pub fn moved(&mut self, before: Load, after: Load) {
        let change = after.word().wrapping_sub(before.word());
        *self = Self::of_word(self.word().wrapping_add(change));
    }
}

/// The properties of the next packet that a parent may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Front {
    /// Bytes, as queues count them.
    pub len: u32,
    /// Priority of the packet.
    pub priority: u32,
}

impl Front {
    /// Takes the properties of a packet.
    #[inline]
    pub fn of(packet: &Packet) -> Self {
        Self {
            len: pkt_len(packet),
            priority: packet.priority,
        }
    }
}

/// The result of peeking at the next packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peek {
    /// The next packet, or `None` if none waits or none may leave.
    Next(Option<Front>),
    /// The kind cannot peek. The caller dequeues the packet and keeps it (`qdisc_peek_dequeued`).
    Dequeue,
}

/// No hint.
pub const NO_HINT: u32 = u32::MAX;

/// The context of a qdisc while it enqueues or dequeues a packet.
pub struct QueueCx<'a, 'b, 'g> {
    /// Time, randomness and guard; also for filters.
    pub cx: &'a mut Context<'b, 'g>,
    /// The list of dropped packets.
    pub drops: &'a mut Drops,
    /// Counts and requests of the current qdisc.
    notes: Notes,
    /// Whether `notes` holds anything; most packets leave nothing.
    noted: bool,
    /// Whether the current packet is a copy made by netem.
    pub duplicate: bool,
    /// Packets of the current qdisc that its kind's own queue does not hold.
    ahead: Load,
    /// A lookahead hint for the current packet. It may come from another kind of qdisc and must be
    /// checked before use.
    pub hint: u32,
    /// Wakeup times and copies of all qdiscs of the tree.
    wakes: Wakes,
}

/// Counts and requests of a qdisc during one call.
#[derive(Debug, Default)]
pub struct Notes {
    /// Times packets had to wait (`qdisc_qstats_overlimit`).
    pub overlimits: u32,
    /// Counted drops without a packet in [`Drops`]; negative for packets there that are not counted.
    pub extra_drops: i32,
    /// Packets dropped by a queue below that the qdisc does not count itself.
    pub uncounted: u32,
    /// Packets put in front of others (`qstats.requeues`).
    pub requeues: u32,
    /// Time of its next wakeup (`qdisc_watchdog_schedule_ns`).
    wake: Option<u64>,
}

impl<'a, 'b, 'g> QueueCx<'a, 'b, 'g> {
    /// Makes the context for one visit to a tree of qdiscs.
    pub fn new(cx: &'a mut Context<'b, 'g>, drops: &'a mut Drops) -> Self {
        Self {
            cx,
            drops,
            notes: Notes::default(),
            noted: false,
            duplicate: false,
            ahead: Load::default(),
            hint: NO_HINT,
            wakes: Wakes::default(),
        }
    }

    /// Returns the time of the stack's clock, in ns.
    #[inline]
    pub fn now(&self) -> u64 {
        self.cx.now
    }

    /// Returns the load of the current qdisc as limits count it (`sch->q.qlen`, `qstats.backlog`):
    /// the kind's `own` queue, plus packets that were peeked or returned by the device.
    #[inline]
    pub fn waiting(&self, own: Load) -> Load {
        let mut all = own;
        all.moved(Load::default(), self.ahead);
        all
    }

    /// Removes the wakeups that are due.
    fn pass_wakes(&mut self) {
        self.wakes.pass(self.cx.now);
    }

    /// Returns 32 uniform random bits from the device's generator.
    #[inline]
    pub fn random(&mut self) -> u32 {
        (self.cx.random)()
    }

    /// Sets the next wakeup of the qdisc to `time`. Replaces an earlier request.
    #[inline]
    pub fn watchdog(&mut self, time: u64) {
        self.note().wake = Some(time);
    }

    /// Returns the counts of the current qdisc, to add to them.
    #[inline]
    pub fn note(&mut self) -> &mut Notes {
        self.noted = true;
        &mut self.notes
    }

    /// Takes the counts and requests, if there are any.
    #[inline]
    fn take_notes(&mut self) -> Option<Notes> {
        let noted = std::mem::take(&mut self.noted);
        noted.then(|| std::mem::take(&mut self.notes))
    }

    /// Queues a copy of a packet to be enqueued at the root of the tree.
    pub fn enqueue_copy(&mut self, packet: Packet) {
        self.wakes.copies.push(packet);
    }

    /// Returns the next copy to be enqueued at the root.
    fn next_copy(&mut self) -> Option<Packet> {
        let copy = self.wakes.copies.pop();
        self.duplicate = copy.is_some();
        copy
    }

    /// Splits a long packet into its segments. Returns the packet if that is impossible. See
    /// [`Context::segments`].
    pub fn segments(&mut self, packet: Packet) -> Result<Vec<Packet>, Packet> {
        self.cx.segments(packet)
    }

    /// Enqueues the segments of a long packet one by one with `enqueue`, and counts those that are dropped
    /// (`tbf_segment`).
    pub fn enqueue_segments(
        &mut self,
        packet: Packet,
        mut enqueue: impl FnMut(&mut Self, Packet) -> Enqueued,
    ) -> Enqueued {
        let mut segments = match self.segments(packet) {
            Ok(segments) => segments,
            Err(packet) => return self.drop(packet, DropReason::QDISC_DROP),
        };
        let mut result = Enqueued::Dropped;
        for segment in segments.drain(..) {
            if matches!(
                enqueue(self, segment),
                Enqueued::Queued | Enqueued::Congested
            ) {
                result = Enqueued::Queued;
            }
        }
        self.cx.keep_list(segments);
        result
    }

    /// Drops a packet.
    #[inline]
    pub fn drop(&mut self, packet: Packet, reason: DropReason) -> Enqueued {
        self.drops.push((packet, reason));
        Enqueued::Dropped
    }
}

/// Parses the attributes in `TCA_OPTIONS` as most kinds do. Errors carry no text.
pub fn table<'a>(options: Option<Attr<'a>>, policy: &'static Policy) -> Result<Table<'a>, Error> {
    let Some(options) = options else {
        return Ok(Table::empty());
    };
    let parsed = options.parse(policy, Strictness::Liberal);
    parsed.map_err(|error| Error::new(error.errno))
}

/// Classifies a packet into one of `flows` flows, numbered from 0, of a qdisc with `handle`. The
/// flow is named by the packet's priority if its major number is the handle, else by a filter, or,
/// if there are no filters, by the packet's hash. Returns an error if the packet was consumed or
/// dropped.
pub fn flow_of(
    (block, handle, flows): (&Block, u32, u32),
    q: &mut QueueCx<'_, '_, '_>,
    mut packet: Packet,
) -> Result<(Packet, u32), Enqueued> {
    let number = |class: u32| match class & h::MIN_MASK {
        minor if (1..=flows).contains(&minor) => Some(minor - 1),
        _ => None,
    };
    if packet.priority & h::MAJ_MASK == handle
        && let Some(flow) = number(packet.priority)
    {
        return Ok((packet, flow));
    }
    if block.is_empty(q.cx) {
        let flow = scale(packet_hash(&mut packet), flows);
        return Ok((packet, flow));
    }
    let (packet, class) = classify(block, q, packet)?;
    match class.and_then(number) {
        Some(flow) => Ok((packet, flow)),
        None => Err(q.drop(packet, DropReason::QDISC_DROP)),
    }
}

/// Returns words as the bytes of statistics.
pub fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Returns the memory that a packet takes, in bytes (`skb->truesize`).
#[inline]
pub fn truesize(packet: &Packet) -> u32 {
    packet.capacity() as u32 + 256
}

/// Returns the bytes of a packet as queues count them (`qdisc_pkt_len`): the size that the root stored in
/// the packet's scratch word, or else the packet's length. The root stores the size from its size table, and for
/// a long packet the bytes of all packets on the wire that it stands for.
#[inline]
pub fn pkt_len(packet: &Packet) -> u32 {
    match packet.cb {
        0 => packet.len() as u32,
        len => len,
    }
}

/// Returns the flow hash of a packet, never 0, and caches it in the packet (`skb_get_hash`).
#[inline]
pub fn packet_hash(packet: &mut Packet) -> u32 {
    if packet.hash == 0 {
        packet.hash = five_tuple_hash(packet, 0);
    }
    packet.hash
}

/// Scales a hash to a number below `end` (`reciprocal_scale`).
#[inline]
pub fn scale(hash: u32, end: u32) -> u32 {
    ((u64::from(hash) * u64::from(end)) >> 32) as u32
}

/// The counters of a class.
#[derive(Debug, Default)]
pub struct ClassStats {
    /// Bytes that left.
    pub bytes: u64,
    /// Packets that left.
    pub packets: u64,
    /// Queue length, backlog and drops.
    pub queue: Queue,
    /// The kind's own statistics (`TCA_STATS_APP`).
    pub app: Option<Vec<u8>>,
    /// Whether bytes and packets are neither counted nor shown.
    pub queue_only: bool,
}

impl From<(u64, u64, Queue)> for ClassStats {
    fn from((bytes, packets, queue): (u64, u64, Queue)) -> Self {
        Self {
            bytes,
            packets,
            queue,
            ..Self::default()
        }
    }
}

/// Prefetches all cache lines of a value.
#[inline]
fn prefetch<T: ?Sized>(thing: &T) {
    prefetch_at(std::ptr::from_ref(thing).cast(), size_of_val(thing));
}

/// Prefetches the cache lines of `octets` bytes from an address on. It does not access the memory.
#[inline]
fn prefetch_at(at: *const u8, octets: usize) {
    for line in (0..octets).step_by(64) {
        weir_sync::primitive::prefetch(at.wrapping_add(line));
    }
}

/// The part of a qdisc that is specific to its kind. All methods are called under the node's lock.
pub trait Qdisc: Send {
    /// Enqueues a packet (`enqueue`).
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued;

    /// Dequeues the next packet that may leave (`dequeue`).
    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet>;

    /// Calls [`enqueue`](Self::enqueue) and returns the load before and after it as well: one call
    /// in place of three.
    fn enqueue_with_load(
        &mut self,
        q: &mut QueueCx<'_, '_, '_>,
        packet: Packet,
    ) -> (Enqueued, Load, Load) {
        let before = self.load();
        let result = self.enqueue(q, packet);
        (result, before, self.load())
    }

    /// Calls [`dequeue`](Self::dequeue) and returns the load before and after it as well.
    fn dequeue_with_load(&mut self, q: &mut QueueCx<'_, '_, '_>) -> (Option<Packet>, Load, Load) {
        let before = self.load();
        let packet = self.dequeue(q);
        (packet, before, self.load())
    }

    /// Enqueues a batch of packets at a root.
    fn enqueue_all(&mut self, q: &mut QueueCx<'_, '_, '_>, arrivals: &mut Arrivals<'_, '_>) {
        while let Some(packet) = arrivals.next(q) {
            self.enqueue(q, packet);
        }
    }

    /// Dequeues packets from a root, in order. Returns true if `out` wants no more, false if no
    /// packet may leave.
    fn dequeue_all(&mut self, q: &mut QueueCx<'_, '_, '_>, out: &mut Departures<'_>) -> bool {
        while let Some(packet) = self.dequeue(q) {
            if !out.take(packet) {
                return true;
            }
        }
        false
    }

    /// Peeks at the packet that [`dequeue`](Self::dequeue) would return (`peek`).
    fn peek(&mut self, _q: &mut QueueCx<'_, '_, '_>) -> Peek {
        Peek::Dequeue
    }

    /// Returns the number of [`prefetch`](Self::prefetch) steps. It is above zero if the packets of
    /// a batch may touch state in many places, so that prefetching pays.
    fn looks_ahead(&self) -> u32 {
        0
    }

    /// Prefetches the state that a packet about to be enqueued will use.
    ///
    /// The caller runs each step for all packets of a batch before the next step, so a step may use
    /// the lines that the step before prefetched. `hint` is the return value of the step before
    /// ([`NO_HINT`] at first). The return value of the last step becomes the packet's
    /// [`QueueCx::hint`].
    fn prefetch(&self, _packet: &Packet, _step: u32, hint: u32) -> u32 {
        hint
    }

    /// Returns the load, including that of children.
    fn load(&self) -> Load;

    /// Removes all waiting packets (`reset`).
    fn reset(&mut self, out: &mut Drops);

    /// Changes the options. Objects no longer needed go to `gone`.
    fn change(&mut self, _create: &Create<'_>, _gone: &mut Gone) -> Result<(), Error> {
        Err(Error::new(EOPNOTSUPP))
    }

    /// Applies a changed limit of the parent (`fifo_set_limit`).
    fn set_limit(&mut self, _limit: u32) {}

    /// Returns whether it duplicates packets, if it is a `netem`.
    fn duplicates(&self) -> Option<bool> {
        None
    }

    /// Updates state that changes with time before it is shown.
    fn settle(&mut self, _now: u64) {}

    /// Writes `TCA_OPTIONS`.
    fn dump(&self, _w: &mut Writer) {}

    /// Returns the kind's own statistics (`TCA_STATS_APP`).
    fn app_stats(&self) -> Option<Vec<u8>> {
        None
    }

    /// Returns the indices of the shared blocks at ingress and egress, 0 for none.
    fn shared_blocks(&self) -> (u32, u32) {
        (0, 0)
    }

    /// Returns the blocks that the ingress and the egress hook of a device run.
    fn hooks(&self) -> (Option<Arc<Block>>, Option<Arc<Block>>) {
        (None, None)
    }

    /// Returns the slot of the qdisc under a class. A kind with only one class, `:1`, which matches
    /// any id, returns its slot for class 0 too. The default methods for classes use this method.
    fn slot(&self, _class: u32) -> Option<&Leaf> {
        None
    }

    /// Returns the slot of a class and the total load below. Returns `None` for a class that
    /// holds classes.
    fn slot_mut(&mut self, _class: u32) -> Option<(&mut Leaf, &mut Load)> {
        None
    }

    /// Deactivates a class below which nothing waits any more (`qlen_notify`).
    fn became_empty(&mut self, _class: u32) {}

    /// Returns the number of the class with an id, or 0 (`find`).
    fn find(&self, classid: u32) -> u32 {
        match classid & h::MIN_MASK {
            _ if self.slot(0).is_some() => 1,
            class if self.slot(class).is_some() => class,
            _ => 0,
        }
    }

    /// Returns the qdisc under a class (`leaf`).
    fn leaf(&self, class: u32) -> Option<Arc<Node>> {
        self.slot(class)?.node()
    }

    /// Returns whether a class has no qdisc and drops all its packets (`noop_qdisc`).
    fn is_empty(&self, class: u32) -> bool {
        self.slot(class).is_some_and(|leaf| leaf.node().is_none())
    }

    /// Returns all qdiscs below it.
    fn children(&self) -> Vec<Arc<Node>> {
        let classes = self.classes().into_iter();
        classes
            .filter_map(|class| self.slot(class)?.node())
            .collect()
    }

    /// Replaces the qdisc under a class and returns the old one. The packets of the old one go to
    /// `gone` (`graft`).
    fn graft(
        &mut self,
        class: u32,
        new: Option<Arc<Node>>,
        _create: &Create<'_>,
        gone: &mut Gone,
    ) -> Result<Option<Arc<Node>>, Error> {
        let (leaf, total) = self.slot_mut(class).ok_or(Error::new(EINVAL))?;
        let old = leaf.replace(Leaf::new(new), total, gone);
        self.became_empty(class);
        Ok(old)
    }

    /// Applies a change that a request made to the load below a class
    /// (`qdisc_tree_reduce_backlog`).
    fn child_changed(&mut self, class: u32, before: Load, after: Load) {
        if let Some((_, total)) = self.slot_mut(class) {
            total.moved(before, after);
            if after.len == 0 {
                self.became_empty(class);
            }
        }
    }

    /// Returns the block of all its filters, if it has just one.
    fn filters(&self) -> Option<&Arc<Block>> {
        None
    }

    /// Returns the block of a class, or of the qdisc for class 0 (`tcf_block`).
    fn block(&self, class: u32) -> Option<Arc<Block>> {
        self.filters().filter(|_| class == 0).cloned()
    }

    /// Returns the text for a class that has no block.
    fn no_block(&self) -> Option<&'static str> {
        None
    }

    /// Returns the classes that are the device's transmit queues, in the order of the queues.
    fn queues(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Returns the traffic classes of the device with their transmit queues, if the kind sets them
    /// (`netdev_set_num_tc`).
    fn traffic_classes(&self) -> Option<&TrafficClasses> {
        None
    }

    /// Returns the counters (bytes, packets, queue) of a kind that sums those of its children.
    fn summed(&self) -> Option<(u64, u64, Queue)> {
        None
    }

    /// Returns all classes, in order (`walk`).
    fn classes(&self) -> Vec<u32> {
        match self.slot(0) {
            Some(_) => vec![1],
            None => (1..)
                .take_while(|&class| self.slot(class).is_some())
                .collect(),
        }
    }

    /// Makes or changes a class (`change`).
    fn change_class(
        &mut self,
        _class: u32,
        (_classid, _parent): (u32, u32),
        _tca: &Table<'_>,
        _create: &Create<'_>,
        _gone: &mut Gone,
    ) -> Result<u32, Error> {
        Err(Error::new(EOPNOTSUPP))
    }

    /// Deletes a class (`delete`). `in_use` says that a filter names it.
    fn delete_class(
        &mut self,
        _class: u32,
        _in_use: bool,
        _create: &Create<'_>,
        _gone: &mut Gone,
    ) -> Result<(), Error> {
        Err(Error::new(EOPNOTSUPP))
    }

    /// Writes a class (`dump`): handle, parent and info if they differ from those of the qdisc. The
    /// options go to `w`.
    fn dump_class(&self, class: u32, tcm: &mut TcMsg, _w: &mut Writer) {
        if let Some(leaf) = self.slot(class) {
            tcm.handle |= class;
            tcm.info = leaf.handle();
        }
    }

    /// Returns the statistics of a class (`dump_stats`).
    fn class_stats(&self, _class: u32) -> Option<ClassStats> {
        None
    }

    /// Returns the blocks it owns, to be released. No packet arrives after this call (`destroy`).
    fn destroy(&mut self) -> Vec<Arc<Block>> {
        self.filters().into_iter().cloned().collect()
    }
}

/// Runs the filters of a classful qdisc on a packet. Returns the packet with the class that a
/// filter named, or with `None` if no filter matched. Returns an error if the filters consumed or
/// dropped the packet.
#[inline]
pub fn classify(
    block: &Block,
    q: &mut QueueCx<'_, '_, '_>,
    packet: Packet,
) -> Result<(Packet, Option<u32>), Enqueued> {
    if block.is_empty(q.cx) {
        return Ok((packet, None));
    }
    let (packet, found) = filter(block, q, packet, false)?;
    Ok((packet, found.map(|(_, class)| class)))
}

/// Does the same as [`classify`], but returns the final code as well, which may be
/// [`code::RECLASSIFY`] (`tcf_classify` in its compatible mode).
fn classify_without_restart(
    block: &Block,
    q: &mut QueueCx<'_, '_, '_>,
    packet: Packet,
) -> Result<(Packet, Option<(Code, u32)>), Enqueued> {
    filter(block, q, packet, true)
}

fn filter(
    block: &Block,
    q: &mut QueueCx<'_, '_, '_>,
    mut packet: Packet,
    compat: bool,
) -> Result<(Packet, Option<(Code, u32)>), Enqueued> {
    let (code, out) = {
        let mut cx = q.cx.reborrow();
        cx.start_packet(cx.skb_len(&packet), &packet);
        let mut out = Outcome {
            compat,
            ..Outcome::default()
        };
        let code = block.classify(&mut cx, &mut packet, &mut out);
        let reassembled = cx.reassembled;
        (code, (out.classid, out.target, out.reason, reassembled))
    };
    let (classid, target, reason, reassembled) = out;
    match code {
        code::STOLEN | code::QUEUED | code::TRAP => Err(Enqueued::Stolen),
        code::CONSUMED => {
            if let Some(target) = target {
                q.cx.copies.push(Copy {
                    packet,
                    target,
                    itself: true,
                    reassembled,
                });
            }
            Err(Enqueued::Stolen)
        }
        code::SHOT => {
            q.drops
                .push((packet, reason.unwrap_or(DropReason::QDISC_DROP)));
            Err(Enqueued::Dropped)
        }
        code if code < 0 => Ok((packet, None)),
        code => Ok((packet, Some((code, classid)))),
    }
}
