// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the fuzz targets do with their input, as ordinary functions.
//!
//! Two callers share them: the libFuzzer programs in `fuzz/` (`make fuzz`), and the test
//! `replay`, which runs every file of `fuzz/corpus/` and a few seeded mutations of each with the
//! stable compiler on every `cargo test`. An input that once crashed goes into the corpus and stays
//! there.
//!
//! A target must not panic, loop or grow without bound on any input, and asserts what must hold
//! besides: see each file's head. To add one: a file here, a line in [`TARGETS`], a file in
//! `fuzz/fuzz_targets/` with its `[[bin]]`, a folder in `fuzz/corpus/`.
#![deny(unsafe_code)]

pub mod extremes;
pub mod frame;
pub mod headers;
pub mod netlink;
pub mod pcap;
pub mod router;

/// A target by name: the folder in `fuzz/corpus/` is called the same.
pub struct Target {
    /// As in `cargo fuzz run NAME`.
    pub name: &'static str,
    /// Takes any bytes; panics where something that must hold does not.
    pub run: fn(&[u8]),
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target {
        name: "extremes",
        run: extremes::run,
    },
    Target {
        name: "frame",
        run: frame::run,
    },
    Target {
        name: "headers",
        run: headers::run,
    },
    Target {
        name: "netlink",
        run: netlink::run,
    },
    Target {
        name: "pcap",
        run: pcap::run,
    },
];
