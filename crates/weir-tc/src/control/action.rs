// SPDX-License-Identifier: Apache-2.0 OR MIT
//! RTM_NEWACTION, RTM_DELACTION, RTM_GETACTION.
//!
//! Mirrors `tc_ctl_action` with everything it calls, and `tc_dump_action` (net/sched/act_api.c).

use weir_netlink::errno::{EINVAL, ENOENT, EPERM};
use weir_netlink::tca::{self, act, root};
use weir_netlink::{
    Attr, Error, Message, Policy, Rule, Strictness, Table, TcaMsg, Writer, nlm, policy, rtm,
};

use super::{DumpCx, Request, replay};
use crate::action::{
    self, ActionRef, Init, MAX, Ops, Own, POLICY, dump_action, dump_list, find_ops,
};
use crate::env::{Env, Reply, Requester};
use crate::unsupported;

static ROOT: Policy = policy! { max root::MAX; };

/// `tcaa_policy`
static DUMP: Policy = policy! { max root::MAX;
    root::FLAGS => Rule::bitfield32(root::ACT_FLAG_LARGE_DUMP_ON | root::ACT_FLAG_TERSE_DUMP),
    root::TIME_DELTA => Rule::u32(),
};

fn text(errno: i32, message: &'static str) -> Error {
    Error::msg(errno, message)
}

/// Serves a request other than a dump.
pub fn handle(request: &Request<'_>, reply: &mut Reply) -> Result<(), Error> {
    let (_, tb) = request
        .message
        .parse::<TcaMsg>(&ROOT, Strictness::Liberal)?;
    let tab = tb
        .get(root::TAB)
        .ok_or(text(EINVAL, "Netlink action attributes missing"))?;
    match request.ty() {
        rtm::NEWACTION => add(request, &tab, reply),
        rtm::DELACTION if request.has(nlm::F_ROOT) => flush(request, &tab, reply),
        _ => get_or_delete(request, &tab, reply),
    }
}

/// Returns the nests 1 to 32, up to the first that is missing.
fn nests<'a>(tab: &Attr<'a>) -> Vec<Attr<'a>> {
    let tb = tab.index(MAX as u16);
    (1..=MAX as u16).map_while(|i| tb.get(i)).collect()
}

/// Encodes a message about actions (`tca_get_fill`).
fn write(w: &mut Writer, ty: u16, by: Requester, actions: &[ActionRef], refs: u32, env: &Env<'_>) {
    let mark = w.message(ty, by.flags, by.seq, by.portid);
    w.fixed(&TcaMsg::default());
    let nest = w.nest_noflag(root::TAB);
    dump_list(
        w,
        actions,
        Own {
            refs,
            ..Own::default()
        },
        env,
    );
    w.end(nest);
    // A message that does not fit into its nests is not sent.
    let _ = w.finish(mark);
}

/// Creates or changes actions (`tcf_action_add`).
fn add(request: &Request<'_>, tab: &Attr<'_>, reply: &mut Reply) -> Result<(), Error> {
    let env = request.env;
    let list = replay(|| {
        let replace = request.has(nlm::F_REPLACE);
        let mut init = Init {
            env,
            block: None,
            filter_flags: 0,
            replace,
            flags: 0,
            rate: None,
        };
        action::init_list(&mut init, tab)
    })?;
    let created: Vec<bool> = list.list.iter().map(|inited| inited.created).collect();
    let actions: Vec<_> = list.commit();
    let offloaded = |action: &&ActionRef| action.common.flags() & act::FLAGS_SKIP_HW == 0;
    for action in actions.iter().filter(offloaded) {
        let could = action.kind.offload(&action.common, env);
        reply.warning = could.err().flatten().or(reply.warning);
    }
    if env.notify_needed(&request.by) {
        let mut w = Writer::new();
        write(&mut w, rtm::NEWACTION, request.by, &actions, 0, env);
        env.notify(&request.by, Some(reply), w.bytes());
    }
    // The reference to a new action is kept as that of its creation.
    for (action, _) in actions.iter().zip(created).filter(|&(_, created)| !created) {
        action.common.table().put(action, false, env);
    }
    Ok(())
}

/// Returns the kind named in the attributes, or `error`.
fn known(tb: &Table<'_>, error: Error) -> Result<&'static Ops, Error> {
    match tb.get(act::KIND) {
        Some(kind) => find_ops(kind.c_str())
            .ok_or_else(|| unsupported::unknown(kind.c_str(), unsupported::ACTIONS, error)),
        None => Err(error),
    }
}

/// Finds an action by kind and index and takes a reference (`tcf_action_get_1`).
fn find(env: &Env<'_>, attr: &Attr<'_>) -> Result<ActionRef, Error> {
    let tb = attr.parse(&POLICY, Strictness::Liberal)?;
    let index = tb.get(act::INDEX).and_then(|index| index.u32().ok());
    let index = index.ok_or(text(EINVAL, "Invalid TC action index value"))?;
    let ops = known(&tb, text(EINVAL, "Specified TC action kind not found"))?;
    let action = env.net.actions(ops).search(index);
    action.ok_or(text(ENOENT, "TC action with specified index not found"))
}

/// Shows or deletes actions (`tca_action_gd`).
fn get_or_delete(request: &Request<'_>, tab: &Attr<'_>, reply: &mut Reply) -> Result<(), Error> {
    let env = request.env;
    let mut actions = Vec::new();
    for attr in nests(tab) {
        match find(env, &attr) {
            Ok(action) => actions.push(action),
            Err(error) => {
                put_all(&actions, env);
                return Err(error);
            }
        }
    }
    if request.ty() == rtm::GETACTION {
        let by = Requester {
            flags: 0,
            ..request.by
        };
        write(&mut reply.out, rtm::GETACTION, by, &actions, 1, env);
        put_all(&actions, env);
        return Ok(());
    }
    let mut w = Writer::new();
    if env.notify_needed(&request.by) {
        let by = Requester {
            flags: 0,
            ..request.by
        };
        write(&mut w, rtm::DELACTION, by, &actions, 2, env);
    }
    let mut rest = actions.into_iter();
    while let Some(action) = rest.next() {
        let table = action.common.table();
        if table.put(&action, false, env) {
            continue;
        }
        if let Err(error) = table.delete(action.common.index, env) {
            put_all(rest.as_slice(), env);
            return Err(error.or_msg("Failed to delete TC action"));
        }
    }
    env.notify(&request.by, Some(reply), w.bytes());
    Ok(())
}

fn put_all(actions: &[ActionRef], env: &Env<'_>) {
    for action in actions {
        action.common.table().put(action, false, env);
    }
}

/// Deletes all actions of a kind (`tca_action_flush`).
fn flush(request: &Request<'_>, tab: &Attr<'_>, reply: &mut Reply) -> Result<(), Error> {
    let env = request.env;
    let invalid = "Invalid netlink attributes while flushing TC action";
    let attr = tab.index(MAX as u16).get(1).ok_or(text(EINVAL, invalid))?;
    let tb = attr.parse(&POLICY, Strictness::Liberal)?;
    let ops = known(&tb, text(EINVAL, "Cannot flush unknown TC action"))?;
    let (count, all) = env.net.actions(ops).flush(env);
    if !all {
        if count == 0 {
            return Err(Error::new(EPERM));
        }
        reply.warning = Some("Unable to flush all TC actions");
    }
    if count > 0 && env.notify_needed(&request.by) {
        let mut w = Writer::new();
        let by = request.by;
        let mark = w.message(rtm::DELACTION, nlm::F_ROOT, by.seq, by.portid);
        w.fixed(&TcaMsg::default());
        let tab = w.nest_noflag(root::TAB);
        let nest = w.nest_noflag(0);
        w.put_str(act::KIND, ops.kind);
        w.put_u32(tca::FCNT, count);
        w.end(nest);
        w.end(tab);
        // A writer without a limit cannot fail.
        let _ = w.finish(mark);
        env.notify(&by, Some(reply), w.bytes());
    }
    Ok(())
}

/// A dump of the actions of one kind in progress.
pub struct Dump {
    ops: Option<&'static Ops>,
    flags: u32,
    /// Show only actions used in the last `since` ticks; 0 for all.
    since: u64,
    /// The index to continue from, or `None` at the end.
    from: Option<u32>,
}

/// Returns the kind to dump (`find_dump_kind`).
fn dump_kind(tb: &Table<'_>) -> Option<&'static Ops> {
    let first = tb.get(root::TAB)?.index(MAX as u16).get(1)?;
    let tb = first.parse(&POLICY, Strictness::Liberal).ok()?;
    find_ops(tb.get(act::KIND)?.c_str())
}

/// Starts a dump. A dump of an unknown kind is empty.
pub fn dump(message: &Message<'_>) -> Result<Dump, Error> {
    let (_, tb) = message.parse::<TcaMsg>(&DUMP, Strictness::Liberal)?;
    let flags = match tb.get(root::FLAGS) {
        Some(flags) => flags.bitfield32()?.0,
        None => 0,
    };
    let msecs = match tb.get(root::TIME_DELTA) {
        Some(delta) => delta.u32()?,
        None => 0,
    };
    let since = u64::from(msecs).div_ceil(10);
    Ok(Dump {
        ops: dump_kind(&tb),
        flags,
        since,
        from: Some(1),
    })
}

impl Dump {
    /// Writes a message with as many actions as fit. Returns `true` if nothing is left. With `one`,
    /// a message holds up to 32 actions, whatever their size.
    pub fn fill(&mut self, cx: &DumpCx<'_>, w: &mut Writer, one: bool) -> Result<bool, Error> {
        let Some(ops) = self.ops else { return Ok(true) };
        let large = self.flags & root::ACT_FLAG_LARGE_DUMP_ON != 0;
        let bound = if large && !one {
            usize::from(u16::MAX)
        } else {
            MAX
        };
        // In Linux the message ends the datagram, although a second message would do no harm.
        if !w.is_empty() {
            return Ok(false);
        }
        let table = cx.env.net.actions(ops);
        let mark = w.message(rtm::GETACTION, cx.by.flags, cx.by.seq, cx.by.portid);
        w.fixed(&TcaMsg::default());
        let count_at = w.len() + 4;
        w.put_u32(root::COUNT, 0);
        let tab = w.nest_noflag(root::TAB);
        let own = Own {
            refs: 0,
            terse: self.flags & root::ACT_FLAG_TERSE_DUMP != 0,
            index: true,
        };
        let (now, mut count, mut full) = (u64::from(cx.env.ticks()), 0, false);
        while let Some((index, action)) = self.from.and_then(|from| table.next(from)) {
            let old = self.since != 0
                && u64::from(action.common.lastuse()) < now.saturating_sub(self.since);
            if !old {
                if count >= bound {
                    break;
                }
                let before = w.mark();
                dump_action(w, count as u16, &action, own, cx.env);
                // The length of a nest has 16 bits. The rest of the margin is for the attributes
                // that follow.
                if w.is_full() || w.len() > usize::from(u16::MAX) - 64 {
                    w.rollback(before);
                    full = true;
                    break;
                }
                count += 1;
            }
            self.from = index.checked_add(1);
        }
        if count == 0 {
            w.rollback(mark);
            // Actions created after the last lookup are left for the next dump.
            return match full {
                true => Err(Error::new(weir_netlink::errno::EMSGSIZE)),
                false => Ok(true),
            };
        }
        w.end(tab);
        if large && let Some(place) = w.bytes_mut().get_mut(count_at..count_at + 4) {
            place.copy_from_slice(&(count as u32).to_ne_bytes());
        }
        w.finish(mark)?;
        Ok(false)
    }
}
