// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir completions SHELL`: the script that connects a shell to this program, and the answers to
//! the shell's questions.
//!
//! The script calls `weir` with [`VARIABLE`] in its environment. The candidates come from the
//! declarations in [`crate::cli`], and the names of devices and namespaces from the stack that the
//! words typed so far name by `--socket`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_complete::CompletionCandidate;
use clap_complete::env::{CompleteEnv, Shells};
use serde_json::json;

use crate::cli::{Cli, Completions};

/// The environment variable by which the script asks for candidates.
const VARIABLE: &str = "WEIR_COMPLETE";

/// Prints the completion script.
pub fn run(args: &Completions) -> Result<ExitCode, String> {
    let shells = Shells::builtins();
    let shell = args.shell.to_string();
    let shell = shells
        .completer(&shell)
        .ok_or_else(|| format!("there are no completions for {shell}"))?;
    let mut script = Vec::new();
    shell
        .write_registration(VARIABLE, "weir", "weir", "weir", &mut script)
        .map_err(|error| error.to_string())?;
    super::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Answers a shell that asks for candidates, and ends the process. Returns if no shell asks.
pub fn answer() {
    CompleteEnv::with_factory(|| visible(&Cli::command()))
        .var(VARIABLE)
        .complete();
}

/// Returns the command without its hidden arguments, which the engine would offer if nothing else
/// fits.
fn visible(command: &Command) -> Command {
    let mut shown = Command::new(command.get_name().to_owned());
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    let arguments = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let subcommands = command.get_subcommands().map(visible);
    shown.args(arguments).subcommands(subcommands)
}

/// The names of a stack's devices (`dev` or `netns/dev`) and namespaces.
#[derive(Default)]
pub struct Names {
    /// The devices by namespace and index.
    pub devices: Vec<String>,
    /// The namespaces that have names.
    pub namespaces: Vec<String>,
}

/// Asks a stack for its names. Returns none if it does not run.
pub fn names(socket: Option<&std::path::Path>) -> Result<Names, String> {
    let answer = super::ask(socket, &json!({ "command": "names" }))?;
    let list = |what: &str| {
        let names = answer[what].as_array().into_iter().flatten();
        names
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect()
    };
    Ok(Names {
        devices: list("devices"),
        namespaces: list("namespaces"),
    })
}

/// Returns the value of `--socket` among the words typed so far.
fn socket_of(words: impl Iterator<Item = OsString>) -> Option<PathBuf> {
    let mut words = words.skip_while(|word| word != "--").skip(1);
    while let Some(word) = words.next() {
        if word == "--socket" {
            return words.next().map(PathBuf::from);
        }
        if let Some(path) = word
            .to_str()
            .and_then(|word| word.strip_prefix("--socket="))
        {
            return Some(path.into());
        }
    }
    None
}

/// A stack that does not answer has no candidates.
fn names_or_none() -> Names {
    names(socket_of(std::env::args_os()).as_deref()).unwrap_or_default()
}

fn beginning_with(current: &OsStr, names: Vec<String>) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let fits = |name: &String| name.starts_with(&*current);
    let names = names.into_iter().filter(fits);
    names.map(CompletionCandidate::new).collect()
}

/// The candidates for a device of a running stack.
pub fn devices(current: &OsStr) -> Vec<CompletionCandidate> {
    beginning_with(current, names_or_none().devices)
}

/// The candidates for a namespace of a running stack.
pub fn namespaces(current: &OsStr) -> Vec<CompletionCandidate> {
    beginning_with(current, names_or_none().namespaces)
}

/// The candidates for a benchmark.
pub fn benchmarks(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let fits = |bench: &&&crate::bench::Bench| bench.name.starts_with(&*current);
    let benches = crate::bench::ALL.iter().filter(fits);
    benches
        .map(|bench| CompletionCandidate::new(bench.name).help(Some(bench.about.into())))
        .collect()
}

/// The candidates for a kind of port.
pub fn port_kinds(current: &OsStr) -> Vec<CompletionCandidate> {
    let kinds = weir_port::kinds::KINDS.iter();
    beginning_with(current, kinds.map(|kind| kind.name.to_owned()).collect())
}
