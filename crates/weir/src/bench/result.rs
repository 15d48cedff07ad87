// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of a benchmark.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

/// The figures of one side over the runs.
#[derive(Debug, Clone, Default)]
pub struct Series(pub Vec<f64>);

impl Series {
    /// Returns the median of the runs.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => sorted[n / 2],
            n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
        }
    }

    /// Returns the minimum.
    pub fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::min)
    }

    /// Returns the maximum.
    pub fn max(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::max)
    }

    fn to_json(&self) -> Value {
        json!({ "median": self.median(), "min": self.min(), "max": self.max(), "runs": self.0.len() })
    }
}

/// One measure.
#[derive(Debug)]
pub struct Row {
    /// A short name, unique in the report.
    pub id: String,
    /// The description of the measure.
    pub measure: String,
    /// The unit.
    pub unit: &'static str,
    /// Whether a higher figure is better.
    pub higher_is_better: bool,
    /// Weir's runs.
    pub weir: Series,
    /// The peers' runs, by name.
    pub peers: BTreeMap<String, Series>,
    /// The goal.
    pub goal: Option<f64>,
    /// Parts that were left out, and why.
    pub note: String,
}

/// The verdict on a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The median reaches the goal.
    Held,
    /// The median misses the goal.
    Missed,
    /// Nothing was measured: the peer that the goal refers to is not available.
    NotJudged,
}

impl Verdict {
    /// Returns a sign that does not depend on colour.
    pub fn sign(self) -> char {
        match self {
            Self::Held => '✓',
            Self::Missed => '✗',
            Self::NotJudged => '–',
        }
    }

    /// Returns the verdict as a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Missed => "missed",
            Self::NotJudged => "not judged",
        }
    }
}

impl Row {
    /// Returns the verdict on the goal, if there is one.
    pub fn verdict(&self) -> Verdict {
        let median = self.weir.median();
        match self.goal {
            Some(goal) if median.is_finite() => {
                let held = if self.higher_is_better {
                    median >= goal
                } else {
                    median <= goal
                };
                if held { Verdict::Held } else { Verdict::Missed }
            }
            _ => Verdict::NotJudged,
        }
    }
}

/// A measure over another, as points of a line in the chart.
#[derive(Debug, Clone)]
pub struct Curve {
    /// The name of the line.
    pub name: String,
    /// The unit of the points' second figure.
    pub unit: &'static str,
    /// The quantity of the first figure.
    pub over: &'static str,
    /// The points.
    pub points: Vec<(f64, f64)>,
}

/// A measure in parts, as stacked bars in the chart.
#[derive(Debug, Clone)]
pub struct Stack {
    /// The name of the chart.
    pub name: String,
    /// The unit of the figures.
    pub unit: &'static str,
    /// For each bar its name, and the names and figures of its parts.
    pub bars: Vec<(String, Vec<(String, f64)>)>,
}

/// A benchmark's result.
#[derive(Debug)]
pub struct Report {
    /// The benchmark.
    pub bench: &'static str,
    /// The measures.
    pub rows: Vec<Row>,
    /// Lines for the chart.
    pub curves: Vec<Curve>,
    /// Stacked bars for the chart.
    pub stacks: Vec<Stack>,
    /// Text after the table, for example a stage report.
    pub detail: String,
}

/// Describes the machine in a line: processor and CPUs.
pub fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{}, {cpus} CPUs",
        model.map_or("unknown processor", |(_, name)| name)
    )
}

impl Report {
    /// Returns the result as JSON.
    pub fn to_json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let peers: serde_json::Map<String, Value> = row
                    .peers
                    .iter()
                    .map(|(name, series)| (name.clone(), series.to_json()))
                    .collect();
                json!({
                    "id": row.id,
                    "measure": row.measure,
                    "unit": row.unit,
                    "better": if row.higher_is_better { "higher" } else { "lower" },
                    "weir": row.weir.to_json(),
                    "peers": peers,
                    "goal": row.goal,
                    "verdict": row.goal.map(|_| row.verdict().word()),
                    "note": row.note,
                })
            })
            .collect();
        let curves: Vec<Value> = self
            .curves
            .iter()
            .map(|curve| {
                json!({
                    "name": curve.name,
                    "unit": curve.unit,
                    "over": curve.over,
                    "points": curve.points,
                })
            })
            .collect();
        let stacks: Vec<Value> = self
            .stacks
            .iter()
            .map(|stack| {
                let bars = stack.bars.iter().map(|(name, parts)| {
                    let parts: serde_json::Map<String, Value> = parts
                        .iter()
                        .map(|(part, figure)| (part.clone(), json!(figure)))
                        .collect();
                    json!({ "name": name, "parts": parts })
                });
                json!({ "name": stack.name, "unit": stack.unit, "bars": bars.collect::<Vec<_>>() })
            })
            .collect();
        json!({
            "bench": self.bench,
            "machine": machine(),
            "rows": rows,
            "curves": curves,
            "stacks": stacks,
        })
    }

    /// Returns the result as a table.
    pub fn to_text(&self) -> String {
        let mut text = format!("weir bench {} on {}\n\n", self.bench, machine());
        let line = |name: &str, series: &Series, unit: &str| {
            format!(
                "  {name:<12} {:>10.1} {unit}  ({:.1} to {:.1}, {} runs)\n",
                series.median(),
                series.min(),
                series.max(),
                series.0.len()
            )
        };
        for row in &self.rows {
            let _ = writeln!(text, "{}", row.measure);
            if !row.weir.0.is_empty() {
                text.push_str(&line("weir", &row.weir, row.unit));
            }
            for (name, series) in &row.peers {
                text.push_str(&line(name, series, row.unit));
                let ratio = row.weir.median() / series.median();
                if ratio.is_finite() {
                    let _ = writeln!(text, "  {:<12} {ratio:>10.2} times {name}", "");
                }
            }
            if let Some(goal) = row.goal {
                let verdict = row.verdict();
                let (sign, word) = (verdict.sign(), verdict.word());
                let _ = writeln!(
                    text,
                    "  {:<12} {goal:>10.1} {}  {sign} {word}",
                    "goal", row.unit
                );
            }
            if !row.note.is_empty() {
                let _ = writeln!(text, "  {}", row.note);
            }
            text.push('\n');
        }
        text.push_str(&self.detail);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_judged_by_the_median_and_only_if_there_is_one() {
        let row = |weir: &[f64], higher_is_better| Row {
            id: "r".into(),
            measure: "m".into(),
            unit: "ns",
            higher_is_better,
            weir: Series(weir.to_vec()),
            peers: BTreeMap::from([("Linux".into(), Series(vec![1.0]))]),
            goal: Some(2.0),
            note: String::new(),
        };
        assert_eq!(row(&[1.0, 1.0, 9.0], false).verdict(), Verdict::Held);
        assert_eq!(row(&[1.0, 1.0, 9.0], true).verdict(), Verdict::Missed);
        assert_eq!(row(&[], true).verdict(), Verdict::NotJudged);
        let report = |row| Report {
            bench: "b",
            rows: vec![row],
            curves: Vec::new(),
            stacks: Vec::new(),
            detail: String::new(),
        };
        let text = report(row(&[], true)).to_text();
        assert!(
            text.contains("– not judged") && !text.contains("NaN"),
            "{text}"
        );
        let text = report(row(&[4.0], true)).to_text();
        assert!(
            text.contains("4.00 times Linux\n") && text.contains("✓ held"),
            "{text}"
        );
    }

    #[test]
    fn a_series_has_median_minimum_and_maximum() {
        let series = Series(vec![3.0, 1.0, 2.0, 10.0]);
        assert_eq!(
            (series.median(), series.min(), series.max()),
            (2.5, 1.0, 10.0)
        );
        assert!(Series::default().median().is_nan());
    }
}
