// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cache line of metadata of a frame, and where it and its frame lie in a page.
#![allow(unsafe_code)] // raw records and the addresses derived from them

use crate::arena::{Class, FRAME, FRAME_FIRST, JUMBO, PAGE, RECORD};
use crate::meta::{Flags, Meta, PacketType};
use std::mem::offset_of;
use std::ptr::NonNull;

/// The headroom of a new packet, in bytes.
pub const HEADROOM: usize = 256;
/// The maximum data length of a new packet of the frame class, in bytes.
pub const FRAME_DATA: usize = FRAME - HEADROOM;
/// The maximum data length of a new jumbo packet, in bytes.
pub const JUMBO_DATA: usize = JUMBO - HEADROOM;

/// The offset of a header that is not set.
pub(crate) const UNSET: u16 = u16::MAX;

/// Bit of [`Layout::marks`]: the frame begins with a reference to tunnel metadata.
pub(crate) const TUNNEL: u8 = 0x80;
/// Bits of [`Layout::marks`]: the protocol of the VLAN tag.
pub(crate) const VLAN: u8 = 0x03;
/// Bits of [`Layout::marks`]: the [`NodeType`](crate::NodeType).
pub(crate) const NODE_TYPE: u8 = 0x0c;
/// Bit of [`Layout::marks`]: `time` is the packet's departure time.
pub(crate) const DEPARTS: u8 = 0x40;
/// Bit of [`Layout::marks`]: the bytes behind the place of that reference describe the segments of the packet.
pub(crate) const SEGMENTS: u8 = 0x20;
/// The offset of the description of the segments, and of its end, in bytes.
pub(crate) const SEGMENTS_AT: usize = 8;
pub(crate) const SEGMENTS_END: u16 = 16;
/// Bit of [`Layout::marks`]: the bytes behind those two places name the packet's connection.
pub(crate) const CONN: u8 = 0x10;
/// The offset of the connection, and of its end, in bytes.
pub(crate) const CONN_AT: usize = 16;
pub(crate) const CONN_END: u16 = 32;
/// The size of the reference, in bytes.
pub(crate) const TUNNEL_LEN: u16 = 8;

/// The offsets and lengths within the frame. Only the methods of `Packet` write it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Layout {
    pub(crate) len: u32,
    pub(crate) data: u16,
    pub(crate) mac: u16,
    pub(crate) network: u16,
    pub(crate) transport: u16,
    pub(crate) vlan_tci: u16,
    pub(crate) marks: u8, // VLAN: 0 none, 1 802.1Q, 2 802.1ad; NODE_TYPE; TUNNEL; DEPARTS; SEGMENTS; CONN
    pub(crate) pkt_type: PacketType,
}

impl Layout {
    /// Returns the offset of the data or of the first header, whichever comes first.
    #[inline]
    pub(crate) fn begin(&self) -> u16 {
        self.data
            .min(self.mac)
            .min(self.network)
            .min(self.transport)
    }

    /// Returns the number of bytes at the start of the frame that are not headroom.
    #[inline]
    pub(crate) fn reserved(&self) -> u16 {
        const { assert!(TUNNEL >> 4 == TUNNEL_LEN as u8 && SEGMENTS >> 1 == SEGMENTS_END as u8) };
        const { assert!(CONN << 1 == CONN_END as u8) };
        if self.marks & (TUNNEL | SEGMENTS | CONN) == 0 {
            return 0;
        }
        u16::from(
            self.marks >> 4 & TUNNEL >> 4
                | (self.marks >> 1 & SEGMENTS >> 1)
                | (self.marks & CONN) << 1,
        )
    }
}

/// The cache line that a `Packet` points to. Opaque.
#[repr(C, align(64))]
pub struct Record {
    pub(crate) layout: Layout,
    pub(crate) meta: Meta,
}

const _: () = assert!(size_of::<Record>() == RECORD && align_of::<Record>() == RECORD);

/// The number of words of a record that an allocation writes: all those before `time`.
pub(crate) const INIT_WORDS: usize = (offset_of!(Record, meta) + offset_of!(Meta, time)) / 8;
const _: () = assert!(INIT_WORDS == 6 && offset_of!(Record, layout.len) == 0);
const _: () = assert!(offset_of!(Layout, data) == 4 && offset_of!(Layout, mac) == 6);

/// The words that an allocation writes.
const TEMPLATE: [u64; INIT_WORDS] = {
    let record = Record {
        layout: Layout {
            len: 0,
            data: HEADROOM as u16,
            mac: UNSET,
            network: UNSET,
            transport: UNSET,
            vlan_tci: 0,
            marks: 0,
            pkt_type: PacketType::Host,
        },
        meta: Meta {
            mark: 0,
            priority: 0,
            trace: 0,
            hash: 0,
            tc_index: 0,
            flags: Flags::NONE,
            nest: 0,
            protocol: 0,
            queue: 0,
            chain: 0,
            cb: 0,
            time: 0,
            dev: 0,
            iif: 0,
        },
    };
    // SAFETY: a record is 64 bytes of integers without padding, so it is eight initialised words.
    let words: [u64; 8] = unsafe { std::mem::transmute(record) };
    let [a, b, c, d, e, f, ..] = words;
    [a, b, c, d, e, f]
};

/// Initialises a record as that of an empty packet, except for `time`, `dev` and `iif`.
///
/// # Safety
/// The caller owns the record, which is a record of a live arena.
#[inline]
pub(crate) unsafe fn init(record: NonNull<Record>) {
    // SAFETY: the caller owns the record. This writes only the words before `time`; the line is
    // never cleared as a whole.
    unsafe { record.cast::<[u64; INIT_WORDS]>().write(TEMPLATE) };
}

/// Does the same for a packet of `len` bytes, `data` bytes after the start of the frame.
///
/// # Safety
/// As for [`init`]; the frame has room for the bytes.
#[inline(always)]
pub(crate) unsafe fn init_with(record: NonNull<Record>, data: u16, len: u32) {
    let mut words = TEMPLATE;
    // The first word is the length, the start of the data and the offset of the MAC header.
    let ([l0, l1, l2, l3], [d0, d1]) = (len.to_ne_bytes(), data.to_ne_bytes());
    let [_, _, _, _, _, _, m0, m1] = TEMPLATE[0].to_ne_bytes();
    words[0] = u64::from_ne_bytes([l0, l1, l2, l3, d0, d1, m0, m1]);
    // SAFETY: as in `init`.
    unsafe { record.cast::<[u64; INIT_WORDS]>().write(words) };
}

/// Initialises all of a record as that of an empty packet of `len` bytes.
///
/// # Safety
/// As for [`init`]; the frame has room for the bytes after its headroom.
#[inline(always)]
pub(crate) unsafe fn init_whole(record: NonNull<Record>, len: u32) {
    // SAFETY: as in `init`; the record has two words more.
    unsafe {
        init_with(record, HEADROOM as u16, len);
        let last = record.cast::<u64>().add(INIT_WORDS);
        last.cast::<[u64; 8 - INIT_WORDS]>()
            .write([0; 8 - INIT_WORDS]);
    }
}

/// Returns the frame of a record of the frame class.
#[inline(always)]
pub(crate) fn short_frame_of(record: NonNull<Record>) -> NonNull<u8> {
    debug_assert!(class_of(record) == Class::Frame);
    const { assert!(FRAME.is_multiple_of(RECORD)) };
    // Records lie at multiples of their size.
    let offset = (record.addr().get() & (PAGE - 1)) * (FRAME / RECORD);
    // SAFETY: record `i` belongs to frame `i` of the same page, which lies inside the page.
    unsafe { page_of(record).add(offset) }
}

/// Returns the base of the page that contains a record.
#[inline]
pub(crate) fn page_of(record: NonNull<Record>) -> NonNull<u8> {
    let p = record.as_ptr().map_addr(|a| a & !(PAGE - 1));
    // SAFETY: a record never lies in page 0 of the address space, so the base is not null.
    unsafe { NonNull::new_unchecked(p.cast()) }
}

/// Returns the class of a record's frame.
#[inline]
pub(crate) fn class_of(record: NonNull<Record>) -> Class {
    if record.addr().get() & (PAGE - 1) < FRAME_FIRST * RECORD {
        Class::Jumbo
    } else {
        Class::Frame
    }
}

/// Returns the frame of a record.
#[inline(always)]
pub(crate) fn frame_of(record: NonNull<Record>) -> NonNull<u8> {
    const { assert!(JUMBO.is_multiple_of(RECORD)) };
    // Records lie at multiples of their size. Without a call for the rare class, the compiler computes the place once
    // for all accesses to a packet.
    let times = match class_of(record) {
        Class::Frame => FRAME / RECORD,
        Class::Jumbo => JUMBO / RECORD,
    };
    let offset = (record.addr().get() & (PAGE - 1)) * times;
    // SAFETY: record `i` belongs to frame `i` of the same page, which lies inside the page.
    unsafe { page_of(record).add(offset) }
}
