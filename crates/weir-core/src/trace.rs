// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The history of packets: notes recorded while tracing is on, for captures and reports.
//!
//! A packet's metadata holds the number of its record, or 0 if it has none. While tracing is off,
//! every call costs one load.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use weir_sync::order::{self, Mutex, MutexGuard};

use weir_packet::Packet;

use crate::device::Device;

#[derive(Debug, Default)]
struct Records {
    last: u32,
    notes: BTreeMap<u32, Vec<String>>,
    waiting: BTreeMap<u32, Waiting>,
}

impl Records {
    /// Assigns a record to the packet if it has none.
    fn number(&mut self, packet: &mut Packet) {
        if packet.trace == 0 {
            self.last = self.last.wrapping_add(1).max(1);
            packet.trace = self.last;
        }
    }
}

/// A packet waiting in a qdisc.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    since: u64,
    class: u32,
}

/// A packet that has left the qdiscs of a device.
#[derive(Debug)]
pub struct Left<'a> {
    /// The device.
    pub device: &'a Device,
    /// The class the packet waited in, or 0 if the root qdisc has no classes.
    pub class: u32,
    /// The time it waited in nanoseconds (its sojourn time).
    pub waited: u64,
    /// The stack clock's time in nanoseconds.
    pub time: u64,
    /// The packet.
    pub packet: &'a Packet,
}

/// Observes how long packets wait in qdiscs. It runs on the stack's CPUs and must not block for
/// long.
pub trait WaitObserver: Send + Sync {
    /// Called when a packet leaves the qdiscs of a device.
    fn left(&self, left: &Left<'_>);
}

/// The trace records of a stack; see the module documentation.
pub struct TraceLog {
    on: bool,
    /// The observer of waiting times. It is called only while tracing is on.
    pub waits: OnceLock<Arc<dyn WaitObserver>>,
    records: Mutex<Records, order::Trace>,
}

impl TraceLog {
    /// Creates a log. Whether it is on never changes.
    pub fn new(on: bool) -> Self {
        Self {
            on,
            waits: OnceLock::new(),
            records: Mutex::default(),
        }
    }

    /// Returns whether packets are traced.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    fn records(&self) -> MutexGuard<'_, Records, order::Trace> {
        self.records.lock()
    }

    /// Returns whether waiting times are observed.
    #[inline]
    pub fn watches_waits(&self) -> bool {
        self.on && self.waits.get().is_some()
    }

    /// Records that packets reached the root qdisc of a device at `now`.
    pub fn queued<'p>(&self, packets: impl Iterator<Item = &'p mut Packet>, now: u64) {
        let mut records = self.records();
        for packet in packets {
            records.number(packet);
            let (since, class) = (now, 0);
            records
                .waiting
                .insert(packet.trace, Waiting { since, class });
        }
    }

    /// Records that a packet now waits in this class.
    pub fn waits_in(&self, packet: &Packet, class: u32) {
        if let Some(waiting) = self.records().waiting.get_mut(&packet.trace) {
            waiting.class = class;
        }
    }

    /// Reports that a packet left the qdiscs of a device at `time`.
    pub fn left(&self, device: &Device, packet: &Packet, time: u64) {
        let waited = self.records().waiting.get(&packet.trace).copied();
        if let (Some(Waiting { since, class }), Some(observer)) = (waited, self.waits.get()) {
            observer.left(&Left {
                device,
                class,
                waited: time.saturating_sub(since),
                time,
                packet,
            });
        }
    }

    /// Adds a note to the packet's record, creating the record if necessary.
    pub fn note(&self, packet: &mut Packet, text: impl FnOnce() -> String) {
        if !self.on {
            return;
        }
        let mut records = self.records();
        records.number(packet);
        records.notes.entry(packet.trace).or_default().push(text());
    }

    /// Gives a copy of a packet its own record with the same notes.
    pub fn copied(&self, copy: &mut Packet) {
        if !self.on || copy.trace == 0 {
            return;
        }
        let mut records = self.records();
        let notes = records.notes.get(&copy.trace).cloned();
        copy.trace = 0;
        if let Some(notes) = notes {
            records.number(copy);
            records.notes.insert(copy.trace, notes);
        }
    }

    /// Returns the notes of a packet, joined by `"; "`.
    pub fn read(&self, packet: &Packet) -> Option<String> {
        if !self.on || packet.trace == 0 {
            return None;
        }
        self.records()
            .notes
            .get(&packet.trace)
            .map(|notes| notes.join("; "))
    }

    /// Discards a packet's record. Must be called wherever a packet is freed.
    pub fn end(&self, packet: &Packet) {
        if self.on && packet.trace != 0 {
            let mut records = self.records();
            records.notes.remove(&packet.trace);
            records.waiting.remove(&packet.trace);
        }
    }
}

impl std::fmt::Debug for TraceLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceLog")
            .field("on", &self.on)
            .finish_non_exhaustive()
    }
}
