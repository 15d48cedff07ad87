// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `teql0`: the queues of several devices as one. Refused: its packets come from a device of its own (`teql0`),
//! which there is not; nothing of it is looked at (net/sched/sch_teql.c).

use weir_netlink::Error;

use super::{Create, Ops, Qdisc};

/// The kind's line.
pub const OPS: Ops = Ops::new("teql0", refuse);

fn refuse(_create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    Err(Error::unsupported(
        "teql is not supported: its device is not there",
    ))
}
