// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The neighbour tables and their settings: RTM_GETNEIGHTBL, RTM_SETNEIGHTBL (`ip ntable`;
//! `neightbl_dump_info`, `neightbl_set` of `net/core/neighbour.c`).
//!
//! The thresholds and the interval of garbage collection are stored and reported, but have no
//! effect. A device's reachable time is drawn per entry, so its base is reported. The statistics
//! are 0.

use std::sync::Arc;

use weir_netlink::nda::{parms, tbl};
use weir_netlink::{
    Attr, Error, NdtConfig, NdtMsg, NdtStats, Policy, Rule, Strictness, Writer, af, errno, policy,
    rtm,
};

use crate::device::Device;
use crate::namespace::Namespace;
use crate::neigh::WithNeighbours;
use crate::rtnl::{Collected, Ctl, Dump, Handler};
use crate::settings::HasIp;
use crate::settings::WithSettings;
use crate::stack::Stack;
use crate::sysctl::tree::{self, UNRES_PACKET};
use crate::sysctl::{Conf, Neigh};

/// The handled request types.
pub const HANDLERS: &[Handler] = &[
    Handler {
        ty: rtm::GETNEIGHTBL,
        doit: None,
        dumpit: Some(dump),
    },
    Handler {
        ty: rtm::SETNEIGHTBL,
        doit: Some(set),
        dumpit: None,
    },
];

/// `nl_neightbl_policy`
static POLICY: Policy = policy! {
    max tbl::MAX;
    tbl::NAME => Rule::string(0),
    tbl::THRESH1 => Rule::u32(),
    tbl::THRESH2 => Rule::u32(),
    tbl::THRESH3 => Rule::u32(),
    tbl::GC_INTERVAL => Rule::u64(),
    tbl::PARMS => Rule::nested_any(),
};

/// `nl_ntbl_parm_policy`
static PARMS: Policy = policy! {
    max parms::MAX;
    parms::IFINDEX => Rule::u32(),
    parms::QUEUE_LEN => Rule::u32(),
    parms::QUEUE_LENBYTES => Rule::u32(),
    parms::PROXY_QLEN => Rule::u32(),
    parms::APP_PROBES => Rule::u32(),
    parms::UCAST_PROBES => Rule::u32(),
    parms::MCAST_PROBES => Rule::u32(),
    parms::MCAST_REPROBES => Rule::u32(),
    parms::BASE_REACHABLE_TIME => Rule::u64(),
    parms::GC_STALETIME => Rule::u64(),
    parms::DELAY_PROBE_TIME => Rule::u64(),
    parms::RETRANS_TIME => Rule::u64(),
    parms::ANYCAST_DELAY => Rule::u64(),
    parms::PROXY_DELAY => Rule::u64(),
    parms::LOCKTIME => Rule::u64(),
    parms::INTERVAL_PROBE_TIME_MS => Rule::u64().range(1, u64::MAX),
};

/// The numeric settings, in the order in which Linux reports them.
const NUMBERS: &[(u16, Neigh)] = &[
    (parms::PROXY_QLEN, Neigh::ProxyQlen),
    (parms::APP_PROBES, Neigh::AppSolicit),
    (parms::UCAST_PROBES, Neigh::UcastSolicit),
    (parms::MCAST_PROBES, Neigh::McastSolicit),
    (parms::MCAST_REPROBES, Neigh::McastResolicit),
];

/// The settings that are times in milliseconds.
const TIMES: &[(u16, Neigh)] = &[
    (parms::BASE_REACHABLE_TIME, Neigh::BaseReachableTime),
    (parms::GC_STALETIME, Neigh::GcStaleTime),
    (parms::DELAY_PROBE_TIME, Neigh::DelayFirstProbeTime),
    (parms::RETRANS_TIME, Neigh::RetransTime),
    (parms::ANYCAST_DELAY, Neigh::AnycastDelay),
    (parms::PROXY_DELAY, Neigh::ProxyDelay),
    (parms::LOCKTIME, Neigh::Locktime),
    (parms::INTERVAL_PROBE_TIME_MS, Neigh::IntervalProbeTime),
];

/// The garbage collection settings: attribute, name below `neigh/default`, milliseconds per unit.
const COLLECTION: &[(u16, &str, u64)] = &[
    (tbl::GC_INTERVAL, "gc_interval", 1000),
    (tbl::THRESH1, "gc_thresh1", 1),
    (tbl::THRESH2, "gc_thresh2", 1),
    (tbl::THRESH3, "gc_thresh3", 1),
];

/// A neighbour table.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind {
    family: u8,
    name: &'static str,
    sysctls: &'static str,
    key_len: u16,
}

const TABLES: [Kind; 2] = [
    Kind {
        family: af::INET,
        name: "arp_cache",
        sysctls: "ipv4",
        key_len: 4,
    },
    Kind {
        family: af::INET6,
        name: "ndisc_cache",
        sysctls: "ipv6",
        key_len: 16,
    },
];

impl Kind {
    fn conf<'a>(&self, ns: &'a Namespace, device: Option<&'a Arc<Device>>) -> &'a Conf<Neigh> {
        match (self.family, device) {
            (af::INET, None) => &ns.conf().default.neigh4,
            (_, None) => &ns.conf().default.neigh6,
            (af::INET, Some(device)) => &device.conf().neigh4,
            (_, Some(device)) => &device.conf().neigh6,
        }
    }

    /// Returns whether a device has its own settings in this table.
    fn is_on(&self, device: &Device) -> bool {
        device.has_ip(self.family == af::INET6)
    }

    fn collection(&self, name: &str) -> String {
        format!("{}/neigh/default/{name}", self.sysctls)
    }
}

/// Writes the settings of a device or the defaults (`neightbl_fill_parms`).
fn put_parms(out: &mut Writer, kind: &Kind, ns: &Namespace, device: Option<&Arc<Device>>) {
    let conf = kind.conf(ns, device);
    let nest = out.nest_noflag(tbl::PARMS);
    if let Some(device) = device {
        out.put_u32(parms::IFINDEX, device.ifindex());
    }
    out.put_u32(parms::REFCNT, 1);
    let octets = conf.get(Neigh::UnresQlenBytes);
    out.put_u32(parms::QUEUE_LENBYTES, octets as u32);
    out.put_u32(parms::QUEUE_LEN, (octets / UNRES_PACKET) as u32);
    for (attribute, slot) in NUMBERS {
        out.put_u32(*attribute, conf.get(*slot) as u32);
    }
    let reachable = (parms::REACHABLE_TIME, Neigh::BaseReachableTime);
    for (attribute, slot) in [reachable].iter().chain(TIMES) {
        out.put_u64_pad(*attribute, conf.get(*slot).max(0) as u64, parms::PAD);
    }
    out.end(nest);
}

/// Writes a table (`neightbl_fill_info`), or a device's settings (`neightbl_fill_param_info`).
fn fill(out: &mut Writer, kind: &Kind, ns: &Namespace, device: Option<&Arc<Device>>, entries: u32) {
    out.fixed(&NdtMsg {
        family: kind.family,
        ..NdtMsg::default()
    });
    out.put_str(tbl::NAME, kind.name);
    if device.is_none() {
        for (attribute, name, unit) in COLLECTION {
            let value = tree::read(ns, &kind.collection(name)).unwrap_or_default();
            let value = value.trim().parse().unwrap_or(0_u64);
            match *attribute {
                tbl::GC_INTERVAL => out.put_u64_pad(tbl::GC_INTERVAL, value * unit, tbl::PAD),
                attribute => out.put_u32(attribute, value as u32),
            }
        }
        let config = NdtConfig {
            key_len: kind.key_len,
            entries,
            ..NdtConfig::default()
        };
        out.put_fixed(tbl::CONFIG, &config);
        out.put_fixed_pad(tbl::STATS, &NdtStats::default(), tbl::PAD);
    }
    put_parms(out, kind, ns, device);
}

/// Dumps the tables (`neightbl_dump_info`).
fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    if ctl.strict {
        let message = ctl.message;
        let invalid = |text| Error::msg(errno::EINVAL, text);
        let header: NdtMsg = message
            .fixed()
            .map_err(|_| invalid("Invalid header for neighbor table dump request"))?;
        if header.pad1 != 0 || header.pad2 != 0 {
            return Err(invalid(
                "Invalid values in header for neighbor table dump request",
            ));
        }
        if message.attrs::<NdtMsg>().next().is_some() {
            return Err(invalid(
                "Invalid data after header in neighbor table dump request",
            ));
        }
    }
    let family = ctl.message.family().unwrap_or(af::UNSPEC);
    let neighbours = ctl.ns.neighbours().all(ctl.guard);
    let mut items = Vec::new();
    for kind in TABLES {
        if family != af::UNSPEC && family != kind.family {
            continue;
        }
        let entries = neighbours
            .iter()
            .filter(|entry| entry.key.address.is_ipv4() == (kind.family == af::INET));
        items.push((kind, None, entries.count() as u32));
        // The newest come first, as in Linux.
        let devices = ctl.ns.all_devices().into_iter().rev();
        let devices = devices.filter(|device| kind.is_on(device));
        items.extend(devices.map(|device| (kind, Some(device), 0)));
    }
    Ok(Collected::boxed(
        items,
        false,
        |ctl, (kind, device, entries), out| {
            ctl.message(out, rtm::NEWNEIGHTBL, |out| {
                fill(out, kind, ctl.ns, device.as_ref(), *entries);
            })
        },
    ))
}

/// Changes settings (`neightbl_set`).
fn set(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let request = ctl.message;
    let (header, attrs) = request.parse::<NdtMsg>(&POLICY, Strictness::Liberal)?;
    let name = attrs
        .get(tbl::NAME)
        .ok_or_else(|| Error::new(errno::EINVAL))?;
    let name = name.str()?;
    let kind = TABLES
        .into_iter()
        .find(|kind| {
            (header.family == af::UNSPEC || header.family == kind.family) && kind.name == name
        })
        .ok_or_else(|| Error::new(errno::ENOENT))?;
    // Check everything before setting anything.
    let collects = COLLECTION
        .iter()
        .any(|(attribute, _, _)| attrs.has(*attribute));
    if collects && ctl.ns.id != Stack::INITIAL {
        return Err(Error::new(errno::ENOENT));
    }
    if let Some(nest) = attrs.get(tbl::PARMS) {
        set_parms(ctl, &kind, &nest)?;
    }
    for (attribute, name, unit) in COLLECTION {
        let value = match *attribute {
            tbl::GC_INTERVAL => attrs.u64(tbl::GC_INTERVAL)?,
            attribute => attrs.u32(attribute)?.map(u64::from),
        };
        if let Some(value) = value {
            let value = (value / unit).min(i32::MAX as u64).to_string();
            tree::write(ctl.stack, ctl.ns, &kind.collection(name), value.as_bytes())
                .map_err(Error::new)?;
        }
    }
    Ok(())
}

fn set_parms(ctl: &Ctl<'_>, kind: &Kind, nest: &Attr<'_>) -> Result<(), Error> {
    let attrs = nest.parse(&PARMS, Strictness::Liberal)?;
    let device = match attrs.u32(parms::IFINDEX)?.unwrap_or(0) {
        0 => None,
        index => {
            let device = ctl.ns.device(index, ctl.guard);
            let device = device.filter(|device| kind.is_on(device));
            Some(device.ok_or_else(|| Error::new(errno::ENOENT))?)
        }
    };
    let conf = kind.conf(ctl.ns, device);
    let int = |value: u64| value.min(i32::MAX as u64) as i32;
    for (attribute, slot) in NUMBERS {
        if let Some(value) = attrs.u32(*attribute)? {
            conf.set(*slot, int(value.into()));
        }
    }
    if let Some(packets) = attrs.u32(parms::QUEUE_LEN)? {
        let octets = u64::from(packets) * UNRES_PACKET as u64;
        conf.set(Neigh::UnresQlenBytes, int(octets));
    }
    if let Some(octets) = attrs.u32(parms::QUEUE_LENBYTES)? {
        conf.set(Neigh::UnresQlenBytes, int(octets.into()));
    }
    for (attribute, slot) in TIMES {
        if let Some(time) = attrs.u64(*attribute)? {
            conf.set(*slot, int(time));
        }
    }
    Ok(())
}
