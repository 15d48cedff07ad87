// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Extended matches: a tree of conditions combined with AND, OR and NOT, inside a filter.
//!
//! Mirrors net/sched/ematch.c. A tree is a list of matches. Each match says how it is combined with
//! the next one (`and`, `or`, or end) and whether it is inverted. A container stands for the
//! sequence that begins at a later position of the list. A tree without matches is true. Kinds, one
//! file each: [`cmp`], [`nbyte`], [`u32`](mod@u32), [`meta`].
//!
//! Not implemented: `ipset`, `ipt`, `canid` and `text` are refused by name.

pub mod cmp;
pub mod meta;
pub mod nbyte;
pub mod u32;

#[cfg(test)]
mod tests;

use weir_netlink::errno::{EINVAL, ENOENT};
use weir_netlink::tca::ematch::{self as attr, flag, kind};
use weir_netlink::{Attr, Error, Fixed, Policy, Rule, Writer, policy};
use weir_netlink::{TcfEmatchHdr, TcfEmatchTreeHdr};
use weir_packet::Packet;

use crate::context::Context;

/// The highest depth of nested containers (`CONFIG_NET_EMATCH_STACK`).
const STACK: usize = 32;

static POLICY: Policy = policy! { max attr::TREE_MAX;
    attr::TREE_HDR => Rule::unspec(TcfEmatchTreeHdr::LEN as u16),
    attr::TREE_LIST => Rule::nested_any(),
};

/// The condition of a match.
#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    /// The sequence that begins at that position.
    Container(usize),
    Cmp(cmp::Cmp),
    Nbyte(nbyte::Nbyte),
    U32(u32::U32),
    Meta(Box<meta::Meta>),
}

/// One match of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Match {
    id: u16,
    flags: u16,
    what: What,
}

/// A tree of conditions; see the module's documentation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    program: u16,
    matches: Box<[Match]>,
}

fn invalid<T>() -> Result<T, Error> {
    Err(Error::new(EINVAL))
}

impl What {
    fn parse(ty: u16, data: &[u8], place: usize, count: u16) -> Result<Self, Error> {
        let refused = |text| Err(Error::unsupported(text));
        Ok(match ty {
            kind::CONTAINER => {
                let Some(to) = data.first_chunk().map(|to| u32_ne(*to)) else {
                    return invalid();
                };
                // Containers may only refer to later positions, which rules out loops.
                if to >= u32_of(count) || to as usize <= place {
                    return invalid();
                }
                Self::Container(to as usize)
            }
            kind::CMP => Self::Cmp(cmp::Cmp::parse(data)?),
            kind::NBYTE => Self::Nbyte(nbyte::Nbyte::parse(data)?),
            kind::U32 => Self::U32(u32::U32::parse(data)?),
            kind::META => Self::Meta(Box::new(meta::Meta::parse(data)?)),
            kind::TEXT => return refused("Extended match text is not supported"),
            kind::CANID => return refused("Extended match canid is not supported"),
            kind::IPSET => return refused("Extended match ipset is not supported"),
            kind::IPT => return refused("Extended match ipt is not supported"),
            _ => return Err(Error::new(ENOENT)),
        })
    }

    fn kind(&self) -> u16 {
        match self {
            Self::Container(_) => kind::CONTAINER,
            Self::Cmp(_) => kind::CMP,
            Self::Nbyte(_) => kind::NBYTE,
            Self::U32(_) => kind::U32,
            Self::Meta(_) => kind::META,
        }
    }

    /// Returns the parameters that follow a match's header.
    fn data(&self) -> Vec<u8> {
        match self {
            Self::Container(to) => (*to as core::primitive::u32).to_ne_bytes().to_vec(),
            Self::Cmp(cmp) => cmp.data(),
            Self::Nbyte(nbyte) => nbyte.data(),
            Self::U32(key) => key.data(),
            Self::Meta(meta) => meta.data(),
        }
    }

    #[inline]
    fn holds(&self, cx: &mut Context<'_, '_>, packet: &Packet) -> bool {
        match self {
            Self::Container(_) => false,
            Self::Cmp(cmp) => cmp.holds(packet),
            Self::Nbyte(nbyte) => nbyte.holds(packet),
            Self::U32(key) => key.holds(packet),
            Self::Meta(meta) => meta.holds(cx, packet),
        }
    }
}

fn u32_ne(bytes: [u8; 4]) -> core::primitive::u32 {
    core::primitive::u32::from_ne_bytes(bytes)
}

fn u32_of(value: u16) -> core::primitive::u32 {
    value.into()
}

impl Match {
    fn parse(attr: &Attr<'_>, place: usize, count: u16) -> Result<Self, Error> {
        let Some(hdr) = TcfEmatchHdr::from_bytes(attr.payload) else {
            return invalid();
        };
        if hdr.flags & flag::REL_MASK == flag::REL_MASK {
            return invalid();
        }
        let data = attr.payload.get(TcfEmatchHdr::LEN..).unwrap_or_default();
        let what = What::parse(hdr.kind, data, place, count)?;
        // No kind here has a plain number as its parameters.
        if hdr.kind != kind::CONTAINER && hdr.flags & flag::SIMPLE != 0 {
            return invalid();
        }
        Ok(Self {
            id: hdr.matchid,
            flags: hdr.flags,
            what,
        })
    }

    fn is_inverted(&self) -> bool {
        self.flags & flag::INVERT != 0
    }

    /// Returns whether the sequence of the match ends with that result (`tcf_em_early_end`).
    fn ends(&self, result: bool) -> bool {
        match self.flags & flag::REL_MASK {
            flag::REL_AND => !result,
            flag::REL_OR => result,
            _ => true,
        }
    }
}

impl Tree {
    /// Parses a tree (`tcf_em_tree_validate`). Without an attribute the tree has no matches. As in
    /// Linux, the errors have no message.
    pub fn parse(attr: Option<&Attr<'_>>) -> Result<Self, Error> {
        let Some(attr) = attr else {
            return Ok(Self::default());
        };
        let tb = attr.parse_quietly(&POLICY)?;
        let (Some(hdr), Some(list)) = (tb.get(attr::TREE_HDR), tb.get(attr::TREE_LIST)) else {
            return invalid();
        };
        let hdr = TcfEmatchTreeHdr::from_bytes(hdr.payload).ok_or(Error::new(EINVAL))?;
        let mut matches = Vec::new();
        for (place, attr) in list.attrs().enumerate() {
            if usize::from(attr.ty) != place + 1 || place >= usize::from(hdr.nmatches) {
                return invalid();
            }
            matches.push(Match::parse(&attr, place, hdr.nmatches)?);
        }
        if matches.len() != usize::from(hdr.nmatches) {
            return invalid();
        }
        Ok(Self {
            program: hdr.progid,
            matches: matches.into(),
        })
    }

    /// Returns whether the tree has no matches, so that it is true for every packet.
    pub fn is_empty(&self) -> bool {
        self.matches.is_empty()
    }

    /// Encodes the tree as a nest of type `ty` (`tcf_em_tree_dump`).
    pub fn dump(&self, w: &mut Writer, ty: u16) {
        let tree = w.nest_noflag(ty);
        let (nmatches, progid) = (self.matches.len() as u16, self.program);
        w.put_fixed(attr::TREE_HDR, &TcfEmatchTreeHdr { nmatches, progid });
        let list = w.nest_noflag(attr::TREE_LIST);
        for (place, one) in self.matches.iter().enumerate() {
            let hdr = TcfEmatchHdr {
                matchid: one.id,
                kind: one.what.kind(),
                flags: one.flags,
                pad: 0,
            };
            let mut bytes = hdr.to_vec();
            bytes.extend(one.what.data());
            // The length of a match includes its padding.
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            w.put(place as u16 + 1, &bytes);
        }
        w.end(list);
        w.end(tree);
    }

    /// Returns whether the tree is true for a packet (`tcf_em_tree_match`).
    #[inline]
    pub fn holds(&self, cx: &mut Context<'_, '_>, packet: &Packet) -> bool {
        self.matches.is_empty() || self.walk(|what| what.holds(cx, packet))
    }

    /// Evaluates the tree (`__tcf_em_tree_match`). Containers nested too deeply are true, as in
    /// Linux.
    fn walk(&self, mut holds: impl FnMut(&What) -> bool) -> bool {
        let mut stack = [0; STACK];
        let (mut depth, mut at) = (0, 0);
        let mut result = false;
        loop {
            while let Some(one) = self.matches.get(at) {
                if let What::Container(to) = one.what {
                    let Some(place) = stack.get_mut(depth) else {
                        return true;
                    };
                    *place = at;
                    depth += 1;
                    at = to;
                    continue;
                }
                result = holds(&one.what) != one.is_inverted();
                if one.ends(result) {
                    break;
                }
                at += 1;
            }
            // The sequence has ended. Its container may end the enclosing sequence, too.
            loop {
                let Some(before) = depth.checked_sub(1) else {
                    return result;
                };
                depth = before;
                at = stack[depth];
                let container = &self.matches[at];
                result ^= container.is_inverted();
                if !container.ends(result) {
                    at += 1;
                    break;
                }
            }
        }
    }
}

/// Returns `len` bytes of a packet at `offset` from the start of a layer (`tcf_get_base_ptr`): 0
/// link, 1 network, 2 transport. If the transport header is not known yet, it is assumed to begin
/// with the network header.
#[inline]
fn at(packet: &Packet, layer: u8, offset: usize, len: usize) -> Option<&[u8]> {
    let from = match layer {
        0 => packet.mac(),
        1 => packet.network(),
        2 if packet.has_transport() => packet.transport(),
        2 => packet.network(),
        _ => return None,
    };
    from.get(offset..offset + len)
}
