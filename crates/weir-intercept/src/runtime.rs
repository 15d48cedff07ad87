// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runtime directory of a stack: namespace files and namespace names.
//!
//! ```text
//! DIR/ns/0 1 2 ...   one empty file per namespace; its (device, inode) identifies the namespace
//! DIR/names/foo      what clients see in /run/netns: a hard link to ns/N, or an empty placeholder
//! DIR/cgroup/         the cgroups of `ip vrf exec`; DIR/cgroup-programs/N: their programs ([`crate::cgroup`])
//! DIR/lock           locked (flock) while the stack's process lives
//! DIR/control        the control socket, if the stack has one
//! DIR/launch-ID/     scratch of one launch: the staged /run, directories of served trees, and
//!                    `keeper`: the ancestor of all its programs, and their first namespace
//! ```
//! Linux names a namespace by a bind mount of `/proc/PID/ns/net`. Weir uses a hard link instead:
//! the name has the inode of the namespace, so `stat`, `setns` and `ip netns identify` agree
//! regardless of which of them a client opens, and a descriptor in any process identifies its
//! namespace by (device, inode). Supervisors and the daemon read the same directory, so names never
//! cross the control socket. The directory's mode, 0700, controls access.
use crate::backend::{Errno, NsId};
use crate::sys;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const PREFIX: &str = "weir-";
const LOCK: &str = "lock";
const CGROUPS: &str = "cgroup";
const PROGRAMS: &str = "cgroup-programs";
/// The file of a cgroup that lists its processes.
pub(crate) const PROCS: &str = "cgroup.procs";
const LAUNCH: &str = "launch-";
const KEEPER: &str = "keeper";

/// A stack's runtime directory.
#[derive(Debug)]
pub struct Runtime {
    path: PathBuf,
    device: u64,
    /// The lock, if this process is the stack's.
    owner: Option<fs::File>,
    /// Maps the inode of a namespace file to its number; every use checks the entry.
    known: Mutex<BTreeMap<u64, NsId>>,
}

impl Runtime {
    /// Creates a directory `weir-XXXXXX` under `parent`. Without a `parent` it goes under the first
    /// writable one of `/dev/shm`, `XDG_RUNTIME_DIR`, `TMPDIR` and `/tmp`. Dropping this value
    /// removes the directory; the next stack to start removes the directories of killed stacks. A
    /// tmpfs (the first two) is best: it lists names newest first and after the dots, like `/run`
    /// and `/proc`, and procps' `sysctl -a` depends on that.
    pub fn create(parent: Option<&Path>) -> io::Result<Runtime> {
        let parent = parent.map_or_else(default_parent, Path::to_path_buf);
        remove_dead(&parent);
        let path = sys::make_unique_directory(&parent.join(PREFIX)).map_err(into_io)?;
        // Takes the lock before the file has its name, so that no other stack takes the directory
        // for a dead one's.
        let staged = path.join("lock.new");
        let lock = fs::File::create(&staged)?;
        sys::try_lock(lock.as_fd()).map_err(into_io)?;
        fs::rename(&staged, path.join(LOCK))?;
        for sub in ["ns", "names", CGROUPS, PROGRAMS] {
            fs::DirBuilder::new().mode(0o755).create(path.join(sub))?;
        }
        fs::File::create(path.join(CGROUPS).join(PROCS))?;
        Runtime::at(path, Some(lock))
    }

    /// Opens the directory of a stack that runs in another process.
    pub fn open(path: &Path) -> io::Result<Runtime> {
        Runtime::at(path.to_path_buf(), None)
    }

    fn at(path: PathBuf, owner: Option<fs::File>) -> io::Result<Runtime> {
        let device = fs::metadata(path.join("ns"))?.dev();
        Ok(Runtime {
            path,
            device,
            owner,
            known: Mutex::new(BTreeMap::new()),
        })
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory that clients see as `/run/netns`.
    pub fn names(&self) -> PathBuf {
        self.path.join("names")
    }

    /// Returns the directory that stands for the root of the cgroups.
    pub(crate) fn cgroups(&self) -> PathBuf {
        self.path.join(CGROUPS)
    }

    /// Returns the directory of the cgroups' programs.
    pub(crate) fn cgroup_programs(&self) -> PathBuf {
        self.path.join(PROGRAMS)
    }

    /// Returns the path of this stack's control socket.
    pub fn control(&self) -> PathBuf {
        self.path.join("control")
    }

    /// Returns the file that stands for a namespace, and creates it if it is missing.
    pub fn namespace_path(&self, ns: NsId) -> io::Result<PathBuf> {
        let path = self.path.join("ns").join(ns.0.to_string());
        if !path.exists() {
            fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o444)
                .open(&path)?;
        }
        Ok(path)
    }

    /// Opens the file that stands for a namespace for reading.
    pub fn namespace_file(&self, ns: NsId) -> io::Result<OwnedFd> {
        Ok(fs::File::open(self.namespace_path(ns)?)?.into())
    }

    /// Returns the inode number that clients see for a namespace.
    pub fn namespace_inode(&self, ns: NsId) -> io::Result<u64> {
        Ok(fs::metadata(self.namespace_path(ns)?)?.ino())
    }

    /// Returns the namespace whose file has this device and inode.
    pub fn namespace_of(&self, device: u64, inode: u64) -> Option<NsId> {
        if device != self.device {
            return None;
        }
        let directory = self.path.join("ns");
        let is = |ns: NsId| {
            fs::metadata(directory.join(ns.0.to_string())).is_ok_and(|m| m.ino() == inode)
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&ns) = known.get(&inode) {
            if is(ns) {
                return Some(ns);
            }
            known.remove(&inode);
        }
        for entry in fs::read_dir(&directory).ok()?.flatten() {
            use std::os::unix::fs::DirEntryExt;
            let number = entry.file_name().to_str().and_then(|n| n.parse().ok());
            if let Some(number) = number {
                known.insert(entry.ino(), NsId(number));
            }
        }
        known.get(&inode).copied().filter(|&ns| is(ns))
    }

    /// Returns the namespace that an open file of a process stands for (`IFLA_NET_NS_FD`,
    /// `NETNSA_FD`, `setns`), if any.
    pub fn namespace_of_fd(&self, process: u32, fd: i32) -> Option<NsId> {
        let meta = fs::metadata(format!("/proc/{process}/fd/{fd}")).ok()?;
        self.namespace_of(meta.dev(), meta.ino())
    }

    /// Returns whether a name in `/run/netns` refers to the namespace.
    pub fn is_named(&self, ns: NsId) -> bool {
        fs::metadata(self.path.join("ns").join(ns.0.to_string())).is_ok_and(|m| m.nlink() > 1)
    }

    /// Removes the file of a namespace that the stack has dropped.
    pub fn remove_namespace(&self, ns: NsId) {
        let path = self.path.join("ns").join(ns.0.to_string());
        if let Ok(meta) = fs::metadata(&path) {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.remove(&meta.ino());
            // The stack must drop the namespace even if its file cannot be removed.
            drop(fs::remove_file(path));
        }
    }

    /// Creates the scratch directory of a launch.
    pub(crate) fn create_launch(&self, launch: u64) -> io::Result<PathBuf> {
        let path = self.path.join(format!("{LAUNCH}{launch:016x}"));
        fs::create_dir(&path)?;
        Ok(path)
    }

    /// Records the keeper of a launch and the namespace its programs start in.
    pub(crate) fn note_keeper(scratch: &Path, keeper: u32, start_in: NsId) -> io::Result<()> {
        fs::write(scratch.join(KEEPER), format!("{keeper} {}", start_in.0))
    }

    /// Returns the keepers of all launches in a runtime directory, each with the namespace its
    /// programs start in.
    pub(crate) fn keepers(runtime: &Path) -> BTreeMap<u32, NsId> {
        let read = |entry: fs::DirEntry| {
            let name = entry.file_name();
            name.to_str()?.strip_prefix(LAUNCH)?;
            let text = fs::read_to_string(entry.path().join(KEEPER)).ok()?;
            let (pid, ns) = text.split_once(' ')?;
            Some((pid.parse().ok()?, NsId(ns.parse().ok()?)))
        };
        let entries = fs::read_dir(runtime).into_iter().flatten().flatten();
        entries.filter_map(read).collect()
    }

    /// Makes a name (a path below [`Runtime::names`]) refer to a namespace; stands for the bind
    /// mount.
    pub(crate) fn attach_name(&self, name: &Path, ns: NsId) -> Result<(), Errno> {
        let staged = self.path.join(format!("ns/.{}", sys::random_u64()));
        fs::hard_link(self.namespace_path(ns)?, &staged)?;
        fs::rename(&staged, name).map_err(|error| {
            drop(fs::remove_file(&staged));
            Errno::from(error)
        })
    }

    /// Gives a namespace a new name.
    ///
    /// # Errors
    /// `EEXIST` if there is such a name, and what creating a link can fail with.
    pub fn add_name(&self, name: &str, ns: NsId) -> Result<(), Errno> {
        Ok(fs::hard_link(
            self.namespace_path(ns)?,
            self.names().join(name),
        )?)
    }

    /// Returns whether there is such a name.
    pub fn has_name(&self, name: &str) -> bool {
        fs::symlink_metadata(self.names().join(name)).is_ok()
    }

    /// Removes a name. Returns the namespace it referred to, or `None` if it was a placeholder.
    ///
    /// # Errors
    /// `ENOENT` if there is no such name, and what removing a link can fail with.
    pub fn remove_name(&self, name: &str) -> Result<Option<NsId>, Errno> {
        // Nobody else finds it under the new name, so what is removed is what was found.
        let staged = self.path.join(format!("ns/.{}", sys::random_u64()));
        fs::rename(self.names().join(name), &staged)?;
        let meta = fs::symlink_metadata(&staged)?;
        let ns = self.namespace_of(meta.dev(), meta.ino());
        fs::remove_file(staged)?;
        Ok(ns)
    }

    /// Makes a name an empty placeholder again; stands for the unmount. Returns the namespace it
    /// referred to. Fails with `EINVAL` if it referred to none, like `umount` of a path that is no
    /// mount point.
    pub(crate) fn detach_name(&self, name: &Path) -> Result<NsId, Errno> {
        let meta = fs::metadata(name)?;
        let ns = self
            .namespace_of(meta.dev(), meta.ino())
            .ok_or(Errno(libc::EINVAL))?;
        let staged = self.path.join(format!("ns/.{}", sys::random_u64()));
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o444)
            .open(&staged)?;
        fs::rename(&staged, name)?;
        Ok(ns)
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if self.owner.is_some() {
            // A directory that cannot be removed is harmless litter.
            drop(fs::remove_dir_all(&self.path));
        }
    }
}

/// Removes the directories that killed stacks of this user left: those whose lock nobody holds.
fn remove_dead(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(PREFIX))
            && entry
                .metadata()
                .is_ok_and(|m| m.is_dir() && m.uid() == sys::effective_uid());
        // A directory without a lock is either under construction or not a stack's.
        if is_ours
            && let Ok(lock) = fs::File::open(entry.path().join(LOCK))
            && sys::try_lock(lock.as_fd()).is_ok()
        {
            drop(fs::remove_dir_all(entry.path())); // leftovers are harmless
        }
    }
}

fn default_parent() -> PathBuf {
    let of_variable = |name| std::env::var_os(name).map(PathBuf::from);
    [
        // A tmpfs lists names in order of creation, the same on every machine.
        Some(PathBuf::from("/dev/shm")),
        of_variable("XDG_RUNTIME_DIR"),
        of_variable("TMPDIR"),
    ]
    .into_iter()
    .flatten()
    .find(|path| path.is_absolute() && sys::access(path, libc::W_OK | libc::X_OK).is_ok())
    .unwrap_or_else(|| PathBuf::from("/tmp"))
}

pub(crate) fn into_io(error: Errno) -> io::Error {
    io::Error::from_raw_os_error(error.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_namespaces_files() {
        let runtime = Runtime::create(None).unwrap();
        let ns = NsId(4);
        let inode = runtime.namespace_inode(ns).unwrap();
        let name = runtime.names().join("foo");
        fs::File::create(&name).unwrap();
        assert_eq!(runtime.detach_name(&name), Err(Errno(libc::EINVAL)));
        runtime.attach_name(&name, ns).unwrap();
        let meta = fs::metadata(&name).unwrap();
        assert_eq!(meta.ino(), inode);
        assert_eq!(runtime.namespace_of(meta.dev(), inode), Some(ns));
        assert!(runtime.is_named(ns));
        assert_eq!(runtime.detach_name(&name), Ok(ns));
        assert!(!runtime.is_named(ns) && name.exists());
        assert_eq!(runtime.remove_name("foo"), Ok(None));
        assert_eq!(runtime.add_name("bar", ns), Ok(()));
        assert_eq!(runtime.add_name("bar", NsId(5)), Err(Errno(libc::EEXIST)));
        assert!(runtime.has_name("bar") && runtime.is_named(ns));
        assert_eq!(runtime.remove_name("bar"), Ok(Some(ns)));
        assert_eq!(runtime.remove_name("bar"), Err(Errno(libc::ENOENT)));
        assert!(!runtime.is_named(ns));
        runtime.remove_namespace(ns);
        assert_eq!(runtime.namespace_of(meta.dev(), inode), None);
    }

    #[test]
    fn dead_stacks_leave_nothing() {
        let parent = Runtime::create(None).unwrap();
        let first = Runtime::create(Some(parent.path())).unwrap();
        let second = Runtime::create(Some(parent.path())).unwrap();
        let path = first.path().to_path_buf();
        let mut first = first;
        // Simulates a kill: the lock is free and the directory remains.
        first.owner = None;
        drop(first);
        assert!(path.exists());
        let third = Runtime::create(Some(parent.path())).unwrap();
        assert!(!path.exists());
        assert!(second.path().exists() && third.path().exists());
    }
}
