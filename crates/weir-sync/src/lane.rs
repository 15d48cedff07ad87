// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lanes spread concurrent threads over separate cache lines.
//!
//! A thread that begins a run of requests takes the lowest free lane ([`Lanes::enter`]) and leaves
//! it at the end. Data that exists once per lane, or that can be taken from several places, is then
//! picked by the thread's lane ([`lane`]). A single thread, or one that never entered, is in lane
//! 0, so its behaviour is reproducible.

use crate::primitive::atomic::{AtomicU32, Ordering::Relaxed};
use std::cell::Cell;
use std::marker::PhantomData;

/// The number of lanes. Further threads share lane 0.
pub const LANES: usize = 4;

thread_local! {
    static LANE: Cell<usize> = const { Cell::new(0) };
}

/// Returns the lane of the calling thread.
#[inline]
pub fn lane() -> usize {
    LANE.get()
}

/// One bit for each occupied lane. The bits order no memory accesses; they only keep threads apart.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Lanes(AtomicU32);

impl Lanes {
    /// Puts the calling thread into the lowest free lane until the returned guard is dropped.
    pub fn enter(&self) -> Entered<'_> {
        let free = |taken: u32| (!taken).trailing_zeros();
        let next = |taken: u32| (free(taken) < LANES as u32).then(|| taken | 1 << free(taken));
        let taken = self.0.fetch_update(Relaxed, Relaxed, next);
        let bit = taken.map_or(0, |taken| 1 << free(taken));
        Entered {
            lanes: self,
            bit,
            before: LANE.replace(taken.map_or(0, free) as usize),
            here: PhantomData,
        }
    }
}

/// Keeps the calling thread in a lane.
#[derive(Debug)]
#[must_use]
pub struct Entered<'a> {
    lanes: &'a Lanes,
    /// The lane's bit, or 0 for a shared lane.
    bit: u32,
    before: usize,
    /// Keeps the guard on its thread: makes it neither `Send` nor `Sync`.
    here: PhantomData<*const ()>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        LANE.set(self.before);
        if self.bit != 0 {
            self.lanes.0.fetch_and(!self.bit, Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_lane_is_taken() {
        let lanes = Lanes::default();
        assert_eq!(lane(), 0);
        let first = lanes.enter();
        let (taken, entered) = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _second = lanes.enter();
                let entered: Vec<_> = std::iter::repeat_with(|| {
                    let guard = lanes.enter();
                    (lane(), guard)
                })
                .take(LANES)
                .collect();
                (
                    lanes.0.load(Relaxed),
                    entered.iter().map(|(lane, _)| *lane).collect::<Vec<_>>(),
                )
            });
            thread.join().unwrap()
        });
        assert_eq!(taken, (1 << LANES) - 1);
        assert_eq!(entered, [2, 3, 0, 0]);
        assert_eq!(lanes.0.load(Relaxed), 1);
        let second = lanes.enter();
        assert_eq!(lane(), 1);
        drop(second);
        assert_eq!(lane(), 0);
        drop(first);
        assert_eq!(lanes.0.load(Relaxed), 0);
    }
}
