// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiver's side of SACK (RFC 2018, RFC 2883): data that arrived early, and the blocks that report them.

use crate::options::{Options, SACK_BLOCKS};
use crate::seq::{after, before, earlier, later};

/// The most ranges remembered: a sender that leaves more holes sends some data again.
const MOST_RANGES: usize = 2048;

/// Ranges of data after a hole.
#[derive(Debug, Clone, Default)]
pub struct Early {
    /// Disjoint ranges in order: the first sequence number and the one after the last.
    ranges: Vec<(u32, u32)>,
    /// A member of each of the ranges that changed last, newest first.
    recent: [u32; SACK_BLOCKS],
    recent_count: u8,
    /// The sequence number of a FIN that arrived early.
    pub fin: Option<u32>,
}

impl Early {
    /// Returns whether there is neither data nor FIN.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.fin.is_none()
    }

    /// Returns whether there are data.
    pub fn has_data(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Inserts a range. Returns whether it was new in part, and the duplicate to report otherwise; or nothing if
    /// there are too many ranges.
    pub fn insert(&mut self, start: u32, end: u32) -> Option<Inserted> {
        let first = self.ranges.partition_point(|range| before(range.1, start));
        let mut last = first;
        let (mut low, mut high) = (start, end);
        while let Some(range) = self.ranges.get(last)
            && !after(range.0, end)
        {
            if !before(start, range.0) && !after(end, range.1) {
                self.touch(start);
                return Some(Inserted::Duplicate);
            }
            low = earlier(low, range.0);
            high = later(high, range.1);
            last += 1;
        }
        if first == last && self.ranges.len() >= MOST_RANGES {
            return None;
        }
        self.ranges.splice(first..last, [(low, high)]);
        self.touch(start);
        Some(Inserted::New)
    }

    fn touch(&mut self, member: u32) {
        let range = self.range_of(member);
        let mut recent = [member; SACK_BLOCKS];
        let mut count = 1;
        for &old in self.recent.iter().take(usize::from(self.recent_count)) {
            if count < SACK_BLOCKS && self.range_of(old) != range {
                recent[count] = old;
                count += 1;
            }
        }
        self.recent = recent;
        self.recent_count = count as u8;
    }

    fn range_of(&self, member: u32) -> Option<(u32, u32)> {
        let index = self.ranges.partition_point(|range| !after(range.1, member));
        self.ranges
            .get(index)
            .copied()
            .filter(|range| !after(range.0, member))
    }

    /// Takes out what `next` reaches: returns the sequence number up to which there are data in order.
    pub fn advance(&mut self, mut next: u32) -> u32 {
        let mut gone = 0;
        for &(start, end) in &self.ranges {
            if after(start, next) {
                break;
            }
            next = later(next, end);
            gone += 1;
        }
        if gone > 0 {
            self.ranges.drain(..gone);
        }
        next
    }

    /// The end of the last range.
    pub fn end(&self) -> Option<u32> {
        self.ranges.last().map(|range| range.1)
    }

    /// The end of the block reported first (RFC 5961 accepts a reset there).
    pub fn newest_end(&self) -> Option<u32> {
        (self.recent_count > 0)
            .then(|| self.range_of(self.recent[0]))
            .flatten()
            .map(|range| range.1)
    }

    /// Adds the blocks to a segment's options: those that changed last first, at most `room`.
    pub fn blocks(&self, options: &mut Options, room: usize) {
        for &member in self.recent.iter().take(usize::from(self.recent_count)) {
            let count = usize::from(options.sack_count);
            if count >= room.min(SACK_BLOCKS) {
                return;
            }
            if let Some(range) = self.range_of(member)
                && !options.sack_blocks().iter().skip(1).any(|b| *b == range)
            {
                options.sack[count] = range;
                options.sack_count += 1;
            }
        }
    }
}

/// What became of an early range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    /// Some of it is new.
    New,
    /// All of it was there.
    Duplicate,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(early: &Early) -> Vec<(u32, u32)> {
        let mut options = Options::default();
        early.blocks(&mut options, 4);
        options.sack_blocks().to_vec()
    }

    #[test]
    fn the_newest_block_is_first() {
        let mut early = Early::default();
        early.insert(10, 20);
        early.insert(30, 40);
        early.insert(50, 60);
        assert_eq!(blocks(&early), [(50, 60), (30, 40), (10, 20)]);
        assert_eq!(early.insert(20, 30), Some(Inserted::New));
        assert_eq!(blocks(&early), [(10, 40), (50, 60)]);
        assert_eq!(early.insert(12, 33), Some(Inserted::Duplicate));
        assert_eq!(early.newest_end(), Some(40));
        assert_eq!(early.advance(10), 40);
        assert_eq!(blocks(&early), [(50, 60)]);
        assert_eq!(early.advance(55), 60);
        assert!(early.is_empty());
        assert_eq!(blocks(&early), []);
    }

    #[test]
    fn ranges_are_bounded() {
        let mut early = Early::default();
        for n in 0..MOST_RANGES as u32 {
            assert!(early.insert(n * 10, n * 10 + 1).is_some());
        }
        assert_eq!(early.insert(1_000_000, 1_000_001), None);
        assert!(early.insert(1, 2).is_some());
    }
}
