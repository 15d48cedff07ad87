// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rtnetlink server: dispatches requests to the objects they concern (`net/core/rtnetlink.c`).
//!
//! Each object is one file with a `HANDLERS` table; `FAMILIES` lists the tables. A handler gets a
//! [`Ctl`] and touches only the objects that the request names: there is no global lock around
//! requests. Unknown request types get EOPNOTSUPP.

use std::cell::Cell;
use std::sync::{Arc, LazyLock};

use weir_netlink::{Error, Message, Strictness, TcMsg, Writer, af, errno, nlm, rtm};
use weir_sync::rcu::Guard;

use crate::addresses::Site;
use crate::connection::Peer;
use crate::device::Device;
use crate::drops::Place;
use crate::namespace::{Namespace, NsId};
use crate::stack::Stack;

pub mod action;
pub mod address;
pub mod address_label;
pub mod af_spec;
pub mod chain;
pub mod class;
pub mod fdb;
pub mod filter;
pub mod link;
pub mod neighbour;
pub mod neighbour_table;
pub mod netconf;
pub mod nsid;
pub mod qdisc;
pub mod route;
pub mod rule;
mod unserved;

/// The handler tables of all objects, one line each.
static FAMILIES: &[&[Handler]] = &[
    address::HANDLERS,
    address_label::HANDLERS,
    link::HANDLERS,
    neighbour::HANDLERS,
    neighbour_table::HANDLERS,
    netconf::HANDLERS,
    nsid::HANDLERS,
    route::HANDLERS,
    rule::HANDLERS,
    qdisc::HANDLERS,
    class::HANDLERS,
    filter::HANDLERS,
    chain::HANDLERS,
    action::HANDLERS,
    unserved::HANDLERS,
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

/// The context of a request.
pub struct Ctl<'a> {
    /// The stack.
    pub stack: &'a Stack,
    /// The socket's namespace.
    pub ns: &'a Arc<Namespace>,
    /// Keeps everything the handler reads alive.
    pub guard: &'a Guard,
    /// The client behind the socket.
    pub peer: &'a dyn Peer,
    /// The request.
    pub message: Message<'a>,
    /// The socket's port id.
    pub portid: u32,
    /// `NETLINK_GET_STRICT_CHK`
    pub strict: bool,
    /// The time in ticks, once a request of the datagram has needed it.
    pub ticks: &'a Cell<Option<u32>>,
    /// The answers to the datagram so far; see [`Ctl::reply`].
    pub answers: &'a mut Vec<u8>,
}

impl<'a> Ctl<'a> {
    /// Returns whether the request has all of `flags` (`NLM_F_*`).
    pub fn has(&self, flags: u16) -> bool {
        self.message.header.has(flags)
    }

    /// Returns how strictly to validate the attributes of this request. Dump and get requests are
    /// validated strictly on strict sockets.
    pub fn get_strictness(&self) -> Strictness {
        if self.strict {
            Strictness::DeprecatedStrict
        } else {
            Strictness::Liberal
        }
    }

    /// Returns the context for changing the addresses of a device in the socket's namespace.
    pub(crate) fn site<'s>(&'s self, device: &'s Arc<Device>) -> Site<'s> {
        Site::new(self.stack, self.guard, self.ns, device)
    }

    /// Sends an answer to the requester. `fill` writes one message of type `ty`. Returns EMSGSIZE
    /// if one of its attributes would be too long.
    pub fn reply(
        &mut self,
        ty: u16,
        flags: u16,
        fill: impl FnOnce(&mut Writer),
    ) -> Result<(), Error> {
        let out = one_message(ty, flags, self.message.header.seq, self.portid, fill);
        if out.is_empty() {
            return Err(Error::new(errno::EMSGSIZE));
        }
        self.answers.extend_from_slice(out.bytes());
        Ok(())
    }

    /// Notifies the listeners of `group` in `ns` of a change caused by this request. If the request
    /// has `NLM_F_ECHO`, the requester gets a copy too (`rtnl_notify`).
    pub fn notify(
        &mut self,
        ns: &Namespace,
        group: u32,
        ty: u16,
        flags: u16,
        fill: impl FnOnce(&mut Writer),
    ) {
        let echo = self.has(nlm::F_ECHO);
        if !echo && !ns.subscribers.anybody(group) {
            return;
        }
        let out = one_message(ty, flags, self.message.header.seq, self.portid, fill);
        ns.subscribers
            .notify(group, out.bytes(), echo.then_some(self.portid));
        if echo {
            self.answers.extend_from_slice(out.bytes());
        }
    }

    /// Returns the namespace that the request names by nsid (`rtnl_get_net_ns_capable`).
    pub fn namespace_by_nsid(&self, nsid: i32) -> Option<Arc<Namespace>> {
        let id = nsid::find(self.ns, nsid)?;
        self.stack.namespace(id)
    }

    /// Returns the namespace that a file descriptor of the client refers to.
    pub fn namespace_by_fd(&self, fd: u32) -> Result<Arc<Namespace>, Error> {
        self.lookup(self.peer.namespace_by_fd(fd))
            .ok_or_else(|| Error::new(errno::EINVAL))
    }

    /// Returns the namespace of a process.
    pub fn namespace_by_pid(&self, pid: u32) -> Result<Arc<Namespace>, Error> {
        self.lookup(self.peer.namespace_by_pid(pid))
            .ok_or_else(|| Error::new(errno::ESRCH))
    }

    fn lookup(&self, id: Option<NsId>) -> Option<Arc<Namespace>> {
        self.stack.namespace(id?)
    }
}

/// Builds one message. The result is empty if one of its attributes would be too long. (A route can
/// collect more next hops over several requests than one request can name.)
fn one_message(
    ty: u16,
    flags: u16,
    seq: u32,
    portid: u32,
    fill: impl FnOnce(&mut Writer),
) -> Writer {
    let mut out = Writer::new();
    let message = out.message(ty, flags, seq, portid);
    fill(&mut out);
    // A message that does not fit is removed again.
    let _ = out.finish(message);
    out
}

/// Notifies the listeners of a change that was not caused by a request.
pub fn announce(ns: &Namespace, group: u32, ty: u16, fill: impl FnOnce(&mut Writer)) {
    announce_with(ns, group, (ty, 0), fill);
}

/// Like [`announce`], with a message type and flags.
pub fn announce_with(
    ns: &Namespace,
    group: u32,
    (ty, flags): (u16, u16),
    fill: impl FnOnce(&mut Writer),
) {
    if !ns.subscribers.anybody(group) {
        return;
    }
    let out = one_message(ty, flags, 0, 0, fill);
    ns.subscribers.notify(group, out.bytes(), None);
}

/// The context of a dump each time it is continued.
pub struct DumpCtl<'a> {
    /// The stack.
    pub stack: &'a Stack,
    /// The socket's namespace.
    pub ns: &'a Arc<Namespace>,
    /// Keeps everything read for this datagram alive.
    pub guard: &'a Guard,
    /// The port id for the header of each message.
    pub portid: u32,
    /// The sequence number for the header of each message.
    pub seq: u32,
    /// `NLM_F_MULTI`, and `NLM_F_DUMP_FILTERED` if the dump is filtered.
    pub flags: u16,
}

impl DumpCtl<'_> {
    /// Writes one message of the dump. Returns `false`, having written nothing, if the datagram is
    /// full.
    pub fn message(&self, out: &mut Writer, ty: u16, fill: impl FnOnce(&mut Writer)) -> bool {
        let message = out.message(ty, self.flags, self.seq, self.portid);
        fill(out);
        out.finish(message).is_ok()
    }
}

/// A running dump. It resumes where it stopped, even if the table has changed meanwhile.
pub trait Dump: Send {
    /// Writes messages until the datagram is full (`Ok(false)`) or the dump is complete
    /// (`Ok(true)`).
    fn fill(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error>;

    /// Writes a single message that exceeds the usual datagram size; `out` has no limit. If it
    /// still does not fit, the dump ends with EMSGSIZE.
    fn fill_one(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error> {
        self.fill(ctl, out)
    }

    /// Returns a change counter of the dumped objects. A change during the dump sets
    /// `NLM_F_DUMP_INTR`.
    fn generation(&self, _ctl: &DumpCtl<'_>) -> u32 {
        0
    }

    /// Returns whether the dump is filtered, as a strict request may ask (`NLM_F_DUMP_FILTERED`).
    fn is_filtered(&self) -> bool {
        false
    }
}

/// A dump of objects that were collected when it started.
pub struct Collected<T, F> {
    items: std::vec::IntoIter<T>,
    next: Option<T>,
    fill: F,
    filtered: bool,
}

impl<T, F> Collected<T, F>
where
    T: Send + 'static,
    F: FnMut(&DumpCtl<'_>, &T, &mut Writer) -> bool + Send + 'static,
{
    /// Dumps `items` with `fill`, which returns `false` if its message did not fit
    /// ([`DumpCtl::message`]).
    pub fn boxed(items: Vec<T>, filtered: bool, fill: F) -> Box<dyn Dump> {
        Box::new(Self {
            items: items.into_iter(),
            next: None,
            fill,
            filtered,
        })
    }
}

impl<T, F> Dump for Collected<T, F>
where
    T: Send,
    F: FnMut(&DumpCtl<'_>, &T, &mut Writer) -> bool + Send,
{
    fn fill_one(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error> {
        match self.next.take().or_else(|| self.items.next()) {
            // It exceeds the maximum length of an attribute.
            Some(item) if !(self.fill)(ctl, &item, out) => Err(Error::new(errno::EMSGSIZE)),
            _ => Ok(false),
        }
    }

    fn fill(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error> {
        while let Some(item) = self.next.take().or_else(|| self.items.next()) {
            if !(self.fill)(ctl, &item, out) {
                self.next = Some(item);
                if out.is_empty() {
                    return Err(Error::new(errno::EMSGSIZE));
                }
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_filtered(&self) -> bool {
        self.filtered
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
    // Types come in groups of four: new, delete, get, set.
    if ty & 3 == 1 && ctl.has(nlm::F_BULK) && !fdb::has_bulk(&ctl.message) {
        return Err(Error::msg(
            errno::EOPNOTSUPP,
            "Bulk delete is not supported",
        ));
    }
    if ty & 3 == 2 && ctl.message.is_dump() {
        // This is IPv6-only and not registered for all families.
        if ty == rtm::GETADDRLABEL && ctl.message.family() != Some(af::INET6) {
            return Err(Error::new(errno::EOPNOTSUPP));
        }
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
