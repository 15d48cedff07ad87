// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interface between the supervisor and the stack: the [`Backend`] trait.
//!
//! `weir run` implements it in process. `weir exec` uses [`crate::control::Client`], which forwards
//! every call over the control socket of `weir up`.
//!
//! Every call is synchronous: the stack has applied it when it returns. Therefore a client's
//! `bind`, `setsockopt`, `unshare` or write to a sysctl returns only after it took effect. Each
//! launch has a supervisor thread that makes these calls, so several calls may arrive at once.
use serde::{Deserialize, Serialize};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

/// A network namespace of the stack.
///
/// Numbers should be small, and may be reused after [`Backend::release`] dropped the namespace: a
/// thread's timer slack carries the number (see [`crate::task`]), one nanosecond per unit.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
pub struct NsId(pub u32);

/// A netlink socket of a client. The backend chooses the number, which is unique for the life of
/// the stack.
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

/// The name of a stack and the place of its files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StackInfo {
    /// The name of the stack. A launch inside a launch of the same stack just runs the program.
    pub id: String,
    /// The stack's [`crate::runtime::Runtime`] directory.
    pub directory: PathBuf,
    /// The namespace in which programs start by default.
    pub initial: NsId,
}

/// A client's call of `socket(AF_NETLINK, _, protocol)`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SocketRequest {
    /// The namespace of the calling thread. The socket stays in it for life, as in Linux.
    pub ns: NsId,
    /// `NETLINK_ROUTE`, `NETLINK_GENERIC`, `NETLINK_NETFILTER` or `NETLINK_SOCK_DIAG`. The supervisor itself answers for all others.
    pub protocol: i32,
    /// The process id (thread group) of the client. The socket gets it as port id if that one is
    /// free.
    pub process: u32,
    /// The thread id of the caller.
    pub thread: u32,
}

/// The backend's answer to a [`SocketRequest`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SocketGrant {
    /// The id of the socket in later calls.
    pub id: SocketId,
    /// The port id (`nl_pid`) of the socket: the process id, or for a process's further sockets an
    /// unused number, chosen like `netlink_autobind` does.
    pub portid: u32,
}

/// A `SOL_NETLINK` option set on a socket.
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

/// A tree of small text files that the stack serves.
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
    /// The modules: `proc` is `/proc/modules`, `index/FILE` is `/lib/modules/RELEASE/FILE`, and `sys/NAME` is
    /// `/sys/module/NAME`.
    Modules,
}

impl Tree {
    /// Returns the path of the root.
    pub fn root(self) -> &'static str {
        match self {
            Tree::Sysctl => "/proc/sys/net",
            Tree::ProcNet => "/proc/net",
            Tree::SysClassNet => "/sys/class/net",
            Tree::SysBusNetdevsim => "/sys/bus/netdevsim",
            Tree::Modules => "/lib/modules",
        }
    }
}

/// The kind of node at a path of a [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Node {
    /// A directory.
    Directory,
    /// A file with these permission bits (`0o644`, `0o444`, `0o200`).
    File(u32),
}

/// A file opened for writing through a descriptor whose writes the filter cannot see (`exec
/// 3>/proc/sys/net/...; echo 1 >&3`).
///
/// The backend reads `pipe` until end of file; each read is one value. It must do so before it
/// serves any other request, see [`crate::transport::PendingWrites`].
#[derive(Debug)]
pub struct PendingWriter {
    /// The namespace of the file.
    pub ns: NsId,
    /// The tree of the file.
    pub tree: Tree,
    /// The path relative to the tree's root.
    pub path: String,
    /// The read end of a packet pipe (non-blocking).
    pub pipe: OwnedFd,
    /// The standard error of the launcher, for the message about a refused value.
    pub complaints: OwnedFd,
}

/// A call on an internet, raw or packet socket of a client. The bytes that go with it (an address, data, the value
/// of an option) are passed beside it, in Linux's binary form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InetCall {
    /// `socket(family, kind, protocol)` in a namespace. The reply has the id as value and the client's descriptor.
    Open {
        /// The namespace of the calling thread.
        ns: NsId,
        /// `AF_*`
        family: i32,
        /// `SOCK_*`, without flags.
        kind: i32,
        /// `IPPROTO_*`; for packet sockets an EtherType in network order.
        protocol: i32,
        /// The device to which the socket is bound from its beginning (`sk_bound_dev_if`), 0 for none.
        device: u32,
    },
    /// `bind`; the bytes are the address.
    Bind(SocketId),
    /// `connect`; the bytes are the address. EINPROGRESS for a stream whose handshake goes on: the supervisor then fills
    /// the client's send buffer and reports it by [`InetCall::Filled`].
    Connect(SocketId),
    /// The client's send buffer holds this many bytes that mean nothing. The stack takes them out when the handshake is
    /// over, which makes the descriptor writable.
    Filled {
        /// The stream.
        socket: SocketId,
        /// The number of bytes.
        length: u32,
        /// Whether the caller of `connect` waits for its end. If not, a failed handshake shuts the descriptor down.
        waits: bool,
    },
    /// `listen` with a backlog.
    Listen(SocketId, i32),
    /// Takes a connection that waits. The reply has its id as value, its descriptor, and the peer's address as bytes.
    Accept {
        /// The listening socket.
        socket: SocketId,
        /// Whether the supervisor has taken a byte that stands for a connection out of the descriptor.
        counted: bool,
    },
    /// `sendmsg` of a datagram. The bytes are the address, the control messages and the data.
    Send {
        /// The socket.
        socket: SocketId,
        /// `MSG_*`
        flags: i32,
        /// The length of the address in bytes.
        to: u16,
        /// The length of the control messages in bytes.
        control: u32,
    },
    /// `recvmsg(MSG_ERRQUEUE)`: the reply's bytes are a message ([`crate::datagram`]); EAGAIN if there is none.
    ReceiveError(SocketId),
    /// What the socket is ready for: the reply's value has the bits of `poll`.
    Ready(SocketId),
    /// `mmap` of a packet socket: the reply has a file of memory, with its length in bytes as value. EINVAL without a ring.
    Memory(SocketId),
    /// `getsockname`; the reply's bytes are the address.
    LocalAddress(SocketId),
    /// `getpeername`.
    PeerAddress(SocketId),
    /// `setsockopt(level, name)`; the bytes are the value.
    SetOption(SocketId, i32, i32),
    /// `getsockopt(level, name)`; the bytes are what the caller's buffer holds, the reply's the value.
    Option(SocketId, i32, i32),
    /// `ioctl(request)` of a datagram or raw socket that its protocol serves. The bytes are the structure that the caller
    /// passes, the reply's what is written back.
    Ioctl(SocketId, u32),
    /// Keeps what a datagram socket receives until [`InetCall::Plain`].
    Hold(SocketId),
    /// The packets of a datagram socket are plain from now on ([`crate::datagram`]), and what the client writes to the pair
    /// is sent. The bytes are the packets that were in the pair, each after its length (`u32`).
    Plain(SocketId),
    /// Returns when the socket has all packets of the present time, if the stack's clock is virtual.
    Delivered(SocketId),
    /// How many bytes of a stream its peer has not acknowledged (`SIOCOUTQ`), as value. The bytes of the reply are a u32: how
    /// many the stack has received that have not got into the pair.
    Queued(SocketId),
    /// `shutdown` of a socket that carries no stream.
    Shutdown(SocketId, i32),
    /// `open` of `/dev/net/tun`. The reply has the id as value and the client's descriptor: a `SOCK_SEQPACKET` socket with
    /// one packet per frame.
    OpenTun {
        /// The namespace of the calling thread.
        ns: NsId,
    },
    /// An ioctl of such a file ([`crate::tun`]). The bytes are the `struct ifreq` or the number that the caller passes, the
    /// reply's what is written back. For `TUNGETDEVNETNS` the reply's value is the namespace.
    Tun(SocketId, u32),
}

/// The result of an [`InetCall`].
#[derive(Debug, Default)]
pub struct InetReply {
    /// The number that the call returns.
    pub value: i64,
    /// Bytes for the caller.
    pub bytes: Vec<u8>,
    /// A descriptor for the caller.
    pub file: Option<OwnedFd>,
    /// Its device and inode, if the stack has looked already.
    pub identity: Option<(u64, u64)>,
}

/// The work of a stack for the sockets of clients ([`Backend::attend`]). Its holder polls the descriptor and calls `serve`
/// soon when that is readable, until it is dropped.
pub trait Attendant: AsFd + Send {
    /// Does the work that there is. Returns without waiting for a program.
    fn serve(&self);

    /// Says how many calls of programs wait for a connection of each listening stream, in the order of the ids. Connections
    /// for them that come by the work of this thread do not make the stream readable.
    fn awaits(&self, calls: Vec<(SocketId, usize)>);

    /// Takes the streams at which such connections have come, each with their number. The caller accepts them, and calls
    /// [`show`](Self::show) if it leaves some.
    fn arrived(&self) -> Vec<(SocketId, usize)>;

    /// Makes a listening stream readable if connections wait.
    fn show(&self, listener: SocketId);
}

/// The interface between the supervisor and the stack.
///
/// Paths are relative to the root of their [`Tree`], without a leading slash; the root itself is
/// the empty string.
pub trait Backend: Send + Sync {
    /// Describes the stack behind this backend.
    fn stack(&self) -> StackInfo;

    /// Registers a netlink socket that a client opened. `daemon_end` is the stack's end of it: a
    /// non-blocking `SOCK_SEQPACKET` socket with one packet per netlink datagram, ready for
    /// requests ([`crate::transport::Connection`] wraps it). End of file means that the client
    /// closed it.
    fn open_socket(
        &self,
        request: &SocketRequest,
        daemon_end: OwnedFd,
    ) -> Result<SocketGrant, Errno>;

    /// Serves `bind`. A port id of 0 keeps the one the socket has. `groups` is the mask of the
    /// first 32 multicast groups and replaces the membership in these 32. Returns the port id, or
    /// `EADDRINUSE` if another socket has it.
    fn bind(&self, socket: SocketId, portid: u32, groups: u32) -> Result<u32, Errno>;

    /// Serves `setsockopt(SOL_NETLINK, ...)`.
    fn set_option(&self, socket: SocketId, option: SocketOption) -> Result<(), Errno>;

    /// Returns when every request that this socket has sent so far is answered. The supervisor
    /// calls it when a client calls `recvfrom` with `MSG_DONTWAIT`, because in Linux the answer
    /// would be there.
    fn settle(&self, socket: SocketId);

    /// Returns whether the client still has this socket open (used to prune tables).
    fn is_open(&self, socket: SocketId) -> bool;

    /// Serves `unshare(CLONE_NEWNET)` of a thread in the namespace `creator`: creates a namespace. The caller
    /// holds it at once ([`Backend::hold`]).
    fn create_namespace(&self, creator: NsId) -> Result<NsId, Errno>;

    /// Records that a launch has a thread or an open file in this namespace from now on.
    fn hold(&self, launch: u64, ns: NsId);

    /// Records that a launch has no thread and no open file in this namespace. The launch may never
    /// have had one; then a name was removed. The stack drops the namespace if no launch holds it,
    /// none of its sockets is open and [`crate::runtime::Runtime::is_named`] returns false.
    fn release(&self, launch: u64, ns: NsId);

    /// Records the end of a launch, which voids all its holds.
    fn end_launch(&self, launch: u64);

    /// Looks up `path`. Fails with `ENOENT` if it does not exist.
    fn lookup(&self, ns: NsId, tree: Tree, path: &str) -> Result<Node, Errno>;

    /// Lists the names in a directory, in a stable order.
    fn list(&self, ns: NsId, tree: Tree, path: &str) -> Result<Vec<String>, Errno>;

    /// Returns the content of a file, with its final newline.
    fn read(&self, ns: NsId, tree: Tree, path: &str) -> Result<Vec<u8>, Errno>;

    /// Writes to a file. Fails with `EINVAL` for a value that the kernel would refuse.
    fn write(&self, ns: NsId, tree: Tree, path: &str, value: &[u8]) -> Result<(), Errno>;

    /// Takes over a file whose writes cannot be trapped.
    fn pending_writer(&self, writer: PendingWriter) -> Result<(), Errno>;

    /// Serves one rtnetlink request in a namespace on behalf of the supervisor, which translates
    /// ioctls to such requests. Returns the whole answer, concatenated: replies, dump parts,
    /// acknowledgement.
    fn request(&self, ns: NsId, request: &[u8]) -> Result<Vec<u8>, Errno>;

    /// Serves a command of `SIOCETHTOOL` for the device with this name. `command` is as much of the
    /// structure as the client passes. Returns the bytes that replace it and the result of the call.
    fn ethtool(&self, ns: NsId, name: &[u8], command: &[u8]) -> Result<(Vec<u8>, i64), Errno> {
        let _ = (ns, name, command);
        Err(Errno(libc::EOPNOTSUPP))
    }

    /// Serves an ioctl of an IP tunnel (`SIOCGETTUNNEL` and so on) for the device with this name. `given` is as much
    /// of the structure as can be read. Returns the bytes that replace it.
    fn tunnel(&self, ns: NsId, name: &[u8], request: u32, given: &[u8]) -> Result<Vec<u8>, Errno> {
        let _ = (ns, name, request, given);
        Err(Errno(libc::EOPNOTSUPP))
    }

    /// Serves a call on an internet, raw or packet socket.
    fn inet(&self, call: InetCall, bytes: &[u8]) -> Result<InetReply, Errno> {
        let _ = (call, bytes);
        Err(Errno(libc::EAFNOSUPPORT))
    }

    /// Lets the calling thread do the stack's work for the sockets of clients, which otherwise a thread of the stack does.
    /// A supervisor in the process of the stack asks for it: one thread then does what two would do for each other.
    /// Returns `None` if the stack is in another process, or leaves the work to somebody else.
    fn attend(&self) -> Option<Box<dyn Attendant>> {
        None
    }

    /// Serves a command of the command line (`weir stat`, `weir play`, ...). Supervisors do not
    /// call it.
    fn command(&self, command: &serde_json::Value) -> Result<serde_json::Value, String> {
        Err(format!("unknown command {command}"))
    }

    /// Serves a command with descriptors it may use (for example the destination of a capture).
    /// Returns the answer, and descriptors for the client.
    fn command_with(
        &self,
        command: &serde_json::Value,
        files: Vec<OwnedFd>,
    ) -> Result<(serde_json::Value, Vec<OwnedFd>), String> {
        let _ = files;
        Ok((self.command(command)?, Vec::new()))
    }
}
