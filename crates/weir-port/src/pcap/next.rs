// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads pcapng (draft-ietf-opsawg-pcapng).
//!
//! A file is a sequence of blocks: type, total length, body, and the total length again, in
//! multiples of four bytes. A section header sets the byte order and restarts the interface
//! numbers.

use super::classic::cut_check_sequence;
use super::input::Input;
use super::reader::Interface;
use super::{ETHERNET, MAX_CAPTURED, Order, SECTION_HEADER, SECTION_ORDER, link};
use crate::{Direction, Error, Frame, Result};

const INTERFACE: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// The maximum number of interfaces, so that a damaged file cannot exhaust the memory.
const MAX_INTERFACES: usize = 65_536;

/// The state of the reader in a pcapng file.
#[derive(Debug)]
pub(super) struct Next {
    order: Order,
    /// The index of this section's first interface in the list of all interfaces.
    first: usize,
    /// The stamp of the previous frame, for packets without one.
    time_ns: u64,
}

/// The time stamp format of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamps {
    /// `if_tsresol`: units of 10^-n seconds, or of 2^-n if the top bit is set.
    resolution: u8,
    /// `if_tsoffset`: seconds to add.
    offset: i64,
}

impl Default for Stamps {
    fn default() -> Stamps {
        Stamps {
            resolution: 6,
            offset: 0,
        }
    }
}

impl Stamps {
    /// Returns nanoseconds since 1970, or `None` if they do not fit.
    fn nanoseconds(self, stamp: u64) -> Option<u64> {
        let stamp = u128::from(stamp);
        let exponent = u32::from(self.resolution & 0x7f);
        let nanoseconds = if self.resolution & 0x80 != 0 {
            // Below 2^94, and the shift is below 128.
            (stamp * 1_000_000_000) >> exponent
        } else if exponent <= 9 {
            stamp * 10_u128.pow(9 - exponent)
        } else {
            // Divided by more than 10^38, a 64-bit stamp becomes 0.
            10_u128
                .checked_pow(exponent - 9)
                .map_or(0, |unit| stamp / unit)
        };
        let offset = i128::from(self.offset) * 1_000_000_000;
        u64::try_from(i128::try_from(nanoseconds).ok()? + offset).ok()
    }
}

impl Next {
    /// Reads the first section header after `magic`.
    pub(super) fn open(input: &mut Input) -> Result<Next> {
        let mut next = Next {
            order: Order::Little,
            first: 0,
            time_ns: 0,
        };
        next.section(input, 0, 0)?;
        Ok(next)
    }

    /// Reads blocks until one holds a frame.
    pub(super) fn read(
        &mut self,
        input: &mut Input,
        interfaces: &mut Vec<Interface>,
        frame: &mut Frame,
    ) -> Result<bool> {
        loop {
            if input.at_end()? {
                return Ok(false);
            }
            let start = input.offset();
            let kind = self.order.u32(input.array("the block type")?);
            if kind == SECTION_HEADER {
                self.section(input, start, interfaces.len())?;
                continue;
            }
            let total = self.order.u32(input.array("the block length")?);
            let mut block = Block::new(input, self.order, name(kind), start, total, 8)?;
            let found = match kind {
                INTERFACE => {
                    if interfaces.len() >= MAX_INTERFACES {
                        let what = format!("more than {MAX_INTERFACES} interfaces");
                        return Err(block.input.error(start, what));
                    }
                    interfaces.push(interface(&mut block)?);
                    false
                }
                ENHANCED_PACKET | PACKET => {
                    self.packet(&mut block, interfaces, frame, kind)?;
                    true
                }
                SIMPLE_PACKET => {
                    self.simple(&mut block, interfaces, frame)?;
                    true
                }
                _ => false,
            };
            block.end()?;
            if found {
                self.time_ns = frame.time_ns;
                return Ok(true);
            }
        }
    }

    /// Reads a section header, whose type has been read.
    fn section(&mut self, input: &mut Input, start: u64, first: usize) -> Result<()> {
        let total: [u8; 4] = input.array("the block length")?;
        let order: [u8; 4] = input.array("the byte-order magic")?;
        let order = [Order::Little, Order::Big]
            .into_iter()
            .find(|candidate| candidate.u32(order) == SECTION_ORDER)
            .ok_or_else(|| {
                let [a, b, c, d] = order;
                let what = format!("{a:02x}{b:02x}{c:02x}{d:02x} is not a byte-order magic");
                input.error(start + 8, what)
            })?;
        let mut block = Block::new(input, order, "section header", start, order.u32(total), 12)?;
        let [a, b, c, d]: [u8; 4] = block.array("version")?;
        let version = (order.u16([a, b]), order.u16([c, d]));
        if version.0 != 1 {
            let what = format!(
                "pcapng version {}.{} is not supported, only 1 is",
                version.0, version.1
            );
            return Err(block.input.error(start + 12, what));
        }
        let _section_length: [u8; 8] = block.array("section length")?;
        block.end()?;
        self.order = order;
        self.first = first;
        Ok(())
    }

    /// Reads an enhanced packet block or a packet block, its predecessor.
    fn packet(
        &mut self,
        block: &mut Block<'_>,
        interfaces: &[Interface],
        frame: &mut Frame,
        kind: u32,
    ) -> Result<()> {
        let order = self.order;
        let header: [u8; 20] = block.array("header")?;
        let number = match kind {
            PACKET => u32::from(order.u16([header[0], header[1]])),
            _ => order.word(&header, 0),
        };
        let (index, interface) = self.interface(block, interfaces, number)?;
        let stamp = u64::from(order.word(&header, 1)) << 32 | u64::from(order.word(&header, 2));
        let captured = order.word(&header, 3);
        frame.time_ns = interface.stamps.nanoseconds(stamp).ok_or_else(|| {
            let what = format!("time stamp {stamp} does not fit 64 bits of nanoseconds since 1970");
            block.input.error(block.start + 12, what)
        })?;
        frame.interface = index;
        frame.orig_len = order.word(&header, 4).max(captured);
        frame.direction = Direction::Unknown;
        frame.comment = None;
        block.data(&mut frame.data, captured, block.start + 20)?;
        block.options(|code, value| match (code, value) {
            (1, text) => {
                let text = String::from_utf8_lossy(text);
                match &mut frame.comment {
                    Some(comment) => {
                        comment.push('\n');
                        comment.push_str(&text);
                    }
                    none => *none = Some(text.into_owned()),
                }
            }
            (2, &[a, b, c, d]) => {
                frame.direction = match order.u32([a, b, c, d]) & 3 {
                    1 => Direction::In,
                    2 => Direction::Out,
                    _ => Direction::Unknown,
                }
            }
            _ => {}
        })?;
        cut_check_sequence(frame, interface.fcs_len);
        Ok(())
    }

    fn simple(
        &mut self,
        block: &mut Block<'_>,
        interfaces: &[Interface],
        frame: &mut Frame,
    ) -> Result<()> {
        let orig_len = self.order.u32(block.array("original length")?);
        let (index, interface) = self.interface(block, interfaces, 0)?;
        let captured = match interface.snapshot_len {
            0 => orig_len,
            limit => orig_len.min(limit),
        };
        frame.time_ns = self.time_ns;
        frame.interface = index;
        frame.orig_len = orig_len;
        frame.direction = Direction::Unknown;
        frame.comment = None;
        block.data(&mut frame.data, captured, block.start + 8)?;
        cut_check_sequence(frame, interface.fcs_len);
        Ok(())
    }

    /// Returns this section's interface `number` and its index in the whole file.
    fn interface<'a>(
        &self,
        block: &Block<'_>,
        interfaces: &'a [Interface],
        number: u32,
    ) -> Result<(u32, &'a Interface)> {
        let index = usize::try_from(number)
            .ok()
            .and_then(|number| self.first.checked_add(number));
        let Some((index, interface)) = index.and_then(|i| Some((i, interfaces.get(i)?))) else {
            let there = interfaces.len() - self.first;
            let what =
                format!("interface {number} is not described; the section describes {there}");
            return Err(block.input.error(block.start + 8, what));
        };
        if interface.link_type != ETHERNET {
            return Err(block
                .input
                .error(block.start, link::refusal(interface.link_type)));
        }
        // There are at most `MAX_INTERFACES`.
        Ok((index as u32, interface))
    }
}

/// Reads an interface description block.
fn interface(block: &mut Block<'_>) -> Result<Interface> {
    let order = block.order;
    let header: [u8; 8] = block.array("header")?;
    let mut interface = Interface {
        name: None,
        link_type: order.u16([header[0], header[1]]),
        snapshot_len: order.word(&header, 1),
        fcs_len: 0,
        stamps: Stamps::default(),
    };
    block.options(|code, value| match (code, value) {
        (2, name) => interface.name = Some(String::from_utf8_lossy(name).into_owned()),
        (9, &[resolution]) => interface.stamps.resolution = resolution,
        (13, &[len]) => interface.fcs_len = u32::from(len),
        (14, value) => {
            if let Ok(value) = value.try_into() {
                interface.stamps.offset = order.u64(value).cast_signed();
            }
        }
        _ => {}
    })?;
    Ok(interface)
}

/// Returns the name of a block type for error messages.
fn name(kind: u32) -> &'static str {
    match kind {
        INTERFACE => "interface description",
        PACKET => "packet block",
        SIMPLE_PACKET => "simple packet",
        4 => "name resolution",
        5 => "interface statistics",
        ENHANCED_PACKET => "enhanced packet",
        10 => "decryption secrets",
        _ => "block",
    }
}

/// A block being read. It never reads beyond its body.
struct Block<'a> {
    input: &'a mut Input,
    order: Order,
    name: &'static str,
    start: u64,
    total: u32,
    /// Bytes of the body not read yet.
    left: u32,
}

impl<'a> Block<'a> {
    /// Creates a block of `total` bytes, `done` of which have been read.
    fn new(
        input: &'a mut Input,
        order: Order,
        name: &'static str,
        start: u64,
        total: u32,
        done: u32,
    ) -> Result<Block<'a>> {
        let left = total
            .checked_sub(done + 4)
            .filter(|_| total.is_multiple_of(4));
        let Some(left) = left else {
            let what = if total.is_multiple_of(4) {
                "too short"
            } else {
                "not a multiple of 4"
            };
            return Err(input.error(start + 4, format!("{name} length {total} is {what}")));
        };
        Ok(Block {
            input,
            order,
            name,
            start,
            total,
            left,
        })
    }

    /// Claims `len` bytes of the body for `what`.
    fn claim(&mut self, len: u32, what: &str) -> Result<()> {
        match self.left.checked_sub(len) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                let Block {
                    name, total, left, ..
                } = *self;
                let what = format!(
                    "{name} of {total} bytes has no room for its {what}: {len} bytes, {left} left"
                );
                Err(self.fail(what))
            }
        }
    }

    fn fail(&self, what: String) -> Error {
        self.input.error(self.input.offset(), what)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        self.claim(N as u32, what)?;
        let mut bytes = [0; N];
        self.input.exact(&mut bytes, self.name)?;
        Ok(bytes)
    }

    /// Reads a frame of `len` bytes and its padding. `field` is the offset of the length field.
    fn data(&mut self, data: &mut Vec<u8>, len: u32, field: u64) -> Result<()> {
        if len > MAX_CAPTURED {
            let what = format!("{} claims {len} bytes, more than {MAX_CAPTURED}", self.name);
            return Err(self.input.error(field, what));
        }
        self.claim(len, "frame")?;
        self.input.replace(data, len as usize, "the frame")?;
        self.pad(len)
    }

    /// Skips the padding after `len` bytes, up to a multiple of four. A last field without its
    /// padding is accepted.
    fn pad(&mut self, len: u32) -> Result<()> {
        let pad = (len.wrapping_neg() & 3).min(self.left);
        self.left -= pad;
        self.input.skip(u64::from(pad), "the padding")
    }

    /// Calls `visit` with the code and value of each option.
    fn options(&mut self, mut visit: impl FnMut(u16, &[u8])) -> Result<()> {
        let mut value = Vec::new();
        while self.left > 0 {
            let [a, b, c, d]: [u8; 4] = self.array("option header")?;
            let (code, len) = (self.order.u16([a, b]), self.order.u16([c, d]));
            if code == 0 {
                return Ok(());
            }
            self.claim(u32::from(len), "option")?;
            self.input
                .replace(&mut value, usize::from(len), "the option")?;
            self.pad(u32::from(len))?;
            visit(code, &value);
        }
        Ok(())
    }

    /// Skips the rest of the body and checks the length after it.
    fn end(self) -> Result<()> {
        self.input.skip(u64::from(self.left), self.name)?;
        let offset = self.input.offset();
        let again = self
            .order
            .u32(self.input.array("the trailing block length")?);
        if again != self.total {
            let Block { name, total, .. } = self;
            let what = format!("{name} ends with length {again}, but it began with {total}");
            return Err(self.input.error(offset, what));
        }
        Ok(())
    }
}
