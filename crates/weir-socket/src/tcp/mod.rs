// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP sockets (`net/ipv4/tcp.c`, `af_inet.c`, `inet_connection_sock.c`), on the connections of `weir_tcp`.
//!
//! A connection is found by its addresses and ports ([`table`]), a listener by its port; half-open connections are in
//! their listener. [`core`] joins a connection with its timer and its owner, [`input`] takes segments, [`send`] sends
//! them.
//!
//! Not served: urgent data (they are read in line), `TCP_REPAIR` (EPERM).

mod core;
mod count;
mod fast;
mod input;
mod listed;
pub mod metrics;
mod opening;
mod options;
mod send;
mod signature;
mod table;
mod tuple;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use weir_inet::mib::{Count, Tcp as Mib};
use weir_netlink::errno;
use weir_tcp::buffer::copy_from;
use weir_tcp::listener::Listener;
use weir_tcp::{Config, Connection, Opening, Part, Settings, State};

pub use input::{receive, report};
pub use listed::{Listed, listed};
pub use table::Connections;

use self::core::{Core, Inner, Kind};
use crate::abi::{AF_INET, AF_INET6, IPPROTO_TCP, SOCK_STREAM};
use crate::address::{Address, LEAST_V6, LEN_V6, family, read_v4, read_v6};
use crate::bind;
use crate::cpu::Cx;
use crate::namespace::Namespace;
use crate::ports::{Entry, Which, tables};
use crate::socket::{Proto, Socket};
use crate::{Outgoing, Ready, Shutdown, User};
use send::Outbox;
use tuple::Tuple;

const MSG_EOR: i32 = 0x80;
const MSG_MORE: i32 = 0x8000;
const AF_UNSPEC: u16 = 0;
/// The most connections that may wait (`net.core.somaxconn`).
const SOMAXCONN: i32 = 4096;
/// How many ports a connection tries.
const TRIES: usize = 64;
const CLOSE: u8 = 7;
const LISTEN: u8 = 10;
const MSG_OOB: i32 = 1;
const MSG_PROBE: i32 = 0x10;

/// The TCP part of a socket.
#[derive(Debug)]
pub struct Tcp {
    core: OnceLock<Arc<Core>>,
}

/// What `/proc/net` and `ss` show of a TCP socket.
#[derive(Debug, Clone)]
pub struct Figures {
    /// `TCP_*`
    pub state: u8,
    /// Bytes to read and bytes to be acknowledged; of a listener, the connections that wait, and how many may.
    pub queued: (u32, u32),
    /// Which timer runs, in how many ms after the last change it expires, and how often it has.
    pub timer: (u8, u32, u8),
    /// `SO_RCVBUF` and `SO_SNDBUF`.
    pub buffers: (u32, u32),
    /// `RCV_SHUTDOWN` and `SEND_SHUTDOWN`.
    pub shutdown: u8,
    /// The name of the congestion control.
    pub congestion: &'static str,
    /// `struct tcp_bbr_info`, where the congestion control is BBR.
    pub congestion_info: Option<[u8; 20]>,
    /// `struct tcp_info`
    pub info: Vec<u8>,
}

/// Whether two sockets may not have the same port (`inet_csk_bind_conflict`).
fn conflicts(a: &Entry, b: &Entry) -> bool {
    let shared = a.reuse && b.reuse && !b.socket.is_listening();
    let group = a.reuseport && b.reuseport && a.uid == b.uid;
    !shared && !group && a.overlaps(b)
}

impl Tcp {
    /// Makes the part of a new socket.
    ///
    /// # Errors
    /// None yet.
    pub fn new() -> Result<Self, i32> {
        Ok(Self {
            core: OnceLock::new(),
        })
    }

    /// Returns the socket's core.
    pub(crate) fn core(&self, socket: &Socket) -> Arc<Core> {
        let make = || {
            let owner = socket.handle().map(|socket| Arc::downgrade(&socket));
            Core::new(
                socket.ns().clone(),
                socket.is_v6(),
                owner.unwrap_or_default(),
            )
        };
        self.core.get_or_init(make).clone()
    }

    /// Returns whether the socket waits for connections.
    pub fn is_listening(&self) -> bool {
        self.core.get().is_some_and(|core| core.is_listening())
    }

    /// Returns the number of connections that wait to be accepted.
    pub fn waiting(&self) -> usize {
        match self.core.get().map(|core| core.lock()) {
            Some(inner) => match &inner.kind {
                Kind::Listening(listener) => listener.waiting(),
                _ => 0,
            },
            None => 0,
        }
    }

    /// Binds the socket.
    ///
    /// # Errors
    /// Those of `bind::check`; EINVAL if it has a port or is connected, EADDRINUSE.
    pub fn bind(&self, socket: &Socket, cx: &mut Cx<'_>, address: &[u8]) -> Result<(), i32> {
        let wanted = bind::check(socket, cx, address)?;
        let mut state = socket.state();
        if state.is_bound() || state.peer.is_some() {
            return Err(errno::EINVAL);
        }
        let before = (state.local, state.source, state.device);
        state.local.ip = wanted.address.ip;
        state.source = wanted.source;
        state.device = wanted.device;
        state.chosen.0 = !wanted.address.ip.is_unspecified();
        if wanted.address.port == 0 && state.options.bind_no_port {
            return Ok(());
        }
        let entry = socket.entry(&state).ok_or(errno::EINVAL)?;
        let ns = socket.ns();
        let port = wanted.address.port;
        match tables(ns).bind(ns, Which::Tcp, port, entry, conflicts, cx.guard) {
            Ok(port) => {
                state.local.port = port;
                state.bound = Some((Which::Tcp, port));
                state.chosen.1 = wanted.address.port != 0;
                Ok(())
            }
            Err(error) => {
                (state.local, state.source, state.device) = before;
                state.chosen.0 = false;
                Err(error)
            }
        }
    }

    /// Returns whether there is a connection, with its handshake behind it.
    pub fn is_connected(&self, socket: &Socket) -> bool {
        let inner = self.core(socket);
        let inner = inner.lock();
        matches!(&inner.kind, Kind::Open(connection)
            if !matches!(connection.state(), State::Closed | State::SynSent | State::TimeWait))
    }

    /// Reads the address of a peer (`tcp_v4_connect`, `tcp_v6_connect`). `None` stands for AF_UNSPEC.
    fn peer(socket: &Socket, bytes: &[u8]) -> Result<Option<Address>, i32> {
        let family = family(bytes).ok_or(errno::EINVAL)?;
        if family == AF_UNSPEC {
            return Ok(None);
        }
        if !socket.is_v6() {
            let to = read_v4(bytes).ok_or(errno::EINVAL)?;
            return match family {
                AF_INET => Ok(Some(to)),
                _ => Err(errno::EAFNOSUPPORT),
            };
        }
        if bytes.len() < LEAST_V6 {
            return Err(errno::EINVAL);
        }
        if family != AF_INET6 {
            return Err(errno::EAFNOSUPPORT);
        }
        let mut to = read_v6(bytes).ok_or(errno::EINVAL)?;
        if bytes.len() < LEN_V6 {
            to.scope = 0;
        }
        let (v6only, local) = {
            let state = socket.state();
            (state.options.v6only, state.local.ip)
        };
        if to.ip == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
            to.ip = match local {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            };
        }
        if to.ip.is_ipv4() && v6only {
            return Err(errno::ENETUNREACH);
        }
        Ok(Some(to))
    }

    /// Begins the handshake.
    ///
    /// # Errors
    /// EINPROGRESS, EALREADY, EISCONN, EADDRNOTAVAIL, those of the route.
    pub fn connect(&self, socket: &Socket, cx: &mut Cx<'_>, address: &[u8]) -> Result<(), i32> {
        self.begin(socket, cx, address, false)
    }

    /// As [`Tcp::connect`]. With `fast`, the SYN waits for data, or asks for a cookie.
    fn begin(
        &self,
        socket: &Socket,
        cx: &mut Cx<'_>,
        address: &[u8],
        fast: bool,
    ) -> Result<(), i32> {
        let core = self.core(socket);
        let to = Self::peer(socket, address)?;
        {
            let mut inner = core.lock();
            match &mut inner.kind {
                Kind::Open(connection) => match (to, connection.state()) {
                    (None, State::Closed) => {}
                    (None, _) => {
                        let tuple = inner.tuple;
                        if let Kind::Open(connection) = &mut inner.kind {
                            connection.abort(0);
                        }
                        core.settle(cx, inner, Outbox::new(cx.stack, tuple));
                    }
                    (_, State::SynSent) if connection.is_deferred() => return Err(errno::EISCONN),
                    (_, State::SynSent | State::SynReceived) => return Err(errno::EALREADY),
                    (_, State::Closed) => match connection.take_error() {
                        0 => {}
                        error => return Err(error),
                    },
                    _ => return Err(errno::EISCONN),
                },
                Kind::Listening(_) if to.is_some() => return Err(errno::EISCONN),
                Kind::Listening(_) => {
                    drop(inner);
                    self.stop(socket, cx);
                    return Ok(());
                }
                Kind::Idle => {}
            }
        }
        let Some(to) = to else {
            Self::disconnect(socket, cx);
            return Ok(());
        };
        let (options, mut device, source, port) = {
            let state = socket.state();
            (
                state.options.clone(),
                state.device,
                state.source,
                state.local.port,
            )
        };
        if let IpAddr::V6(ip) = to.ip
            && ip.is_unicast_link_local()
        {
            match (to.scope, device) {
                (0, 0) => return Err(errno::EINVAL),
                (0, _) => {}
                (scope, 0) => device = scope,
                (scope, bound) if scope == bound => {}
                _ => return Err(errno::EINVAL),
            }
        }
        let ns = socket.ns();
        let choice = send::Choice::of(&options, device);
        let source = Some(source).filter(|ip| !ip.is_unspecified());
        let (own, path) = choice.path(cx, ns, source, to.ip, (port, to.port))?;
        let (tuple, after) = self.take_tuple(socket, cx, &core, own, &to, device)?;
        let connections = &tables(ns).tcp_connections;
        let config = connections.config(ns);
        let mut inner = core.lock();
        inner.options = options;
        inner.device = device;
        inner.take_options();
        inner.restart();
        inner.tuple = tuple;
        inner.signs_to(tuple.remote);
        let fast_open = fast::client(&inner, connections, &config, &tuple, fast);
        let opening = Opening {
            config,
            settings: inner.settings.clone(),
            path,
            isn: after.unwrap_or_else(|| connections.isn(cx.now, &tuple)),
            timestamp_offset: connections.timestamp_offset(&tuple),
            fast_open,
        };
        let mut connection = Connection::connect(cx.now, opening);
        if fast || fast_open.is_some_and(|client| client.carries_data()) {
            connection.defer();
        }
        let deferred = connection.is_deferred();
        inner.kind = Kind::Open(Box::new(connection));
        cx.mib(ns).tcp.add(Mib::ActiveOpens, 1);
        core.settle(cx, inner, Outbox::new(cx.stack, tuple));
        // A program that asked for Fast Open writes as if it was connected.
        match deferred && !fast {
            true => Ok(()),
            false => Err(errno::EINPROGRESS),
        }
    }

    /// Removes the peer, and the address that the program has not chosen (`tcp_disconnect`). The socket keeps its port.
    fn disconnect(socket: &Socket, cx: &mut Cx<'_>) {
        let mut state = socket.state();
        state.peer = None;
        if !state.chosen.0 {
            let any = Address::any(socket.is_v6()).ip;
            (state.local.ip, state.source) = (any, any);
        }
        socket.publish_locked(&state, cx);
    }

    /// Gives a connection its addresses and ports, and enters it into the table (`inet_hash_connect`). Returns them, and
    /// with which sequence number the connection begins if it takes the place of one in TIME_WAIT.
    fn take_tuple(
        &self,
        socket: &Socket,
        cx: &Cx<'_>,
        core: &Arc<Core>,
        own: IpAddr,
        to: &Address,
        device: u32,
    ) -> Result<(Tuple, Option<u32>), i32> {
        let ns = socket.ns();
        let all = tables(ns);
        let mut state = socket.state();
        let before = (state.local, state.source, state.peer, state.device);
        state.local.ip = own;
        state.source = own;
        state.device = device;
        state.peer = Some(*to);
        let mut tuple = Tuple {
            local: own,
            port: state.local.port,
            remote: to.ip,
            remote_port: to.port,
        };
        for _ in 0..TRIES {
            if state.bound.is_none() {
                let entry = socket.entry(&state).ok_or(errno::EINVAL)?;
                // A port may be shared by connections to other peers.
                let free =
                    |a: &Entry, b: &Entry| (b.peer.is_none() || b.peer == a.peer) && a.overlaps(b);
                let wish = state.local.port;
                match all.bind(ns, Which::Tcp, wish, entry, free, cx.guard) {
                    Ok(port) => {
                        state.local.port = port;
                        state.bound = Some((Which::Tcp, port));
                    }
                    Err(_) => break,
                }
            } else {
                socket.publish_locked(&state, cx);
            }
            tuple.port = state.local.port;
            if all.tcp_connections.insert(ns, tuple, core, cx.guard) {
                return Ok((tuple, None));
            }
            if let Some(isn) = all.tcp_connections.take_waiting(ns, &tuple, cx)
                && all.tcp_connections.insert(ns, tuple, core, cx.guard)
            {
                return Ok((tuple, Some(isn)));
            }
            if before.0.port != 0 {
                break;
            }
            if let Some((which, port)) = state.bound.take() {
                all.remove(ns, which, port, socket, cx.guard);
            }
            state.local.port = 0;
        }
        (state.local, state.source, state.peer, state.device) = before;
        socket.publish_locked(&state, cx);
        Err(errno::EADDRNOTAVAIL)
    }

    /// Waits for connections.
    ///
    /// # Errors
    /// EINVAL if the socket is connected, EADDRINUSE.
    pub fn listen(&self, socket: &Socket, cx: &mut Cx<'_>, backlog: i32) -> Result<(), i32> {
        let core = self.core(socket);
        let backlog = (backlog as u32).min(most_waiting(socket.ns()));
        {
            let mut inner = core.lock();
            match &mut inner.kind {
                Kind::Listening(listener) => {
                    listener.set_backlog(backlog);
                    return Ok(());
                }
                Kind::Open(connection) if connection.state() != State::Closed => {
                    return Err(errno::EINVAL);
                }
                _ => {}
            }
        }
        let ns = socket.ns();
        {
            let mut state = socket.state();
            state.peer = None;
            let entry = socket.entry(&state).ok_or(errno::EINVAL)?;
            let port = state.local.port;
            let port = tables(ns).bind(ns, Which::Tcp, port, entry, conflicts, cx.guard)?;
            state.local.port = port;
            state.bound = Some((Which::Tcp, port));
        }
        let (options, device) = {
            let state = socket.state();
            (state.options.clone(), state.device)
        };
        let mut inner = core.lock();
        inner.options = options;
        inner.device = device;
        inner.take_options();
        inner.fast_open.listens();
        // `inet_csk_listen_start`
        if inner.settings.slow_ack {
            Arc::make_mut(&mut inner.settings).slow_ack = false;
        }
        inner.kind = Kind::Listening(Box::new(Listener::new(backlog)));
        core.listening.store(true, Relaxed);
        Ok(())
    }

    /// Takes a connection.
    ///
    /// # Errors
    /// EAGAIN, EINVAL.
    pub fn accept(
        &self,
        socket: &Socket,
        cx: &mut Cx<'_>,
        user: Arc<dyn User>,
    ) -> Result<Arc<Socket>, i32> {
        let core = self.core(socket);
        let child = {
            let mut inner = core.lock();
            let Kind::Listening(listener) = &mut inner.kind else {
                return Err(errno::EINVAL);
            };
            listener.accept().ok_or(errno::EAGAIN)?
        };
        let family = if socket.is_v6() { AF_INET6 } else { AF_INET };
        let tcp = Self {
            core: OnceLock::from(child.clone()),
        };
        let made = Socket::make(
            cx,
            socket.ns(),
            (family, SOCK_STREAM, IPPROTO_TCP),
            Proto::Tcp(tcp),
            user,
        );
        let mut inner = child.lock();
        inner.socket = Arc::downgrade(&made);
        let tuple = inner.tuple;
        {
            let mut state = made.state();
            state.local = Address::new(tuple.local, tuple.port);
            state.source = tuple.local;
            state.peer = Some(Address::new(tuple.remote, tuple.remote_port));
            state.options = inner.options.clone();
            state.device = inner.device;
        }
        drop(inner);
        Ok(made)
    }

    /// Queues data that come with flags.
    ///
    /// # Errors
    /// Those of [`Tcp::write`]; EOPNOTSUPP for `MSG_OOB`, EISCONN with an address.
    pub fn send(
        &self,
        socket: &Socket,
        cx: &mut Cx<'_>,
        message: &Outgoing<'_>,
    ) -> Result<usize, i32> {
        if message.flags & MSG_OOB != 0 {
            return Err(errno::EOPNOTSUPP);
        }
        if message.flags & MSG_PROBE != 0 {
            return Ok(0);
        }
        if message.flags & fast::MSG_FASTOPEN != 0 {
            return self.send_fast(socket, cx, message);
        }
        self.write_data(socket, cx, message.data, message.flags)
    }

    /// Queues data, as [`write`](Self::write).
    ///
    /// # Errors
    /// As `write`.
    pub fn write_data(
        &self,
        socket: &Socket,
        cx: &mut Cx<'_>,
        data: &[u8],
        flags: i32,
    ) -> Result<usize, i32> {
        self.write(socket, cx, data.len(), flags, &mut copy_from(data))
    }

    /// Queues `want` bytes of data, which `fill` writes. `flags` are those of `send`.
    ///
    /// # Errors
    /// EAGAIN, EPIPE, or the pending error.
    pub fn write(
        &self,
        socket: &Socket,
        cx: &mut Cx<'_>,
        want: usize,
        flags: i32,
        fill: &mut dyn FnMut([&mut [u8]; 2]) -> usize,
    ) -> Result<usize, i32> {
        let core = self.core(socket);
        let mut inner = core.lock();
        let tuple = inner.tuple;
        let Kind::Open(connection) = &mut inner.kind else {
            return Err(errno::EPIPE);
        };
        match connection.take_error() {
            0 => {}
            error => return Err(error),
        }
        if !connection.may_send() {
            return Err(errno::EPIPE);
        }
        let mut want = want;
        if connection.is_deferred() {
            want = want.min(connection.syn_room());
            connection.undefer();
        } else if connection.state() == State::SynSent {
            return Err(errno::EAGAIN);
        }
        let part = Part {
            more: flags & MSG_MORE != 0,
            ends: flags & MSG_EOR != 0,
        };
        let count = connection.send_with(cx.now, want, part, fill);
        core.settle(cx, inner, Outbox::new(cx.stack, tuple));
        match count {
            0 if want > 0 => Err(errno::EAGAIN),
            count => Ok(count),
        }
    }

    /// Passes received data on.
    ///
    /// # Errors
    /// EAGAIN, ENOTCONN, or the pending error.
    pub fn read(
        &self,
        socket: &Socket,
        cx: &mut Cx<'_>,
        take: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<usize, i32> {
        let core = self.core(socket);
        let mut inner = core.lock();
        let tuple = inner.tuple;
        let Kind::Open(connection) = &mut inner.kind else {
            return Err(errno::ENOTCONN);
        };
        if connection.readable() == 0 {
            return match connection.take_error() {
                0 if connection.at_end() => Ok(0),
                0 => Err(errno::EAGAIN),
                error => Err(error),
            };
        }
        let mut count = 0;
        for part in connection.received() {
            if part.is_empty() {
                continue;
            }
            let taken = take(part).min(part.len());
            count += taken;
            if taken < part.len() {
                break;
            }
        }
        connection.consume(cx.now, count);
        core.settle(cx, inner, Outbox::new(cx.stack, tuple));
        Ok(count)
    }

    /// Returns and clears the pending error.
    pub fn take_error(&self, socket: &Socket) -> i32 {
        match std::mem::take(&mut socket.state().error) {
            0 => {}
            error => return error,
        }
        match &mut self.core(socket).lock().kind {
            Kind::Open(connection) => connection.take_error(),
            _ => 0,
        }
    }

    /// Returns what is shown of the socket beyond the common state, at the time `now` (ns).
    pub fn figures(&self, socket: &Socket, now: u64) -> Figures {
        let core = self.core(socket);
        let connections = &tables(socket.ns()).tcp_connections;
        let config = connections.config(socket.ns());
        let inner = core.lock();
        let default = inner.settings.congestion.unwrap_or(config.congestion);
        let mut figures = Figures {
            state: CLOSE,
            queued: (0, 0),
            timer: (0, 0, 0),
            buffers: buffers(&inner, &config),
            shutdown: 0,
            congestion: default.name(),
            congestion_info: None,
            info: options::get(&inner, &config, now, options::INFO).unwrap_or_default(),
        };
        match &inner.kind {
            Kind::Idle => {}
            Kind::Listening(listener) => {
                figures.state = LISTEN;
                figures.queued = (listener.waiting() as u32, listener.backlog());
            }
            Kind::Open(connection) => {
                figures.state = connection.state() as u8;
                figures.queued = (connection.readable() as u32, connection.unacknowledged());
                let (kind, at, times) = connection.timer();
                let ms = at.saturating_sub(now) / 1_000_000;
                figures.timer = (kind, ms as u32, times);
                figures.shutdown =
                    u8::from(connection.at_end()) | u8::from(!connection.may_send()) << 1;
                figures.congestion = connection.congestion().name();
                figures.congestion_info = connection.congestion_info();
            }
        }
        figures
    }

    /// Returns what the socket is ready for.
    pub fn ready(&self, socket: &Socket) -> Ready {
        self.core(socket).ready()
    }

    /// Sets an option of `SOL_TCP`.
    ///
    /// # Errors
    /// ENOPROTOOPT, EINVAL, ENOENT.
    pub fn set_option(
        &self,
        socket: &Socket,
        cx: &mut Cx<'_>,
        name: i32,
        value: &[u8],
    ) -> Result<(), i32> {
        let core = self.core(socket);
        let config = tables(socket.ns()).tcp_connections.config(socket.ns());
        let most = most_waiting(socket.ns());
        let mut inner = core.lock();
        options::set(&mut inner, &config, socket.is_v6(), most, name, value)?;
        core.signs.store(!inner.keys.is_empty(), Relaxed);
        let (tuple, settings) = (inner.tuple, inner.settings.clone());
        if let Kind::Open(connection) = &mut inner.kind {
            connection.set(cx.now, settings);
        }
        core.settle(cx, inner, Outbox::new(cx.stack, tuple));
        Ok(())
    }

    /// Returns the largest `SO_RCVLOWAT` of a socket (`tcp_set_rcvlowat`), in bytes.
    pub fn most_low(&self, socket: &Socket) -> i32 {
        let set = {
            let state = socket.state();
            (state.options.buffers_set & 2 != 0).then_some(state.options.rcvbuf)
        };
        let most = set.unwrap_or_else(|| {
            let config = tables(socket.ns()).tcp_connections.config(socket.ns());
            config.rmem[2]
        });
        i32::try_from(most / 2).unwrap_or(i32::MAX)
    }

    /// An option of another level has changed.
    pub fn options_changed(&self, socket: &Socket, cx: &mut Cx<'_>) {
        let (options, device) = {
            let state = socket.state();
            (state.options.clone(), state.device)
        };
        let core = self.core(socket);
        let mut inner = core.lock();
        inner.options = options;
        inner.device = device;
        inner.take_options();
        let (tuple, settings) = (inner.tuple, inner.settings.clone());
        if let Kind::Open(connection) = &mut inner.kind {
            connection.set(cx.now, settings);
        }
        core.settle(cx, inner, Outbox::new(cx.stack, tuple));
    }

    /// The sizes of the receive and of the send buffer, in bytes.
    pub fn buffers(&self, socket: &Socket) -> (u32, u32) {
        let config = tables(socket.ns()).tcp_connections.config(socket.ns());
        buffers(&self.core(socket).lock(), &config)
    }

    /// Returns an option of `SOL_TCP` at the time `now` (ns).
    ///
    /// # Errors
    /// ENOPROTOOPT.
    pub fn option(&self, socket: &Socket, now: u64, name: i32) -> Result<Vec<u8>, i32> {
        let core = self.core(socket);
        let config = tables(socket.ns()).tcp_connections.config(socket.ns());
        let inner = core.lock();
        options::get(&inner, &config, now, name)
    }

    /// Returns the path MTU of a connection.
    pub fn path_mtu(&self, socket: &Socket) -> Option<u32> {
        match &self.core(socket).lock().kind {
            Kind::Open(connection) => Some(connection.mtu()),
            _ => None,
        }
    }

    /// Closes one or both directions.
    ///
    /// # Errors
    /// ENOTCONN.
    pub fn shutdown(&self, socket: &Socket, cx: &mut Cx<'_>, how: Shutdown) -> Result<(), i32> {
        let core = self.core(socket);
        let mut inner = core.lock();
        let tuple = inner.tuple;
        match &mut inner.kind {
            Kind::Open(connection) if connection.state() != State::Closed => {
                if how != Shutdown::Write {
                    connection.shutdown_receive();
                }
                if how != Shutdown::Read {
                    connection.shutdown_send();
                }
                core.settle(cx, inner, Outbox::new(cx.stack, tuple));
                Ok(())
            }
            Kind::Listening(_) => {
                drop(inner);
                if how != Shutdown::Write {
                    self.stop(socket, cx);
                }
                Ok(())
            }
            _ => Err(errno::ENOTCONN),
        }
    }

    /// Listens no more: connections that wait are reset (`inet_csk_listen_stop`).
    fn stop(&self, socket: &Socket, cx: &mut Cx<'_>) {
        let core = self.core(socket);
        core.listening.store(false, Relaxed);
        let mut inner = core.lock();
        let kind = std::mem::replace(&mut inner.kind, Kind::Idle);
        let tuple = inner.tuple;
        core.settle(cx, inner, Outbox::new(cx.stack, tuple));
        let Kind::Listening(mut listener) = kind else {
            return;
        };
        for child in listener.drain() {
            let mut inner = child.lock();
            inner.orphan = true;
            let tuple = inner.tuple;
            if let Kind::Open(connection) = &mut inner.kind {
                connection.abort(0);
            }
            child.settle(cx, inner, Outbox::new(cx.stack, tuple));
        }
    }

    /// The program has closed the socket.
    pub fn close(&self, socket: &Socket, cx: &mut Cx<'_>, reset: bool) {
        if self.is_listening() {
            self.stop(socket, cx);
        }
        let core = self.core(socket);
        let mut inner = core.lock();
        let tuple = inner.tuple;
        let linger = inner.options.linger;
        inner.orphan = true;
        let open = match &mut inner.kind {
            Kind::Open(connection) => {
                connection.close(cx.now, reset || linger.0 && linger.1 == 0);
                true
            }
            _ => false,
        };
        // No descriptor has it any more.
        let (_, uid) = socket.identity();
        socket.set_identity(0, uid);
        core.settle(cx, inner, Outbox::new(cx.stack, tuple));
        if !open {
            socket.release(cx);
        }
    }

    /// Ends the connection (`tcp_abort`).
    ///
    /// # Errors
    /// ENOENT if there is none.
    pub fn destroy(&self, socket: &Socket, cx: &mut Cx<'_>) -> Result<(), i32> {
        if self.is_listening() {
            self.stop(socket, cx);
            return Ok(());
        }
        let core = self.core(socket);
        let mut inner = core.lock();
        let tuple = inner.tuple;
        let Kind::Open(connection) = &mut inner.kind else {
            return Err(errno::ENOENT);
        };
        connection.abort(errno::ECONNABORTED);
        core.settle(cx, inner, Outbox::new(cx.stack, tuple));
        Ok(())
    }
}

/// Returns the most connections that may wait for `accept` (`net.core.somaxconn`).
fn most_waiting(ns: &Namespace) -> u32 {
    let kept = ns.kept.lock();
    let value = kept
        .get("core/somaxconn")
        .and_then(|value| value.trim().parse().ok());
    value.unwrap_or(SOMAXCONN).max(0) as u32
}

impl Inner {
    /// Takes what TCP follows of the options of other levels.
    fn take_options(&mut self) {
        let options = &self.options;
        let settings = Settings {
            keepalive: options.keepalive,
            send_buffer: (options.buffers_set & 1 != 0).then_some(options.sndbuf),
            receive_buffer: (options.buffers_set & 2 != 0).then_some(options.rcvbuf),
            receive_low: options.rcvlowat.max(1) as u32,
            max_pacing_rate: options.pacing,
            ..Settings::clone(&self.settings)
        };
        if settings != *self.settings {
            self.settings = Arc::new(settings);
        }
    }

    /// The connection will be to this peer: segments are signed if there is a key for it.
    fn signs_to(&mut self, peer: IpAddr) {
        let signed = self.keys.find(peer).is_some();
        if signed != self.settings.signed {
            Arc::make_mut(&mut self.settings).signed = signed;
        }
    }
}

/// The sizes of the receive and of the send buffer, in bytes.
fn buffers(inner: &Inner, config: &Config) -> (u32, u32) {
    match &inner.kind {
        Kind::Open(connection) => connection.buffers(),
        _ => (
            inner.settings.receive_buffer.unwrap_or(config.rmem[1]),
            inner.settings.send_buffer.unwrap_or(config.wmem[1]),
        ),
    }
}
