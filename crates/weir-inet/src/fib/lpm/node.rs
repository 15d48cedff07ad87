// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The node of the longest-prefix-match trie: a header and its pointers in one allocation.
//!
//! A node at bit position `pos` (a multiple of [`STRIDE`]) stands for all keys that agree with its
//! `key` in their first `pos` bits. It holds the prefixes of length `pos+1 ..= pos+STRIDE`, and
//! children selected by the next [`STRIDE`] bits (the *chunk*). A child is either a node at any
//! deeper position (the bits in between are skipped) or a single prefix that is too long for this
//! node (a *leaf*). Three bitmaps say which slots are present:
//!
//! | bitmap | bit | meaning |
//! |---|---|---|
//! | `children` | chunk | a child |
//! | `full` | chunk | a prefix of relative length 6 |
//! | `internal` | `2^l - 2 + top l bits of the chunk` | a prefix of relative length `l` = 1..=5 |
//!
//! The pointers follow the header in that order, without holes: children, full, internal. The shape
//! of a node never changes: a different shape is a new node, published through its parent's
//! pointer. The pointers themselves are atomic, so that a child or an entry can be replaced in
//! place.
//!
//! A child slot holds an [`Entry`] if its lowest bit ([`LEAF`]) is set, else a node.
//!
//! Invariant kept by the trie: a node holds at least two members.
#![allow(unsafe_code)] // a header followed by a variable number of pointers has no safe form

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::Key;
use weir_sync::bits::set_bits;
use weir_sync::primitive::atomic::{AtomicPtr, Ordering};

/// The number of key bits a node consumes.
pub(super) const STRIDE: u8 = 6;

/// A pointer to a node or an entry. The kind of slot and [`LEAF`] tell them apart.
pub(super) type Slot = AtomicPtr<u8>;

/// Tag in a child pointer: it points to an entry.
pub(super) const LEAF: usize = 1;
/// Tag in an index pointer: the slot is covered by a prefix no longer than the index's bits.
pub(super) const COVERED: usize = 2;

/// A prefix and its value.
pub(super) struct Entry<K, V> {
    pub(super) key: K,
    pub(super) len: u8,
    pub(super) value: V,
}

impl<K: Key, V> Entry<K, V> {
    /// Returns the position of the node that would hold the entry.
    pub(super) fn pos(&self) -> u8 {
        (self.len - 1) / STRIDE * STRIDE
    }

    /// Returns the entry's place in that node, as relative length and bits.
    pub(super) fn place(&self) -> (u8, u8) {
        let rel = self.len - self.pos();
        (rel, self.key.chunk(self.pos()) >> (STRIDE - rel))
    }
}

/// Tags an entry's pointer for a child slot.
pub(super) fn leaf<K, V>(entry: *mut Entry<K, V>) -> *mut u8 {
    const { assert!(align_of::<Entry<K, V>>() >= 4, "two low bits are tags") }
    entry.cast::<u8>().map_addr(|address| address | LEAF)
}

/// The contents of a child slot.
pub(super) enum Child<'a, K, V> {
    None,
    Leaf(&'a Entry<K, V>),
    Node(Node<K, V>),
}

/// For the top five bits of a chunk, the `internal` bits of all prefixes that cover it.
const COVER: [u64; 32] = {
    let mut table = [0u64; 32];
    let mut chunk = 0;
    while chunk < 32 {
        let mut len = 1;
        while len <= 5 {
            table[chunk] |= 1 << ((1 << len) - 2 + (chunk >> (5 - len)));
            len += 1;
        }
        chunk += 1;
    }
    table
};

/// The fixed part of a node.
pub(super) struct Header<K> {
    children: u64,
    full: u64,
    internal: u64,
    /// The first `pos` bits, which all keys below share; the rest is zero.
    pub(super) key: K,
    /// The number of bits consumed before this node.
    pub(super) pos: u8,
    child_count: u8,
    full_count: u8,
    internal_count: u8,
}

/// A pointer to a node. Copying it copies the pointer only.
pub(super) struct Node<K, V> {
    raw: NonNull<Header<K>>,
    value: PhantomData<*mut V>,
}

impl<K, V> Clone for Node<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, V> Copy for Node<K, V> {}

// SAFETY: a node pointer is a plain address. The trie decides who may follow it (readers under a
// guard, the writer under the lock), and it bounds K and V by Send + Sync.
unsafe impl<K: Send + Sync, V: Send + Sync> Send for Node<K, V> {}

/// The contents of a new node, collected before it is allocated.
pub(super) struct Plan<K> {
    pub(super) key: K,
    pub(super) pos: u8,
    pub(super) children: Vec<(u8, *mut u8)>,
    /// The relative length (1..=6), the bits of that length, and the value pointer.
    pub(super) values: Vec<(u8, u8, *mut u8)>,
}

/// Returns the `internal` bit of a prefix of relative length `len` (1..=5).
fn internal_bit(len: u8, bits: u8) -> u8 {
    (1 << len) - 2 + bits
}

/// Returns the number of set bits below bit `n`.
#[inline]
fn below(map: u64, n: u8) -> u32 {
    (map & ((1u64 << n) - 1)).count_ones()
}

impl<K: Key, V> Node<K, V> {
    /// The offset of the slots.
    const SLOTS: usize = size_of::<Header<K>>().next_multiple_of(align_of::<Slot>());

    fn layout(pointers: usize) -> (Layout, usize) {
        let slots = Layout::array::<Slot>(pointers).expect("at most 64 + 64 + 62 pointers");
        let (layout, offset) = Layout::new::<Header<K>>()
            .extend(slots)
            .expect("a node is smaller than two kilobytes");
        (layout.pad_to_align(), offset)
    }

    /// Allocates a node. The plan's entries may be in any order.
    pub(super) fn build(mut plan: Plan<K>) -> Self {
        let mut header = Header {
            children: 0,
            full: 0,
            internal: 0,
            key: plan.key.masked(plan.pos),
            pos: plan.pos,
            child_count: plan.children.len() as u8,
            full_count: 0,
            internal_count: 0,
        };
        plan.children.sort_unstable_by_key(|entry| entry.0);
        // Full prefixes first, then internal ones ordered by their bit.
        plan.values.sort_unstable_by_key(|&(len, bits, _)| {
            if len == STRIDE {
                (0, bits)
            } else {
                (1, internal_bit(len, bits))
            }
        });
        for &(chunk, _) in &plan.children {
            header.children |= 1 << chunk;
        }
        for &(len, bits, _) in &plan.values {
            if len == STRIDE {
                header.full |= 1 << bits;
                header.full_count += 1;
            } else {
                header.internal |= 1 << internal_bit(len, bits);
                header.internal_count += 1;
            }
        }
        let pointers = plan.children.len() + plan.values.len();
        let (layout, offset) = Self::layout(pointers);
        debug_assert_eq!(offset, Self::SLOTS);
        // SAFETY: the layout begins with a header, so its size is not zero.
        let raw = unsafe { alloc(layout) };
        let Some(raw) = NonNull::new(raw) else {
            handle_alloc_error(layout)
        };
        let all = plan
            .children
            .iter()
            .map(|entry| entry.1)
            .chain(plan.values.iter().map(|entry| entry.2));
        // SAFETY: the allocation is exclusively ours, and is large and aligned enough for the
        // header and for `pointers` slots from `offset` on.
        unsafe {
            raw.cast::<Header<K>>().write(header);
            let slots = raw.add(offset).cast::<Slot>();
            for (index, pointer) in all.enumerate() {
                slots.add(index).write(AtomicPtr::new(pointer));
            }
        }
        Self {
            raw: raw.cast(),
            value: PhantomData,
        }
    }

    /// Returns the node's contents as a plan, from which a changed copy can be built.
    ///
    /// # Safety
    /// As for [`Self::header`]; in addition, no writer changes the node meanwhile.
    pub(super) unsafe fn plan(self) -> Plan<K> {
        // SAFETY: guaranteed by the caller.
        let (header, slots) = unsafe { (self.header(), self.slots()) };
        let mut next = slots.iter().map(|slot| slot.load(Ordering::Relaxed));
        let mut plan = Plan {
            key: header.key,
            pos: header.pos,
            children: Vec::new(),
            values: Vec::new(),
        };
        // The bits are those of a `u64`, so their numbers fit a `u8`.
        let places = |map| set_bits(map).map(|place| place as u8);
        for chunk in places(header.children) {
            plan.children
                .extend(next.next().map(|pointer| (chunk, pointer)));
        }
        for chunk in places(header.full) {
            plan.values
                .extend(next.next().map(|pointer| (STRIDE, chunk, pointer)));
        }
        for bit in places(header.internal) {
            let (len, low) = internal_place(bit);
            plan.values
                .extend(next.next().map(|pointer| (len, low, pointer)));
        }
        plan
    }

    /// # Safety
    /// The node must stay allocated for `'a`, by a reader's guard, the writer's lock, or sole
    /// ownership.
    #[inline]
    pub(super) unsafe fn header<'a>(self) -> &'a Header<K> {
        // SAFETY: built by `build`, kept alive by the caller, and never written again.
        unsafe { self.raw.as_ref() }
    }

    /// # Safety
    /// As for [`Self::header`].
    #[inline]
    pub(super) unsafe fn slots<'a>(self) -> &'a [Slot] {
        // SAFETY: guaranteed by the caller.
        let header = unsafe { self.header() };
        let count = header.pointers();
        // SAFETY: `build` wrote that many slots at that offset of one allocation; the offset does
        // not depend on the number of slots.
        unsafe {
            let first = self.raw.as_ptr().byte_add(Self::SLOTS).cast::<Slot>();
            std::slice::from_raw_parts(first, count)
        }
    }

    /// Returns the size of the node in bytes.
    ///
    /// # Safety
    /// The node has not been freed.
    pub(super) unsafe fn bytes(&self) -> usize {
        // SAFETY: the node is alive by the caller's contract.
        let pointers = unsafe { self.header() }.pointers();
        Self::layout(pointers).0.size()
    }

    /// Frees the node's memory. The targets of its slots are not touched.
    ///
    /// # Safety
    /// The node must not be reachable any more.
    pub(super) unsafe fn free(self) {
        // SAFETY: the node is alive until the dealloc below.
        let pointers = unsafe { self.header() }.pointers();
        // SAFETY: this is the layout of the allocation; the header and the slots need no drop.
        unsafe { dealloc(self.raw.as_ptr().cast(), Self::layout(pointers).0) }
    }

    /// Returns the pointer for a child slot.
    pub(super) fn into_raw(self) -> *mut u8 {
        self.raw.as_ptr().cast()
    }

    /// Returns the target of a child slot.
    ///
    /// # Safety
    /// The slot must be a child slot (in a node, the trie's top or its index), and its target must
    /// stay allocated for `'a`.
    #[inline]
    pub(super) unsafe fn load<'a>(slot: &Slot) -> Child<'a, K, V> {
        // SAFETY: guaranteed by the caller.
        unsafe { Self::child_at(slot.load(Ordering::Acquire)) }
    }

    /// Like [`Self::load`], for a pointer that has already been read.
    ///
    /// # Safety
    /// As for [`Self::load`].
    #[inline]
    pub(super) unsafe fn child_at<'a>(pointer: *mut u8) -> Child<'a, K, V> {
        let raw = pointer.map_addr(|address| address & !(LEAF | COVERED));
        if pointer.addr() & LEAF != 0 {
            // SAFETY: a tagged pointer was made from an entry, which the caller keeps alive.
            return Child::Leaf(unsafe { &*raw.cast::<Entry<K, V>>() });
        }
        match NonNull::new(raw.cast::<Header<K>>()) {
            Some(raw) => Child::Node(Self {
                raw,
                value: PhantomData,
            }),
            None => Child::None,
        }
    }

    /// Returns the child slot for `chunk`.
    ///
    /// # Safety
    /// As for [`Self::header`].
    #[inline]
    pub(super) unsafe fn child<'a>(self, chunk: u8) -> Option<&'a Slot> {
        // SAFETY: guaranteed by the caller.
        let (header, slots) = unsafe { (self.header(), self.slots()) };
        if header.children >> chunk & 1 == 0 {
            return None;
        }
        slots.get(below(header.children, chunk) as usize)
    }

    /// Returns the slot of the longest prefix in this node that covers `chunk`.
    ///
    /// # Safety
    /// As for [`Self::header`].
    #[inline]
    pub(super) unsafe fn longest_slot<'a>(self, chunk: u8) -> Option<&'a Slot> {
        // SAFETY: guaranteed by the caller.
        let (header, slots) = unsafe { (self.header(), self.slots()) };
        let children = usize::from(header.child_count);
        if header.full >> chunk & 1 == 1 {
            return slots.get(children + below(header.full, chunk) as usize);
        }
        let map = header.internal & COVER[usize::from(chunk >> 1)];
        let bit = map.checked_ilog2()? as u8;
        let before = usize::from(header.full_count) + below(header.internal, bit) as usize;
        slots.get(children + before)
    }

    /// Returns the slot of exactly the prefix of relative length `len` with the bits `low`.
    ///
    /// # Safety
    /// As for [`Self::header`].
    pub(super) unsafe fn value<'a>(self, len: u8, low: u8) -> Option<&'a Slot> {
        // SAFETY: guaranteed by the caller.
        let (header, slots) = unsafe { (self.header(), self.slots()) };
        let index = header.value_index(len, low)?;
        slots.get(index)
    }

    /// Returns the child slots.
    ///
    /// # Safety
    /// As for [`Self::header`].
    pub(super) unsafe fn children<'a>(self) -> &'a [Slot] {
        // SAFETY: guaranteed by the caller.
        let (header, slots) = unsafe { (self.header(), self.slots()) };
        &slots[..usize::from(header.child_count)]
    }

    /// Returns the entry slots.
    ///
    /// # Safety
    /// As for [`Self::header`].
    pub(super) unsafe fn values<'a>(self) -> &'a [Slot] {
        // SAFETY: guaranteed by the caller.
        let (header, slots) = unsafe { (self.header(), self.slots()) };
        &slots[usize::from(header.child_count)..]
    }
}

impl<K> Header<K> {
    #[inline]
    fn pointers(&self) -> usize {
        usize::from(self.child_count)
            + usize::from(self.full_count)
            + usize::from(self.internal_count)
    }

    fn value_index(&self, len: u8, low: u8) -> Option<usize> {
        if len == STRIDE {
            (self.full >> low & 1 == 1)
                .then(|| usize::from(self.child_count) + below(self.full, low) as usize)
        } else {
            let bit = internal_bit(len, low);
            (self.internal >> bit & 1 == 1).then(|| {
                usize::from(self.child_count)
                    + usize::from(self.full_count)
                    + below(self.internal, bit) as usize
            })
        }
    }

    /// Returns the longest prefix in this node that covers `chunk` and has a relative length of at
    /// most `room` (at least 1), as (relative length, bits).
    #[inline]
    pub(super) fn longest(&self, chunk: u8, room: u8) -> Option<(u8, u8)> {
        if room >= STRIDE && self.full >> chunk & 1 == 1 {
            return Some((STRIDE, chunk));
        }
        let mut map = self.internal & COVER[usize::from(chunk >> 1)];
        if room < STRIDE - 1 {
            map &= (1 << internal_bit(room + 1, 0)) - 1;
        }
        if map == 0 {
            None
        } else {
            Some(internal_place(63 - map.leading_zeros() as u8))
        }
    }

    /// Returns whether anything may begin at `chunk`: a child, or a prefix whose first key has
    /// these bits.
    pub(super) fn starts(&self, chunk: u8) -> bool {
        (self.children | self.full) >> chunk & 1 == 1 || self.internal != 0
    }
}

/// The inverse of [`internal_bit`].
fn internal_place(bit: u8) -> (u8, u8) {
    let len = 7 - (bit + 2).leading_zeros() as u8;
    (len, bit + 2 - (1 << len))
}
