// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The timer that removes expired connections, in small steps (`gc_worker`).
//!
//! It is armed while a namespace has connections. Small tables are looked through once a second. Of larger ones it
//! takes a part ten times a second, such that each entry is seen every 16 seconds. A look-up that finds an expired
//! connection removes it at once.

use std::sync::{Arc, Weak};

use weir_conntrack::Conntrack;

use crate::clock::Holds;
use crate::cpu::Cx;
use crate::stack::Stack;

/// The interval in a small table, in nanoseconds.
const LONG: u64 = 1_000_000_000;
/// The interval in a large one.
const SHORT: u64 = 100_000_000;
/// The most entries of a small table.
const SMALL: u32 = 16_384;

/// Arms the timer of a table that has connections, if it is not armed. Called after connections were made.
#[inline]
pub fn watch(stack: &Stack, conntrack: &Arc<Conntrack>, now: u64) {
    if conntrack.count() > 0 && conntrack.start_collecting() {
        arm(stack, Arc::downgrade(conntrack), now + LONG);
    }
}

#[cold]
fn arm(stack: &Stack, table: Weak<Conntrack>, time: u64) {
    let job = move |cx: &mut Cx<'_>| {
        let Some(conntrack) = table.upgrade() else {
            return;
        };
        let large = conntrack.entries() > SMALL;
        let part = if large {
            conntrack.entries() / 160
        } else {
            SMALL
        };
        conntrack.collect(cx.now, part);
        if conntrack.count() == 0 {
            conntrack.stop_collecting();
            // Another CPU may have made a connection meanwhile and relied on this timer.
            watch(cx.stack, &conntrack, cx.now);
        } else {
            arm(cx.stack, table, cx.now + if large { SHORT } else { LONG });
        }
    };
    stack.arm(time, Holds::Nothing, Box::new(job));
}
