// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tracking of a packet: finds or begins its connection and runs the protocol's state machine
//! (`nf_conntrack_in`, nf_conntrack_proto_{udp,icmp,icmpv6,gre,generic}.c).
//!
//! A connection that has begun exists only on the packet's way through one action ([`Fresh`]) until it is
//! committed; Linux allocates it and hands it on with the packet. The state machines of TCP, SCTP and DCCP are in files
//! of their own; those of UDP, UDPLite, ICMP and GRE are time-outs, and are here. Every other protocol is tracked by
//! addresses alone, as `nf_conntrack_proto_generic.c` does it.

use std::sync::atomic::Ordering::Relaxed;

use weir_packet::ConnInfo;
use weir_packet::checksum::{Sum, verify, verify_v4, verify_v6};

use crate::clock;
use crate::connection::{Handle, Origin};
use crate::conntrack::{Conntrack, Fresh, State, bump};
use crate::dccp::{self, Dccp};
use crate::headers::{Headers, is_error};
use crate::sctp::{self, Sctp};
use crate::settings::Setting;
use crate::status::{ipct, ips};
use crate::store::Slot;
use crate::tcp::{Judgement, Segment, Tcp};
use crate::tuple::{
    DCCP, Direction, Family, GRE, ICMP, ICMPV6, SCTP, TCP, Tuple, UDP, UDPLITE, Zone,
};

/// The bits of a status with which packets do not renew the time-out.
const FIXED: u32 = ips::FIXED_TIMEOUT | ips::OFFLOAD;

/// A packet to be tracked.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// The bytes from the network header on.
    pub(crate) packet: &'a [u8],
    pub(crate) headers: Headers,
    /// The transport checksum is known to be right, or the frame's sender leaves it to the device.
    pub(crate) checked: bool,
    /// The packets on the wire that it stands for.
    pub(crate) packets: u64,
}

/// What a packet belongs to.
pub(crate) enum Tracked {
    /// No connection.
    Nothing,
    /// A connection in the table.
    Entry(Handle, ConnInfo),
    /// A connection in the table that the packet ends; the caller removes it in the end.
    Last(Handle, ConnInfo),
    /// A connection that begins with the packet.
    Fresh(Fresh),
    /// The packet is dropped.
    Drop,
}

/// What a packet means for a connection in the table.
enum Seen {
    Valid,
    Invalid,
    /// The packet is the connection's last.
    Last,
    /// The connection is over, and the packet may begin another.
    Again,
}

/// Whether the network is not to see an ICMPv6 message as part of a connection (`noct_valid_new`): group membership,
/// neighbour discovery.
fn is_untracked(kind: u8) -> bool {
    matches!(kind, 130..=137 | 143)
}

/// Whether an ICMP message may begin a connection.
fn begins(family: Family, kind: u8) -> bool {
    match family {
        Family::V4 => matches!(kind, 8 | 13 | 15 | 17),
        Family::V6 => matches!(kind, 128 | 139),
    }
}

impl Subject<'_> {
    fn segment(&self) -> &[u8] {
        self.headers.segment(self.packet)
    }

    /// Whether the transport checksum is right (`nf_checksum`).
    fn is_sound(&self) -> bool {
        if self.checked {
            return true;
        }
        let (headers, segment) = (&self.headers, self.segment());
        let protocol = headers.protocol;
        match protocol {
            UDPLITE => return self.is_lite_sound(),
            SCTP => return sctp::is_sound(segment),
            _ => {}
        }
        match headers.family {
            Family::V4 if protocol == ICMP => verify(segment),
            Family::V4 => verify_v4(first(&headers.src), first(&headers.dst), protocol, segment),
            Family::V6 => verify_v6(headers.src, headers.dst, protocol, segment),
        }
    }

    /// The same for UDPLite, whose checksum covers a part of the datagram.
    fn is_lite_sound(&self) -> bool {
        let segment = self.segment();
        let stated = segment
            .get(4..)
            .and_then(|rest| rest.first_chunk())
            .map_or(0, |octets| usize::from(u16::from_be_bytes(*octets)));
        let covered = if stated == 0 { segment.len() } else { stated };
        self.is_sound_up_to(covered)
    }

    /// Whether the checksum over the pseudo header and the first `covered` bytes is right (`nf_checksum_partial`).
    fn is_sound_up_to(&self, covered: usize) -> bool {
        let (headers, segment) = (&self.headers, self.segment());
        let Some(covered) = segment.get(..covered) else {
            return false;
        };
        let mut sum = Sum::new();
        let (protocol, len) = (headers.protocol, segment.len() as u32);
        match headers.family {
            Family::V4 => {
                let (src, dst) = (first(&headers.src), first(&headers.dst));
                sum.add_pseudo_v4(src, dst, protocol, len as u16)
            }
            Family::V6 => sum.add_pseudo_v6(headers.src, headers.dst, protocol, len),
        };
        sum.add(covered).finish() == 0
    }

    /// Reads the header of a DCCP packet, if its checksum is right or not asked for (`dccp_error`).
    fn dccp(&self, verified: bool) -> Option<dccp::Packet> {
        let packet = dccp::Packet::read(self.segment())?;
        let sound = !verified || self.checked || self.is_sound_up_to(packet.covered);
        sound.then_some(packet)
    }

    /// The checks of a UDP or UDPLite header (`udp_error`, `udplite_error`).
    fn is_udp_valid(&self, verified: bool) -> bool {
        let segment = self.segment();
        let Some(&[_, _, _, _, a, b, c, d]) = segment.first_chunk() else {
            return false;
        };
        let (stated, check) = (
            usize::from(u16::from_be_bytes([a, b])),
            u16::from_be_bytes([c, d]),
        );
        if self.headers.protocol == UDPLITE {
            let covered = stated == 0 || (8..=segment.len()).contains(&stated);
            return covered && check != 0 && (!verified || self.is_sound());
        }
        // A long packet stands for datagrams that are all shorter.
        if (stated > segment.len() || stated < 8) && self.packets == 1 {
            return false;
        }
        check == 0 || !verified || self.is_sound()
    }
}

fn first(octets: &[u8; 16]) -> [u8; 4] {
    let [a, b, c, d, ..] = *octets;
    [a, b, c, d]
}

impl Conntrack {
    /// Tracks a packet in a zone.
    pub(crate) fn track(&self, subject: &Subject<'_>, zone: u16, now: u64) -> Tracked {
        let headers = &subject.headers;
        if matches!(
            (headers.protocol, headers.family),
            (ICMP, Family::V4) | (ICMPV6, Family::V6)
        ) {
            match self.icmp_error(subject, zone, now) {
                Ok(None) => {}
                Ok(Some(about)) => return about,
                Err(()) => return self.invalid(),
            }
        }
        let Some(tuple) = headers.tuple(subject.packet) else {
            return self.invalid();
        };
        let key = self.key(&tuple, zone);
        for _ in 0..8 {
            let Some((handle, direction)) = self.look_up(&key, now) else {
                return match self.begin(subject, &tuple, zone) {
                    Some(fresh) => Tracked::Fresh(fresh),
                    None => self.invalid(),
                };
            };
            let Some(slot) = self.slot(handle) else {
                continue;
            };
            let status = slot.status();
            let info = match direction {
                Direction::Reply => ConnInfo::EstablishedReply,
                Direction::Original if status & ips::SEEN_REPLY != 0 => ConnInfo::Established,
                Direction::Original if status & ips::EXPECTED != 0 => ConnInfo::Related,
                Direction::Original => ConnInfo::New,
            };
            if status & ips::OFFLOAD != 0
                && let Some(info) = self.pass(subject, &slot, handle, direction, now)
            {
                return Tracked::Entry(handle, info);
            }
            match self.see(subject, &slot, handle, direction, now) {
                Seen::Valid => return Tracked::Entry(handle, info),
                Seen::Last => return Tracked::Last(handle, info),
                Seen::Invalid => return self.invalid(),
                Seen::Again => {
                    if !self.kill(handle, Origin::Packet, now) {
                        bump(&self.stats.local().invalid);
                        bump(&self.stats.local().drop);
                        return Tracked::Drop;
                    }
                }
            }
        }
        Tracked::Drop
    }

    fn invalid(&self) -> Tracked {
        bump(&self.stats.local().invalid);
        Tracked::Nothing
    }

    /// Runs the protocol's state machine on a packet of a connection.
    fn see(
        &self,
        subject: &Subject<'_>,
        slot: &Slot<'_>,
        handle: Handle,
        direction: Direction,
        now: u64,
    ) -> Seen {
        let settings = self.settings();
        let verified = settings.is(Setting::checksum);
        let bytes = subject.headers.len as u64;
        let mut events = 0;
        let mut left = None;
        match slot.protocol() {
            TCP => {
                let Some(segment) = Segment::read(subject.segment()) else {
                    return Seen::Invalid;
                };
                if verified && !subject.is_sound() {
                    return Seen::Invalid;
                }
                let lock = slot.lock();
                if slot.entry.generation.load(Relaxed) != handle.generation {
                    return Seen::Invalid;
                }
                let status = slot.status();
                let mut tcp = Tcp::load(slot);
                let before = tcp;
                let own = (status & ips::OFFLOAD != 0).then(|| tcp.own_deadline());
                if own.is_some() {
                    tcp.forget_windows();
                }
                let judgement = tcp.packet(direction, &segment, status, settings);
                if let Some(mut own) = own {
                    if let Judgement::Valid {
                        timeout: Some(timeout),
                        ..
                    } = judgement
                    {
                        own = clock::ticks(now).wrapping_add(clock::seconds(timeout));
                    }
                    tcp.set_own_deadline(own);
                }
                if tcp != before {
                    tcp.save(slot);
                }
                match judgement {
                    Judgement::Invalid => return Seen::Invalid,
                    Judgement::InvalidEnd => {
                        let unacked = settings.get(Setting::tcp_timeout_unacknowledged);
                        let deadline = slot.entry.deadline.load(Relaxed);
                        let left = clock::left(deadline, clock::ticks(now));
                        if left >= 120 && left > unacked {
                            Self::refresh_locked(slot, unacked, status, now);
                        }
                        return Seen::Invalid;
                    }
                    Judgement::Reopen => return Seen::Again,
                    Judgement::Ignored => {}
                    Judgement::Valid {
                        timeout,
                        changed,
                        assured,
                        over,
                    } => {
                        if changed {
                            events |= ipct::PROTOINFO;
                        }
                        if assured {
                            lock.add_status(ips::ASSURED);
                            slot.set_embryonic(false);
                            events |= ipct::ASSURED;
                        }
                        if over {
                            slot.count(direction, 1, bytes);
                            return Seen::Last;
                        }
                        if let Some(timeout) = timeout {
                            Self::refresh_locked(slot, timeout, status, now);
                        }
                        if timeout.is_some() {
                            slot.count(direction, 1, bytes);
                        }
                    }
                }
            }
            SCTP => match self.see_sctp(subject, slot, handle, direction, now) {
                Some(more) => events |= more,
                None => return Seen::Invalid,
            },
            DCCP => match self.see_dccp(subject, slot, handle, direction, now) {
                Ok(more) => events |= more,
                Err(seen) => return seen,
            },
            UDP | UDPLITE => {
                if !subject.is_udp_valid(verified) {
                    return Seen::Invalid;
                }
                let status = slot.status();
                let mut timeout = Setting::udp_timeout;
                if status & ips::SEEN_REPLY != 0 {
                    let since = slot.stream().load(Relaxed);
                    let stream = !clock::is_over(clock::ticks(now), since);
                    if stream {
                        timeout = Setting::udp_timeout_stream;
                        if status & (ips::ASSURED | ips::NAT_CLASH) == 0
                            && self.set_status(slot, handle, ips::ASSURED)
                        {
                            slot.set_embryonic(false);
                            events |= ipct::ASSURED;
                        }
                    }
                }
                left = Some(settings.get(timeout));
                self.refresh(slot, handle, settings.get(timeout), status, now);
                slot.count(direction, 1, bytes);
            }
            GRE => {
                let status = slot.status();
                let mut timeout = Setting::gre_timeout;
                if status & ips::SEEN_REPLY != 0 {
                    timeout = Setting::gre_timeout_stream;
                    if status & (ips::ASSURED | ips::NAT_CLASH) == 0
                        && self.set_status(slot, handle, ips::ASSURED)
                    {
                        slot.set_embryonic(false);
                        events |= ipct::ASSURED;
                    }
                }
                self.refresh(slot, handle, settings.get(timeout), status, now);
                slot.count(direction, 1, bytes);
            }
            protocol => {
                let setting = match (protocol, slot.family()) {
                    (ICMP, Family::V4) => Setting::icmp_timeout,
                    (ICMPV6, Family::V6) => Setting::icmpv6_timeout,
                    _ => Setting::generic_timeout,
                };
                let status = slot.status();
                self.refresh(slot, handle, settings.get(setting), status, now);
                slot.count(direction, 1, bytes);
            }
        }
        if direction == Direction::Reply
            && slot.status() & ips::SEEN_REPLY == 0
            && self.set_status(slot, handle, ips::SEEN_REPLY)
        {
            events |= ipct::REPLY;
        }
        self.tell_left(events, slot, left, Origin::Packet, now);
        Seen::Valid
    }

    /// Runs SCTP's state machine. Returns the events, `None` for an invalid packet.
    fn see_sctp(
        &self,
        subject: &Subject<'_>,
        slot: &Slot<'_>,
        handle: Handle,
        direction: Direction,
        now: u64,
    ) -> Option<u32> {
        let settings = self.settings();
        let segment = subject.segment();
        if settings.is(Setting::checksum) && !subject.is_sound() {
            return None;
        }
        let lock = slot.lock();
        if slot.entry.generation.load(Relaxed) != handle.generation {
            return None;
        }
        let mut sctp = Sctp::load(slot);
        let judgement = sctp.packet(direction, segment, true, settings);
        sctp.save(slot);
        let sctp::Judgement::Valid {
            timeout,
            changed,
            established,
        } = judgement
        else {
            return None;
        };
        let mut events = if changed { ipct::PROTOINFO } else { 0 };
        if established && lock.add_status(ips::ASSURED) {
            slot.set_embryonic(false);
            events |= ipct::ASSURED;
        }
        if let Some(timeout) = timeout {
            Self::refresh_locked(slot, timeout, slot.status(), now);
            slot.count(direction, 1, subject.headers.len as u64);
        }
        Some(events)
    }

    /// Runs DCCP's state machine. Returns the events, or what else the packet means.
    fn see_dccp(
        &self,
        subject: &Subject<'_>,
        slot: &Slot<'_>,
        handle: Handle,
        direction: Direction,
        now: u64,
    ) -> Result<u32, Seen> {
        let settings = self.settings();
        let packet = subject.dccp(settings.is(Setting::checksum));
        let packet = packet.ok_or(Seen::Invalid)?;
        let bytes = subject.headers.len as u64;
        let lock = slot.lock();
        if slot.entry.generation.load(Relaxed) != handle.generation {
            return Err(Seen::Invalid);
        }
        let status = slot.status();
        let mut dccp = Dccp::load(slot);
        let judgement = dccp.packet(direction, &packet, status, settings);
        dccp.save(slot);
        match judgement {
            dccp::Judgement::Invalid => Err(Seen::Invalid),
            dccp::Judgement::Ignored => Ok(0),
            dccp::Judgement::Last => {
                slot.count(direction, 1, bytes);
                Err(Seen::Last)
            }
            dccp::Judgement::Valid {
                timeout,
                changed,
                assured,
            } => {
                // Linux sends no event for the status.
                if assured && lock.add_status(ips::ASSURED) {
                    slot.set_embryonic(false);
                }
                Self::refresh_locked(slot, timeout, status, now);
                slot.count(direction, 1, bytes);
                Ok(if changed { ipct::PROTOINFO } else { 0 })
            }
        }
    }

    /// Sets a bit of the status. Returns whether it was clear.
    fn set_status(&self, slot: &Slot<'_>, handle: Handle, bit: u32) -> bool {
        let lock = slot.lock();
        slot.entry.generation.load(Relaxed) == handle.generation && lock.add_status(bit)
    }

    /// Renews the time-out of a connection (`nf_ct_refresh_acct`). While it is in the flow table, the deadline is the
    /// flow's.
    #[inline]
    fn refresh(&self, slot: &Slot<'_>, handle: Handle, seconds: u32, status: u32, now: u64) {
        let deadline = clock::ticks(now).wrapping_add(clock::seconds(seconds));
        if status & FIXED == 0 && slot.entry.deadline.load(Relaxed) != deadline {
            // Under the lock the entry cannot become another connection.
            let _lock = slot.lock();
            if slot.entry.generation.load(Relaxed) == handle.generation
                && slot.status() & FIXED == 0
            {
                slot.entry.deadline.store(deadline, Relaxed);
            }
        }
    }

    fn refresh_locked(slot: &Slot<'_>, seconds: u32, status: u32, now: u64) {
        let deadline = clock::ticks(now).wrapping_add(clock::seconds(seconds));
        if status & FIXED == 0 && slot.entry.deadline.load(Relaxed) != deadline {
            slot.entry.deadline.store(deadline, Relaxed);
        }
    }

    /// Makes the connection that begins with a packet. Returns `None` if none does.
    fn begin(&self, subject: &Subject<'_>, tuple: &Tuple, zone: u16) -> Option<Fresh> {
        let settings = self.settings();
        let verified = settings.is(Setting::checksum);
        let reply = tuple.invert()?;
        let mut state = State::None;
        let timeout = match (tuple.protocol, tuple.family) {
            (TCP, _) => {
                let segment = Segment::read(subject.segment())?;
                if verified && !subject.is_sound() {
                    return None;
                }
                let mut new = Tcp::new(&segment, settings)?;
                let judgement = new.packet(Direction::Original, &segment, 0, settings);
                let Judgement::Valid {
                    timeout: Some(timeout),
                    ..
                } = judgement
                else {
                    return None;
                };
                state = State::Tcp(new);
                timeout
            }
            (SCTP, _) => {
                let segment = subject.segment();
                if verified && !subject.is_sound() {
                    return None;
                }
                let mut new = Sctp::new(segment)?;
                let judgement = new.packet(Direction::Original, segment, false, settings);
                state = State::Sctp(new);
                match judgement {
                    sctp::Judgement::Valid { timeout, .. } => timeout?,
                    sctp::Judgement::Invalid => return None,
                }
            }
            (DCCP, _) => {
                let packet = subject.dccp(verified)?;
                let mut new = Dccp::new(&packet, settings)?;
                let judgement = new.packet(Direction::Original, &packet, 0, settings);
                state = State::Dccp(new);
                match judgement {
                    dccp::Judgement::Valid { timeout, .. } => timeout,
                    // Linux picks it up with the time-out of a Request.
                    dccp::Judgement::Ignored => settings.get(Setting::dccp_timeout_request),
                    _ => return None,
                }
            }
            (GRE, _) => settings.get(Setting::gre_timeout),
            (UDP | UDPLITE, _) => {
                if !subject.is_udp_valid(verified) {
                    return None;
                }
                settings.get(Setting::udp_timeout)
            }
            (ICMP, Family::V4) if begins(Family::V4, (tuple.dst_port >> 8) as u8) => {
                settings.get(Setting::icmp_timeout)
            }
            (ICMPV6, Family::V6) if begins(Family::V6, (tuple.dst_port >> 8) as u8) => {
                settings.get(Setting::icmpv6_timeout)
            }
            (ICMP, Family::V4) | (ICMPV6, Family::V6) => return None,
            _ => settings.get(Setting::generic_timeout),
        };
        Some(Fresh {
            original: *tuple,
            reply,
            zone: Zone::new(zone),
            status: 0,
            mark: 0,
            labels: None,
            timeout,
            state,
            bytes: subject.headers.len as u64,
            no_port: false,
        })
    }

    /// Checks an ICMP message. If it is an error, returns the connection that it is about
    /// (`nf_conntrack_icmpv4_error`, `nf_conntrack_icmpv6_error`, `nf_conntrack_inet_error`).
    fn icmp_error(
        &self,
        subject: &Subject<'_>,
        zone: u16,
        now: u64,
    ) -> Result<Option<Tracked>, ()> {
        let headers = &subject.headers;
        let message = subject.segment();
        let &[kind, ..] = message.first_chunk::<8>().ok_or(())?;
        if self.settings().is(Setting::checksum) && !subject.is_sound() {
            return Err(());
        }
        match headers.family {
            Family::V4 if kind > 18 => return Err(()),
            Family::V6 if is_untracked(kind) => return Ok(Some(Tracked::Nothing)),
            _ => {}
        }
        if !is_error(headers.family, kind) {
            return Ok(None);
        }
        let inside = message.get(8..).unwrap_or_default();
        let inner = Headers::read(inside, headers.family).map_err(|_| ())?;
        let origin = inner.tuple(inside).ok_or(())?;
        let expected = origin.invert().ok_or(())?;
        let (handle, direction) = self.find(&expected, zone, now).ok_or(())?;
        // The error goes to whoever the connection's packet would have gone to.
        if self.slot(handle).ok_or(())?.tuple(direction).dst != headers.dst {
            return Err(());
        }
        let info = match direction {
            Direction::Original => ConnInfo::Related,
            Direction::Reply => ConnInfo::RelatedReply,
        };
        Ok(Some(Tracked::Entry(handle, info)))
    }
}
