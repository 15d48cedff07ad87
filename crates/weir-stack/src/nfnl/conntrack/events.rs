// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of connections for the groups that somebody listens to (`ctnetlink_conntrack_event`).

use std::sync::{Arc, Weak};

use weir_conntrack::{Event, Listener, Origin, Snapshot, ipct};
use weir_netlink::{Writer, cta, nfnl, nlm};

use super::{REQUESTED, wire};
use crate::namespace::Namespace;

struct Groups {
    ns: Weak<Namespace>,
    /// The time of day in nanoseconds at which the stack's clock was 0.
    epoch: u64,
}

/// Makes the connection table of a namespace report its events. Called when a socket of the family is opened, so
/// that no event costs anything before.
pub(crate) fn listen(ns: &Arc<Namespace>, epoch: u64) {
    if let Some(table) = ns.tc.conntrack() {
        let ns = Arc::downgrade(ns);
        table.listen(Some(Arc::new(Groups { ns, epoch })));
    }
}

impl Listener for Groups {
    fn event(&self, event: &Event<'_>) {
        let Some(ns) = self.ns.upgrade() else {
            return;
        };
        let group = group(event.events);
        let (portid, report) = match event.origin {
            Origin::Packet => (0, false),
            Origin::Netlink { portid, report } => (portid, report),
        };
        if group == 0 || !ns.netfilter.anybody(group) {
            return;
        }
        let mut events = event.events;
        if event.origin != Origin::Packet && events & ipct::DESTROY == 0 {
            events |= REQUESTED;
            if events & ipct::NEW == 0 {
                events |= ipct::LABEL;
            }
        }
        let mut out = Writer::new();
        write(&mut out, events, event.connection, portid, self.epoch);
        // A requester that asked for a report has it as an answer.
        ns.netfilter
            .notify(group, out.bytes(), report.then_some(portid));
    }
}

fn group(events: u32) -> u32 {
    match events {
        _ if events & ipct::DESTROY != 0 => nfnl::group::CONNTRACK_DESTROY,
        _ if events & (ipct::NEW | ipct::RELATED) != 0 => nfnl::group::CONNTRACK_NEW,
        0 => 0,
        _ => nfnl::group::CONNTRACK_UPDATE,
    }
}

/// Writes an event. `portid` is the socket of the request that caused it, or 0.
pub(super) fn write(out: &mut Writer, events: u32, connection: &Snapshot, portid: u32, epoch: u64) {
    let ends = events & ipct::DESTROY != 0;
    let begins = !ends && events & (ipct::NEW | ipct::RELATED) != 0;
    let message = if ends {
        nfnl::MSG_CT_DELETE
    } else {
        nfnl::MSG_CT_NEW
    };
    let flags = if begins {
        nlm::F_CREATE | nlm::F_EXCL
    } else {
        0
    };
    let ty = nfnl::msg_type(nfnl::SUBSYS_CTNETLINK, message);
    let mark = out.message(ty, flags, 0, portid);
    wire::put_identity(out, connection);
    out.put_be32(cta::ID, connection.id);
    out.put_be32(cta::STATUS, connection.status);
    if ends {
        if connection.timeout != 0 {
            out.put_be32(cta::TIMEOUT, connection.timeout);
        }
        wire::put_counters(out, connection);
        wire::put_times(out, connection, epoch);
        wire::put_protocol(out, connection, true);
    } else {
        out.put_be32(cta::TIMEOUT, connection.timeout);
        if events & ipct::PROTOINFO != 0 {
            wire::put_protocol(out, connection, false);
        }
        if events & ipct::LABEL != 0 {
            wire::put_labels(out, connection);
        }
    }
    if connection.mark != 0 || events & ipct::MARK != 0 {
        out.put_be32(cta::MARK, connection.mark);
    }
    let written = out.finish(mark);
    debug_assert!(written.is_ok(), "an unbounded writer is never full");
}
