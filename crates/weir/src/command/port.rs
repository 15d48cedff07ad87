// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir port`: attaches live ports to devices of a running stack, detaches and shows them.
//!
//! This process opens the port's files with its own privileges and in its own network namespace, and
//! passes them to the stack.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use weir_port::keys::Keys;
use weir_port::kinds::kind;

use crate::cli::{PortAdd, PortCommand, PortShow, Role};
use crate::report::units::count;

/// Executes the command.
pub fn run(command: &PortCommand) -> Result<ExitCode, String> {
    match command {
        PortCommand::Add(args) => add(args)?,
        PortCommand::Del(args) => {
            let command = json!({
                "command": "port",
                "do": "del",
                "netns": args.device.netns,
                "device": args.device.device,
            });
            super::ask(args.socket.as_deref(), &command)?;
        }
        PortCommand::Show(args) => show(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Connects to a stack outside of this process. A program inside `weir exec` or `weir run` cannot pass
/// files of the host's network.
pub(super) fn connect(socket: Option<&Path>) -> Result<weir_intercept::control::Client, String> {
    let inside = socket.is_none()
        && crate::inside::ask(&json!({ "command": "port", "do": "show" }))?.is_some();
    if inside {
        return Err(
            "run this command outside of `weir exec` and `weir run`: it uses the host's network"
                .into(),
        );
    }
    super::exec::connect(socket)
}

fn add(args: &PortAdd) -> Result<(), String> {
    use weir_intercept::Backend;
    let kind = kind(&args.kind).map_err(|error| error.to_string())?;
    let keys = Keys::parse(kind.name, kind.keys, &args.keys).map_err(|error| error.to_string())?;
    let command = json!({
        "command": "port",
        "do": "add",
        "netns": args.device.netns,
        "device": args.device.device,
        "kind": kind.name,
        "keys": args.keys,
        "as": args.role.map(Role::name),
        "busy": args.busy_poll,
    });
    // Refuses before files are opened, which may be written to.
    let client = match kind.virtual_time {
        Some(_) => None,
        None => Some(connect(args.socket.as_deref())?),
    };
    let files = (kind.open)(&keys).map_err(|error| error.to_string())?;
    match client {
        Some(client) => client.command_with(&command, files),
        // Without files a program inside can ask as well.
        None if files.is_empty() => super::ask_with(args.socket.as_deref(), &command, files),
        None => connect(args.socket.as_deref())?.command_with(&command, files),
    }
    .map(drop)
}

fn show(args: &PortShow) -> Result<(), String> {
    let command = json!({ "command": "port", "do": "show" });
    let mut answer = super::ask(args.socket.as_deref(), &command)?;
    if let (Some(wanted), Some(all)) = (&args.device, answer.as_array_mut()) {
        let wanted = wanted.to_string();
        all.retain(|port| port["device"] == wanted.as_str());
        if all.is_empty() {
            return Err(format!("{wanted} has no port"));
        }
    }
    if args.json {
        let text = serde_json::to_string_pretty(&answer).map_err(|error| error.to_string())?;
        return super::print(&(text + "\n"));
    }
    let mut text = String::new();
    for port in answer.as_array().into_iter().flatten() {
        describe(&mut text, port);
    }
    super::print(&text)
}

/// Writes two lines about a port.
fn describe(text: &mut String, port: &Value) {
    let word = |key: &str| port[key].as_str().unwrap_or_default().to_owned();
    let number = |key: &str| count(port[key].as_u64().unwrap_or_default());
    let state = match (port["error"].as_str(), port["carrier"].as_bool()) {
        (Some(error), _) => format!("ended: {error}"),
        (None, Some(false)) => "no carrier".into(),
        _ => "up".into(),
    };
    let cpus = port["cpus"].as_array().into_iter().flatten();
    let cpus: Vec<_> = cpus.map(Value::to_string).collect();
    let mut steered: Vec<_> = port["rps_cpus"].as_array().into_iter().flatten().collect();
    steered.dedup();
    let steered: Vec<_> = steered
        .iter()
        .filter_map(|cpus| Some(cpus.as_array()?.iter().map(Value::to_string)))
        .map(|cpus| cpus.collect::<Vec<_>>().join(","))
        .filter(|cpus| !cpus.is_empty())
        .collect();
    let steered = match steered.is_empty() {
        true => String::new(),
        false => format!(" steered to {}", steered.join(" | ")),
    };
    let mode = if port["busy"] == true {
        "busy polling"
    } else {
        "sleeping"
    };
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{}: {} {} as {}, {state}, cpu {}{steered}, {mode}",
        word("device"),
        word("kind"),
        word("name"),
        word("as"),
        cpus.join(",")
    );
    let early = &port["early_drop"];
    match (early["on"] == true, early["packets"].as_u64()) {
        (true, dropped) => {
            let dropped = count(dropped.unwrap_or_default());
            let _ = writeln!(text, "    early drop: on, {dropped} packets");
        }
        (false, Some(dropped @ 1..)) => {
            let why = early["why_not"].as_str().unwrap_or_default();
            let _ = writeln!(
                text,
                "    early drop: off ({why}), {} packets",
                count(dropped)
            );
        }
        _ => {}
    }
    for (way, errors) in [("rx", "rx_errors"), ("tx", "tx_errors")] {
        let _ = writeln!(
            text,
            "    {way}: {} packets, {} bytes, {} errors, {} dropped",
            number(&format!("{way}_packets")),
            number(&format!("{way}_bytes")),
            number(errors),
            number(&format!("{way}_dropped")),
        );
    }
}
