// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of each stage: ns per packet by stage and group, and their sum beside the measured time
//! of the turns in which stages ran.

use std::fmt::Write;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_stack::stages::{
    EVENTS, EventCount, GROUPS, OpenEvents, Stage, StageCount, Stages, TurnCount, cycles,
};

use crate::engine::Engine;
use crate::perf;

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

/// The hardware events in a group.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct HardwareRow {
    /// The group.
    pub group: String,
    /// Cycles of the CPU in user space.
    pub cycles: u64,
    /// Instructions.
    pub instructions: u64,
    /// Misses of the last-level cache.
    pub llc_misses: u64,
}

/// The hardware events by group, since they are counted.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Hardware {
    /// A sentence that says why there are none.
    pub none: Option<String>,
    /// The number of packets for which they were counted.
    pub packets: u64,
    /// The groups in which there were any.
    pub groups: Vec<HardwareRow>,
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
    /// The machine's counters, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
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

/// Switches the machine's counters on or off, if that is asked for, and collects what they counted.
pub fn hardware(engine: &Engine, switch: Option<bool>) -> Hardware {
    let none = |why: String| Hardware {
        none: Some(why),
        ..Hardware::default()
    };
    if let Err(error) = perf::hardware() {
        let why =
            format!("This machine gives the stack no hardware counters: perf_event_open: {error}.");
        return none(why);
    }
    let cells = engine.stack.stages.iter();
    let cells: Vec<_> = cells.filter_map(|(_, cells)| cells.get()).collect();
    if let Some(on) = switch {
        let open: OpenEvents = perf::hardware;
        cells
            .iter()
            .for_each(|cells| cells.measure(on.then_some(open)));
    }
    if !cells.iter().any(|cells| cells.is_measured()) {
        return none(
            "Hardware counters are off: `weir stat stages --measure on` starts them.".into(),
        );
    }
    sum_hardware(cells.iter().flat_map(|cells| cells.events()))
}

/// Sums up the events of stages by group.
fn sum_hardware(counts: impl Iterator<Item = (Stage, EventCount)>) -> Hardware {
    let mut sums = [[0; EVENTS]; GROUPS.len()];
    let (mut received, mut sent) = (0, 0);
    for (stage, count) in counts {
        match stage {
            Stage::Receive => received += count.packets,
            Stage::Transmit => sent += count.packets,
            _ => {}
        }
        let group = GROUPS.iter().position(|group| *group == stage.group());
        let sums = group.and_then(|group| sums.get_mut(group));
        for (sum, event) in sums.into_iter().flatten().zip(count.events) {
            *sum += event;
        }
    }
    let rows = GROUPS
        .iter()
        .zip(sums)
        .filter(|(_, events)| *events != [0; EVENTS]);
    Hardware {
        none: None,
        packets: received.max(sent),
        groups: rows
            .map(|(group, [cycles, instructions, llc_misses])| HardwareRow {
                group: (*group).into(),
                cycles,
                instructions,
                llc_misses,
            })
            .collect(),
    }
}

impl Hardware {
    /// Returns the difference of the counters to an earlier report.
    fn since(mut self, before: &Self) -> Self {
        self.packets = self.packets.saturating_sub(before.packets);
        for row in &mut self.groups {
            let old = before.groups.iter().find(|old| old.group == row.group);
            let Some(old) = old else { continue };
            row.cycles = row.cycles.saturating_sub(old.cycles);
            row.instructions = row.instructions.saturating_sub(old.instructions);
            row.llc_misses = row.llc_misses.saturating_sub(old.llc_misses);
        }
        self
    }

    /// Returns the events of a packet by group as text, or the sentence that says why there are none.
    fn to_text(&self) -> String {
        if let Some(why) = &self.none {
            return format!("{why}\n");
        }
        let each = |count: u64| count as f64 / self.packets.max(1) as f64;
        let mut text =
            String::from("group      cycles/packet  instructions/packet  LLC misses/packet\n");
        for row in &self.groups {
            let _ = writeln!(
                text,
                "{:<9}  {:>13.1}  {:>19.1}  {:>17.3}",
                row.group,
                each(row.cycles),
                each(row.instructions),
                each(row.llc_misses),
            );
        }
        text
    }
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
        hardware: None,
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
        self.hardware = match (self.hardware, &before.hardware) {
            (Some(now), Some(before)) => Some(now.since(before)),
            (now, _) => now,
        };
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

    /// Returns the sum of the stages, the measured time and the hardware counters as text.
    fn sums(&self) -> String {
        let accounted = 100.0 * self.total_ns / self.measured_ns.max(1.0);
        let hardware = self.hardware.as_ref().map(Hardware::to_text);
        let hardware = hardware.unwrap_or_default();
        format!(
            "sum of all stages: {:.3} ms, {:.1} ns per packet\n\
             measured:          {:.3} ms, {:.1} ns per packet; {} packets in {} turns, \
             {accounted:.1} % in stages\n{hardware}",
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
    fn hardware_events_are_summed_up_by_group_and_packet() {
        let count = |packets, events| EventCount { packets, events };
        let counts = [
            (Stage::Receive, count(10, [1000, 2000, 5])),
            (Stage::Steer, count(10, [500, 1000, 0])),
            (Stage::Transmit, count(8, [100, 300, 1])),
        ];
        let before = sum_hardware(counts.into_iter());
        let text = before.to_text();
        let words: Vec<Vec<_>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(words[1], ["dissect", "150.0", "300.0", "0.500"]);
        assert_eq!(words[2], ["transmit", "10.0", "30.0", "0.100"]);
        assert_eq!(words.len(), 3, "{text}");
        let twice = sum_hardware(counts.into_iter().chain(counts));
        let since = twice.since(&before);
        assert_eq!((since.packets, since.groups[0].cycles), (10, 1500));
        let none = Hardware {
            none: Some("There are none.".into()),
            ..Hardware::default()
        };
        assert_eq!(none.to_text(), "There are none.\n");
    }

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
