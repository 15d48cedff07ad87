// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bob Jenkins' hash of 32-bit words, lookup3's `hashword`, with which Linux chooses where the choice has to last
//! (`jhash2`, include/linux/jhash.h).

/// Hashes words; `start` is the initial value.
pub fn jhash2(words: &[u32], start: u32) -> u32 {
    let first = 0xdead_beef_u32
        .wrapping_add((words.len() as u32) << 2)
        .wrapping_add(start);
    let (mut a, mut b, mut c) = (first, first, first);
    let mut rest = words;
    while let [x, y, z, more @ ..] = rest {
        (a, b, c) = (a.wrapping_add(*x), b.wrapping_add(*y), c.wrapping_add(*z));
        if more.is_empty() {
            return finish(a, b, c);
        }
        for turns in [4_u32, 6, 8, 16, 19, 4] {
            a = a.wrapping_sub(c) ^ c.rotate_left(turns);
            c = c.wrapping_add(b);
            (a, b, c) = (b, c, a);
        }
        rest = more;
    }
    match rest {
        [x, y] => finish(a.wrapping_add(*x), b.wrapping_add(*y), c),
        [x] => finish(a.wrapping_add(*x), b, c),
        _ => c,
    }
}

fn finish(mut a: u32, mut b: u32, mut c: u32) -> u32 {
    for turns in [14_u32, 11, 25, 16, 4, 14, 24] {
        c = (c ^ b).wrapping_sub(b.rotate_left(turns));
        (a, b, c) = (b, c, a);
    }
    b
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are those of lookup3.c's `hashword`.
    #[test]
    fn known_values() {
        assert_eq!(jhash2(&[], 0), 0xdead_beef);
        assert_eq!(jhash2(&[], 0xdead_beef), 0xbd5b_7dde);
        let words: Vec<u32> = "Four score and seven years ago  "
            .as_bytes()
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect();
        let lengths = (1..=words.len()).map(|len| jhash2(&words[..len], 7));
        let all: Vec<u32> = lengths.collect();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
