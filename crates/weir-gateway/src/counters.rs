// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the gateway counts.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of a gateway. Those that end with `_now` rise and fall.
        #[derive(Debug, Default)]
        pub struct Counters { $($(#[$doc])* pub $name: AtomicU64,)* }

        impl Counters {
            /// The names and values, in order.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.load(Relaxed)),)*]
            }
        }
    };
}

counters! {
    /// TCP connections that exist, those being opened and in TIME_WAIT among them.
    tcp_now,
    /// TCP connections that the host has accepted.
    tcp_opened,
    /// TCP connections that the host has refused or could not reach.
    tcp_failed,
    /// TCP connections that ended with a reset or a time-out.
    tcp_reset,
    /// Bytes of TCP to the host.
    tcp_bytes_out,
    /// Bytes of TCP from the host.
    tcp_bytes_in,
    /// Flows of UDP that exist.
    udp_now,
    /// Flows of UDP in all.
    udp_opened,
    /// Datagrams to the host.
    udp_out,
    /// Datagrams from the host.
    udp_in,
    /// Flows of echo requests that exist.
    ping_now,
    /// Flows of echo requests in all.
    ping_opened,
    /// Echo requests to the host.
    ping_out,
    /// Echo replies from the host.
    ping_in,
    /// ICMP errors sent into the namespace.
    unreachable,
    /// Packets to where the gateway does not lead: the host's loopback, multicast, a broadcast.
    prohibited,
    /// Packets of protocols that are not served.
    unsupported,
    /// Frames cut short or with a wrong checksum.
    malformed,
    /// Packets dropped because there are as many flows as there may be, or no more descriptors.
    overflow,
    /// Frames dropped because the namespace did not take them.
    lost,
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Relaxed);
}

pub(crate) fn set(counter: &AtomicU64, value: usize) {
    counter.store(value as u64, Relaxed);
}
