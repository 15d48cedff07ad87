// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `basic`: matches packets with a tree of extended matches.
//!
//! Mirrors net/sched/cls_basic.c. Parameters: `match` (a tree, [`ematch`](super::ematch); default:
//! every packet), `classid` (0: none), actions or a policer in the old form. Handles are assigned
//! from 1 upwards. Filters are tried from the newest to the oldest. Statistics: packets tried and
//! matched.

use std::sync::Arc;

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::{self, basic as attr};
use weir_netlink::{Error, Policy, Rule, Writer, policy};
use weir_packet::Packet;
use weir_sync::percpu::PerCpu;
use weir_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};

use super::ematch::Tree;
use super::exts::{self, Exts, Pending};
use super::list::{List, Listed, free_handle};
use super::{Change, Ops};
use crate::context::Context;
use crate::env::Env;
use crate::verdict::{Code, Outcome, code};

/// The kind's entry in the list of kinds.
pub const OPS: Ops = Ops {
    kind: "basic",
    create: |new| Ok(Box::new(Basic(List::new(new.env.net.domain())))),
    template: None,
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::CLASSID => Rule::u32(),
    attr::EMATCHES => Rule::nested_any(),
};

const EXTS: exts::Attrs = exts::Attrs {
    act: attr::ACT,
    police: attr::POLICE,
    classid: attr::CLASSID,
};

/// The counters on one CPU.
#[derive(Default)]
struct Counts {
    met: AtomicU64,
    matched: AtomicU64,
}

fn up(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed).wrapping_add(1), Relaxed);
}

/// A filter of the kind.
struct Filter {
    handle: u32,
    tree: Tree,
    exts: Exts,
    counts: PerCpu<Counts>,
}

/// An instance; see the module's documentation.
struct Basic(List<Filter>);

impl Listed for Basic {
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
            let counts = filter.counts.get(cx.cpu);
            up(&counts.met);
            if !filter.tree.holds(cx, packet) {
                continue;
            }
            up(&counts.matched);
            out.handle = filter.handle;
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
        let options = change.options.as_ref().ok_or(Error::new(EINVAL))?;
        let tb = options.parse_quietly(&POLICY)?;
        let exts = exts::parse(change, &tb, EXTS, 0)?;
        let parsed = Tree::parse(tb.get(attr::EMATCHES).as_ref()).map(|tree| {
            let newest = (old.is_none()).then(|| u64::MAX / 2 - self.0.number());
            (newest, tree)
        });
        let make = |tree, entries: &[_], exts: &mut Pending| {
            let handle = match (change.handle, &old) {
                (_, Some(old)) => old.handle,
                (0, None) => free_handle(entries)?,
                (handle, None) => handle,
            };
            Ok(Filter {
                handle,
                tree,
                exts: exts.commit(),
                counts: PerCpu::new(),
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
        if self.exts.classid != 0 {
            w.put_u32(attr::CLASSID, self.exts.classid);
        }
        let mut sums = [0_u64; 2];
        for (_, counts) in self.counts.iter() {
            sums[0] = sums[0].wrapping_add(counts.met.load(Relaxed));
            sums[1] = sums[1].wrapping_add(counts.matched.load(Relaxed));
        }
        let sums: Vec<u8> = sums.iter().flat_map(|sum| sum.to_ne_bytes()).collect();
        w.put_64bit(attr::PCNT, &sums, attr::PAD);
        self.exts.dump(w, EXTS, false, env);
        self.tree.dump(w, attr::EMATCHES);
        w.end(options);
    }
}
