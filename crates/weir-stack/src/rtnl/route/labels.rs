// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stacks of MPLS labels in attributes (`nla_get_labels`, `nla_put_labels`), and `encap mpls`
//! (`net/mpls/mpls_iptunnel.c`).

use weir_netlink::{Attr, Error, Policy, Rule, Strictness, Writer, errno, policy, rta};

use crate::fib::encap::{Encap, entries};
use crate::fib::mpls::{IMPLICIT_NULL, MAX_LABELS, SHIM};

fn invalid<T>(text: &'static str) -> Result<T, Error> {
    Err(Error::msg(errno::EINVAL, text))
}

/// Parses a stack of labels (`nla_get_labels`).
pub fn labels(attr: &Attr<'_>, most: usize) -> Result<Vec<u32>, Error> {
    let refuse = |text| Err(Error::msg(errno::EINVAL, text).at(attr));
    let count = attr.payload.len() / SHIM;
    if !attr.payload.len().is_multiple_of(SHIM) || count > 255 {
        return refuse("Invalid length for labels attribute");
    }
    if count > most {
        return invalid("Too many labels");
    }
    let entries = attr.payload.chunks_exact(SHIM);
    let mut labels = Vec::new();
    // As in Linux, the bottom is checked first.
    for (n, entry) in entries.enumerate().rev() {
        let word = entry
            .first_chunk()
            .map_or(0, |word| u32::from_be_bytes(*word));
        let bottom = n + 1 == count;
        if word & 0xff != 0 {
            return refuse("TTL in label must be 0");
        }
        if word >> 9 & 7 != 0 {
            return refuse("Traffic class in label must be 0");
        }
        if (word >> 8 & 1 == 1) != bottom {
            return refuse(match bottom {
                true => "BOS bit must be set in first label",
                false => "BOS bit can only be set in first label",
            });
        }
        if word >> 12 == IMPLICIT_NULL {
            return refuse("Implicit NULL Label (3) can not be used in encapsulation");
        }
        labels.push(word >> 12);
    }
    labels.reverse();
    Ok(labels)
}

/// Writes a stack of labels (`nla_put_labels`).
pub fn put_labels(out: &mut Writer, ty: u16, labels: &[u32]) {
    let entries = entries(labels, 0, true).flatten();
    out.put(ty, &entries.collect::<Vec<_>>());
}

/// `mpls_iptunnel_policy`
static ENCAP: Policy = policy! {
    max encap::MAX;
    encap::DST => Rule::unspec(4),
    encap::TTL => Rule::u8(),
};

/// `MPLS_IPTUNNEL_*`
mod encap {
    pub const DST: u16 = 1;
    pub const TTL: u16 = 2;
    pub const MAX: u16 = 2;
}

/// Parses `encap mpls` (`mpls_build_state`).
pub fn parse_encap(attr: &Attr<'_>) -> Result<Encap, Error> {
    let inside = attr.parse(&ENCAP, Strictness::Liberal)?;
    let Some(dst) = inside.get(encap::DST) else {
        return invalid("MPLS_IPTUNNEL_DST attribute is missing");
    };
    Ok(Encap::Mpls {
        labels: labels(&dst, MAX_LABELS)?.into(),
        ttl: inside.u8(encap::TTL)?,
    })
}

/// Writes `encap mpls` (`mpls_fill_encap_info`).
pub fn fill_encap(out: &mut Writer, labels: &[u32], ttl: Option<u8>) {
    let nest = out.nest_noflag(rta::ENCAP);
    put_labels(out, encap::DST, labels);
    if let Some(ttl) = ttl {
        out.put_u8(encap::TTL, ttl);
    }
    out.end(nest);
    out.put_u16(rta::ENCAP_TYPE, rta::encap::MPLS);
}
