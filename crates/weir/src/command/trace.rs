// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir trace`: prints the journeys of chosen packets as they end.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use super::bpf;
use crate::cli::{ANY, DeviceTrace, Trace};
use crate::engine::TraceSpec;
use crate::trace::Selection;

/// The interval between questions for complete journeys.
const LOOK: Duration = Duration::from_millis(100);
/// The number of packets that `weir run --trace` follows by default.
const OF_A_RUN: u64 = 10;

/// Prints journeys until the trace is complete.
pub fn run(args: &Trace) -> Result<ExitCode, String> {
    let socket = args.socket.as_deref();
    let program = bpf::compile_words(&args.expression)?;
    let device = args
        .device
        .as_ref()
        .filter(|device| device.to_string() != ANY);
    let answer = super::ask(
        socket,
        &json!({
            "command": "trace",
            "device": device.map(ToString::to_string),
            "program": program.map(|program| program.to_text()),
            "nth": args.nth,
            "count": args.count,
            "process": std::process::id(),
        }),
    )?;
    let id = answer["id"]
        .as_u64()
        .ok_or("the stack did not start a trace")?;
    if std::io::stderr().is_terminal() {
        eprintln!("weir: tracing; Ctrl-C ends it");
    }
    loop {
        let answer = super::ask(socket, &json!({ "command": "traced", "id": id }))?;
        let what = if args.json { "data" } else { "text" };
        for journey in answer[what].as_array().into_iter().flatten() {
            match journey.as_str() {
                Some(text) => super::print(&format!("{text}\n"))?,
                None => super::print(&format!("{journey}\n"))?,
            }
        }
        if answer["ended"].as_bool() == Some(true) {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(LOOK);
    }
}

/// Compiles the traces of a run.
pub fn of_run(traces: &[DeviceTrace]) -> Result<Vec<TraceSpec>, String> {
    let compile = |trace: &DeviceTrace| {
        let filter = trace.expression.as_deref().map(bpf::compile).transpose();
        let filter = filter.map_err(|error| format!("--trace {}: {error}", trace.spec))?;
        Ok(TraceSpec {
            device: trace.device.clone(),
            selection: Selection {
                device: None,
                filter,
                nth: trace.nth,
                count: Some(trace.count.unwrap_or(OF_A_RUN)),
            },
        })
    };
    traces.iter().map(compile).collect()
}
