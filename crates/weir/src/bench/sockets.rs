// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir bench sockets`: programs that talk through a Weir namespace, and TCP without them.
//!
//! Unmodified iperf3 and the small clients and servers of [`programs`] run in three namespaces, a host, a router and
//! a host joined by veth pairs, once in Weir (`weir run --real-time`) and once in network namespaces of this machine's
//! kernel, in turn. The same script sets up both. Two connections joined in memory ([`joined`]) and connections in one
//! namespace of a stack without programs ([`idle`]) run in processes of their own.

mod idle;
#[path = "../../../weir-tcp/examples/joined/pair.rs"]
mod joined;
mod programs;
mod script;

use std::collections::BTreeMap;
use std::process::Command;

use super::{Bench, Options, Report, Row, Series};
use script::{Measure, Side};

/// The benchmark.
pub static BENCH: Bench = Bench {
    name: "sockets",
    about: "programs inside: TCP streams, connections, round trips; TCP in memory; idle connections",
    run,
};

/// The size of each measurement.
struct Scale {
    runs: usize,
    /// The length of a measurement with programs, in s.
    seconds: f64,
    /// The data that pass between two connections in memory, in GiB.
    gibibytes: u64,
    /// The connections that are made in memory.
    pairs: u32,
    /// The connections in one namespace.
    idle: u32,
    /// The lines of `tc -b`.
    lines: u32,
}

const SHORT: Scale = Scale {
    runs: 1,
    seconds: 0.5,
    gibibytes: 1,
    pairs: 20_000,
    idle: 5_000,
    lines: 2_000,
};

const FULL: Scale = Scale {
    runs: 5,
    seconds: 3.0,
    gibibytes: 8,
    pairs: 300_000,
    idle: 100_000,
    lines: 50_000,
};

/// The definition of a row.
struct Line {
    id: &'static str,
    measure: String,
    unit: &'static str,
    higher_is_better: bool,
    /// The goal: a figure, or a multiple of the kernel's figure.
    goal: Goal,
}

/// A goal, if the row has one.
#[derive(Clone, Copy)]
enum Goal {
    None,
    Figure(f64),
    OfKernel(f64),
}

fn lines(scale: &Scale) -> Vec<Line> {
    let router = "through a router, MTU 1500";
    let line = |id, measure: &str, unit, higher_is_better, goal| Line {
        id,
        measure: measure.to_owned(),
        unit,
        higher_is_better,
        goal,
    };
    let connections = format!(
        "memory of an idle connection, {} in one namespace",
        scale.idle
    );
    vec![
        line(
            "stream-router",
            &format!("iperf3, one TCP stream {router}"),
            "Gbit/s",
            true,
            Goal::OfKernel(0.5),
        ),
        line(
            "stream-loopback",
            "iperf3, one TCP stream over loopback",
            "Gbit/s",
            true,
            Goal::OfKernel(0.7),
        ),
        line(
            "http",
            &format!("short HTTP requests, a connection each, 4 at once, {router}"),
            "k/s",
            true,
            Goal::OfKernel(0.3),
        ),
        line(
            "ping-pong-tcp",
            &format!("median round trip of 1 byte, TCP, {router}"),
            "µs",
            false,
            Goal::OfKernel(1.5),
        ),
        line(
            "ping-pong-udp",
            &format!("median round trip of 1 byte, UDP, {router}"),
            "µs",
            false,
            Goal::OfKernel(1.5),
        ),
        line(
            "tc",
            "unmodified tc -b with 1,000 open TCP sockets beside it",
            "k/s",
            true,
            Goal::OfKernel(0.95),
        ),
        line(
            "memory-stream",
            "TCP alone, two connections joined in memory, one CPU: data",
            "Gbit/s",
            true,
            Goal::Figure(40.0),
        ),
        line(
            "memory-connections",
            "the same: connections made and closed",
            "k/s",
            true,
            Goal::Figure(1000.0),
        ),
        line(
            "idle-memory",
            &connections,
            "B",
            false,
            Goal::Figure(2048.0),
        ),
        line("idle-opened", "the same, opened", "k/s", true, Goal::None),
        line(
            "idle-closed",
            "the same, closed until nothing is left",
            "k/s",
            true,
            Goal::None,
        ),
    ]
}

/// The name of the peer of a row.
fn peer(id: &str) -> &'static str {
    match id {
        "tc" => "no sockets",
        _ => "Linux",
    }
}

/// The figures of the runs.
#[derive(Default)]
struct Found {
    ours: BTreeMap<&'static str, Series>,
    theirs: BTreeMap<&'static str, Series>,
    notes: BTreeMap<&'static str, String>,
}

impl Found {
    fn weir(&mut self, id: &'static str, figure: Result<f64, String>) {
        match figure {
            Ok(figure) => self.ours.entry(id).or_default().0.push(figure),
            Err(why) => drop(self.notes.entry(id).or_insert(why)),
        }
    }

    fn peer(&mut self, id: &'static str, figure: Result<f64, String>) {
        match figure {
            Ok(figure) => self.theirs.entry(id).or_default().0.push(figure),
            Err(why) => drop(
                self.notes
                    .entry(id)
                    .or_insert(format!("{} left out: {why}", peer(id))),
            ),
        }
    }
}

fn run(options: &Options) -> Result<Report, String> {
    if let Some(part) = &options.part {
        return part_of(part);
    }
    let scale = if options.short { &SHORT } else { &FULL };
    let mut found = Found::default();
    for run in 0..scale.runs {
        for (id, measure) in [
            ("stream-router", Measure::Stream { loopback: false }),
            ("stream-loopback", Measure::Stream { loopback: true }),
            ("http", Measure::Pair("http")),
            ("ping-pong-tcp", Measure::Pair("tcp")),
            ("ping-pong-udp", Measure::Pair("udp")),
        ] {
            eprint!("\rrun {} of {}, {id}          ", run + 1, scale.runs);
            found.weir(id, script::measure(Side::Weir, measure, scale.seconds));
            found.peer(id, script::measure(Side::Linux, measure, scale.seconds));
        }
        eprint!("\rrun {} of {}, tc               ", run + 1, scale.runs);
        let tc = |sockets| {
            script::measure(
                Side::Weir,
                Measure::Tc {
                    sockets,
                    lines: scale.lines,
                },
                0.0,
            )
        };
        found.peer("tc", tc(0));
        found.weir("tc", tc(1000));
        eprint!("\rrun {} of {}, memory           ", run + 1, scale.runs);
        found.weir(
            "memory-stream",
            elsewhere(&format!("joined-data:{}", scale.gibibytes)).map(|figures| figures[0]),
        );
        found.weir(
            "memory-connections",
            elsewhere(&format!("joined-connections:{}", scale.pairs)).map(|figures| figures[0]),
        );
        let figures = elsewhere(&format!("idle:{}", scale.idle));
        for (place, id) in ["idle-memory", "idle-opened", "idle-closed"]
            .into_iter()
            .enumerate()
        {
            let figure = figures.clone().and_then(|figures| {
                figures
                    .get(place)
                    .copied()
                    .ok_or_else(|| "no figure".into())
            });
            found.weir(id, figure);
        }
    }
    eprintln!("\rruns done                    ");
    Ok(report(scale, found))
}

fn report(scale: &Scale, mut found: Found) -> Report {
    let rows = lines(scale)
        .into_iter()
        .map(|line| {
            let kernel = found.theirs.remove(line.id);
            Row {
                id: line.id.to_owned(),
                measure: line.measure,
                unit: line.unit,
                higher_is_better: line.higher_is_better,
                weir: found.ours.remove(line.id).unwrap_or_default(),
                goal: match line.goal {
                    Goal::None => None,
                    Goal::Figure(figure) => Some(figure),
                    Goal::OfKernel(times) => kernel.as_ref().map(|kernel| kernel.median() * times),
                },
                peers: kernel
                    .map(|series| (peer(line.id).to_owned(), series))
                    .into_iter()
                    .collect(),
                note: found.notes.remove(line.id).unwrap_or_default(),
            }
        })
        .collect();
    Report {
        bench: BENCH.name,
        rows,
        curves: Vec::new(),
        stacks: Vec::new(),
        detail: String::new(),
    }
}

/// Returns the figures on a line of a part's output: the last line that begins with `figures `.
fn figures(text: &str) -> Result<Vec<f64>, String> {
    let line = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("figures "));
    let words = line
        .ok_or_else(|| format!("no figures in {text:?}"))?
        .split_whitespace();
    let read = words.map(|word| word.parse().map_err(|_| format!("no number: {word}")));
    read.collect()
}

/// Runs a part in a separate process.
fn elsewhere(part: &str) -> Result<Vec<f64>, String> {
    let failed = |error| format!("cannot start this program again: {error}");
    let me = std::env::current_exe().map_err(failed)?;
    let output = Command::new(me)
        .args(["bench", BENCH.name, "--part", part])
        .output()
        .map_err(failed)?;
    if output.status.success() {
        return figures(&String::from_utf8_lossy(&output.stdout));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{part} in a separate process: {said}"))
}

/// Runs a part in this process. It prints its figures on standard output.
fn part_of(part: &str) -> Result<Report, String> {
    let mut words = part.split(':');
    let what = words.next().unwrap_or_default();
    let args: Vec<&str> = words.collect();
    let number = |place: usize| args.get(place).and_then(|arg| arg.parse::<u32>().ok());
    let wrong = || format!("there is no part {part}");
    let found = match what {
        "joined-data" => joined::data(number(0).ok_or_else(wrong)?.into()).to_vec(),
        "joined-connections" => {
            vec![joined::connections(number(0).ok_or_else(wrong)?) / 1e3]
        }
        "idle" => idle::here(number(0).ok_or_else(wrong)?)?,
        _ => programs::here(what, &args)?,
    };
    let found: Vec<String> = found.iter().map(f64::to_string).collect();
    Ok(Report {
        bench: BENCH.name,
        rows: Vec::new(),
        curves: Vec::new(),
        stacks: Vec::new(),
        detail: format!("figures {}\n", found.join(" ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_output_of_a_part() {
        assert_eq!(figures("weir bench\n\nfigures 1.5 2\n"), Ok(vec![1.5, 2.0]));
        assert!(figures("nothing").is_err());
        assert!(figures("figures x").is_err());
    }

    #[test]
    fn idle_connections_leave_nothing_behind() {
        let found = idle::here(500).expect("connections open, idle and close");
        assert!(found.iter().all(|figure| figure.is_finite()), "{found:?}");
    }

    #[test]
    fn every_row_has_a_name_of_its_own() {
        let mut ids: Vec<_> = lines(&FULL).iter().map(|line| line.id).collect();
        ids.sort_unstable();
        let count = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }
}
