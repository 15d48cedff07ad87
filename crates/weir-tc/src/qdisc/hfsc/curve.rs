// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Service curves of two linear pieces, and their minimum.
//!
//! Time is in ticks of the packet scheduler (64 ns), service in bytes. Slopes are fixed-point
//! numbers.

use weir_netlink::TcServiceCurve;

/// Ticks per second (`PSCHED_TICKS_PER_SEC`).
const TICKS: u64 = 15_625_000;
const SM_SHIFT: u32 = 24;
const ISM_SHIFT: u32 = 14;
const SM_MASK: u64 = (1 << SM_SHIFT) - 1;
const ISM_MASK: u64 = (1 << ISM_SHIFT) - 1;
/// An infinite time (`HT_INFINITY`).
const NEVER: u64 = u64::MAX;
const MICRO: u64 = 1_000_000;

/// Returns the service in time `x` at a slope.
fn service(x: u64, sm: u64) -> u64 {
    (x >> SM_SHIFT)
        .wrapping_mul(sm)
        .wrapping_add((x & SM_MASK).wrapping_mul(sm) >> SM_SHIFT)
}

/// Returns the time for service `y` at an inverse slope.
fn duration(y: u64, ism: u64) -> u64 {
    match (y, ism) {
        (0, _) => 0,
        (_, NEVER) => NEVER,
        _ => (y >> ISM_SHIFT)
            .wrapping_mul(ism)
            .wrapping_add((y & ISM_MASK).wrapping_mul(ism) >> ISM_SHIFT),
    }
}

fn slope(rate: u32) -> u64 {
    (u64::from(rate) << SM_SHIFT).div_ceil(TICKS)
}

fn inverse(rate: u32) -> u64 {
    match rate {
        0 => NEVER,
        rate => (TICKS << ISM_SHIFT).div_ceil(u64::from(rate)),
    }
}

/// A configured curve (`struct internal_sc`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Curve {
    sm1: u64,
    ism1: u64,
    dx: u64,
    dy: u64,
    sm2: u64,
    ism2: u64,
}

impl Curve {
    /// Converts the parameters of a request (`sc2isc`).
    pub fn new(sc: &TcServiceCurve) -> Self {
        let (sm1, dx) = (slope(sc.m1), (u64::from(sc.d) * TICKS).div_ceil(MICRO));
        Self {
            sm1,
            ism1: inverse(sc.m1),
            dx,
            dy: service(dx, sm1),
            sm2: slope(sc.m2),
            ism2: inverse(sc.m2),
        }
    }

    /// Returns the curve in the form in which it is shown.
    pub fn shown(&self) -> TcServiceCurve {
        let rate = |sm: u64| (sm.wrapping_mul(TICKS) >> SM_SHIFT) as u32;
        TcServiceCurve {
            m1: rate(self.sm1),
            d: (self.dx.wrapping_mul(MICRO) / TICKS) as u32,
            m2: rate(self.sm2),
        }
    }

    /// Returns whether the second piece is at least as steep as the first.
    pub fn is_convex(&self) -> bool {
        self.sm1 <= self.sm2
    }
}

/// A curve with a start point (`struct runtime_sc`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Running {
    x: u64,
    y: u64,
    curve: Curve,
}

impl Running {
    /// Starts a curve at (x, y) (`rtsc_init`).
    pub fn new(curve: &Curve, x: u64, y: u64) -> Self {
        Self {
            x,
            y,
            curve: *curve,
        }
    }

    /// Returns the curve without its first piece.
    pub fn second_piece(mut self) -> Self {
        (self.curve.dx, self.curve.dy) = (0, 0);
        self
    }

    /// Returns the time at which service `y` is reached (`rtsc_y2x`).
    pub fn time_of(&self, y: u64) -> u64 {
        let curve = &self.curve;
        if y < self.y {
            self.x
        } else if y <= self.y.wrapping_add(curve.dy) {
            match curve.dy {
                0 => self.x.wrapping_add(curve.dx),
                _ => self.x.wrapping_add(duration(y - self.y, curve.ism1)),
            }
        } else {
            let second = duration(y - self.y - curve.dy, curve.ism2);
            self.x.wrapping_add(curve.dx).wrapping_add(second)
        }
    }

    /// Returns the service at time `x` (`rtsc_x2y`).
    fn service_at(&self, x: u64) -> u64 {
        let curve = &self.curve;
        if x <= self.x {
            self.y
        } else if x <= self.x.wrapping_add(curve.dx) {
            self.y.wrapping_add(service(x - self.x, curve.sm1))
        } else {
            let second = service(x - self.x - curve.dx, curve.sm2);
            self.y.wrapping_add(curve.dy).wrapping_add(second)
        }
    }

    /// Replaces the curve by its minimum with `curve` started at (x, y) (`rtsc_min`).
    pub fn lower(&mut self, curve: &Curve, x: u64, y: u64) {
        let now = self.service_at(x);
        if curve.is_convex() {
            if now >= y {
                (self.x, self.y) = (x, y);
            }
            return;
        }
        if now <= y {
            return;
        }
        let later = self.service_at(x.wrapping_add(curve.dx));
        if later >= y.wrapping_add(curve.dy) {
            (self.x, self.y) = (x, y);
            (self.curve.dx, self.curve.dy) = (curve.dx, curve.dy);
            return;
        }
        // The curves cross. The first piece extends up to the crossing.
        let mut dx = ((now - y) << SM_SHIFT) / (curve.sm1 - curve.sm2);
        let end = self.x.wrapping_add(self.curve.dx);
        if end > x {
            dx = dx.wrapping_add(end - x);
        }
        (self.x, self.y) = (x, y);
        (self.curve.dx, self.curve.dy) = (dx, service(dx, curve.sm1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_can_be_inverted() {
        let sc = TcServiceCurve {
            m1: 250_000,
            d: 10_000,
            m2: 125_000,
        };
        let curve = Curve::new(&sc);
        assert_eq!(curve.shown(), sc);
        let running = Running::new(&curve, 1000, 0);
        // 2500 bytes in 10 ms, then one byte in 8 us.
        for (octets, us) in [(2500_u64, 10_000_u64), (3500, 18_000), (1250, 5_000)] {
            let ticks = running.time_of(octets) - 1000;
            assert!((ticks * 64 / 1000).abs_diff(us) <= 1, "{octets}");
            assert!(running.service_at(1000 + us * 1000 / 64).abs_diff(octets) <= 1);
        }
    }
}
