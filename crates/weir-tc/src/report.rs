// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The counters of a device's qdiscs, filters and actions, for reports. The order is that of dumps.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::tca::h;
use weir_netlink::{TcMsg, Writer};

use crate::block::Block;
use crate::counters::{Queue, Totals};
use crate::device::DeviceTc;
use crate::qdisc::Node;
use crate::verdict::code;

/// A qdisc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QdiscReport {
    /// Name of the kind.
    pub kind: &'static str,
    /// Handle, `major << 16`.
    pub handle: u32,
    /// Class it is under.
    pub parent: u32,
    /// Octets that left, or that met a filter list.
    pub bytes: u64,
    /// Packets that did.
    pub packets: u64,
    /// Queue and drops.
    pub queue: Queue,
    /// Classes in the order of dumps.
    pub classes: Vec<ClassReport>,
}

/// A class of a qdisc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassReport {
    /// The classid.
    pub classid: u32,
    /// The class above; the qdisc's handle or [`h::ROOT`] at the top.
    pub parent: u32,
    /// Handle of the qdisc below; 0 where the kind makes one by itself or there is none.
    pub leaf: u32,
    /// Octets and packets that left, where the kind counts them.
    pub sent: Option<(u64, u64)>,
    /// Queue and drops.
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

/// An action of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionReport {
    /// Name of the kind.
    pub kind: &'static str,
    /// Index in its namespace.
    pub index: u32,
    /// The control action in the words of tc.
    pub control: String,
    /// Counters, shared by all filters that name the action.
    pub totals: Totals,
}

/// A filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterReport {
    /// `ingress` or `egress`; the class of a classful qdisc, as `1:0`.
    pub hook: String,
    /// Index of a shared block, 0 none.
    pub block: u32,
    /// Chain.
    pub chain: u32,
    /// Priority.
    pub prio: u16,
    /// Ethertype, host order; 3 for all.
    pub protocol: u16,
    /// Name of the classifier's kind.
    pub kind: &'static str,
    /// Handle.
    pub handle: u32,
    /// Actions in their order.
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

/// What a device's qdiscs and filters have counted.
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
