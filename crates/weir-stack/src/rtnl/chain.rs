// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests for filter chains: RTM_NEWCHAIN, RTM_DELCHAIN, RTM_GETCHAIN
//! (`weir_tc::control::chain`).

use weir_netlink::{Error, Writer, rtm};

use super::{Ctl, Dump, DumpCtl, Handler};

/// The handled request types.
pub const HANDLERS: &[Handler] = &[
    Handler {
        ty: rtm::NEWCHAIN,
        doit: Some(serve),
        dumpit: None,
    },
    Handler {
        ty: rtm::DELCHAIN,
        doit: Some(serve),
        dumpit: None,
    },
    Handler {
        ty: rtm::GETCHAIN,
        doit: Some(serve),
        dumpit: Some(dump),
    },
];

fn serve(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    super::serve_tc(ctl, |request, reply| {
        weir_tc::control::chain::handle(request, reply)
    })
}

fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    Ok(Box::new(Running(weir_tc::control::chain::dump(
        &ctl.message,
    )?)))
}

struct Running(weir_tc::control::chain::Dump);

impl Dump for Running {
    fn fill(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error> {
        super::fill_tc(ctl, |cx| self.0.fill(cx, out, false))
    }

    fn fill_one(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error> {
        super::fill_tc(ctl, |cx| self.0.fill(cx, out, true))
    }
}
