// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The example `load-balancer`: the flow memory moves the flows of backends that left and no others,
//! and hashing alone moves more.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

#[path = "../../../examples/load-balancer/main.rs"]
#[allow(dead_code, reason = "nothing is printed here")]
mod load_balancer;

#[test]
fn flows_are_kept_while_backends_come_and_go() {
    let outcome = load_balancer::run().unwrap();
    assert_eq!((outcome.packets, outcome.wrong), (400_000, 0));
    assert!(outcome.flows > 18_000, "{}", outcome.flows);
    let homeless: Vec<u32> = outcome.moves.iter().map(|moves| moves.homeless).collect();
    // Only the failure of a backend leaves flows without one; draining one does not.
    assert!(homeless[1] > 0 && homeless.iter().sum::<u32>() == homeless[1]);
    for moves in &outcome.moves[1..] {
        let [memory, maglev, modulo] = moves.moved;
        assert!(moves.known > 5_000);
        assert_eq!(memory, moves.homeless);
        assert!(memory <= maglev && 2 * maglev < modulo, "{maglev} {modulo}");
    }
    // Ten equal backends get about a tenth each.
    let first = &outcome.shares[0];
    let all: u32 = first.values().sum();
    assert_eq!(first.len(), 10);
    assert!(
        first
            .values()
            .all(|share| (all / 20..all / 5).contains(share))
    );
}
