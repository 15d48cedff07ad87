// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP between two hosts joined by a veth pair, and on loopback, under virtual time.
#![allow(clippy::unwrap_used)] // Tests may panic.

use crate::world::{Open, World, at};
use weir_inet::mib::{self, Ext, WithMib};
use weir_netlink::{TcMsg, errno, nlm, rtm, tca};
use weir_socket::{Ready, Shutdown};

const INET: i32 = libc::AF_INET;
const TC_H_ROOT: u32 = u32::MAX;
const INET6: i32 = libc::AF_INET6;

struct Tcp {
    world: World,
}

impl Tcp {
    fn new() -> Self {
        Self {
            world: World::new(),
        }
    }

    fn socket(&mut self, host: usize, family: i32) -> Open {
        self.world.open(host, family, libc::SOCK_STREAM, 0)
    }

    fn listener(&mut self, host: usize, family: i32, address: &str, port: u16) -> Open {
        let open = self.socket(host, family);
        self.world.bind(&open, &at(address, port)).unwrap();
        self.world.with(|cx| open.socket.listen(cx, 8)).unwrap();
        open
    }

    fn accept(&mut self, listener: &Open) -> Result<Open, i32> {
        let program = std::sync::Arc::new(crate::world::Program::default());
        let user = program.clone();
        let socket = self.world.with(|cx| listener.socket.accept(cx, user))?;
        Ok(Open { socket, program })
    }

    /// Connects and accepts.
    fn pair(&mut self, family: i32, listener: &Open, address: &str, port: u16) -> (Open, Open) {
        let client = self.socket(0, family);
        let result = self.world.connect(&client, &at(address, port));
        assert_eq!(result, Err(errno::EINPROGRESS));
        self.world.pass(1);
        assert_eq!(client.socket.take_error(), 0);
        assert_eq!(client.socket.ready().0, Ready::OUT);
        let server = self.accept(listener).unwrap();
        (client, server)
    }

    fn write(&mut self, open: &Open, data: &[u8]) -> Result<usize, i32> {
        self.world.with(|cx| open.socket.write(cx, data))
    }

    fn read(&mut self, open: &Open) -> Result<Vec<u8>, i32> {
        let mut got = Vec::new();
        self.world.with(|cx| {
            open.socket.read(cx, &mut |part| {
                got.extend_from_slice(part);
                part.len()
            })
        })?;
        Ok(got)
    }

    fn shutdown(&mut self, open: &Open) {
        self.world
            .with(|cx| open.socket.shutdown(cx, Shutdown::Write))
            .unwrap();
    }

    /// Sends much from one socket to another.
    fn transfer(&mut self, from: &Open, to: &Open, length: usize) {
        let data: Vec<u8> = (0..length).map(|n| (n * 7 + n / 251) as u8).collect();
        let (mut queued, mut got) = (0, Vec::new());
        for _ in 0..200_000 {
            if queued < data.len() {
                match self.write(from, &data[queued..]) {
                    Ok(count) => queued += count,
                    Err(error) => assert_eq!(error, errno::EAGAIN),
                }
            }
            match self.read(to) {
                Ok(part) => got.extend(part),
                Err(error) => assert_eq!(error, errno::EAGAIN),
            }
            if got.len() == data.len() {
                break;
            }
            self.world.pass(1);
        }
        assert!(got == data, "{} of {}", got.len(), data.len());
    }
}

#[test]
fn a_connection_carries_data_both_ways_and_closes() {
    for (family, address, any) in [(INET, "10.0.0.2", "0.0.0.0"), (INET6, "fd00::2", "::")] {
        let mut tcp = Tcp::new();
        let listener = tcp.listener(1, family, any, 80);
        assert_eq!(tcp.accept(&listener).err().unwrap(), errno::EAGAIN);
        let (client, server) = tcp.pair(family, &listener, address, 80);
        assert_eq!(
            server.socket.peer_address().unwrap(),
            client.socket.local_address()
        );
        assert_eq!(client.socket.peer_address().unwrap(), at(address, 80));
        assert_eq!(tcp.read(&server), Err(errno::EAGAIN));
        assert_eq!(tcp.write(&client, b"request"), Ok(7));
        tcp.world.pass(1);
        assert_ne!(server.woken() & Ready::IN, 0);
        assert_eq!(tcp.read(&server).unwrap(), b"request");
        tcp.transfer(&server, &client, 500_000);
        // Half-closed: the other direction goes on.
        tcp.shutdown(&client);
        tcp.world.pass(1);
        assert_eq!(tcp.write(&client, b"x"), Err(errno::EPIPE));
        assert_eq!(tcp.read(&server).unwrap(), b"");
        assert_ne!(server.socket.ready().0 & Ready::RDHUP, 0);
        assert_eq!(tcp.write(&server, b"last"), Ok(4));
        tcp.world.close(&server);
        tcp.world.pass(1);
        assert_eq!(tcp.read(&client).unwrap(), b"last");
        assert_eq!(tcp.read(&client).unwrap(), b"");
        tcp.world.close(&client);
        tcp.world.close(&listener);
        tcp.world.pass(100_000);
        assert_eq!(weir_socket::all(&tcp.world.hosts[0].ns).len(), 0);
        assert_eq!(weir_socket::all(&tcp.world.hosts[1].ns).len(), 0);
    }
}

#[test]
fn a_port_without_listener_refuses() {
    for (family, address) in [(INET, "10.0.0.2"), (INET6, "fd00::2")] {
        let mut tcp = Tcp::new();
        let client = tcp.socket(0, family);
        let result = tcp.world.connect(&client, &at(address, 81));
        assert_eq!(result, Err(errno::EINPROGRESS));
        tcp.world.pass(1);
        let ready = client.socket.ready().0;
        assert_eq!(ready & (Ready::ERR | Ready::HUP), Ready::ERR | Ready::HUP);
        assert_eq!(client.socket.take_error(), errno::ECONNREFUSED);
        assert_eq!(client.socket.take_error(), 0);
    }
}

#[test]
fn nobody_answers_and_the_connection_times_out() {
    let mut tcp = Tcp::new();
    tcp.world.set_flags(1, "v1", 0, weir_netlink::ifla::iff::UP);
    let client = tcp.socket(0, INET);
    tcp.world
        .set_int(&client, libc::SOL_TCP, libc::TCP_SYNCNT, 2)
        .unwrap();
    let _ = tcp.world.connect(&client, &at("10.0.0.2", 81));
    assert_eq!(
        tcp.world.connect(&client, &at("10.0.0.2", 81)),
        Err(errno::EALREADY)
    );
    tcp.world.pass(30_000);
    let error = client.socket.take_error();
    assert!(
        error == errno::ETIMEDOUT || error == errno::EHOSTUNREACH,
        "{error}"
    );
}

#[test]
fn loopback_joins_sockets_of_one_host() {
    let mut tcp = Tcp::new();
    let listener = tcp.listener(0, INET6, "::", 80);
    // An IPv4 client of an IPv6 listener.
    let (client, server) = tcp.pair(INET, &listener, "127.0.0.1", 80);
    assert_eq!(
        server.socket.peer_address().unwrap()[8..24],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 127, 0, 0, 1]
    );
    tcp.transfer(&client, &server, 3_000_000);
    tcp.transfer(&server, &client, 300_000);
}

#[test]
fn close_with_linger_or_unread_data_resets() {
    let mut tcp = Tcp::new();
    let listener = tcp.listener(1, INET, "10.0.0.2", 80);
    let (client, server) = tcp.pair(INET, &listener, "10.0.0.2", 80);
    tcp.world.with(|cx| server.socket.close(cx, true));
    tcp.world.pass(1);
    assert_eq!(tcp.read(&client), Err(errno::ECONNRESET));
    assert_eq!(tcp.write(&client, b"x"), Err(errno::EPIPE));
    let (client, server) = tcp.pair(INET, &listener, "10.0.0.2", 80);
    tcp.write(&server, b"unread").unwrap();
    tcp.world.pass(1);
    tcp.world.close(&client);
    tcp.world.pass(1);
    assert_eq!(tcp.read(&server), Err(errno::ECONNRESET));
}

#[test]
fn a_listener_that_closes_resets_who_waits() {
    let mut tcp = Tcp::new();
    let listener = tcp.listener(1, INET, "0.0.0.0", 80);
    let client = tcp.socket(0, INET);
    let _ = tcp.world.connect(&client, &at("10.0.0.2", 80));
    tcp.world.pass(1);
    assert_eq!(listener.socket.ready().0, Ready::IN);
    assert_ne!(listener.woken() & Ready::IN, 0);
    tcp.world.close(&listener);
    tcp.world.pass(1);
    assert_eq!(client.socket.take_error(), errno::ECONNRESET);
}

#[test]
fn ports_are_given_once() {
    let mut tcp = Tcp::new();
    let _one = tcp.listener(1, INET, "0.0.0.0", 80);
    let other = tcp.socket(1, INET);
    let result = tcp.world.bind(&other, &at("10.0.0.2", 80));
    assert_eq!(result, Err(errno::EADDRINUSE));
    let result = tcp.world.bind(&other, &at("10.9.9.9", 81));
    assert_eq!(result, Err(errno::EADDRNOTAVAIL));
    tcp.world.bind(&other, &at("0.0.0.0", 0)).unwrap();
    assert_ne!(crate::world::port_of(&other.socket.local_address()), 0);
    let result = tcp.world.bind(&other, &at("0.0.0.0", 82));
    assert_eq!(result, Err(errno::EINVAL));
    assert_eq!(tcp.accept(&other).err().unwrap(), errno::EINVAL);
    assert_eq!(tcp.read(&other), Err(errno::ENOTCONN));
}

#[test]
fn options_are_kept_and_reported() {
    let mut tcp = Tcp::new();
    let listener = tcp.listener(1, INET, "0.0.0.0", 80);
    let (client, server) = tcp.pair(INET, &listener, "10.0.0.2", 80);
    for (name, value) in [
        (libc::TCP_NODELAY, 1),
        (libc::TCP_KEEPIDLE, 5),
        (libc::TCP_KEEPINTVL, 6),
        (libc::TCP_KEEPCNT, 7),
        (libc::TCP_USER_TIMEOUT, 8000),
        (libc::TCP_SYNCNT, 3),
    ] {
        tcp.world
            .set_int(&client, libc::SOL_TCP, name, value)
            .unwrap();
        assert_eq!(client.option(libc::SOL_TCP, name), Ok(value), "{name}");
    }
    assert_eq!(client.option(libc::SOL_TCP, libc::TCP_MAXSEG), Ok(1448));
    let info = client
        .socket
        .option(0, libc::SOL_TCP, libc::TCP_INFO, &[0; 280]);
    let info = info.unwrap();
    assert_eq!(info.len(), 280);
    // Established; timestamps, SACK and scaling; both scales 7.
    assert_eq!((info[0], info[5], info[6]), (1, 7, 0x77));
    let name = server
        .socket
        .option(0, libc::SOL_TCP, libc::TCP_CONGESTION, &[0; 16]);
    assert_eq!(name.unwrap()[..6], *b"cubic\0");
    let result = tcp
        .world
        .set(&server, libc::SOL_TCP, libc::TCP_CONGESTION, b"vegas");
    assert_eq!(result, Err(errno::ENOENT));
    tcp.world
        .set(&server, libc::SOL_TCP, libc::TCP_CONGESTION, b"reno")
        .unwrap();
    // A peer that vanishes is noticed by keep-alive probes.
    tcp.world
        .set_int(&client, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)
        .unwrap();
    tcp.world
        .set_int(&client, libc::SOL_TCP, libc::TCP_USER_TIMEOUT, 0)
        .unwrap();
    tcp.world.set_flags(1, "v1", 0, weir_netlink::ifla::iff::UP);
    tcp.world.pass(60_000);
    let error = client.socket.take_error();
    assert!(
        error == errno::ETIMEDOUT || error == errno::EHOSTUNREACH,
        "{error}"
    );
}

#[test]
fn sysctls_of_the_namespace_count() {
    let mut tcp = Tcp::new();
    tcp.world.sysctl(0, "ipv4/tcp_timestamps", "0");
    let listener = tcp.listener(1, INET, "0.0.0.0", 80);
    let (client, _server) = tcp.pair(INET, &listener, "10.0.0.2", 80);
    assert_eq!(client.option(libc::SOL_TCP, libc::TCP_MAXSEG), Ok(1460));
}

#[test]
fn many_connections_come_and_go() {
    let mut tcp = Tcp::new();
    let listener = tcp.listener(1, INET, "0.0.0.0", 80);
    for n in 0..300 {
        let (client, server) = tcp.pair(INET, &listener, "10.0.0.2", 80);
        tcp.write(&client, b"GET").unwrap();
        tcp.world.pass(1);
        assert_eq!(tcp.read(&server).unwrap(), b"GET", "{n}");
        tcp.write(&server, b"OK").unwrap();
        tcp.world.close(&server);
        tcp.world.pass(1);
        assert_eq!(tcp.read(&client).unwrap(), b"OK");
        tcp.world.close(&client);
        tcp.world.pass(1);
    }
    tcp.world.pass(61_000);
    assert_eq!(weir_socket::all(&tcp.world.hosts[0].ns).len(), 0);
    assert_eq!(weir_socket::all(&tcp.world.hosts[1].ns).len(), 1);
}

/// A transfer through netem with loss, delay and reordering arrives whole, and two runs are the same.
#[test]
fn a_lossy_link_delivers_everything() {
    let run = |family, address| {
        let mut tcp = Tcp::new();
        for (host, veth) in crate::world::VETH.into_iter().enumerate() {
            let index = tcp.world.index(host, veth) as i32;
            tcp.world
                .accepted(host, rtm::NEWQDISC, nlm::F_CREATE | nlm::F_EXCL, |out| {
                    out.fixed(&TcMsg {
                        ifindex: index,
                        parent: TC_H_ROOT,
                        ..TcMsg::default()
                    });
                    out.put_str(tca::KIND, "netem");
                    // struct tc_netem_qopt: latency in ticks of 64 ns, limit, loss, gap, duplicate, jitter.
                    let percent = |n: u32| u32::MAX / 100 * n;
                    let words = [
                        20_000_000 / 64,
                        1000,
                        percent(2),
                        0,
                        percent(1),
                        1_000_000 / 64,
                    ];
                    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                    out.put(tca::OPTIONS, &bytes);
                });
        }
        let listener = tcp.listener(1, family, if family == INET { "0.0.0.0" } else { "::" }, 80);
        let client = tcp.socket(0, family);
        let _ = tcp.world.connect(&client, &at(address, 80));
        let mut server = None;
        for _ in 0..200 {
            tcp.world.pass(100);
            server = tcp.accept(&listener).ok();
            if server.is_some() {
                break;
            }
        }
        let server = server.unwrap();
        tcp.transfer(&client, &server, 2_000_000);
        let info = client
            .socket
            .option(
                tcp.world.stack.clock.now(),
                libc::SOL_TCP,
                libc::TCP_INFO,
                &[0; 232],
            )
            .unwrap();
        let retransmitted = u32::from_ne_bytes(info[100..104].try_into().unwrap());
        assert!(retransmitted > 0, "{info:?}");
        (tcp.world.stack.clock.now(), info)
    };
    for (family, address) in [(INET, "10.0.0.2"), (INET6, "fd00::2")] {
        assert_eq!(run(family, address), run(family, address));
    }
}

#[test]
fn a_flood_of_syns_is_answered_with_cookies() {
    let mut tcp = Tcp::new();
    let listener = tcp.socket(1, INET);
    tcp.world.bind(&listener, &at("0.0.0.0", 80)).unwrap();
    tcp.world.with(|cx| listener.socket.listen(cx, 16)).unwrap();
    tcp.world.sysctl(1, "ipv4/tcp_syncookies", "2");
    let (client, server) = tcp.pair(INET, &listener, "10.0.0.2", 80);
    let mib = tcp.world.hosts[1].ns.mib();
    assert_eq!(mib.ext(Ext::SyncookiesSent), 1);
    assert_eq!(mib.ext(Ext::SyncookiesRecv), 1);
    assert_eq!(mib.tcp(mib::Tcp::PassiveOpens), 1);
    // Scaling and SACK came back in the timestamp.
    let info = server
        .socket
        .option(
            tcp.world.stack.clock.now(),
            libc::SOL_TCP,
            libc::TCP_INFO,
            &[0; 232],
        )
        .unwrap();
    assert_eq!((info[5] & 7, info[6]), (7, 0x77));
    tcp.transfer(&client, &server, 200_000);
    tcp.transfer(&server, &client, 200_000);
    // Long segments travel as one packet.
    let sent = tcp.world.hosts[0].ns.mib().tcp(mib::Tcp::OutSegs);
    let came = tcp.world.hosts[1].ns.mib().ip(mib::Ip::InDelivers);
    assert!(sent > came + 50, "{sent} {came}");
}

#[test]
fn times_count_to_the_present() {
    let mut tcp = Tcp::new();
    let listener = tcp.listener(1, INET, "0.0.0.0", 80);
    let (client, server) = tcp.pair(INET, &listener, "10.0.0.2", 80);
    tcp.write(&client, b"four").unwrap();
    tcp.world.pass(1);
    // Nothing happens any more; the clock stands still, too.
    tcp.world.set_flags(0, "v0", 0, weir_netlink::ifla::iff::UP);
    tcp.write(&client, b"lost").unwrap();
    let now = tcp.world.stack.clock.now();
    let later = now + 50_000_000;
    let received = |info: &[u8]| u32::from_ne_bytes(info[52..56].try_into().unwrap());
    let option = |now| {
        let info = server
            .socket
            .option(now, libc::SOL_TCP, libc::TCP_INFO, &[]);
        received(&info.unwrap())
    };
    let shown = |now| received(&server.socket.shown(now).tcp.unwrap().0);
    assert_eq!(option(later), option(now) + 50);
    assert_eq!(shown(later), option(later));
    let timer = |now| client.socket.shown(now).timer;
    let (kind, ms, times) = timer(now);
    assert!(kind == 1 && ms > 50, "{kind} {ms}");
    assert_eq!(timer(later), (1, ms - 50, times));
}

#[test]
fn what_is_shown_follows_the_state() {
    let mut tcp = Tcp::new();
    let listener = tcp.listener(1, INET, "0.0.0.0", 80);
    let shown = listener.socket.shown(tcp.world.stack.clock.now());
    assert_eq!((shown.state, shown.queued), (10, (0, 8)));
    let (client, server) = tcp.pair(INET, &listener, "10.0.0.2", 80);
    tcp.write(&client, b"four").unwrap();
    tcp.world.pass(1);
    let shown = server.socket.shown(tcp.world.stack.clock.now());
    assert_eq!((shown.state, shown.queued), (1, (4, 0)));
    let (info, congestion) = shown.tcp.unwrap();
    assert_eq!(
        (info.len(), info[0], congestion.as_str()),
        (280, 1, "cubic")
    );
    tcp.world.close(&client);
    // The FIN is acknowledged after the delay of an ACK.
    tcp.world.pass(50);
    assert_eq!(server.socket.shown(tcp.world.stack.clock.now()).state, 8);
    assert_eq!(client.socket.shown(tcp.world.stack.clock.now()).state, 5);
    assert_eq!(client.socket.shown(tcp.world.stack.clock.now()).inode, 0);
    // A segment that is not answered waits for its timer.
    tcp.world.set_flags(0, "v0", 0, weir_netlink::ifla::iff::UP);
    tcp.write(&server, b"x").unwrap();
    let shown = server.socket.shown(tcp.world.stack.clock.now());
    assert_eq!((shown.queued, shown.timer.0), ((4, 1), 1));
}
