// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Open files of callers.
//!
//! A call on a socket looks for the file of its descriptor several times: is it a netlink socket, an internet socket,
//! does it block? The supervisor takes a duplicate once per call (`pidfd_getfd`) and identifies it by `fstat`, which
//! costs a fifth of a look-up of `/proc/TID/fd/N`. The duplicate is closed before the call is answered, so that a close by
//! the caller is the last one.
//!
//! A descriptor of a thread (`PIDFD_THREAD`) is kept for its next call. It stands for that thread only: once the thread
//! has ended, the kernel fails with ESRCH, whoever has got its number.
use super::traffic::is_traffic;
use super::{FileKey, Supervisor, own_key};
use crate::backend::Errno;
use crate::seccomp::Call;
use crate::sys;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

/// The most threads that are kept.
const MOST: usize = 64;

/// What is known about the callers and the call at hand.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// The threads that have called, by their ids.
    callers: BTreeMap<u32, OwnedFd>,
    /// The file of the first argument of the call at hand.
    first: Option<First>,
}

/// The file that the first argument of a call names.
#[derive(Debug)]
struct First {
    call: u64,
    key: FileKey,
    file: Option<OwnedFd>,
}

/// Returns whether a call takes a socket as its first argument, so that its file may be duplicated: closing a duplicate of
/// another file may have effects (`flush` of struct file_operations).
fn takes_socket(call: &Call) -> bool {
    matches!(
        call.number,
        libc::SYS_bind
            | libc::SYS_listen
            | libc::SYS_connect
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_shutdown
            | libc::SYS_getsockname
            | libc::SYS_getpeername
            | libc::SYS_setsockopt
            | libc::SYS_getsockopt
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_sendmmsg
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_recvmmsg
    ) || is_traffic(call)
}

impl Files {
    /// Returns a duplicate of a descriptor of a caller, which waits for its answer.
    fn duplicate(&mut self, tid: u32, fd: i32) -> Result<OwnedFd, Errno> {
        if let Some(thread) = self.callers.get(&tid) {
            match sys::pidfd_getfd(thread.as_fd(), fd) {
                Err(Errno(libc::ESRCH)) => {}
                other => return other,
            }
        }
        let thread = sys::pidfd_open_thread(tid)?;
        let file = sys::pidfd_getfd(thread.as_fd(), fd);
        if self.callers.len() >= MOST {
            self.callers.clear();
        }
        self.callers.insert(tid, thread);
        file
    }

    /// The call at hand is a call of before with this file.
    pub(super) fn again(&mut self, call: &Call, file: OwnedFd) {
        self.first = own_key(&file).ok().map(|key| First {
            call: call.id,
            key,
            file: Some(file),
        });
    }

    /// The call at hand is over.
    pub(super) fn done(&mut self) {
        self.first = None;
    }
}

impl Supervisor {
    /// Returns the identity of the file that a call's first argument names.
    pub(super) fn first_key(&mut self, call: &Call) -> Result<FileKey, Errno> {
        if let Some(first) = self.files.first.as_ref().filter(|f| f.call == call.id) {
            return Ok(first.key);
        }
        if !takes_socket(call) {
            return Self::file_key(call.tid, call.int(0));
        }
        match self.files.duplicate(call.tid, call.int(0)) {
            Ok(file) => {
                let key = own_key(&file)?;
                self.files.first = Some(First {
                    call: call.id,
                    key,
                    file: Some(file),
                });
                Ok(key)
            }
            Err(Errno(libc::EBADF)) => Err(Errno(libc::EBADF)),
            // An older kernel, or a caller whose files may be seen but not taken.
            Err(_) => Self::file_key(call.tid, call.int(0)),
        }
    }

    /// Returns a duplicate of the descriptor that a call's first argument names.
    pub(super) fn duplicate(&mut self, call: &Call) -> Result<OwnedFd, Errno> {
        let first = self.files.first.as_mut().filter(|f| f.call == call.id);
        if let Some(file) = first.and_then(|first| first.file.take()) {
            return Ok(file);
        }
        match self.files.duplicate(call.tid, call.int(0)) {
            Err(Errno(libc::EINVAL | libc::ENOENT)) => {
                let process = sys::pidfd_open(self.process(call))?;
                sys::pidfd_getfd(process.as_fd(), call.int(0))
            }
            done => done,
        }
    }
}
