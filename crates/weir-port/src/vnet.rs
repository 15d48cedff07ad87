// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames from the host with the header of their offloads ([`weir_packet::vnet`]), which packet sockets and TAP devices put
//! in front of each frame.
//!
//! A sender on the host leaves segmentation and checksums to the device. [`deliver`] completes the checksum at
//! `csum_start + csum_offset`, and passes a long TCP segment or UDP datagram on as one packet with the sender's
//! segment size (`gso_size`). A long frame inside a tunnel, or without memory for it as a whole, is split.

use std::collections::VecDeque;

use weir_packet::{Batch, Cache, Flags, LongPackets, Packet, VlanTag, offload};

pub(crate) use weir_packet::vnet::{Header, LEN, NONE, Outgoing};

use crate::port::Counters;

/// The longest frame that the host takes (`GSO_LEGACY_MAX_SIZE`, with a link-layer header).
const LONGEST: u32 = 65_535;

/// Returns the long packets that the host takes with this header. `udp`: UDP segments among them (Linux 6.2 and
/// later).
pub(crate) fn long_packets(udp: bool) -> LongPackets {
    LongPackets {
        max_len: LONGEST,
        udp,
    }
}

/// Returns whether the kernel knows `VIRTIO_NET_HDR_GSO_UDP_L4` (Linux 6.2 and later).
pub(crate) fn kernel_segments_udp() -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    (next(), next()) >= (Some(6), Some(2))
}

/// The destination of received frames: a batch, and a queue for the segments that do not fit.
pub(crate) struct Out<'a> {
    pub(crate) batch: &'a mut Batch,
    pub(crate) waiting: &'a mut VecDeque<Packet>,
}

impl Out<'_> {
    /// Moves waiting segments to the batch. Returns true if none is left.
    pub(crate) fn refill(&mut self) -> bool {
        while !self.batch.is_full() {
            match self.waiting.pop_front() {
                Some(packet) => drop(self.batch.push(packet)),
                None => return true,
            }
        }
        self.waiting.is_empty()
    }

    fn push(&mut self, packet: Packet) {
        match self.waiting.is_empty() {
            true => {
                if let Err(packet) = self.batch.push(packet) {
                    self.waiting.push_back(packet);
                }
            }
            false => self.waiting.push_back(packet),
        }
    }
}

/// Splits a long frame, whose VLAN tag may be in `tag`, and appends the segments. A frame that cannot be
/// split counts in `rx_errors`, and a segment for which there is no memory in `rx_dropped`.
fn deliver_long(
    header: Header,
    frame: &[u8],
    tag: Option<VlanTag>,
    memory: &mut Cache,
    out: &mut Out<'_>,
    counters: &Counters,
) {
    let mut bad = false;
    let mut lost = 0;
    let count = offload::segment(frame, header.gso_size().into(), |head, part| {
        bad = bad || header.leaves_checksum() && !header.fits(head);
        if bad {
            return;
        }
        let Some(mut packet) = memory.alloc(head.len() + part.len()) else {
            lost += 1;
            return;
        };
        let (begin, end) = packet.data_mut().split_at_mut(head.len());
        begin.copy_from_slice(head);
        end.copy_from_slice(part);
        packet.set_vlan(tag);
        out.push(packet);
    });
    Counters::add(&counters.rx_errors, u64::from(bad || count == 0));
    Counters::add(&counters.rx_dropped, lost);
}

/// Appends a received frame, whose VLAN tag may be in `tag`, as one packet or as its segments.
pub(crate) fn deliver(
    header: Header,
    frame: &[u8],
    tag: Option<VlanTag>,
    memory: &mut Cache,
    out: &mut Out<'_>,
    counters: &Counters,
) {
    if let Some(mut packet) = memory.packet(frame) {
        packet.set_vlan(tag);
        return deliver_packet(header, packet, memory, out, counters);
    }
    if header.is_long() {
        return deliver_long(header, frame, tag, memory, out, counters);
    }
    let too_long = frame.len() > weir_packet::packet::JUMBO_DATA;
    let counter = if too_long {
        &counters.rx_errors
    } else {
        &counters.rx_dropped
    };
    Counters::add(counter, 1);
}

/// Appends a received frame, which is in a packet already, as one packet or as its segments.
pub(crate) fn deliver_packet(
    header: Header,
    packet: Packet,
    memory: &mut Cache,
    out: &mut Out<'_>,
    counters: &Counters,
) {
    if header.is_long() {
        match header.whole(packet) {
            Ok(packet) => out.push(packet),
            Err(packet) => {
                deliver_long(header, packet.data(), packet.vlan(), memory, out, counters);
                memory.free(packet);
            }
        }
        return;
    }
    let mut packet = packet;
    match header.complete(packet.data_mut()) {
        true => {
            if header.vouches() {
                packet.flags.insert(Flags::CSUM_GOOD);
            }
            out.push(packet);
        }
        false => {
            memory.free(packet);
            Counters::add(&counters.rx_errors, 1);
        }
    }
}

#[cfg(test)]
mod tests;
