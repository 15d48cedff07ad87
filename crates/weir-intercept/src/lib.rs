// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a program so that its netlink sockets, namespace calls and `/proc/sys/net` reach Weir.
//!
//! The program, unmodified and unprivileged, runs under a seccomp filter with a user-notification
//! listener. A supervisor thread answers the calls that the filter stops (the table in
//! `filter.rs`). All other calls run natively, also the `sendmsg` and `recvmsg` of iproute2.
//!
//! ```text
//!  program ──(netlink datagrams, a SEQPACKET socket)──────────► stack
//!     │ socket, bind, unshare, setns, open("/proc/sys/net/...")    ▲
//!     └──────► supervisor ──────── Backend ────────────────────────┘
//! ```
//!
//! * [`Launcher`] starts a program; [`Child`] is a running program.
//! * [`Backend`] is the interface a supervisor needs from the stack; [`control`] carries it to
//!   another process.
//! * [`Runtime`] is the directory that holds the files and names of namespaces.
//! * [`transport`] is the stack's end of netlink sockets.
//! * [`task`] finds the namespace of a thread.
//!
//! # Requirements on a daemon
//! A daemon makes a [`Runtime`], implements [`Backend`], and polls a [`transport::Connection`] for
//! each socket it receives in [`Backend::open_socket`]. It calls
//! [`transport::PendingWrites::drain`] before it serves any request. It resolves `IFLA_NET_NS_FD`
//! and `NETNSA_FD` with [`Runtime::namespace_of_fd`] of the client's process, and `IFLA_NET_NS_PID`
//! with [`task::Tasks::namespace_of`]. It drops a namespace by the rule of [`Backend::release`].
//!
//! # Limits
//! - Both modes stop every `open`, `stat` and `mkdir`, because the kernel's filter cannot tell paths apart.
//!   Each stop costs about 10 us, or 60 us before Linux 6.6 introduced synchronous wakeups.
//! - `clone(CLONE_NEWNET)` and `clone3` are not served. All C libraries fall back from `clone3` to
//!   `clone`.
//! - A namespace without a name is dropped shortly after its last process exits, not at the same
//!   moment.
//! - If an outer seccomp filter answers `unshare` or `mount` itself (Docker's default profile
//!   does), its answer stands and `ip netns add` fails. gVisor has no user notification.
//! - Paths are not recognised when they come from programs with their own PID namespace or root
//!   directory.
//! - Under no-new-privileges, set-user-id programs and file capabilities (sudo, ping) have no
//!   effect.
//!
//! Needs Linux 5.14, x86_64, aarch64 or riscv64, and 64-bit clients. The crate runs honest programs; it is
//! no sandbox for hostile ones.
#![deny(unsafe_code)]

mod alarms;
mod backend;
mod cgroup;
pub mod control;
pub mod datagram;
mod filter;
mod launcher;
mod look;
mod rank;
mod runtime;
mod seccomp;
mod signals;
mod spawn;
mod supervisor;
mod sys;
pub mod task;
pub mod transport;
pub mod tun;
pub mod waits;

pub use backend::{
    Attendant, Backend, Errno, InetCall, InetReply, Node, NsId, PendingWriter, SocketGrant,
    SocketId, SocketOption, SocketRequest, StackInfo, Tree,
};
pub use launcher::{ACTIVE_VARIABLE, Child, EXIT_SETUP, Exit, LaunchError, Launcher, Mode};
pub use runtime::Runtime;

/// Prints a sentence on standard error, and ignores a failure to do so.
fn say(sentence: &str) {
    use std::io::Write;
    drop(writeln!(std::io::stderr(), "weir: {sentence}"));
}
