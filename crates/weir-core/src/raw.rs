// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames that come from outside the stack with their link-layer header. They are sent as if by a
//! packet socket (`packet_snd` of `net/packet/af_packet.c`).

use std::sync::Arc;

use weir_netlink::errno;
use weir_packet::header::Ethernet;
use weir_packet::{Batch, DropReason, Packet, PacketType};
use weir_tc::qdisc::packet_hash;

use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;

const ETH_P_8021Q: u16 = 0x8100;
const ETH_P_8021AD: u16 = 0x88a8;
/// The length of a VLAN tag in bytes.
const TAG: usize = 4;

/// Makes a packet of a frame that a packet socket sends on `device`.
///
/// # Errors
/// - ENETDOWN if the device is down.
/// - EINVAL if the frame has no complete Ethernet header.
/// - EMSGSIZE if it is longer than the device's MTU plus its header plus a VLAN tag if it has one.
/// - ENOBUFS if there is no memory.
pub fn frame(cx: &Cx<'_>, device: &Device, frame: &[u8]) -> Result<Packet, i32> {
    if !device.is_up() {
        return Err(errno::ENETDOWN);
    }
    let most = length_limit(device, frame).ok_or(errno::EINVAL)?;
    if frame.len() > most {
        return Err(errno::EMSGSIZE);
    }
    let mut packet = cx.stack.pool.packet(frame).ok_or(errno::ENOBUFS)?;
    outgoing(cx, device, &mut packet);
    Ok(packet)
}

/// Sends packets that begin at their Ethernet header, as a packet socket does. Drops the packets that
/// [`frame`] would refuse.
pub fn transmit(cx: &mut Cx<'_>, device: &Arc<Device>, mut batch: Batch) {
    if !device.is_up() {
        return cx.drop_batch(device, Place::Transmit, DropReason::DEV_READY, batch);
    }
    let mut refused = [Batch::new(), Batch::new()];
    batch.filter_map(|mut packet| {
        let length = wire_length(&packet);
        match length_limit(device, packet.data()) {
            Some(most) if length <= most => {
                outgoing(cx, device, &mut packet);
                Some(packet)
            }
            limit => {
                // There is room: at most one batch comes out of a batch.
                let _ = refused[usize::from(limit.is_some())].push(packet);
                None
            }
        }
    });
    let reasons = [DropReason::PKT_TOO_SMALL, DropReason::PKT_TOO_BIG];
    for (refused, reason) in refused.into_iter().zip(reasons) {
        if !refused.is_empty() {
            cx.drop_batch(device, Place::Transmit, reason, refused);
        }
    }
    if let Some(programs) = cx.stack.softnet.sock_flows(cx.guard) {
        // The program behind these packets is to get the answers on this CPU (`sock_rps_record_flow`).
        for packet in batch.iter_mut() {
            programs.record(packet_hash(packet), cx.state.id);
        }
    }
    if !batch.is_empty() {
        cx.transmit(device, batch);
    }
}

/// Returns the length of the longest frame of this form that the device sends; `None` for a frame
/// without a complete Ethernet header.
fn length_limit(device: &Device, frame: &[u8]) -> Option<usize> {
    let tagged = Ethernet::new(frame)?.ethertype() == ETH_P_8021Q;
    Some(device.mtu() as usize + Ethernet::LEN + if tagged { TAG } else { 0 })
}

/// Returns the length of the longest frame on the wire that a packet stands for.
fn wire_length(packet: &Packet) -> usize {
    packet.segments().map_or(packet.len(), |segments| {
        Ethernet::LEN + tags(packet.data()) * TAG + segments.longest()
    })
}

/// Fills in the metadata of a packet that begins at its Ethernet header and leaves by `device`.
fn outgoing(cx: &Cx<'_>, device: &Device, packet: &mut Packet) {
    let frame = packet.data();
    let mut network = Ethernet::LEN + tags(frame) * TAG;
    if device.is_bare() && strip(packet) {
        network = 0;
    } else {
        packet.protocol = Ethernet::new(packet.data()).map_or(0, |header| header.ethertype());
    }
    packet.reset_mac();
    packet.set_pkt_type(PacketType::Outgoing);
    packet.set_network(network);
    packet.time = cx.now;
    packet.dev = device.key.0;
    packet.iif = 0;
}

/// Returns the number of VLAN tags at the beginning of a frame, as far as they are complete.
fn tags(frame: &[u8]) -> usize {
    let types = frame.get(12..).unwrap_or_default().chunks_exact(TAG);
    types
        .take_while(|tag| {
            matches!(
                u16::from_be_bytes([tag[0], tag[1]]),
                ETH_P_8021Q | ETH_P_8021AD
            )
        })
        .count()
}

/// Sends frames in order, all at the current time, until one is refused. Returns how many were
/// sent, and the errno of the refusal.
pub fn send<'f>(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    frames: impl Iterator<Item = &'f [u8]>,
) -> (usize, Option<i32>) {
    let mut sent = 0;
    for bytes in frames {
        match frame(cx, device, bytes) {
            Ok(packet) => {
                let mut batch = Batch::new();
                let _ = batch.push(packet);
                cx.transmit(device, batch);
                sent += 1;
            }
            Err(error) => return (sent, Some(error)),
        }
    }
    (sent, None)
}

/// Removes the Ethernet header of a frame from outside, since a bare device has none, and sets the protocol. Returns
/// false if the header is not complete.
pub fn strip(packet: &mut Packet) -> bool {
    let Some(protocol) = Ethernet::new(packet.data()).map(|header| header.ethertype()) else {
        return false;
    };
    packet.protocol = protocol;
    packet.pull(Ethernet::LEN)
}
