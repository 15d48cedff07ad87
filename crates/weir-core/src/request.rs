// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The context of a control request, its answers, dumps, and notifications (`netlink_rcv_skb`,
//! `netlink_dump`, `rtnl_notify`).

use std::cell::Cell;
use std::sync::Arc;

use weir_netlink::{Error, Message, Strictness, Writer, errno, nlm};
use weir_sync::rcu::Guard;

use crate::device::Device;
use crate::layers::Site;
use crate::namespace::{Namespace, NsId};
use crate::stack::Stack;

/// The questions that the stack asks about the client behind a socket.
pub trait Peer: Send + Sync {
    /// Returns the namespace that a file descriptor of the client refers to (`get_net_ns_by_fd`).
    fn namespace_by_fd(&self, fd: u32) -> Option<NsId>;
    /// Returns the namespace a process is in (`get_net_ns_by_pid`).
    fn namespace_by_pid(&self, pid: u32) -> Option<NsId>;
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

    /// Returns the context for changes to the addresses of a device of the socket's namespace.
    pub fn site<'s>(&'s self, device: &'s Arc<Device>) -> Site<'s> {
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
        self.lookup(crate::nsid::find(self.ns, nsid))
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

    /// Returns the id of the namespace that a file descriptor of the client refers to.
    pub fn namespace_id_by_fd(&self, fd: u32) -> Result<NsId, Error> {
        self.existing(self.peer.namespace_by_fd(fd))
            .ok_or_else(|| Error::new(errno::EINVAL))
    }

    /// Returns the id of the namespace of a process.
    pub fn namespace_id_by_pid(&self, pid: u32) -> Result<NsId, Error> {
        self.existing(self.peer.namespace_by_pid(pid))
            .ok_or_else(|| Error::new(errno::ESRCH))
    }

    /// Returns the id of the namespace that the request names by nsid.
    pub fn namespace_id_by_nsid(&self, nsid: i32) -> Option<NsId> {
        self.existing(crate::nsid::find(self.ns, nsid))
    }

    fn existing(&self, id: Option<NsId>) -> Option<NsId> {
        id.filter(|id| self.stack.has_namespace(*id))
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
