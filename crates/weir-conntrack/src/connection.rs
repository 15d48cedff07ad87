// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections as control code sees them: a copy of one, requests that make or change one, and events.

use crate::dccp::DccpState;
use crate::range::Range;
use crate::sctp::SctpState;
use crate::status::TcpState;
use crate::tuple::{Tuple, Zone};

/// The name of a connection. It is stale once the connection has gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Handle {
    /// The index of the entry.
    pub index: u32,
    /// The generation of the entry.
    pub generation: u32,
}

/// A consistent copy of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The name.
    pub handle: Handle,
    /// `CTA_ID`
    pub id: u32,
    /// The key of the original direction.
    pub original: Tuple,
    /// The key of the reply direction.
    pub reply: Tuple,
    /// The zone.
    pub zone: Zone,
    /// [`ips`](crate::status::ips)
    pub status: u32,
    /// The mark.
    pub mark: u32,
    /// The labels, if they were ever set.
    pub labels: Option<[u8; 16]>,
    /// Seconds until the connection expires, rounded down.
    pub timeout: u32,
    /// The state of a TCP connection.
    pub tcp: Option<TcpInfo>,
    /// The state of an SCTP connection.
    pub sctp: Option<SctpInfo>,
    /// The state of a DCCP connection.
    pub dccp: Option<DccpInfo>,
    /// Packets and bytes of each direction, if they are counted.
    pub counters: Option<[Counters; 2]>,
    /// When the connection entered the table, in nanoseconds of the stack's clock, if times are kept.
    pub started: Option<u64>,
    /// When the connection left the table, if times are kept.
    pub stopped: Option<u64>,
}

/// The state of a TCP connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpInfo {
    /// The state.
    pub state: TcpState,
    /// The window scale of each direction.
    pub scale: [u8; 2],
    /// [`tcp_flag`](crate::status::tcp_flag) of each direction.
    pub flags: [u8; 2],
}

impl Snapshot {
    /// Returns the name of the protocol's state, if the protocol has states.
    pub fn state_name(&self) -> Option<&'static str> {
        let tcp = self.tcp.map(|tcp| tcp.state.name());
        let sctp = self.sctp.map(|sctp| sctp.state.name());
        tcp.or(sctp).or(self.dccp.map(|dccp| dccp.state.name()))
    }
}

/// The state of an SCTP connection (`CTA_PROTOINFO_SCTP`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SctpInfo {
    /// The state.
    pub state: SctpState,
    /// The verification tags that packets of each direction carry.
    pub tags: [u32; 2],
}

/// The state of a DCCP connection (`CTA_PROTOINFO_DCCP`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DccpInfo {
    /// The state.
    pub state: DccpState,
    /// The server sent the connection's first packet.
    pub reversed: bool,
    /// The sequence number of the server's Response, 48 bits.
    pub handshake: u64,
}

/// Packets and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Packets.
    pub packets: u64,
    /// Bytes from the network header on.
    pub bytes: u64,
}

/// A connection to be made by a request (`ctnetlink_create_conntrack`).
#[derive(Clone, Debug)]
pub struct Create {
    /// The key of the original direction.
    pub original: Tuple,
    /// The key of the reply direction.
    pub reply: Tuple,
    /// The zone.
    pub zone: Zone,
    /// Seconds until it expires.
    pub timeout: u32,
    /// [`ips`](crate::status::ips) to be set in addition to `CONFIRMED`.
    pub status: u32,
    /// The mark.
    pub mark: u32,
    /// The labels.
    pub labels: Option<[u8; 16]>,
    /// The state of a TCP connection.
    pub tcp: Option<TcpChange>,
    /// The state of an SCTP connection.
    pub sctp: Option<SctpInfo>,
    /// The state of a DCCP connection.
    pub dccp: Option<DccpInfo>,
    /// The translation.
    pub nat: Option<CreateNat>,
}

/// The translation of a connection that a request makes: what its destination and its source are translated to. With
/// one of them the other is decided too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CreateNat {
    /// `CTA_NAT_DST`
    pub destination: Option<Range>,
    /// `CTA_NAT_SRC`
    pub source: Option<Range>,
}

/// A change of a connection (`ctnetlink_change_conntrack`).
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// The new status. The caller has checked the unchangeable bits.
    pub status: Option<u32>,
    /// Seconds until it expires.
    pub timeout: Option<u32>,
    /// The mark, and the mask of the bits that change.
    pub mark: Option<(u32, u32)>,
    /// The labels, and the mask of the bits that change.
    pub labels: Option<([u8; 16], [u8; 16])>,
    /// The state of a TCP connection.
    pub tcp: Option<TcpChange>,
    /// The state of an SCTP connection.
    pub sctp: Option<SctpInfo>,
    /// The state of a DCCP connection.
    pub dccp: Option<DccpInfo>,
    /// The counters become 0.
    pub zero_counters: bool,
}

/// A change of the state of a TCP connection (`nlattr_to_tcp`).
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpChange {
    /// The state.
    pub state: Option<TcpState>,
    /// The window scales of both directions. They are set if both directions announced scaling.
    pub scale: Option<[u8; 2]>,
    /// Flags and their mask, for each direction.
    pub flags: [Option<(u8, u8)>; 2],
}

/// Why a connection was not made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CreateError {
    /// There is a connection with one of the keys (EEXIST).
    Exists,
    /// The table is full (ENOMEM).
    Full,
    /// There is no memory (ENOMEM).
    NoMemory,
}

/// Where an event comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A packet, or the passing of time.
    Packet,
    /// A request.
    Netlink {
        /// The socket's port.
        portid: u32,
        /// The request asks for a report (`NLM_F_ECHO`).
        report: bool,
    },
}

/// Something that happened to a connection.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// [`ipct`](crate::status::ipct)
    pub events: u32,
    /// The connection after it.
    pub connection: &'a Snapshot,
    /// Where it comes from.
    pub origin: Origin,
    /// The time of the stack's clock in nanoseconds.
    pub now: u64,
}

/// Gets the events of a table.
pub trait Listener: Send + Sync {
    /// Called where it happens, with no lock of the table held.
    fn event(&self, event: &Event<'_>);
}

/// The counters of one CPU (`struct ip_conntrack_stat`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)] // The names are Linux's.
pub struct Statistics {
    pub cpu: u32,
    pub found: u32,
    pub invalid: u32,
    pub insert: u32,
    pub insert_failed: u32,
    pub clash_resolve: u32,
    pub drop: u32,
    pub early_drop: u32,
    pub error: u32,
    pub search_restart: u32,
    pub chain_too_long: u32,
    /// Connections made and removed, not in Linux.
    pub removed: u32,
    /// Packets that found no free port of their range, not in Linux.
    pub no_port: u32,
}
