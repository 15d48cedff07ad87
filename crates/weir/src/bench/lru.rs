// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir bench lru`: maps that evict, from u32 to u64.
//!
//! Rates of insertions that evict and of look-ups that hit, for maps of 10,000 to 10,000,000 entries
//! and 1 to 8 threads; misses on traces; memory of an entry; rate and misses over `nr_scans`. The
//! peers are the kernel's map where the bpf system call is permitted, quick_cache, schnellru behind a
//! mutex, and moka. Weir inserts in batches of 64 as its data path does; single calls have rows of
//! their own. `--part` runs a size, `misses`, `memory` or `scans` alone.

mod curves;
mod floor;
mod linux;
mod misses;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_map::{LruHashMap, LruOptions, Policy, Spread, Update};

use super::{Bench, Options, Report, Row, Series};
use misses::Random;

/// The benchmark.
pub static BENCH: Bench = Bench {
    name: "lru",
    about: "maps that evict: insertions, look-ups, misses, memory",
    run,
};

/// The size of the measurements.
struct Scale {
    runs: usize,
    length: Duration,
    sizes: &'static [u32],
    threads: &'static [usize],
    accesses: usize,
    seeds: &'static [u64],
    scans: &'static [u32],
}

const SHORT: Scale = Scale {
    runs: 1,
    length: Duration::from_millis(20),
    sizes: &[10_000],
    threads: &[1, 2],
    accesses: 100_000,
    seeds: &[42],
    scans: &[4, 128],
};

const FULL: Scale = Scale {
    runs: 5,
    length: Duration::from_millis(150),
    sizes: &[10_000, 1_000_000, 10_000_000],
    threads: &[1, 2, 8],
    accesses: 1_000_000,
    seeds: &[42, 1, 2],
    scans: &[1, 2, 4, 8, 16, 32, 64],
};

type Map = LruHashMap<u32, u64>;

fn make(entries: u32, options: LruOptions) -> Result<Map, String> {
    LruHashMap::new(entries, options).map_err(|error| error.to_string())
}

/// Runs `work` in threads, each bound to a CPU of the map's, and returns millions of keys a second.
fn rate(threads: usize, length: Duration, work: impl Fn(u64, &AtomicBool) -> u64 + Sync) -> f64 {
    let (stop, keys) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (stop, keys, work) = (&stop, &keys, &work);
            scope.spawn(move || {
                weir_sync::percpu::bind(thread);
                let done = work(thread as u64 + 1, stop);
                keys.fetch_add(done, Ordering::Relaxed);
            });
        }
        std::thread::sleep(length);
        stop.store(true, Ordering::Relaxed);
    });
    keys.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// Calls `insert` with random keys of 32 bits until stopped.
fn insert_each(seed: u64, stop: &AtomicBool, insert: impl Fn(u32, u64)) -> u64 {
    let (mut random, mut keys) = (Random(seed << 40), 0);
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..256 {
            insert(random.next() as u32, keys);
        }
        keys += 256;
    }
    keys
}

/// Calls `get` with random keys below `range` until stopped.
fn get_each(seed: u64, stop: &AtomicBool, range: u32, get: impl Fn(u32) -> Option<u64>) -> u64 {
    let (mut random, mut keys, mut sum) = (Random(seed << 40), 0, 0u64);
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..256 {
            sum = sum.wrapping_add(get(random.below(range)).unwrap_or(0));
        }
        keys += 256;
    }
    black_box(sum);
    keys
}

fn insert_batches(map: &Map, seed: u64, stop: &AtomicBool) -> u64 {
    let (mut random, mut keys) = (Random(seed << 40), 0);
    let mut batch = [(0, 0); weir_map::BATCH];
    while !stop.load(Ordering::Relaxed) {
        for entry in &mut batch {
            *entry = (random.next() as u32, keys);
        }
        // Only other threads' hold on all nodes could fail it.
        let _ = map.update_batch(&batch, Update::Any);
        keys += batch.len() as u64;
    }
    keys
}

fn get_batches(map: &Map, seed: u64, stop: &AtomicBool, range: u32) -> u64 {
    let (mut random, mut keys, mut sum) = (Random(seed << 40), 0, 0u64);
    let mut batch = [0; weir_map::BATCH];
    while !stop.load(Ordering::Relaxed) {
        for key in &mut batch {
            *key = random.below(range);
        }
        map.get_batch(&batch, |_, value| sum = sum.wrapping_add(value));
        keys += batch.len() as u64;
    }
    black_box(sum);
    keys
}

/// The rows under construction.
#[derive(Default)]
struct Rows(Vec<Row>);

impl Rows {
    fn row(&mut self, id: String, measure: String, unit: &'static str) -> &mut Row {
        if let Some(at) = self.0.iter().position(|row| row.id == id) {
            return &mut self.0[at];
        }
        self.0.push(Row {
            id,
            measure,
            unit,
            higher_is_better: unit == "M/s",
            weir: Series::default(),
            peers: BTreeMap::new(),
            goal: None,
            note: String::new(),
        });
        let last = self.0.len() - 1;
        &mut self.0[last]
    }

    fn note(&mut self, id: &str, note: String) {
        if let Some(row) = self.0.iter_mut().find(|row| row.id == id) {
            row.note = note;
        }
    }

    fn peer(&mut self, id: &str, name: &str, figure: f64) {
        if let Some(row) = self.0.iter_mut().find(|row| row.id == id) {
            row.peers.entry(name.into()).or_default().0.push(figure);
        }
    }
}

/// The parts other than the sizes of maps.
const PARTS: [&str; 3] = ["misses", "memory", "scans"];

fn run(options: &Options) -> Result<Report, String> {
    let scale = if options.short { SHORT } else { FULL };
    let mut rows = Rows::default();
    let part = options.part.as_deref();
    let wants = |name: &str| part.is_none_or(|part| part == name);
    let sizes: Vec<u32> = scale
        .sizes
        .iter()
        .copied()
        .filter(|size| wants(&size.to_string()))
        .collect();
    if let Some(part) = part.filter(|part| sizes.is_empty() && !PARTS.contains(part)) {
        let sizes: Vec<String> = scale.sizes.iter().map(u32::to_string).collect();
        let all = [sizes.join(", "), PARTS.join(", ")].join(", ");
        return Err(format!("there is no part {part}; the parts are {all}"));
    }
    for entries in sizes {
        for run in 0..scale.runs {
            eprint!("\r{entries} entries, run {} of {}   ", run + 1, scale.runs);
            rates(&scale, entries, &mut rows)?;
            // Larger tables do not fit into the caches.
            if entries == 10_000 {
                floor::rows(&scale, entries, &mut rows)?;
            }
            peers(&scale, entries, &mut rows);
        }
    }
    for row in &mut rows.0 {
        // The goals, as parts of what the kernel reaches in the same run.
        let times = match row.id.split_once(' ') {
            Some(("insert", "1 x 10000")) => 5.0,
            Some(("insert", "1 x 1000000")) => 5.5,
            Some(("insert", "1 x 10000000")) => 5.4,
            Some(("hit", _)) => 3.3,
            _ => continue,
        };
        row.goal = row.peers.get("Linux").map(|linux| times * linux.median());
    }
    let mut curves = curves::threads(&scale, &rows.0);
    if wants("misses") {
        eprint!("\rmisses                             ");
        all_misses(&scale, &mut rows)?;
        busy(&scale, &mut rows)?;
        curves.extend(curves::sizes(&scale)?);
    }
    if wants("memory") {
        eprint!("\rmemory                             ");
        memory(&scale, &mut rows)?;
    }
    if wants("scans") {
        eprint!("\rnr_scans                           ");
        curves.extend(curves::scans(&scale)?);
    }
    eprintln!("\rruns done                          ");
    Ok(Report {
        bench: BENCH.name,
        rows: rows.0,
        curves,
        stacks: Vec::new(),
        detail: String::new(),
    })
}

/// What the rows of maps with common lists and with lists per CPU are called.
const NAMES: [(&str, &str); 2] = [
    ("insert", "common lists"),
    ("insert-percpu", "lists per CPU"),
];

fn rates(scale: &Scale, entries: u32, rows: &mut Rows) -> Result<(), String> {
    for (spread, (word, name)) in [Spread::Common, Spread::PerCpu].into_iter().zip(NAMES) {
        let options = LruOptions {
            spread,
            ..LruOptions::default()
        };
        let map = filled(entries, options)?;
        let common = spread == Spread::Common;
        if common {
            let id = format!("hit 1 x {entries}");
            let measure = format!("look-up hit, {entries} entries");
            let figure = rate(1, scale.length, |seed, stop| {
                get_each(seed, stop, entries, |key| map.get(&key))
            });
            rows.row(id, measure, "M/s").weir.0.push(figure);
            let id = format!("hits 1 x {entries}");
            let measure = format!("look-up hit in batches of 64, {entries} entries");
            let figure = rate(1, scale.length, |seed, stop| {
                get_batches(&map, seed, stop, entries)
            });
            let row = rows.row(id, measure, "M/s");
            row.weir.0.push(figure);
            row.goal = match entries {
                10_000 => Some(150.0),
                1_000_000 => Some(40.0),
                _ => Some(25.0),
            };
            let id = format!("insert-single 1 x {entries}");
            let measure = format!("insert and evict one by one, {entries} entries");
            let figure = rate(1, scale.length, |seed, stop| {
                insert_each(seed, stop, |key, value| {
                    let _ = map.insert(key, value);
                })
            });
            rows.row(id, measure, "M/s").weir.0.push(figure);
        }
        for &threads in scale.threads {
            let id = format!("{word} {threads} x {entries}");
            let measure = format!(
                "insert and evict in batches, {name}, {threads} threads, {entries} entries"
            );
            let figure = rate(threads, scale.length, |seed, stop| {
                insert_batches(&map, seed, stop)
            });
            rows.row(id, measure, "M/s").weir.0.push(figure);
        }
        if entries == 10_000 {
            apart(scale, &map, entries, options, rows)?;
        }
    }
    Ok(())
}

/// Adds the rate of two threads with a map each, which share nothing: what the machine's CPUs reach together.
fn apart(
    scale: &Scale,
    map: &Map,
    entries: u32,
    options: LruOptions,
    rows: &mut Rows,
) -> Result<(), String> {
    let (word, name) = NAMES[usize::from(options.spread != Spread::Common)];
    let other = filled(entries, options)?;
    let maps = [map, &other];
    let figure = rate(2, scale.length, |seed, stop| {
        insert_batches(maps[seed as usize % 2], seed, stop)
    });
    let id = format!("{word}-apart 2 x {entries}");
    let measure = format!(
        "insert and evict in batches, {name}, 2 threads with a map of {entries} entries each"
    );
    rows.row(id, measure, "M/s").weir.0.push(figure);
    Ok(())
}

/// Makes a map and fills it: each CPU fills its part, so that none of them meets fresh memory later.
fn filled(entries: u32, options: LruOptions) -> Result<Map, String> {
    let map = make(entries, options)?;
    let machine = std::thread::available_parallelism().map_or(1, usize::from);
    let cpus = match options.spread {
        Spread::Common => 1,
        _ => machine,
    };
    for cpu in 0..cpus {
        weir_sync::percpu::bind(cpu);
        for key in (cpu as u32..entries).step_by(cpus) {
            let _ = map.insert(key, 1);
        }
    }
    weir_sync::percpu::unbind();
    Ok(map)
}

/// Measures a peer with `insert` and `get`.
fn peer(
    scale: &Scale,
    entries: u32,
    rows: &mut Rows,
    name: &str,
    insert: impl Fn(u32, u64) + Sync,
    get: impl Fn(u32) -> Option<u64> + Sync,
) {
    for key in 0..entries {
        insert(key, 1);
    }
    let figure = rate(1, scale.length, |seed, stop| {
        get_each(seed, stop, entries, &get)
    });
    rows.peer(&format!("hit 1 x {entries}"), name, figure);
    rows.peer(&format!("hits 1 x {entries}"), name, figure);
    for &threads in scale.threads {
        let figure = rate(threads, scale.length, |seed, stop| {
            insert_each(seed, stop, &insert)
        });
        rows.peer(&format!("insert {threads} x {entries}"), name, figure);
        if threads == 1 {
            rows.peer(&format!("insert-single 1 x {entries}"), name, figure);
        }
    }
}

fn peers(scale: &Scale, entries: u32, rows: &mut Rows) {
    let cache = quick_cache::sync::Cache::<u32, u64>::new(entries as usize);
    let insert = |key, value| cache.insert(key, value);
    peer(scale, entries, rows, "quick_cache", insert, |key| {
        cache.get(&key)
    });
    drop(cache);
    let limit = schnellru::ByLength::new(entries);
    let cache = Mutex::new(schnellru::LruMap::<u32, u64>::new(limit));
    let insert = |key, value| {
        cache.lock().insert(key, value);
    };
    peer(scale, entries, rows, "schnellru", insert, |key| {
        cache.lock().get(&key).copied()
    });
    drop(cache);
    // At ten millions it takes half a minute to fill.
    if entries <= 1_000_000 {
        let cache = moka::sync::Cache::<u32, u64>::new(u64::from(entries));
        let insert = |key, value| cache.insert(key, value);
        peer(scale, entries, rows, "moka", insert, |key| cache.get(&key));
    }
    if let Err(error) = linux_peer(scale, entries, rows) {
        for row in &mut rows.0 {
            row.note.clone_from(&error);
        }
    }
}

fn linux_peer(scale: &Scale, entries: u32, rows: &mut Rows) -> Result<(), String> {
    for percpu in [false, true] {
        let map = linux::Map::new(entries, percpu)?;
        let inserts = map.inserts()?;
        if !percpu {
            let hits = map.hits(entries)?;
            let figure = rate(1, scale.length, |_, stop| hits.run(stop));
            rows.peer(&format!("hit 1 x {entries}"), "Linux", figure);
            rows.peer(&format!("hits 1 x {entries}"), "Linux", figure);
        }
        let (word, _) = NAMES[usize::from(percpu)];
        for &threads in scale.threads {
            let figure = rate(threads, scale.length, |_, stop| inserts.run(stop));
            rows.peer(&format!("{word} {threads} x {entries}"), "Linux", figure);
            if threads == 1 && !percpu {
                rows.peer(&format!("insert-single 1 x {entries}"), "Linux", figure);
            }
        }
    }
    Ok(())
}

/// Returns the misses of a map on a trace, in per cent.
fn miss(trace: &[u32], get: impl Fn(u32) -> bool, insert: impl Fn(u32)) -> f64 {
    let mut misses = 0;
    for &rank in trace {
        let key = (rank + 1).wrapping_mul(2_654_435_761);
        if !get(key) {
            misses += 1;
            insert(key);
        }
    }
    100.0 * f64::from(misses) / trace.len() as f64
}

/// Returns the misses of the kernel's map on a trace, in per cent.
fn linux_misses(entries: u32, percpu: bool, trace: &[u32]) -> Result<f64, String> {
    let key = |rank: &u32| (rank + 1).wrapping_mul(2_654_435_761);
    let keys: Vec<u32> = trace.iter().map(key).collect();
    let misses = linux::misses(entries, percpu, &keys)?;
    Ok(100.0 * misses as f64 / trace.len() as f64)
}

fn miss_of(entries: u32, options: LruOptions, trace: &[u32]) -> Result<f64, String> {
    let map = make(entries, options)?;
    let insert = |key| {
        let _ = map.update(key, 1, Update::NoExist);
    };
    Ok(miss(trace, |key| map.get(&key).is_some(), insert))
}

fn of(policy: Policy) -> LruOptions {
    LruOptions {
        policy,
        ..LruOptions::default()
    }
}

fn all_misses(scale: &Scale, rows: &mut Rows) -> Result<(), String> {
    for (exponent, entries) in [(1.01, 4_000), (1.01, 40_000), (0.9, 4_000), (0.9, 40_000)] {
        for &seed in scale.seeds {
            let trace = misses::zipf(exponent, scale.accesses, seed);
            let part = |misses: u32| 100.0 * f64::from(misses) / trace.len() as f64;
            let clock = miss_of(entries, of(Policy::Clock), &trace)?;
            let s3fifo = miss_of(entries, of(Policy::S3Fifo), &trace)?;
            let exact = miss_of(entries, of(Policy::Exact), &trace)?;
            let cache = quick_cache::sync::Cache::<u32, u64>::new(entries as usize);
            let quick = miss(
                &trace,
                |key| cache.get(&key).is_some(),
                |key| cache.insert(key, 1),
            );
            let of_trace = format!("zipf {exponent}, {entries} of {} keys", misses::KEYS);
            let id = format!("misses clock {exponent} {entries}");
            let row = rows.row(id.clone(), format!("misses, clock, {of_trace}"), "%");
            row.weir.0.push(clock);
            rows.peer(&id, "exact LRU", exact);
            match linux_misses(entries, false, &trace) {
                Ok(linux) => rows.peer(&id, "Linux", linux),
                Err(error) => rows.note(&id, error),
            }
            let id = format!("misses s3fifo {exponent} {entries}");
            let row = rows.row(id.clone(), format!("misses, S3-FIFO, {of_trace}"), "%");
            row.weir.0.push(s3fifo);
            rows.peer(&id, "quick_cache", quick);
            rows.peer(&id, "exact LRU", exact);
            rows.peer(
                &id,
                "optimum",
                part(misses::optimum(&trace, entries as usize)),
            );
            let bound = part(misses::bound(&trace, entries));
            rows.peer(&id, "best without the future", bound);
        }
    }
    for row in &mut rows.0 {
        if row.id.starts_with("misses s3fifo") {
            row.goal = row.peers.get("quick_cache").map(Series::median);
        } else if row.id.starts_with("misses clock") {
            row.goal = row.peers.get("Linux").map(Series::median);
        }
    }
    for entries in [4_000, 40_000] {
        for (name, trace) in [
            ("scan", misses::scan(scale.accesses)),
            ("loop", misses::cycle(scale.accesses, entries)),
            ("shift", misses::shift(scale.accesses, 100_000)),
            ("fast shift", misses::shift(scale.accesses, 20_000)),
        ] {
            let exact = miss_of(entries, of(Policy::Exact), &trace)?;
            for (policy, of_policy) in [("clock", Policy::Clock), ("S3-FIFO", Policy::S3Fifo)] {
                let id = format!("misses {policy} {name} {entries}");
                let measure = format!("misses, {policy}, trace {name}, {entries} entries");
                let row = rows.row(id.clone(), measure, "%");
                row.weir.0.push(miss_of(entries, of(of_policy), &trace)?);
                row.goal = Some(1.05 * exact);
                rows.peer(&id, "exact LRU", exact);
            }
        }
    }
    Ok(())
}

/// Misses with lists per CPU while one CPU alone is busy.
fn busy(scale: &Scale, rows: &mut Rows) -> Result<(), String> {
    let trace = misses::zipf(0.9, scale.accesses, 42);
    let entries = 40_000;
    let common = miss_of(entries, of(Policy::Clock), &trace)?;
    let with = |spread| LruOptions {
        spread,
        cpus: Some(2),
        ..LruOptions::default()
    };
    let id = "misses one busy CPU".to_string();
    let measure = "misses, lists of 2 CPUs that borrow nodes, one CPU busy".into();
    let row = rows.row(id.clone(), measure, "%");
    row.weir
        .0
        .push(miss_of(entries, with(Spread::Borrow), &trace)?);
    row.goal = Some(1.02 * common);
    rows.peer(&id, "common list", common);
    let fixed = miss_of(entries, with(Spread::PerCpu), &trace)?;
    rows.peer(&id, "fixed parts", fixed);
    match linux_misses(entries, true, &trace) {
        Ok(linux) => rows.peer(&id, "Linux, lists per CPU", linux),
        Err(error) => rows.note(&id, error),
    }
    Ok(())
}

/// Returns the resident memory of the process in bytes.
fn resident() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(f64::NAN) * 4096.0
}

fn memory(scale: &Scale, rows: &mut Rows) -> Result<(), String> {
    let entries = scale.sizes[scale.sizes.len() - 1];
    for (name, policy) in [("clock", Policy::Clock), ("S3-FIFO", Policy::S3Fifo)] {
        let before = resident();
        let map = make(entries, of(policy))?;
        for key in 0..2 * entries {
            let _ = map.insert(key, 1);
        }
        let each = (resident() - before) / f64::from(entries);
        let id = format!("memory {name}");
        let measure = format!("resident memory of an entry, {name}, {entries} entries");
        let row = rows.row(id.clone(), measure, "B");
        row.weir.0.push(each);
        row.goal = Some(32.0);
        drop(map);
        match linux::Map::new(entries, false).map(|map| map.bytes(entries)) {
            Ok(Some(bytes)) => rows.peer(&id, "Linux", bytes),
            Ok(None) => {}
            Err(error) => rows.note(&id, error),
        }
    }
    Ok(())
}
