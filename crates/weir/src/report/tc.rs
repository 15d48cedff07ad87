// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Qdiscs, classes, filters and actions in the report.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use weir_netlink::tca::h;
use weir_packet::DropClass;
use weir_tc::report::{ActionReport, ClassReport, FilterReport, QdiscReport};

use super::DeviceReport;

/// Formats a handle in tc's notation: `1:` or `1:2`.
pub fn handle(handle: u32) -> String {
    match (handle >> 16, handle & 0xffff) {
        (major, 0) => format!("{major:x}:"),
        (major, minor) => format!("{major:x}:{minor:x}"),
    }
}

/// Formats a filter's handle in tc's notation: `0x1`, or `800::800` for a u32 filter.
fn filter_handle(filter: &FilterReport) -> String {
    let handle = filter.handle;
    if filter.kind != "u32" {
        return format!("{handle:#x}");
    }
    let (table, bucket, node) = (handle >> 20, handle >> 12 & 0xff, handle & 0xfff);
    match (bucket, node) {
        (0, 0) => format!("{table:x}:"),
        (0, _) => format!("{table:x}::{node:x}"),
        _ => format!("{table:x}:{bucket:x}:{node:x}"),
    }
}

/// Formats a protocol in tc's notation.
fn protocol(ethertype: u16) -> String {
    match ethertype {
        0x0003 => "all".into(),
        0x0800 => "ip".into(),
        0x86dd => "ipv6".into(),
        0x0806 => "arp".into(),
        0x8100 => "802.1Q".into(),
        0x88a8 => "802.1ad".into(),
        other => format!("{other:#06x}"),
    }
}

/// Returns the name of a drop class.
pub fn drop_class(class: DropClass) -> &'static str {
    match class {
        DropClass::Fault => "fault",
        DropClass::Rule => "rule",
        DropClass::NotForUs => "not-for-us",
    }
}

fn class_json(device: &DeviceReport, class: &ClassReport) -> Value {
    let mut value = json!({
        "classid": handle(class.classid),
        "drops": class.queue.drops,
        "overlimits": class.queue.overlimits,
        "backlog_octets": class.queue.backlog,
        "backlog_packets": class.queue.qlen,
    });
    if class.parent != h::ROOT {
        value["parent"] = json!(handle(class.parent));
    }
    if class.leaf != 0 {
        value["leaf"] = json!(handle(class.leaf));
    }
    if let Some((octets, packets)) = class.sent {
        value["packets"] = json!(packets);
        value["octets"] = json!(octets);
    }
    if let Some(waits) = device.class_waits.get(&class.classid) {
        value["sojourn"] = waits.to_json();
    }
    value
}

/// Returns a qdisc as JSON.
pub fn qdisc_json(device: &DeviceReport, qdisc: &QdiscReport) -> Value {
    let mut value = json!({
        "kind": qdisc.kind,
        "handle": handle(qdisc.handle),
        "packets": qdisc.packets,
        "octets": qdisc.bytes,
        "drops": qdisc.queue.drops,
        "overlimits": qdisc.queue.overlimits,
        "requeues": qdisc.queue.requeues,
        "backlog_octets": qdisc.queue.backlog,
        "backlog_packets": qdisc.queue.qlen,
        "classes": qdisc.classes.iter().map(|class| class_json(device, class)).collect::<Vec<_>>(),
    });
    value["parent"] = match qdisc.parent {
        h::ROOT => json!("root"),
        h::INGRESS => json!("ingress"),
        parent => json!(handle(parent)),
    };
    value
}

/// Returns a filter as JSON.
pub fn filter_json(filter: &FilterReport) -> Value {
    let actions: Vec<Value> = filter
        .actions
        .iter()
        .map(|action| {
            json!({
                "kind": action.kind,
                "index": action.index,
                "control": action.control,
                "packets": action.totals.packets,
                "octets": action.totals.bytes,
                "drops": action.totals.drops,
            })
        })
        .collect();
    json!({
        "hook": filter.hook,
        "block": filter.block,
        "chain": filter.chain,
        "pref": filter.prio,
        "protocol": protocol(filter.protocol),
        "kind": filter.kind,
        "handle": filter.handle,
        "actions": actions,
    })
}

/// A row in the tree of qdiscs and classes.
pub struct TreeRow {
    /// The depth in the tree.
    pub depth: usize,
    /// `htb 1:`, or `class 1:10`.
    pub name: String,
    /// Bytes and packets that left, if they are counted.
    pub sent: Option<(u64, u64)>,
    /// The queue and drop counters.
    pub queue: weir_tc::counters::Queue,
    /// The packets that arrived: those that left and those dropped. An ingress qdisc counts each
    /// packet before its filters decide.
    pub offered: u64,
    /// The sojourn times of the row.
    pub waits: Option<super::Quantiles>,
}

impl TreeRow {
    /// Returns whether nothing has happened there.
    pub fn is_idle(&self) -> bool {
        let queue = &self.queue;
        self.sent.is_none_or(|(_, packets)| packets == 0)
            && queue.drops == 0
            && queue.qlen == 0
            && queue.overlimits == 0
    }
}

/// Returns the qdiscs and classes of a device, each followed by its children.
pub fn tree(device: &DeviceReport) -> Vec<TreeRow> {
    let mut rows = Vec::new();
    let shown = |qdisc: &&QdiscReport| qdisc.handle != 0 || !qdisc.classes.is_empty();
    let known: BTreeSet<u32> = device
        .qdiscs
        .iter()
        .flat_map(|qdisc| qdisc.classes.iter().map(|class| class.classid))
        .collect();
    let top = |qdisc: &&QdiscReport| !known.contains(&qdisc.parent);
    for qdisc in device.qdiscs.iter().filter(shown).filter(top) {
        add_qdisc(device, qdisc, 0, &mut rows);
    }
    rows
}

/// The maximum depth shown. Linux refuses hierarchies with more levels.
const DEEPEST: usize = 32;

fn add_qdisc(device: &DeviceReport, qdisc: &QdiscReport, depth: usize, rows: &mut Vec<TreeRow>) {
    rows.push(TreeRow {
        depth,
        name: format!("{} {}", qdisc.kind, handle(qdisc.handle)),
        sent: Some((qdisc.bytes, qdisc.packets)),
        queue: qdisc.queue,
        offered: match qdisc.parent {
            h::INGRESS => qdisc.packets,
            _ => qdisc.packets + u64::from(qdisc.queue.drops),
        },
        waits: device.waits.filter(|_| qdisc.parent == h::ROOT),
    });
    let above = |class: &ClassReport| match class.parent {
        h::ROOT => qdisc.handle,
        parent => parent,
    };
    add_classes(device, qdisc, &above, qdisc.handle, depth + 1, rows);
}

fn add_classes(
    device: &DeviceReport,
    qdisc: &QdiscReport,
    above: &dyn Fn(&ClassReport) -> u32,
    parent: u32,
    depth: usize,
    rows: &mut Vec<TreeRow>,
) {
    if depth > DEEPEST {
        return;
    }
    let of_parent = |class: &&ClassReport| above(class) == parent && class.classid != parent;
    for class in qdisc.classes.iter().filter(of_parent) {
        rows.push(TreeRow {
            depth,
            name: format!("class {}", handle(class.classid)),
            sent: class.sent,
            queue: class.queue,
            offered: class.sent.map_or(0, |(_, packets)| packets) + u64::from(class.queue.drops),
            waits: device.class_waits.get(&class.classid).copied(),
        });
        add_classes(device, qdisc, above, class.classid, depth + 1, rows);
        let mut below = device.qdiscs.iter();
        let below = below.find(|q| q.handle != 0 && q.handle == class.leaf);
        if let Some(below) = below.filter(|below| below.parent == class.classid) {
            add_qdisc(device, below, depth + 1, rows);
        }
    }
}

/// A row in the table of filters and actions.
pub struct FilterRow {
    /// The filter.
    pub filter: String,
    /// The action.
    pub action: String,
    /// Packets, bytes and drops; `None` for a filter without actions and for an action shown
    /// before.
    pub numbers: Option<[u64; 3]>,
    /// Whether the action has seen no packet.
    pub is_idle: bool,
}

/// Returns the rows of the text report: one per action of a filter, and one for a filter without
/// actions. The first of several filters that share an action shows its counters; `seen` holds the
/// actions already shown in the namespace.
pub fn filter_rows(
    filter: &FilterReport,
    seen: &mut BTreeSet<(&'static str, u32)>,
) -> Vec<FilterRow> {
    let name = format!(
        "{} chain {} pref {} {} {} handle {}",
        filter.hook,
        filter.chain,
        filter.prio,
        protocol(filter.protocol),
        filter.kind,
        filter_handle(filter),
    );
    let mut row = |action: &ActionReport| {
        let what = format!("{} {} index {}", action.kind, action.control, action.index);
        let first = seen.insert((action.kind, action.index));
        let totals = &action.totals;
        FilterRow {
            filter: name.clone(),
            action: match first {
                true => what,
                false => format!("{what} (shared, see above)"),
            },
            numbers: first.then_some([totals.packets, totals.bytes, totals.drops.into()]),
            is_idle: totals.packets == 0,
        }
    };
    if filter.actions.is_empty() {
        let action = "-".to_owned();
        return vec![FilterRow {
            filter: name,
            action,
            numbers: None,
            is_idle: false,
        }];
    }
    filter.actions.iter().map(&mut row).collect()
}
