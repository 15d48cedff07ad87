// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir completions SHELL`

use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::{Cli, Completions};

/// Prints the completion script.
pub fn run(args: &Completions) -> Result<ExitCode, String> {
    clap_complete::generate(
        args.shell,
        &mut Cli::command(),
        "weir",
        &mut std::io::stdout(),
    );
    Ok(ExitCode::SUCCESS)
}
