// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The connections of a stack: how many there are of each protocol, and the counters of the tables.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};
use weir_conntrack::{Setting, Statistics, ips};

use crate::engine::Engine;

/// Counts the connections of each namespace that has a table. Returns them as JSON and as text.
pub fn stat(engine: &Engine) -> Value {
    let (mut data, mut text) = (Vec::new(), String::new());
    let now = engine.stack.clock.now();
    for ns in engine.stack.all_namespaces() {
        let Some(table) = ns.tc.conntrack_if_used() else {
            continue;
        };
        let prefix = super::prefix(engine, ns.id);
        let name = prefix.trim_end_matches('/');
        let (mut states, mut assured, mut from) = (BTreeMap::<String, u64>::new(), 0u64, 0);
        while let Some(connection) = table.next(from, now) {
            from = connection.handle.index + 1;
            assured += u64::from(connection.status & ips::ASSURED != 0);
            let protocol = match connection.original.protocol {
                1 => "icmp".to_owned(),
                6 => "tcp".to_owned(),
                17 => "udp".to_owned(),
                33 => "dccp".to_owned(),
                47 => "gre".to_owned(),
                58 => "icmpv6".to_owned(),
                132 => "sctp".to_owned(),
                136 => "udplite".to_owned(),
                other => format!("protocol {other}"),
            };
            let state = match connection.state_name() {
                Some(state) => format!("{protocol} {state}"),
                None => protocol,
            };
            *states.entry(state).or_default() += 1;
        }
        let max = table.settings().get(Setting::max);
        let counters = sum(&table.statistics());
        let _ = writeln!(
            text,
            "{}{} connections of {max}, {assured} assured",
            if name.is_empty() {
                String::new()
            } else {
                format!("{name}: ")
            },
            table.count()
        );
        for (state, count) in &states {
            let _ = writeln!(text, "  {state:<20} {count:>10}");
        }
        let counted: Vec<_> = counters
            .iter()
            .map(|(name, n)| format!("{name} {n}"))
            .collect();
        let _ = writeln!(text, "  {}", counted.join(", "));
        data.push(json!({
            "netns": name,
            "connections": table.count(),
            "max": max,
            "buckets": table.buckets(),
            "assured": assured,
            "states": states,
            "counters": counters.iter().map(|&(name, n)| (name.to_owned(), n.into()))
                .collect::<serde_json::Map<String, Value>>(),
        }));
    }
    if text.is_empty() {
        text.push_str("no namespace tracks connections\n");
    }
    json!({ "data": data, "text": text })
}

/// Adds the counters of all CPUs.
fn sum(cpus: &[Statistics]) -> [(&'static str, u64); 10] {
    let all = |of: fn(&Statistics) -> u32| cpus.iter().map(|cpu| u64::from(of(cpu))).sum();
    [
        ("found", all(|cpu| cpu.found)),
        ("invalid", all(|cpu| cpu.invalid)),
        ("insert", all(|cpu| cpu.insert)),
        ("insert_failed", all(|cpu| cpu.insert_failed)),
        ("clash_resolve", all(|cpu| cpu.clash_resolve)),
        ("drop", all(|cpu| cpu.drop)),
        ("early_drop", all(|cpu| cpu.early_drop)),
        ("error", all(|cpu| cpu.error)),
        ("removed", all(|cpu| cpu.removed)),
        ("no_port", all(|cpu| cpu.no_port)),
    ]
}
