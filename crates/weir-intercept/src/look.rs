// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What threads of clients are doing, as `/proc` tells.
use std::collections::BTreeMap;
use std::fs;

/// A thread, at one look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thread {
    /// The letter `ps` shows: `S` asleep, `R` running, ...
    pub(crate) state: u8,
    /// How often the processor was taken from it or given up by it.
    switches: u64,
    /// Signals that wait for the thread or its process, and those it blocks.
    pending: u64,
    blocked: u64,
}

impl Thread {
    /// Whether a signal would interrupt it; `mask` in the place of the signals it blocks.
    pub(crate) fn has_signal(&self, mask: Option<u64>) -> bool {
        self.pending & !mask.unwrap_or(self.blocked) != 0
    }

    /// Whether it has ended, and its parent does not know yet.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// Whether it sleeps until somebody wakes it, has stopped, or has ended. `trapped`: the supervisor
    /// has its call, which is an uninterruptible sleep to the kernel.
    pub(crate) fn rests(&self, trapped: bool) -> bool {
        matches!(self.state, b'S' | b'T' | b't' | b'Z' | b'X') || trapped && self.state == b'D'
    }
}

/// A thread; `None` if it is gone.
pub(crate) fn thread(tid: u32) -> Option<Thread> {
    parse(&fs::read_to_string(format!("/proc/{tid}/status")).ok()?)
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

/// All threads of all processes below one that has a single thread, by process and thread; `None` if some of them came or went.
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

/// The processes a thread has made and that have not ended.
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
    fn threads_are_looked_at() {
        let me = parse(
            "Name:\tsh\nState:\tS (sleeping)\nSigPnd:\t0000000000000200\nShdPnd:\t0000000000010000\n\
             SigBlk:\t0000000000010000\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n",
        )
        .unwrap();
        assert_eq!((me.state, me.switches), (b'S', 10));
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
