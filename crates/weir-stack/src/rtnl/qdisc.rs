// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests for qdiscs: RTM_NEWQDISC, RTM_DELQDISC, RTM_GETQDISC (`weir_tc::control::qdisc`).

use weir_netlink::{Error, Writer, rtm};

use super::{Ctl, Dump, DumpCtl, Handler};

/// The handled request types.
pub const HANDLERS: &[Handler] = &[
    Handler {
        ty: rtm::NEWQDISC,
        doit: Some(serve),
        dumpit: None,
    },
    Handler {
        ty: rtm::DELQDISC,
        doit: Some(serve),
        dumpit: None,
    },
    Handler {
        ty: rtm::GETQDISC,
        doit: Some(serve),
        dumpit: Some(dump),
    },
];

fn serve(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    super::serve_queue(ctl, weir_tc::control::qdisc::handle)
}

fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    Ok(Box::new(Running(weir_tc::control::qdisc::dump(
        &ctl.message,
    )?)))
}

struct Running(weir_tc::control::qdisc::Dump);

impl Dump for Running {
    fn fill(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error> {
        super::fill_tc(ctl, |cx| self.0.fill(cx, out, false))
    }

    fn fill_one(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error> {
        super::fill_tc(ctl, |cx| self.0.fill(cx, out, true))
    }
}
