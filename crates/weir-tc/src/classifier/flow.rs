// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `flow`: computes a class from keys of the packet.
//!
//! Mirrors net/sched/cls_flow.c. Parameters:
//! - `map key KEY`: the class is the key, modified by `and` and `xor`, `rshift` (0 to 31 bits) and
//!   `addend`; or
//! - `hash keys KEY,...`: the class is a hash of the keys, with `perturb` seconds between changes
//!   of the hash function (0: never);
//! - `divisor` (modulo; 0 for none), `baseclass` (added to the result; default: class 1 of the
//!   qdisc), `match` (a tree, [`ematch`](super::ematch)), actions or a policer in the old form.
//!
//! The handle must be given. A change keeps the parameters it leaves out.
//!
//! Keys: `src`, `dst`, `proto`, `proto-src`, `proto-dst`, `iif`, `priority`, `mark`, `vlan-tag`,
//! `rxhash`. `rt-classid` is 0 because there are no realms. `nfct-*` are the same as without
//! `nfct`; `nfct` and `sk-*` are 0: no packet is tracked or comes from a socket. If a packet lacks
//! an address or ports, Linux uses a number chosen at boot; here it is 0, or the protocol for `dst`
//! and `proto-dst`. Tunnelled packets are not inspected.

use std::sync::Arc;

use weir_netlink::errno::{EINVAL, EOPNOTSUPP};
use weir_netlink::tca::{self, flow as attr, h};
use weir_netlink::{Error, Policy, Rule, Table, Writer, policy};
use weir_packet::dissect::{ADDR_IPV4, ADDR_IPV6};
use weir_packet::{FlowKeys, Packet, Used, jhash2};
use weir_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};

use super::ematch::Tree;
use super::exts::{self, Exts, Pending};
use super::list::{List, Listed};
use super::{Change, Ops};
use crate::context::Context;
use crate::env::Env;
use crate::qdisc::packet_hash;
use crate::verdict::{Code, Outcome, code};

/// The kind's entry in the list of kinds.
pub const OPS: Ops = Ops {
    kind: "flow",
    create: |new| Ok(Box::new(Flow(List::new(new.env.net.domain())))),
    template: None,
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::KEYS => Rule::u32(),
    attr::MODE => Rule::u32(),
    attr::BASECLASS => Rule::u32(),
    attr::RSHIFT => Rule::u32().max(31),
    attr::ADDEND => Rule::u32(),
    attr::MASK => Rule::u32(),
    attr::XOR => Rule::u32(),
    attr::DIVISOR => Rule::u32(),
    attr::ACT => Rule::nested_any(),
    attr::POLICE => Rule::nested_any(),
    attr::EMATCHES => Rule::nested_any(),
    attr::PERTURB => Rule::u32(),
};

const EXTS: exts::Attrs = exts::Attrs {
    act: attr::ACT,
    police: attr::POLICE,
    classid: attr::UNSPEC,
};

/// The keys by their bits (`FLOW_KEY_*`).
mod key {
    pub const SRC: u32 = 0;
    pub const DST: u32 = 1;
    pub const PROTO: u32 = 2;
    pub const PROTO_SRC: u32 = 3;
    pub const PROTO_DST: u32 = 4;
    pub const IIF: u32 = 5;
    pub const PRIORITY: u32 = 6;
    pub const MARK: u32 = 7;
    pub const NFCT_SRC: u32 = 9;
    pub const NFCT_DST: u32 = 10;
    pub const NFCT_PROTO_SRC: u32 = 11;
    pub const NFCT_PROTO_DST: u32 = 12;
    pub const VLAN_TAG: u32 = 16;
    pub const RXHASH: u32 = 17;
    pub const MAX: u32 = 17;
}

/// `FLOW_MODE_MAP`, `FLOW_MODE_HASH`
const MAP: u32 = 0;
const HASH: u32 = 1;
const NS: u64 = 1_000_000_000;

/// The parameters of a filter.
#[derive(Clone, Copy)]
struct Params {
    keys: u32,
    mode: u32,
    mask: u32,
    xor: u32,
    rshift: u32,
    addend: u32,
    divisor: u32,
    baseclass: u32,
    /// In seconds.
    perturb: u32,
}

/// A filter of the kind.
struct Filter {
    handle: u32,
    params: Params,
    /// The time of the last change in nanoseconds of the stack's clock.
    made: u64,
    /// The initial value of the hash in the lower half. The upper half is the number of the period
    /// it was drawn for, 0 if none was drawn yet.
    start: AtomicU64,
    tree: Tree,
    exts: Exts,
}

/// An instance; see the module's documentation.
struct Flow(List<Filter>);

/// Returns the key of a dissected address (`flow_get_u32_src`) in host order, 0 if there is none.
fn address(keys: &FlowKeys, address: &[u8; 16]) -> u32 {
    let word = |at: usize| {
        let bytes = address[4 * at..].first_chunk().copied();
        u32::from_be_bytes(bytes.unwrap_or_default())
    };
    match keys.addr_type {
        ADDR_IPV4 => word(0),
        ADDR_IPV6 => word(0) ^ word(1) ^ word(2) ^ word(3),
        _ => 0,
    }
}

fn key(cx: &mut Context<'_, '_>, packet: &mut Packet, key: u32) -> u32 {
    let protocol = u32::from(packet.protocol.to_be());
    let or = |value: u32, other: u32| if value == 0 { other } else { value };
    match key {
        key::SRC | key::NFCT_SRC => {
            let keys = cx.flow(packet, Used::FIVE_TUPLE);
            address(keys, &keys.src)
        }
        key::DST | key::NFCT_DST => {
            let keys = cx.flow(packet, Used::FIVE_TUPLE);
            or(address(keys, &keys.dst), protocol)
        }
        key::PROTO => cx.flow(packet, Used::FIVE_TUPLE).ip_proto.into(),
        key::PROTO_SRC | key::NFCT_PROTO_SRC => cx.flow(packet, Used::FIVE_TUPLE).src_port.into(),
        key::PROTO_DST | key::NFCT_PROTO_DST => {
            let keys = cx.flow(packet, Used::FIVE_TUPLE);
            match (keys.src_port, keys.dst_port) {
                (0, 0) => protocol,
                (_, port) => port.into(),
            }
        }
        key::IIF => packet.iif,
        key::PRIORITY => packet.priority,
        key::MARK => packet.mark,
        key::VLAN_TAG => packet.vlan().map_or(0, |tag| tag.vid().into()),
        key::RXHASH => packet_hash(packet),
        _ => 0,
    }
}

impl Filter {
    /// Returns the initial value of the hash in the current period (`flow_perturbation`).
    fn start(&self, cx: &mut Context<'_, '_>) -> u32 {
        let period = match u64::from(self.params.perturb) * NS {
            0 => 1,
            period => 1 + cx.now.saturating_sub(self.made) / period,
        };
        let start = self.start.load(Relaxed);
        if start >> 32 == period & 0xffff_ffff {
            return start as u32;
        }
        let drawn = (cx.random)();
        self.start.store(period << 32 | u64::from(drawn), Relaxed);
        drawn
    }

    fn class(&self, cx: &mut Context<'_, '_>, packet: &mut Packet) -> u32 {
        let params = &self.params;
        let mut keys = [0; key::MAX as usize + 1];
        let mut count = 0;
        for bit in (0..=key::MAX).filter(|bit| params.keys & 1 << bit != 0) {
            keys[count] = key(cx, packet, bit);
            count += 1;
        }
        let mut class = if params.mode == HASH {
            let start = self.start(cx);
            jhash2(&keys[..count], start)
        } else {
            (((keys[0] & params.mask) ^ params.xor) >> params.rshift).wrapping_add(params.addend)
        };
        if params.divisor != 0 {
            class %= params.divisor;
        }
        let base = params.baseclass;
        base & h::MAJ_MASK | base.wrapping_add(class) & h::MIN_MASK
    }
}

/// Returns the parameters that a request results in, given those of the filter it changes.
fn parse(
    tb: &Table<'_>,
    change: &Change<'_>,
    keys: Option<u32>,
    mut baseclass: u32,
    old: Option<&Params>,
) -> Result<Params, Error> {
    let number = |ty| tb.get(ty).map(|attr| attr.u32()).transpose();
    let invalid = || Error::new(EINVAL);
    let mut params = match old {
        Some(old) => *old,
        None => Params {
            keys: keys.filter(|_| change.handle != 0).ok_or(invalid())?,
            mode: MAP,
            mask: u32::MAX,
            xor: 0,
            rshift: 0,
            addend: 0,
            divisor: 0,
            baseclass: 0,
            perturb: 0,
        },
    };
    params.mode = number(attr::MODE)?.unwrap_or(params.mode);
    if params.mode != HASH && keys.is_some_and(|keys| keys.count_ones() > 1) {
        return Err(invalid());
    }
    if params.mode != HASH {
        params.perturb = 0;
    }
    if let Some(perturb) = number(attr::PERTURB)? {
        if params.mode != HASH {
            return Err(invalid());
        }
        params.perturb = perturb;
    }
    if old.is_none() {
        if baseclass & h::MAJ_MASK == 0 {
            let text = "Must specify baseclass when attaching flow filter to block";
            let qdisc = change.block.qdisc().ok_or(Error::msg(EINVAL, text))?;
            baseclass |= qdisc & h::MAJ_MASK;
        }
        if baseclass & h::MIN_MASK == 0 {
            baseclass |= 1;
        }
    }
    params.keys = keys.unwrap_or(params.keys);
    for (to, ty) in [
        (&mut params.mask, attr::MASK),
        (&mut params.xor, attr::XOR),
        (&mut params.rshift, attr::RSHIFT),
        (&mut params.addend, attr::ADDEND),
        (&mut params.divisor, attr::DIVISOR),
    ] {
        *to = number(ty)?.unwrap_or(*to);
    }
    if baseclass != 0 {
        params.baseclass = baseclass;
    }
    Ok(params)
}

impl Listed for Flow {
    type Filter = Filter;

    fn list(&self) -> &List<Filter> {
        &self.0
    }

    fn classify<'g>(
        &'g self,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code {
        for (_, filter) in self.0.entries(cx.guard) {
            if !filter.tree.holds(cx, packet) {
                continue;
            }
            let class = filter.class(cx, packet);
            out.handle = filter.handle;
            let result = filter.exts.run(cx, packet, out);
            out.classid = class;
            if result >= 0 {
                return result;
            }
        }
        code::UNSPEC
    }

    fn change(
        &self,
        change: &Change<'_>,
        old: Option<Arc<Filter>>,
    ) -> Result<Option<Arc<Filter>>, Error> {
        let options = change.options.as_ref().ok_or(Error::new(EINVAL))?;
        let tb = options.parse_quietly(&POLICY)?;
        let baseclass = match tb.get(attr::BASECLASS) {
            Some(base) => match base.u32()? {
                base if base & h::MIN_MASK == 0 => return Err(Error::new(EINVAL)),
                base => base,
            },
            None => 0,
        };
        let keys = match tb.get(attr::KEYS) {
            Some(keys) => match keys.u32()? {
                0 => return Err(Error::new(EINVAL)),
                keys if keys.ilog2() > key::MAX => return Err(Error::new(EOPNOTSUPP)),
                keys => Some(keys),
            },
            None => None,
        };
        let tree = Tree::parse(tb.get(attr::EMATCHES).as_ref())?;
        let exts = exts::parse(change, &tb, EXTS, 0)?;
        let before = old.as_ref().map(|old| &old.params);
        let parsed = parse(&tb, change, keys, baseclass, before).map(|params| {
            let last = old.is_none().then(|| self.0.number());
            (last, params)
        });
        let make = |params, _: &[_], exts: &mut Pending| {
            // A changed filter keeps its hash for another whole period.
            let start = old.as_ref().map_or(0, |old| old.start.load(Relaxed) as u32);
            let drawn = old.as_ref().is_some_and(|old| old.start.load(Relaxed) != 0);
            Ok(Filter {
                handle: old.as_ref().map_or(change.handle, |old| old.handle),
                params,
                made: change.env.host.now(),
                start: AtomicU64::new(u64::from(drawn) << 32 | u64::from(start)),
                tree,
                exts: exts.commit(),
            })
        };
        self.0.settle(change, old.as_ref(), exts, parsed, make)
    }
}

impl super::Filter for Filter {
    fn handle(&self) -> u32 {
        self.handle
    }

    fn exts(&self) -> &Exts {
        &self.exts
    }

    fn dump(&self, w: &mut Writer, _terse: bool, env: &Env<'_>) {
        let params = &self.params;
        let options = w.nest_noflag(tca::OPTIONS);
        w.put_u32(attr::KEYS, params.keys);
        w.put_u32(attr::MODE, params.mode);
        if params.mask != u32::MAX || params.xor != 0 {
            w.put_u32(attr::MASK, params.mask);
            w.put_u32(attr::XOR, params.xor);
        }
        for (ty, value) in [
            (attr::RSHIFT, params.rshift),
            (attr::ADDEND, params.addend),
            (attr::DIVISOR, params.divisor),
            (attr::BASECLASS, params.baseclass),
            (attr::PERTURB, params.perturb),
        ] {
            if value != 0 {
                w.put_u32(ty, value);
            }
        }
        self.exts.dump(w, EXTS, false, env);
        if !self.tree.is_empty() {
            self.tree.dump(w, attr::EMATCHES);
        }
        w.end(options);
    }
}
