// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a stack did: counters by device, filter and action, drops by place and reason.

pub mod stages;
mod tc;
mod text;
pub mod transmit;

use serde_json::{Value, json};
use weir_packet::DropReason;
use weir_stack::device::LinkTotals;
use weir_stack::drops::Place;
use weir_tc::report::{FilterReport, QdiscReport};

use crate::engine::Engine;
use crate::playback::Finished;

/// A device's part of the report.
pub struct DeviceReport {
    /// `netns/dev` or `dev`.
    pub name: String,
    /// `IFLA_INFO_KIND`; `loopback` for lo.
    pub kind: String,
    /// Counters.
    pub totals: LinkTotals,
    /// (place, reason, packets)
    pub drops: Vec<(&'static str, &'static str, u64)>,
    /// Qdiscs, those that were asked for.
    pub qdiscs: Vec<QdiscReport>,
    /// Filters with their actions.
    pub filters: Vec<FilterReport>,
}

/// A capture's part of the report.
pub struct FileReport {
    /// `netns/dev` or `dev`.
    pub device: String,
    /// The file.
    pub file: String,
    /// Frames read or written.
    pub frames: u64,
    /// Their octets.
    pub octets: u64,
    /// Frames that were lost.
    pub lost: u64,
}

/// The report of a stack.
pub struct Report {
    /// Nanoseconds of the stack's clock.
    pub now: u64,
    /// Devices by namespace and index.
    pub devices: Vec<DeviceReport>,
    /// Packets dropped for devices that had gone, by place and reason.
    pub gone: Vec<(&'static str, &'static str, u64)>,
    /// What came in.
    pub inputs: Vec<FileReport>,
    /// What went out.
    pub outputs: Vec<FileReport>,
}

/// Drops with the names of places and reasons.
fn names(drops: Vec<(Place, DropReason, u64)>) -> Vec<(&'static str, &'static str, u64)> {
    let named =
        |(place, reason, count): (Place, DropReason, u64)| (place.name(), reason.name(), count);
    drops.into_iter().map(named).collect()
}

fn drops_json(drops: &[(&'static str, &'static str, u64)]) -> Value {
    drops
        .iter()
        .map(|(place, reason, packets)| json!({ "place": place, "reason": reason, "packets": packets }))
        .collect()
}

/// What stands before the names of a namespace's devices.
fn prefix(engine: &Engine, id: weir_stack::NsId) -> String {
    match (engine.name_of(id), id == weir_stack::Stack::INITIAL) {
        (Some(name), _) => format!("{name}/"),
        (None, true) => String::new(),
        (None, false) => format!("#{}/", id.0),
    }
}

/// Collects the counters of a stack.
pub fn collect(engine: &Engine) -> Report {
    let mut devices = Vec::new();
    for ns in engine.stack.all_namespaces() {
        let prefix = prefix(engine, ns.id);
        for device in ns.all_devices() {
            let (qdiscs, filters) = weir_tc::report::device(&device.tc);
            devices.push(DeviceReport {
                name: format!("{prefix}{}", device.name()),
                kind: match (device.link.kind(), device.link.port()) {
                    ("", Some(port)) => port.bus.to_owned(),
                    ("", None) => "loopback".to_owned(),
                    (kind, _) => kind.to_owned(),
                },
                totals: device.totals(),
                drops: names(device.drops()),
                qdiscs,
                filters,
            });
        }
    }
    Report {
        now: engine.stack.clock.now(),
        devices,
        gone: names(engine.stack.gone.totals()),
        inputs: Vec::new(),
        outputs: Vec::new(),
    }
}

impl Report {
    /// Adds what the run's captures came to.
    pub fn with_files(mut self, finished: &Finished) -> Self {
        self.inputs = finished
            .inputs
            .iter()
            .map(|(device, file, played)| FileReport {
                device: device.to_string(),
                file: file.clone(),
                frames: played.frames,
                octets: played.octets,
                lost: played.lost,
            })
            .collect();
        self.outputs = finished
            .outputs
            .iter()
            .map(|(device, file, summary)| FileReport {
                device: device.to_string(),
                file: file.clone(),
                frames: summary.frames,
                octets: summary.bytes,
                lost: summary.lost,
            })
            .collect();
        self
    }

    /// The report as data.
    pub fn to_json(&self) -> Value {
        let files = |files: &[FileReport]| -> Vec<Value> {
            let file = |f: &FileReport| json!({ "device": f.device, "file": f.file, "frames": f.frames, "octets": f.octets, "lost": f.lost });
            files.iter().map(file).collect()
        };
        let devices: Vec<Value> = self
            .devices
            .iter()
            .map(|device| {
                let t = &device.totals;
                let drops = drops_json(&device.drops);
                json!({
                    "name": device.name,
                    "kind": device.kind,
                    "rx": { "packets": t.rx_packets, "octets": t.rx_bytes, "errors": t.rx_errors, "dropped": t.rx_dropped, "multicast": t.multicast },
                    "tx": { "packets": t.tx_packets, "octets": t.tx_bytes, "errors": t.tx_errors, "dropped": t.tx_dropped },
                    "drops": drops,
                    "qdiscs": device.qdiscs.iter().map(tc::qdisc_json).collect::<Vec<_>>(),
                    "filters": device.filters.iter().map(tc::filter_json).collect::<Vec<_>>(),
                })
            })
            .collect();
        json!({ "now_ns": self.now, "inputs": files(&self.inputs), "outputs": files(&self.outputs), "devices": devices, "gone": drops_json(&self.gone) })
    }
}
