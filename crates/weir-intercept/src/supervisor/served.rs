// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that the stack serves: `/proc/sys/net`, `/proc/net`, `/sys/class/net`,
//! `/sys/bus/netdevsim`, and the files about modules (`/proc/modules`, `/sys/module`, `/lib/modules`).
//!
//! *Reading* returns a file in memory with the content at the time of the open; a file kept open
//! does not follow later changes. *Directories* are real: opening one creates it in the launch's
//! scratch, with an empty placeholder of the right mode for each file. Listings, and paths relative
//! to the directory, then work natively; the placeholders answer `stat` and `access`.
//!
//! *Writing* must take effect, or fail, within the call. The client gets a packet pipe at a number
//! of [`WRITE_FDS`], where the filter sees `write`, `pwrite64` and `writev`. The filter also sees
//! short writes to descriptor 1, which covers a shell's `echo 1 > FILE` (and `tee`, `sysctl -w`,
//! `dd`, Python, ...). A trapped write returns the backend's result and never reaches the pipe.
//! Through other duplicates (`exec 3> FILE; echo 1 >&3`) the value goes into the pipe, and the
//! backend empties the pipe before it serves any other request
//! ([`crate::transport::PendingWrites`]). A message on standard error then reports a refused value,
//! and the value applies to the namespace of the thread that opened the file.
use super::{FileKey, Handled, Supervisor, own_key};
use crate::backend::{Errno, Node, NsId, PendingWriter, Tree};
use crate::filter::WRITE_FDS;
use crate::seccomp::{Answer, Call};
use crate::sys;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The longest value accepted in one write, bytes.
const MAX_VALUE: usize = 4096;

/// A file or directory of a served tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Served {
    ns: NsId,
    tree: Tree,
    path: String,
}

/// The directory names of the trees in a launch's scratch.
const TREES: [(Tree, &str); 5] = [
    (Tree::Sysctl, "sysctl"),
    (Tree::ProcNet, "proc-net"),
    (Tree::SysClassNet, "sys-class-net"),
    (Tree::SysBusNetdevsim, "sys-bus-netdevsim"),
    (Tree::Modules, "modules"),
];

impl Served {
    pub(super) fn new(ns: NsId, tree: Tree, path: &str) -> Served {
        Served {
            ns,
            tree,
            path: path.to_string(),
        }
    }

    /// Parses a path relative to the scratch: `trees/NS/TREE/...`.
    pub(super) fn from_scratch(path: &str) -> Option<Served> {
        let (ns, rest) = path.strip_prefix("trees/")?.split_once('/')?;
        let (tree, path) = rest.split_once('/').unwrap_or((rest, ""));
        let &(tree, _) = TREES.iter().find(|(_, name)| *name == tree)?;
        Some(Served::new(NsId(ns.parse().ok()?), tree, path))
    }

    fn in_scratch(&self, scratch: &Path) -> PathBuf {
        let name = TREES
            .iter()
            .find(|(tree, _)| *tree == self.tree)
            .map_or("", |(_, name)| name);
        let mut path = scratch.join("trees").join(self.ns.0.to_string());
        path.push(name);
        if !self.path.is_empty() {
            path.push(&self.path);
        }
        path
    }

    fn is_in_proc(&self) -> bool {
        matches!(self.tree, Tree::Sysctl | Tree::ProcNet)
    }

    /// Returns the parent directory. The root of a tree is its own parent.
    fn parent(&self) -> Served {
        let path = self.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        Served::new(self.ns, self.tree, path)
    }

    fn child(&self, name: &str) -> Served {
        let path = if self.path.is_empty() {
            name.to_string()
        } else {
            format!("{}/{name}", self.path)
        };
        Served { path, ..*self }
    }
}

/// The files open for writing.
#[derive(Debug, Default)]
pub(super) struct Writers {
    open: BTreeMap<FileKey, Writer>,
}

#[derive(Debug)]
struct Writer {
    served: Served,
    /// A read end that hangs up when the last writer has closed it; `None` for a file in memory.
    pipe: Option<OwnedFd>,
}

impl Writers {
    /// Forgets files that nobody has open any more.
    fn prune(&mut self) {
        self.open.retain(|_, writer| {
            writer.pipe.as_ref().is_none_or(|pipe| {
                sys::poll_in(&[pipe.as_fd()], Some(0))
                    .is_ok_and(|events| events[0] & libc::POLLHUP == 0)
            })
        });
    }
}

impl Supervisor {
    fn node(&self, served: &Served) -> Result<Node, Errno> {
        self.backend.lookup(served.ns, served.tree, &served.path)
    }

    /// Returns whether the backend has it.
    pub(super) fn exists(&self, served: &Served) -> bool {
        self.node(served).is_ok()
    }

    /// Returns whether the file is a directory of `/proc`.
    pub(super) fn is_directory_in_proc(&self, served: &Served) -> bool {
        served.is_in_proc() && matches!(self.node(served), Ok(Node::Directory))
    }

    /// Returns the real file or directory whose attributes `stat` should report.
    pub(super) fn placeholder(&self, served: &Served) -> Result<PathBuf, Errno> {
        let node = self.node(served)?;
        self.make_placeholder(served, node)
    }

    fn make_placeholder(&self, served: &Served, node: Node) -> Result<PathBuf, Errno> {
        let path = served.in_scratch(&self.setup.scratch);
        match node {
            Node::Directory => fs::create_dir_all(&path)?,
            Node::File(mode) => {
                if let Some(parent) = path.parent() {
                    fs::create_dir_all(parent)?;
                }
                match fs::symlink_metadata(&path) {
                    Ok(meta) if meta.permissions().mode() & 0o777 == mode => {}
                    Ok(_) => fs::set_permissions(&path, fs::Permissions::from_mode(mode))?,
                    Err(_) => {
                        let file = fs::OpenOptions::new()
                            .write(true)
                            .create_new(true)
                            .mode(0o600)
                            .open(&path)?;
                        file.set_permissions(fs::Permissions::from_mode(mode))?;
                    }
                }
            }
        }
        Ok(path)
    }

    /// Brings the real directory up to date with the backend's list.
    fn fill_directory(&self, served: &Served) -> Result<PathBuf, Errno> {
        let path = self.make_placeholder(served, Node::Directory)?;
        let names = self.backend.list(served.ns, served.tree, &served.path)?;
        // In reverse, since a tmpfs lists the newest first.
        for name in names.iter().rev() {
            // A name that vanished between the two calls is not shown.
            if let Ok(node) = self.node(&served.child(name)) {
                self.make_placeholder(&served.child(name), node)?;
            }
        }
        let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        for entry in fs::read_dir(&path)?.flatten() {
            if entry
                .file_name()
                .to_str()
                .is_some_and(|n| names.contains(n))
            {
                continue;
            }
            // A file that cannot be removed is shown once more, which is harmless.
            drop(fs::remove_file(entry.path()).or_else(|_| fs::remove_dir_all(entry.path())));
        }
        Ok(path)
    }

    pub(super) fn open_served(&mut self, call: &Call, served: &Served, flags: i32) -> Handled {
        let close_on_exec = flags & libc::O_CLOEXEC != 0;
        let node = self.node(served).map_err(|error| {
            // Creating a file fails with ENOENT in `/proc` and with EACCES in sysfs.
            let refused = error.0 == libc::ENOENT
                && flags & libc::O_CREAT != 0
                && !served.is_in_proc()
                && self.node(&served.parent()) == Ok(Node::Directory);
            if refused { Errno(libc::EACCES) } else { error }
        })?;
        if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 {
            return Err(Errno(libc::EEXIST));
        }
        let write = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let read = flags & libc::O_ACCMODE != libc::O_WRONLY;
        let file = match node {
            Node::Directory if write => return Err(Errno(libc::EISDIR)),
            Node::Directory => {
                let path = self.fill_directory(served)?;
                sys::open(&path, flags & (libc::O_PATH | libc::O_DIRECTORY), 0)?
            }
            Node::File(_) if flags & libc::O_DIRECTORY != 0 => return Err(Errno(libc::ENOTDIR)),
            Node::File(mode) if flags & libc::O_PATH != 0 => {
                let path = self.make_placeholder(served, Node::File(mode))?;
                sys::open(&path, libc::O_PATH, 0)?
            }
            Node::File(mode) => {
                if write && mode & 0o222 == 0 || read && mode & 0o444 == 0 {
                    return Err(Errno(libc::EACCES));
                }
                if write {
                    return self.open_for_writing(call, served, read, close_on_exec);
                }
                let content = self.backend.read(served.ns, served.tree, &served.path);
                let content = match content {
                    Err(error) if !served.is_in_proc() => {
                        return self.open_unreadable(call, error, close_on_exec);
                    }
                    content => content?,
                };
                let file = sys::memory_file(c"weir", &content)?;
                // Opens a second description that is really read-only, with its offset at 0.
                let path = format!("/proc/self/fd/{}", file.as_raw_fd());
                sys::open(Path::new(&path), libc::O_RDONLY, 0)?
            }
        };
        self.listener
            .answer_with(call, file.as_fd(), close_on_exec, None)
    }

    fn open_for_writing(
        &mut self,
        call: &Call,
        served: &Served,
        read: bool,
        close_on_exec: bool,
    ) -> Handled {
        let (file, pipe) = if read {
            let content = self.backend.read(served.ns, served.tree, &served.path)?;
            (sys::memory_file(c"weir", &content)?, None)
        } else {
            let (read_end, write_end) = sys::packet_pipe()?;
            self.backend.pending_writer(PendingWriter {
                ns: served.ns,
                tree: served.tree,
                path: served.path.clone(),
                pipe: read_end.try_clone()?,
                complaints: sys::standard_error()?,
            })?;
            (write_end, Some(read_end))
        };
        self.writers.prune();
        self.writers.open.insert(
            own_key(&file)?,
            Writer {
                served: served.clone(),
                pipe,
            },
        );
        self.hand_out_writer(call, &file, close_on_exec)
    }

    /// Gives a file to the caller at a number at which writes stop.
    pub(super) fn hand_out_writer(
        &mut self,
        call: &Call,
        file: &OwnedFd,
        close_on_exec: bool,
    ) -> Handled {
        for number in WRITE_FDS {
            let taken = fs::symlink_metadata(format!("/proc/{}/fd/{number}", call.tid)).is_ok();
            if !taken
                && let Ok(sent) =
                    self.listener
                        .answer_with(call, file.as_fd(), close_on_exec, Some(number))
            {
                return Ok(sent);
            }
        }
        // All numbers are taken, or above the caller's limit of open files.
        self.listener
            .answer_with(call, file.as_fd(), close_on_exec, None)
    }

    pub(super) fn write(&mut self, call: &Call, address: u64, length: u64) -> Handled {
        if let Some(done) = self.write_procs(call, address, length) {
            return done;
        }
        let Some(served) = self.writer_of(call) else {
            return match self.plain_of(call) {
                Some(socket) => self.send_datagram(call, socket),
                None => Ok(Answer::Continue),
            };
        };
        let mut value = vec![0; (length as usize).min(MAX_VALUE)];
        let n = sys::read_memory(call.tid, address, &mut value)?;
        value.truncate(n);
        self.write_value(call, &served, &value)
    }

    pub(super) fn writev(&mut self, call: &Call) -> Handled {
        const MAX_PARTS: u64 = 16;
        let Some(served) = self.writer_of(call) else {
            return Ok(Answer::Continue);
        };
        let mut value = Vec::new();
        for part in 0..call.args[2].min(MAX_PARTS) {
            let iovec: [u8; 16] = sys::read_array(call.tid, call.args[1] + part * 16)?;
            let mut words = iovec.chunks_exact(8).map(|word| {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(word);
                u64::from_ne_bytes(bytes)
            });
            let (Some(base), Some(length)) = (words.next(), words.next()) else {
                break;
            };
            let room = MAX_VALUE - value.len();
            let mut bytes = vec![0; (length as usize).min(room)];
            let n = sys::read_memory(call.tid, base, &mut bytes)?;
            value.extend_from_slice(&bytes[..n]);
        }
        self.write_value(call, &served, &value)
    }

    fn writer_of(&mut self, call: &Call) -> Option<Served> {
        if self.writers.open.is_empty() {
            return None; // the common case: a short write to standard output
        }
        self.writers.prune();
        let key = Self::file_key(call.tid, call.int(0)).ok()?;
        Some(self.writers.open.get(&key)?.served.clone())
    }

    fn write_value(&mut self, call: &Call, served: &Served, value: &[u8]) -> Handled {
        if value.is_empty() {
            return Ok(Answer::Value(0));
        }
        self.still_waiting(call)?;
        // The bus belongs to no namespace: a new device goes to the writer's namespace, regardless
        // of who opened the file.
        let ns = match served.tree {
            Tree::SysBusNetdevsim => self.namespace(call.tid),
            _ => served.ns,
        };
        self.backend.write(ns, served.tree, &served.path, value)?;
        Ok(Answer::Value(value.len() as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_paths_round_trip() {
        for path in ["", "ipv4", "ipv4/conf/all/rp_filter"] {
            let served = Served::new(NsId(12), Tree::Sysctl, path);
            let real = served.in_scratch(Path::new("/s"));
            let below = real.strip_prefix("/s").unwrap().to_str().unwrap();
            assert_eq!(Served::from_scratch(below), Some(served));
        }
        assert_eq!(Served::from_scratch("run/x"), None);
    }
}
