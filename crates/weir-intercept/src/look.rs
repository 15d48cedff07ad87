// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of clients' threads, read from `/proc`.
use crate::sys;
use crate::task::read_small;
use std::collections::BTreeMap;
use std::fs;
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

/// How often [`tells_off_cpu`] looks at a thread that sleeps, a millisecond apart.
const TRIES: u32 = 300;

/// A snapshot of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thread {
    /// The state letter that `ps` shows: `S` asleep, `R` running, ...
    pub(crate) state: u8,
    /// The number of voluntary and involuntary context switches.
    switches: u64,
    /// Signals pending for the thread or its process. `blocked` holds the signals it blocks.
    pending: u64,
    blocked: u64,
}

impl Thread {
    /// Returns whether a signal would interrupt the thread. `mask` replaces the set of blocked
    /// signals.
    pub(crate) fn has_signal(&self, mask: Option<u64>) -> bool {
        self.pending & !mask.unwrap_or(self.blocked) != 0
    }

    /// Returns whether the thread sleeps until it is woken.
    pub(crate) fn is_asleep(&self) -> bool {
        self.state == b'S'
    }

    /// Returns whether the thread has ended; its parent may not have reaped it yet.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// Returns whether the thread sleeps until it is woken, has stopped, or has ended. With
    /// `trapped` the supervisor holds its call, which the kernel counts as uninterruptible sleep.
    pub(crate) fn is_resting(&self, trapped: bool) -> bool {
        matches!(self.state, b'S' | b'T' | b't' | b'Z' | b'X') || trapped && self.state == b'D'
    }
}

/// Reads the state of a thread. Returns `None` if the thread is gone.
pub(crate) fn thread(tid: u32) -> Option<Thread> {
    let path = format!("/proc/{tid}/status");
    let beginning = read_small(&path)?;
    // The list of groups may be long.
    match is_whole(&beginning) {
        true => parse(&beginning),
        // The name of a thread is cut to 15 bytes, perhaps within a character.
        false => parse(&String::from_utf8_lossy(&fs::read(path).ok()?)),
    }
}

/// Returns whether the beginning of a status has all that counts. The last line of it may be cut.
fn is_whole(beginning: &str) -> bool {
    let last = beginning.split_once("nonvoluntary_ctxt_switches:");
    last.is_some_and(|(_, rest)| rest.contains('\n'))
}

fn parse(status: &str) -> Option<Thread> {
    let mut thread = Thread {
        state: 0,
        switches: 0,
        pending: 0,
        blocked: 0,
    };
    for line in status.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim_start();
        let mask = || u64::from_str_radix(value, 16).ok();
        match name {
            "State" => thread.state = *value.as_bytes().first()?,
            "SigPnd" | "ShdPnd" => thread.pending |= mask()?,
            "SigBlk" => thread.blocked = mask()?,
            "voluntary_ctxt_switches" | "nonvoluntary_ctxt_switches" => {
                thread.switches += value.parse::<u64>().ok()?;
            }
            _ => {}
        }
    }
    (thread.state != 0).then_some(thread)
}

/// Returns whether a thread has left its CPU, from the kernel function in which it sleeps. A thread marks itself as
/// asleep first, and then looks once more whether it has to (`prepare_to_wait`). If it is preempted in between, it
/// shows as asleep and is about to run; `wchan` is 0 as long as it has a CPU or queues for one (`get_wchan`).
///
/// Returns `None` if the kernel does not tell.
pub(crate) fn is_off_cpu(tid: u32) -> Option<bool> {
    let place = fs::read(format!("/proc/{tid}/wchan")).ok()?;
    if place != b"0" {
        return Some(!place.is_empty());
    }
    // It is also 0 for those whose memory may not be read (`PTRACE_MODE_READ_FSCREDS`).
    let readable = fs::File::open(format!("/proc/{tid}/environ")).is_ok();
    readable.then_some(false)
}

/// Returns whether the kernel tells which threads have left their CPU: one without the names of its functions does not.
/// The first call tries it with a thread that sleeps, which may take a while.
pub(crate) fn tells_off_cpu() -> bool {
    static TELLS: OnceLock<bool> = OnceLock::new();
    *TELLS.get_or_init(|| {
        let (id, sleeper) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _ = id.send(sys::thread_id());
            let _ = ended.recv();
        });
        let tid = sleeper.recv().unwrap_or_default();
        let tells = (0..TRIES).any(|_| {
            let off = is_off_cpu(tid) == Some(true);
            if !off {
                std::thread::sleep(Duration::from_millis(1));
            }
            off
        });
        drop(end);
        let _ = thread.join();
        tells
    })
}

/// Returns whether a thread in uninterruptible sleep waits for a pipe that another thread holds. `splice` holds its pipe
/// as long as it waits for room in a socket.
pub(crate) fn waits_for_pipe(tid: u32) -> bool {
    let place = fs::read_to_string(format!("/proc/{tid}/wchan"));
    place.is_ok_and(|place| place.contains("pipe"))
}

/// Reads the state of all threads of all processes below a single-threaded one, by process and
/// thread. Returns `None` if some of them appeared or ended meanwhile.
pub(crate) fn below(root: u32) -> Option<BTreeMap<(u32, u32), Thread>> {
    let mut found = BTreeMap::new();
    let mut processes = children(root, root)?;
    while let Some(process) = processes.pop() {
        for entry in fs::read_dir(format!("/proc/{process}/task")).ok()? {
            let tid = entry.ok()?.file_name().to_str()?.parse().ok()?;
            found.insert((process, tid), thread(tid)?);
            processes.extend(children(process, tid)?);
        }
    }
    Some(found)
}

/// Returns the processes that a thread forked and that have not ended.
fn children(process: u32, tid: u32) -> Option<Vec<u32>> {
    let list = fs::read_to_string(format!("/proc/{process}/task/{tid}/children")).ok()?;
    list.split_ascii_whitespace()
        .map(|pid| pid.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_runs_has_not_left_its_cpu() {
        let me = crate::sys::thread_id();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        // A kernel without the names of its functions never tells.
        while thread(child.id()).is_some_and(|thread| thread.state != b'S') {
            std::thread::yield_now();
        }
        let asleep = (0..1000).any(|_| is_off_cpu(child.id()) == Some(true));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(asleep || is_off_cpu(me).is_none());
        assert!(tells_off_cpu() || !asleep);
        assert_ne!(is_off_cpu(me), Some(true));
    }

    #[test]
    fn thread_state_is_read() {
        let me = parse(
            "Name:\tsh\nState:\tS (sleeping)\nSigPnd:\t0000000000000200\nShdPnd:\t0000000000010000\n\
             SigBlk:\t0000000000010000\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n",
        )
        .unwrap();
        assert_eq!((me.state, me.switches), (b'S', 10));
        assert!(!is_whole("voluntary_ctxt_switches:\t7\n"));
        assert!(!is_whole(
            "voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3"
        ));
        assert!(is_whole(
            "voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\nx:\n"
        ));
        assert!(me.has_signal(None) && me.has_signal(Some(0x200)) && !me.has_signal(Some(0x10200)));
        assert!(thread(std::process::id()).is_some_and(|thread| thread.state != 0));
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let found = children(std::process::id(), crate::sys::thread_id());
        let below = below(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, Some(vec![child.id()]));
        assert!(below.is_some_and(|below| below.is_empty()));
    }
}
