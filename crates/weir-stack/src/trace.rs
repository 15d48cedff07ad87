// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a packet met on its way: notes written while tracing is on, read by captures and reports.
//!
//! A packet's metadata holds the number of its record (0: none). Off, every call is one load.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_packet::Packet;

#[derive(Debug, Default)]
struct Records {
    last: u32,
    notes: BTreeMap<u32, Vec<String>>,
}

/// The records of a stack; see the module's head.
#[derive(Debug)]
pub struct TraceLog {
    on: bool,
    records: Mutex<Records>,
}

impl TraceLog {
    /// A log that is on or off for good.
    pub fn new(on: bool) -> Self {
        Self {
            on,
            records: Mutex::default(),
        }
    }

    /// Whether packets are traced.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a note to the packet's record, making one if it has none.
    pub fn note(&self, packet: &mut Packet, text: impl FnOnce() -> String) {
        if !self.on {
            return;
        }
        let mut records = self.records();
        if packet.trace == 0 {
            records.last = records.last.wrapping_add(1).max(1);
            packet.trace = records.last;
        }
        records.notes.entry(packet.trace).or_default().push(text());
    }

    /// Gives a copy of a packet its own record with the same notes.
    pub fn copied(&self, copy: &mut Packet) {
        if !self.on || copy.trace == 0 {
            return;
        }
        let mut records = self.records();
        let notes = records.notes.get(&copy.trace).cloned().unwrap_or_default();
        records.last = records.last.wrapping_add(1).max(1);
        copy.trace = records.last;
        records.notes.insert(copy.trace, notes);
    }

    /// The notes of a packet, joined by `"; "`.
    pub fn read(&self, packet: &Packet) -> Option<String> {
        if !self.on || packet.trace == 0 {
            return None;
        }
        self.records()
            .notes
            .get(&packet.trace)
            .map(|notes| notes.join("; "))
    }

    /// Forgets a packet's record; to be called where a packet ends.
    pub fn end(&self, packet: &Packet) {
        if self.on && packet.trace != 0 {
            self.records().notes.remove(&packet.trace);
        }
    }
}
