// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report of a stack: counters by device, qdisc, class, filter and action, drops by place and
//! reason, sojourn times, and all of it over time.

pub mod balance;
pub mod conntrack;
mod json;
pub mod page;
pub mod rcu;
pub mod series;
pub mod stages;
pub mod tc;
mod text;
pub mod transmit;
pub mod units;
pub mod waits;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_packet::{DropClass, DropReason};
use weir_stack::Stack;
use weir_stack::device::{Device, LinkTotals};
use weir_stack::drops::Place;
use weir_tc::report::{FilterReport, QdiscReport};

use crate::engine::Engine;
use crate::playback::Finished;
use series::{Recorder, Sample, Series};
use waits::{FlowReport, Quantiles, Waits};

/// The version of the report's JSON schema, `docs/report.schema.json`. It increases when a field is
/// removed or changes its meaning.
pub const SCHEMA: u32 = 1;

/// The packets dropped at one place for one reason.
#[derive(Debug, Clone, Copy)]
pub struct Drop {
    /// The place on the packet's path.
    pub place: Place,
    /// The reason.
    pub reason: DropReason,
    /// The number of packets.
    pub packets: u64,
}

/// A device's part of the report.
pub struct DeviceReport {
    /// `netns/dev` or `dev`.
    pub name: String,
    /// `IFLA_INFO_KIND`, or `loopback` for lo.
    pub kind: String,
    /// `netns/dev` of the device that `IFLA_LINK` names: a veth's peer, or a VLAN's lower device.
    pub link: Option<String>,
    /// The namespace of the device. Actions with the same index in a namespace are the same action.
    pub namespace: weir_stack::NsId,
    /// Counters.
    pub totals: LinkTotals,
    /// The drops.
    pub drops: Vec<Drop>,
    /// The qdiscs that were configured, with their classes.
    pub qdiscs: Vec<QdiscReport>,
    /// The filters with their actions.
    pub filters: Vec<FilterReport>,
    /// The sojourn times of packets in all its qdiscs.
    pub waits: Option<Quantiles>,
    /// The sojourn times of each class in which a packet waited.
    pub class_waits: BTreeMap<u32, Quantiles>,
    /// The sojourn times of each flow.
    pub flows: Vec<FlowReport>,
    /// The counters of each interval.
    pub series: Vec<Sample>,
}

/// A capture's part of the report.
pub struct FileReport {
    /// `netns/dev` or `dev`.
    pub device: String,
    /// The file.
    pub file: String,
    /// The number of frames read or written.
    pub frames: u64,
    /// The number of bytes in them.
    pub octets: u64,
    /// The number of frames lost.
    pub lost: u64,
}

/// The report of a stack.
pub struct Report {
    /// The stack's clock, ns.
    pub now: u64,
    /// The seed of all randomness.
    pub seed: u64,
    /// Whether time is virtual.
    pub virtual_time: bool,
    /// Whether the run was interrupted.
    pub partial: bool,
    /// The times of the first and the last packet, ns of the stack's clock, rounded to intervals.
    pub traffic: Option<(u64, u64)>,
    /// The length of an interval of the devices' series, ns; 0 without series.
    pub interval: u64,
    /// The devices by namespace and index.
    pub devices: Vec<DeviceReport>,
    /// The packets dropped for devices that no longer exist.
    pub gone: Vec<Drop>,
    /// The inputs.
    pub inputs: Vec<FileReport>,
    /// The outputs.
    pub outputs: Vec<FileReport>,
    /// The journeys of traced packets, as JSON, if the run traces.
    pub traces: Option<Vec<serde_json::Value>>,
}

/// The recording of a run, beside the stack's own counters.
#[derive(Clone, Default)]
pub struct Recording {
    series: Recorder,
    waits: Arc<Waits>,
}

impl Recording {
    /// Starts recording.
    pub fn start(&self, stack: &Stack) {
        self.series.start(stack);
        // A stack is recorded only once.
        let _ = stack.trace.waits.set(self.waits.clone());
    }
}

fn drops(counted: Vec<(Place, DropReason, u64)>) -> Vec<Drop> {
    let drop = |(place, reason, packets)| Drop {
        place,
        reason,
        packets,
    };
    counted.into_iter().map(drop).collect()
}

/// Returns the prefix of the device names of a namespace.
pub fn prefix(engine: &Engine, id: weir_stack::NsId) -> String {
    match (engine.name_of(id), id == Stack::INITIAL) {
        (Some(name), _) => format!("{name}/"),
        (None, true) => String::new(),
        (None, false) => format!("#{}/", id.0),
    }
}

fn kind_of(device: &Device) -> String {
    match (device.link.kind(), device.link.port()) {
        ("", Some(port)) => port.bus.to_owned(),
        ("", None) => "loopback".to_owned(),
        (kind, _) => kind.to_owned(),
    }
}

/// Returns the names of devices with their namespaces, by key.
pub fn names_by_key(engine: &Engine) -> BTreeMap<weir_stack::device::DeviceKey, String> {
    let mut names = BTreeMap::new();
    for ns in engine.stack.all_namespaces() {
        let prefix = prefix(engine, ns.id);
        for device in ns.all_devices() {
            names.insert(device.key, format!("{prefix}{}", device.name()));
        }
    }
    names
}

/// Returns the names of devices and namespaces, as commands take them.
pub fn names(engine: &Engine) -> serde_json::Value {
    let (mut devices, mut namespaces) = (Vec::new(), Vec::new());
    for ns in engine.stack.all_namespaces() {
        let name = engine.name_of(ns.id);
        // Commands cannot name a device in a namespace without a name.
        if name.is_none() && ns.id != Stack::INITIAL {
            continue;
        }
        let prefix = prefix(engine, ns.id);
        let of = ns.all_devices().into_iter();
        devices.extend(of.map(|device| format!("{prefix}{}", device.name())));
        namespaces.extend(name);
    }
    serde_json::json!({ "devices": devices, "namespaces": namespaces })
}

/// Collects the counters of a stack and the recording of a run.
pub fn collect(engine: &Engine, recording: Option<&Recording>) -> Report {
    let stack = &engine.stack;
    let mut series = recording.map_or_else(Series::default, |r| r.series.series(stack));
    let waits = recording.map(|recording| &recording.waits);
    let mut devices = Vec::new();
    let mut names = BTreeMap::new();
    let mut links = Vec::new();
    for ns in stack.all_namespaces() {
        let prefix = prefix(engine, ns.id);
        for device in ns.all_devices() {
            let (qdiscs, filters) = weir_tc::report::device(&device.tc);
            let name = format!("{prefix}{}", device.name());
            names.insert((ns.id, device.ifindex()), name.clone());
            links.push(device.link.lower(stack));
            let class_waits = waits.map_or_else(BTreeMap::new, |waits| {
                let classes = qdiscs.iter().flat_map(|qdisc| &qdisc.classes);
                let of = |class: u32| Some((class, waits.of_class(device.key, class)?));
                classes.filter_map(|class| of(class.classid)).collect()
            });
            devices.push(DeviceReport {
                name,
                kind: kind_of(&device),
                link: None,
                namespace: ns.id,
                totals: device.totals(),
                drops: drops(device.drops()),
                qdiscs,
                filters,
                waits: waits.and_then(|waits| waits.of_device(device.key)),
                class_waits,
                flows: waits.map_or_else(Vec::new, |waits| waits.flows(device.key)),
                series: series.devices.remove(&device.key).unwrap_or_default(),
            });
        }
    }
    for (device, link) in devices.iter_mut().zip(links) {
        device.link = link.and_then(|link| names.get(&link).cloned());
    }
    Report {
        now: stack.clock.now(),
        seed: stack.config.seed,
        virtual_time: stack.config.virtual_time,
        partial: false,
        traffic: series.traffic,
        interval: series.interval,
        devices,
        gone: drops(stack.gone.totals()),
        inputs: Vec::new(),
        outputs: Vec::new(),
        traces: None,
    }
}

impl Report {
    /// Adds the results of the run's captures.
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

    /// Returns the duration of the traffic.
    fn traffic_time(&self) -> Duration {
        let (from, to) = self.traffic.unwrap_or((0, self.now));
        Duration::from_nanos(to.saturating_sub(from))
    }

    /// Returns the number of dropped packets of a class.
    fn dropped(&self, class: DropClass) -> u64 {
        let of_devices = self.devices.iter().flat_map(|device| &device.drops);
        let all = of_devices.chain(&self.gone);
        let of_class = all.filter(|drop| drop.reason.class() == class);
        of_class.map(|drop| drop.packets).sum()
    }
}
