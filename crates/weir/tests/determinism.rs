// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same script, captures and seed give the same bytes; another seed gives others. The edge
//! router and twenty stacks side by side are in `examples.rs`.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::fs;
use std::path::Path;

use common::{Folder, User, output, text, users, weir};

/// Random addresses, random verdicts, timers, a link that is cut; time that the script drives.
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
fn the_same_twice_and_for_everybody() {
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
