// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `ip vrf exec` needs of cgroups and of `bpf`.
//!
//! | call | answer |
//! |---|---|
//! | `open("/proc/mounts")` | the host's mounts, with the stack's cgroup2 at `/run/cgroup2` before those of the host |
//! | `open("/proc/PID/cgroup")` | the host's, with the stack's cgroup if the process is in one |
//! | `mkdir`, `rmdir`, `open`, `stat` below `/run/cgroup2` | served in the hierarchy of the stack ([`crate::cgroup`]) |
//! | a write to `cgroup.procs` | moves a process of the launch |
//! | `bpf(BPF_PROG_LOAD)` | a file, if the program does no more than to store a number in `bound_dev_if` |
//! | `bpf(BPF_PROG_ATTACH)` to `BPF_CGROUP_INET_SOCK_CREATE` | the cgroup's new internet sockets are bound to that device |
//!
//! The program does not run: the stack makes a socket with the device that it would store. All other programs and
//! commands fail with EPERM, as for a process without capabilities.
//!
//! A write that does not stop (`exec 3> cgroup.procs; echo $$ >&3`) takes effect with the next socket of the launch, or
//! when a program looks.
//!
//! Not served: other files of cgroups, `BPF_PROG_DETACH`, `BPF_PROG_QUERY`, flags of an attachment, processes of other
//! launches (EACCES), reads of a `cgroup.procs` that is open for writing, `chdir`.
use super::{FileKey, Handled, Supervisor, own_key};
use crate::backend::Errno;
use crate::cgroup::{Cgroups, MOUNT_LINE, number_of};
use crate::runtime::PROCS;
use crate::seccomp::{Answer, Call};
use crate::sys;
use crate::task::{descendants, process_of};
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};

/// `BPF_PROG_LOAD` and `BPF_PROG_ATTACH`, the commands that stop.
pub(crate) const COMMANDS: &[u32] = &[5, 8];
const PROG_LOAD: i32 = 5;
/// `BPF_PROG_TYPE_CGROUP_SOCK`
const CGROUP_SOCK: u32 = 9;
/// `BPF_CGROUP_INET_SOCK_CREATE`
const INET_SOCK_CREATE: u32 = 2;
/// The name of the file that stands for a program. Its content is the number of the device.
const PROGRAM: &std::ffi::CStr = c"weir-bound-device";
/// The program without its number: struct bpf_insn of `r6 = r1; r3 = N; r2 = 0; *(u32 *)(r1 + 0) = r3; r0 = 1; exit`,
/// where 0 is the offset of `bound_dev_if` in struct bpf_sock.
const INSTRUCTIONS: [[u8; 8]; 6] = [
    [0xbf, 0x16, 0, 0, 0, 0, 0, 0],
    [0xb7, 0x03, 0, 0, 0, 0, 0, 0],
    [0xb7, 0x02, 0, 0, 0, 0, 0, 0],
    [0x63, 0x31, 0, 0, 0, 0, 0, 0],
    [0xb7, 0x00, 0, 0, 1, 0, 0, 0],
    [0x95, 0x00, 0, 0, 0, 0, 0, 0],
];
/// The most bytes of a write to `cgroup.procs`.
const MAX_PID: usize = 32;

/// The state of a launch.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) cgroups: Cgroups,
    /// Whether a process of the launch has been moved. Until then no socket costs a look.
    used: bool,
    /// The files open for writing.
    writers: BTreeMap<FileKey, Writer>,
}

#[derive(Debug)]
struct Writer {
    cgroup: String,
    opener: u32,
    /// The read end of what the client writes to.
    pipe: OwnedFd,
}

impl Launch {
    pub(super) fn new(cgroups: Cgroups) -> Launch {
        Launch {
            cgroups,
            used: false,
            writers: BTreeMap::new(),
        }
    }
}

/// Returns the device that a program stores, if it does nothing else.
fn device_of_program(code: &[u8; 48]) -> Option<u32> {
    let mut device = None;
    for (at, (given, own)) in code
        .as_chunks::<8>()
        .0
        .iter()
        .zip(&INSTRUCTIONS)
        .enumerate()
    {
        let mut given = *given;
        if at == 1 {
            let [.., a, b, c, d] = given;
            device = Some(u32::from_ne_bytes([a, b, c, d]));
            given[4..].fill(0);
        }
        if given != *own {
            return None;
        }
    }
    device
}

impl Supervisor {
    /// Returns the device to which a new internet socket of a thread is bound, 0 for none.
    pub(super) fn device_by_cgroup(&mut self, tid: u32) -> u32 {
        self.take_written();
        if !self.cgroup.used {
            return 0;
        }
        self.cgroup.cgroups.device_for(tid)
    }

    /// Opens a path below `/run/cgroup2`.
    pub(super) fn open_cgroup(&mut self, call: &Call, path: &str, flags: i32) -> Handled {
        let close_on_exec = flags & libc::O_CLOEXEC != 0;
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let real = self.cgroup.cgroups.real(path);
        let meta = fs::symlink_metadata(&real).map_err(|error| match Errno::from(error) {
            // Only the kernel makes files there.
            Errno(libc::ENOENT) if flags & libc::O_CREAT != 0 => Errno(libc::EACCES),
            error => error,
        })?;
        if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 {
            return Err(Errno(libc::EEXIST));
        }
        let file = match path.strip_suffix(PROCS) {
            _ if meta.is_dir() && writes => return Err(Errno(libc::EISDIR)),
            _ if meta.is_dir() || flags & (libc::O_PATH | libc::O_DIRECTORY) != 0 => {
                sys::open(&real, flags & (libc::O_PATH | libc::O_DIRECTORY), 0)?
            }
            None => return Err(Errno(libc::ENOENT)),
            Some(cgroup) if writes => {
                let cgroup = cgroup.trim_end_matches('/');
                return self.open_procs(call, cgroup, close_on_exec);
            }
            Some(cgroup) => {
                self.take_written();
                let members = self.cgroup.cgroups.members(cgroup.trim_end_matches('/'))?;
                let lines: String = members.iter().map(|pid| format!("{pid}\n")).collect();
                sys::memory_file(c"weir", lines.as_bytes())?
            }
        };
        self.listener
            .answer_with(call, file.as_fd(), close_on_exec, None)
    }

    /// Opens `cgroup.procs` for writing.
    fn open_procs(&mut self, call: &Call, cgroup: &str, close_on_exec: bool) -> Handled {
        self.take_written();
        let (pipe, file) = sys::packet_pipe()?;
        let writer = Writer {
            cgroup: cgroup.to_string(),
            opener: self.process(call),
            pipe,
        };
        self.cgroup.writers.insert(own_key(&file)?, writer);
        self.hand_out_writer(call, &file, close_on_exec)
    }

    /// Opens a file of `/proc` whose content differs from the host's by the stack's hierarchy.
    fn open_text(&mut self, call: &Call, content: &str, flags: i32) -> Handled {
        let file = sys::memory_file(c"weir", content.as_bytes())?;
        let close_on_exec = flags & libc::O_CLOEXEC != 0;
        self.listener
            .answer_with(call, file.as_fd(), close_on_exec, None)
    }

    /// Opens `/proc/PID/cgroup`.
    pub(super) fn open_membership(&mut self, call: &Call, process: u32, flags: i32) -> Handled {
        self.take_written();
        let path = number_of(process)
            .filter(|_| self.tasks.namespace_of(process).is_some())
            .and_then(|number| self.cgroup.cgroups.find(number));
        let Some(path) = path else {
            return Ok(Answer::Continue);
        };
        let of_host = fs::read_to_string(format!("/proc/{process}/cgroup"))?;
        let others = of_host.lines().filter(|line| !line.starts_with("0::"));
        let mut content: String = others.map(|line| format!("{line}\n")).collect();
        content.push_str(&format!("0::/{path}\n"));
        self.open_text(call, &content, flags)
    }

    /// Opens `/proc/mounts`.
    pub(super) fn open_mounts(&mut self, call: &Call, process: u32, flags: i32) -> Handled {
        if self.tasks.namespace_of(process).is_none() {
            return Ok(Answer::Continue);
        }
        let of_host = fs::read_to_string(format!("/proc/{process}/mounts"))?;
        // `ip vrf` takes the first one.
        let kind = |line: &str| line.split(' ').nth(2) == Some("cgroup2");
        let first = of_host.split_inclusive('\n').take_while(|line| !kind(line));
        let (before, after) = of_host.split_at(first.map(str::len).sum());
        self.open_text(call, &format!("{before}{MOUNT_LINE}{after}"), flags)
    }

    /// Serves a `write`, if it is one to `cgroup.procs`.
    pub(super) fn write_procs(
        &mut self,
        call: &Call,
        address: u64,
        length: u64,
    ) -> Option<Handled> {
        self.take_written();
        if self.cgroup.writers.is_empty() {
            return None;
        }
        let key = Self::file_key(call.tid, call.int(0)).ok()?;
        let cgroup = self.cgroup.writers.get(&key)?.cgroup.clone();
        Some(self.move_process(call, &cgroup, address, length))
    }

    fn move_process(&mut self, call: &Call, cgroup: &str, address: u64, length: u64) -> Handled {
        if length == 0 {
            return Ok(Answer::Value(0));
        }
        let length = length.min(MAX_PID as u64) as usize;
        let mut value = [0; MAX_PID];
        let n = sys::read_memory(call.tid, address, &mut value[..length])?;
        let writer = self.process(call);
        self.still_waiting(call)?;
        self.join(cgroup, writer, &value[..n])?;
        Ok(Answer::Value(n as i64))
    }

    /// Moves the process that a client has written to `cgroup.procs`: a number, 0 for its own.
    fn join(&mut self, cgroup: &str, writer: u32, value: &[u8]) -> Result<(), Errno> {
        let text = std::str::from_utf8(value).map_err(|_| Errno(libc::EINVAL))?;
        let number: i32 = text.trim().parse().map_err(|_| Errno(libc::EINVAL))?;
        let process = match u32::try_from(number).map_err(|_| Errno(libc::EINVAL))? {
            0 => writer,
            tid => process_of(tid).ok_or(Errno(libc::ESRCH))?,
        };
        if process != writer && !descendants(self.setup.keeper).contains(&process) {
            return Err(Errno(libc::EACCES));
        }
        self.cgroup.cgroups.join(cgroup, process)?;
        self.cgroup.used = true;
        Ok(())
    }

    /// Takes what has been written past the supervisor, and forgets files that nobody has open.
    fn take_written(&mut self) {
        if self.cgroup.writers.is_empty() {
            return;
        }
        for (key, writer) in std::mem::take(&mut self.cgroup.writers) {
            loop {
                let events = sys::poll_in(&[writer.pipe.as_fd()], Some(0));
                let events = events.map_or(libc::POLLHUP, |events| events[0]);
                let mut value = [0; MAX_PID];
                if events & libc::POLLIN != 0
                    && let Ok(n) = sys::read(writer.pipe.as_fd(), &mut value)
                {
                    if let Err(error) = self.join(&writer.cgroup, writer.opener, &value[..n]) {
                        crate::say(&format!("a write to {PROCS}: {error}"));
                    }
                    continue;
                }
                if events & libc::POLLHUP == 0 {
                    self.cgroup.writers.insert(key, writer);
                }
                break;
            }
        }
    }

    /// Serves [`COMMANDS`] of `bpf`.
    pub(super) fn bpf(&mut self, call: &Call) -> Handled {
        const REFUSED: Errno = Errno(libc::EPERM);
        if call.args[2] < 16 {
            return Err(REFUSED);
        }
        let attributes: [u8; 16] = sys::read_array(call.tid, call.args[1])?;
        let (words, _) = attributes.as_chunks::<4>();
        let [first, second, third, fourth] =
            [0, 1, 2, 3].map(|at: usize| words.get(at).map_or(0, |word| u32::from_ne_bytes(*word)));
        if call.int(0) == PROG_LOAD {
            if (first, second) != (CGROUP_SOCK, INSTRUCTIONS.len() as u32) {
                return Err(REFUSED);
            }
            let at = u64::from(third) | u64::from(fourth) << 32;
            let device = device_of_program(&sys::read_array(call.tid, at)?).ok_or(REFUSED)?;
            let file = sys::memory_file(PROGRAM, &device.to_ne_bytes())?;
            return self.listener.answer_with(call, file.as_fd(), true, None);
        }
        if (third, fourth) != (INET_SOCK_CREATE, 0) {
            return Err(REFUSED);
        }
        let link = |fd| fs::read_link(format!("/proc/{}/fd/{fd}", call.tid));
        let cgroup = link(first).map_err(|_| Errno(libc::EBADF))?;
        let cgroup = self.cgroup.cgroups.path_of(&cgroup);
        let program = link(second).map_err(|_| Errno(libc::EBADF))?;
        let name = PROGRAM.to_string_lossy();
        if program.to_str() != Some(&format!("/memfd:{name} (deleted)")) {
            return Err(Errno(libc::EINVAL));
        }
        let device = fs::read(format!("/proc/{}/fd/{second}", call.tid))?;
        let device = device.first_chunk().ok_or(Errno(libc::EINVAL))?;
        self.still_waiting(call)?;
        let cgroup = cgroup.ok_or(Errno(libc::EBADF))?;
        self.cgroup
            .cgroups
            .attach(&cgroup, u32::from_ne_bytes(*device))?;
        Ok(Answer::Value(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_more_is_none_of_ours() {
        let mut code = [0; 48];
        for (to, from) in code.as_chunks_mut::<8>().0.iter_mut().zip(&INSTRUCTIONS) {
            *to = *from;
        }
        code[12..16].copy_from_slice(&7u32.to_ne_bytes());
        assert_eq!(device_of_program(&code), Some(7));
        for at in (0..48).filter(|at| !(12..16).contains(at)) {
            let mut other = code;
            other[at] ^= 1;
            assert_eq!(device_of_program(&other), None, "byte {at}");
        }
    }
}
