// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fast Open, MD5 signatures, congestion control and metrics of TCP sockets between two hosts under virtual time.
#![allow(clippy::unwrap_used)] // Tests may panic.

use std::net::IpAddr;
use std::sync::Arc;

use crate::world::{Open, Program, World, at};
use weir_inet::mib::{Ext, WithMib};
use weir_netlink::errno;
use weir_socket::{Outgoing, Ready, Shutdown};

const INET: i32 = libc::AF_INET;
const SOL_TCP: i32 = 6;
const MSG_DONTWAIT: i32 = 0x40;
const MSG_FASTOPEN: i32 = 0x2000_0000;
const CONGESTION: i32 = 13;
const MD5SIG: i32 = 14;
const FASTOPEN: i32 = 23;
const CC_INFO: i32 = 26;
const FASTOPEN_CONNECT: i32 = 30;
const MD5SIG_EXT: i32 = 32;
const FASTOPEN_KEY: i32 = 33;

fn socket(world: &mut World, host: usize) -> Open {
    world.open(host, INET, libc::SOCK_STREAM, 0)
}

fn listener(world: &mut World, prepare: impl FnOnce(&mut World, &Open)) -> Open {
    let open = socket(world, 1);
    prepare(world, &open);
    world.bind(&open, &at("0.0.0.0", 80)).unwrap();
    world.with(|cx| open.socket.listen(cx, 8)).unwrap();
    open
}

fn accept(world: &mut World, listener: &Open) -> Result<Open, i32> {
    let program = Arc::new(Program::default());
    let user = program.clone();
    let socket = world.with(|cx| listener.socket.accept(cx, user))?;
    Ok(Open { socket, program })
}

fn read(world: &mut World, open: &Open) -> Result<Vec<u8>, i32> {
    let mut got = Vec::new();
    world.with(|cx| {
        open.socket.read(cx, &mut |part| {
            got.extend_from_slice(part);
            part.len()
        })
    })?;
    Ok(got)
}

fn write(world: &mut World, open: &Open, data: &[u8]) -> Result<usize, i32> {
    world.with(|cx| open.socket.write(cx, data))
}

fn send_fast(world: &mut World, open: &Open, data: &[u8]) -> Result<usize, i32> {
    send_with(world, open, data, MSG_FASTOPEN | MSG_DONTWAIT)
}

fn send_with(world: &mut World, open: &Open, data: &[u8], flags: i32) -> Result<usize, i32> {
    let message = Outgoing {
        to: &at("10.0.0.2", 80),
        data,
        flags,
        ..Outgoing::default()
    };
    world.with(|cx| open.socket.send(cx, &message))
}

fn count(world: &World, host: usize, counter: Ext) -> u64 {
    let ns = &world.hosts[host].ns;
    ns.mib().ext(counter)
}

/// Whether the data of the SYN were taken (`TCPI_OPT_SYN_DATA`).
fn syn_data(open: &Open) -> bool {
    open.socket.option(0, SOL_TCP, 11, &[0; 232]).unwrap()[5] & 32 != 0
}

/// The first connection gets a cookie; the next ones send data in their SYN, which the server reads at once.
#[test]
fn the_second_connection_opens_fast() {
    let mut world = World::new();
    world.sysctl(1, "ipv4/tcp_fastopen", "3");
    let server = listener(&mut world, |world, open| {
        world.set_int(open, SOL_TCP, FASTOPEN, 5).unwrap();
    });
    let first = socket(&mut world, 0);
    assert_eq!(
        send_fast(&mut world, &first, b"hello"),
        Err(errno::EINPROGRESS)
    );
    world.pass(1);
    let other = accept(&mut world, &server).unwrap();
    assert_eq!(read(&mut world, &other), Err(errno::EAGAIN));
    assert_eq!(send_fast(&mut world, &first, b"hello"), Ok(5));
    assert!(!syn_data(&first));
    let known = weir_socket::metrics(&world.hosts[0].ns).all();
    assert_eq!(known.len(), 1);
    assert_eq!(
        (known[0].2.mss, known[0].2.cookie.unwrap().length),
        (1460, 8)
    );

    let second = socket(&mut world, 0);
    assert_eq!(send_fast(&mut world, &second, &[7; 5000]), Ok(1420));
    world.pass(1);
    let other = accept(&mut world, &server).unwrap();
    assert_eq!(read(&mut world, &other).unwrap(), [7; 1420]);
    assert!(syn_data(&second) && syn_data(&other));

    // `connect` returns at once, and the first write leaves in the SYN.
    let third = socket(&mut world, 0);
    world.set_int(&third, SOL_TCP, FASTOPEN_CONNECT, 1).unwrap();
    assert_eq!(world.connect(&third, &at("10.0.0.2", 80)), Ok(()));
    world.pass(5);
    assert_eq!(third.socket.ready().0, Ready::OUT);
    assert_eq!(accept(&mut world, &server).err(), Some(errno::EAGAIN));
    assert_eq!(write(&mut world, &third, b"request"), Ok(7));
    world.pass(1);
    let other = accept(&mut world, &server).unwrap();
    assert_eq!(read(&mut world, &other).unwrap(), b"request");
    assert_eq!(write(&mut world, &other, b"answer"), Ok(6));
    world.pass(1);
    assert_eq!(read(&mut world, &third).unwrap(), b"answer");
    assert!(syn_data(&third));
    let counters = [
        (0, Ext::TCPFastOpenActive, 2),
        (1, Ext::TCPFastOpenPassive, 2),
        (1, Ext::TCPFastOpenCookieReqd, 1),
        (1, Ext::TCPFastOpenPassiveFail, 0),
    ];
    for (host, counter, expected) in counters {
        assert_eq!(count(&world, host, counter), expected, "{counter:?}");
    }

    // With another key the cookie is wrong: the handshake takes place, and the client learns the new one.
    world.set(&server, SOL_TCP, FASTOPEN_KEY, &[9; 16]).unwrap();
    let fourth = socket(&mut world, 0);
    assert_eq!(send_fast(&mut world, &fourth, b"again"), Ok(5));
    world.pass(1);
    let other = accept(&mut world, &server).unwrap();
    assert_eq!(read(&mut world, &other).unwrap(), b"again");
    assert!(!syn_data(&fourth));
    assert_eq!(count(&world, 1, Ext::TCPFastOpenPassiveFail), 1);
    let fifth = socket(&mut world, 0);
    assert_eq!(send_fast(&mut world, &fifth, b"new"), Ok(3));
    world.pass(1);
    assert!(syn_data(&fifth));
}

/// The ACK of the SYN-ACK goes with the data of a sender that waits to send them, or is late if none come.
#[test]
fn a_sender_that_waits_acknowledges_with_its_data() {
    let mut world = World::new();
    let server = listener(&mut world, |_, _| {});
    for (writes, after) in [(true, 1), (false, 201)] {
        let client = socket(&mut world, 0);
        let flags = MSG_FASTOPEN;
        let sent = send_with(&mut world, &client, b"request", flags);
        assert_eq!(sent, Err(errno::EINPROGRESS));
        world.pass(1);
        assert_eq!(accept(&mut world, &server).err(), Some(errno::EAGAIN));
        if writes {
            assert_eq!(write(&mut world, &client, b"request"), Ok(7));
        }
        world.pass(after);
        let other = accept(&mut world, &server).unwrap();
        let expected = if writes {
            Ok(b"request".to_vec())
        } else {
            Err(errno::EAGAIN)
        };
        assert_eq!(read(&mut world, &other), expected);
    }
}

/// A client cannot ask for Fast Open where the namespace does not take part; a second `connect` finds the first.
#[test]
fn fast_open_connect_is_refused_where_it_is_off() {
    let mut world = World::new();
    let client = socket(&mut world, 0);
    world.sysctl(0, "ipv4/tcp_fastopen", "0");
    let set = world.set_int(&client, SOL_TCP, FASTOPEN_CONNECT, 1);
    assert_eq!(set, Err(errno::EOPNOTSUPP));
    world.sysctl(0, "ipv4/tcp_fastopen", "5");
    world
        .set_int(&client, SOL_TCP, FASTOPEN_CONNECT, 1)
        .unwrap();
    let to = at("10.0.0.2", 80);
    assert_eq!(world.connect(&client, &to), Ok(()));
    assert_eq!(world.connect(&client, &to), Err(errno::EISCONN));
    assert_eq!(world.connect(&client, &to), Err(errno::EISCONN));
}

#[test]
fn fast_open_is_off_by_default_for_servers() {
    let mut world = World::new();
    let server = listener(&mut world, |world, open| {
        world.set_int(open, SOL_TCP, FASTOPEN, 5).unwrap();
    });
    let client = socket(&mut world, 0);
    assert_eq!(
        send_fast(&mut world, &client, b"data"),
        Err(errno::EINPROGRESS)
    );
    world.pass(1);
    accept(&mut world, &server).unwrap();
    assert!(
        weir_socket::metrics(&world.hosts[0].ns).all()[0]
            .2
            .cookie
            .is_none()
    );
    world.sysctl(0, "ipv4/tcp_fastopen", "0");
    let client = socket(&mut world, 0);
    assert_eq!(
        send_fast(&mut world, &client, b"data"),
        Err(errno::EOPNOTSUPP)
    );
    assert_eq!(
        world.set(&client, SOL_TCP, FASTOPEN_KEY, &[0; 3]),
        Err(errno::EINVAL)
    );
    assert_eq!(
        world.set_int(&client, SOL_TCP, FASTOPEN, -1),
        Err(errno::EINVAL)
    );
}

/// `struct tcp_md5sig`
fn signature(ip: [u8; 4], prefix: Option<u8>, key: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 216];
    bytes[..2].copy_from_slice(&2u16.to_ne_bytes());
    bytes[4..8].copy_from_slice(&ip);
    if let Some(prefix) = prefix {
        bytes[128] = 1;
        bytes[129] = prefix;
    }
    bytes[130..132].copy_from_slice(&(key.len() as u16).to_ne_bytes());
    bytes[136..136 + key.len()].copy_from_slice(key);
    bytes
}

#[test]
fn signatures_admit_only_those_who_have_the_key() {
    let mut world = World::new();
    let key = signature([10, 0, 0, 0], Some(8), b"secret");
    let server = listener(&mut world, |world, open| {
        world.set(open, SOL_TCP, MD5SIG_EXT, &key).unwrap();
    });
    let connect = |world: &mut World, key: Option<&[u8]>| {
        let client = socket(world, 0);
        if let Some(key) = key {
            let value = signature([10, 0, 0, 2], None, key);
            world.set(&client, SOL_TCP, MD5SIG, &value).unwrap();
        }
        let result = world.connect(&client, &at("10.0.0.2", 80));
        assert_eq!(result, Err(errno::EINPROGRESS));
        world.pass(100);
        client
    };
    let right = connect(&mut world, Some(b"secret"));
    let other = accept(&mut world, &server).unwrap();
    let data: Vec<u8> = (0..20_000).map(|n| n as u8).collect();
    let mut queued = 0;
    let mut got = Vec::new();
    for _ in 0..100 {
        queued += write(&mut world, &right, &data[queued..]).unwrap_or(0);
        world.pass(5);
        got.extend(read(&mut world, &other).unwrap_or_default());
    }
    assert!(got == data, "{} bytes", got.len());
    for (key, counter) in [
        (Some(&b"wrong"[..]), Ext::TCPMD5Failure),
        (None, Ext::TCPMD5NotFound),
    ] {
        let client = connect(&mut world, key);
        assert_eq!(accept(&mut world, &server).err(), Some(errno::EAGAIN));
        assert_eq!(client.socket.ready().0, 0, "the handshake goes on");
        assert!(count(&world, 1, counter) > 0, "{counter:?}");
        world.close(&client);
    }
    // Orderly end, signed to the last segment.
    world
        .with(|cx| right.socket.shutdown(cx, Shutdown::Write))
        .unwrap();
    world.pass(100);
    assert_eq!(read(&mut world, &other).unwrap(), b"");
    world.close(&other);
    world.close(&right);
    world.pass(100);
    assert_eq!(count(&world, 0, Ext::TCPMD5NotFound), 0);
    // A listener without keys does not take signed segments.
    let empty = signature([10, 0, 0, 0], Some(8), b"");
    world.set(&server, SOL_TCP, MD5SIG_EXT, &empty).unwrap();
    assert_eq!(
        world.set(&server, SOL_TCP, MD5SIG_EXT, &empty),
        Err(errno::ENOENT)
    );
    connect(&mut world, Some(b"secret"));
    assert!(count(&world, 1, Ext::TCPMD5Unexpected) > 0);
}

#[test]
fn bbr_is_chosen_and_shown() {
    let mut world = World::new();
    world.sysctl(0, "ipv4/tcp_congestion_control", "bbr");
    let server = listener(&mut world, |_, _| ());
    let client = socket(&mut world, 0);
    let name = client
        .socket
        .option(0, SOL_TCP, CONGESTION, &[0; 16])
        .unwrap();
    assert_eq!(&name[..4], b"bbr\0");
    let _ = world.connect(&client, &at("10.0.0.2", 80));
    world.pass(1);
    let other = accept(&mut world, &server).unwrap();
    let info = client.socket.option(0, SOL_TCP, CC_INFO, &[0; 64]).unwrap();
    assert_eq!((info.len(), &info[12..16]), (20, &739u32.to_ne_bytes()[..]));
    assert_eq!(
        other.socket.option(0, SOL_TCP, CC_INFO, &[0; 64]).unwrap(),
        []
    );
    world.set(&client, SOL_TCP, CONGESTION, b"reno").unwrap();
    assert_eq!(
        client.socket.option(0, SOL_TCP, CC_INFO, &[0; 64]).unwrap(),
        []
    );
}

#[test]
fn connections_leave_metrics_behind() {
    let mut world = World::new();
    let server = listener(&mut world, |_, _| ());
    let once = |world: &mut World| {
        let client = socket(world, 0);
        let _ = world.connect(&client, &at("10.0.0.2", 80));
        world.pass(1);
        let other = accept(world, &server).unwrap();
        assert_eq!(write(world, &client, b"data"), Ok(4));
        world.pass(50);
        // What is not read resets the connection.
        assert_eq!(read(world, &other).unwrap(), b"data");
        world.close(&client);
        world.pass(50);
        world.close(&other);
        world.pass(50);
    };
    let ends: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
    world.sysctl(0, "ipv4/tcp_no_metrics_save", "1");
    once(&mut world);
    assert!(weir_socket::metrics(&world.hosts[0].ns).all().is_empty());
    world.sysctl(0, "ipv4/tcp_no_metrics_save", "0");
    once(&mut world);
    let entry = weir_socket::metrics(&world.hosts[0].ns)
        .get(ends[0], ends[1])
        .unwrap();
    assert!(entry.values.rtt > 0 && entry.values.cwnd >= 10, "{entry:?}");
    assert_eq!(entry.values.ssthresh, 0);
    assert!(
        weir_socket::metrics(&world.hosts[1].ns)
            .get(ends[1], ends[0])
            .is_some()
    );
}

/// `TCP_DEFER_ACCEPT`: a connection without data waits; it is listed as half-open, as one in TIME_WAIT is.
#[test]
fn half_open_and_waiting_connections_are_listed() {
    let mut world = World::new();
    let server = listener(&mut world, |world, open| {
        world.set_int(open, SOL_TCP, 9, 5).unwrap();
        assert_eq!(open.option(SOL_TCP, 9), Ok(7));
    });
    let client = socket(&mut world, 0);
    let _ = world.connect(&client, &at("10.0.0.2", 80));
    world.pass(1);
    assert_eq!(client.socket.ready().0, Ready::OUT);
    assert_eq!(accept(&mut world, &server).err(), Some(errno::EAGAIN));
    assert_eq!(count(&world, 1, Ext::TCPDeferAcceptDrop), 1);
    let listed = |world: &World, host: usize| {
        let (ns, now) = (&world.hosts[host].ns, world.stack.clock.now());
        weir_socket::listed(ns, now, &world.stack.domain.pin())
    };
    let half = listed(&world, 1);
    assert_eq!(half.len(), 1);
    assert_eq!(
        (half[0].state, half[0].timer.0, half[0].local.1),
        (3, 1, 80)
    );
    assert!(half[0].timer.1 > 900 && half[0].timer.1 <= 1000);
    write(&mut world, &client, b"data").unwrap();
    world.pass(1);
    let other = accept(&mut world, &server).unwrap();
    assert_eq!(read(&mut world, &other).unwrap(), b"data");
    assert!(listed(&world, 1).is_empty());
    // The one that closes first waits.
    let port = crate::world::port_of(&client.socket.local_address());
    world.close(&client);
    world.pass(50);
    world.close(&other);
    world.pass(50);
    let rest = listed(&world, 0);
    assert_eq!(rest.len(), 1);
    assert_eq!(
        (rest[0].state, rest[0].timer.0, rest[0].remote.1),
        (6, 3, 80)
    );
    assert!(rest[0].timer.1 > 59_000 && rest[0].timer.1 <= 60_000);
    // `tcp_tw_reuse` lets a new connection take its place, after a second.
    let again = |world: &mut World| {
        let client = socket(world, 0);
        world.bind(&client, &at("10.0.0.1", port)).unwrap();
        let result = world.connect(&client, &at("10.0.0.2", 80));
        world.pass(1);
        world.close(&client);
        result
    };
    world.pass(1100);
    assert_eq!(again(&mut world), Err(errno::EADDRNOTAVAIL));
    world.sysctl(0, "ipv4/tcp_tw_reuse", "1");
    assert_eq!(again(&mut world), Err(errno::EINPROGRESS));
    assert!(listed(&world, 0).is_empty());
}

#[test]
fn repair_is_refused() {
    let mut world = World::new();
    let open = socket(&mut world, 0);
    assert_eq!(world.set_int(&open, SOL_TCP, 19, 1), Err(errno::EPERM));
    assert_eq!(open.option(SOL_TCP, 19), Ok(0));
    assert_eq!(world.set_int(&open, SOL_TCP, 20, 1), Err(errno::EPERM));
}

/// Values of options that Linux 6.1 changes or refuses.
#[test]
fn values_are_limited_as_on_linux() {
    let mut world = World::new();
    let open = socket(&mut world, 0);
    let set = |world: &mut World, level: i32, name: i32, value: i32| {
        world.with(|cx| {
            open.socket
                .set_option(cx, level, name, &value.to_ne_bytes())
        })
    };
    let get = |level: i32, name: i32| open.socket.option(0, level, name, &[0; 4]).unwrap();
    for (name, value, shown) in [
        (8, 100_000, 120), // TCP_LINGER2
        (8, 120, 120),
        (10, 1, 1152), // TCP_WINDOW_CLAMP
        (10, -1, -1),
        (10, 100_000, 100_000),
        (10, 0, 0),
    ] {
        set(&mut world, SOL_TCP, name, value).unwrap();
        assert_eq!(
            get(SOL_TCP, name),
            i32::to_ne_bytes(shown),
            "{name} {value}"
        );
    }
    assert_eq!(set(&mut world, 1, 42, 0), Err(errno::EOPNOTSUPP)); // SO_PEEK_OFF
    assert_eq!(set(&mut world, SOL_TCP, CONGESTION, 0), Err(errno::ENOENT));
    let open = world.open(0, libc::AF_INET6, libc::SOCK_STREAM, 0);
    let get = |name: i32| open.socket.option(0, 41, name, &[0; 4]);
    for (value, result, shown) in [
        (0, Ok(()), 0x500), // IPV6_ADDR_PREFERENCES
        (1, Ok(()), 0x401),
        (0x404, Err(errno::EINVAL), 0x401),
        (4, Ok(()), 5),
        (2, Ok(()), 6),
        (3, Err(errno::EINVAL), 6),
        (0x808, Err(errno::EINVAL), 6),
        (0x500, Ok(()), 0x500),
        (100_000, Ok(()), 0x500),
    ] {
        let value: i32 = value;
        let set = world.with(|cx| open.socket.set_option(cx, 41, 72, &value.to_ne_bytes()));
        assert_eq!(set, result, "{value:#x}");
        assert_eq!(get(72).unwrap(), i32::to_ne_bytes(shown), "{value:#x}");
    }
    assert_eq!(get(36), Err(errno::ENOPROTOOPT)); // IPV6_HDRINCL
}
