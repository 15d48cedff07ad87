// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `meta`: compares metadata of a packet.
//!
//! Mirrors net/sched/em_meta.c. Parameters: a value with `shift` and `mask`, comparison (`eq`,
//! `lt`, `gt`), another value. Values: `random`, `dev` (index), `priority`, `protocol` (in network
//! order, read as a number of the machine, as in Linux), `pkttype`, `pktlen`, `datalen` (always 0,
//! because packets are contiguous), `maclen`, `fwmark`, `tcindex`, `rtclassid` (0 for a routed
//! packet, because there are no realms), `rtiif`, `vlan`, `rxhash`, and numbers. `sk_*` match no
//! packet, because none comes from a socket.
//!
//! Not implemented: `loadavg_*`, which would make a run depend on the machine, and `dev` by name.
//! Both are refused.

use std::cmp::Ordering;

use weir_netlink::errno::{EINVAL, EOPNOTSUPP};
use weir_netlink::tca::em_meta::{self as attr, id, ty};
use weir_netlink::tca::ematch::opnd;
use weir_netlink::{Attr, Error, Policy, Rule, Strictness, Table, Writer, policy};
use weir_packet::header::Vlan;
use weir_packet::header::ethernet::{ETH_P_8021AD, ETH_P_8021Q, Ethernet};
use weir_packet::{FlowKeys, Packet, Used, dissect, flow_hash};

use super::invalid;
use crate::chain;
use crate::context::Context;

/// Size of `struct tcf_meta_hdr` in bytes.
const HDR_LEN: usize = 8;

static POLICY: Policy = policy! { max attr::MAX;
    attr::HDR => Rule::unspec(HDR_LEN as u16),
};

/// The operand that a request gives for a side.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Given {
    None,
    /// A number with its size of 4 or 8 bytes: the value, or its mask.
    Int(u64, usize),
    /// A byte string.
    Var(Box<[u8]>),
}

/// One side of the comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Side {
    kind: u16,
    shift: u8,
    operand: u8,
    given: Given,
}

/// A comparison of metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    left: Side,
    right: Side,
}

impl Side {
    fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let Some(&[a, b, shift, operand]) = bytes.first_chunk() else {
            return invalid();
        };
        Ok(Self {
            kind: u16::from_ne_bytes([a, b]),
            shift,
            operand,
            given: Given::None,
        })
    }

    fn ty(&self) -> u16 {
        self.kind >> 12
    }

    fn id(&self) -> u16 {
        self.kind & 0x7ff
    }

    /// Checks whether Linux supports the value (`meta_is_supported`) and whether this
    /// implementation does.
    fn check(&self) -> Result<(), Error> {
        match (self.ty(), self.id()) {
            (_, id::VALUE) | (ty::VAR, id::SK_BOUND_IF) => Ok(()),
            (ty::VAR, id::DEV) => Err(Error::unsupported(
                "Extended match meta compares devices by index, not by name",
            )),
            (ty::VAR, _) | (_, id::SK_ROUTE_CAPS) => Err(Error::new(EOPNOTSUPP)),
            (_, id::LOADAVG_0..=id::LOADAVG_2) => Err(Error::unsupported(
                "Extended match meta does not support load averages",
            )),
            _ => Ok(()),
        }
    }

    /// Stores the operand from a request (`meta_change_data`).
    fn give(&mut self, attr: Option<Attr<'_>>) -> Result<(), Error> {
        let Some(attr) = attr else { return Ok(()) };
        let bytes = attr.payload;
        self.given = match (self.ty(), bytes.len()) {
            (_, 0) => return invalid(),
            (ty::VAR, _) => Given::Var(bytes.into()),
            (_, 4) => Given::Int(attr.u32()?.into(), 4),
            (_, 8..) => Given::Int(attr.u64()?, 8),
            _ => return invalid(),
        };
        Ok(())
    }

    fn dump(&self, w: &mut Writer, ty: u16) {
        match &self.given {
            Given::None => {}
            Given::Int(value, 4) => w.put_u32(ty, *value as u32),
            Given::Int(value, _) => w.put_u64(ty, *value),
            Given::Var(bytes) => w.put(ty, bytes),
        }
    }

    /// Returns the number given, or 0.
    fn number(&self) -> u64 {
        match self.given {
            Given::Int(value, _) => value,
            _ => 0,
        }
    }

    /// Returns the number of this side for a packet, or `None` if the packet has no such value.
    fn int(&self, cx: &mut Context<'_, '_>, packet: &Packet) -> Option<u64> {
        let value = match self.id() {
            id::VALUE => return Some(self.number()),
            id::RANDOM => u64::from((cx.random)()) << 32 | u64::from((cx.random)()),
            id::DEV => cx.ifindex.into(),
            id::PRIORITY => packet.priority.into(),
            id::PROTOCOL => chain::protocol(packet).to_be().into(),
            id::PKTTYPE => packet.pkt_type() as u64,
            id::PKTLEN => cx.skb_len(packet),
            id::DATALEN => 0,
            id::MACLEN => packet.mac_len() as u64,
            id::NFMARK => packet.mark.into(),
            id::TCINDEX => packet.tc_index.into(),
            id::RTCLASSID => cx.is_routed(packet).then_some(0)?,
            id::RTIIF => cx.is_routed(packet).then_some(packet.iif.into())?,
            id::VLAN_TAG => vlan_tag(packet)?.into(),
            id::RXHASH => rx_hash(packet).into(),
            _ => return None,
        };
        let value = value.checked_shr(self.shift.into()).unwrap_or(0);
        Some(match self.number() {
            0 => value,
            mask => value & mask,
        })
    }

    /// Returns the byte string of this side.
    fn var(&self) -> Option<&[u8]> {
        match (&self.given, self.id()) {
            (Given::Var(bytes), id::VALUE) => Some(bytes),
            (_, id::VALUE) => Some(&[]),
            _ => None,
        }
    }
}

fn vlan_tag(packet: &Packet) -> Option<u16> {
    if let Some(tag) = packet.vlan() {
        return Some(tag.tci);
    }
    let ethernet = Ethernet::new(packet.mac())?;
    if !matches!(ethernet.ethertype(), ETH_P_8021Q | ETH_P_8021AD) {
        return None;
    }
    Vlan::new(packet.mac().get(Ethernet::LEN..)?).map(|tag| tag.tci())
}

/// Returns the packet's flow hash (`skb_get_hash`).
fn rx_hash(packet: &Packet) -> u32 {
    if packet.hash != 0 {
        return packet.hash;
    }
    let mut keys = FlowKeys::EMPTY;
    dissect(packet, Used::FIVE_TUPLE, &mut keys);
    flow_hash(&keys, 0)
}

impl Meta {
    /// Parses a comparison (`em_meta_change`).
    pub(super) fn parse(data: &[u8]) -> Result<Self, Error> {
        let plain = |error: Error| Error::new(error.errno);
        let tb: Table<'_> =
            weir_netlink::parse(data, &POLICY, Strictness::Liberal).map_err(plain)?;
        let hdr = tb.get(attr::HDR).ok_or(Error::new(EINVAL))?.payload;
        let mut left = Side::parse(hdr)?;
        let mut right = Side::parse(hdr.get(HDR_LEN / 2..).unwrap_or_default())?;
        if left.ty() != right.ty()
            || left.ty() > ty::MAX
            || left.id() > id::MAX
            || right.id() > id::MAX
        {
            return invalid();
        }
        left.check()?;
        right.check()?;
        left.give(tb.get(attr::LVALUE))?;
        right.give(tb.get(attr::RVALUE))?;
        Ok(Self { left, right })
    }

    pub(super) fn data(&self) -> Vec<u8> {
        let mut w = Writer::new();
        let mut hdr = Vec::with_capacity(HDR_LEN);
        for side in [&self.left, &self.right] {
            hdr.extend(side.kind.to_ne_bytes());
            hdr.extend([side.shift, side.operand]);
        }
        w.put(attr::HDR, &hdr);
        self.left.dump(&mut w, attr::LVALUE);
        self.right.dump(&mut w, attr::RVALUE);
        w.into_vec()
    }

    pub(super) fn holds(&self, cx: &mut Context<'_, '_>, packet: &Packet) -> bool {
        let order = if self.left.ty() == ty::INT {
            let Some(left) = self.left.int(cx, packet) else {
                return false;
            };
            let Some(right) = self.right.int(cx, packet) else {
                return false;
            };
            left.cmp(&right)
        } else {
            let (Some(left), Some(right)) = (self.left.var(), self.right.var()) else {
                return false;
            };
            left.len().cmp(&right.len()).then_with(|| left.cmp(right))
        };
        match self.left.operand {
            opnd::EQ => order == Ordering::Equal,
            opnd::LT => order == Ordering::Less,
            opnd::GT => order == Ordering::Greater,
            _ => false,
        }
    }
}
