// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The properties of a device that decide how IPv6 treats it.

use weir_netlink::ifla::iff;

use crate::layers::Site;
use crate::settings::{IPV6_MIN_MTU, Ipv6Conf, WithSettings};

/// The questions IPv6 asks about a device in its namespace.
pub(super) trait Facts {
    /// Returns the index of the device.
    fn ifindex(&self) -> u32;
    /// Returns whether a setting of the device is not 0.
    fn on(&self, slot: Ipv6Conf) -> bool;
    /// Returns whether the device has no neighbour discovery.
    fn is_quiet(&self) -> bool;
    /// Returns whether it is the loopback device.
    fn is_loopback(&self) -> bool;
    /// Returns whether the device is up and has a carrier (`addrconf_link_ready`).
    fn has_link(&self) -> bool;
    /// Returns whether the device sends and receives multicast packets (`IFF_MULTICAST`).
    fn has_multicast(&self) -> bool;
    /// Returns whether the device can carry IPv6 at all (`ipv6_find_idev`).
    fn is_able(&self) -> bool;
}

impl Facts for Site<'_> {
    fn ifindex(&self) -> u32 {
        self.device.ifindex()
    }

    fn on(&self, slot: Ipv6Conf) -> bool {
        self.device.conf().ipv6.on(slot)
    }

    fn is_quiet(&self) -> bool {
        self.device.flags() & (iff::NOARP | iff::LOOPBACK) != 0
    }

    fn is_loopback(&self) -> bool {
        self.device.flags() & iff::LOOPBACK != 0
    }

    fn has_link(&self) -> bool {
        self.device.is_up() && self.device.link.carrier(self.stack, self.device)
    }

    fn has_multicast(&self) -> bool {
        self.device.flags() & iff::MULTICAST != 0
    }

    fn is_able(&self) -> bool {
        self.device.mtu() >= IPV6_MIN_MTU
    }
}
