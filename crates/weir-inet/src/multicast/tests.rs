// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The decision about a packet against a list that is searched from one end to the other.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use proptest::prelude::*;
use weir_sync::rcu::{Config, Domain};

use super::cache::{Arrival, Cache, Uses};
use super::*;

/// An entry of the oracle.
#[derive(Debug, Clone)]
struct Plain {
    origin: u8,
    group: u8,
    parent: u8,
    thresholds: [u8; MAX_VIFS],
}

#[derive(Debug, Clone)]
enum Operation {
    /// Adds an entry, or changes the first of the key.
    Add(Plain, bool),
    Delete(u8, u8, Option<u8>),
}

/// The entries, the newest first.
#[derive(Default)]
struct Oracle(Vec<(u64, Plain)>);

impl Oracle {
    fn find(&self, origin: u8, group: u8, parent: Option<u8>) -> Option<usize> {
        self.0.iter().position(|(_, one)| {
            (one.origin, one.group) == (origin, group) && parent.is_none_or(|at| at == one.parent)
        })
    }

    fn tree(&self, parent: u8, vif: u8) -> bool {
        let any = |(_, one): &&(u64, Plain)| {
            (one.origin, one.group) == (0, 0) && one.thresholds[usize::from(parent)] < 255
        };
        let first = self.0.iter().find(any);
        first.is_some_and(|(_, one)| one.thresholds[usize::from(vif)] < 255)
    }

    /// The entry that a packet goes by.
    fn choose(&self, origin: u8, group: u8, vif: u8) -> Option<&(u64, Plain)> {
        let leads = |one: &Plain| one.thresholds[usize::from(vif)] < 255;
        let exact = |(_, one): &&(u64, Plain)| (one.origin, one.group) == (origin, group);
        let of_group = |(_, one): &&(u64, Plain)| {
            (one.origin, one.group) == (0, group) && (leads(one) || self.tree(one.parent, vif))
        };
        let any = |(_, one): &&(u64, Plain)| (one.origin, one.group) == (0, 0) && leads(one);
        let list = || self.0.iter();
        let found = list().find(exact);
        found
            .or_else(|| list().find(of_group))
            .or_else(|| list().find(any))
    }

    /// The VIFs that it leaves by; VIF `n` is that of device `n`.
    fn ways(&self, one: &Plain, vif: u8, ttl: u8) -> Option<Vec<u8>> {
        let wild = one.origin == 0;
        if one.parent != vif && !(wild && self.tree(one.parent, vif)) {
            return None;
        }
        let passes = |to: u8| ttl > one.thresholds[usize::from(to)];
        if wild && one.group == 0 {
            let up = one.parent != vif && passes(one.parent);
            return Some(if up { vec![one.parent] } else { Vec::new() });
        }
        let all = (0..MAX_VIFS as u8).filter(|to| one.thresholds[usize::from(*to)] < 255);
        Some(
            all.filter(|to| passes(*to) && !(wild && *to == vif))
                .collect(),
        )
    }
}

/// Makes the address of a source or of a group from a number; 0 stands for any.
trait Sample: Address {
    fn sample(is_group: bool, n: u8) -> Self;
}

impl Sample for Ipv4Addr {
    fn sample(is_group: bool, n: u8) -> Self {
        match n {
            0 => Self::ANY,
            n => Self::new(if is_group { 225 } else { 10 }, 0, 0, n),
        }
    }
}

impl Sample for Ipv6Addr {
    fn sample(is_group: bool, n: u8) -> Self {
        let first = if is_group { 0xff05 } else { 0xfc00 };
        match n {
            0 => Self::ANY,
            n => Self::new(first, 0, 0, 0, 0, 0, 0, n.into()),
        }
    }
}

fn key<A: Sample>(origin: u8, group: u8) -> Key<A> {
    Key::from((A::sample(false, origin), A::sample(true, group)))
}

fn thresholds() -> impl Strategy<Value = [u8; MAX_VIFS]> {
    let place = prop_oneof![Just(255), Just(255), 1..5u8];
    proptest::collection::vec(place, 5).prop_map(|some| {
        let mut all = [255; MAX_VIFS];
        // The last one is the highest VIF.
        for (at, ttl) in [0, 1, 2, 3, 31].into_iter().zip(some) {
            all[at] = ttl;
        }
        all
    })
}

fn vif() -> impl Strategy<Value = u8> {
    prop_oneof![0..4u8, Just(31)]
}

fn operation() -> impl Strategy<Value = Operation> {
    let add = (0..3u8, 0..3u8, vif(), thresholds(), any::<bool>());
    let add = add.prop_map(|(origin, group, parent, thresholds, proxy)| {
        let plain = Plain {
            origin,
            group,
            parent,
            thresholds,
        };
        Operation::Add(plain, proxy)
    });
    let delete = (0..3u8, 0..3u8, proptest::option::of(vif()));
    prop_oneof![
        3 => add,
        1 => delete.prop_map(|(origin, group, parent)| Operation::Delete(origin, group, parent)),
    ]
}

/// A packet: source, group, VIF, TTL.
type Arriving = (u8, u8, u8, u8);

fn check<A: Sample>(operations: &[Operation], packets: &[Arriving]) -> Result<(), TestCaseError> {
    let domain = Domain::new(Config::default());
    let (cache, mut oracle) = (Cache::<A>::new(&domain), Oracle::default());
    let guard = domain.pin();
    for (number, operation) in operations.iter().cloned().enumerate() {
        match operation {
            Operation::Add(plain, proxy) => {
                let by = proxy.then_some(plain.parent);
                let known = oracle.find(plain.origin, plain.group, by);
                let number = known.map_or(number as u64, |at| oracle.0[at].0);
                cache.put(
                    &Arc::new(Entry {
                        key: key(plain.origin, plain.group),
                        parent: plain.parent,
                        thresholds: plain.thresholds,
                        is_static: false,
                        number,
                        uses: Arc::new(Uses::default()),
                    }),
                    &guard,
                );
                match known {
                    Some(at) => oracle.0[at].1 = plain,
                    None => oracle.0.insert(0, (number, plain)),
                }
            }
            Operation::Delete(origin, group, parent) => {
                let found = cache.find(key(origin, group), parent.map(u16::from), &guard);
                let at = oracle.find(origin, group, parent);
                prop_assert_eq!(found.map(|entry| entry.number), at.map(|at| oracle.0[at].0));
                if let (Some(found), Some(at)) = (found, at) {
                    cache.remove(found, &guard);
                    oracle.0.remove(at);
                }
            }
        }
    }
    for (origin, group, vif, ttl) in packets.iter().copied() {
        let wanted = oracle.choose(origin, group, vif);
        let entry = cache.find_for(key(origin, group), Some(vif), &guard);
        prop_assert_eq!(
            entry.map(|entry| entry.number),
            wanted.map(|(number, _)| *number)
        );
        let (Some(entry), Some((_, plain))) = (entry, wanted) else {
            continue;
        };
        let arrival = Arrival {
            vif: Some(vif),
            by_parent: vif == entry.parent,
            ttl,
        };
        let ways = cache.ways(entry, arrival, &guard);
        let ways = ways.map(|ways| (0..32u8).filter(|at| ways >> at & 1 != 0).collect());
        prop_assert_eq!(ways, oracle.ways(plain, vif, ttl));
    }
    Ok(())
}

proptest! {
    #[test]
    fn packets_go_where_the_oracle_sends_them(
        operations in proptest::collection::vec(operation(), 1..24),
        packets in proptest::collection::vec((1..3u8, 1..3u8, vif(), 0..7u8), 32),
    ) {
        check::<Ipv4Addr>(&operations, &packets)?;
        check::<Ipv6Addr>(&operations, &packets)?;
    }
}

#[test]
fn a_report_about_an_entry_waits_three_seconds() {
    let uses = Uses::default();
    let second = crate::clock::SECOND;
    assert!(uses.may_report(0) && !uses.may_report(3 * second));
    assert!(uses.may_report(3 * second + 1) && !uses.may_report(4 * second));
}
