// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Live captures: the frames of a device or of all devices, in both directions, and dropped packets.
//!
//! In real time they go to the client through shared memory (`ring.rs`). Under virtual time the
//! stack writes them to the client's standard output (`direct.rs`).

mod direct;
mod ring;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use weir_packet::DropReason;
use weir_packet::bpf::Program;
use weir_packet::tagged::{Framing, Tagged};
use weir_port::pcap::MAX_CAPTURED;
use weir_port::ring::{MAX_RING, MIN_RING, Producer};
use weir_stack::NsId;
use weir_stack::device::{Device, Observer};
use weir_stack::drops::{DropObserver, Place};
use weir_sync::rcu::Guard;

use super::{Engine, lock};
use direct::{Direct, output_of};
use ring::Shared;

/// The bytes of the rings of all CPUs together, unless the client asks for another number.
const RINGS: usize = 16 << 20;
/// The largest number of captures at a time.
const CAPTURES: usize = 64;
/// The interval at which a capture looks whether its device is still there.
const LOOK: Duration = Duration::from_millis(100);

/// Returns the comment of a dropped packet: the device, the place and the reason.
pub fn drop_comment(device: &str, place: &str, reason: &str) -> String {
    format!("{device}: {place}: {reason}")
}

/// The frames that a capture wants.
pub struct Wanted {
    /// The device; `None` for all.
    device: Option<Arc<Device>>,
    /// Only the devices of this namespace.
    netns: Option<NsId>,
    /// The frames it wants; `None` for all.
    filter: Option<Program>,
    /// The most bytes of a frame.
    snap: usize,
}

impl Wanted {
    /// Returns whether the capture wants frames of a device that it observes.
    #[inline]
    fn is_in(&self, device: &Device, guard: &Guard) -> bool {
        self.netns
            .is_none_or(|netns| device.namespace(guard).id == netns)
    }

    #[inline]
    fn accepts(&self, frame: &Tagged<'_>) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|filter| filter.accepts(frame))
    }

    /// Returns whether the device is gone.
    fn is_over(&self) -> bool {
        self.device
            .as_ref()
            .is_some_and(|device| !device.is_registered())
    }
}

/// What is registered for a capture, to be removed in the end.
struct Registered {
    device: Option<(Arc<Device>, Arc<dyn Observer>)>,
    all: Option<Arc<dyn Observer>>,
    drops: Option<Arc<dyn DropObserver>>,
}

impl Registered {
    fn new<T: Observer + DropObserver + 'static>(
        engine: &Engine,
        what: &Arc<T>,
        (device, all, drops): (Option<&Arc<Device>>, bool, bool),
    ) -> Self {
        let registered = Self {
            device: device.map(|device| (device.clone(), what.clone() as Arc<dyn Observer>)),
            all: all.then(|| what.clone() as Arc<dyn Observer>),
            drops: drops.then(|| what.clone() as Arc<dyn DropObserver>),
        };
        let stack = &engine.stack;
        if let Some((device, observer)) = &registered.device {
            device.observe(&stack.domain.pin(), observer.clone());
        }
        if let Some(observer) = &registered.all {
            stack.observe(observer.clone());
        }
        if let Some(observer) = &registered.drops {
            stack.observe_drops(observer.clone());
        }
        registered
    }

    fn remove(&self, engine: &Engine) {
        let stack = &engine.stack;
        if let Some((device, observer)) = &self.device {
            device.unobserve(&stack.domain.pin(), observer);
        }
        if let Some(observer) = &self.all {
            stack.unobserve(observer);
        }
        if let Some(observer) = &self.drops {
            stack.unobserve_drops(observer);
        }
    }
}

enum Kind {
    Direct(Arc<Direct>),
    Ring(Arc<Shared>),
}

/// The captures of a stack.
#[derive(Default)]
pub struct Captures {
    last: u64,
    live: BTreeMap<u64, (Kind, Registered)>,
}

/// Reads what a command wants to capture: the frames, and whether of all devices and drops.
fn wanted(engine: &Engine, command: &Value) -> Result<(Wanted, bool, bool), String> {
    let flag = |name: &str| command[name].as_bool().unwrap_or(false);
    let (all, drops) = (flag("all"), flag("drops"));
    let netns = command["netns"].as_str();
    let ns = engine
        .namespace(netns)
        .ok_or_else(|| format!("there is no namespace {}", netns.unwrap_or_default()))?;
    let device = match command["device"].as_str() {
        Some(name) => {
            let found = ns.device_by_name(name);
            Some(found.ok_or_else(|| format!("there is no device {name}"))?)
        }
        None if all || drops => None,
        None => return Err("the command names no device".into()),
    };
    let filter = command["program"].as_str().map(Program::parse).transpose();
    let filter = filter.map_err(|error| error.to_string())?;
    if let Some(device) = &device
        && filter.is_some()
        && device.framing() == Framing::Netlink
    {
        return Err(format!(
            "an expression looks at Ethernet frames, and {} has netlink messages",
            device.name()
        ));
    }
    let snap = command["snaplen"].as_u64().unwrap_or(MAX_CAPTURED.into());
    let wanted = Wanted {
        netns: (device.is_none() && netns.is_some()).then_some(ns.id),
        device,
        filter,
        snap: usize::try_from(snap)
            .unwrap_or(usize::MAX)
            .min(MAX_CAPTURED as usize),
    };
    Ok((wanted, all, drops))
}

/// Returns the bytes of the ring of one CPU.
fn ring_of(command: &Value, cpus: usize) -> Result<usize, String> {
    let Some(asked) = command["buffer"].as_u64() else {
        let each = (RINGS / cpus.max(1)).max(MIN_RING);
        return Ok(1 << each.ilog2());
    };
    let asked = usize::try_from(asked).unwrap_or(usize::MAX);
    let bytes = asked.checked_next_power_of_two();
    let bytes = bytes.filter(|bytes| (MIN_RING..=MAX_RING).contains(bytes));
    bytes.ok_or_else(|| format!("a buffer of {asked} bytes; it has 64K to 1G"))
}

impl Captures {
    /// Starts a capture for a process. In real time, returns the descriptors of the rings. Under
    /// virtual time, the capture writes to the process's standard output. `files` holds that
    /// descriptor; if it is empty, the descriptor is taken from the process.
    pub fn start(
        &mut self,
        engine: &Engine,
        command: &Value,
        files: Vec<OwnedFd>,
    ) -> Result<(Value, Vec<OwnedFd>), String> {
        self.reap(engine);
        let (wanted, all, drops) = wanted(engine, command)?;
        if self.live.len() >= CAPTURES {
            return Err(format!("{CAPTURES} captures run already"));
        }
        let id = self.last + 1;
        let epoch_ns = engine.stack.clock.epoch_ns();
        let device = wanted.device.clone();
        let whom = (device.as_ref(), all, drops);
        let (answer, ends, kind, registered) = if engine.stack.clock.is_virtual() {
            let process = command["process"].as_u64();
            let process = process.and_then(|pid| u32::try_from(pid).ok());
            let process = process.ok_or("the command names no process")?;
            let output = match files.into_iter().next() {
                Some(output) => output.into(),
                None => output_of(process)
                    .map_err(|error| format!("standard output of process {process}: {error}"))?,
            };
            let count = command["count"].as_u64();
            let namer = engine.names.clone();
            let guard = engine.stack.domain.pin();
            let ends = (wanted, count);
            let direct = Direct::new(output, process, ends, epoch_ns, (namer, &guard))?;
            drop(guard);
            let direct = Arc::new(direct);
            let registered = Registered::new(engine, &direct, whom);
            let kind = Kind::Direct(direct);
            (json!({ "id": id }), Vec::new(), kind, registered)
        } else {
            let cpus = engine.stack.config.cpus.max(1);
            let ring = ring_of(command, cpus)?;
            let (producer, ends) = Producer::new(cpus, ring, wanted.snap)
                .map_err(|error| format!("shared memory for the frames: {error}"))?;
            let shared = Arc::new(Shared {
                producer,
                wanted,
                epoch_ns,
            });
            follow(engine, id, shared.clone())?;
            engine.names.want(true);
            let names = names(engine);
            let registered = Registered::new(engine, &shared, whom);
            let places = Place::ALL.iter().map(|place| place.name());
            let reasons = DropReason::ALL.iter().map(|reason| reason.name());
            let answer = json!({
                "id": id,
                "names": names,
                "device": device.map(|device| device.key.0),
                "places": places.collect::<Vec<_>>(),
                "reasons": reasons.collect::<Vec<_>>(),
            });
            (answer, ends.0.into(), Kind::Ring(shared), registered)
        };
        self.last = id;
        self.live.insert(id, (kind, registered));
        Ok((answer, ends))
    }

    /// Returns whether a capture has ended. Reporting the end also removes the capture.
    pub fn look(&mut self, engine: &Engine, command: &Value) -> Value {
        let id = command["id"].as_u64().unwrap_or(0);
        let (ended, error) = match self.live.get(&id) {
            None => return json!({ "ended": true }),
            Some((Kind::Direct(direct), _)) => direct.ended(),
            Some((Kind::Ring(shared), _)) => (shared.wanted.is_over(), None),
        };
        if ended {
            self.remove(engine, id);
        }
        json!({ "ended": ended, "error": error })
    }

    fn remove(&mut self, engine: &Engine, id: u64) {
        if let Some((kind, registered)) = self.live.remove(&id) {
            registered.remove(engine);
            if let Kind::Ring(shared) = kind {
                shared.producer.finish();
                engine.names.want(false);
            }
        }
    }

    /// Ends the captures of processes that are gone.
    pub fn reap(&mut self, engine: &Engine) {
        let gone = |kind: &Kind| match kind {
            Kind::Direct(direct) => direct.is_abandoned(),
            Kind::Ring(shared) => shared.producer.is_gone(),
        };
        let live = self.live.iter();
        let ids: Vec<_> = live
            .filter(|(_, (kind, _))| gone(kind))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            self.remove(engine, id);
        }
    }

    /// Ends all captures.
    pub fn stop(&mut self, engine: &Engine) {
        let ids: Vec<_> = self.live.keys().copied().collect();
        for id in ids {
            self.remove(engine, id);
        }
    }
}

/// Returns the names and link types of devices by their keys, gone ones included.
pub fn names(engine: &Engine) -> Value {
    let names = engine.names.all(engine).into_iter();
    names
        .map(|(key, named)| (key.0.to_string(), json!([named.name, named.link_type])))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Starts the thread that ends a capture once its reader or its device is gone.
fn follow(engine: &Engine, id: u64, shared: Arc<Shared>) -> Result<(), String> {
    let engine = engine.me.clone();
    let body = move || {
        while !shared.producer.wait_gone(LOOK) {
            let stopping = engine.upgrade().is_none_or(|engine| engine.is_stopping());
            if stopping || shared.wanted.is_over() {
                break;
            }
        }
        shared.producer.finish();
        if let Some(engine) = engine.upgrade() {
            lock(&engine.captures).remove(&engine, id);
        }
    };
    let thread = std::thread::Builder::new()
        .name(format!("capture {id}"))
        .stack_size(128 << 10)
        .spawn(body);
    thread
        .map(drop)
        .map_err(|error| format!("a thread for the capture: {error}"))
}
