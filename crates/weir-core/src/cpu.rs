// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A stack CPU: the context in which packets move, and its event loop.
//!
//! One turn of the loop pins RCU once, runs posted jobs, due timers and the backlog, and unpins.
//! Between turns the CPU is quiescent. Under a virtual clock, [`Cpu::run_until`] is the event loop
//! of the whole stack. Under a real clock, the embedding program calls [`Cpu::turn`] when it is
//! woken or when the next timer is due.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_packet::{Batch, Cache, DropReason, Packet};
use weir_sync::list::{Entry as Linked, Taken};
use weir_sync::rcu::{Guard, Reader};
use weir_tc::{Copy, Ended, Lookup, qdisc::Drops};

use crate::clock::MILLISECOND;
use crate::device::{Device, DeviceKey};
use crate::drops::{Dropped, Place};
use crate::stack::Stack;
use crate::stages::{Stage, Stages};
use crate::steer::{self, Input, Point, Steered};
use crate::trace::Step;

/// The number of backlog entries a turn processes before it checks the timers again
/// (`netdev_budget`).
const BUDGET: usize = 16;

/// The point at which frames of the backlog re-enter the datapath.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// The beginning of the receive path.
    Receive,
    /// Past the steering: another CPU received the frame.
    Steered(Point),
    /// Past the steering: this CPU received the frame, and holds it to work on a large batch.
    Held,
    /// The ingress filters: the frame was already received and then redirected.
    Redirected,
    /// Past the ingress filters.
    Resume,
    /// The transmit path.
    Transmit,
    /// No frames: the qdisc of a transmit queue has more to send (`__netif_schedule`).
    Queue(u16),
}

/// Frames in the backlog, waiting for their device.
struct Arrival {
    /// The device, which may be removed while the frames wait.
    device: Arc<Device>,
    entry: Entry,
    batch: Batch,
}

/// A CPU's memory for filters, used again and again.
#[derive(Default)]
pub struct FilterWork {
    /// What look-ups are made with.
    pub lookup: Lookup,
    /// Packets that filters have ended.
    pub ended: Vec<Ended>,
}

/// The data a CPU owns; see [`Cx`]. Its buffers are reused, so that moving packets needs no further
/// allocation.
pub struct State {
    /// The CPU's number, from 0.
    pub id: usize,
    /// The cost of each stage.
    pub stages: Stages,
    /// The CPU's cache of free packets.
    pub cache: RefCell<Cache>,
    backlog: VecDeque<Arrival>,
    /// The nesting depth of transmits (`XMIT_RECURSION_LIMIT`).
    pub transmit_depth: u32,
    /// The number of queues this CPU is currently draining, nested one inside the other.
    pub working: u32,
    /// Scratch memory of the filters. It is `None` while filters run.
    pub filters: Option<Box<FilterWork>>,
    /// Empty lists for redirected and mirrored packets. There are as many as were ever in use at
    /// once.
    pub spare: Vec<Vec<Copy>>,
    /// An empty list for packets that qdiscs drop.
    pub drops: Drops,
    /// An empty list for the segments of a long packet.
    pub segments: Vec<Packet>,
    /// Packets taken from the CPU's input queue, and the first of them.
    steered: Taken<Linked<Steered>>,
    first_steered: Option<Linked<Steered>>,
    /// Empty slots for the parts of a batch that other CPUs get.
    pub(crate) parts: Vec<Option<Linked<Steered>>>,
    /// A flow waits until this CPU has no packet left.
    pub(crate) settle: bool,
    /// The entries of the backlog that are held; see [`Cx::hold`].
    held: usize,
    /// More packets to hold are about to come.
    more: bool,
}

impl State {
    fn new(id: usize, stack: &Stack) -> Self {
        Self {
            id,
            stages: Stages::new(stack.stages.get(id).get_or_init(Arc::default).clone()),
            cache: RefCell::new(stack.pool.cache()),
            backlog: VecDeque::new(),
            transmit_depth: 0,
            working: 0,
            filters: None,
            spare: Vec::new(),
            drops: Drops::new(),
            segments: Vec::new(),
            steered: Taken::default(),
            first_steered: None,
            parts: Vec::new(),
            settle: false,
            held: 0,
            more: false,
        }
    }

    /// Returns whether packets that were steered here wait.
    #[inline]
    pub(crate) fn has_steered(&self) -> bool {
        self.first_steered.is_some() || !self.steered.is_empty()
    }

    /// Returns whether packets are held, which others of their flows may not overtake.
    #[inline]
    pub fn holds(&self) -> bool {
        self.held > 0
    }

    /// Returns whether packets wait for their next device.
    #[inline]
    pub(crate) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }
}

/// The context of code that runs on a stack CPU.
pub struct Cx<'g> {
    /// Keeps everything the CPU reads alive until the end of the turn.
    pub guard: &'g Guard,
    /// The stack.
    pub stack: &'g Stack,
    /// The CPU's own data.
    pub state: &'g mut State,
    /// The stack clock's time in nanoseconds, read once per batch.
    pub now: u64,
}

impl<'g> Cx<'g> {
    /// Queues frames to be received by `device` later in this turn (`netif_rx`). A veth peer, an
    /// ifb and a local echo receive their frames this way, without recursion.
    pub fn receive_later(&mut self, device: &Arc<Device>, batch: Batch) {
        if !batch.is_empty() {
            self.state.backlog.push_back(Arrival {
                device: device.clone(),
                entry: Entry::Receive,
                batch,
            });
        }
    }

    /// Queues frames that `device` receives without counting them: they come from above it. Their addressee,
    /// protocol and place of arrival are set.
    pub fn receive_counted_later(&mut self, device: &Arc<Device>, batch: Batch) {
        if !batch.is_empty() {
            self.state.backlog.push_back(Arrival {
                device: device.clone(),
                entry: Entry::Steered(Point::Arrived),
                batch,
            });
        }
    }

    /// Holds received frames of which the steering has left this CPU a part, until there are enough for a full batch:
    /// the work on a batch has a cost that does not depend on its size. If there will be `more`, because the port had
    /// as many frames as it was asked for, a turn waits once for them. Frames go on in order, those of one device
    /// together.
    pub fn hold(&mut self, device: &Arc<Device>, mut batch: Batch, more: bool) {
        self.state.more = more;
        if let Some(last) = self.state.backlog.back_mut()
            && (last.device.key, last.entry) == (device.key, Entry::Held)
        {
            batch.move_to(&mut last.batch);
        }
        if !batch.is_empty() {
            self.state.held += 1;
            self.state.backlog.push_back(Arrival {
                device: device.clone(),
                entry: Entry::Held,
                batch,
            });
        }
    }

    /// Returns whether all that is left are held frames to which more will come. It never waits while another CPU
    /// needs to know that this one has nothing left.
    fn waits_for_more(&self, input: Option<&Input>) -> bool {
        let state = &*self.state;
        state.more
            && !state.settle
            && !state.has_steered()
            && input.is_none_or(|input| input.queue.is_finished())
            && state.backlog.len() == 1
            && (state.backlog.front())
                .is_some_and(|last| last.entry == Entry::Held && !last.batch.is_full())
    }

    /// Queues frames that an action redirected. `device` receives them later in this turn, starting
    /// at its ingress filters.
    pub fn receive_redirected(&mut self, device: &Arc<Device>, batch: Batch) {
        if !batch.is_empty() {
            self.state.backlog.push_back(Arrival {
                device: device.clone(),
                entry: Entry::Redirected,
                batch,
            });
        }
    }

    /// Returns a frame that went through an ifb to where it was taken from: past the ingress
    /// filters of `device`, or to its transmit path.
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

    /// Continues later in this turn to send from the qdisc of a transmit queue of `device`.
    pub fn run_queue_later(&mut self, device: &Arc<Device>, queue: u16) {
        self.state.backlog.push_back(Arrival {
            device: device.clone(),
            entry: Entry::Queue(queue),
            batch: Batch::new(),
        });
    }

    /// Processes a backlog entry. Drops its frames if their device has been removed meanwhile
    /// (`flush_backlog`).
    fn arrive(
        &mut self,
        Arrival {
            device,
            entry,
            mut batch,
        }: Arrival,
    ) {
        let there = self.device(device.key);
        self.state.stages.end(Stage::Backlog, batch.len());
        let Some(device) = there else {
            let (place, reason) = (Place::Backlog, DropReason::DEV_READY);
            // The device's own counters are no longer visible to anybody.
            self.stack.gone.count(place, reason, batch.len() as u64);
            return self.drop_batch(&device, place, reason, batch);
        };
        let path = &self.stack.layers.path;
        let step = match entry {
            Entry::Receive => path.receive,
            Entry::Steered(point) => return self.go_on(device, point, batch),
            Entry::Held => return self.go_on(device, Point::Arrived, batch),
            Entry::Redirected => return self.steer(device, Point::Redirected, batch),
            Entry::Resume => return self.steer(device, Point::Resumed, batch),
            Entry::Transmit => path.transmit,
            Entry::Queue(queue) => return (path.run_queue)(self, device, queue),
        };
        step(self, device, &mut batch);
        debug_assert!(batch.is_empty(), "{entry:?} left packets");
    }

    /// Steers packets that a device receives again, and goes on with those of this CPU.
    fn steer(&mut self, device: &Arc<Device>, point: Point, mut batch: Batch) {
        if device.steering.is_on() {
            batch = steer::steer(self, device, point, batch);
            if batch.is_empty() {
                return;
            }
        }
        self.go_on(device, point, batch);
    }

    /// Goes on with received packets behind the steering.
    fn go_on(&mut self, device: &Arc<Device>, point: Point, mut batch: Batch) {
        if point != Point::Arrived {
            // Every round through `__netif_receive_skb_core` counts.
            let processed = self.stack.received.get(self.state.id);
            processed.store(processed.load(Relaxed) + batch.len() as u64, Relaxed);
        }
        (self.stack.layers.path.of(point))(self, device, &mut batch);
        debug_assert!(batch.is_empty(), "{point:?} left packets");
    }

    /// Works on packets that other CPUs have steered here, up to a batch. Returns `false` if there are none
    /// (`process_backlog`).
    fn take_steered(&mut self, input: &Input) -> bool {
        if !self.state.has_steered() {
            self.state.steered = input.queue.take();
        }
        let first = self.state.first_steered.take();
        let Some(first) = first.or_else(|| self.state.steered.next()) else {
            return false;
        };
        let Steered {
            device,
            point,
            mut batch,
        } = first.into_inner();
        // Parts of small batches make a large one.
        for mut next in self.state.steered.by_ref() {
            let same = (next.device.key, next.point) == (device.key, point);
            if same {
                next.batch.move_to(&mut batch);
            }
            if !next.batch.is_empty() {
                self.state.first_steered = Some(next);
                break;
            }
        }
        batch.take_over();
        input.queue.release(batch.len() as u32);
        let entry = Entry::Steered(point);
        self.arrive(Arrival {
            device,
            entry,
            batch,
        });
        true
    }

    /// Says that nothing steered here is left, if so.
    fn settle_steered(&mut self, input: &Input) {
        let left = |state: &State| state.has_backlog() || state.has_steered();
        if left(self.state) {
            return;
        }
        if std::mem::take(&mut self.state.settle) {
            self.state.steered = input.queue.begin();
        }
        if !left(self.state) {
            input.queue.finish();
        }
    }

    /// Sends frames that begin with a link-layer header by `device` (`dev_queue_xmit`).
    #[inline]
    pub fn transmit(&mut self, device: &Arc<Device>, mut batch: Batch) {
        self.transmit_all(device, &mut batch);
    }

    /// Does the same and leaves the batch empty.
    #[inline]
    pub fn transmit_all(&mut self, device: &Arc<Device>, batch: &mut Batch) {
        (self.stack.layers.path.transmit)(self, device, batch);
        debug_assert!(batch.is_empty(), "transmit left packets");
    }

    /// Drops a packet and counts the place and the reason.
    pub fn drop(&self, device: &Device, place: Place, reason: DropReason, packet: Packet) {
        device.count_drop(place, reason);
        let step = Step::Dropped(place, reason);
        self.stack.trace.step(device, self.now, &packet, step);
        let observers = self.stack.drop_observers(self.guard);
        if !observers.is_empty() {
            let note = self.stack.trace.read(&packet);
            let dropped = Dropped {
                device,
                place,
                reason,
                time: self.now,
                packet: &packet,
                note: note.as_deref(),
                cpu: self.state.id,
                guard: self.guard,
            };
            observers.iter().for_each(|one| one.dropped(&dropped));
        }
        self.consume(packet);
    }

    /// Drops all packets of a batch for one reason.
    pub fn drop_batch(&self, device: &Device, place: Place, reason: DropReason, mut batch: Batch) {
        self.drop_all(device, place, reason, &mut batch);
    }

    /// Does the same and leaves the batch empty.
    pub fn drop_all(&self, device: &Device, place: Place, reason: DropReason, batch: &mut Batch) {
        if self.are_drops_observed() {
            let ended = batch.drain().map(|packet| (packet, Some(reason)));
            return self.end_all(device, place, ended);
        }
        if !batch.is_empty() {
            device.count_drops(place, reason, batch.len() as u64);
            self.state.cache.borrow_mut().free_bulk(batch);
        }
    }

    /// Returns whether each drop and each end of a packet is reported.
    #[inline]
    fn are_drops_observed(&self) -> bool {
        !self.stack.drop_observers(self.guard).is_empty() || self.stack.trace.is_on()
    }

    /// Frees packets: drops those that have a reason, and consumes the others.
    pub fn end_all(&self, device: &Device, place: Place, ended: impl Iterator<Item = Ended>) {
        if self.are_drops_observed() {
            return ended.for_each(|(packet, reason)| match reason {
                Some(reason) => self.drop(device, place, reason, packet),
                None => self.consume(packet),
            });
        }
        let mut cache = self.state.cache.borrow_mut();
        let mut gone = Batch::new();
        // Most packets of a batch have the same reason, so a run of them is counted at once.
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
            if gone.is_full() {
                cache.free_bulk(&mut gone);
            }
            // There is room: a full batch has just been freed.
            let _ = gone.push(packet);
        }
        cache.free_bulk(&mut gone);
        tell(last, count);
    }

    /// Frees a packet that reached its destination (`consume_skb`).
    #[inline]
    pub fn consume(&self, packet: Packet) {
        self.stack.trace.end(&packet);
        self.state.cache.borrow_mut().free(packet);
    }

    /// Frees all packets of a batch that reached their destination.
    pub fn consume_batch(&self, mut batch: Batch) {
        let count = batch.len();
        let stages = &self.state.stages;
        stages.inner(Stage::Buffers, count, || self.free_all(&mut batch));
    }

    /// Does the same as part of the stage that ends next, and leaves the batch empty.
    pub fn free_all(&self, batch: &mut Batch) {
        if self.stack.trace.is_on() {
            batch.iter().for_each(|packet| self.stack.trace.end(packet));
        }
        self.state.cache.borrow_mut().free_bulk(batch);
    }

    /// Returns the time to record as that of the last use of something that several CPUs use. In real time it has the
    /// steps of a millisecond, as jiffies have, so that the CPUs seldom write.
    #[inline]
    pub fn time_of_use(&self) -> u64 {
        match self.stack.config.virtual_time {
            true => self.now,
            false => self.now - self.now % MILLISECOND,
        }
    }

    /// Returns the device with a key if it still exists.
    pub fn device(&self, key: DeviceKey) -> Option<&'g Arc<Device>> {
        self.stack.device(key, self.guard)
    }
}

/// The reason why [`Cpu::run_paced`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// The run is complete, or the stack was interrupted.
    Done,
    /// The run reached its intermediate time limit.
    Limit,
    /// The caller's `go_on` asked for a pause.
    Asked,
}

/// A stack CPU; see the module documentation.
pub struct Cpu {
    // The order matters: the backlog must be dropped before the stack.
    state: State,
    reader: Reader,
    stack: Stack,
}

impl Cpu {
    /// Creates CPU number `id` of the stack (0 to `cpus - 1`). There may be only one CPU per
    /// number.
    pub fn new(stack: &Stack, id: usize) -> Self {
        let reader = stack.domain.named_reader(&format!("cpu {id}"));
        if let Some(input) = stack.softnet.cpu(id) {
            input.set_online(true);
        }
        Self {
            stack: stack.clone(),
            reader,
            state: State::new(id, stack),
        }
    }

    /// Returns the CPU's own data.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Runs `work` in a turn of its own.
    #[track_caller]
    pub fn with<R>(&mut self, work: impl FnOnce(&mut Cx<'_>) -> R) -> R {
        self.state.stages.begin_turn();
        let guard = self.reader.pin();
        let now = self.stack.clock.now();
        self.state.stages.entered();
        let result = work(&mut Cx {
            guard: &guard,
            stack: &self.stack,
            state: &mut self.state,
            now,
        });
        self.state.stages.leave();
        drop(guard);
        self.state.stages.end_turn();
        result
    }

    /// Runs one turn of the loop. Returns `false` if there was nothing to do.
    pub fn turn(&mut self) -> bool {
        let worked = self.with(|cx| {
            let (stack, mut worked) = (cx.stack, false);
            while let Some(job) = stack.take_posted() {
                job(cx);
                worked = true;
            }
            let input = stack.softnet.cpu(cx.state.id);
            for left in (0..BUDGET).rev() {
                cx.state.stages.start();
                if cx.waits_for_more(input) {
                    break;
                }
                if let Some(arrival) = cx.state.backlog.pop_front() {
                    cx.state.held -= usize::from(arrival.entry == Entry::Held);
                    cx.arrive(arrival);
                } else if !input.is_some_and(|input| cx.take_steered(input)) {
                    break;
                }
                worked = true;
                if left == 0
                    && let Some(input) = input
                    && (cx.state.has_backlog() || cx.state.has_steered())
                {
                    input.squeezed.fetch_add(1, Relaxed);
                }
            }
            if let Some(input) = input {
                cx.settle_steered(input);
                worked |= cx.state.has_steered();
            }
            if (cx.state.backlog.is_empty() || cx.waits_for_more(input))
                && let Some((_, job)) = stack.timers.take_due(cx.now)
            {
                job(cx);
                worked = true;
            }
            // What is left now goes on in the next turn.
            cx.state.more = false;
            worked | cx.state.holds()
        });
        if !worked {
            // An idle CPU runs the callbacks that waited for it to be quiescent.
            self.stack.domain.poll();
        }
        worked
    }

    /// Returns whether packets wait here for a turn: those that other CPUs have steered here, and what a turn has left.
    pub fn has_input(&self) -> bool {
        let input = self.stack.softnet.cpu(self.state.id);
        self.state.has_steered()
            || self.state.has_backlog()
            || input.is_some_and(|input| !input.queue.is_empty())
    }

    /// Runs turns until there is nothing left to do at the current time, or until the stack is
    /// interrupted.
    pub fn settle(&mut self) {
        while !self.is_interrupted() && self.turn() {}
    }

    fn is_interrupted(&self) -> bool {
        self.stack.interrupt.load(Relaxed)
    }

    /// Runs the stack's virtual time up to `until` (in ns of the stack's clock), or, if that is
    /// `None`, until no timer holds a packet any more. Returns early if the stack is interrupted.
    pub fn run_until(&mut self, until: Option<u64>) {
        self.run_paced(until, None, || true);
    }

    /// Like [`Cpu::run_until`], but stops at `limit` if that is earlier, after the timers of that
    /// time have run. It also stops before the clock moves when `go_on` returns `false`.
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

impl Drop for Cpu {
    fn drop(&mut self) {
        if let Some(input) = self.stack.softnet.cpu(self.state.id) {
            input.set_online(false);
        }
    }
}
