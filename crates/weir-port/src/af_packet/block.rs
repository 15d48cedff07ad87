// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A block of the receive ring: its header and the frames in it (`struct tpacket_block_desc`,
//! `struct tpacket3_hdr`). The parser checks every offset against the block.

use std::mem::offset_of;

use libc::{tpacket_block_desc, tpacket_hdr_v1, tpacket_hdr_variant1, tpacket3_hdr};
use weir_packet::VlanTag;

use crate::vnet::{self, Header};

/// A frame in a block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) header: Header,
    pub(crate) tag: Option<VlanTag>,
    pub(crate) data: &'a [u8],
}

fn word(block: &[u8], at: usize) -> Option<u32> {
    let bytes = block.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

fn half(block: &[u8], at: usize) -> Option<u16> {
    let bytes = block.get(at..)?.first_chunk()?;
    Some(u16::from_ne_bytes(*bytes))
}

/// Returns the number of frames in a block and the offset of the first one.
pub(super) fn frames(block: &[u8]) -> (u32, usize) {
    const HEADER: usize = offset_of!(tpacket_block_desc, hdr);
    const COUNT: usize = HEADER + offset_of!(tpacket_hdr_v1, num_pkts);
    const FIRST: usize = HEADER + offset_of!(tpacket_hdr_v1, offset_to_first_pkt);
    match (word(block, COUNT), word(block, FIRST)) {
        (Some(count), Some(first)) => (count, first as usize),
        _ => (0, 0),
    }
}

/// Returns the offset of the frame after the one at offset `at`, or `None` if that is outside the block.
pub(super) fn next(block: &[u8], at: usize) -> Option<usize> {
    let step = word(
        block,
        at.checked_add(offset_of!(tpacket3_hdr, tp_next_offset))?,
    )?;
    // The kernel aligns frames; a step of 0 would repeat the frame.
    at.checked_add(step as usize)
        .filter(|next| step > 0 && *next < block.len())
}

/// Returns the frame at an offset. Returns `None` if it was truncated or lies outside the block.
pub(super) fn frame(block: &[u8], at: usize) -> Option<Frame<'_>> {
    const VARIANT: usize = offset_of!(tpacket3_hdr, hv1);
    let slot = block.get(at..)?;
    let status = word(slot, offset_of!(tpacket3_hdr, tp_status))?;
    let len = word(slot, offset_of!(tpacket3_hdr, tp_snaplen))?;
    let start = usize::from(half(slot, offset_of!(tpacket3_hdr, tp_mac))?);
    let tci = word(
        slot,
        VARIANT + offset_of!(tpacket_hdr_variant1, tp_vlan_tci),
    )?;
    let proto = half(
        slot,
        VARIANT + offset_of!(tpacket_hdr_variant1, tp_vlan_tpid),
    )?;
    if word(slot, offset_of!(tpacket3_hdr, tp_len))? != len {
        return None;
    }
    let (before, data) = slot.split_at_checked(start)?;
    let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let tag = (status & libc::TP_STATUS_VLAN_VALID != 0).then_some(VlanTag {
        proto: if known { proto } else { 0x8100 },
        tci: tci as u16,
    });
    Some(Frame {
        header: Header::parse(*before.last_chunk::<{ vnet::LEN }>()?),
        tag,
        data: data.get(..len as usize)?,
    })
}

/// Walks a block as the ring does.
pub(crate) fn each_frame<'a>(block: &'a [u8], mut work: impl FnMut(Frame<'a>)) {
    let (count, first) = frames(block);
    let mut at = Some(first);
    for _ in 0..count {
        let Some(here) = at else { return };
        frame(block, here).into_iter().for_each(&mut work);
        at = next(block, here);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the frames of a block.
    fn walk(block: &[u8]) -> Vec<Frame<'_>> {
        let mut all = Vec::new();
        each_frame(block, |frame| all.push(frame));
        all
    }

    fn put(block: &mut [u8], at: usize, bytes: &[u8]) {
        block[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// A block as the kernel writes it.
    fn block(contents: &[Vec<u8>]) -> Vec<u8> {
        const FIRST: usize = 48;
        const MAC: usize = 82;
        let mut block = vec![0; 1 << 14];
        put(&mut block, 12, &(contents.len() as u32).to_ne_bytes());
        put(&mut block, 16, &(FIRST as u32).to_ne_bytes());
        let mut at = FIRST;
        for data in contents {
            let step = (MAC + data.len()).next_multiple_of(8) as u32;
            put(&mut block, at, &step.to_ne_bytes());
            put(&mut block, at + 12, &(data.len() as u32).to_ne_bytes());
            put(&mut block, at + 16, &(data.len() as u32).to_ne_bytes());
            put(&mut block, at + 24, &(MAC as u16).to_ne_bytes());
            put(&mut block, at + MAC, data);
            at += step as usize;
        }
        block
    }

    proptest! {
        #[test]
        fn frames_come_out_in_order(
            contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 14..200), 1..20),
        ) {
            let block = block(&contents);
            let found: Vec<_> = walk(&block).iter().map(|frame| frame.data.to_vec()).collect();
            prop_assert_eq!(found, contents);
        }

        /// A damaged block yields frames that lie inside it, and the walk ends.
        #[test]
        fn damage_stays_inside_the_block(
            contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 14..200), 1..20),
            damage in prop::collection::vec((0_usize..4096, any::<u32>()), 1..40),
            end in 0_usize..1 << 14,
        ) {
            let mut block = block(&contents);
            for (at, value) in damage {
                // Half of the damage hits the block's own header and the first frame's.
                put(&mut block, if value & 1 == 0 { at % 100 } else { at }, &value.to_ne_bytes());
            }
            block.truncate(end);
            let inside = block.as_ptr_range();
            for frame in walk(&block) {
                let range = frame.data.as_ptr_range();
                prop_assert!(range.start >= inside.start && range.end <= inside.end);
            }
        }
    }
}
