// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of maps, measured in processes of their own.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]
#![allow(unsafe_code, reason = "sets a limit of the process")]

use std::process::Command;

use weir_map::{
    Error, Kind, LruHashMap, LruOptions, Map, MapOfMaps, MapOptions, OuterKind, Policy, Spread,
};

/// The process's address space and resident memory in bytes.
fn used() -> (usize, usize) {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let mut pages = statm
        .split(' ')
        .map(|pages| pages.parse::<usize>().unwrap());
    (pages.next().unwrap() * 4096, pages.next().unwrap() * 4096)
}

/// Runs a test of this file alone in a process. Returns whether this is that process.
fn is_alone(name: &str) -> bool {
    if std::env::var_os("WEIR_MAP_ALONE").is_some() {
        return true;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env("WEIR_MAP_ALONE", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains("1 passed"), "{text}");
    false
}

/// The address space of sanitizers is not that of the maps.
fn is_sanitized() -> bool {
    used().0 > 1 << 40
}

#[test]
fn ten_million_entries_are_made_and_dropped_without_their_memory() {
    if !is_alone("ten_million_entries_are_made_and_dropped_without_their_memory") {
        return;
    }
    let before = used();
    for policy in [Policy::Clock, Policy::S3Fifo, Policy::Exact] {
        for spread in [Spread::Common, Spread::PerCpu, Spread::Borrow] {
            let options = LruOptions {
                policy,
                spread,
                idle: Some(10),
                ..LruOptions::default()
            };
            let Ok(map) = LruHashMap::<u32, u64>::new(10_000_000, options) else {
                assert!(policy == Policy::Exact && spread != Spread::Common);
                continue;
            };
            map.insert(1, 1).unwrap();
            let during = used();
            assert!(during.0 > before.0 + 250_000_000, "{policy:?} {spread:?}");
            // Huge pages may hold the few places that were written.
            let touched = during.1 - before.1;
            assert!(touched < 24 << 20, "{policy:?} {spread:?}: {touched}");
            drop(map);
        }
    }
    let after = used();
    assert!(after.0 < before.0 + (4 << 20), "{before:?} {after:?}");
    assert!(after.1 < before.1 + (4 << 20), "{before:?} {after:?}");
}

#[test]
fn an_outage_of_memory_is_an_error_and_nothing_leaks() {
    if is_sanitized() || !is_alone("an_outage_of_memory_is_an_error_and_nothing_leaks") {
        return;
    }
    let before = used().0;
    let limit = libc::rlimit {
        rlim_cur: (before + (64 << 20)) as u64,
        rlim_max: (before + (64 << 20)) as u64,
    };
    // SAFETY: the call reads `limit`.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    assert_eq!(set, 0);
    let (mut made, mut refused) = (0, 0);
    let mut count = |error: Option<Error>| match error {
        None => made += 1,
        Some(error) => {
            assert_eq!(error, Error::NoMem);
            refused += 1;
        }
    };
    // Small steps, so that each of a map's mappings is once the one that fails.
    for max_entries in (100_000..3_000_000).step_by(20_000) {
        for kind in Kind::ALL {
            for (policy, spread) in [
                (Policy::Clock, Spread::Borrow),
                (Policy::S3Fifo, Spread::PerCpu),
                (Policy::Exact, Spread::Common),
            ] {
                let options = MapOptions {
                    kind,
                    key_size: if kind == Kind::LpmTrie { 8 } else { 4 },
                    value_size: 8,
                    max_entries,
                    lru: LruOptions {
                        policy,
                        spread,
                        idle: Some(10),
                        ..LruOptions::default()
                    },
                };
                count(Map::new(options).err());
            }
        }
        let options = MapOptions {
            kind: Kind::Hash,
            key_size: 4,
            value_size: 8,
            max_entries: 1,
            lru: LruOptions::default(),
        };
        let (template, domain) = (
            Map::new(options).unwrap(),
            weir_sync::rcu::Domain::default(),
        );
        for kind in [OuterKind::Array, OuterKind::Hash] {
            count(MapOfMaps::new(&domain, kind, 4, max_entries, &template).err());
        }
    }
    assert!(made > 100 && refused > 100, "{made} {refused}");
    let after = used().0;
    assert!(after < before + (4 << 20), "{before} {after}");
    // The memory that a refused map leaves is enough for another.
    LruHashMap::<u32, u64>::new(1_000_000, LruOptions::default()).unwrap();
}
