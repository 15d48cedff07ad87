// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of netem's random behaviour: distributions, correlation, loss models, duplicates, errors,
//! order and rounds.
//!
//! Each test compares the result of a fixed seed with the probabilities of the model. The tables
//! are tc's own, from its message. The bounds are such that another seed would fail each of them
//! with a probability of about one in a million: 4.9 standard deviations of a mean on both sides,
//! and the upper tail of chi-square. With these seeds the result is always the same.

use super::delay::{delays, lost, mean_and_deviation, steady};
use super::driven::{attribute, recorded_options};
use super::{Line, START, traffic};

/// Number of standard deviations that a normal variable exceeds with a probability of one in a
/// million.
const Z: f64 = 4.9;
const MS: f64 = 1e6;

/// Returns the bound that chi-square exceeds with a probability of one in a million (Wilson and
/// Hilferty).
fn chi_square_bound(degrees: usize) -> f64 {
    let spread = 2.0 / (9.0 * degrees as f64);
    degrees as f64 * (1.0 - spread + 4.76 * spread.sqrt()).powi(3)
}

/// Checks counts against their probabilities by a chi-square test.
#[track_caller]
fn fits(counts: &[usize], probabilities: &[f64]) {
    let all: usize = counts.iter().sum();
    let square = |(count, probability): (&usize, &f64)| {
        let expected = probability * all as f64;
        assert!(expected >= 5.0, "too few for chi-square: {expected}");
        (*count as f64 - expected).powi(2) / expected
    };
    let found: f64 = counts.iter().zip(probabilities).map(square).sum();
    assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    assert!(
        found < chi_square_bound(counts.len() - 1),
        "{found}: {counts:?}"
    );
}

/// Checks a mean of `count` values with a variance against its expectation.
#[track_caller]
fn near(found: f64, expected: f64, variance: f64, count: usize) {
    let bound = Z * (variance / count as f64).sqrt();
    assert!(
        (found - expected).abs() <= bound,
        "{found}, not {expected} +- {bound}"
    );
}

/// Returns the probability that a number correlated by `rho`, x' = (1 - rho) u + rho x, is at most
/// `limit`, and the probability that this happens twice in a row. Solves the integral equation of
/// the density on a grid.
fn correlated(rho: f64, limit: f64) -> (f64, f64) {
    const GRID: usize = 4000;
    let at = |table: &[f64], x: f64| match x * GRID as f64 {
        x if x <= 0.0 => 0.0,
        x if x >= GRID as f64 => 1.0,
        x => {
            let below = x as usize;
            table[below] + (table[below + 1] - table[below]) * (x - below as f64)
        }
    };
    // F(x) is the mean of F((x - (1 - rho) u) / rho) over u, which is a difference of the integral
    // of F.
    let mut table: Vec<f64> = (0..=GRID).map(|at| at as f64 / GRID as f64).collect();
    for _ in 0..60 {
        let mut integral = vec![0.0; GRID + 1];
        for at in 1..=GRID {
            integral[at] = integral[at - 1] + (table[at] + table[at - 1]) / 2.0 / GRID as f64;
        }
        let sum_to = |x: f64| match x {
            x if x <= 0.0 => 0.0,
            x if x >= 1.0 => integral[GRID] + (x - 1.0),
            x => {
                let below = (x * GRID as f64) as usize;
                let part = x * GRID as f64 - below as f64;
                integral[below] + part * (integral[(below + 1).min(GRID)] - integral[below])
            }
        };
        let mean = |x: f64| {
            let (high, low) = (x / rho, (x - (1.0 - rho)) / rho);
            rho / (1.0 - rho) * (sum_to(high) - sum_to(low))
        };
        table = (0..=GRID).map(|at| mean(at as f64 / GRID as f64)).collect();
    }
    let once = at(&table, limit);
    // Integrates over the density up to the limit, where u must be at most (limit - rho x) / (1 -
    // rho).
    let mut twice = 0.0;
    let steps = 4000;
    for step in 0..steps {
        let (from, to) = (step as f64, step as f64 + 1.0);
        let [from, to] = [from, to].map(|x| x * limit / f64::from(steps));
        let middle = (from + to) / 2.0;
        let probability = ((limit - rho * middle) / (1.0 - rho)).clamp(0.0, 1.0);
        twice += (at(&table, to) - at(&table, from)) * probability;
    }
    (once, twice)
}

#[test]
fn the_distribution_of_correlated_numbers_matches_a_simulation() {
    let mut random = super::driven::Random(9);
    for (rho, limit) in [(0.5, 0.1), (0.3, 0.1), (0.4, 0.1), (0.5, 0.25)] {
        let (mut x, mut once, mut twice, mut before) = (0.5, 0, 0, false);
        let count = 400_000;
        for _ in 0..count {
            x = (1.0 - rho) * f64::from(random.next()) / 2_f64.powi(32) + rho * x;
            once += usize::from(x <= limit);
            twice += usize::from(x <= limit && before);
            before = x <= limit;
        }
        let (p, both) = correlated(rho, limit);
        // Consecutive numbers are correlated, so the variance is up to (1 + rho) / (1 - rho) times
        // as large.
        let more = (1.0 + rho) / (1.0 - rho);
        near(once as f64 / count as f64, p, p * more, count);
        near(twice as f64 / count as f64, both, both * more, count);
    }
}

/// Takes 40,000 delays of each of tc's tables, and compares the mean, the variance and sixteen
/// parts with the table.
#[test]
fn distributions_match_the_tables_of_tc() {
    for name in ["normal", "pareto", "paretonormal", "experimental"] {
        let command = format!(
            "tc qdisc add dev d0 root handle 1: netem delay 100ms 10ms distribution {name}"
        );
        let options = recorded_options(&command);
        // The table follows the structure.
        let table = attribute(&options[24..], 2);
        let mut table: Vec<f64> = table
            .chunks_exact(2)
            .map(|word| f64::from(i16::from_ne_bytes([word[0], word[1]])) / 8192.0)
            .collect();
        assert!(table.len() >= 2048, "{}", table.len());
        table.sort_by(f64::total_cmp);
        let mut line = Line::new(&[&command]).seed(11);
        line.run(&steady(40_000, 1_000_000));
        let found: Vec<f64> = delays(&line)
            .iter()
            .map(|delay| (delay - 100.0) / 10.0)
            .collect();
        let (mean, deviation) = mean_and_deviation(&table);
        let (found_mean, found_deviation) = mean_and_deviation(&found);
        near(found_mean, mean, deviation.powi(2), found.len());
        let fourth = table.iter().map(|t| (t - mean).powi(4)).sum::<f64>() / table.len() as f64;
        let variance = deviation.powi(2);
        near(
            found_deviation.powi(2),
            variance,
            fourth - variance.powi(2),
            found.len(),
        );
        // The edges lie between values of the table, half a step of 1 / 8192 away from each.
        let mut edges: Vec<f64> = (1..16)
            .map(|n| table[n * table.len() / 16] - 0.5 / 8192.0)
            .collect();
        edges.dedup();
        let part = |x: &f64| edges.partition_point(|edge| edge < x);
        let mut counts = vec![0; edges.len() + 1];
        let mut probabilities = vec![0.0; edges.len() + 1];
        found.iter().for_each(|x| counts[part(x)] += 1);
        table
            .iter()
            .for_each(|x| probabilities[part(x)] += 1.0 / table.len() as f64);
        fits(&counts, &probabilities);
    }
}

fn autocorrelation(values: &[f64]) -> f64 {
    let (mean, deviation) = mean_and_deviation(values);
    let pairs = values.windows(2).map(|w| (w[0] - mean) * (w[1] - mean));
    pairs.sum::<f64>() / (values.len() - 1) as f64 / deviation.powi(2)
}

/// As in Linux, the correlated number is taken modulo the width of the jitter. No correlation
/// remains if the width is small compared with 2^32 ns, and nearly all of it otherwise.
#[test]
fn jitter_is_correlated_as_in_linux() {
    let mut line =
        Line::new(&["tc qdisc add dev d0 root handle 1: netem delay 100ms 10ms 50%"]).seed(3);
    line.run(&steady(40_000, 1_000_000));
    let found = delays(&line);
    let (mean, deviation) = mean_and_deviation(&found);
    let variance = 20.0 * 20.0 / 12.0;
    near(mean, 100.0, variance, found.len());
    // The fourth moment of a uniform variable is 9 / 5 of the square of its variance.
    near(
        deviation.powi(2),
        variance,
        0.8 * variance.powi(2),
        found.len(),
    );
    near(autocorrelation(&found), 0.0, 1.0, found.len());

    let mut line =
        Line::new(&["tc qdisc add dev d0 root handle 1: netem limit 5000 delay 10s 2s 50%"])
            .seed(3);
    line.run(&steady(20_000, 5_000_000));
    let found = delays(&line);
    // The upper 7 percent of 2^32 ns wrap to the bottom.
    near(autocorrelation(&found), 0.5, 25.0 * 0.75, found.len());
    assert!(autocorrelation(&found) > 0.4);
    let (mean, deviation) = mean_and_deviation(&found);
    // The mean is half of 2^32 ns after 8 s. The correlation reduces the variance to a third.
    let width = 2_f64.powi(32) / MS;
    assert!((mean - 8000.0 - width / 2.0).abs() < 0.02 * width, "{mean}");
    let expected = width / 12_f64.sqrt() / 3_f64.sqrt();
    assert!(
        (deviation / expected - 1.0).abs() < 0.05,
        "{deviation}, not {expected}"
    );
}

#[test]
fn losses_are_correlated_as_computed() {
    let lost = lost(
        "tc qdisc add dev d0 root handle 1: netem loss random 10% 50%",
        2,
    );
    let (once, twice) = correlated(0.5, 0.1);
    let share = |count: usize| count as f64 / lost.len() as f64;
    let count = lost.iter().filter(|lost| **lost).count();
    near(share(count), once, 3.0 * once, lost.len());
    let both = lost.windows(2).filter(|w| w[0] && w[1]).count();
    near(share(both), twice, 3.0 * twice, lost.len());
}

/// A Markov chain in which each step has a probability of losing the packet.
struct Chain {
    /// From state to state: the probability of the step, and of losing a packet in it.
    steps: Vec<Vec<(f64, f64)>>,
}

impl Chain {
    fn stationary(&self) -> Vec<f64> {
        let count = self.steps.len();
        let mut at = vec![1.0 / count as f64; count];
        for _ in 0..10_000 {
            let mut next = vec![0.0; count];
            for (from, steps) in self.steps.iter().enumerate() {
                for (to, (probability, _)) in steps.iter().enumerate() {
                    next[to] += at[from] * probability;
                }
            }
            at = next;
        }
        at
    }

    /// Returns the probability of each pattern of three packets. The first packet is the highest
    /// bit.
    fn patterns(&self) -> Vec<f64> {
        let pattern = |pattern: usize| {
            let mut at = self.stationary();
            for bit in [4, 2, 1] {
                let mut next = vec![0.0; at.len()];
                for (from, steps) in self.steps.iter().enumerate() {
                    for (to, (probability, lost)) in steps.iter().enumerate() {
                        let seen = if pattern & bit != 0 {
                            *lost
                        } else {
                            1.0 - lost
                        };
                        next[to] += at[from] * probability * seen;
                    }
                }
                at = next;
            }
            at.iter().sum()
        };
        (0..8).map(pattern).collect()
    }
}

/// Compares the patterns of the first three of every thirty packets. The chain has forgotten the
/// last ones by then.
#[track_caller]
fn check_patterns(command: &str, chain: &Chain) {
    let mut counts = [0; 8];
    for seed in 1..=4 {
        for three in lost(command, seed).chunks_exact(30) {
            let bit = |at: usize| usize::from(three[at]);
            counts[bit(0) * 4 + bit(1) * 2 + bit(2)] += 1;
        }
    }
    fits(&counts, &chain.patterns());
}

/// The four-state model of Salsano, Ludovici, Ordine and Giannuzzi, "Definition of a general and
/// intuitive loss model for packet networks" (2012). Two of the states lose. tc takes p13, p31,
/// p32, p23, p14.
#[test]
fn four_state_losses_follow_the_chain() {
    let [p13, p31, p32, p23, p14] = [0.02, 0.3, 0.2, 0.4, 0.01];
    let chain = Chain {
        steps: vec![
            vec![(1.0 - p13 - p14, 0.0), (0.0, 0.0), (p13, 1.0), (p14, 1.0)],
            vec![(0.0, 0.0), (1.0 - p23, 0.0), (p23, 1.0), (0.0, 0.0)],
            vec![(p31, 0.0), (p32, 0.0), (1.0 - p31 - p32, 1.0), (0.0, 0.0)],
            vec![(1.0, 0.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)],
        ],
    };
    check_patterns(
        "tc qdisc add dev d0 root handle 1: netem loss state 2% 30% 20% 40% 1%",
        &chain,
    );
}

/// The model of Gilbert and Elliott: p is the probability of going to the bad state, r of going
/// back. 70 percent are lost in the bad state, 1 percent otherwise. The state before a packet's
/// step decides on the packet.
#[test]
fn gilbert_elliott_losses_follow_the_chain() {
    let chain = Chain {
        steps: vec![
            vec![(0.98, 0.01), (0.02, 0.01)],
            vec![(0.2, 0.7), (0.8, 0.7)],
        ],
    };
    check_patterns(
        "tc qdisc add dev d0 root handle 1: netem loss gemodel 2% 20% 70% 1%",
        &chain,
    );
}

#[test]
fn duplicates_and_errors_are_correlated_as_computed() {
    let count = 40_000;
    let mut line = Line::new(&[
        "tc qdisc add dev d0 root handle 1: netem loss random 0% 50% duplicate 10% 30%",
    ])
    .seed(4);
    line.run(&steady(count, 1_000_000));
    // tc sends this correlation only together with that of losses.
    let more = line.left.len() - count as usize;
    let (once, _) = correlated(0.3, 0.1);
    near(more as f64 / count as f64, once, 2.0 * once, count as usize);

    let mut line = Line::new(&["tc qdisc add dev d0 root handle 1: netem corrupt 10% 40%"])
        .seed(4)
        .keep();
    line.run(&steady(count, 1_000_000));
    let clean = line.packet(0, &line.arrivals[0]);
    let (mut wrong, mut bits, mut places) = (0, [0; 8], [0; 10]);
    for packet in &line.packets {
        let pairs = packet.data().iter().zip(clean.data());
        let differ: Vec<(usize, u8)> = pairs
            .map(|(a, b)| a ^ b)
            .enumerate()
            .filter(|d| d.1 != 0)
            .collect();
        for (at, bit) in &differ {
            assert!(differ.len() == 1 && bit.count_ones() == 1, "{differ:?}");
            wrong += 1;
            bits[bit.trailing_zeros() as usize] += 1;
            places[at * 10 / clean.len()] += 1;
        }
    }
    let (once, _) = correlated(0.4, 0.1);
    near(
        f64::from(wrong) / count as f64,
        once,
        2.4 * once,
        count as usize,
    );
    fits(&bits, &[1.0 / 8.0; 8]);
    fits(&places, &[1.0 / 10.0; 10]);
}

/// With a gap of five, four packets wait. Then each packet may be reordered with the given
/// probability.
#[test]
fn packets_are_reordered_as_computed() {
    let count = 40_000;
    let early = |command: &str| {
        let mut line = Line::new(&[command]).seed(5);
        line.run(&steady(count, 1_000_000));
        let delays = delays(&line);
        assert!(delays.iter().all(|delay| *delay == 0.0 || *delay == 10.0));
        delays.iter().filter(|delay| **delay == 0.0).count() as f64
    };
    let found = early("tc qdisc add dev d0 root handle 1: netem delay 10ms reorder 25% 50% gap 5");
    let (once, _) = correlated(0.5, 0.25);
    let draws = count as f64 - 4.0 * found;
    near(found / draws, once, 3.0 * once, draws as usize);
    let found = early("tc qdisc add dev d0 root handle 1: netem delay 10ms reorder 40%");
    near(found / count as f64, 0.4, 0.24, count as usize);
}

/// Returns the start of each round and the number of packets it released.
fn rounds(line: &Line) -> Vec<(u64, usize)> {
    let mut rounds: Vec<(u64, usize)> = Vec::new();
    for (time, _) in &line.left {
        match rounds.last_mut() {
            Some((last, count)) if last == time => *count += 1,
            _ => rounds.push((*time, 1)),
        }
    }
    rounds
}

#[test]
fn rounds_have_their_distribution() {
    for (command, packets, mean, variance) in [
        (
            "tc qdisc add dev d0 root handle 1: netem slot distribution normal 10ms 1ms packets 5",
            5,
            10.0,
            1.0,
        ),
        (
            "tc qdisc add dev d0 root handle 1: netem slot 5ms 15ms bytes 3000",
            3,
            10.0,
            100.0 / 12.0,
        ),
    ] {
        let mut gaps = Vec::new();
        for seed in 1..=5 {
            let mut arrivals = vec![steady(1, 0)[0]; 900];
            for arrival in &mut arrivals {
                arrival.len = 1000;
            }
            let mut line = Line::new(&[command]).seed(seed);
            line.run(&arrivals);
            let rounds = rounds(&line);
            assert!(
                rounds.iter().all(|(_, count)| *count == packets),
                "{rounds:?}"
            );
            gaps.extend(
                rounds[1..]
                    .windows(2)
                    .map(|w| (w[1].0 - w[0].0) as f64 / MS),
            );
        }
        let (found, deviation) = mean_and_deviation(&gaps);
        near(found, mean, variance, gaps.len());
        // Twice the square of the variance holds for the normal distribution; the uniform one has
        // less.
        near(
            deviation.powi(2),
            variance,
            2.0 * variance.powi(2),
            gaps.len(),
        );
    }
}

/// Each packet has 30 additional bytes and is sent in cells of 53 bytes, of which 48 count.
#[test]
fn cells_may_count_for_less_than_they_hold() {
    let arrivals = traffic(8, 900, 2_000_000);
    let mut line = Line::new(&["tc qdisc add dev d0 root handle 1: netem rate 8mbit 30 53 -5"]);
    line.run(&arrivals);
    let mut free = START;
    let leave = |arrival: &super::Arrival| {
        free = free.max(arrival.time) + (arrival.len as u64 + 30).div_ceil(53) * 48_000;
        free
    };
    assert_eq!(
        line.departures(),
        arrivals.iter().map(leave).collect::<Vec<_>>()
    );
}
