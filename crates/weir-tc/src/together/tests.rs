// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A batch whose actions run together has the same effects as its packets one by one.

use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use weir_netlink::tca::{self, flower, matchall, mirred, skbmod};
use weir_netlink::{TcGen, TcMirred, TcMsg, TcSkbMod, Writer, nlm, rtm};
use weir_packet::{Batch, DropReason, Packet};

use crate::classifier::Lookup;
use crate::context::{Context, Whole};
use crate::testing::{Stack, ipv4, vectors};
use crate::verdict::{Target, Verdict};

#[derive(Debug, Clone, Copy)]
enum Action {
    Gact(i32),
    Skbmod(i32),
    Redirect(bool),
    Mirror,
}

fn put(out: &mut Writer, place: u16, action: Action) {
    let common = |action| TcGen {
        action,
        ..TcGen::default()
    };
    let nest = out.nest(place);
    let mut start = |kind: &str| {
        out.put_str(tca::act::KIND, kind);
        out.nest(tca::act::OPTIONS)
    };
    let inside = match action {
        Action::Gact(control) => {
            let inside = start("gact");
            out.put_fixed(tca::gact::PARMS, &common(control));
            inside
        }
        Action::Skbmod(control) => {
            let inside = start("skbmod");
            let parms = TcSkbMod {
                common: common(control),
                pad: 0,
                flags: skbmod::SKBMOD_F_SMAC,
            };
            out.put_fixed(skbmod::PARMS, &parms);
            out.put(skbmod::SMAC, &[2, 9, 9, 9, 9, 9]);
            inside
        }
        Action::Redirect(_) | Action::Mirror => {
            let inside = start("mirred");
            let (control, eaction) = match action {
                Action::Redirect(true) => (4, mirred::INGRESS_REDIR),
                Action::Redirect(false) => (4, mirred::EGRESS_REDIR),
                _ => (3, mirred::EGRESS_MIRROR),
            };
            let parms = TcMirred {
                common: common(control),
                eaction,
                ifindex: 5,
            };
            out.put_fixed(mirred::PARMS, &parms);
            inside
        }
    };
    out.end(inside);
    out.end(nest);
}

/// Adds a filter with actions: for one source address, or for all packets.
fn add(stack: &Stack, prio: u16, host: Option<u8>, actions: &[Action]) {
    let mut w = Writer::new();
    let mark = w.message(rtm::NEWTFILTER, nlm::F_REQUEST | nlm::F_CREATE, 1, 0);
    w.fixed(&TcMsg {
        ifindex: 3,
        parent: 0xffff_fff2,
        info: TcMsg::make_info(prio, 0x0800),
        ..TcMsg::default()
    });
    w.put_str(
        tca::KIND,
        if host.is_some() { "flower" } else { "matchall" },
    );
    let options = w.nest(tca::OPTIONS);
    let act = match host {
        Some(host) => {
            w.put_be16(flower::KEY_ETH_TYPE, 0x0800);
            w.put(flower::KEY_IPV4_SRC, &[192, 0, 2, host]);
            w.put_u32(flower::CLASSID, u32::from(host));
            flower::ACT
        }
        None => matchall::ACT,
    };
    let nest = w.nest(act);
    for (place, action) in (1..).zip(actions) {
        put(&mut w, place, *action);
    }
    w.end(nest);
    w.end(options);
    w.finish(mark).unwrap();
    stack.request(w.bytes()).unwrap();
}

type Gone = (Vec<u8>, Option<Target>, Option<DropReason>);
/// The packets that passed with their class, those that went elsewhere in order, and the statistics.
type Effects = (Vec<(Vec<u8>, u16)>, Vec<Gone>, Vec<Gone>, Vec<Vec<u8>>);

fn shown(stack: &Stack) -> Vec<Vec<u8>> {
    let mut w = Writer::new();
    let mark = w.message(rtm::GETTFILTER, nlm::F_REQUEST | nlm::F_DUMP, 1, 0);
    w.fixed(&TcMsg {
        ifindex: 3,
        parent: 0xffff_fff2,
        ..TcMsg::default()
    });
    w.finish(mark).unwrap();
    let node = stack.devices[&3].tc.tree().ingress.clone().unwrap();
    let mut all: Vec<Vec<u8>> = stack
        .request(w.bytes())
        .unwrap()
        .into_iter()
        .map(|a| a.0)
        .collect();
    all.push(format!("{:?}", node.stats()).into_bytes());
    all
}

fn set_up(filters: &[(Option<u8>, Vec<Action>)]) -> Stack {
    let stack = Stack::default();
    let all = vectors(include_str!("../../tests/vectors/control.vec"));
    let clsact = all
        .into_iter()
        .find(|(command, _)| command == "tc qdisc add dev d0 clsact");
    stack.request(&clsact.unwrap().1[0]).unwrap();
    for (prio, (host, actions)) in (1..).zip(filters) {
        add(&stack, prio, *host, actions);
    }
    stack
}

fn frame(host: u8) -> Vec<u8> {
    ipv4(17, [192, 0, 2, host], [192, 0, 2, 200], 1000, 53)
}

fn one_by_one(stack: &Stack, hosts: &[u8]) -> Effects {
    let (mut passed, mut sent, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    for &host in hosts {
        let mut packet = stack.packet(&frame(host));
        let (verdict, copies) = stack.hook(3, true, &mut packet);
        let copies = copies.into_iter();
        sent.extend(copies.map(|copy| (copy.packet.data().to_vec(), Some(copy.target), None)));
        let data = packet.data().to_vec();
        match verdict {
            Verdict::Pass => passed.push((data, packet.tc_index)),
            Verdict::Redirect(target) => sent.push((data, Some(target), None)),
            Verdict::Drop(reason) => ended.push((data, None, Some(reason))),
            Verdict::Consumed => ended.push((data, None, None)),
        }
    }
    (passed, sent, ended, shown(stack))
}

fn together(stack: &Stack, hosts: &[u8]) -> Effects {
    let mut batch = Batch::new();
    for &host in hosts {
        batch.push(stack.packet(&frame(host))).unwrap();
    }
    let guard = stack.domain.pin();
    let (mut copies, mut gone) = (Vec::new(), Vec::new());
    let mut zero = || 0;
    let now = stack.now.load(Relaxed);
    let mut cx = Context::new(&guard, 0, now, 3, &mut zero, &mut copies);
    cx.tx_queues = 8;
    cx.at(&*stack.devices[&3]);
    let tc = &stack.devices[&3].tc;
    tc.ingress_batch(
        &mut cx,
        &mut Lookup::default(),
        (&mut batch, None),
        &mut gone,
    );
    let whole = cx.whole;
    let of = |packet: &Packet| packet.data().to_vec();
    let passed = batch.iter().map(|packet| (of(packet), packet.tc_index));
    let sent = copies
        .iter()
        .map(|copy| (of(&copy.packet), Some(copy.target), None));
    let ended = gone
        .iter()
        .map(|(packet, reason)| (of(packet), None, *reason));
    let (sent, ended) = (sent.collect(), ended.collect());
    let all = || batch.iter().map(of);
    match whole {
        None => (passed.collect(), sent, ended, shown(stack)),
        // The packets that leave together are still in the batch.
        Some(_) => {
            assert!(copies.is_empty() && gone.is_empty());
            let (sent, ended) = match whole {
                Some(Whole::Redirected(to)) => {
                    (all().map(|data| (data, Some(to), None)).collect(), ended)
                }
                Some(Whole::Dropped(why)) => {
                    (sent, all().map(|data| (data, None, Some(why))).collect())
                }
                _ => (sent, all().map(|data| (data, None, None)).collect()),
            };
            (Vec::new(), sent, ended, shown(stack))
        }
    }
}

fn any_action() -> impl Strategy<Value = Action> {
    let control =
        || prop_oneof![3 => Just(3), 1 => Just(0), 1 => Just(2), 1 => Just(4), 1 => Just(6)];
    prop_oneof![
        2 => control().prop_map(Action::Gact),
        2 => control().prop_map(Action::Skbmod),
        2 => any::<bool>().prop_map(Action::Redirect),
        1 => Just(Action::Mirror),
    ]
}

proptest! {
    #[test]
    fn effects_are_those_of_the_packets_one_by_one(
        filters in proptest::collection::vec(
            (proptest::option::of(1..4_u8), proptest::collection::vec(any_action(), 1..4)), 1..4),
        hosts in proptest::collection::vec((1..5_u8, 1..20_usize), 1..6),
    ) {
        // Packets of a source follow each other.
        let hosts: Vec<u8> = hosts.iter().flat_map(|&(host, count)| vec![host; count]).take(64).collect();
        let expected = one_by_one(&set_up(&filters), &hosts);
        prop_assert_eq!(together(&set_up(&filters), &hosts), expected);
    }
}
