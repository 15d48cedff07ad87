// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir bench conntrack`: the connection table, and what the action `ct` adds to a packet's path.
//!
//! The table's measures use one CPU and 10,000,000 UDP connections: new connections, look-ups of known ones in
//! batches of 64 in random order, and resident memory. The path's measure is that of the same UDP packets through
//! receive, a filter that matches all, FIB and transmit, once with `ct commit nat src` and once with an action that
//! only passes. [`commit`] measures `ct commit` on new and on known connections beside nf_conntrack of Linux 6.1 in
//! User-Mode Linux. The flood's measure sends SYNs of other clients at a table with room for 1,000,000 connections of which
//! 100,000 are established, and looks whether all of these are left. `--part` runs `table`, `path`, `commit` or `flood` alone.

mod commit;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use weir_conntrack::{
    Action, Conntrack, Create, CreateError, Cx, Family, Origin, Setting, Settings, Tuple, Zone,
};
use weir_netlink::af;
use weir_netlink::tca::{ct, matchall};
use weir_packet::header::ethernet::ethernet;
use weir_packet::header::ipv4::ipv4;
use weir_packet::header::transport::{fill_check_v4, tcp, udp};
use weir_packet::{ConnInfo, Packet, Pool, PoolConfig};
use weir_port::replay::Replay;
use weir_stack::{Config, Cpu, Stack};

use super::client::{Client, control, put_action, put_actions, put_gact};
use super::path::{Bed, play};
use super::{Bench, Options, Report, Row, Series, resident};

/// The benchmark.
pub static BENCH: Bench = Bench {
    name: "conntrack",
    about: "connection tracking: new and known connections, NAT on the path, a flood of SYNs",
    run,
};

const TCP: u8 = 6;
const UDP: u8 = 17;
const SECOND: u64 = 1_000_000_000;
const SERVER: [u8; 4] = [10, 2, 0, 9];
const ROUTER: [u8; 6] = [2, 0, 0, 1, 0, 1];
const PEER: [u8; 6] = [2, 0, 0, 2, 0, 2];

/// The size of the measurements.
struct Scale {
    runs: usize,
    entries: u32,
    flows: u32,
    rounds: usize,
    /// The flows of [`commit`].
    commits: u32,
    /// The packets of each after the first.
    commit_rounds: usize,
    established: u32,
    room: u32,
    flood: u32,
}

const SHORT: Scale = Scale {
    runs: 1,
    entries: 100_000,
    flows: 256,
    rounds: 20,
    commits: 2_000,
    commit_rounds: 5,
    established: 2_000,
    room: 20_000,
    flood: 50_000,
};

const FULL: Scale = Scale {
    runs: 5,
    entries: 10_000_000,
    flows: 4_096,
    rounds: 300,
    // More do not fit into the caches, and User-Mode Linux has no large pages.
    commits: 20_000,
    commit_rounds: 10,
    established: 100_000,
    room: 1_000_000,
    flood: 5_000_000,
};

fn row(id: &str, measure: String, unit: &'static str, goal: Option<f64>) -> Row {
    Row {
        id: id.into(),
        measure,
        unit,
        higher_is_better: unit == "M/s",
        weir: Series::default(),
        peers: BTreeMap::new(),
        goal,
        note: String::new(),
    }
}

fn table(room: u32) -> Result<Conntrack, String> {
    let settings = Arc::new(Settings::default());
    settings.set(Setting::max, room);
    Conntrack::new(&settings, 1).ok_or("there is no address space for the table".into())
}

/// The tuple of a client's flow.
fn tuple(number: u32, protocol: u8) -> Tuple {
    let scattered = number.wrapping_mul(0x9e37_79b1).to_be_bytes();
    let port = 1024 + (number >> 24) as u16;
    Tuple::v4(scattered, SERVER, port, 53, protocol)
}

/// Makes the connections of the clients' flows, in batches of 64.
fn create(table: &Conntrack, entries: u32, protocol: u8) -> Result<(), String> {
    let mut made = [Err(CreateError::Full); 64];
    let mut batch = Vec::with_capacity(64);
    for first in (0..entries).step_by(64) {
        batch.clear();
        for number in first..entries.min(first + 64) {
            let original = tuple(number, protocol);
            batch.push(Create {
                original,
                reply: original.invert().ok_or("a tuple without an inverse")?,
                zone: Zone::default(),
                timeout: 600,
                status: 0,
                mark: 0,
                labels: None,
                tcp: None,
                sctp: None,
                dccp: None,
                nat: None,
            });
        }
        table.create_batch(&batch, SECOND, Origin::Packet, &mut made);
        for made in made.iter().take(batch.len()) {
            made.map_err(|error| format!("a connection from {first} on: {error:?}"))?;
        }
    }
    Ok(())
}

/// Runs the measures of the table.
fn measure_table(scale: &Scale, rows: &mut Vec<Row>) -> Result<(), String> {
    let entries = scale.entries;
    let goals = |goal| (entries == FULL.entries).then_some(goal);
    let named = |what: &str| format!("{what}, one CPU, {entries} connections");
    let mut fresh = row(
        "new",
        named("new connections in batches of 64"),
        "M/s",
        goals(4.0),
    );
    let mut known = row(
        "known",
        named("look-up of a known connection in batches of 64"),
        "ns",
        goals(40.0),
    );
    let mut single = row("known-single", named("the same one by one"), "ns", None);
    let mut memory = row(
        "memory",
        named("resident memory of a UDP connection"),
        "B",
        goals(100.0),
    );
    let mut memory_tcp = row(
        "memory-tcp",
        named("resident memory of a TCP connection, with its windows"),
        "B",
        goals(100.0),
    );
    for run in 0..scale.runs.min(3) {
        eprint!("\rtable, run {}          ", run + 1);
        let before = resident()?;
        let table = table(entries)?;
        let start = Instant::now();
        create(&table, entries, UDP)?;
        let seconds = start.elapsed().as_secs_f64();
        fresh.weir.0.push(f64::from(entries) / seconds / 1e6);
        memory
            .weir
            .0
            .push((resident()? - before) / f64::from(entries));
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((u64::from(state) * u64::from(entries)) >> 32) as u32
        };
        let tuples: Vec<Tuple> = (0..1 << 20).map(|_| tuple(next(), UDP)).collect();
        let mut found = [None; 64];
        let start = Instant::now();
        let mut hits = 0;
        for batch in tuples.chunks(64) {
            table.find_batch(batch, 0, SECOND, &mut found);
            hits += found.iter().flatten().count();
        }
        let ns = start.elapsed().as_nanos() as f64 / tuples.len() as f64;
        if hits != tuples.len() {
            return Err(format!("{hits} of {} found", tuples.len()));
        }
        known.weir.0.push(ns);
        let start = Instant::now();
        for tuple in &tuples {
            black_box(table.find(tuple, 0, SECOND));
        }
        let ns = start.elapsed().as_nanos() as f64 / tuples.len() as f64;
        single.weir.0.push(ns);
    }
    let before = resident()?;
    let table = table(entries)?;
    create(&table, entries, TCP)?;
    memory_tcp
        .weir
        .0
        .push((resident()? - before) / f64::from(entries));
    rows.extend([fresh, known, single, memory, memory_tcp]);
    Ok(())
}

/// What the filter's action does with a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Nothing.
    Pass,
    /// `ct commit`.
    Commit,
    /// `ct commit nat src`.
    Nat,
}

fn set_up(work: Work, flows: u32) -> Result<Bed, String> {
    let stack = weir_stack::build(Config::default());
    let ns = stack
        .namespace(Stack::INITIAL)
        .ok_or("the stack has no namespace")?;
    let mut client = Client::new(&stack, &ns);
    weir_stack::sysctl::tree::write(&stack, &ns, "ipv4/ip_forward", b"1")
        .map_err(|errno| format!("ip_forward: errno {errno}"))?;
    client.dummy("lan0", ROUTER)?;
    client.dummy("wan0", [2, 0, 0, 2, 0, 1])?;
    client.address(2, af::INET, &[10, 1, 0, 1], 16)?;
    client.address(3, af::INET, &[10, 2, 0, 1], 24)?;
    client.neighbour(3, af::INET, &SERVER, PEER)?;
    client.clsact(2)?;
    client.filter(2, 1, 0x0800, "matchall", |out| {
        put_actions(out, matchall::ACT, |out| match work {
            Work::Pass => put_gact(out, 0),
            _ => put_action(out, 1, "ct", |out| {
                out.put_fixed(ct::PARMS, &control(0));
                if work == Work::Commit {
                    return out.put(ct::ACTION, &ct::ACT_COMMIT.to_ne_bytes());
                }
                let flags = ct::ACT_COMMIT | ct::ACT_NAT | ct::ACT_NAT_SRC;
                out.put(ct::ACTION, &flags.to_ne_bytes());
                // An address of the router itself would be a martian source.
                out.put(ct::NAT_IPV4_MIN, &[10, 2, 0, 100]);
                out.put(ct::NAT_IPV4_MAX, &[10, 2, 0, 100]);
                out.put(ct::NAT_PORT_MIN, &1024u16.to_be_bytes());
                out.put(ct::NAT_PORT_MAX, &65_535u16.to_be_bytes());
            }),
        });
    })?;
    let frames = (0..flows).map(|flow| {
        let src = [10, 1, 1 + (flow >> 8 & 0x7f) as u8, flow as u8];
        let mut segment = udp(2000 + (flow >> 15) as u16, 53, 18).to_vec();
        segment.resize(26, 0x55);
        fill_check_v4(src, SERVER, UDP, &mut segment);
        let mut frame = ethernet(ROUTER, [2, 0, 0, 1, 0, 9], 0x0800).to_vec();
        frame.extend(ipv4(src, SERVER, UDP, 64, 0, 1, 0, segment.len()));
        frame.extend(segment);
        frame
    });
    let frames: Vec<Vec<u8>> = frames.collect();
    let mut cpu = Cpu::new(&stack, 0);
    cpu.settle();
    cpu.state().stages.switch(false);
    Ok(Bed {
        stack,
        cpu,
        source: Replay::new(&frames),
        frames,
    })
}

fn measure_path(scale: &Scale, rows: &mut Vec<Row>) -> Result<(), String> {
    let mut with = set_up(Work::Nat, scale.flows)?;
    let mut without = set_up(Work::Pass, scale.flows)?;
    for bed in [&mut with, &mut without] {
        play(bed, 2)?; // warm
    }
    let named = |what: &str| format!("{what}, {} flows of UDP", scale.flows);
    let mut plain = row("path", named("a packet's path without ct"), "ns", None);
    let mut nat = row(
        "path-nat",
        named("a packet's path with ct commit nat src"),
        "ns",
        None,
    );
    let mut more = row(
        "nat",
        named("ct commit nat src on the path: what it adds"),
        "ns",
        (scale.runs > 1).then_some(120.0),
    );
    for run in 0..scale.runs {
        eprint!("\rpath, run {}          ", run + 1);
        let (a, b) = (
            play(&mut with, scale.rounds)?,
            play(&mut without, scale.rounds)?,
        );
        nat.weir.0.push(a);
        plain.weir.0.push(b);
        more.weir.0.push(a - b);
    }
    let ns = with
        .stack
        .namespace(Stack::INITIAL)
        .ok_or("the stack has no namespace")?;
    let count = ns.tc.conntrack_if_used().map_or(0, |table| table.count());
    if count != scale.flows {
        return Err(format!("{count} connections of {} flows", scale.flows));
    }
    let drops: u64 = (ns.all_devices().iter())
        .flat_map(|device| device.drops())
        .map(|(_, _, count)| count)
        .sum();
    if drops != 0 {
        return Err(format!("{drops} packets dropped with ct"));
    }
    rows.extend([plain, nat, more]);
    Ok(())
}

/// A table, and packets of its connections.
struct Siege {
    table: Conntrack,
    pool: Pool,
    now: u64,
}

impl Siege {
    fn packet(&self, number: u32, flags: u16, reply: bool) -> Result<Packet, String> {
        let [_, b, c, d] = number.to_be_bytes();
        let client = [20 + (number >> 24) as u8, b, c, d];
        let (seq, ack) = (u32::from(flags & 2 == 0), u32::from(flags & 16 != 0));
        let (src, dst, ports) = match reply {
            false => (client, SERVER, (4000, 80)),
            true => (SERVER, client, (80, 4000)),
        };
        let mut segment = tcp(ports.0, ports.1, seq, ack, flags).to_vec();
        if let Some(window) = segment.get_mut(14..16) {
            window.copy_from_slice(&[0x40, 0]);
        }
        fill_check_v4(src, dst, TCP, &mut segment);
        let mut bytes = ipv4(src, dst, TCP, 64, 0, 1, 0, segment.len()).to_vec();
        bytes.extend(segment);
        let mut packet = self.pool.packet(&bytes).ok_or("the pool is empty")?;
        packet.set_network(0);
        packet.protocol = 0x0800;
        Ok(packet)
    }

    fn act(&mut self, packet: &mut Packet) -> Option<ConnInfo> {
        let commit = Action {
            commit: true,
            ..Action::default()
        };
        let mut cx = Cx {
            now: self.now,
            hook: 0,
            family: Some(Family::V4),
            random: &mut || 1,
        };
        self.table.act(packet, &commit, &mut cx);
        packet.conn().map(|conn| conn.info)
    }

    /// Sends a segment of each established connection. Returns nanoseconds per packet, and how many were not of an
    /// established connection.
    fn check(
        &mut self,
        established: u32,
        mut between: impl FnMut(&mut Self) -> Result<(), String>,
    ) -> Result<(f64, u32), String> {
        let (mut ns, mut lost) = (0, 0);
        for number in 0..established {
            let mut packet = self.packet(number, 16, true)?;
            let start = Instant::now();
            let info = self.act(&mut packet);
            ns += start.elapsed().as_nanos();
            lost += u32::from(info != Some(ConnInfo::EstablishedReply));
            between(self)?;
        }
        Ok((ns as f64 / f64::from(established), lost))
    }
}

fn measure_flood(scale: &Scale, rows: &mut Vec<Row>) -> Result<(), String> {
    let mut siege = Siege {
        table: table(scale.room)?,
        pool: Pool::new(PoolConfig::default()),
        now: SECOND,
    };
    for number in 0..scale.established {
        for (flags, reply) in [(2, false), (18, true), (16, false)] {
            let mut packet = siege.packet(number, flags, reply)?;
            siege.act(&mut packet);
        }
    }
    let named = |what: &str| {
        format!(
            "{what}: {} established connections, room for {}, {} SYNs at 5 Mpps",
            scale.established, scale.room, scale.flood
        )
    };
    let mut lost = row(
        "flood-lost",
        named("established connections lost"),
        "",
        Some(0.0),
    );
    let mut slower = row(
        "flood-latency",
        named("time of an established connection's packet, times that without the flood"),
        "",
        (scale.runs > 1).then_some(2.0),
    );
    let mut syn = row("flood-syn", named("time of a SYN"), "ns", None);
    siege.check(scale.established, |_| Ok(()))?;
    let (calm, _) = siege.check(scale.established, |_| Ok(()))?;
    // The table fills first.
    let each = scale.flood / scale.established;
    let mut number = 1 << 28;
    let mut spent = 0;
    let mut flood = |siege: &mut Siege| {
        for _ in 0..each {
            number += 1;
            siege.now += 200;
            let mut packet = siege.packet(number, 2, false)?;
            let start = Instant::now();
            siege.act(&mut packet);
            spent += start.elapsed().as_nanos();
        }
        Ok(())
    };
    let (stormy, gone) = siege.check(scale.established, &mut flood)?;
    let (_, gone_after) = siege.check(scale.established, |_| Ok(()))?;
    syn.weir
        .0
        .push(spent as f64 / f64::from(each * scale.established));
    lost.weir.0.push(f64::from(gone + gone_after));
    slower.weir.0.push(stormy / calm);
    let early: u32 = (siege.table.statistics().iter())
        .map(|cpu| cpu.early_drop)
        .sum();
    lost.note = format!(
        "{early} embryonic connections removed early; {calm:.0} ns a packet before and {stormy:.0} ns in the flood, with the reading of the clock"
    );
    rows.extend([lost, slower, syn]);
    Ok(())
}

fn run(options: &Options) -> Result<Report, String> {
    if let Some(what) = (options.part.as_deref()).and_then(|part| part.strip_prefix("linux:")) {
        return Ok(report(Vec::new(), commit::here(what)?));
    }
    let scale = if options.short { SHORT } else { FULL };
    let wants = |part: &str| options.part.as_deref().is_none_or(|wanted| wanted == part);
    let mut rows = Vec::new();
    if wants("table") {
        measure_table(&scale, &mut rows)?;
    }
    if wants("path") {
        measure_path(&scale, &mut rows)?;
    }
    if wants("commit") {
        commit::measure(&scale, &mut rows)?;
    }
    if wants("flood") {
        measure_flood(&scale, &mut rows)?;
    }
    eprintln!("\rruns done             ");
    if rows.is_empty() {
        return Err("the parts are table, path, commit and flood".into());
    }
    Ok(report(rows, String::new()))
}

fn report(rows: Vec<Row>, detail: String) -> Report {
    Report {
        bench: BENCH.name,
        rows,
        curves: Vec::new(),
        stacks: Vec::new(),
        detail,
    }
}
