// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A word that says which owners may have something in a table, so that an event of an owner without anything takes no
//! lock.
//!
//! Whoever adds something calls [`Seen::note`], adds it, calls [`Seen::added`], and then looks whether the owner's state
//! still permits it. An event changes the owner's state and then calls [`Seen::may_have`]. Both sides write first and read
//! second, with a full fence between (Dekker), so one of the two sees the other.

use crate::primitive::atomic::{AtomicU64, Ordering, fence};

/// See the module. Owners are numbers; those that differ by a multiple of 64 share a bit.
#[derive(Debug)]
pub struct Seen(AtomicU64);

impl Default for Seen {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Seen {
    fn bit(owner: u32) -> u64 {
        1 << (owner % u64::BITS)
    }

    /// Notes that an owner may have something.
    #[inline]
    pub fn note(&self, owner: u32) {
        self.add(Self::bit(owner));
    }

    /// Notes that any owner may have something.
    #[inline]
    pub fn note_all(&self) {
        self.add(u64::MAX);
    }

    #[inline]
    fn add(&self, bits: u64) {
        if self.0.load(Ordering::Relaxed) & bits != bits {
            self.0.fetch_or(bits, Ordering::Relaxed);
        }
    }

    /// Something was noted and added. The caller looks at its owner's state next: an event that does not find what was added
    /// has changed the state before.
    #[inline]
    pub fn added(&self) {
        fence(Ordering::SeqCst);
    }

    /// Returns whether an owner may have something. The caller has changed the owner's state.
    #[inline]
    pub fn may_have(&self, owner: u32) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) & Self::bit(owner) != 0
    }

    /// Forgets all notes. The caller keeps others from adding.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::models::check;
    use crate::primitive::Arc;
    use crate::primitive::atomic::AtomicBool;
    use crate::primitive::thread;

    /// What is added while its owner goes away is found by the event, or the adder sees that the owner is away.
    #[test]
    fn one_of_the_two_sees_the_other() {
        for noted_before in [false, true] {
            check(3, move || {
                let shared = Arc::new((Seen::default(), AtomicBool::new(true)));
                if noted_before {
                    shared.0.note(3 + u64::BITS);
                }
                let other = shared.clone();
                let adder = thread::spawn(move || {
                    let (seen, is_up) = &*other;
                    seen.note(3);
                    seen.added();
                    !is_up.load(Ordering::Relaxed)
                });
                let (seen, is_up) = &*shared;
                is_up.store(false, Ordering::Relaxed);
                let found = seen.may_have(3);
                let swept = adder.join().unwrap();
                assert!(found || swept);
            });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::primitive::atomic::AtomicBool;

    #[test]
    fn owners_are_noted_by_their_bits() {
        let seen = Seen::default();
        assert!((0..u64::BITS).all(|owner| !seen.may_have(owner)));
        seen.note(3);
        let found = (0..2 * u64::BITS).filter(|owner| seen.may_have(*owner));
        assert_eq!(found.collect::<Vec<_>>(), [3, 3 + u64::BITS]);
        seen.note_all();
        assert!((0..u64::BITS).all(|owner| seen.may_have(owner)));
        seen.clear();
        assert!((0..u64::BITS).all(|owner| !seen.may_have(owner)));
    }

    #[test]
    fn stress_one_of_the_two_sees_the_other() {
        for owner in 0..5_000 {
            let (seen, is_up) = (Seen::default(), AtomicBool::new(true));
            let start = std::sync::Barrier::new(2);
            let (found, swept) = std::thread::scope(|scope| {
                let adder = scope.spawn(|| {
                    start.wait();
                    seen.note(owner);
                    seen.added();
                    !is_up.load(Ordering::Relaxed)
                });
                start.wait();
                is_up.store(false, Ordering::Relaxed);
                let found = seen.may_have(owner);
                (found, adder.join().expect("the adder ends"))
            });
            assert!(found || swept);
        }
    }
}
