// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Safe wrappers of the seccomp user-notification listener.
#![allow(unsafe_code)] // ioctls on the listener with fixed kernel structures.
use crate::backend::Errno;
use crate::sys::{self, CpuSet};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::LazyLock;

/// A system call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// The id of the notification.
    pub(crate) id: u64,
    /// The calling thread.
    pub(crate) tid: u32,
    /// The number of the call.
    pub(crate) number: i64,
    /// The arguments.
    pub(crate) args: [u64; 6],
}

impl Call {
    /// Returns an argument that is a C int (a descriptor, a flag word).
    pub(crate) fn int(&self, argument: usize) -> i32 {
        self.args[argument] as i32
    }
}

/// The answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The kernel executes the call unchanged.
    Continue,
    /// The call returns this value.
    Value(i64),
    /// The answer was sent already, with a descriptor.
    Sent,
    /// The answer is sent later, when the wait is over ([`crate::waits`]).
    Later,
}

/// Returns whether a call whose notification was received waits for its answer whatever signals come, unless they end
/// the process (`SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV`, Linux 5.19). Otherwise a signal has the call restarted.
pub(crate) fn waits_through_signals() -> bool {
    static WAITS: LazyLock<bool> = LazyLock::new(|| {
        let flags =
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
        // SAFETY: there is no filter to install. A kernel that knows the flags says that its pointer is bad.
        let result = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                std::ptr::null::<libc::sock_fprog>(),
            )
        };
        sys::check(result as i32) == Err(Errno(libc::EFAULT))
    });
    *WAITS
}

/// The listener of one filter.
#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

impl Listener {
    /// Wraps the listener, and requests wakeups on the waker's CPU where Linux supports them (6.6).
    pub(crate) fn new(fd: OwnedFd) -> Listener {
        const SYNC_WAKE_UP: u64 = 1;
        // SAFETY: the argument is a plain number. Older kernels refuse the call, which only costs
        // time.
        unsafe {
            libc::ioctl(
                fd.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS,
                SYNC_WAKE_UP,
            )
        };
        Listener(fd)
    }

    /// Takes the next call. The listener must be readable. Fails with `ENOENT` if the caller has
    /// died.
    pub(crate) fn receive(&self) -> Result<Call, Errno> {
        // SAFETY: all-zero is a valid notification, and the kernel demands zeroes.
        let mut request: libc::seccomp_notif = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: `request` is the structure this ioctl fills.
        sys::check(unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_RECV,
                &mut request,
            )
        })?;
        Ok(Call {
            id: request.id,
            tid: request.pid,
            number: i64::from(request.data.nr),
            args: request.data.args,
        })
    }

    /// Answers a call. A caller that has died needs no answer.
    pub(crate) fn answer(&self, call: &Call, answer: Result<Answer, Errno>) {
        let mut response = libc::seccomp_notif_resp {
            id: call.id,
            val: 0,
            error: 0,
            flags: 0,
        };
        match answer {
            Ok(Answer::Sent | Answer::Later) => return,
            Ok(Answer::Continue) => {
                response.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
            }
            Ok(Answer::Value(value)) => response.val = value,
            Err(Errno(errno)) => response.error = -errno,
        }
        // SAFETY: `response` is the structure this ioctl reads.
        unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SEND,
                &response,
            )
        };
    }

    /// Returns whether the caller still waits. If it does, the memory and descriptors read before
    /// were the caller's, not those of another process that reused its id.
    pub(crate) fn is_waiting(&self, call: &Call) -> bool {
        // SAFETY: the argument points to the 64-bit id this ioctl reads.
        let result = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_ID_VALID,
                &call.id,
            )
        };
        result == 0
    }

    /// Replaces a descriptor of the caller, which still waits for its answer.
    pub(crate) fn replace(
        &self,
        call: &Call,
        fd: BorrowedFd<'_>,
        close_on_exec: bool,
        at: u32,
    ) -> Result<(), Errno> {
        let flags = libc::SECCOMP_ADDFD_FLAG_SETFD as u32;
        self.add(call, fd, close_on_exec, flags, at).map(drop)
    }

    fn add(
        &self,
        call: &Call,
        fd: BorrowedFd<'_>,
        close_on_exec: bool,
        flags: u32,
        at: u32,
    ) -> Result<i64, Errno> {
        let request = libc::seccomp_notif_addfd {
            id: call.id,
            flags,
            srcfd: fd.as_raw_fd() as u32,
            newfd: at,
            newfd_flags: if close_on_exec {
                libc::O_CLOEXEC as u32
            } else {
                0
            },
        };
        // SAFETY: `request` is the structure this ioctl reads.
        sys::check(unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_ADDFD,
                &request,
            )
        })
    }

    /// As [`answer_with`](Self::answer_with) at the lowest free number. The caller continues on the CPU of this thread.
    ///
    /// The caller itself installs the descriptor, while this thread waits. On one CPU that is two switches. On two, which
    /// the kernel leaves as they are while the caller's CPU is idle, it is two interrupts of CPUs that sleep, and takes ten
    /// times as long. For the installation the caller may therefore run on this CPU only; the answer wakes it there, too
    /// (`SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`). It may run where it could before when it continues. Its descriptor is then
    /// the only one of the file.
    pub(crate) fn answer_here(
        &self,
        call: &Call,
        file: OwnedFd,
        close_on_exec: bool,
    ) -> Result<Answer, Errno> {
        let here = sys::current_cpu();
        // A call that a signal restarts would leave the descriptor behind.
        let all = CpuSet::of(call.tid).ok().filter(|all| {
            waits_through_signals()
                && all.has_more_than(here)
                && CpuSet::one(here).apply(call.tid).is_ok()
        });
        let Some(all) = all else {
            return self.answer_with(call, file.as_fd(), close_on_exec, None);
        };
        let number = self.add(call, file.as_fd(), close_on_exec, 0, 0);
        drop(file);
        // The caller may be gone.
        let _ = all.apply(call.tid);
        self.answer(call, Ok(Answer::Value(number?)));
        Ok(Answer::Sent)
    }

    /// Answers a call with a new descriptor in the caller: the lowest free number, or `at`.
    pub(crate) fn answer_with(
        &self,
        call: &Call,
        fd: BorrowedFd<'_>,
        close_on_exec: bool,
        at: Option<u32>,
    ) -> Result<Answer, Errno> {
        let mut flags = libc::SECCOMP_ADDFD_FLAG_SEND as u32;
        if at.is_some() {
            flags |= libc::SECCOMP_ADDFD_FLAG_SETFD as u32;
        }
        self.add(call, fd, close_on_exec, flags, at.unwrap_or(0))?;
        Ok(Answer::Sent)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
