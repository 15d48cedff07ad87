// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests for filters: RTM_NEWTFILTER, RTM_DELTFILTER, RTM_GETTFILTER
//! (`weir_tc::control::filter`).

use weir_netlink::{Error, Writer, rtm};

use super::{Ctl, Dump, DumpCtl, Handler};

/// The handled request types.
pub const HANDLERS: &[Handler] = &[
    Handler {
        ty: rtm::NEWTFILTER,
        doit: Some(serve),
        dumpit: None,
    },
    Handler {
        ty: rtm::DELTFILTER,
        doit: Some(serve),
        dumpit: None,
    },
    Handler {
        ty: rtm::GETTFILTER,
        doit: Some(serve),
        dumpit: Some(dump),
    },
];

fn serve(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    super::serve_tc(ctl, |request, reply| {
        weir_tc::control::filter::handle(request, reply)
    })
}

fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    Ok(Box::new(Running(weir_tc::control::filter::dump(
        &ctl.message,
    )?)))
}

struct Running(weir_tc::control::filter::Dump);

impl Dump for Running {
    fn fill(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error> {
        super::fill_tc(ctl, |cx| self.0.fill(cx, out, false))
    }

    fn fill_one(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error> {
        super::fill_tc(ctl, |cx| self.0.fill(cx, out, true))
    }
}
