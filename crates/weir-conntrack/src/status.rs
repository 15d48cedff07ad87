// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bits and states of a connection, with Linux's numbers.

/// `IPS_*`: the status of a connection.
pub mod ips {
    #![allow(missing_docs)] // The names are Linux's.

    pub const EXPECTED: u32 = 1;
    /// Packets have passed in both directions.
    pub const SEEN_REPLY: u32 = 1 << 1;
    /// The connection is not removed early.
    pub const ASSURED: u32 = 1 << 2;
    /// The connection is in the table.
    pub const CONFIRMED: u32 = 1 << 3;
    pub const SRC_NAT: u32 = 1 << 4;
    pub const DST_NAT: u32 = 1 << 5;
    pub const NAT_MASK: u32 = SRC_NAT | DST_NAT;
    pub const SEQ_ADJUST: u32 = 1 << 6;
    pub const SRC_NAT_DONE: u32 = 1 << 7;
    pub const DST_NAT_DONE: u32 = 1 << 8;
    pub const NAT_DONE_MASK: u32 = SRC_NAT_DONE | DST_NAT_DONE;
    pub const DYING: u32 = 1 << 9;
    /// The time-out is not renewed by packets.
    pub const FIXED_TIMEOUT: u32 = 1 << 10;
    pub const TEMPLATE: u32 = 1 << 11;
    pub const NAT_CLASH: u32 = 1 << 12;
    pub const HELPER: u32 = 1 << 13;
    pub const OFFLOAD: u32 = 1 << 14;
    pub const HW_OFFLOAD: u32 = 1 << 15;
    /// The bits that netlink may not change (`IPS_UNCHANGEABLE_MASK`).
    pub const UNCHANGEABLE: u32 = NAT_DONE_MASK
        | NAT_MASK
        | EXPECTED
        | CONFIRMED
        | DYING
        | SEQ_ADJUST
        | TEMPLATE
        | NAT_CLASH
        | OFFLOAD
        | HW_OFFLOAD;
}

/// `IPCT_*`: bits of events.
pub mod ipct {
    #![allow(missing_docs)] // The names are Linux's.

    pub const NEW: u32 = 1;
    pub const RELATED: u32 = 1 << 1;
    pub const DESTROY: u32 = 1 << 2;
    pub const REPLY: u32 = 1 << 3;
    pub const ASSURED: u32 = 1 << 4;
    pub const PROTOINFO: u32 = 1 << 5;
    pub const HELPER: u32 = 1 << 6;
    pub const MARK: u32 = 1 << 7;
    pub const SEQADJ: u32 = 1 << 8;
    pub const SECMARK: u32 = 1 << 9;
    pub const LABEL: u32 = 1 << 10;
    pub const SYNPROXY: u32 = 1 << 11;
}

/// `IP_CT_TCP_FLAG_*`: flags of one direction of a TCP connection.
pub mod tcp_flag {
    /// The sender announced window scaling.
    pub const WINDOW_SCALE: u8 = 0x01;
    /// The sender permits selective acknowledgements.
    pub const SACK_PERM: u8 = 0x02;
    /// The sender closed first.
    pub const CLOSE_INIT: u8 = 0x04;
    /// Segments outside of the window are accepted.
    pub const BE_LIBERAL: u8 = 0x08;
    /// The sender has unacknowledged data.
    pub const DATA_UNACKNOWLEDGED: u8 = 0x10;
    /// The field `td_maxack` is set.
    pub const MAXACK_SET: u8 = 0x20;
    /// A challenge acknowledgement is expected (`IP_CT_EXP_CHALLENGE_ACK`), in the flags of the last segment.
    pub const EXP_CHALLENGE_ACK: u8 = 0x40;
    /// The connection was opened from both sides (`IP_CT_TCP_SIMULTANEOUS_OPEN`), in the flags of the last segment.
    pub const SIMULTANEOUS_OPEN: u8 = 0x80;
}

/// The state of a TCP connection (`enum tcp_conntrack`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
#[allow(missing_docs)] // The names are Linux's.
pub enum TcpState {
    #[default]
    None = 0,
    SynSent = 1,
    SynRecv = 2,
    Established = 3,
    FinWait = 4,
    CloseWait = 5,
    LastAck = 6,
    TimeWait = 7,
    Close = 8,
    SynSent2 = 9,
}

impl TcpState {
    /// All states, in the order of their numbers.
    pub const ALL: [TcpState; 10] = {
        use TcpState::*;
        [
            None,
            SynSent,
            SynRecv,
            Established,
            FinWait,
            CloseWait,
            LastAck,
            TimeWait,
            Close,
            SynSent2,
        ]
    };

    /// Returns the state with a number.
    #[inline]
    pub const fn of(number: u8) -> Option<Self> {
        if (number as usize) < Self::ALL.len() {
            Some(Self::ALL[number as usize])
        } else {
            Option::None
        }
    }

    /// Returns the name that `/proc/net/nf_conntrack` shows.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::SynSent => "SYN_SENT",
            Self::SynRecv => "SYN_RECV",
            Self::Established => "ESTABLISHED",
            Self::FinWait => "FIN_WAIT",
            Self::CloseWait => "CLOSE_WAIT",
            Self::LastAck => "LAST_ACK",
            Self::TimeWait => "TIME_WAIT",
            Self::Close => "CLOSE",
            Self::SynSent2 => "SYN_SENT2",
        }
    }
}
