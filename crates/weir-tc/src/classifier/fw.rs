// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `fw`: matches the packet's mark.
//!
//! Mirrors net/sched/cls_fw.c. Parameters: the handle, which is the mark (not 0), a mask of the
//! mark, which all filters of an instance share (default: all bits), `classid` (0: none), `indev`,
//! actions or a policer in the old form. Without options the mark itself is the class, provided its
//! major number is 0 or the qdisc's; this does not work in a shared block. A filter with neither
//! class nor actions is shown by its handle alone. Linux aborts any dump at an instance without
//! options; this implementation continues.

use std::sync::{Arc, OnceLock};

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::{self, fw as attr, h};
use weir_netlink::{Error, Policy, Rule, Writer, policy};
use weir_packet::Packet;

use super::exts::{self, Exts, Pending};
use super::list::{List, Listed};
use super::{Change, Ops};
use crate::context::Context;
use crate::env::Env;
use crate::verdict::{Code, Outcome, code};

/// The kind's entry in the list of kinds.
pub const OPS: Ops = Ops {
    kind: "fw",
    create: |new| {
        Ok(Box::new(Fw {
            list: List::new(new.env.net.domain()),
            mask: OnceLock::new(),
            qdisc: new.block.qdisc(),
        }))
    },
    template: None,
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::CLASSID => Rule::u32(),
    attr::INDEV => Rule::string(16),
    attr::MASK => Rule::u32(),
};

const EXTS: exts::Attrs = exts::Attrs {
    act: attr::ACT,
    police: attr::POLICE,
    classid: attr::CLASSID,
};

/// The default mask.
const ALL: u32 = u32::MAX;

/// A filter of the kind.
struct Filter {
    mark: u32,
    ifindex: u32,
    /// The mask of the instance.
    mask: u32,
    exts: Exts,
}

/// An instance; see the module's documentation.
struct Fw {
    list: List<Filter>,
    /// Set with the first filter, even if that filter is then refused.
    mask: OnceLock<u32>,
    /// The qdisc's handle; `None` in a shared block.
    qdisc: Option<u32>,
}

/// Returns the first key of the bucket of a mark in the order of dumps (`fw_hash`). Within a bucket
/// the newest filter comes first.
fn bucket(mark: u32) -> u64 {
    let half = mark ^ mark >> 16;
    u64::from((half ^ half >> 8) & 0xff) << 48
}

impl Listed for Fw {
    type Filter = Filter;

    fn list(&self) -> &List<Filter> {
        &self.list
    }

    fn classify<'g>(
        &'g self,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code {
        let mark = packet.mark;
        let Some(mask) = self.mask.get() else {
            let ours = |qdisc: u32| mark & h::MAJ_MASK == 0 || (mark ^ qdisc) & h::MAJ_MASK == 0;
            if mark == 0 || !self.qdisc.is_some_and(ours) {
                return code::UNSPEC;
            }
            out.classid = mark;
            return code::OK;
        };
        let mark = mark & mask;
        let first = bucket(mark);
        let entries = self.list.entries(cx.guard);
        let at = entries.partition_point(|(key, _)| *key < first);
        let bucket = entries[at..]
            .iter()
            .take_while(|(key, _)| key >> 48 == first >> 48);
        for (_, filter) in bucket {
            if filter.mark != mark || !exts::received_by(packet, filter.ifindex) {
                continue;
            }
            out.handle = filter.mark;
            let result = filter.exts.run(cx, packet, out);
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
        let Some(options) = &change.options else {
            if change.handle != 0 {
                return Err(Error::new(EINVAL));
            }
            if self.qdisc.is_none() {
                let text = "Must specify mark when attaching fw filter to block";
                return Err(Error::msg(EINVAL, text));
            }
            return Ok(None);
        };
        let tb = options.parse_quietly(&POLICY)?;
        if old.is_none() && change.handle == 0 {
            return Err(Error::new(EINVAL));
        }
        let given = match tb.get(attr::MASK) {
            Some(mask) => mask.u32()?,
            None => ALL,
        };
        let mask = *self.mask.get_or_init(|| given);
        let exts = exts::parse(change, &tb, EXTS, 0)?;
        let mark = old.as_ref().map_or(change.handle, |old| old.mark);
        let indev = tb.get(attr::INDEV);
        let indev = indev.map(|attr| exts::indev(&attr, change.env.host));
        let parsed = indev.transpose().and_then(|indev| {
            if given != mask {
                return Err(Error::new(EINVAL));
            }
            let newest = bucket(mark) + (1 << 47) - self.list.number();
            Ok((old.is_none().then_some(newest), indev))
        });
        let make = |indev: Option<u32>, _: &[_], exts: &mut Pending| {
            let before = old.as_ref().map_or(0, |old| old.ifindex);
            Ok(Filter {
                mark,
                ifindex: indev.unwrap_or(before),
                mask,
                exts: exts.commit(),
            })
        };
        self.list.settle(change, old.as_ref(), exts, parsed, make)
    }
}

impl super::Filter for Filter {
    fn handle(&self) -> u32 {
        self.mark
    }

    fn exts(&self) -> &Exts {
        &self.exts
    }

    fn dump(&self, w: &mut Writer, _terse: bool, env: &Env<'_>) {
        if self.exts.classid == 0 && self.exts.actions().is_empty() {
            return;
        }
        let options = w.nest_noflag(tca::OPTIONS);
        if self.exts.classid != 0 {
            w.put_u32(attr::CLASSID, self.exts.classid);
        }
        if self.ifindex != 0
            && let Some(device) = env.host.device(self.ifindex)
        {
            w.put_str(attr::INDEV, &device.name());
        }
        if self.mask != ALL {
            w.put_u32(attr::MASK, self.mask);
        }
        self.exts.dump(w, EXTS, false, env);
        w.end(options);
    }
}
