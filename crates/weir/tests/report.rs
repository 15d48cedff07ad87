// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report of a run: its JSON against the published schema, its text, and the report of an
//! interrupted run.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::fs;
use std::path::Path;
use std::process::Stdio;

use common::{Folder, User, output, text, users, weir};
use serde_json::Value;

/// Two htb classes, one of which is too slow for its traffic; a u32 filter, an action that two
/// filters share, a drop by a rule, and an unused device.
const SCRIPT: &str = "set -e
ip link add in0 type dummy
ip link add out0 type dummy
ip link add idle0 type dummy
ip link set in0 up
ip link set out0 up
tc qdisc add dev out0 root handle 1: htb default 20
tc class add dev out0 parent 1: classid 1:1 htb rate 10mbit
tc class add dev out0 parent 1:1 classid 1:10 htb rate 8mbit ceil 10mbit
tc class add dev out0 parent 1:1 classid 1:20 htb rate 1mbit ceil 1mbit
tc class add dev out0 parent 1:1 classid 1:30 htb rate 1mbit
tc qdisc add dev out0 parent 1:20 handle 20: pfifo limit 5
tc filter add dev out0 parent 1: protocol ip u32 match ip dport 5001 0xffff flowid 1:10
tc qdisc add dev in0 clsact
tc actions add action pipe index 7
tc filter add dev in0 ingress pref 1 protocol ip flower ip_proto udp dst_port 5003 action drop
tc filter add dev in0 ingress pref 2 protocol ip flower ip_proto udp dst_port 5001 \
  action gact index 7 action mirred egress redirect dev out0
tc filter add dev in0 ingress pref 3 protocol ip flower ip_proto udp dst_port 5002 \
  action gact index 7 action mirred egress redirect dev out0
";

/// One generator for each destination port.
const FLOWS: [&str; 6] = [
    "--gen",
    "in0=dport=5001,rate=500,count=1000,size=1000",
    "--gen",
    "in0=dport=5002,rate=500,count=1000,size=1000,seed=2",
    "--gen",
    "in0=dport=5003,rate=100,count=200,size=1000,seed=3",
];

/// Returns the command `weir run ARGS` of that script in a folder.
fn run(user: User, folder: &Folder, args: &[&str], script: &str) -> std::process::Command {
    fs::write(folder.0.join("script.sh"), script).unwrap();
    let mut command = weir(user, &["run"]);
    command.args(args).arg("script.sh").current_dir(&folder.0);
    command
}

/// Parses a report and validates it against the schema.
#[track_caller]
fn report(folder: &Folder, name: &str) -> Value {
    let path = folder.0.join(name);
    let report: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/report.schema.json");
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    compiler.set_default_draft(boon::Draft::V2020_12);
    let schema = compiler
        .compile(schema.to_str().unwrap(), &mut schemas)
        .unwrap();
    if let Err(error) = schemas.validate(&report, schema) {
        panic!("{error:#}");
    }
    report
}

fn device<'a>(report: &'a Value, name: &str) -> &'a Value {
    let devices = report["devices"].as_array().unwrap();
    devices
        .iter()
        .find(|device| device["name"] == name)
        .unwrap()
}

/// Returns the line of a text that contains all these words.
#[track_caller]
fn line<'a>(text: &'a str, words: &[&str]) -> &'a str {
    let mut lines = text.lines();
    let found = lines.find(|line| words.iter().all(|word| line.contains(word)));
    found.unwrap_or_else(|| panic!("no line with {words:?} in\n{text}"))
}

#[test]
fn json_follows_the_schema() {
    for &user in users() {
        let folder = Folder::new();
        let args = [
            &FLOWS[..],
            &["--json", "report.json", "--quiet", "--seed", "9"],
        ]
        .concat();
        let done = output(&mut run(user, &folder, &args, SCRIPT));
        assert!(done.status.success(), "{}", text(&done.stderr));
        let report = report(&folder, "report.json");
        assert_eq!(report["seed"], 9);
        assert_eq!(report["weir"], env!("CARGO_PKG_VERSION"));
        assert_eq!(report["partial"], false);
        assert!(report["traffic"]["to_ns"].as_u64() > Some(1_990_000_000));

        let out = device(&report, "out0");
        let qdisc = &out["qdiscs"][0];
        assert_eq!(qdisc["kind"], "htb");
        let classes = qdisc["classes"].as_array().unwrap();
        let class = |id: &str| classes.iter().find(|class| class["classid"] == id).unwrap();
        assert_eq!(class("1:20")["parent"], "1:1");
        assert_eq!(class("1:20")["leaf"], "20:");
        assert_eq!(class("1:1").get("parent"), None);
        // The fast class never waits; the slow one drains 8,000 bits at 1 Mbit/s behind five
        // packets.
        let p50 = |id: &str| class(id)["sojourn"]["p50_ns"].as_u64().unwrap();
        assert!(p50("1:10") < 1_000_000, "{}", p50("1:10"));
        assert!(
            (30_000_000..50_000_000).contains(&p50("1:20")),
            "{}",
            p50("1:20")
        );
        assert!(class("1:30").get("sojourn").is_none());

        // The series adds up to the totals.
        let sum = |column: &str| -> u64 {
            let values = out["series"][column].as_array().unwrap();
            values.iter().map(|value| value.as_u64().unwrap()).sum()
        };
        assert_eq!(Some(sum("tx_packets")), out["tx"]["packets"].as_u64());
        let by_rule = device(&report, "in0")["drops"].as_array().unwrap();
        assert!(
            by_rule
                .iter()
                .any(|drop| drop["class"] == "rule" && drop["packets"] == 200)
        );
        let faults = out["drops"].as_array().unwrap();
        assert!(faults.iter().any(|drop| drop["class"] == "fault"));
    }
}

#[test]
fn the_text_report_has_all_sections() {
    let folder = Folder::new();
    let done = output(&mut run(User::Own, &folder, &FLOWS, SCRIPT));
    let printed = text(&done.stdout);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(!printed.contains('\x1b'), "colours are for terminals");
    assert!(line(&printed, &["traffic from"]).contains("traffic from 0.0 s to 2"));
    // Rates refer to the time while traffic flowed: 500 frames a second of 1,000 bytes.
    assert!(line(&printed, &["dport=5001"]).contains("1,000,000"));
    assert!(line(&printed, &["dport=5001"]).contains("Mbit/s"));
    // The tree: each level is indented by two more spaces.
    let column = |word: &str| line(&printed, &[word]).find(word).unwrap();
    assert_eq!(column("class 1:1 "), column("htb 1:") + 2);
    assert_eq!(column("class 1:10"), column("class 1:1 ") + 2);
    assert_eq!(column("pfifo 20:"), column("class 1:20") + 2);
    assert!(line(&printed, &["class 1:20"]).contains("ms"));
    assert!(line(&printed, &["u32 handle 800::800"]).starts_with("  out0"));
    // Both filters name the action; its counters appear once.
    let shared: Vec<&str> = printed
        .lines()
        .filter(|line| line.contains("index 7"))
        .collect();
    assert_eq!(shared.len(), 2, "{printed}");
    let numbers = |line: &str| {
        line.split_whitespace()
            .filter(|word| *word == "2,000")
            .count()
    };
    assert_eq!(
        shared.iter().map(|line| numbers(line)).sum::<usize>(),
        1,
        "{printed}"
    );
    // Packets that a rule dropped are not among the faults.
    let (faults, rules) = printed
        .split_once("Dropped by a rule: 200 packets")
        .unwrap();
    assert!(faults.contains("Drops: "), "{printed}");
    assert!(
        !faults
            .split_once("Drops: ")
            .unwrap()
            .1
            .contains("TC_INGRESS"),
        "{printed}"
    );
    assert!(
        rules.contains("TC_INGRESS") || rules.contains("in0"),
        "{printed}"
    );
}

#[test]
fn idle_rows_are_hidden() {
    let folder = Folder::new();
    let printed = |all: &[&str]| {
        let args = [&FLOWS[..], all].concat();
        let done = output(&mut run(User::Own, &folder, &args, SCRIPT));
        assert!(done.status.success(), "{}", text(&done.stderr));
        text(&done.stdout)
    };
    let (short, long) = (printed(&[]), printed(&["--all"]));
    // idle0, and lo, which carries nothing either.
    assert!(
        !short.contains("idle0") && short.contains("and 2 devices without traffic"),
        "{short}"
    );
    assert!(!short.contains("class 1:30"), "{short}");
    assert!(
        long.contains("idle0") && long.contains("class 1:30"),
        "{long}"
    );
    assert!(!long.contains("without traffic"), "{long}");
}

#[test]
fn an_interrupted_run_reports_its_results_so_far() {
    let folder = Folder::new();
    // Far more than the run plays before the signal arrives.
    let flow = [
        "--gen",
        "in0=dport=5001,rate=100000,count=100000000",
        "--json",
        "report.json",
    ];
    let script = format!("{SCRIPT}\necho ready >&2\n");
    let mut command = run(User::Own, &folder, &flow, &script);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The script ends right before the captures play.
    let mut errors = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut ready = String::new();
    std::io::BufRead::read_line(&mut errors, &mut ready).unwrap();
    assert_eq!(ready, "ready\n");
    let pid = child.id().to_string();
    wait_until_playing(&pid);
    let killed = std::process::Command::new("kill")
        .args(["-INT", &pid])
        .status();
    assert!(killed.unwrap().success());
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(130));
    let printed = text(&done.stdout);
    assert!(
        printed.contains("Interrupted: these are the results so far."),
        "{printed}"
    );
    let report = report(&folder, "report.json");
    assert_eq!(report["partial"], true);
    let played = report["inputs"][0]["frames"].as_u64().unwrap();
    assert!(played < 100_000_000, "{played}");
}

/// Waits until a process plays. It then catches SIGINT, and no longer SIGUSR1, which it forwards
/// while the script runs.
fn wait_until_playing(pid: &str) {
    loop {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let mut lines = status.lines();
        let mask = lines.find_map(|line| line.strip_prefix("SigCgt:"));
        let mask = u64::from_str_radix(mask.unwrap().trim(), 16).unwrap();
        let caught = |signal: u32| mask & 1 << (signal - 1) != 0;
        if caught(2) && !caught(10) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Runs `weir run ARGS` on a terminal of its own (`script` of util-linux), after it printed its
/// process id.
fn on_a_terminal(folder: &Folder, arguments: &str) -> std::process::Command {
    fs::write(folder.0.join("script.sh"), SCRIPT).unwrap();
    let line = format!("echo pid $$; exec \"$WEIR\" run {arguments} script.sh");
    let mut command = common::command(User::Own, "script");
    command
        .args(["-qec", &line, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .current_dir(&folder.0)
        .stdout(Stdio::piped());
    command
}

#[test]
fn a_terminal_gets_colour_unless_no_color_is_set() {
    if !common::has("script", "bsdutils") {
        return;
    }
    let folder = Folder::new();
    let flow = "--gen in0=dport=5002,rate=500,count=100,size=1000";
    let coloured = text(&output(&mut on_a_terminal(&folder, flow)).stdout);
    assert!(coloured.contains("\x1b["), "{coloured:?}");
    let plain = output(on_a_terminal(&folder, flow).env("NO_COLOR", "1"));
    let plain = text(&plain.stdout);
    assert!(
        plain.contains("Dropped by a fault") || plain.contains("drops"),
        "{plain}"
    );
    assert!(!plain.contains('\x1b'), "{plain:?}");
}

#[test]
fn a_long_run_shows_its_progress_on_a_terminal() {
    if !common::has("script", "bsdutils") {
        return;
    }
    let folder = Folder::new();
    let flow = "--until 4000s --gen in0=dport=5001,rate=100000,count=100000000";
    let mut child = on_a_terminal(&folder, flow).spawn().unwrap();
    let mut screen = std::io::BufReader::new(child.stdout.take().unwrap());
    let (mut shown, mut part) = (String::new(), Vec::new());
    while !(shown.contains(" of 4000.0 s, ") && shown.contains("p/s")) {
        part.clear();
        // The line of the progress is drawn again after a carriage return.
        let read = std::io::BufRead::read_until(&mut screen, b'\r', &mut part).unwrap();
        assert!(read > 0, "no progress: {shown}");
        shown += &text(&part);
    }
    let pid = shown.split_whitespace().nth(1).unwrap();
    let killed = std::process::Command::new("kill")
        .args(["-INT", pid])
        .status();
    assert!(killed.unwrap().success());
    let mut rest = Vec::new();
    let _ = std::io::Read::read_to_end(&mut screen, &mut rest);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(
        text(&rest).contains("Interrupted: these are the results so far."),
        "{}",
        text(&rest)
    );
}
