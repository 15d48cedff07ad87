// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a program, and every program it starts, against a stack.
//!
//! [`Launcher::spawn`] forks the keeper and the program (see [`crate::spawn`]), takes the listener
//! of the program's filter and starts a supervisor thread for it. There are two modes:
//!
//! * **U**, [`Mode::Namespaces`]: the launch has its own mount namespace with a private `/run`,
//!   whose `netns` is the stack's directory of names. For an ordinary user it also has a user
//!   namespace, in which the program sees itself as root. Root needs no user namespace.
//! * **A**, [`Mode::PathTraps`]: no namespaces; calls that name `/run/netns` are trapped.
//!
//! [`Mode::Auto`] takes U where the kernel allows it and A where it does not (Ubuntu's AppArmor,
//! Docker, sandboxes like gVisor). A launch inside a launch of the same stack just runs the
//! program, since the outer supervisor already serves it. Inside a launch of another stack it is an
//! error, since the kernel allows one listener per process.
//!
//! `SIGTERM`, `SIGINT`, `SIGHUP`, `SIGQUIT`, `SIGUSR1` and `SIGUSR2` that another process sends to
//! the launcher are forwarded to the program. Those that a terminal sends reach it without help.
//! The exit code is the program's, or 128 plus the signal that ended it.
use crate::backend::{Backend, Errno, NsId};
use crate::filter;
use crate::runtime::Runtime;
use crate::seccomp::Listener;
use crate::signals::{self, Forwarding};
use crate::spawn::{self, MountStep, Plan, Step, UserNamespace};
use crate::supervisor::{Setup, Supervisor};
use crate::sys;
use crate::task::{Carrier, LIMIT_BASE, SLACK_BASE};
use crate::waits::Waits;
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The environment variable of clients that holds the stack's id.
pub const ACTIVE_VARIABLE: &str = "WEIR_ACTIVE";
/// The exit code of the command line if a launch could not be set up.
pub const EXIT_SETUP: i32 = 125;

/// The way in which `/run/netns` becomes the stack's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Namespaces where the kernel allows them, otherwise path traps.
    #[default]
    Auto,
    /// Mode U: a private mount tree.
    Namespaces,
    /// Mode A: trapped paths.
    PathTraps,
}

/// The reason why a launch failed.
#[derive(Debug)]
pub enum LaunchError {
    /// The launcher already runs inside a launch of another stack.
    Nested {
        /// The id of the outer stack.
        outer: String,
    },
    /// The program could not be executed.
    Exec {
        /// The program.
        program: OsString,
        /// `ENOENT`, `EACCES`, ...
        errno: Errno,
    },
    /// A step before the execution failed.
    Setup {
        /// The step that failed.
        what: &'static str,
        /// The reason.
        errno: Errno,
    },
}

impl LaunchError {
    /// Returns the exit code of the command line for this error: 127 if not found, 126 if not
    /// executable, otherwise 125.
    pub fn exit_code(&self) -> i32 {
        match self {
            LaunchError::Exec { errno, .. } if errno.0 == libc::ENOENT => 127,
            LaunchError::Exec { .. } => 126,
            _ => EXIT_SETUP,
        }
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaunchError::Nested { outer } => write!(
                f,
                "already inside the stack {outer}: a program can run in only one stack"
            ),
            LaunchError::Exec { program, errno } => {
                write!(f, "{}: {errno}", program.to_string_lossy())
            }
            LaunchError::Setup { what, errno } => write!(f, "{what}: {errno}"),
        }
    }
}

impl std::error::Error for LaunchError {}

fn setup_error(what: &'static str) -> impl Fn(Errno) -> LaunchError {
    move |errno| LaunchError::Setup { what, errno }
}

fn setup_io_error(what: &'static str) -> impl Fn(io::Error) -> LaunchError {
    move |error| LaunchError::Setup {
        what,
        errno: error.into(),
    }
}

/// A program to run against a stack.
#[derive(Clone, Debug)]
pub struct Launcher {
    program: OsString,
    arguments: Vec<OsString>,
    environment: BTreeMap<OsString, Option<OsString>>,
    directory: Option<PathBuf>,
    mode: Mode,
    host_network: bool,
    keep_user: bool,
    netns: Option<NsId>,
    forward_signals: bool,
    provided: Option<PathBuf>,
    waits: Option<Arc<Waits>>,
    no_input: bool,
    output_to_errors: bool,
}

impl Launcher {
    /// Prepares a program and its arguments. The program is looked up in `PATH` and in the
    /// directories of administration tools.
    pub fn new<A: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Launcher {
        Launcher {
            program: program.as_ref().to_os_string(),
            arguments: arguments
                .into_iter()
                .map(|a| a.as_ref().to_os_string())
                .collect(),
            environment: BTreeMap::new(),
            directory: None,
            mode: Mode::Auto,
            host_network: false,
            keep_user: false,
            netns: None,
            forward_signals: true,
            provided: None,
            waits: None,
            no_input: false,
            output_to_errors: false,
        }
    }

    /// Sets the mode. Default: [`Mode::Auto`].
    pub fn mode(mut self, mode: Mode) -> Launcher {
        self.mode = mode;
        self
    }

    /// Sets whether the program may open the host's internet and packet sockets. Default: no.
    pub fn host_network(mut self, allowed: bool) -> Launcher {
        self.host_network = allowed;
        self
    }

    /// Sets whether the program keeps its user id in a user namespace instead of being root there.
    /// It then has no right to mount, and `ip netns exec` complains. Default: no.
    pub fn keep_user(mut self, keep: bool) -> Launcher {
        self.keep_user = keep;
        self
    }

    /// Sets the namespace in which the program starts. Default: the stack's initial one.
    pub fn netns(mut self, ns: NsId) -> Launcher {
        self.netns = Some(ns);
        self
    }

    /// Sets a variable of the program's environment. The program inherits the others from the
    /// launcher.
    pub fn env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Launcher {
        let value = Some(value.as_ref().to_os_string());
        self.environment.insert(key.as_ref().to_os_string(), value);
        self
    }

    /// Removes a variable from the program's environment.
    pub fn env_remove(mut self, key: impl AsRef<OsStr>) -> Launcher {
        self.environment.insert(key.as_ref().to_os_string(), None);
        self
    }

    /// Sets the program's working directory. Default: the launcher's.
    pub fn current_dir(mut self, directory: impl AsRef<Path>) -> Launcher {
        self.directory = Some(directory.as_ref().to_path_buf());
        self
    }

    /// Sets whether signals sent to this process are forwarded to the program. Default: yes.
    pub fn forward_signals(mut self, forward: bool) -> Launcher {
        self.forward_signals = forward;
        self
    }

    /// Sets a file that the program, and every program it starts, find as `weir` before any in
    /// `PATH`.
    pub fn provide(mut self, file: Option<PathBuf>) -> Launcher {
        self.provided = file;
        self
    }

    /// Sets a clock other than the machine's for the waits of the program and of every program it
    /// starts.
    pub fn waits(mut self, waits: Option<Arc<Waits>>) -> Launcher {
        self.waits = waits;
        self
    }

    /// Sets whether the program's standard input is empty (`/dev/null`) instead of the launcher's.
    /// Default: no.
    pub fn no_input(mut self, none: bool) -> Launcher {
        self.no_input = none;
        self
    }

    /// Sets whether the program's standard output is the launcher's standard error. Default: no.
    pub fn output_to_errors(mut self, to_errors: bool) -> Launcher {
        self.output_to_errors = to_errors;
        self
    }

    /// Starts the program. Returns once it has been executed.
    pub fn spawn(self, backend: Arc<dyn Backend>) -> Result<Child, LaunchError> {
        let stack = backend.stack();
        let runtime =
            Runtime::open(&stack.directory).map_err(setup_io_error("the stack's directory"))?;
        let active = std::env::var(ACTIVE_VARIABLE).ok();
        if active.as_deref() == Some(stack.id.as_str()) && is_filtered() {
            return self.spawn_nested(&runtime, &stack.id);
        }
        let launch = sys::random_u64();
        let scratch = runtime
            .create_launch(launch)
            .map_err(setup_io_error("the launch's directory"))?;
        let scratch = Scratch(scratch);
        let tools = match &self.provided {
            Some(file) => Some(link_tool(&scratch.0, file)?),
            None => None,
        };
        let library = match &self.waits {
            Some(_) => Some(write_library(&scratch.0)?),
            None => None,
        };
        let ns = self.netns.unwrap_or(stack.initial);
        let root = sys::effective_uid() == 0;
        let mut refused = None;
        for namespaces in [true, false] {
            match (self.mode, namespaces) {
                (Mode::Namespaces, false) | (Mode::PathTraps, true) => continue,
                _ => {}
            }
            // Root first tries without a user namespace; a container's root may need one.
            let ways: &[bool] = if !namespaces {
                &[false]
            } else if root {
                &[false, true]
            } else {
                &[true]
            };
            for &user_namespace in ways {
                let carrier = if has_capability(CAP_SYS_NICE) || namespaces && user_namespace {
                    Carrier::TimerSlack
                } else {
                    Carrier::Limit
                };
                let options = filter::Options {
                    host_network: self.host_network,
                    path_traps: !namespaces,
                    limit_carrier: carrier == Carrier::Limit,
                    own_clock: self.waits.is_some(),
                    own_users: user_namespace,
                };
                let mut plan = self.plan(&stack.id, tools.as_deref(), library.as_deref())?;
                plan.filter = Some(filter::build(options));
                plan.own_network = !self.host_network;
                plan.give_up = root && !user_namespace;
                match carrier {
                    Carrier::TimerSlack => plan.slack = Some(SLACK_BASE + u64::from(ns.0)),
                    Carrier::Limit => plan.limit = Some(LIMIT_BASE | u64::from(ns.0)),
                }
                if namespaces {
                    plan.mounts = Some(mount_steps(&scratch.0, &runtime)?);
                }
                if user_namespace {
                    plan.user_namespace = Some(self.user_namespace()?);
                }
                let started = match start(&plan) {
                    Ok(started) => started,
                    Err((Step::UserNamespace | Step::MountNamespace | Step::Mounts, errno))
                        if self.mode == Mode::Auto || root =>
                    {
                        refused = Some(errno);
                        continue;
                    }
                    Err((step, errno)) => return Err(self.error(step, errno, active)),
                };
                let setup = Setup {
                    runtime,
                    launch,
                    scratch: scratch.0.clone(),
                    stack,
                    start_in: ns,
                    carrier,
                    user_names: user_names(),
                    private_mounts: namespaces,
                    may_mount: has_capability(CAP_SYS_ADMIN),
                    host_network: self.host_network,
                    keeper: started.keeper,
                    program: started.program,
                    waits: self.waits.clone(),
                };
                let mode = if namespaces {
                    Mode::Namespaces
                } else {
                    Mode::PathTraps
                };
                return self.supervise(started, backend, setup, scratch, mode);
            }
        }
        Err(LaunchError::Setup {
            what: "a user and mount namespace (mode U)",
            errno: refused.unwrap_or(Errno(libc::EPERM)),
        })
    }

    /// Starts a program inside a launch of the same stack, without filter and supervisor.
    fn spawn_nested(self, runtime: &Runtime, stack: &str) -> Result<Child, LaunchError> {
        // The outer launch has already put its tools into `PATH`.
        let mut plan = self.plan(stack, None, None)?;
        if let Some(ns) = self.netns {
            let file = runtime
                .namespace_file(ns)
                .map_err(setup_io_error("the namespace's file"))?;
            plan.enter = Some(file);
        }
        let started = start(&plan).map_err(|(step, errno)| self.error(step, errno, None))?;
        Ok(self.child(started, Mode::Auto, None, None))
    }

    fn supervise(
        self,
        mut started: Running,
        backend: Arc<dyn Backend>,
        setup: Setup,
        scratch: Scratch,
        mode: Mode,
    ) -> Result<Child, LaunchError> {
        let listener = started.listener.take().ok_or(LaunchError::Setup {
            what: "the filter's listener",
            errno: Errno(libc::EPROTO),
        })?;
        sys::may_read_memory(started.program).map_err(setup_error(
            "reading the program's memory (Yama's ptrace_scope, or a program file without read permission)",
        ))?;
        Runtime::note_keeper(&scratch.0, started.keeper, setup.start_in)
            .map_err(setup_io_error("the launch's directory"))?;
        let stop = sys::event_fd().map_err(setup_error("an event descriptor"))?;
        let supervisor = Supervisor::new(
            setup,
            Listener::new(listener),
            backend,
            stop.try_clone()
                .map_err(setup_io_error("an event descriptor"))?,
        )
        .map_err(setup_error("the supervisor"))?;
        let control = started
            .control
            .try_clone()
            .map_err(setup_io_error("the keeper's socket"))?;
        let thread = std::thread::Builder::new()
            .name("weir-supervisor".into())
            .spawn(move || {
                // A supervisor that fails must not leave programs waiting for it.
                if catch_unwind(AssertUnwindSafe(|| supervisor.run())).is_err() {
                    crate::say("the supervisor failed; all programs it supervised were killed");
                    tell_keeper(control.as_fd(), b'K', 0);
                }
            })
            .map_err(setup_io_error("the supervisor's thread"))?;
        Ok(self.child(started, mode, Some((thread, stop)), Some(scratch)))
    }

    /// Returns what to start. `library` is preloaded into the program.
    fn plan(
        &self,
        stack: &str,
        tools: Option<&Path>,
        library: Option<&Path>,
    ) -> Result<Plan, LaunchError> {
        let mut environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        let path = client_path(tools, std::env::var_os("PATH"));
        environment.insert("PATH".into(), path);
        for (key, value) in &self.environment {
            match value {
                Some(value) => environment.insert(key.clone(), value.clone()),
                None => environment.remove(key),
            };
        }
        environment.insert(ACTIVE_VARIABLE.into(), stack.into());
        if let Some(library) = library {
            let preload = environment.entry("LD_PRELOAD".into()).or_default();
            let others = std::mem::replace(preload, library.into());
            if !others.is_empty() {
                preload.push(":");
                preload.push(others);
            }
        }
        let environment = environment
            .iter()
            .map(|(key, value)| {
                let mut pair = key.clone();
                pair.push("=");
                pair.push(value);
                c_string(&pair)
            })
            .collect::<Result<_, _>>()?;
        let mut arguments = vec![c_string(&self.program)?];
        for argument in &self.arguments {
            arguments.push(c_string(argument)?);
        }
        let last_words = format!(
            "weir: the supervisor of {} died; all programs it supervised were killed\n",
            self.program.to_string_lossy()
        );
        Ok(Plan {
            program: c_string(&match &self.provided {
                Some(file) if self.program == "weir" => file.into(),
                _ => located(&self.program),
            })?,
            arguments,
            environment,
            directory: match &self.directory {
                Some(directory) => Some(c_string(directory.as_os_str())?),
                None => None,
            },
            no_input: self.no_input,
            output_to_errors: self.output_to_errors,
            mounts: None,
            user_namespace: None,
            own_network: false,
            give_up: false,
            filter: None,
            slack: None,
            limit: None,
            enter: None,
            last_words: c_string(OsStr::new(&last_words))?,
        })
    }

    fn user_namespace(&self) -> Result<UserNamespace, LaunchError> {
        let (uid, gid) = sys::user_and_group();
        let (inner_uid, inner_gid) = if self.keep_user { (uid, gid) } else { (0, 0) };
        Ok(UserNamespace {
            uid_map: c_string(OsStr::new(&format!("{inner_uid} {uid} 1\n")))?,
            gid_map: c_string(OsStr::new(&format!("{inner_gid} {gid} 1\n")))?,
        })
    }

    fn error(&self, step: Step, errno: Errno, active: Option<String>) -> LaunchError {
        let what = match step {
            Step::Exec => {
                // execvp reports EACCES if any directory of PATH could not be searched.
                let errno = if errno.0 == libc::EACCES && !is_in_path(&self.program) {
                    Errno(libc::ENOENT)
                } else {
                    errno
                };
                return LaunchError::Exec {
                    program: self.program.clone(),
                    errno,
                };
            }
            Step::Filter if errno.0 == libc::EBUSY => {
                return LaunchError::Nested {
                    outer: active.unwrap_or_else(|| "of another supervisor".into()),
                };
            }
            Step::Directory => "the working directory",
            Step::UserNamespace => "a user namespace (mode U)",
            Step::MountNamespace => "a mount namespace (mode U)",
            Step::Mounts => "a private /run (mode U)",
            Step::Filter if errno.0 == libc::EINVAL => {
                "the seccomp filter (gVisor, or a kernel without user notification?)"
            }
            Step::Filter => "the seccomp filter",
            Step::Enter => "the network namespace",
            Step::Other => "starting the program",
        };
        LaunchError::Setup { what, errno }
    }

    fn child(
        &self,
        started: Running,
        mode: Mode,
        supervisor: Option<(JoinHandle<()>, OwnedFd)>,
        scratch: Option<Scratch>,
    ) -> Child {
        Child {
            forwarding: self
                .forward_signals
                .then(|| signals::forward(started.control.as_fd()))
                .flatten(),
            keeper: started.keeper,
            program: started.program,
            control: started.control,
            status: None,
            mode,
            supervisor,
            scratch,
        }
    }
}

fn c_string(text: &OsStr) -> Result<CString, LaunchError> {
    CString::new(text.as_bytes()).map_err(|_| LaunchError::Setup {
        what: "an argument with a NUL byte",
        errno: Errno(libc::EINVAL),
    })
}

/// The directories of administration tools. On Debian they hold `tc`, `sysctl` and `bridge` and are
/// not in the `PATH` of ordinary users, whose requests the kernel would refuse. Weir serves every
/// user.
const ADMINISTRATOR: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Creates a directory of the launch in which `file` has the name `weir`.
fn link_tool(scratch: &Path, file: &Path) -> Result<PathBuf, LaunchError> {
    let tools = scratch.join("bin");
    fs::create_dir(&tools)
        .and_then(|()| std::os::unix::fs::symlink(file, tools.join("weir")))
        .map_err(setup_io_error("the launch's directory"))?;
    Ok(tools)
}

/// Writes the library that reads the stack's clock (`preload/clock.rs`).
fn write_library(scratch: &Path) -> Result<PathBuf, LaunchError> {
    const CLOCK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clock.so"));
    let library = scratch.join("clock.so");
    fs::write(&library, CLOCK).map_err(setup_io_error("the launch's directory"))?;
    Ok(library)
}

/// Returns the `PATH` of clients: the launch's own tools, the former `PATH`, then
/// [`ADMINISTRATOR`].
fn client_path(tools: Option<&Path>, path: Option<OsString>) -> OsString {
    // The default of execvp and of shells.
    let old = path.unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut path = OsString::new();
    if let Some(tools) = tools {
        path.push(tools);
        path.push(":");
    }
    path.push(old);
    for directory in ADMINISTRATOR {
        if !std::env::split_paths(&path).any(|other| other == Path::new(directory)) {
            path.push(":");
            path.push(directory);
        }
    }
    path
}

/// Returns the program to execute: its full path if only the clients' `PATH` finds it.
fn located(program: &OsStr) -> OsString {
    let files = ADMINISTRATOR.map(|directory| Path::new(directory).join(program));
    let file = files.iter().find(|file| file.exists());
    match file {
        Some(file) if !is_in_path(program) => file.into(),
        _ => program.into(),
    }
}

/// Returns whether `PATH` finds a program named without a slash. Returns true for a name with a
/// slash.
fn is_in_path(program: &OsStr) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    program.as_bytes().contains(&b'/')
        || std::env::split_paths(&path).any(|directory| directory.join(program).exists())
}

/// Returns whether this process runs under a seccomp filter. The variable alone does not prove it,
/// because a program may have carried it out of a launch.
fn is_filtered() -> bool {
    fs::read_to_string("/proc/self/status")
        .unwrap_or_default()
        .lines()
        .any(|line| {
            line.strip_prefix("Seccomp:")
                .is_some_and(|v| v.trim() == "2")
        })
}

const CAP_SYS_ADMIN: u64 = 21;
/// The capability to set and read the timer slack of other threads.
const CAP_SYS_NICE: u64 = 23;

/// Returns whether this process has a capability. The program then has it too, unless it gets a
/// user namespace.
fn has_capability(number: u64) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> number & 1 == 1)
}

/// Returns the steps that build a private `/run`: a small tmpfs that shows the present content of
/// `/run`, and the stack's names as `netns`. Everything is private to the launch.
fn mount_steps(scratch: &Path, runtime: &Runtime) -> Result<Vec<MountStep>, LaunchError> {
    let stage = scratch.join("run");
    fs::create_dir_all(&stage).map_err(setup_io_error("the launch's directory"))?;
    let path = |path: &Path| c_string(path.as_os_str());
    let bind = |source: &Path, target: &Path, required| -> Result<MountStep, LaunchError> {
        Ok(MountStep::Mount {
            source: path(source)?,
            target: path(target)?,
            kind: None,
            flags: libc::MS_BIND | libc::MS_REC,
            required,
        })
    };
    let mut steps = vec![
        MountStep::Mount {
            source: c"none".into(),
            target: c"/".into(),
            kind: None,
            flags: libc::MS_REC | libc::MS_PRIVATE,
            required: true,
        },
        MountStep::Mount {
            source: c"weir".into(),
            target: path(&stage)?,
            kind: Some(c"tmpfs".into()),
            flags: libc::MS_NOSUID | libc::MS_NODEV,
            required: true,
        },
    ];
    let mut entries: Vec<_> = fs::read_dir("/run")
        .into_iter()
        .flatten()
        .flatten()
        .collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (source, target) = (entry.path(), stage.join(entry.file_name()));
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if entry.file_name() == "netns" {
            continue;
        }
        if kind.is_symlink() {
            if let Ok(to) = fs::read_link(&source) {
                steps.push(MountStep::Symlink(path(&to)?, path(&target)?));
            }
            continue;
        }
        steps.push(if kind.is_dir() {
            MountStep::Directory(path(&target)?)
        } else {
            MountStep::File(path(&target)?)
        });
        steps.push(bind(&source, &target, false)?);
    }
    let names = stage.join("netns");
    steps.push(MountStep::Directory(path(&names)?));
    steps.push(bind(&runtime.names(), &names, true)?);
    steps.push(MountStep::Mount {
        source: path(&stage)?,
        target: c"/run".into(),
        kind: None,
        flags: libc::MS_MOVE,
        required: true,
    });
    // The files' modes would let root write the host's settings, so they become read-only.
    if sys::effective_uid() == 0 {
        for settings in [c"/proc/sys", c"/sys"] {
            let read_only = libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
            for flags in [
                libc::MS_BIND | libc::MS_REC,
                libc::MS_REMOUNT | libc::MS_BIND | read_only,
            ] {
                steps.push(MountStep::Mount {
                    source: settings.into(),
                    target: settings.into(),
                    kind: None,
                    flags,
                    required: false,
                });
            }
        }
    }
    if let Some(names) = user_names() {
        let names = Path::new(&names);
        steps.push(MountStep::Directory(path(names)?));
        steps.push(bind(&runtime.names(), names, false)?);
    }
    Ok(steps)
}

/// Returns `$XDG_RUNTIME_DIR/netns`, where unprivileged programs such as CNI plugins keep names of
/// namespaces instead of in `/run/netns`.
fn user_names() -> Option<String> {
    let folder = std::env::var("XDG_RUNTIME_DIR").ok()?;
    let folder = folder.trim_end_matches('/');
    Path::new(folder)
        .is_absolute()
        .then(|| format!("{folder}/netns"))
}

/// The keeper and the program after a successful `exec`.
struct Running {
    keeper: u32,
    program: u32,
    control: OwnedFd,
    listener: Option<OwnedFd>,
}

/// Starts the keeper and the program and follows the setup.
fn start(plan: &Plan) -> Result<Running, (Step, Errno)> {
    let other = |errno| (Step::Other, errno);
    let started = spawn::start(plan).map_err(other)?;
    let mut listener = None;
    let mut buffer = [0; 16];
    let failure = loop {
        match sys::receive_with_fds(started.setup.as_fd(), &mut buffer, 0) {
            Err(Errno(libc::EINTR)) => {}
            Err(errno) => break Some((Step::Other, errno)),
            Ok((0, _)) => break None,
            Ok((1, mut fds)) if buffer[0] == b'L' => listener = fds.pop(),
            Ok((6, _)) if buffer[0] == b'F' => {
                let errno = i32::from_ne_bytes([buffer[2], buffer[3], buffer[4], buffer[5]]);
                break Some((Step::from_byte(buffer[1]), Errno(errno)));
            }
            Ok(_) => break Some((Step::Other, Errno(libc::EPROTO))),
        }
    };
    let program = match receive_control(started.control.as_fd()) {
        Some((b'P', pid)) => pid as u32,
        _ => 0,
    };
    if let Some(failure) = failure {
        tell_keeper(started.control.as_fd(), b'K', 0);
        // The keeper ends without help; a failed wait changes nothing.
        let _ = sys::wait_for(started.keeper);
        return Err(failure);
    }
    Ok(Running {
        keeper: started.keeper,
        program,
        control: started.control,
        listener,
    })
}

fn tell_keeper(control: std::os::fd::BorrowedFd<'_>, what: u8, value: i32) {
    let mut message = [what, 0, 0, 0, 0];
    message[1..].copy_from_slice(&value.to_ne_bytes());
    // A keeper that is gone has nothing left to do.
    let _ = sys::send(control, &message, 0);
}

/// Receives the keeper's next message. Returns `None` when the keeper is gone.
fn receive_control(control: std::os::fd::BorrowedFd<'_>) -> Option<(u8, i32)> {
    let mut message = [0; 5];
    loop {
        match sys::receive(control, &mut message, 0) {
            Err(Errno(libc::EINTR)) => {}
            Ok(5) => {
                let value = [message[1], message[2], message[3], message[4]];
                return Some((message[0], i32::from_ne_bytes(value)));
            }
            _ => return None,
        }
    }
}

/// The launch's directory, removed on drop.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // Leftover scratch is removed with the stack's directory.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// The way in which a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The wait status of `waitpid`.
    pub status: i32,
}

impl Exit {
    /// Returns the program's exit code, or 128 plus the signal that ended it.
    pub fn code(self) -> i32 {
        if libc::WIFSIGNALED(self.status) {
            128 + libc::WTERMSIG(self.status)
        } else {
            libc::WEXITSTATUS(self.status)
        }
    }
}

/// A running program.
///
/// Dropping this value ends the processes that the program left running (`SIGTERM`, after half a
/// second `SIGKILL`) and stops the supervisor.
#[derive(Debug)]
pub struct Child {
    keeper: u32,
    program: u32,
    control: OwnedFd,
    status: Option<Exit>,
    mode: Mode,
    supervisor: Option<(JoinHandle<()>, OwnedFd)>,
    forwarding: Option<Forwarding>,
    scratch: Option<Scratch>,
}

impl Child {
    /// Returns the program's process id.
    pub fn id(&self) -> u32 {
        self.program
    }

    /// Returns the mode in use ([`Mode::Auto`] in a launch inside a launch).
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Sends a signal to the program unless it has ended.
    pub fn signal(&self, signal: i32) {
        tell_keeper(self.control.as_fd(), b'S', signal);
    }

    /// Waits for the program, but not for processes it left running.
    pub fn wait(&mut self) -> Exit {
        while self.status.is_none() {
            match receive_control(self.control.as_fd()) {
                Some((b'X', status)) => self.status = Some(Exit { status }),
                Some(_) => {}
                // The keeper was killed, and the program with it.
                None => {
                    self.status = Some(Exit {
                        status: libc::SIGKILL,
                    });
                }
            }
        }
        self.status.unwrap_or(Exit { status: 0 })
    }

    /// Waits for the program and everything it started.
    pub fn wait_all(&mut self) -> Exit {
        let exit = self.wait();
        while let Some((what, _)) = receive_control(self.control.as_fd()) {
            if what == b'E' {
                break;
            }
        }
        exit
    }

    /// Waits at most `most` for the program and everything it started. Returns whether all have
    /// ended.
    pub fn wait_all_for(&mut self, most: Duration) -> bool {
        self.wait();
        let began = Instant::now();
        loop {
            let left = most.saturating_sub(began.elapsed());
            let Ok(left) = i32::try_from(left.as_millis()) else {
                return false;
            };
            match sys::poll_in(&[self.control.as_fd()], Some(left)) {
                Ok(events) if events[0] == 0 && left > 0 => {} // interrupted
                Ok(events) if events[0] == 0 => return false,
                Err(_) => return false,
                Ok(_) => match receive_control(self.control.as_fd()) {
                    Some((b'E', _)) | None => return true,
                    Some(_) => {}
                },
            }
        }
    }

    /// Stops forwarding signals; this process handles them from now on.
    pub fn keep_signals(&mut self) {
        self.forwarding = None;
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.forwarding = None;
        tell_keeper(self.control.as_fd(), b'K', 0);
        // The keeper is a child of this process and ends on request. If it is already gone, there
        // is nothing to do.
        let _ = sys::wait_for(self.keeper);
        if let Some((thread, stop)) = self.supervisor.take() {
            sys::wake(stop.as_fd());
            // The supervisor's thread has already printed its panic, if any.
            drop(thread.join());
        }
        self.scratch = None;
    }
}
