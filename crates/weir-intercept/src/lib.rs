// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a program so that its netlink sockets, namespace calls and /proc/sys/net reach Weir.
//!
//! The program, unmodified and unprivileged, runs under a seccomp filter with a user-notification
//! listener. A supervisor thread answers the calls the filter stops (the table in `filter.rs`); the
//! rest, among it every `sendmsg` and `recvmsg`, runs natively.
//!
//! ```text
//!  program ──(netlink datagrams, a SEQPACKET socket)──────────► stack
//!     │ socket, bind, unshare, setns, open("/proc/sys/net/...")    ▲
//!     └──────► supervisor ──────── Backend ────────────────────────┘
//! ```
//!
//! * [`Launcher`] starts a program; [`Child`] is one that runs.
//! * [`Backend`] is what a supervisor asks of the stack; [`control`] carries it to another process.
//! * [`Runtime`] is the directory where namespaces have their files and names.
//! * [`transport`] has the stack's end of netlink sockets.
//! * [`task`] says which namespace a thread is in.
//!
//! # What a daemon does
//! It makes a [`Runtime`], implements [`Backend`], and for each socket it is handed
//! ([`Backend::open_socket`]) polls a [`transport::Connection`]. Before it serves any request it calls
//! [`transport::PendingWrites::drain`]. `IFLA_NET_NS_FD` and `NETNSA_FD` are
//! [`Runtime::namespace_of_fd`] of the client's process, `IFLA_NET_NS_PID` is
//! [`task::Tasks::namespace_of`]. It drops a namespace by the rule of [`Backend::release`].
//!
//! # Limits
//! Both modes stop every `open` and `stat` (some 10 us each, 60 us before Linux 6.6 has synchronous
//! wake-ups): paths cannot be told apart in the kernel. `clone(CLONE_NEWNET)` and `clone3` are not
//! served; the second falls back to the first in all C libraries. A namespace without a
//! name goes shortly after its last process, not with it. Where an outer seccomp filter answers `unshare` or
//! `mount` itself (Docker's default profile) its answer stands, and `ip netns add` fails; gVisor has
//! no user notification. Programs with their own PID namespace or root directory name paths
//! that are not recognised. With no-new-privileges, set-user-id programs and file capabilities
//! (sudo, ping) have no effect.
//!
//! Needs Linux 5.14, x86_64 or aarch64, 64-bit clients. This leads honest programs; it is
//! no sandbox for hostile ones.
#![deny(unsafe_code)]

mod backend;
pub mod control;
mod filter;
mod launcher;
mod look;
mod runtime;
mod seccomp;
mod signals;
mod spawn;
mod supervisor;
mod sys;
pub mod task;
pub mod transport;
pub mod waits;

pub use backend::{
    Backend, Errno, Node, NsId, PendingWriter, SocketGrant, SocketId, SocketOption, SocketRequest,
    StackInfo, Tree,
};
pub use launcher::{ACTIVE_VARIABLE, Child, EXIT_SETUP, Exit, LaunchError, Launcher, Mode};
pub use runtime::Runtime;

/// A sentence on standard error; nobody is left to tell if that fails.
fn say(sentence: &str) {
    use std::io::Write;
    drop(writeln!(std::io::stderr(), "weir: {sentence}"));
}
