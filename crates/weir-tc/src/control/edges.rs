// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests with useless references: cycles of chains, an index of another kind; and dumps of
//! recently used actions.

use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::errno::{EINVAL, ENOENT};
use weir_netlink::tca::{self, act, gact, mirred, root};
use weir_netlink::{Fixed, TcMirred, TcMsg, TcaMsg, Writer, nlm, rtm};
use weir_packet::DropReason;

use crate::action::requests::{gen_parms, new_action, options_of};
use crate::testing::{Stack, ipv4};
use crate::verdict::{Verdict, code};

/// The highest number of restarts of a packet's walk (`max_reclassify_loop` of `__tcf_classify`).
const RESTARTS: u32 = 16;
const INGRESS: u32 = 0xffff_fff2;

fn message(ty: u16, flags: u16, tcm: TcMsg, rest: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = Writer::new();
    let mark = w.message(ty, nlm::F_REQUEST | flags, 1, 0);
    w.fixed(&TcMsg { ifindex: 3, ..tcm });
    rest(&mut w);
    w.finish(mark).unwrap();
    w.into_vec()
}

fn with_clsact() -> Stack {
    let stack = Stack::default();
    let tcm = TcMsg {
        handle: 0xffff_0000,
        parent: 0xffff_fff1,
        ..TcMsg::default()
    };
    let clsact = message(rtm::NEWQDISC, nlm::F_CREATE | nlm::F_EXCL, tcm, |w| {
        w.put_str(tca::KIND, "clsact");
    });
    stack.request(&clsact).unwrap();
    stack
}

/// Encodes a filter that matches every packet in `chain` and has an action of a kind with these
/// options.
fn matchall(chain: u32, kind: &str, options: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let tcm = TcMsg {
        parent: INGRESS,
        info: TcMsg::make_info(1, 3),
        ..TcMsg::default()
    };
    message(rtm::NEWTFILTER, nlm::F_CREATE | nlm::F_EXCL, tcm, |w| {
        w.put_u32(tca::CHAIN, chain);
        w.put_str(tca::KIND, "matchall");
        let nest = w.nest_noflag(tca::OPTIONS);
        let list = w.nest_noflag(tca::matchall::ACT);
        let first = w.nest_noflag(1);
        w.put_str(act::KIND, kind);
        let inner = w.nest(act::OPTIONS);
        options(w);
        w.end(inner);
        w.end(first);
        w.end(list);
        w.end(nest);
    })
}

/// Adds a filter that sends every packet of `chain` to chain `to`, with the `gact` at `index`.
fn goes(stack: &Stack, chain: u32, to: u32, index: u32) {
    let goto = (2 << 28 | to) as i32;
    let request = matchall(chain, "gact", |w| {
        w.put_fixed(gact::PARMS, &gen_parms(index, goto));
    });
    stack.request(&request).unwrap();
}

fn frame() -> Vec<u8> {
    ipv4(17, [10, 0, 0, 1], [10, 0, 0, 2], 1, 2)
}

/// Returns the number of packets seen by the actions of a kind, by index. Considers only actions
/// used in the last `since` ms (0: all).
fn seen(stack: &Stack, kind: &str, since: u32) -> Vec<(u32, u64)> {
    let mut w = Writer::new();
    let mark = w.message(rtm::GETACTION, nlm::F_REQUEST | nlm::F_DUMP, 1, 0);
    w.fixed(&TcaMsg::default());
    let list = w.nest_noflag(root::TAB);
    let first = w.nest_noflag(1);
    w.put_str(act::KIND, kind);
    w.end(first);
    w.end(list);
    if since != 0 {
        w.put_u32(root::TIME_DELTA, since);
    }
    w.finish(mark).unwrap();
    let answers = stack.request(w.bytes()).unwrap();
    let mut all = Vec::new();
    for answer in &answers {
        let message = answer.message();
        let Some(tab) = message.attrs::<TcaMsg>().find_type(root::TAB) else {
            continue;
        };
        for action in tab.attrs() {
            let find = |ty| action.attrs().find_type(ty).unwrap();
            let parms = find(act::OPTIONS).attrs().find_type(gact::PARMS).unwrap();
            let index = u32::from_ne_bytes(parms.payload[..4].try_into().unwrap());
            let basic = find(act::STATS).attrs().find_type(tca::stats::BASIC);
            let packets = basic.unwrap().payload[8..12].try_into().unwrap();
            all.push((index, u32::from_ne_bytes(packets).into()));
        }
    }
    all
}

#[test]
fn a_cycle_of_chains_ends() {
    let stack = with_clsact();
    goes(&stack, 0, 1, 10);
    goes(&stack, 1, 2, 11);
    goes(&stack, 2, 1, 12);
    let verdict = stack.receive(&frame());
    assert_eq!(verdict, Verdict::Drop(DropReason::TC_RECLASSIFY_LOOP));
    // The walk starts once and restarts as often as permitted. The last goto is counted although it
    // is not followed.
    let turns = u64::from(RESTARTS) + 1;
    let seen = seen(&stack, "gact", 0);
    assert_eq!(seen, [(10, 1), (11, turns / 2), (12, turns / 2)]);
}

#[test]
fn a_chain_that_goes_to_itself_ends() {
    let stack = with_clsact();
    goes(&stack, 0, 0, 10);
    let verdict = stack.receive(&frame());
    assert_eq!(verdict, Verdict::Drop(DropReason::TC_RECLASSIFY_LOOP));
    assert_eq!(seen(&stack, "gact", 0), [(10, u64::from(RESTARTS) + 1)]);
}

#[test]
fn a_packet_visits_as_many_chains_as_it_may_restart() {
    for (chains, end) in [
        (RESTARTS, Verdict::Pass),
        (RESTARTS + 1, Verdict::Drop(DropReason::TC_RECLASSIFY_LOOP)),
    ] {
        let stack = with_clsact();
        for chain in 0..chains {
            goes(&stack, chain, chain + 1, 10 + chain);
        }
        let last = matchall(chains, "gact", |w| {
            w.put_fixed(gact::PARMS, &gen_parms(99, code::OK));
        });
        stack.request(&last).unwrap();
        assert_eq!(stack.receive(&frame()), end);
        let passed = u64::from(end == Verdict::Pass);
        assert_eq!(seen(&stack, "gact", 0).last(), Some(&(99, passed)));
    }
}

/// Encodes a request for one action of a kind by its index.
fn named(ty: u16, kind: &str, index: u32) -> Vec<u8> {
    let mut w = Writer::new();
    let mark = w.message(ty, nlm::F_REQUEST, 1, 0);
    w.fixed(&TcaMsg::default());
    let list = w.nest_noflag(root::TAB);
    let first = w.nest_noflag(1);
    w.put_str(act::KIND, kind);
    w.put_u32(act::INDEX, index);
    w.end(first);
    w.end(list);
    w.finish(mark).unwrap();
    w.into_vec()
}

/// Each kind has its own indices.
#[test]
fn an_index_of_another_kind_is_not_found() {
    let stack = with_clsact();
    let add = new_action("gact", nlm::F_CREATE | nlm::F_EXCL, |w| {
        w.put_fixed(gact::PARMS, &gen_parms(5, code::SHOT));
    });
    stack.request(&add).unwrap();
    let before = options_of(&stack, "gact", 5);
    for ty in [rtm::GETACTION, rtm::DELACTION] {
        let error = stack.request(&named(ty, "mirred", 5)).unwrap_err();
        let sentence = "TC action with specified index not found";
        assert_eq!(error.errno, ENOENT);
        assert_eq!(error.message.as_deref(), Some(sentence));
    }
    // A filter that binds an existing action need not give its parameters; here no such action
    // exists, so they are required.
    let by_index = |kind: &str, ty, parms: Vec<u8>| matchall(0, kind, |w| w.put(ty, &parms));
    let mirred = TcMirred {
        common: gen_parms(5, code::PIPE),
        eaction: mirred::EGRESS_REDIR,
        ifindex: 0,
    };
    let error = stack
        .request(&by_index("mirred", mirred::PARMS, mirred.to_vec()))
        .unwrap_err();
    let sentence = "act_mirred: Specified device does not exist";
    assert_eq!(
        (error.errno, error.message.as_deref()),
        (EINVAL, Some(sentence))
    );
    assert_eq!(options_of(&stack, "gact", 5), before);
    assert!(stack.request(&named(rtm::GETACTION, "mirred", 5)).is_err());
    let bind = by_index("gact", gact::PARMS, gen_parms(5, code::OK).to_vec());
    stack.request(&bind).unwrap();
    let verdict = stack.receive(&frame());
    assert_eq!(
        verdict,
        Verdict::Drop(DropReason::TC_INGRESS),
        "as it was made"
    );
}

/// `tc actions ls ... since MSEC` shows actions that were last used, or created without use, within
/// that time.
#[test]
fn a_dump_with_a_time_delta_shows_recently_used_actions() {
    let stack = with_clsact();
    let start = stack.now.load(Relaxed);
    let add = new_action("gact", nlm::F_CREATE | nlm::F_EXCL, |w| {
        w.put_fixed(gact::PARMS, &gen_parms(1, code::OK));
    });
    stack.request(&add).unwrap();
    let used = matchall(0, "gact", |w| {
        w.put_fixed(gact::PARMS, &gen_parms(2, code::OK));
    });
    stack.request(&used).unwrap();
    stack.now.store(start + 600_000_000, Relaxed);
    assert_eq!(stack.receive(&frame()), Verdict::Pass);
    stack.now.store(start + 1_000_000_000, Relaxed);
    assert_eq!(seen(&stack, "gact", 0), [(1, 0), (2, 1)]);
    for (since, shown) in [
        (390, &[][..]),
        (400, &[2][..]),
        (990, &[2][..]),
        (1000, &[1, 2][..]),
        (u32::MAX, &[1, 2][..]),
    ] {
        let found: Vec<u32> = seen(&stack, "gact", since)
            .into_iter()
            .map(|(index, _)| index)
            .collect();
        assert_eq!(found, shown, "since {since}");
    }
}
