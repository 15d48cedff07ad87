// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets, batches, their memory, dissection, checksums and drop reasons.
//!
//! | module | purpose |
//! |---|---|
//! | [`pool`] | frame memory: 2 MiB pages, [`Pool`], [`Cache`] (a CPU's magazine), bulk operations |
//! | [`packet`] | [`Packet`]: one cache line of metadata and one frame |
//! | [`meta`] | [`Meta`]: the public metadata fields |
//! | [`buffers`] | [`Buffers`]: up to 64 free frames, not yet packets |
//! | [`batch`] | [`Batch`]: up to 64 packets, stored inline |
//! | [`list`] | [`List`]: a value for each packet of a batch |
//! | [`bpf`] | classic BPF programs |
//! | [`edit`] | VLAN push and pop, TTL decrement |
//! | [`offload`] | checksums and segmentation that senders leave to a device |
//! | [`vnet`] | the header that says so (`struct virtio_net_hdr`) |
//! | [`header`] | typed views and builders of headers, one file per protocol |
//! | [`checksum`] | the internet checksum, pseudo headers, RFC 1624 updates |
//! | [`mod@dissect`] | dissects a packet into [`FlowKeys`]; flow hashes |
//! | [`tunnel`] | [`Tunnel`]: encapsulation metadata, shared by reference |
//! | [`drop_reason`] | [`DropReason`]: one table of Linux's names |
//!
//! Every function that takes bytes accepts any bytes. On short or malformed input it returns
//! `None`, `false` or an error, and never panics.
//!
//! Only `arena`, `record`, `returned`, `depot`, `pool`, `packet`, `buffers`, `batch`, `list`
//! and `dissect::keys` contain unsafe code.
#![deny(unsafe_code)]

mod arena;
pub mod batch;
pub mod bpf;
pub mod buffers;
pub mod checksum;
pub mod conn;
mod copy;
mod depot;
pub mod dissect;
pub mod drop_reason;
pub mod edit;
pub mod gro;
pub mod header;
mod jhash;
pub mod list;
pub mod meta;
pub mod offload;
pub mod packet;
pub mod pool;
mod record;
mod returned;
pub mod tagged;
pub mod tunnel;
pub mod vnet;

pub use batch::{Batch, Drain};
pub use buffers::Buffers;
pub use conn::{Conn, ConnInfo};
pub use dissect::{FlowKeys, Used, dissect, dissect_frame, five_tuple_hash, flow_hash};
pub use drop_reason::{DropClass, DropReason};
pub use jhash::jhash2;
pub use list::List;
pub use packet::{
    Arrival, Flags, LongPackets, Meta, NodeType, Packet, PacketType, SegmentKind, Segments, VlanTag,
};
pub use pool::{Cache, Pool, PoolConfig};
pub use tunnel::Tunnel;
