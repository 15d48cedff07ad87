// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Device settings that routing daemons watch: RTM_GETNETCONF, RTM_NEWNETCONF (`ip netconf`;
//! `inet_netconf_*` of `net/ipv4/devinet.c`, `inet6_netconf_*` of `net/ipv6/addrconf.c`, `mpls_netconf_*` of
//! `net/mpls/af_mpls.c`).
//!
//! The groups are notified of changes by sysctl, and of a family being enabled or disabled on a
//! device. Those of MPLS hear of devices that come and go once the namespace has used MPLS.

use std::sync::Arc;

use weir_netlink::{
    Error, Fixed, NetConfMsg, Policy, Rule, Strictness, Writer, af, errno, netconf, policy, rtm,
};

use weir_sync::rcu::Guard;

use crate::device::Device;
use crate::fib::mpls;
use crate::listen::ConfEvent;
use crate::namespace::Namespace;
use crate::rtnl::{Collected, Ctl, Dump, Handler, announce};
use crate::sysctl::{Conf, HasIp, Ipv4Conf, Ipv6Conf, Slot, Target, WithSettings};

/// The handled request types.
pub const HANDLERS: &[Handler] = &[Handler {
    ty: rtm::GETNETCONF,
    doit: Some(get),
    dumpit: Some(dump),
}];

/// `devconf_ipv4_policy`, `devconf_ipv6_policy`
static POLICY: Policy = policy! {
    max netconf::MAX;
    netconf::IFINDEX => Rule::unspec(4),
    netconf::FORWARDING => Rule::unspec(4),
    netconf::RP_FILTER => Rule::unspec(4),
    netconf::PROXY_NEIGH => Rule::unspec(4),
    netconf::IGNORE_ROUTES_WITH_LINKDOWN => Rule::unspec(4),
};

/// The reported settings of a family, in Linux's order.
pub(super) trait Told: Slot + 'static {
    const FAMILY: u8;
    const NAME: &'static str;
    const GROUP: u32;
    const SLOTS: &'static [(u16, Self)];
    fn of<'a>(ns: &'a Namespace, target: &'a Target) -> &'a Conf<Self>;
}

impl Told for Ipv4Conf {
    const FAMILY: u8 = af::INET;
    const NAME: &'static str = "ipv4";
    const GROUP: u32 = rtm::grp::IPV4_NETCONF;
    const SLOTS: &'static [(u16, Self)] = &[
        (netconf::FORWARDING, Self::Forwarding),
        (netconf::RP_FILTER, Self::RpFilter),
        (netconf::MC_FORWARDING, Self::McForwarding),
        (netconf::BC_FORWARDING, Self::BcForwarding),
        (netconf::PROXY_NEIGH, Self::ProxyArp),
        (
            netconf::IGNORE_ROUTES_WITH_LINKDOWN,
            Self::IgnoreRoutesWithLinkdown,
        ),
    ];

    fn of<'a>(ns: &'a Namespace, target: &'a Target) -> &'a Conf<Self> {
        match target {
            Target::All => &ns.conf().all.ipv4,
            Target::Default => &ns.conf().default.ipv4,
            Target::Device(device) => &device.conf().ipv4,
        }
    }
}

impl Told for Ipv6Conf {
    const FAMILY: u8 = af::INET6;
    const NAME: &'static str = "ipv6";
    const GROUP: u32 = rtm::grp::IPV6_NETCONF;
    const SLOTS: &'static [(u16, Self)] = &[
        (netconf::FORWARDING, Self::Forwarding),
        (netconf::MC_FORWARDING, Self::McForwarding),
        (netconf::PROXY_NEIGH, Self::ProxyNdp),
        (
            netconf::IGNORE_ROUTES_WITH_LINKDOWN,
            Self::IgnoreRoutesWithLinkdown,
        ),
    ];

    fn of<'a>(ns: &'a Namespace, target: &'a Target) -> &'a Conf<Self> {
        match target {
            Target::All => &ns.conf().all.ipv6,
            Target::Default => &ns.conf().default.ipv6,
            Target::Device(device) => &device.conf().ipv6,
        }
    }
}

fn ifindex(target: &Target) -> i32 {
    match target {
        Target::All => netconf::IFINDEX_ALL,
        Target::Default => netconf::IFINDEX_DEFAULT,
        Target::Device(device) => device.ifindex() as i32,
    }
}

/// Writes one setting or all (`inet_netconf_fill_devconf`).
fn fill<S: Told>(out: &mut Writer, ns: &Namespace, target: &Target, only: Option<usize>) {
    out.fixed(&NetConfMsg { family: S::FAMILY });
    out.put_i32(netconf::IFINDEX, ifindex(target));
    for (attribute, slot) in S::SLOTS {
        if only.is_none_or(|only| only == slot.index()) {
            out.put_i32(*attribute, S::of(ns, target).get(*slot));
        }
    }
}

/// Tells the listeners of what happens to settings: a protocol that is on a device, with all its settings
/// (`__devinet_sysctl_register`, `__addrconf_sysctl_register`), one that has left it
/// (`__devinet_sysctl_unregister`, `__addrconf_sysctl_unregister`), or another value.
pub(super) fn hear<S: Told>(ns: &Namespace, event: &ConfEvent<'_, S>) {
    match *event {
        ConfEvent::Began(device) => began::<S>(ns, device),
        ConfEvent::Ended(device) => ended::<S>(ns, device),
        ConfEvent::Changed(target, slot) => changed(ns, target, slot),
    }
}

fn began<S: Told>(ns: &Namespace, device: &Arc<Device>) {
    announce(ns, S::GROUP, rtm::NEWNETCONF, |out| {
        fill::<S>(out, ns, &Target::Device(device.clone()), None);
    });
}

fn ended<S: Told>(ns: &Namespace, device: &Device) {
    announce(ns, S::GROUP, rtm::DELNETCONF, |out| {
        out.fixed(&NetConfMsg { family: S::FAMILY });
        out.put_i32(netconf::IFINDEX, device.ifindex() as i32);
    });
}

fn changed<S: Told>(ns: &Namespace, target: &Target, slot: S) {
    if S::SLOTS
        .iter()
        .any(|(_, told)| told.index() == slot.index())
    {
        announce(ns, S::GROUP, rtm::NEWNETCONF, |out| {
            fill::<S>(out, ns, target, Some(slot.index()));
        });
    }
}

/// Returns the settings of a device, `all` or `default` (`inet_netconf_get_devconf`).
fn get(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    match ctl.message.family() {
        Some(af::INET) => get_of::<Ipv4Conf>(ctl),
        Some(af::INET6) => get_of::<Ipv6Conf>(ctl),
        Some(af::MPLS) => get_mpls(ctl),
        _ => Err(Error::new(errno::EOPNOTSUPP)),
    }
}

fn get_of<S: Told>(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let request = ctl.message;
    let invalid = |text: &str| Error::msg(errno::EINVAL, format!("{}: {text}", S::NAME));
    if request.payload().len() < NetConfMsg::LEN {
        return Err(invalid("Invalid header for netconf get request"));
    }
    let strictness = if ctl.strict {
        Strictness::DeprecatedStrict
    } else {
        Strictness::Liberal
    };
    let (_, attrs) = request.parse::<NetConfMsg>(&POLICY, strictness)?;
    if ctl.strict && attrs.types().any(|ty| ty != netconf::IFINDEX) {
        return Err(invalid("Unsupported attribute in netconf get request"));
    }
    let index = attrs
        .i32(netconf::IFINDEX)?
        .ok_or_else(|| Error::new(errno::EINVAL))?;
    let target = match index {
        netconf::IFINDEX_ALL => Target::All,
        netconf::IFINDEX_DEFAULT => Target::Default,
        index => {
            let device = ctl.ns.device(index as u32, ctl.guard).cloned();
            let device = device.filter(|device| device.has_ip(S::FAMILY == af::INET6));
            Target::Device(device.ok_or_else(|| Error::new(errno::EINVAL))?)
        }
    };
    let ns = ctl.ns.clone();
    ctl.reply(rtm::NEWNETCONF, 0, |out| fill::<S>(out, &ns, &target, None))
}

/// Writes the setting of a device (`mpls_netconf_fill_devconf`).
fn fill_mpls(out: &mut Writer, device: &Device, input: Option<i32>) {
    out.fixed(&NetConfMsg { family: af::MPLS });
    out.put_i32(netconf::IFINDEX, device.ifindex() as i32);
    if let Some(input) = input {
        out.put_i32(netconf::INPUT, input);
    }
}

fn mpls_input(ns: &Namespace, guard: &Guard, device: &Device) -> Option<i32> {
    Some(mpls::of(ns).map_or(0, |state| state.input(device.key, guard)))
}

/// Tells the listeners that a device has a setting of MPLS, another one, or none any more.
pub(super) fn hear_mpls(ns: &Namespace, device: &Device, input: Option<i32>) {
    let ty = match input {
        Some(_) => rtm::NEWNETCONF,
        None => rtm::DELNETCONF,
    };
    announce(ns, rtm::grp::MPLS_NETCONF, ty, |out| {
        fill_mpls(out, device, input);
    });
}

/// `mpls_netconf_get_devconf`
fn get_mpls(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let request = ctl.message;
    let invalid = |text| Err(Error::msg(errno::EINVAL, text));
    if request.payload().len() < NetConfMsg::LEN {
        return invalid("mpls: Invalid header for netconf get request");
    }
    let (_, attrs) = request.parse::<NetConfMsg>(&POLICY, ctl.get_strictness())?;
    if ctl.strict && attrs.types().any(|ty| ty != netconf::IFINDEX) {
        return invalid("mpls: Unsupported attribute in netconf get request");
    }
    let index = attrs.i32(netconf::IFINDEX)?;
    let device = index.and_then(|index| ctl.ns.device(index as u32, ctl.guard));
    let device = device.ok_or_else(|| Error::new(errno::EINVAL))?.clone();
    let input = mpls_input(ctl.ns, ctl.guard, &device);
    ctl.reply(rtm::NEWNETCONF, 0, |out| fill_mpls(out, &device, input))
}

/// `mpls_netconf_dump_devconf`
fn dump_mpls(ctl: &Ctl<'_>) -> Box<dyn Dump> {
    let devices = ctl.ns.all_devices();
    Collected::boxed(devices, false, |ctl, device: &Arc<Device>, out| {
        ctl.message(out, rtm::NEWNETCONF, |out| {
            fill_mpls(out, device, mpls_input(ctl.ns, ctl.guard, device));
        })
    })
}

/// Dumps the settings (`inet_netconf_dump_devconf`, `inet6_netconf_dump_devconf`).
fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    let family = crate::rtnl::dumped_family(ctl);
    let labels = ctl.message.family() == Some(af::MPLS);
    // The header of a dump of all families is just the first byte.
    if ctl.strict && ctl.message.payload().len().next_multiple_of(4) > 4 {
        let name = match family {
            _ if labels => "mpls",
            af::INET6 => "ipv6",
            _ => "ipv4",
        };
        let text = format!("{name}: Invalid data after header in netconf dump request");
        return Err(Error::msg(errno::EINVAL, text));
    }
    if labels {
        return Ok(dump_mpls(ctl));
    }
    let devices: Vec<Arc<Device>> = ctl.ns.all_devices();
    let mut items = Vec::new();
    for this in [af::INET, af::INET6] {
        if family == af::UNSPEC || family == this {
            let on = |device: &&Arc<Device>| device.has_ip(this == af::INET6);
            let targets = devices.iter().filter(on).cloned().map(Target::Device);
            items.extend(
                targets
                    .chain([Target::All, Target::Default])
                    .map(|target| (this, target)),
            );
        }
    }
    Ok(Collected::boxed(
        items,
        false,
        |ctl, (family, target), out| {
            ctl.message(out, rtm::NEWNETCONF, |out| match *family {
                af::INET => fill::<Ipv4Conf>(out, ctl.ns, target, None),
                _ => fill::<Ipv6Conf>(out, ctl.ns, target, None),
            })
        },
    ))
}
