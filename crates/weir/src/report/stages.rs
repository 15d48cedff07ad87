// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of each stage: ns per packet by stage and group, and their sum beside the measured time
//! of the turns in which stages ran.

use std::fmt::Write;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_stack::stages::{GROUPS, Stage, StageCount, Stages, TurnCount, cycles};

use crate::engine::Engine;

/// The row of a stage.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// The stage.
    pub stage: String,
    /// The group in which it is summed.
    pub group: String,
    /// The number of batches.
    pub batches: u64,
    /// The number of packets.
    pub packets: u64,
    /// The time in nanoseconds.
    pub ns: f64,
}

/// The row of a group.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Group {
    /// The group.
    pub group: String,
    /// The time in nanoseconds.
    pub ns: f64,
}

/// The turns of a CPU.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CpuRow {
    /// The number of the CPU.
    pub cpu: u32,
    /// The number of turns in which a stage ran.
    pub turns: u64,
    /// The measured nanoseconds of these turns.
    pub busy_ns: f64,
}

/// The stages of one CPU or of all.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StageReport {
    /// The stages, in the order in which a packet passes them.
    #[serde(rename = "stages")]
    pub rows: Vec<Row>,
    /// The same by group, in the order of [`GROUPS`].
    pub groups: Vec<Group>,
    /// The nanoseconds in all stages.
    pub total_ns: f64,
    /// The number of packets: those that devices received, or those that they sent if there are
    /// more.
    pub packets: u64,
    /// The number of turns of CPUs in which a stage ran.
    pub turns: u64,
    /// The measured nanoseconds of these turns.
    pub measured_ns: f64,
    /// The same by CPU.
    pub cpus: Vec<CpuRow>,
}

/// Measures the cycle counter against the clock. Returns cycles per nanosecond.
pub fn cycles_per_ns() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let (start, before) = (Instant::now(), cycles());
        while start.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let (elapsed, after) = (start.elapsed(), cycles());
        after.wrapping_sub(before) as f64 / elapsed.as_nanos() as f64
    })
}

/// Collects the stages of all CPUs.
pub fn collect(engine: &Engine) -> StageReport {
    let cells = engine.stack.stages.iter();
    let cells: Vec<_> = cells
        .filter_map(|(cpu, cells)| Some((cpu, cells.get()?)))
        .collect();
    let counts = cells.iter().flat_map(|(_, cells)| cells.counts());
    let turns = cells.iter().map(|(cpu, cells)| (*cpu, cells.turns()));
    build(counts, turns)
}

/// Builds the report of one CPU's counters.
pub fn of(stages: &Stages) -> StageReport {
    build(stages.counts(), std::iter::once((0, stages.turns())))
}

fn build(
    counts: impl Iterator<Item = (Stage, StageCount)>,
    turns: impl Iterator<Item = (usize, TurnCount)>,
) -> StageReport {
    let rate = cycles_per_ns();
    let mut rows: Vec<Row> = Stage::ALL
        .iter()
        .map(|stage| Row {
            stage: stage.name().into(),
            group: stage.group().into(),
            batches: 0,
            packets: 0,
            ns: 0.0,
        })
        .collect();
    for (stage, count) in counts {
        let row = &mut rows[stage as usize];
        row.batches += count.batches;
        row.packets += count.packets;
        row.ns += count.cycles as f64 / rate;
    }
    let cpus: Vec<_> = turns
        .map(|(cpu, count)| CpuRow {
            // There are at most 256.
            cpu: cpu as u32,
            turns: count.turns,
            busy_ns: count.cycles as f64 / rate,
        })
        .collect();
    let mut report = StageReport {
        rows,
        groups: Vec::new(),
        total_ns: 0.0,
        packets: 0,
        turns: cpus.iter().map(|cpu| cpu.turns).sum(),
        measured_ns: cpus.iter().map(|cpu| cpu.busy_ns).sum(),
        cpus,
    };
    report.sum_up();
    report
}

impl StageReport {
    /// Computes the sums of the rows.
    fn sum_up(&mut self) {
        let sum = |group: &str| {
            let rows = self.rows.iter().filter(|row| row.group == group);
            rows.map(|row| row.ns).sum()
        };
        let groups = GROUPS.iter().map(|group| Group {
            group: (*group).into(),
            ns: sum(group),
        });
        self.groups = groups.collect();
        self.total_ns = self.rows.iter().map(|row| row.ns).sum();
        self.packets = self.of(Stage::Receive).0.max(self.of(Stage::Transmit).0);
    }

    /// Returns the packets and the nanoseconds of a stage.
    pub fn of(&self, stage: Stage) -> (u64, f64) {
        let row = self.rows.iter().find(|row| row.stage == stage.name());
        row.map_or((0, 0.0), |row| (row.packets, row.ns))
    }

    /// Returns the difference of the counters to an earlier report.
    pub fn since(mut self, before: &StageReport) -> StageReport {
        for (row, old) in self.rows.iter_mut().zip(&before.rows) {
            row.batches = row.batches.saturating_sub(old.batches);
            row.packets = row.packets.saturating_sub(old.packets);
            row.ns = (row.ns - old.ns).max(0.0);
        }
        for (cpu, old) in self.cpus.iter_mut().zip(&before.cpus) {
            cpu.turns = cpu.turns.saturating_sub(old.turns);
            cpu.busy_ns = (cpu.busy_ns - old.busy_ns).max(0.0);
        }
        self.turns = self.turns.saturating_sub(before.turns);
        self.measured_ns = (self.measured_ns - before.measured_ns).max(0.0);
        self.sum_up();
        self
    }

    /// Returns nanoseconds per packet.
    fn each(&self, ns: f64) -> f64 {
        ns / self.packets.max(1) as f64
    }

    /// Returns the stages as text. The time per packet is that of a packet in the stage. A stage that is not one
    /// of packets (`rcu`) has that of all packets.
    pub fn to_text(&self) -> String {
        let mut text = String::from(
            "stage       group        batches     packets  packets/batch  ns/packet\n",
        );
        for row in self.rows.iter().filter(|row| row.batches > 0) {
            let (packets, together, each) = match row.packets {
                0 => ("-".into(), "-".into(), self.each(row.ns)),
                packets => (
                    packets.to_string(),
                    format!("{:.1}", packets as f64 / row.batches as f64),
                    row.ns / packets as f64,
                ),
            };
            let _ = writeln!(
                text,
                "{:<10}  {:<9}  {:>9}  {packets:>10}  {together:>13}  {each:>9.1}",
                row.stage, row.group, row.batches,
            );
        }
        text + &self.sums()
    }

    /// Returns the groups as text. The time per packet is that of all packets.
    pub fn groups_to_text(&self) -> String {
        let mut text = String::from("group      ns/packet   share\n");
        for group in &self.groups {
            let share = 100.0 * group.ns / self.total_ns.max(1.0);
            let each = self.each(group.ns);
            let _ = writeln!(text, "{:<9}  {each:>9.1}  {share:>4.1} %", group.group);
        }
        text + &self.sums()
    }

    /// Returns the sum of the stages and the measured time as text.
    fn sums(&self) -> String {
        let accounted = 100.0 * self.total_ns / self.measured_ns.max(1.0);
        format!(
            "sum of all stages: {:.3} ms, {:.1} ns per packet\n\
             measured:          {:.3} ms, {:.1} ns per packet; {} packets in {} turns, \
             {accounted:.1} % in stages\n",
            self.total_ns / 1e6,
            self.each(self.total_ns),
            self.measured_ns / 1e6,
            self.each(self.measured_ns),
            self.packets,
            self.turns,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use weir_stack::stages::Cells;

    #[test]
    fn every_stage_is_in_a_group_and_the_groups_add_up() {
        for stage in Stage::ALL {
            assert!(GROUPS.contains(&stage.group()), "{}", stage.name());
        }
        for group in GROUPS {
            assert!(
                Stage::ALL.iter().any(|stage| stage.group() == *group),
                "{group}"
            );
        }
        let stages = Stages::new(Arc::new(Cells::default()));
        stages.begin_turn();
        stages.entered();
        stages.inner(Stage::Buffers, 2, || {
            std::thread::sleep(Duration::from_millis(2))
        });
        stages.end(Stage::Receive, 2);
        stages.leave();
        stages.end_turn();
        let report = of(&stages);
        let sum: f64 = report.groups.iter().map(|group| group.ns).sum();
        assert!((sum - report.total_ns).abs() < 1.0, "{report:?}");
        assert!(report.of(Stage::Buffers).1 > 1e6, "{report:?}");
        // The inner part is not counted twice.
        assert!(report.total_ns <= report.measured_ns + 1.0, "{report:?}");
        assert_eq!((report.packets, report.turns), (2, 1));
        // The time of RCU is that of each of the packets.
        let rcu = report.rows.iter().find(|row| row.stage == "rcu").unwrap();
        let each = format!("{:.1}", rcu.ns / 2.0);
        let text = report.to_text();
        let shown = text.lines().find(|line| line.starts_with("rcu")).unwrap();
        let shown: Vec<_> = shown.split_whitespace().collect();
        assert_eq!(shown, ["rcu", "rcu", "1", "-", "-", &each]);
        let nothing = of(&stages).since(&report);
        assert_eq!((nothing.packets, nothing.turns), (0, 0));
        assert!(nothing.total_ns == 0.0, "{nothing:?}");
        // What is off counts nothing.
        stages.switch(false);
        stages.begin_turn();
        stages.end(Stage::Receive, 2);
        stages.end_turn();
        assert_eq!(of(&stages).packets, 2);
    }
}
