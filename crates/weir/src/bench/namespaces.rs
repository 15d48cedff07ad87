// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir bench namespaces`: makes and deletes namespaces and routers by the ten thousand, over the number
//! present, in each mode of RCU callbacks. It also measures their memory.
//!
//! A router is a namespace with its loopback device up, forwarding on, and two veth pairs whose other ends
//! are in one hub namespace. Each measurement is a process of its own, since memory is the growth of its
//! resident memory. A fat tree of routers forwards packets in virtual time. The peer is this machine's
//! kernel, which gets the same netlink messages, if this user may make network namespaces.
//!
//! A virtual machine may give free memory back to its host, which then takes up to 10 us for the first touch of a page:
//! several times as long as a router takes for all else. So before each measurement another process touches as much
//! memory as the measurement needs, and ends.

mod linux;
mod tree;
mod weir;

use std::collections::BTreeMap;
use std::process::Command;

use weir_netlink::{IfInfoMsg, Writer, ifla, nlm, rtm};
use weir_sync::rcu::CallbackMode;

use super::{Bench, Curve, Options, Report, Row, Series, resident};

/// The benchmark.
pub static BENCH: Bench = Bench {
    name: "namespaces",
    about: "tens of thousands of namespaces and routers: make, delete, memory",
    run,
};

/// The points of a curve.
const POINTS: u32 = 20;

/// The modes of RCU callbacks, as `weir up --rcu` names them.
const MODES: [&str; 3] = ["in-place", "offload-all", "offload=0"];

/// The KiB that a namespace takes of Linux at most.
const LINUX_KIB: u32 = 512;

/// A kind of object to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// A namespace as it comes.
    Bare,
    /// A router.
    Router,
}

impl What {
    const ALL: [Self; 2] = [Self::Bare, Self::Router];

    fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Router => "router",
        }
    }

    /// How often a run measures it: bare namespaces take hundredths of a second.
    fn times(self) -> usize {
        match self {
            Self::Bare => 7,
            Self::Router => 1,
        }
    }

    /// The KiB that one of them takes at most.
    fn kib(self) -> u32 {
        match self {
            Self::Bare => 1,
            Self::Router => 24,
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|what| what.name() == name)
    }
}

/// The numbers of objects and runs.
struct Scale {
    runs: usize,
    weir: [u32; 2],
    linux: [u32; 2],
    tree: tree::Tree,
}

const SHORT: Scale = Scale {
    runs: 1,
    weir: [2_000, 200],
    linux: [100, 50],
    tree: tree::Tree {
        ports: 4,
        packets: 4_000,
    },
};

const FULL: Scale = Scale {
    runs: 3,
    weir: [100_000, 100_000],
    linux: [1_000, 500],
    tree: tree::Tree {
        ports: 28,
        packets: 1_000_000,
    },
};

/// The figures of one process.
#[derive(Debug, Default)]
struct Figures {
    /// (present, made per second since the last point)
    points: Vec<(f64, f64)>,
    /// Made per second.
    made: f64,
    /// Deleted per second.
    deleted: f64,
    /// Bytes of memory each.
    bytes: f64,
}

impl Figures {
    /// Made and deleted per second.
    fn both(&self) -> f64 {
        1.0 / (1.0 / self.made + 1.0 / self.deleted)
    }

    /// The rate at the last point relative to the first, per cent.
    fn flat(&self) -> f64 {
        match (self.points.first(), self.points.last()) {
            (Some(first), Some(last)) => last.1 / first.1 * 100.0,
            _ => f64::NAN,
        }
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        for (present, rate) in &self.points {
            text += &format!("point {present} {rate}\n");
        }
        text + &format!("figures {} {} {}\n", self.made, self.deleted, self.bytes)
    }

    /// Reads the figures among the lines that the part printed.
    fn of_text(text: &str) -> Result<Self, String> {
        let mut found = Self::default();
        for line in text.lines() {
            let mut words = line.split(' ');
            let word = words.next();
            let numbers: Vec<f64> = words.filter_map(|word| word.parse().ok()).collect();
            match (word, &numbers[..]) {
                (Some("point"), &[present, rate]) => found.points.push((present, rate)),
                (Some("figures"), &[made, deleted, bytes]) => {
                    (found.made, found.deleted, found.bytes) = (made, deleted, bytes);
                }
                _ => {}
            }
        }
        if found.made > 0.0 {
            Ok(found)
        } else {
            Err(format!("there are no figures in \"{text}\""))
        }
    }
}

/// Adds one message of type `ty` to a datagram.
fn message(
    datagram: &mut Writer,
    ty: u16,
    flags: u16,
    fill: impl FnOnce(&mut Writer),
) -> Result<(), String> {
    let mark = datagram.message(ty, nlm::F_REQUEST | flags, 1, 0);
    fill(datagram);
    datagram
        .finish(mark)
        .map_err(|_| "a request is too long".into())
}

/// Returns the names of the other ends of a router's pairs.
fn peers(number: u32) -> [String; 2] {
    [0, 1].map(|pair| format!("r{number}.{pair}"))
}

/// Returns the requests that make a router of a new namespace: `hub` is the descriptor of the namespace
/// with the other ends, which get the names `peers`.
fn router(hub: u32, peers: &[String; 2]) -> Result<Writer, String> {
    let mut out = Writer::new();
    let up = |index: i32| IfInfoMsg {
        index,
        flags: ifla::iff::UP,
        change: ifla::iff::UP,
        ..IfInfoMsg::default()
    };
    message(&mut out, rtm::NEWLINK, 0, |out| out.fixed(&up(1)))?;
    for (name, other) in ["eth0", "eth1"].into_iter().zip(peers) {
        let create = nlm::F_CREATE | nlm::F_EXCL;
        message(&mut out, rtm::NEWLINK, create, |out| {
            out.fixed(&up(0));
            out.put_str(ifla::IFNAME, name);
            let info = out.nest(ifla::LINKINFO);
            out.put_str(ifla::info::KIND, "veth");
            let data = out.nest(ifla::info::DATA);
            let peer = out.nest(ifla::veth::PEER);
            out.fixed(&IfInfoMsg::default());
            out.put_str(ifla::IFNAME, other);
            out.put_u32(ifla::NET_NS_FD, hub);
            out.end(peer);
            out.end(data);
            out.end(info);
        })?;
    }
    Ok(out)
}

/// Returns the requests to the hub that bring up the other ends: a peer cannot be made up.
fn peers_up(peers: &[String; 2]) -> Result<Writer, String> {
    let mut out = Writer::new();
    for name in peers {
        message(&mut out, rtm::NEWLINK, 0, |out| {
            out.fixed(&IfInfoMsg {
                flags: ifla::iff::UP,
                change: ifla::iff::UP,
                ..IfInfoMsg::default()
            });
            out.put_str(ifla::IFNAME, name);
        })?;
    }
    Ok(out)
}

/// Runs a part in a separate process.
fn elsewhere(before: &[&str], part: &str) -> Result<Figures, String> {
    Figures::of_text(&printed(before, part)?)
}

/// Runs a part in a separate process. Returns what it printed.
fn printed(before: &[&str], part: &str) -> Result<String, String> {
    let me = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let me = me.to_string_lossy();
    let words = [before, &[&me, "bench", "namespaces", "--part", part]].concat();
    let output = Command::new(words[0])
        .args(&words[1..])
        .output()
        .map_err(|error| format!("{}: {error}", words[0]))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{part}: {}", said.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Has a process touch the memory that `count` objects of `kib` KiB need, and end.
fn warm(count: u32, kib: u32) -> Result<(), String> {
    printed(&[], &format!("memory:{}", count * kib)).map(drop)
}

/// Touches memory.
fn touch(kib: u32) -> Result<Figures, String> {
    let bytes = kib as usize * 1024;
    let mut memory: Vec<u8> = Vec::new();
    let reserved = memory.try_reserve_exact(bytes);
    reserved.map_err(|error| error.to_string())?;
    memory.resize(bytes, 1);
    std::hint::black_box(&memory);
    Ok(Figures::default())
}

/// The figures of all runs of one side.
#[derive(Default)]
struct Side(Vec<Figures>);

impl Side {
    fn series(&self, figure: impl Fn(&Figures) -> f64) -> Series {
        Series(self.0.iter().map(figure).collect())
    }
}

fn run(options: &Options) -> Result<Report, String> {
    if let Some(part) = &options.part {
        return part_of(part);
    }
    let scale = if options.short { &SHORT } else { &FULL };
    let mut ours: BTreeMap<(&str, &str), Side> = BTreeMap::new();
    let mut theirs: BTreeMap<&str, Side> = BTreeMap::new();
    let mut note = String::new();
    for run in 0..scale.runs {
        eprint!("\rrun {} of {}         ", run + 1, scale.runs);
        for (what, (count, few)) in What::ALL
            .into_iter()
            .zip(scale.weir.into_iter().zip(scale.linux))
        {
            let name = what.name();
            for mode in std::iter::repeat_n(MODES, what.times()).flatten() {
                warm(count, what.kib())?;
                let figures = elsewhere(&[], &format!("weir:{name}:{mode}:{count}"))?;
                ours.entry((name, mode)).or_default().0.push(figures);
            }
            warm(few, LINUX_KIB)?;
            match elsewhere(&["unshare", "-n"], &format!("linux:{name}:{few}")) {
                Ok(figures) => theirs.entry(name).or_default().0.push(figures),
                Err(why) => note = format!("Linux left out: {why}"),
            }
        }
    }
    eprint!("\rfat tree            ");
    let tree = tree::seconds(&scale.tree);
    eprintln!("\rruns done           ");
    let mut report = report(scale, &ours, &theirs, &note);
    let (series, note) = match tree {
        Ok(seconds) => (Series(vec![seconds]), String::new()),
        Err(why) => (Series::default(), format!("left out: {why}")),
    };
    report.rows.push(Row {
        id: "fat-tree".into(),
        measure: format!(
            "{} packets over 6 links of a fat tree of {} routers, virtual time",
            scale.tree.packets,
            tree::routers(scale.tree.ports)
        ),
        unit: "s",
        higher_is_better: false,
        weir: series,
        peers: BTreeMap::new(),
        goal: Some(5.0),
        note,
    });
    Ok(report)
}

fn report(
    scale: &Scale,
    ours: &BTreeMap<(&str, &str), Side>,
    theirs: &BTreeMap<&str, Side>,
    note: &str,
) -> Report {
    let mut rows = Vec::new();
    let mut curves = Vec::new();
    for (what, count) in What::ALL.into_iter().zip(scale.weir) {
        let name = what.name();
        let (thing, rate_goal, memory_goal) = match what {
            What::Bare => ("bare namespace, library call", 1e3, 1024.0),
            What::Router => ("router, netlink", 100.0, 8192.0),
        };
        let linux = |figure: fn(&Figures) -> f64| match theirs.get(name) {
            Some(side) => BTreeMap::from([("Linux".to_owned(), side.series(figure))]),
            None => BTreeMap::new(),
        };
        let mut row = |id: String, measure: String, unit, more, weir, peers, goal| {
            rows.push(Row {
                id,
                measure,
                unit,
                higher_is_better: more,
                weir,
                peers,
                goal,
                note: note.to_owned(),
            });
        };
        for mode in MODES {
            let Some(side) = ours.get(&(name, mode)) else {
                continue;
            };
            row(
                format!("{name} {mode}"),
                format!("{thing}, {count} made and deleted, callbacks {mode}"),
                "k/s",
                true,
                side.series(|figures| figures.both() / 1e3),
                linux(|figures| figures.both() / 1e3),
                Some(rate_goal),
            );
            row(
                format!("{name} {mode} delete"),
                format!("{thing}, deleted with everything in it, callbacks {mode}"),
                "k/s",
                true,
                side.series(|figures| figures.deleted / 1e3),
                linux(|figures| figures.deleted / 1e3),
                Some(200.0),
            );
            row(
                format!("{name} {mode} flat"),
                format!("{thing}, rate at {count} present relative to the first, callbacks {mode}"),
                "%",
                true,
                side.series(Figures::flat),
                BTreeMap::new(),
                Some(90.0),
            );
            if let Some(figures) = side.0.last() {
                curves.push(Curve {
                    name: format!("{thing}, {mode}"),
                    unit: "k/s",
                    over: "present",
                    points: figures
                        .points
                        .iter()
                        .map(|point| (point.0, point.1 / 1e3))
                        .collect(),
                });
            }
        }
        if let Some(side) = ours.get(&(name, MODES[0])) {
            row(
                format!("{name} memory"),
                format!(
                    "memory of a {}, {count} present",
                    thing.split(',').next().unwrap_or(thing)
                ),
                "B",
                false,
                side.series(|figures| figures.bytes),
                linux(|figures| figures.bytes),
                Some(memory_goal),
            );
        }
    }
    Report {
        bench: BENCH.name,
        rows,
        curves,
        stacks: Vec::new(),
        detail: String::new(),
    }
}

/// Runs a part in this process: `weir:WHAT:MODE:COUNT` or `linux:WHAT:COUNT`.
fn part_of(part: &str) -> Result<Report, String> {
    let wrong = || format!("there is no part {part}");
    let words: Vec<&str> = part.split(':').collect();
    let what = words.get(1).and_then(|word| What::of_name(word));
    let count = words.last().and_then(|word| word.parse().ok());
    let figures = match (words[0], what, count, words.get(2)) {
        ("weir", Some(what), Some(count), Some(mode)) => {
            weir::here(what, mode.parse::<CallbackMode>()?, count)?
        }
        ("linux", Some(what), Some(count), _) => linux::here(what, count)?,
        ("memory", _, Some(kib), _) => touch(kib)?,
        _ => return Err(wrong()),
    };
    Ok(Report {
        bench: BENCH.name,
        rows: Vec::new(),
        curves: Vec::new(),
        stacks: Vec::new(),
        detail: figures.to_text(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_survive_the_way_between_processes() {
        let figures = Figures {
            points: vec![(10.0, 4.0), (20.0, 3.0)],
            made: 3.0,
            deleted: 6.0,
            bytes: 100.0,
        };
        let text = format!("weir bench namespaces\n\n{}", figures.to_text());
        let read = Figures::of_text(&text).unwrap();
        assert_eq!(read.points, figures.points);
        assert_eq!((read.both(), read.flat(), read.bytes), (2.0, 75.0, 100.0));
        assert!(Figures::of_text("weir: no").is_err());
    }
}
