// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The gateway: takes the frames of the namespace and the events of the host's sockets.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use weir_packet::header::icmp::{
    ICMP_DEST_UNREACH, ICMP_ECHO, ICMP_FRAG_NEEDED, ICMPV6_ECHO_REQUEST, ICMPV6_PKT_TOOBIG,
};
use weir_packet::header::ndisc::{NDISC_NEIGHBOUR_SOLICITATION, Neighbour};
use weir_packet::header::{Icmp, Ipv4, Ipv6, Udp};
use weir_tcp::Header;
use weir_tcp::header::{ACK, RST, SYN};

use crate::config::Config;
use crate::context::{Cx, Key};
use crate::counters::{Counters, add, set};
use crate::datagram::Datagram;
use crate::flow::{Flow, Flows};
use crate::host;
use crate::reassembly::Reassembly;
use crate::resolver::{PORT as DNS, Resolvers};
use crate::tcp::{Next, Tcp, reset};
use crate::wire::{self, Frame, ICMP, ICMPV6, Input, Outbox, Packet, TCP, UDP, Unreachable};

/// The most events that are taken at once.
const EVENTS: usize = 128;
/// The token of the descriptor that wakes the gateway.
const WAKE: u64 = u64::MAX;
/// Bytes that are taken at once from a flow's socket of the host: more than the longest datagram.
const SCRATCH: usize = 64 << 10;
/// What the buffers of all connections may grow to, in bytes, before new connections get the smallest.
const MEMORY: usize = 512 << 20;
/// What the buffers of a connection may grow to in each direction, in bytes: the largest that is at most a 32nd of what is
/// left of [`MEMORY`].
const BUFFERS: [u32; 6] = [4 << 20, 2 << 20, 1 << 20, 512 << 10, 256 << 10, 64 << 10];
/// Time before the first packet, so that no time is 0.
const START: u64 = 1_000_000_000;

/// What a gateway holds.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Connections, and other flows.
    pub flows: [usize; 2],
    /// What the buffers of the connections may grow to, in bytes.
    pub committed: usize,
    /// Bytes of incomplete packets.
    pub reassembly: usize,
    /// Bytes of frames that wait for the namespace.
    pub out: usize,
}

/// A destination outside.
enum Way {
    To(SocketAddr),
    Refused(Unreachable),
    /// Nobody answers.
    Nowhere,
}

/// The gateway.
#[derive(Debug)]
pub struct Gateway {
    config: Config,
    counters: Arc<Counters>,
    epoll: OwnedFd,
    flows: Flows,
    out: Outbox,
    reassembly: Reassembly,
    resolvers: Resolvers,
    /// One for each size of buffers.
    tcp: Vec<Arc<weir_tcp::Config>>,
    /// What the buffers of the present connections may grow to, in bytes.
    committed: usize,
    scratch: Vec<u8>,
    start: Instant,
    secret: RandomState,
}

/// The settings of TCP with buffers of a size.
fn tcp_config(size: u32) -> weir_tcp::Config {
    let default = weir_tcp::Config::default();
    weir_tcp::Config {
        rmem: [4096, default.rmem[1].min(size), size],
        wmem: [4096, (64 << 10).min(size), size],
        rmem_max: size,
        ..default
    }
}

impl Gateway {
    /// Makes a gateway. `mac` is the Ethernet address of the namespace's device until its first frame shows another.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new(config: Config, mac: [u8; 6]) -> std::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self {
            counters: Arc::default(),
            flows: Flows::default(),
            out: Outbox::new(mac, config.mtu),
            reassembly: Reassembly::default(),
            resolvers: Resolvers::new(config.resolvers.clone()),
            tcp: BUFFERS
                .iter()
                .map(|size| Arc::new(tcp_config(*size)))
                .collect(),
            committed: 0,
            scratch: vec![0; SCRATCH],
            start: Instant::now(),
            secret: RandomState::new(),
            epoll,
            config,
        })
    }

    /// The counters.
    pub fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    /// Has a descriptor end the wait of [`turn`](Self::turn) when it is readable.
    ///
    /// # Errors
    /// That of `epoll_ctl`.
    pub fn watch(&self, descriptor: impl AsFd) -> std::io::Result<()> {
        let data = epoll::EventData::new_u64(WAKE);
        Ok(epoll::add(
            &self.epoll,
            descriptor,
            data,
            epoll::EventFlags::IN,
        )?)
    }

    /// Takes the oldest frame for the namespace.
    pub fn pop(&mut self) -> Option<Frame> {
        self.out.pop()
    }

    /// Gets back the buffer of a frame that was taken.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.out.recycle(buffer);
    }

    /// What the gateway holds, for fuzzing.
    #[doc(hidden)]
    pub fn held(&self) -> Held {
        Held {
            flows: self.flows.counts(),
            committed: self.committed,
            reassembly: self.reassembly.bytes(),
            out: self.out.bytes(),
        }
    }

    fn now(&self) -> u64 {
        if let Some(outside) = self.config.outside {
            return (outside.now)();
        }
        START + self.start.elapsed().as_nanos() as u64
    }

    fn cx(&mut self, now: u64) -> (Cx<'_>, &mut Flows) {
        let own = [
            self.config.v4.map(|v4| v4.gateway.into()),
            self.config.v6.map(|v6| v6.gateway.into()),
        ];
        let cx = Cx {
            now,
            out: &mut self.out,
            scratch: &mut self.scratch,
            counters: &self.counters,
            own,
        };
        (cx, &mut self.flows)
    }

    /// Takes a frame of the namespace.
    pub fn frame(&mut self, frame: &[u8], checked: bool) {
        if let Some(mac) = wire::sender(frame).filter(|mac| mac[0] & 1 == 0) {
            self.out.mac = mac;
        }
        match wire::read(frame, checked) {
            Input::Fragment(fragment) => {
                let now = self.now();
                if let Some(whole) = self.reassembly.add(now, &fragment) {
                    self.input(wire::read_whole(&whole));
                }
            }
            input => self.input(input),
        }
    }

    fn input(&mut self, input: Input<'_>) {
        match input {
            Input::Arp {
                target,
                sender,
                mac,
            } => {
                if self
                    .config
                    .v4
                    .is_some_and(|v4| target == v4.gateway || target == v4.dns)
                {
                    self.out.arp_reply(target, sender, mac);
                }
            }
            Input::Packet(packet) => self.packet(&packet),
            Input::Fragment(_) | Input::Other => {}
            Input::Malformed => add(&self.counters.malformed, 1),
        }
    }

    fn is_own(&self, address: IpAddr) -> bool {
        Some(address) == self.config.own(address) || Some(address) == self.config.dns(address)
    }

    fn packet(&mut self, packet: &Packet<'_>) {
        let on = match packet.src {
            IpAddr::V4(_) => self.config.v4.is_some(),
            IpAddr::V6(_) => self.config.v6.is_some(),
        };
        if packet.protocol == ICMPV6 && self.neighbour(packet) {
            return;
        }
        let src = packet.src;
        if !on
            || src.is_unspecified()
            || src.is_multicast()
            || src.is_loopback()
            || self.is_own(src)
        {
            return;
        }
        if packet.hops <= 1 && !self.is_own(packet.dst) {
            return self.refuse(packet, Unreachable::Hops);
        }
        match (packet.protocol, packet.src) {
            (TCP, _) => self.take_tcp(packet),
            (UDP, _) => self.take_udp(packet),
            (ICMP, IpAddr::V4(_)) => self.take_icmp(packet),
            (ICMPV6, IpAddr::V6(_)) => self.take_icmp(packet),
            _ => add(&self.counters.unsupported, 1),
        }
    }

    /// Answers a packet with an ICMP error.
    fn refuse(&mut self, packet: &Packet<'_>, reason: Unreachable) {
        let now = self.now();
        let (mut cx, _) = self.cx(now);
        cx.unreachable(packet.dst, packet.src, reason, packet.whole);
    }

    /// Serves neighbour discovery. Returns whether the packet belonged to it, or to group membership.
    fn neighbour(&mut self, packet: &Packet<'_>) -> bool {
        let (Some(&kind), IpAddr::V6(src)) = (packet.payload.first(), packet.src) else {
            return false;
        };
        if kind == NDISC_NEIGHBOUR_SOLICITATION
            && packet.hops == 255
            && !src.is_unspecified()
            && let Some(message) = Neighbour::new(packet.payload)
        {
            let target = Ipv6Addr::from(message.target());
            if self
                .config
                .v6
                .is_some_and(|v6| target == v6.gateway || target == v6.dns)
            {
                self.out.advertisement(target, src);
            }
        }
        matches!(kind, 130..=137 | 143)
    }

    /// Where a destination leads.
    fn way(&mut self, to: SocketAddr) -> Way {
        let ip = to.ip();
        if Some(ip) == self.config.own(ip) {
            if !self.config.host {
                return Way::Refused(Unreachable::Prohibited);
            }
            let loopback: IpAddr = match ip {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            };
            return Way::To((loopback, to.port()).into());
        }
        if Some(ip) == self.config.dns(ip) {
            if to.port() != DNS {
                return Way::Refused(Unreachable::Port);
            }
            return match self.resolvers.all().first() {
                Some(server) => Way::To(*server),
                None => Way::Refused(Unreachable::Host),
            };
        }
        if !is_outside(ip) {
            return Way::Nowhere;
        }
        if self.config.is_on_link(ip) {
            return Way::Refused(Unreachable::Host);
        }
        Way::To(self.config.translate.map_or(to, |translate| translate(to)))
    }

    fn take_tcp(&mut self, packet: &Packet<'_>) {
        let Some((header, length)) = Header::parse(packet.payload) else {
            return add(&self.counters.malformed, 1);
        };
        let data = packet.payload.get(length..).unwrap_or_default();
        let key = Key {
            protocol: TCP,
            src: (packet.src, header.source).into(),
            dst: (packet.dst, header.destination).into(),
        };
        let header = Header {
            congested: packet.tos & 3 == 3,
            ecn_capable: packet.tos & 3 != 0,
            ..header
        };
        let now = self.now();
        if let Some(id) = self.flows.find(&key) {
            let Some(Flow::Tcp(mut tcp)) = self.flows.take(id) else {
                return;
            };
            let (mut cx, flows) = self.cx(now);
            match tcp.segment(&mut cx, &header, data) {
                Next::Keep => {
                    flows.put(id, Flow::Tcp(tcp));
                    flows.touch(id);
                    return;
                }
                Next::Remove => return self.remove(id, tcp),
                Next::Replace => self.remove(id, tcp),
            }
        }
        if header.flags & (SYN | ACK | RST) == SYN {
            self.open_tcp(now, key, packet, &header);
        } else {
            reset(&mut self.out, &key, &header, data.len());
        }
    }

    fn open_tcp(&mut self, now: u64, key: Key, packet: &Packet<'_>, syn: &Header) {
        let to = match self.way(key.dst) {
            Way::To(to) => to,
            Way::Refused(reason) => {
                add(&self.counters.prohibited, 1);
                match reason {
                    // A reset ends the attempt at once; ICMP would be retried.
                    Unreachable::Prohibited | Unreachable::Port => {
                        reset(&mut self.out, &key, syn, 0)
                    }
                    _ => self.refuse(packet, reason),
                }
                return;
            }
            Way::Nowhere => return add(&self.counters.prohibited, 1),
        };
        if self.flows.counts()[0] >= self.config.flows {
            return add(&self.counters.overflow, 1);
        }
        let (socket, connected) = match host::connected(self.config.outside, TCP, to) {
            Ok(opened) => opened,
            Err(error) => {
                add(&self.counters.tcp_failed, 1);
                return match host::reason(error) {
                    Some(Unreachable::Port) => reset(&mut self.out, &key, syn, 0),
                    Some(reason) => self.refuse(packet, reason),
                    None => add(&self.counters.overflow, 1),
                };
            }
        };
        let left = MEMORY.saturating_sub(self.committed) / 32;
        let fits = self
            .tcp
            .iter()
            .find(|config| config.rmem[2] as usize <= left);
        let Some(config) = fits.or(self.tcp.last()).cloned() else {
            return;
        };
        let isn = self.secret.hash_one((key, now)) as u32;
        let mut tcp = Box::new(Tcp::new(
            key,
            packet,
            syn,
            socket,
            config,
            self.config.mtu,
            isn,
        ));
        let id = self.flows.reserve();
        let events = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(self.flows.token(id));
        let watched = tcp
            .socket()
            .map(|socket| epoll::add(&self.epoll, socket, data, events));
        if !matches!(watched, Some(Ok(()))) {
            return add(&self.counters.overflow, 1);
        }
        if connected {
            let (mut cx, _) = self.cx(now);
            tcp.connected(&mut cx);
        }
        self.committed += tcp.memory();
        self.flows.insert(Flow::Tcp(tcp));
        self.count();
    }

    fn remove(&mut self, id: u32, tcp: Box<Tcp>) {
        self.committed -= tcp.memory();
        self.flows.remove(id);
        self.count();
    }

    /// Updates the counters of what exists.
    fn count(&self) {
        set(&self.counters.tcp_now, self.flows.counts()[0]);
    }

    fn take_udp(&mut self, packet: &Packet<'_>) {
        let Some(header) = Udp::new(packet.payload) else {
            return add(&self.counters.malformed, 1);
        };
        let length = usize::from(header.length());
        if length < Udp::LEN || length > packet.payload.len() {
            return add(&self.counters.malformed, 1);
        }
        let key = Key {
            protocol: UDP,
            src: (packet.src, header.src_port()).into(),
            dst: (packet.dst, header.dst_port()).into(),
        };
        let packet = Packet {
            payload: packet.payload.get(..length).unwrap_or_default(),
            ..*packet
        };
        self.take_datagram(key, &packet);
    }

    fn take_datagram(&mut self, key: Key, packet: &Packet<'_>) {
        let id = match self.flows.find(&key) {
            Some(id) => id,
            None => match self.open_datagram(key, packet) {
                Some(id) => id,
                None => return,
            },
        };
        let is_question = Some(key.dst.ip()) == self.config.dns(key.dst.ip());
        let servers = match is_question {
            true => self.resolvers.all().to_vec(),
            false => Vec::new(),
        };
        let now = self.now();
        if let Some(Flow::Datagram(mut flow)) = self.flows.take(id) {
            let (mut cx, flows) = self.cx(now);
            flow.next_server(now, &servers);
            flow.send(&mut cx, packet);
            flows.put(id, Flow::Datagram(flow));
        }
    }

    fn open_datagram(&mut self, key: Key, packet: &Packet<'_>) -> Option<u32> {
        let to = match self.way(key.dst) {
            Way::To(to) => to,
            Way::Refused(reason) => {
                add(&self.counters.prohibited, 1);
                self.refuse(packet, reason);
                return None;
            }
            Way::Nowhere => {
                add(&self.counters.prohibited, 1);
                return None;
            }
        };
        if self.flows.counts()[1] >= self.config.flows
            && let Some(oldest) = self.flows.oldest_datagram()
        {
            add(&self.counters.overflow, 1);
            self.end_datagram(oldest);
        }
        let flow = match host::connected(self.config.outside, key.protocol, to) {
            Ok((socket, _)) => Box::new(Datagram::new(self.now(), key, socket)),
            Err(error) => {
                match host::reason(error) {
                    Some(reason) => self.refuse(packet, reason),
                    None => add(&self.counters.overflow, 1),
                }
                return None;
            }
        };
        let id = self.flows.reserve();
        let data = epoll::EventData::new_u64(self.flows.token(id));
        if epoll::add(&self.epoll, flow.socket(), data, epoll::EventFlags::IN).is_err() {
            add(&self.counters.overflow, 1);
            return None;
        }
        let (opened, now) = self.of(&key);
        add(opened, 1);
        add(now, 1);
        Some(self.flows.insert(Flow::Datagram(flow)))
    }

    /// The counters of flows like that of a key: in all, and at present.
    fn of(&self, key: &Key) -> (&std::sync::atomic::AtomicU64, &std::sync::atomic::AtomicU64) {
        match key.protocol {
            UDP => (&self.counters.udp_opened, &self.counters.udp_now),
            _ => (&self.counters.ping_opened, &self.counters.ping_now),
        }
    }

    fn end_datagram(&mut self, id: u32) {
        if let Some(flow) = self.flows.take(id) {
            let (_, now) = self.of(&flow.key());
            now.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        }
        self.flows.remove(id);
    }

    fn take_icmp(&mut self, packet: &Packet<'_>) {
        let Some(header) = Icmp::new(packet.payload) else {
            return add(&self.counters.malformed, 1);
        };
        match (header.icmp_type(), header.code(), packet.src.is_ipv6()) {
            (ICMP_ECHO, 0, false) | (ICMPV6_ECHO_REQUEST, 0, true) => {
                if self.is_own(packet.dst) {
                    let rest = packet.payload.get(4..).unwrap_or_default();
                    return self.out.echo_reply(packet.dst, packet.src, rest);
                }
                let key = Key {
                    protocol: packet.protocol,
                    src: (packet.src, header.id()).into(),
                    dst: (packet.dst, 0).into(),
                };
                self.take_datagram(key, packet);
            }
            (ICMP_DEST_UNREACH, ICMP_FRAG_NEEDED, false) => {
                self.too_long(packet, header.sequence().into());
            }
            (ICMPV6_PKT_TOOBIG, 0, true) => self.too_long(packet, header.rest()),
            // Errors about datagrams, replies and the like: nobody waits for them.
            _ => {}
        }
    }

    /// A router of the namespace says that a segment of the gateway was too long.
    fn too_long(&mut self, packet: &Packet<'_>, mtu: u32) {
        let Some((key, seq)) = quoted(packet) else {
            return;
        };
        let least = match packet.src {
            IpAddr::V4(_) => 576,
            IpAddr::V6(_) => 1280,
        };
        if let Some(id) = self.flows.find(&key)
            && let Some(mut flow) = self.flows.take(id)
        {
            if let Flow::Tcp(tcp) = &mut flow {
                tcp.too_long(seq, mtu.max(least));
            }
            self.flows.put(id, flow);
            self.flows.touch(id);
        }
    }

    /// Moves the data of the flows that have something to do.
    fn flush(&mut self) {
        while self.flows.has_dirty() {
            for id in self.flows.take_dirty() {
                let now = self.now();
                let mut tcp = match self.flows.take(id) {
                    Some(Flow::Tcp(tcp)) => tcp,
                    // The number has passed on to another flow.
                    Some(other) => {
                        self.flows.put(id, other);
                        continue;
                    }
                    None => continue,
                };
                let memory = tcp.memory();
                let (mut cx, flows) = self.cx(now);
                match tcp.pump(&mut cx) {
                    Next::Keep => {
                        let left = tcp.memory();
                        flows.put(id, Flow::Tcp(tcp));
                        self.committed -= memory - left;
                    }
                    Next::Remove | Next::Replace => self.remove(id, tcp),
                }
            }
        }
        set(&self.counters.lost, self.out.lost as usize);
    }

    /// Sends what follows from the frames before, then waits for events at most for `limit`, and serves them.
    pub fn turn(&mut self, limit: Duration) {
        self.flush();
        let now = self.now();
        let next = self
            .flows
            .next()
            .map(|at| Duration::from_nanos(at.saturating_sub(now)));
        let limit = next.map_or(limit, |next| next.min(limit));
        let limit = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        let mut events = Vec::with_capacity(EVENTS);
        // A signal ends the wait; the next turn looks again.
        let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&limit));
        for event in &events {
            let (token, flags) = (event.data.u64(), event.flags);
            if token != WAKE {
                self.event(token, flags);
            }
        }
        self.expire();
        self.flush();
    }

    fn event(&mut self, token: u64, flags: epoll::EventFlags) {
        let now = self.now();
        let Some(id) = self.flows.of_token(token) else {
            return;
        };
        match self.flows.take(id) {
            Some(Flow::Tcp(mut tcp)) => {
                tcp.event(flags);
                self.flows.put(id, Flow::Tcp(tcp));
                self.flows.touch(id);
            }
            Some(Flow::Datagram(mut flow)) => {
                let (mut cx, flows) = self.cx(now);
                flow.receive(&mut cx);
                flows.put(id, Flow::Datagram(flow));
            }
            None => {}
        }
    }

    fn expire(&mut self) {
        let now = self.now();
        // All first: a flow may be due again at once.
        let expired: Vec<u32> = std::iter::from_fn(|| self.flows.expired(now)).collect();
        for id in expired {
            match self.flows.take(id) {
                Some(Flow::Tcp(mut tcp)) => {
                    let (mut cx, flows) = self.cx(now);
                    match tcp.timeout(&mut cx) {
                        Next::Keep => {
                            flows.put(id, Flow::Tcp(tcp));
                            flows.touch(id);
                        }
                        Next::Remove | Next::Replace => self.remove(id, tcp),
                    }
                }
                Some(flow @ Flow::Datagram(_)) => {
                    let over = matches!(&flow, Flow::Datagram(flow) if flow.expires <= now);
                    self.flows.put(id, flow);
                    if over {
                        self.end_datagram(id);
                    }
                }
                None => {}
            }
        }
    }

    /// Says what the process may not do of what the gateway offers, in a sentence.
    pub fn shortcomings(&self) -> Option<String> {
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        if host::may_ping(any) {
            return None;
        }
        Some(
            "echo requests do not pass the gateway: net.ipv4.ping_group_range of the host does not contain a group of \
             this process"
                .into(),
        )
    }
}

/// Returns the connection whose segment an ICMP error quotes, and the segment's sequence number.
fn quoted(error: &Packet<'_>) -> Option<(Key, u32)> {
    let quote = error.payload.get(Icmp::LEN..)?;
    let (src, dst, protocol, header): (IpAddr, IpAddr, _, _) = match error.src {
        IpAddr::V4(_) => {
            let ip = Ipv4::new(quote)?;
            (ip.src().into(), ip.dst().into(), ip.protocol(), Ipv4::LEN)
        }
        IpAddr::V6(_) => {
            let ip = Ipv6::new(quote)?;
            let (src, dst) = (ip.src().into(), ip.dst().into());
            (src, dst, ip.next_header(), Ipv6::LEN)
        }
    };
    // Ports and sequence number: at least so much is quoted.
    let [s0, s1, d0, d1, seq @ ..] = *quote.get(header..)?.first_chunk::<8>()?;
    // What the gateway has sent has the addresses the other way round.
    let key = Key {
        protocol: TCP,
        src: (dst, u16::from_be_bytes([d0, d1])).into(),
        dst: (src, u16::from_be_bytes([s0, s1])).into(),
    };
    (protocol == TCP).then_some((key, u32::from_be_bytes(seq)))
}

/// Returns whether an address can be one outside: no loopback of the host, and neither multicast nor a broadcast.
fn is_outside(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let [first, ..] = ip.octets();
            first != 0 && !ip.is_loopback() && first < 224
        }
        IpAddr::V6(ip) => {
            // Addresses of IPv4 in disguise would lead past these rules.
            let disguised = ip.to_ipv4().is_some();
            !disguised && !ip.is_multicast() && !ip.is_unicast_link_local()
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        set(&self.counters.tcp_now, 0);
        set(&self.counters.udp_now, 0);
        set(&self.counters.ping_now, 0);
    }
}
