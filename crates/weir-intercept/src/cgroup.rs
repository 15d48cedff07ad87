// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cgroups of a stack, which exist for `ip vrf exec`.
//!
//! A VRF holds a process by its cgroup: the program of the cgroup sets `bound_dev_if` of each internet socket that
//! a member creates. The stack has a hierarchy of its own, and the host's is not touched. A cgroup is a directory
//! below `DIR/cgroup` of the [`crate::runtime`], and its inode is its number. Supervisors of all launches see the same
//! directory.
//!
//! The soft `RLIMIT_LOCKS` of a process carries the number of its cgroup. Linux has stored and ignored this limit since
//! 2.4.25. It belongs to the process, the kernel copies it at `fork` and keeps it at `exec`, as it does with a cgroup.
//! So a daemon stays in its VRF, and no call of its ancestors has to stop. A process that sets this limit itself leaves
//! its cgroup, and one whose hard limit is lower cannot enter any. One that has become another user's cannot be moved.
use crate::backend::Errno;
use crate::runtime::{PROCS, Runtime};
use crate::sys;
use crate::task::{descendants, is_alive, read_small};
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

/// Where clients see the hierarchy, as `ip vrf exec` mounts it in Linux.
pub(crate) const MOUNT: &str = "/run/cgroup2";
/// The line of `/proc/mounts`.
pub(crate) const MOUNT_LINE: &str = "none /run/cgroup2 cgroup2 rw,relatime 0 0\n";

/// The soft limit that stands for number 0. A number has [`NUMBER`]'s bits.
const CARRIER_BASE: u64 = 0x3ae2 << 48;
const NUMBER: u64 = (1 << 48) - 1;

/// Returns whether a soft `RLIMIT_LOCKS` carries a cgroup.
pub(crate) fn is_carrier(soft: u64) -> bool {
    soft & !NUMBER == CARRIER_BASE
}

/// Returns the number of the cgroup that a process is in, `None` for the root.
pub(crate) fn number_of(process: u32) -> Option<u64> {
    let soft = sys::soft_limit(process, libc::RLIMIT_LOCKS).or_else(|| shown_limit(process))?;
    is_carrier(soft).then_some(soft & NUMBER)
}

/// Reads the soft `RLIMIT_LOCKS` of a process that has become another user's: `prlimit` refuses it, `/proc` shows it.
fn shown_limit(process: u32) -> Option<u64> {
    let limits = read_small(&format!("/proc/{process}/limits"))?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max file locks"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// The hierarchy of a stack. Paths are relative to the root, which is the empty string.
#[derive(Debug)]
pub(crate) struct Cgroups {
    /// The stack's runtime directory.
    runtime: PathBuf,
    /// The directory of the programs.
    programs: PathBuf,
    /// The directory of the root.
    root: PathBuf,
}

impl Cgroups {
    /// Returns the hierarchy of a stack.
    pub(crate) fn of(runtime: &Runtime) -> Cgroups {
        Cgroups {
            runtime: runtime.path().to_path_buf(),
            programs: runtime.cgroup_programs(),
            root: runtime.cgroups(),
        }
    }

    /// Returns the directory or file that stands for a path.
    pub(crate) fn real(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Returns the path of a directory or file of the hierarchy.
    pub(crate) fn path_of(&self, real: &Path) -> Option<String> {
        let path = real.strip_prefix(&self.root).ok()?;
        path.to_str().map(str::to_string)
    }

    /// Creates a cgroup.
    ///
    /// # Errors
    /// EEXIST, and ENOENT without a parent.
    pub(crate) fn make(&self, path: &str) -> Result<(), Errno> {
        // A cgroup has its files from the beginning.
        let staged = self.runtime.join(format!(".{}", sys::random_u64()));
        fill(&staged)?;
        fs::rename(&staged, self.real(path)).map_err(|error| {
            drop(fs::remove_dir_all(&staged));
            match Errno::from(error) {
                Errno(libc::ENOTEMPTY) => Errno(libc::EEXIST),
                error => error,
            }
        })
    }

    /// Removes a cgroup.
    ///
    /// # Errors
    /// EBUSY for the root, and if it has children or members; ENOENT; ENOTDIR.
    pub(crate) fn remove(&self, path: &str) -> Result<(), Errno> {
        let real = self.real(path);
        let number = fs::symlink_metadata(&real)?.ino();
        let is_parent = fs::read_dir(&real)?.count() > 1;
        if path.is_empty() || is_parent || !self.members(path)?.is_empty() {
            return Err(Errno(libc::EBUSY));
        }
        // Most cgroups below a VRF's have no program.
        drop(fs::remove_file(self.program(number)));
        Ok(fs::remove_dir_all(real)?)
    }

    /// Returns the link whose target is the device that a cgroup's program stores.
    fn program(&self, number: u64) -> PathBuf {
        self.programs.join(number.to_string())
    }

    /// Attaches a program that stores this device in `bound_dev_if`. It replaces the one that is there.
    ///
    /// # Errors
    /// EPERM if a cgroup above has a program: it was attached without `BPF_F_ALLOW_OVERRIDE`.
    pub(crate) fn attach(&self, path: &str, device: u32) -> Result<(), Errno> {
        let number = fs::symlink_metadata(self.real(path))?.ino();
        if let Some((parent, _)) = path.rsplit_once('/')
            && self.device_below(parent).is_some()
        {
            return Err(Errno(libc::EPERM));
        }
        let staged = self.runtime.join(format!(".{}", sys::random_u64()));
        symlink(device.to_string(), &staged)?;
        Ok(fs::rename(staged, self.program(number))?)
    }

    /// Returns the device that the program of a cgroup stores.
    fn device_of(&self, number: u64) -> Option<u32> {
        let device = fs::read_link(self.program(number)).ok()?;
        device.to_str()?.parse().ok()
    }

    /// Returns the device that the program of a cgroup, or of the nearest one above, stores.
    fn device_below(&self, path: &str) -> Option<u32> {
        let mut path = Path::new(path);
        loop {
            let number = fs::symlink_metadata(self.root.join(path)).ok()?.ino();
            if let Some(device) = self.device_of(number) {
                return Some(device);
            }
            path = path.parent()?;
        }
    }

    /// Returns the device to which a new socket of a process is bound, 0 for none.
    pub(crate) fn device_for(&self, process: u32) -> u32 {
        let Some(number) = number_of(process) else {
            return 0;
        };
        let device = self.device_of(number).or_else(|| {
            let path = self.find(number)?;
            self.device_below(&path)
        });
        device.unwrap_or(0)
    }

    /// Returns the path of the cgroup with this number.
    pub(crate) fn find(&self, number: u64) -> Option<String> {
        let mut directories = vec![self.root.clone()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let path = entry.path();
                match entry.metadata() {
                    Ok(meta) if meta.is_dir() && meta.ino() == number => {
                        return self.path_of(&path);
                    }
                    Ok(meta) if meta.is_dir() => directories.push(path),
                    _ => {}
                }
            }
        }
        None
    }

    /// Returns the processes in a cgroup, ascending.
    ///
    /// # Errors
    /// ENOENT.
    pub(crate) fn members(&self, path: &str) -> Result<Vec<u32>, Errno> {
        let number = match path {
            "" => None,
            path => Some(fs::symlink_metadata(self.real(path))?.ino()),
        };
        let keepers = Runtime::keepers(&self.runtime);
        let mut members: Vec<u32> = keepers
            .into_keys()
            .flat_map(descendants)
            .filter(|&process| is_alive(process) && number_of(process) == number)
            .collect();
        members.sort_unstable();
        Ok(members)
    }

    /// Moves a process to a cgroup.
    ///
    /// # Errors
    /// ENODEV if the cgroup has gone, EOVERFLOW if the carrier is too small for the number, ESRCH, EPERM.
    pub(crate) fn join(&self, path: &str, process: u32) -> Result<(), Errno> {
        let soft = match path {
            "" if number_of(process).is_none() => return Ok(()),
            "" => libc::RLIM64_INFINITY,
            path => {
                let meta = fs::symlink_metadata(self.real(path));
                let number = meta.map_err(|_| Errno(libc::ENODEV))?.ino();
                if number & !NUMBER != 0 {
                    return Err(Errno(libc::EOVERFLOW));
                }
                CARRIER_BASE | number
            }
        };
        sys::set_soft_limit(process, libc::RLIMIT_LOCKS, soft)
    }
}

/// Makes the directory of a cgroup.
fn fill(directory: &Path) -> Result<(), Errno> {
    fs::DirBuilder::new().mode(0o755).create(directory)?;
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(directory.join(PROCS))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_are_made_found_and_removed() {
        let runtime = Runtime::create(None).unwrap();
        let cgroups = Cgroups::of(&runtime);
        assert_eq!(cgroups.make("vrf/red"), Err(Errno(libc::ENOENT)));
        for path in ["vrf", "vrf/red", "vrf/red/below"] {
            cgroups.make(path).unwrap();
            assert_eq!(cgroups.make(path), Err(Errno(libc::EEXIST)));
            let number = fs::metadata(cgroups.real(path)).unwrap().ino();
            assert_eq!(cgroups.find(number).as_deref(), Some(path));
        }
        assert_eq!(cgroups.remove("vrf/red"), Err(Errno(libc::EBUSY)));
        assert_eq!(cgroups.remove(""), Err(Errno(libc::EBUSY)));
        cgroups.remove("vrf/red/below").unwrap();
        cgroups.remove("vrf/red").unwrap();
        assert_eq!(cgroups.remove("vrf/red"), Err(Errno(libc::ENOENT)));
    }

    #[test]
    fn programs_are_inherited_and_replaced() {
        let runtime = Runtime::create(None).unwrap();
        let cgroups = Cgroups::of(&runtime);
        for path in ["vrf", "vrf/red", "vrf/red/below"] {
            cgroups.make(path).unwrap();
            assert_eq!(cgroups.device_below(path), None);
        }
        cgroups.attach("vrf/red", 7).unwrap();
        cgroups.attach("vrf/red", 8).unwrap();
        assert_eq!(cgroups.device_below("vrf"), None);
        assert_eq!(cgroups.device_below("vrf/red"), Some(8));
        assert_eq!(cgroups.device_below("vrf/red/below"), Some(8));
        let refused = cgroups.attach("vrf/red/below", 9);
        assert_eq!(refused, Err(Errno(libc::EPERM)));
        // A new cgroup with the number of an old one has no program.
        cgroups.remove("vrf/red/below").unwrap();
        cgroups.remove("vrf/red").unwrap();
        cgroups.make("vrf/red").unwrap();
        assert_eq!(cgroups.device_below("vrf/red"), None);
    }

    #[test]
    fn members_carry_their_cgroup() {
        let runtime = Runtime::create(None).unwrap();
        let cgroups = Cgroups::of(&runtime);
        cgroups.make("vrf").unwrap();
        cgroups.attach("vrf", 5).unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        assert_eq!(cgroups.device_for(child.id()), 0);
        cgroups.join("vrf", child.id()).unwrap();
        assert_eq!(cgroups.device_for(child.id()), 5);
        assert_eq!(shown_limit(child.id()).map(is_carrier), Some(true));
        cgroups.join("", child.id()).unwrap();
        assert_eq!(number_of(child.id()), None);
        assert_eq!(cgroups.join("none", child.id()), Err(Errno(libc::ENODEV)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
