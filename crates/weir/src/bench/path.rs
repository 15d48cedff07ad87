// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir bench path`: the shipped capture, from memory, through receive, flower (10 masks, 10,000
//! rules), the FIB (100,000 routes) and transmit to a null port, on one CPU. The peer is testpmd's
//! macswap of the same packets, if DPDK is installed.
//!
//! The rules match nothing in the capture, so every IPv4 packet is looked up under all ten masks.
//! The frames are those of the capture that are routed. Frames to the router itself (ARP, neighbour
//! discovery) and frames that would make it answer are left out, and the report says so.

use std::collections::BTreeMap;
use std::time::Instant;

use weir_netlink::af;
use weir_netlink::tca::flower;
use weir_packet::Batch;
use weir_port::pcap::Reader;
use weir_port::replay::Replay;
use weir_port::{Frame, Port, Source};
use weir_stack::stages::Stage;
use weir_stack::{Config, Cpu, Stack};

use super::client::{Client, DROP, put_actions, put_gact};
use super::testpmd::{self, Mode};
use super::{Bench, Options, Report, Row, Series};
use crate::report::stages;

/// The benchmark.
pub static BENCH: Bench = Bench {
    name: "path",
    about: "a packet's path: receive, 10,000 flower rules, 100,000 routes, transmit",
    run,
};

static CAPTURE: &[u8] = include_bytes!("../../../../examples/edge-router/lan.pcapng.gz");

const MASKS: u32 = 10;
const RULES: u32 = 10_000;
const ROUTES: u32 = 100_000;
/// The goal: how many times as long as testpmd's macswap a packet may take.
const GOAL: f64 = 1.5;
/// The router's address in the capture.
pub(super) const ROUTER: [u8; 6] = [2, 0, 0, 1, 0, 1];
/// The next hop's address.
const PEER: [u8; 6] = [2, 0, 0, 2, 0, 2];

/// Adds a rule that drops packets to one prefix of 172.16.0.0/12.
fn rule(client: &mut Client, index: u32, number: u32) -> Result<(), String> {
    let length = 32 - number % MASKS;
    let address = 0xac10_0000 | (number / MASKS) << MASKS;
    let mask = u32::MAX << (32 - length);
    client.filter(index, 1, 0x0800, "flower", |out| {
        out.put_be16(flower::KEY_ETH_TYPE, 0x0800);
        out.put_be32(flower::KEY_IPV4_DST, address & mask);
        out.put_be32(flower::KEY_IPV4_DST_MASK, mask);
        put_actions(out, flower::ACT, |out| put_gact(out, DROP));
    })
}

/// Returns the frames of the capture that are routed.
fn frames() -> Result<Vec<Vec<u8>>, String> {
    let mut reader =
        Reader::new("the shipped capture", CAPTURE).map_err(|error| error.to_string())?;
    let mut frame = Frame::new(0, Vec::new());
    let mut all = Vec::new();
    while reader.read(&mut frame).map_err(|error| error.to_string())? {
        let data = &frame.data;
        let routed = match data.get(12..14) {
            // Addressed to the WAN's network, with a TTL above 1.
            Some([0x08, 0x00]) => {
                data.get(30..32) == Some(&[10, 2]) && data.get(22).is_some_and(|ttl| *ttl > 1)
            }
            Some([0x86, 0xdd]) => {
                data.get(38..44) == Some(&[0x20, 0x01, 0x0d, 0xb8, 0, 2])
                    && data.get(21).is_some_and(|hops| *hops > 1)
            }
            _ => false,
        };
        if routed && data.get(..6) == Some(&ROUTER) {
            all.push(data.clone());
        }
    }
    if all.is_empty() {
        Err("the shipped capture has no routed frames".into())
    } else {
        Ok(all)
    }
}

/// A stack with the rules and routes, and its frames.
pub(super) struct Bed {
    pub(super) stack: Stack,
    pub(super) cpu: Cpu,
    pub(super) frames: Vec<Vec<u8>>,
    /// The frames in memory, as a device's ring has them.
    pub(super) source: Replay,
}

/// Makes a stack that receives on `lan0` and sends by `wan0`.
pub(super) fn set_up(config: Config) -> Result<Bed, String> {
    let stack = weir_stack::build(config);
    let ns = stack
        .namespace(Stack::INITIAL)
        .ok_or("the stack has no namespace")?;
    let mut client = Client::new(&stack, &ns);
    for path in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        weir_stack::sysctl::tree::write(&stack, &ns, path, b"1")
            .map_err(|errno| format!("{path}: errno {errno}"))?;
    }
    let v6 = |net: u8, host: u8| [0x20, 1, 0x0d, 0xb8, 0, net, 0, 0, 0, 0, 0, 0, 0, 0, 0, host];
    client.dummy("lan0", ROUTER)?;
    client.dummy("wan0", [2, 0, 0, 2, 0, 1])?;
    client.address(2, af::INET, &[10, 1, 0, 1], 24)?;
    client.address(3, af::INET, &[10, 2, 0, 1], 24)?;
    client.address(2, af::INET6, &v6(1, 1), 64)?;
    client.address(3, af::INET6, &v6(2, 1), 64)?;
    client.neighbour(3, af::INET, &[10, 2, 0, 2], PEER)?;
    client.neighbour(3, af::INET6, &v6(2, 2), PEER)?;
    client.route(af::INET, &[], 0, &[10, 2, 0, 2])?;
    client.clsact(2)?;
    for number in 0..ROUTES {
        // 20.0.0.0 and up, /24 each, scattered by an odd multiplier.
        let net = 0x1400_0000 | (number.wrapping_mul(0x9e37_79b1) >> 15) << 8 & 0x01ff_ff00;
        // Some prefixes come up twice; the second gets another prefix length.
        let added = client.route(af::INET, &net.to_be_bytes(), 24, &[10, 2, 0, 2]);
        if added.is_err() {
            let other = 0x4000_0000 | number << 8;
            client.route(af::INET, &other.to_be_bytes(), 24, &[10, 2, 0, 2])?;
        }
        if number < RULES {
            rule(&mut client, 2, number)?;
        }
        if number % 20_000 == 0 {
            eprint!("\rset-up: {} %", number * 100 / ROUTES);
        }
    }
    eprintln!("\rset-up done     ");
    let mut cpu = Cpu::new(&stack, 0);
    cpu.settle();
    let frames = frames()?;
    Ok(Bed {
        stack,
        cpu,
        source: Replay::new(&frames),
        frames,
    })
}

/// Plays the frames `rounds` times at `lan0`. Returns nanoseconds per packet.
pub(super) fn play(bed: &mut Bed, rounds: usize) -> Result<f64, String> {
    let ns = bed
        .stack
        .namespace(Stack::INITIAL)
        .ok_or("the stack has no namespace")?;
    let lan = ns.device_by_name("lan0").ok_or("lan0 is gone")?;
    let (start, wanted) = (Instant::now(), rounds * bed.frames.len());
    let mut packets = 0;
    while packets < wanted {
        packets += bed.cpu.with(|cx| {
            let mut batch = Batch::new();
            cx.state.stages.start();
            let got = {
                let mut memory = cx.state.cache.borrow_mut();
                bed.source.receive(0, &mut memory, &mut batch)
            };
            let got = got.map_err(|error| error.to_string())?;
            if got == 0 {
                return Err("the frames do not fit into the pool's buffers".to_owned());
            }
            cx.state.stages.end(Stage::Port, got);
            weir_stack::datapath::receive(cx, &lan, batch);
            Ok(got)
        })?;
    }
    Ok(start.elapsed().as_nanos() as f64 / packets as f64)
}

fn run(options: &Options) -> Result<Report, String> {
    let mut bed = set_up(Config::default())?;
    let (runs, rounds) = if options.short { (5, 200) } else { (9, 2_000) };
    let mut notes = vec![format!(
        "{} routed frames of the shipped capture, in batches of up to 64",
        bed.frames.len()
    )];
    let mut weir = Series::default();
    // Without the accounting of stages.
    let mut plain = Series::default();
    let mut peer = Series::default();
    let file = std::env::temp_dir().join(format!("weir-bench-{}.pcap", std::process::id()));
    let mut peer_works = match testpmd::available() {
        Ok(()) if options.short => {
            notes.push("testpmd is not measured with --short".into());
            false
        }
        Ok(()) => testpmd::write_capture(&bed.frames, &file).is_ok(),
        Err(why) => {
            notes.push(why);
            false
        }
    };
    play(&mut bed, rounds / 10)?; // warm
    let before = stages::of(&bed.cpu.state().stages);
    let mut total = 0.0;
    for run in 0..runs {
        eprint!("\rrun {} of {runs}", run + 1);
        bed.cpu.state().stages.switch(false);
        play(&mut bed, rounds / 10)?; // warm, after the peer
        // Whichever comes first, a drift of the machine's speed counts for both.
        let accounted = run % 2 == 0;
        for on in [accounted, !accounted] {
            bed.cpu.state().stages.switch(on);
            let ns = play(&mut bed, rounds)?;
            match on {
                true => {
                    total += ns * (rounds * bed.frames.len()) as f64;
                    weir.0.push(ns);
                }
                false => plain.0.push(ns),
            }
        }
        bed.cpu.state().stages.switch(true);
        if peer_works {
            match testpmd::run(&testpmd::replay(&file), Mode::Macswap, 3) {
                Ok(ns) => peer.0.push(ns),
                Err(why) => {
                    notes.push(why);
                    peer_works = false;
                }
            }
        }
    }
    eprintln!("\rruns done     ");
    // The file may never have been written.
    let _ = std::fs::remove_file(&file);
    let stages = stages::of(&bed.cpu.state().stages).since(&before);
    let dropped: u64 = bed
        .stack
        .all_namespaces()
        .iter()
        .flat_map(|ns| ns.all_devices())
        .flat_map(|device| device.drops())
        .map(|(_, _, count)| count)
        .sum();
    notes.push(format!("{dropped} packets dropped in all runs"));
    let mut peers = BTreeMap::new();
    let goal = (!peer.0.is_empty()).then(|| GOAL * peer.median());
    if !peer.0.is_empty() {
        peers.insert("testpmd".to_owned(), peer);
    }
    let medians = (weir.median(), plain.median());
    let row = Row {
        id: "forward".into(),
        measure: format!(
            "a packet through receive, flower ({MASKS} masks, {RULES} rules), FIB ({ROUTES} routes), transmit"
        ),
        unit: "ns",
        higher_is_better: false,
        weir,
        peers,
        goal,
        note: notes.join("; "),
    };
    let packets = (runs * rounds * bed.frames.len()) as f64;
    let detail = format!(
        "{}{}the clock measured {:.1} ns per packet; the medians are {:.1} ns with the accounting of stages and {:.1} ns without\n",
        stages.to_text(),
        stages.groups_to_text(),
        total / packets,
        medians.0,
        medians.1,
    );
    Ok(Report {
        bench: BENCH.name,
        rows: vec![row],
        curves: Vec::new(),
        stacks: Vec::new(),
        detail,
    })
}
