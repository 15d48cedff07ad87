// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir balance`: layer-4 load balancers of the stack in which it runs, or of one behind a control socket.

use std::process::ExitCode;

use serde_json::json;

use crate::cli::{Backend, BalanceAdd, BalanceCommand, BalanceDel, BalanceSet, Balanced};

/// Executes the command.
pub fn run(command: &BalanceCommand) -> Result<ExitCode, String> {
    match command {
        BalanceCommand::Add(args) => add(args),
        BalanceCommand::Set(args) => set(args),
        BalanceCommand::Del(args) => del(args),
    }
}

fn texts(backends: &[Backend]) -> Vec<String> {
    backends.iter().map(ToString::to_string).collect()
}

fn add(args: &BalanceAdd) -> Result<ExitCode, String> {
    let netns = &args.device.netns;
    if let Some(other) = args.replies.iter().find(|reply| reply.netns != *netns) {
        return Err(format!(
            "{other} is in another namespace than {}",
            args.device
        ));
    }
    let replies: Vec<_> = args.replies.iter().map(|reply| &reply.device).collect();
    let command = json!({
        "command": "balance", "do": "add",
        "netns": netns, "device": args.device.device, "replies": replies,
        "service": args.service.to_string(), "backends": texts(&args.backends), "flows": args.flows,
    });
    let answer = super::ask(args.socket.as_deref(), &command)?;
    super::print(answer["text"].as_str().unwrap_or_default())?;
    Ok(ExitCode::SUCCESS)
}

fn set(args: &BalanceSet) -> Result<ExitCode, String> {
    let Balanced {
        socket,
        netns,
        service,
    } = &args.balanced;
    let command = json!({
        "command": "balance", "do": "set", "netns": netns,
        "service": service.to_string(), "backends": texts(&args.backends),
    });
    super::ask(socket.as_deref(), &command)?;
    Ok(ExitCode::SUCCESS)
}

fn del(args: &BalanceDel) -> Result<ExitCode, String> {
    let Balanced {
        socket,
        netns,
        service,
    } = &args.balanced;
    let command = json!({
        "command": "balance", "do": "del", "netns": netns, "service": service.to_string(),
    });
    super::ask(socket.as_deref(), &command)?;
    Ok(ExitCode::SUCCESS)
}
