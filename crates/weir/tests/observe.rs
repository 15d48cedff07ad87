// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir stat stages` and `weir top`: the cost of stages, and what a running stack does.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
/// The time limit of a step: longer than any takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// A stack that is up.
struct Stack {
    child: Child,
    directory: PathBuf,
}

impl Stack {
    fn up(name: &str, args: &[&str]) -> Self {
        let directory =
            std::env::temp_dir().join(format!("weir-observe-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut child = Command::new(WEIR)
            .args(["up", "--socket"])
            .arg(directory.join("control"))
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        common::wait_until_up(&mut child);
        Self { child, directory }
    }

    /// Returns `weir COMMAND ARGS` for this stack.
    fn command(&self, command: &str, args: &[&str]) -> Command {
        let mut weir = Command::new(WEIR);
        weir.arg(command)
            .arg("--socket")
            .arg(self.directory.join("control"))
            .args(args);
        weir
    }

    fn weir(&self, command: &str, args: &[&str]) -> Output {
        self.command(command, args).output().unwrap()
    }

    fn sh(&self, script: &str) {
        let done = self.weir("exec", &["--", "sh", "-ec", script]);
        assert!(done.status.success(), "{}", err(&done));
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A device that receives generated frames, which leave by another one.
const ROUTER: &str = "sysctl -qw net.ipv4.ip_forward=1
    ip link add in0 type dummy
    ip link add out0 type dummy
    ip address add 10.1.0.1/24 dev in0
    ip address add 10.2.0.1/24 dev out0
    ip link set out0 up
    ip neighbour add 10.2.0.2 lladdr 02:00:00:00:00:02 dev out0
    tc qdisc add dev in0 clsact
    tc filter add dev in0 ingress protocol ip flower ip_proto tcp action drop
    ip link set in0 up";
/// The generator of these frames.
const FRAMES: &str = "in0=rate=2000,size=200,src=10.1.0.9,dst=10.2.0.2";

/// Returns a number of a JSON report.
fn number(report: &serde_json::Value, key: &str) -> f64 {
    report[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key}: {report}"))
}

#[test]
fn stages_add_up_to_the_time_of_the_turns() {
    let stack = Stack::up("stages", &["--cpus", "2", "--gen", FRAMES]);
    stack.sh(ROUTER);
    let start = Instant::now();
    let report = loop {
        let done = stack.weir("stat", &["stages", "--json"]);
        let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        if number(&report, "packets") >= 1000.0 {
            break report;
        }
        assert!(start.elapsed() < PATIENCE, "no packets: {report}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let groups = report["groups"].as_array().unwrap();
    let names: Vec<_> = groups.iter().map(|group| &group["group"]).collect();
    assert_eq!(
        names,
        [
            "port", "buffers", "dissect", "classify", "route", "qdisc", "transmit", "rcu"
        ]
    );
    let sum: f64 = groups.iter().map(|group| number(group, "ns")).sum();
    assert!((sum - number(&report, "total_ns")).abs() < 1.0, "{report}");
    for group in ["dissect", "classify", "route", "transmit", "rcu"] {
        let group = groups.iter().find(|one| one["group"] == group).unwrap();
        assert!(number(group, "ns") > 0.0, "{report}");
    }
    // Stages run inside turns. Part of a turn, such as the generator's timer, is in no stage.
    assert!(sum <= number(&report, "measured_ns") * 1.001, "{report}");
    let text = out(&stack.weir("stat", &["stages", "--groups"]));
    for word in ["classify", "sum of all stages", "measured", "% in stages"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    // The machine's counters, or a sentence in their place.
    let off = out(&stack.weir("stat", &["stages"]));
    let on = out(&stack.weir("stat", &["stages", "--measure", "on"]));
    let none = "This machine gives the stack no hardware counters: perf_event_open: ";
    if on.contains(none) {
        let is_it = |line: &&str| line.starts_with(none) && line.ends_with('.');
        assert_eq!(off.lines().filter(is_it).count(), 1, "{off}");
        assert!(!on.contains("LLC misses"), "{on}");
    } else {
        assert!(off.contains("Hardware counters are off"), "{off}");
        assert!(on.contains("cycles/packet"), "{on}");
        let end = Instant::now() + PATIENCE;
        loop {
            let shown = out(&stack.weir("stat", &["stages"]));
            let mut lines = shown
                .lines()
                .skip_while(|line| !line.contains("LLC misses"));
            if lines.any(|line| line.starts_with("classify ")) {
                break;
            }
            assert!(Instant::now() < end, "{shown}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    let refused = stack.weir("stat", &["--measure", "on"]);
    assert!(err(&refused).contains("--measure needs"), "{refused:?}");
    let refused = stack.weir("stat", &["--groups"]);
    assert!(err(&refused).contains("weir stat stages"), "{refused:?}");
}

#[test]
fn watched_stages_are_those_of_the_last_second() {
    let stack = Stack::up("watch", &["--gen", FRAMES]);
    stack.sh(ROUTER);
    let mut watch = stack.command("stat", &["stages", "--watch", "--json"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let start = Instant::now();
    let mut seen = Vec::new();
    // The first frames may come late.
    while seen.iter().filter(|packets| **packets > 0.0).count() < 2 {
        let line = lines.next().unwrap().unwrap();
        let report: serde_json::Value = serde_json::from_str(&line).unwrap();
        seen.push(number(&report, "packets"));
        assert!(start.elapsed() < PATIENCE, "{seen:?}");
    }
    // The command ends when its reader is gone.
    drop(lines);
    let start = Instant::now();
    while watch.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    let done = stack.weir("stat", &["stages", "--json"]);
    let total: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let sum: f64 = seen.iter().sum();
    assert!(sum < number(&total, "packets"), "{seen:?}");
}

/// A router in a namespace, whose output waits in a queue.
fn busy(name: &str) -> Stack {
    let frames = "edge/in0=rate=2000,count=1000000,size=500,src=10.1.0.9,dst=10.2.0.2,flows=1";
    let stack = Stack::up(name, &["--cpus", "2", "--gen", frames]);
    let router = ROUTER
        .replace("ip address", "ip -n edge address")
        .replace("ip link", "ip -n edge link")
        .replace("ip neighbour", "ip -n edge neighbour")
        .replace("tc ", "tc -n edge ")
        .replace("sysctl", "ip netns exec edge sysctl");
    stack.sh(&format!(
        "ip netns add edge\n{}",
        router.replace(
            "ip -n edge link set out0 up",
            "tc -n edge qdisc add dev out0 root tbf rate 1mbit burst 5k latency 5s
             ip -n edge link set out0 up"
        )
    ));
    stack
}

#[test]
fn top_prints_one_snapshot_for_logs() {
    let stack = busy("once");
    let start = Instant::now();
    let text = loop {
        let done = stack.weir("top", &["--once", "--interval", "500ms"]);
        assert!(done.status.success(), "{}", err(&done));
        let text = out(&done);
        // The rate of the qdisc is lower than that of the frames.
        let waits = text.lines().any(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            words.first() == Some(&"edge/out0") && words.get(1) == Some(&"tbf") && words[4] != "0"
        });
        if waits {
            break text;
        }
        assert!(start.elapsed() < PATIENCE, "{text}");
    };
    assert!(!text.contains('\x1b'), "{text}");
    for word in [
        "Devices", "edge/in0", "Drops", "Queues", "Stages", "classify", "measured", "CPUs",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let refused = stack.weir("top", &[]);
    assert!(err(&refused).contains("use --once"), "{refused:?}");
    let refused = stack.weir("top", &["--once", "--interval", "1ms"]);
    assert!(err(&refused).contains("100ms or more"), "{refused:?}");
}

#[test]
fn top_draws_on_a_terminal_and_restores_it() {
    let stack = busy("top");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/top.py");
    let socket = stack.directory.join("control");
    for end in ["q", "\x03", "SIGTERM", "SIGINT"] {
        let done = Command::new("timeout")
            .args([
                "200",
                "python3",
                script,
                end,
                WEIR,
                "top",
                "--interval",
                "200ms",
                "--socket",
            ])
            .arg(&socket)
            .output()
            .unwrap();
        assert_eq!(out(&done), "restored\n", "{end:?}: {}", err(&done));
    }
}
