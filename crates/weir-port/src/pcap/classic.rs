// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads pcap, the classic format (draft-ietf-opsawg-pcap).
//!
//! A file header of 24 bytes, then records: 16 bytes of header and the frame. All numbers in the
//! byte order of the machine that wrote it. The time zone and accuracy fields are ignored, as
//! everybody does.

use super::input::Input;
use super::{ETHERNET, MAGIC_MICROS, MAGIC_NANOS, MAX_CAPTURED, Order, link};
use crate::{Direction, Frame, Result};

/// The first word of the modified pcap that patched libpcaps wrote around 1999.
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;

/// What the file header said.
#[derive(Debug)]
pub(super) struct Classic {
    order: Order,
    /// Nanoseconds in the unit of the stamps' second half.
    unit: u64,
    /// Bytes of frame check sequence at the end of each frame.
    fcs_len: u32,
    pub(super) link_type: u16,
}

impl Classic {
    /// Whether these are the first bytes of a pcap file, and of which byte order.
    pub(super) fn recognise(magic: [u8; 4]) -> Option<Order> {
        [Order::Little, Order::Big].into_iter().find(|order| {
            matches!(
                order.u32(magic),
                MAGIC_MICROS | MAGIC_NANOS | MAGIC_MODIFIED
            )
        })
    }

    /// Reads the rest of the file header after `magic`.
    pub(super) fn open(input: &mut Input, magic: [u8; 4], order: Order) -> Result<Classic> {
        let unit = match order.u32(magic) {
            MAGIC_NANOS => 1,
            MAGIC_MICROS => 1_000,
            _ => return Err(input.error(0, "the modified pcap format (a1b2cd34) is not read")),
        };
        let header: [u8; 20] = input.array("the pcap file header")?;
        let version = (
            order.u16([header[0], header[1]]),
            order.u16([header[2], header[3]]),
        );
        if version.0 != 2 {
            let what = format!(
                "pcap version {}.{} is not read, only 2 is",
                version.0, version.1
            );
            return Err(input.error(4, what));
        }
        // The low half is the link type; of the high half, bit 26 says that the length of the
        // frame check sequence, in units of 2 bytes, stands in the top four bits.
        let link = order.word(&header, 4);
        let fcs_len = if link & 0x0400_0000 == 0 {
            0
        } else {
            (link >> 28) * 2
        };
        let link_type = (link & 0xffff) as u16;
        if link_type != ETHERNET {
            return Err(input.error(20, link::refusal(link_type)));
        }
        Ok(Classic {
            order,
            unit,
            fcs_len,
            link_type,
        })
    }

    /// Reads one record.
    pub(super) fn read(&mut self, input: &mut Input, frame: &mut Frame) -> Result<bool> {
        if input.at_end()? {
            return Ok(false);
        }
        let start = input.offset();
        let header: [u8; 16] = input.array("the record header")?;
        let captured = self.order.word(&header, 2);
        if captured > MAX_CAPTURED {
            let what = format!("the record claims {captured} bytes, more than {MAX_CAPTURED}");
            return Err(input.error(start + 8, what));
        }
        input.replace(&mut frame.data, captured as usize, "the frame")?;
        let seconds = u64::from(self.order.word(&header, 0));
        // 2^32 seconds and 2^32 microseconds fit with room to spare.
        frame.time_ns =
            seconds * 1_000_000_000 + u64::from(self.order.word(&header, 1)) * self.unit;
        frame.orig_len = self.order.word(&header, 3).max(captured);
        frame.interface = 0;
        frame.direction = Direction::Unknown;
        frame.comment = None;
        cut_check_sequence(frame, self.fcs_len);
        Ok(true)
    }
}

/// Takes the frame check sequence off `frame`, as much of it as was captured.
pub(super) fn cut_check_sequence(frame: &mut Frame, fcs_len: u32) {
    frame.orig_len = frame.orig_len.saturating_sub(fcs_len);
    frame.data.truncate(frame.orig_len as usize);
}
