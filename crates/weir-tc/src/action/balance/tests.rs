// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the action through requests and packets.

use std::collections::BTreeMap;

use weir_netlink::errno::{EEXIST, EINVAL, ERANGE};
use weir_netlink::{Fixed, TcGen, Writer, nlm};
use weir_packet::checksum;
use weir_packet::header::ethernet::ethernet;
use weir_packet::header::ipv4::ipv4;
use weir_packet::header::transport::{fill_check_v4, tcp, udp};

use super::super::requests::{at_ingress, gen_parms, new_action, options_of};
use super::*;
use crate::testing::Stack;
use crate::verdict::Verdict;

const ADD: u16 = nlm::F_CREATE | nlm::F_EXCL;
const REPLACE: u16 = nlm::F_CREATE | nlm::F_REPLACE;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SERVICE: [u8; 4] = [192, 0, 2, 80];

fn ends(protocol: u8, [a, b, c, d]: [u8; 4], port: u16) -> Ends {
    let mut address = [0; 16];
    address[..4].copy_from_slice(&[a, b, c, d]);
    Ends {
        family: Family::V4,
        protocol,
        address,
        port,
    }
}

fn backend(number: u8, port: u16) -> Listed {
    Listed {
        weight: 1,
        ends: ends(TCP, [10, 9, 0, number], port),
    }
}

fn options(w: &mut Writer, index: u32, service: Ends, backends: &[Listed]) {
    w.put_fixed(attr::PARMS, &gen_parms(index, -1));
    w.put(attr::SERVICE, &service.to_bytes());
    w.put_u32(attr::FLOWS, 1000);
    let list = w.nest(attr::BACKENDS);
    for backend in backends {
        w.put(attr::BACKEND, &bytes_of(backend));
    }
    w.end(list);
}

/// A stack with a balancer of TCP to port 80 at the ingress of d0.
fn stack(backends: &[Listed]) -> Stack {
    let stack = Stack::default();
    for request in at_ingress("balance", |w| {
        options(w, 1, ends(TCP, SERVICE, 80), backends);
    }) {
        stack.request(&request).unwrap();
    }
    stack
}

fn set(stack: &Stack, backends: &[Listed]) {
    let request = new_action("balance", REPLACE, |w| {
        options(w, 1, ends(TCP, SERVICE, 80), backends);
    });
    stack.request(&request).unwrap();
}

fn frame(src: [u8; 4], dst: [u8; 4], protocol: u8, segment: &[u8]) -> Vec<u8> {
    let mut segment = segment.to_vec();
    if protocol != 1 {
        fill_check_v4(src, dst, protocol, &mut segment);
    }
    let mut frame = ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 9], 0x0800).to_vec();
    frame.extend(ipv4(src, dst, protocol, 64, 0, 1, 0, segment.len()));
    frame.extend(segment);
    frame
}

fn client(flow: u16) -> Vec<u8> {
    let mut segment = tcp(flow, 80, 1, 0, 2).to_vec();
    segment.extend(b"data");
    frame([10, 1, 0, 1], SERVICE, TCP, &segment)
}

/// Sends a frame through the ingress of d0. Returns the network packet after it.
fn send(stack: &Stack, frame: &[u8]) -> Vec<u8> {
    let mut packet = stack.packet(frame);
    let (verdict, _) = stack.hook(3, true, &mut packet);
    assert!(matches!(verdict, Verdict::Pass), "{verdict:?}");
    packet.mac()[14..].to_vec()
}

fn address(packet: &[u8], at: usize) -> [u8; 4] {
    packet[at..at + 4].try_into().unwrap()
}

/// Returns source, destination and ports of a TCP packet, whose checksums are right.
fn read(packet: &[u8]) -> ([u8; 4], [u8; 4], u16, u16) {
    let (src, dst) = (address(packet, 12), address(packet, 16));
    assert!(checksum::verify(&packet[..20]));
    assert!(checksum::verify_v4(src, dst, TCP, &packet[20..]));
    let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    (src, dst, port(20), port(22))
}

fn moves(stack: &Stack) -> Moves {
    let [report] = &stack.env(|env| reports(env.net, env.guard))[..] else {
        panic!("one balancer");
    };
    report.moves
}

#[test]
fn flows_are_spread_and_stay_while_backends_come_and_go() {
    let all: Vec<Listed> = (1..=5).map(|number| backend(number, 8080)).collect();
    assert!(!Stack::default().env(|env| env.net.looks_up()));
    let stack = stack(&all);
    assert!(stack.env(|env| env.net.looks_up()));
    let pick = |flow: u16| {
        let (src, dst, from, to) = read(&send(&stack, &client(flow)));
        assert_eq!((src, from, to), ([10, 1, 0, 1], flow, 8080));
        dst[3]
    };
    let first: Vec<u8> = (1000..1400).map(pick).collect();
    let mut shares = BTreeMap::new();
    for number in &first {
        *shares.entry(number).or_insert(0) += 1;
    }
    assert!(shares.len() == 5 && shares.values().all(|share| (40..130).contains(share)));
    assert_eq!(first, (1000..1400).map(pick).collect::<Vec<_>>());
    assert_eq!((moves(&stack).new, moves(&stack).kept), (400, 0));
    // One leaves and another comes: only flows of the first move.
    let next: Vec<Listed> = [1, 2, 4, 5, 6].map(|number| backend(number, 8080)).into();
    set(&stack, &next);
    let second: Vec<u8> = (1000..1400).map(pick).collect();
    for (before, after) in first.iter().zip(&second) {
        assert!(if *before == 3 {
            *after != 3
        } else {
            before == after
        });
    }
    let gone = first.iter().filter(|number| **number == 3).count() as u64;
    let now = moves(&stack);
    assert_eq!((now.new, now.kept, now.moved), (400, 400 - gone, gone));
    // The new one would have got flows of the others by the table.
    assert!(now.table_moved > gone && now.table_moved < 300, "{now:?}");
    // A packet on its way back from the backend that left is still one of the service.
    let late = frame(
        [10, 9, 0, 3],
        [10, 1, 0, 1],
        TCP,
        &tcp(8080, 1000, 1, 2, 16),
    );
    assert_eq!(
        read(&send(&stack, &late)),
        (SERVICE, [10, 1, 0, 1], 80, 1000)
    );
}

#[test]
fn replies_and_errors_are_translated() {
    let stack = stack(&[backend(1, 8080)]);
    let there = send(&stack, &client(1234));
    let reply = frame(
        [10, 9, 0, 1],
        [10, 1, 0, 1],
        TCP,
        &tcp(8080, 1234, 1, 2, 18),
    );
    assert_eq!(
        read(&send(&stack, &reply)),
        (SERVICE, [10, 1, 0, 1], 80, 1234)
    );
    // A router before the backend cannot forward the packet: the client hears about its own.
    let mut error = vec![3, 4, 0, 0, 0, 0, 5, 0xdc];
    error.extend(&there[..28]);
    let check = checksum::Sum::new().add(&error).finish();
    error[2..4].copy_from_slice(&check.to_be_bytes());
    let told = send(&stack, &frame([10, 9, 0, 1], [10, 1, 0, 1], 1, &error));
    assert_eq!(
        (address(&told, 12), address(&told, 16)),
        (SERVICE, [10, 1, 0, 1])
    );
    let inside = &told[28..];
    assert_eq!(
        (address(inside, 12), address(inside, 16)),
        ([10, 1, 0, 1], SERVICE)
    );
    assert_eq!(inside[20..24], [4, 210, 0, 80]);
    assert!(checksum::verify(&told[20..]) && checksum::verify(&inside[..20]));
    // A router before the client cannot forward the reply: the backend hears about its own.
    let mut error = vec![3, 1, 0, 0, 0, 0, 0, 0];
    error.extend(&send(&stack, &reply)[..28]);
    let check = checksum::Sum::new().add(&error).finish();
    error[2..4].copy_from_slice(&check.to_be_bytes());
    let told = send(&stack, &frame([10, 1, 0, 254], SERVICE, 1, &error));
    assert_eq!(
        (address(&told, 12), address(&told, 16)),
        ([10, 1, 0, 254], [10, 9, 0, 1])
    );
    let inside = &told[28..];
    assert_eq!(
        (address(inside, 12), address(inside, 16)),
        ([10, 9, 0, 1], [10, 1, 0, 1])
    );
    assert_eq!(inside[20..24], [31, 144, 4, 210]);
    assert!(checksum::verify(&told[20..]) && checksum::verify(&inside[..20]));
}

#[test]
fn other_packets_pass_and_bad_ones_are_counted() {
    let stack = stack(&[backend(1, 0)]);
    let counts = || {
        let table = stack
            .net
            .actions(super::super::find_ops(b"balance").unwrap());
        let totals = table.next(0).unwrap().1.common.counters.totals();
        (totals.drops, totals.overlimits)
    };
    let others = [
        frame([10, 1, 0, 1], SERVICE, TCP, &tcp(9, 443, 1, 0, 2)),
        frame([10, 1, 0, 1], SERVICE, UDP, &udp(9, 80, 8)),
        frame([10, 1, 0, 1], [192, 0, 2, 81], TCP, &tcp(9, 80, 1, 0, 2)),
        frame([10, 9, 0, 1], [10, 1, 0, 1], TCP, &tcp(22, 9, 1, 0, 2)),
    ];
    for other in others {
        assert_eq!(send(&stack, &other), other[14..]);
    }
    assert_eq!(counts(), (0, 0));
    let whole = client(7);
    for len in 15..14 + 20 + 4 {
        assert_eq!(send(&stack, &whole[..len]), whole[14..len]);
    }
    let mut fragment = whole.clone();
    fragment[20] = 0x20;
    assert_eq!(send(&stack, &fragment), fragment[14..]);
    assert_eq!(counts(), (0, 24));
    // Port 0 of a backend stands for that of the service.
    assert_eq!(read(&send(&stack, &whole)).3, 80);
    set(&stack, &[]);
    let mut packet = stack.packet(&whole);
    let (verdict, _) = stack.hook(3, true, &mut packet);
    assert!(matches!(verdict, Verdict::Drop(..)), "{verdict:?}");
    assert_eq!(counts(), (1, 24));
    // A backend that only keeps its flows has none.
    set(
        &stack,
        &[Listed {
            weight: 0,
            ..backend(1, 0)
        }],
    );
    let (verdict, _) = stack.hook(3, true, &mut stack.packet(&client(8)));
    assert!(matches!(verdict, Verdict::Drop(..)), "{verdict:?}");
}

#[test]
fn bad_requests_change_nothing() {
    let stack = stack(&[backend(1, 80), backend(2, 80)]);
    let before = options_of(&stack, "balance", 1);
    let service = ends(TCP, SERVICE, 80);
    let v6 = Ends {
        family: Family::V6,
        ..backend(3, 80).ends
    };
    let listed = |ends| Listed { weight: 1, ends };
    let many: Vec<Listed> = (0..1100u16)
        .map(|n| listed(ends(TCP, [10, 8, (n >> 8) as u8, n as u8], 80)))
        .collect();
    for (text, service, backends) in [
        ("Invalid service", ends(1, SERVICE, 80), vec![]),
        ("Invalid service", ends(TCP, SERVICE, 0), vec![]),
        (
            "A backend is listed twice",
            service,
            vec![backend(3, 0), backend(3, 80)],
        ),
        (
            "A backend differs from the service in family or protocol",
            service,
            vec![listed(v6)],
        ),
        (
            "The service cannot be its own backend",
            service,
            vec![listed(service)],
        ),
        ("Too many backends", service, many),
    ] {
        let request = new_action("balance", REPLACE, |w| options(w, 1, service, &backends));
        let error = stack.request(&request).unwrap_err();
        assert_eq!(error.errno, EINVAL, "{text}");
        assert_eq!(
            error.message.as_deref(),
            Some(&*format!("act_balance: {text}"))
        );
    }
    type Fill = fn(&mut Writer);
    let wrong: [Fill; 5] = [
        |w| w.put(attr::SERVICE, &[2, 6, 0]),
        |w| w.put(attr::SERVICE, &[2; 20]),
        |w| w.put_u32(attr::FLOWS, 0),
        |w| w.put_u32(attr::FLOWS, MOST_FLOWS + 1),
        // Without a service.
        |_| (),
    ];
    for fill in wrong {
        let request = new_action("balance", REPLACE, |w| {
            w.put_fixed(attr::PARMS, &gen_parms(1, -1));
            fill(w);
        });
        let errno = stack.request(&request).unwrap_err().errno;
        assert!(matches!(errno, EINVAL | ERANGE), "{errno}");
    }
    let again = new_action("balance", ADD, |w| options(w, 1, service, &[]));
    assert_eq!(stack.request(&again).unwrap_err().errno, EEXIST);
    assert_eq!(options_of(&stack, "balance", 1), before);
    assert_eq!(TcGen::from_bytes(&before[0].1).unwrap().index, 1);
}

#[test]
fn a_backend_has_the_same_number_in_any_order() {
    let all: Vec<Listed> = (1..=200).map(|number| backend(number, 80)).collect();
    let reversed: Vec<Listed> = all.iter().rev().copied().collect();
    let none = BTreeMap::new();
    let numbers = number(&all, &none);
    assert_eq!(numbers, number(&reversed, &none));
    assert_eq!(numbers.len(), 200);
    // Those that stay keep theirs, and one that comes does not get that of one that leaves.
    let mut next = all.clone();
    next[7] = backend(250, 80);
    let after = number(&next, &numbers);
    for (id, backend) in &after {
        assert_eq!(!numbers.contains_key(id), backend.ends.address[3] == 250);
    }
}
