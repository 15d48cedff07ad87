// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One client's netlink socket: the thread that serves it, and the datagrams that flow back.
//!
//! The thread serves requests one datagram at a time, under the socket's own lock. Answers and
//! notifications leave through the mailbox. Back-pressure stops a client that does not read: once
//! the socket is full and the connection [`Connection::is_congested`], its next requests stay in
//! its own send buffer, and a dump pauses with a few datagrams in memory. The memory of a socket is
//! bounded by [`Mailbox::LIMIT`] for answers, and by the longest request, whose buffer is freed
//! after it has been served.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::event::{PollFd, PollFlags, poll};
use weir_intercept::transport::{self, MAX_REQUEST, Received};
use weir_stack::link::nlmon;
use weir_stack::notify::Mailbox;
use weir_stack::{Connection, NsId, Protocol};

use super::Engine;
use crate::inside;

/// The minimum size in bytes of a socket's buffer once it has been used.
const SHORT: usize = 16 << 10;
/// The buffer of a request longer than this, in bytes, is freed after the request.
const LONG: usize = 64 << 10;

/// Returns whether a datagram begins with a new filter.
fn is_filter(datagram: &[u8]) -> bool {
    let first = weir_netlink::messages(datagram).next();
    first.is_some_and(|message| message.header.ty == weir_netlink::rtm::NEWTFILTER)
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }
}

/// The stack's side of a client's socket.
pub struct Socket {
    /// The wire.
    wire: transport::Connection,
    /// The stack's end. Held while one datagram is served.
    connection: Mutex<Connection>,
    mailbox: Arc<Mailbox>,
    /// Held while datagrams are sent, so that they leave in order.
    leaving: Mutex<()>,
    /// Counts the datagrams sent to clients.
    sent: Arc<AtomicU64>,
    /// Wakes the serving thread when a datagram could not be sent at once.
    wake: PipeWriter,
    ns: NsId,
    protocol: Protocol,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Socket {
    /// Creates the socket; [`Socket::serve`] runs it. `connect` receives the mailbox's waker.
    pub fn new(
        wire: transport::Connection,
        sent: Arc<AtomicU64>,
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
                sent,
                wake: writer,
                ns,
                protocol,
            }
        });
        Ok((socket, reader))
    }

    /// Returns the socket's namespace.
    pub fn namespace(&self) -> NsId {
        self.ns
    }

    /// Returns the socket's protocol.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Locks the stack's end.
    pub fn connection(&self) -> MutexGuard<'_, Connection> {
        lock(&self.connection)
    }

    /// Returns the queue of the socket's answers and notifications, which also holds its groups and
    /// port id.
    pub fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// Returns whether more datagrams will be sent as soon as the client has room. Returns false
    /// while a request is served.
    pub fn has_more(&self) -> bool {
        let connection = self.connection.try_lock();
        let dumping = connection.is_ok_and(|connection| connection.is_dumping());
        dumping || self.mailbox.octets() > 0
    }

    fn wake(&self) {
        // A full pipe wakes the thread just as well.
        let _ = (&self.wake).write(&[0]);
    }

    /// Ends the serving thread.
    pub fn close(&self) {
        self.wake();
    }

    /// Sends the queued datagrams. Returns false if the client's queue is full.
    fn flush(&self) -> bool {
        let _order = lock(&self.leaving);
        while let Some(datagram) = self.mailbox.take() {
            match self.wire.send(&datagram) {
                Ok(()) => {
                    self.sent.fetch_add(1, SeqCst);
                }
                Err(weir_intercept::Errno(libc::EAGAIN)) => {
                    self.mailbox.put_back(datagram);
                    return false;
                }
                // The client is gone; the serving thread will notice.
                Err(_) => return true,
            }
        }
        true
    }

    /// Serves the available requests, at most `most` datagrams. Returns their number, or `None` if
    /// the client has closed the socket. The buffer grows to the length of the request.
    pub fn serve_present(&self, engine: &Engine, buffer: &mut Vec<u8>, most: u64) -> Option<u64> {
        let mut served = 0;
        loop {
            let _serving = engine.time.serving();
            if nlmon::waits(&engine.stack) {
                engine.cpu().settle();
            }
            let mut connection = lock(&self.connection);
            let flushed = self.flush();
            if connection.is_dumping() && flushed {
                connection.pump();
                continue;
            }
            if served == most || !flushed && connection.is_congested() {
                return Some(served);
            }
            // A request that arrives only after this check may be longer than the buffer.
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
            // What the request counts includes its own copy, as on Linux.
            None => connection.request_shown(datagram, || {
                if nlmon::waits(&engine.stack) {
                    engine.cpu().settle();
                }
            }),
            Some((header, command)) => {
                let answer = weir_intercept::Backend::command_with(engine, &command, Vec::new());
                let answer = answer.map(|(answer, files)| {
                    if !files.is_empty() {
                        let _order = lock(&self.leaving);
                        // A client that is gone gets no answer either.
                        if self.wire.send_with(&inside::files(&header), &files).is_ok() {
                            self.sent.fetch_add(1, SeqCst);
                        }
                    }
                    answer
                });
                for datagram in inside::answer(&header, &answer) {
                    self.mailbox.answer_unseen(datagram);
                }
            }
        }
    }

    /// Serves the client until it closes the socket. `client` is the thread that opened it.
    pub fn serve(&self, engine: &Engine, client: u32, mut woken: PipeReader) {
        let mut buffer = Vec::new();
        let mut ride = engine.placement.ride(client);
        while !engine.is_stopping() {
            // A busy client sends the next request only after the answer, so a second look would
            // find none.
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
            // After an interrupted wait the loop checks again.
            if poll(&mut fds, None).is_ok() && !fds[1].revents().is_empty() {
                let mut drained = [0; 64];
                let _ = woken.read(&mut drained);
            }
            // Only a client that waits for each answer shares the serving thread's CPU. A client
            // with more requests in flight is served in parallel.
            if served == 1 {
                ride.packet();
            }
        }
    }
}
