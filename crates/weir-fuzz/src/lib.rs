// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bodies of the fuzz targets, as ordinary functions.
//!
//! They have two callers: the libFuzzer programs in `fuzz/` (`make fuzz`), and the test `replay`.
//! The test runs every file of `fuzz/corpus/` and a few seeded mutations of each with the stable
//! compiler on every `cargo test`. An input that once caused a crash is added to the corpus and
//! stays there.
//!
//! A target must not panic, loop or allocate without bound on any input. It also asserts the
//! invariants listed at the head of its file. A new target needs a file here, a line in
//! [`TARGETS`], a file in `fuzz/fuzz_targets/` with its `[[bin]]`, and a folder in `fuzz/corpus/`.
#![deny(unsafe_code)]

pub mod extremes;
pub mod frame;
pub mod gateway;
pub mod headers;
mod input;
pub mod map;
pub mod netlink;
pub mod nfnetlink;
pub mod pcap;
pub mod port;
pub mod ring;
pub mod router;
pub mod sockets;
pub mod tcp;

/// A fuzz target. Its folder in `fuzz/corpus/` has the same name.
pub struct Target {
    /// The name, as in `cargo fuzz run NAME`.
    pub name: &'static str,
    /// Runs the target on any bytes; panics if an invariant is violated.
    pub run: fn(&[u8]),
}

/// All targets.
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
        name: "gateway",
        run: gateway::run,
    },
    Target {
        name: "headers",
        run: headers::run,
    },
    Target {
        name: "map",
        run: map::run,
    },
    Target {
        name: "netlink",
        run: netlink::run,
    },
    Target {
        name: "nfnetlink",
        run: nfnetlink::run,
    },
    Target {
        name: "pcap",
        run: pcap::run,
    },
    Target {
        name: "port",
        run: port::run,
    },
    Target {
        name: "ring",
        run: ring::run,
    },
    Target {
        name: "sockets",
        run: sockets::run,
    },
    Target {
        name: "tcp",
        run: tcp::run,
    },
];
