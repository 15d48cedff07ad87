// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state machine of TCP (net/netfilter/nf_conntrack_proto_tcp.c).
//!
//! Segments pass in the middle, and may be lost behind us. The machine keeps for each direction the highest byte
//! sent, the highest that may be sent, and the largest window, and takes a segment as valid if
//!
//! 1. it does not begin behind the receiver's window: `seq <= sender.max_end`,
//! 2. it does not end before it: `seq + len >= sender.end - receiver.max_win`,
//! 3. it does not acknowledge bytes that nobody sent: `sack <= receiver.end`,
//! 4. it does not acknowledge bytes that are too old: `sack >= receiver.end - max(sender.max_win, 66000)`,
//!
//! as in Guido van Rooij's "Real Stateful TCP Packet Filtering in IP Filter". A segment that fails 2 or 4, or fails 1 by
//! no more than a window, passes and changes nothing.

use std::sync::atomic::Ordering::Relaxed;

use crate::settings::{Setting, Settings};
use crate::status::TcpState::{
    self, Close, CloseWait, Established, FinWait, LastAck, SynRecv, SynSent, SynSent2, TimeWait,
};
use crate::status::{ips, tcp_flag};
use crate::store::Slot;
use crate::tuple::Direction;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const URG: u8 = 0x20;

/// The least that rule 4 allows (`MAXACKWINCONST`).
const MAX_ACK_WINDOW: u32 = 66_000;

/// The part of the flags that the table of states goes by (`enum tcp_bit_set`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Kind {
    Syn = 0,
    SynAck = 1,
    Fin = 2,
    Ack = 3,
    Rst = 4,
    None = 5,
}

/// What a segment does to the state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// The connection has this state next.
    To(TcpState),
    /// The segment is invalid.
    Invalid,
    /// The segment may be valid, and passes without a change.
    Ignore,
}

/// Shortens the table below.
macro_rules! row {
    ($($next:ident)*) => { [$(row!(@ $next)),*] };
    (@ IV) => { Next::Invalid };
    (@ IG) => { Next::Ignore };
    (@ SS) => { Next::To(SynSent) };
    (@ S2) => { Next::To(SynSent2) };
    (@ SR) => { Next::To(SynRecv) };
    (@ ES) => { Next::To(Established) };
    (@ FW) => { Next::To(FinWait) };
    (@ CW) => { Next::To(CloseWait) };
    (@ LA) => { Next::To(LastAck) };
    (@ TW) => { Next::To(TimeWait) };
    (@ CL) => { Next::To(Close) };
}

/// The next state by direction, kind of segment and state, in the order of the states' numbers.
pub(crate) static STATES: [[[Next; 10]; 6]; 2] = [
    [
        // NO SS SR ES FW CW LA TW CL S2
        row![SS SS IG IG IG IG IG SS SS S2], // SYN
        row![IV IV SR IV IV IV IV IV IV SR], // SYN and ACK
        row![IV IV FW FW LA LA LA TW CL IV], // FIN
        row![ES IV ES ES CW CW TW TW CL IV], // ACK
        row![IV CL CL CL CL CL CL CL CL CL], // RST
        row![IV IV IV IV IV IV IV IV IV IV], // none of them
    ],
    [
        row![IV S2 IV IV IV IV IV SS IV S2],
        row![IV SR IG IG IG IG IG IG IG SR],
        row![IV IV FW FW LA LA LA TW CL IV],
        row![IV IG SR ES CW CW TW TW CL IG],
        row![IV CL CL CL CL CL CL CL CL CL],
        row![IV IV IV IV IV IV IV IV IV IV],
    ],
];

/// A segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    seq: u32,
    ack: u32,
    window: u16,
    flags: u8,
    /// The sequence number behind the last byte.
    end: u32,
    options: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Reads a segment that ends with its slice. Returns `None` for one that is truncated or has impossible flags
    /// (`tcp_error`).
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let head: &[u8; 20] = bytes.first_chunk()?;
        let header = usize::from(head[12] >> 4) * 4;
        let options = bytes.get(20..header)?;
        let flags = head[13] & (FIN | SYN | RST | ACK | URG);
        let valid = matches!(flags & !URG, SYN | ACK)
            || matches!(flags, RST)
            || flags == SYN | ACK
            || flags == RST | ACK
            || flags & !URG == FIN | ACK;
        if !valid {
            return None;
        }
        let word =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let seq = word(4);
        let takes = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        Some(Self {
            seq,
            ack: word(8),
            window: u16::from_be_bytes([head[14], head[15]]),
            flags: head[13] & (FIN | SYN | RST | PSH | ACK | URG),
            end: seq
                .wrapping_add((bytes.len() - header) as u32)
                .wrapping_add(takes),
            options,
        })
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn kind(&self) -> Kind {
        match self.flags {
            f if f & RST != 0 => Kind::Rst,
            f if f & SYN != 0 && f & ACK != 0 => Kind::SynAck,
            f if f & SYN != 0 => Kind::Syn,
            f if f & FIN != 0 => Kind::Fin,
            f if f & ACK != 0 => Kind::Ack,
            _ => Kind::None,
        }
    }

    /// The options, until the first that is malformed.
    fn options(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        let mut rest = self.options;
        std::iter::from_fn(move || {
            loop {
                match *rest {
                    [] | [0, ..] => return None,
                    [1, ref after @ ..] => rest = after,
                    [kind, len, ..] if len >= 2 && usize::from(len) <= rest.len() => {
                        let (option, after) = rest.split_at(usize::from(len));
                        rest = after;
                        return Some((kind, option.get(2..).unwrap_or_default()));
                    }
                    _ => return None,
                }
            }
        })
    }

    /// The highest acknowledged byte, selective acknowledgements included (`tcp_sack`).
    fn sack(&self) -> u32 {
        let mut sack = self.ack;
        for (kind, blocks) in self.options() {
            if kind != 5 || blocks.is_empty() || blocks.len() % 8 != 0 {
                continue;
            }
            for block in blocks.chunks_exact(8) {
                let right = u32::from_be_bytes([block[4], block[5], block[6], block[7]]);
                if after(right, sack) {
                    sack = right;
                }
            }
            break;
        }
        sack
    }
}

fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

fn after(a: u32, b: u32) -> bool {
    before(b, a)
}

/// One direction of a connection (`struct ip_ct_tcp_state`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    end: u32,
    max_end: u32,
    max_win: u32,
    max_ack: u32,
    pub(crate) scale: u8,
    pub(crate) flags: u8,
}

/// A connection (`struct ip_ct_tcp`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tcp {
    pub(crate) state: TcpState,
    pub(crate) seen: [Seen; 2],
    last_dir: u8,
    last_kind: u8,
    retrans: u8,
    last_scale: u8,
    last_flags: u8,
    last_win: u16,
    last_seq: u32,
    last_ack: u32,
    last_end: u32,
}

/// What a segment means for its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Judgement {
    /// The segment passes and changes nothing.
    Ignored,
    /// The segment does not belong to the connection.
    Invalid,
    /// The same, and both ends seem to have closed it: its time-out becomes that of unacknowledged data, if it is longer.
    InvalidEnd,
    /// The segment opens a new connection in place of this one, which is over.
    Reopen,
    /// The segment is the connection's.
    Valid {
        /// The new time-out in seconds; `None` if it stays.
        timeout: Option<u32>,
        /// The state has changed.
        changed: bool,
        /// The connection is assured from now on.
        assured: bool,
        /// The connection is over at once.
        over: bool,
    },
}

impl Seen {
    /// Reads the options of a SYN (`tcp_options`).
    fn options(&mut self, segment: &Segment<'_>) {
        if segment.options.is_empty() {
            return;
        }
        self.scale = 0;
        self.flags &= tcp_flag::BE_LIBERAL;
        for (kind, value) in segment.options() {
            match (kind, value) {
                (4, []) => self.flags |= tcp_flag::SACK_PERM,
                (3, &[scale]) => {
                    self.scale = scale.min(14);
                    self.flags |= tcp_flag::WINDOW_SCALE;
                }
                _ => {}
            }
        }
    }
}

impl Tcp {
    /// The flags, as in the header's 14th byte.
    pub(crate) const FIN: u8 = FIN;
    pub(crate) const RST: u8 = RST;

    /// Makes the state of a connection that begins with a segment of the original direction (`tcp_new`). Returns
    /// `None` if none begins with it.
    pub(crate) fn new(segment: &Segment<'_>, settings: &Settings) -> Option<Self> {
        let mut new = Self::default();
        let window = u32::from(segment.window).max(1);
        match STATES[0][segment.kind() as usize][TcpState::None as usize] {
            Next::To(SynSent) => {
                new.seen[0].end = segment.end;
                new.seen[0].max_win = window;
                new.seen[0].max_end = segment.end;
                new.seen[0].options(segment);
            }
            Next::To(_) if settings.is(Setting::tcp_loose) => {
                new.seen[0].end = segment.end;
                new.seen[0].max_win = window;
                new.seen[0].max_end = segment.end.wrapping_add(window);
                for seen in &mut new.seen {
                    seen.flags = tcp_flag::SACK_PERM | tcp_flag::BE_LIBERAL;
                }
            }
            _ => return None,
        }
        new.last_kind = Kind::None as u8;
        Some(new)
    }

    /// Whether the connection is closing, so that it may be removed early (`tcp_can_early_drop`).
    pub(crate) fn is_closing(state: TcpState) -> bool {
        matches!(state, FinWait | LastAck | TimeWait | Close | CloseWait)
    }

    /// Forgets the windows: those of the next segments count (`flow_offload_fixup_tcp`).
    pub(crate) fn forget_windows(&mut self) {
        for seen in &mut self.seen {
            seen.max_win = 0;
        }
    }

    /// Returns when a connection in the flow table expires by its own time-out, in ticks. It is in the place of a window,
    /// which is forgotten when the flow ends.
    pub(crate) fn own_deadline(&self) -> u32 {
        self.seen[0].max_win
    }

    /// Sets that time.
    pub(crate) fn set_own_deadline(&mut self, deadline: u32) {
        self.seen[0].max_win = deadline;
    }

    /// Whether the connection was established (`nf_conntrack_tcp_established`).
    fn is_established(&self, status: u32) -> bool {
        self.state == Established && status & ips::ASSURED != 0
    }

    /// Judges a segment and updates the state (`nf_conntrack_tcp_packet`). `status` is `IPS_*`.
    pub(crate) fn packet(
        &mut self,
        direction: Direction,
        segment: &Segment<'_>,
        status: u32,
        settings: &Settings,
    ) -> Judgement {
        let kind = segment.kind();
        let dir = direction as u8;
        let mut old = self.state;
        let mut skip = false;
        let next = STATES[direction as usize][kind as usize][old as usize];
        let reopened = |tcp: &Self| {
            let flags = tcp.seen[0].flags | tcp.seen[1].flags;
            flags & tcp_flag::CLOSE_INIT != 0
                || tcp.last_dir == dir && tcp.last_kind == Kind::Rst as u8
        };
        let mut new = match next {
            Next::Invalid => return Judgement::Invalid,
            Next::To(SynSent) if old < TimeWait => SynSent,
            Next::To(SynSent) if reopened(self) => return Judgement::Reopen,
            Next::To(SynSent) | Next::Ignore => {
                let resync = kind == Kind::SynAck
                    && self.last_kind == Kind::Syn as u8
                    && self.last_dir != dir
                    && segment.ack == self.last_end;
                if !resync {
                    self.ignore(direction, segment, kind, old);
                    return Judgement::Ignored;
                }
                // The answer to a SYN that was ignored: both ends are in step, and we were not.
                old = SynSent;
                self.last_flags &= !tcp_flag::EXP_CHALLENGE_ACK;
                let sender = &mut self.seen[usize::from(self.last_dir & 1)];
                sender.end = self.last_end;
                sender.max_end = self.last_end;
                sender.max_win = u32::from(self.last_win).max(1);
                sender.scale = self.last_scale;
                sender.flags = self.last_flags;
                let flags = self.seen[direction as usize].flags;
                self.seen[direction as usize] = Seen {
                    flags: flags & tcp_flag::BE_LIBERAL,
                    ..Seen::default()
                };
                SynRecv
            }
            Next::To(TimeWait)
                if old == LastAck
                    && kind == Kind::Ack
                    && self.last_dir != dir
                    && self.last_kind == Kind::Syn as u8
                    && self.last_flags & tcp_flag::EXP_CHALLENGE_ACK != 0 =>
            {
                // RFC 5961: the answer to a stray SYN does not acknowledge the last FIN.
                self.last_flags &= !tcp_flag::EXP_CHALLENGE_ACK;
                return Judgement::Ignored;
            }
            Next::To(SynSent2) => {
                self.last_flags |= tcp_flag::SIMULTANEOUS_OPEN;
                SynSent2
            }
            Next::To(SynRecv)
                if direction == Direction::Reply
                    && kind == Kind::Ack
                    && self.last_flags & tcp_flag::SIMULTANEOUS_OPEN != 0 =>
            {
                Established
            }
            Next::To(new) => new,
        };
        if new == Close && kind == Kind::Rst {
            match self.reset(direction, segment, status, settings) {
                Reset::Invalid => return Judgement::Invalid,
                Reset::Sure => skip = true,
                Reset::Check => {}
                Reset::Keep => new = old,
            }
        }
        if !skip {
            match self.in_window(direction, segment, kind, settings) {
                Window::Inside => {}
                Window::Ignore => return Judgement::Ignored,
                Window::Outside => return self.outside(direction, kind, status),
            }
        }
        self.last_kind = kind as u8;
        self.last_dir = dir;
        self.state = new;
        if old != new && new == FinWait {
            self.seen[direction as usize].flags |= tcp_flag::CLOSE_INIT;
        }
        let limit = |most: Setting| settings.tcp_timeout(new) > settings.get(most);
        let waits = (self.seen[0].flags | self.seen[1].flags) & tcp_flag::DATA_UNACKNOWLEDGED != 0;
        let (retrans, unacked) = (
            Setting::tcp_timeout_max_retrans,
            Setting::tcp_timeout_unacknowledged,
        );
        let mut timeout = if u32::from(self.retrans) >= settings.get(Setting::tcp_max_retrans)
            && limit(retrans)
        {
            settings.get(retrans)
        } else if kind == Kind::Rst {
            settings.get(Setting::tcp_timeout_close)
        } else if waits && limit(unacked) {
            settings.get(unacked)
        } else if self.last_win == 0 && limit(retrans) {
            settings.get(retrans)
        } else {
            settings.tcp_timeout(new)
        };
        let changed = new != old;
        let valid = |timeout, assured, over| Judgement::Valid {
            timeout,
            changed,
            assured,
            over,
        };
        if status & ips::SEEN_REPLY == 0 {
            if segment.has(RST) {
                return valid(None, false, true);
            }
            if kind == Kind::Syn && old == SynSent {
                // A retransmitted SYN does not keep the connection alive.
                return valid(None, false, false);
            }
            if new == Established {
                // Picked up in the middle.
                timeout = timeout.min(settings.get(unacked));
            }
            return valid(Some(timeout), false, false);
        }
        let assured = status & ips::ASSURED == 0
            && matches!(old, SynRecv | Established)
            && new == Established;
        valid(Some(timeout), assured, false)
    }

    /// Remembers a segment that passes although it does not fit the state.
    fn ignore(&mut self, direction: Direction, segment: &Segment<'_>, kind: Kind, old: TcpState) {
        self.last_kind = kind as u8;
        self.last_dir = direction as u8;
        self.last_seq = segment.seq;
        self.last_end = segment.end;
        self.last_win = segment.window;
        if kind == Kind::Syn && direction == Direction::Original {
            // The ends may be in step while we are not. If so, a SYN and ACK follows.
            let mut seen = Seen::default();
            seen.options(segment);
            self.last_scale = seen.scale;
            self.last_flags = seen.flags & (tcp_flag::WINDOW_SCALE | tcp_flag::SACK_PERM);
            if old == LastAck {
                self.last_flags |= tcp_flag::EXP_CHALLENGE_ACK;
            }
        }
        if old == SynSent && kind == Kind::Ack && direction == Direction::Reply {
            // Perhaps a challenge to our SYN.
            self.last_ack = segment.ack;
        }
    }

    /// Judges a segment outside of the window (`nf_tcp_handle_invalid`).
    fn outside(&mut self, direction: Direction, kind: Kind, status: u32) -> Judgement {
        const ENDS: [u8; 2] = [Kind::Fin as u8, Kind::Rst as u8];
        let fixed = status & (ips::ASSURED | ips::FIXED_TIMEOUT) != ips::ASSURED;
        if fixed || !ENDS.contains(&(kind as u8)) {
            return Judgement::Invalid;
        }
        if self.last_dir != direction as u8 && ENDS.contains(&self.last_kind) {
            return Judgement::InvalidEnd;
        }
        self.last_kind = kind as u8;
        self.last_dir = direction as u8;
        Judgement::Invalid
    }

    /// Whether a reset answers a segment that was ignored.
    fn answers_ignored(&self, direction: Direction, segment: &Segment<'_>, status: u32) -> bool {
        let syn = status & ips::SEEN_REPLY != 0
            && self.last_kind == Kind::Syn as u8
            && self.last_dir != direction as u8;
        let ack = status & ips::ASSURED == 0 && self.last_kind == Kind::Ack as u8;
        (syn || ack) && segment.ack == self.last_end
    }

    /// Judges a reset.
    fn reset(
        &self,
        direction: Direction,
        segment: &Segment<'_>,
        status: u32,
        settings: &Settings,
    ) -> Reset {
        if Self::is_closing(self.state) {
            // The ports may be in use again; what is known of the windows is of no use.
            return Reset::Sure;
        }
        let receiver = &self.seen[direction.other() as usize];
        if receiver.flags & tcp_flag::MAXACK_SET != 0 && self.last_kind != Kind::Syn as u8 {
            let established = self.is_established(status);
            if segment.seq == 0 && !established {
                return Reset::Check;
            }
            if before(segment.seq, receiver.max_ack)
                && !settings.is(Setting::tcp_ignore_invalid_rst)
            {
                return Reset::Invalid;
            }
            if !established || segment.seq == receiver.max_ack {
                return Reset::Check;
            }
            if self.last_kind == Kind::Ack as u8
                && self.last_dir == direction as u8
                && segment.seq == self.last_end
            {
                return Reset::Check;
            }
            // Not the exact number: the receiver answers with a challenge.
            return Reset::Keep;
        }
        if self.answers_ignored(direction, segment, status) {
            return Reset::Sure;
        }
        if self.state == SynSent
            && self.last_kind == Kind::Ack as u8
            && self.last_dir == Direction::Reply as u8
            && segment.seq == self.last_ack
        {
            // The answer to a challenge that was ignored.
            return Reset::Sure;
        }
        Reset::Check
    }

    /// Takes the sender's window from a SYN (`tcp_init_sender`).
    fn start_sender(&mut self, direction: Direction, segment: &Segment<'_>) {
        let sender = &mut self.seen[direction as usize];
        sender.end = segment.end;
        sender.max_end = segment.end;
        sender.max_win = u32::from(segment.window).max(1);
        sender.options(segment);
        let both = self.seen[0].flags & self.seen[1].flags & tcp_flag::WINDOW_SCALE;
        if direction == Direction::Reply && both == 0 {
            // RFC 7323: both sides must announce scaling.
            self.seen[0].scale = 0;
            self.seen[1].scale = 0;
        }
    }

    /// Checks a segment against the windows and updates them (`tcp_in_window`).
    fn in_window(
        &mut self,
        direction: Direction,
        segment: &Segment<'_>,
        kind: Kind,
        settings: &Settings,
    ) -> Window {
        let (from, to) = (direction as usize, direction.other() as usize);
        let (mut seq, mut end) = (segment.seq, segment.end);
        let mut ack = segment.ack;
        let mut window = u32::from(segment.window);
        let mut sack = ack;
        if self.seen[to].flags & tcp_flag::SACK_PERM != 0 {
            sack = segment.sack();
        }
        let is_ack = segment.has(ACK);
        if self.seen[from].max_win == 0 {
            if segment.has(SYN) {
                self.start_sender(direction, segment);
                if !is_ack {
                    // Opened from both sides.
                    return Window::Inside;
                }
            } else {
                // The connection's beginning was not seen.
                let sender = &mut self.seen[from];
                sender.end = end;
                sender.max_win = (window << sender.scale).max(1);
                sender.max_end = end.wrapping_add(sender.max_win);
                let receiver = &mut self.seen[to];
                if receiver.max_win == 0 {
                    receiver.end = sack;
                    receiver.max_end = sack;
                } else if sack == receiver.end.wrapping_add(1) {
                    // Probably the answer to a keep-alive.
                    receiver.end = sack;
                }
            }
        } else if segment.has(SYN)
            && after(end, self.seen[from].end)
            && matches!(self.state, SynSent | SynRecv)
        {
            // RFC 793: a connection that is opened again uses larger sequence numbers.
            self.start_sender(direction, segment);
            if direction == Direction::Reply && !is_ack {
                return Window::Inside;
            }
        }
        let [sender, receiver] = {
            let [first, second] = &mut self.seen;
            if from == 0 {
                [first, second]
            } else {
                [second, first]
            }
        };
        if !is_ack || segment.has(RST) && ack == 0 {
            ack = receiver.end;
            sack = ack;
        }
        if segment.has(RST) && seq == 0 && self.state == SynSent {
            // The answer to a SYN.
            seq = sender.end;
            end = seq;
        }
        let liberal =
            sender.flags & tcp_flag::BE_LIBERAL != 0 || settings.is(Setting::tcp_be_liberal);
        let failed = |window| if liberal { Window::Inside } else { window };
        let not_old = after(
            end,
            sender.end.wrapping_sub(receiver.max_win).wrapping_sub(1),
        );
        let oldest = receiver
            .end
            .wrapping_sub(sender.max_win.max(MAX_ACK_WINDOW))
            .wrapping_sub(1);
        let not_early = before(sack, receiver.end.wrapping_add(1));
        if !before(seq, sender.max_end.wrapping_add(1)) {
            let overshot = end.wrapping_sub(sender.max_end).wrapping_add(1);
            if receiver.max_win != 0
                && not_old
                && after(sack, oldest)
                && overshot <= receiver.max_win
                && not_early
            {
                // Some senders send more than they may, and it is acknowledged.
                sender.end = end;
                sender.flags |= tcp_flag::DATA_UNACKNOWLEDGED;
                return failed(Window::Ignore);
            }
            return failed(Window::Outside);
        }
        if !not_early {
            return failed(Window::Outside);
        }
        if receiver.max_win != 0 && !not_old || !after(sack, oldest) {
            return failed(Window::Ignore);
        }
        if !segment.has(SYN) {
            window <<= sender.scale;
        }
        let reach = window.wrapping_add(sack.wrapping_sub(ack));
        sender.max_win = sender.max_win.max(reach);
        if after(end, sender.end) {
            sender.end = end;
            sender.flags |= tcp_flag::DATA_UNACKNOWLEDGED;
        }
        if is_ack {
            if sender.flags & tcp_flag::MAXACK_SET == 0 {
                sender.max_ack = ack;
                sender.flags |= tcp_flag::MAXACK_SET;
            } else if after(ack, sender.max_ack) {
                sender.max_ack = ack;
            }
        }
        if receiver.max_win != 0 && after(end, sender.max_end) {
            let more = end.wrapping_sub(sender.max_end);
            receiver.max_win = receiver.max_win.wrapping_add(more);
        }
        let edge = sack.wrapping_add(window);
        if after(edge, receiver.max_end.wrapping_sub(1)) {
            receiver.max_end = edge.wrapping_add(u32::from(window == 0));
        }
        if ack == receiver.end {
            receiver.flags &= !tcp_flag::DATA_UNACKNOWLEDGED;
        }
        if kind == Kind::Ack {
            let last = (self.last_seq, self.last_ack, self.last_end);
            if self.last_dir == direction as u8
                && last == (seq, ack, end)
                && self.last_win == segment.window
            {
                self.retrans = self.retrans.saturating_add(1);
            } else {
                self.last_dir = direction as u8;
                self.last_seq = seq;
                self.last_ack = ack;
                self.last_end = end;
                self.last_win = segment.window;
                self.retrans = 0;
            }
        }
        Window::Inside
    }

    /// Reads the state from an entry.
    #[inline]
    pub(crate) fn load(slot: &Slot<'_>) -> Self {
        let words = &slot.windows().0;
        let word = |at: usize| words[at].load(Relaxed);
        let (a, b) = (word(0), word(1));
        let seen = |at: usize, flags: u32, scale: u32| Seen {
            end: word(at),
            max_end: word(at + 1),
            max_win: word(at + 2),
            max_ack: word(at + 3),
            scale: (b >> scale) as u8 & 0xf,
            flags: (b >> flags) as u8,
        };
        let last_flags = (b >> 28) as u8;
        Self {
            state: TcpState::of(a as u8 & 0xf).unwrap_or_default(),
            last_dir: (a >> 4) as u8 & 1,
            last_kind: (a >> 5) as u8 & 7,
            retrans: (a >> 8) as u8,
            last_win: (a >> 16) as u16,
            last_scale: (b >> 24) as u8 & 0xf,
            last_flags: last_flags & 3 | (last_flags & 0xc) << 4,
            seen: [seen(2, 0, 16), seen(6, 8, 20)],
            last_seq: word(10),
            last_ack: word(11),
            last_end: word(12),
        }
    }

    /// Writes the state to an entry. The caller holds its lock. Scales take four bits, as they are at most 14, and of
    /// the last segment's flags those that are used.
    #[inline]
    pub(crate) fn save(&self, slot: &Slot<'_>) {
        let [one, two] = self.seen;
        let wide = u32::from;
        let last_flags = self.last_flags & 3 | self.last_flags >> 4 & 0xc;
        let words = [
            self.state as u32
                | wide(self.last_dir & 1) << 4
                | wide(self.last_kind & 7) << 5
                | wide(self.retrans) << 8
                | u32::from(self.last_win) << 16,
            wide(one.flags)
                | wide(two.flags) << 8
                | wide(one.scale & 0xf) << 16
                | wide(two.scale & 0xf) << 20
                | wide(self.last_scale & 0xf) << 24
                | wide(last_flags) << 28,
            one.end,
            one.max_end,
            one.max_win,
            one.max_ack,
            two.end,
            two.max_end,
            two.max_win,
            two.max_ack,
            self.last_seq,
            self.last_ack,
            self.last_end,
        ];
        for (to, word) in slot.windows().0.iter().zip(words) {
            to.store(word, Relaxed);
        }
    }

    /// The state alone.
    pub(crate) fn state_of(slot: &Slot<'_>) -> TcpState {
        let word = slot.windows().0[0].load(Relaxed);
        TcpState::of(word as u8 & 0xf).unwrap_or_default()
    }
}

/// Where a segment lies (`enum nf_ct_tcp_action`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Window {
    Inside,
    /// Outside, but it passes without a change.
    Ignore,
    Outside,
}

/// What a reset means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reset {
    Invalid,
    /// The windows are not checked.
    Sure,
    /// The windows are checked.
    Check,
    /// As `Check`, and the state stays.
    Keep,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::connection::{Create, Origin};
    use crate::tests::{Bench, CLIENT, SERVER};
    use crate::tuple::{TCP, Tuple, Zone};
    use proptest::prelude::*;

    fn seen() -> impl Strategy<Value = Seen> {
        let words = any::<[u32; 4]>();
        (words, 0u8..=14, any::<u8>()).prop_map(|(words, scale, flags)| {
            let [end, max_end, max_win, max_ack] = words;
            Seen {
                end,
                max_end,
                max_win,
                max_ack,
                scale,
                flags,
            }
        })
    }

    fn state() -> impl Strategy<Value = Tcp> {
        let small = (0u8..10, 0u8..2, 0u8..=5, any::<u8>(), 0u8..=14);
        let flags = prop::bits::u8::masked(0xc3);
        (small, flags, seen(), seen(), any::<([u32; 3], u16)>()).prop_map(
            |(small, last_flags, one, two, (last, last_win))| Tcp {
                state: TcpState::of(small.0).unwrap_or_default(),
                seen: [one, two],
                last_dir: small.1,
                last_kind: small.2,
                retrans: small.3,
                last_scale: small.4,
                last_flags,
                last_win,
                last_seq: last[0],
                last_ack: last[1],
                last_end: last[2],
            },
        )
    }

    proptest! {
        #[test]
        fn an_entry_keeps_the_whole_state(tcp in state()) {
            let bench = Bench::new();
            let original = Tuple::v4(CLIENT, SERVER, 1000, 80, TCP);
            let create = Create {
                original,
                reply: original.invert().unwrap(),
                zone: Zone::default(),
                timeout: 100,
                status: 0,
                mark: 0,
                labels: None,
                tcp: None,
                sctp: None,
                dccp: None,
                nat: None,
            };
            let made = bench.table.create(&create, bench.now, Origin::Packet);
            let slot = bench.table.slot(made.unwrap()).unwrap();
            tcp.save(&slot);
            prop_assert_eq!(Tcp::load(&slot), tcp);
            prop_assert_eq!(Tcp::state_of(&slot), tcp.state);
        }
    }
}
