// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What both families say about fragments: who collects them, and the result.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use weir_packet::{DropReason, Flags, Packet, Pool};

/// Who collects the fragments (`enum ip_defrag_users`, `enum ip6_defrag_users`). Fragments of different users are
/// never joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum User {
    /// Delivery to this host.
    Local,
    /// Connection tracking in a zone.
    Conntrack(u16),
}

/// The lengths of the fragments that a packet was reassembled from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lengths {
    /// The length of the largest fragment in bytes, from the IP header on (`frag_max_size`).
    pub largest: u16,
    /// The bytes that each fragment contributed to the packet, in order, without headers.
    pub payloads: Vec<u16>,
}

impl Lengths {
    /// Returns whether a packet can leave in the same fragments (`ip_do_fragment`, `ip6_fragment`, the fast path).
    /// `payload` is the length of what is split, and `room` what fits into one fragment, in bytes.
    pub(crate) fn fit(&self, payload: usize, room: usize) -> bool {
        let fits = |part: &u16| usize::from(*part) <= room;
        let mut but_last = self.payloads.iter().rev().skip(1);
        self.payloads
            .iter()
            .map(|part| usize::from(*part))
            .sum::<usize>()
            == payload
            && self.payloads.iter().all(fits)
            && but_last.all(|part| part % 8 == 0)
    }
}

/// The limits of the memory of a family's incomplete packets in a namespace (`struct fqdir`).
#[derive(Debug)]
pub struct Limits {
    /// The memory in bytes above which no further fragment is taken (`*frag_high_thresh`); 0 refuses all.
    high: AtomicU64,
    /// `*frag_low_thresh`, which Linux 6.1 keeps without using it.
    low: AtomicU64,
    /// The seconds that connection tracking waits for IPv6 fragments (`nf_conntrack_frag6_timeout`).
    seconds: AtomicU32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            high: (4 << 20).into(),
            low: (3 << 20).into(),
            seconds: 60.into(),
        }
    }
}

impl Limits {
    /// Returns the upper limit in bytes.
    pub fn high(&self) -> u64 {
        self.high.load(Relaxed)
    }

    /// Returns the lower limit in bytes.
    pub fn low(&self) -> u64 {
        self.low.load(Relaxed)
    }

    /// Sets the upper limit in bytes. Returns whether it is not below the lower one; otherwise nothing changes.
    pub fn set_high(&self, bytes: u64) -> bool {
        let valid = bytes >= self.low();
        if valid {
            self.high.store(bytes, Relaxed);
        }
        valid
    }

    /// Sets the lower limit in bytes. Returns whether it is not above the upper one; otherwise nothing changes.
    pub fn set_low(&self, bytes: u64) -> bool {
        let valid = bytes <= self.high();
        if valid {
            self.low.store(bytes, Relaxed);
        }
        valid
    }

    /// Returns the time-out of connection tracking in seconds.
    pub fn seconds(&self) -> u32 {
        self.seconds.load(Relaxed)
    }

    /// Sets the time-out of connection tracking in seconds.
    pub fn set_seconds(&self, seconds: u32) {
        self.seconds.store(seconds, Relaxed);
    }

    /// Returns whether no fragment is taken while others hold `bytes` (`inet_frag_find`).
    pub(crate) fn refuse(&self, bytes: usize) -> bool {
        let high = self.high();
        high == 0 || bytes as u64 > high
    }
}

/// The result of adding a fragment.
#[derive(Debug)]
pub enum Gathered {
    /// The fragment waits for the others.
    Waits,
    /// The packet is complete.
    Whole(Packet, Lengths),
    /// The fragment is to be dropped.
    Dropped(Packet, DropReason),
}

/// Returns the link-layer header in front of a fragment's data.
pub(crate) fn link_header(packet: &Packet) -> &[u8] {
    match packet.has_mac() {
        true => packet.mac().get(..packet.mac_len()).unwrap_or_default(),
        false => &[],
    }
}

/// Puts a link-layer header in front of a packet that was allocated with room for it.
pub(crate) fn put_link_header(packet: &mut Packet, link: &[u8]) -> Option<()> {
    packet
        .data_mut()
        .get_mut(..link.len())?
        .copy_from_slice(link);
    packet.reset_mac();
    packet.pull(link.len()).then_some(())
}

/// Allocates an empty packet with room for `len` bytes and the metadata of another packet
/// (`ip_copy_metadata`). It shares the other's trace record until it gets its own.
pub(crate) fn like(packet: &Packet, len: usize, pool: &Pool) -> Option<Packet> {
    let mut copy = pool.alloc(len)?;
    copy.trim(0);
    copy.set_pkt_type(packet.pkt_type());
    copy.set_network(0);
    copy.mark = packet.mark;
    copy.priority = packet.priority;
    copy.trace = packet.trace;
    copy.hash = packet.hash;
    copy.tc_index = packet.tc_index;
    copy.flags = packet.flags;
    copy.flags.remove(Flags::REASSEMBLED);
    copy.nest = packet.nest;
    copy.protocol = packet.protocol;
    copy.queue = packet.queue;
    copy.time = packet.time;
    copy.dev = packet.dev;
    copy.iif = packet.iif;
    Some(copy)
}
