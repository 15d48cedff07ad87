// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets through the action, in the order and with the times that a network has.

mod flow;
mod nat;
mod table;
mod tcp;

use std::sync::Arc;

use weir_packet::header::ipv4::ipv4;
use weir_packet::header::transport::{fill_check_v4, tcp as tcp_header, udp as udp_header};
use weir_packet::{ConnInfo, Packet, Pool, PoolConfig};

use crate::action::{Action, Cx, Done};
use crate::connection::Snapshot;
use crate::conntrack::Conntrack;
use crate::settings::Settings;
use crate::tuple::{Direction, Family, TCP, Tuple, UDP};

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const CLIENT: [u8; 4] = [10, 0, 0, 1];
pub(crate) const SERVER: [u8; 4] = [192, 0, 2, 80];

/// A commit without anything else.
pub(crate) const COMMIT: Action = Action {
    commit: true,
    force: false,
    nat: None,
    zone: 0,
    mark: (0, 0),
    labels: ([0; 16], [0; 16]),
};

/// A table with a clock.
pub(crate) struct Bench {
    pub(crate) table: Conntrack,
    pub(crate) settings: Arc<Settings>,
    pub(crate) now: u64,
    pool: Pool,
    draws: u32,
}

/// The bytes of an IPv4 packet.
pub(crate) fn packet_v4(src: [u8; 4], dst: [u8; 4], protocol: u8, segment: &[u8]) -> Vec<u8> {
    let mut bytes = ipv4(src, dst, protocol, 64, 0, 1, 0, segment.len()).to_vec();
    bytes.extend_from_slice(segment);
    bytes
}

/// The bytes of a UDP packet.
pub(crate) fn udp(src: [u8; 4], dst: [u8; 4], ports: (u16, u16), data: &[u8]) -> Vec<u8> {
    let mut segment = udp_header(ports.0, ports.1, data.len()).to_vec();
    segment.extend_from_slice(data);
    assert!(fill_check_v4(src, dst, UDP, &mut segment));
    packet_v4(src, dst, UDP, &segment)
}

/// A TCP segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seg<'a> {
    pub(crate) flags: u16,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u16,
    pub(crate) options: &'a [u8],
    pub(crate) len: usize,
}

/// The bytes of a TCP packet.
pub(crate) fn tcp(src: [u8; 4], dst: [u8; 4], ports: (u16, u16), seg: Seg<'_>) -> Vec<u8> {
    let mut segment = tcp_header(ports.0, ports.1, seg.seq, seg.ack, seg.flags).to_vec();
    segment[14..16].copy_from_slice(&seg.window.to_be_bytes());
    segment.extend_from_slice(seg.options);
    segment[12] = ((segment.len() / 4) << 4) as u8;
    segment.resize(segment.len() + seg.len, 0x55);
    segment[16..18].fill(0);
    assert!(fill_check_v4(src, dst, TCP, &mut segment));
    packet_v4(src, dst, TCP, &segment)
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let settings = Arc::new(settings);
        Self {
            table: Conntrack::new(&settings, 7).unwrap(),
            settings,
            now: 1000 * SECOND,
            pool: Pool::new(PoolConfig::default()),
            draws: 0,
        }
    }

    pub(crate) fn packet(&self, bytes: &[u8]) -> Packet {
        let mut packet = self.pool.packet(bytes).unwrap();
        packet.set_network(0);
        packet.protocol = if bytes[0] >> 4 == 6 { 0x86dd } else { 0x0800 };
        packet
    }

    /// Runs the action on a packet.
    pub(crate) fn act(&mut self, packet: &mut Packet, action: &Action) -> Done {
        let family = match packet.protocol {
            0x86dd => Family::V6,
            _ => Family::V4,
        };
        let mut draws = self.draws;
        let mut random = || {
            draws = draws.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            draws >> 8
        };
        let done = self.table.act(
            packet,
            action,
            &mut Cx {
                now: self.now,
                hook: 3,
                family: Some(family),
                random: &mut random,
            },
        );
        self.draws = draws;
        done
    }

    /// Runs the action on the packet with these bytes. Returns the bytes afterwards and the state.
    pub(crate) fn run(
        &mut self,
        bytes: &[u8],
        action: &Action,
    ) -> Result<(Vec<u8>, ConnInfo), Done> {
        let mut packet = self.packet(bytes);
        match self.act(&mut packet, action) {
            Done::Pass => Ok((packet.data().to_vec(), packet.conn().unwrap().info)),
            dropped => Err(dropped),
        }
    }

    /// Returns the state that the action gives the packet with these bytes.
    pub(crate) fn info(&mut self, bytes: &[u8], action: &Action) -> ConnInfo {
        self.run(bytes, action).unwrap().1
    }

    /// Returns the connection with a tuple.
    pub(crate) fn get(&self, tuple: &Tuple) -> Option<(Snapshot, Direction)> {
        let (handle, direction) = self.table.find(tuple, 0, self.now)?;
        Some((self.table.snapshot(handle, self.now)?, direction))
    }
}
