// SPDX-License-Identifier: Apache-2.0 OR MIT
//! AF_XDP sockets on veth devices, in copy mode. The XDP program needs root in the machine's first user
//! namespace.
#![allow(unsafe_code)] // setresuid of a thread, and bytes of frames that the port holds

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use weir_packet::{Batch, Packet, Pool, PoolConfig, VlanTag};
use weir_port::Port;

use crate::common::*;

/// The receiving field of [`counter`] with packets.
const RX_PACKETS: usize = 1;

/// Opens a port, or skips the test where bpf(2) or AF_XDP is refused.
pub fn xdp(keys: &str, pool: &Pool) -> Arc<dyn Port> {
    match port("af_xdp", keys, pool) {
        Ok(port) => port,
        Err(error) => {
            let errno = error.cause.as_ref().and_then(io::Error::raw_os_error);
            match errno {
                Some(libc::EPERM | libc::EACCES | libc::EAFNOSUPPORT | libc::ENOSYS) => {
                    skip(&error.to_string())
                }
                _ => panic!("{error}"),
            }
        }
    }
}

fn veth() {
    run("ip link add v0 type veth peer name v1
        ip link set v0 up; ip link set v1 up");
}

fn frame(pool: &Pool, number: u32, length: usize) -> Packet {
    let mut bytes = vec![2; length];
    bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    pool.packet(&bytes).unwrap()
}

fn ours(packet: &Packet) -> bool {
    packet.data()[12..14] == [0x88, 0xb5]
}

fn number(packet: &Packet) -> u32 {
    u32::from_be_bytes(*packet.data()[14..].first_chunk().unwrap())
}

/// The frames of a pool that are in use.
fn used(pool: &Pool) -> usize {
    let stats = pool.stats();
    stats.frames - stats.frames_free
}

/// Waits until this many frames of a pool are in use: a queue that may be zero-copy gives its frames back once the kernel
/// has released it.
#[track_caller]
fn wait_for_balance(pool: &Pool, expected: usize) {
    let end = Instant::now() + LONG;
    while used(pool) != expected {
        assert!(Instant::now() < end, "{} of {expected} frames", used(pool));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn all_in_use() {
    in_network_namespace("af_xdp::all_in_use_inside");
}

/// A port opens while every frame that the pool has made is in use: the pool makes more for it.
#[test]
#[ignore = "the other test runs it, in a namespace of its own"]
fn all_in_use_inside() {
    assert_inside();
    veth();
    let pool = pool();
    pool.commit(16 << 20);
    let mut held = Vec::new();
    while pool.stats().frames_free > 0 {
        held.extend(pool.alloc(100));
    }
    let port = xdp("dev=v1,zero_copy=off", &pool);
    drop(port);
}

#[test]
fn both_ways() {
    in_network_namespace("af_xdp::both_ways_inside");
}

#[test]
#[ignore = "the other test runs it, in a namespace of its own"]
fn both_ways_inside() {
    assert_inside();
    veth();
    for keys in [
        "dev=v1,zero_copy=off",
        "dev=v1,zero_copy=off,attach=skb,need_wakeup=off",
        "dev=v1,zero_copy=off,attach=native,busy_poll=20",
        "dev=v1",
    ] {
        let pool = pool();
        let before = used(&pool);
        let xdp = xdp(keys, &pool);
        assert_eq!(xdp.facts().name, "v1");
        assert_eq!(xdp.facts().mtu, Some(1500));
        assert!(xdp.facts().address.is_some());
        let other_pool = crate::common::pool();
        let other = port("af_packet", "dev=v0", &other_pool).unwrap();
        let mut cache = pool.cache();
        let mut other_cache = other_pool.cache();
        settle(&*other, &*xdp, &mut cache);
        settle(&*xdp, &*other, &mut other_cache);
        // More frames than the rings have entries, so that all are reused, in both directions.
        for round in 0..100_u32 {
            let sizes = |n: u32| [18, 60, 61, 1000, 1514][(n % 5) as usize];
            let sent: Vec<_> = (0..50)
                .map(|n| frame(&pool, round * 50 + n, sizes(n)))
                .collect();
            for (from, to, cache) in [(&other, &xdp, &mut cache), (&xdp, &other, &mut other_cache)]
            {
                assert_eq!(from.send(0, &sent).unwrap(), 50, "{keys} {round}");
                let found = receive(&**to, cache, 50, ours);
                for (sent, found) in sent.iter().zip(&found) {
                    assert!(sent.data() == found.data(), "{keys}");
                    assert_eq!((found.dev, found.iif, found.time), (0, 0, 0));
                }
            }
        }
        // Received packets are in the pool's memory, with room for more headers.
        assert_eq!(other.send(0, &[frame(&other_pool, 7, 100)]).unwrap(), 1);
        let found = receive(&*xdp, &mut cache, 1, ours);
        assert!(pool.owns(&found[0]));
        assert_eq!(found[0].headroom(), 256);
        drop(found);
        for port in [&xdp, &other] {
            assert_eq!(port.counters().rx_errors.load(Relaxed), 0);
            assert_eq!(port.counters().rx_dropped.load(Relaxed), 0);
        }
        // A frame that no chunk holds is refused, and those around it are sent.
        let refused = xdp.counters().tx_errors.load(Relaxed);
        let frames = [1, 2, 3].map(|n| frame(&pool, n, if n == 2 { 1800 } else { 60 }));
        assert_eq!(xdp.send(0, &frames).unwrap(), 3);
        let found = receive(&*other, &mut other_cache, 2, ours);
        assert_eq!([number(&found[0]), number(&found[1])], [1, 3]);
        assert_eq!(xdp.counters().tx_errors.load(Relaxed), refused + 1);
        drop((frames, found, cache));
        drop(xdp);
        // The program is gone with the port: the host receives again. The pool has all frames back.
        let received = counter("v1", RX_PACKETS);
        let end = Instant::now() + LONG;
        while counter("v1", RX_PACKETS) == received {
            other.send(0, &[frame(&other_pool, 1, 60)]).unwrap();
            assert!(Instant::now() < end);
        }
        wait_for_balance(&pool, before);
    }
}

#[test]
fn sent_in_place() {
    in_network_namespace("af_xdp::sent_in_place_inside");
}

/// Passes packets on and returns the lengths of those that the port showed, the start of each, and the spent ones.
fn pass(port: &dyn Port, frames: &mut Batch) -> (Vec<usize>, Vec<*mut u8>, Batch) {
    let (mut lengths, mut starts, mut spent) = (Vec::new(), Vec::new(), Batch::new());
    let mut show = |frames: &[Packet]| {
        lengths.extend(frames.iter().map(Packet::len));
        starts.extend(
            frames
                .iter()
                .map(|packet| packet.data().as_ptr().cast_mut()),
        );
    };
    let sent = port.pass(0, frames, &mut spent, &mut show).unwrap();
    assert_eq!(sent, lengths.len());
    (lengths, starts, spent)
}

/// The kernel sends packets from where they are, and their frames return when it has sent them.
#[test]
#[ignore = "the other test runs it, in a namespace of its own"]
fn sent_in_place_inside() {
    assert_inside();
    veth();
    let (pool, other_pool) = (pool(), crate::common::pool());
    let xdp = xdp("dev=v1,zero_copy=off", &pool);
    let other = port("af_packet", "dev=v0", &other_pool).unwrap();
    let (mut cache, mut other_cache) = (pool.cache(), other_pool.cache());
    settle(&*xdp, &*other, &mut other_cache);
    // While the device is down, frames wait in the ring. What is written to them then is sent.
    run("ip link set v1 down");
    let mut frames = Batch::new();
    let tag = VlanTag {
        proto: 0x8100,
        tci: 0x6005,
    };
    for number in 0..3 {
        let mut packet = frame(&pool, number, 100);
        packet.set_vlan((number == 1).then_some(tag));
        frames.push(packet).unwrap();
    }
    // A packet of another pool, one in a jumbo frame, and one that is too long are not lent.
    frames.push(frame(&other_pool, 3, 100)).unwrap();
    let mut jumbo = frame(&pool, 4, 5000);
    jumbo.trim(100);
    frames.push(jumbo).unwrap();
    frames.push(frame(&pool, 5, 1800)).unwrap();
    let refused = xdp.counters().tx_errors.load(Relaxed);
    let (lengths, starts, spent) = pass(&*xdp, &mut frames);
    assert_eq!(lengths, [100, 100, 100, 100, 100, 1800]);
    assert!(frames.is_empty());
    assert_eq!(xdp.counters().tx_errors.load(Relaxed), refused + 1);
    assert!(spent.iter().map(number).eq([3, 4, 5]));
    drop(spent);
    for start in &starts[..3] {
        // SAFETY: the frame is lent to the port, and the kernel does not read it while the device is down.
        unsafe { start.add(50).write(0x77) };
    }
    let held = used(&pool);
    run("ip link set v1 up");
    let mut found = Vec::new();
    let mut returned = 0;
    let end = Instant::now() + LONG;
    while found.len() < 5 || returned < 3 {
        assert!(
            Instant::now() < end,
            "{} frames, {returned} returned",
            found.len()
        );
        let (_, _, spent) = pass(&*xdp, &mut frames);
        returned += spent.len();
        wait(&[other.descriptor(0).unwrap()], Duration::from_millis(10));
        let mut batch = Batch::new();
        other.receive(0, &mut other_cache, &mut batch).unwrap();
        found.extend(batch.drain().filter(ours));
    }
    let what = |packet: &Packet| (number(packet), packet.data()[50], packet.vlan());
    let found: Vec<_> = found.iter().map(what).collect();
    let expected = [
        (0, 0x77, None),
        (1, 0x77, Some(tag)),
        (2, 0x77, None),
        (3, 2, None),
        (4, 2, None),
    ];
    assert_eq!((found.as_slice(), returned), (&expected[..], 3));
    assert_eq!(used(&pool), held - 3);

    // Without a receiver's call, more packets than the rings have entries go and return.
    let mut numbers = Vec::new();
    for number in 0..5000 {
        frames.push(frame(&pool, number, 200)).unwrap();
        if frames.is_full() || number == 4999 {
            while !frames.is_empty() {
                assert!(Instant::now() < end);
                drop(pass(&*xdp, &mut frames));
                let mut batch = Batch::new();
                other.receive(0, &mut other_cache, &mut batch).unwrap();
                numbers.extend(
                    batch
                        .drain()
                        .filter(ours)
                        .map(|packet| self::number(&packet)),
                );
            }
        }
    }
    let left = receive(&*other, &mut other_cache, 5000 - numbers.len(), ours);
    numbers.extend(left.iter().map(number));
    assert!(numbers.iter().copied().eq(0..5000));
    // Those that the kernel sent last return with a call that receives.
    while used(&pool) > held - 3 {
        assert!(Instant::now() < end, "{} of {held}", used(&pool));
        xdp.receive(0, &mut cache, &mut Batch::new()).unwrap();
        drop(std::mem::replace(&mut cache, pool.cache()));
    }
    // A port that closes takes its packets from the ring.
    run("ip link set v1 down");
    frames.push(frame(&pool, 0, 60)).unwrap();
    assert!(pass(&*xdp, &mut frames).2.is_empty());
    drop((xdp, cache, left));
    wait_for_balance(&pool, 0);
}

#[test]
fn losses_down_and_gone() {
    in_network_namespace("af_xdp::losses_inside");
}

#[test]
#[ignore = "the other test runs it, in a namespace of its own"]
fn losses_inside() {
    assert_inside();
    veth();
    let pool = pool();
    let error = port("af_xdp", "dev=absent", &pool).unwrap_err().to_string();
    assert!(error.starts_with("af_xdp: absent: "), "{error}");
    let xdp = xdp("dev=v1,zero_copy=off", &pool);
    // veth has no zero-copy, and a queue has one program.
    assert!(port("af_xdp", "dev=v1", &pool).is_err());
    assert!(port("af_xdp", "dev=v0,zero_copy=on", &pool).is_err());
    let other_pool = crate::common::pool();
    let other = port("af_packet", "dev=v0", &other_pool).unwrap();
    let mut cache = pool.cache();
    let mut other_cache = other_pool.cache();
    settle(&*other, &*xdp, &mut cache);
    settle(&*xdp, &*other, &mut other_cache);

    // More frames than the receive ring holds: the rest is counted, and the order is kept.
    let total = 5000;
    let mut sent = 0;
    let end = Instant::now() + LONG;
    while sent < total {
        let frames: Vec<_> = (sent..total.min(sent + 64))
            .map(|n| frame(&other_pool, n, 60))
            .collect();
        sent += other.send(0, &frames).unwrap() as u32;
        assert!(Instant::now() < end);
    }
    let mut numbers = Vec::new();
    while wait(&[xdp.descriptor(0).unwrap()], Duration::from_millis(200)) {
        let mut batch = Batch::new();
        xdp.receive(0, &mut cache, &mut batch).unwrap();
        numbers.extend(batch.iter().filter(|packet| ours(packet)).map(number));
    }
    assert_eq!(xdp.receive(0, &mut cache, &mut Batch::new()).unwrap(), 0);
    assert!(
        numbers.is_sorted() && numbers.len() >= 1000,
        "{}",
        numbers.len()
    );
    assert!(numbers.len() < total as usize);
    assert!(xdp.counters().rx_dropped.load(Relaxed) > 0);

    // Many frames at once: the queue takes what it has room for, and nothing is lost.
    let many: Vec<_> = (0..3000).map(|n| frame(&pool, n, 200)).collect();
    let mut found = Vec::new();
    let mut rest = &many[..];
    let end = Instant::now() + LONG;
    while found.len() < many.len() {
        let sent = xdp.send(0, rest).unwrap();
        rest = &rest[sent..];
        let mut batch = Batch::new();
        other.receive(0, &mut other_cache, &mut batch).unwrap();
        found.extend(batch.iter().filter(|packet| ours(packet)).map(number));
        assert!(Instant::now() < end, "{} of {}", found.len(), many.len());
    }
    assert!(found.iter().copied().eq(0..3000));
    drop(many);

    // Packets of memory outside the registered one, or of another pool, receive copies.
    let mut foreign = other_pool.cache();
    assert_eq!(other.send(0, &[frame(&other_pool, 5, 300)]).unwrap(), 1);
    let copies = receive(&*xdp, &mut foreign, 1, ours);
    assert!(other_pool.owns(&copies[0]));
    assert_eq!(copies[0].data(), frame(&other_pool, 5, 300).data());
    // Memory that is exhausted loses frames, and the port goes on.
    let small = Pool::new(PoolConfig {
        limit: 1,
        ..PoolConfig::default()
    });
    let mut few = small.cache();
    let mut held = Vec::new();
    while let Some(packet) = few.alloc(100) {
        held.push(packet);
    }
    let dropped = xdp.counters().rx_dropped.load(Relaxed);
    assert_eq!(other.send(0, &[frame(&other_pool, 6, 60)]).unwrap(), 1);
    let end = Instant::now() + LONG;
    while xdp.counters().rx_dropped.load(Relaxed) == dropped {
        assert_eq!(xdp.receive(0, &mut few, &mut Batch::new()).unwrap(), 0);
        assert!(Instant::now() < end);
    }
    assert_eq!(other.send(0, &[frame(&other_pool, 8, 60)]).unwrap(), 1);
    let found = receive(&*xdp, &mut cache, 1, |packet| {
        ours(packet) && number(packet) == 8
    });
    drop((found, copies));

    // Down and up again.
    run("ip link set v1 down");
    xdp.send(0, &[frame(&pool, 1, 60)]).unwrap();
    for _ in 0..3 {
        xdp.receive(0, &mut cache, &mut Batch::new()).unwrap();
    }
    run("ip link set v1 up");
    settle(&*other, &*xdp, &mut cache);
    settle(&*xdp, &*other, &mut other_cache);
    // Gone.
    run("ip link del v0");
    let end = Instant::now() + LONG;
    while xdp.receive(0, &mut cache, &mut Batch::new()).is_ok() {
        assert!(Instant::now() < end);
    }
    assert!(xdp.send(0, &[frame(&pool, 1, 60)]).is_err());
    drop((xdp, cache));
    wait_for_balance(&pool, 0);
}

#[test]
fn queues_of_another_namespace() {
    in_network_namespace("af_xdp::queues_inside");
}

/// A process with the device opens the files, and another one adopts them: one port with two queues.
#[test]
#[ignore = "the other test runs it, in a namespace of its own"]
fn queues_inside() {
    assert_inside();
    let host = Host::new();
    let id = host.id;
    run(&format!(
        "ip link add v0 numtxqueues 2 numrxqueues 2 type veth \
            peer name v1 numtxqueues 2 numrxqueues 2 netns {id}
        ip link set v0 up"
    ));
    host.run(|| run("ip link set v1 up"));
    let pool = pool();
    let error = port("af_xdp", "dev=v0,queue=2", &pool);
    drop(error.unwrap_err());
    let error = port("af_xdp", "dev=v0,queues=0", &pool).unwrap_err();
    assert_eq!(error.to_string(), "af_xdp: queues must be from 1 to 16");
    drop(xdp("dev=v0", &pool));
    let xdp = port_in(&host, "af_xdp", "dev=v1,queues=2,zero_copy=off", &pool);
    assert_eq!(xdp.queues(), 2);
    let other_pool = crate::common::pool();
    let other = port("af_packet", "dev=v0", &other_pool).unwrap();
    let (mut cache, mut other_cache) = (pool.cache(), other_pool.cache());
    settle(&*xdp, &*other, &mut other_cache);
    let sent = [frame(&pool, 1, 60), frame(&pool, 2, 60)];
    for queue in 0..2 {
        assert_eq!(xdp.send(queue, &sent).unwrap(), 2);
        let found = receive(&*other, &mut other_cache, 2, ours);
        assert_eq!([number(&found[0]), number(&found[1])], [1, 2]);
    }
    // The kernel chooses a queue by the flow: UDP over IPv4 with several ports.
    let mut counts = [0; 2];
    let end = Instant::now() + LONG;
    for flow in (0..=255_u8).cycle() {
        if counts.iter().all(|count| *count > 0) {
            break;
        }
        let mut packet = frame(&other_pool, 0, 60);
        let data = packet.data_mut();
        data[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
        data[35] = flow;
        other.send(0, &[packet]).unwrap();
        for queue in 0..2 {
            let mut batch = Batch::new();
            wait(&[xdp.descriptor(queue).unwrap()], Duration::from_millis(1));
            xdp.receive(queue, &mut cache, &mut batch).unwrap();
            let is_flow = |packet: &&Packet| packet.data()[12..15] == [8, 0, 0x45];
            counts[usize::from(queue)] += batch.iter().filter(is_flow).count();
        }
        assert!(Instant::now() < end, "{counts:?}");
    }
    drop((xdp, sent, cache));
    wait_for_balance(&pool, 0);
}

#[test]
fn adopted_without_privileges() {
    in_network_namespace("af_xdp::adopted_inside");
}

/// The stack's process needs no privileges, and a limit of locked memory.
#[test]
#[ignore = "the other test runs it, in a namespace of its own"]
fn adopted_inside() {
    assert_inside();
    veth();
    drop(xdp("dev=v1", &pool()));
    let other_pool = pool();
    let other = port("af_packet", "dev=v0", &other_pool).unwrap();
    let kind = weir_port::kinds::kind("af_xdp").unwrap();
    let keys = weir_port::keys::Keys::parse("af_xdp", kind.keys, "dev=v1").unwrap();
    let files = (kind.open)(&keys).unwrap();
    let adopted = std::thread::spawn(move || {
        let nobody: libc::uid_t = 65534;
        // The system call, unlike the library's function, changes this thread alone.
        // SAFETY: no memory is passed.
        let done = unsafe { libc::syscall(libc::SYS_setresuid, nobody, nobody, nobody) };
        assert_eq!(done, 0);
        let pool = pool();
        // More memory than the usual limit of 8 MiB.
        pool.commit(64 << 20);
        let xdp = (kind.adopt)(&keys, files, &weir_port::port::Site::new(&pool)).unwrap();
        let mut cache = pool.cache();
        settle(&*other, &*xdp, &mut cache);
        settle(&*xdp, &*other, &mut other_pool.cache());
    });
    adopted.join().unwrap();
}

#[test]
fn refusals_jumbo_frames_and_a_killed_owner() {
    in_network_namespace("af_xdp::refusals_inside");
}

#[test]
#[ignore = "the other test runs it, in a namespace of its own"]
fn refusals_inside() {
    assert_inside();
    veth();
    let (pool, other_pool) = (pool(), pool());
    drop(xdp("dev=v1", &pool));
    // veth has no zero-copy. Nothing stays behind, neither the program nor frames.
    let error = port("af_xdp", "dev=v1,zero_copy=on", &pool).unwrap_err();
    assert_eq!(
        error.to_string(),
        "af_xdp: v1: queue 0: Operation not supported (os error 95)"
    );
    wait_for_balance(&pool, 0);

    // A frame that is longer than a chunk is lost and counted; those around it arrive whole.
    run("ip link set v0 mtu 9000; ip link set v1 mtu 9000");
    let xdp = xdp("dev=v1", &pool);
    let other = port("af_packet", "dev=v0", &other_pool).unwrap();
    let mut cache = pool.cache();
    settle(&*other, &*xdp, &mut cache);
    for length in [1792, 1793, 4000, 9014] {
        let before = xdp.counters().rx_dropped.load(Relaxed);
        let mut wanted = vec![(1, 60), (2, length), (3, 1514)];
        let sent: Vec<_> = wanted
            .iter()
            .map(|(number, length)| frame(&other_pool, *number, *length))
            .collect();
        assert_eq!(other.send(0, &sent).unwrap(), 3);
        wanted.retain(|(_, length)| *length <= 1792);
        let found = receive(&*xdp, &mut cache, wanted.len(), ours);
        let found: Vec<_> = found.iter().map(|p| (number(p), p.len())).collect();
        assert_eq!(found, wanted);
        let lost = 3 - wanted.len() as u64;
        let end = Instant::now() + LONG;
        while xdp.counters().rx_dropped.load(Relaxed) < before + lost {
            let mut batch = Batch::new();
            xdp.receive(0, &mut cache, &mut batch).unwrap();
            assert!(Instant::now() < end);
        }
        assert_eq!(xdp.counters().rx_dropped.load(Relaxed), before + lost);
    }
    drop((xdp, cache));
    wait_for_balance(&pool, 0);

    // The kernel takes the program away from a device when its owner is killed.
    let mut owner = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "af_xdp::owner", "--ignored", "--nocapture"])
        .spawn()
        .unwrap();
    let has_program = || {
        let shown = std::process::Command::new("ip")
            .args(["link", "show", "v1"])
            .output();
        String::from_utf8_lossy(&shown.unwrap().stdout).contains("prog/xdp")
    };
    let until = |wanted| {
        let end = Instant::now() + LONG;
        while has_program() != wanted {
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until(true);
    owner.kill().unwrap();
    owner.wait().unwrap();
    until(false);
}

/// Holds a port until it is killed.
#[test]
#[ignore = "another test starts and kills it"]
fn owner() {
    assert_inside();
    let _port = xdp("dev=v1", &pool());
    std::thread::sleep(LONG);
}
