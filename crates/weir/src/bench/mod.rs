// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Benchmarks: a file each, a line each in [`ALL`]. Each runs Weir and its peers in turn in one run
//! and gives medians and spread, as a table, as JSON and as a chart.

mod chart;
mod path;
mod result;
mod rules;
mod testpmd;
mod transmit;

use crate::cli;

pub use result::{Curve, Report, Row, Series, Verdict};

/// How a benchmark runs.
pub struct Options {
    /// Under 30 s, no judgement of times.
    pub short: bool,
    /// A part to be run in this process alone, as the benchmark itself has asked for.
    pub part: Option<String>,
}

/// A benchmark.
pub struct Bench {
    /// Its name on the command line.
    pub name: &'static str,
    /// A line about it.
    pub about: &'static str,
    /// Runs it.
    pub run: fn(&Options) -> Result<Report, String>,
}

/// All benchmarks.
pub static ALL: &[&Bench] = &[&path::BENCH, &rules::BENCH, &transmit::BENCH];

/// The list, for people and for CI: a name a line.
pub fn list() -> String {
    ALL.iter()
        .map(|bench| format!("{:<10} {}\n", bench.name, bench.about))
        .collect()
}

/// Runs the benchmark asked for and writes what was asked for.
pub fn run(args: &cli::Bench) -> Result<String, String> {
    let Some(name) = &args.name else {
        return Ok(list());
    };
    let bench = ALL
        .iter()
        .find(|bench| bench.name == name)
        .ok_or_else(|| format!("there is no benchmark {name}; there are:\n{}", list()))?;
    let report = (bench.run)(&Options {
        short: args.short,
        part: args.part.clone(),
    })?;
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&report.to_json())
            .map_err(|error| error.to_string())?
            + "\n";
        std::fs::write(path, json).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if let Some(path) = &args.chart {
        std::fs::write(path, chart::svg(&report))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(report.to_text())
}
