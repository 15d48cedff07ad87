// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The counters of a device's qdiscs, filters and actions, for reports, in the order of dumps.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::tca::h;
use weir_netlink::{TcMsg, Writer};

use crate::block::Block;
use crate::counters::{Queue, Totals};
use crate::device::DeviceTc;
use crate::qdisc::Node;
use crate::verdict::code;

/// The report of a qdisc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QdiscReport {
    /// The name of the kind.
    pub kind: &'static str,
    /// The handle, `major << 16`.
    pub handle: u32,
    /// The class above the qdisc.
    pub parent: u32,
    /// Bytes dequeued, or, for a hook, bytes that entered a filter list.
    pub bytes: u64,
    /// Packets dequeued, or, for a hook, packets that entered a filter list.
    pub packets: u64,
    /// Queue length and drops.
    pub queue: Queue,
    /// The classes in the order of dumps.
    pub classes: Vec<ClassReport>,
}

/// The report of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassReport {
    /// The classid.
    pub classid: u32,
    /// The parent class; the qdisc's handle or [`h::ROOT`] at the top.
    pub parent: u32,
    /// The handle of the qdisc below; 0 if there is none or the kind created it itself.
    pub leaf: u32,
    /// Bytes and packets dequeued, if the kind counts them.
    pub sent: Option<(u64, u64)>,
    /// Queue length and drops.
    pub queue: Queue,
}

fn classes(node: &Node) -> Vec<ClassReport> {
    let inner = node.lock();
    let class = |class| {
        let mut tcm = TcMsg {
            handle: node.handle,
            parent: h::ROOT,
            ..TcMsg::default()
        };
        inner.qdisc.dump_class(class, &mut tcm, &mut Writer::new());
        let stats = inner.qdisc.class_stats(class)?;
        Some(ClassReport {
            classid: tcm.handle,
            parent: tcm.parent,
            leaf: tcm.info,
            sent: (!stats.queue_only).then_some((stats.bytes, stats.packets)),
            queue: stats.queue,
        })
    };
    let all = inner.qdisc.classes();
    all.into_iter().filter_map(class).collect()
}

/// The report of an action of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionReport {
    /// The name of the kind.
    pub kind: &'static str,
    /// The index in its namespace.
    pub index: u32,
    /// The control action as tc prints it.
    pub control: String,
    /// The counters, shared by all filters that refer to the action.
    pub totals: Totals,
}

/// The report of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterReport {
    /// `ingress` or `egress`, or the class of a classful qdisc, as in `1:0`.
    pub hook: String,
    /// The index of a shared block, 0 if not shared.
    pub block: u32,
    /// The chain.
    pub chain: u32,
    /// The priority.
    pub prio: u16,
    /// The Ethertype in host order; 3 for all.
    pub protocol: u16,
    /// The name of the classifier's kind.
    pub kind: &'static str,
    /// The handle.
    pub handle: u32,
    /// The actions in order of execution.
    pub actions: Vec<ActionReport>,
}

fn filters(hook: &str, block: &Arc<Block>, out: &mut Vec<FilterReport>) {
    let mut from = 0;
    while let Some((seq, chain)) = block.next_chain(from) {
        from = seq + 1;
        for proto in chain.protos() {
            let mut place = 0;
            while let Some((at, filter)) = proto.classifier.next(place) {
                place = at + 1;
                let actions = filter.exts().actions().iter().map(|action| ActionReport {
                    kind: action.common.table().ops.kind,
                    index: action.common.index,
                    control: code::name(action.common.control()),
                    totals: action.common.counters.totals(),
                });
                out.push(FilterReport {
                    hook: hook.to_owned(),
                    block: block.index,
                    chain: chain.index,
                    prio: proto.prio,
                    protocol: proto.protocol,
                    kind: proto.ops.kind,
                    handle: filter.handle(),
                    actions: actions.collect(),
                });
            }
        }
    }
}

/// Returns the reports of a device's qdiscs and filters.
pub fn device(tc: &DeviceTc) -> (Vec<QdiscReport>, Vec<FilterReport>) {
    let nodes: Vec<_> = {
        let tree = tc.tree();
        let root = tree.root.iter().cloned();
        root.chain(tree.children())
            .chain(tree.ingress.iter().cloned())
            .collect()
    };
    let (mut qdiscs, mut all) = (Vec::new(), Vec::new());
    for node in nodes.iter().filter(|node| !node.invisible) {
        let (bytes, packets, queue) = node.stats();
        let parent = node.parent.load(Relaxed);
        let (kind, handle) = (node.ops.kind, node.handle);
        qdiscs.push(QdiscReport {
            kind,
            handle,
            parent,
            bytes,
            packets,
            queue,
            classes: match node.ops.classful {
                true => classes(node),
                false => Vec::new(),
            },
        });
        let (hooks, own) = {
            let inner = node.lock();
            (inner.qdisc.hooks(), inner.qdisc.block(0))
        };
        if node.ops.ingress {
            for (hook, block) in [("ingress", hooks.0), ("egress", hooks.1)] {
                if let Some(block) = block {
                    filters(hook, &block, &mut all);
                }
            }
        } else if let Some(block) = own {
            filters(&format!("{:x}:0", handle >> 16), &block, &mut all);
        }
    }
    (qdiscs, all)
}
