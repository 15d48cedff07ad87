// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routes: RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE of IPv4 and IPv6 (`net/ipv4/fib_frontend.c`,
//! `net/ipv4/route.c`, `net/ipv6/route.c`).
//!
//! | file | contents |
//! |---|---|
//! | `parse` | parsing of attributes |
//! | `fill` | writing of attributes |
//! | `dump`, `filter` | dumps of tables, with the filters of a strict request |
//! | `get` | `ip route get`: routes one packet |
//! | [`mpls`], `labels` | routes of MPLS labels; stacks of labels, `encap mpls` |
//! | [`multicast`] | multicast routes, `ip mroute` |
//!
//! Not implemented, and rejected by name: realms, encapsulation other than `ip`, `ip6` and `mpls`, source-specific IPv6 routes.

mod dump;
mod fill;
mod filter;
mod get;
mod labels;
pub mod mpls;
pub mod multicast;
mod parse;

use std::sync::Arc;

use weir_netlink::{Error, RtMsg, Writer, af, errno, rtm};

use crate::device::Device;
use crate::fib::host::Host;
use crate::fib::host::WithRoutes;
use crate::fib::route::{Event, RouteConfig};
use crate::fib::{Address, Events, RouteDevice};
use crate::namespace::Namespace;
use crate::rtnl::{Ctl, Handler};
use crate::stack::Stack;

use fill::Look;
pub use fill::table_byte;

/// The handled request types.
pub const HANDLERS: &[Handler] = &[
    Handler {
        ty: rtm::NEWROUTE,
        doit: Some(new),
        dumpit: None,
    },
    Handler {
        ty: rtm::DELROUTE,
        doit: Some(delete),
        dumpit: None,
    },
    Handler {
        ty: rtm::GETROUTE,
        doit: Some(get::get),
        dumpit: Some(dump::start),
    },
];

fn group<K: Address>() -> u32 {
    if K::IPV6 {
        rtm::grp::IPV6_ROUTE
    } else {
        rtm::grp::IPV4_ROUTE
    }
}

fn ty<K, D: RouteDevice>(event: &Event<K, D>) -> u16 {
    if event.new {
        rtm::NEWROUTE
    } else {
        rtm::DELROUTE
    }
}

fn fill_event<K: Address, D: RouteDevice>(out: &mut Writer, event: &Event<K, D>, look: Look<'_>) {
    if event.new {
        fill::route(out, &event.route, look);
    } else {
        fill::gone(out, &event.route, look);
    }
}

/// Notifies the listeners of changes that were not caused by a request.
pub(super) fn hear(stack: &Stack, ns: &Namespace, events: Events<'_, Arc<Device>>) {
    match events {
        Events::V4(events) => announce(stack, ns, events),
        Events::V6(events) => announce(stack, ns, events),
    }
}

fn announce<K: Address>(stack: &Stack, ns: &Namespace, events: &[Event<K, Arc<Device>>]) {
    if events.is_empty() || !ns.subscribers.anybody(group::<K>()) {
        return;
    }
    let guard = stack.domain.pin();
    let look = Look::new(stack, ns, &guard);
    for event in events {
        let mut out = Writer::new();
        let message = out.message(ty(event), event.flags, 0, 0);
        fill_event(&mut out, event, look);
        if out.finish(message).is_ok() {
            ns.subscribers.notify(group::<K>(), out.bytes(), None);
        }
    }
}

/// Notifies the listeners of changes that a request caused.
pub(super) fn notify<K: Address, D: RouteDevice>(ctl: &mut Ctl<'_>, events: &[Event<K, D>]) {
    let ns = ctl.ns.clone();
    let look = Look::new(ctl.stack, &ns, ctl.guard);
    for event in events {
        ctl.notify(&ns, group::<K>(), ty(event), event.flags, |out| {
            fill_event(out, event, look);
        });
    }
}

pub(in crate::rtnl) fn host<'a>(ctl: &Ctl<'a>) -> Host<'a> {
    Host {
        stack: ctl.stack,
        ns: ctl.ns,
        guard: ctl.guard,
    }
}

/// Adds, replaces or changes a route (`inet_rtm_newroute`, `inet6_rtm_newroute`).
fn new(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let ns = ctl.ns.clone();
    match ctl.message.family() {
        Some(af::INET) => {
            let config = parse::config4(ctl)?;
            let mut events = Vec::new();
            let done = ns
                .fib()
                .v4
                .add(&config, &host(ctl), &ns.fib().v6, ctl.guard, &mut events);
            notify(ctl, &events);
            done
        }
        Some(af::INET6) => {
            let mut config = parse::config6(ctl)?;
            if config.priority == 0 {
                config.priority = crate::fib::table6::METRIC_USER;
            }
            let mut events = Vec::new();
            let done = ns.fib().v6.add(&config, &host(ctl), ctl.guard, &mut events);
            if let Some(expires) = config.expires {
                crate::ipv6::expire_routes_at(ctl.stack, &ns, expires);
            }
            notify(ctl, &events);
            done
        }
        Some(af::MPLS) => mpls::new(ctl),
        Some(af::IPMR) => multicast::change(ctl, true),
        _ => Err(Error::new(errno::EOPNOTSUPP)),
    }
}

/// Deletes routes (`inet_rtm_delroute`, `inet6_rtm_delroute`).
fn delete(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let ns = ctl.ns.clone();
    match ctl.message.family() {
        Some(af::INET) => {
            let config = parse::config4(ctl)?;
            let mut events = Vec::new();
            let done = ns.fib().v4.delete(&config, ctl.guard, &mut events);
            notify(ctl, &events);
            done
        }
        Some(af::INET6) => {
            let config = parse::config6(ctl)?;
            let header = ctl.message.fixed::<RtMsg>()?;
            if header.flags & rtm::f::CLONED != 0 {
                return uncache(&ns, &config);
            }
            let mut events = Vec::new();
            let done = ns.fib().v6.delete(&config, ctl.guard, &mut events);
            notify(ctl, &events);
            done
        }
        Some(af::MPLS) => mpls::delete(ctl),
        Some(af::IPMR) => multicast::change(ctl, false),
        _ => Err(Error::new(errno::EOPNOTSUPP)),
    }
}

/// Deletes exceptions of IPv6 routes (`ip6_del_cached_rt`).
fn uncache(ns: &Namespace, config: &RouteConfig<u128>) -> Result<(), Error> {
    let hop = &config.hop;
    let removed = ns.fib().v6.remove_exceptions(|one| {
        one.dst == config.dst
            && config.dst_len == 128
            && one.table == config.table
            && (hop.oif == 0 || hop.oif == one.oif())
            && (hop.gateway.is_none() || hop.gateway == one.gateway)
    });
    match removed {
        0 => Err(Error::new(errno::ESRCH)),
        _ => Ok(()),
    }
}
