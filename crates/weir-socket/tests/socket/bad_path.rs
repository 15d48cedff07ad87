// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Data over a bad path, between two sockets of a stack without programs, under virtual time: netem delays each way by 90 to
//! 100 ms, so packets overtake each other, loses 1% and sends 1% twice. Every byte arrives in its place, for every seed, and
//! a seed has one course.
//!
//! `cargo test --release -p weir-socket --test socket -- --ignored --nocapture gigabyte` passes 1 GB for each of 50 seeds.
//! `WEIR_TRANSFER_BYTES` and `WEIR_TRANSFER_SEEDS` (FIRST-LAST) choose others.
#![allow(clippy::unwrap_used)] // Tests may panic.

use std::sync::Arc;
use std::time::Instant;

use crate::world::{Open, Program, VETH, World, at};
use weir_netlink::{TcMsg, errno, nlm, rtm, tca};
use weir_socket::Shutdown;

const TC_H_ROOT: u32 = u32::MAX;
const MILLISECOND: u64 = 1_000_000;
/// The data are pieces of this length, in bytes.
const PIECE: u64 = 64 << 10;

/// The data of a transfer: pieces that begin anywhere in random bytes, so that none is like another.
struct Data {
    seed: u64,
    bytes: Vec<u8>,
}

/// A step of splitmix64.
fn mix(mut value: u64) -> u64 {
    value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

impl Data {
    fn new(seed: u64) -> Self {
        let words = (0..(1 << 17)).flat_map(|n| mix(seed << 32 | n).to_ne_bytes());
        let bytes = words.collect();
        Self { seed, bytes }
    }

    /// The bytes from a position to the end of its piece.
    fn from(&self, position: u64) -> &[u8] {
        let (piece, within) = (position / PIECE, (position % PIECE) as usize);
        let room = self.bytes.len() as u64 - PIECE;
        let start = (mix(self.seed ^ piece << 20) % room) as usize;
        &self.bytes[start + within..start + PIECE as usize]
    }
}

/// The qdisc of both ends. `struct tc_netem_qopt`: latency in ticks of 64 ns, limit, loss, gap, duplicate, jitter.
fn spoil(world: &mut World) {
    let percent = u32::MAX / 100;
    let ticks = |ms: u64| (ms * MILLISECOND / 64) as u32;
    let words = [ticks(95), 100_000, percent, 0, percent, ticks(5)];
    let options: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    for (host, veth) in VETH.into_iter().enumerate() {
        let index = world.index(host, veth) as i32;
        world.accepted(host, rtm::NEWQDISC, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&TcMsg {
                ifindex: index,
                parent: TC_H_ROOT,
                ..TcMsg::default()
            });
            out.put_str(tca::KIND, "netem");
            out.put(tca::OPTIONS, &options);
        });
    }
}

/// Writes data from a position on as long as there is room. Returns the position that was reached.
fn write(world: &mut World, open: &Open, data: &Data, mut position: u64, end: u64) -> u64 {
    while position < end {
        let part = data.from(position);
        let part = &part[..part.len().min((end - position) as usize)];
        match world.with(|cx| open.socket.write(cx, part)) {
            Ok(count) => position += count as u64,
            Err(error) => {
                assert_eq!(error, errno::EAGAIN);
                break;
            }
        }
    }
    position
}

/// Reads what has come, which is the data from a position on. Returns the position that was reached, and whether the end
/// has come.
fn read(world: &mut World, open: &Open, data: &Data, mut position: u64) -> (u64, bool) {
    let got = world.with(|cx| {
        open.socket.read(cx, &mut |mut part| {
            let length = part.len();
            while !part.is_empty() {
                let expected = data.from(position);
                let count = part.len().min(expected.len());
                assert!(part[..count] == expected[..count], "after {position} bytes");
                position += count as u64;
                part = &part[count..];
            }
            length
        })
    });
    match got {
        Ok(count) => (position, count == 0),
        Err(error) => {
            assert_eq!(error, errno::EAGAIN);
            (position, false)
        }
    }
}

/// Passes data from one host to the other. Returns the time that it took, in ns of the stack's clock.
fn transfer(seed: u64, length: u64) -> u64 {
    let data = Data::new(seed);
    let mut world = World::seeded(seed);
    spoil(&mut world);
    let listener = world.open(1, libc::AF_INET, libc::SOCK_STREAM, 0);
    world.bind(&listener, &at("0.0.0.0", 80)).unwrap();
    world.with(|cx| listener.socket.listen(cx, 8)).unwrap();
    let client = world.open(0, libc::AF_INET, libc::SOCK_STREAM, 0);
    let start = world.stack.clock.now();
    assert_eq!(
        world.connect(&client, &at("10.0.0.2", 80)),
        Err(errno::EINPROGRESS)
    );
    let program = Arc::new(Program::default());
    let server = loop {
        world.pass(10);
        match world.with(|cx| listener.socket.accept(cx, program.clone())) {
            Ok(socket) => break Open { socket, program },
            Err(error) => assert_eq!(error, errno::EAGAIN),
        }
        // The SYN is sent again six times.
        assert!(world.stack.clock.now() - start < 130_000 * MILLISECOND);
    };
    let (mut queued, mut got, mut over) = (0, 0, false);
    let mut last = world.stack.clock.now();
    let mut shut = false;
    while !over {
        queued = write(&mut world, &client, &data, queued, length);
        if queued == length && !shut {
            shut = true;
            let done = world.with(|cx| client.socket.shutdown(cx, Shutdown::Write));
            assert_eq!(done, Ok(()));
        }
        let before = got;
        (got, over) = read(&mut world, &server, &data, got);
        let now = world.stack.clock.now();
        if got > before {
            last = now;
        }
        // The longest wait for a segment that is lost time after time.
        assert!(now - last < 300_000 * MILLISECOND, "{got} bytes have come");
        if !over {
            world.pass(10);
        }
    }
    assert_eq!(got, length);
    let time = world.stack.clock.now() - start;
    for open in [&client, &server, &listener] {
        world.close(open);
    }
    world.pass(120_000);
    assert_eq!(weir_socket::all(&world.hosts[0].ns).len(), 0);
    assert_eq!(weir_socket::all(&world.hosts[1].ns).len(), 0);
    time
}

#[test]
fn data_arrive_over_a_bad_path() {
    let times: Vec<u64> = (1..=4).map(|seed| transfer(seed, 3_000_000)).collect();
    // Other packets are lost, so the times differ.
    let mut different = times.clone();
    different.sort_unstable();
    different.dedup();
    assert!(different.len() > 2, "{times:?}");
    assert_eq!(transfer(2, 3_000_000), times[1]);
}

#[test]
#[ignore = "takes minutes"]
fn a_gigabyte_for_fifty_seeds() {
    let text = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.into());
    let length = text("WEIR_TRANSFER_BYTES", "1000000000").parse().unwrap();
    let seeds = text("WEIR_TRANSFER_SEEDS", "1-50");
    let (first, last) = seeds.split_once('-').expect("FIRST-LAST");
    for seed in first.parse::<u64>().unwrap()..=last.parse().unwrap() {
        let start = Instant::now();
        let time = transfer(seed, length) / 1_000_000_000;
        let took = start.elapsed().as_secs_f64();
        println!(
            "seed {seed}: {length} bytes in {time} s of the stack's time, {took:.1} s of the machine's"
        );
    }
}
