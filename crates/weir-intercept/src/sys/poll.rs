// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting for descriptors: `poll` and `epoll`.
#![allow(unsafe_code)] // calls with lists that describe themselves.
use super::{check, owned};
use crate::backend::Errno;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Polls descriptors for input and returns the `revents` of each. A timeout of `None` waits without
/// limit.
pub(crate) fn poll_in(fds: &[BorrowedFd<'_>], timeout_ms: Option<i32>) -> Result<Vec<i16>, Errno> {
    poll(fds.iter().map(|fd| (*fd, libc::POLLIN)), timeout_ms)
}

/// Polls descriptors for events of their own, as [`poll_in`] does.
pub(crate) fn poll<'a>(
    fds: impl Iterator<Item = (BorrowedFd<'a>, i16)>,
    timeout_ms: Option<i32>,
) -> Result<Vec<i16>, Errno> {
    let mut set = PollSet::default();
    set.poll(fds, timeout_ms)?;
    Ok(set.events(0..set.len()).collect())
}

/// The descriptors of a poll, in memory that the next one uses again.
#[derive(Default)]
pub(crate) struct PollSet(Vec<libc::pollfd>);

impl PollSet {
    /// Polls these descriptors, as [`poll`] does.
    pub(crate) fn poll<'a>(
        &mut self,
        fds: impl Iterator<Item = (BorrowedFd<'a>, i16)>,
        timeout_ms: Option<i32>,
    ) -> Result<(), Errno> {
        let Self(set) = self;
        set.clear();
        set.extend(fds.map(|(fd, events)| libc::pollfd {
            fd: fd.as_raw_fd(),
            events,
            revents: 0,
        }));
        // SAFETY: pointer and length describe `set`.
        let n = unsafe { libc::poll(set.as_mut_ptr(), set.len() as u64, timeout_ms.unwrap_or(-1)) };
        match check(n) {
            Ok(_) | Err(Errno(libc::EINTR)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// What has happened at the descriptors of these places.
    pub(crate) fn events(&self, places: Range<usize>) -> impl Iterator<Item = i16> + Clone + '_ {
        self.0[places].iter().map(|polled| polled.revents)
    }
}

/// Creates an epoll, close-on-exec.
pub(crate) fn epoll_create() -> Result<OwnedFd, Errno> {
    // SAFETY: no pointers.
    owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })
}

/// Adds a descriptor to an epoll, identified by a number.
pub(crate) fn epoll_add(
    epoll: BorrowedFd<'_>,
    fd: BorrowedFd<'_>,
    events: u32,
    number: u64,
) -> Result<(), Errno> {
    let mut event = libc::epoll_event {
        events,
        u64: number,
    };
    // SAFETY: the event outlives the call.
    check(unsafe {
        libc::epoll_ctl(
            epoll.as_raw_fd(),
            libc::EPOLL_CTL_ADD,
            fd.as_raw_fd(),
            &mut event,
        )
    })?;
    Ok(())
}

/// Removes a descriptor from an epoll if it is there.
pub(crate) fn epoll_remove(epoll: BorrowedFd<'_>, fd: BorrowedFd<'_>) {
    // SAFETY: for this operation the event may be null.
    unsafe {
        libc::epoll_ctl(
            epoll.as_raw_fd(),
            libc::EPOLL_CTL_DEL,
            fd.as_raw_fd(),
            std::ptr::null_mut(),
        )
    };
}

/// Returns the numbers of ready descriptors, or some of them if there are many.
pub(crate) fn epoll_ready(epoll: BorrowedFd<'_>) -> Vec<u64> {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
    // SAFETY: there is room for as many events as told.
    let count = unsafe {
        libc::epoll_wait(
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            events.len() as i32,
            0,
        )
    };
    let count = usize::try_from(count).unwrap_or(0);
    events[..count].iter().map(|event| event.u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_set_has_the_events_of_its_last_poll() {
        let (read, write) = std::io::pipe().expect("a pipe");
        let input = |fd| (fd, libc::POLLIN);
        let mut set = PollSet::default();
        let two = [
            input(read.as_fd()),
            (write.as_fd(), libc::POLLIN | libc::POLLOUT),
        ];
        assert_eq!(set.poll(two.into_iter(), Some(0)), Ok(()));
        assert_eq!(set.len(), 2);
        assert!(set.events(0..2).eq([0, libc::POLLOUT]));
        drop(write);
        assert_eq!(set.poll([input(read.as_fd())].into_iter(), Some(0)), Ok(()));
        assert_eq!(set.len(), 1);
        assert!(set.events(0..1).eq([libc::POLLHUP]));
    }

    #[test]
    fn an_epoll_has_the_numbers_of_those_that_are_ready() {
        let epoll = epoll_create().expect("an epoll");
        let (read, write) = std::io::pipe().expect("a pipe");
        let added = epoll_add(epoll.as_fd(), read.as_fd(), libc::EPOLLIN as u32, 7);
        assert_eq!(added, Ok(()));
        assert!(epoll_ready(epoll.as_fd()).is_empty());
        drop(write);
        assert_eq!(epoll_ready(epoll.as_fd()), [7]);
        // Although another descriptor of the file is open.
        let other = read.try_clone().expect("a duplicate");
        epoll_remove(epoll.as_fd(), read.as_fd());
        drop(read);
        assert!(epoll_ready(epoll.as_fd()).is_empty());
        drop(other);
    }
}
