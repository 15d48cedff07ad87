// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces of a running stack: those of `weir trace`, which a client collects, and those of
//! `weir run --trace`, which begin with the playback.

use serde_json::{Value, json};
use weir_packet::bpf::Program;

use super::{Engine, lock};
use crate::cli::DeviceName;
use crate::report::names_by_key;
use crate::trace::{Journey, Selection};

/// A trace of a run whose device the script creates.
pub struct TraceSpec {
    /// The device; `None` for all.
    pub device: Option<DeviceName>,
    /// The packets it chooses; without a device.
    pub selection: Selection,
}

impl Engine {
    /// Sets the traces that begin with the playback.
    pub fn trace_later(&self, specs: Vec<TraceSpec>) {
        lock(&self.traces).0 = specs;
    }

    pub(super) fn begin_traces(&self) -> Result<(), String> {
        let mut traces = lock(&self.traces);
        for spec in std::mem::take(&mut traces.0) {
            let selection = self.at_device(spec.device.as_ref(), spec.selection);
            let selection = selection.map_err(|error| match &spec.device {
                Some(device) => format!("--trace {device}: {error}"),
                None => format!("--trace: {error}"),
            })?;
            let id = self.tracer.start(&self.stack, selection, None);
            traces.1.push(id);
        }
        Ok(())
    }

    /// Ends the traces of the run. Returns the journeys of each, as text and JSON.
    pub fn finish_traces(&self) -> Vec<(String, Value)> {
        let names = names_by_key(self);
        let ids = std::mem::take(&mut lock(&self.traces).1);
        let journeys = ids
            .into_iter()
            .flat_map(|id| self.tracer.finish(&self.stack, id));
        journeys
            .map(|journey| (journey.to_text(&names), journey.to_json(&names)))
            .collect()
    }

    fn at_device(
        &self,
        device: Option<&DeviceName>,
        mut selection: Selection,
    ) -> Result<Selection, String> {
        if let Some(device) = device {
            let netns = device.netns.as_deref();
            let ns = self.namespace(netns);
            let missing = || format!("there is no namespace {}", netns.unwrap_or_default());
            let found = ns.ok_or_else(missing)?.device_by_name(&device.device);
            let found = found.ok_or_else(|| format!("there is no device {}", device.device))?;
            selection.device = Some(found.key);
        }
        Ok(selection)
    }

    /// Starts a trace for a process.
    pub(super) fn start_trace(&self, command: &Value) -> Result<Value, String> {
        if self.stack.clock.is_virtual() {
            // The command polls by the machine's clock, so the script would be over before it asks.
            return Err("time is virtual here: trace with `weir run --trace DEV[,EXPR]`".into());
        }
        self.tracer.reap(&self.stack);
        let device = command["device"].as_str();
        let device = device.map(str::parse::<DeviceName>).transpose()?;
        let program = command["program"].as_str();
        let program = program.map(Program::parse).transpose();
        let selection = Selection {
            device: None,
            filter: program.map_err(|error| error.to_string())?,
            nth: command["nth"].as_u64(),
            count: command["count"].as_u64(),
        };
        let selection = self.at_device(device.as_ref(), selection)?;
        let process = command["process"].as_u64();
        let process = process.and_then(|id| u32::try_from(id).ok());
        let process = process.ok_or("the command names no process")?;
        let id = self.tracer.start(&self.stack, selection, Some(process));
        Ok(json!({ "id": id }))
    }

    /// Returns the journeys that are complete since the last call.
    pub(super) fn traced(&self, command: &Value) -> Value {
        let id = command["id"].as_u64().unwrap_or(0);
        let (journeys, ended) = self.tracer.collect(&self.stack, id);
        let names = names_by_key(self);
        let text = journeys.iter().map(|journey| journey.to_text(&names));
        let text: Vec<_> = text.collect();
        let data: Vec<_> = journeys
            .iter()
            .map(|j: &Journey| j.to_json(&names))
            .collect();
        json!({ "text": text, "data": data, "ended": ended })
    }
}
