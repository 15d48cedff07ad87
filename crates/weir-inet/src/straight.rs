// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The straight way of a whole batch through a router: what IPv4 and IPv6 have in common.
//!
//! The protocols plan the way of each packet without changing anything. Then they edit the packets and
//! send them as planned.

use std::sync::Arc;

use weir_packet::{Batch, List};

use crate::cpu::Cx;
use crate::device::{Device, Mac};
use crate::neigh::{self, Neighbour};

/// The most devices that the packets of a batch may leave by.
const DEVICES: usize = 4;

/// The ways of the packets of a batch, in their order.
pub(crate) struct Plan<'g> {
    pub ways: List<Way<'g>>,
    pub exits: Exits<'g>,
}

/// The way of a packet.
#[derive(Clone, Copy)]
pub(crate) struct Way<'g> {
    /// The next hop's entry and link-layer address.
    pub to: (&'g Neighbour, Mac),
    /// The place of its device in the plan's `exits`.
    pub place: u8,
    /// The longest packet that may go there, in bytes.
    pub mtu: u32,
}

/// The devices that packets leave by, in order of first use.
#[derive(Default)]
pub(crate) struct Exits<'g>([Option<&'g Arc<Device>>; DEVICES]);

impl<'g> Exits<'g> {
    /// Gives a device its place. Returns `None` if there are too many devices.
    #[inline]
    pub fn place(&mut self, device: &'g Arc<Device>) -> Option<u8> {
        let mut places = self.0.iter();
        let place = places.position(|slot| slot.is_none_or(|slot| Arc::ptr_eq(slot, device)))?;
        *self.0.get_mut(place)? = Some(device);
        Some(place as u8)
    }
}

impl Plan<'_> {
    /// Returns a plan for no packet.
    #[inline]
    pub fn new() -> Self {
        Self {
            ways: List::new(),
            exits: Exits::default(),
        }
    }

    /// Sends the packets of an EtherType as planned and leaves the batch empty. `leave` is called with those of each device
    /// before they are sent.
    #[inline]
    pub fn send(
        &self,
        cx: &mut Cx<'_>,
        protocol: u16,
        batch: &mut Batch,
        mut leave: impl FnMut(&mut Cx<'_>, &Arc<Device>, &mut Batch),
    ) {
        let Exits(devices) = &self.exits;
        if let [Some(device), None, ..] = devices {
            leave(cx, device, batch);
            let to = self.ways.iter().map(|way| way.to);
            return neigh::output_to(cx, device, protocol, to, batch);
        }
        let mut parts: [Batch; DEVICES] = std::array::from_fn(|_| Batch::new());
        let mut to: [_; DEVICES] = std::array::from_fn(|_| List::new());
        for (packet, way) in batch.drain().zip(self.ways.iter()) {
            let place = usize::from(way.place);
            if let (Some(part), Some(to)) = (parts.get_mut(place), to.get_mut(place)) {
                to.push(way.to);
                // There is room: the part is no larger than the batch it is taken from.
                let _ = part.push(packet);
            }
        }
        let parts = parts.iter_mut().zip(&to);
        for (device, (part, to)) in devices.iter().flatten().zip(parts) {
            leave(cx, device, part);
            neigh::output_to(cx, device, protocol, to.iter().copied(), part);
        }
    }
}
