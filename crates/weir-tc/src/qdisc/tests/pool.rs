// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Randomly makes, changes, replaces, grafts and deletes qdiscs and classes while packets arrive
//! and leave. Each packet waits below the root or is back in the pool.

use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::nlm;

use super::{Arrival, Draws, Line};
use crate::testing::vectors;

/// Returns the requests of the recorded commands with any of these prefixes.
fn requests(prefixes: &[&str]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for recording in [
        include_str!("../../../tests/vectors/qdisc.vec"),
        include_str!("../../../tests/vectors/exact.vec"),
        include_str!("../../../tests/vectors/stab.vec"),
        include_str!("../../../tests/vectors/estimator.vec"),
        include_str!("../../../tests/vectors/control.vec"),
        include_str!("../../../tests/vectors/storm.vec"),
    ] {
        for (command, datagrams) in vectors(recording) {
            if prefixes.iter().any(|prefix| command.starts_with(prefix)) {
                found.extend(datagrams);
            }
        }
    }
    assert!(!found.is_empty(), "{prefixes:?}");
    found
}

/// Returns a request with other flags.
fn with_flags(request: &[u8], flags: u16) -> Vec<u8> {
    let mut request = request.to_vec();
    request[6..8].copy_from_slice(&(nlm::F_REQUEST | nlm::F_ACK | flags).to_ne_bytes());
    request
}

const CHANGE: u16 = 0;
const REPLACE: u16 = nlm::F_CREATE | nlm::F_REPLACE;
const ADD: u16 = nlm::F_CREATE | nlm::F_EXCL;

/// Number of successful requests of each kind.
#[derive(Debug, Default)]
struct Succeeded {
    roots: usize,
    children: usize,
    changes: usize,
    classes: usize,
    deleted: usize,
}

fn storm(seed: u64, steps: usize, succeeded: &mut Succeeded) {
    let roots = requests(&["tc qdisc add dev d0 root"]);
    let children = requests(&["tc qdisc add dev d0 parent"]);
    let classes = requests(&["tc class add dev d0"]);
    let deletions = requests(&["tc class del dev d0", "tc qdisc del dev d0"]);
    let mut draws = Draws(seed);
    let mut line = Line::new(&[]);
    let mut time = line.now();
    let pick = |draws: &mut Draws, of: &[Vec<u8>], flags: Option<u16>| {
        let request = &of[draws.below(of.len() as u64) as usize];
        flags.map_or(request.clone(), |flags| with_flags(request, flags))
    };
    for step in 0..steps {
        let (request, count) = match draws.below(12) {
            0 => (
                pick(&mut draws, &roots, Some(REPLACE)),
                &mut succeeded.roots,
            ),
            1 | 2 => {
                let flags = [REPLACE, ADD][draws.below(2) as usize];
                let request = pick(&mut draws, &children, Some(flags));
                (request, &mut succeeded.children)
            }
            3 => (
                pick(&mut draws, &roots, Some(CHANGE)),
                &mut succeeded.changes,
            ),
            4 => {
                let request = pick(&mut draws, &children, Some(CHANGE));
                (request, &mut succeeded.changes)
            }
            5..=7 => {
                let flags = [REPLACE, ADD][draws.below(2) as usize];
                let request = pick(&mut draws, &classes, Some(flags));
                (request, &mut succeeded.classes)
            }
            8 => (pick(&mut draws, &deletions, None), &mut succeeded.deleted),
            _ => {
                let major = [0, 0x1_0000, 0x10_0000][draws.below(3) as usize];
                let minor = [1, 2, 3, 4, 0x11, 0x12, 0x13][draws.below(7) as usize];
                let arrival = Arrival {
                    time,
                    len: 60 + draws.below(1400) as usize,
                    flow: draws.below(600) as u16,
                    priority: major | minor,
                };
                let mut arrived = Vec::new();
                for _ in 0..draws.below(40) {
                    let mut packet = line.packet(0, &arrival);
                    packet.set_departure(Some(time + draws.below(3_000_000)));
                    arrived.push(packet);
                }
                time += [0, draws.below(2_000_000), draws.below(1_000_000_000)]
                    [draws.below(3) as usize];
                line.stack.now.store(time, Relaxed);
                line.visit(arrived);
                (Vec::new(), &mut succeeded.deleted)
            }
        };
        if !request.is_empty() && line.stack.request(&request).is_ok() {
            *count += 1;
        }
        let stats = line.stack.pool.stats();
        let used = stats.frames - stats.frames_free + stats.jumbos - stats.jumbos_free;
        let waiting = line.root().2.qlen;
        assert_eq!(
            used as u32,
            waiting,
            "seed {seed}, step {step}: {:?}",
            line.stack.devices[&3].tc.tree().root
        );
    }
}

#[test]
fn every_packet_waits_or_is_in_the_pool() {
    let mut succeeded = Succeeded::default();
    for seed in 1..=40 {
        storm(seed, 500, &mut succeeded);
    }
    let least = [
        succeeded.roots,
        succeeded.children,
        succeeded.changes,
        succeeded.classes,
        succeeded.deleted,
    ];
    assert!(least.iter().all(|&count| count > 50), "{succeeded:?}");
}
