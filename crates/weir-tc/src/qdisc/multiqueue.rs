// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `mq`, `multiq`, `mqprio`, `taprio`: qdiscs over the transmit queues of a device that has several.
//!
//! Mirrors the checks of `mq_init`, `multiq_init`, `mqprio_init` and `taprio_init` (net/sched). Devices here
//! have one transmit queue, so each is refused as Linux refuses it there; no parameter is looked at.

use weir_netlink::Error;
use weir_netlink::errno::{EINVAL, EOPNOTSUPP};
use weir_netlink::tca::h;

use super::{Create, Ops, Qdisc};

/// `mq`
pub const MQ: Ops = Ops::new("mq", refuse);
/// `multiq`
pub const MULTIQ: Ops = Ops::new("multiq", multiq);
/// `mqprio`
pub const MQPRIO: Ops = Ops::new("mqprio", refuse);
/// `taprio`
pub const TAPRIO: Ops = Ops::new("taprio", taprio);

fn refuse(_create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    Err(Error::new(EOPNOTSUPP))
}

fn multiq(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    match create.options {
        Some(_) => Err(Error::new(EOPNOTSUPP)),
        None => Err(Error::new(EINVAL)),
    }
}

fn taprio(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let message = match create.parent {
        h::ROOT => "sch_taprio: Multi-queue device is required",
        _ => "sch_taprio: Can only be attached as root qdisc",
    };
    Err(Error::msg(EOPNOTSUPP, message))
}
