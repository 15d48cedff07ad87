// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests for actions: RTM_NEWACTION, RTM_DELACTION, RTM_GETACTION (`weir_tc::control::action`).

use weir_netlink::{Error, Writer, rtm};

use super::{Ctl, Dump, DumpCtl, Handler};

/// The handled request types.
pub const HANDLERS: &[Handler] = &[
    Handler {
        ty: rtm::NEWACTION,
        doit: Some(serve),
        dumpit: None,
    },
    Handler {
        ty: rtm::DELACTION,
        doit: Some(serve),
        dumpit: None,
    },
    Handler {
        ty: rtm::GETACTION,
        doit: Some(serve),
        dumpit: Some(dump),
    },
];

fn serve(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    super::serve_tc(ctl, |request, reply| {
        weir_tc::control::action::handle(request, reply)
    })
}

fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    Ok(Box::new(Running(weir_tc::control::action::dump(
        &ctl.message,
    )?)))
}

struct Running(weir_tc::control::action::Dump);

impl Dump for Running {
    fn fill(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error> {
        super::fill_tc(ctl, |cx| self.0.fill(cx, out, false))
    }

    fn fill_one(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error> {
        super::fill_tc(ctl, |cx| self.0.fill(cx, out, true))
    }
}
