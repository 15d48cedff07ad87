// SPDX-License-Identifier: Apache-2.0 OR MIT
//! RTM_NEWTCLASS, RTM_DELTCLASS, RTM_GETTCLASS.
//!
//! Mirrors `tc_ctl_tclass` and `tc_dump_tclass` (net/sched/sch_api.c).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::errno::{EEXIST, EINVAL, ENOENT, EOPNOTSUPP};
use weir_netlink::tca::{self, h};
use weir_netlink::{Error, Full, Message, TcMsg, Writer, nlm, rtm};

use super::{DumpCx, Request, device};
use crate::counters::{put_no_stats, put_queue_stats};
use crate::device::{Tree, under};
use crate::env::{Env, Reply, Requester};
use crate::estimator::Estimator;
use crate::qdisc::{Create, Drops, Gone, Inner, Node};

/// Serves a request other than a dump. Returns the packets that were queued in removed qdiscs.
pub fn handle(request: &Request<'_>, reply: &mut Reply) -> Result<Drops, Error> {
    let env = request.env;
    let (tcm, tb) = request.parse()?;
    let device = device(env, tcm.ifindex)?;
    let mut tree = device.tc().tree();
    let root = || tree.root.as_ref().map_or(0, |root| root.handle);

    // Both numbers may specify the qdisc; a part missing from one is taken from the other.
    let (mut parent, mut classid) = (tcm.parent, tcm.handle);
    let mut handle = classid & h::MAJ_MASK;
    if parent != h::ROOT {
        let above = parent & h::MAJ_MASK;
        if handle != 0 && above != 0 {
            if handle != above {
                return Err(Error::new(EINVAL));
            }
        } else if above != 0 {
            handle = above;
        } else if handle == 0 {
            handle = root();
        }
        if parent != 0 {
            parent = handle | (parent & h::MIN_MASK);
        }
    } else if handle == 0 {
        handle = root();
    }
    let node = tree.find(handle).ok_or(Error::new(ENOENT))?;
    if !node.ops.classful {
        return Err(Error::new(EINVAL));
    }
    if classid == 0 {
        if parent == h::ROOT {
            classid = handle;
        }
    } else {
        classid = handle | (classid & h::MIN_MASK);
    }
    let class = if classid == 0 {
        0
    } else {
        node.lock().qdisc.find(classid)
    };
    let create = Create {
        env,
        device: &device,
        handle: node.handle,
        parent: node.parent.load(Relaxed),
        options: tb.get(tca::OPTIONS),
        ingress_block: 0,
        egress_block: 0,
        other_netem: None,
    };
    let mut gone = Gone::default();
    if class == 0 {
        if request.ty() != rtm::NEWTCLASS || !request.has(nlm::F_CREATE) {
            return Err(Error::new(ENOENT));
        }
    } else {
        match request.ty() {
            rtm::NEWTCLASS if request.has(nlm::F_EXCL) => return Err(Error::new(EEXIST)),
            rtm::NEWTCLASS => {}
            rtm::DELTCLASS => {
                let message = build(
                    request,
                    rtm::DELTCLASS,
                    device.ifindex(),
                    &node,
                    class,
                    true,
                );
                let blocks: Vec<_> = {
                    let qdisc = &node.lock().qdisc;
                    let holders = qdisc.classes().into_iter().chain([0]);
                    holders.filter_map(|class| qdisc.block(class)).collect()
                };
                let in_use = blocks.iter().any(|block| block.refers_to_class(classid));
                tree.change(&node, |inner| {
                    inner.request(&mut gone, |qdisc, gone| {
                        qdisc.delete_class(class, in_use, &create, gone)
                    })?;
                    inner.forget_class_rate(class);
                    Ok::<_, Error>(())
                })?;
                env.notify(&request.by, Some(reply), &message);
                forget(&mut tree, &gone);
                drop(tree);
                return Ok(gone.finish(env));
            }
            _ => {
                let message = build(
                    request,
                    rtm::NEWTCLASS,
                    device.ifindex(),
                    &node,
                    class,
                    true,
                );
                env.notify(&request.by, Some(&mut *reply), &message);
                if !request.by.echo() {
                    reply.out.raw(&message);
                }
                return Ok(Drops::new());
            }
        }
    }
    if tb.has(tca::INGRESS_BLOCK) || tb.has(tca::EGRESS_BLOCK) {
        let message = "Shared blocks are not supported for classes";
        return Err(Error::msg(EOPNOTSUPP, message));
    }
    if classid == h::ROOT {
        let message = "Cannot create traffic class with classid TC_H_ROOT";
        return Err(Error::msg(EINVAL, message));
    }
    let rate = match (tb.get(tca::RATE), node.ops.class_rates) {
        (None, _) => None,
        (Some(rate), Some(wrong)) => {
            let parsed = Estimator::parse(&rate, env.host.now(), (0, 0));
            let tell = |error: Error| match wrong[usize::from(class != 0)] {
                "" => error,
                wrong => error.or_msg(wrong),
            };
            Some(parsed.map_err(tell)?)
        }
        (Some(rate), None) => {
            let message = "Rate estimators are not supported for classes of this kind";
            return Err(Error::unsupported(message).at(&rate));
        }
    };
    let class = tree.change(&node, |inner| {
        let ids = (classid, parent);
        let class = inner.request(&mut gone, |qdisc, gone| {
            qdisc.change_class(class, ids, &tb, &create, gone)
        })?;
        if let Some(rate) = rate.filter(|_| !gone.unchanged) {
            inner.set_class_rate(class, rate);
        }
        Ok::<_, Error>(class)
    })?;
    let message = build(
        request,
        rtm::NEWTCLASS,
        device.ifindex(),
        &node,
        class,
        false,
    );
    env.notify(&request.by, Some(reply), &message);
    forget(&mut tree, &gone);
    drop(tree);
    reply.warning = gone.warning;
    Ok(gone.finish(env))
}

/// Removes deleted qdiscs from the tree.
fn forget(tree: &mut Tree, gone: &Gone) {
    let Some(children) = tree.children.made() else {
        return;
    };
    for node in &gone.nodes {
        children.remove(&node.handle);
        for child in under(node) {
            children.remove(&child.handle);
        }
    }
}

fn build(
    request: &Request<'_>,
    ty: u16,
    ifindex: u32,
    node: &Node,
    class: u32,
    always: bool,
) -> Vec<u8> {
    let by = Requester {
        flags: 0,
        ..request.by
    };
    if !always && !request.env.notify_needed(&request.by) {
        return Vec::new();
    }
    let mut w = Writer::new();
    // A writer without a limit cannot fail.
    let at = (class, request.env.host.now());
    let _ = write(&mut w, ty, by, ifindex, node, &mut node.lock(), at);
    w.into_vec()
}

/// Encodes a message about a class (`tc_fill_tclass`).
fn write(
    w: &mut Writer,
    ty: u16,
    by: Requester,
    ifindex: u32,
    node: &Node,
    inner: &mut Inner,
    (class, now): (u32, u64),
) -> Result<(), Full> {
    let mut options = Writer::new();
    let mut tcm = TcMsg {
        ifindex: ifindex as i32,
        parent: node.handle,
        handle: node.handle,
        ..TcMsg::default()
    };
    inner.qdisc.dump_class(class, &mut tcm, &mut options);
    let stats = match node.ops.own_leaves {
        true => Some(inner.stats().into()),
        false => inner.qdisc.class_stats(class),
    };
    let rate = inner.class_rate(class, now);
    let mark = w.message(ty, by.flags, by.seq, by.portid);
    w.fixed(&tcm);
    w.put_str(tca::KIND, node.ops.kind);
    w.raw(options.bytes());
    match stats {
        Some(stats) => {
            let basic = (!stats.queue_only).then_some((stats.bytes, stats.packets));
            let app = (stats.app, node.ops.nested_stats);
            put_queue_stats(w, true, basic, rate, &stats.queue, app);
        }
        None => put_no_stats(w),
    }
    w.finish(mark)
}

/// A dump in progress.
pub struct Dump {
    tcm: TcMsg,
    qdiscs: usize,
    classes: usize,
}

/// Starts a dump.
pub fn dump(message: &Message<'_>) -> Result<Dump, Error> {
    // A request that is too short dumps nothing, and neither does ifindex 0.
    let tcm = message.fixed::<TcMsg>().unwrap_or_default();
    Ok(Dump {
        tcm,
        qdiscs: 0,
        classes: 0,
    })
}

impl Dump {
    fn nodes(&self, env: &Env<'_>) -> (u32, Vec<Arc<Node>>) {
        let Ok(device) = device(env, self.tcm.ifindex) else {
            return (0, Vec::new());
        };
        let tree = device.tc().tree();
        let all = tree.root.iter().cloned().chain(tree.children());
        let all = all.chain(tree.ingress.iter().cloned());
        let wanted = self.tcm.parent & h::MAJ_MASK;
        let shown = |node: &Arc<Node>| {
            !node.invisible && node.ops.classful && (self.tcm.parent == 0 || node.handle == wanted)
        };
        (device.ifindex(), all.filter(shown).collect())
    }

    /// Writes as many messages as fit, or only one. Returns `true` if nothing is left.
    pub fn fill(&mut self, cx: &DumpCx<'_>, w: &mut Writer, one: bool) -> Result<bool, Error> {
        let (ifindex, nodes) = self.nodes(cx.env);
        let (start, now) = (w.len(), cx.env.host.now());
        for node in nodes.iter().skip(self.qdiscs) {
            // Locked from the listing to the last class: a class deleted in between would be shown
            // as the qdisc.
            let mut inner = node.lock();
            let classes = inner.qdisc.classes();
            for &class in classes.iter().skip(self.classes) {
                if one && w.len() > start {
                    return Ok(false);
                }
                let at = (class, now);
                if write(w, rtm::NEWTCLASS, cx.by, ifindex, node, &mut inner, at).is_err() {
                    return match w.is_empty() {
                        true => Err(Error::new(weir_netlink::errno::EMSGSIZE)),
                        false => Ok(false),
                    };
                }
                self.classes += 1;
            }
            (self.qdiscs, self.classes) = (self.qdiscs + 1, 0);
        }
        Ok(true)
    }
}
