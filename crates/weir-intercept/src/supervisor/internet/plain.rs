// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Datagram sockets at numbers at which calls do not stop.
//!
//! `dup2` and `dup3` put a socket onto a number of the program's choice, as inetd does with 0 and bash with the number of
//! `exec 3<>/dev/udp/HOST/PORT`. `SCM_RIGHTS` gives it the lowest free one. The kernel then serves `read`, `write`, `recv`
//! and `send`, so the packets of the pair have to be data alone. The socket becomes plain ([`crate::datagram`]) and stays
//! so, also at its other numbers and in other processes. Calls that name an address, that may not wait, that are about
//! messages, and all others that stop find the rest of the packet as ever.
//!
//! A socket that is passed by `SCM_RIGHTS` becomes plain before `sendmsg` goes on. One that a program gets in another way
//! (`pidfd_getfd`) does when a call on the new descriptor stops: `recvmsg`, `getsockname`, `poll` and others.
//!
//! Not served: the error of a native `write` (that there is no peer is told of); an error as the result of a native `read`,
//! which returns an empty datagram.
use super::super::message::Place;
use super::{Handled, InetSocket, Supervisor};
use crate::backend::{Errno, InetCall};
use crate::filter::{HIGH_FDS, SOCKET_FDS};
use crate::seccomp::{Answer, Call};
use crate::sys;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

/// The longest packet of a pair, and the most bytes of packets that are put back.
const MOST: usize = 512 << 10;

/// The numbers at which all calls stop.
const ALL: &[Range<u32>] = &[SOCKET_FDS, HIGH_FDS];

/// Returns whether all calls stop at a number.
fn stops(number: i32) -> bool {
    ALL.iter().any(|range| range.contains(&(number as u32)))
}

impl Supervisor {
    /// Serves `dup2` and `dup3`.
    pub(in super::super) fn duplicate_onto(&mut self, call: &Call, flags: i32) -> Handled {
        let number = call.int(1);
        let Some(socket) = self.inet_of(call).filter(|socket| !socket.is_stream()) else {
            return Ok(Answer::Continue);
        };
        // The kernel reports what is wrong.
        let limit = sys::soft_limit(self.process(call), libc::RLIMIT_NOFILE).unwrap_or(u64::MAX);
        let is_valid = u64::try_from(number).is_ok_and(|number| number < limit)
            && number != call.int(0)
            && flags & !libc::O_CLOEXEC == 0;
        if !is_valid || stops(number) {
            return Ok(Answer::Continue);
        }
        let file = self.duplicate(call)?;
        self.still_waiting(call)?;
        self.make_plain(socket, file.as_fd())?;
        Ok(Answer::Continue)
    }

    /// Makes a socket plain that the caller has at a number at which not all calls stop.
    pub(super) fn make_plain_at(&mut self, call: &Call, number: i32, socket: InetSocket) {
        if socket.is_stream() || stops(number) || self.sockets.plain.contains(&socket.id) {
            return;
        }
        let process = sys::pidfd_open(self.process(call));
        let file = process.and_then(|process| sys::pidfd_getfd(process.as_fd(), number));
        // A socket that the stack has closed needs nothing.
        let _ = file.and_then(|file| self.make_plain(socket, file.as_fd()));
    }

    /// Called before a `sendmsg` of a client's own socket goes on: the sockets of datagrams that it passes become plain.
    pub(in super::super) fn before_passing(&mut self, call: &Call) {
        if self.sockets.inet.is_empty() || call.number != libc::SYS_sendmsg {
            return;
        }
        let Ok(place) = Place::at(call.tid, call.args[1]) else {
            return;
        };
        for number in place.passed(call.tid) {
            let key = Self::file_key(call.tid, number).ok();
            let socket = key.and_then(|key| self.sockets.inet.get(&key).copied());
            if let Some(socket) = socket.filter(|socket| !socket.is_stream()) {
                let process = sys::pidfd_open(self.process(call));
                let file = process.and_then(|process| sys::pidfd_getfd(process.as_fd(), number));
                let _ = file.and_then(|file| self.make_plain(socket, file.as_fd()));
            }
        }
    }

    /// Makes a socket plain. The packets that wait in the pair are written anew.
    fn make_plain(&mut self, socket: InetSocket, file: BorrowedFd<'_>) -> Result<(), Errno> {
        if self.sockets.plain.contains(&socket.id) {
            return Ok(());
        }
        self.inet(InetCall::Hold(socket.id), &[])?;
        let mut packets = Vec::new();
        let mut packet = vec![0; MOST];
        while let Ok(length @ 1..) = sys::receive(file, &mut packet, libc::MSG_DONTWAIT) {
            if packets.len() + length <= MOST {
                packets.extend((length as u32).to_ne_bytes());
                packets.extend(&packet[..length]);
            }
        }
        self.inet(InetCall::Plain(socket.id), &packets)?;
        self.sockets.plain.insert(socket.id);
        Ok(())
    }

    /// Returns the plain socket that a caller's descriptor is.
    pub(in super::super) fn plain_of(&mut self, call: &Call) -> Option<InetSocket> {
        if self.sockets.plain.is_empty() {
            return None;
        }
        self.inet_of(call).filter(|socket| !socket.is_stream())
    }
}
