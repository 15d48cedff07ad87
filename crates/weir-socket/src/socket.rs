// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A socket: the state that all kinds have, and the choice of the kind's functions.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use weir_inet::settings::{Ipv6 as Slot, WithSettings};
use weir_netlink::errno;
use weir_packet::bpf::Program;
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::rcu::Domain;

use crate::abi::{
    AF_INET, AF_INET6, AF_PACKET, IPPROTO_ICMP, IPPROTO_ICMPV6, IPPROTO_RAW, IPPROTO_TCP,
    IPPROTO_UDP, SOCK_DGRAM, SOCK_MAX, SOCK_RAW, SOCK_STREAM, SOL_ICMPV6, SOL_IP, SOL_IPV6,
    SOL_PACKET, SOL_RAW, SOL_SOCKET, SOL_TCP, SOL_UDP, so,
};
use crate::address::{self, Address};
use crate::cpu::Cx;
use crate::error::Queued;
use crate::group::{self, Membership};
use crate::namespace::Namespace;
use crate::options;
use crate::ports::{Entry, Which, tables};
use crate::{
    Message, Outgoing, Ready, Shutdown, User, bind, connect, mroute, packet, raw, tcp, udp,
};

/// The most protocols of a family (`IPPROTO_MAX`).
const PROTOCOLS: i32 = 263;

/// The kind of a socket, with its own state.
pub(crate) enum Proto {
    /// UDP.
    Udp,
    /// ICMP echo.
    Ping,
    /// Any protocol above IP.
    Raw,
    /// The frames of devices.
    Packet(Box<packet::Packet>),
    /// TCP.
    Tcp(tcp::Tcp),
}

/// The state that the socket's lock guards.
#[derive(Debug)]
pub(crate) struct State {
    /// The address that packets are received for (`inet_rcv_saddr`), and the port.
    pub local: Address,
    /// The source address of packets (`inet_saddr`).
    pub source: IpAddr,
    /// The peer.
    pub peer: Option<Address>,
    /// The table that the socket is in, with its place.
    pub bound: Option<(Which, u16)>,
    /// The program has chosen the address, or the port (`SOCK_BINDADDR_LOCK`, `SOCK_BINDPORT_LOCK`).
    pub chosen: (bool, bool),
    /// The device that the socket is bound to (`sk_bound_dev_if`).
    pub device: u32,
    /// The pending error (`sk_err`).
    pub error: i32,
    /// The error queue.
    #[expect(
        clippy::box_collection,
        reason = "8 bytes where there are none, not 32"
    )]
    pub errors: Option<Box<VecDeque<Queued>>>,
    /// Datagrams for which the user had no room (`sk_drops`).
    pub drops: u32,
    /// The directions that are closed: reading, writing.
    pub shut: (bool, bool),
    /// The program has closed the socket.
    pub closed: bool,
    pub options: options::Shared,
    pub groups: Vec<Membership>,
    /// The classic BPF program that selects packets.
    pub filter: Option<Arc<Program>>,
    /// `IPV6_MTU`, or 0.
    pub frag_size: u32,
    /// The device of `IPV6_PKTINFO`.
    pub sticky_device: u32,
    /// The path MTU that an ICMP error has told, and to whom.
    pub learned: Option<Box<(IpAddr, u32)>>,
    /// UDP: what is collected for one datagram.
    pub corked: Option<Box<udp::Corked>>,
    pub udp: udp::Settings,
    /// Raw sockets only.
    pub raw: Option<Box<raw::Settings>>,
}

impl State {
    /// Returns whether the socket has a port (`inet_num`).
    pub fn is_bound(&self) -> bool {
        self.bound.is_some() || self.local.port != 0
    }
}

/// A socket of a program (`struct sock`).
pub struct Socket {
    this: Weak<Socket>,
    ns: Arc<Namespace>,
    domain: Domain,
    user: Arc<dyn User>,
    family: u16,
    kind: i32,
    protocol: i32,
    cookie: u64,
    inode: AtomicU64,
    uid: AtomicU32,
    state: Mutex<State, order::Socket>,
    pub(crate) proto: Proto,
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Socket")
            .field("family", &self.family)
            .field("kind", &self.kind)
            .field("protocol", &self.protocol)
            .field("cookie", &self.cookie)
            .finish_non_exhaustive()
    }
}

/// Chooses the kind of an internet socket (`inet_create`, `inet6_create`).
fn choose(ipv6: bool, kind: i32, protocol: i32) -> Result<(Proto, i32), i32> {
    if !(0..PROTOCOLS).contains(&protocol) {
        return Err(errno::EINVAL);
    }
    let ping = if ipv6 { IPPROTO_ICMPV6 } else { IPPROTO_ICMP };
    match (kind, protocol) {
        (SOCK_STREAM, 0 | IPPROTO_TCP) => Ok((Proto::Tcp(tcp::Tcp::new()?), IPPROTO_TCP)),
        (SOCK_DGRAM, 0 | IPPROTO_UDP) => Ok((Proto::Udp, IPPROTO_UDP)),
        (SOCK_DGRAM, protocol) if protocol == ping => Ok((Proto::Ping, protocol)),
        (SOCK_RAW, 1..=255) => Ok((Proto::Raw, protocol)),
        (SOCK_STREAM | SOCK_DGRAM | SOCK_RAW, _) => Err(errno::EPROTONOSUPPORT),
        _ => Err(errno::ESOCKTNOSUPPORT),
    }
}

impl Socket {
    /// Opens a socket in a namespace (`inet_create`, `inet6_create`, `packet_create`). `kind` is `SOCK_*` without flags.
    ///
    /// # Errors
    /// EAFNOSUPPORT, EPROTONOSUPPORT, ESOCKTNOSUPPORT, EPERM as Linux has them.
    pub fn open(
        cx: &mut Cx<'_>,
        ns: &Arc<Namespace>,
        family: i32,
        kind: i32,
        protocol: i32,
        user: Arc<dyn User>,
    ) -> Result<Arc<Self>, i32> {
        let family = u16::try_from(family).map_err(|_| errno::EAFNOSUPPORT)?;
        if !(0..SOCK_MAX).contains(&kind) {
            return Err(errno::EINVAL);
        }
        let (proto, protocol) = match family {
            AF_INET => choose(false, kind, protocol)?,
            AF_INET6 => choose(true, kind, protocol)?,
            AF_PACKET => (
                Proto::Packet(Box::new(packet::Packet::new(kind, protocol)?)),
                protocol,
            ),
            _ => return Err(errno::EAFNOSUPPORT),
        };
        let socket = Self::make(cx, ns, (family, kind, protocol), proto, user);
        if let Proto::Raw = socket.proto {
            raw::opened(&socket, cx);
        }
        if let Proto::Packet(_) = socket.proto {
            packet::opened(&socket, cx);
        }
        Ok(socket)
    }

    /// Makes a socket and enters it into the list of all.
    pub(crate) fn make(
        cx: &Cx<'_>,
        ns: &Arc<Namespace>,
        (family, kind, protocol): (u16, i32, i32),
        proto: Proto,
        user: Arc<dyn User>,
    ) -> Arc<Self> {
        let ipv6 = family == AF_INET6;
        let any = Address::any(ipv6);
        let mut options = options::Shared::default();
        if ipv6 && ns.conf().ipv6.on(Slot::BindV6Only) {
            options.v6only = true;
        }
        if kind == SOCK_RAW && protocol == IPPROTO_RAW && family != AF_PACKET {
            options.hdrincl = true;
        }
        let state = State {
            local: any,
            source: any.ip,
            peer: None,
            bound: None,
            chosen: (false, false),
            device: 0,
            error: 0,
            errors: None,
            drops: 0,
            shut: (false, false),
            closed: false,
            options,
            groups: Vec::new(),
            filter: None,
            frag_size: 0,
            sticky_device: 0,
            learned: None,
            corked: None,
            udp: udp::Settings::default(),
            raw: matches!(proto, Proto::Raw).then(|| Box::new(raw::Settings::new(ipv6, protocol))),
        };
        let socket = Arc::new_cyclic(|this| Self {
            this: this.clone(),
            ns: ns.clone(),
            domain: cx.stack.domain.clone(),
            user,
            family,
            kind,
            protocol,
            cookie: tables(ns).new_cookie(),
            inode: AtomicU64::new(0),
            uid: AtomicU32::new(0),
            state: Mutex::new(state),
            proto,
        });
        tables(ns).opened(&socket);
        socket
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State, order::Socket> {
        self.state.lock()
    }

    /// Returns another handle of the socket; `None` while it is being dropped.
    pub(crate) fn handle(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    pub(crate) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Returns the socket's namespace.
    pub fn ns(&self) -> &Arc<Namespace> {
        &self.ns
    }

    /// Returns the owner.
    pub fn user(&self) -> &Arc<dyn User> {
        &self.user
    }

    /// Returns `AF_*`.
    pub fn family(&self) -> i32 {
        self.family.into()
    }

    pub(crate) fn is_v6(&self) -> bool {
        self.family == AF_INET6
    }

    /// Returns `SOCK_*`.
    pub fn kind(&self) -> i32 {
        self.kind
    }

    /// Returns `IPPROTO_*`, or the EtherType of a packet socket as `socket` got it.
    pub fn protocol(&self) -> i32 {
        self.protocol
    }

    /// Returns the number that no other socket of the namespace has (`SO_COOKIE`).
    pub fn cookie(&self) -> u64 {
        self.cookie
    }

    /// Sets the inode of the program's descriptor and the user id, which `/proc/net` and `ss` show.
    pub fn set_identity(&self, inode: u64, uid: u32) {
        self.inode.store(inode, Relaxed);
        self.uid.store(uid, Relaxed);
    }

    /// Returns the inode and the user id.
    pub fn identity(&self) -> (u64, u32) {
        (self.inode.load(Relaxed), self.uid.load(Relaxed))
    }

    /// Returns whether the socket waits for connections.
    pub fn is_listening(&self) -> bool {
        matches!(&self.proto, Proto::Tcp(tcp) if tcp.is_listening())
    }

    /// Returns what decides about packets for the socket.
    pub(crate) fn entry(&self, state: &State) -> Option<Entry> {
        Some(Entry {
            socket: self.handle()?,
            ipv6: self.is_v6(),
            local: state.local.ip,
            peer: state.peer.map(|peer| (peer.ip, peer.port)),
            device: state.device,
            reuse: state.options.reuse,
            reuseport: state.options.reuseport,
            v6only: state.options.v6only,
            uid: self.uid.load(Relaxed),
        })
    }

    /// Binds to the device of an index, which need not exist (`sock_bindtoindex_locked`); 0 for none.
    pub fn bind_to_device(&self, cx: &Cx<'_>, index: u32) {
        self.state().device = index;
        self.publish(cx);
    }

    /// Enters the socket's present state into the table that it is in.
    pub(crate) fn publish(&self, cx: &Cx<'_>) {
        let state = self.state();
        self.publish_locked(&state, cx);
    }

    /// Does the same for a state that is locked.
    pub(crate) fn publish_locked(&self, state: &State, cx: &Cx<'_>) {
        if let (Some((which, port)), Some(entry)) = (state.bound, self.entry(state)) {
            tables(&self.ns).put(&self.ns, which, port, entry, cx.guard);
        }
    }

    /// Tells the kind that options of `SOL_SOCKET` changed.
    pub(crate) fn options_changed(&self) {
        if let Proto::Packet(packet) = &self.proto {
            let (options, filter) = {
                let state = self.state();
                (*state.options, state.filter.clone())
            };
            packet.options_changed(options, filter);
        }
    }

    /// Sets the pending error and tells the owner (`sk_error_report`).
    pub(crate) fn fail(&self, cx: &mut Cx<'_>, error: i32) {
        {
            let mut state = self.state();
            if state.closed {
                return;
            }
            state.error = error;
        }
        let ready = self.ready();
        self.user.wake(cx, ready);
    }

    /// Gives the socket a local address.
    ///
    /// # Errors
    /// EINVAL, EADDRINUSE, EADDRNOTAVAIL, EACCES, EAFNOSUPPORT.
    pub fn bind(&self, cx: &mut Cx<'_>, address: &[u8]) -> Result<(), i32> {
        match &self.proto {
            Proto::Udp | Proto::Ping => bind::bind(self, cx, address),
            Proto::Raw => bind::bind_raw(self, cx, address),
            Proto::Packet(packet) => packet.bind(self, cx, address),
            Proto::Tcp(tcp) => tcp.bind(self, cx, address),
        }
    }

    /// Sets the peer; AF_UNSPEC removes it. A stream begins its handshake.
    ///
    /// # Errors
    /// EINPROGRESS for a stream whose handshake has begun; ENETUNREACH, EISCONN, EALREADY and so on.
    pub fn connect(&self, cx: &mut Cx<'_>, address: &[u8]) -> Result<(), i32> {
        match &self.proto {
            Proto::Udp | Proto::Ping | Proto::Raw => connect::connect(self, cx, address),
            Proto::Packet(_) => Err(errno::EOPNOTSUPP),
            Proto::Tcp(tcp) => tcp.connect(self, cx, address),
        }
    }

    /// Waits for connections of a stream.
    ///
    /// # Errors
    /// EOPNOTSUPP for other sockets, EADDRINUSE.
    pub fn listen(&self, cx: &mut Cx<'_>, backlog: i32) -> Result<(), i32> {
        match &self.proto {
            Proto::Tcp(tcp) => tcp.listen(self, cx, backlog),
            _ => Err(errno::EOPNOTSUPP),
        }
    }

    /// Takes a connection that waits.
    ///
    /// # Errors
    /// EAGAIN if none waits, EINVAL if the socket does not listen.
    pub fn accept(&self, cx: &mut Cx<'_>, user: Arc<dyn User>) -> Result<Arc<Self>, i32> {
        match &self.proto {
            Proto::Tcp(tcp) => tcp.accept(self, cx, user),
            _ => Err(errno::EOPNOTSUPP),
        }
    }

    /// The number of connections that wait for [`Socket::accept`].
    pub fn waiting(&self) -> usize {
        match &self.proto {
            Proto::Tcp(tcp) => tcp.waiting(),
            _ => 0,
        }
    }

    /// Sends a datagram. Returns the number of bytes.
    ///
    /// # Errors
    /// As `sendmsg(2)`; a pending error of the socket first.
    pub fn send(&self, cx: &mut Cx<'_>, message: &Outgoing<'_>) -> Result<usize, i32> {
        if matches!(self.proto, Proto::Udp | Proto::Ping) {
            // Before anything is checked (`inet_send_prepare`).
            bind::autobind(self, cx)?;
        }
        match &self.proto {
            Proto::Udp => udp::send(self, cx, message),
            Proto::Ping => crate::ping::send(self, cx, message),
            Proto::Raw => raw::send(self, cx, message),
            Proto::Packet(packet) => packet.send(self, cx, message),
            Proto::Tcp(tcp) => tcp.send(self, cx, message),
        }
    }

    /// Queues data of a stream. Returns how many bytes there was room for.
    ///
    /// # Errors
    /// EAGAIN without room, EPIPE after the end, ENOTCONN, or the pending error.
    pub fn write(&self, cx: &mut Cx<'_>, data: &[u8]) -> Result<usize, i32> {
        self.write_part(cx, data, 0)
    }

    /// Does the same with flags of `send`: `MSG_MORE` and `MSG_EOR` count if all data find room.
    ///
    /// # Errors
    /// Those of [`write`](Self::write).
    pub fn write_part(&self, cx: &mut Cx<'_>, data: &[u8], flags: i32) -> Result<usize, i32> {
        match &self.proto {
            Proto::Tcp(tcp) => tcp.write_data(self, cx, data, flags),
            _ => Err(errno::EOPNOTSUPP),
        }
    }

    /// As [`write`](Self::write) of `want` bytes, which `fill` writes into the socket's buffer. It gets the room there is
    /// for them, in two parts, and returns how many bytes it has written. It is called once, or not at all without room,
    /// and must not call the socket.
    ///
    /// # Errors
    /// As `write`.
    pub fn write_with(
        &self,
        cx: &mut Cx<'_>,
        want: usize,
        fill: &mut dyn FnMut([&mut [u8]; 2]) -> usize,
    ) -> Result<usize, i32> {
        match &self.proto {
            Proto::Tcp(tcp) => tcp.write(self, cx, want, 0, fill),
            _ => Err(errno::EOPNOTSUPP),
        }
    }

    /// Passes received data of a stream to `take`, in order, until there are no more or it takes less than it is
    /// offered. Returns how many bytes it took in all; 0 is the end of the stream.
    ///
    /// # Errors
    /// EAGAIN if nothing is there yet, ENOTCONN, or the pending error (ECONNRESET, ETIMEDOUT).
    pub fn read(
        &self,
        cx: &mut Cx<'_>,
        take: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<usize, i32> {
        match &self.proto {
            Proto::Tcp(tcp) => tcp.read(self, cx, take),
            _ => Err(errno::EOPNOTSUPP),
        }
    }

    /// Passes the oldest message of the error queue to `take` (`MSG_ERRQUEUE`). Returns false if the queue is empty.
    pub fn receive_error(&self, take: &mut dyn FnMut(&Message<'_>)) -> bool {
        crate::error::receive(self, take)
    }

    /// Returns the pending error and clears it (`SO_ERROR`); 0 if there is none.
    pub fn take_error(&self) -> i32 {
        match &self.proto {
            Proto::Tcp(tcp) => tcp.take_error(self),
            _ => std::mem::take(&mut self.state().error),
        }
    }

    /// What the socket is ready for. Of a datagram socket, only the owner knows whether there are data.
    pub fn ready(&self) -> Ready {
        if let Proto::Tcp(tcp) = &self.proto {
            return tcp.ready(self);
        }
        let mut ready = Ready::OUT;
        if matches!(&self.proto, Proto::Packet(packet) if packet.is_readable()) {
            ready |= Ready::IN;
        }
        let state = self.state();
        if state.error != 0 || state.errors.is_some() {
            ready |= Ready::ERR;
        }
        match state.shut {
            (true, true) => ready |= Ready::HUP | Ready::RDHUP | Ready::IN,
            (true, false) => ready |= Ready::RDHUP | Ready::IN,
            _ => {}
        }
        Ready(ready)
    }

    /// Returns the local address (`getsockname`).
    pub fn local_address(&self) -> Vec<u8> {
        if let Proto::Packet(packet) = &self.proto {
            return packet.local_address(self);
        }
        let state = self.state();
        let mut address = state.local;
        if address.ip.is_unspecified() && !state.source.is_unspecified() {
            address.ip = state.source;
        }
        address.scope = scope_of(address.ip, state.device);
        address::write(self.is_v6(), &address).get().to_vec()
    }

    /// Returns the peer's address (`inet_getname`).
    ///
    /// # Errors
    /// ENOTCONN, also while a handshake goes on and after the end; EOPNOTSUPP for packet sockets.
    pub fn peer_address(&self) -> Result<Vec<u8>, i32> {
        match &self.proto {
            Proto::Packet(_) => Err(errno::EOPNOTSUPP),
            Proto::Tcp(tcp) if !tcp.is_connected(self) => Err(errno::ENOTCONN),
            _ => self.peer().ok_or(errno::ENOTCONN),
        }
    }

    /// Returns the address of the last peer, as `accept` does: also if the connection is over.
    pub fn peer(&self) -> Option<Vec<u8>> {
        let state = self.state();
        let mut peer = state.peer.filter(|peer| peer.port != 0)?;
        peer.scope = scope_of(peer.ip, state.device);
        Some(address::write(self.is_v6(), &peer).get().to_vec())
    }

    /// Sets an option. The value of `SO_ATTACH_FILTER` is a `struct sock_fprog` with the instructions behind it, in
    /// place of what its pointer points to.
    ///
    /// # Errors
    /// ENOPROTOOPT, EINVAL, EPERM, ENODEV and so on.
    pub fn set_option(
        &self,
        cx: &mut Cx<'_>,
        level: i32,
        name: i32,
        value: &[u8],
    ) -> Result<(), i32> {
        match (level, &self.proto) {
            (SOL_SOCKET | SOL_IP | SOL_IPV6, Proto::Tcp(tcp)) => {
                match level {
                    SOL_SOCKET => {
                        options::base::set(self, cx, name, value)?;
                        if name == so::RCVLOWAT {
                            let most = tcp.most_low(self);
                            let mut state = self.state();
                            let low = state.options.rcvlowat;
                            state.options.rcvlowat = low.min(most).max(1);
                        }
                    }
                    SOL_IP => options::ip::set(self, cx, name, value)?,
                    _ if !self.is_v6() => return Err(errno::ENOPROTOOPT),
                    _ => options::ipv6::set(self, cx, name, value)?,
                }
                tcp.options_changed(self, cx);
                Ok(())
            }
            (SOL_SOCKET, _) => options::base::set(self, cx, name, value),
            (SOL_PACKET, Proto::Packet(packet)) => packet.set_option(self, cx, name, value),
            (_, Proto::Packet(_)) => Err(errno::ENOPROTOOPT),
            (SOL_TCP, Proto::Tcp(tcp)) => tcp.set_option(self, cx, name, value),
            (SOL_UDP, Proto::Udp) => udp::set_option(self, cx, name, value),
            (SOL_RAW | SOL_ICMPV6, Proto::Raw) => raw::set_option(self, level, name, value),
            (SOL_IP, Proto::Raw) if self.is_v6() => Err(errno::ENOPROTOOPT),
            (SOL_IP, _) => options::ip::set(self, cx, name, value),
            (SOL_IPV6, Proto::Raw) if name == crate::abi::ipv6::CHECKSUM => {
                raw::set_option(self, level, name, value)
            }
            (SOL_IPV6, _) if self.is_v6() => options::ipv6::set(self, cx, name, value),
            _ => Err(errno::ENOPROTOOPT),
        }
    }

    /// Returns an option's value, which the caller cuts to the room it has. `room` is what the caller has, in bytes:
    /// some options depend on it. The times of `TCP_INFO` count to `now`, in ns of the stack's clock.
    ///
    /// # Errors
    /// ENOPROTOOPT, EINVAL, ENOTCONN, EOPNOTSUPP for a level that an IPv4 socket does not have.
    pub fn option(&self, now: u64, level: i32, name: i32, room: &[u8]) -> Result<Vec<u8>, i32> {
        match (level, &self.proto) {
            (SOL_SOCKET, Proto::Tcp(tcp)) if matches!(name, so::SNDBUF | so::RCVBUF) => {
                let (receive, send) = tcp.buffers(self);
                let size = if name == so::SNDBUF { send } else { receive };
                Ok(options::of_int(size as i32))
            }
            (SOL_SOCKET, _) => options::base::get(self, name, room),
            (SOL_PACKET, Proto::Packet(packet)) => packet.option(name, room),
            (_, Proto::Packet(_)) => Err(errno::ENOPROTOOPT),
            (SOL_TCP, Proto::Tcp(tcp)) => tcp.option(self, now, name),
            (SOL_UDP, Proto::Udp) => udp::option(self, name),
            (SOL_RAW | SOL_ICMPV6, Proto::Raw) => raw::option(self, level, name),
            (SOL_IP, Proto::Raw) if self.is_v6() => Err(errno::ENOPROTOOPT),
            (SOL_IP, _) => options::ip::get(self, name, room),
            (SOL_IPV6, Proto::Raw) if name == crate::abi::ipv6::CHECKSUM => {
                raw::option(self, level, name)
            }
            (SOL_IPV6, _) if self.is_v6() => options::ipv6::get(self, name, room),
            // `do_ip_getsockopt`
            (_, Proto::Udp | Proto::Tcp(_)) if !self.is_v6() => Err(errno::EOPNOTSUPP),
            _ => Err(errno::ENOPROTOOPT),
        }
    }

    /// Serves an ioctl of the socket's protocol: `SIOCGETVIFCNT` and `SIOCGETSGCNT` of raw sockets. `given` is the structure
    /// that the program passes; it is returned filled in.
    ///
    /// # Errors
    /// ENOTTY for others, EADDRNOTAVAIL, EINVAL, EFAULT.
    pub fn ioctl(&self, cx: &Cx<'_>, request: u32, given: &[u8]) -> Result<Vec<u8>, i32> {
        mroute::ioctl(self, cx, request, given)
    }

    /// Returns the MTU of the path to the peer in bytes.
    pub(crate) fn path_mtu(&self) -> Option<u32> {
        match &self.proto {
            Proto::Tcp(tcp) => tcp.path_mtu(self),
            _ => connect::path_mtu(self),
        }
    }

    /// Closes one or both directions.
    ///
    /// # Errors
    /// ENOTCONN; EOPNOTSUPP for packet sockets.
    pub fn shutdown(&self, cx: &mut Cx<'_>, how: Shutdown) -> Result<(), i32> {
        match &self.proto {
            Proto::Packet(_) => return Err(errno::EOPNOTSUPP),
            Proto::Tcp(tcp) => return tcp.shutdown(self, cx, how),
            _ => {}
        }
        let connected = {
            let mut state = self.state();
            state.shut.0 |= how != Shutdown::Write;
            state.shut.1 |= how != Shutdown::Read;
            state.peer.is_some()
        };
        let ready = self.ready();
        self.user.wake(cx, ready);
        if connected {
            Ok(())
        } else {
            Err(errno::ENOTCONN)
        }
    }

    /// The program has closed the socket. A stream sends what it has, or, if `reset`, resets the connection: data
    /// were unread, or `SO_LINGER` says so.
    pub fn close(&self, cx: &mut Cx<'_>, reset: bool) {
        if let Proto::Tcp(tcp) = &self.proto {
            return tcp.close(self, cx, reset);
        }
        if let Proto::Packet(packet) = &self.proto
            && !self.state().closed
        {
            packet.close(self, cx);
        }
        if let Proto::Udp = self.proto {
            // What was collected is dropped (`udp_flush_pending_frames`).
            self.state().corked = None;
        }
        self.release(cx);
    }

    /// Ends the socket for a program of another process (`SOCK_DESTROY`, `udp_abort`).
    ///
    /// # Errors
    /// EOPNOTSUPP for sockets that cannot be ended so.
    pub fn destroy(&self, cx: &mut Cx<'_>) -> Result<(), i32> {
        match &self.proto {
            Proto::Tcp(tcp) => tcp.destroy(self, cx),
            Proto::Udp | Proto::Raw => {
                connect::disconnect(self, cx);
                self.fail(cx, errno::ECONNABORTED);
                Ok(())
            }
            _ => Err(errno::EOPNOTSUPP),
        }
    }

    /// Takes the socket out of all tables and leaves its groups.
    pub(crate) fn release(&self, cx: &mut Cx<'_>) {
        let bound = {
            let mut state = self.state();
            if std::mem::replace(&mut state.closed, true) {
                return;
            }
            state.errors = None;
            state.bound.take()
        };
        if let Some((which, port)) = bound {
            tables(&self.ns).remove(&self.ns, which, port, self, cx.guard);
        }
        if let Proto::Raw = self.proto {
            mroute::closed(self, cx);
        }
        group::leave_all(self, cx);
        tables(&self.ns).closed(self);
    }
}

/// Returns the scope id of an address that is valid on one link only.
pub(crate) fn scope_of(ip: IpAddr, device: u32) -> u32 {
    match ip {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => device,
        IpAddr::V6(ip) if ip.is_multicast() && ip.octets()[1] & 15 == 2 => device,
        _ => 0,
    }
}
