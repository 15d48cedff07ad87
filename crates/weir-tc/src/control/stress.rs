// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many connections at once: filters are added, changed and deleted while packets flow and other
//! connections dump. In any order, every request gets one of Linux's answers, the counters are
//! exact, and nothing is left after everything is deleted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use weir_netlink::tca::{self, act, flower, gact};
use weir_netlink::{TcGen, TcMsg, TcaMsg, Writer, errno::*, nlm, rtm};

use crate::testing::{Stack, ipv4, vectors};
use crate::verdict::Verdict;

const THREADS: u32 = 8;
const ROUNDS: u32 = 80;

pub(super) fn tc(stack: &Stack, command: &str) -> Vec<crate::testing::Answer> {
    let all = vectors(include_str!("../../tests/vectors/control.vec"));
    let (_, datagrams) = all
        .into_iter()
        .find(|(recorded, _)| recorded == command)
        .unwrap();
    stack.request(&datagrams[0]).unwrap()
}

/// Encodes a request for the filter on destination 10.0.x.y. Action 0 is a new one for the filter,
/// others are shared.
pub(super) fn filter(
    ty: u16,
    flags: u16,
    chain: u32,
    prio: u16,
    handle: u32,
    dst: u16,
    action: u32,
) -> Vec<u8> {
    let mut w = Writer::new();
    let mark = w.message(ty, nlm::F_REQUEST | flags, 1, 0);
    w.fixed(&TcMsg {
        ifindex: 3,
        handle,
        parent: 0xffff_fff2,
        info: TcMsg::make_info(prio, 0x0800),
        ..TcMsg::default()
    });
    w.put_str(tca::KIND, "flower");
    w.put_u32(tca::CHAIN, chain);
    if ty == rtm::NEWTFILTER {
        let options = w.nest(tca::OPTIONS);
        w.put_be16(flower::KEY_ETH_TYPE, 0x0800);
        let [x, y] = dst.to_be_bytes();
        w.put(flower::KEY_IPV4_DST, &[10, 0, x, y]);
        w.put(flower::KEY_IPV4_DST_MASK, &[255; 4]);
        let actions = w.nest(flower::ACT);
        let nest = w.nest(1);
        w.put_str(act::KIND, "gact");
        let parms = w.nest(act::OPTIONS);
        w.put_fixed(
            gact::PARMS,
            &TcGen {
                index: action,
                action: 0,
                ..TcGen::default()
            },
        );
        w.end(parms);
        w.end(nest);
        w.end(actions);
        w.end(options);
    }
    w.finish(mark).unwrap();
    w.into_vec()
}

/// Simulates one connection: its own filters in a priority that all connections share, and requests
/// that contend for filters of others.
fn connection(stack: &Stack, me: u32) {
    let (new, del) = (rtm::NEWTFILTER, rtm::DELTFILTER);
    let add = nlm::F_CREATE | nlm::F_EXCL;
    for round in 0..ROUNDS {
        let n = me * ROUNDS + round;
        let (chain, prio) = (n % 2, 1 + (n / 2 % 2) as u16);
        let (handle, dst) = (n + 1, n as u16);
        // No other connection touches this filter, so all requests must succeed.
        let action = if n.is_multiple_of(3) { 7 } else { 0 };
        let request =
            |ty, flags, dst| stack.request(&filter(ty, flags, chain, prio, handle, dst, action));
        request(new, add, dst).unwrap();
        assert_eq!(request(new, add, dst).unwrap_err().errno, EEXIST);
        if n.is_multiple_of(5) {
            request(new, nlm::F_CREATE, dst + 0x4000).unwrap();
        }
        // All connections contend for these filters. Their priority is created and removed with
        // them.
        let fought = 0x0100_0000 + round % 3;
        let result = stack.request(&filter(
            new,
            add,
            3,
            9,
            fought,
            0x8000 + round as u16 % 3,
            7,
        ));
        if let Err(error) = result {
            assert!(matches!(error.errno, EEXIST | EAGAIN), "{error}");
        }
        let result = stack.request(&filter(del, 0, 3, 9, fought, 0, 0));
        if let Err(error) = result {
            assert!(matches!(error.errno, ENOENT | EAGAIN), "{error}");
        }
        if !n.is_multiple_of(4) {
            stack
                .request(&filter(del, 0, chain, prio, handle, 0, 0))
                .unwrap();
        }
    }
}

#[test]
fn nothing_is_lost_or_leaked() {
    let stack = Stack::default();
    tc(&stack, "tc qdisc add dev d0 clsact");
    // This filter counts every packet with an action that all connections share.
    stack.request(&shared_action()).unwrap();
    let first = filter(rtm::NEWTFILTER, nlm::F_CREATE, 0, 100, 1, 0xffff, 7);
    stack.request(&first).unwrap();
    let (done, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let connections: Vec<_> = (0..THREADS)
            .map(|me| {
                scope.spawn({
                    let stack = &stack;
                    move || connection(stack, me)
                })
            })
            .collect();
        for cpu in 0..2_u8 {
            let (stack, done, sent) = (&stack, &done, &sent);
            scope.spawn(move || {
                weir_sync::percpu::bind(usize::from(cpu));
                let frame = ipv4(17, [1, 1, 1, cpu], [10, 0, 255, 255], 1, 2);
                let pool = weir_packet::Pool::new(weir_packet::PoolConfig::default());
                while !done.load(Relaxed) {
                    let mut packet = stack.packet_from(&pool, &frame);
                    assert_eq!(
                        stack.hook_on(usize::from(cpu), 3, true, &mut packet).0,
                        Verdict::Pass
                    );
                    sent.fetch_add(1, Relaxed);
                }
            });
        }
        let (stack, done) = (&stack, &done);
        scope.spawn(move || {
            while !done.load(Relaxed) {
                tc(stack, "tc filter show dev d0 ingress");
                tc(stack, "tc actions list action gact");
                stack.heard();
            }
        });
        for connection in connections {
            connection.join().unwrap();
        }
        done.store(true, Relaxed);
    });
    let left = tc(&stack, "tc filter show dev d0 ingress");
    let filters = left
        .iter()
        .filter(|a| a.message().fixed::<TcMsg>().unwrap().handle != 0)
        .count();
    assert_eq!(filters as u32, THREADS * ROUNDS / 4 + 1);
    let got = tc(&stack, "tc actions list action gact");
    let tab = got
        .iter()
        .flat_map(|a| a.message().attrs::<TcaMsg>().find_type(tca::root::TAB));
    let packets: u64 = tab
        .flat_map(|tab| tab.attrs().map(|a| a.payload.to_vec()).collect::<Vec<_>>())
        .map(|action| {
            let counts = weir_netlink::attrs(&action).find_type(act::STATS).unwrap();
            let basic = counts.attrs().find_type(tca::stats::BASIC).unwrap();
            u64::from(u32::from_ne_bytes(basic.payload[8..12].try_into().unwrap()))
        })
        .sum();
    assert_eq!(
        packets,
        sent.load(Relaxed),
        "each packet matched the one filter"
    );
    tc(&stack, "tc qdisc del dev d0 clsact");
    tc(&stack, "tc actions flush action gact");
    assert!(tc(&stack, "tc actions list action gact").is_empty());
    stack.domain.barrier();
}

/// Encodes the creation of action 7, which is never deleted.
pub(super) fn shared_action() -> Vec<u8> {
    let mut w = Writer::new();
    let mark = w.message(
        rtm::NEWACTION,
        nlm::F_REQUEST | nlm::F_CREATE | nlm::F_EXCL,
        1,
        0,
    );
    w.fixed(&TcaMsg::default());
    let tab = w.nest(tca::root::TAB);
    let nest = w.nest(1);
    w.put_str(act::KIND, "gact");
    let parms = w.nest(act::OPTIONS);
    w.put_fixed(
        gact::PARMS,
        &TcGen {
            index: 7,
            ..TcGen::default()
        },
    );
    w.end(parms);
    w.end(nest);
    w.end(tab);
    w.finish(mark).unwrap();
    w.into_vec()
}

/// Encodes one request for the gact actions `indices`.
fn actions(ty: u16, flags: u16, indices: &[u32]) -> Vec<u8> {
    let mut w = Writer::new();
    let mark = w.message(ty, nlm::F_REQUEST | flags, 1, 0);
    w.fixed(&TcaMsg::default());
    let tab = w.nest(tca::root::TAB);
    for (at, &index) in (1..).zip(indices) {
        let nest = w.nest(at);
        w.put_str(act::KIND, "gact");
        if ty == rtm::NEWACTION {
            let parms = w.nest(act::OPTIONS);
            let wanted = TcGen {
                index,
                ..TcGen::default()
            };
            w.put_fixed(gact::PARMS, &wanted);
            w.end(parms);
        } else {
            w.put_u32(act::INDEX, index);
        }
        w.end(nest);
    }
    w.end(tab);
    w.finish(mark).unwrap();
    w.into_vec()
}

/// `tcf_idr_check_alloc` waits for an index that is reserved. Here the request itself has reserved
/// it, so Linux waits forever.
#[test]
fn an_index_twice_in_a_request_is_refused_at_once() {
    let stack = Stack::default();
    let twice = actions(rtm::NEWACTION, nlm::F_CREATE | nlm::F_EXCL, &[5, 6, 5]);
    assert_eq!(stack.request(&twice).unwrap_err().errno, EBUSY);
    assert!(tc(&stack, "tc actions list action gact").is_empty());
    let once = actions(rtm::NEWACTION, nlm::F_CREATE | nlm::F_EXCL, &[5, 6]);
    stack.request(&once).unwrap();
}

/// Deleting an action drops the single reference of its creation, whatever other references are
/// held.
#[test]
fn stress_actions_are_deleted_once() {
    let stack = &Stack::default();
    tc(stack, "tc qdisc add dev d0 clsact");
    std::thread::scope(|scope| {
        for me in 0..THREADS {
            scope.spawn(move || {
                for round in 0..ROUNDS * 50 {
                    let index = 1 + (me + round) % 3;
                    let (flags, prio) = (nlm::F_CREATE | nlm::F_EXCL, 1 + me as u16);
                    let result = match (me + round / 7) % 5 {
                        0 => stack.request(&actions(rtm::NEWACTION, flags, &[index])),
                        1 => stack.request(&actions(rtm::DELACTION, 0, &[index])),
                        2 => stack.request(&actions(rtm::GETACTION, 0, &[index])),
                        3 => stack.request(&actions(rtm::DELACTION, nlm::F_ROOT, &[index])),
                        _ => {
                            let request = |ty, flags| filter(ty, flags, 0, prio, 1, prio, index);
                            stack.request(&request(rtm::NEWTFILTER, flags)).unwrap();
                            stack.request(&request(rtm::DELTFILTER, 0))
                        }
                    };
                    if let Err(error) = result {
                        // The action exists, does not exist, or is bound to a filter.
                        assert!(matches!(error.errno, EEXIST | ENOENT | EPERM), "{error}");
                    }
                }
            });
        }
    });
    // The remaining actions have only the reference of their creation, so one request deletes them.
    stack
        .request(&actions(rtm::DELACTION, nlm::F_ROOT, &[1]))
        .unwrap();
    assert!(tc(stack, "tc actions list action gact").is_empty());
    stack
        .request(&actions(
            rtm::NEWACTION,
            nlm::F_CREATE | nlm::F_EXCL,
            &[1, 2, 3],
        ))
        .unwrap();
}

/// A class that is deleted during a dump is shown as itself or not at all.
#[test]
fn stress_classes_change_during_a_dump() {
    let stack = &Stack::default();
    let all = vectors(include_str!("../../tests/vectors/qdisc.vec"));
    let qdisc = |command: &str| {
        let (_, datagrams) = all.iter().find(|(found, _)| found == command).unwrap();
        datagrams[0].clone()
    };
    stack
        .request(&qdisc("tc qdisc add dev d0 root handle 1: drr"))
        .unwrap();
    let add = qdisc("tc class add dev d0 parent 1: classid 1:1 drr quantum 3000");
    // Sends the same request for another class, or its deletion.
    let class = |ty: u16, minor: u32| {
        let mut request = add.clone();
        request[4..6].copy_from_slice(&ty.to_ne_bytes());
        request[24..28].copy_from_slice(&(1 << 16 | minor).to_ne_bytes());
        stack.request(&request).map(drop)
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let change = scope.spawn(|| {
            for round in 0..ROUNDS * 25 {
                (1..=9).for_each(|minor| class(rtm::NEWTCLASS, minor).unwrap());
                let kept = round % 9 + 1;
                (1..=9)
                    .filter(|&minor| minor != kept)
                    .for_each(|minor| class(rtm::DELTCLASS, minor).unwrap());
                class(rtm::DELTCLASS, kept).unwrap();
            }
        });
        // More readers than CPUs, so that a reader is sometimes preempted in the middle of a dump.
        for _ in 0..THREADS / 2 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    for answer in tc(stack, "tc class show dev d0") {
                        let tcm = answer.message().fixed::<TcMsg>().unwrap();
                        assert_eq!((tcm.handle >> 16, tcm.parent), (1, tca::h::ROOT));
                        assert_ne!(tcm.handle & 0xffff, 0, "the qdisc is no class");
                    }
                }
            });
        }
        let changed = change.join();
        done.store(true, Relaxed);
        changed.unwrap();
    });
}

/// A dump that finds nothing ends even if an action is created right after its last lookup; it must
/// not report that the datagram is too small.
#[test]
fn stress_actions_are_created_during_an_empty_dump() {
    let stack = &Stack::default();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let dumps = scope.spawn(|| {
            while !done.load(Relaxed) {
                tc(stack, "tc actions list action gact");
            }
        });
        let add = actions(rtm::NEWACTION, nlm::F_CREATE | nlm::F_EXCL, &[5]);
        let del = actions(rtm::DELACTION, 0, &[5]);
        for _ in 0..ROUNDS * 100 {
            if dumps.is_finished() {
                break;
            }
            stack.request(&add).unwrap();
            stack.request(&del).unwrap();
        }
        done.store(true, Relaxed);
        dumps.join().unwrap();
    });
}
