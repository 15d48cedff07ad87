// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the classic pcap format (draft-ietf-opsawg-pcap).
//!
//! A file header of 24 bytes is followed by records: a header of 16 bytes and the frame. All
//! numbers are in the byte order of the machine that wrote the file. The time zone and accuracy
//! fields are ignored, as all readers do.

use super::input::Input;
use super::{ETHERNET, MAGIC_MICROS, MAGIC_NANOS, MAX_CAPTURED, Order, link};
use crate::{Direction, Frame, Result};

/// The first word of the modified pcap format that patched libpcaps wrote around 1999.
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;

/// The content of the file header.
#[derive(Debug)]
pub(super) struct Classic {
    order: Order,
    /// The unit of the second half of a time stamp, in nanoseconds.
    unit: u64,
    /// The length of the frame check sequence at the end of each frame, in bytes.
    fcs_len: u32,
    pub(super) link_type: u16,
}

impl Classic {
    /// Returns the byte order if these are the first bytes of a pcap file.
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
            _ => return Err(input.error(0, "the modified pcap format (a1b2cd34) is not supported")),
        };
        let header: [u8; 20] = input.array("the pcap file header")?;
        let version = (
            order.u16([header[0], header[1]]),
            order.u16([header[2], header[3]]),
        );
        if version.0 != 2 {
            let what = format!(
                "pcap version {}.{} is not supported, only 2 is",
                version.0, version.1
            );
            return Err(input.error(4, what));
        }
        // The low half is the link type. If bit 26 is set, the top four bits hold the length of the
        // frame check sequence in units of 2 bytes.
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
        // 2^32 seconds and 2^32 microseconds easily fit.
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

/// Removes the frame check sequence from `frame`, as far as it was captured.
pub(super) fn cut_check_sequence(frame: &mut Frame, fcs_len: u32) {
    frame.orig_len = frame.orig_len.saturating_sub(fcs_len);
    frame.data.truncate(frame.orig_len as usize);
}
