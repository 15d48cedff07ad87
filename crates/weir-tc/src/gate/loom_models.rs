// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Model: no packet stays behind a stopped queue while the device has room.

use std::sync::Arc;

use loom::thread;
use weir_sync::primitive::atomic::{AtomicUsize, Ordering};

use super::*;

/// Puts up to `wanted` packets into a ring with one slot, as far as there is room.
fn put(held: &AtomicUsize, wanted: usize) -> usize {
    (0..wanted)
        .take_while(|_| {
            held.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        })
        .count()
}

#[test]
fn room_is_seen_by_one_side_or_the_other() {
    weir_sync::models::check(3, || {
        let gate = Arc::new(Gate::default());
        let held = Arc::new(AtomicUsize::new(1));
        let device = {
            let (gate, held) = (gate.clone(), held.clone());
            thread::spawn(move || {
                held.store(0, Ordering::Release);
                gate.wake()
            })
        };
        let taken = gate.pass(1, |gone| put(&held, 1 - gone));
        let woken = device.join().unwrap();
        assert!(taken == 1 || woken, "the ring has room and no side saw it");
        assert!(gate.room(false).is_some(), "the gate stays closed");
    });
}
