// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The namespace of a thread.
//!
//! Linux copies a thread's network namespace to every thread and process that it creates. The
//! kernel does not know Weir's namespaces, so their inheritance needs a carrier:
//!
//! * [`Carrier::TimerSlack`]: the thread's timer slack carries the namespace's number, as 50,001 ns
//!   plus the number (the default is 50,000 ns). The kernel copies it at `clone` and keeps it at
//!   `exec`, per thread. `/proc/TID/timerslack_ns` reads and sets it from outside, with
//!   `CAP_SYS_NICE` over the thread's user namespace; root has this capability, and so has the
//!   owner of the user namespace of mode U. This carrier is exact, takes one small read, and needs
//!   no state here. The supervisor answers a client's own `prctl(PR_SET_TIMERSLACK)` without
//!   effect.
//! * [`Carrier::Limit`]: without that capability (mode A as an ordinary user) the soft `RLIMIT_RSS`
//!   of the process carries the number. Linux inherits and keeps this limit but otherwise ignores
//!   it, and `prlimit` reads and sets it for processes of the same user. This carrier is exact for
//!   processes with one thread. If one of several threads moves, it goes into a table by id and
//!   start time, and the limit records that (the *mixed* bit, with the leader's namespace). From
//!   then on a new thread counts as in the namespace of the thread that last called `clone`, and a
//!   new process as in the namespace of the thread that lists it in `/proc/PID/task/TID/children`.
//!   Children are looked up before such a thread moves or exits. The result is wrong only in two
//!   cases: for children that were not looked up before a signal killed such a thread, and for a
//!   thread other than the leader that calls `exec` in a namespace of its own.
//!
//! The number does not identify the stack. A process that is only inspected must therefore first be
//! found below one of the stack's keepers ([`Tasks::namespace_of`]).
//!
//! Where neither carrier can be read, the ancestors decide: a real-time thread has no timer slack,
//! and a program may set its own limits.
use crate::backend::{Errno, NsId};
use crate::runtime::Runtime;
use crate::sys;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// The timer slack of a thread in namespace 0, nanoseconds.
pub(crate) const SLACK_BASE: u64 = 50_001;
/// The range of namespace numbers that fit the carrier: a slack of a minute.
const SLACK_SPAN: u64 = 60_000_000_000;
/// The longest chain of unknown ancestors over which a namespace is inferred.
const MAX_DEPTH: u32 = 256;
/// The most files of timer slacks that are kept open.
const MAX_SLACKS: usize = 64;
/// The longest chain of ancestors followed to a keeper.
const MAX_ANCESTORS: u32 = 65_536;

/// The limit that carries a namespace: Linux stores it and ignores it.
const CARRYING: sys::Resource = libc::RLIMIT_RSS;
/// The soft limit that stands for namespace 0. The namespace's number is in the low 32 bits.
pub(crate) const LIMIT_BASE: u64 = 0x3ae1_7000_0000_0000;
/// Set if threads of the process are in different namespaces.
const LIMIT_MIXED: u64 = 1 << 32;

/// The way in which threads inherit their namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// By the thread's timer slack.
    TimerSlack,
    /// By a resource limit of the process.
    Limit,
}

/// The namespaces of threads.
#[derive(Debug)]
pub struct Tasks {
    carrier: Carrier,
    /// The keepers from which clients descend, and the namespaces of clients that never moved.
    keepers: BTreeMap<u32, NsId>,
    /// The runtime directory, which lists keepers of other launches.
    runtime: PathBuf,
    /// Threads whose process cannot carry their namespace: id to start time and namespace.
    table: BTreeMap<u32, (u64, NsId)>,
    /// Processes that have the mixed bit of their own, not inherited: id to start time, and the
    /// namespace of the thread that last created a thread.
    mixed: BTreeMap<u32, (u64, Option<NsId>)>,
    /// The table size at which entries of ended threads are removed.
    prune_at: usize,
    /// Open `timerslack_ns` of threads whose namespace was read before.
    slacks: BTreeMap<u32, fs::File>,
}

impl Tasks {
    /// Tracks the threads of all launches against a stack, for a daemon.
    pub fn new(runtime: &Runtime) -> Tasks {
        Tasks {
            carrier: Carrier::TimerSlack,
            keepers: BTreeMap::new(),
            runtime: runtime.path().to_path_buf(),
            table: BTreeMap::new(),
            mixed: BTreeMap::new(),
            prune_at: 1024,
            slacks: BTreeMap::new(),
        }
    }

    /// Tracks the threads below `keeper`, which start in a namespace, for a supervisor.
    pub(crate) fn of_launch(
        carrier: Carrier,
        keeper: u32,
        start_in: NsId,
        runtime: &Runtime,
    ) -> Tasks {
        Tasks {
            carrier,
            keepers: BTreeMap::from([(keeper, start_in)]),
            ..Tasks::new(runtime)
        }
    }

    /// Returns the namespace of any thread on this machine, or `None` if the thread does not belong
    /// to this stack (`IFLA_NET_NS_PID`, `NETNSA_PID`, `/proc/PID/ns/net`).
    pub fn namespace_of(&mut self, tid: u32) -> Option<NsId> {
        self.is_ours(tid).then(|| self.namespace(tid)).flatten()
    }

    /// Returns whether a thread descends from a keeper.
    fn is_ours(&mut self, tid: u32) -> bool {
        let below = |keepers: &BTreeMap<u32, NsId>| {
            let mut at = tid;
            for _ in 0..MAX_ANCESTORS {
                match parent_and_start(at) {
                    Some((parent, _)) if keepers.contains_key(&parent) => return true,
                    Some((parent, _)) if parent > 1 => at = parent,
                    _ => return false,
                }
            }
            false
        };
        if below(&self.keepers) {
            return true;
        }
        // The thread may belong to another launch, perhaps one that began after the last look.
        let keepers = Runtime::keepers(&self.runtime);
        let known = below(&keepers);
        if known {
            self.keepers.extend(keepers);
        }
        known
    }

    /// Returns the namespace of a thread that is known to belong to this stack.
    pub(crate) fn namespace(&mut self, tid: u32) -> Option<NsId> {
        if self.carrier == Carrier::TimerSlack
            && let Some(ns) = self.carried(tid)
        {
            return Some(ns);
        }
        self.infer(tid, 0)
    }

    /// Reads the namespace that a thread carries in its timer slack.
    fn carried(&mut self, tid: u32) -> Option<NsId> {
        // An open file of a thread that has ended reads as an error, whoever has got its number.
        if let Some(ns) = self.slacks.get(&tid).and_then(read_slack) {
            return Some(ns);
        }
        let file = fs::File::open(format!("/proc/{tid}/timerslack_ns")).ok()?;
        let ns = read_slack(&file)?;
        if self.slacks.len() >= MAX_SLACKS {
            self.slacks.clear();
        }
        self.slacks.insert(tid, file);
        Some(ns)
    }

    /// Moves a thread to a namespace.
    pub(crate) fn set(&mut self, tid: u32, ns: NsId) -> Result<(), Errno> {
        if self.carrier == Carrier::TimerSlack && carry(tid, ns).is_ok() {
            return Ok(());
        }
        let (_, start) = parent_and_start(tid).ok_or(Errno(libc::ESRCH))?;
        let process = process_of(tid).ok_or(Errno(libc::ESRCH))?;
        let limit = LIMIT_BASE | u64::from(ns.0);
        if threads(process).len() == 1 && sys::set_soft_limit(process, CARRYING, limit).is_ok() {
            self.table.remove(&tid);
            self.mixed.remove(&process);
            return Ok(());
        }
        self.prune();
        let leader = if tid == process {
            Some(ns)
        } else {
            self.infer(process, 0)
        };
        self.table.insert(tid, (start, ns));
        if let (Some(leader), Some((_, start))) = (leader, parent_and_start(process)) {
            let limit = LIMIT_BASE | LIMIT_MIXED | u64::from(leader.0);
            if sys::set_soft_limit(process, CARRYING, limit).is_ok() {
                let last = self.mixed.get(&process).and_then(|&(_, last)| last);
                self.mixed.insert(process, (start, last));
            }
        }
        Ok(())
    }

    fn prune(&mut self) {
        if self.table.len() + self.mixed.len() < self.prune_at {
            return;
        }
        let same = |tid: u32, start: u64| {
            parent_and_start(tid).is_some_and(|(_, current)| current == start)
        };
        self.table.retain(|&tid, &mut (start, _)| same(tid, start));
        self.mixed.retain(|&tid, &mut (start, _)| same(tid, start));
        self.prune_at = ((self.table.len() + self.mixed.len()) * 2).max(1024);
    }

    /// Records the namespaces that the children of a thread and the other threads of its process
    /// have inherited so far, where no carrier holds them. Call it before the thread changes its
    /// namespace or ends.
    pub(crate) fn settle_children(&mut self, tid: u32) {
        if self.carrier == Carrier::TimerSlack {
            return;
        }
        let Some(process) = process_of(tid) else {
            return;
        };
        let threads = threads(process);
        if threads.len() == 1 && !self.table.contains_key(&tid) {
            return;
        }
        for child in children(process, tid) {
            self.infer(child, 0);
        }
        for thread in threads {
            if let (Some(ns), Some((_, start))) = (self.infer(thread, 0), parent_and_start(thread))
            {
                self.table.insert(thread, (start, ns));
            }
        }
    }

    /// Prepares for a new thread, which starts in the namespace of `tid`. Call it before `tid`
    /// creates a thread.
    pub(crate) fn before_thread(&mut self, tid: u32) {
        if self.mixed.is_empty() {
            return; // the limit of a process in one namespace serves all its threads
        }
        let Some(process) = process_of(tid).filter(|process| self.mixed.contains_key(process))
        else {
            return;
        };
        // Looks up the threads that the previous call created.
        for thread in threads(process) {
            self.infer(thread, 0);
        }
        let here = self.infer(tid, 0);
        if let Some((_, last)) = self.mixed.get_mut(&process) {
            *last = here;
        }
    }

    /// Returns whether no carrier holds the namespace of this thread. Then its children must be
    /// looked up before it ends.
    pub(crate) fn is_in_table(&self, tid: u32) -> bool {
        self.table.contains_key(&tid)
    }

    /// Infers the namespace of a thread from the carrier of the thread or of its ancestors.
    fn infer(&mut self, tid: u32, depth: u32) -> Option<NsId> {
        if tid <= 1 || depth > MAX_DEPTH {
            return None;
        }
        let (parent, start) = parent_and_start(tid)?;
        if let Some(&(since, ns)) = self.table.get(&tid) {
            if since == start {
                return Some(ns);
            }
            self.table.remove(&tid);
        }
        let limit = sys::soft_limit(tid, CARRYING).filter(|limit| limit & !CARRIED == LIMIT_BASE);
        let in_limit = limit.map(|limit| NsId(limit as u32));
        if limit.is_some_and(|limit| limit & LIMIT_MIXED == 0) {
            return in_limit;
        }
        let process = process_of(tid)?;
        if process != tid {
            let ns = match self.mixed.get(&process) {
                Some(&(_, Some(last))) => last,
                _ => self.infer(process, depth + 1)?,
            };
            if self.mixed.contains_key(&process) {
                self.prune();
                self.table.insert(tid, (start, ns));
            }
            return Some(ns);
        }
        if self.mixed.get(&process).is_some_and(|m| m.0 == start) {
            return in_limit;
        }
        let ns = if let Some(&initial) = self.keepers.get(&parent) {
            // An orphan of a process with threads in several namespaces that was never looked up
            // gets the namespace of their leader.
            in_limit.unwrap_or(initial)
        } else {
            let forker = threads(parent)
                .into_iter()
                .find(|&thread| thread != parent && children(parent, thread).contains(&tid))
                .unwrap_or(parent);
            self.infer(forker, depth + 1)?
        };
        if limit.is_some() {
            // The bit was inherited from the parent. From here on the limit of this process carries
            // its own namespace.
            let limit = LIMIT_BASE | u64::from(ns.0);
            if sys::set_soft_limit(process, CARRYING, limit).is_ok() {
                return Some(ns);
            }
        }
        self.prune();
        self.table.insert(tid, (start, ns));
        Some(ns)
    }
}

/// The bits of a limit that carry information.
const CARRIED: u64 = LIMIT_MIXED | u32::MAX as u64;

/// Reads the beginning of a file of `/proc`, up to 4 KiB, with one call.
pub(crate) fn read_small(path: &str) -> Option<String> {
    use std::io::Read;
    let mut bytes = [0; 4096];
    let length = fs::File::open(path).ok()?.read(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(bytes.get(..length)?).into_owned())
}

/// Reads a namespace from an open `timerslack_ns`.
fn read_slack(file: &fs::File) -> Option<NsId> {
    use std::os::unix::fs::FileExt;
    let mut bytes = [0; 24];
    let length = file.read_at(&mut bytes, 0).ok()?;
    let text = std::str::from_utf8(bytes.get(..length)?).ok()?;
    let slack: u64 = text.trim_end().parse().ok()?;
    let number = slack.checked_sub(SLACK_BASE).filter(|&n| n <= SLACK_SPAN)?;
    u32::try_from(number).ok().map(NsId)
}

fn carry(tid: u32, ns: NsId) -> Result<(), Errno> {
    let slack = SLACK_BASE + u64::from(ns.0);
    fs::write(format!("/proc/{tid}/timerslack_ns"), slack.to_string())?;
    Ok(())
}

/// Returns the parent process and start time (clock ticks since boot) of a thread.
pub(crate) fn parent_and_start(tid: u32) -> Option<(u32, u64)> {
    stat(tid).map(|(_, parent, start)| (parent, start))
}

/// Returns whether a thread still runs. A zombie does not: it is in no namespace any more.
pub(crate) fn is_alive(tid: u32) -> bool {
    stat(tid).is_some_and(|(state, ..)| !matches!(state, 'Z' | 'X'))
}

/// Reads the state, parent process and start time of a thread.
fn stat(tid: u32) -> Option<(char, u32, u64)> {
    let stat = read_small(&format!("/proc/{tid}/stat"))?;
    // The program's name is in parentheses and may contain anything, so parsing starts after the
    // last one.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?; // field 3
    let parent = fields.next()?.parse().ok()?;
    let start = fields.nth(17)?.parse().ok()?; // field 22
    Some((state, parent, start))
}

/// Returns the process (thread group) of a thread.
pub(crate) fn process_of(tid: u32) -> Option<u32> {
    let status = read_small(&format!("/proc/{tid}/status"))?;
    let line = status.lines().find_map(|l| l.strip_prefix("Tgid:"))?;
    line.trim().parse().ok()
}

/// Returns the threads of a process, ascending.
pub(crate) fn threads(process: u32) -> Vec<u32> {
    let mut list: Vec<u32> = fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    list.sort_unstable();
    list
}

/// Returns the child processes of a thread that it has not reaped.
pub(crate) fn children(process: u32, thread: u32) -> Vec<u32> {
    fs::read_to_string(format!("/proc/{process}/task/{thread}/children"))
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

/// Returns all processes below `root`, parents first.
pub(crate) fn descendants(root: u32) -> Vec<u32> {
    let mut list = vec![root];
    let mut at = 0;
    while let Some(&process) = list.get(at) {
        at += 1;
        for thread in threads(process) {
            list.extend(children(process, thread));
        }
    }
    list.remove(0);
    list
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// Serialises tests that change the limit, which belongs to the whole process and is inherited
    /// by new children. Restores the former value on drop.
    struct Limit {
        before: u64,
        _alone: MutexGuard<'static, ()>,
    }

    impl Limit {
        fn held() -> Self {
            static ALONE: Mutex<()> = Mutex::new(());
            let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
            Self {
                before: sys::soft_limit(std::process::id(), CARRYING).unwrap(),
                _alone: alone,
            }
        }
    }

    impl Drop for Limit {
        fn drop(&mut self) {
            sys::set_soft_limit(std::process::id(), CARRYING, self.before).unwrap();
        }
    }

    #[test]
    fn own_process_is_found() {
        let me = std::process::id();
        assert_eq!(process_of(me), Some(me));
        assert!(threads(me).contains(&me));
        let (parent, start) = parent_and_start(me).unwrap();
        assert!(parent > 0 && start > 0);
        assert!(is_alive(me));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while is_alive(child.id()) {
            std::thread::yield_now();
        }
        assert!(parent_and_start(child.id()).is_some_and(|(parent, _)| parent == me));
        child.wait().unwrap();
    }

    #[test]
    fn processes_inherit_by_limit() {
        let _limit = Limit::held();
        let runtime = Runtime::create(None).unwrap();
        let me = std::process::id();
        let mut tasks = Tasks::of_launch(Carrier::Limit, me, NsId(3), &runtime);
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read x; sleep 1000 & read x; kill $!; wait"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let shell = child.id();
        assert_eq!(tasks.namespace_of(shell), Some(NsId(3)));
        tasks.set(shell, NsId(7)).unwrap();
        assert!(tasks.table.is_empty() || !tasks.table.contains_key(&shell));
        assert_eq!(tasks.namespace_of(shell), Some(NsId(7)));
        let mut input = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, b"\n").unwrap();
        let sleeper = loop {
            if let Some(&pid) = children(shell, shell).first() {
                break pid;
            }
            std::thread::yield_now();
        };
        // A later move of the parent does not move the child.
        tasks.settle_children(shell);
        tasks.set(shell, NsId(8)).unwrap();
        assert_eq!(tasks.namespace_of(sleeper), Some(NsId(7)));
        assert_eq!(tasks.namespace_of(shell), Some(NsId(8)));
        assert_eq!(tasks.namespace_of(1), None);
        std::io::Write::write_all(&mut input, b"\n").unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn threads_of_one_process_have_their_own_namespaces() {
        let _limit = Limit::held();
        let runtime = Runtime::create(None).unwrap();
        let me = std::process::id();
        let (_, parent) = (me, parent_and_start(me).unwrap().0);
        let mut tasks = Tasks::of_launch(Carrier::Limit, parent, NsId(0), &runtime);
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let tid = sys::thread_id();
            let spawn = || {
                std::process::Command::new("sleep")
                    .arg("1000")
                    .spawn()
                    .unwrap()
            };
            let mut child = spawn();
            tell.send((tid, child.id())).unwrap();
            ended.recv().unwrap();
            let mut second = spawn();
            tell.send((tid, second.id())).unwrap();
            ended.recv().unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            second.kill().unwrap();
            second.wait().unwrap();
        });
        let (tid, before) = told.recv().unwrap();
        tasks.settle_children(tid);
        tasks.set(tid, NsId(5)).unwrap();
        end.send(()).unwrap();
        let (_, after) = told.recv().unwrap();
        assert_eq!(tasks.namespace_of(before), Some(NsId(0)));
        assert_eq!(tasks.namespace_of(after), Some(NsId(5)));
        assert_eq!(tasks.namespace_of(tid), Some(NsId(5)));
        assert_eq!(tasks.namespace_of(me), Some(NsId(0)));
        end.send(()).unwrap();
        thread.join().unwrap();
    }
}
