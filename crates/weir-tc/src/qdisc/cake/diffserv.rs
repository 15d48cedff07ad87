// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Diffserv modes: the tin of each code point and the share of the rate of each tin.
//!
//! Mirrors `cake_config_*` of net/sched/sch_cake.c (RFC 4594, RFC 8622).

use super::cobalt::Params;

/// Mode with four tins; modes are `CAKE_DIFFSERV_*`.
pub const DIFFSERV4: u8 = 1;
/// Mode with eight tins.
pub const DIFFSERV8: u8 = 2;
/// Mode with one tin.
pub const BESTEFFORT: u8 = 3;
/// Mode with a tin for each value of the three IP precedence bits.
pub const PRECEDENCE: u8 = 4;

/// The tin of each code point from 0 on, one digit per code point.
const TABLE_8: [u8; 64] = *b"2012422212121212524242423232323262323232622262627222222272222222";
const TABLE_4: [u8; 64] = *b"0100200010000000202020202020202030202020300030303000000030000000";
const TABLE_3: [u8; 64] = *b"0100200010000000000000000000000000000000000020202000000020000000";

const NORMAL: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
const BULK: [u8; 8] = [1, 0, 2, 3, 4, 5, 6, 7];

/// Returns the tin of a code point.
pub fn tin(mode: u8, dscp: u8) -> usize {
    let at = usize::from(dscp & 63);
    let digit = match mode {
        BESTEFFORT => return 0,
        PRECEDENCE => return at >> 3,
        DIFFSERV8 => TABLE_8[at],
        DIFFSERV4 => TABLE_4[at],
        _ => TABLE_3[at],
    };
    usize::from(digit - b'0')
}

/// Returns the number of tins.
pub fn count(mode: u8) -> usize {
    match mode {
        BESTEFFORT => 1,
        PRECEDENCE | DIFFSERV8 => 8,
        DIFFSERV4 => 4,
        _ => 3,
    }
}

/// Returns the tins in the order in which they are shown and numbered, the lowest first.
pub fn order(mode: u8) -> &'static [u8] {
    let all = match mode {
        BESTEFFORT | PRECEDENCE | DIFFSERV8 => &NORMAL,
        _ => &BULK,
    };
    &all[..count(mode)]
}

/// Returns the rate and the quantum of each tin under a total rate.
pub fn shares(mode: u8, rate: u64) -> Vec<(u64, u16)> {
    match mode {
        BESTEFFORT => vec![(rate, u16::MAX)],
        PRECEDENCE | DIFFSERV8 => {
            let (mut rate, mut quantum) = (rate, 256_u32);
            let next = |_| {
                let this = (rate, quantum.max(1) as u16);
                rate = rate.wrapping_mul(7) >> 3;
                quantum = (quantum * 7) >> 3;
                this
            };
            (0..8).map(next).collect()
        }
        DIFFSERV4 => [0, 4, 1, 2].map(|by| (rate >> by, 1024 >> by)).into(),
        _ => [0, 4, 2].map(|by| (rate >> by, 1024 >> by)).into(),
    }
}

/// A rate as a time per byte, and the parameters of COBALT that follow from it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rate {
    /// Bytes per second; 0 for no limit.
    pub per_second: u64,
    /// Nanoseconds per byte, shifted left by `shift`.
    pub ns: u64,
    shift: u32,
}

impl Rate {
    /// Converts a rate to a time per byte (first part of `cake_set_rate`).
    pub fn new(per_second: u64) -> Self {
        let (mut ns, mut shift) = (0, 0);
        if per_second != 0 {
            shift = 34;
            ns = (1_000_000_000 << shift) / per_second.max(64);
            while ns >> 34 != 0 {
                ns >>= 1;
                shift -= 1;
            }
        }
        Self {
            per_second,
            ns,
            shift,
        }
    }

    /// Returns the transmission time of `len` bytes, in ns.
    pub fn time_of(&self, len: u32) -> u64 {
        u64::from(len).wrapping_mul(self.ns) >> self.shift
    }

    /// Returns the bytes that a flow may send per turn.
    pub fn flow_quantum(&self) -> u16 {
        match self.per_second {
            0 => 1514,
            rate => (rate >> 12).clamp(300, 1514) as u16,
        }
    }

    /// Returns the parameters of COBALT (second part of `cake_set_rate`). `target` and `rtt` are in
    /// microseconds.
    pub fn params(&self, mtu: u32, target: u64, rtt: u64) -> Params {
        let (target, rtt) = (target * 1000, rtt * 1000);
        let mtu_time = self.time_of(mtu);
        let larger = (mtu_time.wrapping_mul(3) / 2).max(target);
        let interval = rtt.wrapping_add(larger).wrapping_sub(target);
        Params {
            interval: interval.max(larger.wrapping_mul(2)),
            target: larger,
            mtu_time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_points_map_to_tins_as_in_the_manual_page() {
        // tc-cake(8): CS1 and LE are bulk. EF, VA, CS5, CS6, CS7 and TOS4 are voice. With four
        // tins, AF4x, AF3x, CS3, AF2x, CS2 and TOS4 are video.
        for (dscp, three, four) in [
            (0, 0, 0),
            (8, 1, 1),
            (1, 1, 1),
            (46, 2, 3),
            (44, 2, 3),
            (48, 2, 3),
            (56, 2, 3),
            (4, 2, 2),
            (40, 0, 3),
            (32, 0, 3),
            (34, 0, 2),
            (26, 0, 2),
            (24, 0, 2),
            (18, 0, 2),
            (16, 0, 2),
            (10, 0, 0),
            (63, 0, 0),
        ] {
            assert_eq!(
                (tin(0, dscp), tin(DIFFSERV4, dscp)),
                (three, four),
                "{dscp}"
            );
        }
        for (dscp, tin8) in [
            (1, 0),
            (8, 1),
            (10, 1),
            (0, 2),
            (34, 3),
            (18, 4),
            (16, 5),
            (46, 6),
            (48, 7),
        ] {
            assert_eq!(tin(DIFFSERV8, dscp), tin8, "{dscp}");
        }
        assert_eq!((tin(PRECEDENCE, 46), tin(BESTEFFORT, 46)), (5, 0));
    }

    #[test]
    fn a_rate_becomes_a_time_per_byte() {
        for rate in [64, 1000, 125_000, 1_000_000, 125_000_000, 12_500_000_000] {
            let exact = 1e9 * 1514.0 / rate as f64;
            let ours = Rate::new(rate).time_of(1514) as f64;
            assert!(
                (exact - ours).abs() <= 1.0 + exact / 1e9,
                "{rate}: {ours} {exact}"
            );
        }
        assert_eq!(Rate::new(1_000_000).time_of(1514), 1_514_000);
        // A rate is never below 64 bytes per second.
        assert_eq!(Rate::new(1).time_of(64), 1_000_000_000);
        assert_eq!(Rate::new(0).time_of(1514), 0);
    }
}
