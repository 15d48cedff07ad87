// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Deficit round robin over classes that have packets: what `drr` and `ets` share.

use std::collections::VecDeque;

use weir_packet::Packet;

use super::idle::{self, Turn};
use super::{Leaf, Load, QueueCx};

/// A class's part in the rounds.
pub struct Share {
    /// What waits in it.
    pub leaf: Leaf,
    /// Octets a turn.
    pub quantum: u32,
    /// Octets it may still send in this turn.
    pub deficit: u32,
    /// It has packets, and takes turns.
    active: bool,
}

impl Share {
    /// A class without packets.
    pub fn new(leaf: Leaf, quantum: u32) -> Self {
        Self {
            leaf,
            quantum,
            deficit: 0,
            active: false,
        }
    }
}

/// Classes by number.
pub trait Shares {
    /// A class's part.
    fn share(&mut self, number: u32) -> Option<&mut Share>;
}

/// Classes with packets, in turn.
#[derive(Debug, Default)]
pub struct Rounds(VecDeque<u32>);

impl Rounds {
    /// A class has packets: it comes last, with `deficit` octets, unless it takes turns already.
    pub fn activate(&mut self, number: u32, share: &mut Share, deficit: u32) {
        if !std::mem::replace(&mut share.active, true) {
            share.deficit = deficit;
            self.0.push_back(number);
        }
    }

    /// A class has none any more.
    pub fn deactivate(&mut self, number: u32, shares: &mut impl Shares) {
        if let Some(share) = shares.share(number)
            && std::mem::take(&mut share.active)
        {
            self.0.retain(|&other| other != number);
        }
    }

    /// Nothing waits anywhere.
    pub fn clear(&mut self, shares: &mut impl Shares) {
        for number in self.0.drain(..) {
            if let Some(share) = shares.share(number) {
                share.active = false;
            }
        }
    }

    /// Goes through the rounds at once in which no class may send.
    #[cold]
    fn skip_idle(&self, shares: &mut impl Shares, q: &mut QueueCx<'_, '_, '_>, total: &mut Load) {
        let mut turn = |number: &u32| {
            let share = shares.share(*number);
            let missing = share.and_then(|share| {
                let len = share.leaf.peek(q, total)?;
                Some((i64::from(len) - i64::from(share.deficit), share.quantum))
            });
            // Who has nothing to send ends its turn.
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

    /// The next packet, and the class it comes from.
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
                    // Its queue holds packets back: nobody else gets a turn, as in Linux.
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
