// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A namespace in front of a gateway: connections of `weir-tcp`, datagrams, and what comes back.
#![allow(dead_code, reason = "each test uses its part")]
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_gateway::{Config, Gateway, MAC};
use weir_packet::checksum::{checksum, transport_v4, transport_v6, verify, verify_v4, verify_v6};
use weir_tcp::{Connection, Header, Opening, Path, Segment, Settings, State};

const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
const LIMIT: Duration = Duration::from_secs(60);

/// Leads every destination to the same port of the loopback.
pub fn to_loopback(to: SocketAddr) -> SocketAddr {
    match to {
        SocketAddr::V4(to) => (Ipv4Addr::LOCALHOST, to.port()).into(),
        SocketAddr::V6(to) => (Ipv6Addr::LOCALHOST, to.port()).into(),
    }
}

/// Has the host close a socket with a reset.
pub fn reset_on_close(descriptor: i32) {
    // SAFETY: the caller's stream owns the descriptor and outlives the call.
    let socket = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor) };
    rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO)).unwrap();
}

/// Writes the checksum of a frame's IPv4 header.
pub fn fix_header(frame: &mut [u8]) {
    if frame.get(12..14) == Some(&[8, 0]) && frame.len() >= 34 {
        let length = usize::from(frame[14] & 15) * 4;
        if length >= 20 && frame.len() >= 14 + length {
            frame[24..26].fill(0);
            let check = checksum(&frame[14..14 + length]);
            frame[24..26].copy_from_slice(&check.to_be_bytes());
        }
    }
}

fn device(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::new(10, 0, 2, 15).into(),
        IpAddr::V6(_) => "fd00::15".parse().unwrap(),
    }
}

/// A frame with a packet.
fn frame(src: IpAddr, dst: IpAddr, protocol: u8, hops: u8, upper: &[u8]) -> Vec<u8> {
    let mut upper = upper.to_vec();
    let at = match protocol {
        6 => 16,
        17 => 6,
        _ => 2,
    };
    let mut data = [&MAC[..], &OWN_MAC].concat();
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let check = match protocol {
                1 => checksum(&upper),
                _ => transport_v4(src.octets(), dst.octets(), protocol, &upper),
            };
            upper[at..at + 2].copy_from_slice(&check.to_be_bytes());
            data.extend([8, 0, 0x45, 0]);
            data.extend((upper.len() as u16 + 20).to_be_bytes());
            data.extend([0, 0, 0, 0, hops, protocol, 0, 0]);
            data.extend(src.octets());
            data.extend(dst.octets());
            fix_header(&mut data);
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let check = transport_v6(src.octets(), dst.octets(), protocol, &upper);
            upper[at..at + 2].copy_from_slice(&check.to_be_bytes());
            data.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            data.extend((upper.len() as u16).to_be_bytes());
            data.extend([protocol, hops]);
            data.extend(src.octets());
            data.extend(dst.octets());
        }
        _ => unreachable!(),
    }
    data.extend(upper);
    data
}

struct Client {
    connection: Connection,
    local: SocketAddr,
    remote: SocketAddr,
    error: i32,
}

/// The namespace.
pub struct Inside {
    pub gateway: Gateway,
    start: Instant,
    clients: Vec<Client>,
    /// Datagrams that came: from, to, data.
    pub datagrams: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
    /// ICMP errors: from, type and code.
    pub errors: Vec<(IpAddr, [u8; 2])>,
    /// Neighbours that have answered.
    neighbours: Vec<IpAddr>,
    echoes: Vec<IpAddr>,
    fragments: BTreeMap<(IpAddr, u32), Vec<Vec<u8>>>,
}

impl Inside {
    pub fn new(config: Config) -> Self {
        Self {
            gateway: Gateway::new(config, OWN_MAC).unwrap(),
            start: Instant::now(),
            clients: Vec::new(),
            datagrams: Vec::new(),
            errors: Vec::new(),
            neighbours: Vec::new(),
            echoes: Vec::new(),
            fragments: BTreeMap::new(),
        }
    }

    fn now(&self) -> u64 {
        1_000_000_000 + self.start.elapsed().as_nanos() as u64
    }

    /// Begins a connection and returns its number.
    pub fn connect(&mut self, host: &str, port: u16) -> usize {
        let host: IpAddr = host.parse().unwrap();
        let number = self.clients.len();
        let path = match host {
            IpAddr::V4(_) => Path::ipv4(1500),
            IpAddr::V6(_) => Path::ipv6(1500),
        };
        let config = weir_tcp::Config::default();
        let opening = Opening {
            config: Arc::new(config),
            settings: Settings::shared(),
            path,
            isn: 1000,
            timestamp_offset: 0,
            fast_open: None,
        };
        self.clients.push(Client {
            connection: Connection::connect(self.now(), opening),
            local: (device(host), 40_000 + number as u16).into(),
            remote: (host, port).into(),
            error: 0,
        });
        self.poll();
        number
    }

    pub fn state(&self, at: usize) -> State {
        self.clients[at].connection.state()
    }

    pub fn error(&self, at: usize) -> i32 {
        self.clients[at].error
    }

    pub fn send(&mut self, at: usize, data: &[u8]) -> usize {
        let now = self.now();
        let count = self.clients[at].connection.send(now, data);
        self.poll();
        count
    }

    pub fn shutdown(&mut self, at: usize) {
        self.clients[at].connection.shutdown_send();
        self.poll();
    }

    pub fn abort(&mut self, at: usize) {
        self.clients[at].connection.abort(104);
        self.poll();
    }

    /// Sends data and their end, and returns what comes until the other end.
    pub fn exchange(&mut self, at: usize, data: &[u8]) -> Vec<u8> {
        let (mut done, mut got, end) = (0, Vec::new(), Instant::now() + LIMIT);
        loop {
            assert!(
                Instant::now() < end,
                "{done} sent, {} received, {:?}",
                got.len(),
                self.state(at)
            );
            let now = self.now();
            let connection = &mut self.clients[at].connection;
            if done < data.len() {
                done += connection.send(now, &data[done..]);
            }
            if done == data.len() && connection.may_send() {
                connection.shutdown_send();
            }
            let received = connection.received().concat();
            connection.consume(now, received.len());
            got.extend(&received);
            if received.is_empty() && connection.at_end() {
                return got;
            }
            self.run(Duration::from_millis(1));
        }
    }

    /// Sends what is to be sent.
    fn poll(&mut self) {
        let now = self.now();
        for client in &mut self.clients {
            let mut frames = Vec::new();
            if client.connection.deadline().is_some_and(|at| at <= now) {
                client.connection.timeout(now);
            }
            client.connection.poll(now, &mut |segment: &Segment<'_>| {
                let header = Header {
                    source: client.local.port(),
                    destination: client.remote.port(),
                    ..segment.header
                };
                let mut upper = vec![0; header.length()];
                header.write(&mut upper);
                upper.extend(segment.data[0]);
                upper.extend(segment.data[1]);
                frames.push(frame(client.local.ip(), client.remote.ip(), 6, 64, &upper));
            });
            match client.connection.take_error() {
                0 => {}
                error => client.error = error,
            }
            for frame in frames {
                self.gateway.frame(&frame, false);
            }
        }
    }

    /// Lets the gateway work, waiting for it at most so long.
    pub fn run(&mut self, limit: Duration) {
        let end = Instant::now() + limit;
        loop {
            self.poll();
            self.gateway.turn(Duration::ZERO);
            let mut worked = false;
            while let Some(frame) = self.gateway.pop() {
                worked = true;
                self.take(&frame.data);
            }
            let left = end.saturating_duration_since(Instant::now());
            if !worked && left.is_zero() {
                return;
            }
            if !worked {
                self.gateway.turn(left.min(Duration::from_millis(1)));
            }
        }
    }

    #[track_caller]
    pub fn until(&mut self, what: impl Fn(&Self) -> bool) {
        let end = Instant::now() + LIMIT;
        while !what(self) {
            assert!(Instant::now() < end, "it did not happen");
            self.run(Duration::from_millis(1));
        }
    }

    fn take(&mut self, frame: &[u8]) {
        assert_eq!(frame[..6], OWN_MAC);
        let packet = &frame[14..];
        let v6 = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&packet[at..at + 16]).unwrap());
        let v4 = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&packet[at..at + 4]).unwrap());
        let (src, dst, protocol, upper) = match frame[12..14] {
            [8, 6] => return self.neighbours.push(v4(14)),
            [8, 0] => {
                assert!(verify(&packet[..20]));
                assert_eq!(
                    usize::from(u16::from_be_bytes([packet[2], packet[3]])),
                    packet.len()
                );
                let place = u16::from_be_bytes([packet[6], packet[7]]);
                let id = u32::from(u16::from_be_bytes([packet[4], packet[5]]));
                let (src, upper) = (v4(12), packet[20..].to_vec());
                let upper = match place & 0x3fff {
                    0 => Some(upper),
                    _ => self.gather(
                        src,
                        id,
                        usize::from(place & 0x1fff) * 8,
                        place & 0x2000 != 0,
                        upper,
                    ),
                };
                (src, v4(16), packet[9], upper)
            }
            _ => {
                let (src, dst) = (v6(8), v6(24));
                let (protocol, upper) = match packet[6] {
                    44 => {
                        let place = u16::from_be_bytes([packet[42], packet[43]]);
                        let id =
                            u32::from_be_bytes([packet[44], packet[45], packet[46], packet[47]]);
                        let offset = usize::from(place & 0xfff8);
                        let upper = packet[48..].to_vec();
                        (
                            packet[40],
                            self.gather(src, id, offset, place & 1 != 0, upper),
                        )
                    }
                    protocol => (protocol, Some(packet[40..].to_vec())),
                };
                (src, dst, protocol, upper)
            }
        };
        let Some(upper) = upper else { return };
        let right = match (src, dst) {
            (IpAddr::V4(_), IpAddr::V4(_)) if protocol == 1 => verify(&upper),
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                verify_v4(src.octets(), dst.octets(), protocol, &upper)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                verify_v6(src.octets(), dst.octets(), protocol, &upper)
            }
            _ => false,
        };
        assert!(right, "the checksum of protocol {protocol} from {src}");
        let port = |at: usize| u16::from_be_bytes([upper[at], upper[at + 1]]);
        match protocol {
            17 => self.datagrams.push((
                (src, port(0)).into(),
                (dst, port(2)).into(),
                upper[8..].to_vec(),
            )),
            6 => {
                let (header, length) = Header::parse(&upper).unwrap();
                let (local, remote) = ((dst, port(2)).into(), (src, port(0)).into());
                let now = self.now();
                let client = self
                    .clients
                    .iter_mut()
                    .find(|c| c.local == local && c.remote == remote);
                if let Some(client) = client {
                    client.connection.segment(now, &header, &upper[length..]);
                }
            }
            _ => match upper[0] {
                0 | 129 => self.echoes.push(src),
                136 => self.neighbours.push(src),
                _ => self.errors.push((src, [upper[0], upper[1]])),
            },
        }
    }

    /// Puts fragments together. They come in order.
    fn gather(
        &mut self,
        src: IpAddr,
        id: u32,
        offset: usize,
        more: bool,
        data: Vec<u8>,
    ) -> Option<Vec<u8>> {
        let parts = self.fragments.entry((src, id)).or_default();
        assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), offset);
        parts.push(data);
        if more {
            return None;
        }
        let parts = self.fragments.remove(&(src, id)).unwrap();
        Some(parts.concat())
    }

    /// Sends a datagram, in fragments if it is long.
    pub fn datagram(&mut self, source: u16, host: &str, port: u16, data: &[u8]) {
        let dst: IpAddr = host.parse().unwrap();
        let src = device(dst);
        let mut upper = [source.to_be_bytes(), port.to_be_bytes()].concat();
        upper.extend((data.len() as u16 + 8).to_be_bytes());
        upper.extend([0, 0]);
        upper.extend(data);
        let whole = frame(src, dst, 17, 64, &upper);
        if whole.len() <= 1514 {
            self.gateway.frame(&whole, false);
        } else {
            for part in fragments(&whole, source) {
                self.gateway.frame(&part, false);
            }
        }
        self.gateway.turn(Duration::ZERO);
    }

    /// Asks for the Ethernet address of a neighbour.
    pub fn resolves(&mut self, host: &str) -> bool {
        let target: IpAddr = host.parse().unwrap();
        self.neighbours.clear();
        let request = match (target, device(target)) {
            (IpAddr::V4(target), IpAddr::V4(own)) => {
                let mut data = [
                    &[0xff; 6][..],
                    &OWN_MAC,
                    &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
                    &OWN_MAC,
                ]
                .concat();
                data.extend(own.octets());
                data.extend([0; 6]);
                data.extend(target.octets());
                data
            }
            (IpAddr::V6(target), own) => {
                let upper = [
                    &[135, 0, 0, 0, 0, 0, 0, 0][..],
                    &target.octets(),
                    &[1, 1],
                    &OWN_MAC,
                ]
                .concat();
                frame(own, "ff02::1:ff00:2".parse().unwrap(), 58, 255, &upper)
            }
            _ => unreachable!(),
        };
        self.gateway.frame(&request, false);
        self.run(Duration::from_millis(1));
        self.neighbours.contains(&target)
    }

    /// Sends an echo request and returns whether it was answered.
    pub fn echo(&mut self, host: &str, hops: u8) -> bool {
        let dst: IpAddr = host.parse().unwrap();
        self.echoes.clear();
        let (protocol, kind) = match dst {
            IpAddr::V4(_) => (1, 8),
            IpAddr::V6(_) => (58, 128),
        };
        let upper = [kind, 0, 0, 0, 0, 7, 0, 1, b'e', b'c', b'h', b'o'];
        let request = frame(device(dst), dst, protocol, hops, &upper);
        self.gateway.frame(&request, false);
        self.run(Duration::from_millis(1));
        self.echoes.contains(&dst)
    }

    /// A frame of some kind that the gateway takes.
    pub fn sample(&mut self, kind: usize, port: u16, number: u32) -> Vec<u8> {
        let dst: IpAddr = match kind % 2 {
            0 => "192.0.2.1".parse().unwrap(),
            _ => "2001:db8::1".parse().unwrap(),
        };
        let src = device(dst);
        let source = 30_000 + (number % 40) as u16;
        let tcp = |flags: u8, seq: u32, data: &[u8]| {
            let header = Header {
                source,
                destination: port,
                seq,
                ack: number,
                flags,
                window: 500,
                ..Header::default()
            };
            let mut upper = vec![0; header.length()];
            header.write(&mut upper);
            upper.extend(data);
            frame(src, dst, 6, 64, &upper)
        };
        let udp = |length: usize| {
            let mut upper = [source.to_be_bytes(), port.to_be_bytes()].concat();
            upper.extend((length as u16 + 8).to_be_bytes());
            upper.resize(length + 8, 0);
            frame(src, dst, 17, 64, &upper)
        };
        match kind / 2 {
            0 => tcp(2, 1000, &[]),
            1 => tcp(16, 1001, b"data"),
            2 => udp(20),
            3 => {
                let parts = fragments(&udp(3000), number as u16 % 100);
                parts[number as usize % parts.len()].clone()
            }
            4 => {
                let kind = if src.is_ipv4() { [3, 4] } else { [2, 0] };
                let quote = tcp(16, 1, &[]);
                let upper = [&kind[..], &[0; 2], &number.to_be_bytes(), &quote[14..]].concat();
                frame(src, dst, if src.is_ipv4() { 1 } else { 58 }, 64, &upper)
            }
            _ => {
                let kind = if src.is_ipv4() { 8 } else { 128 };
                let upper = [kind, 0, 0, 0, 0, number as u8, 0, 1];
                frame(src, dst, if src.is_ipv4() { 1 } else { 58 }, 64, &upper)
            }
        }
    }
}

/// The fragments of a frame, for an MTU of 1500.
fn fragments(whole: &[u8], id: u16) -> Vec<Vec<u8>> {
    let is_v4 = whole[12..14] == [8, 0];
    let header = if is_v4 { 34 } else { 54 };
    let (head, payload) = whole.split_at(header);
    let count = payload.chunks(1440).count();
    let part = |(number, part): (usize, &[u8])| {
        let (offset, more) = (number * 1440, number + 1 < count);
        let mut data = head.to_vec();
        if is_v4 {
            let place = (offset / 8) as u16 | if more { 0x2000 } else { 0 };
            data[18..20].copy_from_slice(&id.to_be_bytes());
            data[20..22].copy_from_slice(&place.to_be_bytes());
            data[16..18].copy_from_slice(&(part.len() as u16 + 20).to_be_bytes());
            fix_header(&mut data);
        } else {
            let protocol = std::mem::replace(&mut data[20], 44);
            data[18..20].copy_from_slice(&(part.len() as u16 + 8).to_be_bytes());
            data.extend([protocol, 0]);
            data.extend((offset as u16 | u16::from(more)).to_be_bytes());
            data.extend(u32::from(id).to_be_bytes());
        }
        data.extend(part);
        data
    };
    payload.chunks(1440).enumerate().map(part).collect()
}
