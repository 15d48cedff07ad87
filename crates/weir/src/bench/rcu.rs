// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir bench rcu`: the cost of RCU beside crossbeam-epoch and liburcu, without a stack.
//!
//! - *read*: a read of a published value. Quiescent: 64 reads in one read section, as in a turn of a stack CPU.
//!   Pinned: a read section for each.
//! - *defer*: objects replaced and freed after a grace period, each with an allocation, by one writer or two. The
//!   time ends when all are freed.
//! - *grace*: a wait for all readers, without one, or while another thread begins and ends read sections.
//! - *stall*: one reader stays in its section for 300 ms while two writers replace objects of 1 KiB.
//!
//! The peers free objects as they are meant to: crossbeam-epoch on the threads of the writers, liburcu on a thread of
//! its own, with one object linked by its head. liburcu (the flavours qsbr and memb) is loaded if it is installed.

mod urcu;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

use weir_sync::rcu::{Domain, Published};

use super::{Bench, Options, Report, Row, Series};

/// The benchmark.
pub static BENCH: Bench = Bench {
    name: "rcu",
    about: "read sections, deferred frees and grace periods beside crossbeam-epoch and liburcu",
    run,
};

/// The reads of one section while quiescent.
const TURN: u64 = 64;
/// The time for which a reader stalls.
const STALL: Duration = Duration::from_millis(300);

/// An object that is replaced and freed.
type Object = [u64; 8];

/// The size of the runs.
struct Scale {
    runs: usize,
    reads: u64,
    writing: Duration,
    waits: usize,
}

const SHORT: Scale = Scale {
    runs: 1,
    reads: 1_000_000,
    writing: Duration::from_millis(50),
    waits: 200,
};

const FULL: Scale = Scale {
    runs: 5,
    reads: 50_000_000,
    writing: Duration::from_millis(500),
    waits: 20_000,
};

/// Returns the time of one of `count` calls in ns.
fn each(count: u64, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / count as f64
}

/// Runs writers for a time, each within `thread`, then `end`. Returns how many million objects they replaced a
/// second.
fn writers(
    count: usize,
    time: Duration,
    thread: impl Fn(&mut dyn FnMut()) + Sync,
    write: impl Fn() + Sync,
    end: impl FnOnce(),
) -> f64 {
    let (done, total) = (AtomicBool::new(false), AtomicU64::new(0));
    let ready = Barrier::new(count + 1);
    let start = std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                thread(&mut || {
                    let mut made = 0;
                    ready.wait();
                    while !done.load(Relaxed) {
                        for _ in 0..64 {
                            write();
                        }
                        made += 64;
                    }
                    total.fetch_add(made, Relaxed);
                });
            });
        }
        ready.wait();
        let start = Instant::now();
        std::thread::sleep(time);
        done.store(true, Relaxed);
        start
    });
    end();
    total.load(Relaxed) as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// Returns the median and the 99th percentile of the time of `wait` in µs.
fn waits(count: usize, wait: impl Fn()) -> [f64; 2] {
    let one = || {
        let start = Instant::now();
        wait();
        start.elapsed().as_nanos() as f64 / 1e3
    };
    let mut times: Vec<f64> = (0..count).map(|_| one()).collect();
    times.sort_by(f64::total_cmp);
    [times[count / 2], times[count * 99 / 100]]
}

/// Calls `wait` while another thread runs `read` again and again.
fn beside_a_reader(count: usize, read: impl Fn() + Sync, wait: impl Fn()) -> [f64; 2] {
    let done = AtomicBool::new(false);
    let ready = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            ready.wait();
            while !done.load(Relaxed) {
                read();
            }
        });
        ready.wait();
        let found = waits(count, wait);
        done.store(true, Relaxed);
        found
    })
}

/// The figures of one side in one run, by the id of their row.
type Figures = Vec<(&'static str, f64)>;

fn weir(scale: &Scale) -> Figures {
    let domain = Domain::default();
    let value = Published::new(&domain, 7_u64);
    let reader = domain.reader();
    let quiescent = each(scale.reads, || {
        let mut guard = reader.pin();
        for _ in 0..scale.reads / TURN {
            for _ in 0..TURN {
                black_box(*value.load(&guard));
            }
            guard.repin();
        }
    });
    let pinned = each(scale.reads, || {
        for _ in 0..scale.reads {
            black_box(*value.load(&reader.pin()));
        }
    });
    let place = Published::<Object>::new(&domain, [0; 8]);
    let one = || place.replace(black_box([1; 8]));
    let defer1 = writers(1, scale.writing, |work| work(), one, || domain.barrier());
    let defer2 = writers(2, scale.writing, |work| work(), one, || domain.barrier());
    drop(reader);
    let [idle, _] = waits(scale.waits, || domain.synchronize_expedited());
    let readers = domain.clone();
    let [_, loaded] = beside_a_reader(
        scale.waits,
        || drop(black_box(readers.pin())),
        || domain.synchronize_expedited(),
    );
    let (bytes, wait) = stalled();
    vec![
        ("read-quiescent", quiescent),
        ("read-pinned", pinned),
        ("defer-1", defer1),
        ("defer-2", defer2),
        ("grace-idle", idle),
        ("grace-p99", loaded),
        ("stall-memory", bytes),
        ("stall-wait", wait),
    ]
}

/// Two writers replace objects while a reader stalls. Returns the most megabytes that waited, and the longest
/// time in ms that a writer took to replace one object.
fn stalled() -> (f64, f64) {
    let domain = Domain::default();
    let value = Published::new(&domain, [0_u8; 1024]);
    let (done, longest) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut most = 0;
    std::thread::scope(|scope| {
        let guard = domain.pin();
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    let start = Instant::now();
                    value.replace(black_box([1; 1024]));
                    longest.fetch_max(start.elapsed().as_nanos() as u64, Relaxed);
                }
            });
        }
        let start = Instant::now();
        while start.elapsed() < STALL {
            std::thread::sleep(Duration::from_millis(1));
            most = most.max(domain.stats().bytes);
        }
        drop(guard);
        done.store(true, Relaxed);
    });
    domain.barrier();
    (
        most as f64 / f64::from(1 << 20),
        longest.load(Relaxed) as f64 / 1e6,
    )
}

fn crossbeam(scale: &Scale) -> Figures {
    use crossbeam_epoch::{Atomic, Owned, pin};
    let value = Atomic::new(7_u64);
    let quiescent = each(scale.reads, || {
        let mut guard = pin();
        for _ in 0..scale.reads / TURN {
            for _ in 0..TURN {
                black_box(urcu::shared(value.load(Acquire, &guard)));
            }
            guard.repin();
        }
    });
    let pinned = each(scale.reads, || {
        for _ in 0..scale.reads {
            let guard = pin();
            black_box(urcu::shared(value.load(Acquire, &guard)));
        }
    });
    let place = Atomic::<Object>::new([0; 8]);
    let one = || {
        let guard = pin();
        let old = place.swap(Owned::new(black_box([1; 8])), AcqRel, &guard);
        urcu::destroy(&guard, old);
    };
    let defer1 = writers(1, scale.writing, |work| work(), one, || ());
    let defer2 = writers(2, scale.writing, |work| work(), one, || ());
    vec![
        ("read-quiescent", quiescent),
        ("read-pinned", pinned),
        ("defer-1", defer1),
        ("defer-2", defer2),
    ]
}

fn liburcu(scale: &Scale, qsbr: &urcu::Flavour, memb: &urcu::Flavour) -> Figures {
    let value = AtomicPtr::new(Box::into_raw(Box::new(7_u64)));
    let quiescent = qsbr.registered(|| {
        each(scale.reads, || {
            for _ in 0..scale.reads / TURN {
                for _ in 0..TURN {
                    black_box(urcu::value(&value));
                }
                qsbr.quiescent();
            }
        })
    });
    let pinned = memb.registered(|| {
        each(scale.reads, || {
            for _ in 0..scale.reads {
                memb.read(|| black_box(urcu::value(&value)));
            }
        })
    });
    let place = urcu::Place::default();
    let one = || place.replace(memb, black_box([1; 8]));
    let thread = |work: &mut dyn FnMut()| memb.registered(work);
    let defer1 = writers(1, scale.writing, thread, one, || memb.barrier());
    let defer2 = writers(2, scale.writing, thread, one, || memb.barrier());
    let [idle, _] = waits(scale.waits.min(2_000), || memb.synchronize());
    let [_, loaded] = beside_a_reader(
        scale.waits.min(2_000),
        || memb.registered(|| (0..1_000).for_each(|_| memb.read(|| ()))),
        || memb.synchronize(),
    );
    urcu::free(value.into_inner());
    vec![
        ("read-quiescent", quiescent),
        ("read-pinned", pinned),
        ("defer-1", defer1),
        ("defer-2", defer2),
        ("grace-idle", idle),
        ("grace-p99", loaded),
    ]
}

/// The rows: id, measure, unit, whether more is better, goal.
const ROWS: &[(&str, &str, &str, bool, f64)] = &[
    (
        "read-quiescent",
        "a read, 64 in a section",
        "ns",
        false,
        0.5,
    ),
    (
        "read-pinned",
        "a read in a section of its own",
        "ns",
        false,
        2.0,
    ),
    (
        "defer-1",
        "objects replaced and freed, 1 writer",
        "M/s",
        true,
        f64::NAN,
    ),
    (
        "defer-2",
        "objects replaced and freed, 2 writers",
        "M/s",
        true,
        f64::NAN,
    ),
    (
        "grace-idle",
        "a grace period without readers, median",
        "us",
        false,
        1.0,
    ),
    (
        "grace-p99",
        "a grace period beside a busy reader, p99",
        "us",
        false,
        100.0,
    ),
    (
        "stall-memory",
        "memory that waits while a reader stalls for 300 ms",
        "MB",
        false,
        64.0,
    ),
    (
        "stall-wait",
        "the longest wait of a writer meanwhile",
        "ms",
        false,
        300.0,
    ),
];

fn run(options: &Options) -> Result<Report, String> {
    let scale = if options.short { &SHORT } else { &FULL };
    let flavours = urcu::Flavour::load("qsbr").zip(urcu::Flavour::load("memb"));
    let mut found: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    for run in 0..scale.runs {
        eprint!("\rrun {} of {}         ", run + 1, scale.runs);
        let mut sides = vec![("weir", weir(scale)), ("crossbeam-epoch", crossbeam(scale))];
        if let Some((qsbr, memb)) = &flavours {
            sides.push(("liburcu", liburcu(scale, qsbr, memb)));
        }
        for (side, figures) in sides {
            for (id, figure) in figures {
                found.entry((id, side)).or_default().push(figure);
            }
        }
    }
    eprintln!("\rruns done           ");
    let note = match flavours {
        Some(_) => String::new(),
        None => "liburcu left out: it is not installed".to_owned(),
    };
    let series = |id, side| found.get(&(id, side)).cloned().map(Series);
    let row = |&(id, measure, unit, higher_is_better, goal): &(_, &str, _, _, f64)| {
        let peers = ["crossbeam-epoch", "liburcu"].into_iter();
        let peers: BTreeMap<String, Series> = peers
            .filter_map(|peer| Some((peer.to_owned(), series(id, peer)?)))
            .collect();
        // Writers should be ahead of each peer, and two of them 1.7 times.
        let best = peers.values().map(Series::median).fold(f64::NAN, f64::max);
        let goal = match id {
            "defer-1" => best,
            "defer-2" => best * 1.7,
            _ => goal,
        };
        Row {
            id: id.to_owned(),
            measure: measure.to_owned(),
            unit,
            higher_is_better,
            weir: series(id, "weir").unwrap_or_default(),
            peers,
            goal: goal.is_finite().then_some(goal),
            note: note.clone(),
        }
    };
    Ok(Report {
        bench: BENCH.name,
        rows: ROWS.iter().map(row).collect(),
        curves: Vec::new(),
        stacks: Vec::new(),
        detail: String::new(),
    })
}
