// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Skips rounds of deficit round robin in which no queue may send.
//!
//! By a size table a packet may count for up to 2^31 bytes, and a turn may be worth one byte. Linux
//! iterates until some queue has enough credit. This module computes the number of rounds by a
//! division.

/// The bytes that a queue gets each turn, and the bytes it still lacks before it may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Missing bytes; 0 or less if the queue may send.
    pub missing: i64,
    /// Bytes per turn.
    pub quantum: i64,
}

/// Returns how many whole rounds, with a turn for every queue, pass before the first round in which
/// a queue may send.
pub fn rounds(turns: impl Iterator<Item = Turn>) -> i64 {
    let idle = |turn: Turn| (turn.missing - 1).max(0) / turn.quantum.max(1);
    turns.map(idle).min().unwrap_or(0)
}

/// Returns the turn of a queue that may send when its deficit counter is above zero.
pub fn of_deficit(deficit: i32, quantum: i32) -> Turn {
    Turn {
        missing: 1 - i64::from(deficit),
        quantum: quantum.into(),
    }
}

/// Returns a deficit counter after `rounds` turns.
pub fn after(deficit: i32, quantum: i32, rounds: i64) -> i32 {
    (i64::from(deficit) + i64::from(quantum) * rounds) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the same round by round.
    fn slowly(mut deficits: Vec<(i32, i32)>) -> i64 {
        for rounds in 0.. {
            deficits
                .iter_mut()
                .for_each(|(deficit, quantum)| *deficit += *quantum);
            if deficits.iter().any(|(deficit, _)| *deficit > 0) {
                return rounds;
            }
        }
        unreachable!()
    }

    #[test]
    fn skipping_equals_iterating() {
        let mut state = 1_u64;
        let mut below = |bound: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            ((state >> 33) % bound) as i32
        };
        for _ in 0..1000 {
            let deficits: Vec<(i32, i32)> = (0..=below(5))
                .map(|_| (-below(5000), 1 + below(300)))
                .collect();
            let turns = deficits
                .iter()
                .map(|&(deficit, quantum)| of_deficit(deficit, quantum));
            assert_eq!(rounds(turns), slowly(deficits.clone()), "{deficits:?}");
        }
    }

    #[test]
    fn a_queue_with_credit_waits_for_no_round() {
        let turns = [(5, 1), (-100, 1)];
        assert_eq!(rounds(turns.iter().map(|&(d, q)| of_deficit(d, q))), 0);
        assert_eq!(rounds(std::iter::empty()), 0);
        assert_eq!(
            after(
                i32::MIN,
                1,
                rounds(std::iter::once(of_deficit(i32::MIN, 1)))
            ),
            0
        );
    }
}
