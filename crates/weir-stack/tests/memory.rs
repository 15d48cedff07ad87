// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of a router, as the example `routers` counts it.

#![allow(unsafe_code)] // the example's allocator counts

#[allow(dead_code)] // what the example prints
#[path = "../examples/routers.rs"]
mod routers;

/// The bytes that a router may hold: a namespace, its loopback up, forwarding on, and two veth pairs. The hub's tables
/// have the other ends.
const ROUTER: f64 = 9_700.0;
/// The bytes of a router that may stay when it is deleted: what the hub's tables keep for devices to come.
const LEFT: f64 = 200.0;

#[test]
fn a_router_is_small_and_goes() {
    let cost = routers::measure(500, "in-place".parse().expect("it is a mode"));
    assert!(cost.bytes < ROUTER, "{} B", cost.bytes);
    assert!(cost.left[1] < LEFT, "{} B stay", cost.left[1]);
}
