// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls with arbitrary bytes: nothing panics, and every errno is positive.
#![allow(clippy::unwrap_used)] // Tests may panic.

use crate::world::{Open, World, at};
use libc::{AF_INET, AF_INET6, AF_PACKET, SOCK_DGRAM, SOCK_RAW};
use weir_socket::{Outgoing, Shutdown};
use weir_stack::random::Generator;

fn bytes(random: &mut Generator, most: u32) -> Vec<u8> {
    let len = random.below(most);
    (0..len)
        .map(|_| match random.below(3) {
            // Small numbers are lengths, types and families.
            0 => random.below(24) as u8,
            1 => 0,
            _ => random.below(256) as u8,
        })
        .collect()
}

fn address(random: &mut Generator) -> Vec<u8> {
    let mut address = match random.below(8) {
        0 => at("10.0.0.2", 53),
        1 => at("127.0.0.1", 53),
        2 => at("fd00::2", 53),
        3 => at("::1", 0),
        4 => at("239.1.1.1", 9),
        5 => at("ff02::1%2", 9),
        6 => Vec::new(),
        _ => bytes(random, 40),
    };
    if random.below(8) == 0 {
        let len = random.below(address.len() as u32 + 1) as usize;
        address.truncate(len);
    }
    address
}

fn call(world: &mut World, open: &Open, random: &mut Generator) -> Result<usize, i32> {
    let to = address(random);
    let levels = [0, 1, 17, 41, 58, 255, 263, 77];
    let level = levels[random.below(8) as usize];
    match random.below(9) {
        0 => world.bind(open, &to).map(|()| 0),
        1 => world.connect(open, &to).map(|()| 0),
        2 => {
            let name = random.below(105) as i32;
            let value = match random.below(3) {
                0 => (random.below(4) as i32 - 1).to_ne_bytes().to_vec(),
                _ => bytes(random, 300),
            };
            world.set(open, level, name, &value).map(|()| 0)
        }
        3 => {
            let room = vec![0; random.below(40) as usize];
            let name = random.below(105) as i32;
            open.socket
                .option(0, level, name, &room)
                .map(|value| value.len())
        }
        4 => {
            let how = [Shutdown::Read, Shutdown::Write, Shutdown::Both];
            let how = how[random.below(3) as usize];
            match random.below(20) {
                0 => world.with(|cx| open.socket.shutdown(cx, how)).map(|()| 0),
                _ => Ok(0),
            }
        }
        5 => {
            open.socket.local_address();
            open.socket.shown(0);
            open.socket.peer_address().map(|address| address.len())
        }
        6 => {
            while open.error().is_some() {}
            Ok(open.socket.take_error() as usize)
        }
        _ => {
            let mut control = Vec::new();
            for _ in 0..random.below(3) {
                let data = bytes(random, 30);
                let length = 16 + data.len() as u64 + u64::from(random.below(9) == 0);
                control.extend(length.to_ne_bytes());
                control.extend(levels[random.below(8) as usize].to_ne_bytes());
                control.extend(random.below(70).to_ne_bytes());
                control.extend(data);
                control.resize(control.len().next_multiple_of(8), 0);
            }
            let data = bytes(random, 2000);
            let message = Outgoing {
                to: &to,
                control: &control,
                data: &data,
                flags: random.next_u64() as i32 & 0xffff,
            };
            world.with(|cx| open.socket.send(cx, &message))
        }
    }
}

#[test]
fn nothing_panics() {
    for seed in 0..40 {
        let mut random = Generator::new(seed, "noise");
        let mut world = World::new();
        let kinds = [
            (AF_INET, SOCK_DGRAM, 0),
            (AF_INET6, SOCK_DGRAM, 0),
            (AF_INET, SOCK_DGRAM, 1),
            (AF_INET6, SOCK_DGRAM, 58),
            (AF_INET, SOCK_RAW, 1),
            (AF_INET, SOCK_RAW, 255),
            (AF_INET6, SOCK_RAW, 58),
            (AF_INET6, SOCK_RAW, 255),
            (AF_PACKET, SOCK_RAW, 0x0300),
            (AF_PACKET, SOCK_DGRAM, 0x0008),
        ];
        let sockets: Vec<Open> = [0, 1]
            .into_iter()
            .flat_map(|host| kinds.map(|kind| (host, kind)))
            .map(|(host, (family, kind, protocol))| world.open(host, family, kind, protocol))
            .collect();
        for _ in 0..600 {
            let open = &sockets[random.below(sockets.len() as u32) as usize];
            if let Err(errno) = call(&mut world, open, &mut random) {
                assert!(errno > 0);
            }
        }
        world.pass(100);
        for open in &sockets {
            open.got();
            world.close(open);
            // Calls after the end do nothing.
            let _ = call(&mut world, open, &mut random);
            world.close(open);
        }
        for host in &world.hosts {
            assert!(weir_socket::all(&host.ns).is_empty());
            for name in ["v0", "v1", "lo"] {
                let device = host.ns.device_by_name(name);
                assert!(device.is_none_or(|device| device.promiscuity() == 0));
            }
        }
    }
}
