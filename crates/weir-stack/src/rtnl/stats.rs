// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Statistics of links: RTM_GETSTATS for one device and for all (`rtnl_stats_get`, `rtnl_stats_dump`), as `ip stats` and
//! `bridge -s vlan` ask for them.
//!
//! Bridges, bonds and their ports have extended statistics. No device has statistics of hardware: `l3_stats` are off and
//! unused. Devices have counters of MPLS where the namespace has used it.

use std::sync::Arc;

use weir_netlink::ifla::stats::{self, offload};
use weir_netlink::{
    Error, IfStatsMsg, Policy, Rule, Strictness, Writer, af, errno, ifla, policy, rtm,
};
use weir_sync::rcu::Guard;

use crate::device::Device;
use crate::fib::mpls;
use crate::rtnl::{Collected, Ctl, Dump, Handler};

/// The handled request types.
pub const HANDLERS: &[Handler] = &[Handler {
    ty: rtm::GETSTATS,
    doit: Some(get),
    dumpit: Some(dump),
}];

/// `MPLS_STATS_LINK`
const MPLS_STATS_LINK: u16 = 1;
/// `LINK_XSTATS_TYPE_BRIDGE`
const TYPE_BRIDGE: u16 = 1;

/// Returns the bit of an attribute (`IFLA_STATS_FILTER_BIT`).
const fn bit(ty: u16) -> u32 {
    1 << (ty - 1)
}

fn text(message: &'static str) -> Error {
    Error::msg(errno::EINVAL, message)
}

/// The extended statistics in a message: the attribute, the kind (`LINK_XSTATS_TYPE_*`), and what is in it.
type Parts = Vec<(u16, u16, Vec<u8>)>;

/// What a request asks for (`struct rtnl_stats_dump_filters`).
#[derive(Clone, Copy)]
struct Asked {
    mask: u32,
    /// Of the statistics of hardware.
    offload: u32,
}

static FILTERS: Policy = policy! { max stats::MAX;
    stats::LINK_OFFLOAD_XSTATS => Rule::u32().range(0, 0xf),
};
static POLICY: Policy = policy! { max stats::GETSET_MAX;
    stats::GET_FILTERS => Rule::nested(&FILTERS),
};

/// Reads a request (`rtnl_valid_stats_req`, `rtnl_stats_get_parse`).
fn asked(ctl: &Ctl<'_>, unset: &'static str, dumps: bool) -> Result<(u32, Asked), Error> {
    let header = ctl.message.fixed::<IfStatsMsg>();
    let header = header.map_err(|_| text("Invalid header for stats dump"))?;
    let mask = header.filter_mask;
    if ctl.strict {
        if header.pad1 != 0 || header.pad2 != 0 || dumps && header.ifindex != 0 {
            return Err(text("Invalid values in header for stats dump request"));
        }
        if mask >= bit(stats::MAX + 1) {
            return Err(text("Invalid stats filter mask"));
        }
    }
    if mask == 0 {
        return Err(text(unset));
    }
    let (_, table) = ctl
        .message
        .parse::<IfStatsMsg>(&POLICY, Strictness::Strict)?;
    let mut offload = u32::MAX;
    if let Some(filters) = table.get(stats::GET_FILTERS) {
        let inner = filters.parse(&FILTERS, Strictness::Strict)?;
        offload = inner.u32(stats::LINK_OFFLOAD_XSTATS)?.unwrap_or(offload);
    }
    Ok((header.ifindex, Asked { mask, offload }))
}

/// Returns the extended statistics of a device, in as many messages as they need.
fn parts(guard: &Guard, device: &Arc<Device>, mask: u32) -> Vec<Parts> {
    let above = device.master(guard);
    let sources = [
        (stats::LINK_XSTATS, Some(device)),
        (stats::LINK_XSTATS_SLAVE, above),
    ];
    let mut messages = vec![Parts::new()];
    for (ty, source) in sources {
        let Some(source) = source.filter(|_| mask & bit(ty) != 0) else {
            continue;
        };
        if let (Some((kind, part)), Some(message)) =
            (source.link.extended_statistics(device), messages.last_mut())
        {
            message.push((ty, kind, part));
        }
        let Some(bridging) = source.link.bridging() else {
            continue;
        };
        let all = bridging.extended_statistics(guard, device);
        for (number, part) in all.into_iter().enumerate() {
            if number > 0 {
                messages.push(Parts::new());
            }
            if let Some(message) = messages.last_mut() {
                message.push((ty, TYPE_BRIDGE, part));
            }
        }
    }
    messages
}

/// Writes a message (`rtnl_fill_statsinfo`). `ends` says whether it is the last of its device.
fn fill(
    out: &mut Writer,
    guard: &Guard,
    device: &Device,
    asked: &Asked,
    parts: &Parts,
    ends: bool,
) {
    let wants = |ty| asked.mask & bit(ty) != 0;
    out.fixed(&IfStatsMsg {
        ifindex: device.ifindex(),
        filter_mask: asked.mask,
        ..IfStatsMsg::default()
    });
    if wants(stats::LINK_64) {
        let statistics = super::link::statistics(device);
        out.put_fixed_pad(stats::LINK_64, &statistics, ifla::stats::UNSPEC);
    }
    for (ty, kind, part) in parts {
        let nest = out.nest_noflag(*ty);
        let inner = out.nest_noflag(*kind);
        out.raw(part);
        out.end(inner);
        out.end(nest);
    }
    if !ends {
        return;
    }
    if wants(stats::LINK_OFFLOAD_XSTATS) && asked.offload & bit(offload::HW_S_INFO) != 0 {
        let nest = out.nest_noflag(stats::LINK_OFFLOAD_XSTATS);
        let info = out.nest(offload::HW_S_INFO);
        let l3 = out.nest(offload::L3_STATS);
        out.put_u8(offload::INFO_REQUEST, 0);
        out.put_u8(offload::INFO_USED, 0);
        out.end(l3);
        out.end(info);
        out.end(nest);
    }
    if wants(stats::AF_SPEC) {
        let nest = out.nest_noflag(stats::AF_SPEC);
        if let Some(state) = mpls::of(device.namespace(guard)) {
            let family = out.nest_noflag(af::MPLS.into());
            out.put_64bit(MPLS_STATS_LINK, &state.counters(device.key, guard), 0);
            out.end(family);
        }
        out.end(nest);
    }
}

fn get(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let (index, asked) = asked(ctl, "Filter mask must be set for stats get", false)?;
    if index == 0 {
        return Err(Error::new(errno::EINVAL));
    }
    let device = ctl.ns.device(index, ctl.guard).cloned();
    let device = device.ok_or_else(|| Error::new(errno::ENODEV))?;
    let mut whole = Parts::new();
    let parts = parts(ctl.guard, &device, asked.mask);
    for (ty, kind, part) in parts.into_iter().flatten() {
        match whole.last_mut() {
            Some((last, _, all)) if *last == ty => all.extend(part),
            _ => whole.push((ty, kind, part)),
        }
    }
    let guard = ctl.guard;
    ctl.reply(rtm::NEWSTATS, 0, |out| {
        fill(out, guard, &device, &asked, &whole, true)
    })
}

/// A message of a dump: the device, its part, and whether it is the last of the device.
type Item = (Arc<Device>, Parts, bool);

fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    let (_, asked) = asked(ctl, "Filter mask must be set for stats dump", true)?;
    let mut items: Vec<Item> = Vec::new();
    for device in ctl.ns.all_devices() {
        let messages = parts(ctl.guard, &device, asked.mask);
        let last = messages.len() - 1;
        for (number, parts) in messages.into_iter().enumerate() {
            items.push((device.clone(), parts, number == last));
        }
    }
    Ok(Collected::boxed(
        items,
        false,
        move |ctl, (device, parts, ends): &Item, out: &mut Writer| {
            let guard = ctl.guard;
            ctl.message(out, rtm::NEWSTATS, |out| {
                fill(out, guard, device, &asked, parts, *ends);
            })
        },
    ))
}
