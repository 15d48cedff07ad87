// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lanes: threads at work beside each other write to different lines where they may choose.
//!
//! A thread that begins a run of requests takes the lowest lane nobody is in ([`Lanes::enter`]) and
//! leaves it at the end. What is kept several times over, or may be taken from several places, is then
//! that of the thread's lane ([`lane`]). A thread that is alone, and one that never entered, is in lane 0:
//! what it does is the same every time.

use crate::primitive::atomic::{AtomicU32, Ordering::Relaxed};
use std::cell::Cell;
use std::marker::PhantomData;

/// Lanes there are; threads beyond share lane 0.
pub const LANES: usize = 4;

thread_local! {
    static LANE: Cell<usize> = const { Cell::new(0) };
}

/// The lane this thread is in.
#[inline]
pub fn lane() -> usize {
    LANE.get()
}

/// Which lanes are taken, a bit each. Nothing is ordered by it: it only keeps threads apart.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Lanes(AtomicU32);

impl Lanes {
    /// Puts this thread into the lowest free lane until what is answered is dropped.
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

/// This thread is in a lane.
#[derive(Debug)]
#[must_use]
pub struct Entered<'a> {
    lanes: &'a Lanes,
    /// 0 for one that is shared.
    bit: u32,
    before: usize,
    /// It belongs to the thread.
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
        let (second, beside) = std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                let _second = lanes.enter();
                let beside: Vec<_> = std::iter::repeat_with(|| {
                    let entered = lanes.enter();
                    (lane(), entered)
                })
                .take(LANES)
                .collect();
                (
                    lanes.0.load(Relaxed),
                    beside.iter().map(|(lane, _)| *lane).collect::<Vec<_>>(),
                )
            });
            there.join().unwrap()
        });
        assert_eq!(second, (1 << LANES) - 1);
        assert_eq!(beside, [2, 3, 0, 0]);
        assert_eq!(lanes.0.load(Relaxed), 1);
        let second = lanes.enter();
        assert_eq!(lane(), 1);
        drop(second);
        assert_eq!(lane(), 0);
        drop(first);
        assert_eq!(lanes.0.load(Relaxed), 0);
    }
}
