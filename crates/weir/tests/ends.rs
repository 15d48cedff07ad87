// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run ends soon regardless of the settings of its qdiscs and sysctls. The tests set extreme
//! values of many kinds at once. Each qdisc has a device of its own, all devices get all frames,
//! and each qdisc is replaced by another halfway. `crates/weir-fuzz` keeps further cases found by a
//! search.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

use std::fmt::Write;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
/// Many times the duration of a run.
const PATIENCE: Duration = Duration::from_secs(60);

/// Size tables: none, one that makes packets hundreds of megabytes long, and one of ADSL for tiny
/// packets.
const STABS: [&str; 3] = [
    "",
    "stab overhead 2000000000",
    "stab linklayer adsl mtu 64 tsize 16",
];

/// Root qdiscs, with the options of class `1:1` for those that have classes.
const ROOTS: &[(&str, &str)] = &[
    ("htb default 1", "rate 8bit burst 1m"),
    (
        "htb default 1",
        "rate 8bit burst 1 ceil 18446744073709551615",
    ),
    ("htb default 1", "rate 18446744073709551615"),
    ("htb default 1", "rate 8bit quantum 1"),
    ("hfsc default 1", "sc m1 8bit d 1us m2 8bit"),
    ("hfsc default 1", "rt m1 8bit d 1us m2 30gbit"),
    (
        "hfsc default 1",
        "ls m1 8bit d 1us m2 1gbit ul m1 1gbit d 1us m2 8bit",
    ),
    ("drr", "quantum 1"),
    ("drr", "quantum 4294967295"),
    ("qfq", "weight 1 maxpkt 512"),
    ("pie tupdate 4294s target 1us", ""),
    ("pie tupdate 1us alpha 32 beta 32", ""),
    ("fq_pie tupdate 1us quantum 1 ecn_prob 99", ""),
    ("fq_codel quantum 256 target 0us interval 0us", ""),
    ("codel target 0us interval 0us", ""),
    ("fq quantum 1 initial_quantum 1 maxrate 8bit", ""),
    ("fq quantum 1 initial_quantum 1", ""),
    ("sfq quantum 256 perturb 1", ""),
    ("hhf quantum 1 reset_timeout 1us evict_timeout 1us", ""),
    ("ets bands 2 quanta 256 256", ""),
    (
        "sfb penalty_rate 4294967295 penalty_burst 4294967295 rehash 1 db 0",
        "",
    ),
    (
        "cbs hicredit 2147483647 locredit -2147483648 sendslope -2147483648 idleslope 2147483647",
        "",
    ),
    (
        "cbs hicredit 30 locredit -1470 sendslope -980000 idleslope 2047",
        "",
    ),
    (
        "cbs hicredit -1 locredit -1470 sendslope -980000 idleslope 100",
        "",
    ),
    (
        "cbs hicredit 100 locredit -100 sendslope -1000 idleslope -1000",
        "",
    ),
    ("tbf rate 8bit burst 100000 limit 4294967295", ""),
    (
        "tbf rate 1mbit burst 2000 limit 100000 peakrate 2mbit minburst 1500",
        "",
    ),
    ("netem delay 1us 274s distribution normal rate 8bit", ""),
    (
        "netem slot 1ns 1ns duplicate 100% reorder 100% delay 1us",
        "",
    ),
    ("cake bandwidth 8bit", ""),
    ("cake autorate-ingress bandwidth 1gbit memlimit 1", ""),
    (
        "red limit 1gb min 1 max 2 avpkt 1 burst 1 probability 1",
        "",
    ),
    ("etf clockid CLOCK_TAI delta 2147483647", ""),
];

/// Appends the `tc` lines that put a root qdisc on a device, with its class.
fn root(lines: &mut String, device: &str, (root, class): (&str, &str), stab: &str) {
    writeln!(
        lines,
        "qdisc replace dev {device} root handle 1: {stab} {root}"
    )
    .unwrap();
    let kind = root.split(' ').next().unwrap();
    if !class.is_empty() {
        let class = format!("class add dev {device} parent 1: classid 1:1 {kind} {class}");
        writeln!(lines, "{class}").unwrap();
        writeln!(
            lines,
            "filter add dev {device} parent 1: matchall classid 1:1"
        )
        .unwrap();
    }
}

/// Runs a script for twenty seconds of the stack's time, with a burst of frames in each.
#[track_caller]
fn ends(name: &str, script: &str) {
    let folder = env::temp_dir().join(format!("weir-ends-{name}-{}", process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (file, capture) = (folder.join("script"), folder.join("in.pcap"));
    fs::write(&file, script).unwrap();
    let frames = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/loaded/frames.py");
    let frames = Command::new("python3")
        .args([frames, "pcap", "12"])
        .output();
    fs::write(&capture, frames.unwrap().stdout).unwrap();
    let said = fs::File::create(folder.join("said")).unwrap();
    let mut run = Command::new(WEIR)
        .args(["run", "--until", "20s", "--in"])
        .arg(format!("in0={}", capture.display()))
        .args(["--", "sh"])
        .arg(&file)
        .env("WEIR", WEIR)
        .stdout(said.try_clone().unwrap())
        .stderr(said)
        .spawn()
        .unwrap();
    let began = Instant::now();
    let status = loop {
        if let Some(status) = run.try_wait().unwrap() {
            break Some(status);
        }
        if began.elapsed() > PATIENCE {
            run.kill().unwrap();
            run.wait().unwrap();
            break None;
        }
        thread::sleep(Duration::from_millis(20));
    };
    let said = fs::read_to_string(folder.join("said")).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let status = status.unwrap_or_else(|| panic!("no end after {PATIENCE:?}\n{said}"));
    assert!(status.success(), "{said}");
    assert!(said.contains("Time 20.000000000 s"), "{said}");
}

/// Sends the frames of `in0` to all devices.
const FAN: &str = "
set -e
ip link add in0 type veth peer name p0
ip link set in0 up
tc qdisc add dev in0 clsact
";

#[test]
fn runs_end_with_any_root() {
    for (number, stab) in STABS.iter().enumerate() {
        let mut script = FAN.to_owned();
        let (mut links, mut first, mut second) = (String::new(), String::new(), String::new());
        for (at, &made) in ROOTS.iter().enumerate() {
            let device = format!("d{at}");
            writeln!(links, "link add {device} type dummy").unwrap();
            writeln!(links, "link set {device} up").unwrap();
            root(&mut first, &device, made, stab);
            let mirror = format!("action mirred egress mirror dev {device}");
            writeln!(first, "filter add dev in0 ingress matchall {mirror}").unwrap();
            writeln!(second, "qdisc del dev {device} root").unwrap();
            root(&mut second, &device, ROOTS[(at + 7) % ROOTS.len()], stab);
        }
        write!(
            script,
            "ip -b - <<'X'\n{links}X\ntc -b - <<'X'\n{first}X\n\"$WEIR\" play --until 5.5s >/dev/null\ntc -b - <<'X'\n{second}X\n"
        )
        .unwrap();
        ends(&format!("root-{number}"), &script);
    }
}

/// Gates whose entries, or cycles, last a nanosecond, with frames long after their start.
#[test]
fn runs_end_with_any_gate() {
    let mut script = FAN.to_owned();
    for (at, times) in [
        "sched-entry open 1 -1 -1",
        "cycle-time 1 sched-entry close 3 -1 -1 sched-entry open 1 -1 -1",
        "base-time 9223372036854775807 sched-entry open 1 -1 -1",
        "cycle-time 1 base-time 1 sched-entry close 4000000000 -1 -1",
    ]
    .iter()
    .enumerate()
    {
        writeln!(
            script,
            "tc filter add dev in0 ingress pref {} matchall action gate {times} continue",
            at + 1
        )
        .unwrap();
    }
    ends("gate", &script);
}

/// Sets each sysctl in turn to extreme values. A sysctl that accepts them keeps the last one.
#[test]
fn runs_end_with_any_sysctl() {
    let mut script = FAN.to_owned();
    script.push_str(
        "
set +e
ip addr add 10.0.0.1/24 dev in0
ip addr add 2001:db8::1/64 dev in0
ip link set p0 up
for file in $(find /proc/sys/net -type f); do
    for value in 0 -1 1 -2147483648 2147483647 18446744073709551615 '2147483647 2147483647 2147483647'; do
        echo $value >$file
    done
done 2>/dev/null
\"$WEIR\" play --until 10s >/dev/null
for file in $(find /proc/sys/net -type f); do
    echo 2147483647 >$file
    echo 0 >$file
done 2>/dev/null
:
",
    );
    ends("sysctl", &script);
}
