// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many vectored reads or writes of one file in a system call (`io_uring_enter`, `io_uring/rw.c`).
//!
//! Each call has `RWF_NOWAIT`, so it is done, or has failed with EAGAIN, before the system call returns, and the order
//! of the calls is kept. `O_NONBLOCK` would not do: io_uring waits for such a file. The kernel needs no lookup of the
//! file and no mode switch per call.
//!
//! A system administrator (`kernel.io_uring_disabled`), a seccomp filter or an old kernel may refuse io_uring, or the
//! kernel's driver of the file may not know `RWF_NOWAIT` (that of TAP devices does in newer kernels). Then
//! [`Calls::new`] returns `None`, or [`Calls::works`] becomes false, and the owner makes single calls.
#![allow(unsafe_code)] // the kernel gets addresses

use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::squeue::Entry;
use io_uring::{IoUring, opcode, types::Fixed};
use libc::iovec;
use weir_packet::batch::BATCH;

/// An iovec for an array's unused places.
pub(crate) const NOTHING: iovec = iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

/// What a call does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Read,
    Write,
}

/// The results of calls, in their order: a number of bytes, or an errno negated.
pub(crate) type Results = [i32; BATCH];

/// Makes calls on one file.
pub(crate) struct Calls {
    ring: IoUring,
    works: bool,
}

impl Drop for Calls {
    fn drop(&mut self) {
        // The kernel frees a ring later; until then it would keep the file open.
        let _ = self.ring.submitter().unregister_files();
    }
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calls").field("works", &self.works).finish()
    }
}

impl Calls {
    /// Prepares calls on a file. Returns `None` if the kernel refuses.
    pub(crate) fn new(file: BorrowedFd<'_>) -> Option<Self> {
        let ring = IoUring::new(BATCH as u32).ok()?;
        // An older kernel may lose completions.
        ring.params().is_feature_nodrop().then_some(())?;
        let files = [file.as_raw_fd()];
        ring.submitter().register_files(&files).ok()?;
        let mut calls = Self { ring, works: true };
        // A filter may allow the ring, and not its use.
        calls.submit(std::iter::once(opcode::Nop::new().build()));
        calls.works.then_some(calls)
    }

    /// Returns whether the kernel still takes calls.
    pub(crate) fn works(&self) -> bool {
        self.works
    }

    /// Makes a call for each element, up to a batch. A call that the kernel did not take has the result EAGAIN.
    ///
    /// # Safety
    /// Each iovec is memory that the caller may read, and, for [`Kind::Read`], write.
    pub(crate) unsafe fn make<const PARTS: usize>(
        &mut self,
        kind: Kind,
        calls: &[[iovec; PARTS]],
    ) -> Results {
        let entries = calls.iter().take(BATCH).map(|parts| {
            let (at, len) = (parts.as_ptr(), PARTS as u32);
            // A device has no offsets: this one stands for the file's own.
            match kind {
                Kind::Read => opcode::Readv::new(Fixed(0), at, len)
                    .offset(u64::MAX)
                    .rw_flags(libc::RWF_NOWAIT)
                    .build(),
                Kind::Write => opcode::Writev::new(Fixed(0), at, len)
                    .offset(u64::MAX)
                    .rw_flags(libc::RWF_NOWAIT)
                    .build(),
            }
        });
        self.submit(entries)
    }

    /// Submits entries, as many as a batch has at most, and waits until all that the kernel has taken are done.
    fn submit(&mut self, entries: impl Iterator<Item = Entry>) -> Results {
        let mut results = [-libc::EAGAIN; BATCH];
        let mut queued = 0;
        for entry in entries {
            let entry = entry.user_data(queued as u64);
            // SAFETY: what the entry refers to lives until this function returns, and by then the kernel is done.
            queued += usize::from(unsafe { self.ring.submission().push(&entry) }.is_ok());
        }
        let mut done = 0;
        while done < queued {
            let result = self.ring.submit_and_wait(queued - done);
            for completion in self.ring.completion() {
                match (
                    completion.result(),
                    results.get_mut(completion.user_data() as usize),
                ) {
                    // The driver does not know RWF_NOWAIT.
                    (result, _) if result == -libc::EOPNOTSUPP => self.works = false,
                    (result, Some(slot)) => *slot = result,
                    (_, None) => {}
                }
                done += 1;
            }
            let Err(error) = result else {
                continue;
            };
            let untaken = self.ring.submission().len();
            let passes = matches!(
                error.raw_os_error(),
                Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)
            );
            // Entries that the kernel did not take end with the ring. Those that it took are waited for.
            if !passes && done + untaken >= queued {
                self.works = false;
                break;
            }
        }
        results
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    use super::*;

    fn part(bytes: &mut [u8]) -> iovec {
        iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        }
    }

    /// Calls are made in order, and end with EAGAIN where a single call would.
    #[test]
    fn in_order() {
        let (a, b) = UnixDatagram::pair().unwrap();
        let (Some(mut to), Some(mut from)) = (Calls::new(a.as_fd()), Calls::new(b.as_fd())) else {
            eprintln!("SKIPPED in_order: io_uring is refused");
            return;
        };
        for round in 0..3_u8 {
            let mut data: Vec<[u8; 3]> = (0..5).map(|n| [n, round, 7]).collect();
            let calls = data.iter_mut().map(|data| {
                let (head, rest) = data.split_at_mut(1);
                [part(head), part(rest)]
            });
            let calls: Vec<_> = calls.collect();
            // SAFETY: the parts live through the call.
            let results = unsafe { to.make(Kind::Write, &calls) };
            assert_eq!(results[..5], [3; 5]);
            let mut room = [[0; 4]; 7];
            let calls: Vec<_> = room.iter_mut().map(|room| [part(room)]).collect();
            // SAFETY: as above.
            let results = unsafe { from.make(Kind::Read, &calls) };
            assert_eq!(results[..5], [3; 5]);
            assert_eq!(results[5..7], [-libc::EAGAIN; 2]);
            for (n, room) in room.iter().take(5).enumerate() {
                assert_eq!(room[..3], [n as u8, round, 7]);
            }
        }
        assert!(to.works() && from.works());
    }

    /// A driver that does not know `RWF_NOWAIT` ends calls at once.
    #[test]
    fn drivers_that_wait() {
        let file = std::fs::File::open("/proc/self/comm").unwrap();
        let Some(mut calls) = Calls::new(file.as_fd()) else {
            eprintln!("SKIPPED drivers_that_wait: io_uring is refused");
            return;
        };
        let mut room = [0; 4];
        // SAFETY: the part lives through the call.
        let results = unsafe { calls.make(Kind::Read, &[[part(&mut room)]]) };
        assert_eq!((results[0], calls.works()), (-libc::EAGAIN, false));
    }
}
