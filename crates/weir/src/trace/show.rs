// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Journeys as text and as JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weir_stack::device::DeviceKey;

use super::fields::Change;
use super::{At, Journey, Stop, What};
use crate::report::{tc, units};

/// The names of devices with their namespaces. A device that no longer exists has only the name it
/// had.
pub type Names = BTreeMap<DeviceKey, String>;

fn name<'n>(names: &'n Names, at: &'n At) -> &'n str {
    names.get(&at.0).unwrap_or(&at.1)
}

fn describe(change: &Change) -> String {
    let Change { field, from, to } = change;
    match (from.is_empty(), to.is_empty()) {
        (true, _) => format!("{field}: {to}"),
        (_, true) => format!("{field}: {from} removed"),
        _ => format!("{field}: {from} -> {to}"),
    }
}

impl Stop {
    /// Returns the step's name in JSON and its description.
    fn text(&self, names: &Names) -> (&'static str, String) {
        match &self.what {
            What::Received => ("received", "received".into()),
            What::Redirected(true) => ("redirected", "redirected to its ingress".into()),
            What::Redirected(false) => ("redirected", "redirected to its egress".into()),
            What::Filter(text) => ("filter", format!("filter {text}")),
            What::Forward(next_hop, out) => {
                let out = name(names, out);
                ("forward", format!("forwarded to {next_hop} by {out}"))
            }
            What::Local => ("local", "for this host".into()),
            What::Transmit => ("transmit", "to be sent".into()),
            What::Queued => ("queued", "enters the qdisc".into()),
            What::Left(waited, 0) => ("left", format!("leaves the qdisc after {}", wait(*waited))),
            What::Left(waited, class) => {
                let (class, waited) = (tc::handle(*class), wait(*waited));
                let text = format!("leaves the qdisc after {waited}, class {class}");
                ("left", text)
            }
            What::Sent => ("sent", "sent".into()),
            What::Dropped(place, reason) => {
                let (place, sentence) = (place.name(), reason.sentence());
                let text = format!("dropped: {} at {place}: {sentence}", reason.name());
                ("dropped", text)
            }
            What::Copied(from) => ("copied", format!("copied from packet {from}")),
        }
    }

    fn to_json(&self, names: &Names) -> Value {
        let (step, text) = self.text(names);
        let mut value = json!({
            "time_ns": self.time, "device": name(names, &self.at), "step": step, "text": text,
        });
        match &self.what {
            What::Forward(next_hop, out) => {
                value["next_hop"] = json!(next_hop.to_string());
                value["by"] = json!(name(names, out));
            }
            What::Left(waited, class) => {
                value["waited_ns"] = json!(waited);
                if *class != 0 {
                    value["class"] = json!(tc::handle(*class));
                }
            }
            What::Dropped(place, reason) => {
                value["place"] = json!(place.name());
                value["reason"] = json!(reason.name());
            }
            _ => {}
        }
        if !self.changes.is_empty() {
            let change = |c: &Change| json!({ "field": c.field, "from": c.from, "to": c.to });
            let changes = self.changes.iter().map(change);
            value["changes"] = changes.collect();
        }
        value
    }
}

fn wait(ns: u64) -> String {
    match ns {
        0 => "0 s".into(),
        ns => units::time(ns),
    }
}

impl Journey {
    /// Returns how the journey ended.
    fn end(&self) -> &'static str {
        match self.stops.last().map(|stop| &stop.what) {
            _ if !self.ended => "in flight",
            Some(What::Dropped(..)) => "dropped",
            Some(What::Local) => "delivered",
            Some(What::Sent) => "sent",
            _ => "consumed",
        }
    }

    /// Returns the journey as JSON.
    pub fn to_json(&self, names: &Names) -> Value {
        let stops = self.stops.iter();
        json!({
            "packet": self.label, "flow": self.flow, "octets": self.octets, "end": self.end(),
            "steps": stops.map(|stop| stop.to_json(names)).collect::<Vec<_>>(),
        })
    }

    /// Returns the journey as text: a line for the packet, one for each step, and one for each
    /// rewritten field. A time is shown where it differs from the one before.
    pub fn to_text(&self, names: &Names) -> String {
        let Self { label, flow, .. } = self;
        let mut text = format!("packet {label}: {flow}, {} bytes\n", self.octets);
        let mut before = None;
        for stop in &self.stops {
            let time = match before == Some(stop.time) {
                true => String::new(),
                false => {
                    let (seconds, rest) = (stop.time / 1_000_000_000, stop.time % 1_000_000_000);
                    format!("{seconds}.{rest:09}")
                }
            };
            before = Some(stop.time);
            let device = name(names, &stop.at);
            text += &format!("{time:>16}  {device}: {}\n", stop.text(names).1);
            for change in &stop.changes {
                text += &format!("{:16}    rewritten {}\n", "", describe(change));
            }
        }
        let end = self.end();
        if matches!(end, "in flight" | "consumed") {
            text += &format!("{:16}  {end}\n", "");
        }
        text
    }
}
