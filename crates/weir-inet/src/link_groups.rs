// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The link-layer addresses of IP groups, which an Ethernet device accepts while it is a member (`ip_mc_filter_add`,
//! `igmp6_group_added`).

use std::net::IpAddr;

use weir_netlink::ifla::arphrd;
use weir_packet::header::ethernet::{multicast_v4, multicast_v6};

use crate::device::{Device, Mac};
use crate::layers::Site;
use crate::taken::{self, Reference};

fn address_of(group: IpAddr, device: &Device) -> Option<Mac> {
    (device.link.hardware_type() == arphrd::ETHER).then(|| match group {
        IpAddr::V4(group) => multicast_v4(group.octets()),
        IpAddr::V6(group) => multicast_v6(group.octets()),
    })
}

/// Adds the link-layer address of a group to the device's list.
pub(crate) fn accept(site: &Site<'_>, group: impl Into<IpAddr>) {
    if let Some(mac) = address_of(group.into(), site.device) {
        // A plain reference is always granted.
        let _ = taken::add_group(site.stack, site.guard, site.device, mac, Reference::Plain);
    }
}

/// Removes the link-layer address of a group from the device's list.
pub(crate) fn refuse(site: &Site<'_>, group: impl Into<IpAddr>) {
    if let Some(mac) = address_of(group.into(), site.device) {
        // The device loses its list on a move to another namespace.
        let _ = taken::remove_group(site.stack, site.guard, site.device, mac, Reference::Plain);
    }
}
