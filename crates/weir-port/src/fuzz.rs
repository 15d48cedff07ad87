// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parsers of what the kernel hands to ports, for the fuzz target `port`: fuzzing cannot open the devices.

use std::collections::VecDeque;

use weir_packet::{Batch, Cache};

use crate::af_packet;
use crate::port::Counters;
use crate::vnet::{self, Header, Out};

/// Received packets and the counters of the others.
#[derive(Debug, Default)]
pub struct Received {
    /// The first batch.
    pub batch: Batch,
    /// Those that did not fit.
    pub waiting: VecDeque<weir_packet::Packet>,
    /// Frames lost.
    pub counters: Counters,
}

/// Delivers a frame behind the header of its offloads (10 bytes), as TAP devices do.
pub fn tap(bytes: &[u8], memory: &mut Cache, received: &mut Received) {
    let Some((header, frame)) = bytes.split_first_chunk::<{ vnet::LEN }>() else {
        return;
    };
    let mut out = Out {
        batch: &mut received.batch,
        waiting: &mut received.waiting,
    };
    let header = Header::parse(*header);
    vnet::deliver(header, frame, None, memory, &mut out, &received.counters);
}

/// Delivers the frames of a block of a receive ring (`TPACKET_V3`).
pub fn block(block: &[u8], memory: &mut Cache, received: &mut Received) {
    af_packet::each_frame(block, |frame| {
        let mut out = Out {
            batch: &mut received.batch,
            waiting: &mut received.waiting,
        };
        let (header, tag) = (frame.header, frame.tag);
        vnet::deliver(
            header,
            frame.data,
            tag,
            memory,
            &mut out,
            &received.counters,
        );
    });
}
