// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An order of threads that does not depend on how they are scheduled.
//!
//! Threads that wait for the same time continue one after the other, in the order of their ranks. Process ids are no such
//! order: two processes that fork at the same time race for them, and they start again from low numbers when they are used
//! up. The rank of a thread is its line of ancestors. Siblings have the order in which their parent created them, and a
//! parent comes before its children. So the order is the same in every run, if each program does the same in every run.
use crate::task::parent_and_start;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The longest line of ancestors that is compared.
const MAX_DEPTH: usize = 64;

/// The ancestors of a thread below the keeper, the oldest first, and the thread itself: of each the start time in clock
/// ticks, which is coarse, and the distance of its id from the keeper's, which is smaller for older ones of the same tick.
pub(crate) type Rank = Arc<[(u64, u32)]>;

/// The ranks of the threads of a launch.
#[derive(Debug, Default)]
pub(crate) struct Ranks {
    keeper: u32,
    /// By process and thread.
    known: BTreeMap<(u32, u32), Rank>,
}

impl Ranks {
    /// Begins with the processes below a keeper.
    pub(crate) fn new(keeper: u32) -> Self {
        Self {
            keeper,
            known: BTreeMap::new(),
        }
    }

    /// Returns the rank of a thread of a process. It stays the same when ancestors end.
    pub(crate) fn of(&mut self, process: u32, thread: u32) -> Rank {
        let keeper = self.keeper;
        let rank = self
            .known
            .entry((process, thread))
            .or_insert_with(|| rank(keeper, process, thread, parent_and_start));
        rank.clone()
    }

    /// Forgets processes that are gone. `processes` is sorted.
    pub(crate) fn keep(&mut self, processes: &[u32]) {
        self.known
            .retain(|(process, _), _| processes.binary_search(process).is_ok());
    }
}

/// Returns the rank of a thread. `look` returns the parent and the start time of a process or thread.
fn rank(keeper: u32, process: u32, thread: u32, look: impl Fn(u32) -> Option<(u32, u64)>) -> Rank {
    let mut line = Vec::new();
    let mut step = |task: u32| {
        let (parent, start) = look(task)?;
        line.push((start, task.wrapping_sub(keeper)));
        Some(parent)
    };
    if thread != process {
        step(thread);
    }
    let mut next = Some(process);
    for _ in 0..MAX_DEPTH {
        next = next.filter(|&task| task != keeper && task > 1);
        let Some(task) = next else {
            break;
        };
        next = step(task);
    }
    line.reverse();
    line.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tasks by id: the parent and the start time.
    fn ranks(tasks: &[(u32, u32, u64)], keeper: u32) -> impl Fn(u32, u32) -> Rank {
        let tasks: BTreeMap<u32, (u32, u64)> = tasks
            .iter()
            .map(|&(task, parent, start)| (task, (parent, start)))
            .collect();
        move |process, thread| rank(keeper, process, thread, |task| tasks.get(&task).copied())
    }

    #[test]
    fn siblings_have_the_order_of_their_creation() {
        // Ids are used up after 32,767.
        let tasks = [
            (32_760, 1, 5),
            (32_761, 32_760, 5),
            (32_766, 32_761, 5),
            (301, 32_761, 5),
            (300, 32_761, 9),
        ];
        let rank = ranks(&tasks, 32_760);
        let of = |process| rank(process, process);
        assert!(of(32_761) < of(32_766));
        assert!(of(32_766) < of(301));
        assert!(of(301) < of(300));
        assert_eq!(of(300).len(), 2);
    }

    #[test]
    fn a_race_between_parents_does_not_count() {
        // The second child forked before the first one did.
        let tasks = [(11, 10, 0), (12, 10, 0), (13, 12, 0), (14, 11, 0)];
        let rank = ranks(&tasks, 10);
        assert!(rank(14, 14) < rank(13, 13));
        assert!(rank(14, 14) < rank(12, 12));
    }

    #[test]
    fn threads_follow_their_process() {
        let tasks = [(11, 10, 3), (12, 10, 4), (13, 10, 9), (14, 10, 9)];
        let rank = ranks(&tasks, 10);
        // Two threads of process 11.
        assert!(rank(11, 11) < rank(11, 13));
        assert!(rank(11, 13) < rank(11, 14));
        assert!(rank(11, 14) < rank(12, 12));
        // One that is gone has an end of its own.
        assert_eq!(rank(99, 99).len(), 0);
    }

    #[test]
    fn ranks_are_kept_for_living_processes() {
        let me = std::process::id();
        let mut ranks = Ranks::new(1);
        let mine = ranks.of(me, crate::sys::thread_id());
        assert!(mine.len() >= 2, "{mine:?}");
        ranks.keep(&[me]);
        assert_eq!(ranks.known.len(), 1);
        ranks.keep(&[me + 1]);
        assert!(ranks.known.is_empty());
    }
}
