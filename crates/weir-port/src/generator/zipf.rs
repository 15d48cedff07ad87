// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers by Zipf's law, by rejection inversion (Hörmann and Derflinger, Rejection-inversion to
//! generate variates from monotone discrete distributions, 1996): constant time and memory.
//!
//! The logarithm and the exponential here use IEEE 754's basic operations alone. Those of the
//! machine's library may differ in the last bit, and frames with them.

use super::pace::random;

/// The distribution of flows 0 to n - 1 with shares proportional to 1 / (flow + 1)^s.
#[derive(Debug)]
pub struct Zipf {
    flows: f64,
    /// s
    exponent: f64,
    /// The integral of the shares' hat function from its start and to its end.
    least: f64,
    most: f64,
    /// The distance below which a number is accepted at once.
    near: f64,
}

/// Returns ln((1 + z) / (1 - z)) / z for z of at most 1/3 in absolute value, by its series.
fn log_ratio(z: f64) -> f64 {
    let square = z * z;
    let (mut sum, mut power) = (0.0, 1.0);
    for step in 0_u32..18 {
        sum += power / f64::from(2 * step + 1);
        power *= square;
    }
    2.0 * sum
}

/// Returns ln(x) for a normal x above 0.
fn ln(x: f64) -> f64 {
    const BIAS: u64 = 1023;
    const FRACTION: u32 = 52;
    let bits = x.to_bits();
    let exponent = (bits >> FRACTION) as f64 - BIAS as f64;
    // From 1 to 2.
    let mantissa = f64::from_bits(bits & ((1 << FRACTION) - 1) | BIAS << FRACTION);
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    exponent * std::f64::consts::LN_2 + z * log_ratio(z)
}

/// Returns exp(x). The result is 0 below the range of normal numbers and huge above it.
fn exp(x: f64) -> f64 {
    const RANGE: f64 = 700.0;
    let x = x.clamp(-RANGE, RANGE);
    let whole = (x / std::f64::consts::LN_2).round();
    let rest = x - whole * std::f64::consts::LN_2;
    let (mut sum, mut term) = (1.0, 1.0);
    for step in 1_u32..16 {
        term *= rest / f64::from(step);
        sum += term;
    }
    // Within the exponents of normal numbers because of the range.
    sum * f64::from_bits(((whole as i64 + 1023) as u64) << 52)
}

/// Returns (exp(x) - 1) / x.
fn exp_slope(x: f64) -> f64 {
    if x.abs() > 0.5 {
        return (exp(x) - 1.0) / x;
    }
    let (mut sum, mut term) = (1.0, 1.0);
    for step in 2_u32..16 {
        term *= x / f64::from(step);
        sum += term;
    }
    sum
}

/// Returns ln(1 + t) / t for t above -1.
fn log_slope(t: f64) -> f64 {
    if t.abs() > 0.5 {
        return ln(1.0 + t) / t;
    }
    log_ratio(t / (2.0 + t)) / (2.0 + t)
}

impl Zipf {
    /// Creates the distribution for at least one flow and an exponent above 0.
    pub fn new(flows: u32, exponent: f64) -> Zipf {
        let mut zipf = Zipf {
            flows: f64::from(flows),
            exponent,
            least: 0.0,
            most: 0.0,
            near: 0.0,
        };
        zipf.least = zipf.integral(1.5) - 1.0;
        zipf.most = zipf.integral(zipf.flows + 0.5);
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.share(2.0));
        zipf
    }

    /// x^-s
    fn share(&self, x: f64) -> f64 {
        exp(-self.exponent * ln(x))
    }

    /// The integral of [`Zipf::share`] from 1 to x.
    fn integral(&self, x: f64) -> f64 {
        let log = ln(x);
        exp_slope((1.0 - self.exponent) * log) * log
    }

    /// The inverse of [`Zipf::integral`].
    fn inverse(&self, area: f64) -> f64 {
        // Rounding may take it just below -1, where the logarithm ends.
        let t = (area * (1.0 - self.exponent)).max(-1.0 + f64::EPSILON);
        exp(log_slope(t) * area)
    }

    /// Draws a flow.
    pub fn draw(&self, state: &mut u64) -> u32 {
        const UNIT: f64 = 1.0 / (1_u64 << 53) as f64;
        loop {
            let number = (random(state) >> 11) as f64 * UNIT;
            let area = self.most + number * (self.least - self.most);
            let x = self.inverse(area);
            let rank = x.round().clamp(1.0, self.flows);
            if rank - x <= self.near || area >= self.integral(rank + 0.5) - self.share(rank) {
                return rank as u32 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the machine's functions.
    #[test]
    fn logarithms_and_exponentials() {
        for step in 1..20_000_u32 {
            let x = f64::from(step) * 0.37;
            assert!(
                (ln(x) - x.ln()).abs() < 1e-14 * x.ln().abs().max(1.0),
                "{x}"
            );
            let y = f64::from(step) * 0.035 - 350.0;
            assert!((exp(y) / y.exp() - 1.0).abs() < 1e-13, "{y}");
            let small = f64::from(step) * 1e-4 - 0.99;
            assert!(
                (exp_slope(small) - small.exp_m1() / small).abs() < 1e-14,
                "{small}"
            );
            assert!(
                (log_slope(small) - small.ln_1p() / small).abs() < 1e-13,
                "{small}"
            );
        }
        assert_eq!((exp_slope(0.0), log_slope(0.0)), (1.0, 1.0));
    }

    /// Each of the first flows, and all later ones together, have their share within 5 deviations.
    #[test]
    fn shares_follow_the_law() {
        const DRAWS: u32 = 200_000;
        for (flows, exponent) in [
            (1, 1.01),
            (2, 1.0),
            (1_000_000, 1.01),
            (1000, 0.5),
            (50, 3.0),
        ] {
            let zipf = Zipf::new(flows, exponent);
            let mut state = 1;
            let mut counts = [0_u32; 11];
            for _ in 0..DRAWS {
                let flow = zipf.draw(&mut state);
                assert!(flow < flows);
                counts[(flow as usize).min(10)] += 1;
            }
            let share = |flow: u32| (f64::from(flow) + 1.0).powf(-exponent);
            let all: f64 = (0..flows).map(share).sum();
            let mut first = 0.0;
            for (flow, count) in counts.iter().enumerate() {
                let chance = match flow {
                    10 => 1.0 - first,
                    flow if (flow as u32) < flows => share(flow as u32) / all,
                    _ => 0.0,
                };
                first += chance;
                let deviation = (chance * (1.0 - chance) / f64::from(DRAWS)).abs().sqrt();
                let found = f64::from(*count) / f64::from(DRAWS);
                assert!(
                    (found - chance).abs() <= 5.0 * deviation + 1e-9,
                    "{flows} flows, {exponent}: flow {flow}: {found}, expected {chance}"
                );
            }
        }
    }
}
