// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was sent and is not acknowledged: the scoreboard of SACK, times for RACK, rates for the delivery rate
//! (`tcp_rtx_queue`, `struct tcp_skb_cb`).

use std::collections::VecDeque;

use crate::seq::{after, before};

/// The peer has it, as a SACK block says.
pub const SACKED: u8 = 1;
/// It is deemed lost.
pub const LOST: u8 = 2;
/// It was sent again, and that transmission is under way.
pub const RETRANS: u8 = 4;
/// It was sent again at some time.
pub const EVER_RETRANS: u8 = 8;
/// It contains the SYN.
pub const SYN: u8 = 16;
/// Its last segment has PSH.
pub const PUSHED: u8 = 32;

/// A range of sequence numbers that was sent at once.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// The first sequence number.
    pub seq: u32,
    /// The one after the last.
    pub end: u32,
    /// When it was sent last, in ns.
    pub time: u64,
    /// Packets delivered when it was sent.
    pub delivered: u32,
    /// The segment size when it was sent.
    pub mss: u16,
    /// [`SACKED`] and so on.
    pub flags: u8,
    /// The sender had nothing more to send.
    pub app_limited: bool,
    /// When the newest packet known to be delivered was, in ns.
    pub delivered_time: u64,
    /// When the first packet of the flight was sent, in ns.
    pub first_time: u64,
}

impl Sent {
    /// The number of packets.
    #[inline]
    pub fn packets(&self) -> u32 {
        let len = self.end.wrapping_sub(self.seq);
        let mss = u32::from(self.mss);
        if len <= mss { 1 } else { len.div_ceil(mss) }
    }

    /// Returns whether a flag is set.
    #[inline]
    pub fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The queue, in the order of sequence numbers, with the counters of packets.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    sent: VecDeque<Sent>,
    /// Packets sent and not acknowledged (`packets_out`).
    pub packets: u32,
    /// Packets of them that SACK blocks cover, or duplicate ACKs count without SACK (`sacked_out`).
    pub sacked: u32,
    /// Packets deemed lost (`lost_out`).
    pub lost: u32,
    /// Packets sent again and under way (`retrans_out`).
    pub retrans: u32,
}

impl Queue {
    /// Packets in the network (`tcp_packets_in_flight`).
    #[inline]
    pub fn in_flight(&self) -> u32 {
        (self.packets + self.retrans).saturating_sub(self.sacked + self.lost)
    }

    /// Returns whether nothing is outstanding.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// The number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.sent.len()
    }

    /// An entry.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&Sent> {
        self.sent.get(index)
    }

    /// The oldest entry.
    #[inline]
    pub fn front(&self) -> Option<&Sent> {
        self.sent.front()
    }

    /// The newest entry.
    #[inline]
    pub fn back(&self) -> Option<&Sent> {
        self.sent.back()
    }

    /// The entries in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Sent> {
        self.sent.iter()
    }

    /// Appends what was just sent.
    pub fn push(&mut self, sent: Sent) {
        self.packets += sent.packets();
        self.sent.push_back(sent);
    }

    /// Frees the memory of an empty queue.
    pub fn release(&mut self) {
        if self.sent.is_empty() {
            self.sent = VecDeque::new();
        }
    }

    /// Empties the queue.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn count(&mut self, sent: &Sent, add: bool) {
        let packets = sent.packets();
        let change = |counter: &mut u32, is: bool| {
            if is {
                *counter = if add {
                    *counter + packets
                } else {
                    counter.saturating_sub(packets)
                };
            }
        };
        change(&mut self.packets, true);
        change(&mut self.sacked, sent.is(SACKED));
        change(&mut self.lost, sent.is(LOST));
        change(&mut self.retrans, sent.is(RETRANS));
    }

    /// Sets and clears flags of an entry.
    pub fn mark(&mut self, index: usize, set: u8, clear: u8) {
        let Some(entry) = self.sent.get_mut(index) else {
            return;
        };
        let old = *entry;
        entry.flags = entry.flags & !clear | set;
        let new = *entry;
        if old.flags != new.flags {
            self.count(&old, false);
            self.count(&new, true);
        }
    }

    /// Notes that an entry was sent again.
    pub fn sent_again(&mut self, index: usize, time: u64, stamp: Stamp) {
        self.mark(index, RETRANS | EVER_RETRANS, 0);
        if let Some(entry) = self.sent.get_mut(index) {
            entry.time = time;
            entry.delivered = stamp.delivered;
            entry.delivered_time = stamp.delivered_time;
            entry.first_time = stamp.first_time;
            entry.app_limited = stamp.app_limited;
        }
    }

    /// Splits an entry at a sequence number within it. Returns whether it did.
    pub fn split(&mut self, index: usize, at: u32) -> bool {
        let Some(entry) = self.sent.get_mut(index) else {
            return false;
        };
        if !after(at, entry.seq) || !before(at, entry.end) {
            return false;
        }
        let old = *entry;
        entry.end = at;
        entry.flags &= !PUSHED;
        let first = *entry;
        let second = Sent { seq: at, ..old };
        self.sent.insert(index + 1, second);
        self.count(&old, false);
        self.count(&first, true);
        self.count(&second, true);
        true
    }

    /// Sets the segment size of an entry, as the path's MTU has changed.
    pub fn resize(&mut self, index: usize, mss: u16) {
        let Some(entry) = self.sent.get_mut(index) else {
            return;
        };
        let old = *entry;
        entry.mss = mss;
        let new = *entry;
        self.count(&old, false);
        self.count(&new, true);
    }

    /// Removes the oldest entry.
    pub fn pop(&mut self) -> Option<Sent> {
        let entry = self.sent.pop_front()?;
        self.count(&entry, false);
        Some(entry)
    }

    /// Cuts the front of the oldest entry, up to a sequence number within it. Returns the part cut off.
    pub fn cut(&mut self, at: u32) -> Option<Sent> {
        let entry = self.sent.front_mut()?;
        let old = *entry;
        entry.seq = at;
        entry.flags &= !SYN;
        let new = *entry;
        self.count(&old, false);
        self.count(&new, true);
        Some(Sent { end: at, ..old })
    }

    /// Joins an entry with the one before if both are acknowledged by SACK: long holes cost no long queue.
    pub fn join(&mut self, index: usize) -> bool {
        let Some((&first, &second)) = index
            .checked_sub(1)
            .and_then(|before| Some((self.sent.get(before)?, self.sent.get(index)?)))
        else {
            return false;
        };
        if (first.flags ^ second.flags) & !PUSHED != 0
            || !first.is(SACKED)
            || first.mss != second.mss
            || !first
                .end
                .wrapping_sub(first.seq)
                .is_multiple_of(u32::from(first.mss).max(1))
        {
            return false;
        }
        self.sent.remove(index);
        if let Some(entry) = self.sent.get_mut(index - 1) {
            entry.end = second.end;
            entry.time = entry.time.max(second.time);
            entry.flags |= second.flags & PUSHED;
        }
        true
    }

    /// The index of the first entry that ends after a sequence number.
    pub fn find(&self, seq: u32) -> usize {
        self.sent.partition_point(|entry| !after(entry.end, seq))
    }

    /// Recounts everything and compares: for tests.
    #[cfg(test)]
    pub fn verify(&self, reno: bool) {
        let sum = |flag: u8| {
            self.sent
                .iter()
                .filter(|s| s.flags & flag != 0)
                .map(Sent::packets)
                .sum::<u32>()
        };
        assert_eq!(
            self.packets,
            self.sent.iter().map(Sent::packets).sum::<u32>()
        );
        if !reno {
            assert_eq!(self.sacked, sum(SACKED));
        }
        assert_eq!(self.lost, sum(LOST));
        assert_eq!(self.retrans, sum(RETRANS));
        for (a, b) in self.sent.iter().zip(self.sent.iter().skip(1)) {
            assert_eq!(a.end, b.seq);
        }
    }
}

/// The state of delivery when a packet is sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stamp {
    /// Packets delivered.
    pub delivered: u32,
    /// When the newest of them was.
    pub delivered_time: u64,
    /// When the first packet of the flight was sent.
    pub first_time: u64,
    /// The sender had nothing more to send.
    pub app_limited: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(seq: u32, end: u32) -> Sent {
        Sent {
            seq,
            end,
            time: 0,
            delivered: 0,
            mss: 100,
            flags: 0,
            app_limited: false,
            delivered_time: 0,
            first_time: 0,
        }
    }

    #[test]
    fn counters_follow_splits_marks_and_joins() {
        let mut queue = Queue::default();
        queue.push(entry(u32::MAX - 99, 900));
        queue.push(entry(900, 950));
        assert_eq!(queue.packets, 11);
        assert!(queue.split(0, 200));
        assert!(!queue.split(0, 200));
        queue.mark(0, LOST, 0);
        queue.mark(1, SACKED, 0);
        queue.verify(false);
        assert_eq!((queue.in_flight(), queue.lost, queue.sacked), (1, 3, 7));
        assert!(queue.split(1, 400));
        assert!(queue.join(2));
        queue.verify(false);
        assert_eq!(queue.len(), 3);
        assert_eq!(queue.find(200), 1);
        queue.sent_again(0, 5, Stamp::default());
        assert_eq!(queue.in_flight(), 4);
        assert_eq!(queue.cut(100).map(|s| s.packets()), Some(2));
        queue.verify(false);
        while queue.pop().is_some() {}
        assert_eq!((queue.packets, queue.in_flight()), (0, 0));
    }
}
