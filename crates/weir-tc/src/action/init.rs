// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Creates, changes, or finds and binds actions from the attributes of a request.
//!
//! Mirrors `tcf_action_init` with everything it calls, and the sequence shared by the `init`
//! functions of all kinds (net/sched/act_api.c, act_gact.c). New actions become visible all
//! together once nothing can fail any more; a refusal undoes the request's changes.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::errno::{EAGAIN, EBUSY, EEXIST, EINVAL, ENOENT, EOPNOTSUPP};
use weir_netlink::tca::{act, cls_flags};
use weir_netlink::{Attr, Error, Fixed, Policy, Rule, Strictness, Table, policy};

use super::{Action, ActionRef, Common, HW_STATS_ANY, KINDS, MAX, Ops, Spec, USER_FLAGS};
use crate::block::{self, Block};
use crate::chain::Chain;
use crate::env::Env;
use crate::estimator::Estimator;
use crate::table::{self, Slot};
use crate::unsupported;
use crate::verdict::{Code, code};

/// The number of actions of a request whose parsed attributes are kept on the call stack.
const FEW: usize = 2;

/// `TC_COOKIE_MAX_SIZE`
const COOKIE_MAX: u16 = 16;

/// `tcf_action_policy`
pub(crate) static POLICY: Policy = policy! { max act::MAX;
    act::KIND => Rule::string(0),
    act::INDEX => Rule::u32(),
    act::COOKIE => Rule::binary(COOKIE_MAX),
    act::OPTIONS => Rule::nested_any(),
    act::FLAGS => Rule::bitfield32(USER_FLAGS),
    act::HW_STATS => Rule::bitfield32(HW_STATS_ANY as u32),
};

/// The circumstances of a request that creates actions.
pub struct Init<'a> {
    /// The environment of the request.
    pub env: &'a Env<'a>,
    /// For a filter: the block it is in, where "goto chain" finds its chain.
    pub block: Option<&'a Arc<Block>>,
    /// For a filter: its flags (`TCA_CLS_FLAGS_*`).
    pub filter_flags: u32,
    /// Existing actions may be changed (`TCA_ACT_FLAGS_REPLACE`).
    pub replace: bool,
    /// The `TCA_ACT_FLAGS_*` of the current action.
    pub flags: u32,
    /// For a filter: the rate estimator of new actions (`TCA_RATE`).
    pub rate: Option<Attr<'a>>,
}

impl Init<'_> {
    /// Returns whether a filter binds the actions.
    fn binds(&self) -> bool {
        self.block.is_some()
    }
}

/// An action that a request has created or found.
#[derive(Debug)]
pub struct Inited {
    /// The action, with a reference held by the request.
    pub action: ActionRef,
    /// The action is new and not visible yet.
    pub created: bool,
}

/// Returns the kind with a name (`tc_lookup_action`).
pub fn find_ops(name: &[u8]) -> Option<&'static Ops> {
    KINDS.iter().find(|ops| ops.kind.as_bytes() == name)
}

/// Returns the kind that an action's attributes name (`tc_action_load_ops`).
fn load_ops<'a>(attr: &Attr<'a>, tb: &mut Table<'a>) -> Result<&'static Ops, Error> {
    attr.parse_into(&POLICY, Strictness::Liberal, tb)?;
    let kind = tb
        .get(act::KIND)
        .ok_or_else(|| Error::msg(EINVAL, "TC action kind must be specified"))?;
    let name = kind.c_str();
    if name.len() >= 16 {
        return Err(Error::msg(EINVAL, "TC action name too long"));
    }
    find_ops(name).ok_or_else(|| {
        let unknown = Error::msg(ENOENT, "Failed to load TC action module");
        unsupported::unknown(name, unsupported::ACTIONS, unknown)
    })
}

/// Checks the control action and returns the chain it goes to, with a reference
/// (`tcf_action_check_ctrlact`).
fn check_control(action: Code, init: &Init<'_>) -> Result<Option<Arc<Chain>>, Error> {
    if !code::is_valid(action) {
        return Err(Error::msg(EINVAL, "invalid control action"));
    }
    if !code::is_goto(action) {
        return Ok(None);
    }
    let Some(block) = init.block else {
        return Err(Error::msg(EINVAL, "can't goto NULL proto/chain"));
    };
    match block.get_chain_for_action(code::value(action)) {
        Some(chain) => Ok(Some(chain)),
        None => Err(Error::new(EAGAIN)),
    }
}

/// Parses mandatory options and returns the parameters in attribute `parms`. For kinds whose `init`
/// in Linux gives no extended acknowledgement: errors have no message (EINVAL).
pub(super) fn required<'a, T: Fixed>(
    options: Option<&Attr<'a>>,
    policy: &'static Policy,
    parms: u16,
    tb: &mut Table<'a>,
) -> Result<T, Error> {
    let options = options.ok_or(Error::new(EINVAL))?;
    options
        .parse_into(policy, Strictness::Liberal, tb)
        .map_err(Error::quiet)?;
    let parms = tb.get(parms).and_then(|attr| T::from_bytes(attr.payload));
    parms.ok_or(Error::new(EINVAL))
}

/// Creates, changes or binds an action, as the `init` functions of all kinds do.
pub(super) fn init_kind<K: Spec>(
    init: &Init<'_>,
    table: &Arc<table::Table>,
    options: Option<&Attr<'_>>,
) -> Result<Inited, Error> {
    if let (Some(sentence), Some(block)) = (K::AT_EDGES, init.block)
        && options.is_some()
        && !block.is_at_edge()
    {
        return Err(Error::msg(EOPNOTSUPP, sentence));
    }
    let (index, request) = K::parse(options)?;
    match table.find_or_reserve(index, init.binds())? {
        Slot::Reserved(index) => {
            create::<K>(init, table, index, request).inspect_err(|_| table.cancel(index))
        }
        Slot::Existing(action) => {
            if init.binds() {
                return Ok(Inited {
                    action,
                    created: false,
                });
            }
            match change::<K>(init, &action, request) {
                Ok(()) => Ok(Inited {
                    action,
                    created: false,
                }),
                Err(error) => {
                    table.put(&action, false, init.env);
                    Err(error)
                }
            }
        }
    }
}

/// A control action and the chain it goes to.
type Control = (Code, Option<Arc<Chain>>);

/// Looks up the control action's chain and the kind's parameters. On error no reference is kept.
fn resolve<K: Spec>(
    init: &Init<'_>,
    mut request: K::Request,
    exists: bool,
) -> Result<(Control, K::Params), Error> {
    K::verify(&mut request, exists)?;
    let control = K::control(&request);
    let chain = check_control(control, init)?;
    match K::prepare(request, init.env.host) {
        Ok(params) => {
            K::note(&params, init.env);
            Ok(((control, chain), params))
        }
        Err(error) => {
            if let Some(chain) = chain {
                block::put_by_action(&chain, init.env);
            }
            Err(error)
        }
    }
}

fn create<K: Spec>(
    init: &Init<'_>,
    table: &Arc<table::Table>,
    index: u32,
    mut request: K::Request,
) -> Result<Inited, Error> {
    K::validate(&request, false)?;
    let parse = |rate: &Attr<'_>| Estimator::parse(rate, init.env.host.now(), (0, 0));
    let estimator = init.rate.as_ref().map(parse).transpose();
    let (estimator, rated) = match estimator {
        Ok(estimator) => (estimator, Ok(init.rate.is_some())),
        Err(error) => (None, Err(error)),
    };
    K::rated(&mut request, rated)?;
    let budget = init.env.net.budget();
    budget.take_action(table.ops.size)?;
    let resolved =
        resolve::<K>(init, request, false).inspect_err(|_| budget.give_action(table.ops.size));
    let ((control, chain), params) = resolved?;
    let common = Common::new(index, init.flags, init.binds(), table, init.env);
    common.set_control(control, chain, init.env);
    if let Some(estimator) = estimator {
        common.set_rate(estimator, init.env);
    }
    common.set_more::<K>(&params, init.env);
    let action: ActionRef = Arc::new(Action {
        common,
        kind: K::create(params, init.env),
    });
    Ok(Inited {
        action,
        created: true,
    })
}

fn change<K: Spec>(
    init: &Init<'_>,
    action: &ActionRef,
    mut request: K::Request,
) -> Result<(), Error> {
    K::validate(&request, true)?;
    if !init.replace {
        let error = Error::new(EEXIST);
        return Err(K::EXISTS.into_iter().fold(error, Error::or_msg));
    }
    let kind: &dyn Any = &action.kind;
    let kind = kind.downcast_ref::<K>().ok_or(Error::new(EINVAL))?;
    K::rated(&mut request, Ok(action.common.is_rated()))?;
    let ((control, chain), params) = resolve::<K>(init, request, true)?;
    let old = {
        let _lock = action.common.lock();
        let old = action.common.set_control(control, chain, init.env);
        action.common.set_more::<K>(&params, init.env);
        kind.change(params);
        old
    };
    if let Some(old) = old {
        block::put_by_action(&old, init.env);
    }
    Ok(())
}

/// Creates, changes or binds one action of a list (`tcf_action_init_1`).
fn init_one(init: &mut Init<'_>, ops: &'static Ops, tb: &Table<'_>) -> Result<Inited, Error> {
    let flags = match tb.get(act::FLAGS) {
        Some(flags) => flags.bitfield32()?.0,
        None => 0,
    };
    let both = act::FLAGS_SKIP_HW | act::FLAGS_SKIP_SW;
    if flags & both == both {
        return Err(Error::new(EINVAL));
    }
    let hw_stats = match tb.get(act::HW_STATS) {
        Some(stats) => stats.bitfield32()?.0 as u8,
        None => HW_STATS_ANY,
    };
    init.flags = flags;
    let table = init.env.net.actions(ops);
    let inited = (ops.init)(init, table, tb.get(act::OPTIONS).as_ref())?;
    if let Some(cookie) = tb.get(act::COOKIE) {
        inited.action.common.set_cookie(cookie.payload, init.env);
    }
    inited.action.common.set_hw_stats(hw_stats);
    Ok(inited)
}

/// Checks the offload flags of an action against those of the filter that binds it. Without a
/// filter, `skip_sw` is refused because there is no hardware; the error is that of a kind no
/// hardware supports (`tcf_action_offload_add_ex`).
fn check_offload(init: &Init<'_>, action: &Action) -> Result<(), Error> {
    const MISMATCH: &str = "Mismatch between action and filter offload flags";
    let common = &action.common;
    let (skip_sw, skip_hw) = (
        common.flags() & act::FLAGS_SKIP_SW != 0,
        common.flags() & act::FLAGS_SKIP_HW != 0,
    );
    if !init.binds() {
        if skip_sw {
            let could = action.kind.offload(common, init.env);
            let errno = if could.is_ok() { EINVAL } else { EOPNOTSUPP };
            return Err(match could.err().flatten() {
                Some(sentence) => Error::msg(errno, sentence),
                None => Error::new(errno),
            });
        }
        return Ok(());
    }
    let filter_skip_sw = init.filter_flags & cls_flags::SKIP_SW != 0;
    let filter_skip_hw = init.filter_flags & cls_flags::SKIP_HW != 0;
    if !common.is_bound_kind() {
        if (skip_sw, skip_hw) != (filter_skip_sw, filter_skip_hw) {
            return Err(Error::msg(EINVAL, MISMATCH));
        }
        return Ok(());
    }
    if (skip_sw && !filter_skip_sw) || (skip_hw && !filter_skip_hw) {
        return Err(Error::msg(EINVAL, MISMATCH));
    }
    let mut inherited = 0;
    if filter_skip_sw {
        inherited |= act::FLAGS_SKIP_SW;
    }
    if filter_skip_hw {
        inherited |= act::FLAGS_SKIP_HW;
    }
    if inherited != 0 {
        common.flags.fetch_or(inherited, Relaxed);
    }
    Ok(())
}

/// The actions of one request; new ones are not visible yet. Must be completed with
/// [`commit`](Self::commit) or [`undo`](Self::undo).
#[derive(Debug, Default)]
#[must_use]
pub struct InitList {
    /// The actions in the order of the request.
    pub list: Vec<Inited>,
}

impl InitList {
    /// Returns whether the list has a new action with the index that the attributes in `tb` ask
    /// for.
    fn reserves(&self, ops: &'static Ops, tb: &Table<'_>) -> bool {
        let wanted = (ops.index)(tb.get(act::OPTIONS).as_ref());
        self.list.iter().any(|Inited { action, created }| {
            let common = &action.common;
            *created && std::ptr::eq(common.table().ops, ops) && Some(common.index) == wanted
        })
    }

    /// Makes the new actions visible (`tcf_idr_insert_many`).
    pub fn commit<C: FromIterator<ActionRef>>(self) -> C {
        let publish = |inited: Inited| {
            if inited.created {
                inited.action.common.table().publish(&inited.action);
            }
            inited.action
        };
        self.list.into_iter().map(publish).collect()
    }

    /// Undoes the request.
    pub fn undo(self, bind: bool, env: &Env<'_>) {
        for Inited { action, created } in self.list {
            let common = &action.common;
            if created {
                action.release(env);
                common.table().cancel(common.index);
            } else {
                common.table().put(&action, bind, env);
            }
        }
    }
}

/// Creates, changes or binds the policer of a filter in the old form, where the attribute holds the
/// policer's own options (`TCA_ACT_FLAGS_POLICE` of `tcf_action_init_1`).
pub fn init_police(init: &mut Init<'_>, attr: &Attr<'_>) -> Result<InitList, Error> {
    let ops = KINDS.iter().find(|ops| ops.kind == "police");
    let ops = ops.ok_or(Error::msg(ENOENT, "Failed to load TC action module"))?;
    init.flags = 0;
    let table = init.env.net.actions(ops);
    let inited = (ops.init)(init, table, Some(attr))?;
    if inited.created {
        inited.action.common.set_hw_stats(0);
    }
    let list = vec![inited];
    Ok(InitList { list })
}

/// Creates, changes or binds the actions in the nests 1 to 32 of `attr`, up to the first nest that
/// is missing (`tcf_action_init`).
pub fn init_list(init: &mut Init<'_>, attr: &Attr<'_>) -> Result<InitList, Error> {
    let tb = attr.index(MAX as u16);
    let attrs = || (1..=MAX as u16).map_while(|i| tb.get(i));
    // All kinds are looked up before any action is created. In the usual case there are only a few
    // actions, whose attributes are then parsed only once.
    let mut few = [const { (None, Table::empty()) }; FEW];
    let mut count = 0;
    for attr in attrs() {
        match few.get_mut(count) {
            Some((ops, tb)) => *ops = Some(load_ops(&attr, tb)?),
            None => _ = load_ops(&attr, &mut Table::empty())?,
        }
        count += 1;
    }
    let mut done = InitList {
        list: Vec::with_capacity(count),
    };
    let make = |init: &mut Init<'_>, done: &mut InitList, ops, tb: &Table<'_>| {
        let inited = init_one(init, ops, tb).map_err(|error| match error.errno {
            // Retrying would never succeed, because the request itself has reserved the index.
            // Linux retries endlessly.
            EAGAIN if done.reserves(ops, tb) => Error::msg(
                EBUSY,
                "Action index is already used by another action in the request",
            ),
            _ => error,
        })?;
        let checked = check_offload(init, &inited.action);
        done.list.push(inited);
        checked
    };
    for (at, attr) in attrs().enumerate() {
        let made = match few.get(at) {
            Some((Some(ops), tb)) => make(init, &mut done, ops, tb),
            _ => {
                let mut tb = Table::empty();
                let loaded = load_ops(&attr, &mut tb);
                loaded.and_then(|ops| make(init, &mut done, ops, &tb))
            }
        };
        if let Err(error) = made {
            done.undo(init.binds(), init.env);
            return Err(error);
        }
    }
    Ok(done)
}
