// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir bench receive`: the receive path on one CPU, from frames in memory to a drop, to a device
//! that discards, and through two namespaces (`--part forward` measures this alone, `--part paths` the short paths
//! and the buffers); of TCP segments that are merged (`--part gro`); on two CPUs, with packets steered from one to the
//! other (`--part steering`); and through ports of the host (`--part ports`). The peer is testpmd on the same frames, if DPDK is installed; its runs alternate
//! with Weir's. Linux's XDP drop, which runs on a frame in memory (`BPF_PROG_TEST_RUN`), is another peer of early
//! drop.

mod bed;
mod gro;
mod ports;
mod steering;

use std::collections::BTreeMap;
use std::time::Instant;

use weir_packet::{Buffers, Pool, PoolConfig};

use self::bed::{Bed, Path};
use super::testpmd::{self, Mode};
use super::{Bench, Curve, Options, Report, Row, Series, Stack};

/// The benchmark.
pub static BENCH: Bench = Bench {
    name: "receive",
    about: "the receive path: drop, rewrite, forwarding, buffers, stages",
    run,
};

/// The length of the frames in bytes.
const SIZE: usize = 64;
/// The number of different frames.
const FRAMES: u32 = 1024;
/// The number of different frames that are forwarded.
const FLOWS: u32 = 8192;
/// The sizes of batches for the chart.
const BATCHES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// The sizes of frames for the chart.
const SIZES: [usize; 6] = [64, 128, 256, 512, 1024, 1500];
/// The size of a batch of the receive path.
const FULL: usize = 64;

/// The work of one run.
struct Scale {
    runs: usize,
    packets: usize,
    peers: bool,
}

/// The peer's side: the frames as a capture, and its modes' runs.
struct Peer {
    capture: std::path::PathBuf,
    works: bool,
    note: String,
}

impl Peer {
    fn new(frames: &[Vec<u8>], scale: &Scale) -> Self {
        let name = format!("weir-bench-receive-{}.pcap", std::process::id());
        let capture = std::env::temp_dir().join(name);
        let ready = match (scale.peers, testpmd::available()) {
            (false, _) => Err("testpmd is not measured with --short".to_owned()),
            (true, Err(why)) => Err(why),
            (true, Ok(())) => testpmd::write_capture(frames, &capture)
                .map_err(|error| format!("{}: {error}", capture.display())),
        };
        Self {
            capture,
            works: ready.is_ok(),
            note: ready.map_or_else(|why| why, |()| testpmd::pages()),
        }
    }

    fn run(&mut self, mode: Mode, series: &mut Series) {
        if !self.works {
            return;
        }
        match testpmd::run(&testpmd::replay(&self.capture), mode, 2) {
            Ok(ns) => series.0.push(ns),
            Err(why) => (self.works, self.note) = (false, why),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The file may never have been written.
        let _ = std::fs::remove_file(&self.capture);
    }
}

/// Returns a row without peers.
fn row(id: &str, measure: &str, unit: &'static str, weir: Series, goal: f64) -> Row {
    Row {
        id: id.into(),
        measure: measure.into(),
        unit,
        higher_is_better: false,
        weir,
        peers: BTreeMap::new(),
        goal: Some(goal),
        note: String::new(),
    }
}

/// Adds a peer to a row. The goal becomes `share` times the peer's median, if there is one.
fn beside(mut row: Row, name: &str, peer: &Series, share: f64, note: &str) -> Row {
    if !peer.0.is_empty() {
        row.goal = Some(share * peer.median());
        row.peers.insert(name.into(), peer.clone());
    }
    row.note = note.into();
    row
}

/// Measures taking and returning a buffer, `most` at a time. Returns nanoseconds per buffer.
fn buffers(rounds: usize, most: usize) -> f64 {
    let pool = Pool::new(PoolConfig::default());
    let mut memory = pool.cache();
    let mut taken = Buffers::new();
    let mut once = || {
        memory.take(&mut taken, most);
        std::hint::black_box(&mut taken);
        memory.give(&mut taken);
    };
    (0..1000).for_each(|_| once());
    let start = Instant::now();
    (0..rounds / most).for_each(|_| once());
    start.elapsed().as_nanos() as f64 / (rounds / most * most) as f64
}

/// Measures taking and returning a single buffer. Returns nanoseconds.
fn single_buffer(rounds: usize) -> f64 {
    let pool = Pool::new(PoolConfig::default());
    let mut memory = pool.cache();
    let mut once = || {
        if let Some(packet) = memory.alloc(0) {
            memory.free(std::hint::black_box(packet));
        }
    };
    (0..1000).for_each(|_| once());
    let start = Instant::now();
    (0..rounds).for_each(|_| once());
    start.elapsed().as_nanos() as f64 / rounds as f64
}

fn run(options: &Options) -> Result<Report, String> {
    let (runs, segments) = if options.short {
        (3, 6_400)
    } else {
        (7, 640_000)
    };
    let part = match options.part.as_deref() {
        Some("gro") => Some(vec![gro::gro(runs, segments)?]),
        Some("steering") => Some(steering::steering(options.short)?),
        Some("ports") => Some(ports::ports(options.short)),
        _ => None,
    };
    if let Some(rows) = part {
        return Ok(Report {
            bench: BENCH.name,
            rows,
            curves: Vec::new(),
            stacks: Vec::new(),
            detail: String::new(),
        });
    }
    let scale = match options.short {
        true => Scale {
            runs: 3,
            packets: 20_000,
            peers: false,
        },
        false => Scale {
            runs: 7,
            packets: 2_000_000,
            peers: true,
        },
    };
    if options.part.as_deref() == Some("forward") {
        return forward_alone(&scale);
    }
    let frames = bed::frames(FRAMES, SIZE);
    let short_paths = options.part.as_deref() == Some("paths");
    eprint!("\rset-up");
    let mut early = Bed::new(Path::Early, &frames)?;
    let mut sifted = Bed::new(Path::EarlyFlower, &frames)?;
    let mut drop = Bed::new(Path::Drop, &frames)?;
    let mut readdress = Bed::new(Path::Readdress, &frames)?;
    let mut forward = match short_paths {
        true => None,
        false => Some(Bed::new(Path::Forward, &bed::frames(FLOWS, SIZE))?),
    };
    let mut peer = Peer::new(&frames, &scale);
    let mut series: BTreeMap<&str, Series> = BTreeMap::new();
    let mut add = |name, ns| series.entry(name).or_default().0.push(ns);
    let (mut rxonly, mut macswap) = (Series::default(), Series::default());
    // The program of one verdict, the one that compares an address, and the former on live frames.
    let mut xdp: [Series; 3] = Default::default();
    let beds = [&mut early, &mut sifted, &mut drop, &mut readdress];
    for bed in beds.into_iter().chain(&mut forward) {
        let (packets, before) = (scale.packets / 10, bed.ended());
        bed.play(packets, FULL);
        let ended = bed.ended() - before;
        if (ended as usize) < packets {
            return Err(format!("only {ended} of {packets} packets came to the end"));
        }
    }
    for run in 0..scale.runs {
        eprint!("\rrun {} of {}", run + 1, scale.runs);
        add("early-drop", early.play(scale.packets * 4, FULL));
        add("early-drop-flower", sifted.play(scale.packets * 4, FULL));
        if let Ok(drop) = ports::xdp_drop(scale.packets as u32) {
            xdp[0].0.push(drop.program);
            xdp[1].0.push(drop.by_address);
            xdp[2].0.push(drop.live);
        }
        add("dissect-drop", drop.play(scale.packets, FULL));
        peer.run(Mode::Rxonly, &mut rxonly);
        add("macs", readdress.play(scale.packets, FULL));
        peer.run(Mode::Macswap, &mut macswap);
        if let Some(forward) = &mut forward {
            let (two, stages) = forward.play_by_stage(scale.packets, FULL);
            add("forward", two / 2.0);
            let accounted = stages.total_ns / scale.packets as f64 / two;
            add("stages-sum", (accounted - 1.0).abs() * 100.0);
        }
        let with = readdress.play(scale.packets / 2, FULL);
        readdress.account(false);
        let without = readdress.play(scale.packets / 2, FULL);
        readdress.account(true);
        add("accounting", (with / without - 1.0) * 100.0);
        let one = readdress.play(scale.packets / 4, 1);
        let full = readdress.play(scale.packets / 4, FULL);
        add("staged", one / full);
        add("buffers-64", buffers(scale.packets * 4, FULL));
        add("buffers-1", single_buffer(scale.packets));
    }
    eprintln!("\rruns done     ");
    let mut take = |name: &str| series.remove(name).unwrap_or_default();
    let rxonly = (&rxonly, "testpmd rxonly");
    let macswap = (&macswap, "testpmd macswap");
    let mut rows = vec![
        beside(
            row(
                "early-drop",
                "capture, matchall drop before a packet is made",
                "ns",
                take("early-drop"),
                10.0,
            ),
            rxonly.1,
            rxonly.0,
            0.5,
            &peer.note,
        ),
        beside(
            row(
                "early-drop-flower",
                "capture, flower drop (MAC addresses) before a packet is made",
                "ns",
                take("early-drop-flower"),
                10.0,
            ),
            rxonly.1,
            rxonly.0,
            0.5,
            &peer.note,
        ),
        beside(
            row(
                "dissect-drop",
                "capture, full dissection, matchall drop at ingress",
                "ns",
                take("dissect-drop"),
                25.0,
            ),
            rxonly.1,
            rxonly.0,
            1.25,
            &peer.note,
        ),
        beside(
            row(
                "macs",
                "capture, both MAC addresses rewritten, discarded",
                "ns",
                take("macs"),
                30.0,
            ),
            macswap.1,
            macswap.0,
            1.0,
            &peer.note,
        ),
        forward_row(take("forward")),
        row(
            "buffers-64",
            "a buffer taken and returned, 64 at once",
            "ns",
            take("buffers-64"),
            0.5,
        ),
        row(
            "buffers-1",
            "a buffer taken and returned, one at a time",
            "ns",
            take("buffers-1"),
            3.5,
        ),
        row(
            "staged",
            "packets one by one against batches of 64",
            "times",
            take("staged"),
            1.8,
        ),
        row(
            "stages-sum",
            "difference between the sum of the stages and the total",
            "%",
            take("stages-sum"),
            5.0,
        ),
        row(
            "accounting",
            "cost of accounting the stages",
            "%",
            take("accounting"),
            3.0,
        ),
    ];
    let live = "Linux XDP_DROP, live frames";
    for (id, name, peer) in [
        ("early-drop", "Linux XDP_DROP, alone", &xdp[0]),
        ("early-drop", live, &xdp[2]),
        (
            "early-drop-flower",
            "Linux XDP_DROP by address, alone",
            &xdp[1],
        ),
        ("early-drop-flower", live, &xdp[2]),
    ] {
        let row = rows.iter_mut().find(|row| row.id == id);
        if let Some(row) = row.filter(|_| !peer.0.is_empty()) {
            row.peers.insert(name.into(), peer.clone());
        }
    }
    for row in &mut rows {
        row.higher_is_better = row.id == "staged";
    }
    rows.retain(|row| !row.weir.0.is_empty());
    let mut beds = vec![("rewrite of MAC addresses", &mut readdress)];
    if let Some(forward) = &mut forward {
        beds.push(("IPv4 forwarding, two hops", forward));
    }
    let (detail, stacks) = by_batch(&mut beds, &scale);
    if short_paths {
        return Ok(Report {
            bench: BENCH.name,
            rows,
            curves: Vec::new(),
            stacks: Vec::new(),
            detail,
        });
    }
    rows.push(gro::gro(runs, segments)?);
    rows.extend(steering::steering(options.short)?);
    rows.extend(ports::ports(options.short));
    Ok(Report {
        bench: BENCH.name,
        rows,
        curves: by_size(&scale)?,
        stacks,
        detail,
    })
}

/// Returns the row of a hop.
fn forward_row(series: Series) -> Row {
    row(
        "forward",
        "a hop of IPv4 forwarding (100,000 routes, 10,000 neighbours), two namespaces",
        "ns",
        series,
        60.0,
    )
}

/// Measures forwarding without the other paths.
fn forward_alone(scale: &Scale) -> Result<Report, String> {
    let mut bed = Bed::new(Path::Forward, &bed::frames(FLOWS, SIZE))?;
    bed.play(scale.packets / 10, FULL);
    let mut series = Series::default();
    for _ in 0..scale.runs {
        series.0.push(bed.play(scale.packets, FULL) / 2.0);
    }
    let (detail, stacks) = by_batch(&mut [("IPv4 forwarding, two hops", &mut bed)], scale);
    Ok(Report {
        bench: BENCH.name,
        rows: vec![forward_row(series)],
        curves: Vec::new(),
        stacks,
        detail,
    })
}

/// Measures the stages for each size of batches.
fn by_batch(beds: &mut [(&str, &mut Bed)], scale: &Scale) -> (String, Vec<Stack>) {
    let (mut detail, mut stacks) = (String::new(), Vec::new());
    for (name, bed) in beds {
        let mut stack = Stack {
            name: format!("{name}, by stage and size of batches"),
            unit: "ns",
            bars: Vec::new(),
        };
        for most in BATCHES {
            let packets = scale.packets / 8;
            let (ns, stages) = bed.play_by_stage(packets, most);
            let parts = stages
                .rows
                .iter()
                .map(|row| (row.stage.clone(), row.ns / packets as f64));
            let parts: Vec<_> = parts.filter(|(_, ns)| *ns > 0.0).collect();
            stack.bars.push((most.to_string(), parts));
            if most == FULL {
                detail += &format!("{name}: {ns:.1} ns a packet\n{}\n", stages.to_text());
            }
        }
        stacks.push(stack);
    }
    (detail, stacks)
}

/// Measures the throughput of the rewrite for each size of frames.
fn by_size(scale: &Scale) -> Result<Vec<Curve>, String> {
    let mut points = Vec::new();
    for size in SIZES {
        let mut bed = Bed::new(Path::Readdress, &bed::frames(FRAMES, size))?;
        let packets = scale.packets / 8;
        bed.play(packets / 10, FULL);
        points.push((size as f64, 1e3 / bed.play(packets, FULL)));
    }
    Ok(vec![Curve {
        name: "rewrite of MAC addresses, by size of frames".into(),
        unit: "M packets/s",
        over: "bytes",
        points,
    }])
}
