// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `taprio`: to come.
use super::{Create, Ops, Qdisc};
use weir_netlink::Error;
use weir_netlink::errno::EOPNOTSUPP;
use weir_netlink::tca::h;

/// The kind's line.
pub const OPS: Ops = Ops::new("taprio", create);

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let message = match create.parent {
        h::ROOT => "sch_taprio: Multi-queue device is required",
        _ => "sch_taprio: Can only be attached as root qdisc",
    };
    Err(Error::msg(EOPNOTSUPP, message))
}
