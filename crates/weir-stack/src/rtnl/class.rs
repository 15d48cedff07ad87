// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests for qdisc classes: RTM_NEWTCLASS, RTM_DELTCLASS, RTM_GETTCLASS
//! (`weir_tc::control::class`).

use weir_netlink::{Error, Writer, rtm};

use super::{Ctl, Dump, DumpCtl, Handler};

/// The handled request types.
pub const HANDLERS: &[Handler] = &[
    Handler {
        ty: rtm::NEWTCLASS,
        doit: Some(serve),
        dumpit: None,
    },
    Handler {
        ty: rtm::DELTCLASS,
        doit: Some(serve),
        dumpit: None,
    },
    Handler {
        ty: rtm::GETTCLASS,
        doit: Some(serve),
        dumpit: Some(dump),
    },
];

fn serve(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    super::serve_queue(ctl, weir_tc::control::class::handle)
}

fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    Ok(Box::new(Running(weir_tc::control::class::dump(
        &ctl.message,
    )?)))
}

struct Running(weir_tc::control::class::Dump);

impl Dump for Running {
    fn fill(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error> {
        super::fill_tc(ctl, |cx| self.0.fill(cx, out, false))
    }

    fn fill_one(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error> {
        super::fill_tc(ctl, |cx| self.0.fill(cx, out, true))
    }
}
