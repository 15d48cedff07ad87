// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the hand-over: CPUs that steer packets to each other, in one thread against an oracle and in
//! many threads.

use super::*;
use crate::bell::Bell;
use crate::primitive::Arc;
use crate::rcu::{Domain, Published};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

#[test]
fn room_is_limited() {
    let queue = Handover::<()>::default();
    // As in Linux, one packet more than the limit fits.
    assert_eq!(queue.reserve(8, 9), 8);
    assert_eq!(queue.reserve(8, 9), 2);
    assert_eq!((queue.reserve(8, 9), queue.waiting()), (0, 10));
    queue.release(9);
    assert_eq!((queue.reserve(1, 0), queue.waiting()), (0, 1));
    assert_eq!(queue.reserve(1, u32::MAX), 1);
}

#[test]
fn rounds_are_finished_when_nothing_waits() {
    let queue = Handover::default();
    assert!(queue.is_finished());
    queue.push(Entry::new(1));
    assert!(!queue.is_finished());
    assert_eq!(queue.take().count(), 1);
    assert!(!queue.is_finished());
    queue.finish();
    assert!(queue.is_finished());
}

#[test]
fn a_table_grows_without_moving_flows() {
    let flows = Flows::new(2);
    let done = |_: usize, _: u64| false;
    for place in 0..4 {
        flows.route(place, Some(place + 10), None, done);
    }
    let grown = flows.grown(5);
    assert_eq!((grown.len(), flows.grown(1).len()), (32, 4));
    for hash in (0..64).map(|at: u32| at << 26) {
        let cpu = flows.place(hash) + 10;
        assert!(grown.stays(grown.place(hash), Some(cpu)));
    }
}

#[test]
fn a_flow_moves_when_its_ticket_is_done() {
    let (flows, queue) = (Flows::new(1), Handover::default());
    let done = |_: usize, ticket| queue.is_done(ticket);
    let way = |wanted| {
        let way = flows.route(0, Some(wanted), None, done);
        (way.cpu.unwrap(), way.moving)
    };
    assert_eq!(way(0), (0, false));
    assert!(flows.stays(0, Some(0)) && !flows.stays(0, Some(1)) && !flows.stays(0, None));
    assert!(flows.stays(1, None) && !flows.stays(1, Some(0)));
    queue.push(Entry::new(1));
    assert_eq!([way(1), way(1)], [(0, true), (0, true)]);
    queue.push(Entry::new(2));
    flows.pushed(0, queue.ticket());
    // The other packet is on its way.
    assert_eq!(queue.take().count(), 2);
    queue.finish();
    assert_eq!(way(1), (0, true));
    for _ in 0..2 {
        queue.push(Entry::new(3));
        flows.pushed(0, queue.ticket());
    }
    assert_eq!(queue.take().count(), 2);
    assert_eq!(way(1), (0, true));
    queue.push(Entry::new(4));
    flows.pushed(0, queue.ticket());
    queue.finish();
    // The last ticket is of the next round.
    assert_eq!(way(1), (0, true));
    queue.push(Entry::new(5));
    flows.pushed(0, queue.ticket());
    assert_eq!(queue.take().count(), 2);
    queue.finish();
    assert_eq!(way(1), (1, false));
    assert!(flows.stays(0, Some(1)));
    // A flow that goes back before it has moved stays once its packets are pushed.
    assert_eq!([way(0), way(1)], [(1, true), (1, true)]);
    flows.pushed(0, 7);
    flows.pushed(0, 6);
    assert_eq!(way(1), (1, false));
    assert!(flows.stays(0, Some(1)));
    // It leaves for the CPU that receives it as for any other.
    let leave = |ticket| flows.route(0, None, None, move |_, asked| asked == ticket);
    assert!(leave(1).moving);
    flows.pushed(0, 5);
    let (cpu, moving) = (None, false);
    assert_eq!(leave(5), Route { cpu, moving });
    assert!(flows.stays(0, None));
    // One that may have packets on a CPU stays there at first.
    let way = flows.route(0, Some(2), Some(1), done);
    let (cpu, moving) = (Some(1), true);
    assert_eq!(way, Route { cpu, moving });
}

#[test]
fn tickets_wrap_around() {
    let last = TICKETS;
    assert_eq!([later(0, 5), later(5, 6), later(6, 5)], [5, 6, 6]);
    assert_eq!([later(last, 1), later(1, last)], [1, 1]);
    let queue = Handover::<()>::default();
    queue.round.store(last + 1, Ordering::Relaxed);
    queue.finish();
    assert!(queue.is_done(last) && !queue.is_done(1) && queue.is_idle());
}

const CPUS: usize = 3;
const FLOWS: usize = 6;

/// A flow and its sequence number.
type Packet = (usize, u32);

/// One CPU of the model: what it has taken, and its own backlog behind the first device.
#[derive(Default)]
struct Cpu {
    taken: VecDeque<Packet>,
    backlog: VecDeque<Packet>,
    settle: bool,
}

#[derive(Clone, Debug)]
enum Step {
    /// A CPU receives a batch of packets of these flows.
    Receive(usize, Vec<usize>),
    /// The set of CPUs changes.
    Mask(Vec<usize>),
    /// A CPU takes its queue.
    Take(usize),
    /// A CPU works on some packets.
    Work(usize, usize),
    /// A CPU ends a turn.
    End(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..CPUS, prop::collection::vec(0..FLOWS, 1..6)).prop_map(|(cpu, flows)| Step::Receive(cpu, flows)),
        1 => prop::collection::vec(0..CPUS, 0..3).prop_map(Step::Mask),
        2 => (0..CPUS).prop_map(Step::Take),
        3 => (0..CPUS, 1usize..5).prop_map(|(cpu, count)| Step::Work(cpu, count)),
        2 => (0..CPUS).prop_map(Step::End),
    ]
}

/// The CPUs, steering as the receive path does. Packets that a CPU keeps go to its backlog.
struct Model {
    queues: Vec<Handover<Packet>>,
    cpus: Vec<Cpu>,
    flows: Flows,
    mask: Vec<usize>,
    sent: [u32; FLOWS],
    arrived: Vec<Packet>,
}

impl Model {
    fn new() -> Self {
        Self {
            queues: (0..CPUS).map(|_| Handover::default()).collect(),
            cpus: (0..CPUS).map(|_| Cpu::default()).collect(),
            // Flows share places.
            flows: Flows::new(2),
            mask: vec![0],
            sent: [0; FLOWS],
            arrived: Vec::new(),
        }
    }

    fn receive(&mut self, me: usize, batch: &[usize]) {
        let mut moving = Vec::new();
        let mut parts: Vec<Vec<Packet>> = vec![Vec::new(); CPUS];
        let own = &self.cpus[me];
        let queued = !own.taken.is_empty() || !self.queues[me].is_empty();
        let busy = queued || !own.backlog.is_empty();
        for &flow in batch {
            let place = flow % self.flows.len();
            let wanted = match self.mask.len() {
                0 => None,
                len => Some(self.mask[place % len]),
            };
            let queues = &self.queues;
            let done = |cpu: usize, ticket| queues[cpu].is_done(ticket);
            let mut cpu = wanted;
            if !self.flows.stays(place, wanted) {
                let way = self.flows.route(place, wanted, busy.then_some(me), done);
                cpu = way.cpu;
                if way.moving {
                    moving.push((place, way.cpu.expect("a moving flow has a CPU")));
                }
            }
            parts[cpu.unwrap_or(me)].push((flow, self.sent[flow]));
            self.sent[flow] += 1;
        }
        for (cpu, part) in parts.into_iter().enumerate() {
            let inline = cpu == me && !queued;
            for packet in part {
                if inline {
                    self.cpus[me].backlog.push_back(packet);
                } else {
                    self.queues[cpu].push(Entry::new(packet));
                }
            }
        }
        for (place, cpu) in moving {
            self.flows.pushed(place, self.queues[cpu].ticket());
            self.cpus[me].settle |= cpu == me;
        }
    }

    /// Works on packets: those of the backlog first.
    fn work(&mut self, cpu: usize, count: usize) {
        for _ in 0..count {
            let own = &mut self.cpus[cpu];
            if let Some(packet) = own.backlog.pop_front() {
                self.arrived.push(packet);
            } else if let Some(packet) = own.taken.pop_front() {
                own.backlog.push_back(packet);
            }
        }
    }

    fn take(&mut self, cpu: usize) {
        if self.cpus[cpu].taken.is_empty() {
            let taken = self.queues[cpu].take();
            self.cpus[cpu].taken.extend(taken.map(Entry::into_inner));
        }
    }

    fn end(&mut self, cpu: usize) {
        let own = &mut self.cpus[cpu];
        if own.taken.is_empty() && own.backlog.is_empty() {
            if std::mem::take(&mut own.settle) {
                own.taken
                    .extend(self.queues[cpu].begin().map(Entry::into_inner));
            }
            if own.taken.is_empty() {
                self.queues[cpu].finish();
            }
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Receive(cpu, flows) => self.receive(cpu, &flows),
            Step::Mask(cpus) => self.mask = cpus,
            Step::Take(cpu) => self.take(cpu),
            Step::Work(cpu, count) => self.work(cpu, count),
            Step::End(cpu) => self.end(cpu),
        }
    }
}

proptest! {
    #![proptest_config(crate::cases(512))]

    /// Each flow arrives complete and in order, whatever the sets of CPUs are meanwhile. While nothing is
    /// steered, the CPU that receives a flow works on it. So either the sets are not empty, or each place is
    /// received by one CPU.
    #[test]
    fn flows_arrive_complete_and_in_order(
        steps in prop::collection::vec(step(), 1..120),
        fixed in any::<bool>(),
    ) {
        let mut model = Model::new();
        for step in steps {
            match step {
                Step::Receive(_, flows) if fixed => {
                    for flow in flows {
                        model.receive(flow % model.flows.len() % CPUS, &[flow]);
                    }
                }
                Step::Mask(cpus) if cpus.is_empty() && !fixed => {}
                step => model.step(step),
            }
        }
        for _ in 0..3 {
            for cpu in 0..CPUS {
                model.take(cpu);
                model.work(cpu, 10_000);
                model.end(cpu);
            }
        }
        prop_assert!(model.queues.iter().all(Handover::is_idle));
        let mut next = [0; FLOWS];
        for (flow, number) in model.arrived {
            prop_assert_eq!(number, next[flow], "flow {}", flow);
            next[flow] += 1;
        }
        prop_assert_eq!(next, model.sent);
    }
}

/// Threads receive flows of their own and steer them to all CPUs by a set that changes all the time. All
/// flows share the places of a small table. Sleeping CPUs are woken. Each flow arrives complete and in
/// order.
fn stress(cpus: usize, receivers: usize) {
    const EACH: usize = 16;
    let packets: u32 = if cfg!(miri) { 40 } else { 4_000 };
    let queues: Vec<Handover<Vec<Packet>>> = (0..cpus).map(|_| Handover::default()).collect();
    let (bell, flows) = (Bell::new(cpus), Flows::new(4));
    let (wakers, sleepers): (Vec<_>, Vec<_>) = (0..cpus).map(|_| mpsc::sync_channel(1)).unzip();
    let domain = Domain::default();
    let mask = Published::new(&domain, Arc::new((0, OnceLock::<Vec<u64>>::new())));
    let next: Vec<AtomicU32> = (0..receivers * EACH).map(|_| AtomicU32::new(0)).collect();
    let (left, over) = (AtomicUsize::new(receivers), AtomicBool::new(false));
    let wake = |cpu: usize| {
        let _ = wakers[cpu].try_send(());
    };
    std::thread::scope(|scope| {
        for (cpu, sleeper) in sleepers.into_iter().enumerate() {
            let (queues, bell, next, over) = (&queues, &bell, &next, &over);
            scope.spawn(move || {
                loop {
                    let seen = bell.count();
                    let mut worked = false;
                    for batch in queues[cpu].take() {
                        for (flow, number) in batch.into_inner() {
                            queues[cpu].release(1);
                            // The next packet may come by another CPU, which must see this one's work.
                            let expected = next[flow].fetch_add(1, Ordering::Relaxed);
                            assert_eq!(number, expected, "flow {flow} on CPU {cpu}");
                        }
                        worked = true;
                    }
                    queues[cpu].finish();
                    if worked {
                        continue;
                    }
                    if over.load(Ordering::Acquire) {
                        return;
                    }
                    if bell.prepare(cpu, seen) {
                        if queues[cpu].is_empty() && !over.load(Ordering::Acquire) {
                            let slept = sleeper.recv_timeout(Duration::from_secs(20));
                            let over = over.load(Ordering::Acquire);
                            assert!(slept.is_ok() || over, "a wake-up was lost");
                        }
                        bell.awake(cpu);
                    }
                }
            });
        }
        scope.spawn(|| {
            for set in 1.. {
                let now = Arc::new((set, OnceLock::new()));
                mask.replace(now.clone());
                domain.synchronize();
                let _ = now.1.set(queues.iter().map(Handover::ticket).collect());
                if over.load(Ordering::Acquire) {
                    return;
                }
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        for receiver in 0..receivers {
            let (queues, bell, flows, mask) = (&queues, &bell, &flows, &mask);
            let (next, left, over, wake) = (&next, &left, &over, &wake);
            let reader = domain.reader();
            scope.spawn(move || {
                let mut moving = Vec::new();
                for number in 0..packets {
                    let guard = reader.pin();
                    let (set, floor) = &**mask.load(&guard);
                    let mut parts: Vec<Vec<Packet>> = vec![Vec::new(); cpus];
                    for flow in receiver * EACH..(receiver + 1) * EACH {
                        let place = flow % flows.len();
                        let wanted = Some((place + set) % cpus);
                        let mut cpu = wanted;
                        if !flows.stays(place, wanted) {
                            let done = |cpu: usize, ticket| {
                                let queue = &queues[cpu];
                                let past = |floor: &Vec<u64>| queue.is_done(floor[cpu]);
                                floor.get().is_some_and(past) && queue.is_done(ticket)
                            };
                            let way = flows.route(place, wanted, None, done);
                            cpu = way.cpu;
                            if way.moving {
                                moving.push((place, way.cpu.expect("a moving flow has a CPU")));
                            }
                        }
                        parts[cpu.expect("every flow has a CPU")].push((flow, number));
                    }
                    for (cpu, part) in parts.into_iter().enumerate() {
                        let count = part.len() as u32;
                        if count > 0 {
                            assert_eq!(queues[cpu].reserve(count, u32::MAX - 1), count);
                            if queues[cpu].push(Entry::new(part)) {
                                bell.wake(cpu, || wake(cpu));
                            }
                        }
                    }
                    for (place, cpu) in moving.drain(..) {
                        flows.pushed(place, queues[cpu].ticket());
                    }
                    drop(guard);
                    if number % 64 == 0 {
                        std::thread::yield_now();
                    }
                }
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    // The last one waits until everything has arrived, and ends the CPUs.
                    while next
                        .iter()
                        .any(|next| next.load(Ordering::Relaxed) < packets)
                    {
                        std::thread::yield_now();
                    }
                    over.store(true, Ordering::Release);
                    bell.ring(wake);
                }
            });
        }
    });
    assert!(
        next.iter()
            .all(|next| next.load(Ordering::Relaxed) == packets)
    );
    assert!(
        queues
            .iter()
            .all(|queue| queue.is_idle() && queue.waiting() == 0)
    );
}

#[test]
fn stress_two_cpus_keep_the_order_of_flows() {
    stress(2, 1);
    stress(2, 2);
}

#[test]
fn stress_eight_cpus_keep_the_order_of_flows() {
    stress(8, 2);
    stress(8, 4);
}
