// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The walk of a packet through the tables (`u32_classify`). It allocates nothing and takes no
//! lock.

use weir_netlink::tca::u32::{EAT, MAXDEPTH, OFFSET, TERMINAL, VAROFFSET};
use weir_packet::Packet;

use super::node::{Counts, Selector};
use super::table::{Slot, Table};
use crate::classifier::{exts, octets};
use crate::context::Context;
use crate::verdict::{Code, Outcome, code};

const DEPTH: usize = MAXDEPTH as usize;

/// A packet as offsets see it: `skb->data` is at `base` in `bytes`.
struct View<'p> {
    bytes: &'p [u8],
    base: usize,
    /// The offset of the network header.
    network: u32,
}

impl<'p> View<'p> {
    #[inline]
    fn new(packet: &'p Packet, ingress: bool) -> Self {
        let bytes = if packet.has_mac() {
            packet.mac()
        } else {
            packet.network()
        };
        let header = packet.mac_len();
        // The data of received packets begin at the network header, those of packets to be sent at
        // the first byte.
        let (base, network) = if ingress {
            (header, 0)
        } else {
            (0, header as u32)
        };
        Self {
            bytes,
            base,
            network,
        }
    }

    /// Returns the bytes at an offset, or `None` if the packet is too short.
    #[inline]
    fn at<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        octets(self.bytes, self.base as i64 + i64::from(offset as i32))
    }

    /// Returns `skb->len`.
    #[inline]
    fn len(&self) -> u32 {
        self.bytes.len().saturating_sub(self.base) as u32
    }
}

/// Returns whether all keys match, or `None` if the packet is too short.
#[inline]
fn holds(view: &View<'_>, slot: &Slot, counts: &Counts, off: u32, off2: i32) -> Option<bool> {
    let Some(first) = &slot.first else {
        return Some(true);
    };
    let mut key = first;
    let mut index = 0;
    loop {
        let moved = (off2 & key.offmask) as u32;
        let at = off.wrapping_add(key.off as u32).wrapping_add(moved);
        let word = u32::from_ne_bytes(view.at(at)?);
        if (word ^ key.val) & key.mask != 0 {
            return Some(false);
        }
        let keys = &slot.node.selector.keys;
        counts.key(index, keys.len());
        index += 1;
        match keys.get(index) {
            Some(next) => key = next,
            None => return Some(true),
        }
    }
}

/// Follows a link: updates the offsets and returns the bucket to continue with, or `None` if the
/// packet is too short.
#[inline]
fn follow(
    view: &View<'_>,
    selector: &Selector,
    divisor: u32,
    off: &mut u32,
    off2: &mut i32,
) -> Option<u32> {
    let head = &selector.head;
    let mut bucket = 0;
    if divisor != 0 {
        let word = u32::from_ne_bytes(view.at(off.wrapping_add(head.hoff as u32))?);
        bucket = divisor & (u32::from_be(word & head.hmask) >> selector.shift);
    }
    let flags = u32::from(head.flags);
    if flags & (OFFSET | VAROFFSET) != 0 {
        let mut next = i32::from(head.off) + 3;
        if flags & VAROFFSET != 0 {
            let word = u16::from_ne_bytes(view.at(off.wrapping_add(head.offoff as u32))?);
            next += i32::from(u16::from_be(word & head.offmask) >> head.offshift);
        }
        *off2 = next & !3;
    }
    if flags & EAT != 0 {
        *off = off.wrapping_add(*off2 as u32);
        *off2 = 0;
    }
    Some(bucket)
}

/// Returns the code of the first node that matches and does not pass the packet on.
pub fn walk<'g>(
    root: &'g Table,
    cx: &mut Context<'_, 'g>,
    packet: &mut Packet,
    out: &mut Outcome<'g>,
) -> Code {
    let (guard, cpu) = (cx.guard, cx.cpu);
    let mut slots = root.bucket(0, guard);
    let mut off = View::new(packet, cx.ingress).network;
    // Keeps its value on return from a link, as in Linux.
    let mut off2 = 0;
    let mut stack: [(&[Slot], u32); DEPTH] = [(&[], 0); DEPTH];
    let mut depth = 0;
    loop {
        let slot = if let Some((slot, rest)) = slots.split_first() {
            let counts = slot.stats.get(cpu);
            Counts::up(&counts.met);
            let (value, mask) = slot.mark;
            if packet.mark & mask != value {
                slots = rest;
                continue;
            }
            Counts::up(&counts.mark);
            let view = View::new(packet, cx.ingress);
            match holds(&view, slot, counts, off, off2) {
                Some(true) => {}
                Some(false) => {
                    slots = rest;
                    continue;
                }
                None => return code::UNSPEC,
            }
            if let Some(down) = &slot.node.down {
                let Some(place) = stack.get_mut(depth) else {
                    // The links probably form a loop.
                    return code::UNSPEC;
                };
                *place = (slots, off);
                depth += 1;
                let selector = &slot.node.selector;
                let Some(bucket) = follow(&view, selector, down.divisor, &mut off, &mut off2)
                else {
                    return code::UNSPEC;
                };
                let moves = u32::from(selector.head.flags) & (OFFSET | VAROFFSET | EAT) != 0;
                slots = if moves && off >= view.len() {
                    &[]
                } else {
                    down.bucket(bucket, guard)
                };
                continue;
            }
            slots = rest;
            slot
        } else {
            let Some(before) = depth.checked_sub(1) else {
                return code::UNSPEC;
            };
            depth = before;
            let (from, at) = stack[depth];
            off = at;
            let Some((slot, rest)) = from.split_first() else {
                return code::UNSPEC;
            };
            slots = rest;
            slot
        };
        let node = &slot.node;
        if u32::from(node.selector.head.flags) & TERMINAL == 0
            || !exts::received_by(packet, node.ifindex)
        {
            continue;
        }
        Counts::up(&slot.stats.get(cpu).taken);
        out.handle = node.handle;
        let result = node.exts.run(cx, packet, out);
        if result >= 0 {
            return result;
        }
    }
}
