// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands, one file each.

mod balance;
mod bpf;
mod capture;
pub mod completions;
mod exec;
mod extcap;
mod files;
mod inject;
mod join;
mod loops;
mod man;
mod netns;
mod pin;
mod play;
mod port;
mod progress;
mod rcu;
mod real_time;
mod report;
mod run;
mod stat;
mod top;
mod topology;
mod trace;
mod up;

pub use extcap::arguments;
pub use files::is_standard;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;
use weir_intercept::Backend;

use crate::cli::{Command, Mode};

/// The exit status for a failure of Weir itself, as opposed to the program it ran.
pub const FAILED: u8 = 125;

/// Runs a command and prints errors on standard error.
pub fn dispatch(command: Command) -> ExitCode {
    let result = match command {
        Command::Run(args) if args.real_time => real_time::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Up(args) => up::run(&args),
        Command::Exec(args) => exec::run(&args),
        Command::Play(args) => play::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Rcu(args) => rcu::run(&args),
        Command::Netns(command) => netns::run(&command),
        Command::Balance(command) => balance::run(&command),
        Command::Top(args) => top::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Capture(args) => capture::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Inject(args) => inject::run(&args),
        Command::Port(command) => port::run(&command),
        Command::Join(args) => join::run(&args),
        Command::Topology(args) => topology::run(&args),
        Command::Bench(args) => crate::bench::run(&args)
            .and_then(|text| print(&text))
            .map(|()| ExitCode::SUCCESS),
        Command::Extcap(args) => extcap::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("weir: {error}");
        ExitCode::from(FAILED)
    })
}

/// Sends a command to a stack: that of the named control socket, otherwise the one in which this
/// process runs, otherwise the user's own.
fn ask(socket: Option<&Path>, command: &Value) -> Result<Value, String> {
    Ok(ask_with(socket, command, Vec::new())?.0)
}

/// Sends a command with descriptors for the stack. The stack in which this process runs obtains
/// them without help. Returns the answer with the descriptors that come along.
fn ask_with(
    socket: Option<&Path>,
    command: &Value,
    files: Vec<OwnedFd>,
) -> Result<(Value, Vec<OwnedFd>), String> {
    match socket {
        Some(_) => exec::connect(socket)?.command_with(command, files),
        None => match crate::inside::ask(command)? {
            Some(answer) => Ok(answer),
            None => exec::connect(None)
                .map_err(|error| {
                    format!("this command works inside `weir run` or `weir exec`, or with the stack of a running `weir up`: {error}")
                })?
                .command_with(command, files),
        },
    }
}

/// Prints to standard output. A reader that closed the pipe is no error.
fn print(text: &str) -> Result<(), String> {
    print_on(text).map(drop)
}

/// Prints to standard output at once. Returns whether there is still a reader.
fn print_on(text: &str) -> Result<bool, String> {
    use std::io::Write;
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("standard output: {error}")),
    }
}

/// Returns the path of this program, which clients find as `weir`.
fn own_program() -> Option<std::path::PathBuf> {
    // Without it clients must know its path.
    std::env::current_exe().ok()
}

fn mode_of(mode: Mode) -> weir_intercept::Mode {
    match mode {
        Mode::Auto => weir_intercept::Mode::Auto,
        Mode::User => weir_intercept::Mode::Namespaces,
        Mode::Paths => weir_intercept::Mode::PathTraps,
    }
}
