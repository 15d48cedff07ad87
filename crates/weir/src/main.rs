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
    // A stack knows the program by this name, also where its file has another.
    let named = rustix::thread::set_name(c"weir");
    if let Err(error) = named {
        eprintln!("weir: cannot set the name of the thread: {error}");
        return ExitCode::FAILURE;
    }
    allocator::prefer_large_pages();
    command::completions::answer();
    let words = command::arguments(std::env::args_os().collect());
    command::dispatch(cli::Cli::parse_from(words).command)
}
