// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Internet, raw and packet sockets of clients, which the stack serves.
//!
//! The client's descriptor is one end of a UNIX pair that the stack makes.
//!
//! | socket | pair | native | stops |
//! |---|---|---|---|
//! | stream | `SOCK_STREAM` ([`stream`]) | `read`, `write`, `send`, `recv`, `poll`, `shutdown`, `dup`, `close` | `connect`, `listen`, `accept`, names, options; `sendmsg`, `recvmsg`, which mostly go on ([`counted`]) |
//! | datagram, raw, packet | `SOCK_SEQPACKET` ([`datagram`]) | `poll`, `close` | all other calls; `mmap` of a ring ([`mapped`]) |
//! | the same, plain ([`plain`]) | `SOCK_SEQPACKET` | also `read`, `write`, `recv`, `send` | all other calls |
//!
//! A filter sees only the number of a descriptor. Therefore datagram sockets get numbers of
//! [`SOCKET_FDS`](crate::filter::SOCKET_FDS), or of [`HIGH_FDS`](crate::filter::HIGH_FDS) when those are taken. One that a
//! client has at another number, by `dup2` or `SCM_RIGHTS`, becomes plain.
//!
//! A call that has to wait is parked ([`super::parked`]).
//!
//! XDP and vsock sockets fail with EAFNOSUPPORT. The options of iptables and its relatives fail with ENOPROTOOPT, as
//! without their modules; a message on standard error, once per program, says so.
//!
//! Not served: an error of a datagram socket in `select` and `epoll`, which show it as data ([`poll`]); `SO_LINGER` with a
//! time to wait; reads and writes of streams without a connection, other than those that stop ([`idle`]).
mod counted;
mod datagram;
mod file;
mod idle;
mod mapped;
mod plain;
mod poll;
mod splice;
mod stream;

use super::message::MAX_ADDRESS;
use super::option::KIND_MASK;
use super::{Handled, Supervisor, own_key};
use crate::backend::{Errno, InetCall, InetReply, SocketId};
use crate::filter::{HIGH_FDS, SOCKET_FDS};
use crate::seccomp::{Answer, Call};
use crate::sys;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};

pub(crate) use datagram::STAMPS;
pub(super) use idle::Idle;
pub(super) use mapped::Swapped;
pub(crate) use poll::MOST as MOST_POLLED;
pub(super) use stream::Connecting;

/// The number of sockets at which those that are closed are looked for.
const MANY_SOCKETS: usize = 4096;
/// `IP_PROTOCOL` of linux/in.h.
const IP_PROTOCOL: i32 = 52;
/// `TCP_INQ` of linux/tcp.h, and `TCP_CM_INQ`.
const TCP_INQ: i32 = 36;
/// The options of multicast routing daemons (`MRT_BASE` to `MRT_MAX`, `MRT6_BASE` to `MRT6_MAX`).
const MROUTE: RangeInclusive<i32> = 200..=212;
/// `MRT_ADD_VIF`
const MRT_ADD_VIF: i32 = 202;
/// The longest value of an option, in bytes.
const MAX_OPTION: usize = 1 << 16;

/// A client's internet, raw or packet socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct InetSocket {
    pub(super) id: SocketId,
    pub(super) family: i32,
    pub(super) kind: i32,
    pub(super) protocol: i32,
}

impl InetSocket {
    pub(super) fn is_stream(&self) -> bool {
        self.kind == libc::SOCK_STREAM
    }
}

const NO_FAMILY: &str = "XDP and vsock sockets are not served";
/// `PACKET_RX_RING`
const PACKET_RX_RING: i32 = 5;
const NO_TUNNEL_VIF: &str = "multicast routing makes no tunnels for VIFs (VIFF_TUNNEL); a VIF may have a tunnel device that exists";
/// The message for every way to ask for the tables of netfilter.
pub(super) const NO_NETFILTER: &str = "the stack has no tables of netfilter: no nft, iptables or ipset; tc filters can drop and change packets, and tc's ct tracks connections";

/// Returns whether an option addresses the tables of netfilter.
fn is_of_netfilter(level: i32, option: i32) -> bool {
    match level {
        libc::IPPROTO_IP => option >= 64 && option != IP_PROTOCOL && !MROUTE.contains(&option),
        libc::IPPROTO_IPV6 => matches!(option, 64 | 65 | 68 | 69),
        _ => false,
    }
}

/// Returns whether an option asks for a VIF that is a tunnel (`VIFF_TUNNEL`), which multicast routing does not have.
fn is_tunnel_vif(level: i32, option: i32, value: &[u8]) -> bool {
    (level, option) == (libc::IPPROTO_IP, MRT_ADD_VIF) && value.get(2) == Some(&1)
}

/// Reads the address argument of a call.
fn address(call: &Call, at: u64, length: u64) -> Result<Vec<u8>, Errno> {
    let length = usize::try_from(length as i32).map_err(|_| Errno(libc::EINVAL))?;
    if length > MAX_ADDRESS {
        return Err(Errno(libc::EINVAL));
    }
    bytes(call, at, length)
}

/// Reads memory of the caller.
fn bytes(call: &Call, at: u64, length: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; length];
    if length > 0 && sys::read_memory(call.tid, at, &mut bytes)? < length {
        return Err(Errno(libc::EFAULT));
    }
    Ok(bytes)
}

impl Supervisor {
    /// Serves `socket` of a family that would reach an outside network.
    pub(super) fn inet_socket(&mut self, call: &Call) -> Handled {
        let (family, flags, protocol) = (call.int(0), call.int(1), call.int(2));
        if matches!(family, libc::AF_XDP | libc::AF_VSOCK) {
            self.say_once(call, "network", NO_FAMILY);
            return Err(Errno(libc::EAFNOSUPPORT));
        }
        let ns = self.namespace(call.tid);
        let kind = flags & KIND_MASK;
        if flags & !(KIND_MASK | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0 {
            return Err(Errno(libc::EINVAL));
        }
        let device = match family {
            libc::AF_INET | libc::AF_INET6 => self.device_by_cgroup(call.tid),
            _ => 0,
        };
        let open = InetCall::Open {
            ns,
            family,
            kind,
            protocol,
            device,
        };
        // The socket of a caller that has died closes, since nobody gets its descriptor.
        let reply = self.inet(open, &[]).inspect_err(|error| {
            self.say_if_gone(call, *error);
        })?;
        if kind == libc::SOCK_STREAM {
            let id = SocketId(reply.value as u64);
            self.sockets.idle.insert(id, Idle::New);
        }
        if self.attendant.is_none() && self.setup.waits.is_none() {
            self.attendant = self.backend.attend();
        }
        let protocol = match (family, kind, protocol) {
            (libc::AF_INET | libc::AF_INET6, libc::SOCK_STREAM, 0) => libc::IPPROTO_TCP,
            (libc::AF_INET | libc::AF_INET6, libc::SOCK_DGRAM, 0) => libc::IPPROTO_UDP,
            _ => protocol,
        };
        let socket = InetSocket {
            id: SocketId(reply.value as u64),
            family,
            kind,
            protocol,
        };
        self.give_out(call, socket, reply, flags)
    }

    /// Gives a new socket to the caller. `flags` are those of `socket` or `accept4`.
    fn give_out(
        &mut self,
        call: &Call,
        socket: InetSocket,
        reply: InetReply,
        flags: i32,
    ) -> Handled {
        let file = reply.file.ok_or(Errno(libc::EPROTO))?;
        if flags & libc::SOCK_NONBLOCK != 0 {
            sys::set_nonblocking(file.as_fd())?;
        }
        let key = reply.identity.map_or_else(|| own_key(&file), Ok)?;
        self.forget_closed();
        self.sockets.inet.insert(key, socket);
        let close_on_exec = flags & libc::SOCK_CLOEXEC != 0;
        if socket.is_stream() {
            return self.listener.answer_here(call, file, close_on_exec);
        }
        self.hand_out_trapped(call, &file, close_on_exec)
    }

    /// Forgets the sockets that the stack does not know any more, once there are twice as many as the last time.
    fn forget_closed(&mut self) {
        let sockets = &mut self.sockets;
        if sockets.inet.len() < sockets.prune_inet_at.max(MANY_SOCKETS) {
            return;
        }
        let backend = &self.backend;
        for ids in [&mut sockets.rings, &mut sockets.plain, &mut sockets.counted] {
            ids.retain(|id| backend.inet(InetCall::Ready(*id), &[]).is_ok());
        }
        sockets
            .idle
            .retain(|id, _| backend.inet(InetCall::Ready(*id), &[]).is_ok());
        sockets
            .inet
            .retain(|_, socket| backend.inet(InetCall::Ready(socket.id), &[]).is_ok());
        sockets.prune_inet_at = sockets.inet.len() * 2;
    }

    /// Gives a descriptor to the caller at a number at which all calls stop.
    fn hand_out_trapped(&mut self, call: &Call, file: &OwnedFd, close_on_exec: bool) -> Handled {
        // A program with thousands of sockets fills the high numbers one after the other.
        let (low, high) = (SOCKET_FDS, HIGH_FDS);
        let next = self.sockets.next_high.clamp(high.start, high.end - 1);
        for numbers in [low, next..high.end, high.start..next] {
            for number in numbers {
                if number >= high.start {
                    self.sockets.next_high = number + 1;
                }
                let path = format!("/proc/{}/fd/{number}", call.tid);
                if std::fs::symlink_metadata(path).is_ok() {
                    continue;
                }
                match self
                    .listener
                    .answer_with(call, file.as_fd(), close_on_exec, Some(number))
                {
                    Ok(sent) => return Ok(sent),
                    // Above the caller's limit of open files. Lower numbers may be free again.
                    Err(Errno(libc::EBADF | libc::EMFILE)) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Err(Errno(libc::EMFILE))
    }

    /// Returns the socket that a caller's descriptor is.
    pub(super) fn inet_of(&mut self, call: &Call) -> Option<InetSocket> {
        if self.sockets.inet.is_empty() {
            return None;
        }
        let key = self.first_key(call).ok()?;
        let socket = self.sockets.inet.get(&key).copied()?;
        self.make_plain_at(call, call.int(0), socket);
        Some(socket)
    }

    /// Calls the stack.
    fn inet(&self, request: InetCall, bytes: &[u8]) -> Result<InetReply, Errno> {
        self.backend.inet(request, bytes)
    }

    /// A call that takes a port. The socket of a caller that was killed while it waited is closed first.
    fn on_free_port(&mut self, request: InetCall, bytes: &[u8]) -> Result<InetReply, Errno> {
        match self.inet(request, bytes) {
            Err(Errno(libc::EADDRINUSE)) if self.forget_dead() => self.inet(request, bytes),
            done => done,
        }
    }

    /// Serves `bind`.
    pub(super) fn inet_bind(&mut self, call: &Call, socket: InetSocket) -> Handled {
        let address = address(call, call.args[1], call.args[2])?;
        self.still_waiting(call)?;
        self.on_free_port(InetCall::Bind(socket.id), &address)?;
        Ok(Answer::Value(0))
    }

    /// Serves `connect`.
    pub(super) fn inet_connect(&mut self, call: &Call, socket: InetSocket) -> Handled {
        let address = address(call, call.args[1], call.args[2])?;
        self.still_waiting(call)?;
        if socket.is_stream() {
            return self.connect_stream(call, socket, &address);
        }
        self.inet(InetCall::Connect(socket.id), &address)?;
        Ok(Answer::Value(0))
    }

    /// Serves `listen`.
    pub(super) fn listen(&mut self, call: &Call) -> Handled {
        let Some(socket) = self.inet_of(call) else {
            return Ok(Answer::Continue);
        };
        self.still_waiting(call)?;
        self.on_free_port(InetCall::Listen(socket.id, call.int(1)), &[])?;
        self.sockets.idle.insert(socket.id, Idle::Listening);
        Ok(Answer::Value(0))
    }

    /// Serves `shutdown`. That of a stream with a connection is native: the stack sees it at its end.
    pub(super) fn shutdown(&mut self, call: &Call) -> Handled {
        match self.inet_of(call) {
            Some(socket) if !socket.is_stream() => {
                self.inet(InetCall::Shutdown(socket.id, call.int(1)), &[])?;
                Ok(Answer::Value(0))
            }
            Some(socket) if matches!(call.int(1), libc::SHUT_RD..=libc::SHUT_RDWR) => {
                if self.is_new(socket.id) {
                    return Err(Errno(libc::ENOTCONN));
                }
                match self.inet(InetCall::Ready(socket.id), &[]) {
                    // The stack forgets a stream that has ended.
                    Ok(reply) if reply.value == idle::READY => Err(Errno(libc::ENOTCONN)),
                    Err(Errno(libc::EBADF)) => Err(Errno(libc::ENOTCONN)),
                    _ => Ok(Answer::Continue),
                }
            }
            _ => Ok(Answer::Continue),
        }
    }

    /// Serves `dup` and `fcntl(F_DUPFD)`: the duplicate of a datagram socket needs a number at which calls stop.
    pub(super) fn duplicate_socket(&mut self, call: &Call) -> Handled {
        match self.inet_of(call) {
            Some(socket) if !socket.is_stream() => {
                let file = self.duplicate(call)?;
                self.still_waiting(call)?;
                let close_on_exec =
                    call.number == libc::SYS_fcntl && call.int(1) == libc::F_DUPFD_CLOEXEC;
                self.hand_out_trapped(call, &file, close_on_exec)
            }
            _ => Ok(Answer::Continue),
        }
    }

    /// Serves `getsockname` and `getpeername`.
    pub(super) fn inet_name(&mut self, call: &Call, request: InetCall) -> Handled {
        let address = self.inet(request, &[])?.bytes;
        super::socket::write_address(call, &address)
    }

    /// Serves `setsockopt`.
    pub(super) fn set_inet_option(&mut self, call: &Call, socket: InetSocket) -> Handled {
        let (level, name) = (call.int(1), call.int(2));
        if is_of_netfilter(level, name) {
            self.say_once(call, "netfilter", NO_NETFILTER);
            return Err(Errno(libc::ENOPROTOOPT));
        }
        let length = usize::try_from(call.int(4)).map_err(|_| Errno(libc::EINVAL))?;
        if length > MAX_OPTION {
            return Err(Errno(libc::EINVAL));
        }
        if level == libc::SOL_SOCKET && is_native(name) {
            return Ok(Answer::Continue);
        }
        if socket.is_stream() && (level, name) == (libc::SOL_TCP, TCP_INQ) {
            return self.set_counted(call, socket, length);
        }
        let value = match (level, name) {
            // The program's instructions are behind a pointer.
            (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER) => program(call)?,
            _ => bytes(call, call.args[3], length)?,
        };
        self.still_waiting(call)?;
        if is_tunnel_vif(level, name, &value) {
            self.say_once(call, "tunnel vif", NO_TUNNEL_VIF);
        }
        self.inet(InetCall::SetOption(socket.id, level, name), &value)?;
        if (level, name) == (libc::SOL_PACKET, PACKET_RX_RING) {
            self.sockets.rings.insert(socket.id);
        }
        Ok(Answer::Value(0))
    }

    /// Serves `getsockopt`.
    pub(super) fn inet_option(&mut self, call: &Call, socket: InetSocket) -> Handled {
        let (level, name) = (call.int(1), call.int(2));
        if is_of_netfilter(level, name) {
            self.say_once(call, "netfilter", NO_NETFILTER);
            return Err(Errno(libc::ENOPROTOOPT));
        }
        if level == libc::SOL_SOCKET {
            if is_native(name) {
                return Ok(Answer::Continue);
            }
            let value = match name {
                libc::SO_DOMAIN => Some(socket.family),
                libc::SO_PROTOCOL => Some(socket.protocol),
                libc::SO_TYPE => Some(socket.kind),
                _ => None,
            };
            if let Some(value) = value {
                return super::option::write_option(call, value);
            }
        }
        if socket.is_stream() && (level, name) == (libc::SOL_TCP, TCP_INQ) {
            let on = self.sockets.counted.contains(&socket.id);
            return super::option::write_option(call, on.into());
        }
        let room = i32::from_ne_bytes(sys::read_array(call.tid, call.args[4])?);
        let room = usize::try_from(room).map_err(|_| Errno(libc::EINVAL))?;
        let room = room.min(MAX_OPTION);
        // What some options find in the buffer selects what they return.
        let before = bytes(call, call.args[3], room).unwrap_or_default();
        let request = InetCall::Option(socket.id, level, name);
        let value = match self.inet(request, &before) {
            Ok(reply) => reply.bytes,
            // The stack has forgotten a stream that was reset; its error is the pair's.
            Err(Errno(libc::EBADF)) if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR) => {
                return Ok(Answer::Continue);
            }
            Err(error) => return Err(error),
        };
        if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR)
            && socket.is_stream()
            && value.iter().any(|byte| *byte != 0)
        {
            // The pair has one of its own, which is the same.
            sys::clear_error(self.duplicate(call)?.as_fd());
        }
        let n = value.len().min(room);
        sys::write_memory(call.tid, call.args[3], &value[..n])?;
        sys::write_memory(call.tid, call.args[4], &(n as u32).to_ne_bytes())?;
        Ok(Answer::Value(0))
    }
}

/// Returns the length of the structure of an ioctl of a raw socket's protocol (`SIOCPROTOPRIVATE`) in bytes:
/// `SIOCGETVIFCNT`, `SIOCGETSGCNT`, `SIOCGETMIFCNT_IN6`, `SIOCGETSGCNT_IN6`.
fn protocol_ioctl_length(request: u32, family: i32) -> Option<usize> {
    match (request, family) {
        (0x89e0, libc::AF_INET | libc::AF_INET6) => Some(40),
        (0x89e1, libc::AF_INET) => Some(32),
        (0x89e1, libc::AF_INET6) => Some(80),
        _ => None,
    }
}

impl Supervisor {
    /// Serves an ioctl that belongs to the protocol of a socket. Returns `None` if it is another.
    pub(super) fn protocol_ioctl(&mut self, call: &Call) -> Option<Handled> {
        let request = call.args[1] as u32;
        // Most ioctls are others.
        protocol_ioctl_length(request, libc::AF_INET)?;
        let socket = self.inet_of(call)?;
        let length = protocol_ioctl_length(request, socket.family)?;
        (socket.kind == libc::SOCK_RAW).then(|| {
            let given = bytes(call, call.args[2], length)?;
            self.still_waiting(call)?;
            let answer = self
                .inet(InetCall::Ioctl(socket.id, request), &given)?
                .bytes;
            sys::write_memory(call.tid, call.args[2], &answer)?;
            Ok(Answer::Value(0))
        })
    }
}

/// Returns whether the kernel serves an option of SOL_SOCKET on the pair itself: the times that calls wait.
fn is_native(name: i32) -> bool {
    matches!(
        name,
        libc::SO_RCVTIMEO | libc::SO_SNDTIMEO | 66 | 67 // SO_RCVTIMEO_NEW, SO_SNDTIMEO_NEW
    )
}

/// Reads a struct sock_fprog, with the instructions behind it.
fn program(call: &Call) -> Result<Vec<u8>, Errno> {
    let head: [u8; 16] = sys::read_array(call.tid, call.args[3])?;
    let count = usize::from(u16::from_ne_bytes([head[0], head[1]]));
    let at = head[8..]
        .first_chunk()
        .map_or(0, |at| u64::from_ne_bytes(*at));
    let instructions = bytes(call, at, count * 8)?;
    Ok([&head[..], &instructions].concat())
}
