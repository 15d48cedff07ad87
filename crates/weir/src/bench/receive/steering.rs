// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Received packets of 1,000 flows, steered to a second CPU. Each packet takes the path of `weir bench path`: receive, flower (10 masks, 10,000 rules), the FIB (100,000 routes), transmit.
//!
//! CPU 0 receives all frames, in batches of 64. One row is the cost that steering adds to a packet: the time
//! of both CPUs together, with all packets steered to CPU 1, less the time of one CPU without steering.
//! It includes the cache lines that move from one CPU to the other. The other row is the throughput of two
//! CPUs over that of one, with the packets spread over both by `rps_cpus`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use weir_packet::{Batch, Buffers};
use weir_stack::{Config, Cpu, Device, Stack};

use super::super::path::{self, Bed, ROUTER};
use super::super::{Row, Series};

const FLOWS: u32 = 1_000;
const BATCH: usize = 64;
/// The goals of the project: ns added to a packet, and the throughput of two CPUs over one.
const ADDED: f64 = 50.0;
const SPEED: f64 = 1.6;
/// CPU 0 waits while this many packets wait for CPU 1.
const AHEAD: u32 = 1_024;

/// Returns a UDP frame of 64 bytes for each flow, to different routes.
fn frames() -> Vec<Vec<u8>> {
    let frame = |flow: u32| {
        let mut frame = [ROUTER, [2, 0, 0, 1, 0, 2]].concat();
        frame.extend([8, 0, 0x45, 0, 0, 50, 0, 1, 0, 0, 64, 17, 0, 0, 10, 1, 0, 2]);
        frame.extend((0x1400_0001 + (flow.wrapping_mul(0x9e37) << 8 & 0x01ff_ff00)).to_be_bytes());
        let words = frame[14..34].chunks(2);
        let sum: u32 = words
            .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
            .sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        let check = !((sum & 0xffff) + (sum >> 16)) as u16;
        frame[24..26].copy_from_slice(&check.to_be_bytes());
        frame.extend((1024 + flow as u16).to_be_bytes());
        frame.extend([0x13, 0x89, 0, 30, 0, 0]);
        frame.resize(64, 0);
        frame
    };
    (0..FLOWS).map(frame).collect()
}

/// Pins the thread of a CPU to a processor of its own. Without it a run is only less steady.
fn pin(processors: &CpuSet, cpu: usize) {
    let mut all = (0..CpuSet::MAX_CPU).filter(|at| processors.is_set(*at));
    if let Some(processor) = all.nth(cpu) {
        let mut only = CpuSet::new();
        only.set(processor);
        let _ = sched_setaffinity(None, &only);
    }
}

/// The times of a run, in ns per packet.
struct Times {
    /// From the first to the last packet.
    wall: f64,
    /// The times that CPU 0 and CPU 1 worked.
    busy: [f64; 2],
}

/// Receives a batch on CPU 0 as a port does, and takes a turn if that has left work, as the loop of a CPU does.
/// Returns false if the frames do not fit into the pool's buffers.
fn receive(bed: &mut Bed, lan: &Arc<Device>, chunk: &[Vec<u8>]) -> bool {
    let whole = bed.cpu.with(|cx| {
        let (mut batch, mut buffers) = (Batch::new(), Buffers::new());
        cx.state.cache.borrow_mut().take(&mut buffers, chunk.len());
        let got = buffers.fill(&mut batch, chunk.iter().map(|frame| &frame[..]));
        weir_stack::datapath::receive(cx, lan, batch);
        got == chunk.len()
    });
    if bed.cpu.has_input() {
        bed.cpu.turn();
    }
    whole
}

/// Receives `rounds` times all frames on CPU 0. CPU 1 runs in its own thread meanwhile.
fn play(
    bed: &mut Bed,
    lan: &Arc<Device>,
    frames: &[Vec<u8>],
    rounds: usize,
) -> Result<Times, String> {
    let processors = sched_getaffinity(None).map_err(|error| error.to_string())?;
    let stack = bed.stack.clone();
    let input = stack.softnet.cpu(1).ok_or("the stack has one CPU")?;
    let (over, ready, busy) = (
        AtomicBool::new(false),
        AtomicBool::new(false),
        AtomicU64::new(0),
    );
    std::thread::scope(|scope| {
        let (over, ready, busy, processors) = (&over, &ready, &busy, &processors);
        let second = stack.clone();
        scope.spawn(move || {
            pin(processors, 1);
            weir_sync::percpu::bind(1);
            let mut cpu = Cpu::new(&second, 1);
            ready.store(true, Relaxed);
            while !over.load(Relaxed) {
                // An idle turn would look for the end of a grace period, which interrupts CPU 0.
                if cpu.has_input() {
                    let start = Instant::now();
                    cpu.turn();
                    busy.fetch_add(start.elapsed().as_nanos() as u64, Relaxed);
                } else {
                    std::hint::spin_loop();
                }
            }
        });
        while !ready.load(Relaxed) {
            std::thread::yield_now();
        }
        pin(processors, 0);
        let (start, mut packets, mut own) = (Instant::now(), 0usize, 0u64);
        let mut result = Ok(());
        'rounds: for _ in 0..rounds {
            for chunk in frames.chunks(BATCH) {
                while input.queue.waiting() > AHEAD {
                    std::hint::spin_loop();
                }
                let start = Instant::now();
                let whole = receive(bed, lan, chunk);
                own += start.elapsed().as_nanos() as u64;
                packets += chunk.len();
                if !whole {
                    result = Err("the frames do not fit into the pool's buffers".to_owned());
                    break 'rounds;
                }
            }
        }
        while bed.cpu.has_input() {
            bed.cpu.turn();
        }
        while !input.queue.is_idle() {
            std::hint::spin_loop();
        }
        let wall = start.elapsed().as_nanos() as f64 / packets as f64;
        over.store(true, Relaxed);
        let _ = sched_setaffinity(None, processors);
        // The other thread writes no more once nothing is left, except for its last addition.
        let busy = [own, busy.load(Relaxed)];
        result.map(|()| Times {
            wall,
            busy: busy.map(|ns| ns as f64 / packets as f64),
        })
    })
}

/// Receives `rounds` times all frames on CPU 0 and lets CPU 1 work on its packets, in one thread. Returns
/// nanoseconds per packet. Unlike [`play`], it does not depend on what two processors share.
fn alternate(
    bed: &mut Bed,
    second: &mut Cpu,
    lan: &Arc<Device>,
    frames: &[Vec<u8>],
    rounds: usize,
) -> f64 {
    let start = Instant::now();
    for _ in 0..rounds {
        for chunk in frames.chunks(BATCH) {
            receive(bed, lan, chunk);
            if second.has_input() {
                second.turn();
            }
        }
    }
    start.elapsed().as_nanos() as f64 / (rounds * frames.len()) as f64
}

/// Measures how many times as many packets take the path on two processors as on one, with a stack on each. The
/// stacks share nothing, so two CPUs of one stack can reach no more.
fn copies(processors: &CpuSet, runs: usize, rounds: usize) -> Result<Series, String> {
    let (together, failed) = (Barrier::new(2), AtomicBool::new(false));
    // The time of each run alone, which only the first thread takes, and beside the other.
    let work = |cpu: usize| -> Result<Vec<[f64; 2]>, String> {
        pin(processors, cpu);
        weir_sync::percpu::bind(0);
        let bed = path::set_up(Config {
            virtual_time: false,
            ..Config::default()
        });
        failed.fetch_or(bed.is_err(), Relaxed);
        together.wait();
        if failed.load(Relaxed) {
            return bed.map(|_| Vec::new());
        }
        let mut bed = bed?;
        let ns = bed.stack.namespace(Stack::INITIAL);
        let lan = ns.and_then(|ns| ns.device_by_name("lan0"));
        let (lan, frames) = (lan.ok_or("lan0 is gone")?, frames());
        let mut timed = |wanted: bool| {
            together.wait();
            let start = Instant::now();
            for chunk in (0..rounds).flat_map(|_| frames.chunks(BATCH)) {
                if wanted {
                    receive(&mut bed, &lan, chunk);
                }
            }
            start.elapsed().as_nanos() as f64
        };
        Ok((0..=runs).map(|_| [timed(cpu == 0), timed(true)]).collect())
    };
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| work(1));
        let first = scope.spawn(|| work(0)).join();
        (first, second.join())
    });
    let gone = "a thread has ended";
    let times = first.map_err(|_| gone)??.into_iter();
    let times = times.zip(second.map_err(|_| gone)??);
    // The first run warms the caches.
    let times = times.skip(1);
    Ok(Series(
        times
            .map(|([alone, a], [_, b])| 2.0 * alone / a.max(b))
            .collect(),
    ))
}

/// Measures the cost of steering and the throughput of two CPUs.
pub fn steering(short: bool) -> Result<Vec<Row>, String> {
    let mut bed = path::set_up(Config {
        virtual_time: false,
        cpus: 2,
        ..Config::default()
    })?;
    let ns = bed.stack.namespace(Stack::INITIAL);
    let ns = ns.ok_or("the stack has no namespace")?;
    let lan = ns.device_by_name("lan0").ok_or("lan0 is gone")?;
    bed.stack.softnet.set_max_backlog(i32::MAX);
    let frames = frames();
    let (runs, rounds) = if short { (3, 50) } else { (9, 1_000) };
    weir_sync::percpu::bind(0);
    let processors = std::thread::available_parallelism().map_or(1, |all| all.get());
    let (mut added, mut speed) = (Series::default(), Series::default());
    let (mut one, mut two) = (Series::default(), Series::default());
    // The times that the two CPUs work for a packet when both have their share.
    let (mut first, mut second) = (Series::default(), Series::default());
    let mut work = Series::default();
    let all = sched_getaffinity(None).map_err(|error| error.to_string())?;
    for run in 0..=runs {
        eprint!("\rrun {run} of {runs}");
        let mut times = Vec::new();
        for cpus in [&[][..], &[1], &[0, 1]] {
            lan.steering
                .set_cpus(&bed.stack.softnet, 0, cpus.iter().copied().collect());
            // The flows move to their CPUs.
            play(&mut bed, &lan, &frames, 3)?;
            times.push(play(&mut bed, &lan, &frames, rounds)?);
        }
        let mut other = Cpu::new(&bed.stack, 1);
        let mut ns = Vec::new();
        for cpus in [&[][..], &[1]] {
            lan.steering
                .set_cpus(&bed.stack.softnet, 0, cpus.iter().copied().collect());
            alternate(&mut bed, &mut other, &lan, &frames, 3);
            ns.push(alternate(&mut bed, &mut other, &lan, &frames, rounds));
        }
        drop(other);
        if run > 0 {
            work.0.push(ns[1] - ns[0]);
        }
        let [alone, steered, both] = &times[..] else {
            continue;
        };
        if run > 0 {
            let sum = |times: &Times| times.busy.iter().sum::<f64>();
            added.0.push(sum(steered) - sum(alone));
            first.0.push(both.busy[0]);
            second.0.push(both.busy[1]);
            speed.0.push(alone.wall / both.wall);
            one.0.push(1e3 / alone.wall);
            two.0.push(1e3 / both.wall);
        }
    }
    eprintln!("\rruns done     ");
    let limit = copies(&all, runs, rounds)?;
    let device = lan.drops().iter().map(|drop| drop.2).sum::<u64>();
    let note = format!(
        "{FLOWS} flows, batches of {BATCH}; one CPU {:.2} M/s, two {:.2} M/s; for each of \
         these packets the CPU that receives works {:.1} ns and the other {:.1} ns; {device} packets dropped; two \
         stacks that share nothing, a processor each, do {:.2} times the work of one",
        one.median(),
        two.median(),
        first.median(),
        second.median(),
        limit.median()
    );
    let row = |id: &str, measure: &str, unit, weir, goal, note: &str| Row {
        id: id.into(),
        measure: measure.into(),
        unit,
        higher_is_better: goal == SPEED,
        weir,
        peers: BTreeMap::new(),
        goal: (processors > 1).then_some(goal),
        note: note.into(),
    };
    Ok(vec![
        row(
            "steer-work",
            "work added to a packet that is steered to another CPU",
            "ns",
            work,
            ADDED,
            "both CPUs in one thread",
        ),
        row(
            "steer",
            "added to a packet that is steered to a second CPU",
            "ns",
            added,
            ADDED,
            "both CPUs together",
        ),
        row(
            "two-cpus",
            "throughput of two CPUs over one",
            "times",
            speed,
            SPEED,
            &note,
        ),
    ])
}
