// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir play`: advances the clock inside a run.

use std::process::ExitCode;

use crate::cli::Play;

/// Requests that the stack in which it runs advances its clock.
pub fn run(args: &Play) -> Result<ExitCode, String> {
    let mut command = serde_json::json!({ "command": "play" });
    if let Some(time) = args.until {
        command["until"] = time.0.into();
    }
    crate::inside::ask(&command)?.ok_or("`weir play` works only in scripts of `weir run`")?;
    Ok(ExitCode::SUCCESS)
}
