// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Weir command line: `run`, `up`, `exec`, `play`, `stat`, `report`, `capture`, `inject`, `bench` and others.
#![deny(unsafe_code)]

mod allocator;
mod bench;
mod cli;
mod command;
mod engine;
mod inside;
mod perf;
mod playback;
mod report;
mod topology;
mod trace;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    allocator::prefer_large_pages();
    command::completions::answer();
    let words = command::arguments(std::env::args_os().collect());
    command::dispatch(cli::Cli::parse_from(words).command)
}
