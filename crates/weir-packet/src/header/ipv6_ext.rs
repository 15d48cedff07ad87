// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv6 extension headers and their options (RFC 8200, 4; RFC 2711; RFC 2675).
//!
//! [`extensions`] iterates over the extension headers up to the upper layer. [`check_options`]
//! validates a hop-by-hop or destination options header as `ip6_parse_tlv` (net/ipv6/exthdrs.c)
//! does: padding is at most 7 zero bytes, unknown options are handled according to their two
//! highest bits, and the number of options is limited (`max_hbh_opts_number`, 8 by default).

use super::ipv6::{
    Fragment, Ipv6, NEXTHDR_AUTH, NEXTHDR_FRAGMENT, NEXTHDR_HOP, NEXTHDR_NONE, is_extension,
};

/// Option: one byte of padding.
pub const IPV6_TLV_PAD1: u8 = 0;
/// Option: padding.
pub const IPV6_TLV_PADN: u8 = 1;
/// Option: router alert.
pub const IPV6_TLV_ROUTERALERT: u8 = 5;
/// Option: jumbo payload length.
pub const IPV6_TLV_JUMBO: u8 = 194;

/// One extension header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extension<'a> {
    /// The header's own number, such as 44 for a fragment header.
    pub kind: u8,
    /// The number of the next header.
    pub next: u8,
    /// The header's offset from the start of the IPv6 header, in bytes.
    pub at: usize,
    /// The header's bytes, from the next-header byte on.
    pub bytes: &'a [u8],
}

/// The error of a truncated extension header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CutOff {
    /// The header's offset from the start of the IPv6 header, in bytes.
    pub at: usize,
}

/// An iterator over extension headers. An `Err` item is the last one. It ends after the fragment
/// header of a fragment other than the first, because no header follows there.
#[derive(Clone, Debug)]
pub struct Extensions<'a> {
    packet: &'a [u8],
    kind: u8,
    at: usize,
    done: bool,
}

/// Iterates over the extension headers of an IPv6 packet. Returns none if there is no complete IPv6
/// header.
pub fn extensions(packet: &[u8]) -> Extensions<'_> {
    let first = Ipv6::new(packet).map(|h| h.next_header());
    Extensions {
        packet,
        kind: first.unwrap_or(NEXTHDR_NONE),
        at: Ipv6::LEN,
        done: first.is_none(),
    }
}

impl Extensions<'_> {
    /// Returns the upper-layer protocol and its offset from the start of the IPv6 header in bytes,
    /// after the iteration.
    pub fn upper(&self) -> (u8, usize) {
        (self.kind, self.at)
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<Extension<'a>, CutOff>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done || !is_extension(self.kind) || self.kind == NEXTHDR_NONE {
            return None;
        }
        let (kind, at) = (self.kind, self.at);
        let rest = self.packet.get(at..).unwrap_or_default();
        let found = rest.first_chunk::<2>().and_then(|[next, len]| {
            let bytes = match kind {
                NEXTHDR_FRAGMENT => Fragment::LEN,
                NEXTHDR_AUTH => (usize::from(*len) + 2) * 4,
                _ => (usize::from(*len) + 1) * 8,
            };
            Some((*next, rest.get(..bytes)?))
        });
        let Some((next, bytes)) = found else {
            self.done = true;
            return Some(Err(CutOff { at }));
        };
        if kind == NEXTHDR_FRAGMENT {
            self.done = Fragment::new(bytes).is_some_and(|f| f.offset() != 0);
        }
        (self.kind, self.at) = (next, at + bytes.len());
        Some(Ok(Extension {
            kind,
            next,
            at,
            bytes,
        }))
    }
}

/// One option of a hop-by-hop or destination options header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tlv<'a> {
    /// Type. Its two highest bits specify how to treat it when it is unknown.
    pub kind: u8,
    /// The option's offset from the start of the extension header, in bytes.
    pub at: usize,
    /// The bytes after type and length.
    pub body: &'a [u8],
}

/// The treatment of a packet with an unknown or invalid option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionError {
    /// Drops the packet silently: malformed padding, length, or number of options.
    Malformed,
    /// Drops the packet silently, as the option's highest bits (01) require.
    Discard,
    /// Drops the packet and sends a parameter problem.
    Problem {
        /// ICMPv6 code of the parameter problem.
        code: u8,
        /// Bytes from the start of the extension header.
        at: usize,
        /// Sends no error for a multicast destination (bits 11).
        not_multicast: bool,
    },
}

/// The options found in a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OptionSummary {
    /// The value of the router alert (RFC 2711).
    pub router_alert: Option<u16>,
    /// The jumbo payload length (RFC 2675), in bytes.
    pub jumbo: Option<u32>,
}

/// Validates the options of a hop-by-hop header (`hop` is true) or a destination options header,
/// which starts with its next-header byte. Allows at most `max` options other than padding.
pub fn check_options(header: &[u8], hop: bool, max: usize) -> Result<OptionSummary, OptionError> {
    let mut summary = OptionSummary::default();
    let mut count = 0;
    let mut padding = 0;
    for tlv in tlvs(header) {
        let tlv = tlv?;
        match tlv.kind {
            IPV6_TLV_PAD1 => padding += 1,
            IPV6_TLV_PADN => {
                padding += tlv.body.len() + 2;
                if tlv.body.iter().any(|b| *b != 0) {
                    return Err(OptionError::Malformed);
                }
            }
            kind => {
                padding = 0;
                count += 1;
                if count > max {
                    return Err(OptionError::Malformed);
                }
                match kind {
                    IPV6_TLV_ROUTERALERT if hop => {
                        let Ok(value) = <[u8; 2]>::try_from(tlv.body) else {
                            return Err(OptionError::Malformed);
                        };
                        summary.router_alert = Some(u16::from_be_bytes(value));
                    }
                    IPV6_TLV_JUMBO if hop => {
                        // RFC 2675, 3: aligned to 4n + 2, and longer than 65,535 bytes.
                        let body = <[u8; 4]>::try_from(tlv.body);
                        let Some(len) = body.ok().filter(|_| tlv.at & 3 == 2) else {
                            return Err(OptionError::Malformed);
                        };
                        let len = u32::from_be_bytes(len);
                        if len <= 0xffff {
                            return Err(problem(0, tlv.at + 2));
                        }
                        summary.jumbo = Some(len);
                    }
                    _ => match kind >> 6 {
                        0 => {}
                        1 => return Err(OptionError::Discard),
                        bits => {
                            return Err(OptionError::Problem {
                                code: 2,
                                at: tlv.at,
                                not_multicast: bits == 3,
                            });
                        }
                    },
                }
            }
        }
        if padding > 7 {
            return Err(OptionError::Malformed);
        }
    }
    Ok(summary)
}

fn problem(code: u8, at: usize) -> OptionError {
    OptionError::Problem {
        code,
        at,
        not_multicast: false,
    }
}

/// Iterates over the options of a hop-by-hop or destination options header, which starts with its
/// next-header byte.
pub fn tlvs(header: &[u8]) -> Tlvs<'_> {
    Tlvs { header, at: 2 }
}

/// An iterator over options. An `Err` item is the last one.
#[derive(Clone, Debug)]
pub struct Tlvs<'a> {
    header: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<Tlv<'a>, OptionError>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let kind = *self.header.get(at)?;
        if kind == IPV6_TLV_PAD1 {
            self.at += 1;
            let body = &[];
            return Some(Ok(Tlv { kind, at, body }));
        }
        let len = self.header.get(at + 1).map(|l| usize::from(*l));
        let body = len.and_then(|len| self.header.get(at + 2..at + 2 + len));
        Some(match body {
            Some(body) => {
                self.at = at + 2 + body.len();
                Ok(Tlv { kind, at, body })
            }
            None => {
                self.at = self.header.len();
                Err(OptionError::Malformed)
            }
        })
    }
}

/// Returns true unless a hop-by-hop header is anywhere but directly behind the IPv6 header (RFC
/// 8200, 4.1). Returns `None` if an extension header is truncated.
pub fn hop_by_hop_is_first(packet: &[u8]) -> Option<bool> {
    for ext in extensions(packet) {
        let ext = ext.ok()?;
        if ext.kind == NEXTHDR_HOP && ext.at != Ipv6::LEN {
            return Some(false);
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::super::ipv6::{ipv6, upper_layer};
    use super::*;

    fn packet(first: u8, body: &[u8]) -> Vec<u8> {
        let mut p = ipv6([1; 16], [2; 16], first, 64, 0, 0, body.len()).to_vec();
        p.extend(body);
        p
    }

    #[test]
    fn walks_to_the_upper_layer() {
        let p = packet(
            0,
            &[
                43, 0, 1, 4, 0, 0, 0, 0, 44, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 1, 0, 0, 0, 9, 7,
            ],
        );
        let mut walk = extensions(&p);
        let kinds: Vec<u8> = walk.by_ref().map(|e| e.unwrap().kind).collect();
        assert_eq!((kinds, walk.upper()), (vec![0, 43, 44], (6, 64)));
        let up = upper_layer(&p).unwrap();
        assert_eq!((up.protocol, up.offset, up.fragment), (6, 64, Some(56)));
        assert_eq!(hop_by_hop_is_first(&p), Some(true));
        for cut in 41..64 {
            assert!(extensions(&p[..cut]).any(|e| e.is_err()), "{cut}");
        }
        let p = packet(60, &[0, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0]);
        assert_eq!(hop_by_hop_is_first(&p), Some(false));
        // A fragment other than the first ends the iteration: data follows.
        let p = packet(44, &[60, 0, 0, 9, 0, 0, 0, 9, 255, 255]);
        assert_eq!(extensions(&p).count(), 1);
    }

    #[test]
    fn options_are_judged_as_linux_does() {
        let check = |options: &[u8]| check_options(&[&[6, 0][..], options].concat(), true, 8);
        assert_eq!(
            check(&[5, 2, 0, 0, 1, 0]).map(|s| s.router_alert),
            Ok(Some(0))
        );
        assert_eq!(check(&[5, 1, 0, 1, 1, 0]), Err(OptionError::Malformed));
        assert_eq!(
            check(&[194, 4, 0, 1, 0, 0]).map(|s| s.jumbo),
            Ok(Some(0x10000))
        );
        assert_eq!(check(&[194, 4, 0, 0, 255, 0]), Err(problem(0, 4)));
        assert_eq!(check(&[1, 4, 0, 0, 0, 0]), Ok(OptionSummary::default()));
        assert_eq!(check(&[1, 4, 0, 0, 0, 1]), Err(OptionError::Malformed));
        assert_eq!(check(&[0x1e, 4, 9, 9, 9, 9]), Ok(OptionSummary::default()));
        assert_eq!(check(&[0x4e, 0, 0, 0, 0, 0]), Err(OptionError::Discard));
        assert_eq!(check(&[0x8e, 0, 0, 0, 0, 0]), Err(problem(2, 2)));
        let unicast = OptionError::Problem {
            code: 2,
            at: 2,
            not_multicast: true,
        };
        assert_eq!(check(&[0xce, 0, 0, 0, 0, 0]), Err(unicast));
        assert_eq!(check(&[0x1e, 9, 0, 0, 0, 0]), Err(OptionError::Malformed));
        assert_eq!(
            check_options(&[6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0x1e, 0], true, 8),
            Err(OptionError::Malformed),
            "8 bytes of padding"
        );
        assert_eq!(
            check_options(&[6, 0, 0x1e, 0, 0x1e, 0, 0x1e, 0], true, 2),
            Err(OptionError::Malformed)
        );
    }
}
