// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Actions in messages.
//!
//! Mirrors `tcf_action_dump_terse`, `tcf_action_dump_1` and `tcf_action_dump` (net/sched/act_api.c).

use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::tca::act;
use weir_netlink::{TcGen, Writer};

use super::{Action, ActionRef, HW_STATS_ANY};
use crate::counters::put_action_stats;
use crate::env::Env;

/// How actions are shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct Own {
    /// References taken off the count shown: those of the request itself.
    pub refs: u32,
    /// Only kind, statistics and cookie are wanted.
    pub terse: bool,
    /// A terse dump names the index.
    pub index: bool,
}

/// Writes one action into the nest that is open.
pub fn dump_action(w: &mut Writer, action: &Action, own: Own, env: &Env<'_>) {
    let common = &action.common;
    w.put_str(act::KIND, common.table().ops.kind);
    put_action_stats(w, &common.counters.totals(), common.shown_rate(env));
    if own.terse && own.index {
        w.put_u32(act::INDEX, common.index);
    }
    if let Some(cookie) = common
        .rare(env.guard)
        .and_then(|rare| rare.cookie.as_deref())
    {
        w.put(act::COOKIE, cookie);
    }
    if own.terse {
        return;
    }
    let hw_stats = common.hw_stats();
    if hw_stats != HW_STATS_ANY {
        w.put_bitfield32(act::HW_STATS, u32::from(hw_stats), u32::from(HW_STATS_ANY));
    }
    let flags = common.flags();
    if flags != 0 {
        w.put_bitfield32(act::FLAGS, flags, flags);
    }
    w.put_u32(act::IN_HW_COUNT, 0);
    let options = w.nest_noflag(act::OPTIONS);
    dump_options(w, action, own.refs, env);
    w.end(options);
}

fn dump_options(w: &mut Writer, action: &Action, refs: u32, env: &Env<'_>) {
    let common = &action.common;
    let start = TcGen {
        index: common.index,
        capab: 0,
        action: common.control(),
        refcnt: common.refs.load(Relaxed).wrapping_sub(refs) as i32,
        bindcnt: common.binds.load(Relaxed) as i32,
    };
    action.kind.dump(common, start, env, w);
}

/// Writes the options of an action without what wraps them (`tcf_action_dump_old`).
pub fn dump_old(w: &mut Writer, action: &Action, env: &Env<'_>) {
    dump_options(w, action, 0, env);
}

/// Writes actions into nests 1 and up.
pub fn dump_list(w: &mut Writer, actions: &[ActionRef], own: Own, env: &Env<'_>) {
    for (i, action) in actions.iter().enumerate() {
        let nest = w.nest_noflag(i as u16 + 1);
        dump_action(w, action, own, env);
        w.end(nest);
    }
}
