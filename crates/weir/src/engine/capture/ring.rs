// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A capture in real time: the CPUs copy frames into rings that they share with the client
//! ([`weir_port::ring`]).

use weir_packet::tagged::Tagged;
use weir_port::ring::{Meta, Pieces, Producer, What};
use weir_stack::device::{Direction, Observer, Tap, Taps};
use weir_stack::drops::{DropObserver, Dropped};

use super::Wanted;

/// One capture.
pub struct Shared {
    /// The rings.
    pub producer: Producer,
    /// What is captured.
    pub wanted: Wanted,
    /// The time of the stack's clock 0, in nanoseconds since 1970.
    pub epoch_ns: u64,
}

impl Observer for Shared {
    /// Not called, because [`frames`](Self::frames) is.
    fn frame(&self, _: &Tap<'_>) {}

    fn frames(&self, taps: &Taps<'_>) {
        if self.producer.is_gone() || !self.wanted.is_in(taps.device, taps.guard) {
            return;
        }
        let meta = Meta {
            time_ns: self.epoch_ns + taps.time,
            device: taps.device.key.0,
            what: match taps.direction {
                Direction::Rx => What::Received,
                Direction::Tx => What::Sent,
            },
        };
        for packet in taps.packets {
            let frame = Tagged::of(packet, taps.device.framing());
            if self.wanted.accepts(&frame) {
                self.producer.push(taps.cpu, meta, Pieces(frame.pieces()));
            }
        }
        self.producer.publish(taps.cpu);
    }
}

impl DropObserver for Shared {
    fn dropped(&self, dropped: &Dropped<'_>) {
        if self.producer.is_gone() || !self.wanted.is_in(dropped.device, dropped.guard) {
            return;
        }
        let frame = Tagged::whole(dropped.packet, dropped.device.framing());
        if self.wanted.accepts(&frame) {
            let meta = Meta {
                time_ns: self.epoch_ns + dropped.time,
                device: dropped.device.key.0,
                // There are fewer places and reasons than 65,536.
                what: What::Dropped(dropped.place as u16, dropped.reason as u16),
            };
            let pieces = Pieces(frame.pieces());
            self.producer.push(dropped.cpu, meta, pieces);
            self.producer.publish(dropped.cpu);
        }
    }
}
