// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A stack in real time at full rate while rules, routes, qdiscs and ports change: nothing leaks, every packet is
//! counted, and no flow is reordered.
//!
//! The test runs for 20 seconds, or for `WEIR_SOAK_SECONDS`; `ci/soak` runs it for ten minutes. A generator sends
//! 64 TCP-like flows as fast as a CPU of the stack can, through a router and a packet socket into a veth pair of the
//! kernel, behind which the test receives. The test makes its own user and network namespace.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs};

use common::{Folder, User, has, output, skip, text, weir};
use serde_json::{Value, json};
use weir_intercept::Backend;
use weir_intercept::control::Client;
use weir_packet::{Batch, Pool, PoolConfig};
use weir_port::keys::Keys;
use weir_port::kinds::kind;
use weir_port::port::{Port, Site};

const INSIDE: &str = "WEIR_SOAK_INSIDE";
const SECONDS: &str = "WEIR_SOAK_SECONDS";
const CPUS: u64 = 2;
/// Frames that the magazines of the CPUs hold at most, and those on their way.
const HELD: u64 = CPUS * (512 + 64);

/// The router in the stack.
const ROUTER: &str = "
    for name in in0 out0 x0; do
        ip link add $name type dummy
        ip link set $name addrgenmode none
        ip link set $name up
    done
    ip addr add 10.1.0.1/24 dev in0
    ip addr add 10.3.0.1/24 dev out0
    sysctl -qw net.ipv4.ip_forward=1
    ip route add 10.2.0.0/16 via 10.3.0.2 dev out0
    tc qdisc add dev in0 clsact
    tc qdisc add dev x0 clsact
    tc filter add dev x0 ingress matchall action drop
";

/// The next hops. A new address of their device, that of the kernel's device behind it, would flush them.
const NEIGHBOURS: &str = "
    ip neigh add 10.3.0.2 lladdr 02:00:00:00:00:12 dev out0
    ip neigh add 10.3.0.3 lladdr 02:00:00:00:00:13 dev out0
";

/// Changes rules, routes and qdiscs until the file STOP exists.
const CHANGES: &str = "
    n=0
    while [ ! -e $STOP ]; do
        n=$((n + 1))
        port=$((1024 + n % 64))
        tc filter add dev in0 ingress prio 1 protocol ip flower ip_proto tcp src_port $port action drop
        tc filter add dev in0 ingress prio 2 protocol ip flower ip_proto tcp src_port $port action pass
        ip route replace 10.2.0.0/16 via 10.3.0.$((2 + n % 2)) dev out0
        ip route add 10.9.$((n % 250)).0/24 via 10.3.0.2 dev out0
        ip rule add pref 100 from 10.77.$((n % 250)).0/24 lookup 77
        tc qdisc replace dev out0 root handle 1: pfifo limit $((100 + n % 900))
        tc filter del dev in0 ingress prio 1
        tc filter del dev in0 ingress prio 2
        ip rule del pref 100
        ip route del 10.9.$((n % 250)).0/24
        [ $((n % 3)) -ne 0 ] || tc qdisc del dev out0 root
    done
    echo $n changes
";

#[test]
fn nothing_leaks_or_is_lost_or_reordered() {
    if !has("unshare", "util-linux") || !has("tc", "iproute2") {
        return;
    }
    let mut inside = common::command(User::Own, "unshare");
    inside.args(["-rn", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""]);
    inside.arg(env::current_exe().unwrap());
    inside.args(["--exact", "inside", "--ignored", "--nocapture"]);
    let ran = output(inside.env(INSIDE, "1"));
    let said = text(&ran.stdout) + &text(&ran.stderr);
    if said.contains("unshare failed") || said.contains("Operation not permitted") {
        return skip(&said);
    }
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
    for line in said.lines().filter(|line| line.starts_with("soak: ")) {
        common::say(line);
    }
}

/// The running stack and a connection to it.
struct Stack {
    child: Child,
    socket: String,
    client: Client,
}

impl Stack {
    fn up(folder: &Folder) -> Self {
        let socket = folder.file("control");
        let cpus = CPUS.to_string();
        let mut command = weir(User::Own, &["up", "--socket", &socket, "--cpus", &cpus]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        common::wait_until_up(&mut child);
        let client = Client::connect(Path::new(&socket)).unwrap();
        Self {
            child,
            socket,
            client,
        }
    }

    fn exec(&self, script: &str) -> Command {
        weir(
            User::Own,
            &["exec", "--socket", &self.socket, "--", "sh", "-ec", script],
        )
    }

    fn works(&self, script: &str) -> String {
        let ran = output(&mut self.exec(script));
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        text(&ran.stdout)
    }

    fn port(&self, what: &str, device: &str) -> Value {
        let command = json!({ "command": "port", "do": what, "device": device });
        self.client.command(&command).unwrap()
    }

    fn add(&self, device: &str, name: &str, keys: &str) {
        let kind = kind(name).unwrap();
        let parsed = Keys::parse(name, kind.keys, keys).unwrap();
        let files = (kind.open)(&parsed).unwrap();
        let command = json!({
            "command": "port", "do": "add", "device": device, "kind": name, "keys": keys,
        });
        self.client.command_with(&command, files).unwrap();
    }

    /// The device's part of `weir stat`.
    fn stat(&self, device: &str) -> Value {
        let command = json!({ "command": "stat", "all": true });
        let report = self.client.command(&command).unwrap();
        let all = report["data"]["devices"].as_array().unwrap();
        let found = all.iter().find(|found| found["name"] == device);
        found.unwrap_or_else(|| panic!("{report}")).clone()
    }

    /// The stack's resident memory in bytes.
    fn resident(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        let pages: u64 = text.split_whitespace().nth(1).unwrap().parse().unwrap();
        pages * 4096
    }

    fn frames_in_use(&self) -> u64 {
        let memory = self.port("memory", "");
        let number = |key: &str| memory[key].as_u64().unwrap();
        number("frames") - number("frames_free") + number("jumbos") - number("jumbos_free")
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn number(value: &Value, key: &str) -> u64 {
    value[key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key}: {value}"))
}

fn drops(device: &Value) -> u64 {
    let all = device["drops"].as_array();
    let counts = all
        .into_iter()
        .flatten()
        .map(|drop| number(drop, "packets"));
    counts.sum()
}

/// What arrives behind the stack.
#[derive(Default)]
struct Arrived {
    frames: AtomicU64,
    reordered: AtomicU64,
    stop: AtomicBool,
}

impl Arrived {
    /// Receives until told to stop and nothing more comes. Each flow's sequence numbers only grow.
    fn receive(&self, port: &dyn Port, pool: &Pool) {
        let mut cache = pool.cache();
        let mut last: BTreeMap<[u8; 2], u32> = BTreeMap::new();
        let mut idle = 0;
        while idle < 100 {
            let mut batch = Batch::new();
            if port.receive(0, &mut cache, &mut batch).unwrap() == 0 {
                idle += u32::from(self.stop.load(Relaxed));
                sleep(Duration::from_millis(1));
                continue;
            }
            idle = 0;
            for packet in &batch {
                let data = packet.data();
                // TCP over IPv4
                if data.len() < 54 || data[12..15] != [8, 0, 0x45] || data[23] != 6 {
                    continue;
                }
                self.frames.fetch_add(1, Relaxed);
                let sequence = u32::from_be_bytes(*data[38..].first_chunk().unwrap());
                let before = last.insert([data[34], data[35]], sequence);
                if before.is_some_and(|before| sequence.wrapping_sub(before) as i32 <= 0) {
                    self.reordered.fetch_add(1, Relaxed);
                }
            }
            cache.free_bulk(&mut batch);
        }
    }
}

/// Fields of `/proc/net/dev`: received and sent frames that the kernel dropped.
fn kernel_drops(device: &str) -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = text.lines().find_map(|line| {
        let (name, rest) = line.split_once(':')?;
        (name.trim() == device).then_some(rest)
    });
    let fields: Vec<u64> = line
        .unwrap()
        .split_whitespace()
        .map(|field| field.parse().unwrap())
        .collect();
    fields[3] + fields[11]
}

#[test]
#[ignore = "the other test runs it, in namespaces of its own"]
fn inside() {
    assert!(env::var_os(INSIDE).is_some(), "not by itself");
    let seconds = env::var(SECONDS).map_or(20, |text| text.parse().unwrap());
    let folder = Folder::new();
    let made = output(common::command(User::Own, "sh").args([
        "-ec",
        "ip link add w0 type veth peer name w1
        ip link set w0 addrgenmode none; ip link set w1 addrgenmode none
        ip link set w0 up; ip link set w1 up",
    ]));
    assert!(made.status.success(), "{}", text(&made.stderr));

    let pool = Pool::new(PoolConfig::default());
    let behind = kind("af_packet").unwrap();
    let keys = Keys::parse("af_packet", behind.keys, "dev=w1").unwrap();
    let files = (behind.open)(&keys).unwrap();
    let behind = (behind.adopt)(&keys, files, &Site::new(&pool)).unwrap();
    let arrived = Arc::new(Arrived::default());
    let receiver = std::thread::spawn({
        let (arrived, behind, pool) = (arrived.clone(), behind.clone(), pool.clone());
        move || arrived.receive(&*behind, &pool)
    });

    let stack = Stack::up(&folder);
    stack.works(ROUTER);
    stack.add("out0", "af_packet", "dev=w0");
    stack.works(NEIGHBOURS);
    let full = "proto=tcp,size=60-200,flows=64,rate=1000000000,count=0,src=10.1.0.2,dst=10.2.0.2";
    stack.add("in0", "generator", full);
    let stop = folder.file("stop");
    let mut changes = stack.exec(CHANGES);
    let mut changes = changes
        .env("STOP", &stop)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();

    let begun = Instant::now();
    let end = begun + Duration::from_secs(seconds);
    let (mut rounds, mut taken_out, mut extra) = (0_u64, [0_u64; 2], 0_u64);
    let mut account = |port: &Value| {
        taken_out[0] += number(port, "tx_packets");
        taken_out[1] += number(port, "tx_errors");
        assert!(port["error"].is_null(), "{port}");
    };
    // Memory once the first second of each kind of change is over.
    let mut resident = None;
    while Instant::now() < end {
        stack.add("x0", "generator", "count=0,rate=20000,busy=on");
        sleep(Duration::from_millis(20));
        extra += number(&stack.port("del", "x0"), "rx_packets");
        rounds += 1;
        if rounds.is_multiple_of(5) {
            account(&stack.port("del", "out0"));
            stack.add("out0", "af_packet", "dev=w0");
        }
        if begun.elapsed().as_secs() * 4 >= seconds && resident.is_none() {
            resident = Some(stack.resident());
        }
        assert!(
            changes.try_wait().unwrap().is_none(),
            "the changes have ended"
        );
    }
    let resident = (resident.unwrap(), stack.resident());
    fs::write(&stop, "").unwrap();
    let changed = changes.wait_with_output().unwrap();
    assert!(changed.status.success(), "{}", text(&changed.stderr));
    let generated = stack.port("del", "in0");
    sleep(Duration::from_millis(500));
    account(&stack.port("del", "out0"));
    arrived.stop.store(true, Relaxed);
    receiver.join().unwrap();

    // Every packet is counted.
    let [input, out, other] = ["in0", "out0", "x0"].map(|device| stack.stat(device));
    let generated = number(&generated, "rx_packets");
    let received = number(&input["rx"], "packets");
    let sent = number(&out["tx"], "packets");
    let dropped = drops(&input) + drops(&out);
    let there = arrived.frames.load(Relaxed);
    let behind_lost =
        behind.counters().rx_dropped.load(Relaxed) + behind.counters().rx_errors.load(Relaxed);
    let lost = behind_lost + taken_out[1] + kernel_drops("w0") + kernel_drops("w1");
    let reordered = arrived.reordered.load(Relaxed);
    let in_use = stack.frames_in_use();
    println!(
        "soak: {seconds} s, {generated} frames generated, {sent} sent, {dropped} dropped, {there} arrived, {lost} lost in the kernel, \
         {reordered} reordered; {rounds} rounds of ports, {}; {in_use} frames in use; resident {} and {} KiB",
        text(&changed.stdout).trim(),
        resident.0 >> 10,
        resident.1 >> 10
    );
    assert!(generated > 1000 * seconds, "{generated}");
    assert_eq!(generated, received);
    assert_eq!(received, sent + dropped, "{input}\n{out}");
    assert_eq!(number(&other["rx"], "packets"), extra);
    assert_eq!(drops(&other), extra);
    assert!(
        there <= taken_out[0] && there + lost >= taken_out[0],
        "{there} {lost} {taken_out:?}"
    );
    assert!(there > 0);
    assert_eq!(reordered, 0);
    // Nothing leaks: the packet memory holds what the CPUs' magazines hold, and the process does not grow.
    assert!(in_use <= HELD, "{in_use}");
    assert!(resident.1 < resident.0 + (16 << 20), "{resident:?}");
}
