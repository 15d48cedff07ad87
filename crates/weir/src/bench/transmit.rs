// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir bench transmit`: many senders, one qdisc.
//!
//! There are three parts. Push and drain alone: threads pass elements to the thread that works on
//! the queue, compared with other designs (a two-level busylock, a mutex around a queue,
//! crossbeam's queue). The full path: packets with 120 bytes of UDP are built and sent through the
//! qdisc of a device that discards them, compared with the same on this machine's kernel into an
//! ifb, if that is permitted. The cost of each qdisc per packet, with few flows and with many.

mod cost;
mod drain;
mod lines;
mod linux;
mod send;

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Bench, Options, Report, Row, Series};

/// The benchmark.
pub static BENCH: Bench = Bench {
    name: "transmit",
    about: "many senders through one qdisc: push and drain, the full path, the cost of each qdisc",
    run,
};

/// The size of each measurement.
struct Scale {
    runs: usize,
    /// The duration of a run.
    length: Duration,
    threads: &'static [usize],
    /// The number of flows, and of classes, in the measurements with many.
    flows: u32,
    classes: u32,
}

const SHORT: Scale = Scale {
    runs: 1,
    length: Duration::from_millis(30),
    threads: &[1, 4],
    flows: 20_000,
    classes: 100,
};

const FULL: Scale = Scale {
    runs: 5,
    length: Duration::from_millis(300),
    threads: &[1, 2, 4, 16, 64],
    flows: 1_000_000,
    classes: 10_000,
};

/// Returns how long threads run before the measurement starts. By then each of 64 threads on two
/// processors has had its time slice of some milliseconds, and its memory.
fn warm_up(length: Duration) -> Duration {
    length / 2
}

/// The rows under construction.
#[derive(Default)]
struct Rows(Vec<Row>);

impl Rows {
    /// Returns the row with an id, and creates it with the first figure.
    fn row(&mut self, id: &str, measure: &str, unit: &'static str, goal: Option<f64>) -> &mut Row {
        if let Some(at) = self.0.iter().position(|row| row.id == id) {
            return &mut self.0[at];
        }
        self.0.push(Row {
            id: id.into(),
            measure: measure.into(),
            unit,
            higher_is_better: unit == "M/s",
            weir: Series::default(),
            peers: BTreeMap::new(),
            goal,
            note: String::new(),
        });
        let last = self.0.len() - 1;
        &mut self.0[last]
    }
}

impl Row {
    fn peer(&mut self, name: &str, figure: f64) {
        self.peers.entry(name.into()).or_default().0.push(figure);
    }

    fn remark(&mut self, text: &str) {
        if self.note.contains(text) {
            return;
        }
        if !self.note.is_empty() {
            self.note.push_str("; ");
        }
        self.note.push_str(text);
    }
}

fn run(options: &Options) -> Result<Report, String> {
    if let Some(part) = &options.part {
        return Ok(Report {
            bench: BENCH.name,
            rows: Vec::new(),
            curves: Vec::new(),
            stacks: Vec::new(),
            detail: part_of(part)?,
        });
    }
    let scale = if options.short { SHORT } else { FULL };
    let mut rows = Rows::default();
    for run in 0..scale.runs {
        eprint!("\rrun {} of {}: push and drain ", run + 1, scale.runs);
        push_and_drain(&scale, &mut rows);
        eprint!("\rrun {} of {}: the full path  ", run + 1, scale.runs);
        full_way(&scale, options.short, &mut rows)?;
        moved_lines(&scale, &mut rows);
        eprint!("\rrun {} of {}: qdiscs         ", run + 1, scale.runs);
        qdiscs(&scale, &mut rows)?;
    }
    eprintln!("\rruns done                         ");
    relate(&scale, &mut rows);
    Ok(Report {
        bench: BENCH.name,
        rows: rows.0,
        curves: Vec::new(),
        stacks: Vec::new(),
        detail: String::new(),
    })
}

/// Runs a part: `drain:WAY:THREADS:MILLISECONDS`, `send:KIND:...`, `apart:KIND:...`,
/// `cost:KIND:FLOWS:...`, `cost:htb:CLASSES:...` or `lines:MILLISECONDS`. Threads and milliseconds without a name before them are the peer's part
/// in a separate process.
fn part_of(part: &str) -> Result<String, String> {
    let words: Vec<&str> = part.split(':').collect();
    if let ["lines", length] = words[..] {
        let length = length
            .parse()
            .map_err(|_| format!("there is no part {part}"))?;
        let moved = lines::moved(Duration::from_millis(length));
        let (apart, together) = moved.ok_or("there is only one processor")?;
        return Ok(format!(
            "{apart:.1} ns, on one processor {together:.1} ns\n"
        ));
    }
    let [what, name, count, length] = words[..] else {
        return linux::part(part);
    };
    let wrong = || format!("there is no part {part}");
    let count: u32 = count.parse().map_err(|_| wrong())?;
    let length = Duration::from_millis(length.parse().map_err(|_| wrong())?);
    let threads = count as usize;
    match what {
        "drain" => {
            let way = drain::WAYS.iter().find(|way| way.name.starts_with(name));
            let found = (way.ok_or_else(wrong)?.run)(threads, length);
            Ok(format!("{:.2} M/s, p99 {} ns\n", found.millions, found.p99))
        }
        "send" => {
            let bed = [send::Bed::new(send::root(name), threads)?];
            let found = send::send(&bed, threads, length)?;
            Ok(format!(
                "{:.2} M/s, {:.1} ns\n",
                found.millions, found.cpu_ns
            ))
        }
        "apart" => {
            let found = send::send(&beds_apart(name, threads)?, threads, length)?;
            Ok(format!(
                "{:.2} M/s, {:.1} ns\n",
                found.millions, found.cpu_ns
            ))
        }
        "cost" => {
            let (root, spread) = match name {
                "htb" => (cost::htb(count), cost::Spread::Classes),
                kind => (many(kind), cost::Spread::Flows),
            };
            Ok(format!(
                "{:.1} ns\n",
                cost::of(&root, count, spread, length)?
            ))
        }
        _ => Err(wrong()),
    }
}

fn push_and_drain(scale: &Scale, rows: &mut Rows) {
    for &threads in scale.threads {
        for way in drain::WAYS {
            let found = (way.run)(threads, scale.length);
            let id = format!("drain {threads}");
            let measure = format!("push and drain, {threads} threads");
            let row = rows.row(&id, &measure, "M/s", None);
            if way.name == "weir" {
                row.weir.0.push(found.millions);
                let id = format!("drain {threads} p99");
                let measure = format!("push, {threads} threads, 99th percentile while running");
                let row = rows.row(&id, &measure, "ns", Some(200.0));
                row.weir.0.push(found.p99);
            } else {
                row.peer(way.name, found.millions);
                let id = format!("drain {threads} p99");
                rows.row(&id, "", "ns", None).peer(way.name, found.p99);
            }
        }
    }
}

/// Creates a stack per processor. It measures the cost of many senders that share only the
/// processors, their caches and their memory, which is a lower bound for any shared queue.
fn beds_apart(kind: &str, threads: usize) -> Result<Vec<send::Bed>, String> {
    let beds = send::processors().len().clamp(1, threads);
    let each = threads.div_ceil(beds);
    let bed = |_| send::Bed::new(send::root(kind), each);
    (0..beds).map(bed).collect()
}

/// The peer of the full path.
const LINUX: &str = "Linux's ifb";

const KINDS: [&str; 3] = ["pfifo", "fq", "htb"];

fn full_way(scale: &Scale, short: bool, rows: &mut Rows) -> Result<(), String> {
    for kind in KINDS {
        let bed = match send::Bed::new(send::root(kind), 64) {
            Ok(bed) => [bed],
            Err(why) => {
                rows.row(&format!("send {kind} 1"), kind, "M/s", None)
                    .remark(&why);
                continue;
            }
        };
        for &threads in scale.threads {
            let found = send::send(&bed, threads, scale.length)?;
            let id = format!("send {kind} {threads}");
            let measure =
                format!("120 bytes of UDP built and sent through {kind}, {threads} senders");
            let row = rows.row(&id, &measure, "M/s", None);
            row.weir.0.push(found.millions);
            row.remark("batches of 32 on both sides");
            let id = format!("send {kind} {threads} ns");
            let measure = format!("the same, processor time per packet, {kind}, {threads} senders");
            let row = rows.row(&id, &measure, "ns", None);
            row.weir.0.push(found.cpu_ns);
            if Some(&threads) == scale.threads.last() {
                let apart = send::send(&beds_apart(kind, threads)?, threads, scale.length)?;
                row.peer("senders apart", apart.cpu_ns);
                row.remark("senders apart: one stack per processor, nothing shared");
            }
            if short {
                row.remark("Linux is not measured with --short");
                continue;
            }
            match linux::send(kind, threads, scale.length) {
                Ok((millions, cpu_ns)) => {
                    row.peer(LINUX, cpu_ns);
                    let id = format!("send {kind} {threads}");
                    rows.row(&id, "", "M/s", None).peer(LINUX, millions);
                }
                Err(why) => row.remark(&why),
            }
        }
    }
    Ok(())
}

/// Measures what the senders' and the worker's processors cannot avoid.
fn moved_lines(scale: &Scale, rows: &mut Rows) {
    let measure = "a packet's cache line moved to another processor and back, processor time";
    let row = rows.row("lines", measure, "ns", None);
    match lines::moved(scale.length) {
        Some((apart, together)) => {
            row.weir.0.push(apart);
            row.peer("one processor", together);
        }
        None => row.remark("there is only one processor"),
    }
}

fn qdiscs(scale: &Scale, rows: &mut Rows) -> Result<(), String> {
    let few = 100;
    for (kind, goal) in [
        ("pfifo", None),
        ("fq", Some(60.0)),
        ("fq_codel", Some(60.0)),
        ("netem", Some(80.0)),
    ] {
        let id = format!("cost {kind}");
        let measure = format!("{kind}: enqueue and dequeue, 10,000 flows");
        let found = cost::of(&many(kind), 10_000, cost::Spread::Flows, scale.length);
        record(rows, &id, &measure, goal, found);
    }
    for (id, classes, goal) in [
        ("cost htb", 1000.min(scale.classes), Some(120.0)),
        ("cost htb few", few, None),
        ("cost htb many", scale.classes, None),
    ] {
        let measure = format!("htb: enqueue and dequeue, {classes} classes");
        let root = cost::htb(classes);
        let found = cost::of(&root, classes, cost::Spread::Classes, scale.length);
        record(rows, id, &measure, goal, found);
    }
    for (id, flows) in [("cost fq few", few), ("cost fq many", scale.flows)] {
        let measure = format!("fq: enqueue and dequeue, {flows} flows");
        let found = cost::of(&many("fq"), flows, cost::Spread::Flows, scale.length);
        record(rows, id, &measure, None, found);
    }
    Ok(())
}

/// Returns the root qdisc of a kind for many flows.
fn many(kind: &str) -> String {
    match kind {
        // Packets without a socket form as many flows as the mask allows.
        "fq" => send::root("fq orphan_mask 1048575 buckets 262144"),
        kind => send::root(kind),
    }
}

fn record(rows: &mut Rows, id: &str, measure: &str, goal: Option<f64>, found: Result<f64, String>) {
    let row = rows.row(id, measure, "ns", goal);
    match found {
        Ok(ns) => row.weir.0.push(ns),
        Err(why) => row.remark(&why),
    }
}

/// Derives figures from others.
fn relate(scale: &Scale, rows: &mut Rows) {
    let median = |rows: &Rows, id: &str| {
        let row = rows.0.iter().find(|row| row.id == id);
        row.map_or(f64::NAN, |row| row.weir.median())
    };
    let most = scale.threads.last().copied().unwrap_or(1);
    against_peers(scale, rows);
    let one = KINDS.map(|kind| median(rows, &format!("send {kind} 1 ns")));
    let mut ratio = |id: &str, measure: &str, of: &str, to: &str, goal: f64| {
        let ratio = median(rows, of) / median(rows, to);
        if ratio.is_finite() {
            rows.row(id, measure, "times", Some(goal))
                .weir
                .0
                .push(ratio);
        }
    };
    for kind in KINDS {
        ratio(
            &format!("senders {kind}"),
            &format!("{kind}: processor time per packet, {most} senders relative to 1"),
            &format!("send {kind} {most} ns"),
            &format!("send {kind} 1 ns"),
            1.5,
        );
    }
    for kind in ["fq", "htb"] {
        ratio(
            &format!("{kind} pfifo"),
            &format!("{kind} relative to pfifo, processor time, 1 sender"),
            &format!("send {kind} 1 ns"),
            "send pfifo 1 ns",
            2.0,
        );
        for threads in scale.threads {
            ratio(
                &format!("{kind} pfifo {threads}"),
                &format!("{kind} relative to pfifo, time per packet, {threads} senders"),
                &format!("send pfifo {threads}"),
                &format!("send {kind} {threads}"),
                2.0,
            );
        }
    }
    ratio(
        "fq scale",
        &format!("fq: {} flows relative to 100", scale.flows),
        "cost fq many",
        "cost fq few",
        3.0,
    );
    ratio(
        "htb scale",
        &format!("htb: {} classes relative to 100", scale.classes),
        "cost htb many",
        "cost htb few",
        3.0,
    );
    for (kind, one) in KINDS.into_iter().zip(one) {
        let many = format!("send {kind} {most} ns");
        let many = rows.0.iter().find(|row| row.id == many);
        let apart = many.and_then(|row| row.peers.get("senders apart"));
        let ratio = apart.map_or(f64::NAN, |apart| apart.median() / one);
        if ratio.is_finite() {
            let row = rows.row(&format!("senders {kind}"), "", "times", None);
            row.peer("senders apart", ratio);
            row.remark("senders apart: one stack per processor, nothing shared");
        }
    }
}

/// Adds the goals that refer to peers.
fn against_peers(scale: &Scale, rows: &mut Rows) {
    let mut found = Vec::new();
    for &threads in scale.threads {
        let mut times = |row: &str, name: &str, measure: String, goal: f64| {
            let Some(row) = rows.0.iter().find(|other| other.id == row) else {
                return;
            };
            let named = |(peer, _): &(&String, &Series)| name == "best" || *peer == name;
            let peers = row.peers.iter().filter(named);
            let best = peers
                .map(|(_, series)| series.median())
                .fold(f64::NAN, f64::max);
            let times = row.weir.median() / best;
            let id = format!("{} against {name}", row.id);
            found.push((id, measure, goal, times));
        };
        let drain = format!("drain {threads}");
        let text = |peer: &str| format!("push and drain, {threads} threads, relative to {peer}");
        if threads >= 4 {
            times(&drain, "busylock", text("the busylock"), 2.0);
        }
        times(&drain, "best", text("the best of the others"), 1.0);
        for kind in KINDS {
            let measure = format!("sent through {kind}, {threads} senders, relative to Linux");
            times(&format!("send {kind} {threads}"), LINUX, measure, 10.0);
        }
    }
    for (id, measure, goal, times) in found {
        let row = rows.row(&id, &measure, "times", Some(goal));
        row.higher_is_better = true;
        if times.is_finite() {
            row.weir.0.push(times);
        } else {
            row.remark("the peer was not measured");
        }
    }
}
