// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which namespace a thread is in.
//!
//! Linux copies a thread's network namespace to every thread and process it makes. Weir's
//! namespaces are unknown to the kernel, so that inheritance needs a carrier:
//!
//! * [`Carrier::TimerSlack`]: the namespace's number rides in the thread's timer slack, 50,001 ns
//!   plus the number (the default is 50,000 ns). The kernel copies it at `clone`, keeps it at
//!   `exec`, per thread; `/proc/TID/timerslack_ns` reads and sets it from outside with
//!   `CAP_SYS_NICE` over the thread's user namespace: root has it, and so has the owner of the
//!   user namespace of mode U. Exact, one small read, and no state here. The clients' own
//!   `prctl(PR_SET_TIMERSLACK)` is answered without effect.
//! * [`Carrier::Limit`]: without that right (mode A as an ordinary user) it rides in the soft
//!   `RLIMIT_RSS` of the process, which Linux inherits and keeps but otherwise ignores, and which
//!   `prlimit` reads and sets for processes of the same user. That is exact for processes with
//!   one thread. If a thread of several moves, it goes into a table by id and start time, and the
//!   limit says so (the *mixed* bit, with the leader's namespace): a new thread then counts
//!   as being where the thread is that last called `clone`, a new process where the thread is that
//!   has it in `/proc/PID/task/TID/children`; children are looked up before such a thread moves or exits. Wrong only for
//!   children nobody has looked up of such a thread that was killed by a signal, and for a
//!   thread other than the leader that calls `exec` in a namespace of its own.
//!
//! The number says nothing of the stack, so a process that is only looked at must first be found
//! below one of the stack's keepers ([`Tasks::namespace_of`]).
//!
//! Where neither can be read (a real-time thread has no timer slack, a program may set its own
//! limits) the ancestors decide.
use crate::backend::{Errno, NsId};
use crate::runtime::Runtime;
use crate::sys;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// Timer slack of a thread in namespace 0, nanoseconds.
pub(crate) const SLACK_BASE: u64 = 50_001;
/// Namespace numbers above this do not fit the carrier (a slack of a minute).
const SLACK_SPAN: u64 = 60_000_000_000;
/// Longest chain of unknown ancestors whose namespace is inferred.
const MAX_DEPTH: u32 = 256;
/// Longest chain of ancestors that is followed to a keeper.
const MAX_ANCESTORS: u32 = 65_536;

/// Soft limit that carries namespace 0; the namespace's number is in the low 32 bits.
pub(crate) const LIMIT_BASE: u64 = 0x3ae1_7000_0000_0000;
/// Set where threads of the process are in different namespaces.
const LIMIT_MIXED: u64 = 1 << 32;

/// How the namespace of a thread is inherited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// In the thread's timer slack.
    TimerSlack,
    /// In a resource limit of the process.
    Limit,
}

/// The namespaces of threads.
#[derive(Debug)]
pub struct Tasks {
    carrier: Carrier,
    /// Processes the clients descend from, and the namespaces of those never moved.
    keepers: BTreeMap<u32, NsId>,
    /// Where keepers of other launches are found.
    runtime: PathBuf,
    /// Threads whose processes cannot carry for them: id to start time and namespace.
    table: BTreeMap<u32, (u64, NsId)>,
    /// Processes with the mixed bit of their own, not inherited: id to start time, and the
    /// namespace of the thread that last made a thread.
    mixed: BTreeMap<u32, (u64, Option<NsId>)>,
    /// Size of the tables at which what has ended is removed.
    prune_at: usize,
}

impl Tasks {
    /// For a daemon: the threads of all launches against a stack.
    pub fn new(runtime: &Runtime) -> Tasks {
        Tasks {
            carrier: Carrier::TimerSlack,
            keepers: BTreeMap::new(),
            runtime: runtime.path().to_path_buf(),
            table: BTreeMap::new(),
            mixed: BTreeMap::new(),
            prune_at: 1024,
        }
    }

    /// For a supervisor: the threads below `keeper`, which start in a namespace.
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

    /// The namespace of any thread on this machine; `None` if it is none of this stack
    /// (`IFLA_NET_NS_PID`, `NETNSA_PID`, `/proc/PID/ns/net`).
    pub fn namespace_of(&mut self, tid: u32) -> Option<NsId> {
        self.is_ours(tid).then(|| self.namespace(tid)).flatten()
    }

    /// Whether a thread descends from a keeper.
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
        // Another launch, perhaps one that began after the last look.
        let keepers = Runtime::keepers(&self.runtime);
        let known = below(&keepers);
        if known {
            self.keepers.extend(keepers);
        }
        known
    }

    /// The namespace of a thread that is known to be of this stack.
    pub(crate) fn namespace(&mut self, tid: u32) -> Option<NsId> {
        if self.carrier == Carrier::TimerSlack
            && let Some(ns) = carried(tid)
        {
            return Some(ns);
        }
        self.infer(tid, 0)
    }

    /// Moves a thread to a namespace.
    pub(crate) fn set(&mut self, tid: u32, ns: NsId) -> Result<(), Errno> {
        if self.carrier == Carrier::TimerSlack && carry(tid, ns).is_ok() {
            return Ok(());
        }
        let (_, start) = parent_and_start(tid).ok_or(Errno(libc::ESRCH))?;
        let process = process_of(tid).ok_or(Errno(libc::ESRCH))?;
        let limit = LIMIT_BASE | u64::from(ns.0);
        if threads(process).len() == 1 && sys::set_soft_limit(process, limit).is_ok() {
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
            if sys::set_soft_limit(process, limit).is_ok() {
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

    /// Before a thread changes its namespace or ends: fixes what its children and the other
    /// threads of its process have inherited so far, where that is not carried.
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

    /// Before a thread makes a thread: the new one starts where this one is.
    pub(crate) fn before_thread(&mut self, tid: u32) {
        if self.mixed.is_empty() {
            return; // a process in one namespace carries for all its threads
        }
        let Some(process) = process_of(tid).filter(|process| self.mixed.contains_key(process))
        else {
            return;
        };
        // Those made by the call before this one.
        for thread in threads(process) {
            self.infer(thread, 0);
        }
        let here = self.infer(tid, 0);
        if let Some((_, last)) = self.mixed.get_mut(&process) {
            *last = here;
        }
    }

    /// Whether the namespace of this thread is not carried: its children must be looked up before
    /// it ends.
    pub(crate) fn is_in_table(&self, tid: u32) -> bool {
        self.table.contains_key(&tid)
    }

    /// The namespace of a thread by what it or its ancestors carry.
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
        let limit = sys::soft_limit(tid).filter(|limit| limit & !CARRIED == LIMIT_BASE);
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
            // An orphan of threads in several namespaces that nobody looked up is put where
            // their leader was.
            in_limit.unwrap_or(initial)
        } else {
            let forker = threads(parent)
                .into_iter()
                .find(|&thread| thread != parent && children(parent, thread).contains(&tid))
                .unwrap_or(parent);
            self.infer(forker, depth + 1)?
        };
        if limit.is_some() {
            // The bit was the parent's: from here on the process carries for itself.
            let limit = LIMIT_BASE | u64::from(ns.0);
            if sys::set_soft_limit(process, limit).is_ok() {
                return Some(ns);
            }
        }
        self.prune();
        self.table.insert(tid, (start, ns));
        Some(ns)
    }
}

/// Bits of a limit that say something.
const CARRIED: u64 = LIMIT_MIXED | u32::MAX as u64;

/// Reads the namespace a thread carries in its timer slack.
fn carried(tid: u32) -> Option<NsId> {
    let text = fs::read_to_string(format!("/proc/{tid}/timerslack_ns")).ok()?;
    let slack: u64 = text.trim_end().parse().ok()?;
    let number = slack.checked_sub(SLACK_BASE).filter(|&n| n <= SLACK_SPAN)?;
    u32::try_from(number).ok().map(NsId)
}

fn carry(tid: u32, ns: NsId) -> Result<(), Errno> {
    let slack = SLACK_BASE + u64::from(ns.0);
    fs::write(format!("/proc/{tid}/timerslack_ns"), slack.to_string())?;
    Ok(())
}

/// Parent process and start time (clock ticks since boot) of a thread.
pub(crate) fn parent_and_start(tid: u32) -> Option<(u32, u64)> {
    stat(tid).map(|(_, parent, start)| (parent, start))
}

/// Whether a thread still runs: it is not a zombie, which is in no namespace any more.
pub(crate) fn is_alive(tid: u32) -> bool {
    stat(tid).is_some_and(|(state, ..)| !matches!(state, 'Z' | 'X'))
}

/// State, parent process and start time of a thread.
fn stat(tid: u32) -> Option<(char, u32, u64)> {
    let stat = fs::read_to_string(format!("/proc/{tid}/stat")).ok()?;
    // The program's name is in parentheses and may hold anything: count from the last one.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?; // field 3
    let parent = fields.next()?.parse().ok()?;
    let start = fields.nth(17)?.parse().ok()?; // field 22
    Some((state, parent, start))
}

/// The process (thread group) of a thread.
pub(crate) fn process_of(tid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("Tgid:"))?;
    line.trim().parse().ok()
}

/// The threads of a process, ascending.
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

/// The processes a thread has made and not yet lost.
pub(crate) fn children(process: u32, thread: u32) -> Vec<u32> {
    fs::read_to_string(format!("/proc/{process}/task/{thread}/children"))
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

/// All processes below `root`, parents first.
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

    /// Held by tests that change the limit, which is the whole process's and which new children get: as it
    /// was before is it afterwards.
    struct Limit {
        before: u64,
        _alone: MutexGuard<'static, ()>,
    }

    impl Limit {
        fn held() -> Self {
            static ALONE: Mutex<()> = Mutex::new(());
            let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
            Self {
                before: sys::soft_limit(std::process::id()).unwrap(),
                _alone: alone,
            }
        }
    }

    impl Drop for Limit {
        fn drop(&mut self) {
            sys::set_soft_limit(std::process::id(), self.before).unwrap();
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
        // A later move of the parent leaves the child where it was.
        tasks.settle_children(shell);
        tasks.set(shell, NsId(8)).unwrap();
        assert_eq!(tasks.namespace_of(sleeper), Some(NsId(7)));
        assert_eq!(tasks.namespace_of(shell), Some(NsId(8)));
        assert_eq!(tasks.namespace_of(1), None);
        std::io::Write::write_all(&mut input, b"\n").unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn threads_of_one_process_are_told_apart() {
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
