// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls of maps of any kind, against a model ([`weir_map::model::check`]).
//!
//! Invariants: each result is the model's; a map that evicts may have lost entries, but never gives a
//! wrong value and never holds more than it may; with exact LRU it has lost the oldest ones. Keys and
//! values of wrong lengths are refused.

/// Runs the target.
pub fn run(bytes: &[u8]) {
    if let Err(difference) = weir_map::model::check(bytes) {
        panic!("{difference}");
    }
}
