// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Internet, raw and packet sockets of clients: joins the descriptor of a program to a socket of the stack
//! ([`weir_socket::Socket`]).
//!
//! The program's descriptor is one end of a UNIX pair, the other end is here. A datagram that the stack receives for a
//! socket is written to the pair at once, by the CPU that received it ([`weir_intercept::datagram`]); what a program sends
//! comes as a call of its supervisor. Streams pass through the pair in both directions ([`stream`]). One thread at a time
//! watches the ends of all sockets ([`watch`]). It serves streams, and closes the sockets whose programs have closed theirs.

mod ended;
mod mapped;
mod pairs;
mod plain;
mod stream;
mod tun;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use rustix::io::Errno as Os;
use rustix::net::{SocketType, sockopt};
use weir_intercept::datagram::{Datagram, WAKE};
use weir_intercept::{Errno, InetCall, InetReply, NsId, SocketId};
use weir_socket::{Message, Outgoing, Ready, Shutdown, Socket, User};
use weir_stack::cpu::Cx;
use weir_stack::link::nlmon;

use super::{Engine, lock};
use ended::{End, Ended};
use mapped::Mapped;
use pairs::{Client, Pairs, pair};
use plain::Packets;
use stream::{Ending, Stream};

/// The sockets of all clients.
#[derive(Default)]
pub struct Inet {
    sockets: Mutex<BTreeMap<u64, Arc<Endpoint>>>,
    /// The epoll of the stack's ends; there is none before the first socket.
    watch: OnceLock<OwnedFd>,
    /// The pairs of streams.
    pairs: Pairs,
    /// Whether a supervisor watches it.
    attendance: Arc<watch::Attendance>,
    /// The streams with something to do when all programs wait, under virtual time.
    later: Mutex<BTreeSet<u64>>,
    /// What calls of the supervisor that attends wait for.
    awaited: Mutex<watch::Awaited>,
    /// Held while events are served, so that who holds it finds none half done.
    turn: Mutex<()>,
    /// The streams that the stack has closed. Locked with `sockets` held when one moves.
    ended: Mutex<Ended>,
    /// The open files of `/dev/net/tun`.
    tuns: Mutex<BTreeMap<u64, Arc<tun::TunFile>>>,
    /// Held while files are attached to devices, or detached.
    tun_changes: Mutex<()>,
}

/// A client's socket.
struct Endpoint {
    id: u64,
    ns: weir_stack::NsId,
    engine: Weak<Engine>,
    /// The stack's end of the pair, until the socket is closed. The program then sees the end even if the data path still
    /// holds the endpoint.
    wire: Mutex<Option<Arc<OwnedFd>>>,
    /// The socket, until it is closed: it has this endpoint as its user.
    socket: Mutex<Option<Arc<Socket>>>,
    /// The state of a stream.
    stream: Option<Stream>,
    /// The form of a datagram socket's packets.
    packets: Packets,
    /// The error with which a stream ended.
    error: AtomicI32,
    /// The ring of a packet socket.
    ring: Mutex<Option<Arc<Mapped>>>,
    /// The program has been told that there are frames in it.
    told: AtomicBool,
}

impl Endpoint {
    fn wire(&self) -> Option<Arc<OwnedFd>> {
        lock(&self.wire).clone()
    }

    fn socket(&self) -> Result<Arc<Socket>, Errno> {
        lock(&self.socket).clone().ok_or(Errno(libc::EBADF))
    }

    /// Makes the program's descriptor readable for something that is not a datagram.
    fn show(&self) {
        self.send(&Datagram {
            from: &[],
            control: &[],
            data: &[],
            length: 0,
            flags: WAKE,
            time: 0,
        });
    }

    /// What the socket is ready for. The supervisor has taken out of the pair what told of frames in the ring.
    fn look(&self) -> Result<Ready, Errno> {
        self.told.store(false, SeqCst);
        let ready = self.socket()?.ready();
        if ready.0 & Ready::IN != 0 && lock(&self.ring).is_some() {
            User::arrived(self);
        }
        Ok(ready)
    }

    /// Writes a packet of the pair. Returns false if there is no room.
    fn send(&self, datagram: &Datagram<'_>) -> bool {
        let Some(wire) = self.wire() else {
            return true;
        };
        let sent = self.packets.write(&wire, datagram);
        if sent.is_ok()
            && let Some(engine) = self.engine.upgrade()
        {
            engine.time.sent().fetch_add(1, SeqCst);
        }
        !matches!(sent, Err(Os::AGAIN | Os::NOBUFS | Os::MSGSIZE))
    }
}

impl User for Endpoint {
    fn message(&self, message: &Message<'_>) -> bool {
        self.send(&Datagram {
            from: message.from,
            control: message.control,
            data: message.data,
            length: message.length as u32,
            flags: message.flags as u32 & !WAKE,
            time: message.time,
        })
    }

    fn wake(&self, cx: &mut Cx<'_>, ready: Ready) {
        if self.stream.is_some() {
            self.run(cx, stream::WOKEN);
        } else if ready.0 & Ready::ERR != 0 {
            self.show();
        }
    }

    fn memory(&self, length: usize) -> Option<Arc<dyn weir_socket::Memory>> {
        let made = match length {
            0 => None,
            length => Some(Arc::new(Mapped::new(length)?)),
        };
        lock(&self.ring).clone_from(&made);
        made.map(|memory| memory as Arc<dyn weir_socket::Memory>)
    }

    fn arrived(&self) {
        if !self.told.swap(true, SeqCst) {
            self.show();
        }
    }
}

impl Engine {
    /// Serves a call of a supervisor.
    pub(super) fn serve_inet(&self, call: InetCall, bytes: &[u8]) -> Result<InetReply, Errno> {
        let _serving = self.time.serving();
        self.time.between_steps();
        self.take_frames();
        match call {
            InetCall::Open {
                ns,
                family,
                kind,
                protocol,
                device,
            } => self.open(ns, (family, kind, protocol), device),
            InetCall::OpenTun { ns } => self.open_tun(ns),
            InetCall::Tun(id, request) => self.tun_ioctl(id, request, bytes),
            InetCall::Bind(id) => {
                self.on_free_port(id, |socket, cx| socket.bind(cx, bytes).map(done))
            }
            InetCall::Connect(id) => {
                let endpoint = self.endpoint(id);
                let endpoint = endpoint.map_err(|_| lock(&self.inet.ended).connect(id.0))?;
                if endpoint.stream.is_some() {
                    return self.connect_stream(&endpoint, bytes);
                }
                self.on(id, |socket, cx| socket.connect(cx, bytes).map(done))
            }
            InetCall::Filled {
                socket,
                length,
                waits,
            } => {
                let endpoint = self.endpoint(socket)?;
                self.with_cx(|cx| endpoint.filled(cx, length, waits));
                Ok(InetReply::default())
            }
            InetCall::Listen(id, backlog) => {
                let endpoint = self.endpoint(id)?;
                let reply =
                    self.on_free_port(id, |socket, cx| socket.listen(cx, backlog).map(done))?;
                if endpoint.stream.is_some() {
                    self.with_cx(|cx| endpoint.listens(cx));
                }
                Ok(reply)
            }
            InetCall::Accept { socket, counted } => self.accept(socket, counted),
            InetCall::Send {
                socket,
                flags,
                to,
                control,
            } => {
                let invalid = Errno(libc::EINVAL);
                let (to, rest) = bytes.split_at_checked(to.into()).ok_or(invalid)?;
                let (control, data) = rest.split_at_checked(control as usize).ok_or(invalid)?;
                let message = Outgoing {
                    to,
                    control,
                    data,
                    flags,
                };
                let endpoint = self.endpoint(socket)?;
                if endpoint.stream.is_some() {
                    return match flags & libc::MSG_FASTOPEN {
                        0 => self.send_stream(&endpoint, data, flags),
                        _ => self.send_fast(&endpoint, &message),
                    };
                }
                self.take_packets(&endpoint);
                self.on(socket, |socket, cx| {
                    let length = socket.send(cx, &message)?;
                    Ok(InetReply {
                        value: length as i64,
                        ..InetReply::default()
                    })
                })
            }
            InetCall::ReceiveError(id) => {
                let endpoint = self.endpoint(id)?;
                let mut packet = None;
                endpoint.socket()?.receive_error(&mut |message| {
                    let datagram = Datagram {
                        from: message.from,
                        control: message.control,
                        data: message.data,
                        length: message.length as u32,
                        flags: message.flags as u32 & !WAKE,
                        time: message.time,
                    };
                    packet = Some(datagram.to_bytes());
                });
                packet.map(bytes_only).ok_or(Errno(libc::EAGAIN))
            }
            InetCall::Ready(id) => Ok(InetReply {
                value: self.endpoint(id)?.look()?.0.into(),
                ..InetReply::default()
            }),
            InetCall::Memory(id) => {
                let memory = lock(&self.endpoint(id)?.ring).clone();
                let memory = memory.ok_or(Errno(libc::EINVAL))?;
                Ok(InetReply {
                    value: memory.length as i64,
                    bytes: Vec::new(),
                    file: Some(memory.file.try_clone()?.into()),
                    ..InetReply::default()
                })
            }
            InetCall::LocalAddress(id) => match self.open_socket_of(id) {
                Ok(socket) => Ok(bytes_only(socket.local_address())),
                Err(error) => {
                    let ended = lock(&self.inet.ended);
                    let end = ended.get(id.0).ok_or(error)?;
                    Ok(bytes_only(end.local.clone()))
                }
            },
            InetCall::PeerAddress(id) => {
                // The stack forgets a stream that has ended.
                let socket = self.open_socket_of(id);
                let address = socket.map_err(|_| Errno(libc::ENOTCONN))?.peer_address();
                address.map(bytes_only).map_err(Errno)
            }
            InetCall::SetOption(id, level, name) => {
                let endpoint = match self.endpoint(id) {
                    Ok(endpoint) => endpoint,
                    // Nothing is left that an option could change.
                    Err(_) if lock(&self.inet.ended).get(id.0).is_some() => {
                        return Ok(InetReply::default());
                    }
                    Err(error) => return Err(error),
                };
                self.take_written(&endpoint);
                // The daemon of the namespace's multicast routes may be one that has ended.
                self.on_free_port(id, |socket, cx| {
                    socket.set_option(cx, level, name, bytes).map(done)
                })?;
                if let (Some(stream), libc::SOL_SOCKET, libc::SO_LINGER) =
                    (&endpoint.stream, level, name)
                {
                    stream.lingers(bytes);
                }
                // What is received waits in the pair, which counts it as the stack's.
                if level == libc::SOL_SOCKET
                    && matches!(name, libc::SO_RCVBUF | libc::SO_RCVBUFFORCE)
                    && let Some(size) = bytes.first_chunk()
                {
                    let size = usize::try_from(i32::from_ne_bytes(*size)).unwrap_or(0);
                    // The pair keeps its size if the host allows no other.
                    if let Some(wire) = endpoint.wire() {
                        let _ = sockopt::set_socket_send_buffer_size(&wire, size);
                    }
                }
                Ok(InetReply::default())
            }
            InetCall::Option(id, libc::SOL_SOCKET, libc::SO_ERROR) => {
                let error = self.take_error(id)?;
                Ok(bytes_only(error.to_ne_bytes().to_vec()))
            }
            InetCall::Option(id, level, name) => {
                let endpoint = match self.endpoint(id) {
                    Ok(endpoint) => endpoint,
                    Err(error) => {
                        let ended = lock(&self.inet.ended);
                        let value = ended.get(id.0).and_then(|end| end.option(level, name));
                        return value.map(bytes_only).ok_or(error);
                    }
                };
                let socket = endpoint.socket()?;
                if level == libc::SOL_TCP {
                    // TCP_INFO counts it.
                    self.take_written(&endpoint);
                }
                let value = socket.option(self.stack.clock.now(), level, name, bytes);
                value.map(bytes_only).map_err(Errno)
            }
            InetCall::Ioctl(id, request) => {
                let socket = self.endpoint(id)?.socket()?;
                let answer = self.with_cx(|cx| socket.ioctl(cx, request, bytes));
                answer.map(bytes_only).map_err(Errno)
            }
            InetCall::Hold(id) => self.hold_packets(id),
            InetCall::Plain(id) => self.make_plain(id, bytes),
            InetCall::Delivered(_) => Ok(InetReply::default()),
            InetCall::Queued(id) => {
                let endpoint = self.endpoint(id)?;
                let socket = endpoint.socket()?;
                self.take_written(&endpoint);
                if socket.is_listening() {
                    return Err(Errno(libc::EINVAL));
                }
                let (received, sent) = socket.shown(self.stack.clock.now()).queued;
                Ok(InetReply {
                    value: i64::from(sent) + endpoint.untaken() as i64,
                    bytes: received.to_ne_bytes().to_vec(),
                    ..InetReply::default()
                })
            }
            InetCall::Shutdown(id, how) => {
                let how = match how {
                    libc::SHUT_RD => Shutdown::Read,
                    libc::SHUT_WR => Shutdown::Write,
                    libc::SHUT_RDWR => Shutdown::Both,
                    _ => return Err(Errno(libc::EINVAL)),
                };
                let shut = self.on(id, |socket, cx| socket.shutdown(cx, how).map(done));
                // One without a peer is shut as well, so that those who wait for a datagram wait no longer.
                if how != Shutdown::Write
                    && matches!(shut, Ok(_) | Err(Errno(libc::ENOTCONN)))
                    && let Some(wire) = self.endpoint(id)?.wire()
                {
                    let _ = rustix::net::shutdown(&wire, rustix::net::Shutdown::Write);
                }
                shut
            }
        }
    }

    fn endpoint(&self, id: SocketId) -> Result<Arc<Endpoint>, Errno> {
        let sockets = lock(&self.inet.sockets);
        sockets.get(&id.0).cloned().ok_or(Errno(libc::EBADF))
    }

    fn open_socket_of(&self, id: SocketId) -> Result<Arc<Socket>, Errno> {
        self.endpoint(id)?.socket()
    }

    /// Takes the error of a socket, which the stack may close meanwhile.
    fn take_error(&self, id: SocketId) -> Result<i32, Errno> {
        let kept = || lock(&self.inet.ended).take_error(id.0);
        match self.open_socket_of(id) {
            Err(error) => kept().ok_or(error),
            Ok(socket) => match socket.take_error() {
                0 => Ok(kept().unwrap_or(0)),
                error => Ok(error),
            },
        }
    }

    /// Runs work on the data path, and the packets that it causes to their end.
    fn with_cx<R>(&self, work: impl FnOnce(&mut Cx<'_>) -> R) -> R {
        let mut cpu = self.cpu();
        if nlmon::waits(&self.stack) {
            cpu.settle();
        }
        let result = cpu.with(work);
        cpu.settle();
        result
    }

    fn on(
        &self,
        id: SocketId,
        work: impl FnOnce(&Socket, &mut Cx<'_>) -> Result<InetReply, i32>,
    ) -> Result<InetReply, Errno> {
        let endpoint = self.endpoint(id)?;
        let socket = endpoint.socket()?;
        self.with_cx(|cx| work(&socket, cx)).map_err(Errno)
    }

    /// As [`on`](Self::on) for a call that takes a port, or what only one socket may have. A socket that its program has
    /// closed gives it back first.
    fn on_free_port(
        &self,
        id: SocketId,
        work: impl Fn(&Socket, &mut Cx<'_>) -> Result<InetReply, i32>,
    ) -> Result<InetReply, Errno> {
        match self.on(id, &work) {
            Err(Errno(libc::EADDRINUSE)) => {
                self.serve_closed();
                self.on(id, &work)
            }
            done => done,
        }
    }

    /// Makes the endpoint of a socket that does not exist yet, and the client's descriptor.
    fn endpoint_for(
        &self,
        ns: weir_stack::NsId,
        is_stream: bool,
    ) -> Result<(Arc<Endpoint>, Client), Errno> {
        let (client, wire) = match is_stream {
            true => self.inet.pairs.take()?,
            false => pair(SocketType::SEQPACKET)?,
        };
        let endpoint = Arc::new(Endpoint {
            id: self.last_socket.fetch_add(1, Relaxed) + 1,
            ns,
            engine: self.me.clone(),
            wire: Mutex::new(Some(Arc::new(wire))),
            socket: Mutex::default(),
            stream: is_stream.then(Stream::new),
            packets: Packets::default(),
            error: AtomicI32::new(0),
            ring: Mutex::default(),
            told: AtomicBool::new(false),
        });
        Ok((endpoint, client))
    }

    fn open(
        &self,
        ns: NsId,
        (family, kind, protocol): (i32, i32, i32),
        device: u32,
    ) -> Result<InetReply, Errno> {
        let ns = self.ns(ns)?;
        let is_stream = kind == libc::SOCK_STREAM;
        let (endpoint, client) = self.endpoint_for(ns.id, is_stream)?;
        let user: Arc<dyn User> = endpoint.clone();
        let opened = self.with_cx(|cx| {
            let socket = Socket::open(cx, &ns, family, kind, protocol, user)?;
            if device != 0 {
                socket.bind_to_device(cx, device);
            }
            Ok(socket)
        });
        self.add(endpoint, opened.map_err(Errno)?, client)
    }

    /// Watches a new socket. Returns its id and the client's descriptor.
    fn add(
        &self,
        endpoint: Arc<Endpoint>,
        socket: Arc<Socket>,
        client: Client,
    ) -> Result<InetReply, Errno> {
        let id = endpoint.id;
        *lock(&endpoint.socket) = Some(socket);
        lock(&self.inet.sockets).insert(id, endpoint.clone());
        let watched = match endpoint.wire() {
            Some(wire) => {
                let stream = endpoint.stream.as_ref();
                let events = stream.map_or(stream::interest(false), Stream::first_interest);
                self.watch(id, &wire, events)
            }
            None => Err(Errno(libc::EBADF)),
        };
        if let Err(error) = watched {
            self.with_cx(|cx| self.close_endpoint(cx, &endpoint, Ending::Closed));
            return Err(error);
        }
        Ok(InetReply {
            value: id as i64,
            bytes: Vec::new(),
            file: Some(client.file),
            identity: Some(client.identity),
        })
    }

    fn accept(&self, id: SocketId, counted: bool) -> Result<InetReply, Errno> {
        let listener = self.endpoint(id)?;
        if let (Some(stream), true) = (&listener.stream, counted) {
            stream.took_one();
        }
        let socket = listener.socket()?;
        if socket.is_listening() && socket.waiting() == 0 {
            return Err(Errno(libc::EAGAIN));
        }
        let (endpoint, client) = self.endpoint_for(listener.ns, true)?;
        let user: Arc<dyn User> = endpoint.clone();
        let accepted = self.with_cx(|cx| socket.accept(cx, user)).map_err(Errno)?;
        if let Some(stream) = &endpoint.stream {
            stream.opened();
        }
        let address = accepted.peer().unwrap_or_default();
        let reply = self.add(endpoint.clone(), accepted, client)?;
        // Data may have come before the socket had its user. The held byte makes an event at once.
        self.with_cx(|cx| endpoint.run(cx, stream::WOKEN));
        Ok(InetReply {
            bytes: address,
            ..reply
        })
    }

    /// Forgets a socket and closes it in the stack.
    fn close_endpoint(&self, cx: &mut Cx<'_>, endpoint: &Endpoint, ending: Ending) {
        {
            let mut sockets = lock(&self.inet.sockets);
            if sockets.remove(&endpoint.id).is_none() {
                return;
            }
            // Who does not find it there finds it here.
            if let (Some(_), Ok(socket)) = (&endpoint.stream, endpoint.socket()) {
                let error = match endpoint.error.load(Relaxed) {
                    0 => socket.take_error(),
                    error => error,
                };
                let value =
                    |(level, name)| socket.option(cx.now, level, name, &[]).unwrap_or_default();
                let options = match error {
                    0 => Vec::new(),
                    _ => ended::KEPT.map(value).to_vec(),
                };
                let end = End {
                    error,
                    local: socket.local_address(),
                    failed: ending == Ending::Failed,
                    options,
                };
                lock(&self.inet.ended).add(endpoint.id, end);
            }
        }
        let socket = lock(&endpoint.socket).take();
        if let Some(socket) = socket {
            socket.close(cx, ending == Ending::Reset);
        }
        // Nobody watches an end that is closed.
        let wire = lock(&endpoint.wire).take();
        let has_left = endpoint.stream.as_ref().is_some_and(Stream::has_left);
        match wire {
            Some(wire) if has_left => self.inet.pairs.close(wire),
            wire => drop(wire),
        }
        self.reap(super::from_stack(endpoint.ns));
    }

    /// Returns whether a socket is open in a namespace.
    pub(super) fn has_inet_sockets(&self, ns: weir_stack::NsId) -> bool {
        lock(&self.inet.sockets)
            .values()
            .any(|endpoint| endpoint.ns == ns)
            || self.has_tun_files(ns)
    }
}

fn done((): ()) -> InetReply {
    InetReply::default()
}

fn bytes_only(bytes: Vec<u8>) -> InetReply {
    InetReply {
        bytes,
        ..InetReply::default()
    }
}
