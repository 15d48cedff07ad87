// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Deficit round robin over the classes that have packets, shared by `drr` and `ets`.

use std::collections::VecDeque;

use weir_packet::Packet;

use super::idle::{self, Turn};
use super::{Leaf, Load, QueueCx};

/// The round-robin state of a class.
pub struct Share {
    /// The qdisc that holds its packets.
    pub leaf: Leaf,
    /// Bytes per turn.
    pub quantum: u32,
    /// Bytes it may still send in this turn.
    pub deficit: u32,
    /// Whether it has packets and takes turns.
    active: bool,
}

impl Share {
    /// Makes a class without packets.
    pub fn new(leaf: Leaf, quantum: u32) -> Self {
        Self {
            leaf,
            quantum,
            deficit: 0,
            active: false,
        }
    }
}

/// Access to classes by number.
pub trait Shares {
    /// Returns the round-robin state of a class.
    fn share(&mut self, number: u32) -> Option<&mut Share>;
}

/// The classes with packets, in the order of their turns.
#[derive(Debug, Default)]
pub struct Rounds(VecDeque<u32>);

impl Rounds {
    /// Adds a class that now has packets at the end of the round, with `deficit` bytes. Does
    /// nothing if the class takes turns already.
    pub fn activate(&mut self, number: u32, share: &mut Share, deficit: u32) {
        if !std::mem::replace(&mut share.active, true) {
            share.deficit = deficit;
            self.0.push_back(number);
        }
    }

    /// Removes a class that has no packets any more.
    pub fn deactivate(&mut self, number: u32, shares: &mut impl Shares) {
        if let Some(share) = shares.share(number)
            && std::mem::take(&mut share.active)
        {
            self.0.retain(|&other| other != number);
        }
    }

    /// Removes all classes because nothing waits any more.
    pub fn clear(&mut self, shares: &mut impl Shares) {
        for number in self.0.drain(..) {
            if let Some(share) = shares.share(number) {
                share.active = false;
            }
        }
    }

    /// Skips the rounds in which no class may send.
    #[cold]
    fn skip_idle(&self, shares: &mut impl Shares, q: &mut QueueCx<'_, '_, '_>, total: &mut Load) {
        let mut turn = |number: &u32| {
            let share = shares.share(*number);
            let missing = share.and_then(|share| {
                let len = share.leaf.peek(q, total)?;
                Some((i64::from(len) - i64::from(share.deficit), share.quantum))
            });
            // A class that has nothing to send ends its turn.
            let (missing, quantum) = missing.unwrap_or((0, 1));
            Turn {
                missing,
                quantum: quantum.into(),
            }
        };
        let rounds = idle::rounds(self.0.iter().map(&mut turn));
        for number in &self.0 {
            if let Some(share) = shares.share(*number) {
                let more = i64::from(share.quantum) * rounds;
                share.deficit = share.deficit.wrapping_add(more as u32);
            }
        }
    }

    /// Dequeues the next packet. Returns it with the number of its class.
    pub fn dequeue(
        &mut self,
        shares: &mut impl Shares,
        q: &mut QueueCx<'_, '_, '_>,
        total: &mut Load,
    ) -> Option<(u32, Packet)> {
        let mut refilled = 0;
        loop {
            let number = *self.0.front()?;
            let share = shares.share(number)?;
            let Some(len) = share.leaf.peek(q, total) else {
                if share.leaf.load().len > 0 {
                    // Its queue holds packets back. No other class gets a turn, as in Linux.
                    return None;
                }
                share.active = false;
                self.0.pop_front();
                continue;
            };
            if len > share.deficit {
                share.deficit = share.deficit.wrapping_add(share.quantum);
                self.0.rotate_left(1);
                refilled += 1;
                if refilled > self.0.len() {
                    self.skip_idle(shares, q, total);
                    refilled = 0;
                }
                continue;
            }
            share.deficit = share.deficit.wrapping_sub(len);
            let (packet, left) = share.leaf.dequeue(q, total);
            if left.len == 0 {
                share.active = false;
                self.0.pop_front();
            }
            return packet.map(|packet| (number, packet));
        }
    }
}
