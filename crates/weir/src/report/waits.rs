// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sojourn times of packets in the qdiscs of a run: one histogram per class and one per flow.
//!
//! The sojourn time of a packet is the time from its arrival at the root qdisc of a device to its
//! departure from it, in virtual time. Histograms have three significant digits.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use weir_packet::Packet;
use weir_packet::dissect::{self, FlowKeys, Used};
use weir_stack::device::DeviceKey;
use weir_stack::trace::{Left, WaitObserver};

/// The number of flows per device with a histogram of their own. Later flows share one.
const FLOWS: usize = 64;

/// Quantiles of sojourn times, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantiles {
    /// The number of packets that left.
    pub packets: u64,
    /// The median.
    pub p50: u64,
    /// The 95th percentile.
    pub p95: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The maximum.
    pub max: u64,
}

impl Quantiles {
    fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| histogram.value_at_quantile(quantile);
        (!histogram.is_empty()).then(|| Self {
            packets: histogram.len(),
            p50: at(0.50),
            p95: at(0.95),
            p99: at(0.99),
            max: histogram.max(),
        })
    }

    /// Returns the quantiles as JSON.
    pub fn to_json(self) -> Value {
        json!({
            "packets": self.packets, "p50_ns": self.p50, "p95_ns": self.p95, "p99_ns": self.p99,
            "max_ns": self.max,
        })
    }
}

/// A flow's part of the report.
#[derive(Debug, Clone)]
pub struct FlowReport {
    /// `udp 10.1.0.2:4000 > 10.2.0.2:4001`, or the kind of frames.
    pub name: String,
    /// The sojourn times of its packets.
    pub waits: Quantiles,
}

#[derive(Default)]
struct OfDevice {
    classes: BTreeMap<u32, Histogram<u64>>,
    flows: BTreeMap<String, Histogram<u64>>,
}

/// The histograms of a run; see the module documentation.
#[derive(Default)]
pub struct Waits(Mutex<BTreeMap<DeviceKey, OfDevice>>);

fn new_histogram() -> Histogram<u64> {
    #[expect(clippy::expect_used, reason = "three significant digits are valid")]
    Histogram::new(3).expect("3 is a valid number of significant digits")
}

fn record(histogram: &mut Histogram<u64>, waited: u64) {
    // The histogram grows automatically. Only a time of 2^63 ns could fail.
    let _ = histogram.record(waited);
}

/// Returns the name of a frame's flow.
pub fn flow_of(packet: &Packet) -> String {
    let mut keys = FlowKeys::default();
    dissect::dissect(packet, Used::FIVE_TUPLE, &mut keys);
    let v4 = |bytes: [u8; 16]| Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).to_string();
    let v6 = |bytes: [u8; 16]| Ipv6Addr::from(bytes).to_string();
    let (src, dst, bracket) = match keys.addr_type {
        dissect::ADDR_IPV4 => (v4(keys.src), v4(keys.dst), false),
        dissect::ADDR_IPV6 => (v6(keys.src), v6(keys.dst), true),
        _ if keys.n_proto == 0x0806 => return "arp".to_owned(),
        _ => return format!("ethertype {:#06x}", keys.n_proto),
    };
    let protocol = match keys.ip_proto {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "icmpv6".to_owned(),
        132 => "sctp".to_owned(),
        other => format!("protocol {other}"),
    };
    match (keys.src_port, keys.dst_port, bracket) {
        (0, 0, _) => format!("{protocol} {src} > {dst}"),
        (from, to, false) => format!("{protocol} {src}:{from} > {dst}:{to}"),
        (from, to, true) => format!("{protocol} [{src}]:{from} > [{dst}]:{to}"),
    }
}

impl WaitObserver for Waits {
    fn left(&self, left: &Left<'_>) {
        let flow = flow_of(left.packet);
        let mut devices = self.devices();
        let device = devices.entry(left.device.key).or_default();
        let class = device.classes.entry(left.class);
        record(class.or_insert_with(new_histogram), left.waited);
        let name = match device.flows.contains_key(&flow) || device.flows.len() < FLOWS {
            true => flow,
            false => "all other flows".to_owned(),
        };
        let flow = device.flows.entry(name);
        record(flow.or_insert_with(new_histogram), left.waited);
    }
}

impl Waits {
    fn devices(&self) -> MutexGuard<'_, BTreeMap<DeviceKey, OfDevice>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the quantiles of all packets that left a device's qdiscs.
    pub fn of_device(&self, device: DeviceKey) -> Option<Quantiles> {
        let devices = self.devices();
        let mut all = new_histogram();
        for histogram in devices.get(&device)?.classes.values() {
            let _ = all.add(histogram);
        }
        Quantiles::of(&all)
    }

    /// Returns the quantiles of the packets that waited in a class.
    pub fn of_class(&self, device: DeviceKey, class: u32) -> Option<Quantiles> {
        let devices = self.devices();
        Quantiles::of(devices.get(&device)?.classes.get(&class)?)
    }

    /// Returns the flows of a device, those with most packets first.
    pub fn flows(&self, device: DeviceKey) -> Vec<FlowReport> {
        let devices = self.devices();
        let Some(device) = devices.get(&device) else {
            return Vec::new();
        };
        let report = |(name, histogram): (&String, &Histogram<u64>)| {
            let waits = Quantiles::of(histogram)?;
            let name = name.clone();
            Some(FlowReport { name, waits })
        };
        let mut flows: Vec<_> = device.flows.iter().filter_map(report).collect();
        flows.sort_by_key(|flow| std::cmp::Reverse(flow.waits.packets));
        flows
    }
}
