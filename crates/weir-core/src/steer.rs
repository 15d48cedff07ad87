// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Steering of received packets to CPUs: receive packet steering and receive flow steering (`get_rps_cpu`,
//! `enqueue_to_backlog`, Documentation/networking/scaling.rst).
//!
//! A receive queue of a device has a set of CPUs (`rps_cpus`). A packet goes to one of them by the hash of
//! its flow. If the queue has a flow table (`rps_flow_cnt`) and the stack has one
//! (`net.core.rps_sock_flow_entries`), a flow goes to the CPU that last sent packets of it for a program
//! ([`SockFlows::record`]).
//!
//! The CPU that receives a batch splits it into a part for each CPU, and pushes each part on that CPU's
//! queue ([`Input`]) with one exchange. It wakes the other CPU only if its queue was empty. The other CPU
//! goes on where taps and filters see the packets. It makes full batches of the parts that wait. The CPU's own part
//! needs no queue. While its port has full batches, the CPU holds its part for one turn, so that parts make full
//! batches there too ([`Cx::hold`]).
//!
//! A device steers what it receives at each of three points, as `netif_receive_skb` does ([`Point`]): what arrives at
//! it, what an action redirects to its ingress, and what comes back to it from an ifb.
//!
//! Packets of a flow keep their order, also when the set changes while packets wait. See
//! [`weir_sync::handover`] for the rule. This is stricter than Linux, which has the rule for flow steering
//! only. The packets that one receive queue has at one place of 1,024 share a CPU, so the share of a CPU is a
//! number of places.
//!
//! As in Linux, VLAN devices do not steer. A stack under virtual time or with one CPU never does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};

use weir_netlink::Error;
use weir_netlink::errno::{EINVAL, ENOMEM};
use weir_packet::{Batch, DropReason};
use weir_sync::handover::{Flows, Handover};
use weir_sync::list::Entry;
use weir_sync::once_box::OnceBox;
use weir_sync::order::{self, Mutex};
use weir_sync::primitive::CachePadded;
use weir_sync::rcu::{Domain, PublishedOption};
use weir_tc::qdisc::packet_hash;

use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::flow_limit::FlowLimit;
use crate::stages::Stage;

/// The bits of a place in the table of a receive queue without a flow table.
const PLACE_BITS: u32 = 10;
/// The maximum of `rps_flow_cnt`. Linux is limited by its memory.
const MAX_FLOWS: u64 = 1 << 20;
/// The maximum of `net.core.rps_sock_flow_entries` (`rps_sock_flow_sysctl`), and the number of entries
/// for which there is memory.
const MAX_SOCK_FLOWS: u32 = 1 << 29;
const SOCK_FLOWS_MEMORY: u32 = 1 << 24;
/// An entry without a CPU (`RPS_NO_CPU`).
const NO_CPU: u32 = 0xffff;

/// Packets of a device on their way to another CPU.
pub struct Steered {
    /// The device, which may be removed while the packets wait.
    pub device: Arc<Device>,
    /// Where they go on.
    pub point: Point,
    /// The packets.
    pub batch: Batch,
}

/// Where the packets of a device go on behind the steering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// At taps and ingress filters: they have just arrived.
    Arrived,
    /// At the ingress filters: an action redirected them to the device's ingress.
    Redirected,
    /// Past the ingress filters: they come back from an ifb.
    Resumed,
}

/// The input queue of a CPU and its counters (`struct softnet_data`).
#[derive(Default)]
pub struct Input {
    /// The packets that wait.
    pub queue: Handover<Steered>,
    /// Whether the CPU exists.
    online: AtomicBool,
    /// Packets dropped because `net.core.netdev_max_backlog` packets waited.
    pub dropped: AtomicU64,
    /// Turns that ended with work left.
    pub squeezed: AtomicU64,
    /// The times other CPUs told this one of packets.
    pub received_rps: AtomicU64,
}

impl Input {
    /// Returns whether the CPU exists.
    pub fn is_online(&self) -> bool {
        self.online.load(Relaxed)
    }

    /// Says whether the CPU exists.
    pub fn set_online(&self, online: bool) {
        self.online.store(online, Relaxed);
    }
}

/// The steering of a stack.
pub struct Softnet {
    cpus: Box<[CachePadded<Input>]>,
    /// `net.core.netdev_max_backlog`
    max_backlog: AtomicI32,
    sock_flows: PublishedOption<SockFlows>,
    /// The limit of flows of each CPU (`net.core.flow_limit_cpu_bitmap`).
    limits: Box<[PublishedOption<FlowLimit>]>,
    /// `net.core.flow_limit_table_len`, which new tables get.
    limit_len: AtomicU32,
    waker: OnceLock<Box<dyn Fn(usize) + Send + Sync>>,
    /// Whether devices may steer.
    able: bool,
}

impl Softnet {
    /// Makes the inputs of `cpus` CPUs. Devices steer only if `able`.
    pub fn new(domain: &Domain, cpus: usize, able: bool) -> Self {
        Self {
            cpus: (0..cpus.max(1)).map(|_| CachePadded::default()).collect(),
            max_backlog: AtomicI32::new(1000),
            sock_flows: PublishedOption::new(domain, None),
            limits: (0..cpus.max(1))
                .map(|_| PublishedOption::new(domain, None))
                .collect(),
            limit_len: AtomicU32::new(4096),
            waker: OnceLock::new(),
            able: able && cpus > 1,
        }
    }

    /// Returns the input of a CPU.
    pub fn cpu(&self, cpu: usize) -> Option<&Input> {
        self.cpus.get(cpu).map(|input| &**input)
    }

    /// Returns the inputs of all CPUs.
    pub fn cpus(&self) -> impl Iterator<Item = &Input> {
        self.cpus.iter().map(|input| &**input)
    }

    /// Returns `net.core.netdev_max_backlog`.
    pub fn max_backlog(&self) -> i32 {
        self.max_backlog.load(Relaxed)
    }

    /// Sets `net.core.netdev_max_backlog`. As in Linux, a negative number is no limit.
    pub fn set_max_backlog(&self, max: i32) {
        self.max_backlog.store(max, Relaxed);
    }

    /// Returns the limit of flows of a CPU, if it has one.
    #[inline]
    pub fn flow_limit<'g>(
        &'g self,
        cpu: usize,
        guard: &'g weir_sync::rcu::Guard,
    ) -> Option<&'g FlowLimit> {
        self.limits.get(cpu)?.load(guard)
    }

    /// Returns the CPUs with a limit of flows (`net.core.flow_limit_cpu_bitmap`).
    pub fn limited(&self) -> BTreeSet<usize> {
        let limits = self.limits.iter().enumerate();
        let limited = limits.filter(|(_, limit)| limit.is_some());
        limited.map(|(cpu, _)| cpu).collect()
    }

    /// Sets the CPUs with a limit of flows (`flow_limit_cpu_sysctl`). The others forget their counts.
    pub fn set_limited(&self, cpus: &BTreeSet<usize>) {
        for (cpu, limit) in self.limits.iter().enumerate() {
            let wanted = cpus.contains(&cpu);
            if wanted != limit.is_some() {
                limit.replace(wanted.then(|| FlowLimit::new(self.limit_len())));
            }
        }
    }

    /// Returns `net.core.flow_limit_table_len`.
    pub fn limit_len(&self) -> u32 {
        self.limit_len.load(Relaxed)
    }

    /// Sets `net.core.flow_limit_table_len` for the tables of CPUs that get a limit from now on.
    ///
    /// # Errors
    /// EINVAL if it is not a power of two, ENOMEM beyond 2^24.
    pub fn set_limit_len(&self, len: u32) -> Result<(), Error> {
        if !len.is_power_of_two() {
            return Err(Error::new(EINVAL));
        }
        if len > SOCK_FLOWS_MEMORY {
            return Err(Error::new(ENOMEM));
        }
        self.limit_len.store(len, Relaxed);
        Ok(())
    }

    /// Returns the CPUs of the flows of programs, if there is a table.
    #[inline]
    pub fn sock_flows<'g>(&'g self, guard: &'g weir_sync::rcu::Guard) -> Option<&'g SockFlows> {
        self.sock_flows.load(guard)
    }

    fn domain(&self) -> &Domain {
        self.sock_flows.domain()
    }

    /// Returns `net.core.rps_sock_flow_entries`.
    pub fn sock_flow_entries(&self) -> u32 {
        let guard = self.sock_flows.domain().pin();
        let table = self.sock_flows.load(&guard);
        table.map_or(0, |table| table.entries.len() as u32)
    }

    /// Sets `net.core.rps_sock_flow_entries`, rounded up to a power of two (`rps_sock_flow_sysctl`). The
    /// new table is empty.
    ///
    /// # Errors
    /// EINVAL beyond 2^29 entries, ENOMEM beyond 2^24.
    pub fn set_sock_flow_entries(&self, entries: u32) -> Result<(), Error> {
        if entries > MAX_SOCK_FLOWS {
            return Err(Error::new(EINVAL));
        }
        if entries > SOCK_FLOWS_MEMORY {
            return Err(Error::new(ENOMEM));
        }
        let table = (entries > 0).then(|| SockFlows::new(entries, self.cpus.len()));
        self.sock_flows.replace(table);
        Ok(())
    }

    /// Sets the callback that wakes a CPU that sleeps, because its queue is no longer empty. There is one
    /// call, before packets move.
    pub fn set_waker(&self, waker: Box<dyn Fn(usize) + Send + Sync>) {
        let _ = self.waker.set(waker);
    }

    /// Drops the packets that wait.
    pub fn clear(&self) {
        for input in self.cpus() {
            drop(input.queue.begin());
        }
    }

    /// Returns a ticket of each CPU.
    fn tickets(&self) -> Box<[u64]> {
        self.cpus().map(|input| input.queue.ticket()).collect()
    }
}

/// The CPUs on which programs send and receive flows (`struct rps_sock_flow_table`).
pub struct SockFlows {
    entries: Box<[AtomicU32]>,
    /// The bits of an entry that are the CPU; the others are those of the hash.
    cpu: u32,
}

impl SockFlows {
    fn new(entries: u32, cpus: usize) -> Self {
        let entries = 0..entries.next_power_of_two();
        Self {
            entries: entries.map(|_| AtomicU32::new(NO_CPU)).collect(),
            cpu: (cpus.next_power_of_two() - 1) as u32,
        }
    }

    #[inline]
    fn entry(&self, hash: u32) -> Option<&AtomicU32> {
        self.entries.get(hash as usize & (self.entries.len() - 1))
    }

    /// Records that a program's packets of a flow are handled on a CPU (`rps_record_sock_flow`).
    #[inline]
    pub fn record(&self, hash: u32, cpu: usize) {
        let value = hash & !self.cpu | cpu as u32 & self.cpu;
        if let Some(entry) = self.entry(hash)
            && entry.load(Relaxed) != value
        {
            entry.store(value, Relaxed);
        }
    }

    /// Returns the CPU of a flow.
    #[inline]
    pub fn find(&self, hash: u32) -> Option<usize> {
        let value = self.entry(hash)?.load(Relaxed);
        ((value ^ hash) & !self.cpu == 0).then_some((value & self.cpu) as usize)
    }
}

/// The settings of a receive queue.
#[derive(Default)]
struct Queue {
    cpus: BTreeSet<usize>,
    /// `rps_flow_cnt`
    count: u32,
    /// A user has written the set of CPUs.
    written: bool,
    flows: Option<Arc<Flows>>,
}

/// A receive queue as packets see it.
struct Map {
    cpus: Box<[u16]>,
    flows: Arc<Flows>,
    /// The bits of a place in `flows`.
    bits: u32,
    /// The queue has a flow table.
    by_program: bool,
}

/// The receive queues of a device as packets see them.
struct Maps {
    generation: u32,
    queues: Box<[Option<Map>]>,
    /// Nothing is steered any more, except packets of flows whose earlier packets still wait.
    ending: bool,
    /// A ticket of each CPU after all threads knew of these maps; see [`weir_sync::handover`].
    floor: Arc<OnceLock<Box<[u64]>>>,
}

/// The settings of a device.
#[derive(Default)]
struct Settings {
    queues: BTreeMap<u16, Queue>,
    /// `xps_rxqs` of transmit queues.
    receivers: BTreeMap<u16, BTreeSet<usize>>,
    generation: u32,
}

/// The receive steering of a device. Changes need the stack's [`Softnet`].
pub struct Steering {
    able: bool,
    /// The generation of the maps in force, or 0 for none.
    on: AtomicU32,
    /// Absent until a setting is first changed.
    chosen: OnceBox<Chosen>,
}

/// The settings of a device, and what packets see of them.
struct Chosen {
    maps: PublishedOption<Maps>,
    settings: Mutex<Settings, order::Steering>,
}

impl Steering {
    /// Makes the steering of a device. Nothing is steered.
    pub fn new(softnet: &Softnet, kind: &str) -> Self {
        Self {
            able: softnet.able && kind != "vlan",
            on: AtomicU32::new(0),
            chosen: OnceBox::default(),
        }
    }

    /// Returns whether packets may be steered.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Relaxed) != 0
    }

    /// Returns `rps_cpus` of a receive queue.
    pub fn cpus(&self, queue: u16) -> BTreeSet<usize> {
        let Some(chosen) = self.chosen.get() else {
            return BTreeSet::new();
        };
        let settings = chosen.settings.lock();
        let queue = settings.queues.get(&queue);
        queue.map(|queue| queue.cpus.clone()).unwrap_or_default()
    }

    /// Sets `rps_cpus` of a receive queue (`store_rps_map`). The calling thread must not read under RCU.
    pub fn set_cpus(&self, softnet: &Softnet, queue: u16, cpus: BTreeSet<usize>) {
        self.change(softnet, |settings| {
            let queue = settings.queues.entry(queue).or_default();
            (queue.cpus, queue.written) = (cpus, true);
        });
    }

    /// Sets `rps_cpus` of the first `count` receive queues to all CPUs, or to none, except where a user has
    /// written it. The calling thread must not read under RCU.
    pub fn spread(&self, softnet: &Softnet, count: u32, on: bool) {
        let all = 0..softnet.cpus.len();
        self.change(softnet, |settings| {
            for number in 0..count.min(u32::from(u16::MAX)) as u16 {
                let queue = settings.queues.entry(number).or_default();
                if !queue.written {
                    queue.cpus = all.clone().filter(|_| on).collect();
                }
            }
        });
    }

    /// Returns `rps_flow_cnt` of a receive queue.
    pub fn flow_count(&self, queue: u16) -> u32 {
        let Some(chosen) = self.chosen.get() else {
            return 0;
        };
        let settings = chosen.settings.lock();
        settings.queues.get(&queue).map_or(0, |queue| queue.count)
    }

    /// Sets `rps_flow_cnt` of a receive queue, rounded up to a power of two
    /// (`store_rps_dev_flow_table_cnt`). The calling thread must not read under RCU.
    ///
    /// # Errors
    /// EINVAL beyond 2^32 flows, ENOMEM beyond 2^20.
    pub fn set_flow_count(&self, softnet: &Softnet, queue: u16, count: u64) -> Result<(), Error> {
        if count > 1 << 32 {
            return Err(Error::new(EINVAL));
        }
        if count > MAX_FLOWS {
            return Err(Error::new(ENOMEM));
        }
        self.change(softnet, |settings| {
            let queue = settings.queues.entry(queue).or_default();
            queue.count = match count {
                0 => 0,
                count => count.next_power_of_two() as u32,
            };
        });
        Ok(())
    }

    /// Returns `xps_rxqs` of a transmit queue.
    pub fn receivers(&self, queue: u16) -> BTreeSet<usize> {
        let Some(chosen) = self.chosen.get() else {
            return BTreeSet::new();
        };
        let settings = chosen.settings.lock();
        settings.receivers.get(&queue).cloned().unwrap_or_default()
    }

    /// Sets `xps_rxqs` of a transmit queue. Only packets of sockets could follow it.
    pub fn set_receivers(&self, softnet: &Softnet, queue: u16, receivers: BTreeSet<usize>) {
        let mut settings = self.chosen(softnet).settings.lock();
        settings.receivers.insert(queue, receivers);
    }

    fn chosen(&self, softnet: &Softnet) -> &Chosen {
        let domain = softnet.domain();
        self.chosen.get_or_make(|| Chosen {
            maps: PublishedOption::new(domain, None),
            settings: Mutex::default(),
        })
    }

    /// Changes the settings and has packets follow them.
    fn change(&self, softnet: &Softnet, change: impl FnOnce(&mut Settings)) {
        let floor = Arc::default();
        let chosen = self.chosen(softnet);
        {
            let mut settings = chosen.settings.lock();
            let settings = &mut *settings;
            change(settings);
            if !self.able {
                return;
            }
            let used = |queue: &Queue| !queue.cpus.is_empty() || queue.count > 0;
            let ending = !settings.queues.values().any(used);
            let fresh = self.on.load(Relaxed) == 0;
            if ending && fresh {
                return;
            }
            let end = settings.queues.keys().last().map_or(0, |last| last + 1);
            let mut queues: Vec<Option<Map>> = (0..end).map(|_| None).collect();
            for (number, queue) in &mut settings.queues {
                let slot = queues.get_mut(usize::from(*number));
                let Some(slot) = slot.filter(|_| used(queue) || queue.flows.is_some()) else {
                    continue;
                };
                let bits = queue.count.checked_ilog2().unwrap_or(0).max(PLACE_BITS);
                let flows = match queue.flows.take().filter(|_| !fresh) {
                    Some(flows) if flows.len() >= 1 << bits => flows,
                    Some(flows) => Arc::new(flows.grown(bits)),
                    None => Arc::new(Flows::new(bits)),
                };
                queue.flows = Some(flows.clone());
                *slot = Some(Map {
                    cpus: queue.cpus.iter().map(|cpu| *cpu as u16).collect(),
                    bits: flows.len().ilog2(),
                    flows,
                    by_program: queue.count > 0,
                });
            }
            settings.generation = settings.generation.wrapping_add(1).max(1);
            chosen.maps.replace(Some(Maps {
                generation: settings.generation,
                queues: queues.into(),
                ending,
                floor: Arc::clone(&floor),
            }));
            self.on.store(settings.generation, Release);
        }
        // The request waits, as those of `synchronize_net` do with the RTNL held.
        chosen.maps.domain().synchronize_expedited();
        // All threads steer by these maps now, or by later ones.
        let _ = floor.set(softnet.tickets());
    }

    /// Stops to look at packets once nothing is steered and nothing waits.
    fn end(&self, softnet: &Softnet, maps: &Maps) {
        let idle = |input: &Input| input.queue.is_idle();
        if maps.floor.get().is_some() && softnet.cpus().all(idle) {
            // A newer generation stays.
            let _ = self
                .on
                .compare_exchange(maps.generation, 0, Acquire, Relaxed);
        }
    }
}

impl Maps {
    /// Returns the map of a packet's receive queue: the one that was recorded, or else the first.
    #[inline]
    fn of(&self, recorded: u16) -> Option<&Map> {
        let queue = usize::from(recorded).checked_sub(1);
        let queue = queue.filter(|queue| *queue < self.queues.len());
        self.queues.get(queue.unwrap_or(0))?.as_ref()
    }
}

impl Map {
    /// Returns the CPU of a flow, or `None` for the CPU that receives it.
    #[inline]
    fn wanted(&self, place: usize, hash: u32, programs: Option<&SockFlows>) -> Option<usize> {
        if self.by_program
            && let Some(cpu) = programs.and_then(|programs| programs.find(hash))
        {
            return Some(cpu);
        }
        let at = (place * self.cpus.len()) >> self.bits;
        self.cpus.get(at).map(|cpu| usize::from(*cpu))
    }
}

/// Hands over the packets of a batch that other CPUs are to work on. Returns those of this CPU.
pub fn steer(cx: &mut Cx<'_>, device: &Arc<Device>, point: Point, mut batch: Batch) -> Batch {
    let steering = &device.steering;
    let chosen = steering.chosen.get();
    let Some(maps) = chosen.and_then(|chosen| chosen.maps.load(cx.guard)) else {
        return batch;
    };
    let softnet = &*cx.stack.softnet;
    let programs = softnet.sock_flows(cx.guard);
    let me = cx.state.id;
    let input = softnet.cpu(me);
    let count = batch.len();
    // A packet may not overtake one that was steered to this CPU.
    let queued = cx.state.has_steered() || input.is_some_and(|input| !input.queue.is_empty());
    let busy = queued || cx.state.has_backlog();
    let done = |cpu: usize, ticket| {
        let is_done = |input: &Input| {
            let floor = maps.floor.get().and_then(|floor| floor.get(cpu));
            floor.is_some_and(|floor| input.queue.is_done(*floor)) && input.queue.is_done(ticket)
        };
        // A CPU that does not exist has nothing.
        softnet.cpu(cpu).is_none_or(is_done)
    };
    let mut moving: Vec<(&Map, usize, usize)> = Vec::new();
    let mut parts = std::mem::take(&mut cx.state.parts);
    parts.resize_with(softnet.cpus.len(), || None);
    batch.filter_map(|mut packet| {
        let Some(map) = maps.of(packet.queue) else {
            return Some(packet);
        };
        let hash = packet_hash(&mut packet);
        let place = map.flows.place(hash);
        let wanted = map.wanted(place, hash, programs);
        let mut cpu = wanted;
        if !map.flows.stays(place, wanted) {
            let way = map.flows.route(place, wanted, busy.then_some(me), done);
            cpu = way.cpu;
            if way.moving {
                moving.push((map, place, cpu.unwrap_or(me)));
            }
        }
        let part = match cpu {
            Some(cpu) if cpu != me || queued => parts.get_mut(cpu),
            _ => None,
        };
        let Some(part) = part else {
            return Some(packet);
        };
        let part = part.get_or_insert_with(|| {
            Entry::new(Steered {
                device: device.clone(),
                point,
                batch: Batch::new(),
            })
        });
        // There is room: the part is no larger than the batch it is taken from.
        let _ = part.batch.push(packet);
        None
    });
    for (cpu, part) in parts.iter_mut().enumerate() {
        match (part.take(), softnet.cpu(cpu)) {
            (Some(part), Some(input)) if input.is_online() => hand_over(cx, cpu, input, part),
            (Some(mut part), _) => drop(part.batch.move_to(&mut batch)),
            (None, _) => {}
        }
    }
    cx.state.parts = parts;
    for (map, place, cpu) in moving {
        let ticket = softnet.cpu(cpu).map_or(0, |input| input.queue.ticket());
        map.flows.pushed(place, ticket);
        cx.state.settle |= cpu == me;
    }
    if maps.ending {
        steering.end(softnet, maps);
    }
    cx.state.stages.end(Stage::Steer, count);
    batch
}

/// Drops packets that the queue of a CPU does not take, and counts them.
fn lose(cx: &Cx<'_>, input: &Input, device: &Arc<Device>, batch: Batch) {
    if batch.is_empty() {
        return;
    }
    let lost = batch.len() as u64;
    input.dropped.fetch_add(lost, Relaxed);
    let stats = device.stats(cx.state.id);
    stats.rx_dropped.fetch_add(lost, Relaxed);
    cx.drop_batch(device, Place::Backlog, DropReason::CPU_BACKLOG, batch);
}

/// Puts packets into the queue of a CPU, as many as there is room for, and wakes it
/// (`enqueue_to_backlog`).
fn hand_over(cx: &Cx<'_>, cpu: usize, input: &Input, mut part: Entry<Steered>) {
    let softnet = &*cx.stack.softnet;
    if let Some(limit) = softnet.flow_limit(cpu, cx.guard) {
        let half = softnet.max_backlog() as u32 / 2;
        let mut over = Batch::new();
        let mut waiting = input.queue.waiting();
        part.batch.split(
            |packet| {
                let stays = waiting < half || !limit.exceeds(packet_hash(packet));
                waiting += u32::from(stays);
                stays
            },
            |packet| {
                // There is room: no more come out of a batch than it holds.
                let _ = over.push(packet);
            },
        );
        lose(cx, input, &part.device, over);
        if part.batch.is_empty() {
            return;
        }
    }
    let count = part.batch.len() as u32;
    let room = input.queue.reserve(count, softnet.max_backlog() as u32);
    if room < count {
        let mut rest = Batch::new();
        let mut at = 0..;
        part.batch.split(
            |_| at.next() < Some(room),
            |packet| {
                // There is room: the rest is no larger than the batch it is taken from.
                let _ = rest.push(packet);
            },
        );
        lose(cx, input, &part.device, rest);
    }
    if room > 0 && input.queue.push(part) && cpu != cx.state.id {
        input.received_rps.fetch_add(1, Relaxed);
        match softnet.waker.get() {
            Some(wake) => wake(cpu),
            None => cx.stack.wake(),
        }
    }
}
