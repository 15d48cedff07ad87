// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two hosts under virtual time, joined by a veth pair, and sockets whose datagrams are kept.
#![allow(dead_code)] // Each test file uses only a part.
#![allow(clippy::unwrap_used)] // Test helpers may panic.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use weir_netlink::{IfAddrMsg, IfInfoMsg, Writer, af, ifa, ifla, messages, nlm, rtm};
use weir_socket::{Message, Outgoing, Ready, Socket, User};
use weir_stack::connection::NoPeer;
use weir_stack::cpu::Cx;
use weir_stack::{Config, Connection, Cpu, Namespace, Stack, sysctl};

/// The ends of the veth pair.
pub const VETH: [&str; 2] = ["v0", "v1"];

/// A datagram as the program gets it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Got {
    pub from: Vec<u8>,
    pub control: Vec<u8>,
    pub data: Vec<u8>,
    pub flags: i32,
    pub length: usize,
    pub time: u64,
}

impl Got {
    fn of(message: &Message<'_>) -> Self {
        Self {
            from: message.from.to_vec(),
            control: message.control.to_vec(),
            data: message.data.to_vec(),
            flags: message.flags,
            length: message.length,
            time: message.time,
        }
    }

    /// Returns the control messages as (level, type, data).
    pub fn messages(&self) -> Vec<(i32, i32, Vec<u8>)> {
        let mut found = Vec::new();
        let mut rest = &self.control[..];
        while !rest.is_empty() {
            let len = u64::from_ne_bytes(rest[..8].try_into().unwrap()) as usize;
            let int = |at: usize| i32::from_ne_bytes(rest[at..at + 4].try_into().unwrap());
            found.push((int(8), int(12), rest[16..len].to_vec()));
            rest = &rest[len.next_multiple_of(8)..];
        }
        found
    }
}

/// The owner of a test's socket.
#[derive(Default)]
pub struct Program {
    got: Mutex<Vec<Got>>,
    woken: AtomicU16,
    full: AtomicBool,
}

impl User for Program {
    fn message(&self, message: &Message<'_>) -> bool {
        if self.full.load(Relaxed) {
            return false;
        }
        self.got.lock().unwrap().push(Got::of(message));
        true
    }

    fn wake(&self, _: &mut Cx<'_>, ready: Ready) {
        self.woken.fetch_or(ready.0, Relaxed);
    }
}

/// A socket and its owner.
#[derive(Clone)]
pub struct Open {
    pub socket: Arc<Socket>,
    pub program: Arc<Program>,
}

impl Open {
    /// Takes the datagrams that have arrived.
    pub fn got(&self) -> Vec<Got> {
        std::mem::take(&mut *self.program.got.lock().unwrap())
    }

    /// Takes the only datagram that has arrived.
    #[track_caller]
    pub fn one(&self) -> Got {
        let mut got = self.got();
        assert_eq!(got.len(), 1, "{got:?}");
        got.remove(0)
    }

    /// Says whether there is room for datagrams.
    pub fn set_full(&self, full: bool) {
        self.program.full.store(full, Relaxed);
    }

    /// Takes what the owner has been told.
    pub fn woken(&self) -> u16 {
        self.program.woken.swap(0, Relaxed)
    }

    /// Takes a message of the error queue.
    pub fn error(&self) -> Option<Got> {
        let mut got = None;
        let taken = self
            .socket
            .receive_error(&mut |message| got = Some(Got::of(message)));
        assert_eq!(taken, got.is_some());
        got
    }

    pub fn option(&self, level: i32, name: i32) -> Result<i32, i32> {
        let value = self.socket.option(0, level, name, &[0; 4])?;
        Ok(i32::from_ne_bytes(value[..4].try_into().unwrap()))
    }
}

/// A host: a namespace and its netlink connection.
pub struct Host {
    pub ns: Arc<Namespace>,
    connection: Connection,
}

/// The hosts 0 and 1, joined by a veth pair of `v0` and `v1`.
pub struct World {
    pub stack: Stack,
    pub cpu: Cpu,
    pub hosts: Vec<Host>,
}

impl World {
    /// Makes two hosts without addresses, beside those of loopback.
    pub fn bare() -> Self {
        Self::with_config(Config::default())
    }

    fn with_config(config: Config) -> Self {
        let stack = weir_stack::build(config);
        let initial = stack.namespace(Stack::INITIAL).unwrap();
        let other = stack.create_namespace();
        let host = |ns: Arc<Namespace>, id| Host {
            connection: Connection::new(&stack, &ns, id, Box::new(NoPeer), None),
            ns,
        };
        let hosts = vec![host(initial, 1), host(other.clone(), 2)];
        let mut world = Self {
            cpu: Cpu::new(&stack, 0),
            hosts,
            stack,
        };
        world.accepted(0, rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&IfInfoMsg::default());
            out.put_str(ifla::IFNAME, "v0");
            let info = out.nest(ifla::LINKINFO);
            out.put_str(ifla::info::KIND, "veth");
            let data = out.nest(ifla::info::DATA);
            let peer = out.nest(1);
            out.fixed(&IfInfoMsg::default());
            out.put_str(ifla::IFNAME, "v1");
            out.end(peer);
            out.end(data);
            out.end(info);
        });
        // One end moves to the other host.
        let guard = world.stack.domain.pin();
        let device = world.hosts[0].ns.device_by_name("v1").unwrap();
        weir_stack::netdev::move_to(&world.stack, &guard, &device, &other, "v1", 0).unwrap();
        drop(guard);
        for (host, veth) in VETH.into_iter().enumerate() {
            world.set_up(host, "lo");
            world.set_up(host, veth);
        }
        world
    }

    /// Makes two hosts with the addresses 10.0.0.1/24 and fd00::1/64, and 10.0.0.2/24 and fd00::2/64.
    pub fn new() -> Self {
        Self::seeded(Config::default().seed)
    }

    /// As [`new`](Self::new), with a seed of all that is drawn by chance.
    pub fn seeded(seed: u64) -> Self {
        let mut world = Self::with_config(Config {
            seed,
            ..Config::default()
        });
        for (host, veth) in VETH.into_iter().enumerate() {
            let ns = world.hosts[host].ns.clone();
            for device in ["all", "default", veth] {
                let path = format!("ipv6/conf/{device}/accept_dad");
                sysctl::tree::write(&world.stack, &ns, &path, b"0").unwrap();
            }
            let n = host as u8 + 1;
            world.address(host, veth, [10, 0, 0, n].into(), 24);
            world.address(host, veth, format!("fd00::{n}").parse().unwrap(), 64);
        }
        world.pass(5000);
        world
    }

    /// Sends a request of a host. Returns the errno of the answer.
    pub fn request(
        &mut self,
        host: usize,
        ty: u16,
        flags: u16,
        fill: impl FnOnce(&mut Writer),
    ) -> i32 {
        let mut out = Writer::new();
        let flags = flags | nlm::F_REQUEST | nlm::F_ACK;
        let message = out.message(ty, flags, 1, 0);
        fill(&mut out);
        out.finish(message).unwrap();
        let connection = &mut self.hosts[host].connection;
        connection.request(out.bytes());
        let mut errno = 0;
        while let Some(datagram) = connection.mailbox().take() {
            for message in messages(&datagram) {
                if message.header.ty == nlm::ERROR {
                    errno = -i32::from_ne_bytes(*message.payload().first_chunk().unwrap());
                }
            }
        }
        self.cpu.settle();
        errno
    }

    /// Returns the messages that answer a host's request which changes nothing.
    pub fn answers(&mut self, host: usize, ty: u16, fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut out = Writer::new();
        let message = out.message(ty, nlm::F_REQUEST, 1, 0);
        fill(&mut out);
        out.finish(message).unwrap();
        let connection = &mut self.hosts[host].connection;
        connection.request(out.bytes());
        let mut answers = Vec::new();
        while let Some(datagram) = connection.mailbox().take() {
            answers.extend(datagram);
        }
        answers
    }

    pub fn accepted(&mut self, host: usize, ty: u16, flags: u16, fill: impl FnOnce(&mut Writer)) {
        assert_eq!(self.request(host, ty, flags, fill), 0, "request {ty}");
    }

    pub fn index(&self, host: usize, name: &str) -> u32 {
        self.hosts[host].ns.device_by_name(name).unwrap().ifindex()
    }

    pub fn set_flags(&mut self, host: usize, name: &str, flags: u32, change: u32) {
        let index = self.index(host, name) as i32;
        self.accepted(host, rtm::NEWLINK, 0, |out| {
            out.fixed(&IfInfoMsg {
                index,
                flags,
                change,
                ..IfInfoMsg::default()
            });
        });
    }

    pub fn set_up(&mut self, host: usize, name: &str) {
        self.set_flags(host, name, ifla::iff::UP, ifla::iff::UP);
    }

    pub fn address(&mut self, host: usize, name: &str, address: IpAddr, prefixlen: u8) {
        let index = self.index(host, name);
        self.accepted(host, rtm::NEWADDR, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&IfAddrMsg {
                family: if address.is_ipv4() {
                    af::INET
                } else {
                    af::INET6
                },
                prefixlen,
                index,
                ..IfAddrMsg::default()
            });
            out.put_ip(ifa::LOCAL, address);
            out.put_ip(ifa::ADDRESS, address);
        });
    }

    /// Writes a sysctl of a host, named relative to /proc/sys/net.
    pub fn sysctl(&mut self, host: usize, path: &str, value: &str) {
        let ns = &self.hosts[host].ns;
        sysctl::tree::write(&self.stack, ns, path, value.as_bytes()).unwrap();
    }

    /// Advances the time by `ms` milliseconds.
    pub fn pass(&mut self, ms: u64) {
        let until = self.stack.clock.now() + ms * 1_000_000;
        self.cpu.run_until(Some(until));
    }

    /// Runs a call on the CPU and what it causes.
    pub fn with<R>(&mut self, call: impl FnOnce(&mut Cx<'_>) -> R) -> R {
        let result = self.cpu.with(call);
        self.cpu.settle();
        result
    }

    pub fn try_open(
        &mut self,
        host: usize,
        family: i32,
        kind: i32,
        protocol: i32,
    ) -> Result<Open, i32> {
        let ns = self.hosts[host].ns.clone();
        let program = Arc::new(Program::default());
        let user = program.clone();
        let socket = self.with(|cx| Socket::open(cx, &ns, family, kind, protocol, user))?;
        Ok(Open { socket, program })
    }

    pub fn open(&mut self, host: usize, family: i32, kind: i32, protocol: i32) -> Open {
        self.try_open(host, family, kind, protocol).unwrap()
    }

    /// Opens a UDP socket of a family.
    pub fn udp(&mut self, host: usize, family: i32) -> Open {
        self.open(host, family, libc::SOCK_DGRAM, 0)
    }

    pub fn bind(&mut self, open: &Open, address: &[u8]) -> Result<(), i32> {
        self.with(|cx| open.socket.bind(cx, address))
    }

    pub fn connect(&mut self, open: &Open, address: &[u8]) -> Result<(), i32> {
        self.with(|cx| open.socket.connect(cx, address))
    }

    pub fn send_to(&mut self, open: &Open, to: &[u8], data: &[u8]) -> Result<usize, i32> {
        let message = Outgoing {
            to,
            data,
            ..Outgoing::default()
        };
        self.with(|cx| open.socket.send(cx, &message))
    }

    pub fn send(&mut self, open: &Open, data: &[u8]) -> Result<usize, i32> {
        self.send_to(open, &[], data)
    }

    pub fn set(&mut self, open: &Open, level: i32, name: i32, value: &[u8]) -> Result<(), i32> {
        self.with(|cx| open.socket.set_option(cx, level, name, value))
    }

    pub fn set_int(&mut self, open: &Open, level: i32, name: i32, value: i32) -> Result<(), i32> {
        self.set(open, level, name, &value.to_ne_bytes())
    }

    pub fn close(&mut self, open: &Open) {
        self.with(|cx| open.socket.close(cx, false));
    }
}

/// Returns the bytes of a `sockaddr_in` or `sockaddr_in6`.
pub fn at(text: &str, port: u16) -> Vec<u8> {
    let (text, scope) = text.split_once('%').unwrap_or((text, "0"));
    match text.parse().unwrap() {
        IpAddr::V4(ip) => {
            let mut bytes = 2u16.to_ne_bytes().to_vec();
            bytes.extend(port.to_be_bytes());
            bytes.extend(ip.octets());
            bytes.resize(16, 0);
            bytes
        }
        IpAddr::V6(ip) => {
            let mut bytes = 10u16.to_ne_bytes().to_vec();
            bytes.extend(port.to_be_bytes());
            bytes.extend([0; 4]);
            bytes.extend(ip.octets());
            bytes.extend(scope.parse::<u32>().unwrap().to_ne_bytes());
            bytes
        }
    }
}

/// Returns the port of an address.
pub fn port_of(address: &[u8]) -> u16 {
    u16::from_be_bytes([address[2], address[3]])
}
