// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates: the transmission time of a packet at a rate, and the rate tables that old clients send.
//!
//! Mirrors `struct psched_ratecfg`, `psched_l2t_ns`, `psched_ratecfg_precompute`
//! (net/sch_generic.h) and `qdisc_get_rtab`, `__detect_linklayer` (net/sched/sch_api.c). The
//! division is replaced by a precomputed multiplier and shift; results equal Linux's to the
//! nanosecond.

use weir_netlink::TcRateSpec;
use weir_netlink::tca::linklayer;

/// log2 of the nanoseconds in a tick of the packet scheduler (`PSCHED_SHIFT`).
const TICK_SHIFT: u32 = 6;
/// Size of a rate table in bytes (`TC_RTAB_SIZE`).
pub const TABLE_LEN: usize = 1024;

/// Converts ticks of the packet scheduler to nanoseconds (`PSCHED_TICKS2NS`).
pub const fn ticks_to_ns(ticks: u64) -> u64 {
    ticks << TICK_SHIFT
}

/// Converts nanoseconds to ticks of the packet scheduler (`PSCHED_NS2TICKS`).
pub const fn ns_to_ticks(ns: u64) -> u64 {
    ns >> TICK_SHIFT
}

/// A rate with the parameters of the link layer that determine a packet's length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rate {
    /// Bytes or packets per second.
    pub per_second: u64,
    mult: u32,
    shift: u8,
    overhead: u16,
    mpu: u16,
    linklayer: u8,
}

impl Rate {
    /// Creates a rate in units per second.
    pub fn new(per_second: u64) -> Self {
        let (mut mult, mut shift) = (1_u32, 0);
        let mut factor = 1_000_000_000_u64;
        while let Some(quotient) = factor.checked_div(per_second) {
            // Linux also truncates the quotient to 32 bits.
            mult = quotient as u32;
            if mult & (1 << 31) != 0 || factor & (1 << 63) != 0 {
                break;
            }
            factor <<= 1;
            shift += 1;
        }
        Self {
            per_second,
            mult,
            shift,
            ..Self::default()
        }
    }

    /// Creates the rate of a specification, or the 64-bit rate if that is larger
    /// (`psched_ratecfg_precompute`).
    pub fn of(spec: &TcRateSpec, rate64: u64) -> Self {
        Self {
            overhead: spec.overhead,
            mpu: spec.mpu,
            linklayer: spec.linklayer & linklayer::MASK,
            ..Self::new(rate64.max(u64::from(spec.rate)))
        }
    }

    /// Returns the transmission time of a packet of `len` bytes in nanoseconds (`psched_l2t_ns`).
    #[inline]
    pub fn time_of(&self, len: u32) -> u64 {
        // Linux also computes with 32 bits that wrap.
        let len = len
            .wrapping_add(u32::from(self.overhead))
            .max(u32::from(self.mpu));
        let len = match self.linklayer {
            ATM => len.div_ceil(48).wrapping_mul(53),
            _ => len,
        };
        (u64::from(len) * u64::from(self.mult)) >> self.shift
    }

    /// Returns the length in bytes of the largest packet that takes at most `ns` nanoseconds
    /// (`psched_ns_t2l`).
    pub fn octets_in(&self, ns: u64) -> u64 {
        let mut len = ns.wrapping_mul(self.per_second) / 1_000_000_000;
        if self.linklayer == ATM {
            len = len / 53 * 48;
        }
        len.saturating_sub(u64::from(self.overhead))
    }

    /// Returns the time that `count` units take, in nanoseconds (`psched_pkt2t_ns`).
    #[inline]
    pub fn time_of_units(&self, count: u64) -> u64 {
        count.wrapping_mul(u64::from(self.mult)) >> self.shift
    }

    /// Returns the specification to show (`psched_ratecfg_getrate`).
    pub fn spec(&self) -> TcRateSpec {
        TcRateSpec {
            rate: u32::try_from(self.per_second).unwrap_or(u32::MAX),
            overhead: self.overhead,
            mpu: self.mpu,
            linklayer: self.linklayer,
            ..TcRateSpec::default()
        }
    }
}

const ATM: u8 = linklayer::ATM;

/// Checks a rate table and its specification (`qdisc_get_rtab`). Stores the link layer detected
/// from the table in `spec`.
pub fn check_table(spec: &mut TcRateSpec, table: Option<&[u8]>) -> bool {
    let Some(table) = table else { return false };
    if spec.rate == 0 || !(1..32).contains(&spec.cell_log) || table.len() != TABLE_LEN {
        return false;
    }
    if spec.linklayer == linklayer::UNAWARE {
        spec.linklayer = detect(spec, table);
    }
    true
}

/// Detects the link layer from a table (`__detect_linklayer`): old clients express ATM by a table
/// in which neighbouring cells cost the same.
fn detect(spec: &TcRateSpec, table: &[u8]) -> u8 {
    let cell = |index: usize| {
        let at = index * 4;
        table
            .get(at..at + 4)
            .map(|b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
    };
    let low = u32::from(spec.mpu).div_ceil(48) * 48;
    let high = (low + 1).div_ceil(48) * 48;
    let (low, high) = (
        (low >> spec.cell_log) as usize,
        (high >> spec.cell_log) as usize,
    );
    let fast = spec.rate > 100_000_000 / 8;
    let atm = high.checked_sub(1).is_some_and(|high| {
        high > low && high < 256 && cell(low).is_some() && cell(low) == cell(high)
    });
    if !fast && cell(0) != Some(0) && atm {
        ATM
    } else {
        linklayer::ETHERNET
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_equal_those_of_linux() {
        // 1 Mbit/s: 8 us per byte.
        let rate = Rate::new(125_000);
        assert_eq!(rate.time_of(1500), 12_000_000);
        assert_eq!(Rate::new(1).time_of_units(1), 1_000_000_000);
        // 10 Gbit/s: 1200 ns, minus one because the multiplier is rounded down.
        assert_eq!(Rate::new(1_250_000_000).time_of(1500), 1199);
        let spec = TcRateSpec {
            rate: 125_000,
            mpu: 64,
            overhead: 4,
            ..TcRateSpec::default()
        };
        let rate = Rate::of(&spec, 0);
        assert_eq!(rate.time_of(10), 64 * 8000);
        assert_eq!(rate.time_of(100), 104 * 8000);
        assert_eq!(rate.spec().rate, 125_000);
        assert_eq!(Rate::of(&spec, 1 << 33).spec().rate, u32::MAX);
    }

    #[test]
    fn an_atm_table_is_detected_by_its_steps() {
        let mut spec = TcRateSpec {
            rate: 125_000,
            cell_log: 3,
            ..TcRateSpec::default()
        };
        let cells = |time: fn(u32) -> u32| {
            (0..256)
                .flat_map(|i| time(i).to_ne_bytes())
                .collect::<Vec<u8>>()
        };
        assert!(check_table(
            &mut spec,
            Some(&cells(|i| (((i + 1) * 8).div_ceil(48)) * 53))
        ));
        assert_eq!(spec.linklayer, ATM);
        spec.linklayer = 0;
        assert!(check_table(&mut spec, Some(&cells(|i| (i + 1) * 8))));
        assert_eq!(spec.linklayer, linklayer::ETHERNET);
        assert!(!check_table(&mut spec, Some(&[0; 4])) && !check_table(&mut spec, None));
    }
}
