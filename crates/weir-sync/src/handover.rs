// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hand-over of work to another CPU, and the places of flows that may move between CPUs.
//!
//! A [`Handover`] is the input queue of one CPU, its *owner*: any thread pushes, and the owner takes
//! everything at once. A push is one compare-and-swap for a whole batch, and only the push that finds
//! the queue empty has to wake the owner.
//!
//! The owner works in *rounds*. [`Handover::take`] begins a round, and [`Handover::finish`] says that
//! all work of the rounds so far has left the CPU. A thread that has pushed asks for a *ticket*, the
//! number of the round that takes its push at the latest. Once that round is finished
//! ([`Handover::is_done`]), nothing that the thread pushed before waits on the CPU any more. The owner
//! writes the number of the round before it takes the list, and a producer reads the number after it has
//! pushed, each with a full fence between. So a producer that reads an old number has pushed before the
//! next take.
//!
//! [`Flows`] uses tickets to keep the order of packets within a flow while flows move. It is Linux's rule
//! for receive flow steering (`get_rps_cpu`): a flow moves to another CPU only when its old CPU has no
//! packet of it left. A flow is a place in a table. While a flow stays, its place is only read. A flow
//! that should move stays on its CPU for the first packet. The place counts the packets on their way to
//! that CPU, and after the push it has a ticket. Each packet that follows either finds that the count is
//! 0 and the ticket is done, and moves the flow, or goes the same way.
//!
//! Several threads may steer flows of the same place at once. A thread that found that its flow stays
//! leaves no mark. So the caller, when it changes where flows belong, waits for a grace period in which
//! every thread learns of it. Then it takes a ticket of each CPU, and lets flows move only when that
//! ticket is done as well.

use crate::list::{Entry, LocklessList, Taken};
use crate::primitive::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::primitive::full_fence;

/// The input queue of a CPU. See the module documentation.
#[derive(Debug)]
pub struct Handover<T> {
    list: LocklessList<Entry<T>>,
    /// The packets that wait, by the count of [`Handover::reserve`].
    waiting: AtomicU32,
    /// The number of rounds begun. Only the owner writes it.
    round: AtomicU64,
    /// The number of rounds finished. Only the owner writes it.
    done: AtomicU64,
}

impl<T> Default for Handover<T> {
    fn default() -> Self {
        Self {
            list: LocklessList::new(),
            waiting: AtomicU32::new(0),
            round: AtomicU64::new(0),
            done: AtomicU64::new(0),
        }
    }
}

impl<T> Handover<T> {
    /// Returns the number of packets that wait.
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Reserves room for up to `count` packets, if no more than `limit` packets wait in front of each of
    /// them. Returns the number of packets there is room for. The owner returns the room by
    /// [`Handover::release`].
    pub fn reserve(&self, count: u32, limit: u32) -> u32 {
        let before = self.waiting.fetch_add(count, Ordering::Relaxed);
        let room = limit.saturating_add(1).saturating_sub(before).min(count);
        if room < count {
            self.waiting.fetch_sub(count - room, Ordering::Relaxed);
        }
        room
    }

    /// Returns room that was reserved.
    pub fn release(&self, count: u32) {
        self.waiting.fetch_sub(count, Ordering::Relaxed);
    }

    /// Pushes work. Returns true if the queue was empty: the caller must then wake the owner.
    pub fn push(&self, work: Entry<T>) -> bool {
        self.list.push(work)
    }

    /// Returns the ticket of what this thread has pushed. Called right after a push, or by the owner.
    pub fn ticket(&self) -> u64 {
        full_fence();
        self.round.load(Ordering::Relaxed) + 1
    }

    /// Returns whether the round of a ticket is finished. What it took has then left the CPU, and the
    /// caller sees what the owner wrote before.
    pub fn is_done(&self, ticket: u64) -> bool {
        // A place keeps the low bits of a ticket. An old ticket may look as if it were to come; then its
        // flow gets another.
        let since = self.done.load(Ordering::Acquire).wrapping_sub(ticket);
        since & TICKETS <= TICKETS / 2
    }

    /// Returns whether nothing waits to be taken.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns whether everything that the caller has pushed, or has seen others push, has left the CPU.
    pub fn is_idle(&self) -> bool {
        // In this order: a take between the first two reads leaves a round that is not finished.
        full_load(&self.list) && {
            let round = self.round.load(Ordering::Acquire);
            self.done.load(Ordering::Acquire) >= round
        }
    }

    /// Takes all that waits, oldest first, and begins a round if there is any. Only the owner calls it.
    #[inline]
    pub fn take(&self) -> Taken<Entry<T>> {
        match self.list.is_empty() {
            true => Taken::default(),
            false => self.begin(),
        }
    }

    /// Begins a round, even if nothing waits: the owner has a ticket for work that it did not push. Only the
    /// owner calls it.
    pub fn begin(&self) -> Taken<Entry<T>> {
        self.round.fetch_add(1, Ordering::AcqRel);
        full_fence();
        self.list.take_all()
    }

    /// Returns whether nothing waits to be taken and all rounds are finished. Only the owner calls it.
    #[inline]
    pub fn is_finished(&self) -> bool {
        self.list.is_empty()
            && self.done.load(Ordering::Relaxed) == self.round.load(Ordering::Relaxed)
    }

    /// Says that all work of the rounds so far has left the CPU. Only the owner calls it.
    #[inline]
    pub fn finish(&self) {
        let round = self.round.load(Ordering::Relaxed);
        if self.done.load(Ordering::Relaxed) != round {
            self.done.store(round, Ordering::Release);
        }
    }
}

/// Returns whether the list is empty, reading it before anything that follows.
fn full_load<T>(list: &LocklessList<Entry<T>>) -> bool {
    let empty = list.is_empty();
    crate::primitive::atomic::fence(Ordering::SeqCst);
    empty
}

/// The bits of a place: the CPU plus 1, or 0 for a flow that has no CPU.
const CPU: u64 = (1 << 9) - 1;
/// The number of packets on their way to the CPU while the flow is to move.
const COUNT: u64 = ((1 << 15) - 1) << 9;
const ONE: u64 = 1 << 9;
/// The ticket of those that were pushed, or 0.
const TICKET: u32 = 24;
const TICKETS: u64 = u64::MAX >> TICKET;

/// Returns the place of a flow that stays on a CPU, or that has none.
#[inline]
fn settled(cpu: Option<usize>) -> u64 {
    cpu.map_or(0, |cpu| (cpu as u64 + 1) & CPU)
}

/// Returns the later of two tickets, either of which may be 0 for none. Tickets wrap around.
fn later(one: u64, other: u64) -> u64 {
    if one == 0 || other.wrapping_sub(one) & TICKETS <= TICKETS / 2 {
        other
    } else {
        one
    }
}

/// The way of a packet, as [`Flows::route`] decides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The CPU. `None` is the CPU that received the packet.
    pub cpu: Option<usize>,
    /// After the push the caller must call [`Flows::pushed`].
    pub moving: bool,
}

/// The CPUs of flows. See the module documentation.
#[derive(Debug)]
pub struct Flows {
    /// The shift that makes a place of a hash.
    shift: u32,
    places: Box<[AtomicU64]>,
}

impl Flows {
    /// Makes a table of 2 to the power of `bits` places, with `bits` from 1 to 31.
    pub fn new(bits: u32) -> Self {
        let bits = bits.clamp(1, 31);
        Self {
            shift: u32::BITS - bits,
            places: (0..1_u32 << bits).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Returns the number of places.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns false: a table has places.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the place of a flow with this hash.
    #[inline]
    pub fn place(&self, hash: u32) -> usize {
        (hash >> self.shift) as usize
    }

    /// Returns a table of more places in which each flow is on the CPU where it was. A place that moves
    /// begins anew. The table must not change meanwhile.
    pub fn grown(&self, bits: u32) -> Self {
        let grown = Self::new(bits.max(u32::BITS - self.shift));
        let by = self.shift - grown.shift;
        for (place, entry) in grown.places.iter().enumerate() {
            let before = self.places[place >> by].load(Ordering::Relaxed);
            entry.store(before & CPU, Ordering::Relaxed);
        }
        grown
    }

    /// Returns whether a flow is on a CPU and stays there, or has none and stays without. Most packets
    /// ask only this.
    #[inline]
    pub fn stays(&self, place: usize, cpu: Option<usize>) -> bool {
        let entry = self.places.get(place);
        entry.is_none_or(|entry| entry.load(Ordering::Relaxed) == settled(cpu))
    }

    /// Decides where a packet goes whose flow belongs on the CPU `wanted`, or on whichever CPU receives
    /// it. `now` is the CPU that a flow without a CPU may still have packets on, if any. `done` says
    /// whether a ticket of a CPU is done and flows may move.
    #[cold]
    pub fn route(
        &self,
        place: usize,
        wanted: Option<usize>,
        now: Option<usize>,
        done: impl Fn(usize, u64) -> bool,
    ) -> Route {
        let Some(entry) = self.places.get(place) else {
            let (cpu, moving) = (wanted, false);
            return Route { cpu, moving };
        };
        let mut before = entry.load(Ordering::Acquire);
        loop {
            let old = (before & CPU).checked_sub(1).map(|cpu| cpu as usize);
            let (idle, ticket) = (before & COUNT == 0, before >> TICKET);
            let leaves = match old {
                _ if !idle => false,
                Some(old) if Some(old) != wanted => ticket != 0 && done(old, ticket),
                Some(_) => true,
                None => now.is_none() || now == wanted,
            };
            let (cpu, after) = match leaves {
                true => (wanted, settled(wanted)),
                false => {
                    let cpu = old.or(now);
                    (cpu, settled(cpu) | before & !CPU)
                }
            };
            let after = if leaves { after } else { after + ONE };
            let change = entry.compare_exchange(before, after, Ordering::AcqRel, Ordering::Acquire);
            match change {
                Ok(_) => {
                    let moving = !leaves;
                    return Route { cpu, moving };
                }
                Err(now) => before = now,
            }
        }
    }

    /// Says that a packet of a moving flow has been pushed to its CPU, whose ticket is `ticket`. Called
    /// once for each such packet.
    #[cold]
    pub fn pushed(&self, place: usize, ticket: u64) {
        let Some(entry) = self.places.get(place) else {
            return;
        };
        let ticket = (ticket & TICKETS).max(1);
        let done = |before: u64| {
            let ticket = later(before >> TICKET, ticket);
            debug_assert!(before & COUNT != 0, "a packet was pushed twice");
            Some((ticket << TICKET) | ((before & (COUNT | CPU)) - ONE))
        };
        // It never refuses.
        let _ = entry.fetch_update(Ordering::AcqRel, Ordering::Acquire, done);
    }
}

#[cfg(all(test, loom))]
mod loom_models;
#[cfg(all(test, not(loom)))]
mod tests;
