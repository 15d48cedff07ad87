// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The daemon's end of clients' netlink sockets.
//!
//! A client's netlink socket is one end of an `AF_UNIX SOCK_SEQPACKET` pair: one packet is one
//! netlink datagram. The daemon's end is bound to a ten-byte abstract name `00 XX 00 00 00 00 g g g
//! g`. A client that asks for the sender of a message therefore gets an address of length 12 whose
//! bytes 4..8, `nl_pid` of a `sockaddr_nl`, are 0: the kernel. (`nl_family` reads `AF_UNIX`;
//! clients that look at it use `recvfrom`, which the supervisor completes.) Five random bytes make
//! the name unique. The supervisor creates the pair and passes it to the daemon. Nothing listens
//! under that name, so nobody else can connect. The daemon knows the socket before the client does,
//! so a notification right after `bind` cannot be lost.
//!
//! This module also has [`PendingWrites`] (sysctl writes that the filter could not see) and
//! [`Placement`].
use crate::backend::{Errno, NsId, PendingWriter, Tree};
use crate::sys::{self, CpuSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The longest request accepted, in bytes. A client's `SO_SNDBUF` bounds its requests; beyond that
/// `sendmsg` fails with EMSGSIZE as on a netlink socket. The bound is slightly below 425,984 bytes
/// for an ordinary user, unless `net.core.wmem_max` was raised or `SO_SNDBUFFORCE` used. A buffer
/// costs memory only as it is written.
pub const MAX_REQUEST: usize = 4 << 20;
/// The send buffer that the daemon's end requests, bytes. The kernel caps it at twice `wmem_max`.
const DAEMON_SEND_BUFFER: i32 = 4 << 20;

/// Creates a client's socket: (client's end, daemon's end).
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (client, daemon) = sys::socket_pair(libc::SOCK_SEQPACKET)?;
    // A collision of five random bytes is improbable; if it happens, another five are drawn.
    for attempt in 0.. {
        let random = sys::random_u64().to_ne_bytes();
        let mut name = [0; 10];
        name[1] = random[0] | 1; // never all zero
        name[6..10].copy_from_slice(&random[1..5]);
        match sys::bind_abstract(daemon.as_fd(), &name) {
            Err(Errno(libc::EADDRINUSE)) if attempt < 16 => {}
            Err(error) => return Err(error),
            Ok(()) => break,
        }
    }
    sys::set_socket_option(
        daemon.as_fd(),
        libc::SOL_SOCKET,
        libc::SO_SNDBUF,
        DAEMON_SEND_BUFFER,
    )?;
    Ok((client, daemon))
}

/// The result of [`Connection::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A datagram of this many bytes is in the buffer.
    Datagram(usize),
    /// A datagram longer than the buffer was dropped.
    TooLong(usize),
    /// No datagram is available now.
    Nothing,
    /// The client closed its end.
    Closed,
}

/// The daemon's end of a netlink socket. No call blocks.
#[derive(Debug)]
pub struct Connection {
    fd: OwnedFd,
}

impl Connection {
    /// Wraps the `daemon_end` of [`crate::Backend::open_socket`].
    pub fn new(daemon_end: OwnedFd) -> Connection {
        Connection { fd: daemon_end }
    }

    /// Receives the next request.
    pub fn receive(&self, buffer: &mut [u8]) -> Received {
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        match sys::receive(self.fd.as_fd(), buffer, flags) {
            // An empty datagram and end of file both read as 0; the hang-up distinguishes them.
            Ok(0) if self.is_closed() => Received::Closed,
            Ok(n) if n > buffer.len() => Received::TooLong(n),
            Ok(n) => Received::Datagram(n),
            Err(Errno(libc::EAGAIN | libc::EINTR)) => Received::Nothing,
            Err(_) => Received::Closed,
        }
    }

    /// Returns the length of the next request in bytes, or `None` if none is available now. Returns
    /// 0 at end of file.
    pub fn next_length(&self) -> Option<usize> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC | libc::MSG_PEEK;
        match sys::receive(self.fd.as_fd(), &mut [], flags) {
            Err(Errno(libc::EAGAIN | libc::EINTR)) => None,
            length => Some(length.unwrap_or(0)),
        }
    }

    /// Sends a datagram. Fails with `EAGAIN` if the client does not read and its queue is full
    /// (Linux would pause a dump, and drop a notification with `ENOBUFS`), and with `EPIPE` or
    /// `ECONNRESET` if the client has closed its end.
    pub fn send(&self, datagram: &[u8]) -> Result<(), Errno> {
        match sys::send(self.fd.as_fd(), datagram, libc::MSG_DONTWAIT) {
            Ok(_) => Ok(()),
            Err(Errno(libc::ENOBUFS)) => Err(Errno(libc::EAGAIN)),
            Err(error) => Err(error),
        }
    }

    /// Sends a datagram with descriptors, which a client receives with `recvmsg`. Fails as
    /// [`send`](Self::send) does.
    pub fn send_with(&self, datagram: &[u8], files: &[OwnedFd]) -> Result<(), Errno> {
        let fds: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        sys::send_with_fds(self.fd.as_fd(), datagram, &fds, 0).map(drop)
    }

    /// Waits until a request is available or the client has closed its end. Returns false after
    /// `timeout_ms` (`None`: no limit).
    pub fn wait(&self, timeout_ms: Option<i32>) -> bool {
        sys::poll_in(&[self.fd.as_fd()], timeout_ms).is_ok_and(|events| events[0] != 0)
    }

    fn is_closed(&self) -> bool {
        sys::poll_in(&[self.fd.as_fd()], Some(0))
            .is_ok_and(|events| events[0] & (libc::POLLHUP | libc::POLLERR) != 0)
    }
}

impl AsFd for Connection {
    /// Returns the descriptor for `poll`, which is readable when a request waits or the client has
    /// closed its end.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Sysctl files open for writing whose writes the filter cannot see.
///
/// The daemon has one of these, adds every [`PendingWriter`] to it, and calls
/// [`PendingWrites::drain`] before it serves any request. A value written before a request is then
/// in effect when the request is served. Without such files `drain` costs one load.
#[derive(Debug, Default)]
pub struct PendingWrites {
    count: AtomicUsize,
    /// The writers. `count` is the length of this list.
    writers: Mutex<Vec<PendingWriter>>,
}

impl PendingWrites {
    /// Takes over a writer.
    pub fn add(&self, writer: PendingWriter) {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.push(writer);
        self.count.store(writers.len(), Ordering::Release);
    }

    /// Applies the values written since the last call. The write of a refused value has already
    /// succeeded, so a message on the launcher's standard error reports the refusal.
    pub fn drain(&self, mut apply: impl FnMut(NsId, Tree, &str, &[u8]) -> Result<(), Errno>) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.retain(|writer| {
            let mut value = [0; 4096];
            loop {
                match sys::read(writer.pipe.as_fd(), &mut value) {
                    Ok(0) => return false,
                    Ok(n) => {
                        if let Err(error) = apply(writer.ns, writer.tree, &writer.path, &value[..n])
                        {
                            complain(writer, &value[..n], error);
                        }
                    }
                    Err(Errno(libc::EAGAIN | libc::EINTR)) => return true,
                    Err(_) => return false,
                }
            }
        });
        self.count.store(writers.len(), Ordering::Release);
    }
}

fn complain(writer: &PendingWriter, value: &[u8], error: Errno) {
    use std::io::Write;
    let value = String::from_utf8_lossy(value);
    let sentence = format!(
        "weir: {}/{}: value '{}' refused: {error}\n",
        writer.tree.root(),
        writer.path,
        value.trim_end(),
    );
    if let Ok(fd) = writer.complaints.try_clone() {
        // A failure to print cannot be reported anywhere.
        drop(std::fs::File::from(fd).write_all(sentence.as_bytes()));
    }
}

/// Puts a busy client and the thread that serves it on one CPU.
///
/// `tc -b` sends a request and waits for its answer. With the two sides on different CPUs, each
/// step wakes an idle CPU (14 k requests a second); on one CPU it is a context switch (64 k).
/// [`Ride::packet`] counts packets that arrived alone, and at the 64th moves the pair to one CPU,
/// round robin over connections. Dropping the [`Ride`] restores the former CPU sets. Short-lived
/// clients are never moved. This serves daemons with one thread per connection.
#[derive(Debug)]
pub struct Placement {
    cpus: Vec<usize>,
    next: AtomicUsize,
}

/// The number of packets after which a connection counts as busy.
const BUSY_PACKETS: u32 = 64;

impl Placement {
    /// Creates a placement over the CPUs that the calling thread may use now.
    pub fn new() -> Placement {
        Placement {
            cpus: CpuSet::of(0).map(|set| set.cpus()).unwrap_or_default(),
            next: AtomicUsize::new(0),
        }
    }

    /// Starts to track a connection. Call it on the thread that serves it. `client` is the thread
    /// that opened the socket ([`crate::SocketRequest::thread`]).
    pub fn ride(&self, client: u32) -> Ride<'_> {
        Ride {
            placement: self,
            client,
            packets: 0,
            before: None,
        }
    }
}

impl Default for Placement {
    fn default() -> Self {
        Placement::new()
    }
}

/// One connection under [`Placement`].
#[allow(missing_debug_implementations)] // holds CPU masks only
pub struct Ride<'a> {
    placement: &'a Placement,
    client: u32,
    packets: u32,
    /// The CPU sets of the client and of this thread before the move.
    before: Option<(CpuSet, CpuSet)>,
}

impl Ride<'_> {
    /// Returns whether enough packets arrived alone.
    pub fn is_busy(&self) -> bool {
        self.packets >= BUSY_PACKETS
    }

    /// Counts a packet whose client waits for the answer, and moves the pair at the 64th.
    pub fn packet(&mut self) {
        self.packets = self.packets.saturating_add(1);
        if self.packets != BUSY_PACKETS || self.placement.cpus.len() < 2 {
            return;
        }
        let (Ok(client), Ok(server)) = (CpuSet::of(self.client), CpuSet::of(0)) else {
            return;
        };
        let turn = self.placement.next.fetch_add(1, Ordering::Relaxed);
        let cpu = CpuSet::one(self.placement.cpus[turn % self.placement.cpus.len()]);
        if cpu.apply(self.client).is_ok() {
            self.before = Some((client, server));
            // The client is moved already. If this thread cannot follow, the client is still
            // served.
            let _ = cpu.apply(0);
        }
    }
}

impl Drop for Ride<'_> {
    fn drop(&mut self) {
        if let Some((client, server)) = self.before {
            // The client may be gone.
            let _ = client.apply(self.client);
            let _ = server.apply(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_empty_ones_and_the_end() {
        let (client, daemon) = pair().unwrap();
        let daemon = Connection::new(daemon);
        let mut buffer = [0; 8];
        assert_eq!(daemon.receive(&mut buffer), Received::Nothing);
        sys::send(client.as_fd(), b"abc", 0).unwrap();
        sys::send(client.as_fd(), b"", 0).unwrap();
        sys::send(client.as_fd(), b"123456789", 0).unwrap();
        assert_eq!(daemon.receive(&mut buffer), Received::Datagram(3));
        assert_eq!(daemon.receive(&mut buffer), Received::Datagram(0));
        assert_eq!(daemon.receive(&mut buffer), Received::TooLong(9));
        drop(client);
        // A process that another test has just started holds the other end until it executes its program.
        let mut end = daemon.receive(&mut buffer);
        for _ in 0..1000 {
            if end != Received::Nothing {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
            end = daemon.receive(&mut buffer);
        }
        assert_eq!(end, Received::Closed);
        assert!(daemon.send(b"x").is_err());
    }

    #[test]
    fn a_client_that_does_not_read_is_felt() {
        let (_client, daemon) = pair().unwrap();
        let daemon = Connection::new(daemon);
        let sent = (0..1_000_000)
            .take_while(|_| daemon.send(&[0; 4096]) == Ok(()))
            .count();
        assert!(sent < 10_000, "{sent} datagrams queued without a reader");
        assert_eq!(daemon.send(&[0; 4096]), Err(Errno(libc::EAGAIN)));
    }

    #[test]
    fn pending_writes_are_applied_in_order() {
        let (read, write) = sys::packet_pipe().unwrap();
        let pending = PendingWrites::default();
        pending.drain(|_, _, _, _| panic!("nothing pending"));
        pending.add(PendingWriter {
            ns: NsId(1),
            tree: Tree::Sysctl,
            path: "ipv4/ip_forward".into(),
            pipe: read,
            complaints: sys::standard_error().unwrap(),
        });
        let mut file = std::fs::File::from(write);
        use std::io::Write;
        file.write_all(b"1\n").unwrap();
        file.write_all(b"0\n").unwrap();
        let mut seen = Vec::new();
        pending.drain(|ns, _, path, value| {
            seen.push((ns, path.to_string(), value.to_vec()));
            Ok(())
        });
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[1].2, b"0\n");
        drop(file);
        // A process that another test forks in this moment holds the pipe too, until it runs its program.
        for _ in 0..5000 {
            pending.drain(|_, _, _, _| Ok(()));
            if pending.count.load(Ordering::Relaxed) == 0 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("the writer has gone, and still counts as pending");
    }
}
