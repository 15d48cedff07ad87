// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the action `ct` does with a packet (`tcf_ct_act`, net/sched/act_ct.c).

use weir_sync::primitive::atomic::{Ordering::Acquire, fence};

use weir_packet::{Conn, ConnInfo, DropReason, Flags, Packet};

use crate::connection::{Handle, Origin};
use crate::conntrack::{Conntrack, Fresh, Refused, bump};
use crate::headers::{Headers, Malformed};
use crate::nat::{Manip, Untranslatable, translate, translate_error};
use crate::range::Range;
use crate::status::{ipct, ips};
use crate::track::{Subject, Tracked};
use crate::tuple::{Direction, Family, Tuple, UDP};

/// The parameters of an action that tracks (`struct tcf_ct_params`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Action {
    /// The connection enters the table.
    pub commit: bool,
    /// A connection whose reply direction the packet has is removed, and the packet begins another.
    pub force: bool,
    /// The packet is translated.
    pub nat: Option<Nat>,
    /// The zone.
    pub zone: u16,
    /// The mark, and the mask of the bits that change.
    pub mark: (u32, u32),
    /// The labels, and the mask of the bits that change.
    pub labels: ([u8; 16], [u8; 16]),
}

/// How packets are translated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Nat {
    /// What is translated of a new connection; `None` for packets of translated connections alone.
    pub manip: Option<Manip>,
    /// What it is translated to.
    pub range: Range,
}

/// The circumstances of a packet.
pub struct Cx<'a> {
    /// The time of the stack's clock in nanoseconds.
    pub now: u64,
    /// The hook: what tracking finds about packets without a connection is forgotten at another one.
    pub hook: u32,
    /// The family of the packet; `None` if it is not IP.
    pub family: Option<Family>,
    /// Draws uniform 32 bits.
    pub random: &'a mut dyn FnMut() -> u32,
}

/// What becomes of the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Done {
    /// It goes on.
    Pass,
    /// It is dropped.
    Drop(Why),
}

/// Why a packet is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// It is not IP.
    NotIp,
    /// Its network header is truncated.
    Truncated,
    /// It is a fragment, which cannot be tracked.
    Fragment,
    /// The table is full, and no connection can be removed early.
    TableFull,
    /// A connection of another source or destination has the same key.
    Clash,
    /// There is no free port in the range.
    NoPort,
    /// It is an ICMP error that cannot be translated, such as a redirect.
    Untranslatable,
    /// The connection ended while the packet was tracked.
    Gone,
}

impl Why {
    /// Returns the reason that drop counters have.
    pub const fn reason(self) -> DropReason {
        match self {
            Self::NotIp => DropReason::CT_NOT_IP,
            Self::Truncated => DropReason::HDR_TRUNC,
            Self::Fragment => DropReason::CT_FRAGMENT,
            Self::TableFull => DropReason::CT_TABLE_FULL,
            Self::Clash => DropReason::CT_CLASH,
            Self::NoPort => DropReason::CT_NO_PORT,
            Self::Untranslatable => DropReason::CT_UNTRANSLATABLE,
            Self::Gone => DropReason::CT_GONE,
        }
    }
}

/// The connection of a packet.
enum Of {
    Entry(Handle),
    Fresh(Fresh),
}

/// Removes a packet's connection (the action with `clear`).
pub fn clear(packet: &mut Packet) {
    packet.set_conn(None);
}

impl Conntrack {
    /// Returns the packet's connection from an earlier action, if it is of this zone
    /// (`tcf_ct_skb_nfct_cached`).
    fn cached(&self, packet: &Packet, action: &Action, now: u64) -> Option<(Handle, ConnInfo)> {
        let conn = packet.conn()?;
        let handle = self.of(conn)?;
        if self.zone(handle) != Some(action.zone) {
            return None;
        }
        if action.force && conn.info.is_reply() {
            self.kill(handle, Origin::Packet, now);
            return None;
        }
        Some((handle, conn.info))
    }

    /// Runs the action on a packet.
    pub fn act(&self, packet: &mut Packet, action: &Action, cx: &mut Cx<'_>) -> Done {
        let Some(family) = cx.family else {
            return Done::Drop(Why::NotIp);
        };
        let headers = match Headers::read(packet.network(), family) {
            Ok(headers) => Some(headers),
            Err(Malformed::Truncated) => return Done::Drop(Why::Truncated),
            Err(Malformed::Fragment) => return Done::Drop(Why::Fragment),
            Err(Malformed::NoTransport) => None,
        };
        if let Some(headers) = &headers
            && packet.network().len() > headers.len
            && packet.segments().is_none()
        {
            // The padding goes, as in `tcf_ct_skb_network_trim`.
            let before = packet.len() - packet.network().len();
            packet.trim(before + headers.len);
        }
        let mut last = None;
        let (of, info) = match self.cached(packet, action, cx.now) {
            Some((handle, info)) => (Of::Entry(handle), info),
            None => {
                packet.set_conn(None);
                let Some(headers) = headers else {
                    bump(&self.stats.local().invalid);
                    return self.leave(packet, action, cx);
                };
                match self.track_packet(packet, headers, action.zone, cx.now) {
                    Tracked::Nothing => return self.leave(packet, action, cx),
                    Tracked::Drop => return Done::Drop(Why::Gone),
                    Tracked::Entry(handle, info) => (Of::Entry(handle), info),
                    Tracked::Last(handle, info) => {
                        last = Some(handle);
                        (Of::Entry(handle), info)
                    }
                    Tracked::Fresh(fresh) => (Of::Fresh(fresh), ConnInfo::New),
                }
            }
        };
        let done = self.go_on(packet, headers, of, info, action, cx);
        if done == Done::Pass
            && let Some(handle) = packet.conn().and_then(|conn| self.of(conn))
        {
            self.begin_flow(handle, info, cx.now);
        }
        if let Some(handle) = last {
            let mark = self.mark(handle).unwrap_or(0);
            self.kill(handle, Origin::Packet, cx.now);
            if let Some(conn) = packet.conn().filter(|conn| conn.is_entry()) {
                packet.set_conn(Some(Conn {
                    index: Conn::NONE,
                    generation: mark,
                    ..conn
                }));
            }
        }
        done
    }

    fn track_packet(&self, packet: &mut Packet, headers: Headers, zone: u16, now: u64) -> Tracked {
        let long = packet.segments().is_some();
        let known = packet.flags.contains(Flags::CSUM_GOOD) || long;
        let subject = Subject {
            packet: packet.network(),
            headers,
            checked: known,
            packets: packet.wire_packets(),
        };
        self.track(&subject, zone, now)
    }

    /// Notes that the packet was tracked and has no connection.
    fn leave(&self, packet: &mut Packet, action: &Action, cx: &Cx<'_>) -> Done {
        packet.set_conn(Some(Conn {
            table: self.number(),
            index: Conn::NONE,
            generation: cx.hook,
            zone: action.zone,
            info: ConnInfo::Invalid,
            flags: 0,
        }));
        Done::Pass
    }

    fn go_on(
        &self,
        packet: &mut Packet,
        headers: Option<Headers>,
        mut of: Of,
        info: ConnInfo,
        action: &Action,
        cx: &mut Cx<'_>,
    ) -> Done {
        if let (Some(nat), Some(headers)) = (&action.nat, headers)
            && self
                .nat(packet, headers, &mut of, info, nat, action.commit, cx)
                .is_err()
        {
            return Done::Drop(Why::Untranslatable);
        }
        let handle = match of {
            Of::Entry(handle) => {
                if action.commit {
                    self.mark_and_label(handle, action, cx.now);
                }
                Some(handle)
            }
            Of::Fresh(mut fresh) if action.commit => {
                let (mark, mask) = action.mark;
                fresh.mark = if mask == 0 { 0 } else { mark };
                let (labels, mask) = &action.labels;
                fresh.labels = (mask != &[0; 16]).then_some(*labels);
                match self.commit(&fresh, cx.now) {
                    Ok(handle) => Some(handle),
                    Err(why) => return Done::Drop(why),
                }
            }
            Of::Fresh(_) => None,
        };
        packet.set_conn(Some(Conn {
            table: self.number(),
            index: handle.map_or(Conn::NONE, |handle| handle.index),
            generation: handle.map_or(0, |handle| handle.generation),
            zone: action.zone,
            info,
            flags: 0,
        }));
        Done::Pass
    }

    fn mark_and_label(&self, handle: Handle, action: &Action, now: u64) {
        let (mark, mask) = action.mark;
        if mask != 0 {
            // As in `tcf_ct_act_set_mark`, bits of the mark outside of the mask are set too.
            self.set_mark(handle, mark, mark | mask, now);
        }
        let (labels, mask) = &action.labels;
        if mask != &[0; 16] {
            self.set_labels(handle, labels, mask, now);
        }
    }

    /// Puts a connection into the table. A UDP connection that another CPU has just put there is that one
    /// (`nf_ct_resolve_clash`).
    fn commit(&self, fresh: &Fresh, now: u64) -> Result<Handle, Why> {
        match self.confirm(fresh, now) {
            Ok(handle) => {
                if let Some(slot) = self.slot(handle) {
                    let mut events = ipct::NEW;
                    if fresh.state.is_shown() {
                        events |= ipct::PROTOINFO;
                    }
                    if fresh.mark != 0 {
                        events |= ipct::MARK;
                    }
                    if fresh.labels.is_some() {
                        events |= ipct::LABEL;
                    }
                    self.tell(events, &slot, Origin::Packet, now);
                }
                Ok(handle)
            }
            Err(Refused::Clash(other, Direction::Original)) => {
                let same = self.slot(other).is_some_and(|slot| {
                    slot.tuple(Direction::Original) == fresh.original
                        && slot.tuple(Direction::Reply) == fresh.reply
                });
                if same && fresh.original.protocol == UDP {
                    bump(&self.stats.local().clash_resolve);
                    return Ok(other);
                }
                self.refuse_clash(fresh)
            }
            Err(Refused::Clash(..)) => self.refuse_clash(fresh),
            Err(Refused::Full | Refused::NoMemory) => Err(Why::TableFull),
        }
    }

    fn refuse_clash(&self, fresh: &Fresh) -> Result<Handle, Why> {
        let stats = self.stats.local();
        bump(&stats.insert_failed);
        bump(&stats.drop);
        if fresh.no_port {
            bump(&stats.no_port);
            return Err(Why::NoPort);
        }
        Err(Why::Clash)
    }

    /// Translates the packet (`tcf_ct_act_nat`).
    #[allow(clippy::too_many_arguments)] // all of them are the packet's
    fn nat(
        &self,
        packet: &mut Packet,
        headers: Headers,
        of: &mut Of,
        info: ConnInfo,
        nat: &Nat,
        commit: bool,
        cx: &mut Cx<'_>,
    ) -> Result<(), Untranslatable> {
        let direction = if info.is_reply() {
            Direction::Reply
        } else {
            Direction::Original
        };
        let status = self.status_of(of).ok_or(Untranslatable)?;
        let translated = status & ips::NAT_MASK != 0;
        let manip = if info != ConnInfo::New && translated && (info != ConnInfo::Related || commit)
        {
            // As the connection was translated before.
            match (direction, status & ips::SRC_NAT != 0) {
                (Direction::Original, true) | (Direction::Reply, false) => Manip::Source,
                (Direction::Original, false) | (Direction::Reply, true) => Manip::Destination,
            }
        } else if let Some(manip) = nat.manip {
            manip
        } else {
            return Ok(());
        };
        let way = (info, direction);
        self.execute(packet, headers, of, way, Some(&nat.range), manip, cx)?;
        let status = self.status_of(of).ok_or(Untranslatable)?;
        if status & ips::DST_NAT != 0 {
            // The addresses may have changed.
            let headers = Headers::read(packet.network(), headers.family).unwrap_or(headers);
            if status & ips::SRC_NAT != 0 {
                let range = Some(&nat.range);
                self.execute(packet, headers, of, way, range, manip.other(), cx)?;
            } else if direction == Direction::Original {
                self.execute(packet, headers, of, way, None, Manip::Source, cx)?;
            }
        }
        Ok(())
    }

    /// The status of a connection.
    #[inline]
    fn status_of(&self, of: &Of) -> Option<u32> {
        match of {
            Of::Fresh(fresh) => Some(fresh.status),
            Of::Entry(handle) => Some(self.slot(*handle)?.status()),
        }
    }

    /// A tuple of a connection.
    #[inline]
    fn tuple_of(&self, of: &Of, direction: Direction) -> Option<Tuple> {
        match (of, direction) {
            (Of::Fresh(fresh), Direction::Original) => Some(fresh.original),
            (Of::Fresh(fresh), Direction::Reply) => Some(fresh.reply),
            (Of::Entry(handle), _) => {
                let tuple = self.slot(*handle)?.tuple(direction);
                fence(Acquire);
                // The entry may have become another connection meanwhile.
                self.slot(*handle).map(|_| tuple)
            }
        }
    }

    /// Decides and does one kind of translation (`ct_nat_execute`).
    #[allow(clippy::too_many_arguments)] // all of them are the packet's
    fn execute(
        &self,
        packet: &mut Packet,
        headers: Headers,
        of: &mut Of,
        (info, direction): (ConnInfo, Direction),
        range: Option<&Range>,
        manip: Manip,
        cx: &mut Cx<'_>,
    ) -> Result<(), Untranslatable> {
        if info.is_related() {
            let status = self.status_of(of).ok_or(Untranslatable)?;
            let [original, reply] =
                [Direction::Original, Direction::Reply].map(|way| self.tuple_of(of, way));
            let original = original.ok_or(Untranslatable)?;
            let tuples = [&original, &reply.ok_or(Untranslatable)?];
            let network = packet.network_mut();
            return translate_error(network, &headers, tuples, status, direction, manip);
        }
        if let Of::Fresh(fresh) = of
            && fresh.status & manip.done() == 0
        {
            self.set_up(fresh, range, manip, cx.random)?;
        }
        let status = self.status_of(of).ok_or(Untranslatable)?;
        let mut bit = manip.bit();
        if direction == Direction::Reply {
            bit ^= ips::NAT_MASK;
        }
        if status & bit != 0 {
            let reverse = self.tuple_of(of, direction.other());
            let reverse = reverse.ok_or(Untranslatable)?;
            let target = reverse.invert().ok_or(Untranslatable)?;
            translate(packet.network_mut(), &headers, &target, manip);
        }
        Ok(())
    }
}
