// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir capture`: writes the frames of a device to standard output, live.
//!
//! The stack writes directly to this process's standard output. This process waits for the end: the
//! frame count, a reader that closed the pipe, or a signal.

use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use crate::cli::Capture;

/// The interval between checks for the end.
const LOOK: Duration = Duration::from_millis(100);

/// Captures until the end.
pub fn run(args: &Capture) -> Result<ExitCode, String> {
    if rustix::termios::isatty(std::io::stdout()) {
        return Err(
            "standard output is a terminal: pipe it to `tcpdump -r -` or into a file".into(),
        );
    }
    let socket = args.socket.as_deref();
    let program = super::bpf::compile_words(&args.expression)?;
    let output = std::io::stdout().as_fd().try_clone_to_owned();
    let output = output.map_err(|error| format!("standard output: {error}"))?;
    let answer = super::ask_with(
        socket,
        &json!({
            "command": "capture",
            "netns": args.device.netns,
            "device": args.device.device,
            "count": args.count,
            "program": program.map(|program| program.to_text()),
            "process": std::process::id(),
        }),
        vec![output],
    )?;
    let id = answer["id"]
        .as_u64()
        .ok_or("the stack did not start a capture")?;
    loop {
        std::thread::sleep(LOOK);
        let answer = super::ask(socket, &json!({ "command": "captured", "id": id }))?;
        if let Some(error) = answer["error"].as_str() {
            return Err(error.to_owned());
        }
        if answer["ended"].as_bool() == Some(true) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}
