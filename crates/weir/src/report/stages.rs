// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of each stage: ns per packet by stage and group, and their sum.

use std::fmt::Write;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_stack::stages::{StageCount, Stages, cycles};

use crate::engine::Engine;

/// The row of a stage.
pub struct Row {
    /// The stage.
    pub stage: &'static str,
    /// The group in which it is summed.
    pub group: &'static str,
    /// The counters.
    pub count: StageCount,
}

/// The stages of a CPU.
pub struct StageReport {
    /// The stages, in the order in which a packet passes them.
    pub rows: Vec<Row>,
    /// Cycles of the counter per nanosecond.
    pub cycles_per_ns: f64,
}

/// Measures the cycle counter against the clock.
pub fn cycles_per_ns() -> f64 {
    let (start, before) = (Instant::now(), cycles());
    while start.elapsed() < Duration::from_millis(20) {
        std::hint::spin_loop();
    }
    let (elapsed, after) = (start.elapsed(), cycles());
    after.wrapping_sub(before) as f64 / elapsed.as_nanos() as f64
}

/// Collects the stages of the engine's CPU.
pub fn collect(engine: &Engine) -> StageReport {
    of(&engine.cpu().state().stages)
}

/// Returns the difference of the counters to `before`.
pub fn since(stages: &Stages, before: &[(weir_stack::stages::Stage, StageCount)]) -> StageReport {
    let mut report = of(stages);
    for (row, (_, old)) in report.rows.iter_mut().zip(before) {
        row.count.batches -= old.batches;
        row.count.packets -= old.packets;
        row.count.cycles -= old.cycles;
    }
    report
}

/// Builds the report of some counters.
pub fn of(stages: &Stages) -> StageReport {
    let rows = stages
        .counts()
        .map(|(stage, count)| Row {
            stage: stage.name(),
            group: stage.group(),
            count,
        })
        .collect();
    StageReport {
        rows,
        cycles_per_ns: cycles_per_ns(),
    }
}

impl StageReport {
    fn ns(&self, cycles: u64) -> f64 {
        cycles as f64 / self.cycles_per_ns
    }

    /// Returns the nanoseconds in all stages.
    pub fn total_ns(&self) -> f64 {
        self.ns(self.rows.iter().map(|row| row.count.cycles).sum())
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let StageCount { batches, packets, cycles } = row.count;
                json!({ "stage": row.stage, "group": row.group, "batches": batches, "packets": packets, "ns": self.ns(cycles) })
            })
            .collect();
        json!({ "stages": rows, "total_ns": self.total_ns() })
    }

    /// Returns the report as text.
    pub fn to_text(&self) -> String {
        let mut text = String::from(
            "stage       group        batches     packets  packets/batch  ns/packet\n",
        );
        for row in self.rows.iter().filter(|row| row.count.batches > 0) {
            let StageCount {
                batches,
                packets,
                cycles,
            } = row.count;
            let _ = writeln!(
                text,
                "{:<10}  {:<9}  {:>9}  {:>10}  {:>13.1}  {:>9.1}",
                row.stage,
                row.group,
                batches,
                packets,
                packets as f64 / batches as f64,
                self.ns(cycles) / packets.max(1) as f64,
            );
        }
        let _ = writeln!(text, "sum of all stages: {:.3} ms", self.total_ns() / 1e6);
        text
    }
}
