// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Extended statistics of links: RTM_GETSTATS (`rtnl_stats_dump`), for `bridge -s vlan`.
//!
//! Not implemented: requests for one device, `IFLA_STATS_LINK_OFFLOAD_XSTATS` and `IFLA_STATS_AF_SPEC`, which are
//! refused.

use std::sync::Arc;

use weir_netlink::ifla::stats;
use weir_netlink::{Error, IfStatsMsg, Writer, errno, ifla, rtm};

use crate::device::Device;
use crate::rtnl::{Collected, Ctl, Dump, Handler};

/// The handled request types.
pub const HANDLERS: &[Handler] = &[Handler {
    ty: rtm::GETSTATS,
    doit: None,
    dumpit: Some(dump),
}];

/// `LINK_XSTATS_TYPE_BRIDGE`
const TYPE_BRIDGE: u16 = 1;

/// Returns the bit of an attribute (`IFLA_STATS_FILTER_BIT`).
const fn bit(ty: u16) -> u32 {
    1 << (ty - 1)
}

fn text(message: &'static str) -> Error {
    Error::msg(errno::EINVAL, message)
}

/// A message: the device, and the attribute and contents of its bridge's part.
type Item = (Arc<Device>, Option<(u16, Vec<u8>)>);

fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    let header = ctl.message.fixed::<IfStatsMsg>();
    let header = header.map_err(|_| text("Invalid header for stats dump"))?;
    let mask = header.filter_mask;
    if ctl.strict {
        if header.pad1 != 0 || header.pad2 != 0 || header.ifindex != 0 {
            return Err(text("Invalid values in header for stats dump request"));
        }
        if mask >= bit(stats::MAX + 1) {
            return Err(text("Invalid stats filter mask"));
        }
    }
    if mask == 0 {
        return Err(text("Filter mask must be set for stats dump"));
    }
    let served = [stats::LINK_64, stats::LINK_XSTATS, stats::LINK_XSTATS_SLAVE];
    if mask & !served.map(bit).iter().sum::<u32>() != 0 {
        return Err(Error::unsupported(
            "Only IFLA_STATS_LINK_64 and the extended statistics of links are served",
        ));
    }
    let mut items: Vec<Item> = Vec::new();
    for device in ctl.ns.all_devices() {
        let begin = items.len();
        let own = device.link.bridging();
        let above = device.master(ctl.guard);
        let above = above.and_then(|above| above.link.bridging());
        for (ty, bridging) in [(stats::LINK_XSTATS, own), (stats::LINK_XSTATS_SLAVE, above)] {
            if let Some(bridging) = bridging.filter(|_| mask & bit(ty) != 0) {
                let parts = bridging.extended_statistics(ctl.guard, &device);
                items.extend(
                    parts
                        .into_iter()
                        .map(|part| (device.clone(), Some((ty, part)))),
                );
            }
        }
        if items.len() == begin {
            items.push((device, None));
        }
    }
    let basic = mask & bit(stats::LINK_64) != 0;
    Ok(Collected::boxed(
        items,
        false,
        move |ctl, (device, part): &Item, out: &mut Writer| {
            ctl.message(out, rtm::NEWSTATS, |out| {
                out.fixed(&IfStatsMsg {
                    ifindex: device.ifindex(),
                    filter_mask: mask,
                    ..IfStatsMsg::default()
                });
                if basic {
                    let statistics = super::link::statistics(device);
                    out.put_fixed_pad(stats::LINK_64, &statistics, ifla::stats::UNSPEC);
                }
                if let Some((ty, part)) = part {
                    let nest = out.nest_noflag(*ty);
                    let inner = out.nest_noflag(TYPE_BRIDGE);
                    out.raw(part);
                    out.end(inner);
                    out.end(nest);
                }
            })
        },
    ))
}
