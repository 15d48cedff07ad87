// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What both families say about fragments: who collects them, and the result.

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

/// The result of adding a fragment to its queue.
#[derive(Debug)]
pub enum Gathered {
    /// The fragment waits for the others.
    Waits,
    /// The packet is complete. The number is the length of its largest fragment in bytes from the IP header on
    /// (`frag_max_size`).
    Whole(Packet, u16),
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
