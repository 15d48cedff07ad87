// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pairs of UNIX sockets: made when they are needed, or ahead of need.
//!
//! A stream pair takes some ten microseconds of the kernel's time to make and to close, which is a good part of a
//! connection with one short request. While programs open many streams, a thread of its own makes pairs ahead and closes
//! ends, on a CPU that is not the one where the connections are served. It ends when no stream has been opened for a while,
//! with the pairs that are left.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::fstat;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair, sockopt};
use weir_intercept::Errno;

use super::lock;

/// The send buffer of a client's end of a stream, in bytes.
const SEND_BUFFER: usize = 256 << 10;
/// How many pairs there are ahead of need, and how many ends may wait to be closed.
const AHEAD: usize = 32;
/// The thread is called when so few pairs are left.
const CALL_AT: usize = 8;
/// So many streams in [`BURST`] are many.
const MANY: u32 = 32;
const BURST: Duration = Duration::from_millis(50);
/// The thread ends when no stream has been opened for that long.
const IDLE: Duration = Duration::from_millis(100);

/// A client's end of a pair.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) file: OwnedFd,
    /// Its device and inode.
    pub(super) identity: (u64, u64),
}

/// A pair: the client's end, and the stack's, which does not block.
pub(super) type Pair = (Client, OwnedFd);

/// Makes a pair. That of a stream has the first held byte ([`super::stream`]).
///
/// The kernel takes an end for writable again when a quarter of its send buffer is in use. The held byte of a stream
/// keeps the block that it came in, which `sendfile` makes 64 KiB long, so a quarter must be more than that.
pub(super) fn pair(kind: SocketType) -> Result<Pair, Errno> {
    let os = |error: rustix::io::Errno| Errno(error.raw_os_error());
    let made = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    let (client, wire) = made.map_err(os)?;
    if kind == SocketType::STREAM {
        // The kernel allows up to net.core.wmem_max, which it doubles: 416 KiB unless the host changed it.
        sockopt::set_socket_send_buffer_size(&client, SEND_BUFFER).map_err(os)?;
        send(&client, &[0], SendFlags::DONTWAIT).map_err(os)?;
    }
    let stat = fstat(&client).map_err(os)?;
    let client = Client {
        file: client,
        identity: (stat.st_dev, stat.st_ino),
    };
    Ok((client, wire))
}

/// The pairs of streams.
#[derive(Debug, Default)]
pub(super) struct Pairs(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// There is work for the thread.
    called: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ready: Vec<Pair>,
    /// Ends to close, which nobody watches.
    closing: Vec<Arc<OwnedFd>>,
    /// Whether the thread runs.
    runs: bool,
    /// It has been called and has not begun.
    is_called: bool,
    /// The stack is gone.
    over: bool,
    /// How many streams have been opened since `since`.
    opened: u32,
    since: Option<Instant>,
}

impl Pairs {
    /// Returns a new pair of a stream.
    pub(super) fn take(&self) -> Result<Pair, Errno> {
        let mut state = lock(&self.0.state);
        state.opened += 1;
        if !state.runs {
            state.begin_if_many(&self.0);
        } else if state.ready.len() <= CALL_AT {
            self.0.call(&mut state);
        }
        let made = state.ready.pop();
        drop(state);
        made.map_or_else(|| pair(SocketType::STREAM), Ok)
    }

    /// Closes the stack's end of a pair whose program has closed its own, soon.
    pub(super) fn close(&self, end: Arc<OwnedFd>) {
        let mut state = lock(&self.0.state);
        if !state.runs {
            drop(state);
            drop(end);
            return;
        }
        state.closing.push(end);
        if state.closing.len() >= AHEAD {
            self.0.call(&mut state);
        }
    }
}

impl Drop for Pairs {
    fn drop(&mut self) {
        lock(&self.0.state).over = true;
        self.0.called.notify_all();
    }
}

impl State {
    /// Starts the thread if programs open many streams, and there is another CPU.
    fn begin_if_many(&mut self, shared: &Arc<Shared>) {
        if self.opened < MANY {
            return;
        }
        let now = Instant::now();
        let many = self.since.is_some_and(|since| now - since < BURST);
        (self.opened, self.since) = (0, Some(now));
        if !many || !std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
            return;
        }
        let shared = shared.clone();
        let started = std::thread::Builder::new()
            .name("weir-pairs".into())
            .spawn(move || shared.run());
        // Without the thread pairs are made when they are needed.
        self.runs = started.is_ok();
    }
}

impl Shared {
    fn call(&self, state: &mut State) {
        if !std::mem::replace(&mut state.is_called, true) {
            self.called.notify_one();
        }
    }

    /// Makes and closes pairs until no stream is opened any more.
    fn run(&self) {
        let mut state = lock(&self.state);
        loop {
            state.is_called = false;
            state.opened = 0;
            let missing = AHEAD.saturating_sub(state.ready.len());
            let closing = std::mem::take(&mut state.closing);
            drop(state);
            drop(closing);
            // Without descriptors to spare there are none ahead.
            let made: Vec<Pair> = (0..missing)
                .map_while(|_| pair(SocketType::STREAM).ok())
                .collect();
            state = lock(&self.state);
            state.ready.extend(made);
            let waits = |state: &mut State| !state.is_called && !state.over;
            let waited = self.called.wait_timeout_while(state, IDLE, waits);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
            if state.over || !state.is_called && state.opened == 0 {
                state.runs = false;
                state.since = None;
                let left = (
                    std::mem::take(&mut state.ready),
                    std::mem::take(&mut state.closing),
                );
                drop(state);
                drop(left);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{RecvFlags, recv};

    #[test]
    fn pairs_made_ahead_are_as_good_as_others_and_go_with_the_stack() {
        let pairs = Pairs::default();
        let shared = pairs.0.clone();
        lock(&shared.state).runs = true;
        let thread = std::thread::spawn(move || shared.run());
        let mut clients = Vec::new();
        for _ in 0..4 * AHEAD {
            let (client, wire) = pairs.take().expect("a pair");
            let mut byte = [7; 2];
            let got = recv(&wire, &mut byte, RecvFlags::DONTWAIT).map(|(length, _)| length);
            assert_eq!((got, byte), (Ok(1), [0, 7]));
            pairs.close(Arc::new(wire));
            clients.push(client);
        }
        let shared = pairs.0.clone();
        drop(pairs);
        thread.join().expect("the thread ends");
        for client in clients {
            let got =
                recv(&client.file, &mut [0; 1], RecvFlags::DONTWAIT).map(|(length, _)| length);
            assert_eq!(got, Ok(0));
        }
        let state = lock(&shared.state);
        assert!(state.ready.is_empty() && state.closing.is_empty() && !state.runs);
    }

    #[test]
    fn the_thread_ends_when_no_stream_is_opened() {
        let pairs = Pairs::default();
        lock(&pairs.0.state).runs = true;
        pairs.0.run();
        let state = lock(&pairs.0.state);
        assert!(state.ready.is_empty() && !state.runs);
    }

    #[test]
    fn ends_are_closed_at_once_without_the_thread() {
        let pairs = Pairs::default();
        let (client, wire) = pairs.take().expect("a pair");
        let mut byte = [7];
        assert!(recv(&wire, &mut byte, RecvFlags::DONTWAIT).is_ok());
        pairs.close(Arc::new(wire));
        let got = recv(&client.file, &mut byte, RecvFlags::DONTWAIT).map(|(length, _)| length);
        assert_eq!(got, Ok(0));
    }
}
