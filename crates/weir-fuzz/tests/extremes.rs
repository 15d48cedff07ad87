// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every run terminates whatever values it is given: scripts of the target `extremes`, generated
//! from seeds.
//!
//! `some_scripts` plays a few. `search`, which `ci/fuzz` runs, goes on for `WEIR_SEARCH_SECONDS`
//! (60) from the seed `WEIR_SEARCH_FROM` (1). `WEIR_SEARCH_SHOW=1` prints each script. If a script
//! fails, the test prints its seed and the script and saves the choices in the temporary folder,
//! ready to be added to `fuzz/corpus/extremes`.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

use std::panic;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use weir_fuzz::extremes::{self, Figures};

/// A script that computes for longer has an endless loop within one turn of the loop. What other processes compute
/// meanwhile does not count.
const LONGEST: Duration = Duration::from_secs(20);

/// Returns the choices of a script, generated from its seed.
fn choices(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let length = 24 + (seed % 8) as usize * 24;
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(next).collect()
}

/// Returns the time that this thread has computed for.
fn computed() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// Plays a script. Returns `None` if it failed.
fn play(seed: u64) -> Option<Figures> {
    let (input, began) = (choices(seed), computed());
    let figures = panic::catch_unwind(|| extremes::play(&input)).ok();
    let took = computed() - began;
    let figures = figures.filter(|_| took < LONGEST);
    if figures.is_none() {
        let file = std::env::temp_dir().join(format!("weir-extremes-{seed}"));
        let _ = std::fs::write(&file, &input);
        eprintln!(
            "seed {seed} FAILED after {took:?}; its choices are in {}",
            file.display()
        );
    }
    figures
}

fn play_all(seeds: impl Iterator<Item = u64>) -> Figures {
    let (mut all, mut failed) = (Figures::default(), Vec::new());
    for seed in seeds {
        match play(seed) {
            Some(figures) => all.add(&figures),
            None => failed.push(seed),
        }
        assert!(failed.len() < 10, "seeds {failed:?}");
    }
    assert!(failed.is_empty(), "seeds {failed:?}");
    all
}

/// Enough requests must be accepted for the bounds to be exercised.
#[test]
fn some_scripts() {
    let all = play_all(1..=100);
    assert!(all.requests.0 > all.requests.1 / 2, "{all:?}");
    assert!(all.requests.0 > 200 && all.frames > 10_000, "{all:?}");
}

#[test]
#[ignore = "goes on for WEIR_SEARCH_SECONDS"]
fn search() {
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let end = Duration::from_secs(number("WEIR_SEARCH_SECONDS", 60));
    let (start, from) = (Instant::now(), number("WEIR_SEARCH_FROM", 1));
    let more = |seed: &u64| *seed == from || start.elapsed() < end;
    let all = play_all((from..).take_while(more));
    eprintln!("from seed {from}: {all:?}");
}
