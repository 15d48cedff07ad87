// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One client's netlink socket: the thread that serves it, and what flows back.
//!
//! Requests are served one datagram at a time, under the socket's own lock; answers and
//! notifications leave through the mailbox. A client that does not read is not read from either:
//! beyond what fits the socket and [`Connection::is_congested`] its next requests stay in its own
//! send buffer (back-pressure), and a dump waits with a few datagrams of memory. What a socket takes is bounded by
//! [`Mailbox::LIMIT`] for answers, and by the longest request, which is given back when it has been served.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::event::{PollFd, PollFlags, poll};
use weir_intercept::transport::{self, MAX_REQUEST, Received};
use weir_stack::notify::Mailbox;
use weir_stack::{Connection, NsId, Protocol};

use super::Engine;
use crate::inside;

/// Octets a socket has room for at least, once it has been used.
const SHORT: usize = 16 << 10;
/// A request of more octets gives its memory back when it has been served.
const LONG: usize = 64 << 10;

/// Whether a datagram begins with a new filter.
fn is_filter(datagram: &[u8]) -> bool {
    let first = weir_netlink::messages(datagram).next();
    first.is_some_and(|message| message.header.ty == weir_netlink::rtm::NEWTFILTER)
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }
}

/// A client's socket, from the stack's side.
pub struct Socket {
    /// The wire.
    wire: transport::Connection,
    /// The stack's end. Held while one datagram is served.
    connection: Mutex<Connection>,
    mailbox: Arc<Mailbox>,
    /// Held while datagrams leave, so that they leave in order.
    leaving: Mutex<()>,
    /// Counts datagrams that clients were sent.
    told: Arc<AtomicU64>,
    /// Wakes the serving thread when a datagram could not leave at once.
    wake: PipeWriter,
    ns: NsId,
    protocol: Protocol,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Socket {
    /// Makes the socket; [`Socket::serve`] runs it. `connect` gets the mailbox's waker.
    pub fn new(
        wire: transport::Connection,
        told: Arc<AtomicU64>,
        connect: impl FnOnce(weir_stack::notify::Waker) -> Connection,
    ) -> std::io::Result<(Arc<Self>, PipeReader)> {
        let (reader, writer) = std::io::pipe()?;
        let socket = Arc::new_cyclic(|me: &Weak<Self>| {
            let me = me.clone();
            let connection = connect(Box::new(move || {
                if let Some(socket) = me.upgrade()
                    && !socket.flush()
                {
                    socket.wake();
                }
            }));
            let mailbox = connection.mailbox().clone();
            let ns = connection.namespace().id;
            let protocol = connection.protocol();
            Self {
                wire,
                connection: Mutex::new(connection),
                mailbox,
                leaving: Mutex::new(()),
                told,
                wake: writer,
                ns,
                protocol,
            }
        });
        Ok((socket, reader))
    }

    /// The socket's namespace.
    pub fn namespace(&self) -> NsId {
        self.ns
    }

    /// What it speaks.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The stack's end.
    pub fn connection(&self) -> MutexGuard<'_, Connection> {
        lock(&self.connection)
    }

    /// Where the socket's answers and notifications wait; also holds its groups and port id.
    pub fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// Whether more is to be sent as soon as the client has room; false while a request is served.
    pub fn has_more(&self) -> bool {
        let connection = self.connection.try_lock();
        let dumping = connection.is_ok_and(|connection| connection.is_dumping());
        dumping || self.mailbox.octets() > 0
    }

    fn wake(&self) {
        // A full pipe wakes as well as one more byte would.
        let _ = (&self.wake).write(&[0]);
    }

    /// Ends the serving thread.
    pub fn close(&self) {
        self.wake();
    }

    /// Sends what waits; `false` when the client's queue is full.
    fn flush(&self) -> bool {
        let _order = lock(&self.leaving);
        while let Some(datagram) = self.mailbox.take() {
            match self.wire.send(&datagram) {
                Ok(()) => {
                    self.told.fetch_add(1, SeqCst);
                }
                Err(weir_intercept::Errno(libc::EAGAIN)) => {
                    self.mailbox.put_back(datagram);
                    return false;
                }
                // The client is gone; the serving thread will see it.
                Err(_) => return true,
            }
        }
        true
    }

    /// Serves the requests that are there now, at most `most` datagrams; how many, or none when the client
    /// closed. The buffer grows to what is there.
    pub fn serve_present(&self, engine: &Engine, buffer: &mut Vec<u8>, most: u64) -> Option<u64> {
        let mut served = 0;
        loop {
            let _serving = engine.time.serving();
            let mut connection = lock(&self.connection);
            let flushed = self.flush();
            if connection.is_dumping() && flushed {
                connection.pump();
                continue;
            }
            if served == most || !flushed && connection.is_congested() {
                return Some(served);
            }
            // What is not there now may be longer when it comes.
            let Some(length) = self.wire.next_length() else {
                return Some(served);
            };
            let needed = length.clamp(SHORT, MAX_REQUEST);
            if buffer.len() < needed {
                buffer.resize(needed, 0);
            }
            match self.wire.receive(buffer) {
                Received::Datagram(len) => {
                    engine.settle_sysctls();
                    self.request(engine, &mut connection, &buffer[..len]);
                    engine.look_for_devices();
                    if len > LONG {
                        *buffer = Vec::new();
                    }
                }
                Received::TooLong(len) => connection.refuse_too_long(buffer, len),
                Received::Nothing => return Some(served),
                Received::Closed => return None,
            }
            served += 1;
        }
    }

    fn request(&self, engine: &Engine, connection: &mut Connection, datagram: &[u8]) {
        match inside::command_of(datagram) {
            None if engine.acknowledge_only.load(Relaxed) && is_filter(datagram) => {
                connection.acknowledge_all(datagram);
            }
            None => connection.request(datagram),
            Some((header, command)) => {
                let answer = weir_intercept::Backend::command(engine, &command);
                for datagram in inside::answer(&header, &answer) {
                    self.mailbox.answer(datagram);
                }
            }
        }
    }

    /// Serves the client until it closes; `client` is the thread that opened the socket.
    pub fn serve(&self, engine: &Engine, client: u32, mut woken: PipeReader) {
        let mut buffer = Vec::new();
        let mut ride = engine.placement.ride(client);
        while !engine.is_stopping() {
            // After a request that came alone another look finds none.
            let most = if ride.is_busy() { 1 } else { u64::MAX };
            let Some(served) = self.serve_present(engine, &mut buffer, most) else {
                return;
            };
            let waiting = self.mailbox.octets() > 0;
            let mut interest = PollFlags::empty();
            if waiting {
                interest |= PollFlags::OUT;
            }
            if !(waiting && self.connection().is_congested()) {
                interest |= PollFlags::IN;
            }
            let mut fds = [
                PollFd::from_borrowed_fd(self.wire.as_fd(), interest),
                PollFd::new(&woken, PollFlags::IN),
            ];
            // An interrupted wait is looked at again.
            if poll(&mut fds, None).is_ok() && !fds[1].revents().is_empty() {
                let mut drained = [0; 64];
                let _ = woken.read(&mut drained);
            }
            // Who has more under way than it waits for is served beside it, not in its place.
            if served == 1 {
                ride.packet();
            }
        }
    }
}
