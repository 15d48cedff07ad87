// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams: connections that begin, and those that are accepted. Data stop only where a send has `MSG_MORE`, `MSG_EOR` or
//! an address.
//!
//! `poll` may not say that a stream is writable before its handshake is over. The supervisor therefore fills the client's
//! send buffer, and the stack takes the filling out at the end of the handshake. A listening socket is readable exactly
//! while a connection waits: the stack writes one byte for each, which `accept` takes out again. It writes none for one that a
//! call waits for, if this thread has made it ([`Attendant::arrived`](crate::Attendant::arrived)).
use super::super::message::{Longer, Place};
use super::super::parked::Waiting;
use super::{Handled, Idle, InetSocket, Supervisor};
use crate::backend::{Errno, InetCall, SocketId};
use crate::seccomp::{Answer, Call};
use crate::sys;
use std::os::fd::{AsFd, OwnedFd};

/// How much is written at once to fill a send buffer, in bytes.
const FILLING: usize = 16 << 10;

/// The most streams whose callers of `connect` are remembered.
const MOST_BEGINNING: usize = 4096;

/// Flags of a send that the pair would lose.
const SPECIAL: i32 = libc::MSG_EOR | libc::MSG_MORE;

/// A stream whose caller waits for the end of the handshake.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Connecting {
    socket: SocketId,
    /// For a send with `MSG_FASTOPEN`: how many bytes have gone with the SYN. The others follow.
    sent: Option<usize>,
}

impl Supervisor {
    /// Serves `connect` of a stream.
    pub(super) fn connect_stream(
        &mut self,
        call: &Call,
        socket: InetSocket,
        address: &[u8],
    ) -> Handled {
        let begun = self.inet(InetCall::Connect(socket.id), address);
        match &begun {
            Ok(_) if is_unspecified(address) => {
                self.sockets.idle.insert(socket.id, Idle::New);
            }
            Ok(_) | Err(Errno(libc::EINPROGRESS)) => {
                self.sockets.idle.remove(&socket.id);
            }
            Err(_) => {}
        }
        match begun {
            // A call that may not block never sees the end of a handshake, however short, as on Linux.
            Ok(reply)
                if reply.value == 0
                    && !is_unspecified(address)
                    && sys::is_nonblocking(self.duplicate(call)?.as_fd()) =>
            {
                self.begins(socket);
                return Err(Errno(libc::EINPROGRESS));
            }
            Ok(_) => return Ok(Answer::Value(0)),
            // The first call after the end of the handshake succeeds (`__inet_stream_connect`).
            Err(Errno(libc::EISCONN)) if self.sockets.beginning.remove(&socket.id) => {
                return Ok(Answer::Value(0));
            }
            Err(Errno(libc::EINPROGRESS)) => {}
            // The call goes on after a signal.
            Err(Errno(libc::EALREADY)) => {
                let file = self.duplicate(call)?;
                if sys::is_nonblocking(file.as_fd()) {
                    return Err(Errno(libc::EALREADY));
                }
                let connecting = Connecting {
                    socket: socket.id,
                    sent: None,
                };
                return self.park(call, file, Waiting::Connect(connecting));
            }
            Err(error) => return Err(error),
        }
        self.await_handshake(call, socket, true, None)
    }

    /// Fills the send buffer of a stream whose handshake has begun, and lets the call wait for its end if the socket blocks.
    fn await_handshake(
        &mut self,
        call: &Call,
        socket: InetSocket,
        may_wait: bool,
        sent: Option<usize>,
    ) -> Handled {
        let file = self.duplicate(call)?;
        let waits = may_wait && !sys::is_nonblocking(file.as_fd());
        let mut length = 0;
        while let Ok(n) = sys::send(file.as_fd(), &[0; FILLING], libc::MSG_DONTWAIT) {
            length += n as u32;
        }
        let filled = InetCall::Filled {
            socket: socket.id,
            length,
            waits,
        };
        self.inet(filled, &[])?;
        if waits {
            let socket = socket.id;
            return self.park(call, file, Waiting::Connect(Connecting { socket, sent }));
        }
        self.begins(socket);
        match sent {
            Some(count) if count > 0 => Ok(Answer::Value(count as i64)),
            _ => Err(Errno(libc::EINPROGRESS)),
        }
    }

    /// The caller of `connect` does not wait for the end of the handshake.
    fn begins(&mut self, socket: InetSocket) {
        let beginning = &mut self.sockets.beginning;
        if beginning.len() >= MOST_BEGINNING {
            beginning.clear();
        }
        beginning.insert(socket.id);
    }

    /// Serves `ioctl(SIOCOUTQ)` of a stream: how many bytes the peer has not acknowledged.
    pub(in super::super) fn unacknowledged(&mut self, call: &Call, socket: InetSocket) -> Handled {
        let length = match self.inet(InetCall::Queued(socket.id), &[]) {
            Ok(reply) => reply.value as i32,
            // The stack forgets a stream that has ended.
            Err(Errno(libc::EBADF)) => 0,
            Err(error) => return Err(error),
        };
        sys::write_memory(call.tid, call.args[2], &length.to_ne_bytes())?;
        Ok(Answer::Value(0))
    }

    /// Ends a `connect` that waited, or a send with `MSG_FASTOPEN`: the handshake is over.
    pub(in super::super) fn connected(&mut self, call: &Call, connecting: Connecting) -> Handled {
        let Connecting { socket, sent } = connecting;
        let error = InetCall::Option(socket, libc::SOL_SOCKET, libc::SO_ERROR);
        let error = self.inet(error, &[0; 4])?.bytes;
        match error.first_chunk().map(|error| i32::from_ne_bytes(*error)) {
            None | Some(0) => {}
            Some(error) => {
                // The socket is as new (`__inet_stream_connect`).
                let unspecified = (libc::AF_UNSPEC as u16).to_ne_bytes();
                let _ = self.inet(InetCall::Connect(socket), &unspecified);
                self.sockets.idle.insert(socket, Idle::New);
                return Err(Errno(error));
            }
        }
        let Some(count) = sent else {
            return Ok(Answer::Value(0));
        };
        let Some(send) = Send::read(call)? else {
            return Ok(Answer::Continue);
        };
        self.still_waiting(call)?;
        self.send_through(call, send.data().get(count..).unwrap_or_default(), count, 0)
    }

    /// Serves the sends that stop: those with flags that the pair would lose, and `sendto` with an address, which TCP
    /// ignores and a UNIX socket refuses.
    pub(in super::super) fn send_stream(&mut self, call: &Call, socket: InetSocket) -> Handled {
        let flags = match call.number {
            libc::SYS_sendto => call.int(3),
            libc::SYS_sendmsg => call.int(2),
            _ => 0,
        };
        let (fast, special) = (flags & libc::MSG_FASTOPEN != 0, flags & SPECIAL != 0);
        let idle = !fast && self.is_idle(socket);
        if !fast && !special && !idle && (call.number != libc::SYS_sendto || call.args[4] == 0) {
            return Ok(Answer::Continue);
        }
        let Some(send) = Send::read(call)? else {
            return Ok(Answer::Continue);
        };
        self.still_waiting(call)?;
        if idle {
            return self.broken_pipe(call, flags);
        }
        if fast {
            self.sockets.idle.remove(&socket.id);
            return self.send_fast(call, socket, flags, &send);
        }
        if !special {
            return self.send_through(call, send.data(), 0, flags);
        }
        let request = InetCall::Send {
            socket: socket.id,
            flags,
            to: 0,
            control: 0,
        };
        match self.inet(request, send.data()) {
            Ok(reply) => Ok(Answer::Value(reply.value)),
            // The pair takes it, or has the error.
            Err(_) => Ok(Answer::Continue),
        }
    }

    /// Serves a send with `MSG_FASTOPEN`: the data go with the SYN, as far as there is a cookie and room. The caller waits
    /// for the handshake if the socket blocks; what the SYN did not carry is sent after it (`tcp_sendmsg_fastopen`).
    fn send_fast(
        &mut self,
        call: &Call,
        socket: InetSocket,
        mut flags: i32,
        send: &Send,
    ) -> Handled {
        if sys::is_nonblocking(self.duplicate(call)?.as_fd()) {
            flags |= libc::MSG_DONTWAIT;
        }
        let request = InetCall::Send {
            socket: socket.id,
            flags,
            to: send.to,
            control: send.control,
        };
        match self.inet(request, &send.bytes) {
            // The handshake is over. A call that may not block never sees that, as in `connect`.
            Ok(reply) if reply.bytes.is_empty() => {
                let count = reply.value as usize;
                if flags & libc::MSG_DONTWAIT != 0 {
                    return match count {
                        0 => Err(Errno(libc::EINPROGRESS)),
                        count => Ok(Answer::Value(count as i64)),
                    };
                }
                let rest = send.data().get(count..).unwrap_or_default();
                self.send_through(call, rest, count, flags)
            }
            Ok(reply) => {
                let may_wait = flags & libc::MSG_DONTWAIT == 0;
                self.await_handshake(call, socket, may_wait, Some(reply.value as usize))
            }
            // The stream is open.
            Err(Errno(libc::EISCONN)) => self.send_through(call, send.data(), 0, flags),
            Err(error) => Err(error),
        }
    }

    /// Sends data through the pair for a call of which `before` bytes have gone. One that blocks waits for room if none have.
    fn send_through(&mut self, call: &Call, data: &[u8], before: usize, flags: i32) -> Handled {
        if data.is_empty() && before > 0 {
            return Ok(Answer::Value(before as i64));
        }
        let file = self.duplicate(call)?;
        let native = flags & !libc::MSG_FASTOPEN | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        match sys::send(file.as_fd(), data, native) {
            Ok(count) => Ok(Answer::Value((before + count) as i64)),
            Err(_) if before > 0 => Ok(Answer::Value(before as i64)),
            Err(Errno(libc::EAGAIN))
                if flags & libc::MSG_DONTWAIT == 0 && !sys::is_nonblocking(file.as_fd()) =>
            {
                self.park(call, file, Waiting::Room)
            }
            Err(error) => Err(error),
        }
    }

    /// Serves `accept` and `accept4`.
    pub(in super::super) fn accept(&mut self, call: &Call) -> Handled {
        let Some(listener) = self.inet_of(call) else {
            return Ok(Answer::Continue);
        };
        let flags = match call.number {
            libc::SYS_accept4 => call.int(3),
            _ => 0,
        };
        if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
            return Err(Errno(libc::EINVAL));
        }
        if !listener.is_stream() {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let file = self.duplicate(call)?;
        // No connection waits. A byte of one that has gone is taken when the call is served again.
        if self.sockets.idle.get(&listener.id) == Some(&Idle::Listening)
            && matches!(self.inet(InetCall::Ready(listener.id), &[]), Ok(reply) if reply.value == 0)
            && !sys::is_nonblocking(file.as_fd())
        {
            return self.park(call, file, Waiting::Accept(listener));
        }
        self.still_waiting(call)?;
        self.accept_from(call, listener, file, true)
    }

    /// Serves an `accept` of a listener, whose descriptor `file` is. `shown` says that the connection may show.
    pub(in super::super) fn accept_from(
        &mut self,
        call: &Call,
        listener: InetSocket,
        file: OwnedFd,
        shown: bool,
    ) -> Handled {
        let flags = match call.number {
            libc::SYS_accept4 => call.int(3),
            _ => 0,
        };
        loop {
            // A byte stands for each connection that shows, also for one that has gone since.
            let mut byte = [0];
            let waits = shown && sys::receive(file.as_fd(), &mut byte, libc::MSG_DONTWAIT) == Ok(1);
            let accept = InetCall::Accept {
                socket: listener.id,
                counted: waits,
            };
            match self.inet(accept, &[]) {
                Ok(reply) => {
                    if call.args[1] != 0 {
                        write_name(call, &reply.bytes)?;
                    }
                    let socket = InetSocket {
                        id: SocketId(reply.value as u64),
                        ..listener
                    };
                    if self.sockets.counted.contains(&listener.id) {
                        self.sockets.counted.insert(socket.id);
                    }
                    // Giving out the connection is the answer.
                    drop(file);
                    self.files.done();
                    return self.give_out(call, socket, reply, flags);
                }
                Err(Errno(libc::EAGAIN)) if waits => {}
                Err(Errno(libc::EAGAIN)) if !sys::is_nonblocking(file.as_fd()) => {
                    return self.park(call, file, Waiting::Accept(listener));
                }
                // The stack has forgotten a listener that was shut down.
                Err(Errno(libc::EBADF)) => return Err(Errno(libc::EINVAL)),
                Err(error) => return Err(error),
            }
        }
    }
}

/// What a send has in the caller's memory.
struct Send {
    /// Address, control messages, data.
    bytes: Vec<u8>,
    /// The lengths of the first two.
    to: u16,
    control: u32,
}

impl Send {
    /// Reads the message of `sendto` or `sendmsg`. `None` for other calls.
    fn read(call: &Call) -> Result<Option<Self>, Errno> {
        let place = match call.number {
            libc::SYS_sendto => Place::of_sendto(call),
            libc::SYS_sendmsg => Place::at(call.tid, call.args[1])?,
            _ => return Ok(None),
        };
        let (bytes, to, control) = place.outgoing(call.tid, Longer::Cut)?;
        Ok(Some(Self { bytes, to, control }))
    }

    fn data(&self) -> &[u8] {
        let start = usize::from(self.to) + self.control as usize;
        self.bytes.get(start..).unwrap_or_default()
    }
}

/// Returns whether the family of an address is AF_UNSPEC, which ends a connection.
fn is_unspecified(address: &[u8]) -> bool {
    let unspecified = (libc::AF_UNSPEC as u16).to_ne_bytes();
    address.starts_with(&unspecified)
}

/// Writes the peer's address where `accept` wants it.
fn write_name(call: &Call, name: &[u8]) -> Result<(), Errno> {
    let room = i32::from_ne_bytes(sys::read_array(call.tid, call.args[2])?);
    let room = usize::try_from(room).map_err(|_| Errno(libc::EINVAL))?;
    let length = (name.len() as u32).to_ne_bytes();
    let name = &name[..name.len().min(room)];
    sys::write_pieces(call.tid, &[(call.args[1], name), (call.args[2], &length)])
}
