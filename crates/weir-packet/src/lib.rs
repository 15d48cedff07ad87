// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets, batches, their memory, dissection, checksums and drop reasons.
//!
//! | module | what |
//! |---|---|
//! | [`pool`] | frame memory: 2 MiB pages, [`Pool`], [`Cache`] (a CPU's magazine), bulk calls |
//! | [`packet`] | [`Packet`]: one cache line of metadata and one frame |
//! | [`meta`] | [`Meta`]: the fields anyone may write |
//! | [`batch`] | [`Batch`]: up to 64 packets, inline |
//! | [`edit`] | VLAN push and pop, TTL decrement |
//! | [`header`] | typed views and builders, a file a protocol |
//! | [`checksum`] | internet checksum, pseudo headers, RFC 1624 updates |
//! | [`mod@dissect`] | packet to [`FlowKeys`], flow hash |
//! | [`tunnel`] | [`Tunnel`]: metadata of encapsulation, shared by reference |
//! | [`drop_reason`] | [`DropReason`]: Linux's names, one table |
//!
//! Every function that takes bytes takes any bytes: short or malformed input is
//! answered with `None`, `false` or an error, never with a panic.
//!
//! Unsafe code lives in `arena`, `returned`, `pool`, `packet`, `batch` and
//! `dissect::keys` only.
#![deny(unsafe_code)]

mod arena;
pub mod batch;
pub mod checksum;
pub mod dissect;
pub mod drop_reason;
pub mod edit;
pub mod header;
pub mod meta;
pub mod packet;
pub mod pool;
mod returned;
pub mod tunnel;

pub use batch::{Batch, Drain};
pub use dissect::{FlowKeys, Used, dissect, dissect_frame, flow_hash};
pub use drop_reason::{DropClass, DropReason};
pub use packet::{Flags, Meta, Packet, PacketType, VlanTag};
pub use pool::{Cache, Pool, PoolConfig};
pub use tunnel::Tunnel;
