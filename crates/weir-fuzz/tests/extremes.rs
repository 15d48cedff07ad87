// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run comes to its end whatever values it is given: scripts of the target `extremes` by seed.
//!
//! `some_scripts` plays a few; `search`, which `ci/fuzz` runs, goes on for `WEIR_SEARCH_SECONDS` (60) from the seed
//! `WEIR_SEARCH_FROM` (1). `WEIR_SEARCH_SHOW=1` prints each script. A script that fails is named by its seed, printed
//! and left as a file in the temporary folder, ready for `fuzz/corpus/extremes`, where it stays.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

use std::panic;
use std::time::{Duration, Instant};

use weir_fuzz::extremes::{self, Figures};

/// A script that takes longer goes round and round without a turn of the loop.
const LONGEST: Duration = Duration::from_secs(20);

/// Choices of a script by its seed.
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

/// Plays a script; none: it failed.
fn play(seed: u64) -> Option<Figures> {
    let (input, began) = (choices(seed), Instant::now());
    let figures = panic::catch_unwind(|| extremes::play(&input)).ok();
    let figures = figures.filter(|_| began.elapsed() < LONGEST);
    if figures.is_none() {
        let file = std::env::temp_dir().join(format!("weir-extremes-{seed}"));
        let _ = std::fs::write(&file, &input);
        eprintln!(
            "seed {seed} FAILED after {:?}; its choices are in {}",
            began.elapsed(),
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

/// Many requests are taken, so that there is something to be held against the bounds.
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
