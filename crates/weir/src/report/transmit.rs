// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of sending at the root qdiscs: their locks, and the duration of transmits.

use std::fmt::Write;

use serde_json::{Value, json};
use weir_stack::datapath::measure::{TIMES, Totals};
use weir_sync::spin::LockStats;

use crate::engine::Engine;

/// A root qdisc, of a device or of one transmit queue.
struct Root {
    /// `netns/dev` or `dev`.
    device: String,
    queue: usize,
    kind: &'static str,
    /// `major << 16`
    handle: u32,
    lock: LockStats,
    totals: Totals,
}

/// All root qdiscs of a stack.
pub struct TransmitReport {
    roots: Vec<Root>,
    measured: bool,
}

/// Collects the counters of a stack's roots.
pub fn collect(engine: &Engine) -> TransmitReport {
    let mut roots = Vec::new();
    let guard = engine.stack.domain.pin();
    for ns in engine.stack.used_namespaces() {
        let prefix = super::prefix(engine, ns.id);
        for device in ns.all_devices() {
            for queue in 0..device.tc.roots(&guard) {
                let Some((kind, handle, lock)) = device.tc.lock_stats(&guard, queue) else {
                    continue;
                };
                roots.push(Root {
                    device: format!("{prefix}{}", device.name()),
                    queue,
                    kind,
                    handle,
                    lock,
                    totals: device.transmit_counts(queue),
                });
            }
        }
    }
    TransmitReport {
        roots,
        measured: engine.stack.is_transmit_measured(),
    }
}

/// Returns the classes of a histogram that hold something: the upper bound of each, and its count.
fn classes<const N: usize>(counts: [u64; N]) -> impl Iterator<Item = (u64, u64)> {
    let highest = |class: u32| match class as usize {
        last if last + 1 == TIMES => u64::MAX,
        _ => (1u64 << class) - 1,
    };
    let all = (0..).zip(counts).filter(|(_, count)| *count > 0);
    all.map(move |(class, count)| (highest(class), count))
}

/// Returns the mean, or 0 if nothing was counted.
fn mean(sum: u64, count: u64) -> f64 {
    sum as f64 / count.max(1) as f64
}

impl TransmitReport {
    /// Returns the report as JSON. `at_most` is the upper bound of a class.
    pub fn to_json(&self, locks: bool, histogram: bool) -> Value {
        let table = |counts: Vec<(u64, u64)>| -> Value {
            let row =
                |&(at_most, count): &(u64, u64)| json!({ "at_most": at_most, "count": count });
            counts.iter().map(row).collect()
        };
        let roots = self.roots.iter().map(|root| {
            let mut row = json!({
                "device": root.device,
                "queue": root.queue,
                "kind": root.kind,
                "handle": format!("{:x}:", root.handle >> 16),
            });
            let LockStats {
                acquisitions,
                contended,
                wait_ns,
                max_wait_ns,
            } = root.lock;
            if locks {
                row["lock"] = json!({
                    "acquisitions": acquisitions,
                    "contended": contended,
                    "wait_ns": wait_ns,
                    "max_wait_ns": max_wait_ns,
                    "mean_wait_ns": mean(wait_ns, contended),
                });
            }
            if histogram {
                row["transmit"] = json!({
                    "calls": root.totals.calls,
                    "packets": root.totals.packets,
                    "ns": table(classes(root.totals.times).collect()),
                    "batches": table(classes(root.totals.batches).collect()),
                });
            }
            row
        });
        let roots: Value = roots.collect();
        json!({ "measured": self.measured, "roots": roots })
    }

    /// Returns the report as text.
    pub fn to_text(&self, locks: bool, histogram: bool) -> String {
        let mut text = String::new();
        if locks {
            text.push_str(
                "device            queue  qdisc       acquisitions  contended     wait ns  longest ns  mean ns\n",
            );
            for root in &self.roots {
                let LockStats {
                    acquisitions,
                    contended,
                    wait_ns,
                    max_wait_ns,
                } = root.lock;
                let _ = writeln!(
                    text,
                    "{:<16}  {:>5}  {:<10}  {acquisitions:>12}  {contended:>9}  {wait_ns:>10}  {max_wait_ns:>10}  {:>7.0}",
                    root.device,
                    root.queue,
                    root.kind,
                    mean(wait_ns, contended),
                );
            }
        }
        let seen =
            |root: &&Root| root.totals.calls > 0 || root.totals.batches.iter().any(|&n| n > 0);
        for root in self.roots.iter().filter(seen).filter(|_| histogram) {
            let Totals {
                calls,
                packets,
                times,
                batches,
            } = root.totals;
            let (device, queue) = (&root.device, root.queue);
            let _ = writeln!(
                text,
                "\n{device} queue {queue}: {calls} calls, {packets} packets"
            );
            for (at_most, count) in classes(times) {
                let bar = "#".repeat((count * 40).div_ceil(calls.max(1)) as usize);
                let _ = match at_most {
                    u64::MAX => writeln!(text, "  longer          {count:>10}  {bar}"),
                    _ => writeln!(text, "  <= {at_most:>9} ns {count:>10}  {bar}"),
                };
            }
            for (at_most, count) in classes(batches) {
                let _ = writeln!(text, "  batches <= {at_most:>3} {count:>11}");
            }
        }
        if histogram && !self.measured {
            text.push_str(
                "\nTransmits are not measured; to measure them run weir stat qdisc --measure on\n",
            );
        }
        text
    }
}
