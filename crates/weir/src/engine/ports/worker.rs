// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loops of the CPUs of a stack in real time.
//!
//! A loop runs a turn of its CPU (posted work, timers, backlog) and receives a batch from each of its
//! port queues that is ready. When nothing is left to do it sleeps in `epoll_wait`, until a port has
//! frames, the next timer is due, or another thread posts work ([`Pollers::ring`]). A queue that was
//! ready stays so until it is empty, so a busy port costs no system call for readiness. A port that is
//! attached with `busy=on` is polled all the time, and its CPU never sleeps.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use weir_stack::Cpu;
use weir_sync::bell::Bell;

use super::*;

/// The time between two rounds of chores.
const CHORES: Duration = Duration::from_millis(100);
/// The longest sleep of an idle CPU.
const IDLE: Duration = Duration::from_secs(1);
/// Turns with work between two looks for ports that have become ready.
const LOOK: u32 = 8;
/// The time for which an idle CPU waits for more steered packets before it sleeps. To sleep and to be woken
/// costs both CPUs some microseconds.
const LINGER: Duration = Duration::from_micros(20);
/// The token of a CPU's eventfd.
const WAKE: u64 = 0;
/// The token of the pipes of the ports' users.
const LIFE: u64 = u64::MAX;

/// One CPU's epoll set.
struct Poller {
    epoll: OwnedFd,
    /// Wakes the CPU.
    wake: OwnedFd,
    /// The queues of this CPU by token, and a number that changes with them.
    queues: Mutex<BTreeMap<u64, (Arc<Attached>, u16)>>,
    version: AtomicU64,
}

/// The epoll sets of all CPUs, and the bell that wakes them.
pub struct Pollers {
    bell: Bell,
    all: Vec<Poller>,
    /// A port asks for [`Ports::settle`].
    unsettled: AtomicBool,
}

impl Pollers {
    /// Makes the epoll sets of `cpus` CPUs.
    pub fn new(cpus: usize) -> std::io::Result<Self> {
        let poller = || -> rustix::io::Result<Poller> {
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let data = epoll::EventData::new_u64(WAKE);
            epoll::add(&epoll, &wake, data, epoll::EventFlags::IN)?;
            Ok(Poller {
                epoll,
                wake,
                queues: Mutex::default(),
                version: AtomicU64::new(0),
            })
        };
        Ok(Self {
            bell: Bell::new(cpus),
            all: (0..cpus).map(|_| poller()).collect::<Result<_, _>>()?,
            unsettled: AtomicBool::new(false),
        })
    }

    /// Returns the number of CPUs.
    pub fn cpus(&self) -> usize {
        self.all.len()
    }

    /// Wakes the CPUs that sleep: there is work.
    pub fn ring(&self) {
        self.bell.ring(|cpu| self.signal(cpu));
    }

    /// Wakes a CPU if it sleeps: packets were steered to it.
    pub fn wake(&self, cpu: usize) {
        self.bell.wake(cpu, || self.signal(cpu));
    }

    /// Ends the sleep of a CPU.
    fn signal(&self, cpu: usize) {
        if let Some(poller) = self.all.get(cpu) {
            // A full counter wakes as well.
            let _ = rustix::io::write(&poller.wake, &1_u64.to_ne_bytes());
        }
    }

    /// Has a CPU call [`Ports::settle`].
    pub(super) fn ask_to_settle(&self) {
        self.unsettled.store(true, Release);
        self.ring();
    }

    /// Adds the queues of a port to their CPUs' sets.
    pub(super) fn watch(&self, port: &Arc<Attached>) -> std::io::Result<()> {
        for (number, queue) in (0..).zip(&port.queues) {
            let poller = &self.all[queue.cpu];
            lock(&poller.queues).insert(queue.token, (port.clone(), number));
            poller.version.fetch_add(1, Release);
            if let Some(descriptor) = port.port.descriptor(number) {
                let data = epoll::EventData::new_u64(queue.token);
                epoll::add(&poller.epoll, descriptor, data, epoll::EventFlags::IN)?;
            }
        }
        if let (Some(life), Some(poller)) = (&port.life, self.all.first()) {
            let data = epoll::EventData::new_u64(LIFE);
            epoll::add(&poller.epoll, life, data, epoll::EventFlags::HUP)?;
        }
        self.ring();
        Ok(())
    }

    /// Removes the queues of a port from the sets.
    pub(super) fn unwatch(&self, port: &Attached) {
        for (number, queue) in (0..).zip(&port.queues) {
            let poller = &self.all[queue.cpu];
            if let Some(descriptor) = port.port.descriptor(number) {
                // It may be out of the set already.
                let _ = epoll::delete(&poller.epoll, descriptor);
            }
            lock(&poller.queues).remove(&queue.token);
            poller.version.fetch_add(1, Release);
        }
        if let (Some(life), Some(poller)) = (&port.life, self.all.first()) {
            let _ = epoll::delete(&poller.epoll, life);
        }
        self.ring();
    }

    /// Asks for an event when a queue has room, or no longer.
    pub(super) fn watch_room(&self, port: &Attached, number: u16, wanted: bool) {
        let (number, queue) = port.queue(number);
        let Some(descriptor) = port.port.descriptor(number) else {
            return;
        };
        let mut flags = epoll::EventFlags::IN;
        flags.set(epoll::EventFlags::OUT, wanted);
        let data = epoll::EventData::new_u64(queue.token);
        // A port that was detached meanwhile is not in the set.
        let _ = epoll::modify(&self.all[queue.cpu].epoll, descriptor, data, flags);
    }
}

/// The loop of one CPU.
struct Worker<'a> {
    engine: &'a Engine,
    pollers: &'a Pollers,
    id: usize,
    /// A copy of the CPU's queues of this version.
    version: u64,
    queues: BTreeMap<u64, (Arc<Attached>, u16)>,
    /// The tokens of queues that may have frames, in the order in which they became ready.
    ready: Vec<u64>,
    events: Vec<epoll::Event>,
}

/// Runs the loop of CPU `id` until the stack stops. `on_cpu` lends the CPU; `chores` is called every
/// [`CHORES`].
pub fn run(
    engine: &Engine,
    pollers: &Pollers,
    id: usize,
    mut on_cpu: impl FnMut(&mut dyn FnMut(&mut Cpu) -> bool) -> bool,
    chores: impl Fn(),
) {
    // Binds the thread to the CPU's own RCU callbacks and slabs.
    weir_sync::percpu::bind(id);
    let mut worker = Worker {
        engine,
        pollers,
        id,
        version: 0,
        queues: BTreeMap::new(),
        ready: Vec::new(),
        events: Vec::with_capacity(64),
    };
    let input = engine.stack.softnet.cpu(id);
    let steered = || input.is_some_and(|input| !input.queue.is_empty());
    let mut told = 0;
    // A CPU that waits must not keep another from running.
    let lingers = std::thread::available_parallelism().is_ok_and(|all| all.get() >= pollers.cpus());
    let mut turns = 0;
    let mut chores_done = None;
    while !engine.is_stopping() {
        let seen = pollers.bell.count();
        worker.refresh();
        let worked = on_cpu(&mut |cpu| {
            let turned = cpu.turn();
            worker.receive(cpu) | turned
        });
        if pollers.unsettled.swap(false, AcqRel) {
            engine.ports.settle(engine);
        }
        turns += 1;
        if worked {
            if turns % LOOK == 0 {
                if !worker.queues.is_empty() {
                    worker.look(Duration::ZERO);
                }
                // A CPU without a pause has chores as well.
                if chores_done.is_none_or(|at: Instant| at.elapsed() >= CHORES) {
                    engine.stack.domain.poll();
                    chores();
                    chores_done = Some(Instant::now());
                }
            }
            continue;
        }
        let times = input.map_or(0, |input| input.received_rps.load(Relaxed));
        if std::mem::replace(&mut told, times) != times && lingers {
            let start = Instant::now();
            while !steered() && pollers.bell.count() == seen && start.elapsed() < LINGER {
                std::hint::spin_loop();
            }
            if steered() {
                continue;
            }
        }
        engine.stack.domain.poll();
        if chores_done.is_none_or(|at: Instant| at.elapsed() >= CHORES) {
            chores();
            chores_done = Some(Instant::now());
        }
        if worker.is_busy() {
            worker.look(Duration::ZERO);
            std::hint::spin_loop();
        } else if pollers.bell.prepare(id, seen) {
            if steered() {
                pollers.bell.awake(id);
                continue;
            }
            let now = engine.stack.clock.now();
            let timers = &engine.stack.timers;
            let until = timers.sleep(id, now, IDLE.as_nanos() as u64);
            worker.look(Duration::from_nanos(until.saturating_sub(now)));
            pollers.bell.awake(id);
            if timers.awake(id) {
                pollers.ring();
            }
        }
    }
}

impl Worker<'_> {
    fn poller(&self) -> &Poller {
        &self.pollers.all[self.id]
    }

    /// Takes over changes of the CPU's queues.
    fn refresh(&mut self) {
        let version = self.poller().version.load(Acquire);
        if version != self.version {
            let queues = lock(&self.poller().queues).clone();
            self.queues = queues;
            self.version = version;
            self.ready.retain(|token| self.queues.contains_key(token));
        }
    }

    fn is_busy(&self) -> bool {
        self.queues.values().any(|(port, _)| port.busy)
    }

    /// Receives a batch from each ready queue. Returns whether there was a frame.
    fn receive(&mut self, cpu: &mut Cpu) -> bool {
        for (token, (port, _)) in &self.queues {
            if port.busy && !self.ready.contains(token) {
                self.ready.push(*token);
            }
        }
        if self.ready.is_empty() {
            return false;
        }
        let mut ready = std::mem::take(&mut self.ready);
        cpu.with(|cx| {
            ready.retain(|token| {
                let Some((port, queue)) = self.queues.get(token) else {
                    return false;
                };
                if !port.is_over() && receive(cx, port, *queue) {
                    return true;
                }
                // An event without frames may be a connection that came or went.
                if !port.busy && port.has_carrier() != port.carrier.load(Relaxed) {
                    self.pollers.unsettled.store(true, Release);
                }
                false
            });
        });
        let worked = !ready.is_empty();
        self.ready = ready;
        worked
    }

    /// Waits at most `limit` for events and notes the queues that are ready or have room.
    fn look(&mut self, limit: Duration) {
        let limit = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        self.events.clear();
        let epoll = &self.pollers.all[self.id].epoll;
        if epoll::wait(epoll, spare_capacity(&mut self.events), Some(&limit)).is_err() {
            // A signal; the next turn looks again.
            return;
        }
        for event in std::mem::take(&mut self.events) {
            match event.data.u64() {
                WAKE => {
                    // Its value does not matter.
                    let _ = rustix::io::read(&self.poller().wake, &mut [0_u8; 8]);
                }
                LIFE => self.pollers.ask_to_settle(),
                token => self.on_event(token),
            }
        }
        self.events = Vec::with_capacity(64);
    }

    fn on_event(&mut self, token: u64) {
        let Some((port, number)) = self.queues.get(&token) else {
            return;
        };
        if !self.ready.contains(&token) {
            self.ready.push(token);
        }
        let (_, queue) = port.queue(*number);
        if queue.blocked.load(Acquire) {
            // In this order: a sender that finds no room before the flag is cleared is woken below, and
            // one that finds none later asks for the next event itself.
            self.pollers.watch_room(port, *number, false);
            queue.blocked.store(false, Release);
            let queues = port.queues.len() as u32;
            for transmit in (u32::from(*number)..port.device.tx_queues()).step_by(queues as usize) {
                datapath::wake_queue(&self.engine.stack, &port.device, transmit as u16);
            }
        }
    }
}
