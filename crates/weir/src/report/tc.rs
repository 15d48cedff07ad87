// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Qdiscs, filters and actions in the report.

use serde_json::{Value, json};
use weir_tc::report::{FilterReport, QdiscReport};

/// A handle in tc's notation: `1:` or `1:2`.
fn handle(handle: u32) -> String {
    match (handle >> 16, handle & 0xffff) {
        (major, 0) => format!("{major:x}:"),
        (major, minor) => format!("{major:x}:{minor:x}"),
    }
}

/// A protocol in tc's notation.
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

/// A qdisc as data.
pub fn qdisc_json(qdisc: &QdiscReport) -> Value {
    json!({
        "kind": qdisc.kind,
        "handle": handle(qdisc.handle),
        "packets": qdisc.packets,
        "octets": qdisc.bytes,
        "drops": qdisc.queue.drops,
        "overlimits": qdisc.queue.overlimits,
        "requeues": qdisc.queue.requeues,
        "backlog_octets": qdisc.queue.backlog,
        "backlog_packets": qdisc.queue.qlen,
    })
}

/// A filter as data.
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

/// Rows of the text report: qdiscs.
pub fn qdisc_row(device: &str, qdisc: &QdiscReport) -> Vec<String> {
    let numbers = [
        qdisc.packets,
        qdisc.bytes,
        u64::from(qdisc.queue.drops),
        u64::from(qdisc.queue.overlimits),
        u64::from(qdisc.queue.qlen),
    ];
    let mut row = vec![
        device.to_owned(),
        qdisc.kind.to_owned(),
        handle(qdisc.handle),
    ];
    row.extend(numbers.map(|number| number.to_string()));
    row
}

/// Rows of the text report: a row an action of a filter, one row for a filter without.
pub fn filter_rows(device: &str, filter: &FilterReport) -> Vec<Vec<String>> {
    let name = format!(
        "{} chain {} pref {} {} {} handle {:#x}",
        filter.hook,
        filter.chain,
        filter.prio,
        protocol(filter.protocol),
        filter.kind,
        filter.handle
    );
    let row = |action: String, numbers: [String; 3]| {
        let mut row = vec![device.to_owned(), name.clone(), action];
        row.extend(numbers);
        row
    };
    if filter.actions.is_empty() {
        return vec![row("-".into(), [const { String::new() }; 3])];
    }
    let rows = filter.actions.iter().map(|action| {
        let what = format!("{} {} index {}", action.kind, action.control, action.index);
        let numbers = [
            action.totals.packets,
            action.totals.bytes,
            u64::from(action.totals.drops),
        ]
        .map(|number| number.to_string());
        row(what, numbers)
    });
    rows.collect()
}
