// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connection tracking and NAT.
//!
//! | module | contents |
//! |---|---|
//! | [`mod@tuple`] | the key of a connection in one direction, zones |
//! | [`status`] | bits and states, with Linux's numbers |
//! | [`settings`] | the sysctls of a namespace |
//! | [`connection`] | connections as control code sees them, and events |
//! | [`conntrack`] | the table |
//! | [`packets`] | a packet's connection |
//! | [`sctp`], [`dccp`] | the states of these protocols; TCP's are in [`status`] |
//! | [`action`], [`nat`] | the action `ct`, and the translation of packets |
//! | [`flow`] | the flow table of `ct` |
//! | [`redirect`] | the translation of single packets |
//!
//! The crate knows no devices and has no clock: callers pass the time of the stack's clock in nanoseconds.
//! The behaviour is that of Linux 6.1 (net/netfilter/nf_conntrack_*.c, nf_nat_*.c).
#![deny(unsafe_code)]

pub mod action;
mod batch;
mod clock;
pub mod connection;
pub mod conntrack;
mod create;
pub mod dccp;
mod deadline;
pub mod flow;
mod flow_tables;
mod headers;
mod index;
mod key;
mod levels;
pub mod nat;
pub mod packets;
pub mod range;
pub mod redirect;
pub mod sctp;
pub mod settings;
pub mod status;
mod store;
mod tcp;
mod track;
pub mod tuple;

#[cfg(all(test, loom))]
#[allow(clippy::unwrap_used, reason = "a test may stop there")]
mod loom_models;
#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test may stop there")]
mod tests;

pub use action::{Action, Cx, Done, Nat, Why, clear};
pub use connection::{
    Change, Counters, Create, CreateError, CreateNat, DccpInfo, Event, Handle, Listener, Origin,
    SctpInfo, Snapshot, Statistics, TcpChange, TcpInfo,
};
pub use conntrack::{Collected, Conntrack};
pub use dccp::DccpState;
pub use flow_tables::FlowTables;
pub use nat::Manip;
pub use range::Range;
pub use redirect::{Seen, ends_of_fragment};
pub use sctp::SctpState;
pub use settings::{Setting, Settings};
pub use status::{TcpState, ipct, ips, tcp_flag};
pub use tuple::{Direction, Family, Tuple, Zone};
