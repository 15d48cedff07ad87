// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sender's side of SACK (`tcp_sacktag_write_queue`): blocks mark what the peer has.

use super::ack::Round;
use super::{Connection, Counter};
use crate::header::Header;
use crate::sent::{EVER_RETRANS, LOST, RETRANS, SACKED};
use crate::seq::{after, before, later};

impl Connection {
    /// Marks what the blocks of an acknowledgement cover.
    pub(crate) fn tag_sacked(&mut self, now: u64, header: &Header, round: &mut Round) {
        let blocks = header.options.sack_blocks();
        let duplicate = self.is_duplicate_block(header.ack, blocks);
        if duplicate && let Some(&(start, end)) = blocks.first() {
            self.note_dsack(start, end, round);
        }
        if self.sent.packets == 0 {
            return;
        }
        for (index, &(start, end)) in blocks.iter().enumerate() {
            let is_dsack = index == 0 && duplicate;
            if is_dsack || !self.is_valid_block(start, end) || !after(end, self.una) {
                continue;
            }
            self.tag_block(now, later(start, self.una), end, round);
        }
        if let Some(reord) = round.reord {
            self.check_reordering(reord);
        }
    }

    /// The first block reports a duplicate (RFC 2883).
    fn is_duplicate_block(&self, ack: u32, blocks: &[(u32, u32)]) -> bool {
        match blocks {
            [(start, _), ..] if before(*start, ack) => true,
            [(s0, e0), (s1, e1), ..] => !after(*e0, *e1) && !before(*s0, *s1),
            _ => false,
        }
    }

    fn is_valid_block(&self, start: u32, end: u32) -> bool {
        before(start, end) && !after(end, self.nxt) && before(start, self.nxt)
    }

    fn note_dsack(&mut self, start: u32, end: u32, round: &mut Round) {
        if !before(start, end) || after(end, self.nxt) {
            return;
        }
        let packets = end
            .wrapping_sub(start)
            .div_ceil(u32::from(self.mss).max(1))
            .clamp(1, 65536);
        round.dsack = true;
        self.rack.dsack = true;
        self.totals.dsack_dups = self.totals.dsack_dups.wrapping_add(packets);
        self.count(Counter::DsackReceived);
        if self.undo_retrans > 0
            && !after(end, round.prior_una)
            && self.undo_marker.is_some_and(|marker| after(end, marker))
        {
            self.undo_retrans = (self.undo_retrans - packets as i32).max(0);
        }
    }

    fn tag_block(&mut self, now: u64, start: u32, end: u32, round: &mut Round) {
        let mut index = self.sent.find(start);
        while let Some(&entry) = self.sent.get(index) {
            if !before(entry.seq, end) {
                break;
            }
            if entry.is(SACKED) {
                index += 1;
                continue;
            }
            // Only whole packets are marked.
            let mss = u32::from(entry.mss).max(1);
            if before(entry.seq, start) {
                let cut = entry
                    .seq
                    .wrapping_add(start.wrapping_sub(entry.seq).next_multiple_of(mss));
                if before(cut, entry.end) {
                    self.sent.split(index, cut);
                }
                index += 1;
                continue;
            }
            if after(entry.end, end) {
                let whole = end.wrapping_sub(entry.seq) / mss * mss;
                if whole == 0 {
                    break;
                }
                self.sent.split(index, entry.seq.wrapping_add(whole));
            }
            index = self.tag_entry(now, index, round);
        }
    }

    /// Marks one entry. Returns the index of the next.
    fn tag_entry(&mut self, now: u64, index: usize, round: &mut Round) -> usize {
        let Some(&entry) = self.sent.get(index) else {
            return index + 1;
        };
        self.advance_rack(now, &entry);
        if !entry.is(RETRANS) && !entry.is(EVER_RETRANS) {
            if before(entry.seq, self.fack)
                && round.reord.is_none_or(|reord| before(entry.seq, reord))
            {
                round.reord = Some(entry.seq);
            }
            if !after(entry.end, self.high_seq) {
                round.orig_sacked = true;
            }
            if round.first_sacked == 0 {
                round.first_sacked = entry.time;
            }
            round.last_sacked = entry.time;
        }
        round.data_sacked = true;
        self.delivery.count = self.delivery.count.wrapping_add(entry.packets());
        self.note_delivered(&entry, round);
        self.sent.mark(index, SACKED, LOST | RETRANS);
        self.fack = later(self.fack, entry.end);
        if self.sent.join(index) {
            index
        } else {
            index + 1
        }
    }

    /// Packets arrived in another order than they were sent in (`tcp_check_sack_reordering`).
    pub(crate) fn check_reordering(&mut self, low: u32) {
        if !before(low, self.fack) {
            return;
        }
        let metric = self.fack.wrapping_sub(low);
        let mss = u32::from(self.mss).max(1);
        if metric > self.reordering.saturating_mul(mss) {
            self.reordering = metric.div_ceil(mss).min(self.config.max_reordering);
        }
        self.totals.reord_seen = self.totals.reord_seen.wrapping_add(1);
        self.count(Counter::SackReorder);
    }
}
