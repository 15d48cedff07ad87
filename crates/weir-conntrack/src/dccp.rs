// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DCCP (net/netfilter/nf_conntrack_proto_dccp.c; RFC 4340).
//!
//! The state is that of client and server together, and a packet is judged by the role of its sender. Sync and SyncAck
//! packets, and those that may belong to another incarnation of the connection, pass without an effect.

use std::sync::atomic::Ordering::Relaxed;

use crate::settings::{Setting, Settings};
use crate::status::ips;
use crate::store::Slot;
use crate::tuple::Direction;

/// The length of a generic header with short sequence numbers, in bytes.
const HEADER: usize = 12;

/// The types of packets (`enum dccp_pkt_type`).
const REQUEST: u8 = 0;
const RESPONSE: u8 = 1;
const DATA: u8 = 2;
const ACK: u8 = 3;
const DATA_ACK: u8 = 4;
const CLOSE_REQ: u8 = 5;
const CLOSE: u8 = 6;
const RESET: u8 = 7;
const SYNC_ACK: u8 = 9;

/// `enum ct_dccp_states`
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
#[allow(missing_docs)] // The names are Linux's.
pub enum DccpState {
    #[default]
    None = 0,
    Request = 1,
    Respond = 2,
    PartOpen = 3,
    Open = 4,
    CloseReq = 5,
    Closing = 6,
    TimeWait = 7,
}

use DccpState::*;

impl DccpState {
    const ALL: [Self; 8] = [
        None, Request, Respond, PartOpen, Open, CloseReq, Closing, TimeWait,
    ];

    /// Returns the state with this number.
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns the name that `/proc/net/nf_conntrack` shows.
    pub const fn name(self) -> &'static str {
        match self {
            None => "NONE",
            Request => "REQUEST",
            Respond => "RESPOND",
            PartOpen => "PARTOPEN",
            Open => "OPEN",
            CloseReq => "CLOSEREQ",
            Closing => "CLOSING",
            TimeWait => "TIMEWAIT",
        }
    }

    const fn timeout(self) -> Setting {
        match self {
            None | Request => Setting::dccp_timeout_request,
            Respond => Setting::dccp_timeout_respond,
            PartOpen => Setting::dccp_timeout_partopen,
            Open => Setting::dccp_timeout_open,
            CloseReq => Setting::dccp_timeout_closereq,
            Closing => Setting::dccp_timeout_closing,
            TimeWait => Setting::dccp_timeout_timewait,
        }
    }

    /// Returns whether the connection may be removed early while the table is nearly full.
    pub(crate) const fn is_closing(self) -> bool {
        matches!(self, CloseReq | Closing | TimeWait)
    }
}

/// What a packet of a type does in a state.
enum Step {
    To(DccpState),
    /// It may be valid.
    Ignore,
    Invalid,
}

use Step::{Ignore, Invalid, To};

/// The transitions (`dccp_state_table`).
fn step(client: bool, kind: u8, state: DccpState) -> Step {
    match (client, kind, state) {
        (_, RESET, None) => Invalid,
        (true, RESET, TimeWait) => Ignore,
        (_, RESET, _) => To(TimeWait),
        (true, REQUEST, None | Request | TimeWait) => To(Request),
        (true, REQUEST, Respond) => To(Respond),
        (true, REQUEST, _) => Ignore,
        (true, RESPONSE, None | TimeWait) => Invalid,
        (true, RESPONSE, _) => Ignore,
        (true, ACK | DATA_ACK, Respond | PartOpen) => To(PartOpen),
        (true, ACK | DATA_ACK | DATA, Open | CloseReq | Closing) => To(state),
        (true, CLOSE, PartOpen | Open | CloseReq) => To(Closing),
        (false, REQUEST, None) => Invalid,
        (false, REQUEST, TimeWait) => To(Request),
        (false, REQUEST, _) => Ignore,
        (false, RESPONSE, Request | Respond) => To(Respond),
        (false, RESPONSE, None | TimeWait) => Invalid,
        (false, RESPONSE, _) => Ignore,
        (false, ACK | DATA | DATA_ACK, PartOpen | Open) => To(Open),
        (false, ACK | DATA | DATA_ACK, Closing) => To(Closing),
        (false, CLOSE_REQ, PartOpen | Open | CloseReq | Closing) => To(CloseReq),
        (false, CLOSE, PartOpen | Open | Closing) => To(Closing),
        (_, RESET..=SYNC_ACK, _) => Ignore,
        _ => Invalid,
    }
}

/// The header of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    kind: u8,
    /// The sequence number, 48 or 24 bits.
    sequence: u64,
    /// The number that it acknowledges, if its type has one.
    acknowledged: Option<u64>,
    /// The bytes that the checksum covers.
    pub(crate) covered: usize,
}

impl Packet {
    /// Reads a header with the checks of `dccp_error`.
    pub(crate) fn read(segment: &[u8]) -> Option<Self> {
        let header: &[u8; HEADER] = segment.first_chunk()?;
        let length = usize::from(header[4]) * 4;
        let extended = header[8] & 1 == 1;
        let least = if extended { 16 } else { HEADER };
        let kind = header[8] >> 1 & 0xf;
        if length < least || length > segment.len() || kind > SYNC_ACK {
            return Option::None;
        }
        let covered = match header[5] & 0xf {
            0 => segment.len(),
            // `cscov` words of data, less one, behind the header.
            words => (usize::from(words) - 1) * 4,
        };
        if covered > segment.len() {
            return Option::None;
        }
        let number = |octets: &[u8]| octets.iter().fold(0, |n, octet| n << 8 | u64::from(*octet));
        let sequence = match extended {
            true => number(segment.get(10..16)?),
            false => number(segment.get(9..12)?),
        };
        let acknowledged = match (kind, extended) {
            (REQUEST | DATA, _) => Option::None,
            (_, true) => segment.get(18..24).map(number),
            (_, false) => segment.get(13..16).map(number),
        };
        Some(Self {
            kind,
            sequence,
            acknowledged,
            covered,
        })
    }
}

/// The state of a connection (`struct nf_ct_dccp`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Dccp {
    pub(crate) state: DccpState,
    /// The server sent the first packet.
    pub(crate) reversed: bool,
    last_dir: u8,
    last_kind: u8,
    /// The sequence number of the Response.
    pub(crate) handshake: u64,
}

/// What a packet means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Judgement {
    Invalid,
    /// It has no effect.
    Ignored,
    /// The connection ends, as its only answer is a Reset.
    Last,
    Valid {
        /// Seconds.
        timeout: u32,
        /// The state has changed.
        changed: bool,
        /// The handshake is complete.
        assured: bool,
    },
}

impl Dccp {
    /// Makes the state before the first packet of a connection (`dccp_new`).
    pub(crate) fn new(packet: &Packet, settings: &Settings) -> Option<Self> {
        match step(true, packet.kind, None) {
            To(Request) => {}
            Invalid => return Option::None,
            _ if !settings.is(Setting::dccp_loose) => return Option::None,
            _ => {}
        }
        Some(Self::default())
    }

    /// Follows a packet of a connection with this status (`nf_conntrack_dccp_packet`).
    pub(crate) fn packet(
        &mut self,
        direction: Direction,
        packet: &Packet,
        status: u32,
        settings: &Settings,
    ) -> Judgement {
        let kind = packet.kind;
        if kind == RESET && status & ips::SEEN_REPLY == 0 {
            return Judgement::Last;
        }
        let client = (direction == Direction::Original) != self.reversed;
        let old = self.state;
        let mut assured = false;
        let new = match step(client, kind, old) {
            Invalid => return Judgement::Invalid,
            Ignore => {
                let answers = usize::from(self.last_dir) == direction.other() as usize
                    && self.last_kind == REQUEST
                    && kind == RESPONSE;
                if !answers {
                    (self.last_dir, self.last_kind) = (direction as u8, kind);
                    return Judgement::Ignored;
                }
                // The ignored Request began another incarnation.
                self.reversed = direction == Direction::Original;
                self.handshake = packet.sequence;
                Respond
            }
            To(new) => {
                match new {
                    // The other side begins anew: the roles change.
                    Request if old == TimeWait && !client => self.reversed = !self.reversed,
                    Respond if old == Request => self.handshake = packet.sequence,
                    PartOpen if old == Respond && kind == ACK => {
                        assured = packet.acknowledged == Some(self.handshake);
                    }
                    _ => {}
                }
                new
            }
        };
        (self.last_dir, self.last_kind, self.state) = (direction as u8, kind, new);
        Judgement::Valid {
            timeout: settings.get(new.timeout()),
            changed: old != new,
            assured,
        }
    }

    /// Reads the state of an entry. The caller holds its lock.
    pub(crate) fn load(slot: &Slot<'_>) -> Self {
        let words = &slot.windows().0;
        let [a, low, high] = [0, 1, 2].map(|at: usize| words[at].load(Relaxed));
        Self {
            state: DccpState::of(a as u8 & 7).unwrap_or_default(),
            reversed: a >> 3 & 1 == 1,
            last_dir: (a >> 4 & 1) as u8,
            last_kind: (a >> 8) as u8,
            handshake: u64::from(high) << 32 | u64::from(low),
        }
    }

    /// Writes the state to an entry. The caller holds its lock.
    pub(crate) fn save(&self, slot: &Slot<'_>) {
        let bits = self.state as u32
            | u32::from(self.reversed) << 3
            | u32::from(self.last_dir & 1) << 4
            | u32::from(self.last_kind) << 8;
        let words = [bits, self.handshake as u32, (self.handshake >> 32) as u32];
        for (to, word) in slot.windows().0.iter().zip(words) {
            to.store(word, Relaxed);
        }
    }
}
