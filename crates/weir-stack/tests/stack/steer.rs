// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Steering of received packets to CPUs, with a thread per CPU: nothing is lost or duplicated, and each
//! flow keeps its order while the sets of CPUs change.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed},
};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::world::{Packet, World, udp};
use weir_netlink::{IfInfoMsg, TcMsg, TcPlugQopt, ifla, nlm, rtm, tca};
use weir_packet::{Batch, DropReason};
use weir_stack::clock::Holds;
use weir_stack::device::{Direction, Observer, Tap, Taps};
use weir_stack::drops::Place;
use weir_stack::{Config, Cpu, Stack, datapath};

const FLOWS: usize = 200;
/// The time limit of a step: longer than any takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The frames that a device sends, by flow: the next sequence number, and what went wrong.
struct Arrivals {
    next: Vec<AtomicU32>,
    wrong: Mutex<Vec<String>>,
    /// How many frames each CPU sent.
    by_cpu: Vec<AtomicU32>,
}

impl Arrivals {
    fn new(cpus: usize) -> Arc<Self> {
        Arc::new(Self {
            next: (0..FLOWS).map(|_| AtomicU32::new(0)).collect(),
            wrong: Mutex::default(),
            by_cpu: (0..cpus).map(|_| AtomicU32::new(0)).collect(),
        })
    }

    fn total(&self) -> u32 {
        self.next.iter().map(|next| next.load(Acquire)).sum()
    }

    /// Returns whether frames have left on every CPU.
    fn everywhere(&self) -> bool {
        self.by_cpu.iter().all(|count| count.load(Relaxed) > 0)
    }
}

impl Observer for Arrivals {
    fn frame(&self, tap: &Tap<'_>) {
        let data = tap.packet.data();
        if tap.direction != Direction::Tx || data.len() < 46 {
            return;
        }
        let port = u16::from_be_bytes([data[34], data[35]]);
        let number = u32::from_be_bytes([data[42], data[43], data[44], data[45]]);
        let flow = usize::from(port) - 1000;
        // The count of the CPU comes first: who waits for the total reads it.
        self.by_cpu[weir_sync::percpu::current()].fetch_add(1, Relaxed);
        let expected = self.next[flow].fetch_add(1, AcqRel);
        if number != expected {
            let text = format!("flow {flow}: {number} came instead of {expected}");
            self.wrong.lock().unwrap().push(text);
        }
    }
}

fn frame(flow: usize, number: u32) -> Vec<u8> {
    let (src, dst) = ([10, 0, 1, 2], [10, 0, 2, 2]);
    let payload = udp(src, dst, 1000 + flow as u16, 9, &number.to_be_bytes());
    Packet {
        src,
        dst,
        payload: &payload,
        ..Packet::default()
    }
    .from(1)
}

/// A router from d1 to d2 in real time with several CPUs.
fn router(cpus: usize) -> (World, Arc<Arrivals>) {
    let mut world = World::with(Config {
        virtual_time: false,
        cpus,
        ..Config::default()
    });
    world.sysctl("net/ipv6/conf/all/disable_ipv6", "1");
    world.sysctl("net/ipv4/ip_forward", "1");
    for n in [1, 2] {
        world.port(n);
        world.neighbour(
            &format!("d{n}"),
            [10, 0, n, 2].into(),
            crate::world::host_mac(n),
        );
    }
    let arrivals = Arrivals::new(cpus);
    let guard = world.stack.domain.pin();
    world.device("d2").observe(&guard, arrivals.clone());
    drop(guard);
    world.left();
    (world, arrivals)
}

/// Sets a flag when it goes, also by a panic: the threads that wait for the flag end, and the test fails.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Runs the loops of CPUs 1 and up while `work` runs.
fn with_cpus<R>(stack: &Stack, work: impl FnOnce() -> R) -> R {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = AtEnd(&over);
        for id in 1..stack.config.cpus {
            let (over, stack) = (&over, stack.clone());
            scope.spawn(move || {
                weir_sync::percpu::bind(id);
                let mut cpu = Cpu::new(&stack, id);
                while !over.load(Relaxed) {
                    if !cpu.turn() {
                        std::thread::yield_now();
                    }
                }
            });
        }
        let online = |cpu: usize| stack.softnet.cpu(cpu).unwrap().is_online();
        let start = Instant::now();
        while !(1..stack.config.cpus).all(online) {
            assert!(start.elapsed() < PATIENCE);
            std::thread::yield_now();
        }
        work()
    })
}

fn set(cpus: impl IntoIterator<Item = usize>) -> BTreeSet<usize> {
    cpus.into_iter().collect()
}

/// Receives `rounds` frames of each flow on CPU 0, and waits until all have left d2 or were dropped.
fn play(world: &mut World, arrivals: &Arrivals, first: u32, rounds: u32) {
    let device = world.device("d1");
    let mut batch = Batch::new();
    for number in first..first + rounds {
        for flow in 0..FLOWS {
            let packet = world.stack.pool.packet(&frame(flow, number)).unwrap();
            assert!(batch.push(packet).is_ok());
            if batch.is_full() || flow + 1 == FLOWS {
                let batch = batch.take();
                world.cpu.with(|cx| datapath::receive(cx, &device, batch));
                world.cpu.turn();
            }
        }
    }
    let all = (first + rounds) * FLOWS as u32;
    let start = Instant::now();
    let lost = |world: &World| world.dropped("d1", Place::Backlog, DropReason::CPU_BACKLOG) as u32;
    while arrivals.total() + lost(world) < all {
        assert!(start.elapsed() < PATIENCE, "frames were lost");
        world.cpu.turn();
        std::thread::yield_now();
    }
    assert_eq!(arrivals.total() + lost(world), all);
}

/// Changes the set of CPUs all the time while frames arrive, or are redirected to the ingress of `d3`.
fn stress(cpus: usize, rounds: u32, redirected: bool) {
    let (mut world, arrivals) = router(cpus);
    world.sysctl("net/core/netdev_max_backlog", "1000000");
    if redirected {
        world.port(3);
        redirect(&mut world, "d3", INGRESS);
    }
    let name = if redirected { "d3" } else { "d1" };
    let (stack, device) = (world.stack.clone(), world.device(name));
    let over = AtomicBool::new(false);
    with_cpus(&stack, || {
        std::thread::scope(|scope| {
            let _over = AtEnd(&over);
            scope.spawn(|| {
                let sets: [fn(usize, usize) -> bool; 4] = [
                    |_, _| true,
                    |cpu, last| cpu == last,
                    |_, _| false,
                    |cpu, _| cpu % 2 == 1,
                ];
                for which in sets.iter().cycle() {
                    if over.load(Relaxed) {
                        break;
                    }
                    let chosen = (0..cpus).filter(|cpu| which(*cpu, cpus - 1));
                    device.steering.set_cpus(&stack.softnet, 0, set(chosen));
                    std::thread::sleep(Duration::from_micros(300));
                }
            });
            weir_sync::percpu::bind(0);
            let start = Instant::now();
            let mut first = 0;
            // The set may stay the same for a while where other programs use the processors.
            while first == 0 || !arrivals.everywhere() && start.elapsed() < PATIENCE {
                play(&mut world, &arrivals, first, rounds);
                first += rounds;
            }
        });
    });
    assert_eq!(*arrivals.wrong.lock().unwrap(), [""; 0]);
    for input in stack.softnet.cpus() {
        assert_eq!((input.queue.waiting(), input.dropped.load(Relaxed)), (0, 0));
    }
    assert!(arrivals.everywhere(), "{:?}", arrivals.by_cpu);
}

#[test]
fn two_cpus_keep_the_order_of_flows() {
    stress(2, 300, false);
}

#[test]
fn eight_cpus_keep_the_order_of_flows() {
    stress(8, 300, false);
}

#[test]
fn redirected_flows_keep_their_order() {
    stress(3, 300, true);
}

/// Where an action redirects to (`TCA_EGRESS_REDIR`, `TCA_INGRESS_REDIR`).
const EGRESS: i32 = 1;
const INGRESS: i32 = 3;

/// Redirects the IPv4 packets that d1 receives to another device.
fn redirect(world: &mut World, to: &str, way: i32) {
    let (from, to) = (world.device("d1").ifindex(), world.device(to).ifindex());
    let at = |parent| TcMsg {
        ifindex: from as i32,
        handle: 0xffff_0000,
        parent,
        ..TcMsg::default()
    };
    let flags = nlm::F_CREATE | nlm::F_EXCL;
    let errno = world.request(rtm::NEWQDISC, flags, |out| {
        out.fixed(&at(0xffff_fff1));
        out.put_str(tca::KIND, "clsact");
    });
    assert_eq!(errno, 0);
    let errno = world.request(rtm::NEWTFILTER, flags, |out| {
        out.fixed(&TcMsg {
            handle: 0,
            info: TcMsg::make_info(1, 0x0800),
            ..at(0xffff_fff2)
        });
        out.put_str(tca::KIND, "flower");
        let options = out.nest(tca::OPTIONS);
        out.put_be16(tca::flower::KEY_ETH_TYPE, 0x0800);
        let actions = out.nest(tca::flower::ACT);
        let action = out.nest(1);
        out.put_str(tca::act::KIND, "mirred");
        let parameters = out.nest(tca::act::OPTIONS);
        // struct tc_mirred: index, capab, TC_ACT_STOLEN, refcnt, bindcnt, eaction, ifindex
        let words = [0, 0, 4, 0, 0, way, to as i32];
        out.put(2, &words.map(i32::to_ne_bytes).concat());
        out.end(parameters);
        out.end(action);
        out.end(actions);
        out.end(options);
    });
    assert_eq!(errno, 0);
}

/// Has CPU 0 receive a frame of some flows by `receive`. It leaves them all to CPU 1, which sends them.
fn all_on_the_other(
    (mut world, arrivals): (World, Arc<Arrivals>),
    receive: impl FnOnce(&mut World, &[Vec<u8>]),
) {
    let stack = world.stack.clone();
    let mut other = Cpu::new(&stack, 1);
    weir_sync::percpu::bind(0);
    let frames: Vec<_> = (0..60).map(|flow| frame(flow, 0)).collect();
    receive(&mut world, &frames);
    let input = stack.softnet.cpu(1).unwrap();
    assert_eq!((arrivals.total(), input.queue.waiting()), (0, 60));
    assert_eq!(input.received_rps.load(Relaxed), 1);
    let received = |cpu| stack.received.made(cpu).map_or(0, |n| n.load(Relaxed));
    let before = received(1);
    weir_sync::percpu::bind(1);
    while other.turn() {}
    assert_eq!(received(1) - before, 60);
    let sent = arrivals.by_cpu.iter().map(|count| count.load(Relaxed));
    assert!(sent.eq([0, 60]));
    weir_sync::percpu::bind(0);
}

/// What is redirected to the ingress of a device is steered by that device (`netif_receive_skb`).
#[test]
fn a_redirect_to_an_ingress_is_steered() {
    let (mut world, arrivals) = router(2);
    world.port(3);
    redirect(&mut world, "d3", INGRESS);
    world
        .device("d3")
        .steering
        .set_cpus(&world.stack.softnet, 0, set([1]));
    all_on_the_other((world, arrivals), |world, frames| {
        world.arrive("d1", frames);
    });
}

/// What comes back from an ifb is steered by the device to which it returns (`ifb_ri_tasklet`).
#[test]
fn what_returns_from_an_ifb_is_steered() {
    let (mut world, arrivals) = router(2);
    let errno = world.request(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
        out.fixed(&IfInfoMsg::default());
        out.put_str(ifla::IFNAME, "ifb0");
        let info = out.nest(ifla::LINKINFO);
        out.put_str(ifla::info::KIND, "ifb");
        out.end(info);
    });
    assert_eq!(errno, 0);
    world.set_up("ifb0", true);
    redirect(&mut world, "ifb0", EGRESS);
    let ifindex = world.device("ifb0").ifindex() as i32;
    let plug = |world: &mut World, options: Option<TcPlugQopt>| {
        let flags = nlm::F_CREATE | if options.is_none() { nlm::F_REPLACE } else { 0 };
        let errno = world.request(rtm::NEWQDISC, flags, |out| {
            out.fixed(&TcMsg {
                ifindex,
                handle: 0x1_0000,
                parent: tca::h::ROOT,
                ..TcMsg::default()
            });
            out.put_str(tca::KIND, "plug");
            if let Some(options) = options {
                out.put_fixed(tca::OPTIONS, &options);
            }
        });
        assert_eq!(errno, 0);
    };
    plug(&mut world, None);
    all_on_the_other((world, arrivals), |world, frames| {
        world.arrive("d1", frames);
        world
            .device("d1")
            .steering
            .set_cpus(&world.stack.softnet, 0, set([1]));
        let release = TcPlugQopt {
            action: tca::plug::RELEASE_INDEFINITE,
            limit: 0,
        };
        plug(world, Some(release));
        world.cpu.settle();
    });
}

#[test]
fn flows_go_to_the_cpus_of_the_set() {
    let (mut world, arrivals) = router(3);
    let (stack, device) = (world.stack.clone(), world.device("d1"));
    weir_sync::percpu::bind(0);
    let counts = |arrivals: &Arrivals| -> Vec<u32> {
        let counts = arrivals.by_cpu.iter().map(|count| count.swap(0, Relaxed));
        counts.collect()
    };
    with_cpus(&stack, || {
        world.sysctl("net/core/netdev_max_backlog", "100000");
        play(&mut world, &arrivals, 0, 1);
        assert_eq!(counts(&arrivals), [200, 0, 0]);
        device.steering.set_cpus(&stack.softnet, 0, set([2]));
        play(&mut world, &arrivals, 1, 1);
        assert_eq!(counts(&arrivals), [0, 0, 200]);
        device.steering.set_cpus(&stack.softnet, 0, set([0, 1, 2]));
        play(&mut world, &arrivals, 2, 3);
        counts(&arrivals);
        play(&mut world, &arrivals, 5, 1);
        // Binomial with mean 67 and standard deviation 6.7.
        let shares = counts(&arrivals);
        assert!(shares.iter().all(|n| (34..100).contains(n)), "{shares:?}");
        // Without CPUs, nothing is looked at once all flows have come back.
        device.steering.set_cpus(&stack.softnet, 0, set([]));
        play(&mut world, &arrivals, 6, 3);
        counts(&arrivals);
        play(&mut world, &arrivals, 9, 1);
        assert_eq!(counts(&arrivals), [200, 0, 0]);
        assert!(!device.steering.is_on());
    });
    assert_eq!(*arrivals.wrong.lock().unwrap(), [""; 0]);
}

/// The batches of frames that go on behind the steering, by CPU.
#[derive(Default)]
struct Batches([Mutex<Vec<usize>>; 2]);

impl Observer for Batches {
    fn frame(&self, _: &Tap<'_>) {}

    fn frames(&self, taps: &Taps<'_>) {
        if taps.direction == Direction::Rx {
            self.0[taps.cpu].lock().unwrap().push(taps.packets.len());
        }
    }
}

/// The parts of several batches that a CPU gets make full batches, those of the CPU that receives, too. It holds its
/// part for one turn, and only if the port had a full batch. Timers do not wait.
#[test]
fn parts_of_batches_make_full_batches() {
    let (mut world, arrivals) = router(2);
    let (stack, device) = (world.stack.clone(), world.device("d1"));
    let batches = Arc::new(Batches::default());
    device.observe(&stack.domain.pin(), batches.clone());
    let mut other = Cpu::new(&stack, 1);
    weir_sync::percpu::bind(0);
    device.steering.set_cpus(&stack.softnet, 0, set([0, 1]));
    let mut number = vec![0; FLOWS];
    let mut receive = |world: &mut World, flows: std::ops::Range<usize>| {
        let mut batch = Batch::new();
        for flow in flows {
            let packet = stack.pool.packet(&frame(flow, number[flow])).unwrap();
            number[flow] += 1;
            assert!(batch.push(packet).is_ok());
        }
        world.cpu.with(|cx| datapath::receive(cx, &device, batch));
    };
    let waiting = || stack.softnet.cpu(1).unwrap().queue.waiting() as usize;
    let lens = |cpu: usize| std::mem::take(&mut *batches.0[cpu].lock().unwrap());
    // The flows move to their CPUs.
    for first in [0, 64, 128] {
        receive(&mut world, first..first + 64);
        while world.cpu.turn() || other.turn() {}
    }
    lens(0);
    lens(1);
    // Three batches: about half of each is this CPU's.
    receive(&mut world, 0..64);
    let due = Arc::new(AtomicBool::new(false));
    let job = due.clone();
    let job = Box::new(move |_: &mut weir_stack::Cx<'_>| job.store(true, Relaxed));
    stack.arm(stack.clock.now(), Holds::Nothing, job);
    assert!(world.cpu.turn() && world.cpu.has_input());
    assert_eq!((lens(0), due.load(Relaxed)), (vec![], true));
    receive(&mut world, 64..128);
    receive(&mut world, 128..192);
    let mine = 192 - waiting();
    assert!((65..128).contains(&mine), "the flows are not spread");
    assert!(world.cpu.turn());
    assert_eq!(lens(0), [64]);
    assert!(world.cpu.turn());
    assert_eq!(lens(0), [mine - 64]);
    weir_sync::percpu::bind(1);
    while other.turn() {}
    weir_sync::percpu::bind(0);
    assert_eq!(lens(1), [64, 128 - mine]);
    // A batch that is not full goes on in the next turn, with what is held.
    receive(&mut world, 0..64);
    receive(&mut world, 0..20);
    let mine = 84 - waiting();
    assert!(mine <= 64, "the flows are not spread");
    assert!(world.cpu.turn());
    assert_eq!(lens(0), [mine]);
    // Frames do not overtake those that are held when the steering ends.
    receive(&mut world, 0..64);
    weir_sync::percpu::bind(1);
    while other.turn() {}
    weir_sync::percpu::bind(0);
    device.steering.set_cpus(&stack.softnet, 0, set([]));
    for _ in 0..3 {
        receive(&mut world, 0..64);
        while world.cpu.turn() || other.turn() {}
    }
    assert!(!device.steering.is_on());
    assert_eq!(*arrivals.wrong.lock().unwrap(), [""; 0]);
    assert_eq!(arrivals.total(), number.iter().sum::<u32>());
}

/// A CPU that does not take its packets has `netdev_max_backlog` and one more; the others are dropped.
#[test]
fn a_full_backlog_drops() {
    let (mut world, _) = router(2);
    let (stack, device) = (world.stack.clone(), world.device("d1"));
    let _idle = Cpu::new(&stack, 1);
    world.sysctl("net/core/netdev_max_backlog", "99");
    device.steering.set_cpus(&stack.softnet, 0, set([1]));
    for number in 0..2 {
        let frames: Vec<_> = (0..FLOWS).map(|flow| frame(flow, number)).collect();
        world.arrive("d1", &frames);
    }
    let input = stack.softnet.cpu(1).unwrap();
    assert_eq!(
        (input.queue.waiting(), input.dropped.load(Relaxed)),
        (100, 300)
    );
    assert_eq!(input.received_rps.load(Relaxed), 1);
    let dropped = world.dropped("d1", Place::Backlog, DropReason::CPU_BACKLOG);
    assert_eq!((dropped, device.totals().rx_dropped), (300, 300));
    assert_eq!(device.totals().rx_packets, 400);
    // A limit below 0 is none.
    world.sysctl("net/core/netdev_max_backlog", "-1");
    world.arrive("d1", &[frame(0, 2)]);
    assert_eq!(input.queue.waiting(), 101);
}

/// Once half of `netdev_max_backlog` waits, a flow with more than half of the last 128 packets loses them, and other
/// flows do not (`skb_flow_limit`).
#[test]
fn the_limit_of_flows_keeps_room_for_others() {
    let (mut world, arrivals) = router(2);
    let (stack, device) = (world.stack.clone(), world.device("d1"));
    let mut other = Cpu::new(&stack, 1);
    weir_sync::percpu::bind(0);
    world.sysctl("net/core/netdev_max_backlog", "1000");
    world.sysctl("net/core/flow_limit_table_len", "8192");
    world.sysctl("net/core/flow_limit_cpu_bitmap", "2");
    device.steering.set_cpus(&stack.softnet, 0, set([1]));
    let input = stack.softnet.cpu(1).unwrap();
    let state = |input: &weir_stack::steer::Input| {
        let guard = stack.domain.pin();
        let limit = stack.softnet.flow_limit(1, &guard).unwrap();
        let limited = limit.dropped.load(Relaxed);
        (input.queue.waiting(), input.dropped.load(Relaxed), limited)
    };
    // Nothing is limited before half of the backlog waits.
    let heavy: Vec<_> = (0..500).map(|number| frame(0, number)).collect();
    world.arrive("d1", &heavy);
    assert_eq!(state(input), (500, 0, 0));
    // The first 64 of the last 128 are half of them.
    let heavy: Vec<_> = (500..600).map(|number| frame(0, number)).collect();
    world.arrive("d1", &heavy);
    assert_eq!(state(input), (564, 36, 36));
    let others: Vec<_> = (1..33).map(|flow| frame(flow, 0)).collect();
    world.arrive("d1", &others);
    assert_eq!(state(input), (596, 36, 36));
    world.arrive("d1", &[frame(0, 564)]);
    assert_eq!(state(input), (596, 37, 37));
    // When others have had their share, there is room again.
    let others: Vec<_> = (33..97).map(|flow| frame(flow, 0)).collect();
    world.arrive("d1", &others);
    world.arrive("d1", &[frame(0, 564)]);
    assert_eq!(state(input), (661, 37, 37));
    let dropped = world.dropped("d1", Place::Backlog, DropReason::CPU_BACKLOG);
    assert_eq!((dropped, device.totals().rx_dropped), (37, 37));
    // What was not dropped arrives.
    weir_sync::percpu::bind(1);
    while other.turn() {}
    weir_sync::percpu::bind(0);
    assert_eq!(arrivals.next[0].load(Relaxed), 565);
    assert_eq!(arrivals.total(), 661);
    assert_eq!(*arrivals.wrong.lock().unwrap(), [""; 0]);
    // A CPU without the limit has none.
    world.sysctl("net/core/flow_limit_cpu_bitmap", "1");
    let heavy: Vec<_> = (565..1265).map(|number| frame(0, number)).collect();
    world.arrive("d1", &heavy);
    assert_eq!(input.queue.waiting(), 700);
}

/// Packets for a CPU that has no thread stay where they are.
#[test]
fn a_cpu_that_is_not_there_gets_nothing() {
    let (mut world, arrivals) = router(2);
    let device = world.device("d1");
    device.steering.set_cpus(&world.stack.softnet, 0, set([1]));
    for number in 0..3 {
        world.arrive("d1", &[frame(0, number)]);
    }
    assert_eq!(arrivals.total(), 3);
    assert_eq!(*arrivals.wrong.lock().unwrap(), [""; 0]);
}

/// A flow goes to the CPU on which its program sends, if both tables exist, and to a CPU of the set if not.
#[test]
fn flows_follow_their_programs() {
    let (mut world, arrivals) = router(3);
    let (stack, device) = (world.stack.clone(), world.device("d1"));
    weir_sync::percpu::bind(0);
    world.sysctl("net/core/rps_sock_flow_entries", "4096");
    device.steering.set_cpus(&stack.softnet, 0, set([0]));
    device
        .steering
        .set_flow_count(&stack.softnet, 0, 2048)
        .unwrap();
    with_cpus(&stack, || {
        play(&mut world, &arrivals, 0, 1);
        {
            // The program's frames go the other way; the hash is that of both ways.
            let guard = stack.domain.pin();
            let programs = stack.softnet.sock_flows(&guard).unwrap();
            for flow in 0..FLOWS {
                let (src, dst) = ([10, 0, 2, 2], [10, 0, 1, 2]);
                let payload = udp(src, dst, 9, 1000 + flow as u16, &[]);
                let bytes = Packet {
                    src,
                    dst,
                    payload: &payload,
                    ..Packet::default()
                };
                let mut packet = stack.pool.packet(&bytes.from(2)).unwrap();
                packet.protocol = 0x0800;
                packet.set_network(14);
                programs.record(weir_tc::qdisc::packet_hash(&mut packet), flow % 3);
            }
        }
        play(&mut world, &arrivals, 1, 3);
        arrivals
            .by_cpu
            .iter()
            .for_each(|count| count.store(0, Relaxed));
        play(&mut world, &arrivals, 4, 1);
        let counts: Vec<_> = arrivals.by_cpu.iter().map(|n| n.load(Relaxed)).collect();
        // Flows of the same entry of a table may share a CPU.
        assert!(counts.iter().all(|n| (60..80).contains(n)), "{counts:?}");
    });
    assert_eq!(*arrivals.wrong.lock().unwrap(), [""; 0]);
}

#[test]
fn virtual_time_steers_nothing() {
    let mut world = World::router();
    let device = world.device("d1");
    device.steering.set_cpus(&world.stack.softnet, 0, set([0]));
    assert!(!device.steering.is_on());
    world.arrive("d1", &[frame(0, 0)]);
    assert_eq!(world.left().len(), 1);
    assert_eq!(device.steering.cpus(0), set([0]));
}

/// Jobs that threads post, and timers that they arm, reach a CPU that turns all the while without a lock.
#[test]
fn a_cpu_finds_the_jobs_and_timers_of_other_threads() {
    const EACH: u32 = 500;
    let (mut world, _) = router(2);
    let done = Arc::new(AtomicU32::new(0));
    let count = |done: &Arc<AtomicU32>| {
        let done = done.clone();
        Box::new(move |_: &mut weir_stack::Cx<'_>| {
            done.fetch_add(1, Relaxed);
        })
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let (stack, done) = (world.stack.clone(), done.clone());
            scope.spawn(move || {
                for number in 0..EACH {
                    stack.post(count(&done));
                    let time = stack.clock.now() + u64::from(number % 3) * 1_000;
                    let timer = stack.arm(time, Holds::Nothing, count(&done));
                    if number % 3 == 0 && stack.timers.cancel(timer).is_some() {
                        done.fetch_add(1, Relaxed);
                    }
                }
            });
        }
        let start = Instant::now();
        while done.load(Relaxed) < 3 * 2 * EACH {
            assert!(start.elapsed() < PATIENCE, "a job or a timer was lost");
            world.cpu.turn();
        }
    });
    assert_eq!(done.load(Relaxed), 3 * 2 * EACH);
}

/// In real time the last use of a neighbour has the steps of a millisecond, so that CPUs that use it together seldom
/// write. Virtual time is exact.
#[test]
fn the_time_of_use_has_steps_in_real_time_only() {
    for virtual_time in [false, true] {
        let mut world = World::with(Config {
            virtual_time,
            ..Config::default()
        });
        let clock = world.stack.clock.clone();
        clock.advance(1_234_567_890);
        let before = clock.now();
        let used = world.cpu.with(|cx| cx.time_of_use());
        match virtual_time {
            true => assert_eq!(used, before),
            false => {
                assert!(
                    used.is_multiple_of(1_000_000)
                        && used + 1_000_000 > before
                        && used <= clock.now()
                )
            }
        }
    }
}
