// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The form of names, and a linearizability check of adding, deleting and finding them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Barrier, Mutex};

use weir_intercept::Runtime;
use weir_stack::Config;

use super::*;
use crate::playback::Playback;

#[test]
fn names_are_those_of_files() {
    let longest = "n".repeat(NAME_MAX);
    for good in ["r0", "a b", "..r", &longest] {
        assert_eq!(check(good), Ok(()), "{good}");
    }
    let long = "n".repeat(NAME_MAX + 1);
    for bad in ["", ".", "..", "a/b", "/", "a\0", &long] {
        assert!(check(bad).unwrap_err().contains("invalid name"), "{bad}");
    }
    assert_eq!(numbered("r%d.%d", 7), "r7.%d");
    let command = json!({ "pattern": "r%d", "from": 8, "until": 11 });
    assert_eq!(names(&command).unwrap(), ["r8", "r9", "r10"]);
    assert!(names(&json!({ "names": [1] })).is_err());
}

fn engine() -> std::sync::Arc<Engine> {
    let runtime = Runtime::create(None).unwrap();
    Engine::new(
        weir_stack::build(Config::default()),
        runtime,
        Playback::default(),
    )
}

/// What a client did with a name, and when: the times are a counter's.
#[derive(Debug, Clone, Copy)]
struct Done {
    what: &'static str,
    worked: bool,
    from: u64,
    until: u64,
}

impl Done {
    /// Returns the state after it, if it can have happened in the state before: whether the name exists.
    fn after(&self, exists: bool) -> Option<bool> {
        let (wanted, then) = match self.what {
            "add" => (!exists, true),
            "del" => (exists, false),
            _ => (exists, exists),
        };
        (self.worked == wanted).then_some(if wanted { then } else { exists })
    }
}

/// Returns the states in which a history can end that began in one of some states. There is none if no order of the
/// operations explains the answers. An operation that ended before another one began comes before it.
fn ends(history: &[Done], begins: &HashSet<bool>) -> HashSet<bool> {
    let all = (1_u64 << history.len()) - 1;
    let mut seen: HashSet<(u64, bool)> = begins.iter().map(|&state| (0, state)).collect();
    let mut rest: Vec<_> = seen.iter().copied().collect();
    let mut found = HashSet::new();
    while let Some((done, state)) = rest.pop() {
        if done == all {
            found.insert(state);
            continue;
        }
        let open = || (0..history.len()).filter(move |at| done >> at & 1 == 0);
        let first_end = open().map(|at| history[at].until).min().unwrap();
        for at in open().filter(|&at| history[at].from < first_end) {
            let next = history[at].after(state).map(|then| (done | 1 << at, then));
            rest.extend(next.filter(|&next| seen.insert(next)));
        }
    }
    found
}

#[test]
fn an_order_must_explain_the_answers() {
    let done = |what, worked, from, until| Done {
        what,
        worked,
        from,
        until,
    };
    let begins = HashSet::from([false]);
    // Two overlapping additions, of which one works.
    let both = [done("add", true, 0, 3), done("add", false, 1, 2)];
    assert_eq!(ends(&both, &begins), HashSet::from([true]));
    let twice = [done("add", true, 0, 3), done("add", true, 1, 2)];
    assert!(ends(&twice, &begins).is_empty());
    // A look-up after the addition has to find it, one during it may.
    let late = [done("add", true, 0, 1), done("find", false, 2, 3)];
    assert!(ends(&late, &begins).is_empty());
    let during = [done("add", true, 0, 2), done("find", false, 1, 3)];
    assert_eq!(ends(&during, &begins), HashSet::from([true]));
}

#[test]
fn eight_clients_see_one_order() {
    const CLIENTS: u64 = 8;
    const ROUNDS: u64 = 150;
    const NAMES: [&str; 2] = ["a", "b"];
    let engine = engine();
    let clock = AtomicU64::new(0);
    let histories = Mutex::new([Vec::new(), Vec::new()]);
    let barrier = Barrier::new(CLIENTS as usize);
    let states = Mutex::new(NAMES.map(|_| HashSet::from([false])));
    // A thread that ended alone would leave the others at the barrier.
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (engine, clock, histories) = (&engine, &clock, &histories);
            let (barrier, states, wrong) = (&barrier, &states, &wrong);
            scope.spawn(move || {
                let mut random = client + 1;
                for round in 0..ROUNDS {
                    barrier.wait();
                    for _ in 0..3 {
                        random = random.wrapping_mul(6_364_136_223_846_793_005) + 1;
                        let at = (random >> 40) as usize % 2;
                        let what = ["add", "del", "find"][(random >> 50) as usize % 3];
                        let command = json!({ "do": what, "names": [NAMES[at]] });
                        let from = clock.fetch_add(1, SeqCst);
                        let answer = run(engine, &command);
                        let until = clock.fetch_add(1, SeqCst);
                        if let Err(text) = &answer
                            && !text.starts_with("there is ")
                        {
                            wrong.lock().unwrap().push(text.clone());
                        }
                        histories.lock().unwrap()[at].push(Done {
                            what,
                            worked: answer.is_ok(),
                            from,
                            until,
                        });
                    }
                    // Nobody does anything while the round is judged.
                    if barrier.wait().is_leader() {
                        let mut states = states.lock().unwrap();
                        for (history, state) in
                            histories.lock().unwrap().iter_mut().zip(states.iter_mut())
                        {
                            let then = ends(history, state);
                            if then.is_empty() {
                                let text = format!("round {round}, from {state:?}: {history:?}");
                                wrong.lock().unwrap().push(text);
                            }
                            *state = then;
                            history.clear();
                        }
                    }
                    barrier.wait();
                    if !wrong.lock().unwrap().is_empty() {
                        return;
                    }
                }
            });
        }
    });
    assert_eq!(*wrong.lock().unwrap(), [""; 0]);
    for name in NAMES {
        let _ = run(&engine, &json!({ "do": "del", "names": [name] }));
    }
    let files = |path: &str| {
        std::fs::read_dir(engine.runtime.path().join(path))
            .unwrap()
            .count()
    };
    // Nothing of a namespace that is gone is left. The file of the initial one is made on demand.
    assert_eq!(engine.stack.namespace_ids().len(), 1);
    assert!((files("names"), files("ns")) <= (0, 1));
    engine.stop();
}
