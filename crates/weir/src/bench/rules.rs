// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir bench rules`: inserts, dumps and deletes filters by the hundred thousand. It measures
//! memory per rule, look-ups among a million rules, and packets while rules change.
//!
//! Clients are threads at netlink sockets of a stack in this process, served like those of
//! programs: [`wire::BATCH`] messages per datagram and a few datagrams in flight. Memory is the
//! growth of the process's resident memory, measured in a separate process. The peers in the same
//! run are `tc -b` against a socket that only acknowledges, u32 with mirred on this machine's
//! kernel if it is permitted, and flower on Linux 6.1 in User-Mode Linux if it is installed.

mod bed;
mod linux;
mod lookup;
mod memory;
mod tools;
mod wire;

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use weir_stack::Cpu;

use super::{Bench, Curve, Options, Report, Row, Series};
use bed::Bed;
use wire::{Client, Profile};

/// The benchmark.
pub static BENCH: Bench = Bench {
    name: "rules",
    about: "hundreds of thousands of filters: insert, delete, dump, memory, look-ups",
    run,
};

/// The size of each measurement.
struct Scale {
    runs: usize,
    /// Rules that a connection inserts in a run.
    rules: u32,
    /// Lines of all `tc` processes of a run together.
    lines: u32,
    /// Rules for the measurements of memory and of look-ups.
    many: u32,
    /// Duration of the measurements of packets, idle and while rules change.
    length: Duration,
}

const SHORT: Scale = Scale {
    runs: 1,
    rules: 20_000,
    lines: 4_000,
    many: 50_000,
    length: Duration::from_millis(200),
};

const FULL: Scale = Scale {
    runs: 5,
    rules: 200_000,
    lines: 200_000,
    many: 1_000_000,
    length: Duration::from_secs(3),
};

/// The goal for the longest batch while rules change, ms, on a machine that does not interrupt it
/// for longer.
const LONGEST: f64 = 1.0;

/// The figures of the runs, by row and side.
#[derive(Default)]
struct Found {
    series: BTreeMap<String, Series>,
    notes: BTreeMap<String, String>,
}

impl Found {
    fn push(&mut self, id: &str, figure: f64) {
        self.series.entry(id.to_owned()).or_default().0.push(figure);
    }

    fn last(&self, id: &str) -> f64 {
        let series = self.series.get(id);
        series
            .and_then(|series| series.0.last().copied())
            .unwrap_or(f64::NAN)
    }

    fn note(&mut self, id: &str, note: impl Into<String>) {
        self.notes.entry(id.to_owned()).or_insert(note.into());
    }

    /// Adds a figure, or the reason why there is none.
    fn try_push(&mut self, id: &str, row: &str, figure: Result<f64, String>) {
        match figure {
            Ok(figure) => self.push(id, figure),
            Err(why) => self.note(row, why),
        }
    }
}

/// Returns the name of a row of a profile.
fn of(profile: Profile, what: &str) -> String {
    let letter = if profile == Profile::A { 'a' } else { 'b' };
    format!("{what}-{letter}")
}

/// Measures one connection: insert with either kind of counters, dump, delete.
fn one_connection(
    bed: &Bed,
    scale: &Scale,
    profile: Profile,
    found: &mut Found,
) -> Result<(), String> {
    let n = scale.rules;
    let per_second = |seconds: f64| f64::from(n) / seconds / 1e3;
    for plain in [true, false] {
        let rules = bed.rules(profile, 1, plain);
        let rate = per_second(bed::send(&[bed], vec![rules.add(0, n)])?);
        if plain {
            found.push(&of(profile, "plain"), rate);
        } else {
            found.push(&of(profile, "insert"), rate);
            let client = bed.client()?;
            let start = std::time::Instant::now();
            let mut first = Vec::with_capacity(64);
            let dumped = client.dump(bed.ifindex, &mut first)?;
            if dumped != n {
                return Err(format!("only {dumped} of {n} rules were dumped"));
            }
            let rate = per_second(start.elapsed().as_secs_f64());
            found.push(&of(profile, "dump"), rate);
            let ready = Client::dump_ready(&first, n)? / 1e3;
            found.push(
                &format!("{} ready-made datagrams", of(profile, "dump")),
                ready,
            );
        }
        let rate = per_second(bed::send(&[bed], vec![rules.delete(0, n)])?);
        if !plain {
            found.push(&of(profile, "delete"), rate);
        }
    }
    let ratio = found.last(&of(profile, "insert")) / found.last(&of(profile, "plain"));
    found.push(&of(profile, "counters"), ratio * 100.0);
    Ok(())
}

/// Measures several connections at once, in one priority or one each, relative to one connection.
fn connections(
    bed: &Bed,
    scale: &Scale,
    profile: Profile,
    found: &mut Found,
) -> Result<(), String> {
    some_connections(
        bed,
        scale,
        profile,
        &[(2, true), (4, true), (2, false), (4, false)],
        found,
    )
}

/// Measures `many` connections, in the same priority or each in its own.
fn some_connections(
    bed: &Bed,
    scale: &Scale,
    profile: Profile,
    which: &[(u32, bool)],
    found: &mut Found,
) -> Result<(), String> {
    for &(many, same) in which {
        let each = scale.rules / many;
        let rules = |k| bed.rules(profile, if same { 1 } else { 1 + k as u16 }, false);
        let all = (0..many).map(|k| rules(k).add(k * each, (k + 1) * each));
        let priorities = if same { "same" } else { "own" };
        let id = of(profile, &format!("connections-{many}-{priorities}"));
        let one = found.last(&of(profile, "insert"));
        let times = |seconds: f64| f64::from(each * many) / seconds / 1e3 / one;
        found.push(&id, times(bed::send(&[bed], all.clone().collect())?));
        bed.clsact(false)?;
        bed.clsact(true)?;
        if same {
            // The machine's own limit: as many connections, each to a stack of its own.
            let apart = (0..many)
                .map(|_| Bed::new())
                .collect::<Result<Vec<_>, _>>()?;
            let apart: Vec<&Bed> = apart.iter().collect();
            found.push(
                &format!("{id} stacks apart"),
                times(bed::send(&apart, all.collect())?),
            );
            found.note(
                &id,
                "stacks apart: each connection has a stack of its own, and nothing is shared",
            );
        }
    }
    Ok(())
}

/// Measures unmodified `tc -b` and its peers in turn.
fn tools(bed: &Bed, scale: &Scale, found: &mut Found) {
    for processes in [1, 4, 20] {
        // Each side runs first once, so that a drift of the machine's speed cancels.
        let load = tools::Load {
            processes,
            lines: scale.lines / 2,
        };
        let row = format!("tc-{processes}");
        let mut sides = [Vec::new(), Vec::new()];
        for ack in [true, false, false, true] {
            sides[usize::from(ack)].push(tools::weir(bed, load, ack));
        }
        for (id, side) in [row.clone(), format!("{row} ack")].iter().zip(sides) {
            let side: Result<Vec<f64>, String> = side.into_iter().collect();
            // The mean rate of equally many lines.
            let rate = side.map(|side| 2.0 / side.iter().map(|rate| 1.0 / rate).sum::<f64>());
            found.try_push(id, &row, rate);
        }
        let share = found.last(&row) / found.last(&format!("{row} ack")) * 100.0;
        if share.is_finite() {
            found.push(&format!("{row}-share"), share);
        }
        found.try_push(&format!("{row} u32"), &row, tools::host_u32(load));
    }
}

/// Measures look-ups among many rules, and packets while rules change.
fn packets(scale: &Scale, found: &mut Found) -> Result<(), String> {
    for masks in [1, 10] {
        for _ in 0..scale.runs {
            let id = format!("lookup-{masks}");
            for (what, ns) in lookup::elsewhere(masks, scale.many)? {
                match what.as_str() {
                    "cached" => found.push(&format!("{id} cached rules"), ns),
                    "lines" => found.push(&format!("{id} lines alone"), ns),
                    _ => found.push(&id, ns),
                }
            }
            found.note(
                &id,
                "cached rules: packets to 1,000 of the rules; lines alone: only five random cache lines per packet",
            );
        }
    }
    let bed = Bed::new()?;
    lookup::fill(&bed, 1, scale.many)?;
    let mut cpu = Cpu::new(&bed.engine.stack, 0);
    let frames = lookup::frames(1, scale.many, 1 << 16);
    for _ in 0..scale.runs {
        let (quiet, busy, rate) = lookup::disturbed(&bed, &mut cpu, &frames, scale.length)?;
        found.push("longest", busy.longest);
        found.push("longest quiet", quiet.longest);
        let bound = quiet.longest.max(LONGEST);
        found.push("longest-share", busy.longest / bound);
        found.push("throughput", busy.rate / quiet.rate * 100.0);
        found.note(
            "throughput",
            format!("{:.0}k rules/s inserted and deleted", rate / 1e3),
        );
    }
    Ok(())
}

/// The definition of a row: id, description, unit, whether higher is better, goal.
type Line = (String, String, &'static str, bool, Option<f64>);

fn lines(scale: &Scale) -> Vec<Line> {
    let mut lines = Vec::new();
    for (profile, name, insert, memory) in [
        (Profile::A, "2 MAC keys, drop", 1000.0, 256.0),
        (
            Profile::B,
            "7 keys, tunnel_key, mirred to vxlan",
            600.0,
            448.0,
        ),
    ] {
        let mut line = |id: &str, measure: &str, unit, more, goal| {
            lines.push((
                of(profile, id),
                format!("{measure} ({name})"),
                unit,
                more,
                goal,
            ));
        };
        line(
            "insert",
            "insert, 1 connection, 100 messages per datagram",
            "k/s",
            true,
            Some(insert),
        );
        line(
            "counters",
            "insert with per-CPU counters, relative to plain counters",
            "%",
            true,
            Some(90.0),
        );
        for (many, same, text) in [
            (2, "same", "2 connections, same priority"),
            (4, "same", "4 connections, same priority"),
            (2, "own", "2 connections, different priorities"),
            (4, "own", "4 connections, different priorities"),
        ] {
            let id = format!("connections-{many}-{same}");
            line(
                &id,
                &format!("insert, {text}, relative to one connection"),
                "x",
                true,
                Some(1.6),
            );
        }
        line("delete", "delete, 1 connection", "k/s", true, Some(1500.0));
        line("dump", "dump", "k/s", true, Some(2000.0));
        line(
            "memory",
            &format!("resident memory per rule, {} rules", scale.many),
            "B",
            false,
            Some(memory),
        );
    }
    for processes in [1, 4, 20] {
        let what = format!("unmodified tc -b, {processes} processes");
        lines.push((format!("tc-{processes}"), what.clone(), "k/s", true, None));
        let share = format!("{what}, relative to a socket that only acknowledges");
        lines.push((
            format!("tc-{processes}-share"),
            share,
            "%",
            true,
            Some(90.0),
        ));
    }
    for (masks, goal) in [(1, 80.0), (10, 180.0)] {
        let what = format!(
            "one packet at {} rules under {masks} masks: dissection, look-up, counters",
            scale.many
        );
        lines.push((format!("lookup-{masks}"), what, "ns", false, Some(goal)));
    }
    let what = "longest batch while 100k rules/s are inserted and deleted";
    lines.push(("longest".into(), what.into(), "ms", false, None));
    // The machine itself interrupts a batch for longer than the goal, also while no rules change.
    let what = format!(
        "the same, relative to {LONGEST} ms or, if longer, the longest batch of the same run without changes"
    );
    lines.push(("longest-share".into(), what, "x", false, Some(1.0)));
    let what = "throughput while 100k rules/s are inserted and deleted, relative to idle";
    lines.push(("throughput".into(), what.into(), "%", true, Some(90.0)));
    lines
}

fn report(scale: &Scale, mut found: Found, curves: Vec<Curve>) -> Report {
    let mut rows = Vec::new();
    for (id, measure, unit, higher_is_better, goal) in lines(scale) {
        let note = found.notes.remove(&id).unwrap_or_default();
        let weir = found.series.remove(&id).unwrap_or_default();
        let prefix = format!("{id} ");
        let peers: Vec<String> = found
            .series
            .keys()
            .filter(|key| key.starts_with(&prefix))
            .cloned()
            .collect();
        let peer = |key: String| {
            let name = key.strip_prefix(&prefix).unwrap_or_default().to_owned();
            Some((name, found.series.remove(&key)?))
        };
        let peers = peers.into_iter().filter_map(peer).collect();
        rows.push(Row {
            id,
            measure,
            unit,
            higher_is_better,
            weir,
            peers,
            goal,
            note,
        });
    }
    Report {
        bench: BENCH.name,
        rows,
        curves,
        stacks: Vec::new(),
        detail: String::new(),
    }
}

fn run(options: &Options) -> Result<Report, String> {
    if let Some(part) = &options.part {
        return part_of(part);
    }
    let scale = if options.short { &SHORT } else { &FULL };
    let (mut found, mut curves) = (Found::default(), Vec::new());
    for profile in [Profile::A, Profile::B] {
        eprint!("\rmemory             ");
        let grown = memory::elsewhere(profile, scale.many)?;
        found.push(&of(profile, "memory"), grown.bytes());
        curves.extend(grown.curves(&of(profile, "")));
    }
    let tools_work = tools::available();
    for run in 0..scale.runs {
        eprint!("\rrun {} of {}         ", run + 1, scale.runs);
        let bed = Bed::new()?;
        for profile in [Profile::A, Profile::B] {
            one_connection(&bed, scale, profile, &mut found)?;
            connections(&bed, scale, profile, &mut found)?;
            linux::insert(options.short, profile, &mut found);
        }
        match &tools_work {
            Ok(()) => tools(&bed, scale, &mut found),
            Err(why) => found.note("tc-1", why.clone()),
        }
    }
    eprint!("\rpackets             ");
    packets(scale, &mut found)?;
    eprintln!("\rruns done           ");
    Ok(report(scale, found, curves))
}

/// Measures the requests of connections alone, `RUNS[:RULES[:PROFILE[:CONNECTIONS]]]`. Prints one
/// line per figure with all runs. With a profile it measures one connection of that profile, and
/// with CONNECTIONS also that many in one priority.
fn requests(args: &str) -> Result<String, String> {
    let mut found = Found::default();
    let mut args = args.split(':');
    let runs = args.next().and_then(|runs| runs.parse().ok()).unwrap_or(1);
    let rules = args.next().and_then(|rules| rules.parse().ok());
    let scale = Scale {
        rules: rules.unwrap_or(FULL.rules),
        ..FULL
    };
    let only = args.next();
    let many = args.next().and_then(|many| many.parse().ok());
    for _ in 0..runs {
        let bed = Bed::new()?;
        for (profile, name) in [(Profile::A, "a"), (Profile::B, "b")] {
            if only.is_none_or(|only| only == name) {
                one_connection(&bed, &scale, profile, &mut found)?;
            }
            if let (true, Some(many)) = (only == Some(name), many) {
                some_connections(&bed, &scale, profile, &[(many, true)], &mut found)?;
            }
            if only.is_none() {
                connections(&bed, &scale, profile, &mut found)?;
            }
        }
    }
    let line = |(id, series): (&String, &Series)| {
        let all: Vec<_> = series
            .0
            .iter()
            .map(|figure| format!("{figure:.2}"))
            .collect();
        format!("{id} {}\n", all.join(" "))
    };
    Ok(found.series.iter().map(line).collect())
}

/// Runs a part in a separate process and returns its output.
fn elsewhere(part: &str) -> Result<String, String> {
    let failed = |error| format!("cannot start this program again: {error}");
    let me = std::env::current_exe().map_err(failed)?;
    let output = Command::new(me)
        .args(["bench", "rules", "--part", part])
        .output()
        .map_err(failed)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{part} in a separate process: {said}"))
}

/// Runs a part in this process. It prints its figures on standard output, one per line.
fn part_of(part: &str) -> Result<Report, String> {
    let (what, rest) = part.split_once(':').unwrap_or((part, ""));
    let text = match what {
        "memory" => memory::here(rest)?,
        "insert" => linux::here(rest)?,
        "lookup" => lookup::here(rest)?,
        "requests" => requests(rest)?,
        _ => return Err(format!("there is no part {part}")),
    };
    Ok(Report {
        bench: BENCH.name,
        rows: Vec::new(),
        curves: Vec::new(),
        stacks: Vec::new(),
        detail: text,
    })
}
