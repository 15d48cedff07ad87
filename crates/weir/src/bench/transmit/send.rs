// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The full path in Weir: packets built, egress hook, qdisc, device. Each sender is a stack CPU.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use weir_intercept::{Launcher, Runtime};
use weir_packet::{Batch, Pool, PoolConfig};
use weir_stack::{Config, Cpu, Device, Stack, datapath};

use crate::engine::Engine;
use crate::playback::Playback;

/// Packets per call, as in the peer's `sendmmsg`.
pub const BATCH: usize = 32;
/// The length of UDP's payload, bytes.
pub const PAYLOAD: usize = 120;

/// Returns the `tc` commands that give d0 a root qdisc of a kind.
pub fn root(kind: &str) -> String {
    let tc = "tc qdisc add dev d0 root";
    match kind {
        "pfifo" => format!("{tc} pfifo limit 10000"),
        "htb" => format!(
            "{tc} handle 1: htb default 10 && \
             tc class add dev d0 parent 1: classid 1:10 htb rate 30gbit burst 10mb cburst 10mb && \
             tc qdisc add dev d0 parent 1:10 pfifo limit 10000"
        ),
        "netem" => format!("{tc} netem limit 1000000 delay 100us"),
        kind => format!("{tc} {kind}"),
    }
}

/// A stack with d0, a dummy device with a root qdisc.
pub struct Bed {
    engine: Arc<Engine>,
    /// The device.
    pub device: Arc<Device>,
}

/// The figures of a run.
pub struct Found {
    /// Millions of packets per second that left the device.
    pub millions: f64,
    /// Processor time of the whole process per packet, ns.
    pub cpu_ns: f64,
}

impl Bed {
    /// Creates a stack for CPUs 1 to `senders`. `root` is a shell command.
    pub fn new(root: impl AsRef<str>, senders: usize) -> Result<Self, String> {
        let stack = weir_stack::build(Config {
            virtual_time: false,
            cpus: senders + 1,
            ..Config::default()
        });
        let runtime = Runtime::create(None)
            .map_err(|error| format!("cannot create the stack's directory: {error}"))?;
        let engine = Engine::new(stack, runtime, Playback::default());
        let script = format!(
            "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 && ip link add d0 type dummy && \
             ip link set d0 up && {}",
            root.as_ref()
        );
        let launched = Launcher::new("sh", ["-c", &script]).spawn(engine.clone());
        let status = launched.map_or(-1, |mut child| child.wait().code());
        let ns = engine.stack.namespace(Stack::INITIAL);
        let device = ns.and_then(|ns| ns.device_by_name("d0"));
        match device {
            Some(device) if status == 0 => Ok(Self { engine, device }),
            _ => {
                engine.stop();
                Err("left out: ip and tc could not set it up".into())
            }
        }
    }

    /// Returns a CPU of the stack.
    pub fn cpu(&self, id: usize) -> Cpu {
        Cpu::new(&self.engine.stack, id)
    }

    /// Sends once all threads are ready, until stopped.
    fn sender(&self, id: usize, stop: &AtomicBool, ready: &Barrier) {
        let mut cpu = self.cpu(id);
        // The sender's own few packets in flight, like a socket's send buffer. They are allocated
        // at the start, so that no page is zeroed during the measurement.
        let bytes = 2 << 20;
        let pool = Pool::new(PoolConfig {
            limit: bytes,
            prealloc: bytes,
            ..PoolConfig::default()
        });
        let mut cache = pool.cache();
        let mut number = 0;
        ready.wait();
        while !stop.load(Relaxed) {
            let mut batch = Batch::new();
            if cache.alloc_bulk(&mut batch, BATCH) == 0 {
                // The sender of a socket sleeps until there is room. Work posted to its CPU comes
                // first.
                cpu.settle();
                std::thread::sleep(Duration::from_micros(50));
                continue;
            }
            for packet in batch.iter_mut() {
                number += 1;
                build(packet, id as u32, number);
                // A socket's packets carry the hash of its flow.
                packet.hash = (id as u32).wrapping_mul(0x9e37_79b1) | 1;
            }
            cpu.with(|cx| datapath::transmit(cx, &self.device, batch));
            cpu.turn();
        }
        // Serves the work that other CPUs have posted to this one.
        cpu.settle();
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.engine.stop();
    }
}

/// Returns the processors on which this process may run.
pub fn processors() -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(None) else {
        return Vec::new();
    };
    (0..CpuSet::MAX_CPU)
        .filter(|&id| allowed.is_set(id))
        .collect()
}

/// Sends from some threads for a time, in turn to the beds. With several beds each has a processor
/// of its own, so that packets sent through one share no cache line with those sent through
/// another.
pub fn send(beds: &[Bed], threads: usize, length: Duration) -> Result<Found, String> {
    let (stop, ready) = (AtomicBool::new(false), Barrier::new(threads + 1));
    let left = || -> u64 {
        let devices = beds.iter().map(|bed| bed.device.totals().tx_packets);
        devices.sum()
    };
    let pins = if beds.len() > 1 {
        processors()
    } else {
        Vec::new()
    };
    let mut found = Found {
        millions: 0.0,
        cpu_ns: 0.0,
    };
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (stop, ready) = (&stop, &ready);
            let bed = &beds[thread % beds.len()];
            let pin = pins.get(thread % beds.len()).copied();
            let id = thread / beds.len() + 1;
            scope.spawn(move || {
                if let Some(processor) = pin {
                    let mut only = CpuSet::new();
                    only.set(processor);
                    // The process may run there, so this thread may too.
                    let _ = sched_setaffinity(None, &only);
                }
                bed.sender(id, stop, ready);
            });
        }
        ready.wait();
        std::thread::sleep(super::warm_up(length));
        let (start, cpu, before) = (Instant::now(), cpu_seconds(), left());
        std::thread::sleep(length);
        let (cpu, packets) = (cpu_seconds() - cpu, (left() - before) as f64);
        found.millions = packets / start.elapsed().as_secs_f64() / 1e6;
        found.cpu_ns = cpu * 1e9 / packets;
        stop.store(true, Relaxed);
    });
    Ok(found)
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Builds Ethernet, IPv4 and UDP from port 1024 of one of 2^32 addresses, and the payload.
pub fn build(packet: &mut weir_packet::Packet, flow: u32, number: u32) {
    const HEAD: [u8; 42] = [
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, // Ethernet
        0x45, 0, 0, 148, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 98, 0, 2, // IPv4
        4, 0, 0x27, 0x0f, 0, 128, 0, 0, // UDP
    ];
    const LEN: usize = HEAD.len() + PAYLOAD;
    let Some(data) = packet.put(LEN) else {
        return;
    };
    data[..HEAD.len()].copy_from_slice(&HEAD);
    data[26..30].copy_from_slice(&flow.to_be_bytes());
    data[18..20].copy_from_slice(&(number as u16).to_be_bytes());
    let sum: u32 = data[14..34]
        .chunks_exact(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let check = !((sum & 0xffff) + (sum >> 16)) as u16;
    data[24..26].copy_from_slice(&check.to_be_bytes());
    data[HEAD.len()..].fill(0);
    packet.reset_mac();
    packet.set_network(14);
    packet.set_transport(34);
    packet.protocol = 0x0800;
}
