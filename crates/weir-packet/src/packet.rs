// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `Packet`: an owned 8-byte handle to one cache line of metadata and one frame.
//!
//! It carries the information of `struct sk_buff`, but in another form. The metadata is 64 bytes in
//! all, written field by field as needed and never cleared as a whole. Its first 16 bytes (lengths,
//! offsets, VLAN tag, packet type) are accessed through methods, which keep them inside the frame.
//! The rest is [`Meta`]: plain public fields accessed through `Deref`.
//!
//! Layout of a frame, offsets in bytes from its start:
//! ```text
//! 0          data             data+len      2048 (or 69632)
//! | headroom | bytes of packet | tailroom    |
//! ```
//! The offsets `mac`, `network` and `transport` count from the start of the frame, so
//! [`Packet::push`] and [`Packet::pull`] leave them valid.
//!
//! A packet with tunnel metadata ([`crate::tunnel`]) keeps its reference to the metadata in the
//! first 8 bytes of its frame, and a bit in the layout marks it. Other packets only pay for a test
//! of that bit when they are dropped. No header of such a packet begins in those bytes.
//!
//! A long packet that stands for several ([`Segments`]) keeps the description of its segments in the 8
//! bytes behind, marked by another bit. A packet of a connection names it ([`crate::conn`]) in the 16 bytes behind
//! that.
//!
//! A packet can wait in a [`weir_sync::list::LocklessList`]. Its link then replaces `chain` and
//! `cb`, and the number of its notes replaces `dev`; all three are 0 when the packet comes out. The
//! notes, which record where other packets of its batch are, lie in its headroom.
//!
//! Fields initialised by an allocation: `Pool::alloc`, `Cache::alloc` and `Packet::copy` initialise
//! all of them. `alloc_bulk` initialises all but `time`, `dev` and `iif`, which the receive path
//! writes. The bytes of the frame keep the content their previous user left.
#![allow(unsafe_code)] // the handle is a raw pointer into the arena

pub use self::arrival::Arrival;
pub use crate::meta::{
    Flags, LongPackets, Meta, NodeType, PacketType, SegmentKind, Segments, VlanTag,
};
pub use crate::record::{FRAME_DATA, HEADROOM, JUMBO_DATA, Record};

use crate::arena::{Class, FRAME, JUMBO, PAGE, RECORD};
use crate::conn::Conn;
use crate::depot;
use crate::record::{
    self, CONN, CONN_AT, CONN_END, DEPARTS, Layout, NODE_TYPE, SEGMENTS, SEGMENTS_AT, SEGMENTS_END,
    TUNNEL, TUNNEL_LEN, UNSET, VLAN, class_of, frame_of,
};
use crate::tunnel::Tunnel;
use std::mem::offset_of;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use weir_sync::list::{Link, Linked, NOTED};
use weir_sync::primitive::{prefetch, prefetch_to_write};

const _: () = assert!(size_of::<Option<Packet>>() == 8);
const _: () = assert!(size_of::<Arc<Tunnel>>() <= TUNNEL_LEN as usize);

/// The offset of the notes in a frame's headroom. Each note is the distance, in records, to another
/// packet of the batch in the list.
const NOTES: usize = 64;
/// The number of cache lines taken by the maximum number of notes.
const NOTES_LINES: usize = (NOTED * size_of::<i32>()).div_ceil(64);

/// An owned packet. Dropping it returns its memory to its pool, from any thread.
#[repr(transparent)]
pub struct Packet(NonNull<Record>);

// SAFETY: a packet is the only owner of its record and frame; its pool (atomics and a lock) may be
// accessed from any thread.
unsafe impl Send for Packet {}
// SAFETY: `&Packet` only reads.
unsafe impl Sync for Packet {}

impl Deref for Packet {
    type Target = Meta;
    #[inline]
    fn deref(&self) -> &Meta {
        &self.record().meta
    }
}

impl DerefMut for Packet {
    #[inline]
    fn deref_mut(&mut self) -> &mut Meta {
        &mut self.record_mut().meta
    }
}

impl Drop for Packet {
    #[inline]
    fn drop(&mut self) {
        self.drop_tunnel();
        // SAFETY: the packet owned the record, which is not used again.
        unsafe { depot::give_back(self.0) };
    }
}

impl Packet {
    /// Takes ownership of a record and initialises it as an empty packet, except for `time`, `dev`
    /// and `iif`.
    ///
    /// # Safety
    /// `record` is a record of a live arena without another owner.
    #[inline]
    pub(crate) unsafe fn init(record: NonNull<Record>) -> Packet {
        // SAFETY: this function owns the record by contract.
        unsafe { record::init(record) };
        Packet(record)
    }

    /// Takes ownership of a record that has been initialised as that of a packet.
    ///
    /// # Safety
    /// `record` is an initialised record of a live arena without another owner.
    #[inline]
    pub(crate) unsafe fn from_record(record: NonNull<Record>) -> Packet {
        Packet(record)
    }

    /// Returns the packet with `len` bytes of data, `start` bytes after the start of the frame.
    /// Drops the packet and returns `None` if that range is outside the frame.
    #[inline]
    pub(crate) fn with_data(mut self, start: usize, len: usize) -> Option<Packet> {
        let end = start.checked_add(len)?;
        if start >= UNSET as usize || end > self.capacity() {
            return None;
        }
        (self.layout_mut().data, self.layout_mut().len) = (start as u16, len as u32);
        Some(self)
    }

    /// Completes an allocation of `len` bytes, which fit into the frame.
    #[inline]
    pub(crate) fn with_len(mut self, len: usize) -> Packet {
        debug_assert!(len <= self.tailroom());
        self.layout_mut().len = len as u32;
        let meta = &mut self.record_mut().meta;
        (meta.time, meta.dev, meta.iif) = (0, 0, 0);
        self
    }

    /// Gives up ownership of a packet that is being freed.
    #[inline]
    pub(crate) fn into_record(mut self) -> NonNull<Record> {
        self.drop_tunnel();
        std::mem::ManuallyDrop::new(self).0
    }

    /// Returns the record's address, for prefetching and range checks.
    #[inline]
    pub(crate) fn as_record(&self) -> NonNull<Record> {
        self.0
    }

    #[inline]
    fn record(&self) -> &Record {
        // SAFETY: the packet owns a live, initialised record.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn record_mut(&mut self) -> &mut Record {
        // SAFETY: the packet owns a live, initialised record, and `self` is borrowed mutably.
        unsafe { self.0.as_mut() }
    }

    #[inline]
    fn layout(&self) -> &Layout {
        &self.record().layout
    }

    #[inline]
    fn layout_mut(&mut self) -> &mut Layout {
        &mut self.record_mut().layout
    }

    /// Returns the class of the frame, which follows from the record's position in its page.
    #[inline]
    pub(crate) fn class(&self) -> Class {
        class_of(self.0)
    }

    /// Returns the start of the frame.
    #[inline]
    fn frame(&self) -> NonNull<u8> {
        frame_of(self.0)
    }

    /// Returns the size of the frame in bytes: headroom, data and tailroom together.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.class().size()
    }

    /// Returns the length of the data, in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.layout().len as usize
    }

    /// Returns true if there is no data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.layout().len == 0
    }

    /// Returns the number of free bytes before the data.
    #[inline]
    pub fn headroom(&self) -> usize {
        let l = self.layout();
        usize::from(l.data - l.reserved())
    }

    /// Returns the number of free bytes after the data.
    #[inline]
    pub fn tailroom(&self) -> usize {
        self.capacity() - self.layout().data as usize - self.len()
    }

    /// Returns the data.
    #[inline]
    pub fn data(&self) -> &[u8] {
        let l = self.layout();
        // SAFETY: `data + len <= capacity` always holds (every writer of the layout checks it), and
        // the frame belongs to this packet; its bytes were zeroed when the page was committed.
        unsafe {
            std::slice::from_raw_parts(self.frame().add(l.data as usize).as_ptr(), l.len as usize)
        }
    }

    /// Returns the data, mutably.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let (data, len) = (self.layout().data as usize, self.len());
        // SAFETY: as in `data`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.frame().add(data).as_ptr(), len) }
    }

    /// Returns the bytes of the frame from `start` to the end of the data, or an empty slice if
    /// `start` is past the end.
    #[inline]
    fn rest_of(&self, start: u16) -> &[u8] {
        let l = self.layout();
        let end = l.data as usize + l.len as usize;
        let start = (start as usize).min(end);
        // SAFETY: `start <= end <= capacity`; as in `data`.
        unsafe { std::slice::from_raw_parts(self.frame().add(start).as_ptr(), end - start) }
    }

    #[inline]
    fn rest_of_mut(&mut self, start: u16) -> &mut [u8] {
        let end = self.layout().data as usize + self.len();
        let start = (start as usize).min(end);
        // SAFETY: as in `rest_of`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.frame().add(start).as_ptr(), end - start) }
    }

    /// Grows the data by `n` bytes at the front (`skb_push`) and returns the new bytes. Returns
    /// `None` without headroom.
    #[inline]
    pub fn push(&mut self, n: usize) -> Option<&mut [u8]> {
        let l = self.layout_mut();
        if n > usize::from(l.data - l.reserved()) {
            return None;
        }
        l.data -= n as u16;
        l.len += n as u32;
        self.data_mut().get_mut(..n)
    }

    /// Shrinks the data by `n` bytes at the front (`skb_pull`). Returns false and changes nothing
    /// if the data is shorter.
    #[inline]
    #[must_use]
    pub fn pull(&mut self, n: usize) -> bool {
        let l = self.layout_mut();
        if n > l.len as usize || l.data as usize + n >= UNSET as usize {
            return false;
        }
        l.data += n as u16;
        l.len -= n as u32;
        true
    }

    /// Grows the data by `n` bytes at the end (`skb_put`) and returns the new bytes. Returns `None`
    /// without tailroom.
    #[inline]
    pub fn put(&mut self, n: usize) -> Option<&mut [u8]> {
        if n > self.tailroom() {
            return None;
        }
        let len = self.len();
        self.layout_mut().len = (len + n) as u32;
        self.data_mut().get_mut(len..)
    }

    /// Truncates the data to at most `len` bytes (`skb_trim`).
    #[inline]
    pub fn trim(&mut self, len: usize) {
        let l = self.layout_mut();
        l.len = l.len.min(len.min(u32::MAX as usize) as u32);
    }

    /// Appends bytes. Returns false and changes nothing without tailroom.
    #[must_use]
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        match self.put(bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                true
            }
            None => false,
        }
    }

    /// Empties the packet and gives it the headroom of a new one. Leaves the other metadata as it
    /// is.
    pub fn rewind(&mut self) {
        let l = self.layout_mut();
        (l.data, l.len) = (HEADROOM as u16, 0);
        (l.mac, l.network, l.transport) = (UNSET, UNSET, UNSET);
    }

    /// Returns the offset that is `at` bytes after the start of the data, or the unset value if it
    /// does not fit.
    #[inline]
    fn offset(&self, at: usize) -> u16 {
        let l = self.layout();
        u16::try_from(l.data as usize + at.min(PAGE)).unwrap_or(UNSET)
    }

    /// Sets the MAC header to the current start of the data.
    #[inline]
    pub fn reset_mac(&mut self) {
        self.layout_mut().mac = self.layout().data;
    }

    /// Sets the network header to `at` bytes after the start of the data.
    #[inline]
    pub fn set_network(&mut self, at: usize) {
        self.layout_mut().network = self.offset(at);
    }

    /// Sets the transport header to `at` bytes after the start of the data.
    #[inline]
    pub fn set_transport(&mut self, at: usize) {
        self.layout_mut().transport = self.offset(at);
    }

    /// Returns the bytes from the MAC header to the end, or an empty slice if it is not set.
    #[inline]
    pub fn mac(&self) -> &[u8] {
        self.rest_of(self.layout().mac)
    }

    /// Returns the bytes from the MAC header to the end, mutably.
    #[inline]
    pub fn mac_mut(&mut self) -> &mut [u8] {
        self.rest_of_mut(self.layout().mac)
    }

    /// Returns the bytes from the network header to the end, or an empty slice if it is not set.
    #[inline]
    pub fn network(&self) -> &[u8] {
        self.rest_of(self.layout().network)
    }

    /// Returns the bytes from the network header to the end, mutably.
    #[inline]
    pub fn network_mut(&mut self) -> &mut [u8] {
        self.rest_of_mut(self.layout().network)
    }

    /// Returns the bytes from the transport header to the end, or an empty slice if it is not set.
    #[inline]
    pub fn transport(&self) -> &[u8] {
        self.rest_of(self.layout().transport)
    }

    /// Returns the bytes from the transport header to the end, mutably.
    #[inline]
    pub fn transport_mut(&mut self) -> &mut [u8] {
        self.rest_of_mut(self.layout().transport)
    }

    /// Returns true if the MAC header is set.
    #[inline]
    pub fn has_mac(&self) -> bool {
        self.layout().mac != UNSET
    }

    /// Returns true if the network header is set.
    #[inline]
    pub fn has_network(&self) -> bool {
        self.layout().network != UNSET
    }

    /// Returns true if the transport header is set.
    #[inline]
    pub fn has_transport(&self) -> bool {
        self.layout().transport != UNSET
    }

    /// Unsets the MAC header, for a device without one.
    pub fn unset_mac(&mut self) {
        self.layout_mut().mac = UNSET;
    }

    /// Unsets the transport header.
    pub fn unset_transport(&mut self) {
        self.layout_mut().transport = UNSET;
    }

    /// Returns the number of bytes from the MAC header to the network header (`skb->mac_len`), or 0
    /// if either is unset.
    #[inline]
    pub fn mac_len(&self) -> usize {
        let l = self.layout();
        match l.network {
            UNSET => 0,
            // An unset MAC header counts as one behind all others.
            network => usize::from(network.saturating_sub(l.mac)),
        }
    }

    /// Returns the offset of the network header from the data. Returns `None` if it is unset or in
    /// front of the data.
    #[inline]
    pub fn network_offset(&self) -> Option<usize> {
        relative(self.layout().network, self.layout().data)
    }

    /// Returns the offset of the transport header from the data. Returns `None` if it is unset or
    /// before the data.
    #[inline]
    pub fn transport_offset(&self) -> Option<usize> {
        relative(self.layout().transport, self.layout().data)
    }

    /// Moves the start of the data to the network header. Returns false if it is unset or outside
    /// the frame.
    #[inline]
    #[must_use]
    pub fn data_to_network(&mut self) -> bool {
        self.data_to(self.layout().network)
    }

    /// Moves the start of the data to the MAC header. Returns false if it is unset or outside the
    /// frame.
    #[must_use]
    pub fn data_to_mac(&mut self) -> bool {
        self.data_to(self.layout().mac)
    }

    #[inline]
    fn data_to(&mut self, to: u16) -> bool {
        let l = self.layout_mut();
        let end = l.data as usize + l.len as usize;
        if to == UNSET || to as usize > end {
            return false;
        }
        l.data = to;
        l.len = (end - to as usize) as u32;
        true
    }

    /// Returns the number of bytes between the MAC header and the start of the data. Returns `None`
    /// if the MAC header is unset or after the start of the data.
    #[inline]
    pub fn pulled_from_mac(&self) -> Option<usize> {
        let l = self.layout();
        if l.mac == UNSET {
            return None;
        }
        l.data.checked_sub(l.mac).map(usize::from)
    }

    /// Moves the MAC header by `by` bytes: towards the start of the frame for a VLAN push, away
    /// from it for a pop.
    pub(crate) fn shift_mac(&mut self, by: isize) {
        let l = self.layout_mut();
        if l.mac != UNSET {
            l.mac = l.mac.saturating_add_signed(by as i16).max(l.reserved());
        }
    }

    /// Returns the addressee according to the link-layer address.
    #[inline]
    pub fn pkt_type(&self) -> PacketType {
        self.layout().pkt_type
    }

    /// Sets the addressee according to the link-layer address.
    #[inline]
    pub fn set_pkt_type(&mut self, to: PacketType) {
        self.layout_mut().pkt_type = to;
    }

    /// Returns the outer VLAN tag if it is in the metadata (`skb_vlan_tag_present`).
    #[inline]
    pub fn vlan(&self) -> Option<VlanTag> {
        let l = self.layout();
        let proto = match l.marks & VLAN {
            0 => return None,
            1 => 0x8100,
            _ => 0x88a8,
        };
        Some(VlanTag {
            proto,
            tci: l.vlan_tci,
        })
    }

    /// Sets the VLAN tag in the metadata (`__vlan_hwaccel_put_tag`) or removes it. A protocol other
    /// than 802.1ad counts as 802.1Q.
    #[inline]
    pub fn set_vlan(&mut self, tag: Option<VlanTag>) {
        let l = self.layout_mut();
        let (mark, tci) = match tag {
            None => (0, 0),
            Some(t) => (1 + u8::from(t.proto == 0x88a8), t.tci),
        };
        (l.marks, l.vlan_tci) = (l.marks & !VLAN | mark, tci);
    }

    /// Returns the departure time that the sender requested, in nanoseconds of the stack's clock
    /// (`skb->tstamp` of a socket with SO_TXTIME). `fq` and `etf` obey it.
    #[inline]
    pub fn departure(&self) -> Option<u64> {
        (self.layout().marks & DEPARTS != 0).then_some(self.time)
    }

    /// Sets the departure time. Reception by another device or another stack clears it.
    #[inline]
    pub fn set_departure(&mut self, to: Option<u64>) {
        let l = self.layout_mut();
        match to {
            None => l.marks &= !DEPARTS,
            Some(time) => {
                l.marks |= DEPARTS;
                self.time = time;
            }
        }
    }

    /// Returns what the tunnel that received the packet knows of its sender.
    #[inline]
    pub fn node_type(&self) -> NodeType {
        match self.layout().marks & NODE_TYPE {
            0x0 => NodeType::Unspecified,
            0x4 => NodeType::Host,
            0x8 => NodeType::NoDefault,
            _ => NodeType::Default,
        }
    }

    /// Sets what the tunnel that received the packet knows of its sender.
    #[inline]
    pub fn set_node_type(&mut self, to: NodeType) {
        let l = self.layout_mut();
        l.marks = l.marks & !NODE_TYPE | (to as u8) << 2;
    }

    /// Returns the tunnel metadata (`skb_tunnel_info`).
    #[inline]
    pub fn tunnel(&self) -> Option<&Arc<Tunnel>> {
        if self.layout().marks & TUNNEL == 0 {
            return None;
        }
        // SAFETY: the mark says that `set_tunnel` or a copy wrote a reference there; while it is
        // set, no method gives out these bytes or moves headers into them.
        Some(unsafe { self.frame().cast::<Arc<Tunnel>>().as_ref() })
    }

    /// Sets or removes the tunnel metadata (`skb_dst_set`, `skb_dst_drop`). Returns false, leaving
    /// the packet without any, if the headers begin in the first 8 bytes of the frame.
    #[inline]
    pub fn set_tunnel(&mut self, to: Option<Arc<Tunnel>>) -> bool {
        self.drop_tunnel();
        let Some(to) = to else {
            return true;
        };
        let l = self.layout_mut();
        if l.begin() < TUNNEL_LEN {
            return false;
        }
        l.marks |= TUNNEL;
        // SAFETY: this packet owns the first bytes of the frame, which are aligned as the frame is,
        // and no header is there.
        unsafe { self.frame().cast::<Arc<Tunnel>>().write(to) };
        true
    }

    /// Returns whether the packet has tunnel metadata.
    #[inline]
    pub fn has_tunnel(&self) -> bool {
        self.layout().marks & TUNNEL != 0
    }

    /// Returns whether any of these packets has tunnel metadata.
    #[inline]
    pub(crate) fn any_has_tunnel(packets: &[Packet]) -> bool {
        let marks = packets.iter().map(|packet| packet.layout().marks);
        marks.fold(0, |all, marks| all | marks) & TUNNEL != 0
    }

    /// Removes the tunnel metadata.
    #[inline]
    pub(crate) fn drop_tunnel(&mut self) {
        let l = self.layout_mut();
        if l.marks & TUNNEL != 0 {
            l.marks &= !TUNNEL;
            // SAFETY: as in `tunnel`; the mark is cleared, so the reference is read out once.
            drop(unsafe { self.frame().cast::<Arc<Tunnel>>().read() });
        }
    }

    /// Returns how a long packet is to be split; `None` for any other packet (`skb_is_gso`).
    #[inline]
    pub fn segments(&self) -> Option<Segments> {
        if self.layout().marks & SEGMENTS == 0 {
            return None;
        }
        // SAFETY: the mark says that `set_segments` or a copy wrote the word there; while it is set, no
        // method gives out these bytes. The frame is aligned for it.
        let word = unsafe { self.frame().byte_add(SEGMENTS_AT).cast::<u64>().read() };
        Some(Segments::unpack(word))
    }

    /// Returns the number of packets on the wire that this one stands for (`gso_segs`, at least 1).
    #[inline]
    pub fn wire_packets(&self) -> u64 {
        self.segments().map_or(1, |segments| segments.count.into())
    }

    /// Returns the bytes on the wire of all packets that this one stands for, which repeat its headers
    /// (`qdisc_pkt_len_init`). The data begin at the link-layer header.
    #[inline]
    pub fn wire_len(&self) -> usize {
        self.segments().map_or(self.len(), |segments| {
            let headers = self.network_offset().unwrap_or(0) + usize::from(segments.headers);
            self.len() + (usize::from(segments.count) - 1) * headers
        })
    }

    /// Returns the length of the longest frame on the wire that this packet stands for, in bytes
    /// (`skb_gso_mac_seglen`). The data begin at the link-layer header.
    #[inline]
    pub fn wire_frame_len(&self) -> usize {
        self.segments().map_or(self.len(), |segments| {
            self.network_offset().unwrap_or(0) + segments.longest()
        })
    }

    /// Returns the length of the longest packet on the wire that this one stands for, in bytes from the start
    /// of the data, which begin at the network header (`skb_gso_network_seglen`).
    #[inline]
    pub fn network_len(&self) -> usize {
        // Few packets have segments.
        if self.layout().marks & SEGMENTS == 0 {
            return self.len();
        }
        self.segments()
            .map_or(self.len(), |segments| segments.longest())
    }

    /// Sets or removes how the packet is to be split. Returns false, leaving the packet without, if the
    /// headers begin in the first 16 bytes of the frame.
    #[inline]
    pub fn set_segments(&mut self, to: Option<Segments>) -> bool {
        let l = self.layout_mut();
        l.marks &= !SEGMENTS;
        let Some(to) = to else {
            return true;
        };
        if l.begin() < SEGMENTS_END {
            return false;
        }
        l.marks |= SEGMENTS;
        // SAFETY: this packet owns the first bytes of the frame, which are aligned as the frame is, and no
        // header is there.
        unsafe {
            self.frame()
                .byte_add(SEGMENTS_AT)
                .cast::<u64>()
                .write(to.pack())
        };
        true
    }

    /// Returns the packet's connection, if tracking has attached one (`nf_ct_get`).
    #[inline]
    pub fn conn(&self) -> Option<Conn> {
        if self.layout().marks & CONN == 0 {
            return None;
        }
        // SAFETY: the mark says that `set_conn` or a copy wrote the words there; while it is set, no method
        // gives out these bytes. The frame is aligned for them.
        let words = unsafe { self.frame().byte_add(CONN_AT).cast::<[u64; 2]>().read() };
        Some(Conn::unpack(words))
    }

    /// Sets or removes the packet's connection (`nf_ct_set`, `nf_reset_ct`). Returns false, leaving the packet
    /// without, if the headers begin in the first 32 bytes of the frame.
    #[inline]
    pub fn set_conn(&mut self, to: Option<Conn>) -> bool {
        let l = self.layout_mut();
        l.marks &= !CONN;
        let Some(to) = to else {
            return true;
        };
        if l.begin() < CONN_END {
            return false;
        }
        l.marks |= CONN;
        // SAFETY: this packet owns the first bytes of the frame, which are aligned as the frame is, and no
        // header is there.
        unsafe {
            self.frame()
                .byte_add(CONN_AT)
                .cast::<[u64; 2]>()
                .write(to.pack());
        };
        true
    }

    /// Gives a copy the tunnel metadata, the segments and the connection of its original. The copy already has the
    /// original's layout.
    #[inline]
    fn share_headroom(&self, to: &mut Packet) {
        if let Some(tunnel) = self.tunnel() {
            // SAFETY: no header of the original is in the first bytes of its frame. The copy's
            // headers are at the same offsets or further on, so none of them is there either.
            // The copy owns its frame.
            unsafe { to.frame().cast::<Arc<Tunnel>>().write(tunnel.clone()) };
        }
        if let Some(segments) = self.segments() {
            // The headers of the copy are no closer to the start of the frame.
            let _ = to.set_segments(Some(segments));
        }
        if let conn @ Some(_) = self.conn() {
            let _ = to.set_conn(conn);
        }
    }

    /// Returns a deep copy, metadata and data, in memory of the same pool. Returns `None` if the
    /// pool's budget is spent.
    pub fn copy(&self) -> Option<Packet> {
        let class = if self.end() <= FRAME {
            Class::Frame
        } else {
            Class::Jumbo
        };
        // SAFETY: this packet's record is live.
        let record = unsafe { depot::alloc_beside(self.0, class)? };
        // SAFETY: the pool returned sole ownership of the record.
        Some(self.copy_to(unsafe { Packet::init(record) }))
    }

    /// Returns the offset of the end of the data in the frame.
    pub(crate) fn end(&self) -> usize {
        let l = self.layout();
        l.data as usize + l.len as usize
    }

    /// Copies into a new packet, whose frame must be large enough.
    pub(crate) fn copy_to(&self, mut to: Packet) -> Packet {
        let from = *self.layout();
        let end = self.end();
        assert!(end <= to.capacity());
        let record = to.record_mut();
        record.layout = from;
        record.meta = self.record().meta;
        // Bytes before the data, from the MAC header on, are copied too.
        let start = (from.mac.min(from.network).min(from.data)) as usize;
        // SAFETY: `start <= end`, `end` is within both frames (asserted above), and the frames are
        // different ones.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.frame().add(start).as_ptr(),
                to.frame().add(start).as_ptr(),
                end - start,
            );
        }
        self.share_headroom(&mut to);
        to
    }

    /// Gives a segment of this packet its metadata. The segment has its own data, which begin at the same header.
    pub(crate) fn describe(&self, to: &mut Packet) {
        let from = *self.layout();
        let meta = self.record().meta;
        let record = to.record_mut();
        let move_by = |offset: u16| match offset {
            UNSET => UNSET,
            o => o.wrapping_sub(from.data).wrapping_add(record.layout.data),
        };
        record.layout = Layout {
            len: record.layout.len,
            data: record.layout.data,
            mac: if from.mac < from.data {
                UNSET
            } else {
                move_by(from.mac)
            },
            network: move_by(from.network),
            transport: move_by(from.transport),
            marks: from.marks & !(TUNNEL | SEGMENTS | CONN),
            ..from
        };
        record.meta = meta;
        if let Some(tunnel) = self.tunnel() {
            let _ = to.set_tunnel(Some(tunnel.clone()));
        }
        if let conn @ Some(_) = self.conn() {
            let _ = to.set_conn(conn);
        }
    }

    /// Returns a deep copy with at least `headroom` bytes before the headers
    /// (`skb_copy_expand`), for headers that no longer fit in front. Returns `None` if the budget
    /// is spent or no frame is large enough.
    pub fn copy_with_headroom(&self, headroom: usize) -> Option<Packet> {
        let from = *self.layout();
        let start = usize::from(from.mac.min(from.network).min(from.data));
        let data = usize::from(from.data);
        let shift = headroom.saturating_sub(start);
        if shift > UNSET as usize || data + shift >= UNSET as usize {
            return None;
        }
        let class = match data + shift + from.len as usize {
            0..=FRAME => Class::Frame,
            end if end <= JUMBO => Class::Jumbo,
            _ => return None,
        };
        // SAFETY: this packet's record is live.
        let record = unsafe { depot::alloc_beside(self.0, class)? };
        // SAFETY: the pool returned sole ownership of the record.
        let mut to = unsafe { Packet::init(record) };
        let move_by = |offset: u16| match offset {
            UNSET => UNSET,
            o => o.saturating_add(shift as u16),
        };
        let record = to.record_mut();
        record.meta = self.record().meta;
        record.layout = Layout {
            data: (data + shift) as u16,
            mac: move_by(from.mac),
            network: move_by(from.network),
            transport: move_by(from.transport),
            ..from
        };
        let bytes = data + from.len as usize - start;
        // SAFETY: `start` and `start + shift` plus `bytes` are within the two frames, as computed
        // above, and the frames are different ones.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.frame().add(start).as_ptr(),
                to.frame().add(start + shift).as_ptr(),
                bytes,
            );
        }
        self.share_headroom(&mut to);
        Some(to)
    }

    /// Returns the offset of the data from the start of the pool's memory
    /// ([`crate::Pool::region`]): its address in an AF_XDP UMEM.
    #[inline]
    pub fn umem_address(&self) -> u64 {
        // SAFETY: this packet's record is live.
        let base = unsafe { depot::base_of(self.0) };
        (self.frame().addr().get() - base + self.layout().data as usize) as u64
    }

    /// Lends the frame to a device (the fill or transmit ring of AF_XDP) and returns its
    /// [`umem_address`](Self::umem_address). The frame counts as in use until
    /// [`crate::Pool::take_back`]. A frame that is never taken back keeps its pool's memory
    /// forever.
    #[inline]
    pub fn lend(self) -> u64 {
        let address = self.umem_address();
        let _ = self.into_record();
        address
    }

    /// Prefetches the metadata and the first bytes of the data.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(self.0.as_ptr());
        // SAFETY: the usual start of the data lies inside the frame.
        prefetch(unsafe { self.frame().add(HEADROOM).as_ptr() });
    }
}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packet")
            .field("len", &self.len())
            .field("headroom", &self.headroom())
            .field("network", &self.network_offset())
            .field("transport", &self.transport_offset())
            .field("pkt_type", &self.pkt_type())
            .field("vlan", &self.vlan())
            .field("meta", &self.record().meta)
            .finish()
    }
}

#[inline]
fn relative(offset: u16, data: u16) -> Option<usize> {
    if offset == UNSET {
        return None;
    }
    offset.checked_sub(data).map(usize::from)
}

/// Returns the notes in the frame of a record.
#[inline]
fn notes_of(record: NonNull<Record>) -> *mut i32 {
    frame_of(record).as_ptr().wrapping_add(NOTES).cast()
}

// SAFETY: a packet owns its record, which does not move; the link replaces `chain` and `cb`, which
// only the holder of a packet accesses.
unsafe impl Linked for Packet {
    type Node = Record;

    #[inline]
    fn into_node(self) -> NonNull<Record> {
        std::mem::ManuallyDrop::new(self).0
    }

    #[inline]
    unsafe fn from_node(node: NonNull<Record>) -> Packet {
        let mut packet = Packet(node);
        (packet.chain, packet.cb, packet.dev) = (0, 0, 0);
        packet
    }

    #[inline]
    unsafe fn note(node: NonNull<Record>, others: impl Iterator<Item = NonNull<Record>>) {
        // SAFETY: by contract the record is live and no other thread accesses it.
        let record = unsafe { &mut *node.as_ptr() };
        // Limited by the room in the headroom.
        let room = usize::from(record.layout.begin()).saturating_sub(NOTES) / size_of::<i32>();
        let mut count = 0;
        for (at, other) in (0..room).zip(others) {
            let records = other.addr().get().wrapping_sub(node.addr().get()) / RECORD;
            // SAFETY: the note is before all the data and headers of the packet.
            unsafe { notes_of(node).add(at).write(records as i32) };
            count += 1;
        }
        record.meta.dev = count;
    }

    #[inline]
    unsafe fn prefetch(node: NonNull<Record>) {
        prefetch_to_write(node.as_ptr());
        for line in 0..NOTES_LINES {
            prefetch(notes_of(node).wrapping_byte_add(line * 64));
        }
    }

    #[inline]
    unsafe fn prefetch_noted(node: NonNull<Record>) {
        // SAFETY: by contract the record is live and no other thread accesses it.
        let count = unsafe { (*node.as_ptr()).meta.dev } as usize;
        for at in 0..count {
            // SAFETY: `note` wrote this many.
            let records = unsafe { notes_of(node).add(at).read() };
            prefetch_to_write(node.as_ptr().wrapping_offset(records as isize));
        }
    }

    #[inline]
    unsafe fn link<'a>(node: NonNull<Record>) -> &'a Link<Record> {
        // SAFETY: the two fields are 8 bytes, aligned as a pointer (asserted below), in a live
        // record that only the list accesses.
        unsafe { &*(&raw const (*node.as_ptr()).meta.chain).cast() }
    }
}

const _: () = {
    let at = offset_of!(Record, meta) + offset_of!(Meta, chain);
    assert!(at.is_multiple_of(align_of::<Link<Record>>()) && size_of::<Link<Record>>() == 8);
    assert!(offset_of!(Meta, cb) == offset_of!(Meta, chain) + 4);
};

mod arrival;
mod head;
#[cfg(test)]
mod tests;
