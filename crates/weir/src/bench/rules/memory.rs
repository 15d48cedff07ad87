// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory a rule and the rate of insertion, against the number of rules that are there.
//!
//! Measured in a process of its own: the difference of resident memory (`Rss` of
//! `/proc/self/smaps_rollup`) between no rules and all, which counts everything: tables, allocator,
//! indices, what grows and is thrown away.

use std::time::Instant;

use super::super::Curve;
use super::bed::Bed;
use super::wire::{Client, Profile};

/// Points of a curve.
const POINTS: u32 = 20;

/// A table that grew: rules, octets of memory, rules a second since the last point.
pub struct Grown(Vec<(f64, f64, f64)>);

impl Grown {
    /// Octets a rule at the end.
    pub fn bytes(&self) -> f64 {
        self.0
            .last()
            .map_or(f64::NAN, |&(rules, bytes, _)| bytes / rules)
    }

    /// For the chart.
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

fn resident() -> Result<f64, String> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")
        .map_err(|error| format!("/proc/self/smaps_rollup: {error}"))?;
    let kilobytes = text.lines().find_map(|line| {
        line.strip_prefix("Rss:")?
            .split_whitespace()
            .next()?
            .parse::<f64>()
            .ok()
    });
    Ok(kilobytes.ok_or("smaps_rollup names no Rss")? * 1024.0)
}

/// Runs the measure in a process of its own.
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

/// The part: `PROFILE:RULES`.
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
    // What the clients' own requests take is there before the first look.
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
