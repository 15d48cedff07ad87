// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of system calls that stop for the supervisor, and the BPF program made from it.
//!
//! A call that is not in the table costs nothing: the kernel caches, per call number, that the
//! filter always allows it. For a call in the table the kernel compares arguments, which takes some
//! nanoseconds; only a match goes to the supervisor (about 10 us, or 60 us before Linux 6.6). Calls
//! of a foreign architecture (i386, x32) and `io_uring` would bypass the filter; they fail with
//! `ENOSYS`, as on a kernel without them. So does `clone3`, whose flags a filter cannot see;
//! libraries fall back to `clone`.
//!
//! Calls that would reach the host beyond its networks (modules, BPF programs, keys, clocks) fail
//! as for a process without capabilities; the program of `ip vrf exec` is served without the kernel.
//! [`calls`] lists every call of x86-64 with the reason for its treatment; calls newer than that
//! list fail with `ENOSYS`.
//!
//! A filter sees the arguments as numbers and never reads memory. Therefore the supervisor judges
//! paths, and the filter recognises the write to a sysctl by its descriptor: see [`WRITE_FDS`].
pub(crate) mod calls;

use crate::supervisor::{MOST_POLLED, STAMPS, cgroup, nsfs};
use crate::tun;
use libc::c_long;

/// The descriptors of sysctl files opened for writing, so that a filter can recognise a `write` to
/// one. They lie below the usual limit of 1,024 open files and below `FD_SETSIZE`.
pub(crate) const WRITE_FDS: std::ops::Range<u32> = 960..992;
/// The descriptors of attributes whose read fails (`supervisor/unreadable.rs`).
pub(crate) const READ_FDS: std::ops::Range<u32> = 992..1020;
/// The descriptors of netlink sockets of programs that may look for an answer without waiting for
/// it. Sends and receives on them stop (`supervisor/traffic.rs`).
pub(crate) const TRAFFIC_FDS: std::ops::Range<u32> = 896..960;
/// The descriptors of netlink sockets of programs that always wait for an answer. Sends and receives of messages go
/// through there, and stop at all other numbers.
pub(crate) const QUICK_FDS: std::ops::Range<u32> = 512..576;
/// A flag of `sendmsg` that no kind of socket looks at. With it the call goes through: a program that is about to start
/// passes its listener to the supervisor.
pub(crate) const UNSEEN: u32 = libc::MSG_FIN as u32;
/// The descriptors of datagram, raw and packet sockets, whose calls all stop (`supervisor/internet/`).
pub(crate) const SOCKET_FDS: std::ops::Range<u32> = 576..896;
/// Those of programs with more of them, which have raised their limit of open files.
pub(crate) const HIGH_FDS: std::ops::Range<u32> = 16_384..81_920;
/// A `write` of at most this many bytes to standard output stops too. A shell runs `echo 1 > FILE`
/// as `open`, `dup2` to 1, `write`; trapping this `write` is the only way to make a refused value
/// fail in the shell.
const SHORT_WRITE: u32 = 128;

/// A condition on an argument of the call (its low 32 bits).
#[derive(Clone, Copy, Debug)]
enum Test {
    /// The argument is one of these.
    In(u8, &'static [u32]),
    /// The argument is in this range, ends included.
    Range(u8, u32, u32),
    /// At least one of these bits is set.
    AnyOf(u8, u32),
    /// None of these bits is set.
    NoneOf(u8, u32),
    /// The 64-bit argument is not zero: a pointer that is not null.
    NotNull(u8),
}
use Test::{AnyOf, In, NoneOf, NotNull, Range};

/// The action when all conditions of a rule hold.
#[derive(Clone, Copy, Debug)]
enum Then {
    Notify,
    Fail(i32),
}
use Then::{Fail, Notify};

/// The condition for a rule to be part of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum If {
    Always,
    /// The program has no network but Weir's.
    NoHostNetwork,
    /// Mode A: `/run/netns` is not a real directory.
    PathTraps,
    /// A resource limit of the process carries the namespace of a thread, with a table as fallback.
    LimitCarrier,
    /// The timer slack of a thread carries its namespace.
    SlackCarrier,
    /// The stack's clock is not the machine's.
    OwnClock,
    /// The launch made the user namespace, which has no groups to choose from.
    OwnUsers,
}

type Rule = (If, c_long, &'static [Test], Then);

/// The options that determine the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) host_network: bool,
    pub(crate) path_traps: bool,
    pub(crate) limit_carrier: bool,
    pub(crate) own_clock: bool,
    pub(crate) own_users: bool,
}

impl Options {
    fn wants(self, condition: If) -> bool {
        match condition {
            If::Always => true,
            If::NoHostNetwork => !self.host_network,
            If::PathTraps => self.path_traps,
            If::LimitCarrier => self.limit_carrier,
            If::SlackCarrier => !self.limit_carrier,
            If::OwnClock => self.own_clock,
            If::OwnUsers => self.own_users,
        }
    }
}

/// Matches a time-out in milliseconds that is neither zero nor infinite.
const fn some_time(argument: u8) -> Test {
    Range(argument, 1, i32::MAX as u32)
}

/// `FUTEX_WAIT` and `FUTEX_WAIT_BITSET`, shared and private, by either clock.
const FUTEX_WAITS: &[u32] = &[
    libc::FUTEX_WAIT as u32,
    (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as u32,
    libc::FUTEX_WAIT_BITSET as u32,
    (libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG) as u32,
    (libc::FUTEX_WAIT_BITSET | libc::FUTEX_CLOCK_REALTIME) as u32,
    (libc::FUTEX_WAIT_BITSET | libc::FUTEX_CLOCK_REALTIME | libc::FUTEX_PRIVATE_FLAG) as u32,
];
/// `open_tree_attr`, the same number everywhere.
const OPEN_TREE_ATTR: c_long = 467;
const NETNS: u32 = libc::CLONE_NEWNET as u32;
const EMPTY_PATH: u32 = libc::AT_EMPTY_PATH as u32;
/// Lengths of sockaddr_nl, sockaddr_in, sockaddr_in6.
const SOCKADDR: &[u32] = &[12, 16, 28];
/// The number of descriptors of a `poll` that may have a socket with an error.
const POLLED: Test = Range(1, 1, MOST_POLLED as u32);
/// The flags of a send that a stream's pair would lose.
const STREAM_FLAGS: u32 = (libc::MSG_EOR | libc::MSG_MORE | libc::MSG_FASTOPEN) as u32;
/// The flags of a receive that may not wait, and of one that a stream's pair would take for another.
const RECEIVE_FLAGS: u32 = (libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE) as u32;
/// The commands of `fcntl` that duplicate a descriptor.
const DUPLICATE: &[u32] = &[libc::F_DUPFD as u32, libc::F_DUPFD_CLOEXEC as u32];
const LAST_WRITE_FD: u32 = WRITE_FDS.end - 1;
const UNREADABLE: Test = Range(0, READ_FDS.start, READ_FDS.end - 1);
const FIRST_WRITE_FD: u32 = WRITE_FDS.start;
/// [`SOCKET_FDS`] and [`TRAFFIC_FDS`], which follow each other.
const TRAFFIC: Test = Range(0, SOCKET_FDS.start, TRAFFIC_FDS.end - 1);
const SOCKETS: Test = Range(0, SOCKET_FDS.start, SOCKET_FDS.end - 1);
const HIGH: Test = Range(0, HIGH_FDS.start, HIGH_FDS.end - 1);
/// The same for the second descriptor of `splice`.
const SOCKETS_OUT: Test = Range(2, SOCKET_FDS.start, SOCKET_FDS.end - 1);
const HIGH_OUT: Test = Range(2, HIGH_FDS.start, HIGH_FDS.end - 1);
/// All numbers but [`QUICK_FDS`]. Only sockets have messages, and most programs send few by these calls.
const BELOW: Test = Range(0, 0, QUICK_FDS.start - 1);
const ABOVE: Test = Range(0, QUICK_FDS.end, u32::MAX);
/// Families that would reach a network outside: INET, INET6, PACKET, VSOCK, XDP.
const OUTSIDE: &[u32] = &[
    libc::AF_INET as u32,
    libc::AF_INET6 as u32,
    libc::AF_PACKET as u32,
    libc::AF_VSOCK as u32,
    libc::AF_XDP as u32,
];

/// The table. Rules of one call are adjacent; the first match decides.
const RULES: &[Rule] = &[
    // Datagrams. They come first because `tc -b` makes few other calls, and each comparison before
    // them slows it down.
    (
        If::NoHostNetwork,
        libc::SYS_sendmsg,
        &[BELOW, NoneOf(2, UNSEEN)],
        Notify,
    ),
    (
        If::NoHostNetwork,
        libc::SYS_sendmsg,
        &[ABOVE, NoneOf(2, UNSEEN)],
        Notify,
    ),
    (If::Always, libc::SYS_sendmsg, &[TRAFFIC], Notify),
    (If::NoHostNetwork, libc::SYS_recvmsg, &[BELOW], Notify),
    (If::NoHostNetwork, libc::SYS_recvmsg, &[ABOVE], Notify),
    (If::Always, libc::SYS_recvmsg, &[TRAFFIC], Notify),
    (
        If::Always,
        libc::SYS_recvmsg,
        &[AnyOf(2, RECEIVE_FLAGS)],
        Notify,
    ),
    (If::NoHostNetwork, libc::SYS_sendmmsg, &[BELOW], Notify),
    (If::NoHostNetwork, libc::SYS_sendmmsg, &[ABOVE], Notify),
    (If::Always, libc::SYS_sendmmsg, &[TRAFFIC], Notify),
    (If::NoHostNetwork, libc::SYS_recvmmsg, &[BELOW], Notify),
    (If::NoHostNetwork, libc::SYS_recvmmsg, &[ABOVE], Notify),
    (If::Always, libc::SYS_recvmmsg, &[TRAFFIC], Notify),
    (
        If::Always,
        libc::SYS_recvmmsg,
        &[AnyOf(3, RECEIVE_FLAGS)],
        Notify,
    ),
    // Attributes that cannot be read.
    (If::Always, libc::SYS_read, &[UNREADABLE], Notify),
    (If::NoHostNetwork, libc::SYS_read, &[SOCKETS], Notify),
    (If::NoHostNetwork, libc::SYS_read, &[HIGH], Notify),
    (If::Always, libc::SYS_pread64, &[UNREADABLE], Notify),
    (If::Always, libc::SYS_readv, &[UNREADABLE], Notify),
    (If::NoHostNetwork, libc::SYS_readv, &[SOCKETS], Notify),
    (If::NoHostNetwork, libc::SYS_readv, &[HIGH], Notify),
    // Sysctl files open for writing.
    (
        If::Always,
        libc::SYS_write,
        &[Range(0, FIRST_WRITE_FD, LAST_WRITE_FD)],
        Notify,
    ),
    (
        If::Always,
        libc::SYS_write,
        &[In(0, &[1]), Range(2, 0, SHORT_WRITE)],
        Notify,
    ),
    (If::Always, libc::SYS_write, &[TRAFFIC], Notify),
    (If::NoHostNetwork, libc::SYS_write, &[HIGH], Notify),
    (
        If::Always,
        libc::SYS_writev,
        &[Range(0, FIRST_WRITE_FD, LAST_WRITE_FD)],
        Notify,
    ),
    (If::Always, libc::SYS_writev, &[TRAFFIC], Notify),
    (If::NoHostNetwork, libc::SYS_writev, &[HIGH], Notify),
    (
        If::Always,
        libc::SYS_pwrite64,
        &[Range(0, FIRST_WRITE_FD, LAST_WRITE_FD)],
        Notify,
    ),
    // Paths: /proc/PID/ns/net, /proc/sys/net, /proc/net, /sys/class/net, /sys/bus/netdevsim, /run/cgroup2; in mode A
    // /run/netns.
    (If::Always, libc::SYS_openat, &[], Notify),
    (
        If::Always,
        libc::SYS_newfstatat,
        &[NoneOf(3, EMPTY_PATH)],
        Notify,
    ),
    (
        If::Always,
        libc::SYS_statx,
        &[NoneOf(2, EMPTY_PATH)],
        Notify,
    ),
    (If::Always, libc::SYS_openat2, &[], Notify),
    (If::Always, libc::SYS_faccessat, &[], Notify),
    (If::Always, libc::SYS_faccessat2, &[], Notify),
    (If::Always, libc::SYS_readlinkat, &[], Notify),
    (If::Always, libc::SYS_mkdirat, &[], Notify),
    (If::Always, libc::SYS_unlinkat, &[], Notify),
    (If::PathTraps, libc::SYS_renameat2, &[], Notify),
    (If::PathTraps, libc::SYS_inotify_add_watch, &[], Notify),
    #[cfg(target_arch = "x86_64")]
    (If::Always, libc::SYS_open, &[], Notify),
    #[cfg(target_arch = "x86_64")]
    (If::Always, libc::SYS_creat, &[], Notify),
    #[cfg(target_arch = "x86_64")]
    (If::Always, libc::SYS_stat, &[], Notify),
    #[cfg(target_arch = "x86_64")]
    (If::Always, libc::SYS_lstat, &[], Notify),
    #[cfg(target_arch = "x86_64")]
    (If::Always, libc::SYS_access, &[], Notify),
    #[cfg(target_arch = "x86_64")]
    (If::Always, libc::SYS_readlink, &[], Notify),
    #[cfg(target_arch = "x86_64")]
    (If::Always, libc::SYS_mkdir, &[], Notify),
    #[cfg(target_arch = "x86_64")]
    (If::Always, libc::SYS_rmdir, &[], Notify),
    #[cfg(target_arch = "x86_64")]
    (If::Always, libc::SYS_unlink, &[], Notify),
    #[cfg(target_arch = "x86_64")]
    (If::PathTraps, libc::SYS_rename, &[], Notify),
    #[cfg(not(target_arch = "riscv64"))]
    (If::PathTraps, libc::SYS_renameat, &[], Notify),
    // `ls -l` asks for these by path.
    (If::Always, libc::SYS_getxattr, &[], Notify),
    (If::Always, libc::SYS_lgetxattr, &[], Notify),
    (If::Always, libc::SYS_listxattr, &[], Notify),
    (If::Always, libc::SYS_llistxattr, &[], Notify),
    // The file of a namespace reports the file system nsfs.
    (If::Always, libc::SYS_statfs, &[], Notify),
    (If::Always, libc::SYS_fstatfs, &[], Notify),
    // Namespaces.
    (If::Always, libc::SYS_unshare, &[AnyOf(0, NETNS)], Notify),
    (
        If::PathTraps,
        libc::SYS_unshare,
        &[AnyOf(0, libc::CLONE_NEWNS as u32)],
        Notify,
    ),
    (If::Always, libc::SYS_setns, &[], Notify),
    (If::Always, libc::SYS_mount, &[], Notify),
    (If::Always, libc::SYS_umount2, &[], Notify),
    (If::Always, libc::SYS_pivot_root, &[], Notify),
    (If::Always, libc::SYS_sethostname, &[], Notify),
    (If::Always, libc::SYS_setdomainname, &[], Notify),
    (If::Always, libc::SYS_pidfd_getfd, &[], Notify),
    // The steps into which these calls split mount(2); programs fall back to mount(2).
    (If::Always, libc::SYS_open_tree, &[], Fail(libc::ENOSYS)),
    (If::Always, OPEN_TREE_ATTR, &[], Fail(libc::ENOSYS)),
    (If::Always, libc::SYS_move_mount, &[], Fail(libc::ENOSYS)),
    (If::Always, libc::SYS_fsopen, &[], Fail(libc::ENOSYS)),
    (If::Always, libc::SYS_fsconfig, &[], Fail(libc::ENOSYS)),
    (If::Always, libc::SYS_fsmount, &[], Fail(libc::ENOSYS)),
    (If::Always, libc::SYS_fspick, &[], Fail(libc::ENOSYS)),
    (If::Always, libc::SYS_mount_setattr, &[], Fail(libc::ENOSYS)),
    (If::Always, libc::SYS_clone, &[AnyOf(0, NETNS)], Notify),
    (
        If::LimitCarrier,
        libc::SYS_clone,
        &[AnyOf(0, libc::CLONE_THREAD as u32)],
        Notify,
    ),
    (If::Always, libc::SYS_clone3, &[], Fail(libc::ENOSYS)),
    (If::LimitCarrier, libc::SYS_exit_group, &[], Notify),
    (
        If::SlackCarrier,
        libc::SYS_prctl,
        &[In(0, &[libc::PR_SET_TIMERSLACK as u32])],
        Notify,
    ),
    // Sockets.
    (
        If::Always,
        libc::SYS_socket,
        &[In(0, &[libc::AF_NETLINK as u32])],
        Notify,
    ),
    (
        If::NoHostNetwork,
        libc::SYS_socket,
        &[In(0, OUTSIDE)],
        Notify,
    ),
    (If::Always, libc::SYS_bind, &[In(2, SOCKADDR)], Notify),
    // A sockaddr_ll, and lengths that are wrong for a socket of the stack.
    (If::NoHostNetwork, libc::SYS_bind, &[], Notify),
    (If::Always, libc::SYS_connect, &[In(2, SOCKADDR)], Notify),
    (If::NoHostNetwork, libc::SYS_connect, &[], Notify),
    (If::NoHostNetwork, libc::SYS_listen, &[], Notify),
    (If::NoHostNetwork, libc::SYS_accept, &[], Notify),
    (If::NoHostNetwork, libc::SYS_accept4, &[], Notify),
    (If::NoHostNetwork, libc::SYS_shutdown, &[], Notify),
    (If::NoHostNetwork, libc::SYS_dup, &[SOCKETS], Notify),
    (If::NoHostNetwork, libc::SYS_dup, &[HIGH], Notify),
    #[cfg(target_arch = "x86_64")]
    (If::NoHostNetwork, libc::SYS_dup2, &[SOCKETS], Notify),
    #[cfg(target_arch = "x86_64")]
    (If::NoHostNetwork, libc::SYS_dup2, &[HIGH], Notify),
    (If::NoHostNetwork, libc::SYS_dup3, &[SOCKETS], Notify),
    (If::NoHostNetwork, libc::SYS_dup3, &[HIGH], Notify),
    (If::NoHostNetwork, libc::SYS_sendfile, &[SOCKETS], Notify),
    (If::NoHostNetwork, libc::SYS_sendfile, &[HIGH], Notify),
    (If::NoHostNetwork, libc::SYS_splice, &[SOCKETS], Notify),
    (If::NoHostNetwork, libc::SYS_splice, &[HIGH], Notify),
    (If::NoHostNetwork, libc::SYS_splice, &[SOCKETS_OUT], Notify),
    (If::NoHostNetwork, libc::SYS_splice, &[HIGH_OUT], Notify),
    (
        If::NoHostNetwork,
        libc::SYS_fcntl,
        &[SOCKETS, In(1, DUPLICATE)],
        Notify,
    ),
    (
        If::NoHostNetwork,
        libc::SYS_fcntl,
        &[HIGH, In(1, DUPLICATE)],
        Notify,
    ),
    (If::Always, libc::SYS_getsockname, &[], Notify),
    (If::Always, libc::SYS_getpeername, &[], Notify),
    (
        If::Always,
        libc::SYS_setsockopt,
        &[In(1, &[libc::SOL_NETLINK as u32])],
        Notify,
    ),
    (If::NoHostNetwork, libc::SYS_setsockopt, &[], Notify),
    (
        If::Always,
        libc::SYS_getsockopt,
        &[In(1, &[libc::SOL_NETLINK as u32])],
        Notify,
    ),
    (
        If::Always,
        libc::SYS_getsockopt,
        &[
            In(1, &[libc::SOL_SOCKET as u32]),
            In(
                2,
                &[
                    libc::SO_TYPE as u32,
                    libc::SO_PROTOCOL as u32,
                    libc::SO_DOMAIN as u32,
                ],
            ),
        ],
        Notify,
    ),
    (If::NoHostNetwork, libc::SYS_getsockopt, &[], Notify),
    (
        If::Always,
        libc::SYS_recvfrom,
        &[AnyOf(3, RECEIVE_FLAGS)],
        Notify,
    ),
    (If::Always, libc::SYS_recvfrom, &[NotNull(4)], Notify),
    (If::Always, libc::SYS_recvfrom, &[TRAFFIC], Notify),
    (If::NoHostNetwork, libc::SYS_recvfrom, &[HIGH], Notify),
    (If::Always, libc::SYS_sendto, &[TRAFFIC], Notify),
    (If::NoHostNetwork, libc::SYS_sendto, &[HIGH], Notify),
    // Streams lose these, and refuse an address.
    (
        If::NoHostNetwork,
        libc::SYS_sendto,
        &[AnyOf(3, STREAM_FLAGS)],
        Notify,
    ),
    (If::NoHostNetwork, libc::SYS_sendto, &[NotNull(4)], Notify),
    (
        If::NoHostNetwork,
        libc::SYS_ioctl,
        &[SOCKETS, In(1, &[libc::FIONREAD as u32])],
        Notify,
    ),
    (
        If::NoHostNetwork,
        libc::SYS_ioctl,
        &[HIGH, In(1, &[libc::FIONREAD as u32])],
        Notify,
    ),
    (
        If::NoHostNetwork,
        libc::SYS_ioctl,
        &[In(1, &[libc::TIOCOUTQ as u32])],
        Notify,
    ),
    // SIOC*: routes (0x890b..), interfaces (0x8910..), wireless (0x8b..).
    (
        If::Always,
        libc::SYS_ioctl,
        &[Range(1, 0x890b, 0x89ff)],
        Notify,
    ),
    (
        If::Always,
        libc::SYS_ioctl,
        &[Range(1, 0x8b00, 0x8bff)],
        Notify,
    ),
    (
        If::NoHostNetwork,
        libc::SYS_ioctl,
        &[SOCKETS, In(1, STAMPS)],
        Notify,
    ),
    (
        If::NoHostNetwork,
        libc::SYS_ioctl,
        &[HIGH, In(1, STAMPS)],
        Notify,
    ),
    // TUN*.
    (
        If::NoHostNetwork,
        libc::SYS_ioctl,
        &[Range(1, *tun::WRITES.start(), *tun::WRITES.end())],
        Notify,
    ),
    (
        If::NoHostNetwork,
        libc::SYS_ioctl,
        &[Range(1, *tun::READS.start(), *tun::READS.end())],
        Notify,
    ),
    (
        If::NoHostNetwork,
        libc::SYS_ioctl,
        &[In(1, tun::OTHERS)],
        Notify,
    ),
    // NS_GET_*.
    (
        If::Always,
        libc::SYS_ioctl,
        &[Range(1, *nsfs::REQUESTS.start(), *nsfs::REQUESTS.end())],
        Notify,
    ),
    // Reads of the clock, which the preloaded library makes.
    (If::OwnClock, libc::SYS_clock_gettime, &[], Notify),
    (If::OwnClock, libc::SYS_gettimeofday, &[], Notify),
    #[cfg(target_arch = "x86_64")]
    (If::OwnClock, libc::SYS_time, &[], Notify),
    // Timers.
    (
        If::OwnClock,
        libc::SYS_setitimer,
        &[In(0, &[libc::ITIMER_REAL as u32])],
        Notify,
    ),
    (
        If::OwnClock,
        libc::SYS_getitimer,
        &[In(0, &[libc::ITIMER_REAL as u32])],
        Notify,
    ),
    (If::OwnClock, libc::SYS_timer_create, &[], Notify),
    (If::OwnClock, libc::SYS_timer_settime, &[], Notify),
    (If::OwnClock, libc::SYS_timer_gettime, &[], Notify),
    (If::OwnClock, libc::SYS_timer_delete, &[], Notify),
    (If::OwnClock, libc::SYS_timerfd_settime, &[], Notify),
    #[cfg(target_arch = "x86_64")]
    (If::OwnClock, libc::SYS_alarm, &[], Notify),
    // Timed waits.
    (If::OwnClock, libc::SYS_nanosleep, &[], Notify),
    (If::OwnClock, libc::SYS_clock_nanosleep, &[], Notify),
    #[cfg(target_arch = "x86_64")]
    (If::OwnClock, libc::SYS_poll, &[some_time(2)], Notify),
    #[cfg(target_arch = "x86_64")]
    (If::NoHostNetwork, libc::SYS_poll, &[POLLED], Notify),
    (If::OwnClock, libc::SYS_ppoll, &[NotNull(2)], Notify),
    (If::NoHostNetwork, libc::SYS_ppoll, &[POLLED], Notify),
    #[cfg(target_arch = "x86_64")]
    (If::OwnClock, libc::SYS_select, &[NotNull(4)], Notify),
    (If::OwnClock, libc::SYS_pselect6, &[NotNull(4)], Notify),
    #[cfg(target_arch = "x86_64")]
    (If::OwnClock, libc::SYS_epoll_wait, &[some_time(3)], Notify),
    (If::OwnClock, libc::SYS_epoll_pwait, &[some_time(3)], Notify),
    (If::OwnClock, libc::SYS_epoll_pwait2, &[NotNull(3)], Notify),
    (
        If::OwnClock,
        libc::SYS_futex,
        &[In(1, FUTEX_WAITS), NotNull(3)],
        Notify,
    ),
    // A user namespace without privilege has no `setgroups`. Servers that give up their groups would end there.
    (If::OwnUsers, libc::SYS_setgroups, &[], Fail(0)),
    // Rings of packet sockets. After `mmap` the descriptor is the socket again.
    (
        If::NoHostNetwork,
        libc::SYS_epoll_ctl,
        &[Range(2, SOCKET_FDS.start, SOCKET_FDS.end - 1)],
        Notify,
    ),
    (
        If::NoHostNetwork,
        libc::SYS_epoll_ctl,
        &[Range(2, HIGH_FDS.start, HIGH_FDS.end - 1)],
        Notify,
    ),
    (
        If::NoHostNetwork,
        libc::SYS_mmap,
        &[Range(4, SOCKET_FDS.start, SOCKET_FDS.end - 1)],
        Notify,
    ),
    (
        If::NoHostNetwork,
        libc::SYS_mmap,
        &[Range(4, HIGH_FDS.start, HIGH_FDS.end - 1)],
        Notify,
    ),
    // Calls that change the host's kernel, refused for root as well.
    (If::Always, libc::SYS_init_module, &[], Fail(libc::EPERM)),
    (If::Always, libc::SYS_finit_module, &[], Fail(libc::EPERM)),
    (If::Always, libc::SYS_delete_module, &[], Fail(libc::EPERM)),
    (If::Always, libc::SYS_kexec_load, &[], Fail(libc::EPERM)),
    #[cfg(target_arch = "x86_64")]
    (
        If::Always,
        libc::SYS_kexec_file_load,
        &[],
        Fail(libc::EPERM),
    ),
    (If::Always, libc::SYS_reboot, &[], Fail(libc::EPERM)),
    // The program of `ip vrf exec`; all others reach the host's kernel.
    (
        If::NoHostNetwork,
        libc::SYS_bpf,
        &[In(0, cgroup::COMMANDS)],
        Notify,
    ),
    (If::Always, libc::SYS_bpf, &[], Fail(libc::EPERM)),
    (
        If::Always,
        libc::SYS_perf_event_open,
        &[],
        Fail(libc::EACCES),
    ),
    (If::Always, libc::SYS_add_key, &[], Fail(libc::EPERM)),
    (If::Always, libc::SYS_request_key, &[], Fail(libc::EPERM)),
    (If::Always, libc::SYS_keyctl, &[], Fail(libc::EPERM)),
    (If::Always, libc::SYS_settimeofday, &[], Fail(libc::EPERM)),
    (If::Always, libc::SYS_clock_settime, &[], Fail(libc::EPERM)),
    (If::Always, libc::SYS_swapon, &[], Fail(libc::EPERM)),
    (If::Always, libc::SYS_swapoff, &[], Fail(libc::EPERM)),
    (If::Always, libc::SYS_quotactl, &[], Fail(libc::EPERM)),
    (If::Always, libc::SYS_quotactl_fd, &[], Fail(libc::EPERM)),
    (If::Always, libc::SYS_acct, &[], Fail(libc::EPERM)),
    (If::Always, libc::SYS_vhangup, &[], Fail(libc::EPERM)),
    #[cfg(target_arch = "x86_64")]
    (If::Always, libc::SYS_iopl, &[], Fail(libc::EPERM)),
    #[cfg(target_arch = "x86_64")]
    (If::Always, libc::SYS_ioperm, &[], Fail(libc::EPERM)),
    (If::Always, libc::SYS_syslog, &[], Fail(libc::EPERM)),
    (
        If::Always,
        libc::SYS_open_by_handle_at,
        &[],
        Fail(libc::EPERM),
    ),
    // Calls that bypass the filter.
    (
        If::Always,
        libc::SYS_io_uring_setup,
        &[],
        Fail(libc::ENOSYS),
    ),
    (
        If::Always,
        libc::SYS_io_uring_enter,
        &[],
        Fail(libc::ENOSYS),
    ),
    (
        If::Always,
        libc::SYS_io_uring_register,
        &[],
        Fail(libc::ENOSYS),
    ),
];

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e; // AUDIT_ARCH_X86_64
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7; // AUDIT_ARCH_AARCH64
#[cfg(target_arch = "riscv64")]
const ARCH: u32 = 0xc000_00f3; // AUDIT_ARCH_RISCV64
/// The bit set in the number of an x32 call.
const X32_BIT: u32 = 0x4000_0000;

// Offsets in struct seccomp_data.
const NR: u32 = 0;
const ARCH_AT: u32 = 4;
const fn low(argument: u8) -> u32 {
    16 + argument as u32 * 8 + cfg!(target_endian = "big") as u32 * 4
}
const fn high(argument: u8) -> u32 {
    16 + argument as u32 * 8 + cfg!(target_endian = "little") as u32 * 4
}

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const EQ: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const GE: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const GT: u32 = libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K;
const SET: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

fn statement(code: u32, k: u32) -> libc::sock_filter {
    jump(code, k, 0, 0)
}

fn jump(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

fn fail_with(errno: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | errno as u32
}

/// Builds the program.
pub(crate) fn build(options: Options) -> Vec<libc::sock_filter> {
    let mut program = vec![
        statement(LOAD, ARCH_AT),
        jump(EQ, ARCH, 1, 0),
        statement(RETURN, fail_with(libc::ENOSYS)),
        statement(LOAD, NR),
    ];
    if cfg!(target_arch = "x86_64") {
        program.push(jump(GE, X32_BIT, 0, 1));
        program.push(statement(RETURN, fail_with(libc::ENOSYS)));
    }
    // A call that nobody has judged does not exist.
    program.push(jump(GT, calls::LAST, 0, 1));
    program.push(statement(RETURN, fail_with(libc::ENOSYS)));
    let rules: Vec<&Rule> = RULES.iter().filter(|r| options.wants(r.0)).collect();
    let mut at = 0;
    while at < rules.len() {
        let call = rules[at].1;
        let same = rules[at..].iter().take_while(|r| r.1 == call).count();
        let block = block(&rules[at..at + same]);
        // The accumulator holds the call number here, also after a skipped block.
        program.push(jump(EQ, call as u32, 0, short(block.len())));
        program.extend(block);
        at += same;
    }
    program.push(statement(RETURN, libc::SECCOMP_RET_ALLOW));
    program
}

/// Builds the rules of one call; the block always returns.
fn block(rules: &[&Rule]) -> Vec<libc::sock_filter> {
    let mut block = Vec::new();
    for (_, _, tests, then) in rules {
        let mut rule: Vec<libc::sock_filter> = Vec::new();
        // Positions of the jumps to the end of this rule, taken when a test fails.
        let mut exits = Vec::new();
        for test in *tests {
            emit(test, &mut rule, &mut exits);
        }
        rule.push(statement(
            RETURN,
            match then {
                Notify => libc::SECCOMP_RET_USER_NOTIF,
                Fail(errno) => fail_with(*errno),
            },
        ));
        let end = rule.len();
        for exit in exits {
            let distance = short(end - exit - 1);
            let instruction: &mut libc::sock_filter = &mut rule[exit];
            if instruction.jt == EXIT {
                instruction.jt = distance;
            } else {
                instruction.jf = distance;
            }
        }
        block.extend(rule);
    }
    block.push(statement(RETURN, libc::SECCOMP_RET_ALLOW));
    block
}

/// A placeholder for "end of this rule" until its position is known.
const EXIT: u8 = u8::MAX;

fn emit(test: &Test, rule: &mut Vec<libc::sock_filter>, exits: &mut Vec<usize>) {
    let mut leave = |rule: &mut Vec<libc::sock_filter>, code, k, jt, jf| {
        exits.push(rule.len());
        rule.push(jump(code, k, jt, jf));
    };
    match *test {
        In(argument, values) => {
            rule.push(statement(LOAD, low(argument)));
            for (i, &value) in values.iter().enumerate() {
                let rest = values.len() - 1 - i;
                if rest == 0 {
                    leave(rule, EQ, value, 0, EXIT);
                } else {
                    rule.push(jump(EQ, value, short(rest), 0));
                }
            }
        }
        Range(argument, first, last) => {
            rule.push(statement(LOAD, low(argument)));
            leave(rule, GE, first, 0, EXIT);
            leave(rule, GT, last, EXIT, 0);
        }
        AnyOf(argument, bits) => {
            rule.push(statement(LOAD, low(argument)));
            leave(rule, SET, bits, 0, EXIT);
        }
        NoneOf(argument, bits) => {
            rule.push(statement(LOAD, low(argument)));
            leave(rule, SET, bits, EXIT, 0);
        }
        NotNull(argument) => {
            rule.push(statement(LOAD, low(argument)));
            rule.push(jump(EQ, 0, 0, 2));
            rule.push(statement(LOAD, high(argument)));
            leave(rule, EQ, 0, EXIT, 0);
        }
    }
}

fn short(distance: usize) -> u8 {
    u8::try_from(distance).expect("the rules of one call are far fewer than 255 instructions")
}

#[cfg(test)]
mod tests;
