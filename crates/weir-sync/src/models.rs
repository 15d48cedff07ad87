// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Helpers shared by the loom models.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use loom::cell::UnsafeCell;

/// Explores every interleaving of `model` with up to `preemptions` preemptions.
///
/// # Panics
/// If there is only one: a model whose threads do not meet shows nothing.
pub fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 50_000;
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        model();
    });
    assert!(runs.load(Relaxed) > 1, "the model has one interleaving");
}

/// A value whose reads, writes and drop loom tracks. Loom reports a race if a drop does not happen
/// after every read.
#[derive(Debug)]
pub struct Tracked(UnsafeCell<usize>);

// SAFETY: loom checks each access against all others.
unsafe impl Sync for Tracked {}

impl Tracked {
    /// Creates a value.
    pub fn new(value: usize) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Reads the value.
    pub fn read(&self) -> usize {
        // SAFETY: loom reports a concurrent writer.
        self.0.with(|value| unsafe { *value })
    }

    /// Changes the value.
    pub fn write(&self, to: usize) {
        // SAFETY: loom reports a concurrent access.
        self.0.with_mut(|value| unsafe { *value = to });
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.write(usize::MAX);
    }
}
