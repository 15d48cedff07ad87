// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir stat`: shows counters of the stack in which it runs, or of one behind a control socket.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::{Stat, StatWhat, Switch};
use crate::report::stages::StageReport;
use crate::report::units::Style;

/// The time between two tables of `--watch`.
const INTERVAL: Duration = Duration::from_secs(1);
/// Clears the screen of a terminal and moves to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Requests the report and prints it.
pub fn run(args: &Stat) -> Result<ExitCode, String> {
    let what = match args.what {
        None | Some(StatWhat::All) => "report",
        Some(StatWhat::Stages) => "stages",
        Some(StatWhat::Qdisc) => "qdisc",
        Some(StatWhat::Conntrack) => "conntrack",
        Some(StatWhat::Balance) => "balance",
        Some(StatWhat::Rcu) => "rcu",
        Some(StatWhat::Gateway) => "gateway",
    };
    if what != "qdisc" && (args.locks || args.histogram) {
        return Err("--locks and --histogram need `weir stat qdisc`".into());
    }
    if !matches!(what, "qdisc" | "stages") && args.measure.is_some() {
        return Err("--measure needs `weir stat qdisc` or `weir stat stages`".into());
    }
    if what == "stages" {
        return stages(args);
    }
    if args.groups || args.watch {
        return Err("--groups and --watch need `weir stat stages`".into());
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

/// Requests the counters of the stages.
fn ask_stages(args: &Stat) -> Result<StageReport, String> {
    let measure = args.measure.map(|switch| switch == Switch::On);
    let command = json!({ "command": "stat", "what": "stages", "measure": measure });
    let mut answer = super::ask(args.socket.as_deref(), &command)?;
    serde_json::from_value(answer["data"].take())
        .map_err(|error| format!("the stack answered for other stages: {error}"))
}

/// Shows the stages or their groups, once or every second.
fn stages(args: &Stat) -> Result<ExitCode, String> {
    let show = |report: &StageReport| -> Result<String, String> {
        Ok(match (args.json, args.groups, args.watch) {
            // One object a line.
            (true, _, true) => {
                serde_json::to_string(report).map_err(|error| error.to_string())? + "\n"
            }
            (true, _, false) => {
                serde_json::to_string_pretty(report).map_err(|error| error.to_string())? + "\n"
            }
            (false, true, _) => report.groups_to_text(),
            (false, false, _) => report.to_text(),
        })
    };
    let mut before = ask_stages(args)?;
    if !args.watch {
        super::print(&show(&before)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let terminal = rustix::termios::isatty(std::io::stdout());
    loop {
        std::thread::sleep(INTERVAL);
        let now = ask_stages(args)?;
        let text = show(&now.clone().since(&before))?;
        let (clear, gap) = match (args.json, terminal) {
            (true, _) => ("", ""),
            (false, true) => (CLEAR, ""),
            (false, false) => ("", "\n"),
        };
        if !super::print_on(&format!("{clear}{text}{gap}"))? {
            return Ok(ExitCode::SUCCESS);
        }
        before = now;
    }
}
