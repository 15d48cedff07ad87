// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The keeper process and the program, from `fork` to `exec`.
//!
//! ```text
//! launcher (many threads)
//!   └─ keeper: child subreaper of everything below; reaps, forwards signals, reports the status,
//!        └─ program (and whatever it starts)                and kills all if the launcher dies
//! ```
//! The launcher is an ancestor of every client, which Yama's `ptrace_scope=1` requires for reading
//! their memory. The keeper separates the launcher's own children from the client's: orphans of the
//! program are reparented to the keeper. The keeper is a copy of the launcher that never runs
//! `exec`, so it closes all descriptors and releases all large private memory at once. The
//! launcher's pages then stay its own instead of being shared copy-on-write.
//!
//! Both processes run between `fork` and `exec` of a process that may have many threads: nothing
//! here allocates, locks or panics. The [`Plan`], made before the fork, holds everything they need.
//!
//! Messages on the control pair (`SOCK_SEQPACKET`) are a byte and an i32. The keeper sends `P pid`
//! (the program's), `X status` (the program ended) and `E 0` (no descendant is left). The launcher
//! sends `S signal` (for the program) and `K 0` (kill everything). End of file on the keeper's side
//! means that the launcher died. On the setup pair the program sends `L` with the listener, or `F
//! step errno` on failure; `exec` closes the pair.
#![allow(unsafe_code)] // Raw system calls after fork, where std may not be used.
use crate::backend::Errno;
use crate::cgroup;
use crate::filter;
use crate::sys;
use libc::{c_char, c_int};
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::null;

/// A step in the construction of a private mount tree.
#[derive(Debug)]
pub(crate) enum MountStep {
    /// `mkdir` with mode 0755; the directory may exist.
    Directory(CString),
    /// An empty file; it may exist.
    File(CString),
    /// `symlink(target, path)`.
    Symlink(CString, CString),
    /// `mount(source, target, kind, flags)`. A mount that is not required may fail.
    Mount {
        source: CString,
        target: CString,
        kind: Option<CString>,
        flags: u64,
        required: bool,
    },
}

/// A user namespace to create, with its uid and gid maps.
#[derive(Debug)]
pub(crate) struct UserNamespace {
    pub(crate) uid_map: CString,
    pub(crate) gid_map: CString,
}

/// Everything that the keeper and the program need.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) program: CString,
    pub(crate) arguments: Vec<CString>,
    pub(crate) environment: Vec<CString>,
    pub(crate) directory: Option<CString>,
    /// Standard input is `/dev/null`.
    pub(crate) no_input: bool,
    /// Standard output is the launcher's standard error.
    pub(crate) output_to_errors: bool,
    /// The steps that build a mount namespace for the launch.
    pub(crate) mounts: Option<Vec<MountStep>>,
    pub(crate) user_namespace: Option<UserNamespace>,
    /// An empty network namespace of the kernel, if the kernel allows one.
    pub(crate) own_network: bool,
    /// Root gives up the capabilities that reach the host beyond its files ([`GIVEN_UP`]).
    pub(crate) give_up: bool,
    /// The filter; `None` in a launch inside a launch.
    pub(crate) filter: Option<Vec<libc::sock_filter>>,
    /// The namespace's carrier ([`crate::task`]), if it is the timer slack, nanoseconds.
    pub(crate) slack: Option<u64>,
    /// The namespace's carrier, if it is the soft `RLIMIT_RSS`.
    pub(crate) limit: Option<u64>,
    /// In a launch inside a launch: the namespace file for `setns`.
    pub(crate) enter: Option<OwnedFd>,
    /// The message that the keeper prints if the launcher dies.
    pub(crate) last_words: CString,
}

/// Capabilities that root gives up in a launch because they reach the whole host.
pub(crate) const GIVEN_UP: [u32; 19] = [
    9,  // LINUX_IMMUTABLE
    16, // SYS_MODULE
    17, // SYS_RAWIO
    19, // SYS_PTRACE
    20, // SYS_PACCT
    22, // SYS_BOOT
    25, // SYS_TIME
    26, // SYS_TTY_CONFIG
    29, // AUDIT_WRITE
    30, // AUDIT_CONTROL
    32, // MAC_OVERRIDE
    33, // MAC_ADMIN
    34, // SYSLOG
    35, // WAKE_ALARM
    36, // BLOCK_SUSPEND
    37, // AUDIT_READ
    38, // PERFMON
    39, // BPF
    40, // CHECKPOINT_RESTORE
];

/// Drops [`GIVEN_UP`] from the process and from the programs it executes.
///
/// # Safety
/// As [`run_program`].
unsafe fn give_up() {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: c_int,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let mut header = Header {
        version: VERSION_3,
        pid: 0,
    };
    // Effective, permitted, inheritable: the lower 32 bits, then the upper.
    let mut sets = [[0_u32; 3]; 2];
    // SAFETY: the structures are those of capget(2) version 3 and live on the stack.
    unsafe {
        for capability in GIVEN_UP {
            // This fails harmlessly on a kernel that does not know the capability, or if the
            // bounding set lacks it already.
            libc::prctl(
                libc::PR_CAPBSET_DROP,
                libc::c_ulong::from(capability),
                0,
                0,
                0,
            );
        }
        if libc::syscall(libc::SYS_capget, &mut header, sets.as_mut_ptr()) == 0 {
            for capability in GIVEN_UP {
                let set = &mut sets[(capability / 32) as usize];
                for word in set {
                    *word &= !(1 << (capability % 32));
                }
            }
            libc::syscall(libc::SYS_capset, &header, sets.as_ptr());
        }
    }
}

/// The step at which the program's setup failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Step {
    Directory,
    UserNamespace,
    MountNamespace,
    Mounts,
    Filter,
    Enter,
    Exec,
    Other,
}

impl Step {
    pub(crate) fn from_byte(byte: u8) -> Step {
        [
            Step::Directory,
            Step::UserNamespace,
            Step::MountNamespace,
            Step::Mounts,
            Step::Filter,
            Step::Enter,
            Step::Exec,
        ]
        .into_iter()
        .find(|&step| step as u8 == byte)
        .unwrap_or(Step::Other)
    }
}

/// The launcher's view of the keeper and the program.
#[derive(Debug)]
pub(crate) struct Started {
    /// The keeper's process id.
    pub(crate) keeper: u32,
    /// The launcher's end of the control pair.
    pub(crate) control: OwnedFd,
    /// The launcher's end of the setup pair.
    pub(crate) setup: OwnedFd,
}

/// The keeper releases memory mappings of at least this many bytes.
const LARGE_MAPPING: usize = 4 << 20;

/// Forks the keeper, which forks the program.
pub(crate) fn start(plan: &Plan) -> Result<Started, Errno> {
    let argv = pointers(&plan.arguments);
    let envp = pointers(&plan.environment);
    let large = large_mappings();
    let (control, keeper_control) = sys::socket_pair(libc::SOCK_SEQPACKET)?;
    let (setup, program_setup) = sys::socket_pair(libc::SOCK_SEQPACKET)?;
    // SAFETY: the child runs only `keeper`, which keeps to async-signal-safe calls.
    let pid = sys::check(unsafe { libc::fork() })?;
    if pid == 0 {
        // SAFETY: we are the single thread of a new process; the plan and the pointer arrays
        // made from it are unchanged copies of the launcher's.
        unsafe {
            keeper(
                plan,
                &argv,
                &envp,
                &large,
                keeper_control.as_raw_fd(),
                program_setup.as_raw_fd(),
            )
        }
    }
    Ok(Started {
        keeper: pid as u32,
        control,
        setup,
    })
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings
        .iter()
        .map(|s| s.as_ptr())
        .chain(std::iter::once(null()))
        .collect()
}

/// Returns the large private anonymous mappings (address, length) except the caller's stack.
fn large_mappings() -> Vec<(usize, usize)> {
    let here = 0u8;
    let stack = std::ptr::from_ref(&here) as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let parse = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (from, to) = fields.next()?.split_once('-')?;
        let private = fields.next()? == "rw-p";
        let anonymous = fields.nth(2)? == "0";
        let from = usize::from_str_radix(from, 16).ok()?;
        let to = usize::from_str_radix(to, 16).ok()?;
        let wanted = private
            && anonymous
            && !line.ends_with("[stack]")
            && to - from >= LARGE_MAPPING
            && !(from..to).contains(&stack);
        wanted.then_some((from, to - from))
    };
    maps.lines().filter_map(parse).collect()
}

/// Runs the keeper. Never returns.
///
/// # Safety
/// Only in the single thread of a freshly forked process.
unsafe fn keeper(
    plan: &Plan,
    argv: &[*const c_char],
    envp: &[*const c_char],
    large: &[(usize, usize)],
    control: RawFd,
    setup: RawFd,
) -> ! {
    // SAFETY: all calls below are plain system calls on this process's own descriptors, signals and
    // children, with pointers to live stack memory or to the plan. The released mappings hold the
    // launcher's heap and stacks. Nothing uses them after the program's fork: the arrays `large`
    // and `last_words` are copied to this stack first.
    unsafe {
        let mut last_words = [0u8; 256];
        let words = plan.last_words.as_bytes();
        let words_len = words.len().min(last_words.len());
        last_words[..words_len].copy_from_slice(&words[..words_len]);
        let mut give_back = [(0usize, 0usize); 64];
        let count = large.len().min(give_back.len());
        give_back[..count].copy_from_slice(&large[..count]);

        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_BLOCK, &all, &mut before);
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);

        let program = libc::fork();
        if program == 0 {
            drop_handlers();
            libc::sigprocmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
            run_program(plan, argv, envp, setup);
        }
        let control = keep_only(control);
        for &(address, length) in &give_back[..count] {
            libc::madvise(address as *mut libc::c_void, length, libc::MADV_DONTNEED);
        }
        libc::prctl(libc::PR_SET_NAME, c"weir-keeper".as_ptr(), 0, 0, 0);
        if program < 0 {
            libc::_exit(125);
        }
        tell(control, b'P', program);
        watch(control, program, &last_words[..words_len])
    }
}

/// Resets signals with a handler of the launcher to the default, as `exec` will. Ignored signals
/// stay ignored.
///
/// # Safety
/// As [`keeper`].
unsafe fn drop_handlers() {
    for signal in 1..32 {
        // SAFETY: the structure is live and all-zero is valid for it.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let known = libc::sigaction(signal, null(), &mut action) == 0;
            if known && action.sa_sigaction > libc::SIG_IGN {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}

/// Moves `fd` to 3 and closes all other descriptors except the standard ones.
///
/// # Safety
/// Only where nothing else in the process uses descriptors.
unsafe fn keep_only(fd: RawFd) -> RawFd {
    const KEPT: RawFd = 3;
    // SAFETY: the keeper owns all its descriptors; nothing after this uses any other.
    unsafe {
        if fd != KEPT {
            libc::dup3(fd, KEPT, libc::O_CLOEXEC);
        }
        if libc::syscall(libc::SYS_close_range, KEPT + 1, u32::MAX, 0) < 0 {
            for other in KEPT + 1..4096 {
                libc::close(other);
            }
        }
    }
    KEPT
}

fn tell(control: RawFd, what: u8, value: i32) {
    let mut message = [0u8; 5];
    message[0] = what;
    message[1..].copy_from_slice(&value.to_ne_bytes());
    // SAFETY: five readable bytes. If the launcher is gone, the next receive says so.
    unsafe {
        libc::send(
            control,
            message.as_ptr().cast(),
            message.len(),
            libc::MSG_NOSIGNAL,
        )
    };
}

/// Reaps children, forwards signals and reports, until no descendant is left, the launcher asks for
/// the end, or the launcher dies.
///
/// # Safety
/// As [`keeper`].
unsafe fn watch(control: RawFd, program: i32, last_words: &[u8]) -> ! {
    // SAFETY: as in `keeper`: system calls on own descriptors and children, stack memory only.
    unsafe {
        let mut child_signal: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut child_signal);
        libc::sigaddset(&mut child_signal, libc::SIGCHLD);
        let signals = libc::signalfd(-1, &child_signal, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        let (mut running, mut told_empty) = (true, false);
        loop {
            let mut status = 0;
            loop {
                let pid = libc::waitpid(-1, &mut status, libc::WNOHANG);
                if pid == program && running {
                    running = false;
                    tell(control, b'X', status);
                }
                if pid < 0 && !told_empty {
                    told_empty = true;
                    tell(control, b'E', 0);
                }
                if pid <= 0 {
                    break;
                }
            }
            let mut fds = [
                libc::pollfd {
                    fd: control,
                    events: libc::POLLIN,
                    revents: 0,
                },
                libc::pollfd {
                    fd: signals,
                    events: libc::POLLIN,
                    revents: 0,
                },
            ];
            libc::poll(fds.as_mut_ptr(), 2, -1);
            let mut info = [0u8; 128];
            libc::read(signals, info.as_mut_ptr().cast(), info.len());
            if fds[0].revents == 0 {
                continue;
            }
            let mut message = [0u8; 5];
            let n = libc::recv(
                control,
                message.as_mut_ptr().cast(),
                message.len(),
                libc::MSG_DONTWAIT,
            );
            let value = i32::from_ne_bytes([message[1], message[2], message[3], message[4]]);
            match (n, message[0]) {
                (5, b'S') if running => {
                    libc::kill(program, value);
                }
                (5, b'K') => {
                    end_all(signals);
                    libc::_exit(0);
                }
                (0, _) => {
                    libc::write(2, last_words.as_ptr().cast(), last_words.len());
                    kill_all();
                    libc::_exit(125);
                }
                _ => {}
            }
        }
    }
}

/// Ends the remaining descendants: `SIGTERM`, half a second, `SIGKILL`.
///
/// # Safety
/// As [`keeper`].
unsafe fn end_all(signals: RawFd) {
    // SAFETY: as in `keeper`.
    unsafe {
        signal_children(libc::SIGTERM);
        signal_children(libc::SIGCONT);
        for _ in 0..10 {
            let mut status = 0;
            let mut pid;
            loop {
                pid = libc::waitpid(-1, &mut status, libc::WNOHANG);
                if pid <= 0 {
                    break;
                }
            }
            if pid < 0 {
                return;
            }
            let mut fd = libc::pollfd {
                fd: signals,
                events: libc::POLLIN,
                revents: 0,
            };
            libc::poll(&mut fd, 1, 50);
            let mut info = [0u8; 128];
            libc::read(signals, info.as_mut_ptr().cast(), info.len());
        }
        kill_all();
    }
}

/// Kills all descendants. Children of a killed process become the keeper's, so it repeats until
/// none is left.
///
/// # Safety
/// As [`keeper`].
unsafe fn kill_all() {
    // SAFETY: as in `keeper`.
    unsafe {
        loop {
            if !signal_children(libc::SIGKILL) {
                return;
            }
            let mut status = 0;
            if libc::waitpid(-1, &mut status, 0) < 0 {
                return;
            }
        }
    }
}

/// Signals each child. Returns false if there is none.
///
/// # Safety
/// As [`keeper`].
unsafe fn signal_children(signal: c_int) -> bool {
    let mut any = false;
    // SAFETY: reads a proc file into stack memory and signals own children.
    unsafe {
        let file = libc::open(
            c"/proc/thread-self/children".as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC,
        );
        if file < 0 {
            return false;
        }
        let mut buffer = [0u8; 4096];
        let mut pid = 0i32;
        loop {
            let n = libc::read(file, buffer.as_mut_ptr().cast(), buffer.len());
            if n <= 0 {
                break;
            }
            for &byte in buffer.iter().take(n as usize) {
                if byte.is_ascii_digit() {
                    pid = pid.wrapping_mul(10).wrapping_add(i32::from(byte - b'0'));
                } else if pid > 0 {
                    libc::kill(pid, signal);
                    any = true;
                    pid = 0;
                }
            }
        }
        libc::close(file);
    }
    any
}

/// Runs the program's side. Never returns.
///
/// # Safety
/// Only in the single thread of a freshly forked process.
unsafe fn run_program(
    plan: &Plan,
    argv: &[*const c_char],
    envp: &[*const c_char],
    setup: RawFd,
) -> ! {
    // SAFETY: as in `keeper`; the plan's strings and the pointer arrays are live copies.
    unsafe {
        let failed = match prepare(plan, setup) {
            Err(step) => (step, *libc::__errno_location()),
            Ok(()) => {
                libc::execvpe(plan.program.as_ptr(), argv.as_ptr(), envp.as_ptr());
                (Step::Exec, *libc::__errno_location())
            }
        };
        let mut message = [0u8; 6];
        message[0] = b'F';
        message[1] = failed.0 as u8;
        message[2..].copy_from_slice(&failed.1.to_ne_bytes());
        libc::send(
            setup,
            message.as_ptr().cast(),
            message.len(),
            libc::MSG_NOSIGNAL,
        );
        libc::_exit(125)
    }
}

/// Does all setup before `exec`. On failure errno holds the reason.
///
/// # Safety
/// As [`run_program`].
unsafe fn prepare(plan: &Plan, setup: RawFd) -> Result<(), Step> {
    let ok = |result: i64, step: Step| if result < 0 { Err(step) } else { Ok(()) };
    // SAFETY: as in `keeper`.
    unsafe {
        if let Some(user) = &plan.user_namespace {
            ok(
                libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS).into(),
                Step::UserNamespace,
            )?;
            if plan.own_network {
                // This fails if the limit of network namespaces is 0. Then the filter alone keeps
                // the host's network out of reach.
                libc::unshare(libc::CLONE_NEWNET);
            }
            for (file, text) in [
                (c"/proc/self/setgroups", c"deny"),
                (c"/proc/self/uid_map", user.uid_map.as_c_str()),
                (c"/proc/self/gid_map", user.gid_map.as_c_str()),
            ] {
                let fd = libc::open(file.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                ok(fd.into(), Step::UserNamespace)?;
                let bytes = text.to_bytes();
                let written = libc::write(fd, bytes.as_ptr().cast(), bytes.len());
                ok(written as i64, Step::UserNamespace)?;
                libc::close(fd);
            }
        } else if plan.mounts.is_some() {
            ok(
                libc::unshare(libc::CLONE_NEWNS).into(),
                Step::MountNamespace,
            )?;
        }
        if plan.user_namespace.is_none() && plan.own_network {
            // This fails for an ordinary user without a user namespace.
            libc::unshare(libc::CLONE_NEWNET);
        }
        let mask = libc::umask(0o022);
        for step in plan.mounts.iter().flatten() {
            ok(mount_step(step).into(), Step::Mounts)?;
        }
        libc::umask(mask);
        // Kills the program when the keeper dies.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        if let Some(directory) = &plan.directory {
            ok(libc::chdir(directory.as_ptr()).into(), Step::Directory)?;
        } else if plan.mounts.is_some() {
            // Enters the working directory again, so that the program sees it through the new
            // mounts.
            let mut here = [0 as c_char; libc::PATH_MAX as usize];
            if !libc::getcwd(here.as_mut_ptr(), here.len()).is_null() {
                libc::chdir(here.as_ptr());
            }
        }
        if plan.no_input {
            let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
            ok(null.into(), Step::Other)?;
            if null != 0 {
                libc::dup2(null, 0);
                libc::close(null);
            }
        }
        if plan.output_to_errors {
            libc::dup2(2, 1);
        }
        if let Some(slack) = plan.slack {
            libc::prctl(libc::PR_SET_TIMERSLACK, slack, 0, 0, 0);
        }
        if let Some(limit) = plan.limit {
            let mut both: libc::rlimit64 = std::mem::zeroed();
            libc::getrlimit64(libc::RLIMIT_RSS, &mut both);
            both.rlim_cur = limit;
            libc::setrlimit64(libc::RLIMIT_RSS, &both);
        }
        // The cgroup of a program of another stack.
        let mut locks: libc::rlimit64 = std::mem::zeroed();
        libc::getrlimit64(libc::RLIMIT_LOCKS, &mut locks);
        if cgroup::is_carrier(locks.rlim_cur) {
            locks.rlim_cur = locks.rlim_max;
            libc::setrlimit64(libc::RLIMIT_LOCKS, &locks);
        }
        if let Some(namespace) = &plan.enter {
            ok(
                libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET).into(),
                Step::Enter,
            )?;
        }
        if plan.give_up {
            give_up();
        }
        if let Some(filter) = &plan.filter {
            let listener = install(filter);
            ok(listener, Step::Filter)?;
            ok(send_listener(setup, listener as RawFd), Step::Other)?;
            libc::close(listener as RawFd);
        }
        Ok(())
    }
}

/// # Safety
/// As [`run_program`].
unsafe fn mount_step(step: &MountStep) -> c_int {
    // SAFETY: all strings are NUL-terminated parts of the plan.
    unsafe {
        match step {
            MountStep::Directory(path) => {
                libc::mkdir(path.as_ptr(), 0o755);
                0
            }
            MountStep::File(path) => {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC;
                let fd = libc::open(path.as_ptr(), flags, 0o644);
                if fd >= 0 {
                    libc::close(fd);
                }
                0
            }
            MountStep::Symlink(target, path) => {
                libc::symlink(target.as_ptr(), path.as_ptr());
                0
            }
            MountStep::Mount {
                source,
                target,
                kind,
                flags,
                required,
            } => {
                let result = libc::mount(
                    source.as_ptr(),
                    target.as_ptr(),
                    kind.as_ref().map_or(null(), |k| k.as_ptr()),
                    *flags,
                    null(),
                );
                if *required { result } else { 0 }
            }
        }
    }
}

/// Installs the filter. Returns the listener, or -1.
///
/// # Safety
/// As [`run_program`].
unsafe fn install(filter: &[libc::sock_filter]) -> i64 {
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    // SPEC_ALLOW: without it, a kernel before 5.16 disables speculation for the program.
    // WAIT_KILLABLE_RECV (5.19): without it, a signal restarts a call that has already taken
    // effect.
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: the program points to the filter, which lives.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        for flags in [flags | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, flags] {
            let fd = libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &program,
            );
            if fd >= 0 || *libc::__errno_location() != libc::EINVAL {
                return fd;
            }
        }
        -1
    }
}

/// # Safety
/// As [`run_program`].
unsafe fn send_listener(setup: RawFd, listener: RawFd) -> i64 {
    #[repr(C, align(8))]
    struct Control([u8; 32]);
    let mut byte = *b"L";
    let mut control = Control([0; 32]);
    // SAFETY: one descriptor needs 24 bytes of the 32; all pointers are to live stack memory.
    unsafe {
        let mut io = libc::iovec {
            iov_base: byte.as_mut_ptr().cast(),
            iov_len: 1,
        };
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut io;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as _;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(header)
            .cast::<RawFd>()
            .write_unaligned(listener);
        // The filter is in force, and nobody serves its calls.
        let flags = libc::MSG_NOSIGNAL | filter::UNSEEN as i32;
        libc::sendmsg(setup, &message, flags) as i64
    }
}
