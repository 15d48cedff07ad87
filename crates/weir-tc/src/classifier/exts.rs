// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts common to all filters: actions and a class (`struct tcf_exts`, `struct tcf_result`),
//! and the offload flags, which are accepted although there is no hardware.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::*};

use weir_netlink::errno::{EINVAL, ENODEV, EOPNOTSUPP};
use weir_netlink::tca::{self, act, cls_flags};
use weir_netlink::{Attr, Error, Table, Writer};
use weir_packet::Packet;
use weir_sync::primitive::prefetch;
use weir_sync::rcu::Guard;

use super::{Change, Filter};
use crate::action::{self, ActionRef, Init, InitList, Own, init_list, init_police};
use crate::context::Context;
use crate::counters;
use crate::env::Env;
use crate::host::Host;
use crate::verdict::{Code, Outcome, code};

/// Actions in order. A single action, the usual case, needs no allocation.
#[derive(Debug)]
enum Actions {
    One(ActionRef),
    Many(Option<Box<Many>>),
}

/// More than one action. Two actions, the next most frequent case, need one allocation.
#[derive(Debug)]
enum Many {
    Two([ActionRef; 2]),
    More(Box<[ActionRef]>),
}

const _: () = assert!(size_of::<Exts>() <= 24 && size_of::<Many>() <= 32);

/// The filter is counted in the budget.
const COUNTED: u32 = 1 << 31;
/// The single action is a policer in the old form and is shown in that form (`TCA_OLD_COMPAT`).
const OLD_POLICE: u32 = 1 << 30;

impl Default for Actions {
    fn default() -> Self {
        Self::Many(None)
    }
}

impl FromIterator<ActionRef> for Actions {
    fn from_iter<I: IntoIterator<Item = ActionRef>>(actions: I) -> Self {
        let mut rest = actions.into_iter();
        let many = match (rest.next(), rest.next(), rest.next()) {
            (None, ..) => return Self::default(),
            (Some(one), None, _) => return Self::One(one),
            (Some(one), Some(two), None) => Many::Two([one, two]),
            (Some(one), Some(two), Some(three)) => {
                Many::More([one, two, three].into_iter().chain(rest).collect())
            }
        };
        Self::Many(Some(Box::new(many)))
    }
}

impl Actions {
    #[inline]
    fn all(&self) -> &[ActionRef] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(None) => &[],
            Self::Many(Some(many)) => match &**many {
                Many::Two(two) => two,
                Many::More(more) => more,
            },
        }
    }
}

/// The bound actions of a filter, and its class.
#[derive(Debug, Default)]
pub struct Exts {
    actions: Actions,
    /// [`COUNTED`], [`OLD_POLICE`], and flags of the kind.
    flags: AtomicU32,
    /// The class the filter selects, 0 for none.
    pub classid: u32,
}

/// The actions of a filter whose creation may still fail.
#[must_use]
pub struct NewExts {
    actions: InitList,
    old_police: bool,
    classid: u32,
}

/// A kind's attribute types for the parts parsed here; 0 if the kind lacks one.
#[derive(Debug, Clone, Copy)]
pub struct Attrs {
    /// The actions.
    pub act: u16,
    /// A policer in the old form: its attributes without the nesting of actions.
    pub police: u16,
    /// The class.
    pub classid: u16,
}

/// Creates the actions of a filter from its options `tb` (`tcf_exts_validate_ex`).
pub fn parse(
    change: &Change<'_>,
    tb: &Table<'_>,
    attrs: Attrs,
    flags: u32,
) -> Result<NewExts, Error> {
    // The budget is checked before anything is created.
    let budget = change.env.net.budget();
    budget.take_filter(change.exists)?;
    make(change, tb, attrs, flags).inspect_err(|_| budget.give_filter())
}

fn make(change: &Change<'_>, tb: &Table<'_>, attrs: Attrs, flags: u32) -> Result<NewExts, Error> {
    let mut init = Init {
        env: change.env,
        block: Some(change.block),
        filter_flags: flags,
        replace: change.replace,
        flags: 0,
        rate: change.tca.get(tca::RATE),
    };
    let police = tb.get(attrs.police).filter(|_| attrs.police != 0);
    let old_police = police.is_some();
    let actions = match (police, tb.get(attrs.act)) {
        (Some(police), _) => init_police(&mut init, &police)?,
        (None, Some(act)) => init_list(&mut init, &act)?,
        (None, None) => InitList::default(),
    };
    let classid = match tb.get(attrs.classid).map(|attr: Attr<'_>| attr.u32()) {
        Some(Ok(classid)) => classid,
        Some(Err(error)) => {
            actions.undo(true, change.env);
            return Err(error);
        }
        None => 0,
    };
    Ok(NewExts {
        actions,
        old_police,
        classid,
    })
}

impl NewExts {
    /// Makes the new actions visible, for a filter that is created.
    pub fn commit(self) -> Exts {
        let form = if self.old_police { OLD_POLICE } else { 0 };
        Exts {
            actions: self.actions.commit(),
            flags: AtomicU32::new(COUNTED | form),
            classid: self.classid,
        }
    }

    /// Undoes the actions of a filter that is not created.
    pub fn undo(self, env: &Env<'_>) {
        self.actions.undo(true, env);
        env.net.budget().give_filter();
    }
}

impl Exts {
    /// Returns the flags of the kind.
    pub(crate) fn flags(&self) -> u32 {
        self.flags.load(Acquire) & !(COUNTED | OLD_POLICE)
    }

    /// Sets flags of the kind and returns the previous ones.
    pub(crate) fn set_flags(&self, flags: u32) -> u32 {
        self.flags.fetch_or(flags, AcqRel) & !(COUNTED | OLD_POLICE)
    }

    fn is(&self, flag: u32) -> bool {
        self.flags.load(Relaxed) & flag != 0
    }

    /// Prefetches the first action for a packet that will be processed soon.
    #[inline]
    pub(crate) fn prefetch(&self) {
        if let Actions::Many(Some(many)) = &self.actions {
            prefetch(std::ptr::from_ref(&**many));
        } else if let Actions::One(action) = &self.actions {
            // The common part of the action, which fills a cache line together with the reference
            // counts in front.
            prefetch(Arc::as_ptr(action).cast::<u8>());
        }
    }

    /// Prefetches all actions for [`release`](Self::release) or a dump. The list of actions should already be
    /// in the cache.
    #[inline]
    pub(crate) fn prefetch_release(&self) {
        for action in self.actions() {
            prefetch(Arc::as_ptr(action).cast::<u8>());
        }
    }

    /// Prefetches what a dump of the actions reads beside them. The actions should already be in
    /// the cache.
    #[inline]
    pub(crate) fn prefetch_dump(&self, guard: &Guard) {
        for action in self.actions() {
            action.kind.prefetch(guard);
        }
    }

    /// Prefetches the counters of the action, which should already be in the cache.
    #[inline]
    pub(crate) fn prefetch_counters(&self, cpu: usize) {
        if let Actions::One(action) = &self.actions {
            action.common.counters.prefetch(cpu);
        }
    }

    /// Returns whether the only action counts and drops every packet.
    #[inline]
    pub(crate) fn only_drops(&self, guard: &Guard) -> bool {
        match &self.actions {
            Actions::One(action) => {
                let common = &action.common;
                common.flags() & act::FLAGS_SKIP_SW == 0 && action.kind.only_drops(common, guard)
            }
            Actions::Many(_) => false,
        }
    }

    /// Runs the actions (`tcf_exts_exec`) and sets the class.
    #[inline]
    pub fn run<'g>(
        &'g self,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code {
        out.classid = self.classid;
        out.chain = None;
        if self.actions().is_empty() {
            return code::OK;
        }
        action::run(self.actions(), cx, packet, out)
    }

    /// Drops the references to the actions of a deleted filter. Packets in flight may still run
    /// them.
    pub fn release(&self, env: &Env<'_>) {
        for action in self.actions() {
            action.common.table().put(action, true, env);
        }
        if self.is(COUNTED) {
            env.net.budget().give_filter();
        }
    }

    /// Encodes the actions (`tcf_exts_dump`).
    pub fn dump(&self, w: &mut Writer, attrs: Attrs, terse: bool, env: &Env<'_>) {
        if self.is(OLD_POLICE) {
            let nest = w.nest_noflag(attrs.police);
            for action in self.actions() {
                action::dump_old(w, action, env);
            }
            w.end(nest);
        } else if !self.actions().is_empty() {
            let nest = w.nest_noflag(attrs.act);
            action::dump_list(
                w,
                self.actions(),
                Own {
                    terse,
                    ..Own::default()
                },
                env,
            );
            w.end(nest);
        }
    }

    /// Encodes the counters of a policer in the old form after the options (`tcf_exts_dump_stats`).
    pub fn dump_stats(&self, w: &mut Writer, env: &Env<'_>) {
        for action in self.actions().iter().filter(|_| self.is(OLD_POLICE)) {
            let (common, rate) = (&action.common, action.common.shown_rate(env));
            counters::put_compat_stats(w, &common.counters.totals(), rate);
        }
    }

    /// Returns the actions.
    #[inline]
    pub fn actions(&self) -> &[ActionRef] {
        self.actions.all()
    }
}

/// The actions of a filter that is being created. Must be completed with [`settle`](Self::settle).
#[must_use]
pub struct Pending(Option<NewExts>);

impl Pending {
    /// Creates the state in which no filter has the actions.
    pub fn new(exts: NewExts) -> Self {
        Self(Some(exts))
    }

    /// Moves the actions into the filter. Nothing may fail afterwards.
    pub fn commit(&mut self) -> Exts {
        self.0.take().map(NewExts::commit).unwrap_or_default()
    }

    /// Completes a change: undoes actions that were not moved into a filter, and releases those of
    /// the filter that was replaced.
    pub fn settle(self, replaced: Option<&dyn Filter>, env: &Env<'_>) {
        if let Some(exts) = self.0 {
            exts.undo(env);
        }
        if let Some(old) = replaced {
            old.exts().release(env);
        }
    }
}

/// Parses the offload flags in attribute `ty` (`tc_flags_valid`).
pub fn flags(tb: &Table<'_>, ty: u16) -> Result<u32, Error> {
    let flags = match tb.get(ty) {
        Some(attr) => attr.u32()?,
        None => 0,
    };
    let skip = cls_flags::SKIP_HW | cls_flags::SKIP_SW;
    if flags & !(skip | cls_flags::VERBOSE) != 0 || flags & skip == skip {
        return Err(Error::new(EINVAL));
    }
    Ok(flags)
}

/// Returns the resulting offload flags. No device can offload, so `skip_sw` is refused
/// (`tc_setup_cb_add`), and everything else is flagged as not in hardware.
pub fn offload(flags: u32) -> Result<u32, Error> {
    if flags & cls_flags::SKIP_SW != 0 {
        return Err(Error::new(EOPNOTSUPP));
    }
    Ok(flags | cls_flags::NOT_IN_HW)
}

/// Returns the index of the device that an `indev` attribute names (`tcf_change_indev`).
pub fn indev(attr: &Attr<'_>, host: &dyn Host) -> Result<u32, Error> {
    let name = attr.c_str();
    if name.len() >= 16 {
        return Err(Error::msg(EINVAL, "Interface name too long").at(attr));
    }
    let device = std::str::from_utf8(name)
        .ok()
        .and_then(|name| host.device_by_name(name));
    match device {
        Some(device) => Ok(device.ifindex()),
        None => Err(Error::msg(ENODEV, "Network device not found").at(attr)),
    }
}

/// Returns whether a packet was received by the device with that index, 0 for any
/// (`tcf_match_indev`).
#[inline]
pub fn received_by(packet: &Packet, ifindex: u32) -> bool {
    ifindex == 0 || packet.iif == ifindex
}

/// Compares filters by identity.
pub fn same<T: ?Sized, U: ?Sized>(a: &Arc<T>, b: &Arc<U>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))
}
