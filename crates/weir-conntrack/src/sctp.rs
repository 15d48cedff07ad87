// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SCTP (net/netfilter/nf_conntrack_proto_sctp.c; RFC 9260).
//!
//! The state follows the chunks of both directions, and the verification tag of a packet must be the one that its
//! receiver announced. The states are those of the connection, not of an end point: `COOKIE_WAIT` after the INIT ACK,
//! `HEARTBEAT_SENT` of another path that begins with a HEARTBEAT.

use std::sync::atomic::Ordering::Relaxed;

use weir_packet::checksum::crc32c;

use crate::settings::{Setting, Settings};
use crate::store::Slot;
use crate::tuple::Direction;

/// The length of the common header in bytes.
const HEADER: usize = 12;

const DATA: u8 = 0;
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const HEARTBEAT: u8 = 4;
const HEARTBEAT_ACK: u8 = 5;
const ABORT: u8 = 6;
const SHUTDOWN: u8 = 7;
const SHUTDOWN_ACK: u8 = 8;
const ERROR: u8 = 9;
const COOKIE_ECHO: u8 = 10;
const COOKIE_ACK: u8 = 11;
const SHUTDOWN_COMPLETE: u8 = 14;

/// The flag T of a chunk: the tag is the sender's own.
const REFLECTED: u8 = 1;

/// `enum sctp_conntrack`
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
#[allow(missing_docs)] // The names are Linux's.
pub enum SctpState {
    #[default]
    None = 0,
    Closed = 1,
    CookieWait = 2,
    CookieEchoed = 3,
    Established = 4,
    ShutdownSent = 5,
    ShutdownRecd = 6,
    ShutdownAckSent = 7,
    HeartbeatSent = 8,
}

use SctpState::*;

impl SctpState {
    const ALL: [Self; 9] = [
        None,
        Closed,
        CookieWait,
        CookieEchoed,
        Established,
        ShutdownSent,
        ShutdownRecd,
        ShutdownAckSent,
        HeartbeatSent,
    ];

    /// Returns the state with this number.
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns the name that `/proc/net/nf_conntrack` shows.
    pub const fn name(self) -> &'static str {
        match self {
            None => "NONE",
            Closed => "CLOSED",
            CookieWait => "COOKIE_WAIT",
            CookieEchoed => "COOKIE_ECHOED",
            Established => "ESTABLISHED",
            ShutdownSent => "SHUTDOWN_SENT",
            ShutdownRecd => "SHUTDOWN_RECD",
            ShutdownAckSent => "SHUTDOWN_ACK_SENT",
            HeartbeatSent => "HEARTBEAT_SENT",
        }
    }

    const fn timeout(self) -> Setting {
        match self {
            None | Closed => Setting::sctp_timeout_closed,
            CookieWait => Setting::sctp_timeout_cookie_wait,
            CookieEchoed => Setting::sctp_timeout_cookie_echoed,
            Established => Setting::sctp_timeout_established,
            ShutdownSent => Setting::sctp_timeout_shutdown_sent,
            ShutdownRecd => Setting::sctp_timeout_shutdown_recd,
            ShutdownAckSent => Setting::sctp_timeout_shutdown_ack_sent,
            HeartbeatSent => Setting::sctp_timeout_heartbeat_sent,
        }
    }

    /// Returns whether the connection may be removed early while the table is nearly full.
    pub(crate) const fn is_closing(self) -> bool {
        matches!(self, ShutdownSent | ShutdownRecd | ShutdownAckSent)
    }

    /// Returns the state after a chunk, `Option::None` for one that is not possible (`sctp_new_state`).
    fn after(self, direction: Direction, chunk: u8) -> Option<Self> {
        let reply = direction == Direction::Reply;
        // A reply to nothing, or to a path that has only been probed.
        if reply && known(chunk) {
            match self {
                None => return Option::None,
                HeartbeatSent => {
                    return match chunk {
                        HEARTBEAT => Some(HeartbeatSent),
                        HEARTBEAT_ACK => Some(Established),
                        _ => Option::None,
                    };
                }
                _ => {}
            }
        }
        Some(match (chunk, self) {
            (ABORT, _) => Closed,
            (INIT, HeartbeatSent) => CookieWait,
            (INIT, ShutdownSent | ShutdownRecd) if !reply => Closed,
            (INIT_ACK, Closed) if reply => CookieWait,
            (SHUTDOWN, Established) if reply => ShutdownRecd,
            (SHUTDOWN, Established) => ShutdownSent,
            (SHUTDOWN_ACK, None | ShutdownSent | ShutdownRecd | HeartbeatSent) => ShutdownAckSent,
            (ERROR, CookieEchoed) if reply => Closed,
            (COOKIE_ECHO, CookieWait) => CookieEchoed,
            (COOKIE_ACK, CookieEchoed) => Established,
            (SHUTDOWN_COMPLETE, ShutdownAckSent) => Closed,
            (HEARTBEAT, None | HeartbeatSent) | (HEARTBEAT_ACK, HeartbeatSent) => HeartbeatSent,
            (_, None | HeartbeatSent) if known(chunk) => Closed,
            (_, stays) => stays,
        })
    }
}

/// Whether a chunk may change the state.
const fn known(chunk: u8) -> bool {
    matches!(chunk, INIT..=INIT_ACK | HEARTBEAT..=COOKIE_ACK | SHUTDOWN_COMPLETE)
}

/// A chunk: type, flags, and what follows its header.
#[derive(Clone, Copy)]
struct Chunk<'a> {
    kind: u8,
    flags: u8,
    length: u16,
    body: &'a [u8],
}

impl Chunk<'_> {
    /// The initiate tag of an INIT or INIT ACK, if its fixed part is there.
    fn tag(&self) -> Option<u32> {
        let fixed: &[u8; 16] = self.body.first_chunk()?;
        let [a, b, c, d, ..] = *fixed;
        Some(u32::from_be_bytes([a, b, c, d]))
    }
}

/// The chunks of a packet, up to a truncated header.
fn chunks(segment: &[u8]) -> impl Iterator<Item = Chunk<'_>> {
    let mut rest = segment.get(HEADER..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (&[kind, flags, a, b], body) = rest.split_first_chunk::<4>()?;
        let length = u16::from_be_bytes([a, b]);
        let chunk = Chunk {
            kind,
            flags,
            length,
            body,
        };
        let padded = usize::from(length).div_ceil(4) * 4;
        // A length of 0 ends the walk: the checks refuse it.
        rest = if padded == 0 {
            &[]
        } else {
            rest.get(padded..).unwrap_or_default()
        };
        Some(chunk)
    })
}

/// Returns the chunk types of a packet as a bitmap of 256, if its chunks may be together (`do_basic_checks`).
fn types(segment: &[u8]) -> Option<[u64; 4]> {
    let mut types = [0; 4];
    let (mut alone, mut count) = (false, 0);
    for chunk in chunks(segment) {
        alone |= matches!(chunk.kind, INIT | INIT_ACK | SHUTDOWN_COMPLETE);
        let first = alone || matches!(chunk.kind, COOKIE_ACK | COOKIE_ECHO);
        if first && count != 0 || chunk.length == 0 {
            return Option::None;
        }
        if let Some(word) = types.get_mut(usize::from(chunk.kind >> 6)) {
            *word |= 1_u64 << (chunk.kind & 63);
        }
        count += 1;
    }
    (count > 0).then_some(types)
}

fn has(types: &[u64; 4], kind: u8) -> bool {
    types[usize::from(kind >> 6)] >> (kind & 63) & 1 == 1
}

/// The state of a connection (`struct ip_ct_sctp`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sctp {
    pub(crate) state: SctpState,
    /// The tag that packets of each direction carry.
    pub(crate) tags: [u32; 2],
    /// A HEARTBEAT with another tag passed in `probe_dir`.
    probed: bool,
    probe_dir: u8,
    /// An INIT of this direction has not been answered by a COOKIE ACK.
    init: [bool; 2],
}

/// What a packet means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Judgement {
    Invalid,
    Valid {
        /// Seconds; `None` leaves the time-out.
        timeout: Option<u32>,
        /// The state has changed.
        changed: bool,
        /// The connection became established.
        established: bool,
    },
}

/// Returns whether the checksum is right (`sctp_compute_cksum`).
pub(crate) fn is_sound(segment: &[u8]) -> bool {
    let stated = segment.get(8..).and_then(|rest| rest.first_chunk::<4>());
    stated.is_some_and(|stated| u32::from_le_bytes(*stated) == checksum(segment))
}

/// Computes the checksum of a packet whose own is there.
fn checksum(segment: &[u8]) -> u32 {
    let mut zeroed = segment.to_vec();
    if let Some(field) = zeroed.get_mut(8..HEADER) {
        field.fill(0);
    }
    crc32c(&zeroed)
}

/// Writes the checksum after an address or a port has changed.
pub(crate) fn fill_checksum(segment: &mut [u8]) {
    let crc = checksum(segment);
    if let Some(field) = segment.get_mut(8..HEADER) {
        field.copy_from_slice(&crc.to_le_bytes());
    }
}

impl Sctp {
    /// Makes the state before the first packet of a connection (`sctp_new`).
    pub(crate) fn new(segment: &[u8]) -> Option<Self> {
        let types = types(segment)?;
        if [ABORT, SHUTDOWN_COMPLETE, COOKIE_ACK]
            .iter()
            .any(|&kind| has(&types, kind))
        {
            return Option::None;
        }
        let tag = tag_of(segment)?;
        let mut new = Self::default();
        for chunk in chunks(segment) {
            if None.after(Direction::Original, chunk.kind)? == None {
                return Option::None;
            }
            match chunk.kind {
                INIT if tag != 0 => return Option::None,
                INIT => new.tags[1] = chunk.tag()?,
                HEARTBEAT => new.tags[0] = tag,
                SHUTDOWN_ACK => new.tags[1] = tag,
                _ => {}
            }
        }
        Some(new)
    }

    /// Follows a packet (`nf_conntrack_sctp_packet`). `confirmed`: the connection is in the table.
    pub(crate) fn packet(
        &mut self,
        direction: Direction,
        segment: &[u8],
        confirmed: bool,
        settings: &Settings,
    ) -> Judgement {
        self.follow(direction, segment, confirmed, settings)
            .unwrap_or(Judgement::Invalid)
    }

    fn follow(
        &mut self,
        direction: Direction,
        segment: &[u8],
        confirmed: bool,
        settings: &Settings,
    ) -> Option<Judgement> {
        let tag = tag_of(segment)?;
        let types = types(segment)?;
        let (own, other) = (direction as usize, direction.other() as usize);
        let exempt = [
            INIT,
            SHUTDOWN_COMPLETE,
            COOKIE_ECHO,
            ABORT,
            SHUTDOWN_ACK,
            HEARTBEAT,
            HEARTBEAT_ACK,
        ];
        if !exempt.iter().any(|&kind| has(&types, kind)) && tag != self.tags[own] {
            return Option::None;
        }
        let (mut ignored, mut changed, mut established) = (false, false, false);
        let mut last = None;
        // Chunks before an invalid one have their effect, as in Linux.
        for chunk in chunks(segment) {
            match chunk.kind {
                INIT if tag != 0 => return Option::None,
                ABORT | SHUTDOWN_COMPLETE => {
                    let reflected = chunk.flags & REFLECTED != 0;
                    if tag != self.tags[if reflected { other } else { own }] {
                        return Option::None;
                    }
                }
                COOKIE_ECHO if tag != self.tags[own] => return Option::None,
                COOKIE_ACK => self.init = [false; 2],
                HEARTBEAT | HEARTBEAT_ACK if self.tags[own] == 0 => self.tags[own] = tag,
                HEARTBEAT | HEARTBEAT_ACK if tag == self.tags[own] => self.probed = false,
                HEARTBEAT | HEARTBEAT_ACK if has(&types, DATA) || ignored => return Option::None,
                HEARTBEAT => {
                    (self.probed, self.probe_dir) = (true, own as u8);
                    ignored = true;
                    continue;
                }
                HEARTBEAT_ACK => {
                    if !self.probed || usize::from(self.probe_dir) == own {
                        return Option::None;
                    }
                    self.probed = false;
                    (self.tags[own], self.tags[other]) = (tag, 0);
                }
                _ => {}
            }
            let old = self.state;
            let new = old.after(direction, chunk.kind)?;
            match chunk.kind {
                INIT => {
                    let announced = chunk.tag()?;
                    if self.init == [true; 2] {
                        self.init[other] = false;
                    }
                    self.init[own] = true;
                    self.tags[other] = announced;
                    // A repeated INIT does not keep the connection.
                    ignored |= confirmed && (old, new) == (Closed, Closed);
                }
                INIT_ACK => {
                    let announced = chunk.tag()?;
                    let known = self.tags[other];
                    let differs = known != announced;
                    if !self.init[other] && known != 0 && differs
                        || self.init == [true; 2] && differs
                    {
                        return Option::None;
                    }
                    self.tags[other] = announced;
                }
                _ => {}
            }
            (self.state, last) = (new, new);
            changed |= old != new;
            established |= old != new && new == Established;
        }
        Some(Judgement::Valid {
            timeout: (!ignored).then(|| settings.get(last.timeout())),
            changed,
            established,
        })
    }

    /// Reads the state of an entry. The caller holds its lock.
    pub(crate) fn load(slot: &Slot<'_>) -> Self {
        let words = &slot.windows().0;
        let [a, own, other] = [0, 1, 2].map(|at: usize| words[at].load(Relaxed));
        Self {
            state: SctpState::of(a as u8 & 0xf).unwrap_or_default(),
            tags: [own, other],
            probed: a >> 4 & 1 == 1,
            probe_dir: (a >> 5 & 1) as u8,
            init: [a >> 6 & 1 == 1, a >> 7 & 1 == 1],
        }
    }

    /// Writes the state to an entry. The caller holds its lock.
    pub(crate) fn save(&self, slot: &Slot<'_>) {
        let bits = self.state as u32
            | u32::from(self.probed) << 4
            | u32::from(self.probe_dir & 1) << 5
            | u32::from(self.init[0]) << 6
            | u32::from(self.init[1]) << 7;
        for (to, word) in slot
            .windows()
            .0
            .iter()
            .zip([bits, self.tags[0], self.tags[1]])
        {
            to.store(word, Relaxed);
        }
    }
}

/// The verification tag of a packet.
fn tag_of(segment: &[u8]) -> Option<u32> {
    let header: &[u8; HEADER] = segment.first_chunk()?;
    let [_, _, _, _, a, b, c, d, ..] = *header;
    Some(u32::from_be_bytes([a, b, c, d]))
}
