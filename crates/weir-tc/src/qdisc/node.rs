// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A qdisc in a device's tree: the state common to all kinds, around the [`Qdisc`] of its kind.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use weir_packet::{Batch, DropReason, Packet};
use weir_sync::combine::Combiner;
use weir_sync::list::Taken;
use weir_sync::order;
use weir_sync::primitive::CachePadded;
use weir_sync::spin::{LockStats, SpinGuard, SpinLock};

use super::stab::SizeTable;
use super::{
    Arrivals, Departures, Drops, Enqueued, Front, Load, NO_HINT, Notes, Ops, Peek, Qdisc, QueueCx,
    Taker, pkt_len, prefetch, prefetch_at,
};
use crate::block::Block;
use crate::counters::{Counters, Queue};
use crate::env::Env;
use crate::estimator::{ClassRates, Estimator};

/// Requests of the qdiscs of a tree: their wakeup times, ascending, one per qdisc that waits, and
/// packets to enqueue again.
#[derive(Debug, Default)]
pub struct Wakes {
    times: Vec<u64>,
    /// Copies to be enqueued at the root.
    pub(super) copies: Vec<Packet>,
}

impl Wakes {
    /// Replaces the wakeup time of one qdisc.
    fn replace(&mut self, old: Option<u64>, new: u64) {
        if let Some(at) = old.and_then(|old| self.times.binary_search(&old).ok()) {
            self.times.remove(at);
        }
        let at = self.times.partition_point(|&time| time < new);
        self.times.insert(at, new);
    }

    /// Removes the times that are due.
    pub(super) fn pass(&mut self, now: u64) {
        let due = self.times.partition_point(|&time| time <= now);
        self.times.drain(..due);
    }
}

/// Objects that a request leaves to be freed, counted and destroyed after it releases the locks.
#[derive(Default)]
pub struct Gone {
    /// Dropped packets.
    pub drops: Drops,
    /// Removed qdiscs.
    pub nodes: Vec<Arc<Node>>,
    /// Blocks of filters.
    pub blocks: Vec<Arc<Block>>,
    /// Whether packets may leave now that could not before.
    pub wake: bool,
    /// A message for a request that succeeded.
    pub warning: Option<&'static str>,
    /// Whether a class had the requested parameters already; then not even its estimator is
    /// changed.
    pub unchanged: bool,
    /// Number of packets that the qdisc itself counts as dropped.
    pub counted: u32,
    /// The peeked packet of the qdisc.
    ahead: Option<Packet>,
    /// Bytes and packets that the qdisc counts as sent although they were dropped.
    sent: (u64, u64),
}

impl Gone {
    /// Drops the peeked packet if, with the `waiting` ones, more than `limit` packets wait after
    /// the limit was lowered (`qdisc_dequeue_internal`). It leaves first. Returns whether it was
    /// dropped.
    pub fn cut(&mut self, waiting: u32, limit: u32) -> bool {
        let cut = self.ahead.take_if(|_| waiting >= limit);
        let packet = cut.map(|packet| (packet, DropReason::QDISC_OVERLIMIT));
        let dropped = packet.is_some();
        self.drops.extend(packet);
        dropped
    }

    /// Drops a packet that was dequeued, and counts it as sent.
    pub fn drop_sent(&mut self, packet: Packet) {
        self.sent.0 += u64::from(pkt_len(&packet));
        self.sent.1 += 1;
        self.drops.push((packet, DropReason::QDISC_OVERLIMIT));
    }

    /// Destroys all objects. Returns the packets that waited, to be freed and counted.
    pub fn finish(mut self, env: &Env<'_>) -> Drops {
        for block in self.blocks {
            block.drop_owner(env);
        }
        for node in self.nodes {
            node.destroy(env, &mut self.drops);
        }
        self.drops
    }
}

/// Packets that left a qdisc and were returned because the device had no room for them.
#[derive(Default)]
struct Returned {
    packets: VecDeque<Packet>,
    load: Load,
}

/// The state guarded by the lock of a node. The fields that every packet uses come first, so that
/// they share two cache lines with the lock.
#[repr(C)]
pub struct Inner {
    /// The part specific to its kind.
    pub qdisc: Box<dyn Qdisc>,
    /// Bytes that left.
    pub bytes: u64,
    /// Packets that left.
    pub packets: u64,
    /// Packets dropped.
    pub drops: u32,
    /// Times packets had to wait.
    pub overlimits: u32,
    /// Packets put back.
    pub requeues: u32,
    /// The peeked packet, next to leave (`gso_skb`).
    peeked: Option<Packet>,
    /// Packets that the device returned to a root, next to leave (also `gso_skb`).
    returned: Option<Box<Returned>>,
    /// The wakeup time it asked for last.
    wake: Option<u64>,
    /// Estimator of the rate at which packets leave.
    pub estimator: Option<Box<Estimator>>,
    /// Estimators of its classes.
    class_rates: Option<Box<ClassRates>>,
    /// Packets taken from the list in front of a root and not enqueued yet.
    pub(super) arrived: Taken<Packet>,
    /// Size table of a root.
    pub stab: Option<Box<SizeTable>>,
    /// Wakeups of the whole tree, in its root.
    wakes: Wakes,
    /// The class it was made under.
    class: u32,
}

/// Bytes from the start of the lock that every packet uses.
const NEAR: usize = 128;
#[cfg(not(loom))]
const _: () = assert!(SpinLock::<Inner>::AHEAD + std::mem::offset_of!(Inner, arrived) <= NEAR);

/// State of an outer visit, kept apart from that of an inner visit.
struct Outer {
    drops: usize,
    notes: Option<Notes>,
}

impl Inner {
    #[inline]
    fn enter(q: &mut QueueCx<'_, '_, '_>) -> Outer {
        Outer {
            drops: q.drops.len(),
            notes: q.take_notes(),
        }
    }

    #[inline]
    fn leave(&mut self, q: &mut QueueCx<'_, '_, '_>, outer: Outer) {
        if q.noted || q.drops.len() != outer.drops || outer.notes.is_some() {
            self.count(q, outer);
        }
    }

    #[cold]
    fn count(&mut self, q: &mut QueueCx<'_, '_, '_>, outer: Outer) {
        let own = q.take_notes().unwrap_or_default();
        let drops = (q.drops.len() - outer.drops) as u32;
        self.drops = self
            .drops
            .wrapping_add(drops)
            .wrapping_sub(own.uncounted)
            .wrapping_add_signed(own.extra_drops);
        self.overlimits = self.overlimits.wrapping_add(own.overlimits);
        self.requeues = self.requeues.wrapping_add(own.requeues);
        if let Some(time) = own.wake.filter(|_| self.wake != own.wake) {
            q.wakes.replace(self.wake, time);
            self.wake = own.wake;
        }
        if outer.notes.is_some() || own.extra_drops != 0 {
            *q.note() = outer.notes.unwrap_or_default();
            q.note().extra_drops += own.extra_drops;
        }
    }

    /// Returns the estimated rate in bytes and packets per second.
    pub(crate) fn rate(&mut self, now: u64) -> Option<(u64, u64)> {
        let estimator = self.estimator.as_mut()?;
        estimator.settle(now, (self.bytes, self.packets));
        Some(estimator.rate())
    }

    /// Settles the estimators of the classes before a class counts packets, because an estimator
    /// needs the counts from before.
    #[cold]
    fn settle_classes(&mut self, now: u64) {
        let Self {
            qdisc, class_rates, ..
        } = self;
        if let Some(rates) = class_rates {
            rates.settle(now, |class| counted(&**qdisc, class));
        }
    }

    /// Gives a class an estimator that starts at its present counters.
    pub(crate) fn set_class_rate(&mut self, class: u32, estimator: Estimator) {
        let estimator = estimator.starting_at(counted(&*self.qdisc, class));
        let rates = self.class_rates.get_or_insert_default();
        rates.set(class, estimator);
    }

    /// Removes the estimator of a deleted class.
    pub(crate) fn forget_class_rate(&mut self, class: u32) {
        if let Some(rates) = &mut self.class_rates {
            rates.forget(class);
        }
    }

    /// Returns the estimated rate of a class in bytes and packets per second.
    pub(crate) fn class_rate(&mut self, class: u32, now: u64) -> Option<(u64, u64)> {
        self.settle_classes(now);
        self.class_rates.as_ref()?.rate(class)
    }

    /// Changes the qdisc for a request, and counts the packets dropped by the change.
    pub(crate) fn request<R>(
        &mut self,
        gone: &mut Gone,
        change: impl FnOnce(&mut dyn Qdisc, &mut Gone) -> R,
    ) -> R {
        gone.ahead = self.peeked.take();
        let result = change(&mut *self.qdisc, gone);
        self.peeked = gone.ahead.take();
        self.drops = self.drops.wrapping_add(std::mem::take(&mut gone.counted));
        let (bytes, packets) = std::mem::take(&mut gone.sent);
        self.bytes = self.bytes.wrapping_add(bytes);
        self.packets = self.packets.wrapping_add(packets);
        result
    }

    /// Enqueues a batch at a root and counts it.
    pub(super) fn enqueue_all(&mut self, q: &mut QueueCx<'_, '_, '_>, arrivals: Arrivals<'_, '_>) {
        if self.class_rates.is_some() {
            self.settle_classes(q.now());
        }
        let (outer, ahead) = (Self::enter(q), self.aside());
        let mut arrivals = arrivals.to(self.stab.as_deref(), ahead);
        self.qdisc.enqueue_all(q, &mut arrivals);
        q.hint = NO_HINT;
        self.leave(q, outer);
    }

    /// Dequeues a batch from a root and counts it. Returns whether more packets may leave.
    pub(super) fn dequeue_all(
        &mut self,
        q: &mut QueueCx<'_, '_, '_>,
        mut out: Departures<'_>,
    ) -> bool {
        // A peeked packet is counted already.
        let peeked = self.peeked.take();
        if peeked.is_some_and(|packet| !out.take(packet)) {
            return true;
        }
        let before = out.left();
        self.begin_dequeue(q);
        let outer = Self::enter(q);
        let more = self.qdisc.dequeue_all(q, &mut out);
        self.leave(q, outer);
        let (bytes, packets) = out.left();
        self.count_sent(q.now(), (bytes - before.0, packets - before.1));
        more
    }

    /// Enqueues a packet and counts it.
    #[inline]
    pub fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        if self.class_rates.is_some() {
            // Some kinds count packets when they are enqueued.
            self.settle_classes(q.now());
        }
        let outer = Self::enter(q);
        q.ahead = self.aside();
        let result = self.qdisc.enqueue(q, packet);
        self.leave(q, outer);
        result
    }

    /// Dequeues a packet and counts it.
    #[inline]
    pub fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        match self.peeked.take() {
            Some(packet) => Some(packet),
            None => self.take(q),
        }
    }

    #[inline]
    fn take(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        self.take_by(q, |qdisc, q| qdisc.dequeue(q))
    }

    #[inline(always)]
    fn take_by(
        &mut self,
        q: &mut QueueCx<'_, '_, '_>,
        take: impl FnOnce(&mut dyn Qdisc, &mut QueueCx<'_, '_, '_>) -> Option<Packet>,
    ) -> Option<Packet> {
        self.begin_dequeue(q);
        let outer = Self::enter(q);
        let packet = take(&mut *self.qdisc, q);
        self.leave(q, outer);
        if let Some(packet) = &packet {
            self.count_sent(q.now(), (u64::from(pkt_len(packet)), packet.wire_packets()));
        }
        packet
    }

    /// Prepares a dequeue: clears a wakeup that is due and settles the estimators of classes.
    #[inline]
    fn begin_dequeue(&mut self, q: &QueueCx<'_, '_, '_>) {
        if self.wake.is_some_and(|time| time <= q.now()) {
            self.wake = None;
        }
        if self.class_rates.is_some() {
            self.settle_classes(q.now());
        }
    }

    /// Counts bytes and packets that left.
    #[inline]
    fn count_sent(&mut self, now: u64, (bytes, packets): (u64, u64)) {
        if let Some(estimator) = &mut self.estimator {
            estimator.settle(now, (self.bytes, self.packets));
        }
        self.bytes = self.bytes.wrapping_add(bytes);
        self.packets = self.packets.wrapping_add(packets);
    }

    /// Calls [`enqueue`](Self::enqueue) and returns the load before and after it as well.
    #[inline]
    fn enqueue_with_load(
        &mut self,
        q: &mut QueueCx<'_, '_, '_>,
        packet: Packet,
    ) -> (Enqueued, Load, Load) {
        q.cx.waits_in(&packet, self.class);
        if self.class_rates.is_some() || self.has_aside() {
            let before = self.load();
            let result = self.enqueue(q, packet);
            return (result, before, self.load());
        }
        let outer = Self::enter(q);
        q.ahead = Load::default();
        let done = self.qdisc.enqueue_with_load(q, packet);
        self.leave(q, outer);
        done
    }

    /// Calls [`dequeue`](Self::dequeue) and returns the load before and after it as well.
    #[inline]
    fn dequeue_with_load(&mut self, q: &mut QueueCx<'_, '_, '_>) -> (Option<Packet>, Load, Load) {
        if self.has_aside() {
            let before = self.load();
            let packet = self.dequeue(q);
            return (packet, before, self.load());
        }
        let mut loads = Default::default();
        let packet = self.take_by(q, |qdisc, q| {
            let (packet, before, after) = qdisc.dequeue_with_load(q);
            loads = (before, after);
            packet
        });
        (packet, loads.0, loads.1)
    }

    /// Returns whether there are packets that the kind's own queue does not hold.
    #[inline]
    fn has_aside(&self) -> bool {
        self.peeked.is_some() || self.returned.is_some()
    }

    /// Puts packets that the device had no room for back at the head of a root (`dev_requeue_skb`).
    pub(super) fn give_back(&mut self, rest: &mut Batch) {
        self.requeues = self.requeues.wrapping_add(rest.len() as u32);
        let returned = self.returned.get_or_insert_default();
        while let Some(mut packet) = rest.pop() {
            if let Some(stab) = &self.stab {
                packet.cb = stab.len(packet.len() as u32);
            } else if packet.segments().is_some() {
                packet.cb = packet.wire_len() as u32;
            }
            returned.load.add(pkt_len(&packet));
            returned.packets.push_front(packet);
        }
    }

    /// Returns the transmit queue of the first returned packet of a root.
    #[inline]
    pub(super) fn returned(&self) -> Option<u16> {
        Some(self.returned.as_ref()?.packets.front()?.queue)
    }

    /// Removes the first returned packet of a root.
    pub(super) fn take_returned(&mut self) -> Option<Packet> {
        let returned = self.returned.as_mut()?;
        let mut packet = returned.packets.pop_front()?;
        returned.load.sub(pkt_len(&packet));
        packet.cb = 0;
        Some(packet)
    }

    /// Peeks at the packet that [`dequeue`](Self::dequeue) would return.
    pub fn peek(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Front> {
        if let Some(packet) = &self.peeked {
            return Some(Front::of(packet));
        }
        let outer = Self::enter(q);
        let found = self.qdisc.peek(q);
        self.leave(q, outer);
        match found {
            Peek::Next(front) => front,
            Peek::Dequeue => {
                self.peeked = self.take(q);
                self.peeked.as_ref().map(Front::of)
            }
        }
    }

    /// Returns the counters kept under the lock: bytes, packets, queue.
    pub(crate) fn stats(&self) -> (u64, u64, Queue) {
        if let Some(summed) = self.qdisc.summed() {
            return summed;
        }
        let load = self.load();
        let queue = Queue {
            qlen: load.len,
            backlog: load.backlog,
            drops: self.drops,
            requeues: self.requeues,
            overlimits: self.overlimits,
        };
        (self.bytes, self.packets, queue)
    }

    /// Returns its load.
    #[inline]
    pub fn load(&self) -> Load {
        let mut load = self.qdisc.load();
        load.moved(Load::default(), self.aside());
        load
    }

    /// Returns the load of the packets that the kind's own queue does not hold.
    #[inline]
    fn aside(&self) -> Load {
        let mut load = Load::default();
        if let Some(packet) = &self.peeked {
            load.add(pkt_len(packet));
        }
        if let Some(returned) = &self.returned {
            load.moved(Load::default(), returned.load);
        }
        load
    }

    /// Removes all waiting packets.
    pub fn reset(&mut self, out: &mut Drops) {
        let returned = self.returned.take();
        let returned = returned.into_iter().flat_map(|returned| returned.packets);
        let ahead = returned.chain(self.peeked.take());
        out.extend(ahead.map(|packet| (packet, DropReason::QDISC_DROP)));
        self.qdisc.reset(out);
        self.wake = None;
    }

    /// Applies a change that a request made to the load below a class.
    pub(crate) fn child_changed(&mut self, classid: u32, before: Load, after: Load) {
        if before != after {
            let class = self.qdisc.find(classid);
            self.drops = self
                .drops
                .wrapping_add(before.len.saturating_sub(after.len));
            self.qdisc.child_changed(class, before, after);
        }
    }

    /// Visits the tree of a root, with the wakeups kept in this root.
    pub(super) fn in_tree(
        &mut self,
        q: &mut QueueCx<'_, '_, '_>,
        visit: impl FnOnce(&mut Self, &mut QueueCx<'_, '_, '_>),
    ) {
        std::mem::swap(&mut q.wakes, &mut self.wakes);
        visit(self, q);
        std::mem::swap(&mut q.wakes, &mut self.wakes);
    }

    /// Schedules a wakeup of the tree of a root at `time`.
    pub(crate) fn wake_at(&mut self, time: u64) {
        self.wakes.replace(None, time);
    }

    /// Returns the next wakeup time of the tree of a root.
    pub(crate) fn next_event(&self) -> Option<u64> {
        let next = self.wakes.times.first().copied();
        next.filter(|_| self.load().len > 0)
    }
}

/// Returns the bytes and packets that left from a class.
fn counted(qdisc: &dyn Qdisc, class: u32) -> (u64, u64) {
    let stats = qdisc.class_stats(class);
    stats.map_or((0, 0), |stats| (stats.bytes, stats.packets))
}

/// A qdisc in a device's tree; see the module documentation.
pub struct Node {
    /// Entry of its kind.
    pub ops: &'static Ops,
    /// Handle, `major << 16`; 0 for a default qdisc.
    pub handle: u32,
    /// The class it is under.
    pub parent: AtomicU32,
    /// Whether it is shown only on request (`TCQ_F_INVISIBLE`).
    pub invisible: bool,
    /// Refcount as Linux shows it.
    pub refs: AtomicU32,
    /// Sequence number in the order of creation.
    pub seq: AtomicU32,
    /// Number of qdiscs above it (`depth`).
    pub depth: AtomicU32,
    gone: AtomicBool,
    /// Set under the lock when another root takes the place of this one; see [`Node::stop`].
    stopped: AtomicBool,
    /// Packets seen by the hooks of an ingress qdisc.
    pub hook_counters: Counters,
    /// The lockless list in front of a root's lock, and the state of its worker.
    pub(super) front: Combiner<Packet>,
    /// Packets dropped in front of the lock of a root.
    pub(super) bursts: AtomicU32,
    inner: CachePadded<SpinLock<Inner, order::Qdisc>>,
    /// Address of the kind's own part, used only to prefetch it without the lock.
    near: usize,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "qdisc {} {:x}:", self.ops.kind, self.handle >> 16)
    }
}

impl Node {
    /// Makes a node around a qdisc.
    pub fn new(
        ops: &'static Ops,
        qdisc: Box<dyn Qdisc>,
        handle: u32,
        parent: u32,
        invisible: bool,
    ) -> Arc<Self> {
        let near = std::ptr::from_ref(&*qdisc).cast::<u8>().addr();
        let inner = Inner {
            qdisc,
            bytes: 0,
            packets: 0,
            drops: 0,
            overlimits: 0,
            requeues: 0,
            arrived: Taken::default(),
            stab: None,
            estimator: None,
            class_rates: None,
            peeked: None,
            returned: None,
            wake: None,
            wakes: Wakes::default(),
            class: parent,
        };
        Arc::new(Self {
            ops,
            handle,
            parent: AtomicU32::new(parent),
            invisible,
            refs: AtomicU32::new(1),
            seq: AtomicU32::new(0),
            depth: AtomicU32::new(0),
            gone: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            hook_counters: Counters::new(true),
            front: Combiner::new(),
            bursts: AtomicU32::new(0),
            inner: CachePadded(SpinLock::ranked(inner)),
            near,
        })
    }

    /// Locks the queue and statistics.
    #[inline]
    pub fn lock(&self) -> SpinGuard<'_, Inner, order::Qdisc> {
        self.inner.lock()
    }

    /// Returns the statistics of its lock.
    pub fn lock_stats(&self) -> LockStats {
        self.inner.stats()
    }

    /// Returns the counters of the qdisc (bytes, packets, queue), or those of its hooks if it is an
    /// ingress qdisc.
    pub fn stats(&self) -> (u64, u64, Queue) {
        if self.ops.ingress {
            let totals = self.hook_counters.totals();
            return (totals.bytes, totals.packets, Queue::of(&totals));
        }
        let (bytes, packets, mut queue) = self.lock().stats();
        queue.drops = queue.drops.wrapping_add(self.bursts.load(Relaxed));
        (bytes, packets, queue)
    }

    /// Returns whether it was removed from the tree. Called under the lock.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Relaxed) || self.stopped.load(Relaxed)
    }

    /// Marks a root whose place another one takes. From then on its packets are dropped.
    pub(super) fn set_stopped(&self) {
        let _inner = self.lock();
        self.stopped.store(true, Relaxed);
    }

    /// Empties the tree of a root because the device goes down, and clears its wakeups
    /// (`dev_reset_queue`). The packets go to `out`; no qdisc counts them as dropped.
    pub(crate) fn deactivate(&self, out: &mut Drops) {
        let mut inner = self.lock();
        inner.reset(out);
        inner.wakes.times.clear();
        let arrived = std::mem::take(&mut inner.arrived);
        out.extend(arrived.map(|packet| (packet, DropReason::QDISC_DROP)));
    }

    /// Destroys the qdisc after its removal from the tree (`qdisc_destroy`). Waiting packets go to
    /// `out`.
    pub fn destroy(&self, env: &Env<'_>, out: &mut Drops) {
        if self.gone.swap(true, Relaxed) {
            return;
        }
        let (blocks, children) = {
            let mut inner = self.lock();
            inner.reset(out);
            let arrived = std::mem::take(&mut inner.arrived);
            out.extend(arrived.map(|packet| (packet, DropReason::QDISC_DROP)));
            let leaves = inner.qdisc.children();
            (inner.qdisc.destroy(), leaves)
        };
        self.empty_front(out);
        for block in blocks {
            block.drop_owner(env);
        }
        for child in children {
            child.destroy(env, out);
        }
    }
}

/// The qdisc under a class. An empty leaf is Linux's `noop_qdisc`, which drops everything.
///
/// Its methods update `total`, the load of everything below the parent.
#[derive(Default, Debug, Clone)]
pub struct Leaf(Option<Arc<Node>>);

impl Leaf {
    /// Makes a leaf with a qdisc, or an empty one.
    pub fn new(node: Option<Arc<Node>>) -> Self {
        Self(node)
    }

    /// Returns the qdisc.
    pub fn node(&self) -> Option<Arc<Node>> {
        self.0.clone()
    }

    /// Returns the handle of the qdisc, 0 for an empty leaf.
    pub fn handle(&self) -> u32 {
        self.0.as_ref().map_or(0, |node| node.handle)
    }

    /// Prefetches the qdisc for a coming packet: the node in step 0, the kind's own part in later
    /// steps.
    #[inline]
    pub fn prefetch(&self, step: u32) {
        match (step, &self.0) {
            (0, Some(node)) => {
                prefetch_at(std::ptr::from_ref(&node.inner).cast(), NEAR);
                prefetch(&node.near);
            }
            (_, Some(node)) => prefetch_at(std::ptr::without_provenance(node.near), 64),
            (_, None) => {}
        }
    }

    /// Returns its load.
    pub fn load(&self) -> Load {
        self.0.as_ref().map_or(Load::default(), |n| n.lock().load())
    }

    /// Returns its counters.
    pub fn stats(&self) -> (u64, u64, Queue) {
        self.0.as_ref().map_or_else(Default::default, |n| n.stats())
    }

    /// Enqueues a packet. Returns the load after it as well.
    #[inline]
    pub fn enqueue(
        &self,
        q: &mut QueueCx<'_, '_, '_>,
        packet: Packet,
        total: &mut Load,
    ) -> (Enqueued, Load) {
        self.open().enqueue(q, packet, total)
    }

    /// Dequeues a packet. Returns the load after it as well.
    #[inline]
    pub fn dequeue(&self, q: &mut QueueCx<'_, '_, '_>, total: &mut Load) -> (Option<Packet>, Load) {
        self.open().dequeue(q, total)
    }

    /// Locks it for more than one packet.
    #[inline]
    pub fn open(&self) -> Open<'_> {
        Open(self.0.as_ref().map(|node| node.lock()))
    }

    /// Returns the length of its next packet. Peeking may drop packets.
    #[inline]
    pub fn peek(&self, q: &mut QueueCx<'_, '_, '_>, total: &mut Load) -> Option<u32> {
        self.front(q, total).map(|front| front.len)
    }

    /// Returns its next packet. Peeking may drop packets.
    #[inline]
    pub fn front(&self, q: &mut QueueCx<'_, '_, '_>, total: &mut Load) -> Option<Front> {
        let mut inner = self.0.as_ref()?.lock();
        let before = inner.load();
        let next = inner.peek(q);
        total.moved(before, inner.load());
        next
    }

    /// Removes all its packets (`qdisc_purge_queue`).
    pub fn purge(&self, total: &mut Load, out: &mut Drops) {
        if let Some(node) = &self.0 {
            let mut inner = node.lock();
            total.moved(inner.load(), Load::default());
            inner.reset(out);
        }
    }

    /// Removes all its packets for a request; the qdisc above counts them as dropped
    /// (`qdisc_tree_flush_backlog`).
    pub fn flush(&self, total: &mut Load, gone: &mut Gone) {
        let before = total.len;
        self.purge(total, &mut gone.drops);
        gone.counted = gone.counted.wrapping_add(before.wrapping_sub(total.len));
    }

    /// Empties it, replaces it and returns the old qdisc (`qdisc_replace`).
    pub fn replace(&mut self, new: Leaf, total: &mut Load, gone: &mut Gone) -> Option<Arc<Node>> {
        self.flush(total, gone);
        std::mem::replace(self, new).0
    }
}

/// A locked [`Leaf`].
pub struct Open<'a>(Option<SpinGuard<'a, Inner, order::Qdisc>>);

impl Open<'_> {
    /// Enqueues a packet; see [`Leaf::enqueue`].
    #[inline]
    pub fn enqueue(
        &mut self,
        q: &mut QueueCx<'_, '_, '_>,
        packet: Packet,
        total: &mut Load,
    ) -> (Enqueued, Load) {
        let Some(inner) = &mut self.0 else {
            q.drop(packet, DropReason::QDISC_DROP);
            return (Enqueued::Congested, Load::default());
        };
        let (result, before, after) = inner.enqueue_with_load(q, packet);
        total.moved(before, after);
        (result, after)
    }

    /// Dequeues a packet; see [`Leaf::dequeue`].
    #[inline]
    pub fn dequeue(
        &mut self,
        q: &mut QueueCx<'_, '_, '_>,
        total: &mut Load,
    ) -> (Option<Packet>, Load) {
        let Some(inner) = &mut self.0 else {
            return (None, Load::default());
        };
        let (packet, before, after) = inner.dequeue_with_load(q);
        total.moved(before, after);
        (packet, after)
    }
}
