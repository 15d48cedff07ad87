// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of `weir top`: the differences between two reports of a stack.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::report::stages::StageReport;
use crate::report::units;

/// The counters of a stack at a moment.
pub struct Sample {
    /// When the stack answered.
    pub at: Instant,
    /// The report of `weir stat --json`.
    pub report: Value,
    /// The report of `weir stat stages --json`.
    pub stages: StageReport,
}

/// A cell: its text, and the number to sort by. Texts sort by themselves.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The text.
    pub text: String,
    /// The number, if it is one.
    pub number: Option<f64>,
}

fn word(text: impl Into<String>) -> Cell {
    Cell {
        text: text.into(),
        number: None,
    }
}

fn number(value: f64, text: String) -> Cell {
    Cell {
        text,
        number: Some(value),
    }
}

/// A table of the screen.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its title.
    pub title: &'static str,
    /// The heads of its columns.
    pub columns: &'static [&'static str],
    /// Its rows.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Sorts by a column: numbers from the highest, texts from the first.
    pub fn sort(&mut self, column: usize) {
        self.rows
            .sort_by(|a, b| match (a.get(column), b.get(column)) {
                (Some(a), Some(b)) => match (a.number, b.number) {
                    (Some(a), Some(b)) => b.total_cmp(&a),
                    _ => a.text.cmp(&b.text),
                },
                _ => std::cmp::Ordering::Equal,
            });
    }

    /// Returns the width of each column.
    pub fn widths(&self) -> Vec<usize> {
        let of = |at: usize, head: &str| {
            let cells = self.rows.iter().filter_map(|row| row.get(at));
            let widest = cells.map(|cell| cell.text.chars().count()).max();
            widest.unwrap_or(0).max(head.len())
        };
        let heads = self.columns.iter().enumerate();
        heads.map(|(at, head)| of(at, head)).collect()
    }

    /// Returns the table as text.
    pub fn to_text(&self) -> String {
        let widths = self.widths();
        let mut text = format!("{}\n", self.title);
        let mut line = |cells: &mut dyn Iterator<Item = (&str, bool)>| {
            let mut line = String::new();
            for ((cell, right), width) in cells.zip(&widths) {
                // Writing to a string does not fail.
                let _ = match right {
                    true => write!(line, "  {cell:>width$}"),
                    false => write!(line, "  {cell:<width$}"),
                };
            }
            text += line.trim_end();
            text.push('\n');
        };
        let right = |at: usize| {
            let row = self.rows.first();
            row.and_then(|row| row.get(at)?.number).is_some()
        };
        let heads = self.columns.iter().enumerate();
        line(&mut heads.map(|(at, head)| (*head, right(at))));
        for row in &self.rows {
            line(&mut row.iter().map(|cell| (&*cell.text, cell.number.is_some())));
        }
        text
    }
}

/// A counter of two moments.
struct Rates<'a> {
    before: BTreeMap<&'a str, &'a Value>,
    over: Duration,
}

impl<'a> Rates<'a> {
    fn new(before: &'a Sample, over: Duration) -> Self {
        Self {
            before: devices(before).collect(),
            over,
        }
    }

    /// Returns how much the counter at `path` of a device, or of one of its parts, grew.
    fn grown(&self, now: &Value, before: Option<&Value>, path: &str) -> u64 {
        let of = |value: &Value| value.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        of(now).saturating_sub(before.map_or(0, of))
    }

    fn packets(&self, grown: u64) -> Cell {
        let rate = units::per_second(grown, self.over).unwrap_or(0.0);
        number(rate, format!("{rate:.0}"))
    }

    fn bits(&self, octets: u64) -> Cell {
        let rate = units::per_second(octets, self.over).unwrap_or(0.0);
        number(rate, units::bit_rate(octets, self.over))
    }
}

/// Returns the devices of a report by name.
fn devices(sample: &Sample) -> impl Iterator<Item = (&str, &Value)> {
    let devices = sample.report["devices"].as_array();
    let devices = devices.into_iter().flatten();
    devices.filter_map(|device| Some((device["name"].as_str()?, device)))
}

fn list<'a>(device: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    device[key].as_array().into_iter().flatten()
}

fn text_of<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Builds the tables from two moments.
pub fn build(before: &Sample, now: &Sample) -> Vec<Table> {
    let over = now.at.saturating_duration_since(before.at);
    let rates = Rates::new(before, over);
    let (mut of_devices, mut drops, mut queues) = (Vec::new(), Vec::new(), Vec::new());
    for (name, device) in devices(now) {
        let old = rates.before.get(name).copied();
        let grown = |path| rates.grown(device, old, path);
        let sum = |of: &Value| -> u64 {
            let drops = list(of, "drops");
            drops.filter_map(|drop| drop["packets"].as_u64()).sum()
        };
        of_devices.push(vec![
            word(name),
            rates.packets(grown("/rx/packets")),
            rates.bits(grown("/rx/octets")),
            rates.packets(grown("/tx/packets")),
            rates.bits(grown("/tx/octets")),
            rates.packets(sum(device).saturating_sub(old.map_or(0, sum))),
        ]);
        for drop in list(device, "drops") {
            let (place, reason) = (text_of(drop, "place"), text_of(drop, "reason"));
            let same = |other: &&Value| {
                (text_of(other, "place"), text_of(other, "reason")) == (place, reason)
            };
            let old = old.and_then(|old| list(old, "drops").find(same));
            let total = drop["packets"].as_u64().unwrap_or(0);
            drops.push(vec![
                word(name),
                word(place),
                word(reason),
                rates.packets(rates.grown(drop, old, "/packets")),
                number(total as f64, units::count(total)),
            ]);
        }
        for qdisc in list(device, "qdiscs") {
            let parent = text_of(qdisc, "parent");
            if parent == "ingress" {
                continue;
            }
            let handle = text_of(qdisc, "handle");
            let same = |other: &&Value| text_of(other, "handle") == handle;
            let old = old.and_then(|old| list(old, "qdiscs").find(same));
            let sent = rates.grown(qdisc, old, "/packets");
            let waiting = qdisc["backlog_packets"].as_u64().unwrap_or(0);
            let rate = units::per_second(sent, over).unwrap_or(0.0);
            // Little's law: the packets that wait, over the rate at which they leave.
            let sojourn = if waiting == 0 {
                number(0.0, "0".into())
            } else if rate > 0.0 {
                let ns = waiting as f64 / rate * 1e9;
                number(ns, units::time(ns as u64))
            } else {
                number(f64::MAX, "stopped".into())
            };
            queues.push(vec![
                word(name),
                word(format!("{} {handle}", text_of(qdisc, "kind"))),
                rates.packets(sent),
                number(waiting as f64, units::count(waiting)),
                sojourn,
                rates.packets(rates.grown(qdisc, old, "/drops")),
            ]);
        }
    }
    let stages = now.stages.clone().since(&before.stages);
    vec![
        Table {
            title: "Devices",
            columns: &["device", "rx/s", "rx rate", "tx/s", "tx rate", "drops/s"],
            rows: of_devices,
        },
        Table {
            title: "Drops",
            columns: &["device", "place", "reason", "per s", "total"],
            rows: drops,
        },
        Table {
            title: "Queues",
            columns: &[
                "device",
                "qdisc",
                "packets/s",
                "waiting",
                "sojourn",
                "drops/s",
            ],
            rows: queues,
        },
        stages_of(&stages),
        cpus_of(&stages, over),
    ]
}

fn stages_of(stages: &StageReport) -> Table {
    let packets = stages.packets.max(1) as f64;
    let row = |name: &str, ns: f64| {
        let share = 100.0 * ns / stages.measured_ns.max(1.0);
        vec![
            word(name),
            number(ns, format!("{:.1}", ns / packets)),
            number(share, format!("{share:.1} %")),
        ]
    };
    let groups = stages.groups.iter();
    let mut rows: Vec<_> = groups.map(|group| row(&group.group, group.ns)).collect();
    rows.push(row("all groups", stages.total_ns));
    rows.push(row("measured", stages.measured_ns));
    Table {
        title: "Stages",
        columns: &["group", "ns/packet", "share"],
        rows,
    }
}

fn cpus_of(stages: &StageReport, over: Duration) -> Table {
    let row = |cpu: &crate::report::stages::CpuRow| {
        let busy = 100.0 * cpu.busy_ns / over.as_nanos().max(1) as f64;
        let turns = units::per_second(cpu.turns, over).unwrap_or(0.0);
        vec![
            number(-f64::from(cpu.cpu), cpu.cpu.to_string()),
            number(busy, format!("{busy:.1} %")),
            number(turns, format!("{turns:.0}")),
        ]
    };
    Table {
        title: "CPUs",
        columns: &["cpu", "busy", "turns/s"],
        rows: stages.cpus.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_sort_and_line_up() {
        let row = |name: &str, value: f64| vec![word(name), number(value, value.to_string())];
        let mut table = Table {
            title: "Things",
            columns: &["name", "count"],
            rows: vec![row("b", 5.0), row("a", 10.0), row("long name", 7.0)],
        };
        assert_eq!(
            table.to_text(),
            "Things\n  name       count\n  b              5\n  a             10\n  long name      7\n"
        );
        table.sort(0);
        assert_eq!(table.rows[0][0].text, "a");
        table.sort(1);
        assert_eq!(table.rows[2][0].text, "b");
        // A column that is not there changes nothing.
        table.sort(9);
        assert_eq!(table.rows[2][0].text, "b");
    }
}
