// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filter in front of the local table.

use std::collections::BTreeSet;

use proptest::prelude::*;
use weir_netlink::rta;

use super::super::lpm::Key;
use super::super::route::{HopConfig, RouteConfig};
use super::{ADD, World};

/// Returns a local route to a prefix.
fn local(dst: u32, dst_len: u8) -> RouteConfig<u32> {
    RouteConfig {
        table: rta::table::LOCAL,
        kind: rta::rtn::LOCAL,
        scope: rta::scope::HOST,
        hop: HopConfig {
            oif: 1,
            ..HopConfig::default()
        },
        dst: dst.masked(dst_len),
        dst_len,
        ..RouteConfig::default()
    }
}

impl World {
    fn may_cover(&self, address: u32) -> bool {
        let guard = self.domain.pin();
        let table = self.fib.v4.table(rta::table::LOCAL, &guard);
        table.is_some_and(|table| table.may_cover(address))
    }

    fn remove(&self, dst: u32, dst_len: u8) {
        let removed = self
            .fib
            .v4
            .delete(&local(dst, dst_len), &self.domain.pin(), &mut Vec::new());
        removed.unwrap();
    }
}

/// An address among few, so that prefixes cover each other.
fn address() -> impl Strategy<Value = u32> {
    (1..4u32, 0..4u32).prop_map(|(high, low)| high << 24 | low)
}

proptest! {
    #[test]
    fn never_hides_a_prefix(changes in prop::collection::vec(
        (address(), prop::sample::select(vec![0u8, 5, 8, 31, 32, 32, 32])), 1..60
    )) {
        let world = World::new();
        let mut there = BTreeSet::new();
        // A prefix that is there is removed, any other one added.
        for (key, len) in changes {
            if there.remove(&(key.masked(len), len)) {
                world.remove(key, len);
            } else {
                world.add(ADD, local(key, len)).unwrap();
                there.insert((key.masked(len), len));
            }
            for (key, len) in &there {
                prop_assert!(world.may_cover(*key) && world.may_cover(key.filled(*len)));
            }
        }
    }
}

#[test]
fn knows_most_addresses_that_are_not_there() {
    let world = World::new();
    assert!(!world.may_cover(0x0a00_0001));
    let ours = || {
        (0..20)
            .map(|n| (0x0a00_0001 | n << 8, 32))
            .chain([(0x7f00_0000, 8)])
    };
    for (key, len) in ours() {
        world.add(ADD, local(key, len)).unwrap();
    }
    let strangers = || (0..1000u32).map(|n| 0x1400_0000 | n << 12);
    let mistaken = strangers().filter(|key| world.may_cover(*key)).count();
    assert!(mistaken < 60, "{mistaken} of 1000 addresses");
    assert!(world.may_cover(0x7f12_3456));
    for (key, len) in ours() {
        world.remove(key, len);
    }
    // The removed ones are forgotten.
    assert!(!world.may_cover(0x7f12_3456) && !strangers().any(|key| world.may_cover(key)));
}
