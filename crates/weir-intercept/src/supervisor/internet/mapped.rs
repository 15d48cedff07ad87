// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ring of a packet socket, which the program maps.
//!
//! A socket's descriptor is one end of a UNIX pair, which cannot be mapped. For the time of `mmap` it is therefore a file
//! of memory that the stack fills. The next call of the thread that stops finds the socket in its place again, and so does
//! one of another thread once the file is mapped. `epoll_ctl` of such a descriptor stops for that reason only.
//!
//! Not served: `select` of the descriptor as the first call after `mmap`, which finds the file.
//!
//! The pair is readable as soon as the stack has filled a frame of the ring. `poll` takes that out first, and the stack
//! writes it again if the program has still frames to read.
use super::super::FileKey;
use super::{Handled, InetSocket, Supervisor};
use crate::backend::{Errno, InetCall};
use crate::seccomp::{Answer, Call};
use crate::sys;
use std::os::fd::{AsFd, OwnedFd};

/// The most packets that are taken out of a pair at once.
const MOST: usize = 64;

/// A socket whose descriptor is a file of memory at the moment.
#[derive(Debug)]
pub(in super::super) struct Swapped {
    process: u32,
    tid: u32,
    fd: i32,
    memory: FileKey,
    socket: OwnedFd,
    close_on_exec: bool,
}

impl Supervisor {
    /// Serves `mmap` of a descriptor at which calls stop (`packet_mmap`).
    pub(in super::super) fn map(&mut self, call: &Call) -> Handled {
        let fd = call.int(4);
        let key = Self::file_key(call.tid, fd).ok();
        let socket = key.and_then(|key| self.sockets.inet.get(&key).copied());
        let Some(socket) = socket.filter(|socket| socket.family == libc::AF_PACKET) else {
            return Ok(Answer::Continue);
        };
        let memory = self.inet(InetCall::Memory(socket.id), &[])?;
        let file = memory.file.ok_or(Errno(libc::EINVAL))?;
        if call.args[5] != 0 || call.args[1] != memory.value as u64 {
            return Err(Errno(libc::EINVAL));
        }
        let process = self.process(call);
        let own = sys::pidfd_getfd(sys::pidfd_open(process)?.as_fd(), fd)?;
        let swapped = Swapped {
            process,
            tid: call.tid,
            fd,
            memory: sys::identity(file.as_fd())?,
            socket: own,
            close_on_exec: closes_on_exec(call.tid, fd),
        };
        self.still_waiting(call)?;
        self.listener.replace(call, file.as_fd(), true, fd as u32)?;
        // Threads that have ended need nothing back.
        self.sockets.swapped.retain(|other| {
            other.tid != call.tid && std::path::Path::new(&format!("/proc/{}", other.tid)).exists()
        });
        self.sockets.swapped.push(swapped);
        Ok(Answer::Continue)
    }

    /// Puts the socket back that the caller, or another thread of its process, has mapped before.
    pub(in super::super) fn unswap(&mut self, call: &Call) {
        let process = self.process(call);
        let (over, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.sockets.swapped)
            .into_iter()
            .partition(|other| {
                other.tid == call.tid || other.process == process && other.is_mapped()
            });
        self.sockets.swapped = others;
        for swapped in over {
            // The program may have closed it meanwhile.
            if Self::file_key(call.tid, swapped.fd) == Ok(swapped.memory) {
                let (fd, file) = (swapped.fd as u32, swapped.socket.as_fd());
                // A caller that has died needs nothing back.
                let _ = self.listener.replace(call, file, swapped.close_on_exec, fd);
            }
        }
    }

    /// Takes from the pair what says that the ring has frames.
    pub(super) fn look_again(&self, call: &Call, fd: i32, socket: InetSocket) {
        if !self.sockets.rings.contains(&socket.id) {
            return;
        }
        let process = sys::pidfd_open(self.process(call));
        let file = process.and_then(|process| sys::pidfd_getfd(process.as_fd(), fd));
        if let Ok(file) = file {
            // An end of file would never end.
            for _ in 0..MOST {
                if sys::receive(file.as_fd(), &mut [], libc::MSG_DONTWAIT).is_err() {
                    break;
                }
            }
        }
    }
}

impl Swapped {
    /// Returns whether the process has mapped the memory.
    fn is_mapped(&self) -> bool {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.process));
        maps.is_ok_and(|maps| maps.lines().any(|line| inode(line) == Some(self.memory.1)))
    }
}

/// Returns the inode of a line of `/proc/PID/maps`.
fn inode(line: &str) -> Option<u64> {
    let inode = line.split_ascii_whitespace().nth(4)?;
    inode.parse().ok()
}

/// Returns whether a descriptor is closed by `exec`.
fn closes_on_exec(tid: u32, fd: i32) -> bool {
    let info = std::fs::read_to_string(format!("/proc/{tid}/fdinfo/{fd}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.unwrap_or(0) & libc::O_CLOEXEC != 0
}
