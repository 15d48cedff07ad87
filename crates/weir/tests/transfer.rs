// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Data between two programs over a bad path: Weir's netem delays each way by 90 to 100 ms, so packets overtake each other,
//! loses 1% and sends 1% twice. What arrives is what was sent, for every seed, and a seed has one course.
//!
//! `cargo test --release -p weir --test transfer -- --ignored --nocapture` passes 1 GB for each of 50 seeds. `WEIR_TRANSFER_BYTES`
//! and `WEIR_TRANSFER_SEEDS` (FIRST-LAST) choose others.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

#[path = "common/chain.rs"]
mod chain;
mod common;

use std::time::Instant;

use chain::Time;
use common::{Folder, User, has, ordinary_user, script_with};

/// The receiver prints length and checksum of what comes; the sender prints those of what it sends, and the time that it took.
const PROGRAMS: &str = r#"
cat > receive.py << 'END'
import hashlib, socket
s = socket.create_server(("10.0.1.2", 7000))
c, _ = s.accept()
sum, length = hashlib.sha256(), 0
while data := c.recv(1 << 20):
    sum.update(data)
    length += len(data)
print(length, sum.hexdigest())
END
cat > send.py << 'END'
import hashlib, random, socket, sys, time
left, draw, sum = int(sys.argv[1]), random.Random(sys.argv[2]), hashlib.sha256()
piece = draw.randbytes(1 << 20)
start = time.monotonic()
c = socket.create_connection(("10.0.1.2", 7000))
while left:
    # No piece is like another.
    at = draw.randrange(1 << 19)
    data = piece[at:at + min(left, 1 << 18)]
    c.sendall(data)
    sum.update(data)
    left -= len(data)
c.shutdown(socket.SHUT_WR)
assert c.recv(1) == b""
print(sys.argv[1], sum.hexdigest())
print(f"{time.monotonic() - start:.3f}")
END
tc -n r qdisc add dev r1 root netem delay 95ms 5ms loss 1% duplicate 1% limit 100000
tc -n r qdisc add dev r0 root netem delay 95ms 5ms loss 1% duplicate 1% limit 100000
b python3 receive.py > received & receiver=$!
ready 7000
"#;

/// Passes data, and compares the checksums. Returns the time in the stack, in seconds.
#[track_caller]
fn transfer(user: User, bytes: u64, seed: u64) -> f64 {
    let folder = Folder::new();
    let text = format!(
        "{PROGRAMS}a python3 send.py {bytes} {seed} > sent\nwait $receiver\ncat received sent"
    );
    let text = chain::script(chain::CHAIN, Time::Virtual, &folder, &text);
    let (printed, status) = script_with(user, &["--seed", &seed.to_string()], &text);
    assert_eq!(status, 0, "seed {seed}: {printed}");
    let lines: Vec<&str> = printed.lines().collect();
    let [received, sent, time] = lines[..] else {
        panic!("seed {seed}: {printed}");
    };
    assert!(
        received.starts_with(&format!("{bytes} ")),
        "seed {seed}: {printed}"
    );
    assert_eq!(received, sent, "seed {seed}");
    time.parse().unwrap()
}

#[test]
fn data_arrive_over_a_bad_path() {
    if !has("python3", "python3") {
        return;
    }
    let user = ordinary_user();
    let times: Vec<f64> = (1..=4)
        .map(|seed| transfer(user, 1_000_000, seed))
        .collect();
    // At least the handshake, the data and the end: a round trip of 190 ms each.
    assert!(times.iter().all(|time| *time > 0.6), "{times:?}");
    // Other packets are lost, so the times differ.
    assert!(times.windows(2).all(|pair| pair[0] != pair[1]), "{times:?}");
    assert_eq!(transfer(user, 1_000_000, 4), times[3]);
}

#[test]
#[ignore = "takes hours"]
fn a_gigabyte_for_fifty_seeds() {
    let text = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.into());
    let bytes = text("WEIR_TRANSFER_BYTES", "1000000000").parse().unwrap();
    let seeds = text("WEIR_TRANSFER_SEEDS", "1-50");
    let (first, last) = seeds.split_once('-').expect("FIRST-LAST");
    for seed in first.parse::<u64>().unwrap()..=last.parse().unwrap() {
        let start = Instant::now();
        let time = transfer(ordinary_user(), bytes, seed);
        println!(
            "seed {seed}: {bytes} bytes in {time:.0} s of the stack's time, {:.1} s of the machine's",
            start.elapsed().as_secs_f64()
        );
    }
}
