// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Netfilter's netlink server: subsystems and their messages.
//!
//! Mirrors net/netfilter/nfnetlink.c. Connection tracking is served ([`conntrack`]), and so are its
//! expectations, of which there are none ([`expect`]). The other subsystems (nf_tables, ipset, queue, log,
//! accounting, helpers, time-out policies) get the errors of a kernel without their modules: EINVAL for a
//! message, EOPNOTSUPP for a batch.

use weir_netlink::{Error, Fixed, NfGenMsg, Policy, Strictness, Table, errno, nfnl};

use crate::rtnl::{Ctl, Dump};

pub mod conntrack;
pub mod expect;

/// A started request: the dump to run, if it asks for one.
pub(crate) type Started = Result<Option<Box<dyn Dump>>, Error>;

/// A message of a subsystem (`struct nfnl_callback`).
struct Callback {
    message: u8,
    call: fn(&mut Ctl<'_>, &Request<'_>) -> Started,
    policy: Option<&'static Policy>,
}

/// The header and the attributes of a request.
pub(crate) struct Request<'a> {
    pub(crate) header: NfGenMsg,
    pub(crate) attrs: Table<'a>,
    /// The message of the subsystem.
    pub(crate) message: u8,
    /// Whether a dump of the socket is running.
    dumping: bool,
}

impl Request<'_> {
    /// Returns whether the request asks for a dump. As in Linux's netfilter, one of the two bits is enough.
    pub(crate) fn is_dump(&self, ctl: &Ctl<'_>) -> bool {
        ctl.message.header.flags & weir_netlink::nlm::F_DUMP != 0
    }

    /// Starts a dump, unless one is running (`netlink_dump_start`).
    pub(crate) fn dump(&self, dump: Box<dyn Dump>) -> Started {
        if self.dumping {
            return Err(Error::new(errno::EBUSY));
        }
        Ok(Some(dump))
    }
}

/// Serves a request (`nfnetlink_rcv_msg`).
pub fn start(ctl: &mut Ctl<'_>, dumping: bool) -> Started {
    let ty = ctl.message.header.ty;
    let message = ctl.message;
    let Some(header) = NfGenMsg::from_bytes(message.payload()) else {
        return Ok(None);
    };
    if ty == nfnl::MSG_BATCH_BEGIN {
        // No served subsystem takes batches (`nfnetlink_rcv_batch`).
        return Err(unserved(
            u16::from_be_bytes(header.res_id) as u8,
            errno::EOPNOTSUPP,
        ));
    }
    let (subsystem, number) = ((ty >> 8) as u8, ty as u8);
    let callbacks: &[Callback] = match subsystem {
        nfnl::SUBSYS_CTNETLINK => conntrack::CALLBACKS,
        nfnl::SUBSYS_CTNETLINK_EXP => expect::CALLBACKS,
        other => return Err(unserved(other, errno::EINVAL)),
    };
    let callback = callbacks.iter().find(|callback| callback.message == number);
    let callback = callback.ok_or(Error::new(errno::EINVAL))?;
    let attrs = match callback.policy {
        Some(policy) => message.parse::<NfGenMsg>(policy, Strictness::Liberal)?.1,
        None => Table::empty(),
    };
    let request = Request {
        header,
        attrs,
        message: number,
        dumping,
    };
    (callback.call)(ctl, &request)
}

/// The refusal of a subsystem that is not served.
fn unserved(subsystem: u8, errno: i32) -> Error {
    let name = match subsystem {
        nfnl::SUBSYS_QUEUE => "nfnetlink_queue",
        nfnl::SUBSYS_ULOG => "nfnetlink_log",
        nfnl::SUBSYS_OSF => "nfnetlink_osf",
        nfnl::SUBSYS_IPSET => "ip_set",
        nfnl::SUBSYS_ACCT => "nfnetlink_acct",
        nfnl::SUBSYS_CTNETLINK_TIMEOUT => "nfnetlink_cttimeout",
        nfnl::SUBSYS_CTHELPER => "nfnetlink_cthelper",
        nfnl::SUBSYS_NFTABLES | nfnl::SUBSYS_NFT_COMPAT => "nf_tables",
        nfnl::SUBSYS_HOOK => "nfnetlink_hook",
        _ => return Error::new(errno),
    };
    Error::msg(errno, format!("The stack does not serve {name}"))
}
