// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The supervisor of one launch: a thread that answers the system calls that the filter stops.
//!
//! Each family of calls has one file: [`socket`] (netlink sockets; [`refuse`]), [`internet`]
//! (internet, raw and packet sockets; [`parked`]: their calls that wait), [`traffic`] (sends and receives whose answer must
//! be available at once), [`namespace`] (unshare, setns, mounts of namespace files, lifetime of
//! namespaces), [`nsfs`] (`statfs` and ioctls of namespace files), [`path`] (resolution of path
//! arguments), [`served`] (`/proc/sys/net`, `/proc/net`, `/sys/class/net`, `/sys/bus/netdevsim`),
//! [`cgroup`] (`/run/cgroup2` and `bpf`), [`ioctl`] (`SIOC*`), [`tun`] (`/dev/net/tun`), [`wait`] (timed waits), [`clock`] (reads of the clock), [`alarm`]
//! (timers). [`spin`] says when it sleeps between events of sockets.
//!
//! The thread takes one call at a time. It identifies an open file of a client by (device, inode),
//! never by its number, which may have been closed, duplicated or reused. It copies memory of a
//! client once and judges the copy. The kernel reads the memory again when the call continues, so
//! this is no barrier against a hostile program; it only serves honest ones. Before an effect that
//! outlives the call, [`Listener::is_waiting`] makes sure that the memory read belonged to the
//! caller.
mod alarm;
pub(crate) mod cgroup;
mod clock;
mod files;
mod internet;
mod ioctl;
mod message;
mod namespace;
pub(crate) mod nsfs;
mod option;
mod parked;
mod path;
mod refuse;
mod served;
mod socket;
mod spin;
mod traffic;
mod tun;
mod unreadable;
mod wait;

pub(crate) use internet::{MOST_POLLED, STAMPS};

use crate::backend::{Attendant, Backend, Errno, NsId, StackInfo};
use crate::cgroup::Cgroups;
use crate::look;
use crate::runtime::Runtime;
use crate::seccomp::{Answer, Call, Listener};
use crate::sys;
use crate::task::{Carrier, Tasks, process_of};
use crate::waits::Waits;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// The result of a call handler.
type Handled = Result<Answer, Errno>;

/// The identity of an open file: device and inode.
type FileKey = (u64, u64);

/// The launcher's parameters for a new supervisor.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) runtime: Runtime,
    /// The id of the launch at the backend.
    pub(crate) launch: u64,
    /// The launch's own directory.
    pub(crate) scratch: PathBuf,
    pub(crate) stack: StackInfo,
    /// The namespace in which the program starts.
    pub(crate) start_in: NsId,
    pub(crate) carrier: Carrier,
    /// `$XDG_RUNTIME_DIR/netns`, where unprivileged programs keep names of namespaces.
    pub(crate) user_names: Option<String>,
    /// Mode U: `/run/netns` is a real directory for the program.
    pub(crate) private_mounts: bool,
    /// In mode A: the program may create real mount namespaces (root).
    pub(crate) may_mount: bool,
    pub(crate) host_network: bool,
    /// The process from which everything in the launch descends.
    pub(crate) keeper: u32,
    /// The process of the program.
    pub(crate) program: u32,
    /// The timed waits, if the stack's clock is not the machine's.
    pub(crate) waits: Option<Arc<Waits>>,
}

/// The supervisor of one launch.
pub(crate) struct Supervisor {
    setup: Setup,
    listener: Arc<Listener>,
    backend: Arc<dyn Backend>,
    stop: OwnedFd,
    tasks: Tasks,
    sockets: socket::Sockets,
    refused: refuse::Refused,
    writers: served::Writers,
    unreadable: unreadable::Unreadable,
    files: files::Files,
    /// The calls on internet sockets that wait.
    calls: parked::Calls,
    /// The processes that read the stack's clock.
    readers: clock::Readers,
    /// The timers that programs have created.
    created: alarm::Created,
    /// The cgroups of `ip vrf exec`.
    cgroup: cgroup::Launch,
    /// The stack's work for sockets, if this thread does it.
    attendant: Option<Box<dyn Attendant>>,
    /// The buffer of a datagram.
    packet: Vec<u8>,
    /// The namespaces in which this launch has a thread or an open file, with the processes last seen using them.
    held: BTreeMap<NsId, namespace::Users>,
    /// Those of them that a living process may have stopped using, which must be rechecked soon.
    lingering: BTreeSet<NsId>,
    /// An epoll of the ends of all those processes, by their namespaces.
    ends: OwnedFd,
    /// Processes that asked for a user namespace and were answered without one.
    pretended_users: BTreeSet<u32>,
    /// Threads that had ended but were not reaped at the last check whether all wait.
    ended: BTreeSet<u32>,
    /// The messages already printed: program and reason.
    printed: BTreeSet<(String, &'static str)>,
}

/// The interval, in ms, at which to recheck a namespace to which perhaps only an open file refers.
const LINGER_MS: i32 = 250;

impl Supervisor {
    pub(crate) fn new(
        setup: Setup,
        listener: Listener,
        backend: Arc<dyn Backend>,
        stop: OwnedFd,
    ) -> Result<Supervisor, Errno> {
        let tasks = Tasks::of_launch(setup.carrier, setup.keeper, setup.start_in, &setup.runtime);
        backend.hold(setup.launch, setup.start_in);
        let listener = Arc::new(listener);
        let cgroups = Cgroups::of(&setup.runtime);
        if let Some(waits) = &setup.waits {
            waits.attach(&listener, setup.keeper)?;
        }
        Ok(Supervisor {
            setup,
            listener,
            backend,
            stop,
            tasks,
            sockets: socket::Sockets::default(),
            refused: refuse::Refused::default(),
            writers: served::Writers::default(),
            unreadable: unreadable::Unreadable::default(),
            files: files::Files::default(),
            calls: parked::Calls::default(),
            readers: clock::Readers::default(),
            created: alarm::Created::default(),
            cgroup: cgroup::Launch::new(cgroups),
            attendant: None,
            packet: Vec::new(),
            held: BTreeMap::new(),
            lingering: BTreeSet::new(),
            ends: sys::epoll_create()?,
            pretended_users: BTreeSet::new(),
            ended: BTreeSet::new(),
            printed: BTreeSet::new(),
        })
    }

    /// Serves until every program under the filter has ended, or the launcher stops it.
    pub(crate) fn run(mut self) {
        let mut last_look = Instant::now();
        let waits = self.setup.waits.clone();
        let mut last_sweep = last_look;
        let of_waits = waits.as_ref().and_then(|waits| waits.descriptors());
        let mut spin = spin::Spin::new();
        let mut polled = sys::PollSet::default();
        loop {
            self.accept_arrived();
            if self.lingering.is_empty() {
                last_look = Instant::now();
            }
            let sweep_interval = waits.as_ref().and_then(|waits| waits.sweep_interval());
            let sweep_ms = sweep_interval.map(|interval| interval.as_millis() as i32);
            let timeout = (!self.lingering.is_empty())
                .then_some(LINGER_MS)
                .into_iter()
                .chain(sweep_ms)
                .chain(
                    self.calls
                        .interval()
                        .map(|interval| interval.as_millis() as i32),
                )
                .min();
            let spins = self.attendant.is_some() && spin.goes_on(Instant::now());
            let timeout = if spins { Some(0) } else { timeout };
            let own = [self.listener.as_fd(), self.stop.as_fd(), self.ends.as_fd()];
            let first_of_waits = own.len();
            let fds_of_waits = of_waits.iter();
            let fds_of_waits = fds_of_waits.flat_map(|(bell, ready)| [bell.as_fd(), ready.as_fd()]);
            let attended = first_of_waits + of_waits.as_ref().map_or(0, |_| 2);
            let attendant = self.attendant.iter().map(|attendant| attendant.as_fd());
            let refused = attended + attendant.len();
            let parked = refused + self.refused.fds().len();
            let fds = own.into_iter().chain(fds_of_waits).chain(attendant);
            let fds = fds.chain(self.refused.fds());
            let fds = fds.map(|fd| (fd, libc::POLLIN)).chain(self.calls.fds());
            if polled.poll(fds, timeout).is_err() {
                break;
            }
            let events = |place| polled.events(place..place + 1).next().unwrap_or(0);
            if polled.len() > parked {
                self.resume(polled.events(parked..polled.len()));
            }
            if events(0) & libc::POLLIN != 0 {
                // ENOENT: the caller was killed in between.
                if let Ok(call) = self.listener.receive() {
                    let answer = self.handle(&call);
                    self.files.done();
                    self.listener.answer(&call, answer);
                }
            } else if events(0) & (libc::POLLHUP | libc::POLLERR) != 0 {
                break;
            }
            if events(1) != 0 {
                break;
            }
            if let Some(attendant) = &self.attendant
                && refused > attended
                && events(attended) != 0
            {
                let now = Instant::now();
                attendant.serve();
                spin.came(now, Instant::now());
            } else if spins {
                std::thread::yield_now();
            }
            if polled.events(refused..parked).any(|event| event != 0) {
                self.refused.serve();
            }
            if let (Some(waits), Some((bell, _))) = (&waits, &of_waits) {
                if events(first_of_waits + 1) != 0 {
                    waits.take_ready();
                }
                if sweep_interval.is_some_and(|interval| last_sweep.elapsed() >= interval) {
                    waits.sweep(look::thread);
                    last_sweep = Instant::now();
                }
                if events(first_of_waits) != 0 {
                    sys::take_wake(bell.as_fd());
                }
                self.resume_by_clock();
                if events(first_of_waits) != 0 {
                    self.answer_question();
                }
            }
            if events(2) != 0 {
                self.recheck_ended();
            }
            if !self.lingering.is_empty() && last_look.elapsed().as_millis() >= LINGER_MS as u128 {
                self.recheck_lingering();
                last_look = Instant::now();
            }
        }
        self.backend.end_launch(self.setup.launch);
    }

    fn handle(&mut self, call: &Call) -> Handled {
        if !self.sockets.swapped.is_empty() {
            self.unswap(call);
        }
        match call.number {
            libc::SYS_mmap => self.map(call),
            libc::SYS_sendmsg | libc::SYS_sendmmsg => self.send(call),
            libc::SYS_write | libc::SYS_writev if traffic::is_traffic(call) => self.send(call),
            libc::SYS_recvmsg | libc::SYS_recvmmsg => self.receive(call),
            libc::SYS_read | libc::SYS_readv if traffic::is_traffic(call) => self.receive(call),
            libc::SYS_write => self.write(call, call.args[1], call.args[2]),
            libc::SYS_pwrite64 => self.write(call, call.args[1], call.args[2]),
            libc::SYS_writev => self.writev(call),
            libc::SYS_read | libc::SYS_pread64 | libc::SYS_readv => self.read(call),

            libc::SYS_openat => {
                self.open(call, call.int(0), call.args[1], call.int(2), call.args[3])
            }
            libc::SYS_openat2 => self.openat2(call),
            libc::SYS_newfstatat => {
                self.stat(call, call.int(0), call.args[1], call.args[2], call.int(3))
            }
            libc::SYS_statx => self.statx(call),
            libc::SYS_faccessat | libc::SYS_faccessat2 => {
                self.access(call, call.int(0), call.args[1], call.int(2))
            }
            libc::SYS_readlinkat => {
                self.readlink(call, call.int(0), call.args[1], call.args[2], call.args[3])
            }
            libc::SYS_mkdirat => self.make_directory(call, call.int(0), call.args[1]),
            libc::SYS_unlinkat => self.unlink(call, call.int(0), call.args[1], call.int(2)),
            #[cfg(not(target_arch = "riscv64"))]
            libc::SYS_renameat => self.rename_at(call),
            libc::SYS_renameat2 => self.rename_at(call),
            libc::SYS_getxattr | libc::SYS_lgetxattr => {
                self.no_attributes(call, Err(libc::ENODATA))
            }
            libc::SYS_statfs => self.statfs(call),
            libc::SYS_fstatfs => self.fstatfs(call),
            libc::SYS_listxattr | libc::SYS_llistxattr => self.no_attributes(call, Ok(0)),
            libc::SYS_inotify_add_watch => self.inotify_add_watch(call),

            libc::SYS_unshare => self.unshare(call),
            libc::SYS_setns => self.setns(call),
            libc::SYS_mount => self.mount(call),
            libc::SYS_umount2 => self.unmount(call),
            libc::SYS_pivot_root => self.in_own_namespace(call, "mnt"),
            libc::SYS_sethostname | libc::SYS_setdomainname => self.in_own_namespace(call, "uts"),
            libc::SYS_bpf => self.bpf(call),
            libc::SYS_pidfd_getfd => self.pidfd_getfd(call),
            libc::SYS_clone if call.int(0) & libc::CLONE_NEWNET == 0 => {
                self.tasks.before_thread(call.tid);
                Ok(Answer::Continue)
            }
            libc::SYS_clone => {
                self.say_once(
                    call,
                    "clone",
                    "clone(CLONE_NEWNET) is not served; use unshare or ip netns",
                );
                Err(Errno(libc::EPERM))
            }
            libc::SYS_exit_group => {
                if self.tasks.is_in_table(call.tid) {
                    self.tasks.settle_children(call.tid);
                }
                Ok(Answer::Continue)
            }
            // The timer slack carries the namespace.
            libc::SYS_prctl => Ok(Answer::Value(0)),

            libc::SYS_nanosleep
            | libc::SYS_clock_nanosleep
            | libc::SYS_ppoll
            | libc::SYS_pselect6
            | libc::SYS_epoll_pwait
            | libc::SYS_epoll_pwait2
            | libc::SYS_futex => self.wait(call),

            libc::SYS_clock_gettime | libc::SYS_gettimeofday => self.read_clock(call),

            libc::SYS_setitimer
            | libc::SYS_getitimer
            | libc::SYS_timer_create
            | libc::SYS_timer_settime
            | libc::SYS_timer_gettime
            | libc::SYS_timer_delete
            | libc::SYS_timerfd_settime => self.timer(call),

            libc::SYS_socket => self.socket(call),
            libc::SYS_bind => self.bind(call),
            libc::SYS_listen => self.listen(call),
            libc::SYS_connect => self.connect(call),
            libc::SYS_accept | libc::SYS_accept4 => self.accept(call),
            libc::SYS_shutdown => self.shutdown(call),
            libc::SYS_dup | libc::SYS_fcntl => self.duplicate_socket(call),
            libc::SYS_dup3 => self.duplicate_onto(call, call.int(2)),
            libc::SYS_sendfile => self.send_file(call),
            libc::SYS_splice => self.splice(call),
            libc::SYS_getsockname => self.socket_name(call),
            libc::SYS_getpeername => self.peer_name(call),
            libc::SYS_setsockopt => self.set_option(call),
            libc::SYS_getsockopt => self.get_option(call),
            libc::SYS_recvfrom => self.receive_from(call),
            libc::SYS_sendto => self.send(call),
            libc::SYS_ioctl if nsfs::REQUESTS.contains(&(call.args[1] as u32)) => {
                self.namespace_ioctl(call)
            }
            libc::SYS_ioctl if call.args[1] as u32 == libc::FIONREAD as u32 => {
                match self.inet_of(call) {
                    Some(socket) => self.next_length(call, socket),
                    None => Ok(Answer::Continue),
                }
            }
            libc::SYS_ioctl if call.args[1] as u32 == libc::TIOCOUTQ as u32 => {
                match self.inet_of(call) {
                    Some(socket) if socket.is_stream() => self.unacknowledged(call, socket),
                    _ => Ok(Answer::Continue),
                }
            }
            libc::SYS_ioctl if STAMPS.contains(&(call.args[1] as u32)) => {
                match self.inet_of(call) {
                    Some(socket) => self.last_time(call, socket),
                    None => Ok(Answer::Continue),
                }
            }
            libc::SYS_ioctl => self.ioctl(call),

            #[cfg(target_arch = "x86_64")]
            _ => self.handle_old(call),
            #[cfg(not(target_arch = "x86_64"))]
            _ => Ok(Answer::Continue),
        }
    }

    /// Dispatches the calls that newer architectures do not have.
    #[cfg(target_arch = "x86_64")]
    fn handle_old(&mut self, call: &Call) -> Handled {
        const HERE: i32 = libc::AT_FDCWD;
        let [first, second, third, ..] = call.args;
        match call.number {
            libc::SYS_open => self.open(call, HERE, first, second as i32, third),
            libc::SYS_creat => {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                self.open(call, HERE, first, flags, second)
            }
            libc::SYS_stat => self.stat(call, HERE, first, second, 0),
            libc::SYS_lstat => self.stat(call, HERE, first, second, libc::AT_SYMLINK_NOFOLLOW),
            libc::SYS_access => self.access(call, HERE, first, second as i32),
            libc::SYS_readlink => self.readlink(call, HERE, first, second, third),
            libc::SYS_mkdir => self.make_directory(call, HERE, first),
            libc::SYS_rmdir => self.unlink(call, HERE, first, libc::AT_REMOVEDIR),
            libc::SYS_unlink => self.unlink(call, HERE, first, 0),
            libc::SYS_rename => self.rename(call, (HERE, first), (HERE, second)),
            libc::SYS_time => self.read_clock(call),
            libc::SYS_alarm => self.timer(call),
            libc::SYS_dup2 => self.duplicate_onto(call, 0),
            libc::SYS_poll | libc::SYS_select | libc::SYS_epoll_wait => self.wait(call),
            _ => Ok(Answer::Continue),
        }
    }

    /// Returns the namespace of a calling thread.
    fn namespace(&mut self, tid: u32) -> NsId {
        // Only programs of this launch get here. One whose namespace cannot be determined counts as
        // never moved.
        self.tasks.namespace(tid).unwrap_or(self.setup.start_in)
    }

    /// Checks that the caller still waits, before an effect that outlives the call.
    fn still_waiting(&self, call: &Call) -> Result<(), Errno> {
        if self.listener.is_waiting(call) {
            Ok(())
        } else {
            Err(Errno(libc::ESRCH))
        }
    }

    /// Returns the identity of a caller's open file.
    fn file_key(tid: u32, fd: i32) -> Result<FileKey, Errno> {
        let meta = fs::metadata(format!("/proc/{tid}/fd/{fd}")).map_err(|_| Errno(libc::EBADF))?;
        Ok((meta.dev(), meta.ino()))
    }

    /// Prints a message on the launcher's standard error, once per program and reason.
    fn say_once(&mut self, call: &Call, reason: &'static str, sentence: &str) {
        // Uses the name of the process, because threads have names of their own.
        let process = self.process(call);
        let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        let name = name.trim_end().to_string();
        if !self.printed.contains(&(name.clone(), reason)) {
            crate::say(&format!("{name}: {sentence}"));
            self.printed.insert((name, reason));
        }
    }

    /// Returns the process of a calling thread.
    fn process(&self, call: &Call) -> u32 {
        process_of(call.tid).unwrap_or(call.tid)
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if let Some(waits) = &self.setup.waits {
            waits.end();
        }
    }
}

/// Returns the identity of a file of this process.
fn own_key(fd: &OwnedFd) -> Result<FileKey, Errno> {
    sys::identity(fd.as_fd())
}
