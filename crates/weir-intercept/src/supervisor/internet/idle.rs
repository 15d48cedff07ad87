// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams without a connection: new ones, those whose `connect` has failed, and listeners.
//!
//! Their pair takes and keeps data. The calls that stop anyway have Linux's answer here: `poll` of a new stream shows
//! POLLOUT and POLLHUP, receives fail with ENOTCONN, and sends with EPIPE and SIGPIPE.
//!
//! Not served, because they do not stop: `read`, `write`, and `recv` and `send` without an address and without flags. What
//! is written goes out after `connect`, and a read waits. `select` and `epoll` show a new stream as writable only, and
//! `poll` a listener as writable.
use super::{Handled, InetSocket, Supervisor};
use crate::backend::{Errno, InetCall, SocketId};
use crate::seccomp::{self, Answer, Call};
use crate::sys;

/// What a stream is ready for that is neither connected nor listens (`tcp_poll`).
pub(super) const READY: i64 = (libc::POLLOUT | libc::POLLHUP) as i64;

/// After a `connect` in vain that was told, a stream hangs up without an error.
const FAILED: i64 = (libc::POLLHUP | libc::POLLERR) as i64;

/// A stream without a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Idle {
    /// It has not been connected, or in vain.
    New,
    /// It listens.
    Listening,
}

impl Supervisor {
    /// Returns whether a stream has no connection.
    pub(in super::super) fn is_idle(&self, socket: InetSocket) -> bool {
        match self.sockets.idle.get(&socket.id) {
            None => false,
            Some(Idle::Listening) => true,
            Some(Idle::New) => self.is_new(socket.id),
        }
    }

    /// Returns whether a stream is neither connected nor listens.
    pub(super) fn is_new(&self, id: SocketId) -> bool {
        self.sockets.idle.get(&id) == Some(&Idle::New)
            && self
                .inet(InetCall::Ready(id), &[])
                .is_ok_and(|reply| reply.value & FAILED == i64::from(libc::POLLHUP))
    }

    /// Ends a send with EPIPE, and with SIGPIPE unless the flags say otherwise (`sk_stream_error`). The signal waits for
    /// the end of the call. On a kernel before 5.19 it comes some time after that, because a handler before the answer
    /// would have the call restarted.
    pub(super) fn broken_pipe(&mut self, call: &Call, flags: i32) -> Handled {
        let error = Errno(libc::EPIPE);
        if flags & libc::MSG_NOSIGNAL != 0 {
            return Err(error);
        }
        let process = self.process(call);
        self.still_waiting(call)?;
        // The thread may have ended.
        let signal = || sys::signal_thread(process, call.tid, libc::SIGPIPE);
        if seccomp::waits_through_signals() {
            let _ = signal();
            return Err(error);
        }
        self.listener.answer(call, Err(error));
        let _ = signal();
        Ok(Answer::Sent)
    }
}
