// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of each datapath stage in batches, packets and CPU cycles. It is always counted.
//!
//! The cycle counter is read once at the boundary between two stages. Cycles never appear in a
//! report of virtual time, which must be the same on every machine.

macro_rules! stages {
    ($($(#[$doc:meta])* $stage:ident = $name:literal, $group:literal;)*) => {
        /// A stage of the datapath.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(usize)]
        pub enum Stage { $($(#[$doc])* $stage,)* }

        impl Stage {
            /// All stages, in the order of a packet's path.
            pub const ALL: &'static [Stage] = &[$(Stage::$stage,)*];

            /// Returns the stage's name in reports.
            pub fn name(self) -> &'static str {
                match self { $(Stage::$stage => $name,)* }
            }

            /// Returns the group in which the stage is summed up.
            pub fn group(self) -> &'static str {
                match self { $(Stage::$stage => $group,)* }
            }
        }
    };
}

stages! {
    /// From a live port into packets.
    Port = "port", "port";
    /// From the backlog of a CPU to the device.
    Backlog = "backlog", "receive";
    /// Frame checks, VLAN tags, packet type.
    Receive = "receive", "receive";
    /// Filters and actions on ingress.
    Ingress = "ingress", "tc";
    /// IPv4 checks and route lookup.
    Ipv4In = "ipv4-in", "layer 3";
    /// IPv6 checks and route lookup.
    Ipv6In = "ipv6-in", "layer 3";
    /// TTL, MTU, fragmentation.
    Forward = "forward", "layer 3";
    /// Delivery to the local host, including ARP.
    Local = "local", "layer 3";
    /// Next hop to link-layer header.
    Neighbour = "neighbour", "layer 3";
    /// Filters and actions on egress.
    Egress = "egress", "tc";
    /// Enqueue and dequeue.
    Qdisc = "qdisc", "tc";
    /// The device's transmit.
    Transmit = "transmit", "transmit";
}

/// Counters of one stage.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct StageCount {
    /// The number of batches processed.
    pub batches: u64,
    /// The number of packets processed.
    pub packets: u64,
    /// The number of CPU cycles spent.
    pub cycles: u64,
}

/// The counters of one CPU.
#[derive(Debug, Default)]
pub struct Stages {
    counts: [StageCount; Stage::ALL.len()],
    since: u64,
}

impl Stages {
    /// Starts timing the next stage without counting the time before.
    #[inline]
    pub fn start(&mut self) {
        self.since = cycles();
    }

    /// Ends a stage. Its cost is the time since the last call.
    #[inline]
    pub fn end(&mut self, stage: Stage, packets: usize) {
        let now = cycles();
        let count = &mut self.counts[stage as usize];
        count.batches += 1;
        count.packets += packets as u64;
        count.cycles += now.wrapping_sub(self.since);
        self.since = now;
    }

    /// Returns the counters so far.
    pub fn counts(&self) -> impl Iterator<Item = (Stage, StageCount)> + '_ {
        Stage::ALL.iter().copied().zip(self.counts.iter().copied())
    }
}

/// Reads the CPU's cycle counter, or nanoseconds if there is none.
#[inline]
#[allow(unsafe_code)] // the intrinsic is unsafe by declaration only
pub fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: RDTSC has no preconditions on x86-64.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::sync::OnceLock;
        use std::time::Instant;
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}
