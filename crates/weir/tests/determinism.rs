// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same script, captures and seed give the same bytes; another seed gives others. The edge
//! router and twenty stacks side by side are in `examples.rs`.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::fs;
use std::path::Path;

use common::{Folder, User, output, text, users, weir};

/// Random addresses, random verdicts, timers, a link that goes down, and time that the script
/// advances.
const SCRIPT: &str = r#"set -e
ip link add v0 type veth peer name v1
ip netns add far
ip link set v1 netns far
ip link set v0 up
ip -n far link set v1 up
ip addr add 10.0.0.1/24 dev v0
ip -n far addr add 10.0.0.2/24 dev v1
for i in 1 2 3 4; do ip link add d$i type dummy; done
tc qdisc add dev v0 clsact
tc filter add dev v0 ingress pref 1 matchall action continue random netrand drop 3
tc filter add dev v0 ingress pref 2 matchall action mirred egress redirect dev v0
"$WEIR" play --until 2s
ip link set v0 down
"$WEIR" play --until 3s
ip link set v0 up
ip -d -s -j link
ip -j neigh
ip -s -j link show v0
tc -s -j filter show dev v0 ingress
"#;

fn run(user: User, seed: &str) -> Vec<Vec<u8>> {
    let folder = Folder::new();
    let lan =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/edge-router/lan.pcapng.gz");
    let lan = format!("v0={}", lan.display());
    let script = folder.file("script.sh");
    fs::write(&script, SCRIPT).unwrap();
    let mut command = weir(
        user,
        &[
            "run",
            "--seed",
            seed,
            "--json",
            "report.json",
            "--drops",
            "drops.pcapng",
        ],
    );
    command.args([
        "--in",
        &lan,
        "--out",
        "v0=v0.pcapng",
        "--out",
        "far/v1=v1.pcapng",
        "script.sh",
    ]);
    let output = output(command.current_dir(&folder.0));
    assert!(
        output.status.success(),
        "{user:?}: {}",
        text(&output.stderr)
    );
    let files = ["report.json", "drops.pcapng", "v0.pcapng", "v1.pcapng"];
    let mut found = vec![output.stdout, output.stderr];
    found.extend(files.map(|name| fs::read(folder.0.join(name)).unwrap()));
    found
}

#[test]
fn results_are_the_same_in_each_run_and_for_each_user() {
    let first = run(User::Own, "11");
    assert!(first.iter().skip(2).all(|file| file.len() > 80));
    for user in users() {
        let again = run(*user, "11");
        for (n, (one, other)) in first.iter().zip(&again).enumerate() {
            assert!(
                one == other,
                "{user:?}: file {n} differs:\n{}\n{}",
                text(one),
                text(other)
            );
        }
    }
    let other = run(User::Own, "12");
    assert!(first[2] != other[2], "the seed has no effect");
}

/// Frames leave by a0 and, mirrored, by b0. Each has a netem that draws for everything.
const CHANCES: &str = r#"set -e
for device in in0 a0 b0; do ip link add $device type dummy; ip link set $device up; done
tc qdisc add dev in0 clsact
tc filter add dev in0 ingress pref 1 matchall \
    action mirred egress mirror dev b0 action mirred egress redirect dev a0
network="netem limit 9999 delay 10ms 3ms distribution normal loss 10% duplicate 5% corrupt 5%"
tc qdisc add dev a0 root $network
if [ "$1" != alone ]; then tc qdisc add dev b0 root $network; fi
if [ "$1" = more ]; then ip link add c0 type dummy; ip link set c0 up; tc qdisc add dev c0 root $network; fi
"#;

/// Returns the captures of a0 and b0.
fn chances(seed: &str, what: &str) -> [Vec<u8>; 2] {
    let folder = Folder::new();
    let script = folder.file("script.sh");
    fs::write(&script, CHANCES).unwrap();
    let mut command = weir(User::Own, &["run", "--quiet", "--seed", seed]);
    command.args(["--gen", "in0=rate=1000,count=2000,size=100,seed=1"]);
    command.args(["--out", "a0=a.pcapng", "--out", "b0=b.pcapng"]);
    command.args(["--", "sh", &script, what]);
    let output = output(command.current_dir(&folder.0));
    assert!(output.status.success(), "{}", text(&output.stderr));
    ["a.pcapng", "b.pcapng"].map(|name| fs::read(folder.0.join(name)).unwrap())
}

/// Returns the times of the packets in a capture of equal packets.
fn times(capture: &[u8]) -> Vec<u64> {
    let word = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().unwrap());
    let (mut at, mut times) = (0, Vec::new());
    while at < capture.len() {
        if word(at) == 6 {
            times.push(u64::from(word(at + 12)) << 32 | u64::from(word(at + 16)));
        }
        at += word(at + 4) as usize;
    }
    times
}

#[test]
fn devices_draw_independently_of_each_other() {
    let both = chances("5", "both");
    assert_eq!(chances("5", "both"), both, "the same seed");
    assert_eq!(chances("5", "alone")[0], both[0], "nothing drawn at b0");
    assert_eq!(chances("5", "more"), both, "another device draws");
    let other = chances("6", "both");
    let [a, b] = both.each_ref().map(|capture| times(capture));
    for times in [&a, &b] {
        // Of 2000 packets a tenth is lost, and of the others a twentieth is duplicated: 1895
        // remain, within five deviations.
        assert!(times.len().abs_diff(1895) < 100, "{}", times.len());
    }
    assert!(a != b, "devices draw by themselves");
    assert!(other[0] != both[0] && other[1] != both[1], "another seed");
}
