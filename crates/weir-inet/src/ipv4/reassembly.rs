// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reassembly of packets, for the local host and for connection tracking (RFC 791, 5722; `net/ipv4/ip_fragment.c`).
//!
//! A packet whose fragments overlap is dropped. So is one that is still incomplete after
//! `ipfrag_time` seconds; if its first fragment arrived, its sender gets a "time exceeded" message.
//! A queue starts over if its source sent more than `ipfrag_max_dist` other fragments meanwhile.
//! While the queues of a namespace, those of connection tracking included, hold more than `ipfrag_high_thresh` bytes, no
//! further fragment is taken.
//!
//! Not implemented: packets beyond 65,280 bytes (the largest frame). They are dropped with `NOMEM`.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::rcu::Guard;

use weir_packet::header::icmp::{ICMP_EXC_FRAGTIME, ICMP_TIME_EXCEEDED};
use weir_packet::header::ipv4::{IP_DF, fill_check};
use weir_packet::header::{Ipv4, Ipv4Mut};
use weir_packet::{DropReason, Flags, Packet};

use super::route::{self, To};
use crate::clock::{Holds, SECOND, TimerId};
use crate::cpu::Cx;
use crate::device::{Device, DeviceKey};
use crate::drops::Place;
use crate::fragments::{Gathered, Lengths, Limits, User, link_header, put_link_header};
use crate::ipv4::WithIpv4;
use crate::mib::Count;
use crate::mib::Ip;
use crate::namespace::Namespace;
use crate::settings::Ipv4 as Conf;
use crate::settings::WithSettings;

/// The maximum length of a packet in bytes.
const LONGEST: usize = 65_535;

/// The fields that all fragments of a packet share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    src: [u8; 4],
    dst: [u8; 4],
    id: u16,
    protocol: u8,
    user: User,
}

#[derive(Debug)]
struct Piece {
    start: usize,
    end: usize,
    /// The fragment. Its data begins with its header.
    packet: Packet,
}

impl Piece {
    fn len(&self) -> u16 {
        (self.end - self.start) as u16
    }
}

#[derive(Debug)]
struct Queue {
    pieces: Vec<Piece>,
    /// The number of bytes received.
    have: usize,
    /// The end of the packet, as far as it is known.
    len: usize,
    /// The last fragment was received.
    last: bool,
    /// A bitmap of the ECN code points seen.
    ecn: u8,
    /// The length of the largest fragment in bytes, and that of the largest with DF (`max_size`, `max_df_size`).
    largest: usize,
    largest_df: usize,
    /// The source's fragment counter when the latest fragment of this packet arrived.
    count: u32,
    to: To,
    device: DeviceKey,
    timer: TimerId,
}

#[derive(Debug, Default)]
struct Queues {
    queues: BTreeMap<Key, Queue>,
    octets: usize,
}

/// The packets of a namespace that are being reassembled.
#[derive(Debug, Default)]
pub struct Table {
    /// Guards the queues and the sum of their memory.
    queues: Mutex<Queues, order::Fragments>,
    /// The limits of their memory.
    pub limits: Limits,
}

impl Table {
    /// Returns the number of incomplete packets and the memory of their fragments, in bytes.
    pub fn held(&self) -> (usize, usize) {
        let queues = self.lock();
        (queues.queues.len(), queues.octets)
    }

    fn lock(&self) -> MutexGuard<'_, Queues, order::Fragments> {
        self.queues.lock()
    }
}

/// The result of adding a fragment.
enum Added {
    Waits,
    Whole(Queue),
    /// The fragment is dropped.
    Refused(Packet, DropReason),
    /// The fragment is dropped together with its queue.
    Spoiled(Queue, Packet, DropReason),
}

/// Adds a fragment for the local host. Returns the packet once it is complete (`ip_defrag`).
pub fn add(
    cx: &Cx<'_>,
    device: &Arc<Device>,
    ns: &Namespace,
    packet: Packet,
    to: To,
) -> Option<Packet> {
    match gather(cx, device, ns, packet, to, User::Local) {
        Gathered::Waits => None,
        Gathered::Whole(packet, _) => Some(packet),
        Gathered::Dropped(packet, reason) => {
            cx.drop(device, Place::Ipv4Local, reason, packet);
            None
        }
    }
}

/// Adds a fragment that begins with its header, whose length the caller has checked (`ip_defrag`). Connection
/// tracking gets the packet with the link-layer header of its first fragment in front of the data.
pub fn gather(
    cx: &Cx<'_>,
    device: &Arc<Device>,
    ns: &Namespace,
    mut packet: Packet,
    to: To,
    user: User,
) -> Gathered {
    let drop = |cx: &Cx<'_>, reason, packet| cx.drop(device, Place::Ipv4Local, reason, packet);
    let counters = &cx.mib(ns).ip;
    counters.add(Ip::ReasmReqds, 1);
    let Some(header) = Ipv4::new(packet.data()) else {
        return Gathered::Dropped(packet, DropReason::PKT_TOO_SMALL);
    };
    let key = Key {
        src: header.src(),
        dst: header.dst(),
        id: header.id(),
        protocol: header.protocol(),
        user,
    };
    let header_len = header.header_len();
    let start = header.fragment_offset();
    let more = header.more_fragments();
    let (ecn, dont_fragment) = (1 << (header.tos() & 3), header.dont_fragment());
    let mut end = start + packet.len().saturating_sub(header_len);
    if more {
        end &= !7;
        packet.trim(header_len + end.saturating_sub(start));
    }
    if end > LONGEST - header_len {
        counters.add(Ip::ReasmFails, 1);
        return Gathered::Dropped(packet, DropReason::IP_INHDR);
    }
    let most_apart = ns.conf().ipv4.get(Conf::IpfragMaxDist).max(0) as u32;
    let count = match most_apart {
        0 => 0,
        _ => ns
            .ipv4()
            .peers
            .count_fragment(Ipv4Addr::from(key.src).into(), cx.now),
    };
    let mut late = Vec::new();
    let added = {
        let mut table = ns.ipv4().fragments().lock();
        if ns.ipv4().fragments().limits.refuse(table.octets) {
            Added::Refused(packet, DropReason::NOMEM)
        } else {
            let queue = table
                .queues
                .entry(key)
                .or_insert_with(|| new_queue(cx, device, ns, key, to, count));
            // The source has sent too many other fragments since, so this identification belongs to
            // another packet.
            if most_apart > 0
                && !queue.pieces.is_empty()
                && count.wrapping_sub(queue.count) > most_apart
            {
                late = std::mem::take(&mut queue.pieces);
                (queue.have, queue.len, queue.last, queue.ecn) = (0, 0, false, 0);
                (queue.largest, queue.largest_df) = (0, 0);
            }
            queue.count = count;
            (queue.device, queue.to) = (device.key, to);
            let capacity = packet.capacity();
            let size = header_len + end.saturating_sub(start);
            let added = insert(queue, packet, start, end, more, ecn);
            if added.is_ok() {
                queue.largest = queue.largest.max(size);
                if dont_fragment {
                    queue.largest_df = queue.largest_df.max(size);
                }
            }
            let lost: usize = late.iter().map(|piece| piece.packet.capacity()).sum();
            table.octets -= lost.min(table.octets);
            match added {
                Ok(true) => {
                    table.octets += capacity;
                    take(cx, &mut table, &key).map_or(Added::Waits, Added::Whole)
                }
                Ok(false) => {
                    table.octets += capacity;
                    Added::Waits
                }
                Err((packet, reason, false)) => Added::Refused(packet, reason),
                Err((packet, reason, true)) => match take(cx, &mut table, &key) {
                    Some(queue) => Added::Spoiled(queue, packet, reason),
                    None => Added::Refused(packet, reason),
                },
            }
        }
    };
    if !late.is_empty() {
        counters.add(Ip::ReasmFails, 1);
    }
    for piece in late {
        drop(cx, DropReason::FRAG_TOO_FAR, piece.packet);
    }
    match added {
        Added::Waits => Gathered::Waits,
        Added::Refused(packet, reason) => {
            if reason == DropReason::NOMEM {
                counters.add(Ip::ReasmFails, 1);
            }
            Gathered::Dropped(packet, reason)
        }
        Added::Spoiled(queue, packet, reason) => {
            counters.add(Ip::ReasmFails, 1);
            if reason == DropReason::DUP_FRAG {
                counters.add(Ip::ReasmOverlaps, 1);
            }
            for piece in queue.pieces {
                drop(cx, reason, piece.packet);
            }
            Gathered::Dropped(packet, reason)
        }
        Added::Whole(queue) => {
            let lengths = Lengths {
                largest: queue.largest as u16,
                payloads: queue.pieces.iter().map(Piece::len).collect(),
            };
            let whole = join(cx, device, queue, user);
            let counter = match whole {
                Some(_) => Ip::ReasmOKs,
                None => Ip::ReasmFails,
            };
            counters.add(counter, 1);
            whole.map_or(Gathered::Waits, |whole| Gathered::Whole(whole, lengths))
        }
    }
}

fn new_queue(
    cx: &Cx<'_>,
    device: &Arc<Device>,
    ns: &Namespace,
    key: Key,
    to: To,
    count: u32,
) -> Queue {
    let seconds = ns.conf().ipv4.get(Conf::IpfragTime).max(0) as u64;
    let at = device.key;
    let fire = Box::new(move |cx: &mut Cx<'_>| expire(cx, at, key));
    Queue {
        pieces: Vec::new(),
        have: 0,
        len: 0,
        last: false,
        ecn: 0,
        largest: 0,
        largest_df: 0,
        count,
        to,
        device: at,
        timer: cx.stack.arm(cx.now + seconds * SECOND, Holds::Packet, fire),
    }
}

/// Removes a queue from the table.
fn take(cx: &Cx<'_>, table: &mut Queues, key: &Key) -> Option<Queue> {
    let queue = table.queues.remove(key)?;
    let octets: usize = queue.pieces.iter().map(|p| p.packet.capacity()).sum();
    table.octets -= octets.min(table.octets);
    cx.stack.timers.cancel(queue.timer);
    Some(queue)
}

/// Inserts a fragment into its queue (`ip_frag_queue`). Returns whether the packet is complete. The
/// error returns the fragment and says whether its queue must be dropped with it.
fn insert(
    queue: &mut Queue,
    packet: Packet,
    start: usize,
    end: usize,
    more: bool,
    ecn: u8,
) -> Result<bool, (Packet, DropReason, bool)> {
    let corrupt = if more {
        end > queue.len && queue.last
    } else {
        end < queue.len || (queue.last && end != queue.len)
    };
    if corrupt || end == start {
        return Err((packet, DropReason::NOT_SPECIFIED, true));
    }
    let at = queue.pieces.partition_point(|piece| piece.start < start);
    let before = at.checked_sub(1).and_then(|at| queue.pieces.get(at));
    let after = queue.pieces.get(at);
    let inside = |piece: &Piece| piece.start <= start && end <= piece.end;
    let covered = covered(&queue.pieces, start, end);
    if before.is_some_and(inside) || after.is_some_and(inside) || covered {
        return Err((packet, DropReason::DUP_FRAG, false));
    }
    if before.is_some_and(|piece| piece.end > start) || after.is_some_and(|piece| piece.start < end)
    {
        return Err((packet, DropReason::DUP_FRAG, true));
    }
    queue.len = queue.len.max(end);
    queue.last |= !more;
    queue.ecn |= ecn;
    queue.have += end - start;
    queue.pieces.insert(at, Piece { start, end, packet });
    Ok(queue.last && queue.have == queue.len)
}

/// Returns whether a contiguous run of pieces covers `start` to `end`.
fn covered(pieces: &[Piece], start: usize, end: usize) -> bool {
    let mut at = start;
    for piece in pieces {
        if piece.start <= at && at < piece.end {
            at = piece.end;
        }
    }
    at >= end
}

/// Returns the ECN bits of the reassembled packet (RFC 3168, 5.3), to be ORed with those of the
/// first fragment, or `None` for an invalid combination.
fn join_ecn(seen: u8) -> Option<u8> {
    const NOT_ECT: u8 = 1;
    const CE: u8 = 8;
    if seen & NOT_ECT != 0 && seen != NOT_ECT {
        None
    } else if seen & CE != 0 {
        Some(3)
    } else {
        Some(0)
    }
}

/// Builds one packet from a complete queue (`ip_frag_reasm`).
fn join(cx: &Cx<'_>, device: &Arc<Device>, queue: Queue, user: User) -> Option<Packet> {
    let drop_all = |cx: &Cx<'_>, reason, pieces: Vec<Piece>| {
        for piece in pieces {
            cx.drop(device, Place::Ipv4Local, reason, piece.packet);
        }
    };
    let Some(ecn) = join_ecn(queue.ecn) else {
        drop_all(cx, DropReason::NOT_SPECIFIED, queue.pieces);
        return None;
    };
    let first = queue.pieces.first()?;
    let header_len = Ipv4::new(first.packet.data())?.header_len();
    let total = header_len + queue.len;
    let link = match user {
        User::Local => &[],
        User::Conntrack(_) => link_header(&first.packet),
    };
    let whole = (total <= LONGEST)
        .then(|| cx.stack.pool.alloc(link.len() + total))
        .flatten();
    let Some(mut whole) = whole else {
        drop_all(cx, DropReason::NOMEM, queue.pieces);
        return None;
    };
    if !link.is_empty() {
        put_link_header(&mut whole, link)?;
    }
    for piece in &queue.pieces {
        let own = Ipv4::new(piece.packet.data())?.header_len();
        let skip = if piece.start == 0 { 0 } else { own };
        let part = piece.packet.data().get(skip..)?;
        let place = if piece.start == 0 {
            0
        } else {
            header_len + piece.start
        };
        let room = whole.data_mut().get_mut(place..place + part.len())?;
        room.copy_from_slice(part);
    }
    let mut header = Ipv4Mut::new(whole.data_mut())?;
    let tos = header.view().tos();
    header
        .set_total_len(total as u16)
        .set_frag_off(match queue.largest_df == queue.largest {
            true => IP_DF,
            false => 0,
        })
        .set_tos(tos | ecn);
    fill_check(whole.data_mut());
    let from = &first.packet;
    whole.set_pkt_type(from.pkt_type());
    whole.set_network(0);
    whole.set_transport(header_len);
    whole.protocol = from.protocol;
    whole.mark = from.mark;
    whole.priority = from.priority;
    whole.flags = from.flags;
    whole.flags.insert(Flags::REASSEMBLED);
    whole.flags.remove(Flags::CSUM_GOOD);
    whole.time = cx.now;
    whole.dev = from.dev;
    whole.iif = from.iif;
    whole.trace = from.trace;
    if user != User::Local {
        (whole.tc_index, whole.queue, whole.nest) = (from.tc_index, from.queue, from.nest);
        whole.set_vlan(from.vlan());
        let _ = whole.set_tunnel(from.tunnel().cloned());
    }
    cx.stack.trace.copied(&mut whole);
    for piece in queue.pieces {
        cx.consume(piece.packet);
    }
    Some(whole)
}

/// Drops a packet that was not complete in time (`ip_expire`).
fn expire(cx: &mut Cx<'_>, at: DeviceKey, key: Key) {
    let Some(first) = cx.device(at).cloned() else {
        return;
    };
    let ns = first.namespace(cx.guard).clone();
    let queue = take(cx, &mut ns.ipv4().fragments().lock(), &key);
    let Some(queue) = queue else { return };
    let counters = &cx.mib(&ns).ip;
    counters.add(Ip::ReasmFails, 1);
    counters.add(Ip::ReasmTimeout, 1);
    let device = cx.device(queue.device).cloned().unwrap_or(first);
    if let Some(head) = queue.pieces.first().filter(|piece| piece.start == 0)
        && is_answered(&ns, &queue, key, cx.guard)
    {
        super::icmp::error(
            cx,
            &device,
            &head.packet,
            ICMP_TIME_EXCEEDED,
            ICMP_EXC_FRAGTIME,
            0,
            true,
        );
    }
    for piece in queue.pieces {
        let reason = DropReason::FRAG_REASM_TIMEOUT;
        cx.drop(&device, Place::Ipv4Local, reason, piece.packet);
    }
}

/// Returns whether the sender gets to know that a packet was not complete in time: if it was for this host.
fn is_answered(ns: &Namespace, queue: &Queue, key: Key, guard: &Guard) -> bool {
    match key.user {
        User::Local => queue.to == To::Us,
        User::Conntrack(_) => route::is_ours(ns, key.dst.into(), guard),
    }
}
