// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Helpers shared by the loom models.

use loom::cell::UnsafeCell;

/// Explores every interleaving of `model` with up to `preemptions` preemptions.
pub(crate) fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(model);
}

/// A value whose reads, writes and drop loom tracks. Loom reports a race if a drop does not happen
/// after every read.
pub(crate) struct Tracked(UnsafeCell<usize>);

// SAFETY: loom checks each access against all others.
unsafe impl Sync for Tracked {}

impl Tracked {
    pub(crate) fn new(value: usize) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub(crate) fn read(&self) -> usize {
        // SAFETY: loom reports a concurrent writer.
        self.0.with(|value| unsafe { *value })
    }

    pub(crate) fn write(&self, to: usize) {
        // SAFETY: loom reports a concurrent access.
        self.0.with_mut(|value| unsafe { *value = to });
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.write(usize::MAX);
    }
}
