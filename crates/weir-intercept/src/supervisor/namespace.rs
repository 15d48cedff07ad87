// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Network namespaces: `unshare`, `setns`, mounts of namespace files, and the lifetime of a
//! namespace.
//!
//! A namespace lives as long as a thread is in it, a name or an open file refers to it, or one of
//! its sockets is open, as in Linux. Names are hard links ([`crate::runtime`]) and the daemon
//! tracks sockets; this file tracks threads and open files. A launch holds a namespace from the
//! time a thread enters it. It checks again when a process that used it ends (pidfd), when a name
//! of it is removed, and every quarter of a second while a process that left it still lives.
//! Removing the last name of an unused namespace thus drops it before `umount2` returns.
//!
//! `unshare(CLONE_NEWUSER | CLONE_NEWNET)` (`unshare -rn`) creates only the network namespace,
//! because Weir's namespaces already grant the rights that the user namespace would give. The id
//! maps that the program then writes are discarded.
//!
//! Not served: `clone(CLONE_NEWNET)`; `unshare` of a network namespace together with others than a
//! user or mount namespace, since the arguments of a call cannot be changed; mounts of namespace
//! files outside `/run/netns` and `$XDG_RUNTIME_DIR/netns`.
use super::{Handled, Supervisor};
use crate::backend::{Errno, NsId};
use crate::seccomp::{Answer, Call};
use crate::sys;
use crate::task::{descendants, is_alive, threads};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use super::path::Place;

const NETNS: i32 = libc::CLONE_NEWNET;
const MOUNTNS: i32 = libc::CLONE_NEWNS;
const USERNS: i32 = libc::CLONE_NEWUSER;

/// The processes last seen using a namespace, with the descriptors that report their end.
pub(super) type Users = BTreeMap<u32, OwnedFd>;

impl Supervisor {
    pub(super) fn unshare(&mut self, call: &Call) -> Handled {
        let flags = call.int(0);
        let others = flags & !(NETNS | MOUNTNS);
        if flags & NETNS == 0 {
            // A mount namespace in mode A: root gets it. For other users the supervisor answers the
            // mounts that follow in `ip netns exec`, which then need none.
            return Ok(if others == 0 && !self.setup.may_mount {
                Answer::Value(0)
            } else {
                Answer::Continue
            });
        }
        let real_mount_needed =
            flags & MOUNTNS != 0 && !self.setup.private_mounts && self.setup.may_mount;
        if others & !USERNS != 0 || real_mount_needed {
            self.say_once(
                call,
                "unshare",
                "unshare of a network namespace together with other namespaces is not served; \
                 ask for it separately",
            );
            return Err(Errno(libc::EPERM));
        }
        self.still_waiting(call)?;
        if others & USERNS != 0 {
            let process = self.process(call);
            self.pretended_users.insert(process);
        }
        let creator = self.namespace(call.tid);
        let ns = self.backend.create_namespace(creator)?;
        self.setup.runtime.namespace_path(ns)?;
        self.backend.hold(self.setup.launch, ns);
        self.held.entry(ns).or_default();
        self.move_thread(call, ns)
    }

    pub(super) fn setns(&mut self, call: &Call) -> Handled {
        let (fd, kind) = (call.int(0), call.int(1));
        let ns = match self.setup.runtime.namespace_of_fd(call.tid, fd) {
            Some(ns) => ns,
            None if kind & NETNS == 0 => return self.enter_other(call, fd),
            None => match self.namespace_of_pidfd(call.tid, fd) {
                Some(ns) if kind == NETNS => ns,
                Some(_) if kind & NETNS != 0 => {
                    self.say_once(
                        call,
                        "setns",
                        "setns to a network namespace together with other namespaces is not served",
                    );
                    return Err(Errno(libc::EPERM));
                }
                _ => {
                    // Like the kernel, checks for EBADF first.
                    Self::file_key(call.tid, fd)?;
                    return Err(Errno(libc::EINVAL));
                }
            },
        };
        if kind != 0 && kind != NETNS {
            return Err(Errno(libc::EINVAL));
        }
        self.still_waiting(call)?;
        self.move_thread(call, ns)
    }

    /// Enters a namespace of another kind, given by its file or by a process. Allowed if a process
    /// of the launch is in it.
    fn enter_other(&mut self, call: &Call, fd: i32) -> Handled {
        let inside = descendants(self.setup.keeper);
        let allowed = if let Some(process) = process_of_pidfd(call.tid, fd) {
            inside.contains(&process)
        } else {
            let target = Self::file_key(call.tid, fd)?;
            let key = |meta: fs::Metadata| (meta.dev(), meta.ino());
            inside.iter().any(|process| {
                let files = fs::read_dir(format!("/proc/{process}/ns"))
                    .into_iter()
                    .flatten();
                files
                    .flatten()
                    .any(|file| fs::metadata(file.path()).is_ok_and(|meta| key(meta) == target))
            })
        };
        self.allow_if_own(call, allowed)
    }

    /// Serves a call that reaches only the caller's namespace of a kind. Refused if that namespace
    /// is the host's.
    pub(super) fn in_own_namespace(&mut self, call: &Call, kind: &str) -> Handled {
        let own = self.is_in_own(call.tid, kind);
        self.allow_if_own(call, own)
    }

    /// Returns whether a thread's namespace of a kind differs from the host's.
    pub(super) fn is_in_own(&self, tid: u32, kind: &str) -> bool {
        let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/{kind}")).ok();
        let (own, host) = (of(&tid.to_string()), of("self"));
        own.is_some() && own != host
    }

    /// Serves `pidfd_getfd` on a descriptor of a process of the launch.
    pub(super) fn pidfd_getfd(&mut self, call: &Call) -> Handled {
        let process = process_of_pidfd(call.tid, call.int(0));
        let inside = process.is_none_or(|p| descendants(self.setup.keeper).contains(&p));
        self.allow_if_own(call, inside)
    }

    fn allow_if_own(&mut self, call: &Call, is_own: bool) -> Handled {
        if is_own {
            return Ok(Answer::Continue);
        }
        self.say_once(
            call,
            "host",
            "the host's namespaces and processes are out of reach",
        );
        Err(Errno(libc::EPERM))
    }

    fn namespace_of_pidfd(&mut self, tid: u32, fd: i32) -> Option<NsId> {
        self.tasks.namespace_of(process_of_pidfd(tid, fd)?)
    }

    fn move_thread(&mut self, call: &Call, ns: NsId) -> Handled {
        let before = self.namespace(call.tid);
        self.tasks.settle_children(call.tid);
        self.tasks.set(call.tid, ns)?;
        self.enter(self.process(call), ns);
        if before != ns && self.held.contains_key(&before) {
            self.lingering.insert(before);
        }
        Ok(Answer::Value(0))
    }

    /// Records that a thread of this process is in the namespace.
    fn enter(&mut self, process: u32, ns: NsId) {
        if ns == self.setup.start_in {
            return; // held as long as the launch lives
        }
        if !self.held.contains_key(&ns) {
            self.backend.hold(self.setup.launch, ns);
        }
        if let Entry::Vacant(slot) = self.held.entry(ns).or_default().entry(process) {
            let watch = |process: OwnedFd| {
                let ready = libc::EPOLLIN as u32;
                sys::epoll_add(self.ends.as_fd(), process.as_fd(), ready, ns.0.into())?;
                Ok(process)
            };
            match sys::pidfd_open(process).and_then(watch) {
                Ok(process) => {
                    slot.insert(process);
                }
                // The process has ended, or descriptors have run out: recheck soon instead.
                Err(_) => {
                    self.lingering.insert(ns);
                }
            }
        }
    }

    /// Checks whether a thread of this launch is in the namespace or has its file open, and
    /// releases it if not.
    pub(super) fn recheck(&mut self, ns: NsId) {
        if ns == self.setup.start_in {
            return;
        }
        let (inside, with_file) = self.users(ns);
        let ends = self.ends.as_fd();
        if inside.is_empty() && with_file.is_empty() {
            for (_, process) in self.held.remove(&ns).into_iter().flatten() {
                sys::epoll_remove(ends, process.as_fd());
            }
            self.lingering.remove(&ns);
            self.backend.release(self.setup.launch, ns);
            return;
        }
        if let Some(users) = self.held.get_mut(&ns) {
            users.retain(|process, fd| {
                let stays = inside.contains(process) || with_file.contains(process);
                if !stays {
                    // A child of this process may have the descriptor, too, until it executes a program.
                    sys::epoll_remove(ends, fd.as_fd());
                }
                stays
            });
        }
        self.lingering.remove(&ns);
        for process in inside.into_iter().chain(with_file.iter().copied()) {
            self.enter(process, ns);
        }
        if !with_file.is_empty() && self.held.contains_key(&ns) {
            self.lingering.insert(ns);
        }
    }

    pub(super) fn recheck_lingering(&mut self) {
        let lingering: Vec<NsId> = self.lingering.iter().copied().collect();
        for ns in lingering {
            self.recheck(ns);
        }
    }

    /// Checks the namespaces whose processes have ended.
    pub(super) fn recheck_ended(&mut self) {
        let ended = sys::epoll_ready(self.ends.as_fd());
        let namespaces: BTreeSet<NsId> = ended.into_iter().map(|ns| NsId(ns as u32)).collect();
        for ns in namespaces {
            self.recheck(ns);
        }
    }

    /// Returns the processes with a thread in the namespace, and the processes with its file open.
    fn users(&mut self, ns: NsId) -> (Vec<u32>, Vec<u32>) {
        let key = self
            .setup
            .runtime
            .namespace_path(ns)
            .and_then(fs::metadata)
            .map(|m| (m.dev(), m.ino()))
            .ok();
        let (mut inside, mut with_file) = (Vec::new(), Vec::new());
        for process in descendants(self.setup.keeper) {
            if threads(process)
                .into_iter()
                .any(|thread| is_alive(thread) && self.tasks.namespace(thread) == Some(ns))
            {
                inside.push(process);
            }
            let files = fs::read_dir(format!("/proc/{process}/fd"));
            if files.into_iter().flatten().flatten().any(|file| {
                fs::metadata(file.path()).is_ok_and(|m| Some((m.dev(), m.ino())) == key)
            }) {
                with_file.push(process);
            }
        }
        (inside, with_file)
    }

    pub(super) fn mount(&mut self, call: &Call) -> Handled {
        let [source, target, kind, flags, _] = call.args[..5] else {
            return Ok(Answer::Continue);
        };
        let flags = flags as libc::c_ulong;
        let Ok(target) = self.absolute(call, libc::AT_FDCWD, target) else {
            return Ok(Answer::Continue); // the kernel reports the error
        };
        let bind = flags & libc::MS_BIND != 0;
        let from = if bind {
            self.place(call, libc::AT_FDCWD, source)
        } else {
            Place::Elsewhere
        };
        if let Some(name) = self.netns_name(&target) {
            if name.is_empty() {
                return Ok(Answer::Value(0)); // /run/netns itself is made shared and bound on itself
            }
            let ns = match from {
                Place::Namespace(thread) => {
                    fs::symlink_metadata(format!("/proc/{thread}"))?;
                    self.tasks.namespace_of(thread)
                }
                Place::File(process, fd) => self.setup.runtime.namespace_of_fd(process, fd),
                _ => {
                    let source = self.absolute(call, libc::AT_FDCWD, source)?;
                    fs::symlink_metadata(&source)?;
                    self.netns_name(&source).and_then(|name| {
                        let meta = fs::metadata(self.setup.runtime.names().join(name)).ok()?;
                        self.setup.runtime.namespace_of(meta.dev(), meta.ino())
                    })
                }
            };
            let ns = ns.ok_or(Errno(libc::EINVAL))?;
            let path = self.setup.runtime.names().join(name);
            fs::symlink_metadata(&path)?;
            self.still_waiting(call)?;
            self.setup.runtime.attach_name(&path, ns)?;
            return Ok(Answer::Value(0));
        }
        if matches!(from, Place::Namespace(_)) {
            self.say_once(
                call,
                "mount",
                "a network namespace can be mounted only in /run/netns and $XDG_RUNTIME_DIR/netns",
            );
            return Err(Errno(libc::EPERM));
        }
        let is_sysfs =
            kind != 0 && sys::read_string(call.tid, kind).is_ok_and(|kind| kind == "sysfs");
        if target == "/sys" && is_sysfs {
            return Ok(Answer::Value(0)); // `ip netns exec` mounts the namespace's view of devices
        }
        let propagation = libc::MS_SLAVE | libc::MS_PRIVATE | libc::MS_SHARED;
        if target == "/"
            && flags & propagation != 0
            && !self.setup.private_mounts
            && !self.setup.may_mount
        {
            return Ok(Answer::Value(0)); // follows the unshare that was answered above
        }
        self.mount_of_own(call)
    }

    /// Serves a mount that concerns no network namespace: allowed only in a mount namespace of the
    /// launch. For a program without the right to mount, the kernel refuses it.
    fn mount_of_own(&mut self, call: &Call) -> Handled {
        if self.setup.private_mounts || !self.setup.may_mount {
            return Ok(Answer::Continue);
        }
        self.in_own_namespace(call, "mnt")
    }

    pub(super) fn unmount(&mut self, call: &Call) -> Handled {
        let Ok(target) = self.absolute(call, libc::AT_FDCWD, call.args[0]) else {
            return Ok(Answer::Continue);
        };
        if target == "/sys" {
            return Ok(Answer::Value(0));
        }
        match self.netns_name(&target) {
            None => self.mount_of_own(call),
            Some("") => Ok(Answer::Value(0)),
            Some(name) => {
                self.still_waiting(call)?;
                let path = self.setup.runtime.names().join(name);
                let ns = self.setup.runtime.detach_name(&path)?;
                self.recheck(ns);
                Ok(Answer::Value(0))
            }
        }
    }
}

/// Returns the process that a pidfd refers to.
fn process_of_pidfd(tid: u32, fd: i32) -> Option<u32> {
    let info = fs::read_to_string(format!("/proc/{tid}/fdinfo/{fd}")).ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    line.trim().parse().ok()
}
