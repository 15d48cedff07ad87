// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reassembly of fragments (`net/ipv6/reassembly.c`, RFC 8200, 4.5; RFC 5722).
//!
//! The fragments of a datagram (same identification, source and destination; for link-local
//! destinations also the same device) wait `ip6frag_time` seconds for the rest. On timeout, the
//! sender of the first fragment gets an error. A fragment received before is dropped; a fragment
//! that partly overlaps others aborts the datagram. For a datagram in a single fragment, the
//! fragment header is just skipped. While the fragments waiting in a namespace hold more than
//! `ip6frag_high_thresh` bytes, no further fragment is taken.
//!
//! [`gather`] collects the fragments for connection tracking (`nf_ct_frag6_gather`), with memory and a time-out of its
//! own (`nf_conntrack_frag6_high_thresh`, `nf_conntrack_frag6_timeout`). It refuses fragments without telling their sender.
//!
//! Not implemented: merging the ECN bits of the fragments (those of the first fragment are used).

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::Arc;
use weir_sync::order::{self, Mutex, MutexGuard};

use weir_packet::header::icmp::{ICMPV6_EXC_FRAGTIME, ICMPV6_HDR_FIELD, ICMPV6_TIME_EXCEED};
use weir_packet::header::ipv6::{Fragment, NEXTHDR_FRAGMENT, upper_layer};
use weir_packet::header::ipv6_ext::extensions;
use weir_packet::header::{Ipv6, Ipv6Mut};
use weir_packet::packet::Flags;
use weir_packet::{DropReason, Packet};

use super::icmp::send_error;
use super::local::{Cursor, problem};
use super::select::needs_device;
use crate::clock::{Holds, SECOND, TimerId};
use crate::cpu::Cx;
use crate::device::{Device, DeviceKey};
use crate::drops::Place;
use crate::fragments::{Gathered, Lengths, Limits, User, link_header, put_link_header};
use crate::ipv6::WithIpv6;
use crate::mib::Count;
use crate::mib::Ip;
use crate::namespace::Namespace;
use crate::settings::Ipv6 as Slot;
use crate::settings::WithSettings;

/// The maximum length in bytes of a datagram behind its IPv6 header (`IPV6_MAXPLEN`).
const LARGEST: usize = 0xffff;
/// Code of a parameter problem: the first fragment lacks part of the header chain
/// (`ICMPV6_HDR_INCOMP`).
const HEADER_INCOMPLETE: u8 = 3;

/// Identifies a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    id: u32,
    src: Ipv6Addr,
    dst: Ipv6Addr,
    iif: u32,
    user: User,
}

/// A fragment and its range, in bytes behind the fragment header.
struct Piece {
    start: usize,
    end: usize,
    cursor: Cursor,
    packet: Packet,
}

impl Piece {
    fn len(&self) -> u16 {
        (self.end - self.start) as u16
    }
}

/// A datagram being reassembled.
struct Queue {
    /// The fragments, sorted by offset and without overlap.
    pieces: Vec<Piece>,
    /// The highest end seen so far. If `last` is set, it is the end of the datagram.
    len: usize,
    last: bool,
    /// The length of the largest fragment in bytes, from the IPv6 header on (`max_size`).
    largest: usize,
    timer: TimerId,
    /// The incoming device of the fragment that arrived first.
    device: DeviceKey,
}

#[derive(Default)]
struct Queues {
    all: BTreeMap<Key, Queue>,
    octets: usize,
}

impl Queues {
    fn take(&mut self, key: &Key) -> Option<Queue> {
        let queue = self.all.remove(key)?;
        let octets: usize = queue.pieces.iter().map(|p| p.packet.capacity()).sum();
        self.octets -= octets;
        Some(queue)
    }
}

/// The fragments that wait in a namespace.
#[derive(Default)]
pub struct Fragments {
    /// Guards the queues and the sum of their memory.
    queues: Mutex<Queues, order::Fragments>,
    /// The limits of their memory.
    pub limits: Limits,
}

impl Fragments {
    /// Returns the number of incomplete datagrams and the memory of their fragments, in bytes.
    pub fn held(&self) -> (usize, usize) {
        let queues = self.lock();
        (queues.all.len(), queues.octets)
    }

    /// Locks the queues. The lock is never held across calls to other modules.
    fn lock(&self) -> MutexGuard<'_, Queues, order::Fragments> {
        self.queues.lock()
    }
}

impl std::fmt::Debug for Fragments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fragments")
            .field("octets", &self.lock().octets)
            .finish()
    }
}

/// The result of adding a fragment.
enum Outcome {
    Waits,
    Whole(Queue),
    /// This fragment is dropped.
    Refused(Packet, DropReason),
    /// The whole datagram is dropped.
    Broken(Packet, Option<Queue>),
}

/// Receives a fragment whose fragment header is at `cursor`. Returns the datagram once it is
/// complete, and the position at which to continue (`ipv6_frag_rcv`).
pub(super) fn receive(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    owner: &Arc<Device>,
    cursor: Cursor,
    packet: Packet,
) -> Option<(Packet, Cursor)> {
    let (mib, owner) = (cx.mib6(device), cx.mib6(owner));
    if !packet.flags.contains(Flags::REASSEMBLED) {
        owner.ip(Ip::ReasmReqds, 1);
    }
    let data = packet.data();
    let header = Ipv6::new(data);
    let fragment = data.get(cursor.at..).and_then(Fragment::new);
    let (Some(header), Some(fragment)) = (header, fragment) else {
        let reason = DropReason::PKT_TOO_SMALL;
        mib.ip(Ip::InHdrErrors, 1);
        problem(cx, device, ICMPV6_HDR_FIELD, cursor.at, reason, packet);
        return None;
    };
    if header.payload_len() == 0 || packet.flags.contains(Flags::REASSEMBLED) {
        let reason = DropReason::IP_INHDR;
        mib.ip(Ip::InHdrErrors, 1);
        problem(cx, device, ICMPV6_HDR_FIELD, cursor.at, reason, packet);
        return None;
    }
    let after = Cursor {
        name: cursor.at,
        at: cursor.at + Fragment::LEN,
    };
    let (start, more) = (fragment.offset(), fragment.more());
    if start == 0 && !more {
        let mut packet = packet;
        packet.flags.insert(Flags::REASSEMBLED);
        packet.flags.remove(Flags::CSUM_GOOD);
        owner.ip(Ip::ReasmOKs, 1);
        return Some((packet, after));
    }
    let end = start + (data.len() - after.at);
    let fault = if start == 0 && !has_whole_chain(data) {
        Some((HEADER_INCOMPLETE, 0))
    } else if end > LARGEST {
        Some((ICMPV6_HDR_FIELD, cursor.at + 2))
    } else if more && end & 7 != 0 {
        // Points at the payload length.
        Some((ICMPV6_HDR_FIELD, 4))
    } else {
        None
    };
    if let Some((code, pointer)) = fault {
        mib.ip(Ip::InHdrErrors, 1);
        problem(cx, device, code, pointer, DropReason::IP_INHDR, packet);
        return None;
    }
    let dst = Ipv6Addr::from(header.dst());
    let key = Key {
        id: fragment.id(),
        src: header.src().into(),
        dst,
        iif: if needs_device(dst) {
            device.ifindex()
        } else {
            0
        },
        user: User::Local,
    };
    let piece = Piece {
        start,
        end,
        cursor,
        packet,
    };
    let outcome = insert(cx, device, key, piece, more);
    let ended = |cx: &mut Cx<'_>, reason, packet| cx.drop(device, Place::Ipv6Local, reason, packet);
    match outcome {
        Outcome::Waits => {}
        Outcome::Refused(packet, reason) => {
            if reason == DropReason::NOMEM {
                owner.ip(Ip::ReasmFails, 1);
            }
            ended(cx, reason, packet);
        }
        Outcome::Broken(packet, queue) => {
            owner.ip(Ip::ReasmFails, 1);
            ended(cx, DropReason::DUP_FRAG, packet);
            if let Some(queue) = queue {
                cx.stack.timers.cancel(queue.timer);
                for piece in queue.pieces {
                    ended(cx, DropReason::DUP_FRAG, piece.packet);
                }
            }
        }
        Outcome::Whole(queue) => {
            cx.stack.timers.cancel(queue.timer);
            let whole = join(cx, &queue, &[]);
            let mut pieces = queue.pieces.into_iter();
            let first = pieces.next();
            let cursor = first.as_ref().map(|first| first.cursor);
            let (reason, counter) = match &whole {
                Some(_) => (None, Ip::ReasmOKs),
                None => (Some(DropReason::NOMEM), Ip::ReasmFails),
            };
            mib.ip(counter, 1);
            for piece in first.into_iter().chain(pieces) {
                match reason {
                    // The datagram continues under the trace record of its first fragment.
                    None if piece.start == 0 => drop(piece.packet),
                    None => cx.consume(piece.packet),
                    Some(reason) => ended(cx, reason, piece.packet),
                }
            }
            return whole.zip(cursor);
        }
    }
    None
}

/// Adds a fragment that begins with its IPv6 header for connection tracking in a zone (`nf_ct_frag6_gather`). The
/// packet gets the link-layer header of its first fragment in front of the data.
pub fn gather(cx: &Cx<'_>, device: &Arc<Device>, packet: Packet, zone: u16) -> Gathered {
    let data = packet.data();
    let found = Ipv6::new(data).zip(find_fragment(data));
    let Some((header, (cursor, fragment))) = found else {
        return Gathered::Dropped(packet, DropReason::IPV6_BAD_EXTHDR);
    };
    let (start, more) = (fragment.offset(), fragment.more());
    let end = start + (data.len() - cursor.at - Fragment::LEN);
    if start == 0 && !has_whole_chain(data) || end > LARGEST || more && end & 7 != 0 {
        return Gathered::Dropped(packet, DropReason::IP_INHDR);
    }
    let dst = Ipv6Addr::from(header.dst());
    let key = Key {
        id: fragment.id(),
        src: header.src().into(),
        dst,
        iif: match needs_device(dst) {
            true => device.ifindex(),
            false => 0,
        },
        user: User::Conntrack(zone),
    };
    let piece = Piece {
        start,
        end,
        cursor,
        packet,
    };
    let ended = |reason, packet| cx.drop(device, Place::Ipv6Local, reason, packet);
    match insert(cx, device, key, piece, more) {
        Outcome::Waits => Gathered::Waits,
        Outcome::Refused(packet, reason) => Gathered::Dropped(packet, reason),
        Outcome::Broken(packet, queue) => {
            if let Some(queue) = queue {
                cx.stack.timers.cancel(queue.timer);
                let pieces = queue.pieces.into_iter();
                pieces.for_each(|piece| ended(DropReason::DUP_FRAG, piece.packet));
            }
            Gathered::Dropped(packet, DropReason::DUP_FRAG)
        }
        Outcome::Whole(queue) => {
            cx.stack.timers.cancel(queue.timer);
            let link = (queue.pieces.first()).map(|first| link_header(&first.packet));
            let whole = join(cx, &queue, link.unwrap_or_default());
            let lengths = Lengths {
                largest: queue.largest as u16,
                payloads: queue.pieces.iter().map(Piece::len).collect(),
            };
            for piece in queue.pieces {
                match whole {
                    // The packet continues under the trace record of its first fragment.
                    Some(_) if piece.start == 0 => drop(piece.packet),
                    Some(_) => cx.consume(piece.packet),
                    None => ended(DropReason::NOMEM, piece.packet),
                }
            }
            whole.map_or(Gathered::Waits, |whole| Gathered::Whole(whole, lengths))
        }
    }
}

/// Finds the fragment header of a packet (`find_prev_fhdr`).
fn find_fragment(data: &[u8]) -> Option<(Cursor, Fragment<'_>)> {
    let mut name = 6;
    for extension in extensions(data) {
        let extension = extension.ok()?;
        if extension.kind == NEXTHDR_FRAGMENT {
            let at = extension.at;
            return Some((Cursor { name, at }, Fragment::new(extension.bytes)?));
        }
        name = extension.at;
    }
    None
}

/// Returns whether a first fragment includes the upper-layer header (`ipv6frag_thdr_truncated`).
fn has_whole_chain(data: &[u8]) -> bool {
    let Some(upper) = upper_layer(data) else {
        return false;
    };
    let octets = match upper.protocol {
        6 => 20,
        17 | 58 => 8,
        _ => 1,
    };
    upper.offset + octets <= data.len()
}

/// Returns the fragments of a user.
fn table(ns: &Namespace, user: User) -> &Fragments {
    match user {
        User::Local => ns.ipv6().fragments(),
        User::Conntrack(_) => ns.ipv6().tracked_fragments(),
    }
}

/// Inserts a fragment into its queue (`ip6_frag_queue`).
fn insert(cx: &Cx<'_>, device: &Arc<Device>, key: Key, piece: Piece, more: bool) -> Outcome {
    let ns = device.namespace(cx.guard);
    let octets = piece.packet.capacity();
    let table = table(ns, key.user);
    let mut queues = table.lock();
    if table.limits.refuse(queues.octets) {
        return Outcome::Refused(piece.packet, DropReason::NOMEM);
    }
    let queue = queues.all.entry(key).or_insert_with(|| Queue {
        pieces: Vec::new(),
        len: 0,
        last: false,
        largest: 0,
        timer: arm(cx, ns, key),
        device: device.key,
    });
    let (start, end) = (piece.start, piece.end);
    let beyond = if more {
        end > queue.len && queue.last
    } else {
        end < queue.len || (queue.last && end != queue.len)
    };
    if beyond || start == end {
        return Outcome::Broken(piece.packet, queues.take(&key));
    }
    let at = queue.pieces.partition_point(|other| other.end <= start);
    if queue.pieces.get(at).is_some_and(|next| next.start < end) {
        // All of it was received before: drop only this one.
        if is_covered(queue.pieces.get(at..).unwrap_or_default(), start, end) {
            return Outcome::Refused(piece.packet, DropReason::DUP_FRAG);
        }
        return Outcome::Broken(piece.packet, queues.take(&key));
    }
    queue.len = queue.len.max(end);
    queue.last |= !more;
    queue.largest = queue.largest.max(piece.packet.len());
    queue.pieces.insert(at, piece);
    let whole = queue.last && is_covered(&queue.pieces, 0, queue.len);
    queues.octets += octets;
    if whole && let Some(queue) = queues.take(&key) {
        return Outcome::Whole(queue);
    }
    Outcome::Waits
}

/// Returns whether the pieces, starting with the first, cover a range without a gap.
fn is_covered(pieces: &[Piece], start: usize, end: usize) -> bool {
    let mut reached = match pieces.first() {
        Some(first) if first.start <= start => first.end,
        _ => return false,
    };
    for piece in pieces.iter().skip(1) {
        if reached >= end || piece.start != reached {
            break;
        }
        reached = piece.end;
    }
    reached >= end
}

/// Builds the datagram from all its pieces, without the fragment header, and with a link-layer header in front of
/// the data (`ip6_frag_reasm`, `nf_ct_frag6_reasm`).
fn join(cx: &Cx<'_>, queue: &Queue, link: &[u8]) -> Option<Packet> {
    let first = queue.pieces.first()?;
    let front = first.cursor.at;
    let data = first.packet.data();
    let next = *data.get(front)?;
    let len = front + queue.len;
    if len - Ipv6::LEN > LARGEST {
        return None;
    }
    let mut whole = cx.stack.pool.alloc(link.len() + len)?;
    if !link.is_empty() {
        put_link_header(&mut whole, link)?;
        whole.set_vlan(first.packet.vlan());
        let _ = whole.set_tunnel(first.packet.tunnel().cloned());
    }
    let to = whole.data_mut();
    to.get_mut(..front)?.copy_from_slice(data.get(..front)?);
    *to.get_mut(first.cursor.name)? = next;
    for piece in &queue.pieces {
        let from = piece.packet.data().get(piece.cursor.at + Fragment::LEN..)?;
        to.get_mut(front + piece.start..front + piece.end)?
            .copy_from_slice(from);
    }
    Ipv6Mut::new(to)?.set_payload_len((len - Ipv6::LEN) as u16);
    *whole = *first.packet;
    whole.set_pkt_type(first.packet.pkt_type());
    whole.set_network(0);
    whole.set_transport(front);
    whole.flags.insert(Flags::REASSEMBLED);
    whole.flags.remove(Flags::CSUM_GOOD);
    Some(whole)
}

/// Arms the reassembly timeout.
fn arm(cx: &Cx<'_>, ns: &Arc<Namespace>, key: Key) -> TimerId {
    let seconds = match key.user {
        User::Local => ns.conf().ipv6.get(Slot::Ip6fragTime).max(0) as u64,
        User::Conntrack(_) => table(ns, key.user).limits.seconds().into(),
    };
    let ns = Arc::downgrade(ns);
    let fire = Box::new(move |cx: &mut Cx<'_>| {
        if let Some(ns) = ns.upgrade() {
            expire(cx, &ns, &key);
        }
    });
    cx.stack.arm(cx.now + seconds * SECOND, Holds::Packet, fire)
}

/// Drops a datagram whose reassembly timed out (`ip6frag_expire_frag_queue`).
fn expire(cx: &mut Cx<'_>, ns: &Arc<Namespace>, key: &Key) {
    let Some(queue) = table(ns, key.user).lock().take(key) else {
        return;
    };
    let Some(device) = cx.device(queue.device).cloned() else {
        // The device has been removed: its fragments are freed without counting a drop.
        for piece in queue.pieces {
            cx.consume(piece.packet);
        }
        return;
    };
    let mib = cx.mib6(&device);
    mib.ip(Ip::ReasmFails, 1);
    mib.ip(Ip::ReasmTimeout, 1);
    if let Some(first) = queue.pieces.first().filter(|first| first.start == 0) {
        let code = ICMPV6_EXC_FRAGTIME;
        send_error(cx, &device, &first.packet, ICMPV6_TIME_EXCEED, code, 0);
    }
    for piece in queue.pieces {
        let reason = DropReason::FRAG_REASM_TIMEOUT;
        cx.drop(&device, Place::Ipv6Local, reason, piece.packet);
    }
}
