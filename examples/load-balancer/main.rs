// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A layer-4 load balancer in front of backends that come and go.
//!
//! The generator sends packets of 20,000 TCP flows to a virtual service. Each batch is dissected, each
//! flow gets a backend from `weir_map::balance`, and each packet is rewritten to its backend's
//! addresses. At some times the set of backends changes. The report says how many of the flows that
//! sent packets before and after the change were moved to another backend: with the flow memory, by
//! the Maglev table alone, and by the hash modulo the number of backends.
//!
//!     cargo run --release --example load-balancer

use std::collections::{BTreeMap, HashMap};
use std::process::ExitCode;

use weir_map::balance::{Backend, Balancer, Found, Maglev};
use weir_map::{BATCH, LruOptions};
use weir_packet::{FlowKeys, Used, checksum, dissect_frame};
use weir_port::generator::{Generator, Parameters};
use weir_port::{Frame, Source};
use weir_sync::rcu::Domain;

/// The traffic: 10 seconds of virtual time to port 80 of the service.
const TRAFFIC: &str = "proto=tcp,rate=40000,stop=10s,flows=20000,zipf=0.7,size=60-1514,\
                       src=10.1.0.2,dst=10.2.0.100,dport=80,seed=1";
/// The number of flows that are remembered.
const MEMORY: u32 = 50_000;

/// A flow: protocol, addresses and ports.
type Flow = [u8; 13];

/// A change of the set of backends: the second of it, its name, and the weight of each backend that is
/// there from then on.
type Change = (u64, &'static str, fn(u16) -> Option<u16>);

/// The most backends at a time.
const BACKENDS: u16 = 12;

const SCHEDULE: [Change; 6] = [
    (0, "10 backends", |id| (id < 10).then_some(1)),
    (2, "backend 3 fails", |id| (id < 10 && id != 3).then_some(1)),
    (4, "backend 3 is back", |id| (id < 10).then_some(1)),
    (5, "10 and 11 are added", |_| Some(1)),
    (7, "backend 0 is drained", |id| Some(u16::from(id > 0))),
    (8, "11 gets weight 3", |id| match id {
        0 => Some(0),
        11 => Some(3),
        _ => Some(1),
    }),
];

/// The ways to choose a backend.
const WAYS: [&str; 3] = ["memory", "Maglev alone", "modulo"];

/// The result of a run.
pub struct Outcome {
    /// By period.
    pub moves: Vec<Moves>,
    /// The packets of each backend, by period.
    pub shares: Vec<BTreeMap<u16, u32>>,
    /// All packets.
    pub packets: u64,
    /// The flows that they belong to.
    pub flows: usize,
    /// Packets whose checksums were wrong after they were rewritten.
    pub wrong: u64,
}

/// A flow's backend by each way, and the period of its last packet.
struct Seen {
    backends: [u16; 3],
    period: usize,
}

/// The flows of a period that had sent packets before, and how many of them were moved by each way.
#[derive(Clone, Copy, Default)]
pub struct Moves {
    /// The flows with packets before the period and in it.
    pub known: u32,
    /// Those that were moved, by each way.
    pub moved: [u32; 3],
    /// Flows whose backend had gone.
    pub homeless: u32,
}

/// Chooses by the hash modulo the number of backends, each counted by its weight.
struct Modulo(Vec<u16>);

impl Modulo {
    fn new(backends: &[Backend]) -> Self {
        let of = |backend: &Backend| std::iter::repeat_n(backend.id, backend.weight.into());
        Self(backends.iter().flat_map(of).collect())
    }

    fn pick(&self, hash: u64) -> Option<u16> {
        let at = hash.checked_rem(self.0.len() as u64)?;
        self.0.get(at as usize).copied()
    }
}

/// Returns the flow of a frame of TCP in IPv4.
fn flow(frame: &[u8], keys: &mut FlowKeys) -> Flow {
    dissect_frame(frame, Used::ADDRS | Used::PORTS, keys);
    let mut flow = [0; 13];
    flow[0] = keys.ip_proto;
    flow[1..5].copy_from_slice(&keys.src_v4());
    flow[5..9].copy_from_slice(&keys.dst_v4());
    flow[9..11].copy_from_slice(&keys.src_port.to_be_bytes());
    flow[11..].copy_from_slice(&keys.dst_port.to_be_bytes());
    flow
}

/// Addresses a frame of TCP in IPv4 without options to a backend. Returns whether its checksums are
/// right then.
fn rewrite(frame: &mut [u8], backend: u16) -> bool {
    let [high, low] = backend.to_be_bytes();
    let new = [10, 9, high, low];
    frame[..6].copy_from_slice(&[2, 0, 10, 9, high, low]);
    let (network, transport) = (14, 34);
    let mut old = [0; 4];
    old.copy_from_slice(&frame[network + 16..network + 20]);
    for at in [network + 10, transport + 16] {
        let check = u16::from_be_bytes([frame[at], frame[at + 1]]);
        let check = checksum::update_bytes(check, &old, &new);
        frame[at..at + 2].copy_from_slice(&check.to_be_bytes());
    }
    frame[network + 16..network + 20].copy_from_slice(&new);
    let mut source = [0; 4];
    source.copy_from_slice(&frame[network + 12..network + 16]);
    checksum::verify(&frame[network..transport])
        && checksum::verify_v4(source, new, 6, &frame[transport..])
}

/// Runs the traffic through the balancer.
pub fn run() -> Result<Outcome, Box<dyn std::error::Error>> {
    let mut source = Generator::new(TRAFFIC.parse::<Parameters>()?)?;
    let domain = Domain::default();
    let balancer = Balancer::<Flow>::new(&domain, Maglev::PLACES, MEMORY, LruOptions::default())?;
    let mut ways = (Maglev::new(Maglev::PLACES, &[])?, Modulo::new(&[]));
    let mut period = 0;
    let mut present: Vec<u16> = Vec::new();
    let mut moves = [Moves::default(); SCHEDULE.len()];
    let mut shares = [const { BTreeMap::<u16, u32>::new() }; SCHEDULE.len()];
    let mut seen: HashMap<Flow, Seen> = HashMap::new();
    let (mut frames, mut wrong, mut keys) = (0u64, 0u64, FlowKeys::default());
    let mut batch = vec![Frame::default(); BATCH];
    let (mut flows, mut picks) = ([[0; 13]; BATCH], [None; BATCH]);
    let mut ended = false;
    while !ended {
        let mut count = 0;
        while count < BATCH && !ended {
            ended = !source.read(&mut batch[count])?;
            count += usize::from(!ended);
        }
        let Some(last) = count.checked_sub(1) else {
            break;
        };
        // A batch is a fraction of a millisecond, so a change waits for its end.
        let now = batch[last].time_ns;
        while let Some((at, _, weight)) = SCHEDULE.get(period)
            && at * 1_000_000_000 <= now
        {
            let backend = |id| weight(id).map(|weight| Backend { id, weight });
            let backends: Vec<_> = (0..BACKENDS).filter_map(backend).collect();
            balancer.set_backends(&backends)?;
            ways = (
                Maglev::new(Maglev::PLACES, &backends)?,
                Modulo::new(&backends),
            );
            present = backends.iter().map(|backend| backend.id).collect();
            period += 1;
        }
        for (flow_of, frame) in flows.iter_mut().zip(&batch[..count]) {
            *flow_of = flow(&frame.data, &mut keys);
        }
        balancer.pick_batch(&flows[..count], &mut picks[..count], &domain.pin());
        for ((frame, flow), pick) in batch[..count].iter_mut().zip(&flows).zip(&picks) {
            frames += 1;
            let hash = Balancer::hash(flow);
            let (Some((id, found)), Some(table), Some(modulo)) =
                (*pick, ways.0.pick(hash), ways.1.pick(hash))
            else {
                return Err("there is no backend".into());
            };
            wrong += u64::from(!rewrite(&mut frame.data, id));
            *shares[period - 1].entry(id).or_default() += 1;
            let backends = [id, table, modulo];
            let moves = &mut moves[period - 1];
            if let Some(before) = seen.get(flow)
                && before.period != period
            {
                moves.known += 1;
                for (moved, (was, is)) in moves
                    .moved
                    .iter_mut()
                    .zip(before.backends.iter().zip(backends))
                {
                    *moved += u32::from(*was != is);
                }
                let homeless = !present.contains(&before.backends[0]);
                moves.homeless += u32::from(homeless);
                if homeless != (found == Found::Moved) {
                    return Err("the memory moved a flow whose backend stayed".into());
                }
            }
            seen.insert(*flow, Seen { backends, period });
        }
    }
    Ok(Outcome {
        moves: moves.to_vec(),
        shares: shares.to_vec(),
        packets: frames,
        flows: seen.len(),
        wrong,
    })
}

fn report(outcome: &Outcome) {
    println!("Flows with packets before and after a change, and those moved to another backend\n");
    print!(
        "{:>4}  {:<22}{:>7}{:>10}",
        "time", "change", "flows", "homeless"
    );
    println!("{:>16}{:>16}{:>16}", WAYS[0], WAYS[1], WAYS[2]);
    for ((at, what, _), moves) in SCHEDULE.iter().zip(&outcome.moves).skip(1) {
        print!(
            "{at:>3}s  {what:<22}{:>7}{:>10}",
            moves.known, moves.homeless
        );
        for moved in moves.moved {
            let part = 100.0 * f64::from(moved) / f64::from(moves.known.max(1));
            print!("{moved:>8} {part:>5.1} %");
        }
        println!();
    }
    println!("\nPackets by backend, in per cent of each period");
    for ((at, what, _), shares) in SCHEDULE.iter().zip(&outcome.shares) {
        let all: u32 = shares.values().sum();
        print!("{at:>3}s  {what:<22}");
        for (id, share) in shares {
            print!(
                " {id}:{:.1}",
                100.0 * f64::from(*share) / f64::from(all.max(1))
            );
        }
        println!();
    }
    println!(
        "\n{} packets of {} flows, {} with a wrong checksum",
        outcome.packets, outcome.flows, outcome.wrong
    );
}

fn main() -> ExitCode {
    match run() {
        Ok(outcome) => {
            report(&outcome);
            ExitCode::from(u8::from(outcome.wrong > 0))
        }
        Err(error) => {
            eprintln!("load-balancer: {error}");
            ExitCode::FAILURE
        }
    }
}
