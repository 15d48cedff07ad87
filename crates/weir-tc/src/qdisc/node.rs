// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A qdisc in a device's tree: the part all kinds share around the kind's own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use weir_packet::{Batch, DropReason, Packet};
use weir_sync::combine::Combiner;
use weir_sync::list::Taken;
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

/// What the qdiscs of a tree want: the times at which to be asked again, ascending, one for each that
/// waits.
#[derive(Debug, Default)]
pub struct Wakes {
    times: Vec<u64>,
    /// Copies to be enqueued at the root.
    pub(super) again: Vec<Packet>,
}

impl Wakes {
    /// One qdisc names a time in place of another.
    fn replace(&mut self, old: Option<u64>, new: u64) {
        if let Some(at) = old.and_then(|old| self.times.binary_search(&old).ok()) {
            self.times.remove(at);
        }
        let at = self.times.partition_point(|&time| time < new);
        self.times.insert(at, new);
    }

    /// What is due has come.
    pub(super) fn pass(&mut self, now: u64) {
        let due = self.times.partition_point(|&time| time <= now);
        self.times.drain(..due);
    }
}

/// What a request leaves to be freed, counted and destroyed when the locks are open.
#[derive(Default)]
pub struct Gone {
    /// Packets.
    pub drops: Drops,
    /// Qdiscs.
    pub nodes: Vec<Arc<Node>>,
    /// Blocks of filters.
    pub blocks: Vec<Arc<Block>>,
    /// Packets may leave now that could not before.
    pub wake: bool,
    /// A sentence beside the success.
    pub warning: Option<&'static str>,
    /// A class was as asked for already: not even its estimator is changed.
    pub unchanged: bool,
    /// How many of the packets the qdisc itself counts as dropped.
    pub counted: u32,
    /// The packet that was taken out of the qdisc to be looked at.
    ahead: Option<Packet>,
    /// Octets and packets that the qdisc counts as sent, though they are dropped.
    sent: (u64, u64),
}

impl Gone {
    /// A limit is lower now: the packet that was taken out to be looked at is the first to go where, with the
    /// `waiting` ones, there are more (`qdisc_dequeue_internal`). Whether it went.
    pub fn cut(&mut self, waiting: u32, limit: u32) -> bool {
        let cut = self.ahead.take_if(|_| waiting >= limit);
        let packet = cut.map(|packet| (packet, DropReason::QDISC_OVERLIMIT));
        let went = packet.is_some();
        self.drops.extend(packet);
        went
    }

    /// A packet is dropped by the way of those that leave, and counted with them.
    pub fn drop_sent(&mut self, packet: Packet) {
        self.sent.0 += u64::from(pkt_len(&packet));
        self.sent.1 += 1;
        self.drops.push((packet, DropReason::QDISC_OVERLIMIT));
    }

    /// Destroys all; what waited comes back, to be freed and counted.
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

/// Packets that left a qdisc and that the device had no room for.
#[derive(Default)]
struct Returned {
    packets: VecDeque<Packet>,
    load: Load,
}

/// What a node's lock guards; in this order, as what a packet meets shares two lines with the lock.
#[repr(C)]
pub struct Inner {
    /// The kind's own part.
    pub qdisc: Box<dyn Qdisc>,
    /// Octets that left.
    pub bytes: u64,
    /// Packets that left.
    pub packets: u64,
    /// Packets dropped.
    pub drops: u32,
    /// Times packets had to wait.
    pub overlimits: u32,
    /// Packets put back.
    pub requeues: u32,
    /// Taken out to be looked at, next to leave (`gso_skb`).
    peeked: Option<Packet>,
    /// Of a root: given back by the device, next to leave (`gso_skb` as well).
    returned: Option<Box<Returned>>,
    /// When it last asked to be asked again.
    wake: Option<u64>,
    /// The rate at which packets leave.
    pub estimator: Option<Box<Estimator>>,
    /// Those of its classes.
    class_rates: Option<Box<ClassRates>>,
    /// Of a root: taken from the list in front, and not enqueued yet.
    pub(super) come: Taken<Packet>,
    /// Of a root: what packets count for.
    pub stab: Option<Box<SizeTable>>,
    /// Of a root: the same of the whole tree.
    wakes: Wakes,
    /// The class it was made under.
    class: u32,
}

/// Octets a packet meets of a lock and what it guards.
const NEAR: usize = 128;
#[cfg(not(loom))]
const _: () = assert!(SpinLock::<Inner>::AHEAD + std::mem::offset_of!(Inner, come) <= NEAR);

/// What an inner visit must not mix with an outer one.
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

    /// The estimated rate: octets and packets a second.
    pub(crate) fn rate(&mut self, now: u64) -> Option<(u64, u64)> {
        let estimator = self.estimator.as_mut()?;
        estimator.settle(now, (self.bytes, self.packets));
        Some(estimator.rate())
    }

    /// Classes count packets that leave: their estimators see what was there before.
    #[cold]
    fn settle_classes(&mut self, now: u64) {
        let Self {
            qdisc, class_rates, ..
        } = self;
        if let Some(rates) = class_rates {
            rates.settle(now, |class| counted(&**qdisc, class));
        }
    }

    /// Gives a class an estimator, from its present counters on.
    pub(crate) fn set_class_rate(&mut self, class: u32, estimator: Estimator) {
        let estimator = estimator.starting_at(counted(&*self.qdisc, class));
        let rates = self.class_rates.get_or_insert_default();
        rates.set(class, estimator);
    }

    /// A class is gone.
    pub(crate) fn forget_class_rate(&mut self, class: u32) {
        if let Some(rates) = &mut self.class_rates {
            rates.forget(class);
        }
    }

    /// The estimated rate of a class: octets and packets a second.
    pub(crate) fn class_rate(&mut self, class: u32, now: u64) -> Option<(u64, u64)> {
        self.settle_classes(now);
        self.class_rates.as_ref()?.rate(class)
    }

    /// Has a request change the qdisc, and counts what that drops.
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

    /// Of a root: takes packets that come together, counting.
    pub(super) fn enqueue_all(&mut self, q: &mut QueueCx<'_, '_, '_>, come: Arrivals<'_, '_>) {
        if self.class_rates.is_some() {
            self.settle_classes(q.now());
        }
        let (outer, ahead) = (Self::enter(q), self.aside());
        let mut come = come.to(self.stab.as_deref(), ahead);
        self.qdisc.enqueue_all(q, &mut come);
        q.hint = NO_HINT;
        self.leave(q, outer);
    }

    /// Of a root: gives what may leave, counting; whether more may.
    pub(super) fn dequeue_all(
        &mut self,
        q: &mut QueueCx<'_, '_, '_>,
        mut out: Departures<'_>,
    ) -> bool {
        // One that was taken out to be looked at is counted already.
        let peeked = self.peeked.take();
        if peeked.is_some_and(|packet| !out.take(packet)) {
            return true;
        }
        let before = out.left();
        self.turn_to(q);
        let outer = Self::enter(q);
        let more = self.qdisc.dequeue_all(q, &mut out);
        self.leave(q, outer);
        let (bytes, packets) = out.left();
        self.count_sent(q.now(), (bytes - before.0, packets - before.1));
        more
    }

    /// Takes a packet, counting.
    #[inline]
    pub fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        if self.class_rates.is_some() {
            // Some count packets that come.
            self.settle_classes(q.now());
        }
        let outer = Self::enter(q);
        q.ahead = self.aside();
        let how = self.qdisc.enqueue(q, packet);
        self.leave(q, outer);
        how
    }

    /// Gives a packet, counting.
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
        self.turn_to(q);
        let outer = Self::enter(q);
        let packet = take(&mut *self.qdisc, q);
        self.leave(q, outer);
        if let Some(packet) = &packet {
            self.count_sent(q.now(), (u64::from(pkt_len(packet)), 1));
        }
        packet
    }

    /// It is asked for packets now.
    #[inline]
    fn turn_to(&mut self, q: &QueueCx<'_, '_, '_>) {
        if self.wake.is_some_and(|time| time <= q.now()) {
            self.wake = None;
        }
        if self.class_rates.is_some() {
            self.settle_classes(q.now());
        }
    }

    /// Counts octets and packets that have left.
    #[inline]
    fn count_sent(&mut self, now: u64, (bytes, packets): (u64, u64)) {
        if let Some(estimator) = &mut self.estimator {
            estimator.settle(now, (self.bytes, self.packets));
        }
        self.bytes = self.bytes.wrapping_add(bytes);
        self.packets = self.packets.wrapping_add(packets);
    }

    /// [`enqueue`](Self::enqueue), and what waits before and after it.
    #[inline]
    fn enqueue_with_load(
        &mut self,
        q: &mut QueueCx<'_, '_, '_>,
        packet: Packet,
    ) -> (Enqueued, Load, Load) {
        q.cx.waits_in(&packet, self.class);
        if self.class_rates.is_some() || self.has_aside() {
            let before = self.load();
            let how = self.enqueue(q, packet);
            return (how, before, self.load());
        }
        let outer = Self::enter(q);
        q.ahead = Load::default();
        let done = self.qdisc.enqueue_with_load(q, packet);
        self.leave(q, outer);
        done
    }

    /// The same of [`dequeue`](Self::dequeue).
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

    /// Whether packets wait beside the kind's own part.
    #[inline]
    fn has_aside(&self) -> bool {
        self.peeked.is_some() || self.returned.is_some()
    }

    /// Of a root: takes back what the device had no room for, to leave before all else (`dev_requeue_skb`).
    pub(super) fn give_back(&mut self, rest: &mut Batch) {
        self.requeues = self.requeues.wrapping_add(rest.len() as u32);
        let returned = self.returned.get_or_insert_default();
        while let Some(mut packet) = rest.pop() {
            if let Some(stab) = &self.stab {
                packet.cb = stab.len(packet.len() as u32);
            }
            returned.load.add(pkt_len(&packet));
            returned.packets.push_front(packet);
        }
    }

    /// Of a root: the transmit queue of the packet the device has given back that leaves next.
    #[inline]
    pub(super) fn returned(&self) -> Option<u16> {
        Some(self.returned.as_ref()?.packets.front()?.queue)
    }

    /// Of a root: that packet.
    pub(super) fn take_returned(&mut self) -> Option<Packet> {
        let returned = self.returned.as_mut()?;
        let mut packet = returned.packets.pop_front()?;
        returned.load.sub(pkt_len(&packet));
        packet.cb = 0;
        Some(packet)
    }

    /// The packet [`dequeue`](Self::dequeue) would give.
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

    /// What is counted under the lock: octets, packets, queue.
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

    /// What waits.
    #[inline]
    pub fn load(&self) -> Load {
        let mut load = self.qdisc.load();
        load.moved(Load::default(), self.aside());
        load
    }

    /// What waits beside the kind's own part.
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

    /// Takes out all that waits.
    pub fn reset(&mut self, out: &mut Drops) {
        let returned = self.returned.take();
        let returned = returned.into_iter().flat_map(|returned| returned.packets);
        let ahead = returned.chain(self.peeked.take());
        out.extend(ahead.map(|packet| (packet, DropReason::QDISC_DROP)));
        self.qdisc.reset(out);
        self.wake = None;
    }

    /// A request has changed what waits below a class.
    pub(crate) fn child_changed(&mut self, classid: u32, before: Load, after: Load) {
        if before != after {
            let class = self.qdisc.find(classid);
            self.drops = self
                .drops
                .wrapping_add(before.len.saturating_sub(after.len));
            self.qdisc.child_changed(class, before, after);
        }
    }

    /// Of a root: visits the tree, whose times to be asked again are kept here.
    pub(super) fn in_tree(
        &mut self,
        q: &mut QueueCx<'_, '_, '_>,
        visit: impl FnOnce(&mut Self, &mut QueueCx<'_, '_, '_>),
    ) {
        std::mem::swap(&mut q.wakes, &mut self.wakes);
        visit(self, q);
        std::mem::swap(&mut q.wakes, &mut self.wakes);
    }

    /// Of a root: the tree is to be asked for packets at `time`.
    pub(crate) fn wake_at(&mut self, time: u64) {
        self.wakes.replace(None, time);
    }

    /// Of a root: when to ask again.
    pub(crate) fn next_event(&self) -> Option<u64> {
        let next = self.wakes.times.first().copied();
        next.filter(|_| self.load().len > 0)
    }
}

/// Octets and packets that left from a class.
fn counted(qdisc: &dyn Qdisc, class: u32) -> (u64, u64) {
    let stats = qdisc.class_stats(class);
    stats.map_or((0, 0), |stats| (stats.bytes, stats.packets))
}

/// A qdisc in a device's tree; see the module's head.
pub struct Node {
    /// The kind.
    pub ops: &'static Ops,
    /// Handle, `major << 16`; 0 of a default one.
    pub handle: u32,
    /// Class it is under.
    pub parent: AtomicU32,
    /// Shown only when asked for (`TCQ_F_INVISIBLE`).
    pub invisible: bool,
    /// References as Linux shows them.
    pub refs: AtomicU32,
    /// Its number in the order in which qdiscs came.
    pub seq: AtomicU32,
    /// How many qdiscs lie above (`depth`).
    pub depth: AtomicU32,
    gone: AtomicBool,
    /// Packets seen by the hooks of an ingress qdisc.
    pub hook_counters: Counters,
    /// Of a root: what waits in front of the lock, and who is at work.
    pub(super) front: Combiner<Packet>,
    /// Of a root: packets dropped in front of the lock.
    pub(super) bursts: AtomicU32,
    inner: CachePadded<SpinLock<Inner>>,
    /// Where the kind's own part lies, for hints alone: it may be asked for without the lock.
    near: usize,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "qdisc {} {:x}:", self.ops.kind, self.handle >> 16)
    }
}

impl Node {
    /// A node around a qdisc.
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
            come: Taken::default(),
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
            hook_counters: Counters::new(true),
            front: Combiner::new(),
            bursts: AtomicU32::new(0),
            inner: CachePadded(SpinLock::new(inner)),
            near,
        })
    }

    /// Locks the queue and statistics.
    #[inline]
    pub fn lock(&self) -> SpinGuard<'_, Inner> {
        self.inner.lock()
    }

    /// What its lock has counted.
    pub fn lock_stats(&self) -> LockStats {
        self.inner.stats()
    }

    /// Everything but hooks that is counted: octets, packets, queue.
    pub fn stats(&self) -> (u64, u64, Queue) {
        if self.ops.ingress {
            let totals = self.hook_counters.totals();
            return (totals.bytes, totals.packets, Queue::of(&totals));
        }
        let (bytes, packets, mut queue) = self.lock().stats();
        queue.drops = queue.drops.wrapping_add(self.bursts.load(Relaxed));
        (bytes, packets, queue)
    }

    /// Out of the tree; asked under the lock.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    /// Of a root: the device is down. All that waits in the tree goes to `out`, and nothing wants to be asked
    /// again (`dev_reset_queue`); none of it counts as dropped by a qdisc.
    pub(crate) fn deactivate(&self, out: &mut Drops) {
        let mut inner = self.lock();
        inner.reset(out);
        inner.wakes.times.clear();
        let come = std::mem::take(&mut inner.come);
        out.extend(come.map(|packet| (packet, DropReason::QDISC_DROP)));
    }

    /// The qdisc is out of the tree (`qdisc_destroy`); what waited goes to `out`.
    pub fn destroy(&self, env: &Env<'_>, out: &mut Drops) {
        if self.gone.swap(true, Relaxed) {
            return;
        }
        let (blocks, children) = {
            let mut inner = self.lock();
            inner.reset(out);
            let come = std::mem::take(&mut inner.come);
            out.extend(come.map(|packet| (packet, DropReason::QDISC_DROP)));
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

/// The qdisc under a class; none is Linux's `noop_qdisc`, which drops everything.
///
/// Its methods keep the sum of what waits below the parent, `total`.
#[derive(Default, Debug, Clone)]
pub struct Leaf(Option<Arc<Node>>);

impl Leaf {
    /// A qdisc, or none.
    pub fn new(node: Option<Arc<Node>>) -> Self {
        Self(node)
    }

    /// The qdisc.
    pub fn node(&self) -> Option<Arc<Node>> {
        self.0.clone()
    }

    /// Its handle, 0 of none.
    pub fn handle(&self) -> u32 {
        self.0.as_ref().map_or(0, |node| node.handle)
    }

    /// Brings it nearer for a packet to come: the node first, then the kind's own part.
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

    /// What waits in it.
    pub fn load(&self) -> Load {
        self.0.as_ref().map_or(Load::default(), |n| n.lock().load())
    }

    /// Its counters.
    pub fn stats(&self) -> (u64, u64, Queue) {
        self.0.as_ref().map_or_else(Default::default, |n| n.stats())
    }

    /// Gives it a packet; answers what waits in it after that as well.
    #[inline]
    pub fn enqueue(
        &self,
        q: &mut QueueCx<'_, '_, '_>,
        packet: Packet,
        total: &mut Load,
    ) -> (Enqueued, Load) {
        self.open().enqueue(q, packet, total)
    }

    /// Takes a packet out of it; answers what waits in it after that as well.
    #[inline]
    pub fn dequeue(&self, q: &mut QueueCx<'_, '_, '_>, total: &mut Load) -> (Option<Packet>, Load) {
        self.open().dequeue(q, total)
    }

    /// Locks it, for more than one packet.
    #[inline]
    pub fn open(&self) -> Open<'_> {
        Open(self.0.as_ref().map(|node| node.lock()))
    }

    /// Length of the packet it would give next; looking may drop some.
    #[inline]
    pub fn peek(&self, q: &mut QueueCx<'_, '_, '_>, total: &mut Load) -> Option<u32> {
        self.front(q, total).map(|front| front.len)
    }

    /// The packet it would give next; looking may drop some.
    #[inline]
    pub fn front(&self, q: &mut QueueCx<'_, '_, '_>, total: &mut Load) -> Option<Front> {
        let mut inner = self.0.as_ref()?.lock();
        let before = inner.load();
        let next = inner.peek(q);
        total.moved(before, inner.load());
        next
    }

    /// Takes out all that waits in it (`qdisc_purge_queue`).
    pub fn purge(&self, total: &mut Load, out: &mut Drops) {
        if let Some(node) = &self.0 {
            let mut inner = node.lock();
            total.moved(inner.load(), Load::default());
            inner.reset(out);
        }
    }

    /// A request takes out all that waits in it, which the qdisc above counts as dropped
    /// (`qdisc_tree_flush_backlog`).
    pub fn flush(&self, total: &mut Load, gone: &mut Gone) {
        let before = total.len;
        self.purge(total, &mut gone.drops);
        gone.counted = gone.counted.wrapping_add(before.wrapping_sub(total.len));
    }

    /// Puts another qdisc in its place, emptying it (`qdisc_replace`); answers the old one.
    pub fn replace(&mut self, new: Leaf, total: &mut Load, gone: &mut Gone) -> Option<Arc<Node>> {
        self.flush(total, gone);
        std::mem::replace(self, new).0
    }
}

/// A locked [`Leaf`].
pub struct Open<'a>(Option<SpinGuard<'a, Inner>>);

impl Open<'_> {
    /// [`Leaf::enqueue`]
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
        let (how, before, after) = inner.enqueue_with_load(q, packet);
        total.moved(before, after);
        (how, after)
    }

    /// [`Leaf::dequeue`]
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
