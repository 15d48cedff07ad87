// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A stack CPU: the context in which packets move, and its loop.
//!
//! A loop turn pins RCU once, runs posted jobs, due timers and the backlog, and unpins: between turns
//! the CPU is quiescent. Under a virtual clock [`Cpu::run_until`] is the event loop of the whole
//! stack; under a real clock the embedding program calls [`Cpu::turn`] when woken or when the next
//! timer is due.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_packet::{Batch, Cache, DropReason, Packet};
use weir_sync::rcu::{Guard, Reader};
use weir_tc::{Copy, Ended, qdisc::Drops};

use crate::datapath::FilterWork;
use crate::device::{Device, DeviceKey};
use crate::drops::{Dropped, Place};
use crate::stack::Stack;
use crate::stages::{Stage, Stages};

/// Batches a turn takes from the backlog before it looks at timers again (`netdev_budget`).
const BUDGET: usize = 16;

/// Where waiting frames go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// To the beginning of the receive path.
    Receive,
    /// To the ingress filters: the frame was received before, and redirected.
    Redirected,
    /// Behind the ingress filters.
    Resume,
    /// To the transmit path.
    Transmit,
    /// Not frames: the qdisc at a transmit queue has more to send (`__netif_schedule`).
    Queue(u16),
}

/// Frames that wait for their device.
struct Arrival {
    /// May go while they wait.
    device: Arc<Device>,
    entry: Entry,
    batch: Batch,
}

/// What a CPU owns; see [`Cx`]. Memory in it is used again and again, so that packets on their way
/// need none from elsewhere.
pub struct State {
    /// The CPU's number, from 0.
    pub id: usize,
    /// Cost of each stage.
    pub stages: Stages,
    /// The CPU's free packets.
    pub cache: RefCell<Cache>,
    backlog: VecDeque<Arrival>,
    /// How many transmits are nested (`XMIT_RECURSION_LIMIT`).
    pub(crate) transmit_depth: u32,
    /// Queues this CPU is at work on now, one from within the other.
    pub(crate) working: u32,
    /// `None` while filters run.
    pub(crate) filters: Option<Box<FilterWork>>,
    /// Empty lists for packets that are sent elsewhere; as many as were in use at once.
    pub(crate) spare: Vec<Vec<Copy>>,
    /// An empty list for what qdiscs drop.
    pub(crate) drops: Drops,
}

impl State {
    fn new(id: usize, stack: &Stack) -> Self {
        Self {
            id,
            stages: Stages::default(),
            cache: RefCell::new(stack.pool.cache()),
            backlog: VecDeque::new(),
            transmit_depth: 0,
            working: 0,
            filters: None,
            spare: Vec::new(),
            drops: Drops::new(),
        }
    }
}

/// The context of code that runs on a stack CPU.
pub struct Cx<'g> {
    /// Keeps what the CPU reads alive until the turn's end.
    pub guard: &'g Guard,
    /// The stack.
    pub stack: &'g Stack,
    /// The CPU's own data.
    pub state: &'g mut State,
    /// Nanoseconds of the stack's clock, read once a batch.
    pub now: u64,
}

impl<'g> Cx<'g> {
    /// Leaves frames to be received by `device` later in this turn (`netif_rx`): how a veth peer, an
    /// ifb or a local echo gets them, without recursion.
    pub fn receive_later(&mut self, device: &Arc<Device>, batch: Batch) {
        if !batch.is_empty() {
            self.state.backlog.push_back(Arrival {
                device: device.clone(),
                entry: Entry::Receive,
                batch,
            });
        }
    }

    /// Leaves frames that an action redirected to be received by `device` later in this turn, from its
    /// ingress filters on.
    pub fn receive_redirected(&mut self, device: &Arc<Device>, batch: Batch) {
        if !batch.is_empty() {
            self.state.backlog.push_back(Arrival {
                device: device.clone(),
                entry: Entry::Redirected,
                batch,
            });
        }
    }

    /// Lets a frame that passed an ifb go on where it was taken from: behind the ingress filters of
    /// `device`, or to its transmit path.
    pub fn resume_later(&mut self, device: &Arc<Device>, packet: Packet, from_ingress: bool) {
        let entry = if from_ingress {
            Entry::Resume
        } else {
            Entry::Transmit
        };
        if let Some(last) = self.state.backlog.back_mut()
            && (last.device.key, last.entry) == (device.key, entry)
            && !last.batch.is_full()
        {
            let _ = last.batch.push(packet);
            return;
        }
        let mut batch = Batch::new();
        let _ = batch.push(packet);
        self.state.backlog.push_back(Arrival {
            device: device.clone(),
            entry,
            batch,
        });
    }

    /// Goes on sending from the qdisc at a transmit queue of `device` later in this turn.
    pub fn run_queue_later(&mut self, device: &Arc<Device>, queue: u16) {
        self.state.backlog.push_back(Arrival {
            device: device.clone(),
            entry: Entry::Queue(queue),
            batch: Batch::new(),
        });
    }

    /// Lets frames that waited go on; drops them if their device went meanwhile (`flush_backlog`).
    fn arrive(
        &mut self,
        Arrival {
            device,
            entry,
            batch,
        }: Arrival,
    ) {
        let there = self.device(device.key);
        self.state.stages.end(Stage::Backlog, batch.len());
        let Some(device) = there else {
            let (place, reason) = (Place::Backlog, DropReason::DEV_READY);
            // Nobody sees the device's own counters any more.
            self.stack.gone.count(place, reason, batch.len() as u64);
            return self.drop_batch(&device, place, reason, batch);
        };
        match entry {
            Entry::Receive => crate::datapath::receive(self, device, batch),
            Entry::Redirected => crate::datapath::receive_classified(self, device, batch),
            Entry::Resume => crate::datapath::resume(self, device, batch),
            Entry::Transmit => crate::datapath::transmit(self, device, batch),
            Entry::Queue(queue) => crate::datapath::run_queue(self, device, queue),
        }
    }

    /// Ends a packet, counting why and where.
    pub fn drop(&self, device: &Device, place: Place, reason: DropReason, packet: Packet) {
        device.count_drop(place, reason);
        if let Some(observer) = self.stack.drop_observer.get() {
            let note = self.stack.trace.read(&packet);
            let note = note.as_deref();
            observer.dropped(&Dropped {
                device,
                place,
                reason,
                time: self.now,
                packet: &packet,
                note,
            });
        }
        self.consume(packet);
    }

    /// Ends all packets of a batch.
    pub fn drop_batch(&self, device: &Device, place: Place, reason: DropReason, batch: Batch) {
        let ended = batch.into_iter().map(|packet| (packet, Some(reason)));
        self.end_all(device, place, ended);
    }

    /// Ends packets, those dropped with their reasons, the others as they have arrived.
    pub fn end_all(&self, device: &Device, place: Place, ended: impl Iterator<Item = Ended>) {
        if self.stack.drop_observer.get().is_some() || self.stack.trace.is_on() {
            return ended.for_each(|(packet, reason)| match reason {
                Some(reason) => self.drop(device, place, reason, packet),
                None => self.consume(packet),
            });
        }
        let mut cache = self.state.cache.borrow_mut();
        // Most of a batch end for one reason: they are counted together.
        let (mut last, mut count) = (None, 0);
        let tell = |reason: Option<DropReason>, count| {
            if let Some(reason) = reason {
                device.count_drops(place, reason, count);
            }
        };
        for (packet, reason) in ended {
            if reason != last {
                tell(last, count);
                (last, count) = (reason, 0);
            }
            count += 1;
            cache.free(packet);
        }
        tell(last, count);
    }

    /// Ends a packet that has arrived (`consume_skb`).
    #[inline]
    pub fn consume(&self, packet: Packet) {
        self.stack.trace.end(&packet);
        self.state.cache.borrow_mut().free(packet);
    }

    /// Ends all packets of a batch that have arrived.
    pub fn consume_batch(&self, mut batch: Batch) {
        if self.stack.trace.is_on() {
            batch.iter().for_each(|packet| self.stack.trace.end(packet));
        }
        self.state.cache.borrow_mut().free_bulk(&mut batch);
    }

    /// The device with a key, if it is still there.
    pub fn device(&self, key: DeviceKey) -> Option<&'g Arc<Device>> {
        self.stack.device(key, self.guard)
    }
}

/// Where [`Cpu::run_paced`] has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// To its end, or the stack was interrupted.
    Done,
    /// To the time at which it was to stop on the way.
    Limit,
    /// Somebody asked to be waited for.
    Asked,
}

/// A stack CPU; see the module's head.
pub struct Cpu {
    // In this order: what waits goes before the stack does.
    state: State,
    reader: Reader,
    stack: Stack,
}

impl Cpu {
    /// CPU number `id` of the stack (0 to `cpus - 1`); at most one of each number.
    pub fn new(stack: &Stack, id: usize) -> Self {
        let reader = stack.domain.reader();
        Self {
            stack: stack.clone(),
            reader,
            state: State::new(id, stack),
        }
    }

    /// The CPU's own data.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Runs `work` as part of a turn of its own.
    pub fn with<R>(&mut self, work: impl FnOnce(&mut Cx<'_>) -> R) -> R {
        let guard = self.reader.pin();
        let now = self.stack.clock.now();
        work(&mut Cx {
            guard: &guard,
            stack: &self.stack,
            state: &mut self.state,
            now,
        })
    }

    /// One loop turn; `false` when there was nothing to do.
    pub fn turn(&mut self) -> bool {
        let stack = self.stack.clone();
        let worked = self.with(|cx| {
            let mut worked = false;
            while let Some(job) = stack.take_posted() {
                job(cx);
                worked = true;
            }
            for _ in 0..BUDGET {
                cx.state.stages.start();
                let Some(arrival) = cx.state.backlog.pop_front() else {
                    break;
                };
                worked = true;
                cx.arrive(arrival);
            }
            if cx.state.backlog.is_empty()
                && let Some((_, job)) = stack.timers.take_due(cx.now)
            {
                job(cx);
                worked = true;
            }
            worked
        });
        if !worked {
            // An idle CPU runs what waited for its quiescence.
            self.stack.domain.poll();
        }
        worked
    }

    /// Works until nothing is left to do now, or until the stack is interrupted.
    pub fn settle(&mut self) {
        while !self.is_interrupted() && self.turn() {}
    }

    fn is_interrupted(&self) -> bool {
        self.stack.interrupt.load(Relaxed)
    }

    /// Runs the stack's virtual time up to `until` (ns of the stack's clock), or, without it, until
    /// no timer holds a packet any more. Returns early once the stack is interrupted.
    pub fn run_until(&mut self, until: Option<u64>) {
        self.run_paced(until, None, || true);
    }

    /// As [`Cpu::run_until`], but stops at `limit` if that comes first, after the timers of that time, and
    /// before the clock moves once `go_on` says no.
    pub fn run_paced(
        &mut self,
        until: Option<u64>,
        limit: Option<u64>,
        mut go_on: impl FnMut() -> bool,
    ) -> Pause {
        let limit = limit.unwrap_or(u64::MAX);
        loop {
            self.settle();
            if self.is_interrupted() {
                return Pause::Done;
            }
            if !go_on() {
                return Pause::Asked;
            }
            let (timers, clock) = (&self.stack.timers, &self.stack.clock);
            let next = timers.next_time();
            let next = match until {
                Some(until) => next.filter(|next| *next <= until),
                None => next.filter(|_| timers.packets_wait()),
            };
            match (next, until) {
                (Some(next), _) if next <= limit => clock.advance(next),
                (Some(_), _) => {
                    clock.advance(limit);
                    return Pause::Limit;
                }
                (None, Some(until)) => {
                    clock.advance(until.min(limit));
                    return if limit <= until {
                        Pause::Limit
                    } else {
                        Pause::Done
                    };
                }
                (None, None) => return Pause::Done,
            }
        }
    }
}
