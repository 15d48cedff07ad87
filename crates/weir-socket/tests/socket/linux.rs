// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What Linux answers to calls, recorded by `linux/record.py`, and what Weir answers.
#![allow(clippy::unwrap_used)] // Tests may panic.

use crate::world::{Open, World, at};

/// Calls that Weir answers otherwise than Linux 6.18.
const OTHERWISE: &[&str] = &[
    // `SOCK_PACKET` of AF_INET becomes a socket of AF_PACKET there.
    "open inet 10 0 = 0",
];

fn hex(text: &str) -> Vec<u8> {
    if text == "-" {
        return Vec::new();
    }
    let digits: Vec<u8> = text
        .bytes()
        .map(|c| (c as char).to_digit(16).unwrap() as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

/// Reads an address and returns the words behind it.
fn address<'w>(world: &World, words: &'w [&'w str]) -> (Vec<u8>, &'w [&'w str]) {
    match words {
        ["-", rest @ ..] => (Vec::new(), rest),
        ["raw", bytes, rest @ ..] => (hex(bytes), rest),
        [host, port, rest @ ..] => {
            let (host, device) = host.split_once('%').unwrap_or((host, ""));
            let scope = if device.is_empty() {
                0
            } else {
                world.index(0, device)
            };
            (at(&format!("{host}%{scope}"), port.parse().unwrap()), rest)
        }
        _ => panic!("{words:?}"),
    }
}

fn level(name: &str) -> i32 {
    match name {
        "ip" => 0,
        "socket" => 1,
        "udp" => 17,
        "ipv6" => 41,
        "icmpv6" => 58,
        "raw" => 255,
        _ => 263,
    }
}

fn run(world: &mut World, socket: &mut Option<Open>, call: &str) -> String {
    let words: Vec<&str> = call.split(' ').collect();
    let errno = |result: Result<(), i32>| match result {
        Ok(()) => "0".to_owned(),
        Err(errno) => format!("-{errno}"),
    };
    if let ["open", family, kind, protocol] = words[..] {
        if let Some(old) = socket.take() {
            world.close(&old);
        }
        let family = match family {
            "inet" => 2,
            "inet6" => 10,
            _ => 17,
        };
        let kind = match kind {
            "stream" => 1,
            "dgram" => 2,
            "raw" => 3,
            "seqpacket" => 5,
            other => other.parse().unwrap(),
        };
        let mut protocol: i32 = protocol.parse().unwrap();
        if family == 17 {
            protocol = (protocol as u16).to_be().into();
        }
        return errno(match world.try_open(0, family, kind, protocol) {
            Ok(open) => {
                *socket = Some(open);
                Ok(())
            }
            Err(errno) => Err(errno),
        });
    }
    let Some(open) = socket.clone() else {
        return "no socket".to_owned();
    };
    match words[..] {
        ["bind", ref rest @ ..] => {
            let (bytes, _) = address(world, rest);
            errno(world.bind(&open, &bytes))
        }
        ["connect", ref rest @ ..] => {
            let (bytes, _) = address(world, rest);
            errno(world.connect(&open, &bytes))
        }
        ["send", ref rest @ ..] => {
            let (bytes, rest) = address(world, rest);
            let data = vec![0; rest[0].parse().unwrap()];
            match world.send_to(&open, &bytes, &data) {
                Ok(len) => len.to_string(),
                Err(errno) => format!("-{errno}"),
            }
        }
        ["listen"] => errno(world.with(|cx| open.socket.listen(cx, 1))),
        ["shutdown", how] => {
            let how = match how {
                "0" => weir_socket::Shutdown::Read,
                "1" => weir_socket::Shutdown::Write,
                _ => weir_socket::Shutdown::Both,
            };
            errno(world.with(|cx| open.socket.shutdown(cx, how)))
        }
        ["set", at, name, bytes] => {
            let name = name.parse().unwrap();
            errno(world.set(&open, level(at), name, &hex(bytes)))
        }
        ["get", at, name, len] => {
            let room = vec![0; len.parse().unwrap()];
            match open
                .socket
                .option(0, level(at), name.parse().unwrap(), &room)
            {
                Ok(value) if value.is_empty() => "-".to_owned(),
                Ok(value) => value[..value.len().min(room.len())]
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect(),
                Err(errno) => format!("-{errno}"),
            }
        }
        _ => panic!("{call}"),
    }
}

#[test]
fn calls_are_answered_as_by_linux() {
    // Nobody answers at the other end.
    let mut world = World::bare();
    world.address(0, "v0", [10, 0, 0, 1].into(), 24);
    world.address(0, "v0", "fd00::1".parse().unwrap(), 64);
    world.pass(5000);
    let mut socket = None;
    let mut wrong = Vec::new();
    let mut block = "";
    for line in include_str!("../linux/linux.txt").lines() {
        let (call, expected) = line.split_once(" = ").unwrap();
        if call.starts_with("open") {
            block = call;
        }
        let got = run(&mut world, &mut socket, call);
        world.pass(10);
        if got != expected && !OTHERWISE.contains(&line) {
            wrong.push(format!("{block}: {call}: Linux {expected}, Weir {got}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
