// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scripts of the target `extremes` by seed: `search` goes on for `WEIR_SEARCH_SECONDS`.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

use std::panic;
use std::time::{Duration, Instant};

use weir_fuzz::extremes::{self, Figures};

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

#[test]
#[ignore = "a search as long as one likes: WEIR_SEARCH_SECONDS, WEIR_SEARCH_FROM"]
fn search() {
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (seconds, mut seed) = (
        number("WEIR_SEARCH_SECONDS", 60),
        number("WEIR_SEARCH_FROM", 1),
    );
    let first = seed;
    let (start, mut all, mut failed) = (Instant::now(), Figures::default(), Vec::new());
    while seed == first || start.elapsed() < Duration::from_secs(seconds) {
        let began = Instant::now();
        let input = choices(seed);
        match panic::catch_unwind(|| extremes::play(&input)) {
            Ok(figures) => {
                all.requests.0 += figures.requests.0;
                all.requests.1 += figures.requests.1;
                all.frames += figures.frames;
                all.turns += figures.turns;
                all.most_frames = all.most_frames.max(figures.most_frames);
                if figures.share > all.share {
                    all.share = figures.share;
                    eprintln!("seed {seed}: {figures:?}");
                }
            }
            Err(_) => {
                eprintln!("seed {seed} FAILED");
                failed.push(seed);
            }
        }
        if began.elapsed() > Duration::from_secs(2) {
            eprintln!("seed {seed}: {:?} SLOW", began.elapsed());
        }
        seed += 1;
        if failed.len() >= 12 {
            break;
        }
    }
    eprintln!("up to seed {seed}: {all:?}");
    assert!(failed.is_empty(), "seeds {failed:?}");
}
