// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verdicts and queueing of packets under filters, actions and qdiscs created with tc.

use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::TcaMsg;
use weir_netlink::tca::{act, root, stats};
use weir_packet::{Batch, DropReason};

use crate::context::Context;
use crate::qdisc::Drops;
use crate::qdisc::root::Room;
use crate::testing::{Stack, ipv4, vectors};
use crate::verdict::{Target, Verdict};

const UDP: u8 = 17;
const TCP: u8 = 6;
/// The key of d1, index 5.
const D1: u64 = 1005;

fn tc(stack: &Stack, commands: &[&str]) {
    let all = vectors(include_str!("../../tests/vectors/control.vec"));
    for command in commands {
        let found = all.iter().find(|(recorded, _)| recorded == command);
        let (_, datagrams) = found.unwrap_or_else(|| panic!("not recorded: {command}"));
        for bytes in datagrams {
            stack
                .request(bytes)
                .unwrap_or_else(|error| panic!("{command}: {error}"));
        }
    }
}

fn filtered(commands: &[&str]) -> Stack {
    let stack = Stack::default();
    tc(&stack, &["tc qdisc add dev d0 clsact"]);
    tc(&stack, commands);
    stack
}

fn from(host: u8) -> Vec<u8> {
    ipv4(UDP, [192, 0, 2, host], [192, 0, 2, 200], 1000, 53)
}

#[test]
fn the_first_filter_that_matches_decides() {
    let stack = filtered(&[
        "tc filter add dev d0 ingress protocol ip prio 7 handle 5 flower dst_ip 192.0.2.1 action pass",
        "tc filter add dev d0 ingress protocol ip flower dst_ip 192.0.2.0/24 action drop",
    ]);
    let to = |dst| stack.receive(&ipv4(UDP, [10, 0, 0, 1], dst, 1, 2));
    assert_eq!(to([192, 0, 2, 1]), Verdict::Pass);
    assert_eq!(to([192, 0, 2, 2]), Verdict::Drop(DropReason::TC_INGRESS));
    assert_eq!(to([192, 0, 3, 1]), Verdict::Pass);
    let arp = [&[0xff; 12][..], &[8, 6], &[0; 28]].concat();
    assert_eq!(stack.receive(&arp), Verdict::Pass, "another protocol");
    // Two packets matched drop or pass; all four entered the filter list.
    let shown = stack.devices[&3].tc.tree().ingress.clone().unwrap().stats();
    assert_eq!((shown.0, shown.1, shown.2.drops), (3 * 40 + 28, 4, 1));
}

#[test]
fn actions_count_what_they_see_and_when() {
    let stack = filtered(&[
        "tc filter add dev d0 ingress protocol ip flower dst_ip 192.0.2.0/24 action drop",
    ]);
    stack.now.fetch_add(3_000_000_000, Relaxed);
    for _ in 0..3 {
        stack.receive(&from(1));
    }
    stack.now.fetch_add(2_000_000_000, Relaxed);
    let all = vectors(include_str!("../../tests/vectors/control.vec"));
    let list = all
        .into_iter()
        .find(|(command, _)| command == "tc actions list action gact");
    let answers = stack.request(&list.unwrap().1[0]).unwrap();
    let tab = answers[0]
        .message()
        .attrs::<TcaMsg>()
        .find_type(root::TAB)
        .unwrap();
    let action = tab.attrs().next().unwrap();
    let counts = action.attrs().find_type(act::STATS).unwrap();
    let basic = counts.attrs().find_type(stats::BASIC).unwrap();
    assert_eq!((basic.u64().unwrap(), basic.payload[8]), (3 * 40, 3));
    let queue = counts.attrs().find_type(stats::QUEUE).unwrap();
    assert_eq!(queue.payload[8], 3, "drops");
    let options = action.attrs().find_type(act::OPTIONS).unwrap();
    let tm = options
        .attrs()
        .find_type(weir_netlink::tca::gact::TM)
        .unwrap();
    let tm: Vec<u64> = tm
        .payload
        .chunks(8)
        .map(|age| u64::from_ne_bytes(age.try_into().unwrap()))
        .collect();
    assert_eq!(
        tm,
        [500, 200, 0, 200],
        "installed, last and first used, in 1/100 s"
    );
}

#[test]
fn goto_chain_is_followed_and_an_empty_chain_matches_nothing() {
    let stack = filtered(&[
        "tc filter add dev d0 ingress protocol ip prio 10 flower src_ip 192.0.2.9 action goto chain 9",
    ]);
    assert_eq!(stack.receive(&from(9)), Verdict::Pass);
    tc(
        &stack,
        &[
            "tc filter add dev d0 ingress chain 9 protocol ip prio 1 flower src_ip 192.0.2.9 action drop",
        ],
    );
    assert_eq!(
        stack.receive(&from(9)),
        Verdict::Drop(DropReason::TC_INGRESS)
    );
    assert_eq!(stack.receive(&from(8)), Verdict::Pass);
}

#[test]
fn a_reclassify_loop_ends() {
    let stack = filtered(&[
        "tc filter add dev d0 ingress protocol ip prio 4 flower src_ip 192.0.2.4 action reclassify",
    ]);
    assert_eq!(
        stack.receive(&from(4)),
        Verdict::Drop(DropReason::TC_RECLASSIFY_LOOP)
    );
}

#[test]
fn the_class_becomes_the_packet_s_tc_index() {
    let stack = filtered(&[
        "tc filter add dev d0 ingress protocol ip prio 5 flower src_ip 192.0.2.5 classid 1:7 action pass",
    ]);
    let mut packet = stack.packet(&from(5));
    assert_eq!(stack.hook(3, true, &mut packet).0, Verdict::Pass);
    assert_eq!(packet.tc_index, 7);
}

#[test]
fn a_jump_skips_actions_from_the_start() {
    let stack = filtered(&[
        "tc filter add dev d0 ingress protocol ip prio 6 flower src_ip 192.0.2.6 action jump 2 action drop action pass",
    ]);
    assert_eq!(stack.receive(&from(6)), Verdict::Pass);
}

#[test]
fn determ_verdicts_apply_to_every_nth_packet() {
    let stack = filtered(&[
        "tc filter add dev d0 ingress protocol ip prio 8 flower src_ip 192.0.2.7 action pass random determ drop 3",
    ]);
    let dropped: Vec<bool> = (0..6)
        .map(|_| stack.receive(&from(7)) != Verdict::Pass)
        .collect();
    assert_eq!(dropped, [false, false, true, false, false, true]);
}

#[test]
fn police_lets_its_rate_pass() {
    let stack = filtered(&[
        "tc filter add dev d0 ingress protocol ip prio 9 flower src_ip 192.0.2.8 action police rate 1mbit burst 100 conform-exceed drop/pass",
    ]);
    // 40 bytes take 320 us of 800 us of credit.
    let passed = |n: usize| {
        (0..n)
            .filter(|_| stack.receive(&from(8)) == Verdict::Pass)
            .count()
    };
    assert_eq!(passed(5), 2);
    stack.now.fetch_add(200_000, Relaxed);
    assert_eq!(passed(3), 1, "160 + 200 us");
    stack.now.fetch_add(1_000_000_000, Relaxed);
    assert_eq!(passed(5), 2, "the credit is limited to the burst");
}

#[test]
fn mirred_mirrors_and_redirects() {
    let stack = filtered(&[
        "tc filter add dev d0 egress protocol ip flower src_ip 192.0.2.1 action mirred egress mirror dev d1",
        "tc filter add dev d0 ingress protocol ip flower src_ip 192.0.2.1 action mirred egress redirect dev d1",
        "tc filter add dev d0 ingress protocol ip prio 3 flower src_ip 192.0.2.3 action mirred ingress redirect dev d1 pipe action drop",
    ]);
    let to = |ingress| Target {
        device: D1,
        ingress,
    };
    let mut packet = stack.packet(&from(1));
    let (verdict, copies) = stack.hook(3, true, &mut packet);
    assert_eq!((verdict, copies.len()), (Verdict::Redirect(to(false)), 0));
    assert_eq!(
        (packet.data(), packet.nest, packet.iif),
        (&from(1)[..], 1, 3)
    );

    let mut packet = stack.packet(&from(1));
    assert!(packet.data_to_mac());
    let (verdict, copies) = stack.hook(3, false, &mut packet);
    assert_eq!((verdict, copies.len()), (Verdict::Pass, 1));
    assert_eq!(
        (copies[0].target, copies[0].packet.data()),
        (to(false), &from(1)[..])
    );

    let mut packet = stack.packet(&from(3));
    let (verdict, copies) = stack.hook(3, true, &mut packet);
    assert_eq!((verdict, copies.len()), (Verdict::Redirect(to(true)), 0));

    // After a mirror the packet continues with the next action.
    tc(
        &stack,
        &[
            "tc filter add dev d0 ingress protocol all prio 9 matchall action pipe action mirred egress mirror dev d1 action drop",
        ],
    );
    let mut packet = stack.packet(&from(7));
    let (verdict, copies) = stack.hook(3, true, &mut packet);
    assert_eq!(verdict, Verdict::Drop(DropReason::TC_INGRESS));
    assert_eq!((copies.len(), copies[0].target), (1, to(false)));

    let mut packet = stack.packet(&from(1));
    packet.nest = 4;
    assert_eq!(
        stack.hook(3, true, &mut packet).0,
        Verdict::Drop(DropReason::TC_INGRESS)
    );

    stack.devices[&5].up.store(false, Relaxed);
    assert_eq!(
        stack.receive(&from(1)),
        Verdict::Drop(DropReason::TC_INGRESS),
        "target is down"
    );
    stack.devices[&5].up.store(true, Relaxed);
    stack.devices[&5].registered.store(false, Relaxed);
    stack.net.device_gone(D1);
    assert_eq!(
        stack.receive(&from(1)),
        Verdict::Drop(DropReason::TC_INGRESS),
        "target is gone"
    );
}

#[test]
fn ranges_of_ports_are_tried_in_their_order() {
    let stack = filtered(&[
        "tc filter add dev d0 ingress protocol ip prio 7 flower ip_proto tcp dst_port 10-20 action drop",
        "tc filter add dev d0 ingress protocol ip prio 7 flower ip_proto tcp dst_port 15-30 action pass",
    ]);
    let to =
        |port| stack.receive(&ipv4(TCP, [10, 0, 0, 1], [10, 0, 0, 2], 1, port)) == Verdict::Pass;
    let dropped: Vec<u16> = (5..35).filter(|&port| !to(port)).collect();
    assert_eq!(dropped, (10..=20).collect::<Vec<_>>());
}

fn through_queue(stack: &Stack, frames: u16) -> (Vec<u16>, usize) {
    let guard = stack.domain.pin();
    let (mut copies, mut drops) = (Vec::new(), Drops::new());
    let mut random = || 0;
    let mut cx = Context::new(&guard, 0, 0, 3, &mut random, &mut copies);
    let tc = &stack.devices[&3].tc;
    assert!(tc.has_queue());
    let mut batch = Batch::new();
    for i in 0..frames {
        let mut packet = stack.packet(&ipv4(UDP, [10, 0, 0, 1], [10, 0, 0, 2], 1, i));
        assert!(packet.data_to_mac());
        packet.priority = u32::from(i % 8);
        batch.push(packet).unwrap();
    }
    let mut worker = tc
        .push(&guard, 0, &mut batch, (1000, false), &mut drops)
        .unwrap();
    worker.round(&mut cx, &|_| Room::Octets(u32::MAX), &mut batch, &mut drops);
    assert!(worker.leave().is_none());
    let port =
        |packet: &weir_packet::Packet| u16::from_be_bytes([packet.data()[36], packet.data()[37]]);
    (batch.iter().map(port).collect(), drops.len())
}

#[test]
fn packets_beyond_the_burst_are_dropped_in_front_of_the_lock() {
    let stack = Stack::default();
    tc(
        &stack,
        &["tc qdisc add dev d0 handle 1: root pfifo limit 10"],
    );
    let guard = stack.domain.pin();
    let device = &stack.devices[&3].tc;
    let mut drops = Drops::new();
    let push = |frames: u16, drops: &mut Drops| {
        let mut batch = Batch::new();
        for i in 0..frames {
            let mut packet = stack.packet(&ipv4(UDP, [10, 0, 0, 1], [10, 0, 0, 2], 1, i));
            assert!(packet.data_to_mac());
            batch.push(packet).unwrap();
        }
        let worker = device.push(&guard, 0, &mut batch, (5, false), drops);
        worker.map(|worker| (worker, batch))
    };
    // The first batch is accepted whatever its size; after it at most five packets may wait.
    let worker = push(6, &mut drops);
    assert!(push(5, &mut drops).is_none() && drops.is_empty());
    assert!(push(1, &mut drops).is_none());
    let reasons: Vec<_> = drops.iter().map(|(_, reason)| *reason).collect();
    assert_eq!(reasons, [DropReason::QDISC_BURST_DROP]);
    let mut copies = Vec::new();
    let mut random = || 0;
    let mut cx = Context::new(&guard, 0, 0, 3, &mut random, &mut copies);
    let (mut worker, mut batch) = worker.unwrap();
    worker.round(&mut cx, &|_| Room::Octets(u32::MAX), &mut batch, &mut drops);
    assert!(worker.leave().is_none());
    // The queue holds ten of the eleven packets. Its drop counter includes those dropped in front
    // of it.
    assert_eq!((batch.len(), drops.len()), (10, 2));
    let (_, _, queue) = device.tree().root.clone().unwrap().stats();
    assert_eq!(queue.drops, 2);
}

#[test]
fn a_fifo_holds_its_limit_and_keeps_order() {
    let stack = Stack::default();
    tc(
        &stack,
        &["tc qdisc add dev d0 handle 1: root pfifo limit 10"],
    );
    assert_eq!(through_queue(&stack, 14), ((0..10).collect(), 4));
    let (bytes, packets, queue) = stack.devices[&3].tc.tree().root.clone().unwrap().stats();
    assert_eq!((bytes, packets, queue.drops, queue.qlen), (540, 10, 4, 0));
}

#[test]
fn prio_serves_bands_in_order() {
    let stack = Stack::default();
    tc(&stack, &["tc qdisc add dev d0 root handle 1: prio"]);
    // The default priomap: priorities 6 and 7 first, then 0 and 4, then the rest.
    assert_eq!(through_queue(&stack, 8).0, [6, 7, 0, 4, 1, 2, 3, 5]);
    tc(
        &stack,
        &["tc filter add dev d0 parent 1: protocol all prio 1 matchall classid 1:3 action pass"],
    );
    assert_eq!(
        through_queue(&stack, 8).0,
        [0, 1, 2, 3, 4, 5, 6, 7],
        "all in one band"
    );
}
