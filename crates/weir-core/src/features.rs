// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The features of a device (`netdev_features_t`): the offloads it has, those a user may change, and those
//! a user asked for.
//!
//! Mirrors `__netdev_update_features` and `netdev_fix_features` (`net/core/dev.c`). Names, bits and
//! dependencies are those of Linux 6.1. Each kind offers its features ([`crate::kind::Link::features`]);
//! [`crate::netdev::update_features`]
//! applies a change of a user or of the lower device.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The number of features (`NETDEV_FEATURE_COUNT`).
pub const COUNT: usize = 64;

/// The features by bit (`NETIF_F_*`).
#[allow(missing_docs)] // The names are Linux's.
pub mod bit {
    pub const SG: u64 = 1 << 0;
    pub const IP_CSUM: u64 = 1 << 1;
    pub const HW_CSUM: u64 = 1 << 3;
    pub const IPV6_CSUM: u64 = 1 << 4;
    pub const HIGHDMA: u64 = 1 << 5;
    pub const FRAGLIST: u64 = 1 << 6;
    pub const HW_VLAN_CTAG_TX: u64 = 1 << 7;
    pub const HW_VLAN_CTAG_RX: u64 = 1 << 8;
    pub const VLAN_CHALLENGED: u64 = 1 << 10;
    pub const GSO: u64 = 1 << 11;
    pub const LLTX: u64 = 1 << 12;
    pub const NETNS_LOCAL: u64 = 1 << 13;
    pub const GRO: u64 = 1 << 14;
    pub const LRO: u64 = 1 << 15;
    pub const TSO: u64 = 1 << 16;
    pub const TSO_ECN: u64 = 1 << 18;
    pub const TSO_MANGLEID: u64 = 1 << 19;
    pub const TSO6: u64 = 1 << 20;
    pub const FSO: u64 = 1 << 21;
    pub const GSO_GRE: u64 = 1 << 22;
    pub const GSO_GRE_CSUM: u64 = 1 << 23;
    pub const GSO_IPXIP4: u64 = 1 << 24;
    pub const GSO_IPXIP6: u64 = 1 << 25;
    pub const GSO_UDP_TUNNEL: u64 = 1 << 26;
    pub const GSO_UDP_TUNNEL_CSUM: u64 = 1 << 27;
    pub const GSO_SCTP: u64 = 1 << 30;
    pub const GSO_UDP_L4: u64 = 1 << 33;
    pub const GSO_FRAGLIST: u64 = 1 << 34;
    pub const FCOE_CRC: u64 = 1 << 35;
    pub const SCTP_CRC: u64 = 1 << 36;
    pub const FCOE_MTU: u64 = 1 << 37;
    pub const NTUPLE: u64 = 1 << 38;
    pub const RXHASH: u64 = 1 << 39;
    pub const RXCSUM: u64 = 1 << 40;
    pub const NOCACHE_COPY: u64 = 1 << 41;
    pub const LOOPBACK: u64 = 1 << 42;
    pub const HW_VLAN_STAG_TX: u64 = 1 << 45;
    pub const HW_VLAN_STAG_RX: u64 = 1 << 46;
    pub const HW_TC: u64 = 1 << 49;
    pub const GRO_FRAGLIST: u64 = 1 << 57;
    pub const GRO_UDP_FWD: u64 = 1 << 59;

    /// `NETIF_F_ALL_TSO`
    pub const ALL_TSO: u64 = TSO | TSO6 | TSO_ECN | TSO_MANGLEID;
    /// `NETIF_F_ALL_FCOE`
    pub const ALL_FCOE: u64 = FCOE_CRC | FCOE_MTU | FSO;
    /// `NETIF_F_GSO_SOFTWARE`: the kinds of segmentation that the stack can do for a device.
    pub const GSO_SOFTWARE: u64 = ALL_TSO | GSO_SCTP | GSO_UDP_L4 | GSO_FRAGLIST;
    /// `NETIF_F_GSO_ENCAP_ALL`
    pub const GSO_ENCAP_ALL: u64 =
        GSO_GRE | GSO_GRE_CSUM | GSO_IPXIP4 | GSO_IPXIP6 | GSO_UDP_TUNNEL | GSO_UDP_TUNNEL_CSUM;
    /// `NETIF_F_SOFT_FEATURES`: every device has these, and they are on by default.
    pub const SOFT: u64 = GSO | GRO;
    /// `NETIF_F_SOFT_FEATURES_OFF`: every device has these, and they are off by default.
    pub const SOFT_OFF: u64 = GRO_FRAGLIST | GRO_UDP_FWD;
    /// `NETIF_F_NEVER_CHANGE`
    pub const NEVER_CHANGE: u64 = VLAN_CHALLENGED | LLTX | NETNS_LOCAL;
    /// The acceleration of VLAN tags.
    pub const VLAN_ACCELERATION: u64 =
        HW_VLAN_CTAG_TX | HW_VLAN_CTAG_RX | HW_VLAN_STAG_TX | HW_VLAN_STAG_RX;
}

/// The names of the features (`netdev_features_strings`). Unused bits have no name.
pub static NAMES: [&str; COUNT] = [
    "tx-scatter-gather",
    "tx-checksum-ipv4",
    "",
    "tx-checksum-ip-generic",
    "tx-checksum-ipv6",
    "highdma",
    "tx-scatter-gather-fraglist",
    "tx-vlan-hw-insert",
    "rx-vlan-hw-parse",
    "rx-vlan-filter",
    "vlan-challenged",
    "tx-generic-segmentation",
    "tx-lockless",
    "netns-local",
    "rx-gro",
    "rx-lro",
    "tx-tcp-segmentation",
    "tx-gso-robust",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-tcp6-segmentation",
    "tx-fcoe-segmentation",
    "tx-gre-segmentation",
    "tx-gre-csum-segmentation",
    "tx-ipxip4-segmentation",
    "tx-ipxip6-segmentation",
    "tx-udp_tnl-segmentation",
    "tx-udp_tnl-csum-segmentation",
    "tx-gso-partial",
    "tx-tunnel-remcsum-segmentation",
    "tx-sctp-segmentation",
    "tx-esp-segmentation",
    "",
    "tx-udp-segmentation",
    "tx-gso-list",
    "tx-checksum-fcoe-crc",
    "tx-checksum-sctp",
    "fcoe-mtu",
    "rx-ntuple-filter",
    "rx-hashing",
    "rx-checksum",
    "tx-nocache-copy",
    "loopback",
    "rx-fcs",
    "rx-all",
    "tx-vlan-stag-hw-insert",
    "rx-vlan-stag-hw-parse",
    "rx-vlan-stag-filter",
    "l2-fwd-offload",
    "hw-tc-offload",
    "esp-hw-offload",
    "esp-tx-csum-hw-offload",
    "rx-udp_tunnel-port-offload",
    "tls-hw-tx-offload",
    "tls-hw-rx-offload",
    "rx-gro-hw",
    "tls-hw-record",
    "rx-gro-list",
    "macsec-hw-offload",
    "rx-udp-gro-forwarding",
    "hsr-tag-ins-offload",
    "hsr-tag-rm-offload",
    "hsr-fwd-offload",
    "hsr-dup-offload",
];

/// The features that a kind gives its devices. Registration adds those that every device has.
#[derive(Debug, Clone, Copy, Default)]
pub struct Offer {
    /// The features that are on at first (`dev->features`).
    pub active: u64,
    /// The features that a user may change (`dev->hw_features`).
    pub changeable: u64,
    /// The features that VLAN devices on top of the device may have (`dev->vlan_features`).
    pub vlan: u64,
    /// Features of every device that are off at first all the same.
    pub off: u64,
}

/// Beside the features: a request asked for receive offload (GRO) by name.
const GRO_ASKED: u64 = 1 << 63;

/// The features of a device.
#[derive(Debug)]
pub struct Features {
    changeable: u64,
    vlan: u64,
    /// The changeable features that a user wants, and [`GRO_ASKED`].
    wanted: AtomicU64,
    active: AtomicU64,
}

impl Features {
    /// Adds the features that every device has to those of its kind (`register_netdevice`). They take
    /// effect with the first [`Features::recompute`].
    pub fn new(offer: Offer, loopback: bool) -> Self {
        let mut changeable = offer.changeable | bit::SOFT | bit::SOFT_OFF;
        let active = (offer.active | bit::SOFT) & !offer.off;
        let wanted = active & changeable;
        if !loopback {
            changeable |= bit::NOCACHE_COPY;
        }
        if changeable & bit::TSO != 0 {
            changeable |= bit::TSO_MANGLEID;
        }
        let mut vlan = offer.vlan | bit::HIGHDMA;
        if vlan & bit::TSO != 0 {
            vlan |= bit::TSO_MANGLEID;
        }
        Self {
            changeable,
            vlan,
            wanted: AtomicU64::new(wanted),
            active: AtomicU64::new(active),
        }
    }

    /// Returns the features that are on.
    #[inline]
    pub fn active(&self) -> u64 {
        self.active.load(Relaxed)
    }

    /// Returns the features that a user may change.
    pub fn changeable(&self) -> u64 {
        self.changeable
    }

    /// Returns the changeable features that a user wants.
    pub fn wanted(&self) -> u64 {
        self.wanted.load(Relaxed) & !GRO_ASKED
    }

    /// Returns the features that VLAN devices on top may have.
    pub fn vlan(&self) -> u64 {
        self.vlan
    }

    /// Returns whether a request asked for receive offload (GRO) by name.
    #[inline]
    pub fn gro_asked(&self) -> bool {
        self.wanted.load(Relaxed) & GRO_ASKED != 0
    }

    /// Computes the active features again (`__netdev_update_features`). `kind` removes those that the device
    /// cannot have at present. Returns whether they changed. The caller serialises the calls.
    pub fn recompute(&self, kind: impl FnOnce(u64) -> u64) -> bool {
        let wanted = (self.active() & !self.changeable) | self.wanted();
        let fixed = fix(kind(wanted));
        self.active.swap(fixed, Relaxed) != fixed
    }

    /// Wants the features of `value` among those of `mask`. Features that cannot be changed are ignored.
    pub fn want(&self, value: u64, mask: u64) {
        let mask = mask & self.changeable;
        let asked = |features| match features & bit::GRO {
            0 => 0,
            _ => GRO_ASKED,
        };
        let (value, mask) = (value | asked(value), mask | asked(mask));
        let change = |before: u64| Some((before & !mask) | (value & mask));
        let _ = self.wanted.fetch_update(Relaxed, Relaxed, change);
    }
}

/// Removes features whose requirements are missing (`netdev_fix_features`).
pub fn fix(mut features: u64) -> u64 {
    let has = |features: u64, bits: u64| features & bits != 0;
    if has(features, bit::HW_CSUM) {
        features &= !(bit::IP_CSUM | bit::IPV6_CSUM);
    }
    if !has(features, bit::SG) {
        features &= !bit::ALL_TSO;
    }
    if !has(features, bit::HW_CSUM | bit::IP_CSUM) && has(features, bit::TSO) {
        features &= !(bit::TSO | bit::TSO_ECN);
    }
    if !has(features, bit::HW_CSUM | bit::IPV6_CSUM) {
        features &= !bit::TSO6;
    }
    if !has(features, bit::TSO) {
        features &= !bit::TSO_MANGLEID;
    }
    if features & bit::ALL_TSO == bit::TSO_ECN {
        features &= !bit::TSO_ECN;
    }
    if !has(features, bit::SG) {
        features &= !bit::GSO;
    }
    features
}

/// Returns the features that both devices have. A generic checksum includes those of IPv4 and IPv6
/// (`netdev_intersect_features`).
pub fn intersect(mut one: u64, mut other: u64) -> u64 {
    if (one ^ other) & bit::HW_CSUM != 0 {
        let part = match one & bit::HW_CSUM != 0 {
            true => &mut one,
            false => &mut other,
        };
        *part |= bit::IP_CSUM | bit::IPV6_CSUM;
    }
    one & other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_have_the_dependencies_of_linux() {
        let all = bit::SG | bit::HW_CSUM | bit::GSO | bit::ALL_TSO;
        assert_eq!(fix(all), all);
        assert_eq!(fix(all & !bit::SG), bit::HW_CSUM);
        assert_eq!(fix(all & !bit::HW_CSUM), bit::SG | bit::GSO);
        let without = all & !bit::TSO;
        assert_eq!(fix(without), without & !bit::TSO_MANGLEID);
        assert_eq!(fix(all | bit::IP_CSUM), all);
        assert_eq!(
            fix(bit::SG | bit::HW_CSUM | bit::TSO_ECN),
            bit::SG | bit::HW_CSUM
        );
    }

    #[test]
    fn a_generic_checksum_includes_the_others() {
        assert_eq!(intersect(bit::HW_CSUM, bit::IP_CSUM), bit::IP_CSUM);
        assert_eq!(
            intersect(bit::HW_CSUM | bit::SG, bit::HW_CSUM),
            bit::HW_CSUM
        );
    }

    #[test]
    fn wanting_ignores_fixed_features() {
        let offer = Offer {
            active: bit::LLTX | bit::SG,
            changeable: bit::SG,
            ..Offer::default()
        };
        let features = Features::new(offer, false);
        features.want(0, bit::LLTX | bit::SG);
        assert_eq!(features.wanted(), bit::SOFT);
        assert_eq!(features.active() & bit::LLTX, bit::LLTX);
        assert!(!features.gro_asked());
        features.want(bit::GRO, bit::GRO);
        assert!(features.gro_asked());
    }
}
