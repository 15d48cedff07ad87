// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random filters match the same packets in Weir as on Linux. After the packets in `classify/`, the
//! counters of each rule set there (`make.py` generates those that it names) equal those of Linux
//! 6.1 (`classify/record.sh`), including the counters of each filter and each key of u32.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::fs;
use std::path::Path;

use common::{User, output, text, weir};

fn play(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/classify");
    let expected = fs::read_to_string(folder.join(format!("{name}.expected"))).unwrap();
    let packets = format!("d0={}", folder.join("packets.pcap").display());
    let mut command = weir(User::Own, &["run", "--quiet", "--in", &packets]);
    command.args(["--", "bash"]);
    command.current_dir(&folder);
    command.args(["play.sh", &format!("{name}.cmd")]);
    command.args(["bash", "-c", "exec \"$WEIR\" play --until 5s >/dev/null"]);
    let output = output(&mut command);
    let got = text(&output.stdout);
    let errors = text(&output.stderr);
    let mut filter = "";
    for (at, (wanted, got)) in expected.lines().zip(got.lines()).enumerate() {
        if wanted.starts_with("filter") || wanted.starts_with("class") {
            filter = wanted;
        }
        assert_eq!(got, wanted, "{name} line {}, {filter}\n{errors}", at + 1);
    }
    let lines = |text: &str| text.lines().count();
    assert_eq!(lines(&got), lines(&expected), "{name}: {errors}");
}

#[test]
fn u32_rules() {
    for seed in 1..=4 {
        play(&format!("u32-{seed}"));
    }
}

#[test]
fn basic_rules() {
    for seed in 1..=3 {
        play(&format!("basic-{seed}"));
    }
}

/// Programs of libpcap, random ones, and the codes of `direct-action`.
#[test]
fn bpf_programs() {
    play("bpf-1");
}

/// Packets that were routed, some through a device to which they were redirected: `route`, `meta`,
/// `flow` and the transmit queues that `skbedit` chose.
#[test]
fn routed() {
    play("routed-1");
    play("routed-2");
}

/// Devices that redirect and mirror to each other and to themselves: the number of times each
/// action runs.
#[test]
fn circles() {
    play("circle-1");
}

/// Metadata that `tunnel_key`, `skbedit` and `ife` attach, matched by `flower` and `basic`.
#[test]
fn metadata() {
    play("meta-1");
}

/// Marks set by an action, matched by `fw`, `u32` and `basic`; and the routes of unmarked packets.
#[test]
fn marks() {
    play("marks-1");
}

#[test]
fn flow_classes() {
    play("flow-1");
}
