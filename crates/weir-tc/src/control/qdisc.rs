// SPDX-License-Identifier: Apache-2.0 OR MIT
//! RTM_NEWQDISC, RTM_DELQDISC, RTM_GETQDISC.
//!
//! Mirrors `tc_modify_qdisc`, `tc_get_qdisc`, `qdisc_graft` and `tc_dump_qdisc`
//! (net/sched/sch_api.c). [`handle`] returns the packets queued in removed qdiscs, which the caller
//! frees and counts.
//!
//! Not implemented: rate estimators (`TCA_RATE`) of ingress qdiscs are refused; an existing qdisc
//! cannot be moved to another class (`qdisc_refcount_inc` and graft), only grafted where it already
//! is.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::errno::{E2BIG, EEXIST, EINVAL, ELOOP, ENODEV, ENOENT, ENOSPC, EOPNOTSUPP};
use weir_netlink::tca::{self, h};
use weir_netlink::{Error, Full, Message, Strictness, Table, TcMsg, Writer, nlm, rtm};

use super::{DumpCx, POLICY, Request, device};
use crate::counters::put_queue_stats;
use crate::device::{Tree, under};
use crate::env::{Env, Reply, Requester};
use crate::estimator::Estimator;
use crate::host::Device;
use crate::qdisc::stab::SizeTable;
use crate::qdisc::{self, Create, Drops, Gone, Node, Ops};
use crate::unsupported;

fn text(errno: i32, message: &'static str) -> Error {
    Error::msg(errno, message)
}

/// Serves a request other than a dump. Returns the packets that were queued in removed qdiscs.
pub fn handle(request: &Request<'_>, reply: &mut Reply) -> Result<Drops, Error> {
    let (tcm, tb) = request.parse()?;
    let device = device(request.env, tcm.ifindex)?;
    let mut job = Job {
        request,
        device,
        tcm,
        tb,
        gone: Gone::default(),
    };
    match request.ty() {
        rtm::NEWQDISC => job.modify(reply)?,
        _ => job.get_or_delete(reply)?,
    }
    Ok(job.gone.finish(request.env))
}

struct Job<'a> {
    request: &'a Request<'a>,
    device: Arc<dyn Device>,
    tcm: TcMsg,
    tb: Table<'a>,
    gone: Gone,
}

/// Returns the qdisc under a class (`qdisc_leaf`).
fn leaf(parent: &Arc<Node>, classid: u32) -> Result<Option<Arc<Node>>, Error> {
    if !parent.ops.classful {
        return Err(text(EOPNOTSUPP, "Parent qdisc is not classful"));
    }
    let inner = parent.lock();
    match inner.qdisc.find(classid) {
        0 => Err(text(ENOENT, "Specified class not found")),
        _ if parent.ops.own_leaves => Ok(Some(parent.clone())),
        class => Ok(inner.qdisc.leaf(class)),
    }
}

/// Returns whether any other `netem` in the tree duplicates packets, or `None` if there is no other
/// `netem` (`check_netem_in_tree`).
fn other_netem(tree: &Tree, this: Option<&Arc<Node>>) -> Option<bool> {
    let all = tree.root.iter().cloned().chain(tree.children());
    all.filter(|node| this.is_none_or(|this| !Arc::ptr_eq(this, node)))
        .filter_map(|node| node.lock().qdisc.duplicates())
        .reduce(|a, b| a | b)
}

impl<'a> Job<'a> {
    fn env(&self) -> &'a Env<'a> {
        self.request.env
    }

    fn kind_is(&self, kind: &str) -> bool {
        let wanted = self.tb.get(tca::KIND);
        wanted.is_none_or(|wanted| wanted.c_str() == kind.as_bytes())
    }

    /// Checks a request to show or delete against the qdisc it found. Returns whether the request
    /// is to delete.
    fn deletes(&self, handle: u32, kind: &str) -> Result<bool, Error> {
        let classid = self.tcm.parent;
        if classid != 0 && self.tcm.handle != 0 && handle != self.tcm.handle {
            return Err(text(EINVAL, "Invalid handle"));
        }
        if !self.kind_is(kind) {
            return Err(text(EINVAL, "Invalid qdisc name"));
        }
        if self.request.ty() != rtm::DELQDISC {
            return Ok(false);
        }
        if classid == 0 {
            return Err(text(EINVAL, "Classid cannot be zero"));
        }
        if handle == 0 {
            return Err(text(ENOENT, "Cannot delete qdisc with handle of zero"));
        }
        Ok(true)
    }

    /// Shows or deletes a qdisc (`tc_get_qdisc`).
    fn get_or_delete(&mut self, reply: &mut Reply) -> Result<(), Error> {
        let device = self.device.clone();
        let mut tree = device.tc().tree();
        let classid = self.tcm.parent;
        let mut parent = None;
        let node = if classid == 0 {
            let node = tree.find(self.tcm.handle);
            node.ok_or(text(ENOENT, "Failed to find qdisc with specified handle"))?
        } else {
            let node = if classid == h::ROOT {
                tree.root.clone()
            } else if classid & h::MAJ_MASK == h::INGRESS & h::MAJ_MASK {
                tree.ingress.clone()
            } else {
                let found = tree.find(classid & h::MAJ_MASK);
                let above = "Failed to find qdisc with specified classid";
                let above = found.ok_or(text(ENOENT, above))?;
                let node = leaf(&above, classid)?;
                parent = Some(above);
                node
            };
            let builtin = match &parent {
                Some(above) => {
                    let inner = above.lock();
                    inner.qdisc.is_empty(inner.qdisc.find(classid))
                }
                None => classid == h::ROOT || tree.ingress_queue,
            };
            match node {
                Some(node) => node,
                // The builtin qdisc, which is not shown, of a class or of a device that was never
                // up.
                None if builtin => return self.deletes(0, "noop").map(|_| ()),
                None => {
                    let missing = "Cannot find specified qdisc on specified device";
                    return Err(text(ENOENT, missing));
                }
            }
        };
        if !self.deletes(node.handle, node.ops.kind)? {
            self.notify(classid, false, None, Some(&node), reply);
            return Ok(());
        }
        self.graft(&mut tree, parent.as_ref(), Some(node), None, reply)?;
        let up = self.device.is_up();
        drop(tree);
        if classid == h::ROOT && up {
            device.tc().activate(&device, self.env());
        }
        Ok(())
    }

    /// Creates or changes a qdisc (`tc_modify_qdisc`).
    fn modify(&mut self, reply: &mut Reply) -> Result<(), Error> {
        let device = self.device.clone();
        let mut tree = device.tc().tree();
        if !self.env().host.has(&*device) {
            return Err(Error::new(ENODEV));
        }
        let (classid, handle) = (self.tcm.parent, self.tcm.handle);
        let mut parent = None;
        if classid == 0 {
            if handle == 0 {
                return Err(text(EINVAL, "Handle cannot be zero"));
            }
            let node = tree.find(handle);
            return self.change(&tree, node, reply);
        }
        let mut node = if classid == h::ROOT {
            tree.root.clone()
        } else if classid == h::INGRESS {
            tree.ingress_queue = true;
            tree.ingress.clone()
        } else {
            let found = tree.find(classid & h::MAJ_MASK);
            let above = found.ok_or(text(ENOENT, "Failed to find specified qdisc"))?;
            let node = leaf(&above, classid)?;
            parent = Some(above);
            node
        };
        // A default qdisc may be replaced without any flag.
        node = node.filter(|node| node.handle != 0);

        let same = node
            .as_ref()
            .is_some_and(|node| handle != 0 && node.handle == handle);
        if same {
            return self.change(&tree, node, reply);
        }
        if handle != 0 {
            if node.is_some() && !self.request.has(nlm::F_REPLACE) {
                return Err(text(EEXIST, "NLM_F_REPLACE needed to override"));
            }
            if handle & h::MIN_MASK != 0 {
                return Err(text(EINVAL, "Invalid minor handle"));
            }
            if let Some(other) = tree.find(handle) {
                return self.regraft(&other, parent.as_ref());
            }
        } else if let Some(present) = &node {
            let (create, replace) = (
                self.request.has(nlm::F_CREATE),
                self.request.has(nlm::F_REPLACE),
            );
            let exclusive = self.request.has(nlm::F_EXCL);
            if self.kind_is(present.ops.kind) {
                return self.change(&tree, node, reply);
            }
            if !(create && (replace || exclusive)) && (create || replace || exclusive) {
                return self.change(&tree, node, reply);
            }
            if !create {
                return self.create_and_graft(&mut tree, parent.as_ref(), reply);
            }
        }
        if !self.request.has(nlm::F_CREATE) {
            let message = "Qdisc not found. To create specify NLM_F_CREATE flag";
            return Err(text(ENOENT, message));
        }
        self.create_and_graft(&mut tree, parent.as_ref(), reply)
    }

    /// Handles a request whose qdisc already exists, under this parent or another.
    fn regraft(&self, node: &Arc<Node>, parent: Option<&Arc<Node>>) -> Result<(), Error> {
        if node.parent.load(Relaxed) != self.tcm.parent {
            let message = "Cannot move an existing qdisc to a different parent";
            return Err(text(EINVAL, message));
        }
        if self.request.has(nlm::F_EXCL) {
            return Err(text(EEXIST, "Exclusivity flag on, cannot override"));
        }
        if !self.kind_is(node.ops.kind) {
            return Err(text(EINVAL, "Invalid qdisc name"));
        }
        if node.ops.ingress {
            return Err(text(EINVAL, "Cannot regraft ingress or clsact Qdiscs"));
        }
        if parent.is_some_and(|parent| Arc::ptr_eq(parent, node)) {
            return Err(text(ELOOP, "Qdisc parent/child loop detected"));
        }
        if self.tcm.parent == h::INGRESS {
            return Err(text(EINVAL, "Ingress cannot graft directly"));
        }
        Ok(())
    }

    /// Changes a qdisc (the second half of `tc_modify_qdisc`, and `qdisc_change`).
    fn change(
        &mut self,
        tree: &Tree,
        node: Option<Arc<Node>>,
        reply: &mut Reply,
    ) -> Result<(), Error> {
        let node = node.ok_or(text(ENOENT, "Specified qdisc not found"))?;
        if self.request.has(nlm::F_EXCL) {
            return Err(text(EEXIST, "Exclusivity flag on, cannot modify"));
        }
        if !self.kind_is(node.ops.kind) {
            return Err(text(EINVAL, "Invalid qdisc name"));
        }
        let options = self.tb.get(tca::OPTIONS);
        if options.is_some() {
            if !node.ops.can_change {
                let message = "Change operation not supported by specified qdisc";
                return Err(text(EINVAL, message));
            }
            if self.tb.has(tca::INGRESS_BLOCK) || self.tb.has(tca::EGRESS_BLOCK) {
                return Err(text(EOPNOTSUPP, "Change of blocks is not supported"));
            }
        }
        let stab = self.stab()?;
        // As in Linux, an invalid estimator is ignored.
        let estimator = match self.estimator(node.ops, (0, 0)) {
            Err(error) if error.errno == EOPNOTSUPP && !node.ops.queues => return Err(error),
            estimator => estimator.ok().flatten(),
        };
        if options.is_some() {
            let device = self.device.clone();
            let create = Create {
                env: self.request.env,
                device: &device,
                handle: node.handle,
                parent: node.parent.load(Relaxed),
                options,
                ingress_block: 0,
                egress_block: 0,
                other_netem: other_netem(tree, Some(&node)),
            };
            let gone = &mut self.gone;
            tree.change(&node, |inner| {
                inner.request(gone, |qdisc, gone| qdisc.change(&create, gone))
            })?;
            if std::mem::take(&mut gone.wake) && tree.root.is_some() {
                tree.entrance(&node).lock().wake_at(create.now());
            }
        }
        {
            let mut inner = node.lock();
            inner.stab = stab;
            if let Some(new) = estimator {
                let new = new.starting_at((inner.bytes, inner.packets));
                inner.estimator = Some(Box::new(new.replacing(inner.estimator.as_deref())));
            }
        }
        self.notify(self.tcm.parent, false, None, Some(&node), reply);
        Ok(())
    }

    /// Parses `TCA_STAB`.
    fn stab(&self) -> Result<Option<Box<SizeTable>>, Error> {
        let stab = self.tb.get(tca::STAB);
        stab.map(|nest| SizeTable::parse(&nest).map(Box::new))
            .transpose()
    }

    /// Parses `TCA_RATE` for counters with the current values `counters`.
    fn estimator(&self, ops: &Ops, counters: (u64, u64)) -> Result<Option<Box<Estimator>>, Error> {
        let Some(rate) = self.tb.get(tca::RATE) else {
            return Ok(None);
        };
        if ops.ingress {
            // The counters of these qdiscs are per CPU, and counting a packet does not check the
            // time.
            let message = "Rate estimators are not supported on ingress and clsact qdiscs";
            return Err(Error::unsupported(message).at(&rate));
        }
        if ops.queues {
            let message = "Cannot attach rate estimator to a multi-queue root qdisc";
            return Err(text(EOPNOTSUPP, message));
        }
        let estimator = Estimator::parse(&rate, self.env().host.now(), counters);
        estimator.map(|estimator| Some(Box::new(estimator)))
    }

    fn block_index(&self, ty: u16, ops: &Ops) -> Result<u32, Error> {
        let Some(index) = self.tb.get(ty) else {
            return Ok(0);
        };
        let ingress = ty == tca::INGRESS_BLOCK;
        let index = index.u32()?;
        if index == 0 {
            let which = if ingress {
                "Ingress block index cannot be 0"
            } else {
                "Egress block index cannot be 0"
            };
            return Err(text(EINVAL, which));
        }
        match (ingress, ops.shares) {
            (true, (true, _)) | (false, (_, true)) => Ok(index),
            (true, _) => Err(text(EOPNOTSUPP, "Ingress block sharing is not supported")),
            (false, _) => Err(text(EOPNOTSUPP, "Egress block sharing is not supported")),
        }
    }

    /// Creates a qdisc (`qdisc_create`).
    fn create(&self, tree: &Tree) -> Result<Arc<Node>, Error> {
        let kind = self.tb.get(tca::KIND);
        let kind = kind.as_ref().map_or(&b""[..], |kind| kind.c_str());
        let ops = qdisc::find_ops(kind).ok_or_else(|| {
            let unknown = text(ENOENT, "Specified qdisc kind is unknown");
            unsupported::unknown(kind, unsupported::QDISCS, unknown)
        })?;
        let parent = self.tcm.parent;
        let handle = if parent == h::INGRESS {
            if !ops.ingress {
                let message = "Specified parent ID is reserved for ingress and clsact Qdiscs";
                return Err(text(EINVAL, message));
            }
            h::INGRESS & h::MAJ_MASK
        } else if self.tcm.handle == 0 {
            let free = self
                .env()
                .net
                .handles()
                .free(|handle| tree.find(handle).is_some());
            free.ok_or(text(ENOSPC, "Maximum number of qdisc handles was exceeded"))?
        } else {
            self.tcm.handle
        };
        let create = Create {
            env: self.env(),
            device: &self.device,
            handle,
            parent,
            options: self.tb.get(tca::OPTIONS),
            ingress_block: self.block_index(tca::INGRESS_BLOCK, ops)?,
            egress_block: self.block_index(tca::EGRESS_BLOCK, ops)?,
            other_netem: other_netem(tree, None),
        };
        let qdisc = (ops.create)(&create)?;
        let node = Node::new(ops, qdisc, handle, parent, false);
        let rest = self.stab().and_then(|stab| {
            let estimator = self
                .estimator(ops, (0, 0))
                .map_err(|error| error.or_msg("Failed to generate new estimator"))?;
            Ok((stab, estimator))
        });
        match rest {
            Ok((stab, estimator)) => {
                let mut inner = node.lock();
                (inner.stab, inner.estimator) = (stab, estimator);
            }
            Err(error) => {
                node.destroy(self.env(), &mut Drops::new());
                return Err(error);
            }
        }
        create.number(&node);
        Ok(node)
    }

    fn create_and_graft(
        &mut self,
        tree: &mut Tree,
        parent: Option<&Arc<Node>>,
        reply: &mut Reply,
    ) -> Result<(), Error> {
        let node = self.create(tree)?;
        let result = self.graft(tree, parent, None, Some(&node), reply);
        if result.is_err() {
            self.gone.nodes.push(node);
        }
        result
    }

    /// Attaches `new` where the request says, or removes `old` (`qdisc_graft`).
    fn graft(
        &mut self,
        tree: &mut Tree,
        parent: Option<&Arc<Node>>,
        old: Option<Arc<Node>>,
        new: Option<&Arc<Node>>,
        reply: &mut Reply,
    ) -> Result<(), Error> {
        let tc = self.device.clone();
        let tc = tc.tc();
        let old = if let Some(parent) = parent {
            self.graft_class(tree, parent, new)?
        } else if old.iter().chain(new).any(|node| node.ops.ingress) {
            // The old qdisc is removed before the new one is attached, because both may own the
            // same shared block.
            let old = std::mem::replace(&mut tree.ingress, new.cloned());
            tc.publish_hooks(new);
            old
        } else {
            if let Some(new) = new.filter(|new| !new.ops.attach) {
                new.refs.store(self.device.tx_queues() + 1, Relaxed);
            }
            let old = std::mem::replace(&mut tree.root, new.cloned());
            tc.stop_root(new);
            tc.publish_root(new);
            old
        };
        if let Some(new) = new.filter(|_| parent.is_some()) {
            tree.children.change().insert(new.handle, new.clone());
        }
        self.notify(
            self.tcm.parent,
            true,
            old.as_deref(),
            new.map(|new| &**new),
            reply,
        );
        if let Some(new) = new.filter(|new| new.ops.attach && !new.ops.queues) {
            new.refs.store(self.device.tx_queues() + 1, Relaxed);
        }
        if let Some(old) = old {
            if let Some(children) = tree.children.made() {
                for child in under(&old) {
                    children.remove(&child.handle);
                }
                children.remove(&old.handle);
            }
            self.gone.nodes.push(old);
        }
        Ok(())
    }

    fn graft_class(
        &mut self,
        tree: &Tree,
        parent: &Arc<Node>,
        new: Option<&Arc<Node>>,
    ) -> Result<Option<Arc<Node>>, Error> {
        // The classes of ingress and clsact cannot have qdiscs.
        if !parent.ops.classful || parent.ops.ingress {
            return Err(Error::new(EOPNOTSUPP));
        }
        if new.is_some_and(|new| new.ops.kind == qdisc::noqueue::OPS.kind) {
            return Err(text(EINVAL, "Cannot assign noqueue to a class"));
        }
        if new.is_some_and(|new| !parent.ops.queues && new.lock().stab.is_some()) {
            return Err(text(EINVAL, "STAB not supported on a non root"));
        }
        let depth = parent.depth.load(Relaxed);
        if new.is_some() && depth >= 7 {
            return Err(text(E2BIG, "Qdisc hierarchy is too deep"));
        }
        let device = self.device.clone();
        let create = Create {
            env: self.request.env,
            device: &device,
            handle: parent.handle,
            parent: parent.parent.load(Relaxed),
            options: None,
            ingress_block: 0,
            egress_block: 0,
            other_netem: None,
        };
        let (classid, gone) = (self.tcm.parent, &mut self.gone);
        let old = tree.change(parent, |inner| {
            let class = inner.qdisc.find(classid);
            if class == 0 {
                return Err(text(ENOENT, "Specified class not found"));
            }
            let refill = || create.pfifo(classid).node();
            let queue = match new {
                None if parent.ops.refills => refill(),
                new => new.cloned(),
            };
            inner.request(gone, |qdisc, gone| qdisc.graft(class, queue, &create, gone))
        })?;
        if let Some(new) = new {
            new.depth.store(depth + 1, Relaxed);
        }
        if parent.ops.queues {
            device.tc().publish_root(tree.root.as_ref());
        }
        Ok(old)
    }

    /// Notifies listeners about a change (`qdisc_notify`).
    fn notify(
        &self,
        classid: u32,
        grafts: bool,
        old: Option<&Node>,
        new: Option<&Node>,
        reply: &mut Reply,
    ) {
        let (env, by) = (self.env(), self.request.by);
        let get = self.request.ty() == rtm::GETQDISC;
        if !get && !env.notify_needed(&by) {
            return;
        }
        let mut w = Writer::new();
        let ifindex = self.device.ifindex();
        let shown = |node: &&Node| !node.invisible;
        // A grafted qdisc always replaces another one, at least the one that drops everything
        // (`noop_qdisc`).
        let replaces = if grafts { nlm::F_REPLACE } else { 0 };
        let asked = Requester { flags: 0, ..by };
        let all = [
            (old.filter(shown), rtm::DELQDISC, asked),
            (
                new.filter(shown),
                rtm::NEWQDISC,
                Requester {
                    flags: replaces,
                    ..by
                },
            ),
        ];
        for (node, ty, by) in all {
            if let Some(node) = node {
                // A writer without a limit cannot fail.
                let _ = write(&mut w, ty, by, ifindex, classid, node, env.host.now());
            }
        }
        env.notify(&by, Some(&mut *reply), w.bytes());
        // A plain request for one qdisc is answered with the notification, which is also sent to
        // the client.
        if get && !by.echo() {
            reply.out.raw(w.bytes());
        }
    }
}

/// Encodes a message about a qdisc (`tc_fill_qdisc`).
fn write(
    w: &mut Writer,
    ty: u16,
    by: Requester,
    ifindex: u32,
    classid: u32,
    node: &Node,
    now: u64,
) -> Result<(), Full> {
    let mark = w.message(ty, by.flags, by.seq, by.portid);
    w.fixed(&TcMsg {
        ifindex: ifindex as i32,
        parent: classid,
        handle: node.handle,
        // Linux detaches a qdisc from its queues before it notifies listeners, and releases an
        // ingress or clsact qdisc completely.
        info: match (ty, classid) {
            (rtm::DELQDISC, h::INGRESS) => 0,
            (rtm::DELQDISC, _) => 1,
            _ => node.refs.load(Relaxed),
        },
        ..TcMsg::default()
    });
    w.put_str(tca::KIND, node.ops.kind);
    let (bytes, packets, queue) = node.stats();
    let (app, rate) = {
        let mut inner = node.lock();
        inner.qdisc.settle(now);
        let (ingress, egress) = inner.qdisc.shared_blocks();
        if ingress != 0 {
            w.put_u32(tca::INGRESS_BLOCK, ingress);
        }
        if egress != 0 {
            w.put_u32(tca::EGRESS_BLOCK, egress);
        }
        inner.qdisc.dump(w);
        (inner.qdisc.app_stats(), inner.rate(now))
    };
    w.put_u8(tca::HW_OFFLOAD, 0);
    if let Some(stab) = &node.lock().stab {
        stab.dump(w);
    }
    put_queue_stats(
        w,
        false,
        Some((bytes, packets)),
        rate,
        &queue,
        (app, node.ops.nested_stats),
    );
    w.finish(mark)
}

/// A dump in progress. It continues after the last qdisc written, by device and position in its
/// tree.
pub struct Dump {
    invisible: bool,
    /// The index of the device being dumped, 0 before the first.
    ifindex: u32,
    /// The number of its qdiscs already written.
    done: usize,
}

/// Starts a dump.
pub fn dump(message: &Message<'_>) -> Result<Dump, Error> {
    let (_, tb) = message.parse::<TcMsg>(&POLICY, Strictness::Liberal)?;
    Ok(Dump {
        invisible: tb.has(tca::DUMP_INVISIBLE),
        ifindex: 0,
        done: 0,
    })
}

/// Returns whether a qdisc is the default one of a transmit queue that is not in use. It is not shown
/// (`mq_change_real_num_tx`).
fn is_unused(root: &Node, node: &Node, used: u32) -> bool {
    let parent = node.parent.load(Relaxed);
    let of_queue = root.ops.queues && parent & h::MAJ_MASK == root.handle;
    of_queue && node.handle == 0 && parent & h::MIN_MASK > used
}

impl Dump {
    /// Writes as many messages as fit, or only one. Returns `true` if nothing is left.
    pub fn fill(&mut self, cx: &DumpCx<'_>, w: &mut Writer, one: bool) -> Result<bool, Error> {
        let start = w.len();
        while let Some(device) = cx.env.host.next_device(self.ifindex.saturating_sub(1)) {
            if device.ifindex() != self.ifindex {
                (self.ifindex, self.done) = (device.ifindex(), 0);
            }
            let nodes: Vec<_> = {
                let tree = device.tc().tree();
                let (root, used) = (tree.root.iter(), device.used_tx_queues());
                let hidden = |node: &Arc<Node>| {
                    let root = tree.root.as_ref();
                    root.is_some_and(|root| is_unused(root, node, used))
                };
                root.cloned()
                    .chain(tree.children())
                    .chain(tree.ingress.iter().cloned())
                    .filter(|node| !hidden(node))
                    .collect()
            };
            for node in nodes.iter().skip(self.done) {
                if self.invisible || !node.invisible {
                    if one && w.len() > start {
                        return Ok(false);
                    }
                    let parent = node.parent.load(Relaxed);
                    let (ty, now) = (rtm::NEWQDISC, cx.env.host.now());
                    if write(w, ty, cx.by, self.ifindex, parent, node, now).is_err() {
                        return match w.is_empty() {
                            true => Err(Error::new(weir_netlink::errno::EMSGSIZE)),
                            false => Ok(false),
                        };
                    }
                }
                self.done += 1;
            }
            let Some(next) = self.ifindex.checked_add(1) else {
                break;
            };
            (self.ifindex, self.done) = (next, 0);
        }
        Ok(true)
    }
}
