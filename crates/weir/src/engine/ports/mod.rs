// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Live ports of a stack in real time: which port is attached to which device.
//!
//! A port is attached in one of two roles ([`Role`]). As a *wire* it is the cable behind the device:
//! the device receives the port's frames and sends to the port instead of where its kind sends. As a
//! *host* it takes the place of the namespace's network layer above the device: the device sends the
//! port's frames, and the port gets the frames that the device receives, except those of its VLAN
//! devices (like macvtap in passthru mode). A device has at most one port.
//!
//! Each queue of a port belongs to one CPU, whose loop ([`worker`]) receives from it. Any CPU sends. Under virtual time
//! only kinds without a live outside are served; timers receive from them ([`start`]).

pub mod start;
pub mod worker;

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::{Value, json};
use weir_netlink::{IfInfoMsg, Writer, ifla, nlm, rtm};
use weir_packet::{Batch, DropReason, LongPackets, Packet};
use weir_port::Port;
use weir_port::keys::Keys;
use weir_port::kinds::kind;
use weir_port::port::{Clock, Kind, Site};
use weir_stack::Stack;
use weir_stack::cpu::Cx;
use weir_stack::datapath::{self, EarlyDrop};
use weir_stack::device::Device;
use weir_stack::drops::Place;
use weir_stack::features::bit;
use weir_stack::link::{RxHandler, Wire};
use weir_stack::random::seed_of;
use weir_sync::bits::set_bits;

use super::{Engine, from_stack, lock};
use crate::playback::Finished;
use worker::Pollers;

/// The role of a port at its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The cable behind the device.
    Wire,
    /// The host that uses the device.
    Host,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Wire => "wire",
            Self::Host => "host",
        }
    }
}

/// Packets and bytes of a port, in one direction.
#[derive(Debug, Default)]
struct Count {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Count {
    fn add(&self, packets: usize, bytes: u64) {
        self.packets.fetch_add(packets as u64, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }
}

/// A port that is attached to a device.
pub struct Attached {
    port: Arc<dyn Port>,
    device: Arc<Device>,
    role: Role,
    /// Spins instead of sleeping while the port is attached.
    busy: bool,
    /// The device's name and the port's description as given by the user.
    name: String,
    keys: Keys,
    queues: Vec<Queue>,
    rx: Count,
    tx: Count,
    /// Frames for which the port had no room, in the role of a host.
    overflow: AtomicU64,
    carrier: AtomicBool,
    error: OnceLock<String>,
    /// A pipe whose write end the user of the port holds: its end of file detaches the port.
    life: Option<OwnedFd>,
    detached: AtomicBool,
    /// `None` under virtual time.
    pollers: Option<Arc<Pollers>>,
}

/// A queue of an attached port.
struct Queue {
    /// The CPU that receives from the queue.
    cpu: usize,
    /// Identifies the queue in the events of that CPU's epoll set.
    token: u64,
    /// The last call of send found no room.
    blocked: AtomicBool,
    early: EarlyDrop,
}

impl Attached {
    /// Records the error that ended the port.
    fn fail(&self, error: &std::io::Error) {
        if self.error.set(error.to_string()).is_ok()
            && let Some(pollers) = &self.pollers
        {
            pollers.unwatch(self);
            pollers.ask_to_settle();
        }
    }

    /// Has the pollers watch for room in a queue, which took fewer frames than it was given.
    fn await_room(&self, number: u16, queue: &Queue) {
        if !queue.blocked.swap(true, AcqRel)
            && let Some(pollers) = &self.pollers
        {
            pollers.watch_room(self, number, true);
        }
    }

    /// Returns whether frames can be dropped before packets are made of them.
    fn sifts(&self) -> bool {
        self.role == Role::Wire && self.port.sifts()
    }

    /// Describes early drop: whether it is on, the reason if not, and the frames it dropped.
    fn early(&self, stack: &Stack) -> Value {
        let guard = stack.domain.pin();
        let why_not = match (self.role, self.port.sifts()) {
            (Role::Host, _) => Some("the port is a host"),
            (_, false) => Some("the port reads into packets"),
            (Role::Wire, true) => datapath::early::why_not(stack, &self.device, &guard),
        };
        let dropped = self.queues.iter().map(|queue| queue.early.dropped());
        json!({ "on": why_not.is_none(), "why_not": why_not, "packets": dropped.sum::<u64>() })
    }

    fn has_carrier(&self) -> bool {
        !self.is_over() && self.port.has_carrier()
    }

    fn is_over(&self) -> bool {
        self.error.get().is_some()
    }

    /// Sends frames on a queue and returns how many the port took; all of them if the port is over.
    fn send(&self, queue: u16, frames: &[Packet]) -> usize {
        let taken = match self.port.send(queue, frames) {
            Ok(taken) => taken,
            Err(error) => {
                self.fail(&error);
                frames.len()
            }
        };
        let sent = frames.get(..taken).unwrap_or_default();
        self.tx
            .add(taken, sent.iter().map(|packet| packet.len() as u64).sum());
        taken
    }

    /// Does the same, and removes the frames that the port took from `frames`; `goes` gets them before.
    fn pass(
        &self,
        cx: &Cx<'_>,
        queue: u16,
        frames: &mut Batch,
        goes: &mut dyn FnMut(&Cx<'_>, &[Packet]),
    ) {
        let mut spent = Batch::new();
        let mut show = |sent: &[Packet]| {
            let octets = sent.iter().map(|packet| packet.len() as u64);
            self.tx.add(sent.len(), octets.sum());
            goes(cx, sent);
        };
        let result = self.port.pass(queue, frames, &mut spent, &mut show);
        if let Err(error) = result {
            self.fail(&error);
            show(frames.as_slice());
            cx.consume_batch(frames.take());
        }
        cx.consume_batch(spent);
    }

    /// Describes the port and its counters.
    fn show(&self, stack: &Stack) -> Value {
        let counters = self.port.counters();
        let cpus: Vec<_> = self.queues.iter().map(|queue| queue.cpu).collect();
        json!({
            "device": self.name,
            "kind": self.port.kind(),
            "keys": self.keys.to_string(),
            "name": self.port.facts().name,
            "as": self.role.name(),
            "busy": self.busy,
            "carrier": self.has_carrier(),
            "error": self.error.get(),
            "cpus": cpus,
            "rps_cpus": (0..self.device.rx_queues().min(u32::from(u16::MAX)) as u16)
                .map(|queue| self.device.steering.cpus(queue))
                .collect::<Vec<_>>(),
            "rx_packets": self.rx.packets.load(Relaxed),
            "rx_bytes": self.rx.bytes.load(Relaxed),
            "rx_errors": counters.rx_errors.load(Relaxed),
            "rx_dropped": counters.rx_dropped.load(Relaxed),
            "tx_packets": self.tx.packets.load(Relaxed),
            "tx_bytes": self.tx.bytes.load(Relaxed),
            "tx_errors": counters.tx_errors.load(Relaxed),
            "tx_dropped": self.overflow.load(Relaxed),
            "early_drop": self.early(stack),
        })
    }

    fn queue(&self, queue: u16) -> (u16, &Queue) {
        let queue = queue % self.queues.len() as u16;
        (queue, &self.queues[usize::from(queue)])
    }
}

impl Wire for Attached {
    fn transmit(&self, _: &mut Cx<'_>, _: &Arc<Device>, queue: u16, frames: &[Packet]) -> usize {
        if self.is_over() {
            // The device is losing its carrier.
            return frames.len();
        }
        let (number, queue) = self.queue(queue);
        let taken = self.send(number, frames);
        if taken < frames.len() {
            self.await_room(number, queue);
        }
        taken
    }

    fn take(
        &self,
        cx: &mut Cx<'_>,
        device: &Arc<Device>,
        queue: u16,
        frames: &mut Batch,
        goes: &mut dyn FnMut(&Cx<'_>, &[Packet]),
    ) -> usize {
        let before = frames.len();
        if self.is_over() || cx.stack.trace.is_on() {
            // A packet that is traced ends here, not when the kernel has sent its frame.
            let taken = self.transmit(cx, device, queue, frames.as_slice());
            goes(cx, frames.get(..taken).unwrap_or_default());
            let mut spent = Batch::new();
            frames.move_first(taken, &mut spent);
            cx.consume_batch(spent);
            return taken;
        }
        let (number, queue) = self.queue(queue);
        self.pass(cx, number, frames, goes);
        if !frames.is_empty() {
            self.await_room(number, queue);
        }
        before - frames.len()
    }

    fn long_packets(&self) -> LongPackets {
        self.port.long_packets()
    }
}

impl RxHandler for Attached {
    fn receive(&self, cx: &mut Cx<'_>, device: &Arc<Device>, mut batch: Batch) {
        let (number, _) = self.queue(cx.state.id as u16);
        if !self.is_over() {
            if cx.stack.trace.is_on() {
                let mut spent = Batch::new();
                batch.move_first(self.send(number, batch.as_slice()), &mut spent);
                cx.consume_batch(spent);
            } else {
                self.pass(cx, number, &mut batch, &mut |_, _| {});
            }
        }
        if !batch.is_empty() {
            self.overflow.fetch_add(batch.len() as u64, Relaxed);
            cx.drop_batch(device, Place::Receive, DropReason::FULL_RING, batch);
        }
    }

    fn long_packets(&self) -> LongPackets {
        self.port.long_packets()
    }
}

/// The ports of a stack.
#[derive(Default)]
pub struct Ports {
    attached: Mutex<Vec<Arc<Attached>>>,
    /// Set by `weir up` before it serves clients.
    pollers: OnceLock<Arc<Pollers>>,
    next_cpu: AtomicUsize,
    last_token: AtomicU64,
    /// Ports of the command line whose devices do not exist yet.
    waiting: Mutex<Vec<start::Opened>>,
    /// The frames and errors of ports that are detached, for the report of a run.
    finished: Mutex<Finished>,
}

/// A port to attach.
struct Wanted<'a> {
    device: Arc<Device>,
    /// The device's name as given.
    name: String,
    kind: &'static Kind,
    keys: &'a Keys,
    role: Option<Role>,
    busy: bool,
    files: Vec<OwnedFd>,
    life: Option<OwnedFd>,
}

/// A port that was made, and its place.
struct Joined {
    device: Arc<Device>,
    port: Arc<dyn Port>,
    role: Role,
    busy: bool,
    name: String,
    keys: Keys,
    life: Option<OwnedFd>,
}

impl Ports {
    /// Connects the ports with the CPUs' loops.
    pub fn start(&self, pollers: Arc<Pollers>) {
        // There is one call, before clients are served.
        let _ = self.pollers.set(pollers);
    }

    /// Detaches ports whose device or user is gone and updates carriers. The CPUs' loops call it when
    /// something may have changed.
    pub fn settle(&self, engine: &Engine) {
        let all = lock(&self.attached).clone();
        for port in &all {
            if !port.device.is_registered() || port.life.as_ref().is_some_and(has_ended) {
                self.detach(engine, port);
                continue;
            }
            let carrier = port.has_carrier();
            if port.role == Role::Wire && port.carrier.swap(carrier, AcqRel) != carrier {
                // A kind whose carrier cannot be set keeps its own.
                let _ = set_link(engine, &port.device, 0, |out| {
                    out.put_u8(ifla::CARRIER, u8::from(carrier));
                });
            }
        }
    }

    /// Detaches all ports.
    pub fn stop(&self, engine: &Engine) {
        let all = lock(&self.attached).clone();
        for port in &all {
            self.detach(engine, port);
        }
    }

    fn detach(&self, engine: &Engine, port: &Arc<Attached>) {
        let mut all = lock(&self.attached);
        let before = all.len();
        all.retain(|other| !Arc::ptr_eq(other, port));
        if all.len() == before {
            return;
        }
        drop(all);
        port.detached.store(true, Release);
        if let Some(pollers) = &port.pollers {
            pollers.unwatch(port);
        }
        match port.role {
            Role::Wire => {
                port.device.connect(&engine.stack, None);
                port.device
                    .steering
                    .spread(&engine.stack.softnet, port.device.rx_queues(), false);
            }
            Role::Host => port.device.set_rx_handler(None),
        }
        self.account(port);
    }

    /// Executes the commands of `weir port` and `weir join`.
    pub fn command(
        &self,
        engine: &Engine,
        command: &Value,
        files: Vec<OwnedFd>,
    ) -> Result<Value, String> {
        match command["do"].as_str() {
            Some("add") => self.add(engine, command, files),
            Some("del") => {
                let device = find(engine, command)?;
                let port = {
                    let all = lock(&self.attached);
                    let port = all.iter().find(|port| Arc::ptr_eq(&port.device, &device));
                    port.cloned()
                };
                let port = port.ok_or_else(|| format!("{} has no port", name_of(command)))?;
                self.detach(engine, &port);
                wait_for_users(engine, &port);
                Ok(port.show(&engine.stack))
            }
            Some("show") => Ok(self.show(&engine.stack)),
            Some("memory") => {
                let stats = engine.stack.pool.stats();
                Ok(json!({
                    "frames": stats.frames,
                    "frames_free": stats.frames_free,
                    "jumbos": stats.jumbos,
                    "jumbos_free": stats.jumbos_free,
                    "refused": stats.refused,
                }))
            }
            Some("look") => {
                let device = find(engine, command)?;
                let role = default_role(&device);
                Ok(json!({
                    "ifindex": device.ifindex(),
                    "mtu": device.mtu(),
                    "address": device.address(),
                    "host": role == Role::Host,
                    "ns": from_stack(device.namespace(&engine.stack.domain.pin()).id).0,
                }))
            }
            _ => Err(format!("unknown command {command}")),
        }
    }

    fn add(
        &self,
        engine: &Engine,
        command: &Value,
        mut files: Vec<OwnedFd>,
    ) -> Result<Value, String> {
        let text = |key: &str| command[key].as_str().unwrap_or_default();
        let kind = kind(text("kind")).map_err(|error| error.to_string())?;
        let keys =
            Keys::parse(kind.name, kind.keys, text("keys")).map_err(|error| error.to_string())?;
        let life = if command["life"] == true {
            files.pop()
        } else {
            None
        };
        let wanted = Wanted {
            device: find(engine, command)?,
            name: name_of(command),
            kind,
            keys: &keys,
            role: role(command["as"].as_str()),
            busy: command["busy"] == true,
            files,
            life,
        };
        self.attach(engine, wanted)
    }

    fn attach(&self, engine: &Engine, wanted: Wanted<'_>) -> Result<Value, String> {
        let (device, kind, keys) = (wanted.device, wanted.kind, wanted.keys);
        let pollers = self.pollers.get();
        if pollers.is_none() && !(engine.stack.clock.is_virtual() && kind.virtual_time.is_some()) {
            return Err(start::refusal(kind));
        }
        let role = role(keys.get("as"))
            .or(wanted.role)
            .unwrap_or_else(|| default_role(&device));
        let stack = engine.stack.clone();
        let is_virtual = stack.clock.is_virtual();
        let site = Site {
            pool: engine.stack.pool.clone(),
            clock: Clock::new(is_virtual, move || {
                (stack.clock.now(), stack.clock.epoch_ns())
            }),
            device: wanted.name.clone(),
            address: (role == Role::Wire).then(|| device.address()),
            seed: seed_of(engine.stack.config.seed, &format!("port/{}", wanted.name)),
        };
        let port = (kind.adopt)(keys, wanted.files, &site).map_err(|error| error.to_string())?;
        let joined = Joined {
            busy: wanted.busy || keys.is_busy(),
            name: wanted.name,
            keys: keys.clone(),
            life: wanted.life,
            device,
            port,
            role,
        };
        self.join(engine, joined)
    }

    /// Attaches a port that the engine has made to a device of the initial namespace, as its cable.
    pub(in crate::engine) fn attach_own(
        &self,
        engine: &Engine,
        device: Arc<Device>,
        port: Arc<dyn Port>,
    ) -> Result<(), String> {
        let joined = Joined {
            name: device.name(),
            role: Role::Wire,
            busy: false,
            keys: Keys::default(),
            life: None,
            device,
            port,
        };
        self.join(engine, joined).map(drop)
    }

    fn join(&self, engine: &Engine, joined: Joined) -> Result<Value, String> {
        let (device, port, role) = (joined.device, joined.port, joined.role);
        let pollers = self.pollers.get();
        let facts = port.facts();
        let count = port.queues().max(1);
        let cpus = pollers.map_or(1, |pollers| pollers.cpus());
        let queues = (0..count).map(|_| Queue {
            cpu: self.next_cpu.fetch_add(1, Relaxed) % cpus,
            token: self.last_token.fetch_add(1, Relaxed) + 1,
            blocked: AtomicBool::new(false),
            early: EarlyDrop::default(),
        });
        let attached = Arc::new(Attached {
            queues: queues.collect(),
            port,
            device: device.clone(),
            role,
            busy: joined.busy,
            name: joined.name,
            keys: joined.keys,
            rx: Count::default(),
            tx: Count::default(),
            overflow: AtomicU64::new(0),
            carrier: AtomicBool::new(true),
            error: OnceLock::new(),
            life: joined.life,
            detached: AtomicBool::new(false),
            pollers: pollers.cloned(),
        });
        {
            let mut all = lock(&self.attached);
            if all.iter().any(|other| Arc::ptr_eq(&other.device, &device)) {
                return Err(format!("{} has a port already", attached.name));
            }
            all.push(attached.clone());
        }
        let started = match role {
            Role::Wire => set_facts(engine, &device, &facts),
            Role::Host => Ok(()),
        };
        let started = started.and_then(|()| {
            match role {
                Role::Wire => device.connect(&engine.stack, Some(attached.clone())),
                Role::Host => device.set_rx_handler(Some(attached.clone())),
            }
            match pollers {
                Some(pollers) => pollers
                    .watch(&attached)
                    .map_err(|error| format!("epoll: {error}")),
                None => {
                    start::drive(&engine.stack, &attached);
                    Ok(())
                }
            }
        });
        if let Err(error) = started {
            self.detach(engine, &attached);
            return Err(error);
        }
        if role == Role::Wire && usize::from(count) < cpus {
            device
                .steering
                .spread(&engine.stack.softnet, device.rx_queues(), true);
        }
        self.settle(engine);
        Ok(json!({ "name": facts.name, "as": role.name() }))
    }

    fn show(&self, stack: &Stack) -> Value {
        let all = lock(&self.attached).clone();
        all.iter().map(|port| port.show(stack)).collect()
    }
}

/// Waits until no CPU uses a port that was detached, so that its counters are final. Gives up after a second.
fn wait_for_users(engine: &Engine, port: &Arc<Attached>) {
    const LIMIT: u32 = 1000;
    if port.pollers.is_none() {
        // Nothing runs beside this command under virtual time.
        return;
    }
    for _ in 0..LIMIT {
        if Arc::strong_count(port) == 1 {
            return;
        }
        // Readers of the device's hooks hold it until the end of their turn.
        engine.stack.domain.poll_all();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Returns whether the write end of a pipe is closed.
fn has_ended(life: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut polled = [PollFd::new(life, PollFlags::empty())];
    let now = rustix::event::Timespec::default();
    poll(&mut polled, Some(&now)).is_ok_and(|count| count > 0)
}

/// Returns the role with a name.
fn role(name: Option<&str>) -> Option<Role> {
    match name? {
        "wire" => Some(Role::Wire),
        "host" => Some(Role::Host),
        _ => None,
    }
}

/// Returns the role of a port that does not say: a host at devices that lead somewhere by themselves.
fn default_role(device: &Device) -> Role {
    match device.link.kind() {
        "dummy" | "ifb" | "netdevsim" => Role::Wire,
        _ => Role::Host,
    }
}

fn name_of(command: &Value) -> String {
    let device = command["device"].as_str().unwrap_or_default();
    match command["netns"].as_str() {
        Some(netns) => format!("{netns}/{device}"),
        None => device.to_owned(),
    }
}

/// Returns the device that a command names.
fn find(engine: &Engine, command: &Value) -> Result<Arc<Device>, String> {
    let name = command["device"]
        .as_str()
        .ok_or("the command names no device")?;
    let netns = command["netns"].as_str();
    let ns = engine
        .namespace(netns)
        .ok_or_else(|| format!("there is no namespace {}", netns.unwrap_or_default()))?;
    ns.device_by_name(name)
        .ok_or_else(|| format!("there is no device {}", name_of(command)))
}

/// Gives a device the address and the MTU of the host's device behind it, and turns ARP on: dummy
/// devices are made without, but a cable has somebody at its other end.
fn set_facts(
    engine: &Engine,
    device: &Arc<Device>,
    facts: &weir_port::port::Facts,
) -> Result<(), String> {
    // Even the same address, set again, flushes the device's neighbours.
    let address = facts.address.filter(|address| *address != device.address());
    let mtu = facts.mtu;
    set_link(engine, device, ifla::iff::NOARP, |out| {
        if let Some(address) = address {
            out.put(ifla::ADDRESS, &address);
        }
        if let Some(mtu) = mtu {
            out.put_u32(ifla::MTU, mtu);
        }
    })
}

/// Changes a device through a request, as `ip link set` does. Clears the flags of `clear`.
fn set_link(
    engine: &Engine,
    device: &Device,
    clear: u32,
    attributes: impl FnOnce(&mut Writer),
) -> Result<(), String> {
    use weir_intercept::Backend;
    let ns = from_stack(device.namespace(&engine.stack.domain.pin()).id);
    let mut out = Writer::new();
    let message = out.message(rtm::NEWLINK, nlm::F_REQUEST | nlm::F_ACK, 1, 0);
    out.fixed(&IfInfoMsg {
        index: device.ifindex() as i32,
        change: clear,
        ..IfInfoMsg::default()
    });
    attributes(&mut out);
    out.finish(message)
        .map_err(|_| "the request is too long".to_owned())?;
    let answer = engine
        .request(ns, out.bytes())
        .map_err(|error| format!("{}: {error}", device.name()))?;
    match weir_netlink::refusal(&answer) {
        Some(error) => Err(format!("{}: {}", device.name(), error.quiet())),
        None => Ok(()),
    }
}

/// Receives a batch from a queue and passes it on. Returns whether there was a frame.
fn receive(cx: &mut Cx<'_>, port: &Attached, queue: u16) -> bool {
    let mut batch = Batch::new();
    cx.state.stages.start();
    let (_, early) = port.queue(queue);
    let result = match port.sifts() {
        true => early.early.receive(cx, &port.device, |memory, sieve| {
            let Some(sieve) = sieve else {
                return port.port.receive(queue, memory, &mut batch);
            };
            let mut sieve = |frames: &[&[u8]]| {
                let dropped = sieve(frames);
                let gone = set_bits(dropped).filter_map(|n| frames.get(n));
                let bytes = gone.map(|frame| frame.len() as u64).sum();
                port.rx.add(dropped.count_ones() as usize, bytes);
                dropped
            };
            port.port.take(queue, memory, &mut batch, Some(&mut sieve))
        }),
        false => {
            let mut memory = cx.state.cache.borrow_mut();
            port.port.receive(queue, &mut memory, &mut batch)
        }
    };
    let taken = match result {
        Ok(taken) => taken,
        Err(error) => {
            port.fail(&error);
            batch.len()
        }
    };
    if taken == 0 && batch.is_empty() {
        return false;
    }
    if port.queues.len() > 1 {
        // `skb_record_rx_queue`
        for packet in batch.iter_mut() {
            packet.queue = queue + 1;
        }
    }
    let count = batch.len();
    cx.state.stages.end(weir_stack::stages::Stage::Port, count);
    if count == 0 {
        return true;
    }
    port.rx.add(count, batch.bytes());
    match port.role {
        // A device that does not merge frames gets those of the wire.
        Role::Wire if port.device.features.active() & bit::GRO == 0 => {
            datapath::split_all(
                cx,
                &port.device,
                batch,
                LongPackets::NONE,
                datapath::receive_frames,
            );
        }
        Role::Wire => datapath::receive_frames(cx, &port.device, batch),
        Role::Host => datapath::raw::transmit(cx, &port.device, batch),
    }
    true
}
