// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The places where packets are dropped, and the drop counters. A drop is counted by device,
//! [`Place`] and reason.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use weir_packet::{DropReason, Packet};
use weir_sync::rcu::Guard;

use crate::device::Device;

macro_rules! places {
    ($($(#[$doc:meta])* $place:ident = $name:literal;)*) => {
        /// The part of a packet's path in which it was dropped.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(usize)]
        pub enum Place { $($(#[$doc])* $place,)* }

        impl Place {
            /// All places, in the order of a packet's path.
            pub const ALL: &'static [Place] = &[$(Place::$place,)*];

            /// Returns the place's name in reports.
            pub fn name(self) -> &'static str {
                match self { $(Place::$place => $name,)* }
            }
        }
    };
}

places! {
    /// The backlog of a CPU, if the device was removed meanwhile.
    Backlog = "backlog";
    /// Frame checks on receive.
    Receive = "receive";
    /// Filters of the ingress or clsact qdisc.
    Ingress = "ingress";
    /// ARP.
    Arp = "arp";
    /// IPv4 receive, checks and routing.
    Ipv4In = "ipv4-in";
    /// IPv4 forwarding.
    Ipv4Forward = "ipv4-forward";
    /// IPv4 delivery to the local host.
    Ipv4Local = "ipv4-local";
    /// IPv4 output.
    Ipv4Out = "ipv4-out";
    /// IPv6 receive, checks and routing.
    Ipv6In = "ipv6-in";
    /// IPv6 forwarding.
    Ipv6Forward = "ipv6-forward";
    /// IPv6 delivery to the local host.
    Ipv6Local = "ipv6-local";
    /// IPv6 output.
    Ipv6Out = "ipv6-out";
    /// MPLS forwarding.
    Mpls = "mpls";
    /// Neighbour resolution.
    Neighbour = "neighbour";
    /// Filters of the clsact qdisc's egress side.
    Egress = "egress";
    /// The queueing discipline.
    Qdisc = "qdisc";
    /// The device.
    Transmit = "transmit";
}

/// A dropped packet, as passed to an observer.
pub struct Dropped<'a> {
    /// The packet's last device.
    pub device: &'a Device,
    /// The part of the packet's path.
    pub place: Place,
    /// The reason of the drop.
    pub reason: DropReason,
    /// The stack clock's time in nanoseconds.
    pub time: u64,
    /// The packet. Its data may begin at any header.
    pub packet: &'a Packet,
    /// The packet's trace notes, if tracing is on.
    pub note: Option<&'a str>,
    /// The number of the CPU, which is in this call only once at a time.
    pub cpu: usize,
    /// The read section of the CPU's turn.
    pub guard: &'a Guard,
}

/// Watches dropped packets. It runs on the stack's CPUs and must not block for long.
pub trait DropObserver: Send + Sync {
    /// Called for each dropped packet.
    fn dropped(&self, dropped: &Dropped<'_>);
}

/// The drop counters of one device, allocated at its first drop.
pub struct DropCounters(Box<[AtomicU64]>);

impl Default for DropCounters {
    fn default() -> Self {
        Self(
            (0..Place::ALL.len() * DropReason::ALL.len())
                .map(|_| AtomicU64::new(0))
                .collect(),
        )
    }
}

impl DropCounters {
    /// Counts dropped packets.
    pub fn count(&self, place: Place, reason: DropReason, packets: u64) {
        let at = place as usize * DropReason::ALL.len() + reason as usize;
        self.0[at].fetch_add(packets, Relaxed);
    }

    /// Returns all counters that are not zero.
    pub fn totals(&self) -> Vec<(Place, DropReason, u64)> {
        let counts = self.0.chunks_exact(DropReason::ALL.len());
        let mut totals = Vec::new();
        for (place, row) in Place::ALL.iter().zip(counts) {
            for (reason, count) in DropReason::ALL.iter().zip(row) {
                let count = count.load(Relaxed);
                if count > 0 {
                    totals.push((*place, *reason, count));
                }
            }
        }
        totals
    }
}
