// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `route`: matches packets by the realms of their route, or by the device that received them.
//!
//! Mirrors net/sched/cls_route.c. Parameters: `to` and `from` (realms, 0 to 255), `fromif` (index
//! of a device, up to 32767; not together with `from`), `classid` (0: none), actions or a policer
//! in the old form. The handle follows from these: the lower half is `to`, or 0x8000 without it;
//! the upper half is `from`, the index with 0x8000, or 0xffff. Bits 8 to 14 may be chosen to
//! distinguish filters. A filter can only be changed to other parameters (EEXIST).
//!
//! There are no realms here: a routed packet has the realms 0; all other packets, including all
//! received ones, match nothing. As in Linux, `fromif` matches only indices that are multiples of
//! 16, because the lookup hashes the index differently from the insertion.

use std::sync::Arc;

use weir_netlink::errno::{EEXIST, EINVAL};
use weir_netlink::tca::{self, route4 as attr};
use weir_netlink::{Error, Policy, Rule, Table, Writer, policy};
use weir_packet::Packet;

use super::exts::{self, Exts, Pending};
use super::list::{List, Listed};
use super::{Change, Ops};
use crate::context::Context;
use crate::env::Env;
use crate::verdict::{Code, Outcome, code};

/// The kind's entry in the list of kinds.
pub const OPS: Ops = Ops {
    kind: "route",
    create: |new| Ok(Box::new(Route(List::new(new.env.net.domain())))),
    template: None,
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::CLASSID => Rule::u32(),
    attr::TO => Rule::u32(),
    attr::FROM => Rule::u32(),
    attr::IIF => Rule::u32(),
};

const EXTS: exts::Attrs = exts::Attrs {
    act: attr::ACT,
    police: attr::POLICE,
    classid: attr::CLASSID,
};

/// The table of filters without `to`.
const ANY_TO: u32 = 256;
/// The first of the 16 buckets of filters by device.
const BY_DEVICE: u32 = 16;
/// The bucket of filters without `from` and `fromif`.
const WILD: u32 = 32;

/// A filter of the kind.
struct Filter {
    handle: u32,
    /// The realms; that of the source is in the upper half.
    id: u32,
    ifindex: u32,
    exts: Exts,
}

/// An instance; see the module's documentation.
struct Route(List<Filter>);

/// Returns the table of a handle (`to_hash`).
fn to_hash(handle: u32) -> u32 {
    let any = if handle & 0x8000 != 0 { ANY_TO } else { 0 };
    (handle & 0xff) + any
}

/// Returns the bucket of a handle, from its upper half (`from_hash`); 256 for none.
fn from_hash(handle: u32) -> u32 {
    match handle >> 16 {
        0xffff => WILD,
        id if id & 0x8000 != 0 => BY_DEVICE + (id & 15),
        id if id > 255 => 256,
        id => id & 15,
    }
}

/// Returns the first key of a bucket in the order of dumps.
fn bucket(table: u32, bucket: u32) -> u64 {
    u64::from(table) << 54 | u64::from(bucket) << 48
}

/// Returns the key of a filter. Keys sort by handle within a bucket and leave room for several
/// filters with the same one.
fn key(handle: u32) -> u64 {
    bucket(to_hash(handle), from_hash(handle)) | u64::from(handle) << 16
}

/// Returns the handle that follows from the parameters, and the two numbers given.
fn parse(tb: &Table<'_>, handle: u32, new: bool) -> Result<(u32, u32, u32), Error> {
    let invalid = || Error::new(EINVAL);
    let number = |ty, max| match tb.get(ty) {
        Some(attr) => match attr.u32()? {
            number if number > max => Err(invalid()),
            number => Ok(number),
        },
        None => Ok(0),
    };
    if tb.has(attr::TO) && new && handle & 0x8000 != 0 {
        return Err(invalid());
    }
    let to = number(attr::TO, 0xff)?;
    let mut found = if tb.has(attr::TO) { to } else { 0x8000 };
    let mut id = 0;
    if tb.has(attr::FROM) {
        if tb.has(attr::IIF) {
            return Err(invalid());
        }
        id = number(attr::FROM, 0xff)?;
        found |= id << 16;
    } else if tb.has(attr::IIF) {
        id = number(attr::IIF, 0x7fff)?;
        found |= (id | 0x8000) << 16;
    } else {
        found |= 0xffff_0000;
    }
    if new {
        found |= handle & 0x7f00;
        if found != handle {
            return Err(invalid());
        }
    }
    if found == 0 {
        let text = "Replacing with handle of 0 is invalid";
        return Err(Error::msg(EINVAL, text));
    }
    Ok((found, to, id))
}

impl Listed for Route {
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
        if !cx.is_routed(packet) {
            return code::UNSPEC;
        }
        let (id, ifindex) = (0, packet.iif);
        let entries = self.0.entries(cx.guard);
        let in_bucket = |table, number| {
            let (first, end) = (bucket(table, number), bucket(table, number + 1));
            let at = entries.partition_point(|(key, _)| *key < first);
            entries[at..].iter().take_while(move |(key, _)| *key < end)
        };
        for table in [id & 0xff, ANY_TO] {
            for number in [id >> 16, BY_DEVICE + (ifindex >> 16 & 15), WILD] {
                for (_, filter) in in_bucket(table, number) {
                    let holds = match number {
                        WILD => true,
                        0..BY_DEVICE => filter.id == id,
                        _ => filter.ifindex == ifindex,
                    };
                    if !holds {
                        continue;
                    }
                    out.handle = filter.handle;
                    let result = filter.exts.run(cx, packet, out);
                    if result >= 0 {
                        return result;
                    }
                }
            }
        }
        code::UNSPEC
    }

    fn may_have(&self, handle: u32) -> bool {
        to_hash(handle) <= ANY_TO && from_hash(handle) <= WILD
    }

    fn change(
        &self,
        change: &Change<'_>,
        old: Option<Arc<Filter>>,
    ) -> Result<Option<Arc<Filter>>, Error> {
        if change.handle == 0 {
            let text = "Creating with handle of 0 is invalid";
            return Err(Error::msg(EINVAL, text));
        }
        let options = change.options.as_ref().ok_or(Error::new(EINVAL))?;
        let tb = options.parse_quietly(&POLICY)?;
        let exts = exts::parse(change, &tb, EXTS, 0)?;
        let parsed = parse(&tb, change.handle, old.is_none());
        let parsed = parsed.map(|parsed| (Some(key(parsed.0)), parsed));
        let make = |(handle, to, id), entries: &[_], exts: &mut Pending| {
            // The filter itself counts if it stays in its bucket.
            let here = |other: u32| {
                to_hash(other) == to_hash(handle) && from_hash(other) == from_hash(handle)
            };
            if old.as_ref().is_some_and(|old| here(old.handle)) && !entries.is_empty() {
                return Err(Error::new(EEXIST));
            }
            let (mut realms, mut ifindex) = old.as_ref().map_or((0, 0), |o| (o.id, o.ifindex));
            if tb.has(attr::TO) {
                realms = to;
            }
            if tb.has(attr::FROM) {
                realms = to | id << 16;
            } else if tb.has(attr::IIF) {
                ifindex = id;
            }
            Ok(Filter {
                handle,
                id: realms,
                ifindex,
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
        let options = w.nest_noflag(tca::OPTIONS);
        if self.handle & 0x8000 == 0 {
            w.put_u32(attr::TO, self.id & 0xff);
        }
        if self.handle & 0x8000_0000 == 0 {
            w.put_u32(attr::FROM, self.id >> 16);
        } else if self.handle >> 16 != 0xffff {
            w.put_u32(attr::IIF, self.ifindex);
        }
        if self.exts.classid != 0 {
            w.put_u32(attr::CLASSID, self.exts.classid);
        }
        self.exts.dump(w, EXTS, false, env);
        w.end(options);
    }
}
