// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Benchmarks, one file and one entry in [`ALL`] each. A benchmark measures Weir and its peers in
//! turn in one run, and reports medians and spread as a table, as JSON and as a chart.

mod chart;
mod client;
mod conntrack;
mod folder;
mod lru;
mod namespaces;
mod path;
mod rcu;
mod receive;
mod result;
mod rules;
mod sockets;
mod testpmd;
mod transmit;
mod uml;

use crate::cli;

pub use result::{Curve, Report, Row, Series, Stack, Verdict};

/// The options of a benchmark.
pub struct Options {
    /// Takes less than 30 s and does not judge times.
    pub short: bool,
    /// The part that the benchmark asked to run in this process alone.
    pub part: Option<String>,
}

/// A benchmark.
pub struct Bench {
    /// Its name on the command line.
    pub name: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// Runs it.
    pub run: fn(&Options) -> Result<Report, String>,
}

/// All benchmarks.
pub static ALL: &[&Bench] = &[
    &conntrack::BENCH,
    &lru::BENCH,
    &namespaces::BENCH,
    &path::BENCH,
    &rcu::BENCH,
    &receive::BENCH,
    &rules::BENCH,
    &sockets::BENCH,
    &transmit::BENCH,
];

/// Returns the resident memory of this process in bytes.
fn resident() -> Result<f64, String> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")
        .map_err(|error| format!("/proc/self/smaps_rollup: {error}"))?;
    let kilobytes = text.lines().find_map(|line| {
        line.strip_prefix("Rss:")?
            .split_whitespace()
            .next()?
            .parse::<f64>()
            .ok()
    });
    Ok(kilobytes.ok_or("smaps_rollup has no Rss")? * 1024.0)
}

/// Returns the list for people and for CI, one name per line.
pub fn list() -> String {
    ALL.iter()
        .map(|bench| format!("{:<10} {}\n", bench.name, bench.about))
        .collect()
}

/// Runs the requested benchmark and writes its results.
pub fn run(args: &cli::Bench) -> Result<String, String> {
    let Some(name) = &args.name else {
        return Ok(list());
    };
    let bench = ALL.iter().find(|bench| bench.name == name).ok_or_else(|| {
        format!(
            "there is no benchmark {name}; the benchmarks are:\n{}",
            list()
        )
    })?;
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
