// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists of sockets by `NETLINK_SOCK_DIAG`, as `ss` asks for them.
#![allow(clippy::unwrap_used)] // Tests may panic.

use crate::world::{World, at};
use libc::{AF_INET, AF_INET6, AF_PACKET, AF_UNIX, SOCK_RAW};
use weir_netlink::{Writer, attrs, errno, messages, nlm};
use weir_stack::connection::NoPeer;
use weir_stack::diag::{BY_FAMILY, DESTROY};
use weir_stack::{Connection, Protocol};

const UDP: u8 = 17;

/// `struct inet_diag_req_v2` for all sockets of a protocol.
fn request(family: i32, protocol: u8) -> Vec<u8> {
    let mut bytes = vec![family as u8, protocol, 0xff, 0];
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.resize(56, 0);
    bytes
}

/// Sends a request of host 0. Returns the payloads of the answers, or the errno.
fn ask(world: &mut World, ty: u16, dump: bool, payload: &[u8]) -> Result<Vec<Vec<u8>>, i32> {
    let ns = world.hosts[0].ns.clone();
    let mut connection = Connection::open(
        &world.stack,
        &ns,
        Protocol::SockDiag,
        9,
        Box::new(NoPeer),
        None,
    );
    let mut out = Writer::new();
    let flags = nlm::F_REQUEST | nlm::F_ACK | if dump { nlm::F_DUMP } else { 0 };
    let message = out.message(ty, flags, 1, 0);
    out.raw(payload);
    out.finish(message).unwrap();
    connection.request(out.bytes());
    let mut answers = Vec::new();
    loop {
        while let Some(datagram) = connection.mailbox().take() {
            for message in messages(&datagram) {
                match message.header.ty {
                    nlm::ERROR => {
                        let code = i32::from_ne_bytes(*message.payload().first_chunk().unwrap());
                        if code != 0 {
                            return Err(-code);
                        }
                    }
                    nlm::DONE => {}
                    ty => {
                        assert_eq!(ty, BY_FAMILY);
                        answers.push(message.payload().to_vec());
                    }
                }
            }
        }
        if !connection.pump() {
            break;
        }
    }
    world.cpu.settle();
    while world.cpu.turn() {}
    Ok(answers)
}

/// The local and the remote port of an answer.
fn ports(answer: &[u8]) -> (u16, u16) {
    let port = |at: usize| u16::from_be_bytes([answer[at], answer[at + 1]]);
    (port(4), port(6))
}

#[test]
fn udp_sockets_are_listed() {
    let mut world = World::new();
    for port in [53, 67, 123] {
        let socket = world.udp(0, AF_INET);
        world.bind(&socket, &at("10.0.0.1", port)).unwrap();
        socket.socket.set_identity(1000 + u64::from(port), 7);
    }
    let client = world.udp(0, AF_INET6);
    world.connect(&client, &at("fd00::2", 99)).unwrap();
    let list = ask(&mut world, BY_FAMILY, true, &request(AF_INET, UDP)).unwrap();
    assert_eq!(
        list.iter().map(|one| ports(one)).collect::<Vec<_>>(),
        [(53, 0), (67, 0), (123, 0)]
    );
    let one = &list[0];
    // Family, state, address, user, inode.
    assert_eq!((&one[..2], &one[8..12]), (&[2, 7][..], &[10, 0, 0, 1][..]));
    assert_eq!(
        (&one[64..68], &one[68..72]),
        (&7u32.to_ne_bytes()[..], &1053u32.to_ne_bytes()[..])
    );
    let found: Vec<u16> = attrs(&one[72..]).map(|attr| attr.ty).collect();
    assert!([7, 8, 15].iter().all(|ty| found.contains(ty)), "{found:?}");
    let list = ask(&mut world, BY_FAMILY, true, &request(AF_INET6, UDP)).unwrap();
    assert_eq!((list.len(), list[0][1], ports(&list[0]).1), (1, 1, 99));
    // Only connected ones.
    let mut wanted = request(AF_INET, UDP);
    wanted[4..8].copy_from_slice(&(1u32 << 1).to_ne_bytes());
    assert_eq!(
        ask(&mut world, BY_FAMILY, true, &wanted).unwrap(),
        Vec::<Vec<u8>>::new()
    );
}

#[test]
fn programs_select_sockets() {
    let mut world = World::new();
    for port in [53, 67, 123] {
        let socket = world.udp(0, AF_INET);
        world.bind(&socket, &at("10.0.0.1", port)).unwrap();
    }
    let with = |code: &[u8]| {
        let mut bytes = request(AF_INET, UDP);
        bytes.extend((4 + code.len() as u16).to_ne_bytes());
        bytes.extend(1u16.to_ne_bytes());
        bytes.extend(code);
        bytes
    };
    let mut list = |code: &[u8]| {
        let found = ask(&mut world, BY_FAMILY, true, &with(code))?;
        Ok::<_, i32>(found.iter().map(|one| ports(one).0).collect::<Vec<_>>())
    };
    // sport = :67, as one operation and as two (>= and <=).
    assert_eq!(list(&[11, 8, 12, 0, 0, 0, 67, 0]), Ok(vec![67]));
    assert_eq!(
        list(&[2, 8, 20, 0, 0, 0, 67, 0, 3, 8, 12, 0, 0, 0, 67, 0]),
        Ok(vec![67])
    );
    assert_eq!(list(&[2, 8, 12, 0, 0, 0, 67, 0]), Ok(vec![67, 123]));
    // src 10.0.0.0/8, and another network.
    let mut host = vec![
        7, 16, 20, 0, 2, 8, 0, 0, 0xff, 0xff, 0xff, 0xff, 10, 0, 0, 0,
    ];
    assert_eq!(list(&host).map(|found| found.len()), Ok(3));
    host[12] = 11;
    assert_eq!(list(&host).map(|found| found.len()), Ok(0));
    for bad in [
        &[][..],
        &[99, 4, 8, 0],
        &[11, 8, 12, 0],
        &[11, 0, 12, 0, 0, 0, 67, 0],
        &[0, 8, 8, 0],
    ] {
        assert_eq!(list(bad), Err(errno::EINVAL), "{bad:?}");
    }
    // Prefixes longer than addresses, and an operation without its operand.
    host[5] = 33;
    assert_eq!(list(&host), Err(errno::EINVAL));
    assert_eq!(list(&host[..12]), Err(errno::EINVAL));
}

#[test]
fn one_socket_is_found_and_ended() {
    let mut world = World::new();
    let socket = world.udp(0, AF_INET);
    world.bind(&socket, &at("10.0.0.1", 53)).unwrap();
    world.connect(&socket, &at("10.0.0.2", 99)).unwrap();
    let mut wanted = request(AF_INET, UDP);
    wanted[8..12].copy_from_slice(&[0, 53, 0, 99]);
    wanted[12..16].copy_from_slice(&[10, 0, 0, 1]);
    wanted[28..32].copy_from_slice(&[10, 0, 0, 2]);
    let any = [0xff; 8];
    wanted[48..56].copy_from_slice(&any);
    let found = ask(&mut world, BY_FAMILY, false, &wanted).unwrap();
    assert_eq!((found.len(), ports(&found[0])), (1, (53, 99)));
    wanted[48..56].copy_from_slice(&[9, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(ask(&mut world, DESTROY, false, &wanted), Err(errno::ESTALE));
    let cookie = found[0][44..52].to_vec();
    wanted[48..56].copy_from_slice(&cookie);
    ask(&mut world, DESTROY, false, &wanted).unwrap();
    assert_eq!(socket.socket.take_error(), libc::ECONNABORTED);
    assert_eq!(socket.socket.peer_address(), Err(libc::ENOTCONN));
    assert_eq!(ask(&mut world, DESTROY, false, &wanted), Err(errno::ENOENT));
}

#[test]
fn tcp_sockets_have_their_states() {
    let mut world = World::new();
    let server = world.open(0, AF_INET, libc::SOCK_STREAM, 0);
    world.bind(&server, &at("10.0.0.1", 80)).unwrap();
    world.with(|cx| server.socket.listen(cx, 5)).unwrap();
    let client = world.open(1, AF_INET, libc::SOCK_STREAM, 0);
    let began = world.connect(&client, &at("10.0.0.1", 80));
    assert_eq!(began, Err(libc::EINPROGRESS));
    world.pass(100);
    let program = std::sync::Arc::new(crate::world::Program::default());
    let child = world.with(|cx| server.socket.accept(cx, program)).unwrap();
    let list = ask(&mut world, BY_FAMILY, true, &request(AF_INET, 6)).unwrap();
    let states: Vec<_> = list.iter().map(|one| (one[1], ports(one).0)).collect();
    assert_eq!(states, [(10, 80), (1, 80)]);
    // `ss -i` finds the state of the connection and its congestion control.
    let found: Vec<u16> = attrs(&list[1][72..]).map(|attr| attr.ty).collect();
    assert!([2, 4].iter().all(|ty| found.contains(ty)), "{found:?}");
    world.with(|cx| child.close(cx, false));
}

#[test]
fn raw_and_packet_sockets_are_listed() {
    let mut world = World::new();
    let raw = world.open(0, AF_INET, SOCK_RAW, 89);
    let packet = world.open(0, AF_PACKET, SOCK_RAW, 0x0300);
    let list = ask(&mut world, BY_FAMILY, true, &request(AF_INET, 255)).unwrap();
    assert_eq!(ports(&list[0]), (89, 0));
    assert!(attrs(&list[0][72..]).any(|attr| attr.ty == 10 && attr.payload == [89]));
    let mut wanted = vec![AF_PACKET as u8, 0, 0, 0, 0, 0, 0, 0];
    wanted.extend(1u32.to_ne_bytes());
    wanted.resize(20, 0);
    let list = ask(&mut world, BY_FAMILY, true, &wanted).unwrap();
    assert_eq!((list.len(), &list[0][..4]), (1, &[17, 3, 3, 0][..]));
    assert_eq!(
        ask(&mut world, BY_FAMILY, false, &wanted),
        Err(errno::EOPNOTSUPP)
    );
    world.close(&raw);
    world.close(&packet);
    assert_eq!(ask(&mut world, BY_FAMILY, true, &wanted), Ok(vec![]));
}

#[test]
fn requests_that_are_not_served() {
    let mut world = World::new();
    for (ty, payload, errno) in [
        (BY_FAMILY, request(AF_UNIX, 0), errno::ENOENT),
        (BY_FAMILY, request(200, 0), errno::EINVAL),
        (BY_FAMILY, request(AF_INET, 132), errno::ENOENT),
        (
            BY_FAMILY,
            request(AF_INET, UDP)[..55].to_vec(),
            errno::EINVAL,
        ),
        (BY_FAMILY, vec![2], errno::EINVAL),
        (18, request(AF_INET, 6), errno::ENOENT),
        (99, request(AF_INET, 6), errno::EINVAL),
    ] {
        assert_eq!(
            ask(&mut world, ty, true, &payload),
            Err(errno),
            "{ty} {payload:?}"
        );
    }
}

#[test]
fn arbitrary_requests_do_not_panic() {
    let mut world = World::new();
    for port in 1..9 {
        let socket = world.udp(0, AF_INET);
        world.bind(&socket, &at("10.0.0.1", port)).unwrap();
    }
    let mut random = weir_stack::random::Generator::new(1, "diag");
    for _ in 0..3000 {
        let mut payload = match random.below(3) {
            0 => vec![0; random.below(80) as usize],
            _ => request(AF_INET, UDP),
        };
        let len = random.below(10) * 4;
        payload.extend((4 + len as u16).to_ne_bytes());
        payload.extend(1u16.to_ne_bytes());
        for _ in 0..len {
            // Operations, lengths and jumps are small.
            payload.push(random.below(20) as u8);
        }
        for _ in 0..random.below(3) {
            let at = random.below(payload.len() as u32) as usize;
            payload[at] = random.next_u64() as u8;
        }
        let ty = if random.below(4) == 0 {
            DESTROY
        } else {
            BY_FAMILY
        };
        let dump = random.below(2) == 0;
        match ask(&mut world, ty, dump, &payload) {
            Ok(found) => assert!(found.len() <= 8),
            Err(errno) => assert!(errno > 0),
        }
    }
}
