// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A set of minor numbers that is iterated in order: a bitmap as long as its largest number needs,
//! and a second level with one bit per word.

/// The set; see the module documentation.
#[derive(Debug, Default, Clone)]
pub struct Bits {
    words: Vec<u64>,
    used: Vec<u64>,
    count: u32,
}

impl Bits {
    /// Returns whether the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Inserts a number.
    #[inline]
    pub fn insert(&mut self, id: u16) {
        let (at, bit) = (usize::from(id / 64), 1 << (id % 64));
        if at >= self.words.len() {
            self.grow(at + 1);
        }
        let word = &mut self.words[at];
        if *word & bit == 0 {
            *word |= bit;
            self.used[at / 64] |= 1 << (at % 64);
            self.count += 1;
        }
    }

    #[cold]
    fn grow(&mut self, words: usize) {
        self.words.resize(words, 0);
        self.used.resize(words.div_ceil(64), 0);
    }

    /// Removes a number.
    #[inline]
    pub fn remove(&mut self, id: u16) {
        let (at, bit) = (usize::from(id / 64), 1 << (id % 64));
        if let Some(word) = self.words.get_mut(at).filter(|word| **word & bit != 0) {
            *word &= !bit;
            if *word == 0 {
                self.used[at / 64] &= !(1 << (at % 64));
            }
            self.count -= 1;
        }
    }

    /// Returns the smallest member that is at least `id`.
    pub fn from(&self, id: u16) -> Option<u16> {
        let word = usize::from(id / 64);
        let rest = self.words.get(word)? & (u64::MAX << (id % 64));
        if rest != 0 {
            return Some((word * 64) as u16 + rest.trailing_zeros() as u16);
        }
        let next = word + 1;
        let mut mask = u64::MAX << (next % 64);
        for (at, used) in self.used.iter().enumerate().skip(next / 64) {
            let rest = used & mask;
            if rest != 0 {
                let word = at * 64 + rest.trailing_zeros() as usize;
                let bit = self.words[word].trailing_zeros() as usize;
                return Some((word * 64 + bit) as u16);
            }
            mask = u64::MAX;
        }
        None
    }

    /// Returns the smallest member above `id`.
    pub fn after(&self, id: u16) -> Option<u16> {
        self.from(id.checked_add(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn it_agrees_with_a_sorted_set() {
        let (mut bits, mut oracle) = (Bits::default(), BTreeSet::new());
        let mut seed = 3_u64;
        for round in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let id = (seed >> 33) as u16 & if round % 3 == 0 { 0xffff } else { 0x1ff };
            if seed >> 63 == 0 {
                bits.insert(id);
                oracle.insert(id);
            } else {
                bits.remove(id);
                oracle.remove(&id);
            }
            let from = (seed >> 17) as u16;
            assert_eq!(bits.from(from), oracle.range(from..).next().copied());
            assert_eq!(
                bits.after(id),
                oracle.range(id..).find(|&&o| o != id).copied()
            );
            assert_eq!(bits.is_empty(), oracle.is_empty());
        }
    }
}
