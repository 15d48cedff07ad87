// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rtnetlink server: dispatches requests to the objects they concern (`net/core/rtnetlink.c`).
//!
//! Each object is one file with a `HANDLERS` table; `FAMILIES` lists the tables. A handler gets a
//! [`Ctl`] and touches only the objects that the request names: there is no global lock around
//! requests. Unknown request types get EOPNOTSUPP.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use weir_netlink::{Error, TcMsg, Writer, af, errno, nlm, rtm};
use weir_packet::header::ndisc::NdOption;

use crate::drops::Place;
use crate::layers::{Event, Hears, Module, Site};
use crate::listen::{ConfEvent, Listener};
use crate::namespace::Namespace;
use crate::stack::Stack;
use crate::sysctl::{Ipv4Conf, Ipv6Conf};
use crate::{ipv4, ipv6, multicast};

pub use crate::request::{Collected, Ctl, Dump, DumpCtl, announce, announce_with};

pub mod action;
pub mod address;
pub mod address_label;
mod advertised;
pub mod af_spec;
pub mod chain;
pub mod class;
pub mod fdb;
pub mod filter;
pub mod link;
pub mod mdb;
pub mod neighbour;
pub mod neighbour_table;
pub mod netconf;
pub mod nexthop;
pub mod nsid;
pub mod qdisc;
pub mod route;
pub mod rule;
pub mod stats;
pub mod tunnel;
mod unserved;
pub mod vlan;

/// The handler tables of all objects, one line each.
static FAMILIES: &[&[Handler]] = &[
    address::HANDLERS,
    address_label::HANDLERS,
    link::HANDLERS,
    mdb::HANDLERS,
    neighbour::HANDLERS,
    neighbour_table::HANDLERS,
    netconf::HANDLERS,
    nexthop::HANDLERS,
    nsid::HANDLERS,
    route::HANDLERS,
    rule::HANDLERS,
    qdisc::HANDLERS,
    class::HANDLERS,
    filter::HANDLERS,
    chain::HANDLERS,
    stats::HANDLERS,
    vlan::HANDLERS,
    action::HANDLERS,
    tunnel::HANDLERS,
];

/// The handlers by type, consulted for every request.
static BY_TYPE: LazyLock<Vec<Option<&Handler>>> = LazyLock::new(|| {
    let all = || FAMILIES.iter().copied().flatten();
    (0..=rtm::MAX)
        .map(|ty| all().find(|handler| handler.ty == ty))
        .collect()
});

/// Returns whether requests of this type concern filters or actions.
pub fn makes_rules(ty: u16) -> bool {
    matches!(
        ty,
        rtm::NEWTFILTER | rtm::DELTFILTER | rtm::NEWACTION | rtm::DELACTION
    )
}

/// A handler for a request that is not a dump.
pub type DoIt = fn(&mut Ctl<'_>) -> Result<(), Error>;
/// A function that starts a dump.
pub type DumpIt = fn(&mut Ctl<'_>) -> Result<Box<dyn Dump>, Error>;

/// The handlers of one request type.
pub struct Handler {
    /// `RTM_*`
    pub ty: u16,
    /// The handler for requests that are not dumps.
    pub doit: Option<DoIt>,
    /// Starts a dump.
    pub dumpit: Option<DumpIt>,
}

/// Listeners of rtnetlink hear of what happens below.
pub static MODULE: Module = Module {
    stack: Some(|parts| {
        crate::fib::host::listen(parts, route::hear);
        crate::fib::host::listen_rules(parts, rule::hear);
        crate::fib::host::listen_nexthops(parts, nexthop::hear);
        crate::fib::mpls::listen(
            parts,
            crate::fib::mpls::Listener {
                route: route::mpls::hear,
                input: netconf::hear_mpls,
            },
        );
        crate::neigh::listen(parts, neighbour::hear);
        crate::listen::listen(parts, &Listening);
    }),
    device_event: Some(Hears::of(
        &[
            Event::Changed { ty: 0, change: 0 },
            Event::Features,
            Event::Failover,
            Event::NotifyPeers,
            Event::Moves {
                nsid: 0,
                ifindex: 0,
            },
        ],
        device_event,
    )),
    ..Module::NONE
};

fn device_event(site: &Site<'_>, event: Event) {
    let Site {
        stack,
        guard,
        ns,
        device,
    } = *site;
    match event {
        Event::Changed { ty, change } => link::notify(stack, guard, ns, device, ty, change),
        Event::Features => {
            link::notify_event(
                stack,
                guard,
                ns,
                device,
                weir_netlink::ifla::event::FEATURES,
            );
        }
        Event::Failover => {
            let failover = weir_netlink::ifla::event::BONDING_FAILOVER;
            link::notify_event(stack, guard, ns, device, failover);
        }
        Event::NotifyPeers => {
            link::notify_event(
                stack,
                guard,
                ns,
                device,
                weir_netlink::ifla::event::NOTIFY_PEERS,
            );
        }
        Event::Moves { nsid, ifindex } => {
            link::notify_move(stack, guard, ns, device, nsid, ifindex)
        }
        _ => {}
    }
}

/// Tells the listeners of addresses and settings.
struct Listening;

impl Listener for Listening {
    fn address4(&self, site: &Site<'_>, address: &ipv4::address::Address, ty: u16) {
        address::announce4(site, address, ty);
    }

    fn address6(&self, site: &Site<'_>, address: &ipv6::address::Address, ty: u16) {
        address::announce6(site, address, ty);
    }

    fn prefix6(&self, site: &Site<'_>, prefix: &ipv6::address::auto::Prefix) {
        advertised::prefix(site, prefix);
    }

    fn option6(&self, site: &Site<'_>, option: &NdOption<'_>, router: Ipv6Addr) {
        advertised::option(site, option, router);
    }

    fn multicast4(
        &self,
        stack: &Stack,
        ns: &Namespace,
        router: &ipv4::multicast::Router,
        event: &multicast::Event<'_, Ipv4Addr>,
    ) {
        route::multicast::hear(stack, ns, router, event);
    }

    fn multicast6(
        &self,
        stack: &Stack,
        ns: &Namespace,
        router: &ipv6::multicast::Router,
        event: &multicast::Event<'_, Ipv6Addr>,
    ) {
        route::multicast::hear(stack, ns, router, event);
    }

    fn conf4(&self, ns: &Namespace, event: &ConfEvent<'_, Ipv4Conf>) {
        netconf::hear(ns, event);
    }

    fn conf6(&self, ns: &Namespace, event: &ConfEvent<'_, Ipv6Conf>) {
        netconf::hear(ns, event);
    }
}

/// Returns the address family of a dump. An unregistered family stands for all (`rtnl_get_link`).
fn dumped_family(ctl: &Ctl<'_>) -> u8 {
    let family = ctl.message.family().unwrap_or(af::UNSPEC);
    match family {
        af::INET | af::INET6 => family,
        _ => af::UNSPEC,
    }
}

/// Returns the family of types that Linux registers for one family and not for all.
fn only_family(ty: u16) -> Option<u8> {
    match ty {
        rtm::NEWADDRLABEL..=rtm::GETADDRLABEL => Some(af::INET6),
        rtm::NEWMDB..=rtm::GETMDB
        | rtm::NEWVLAN..=rtm::GETVLAN
        | rtm::NEWTUNNEL..=rtm::GETTUNNEL => Some(af::BRIDGE),
        _ => None,
    }
}

/// A dump that ends immediately with an error.
struct Refused(Option<Error>);

impl Dump for Refused {
    fn fill(&mut self, _ctl: &DumpCtl<'_>, _out: &mut Writer) -> Result<bool, Error> {
        self.0.take().map_or(Ok(true), Err)
    }
}

/// Serves a request (`rtnetlink_rcv_msg`). Returns the dump to run, if the request asks for one.
pub fn start(ctl: &mut Ctl<'_>, dumping: bool) -> Result<Option<Box<dyn Dump>>, Error> {
    let ty = ctl.message.header.ty;
    if ty > rtm::MAX {
        return Err(Error::new(errno::EOPNOTSUPP));
    }
    // All rtnetlink requests begin with an address family.
    if ctl.message.payload().is_empty() {
        return Ok(None);
    }
    let handler = BY_TYPE.get(usize::from(ty)).copied().flatten();
    let handler = handler.ok_or_else(|| unserved::refuse(ty))?;
    let only = only_family(ty);
    if only.is_some() && ctl.message.family() != only {
        return Err(Error::new(errno::EOPNOTSUPP));
    }
    // Types come in groups of four: new, delete, get, set.
    if ty & 3 == 1 && ctl.has(nlm::F_BULK) && !fdb::has_bulk(&ctl.message) {
        return Err(Error::msg(
            errno::EOPNOTSUPP,
            "Bulk delete is not supported",
        ));
    }
    if ty & 3 == 2 && ctl.message.is_dump() {
        let start = handler.dumpit.ok_or_else(|| unserved::refuse(ty))?;
        if dumping {
            return Err(Error::new(errno::EBUSY));
        }
        // An invalid request ends the dump with the error, as in Linux (`netlink_dump`).
        let dump = start(ctl).unwrap_or_else(|error| Box::new(Refused(Some(error))));
        return Ok(Some(dump));
    }
    let serve = handler.doit.ok_or_else(|| unserved::refuse(ty))?;
    serve(ctl).map(|()| None)
}

/// Serves a traffic control request and sends its answers to the client. A success may carry a
/// warning text.
fn serve_tc<R>(
    ctl: &mut Ctl<'_>,
    handle: impl FnOnce(&weir_tc::control::Request<'_>, &mut weir_tc::Reply) -> Result<R, Error>,
) -> Result<R, Error> {
    let (message, portid, ticks) = (ctl.message, ctl.portid, ctl.ticks);
    let mut reply = weir_tc::Reply::default();
    let result = crate::tc::with_env(ctl.stack, ctl.ns, ctl.guard, |env| {
        env.set_ticks(ticks.get());
        let result = handle(
            &weir_tc::control::Request::new(env, message, portid),
            &mut reply,
        );
        ticks.set(env.known_ticks());
        result
    });
    if !reply.out.is_empty() {
        ctl.answers.extend_from_slice(reply.out.bytes());
    }
    match (result, reply.warning) {
        (Ok(_), Some(warning)) => Err(Error::warning(warning)),
        (result, _) => result,
    }
}

/// Serves a request for qdiscs or classes. Drops the packets that waited in a removed one, and
/// schedules what may leave now.
fn serve_queue(
    ctl: &mut Ctl<'_>,
    handle: fn(
        &weir_tc::control::Request<'_>,
        &mut weir_tc::Reply,
    ) -> Result<weir_tc::qdisc::Drops, Error>,
) -> Result<(), Error> {
    let waited = serve_tc(ctl, handle)?;
    let tcm = ctl.message.fixed::<TcMsg>().unwrap_or_default();
    let Some(device) = ctl.ns.device(tcm.ifindex as u32, ctl.guard) else {
        return Ok(());
    };
    for (packet, reason) in waited {
        device.count_drop(Place::Qdisc, reason);
        ctl.stack.trace.end(&packet);
    }
    if ctl.message.header.ty & 3 != 2 && device.tc.has_queue() {
        crate::datapath::rearm_all(ctl.stack, device, ctl.guard);
    }
    Ok(())
}

/// Continues a traffic control dump.
fn fill_tc(
    ctl: &DumpCtl<'_>,
    fill: impl FnOnce(&weir_tc::control::DumpCx<'_>) -> Result<bool, Error>,
) -> Result<bool, Error> {
    let by = weir_tc::Requester {
        portid: ctl.portid,
        seq: ctl.seq,
        flags: ctl.flags,
    };
    crate::tc::with_env(ctl.stack, ctl.ns, ctl.guard, |env| {
        fill(&weir_tc::control::DumpCx { env, by })
    })
}
