// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir man DIR`

use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::{Cli, Man};

/// Writes `weir.1` and one page per command.
pub fn run(args: &Man) -> Result<ExitCode, String> {
    let failed = |error| format!("{}: {error}", args.directory.display());
    std::fs::create_dir_all(&args.directory).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), &args.directory).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
