// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Expectations of connections (`ctnetlink_exp`). Only helpers expect connections, and there are none: lists are
//! empty, nothing is found, and nothing can be added.

use weir_netlink::{Error, NfGenMsg, Policy, Rule, Writer, cta, errno, nfnl, policy};

use super::conntrack::wire;
use super::{Callback, Request, Started};
use crate::rtnl::{Collected, Ctl, DumpCtl};

/// The messages of the subsystem.
pub(super) static CALLBACKS: &[Callback] = &[
    Callback {
        message: nfnl::MSG_EXP_NEW,
        call: new,
        policy: Some(&POLICY),
    },
    Callback {
        message: nfnl::MSG_EXP_GET,
        call: get,
        policy: Some(&POLICY),
    },
    Callback {
        message: nfnl::MSG_EXP_DELETE,
        call: delete,
        policy: Some(&POLICY),
    },
    Callback {
        message: nfnl::MSG_EXP_GET_STATS_CPU,
        call: statistics,
        policy: None,
    },
];

/// `exp_nla_policy`
static POLICY: Policy = policy! { max cta::expect::MAX;
    cta::expect::MASTER => Rule::nested_any(),
    cta::expect::TUPLE => Rule::nested_any(),
    cta::expect::MASK => Rule::nested_any(),
    cta::expect::TIMEOUT => Rule::u32(),
    cta::expect::ID => Rule::u32(),
    cta::expect::HELP_NAME => Rule::nul_string(15),
    cta::expect::ZONE => Rule::u16(),
    cta::expect::FLAGS => Rule::u32(),
    cta::expect::CLASS => Rule::u32(),
    cta::expect::NAT => Rule::nested_any(),
    cta::expect::FN => Rule::nul_string(0),
};

/// Dumps nothing, or looks an expectation up (`ctnetlink_get_expect`).
fn get(ctl: &mut Ctl<'_>, request: &Request<'_>) -> Started {
    if request.is_dump(ctl) {
        if request.attrs.has(cta::expect::MASTER) {
            master(ctl, request)?;
        }
        let fill = |_: &DumpCtl<'_>, (): &(), _: &mut Writer| true;
        return request.dump(Collected::boxed(Vec::new(), false, fill));
    }
    Err(missing(request))
}

/// Deletes the expectations that the request names (`ctnetlink_del_expect`).
fn delete(_ctl: &mut Ctl<'_>, request: &Request<'_>) -> Started {
    if request.attrs.has(cta::expect::TUPLE) {
        return Err(missing(request));
    }
    Ok(None)
}

/// Refuses an expectation: its connection has no helper (`ctnetlink_new_expect`).
fn new(ctl: &mut Ctl<'_>, request: &Request<'_>) -> Started {
    let tb = &request.attrs;
    if !tb.has(cta::expect::TUPLE) || !tb.has(cta::expect::MASK) || !tb.has(cta::expect::MASTER) {
        return Err(Error::new(errno::EINVAL));
    }
    let zone = wire::zone(tb.get(cta::expect::ZONE))?;
    let tuple = tb.require(cta::expect::TUPLE)?;
    wire::tuple(
        &tuple,
        request.header.family,
        wire::Side::Original,
        &mut zone.clone(),
    )?;
    if !ctl.has(weir_netlink::nlm::F_CREATE) {
        return Err(Error::new(errno::ENOENT));
    }
    master(ctl, request)?;
    let text = "Expectations need a helper, and there are none";
    Err(Error::unsupported(text))
}

/// Finds the connection that an expectation belongs to.
fn master(ctl: &Ctl<'_>, request: &Request<'_>) -> Result<(), Error> {
    let mut zone = wire::zone(request.attrs.get(cta::expect::ZONE))?;
    let attr = request.attrs.require(cta::expect::MASTER)?;
    let tuple = wire::tuple(
        &attr,
        request.header.family,
        wire::Side::Original,
        &mut zone,
    )?;
    let table = ctl.ns.tc.conntrack_if_used();
    let found = table.and_then(|table| table.find(&tuple, zone.id, ctl.stack.clock.now()));
    found.map(|_| ()).ok_or(Error::new(errno::ENOENT))
}

/// The error of a request for one expectation.
fn missing(request: &Request<'_>) -> Error {
    let zone = wire::zone(request.attrs.get(cta::expect::ZONE));
    let parsed = zone.and_then(|mut zone| {
        let attr = request.attrs.get(cta::expect::TUPLE);
        let attr = attr.or_else(|| request.attrs.get(cta::expect::MASTER));
        let attr = attr.ok_or(Error::new(errno::EINVAL))?;
        wire::tuple(
            &attr,
            request.header.family,
            wire::Side::Original,
            &mut zone,
        )
    });
    parsed.err().unwrap_or(Error::new(errno::ENOENT))
}

/// Dumps the counters of each CPU, all 0 (`ctnetlink_stat_exp_cpu`).
fn statistics(ctl: &mut Ctl<'_>, request: &Request<'_>) -> Started {
    if !request.is_dump(ctl) {
        return Ok(None);
    }
    let fill = |ctl: &DumpCtl<'_>, (): &(), out: &mut Writer| {
        let ty = nfnl::msg_type(nfnl::SUBSYS_CTNETLINK_EXP, nfnl::MSG_EXP_GET_STATS_CPU);
        ctl.message(out, ty, |w| {
            w.fixed(&NfGenMsg::default());
            for counter in [
                cta::stats_exp::NEW,
                cta::stats_exp::CREATE,
                cta::stats_exp::DELETE,
            ] {
                w.put_be32(counter, 0);
            }
        })
    };
    request.dump(Collected::boxed(vec![()], false, fill))
}
