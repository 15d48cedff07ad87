// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of a qdisc: before the qdisc drops or marks a packet, the packet passes the filters of a
//! shared block.
//!
//! Mirrors `struct tcf_qevent` (net/sched/cls_api.c).

use std::sync::Arc;

use weir_netlink::errno::EINVAL;
use weir_netlink::{Error, Table, Writer};
use weir_packet::Packet;

use super::{Create, Enqueued, QueueCx, classify};
use crate::block::Block;

/// An event, with the block whose filters handle it, if any.
#[derive(Default)]
pub struct Event(Option<Arc<Block>>);

/// Returns the index of the block that an attribute requests, 0 for none
/// (`tcf_qevent_parse_block_index`).
pub fn index(tb: &Table<'_>, ty: u16) -> Result<u32, Error> {
    match tb.u32(ty)? {
        Some(0) => Err(Error::msg(EINVAL, "Block number may not be zero")),
        index => Ok(index.unwrap_or(0)),
    }
}

impl Event {
    /// Makes an event with the block of an index (`tcf_qevent_init`).
    pub fn new(index: u32, create: &Create<'_>) -> Self {
        Self((index != 0).then(|| create.env.net.own_block(index)))
    }

    /// Returns the block. The qdisc owns it.
    pub fn block(&self) -> Option<&Arc<Block>> {
        self.0.as_ref()
    }

    fn index(&self) -> u32 {
        self.0.as_ref().map_or(0, |block| block.index)
    }

    /// Refuses a request for another block than the current one (`tcf_qevent_validate_change`).
    pub fn validate(&self, tb: &Table<'_>, ty: u16) -> Result<(), Error> {
        match index(tb, ty)? {
            0 => Ok(()),
            index if index == self.index() => Ok(()),
            _ => Err(Error::msg(EINVAL, "Change of blocks is not supported")),
        }
    }

    /// Runs the filters on a packet and returns it. Returns an error if they consumed or dropped it
    /// (`tcf_qevent_handle`).
    pub fn handle(&self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Result<Packet, Enqueued> {
        let Some(block) = &self.0 else {
            return Ok(packet);
        };
        match classify(block, q, packet) {
            Ok((packet, _)) => Ok(packet),
            Err(Enqueued::Dropped) => Err(Enqueued::Congested),
            Err(ended) => Err(ended),
        }
    }

    /// Writes the index of the block (`tcf_qevent_dump`).
    pub fn dump(&self, ty: u16, w: &mut Writer) {
        if let Some(block) = &self.0 {
            w.put_u32(ty, block.index);
        }
    }
}
