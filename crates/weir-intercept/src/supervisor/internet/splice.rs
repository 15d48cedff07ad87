// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `splice` between pipes and datagram, raw and packet sockets.
//!
//! To a socket, what is in the pipe, at most the length of the call, is one datagram (`splice_to_socket`; before Linux 6.5
//! `pipe_to_sendpage`, which sends the pages with `MSG_MORE`). With `SPLICE_F_MORE` the datagram goes on with the next
//! send. From a socket, the data of one datagram go to the pipe (`copy_splice_read`), and what has no room there is lost.
//!
//! Calls that Linux refuses go on: the kernel refuses them for the pair as well.
use super::super::parked::Waiting;
use super::{Handled, InetSocket, Supervisor};
use crate::backend::{Errno, InetCall};
use crate::seccomp::{Answer, Call};
use crate::sys;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The most bytes that pass at once: those of a pipe with 16 pages.
const MOST: usize = 64 << 10;
/// All flags of `splice` (`SPLICE_F_ALL`).
const FLAGS: i32 =
    (libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT)
        as i32;
const MORE: i32 = libc::SPLICE_F_MORE as i32;
const NONBLOCK: i32 = libc::SPLICE_F_NONBLOCK as i32;

impl Supervisor {
    /// Serves `splice(in, in_offset, out, out_offset, length, flags)` (`do_splice`).
    pub(in super::super) fn splice(&mut self, call: &Call) -> Handled {
        let [_, in_offset, _, out_offset, length, _] = call.args;
        if in_offset != 0 || out_offset != 0 || length == 0 || call.int(5) & !FLAGS != 0 {
            return Ok(Answer::Continue);
        }
        let (from, to) = (
            self.datagram_at(call, call.int(0)),
            self.datagram_at(call, call.int(2)),
        );
        let length = usize::try_from(length).unwrap_or(MOST).min(MOST);
        match (from, to) {
            (None, Some(socket)) => self.splice_to(call, socket, length),
            (Some(socket), None) => self.splice_from(call, socket, length),
            _ => Ok(Answer::Continue),
        }
    }

    /// Returns the socket that a caller's descriptor is, unless that is a stream.
    fn datagram_at(&self, call: &Call, fd: i32) -> Option<InetSocket> {
        let key = Self::file_key(call.tid, fd).ok()?;
        let socket = self.sockets.inet.get(&key).copied();
        socket.filter(|socket| !socket.is_stream())
    }

    /// Returns a duplicate of a caller's descriptor.
    fn file_at(&self, call: &Call, fd: i32) -> Result<OwnedFd, Errno> {
        let process = sys::pidfd_open(self.process(call))?;
        sys::pidfd_getfd(process.as_fd(), fd)
    }

    /// Lets a call wait for a pipe unless it may not.
    fn await_pipe(&mut self, call: &Call, pipe: OwnedFd, events: i16) -> Handled {
        if call.int(5) & NONBLOCK != 0 || sys::is_nonblocking(pipe.as_fd()) {
            return Err(Errno(libc::EAGAIN));
        }
        self.park(call, pipe, Waiting::Pipe(events))
    }

    fn splice_to(&mut self, call: &Call, socket: InetSocket, length: usize) -> Handled {
        let pipe = self.file_at(call, call.int(0))?;
        if !sys::is_pipe(pipe.as_fd()) {
            return Ok(Answer::Continue);
        }
        let (read, write) = sys::pipe()?;
        match sys::tee(pipe.as_fd(), write.as_fd(), length) {
            Ok(0) => return Ok(Answer::Value(0)),
            Ok(_) => {}
            Err(Errno(libc::EAGAIN)) => return self.await_pipe(call, pipe, libc::POLLIN),
            // The descriptor is for writing.
            Err(_) => return Ok(Answer::Continue),
        }
        let data = content(read.as_fd())?;
        self.still_waiting(call)?;
        let flags = match call.int(5) & MORE {
            0 => 0,
            _ => libc::MSG_MORE,
        };
        let request = InetCall::Send {
            socket: socket.id,
            flags,
            to: 0,
            control: 0,
        };
        self.inet(request, &data)?;
        // The duplicate is empty now, and has room for what was sent.
        sys::splice(pipe.as_fd(), write.as_fd(), data.len())?;
        Ok(Answer::Value(data.len() as i64))
    }

    fn splice_from(&mut self, call: &Call, socket: InetSocket, length: usize) -> Handled {
        let pipe = self.file_at(call, call.int(2))?;
        if !sys::is_pipe(pipe.as_fd()) || !sys::is_writable(pipe.as_fd()) {
            return Ok(Answer::Continue);
        }
        let room = sys::poll([(pipe.as_fd(), libc::POLLOUT)].into_iter(), Some(0))?;
        if room.first() == Some(&0) {
            return self.await_pipe(call, pipe, libc::POLLOUT);
        }
        let file = self.file_at(call, call.int(0))?;
        let (read, write) = sys::pipe()?;
        let write = File::from(write);
        let taken = self.take_one(socket, file.as_fd(), 0, |datagram| {
            let data = &datagram.data[..datagram.data.len().min(length)];
            let written = (&write).write(data);
            written
                .map(|n| n as u64)
                .map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))
        });
        match taken {
            Ok(0) => Ok(Answer::Value(0)),
            Ok(n) => {
                sys::splice(read.as_fd(), pipe.as_fd(), n as usize).map(|n| Answer::Value(n as i64))
            }
            Err(Errno(libc::EAGAIN)) if !sys::is_nonblocking(file.as_fd()) => {
                self.park(call, file, Waiting::Datagram)
            }
            Err(error) => Err(error),
        }
    }
}

/// Takes everything out of a pipe.
fn content(pipe: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let mut data = vec![0; MOST];
    let mut length = 0;
    while length < MOST {
        match sys::read(pipe, &mut data[length..]) {
            Ok(n @ 1..) => length += n,
            Ok(0) | Err(Errno(libc::EAGAIN)) => break,
            Err(error) => return Err(error),
        }
    }
    data.truncate(length);
    Ok(data)
}
