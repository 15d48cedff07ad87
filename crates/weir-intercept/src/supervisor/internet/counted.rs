// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `TCP_INQ`: each `recvmsg` on a stream tells how many bytes are left to receive (`tcp_inq_hint`).
//!
//! The control message would be lost by the pair, so the supervisor receives in the caller's place. The end of the data
//! counts as a byte, as on Linux.
//!
//! Not served: the message of `recvmmsg` and of a receive with `MSG_WAITALL`, which go on without it.
use super::super::message::Place;
use super::super::parked::Waiting;
use super::{Handled, InetSocket, Supervisor, TCP_INQ};
use crate::backend::{Errno, InetCall};
use crate::datagram::Datagram;
use crate::seccomp::{Answer, Call};
use crate::sys;
use std::os::fd::{AsFd, BorrowedFd};

/// The most data of one receive, in bytes.
const MOST: usize = 256 << 10;
/// The flags of a receive that is left to the pair.
const NATIVE: i32 = libc::MSG_WAITALL | libc::MSG_OOB | libc::MSG_ERRQUEUE;

impl Supervisor {
    /// Serves `setsockopt(TCP_INQ)`, whose value has `length` bytes.
    pub(super) fn set_counted(
        &mut self,
        call: &Call,
        socket: InetSocket,
        length: usize,
    ) -> Handled {
        if length < size_of::<i32>() {
            return Err(Errno(libc::EINVAL));
        }
        let value = i32::from_ne_bytes(sys::read_array(call.tid, call.args[3])?);
        self.still_waiting(call)?;
        match value {
            0 => self.sockets.counted.remove(&socket.id),
            1 => self.sockets.counted.insert(socket.id),
            _ => return Err(Errno(libc::EINVAL)),
        };
        Ok(Answer::Value(0))
    }

    /// Returns whether a receive on a stream tells what is left.
    pub(in super::super) fn is_counted(&self, call: &Call, socket: InetSocket) -> bool {
        call.number == libc::SYS_recvmsg
            && call.int(2) & NATIVE == 0
            && self.sockets.counted.contains(&socket.id)
    }

    /// Serves such a receive.
    pub(in super::super) fn receive_counted(&mut self, call: &Call, socket: InetSocket) -> Handled {
        let place = Place::at(call.tid, call.args[1])?;
        let file = self.duplicate(call)?;
        let flags = call.int(2);
        let room = usize::try_from(place.room()).unwrap_or(MOST).min(MOST);
        // Room for a byte shows the end of the data, and that there are none yet.
        let mut data = vec![0; room.min(sys::to_read(file.as_fd()).max(1))];
        // The data leave the pair when the caller has them.
        let looked = sys::receive(file.as_fd(), &mut data, libc::MSG_DONTWAIT | libc::MSG_PEEK);
        let length = match looked {
            Ok(length) => length,
            Err(Errno(libc::EAGAIN))
                if flags & libc::MSG_DONTWAIT == 0 && !sys::is_nonblocking(file.as_fd()) =>
            {
                return self.park(call, file, Waiting::Datagram);
            }
            Err(error) => return Err(error),
        };
        data.truncate(length);
        self.still_waiting(call)?;
        let taken = match flags & libc::MSG_PEEK {
            0 => length,
            _ => 0,
        };
        let left = self
            .left_to_receive(socket, file.as_fd())
            .saturating_sub(taken);
        let left = match self.has_ended(socket, file.as_fd()) {
            true => left + 1,
            false => left,
        };
        let datagram = Datagram {
            from: &[],
            control: &message(left as i32),
            data: &data,
            length: length as u32,
            flags: 0,
            time: 0,
        };
        let received = place.deliver(call.tid, &datagram, flags & !libc::MSG_TRUNC)?;
        if taken > 0 {
            let _ = sys::receive(file.as_fd(), &mut data, libc::MSG_DONTWAIT);
        }
        Ok(Answer::Value(received as i64))
    }

    /// Returns how many bytes a program can receive: those in the pair and those for which that has no room.
    fn left_to_receive(&self, socket: InetSocket, file: BorrowedFd<'_>) -> usize {
        let reply = self.inet(InetCall::Queued(socket.id), &[]);
        // The stack forgets a stream that has ended.
        let bytes = reply.map(|reply| reply.bytes).unwrap_or_default();
        let held = bytes
            .first_chunk()
            .map_or(0, |held| u32::from_ne_bytes(*held));
        sys::to_read(file) + held as usize
    }

    /// Returns whether the peer sends no more. The pair shows that behind the data.
    fn has_ended(&self, socket: InetSocket, file: BorrowedFd<'_>) -> bool {
        let in_pair = sys::poll([(file, libc::POLLRDHUP)].into_iter(), Some(0));
        let in_stack = self.inet(InetCall::Ready(socket.id), &[]);
        in_pair.is_ok_and(|events| events.first().is_some_and(|events| *events != 0))
            || in_stack.is_ok_and(|reply| reply.value & i64::from(libc::POLLRDHUP) != 0)
    }
}

/// Returns the control message.
fn message(left: i32) -> Vec<u8> {
    let mut message = 20u64.to_ne_bytes().to_vec();
    for word in [libc::SOL_TCP, TCP_INQ, left, 0] {
        message.extend(word.to_ne_bytes());
    }
    message
}
