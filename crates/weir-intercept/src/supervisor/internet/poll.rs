// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `poll` on datagram sockets with an error, and on new streams.
//!
//! The pair shows an error as POLLIN, and a new stream as one that is open. `poll` and `ppoll` therefore stop. If a socket
//! has an error pending or a message in its error queue, or a stream is new ([`idle`](super::idle)), the supervisor answers
//! for all descriptors; otherwise the kernel serves the call. `select` and `epoll` have no such answer.
use super::{Idle, InetSocket, Supervisor};
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
    /// Returns the result of a `poll` if one of its sockets has an error, or is a new stream.
    pub(in super::super) fn poll_errors(&mut self, call: &Call) -> Result<Option<i64>, Errno> {
        let count = call.args[1];
        if self.sockets.inet.is_empty() || count > MOST {
            return Ok(None);
        }
        let mut array = vec![0; count as usize * POLLFD];
        if sys::read_memory(call.tid, call.args[0], &mut array)? < array.len() {
            return Ok(None); // the kernel reports the address
        }
        let mut found = false;
        for entry in array.chunks_exact_mut(POLLFD) {
            let fd = i32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]);
            entry[REVENTS..].fill(0);
            let key = Self::file_key(call.tid, fd).ok();
            let socket = key.and_then(|key| self.sockets.inet.get(&key).copied());
            let wanted = i16::from_ne_bytes([entry[4], entry[5]]);
            let Some(socket) = socket else {
                continue;
            };
            if socket.is_stream() {
                if self.is_new(socket.id) {
                    let events = libc::POLLHUP | wanted & (libc::POLLOUT | libc::POLLWRNORM);
                    entry[REVENTS..].copy_from_slice(&events.to_ne_bytes());
                    found = true;
                }
                continue;
            }
            self.make_plain_at(call, fd, socket);
            self.look_again(call, fd, socket);
            let ready = self.backend.inet(InetCall::Ready(socket.id), &[])?.value as i16;
            if ready & libc::POLLERR != 0 {
                let mut events = libc::POLLERR;
                if wanted & libc::POLLIN != 0 && self.has_datagram(call, fd, socket) {
                    events |= libc::POLLIN;
                }
                entry[REVENTS..].copy_from_slice(&events.to_ne_bytes());
                found = true;
            }
        }
        if !found {
            return Ok(None);
        }
        let mut ready = 0;
        for entry in array.chunks_exact_mut(POLLFD) {
            if entry[REVENTS..] == [0; 2] {
                let events = self.ready_now(call, entry)?;
                entry[REVENTS..].copy_from_slice(&events.to_ne_bytes());
            }
            ready += i64::from(entry[REVENTS..] != [0; 2]);
        }
        sys::write_memory(call.tid, call.args[0], &array)?;
        Ok(Some(ready))
    }

    /// Returns what a descriptor of a `poll` is ready for, as the kernel shows it.
    fn ready_now(&self, call: &Call, entry: &[u8]) -> Result<i16, Errno> {
        let fd = i32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]);
        if fd < 0 {
            return Ok(0);
        }
        let mut wanted = i16::from_ne_bytes([entry[4], entry[5]]);
        let key = Self::file_key(call.tid, fd).ok();
        let socket = key.and_then(|key| self.sockets.inet.get(&key));
        if socket.is_some_and(|socket| self.sockets.idle.get(&socket.id) == Some(&Idle::Listening))
        {
            // `inet_csk_listen_poll`
            wanted &= libc::POLLIN | libc::POLLRDNORM;
        }
        let process = sys::pidfd_open(self.process(call))?;
        match sys::pidfd_getfd(process.as_fd(), fd) {
            Ok(file) => {
                let events = sys::poll([(file.as_fd(), wanted)].into_iter(), Some(0))?;
                Ok(events.first().copied().unwrap_or(0))
            }
            Err(_) => Ok(libc::POLLNVAL),
        }
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
