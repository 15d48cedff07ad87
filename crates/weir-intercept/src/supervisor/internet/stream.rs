// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams: connections that begin, and those that are accepted. Data never stop here.
//!
//! `poll` may not say that a stream is writable before its handshake is over. The supervisor therefore fills the client's
//! send buffer, and the stack takes the filling out at the end of the handshake. A listening socket is readable exactly
//! while a connection waits: the stack writes one byte for each, which `accept` takes out again.
use super::super::parked::Waiting;
use super::{Handled, InetSocket, Supervisor};
use crate::backend::{Errno, InetCall, SocketId};
use crate::seccomp::{Answer, Call};
use crate::sys;
use std::os::fd::AsFd;

/// How much is written at once to fill a send buffer, in bytes.
const FILLING: usize = 16 << 10;

/// A stream whose caller waits for the end of the handshake.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Connecting(SocketId);

impl Supervisor {
    /// Serves `connect` of a stream.
    pub(super) fn connect_stream(
        &mut self,
        call: &Call,
        socket: InetSocket,
        address: &[u8],
    ) -> Handled {
        match self.inet(InetCall::Connect(socket.id), address) {
            // A call that may not block never sees the end of a handshake, however short, as on Linux.
            Ok(_)
                if !is_unspecified(address)
                    && sys::is_nonblocking(self.duplicate(call)?.as_fd()) =>
            {
                return Err(Errno(libc::EINPROGRESS));
            }
            Ok(_) => return Ok(Answer::Value(0)),
            Err(Errno(libc::EINPROGRESS)) => {}
            // The call goes on after a signal.
            Err(Errno(libc::EALREADY)) => {
                let file = self.duplicate(call)?;
                if sys::is_nonblocking(file.as_fd()) {
                    return Err(Errno(libc::EALREADY));
                }
                return self.park(call, file, Waiting::Connect(Connecting(socket.id)));
            }
            Err(error) => return Err(error),
        }
        let file = self.duplicate(call)?;
        let waits = !sys::is_nonblocking(file.as_fd());
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
            return self.park(call, file, Waiting::Connect(Connecting(socket.id)));
        }
        Err(Errno(libc::EINPROGRESS))
    }

    /// Ends a `connect` that waited: the handshake is over.
    pub(in super::super) fn connected(&mut self, connecting: Connecting) -> Handled {
        let error = InetCall::Option(connecting.0, libc::SOL_SOCKET, libc::SO_ERROR);
        let error = self.inet(error, &[0; 4])?.bytes;
        match error.first_chunk().map(|error| i32::from_ne_bytes(*error)) {
            None | Some(0) => Ok(Answer::Value(0)),
            Some(error) => Err(Errno(error)),
        }
    }

    /// Serves `accept` and `accept4`.
    pub(in super::super) fn accept(&mut self, call: &Call) -> Handled {
        let Some(listener) = self.inet_of(call) else {
            return Ok(Answer::Continue);
        };
        if !listener.is_stream() {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let flags = match call.number {
            libc::SYS_accept4 => call.int(3),
            _ => 0,
        };
        if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
            return Err(Errno(libc::EINVAL));
        }
        let file = self.duplicate(call)?;
        self.still_waiting(call)?;
        loop {
            // A byte stands for each connection, also for one that has gone since.
            let mut byte = [0];
            let waits = sys::receive(file.as_fd(), &mut byte, libc::MSG_DONTWAIT) == Ok(1);
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
                    return self.give_out(call, socket, reply, flags);
                }
                Err(Errno(libc::EAGAIN)) if waits => {}
                Err(Errno(libc::EAGAIN)) if !sys::is_nonblocking(file.as_fd()) => {
                    return self.park(call, file, Waiting::Accept);
                }
                Err(error) => return Err(error),
            }
        }
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
    sys::write_memory(call.tid, call.args[1], &name[..name.len().min(room)])?;
    sys::write_memory(call.tid, call.args[2], &(name.len() as u32).to_ne_bytes())
}
