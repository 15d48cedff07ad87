// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv4 options (RFC 791, RFC 1812 5.2.4, RFC 2113): iteration, validation, and the values that a
//! router records in them.
//!
//! Mirrors `ip_options_compile`, `ip_options_rcv_srr` (finding the next hop) and
//! `ip_forward_options` of net/ipv4/ip_options.c:
//! - [`options`] iterates over the options;
//! - [`compile`] validates a received header and writes the local address and the time where a
//!   record-route or time-stamp option has room, as Linux does on input;
//! - [`forward`] replaces the recorded address by that of the output device;
//! - [`Chosen`] are the options that a program chooses for its packets (`ip_options_get`, `ip_options_undo`), or those of
//!   an answer ([`echo`]), and [`send`] fills them in (`ip_options_build`).
//!
//! An error is the offset of the offending byte, for the pointer of an ICMP parameter problem. The
//! caller supplies addresses and times, and must update the header checksum if
//! [`Compiled::changed`] is set. Not implemented: forwarding along a source route (Linux refuses it
//! by default, `accept_source_route`), and CIPSO.

use super::ipv4::Ipv4;

/// End of the list.
pub const IPOPT_END: u8 = 0;
/// No operation.
pub const IPOPT_NOOP: u8 = 1;
/// Record route.
pub const IPOPT_RR: u8 = 7;
/// Time stamp.
pub const IPOPT_TIMESTAMP: u8 = 68;
/// Loose source route.
pub const IPOPT_LSRR: u8 = 131;
/// Strict source route.
pub const IPOPT_SSRR: u8 = 137;
/// Router alert.
pub const IPOPT_RA: u8 = 148;

/// Time stamps only.
const TS_ONLY: u8 = 0;
/// Addresses and time stamps.
const TS_AND_ADDR: u8 = 1;
/// Time stamps of the hosts listed in advance.
const TS_PRESPEC: u8 = 3;

/// One option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4Option<'a> {
    /// Type: copied flag (bit 7), class (2 bits), number (5 bits).
    pub kind: u8,
    /// The option's offset from the start of the IPv4 header, in bytes.
    pub at: usize,
    /// The bytes after type and length.
    pub body: &'a [u8],
}

impl Ipv4Option<'_> {
    /// Returns true if all fragments, not only the first, carry the option.
    pub fn copied(&self) -> bool {
        self.kind & 0x80 != 0
    }
}

/// The error of a truncated option: the offset of its type byte from the start of the IPv4 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CutOff(pub u8);

/// An iterator over the options of a complete header. An `Err` item is the last one.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    header: &'a [u8],
    at: usize,
}

/// Iterates over the options of a complete header (see [`super::ipv4::whole_header`]), except END
/// and NOOP.
pub fn options(header: &[u8]) -> Options<'_> {
    Options {
        header: header.get(..60).unwrap_or(header),
        at: Ipv4::LEN,
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Ipv4Option<'a>, CutOff>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = self.at;
            match *self.header.get(at)? {
                IPOPT_END => {
                    self.at = self.header.len();
                    return None;
                }
                IPOPT_NOOP => self.at += 1,
                kind => {
                    let len = self.header.get(at + 1).map(|l| usize::from(*l));
                    let body = len.and_then(|len| self.header.get(at + 2..at + len));
                    self.at = at + len.unwrap_or(0).max(2);
                    return Some(match body {
                        Some(body) => Ok(Ipv4Option { kind, at, body }),
                        None => {
                            self.at = self.header.len();
                            Err(CutOff(at as u8))
                        }
                    });
                }
            }
        }
    }
}

/// The options of a header, as offsets in bytes from the start of the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compiled {
    /// The source route.
    pub source_route: Option<u8>,
    /// True if the source route is strict.
    pub strict: bool,
    /// The record route.
    pub record_route: Option<u8>,
    /// True if the local address was recorded there, and forwarding must replace it by that of the
    /// output device.
    pub record_address: bool,
    /// The time stamp.
    pub timestamp: Option<u8>,
    /// The router alert with value 0.
    pub router_alert: Option<u8>,
    /// True if the header was modified.
    pub changed: bool,
}

/// The values to write into the options of a received packet.
pub struct Here<'a> {
    /// The address to record.
    pub address: [u8; 4],
    /// Milliseconds since midnight UT.
    pub time: u32,
    /// Returns true for a unicast destination elsewhere (not this host). A time stamp with
    /// addresses listed in advance skips such an address.
    pub elsewhere: &'a dyn Fn([u8; 4]) -> bool,
}

/// Validates the options of a received packet's complete header and fills them in. An error is the
/// pointer for the ICMP parameter problem; earlier options may have been filled in already.
pub fn compile(header: &mut [u8], here: &Here<'_>) -> Result<Compiled, u8> {
    let mut c = Compiled::default();
    let end = header.len().min(60);
    let mut at = Ipv4::LEN;
    while at < end {
        let (kind, len) = match header.get(at..end) {
            Some([IPOPT_END, rest @ ..]) => {
                c.changed |= rest.iter().any(|b| *b != IPOPT_END);
                if let Some(rest) = header.get_mut(at..end) {
                    rest.fill(IPOPT_END);
                }
                break;
            }
            Some([IPOPT_NOOP, ..]) => {
                at += 1;
                continue;
            }
            Some([kind, len, ..]) => (*kind, usize::from(*len)),
            _ => return Err(at as u8),
        };
        if len < 2 {
            return Err(at as u8);
        }
        let Some(option) = header.get_mut(at..end).and_then(|h| h.get_mut(..len)) else {
            return Err(at as u8);
        };
        let offset = at as u8;
        let bad = |byte: u8| offset + byte;
        match kind {
            IPOPT_SSRR | IPOPT_LSRR => {
                pointer(option, 4, offset)?;
                if c.source_route.is_some() {
                    return Err(offset);
                }
                (c.source_route, c.strict) = (Some(offset), kind == IPOPT_SSRR);
            }
            IPOPT_RR => {
                if c.record_route.is_some() {
                    return Err(offset);
                }
                let at = pointer(option, 4, offset)?;
                if at <= len {
                    let slot = option.get_mut(at - 1..at + 3).ok_or(bad(2))?;
                    slot.copy_from_slice(&here.address);
                    advance(option, 4);
                    (c.changed, c.record_address) = (true, true);
                }
                c.record_route = Some(offset);
            }
            IPOPT_TIMESTAMP => {
                if c.timestamp.is_some() {
                    return Err(offset);
                }
                if len < 4 {
                    return Err(bad(1));
                }
                c.changed |= stamp(option, offset, here)?;
                c.timestamp = Some(offset);
            }
            IPOPT_RA => {
                let Some(value) = option.get(2..4) else {
                    return Err(bad(1));
                };
                if value == [0, 0] {
                    c.router_alert = Some(offset);
                }
            }
            _ => {}
        }
        at += len;
    }
    Ok(c)
}

/// Returns the pointer of a routing option, which counts from 1 and is at least `least`.
fn pointer(option: &[u8], least: u8, offset: u8) -> Result<usize, u8> {
    match option.get(2) {
        None => Err(offset + 1),
        Some(p) if *p < least => Err(offset + 2),
        Some(p) => Ok(usize::from(*p)),
    }
}

fn advance(option: &mut [u8], by: u8) {
    if let Some(p) = option.get_mut(2) {
        *p = p.saturating_add(by);
    }
}

/// Processes a time-stamp option. Returns true if it was modified.
fn stamp(option: &mut [u8], offset: u8, here: &Here<'_>) -> Result<bool, u8> {
    let at = pointer(option, 5, offset)?;
    let flags = option.get(3).copied().unwrap_or(0);
    if at > option.len() {
        // No room is left: counts the hosts that could not add their time stamp.
        if flags & 15 != TS_PRESPEC {
            if flags >> 4 == 15 {
                return Err(offset + 3);
            }
            if let Some(f) = option.get_mut(3) {
                *f += 0x10;
            }
            return Ok(true);
        }
        return Ok(false);
    }
    let time = here.time.to_be_bytes();
    let short = offset + 2;
    if option.get(at - 1..at + 3).is_none() {
        return Err(short);
    }
    let step = match flags & 15 {
        TS_ONLY => {
            let slot = option.get_mut(at - 1..at + 3).ok_or(short)?;
            slot.copy_from_slice(&time);
            4
        }
        TS_AND_ADDR => {
            let slot = option.get_mut(at - 1..at + 7).ok_or(short)?;
            let (address, stamp) = slot.split_at_mut(4);
            address.copy_from_slice(&here.address);
            stamp.copy_from_slice(&time);
            8
        }
        TS_PRESPEC => {
            let slot = option.get_mut(at - 1..at + 7).ok_or(short)?;
            let (address, stamp) = slot.split_at_mut(4);
            let address: &[u8; 4] = address.first_chunk().ok_or(short)?;
            if (here.elsewhere)(*address) {
                return Ok(false);
            }
            stamp.copy_from_slice(&time);
            8
        }
        _ => return Ok(false),
    };
    advance(option, step);
    Ok(true)
}

/// Replaces the address that [`compile`] recorded by that of the output device, on forwarding
/// (`ip_forward_options`). Returns true if the header was modified.
pub fn forward(header: &mut [u8], c: &Compiled, address: [u8; 4]) -> bool {
    let Some(at) = c.record_route.filter(|_| c.record_address) else {
        return false;
    };
    let at = usize::from(at);
    let Some(pointer) = header.get(at + 2).map(|p| usize::from(*p)) else {
        return false;
    };
    // The pointer is behind the last recorded address, and counts from 1.
    let Some(from) = (at + pointer).checked_sub(5) else {
        return false;
    };
    match header.get_mut(from..from + 4) {
        Some(slot) => {
            slot.copy_from_slice(&address);
            true
        }
        None => false,
    }
}

/// The maximum length of the options of a header in bytes.
pub const MOST: usize = 40;

/// Options of packets that this host sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chosen {
    bytes: [u8; MOST],
    len: u8,
}

/// The reason why a program cannot have options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// They are too long or wrong.
    Invalid,
    /// They have a source route, which is not served.
    SourceRoute,
}

impl Chosen {
    /// Takes options, up to 40 bytes, and fills them up to a multiple of four bytes. What follows the end of the list,
    /// and the places that [`send`] will fill in first, become zero. For `elsewhere` see [`Here`].
    ///
    /// # Errors
    /// Those of [`compile`], and source routes.
    pub fn new(value: &[u8], elsewhere: &dyn Fn([u8; 4]) -> bool) -> Result<Self, Refused> {
        let len = value.len().next_multiple_of(4);
        let mut header = [0; Ipv4::LEN + MOST];
        let header = header.get_mut(..Ipv4::LEN + len).ok_or(Refused::Invalid)?;
        if let Some(place) = header.get_mut(Ipv4::LEN..Ipv4::LEN + value.len()) {
            place.copy_from_slice(value);
        }
        let here = Here {
            address: [0; 4],
            time: 0,
            elsewhere,
        };
        let compiled = compile(header, &here).map_err(|_| Refused::Invalid)?;
        if compiled.source_route.is_some() {
            return Err(Refused::SourceRoute);
        }
        // The pointers, and a time stamp's count, remain those of the program.
        for (option, len) in [(compiled.record_route, 1), (compiled.timestamp, 2)] {
            let Some(at) = option.map(|at| usize::from(at) + 2) else {
                continue;
            };
            let own = value.get(at - Ipv4::LEN..at - Ipv4::LEN + len);
            if let (Some(place), Some(own)) = (header.get_mut(at..at + len), own) {
                place.copy_from_slice(own);
            }
        }
        let mut chosen = Self {
            bytes: [0; MOST],
            len: len as u8,
        };
        let options = header.get(Ipv4::LEN..).unwrap_or_default();
        for (to, from) in chosen.bytes.iter_mut().zip(options) {
            *to = *from;
        }
        Ok(chosen)
    }

    /// Returns the options, a multiple of four bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len.into()).unwrap_or_default()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Returns the options of an answer to a received packet, whose complete header [`compile`] has been through: its record
/// route and its time stamp, in this order (`ip_options_echo`).
///
/// # Errors
/// CutOff if one of them has room, but not enough: Linux gives no answer.
pub fn echo(header: &[u8]) -> Result<Chosen, CutOff> {
    let mut chosen = Chosen {
        bytes: [0; MOST],
        len: 0,
    };
    let mut len = 0;
    for kind in [IPOPT_RR, IPOPT_TIMESTAMP] {
        let found = options(header).flatten().find(|option| option.kind == kind);
        let Some((option, end)) = found.map(|option| (option, option.at + 2 + option.body.len()))
        else {
            continue;
        };
        let bytes = header.get(option.at..end).unwrap_or_default();
        let pointer = bytes.get(2).map_or(0, |pointer| usize::from(*pointer));
        let needed = match (kind, option.body.get(1).map(|flags| flags & 15)) {
            (IPOPT_RR, _) | (_, Some(TS_ONLY)) => 4,
            (_, Some(TS_AND_ADDR)) => 8,
            _ => 0,
        };
        if pointer <= bytes.len() && pointer + needed > bytes.len() + 1 {
            return Err(CutOff(option.at as u8));
        }
        if let Some(place) = chosen.bytes.get_mut(len..len + bytes.len()) {
            place.copy_from_slice(bytes);
            len += bytes.len();
        }
    }
    chosen.len = len.next_multiple_of(4) as u8;
    Ok(chosen)
}

/// Fills in the options of a packet that this host sends, whose complete header has [`Chosen`] ones. Here,
/// unlike on receipt, a time stamp without room counts nothing.
pub fn send(header: &mut [u8], here: &Here<'_>) {
    let is_stamp = |option: &Ipv4Option<'_>| option.kind == IPOPT_TIMESTAMP;
    let stamp = options(header).flatten().find(is_stamp);
    let count = stamp.and_then(|stamp| Some((stamp.at + 3, *stamp.body.get(1)?)));
    // They have been checked.
    let _ = compile(header, here);
    if let Some((at, flags)) = count
        && let Some(place) = header.get_mut(at)
    {
        *place = flags;
    }
}

/// Turns options that are not copied into NOOP, for fragments other than the first
/// (`ip_options_fragment`). The header must have passed [`compile`].
pub fn fragment(header: &mut [u8]) {
    let end = header.len().min(60);
    let mut at = Ipv4::LEN;
    while at < end {
        let len = match header.get(at..end) {
            Some([IPOPT_NOOP, ..]) => 1,
            Some([kind, len, ..]) if *kind != IPOPT_END && *len >= 2 => {
                let len = usize::from(*len);
                if kind & 0x80 == 0 {
                    let stop = (at + len).min(end);
                    if let Some(option) = header.get_mut(at..stop) {
                        option.fill(IPOPT_NOOP);
                    }
                }
                len
            }
            _ => return,
        };
        at += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(options: &[u8]) -> Vec<u8> {
        let mut h = super::super::ipv4::ipv4([1; 4], [2; 4], 17, 9, 0, 0, 0, 0).to_vec();
        h.extend(options);
        h.resize(h.len().next_multiple_of(4), 0);
        h[0] = 0x40 + (h.len() / 4) as u8;
        h
    }

    fn run(options: &[u8]) -> (Vec<u8>, Result<Compiled, u8>) {
        let mut h = header(options);
        let here = Here {
            address: [9, 8, 7, 6],
            time: 0x0102_0304,
            elsewhere: &|a| a == [5; 4],
        };
        let r = compile(&mut h, &here);
        (h.split_off(20), r)
    }

    #[test]
    fn records_our_address_and_corrects_it() {
        let (o, r) = run(&[1, 7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(o, [1, 7, 11, 8, 9, 8, 7, 6, 0, 0, 0, 0]);
        let c = r.unwrap();
        assert_eq!(
            (c.record_route, c.record_address, c.changed),
            (Some(21), true, true)
        );
        let mut h = header(&o);
        assert!(forward(&mut h, &c, [3; 4]));
        assert_eq!(h[20..], [1, 7, 11, 8, 3, 3, 3, 3, 0, 0, 0, 0]);
        // A full option is left unchanged.
        let (o, r) = run(&[7, 7, 8, 1, 2, 3, 4]);
        assert_eq!(o[..7], [7, 7, 8, 1, 2, 3, 4]);
        let c = r.unwrap();
        assert!(!c.changed && !forward(&mut header(&o), &c, [3; 4]));
    }

    #[test]
    fn stamps() {
        let (o, _) = run(&[68, 8, 5, 0, 0, 0, 0, 0]);
        assert_eq!(o, [68, 8, 9, 0, 1, 2, 3, 4]);
        let (o, _) = run(&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(o, [68, 12, 13, 1, 9, 8, 7, 6, 1, 2, 3, 4]);
        let (o, r) = run(&[68, 12, 5, 3, 5, 5, 5, 5, 0, 0, 0, 0]);
        assert_eq!((o[2], r.map(|c| c.changed)), (5, Ok(false)));
        let (o, _) = run(&[68, 12, 5, 3, 4, 4, 4, 4, 0, 0, 0, 0]);
        assert_eq!(o, [68, 12, 13, 3, 4, 4, 4, 4, 1, 2, 3, 4]);
        let (o, r) = run(&[68, 4, 5, 0x20]);
        assert_eq!((o[3], r.map(|c| c.changed)), (0x30, Ok(true)));
        assert_eq!(run(&[68, 4, 5, 0xf1]).1, Err(23));
    }

    #[test]
    fn malformed_options_point_at_the_byte() {
        assert_eq!(run(&[1, 1, 1, 7]).1, Err(23), "no length");
        assert_eq!(run(&[7, 1, 0, 0]).1, Err(20), "length below 2");
        assert_eq!(run(&[1, 7, 40, 4]).1, Err(21), "longer than the header");
        assert_eq!(run(&[7, 2, 0, 0]).1, Err(21), "no pointer");
        assert_eq!(
            run(&[7, 7, 3, 0, 0, 0, 0, 0]).1,
            Err(22),
            "pointer too small"
        );
        assert_eq!(
            run(&[7, 7, 6, 0, 0, 0, 0, 0]).1,
            Err(22),
            "no room for an address"
        );
        assert_eq!(run(&[7, 3, 4, 7, 3, 4, 0, 0]).1, Err(23), "twice");
        assert_eq!(run(&[148, 3, 0, 0]).1, Err(21), "router alert too short");
        assert_eq!(
            run(&[137, 7, 4, 1, 2, 3, 4])
                .1
                .map(|c| (c.source_route, c.strict)),
            Ok((Some(20), true))
        );
        assert_eq!(run(&[148, 4, 0, 0]).1.map(|c| c.router_alert), Ok(Some(20)));
        let (o, r) = run(&[0, 5, 5, 5]);
        assert_eq!((o, r.map(|c| c.changed)), (vec![0; 4], Ok(true)));
    }

    #[test]
    fn walk_and_fragment() {
        let h = header(&[1, 148, 4, 0, 0, 7, 3, 4, 130]);
        let all: Vec<_> = options(&h).collect();
        assert_eq!(all.len(), 3);
        assert_eq!(
            all[0],
            Ok(Ipv4Option {
                kind: 148,
                at: 21,
                body: &[0, 0]
            })
        );
        assert_eq!(all[2], Err(CutOff(28)));
        let mut h = header(&[7, 3, 4, 148, 4, 0, 0, 0]);
        fragment(&mut h);
        assert_eq!(h[20..], [1, 1, 1, 148, 4, 0, 0, 0]);
    }

    #[test]
    fn a_program_chooses_options_that_can_be_sent() {
        let chosen = |value: &[u8]| Chosen::new(value, &|address| address == [9; 4]);
        assert_eq!(chosen(&[]).unwrap().bytes(), []);
        assert!(chosen(&[]).unwrap().is_empty());
        assert_eq!(chosen(&[IPOPT_NOOP; 41]), Err(Refused::Invalid));
        let route = [IPOPT_LSRR, 7, 4, 10, 0, 0, 1];
        assert_eq!(chosen(&route), Err(Refused::SourceRoute));
        let full = [IPOPT_TIMESTAMP, 8, 9, 0x10, 1, 2, 3, 4];
        assert_eq!(chosen(&full).unwrap().bytes(), full);
        let mut header = [[0x47; Ipv4::LEN].as_slice(), &full].concat();
        let here = Here {
            address: [10, 0, 0, 1],
            time: 0x0102_0304,
            elsewhere: &|_| false,
        };
        send(&mut header, &here);
        assert_eq!(header[Ipv4::LEN..], full);
        let room = chosen(&[IPOPT_RR, 7, 4, 1, 2, 3, 4]).unwrap();
        assert_eq!(room.bytes(), [IPOPT_RR, 7, 4, 0, 0, 0, 0, 0]);
        let mut header = [[0x47; Ipv4::LEN].as_slice(), room.bytes()].concat();
        send(&mut header, &here);
        assert_eq!(header[Ipv4::LEN..], [IPOPT_RR, 7, 8, 10, 0, 0, 1, 0]);
    }
}
