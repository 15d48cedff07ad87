// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A stack under virtual time for the end-to-end tests: devices created by netlink requests, frames
//! injected at devices, sent frames captured by an observer.
#![allow(dead_code)] // Each test file uses only a part.
#![allow(clippy::unwrap_used)] // Test helpers may panic.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use weir_netlink::{
    Fixed, IfAddrMsg, IfInfoMsg, NdMsg, RtMsg, Writer, af, ifa, ifla, messages, nda, nlm, rta, rtm,
};
use weir_packet::header::ethernet::ethernet;
use weir_packet::header::ipv4::ipv4;
use weir_packet::tagged::Tagged;
use weir_packet::{Batch, DropReason};
use weir_stack::connection::NoPeer;
use weir_stack::device::{Direction, Observer, Tap};
use weir_stack::drops::Place;
use weir_stack::{Config, Connection, Cpu, Device, Namespace, Stack, datapath, sysctl};

/// The Ethernet address of the host behind device number `n`.
pub fn host_mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, n, 2]
}

/// The Ethernet address of device number `n`.
pub fn device_mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, n, 1]
}

/// The sent frames: (device name, time in ns, bytes on the wire).
#[derive(Default)]
pub struct Caught(Mutex<Vec<(String, u64, Vec<u8>)>>);

impl Observer for Caught {
    fn frame(&self, tap: &Tap<'_>) {
        if tap.direction == Direction::Tx {
            let frame = Tagged::of(tap.packet, tap.device.framing())
                .pieces()
                .concat();
            let name = tap.device.name();
            self.0.lock().unwrap().push((name, tap.time, frame));
        }
    }
}

/// A stack with one CPU and one namespace.
pub struct World {
    pub stack: Stack,
    pub ns: Arc<Namespace>,
    pub cpu: Cpu,
    connection: Connection,
    caught: Arc<Caught>,
}

impl World {
    /// Creates a stack with the loopback device up.
    pub fn new() -> Self {
        Self::with(Config::default())
    }

    /// Creates a stack with another configuration.
    pub fn with(config: Config) -> Self {
        let stack = weir_stack::build(config);
        let ns = stack.namespace(Stack::INITIAL).unwrap();
        let connection = Connection::new(&stack, &ns, 1, Box::new(NoPeer), None);
        let mut world = Self {
            cpu: Cpu::new(&stack, 0),
            stack,
            ns,
            connection,
            caught: Arc::default(),
        };
        world.set_up("lo", true);
        world
    }

    /// Creates a stack without IPv6, which would send packets of its own.
    pub fn ipv4_only() -> Self {
        let mut world = Self::new();
        world.sysctl("net/ipv6/conf/all/disable_ipv6", "1");
        world
    }

    /// Creates a router with two devices `d1` and `d2`: each has the address 10.0.N.1/24 and a host
    /// 10.0.N.2 behind it.
    pub fn router() -> Self {
        let mut world = Self::ipv4_only();
        world.sysctl("net/ipv4/ip_forward", "1");
        for n in [1, 2] {
            world.port(n);
            world.neighbour(&format!("d{n}"), [10, 0, n, 2].into(), host_mac(n));
        }
        world
    }

    /// Adds a device `dN` with the address 10.0.N.1/24, up, with ARP.
    pub fn port(&mut self, n: u8) {
        let name = format!("d{n}");
        self.dummy(&name, device_mac(n));
        self.address(&name, [10, 0, n, 1].into(), 24);
    }

    pub fn device(&self, name: &str) -> Arc<Device> {
        self.ns.device_by_name(name).unwrap()
    }

    fn index(&self, name: &str) -> u32 {
        self.device(name).ifindex()
    }

    /// Sends a request. Returns the errno of the answer.
    pub fn request(&mut self, ty: u16, flags: u16, fill: impl FnOnce(&mut Writer)) -> i32 {
        let mut out = Writer::new();
        let flags = flags | nlm::F_REQUEST | nlm::F_ACK;
        let message = out.message(ty, flags, 1, 0);
        fill(&mut out);
        out.finish(message).unwrap();
        self.connection.request(out.bytes());
        let mut errno = 0;
        while let Some(datagram) = self.connection.mailbox().take() {
            for message in messages(&datagram) {
                if message.header.ty == nlm::ERROR {
                    errno = -i32::from_ne_bytes(*message.payload().first_chunk().unwrap());
                }
            }
        }
        errno
    }

    /// Returns the messages that answer a request which changes nothing.
    pub fn answers(&mut self, ty: u16, flags: u16, fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut out = Writer::new();
        let message = out.message(ty, flags | nlm::F_REQUEST, 1, 0);
        fill(&mut out);
        out.finish(message).unwrap();
        self.connection.request(out.bytes());
        let mut answers = Vec::new();
        while let Some(datagram) = self.connection.mailbox().take() {
            answers.extend(datagram);
        }
        answers
    }

    fn accepted(&mut self, ty: u16, flags: u16, fill: impl FnOnce(&mut Writer)) {
        assert_eq!(self.request(ty, flags, fill), 0, "request {ty}");
    }

    pub fn dummy(&mut self, name: &str, mac: [u8; 6]) {
        self.dummy_with(name, mac, 1);
    }

    /// Adds a dummy with a number of transmit queues.
    pub fn dummy_with(&mut self, name: &str, mac: [u8; 6], queues: u32) {
        self.accepted(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&IfInfoMsg::default());
            out.put_str(ifla::IFNAME, name);
            out.put(ifla::ADDRESS, &mac);
            out.put_u32(ifla::NUM_TX_QUEUES, queues);
            let nest = out.nest(ifla::LINKINFO);
            out.put_str(ifla::info::KIND, "dummy");
            out.end(nest);
        });
        self.set_flags(name, 0, ifla::iff::NOARP);
        self.set_up(name, true);
        let guard = self.stack.domain.pin();
        self.device(name).observe(&guard, self.caught.clone());
    }

    pub fn set_flags(&mut self, name: &str, flags: u32, change: u32) {
        let index = self.index(name) as i32;
        self.accepted(rtm::NEWLINK, 0, |out| {
            out.fixed(&IfInfoMsg {
                index,
                flags,
                change,
                ..IfInfoMsg::default()
            });
        });
    }

    pub fn set_up(&mut self, name: &str, up: bool) {
        self.set_flags(name, u32::from(up) * ifla::iff::UP, ifla::iff::UP);
    }

    pub fn set_mtu(&mut self, name: &str, mtu: u32) {
        let index = self.index(name) as i32;
        self.accepted(rtm::NEWLINK, 0, |out| {
            out.fixed(&IfInfoMsg {
                index,
                ..IfInfoMsg::default()
            });
            out.put_u32(ifla::MTU, mtu);
        });
    }

    /// Adds or removes an address, depending on `ty`. Returns the errno.
    pub fn try_address(&mut self, ty: u16, name: &str, address: IpAddr, prefixlen: u8) -> i32 {
        self.address_as(ty, name, address, prefixlen, 0)
    }

    pub fn address(&mut self, name: &str, address: IpAddr, prefixlen: u8) {
        assert_eq!(self.try_address(rtm::NEWADDR, name, address, prefixlen), 0);
    }

    /// Like `try_address`, with `IFA_F_*` flags.
    pub fn address_as(
        &mut self,
        ty: u16,
        name: &str,
        address: IpAddr,
        prefixlen: u8,
        flags: u32,
    ) -> i32 {
        let index = self.index(name);
        let new = nlm::F_CREATE | nlm::F_EXCL;
        // In a delete request, the same bits have another meaning.
        let nlflags = if ty == rtm::NEWADDR { new } else { 0 };
        self.request(ty, nlflags, |out| {
            out.fixed(&IfAddrMsg {
                family: family(address),
                prefixlen,
                index,
                ..IfAddrMsg::default()
            });
            out.put_ip(ifa::LOCAL, address);
            out.put_ip(ifa::ADDRESS, address);
            if flags != 0 {
                out.put_u32(ifa::FLAGS, flags);
            }
        })
    }

    /// Adds a route of a type without a next hop.
    pub fn refuse(&mut self, dst: IpAddr, dst_len: u8, kind: u8) {
        self.route_as(dst, dst_len, kind, |_| {});
    }

    /// Adds a route through one gateway. An IPv6 route joins others of the prefix.
    pub fn route(&mut self, dst: IpAddr, dst_len: u8, gateway: IpAddr) {
        self.route_as(dst, dst_len, rta::rtn::UNICAST, |out| {
            out.put_ip(rta::GATEWAY, gateway);
        });
    }

    /// Adds a route through a gateway on a device's link.
    pub fn route_by(&mut self, dst: IpAddr, dst_len: u8, gateway: IpAddr, name: &str) {
        let index = self.index(name);
        self.route_as(dst, dst_len, rta::rtn::UNICAST, |out| {
            out.put_ip(rta::GATEWAY, gateway);
            out.put_u32(rta::OIF, index);
        });
    }

    /// Adds a route through several gateways.
    pub fn multipath(&mut self, dst: IpAddr, dst_len: u8, gateways: &[Ipv4Addr]) {
        self.route_as(dst, dst_len, rta::rtn::UNICAST, |out| {
            let mut hops = Vec::new();
            for gateway in gateways {
                // struct rtnexthop and one attribute.
                hops.extend_from_slice(&16u16.to_ne_bytes());
                hops.extend_from_slice(&[0, 0, 0, 0, 0, 0]);
                hops.extend_from_slice(&8u16.to_ne_bytes());
                hops.extend_from_slice(&rta::GATEWAY.to_ne_bytes());
                hops.extend_from_slice(&gateway.octets());
            }
            out.put(rta::MULTIPATH, &hops);
        });
    }

    fn route_as(&mut self, dst: IpAddr, dst_len: u8, ty: u8, fill: impl FnOnce(&mut Writer)) {
        let more = match dst {
            IpAddr::V4(_) => nlm::F_EXCL,
            IpAddr::V6(_) => nlm::F_APPEND,
        };
        self.accepted(rtm::NEWROUTE, nlm::F_CREATE | more, |out| {
            out.fixed(&RtMsg {
                family: family(dst),
                dst_len,
                table: rta::table::MAIN as u8,
                protocol: rta::prot::BOOT,
                ty,
                ..RtMsg::default()
            });
            out.put_ip(rta::DST, dst);
            fill(out);
        });
    }

    pub fn neighbour(&mut self, name: &str, address: IpAddr, mac: [u8; 6]) {
        let ifindex = self.index(name) as i32;
        self.accepted(rtm::NEWNEIGH, nlm::F_CREATE | nlm::F_REPLACE, |out| {
            out.fixed(&NdMsg {
                family: family(address),
                ifindex,
                state: nda::nud::PERMANENT,
                ..NdMsg::default()
            });
            out.put_ip(nda::DST, address);
            out.put(nda::LLADDR, &mac);
        });
    }

    /// Deletes a neighbour entry.
    pub fn forget(&mut self, name: &str, address: IpAddr) {
        let ifindex = self.index(name) as i32;
        self.accepted(rtm::DELNEIGH, 0, |out| {
            out.fixed(&NdMsg {
                family: family(address),
                ifindex,
                ..NdMsg::default()
            });
            out.put_ip(nda::DST, address);
        });
    }

    /// Writes a sysctl, named relative to /proc/sys.
    pub fn sysctl(&mut self, path: &str, value: &str) {
        let path = path.strip_prefix("net/").unwrap_or(path);
        sysctl::tree::write(&self.stack, &self.ns, path, value.as_bytes()).unwrap();
    }

    /// Receives frames on a device at once and runs until nothing is left to do at the current
    /// time.
    pub fn arrive(&mut self, name: &str, frames: &[Vec<u8>]) {
        let device = self.device(name);
        for frames in frames.chunks(64) {
            let mut batch = Batch::new();
            for frame in frames {
                let packet = self.stack.pool.packet(frame).unwrap();
                assert!(batch.push(packet).is_ok());
            }
            self.cpu.with(|cx| datapath::receive(cx, &device, batch));
        }
        self.cpu.settle();
    }

    /// Advances the time by `ms` milliseconds.
    pub fn pass(&mut self, ms: u64) {
        let until = self.stack.clock.now() + ms * 1_000_000;
        self.cpu.run_until(Some(until));
    }

    /// Takes the frames sent since the last call.
    pub fn left(&self) -> Vec<(String, u64, Vec<u8>)> {
        std::mem::take(&mut *self.caught.0.lock().unwrap())
    }

    /// Returns the only frame sent since the last call.
    pub fn one(&self) -> (String, Vec<u8>) {
        let mut left = self.left();
        assert_eq!(left.len(), 1, "{left:?}");
        let (name, _, frame) = left.remove(0);
        (name, frame)
    }

    /// Returns how often a packet was dropped at a device for a reason.
    pub fn dropped(&self, name: &str, place: Place, reason: DropReason) -> u64 {
        let drops = self.device(name).drops();
        drops
            .iter()
            .filter(|drop| (drop.0, drop.1) == (place, reason))
            .map(|drop| drop.2)
            .sum()
    }
}

/// The fields of a packet. Those not given have usual values.
#[derive(Clone, Copy)]
pub struct Packet<'a> {
    pub src: [u8; 4],
    pub dst: [u8; 4],
    pub protocol: u8,
    pub ttl: u8,
    pub tos: u8,
    pub id: u16,
    pub frag_off: u16,
    pub payload: &'a [u8],
}

impl Default for Packet<'_> {
    fn default() -> Self {
        Self {
            src: [10, 0, 1, 2],
            dst: [10, 0, 2, 2],
            protocol: 17,
            ttl: 64,
            tos: 0,
            id: 1,
            frag_off: 0,
            payload: &[],
        }
    }
}

impl Packet<'_> {
    /// Returns the bytes from the IP header on.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = ipv4(
            self.src,
            self.dst,
            self.protocol,
            self.ttl,
            self.tos,
            self.id,
            self.frag_off,
            self.payload.len(),
        )
        .to_vec();
        bytes.extend_from_slice(self.payload);
        bytes
    }

    /// Returns the frame as the host behind device `n` sends it.
    pub fn from(&self, n: u8) -> Vec<u8> {
        let mut frame = ethernet(device_mac(n), host_mac(n), 0x0800).to_vec();
        frame.extend(self.bytes());
        frame
    }
}

/// Returns a UDP segment with its checksum.
pub fn udp(src: [u8; 4], dst: [u8; 4], sport: u16, dport: u16, payload: &[u8]) -> Vec<u8> {
    use weir_packet::header::transport;
    let mut segment = transport::udp(sport, dport, payload.len()).to_vec();
    segment.extend_from_slice(payload);
    transport::fill_check_v4(src, dst, 17, &mut segment);
    segment
}

/// Returns an echo request.
pub fn echo(id: u16, sequence: u16, payload: &[u8]) -> Vec<u8> {
    use weir_packet::header::icmp;
    let rest = u32::from(id) << 16 | u32::from(sequence);
    let mut message = icmp::icmp(icmp::ICMP_ECHO, 0, rest).to_vec();
    message.extend_from_slice(payload);
    icmp::fill_check_v4(&mut message);
    message
}

/// Returns the bytes of a fixed structure, for tests of the wire format.
pub fn bytes_of(fixed: &impl Fixed) -> Vec<u8> {
    fixed.to_vec()
}

fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => af::INET,
        IpAddr::V6(_) => af::INET6,
    }
}

/// Parses an address.
pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}
