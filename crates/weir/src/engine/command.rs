// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands of `weir play`, `stat`, `rcu`, `netns`, `balance`, `capture`, `inject` and `port`: JSON objects with a `command` key.

use std::os::fd::OwnedFd;

use serde_json::{Value, json};

use super::{Engine, Goal, lock};
use crate::report;
use crate::report::units::Style;

/// Executes a command. Returns the answer and the descriptors for the client.
pub fn run(
    engine: &Engine,
    command: &Value,
    files: Vec<OwnedFd>,
) -> Result<(Value, Vec<OwnedFd>), String> {
    if command["command"] == "capture" {
        return lock(&engine.captures).start(engine, command, files);
    }
    answer(engine, command, files).map(|answer| (answer, Vec::new()))
}

/// Executes a command whose answer has no descriptors.
fn answer(engine: &Engine, command: &Value, files: Vec<OwnedFd>) -> Result<Value, String> {
    match command["command"].as_str() {
        Some("play") => play(engine, command["until"].as_u64()),
        Some("stat") if command["what"] == "gateway" => engine.gateway.stat(),
        Some("stat") => Ok(stat(engine, command)),
        Some("netns") => super::netns::run(engine, command),
        Some("balance") => super::balance::run(engine, command),
        Some("rcu") => rcu(engine, command["mode"].as_str()),
        Some("capture-names") => Ok(super::capture::names(engine)),
        Some("trace") => engine.start_trace(command),
        Some("traced") => Ok(engine.traced(command)),
        Some("names") => Ok(report::names(engine)),
        Some("port") => engine.ports.command(engine, command, files),
        Some("inject") => super::inject::run(engine, command),
        Some("captured") => Ok(lock(&engine.captures).look(engine, command)),
        _ => Err(format!("unknown command {command}")),
    }
}

fn stat(engine: &Engine, command: &Value) -> Value {
    let what = command["what"].as_str();
    if what == Some("qdisc") {
        if let Some(on) = command["measure"].as_bool() {
            engine.stack.measure_transmit(on);
        }
        let asked = |what: &str| command[what].as_bool().unwrap_or(true);
        let report = report::transmit::collect(engine);
        let text = report.to_text(asked("locks"), asked("histogram"));
        let data = report.to_json(asked("locks"), asked("histogram"));
        return json!({ "data": data, "text": text });
    }
    if what == Some("conntrack") {
        return report::conntrack::stat(engine);
    }
    if what == Some("balance") {
        return report::balance::stat(engine);
    }
    if what == Some("rcu") {
        return report::rcu::stat(&engine.stack.domain);
    }
    if what == Some("stages") {
        let mut stages = report::stages::collect(engine);
        let switch = command["measure"].as_bool();
        stages.hardware = Some(report::stages::hardware(engine, switch));
        return json!({ "data": stages, "text": stages.to_text() });
    }
    let report = report::collect(engine, engine.recording());
    let style = Style {
        colour: command["colour"].as_bool().unwrap_or(false),
        all: command["all"].as_bool().unwrap_or(false),
    };
    json!({ "data": report.to_json(), "text": report.to_text(style) })
}

/// Changes the mode of RCU callbacks, if there is one to change to. Returns the present one.
fn rcu(engine: &Engine, mode: Option<&str>) -> Result<Value, String> {
    let domain = &engine.stack.domain;
    if let Some(mode) = mode {
        let set = domain.set_mode(&mode.parse()?);
        set.map_err(|error| format!("the thread for callbacks: {error}"))?;
    }
    Ok(json!({ "mode": domain.mode().to_string() }))
}

fn play(engine: &Engine, until: Option<u64>) -> Result<Value, String> {
    if !engine.stack.clock.is_virtual() {
        return Err("the stack runs in real time: there is nothing to play".into());
    }
    let goal = until.map_or(Goal::Packets(None), Goal::Until);
    engine.play(goal, true)?;
    Ok(json!({ "now": engine.stack.clock.now() }))
}
