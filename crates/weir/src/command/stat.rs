// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir stat`: shows counters of the stack in which it runs, or of one behind a control socket.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::cli::{Stat, StatWhat, Switch};
use crate::report::units::Style;

/// Requests the report and prints it.
pub fn run(args: &Stat) -> Result<ExitCode, String> {
    let what = match args.what {
        None | Some(StatWhat::All) => "report",
        Some(StatWhat::Stages) => "stages",
        Some(StatWhat::Qdisc) => "qdisc",
    };
    if what != "qdisc" && (args.locks || args.histogram || args.measure.is_some()) {
        return Err("--locks, --histogram and --measure need `weir stat qdisc`".into());
    }
    // The default is both.
    let all = !args.locks && !args.histogram;
    let answer = super::ask(
        args.socket.as_deref(),
        &json!({
            "command": "stat",
            "what": what,
            "all": args.all,
            "colour": Style::of_stdout(false).colour && !args.json,
            "locks": args.locks || all,
            "histogram": args.histogram || all,
            "measure": args.measure.map(|switch| switch == Switch::On),
        }),
    )?;
    let shown = if args.json {
        serde_json::to_string_pretty(&answer["data"]).map_err(|error| error.to_string())? + "\n"
    } else {
        answer["text"].as_str().unwrap_or_default().to_owned()
    };
    super::print(&shown)?;
    debug_assert!(answer["data"] != Value::Null);
    Ok(ExitCode::SUCCESS)
}
