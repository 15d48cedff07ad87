// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `matchall`: matches every packet.
//!
//! Mirrors net/sched/cls_matchall.c. Parameters: `classid` (0: none), actions, offload flags
//! (`skip_sw` is refused because there is no hardware). An instance holds one filter, with handle 1
//! by default. The filter cannot be changed, only deleted (EEXIST). Statistics: packets seen.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};

use weir_netlink::errno::{EAGAIN, EEXIST, EINVAL};
use weir_netlink::tca::{self, matchall as attr};
use weir_netlink::{Error, Policy, Rule, Writer, policy};
use weir_packet::Packet;
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::percpu::PerCpu;
use weir_sync::primitive::atomic::AtomicU64;
use weir_sync::rcu::{Guard, PublishedOption};

use super::exts::{self, Exts};
use super::{Change, Classifier, Filter, Found, Hit, Hits, Lookup, Ops, Terse};
use crate::context::Context;
use crate::early::{Frames, Packets};
use crate::env::Env;
use crate::verdict::{Code, Outcome, code};

/// The kind's entry in the list of kinds.
pub const OPS: Ops = Ops {
    kind: "matchall",
    create: |new| Ok(Box::new(Matchall::new(new.env))),
    template: None,
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::CLASSID => Rule::u32(),
    attr::FLAGS => Rule::u32(),
};

const EXTS: exts::Attrs = exts::Attrs {
    act: attr::ACT,
    police: 0,
    classid: attr::CLASSID,
};

/// The filter of an instance.
struct Head {
    handle: u32,
    flags: u32,
    exts: Exts,
    hits: PerCpu<AtomicU64>,
    deleting: AtomicBool,
}

/// An instance; see the module's documentation.
pub struct Matchall {
    head: PublishedOption<Arc<Head>>,
    /// Guards changes; `true` once the instance is closed.
    closed: Mutex<bool, order::Classifier>,
}

impl Matchall {
    fn new(env: &Env<'_>) -> Self {
        Self {
            head: PublishedOption::new(env.net.domain(), None),
            closed: Mutex::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, bool, order::Classifier> {
        self.closed.lock()
    }

    /// Finds the filter for all wanted packets. Returns `None` if there is none.
    fn find_all<'g>(&'g self, wanted: u64, guard: &'g Guard) -> Option<Found<'g>> {
        Some(Found::one(wanted, self.every(guard)?))
    }

    fn head(&self) -> Option<Arc<Head>> {
        self.head.load(&self.head.domain().pin()).cloned()
    }
}

impl Classifier for Matchall {
    #[inline]
    fn classify<'g>(
        &'g self,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code {
        let Some(head) = self.head.load(cx.guard) else {
            return code::UNSPEC;
        };
        let hits = head.hits.get(cx.cpu);
        hits.store(hits.load(Relaxed).wrapping_add(1), Relaxed);
        out.handle = head.handle;
        head.exts.run(cx, packet, out)
    }

    fn every<'g>(&'g self, guard: &'g Guard) -> Option<Hit<'g>> {
        let head = self.head.load(guard)?;
        Some(Hit {
            handle: head.handle,
            exts: &head.exts,
            seen: Some(&head.hits),
        })
    }

    fn takes_frames(&self, _guard: &Guard) -> bool {
        self.head.is_some()
    }

    fn find_frames<'g>(
        &'g self,
        _frames: Frames<'_>,
        wanted: u64,
        _lookup: &mut Lookup,
        guard: &'g Guard,
        _hits: &mut Hits<'g>,
    ) -> Option<Found<'g>> {
        self.find_all(wanted, guard)
    }

    fn find_batch<'g>(
        &'g self,
        _packets: Packets<'_>,
        wanted: u64,
        _lookup: &mut Lookup,
        guard: &'g Guard,
        _hits: &mut Hits<'g>,
    ) -> Option<Found<'g>> {
        self.find_all(wanted, guard).or(Some(Found::each(0)))
    }

    fn get(&self, handle: u32) -> Option<Arc<dyn Filter>> {
        let head = self.head()?;
        (head.handle == handle).then_some(head as _)
    }

    fn change(
        &self,
        change: &Change<'_>,
        _old: Option<&Arc<dyn Filter>>,
    ) -> Result<Option<Arc<dyn Filter>>, Error> {
        let options = change.options.as_ref().ok_or(Error::new(EINVAL))?;
        let is_free = |closed: bool| match (closed, self.head.is_some()) {
            (true, _) => Err(Error::new(EAGAIN)),
            (_, true) => Err(Error::new(EEXIST)),
            _ => Ok(()),
        };
        is_free(*self.lock())?;
        // Actions look at the chains of the block, whose lock comes before this instance's.
        let tb = options.parse_quietly(&POLICY)?;
        let flags = exts::flags(&tb, attr::FLAGS)?;
        let exts = exts::parse(change, &tb, EXTS, flags)?;
        let flags = match exts::offload(flags) {
            Ok(flags) => flags,
            Err(error) => {
                exts.undo(change.env);
                return Err(error);
            }
        };
        let closed = self.lock();
        if let Err(error) = is_free(*closed) {
            drop(closed);
            exts.undo(change.env);
            return Err(error);
        }
        let head = Head {
            handle: if change.handle == 0 { 1 } else { change.handle },
            flags,
            exts: exts.commit(),
            hits: PerCpu::new(),
            deleting: AtomicBool::new(false),
        };
        self.head.replace(Some(Arc::new(head)));
        // Linux notifies listeners about the instance, not about the filter.
        Ok(None)
    }

    fn delete(&self, filter: &Arc<dyn Filter>, _env: &Env<'_>) -> Result<bool, Error> {
        let filter: &dyn Any = &**filter;
        if let Some(head) = filter.downcast_ref::<Head>() {
            head.deleting.store(true, Release);
        }
        Ok(true)
    }

    fn next(&self, from: u64) -> Option<(u64, Arc<dyn Filter>)> {
        let head = self
            .head()
            .filter(|head| from == 0 && !head.deleting.load(Acquire))?;
        Some((0, head))
    }

    fn destroy(&self, env: &Env<'_>) {
        *self.lock() = true;
        if let Some(head) = self.head.take(env.guard) {
            head.exts.release(env);
        }
    }
}

impl Filter for Head {
    fn handle(&self) -> u32 {
        self.handle
    }

    fn exts(&self) -> &Exts {
        &self.exts
    }

    fn terse(&self) -> Terse {
        Terse::Passed
    }

    fn dump(&self, w: &mut Writer, _terse: bool, env: &Env<'_>) {
        let options = w.nest_noflag(tca::OPTIONS);
        if self.exts.classid != 0 {
            w.put_u32(attr::CLASSID, self.exts.classid);
        }
        w.put_u32(attr::FLAGS, self.flags);
        w.put_u64(
            attr::PCNT,
            self.hits.iter().map(|(_, hits)| hits.load(Relaxed)).sum(),
        );
        self.exts.dump(w, EXTS, false, env);
        w.end(options);
    }
}
