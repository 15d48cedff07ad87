// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `weir netns`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// `weir netns`
#[derive(Debug, Subcommand)]
pub enum NetnsCommand {
    /// Add namespaces.
    Add(NetnsAdd),
    /// List the names of namespaces.
    List(NetnsList),
    /// Delete namespaces with everything in them.
    Del(NetnsDel),
}

/// `weir netns add`
#[derive(Debug, Args)]
#[command(after_help = "\
The names are those of `ip netns`, which lists and deletes these namespaces too.\n\n\
A template is a script of ip, tc and sysctl commands. It runs in each new namespace, one after the other, with the \
name in the variable NETNS and the number in NUMBER. A file that is not executable runs in sh. The exit status of the \
script must be 0.\n\n\
All namespaces are added, or none: after an error, those that the command has added are deleted.")]
pub struct NetnsAdd {
    /// The control socket; by default, that of the stack in which the command runs, or else of the
    /// user's own stack.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// The number of namespaces. `%d` in the name stands for 0, 1 and so on.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST))]
    pub count: Option<u64>,
    /// A script that runs in each namespace.
    #[arg(long, value_name = "SCRIPT", value_hint = ValueHint::FilePath)]
    pub template: Option<PathBuf>,
    /// The name; with --count, a pattern like `r%d`.
    #[arg(value_name = "NAME")]
    pub name: String,
}

/// The largest number of namespaces that one command adds.
const MOST: u64 = 10_000_000;

/// `weir netns list`
#[derive(Debug, Args)]
pub struct NetnsList {
    /// The control socket; by default, that of the stack in which the command runs, or else of the
    /// user's own stack.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Print JSON, as `ip -json netns list` does.
    #[arg(long)]
    pub json: bool,
}

/// `weir netns del`
#[derive(Debug, Args)]
#[command(after_help = "\
If one of the names does not exist, nothing is deleted. A namespace in which a program runs, or whose file or socket is \
open, loses its name at once, and is deleted when it is no longer used.")]
pub struct NetnsDel {
    /// The control socket; by default, that of the stack in which the command runs, or else of the
    /// user's own stack.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Delete all named namespaces.
    #[arg(long)]
    pub all: bool,
    /// The names.
    #[arg(
        value_name = "NAME",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    pub names: Vec<String>,
}
