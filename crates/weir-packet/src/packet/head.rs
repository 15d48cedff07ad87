// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The first bytes of a packet, found faster than all of its data where the frame is of the frame class, and what a
//! forwarder asks of every packet.

use super::Packet;
use crate::arena::Class;
use crate::record::{SEGMENTS, short_frame_of};

impl Packet {
    /// Returns the first bytes of the data, or `None` if there are fewer or the frame is not of the frame class.
    #[inline(always)]
    pub fn short_head<const N: usize>(&self) -> Option<&[u8; N]> {
        self.short_data()?.first_chunk()
    }

    /// Returns the first bytes of the data of any packet, mutably, or `None` if there are fewer.
    #[inline(always)]
    pub fn head_mut<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        if self.class() != Class::Frame {
            return jumbo_data_mut(self).first_chunk_mut();
        }
        let l = self.layout();
        // SAFETY: as in `data_mut`; the frame is of the frame class.
        let data = unsafe {
            let start = short_frame_of(self.0).add(l.data.into());
            std::slice::from_raw_parts_mut(start.as_ptr(), l.len as usize)
        };
        data.first_chunk_mut()
    }

    /// Makes room for a link-layer header in front of data that begin with the network header, and sets the offsets of
    /// both. Returns the new bytes, or `None`, with the MAC header unset, if there is no headroom.
    #[inline(always)]
    pub fn push_link_header<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        if self.class() != Class::Frame {
            return jumbo_link_header(self);
        }
        let (record, l) = (self.0, self.layout_mut());
        if N > usize::from(l.data - l.reserved()) {
            self.unset_mac();
            return None;
        }
        let start = l.data - N as u16;
        (l.network, l.data, l.mac) = (l.data, start, start);
        l.len += N as u32;
        // SAFETY: the bytes were headroom of this packet, whose frame is of the frame class; as in `data_mut`.
        Some(unsafe { short_frame_of(record).add(start.into()).cast().as_mut() })
    }

    /// Begins the data at the network header, which is of `N` bytes, and sets the transport header behind it. `read` gets
    /// the header and the number of bytes from its start to the end of the data. It returns the length of the packet in
    /// bytes, to which the data are cut, and the result. Returns `None` and changes nothing if `read` does, if the header
    /// or the data are too short, or if the frame is not of the frame class.
    #[inline(always)]
    pub fn begin_at_network<const N: usize, T>(
        &mut self,
        read: impl FnOnce(&[u8; N], u32) -> Option<(u32, T)>,
    ) -> Option<T> {
        if self.class() != Class::Frame {
            return None;
        }
        let l = self.layout();
        let start = l.network;
        // The unset offset is behind the end of every frame of this class.
        let whole = (u32::from(l.data) + l.len).checked_sub(start.into())?;
        if whole < N as u32 {
            return None;
        }
        // SAFETY: the data end inside the frame, and no less than `N` bytes behind `start`; as in `head_mut`.
        let header = unsafe { short_frame_of(self.0).add(start.into()).cast().as_ref() };
        let (len, result) = read(header, whole)?;
        if len > whole {
            return None;
        }
        let l = self.layout_mut();
        // The sum is no greater than the size of a frame.
        (l.data, l.len, l.transport) = (start, len, start.wrapping_add(N as u16));
        Some(result)
    }

    /// Returns whether any of these packets is a long one ([`segments`](Self::segments)).
    #[inline]
    pub fn any_is_long(packets: &[Packet]) -> bool {
        // Without an early end the loop has no branch for a packet.
        let marks = packets.iter().map(|packet| packet.layout().marks);
        marks.fold(0, |all, marks| all | marks) & SEGMENTS != 0
    }

    /// Returns the data if the frame is of the frame class.
    #[inline(always)]
    pub(super) fn short_data(&self) -> Option<&[u8]> {
        if self.class() != Class::Frame {
            return None;
        }
        let l = self.layout();
        // SAFETY: as in `data`; the frame is of the frame class.
        Some(unsafe {
            let start = short_frame_of(self.0).add(l.data.into());
            std::slice::from_raw_parts(start.as_ptr(), l.len as usize)
        })
    }
}

/// Does what [`Packet::push_link_header`] does for a packet that is not of the frame class.
#[cold]
#[inline(never)]
fn jumbo_link_header<const N: usize>(packet: &mut Packet) -> Option<&mut [u8; N]> {
    let network = packet.layout().data;
    if packet.push(N).is_none() {
        packet.unset_mac();
        return None;
    }
    packet.layout_mut().network = network;
    packet.reset_mac();
    packet.data_mut().first_chunk_mut()
}

/// Returns the data of a packet. The call leaves the registers of its caller to packets of the frame class.
#[cold]
#[inline(never)]
fn jumbo_data_mut(packet: &mut Packet) -> &mut [u8] {
    packet.data_mut()
}
