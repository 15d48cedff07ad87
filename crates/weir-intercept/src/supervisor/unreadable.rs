// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Attributes of sysfs that can be opened but not read, such as the speed of a device without one.
//!
//! In Linux the read fails and not the open, and programs rely on it: Go's procfs skips attributes whose read fails and
//! gives up when an open does. For EINVAL the client gets an epoll descriptor, which the kernel cannot read. For EOPNOTSUPP
//! it gets an empty file at a number of [`READ_FDS`], where the filter sees reads; a duplicate of it at another
//! number reads as empty.

use super::{FileKey, Handled, Supervisor, own_key};
use crate::backend::Errno;
use crate::filter::READ_FDS;
use crate::seccomp::{Answer, Call};
use crate::sys;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};

/// The file that stands for all attributes whose read fails with EOPNOTSUPP. It stays open, so that its identity is never
/// that of another file.
#[derive(Debug, Default)]
pub(super) struct Unreadable(Option<(OwnedFd, FileKey)>);

impl Supervisor {
    /// Answers an open of an attribute whose read fails with `error`.
    pub(super) fn open_unreadable(
        &mut self,
        call: &Call,
        error: Errno,
        close_on_exec: bool,
    ) -> Handled {
        match error.0 {
            libc::EINVAL => {
                let file = sys::epoll_create()?;
                self.listener
                    .answer_with(call, file.as_fd(), close_on_exec, None)
            }
            libc::EOPNOTSUPP => self.open_unsupported(call, close_on_exec),
            _ => Err(error),
        }
    }

    fn open_unsupported(&mut self, call: &Call, close_on_exec: bool) -> Handled {
        let (file, _) = match &mut self.unreadable.0 {
            Some(known) => known,
            none => {
                let file = sys::memory_file(c"weir", &[])?;
                let key = own_key(&file)?;
                none.insert((file, key))
            }
        };
        for number in READ_FDS {
            let taken = fs::symlink_metadata(format!("/proc/{}/fd/{number}", call.tid)).is_ok();
            if !taken
                && let Ok(sent) =
                    self.listener
                        .answer_with(call, file.as_fd(), close_on_exec, Some(number))
            {
                return Ok(sent);
            }
        }
        // All numbers are taken, or lie beyond the caller's limit of open files.
        Err(Errno(libc::EOPNOTSUPP))
    }

    /// Handles a read of a descriptor of [`READ_FDS`].
    pub(super) fn read(&mut self, call: &Call) -> Handled {
        let Some((_, unsupported)) = &self.unreadable.0 else {
            return Ok(Answer::Continue);
        };
        match Self::file_key(call.tid, call.int(0)) {
            Ok(key) if key == *unsupported => Err(Errno(libc::EOPNOTSUPP)),
            _ => Ok(Answer::Continue),
        }
    }
}
