// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cgroup`: matches packets by the control group of the process they come from.
//!
//! Mirrors net/sched/cls_cgroup.c. Parameters: `match` (a tree, [`ematch`](super::ematch)), actions
//! or a policer in the old form. An instance holds one filter, whose handle (not 0) must be given
//! with every change. The filter is deleted only with its instance. No packet here comes from a
//! process, so none matches.

use std::sync::Arc;
use weir_sync::order::{self, Mutex, MutexGuard};

use weir_netlink::errno::{EAGAIN, EINVAL, ENOENT, EOPNOTSUPP};
use weir_netlink::tca::{self, cgroup as attr};
use weir_netlink::{Error, Policy, Rule, Writer, policy};
use weir_packet::Packet;

use super::ematch::Tree;
use super::exts::{self, Exts, Pending};
use super::{Change, Classifier, Ops};
use crate::context::Context;
use crate::env::Env;
use crate::verdict::{Code, Outcome, code};

/// The kind's entry in the list of kinds.
pub const OPS: Ops = Ops {
    kind: "cgroup",
    create: |_| Ok(Box::new(Cgroup::default())),
    template: None,
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::EMATCHES => Rule::nested_any(),
};

const EXTS: exts::Attrs = exts::Attrs {
    act: attr::ACT,
    police: attr::POLICE,
    classid: attr::UNSPEC,
};

/// The filter of an instance.
struct Head {
    handle: u32,
    tree: Tree,
    exts: Exts,
}

#[derive(Default)]
struct State {
    head: Option<Arc<Head>>,
    closed: bool,
}

/// An instance; see the module's documentation.
#[derive(Default)]
pub struct Cgroup {
    /// Guards the filter. The data path does not use it.
    state: Mutex<State, order::Classifier>,
}

impl Cgroup {
    fn lock(&self) -> MutexGuard<'_, State, order::Classifier> {
        self.state.lock()
    }

    /// Checks the handle requested for the filter.
    fn check(head: Option<&Arc<Head>>, handle: u32) -> Result<(), Error> {
        match head {
            None if handle == 0 => Err(Error::new(EINVAL)),
            Some(head) if head.handle != handle => Err(Error::new(ENOENT)),
            _ => Ok(()),
        }
    }
}

impl Classifier for Cgroup {
    fn classify<'g>(
        &'g self,
        _cx: &mut Context<'_, 'g>,
        _packet: &mut Packet,
        _out: &mut Outcome<'g>,
    ) -> Code {
        code::UNSPEC
    }

    /// Linux finds no filter either, so every request counts as one to create the filter.
    fn get(&self, _handle: u32) -> Option<Arc<dyn super::Filter>> {
        None
    }

    fn change(
        &self,
        change: &Change<'_>,
        _old: Option<&Arc<dyn super::Filter>>,
    ) -> Result<Option<Arc<dyn super::Filter>>, Error> {
        let options = change.options.as_ref().ok_or(Error::new(EINVAL))?;
        Self::check(self.lock().head.as_ref(), change.handle)?;
        let tb = options.parse_quietly(&POLICY)?;
        let mut exts = Pending::new(exts::parse(change, &tb, EXTS, 0)?);
        let put = Tree::parse(tb.get(attr::EMATCHES).as_ref()).and_then(|tree| {
            let mut state = self.lock();
            if state.closed {
                return Err(Error::new(EAGAIN));
            }
            Self::check(state.head.as_ref(), change.handle)?;
            Ok(state.head.replace(Arc::new(Head {
                handle: change.handle,
                tree,
                exts: exts.commit(),
            })))
        });
        let old = put.as_ref().ok().and_then(Option::as_deref);
        exts.settle(old.map(|old| old as _), change.env);
        put.map(|_| None)
    }

    fn delete(&self, _filter: &Arc<dyn super::Filter>, _env: &Env<'_>) -> Result<bool, Error> {
        Err(Error::new(EOPNOTSUPP))
    }

    fn next(&self, from: u64) -> Option<(u64, Arc<dyn super::Filter>)> {
        let head = self.lock().head.clone().filter(|_| from == 0)?;
        Some((0, head))
    }

    fn destroy(&self, env: &Env<'_>) {
        let head = {
            let mut state = self.lock();
            state.closed = true;
            state.head.take()
        };
        if let Some(head) = head {
            head.exts.release(env);
        }
    }
}

impl super::Filter for Head {
    fn handle(&self) -> u32 {
        self.handle
    }

    fn exts(&self) -> &Exts {
        &self.exts
    }

    fn dump(&self, w: &mut Writer, _terse: bool, env: &Env<'_>) {
        let options = w.nest_noflag(tca::OPTIONS);
        self.exts.dump(w, EXTS, false, env);
        self.tree.dump(w, attr::EMATCHES);
        w.end(options);
    }
}
