// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The journeys of chosen packets: every device, filter, rewrite, next hop, wait and drop, with the
//! stack clock's time (`weir trace`, `weir run --trace`).
//!
//! A trace judges each packet once, where a device receives it, is to send it, or gets it from a
//! redirecting filter. A journey begins where its packet was chosen and ends when the packet is
//! freed. A copy of a chosen packet has a journey of its own.

mod fields;
mod show;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_packet::bpf::Program;
use weir_packet::tagged::Tagged;
use weir_stack::Stack;
use weir_stack::device::{Device, DeviceKey};
use weir_stack::trace::{Follower, Seen, Step};

use fields::{Change, Fields};

/// The number of complete journeys that a trace keeps until they are collected. It chooses no
/// further packets meanwhile.
const KEPT: usize = 10_000;

/// The packets that a trace chooses.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// The device at which packets are chosen; `None` for any.
    pub device: Option<DeviceKey>,
    /// The frames it chooses; `None` for all.
    pub filter: Option<Program>,
    /// Chooses only the n-th of these frames, from 1.
    pub nth: Option<u64>,
    /// Chooses only the first of these frames.
    pub count: Option<u64>,
}

impl Selection {
    /// Returns the number of packets after which the trace is complete.
    fn limit(&self) -> u64 {
        match self.nth {
            Some(_) => 1,
            None => self.count.unwrap_or(u64::MAX),
        }
    }
}

/// A device, by its key and the name it had.
#[derive(Debug, Clone)]
struct At(DeviceKey, String);

impl At {
    fn new(device: &Device) -> Self {
        Self(device.key, device.name())
    }
}

/// A step with its own data.
#[derive(Debug, Clone)]
enum What {
    Received,
    Redirected(bool),
    Filter(String),
    Forward(std::net::IpAddr, At),
    Local,
    Transmit,
    Queued,
    Left(u64, u32),
    Sent,
    Dropped(weir_stack::drops::Place, weir_packet::DropReason),
    /// A copy was made of the packet with this label.
    Copied(String),
}

/// A step of a journey.
#[derive(Debug, Clone)]
struct Stop {
    time: u64,
    at: At,
    what: What,
    changes: Vec<Change>,
}

/// The journey of a packet.
#[derive(Debug, Clone)]
pub struct Journey {
    /// The number of the packet among those that the filter accepted, from 1, and for a copy a dot
    /// and the number of the copy.
    label: String,
    flow: String,
    octets: usize,
    copies: u32,
    stops: Vec<Stop>,
    fields: Fields,
    /// The packet was freed.
    ended: bool,
}

impl Journey {
    fn add(&mut self, seen: &Seen<'_>) {
        let changes = match seen.step.has_frame() {
            true => {
                let now = Fields::of(seen.packet);
                let changes = self.fields.changes(&now);
                self.fields = now;
                changes
            }
            false => Vec::new(),
        };
        let what = match seen.step {
            Step::Received => What::Received,
            Step::Redirected(ingress) => What::Redirected(ingress),
            Step::Filter(text) => What::Filter(text.to_owned()),
            Step::Forward(next_hop, device) => What::Forward(next_hop, At::new(device)),
            Step::Local => What::Local,
            Step::Transmit => What::Transmit,
            Step::Queued => What::Queued,
            Step::Left(waited, class) => What::Left(waited, class),
            Step::Sent => What::Sent,
            Step::Dropped(place, reason) => What::Dropped(place, reason),
        };
        self.stops.push(Stop {
            time: seen.time,
            at: At::new(seen.device),
            what,
            changes,
        });
    }
}

/// One trace.
struct Trace {
    selection: Selection,
    /// The process that collects the journeys; `None` if the run does.
    process: Option<u32>,
    /// The packets judged that still exist.
    judged: BTreeSet<u32>,
    accepted: u64,
    chosen: u64,
    open: BTreeMap<u32, Journey>,
    done: Vec<Journey>,
}

impl Trace {
    fn step(&mut self, seen: &Seen<'_>) {
        let number = seen.packet.trace;
        if let Some(journey) = self.open.get_mut(&number) {
            return journey.add(seen);
        }
        let entry = matches!(
            seen.step,
            Step::Received | Step::Transmit | Step::Redirected(_)
        );
        let elsewhere = self
            .selection
            .device
            .is_some_and(|key| key != seen.device.key);
        if !entry || elsewhere || self.chosen >= self.selection.limit() || self.done.len() >= KEPT {
            return;
        }
        if !self.judged.insert(number) {
            return;
        }
        if let Some(filter) = &self.selection.filter
            && !filter.accepts(&Tagged::of(seen.packet, seen.device.framing()))
        {
            return;
        }
        self.accepted += 1;
        if self.selection.nth.is_some_and(|nth| nth != self.accepted) {
            return;
        }
        self.chosen += 1;
        let mut journey = Journey {
            label: self.accepted.to_string(),
            flow: crate::report::waits::flow_of(seen.packet),
            octets: seen.packet.len(),
            copies: 0,
            stops: Vec::new(),
            fields: Fields::of(seen.packet),
            ended: false,
        };
        journey.add(seen);
        self.open.insert(number, journey);
    }

    fn copied(&mut self, from: u32, to: u32) {
        self.judged.insert(to);
        let Some(journey) = self.open.get_mut(&from) else {
            return;
        };
        journey.copies += 1;
        let mut copy = journey.clone();
        copy.label = format!("{}.{}", journey.label, journey.copies);
        copy.copies = 0;
        // The steps before the copy are in the other journey.
        let last = copy.stops.drain(..).next_back();
        copy.stops.extend(last.map(|stop| Stop {
            what: What::Copied(journey.label.clone()),
            changes: Vec::new(),
            ..stop
        }));
        self.open.insert(to, copy);
    }

    fn ended(&mut self, number: u32) {
        self.judged.remove(&number);
        if let Some(mut journey) = self.open.remove(&number) {
            journey.ended = true;
            self.done.push(journey);
        }
    }

    fn is_complete(&self) -> bool {
        self.chosen >= self.selection.limit() && self.open.is_empty()
    }
}

#[derive(Default)]
struct Traces {
    last: u64,
    running: BTreeMap<u64, Trace>,
}

/// The traces of a stack.
#[derive(Default)]
pub struct Tracer(Mutex<Traces>);

impl Tracer {
    fn traces(&self) -> MutexGuard<'_, Traces> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the tracer of a stack.
    pub fn of(stack: &Stack) -> Arc<Self> {
        let tracer = Arc::new(Self::default());
        // A stack has one engine, which creates one tracer.
        let _ = stack.trace.follower.set(tracer.clone());
        tracer
    }

    /// Starts a trace and returns its number.
    pub fn start(&self, stack: &Stack, selection: Selection, process: Option<u32>) -> u64 {
        let id = {
            let mut traces = self.traces();
            traces.last += 1;
            let id = traces.last;
            let trace = Trace {
                selection,
                process,
                judged: BTreeSet::new(),
                accepted: 0,
                chosen: 0,
                open: BTreeMap::new(),
                done: Vec::new(),
            };
            traces.running.insert(id, trace);
            id
        };
        stack.trace.follow(true);
        id
    }

    /// Returns the complete journeys of a trace since the last call, and whether it has ended. A
    /// trace that has ended is removed.
    pub fn collect(&self, stack: &Stack, id: u64) -> (Vec<Journey>, bool) {
        let (journeys, complete) = {
            let mut traces = self.traces();
            let Some(trace) = traces.running.get_mut(&id) else {
                return (Vec::new(), true);
            };
            (std::mem::take(&mut trace.done), trace.is_complete())
        };
        if complete {
            self.remove(stack, |number, _| number == id);
        }
        (journeys, complete)
    }

    /// Ends a trace. Returns its journeys in the order in which their packets were chosen, also
    /// those of packets still in flight.
    pub fn finish(&self, stack: &Stack, id: u64) -> Vec<Journey> {
        let mut journeys = Vec::new();
        if let Some(trace) = self.traces().running.get_mut(&id) {
            journeys.append(&mut trace.done);
            journeys.extend(std::mem::take(&mut trace.open).into_values());
        }
        self.remove(stack, |number, _| number == id);
        let key = |journey: &Journey| {
            let parts = journey.label.split('.');
            parts
                .map(|part| part.parse().unwrap_or(0))
                .collect::<Vec<u64>>()
        };
        journeys.sort_by_cached_key(key);
        journeys
    }

    /// Ends the traces of processes that are gone.
    pub fn reap(&self, stack: &Stack) {
        self.remove(stack, |_, trace| {
            let gone = |id| !std::path::Path::new(&format!("/proc/{id}")).exists();
            trace.process.is_some_and(gone)
        });
    }

    fn remove(&self, stack: &Stack, which: impl Fn(u64, &Trace) -> bool) {
        let mut traces = self.traces();
        let before = traces.running.len();
        traces.running.retain(|id, trace| !which(*id, trace));
        let last = before > 0 && traces.running.is_empty();
        drop(traces);
        if last {
            stack.trace.follow(false);
        }
    }
}

impl Follower for Tracer {
    fn step(&self, seen: &Seen<'_>) {
        let mut traces = self.traces();
        traces.running.values_mut().for_each(|t| t.step(seen));
    }

    fn copied(&self, from: u32, to: u32) {
        let mut traces = self.traces();
        let running = traces.running.values_mut();
        running.for_each(|trace| trace.copied(from, to));
    }

    fn ended(&self, number: u32) {
        let mut traces = self.traces();
        let running = traces.running.values_mut();
        running.for_each(|trace| trace.ended(number));
    }
}
