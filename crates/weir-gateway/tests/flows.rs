// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The gateway alone: frames of a namespace on one side, servers on the host's loopback on the other.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use common::{Inside, to_loopback};
use weir_gateway::Config;
use weir_tcp::State;
use weir_tcp::error::{ECONNREFUSED, ECONNRESET};

fn outside() -> Config {
    Config {
        translate: Some(to_loopback),
        ..Config::default()
    }
}

/// A pattern that no shift leaves equal.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32)
        .map(|n| (n ^ n >> 8 ^ n >> 16) as u8)
        .collect()
}

#[test]
fn data_pass_both_ways_intact_and_ends_of_data_one_by_one() {
    const LENGTH: usize = 50 << 20;
    for host in ["192.0.2.1", "2001:db8::1"] {
        let listener = TcpListener::bind(if host.contains(':') {
            "[::1]:0"
        } else {
            "127.0.0.1:0"
        })
        .unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut got = Vec::new();
            // The end of what the namespace sends comes while the other direction is open.
            stream.read_to_end(&mut got).unwrap();
            stream.write_all(&got).unwrap();
            got
        });
        let mut inside = Inside::new(outside());
        let sent = pattern(LENGTH);
        let at = inside.connect(host, port);
        inside.until(|inside| inside.state(at) == State::Established);
        let got = inside.exchange(at, &sent);
        assert!(got == sent, "{} bytes came back", got.len());
        assert!(server.join().unwrap() == sent);
        inside.until(|inside| matches!(inside.state(at), State::TimeWait | State::Closed));
        let counters = inside.gateway.counters();
        assert_eq!(counters.tcp_opened.load(Relaxed), 1);
        assert_eq!(counters.tcp_bytes_in.load(Relaxed), LENGTH as u64);
        assert_eq!(counters.tcp_bytes_out.load(Relaxed), LENGTH as u64);
        assert_eq!(counters.tcp_now.load(Relaxed), 0, "nothing is left of it");
    }
}

#[test]
fn a_refused_port_is_refused_inside() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut inside = Inside::new(outside());
    let at = inside.connect("192.0.2.1", closed);
    inside.until(|inside| inside.state(at) == State::Closed);
    assert_eq!(inside.error(at), ECONNREFUSED);
    assert_eq!(inside.gateway.counters().tcp_failed.load(Relaxed), 1);
}

#[test]
fn the_hosts_loopback_is_reached_only_if_asked_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut inside = Inside::new(Config::default());
    let at = inside.connect("10.0.2.2", port);
    inside.until(|inside| inside.state(at) == State::Closed);
    assert_eq!(inside.error(at), ECONNREFUSED);
    // Other names of the loopback lead nowhere at all.
    for name in [
        "127.0.0.1",
        "0.0.0.0",
        "0.1.2.3",
        "::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "224.0.0.1",
        "ff02::1",
    ] {
        inside.connect(name, port);
        inside.run(Duration::from_millis(20));
    }
    // A SYN may have been sent again meanwhile.
    assert!(inside.gateway.counters().prohibited.load(Relaxed) >= 9);
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err());

    let mut inside = Inside::new(Config {
        host: true,
        ..Config::default()
    });
    let at = inside.connect("10.0.2.2", port);
    inside.until(|inside| inside.state(at) == State::Established);
    // The connection waits in the listener's queue.
    listener.set_nonblocking(false).unwrap();
    listener.accept().unwrap();
}

#[test]
fn resets_pass_both_ways() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut inside = Inside::new(outside());
    let at = inside.connect("192.0.2.1", port);
    inside.until(|inside| inside.state(at) == State::Established);
    let (stream, _) = listener.accept().unwrap();
    common::reset_on_close(stream.as_raw_fd());
    drop(stream);
    inside.until(|inside| inside.state(at) == State::Closed);
    assert_eq!(inside.error(at), ECONNRESET);

    let at = inside.connect("192.0.2.1", port);
    inside.until(|inside| inside.state(at) == State::Established);
    let (mut stream, _) = listener.accept().unwrap();
    inside.abort(at);
    inside.run(Duration::from_millis(50));
    let error = stream.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(104));
}

#[test]
fn a_slow_reader_of_the_host_stops_the_sender_inside() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut inside = Inside::new(outside());
    let at = inside.connect("192.0.2.1", port);
    inside.until(|inside| inside.state(at) == State::Established);
    let (mut stream, _) = listener.accept().unwrap();
    let sent = pattern(64 << 20);
    let mut done = 0;
    let mut stalled = 0;
    // Until nothing moves any more: the gateway holds no more than its buffers.
    while stalled < 20 {
        let count = inside.send(at, &sent[done..]);
        done += count;
        inside.run(Duration::from_millis(5));
        stalled = if count == 0 { stalled + 1 } else { 0 };
    }
    assert!(done < 40 << 20, "{done} bytes were taken");
    let reader = thread::spawn(move || {
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        got
    });
    while done < sent.len() {
        done += inside.send(at, &sent[done..]);
        inside.run(Duration::from_millis(1));
    }
    inside.shutdown(at);
    inside.until(|inside| inside.gateway.counters().tcp_bytes_out.load(Relaxed) == 64 << 20);
    inside.run(Duration::from_millis(20));
    let _ = inside.exchange(at, &[]);
    assert!(reader.join().unwrap() == sent);
}

#[test]
fn what_a_slow_reader_of_the_host_has_not_taken_outlives_the_connection_inside() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut inside = Inside::new(outside());
    let at = inside.connect("192.0.2.1", port);
    inside.until(|inside| inside.state(at) == State::Established);
    let (mut stream, _) = listener.accept().unwrap();
    let out = inside.gateway.counters();
    let left = |sent: usize| out.tcp_bytes_out.load(Relaxed) < sent as u64;
    // A little more than the host's buffers take, so that the gateway holds the rest.
    let mut sent = 0;
    while !left(sent) {
        sent += inside.send(at, &pattern(16 << 10));
        for _ in 0..20 {
            if left(sent) {
                inside.run(Duration::from_millis(10));
            }
        }
    }
    // The namespace's end comes first, then that of the host, and the connection inside is over.
    inside.shutdown(at);
    inside.until(|inside| inside.state(at) == State::FinWait2);
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    inside.until(|inside| inside.state(at) == State::TimeWait);
    inside.run(Duration::from_millis(20));
    assert!(left(sent));
    let reader = thread::spawn(move || {
        let mut got = Vec::new();
        stream.read_to_end(&mut got).map(|_| got.len())
    });
    inside.until(|_| out.tcp_now.load(Relaxed) == 0);
    assert_eq!(reader.join().unwrap().unwrap(), sent);
    assert!(!left(sent));
    assert_eq!(out.tcp_reset.load(Relaxed), 0);
}

#[test]
fn connections_beyond_the_limit_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut inside = Inside::new(Config {
        flows: 3,
        ..outside()
    });
    let all: Vec<usize> = (0..5).map(|_| inside.connect("192.0.2.1", port)).collect();
    inside.until(|inside| {
        all.iter()
            .filter(|at| inside.state(**at) == State::Established)
            .count()
            == 3
    });
    let counters = inside.gateway.counters();
    assert_eq!(counters.tcp_now.load(Relaxed), 3);
    assert!(counters.overflow.load(Relaxed) >= 2);
    // The SYN is sent again once one has ended.
    inside.abort(all[0]);
    inside.until(|inside| {
        all[1..]
            .iter()
            .filter(|at| inside.state(**at) == State::Established)
            .count()
            == 3
    });
}

#[test]
fn datagrams_of_any_length_come_back_to_their_sender() {
    for (host, bind) in [("192.0.2.1", "127.0.0.1:0"), ("2001:db8::1", "[::1]:0")] {
        let server = UdpSocket::bind(bind).unwrap();
        let port = server.local_addr().unwrap().port();
        let echo = thread::spawn(move || {
            let mut data = vec![0; 65_536];
            for _ in 0..8 {
                let (length, from) = server.recv_from(&mut data).unwrap();
                server.send_to(&data[..length], from).unwrap();
            }
        });
        let mut inside = Inside::new(outside());
        for (n, length) in [0, 1, 1000, 1452, 1473, 9000, 30_000, 60_000]
            .into_iter()
            .enumerate()
        {
            let data = pattern(length);
            inside.datagram(5000 + n as u16, host, port, &data);
            inside.until(|inside| !inside.datagrams.is_empty());
            let (from, to, got) = inside.datagrams.remove(0);
            let host: IpAddr = host.parse().unwrap();
            assert_eq!(from, SocketAddr::from((host, port)));
            assert_eq!(to.port(), 5000 + n as u16);
            assert!(got == data, "{length}");
        }
        echo.join().unwrap();
        assert_eq!(inside.gateway.counters().udp_opened.load(Relaxed), 8);
    }
}

#[test]
fn a_closed_port_answers_datagrams_with_an_error() {
    let closed = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut inside = Inside::new(outside());
    inside.datagram(5000, "192.0.2.1", closed, b"x");
    inside.until(|inside| !inside.errors.is_empty());
    let (from, kind) = inside.errors.remove(0);
    assert_eq!((from.to_string().as_str(), kind), ("192.0.2.1", [3, 3]));
    // The loopback of the host is prohibited.
    inside.datagram(5000, "10.0.2.2", closed, b"x");
    inside.until(|inside| !inside.errors.is_empty());
    assert_eq!(inside.errors.remove(0).1, [3, 13]);
}

#[test]
fn datagram_flows_give_way_to_new_ones() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let mut inside = Inside::new(Config {
        flows: 10,
        ..outside()
    });
    for source in 1000..1100 {
        inside.datagram(source, "192.0.2.1", port, b"x");
    }
    let counters = inside.gateway.counters();
    assert_eq!(counters.udp_now.load(Relaxed), 10);
    assert_eq!(counters.udp_opened.load(Relaxed), 100);
    assert_eq!(counters.udp_out.load(Relaxed), 100);
}

#[test]
fn questions_go_to_the_resolvers_of_the_host() {
    // Port 53 cannot be bound here; a resolver that is not there is an error, and none at all is another.
    let folder = std::env::temp_dir().join(format!("weir-gateway-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("resolv.conf");
    let mut inside = Inside::new(Config {
        resolvers: file.clone(),
        ..Config::default()
    });
    inside.datagram(5000, "10.0.2.3", 53, b"question");
    inside.until(|inside| !inside.errors.is_empty());
    assert_eq!(inside.errors.remove(0).1, [3, 1]);
    inside.datagram(5000, "10.0.2.3", 54, b"question");
    inside.until(|inside| !inside.errors.is_empty());
    assert_eq!(inside.errors.remove(0).1, [3, 3]);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn neighbours_and_echo_requests_are_answered() {
    let mut inside = Inside::new(Config::default());
    assert!(inside.resolves("10.0.2.2"));
    assert!(inside.resolves("10.0.2.3"));
    assert!(!inside.resolves("10.0.2.4"));
    assert!(inside.resolves("fd00::2"));
    assert!(!inside.resolves("fd00::4"));
    assert!(inside.echo("10.0.2.2", 64));
    assert!(inside.echo("fd00::2", 64));
    assert!(!inside.echo("192.0.2.1", 1));
    assert_eq!(inside.errors.pop().unwrap().1, [11, 0]);
}
