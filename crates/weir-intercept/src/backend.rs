// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the supervisor asks of the stack: the [`Backend`] trait.
//!
//! `weir run` implements it in process; `weir exec` uses [`crate::control::Client`], which
//! forwards every call over the control socket of `weir up`.
//!
//! Every call is synchronous: when it returns, the stack already acts on it. That is what lets a
//! client's `bind`, `setsockopt`, `unshare` or `write` to a sysctl have returned only after its
//! effect. Calls come from supervisor threads, one per launch, and may come from several at once.
use serde::{Deserialize, Serialize};
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// A network namespace of the stack.
///
/// Numbers should be small and may be reused after [`Backend::release`] dropped the namespace:
/// the number rides in a thread's timer slack (see [`crate::task`]), one nanosecond a number.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
pub struct NsId(pub u32);

/// A netlink socket of a client; the backend chooses the number, unique for the stack's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SocketId(pub u64);

/// A positive Linux errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errno(pub i32);

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

impl std::error::Error for Errno {}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Self {
        Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

/// Where a stack keeps its files, and what it is called.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StackInfo {
    /// Names the stack; a launch inside a launch of the same stack just runs the program.
    pub id: String,
    /// The stack's [`crate::runtime::Runtime`] directory.
    pub directory: PathBuf,
    /// The namespace programs start in unless told otherwise.
    pub initial: NsId,
}

/// A client opens `socket(AF_NETLINK, _, protocol)`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SocketRequest {
    /// Namespace of the calling thread; the socket stays in it for life, as in Linux.
    pub ns: NsId,
    /// `NETLINK_ROUTE` or `NETLINK_GENERIC`: the supervisor answers for all others.
    pub protocol: i32,
    /// Process id (thread group) of the client: the port id it gets if that one is free.
    pub process: u32,
    /// Thread id of the caller.
    pub thread: u32,
}

/// The backend's answer to a [`SocketRequest`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SocketGrant {
    /// Names the socket in later calls.
    pub id: SocketId,
    /// The port id (`nl_pid`) of the socket: the process id, or for its further sockets a
    /// number not in use, as `netlink_autobind` chooses it.
    pub portid: u32,
}

/// A `SOL_NETLINK` option that was set on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SocketOption {
    /// `NETLINK_ADD_MEMBERSHIP` of a multicast group number (1 and up).
    AddMembership(u32),
    /// `NETLINK_DROP_MEMBERSHIP`.
    DropMembership(u32),
    /// `NETLINK_PKTINFO`.
    PacketInfo(bool),
    /// `NETLINK_BROADCAST_ERROR`.
    BroadcastError(bool),
    /// `NETLINK_NO_ENOBUFS`.
    NoEnobufs(bool),
    /// `NETLINK_LISTEN_ALL_NSID`.
    ListenAllNsid(bool),
    /// `NETLINK_CAP_ACK`.
    CapAck(bool),
    /// `NETLINK_EXT_ACK`.
    ExtAck(bool),
    /// `NETLINK_GET_STRICT_CHK`.
    StrictCheck(bool),
}

/// A tree of small text files the stack serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Tree {
    /// `/proc/sys/net`
    Sysctl,
    /// `/proc/net` (and `/proc/PID/net`)
    ProcNet,
    /// `/sys/class/net`
    SysClassNet,
    /// `/sys/bus/netdevsim`
    SysBusNetdevsim,
}

impl Tree {
    /// Where it stands.
    pub fn root(self) -> &'static str {
        match self {
            Tree::Sysctl => "/proc/sys/net",
            Tree::ProcNet => "/proc/net",
            Tree::SysClassNet => "/sys/class/net",
            Tree::SysBusNetdevsim => "/sys/bus/netdevsim",
        }
    }
}

/// What stands at a path of a [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Node {
    /// A directory.
    Directory,
    /// A file with these permission bits (`0o644`, `0o444`, `0o200`).
    File(u32),
}

/// A file opened for writing through a descriptor whose writes the filter cannot see
/// (`exec 3>/proc/sys/net/...; echo 1 >&3`).
///
/// The backend reads `pipe` until end of file; each read is one value. It must do so
/// before it serves any other request, see [`crate::transport::PendingWrites`].
#[derive(Debug)]
pub struct PendingWriter {
    /// Its namespace.
    pub ns: NsId,
    /// Its tree.
    pub tree: Tree,
    /// Path relative to the tree's root.
    pub path: String,
    /// Read end of a packet pipe (non-blocking).
    pub pipe: OwnedFd,
    /// Standard error of the launcher, for a sentence when a value is refused.
    pub complaints: OwnedFd,
}

/// What the supervisor asks of the stack.
///
/// Paths are relative to the root of their [`Tree`], without a leading slash; the root itself
/// is the empty string.
pub trait Backend: Send + Sync {
    /// The stack behind this backend.
    fn stack(&self) -> StackInfo;

    /// A client opened a netlink socket. `daemon_end` is the stack's end of it: a `SOCK_SEQPACKET`
    /// socket, one packet a netlink datagram, non-blocking, ready for requests
    /// ([`crate::transport::Connection`] wraps it). End of file means that the client closed.
    fn open_socket(
        &self,
        request: &SocketRequest,
        daemon_end: OwnedFd,
    ) -> Result<SocketGrant, Errno>;

    /// `bind`: a port id of 0 keeps the one the socket has; `groups` is the mask of the first 32
    /// multicast groups and replaces what was there among these 32. Returns the port id;
    /// `EADDRINUSE` if another socket has it.
    fn bind(&self, socket: SocketId, portid: u32, groups: u32) -> Result<u32, Errno>;

    /// `setsockopt(SOL_NETLINK, ...)`.
    fn set_option(&self, socket: SocketId, option: SocketOption) -> Result<(), Errno>;

    /// Returns when every request this socket has sent so far is answered: a client called
    /// `recvfrom` with `MSG_DONTWAIT` and in Linux the answer would be there.
    fn settle(&self, socket: SocketId);

    /// Whether the client still has this socket open (used to prune tables).
    fn is_open(&self, socket: SocketId) -> bool;

    /// `unshare(CLONE_NEWNET)`: makes a namespace. The caller holds it at once ([`Backend::hold`]).
    fn create_namespace(&self) -> Result<NsId, Errno>;

    /// A launch has a thread or an open file in this namespace from now on.
    fn hold(&self, launch: u64, ns: NsId);

    /// A launch has no thread and no open file in this namespace (it may never have had one:
    /// then a name was removed). The stack drops the namespace if no launch holds it, none of
    /// its sockets is open and [`crate::runtime::Runtime::is_named`] says no.
    fn release(&self, launch: u64, ns: NsId);

    /// A launch ended: all its holds are void.
    fn end_launch(&self, launch: u64);

    /// What stands at `path`; `ENOENT` if nothing.
    fn lookup(&self, ns: NsId, tree: Tree, path: &str) -> Result<Node, Errno>;

    /// Names in a directory, in a stable order.
    fn list(&self, ns: NsId, tree: Tree, path: &str) -> Result<Vec<String>, Errno>;

    /// The content of a file, with its final newline.
    fn read(&self, ns: NsId, tree: Tree, path: &str) -> Result<Vec<u8>, Errno>;

    /// A write to a file; `EINVAL` for a value the kernel would refuse.
    fn write(&self, ns: NsId, tree: Tree, path: &str, value: &[u8]) -> Result<(), Errno>;

    /// Takes over a file whose writes cannot be trapped.
    fn pending_writer(&self, writer: PendingWriter) -> Result<(), Errno>;

    /// One rtnetlink request in a namespace on behalf of the supervisor (ioctls are translated
    /// to these), with the whole answer: replies, dump parts, acknowledgement, concatenated.
    fn request(&self, ns: NsId, request: &[u8]) -> Result<Vec<u8>, Errno>;

    /// A command of the command line (`weir stat`, `weir play`, ...); not called by supervisors.
    fn command(&self, command: &serde_json::Value) -> Result<serde_json::Value, String> {
        Err(format!("unknown command {command}"))
    }

    /// A command with descriptors it may use (where a capture shall go).
    fn command_with(
        &self,
        command: &serde_json::Value,
        files: Vec<OwnedFd>,
    ) -> Result<serde_json::Value, String> {
        let _ = files;
        self.command(command)
    }
}
