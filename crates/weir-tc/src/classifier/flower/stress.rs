// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lookups while filters are added and deleted: once its request was answered, every packet finds a
//! filter until it is deleted, however often tables and sieves are resized in between.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

use weir_netlink::tca::{self, flower as attr};
use weir_netlink::{TcMsg, Writer, nlm, rtm};
use weir_packet::Batch;

use crate::classifier::Lookup;
use crate::context::Context;
use crate::testing::{Stack, ipv4, vectors};

/// The number of threads that add filters, each under a mask of its own and one that all share.
const THREADS: u32 = 3;
const FILTERS: u32 = if cfg!(miri) { 40 } else { 1500 };

/// Encodes request `ty` for a filter that matches destination 10.x.y.z/`prefix` and selects class
/// `class`.
fn filter(ty: u16, handle: u32, dst: u32, prefix: u32, class: u32) -> Vec<u8> {
    let mut w = Writer::new();
    let flags = match ty {
        rtm::NEWTFILTER => nlm::F_CREATE | nlm::F_EXCL,
        _ => 0,
    };
    let mark = w.message(ty, nlm::F_REQUEST | flags, 1, 0);
    w.fixed(&TcMsg {
        ifindex: 3,
        handle,
        parent: 0xffff_fff2,
        info: TcMsg::make_info(1, 0x0800),
        ..TcMsg::default()
    });
    w.put_str(tca::KIND, "flower");
    let options = w.nest(tca::OPTIONS);
    w.put_be16(attr::KEY_ETH_TYPE, 0x0800);
    w.put_be32(attr::KEY_IPV4_DST, dst);
    w.put_be32(attr::KEY_IPV4_DST_MASK, u32::MAX << (32 - prefix));
    w.put_u32(attr::CLASSID, 0x1_0000 | class);
    w.end(options);
    w.finish(mark).unwrap();
    w.into_vec()
}

/// Returns the destination of filter `n` of a thread, which no other thread's filters match.
fn address(thread: u32, n: u32) -> u32 {
    0x0a00_0000 | thread << 20 | n << 4
}

/// Returns the classes of packets to these destinations, looked up as a batch.
fn classes(stack: &Stack, lookup: &mut Lookup, to: impl Iterator<Item = u32>) -> Vec<u16> {
    let mut batch = Batch::new();
    for dst in to {
        let frame = ipv4(17, [1; 4], dst.to_be_bytes(), 1, 2);
        batch.push(stack.packet(&frame)).unwrap();
    }
    let guard = stack.domain.pin();
    let (mut copies, mut ended, mut zero) = (Vec::new(), Vec::new(), || 0);
    let mut cx = Context::new(&guard, 0, 0, 3, &mut zero, &mut copies);
    let tc = &stack.devices[&3].tc;
    tc.ingress_batch(&mut cx, lookup, (&mut batch, None), &mut ended);
    batch.iter().map(|packet| packet.tc_index).collect()
}

/// Returns a stack whose device has a clsact.
pub(super) fn stack() -> Stack {
    let stack = Stack::default();
    let all = vectors(include_str!("../../../tests/vectors/control.vec"));
    let clsact = "tc qdisc add dev d0 clsact";
    let add = all.into_iter().find(|(command, _)| command == clsact);
    stack.request(&add.unwrap().1[0]).unwrap();
    stack
}

/// Threads add and delete one filter each, and one of them sometimes so many that the rest is no longer searched one by
/// one: a filter is found as soon as its request was answered, and no longer once that for its deletion was.
#[test]
fn a_few_filters_come_and_go() {
    let stack = &stack();
    std::thread::scope(|scope| {
        for me in 0..THREADS {
            scope.spawn(move || {
                let mut lookup = Lookup::default();
                for n in 0..FILTERS / 3 {
                    let count = if me == 0 && n % 50 == 49 { 5 } else { 1 };
                    let dst = |i| address(me, n * 5 + i);
                    let prefix = if n % 2 == 0 { 28 } else { 32 - me };
                    let request = |ty, i| {
                        let handle = 1 + me * 10 + i;
                        stack
                            .request(&filter(ty, handle, dst(i), prefix, 1 + handle))
                            .unwrap();
                    };
                    (0..count).for_each(|i| request(rtm::NEWTFILTER, i));
                    let to = || (0..count).chain(std::iter::repeat_n(0, 9)).map(dst);
                    let wanted: Vec<_> = (0..count).chain(std::iter::repeat_n(0, 9)).collect();
                    let found = classes(stack, &mut lookup, to());
                    for (i, class) in wanted.into_iter().zip(found) {
                        assert_eq!(u32::from(class), 2 + me * 10 + i);
                    }
                    (0..count).for_each(|i| request(rtm::DELTFILTER, i));
                    assert!(
                        classes(stack, &mut lookup, to())
                            .iter()
                            .all(|class| *class == 0)
                    );
                    stack.heard();
                }
            });
        }
    });
}

#[test]
fn existing_filters_are_found() {
    let stack = &stack();
    let added: [AtomicU32; THREADS as usize] = Default::default();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|me| {
                let added = &added[me as usize];
                scope.spawn(move || {
                    for n in 0..FILTERS {
                        let prefix = if n % 2 == 0 { 28 } else { 32 - me };
                        let (handle, class) = (1 + me * FILTERS + n, 1 + n % 1000);
                        let dst = address(me, n);
                        let request = |ty| stack.request(&filter(ty, handle, dst, prefix, class));
                        request(rtm::NEWTFILTER).unwrap();
                        if n % 3 == 0 {
                            // Deletes the filter and adds it again, so that its bits are already in
                            // the sieve.
                            request(rtm::DELTFILTER).unwrap();
                            request(rtm::NEWTFILTER).unwrap();
                        }
                        added.store(n + 1, Release);
                        stack.heard();
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut lookup = Lookup::default();
            let mut turn = 0_u32;
            while !done.load(Acquire) {
                let me = turn % THREADS;
                let there = added[me as usize].load(Acquire);
                turn += 1;
                if there == 0 {
                    continue;
                }
                // The latest filter and some earlier ones.
                let which = |i: u32| (there - 1).saturating_sub(i * i * (1 + turn % 7));
                let to = (0..40).map(|i| address(me, which(i)));
                for (i, class) in (0..).zip(classes(stack, &mut lookup, to)) {
                    let n = which(i);
                    assert_eq!(u32::from(class), 1 + n % 1000, "filter {n} of {there}");
                }
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Release);
    });
}
