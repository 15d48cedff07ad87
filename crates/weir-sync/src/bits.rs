// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Iteration over the set bits of a word.

/// Returns the positions of the set bits, lowest first.
#[inline]
pub fn set_bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (place < u64::BITS).then_some(place as usize)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::set_bits;

    #[test]
    fn places_come_lowest_first() {
        assert_eq!(set_bits(0).count(), 0);
        let places = [0, 5, 31, 32, 63];
        let word = places.iter().fold(0, |word, place| word | 1 << place);
        assert_eq!(set_bits(word).collect::<Vec<_>>(), places);
        assert!(set_bits(u64::MAX).eq(0..64));
    }
}
