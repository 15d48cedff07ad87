// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory per rule and the rate of insertion, over the number of rules.
//!
//! Measured in a separate process, as the difference in resident memory (`Rss` of
//! `/proc/self/smaps_rollup`) between no rules and all. This counts everything: tables, allocator,
//! indices, and memory that tables discard as they grow.

use std::time::Instant;

use super::super::{Curve, resident};
use super::bed::Bed;
use super::wire::{Client, Profile};

/// The number of points in a curve.
const POINTS: u32 = 20;

/// The growth of a table: rules, bytes of memory, rules per second since the last point.
pub struct Grown(Vec<(f64, f64, f64)>);

impl Grown {
    /// Returns the bytes per rule at the end.
    pub fn bytes(&self) -> f64 {
        self.0
            .last()
            .map_or(f64::NAN, |&(rules, bytes, _)| bytes / rules)
    }

    /// Returns the curves for the chart.
    pub fn curves(&self, profile: &str) -> Vec<Curve> {
        let curve = |name: &str, unit, value: fn(&(f64, f64, f64)) -> f64| Curve {
            name: format!(
                "{name}, profile {}",
                profile.trim_start_matches('-').to_uppercase()
            ),
            unit,
            over: "rules",
            points: self.0.iter().map(|point| (point.0, value(point))).collect(),
        };
        vec![
            curve("insertion", "k/s", |point| point.2 / 1e3),
            curve("resident memory", "MB", |point| point.1 / 1e6),
        ]
    }
}

/// Runs the measurement in a separate process.
pub fn elsewhere(profile: Profile, rules: u32) -> Result<Grown, String> {
    let letter = if profile == Profile::A { 'a' } else { 'b' };
    let text = super::elsewhere(&format!("memory:{letter}:{rules}"))?;
    let mut points = Vec::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("point ")) {
        let figures: Vec<f64> = line.split(' ').filter_map(|n| n.parse().ok()).collect();
        if let [rules, bytes, rate] = figures[..] {
            points.push((rules, bytes, rate));
        }
    }
    if points.is_empty() {
        return Err(format!("memory could not be measured: {text}"));
    }
    Ok(Grown(points))
}

/// Runs the part: `PROFILE:RULES`.
pub fn here(what: &str) -> Result<String, String> {
    let wrong = || format!("memory:{what} is not memory:PROFILE:RULES");
    let (letter, rules) = what.split_once(':').ok_or_else(wrong)?;
    let rules: u32 = rules.parse().map_err(|_| wrong())?;
    let profile = if letter == "a" {
        Profile::A
    } else {
        Profile::B
    };
    let bed = Bed::new()?;
    let client = bed.client()?;
    let made = bed.rules(profile, 1, false);
    let step = (rules / POINTS).max(1);
    // Allocates the memory of the clients' own requests before the first measurement.
    insert(&client, &made.add(rules, rules + step))?;
    insert(&client, &made.delete(rules, rules + step))?;
    let before = resident()?;
    let mut text = String::new();
    for from in (0..rules).step_by(step as usize) {
        let to = (from + step).min(rules);
        let datagrams = made.add(from, to);
        let start = Instant::now();
        insert(&client, &datagrams)?;
        let rate = f64::from(to - from) / start.elapsed().as_secs_f64();
        let bytes = resident()? - before;
        text += &format!("point {to} {bytes} {rate}\n");
    }
    Ok(text)
}

fn insert(client: &Client, datagrams: &[Vec<u8>]) -> Result<(), String> {
    client.send_all(datagrams)
}
