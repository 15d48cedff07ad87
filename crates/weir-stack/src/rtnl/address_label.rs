// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labels by which IPv6 source addresses are chosen: RTM_GETADDRLABEL (`ip addrlabel`;
//! `net/ipv6/addrlabel.c`). The table is the default one; changing it is not served.

use weir_netlink::{Error, IfAddrLblMsg, Writer, addrlabel, af, errno, rtm};

use crate::ipv6::select::LABELS;
use crate::rtnl::{Collected, Ctl, Dump, Handler};

/// The requests served.
pub const HANDLERS: &[Handler] = &[Handler {
    ty: rtm::GETADDRLABEL,
    doit: None,
    dumpit: Some(dump),
}];

/// `ip6addrlbl_dump`
fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    let family = ctl.message.family().unwrap_or(af::UNSPEC);
    if !matches!(family, af::UNSPEC | af::INET6) {
        return Err(Error::new(errno::EOPNOTSUPP));
    }
    let labels = LABELS.to_vec();
    Ok(Collected::boxed(
        labels,
        false,
        |ctl, (prefix, prefixlen, label), out| {
            ctl.message(out, rtm::NEWADDRLABEL, |out: &mut Writer| {
                out.fixed(&IfAddrLblMsg {
                    family: af::INET6,
                    prefixlen: *prefixlen,
                    // A table's number grows by one for each entry added.
                    seq: LABELS.len() as u32,
                    ..IfAddrLblMsg::default()
                });
                out.put_ipv6(addrlabel::ADDRESS, *prefix);
                out.put_u32(addrlabel::LABEL, u32::from(*label));
            })
        },
    ))
}
