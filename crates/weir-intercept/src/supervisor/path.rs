// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls that name a file: resolution of the path, and the answer if the file is Weir's.
//!
//! | path | answer |
//! |---|---|
//! | `/proc/{self,thread-self,PID}[/task/TID]/ns/net` | the namespace's file; `readlink` gives `net:[inode]` |
//! | `/proc/sys/net/...`, `/proc[/PID]/net/...`, `/sys/class/net/...`, `/sys/bus/netdevsim/...` | served by the backend ([`super::served`]) |
//! | `/run/netns`, `/var/run/netns`, `$XDG_RUNTIME_DIR/netns` (mode A) | the same call on the stack's directory of names |
//! | removal of a namespace's name (both modes) | `EBUSY`, as for a mount point |
//! | `/proc/PID/{uid_map,gid_map,setgroups}`, for writing | a sink, if the process asked for a user namespace and was answered without one |
//! | `/proc/PID/net/...` of a process outside | `EACCES`: it shows the host's network |
//! | `/run/cgroup2/...`, `/proc/PID/cgroup`, `/proc/mounts` | the cgroups of `ip vrf exec` ([`super::cgroup`]) |
//! | `/dev/net/tun` | a device of the caller's namespace ([`super::tun`]) |
//!
//! Relative paths start at the caller's working directory or directory descriptor. Dots are
//! resolved lexically; symbolic links other than the ones above are not followed.
//!
//! Not served: `chmod`, `chown` and `chdir` of `/run/netns` in mode A.
use super::served::Served;
use super::{Handled, Supervisor};
use crate::backend::{Errno, Tree};
use crate::cgroup::MOUNT;
use crate::seccomp::{Answer, Call};
use crate::sys;
use crate::task::process_of;
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// The meaning of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A path for the kernel to handle.
    Elsewhere,
    /// In mode A, a path at or below `/run/netns`, as the file that stands for it.
    Name(PathBuf),
    /// `/proc/PID/ns/net` of this thread.
    Namespace(u32),
    /// `/proc/PID/fd/N`.
    File(u32, i32),
    /// A served file or directory.
    Served(Served),
    /// `/proc/PID/net`, or a path below it, of a process in no namespace of the stack.
    Foreign,
    /// A path in the hierarchy of cgroups.
    Cgroup(String),
    /// `/proc/PID/cgroup`.
    Membership(u32),
    /// `/proc/PID/mounts`.
    Mounts(u32),
    /// `/dev/net/tun`.
    Tun,
    /// A setting of the host: a path below `/proc/sys` or `/sys` that the stack does not serve.
    HostSetting,
    /// `uid_map`, `gid_map` or `setgroups` of a process.
    UserMap,
}

/// The sysfs paths of the served trees.
const SYSFS: [(&str, Tree); 3] = [
    ("/sys/class/net", Tree::SysClassNet),
    ("/sys/devices/virtual/net", Tree::SysClassNet),
    ("/sys/bus/netdevsim", Tree::SysBusNetdevsim),
];

/// The beginnings of all paths that Weir handles. Other paths need no further check.
const ROOTS: [&str; 7] = [
    "/proc",
    "/run",
    "/var",
    "/sys",
    "/dev",
    "/lib/modules",
    "/usr/lib/modules",
];

/// Returns the path in [`Tree::Modules`] of an index of modules, or of a module in `/sys/module`.
fn module_file(path: &str) -> Option<String> {
    if let Some(module) = below(path, "/sys/module").filter(|module| !module.is_empty()) {
        return Some(format!("sys/{module}"));
    }
    let rest = below(path, "/lib/modules").or_else(|| below(path, "/usr/lib/modules"))?;
    let (_, file) = rest.split_once('/')?;
    Some(format!("index/{file}"))
}

/// Removes empty and dot components of an absolute path, lexically.
fn normalise(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    let mut out = String::with_capacity(path.len() + 1);
    for part in parts {
        out.push('/');
        out.push_str(part);
    }
    if out.is_empty() {
        out.push('/');
    }
    out
}

/// Returns the rest of a normalised path that is at or below this prefix, without the slash.
fn below<'a>(path: &'a str, prefix: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(prefix)?;
    if rest.is_empty() {
        Some(rest)
    } else {
        rest.strip_prefix('/')
    }
}

impl Supervisor {
    /// Returns the absolute, normalised path of a call's argument.
    pub(super) fn absolute(&self, call: &Call, at: i32, address: u64) -> Result<String, Errno> {
        let path = sys::read_string(call.tid, address)?;
        self.absolute_of(call, at, &path)
    }

    fn absolute_of(&self, call: &Call, at: i32, path: &str) -> Result<String, Errno> {
        if path.starts_with('/') {
            return Ok(normalise(path));
        }
        let tid = call.tid;
        let base = if at == libc::AT_FDCWD {
            fs::read_link(format!("/proc/{tid}/cwd"))?
        } else {
            fs::read_link(format!("/proc/{tid}/fd/{at}"))?
        };
        let base = base.to_str().ok_or(Errno(libc::EILSEQ))?;
        Ok(normalise(&format!("{base}/{path}")))
    }

    /// Returns the name in `/run/netns` that a path means (empty for the directory itself).
    pub(super) fn netns_name<'a>(&self, path: &'a str) -> Option<&'a str> {
        below(path, "/run/netns")
            .or_else(|| below(path, "/var/run/netns"))
            .or_else(|| below(path, self.setup.user_names.as_deref()?))
    }

    /// Returns the path in the hierarchy of cgroups that a path means: from its mount, or through an open directory.
    fn cgroup_at(&self, path: &str) -> Option<String> {
        let mounted = below(path, MOUNT).or_else(|| below(path.strip_prefix("/var")?, MOUNT));
        match mounted {
            Some(path) => Some(path.to_string()),
            None => self.cgroup.cgroups.path_of(Path::new(path)),
        }
    }

    /// Resolves the path argument of a call. A path that cannot be read is left to the kernel.
    pub(super) fn place(&mut self, call: &Call, at: i32, address: u64) -> Place {
        let path = match sys::read_string(call.tid, address) {
            Ok(path) => path,
            Err(error) => {
                if error.0 == libc::EPERM {
                    self.say_once(
                        call,
                        "memory",
                        "its memory cannot be read (it is not dumpable): paths it names are the \
                         host's",
                    );
                }
                return Place::Elsewhere;
            }
        };
        if path.is_empty()
            || path.starts_with('/')
                && !path.contains("/..")
                && !path.starts_with("//")
                && !path.starts_with("/.")
                && !ROOTS.iter().any(|root| path.starts_with(root))
                && !path.starts_with(self.setup.scratch.to_str().unwrap_or("/proc"))
                && !path.starts_with(self.setup.user_names.as_deref().unwrap_or("/proc"))
        {
            return Place::Elsewhere;
        }
        match self.absolute_of(call, at, &path) {
            Ok(path) => self.place_of(call, &path),
            Err(_) => Place::Elsewhere,
        }
    }

    fn place_of(&mut self, call: &Call, path: &str) -> Place {
        if let Some(rest) = below(path, "/proc") {
            return self.place_in_proc(call, rest);
        }
        if !self.setup.private_mounts
            && let Some(name) = self.netns_name(path)
        {
            return Place::Name(self.setup.runtime.names().join(name));
        }
        for (root, tree) in SYSFS {
            if let Some(rest) = below(path, root) {
                let ns = self.namespace(call.tid);
                return Place::Served(Served::new(ns, tree, rest));
            }
        }
        if let Some(file) = module_file(path) {
            let served = Served::new(self.namespace(call.tid), Tree::Modules, &file);
            if self.exists(&served) {
                return Place::Served(served);
            }
        }
        if !self.setup.host_network
            && let Some(cgroup) = self.cgroup_at(path)
        {
            return Place::Cgroup(cgroup);
        }
        if path == "/dev/net/tun" {
            return Place::Tun;
        }
        if below(path, "/sys").is_some() && below(path, "/sys/fs/cgroup").is_none() {
            return Place::HostSetting;
        }
        // The directories created for served trees, entered through a descriptor or as working
        // directory.
        let scratch = self.setup.scratch.to_str();
        match scratch.and_then(|scratch| below(path, scratch)) {
            Some(rest) => Served::from_scratch(rest).map_or(Place::Elsewhere, Place::Served),
            None => Place::Elsewhere,
        }
    }

    fn place_in_proc(&mut self, call: &Call, path: &str) -> Place {
        if let Some(rest) = below(path, "sys/net") {
            let ns = self.namespace(call.tid);
            return Place::Served(Served::new(ns, Tree::Sysctl, rest));
        }
        if path == "modules" {
            let ns = self.namespace(call.tid);
            return Place::Served(Served::new(ns, Tree::Modules, "proc"));
        }
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        if matches!(
            first,
            "sys" | "sysrq-trigger" | "irq" | "bus" | "acpi" | "mtrr"
        ) {
            return Place::HostSetting;
        }
        let (mut thread, mut rest) = match first {
            "net" | "mounts" => (call.tid, path),
            "self" => (process_of(call.tid).unwrap_or(call.tid), rest),
            "thread-self" => (call.tid, rest),
            _ => match first.parse() {
                Ok(pid) => (pid, rest),
                Err(_) => return Place::Elsewhere,
            },
        };
        if let Some(task) = below(rest, "task")
            && let Some((tid, below_task)) = task.split_once('/')
            && let Ok(tid) = tid.parse()
        {
            (thread, rest) = (tid, below_task);
        }
        match rest {
            "cgroup" if !self.setup.host_network => return Place::Membership(thread),
            "mounts" if !self.setup.host_network => return Place::Mounts(thread),
            _ => {}
        }
        if rest == "ns/net" {
            return Place::Namespace(thread);
        }
        if matches!(rest, "uid_map" | "gid_map" | "setgroups") {
            return Place::UserMap;
        }
        if let Some(fd) = below(rest, "fd").and_then(|fd| fd.parse().ok()) {
            return Place::File(thread, fd);
        }
        match below(rest, "net") {
            Some(file) => match self.tasks.namespace_of(thread) {
                Some(ns) => Place::Served(Served::new(ns, Tree::ProcNet, file)),
                None if self.setup.host_network => Place::Elsewhere,
                None => Place::Foreign,
            },
            None => Place::Elsewhere,
        }
    }

    /// Returns a real file that stands for the place, for calls that only inspect it.
    fn stand_in(&mut self, place: Place) -> Result<Option<PathBuf>, Errno> {
        match place {
            Place::Elsewhere
            | Place::File(..)
            | Place::Tun
            | Place::Membership(_)
            | Place::Mounts(_)
            | Place::UserMap
            | Place::HostSetting => Ok(None),
            Place::Foreign => Err(Errno(libc::EACCES)),
            Place::Name(path) => Ok(Some(path)),
            Place::Cgroup(path) => Ok(Some(self.cgroup.cgroups.real(&path))),
            Place::Namespace(thread) => match self.tasks.namespace_of(thread) {
                Some(ns) => Ok(Some(self.setup.runtime.namespace_path(ns)?)),
                None => Ok(None),
            },
            Place::Served(served) => self.placeholder(&served).map(Some),
        }
    }

    /// Returns whether the place is a directory below `/proc`, where nobody can create files. The
    /// real directory that stands for it is writable.
    fn is_read_only_directory(&self, place: &Place) -> bool {
        matches!(place, Place::Served(served) if self.is_directory_in_proc(served))
    }

    pub(super) fn open(
        &mut self,
        call: &Call,
        at: i32,
        address: u64,
        flags: i32,
        mode: u64,
    ) -> Handled {
        let close_on_exec = flags & libc::O_CLOEXEC != 0;
        let file = match self.place(call, at, address) {
            Place::Elsewhere | Place::File(..) => return Ok(Answer::Continue),
            Place::HostSetting if flags & libc::O_ACCMODE == libc::O_RDONLY => {
                return Ok(Answer::Continue);
            }
            Place::HostSetting => {
                self.say_once(
                    call,
                    "setting",
                    "settings outside net.* belong to the host and are read-only",
                );
                return Err(Errno(libc::EROFS));
            }
            Place::UserMap => {
                let process = self.process(call);
                let write = flags & libc::O_ACCMODE != libc::O_RDONLY;
                if !write || !self.pretended_users.contains(&process) {
                    return Ok(Answer::Continue);
                }
                sys::memory_file(c"weir", b"")?
            }
            Place::Foreign => {
                self.say_once(
                    call,
                    "foreign",
                    "/proc/PID/net of a process outside Weir is refused: it shows the host's network",
                );
                return Err(Errno(libc::EACCES));
            }
            Place::Membership(_) | Place::Mounts(_)
                if flags & (libc::O_ACCMODE | libc::O_PATH) != libc::O_RDONLY =>
            {
                return Ok(Answer::Continue);
            }
            Place::Membership(process) => return self.open_membership(call, process, flags),
            Place::Mounts(process) => return self.open_mounts(call, process, flags),
            Place::Cgroup(path) => return self.open_cgroup(call, &path, flags),
            Place::Tun if self.setup.host_network => return Ok(Answer::Continue),
            Place::Tun => return self.open_tun(call, flags),
            Place::Served(served) => return self.open_served(call, &served, flags),
            Place::Namespace(thread) => match self.tasks.namespace_of(thread) {
                _ if flags & libc::O_NOFOLLOW != 0 => return Ok(Answer::Continue),
                None => return Ok(Answer::Continue),
                Some(_) if flags & libc::O_ACCMODE != libc::O_RDONLY => {
                    return Err(Errno(libc::EACCES));
                }
                Some(ns) => {
                    let path = self.setup.runtime.namespace_path(ns)?;
                    sys::open(&path, flags & libc::O_PATH, 0)?
                }
            },
            // `ip netns add` creates the file with mode 0, but it must be readable later.
            Place::Name(path) => sys::open(&path, flags, mode as u32 & 0o777 | 0o444)?,
        };
        self.listener
            .answer_with(call, file.as_fd(), close_on_exec, None)
    }

    pub(super) fn openat2(&mut self, call: &Call) -> Handled {
        // struct open_how { u64 flags, mode, resolve }
        let how: [u8; 24] = match sys::read_array(call.tid, call.args[2]) {
            Ok(how) => how,
            Err(_) => return Ok(Answer::Continue),
        };
        let word = |i: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&how[i * 8..i * 8 + 8]);
            u64::from_ne_bytes(bytes)
        };
        self.open(call, call.int(0), call.args[1], word(0) as i32, word(1))
    }

    pub(super) fn stat(
        &mut self,
        call: &Call,
        at: i32,
        address: u64,
        out: u64,
        flags: i32,
    ) -> Handled {
        let place = self.place(call, at, address);
        if matches!(place, Place::Namespace(_)) && flags & libc::AT_SYMLINK_NOFOLLOW != 0 {
            return Ok(Answer::Continue); // the link itself
        }
        let read_only = self.is_read_only_directory(&place);
        match self.stand_in(place)? {
            None => Ok(Answer::Continue),
            Some(path) => {
                let mut stat = sys::stat(&path, flags & libc::AT_SYMLINK_NOFOLLOW)?;
                if read_only {
                    stat.st_mode &= !0o222;
                }
                sys::write_memory(call.tid, out, sys::bytes_of(&stat))?;
                Ok(Answer::Value(0))
            }
        }
    }

    pub(super) fn statx(&mut self, call: &Call) -> Handled {
        let (at, address, flags, out) = (call.int(0), call.args[1], call.int(2), call.args[4]);
        let place = self.place(call, at, address);
        if matches!(place, Place::Namespace(_)) && flags & libc::AT_SYMLINK_NOFOLLOW != 0 {
            return Ok(Answer::Continue);
        }
        let read_only = self.is_read_only_directory(&place);
        match self.stand_in(place)? {
            None => Ok(Answer::Continue),
            Some(path) => {
                let mut stat = sys::statx(
                    &path,
                    flags & libc::AT_SYMLINK_NOFOLLOW,
                    call.args[3] as u32,
                )?;
                if read_only {
                    stat.stx_mode &= !0o222;
                }
                sys::write_memory(call.tid, out, sys::bytes_of(&stat))?;
                Ok(Answer::Value(0))
            }
        }
    }

    pub(super) fn access(&mut self, call: &Call, at: i32, address: u64, mode: i32) -> Handled {
        let place = self.place(call, at, address);
        match self.stand_in(place)? {
            None => Ok(Answer::Continue),
            Some(path) => {
                sys::access(&path, mode)?;
                Ok(Answer::Value(0))
            }
        }
    }

    pub(super) fn readlink(
        &mut self,
        call: &Call,
        at: i32,
        address: u64,
        out: u64,
        size: u64,
    ) -> Handled {
        let thread = match self.place(call, at, address) {
            Place::Namespace(thread) => thread,
            Place::Served(served) => {
                // A served path is never a link. `sysctl` asks for each component of a path.
                self.placeholder(&served)?;
                return Err(Errno(libc::EINVAL));
            }
            _ => return Ok(Answer::Continue),
        };
        let Some(ns) = self.tasks.namespace_of(thread) else {
            return Ok(Answer::Continue);
        };
        let text = format!("net:[{}]", self.setup.runtime.namespace_inode(ns)?);
        let length = text.len().min(size as usize);
        if length == 0 {
            return Err(Errno(libc::EINVAL));
        }
        sys::write_memory(call.tid, out, &text.as_bytes()[..length])?;
        Ok(Answer::Value(length as i64))
    }

    /// Resolves a path argument in `/run/netns` (mode A) to the file that stands for it.
    fn name_argument(&mut self, call: &Call, at: i32, address: u64) -> Option<PathBuf> {
        match self.place(call, at, address) {
            Place::Name(path) => Some(path),
            _ => None,
        }
    }

    pub(super) fn make_directory(&mut self, call: &Call, at: i32, address: u64) -> Handled {
        match self.place(call, at, address) {
            Place::Name(path) => fs::create_dir(path)?,
            Place::Cgroup(path) => {
                self.still_waiting(call)?;
                self.cgroup.cgroups.make(&path)?;
            }
            _ => return Ok(Answer::Continue),
        }
        Ok(Answer::Value(0))
    }

    pub(super) fn unlink(&mut self, call: &Call, at: i32, address: u64, flags: i32) -> Handled {
        // In Linux a namespace is mounted there. Container runtimes try to remove the name and rely
        // on EBUSY.
        if self.names_namespace(call, at, address) {
            return Err(Errno(libc::EBUSY));
        }
        let path = match self.place(call, at, address) {
            Place::Name(path) => path,
            Place::Cgroup(path) if flags & libc::AT_REMOVEDIR != 0 => {
                self.still_waiting(call)?;
                self.cgroup.cgroups.remove(&path)?;
                return Ok(Answer::Value(0));
            }
            Place::Cgroup(_) => return Err(Errno(libc::EPERM)),
            _ => return Ok(Answer::Continue),
        };
        if path == self.setup.runtime.names() {
            return Err(Errno(libc::EBUSY));
        }
        if flags & libc::AT_REMOVEDIR != 0 {
            fs::remove_dir(path)?;
        } else {
            fs::remove_file(path)?;
        }
        Ok(Answer::Value(0))
    }

    /// `renameat` and `renameat2`.
    pub(super) fn rename_at(&mut self, call: &Call) -> Handled {
        let [from, to] = [0, 2].map(|at| (call.int(at), call.args[at + 1]));
        self.rename(call, from, to)
    }

    pub(super) fn rename(&mut self, call: &Call, from: (i32, u64), to: (i32, u64)) -> Handled {
        let from = self.name_argument(call, from.0, from.1);
        let to = self.name_argument(call, to.0, to.1);
        match (from, to) {
            (None, None) => Ok(Answer::Continue),
            (Some(from), Some(to)) => {
                fs::rename(from, to)?;
                Ok(Answer::Value(0))
            }
            _ => Err(Errno(libc::EXDEV)),
        }
    }

    /// Serves extended attributes of a name in `/run/netns`, of a served file or of a cgroup, which have none.
    pub(super) fn no_attributes(&mut self, call: &Call, none: Result<i64, i32>) -> Handled {
        let path = match self.place(call, libc::AT_FDCWD, call.args[0]) {
            Place::Name(path) => path,
            Place::Served(served) => self.placeholder(&served)?,
            Place::Cgroup(path) => self.cgroup.cgroups.real(&path),
            _ => return Ok(Answer::Continue),
        };
        fs::symlink_metadata(path)?;
        none.map(Answer::Value).map_err(Errno)
    }

    pub(super) fn inotify_add_watch(&mut self, call: &Call) -> Handled {
        let Some(path) = self.name_argument(call, libc::AT_FDCWD, call.args[1]) else {
            return Ok(Answer::Continue);
        };
        let process = sys::pidfd_open(self.process(call))?;
        let inotify = sys::pidfd_getfd(process.as_fd(), call.int(0))?;
        let watch = sys::inotify_add_watch(inotify.as_fd(), &path, call.args[2] as u32)?;
        Ok(Answer::Value(watch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_resolved_lexically() {
        assert_eq!(normalise("/proc//sys/./net/../net/"), "/proc/sys/net");
        assert_eq!(normalise("/../.."), "/");
        assert_eq!(below("/run/netns", "/run/netns"), Some(""));
        assert_eq!(below("/run/netns/a/b", "/run/netns"), Some("a/b"));
        assert_eq!(below("/run/netnsx", "/run/netns"), None);
    }
}
