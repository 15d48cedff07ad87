// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Encoding of actions in messages.
//!
//! Mirrors `tcf_action_dump_terse`, `tcf_action_dump_1` and `tcf_action_dump`
//! (net/sched/act_api.c).

use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::tca::act;
use weir_netlink::{Laid, TcGen, Writer, bitfield32, lay_out};

use super::{Action, ActionRef, HW_STATS_ANY};
use crate::counters::{
    Totals, USUAL_STATS, USUAL_STATS_LEN, fill_usual_stats, put_action_stats, put_usual_stats,
};
use crate::env::Env;

/// The attributes that follow the kind of an action without flags: statistics, and the start of the
/// options.
const USUAL: [u8; USUAL_STATS_LEN + 12] = {
    let [stats, basic, hardware, queue] = USUAL_STATS;
    let count = Laid::Value(act::IN_HW_COUNT, 4);
    lay_out(&[
        stats,
        basic,
        hardware,
        queue,
        count,
        Laid::Nest(act::OPTIONS, 0),
    ])
};

/// The form in which actions are dumped.
#[derive(Debug, Clone, Copy, Default)]
pub struct Own {
    /// References held by the request itself, subtracted from the count shown.
    pub refs: u32,
    /// Dump only kind, statistics and cookie.
    pub terse: bool,
    /// Include the index in a terse dump.
    pub index: bool,
}

/// Encodes one action in a nest of type `ty`.
pub fn dump_action(w: &mut Writer, ty: u16, action: &Action, own: Own, env: &Env<'_>) {
    let common = &action.common;
    let nest = w.mark();
    w.put_piece::<24>(|head| {
        head.put(ty, []);
        head.put_name(&common.table().ops.name);
    });
    let totals = common.counters.totals();
    let flags = common.flags();
    let usual = !own.terse && !common.is_unusual() && totals.packets <= u32::MAX.into();
    if usual && flags == 0 {
        let (options, rest) = w.put_laid_out(&USUAL);
        if let Some(rest) = rest.filter(|_| totals != Totals::default()) {
            fill_usual_stats(rest, &totals);
        }
        dump_options(w, action, own.refs, env);
        w.end(options);
        return w.end(nest);
    }
    if !usual {
        put_action_stats(w, &totals, common.shown_rate(env));
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
            return w.end(nest);
        }
        let hw_stats = common.hw_stats();
        if hw_stats != HW_STATS_ANY {
            w.put_bitfield32(act::HW_STATS, u32::from(hw_stats), u32::from(HW_STATS_ANY));
        }
    }
    let options = w.put_piece_open::<92>(|rest| {
        if usual {
            put_usual_stats(rest, &totals);
        }
        if flags != 0 {
            rest.put(act::FLAGS, bitfield32(flags, flags));
        }
        rest.put(act::IN_HW_COUNT, [0; 4]);
        rest.put(act::OPTIONS, []);
    });
    dump_options(w, action, own.refs, env);
    w.end(options);
    w.end(nest);
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

/// Encodes the options of an action without an enclosing nest (`tcf_action_dump_old`).
pub fn dump_old(w: &mut Writer, action: &Action, env: &Env<'_>) {
    dump_options(w, action, 0, env);
}

/// Encodes actions in nests numbered from 1.
pub fn dump_list(w: &mut Writer, actions: &[ActionRef], own: Own, env: &Env<'_>) {
    for (i, action) in actions.iter().enumerate() {
        dump_action(w, i as u16 + 1, action, own, env);
    }
}
