// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packet sockets on veth devices.

use std::sync::atomic::Ordering::Relaxed;

use crate::common::{
    Host, TX_PACKETS, assert_inside, bridge, counter, in_namespaces, pool, port, run, tcp,
};

#[test]
fn a_tcp_sender_with_offloads() {
    in_namespaces("af_packet::tcp_inside");
}

/// A sender on the host gives the device long segments without checksums. The port's frames are no longer
/// than the MTU allows, and the receiver, behind another port, gets the bytes.
#[test]
#[ignore = "the other test runs it, in namespaces of its own"]
fn tcp_inside() {
    assert_inside();
    let (a, b) = (Host::new(), Host::new());
    run(&format!(
        "ip link add a1 type veth peer name a0 netns {}
        ip link add b1 type veth peer name b0 netns {}
        ip link set a1 up; ip link set b1 up",
        a.id, b.id
    ));
    a.run(|| run("ip addr add 10.0.0.1/24 dev a0; ip addr add fd00::1/64 dev a0 nodad; ip link set a0 up"));
    b.run(|| run("ip addr add 10.0.0.2/24 dev b0; ip addr add fd00::2/64 dev b0 nodad; ip link set b0 up"));
    let pool = pool();
    let first = port("af_packet", "dev=a1", &pool).unwrap();
    let second = port("af_packet", "dev=b1", &pool).unwrap();
    for address in ["10.0.0.2:5000", "[fd00::2]:5000"] {
        let before = a.run(|| counter("a0", TX_PACKETS));
        let done = tcp(&a, &b, address, 8 << 20);
        let ((), frames) = bridge([&*first, &*second], &done, 1514);
        let sent = a.run(|| counter("a0", TX_PACKETS)) - before;
        assert!(
            frames > 2 * sent,
            "{frames} frames of {sent}: no offload to segment"
        );
    }
    for port in [first, second] {
        assert_eq!(port.counters().rx_errors.load(Relaxed), 0);
        assert_eq!(port.counters().tx_errors.load(Relaxed), 0);
    }
}
