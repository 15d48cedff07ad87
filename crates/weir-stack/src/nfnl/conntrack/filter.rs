// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filter of a dump or flush: family, mark, status and parts of the tuples (`ctnetlink_alloc_filter`).

use weir_conntrack::tuple::{ICMP, ICMPV6, TCP, UDP};
use weir_conntrack::{Family, Snapshot, Tuple};
use weir_netlink::{Error, Policy, Rule, Strictness, Table, cta, errno, policy};

use super::wire::{self, Side};
use cta::filter_flag as flag;

/// A filter; by default it passes everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    /// The family; 0 for both.
    family: u8,
    /// The value and its mask.
    mark: (u32, u32),
    status: (u32, u32),
    /// Flags and tuple of each direction.
    tuples: [Option<(u32, Tuple)>; 2],
}

/// `cta_filter_nla_policy`
static POLICY: Policy = policy! { max cta::filter::MAX;
    cta::filter::ORIG_FLAGS => Rule::u32().mask(flag::ALL as u64),
    cta::filter::REPLY_FLAGS => Rule::u32().mask(flag::ALL as u64),
};

fn invalid() -> Error {
    Error::new(errno::EINVAL)
}

impl Filter {
    /// Reads the filter of a request. Returns `None` if it has none (`ctnetlink_needs_filter`).
    pub(super) fn read(tb: &Table<'_>, family: u8) -> Result<Option<Self>, Error> {
        let has = |ty| tb.has(ty);
        if family == 0 && !has(cta::MARK) && !has(cta::FILTER) && !has(cta::STATUS) {
            return Ok(None);
        }
        let mut filter = Self {
            family,
            ..Self::default()
        };
        let word = |ty| tb.get(ty).map(|attr| attr.be32()).transpose();
        filter.mark = match (word(cta::MARK)?, word(cta::MARK_MASK)?) {
            (Some(mark), mask) => (mark, mask.unwrap_or(u32::MAX)),
            (None, Some(_)) => return Err(invalid()),
            (None, None) => (0, 0),
        };
        filter.status = match (word(cta::STATUS)?, word(cta::STATUS_MASK)?) {
            (Some(status), mask) => (status, mask.unwrap_or(status)),
            (None, Some(_)) => return Err(invalid()),
            (None, None) => (0, 0),
        };
        if has(cta::STATUS) && filter.status.1 == 0 {
            return Err(invalid());
        }
        let Some(attr) = tb.get(cta::FILTER) else {
            return Ok(Some(filter));
        };
        let mut zone = wire::zone(tb.get(cta::ZONE))?;
        let flags = attr.parse(&POLICY, Strictness::Strict)?;
        for (at, ty, tuple, side) in [
            (0, cta::filter::ORIG_FLAGS, cta::TUPLE_ORIG, Side::Original),
            (1, cta::filter::REPLY_FLAGS, cta::TUPLE_REPLY, Side::Reply),
        ] {
            let flags = flags.get(ty).map_or(Ok(0), |attr| attr.u32())?;
            if flags != 0 {
                let attr = tb.get(tuple).ok_or_else(invalid)?;
                let tuple = wire::tuple_parts(&attr, family, side, &mut zone, flags)?;
                filter.tuples[at] = Some((flags, tuple));
            }
        }
        Ok(Some(filter))
    }

    /// Returns whether a connection passes (`ctnetlink_filter_match`).
    pub(super) fn passes(&self, connection: &Snapshot) -> bool {
        let family = connection.original.family as u8;
        let tuples = [&connection.original, &connection.reply];
        (self.family == 0 || self.family == family)
            && connection.mark & self.mark.1 == self.mark.0
            && connection.status & self.status.1 == self.status.0
            && self.tuples.iter().zip(tuples).all(|(wanted, tuple)| {
                wanted.is_none_or(|(flags, wanted)| matches(&wanted, tuple, flags))
            })
    }
}

/// `ctnetlink_filter_match_tuple`. For IPv6, Linux 6.1 compares addresses the wrong way around and passes those that
/// differ; this does not.
fn matches(wanted: &Tuple, tuple: &Tuple, flags: u32) -> bool {
    let same = |bit, same: bool| flags & bit == 0 || same;
    debug_assert!(matches!(wanted.family, Family::V4 | Family::V6));
    if !same(flag::IP_SRC, wanted.src == tuple.src) || !same(flag::IP_DST, wanted.dst == tuple.dst)
    {
        return false;
    }
    if !same(flag::PROTO_NUM, wanted.protocol == tuple.protocol) {
        return false;
    }
    let [wanted_type, wanted_code] = wanted.dst_port.to_be_bytes();
    let [kind, code] = tuple.dst_port.to_be_bytes();
    match tuple.protocol {
        TCP | UDP => {
            same(flag::PROTO_SRC_PORT, wanted.src_port == tuple.src_port)
                && same(flag::PROTO_DST_PORT, wanted.dst_port == tuple.dst_port)
        }
        ICMP => {
            same(flag::PROTO_ICMP_TYPE, wanted_type == kind)
                && same(flag::PROTO_ICMP_CODE, wanted_code == code)
                && same(flag::PROTO_ICMP_ID, wanted.src_port == tuple.src_port)
        }
        ICMPV6 => {
            same(flag::PROTO_ICMPV6_TYPE, wanted_type == kind)
                && same(flag::PROTO_ICMPV6_CODE, wanted_code == code)
                && same(flag::PROTO_ICMPV6_ID, wanted.src_port == tuple.src_port)
        }
        _ => true,
    }
}
