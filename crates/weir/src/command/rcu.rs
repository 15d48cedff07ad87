// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir rcu`: shows or changes the mode of a stack's RCU callbacks.

use std::process::ExitCode;

use serde_json::json;

use crate::cli::Rcu;

/// Executes the command.
pub fn run(args: &Rcu) -> Result<ExitCode, String> {
    let mode = args.mode.as_ref().map(ToString::to_string);
    let command = json!({ "command": "rcu", "mode": mode });
    let answer = super::ask(args.socket.as_deref(), &command)?;
    if args.mode.is_none() {
        super::print(&format!(
            "{}\n",
            answer["mode"].as_str().unwrap_or_default()
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
