// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The first bytes of a packet, found faster than all of its data where the frame is of the frame class.

use super::Packet;
use crate::arena::Class;
use crate::record::short_frame_of;

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
        let l = self.layout_mut();
        if N > usize::from(l.data - l.reserved()) {
            self.unset_mac();
            return None;
        }
        l.network = l.data;
        l.data -= N as u16;
        l.mac = l.data;
        l.len += N as u32;
        self.head_mut()
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

/// Returns the data of a packet. The call leaves the registers of its caller to packets of the frame class.
#[cold]
#[inline(never)]
fn jumbo_data_mut(packet: &mut Packet) -> &mut [u8] {
    packet.data_mut()
}
