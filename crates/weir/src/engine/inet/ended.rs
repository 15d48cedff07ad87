// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is kept of streams that the stack has closed, for programs that still have the descriptor: `SO_ERROR`, their
//! address, and what another `connect` returns.

use std::collections::{BTreeMap, VecDeque};

use weir_intercept::Errno;

/// The most streams that are kept; the one that ended first is forgotten first.
const MOST: usize = 4096;

/// A stream that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    /// The error that the program has not asked for, or 0.
    pub(super) error: i32,
    /// The local address, as `getsockname` returns it.
    pub(super) local: Vec<u8>,
    /// It was never connected.
    pub(super) failed: bool,
    /// Options of a stream that ended with an error: those of [`KEPT`].
    pub(super) options: Vec<Vec<u8>>,
}

/// `SO_MEMINFO` of linux/socket.h
const SO_MEMINFO: i32 = 55;

/// The options that are kept: level and name.
pub(super) const KEPT: [(i32, i32); 3] = [
    (libc::SOL_TCP, libc::TCP_INFO),
    (libc::SOL_TCP, libc::TCP_CC_INFO),
    (libc::SOL_SOCKET, SO_MEMINFO),
];

impl End {
    /// Returns the value of an option of a stream that ended with an error.
    pub(super) fn option(&self, level: i32, name: i32) -> Option<Vec<u8>> {
        let place = KEPT.iter().position(|kept| *kept == (level, name))?;
        self.options.get(place).cloned()
    }
}

/// The streams that have ended.
#[derive(Debug, Default)]
pub(super) struct Ended {
    streams: BTreeMap<u64, End>,
    order: VecDeque<u64>,
}

impl Ended {
    /// Adds a stream.
    pub(super) fn add(&mut self, id: u64, end: End) {
        if self.order.len() >= MOST
            && let Some(first) = self.order.pop_front()
        {
            self.streams.remove(&first);
        }
        self.order.push_back(id);
        self.streams.insert(id, end);
    }

    pub(super) fn get(&self, id: u64) -> Option<&End> {
        self.streams.get(&id)
    }

    /// Takes the error of a stream. `None` if the stream is not known.
    pub(super) fn take_error(&mut self, id: u64) -> Option<i32> {
        let end = self.streams.get_mut(&id)?;
        Some(std::mem::take(&mut end.error))
    }

    /// What another `connect` returns (`__inet_stream_connect`): the error of the one that failed. Linux begins anew at the
    /// third; here the pair is closed.
    pub(super) fn connect(&mut self, id: u64) -> Errno {
        match self.streams.get_mut(&id) {
            None => Errno(libc::EBADF),
            Some(end) if !end.failed => Errno(libc::EISCONN),
            Some(end) => match std::mem::take(&mut end.error) {
                0 => Errno(libc::ECONNABORTED),
                error => Errno(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(error: i32, failed: bool) -> End {
        End {
            error,
            local: vec![1],
            failed,
            options: Vec::new(),
        }
    }

    #[test]
    fn an_error_is_told_once() {
        let mut ended = Ended::default();
        ended.add(1, end(libc::ECONNREFUSED, true));
        ended.add(2, end(libc::ECONNRESET, false));
        assert_eq!(ended.connect(1), Errno(libc::ECONNREFUSED));
        assert_eq!(ended.connect(1), Errno(libc::ECONNABORTED));
        assert_eq!(ended.connect(2), Errno(libc::EISCONN));
        assert_eq!(ended.take_error(2), Some(libc::ECONNRESET));
        assert_eq!(ended.take_error(2), Some(0));
        assert_eq!(ended.connect(3), Errno(libc::EBADF));
        assert_eq!(ended.take_error(3), None);
    }

    #[test]
    fn figures_of_a_stream_with_an_error_are_kept() {
        let mut end = end(libc::ECONNREFUSED, true);
        assert_eq!(end.option(libc::SOL_TCP, libc::TCP_INFO), None);
        end.options = vec![vec![7; 4], vec![], vec![8; 2]];
        assert_eq!(end.option(libc::SOL_TCP, libc::TCP_INFO), Some(vec![7; 4]));
        assert_eq!(end.option(libc::SOL_TCP, libc::TCP_CC_INFO), Some(vec![]));
        assert_eq!(end.option(libc::SOL_SOCKET, SO_MEMINFO), Some(vec![8; 2]));
        assert_eq!(end.option(libc::SOL_TCP, libc::TCP_NODELAY), None);
    }

    #[test]
    fn the_first_that_ended_is_forgotten_first() {
        let mut ended = Ended::default();
        // The oldest socket ends last.
        for id in (0..=MOST as u64).rev() {
            ended.add(id, end(0, false));
        }
        assert_eq!(ended.get(MOST as u64), None);
        assert_eq!(ended.get(0), Some(&end(0, false)));
        assert_eq!((ended.streams.len(), ended.order.len()), (MOST, MOST));
    }
}
