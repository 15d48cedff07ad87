// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes a device's attributes (`rtnl_fill_ifinfo`).

use std::sync::Arc;

use weir_netlink::{IfInfoMsg, LinkIfMap, LinkStats, LinkStats64, Writer, af, ifla, rtm};
use weir_sync::rcu::Guard;

use crate::device::Device;
use crate::ipv6::WithIpv6;
use crate::link::{operstate, reported_flags};
use crate::namespace::Namespace;
use crate::settings::HasIp;
use crate::settings::WithSettings;
use crate::stack::Stack;
use crate::sysctl::Ipv6Conf;

/// Notifies the listeners of a change of a device. `change` is `ifi_change`.
pub fn notify(
    stack: &Stack,
    guard: &Guard,
    ns: &Namespace,
    device: &Arc<Device>,
    ty: u16,
    change: u32,
) {
    crate::rtnl::announce(ns, rtm::grp::LINK, ty, |out| {
        let goes = if ty == rtm::DELLINK {
            Goes::Away
        } else {
            Goes::Not
        };
        write(stack, guard, ns, device, (change, goes), out);
    });
}

/// Notifies the listeners of an event with a number, `IFLA_EVENT_*` (`rtnetlink_event`).
pub fn notify_event(
    stack: &Stack,
    guard: &Guard,
    ns: &Namespace,
    device: &Arc<Device>,
    event: u32,
) {
    crate::rtnl::announce(ns, rtm::grp::LINK, rtm::NEWLINK, |out| {
        write(stack, guard, ns, device, (0, Goes::Nowhere(event)), out);
    });
}

/// Notifies the listeners in `ns` that a device moves to the namespace with the id `nsid` and gets
/// the index `ifindex` there (`rtmsg_ifinfo_newnet`).
pub fn notify_move(
    stack: &Stack,
    guard: &Guard,
    ns: &Namespace,
    device: &Arc<Device>,
    nsid: i32,
    ifindex: u32,
) {
    let goes = Goes::To { nsid, ifindex };
    crate::rtnl::announce(ns, rtm::grp::LINK, rtm::DELLINK, |out| {
        write(stack, guard, ns, device, (u32::MAX, goes), out);
    });
}

/// Whether the announced device is leaving its namespace, or what else is announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goes {
    Not,
    /// It stays, and something with an `IFLA_EVENT` happened.
    Nowhere(u32),
    Away,
    To {
        nsid: i32,
        ifindex: u32,
    },
}

/// Returns a device's counters, including those of its kind.
pub fn statistics(device: &Device) -> LinkStats64 {
    let mut stats = LinkStats64::default();
    device.totals().add_to(&mut stats);
    device.link.add_stats(&mut stats);
    stats
}

/// Writes a device's IPv6 settings that are not sysctls (`inet6_fill_ifla6_attrs`).
fn put_inet6(device: &Device, out: &mut Writer) {
    let token = u128::from(device.ipv6().token());
    out.put(ifla::inet6::TOKEN, &token.to_be_bytes());
    out.put_u8(
        ifla::inet6::ADDR_GEN_MODE,
        device.conf().ipv6.get(Ipv6Conf::AddrGenMode) as u8,
    );
}

/// Writes a device as IPv6 reports it (`inet6_fill_ifinfo`), for `ip -6 link`.
pub fn fill_ipv6(stack: &Stack, device: &Arc<Device>, out: &mut Writer) {
    out.fixed(&IfInfoMsg {
        family: af::INET6,
        pad: 0,
        ty: device.link.hardware_type(),
        index: device.ifindex() as i32,
        flags: reported_flags(stack, device),
        change: 0,
    });
    out.put_str(ifla::IFNAME, &device.name());
    match device.link.hardware_addresses() {
        Some((own, _)) if own.is_empty() => {}
        Some((own, _)) => out.put(ifla::ADDRESS, &own),
        None => out.put(ifla::ADDRESS, &device.address()),
    }
    out.put_u32(ifla::MTU, device.mtu());
    if let Some((_, index)) = device.link.lower(stack) {
        out.put_u32(ifla::LINK, index);
    }
    out.put_u8(ifla::OPERSTATE, operstate(stack, device));
    let info = out.nest_noflag(ifla::PROTINFO);
    put_inet6(device, out);
    out.end(info);
}

/// Writes a device's `ifinfomsg` and attributes, as seen from `ns`.
pub fn fill(
    stack: &Stack,
    guard: &Guard,
    ns: &Namespace,
    device: &Arc<Device>,
    change: u32,
    out: &mut Writer,
) {
    write(stack, guard, ns, device, (change, Goes::Not), out);
}

/// Writes a device (`rtnl_fill_ifinfo`). When a device's removal is announced, IPv6 has already
/// been shut down on it.
fn write(
    stack: &Stack,
    guard: &Guard,
    ns: &Namespace,
    device: &Arc<Device>,
    (change, goes): (u32, Goes),
    out: &mut Writer,
) {
    out.fixed(&IfInfoMsg {
        family: af::UNSPEC,
        pad: 0,
        ty: device.link.hardware_type(),
        index: device.ifindex() as i32,
        flags: reported_flags(stack, device),
        change,
    });
    let names = device.names().clone();
    let (min_mtu, max_mtu) = device.link.mtu_bounds();
    out.put_str(ifla::IFNAME, &names.name);
    out.put_u32(ifla::TXQLEN, device.txqlen());
    out.put_u8(ifla::OPERSTATE, operstate(stack, device));
    out.put_u8(ifla::LINKMODE, device.link_mode());
    out.put_u32(ifla::MTU, device.mtu());
    out.put_u32(ifla::MIN_MTU, min_mtu);
    out.put_u32(ifla::MAX_MTU, max_mtu);
    out.put_u32(ifla::GROUP, device.group());
    out.put_u32(ifla::PROMISCUITY, device.promiscuity());
    out.put_u32(ifla::ALLMULTI, device.allmulti());
    out.put_u32(ifla::NUM_TX_QUEUES, device.tx_queues());
    let offload = device.offload();
    out.put_u32(ifla::GSO_MAX_SEGS, offload.gso_max_segs);
    out.put_u32(ifla::GSO_MAX_SIZE, offload.gso_max_size);
    out.put_u32(ifla::GRO_MAX_SIZE, offload.gro_max_size);
    out.put_u32(ifla::TSO_MAX_SIZE, device.link.tso_max_size());
    out.put_u32(ifla::TSO_MAX_SEGS, 65_535);
    out.put_u32(ifla::NUM_RX_QUEUES, device.rx_queues());
    let master = device.master(guard);
    if let Some(master) = master {
        out.put_u32(ifla::MASTER, master.ifindex());
    }
    out.put_u8(ifla::CARRIER, u8::from(device.link.carrier(stack, device)));
    out.put_str(ifla::QDISC, &crate::datapath::root_qdisc(device, guard));
    if let Some(alias) = names.alias() {
        out.put_c_str(ifla::IFALIAS, alias.as_bytes());
    }
    let (ups, downs) = device.carrier_changes();
    out.put_u32(ifla::CARRIER_CHANGES, ups.wrapping_add(downs));
    out.put_u32(ifla::CARRIER_UP_COUNT, ups);
    out.put_u32(ifla::CARRIER_DOWN_COUNT, downs);
    out.put_u8(ifla::PROTO_DOWN, 0);
    if let Goes::Nowhere(event) = goes {
        out.put_u32(ifla::EVENT, event);
    }
    out.put_fixed_pad(ifla::MAP, &LinkIfMap::default(), ifla::PAD);
    match device.link.hardware_addresses() {
        Some((own, _)) if own.is_empty() => {}
        Some((own, broadcast)) => {
            out.put(ifla::ADDRESS, &own);
            out.put(ifla::BROADCAST, &broadcast);
        }
        None => {
            out.put(ifla::ADDRESS, &device.address());
            out.put(ifla::BROADCAST, &device.broadcast());
        }
    }
    let port = device.link.port();
    if let Some(port) = port {
        out.put_str(ifla::PHYS_PORT_NAME, &port.name);
        out.put(ifla::PHYS_SWITCH_ID, &port.switch);
    }
    let stats = statistics(device);
    out.put_fixed_pad(ifla::STATS64, &stats, ifla::PAD);
    out.put_fixed(ifla::STATS, &LinkStats::from(&stats));
    let xdp = out.nest_noflag(ifla::XDP);
    out.put_u8(ifla::xdp::ATTACHED, 0);
    out.end(xdp);
    let slave = master.and_then(|master| Some((master, master.link.master()?)));
    if !device.link.kind().is_empty() || slave.is_some() {
        let info = out.nest_noflag(ifla::LINKINFO);
        if !device.link.kind().is_empty() {
            out.put_str(ifla::info::KIND, device.link.kind());
            let data = out.nest_noflag(ifla::info::DATA);
            device.link.fill_data(stack, out);
            out.end_or_cancel(data);
        }
        if let Some((master, ports)) = slave {
            out.put_str(ifla::info::SLAVE_KIND, master.link.kind());
            let data = out.nest_noflag(ifla::info::SLAVE_DATA);
            ports.fill_port(stack, guard, device, out);
            out.end_or_cancel(data);
        }
        out.end(info);
    }
    let lower = device.link.lower(stack);
    let other = lower.map(|(other, _)| other);
    if let Some(other) = other.or(device.link.link_namespace())
        && other != ns.id
        && (device.link.link_namespace().is_some() || lower.is_none_or(|(_, index)| index != 0))
    {
        out.put_i32(ifla::LINK_NETNSID, crate::rtnl::nsid::id_of(ns, other));
    }
    if let Some((_, index)) = lower {
        out.put_u32(ifla::LINK, index);
    }
    if let Goes::To { nsid, ifindex } = goes {
        out.put_i32(ifla::NEW_NETNSID, nsid);
        out.put_i32(ifla::NEW_IFINDEX, ifindex as i32);
    }
    if let Some(permanent) = device.link.permanent_address() {
        out.put(ifla::PERM_ADDRESS, &permanent);
    }
    let spec = out.nest_noflag(ifla::AF_SPEC);
    // Without the nested flag, as in Linux: iproute2 looks for the bare type.
    if device.has_ipv6() && matches!(goes, Goes::Not | Goes::Nowhere(_)) {
        let inet6 = out.nest_noflag(u16::from(af::INET6));
        put_inet6(device, out);
        out.end(inet6);
    }
    out.end(spec);
    if !names.alt().is_empty() {
        let list = out.nest(ifla::PROP_LIST);
        for name in names.alt() {
            out.put_str(ifla::ALT_IFNAME, name);
        }
        out.end(list);
    }
    if let Some(port) = port {
        out.put_str(ifla::PARENT_DEV_NAME, &port.parent);
        out.put_str(ifla::PARENT_DEV_BUS_NAME, port.bus);
    }
}
