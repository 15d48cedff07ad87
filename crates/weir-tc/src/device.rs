// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The traffic control state of a device: the tree of qdiscs, the hooks, and the path of packets
//! through them.
//!
//! Mirrors `dev->qdisc`, `dev_ingress_queue`, `miniq_ingress` and `miniq_egress`, and
//! `sch_handle_ingress` and `sch_handle_egress` (net/core/dev.c). The data path sees the hooks and
//! the root queue through published pointers; requests change the tree under the device's lock.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::Error;
use weir_netlink::tca::h;
use weir_packet::batch::BATCH;
use weir_packet::header::Ethernet;
use weir_packet::{Batch, DropReason, Flags, Packet};
use weir_sync::once_box::OnceBox;
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::rare::Rare;
use weir_sync::rcu::{Domain, Guard, PublishedOption};
use weir_sync::spin::LockStats;

use crate::block::Block;
use crate::chain::Starts;
use crate::classifier::Lookup;
use crate::context::{Context, Copy, Received};
use crate::counters::Queue;
use crate::env::Env;
use crate::host::Device;
use crate::qdisc::root::Worker;
use crate::qdisc::{self, Create, Drops, Inner, Node};
use crate::txq::{self, TrafficClasses, xps};
use crate::verdict::{Code, Outcome, Verdict, code};

/// A packet whose path ends at a hook: dropped if there is a reason, otherwise consumed.
pub type Ended = (Packet, Option<DropReason>);

/// The block a hook walks and the node it counts on.
pub(crate) struct Hook {
    pub(crate) block: Arc<Block>,
    pub(crate) node: Arc<Node>,
}

/// The qdiscs of a device.
#[derive(Default)]
pub(crate) struct Tree {
    /// The root qdisc. `None` if nothing has been attached yet (`noop_qdisc`).
    pub root: Option<Arc<Node>>,
    /// The `ingress` or `clsact` qdisc.
    pub ingress: Option<Arc<Node>>,
    /// Whether a request for an ingress qdisc was ever made. From then on the builtin qdisc is
    /// attached there (`dev_ingress_queue`).
    pub ingress_queue: bool,
    /// The qdiscs under classes that have a handle, by handle.
    pub children: Rare<BTreeMap<u32, Arc<Node>>>,
}

/// The qdiscs at a device's transmit queues (`netdev_queue.qdisc`).
struct Queues {
    /// The handle of the root qdisc.
    handle: u32,
    /// One qdisc for all queues, or one for each. `None` drops everything (`noop_qdisc`).
    roots: Vec<Option<Arc<Node>>>,
    classes: Option<TrafficClasses>,
}

impl Queues {
    fn of(root: &Arc<Node>) -> Self {
        let inner = root.lock();
        let roots: Vec<Option<Arc<Node>>> = match root.ops.queues {
            true => {
                let classes = inner.qdisc.queues().into_iter();
                classes.map(|class| inner.qdisc.leaf(class)).collect()
            }
            false => vec![Some(root.clone())],
        };
        Self {
            handle: root.handle,
            roots,
            classes: inner.qdisc.traffic_classes().copied(),
        }
    }
}

/// The parts of a device's traffic control that most devices lack.
struct Extras {
    ingress: PublishedOption<Hook>,
    egress: PublishedOption<Hook>,
    /// The maps from CPUs to transmit queues. They change under the tree's lock.
    xps: PublishedOption<xps::Maps>,
}

/// The traffic control state of a device; see the module's documentation.
pub struct DeviceTc {
    /// The qdiscs at the transmit queues. `None` if packets are not queued.
    queue: PublishedOption<Queues>,
    /// What most devices lack, once it was first set.
    extras: OnceBox<Extras>,
    /// Guards the tree. Taken before the lock of a node or block.
    tree: Mutex<Tree, order::Tree>,
}

impl std::fmt::Debug for DeviceTc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DeviceTc")
    }
}

impl Tree {
    /// Finds the qdisc with a handle (`qdisc_lookup`).
    pub fn find(&self, handle: u32) -> Option<Arc<Node>> {
        if handle == 0 {
            return None;
        }
        let is = |node: &&Arc<Node>| node.handle == handle;
        let found = self
            .root
            .as_ref()
            .filter(is)
            .or_else(|| self.children.get()?.get(&handle));
        found.or_else(|| self.ingress.as_ref().filter(is)).cloned()
    }

    /// Returns all qdiscs under classes in the order of dumps, which is that of `dev->qdisc_hash`:
    /// 16 buckets by handle, the newest of a bucket first.
    pub fn children(&self) -> Vec<Arc<Node>> {
        let mut found = self.root.as_ref().map(under).unwrap_or_default();
        let bucket = |handle: u32| handle.wrapping_mul(0x61c8_8647) >> 28;
        found.sort_by_key(|node| (bucket(node.handle), u32::MAX - node.seq.load(Relaxed)));
        found
    }

    /// Returns the qdisc where packets on their way to `node` enter: the root, or the one at a
    /// transmit queue.
    pub fn entrance(&self, node: &Arc<Node>) -> Arc<Node> {
        let mut at = node.clone();
        loop {
            let parent = at.parent.load(Relaxed);
            let above = self.find(parent & h::MAJ_MASK);
            match above.filter(|above| parent < h::INGRESS && !above.ops.queues) {
                Some(above) => at = above,
                None => return at,
            }
        }
    }

    /// Changes a qdisc while it and all its ancestors are locked, then updates the ancestors' queue
    /// lengths and backlogs (`qdisc_tree_reduce_backlog`).
    pub fn change<R>(&self, node: &Arc<Node>, change: impl FnOnce(&mut Inner) -> R) -> R {
        let mut path = vec![node.clone()];
        while let Some(above) = path.last().and_then(|node| {
            let parent = node.parent.load(Relaxed);
            self.find(parent & h::MAJ_MASK)
                .filter(|_| parent < h::INGRESS)
        }) {
            path.push(above);
        }
        path.reverse();
        let mut locked: Vec<_> = path.iter().map(|node| node.lock()).collect();
        let last = locked.len() - 1;
        let before = locked[last].load();
        let result = change(&mut locked[last]);
        let after = locked[last].load();
        for at in (0..last).rev() {
            let class = path[at + 1].parent.load(Relaxed);
            locked[at].child_changed(class, before, after);
        }
        result
    }
}

/// Returns all qdiscs below a node.
pub(crate) fn under(node: &Arc<Node>) -> Vec<Arc<Node>> {
    let mut found = Vec::new();
    let mut walk = vec![node.clone()];
    while let Some(node) = walk.pop() {
        let leaves = node.lock().qdisc.children();
        found.extend(leaves.iter().cloned());
        walk.extend(leaves.into_iter().rev());
    }
    found
}

impl DeviceTc {
    /// Creates the state of a device without qdiscs and filters.
    pub fn new(domain: &Domain) -> Self {
        Self {
            queue: PublishedOption::new(domain, None),
            extras: OnceBox::default(),
            tree: Mutex::default(),
        }
    }

    /// Returns the parts that most devices lack, to be changed.
    fn extras(&self) -> &Extras {
        let domain = self.queue.domain();
        self.extras.get_or_make(|| Extras {
            ingress: PublishedOption::new(domain, None),
            egress: PublishedOption::new(domain, None),
            xps: PublishedOption::new(domain, None),
        })
    }

    pub(crate) fn tree(&self) -> MutexGuard<'_, Tree, order::Tree> {
        self.tree.lock()
    }

    /// Publishes the root to the data path. The caller holds the tree's lock.
    pub(crate) fn publish_root(&self, root: Option<&Arc<Node>>) {
        let waits = root.filter(|root| root.ops.kind != qdisc::noqueue::OPS.kind);
        let queues = waits.map(Queues::of);
        // The XPS maps are reset whenever a root with traffic classes is added or removed, even if
        // the classes are the same.
        let classes = |queues: Option<&Queues>| {
            let classes = queues.and_then(|queues| queues.classes);
            (
                queues
                    .filter(|_| classes.is_some())
                    .map(|queues| queues.handle),
                classes,
            )
        };
        if let Some(extras) = self.extras.get() {
            let guard = self.queue.domain().pin();
            if classes(self.queue.load(&guard)) != classes(queues.as_ref()) {
                // As in `netdev_set_num_tc` and `netdev_reset_tc`.
                extras.xps.replace(None);
            }
        }
        self.queue.replace(queues);
    }

    /// Stops the published root, or the roots of the queues, before `new` is published. The caller holds
    /// the tree's lock.
    pub(crate) fn stop_root(&self, new: Option<&Arc<Node>>) {
        let guard = self.queue.domain().pin();
        let queues = self.queue.load(&guard);
        let roots = queues.into_iter().flat_map(|queues| &queues.roots);
        let stays = |root: &&Arc<Node>| new.is_some_and(|new| Arc::ptr_eq(new, root));
        let old = roots.flatten().filter(|root| !stays(root));
        old.for_each(|root| root.stop());
    }

    /// Publishes the hooks to the data path. The caller holds the tree's lock.
    pub(crate) fn publish_hooks(&self, node: Option<&Arc<Node>>) {
        let (ingress, egress) = match node {
            Some(node) => node.lock().qdisc.hooks(),
            None => (None, None),
        };
        let hook = |block: Option<Arc<Block>>| {
            let node = node?.clone();
            block.map(|block| Hook { block, node })
        };
        let (ingress, egress) = (hook(ingress), hook(egress));
        if ingress.is_some() || egress.is_some() || self.extras.get().is_some() {
            let extras = self.extras();
            extras.ingress.replace(ingress);
            extras.egress.replace(egress);
        }
    }

    /// Returns the block of a hook. Returns `None` if the block is shared, or if the root has the
    /// same handle as the hooks' qdisc.
    pub(crate) fn hook_block<'g>(
        &'g self,
        ingress: bool,
        guard: &'g Guard,
    ) -> Option<&'g Arc<Block>> {
        let hook = match ingress {
            true => self.ingress_hook(guard),
            false => self.egress_hook(guard),
        }?;
        let root = self.queue.load(guard).map(|queues| queues.handle);
        let plain = !hook.block.is_shared() && root != Some(hook.node.handle);
        plain.then_some(&hook.block)
    }

    /// Attaches the default root qdisc if the device comes up without one (`dev_activate`).
    pub fn activate(&self, device: &Arc<dyn Device>, env: &Env<'_>) {
        let mut tree = self.tree();
        if tree.root.is_some() || !env.host.has(&**device) {
            return;
        }
        let node = if device.no_queue() {
            env.net.noqueue().clone()
        } else {
            Self::default_root(device, env)
        };
        self.publish_root(Some(&node));
        tree.root = Some(node);
    }

    /// Makes the default root qdisc of a device with a queue.
    fn default_root(device: &Arc<dyn Device>, env: &Env<'_>) -> Arc<Node> {
        let kind = match device.tx_queues() {
            1 => env.host.default_qdisc(),
            _ => qdisc::mq::OPS.kind,
        };
        let ops = qdisc::find_ops(kind.as_bytes()).unwrap_or(&qdisc::noqueue::OPS);
        let create = Create {
            env,
            device,
            handle: 0,
            parent: h::ROOT,
            options: None,
            ingress_block: 0,
            egress_block: 0,
            other_netem: None,
        };
        let Ok(qdisc) = (ops.create)(&create) else {
            return env.net.noqueue().clone();
        };
        let node = Node::new(ops, qdisc, 0, h::ROOT, false);
        create.number(&node);
        // A plain qdisc is attached once for each queue, as Linux counts.
        node.refs.store(if ops.queues { 1 } else { 2 }, Relaxed);
        node
    }

    /// Deactivates the qdiscs of a device that went down (`dev_deactivate`);
    /// [`is_up`](Device::is_up) is already false. Returns the queued packets, which the caller
    /// frees and counts. From now on nothing is queued.
    pub fn deactivate(&self, guard: &Guard) -> Drops {
        let _tree = self.tree();
        let mut drops = Drops::new();
        if let Some(queues) = self.queue.load(guard) {
            let roots = queues.roots.iter().flatten();
            roots.for_each(|root| root.deactivate(&mut drops));
        }
        drops
    }

    /// Destroys the qdiscs and filters of a device that is being unregistered (`dev_shutdown`),
    /// without notifications. Returns the queued packets, which the caller frees and counts.
    pub fn shutdown(&self, env: &Env<'_>) -> Drops {
        let (root, ingress) = {
            let mut tree = self.tree();
            self.publish_root(None);
            self.publish_hooks(None);
            tree.children = Rare::default();
            (tree.root.take(), tree.ingress.take())
        };
        let mut drops = Drops::new();
        for node in root.into_iter().chain(ingress) {
            node.destroy(env, &mut drops);
        }
        drops
    }

    /// Returns the root's kind (`IFLA_QDISC`).
    pub fn root_kind(&self) -> &'static str {
        self.tree()
            .root
            .as_ref()
            .map_or("noop", |root| root.ops.kind)
    }

    /// Returns the root's counters: bytes, packets, queue.
    pub fn root_stats(&self) -> Option<(u64, u64, Queue)> {
        let root = self.tree().root.clone();
        root.map(|root| root.stats())
    }

    /// Returns whether received packets are classified.
    #[inline]
    pub fn has_ingress(&self) -> bool {
        let extras = self.extras.get();
        extras.is_some_and(|extras| extras.ingress.is_some())
    }

    /// Returns the ingress hook.
    pub(crate) fn ingress_hook<'g>(&'g self, guard: &'g Guard) -> Option<&'g Hook> {
        self.extras.get()?.ingress.load(guard)
    }

    /// Returns the egress hook.
    pub(crate) fn egress_hook<'g>(&'g self, guard: &'g Guard) -> Option<&'g Hook> {
        self.extras.get()?.egress.load(guard)
    }

    /// Returns whether packets to be sent are classified before they are queued.
    #[inline]
    pub fn has_egress(&self) -> bool {
        let extras = self.extras.get();
        extras.is_some_and(|extras| extras.egress.is_some())
    }

    /// Runs the ingress filters on a received packet (`sch_handle_ingress`). The MAC and network
    /// headers are set.
    #[inline]
    pub fn ingress<'g>(&'g self, cx: &mut Context<'_, 'g>, packet: &mut Packet) -> Verdict {
        cx.ingress = true;
        match self.ingress_hook(cx.guard) {
            Some(hook) => hook.run(cx, packet, DropReason::TC_INGRESS),
            None => Verdict::Pass,
        }
    }

    /// Runs the egress filters on a packet to be sent (`sch_handle_egress`). Its data begin at the
    /// MAC header.
    #[inline]
    pub fn egress<'g>(&'g self, cx: &mut Context<'_, 'g>, packet: &mut Packet) -> Verdict {
        cx.ingress = false;
        match self.egress_hook(cx.guard) {
            Some(hook) => hook.run(cx, packet, DropReason::TC_EGRESS),
            None => Verdict::Pass,
        }
    }

    /// Does the same as [`ingress`](Self::ingress) for a batch. Packets that pass stay in the
    /// batch, in order; redirected packets go to [`Context::copies`], all others to `ended`. If
    /// [`Context::whole`] is set afterwards, all packets are still in the batch and leave it together. With the batch
    /// comes what the caller knows of it.
    pub fn ingress_batch<'g>(
        &'g self,
        cx: &mut Context<'_, 'g>,
        lookup: &mut Lookup,
        (batch, received): (&mut Batch, Option<Received>),
        ended: &mut Vec<Ended>,
    ) {
        (cx.ingress, cx.received) = (true, received);
        if let Some(hook) = self.ingress_hook(cx.guard) {
            hook.run_batch(cx, lookup, batch, DropReason::TC_INGRESS, ended);
        }
    }

    /// Does the same as [`egress`](Self::egress) for a batch, in the manner of
    /// [`ingress_batch`](Self::ingress_batch). Bit n of the result says that an action has chosen
    /// the transmit queue of the n-th packet left in the batch (`netdev_xmit_skip_txqueue`).
    pub fn egress_batch<'g>(
        &'g self,
        cx: &mut Context<'_, 'g>,
        lookup: &mut Lookup,
        batch: &mut Batch,
        ended: &mut Vec<Ended>,
    ) -> u64 {
        (cx.ingress, cx.received) = (false, None);
        match self.egress_hook(cx.guard) {
            Some(hook) => hook.run_batch(cx, lookup, batch, DropReason::TC_EGRESS, ended),
            None => 0,
        }
    }

    /// Returns whether packets to be sent are queued. If not, they go directly to the device.
    #[inline]
    pub fn has_queue(&self) -> bool {
        self.queue.is_some()
    }

    /// Adds packets to the lockless list in front of queue `queue`, an index below
    /// [`roots`](Self::roots). At most `burst` packets may wait there. Any thread may call this.
    ///
    /// A caller that gets a [`Worker`] must work on the queue on behalf of all callers; its first
    /// round takes the packets left in the batch. If a request removes the queue in the meantime,
    /// the packets are dropped. If too many packets wait, a `patient` caller, which must not itself
    /// be working on a queue, waits for at most some milliseconds.
    pub fn push<'g>(
        &'g self,
        guard: &'g Guard,
        queue: usize,
        batch: &mut Batch,
        (burst, patient): (u32, bool),
        drops: &mut Drops,
    ) -> Option<Worker<'g>> {
        let Some(root) = self.root_of(guard, queue) else {
            drops.extend(batch.drain().map(|packet| (packet, DropReason::QDISC_DROP)));
            return None;
        };
        root.push(batch, (burst, patient), drops)
    }

    /// Requests a [`Worker`] for queue `queue` because packets may be able to leave it now.
    pub fn ask<'g>(&'g self, guard: &'g Guard, queue: usize) -> Option<Worker<'g>> {
        self.root_of(guard, queue)?.ask()
    }

    /// Returns when to call [`ask`](Self::ask) for queue `queue` again, in nanoseconds of the
    /// stack's clock, if packets wait and none may leave yet.
    pub fn next_event(&self, guard: &Guard, queue: usize) -> Option<u64> {
        self.root_of(guard, queue)?.lock().next_event()
    }

    fn root_of<'g>(&'g self, guard: &'g Guard, queue: usize) -> Option<&'g Arc<Node>> {
        self.queue.load(guard)?.roots.get(queue)?.as_ref()
    }

    /// Returns the kind, the handle and the lock statistics of the qdisc at transmit queue `queue`,
    /// an index below [`roots`](Self::roots).
    pub fn lock_stats(
        &self,
        guard: &Guard,
        queue: usize,
    ) -> Option<(&'static str, u32, LockStats)> {
        let root = self.root_of(guard, queue)?;
        Some((root.ops.kind, root.handle, root.lock_stats()))
    }

    /// Returns the number of roots: one for all transmit queues together, or one for each.
    pub fn roots(&self, guard: &Guard) -> usize {
        let queues = self.queue.load(guard);
        queues.map_or(1, |queues| queues.roots.len())
    }

    /// Chooses one of the device's `count` transmit queues for each packet of a batch that `cpu`
    /// sends. `chosen` is the result of [`egress_batch`](Self::egress_batch).
    pub fn pick(&self, guard: &Guard, cpu: usize, count: u32, batch: &mut Batch, chosen: u64) {
        if count == 1 {
            return batch.iter_mut().for_each(|packet| packet.queue = 0);
        }
        let queues = self.queue.load(guard);
        let classes = queues.and_then(|queues| queues.classes.as_ref());
        let maps = self.xps(guard);
        for (n, packet) in batch.iter_mut().enumerate() {
            packet.queue = match chosen >> n & 1 {
                1 => txq::cap(packet.queue, count),
                _ => maps
                    .and_then(|maps| maps.pick(cpu, packet, count, classes))
                    .unwrap_or_else(|| txq::pick(packet, count, classes)),
            };
        }
    }

    /// Returns the maps from CPUs to transmit queues, if there are any.
    fn xps<'g>(&'g self, guard: &'g Guard) -> Option<&'g xps::Maps> {
        self.extras.get()?.xps.load(guard)
    }

    /// Returns the CPUs whose packets use transmit queue `queue` (`xps_cpus`).
    ///
    /// # Errors
    /// EINVAL if the queue belongs to no traffic class.
    pub fn xps_cpus(&self, guard: &Guard, queue: u16) -> Result<BTreeSet<usize>, Error> {
        let queues = self.queue.load(guard);
        let classes = queues.and_then(|queues| queues.classes.as_ref());
        let none = xps::Maps::default();
        self.xps(guard).unwrap_or(&none).cpus(queue, classes)
    }

    /// Returns the traffic class whose packets use a transmit queue.
    ///
    /// # Errors
    /// EINVAL if the queue belongs to no traffic class.
    pub fn traffic_class(&self, guard: &Guard, queue: u16) -> Result<u8, Error> {
        let queues = self.queue.load(guard);
        let classes = queues.and_then(|queues| queues.classes.as_ref());
        xps::class_of(queue, classes).ok_or(Error::new(weir_netlink::errno::EINVAL))
    }

    /// Sets the CPUs whose packets use transmit queue `queue` (`xps_cpus`).
    ///
    /// # Errors
    /// EINVAL if the queue belongs to no traffic class.
    pub fn set_xps_cpus(
        &self,
        guard: &Guard,
        queue: u16,
        cpus: &BTreeSet<usize>,
    ) -> Result<(), Error> {
        let _tree = self.tree();
        let queues = self.queue.load(guard);
        let mut maps = self.xps(guard).cloned().unwrap_or_default();
        maps.set(
            queue,
            cpus,
            queues.and_then(|queues| queues.classes.as_ref()),
        )?;
        let maps = Some(maps).filter(|maps| !maps.is_empty());
        self.extras().xps.replace(maps);
        Ok(())
    }
}

impl Hook {
    fn run<'g>(
        &'g self,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        reason: DropReason,
    ) -> Verdict {
        if self.block.is_empty(cx) {
            return Verdict::Pass;
        }
        // A packet that an ifb has sent on skips the next classification, and only that one
        // (`tc_skip_classify`).
        if packet.flags.contains(Flags::SKIP_CLASSIFY) {
            packet.flags.remove(Flags::SKIP_CLASSIFY);
            return Verdict::Pass;
        }
        cx.start_packet(cx.skb_len(packet), packet);
        let counters = &self.node.hook_counters;
        counters.count(cx.cpu, cx.packets(), cx.packet_len());
        let mut out = Outcome::default();
        let code = self.block.classify(cx, packet, &mut out);
        let verdict = verdict(code, &out, packet, reason);
        if let Verdict::Drop(_) = verdict {
            self.node.hook_counters.count_drop(cx.cpu);
        }
        verdict
    }

    /// Looks up all packets as a batch, then walks those that match something, in order.
    fn run_batch<'g>(
        &'g self,
        cx: &mut Context<'_, 'g>,
        lookup: &mut Lookup,
        batch: &mut Batch,
        reason: DropReason,
        ended: &mut Vec<Ended>,
    ) -> u64 {
        let Some(chain) = self.block.first_chain(cx) else {
            return 0;
        };
        let received = cx.received.or_else(|| look_at(batch));
        cx.received = received;
        let (wanted, bytes, count) = match received {
            Some(received) => (
                all_of(batch),
                received.skb_len(cx, batch),
                batch.len() as u64,
            ),
            None => measure(cx, batch),
        };
        self.node.hook_counters.count(cx.cpu, count, bytes);
        let mut starts = Starts::new();
        chain.find_batch((batch, received), wanted, lookup, cx.guard, &mut starts);
        let walking = starts.walking();
        if walking == 0 {
            return 0;
        }
        starts.prefetch(cx.cpu);
        if self.run_together(cx, (&starts, bytes), batch, reason, ended) {
            return 0;
        }
        starts.prefetch_for_actions(cx, batch);
        let mut packets = 0..BATCH;
        let (mut chosen, mut kept, mut dropped) = (0, 0, 0);
        batch.filter_map(|mut packet| {
            let n = packets.next().unwrap_or_default();
            if walking >> n & 1 == 0 {
                kept += 1;
                return Some(packet);
            }
            cx.queue_chosen = false;
            cx.start_packet(cx.skb_len(&packet), &packet);
            let mut out = Outcome::default();
            let code = chain.walk_from((&starts, n), cx, &mut packet, &mut out);
            match verdict(code, &out, &mut packet, reason) {
                Verdict::Pass => {
                    chosen |= u64::from(cx.queue_chosen) << kept;
                    kept += 1;
                    return Some(packet);
                }
                Verdict::Redirect(target) => cx.copies.push(Copy {
                    packet,
                    target,
                    itself: true,
                    reassembled: cx.reassembled,
                }),
                Verdict::Drop(reason) => {
                    dropped += 1;
                    ended.push((packet, Some(reason)));
                }
                Verdict::Consumed => ended.push((packet, None)),
            }
            None
        });
        if dropped > 0 {
            self.node.hook_counters.count_drops(cx.cpu, dropped);
        }
        chosen
    }
}

/// Returns a bit for each packet of a batch.
#[inline]
fn all_of(batch: &Batch) -> u64 {
    u64::MAX
        .checked_shr((BATCH - batch.len()) as u32)
        .unwrap_or(0)
}

impl Received {
    /// Returns the sum of the lengths of the batch's packets as [`Context::skb_len`] counts them.
    fn skb_len(&self, cx: &Context<'_, '_>, batch: &Batch) -> u64 {
        match cx.ingress {
            true => self.bytes - (batch.len() * Ethernet::LEN) as u64,
            false => self.bytes,
        }
    }
}

/// Returns what the receive path would know of a batch. Most batches are as their reception left them, and their packets
/// need no tests of their own.
#[inline]
fn look_at(batch: &Batch) -> Option<Received> {
    let (mut altered, mut bytes, mut shortest) = (0, 0, u32::MAX);
    for packet in batch {
        altered |= packet.altered(Ethernet::LEN);
        shortest = shortest.min(packet.len() as u32);
        bytes += packet.len() as u64;
    }
    // Shorter ones begin with no complete header.
    let received = altered == 0 && shortest >= Ethernet::LEN as u32;
    received.then_some(Received {
        protocol: None,
        shortest,
        bytes,
    })
}

/// Returns a bit for each packet that is to be classified, the sum of their lengths and the number of packets on the
/// wire.
fn measure(cx: &Context<'_, '_>, batch: &mut Batch) -> (u64, u64, u64) {
    let (mut wanted, mut bytes, mut count) = (0, 0, 0);
    for (i, packet) in batch.iter_mut().enumerate() {
        // See `run`.
        if packet.flags.contains(Flags::SKIP_CLASSIFY) {
            packet.flags.remove(Flags::SKIP_CLASSIFY);
            continue;
        }
        wanted |= 1 << i;
        bytes += cx.skb_len(packet);
        count += packet.wire_packets();
    }
    (wanted, bytes, count)
}

/// Translates the final code of a packet's walk into a verdict.
#[inline]
fn verdict(code: Code, out: &Outcome<'_>, packet: &mut Packet, reason: DropReason) -> Verdict {
    match code {
        code::OK | code::RECLASSIFY => {
            packet.tc_index = (out.classid & h::MIN_MASK) as u16;
            Verdict::Pass
        }
        code::SHOT => Verdict::Drop(out.reason.unwrap_or(reason)),
        code::STOLEN | code::QUEUED | code::TRAP => Verdict::Consumed,
        code::CONSUMED => out.target.map_or(Verdict::Consumed, Verdict::Redirect),
        _ => Verdict::Pass,
    }
}
