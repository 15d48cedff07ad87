// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of a run over time: the counters of each device at the end of each interval.
//!
//! The recorder is a timer of the stack's virtual clock. Intervals start at a millisecond. When a
//! run becomes longer than the recorder has room for, it joins neighbouring intervals and doubles
//! their length. Memory and work thus stay bounded, and the resolution is at worst 1/256 of the
//! run. The timer holds no packet, so it never prolongs a run, and it does not affect packets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_stack::Stack;
use weir_stack::clock::Holds;
use weir_stack::device::{Device, DeviceKey};

/// The length of the first intervals, ns.
const FIRST: u64 = 1_000_000;
/// The maximum number of intervals per device.
const MOST: usize = 512;
/// The maximum number of intervals of all devices together.
const MOST_IN_ALL: usize = 1 << 19;
/// The minimum number of intervals per device.
const LEAST: usize = 16;

/// The counters of a device.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_octets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_octets: u64,
    /// Packets dropped, for any reason.
    pub drops: u64,
    /// Packets in its qdiscs: the maximum over the ends of the joined intervals.
    pub waiting: u64,
}

impl Sample {
    fn of(device: &Device) -> Self {
        let totals = device.totals();
        Self {
            rx_packets: totals.rx_packets,
            rx_octets: totals.rx_bytes,
            tx_packets: totals.tx_packets,
            tx_octets: totals.tx_bytes,
            drops: device.drops().iter().map(|(_, _, packets)| packets).sum(),
            waiting: device
                .tc
                .root_stats()
                .map_or(0, |(_, _, queue)| queue.qlen.into()),
        }
    }

    /// Returns the difference to `before`.
    fn since(&self, before: &Sample) -> Sample {
        Sample {
            rx_packets: self.rx_packets.saturating_sub(before.rx_packets),
            rx_octets: self.rx_octets.saturating_sub(before.rx_octets),
            tx_packets: self.tx_packets.saturating_sub(before.tx_packets),
            tx_octets: self.tx_octets.saturating_sub(before.tx_octets),
            drops: self.drops.saturating_sub(before.drops),
            waiting: self.waiting,
        }
    }
}

/// The samples of a device. The first belongs to interval `first`.
#[derive(Debug, Default)]
struct OfDevice {
    first: usize,
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct State {
    interval: u64,
    /// The number of intervals that have ended.
    ended: usize,
    devices: BTreeMap<DeviceKey, OfDevice>,
}

/// The recorder; see the module documentation.
#[derive(Debug, Clone)]
pub struct Recorder(Arc<Mutex<State>>);

/// The counters of a run over time.
#[derive(Debug, Default, Clone)]
pub struct Series {
    /// The length of an interval, ns. The last one may be shorter.
    pub interval: u64,
    /// The counters of each device in each interval. The first interval starts at 0.
    pub devices: BTreeMap<DeviceKey, Vec<Sample>>,
    /// From the start of the first interval with a packet to the end of the last one, ns.
    pub traffic: Option<(u64, u64)>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State {
            interval: FIRST,
            ended: 0,
            devices: BTreeMap::new(),
        })))
    }
}

impl State {
    /// Ends an interval: samples every device.
    fn sample(&mut self, stack: &Stack) {
        let mut count = 0;
        for ns in stack.used_namespaces() {
            for device in ns.all_devices() {
                count += 1;
                let sample = Sample::of(&device);
                let kept = self.devices.entry(device.key).or_insert_with(|| OfDevice {
                    first: self.ended,
                    samples: Vec::new(),
                });
                // A device that was away has missed some samples.
                let last = kept.samples.last().copied().unwrap_or_default();
                kept.samples.resize(self.ended - kept.first, last);
                kept.samples.push(sample);
            }
        }
        self.ended += 1;
        let most = (MOST_IN_ALL / count.max(1)).clamp(LEAST, MOST) & !1;
        while self.ended >= most {
            self.join();
        }
    }

    /// Joins pairs of neighbouring intervals.
    fn join(&mut self) {
        // An odd interval at the end remains, as the first half of one in progress.
        let pairs = self.ended / 2;
        for device in self.devices.values_mut() {
            let at = |index: usize| {
                let index = index.checked_sub(device.first)?;
                device.samples.get(index).or(device.samples.last()).copied()
            };
            let first = device.first / 2;
            let joined = (first..pairs).map(|pair| {
                let (early, late) = (at(pair * 2), at(pair * 2 + 1).unwrap_or_default());
                let waiting = early.map_or(0, |early| early.waiting).max(late.waiting);
                Sample { waiting, ..late }
            });
            let joined: Vec<_> = joined.collect();
            device.samples = joined;
            device.first = first;
        }
        self.ended = pairs;
        self.interval *= 2;
    }
}

impl Recorder {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to sample the stack.
    pub fn start(&self, stack: &Stack) {
        let (recorder, time) = (self.clone(), {
            let state = self.state();
            state.interval * (state.ended as u64 + 1)
        });
        let job = move |cx: &mut weir_stack::Cx<'_>| {
            recorder.state().sample(cx.stack);
            recorder.start(cx.stack);
        };
        stack.arm(time, Holds::Nothing, Box::new(job));
    }

    /// Returns the counters by interval up to now.
    pub fn series(&self, stack: &Stack) -> Series {
        let mut state = self.state();
        if stack.clock.now() > state.interval * state.ended as u64 {
            state.sample(stack);
        }
        let (interval, ended) = (state.interval, state.ended);
        let (mut devices, mut busy) = (BTreeMap::new(), Vec::new());
        for (key, device) in &state.devices {
            let mut before = Sample::default();
            let mut counted = vec![Sample::default(); device.first];
            for sample in &device.samples {
                counted.push(sample.since(&before));
                before = *sample;
            }
            counted.resize(ended, Sample::default());
            let moved = |sample: &Sample| sample.rx_packets + sample.tx_packets > 0;
            let times = counted
                .iter()
                .enumerate()
                .filter(|(_, sample)| moved(sample));
            busy.extend(times.map(|(at, _)| at as u64));
            devices.insert(*key, counted);
        }
        let ends = busy.iter().min().zip(busy.iter().max());
        let traffic = ends.map(|(first, last)| {
            let end = (last + 1) * interval;
            (first * interval, end.min(stack.clock.now()))
        });
        Series {
            interval,
            devices,
            traffic,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(tx_packets: u64, waiting: u64) -> Sample {
        Sample {
            tx_packets,
            waiting,
            ..Sample::default()
        }
    }

    #[test]
    fn joining_keeps_counters_and_the_maximum_backlog() {
        let key = DeviceKey(1);
        let samples = vec![counted(1, 5), counted(3, 2), counted(3, 1)];
        let mut state = State {
            interval: 10,
            ended: 4,
            devices: BTreeMap::from([(key, OfDevice { first: 1, samples })]),
        };
        state.join();
        assert_eq!((state.interval, state.ended), (20, 2));
        let device = &state.devices[&key];
        assert_eq!(device.first, 0);
        assert_eq!(device.samples, [counted(1, 5), counted(3, 2)]);
    }
}
