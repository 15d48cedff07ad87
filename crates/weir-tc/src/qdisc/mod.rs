// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queueing disciplines: what waits in front of a device, in which order, and what is dropped.
//!
//! Mirrors `struct Qdisc` and `struct Qdisc_ops` (net/sched/sch_api.c, sch_generic.c). A kind is one
//! file with a [`Qdisc`] and one line in [`KINDS`]. A [`Node`] is a qdisc in a device's tree: the part
//! all kinds share around the kind's own.
//!
//! A node's lock guards its queue and statistics; a packet takes the root's lock and, under it, those
//! of the children it goes through, parent before child. A batch takes the root's lock once.

mod bands;
mod bits;
pub mod blackhole;
pub mod cake;
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
use weir_packet::dissect::{FlowKeys, Used, dissect, flow_hash};
use weir_packet::{DropReason, Packet};

pub use self::node::{Gone, Inner, Leaf, Node, Open, Wakes};
pub use self::run::{Arrivals, Departures, Taker};
use crate::block::Block;
use crate::context::{Context, Copy};
use crate::counters::Queue;
use crate::env::Env;
use crate::host::Device;
use crate::txq::TrafficClasses;
use crate::verdict::{Outcome, code};

/// The qdisc kinds, each with its file.
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

/// The line of a kind in [`KINDS`].
pub struct Ops {
    /// Name.
    pub kind: &'static str,
    /// Makes a qdisc from its options.
    pub create: fn(&Create<'_>) -> Result<Box<dyn Qdisc>, Error>,
    /// Options may be changed later.
    pub can_change: bool,
    /// It has classes (`cl_ops`).
    pub classful: bool,
    /// A class whose qdisc is taken away gets a pfifo.
    pub refills: bool,
    /// Its classes, or itself, take filters (`tcf_block`).
    pub filters: bool,
    /// Each of its classes that [`Qdisc::queues`] names is a transmit queue of the device, with a root of its
    /// own (`TCQ_F_MQROOT`).
    pub queues: bool,
    /// It shows itself as the qdisc under each of its classes.
    pub own_leaves: bool,
    /// It enters the transmit queues itself when it has been announced (`attach`).
    pub attach: bool,
    /// Its own statistics are attributes, which old clients are not shown (`TCA_XSTATS`).
    pub nested_stats: bool,
    /// Its classes can have rate estimators (`TCA_RATE`): what is said of wrong ones, if anything.
    pub class_rates: Option<&'static str>,
    /// It stands at the ingress place of a device (`TCQ_F_INGRESS`).
    pub ingress: bool,
    /// Its ingress and egress blocks can be shared.
    pub shares: (bool, bool),
}

impl Ops {
    /// A kind without classes and filters.
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

/// The kind with a name (`qdisc_lookup_ops`).
pub fn find_ops(kind: &[u8]) -> Option<&'static Ops> {
    KINDS.iter().find(|ops| ops.kind.as_bytes() == kind)
}

/// The circumstances in which a qdisc is made or changed.
pub struct Create<'a> {
    /// The surroundings.
    pub env: &'a Env<'a>,
    /// The device.
    pub device: &'a Arc<dyn Device>,
    /// The qdisc's own handle.
    pub handle: u32,
    /// Class it is put under, `TC_H_ROOT` or `TC_H_INGRESS`.
    pub parent: u32,
    /// `TCA_OPTIONS`
    pub options: Option<Attr<'a>>,
    /// Index of the shared block at ingress, 0 none.
    pub ingress_block: u32,
    /// Index of the shared block at egress, 0 none.
    pub egress_block: u32,
    /// Whether there is another `netem` in the tree, and one of them duplicates.
    pub other_netem: Option<bool>,
}

impl Create<'_> {
    /// A block for the filters of the qdisc or of one of its classes.
    pub fn block(&self) -> Arc<Block> {
        ingress::block(self, 0)
    }

    /// `qdisc_create_dflt` with `pfifo`: the queue a class begins with.
    pub fn pfifo(&self, classid: u32) -> Leaf {
        let queue = fifo::pfifo(self.device.tx_queue_len());
        self.leaf(&fifo::PFIFO, queue, classid)
    }

    /// `fifo_create_dflt` with `pfifo`: a queue with a limit.
    pub fn pfifo_of(&self, limit: u32, classid: u32) -> Leaf {
        self.leaf(&fifo::PFIFO, fifo::pfifo(limit), classid)
    }

    /// [`pfifo`](Self::pfifo), shown without being asked for; under the qdisc itself for class 0.
    pub fn shown_pfifo(&self, classid: u32) -> Leaf {
        let queue = fifo::pfifo(self.device.tx_queue_len());
        let parent = self.handle | (classid & h::MIN_MASK);
        let node = Node::new(&fifo::PFIFO, queue, 0, parent, false);
        self.number(&node);
        Leaf::new(Some(node))
    }

    /// `fifo_create_dflt` with `bfifo`, for the only class of a qdisc.
    pub fn bfifo(&self, limit: u32) -> Leaf {
        self.leaf(&fifo::BFIFO, fifo::bfifo(limit), 1)
    }

    /// `qdisc_create_dflt` with the default kind: what a transmit queue of the device begins with.
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

    /// Gives a new qdisc its number.
    pub fn number(&self, node: &Node) {
        node.seq.store(self.env.net.node_number(), Relaxed);
    }

    /// The time, ns of the stack's clock.
    pub fn now(&self) -> u64 {
        self.env.host.now()
    }

    /// Octets of the device's largest frame (`psched_mtu`).
    pub fn psched_mtu(&self) -> u32 {
        self.device.mtu().wrapping_add(self.device.header_len())
    }
}

/// How a qdisc takes a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enqueued {
    /// It waits now.
    Queued,
    /// It was dropped; see [`Drops`].
    Dropped,
    /// It waits, but another one was dropped (`NET_XMIT_CN`).
    Congested,
    /// It was stolen by an action, or sent elsewhere (`__NET_XMIT_STOLEN`).
    Stolen,
}

/// Packets a qdisc dropped, with why. The caller frees and counts them outside the lock.
pub type Drops = Vec<(Packet, DropReason)>;

/// What waits. Written and read as one word: a read of both that follows a write of each waits for both.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Packets.
    pub len: u32,
    /// Octets.
    pub backlog: u32,
}

impl Load {
    /// Sums and differences of words are those of both, as no more packets go than have come.
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

    /// A packet came.
    #[inline]
    pub fn add(&mut self, octets: u32) {
        self.moved(Self::default(), Self::of_packet(octets));
    }

    /// A packet went.
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

    /// What a part of it holds has changed.
    #[inline]
    pub fn moved(&mut self, before: Load, after: Load) {
        let change = after.word().wrapping_sub(before.word());
        *self = Self::of_word(self.word().wrapping_add(change));
    }
}

/// What is seen of the packet that would leave next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Front {
    /// Octets, as queues count them.
    pub len: u32,
    /// Its priority.
    pub priority: u32,
}

impl Front {
    /// Of a packet.
    #[inline]
    pub fn of(packet: &Packet) -> Self {
        Self {
            len: pkt_len(packet),
            priority: packet.priority,
        }
    }
}

/// What a look at the next packet finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peek {
    /// It; none waits, or none may leave.
    Next(Option<Front>),
    /// The kind cannot look: the packet is taken out and kept in front (`qdisc_peek_dequeued`).
    Dequeue,
}

/// No guess.
pub const NO_HINT: u32 = u32::MAX;

/// What a qdisc may use while it takes or gives a packet.
pub struct QueueCx<'a, 'b, 'g> {
    /// Time, randomness, guard; for filters as well.
    pub cx: &'a mut Context<'b, 'g>,
    /// Where dropped packets go.
    pub drops: &'a mut Drops,
    /// What the qdisc at work has counted and asked for.
    notes: Notes,
    /// Whether there is any of it: most packets leave none.
    noted: bool,
    /// The packet at hand is a copy that netem made.
    pub duplicate: bool,
    /// What the qdisc at work, given a packet, has waiting beside its kind's own part.
    ahead: Load,
    /// A guess at what the packet at hand will meet, of whatever kind of qdisc: to be checked before it is used.
    pub hint: u32,
    /// The same of all qdiscs of the tree.
    wakes: Wakes,
}

/// What a qdisc at work counts and asks for.
#[derive(Debug, Default)]
pub struct Notes {
    /// `qdisc_qstats_overlimit`
    pub overlimits: u32,
    /// Drops without a packet to show, or, negative, packets that left without being dropped.
    pub extra_drops: i32,
    /// Packets a queue below it has dropped, which it does not count itself.
    pub uncounted: u32,
    /// Packets put in front of others (`qstats.requeues`).
    pub requeues: u32,
    /// When it wants to be asked again (`qdisc_watchdog_schedule_ns`).
    wake: Option<u64>,
}

impl<'a, 'b, 'g> QueueCx<'a, 'b, 'g> {
    /// For one visit to a tree of qdiscs.
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

    /// Nanoseconds of the stack's clock.
    #[inline]
    pub fn now(&self) -> u64 {
        self.cx.now
    }

    /// What waits in the qdisc that is given a packet, as limits count it (`sch->q.qlen`, `qstats.backlog`):
    /// its kind's `own` part, and what was taken out of that to be looked at or was given back by the device.
    #[inline]
    pub fn waiting(&self, own: Load) -> Load {
        let mut all = own;
        all.moved(Load::default(), self.ahead);
        all
    }

    /// What is due has come.
    fn pass_wakes(&mut self) {
        self.wakes.pass(self.cx.now);
    }

    /// Uniform 32 bits of the device's generator.
    #[inline]
    pub fn random(&mut self) -> u32 {
        (self.cx.random)()
    }

    /// The qdisc wants to be asked for packets again at `time`, in place of the time it named before.
    #[inline]
    pub fn watchdog(&mut self, time: u64) {
        self.note().wake = Some(time);
    }

    /// What the qdisc at work has counted, to be added to.
    #[inline]
    pub fn note(&mut self) -> &mut Notes {
        self.noted = true;
        &mut self.notes
    }

    /// Takes what has been noted.
    #[inline]
    fn take_notes(&mut self) -> Option<Notes> {
        let noted = std::mem::take(&mut self.noted);
        noted.then(|| std::mem::take(&mut self.notes))
    }

    /// A copy of a packet is to be enqueued at the root of the tree.
    pub fn again(&mut self, packet: Packet) {
        self.wakes.again.push(packet);
    }

    /// The next copy to be enqueued at the root.
    fn next_copy(&mut self) -> Option<Packet> {
        let copy = self.wakes.again.pop();
        self.duplicate = copy.is_some();
        copy
    }

    /// Drops a packet.
    #[inline]
    pub fn drop(&mut self, packet: Packet, reason: DropReason) -> Enqueued {
        self.drops.push((packet, reason));
        Enqueued::Dropped
    }
}

/// The attributes in `TCA_OPTIONS`, as most kinds parse them: without a sentence when they are wrong.
pub fn table<'a>(options: Option<Attr<'a>>, policy: &'static Policy) -> Result<Table<'a>, Error> {
    let Some(options) = options else {
        return Ok(Table::empty());
    };
    let parsed = options.parse(policy, Strictness::Liberal);
    parsed.map_err(|error| Error::new(error.errno))
}

/// The packet's flow among `flows`, numbered from 0, of a qdisc with `handle`: its priority if that has the
/// handle, the class a filter names, or without filters its hash; or how it ended.
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

/// Words as the bytes of statistics.
pub fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// `skb->truesize`: memory a packet takes.
#[inline]
pub fn truesize(packet: &Packet) -> u32 {
    packet.capacity() as u32 + 256
}

/// Octets of a packet as queues count them (`qdisc_pkt_len`): its length, unless the root qdisc has a
/// size table and has written into its scratch word what it counts for.
#[inline]
pub fn pkt_len(packet: &Packet) -> u32 {
    match packet.cb {
        0 => packet.len() as u32,
        len => len,
    }
}

/// The flow hash of a packet (`skb_get_hash`), kept in it; never 0.
#[inline]
pub fn packet_hash(packet: &mut Packet) -> u32 {
    if packet.hash == 0 {
        let mut keys = FlowKeys::EMPTY;
        dissect(packet, Used::FIVE_TUPLE, &mut keys);
        packet.hash = flow_hash(&keys, 0);
    }
    packet.hash
}

/// `reciprocal_scale`: a hash to a number below `end`.
#[inline]
pub fn scale(hash: u32, end: u32) -> u32 {
    ((u64::from(hash) * u64::from(end)) >> 32) as u32
}

/// What a class has counted.
#[derive(Debug, Default)]
pub struct ClassStats {
    /// Octets that left.
    pub bytes: u64,
    /// Packets that left.
    pub packets: u64,
    /// Queue and drops.
    pub queue: Queue,
    /// The kind's own statistics (`TCA_STATS_APP`).
    pub app: Option<Vec<u8>>,
    /// Octets and packets are not counted and not shown.
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

/// Brings all cache lines of a thing nearer.
#[inline]
fn prefetch<T: ?Sized>(thing: &T) {
    prefetch_at(std::ptr::from_ref(thing).cast(), size_of_val(thing));
}

/// Brings the cache lines of `octets` from an address on nearer; a hint, that looks at nothing.
#[inline]
fn prefetch_at(at: *const u8, octets: usize) {
    for line in (0..octets).step_by(64) {
        weir_sync::primitive::prefetch(at.wrapping_add(line));
    }
}

/// The kind's own part of a qdisc. All is called under the node's lock.
pub trait Qdisc: Send {
    /// Takes a packet (`enqueue`).
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued;

    /// Gives the next packet that may leave (`dequeue`).
    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet>;

    /// [`enqueue`](Self::enqueue), and what waits before and after it: one call in place of three.
    fn enqueue_with_load(
        &mut self,
        q: &mut QueueCx<'_, '_, '_>,
        packet: Packet,
    ) -> (Enqueued, Load, Load) {
        let before = self.load();
        let how = self.enqueue(q, packet);
        (how, before, self.load())
    }

    /// The same of [`dequeue`](Self::dequeue).
    fn dequeue_with_load(&mut self, q: &mut QueueCx<'_, '_, '_>) -> (Option<Packet>, Load, Load) {
        let before = self.load();
        let packet = self.dequeue(q);
        (packet, before, self.load())
    }

    /// Of a root: takes packets that come together.
    fn enqueue_all(&mut self, q: &mut QueueCx<'_, '_, '_>, come: &mut Arrivals<'_, '_>) {
        while let Some(packet) = come.next(q) {
            self.enqueue(q, packet);
        }
    }

    /// Of a root: gives what may leave, in order, until no more is wanted (true) or none may leave.
    fn dequeue_all(&mut self, q: &mut QueueCx<'_, '_, '_>, out: &mut Departures<'_>) -> bool {
        while let Some(packet) = self.dequeue(q) {
            if !out.take(packet) {
                return true;
            }
        }
        false
    }

    /// Looks at the packet [`dequeue`](Self::dequeue) would give (`peek`).
    fn peek(&mut self, _q: &mut QueueCx<'_, '_, '_>) -> Peek {
        Peek::Dequeue
    }

    /// Steps of [`prefetch`](Self::prefetch): more than none where packets of one batch may meet state in many
    /// places, so that it is worth its while.
    fn looks_ahead(&self) -> u32 {
        0
    }

    /// Brings nearer what a packet that comes soon will meet. A hint, given to all packets at hand for one
    /// step after the other; each step may look at what the one before has brought, and gets the number it has
    /// answered ([`NO_HINT`] at first). That of the last one is the packet's [`QueueCx::hint`].
    fn prefetch(&self, _packet: &Packet, _step: u32, hint: u32) -> u32 {
        hint
    }

    /// What waits, children's included.
    fn load(&self) -> Load;

    /// Takes out all that waits (`reset`).
    fn reset(&mut self, out: &mut Drops);

    /// Changes the options. What is no longer needed goes to `gone`.
    fn change(&mut self, _create: &Create<'_>, _gone: &mut Gone) -> Result<(), Error> {
        Err(Error::new(EOPNOTSUPP))
    }

    /// The parent's limit has changed (`fifo_set_limit`).
    fn set_limit(&mut self, _limit: u32) {}

    /// Of `netem`: whether it duplicates packets.
    fn duplicates(&self) -> Option<bool> {
        None
    }

    /// Brings what passes with time up to date, before it is shown.
    fn settle(&mut self, _now: u64) {}

    /// Writes `TCA_OPTIONS`.
    fn dump(&self, _w: &mut Writer) {}

    /// The kind's own statistics (`TCA_STATS_APP`).
    fn app_stats(&self) -> Option<Vec<u8>> {
        None
    }

    /// Index of the shared block at ingress and egress, 0 none.
    fn shared_blocks(&self) -> (u32, u32) {
        (0, 0)
    }

    /// The block a device's ingress hook, and its egress hook, walks.
    fn hooks(&self) -> (Option<Arc<Block>>, Option<Arc<Block>>) {
        (None, None)
    }

    /// The place of the qdisc under a class. A kind with just one class, `:1`, which goes by whatever id,
    /// answers for class 0 too. The methods of classes are by this, where a kind has no own.
    fn slot(&self, _class: u32) -> Option<&Leaf> {
        None
    }

    /// The same, with the sum of what waits below; none under classes that hold classes.
    fn slot_mut(&mut self, _class: u32) -> Option<(&mut Leaf, &mut Load)> {
        None
    }

    /// Nothing waits below a class any more (`qlen_notify`).
    fn rest(&mut self, _class: u32) {}

    /// Finds a class by its id (`find`); 0 is none.
    fn find(&self, classid: u32) -> u32 {
        match classid & h::MIN_MASK {
            _ if self.slot(0).is_some() => 1,
            class if self.slot(class).is_some() => class,
            _ => 0,
        }
    }

    /// The qdisc under a class (`leaf`).
    fn leaf(&self, class: u32) -> Option<Arc<Node>> {
        self.slot(class)?.node()
    }

    /// Whether nothing is under a class, which drops all (`noop_qdisc`).
    fn is_empty(&self, class: u32) -> bool {
        self.slot(class).is_some_and(|leaf| leaf.node().is_none())
    }

    /// All qdiscs below it.
    fn children(&self) -> Vec<Arc<Node>> {
        let classes = self.classes().into_iter();
        classes
            .filter_map(|class| self.slot(class)?.node())
            .collect()
    }

    /// Puts another qdisc under a class; the old one goes to `gone`, emptied (`graft`).
    fn graft(
        &mut self,
        class: u32,
        new: Option<Arc<Node>>,
        _create: &Create<'_>,
        gone: &mut Gone,
    ) -> Result<Option<Arc<Node>>, Error> {
        let (leaf, total) = self.slot_mut(class).ok_or(Error::new(EINVAL))?;
        let old = leaf.replace(Leaf::new(new), total, gone);
        self.rest(class);
        Ok(old)
    }

    /// A request has changed what waits below a class (`qdisc_tree_reduce_backlog`).
    fn child_changed(&mut self, class: u32, before: Load, after: Load) {
        if let Some((_, total)) = self.slot_mut(class) {
            total.moved(before, after);
            if after.len == 0 {
                self.rest(class);
            }
        }
    }

    /// The block of all its filters, where it has one.
    fn filters(&self) -> Option<&Arc<Block>> {
        None
    }

    /// The block of a class, or, for 0, of the qdisc (`tcf_block`).
    fn block(&self, class: u32) -> Option<Arc<Block>> {
        self.filters().filter(|_| class == 0).cloned()
    }

    /// Why a class has no block.
    fn no_block(&self) -> Option<&'static str> {
        None
    }

    /// The classes that are the device's transmit queues, in the queues' order.
    fn queues(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Which transmit queues each traffic class of the device has, if it says (`netdev_set_num_tc`).
    fn traffic_classes(&self) -> Option<&TrafficClasses> {
        None
    }

    /// Counters that are not kept here: octets, packets, queue.
    fn summed(&self) -> Option<(u64, u64, Queue)> {
        None
    }

    /// All classes, in order (`walk`).
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

    /// Deletes a class (`delete`). `in_use`: a filter names it.
    fn delete_class(
        &mut self,
        _class: u32,
        _in_use: bool,
        _create: &Create<'_>,
        _gone: &mut Gone,
    ) -> Result<(), Error> {
        Err(Error::new(EOPNOTSUPP))
    }

    /// Writes a class: handle, parent and info where they differ from the qdisc's own; options go to
    /// `w` (`dump`).
    fn dump_class(&self, class: u32, tcm: &mut TcMsg, _w: &mut Writer) {
        if let Some(leaf) = self.slot(class) {
            tcm.handle |= class;
            tcm.info = leaf.handle();
        }
    }

    /// Statistics of a class (`dump_stats`).
    fn class_stats(&self, _class: u32) -> Option<ClassStats> {
        None
    }

    /// The blocks it owns, to be let go of: no packet comes any more (`destroy`).
    fn destroy(&mut self) -> Vec<Arc<Block>> {
        self.filters().into_iter().cloned().collect()
    }
}

/// Walks a packet over the filters of a classful qdisc: the packet, and the class a filter named (none:
/// no filter matched); or how the filters ended it.
#[inline]
pub fn classify(
    block: &Block,
    q: &mut QueueCx<'_, '_, '_>,
    packet: Packet,
) -> Result<(Packet, Option<u32>), Enqueued> {
    if block.is_empty(q.cx) {
        return Ok((packet, None));
    }
    filter(block, q, packet)
}

fn filter(
    block: &Block,
    q: &mut QueueCx<'_, '_, '_>,
    mut packet: Packet,
) -> Result<(Packet, Option<u32>), Enqueued> {
    let (code, out) = {
        let mut cx = q.cx.reborrow();
        cx.packet_comes(cx.skb_len(&packet));
        let mut out = Outcome::default();
        let code = block.classify(&mut cx, &mut packet, &mut out);
        (code, (out.classid, out.target, out.reason))
    };
    let (classid, target, reason) = out;
    match code {
        code::STOLEN | code::QUEUED | code::TRAP => Err(Enqueued::Stolen),
        code::CONSUMED => {
            if let Some(target) = target {
                q.cx.copies.push(Copy {
                    packet,
                    target,
                    itself: true,
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
        _ => Ok((packet, Some(classid))),
    }
}
