// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sendfile` to datagram, raw and packet sockets.
//!
//! The data of a call are one datagram, as of `splice_direct_to_actor` over IPv4: its pages are sent with `MSG_MORE`. A
//! datagram that would be longer than a pipe (64 KiB) is refused with EMSGSIZE like every other that is too long.
//!
//! Not served: what Linux keeps back (over IPv6 before Linux 6.5, and when the file ends early
//! over IPv6) until the next send.
use super::{Handled, InetSocket, Supervisor};
use crate::backend::{Errno, InetCall};
use crate::seccomp::{Answer, Call};
use crate::sys;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt};

/// The most bytes that are read: those of a pipe with 16 pages.
const MOST: u64 = 64 << 10;

fn errno(error: &io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(libc::EIO))
}

impl Supervisor {
    /// Serves `sendfile(out, in, offset, count)` (`do_sendfile`).
    pub(in super::super) fn send_file(&mut self, call: &Call) -> Handled {
        match self.inet_of(call).filter(|socket| !socket.is_stream()) {
            Some(socket) => self.send_file_to(call, socket),
            None => Ok(Answer::Continue),
        }
    }

    fn send_file_to(&mut self, call: &Call, socket: InetSocket) -> Handled {
        let [_, _, offset_at, count, ..] = call.args;
        let process = sys::pidfd_open(self.process(call))?;
        let file = File::from(sys::pidfd_getfd(process.as_fd(), call.int(1))?);
        let kind = file.metadata().map_err(|error| errno(&error))?.file_type();
        let seeks = kind.is_file() || kind.is_block_device();
        let offset = match offset_at {
            0 => None,
            at => {
                let offset = i64::from_ne_bytes(sys::read_array(call.tid, at)?);
                if !seeks {
                    return Err(Errno(libc::ESPIPE));
                }
                Some(u64::try_from(offset).map_err(|_| Errno(libc::EINVAL))?)
            }
        };
        if !seeks || i64::try_from(count).is_err() {
            return Err(Errno(libc::EINVAL));
        }
        let mut data = vec![0; count.min(MOST) as usize];
        // The duplicate shares the caller's offset.
        let length = match offset {
            Some(offset) => file.read_at(&mut data, offset),
            None => (&file).read(&mut data),
        };
        let length = length.map_err(|error| errno(&error))?;
        if length == 0 {
            return Ok(Answer::Value(0));
        }
        self.still_waiting(call)?;
        let request = InetCall::Send {
            socket: socket.id,
            flags: 0,
            to: 0,
            control: 0,
        };
        let sent = self.inet(request, &data[..length]);
        match (&sent, offset) {
            (Ok(_), Some(offset)) => {
                let after = (offset + length as u64).to_ne_bytes();
                sys::write_memory(call.tid, offset_at, &after)?;
            }
            // What was not sent is still there.
            (Err(_), None) => {
                let back = io::SeekFrom::Current(-(length as i64));
                let _ = io::Seek::seek(&mut &file, back);
            }
            _ => {}
        }
        sent.map(|_| Answer::Value(length as i64))
    }
}
