// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The history of packets: notes recorded while tracing is on, for captures and reports.
//!
//! A packet's metadata holds the number of its record, or 0 if it has none. While tracing is off,
//! every call costs one load. A [`Follower`] sees every step of every packet (`weir trace`).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use weir_packet::{DropReason, Packet};
use weir_sync::order::{self, Mutex, MutexGuard};

use crate::device::Device;
use crate::drops::Place;

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

/// A step of a packet's journey.
#[derive(Debug, Clone, Copy)]
pub enum Step<'a> {
    /// The device received it.
    Received,
    /// A filter redirected or mirrored it to the device's ingress (`true`) or egress.
    Redirected(bool),
    /// A filter matched; the text names the filter and its verdict.
    Filter(&'a str),
    /// Routing found the next hop and the device to send by.
    Forward(IpAddr, &'a Device),
    /// It is for this host.
    Local,
    /// The device is to send it.
    Transmit,
    /// It reached the root qdisc of the device.
    Queued,
    /// It left the qdiscs after this time in nanoseconds. The second number is the class it waited
    /// in, or 0.
    Left(u64, u32),
    /// The device sent it.
    Sent,
    /// It was dropped.
    Dropped(Place, DropReason),
}

impl Step<'_> {
    /// Returns whether the packet's data is the frame that the device receives or sends.
    pub fn has_frame(&self) -> bool {
        !matches!(self, Step::Forward(..) | Step::Local | Step::Dropped(..))
    }
}

/// A step as passed to a follower.
#[derive(Debug)]
pub struct Seen<'a> {
    /// The device.
    pub device: &'a Device,
    /// The stack clock's time in nanoseconds.
    pub time: u64,
    /// The packet. Its `trace` is the number of its record.
    pub packet: &'a Packet,
    /// The step.
    pub step: Step<'a>,
}

/// Follows packets on their way. It runs on the stack's CPUs and must not block for long.
pub trait Follower: Send + Sync {
    /// Called for each step of a packet.
    fn step(&self, seen: &Seen<'_>);
    /// Called when a copy of a packet gets its own record.
    fn copied(&self, from: u32, to: u32);
    /// Called when a packet is freed.
    fn ended(&self, number: u32);
}

/// The trace records of a stack; see the module documentation.
pub struct TraceLog {
    /// Whether packets have records from the start.
    always: bool,
    on: AtomicBool,
    following: AtomicBool,
    /// The follower of packets. It is called only between [`follow`](Self::follow) with `true` and
    /// with `false`.
    pub follower: OnceLock<Arc<dyn Follower>>,
    /// The observer of waiting times. It is called only while tracing is on.
    pub waits: OnceLock<Arc<dyn WaitObserver>>,
    records: Mutex<Records, order::Trace>,
}

impl TraceLog {
    /// Creates a log. If it is not on from the start, it is on only while packets are followed.
    pub fn new(on: bool) -> Self {
        Self {
            always: on,
            on: AtomicBool::new(on),
            following: AtomicBool::new(false),
            follower: OnceLock::new(),
            waits: OnceLock::new(),
            records: Mutex::default(),
        }
    }

    /// Returns whether packets are traced.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    /// Starts or stops following packets.
    pub fn follow(&self, on: bool) {
        self.following.store(on, Relaxed);
        self.on.store(on || self.always, Relaxed);
        if !self.is_on() {
            let mut records = self.records();
            records.notes.clear();
            records.waiting.clear();
        }
    }

    /// Returns whether packets are followed.
    #[inline]
    pub fn follows(&self) -> bool {
        self.following.load(Relaxed)
    }

    /// Returns the follower while packets are followed.
    #[inline]
    fn following(&self) -> Option<&Arc<dyn Follower>> {
        match self.follows() {
            true => self.follower.get(),
            false => None,
        }
    }

    /// Reports that packets took a step, if packets are followed.
    #[inline]
    pub fn steps<'p>(
        &self,
        device: &Device,
        time: u64,
        packets: impl Iterator<Item = &'p mut Packet>,
        step: Step<'_>,
    ) {
        if let Some(follower) = self.following() {
            for packet in packets {
                self.records().number(packet);
                follower.step(&Seen {
                    device,
                    time,
                    packet,
                    step,
                });
            }
        }
    }

    /// Reports that a packet that has a record took a step, if packets are followed.
    #[inline]
    pub fn step(&self, device: &Device, time: u64, packet: &Packet, step: Step<'_>) {
        if let Some(follower) = self.following()
            && packet.trace != 0
        {
            follower.step(&Seen {
                device,
                time,
                packet,
                step,
            });
        }
    }

    fn records(&self) -> MutexGuard<'_, Records, order::Trace> {
        self.records.lock()
    }

    /// Returns whether waiting times are observed.
    #[inline]
    pub fn watches_waits(&self) -> bool {
        self.is_on() && (self.waits.get().is_some() || self.follows())
    }

    /// Records that packets reached the root qdisc of a device at `now`.
    pub fn queued<'p>(
        &self,
        device: &Device,
        packets: impl Iterator<Item = &'p mut Packet>,
        now: u64,
    ) {
        for packet in packets {
            let mut records = self.records();
            records.number(packet);
            let (since, class) = (now, 0);
            records
                .waiting
                .insert(packet.trace, Waiting { since, class });
            drop(records);
            self.step(device, now, packet, Step::Queued);
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
        let Some(Waiting { since, class }) = waited else {
            return;
        };
        let waited = time.saturating_sub(since);
        self.step(device, time, packet, Step::Left(waited, class));
        if let Some(observer) = self.waits.get() {
            observer.left(&Left {
                device,
                class,
                waited,
                time,
                packet,
            });
        }
    }

    /// Adds the description of a matching filter to the packet's record, creating the record if
    /// necessary.
    pub fn note(&self, device: &Device, time: u64, packet: &mut Packet, text: String) {
        if !self.is_on() {
            return;
        }
        self.records().number(packet);
        self.step(device, time, packet, Step::Filter(&text));
        let mut records = self.records();
        records.notes.entry(packet.trace).or_default().push(text);
    }

    /// Gives a copy of a packet its own record with the same notes and the same start of its wait.
    pub fn copied(&self, copy: &mut Packet) {
        if !self.is_on() || copy.trace == 0 {
            return;
        }
        let mut records = self.records();
        let from = copy.trace;
        let notes = records.notes.get(&from).cloned();
        let waiting = records.waiting.get(&from).copied();
        let follower = self.following();
        copy.trace = 0;
        if notes.is_some() || waiting.is_some() || follower.is_some() {
            records.number(copy);
        }
        if let Some(waiting) = waiting {
            records.waiting.insert(copy.trace, waiting);
        }
        if let Some(notes) = notes {
            records.notes.insert(copy.trace, notes);
        }
        drop(records);
        if let Some(follower) = follower {
            follower.copied(from, copy.trace);
        }
    }

    /// Returns the notes of a packet, joined by `"; "`.
    pub fn read(&self, packet: &Packet) -> Option<String> {
        if !self.is_on() || packet.trace == 0 {
            return None;
        }
        self.records()
            .notes
            .get(&packet.trace)
            .map(|notes| notes.join("; "))
    }

    /// Discards a packet's record. Must be called wherever a packet is freed.
    pub fn end(&self, packet: &Packet) {
        if self.is_on() && packet.trace != 0 {
            let mut records = self.records();
            records.notes.remove(&packet.trace);
            records.waiting.remove(&packet.trace);
            drop(records);
            if let Some(follower) = self.following() {
                follower.ended(packet.trace);
            }
        }
    }
}

impl std::fmt::Debug for TraceLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceLog")
            .field("on", &self.is_on())
            .finish_non_exhaustive()
    }
}
