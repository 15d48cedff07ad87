// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file systems of a namespace's file, nsfs, and of cgroups, and `ioctl(NS_GET_*)`.
//!
//! The file is an empty one on a tmpfs ([`crate::runtime`]). Container runtimes check whether a
//! path is a namespace by the magic number of its file system; therefore `statfs` and `fstatfs` of
//! such a file answer like nsfs. Mirrors `simple_statfs` (`fs/libfs.c`) and `ns_ioctl`
//! (`fs/nsfs.c`).
//!
//! | request | answer |
//! |---|---|
//! | `NS_GET_NSTYPE` | `CLONE_NEWNET` |
//! | `NS_GET_USERNS` | a descriptor of the caller's user namespace, which owns Weir's namespaces |
//! | `NS_GET_PARENT`, `NS_GET_OWNER_UID` | `EINVAL`: Linux answers them for other kinds of namespace |
use super::path::Place;
use super::{Handled, Supervisor};
use crate::backend::{Errno, NsId};
use crate::seccomp::{Answer, Call};
use crate::sys;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// `NSFS_MAGIC`
const MAGIC: i64 = 0x6e73_6673;
/// `CGROUP2_SUPER_MAGIC`
const CGROUP_MAGIC: i64 = 0x6367_7270;
/// The longest file name (`NAME_MAX`).
const NAME_LENGTH: i64 = 255;
/// `ST_VALID`
const FLAGS: i64 = 0x20;

const GET_USERNS: u32 = 0xb701;
const GET_PARENT: u32 = 0xb702;
const GET_NSTYPE: u32 = 0xb703;
const GET_OWNER_UID: u32 = 0xb704;
/// The trapped requests: all `NSIO` requests of Linux 6.1.
pub(crate) const REQUESTS: std::ops::RangeInclusive<u32> = GET_USERNS..=GET_OWNER_UID;

/// Returns a `struct statfs` of a 64-bit architecture for nsfs or cgroup2, as Linux 6.1 fills it.
fn statfs_of(magic: i64) -> Vec<u8> {
    let page = sys::page_size() as i64;
    // f_type, f_bsize; f_blocks, f_bfree, f_bavail, f_files, f_ffree; f_fsid; f_namelen, f_frsize,
    // f_flags; four spare words.
    let mut words = [0i64; 15];
    (words[0], words[1]) = (magic, page);
    (words[8], words[9], words[10]) = (NAME_LENGTH, page, FLAGS);
    words.into_iter().flat_map(i64::to_ne_bytes).collect()
}

impl Supervisor {
    /// Returns the namespace that a file of the runtime directory stands for.
    fn namespace_at(&self, path: &Path) -> Option<NsId> {
        let meta = fs::metadata(path).ok()?;
        self.setup.runtime.namespace_of(meta.dev(), meta.ino())
    }

    /// Returns whether a path argument is a name in `/run/netns` that stands for a namespace, in
    /// either mode.
    pub(super) fn names_namespace(&self, call: &Call, at: i32, address: u64) -> bool {
        let names = self.setup.runtime.names();
        self.absolute(call, at, address).is_ok_and(|path| {
            let file = match self.netns_name(&path) {
                Some(name) => names.join(name),
                // Mode A: the path comes through a descriptor of the directory.
                None if Path::new(&path).starts_with(&names) => path.into(),
                None => return false,
            };
            self.namespace_at(&file).is_some()
        })
    }

    /// Serves `statfs`.
    pub(super) fn statfs(&mut self, call: &Call) -> Handled {
        let [path, out, ..] = call.args;
        let is_namespace = match self.place(call, libc::AT_FDCWD, path) {
            Place::Namespace(thread) => self.tasks.namespace_of(thread).is_some(),
            Place::File(thread, fd) => self.setup.runtime.namespace_of_fd(thread, fd).is_some(),
            // Mode A: the name, or the directory of names, is not at the client's path.
            Place::Name(name) if self.namespace_at(&name).is_none() => {
                let stat = sys::statfs(&name)?;
                sys::write_memory(call.tid, out, sys::bytes_of(&stat))?;
                return Ok(Answer::Value(0));
            }
            Place::Name(_) => true,
            Place::Cgroup(path) => {
                fs::symlink_metadata(self.cgroup.cgroups.real(&path))?;
                return self.answer_statfs(call, Some(CGROUP_MAGIC), out);
            }
            Place::Elsewhere => self.names_namespace(call, libc::AT_FDCWD, path),
            _ => false,
        };
        self.answer_statfs(call, is_namespace.then_some(MAGIC), out)
    }

    /// Serves `fstatfs`.
    pub(super) fn fstatfs(&mut self, call: &Call) -> Handled {
        let namespace = self.setup.runtime.namespace_of_fd(call.tid, call.int(0));
        let magic = match namespace {
            Some(_) => Some(MAGIC),
            None => fs::read_link(format!("/proc/{}/fd/{}", call.tid, call.int(0)))
                .ok()
                .and_then(|path| self.cgroup.cgroups.path_of(&path))
                .map(|_| CGROUP_MAGIC),
        };
        self.answer_statfs(call, magic, call.args[1])
    }

    fn answer_statfs(&self, call: &Call, magic: Option<i64>, out: u64) -> Handled {
        let Some(magic) = magic else {
            return Ok(Answer::Continue);
        };
        sys::write_memory(call.tid, out, &statfs_of(magic))?;
        Ok(Answer::Value(0))
    }

    /// Serves `ioctl(NS_GET_*)`.
    pub(super) fn namespace_ioctl(&mut self, call: &Call) -> Handled {
        let fd = call.int(0);
        if self.setup.runtime.namespace_of_fd(call.tid, fd).is_none() {
            return Ok(Answer::Continue); // another kind of namespace, or none
        }
        match call.args[1] as u32 {
            GET_NSTYPE => Ok(Answer::Value(i64::from(libc::CLONE_NEWNET))),
            GET_USERNS => {
                let owner = format!("/proc/{}/ns/user", call.tid);
                let file = sys::open(Path::new(&owner), libc::O_RDONLY, 0)?;
                self.listener.answer_with(call, file.as_fd(), true, None)
            }
            GET_PARENT | GET_OWNER_UID => Err(Errno(libc::EINVAL)),
            _ => Err(Errno(libc::ENOTTY)),
        }
    }
}
