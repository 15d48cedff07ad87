// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports of the host: frames in on one device and out on another, as testpmd's mode `io` passes them on.
//!
//! The benchmark makes a network namespace with two pairs of veth devices, `a0`-`a1` and `b0`-`b1`. A thread on one
//! processor has the kernel send frames of 64 bytes on `a0` as fast as it can: `BPF_PROG_TEST_RUN` of an XDP program
//! that redirects, with live frames. A thread on another processor passes them from `a1` to `b0`, by two ports of
//! Weir; in turn, testpmd does so with its driver of the same sockets. The figure is the time between two frames
//! that arrive at `b1`. For TAP, each program makes its own devices `t0` and `t1`, frames are redirected to `t0`,
//! and those that `t1` receives count. An XDP program that passes all frames makes `a1` poll them, as redirected
//! frames need it.
//!
//! This needs root in the machine's first user namespace and two processors.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, UnshareFlags, sched_getaffinity, sched_setaffinity};
use weir_packet::{Batch, Pool, PoolConfig};
use weir_port::Port;
use weir_port::bpf::{self, Instruction, instruction};
use weir_port::keys::Keys;
use weir_port::port::Site;

use super::super::{Row, Series, testpmd};
use super::{beside, row};

/// `XDP_DROP`, `XDP_PASS`.
const DROP: u32 = 1;
const PASS: u32 = 2;
/// The time for which frames pass before and while they are counted.
const WARM: Duration = Duration::from_millis(500);
const COUNTED: Duration = Duration::from_millis(1500);
/// Frames of a call of the source. The kernel sleeps for some milliseconds at the begin and the end of each.
const CALL: u32 = 1 << 22;

/// A kind of port, and testpmd's driver of the same sockets.
struct Kind {
    id: &'static str,
    name: &'static str,
    /// The descriptions of Weir's ports: the first receives.
    ports: [&'static str; 2],
    /// The driver's name and its devices.
    driver: &'static str,
    devices: [&'static str; 2],
    /// The device on which the source sends, and the one that counts.
    ends: [&'static str; 2],
}

const KINDS: [Kind; 3] = [
    Kind {
        id: "io-af-xdp",
        name: "af_xdp",
        ports: ["dev=a1,zero_copy=off", "dev=b0,zero_copy=off"],
        driver: "net_af_xdp",
        devices: ["net_af_xdp0,iface=a1", "net_af_xdp1,iface=b0"],
        ends: ["a0", "b1"],
    },
    Kind {
        id: "io-af-packet",
        name: "af_packet",
        ports: ["dev=a1", "dev=b0,bypass=yes"],
        driver: "net_af_packet",
        devices: [
            "net_af_packet0,iface=a1",
            "net_af_packet1,iface=b0,qdisc_bypass=1",
        ],
        ends: ["a0", "b1"],
    },
    Kind {
        id: "io-tap",
        name: "tap",
        ports: ["name=t0", "name=t1"],
        driver: "net_tap",
        devices: ["net_tap0,iface=t0", "net_tap1,iface=t1"],
        ends: ["t0", "t1"],
    },
];

/// A frame of an ethertype that nobody receives.
fn frame() -> [u8; 64] {
    let mut frame = [0; 64];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

/// A program with one verdict for all frames.
fn verdict(verdict: u32) -> [Instruction; 2] {
    // r0 = verdict; return
    [
        instruction(0xb7, 0, 0, verdict as i32),
        instruction(0x95, 0, 0, 0),
    ]
}

/// A program that sends all frames on a device: `return bpf_redirect(ifindex, 0)`.
fn redirect(ifindex: u32) -> [Instruction; 4] {
    [
        instruction(0xb7, 1, 0, ifindex as i32),
        instruction(0xb7, 2, 0, 0),
        instruction(0x85, 0, 0, 23),
        instruction(0x95, 0, 0, 0),
    ]
}

/// A program that drops the frames to the destination address of [`frame`] and passes the others.
fn drop_by_address() -> [Instruction; 12] {
    let address = u32::from_le_bytes([2, 0, 0, 0]) as i32;
    [
        // r2 = data; r3 = data_end
        instruction(0x61, 0x12, 0, 0),
        instruction(0x61, 0x13, 4, 0),
        // r0 = XDP_PASS
        instruction(0xb7, 0, 0, PASS as i32),
        // if data + 14 > data_end, return
        instruction(0xbf, 0x24, 0, 0),
        instruction(0x07, 4, 0, 14),
        instruction(0x2d, 0x34, 5, 0),
        // if the first four octets of the address are others, return
        instruction(0x61, 0x24, 0, 0),
        instruction(0x55, 4, 3, address),
        // r0 = XDP_DROP, if the last two are ours (0 and 2)
        instruction(0x69, 0x24, 4, 0),
        instruction(0x55, 4, 1, 0x0200),
        instruction(0xb7, 0, 0, DROP as i32),
        instruction(0x95, 0, 0, 0),
    ]
}

fn failed(what: &str) -> impl Fn(io::Error) -> String + '_ {
    move |error| format!("{what}: {error}")
}

/// Pins the calling thread to the machine's processor of this number among those it may use.
fn pin(number: usize) -> Result<(), String> {
    let all = sched_getaffinity(None).map_err(|error| format!("affinity: {error}"))?;
    let mut all = (0..CpuSet::MAX_CPU).filter(|at| all.is_set(*at));
    let at = all.nth(number).ok_or("two processors are needed")?;
    let mut only = CpuSet::new();
    only.set(at);
    sched_setaffinity(None, &only).map_err(|error| format!("affinity: {error}"))
}

#[allow(unsafe_code)] // unshare is unsafe only for file descriptors, which this call does not touch
fn unshare() -> Result<(), String> {
    // SAFETY: only CLONE_FILES makes descriptors of other threads invalid, and it is not given.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
        .map_err(|error| format!("a network namespace: {error}"))
}

/// Runs a script in the calling thread's namespace.
fn run(script: &str) -> Result<(), String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("sh");
    command
        .args(["-ec", script])
        .env("PATH", format!("{path}:/usr/sbin:/sbin"));
    let output = command.output().map_err(failed("sh"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// The packets that a device of the thread's namespace has received.
fn received(device: &str) -> Result<u64, String> {
    let file = "/proc/thread-self/net/dev";
    let text = std::fs::read_to_string(file).map_err(failed(file))?;
    let line = text.lines().find_map(|line| {
        let (name, rest) = line.split_once(':')?;
        (name.trim() == device).then_some(rest)
    });
    let line = line.ok_or_else(|| format!("{device}: no such device"))?;
    let count = line
        .split_whitespace()
        .nth(1)
        .and_then(|count| count.parse().ok());
    count.ok_or_else(|| format!("{file}: no counters"))
}

fn ifindex(device: &str) -> Result<u32, String> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    );
    let socket = socket.map_err(|error| format!("socket: {error}"))?;
    rustix::net::netdevice::name_to_index(&socket, device)
        .map_err(|error| format!("{device}: {error}"))
}

/// Waits until a device exists.
fn wait_for(device: &str) -> Result<(), String> {
    let end = Instant::now() + Duration::from_secs(10);
    while let Err(error) = received(device) {
        if Instant::now() > end {
            return Err(error);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Has the kernel send frames on a device until `stop`. The thread is in the namespace.
fn send(device: &str, stop: &AtomicBool) -> Result<(), String> {
    let program = bpf::load(&redirect(ifindex(device)?)).map_err(failed("the source's program"))?;
    let frame = frame();
    while !stop.load(Relaxed) {
        bpf::test_run_live(program.as_fd(), &frame, CALL).map_err(failed("BPF_PROG_TEST_RUN"))?;
    }
    Ok(())
}

/// Sends frames and returns the time between two that arrive at the end, in ns.
fn count(kind: &Kind) -> Result<f64, String> {
    let stop = AtomicBool::new(false);
    let [from, to] = kind.ends;
    std::thread::scope(|scope| {
        // A new thread is in the namespace of the one that makes it.
        let source = scope.spawn(|| pin(0).and_then(|()| send(from, &stop)));
        std::thread::sleep(WARM);
        let (start, before) = (Instant::now(), received(to));
        std::thread::sleep(COUNTED);
        let (time, after) = (start.elapsed(), received(to));
        stop.store(true, Relaxed);
        let sent = source.join().map_err(|_| "the source has panicked")?;
        sent?;
        match after? - before? {
            0 => Err("no frame arrived".to_owned()),
            frames => Ok(time.as_nanos() as f64 / frames as f64),
        }
    })
}

/// Opens a port.
fn open(name: &str, keys: &str, pool: &Pool) -> Result<Arc<dyn Port>, String> {
    let kind = weir_port::kinds::kind(name).map_err(|error| error.to_string())?;
    let keys = Keys::parse(name, kind.keys, keys).map_err(|error| error.to_string())?;
    (kind.open)(&keys)
        .and_then(|files| (kind.adopt)(&keys, files, &Site::new(pool)))
        .map_err(|error| error.to_string())
}

/// Passes frames on by Weir's ports. Returns ns per frame.
fn weir(kind: &Kind) -> Result<f64, String> {
    let pool = Pool::new(PoolConfig::default());
    let input = open(kind.name, kind.ports[0], &pool)?;
    let output = open(kind.name, kind.ports[1], &pool)?;
    if kind.name == "tap" {
        run("ip link set t0 up; ip link set t1 up")?;
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let passing = scope.spawn(|| -> Result<(), String> {
            pin(1)?;
            let mut memory = pool.cache();
            let mut batch = Batch::new();
            while !stop.load(Relaxed) {
                input
                    .receive(0, &mut memory, &mut batch)
                    .map_err(failed(kind.ports[0]))?;
                if !batch.is_empty() {
                    // Frames for which there is no room are lost, as in testpmd.
                    output
                        .send(0, batch.as_slice())
                        .map_err(failed(kind.ports[1]))?;
                    memory.free_bulk(&mut batch);
                }
            }
            Ok(())
        });
        let ns = count(kind);
        stop.store(true, Relaxed);
        passing.join().map_err(|_| "the port has panicked")??;
        ns
    })
}

/// Passes frames on by testpmd. Returns ns per frame.
fn peer(kind: &Kind) -> Result<f64, String> {
    let mut child = testpmd::io(&kind.devices)?;
    let ready = kind.ends.iter().try_for_each(|device| wait_for(device));
    let ns = ready
        // The program takes its time to start.
        .map(|()| std::thread::sleep(Duration::from_secs(2)))
        .and_then(|()| count(kind));
    testpmd::stop(&mut child);
    ns
}

/// Makes the devices of the calling thread's namespace, and the program that makes `a1` poll.
fn devices() -> Result<(), String> {
    run("echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
        ip link add a0 type veth peer name a1
        ip link add b0 type veth peer name b1
        for device in a0 a1 b0 b1; do ip link set $device up; done")
}

/// Makes `a1` poll the frames that are redirected to it.
fn polls() -> Result<OwnedFd, String> {
    let program = bpf::load(&verdict(PASS)).map_err(failed("an XDP program"))?;
    bpf::attach(program.as_fd(), ifindex("a1")?, bpf::DRV_MODE).map_err(failed("a1"))
}

/// Measures all kinds in turn.
fn measure(runs: usize, peers: bool) -> Result<Vec<Row>, String> {
    unshare()?;
    devices()?;
    let mut all: Vec<_> = KINDS
        .iter()
        .map(|kind| (kind, Series::default(), Series::default(), String::new()))
        .collect();
    for number in 0..runs {
        eprint!("\rports: run {} of {runs}", number + 1);
        for (kind, ours, theirs, note) in &mut all {
            let _polls = match kind.name {
                "af_packet" => Some(polls()?),
                _ => None,
            };
            match weir(kind) {
                Ok(ns) => ours.0.push(ns),
                Err(why) => *note = format!("left out: {why}"),
            }
            if !peers {
                *note = "testpmd is not measured with --short".into();
                continue;
            }
            match peer(kind) {
                Ok(ns) => theirs.0.push(ns),
                Err(why) => *note = format!("{} left out: {why}", kind.driver),
            }
        }
    }
    eprintln!("\rports: done     ");
    let rows = all.into_iter().filter(|(_, ours, _, _)| !ours.0.is_empty());
    let rows = rows.map(|(kind, ours, theirs, note)| {
        let measure = format!("a frame in and out, {}, by {}", kind.ends_text(), kind.name);
        let name = format!("testpmd {}", kind.driver);
        // The peer's median is the goal.
        let mut row = row(kind.id, &measure, "ns", ours, 0.0);
        row.goal = None;
        beside(row, &name, &theirs, 1.0, &note)
    });
    Ok(rows.collect())
}

impl Kind {
    fn ends_text(&self) -> &'static str {
        match self.name {
            "tap" => "two TAP devices",
            _ => "two veth devices",
        }
    }
}

/// Measures in a thread with a namespace of its own. Without the privileges the rows are left out.
pub fn ports(short: bool) -> Vec<Row> {
    let runs = if short { 1 } else { 5 };
    let work = std::thread::spawn(move || {
        let peers = !short && testpmd::available().is_ok();
        measure(runs, peers)
    });
    match work.join() {
        Ok(Ok(rows)) => rows,
        Ok(Err(why)) => {
            eprintln!("\rports left out: {why}");
            Vec::new()
        }
        Err(_) => Vec::new(),
    }
}

/// The time in which Linux drops a frame by XDP, in ns: the program alone on one frame again and again
/// (`BPF_PROG_TEST_RUN` with `repeat`), and with frames from and back to a page pool, as a driver has them.
pub struct XdpDrop {
    /// A program of one verdict, alone.
    pub program: f64,
    /// A program that compares the destination address, alone.
    pub by_address: f64,
    /// The program of one verdict, on live frames.
    pub live: f64,
}

/// Measures [`XdpDrop`].
pub fn xdp_drop(frames: u32) -> Result<XdpDrop, String> {
    let what = "an XDP program";
    let all = bpf::load(&verdict(DROP)).map_err(failed(what))?;
    let some = bpf::load(&drop_by_address()).map_err(failed(what))?;
    let frame = frame();
    let alone = |program: &OwnedFd| {
        let start = Instant::now();
        let (_, verdict) = bpf::test_run(program.as_fd(), &frame, frames).map_err(failed(what))?;
        match verdict {
            DROP => Ok(start.elapsed().as_nanos() as f64 / f64::from(frames)),
            other => Err(format!("{what}: verdict {other}")),
        }
    };
    let start = Instant::now();
    bpf::test_run_live(all.as_fd(), &frame, frames).map_err(failed(what))?;
    let live = start.elapsed().as_nanos() as f64 / f64::from(frames);
    Ok(XdpDrop {
        program: alone(&all)?,
        by_address: alone(&some)?,
        live,
    })
}
