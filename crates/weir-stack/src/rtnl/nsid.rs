// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Namespace ids: RTM_NEWNSID, RTM_GETNSID (`net/core/net_namespace.c`).
//!
//! An id is a namespace's name for another namespace. It is assigned by a request, or automatically
//! when a message must refer to a namespace without an id.

use weir_netlink::netnsa;
use weir_netlink::{Error, Policy, RtGenMsg, Rule, Strictness, Table, errno, policy, rtm};

use std::sync::Arc;

use crate::namespace::{Namespace, NsId};
use crate::nsid::{Ids, Refused, assign, fill, known};
use crate::rtnl::{Collected, Ctl, Dump, Handler};

pub use crate::nsid::{find, id_of};

/// The handled request types.
pub const HANDLERS: &[Handler] = &[
    Handler {
        ty: rtm::NEWNSID,
        doit: Some(new),
        dumpit: None,
    },
    Handler {
        ty: rtm::GETNSID,
        doit: Some(get),
        dumpit: Some(dump),
    },
];

/// `NETNSA_NSID_NOT_ASSIGNED`
const NOT_ASSIGNED: i32 = -1;

/// `rtnl_net_policy`
static POLICY: Policy = policy! {
    max netnsa::MAX;
    netnsa::NSID => Rule::s32(),
    netnsa::PID => Rule::u32(),
    netnsa::FD => Rule::u32(),
    netnsa::TARGET_NSID => Rule::s32(),
};

/// Returns the id of the namespace that a request names by process, file descriptor or id.
fn meant(ctl: &Ctl<'_>, attrs: &Table<'_>, by_id: bool) -> Result<NsId, Error> {
    let at = |ty: u16, error: Error| match attrs.get(ty) {
        Some(attr) => error.at(&attr),
        None => error,
    };
    if let Some(pid) = attrs.u32(netnsa::PID)? {
        return ctl
            .namespace_id_by_pid(pid)
            .map_err(|error| at(netnsa::PID, error).or_msg("Peer netns reference is invalid"));
    }
    if let Some(fd) = attrs.u32(netnsa::FD)? {
        return ctl
            .namespace_id_by_fd(fd)
            .map_err(|error| at(netnsa::FD, error).or_msg("Peer netns reference is invalid"));
    }
    if by_id && let Some(id) = attrs.i32(netnsa::NSID)? {
        let error = || {
            at(
                netnsa::NSID,
                Error::msg(errno::ENOENT, "Peer netns reference is invalid"),
            )
        };
        return ctl.namespace_id_by_nsid(id).ok_or_else(error);
    }
    Err(Error::msg(errno::EINVAL, "Peer netns reference is missing"))
}

/// Returns the namespace whose ids are requested (`NETNSA_TARGET_NSID`).
fn target(
    ctl: &Ctl<'_>,
    attrs: &Table<'_>,
    unknown: &'static str,
) -> Result<Option<Arc<Namespace>>, Error> {
    match attrs.i32(netnsa::TARGET_NSID)? {
        None => Ok(None),
        Some(id) => ctl
            .namespace_by_nsid(id)
            .map(Some)
            .ok_or_else(|| Error::msg(errno::EINVAL, unknown)),
    }
}

/// Assigns an id (`rtnl_net_newid`).
fn new(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let request = ctl.message;
    let (_, attrs) = request.parse::<RtGenMsg>(&POLICY, Strictness::Liberal)?;
    let Some(attr) = attrs.get(netnsa::NSID) else {
        return Err(Error::msg(errno::EINVAL, "nsid is missing"));
    };
    let wanted = attr.i32()?;
    let peer = meant(ctl, &attrs, false)?;
    let id = assign(ctl.ns, peer, (wanted >= 0).then_some(wanted)).map_err(|refused| {
        let text = match refused {
            Refused::Assigned => "Peer netns already has a nsid assigned",
            Refused::Used => "The specified nsid is already used",
        };
        Error::msg(errno::EEXIST, text).at(&attr)
    })?;
    let ns = ctl.ns.clone();
    ctl.notify(&ns, rtm::grp::NSID, rtm::NEWNSID, 0, |out| {
        fill(out, id, None)
    });
    Ok(())
}

/// Returns an id (`rtnl_net_getid`).
fn get(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let request = ctl.message;
    let (_, attrs) = request.parse::<RtGenMsg>(&POLICY, ctl.get_strictness())?;
    let peer = meant(ctl, &attrs, true)?;
    let target = target(ctl, &attrs, "Target netns reference is invalid")?;
    let known = |ns: &Namespace| known(ns, peer).unwrap_or(NOT_ASSIGNED);
    let (id, current) = match &target {
        None => (known(ctl.ns), None),
        Some(target) => (known(target), Some(known(ctl.ns))),
    };
    ctl.reply(rtm::NEWNSID, 0, |out| fill(out, id, current))
}

/// Dumps the ids (`rtnl_net_dumpid`).
fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    let request = ctl.message;
    let (_, attrs) = request.parse::<RtGenMsg>(&POLICY, ctl.get_strictness())?;
    let target = target(ctl, &attrs, "Invalid target network namespace id")?;
    let ids = |ns: &Namespace| {
        let ids = ns.nsids.lock();
        ids.get()
            .into_iter()
            .flat_map(Ids::iter)
            .collect::<Vec<_>>()
    };
    let rows: Vec<(i32, Option<i32>)> = match &target {
        None => ids(ctl.ns).into_iter().map(|(id, _)| (id, None)).collect(),
        Some(target) => ids(target)
            .into_iter()
            .map(|(id, ns)| (id, Some(known(ctl.ns, ns).unwrap_or(NOT_ASSIGNED))))
            .collect(),
    };
    Ok(Collected::boxed(
        rows,
        target.is_some(),
        |ctl, (id, current): &(i32, Option<i32>), out| {
            ctl.message(out, rtm::NEWNSID, |out| fill(out, *id, *current))
        },
    ))
}
