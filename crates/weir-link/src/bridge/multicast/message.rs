// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IGMP and MLD messages in frames: those that a bridge reads (`ip_mc_check_igmp`, `ipv6_mc_check_mld`) and its queries
//! (`br_ip4_multicast_alloc_query`, `br_ip6_multicast_alloc_query`).

use weir_packet::checksum::{checksum, transport_v6, verify, verify_v6};
use weir_packet::header::ipv4::fill_check;
use weir_packet::header::ndisc::ALL_NODES;
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6};

use super::{Family, Group};
use crate::clock::MILLISECOND;
use crate::device::Mac;

const IGMP: u8 = 2;
const PIM: u8 = 103;
const ICMPV6: u8 = 58;
/// 224.0.0.1
const ALL_HOSTS: [u8; 4] = [224, 0, 0, 1];
/// 224.0.0.13
const ALL_PIM_ROUTERS: [u8; 4] = [224, 0, 0, 13];
/// 224.0.0.106
pub const ALL_SNOOPERS: [u8; 4] = [224, 0, 0, 106];

/// `IGMP_HOST_MEMBERSHIP_QUERY`
const QUERY: u8 = 0x11;
const REPORT_V1: u8 = 0x12;
const REPORT_V2: u8 = 0x16;
const LEAVE: u8 = 0x17;
const REPORT_V3: u8 = 0x22;
/// `IGMP_MRDISC_ADV`
const ROUTER_ADVERTISEMENT: u8 = 0x30;
/// `ICMPV6_MGM_QUERY`
const MLD_QUERY: u8 = 130;
const MLD_REPORT: u8 = 131;
const MLD_DONE: u8 = 132;
const MLD_REPORT_V2: u8 = 143;
/// `ICMPV6_MRDISC_ADV`
const MLD_ROUTER_ADVERTISEMENT: u8 = 151;

/// ff02::6a
pub const ALL_SNOOPERS_V6: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x6a];

/// The counter of a message (`struct br_mcast_stats`), the place of its received messages. Those sent follow.
pub type Counter = usize;

/// What a frame to a group says.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// It is no message about groups. The flag: without a listener, only routers get it.
    Data(bool),
    /// A multicast router is behind the port (PIM hello, multicast router advertisement). The flag as above.
    Router(bool),
    /// The message is damaged.
    Bad,
    /// A report of an older version: the host joins. Only routers get it.
    Join(Group, Counter),
    /// A report with records, by a host.
    Records(Vec<Record>, Group, Counter),
    /// The host leaves.
    Leave(Group, Counter),
    /// A query.
    Query(Query, Counter),
}

/// The kind of a record (`IGMPV3_MODE_IS_INCLUDE` and following).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // The names are those of the RFCs.
pub enum Kind {
    IsInclude,
    IsExclude,
    ToInclude,
    ToExclude,
    Allow,
    Block,
}

/// A record of a report.
#[derive(Debug, PartialEq, Eq)]
pub struct Record {
    /// The kind.
    pub kind: Kind,
    /// The group.
    pub group: Group,
    /// The sources.
    pub sources: Vec<Group>,
}

impl Record {
    /// Returns whether the host is no member any more, since it wants no source.
    pub fn leaves(&self) -> bool {
        self.sources.is_empty() && matches!(self.kind, Kind::IsInclude | Kind::ToInclude)
    }
}

/// A query.
#[derive(Debug, PartialEq, Eq)]
pub struct Query {
    /// The group, or `None` for all.
    pub group: Option<Group>,
    /// The sender.
    pub source: Group,
    /// The time in ns in which hosts answer.
    pub delay: u64,
    /// The query changes nothing: it names sources, or its form is unknown.
    pub ignored: bool,
    /// The query is of the newer version and has the flag for routers: `suppress`.
    pub suppressed: bool,
}

impl Heard {
    /// Returns whether the frame is a message about groups, which no entry of the table directs.
    pub fn is_message(&self) -> bool {
        self.counter().is_some()
    }

    /// Returns whether only routers get the frame if nobody else listens.
    pub fn is_for_routers(&self) -> bool {
        matches!(self, Self::Data(true) | Self::Router(true) | Self::Join(..))
    }

    /// Returns the counter of the message.
    pub fn counter(&self) -> Option<Counter> {
        match self {
            Self::Join(_, counter)
            | Self::Records(_, _, counter)
            | Self::Leave(_, counter)
            | Self::Query(_, counter) => Some(*counter),
            _ => None,
        }
    }
}

/// Reads a frame to a group, whose network header begins at 0.
pub fn read(protocol: u16, octets: &[u8]) -> Heard {
    match protocol {
        ETH_P_IP => read_v4(octets).unwrap_or(Heard::Bad),
        ETH_P_IPV6 => read_v6(octets).unwrap_or(Heard::Bad),
        _ => Heard::Data(false),
    }
}

fn read_v4(octets: &[u8]) -> Option<Heard> {
    let (fixed, _) = octets.split_first_chunk::<20>()?;
    let header = usize::from(fixed[0] & 15) * 4;
    if fixed[0] >> 4 != 4 || header < 20 || !verify(octets.get(..header)?) {
        return None;
    }
    let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    let body = octets.get(header..total)?;
    let [.., d0, d1, d2, d3] = *fixed;
    let to = [d0, d1, d2, d3];
    let source = Group::V4(octets.get(12..16)?.try_into().ok()?);
    let is_local = matches!(to, [224, 0, 0, _]);
    let data = Heard::Data(!is_local);
    if fixed[9] != IGMP {
        let hello = fixed[9] == PIM && to == ALL_PIM_ROUTERS && body.first() == Some(&0x20);
        return Some(if hello { Heard::Router(false) } else { data });
    }
    if body.len() < 8 || !verify(body) {
        return None;
    }
    let group =
        |at: usize| -> Option<Group> { Some(Group::V4(body.get(at..at + 4)?.try_into().ok()?)) };
    Some(match body[0] {
        REPORT_V1 => Heard::Join(group(4)?, 8),
        REPORT_V2 => Heard::Join(group(4)?, 10),
        LEAVE => Heard::Leave(group(4)?, 6),
        REPORT_V3 => {
            let count = usize::from(u16::from_be_bytes([body[6], body[7]]));
            Heard::Records(records(body, count, 4, group)?, source, 12)
        }
        QUERY => {
            let asked = group(4)?;
            let general = asked == Group::V4([0; 4]);
            if general && to != ALL_HOSTS || body.len() != 8 && body.len() < 12 {
                return None;
            }
            let code = u64::from(body[1]);
            let (delay, all, ignored, counter) = match (body.len(), code) {
                (8, 0) => (10_000 * MILLISECOND, true, false, 0),
                (8, _) => (code * 100 * MILLISECOND, general, false, 2),
                _ => {
                    let value = longer(code, 4);
                    let delay = (value * 100).max(4) * MILLISECOND;
                    (delay, general, body[10] != 0 || body[11] != 0, 4)
                }
            };
            let query = Query {
                group: (!all).then_some(asked),
                source,
                delay,
                ignored,
                suppressed: body.len() >= 12 && body[8] & 8 != 0,
            };
            Heard::Query(query, counter)
        }
        ROUTER_ADVERTISEMENT if to == ALL_SNOOPERS => Heard::Router(false),
        _ => data,
    })
}

/// Returns the value of a code in floating point (`IGMPV3_MRC`, `mldv2_mrc`), with `bits` of mantissa.
fn longer(code: u64, bits: u32) -> u64 {
    let floating = 1 << (bits + 3);
    if code < floating {
        return code;
    }
    let exponent = (code >> bits) & 7;
    (code & ((1 << bits) - 1) | 1 << bits) << (exponent + 3)
}

/// Reads the records of a report, each of a type, the length of auxiliary data, a number of sources, a group of
/// `size` octets, and the sources.
fn records(
    body: &[u8],
    count: usize,
    size: usize,
    group: impl Fn(usize) -> Option<Group>,
) -> Option<Vec<Record>> {
    let mut found = Vec::new();
    let mut at = 8;
    for _ in 0..count {
        let head = body.get(at..at + 4)?;
        let sources = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let one = group(at + 4)?;
        // Linux does not skip the auxiliary data of IGMP, which nobody uses.
        let auxiliary = if size == 16 {
            usize::from(head[1]) * 4
        } else {
            0
        };
        let end = at + 4 + size * (sources + 1);
        body.get(at..end)?;
        let first = at + 4 + size;
        let listed: Option<Vec<Group>> = (0..sources).map(|n| group(first + n * size)).collect();
        at = end + auxiliary;
        let kind = match head[0] {
            1 => Kind::IsInclude,
            2 => Kind::IsExclude,
            3 => Kind::ToInclude,
            4 => Kind::ToExclude,
            5 => Kind::Allow,
            6 => Kind::Block,
            _ => continue,
        };
        found.push(Record {
            kind,
            group: one,
            sources: listed?,
        });
    }
    Some(found)
}

fn read_v6(octets: &[u8]) -> Option<Heard> {
    let (fixed, rest) = octets.split_first_chunk::<40>()?;
    let len = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    if fixed[0] >> 4 != 6 {
        return None;
    }
    let rest = rest.get(..len)?;
    let from: [u8; 16] = fixed[8..24].try_into().ok()?;
    let to: [u8; 16] = fixed[24..].try_into().ok()?;
    let data = Heard::Data(to != ALL_NODES);
    // A message follows hop-by-hop options.
    if fixed[6] != 0 {
        return Some(data);
    }
    let next = *rest.first()?;
    let skipped = (usize::from(*rest.get(1)?) + 1) * 8;
    if next != ICMPV6 {
        return Some(data);
    }
    let body = rest.get(skipped..)?;
    let ty = *body.first()?;
    if !verify_v6(from, to, ICMPV6, body) {
        return None;
    }
    let group =
        |at: usize| -> Option<Group> { Some(Group::V6(body.get(at..at + 16)?.try_into().ok()?)) };
    Some(match ty {
        MLD_REPORT => Heard::Join(group(8)?, 21),
        MLD_DONE => Heard::Leave(group(8)?, 19),
        MLD_REPORT_V2 => {
            let count = usize::from(u16::from_be_bytes([*body.get(6)?, *body.get(7)?]));
            Heard::Records(records(body, count, 16, group)?, Group::V6(from), 23)
        }
        MLD_QUERY => {
            let asked = group(8)?;
            let general = asked == Group::V6([0; 16]);
            let link_local = from[0] == 0xfe && from[1] & 0xc0 == 0x80;
            let is_first = body.len() == 24;
            if !link_local || general && to != ALL_NODES || !is_first && body.len() < 28 {
                return None;
            }
            let code = u64::from(u16::from_be_bytes([body[4], body[5]]));
            let (delay, ignored, counter) = match is_first {
                // Without a delay, nothing is asked.
                true => (code * MILLISECOND, code == 0, 15),
                false => {
                    let delay = longer(code, 12).max(4) * MILLISECOND;
                    (delay, body[26] != 0 || body[27] != 0, 17)
                }
            };
            let query = Query {
                group: (!general).then_some(asked),
                source: Group::V6(from),
                delay,
                ignored,
                suppressed: !is_first && body[24] & 8 != 0,
            };
            Heard::Query(query, counter)
        }
        MLD_ROUTER_ADVERTISEMENT if to == ALL_SNOOPERS_V6 => Heard::Router(true),
        _ => data,
    })
}

/// The form of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// IGMPv2, MLDv1
    Old,
    /// IGMPv3, MLDv2
    New {
        /// Routers do not heed the query.
        suppress: bool,
        /// The time between queries in s.
        interval: u8,
        /// The sources asked for.
        sources: Vec<Group>,
    },
}

impl Form {
    /// Returns what follows the group in a query.
    fn rest(&self) -> Vec<u8> {
        let Self::New {
            suppress,
            interval,
            sources,
        } = self
        else {
            return Vec::new();
        };
        // The robustness variable is 2.
        let mut rest = vec![u8::from(*suppress) << 3 | 2, *interval];
        rest.extend((sources.len() as u16).to_be_bytes());
        for source in sources {
            match source {
                Group::V4(address) => rest.extend(address),
                Group::V6(address) => rest.extend(address),
                Group::Mac(_) => {}
            }
        }
        rest
    }
}

/// Returns a query as a frame: for one group or all, with the time in ns in which hosts answer, to all hosts or to the
/// group.
pub(super) fn query(
    mac: Mac,
    source: Group,
    (family, group, is_direct): (Family, Option<Group>, bool),
    delay: u64,
    form: &Form,
) -> Vec<u8> {
    let rest = form.rest();
    match (family, source) {
        (Family::V6, Group::V6(source)) => {
            let asked = match group {
                Some(Group::V6(asked)) => asked,
                _ => [0; 16],
            };
            let ms = u16::try_from(delay / MILLISECOND).unwrap_or(u16::MAX);
            let mut body = vec![MLD_QUERY, 0, 0, 0];
            body.extend_from_slice(&ms.to_be_bytes());
            body.extend_from_slice(&[0, 0]);
            body.extend_from_slice(&asked);
            body.extend(rest);
            let to = if is_direct { asked } else { ALL_NODES };
            let sum = transport_v6(source, to, ICMPV6, &body);
            body[2..4].copy_from_slice(&sum.to_be_bytes());
            let mut frame = vec![0x33, 0x33];
            frame.extend_from_slice(&to[12..]);
            frame.extend_from_slice(&mac);
            frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend_from_slice(&(8 + body.len() as u16).to_be_bytes());
            frame.extend_from_slice(&[0, 1]);
            frame.extend_from_slice(&source);
            frame.extend_from_slice(&to);
            // Hop-by-hop options: router alert, padding.
            frame.extend_from_slice(&[ICMPV6, 0, 5, 2, 0, 0, 0, 0]);
            frame.extend_from_slice(&body);
            frame
        }
        _ => {
            let source = match source {
                Group::V4(source) => source,
                _ => [0; 4],
            };
            let asked = match group {
                Some(Group::V4(asked)) => asked,
                _ => [0; 4],
            };
            let code = u8::try_from(delay / (100 * MILLISECOND)).unwrap_or(u8::MAX);
            let total = 32 + rest.len() as u16;
            let to = if is_direct { asked } else { ALL_HOSTS };
            let mut header = vec![0x46, 0xc0];
            header.extend_from_slice(&total.to_be_bytes());
            header.extend_from_slice(&[0, 0, 0x40, 0, 1, IGMP, 0, 0]);
            header.extend_from_slice(&source);
            header.extend_from_slice(&to);
            // Router alert.
            header.extend_from_slice(&[0x94, 4, 0, 0]);
            fill_check(&mut header);
            let mut body = vec![QUERY, code, 0, 0];
            body.extend_from_slice(&asked);
            body.extend(rest);
            let sum = checksum(&body);
            body[2..4].copy_from_slice(&sum.to_be_bytes());
            let mut frame = vec![1, 0, 0x5e, to[1] & 0x7f, to[2], to[3]];
            frame.extend_from_slice(&mac);
            frame.extend_from_slice(&[8, 0]);
            frame.extend_from_slice(&header);
            frame.extend_from_slice(&body);
            frame
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_as_they_were_made() {
        let asked = Group::V4([239, 1, 2, 3]);
        for group in [None, Some(asked)] {
            let source = Group::V4([10, 0, 0, 1]);
            let what = (Family::V4, group, false);
            let frame = query([2; 6], source, what, 1000 * MILLISECOND, &Form::Old);
            let Heard::Query(back, 2) = read(ETH_P_IP, &frame[14..]) else {
                panic!("{frame:?}");
            };
            assert_eq!((back.group, back.source), (group, source));
            assert_eq!((back.delay, back.ignored), (1000 * MILLISECOND, false));
            for len in 0..frame.len() - 14 {
                assert_eq!(read(ETH_P_IP, &frame[14..][..len]), Heard::Bad, "{len}");
            }
        }
        let mut source = [0; 16];
        source[..2].copy_from_slice(&[0xfe, 0x80]);
        let asked = Group::V6([0xff; 16]);
        let what = (Family::V6, Some(asked), false);
        let frame = query([2; 6], Group::V6(source), what, 7 * MILLISECOND, &Form::Old);
        let Heard::Query(back, 15) = read(ETH_P_IPV6, &frame[14..]) else {
            panic!("{frame:?}");
        };
        assert_eq!((back.group, back.delay), (Some(asked), 7 * MILLISECOND));
        for len in 0..frame.len() - 14 {
            assert_eq!(read(ETH_P_IPV6, &frame[14..][..len]), Heard::Bad, "{len}");
        }
    }

    #[test]
    fn records_join_and_leave() {
        // Two records: TO_EXCLUDE of no source, TO_INCLUDE of no source.
        let mut body = vec![REPORT_V3, 0, 0, 0, 0, 0, 0, 2];
        body.extend_from_slice(&[4, 0, 0, 0, 239, 0, 0, 1, 3, 0, 0, 0, 239, 0, 0, 2]);
        let sum = checksum(&body);
        body[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut packet = vec![0x45, 0, 0, 44, 0, 0, 0, 0, 1, IGMP, 0, 0, 10, 0, 0, 1];
        packet.extend_from_slice(&[224, 0, 0, 22]);
        fill_check(&mut packet);
        packet.extend_from_slice(&body);
        let Heard::Records(records, host, 12) = read(ETH_P_IP, &packet) else {
            panic!("{packet:?}");
        };
        let found: Vec<_> = records
            .iter()
            .map(|one| (one.group, one.kind, one.leaves()))
            .collect();
        let wanted = [
            (Group::V4([239, 0, 0, 1]), Kind::ToExclude, false),
            (Group::V4([239, 0, 0, 2]), Kind::ToInclude, true),
        ];
        assert_eq!((found, host), (wanted.to_vec(), Group::V4([10, 0, 0, 1])));
        assert_eq!(longer(0x80, 4), 128);
        assert_eq!(longer(0xff, 4), 31 << 10);
    }
}
