// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of a packet at the hook of d0 (dissection, look-up, action and counters), and the
//! duration of a batch while rules change.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_netlink::{TcGen, TcMsg, Writer, nlm, rtm, tca};
use weir_packet::Batch;
use weir_stack::Cpu;
use weir_stack::stages::Stage;
use weir_sync::primitive::prefetch;

use super::super::Series;
use super::bed::Bed;
use super::wire::{BATCH, Profile};
use crate::report::stages;

/// Builds a frame of Ethernet, IPv4 and UDP to an address and port.
fn frame(destination: u32, port: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 1, 1, 1, 1]);
    frame.extend(destination.to_be_bytes());
    frame.extend([0, 1]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 26, 0, 0]);
    frame.resize(60, 0);
    frame
}

/// Returns the port of the rules under a mask.
fn port(mask: u32) -> u16 {
    4000 + mask as u16
}

/// Returns the address of rule `n` under a mask.
fn address(mask: u32, n: u32) -> u32 {
    (10 << 24) + (n << mask)
}

/// Writes the request for a rule that matches a port and an address prefix of `32 - mask` bits, and
/// drops.
fn rule(out: &mut Writer, ifindex: u32, mask: u32, n: u32, last: bool) {
    let flags = nlm::F_REQUEST | nlm::F_CREATE | if last { nlm::F_ACK } else { 0 };
    let mark = out.message(rtm::NEWTFILTER, flags, u32::from(last), 0);
    out.fixed(&TcMsg {
        ifindex: ifindex as i32,
        parent: 0xffff_fff2,
        info: TcMsg::make_info(1, 0x0800),
        ..TcMsg::default()
    });
    out.put_str(tca::KIND, "flower");
    let options = out.nest(tca::OPTIONS);
    out.put_be16(tca::flower::KEY_ETH_TYPE, 0x0800);
    out.put_u8(tca::flower::KEY_IP_PROTO, 17);
    out.put_be32(tca::flower::KEY_IPV4_DST, address(mask, n));
    out.put_be32(tca::flower::KEY_IPV4_DST_MASK, u32::MAX << mask);
    out.put_be16(tca::flower::KEY_UDP_DST, port(mask));
    let actions = out.nest(tca::flower::ACT);
    let action = out.nest(1);
    out.put_str(tca::act::KIND, "gact");
    let inside = out.nest(tca::act::OPTIONS);
    let drop = TcGen {
        action: 2,
        ..TcGen::default()
    };
    out.put_fixed(tca::gact::PARMS, &drop);
    out.end(inside);
    out.end(action);
    out.end(actions);
    out.end(options);
    // A message always fits an unbounded writer.
    let _ = out.finish(mark);
}

/// Fills d0 with `rules` rules under `masks` masks.
pub fn fill(bed: &Bed, masks: u32, rules: u32) -> Result<(), String> {
    let client = bed.client()?;
    let all: Vec<u32> = (0..rules).collect();
    for chunk in all.chunks(10_000) {
        let datagram = |part: &[u32]| {
            let mut out = Writer::new();
            for (i, &n) in part.iter().enumerate() {
                let last = i + 1 == part.len();
                rule(&mut out, bed.ifindex, n % masks, n / masks, last);
            }
            out.into_vec()
        };
        let datagrams: Vec<_> = chunk.chunks(BATCH as usize).map(datagram).collect();
        client.send_all(&datagrams)?;
    }
    Ok(())
}

/// Returns frames that hit rules at random, the same in each run.
pub fn frames(masks: u32, rules: u32, count: usize) -> Vec<Vec<u8>> {
    let mut seed = 1_u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as u32
    };
    (0..count)
        .map(|_| {
            let mask = random() % masks;
            frame(address(mask, random() % (rules / masks)), port(mask))
        })
        .collect()
}

/// Returns the nanoseconds that a packet spends in the ingress filters stage, by the
/// counters of the stages.
pub fn hits(bed: &Bed, cpu: &mut Cpu, frames: &[Vec<u8>]) -> Result<f64, String> {
    let before = stages::of(&cpu.state().stages);
    for chunk in frames.chunks(64) {
        receive(bed, cpu, chunk)?;
    }
    let since = stages::of(&cpu.state().stages).since(&before);
    let (packets, ns) = since.of(Stage::Ingress);
    if packets != frames.len() as u64 {
        let sent = frames.len();
        return Err(format!(
            "only {packets} of {sent} packets reached the filters"
        ));
    }
    // The filters' part of the stage, and their dissection.
    Ok((ns + since.of(Stage::Dissect).1) / packets as f64)
}

/// Lets d0 receive one batch.
fn receive(bed: &Bed, cpu: &mut Cpu, frames: &[Vec<u8>]) -> Result<(), String> {
    let device = bed.device("d0")?;
    let mut batch = Batch::new();
    bed.engine
        .stack
        .pool
        .cache()
        .alloc_bulk(&mut batch, frames.len());
    for (packet, frame) in batch.iter_mut().zip(frames) {
        if !packet.append(frame) {
            return Err("a frame is longer than a buffer".into());
        }
    }
    cpu.with(|cx| weir_stack::datapath::receive(cx, &device, batch));
    Ok(())
}

/// The number of times the part plays the frames.
const RUNS: usize = 51;

/// Runs the part, `MASKS:RULES`. Returns the nanoseconds of each run, sorted.
pub fn here(what: &str) -> Result<String, String> {
    let wrong = || format!("lookup:{what} is not lookup:MASKS:RULES");
    let (masks, rules) = what.split_once(':').ok_or_else(wrong)?;
    let masks: u32 = masks.parse().map_err(|_| wrong())?;
    let rules: u32 = rules.parse().map_err(|_| wrong())?;
    if masks == 0 || rules < masks {
        return Err(wrong());
    }
    let bed = Bed::new()?;
    fill(&bed, masks, rules)?;
    let mut cpu = Cpu::new(&bed.engine.stack, 0);
    let frames = frames(masks, rules, 1 << 16);
    let mut runs = (0..RUNS)
        .map(|_| hits(&bed, &mut cpu, &frames))
        .collect::<Result<Vec<_>, _>>()?;
    // The same packets at the same filters, but to rules in the processor's caches: the share
    // without cache misses.
    let near = self::frames(masks, rules.min(NEAR), 1 << 16);
    let mut cached = (0..RUNS)
        .map(|_| hits(&bed, &mut cpu, &near))
        .collect::<Result<Vec<_>, _>>()?;
    let mut lines = lines_alone(rules as usize);
    let mut text = String::new();
    for (name, runs) in [
        ("ns", &mut runs),
        ("cached", &mut cached),
        ("lines", &mut lines),
    ] {
        runs.sort_by(f64::total_cmp);
        let runs: Vec<_> = runs.iter().map(|ns| format!("{ns:.1}")).collect();
        text += &format!("{name} {}\n", runs.join(" "));
    }
    Ok(text)
}

/// The number of rules whose cache lines fit the processor's caches.
const NEAR: u32 = 1000;
/// The cache lines that a hit reads one after the other: the slot in the mask's table, the filter,
/// its key, the action, its counters.
const LINES: usize = 5;

/// Measures the cost of those cache lines alone. For each of 64 packets it reads a random line from
/// each of five arrays; each line holds the index into the next array, and is prefetched before the
/// batch's turn, as in a look-up. Returns nanoseconds per packet of each run.
fn lines_alone(rules: usize) -> Vec<f64> {
    #[repr(align(64))]
    #[derive(Clone, Copy)]
    struct Line(u64);
    let mut seed = 1_u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % rules
    };
    let mut array = || -> Vec<Line> { (0..rules).map(|_| Line(random() as u64)).collect() };
    let arrays: [Vec<Line>; LINES] = std::array::from_fn(|_| array());
    let packets = 1 << 16;
    let start: Vec<u64> = array().iter().cycle().take(packets).map(|l| l.0).collect();
    let run = |_| {
        let began = Instant::now();
        let mut sum = 0;
        for chunk in start.chunks(64) {
            let mut at = [0; 64];
            at[..chunk.len()].copy_from_slice(chunk);
            for lines in &arrays {
                for &place in &at {
                    prefetch(&raw const lines[place as usize]);
                }
                for place in &mut at {
                    *place = lines[*place as usize].0;
                }
            }
            sum += at.iter().sum::<u64>();
        }
        std::hint::black_box(sum);
        began.elapsed().as_nanos() as f64 / packets as f64
    };
    (0..RUNS).map(run).collect()
}

/// Runs the part in a separate process, free of threads and memory left by earlier measurements.
/// Returns the medians of its runs by name. The first run creates the rules' counters.
pub fn elsewhere(masks: u32, rules: u32) -> Result<Vec<(String, f64)>, String> {
    let text = super::elsewhere(&format!("lookup:{masks}:{rules}"))?;
    // The output also contains the report's header.
    let median = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let runs: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
        let runs = runs.ok().filter(|runs| !runs.is_empty())?;
        Some((name.trim_end().to_owned(), Series(runs).median()))
    };
    let found: Option<Vec<_>> = ["ns ", "cached ", "lines "]
        .into_iter()
        .map(median)
        .collect();
    found.ok_or(format!("look-ups could not be measured: {text}"))
}

/// The figures of some batches.
#[derive(Debug, Default, Clone, Copy)]
pub struct While {
    /// Packets per second.
    pub rate: f64,
    /// The duration of the longest batch, milliseconds.
    pub longest: f64,
}

/// Plays batches for a time.
fn play(bed: &Bed, cpu: &mut Cpu, frames: &[Vec<u8>], length: Duration) -> Result<While, String> {
    let (start, mut packets, mut longest) = (Instant::now(), 0_u64, Duration::ZERO);
    let mut last = start;
    for chunk in frames.chunks(64).cycle() {
        receive(bed, cpu, chunk)?;
        packets += chunk.len() as u64;
        let now = Instant::now();
        longest = longest.max(now - last);
        last = now;
        if now - start >= length {
            break;
        }
    }
    Ok(While {
        rate: packets as f64 / start.elapsed().as_secs_f64(),
        longest: longest.as_secs_f64() * 1e3,
    })
}

/// Plays batches while the rules are idle, and while 100,000 rules a second are inserted and
/// deleted. Returns both figures, and the rate of insertions and deletions.
pub fn disturbed(
    bed: &Bed,
    cpu: &mut Cpu,
    frames: &[Vec<u8>],
    length: Duration,
) -> Result<(While, While, f64), String> {
    const EACH: u32 = 10_000;
    let quiet = play(bed, cpu, frames, length)?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let changes = scope.spawn(|| {
            let rules = bed.rules(Profile::A, 2, false);
            let (add, delete) = (rules.add(0, EACH), rules.delete(0, EACH));
            let client = bed.client()?;
            let (start, mut changed) = (Instant::now(), 0_u32);
            while !done.load(Relaxed) {
                for datagram in add.iter().chain(&delete) {
                    client.send_all(std::slice::from_ref(datagram))?;
                    changed += BATCH;
                    let due = Duration::from_micros(10) * changed;
                    std::thread::sleep(due.saturating_sub(start.elapsed()));
                }
            }
            Ok::<f64, String>(f64::from(changed) / start.elapsed().as_secs_f64())
        });
        let busy = play(bed, cpu, frames, length);
        done.store(true, Relaxed);
        let rate = changes
            .join()
            .map_err(|_| "the client panicked".to_owned())??;
        Ok((quiet, busy?, rate))
    })
}
