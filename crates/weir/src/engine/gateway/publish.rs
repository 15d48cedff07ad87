// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--publish`: ports of the host that lead to ports in namespaces.
//!
//! One thread accepts the host's connections and datagrams. For each connection, and for each sender of datagrams, it opens a
//! socket of the stack in the namespace, as a program there would, and connects it to the port on the loopback address. So
//! the server inside needs no route to the outside, and `lo` has to be up.

use std::collections::{BTreeMap, HashMap};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Weak;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::net::{RecvFlags, recv, sockopt};
use weir_intercept::datagram::{Datagram, WAKE};
use weir_intercept::{Backend, Errno, InetCall, SocketId};
use weir_socket::Ready;
use weir_socket::address::{self, Address};

use crate::cli::Publish;
use crate::engine::{Engine, from_stack};

/// The most connections, and the most senders of datagrams, at a time.
const MOST: usize = 4096;
/// How long the sender of a datagram is remembered.
const SILENCE: Duration = Duration::from_secs(120);
/// How often senders of the past are looked for.
const SWEEP: Duration = Duration::from_secs(1);
/// Bytes that are taken at once from a socket, and wait at most in each direction of a connection: more than the longest
/// datagram with what the stack says of it.
const AT_MOST: usize = 68 << 10;
/// Reads and writes of one connection before it is the others' turn.
const ROUNDS: usize = 16;
/// Datagrams that are taken at once from one socket.
const AT_ONCE: usize = 64;
const EVENTS: usize = 128;

/// A published port.
enum Listener {
    Tcp(TcpListener, Publish),
    Udp(UdpSocket, Publish),
}

/// The sockets of published ports. They are bound before anything runs, so that a port in use is an error of the command.
pub struct Listeners(Vec<Listener>);

/// Binds the host's ports.
pub fn bind(all: &[Publish]) -> Result<Listeners, String> {
    let bound = all.iter().map(|one| {
        let bound = match one.udp {
            false => TcpListener::bind(one.host).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok(Listener::Tcp(listener, one.clone()))
            }),
            true => UdpSocket::bind(one.host).and_then(|socket| {
                socket.set_nonblocking(true)?;
                Ok(Listener::Udp(socket, one.clone()))
            }),
        };
        bound.map_err(|error| format!("--publish {one}: {error}"))
    });
    Ok(Listeners(bound.collect::<Result<_, _>>()?))
}

/// Starts the thread that serves the ports until the stack is gone.
pub fn start(engine: &Weak<Engine>, listeners: Listeners) -> Result<(), String> {
    let said = |error: &dyn std::fmt::Display| format!("--publish: {error}");
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| said(&error))?;
    for (at, listener) in listeners.0.iter().enumerate() {
        let socket = match listener {
            Listener::Tcp(listener, _) => listener.as_fd(),
            Listener::Udp(socket, _) => socket.as_fd(),
        };
        let data = epoll::EventData::new_u64(at as u64);
        epoll::add(&epoll, socket, data, epoll::EventFlags::IN).map_err(|error| said(&error))?;
    }
    let server = Server {
        engine: engine.clone(),
        epoll,
        next: listeners.0.len() as u64,
        listeners: listeners.0,
        pairs: BTreeMap::new(),
        senders: BTreeMap::new(),
        by_sender: HashMap::new(),
        more: Vec::new(),
        scratch: vec![0; AT_MOST],
        swept: Instant::now(),
    };
    let thread = std::thread::Builder::new().name("weir-publish".into());
    thread
        .spawn(move || server.serve())
        .map_err(|error| said(&error))?;
    Ok(())
}

/// One direction of a connection.
#[derive(Default)]
struct Way {
    /// What has been read and did not find room.
    rest: Vec<u8>,
    ended: bool,
    shut: bool,
}

impl Way {
    /// Moves what can be moved, by way of `scratch`. Returns whether anything was, or that the connection is broken.
    fn step(
        &mut self,
        from: &mut impl Read,
        to: &mut impl Write,
        scratch: &mut [u8],
        shut: impl FnOnce(),
    ) -> Result<bool, ()> {
        let mut moved = 0;
        if !self.rest.is_empty() {
            moved = attempt(|| to.write(&self.rest))?.unwrap_or(0);
            self.rest.drain(..moved);
        } else if !self.ended
            && let Some(count) = attempt(|| from.read(scratch))?
        {
            let data = scratch.get(..count).unwrap_or_default();
            self.ended = data.is_empty();
            if !self.ended {
                moved = attempt(|| to.write(data))?.unwrap_or(0);
                self.rest = data.get(moved..).unwrap_or_default().to_vec();
            }
        }
        if self.rest.is_empty() && self.ended && !self.shut {
            self.shut = true;
            shut();
        }
        Ok(moved > 0)
    }
}

/// Does a call that does not block. Returns the number of bytes, nothing if it would have to wait, or an error if the
/// connection is broken.
fn attempt(mut call: impl FnMut() -> std::io::Result<usize>) -> Result<Option<usize>, ()> {
    loop {
        match call() {
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(()),
        }
    }
}

/// A connection of the host, and the one in the namespace.
struct Pair {
    host: TcpStream,
    inside: UnixStream,
    /// The handshake in the namespace, while it is not known to be over.
    opening: Option<Opening>,
    inward: Way,
    outward: Way,
}

/// A handshake in a namespace.
struct Opening {
    id: SocketId,
    /// The listener that has accepted the host's connection.
    listener: usize,
    /// The addresses that are still to be tried.
    left: &'static [IpAddr],
}

/// What follows for a pair.
enum Next {
    /// There is more to move.
    More,
    /// It waits for an event.
    Wait,
    Over,
}

impl Pair {
    /// Moves what can be moved, but not without end.
    fn run(&mut self, scratch: &mut [u8]) -> Next {
        let Self {
            host,
            inside,
            inward,
            outward,
            ..
        } = self;
        for _ in 0..ROUNDS {
            // The other end may be gone; the next read says so.
            let moved_in = inward.step(&mut &*host, &mut &*inside, scratch, || {
                let _ = inside.shutdown(std::net::Shutdown::Write);
            });
            let moved_out = outward.step(&mut &*inside, &mut &*host, scratch, || {
                let _ = host.shutdown(std::net::Shutdown::Write);
            });
            match (moved_in, moved_out) {
                (Ok(false), Ok(false)) if inward.shut && outward.shut => return Next::Over,
                (Ok(false), Ok(false)) => return Next::Wait,
                (Ok(_), Ok(_)) => {}
                _ => {
                    // A reset on one side is a reset on the other: data that the stack has not read become one.
                    reset(host);
                    return Next::Over;
                }
            }
        }
        Next::More
    }
}

/// Has a connection of the host end with a reset when it is closed.
fn reset(host: &TcpStream) {
    let _ = sockopt::set_socket_linger(host, Some(Duration::ZERO));
}

/// A sender of datagrams, and its socket in the namespace.
struct Sender {
    listener: usize,
    from: SocketAddr,
    id: SocketId,
    inside: OwnedFd,
    last: Instant,
}

struct Server {
    engine: Weak<Engine>,
    epoll: OwnedFd,
    listeners: Vec<Listener>,
    /// The token of the next connection or sender.
    next: u64,
    pairs: BTreeMap<u64, Pair>,
    senders: BTreeMap<u64, Sender>,
    by_sender: HashMap<(usize, SocketAddr), u64>,
    /// Pairs that can move more at once.
    more: Vec<u64>,
    scratch: Vec<u8>,
    /// When senders of the past were last looked for.
    swept: Instant,
}

/// The addresses of a namespace's loopback, in the order in which they are tried.
const LOOPBACK: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

/// Opens a socket in the namespace of a published port and begins to connect it to the port on an address of the loopback.
/// The end of a handshake that goes on is an event of the descriptor.
fn open(
    engine: &Engine,
    port: &Publish,
    kind: i32,
    ip: IpAddr,
) -> Result<(SocketId, OwnedFd), Errno> {
    let ns = match engine.namespace(port.netns.as_deref()) {
        Some(ns) => from_stack(ns.id),
        None => return Err(Errno(libc::ENETUNREACH)),
    };
    let call = InetCall::Open {
        ns,
        family: match ip {
            IpAddr::V4(_) => libc::AF_INET,
            IpAddr::V6(_) => libc::AF_INET6,
        },
        kind,
        protocol: 0,
        device: 0,
    };
    let reply = engine.inet(call, &[])?;
    let id = SocketId(reply.value as u64);
    let file = reply.file.ok_or(Errno(libc::EMFILE))?;
    let to = address::write(ip.is_ipv6(), &Address::new(ip, port.port));
    match engine.inet(InetCall::Connect(id), to.get()) {
        Ok(_) => {}
        Err(Errno(libc::EINPROGRESS)) => {
            // The byte stands for the filling of a full send buffer: the stack takes it out when the handshake is over.
            rustix::io::write(&file, &[0]).map_err(|error| Errno(error.raw_os_error()))?;
            let filled = InetCall::Filled {
                socket: id,
                length: 1,
                waits: false,
            };
            engine.inet(filled, &[])?;
        }
        Err(error) => return Err(error),
    }
    Ok((id, file))
}

/// How far a handshake in a namespace is.
enum Handshake {
    GoesOn,
    Done,
    Failed,
}

fn handshake(engine: &Engine, id: SocketId) -> Handshake {
    // The stack forgets a socket that has failed.
    let ready = match engine.inet(InetCall::Ready(id), &[]) {
        Ok(reply) => reply.value as u16,
        Err(_) => return Handshake::Failed,
    };
    match (ready & (Ready::ERR | Ready::HUP), ready & Ready::OUT) {
        (0, 0) => Handshake::GoesOn,
        (0, _) => Handshake::Done,
        _ => Handshake::Failed,
    }
}

fn watch(epoll: &OwnedFd, socket: BorrowedFd<'_>, token: u64) -> bool {
    let events = epoll::EventFlags::IN
        | epoll::EventFlags::OUT
        | epoll::EventFlags::RDHUP
        | epoll::EventFlags::ET;
    epoll::add(epoll, socket, epoll::EventData::new_u64(token), events).is_ok()
}

impl Server {
    fn serve(mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let more = std::mem::take(&mut self.more);
            let limit = Timespec {
                tv_sec: more.is_empty().into(),
                tv_nsec: 0,
            };
            events.clear();
            let spare = rustix::buffer::spare_capacity(&mut events);
            // A signal ends the wait.
            let _ = epoll::wait(&self.epoll, spare, Some(&limit));
            let Some(engine) = self.engine.upgrade() else {
                return;
            };
            if engine.is_stopping() {
                return;
            }
            let tokens = events.iter().map(|event: &epoll::Event| event.data.u64());
            for token in tokens.chain(more) {
                self.event(&engine, token);
            }
            if self.swept.elapsed() >= SWEEP {
                self.sweep();
            }
        }
    }

    /// Forgets senders that have been silent for long.
    fn sweep(&mut self) {
        self.swept = Instant::now();
        self.senders.retain(|_, sender| {
            let alive = sender.last.elapsed() < SILENCE;
            if !alive {
                self.by_sender.remove(&(sender.listener, sender.from));
            }
            alive
        });
    }

    fn event(&mut self, engine: &Engine, token: u64) {
        if let Some(pair) = self.pairs.remove(&token) {
            self.serve_pair(engine, token, pair);
        } else if self.senders.contains_key(&token) {
            self.answer(token);
        } else {
            match self.listeners.get(token as usize) {
                Some(Listener::Tcp(..)) => self.accept(engine, token as usize),
                Some(Listener::Udp(..)) => self.receive(engine, token as usize),
                None => {}
            }
        }
    }

    fn token(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn accept(&mut self, engine: &Engine, at: usize) {
        loop {
            let Some(Listener::Tcp(listener, _)) = self.listeners.get(at) else {
                return;
            };
            let host = match listener.accept() {
                Ok((host, _)) => host,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return,
                    // The connection waits in the host's queue until there are descriptors and memory again.
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                        std::thread::sleep(Duration::from_millis(10));
                        return;
                    }
                    // The connection was over before it was accepted.
                    _ => continue,
                },
            };
            if self.pairs.len() >= MOST {
                reset(&host);
                continue;
            }
            self.join(engine, at, host, &LOOPBACK);
        }
    }

    /// Joins a connection of the host with one to the first of these addresses in the namespace where a server listens. The
    /// client sees a refusal as a reset, since the host has accepted already.
    fn join(&mut self, engine: &Engine, at: usize, host: TcpStream, addresses: &'static [IpAddr]) {
        let (Some(Listener::Tcp(_, port)), Some((ip, left))) =
            (self.listeners.get(at), addresses.split_first())
        else {
            return reset(&host);
        };
        let Ok((id, inside)) = open(engine, port, libc::SOCK_STREAM, *ip) else {
            return self.join(engine, at, host, left);
        };
        let inside = UnixStream::from(inside);
        let token = self.token();
        let ready = inside.set_nonblocking(true).is_ok()
            && host.set_nonblocking(true).is_ok()
            && watch(&self.epoll, host.as_fd(), token)
            && watch(&self.epoll, inside.as_fd(), token);
        if !ready {
            return reset(&host);
        }
        let _ = host.set_nodelay(true);
        let pair = Pair {
            host,
            inside,
            opening: Some(Opening {
                id,
                listener: at,
                left,
            }),
            inward: Way::default(),
            outward: Way::default(),
        };
        self.serve_pair(engine, token, pair);
    }

    /// Serves a pair, which is kept if it goes on.
    fn serve_pair(&mut self, engine: &Engine, token: u64, mut pair: Pair) {
        if let Some(opening) = &pair.opening {
            match handshake(engine, opening.id) {
                Handshake::Done => pair.opening = None,
                Handshake::GoesOn => {
                    self.pairs.insert(token, pair);
                    return;
                }
                Handshake::Failed => {
                    let Opening { listener, left, .. } = *opening;
                    // With the next address it has another token.
                    let _ = epoll::delete(&self.epoll, &pair.host);
                    return self.join(engine, listener, pair.host, left);
                }
            }
        }
        match pair.run(&mut self.scratch) {
            Next::More => self.more.push(token),
            Next::Wait => {}
            Next::Over => return,
        }
        self.pairs.insert(token, pair);
    }

    /// Passes datagrams of the host on.
    fn receive(&mut self, engine: &Engine, at: usize) {
        for _ in 0..AT_ONCE {
            let Some(Listener::Udp(socket, port)) = self.listeners.get(at) else {
                return;
            };
            let Ok((length, from)) = socket.recv_from(&mut self.scratch) else {
                // Nothing waits, or an error of an earlier answer is reported.
                return;
            };
            let token = match self.by_sender.get(&(at, from)) {
                Some(token) => *token,
                None => {
                    if self.senders.len() >= MOST {
                        continue;
                    }
                    let Ok((id, inside)) = open(engine, port, libc::SOCK_DGRAM, LOOPBACK[0]) else {
                        continue;
                    };
                    let token = self.token();
                    if !watch(&self.epoll, inside.as_fd(), token) {
                        continue;
                    }
                    let sender = Sender {
                        listener: at,
                        from,
                        id,
                        inside,
                        last: Instant::now(),
                    };
                    self.senders.insert(token, sender);
                    self.by_sender.insert((at, from), token);
                    token
                }
            };
            if let Some(sender) = self.senders.get_mut(&token) {
                sender.last = Instant::now();
                let call = InetCall::Send {
                    socket: sender.id,
                    flags: 0,
                    to: 0,
                    control: 0,
                };
                // A server that is not there loses the datagram, as anywhere.
                let data = self.scratch.get(..length).unwrap_or_default();
                let _ = engine.inet(call, data);
            }
        }
    }

    /// Passes the answers of a server on to the sender.
    fn answer(&mut self, token: u64) {
        let Some(sender) = self.senders.get_mut(&token) else {
            return;
        };
        loop {
            match recv(&sender.inside, &mut self.scratch[..], RecvFlags::DONTWAIT) {
                Ok((length @ 1.., _)) => {
                    let packet = self.scratch.get(..length).unwrap_or_default();
                    let Some(datagram) =
                        Datagram::parse(packet).filter(|datagram| datagram.flags & WAKE == 0)
                    else {
                        continue;
                    };
                    sender.last = Instant::now();
                    if let Some(Listener::Udp(socket, _)) = self.listeners.get(sender.listener) {
                        // What the host does not take is lost, as anywhere.
                        let _ = socket.send_to(datagram.data, sender.from);
                    }
                }
                Ok(_) => {
                    // The stack has closed the socket: its namespace is gone.
                    self.by_sender.remove(&(sender.listener, sender.from));
                    self.senders.remove(&token);
                    return;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}
