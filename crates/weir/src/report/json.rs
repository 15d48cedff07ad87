// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report as JSON. `docs/report.schema.json` describes it, and a test checks one against the
//! other.

use serde_json::{Value, json};

use super::{DeviceReport, Drop, FileReport, Report, SCHEMA, tc};

fn files(files: &[FileReport]) -> Vec<Value> {
    let file = |f: &FileReport| {
        json!({
            "device": f.device, "file": f.file, "frames": f.frames, "octets": f.octets, "lost": f.lost,
        })
    };
    files.iter().map(file).collect()
}

fn drops(drops: &[Drop]) -> Vec<Value> {
    let drop = |drop: &Drop| {
        json!({
            "place": drop.place.name(),
            "reason": drop.reason.name(),
            "meaning": drop.reason.sentence(),
            "class": tc::drop_class(drop.reason.class()),
            "packets": drop.packets,
        })
    };
    drops.iter().map(drop).collect()
}

fn series(device: &DeviceReport) -> Value {
    let column = |of: fn(&super::Sample) -> u64| device.series.iter().map(of).collect::<Vec<_>>();
    json!({
        "rx_packets": column(|s| s.rx_packets),
        "rx_octets": column(|s| s.rx_octets),
        "tx_packets": column(|s| s.tx_packets),
        "tx_octets": column(|s| s.tx_octets),
        "drops": column(|s| s.drops),
        "waiting": column(|s| s.waiting),
    })
}

fn device(device: &DeviceReport) -> Value {
    let t = &device.totals;
    let mut value = json!({
        "name": device.name,
        "kind": device.kind,
        "rx": {
            "packets": t.rx_packets, "octets": t.rx_bytes, "errors": t.rx_errors,
            "dropped": t.rx_dropped, "multicast": t.multicast,
        },
        "tx": {
            "packets": t.tx_packets, "octets": t.tx_bytes, "errors": t.tx_errors,
            "dropped": t.tx_dropped,
        },
        "drops": drops(&device.drops),
        "qdiscs": device.qdiscs.iter().map(|qdisc| tc::qdisc_json(device, qdisc)).collect::<Vec<_>>(),
        "filters": device.filters.iter().map(tc::filter_json).collect::<Vec<_>>(),
    });
    if let Some(link) = &device.link {
        value["link"] = json!(link);
    }
    if let Some(waits) = device.waits {
        value["sojourn"] = waits.to_json();
        let flow = |flow: &super::FlowReport| json!({ "name": flow.name, "sojourn": flow.waits.to_json() });
        value["flows"] = device.flows.iter().map(flow).collect();
    }
    // A device that never moved a packet has no series.
    if device
        .series
        .iter()
        .any(|s| s.rx_packets + s.tx_packets + s.drops > 0)
    {
        value["series"] = series(device);
    }
    value
}

impl Report {
    /// Returns the report as JSON.
    pub fn to_json(&self) -> Value {
        let mut value = json!({
            "schema": SCHEMA,
            "weir": env!("CARGO_PKG_VERSION"),
            "seed": self.seed,
            "virtual_time": self.virtual_time,
            "partial": self.partial,
            "now_ns": self.now,
            "inputs": files(&self.inputs),
            "outputs": files(&self.outputs),
            "devices": self.devices.iter().map(device).collect::<Vec<_>>(),
            "gone": drops(&self.gone),
        });
        if let Some((from, to)) = self.traffic {
            value["traffic"] = json!({ "from_ns": from, "to_ns": to });
        }
        if let Some(traces) = &self.traces {
            value["traces"] = json!(traces);
        }
        if self.interval > 0 {
            value["interval_ns"] = json!(self.interval);
        }
        value
    }
}
