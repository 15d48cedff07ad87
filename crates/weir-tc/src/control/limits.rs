// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests that exceed a budget are refused with a message and leave nothing behind.

use weir_netlink::errno::*;
use weir_netlink::tca::{act, root};
use weir_netlink::{TcMsg, TcaMsg, Writer, messages, nlm, rtm};

use super::stress::{filter, shared_action, tc};
use crate::budget::{Budget, FILTER};
use crate::testing::{Stack, vectors};

const ADD: u16 = nlm::F_CREATE | nlm::F_EXCL;

fn stack(budget: Budget) -> Stack {
    let stack = Stack::with_budget(budget);
    tc(&stack, "tc qdisc add dev d0 clsact");
    stack
}

/// Adds filter `n` with its own action.
fn add(stack: &Stack, n: u32) -> Result<(), weir_netlink::Error> {
    let request = filter(rtm::NEWTFILTER, ADD, 0, 1, n, n as u16, 0);
    stack.request(&request).map(drop)
}

fn filters(stack: &Stack) -> usize {
    let all = tc(stack, "tc filter show dev d0 ingress");
    let handle =
        |answer: &crate::testing::Answer| answer.message().fixed::<TcMsg>().unwrap().handle;
    all.iter().filter(|answer| handle(answer) != 0).count()
}

fn actions(stack: &Stack) -> usize {
    of_kind(stack, "gact")
}

/// Returns the number of actions of a kind.
fn of_kind(stack: &Stack, kind: &str) -> usize {
    let mut w = Writer::new();
    let mark = w.message(rtm::GETACTION, nlm::F_REQUEST | nlm::F_DUMP, 1, 0);
    w.fixed(&TcaMsg::default());
    let list = w.nest_noflag(root::TAB);
    let first = w.nest_noflag(1);
    w.put_str(act::KIND, kind);
    w.end(first);
    w.end(list);
    w.finish(mark).unwrap();
    let all = stack.request(w.bytes()).unwrap();
    let tab = all
        .iter()
        .flat_map(|a| a.message().attrs::<TcaMsg>().find_type(root::TAB));
    tab.map(|tab| tab.attrs().count()).sum()
}

#[test]
fn filters_beyond_the_limit_are_refused_until_one_is_deleted() {
    let stack = stack(Budget::new(Some(3), None));
    (1..=3).for_each(|n| add(&stack, n).unwrap());
    let error = add(&stack, 4).unwrap_err();
    assert_eq!(error.errno, ENOSPC);
    assert!(error.message.unwrap().contains("--max-rules"));
    assert_eq!((filters(&stack), actions(&stack)), (3, 3));
    // Existing filters may be changed, and a request refused for another reason uses up nothing.
    let other = filter(rtm::NEWTFILTER, nlm::F_CREATE, 0, 1, 2, 9, 0);
    stack.request(&other).unwrap();
    assert_eq!(add(&stack, 1).unwrap_err().errno, EEXIST);
    assert_eq!((filters(&stack), actions(&stack)), (3, 3));
    let delete = filter(rtm::DELTFILTER, 0, 0, 1, 2, 0, 0);
    stack.request(&delete).unwrap();
    add(&stack, 5).unwrap();
    assert_eq!(add(&stack, 6).unwrap_err().errno, ENOSPC);
    // The filter has the same key as another one; the refusal releases its share of the budget.
    stack
        .request(&filter(rtm::DELTFILTER, 0, 0, 1, 5, 0, 0))
        .unwrap();
    let twin = filter(rtm::NEWTFILTER, ADD, 0, 1, 7, 1, 0);
    assert_eq!(stack.request(&twin).unwrap_err().errno, EEXIST);
    add(&stack, 8).unwrap();
    // Deleting the qdisc deletes everything.
    tc(&stack, "tc qdisc del dev d0 clsact");
    tc(&stack, "tc qdisc add dev d0 clsact");
    (1..=3).for_each(|n| add(&stack, n).unwrap());
}

#[test]
fn memory_beyond_the_limit_is_refused() {
    // Enough for one filter with its own action, but not for two.
    let stack = stack(Budget::new(None, Some(FILTER * 2 + 100)));
    add(&stack, 1).unwrap();
    let error = add(&stack, 2).unwrap_err();
    assert_eq!(error.errno, ENOMEM);
    assert!(error.message.unwrap().contains("--max-memory"));
    assert_eq!((filters(&stack), actions(&stack)), (1, 1));
    // Actions without a filter count as well.
    stack
        .request(&filter(rtm::DELTFILTER, 0, 0, 1, 1, 0, 0))
        .unwrap();
    stack.request(&shared_action()).unwrap();
    let bound = filter(rtm::NEWTFILTER, ADD, 0, 1, 3, 3, 7);
    stack.request(&bound).unwrap();
    assert_eq!(add(&stack, 4).unwrap_err().errno, ENOMEM);
    assert_eq!((filters(&stack), actions(&stack)), (1, 1));
}

/// Filters of all kinds with actions of all kinds, with limits that are reached after some part of
/// the request. Objects created before the limit is reached are deleted again.
#[test]
fn no_limit_leaves_a_partial_object() {
    let all = vectors(include_str!("../../tests/vectors/kinds.vec"));
    let adds = |request: &Vec<u8>| messages(request).next().unwrap().header.ty == rtm::NEWTFILTER;
    let mut refused = 0;
    for (command, requests) in all.iter().filter(|(_, all)| all.last().is_some_and(adds)) {
        let (last, before) = requests.split_last().unwrap();
        let made = (0..10_000).step_by(60).any(|most| {
            let stack = Stack::with_budget(Budget::new(None, Some(most)));
            if before.iter().any(|request| stack.request(request).is_err()) {
                return false;
            }
            let there = |stack: &Stack| {
                let actions = crate::action::KINDS
                    .iter()
                    .map(|ops| of_kind(stack, ops.kind));
                (stack.net.budget().used(), actions.collect::<Vec<_>>())
            };
            let found = there(&stack);
            let Err(error) = stack.request(last) else {
                return true;
            };
            refused += 1;
            assert_eq!(error.errno, ENOMEM, "{command}");
            assert!(error.message.unwrap().contains("--max-memory"));
            assert_eq!(there(&stack), found, "{command}, {most} octets");
            false
        });
        assert!(made, "{command}");
    }
    assert!(refused > 100, "{refused}");
}
