// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir play`: inside a run, time goes on.

use std::process::ExitCode;

use crate::cli::Play;

/// Asks the stack around to advance its clock.
pub fn run(args: &Play) -> Result<ExitCode, String> {
    let mut command = serde_json::json!({ "command": "play" });
    if let Some(time) = args.until {
        command["until"] = time.0.into();
    }
    crate::inside::ask(&command)?.ok_or("`weir play` is for scripts of `weir run`")?;
    Ok(ExitCode::SUCCESS)
}
