// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `poll` on datagram sockets with an error.
//!
//! The pair shows an error as POLLIN. `poll` and `ppoll` therefore stop. If a socket has an error pending or a message in
//! its error queue, the supervisor answers with POLLERR; otherwise the kernel serves the call. `select` and `epoll` have
//! no such answer.
use super::{InetSocket, Supervisor};
use crate::backend::{Errno, InetCall};
use crate::datagram::WAKE;
use crate::seccomp::Call;
use crate::sys;
use std::os::fd::AsFd;

/// The size of a struct pollfd, and where it has the events that have come.
const POLLFD: usize = 8;
const REVENTS: usize = 6;
/// The most descriptors that are looked at.
pub(crate) const MOST: u64 = 256;

impl Supervisor {
    /// Returns the result of a `poll` if one of its sockets has an error.
    pub(in super::super) fn poll_errors(&mut self, call: &Call) -> Result<Option<i64>, Errno> {
        let count = call.args[1];
        if self.sockets.inet.is_empty() || count > MOST {
            return Ok(None);
        }
        let mut array = vec![0; count as usize * POLLFD];
        if sys::read_memory(call.tid, call.args[0], &mut array)? < array.len() {
            return Ok(None); // the kernel reports the address
        }
        let mut found = 0;
        for entry in array.chunks_exact_mut(POLLFD) {
            let fd = i32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]);
            entry[REVENTS..].fill(0);
            let key = Self::file_key(call.tid, fd).ok();
            let socket = key.and_then(|key| self.sockets.inet.get(&key).copied());
            let Some(socket) = socket.filter(|socket| !socket.is_stream()) else {
                continue;
            };
            self.make_plain_at(call, fd, socket);
            self.look_again(call, fd, socket);
            let ready = self.backend.inet(InetCall::Ready(socket.id), &[])?.value as i16;
            if ready & libc::POLLERR != 0 {
                let wanted = i16::from_ne_bytes([entry[4], entry[5]]);
                let mut events = libc::POLLERR;
                if wanted & libc::POLLIN != 0 && self.has_datagram(call, fd, socket) {
                    events |= libc::POLLIN;
                }
                entry[REVENTS..].copy_from_slice(&events.to_ne_bytes());
                found += 1;
            }
        }
        if found > 0 {
            sys::write_memory(call.tid, call.args[0], &array)?;
        }
        Ok((found > 0).then_some(found))
    }

    /// Returns whether the next packet of the pair is a datagram.
    fn has_datagram(&mut self, call: &Call, fd: i32, socket: InetSocket) -> bool {
        let process = sys::pidfd_open(self.process(call));
        let file = process.and_then(|process| sys::pidfd_getfd(process.as_fd(), fd));
        let head = file
            .ok()
            .and_then(|file| self.next_head(socket, file.as_fd()));
        head.is_some_and(|head| {
            u32::from_ne_bytes([head[16], head[17], head[18], head[19]]) & WAKE == 0
        })
    }
}
