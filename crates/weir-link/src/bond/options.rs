// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of a bond: names, values and when they may change (`bond_opts` of `bond_options.c`).

use weir_netlink::ifla::bond as attr;
use weir_netlink::{Error, errno};

/// The modes (`BOND_MODE_*`).
#[allow(missing_docs)] // The names are Linux's.
pub mod mode {
    pub const ROUND_ROBIN: u32 = 0;
    pub const ACTIVE_BACKUP: u32 = 1;
    pub const XOR: u32 = 2;
    pub const BROADCAST: u32 = 3;
    pub const AD: u32 = 4;
    pub const TLB: u32 = 5;
    pub const ALB: u32 = 6;
}

/// The hash policies (`BOND_XMIT_POLICY_*`).
#[allow(missing_docs)] // The names are Linux's.
pub mod policy {
    pub const LAYER2: u32 = 0;
    pub const LAYER34: u32 = 1;
    pub const LAYER23: u32 = 2;
    pub const ENCAP23: u32 = 3;
    pub const ENCAP34: u32 = 4;
    pub const VLAN_SRCMAC: u32 = 5;
}

/// The group of LACP (`lacpdu_mcast_addr`).
pub const LACP_GROUP: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 2];
/// `BOND_ARP_TARGETS_ALL`
pub const ALL_TARGETS: u32 = 1;
/// `BOND_FOM_ACTIVE`
pub const FOLLOW_ACTIVE: u32 = 1;
/// `BOND_FOM_FOLLOW`
pub const FOLLOW: u32 = 2;
/// `BOND_PRI_RESELECT_BETTER`
pub const RESELECT_BETTER: u32 = 1;
/// `BOND_PRI_RESELECT_FAILURE`
pub const RESELECT_FAILURE: u32 = 2;

/// An option (`struct bond_option`).
pub struct Opt {
    /// The attribute.
    pub ty: u16,
    /// The name of the file in `/sys/class/net/BOND/bonding`.
    pub name: &'static str,
    /// The value of a new bond.
    pub default: u32,
    /// The smallest and the largest value.
    pub range: (u32, u32),
    /// The names of the values from 0 on.
    pub names: &'static [&'static str],
    /// The modes in which the option may be set, as bits.
    modes: u8,
    /// Whether a bond with ports refuses a change (`BOND_OPTFLAG_NOSLAVES`).
    no_slaves: bool,
    /// Whether a bond that is up refuses a change (`BOND_OPTFLAG_IFDOWN`).
    down: bool,
}

const INT_MAX: u32 = i32::MAX as u32;
const AD_ONLY: u8 = 1 << mode::AD;
const PRIMARY_MODES: u8 = 1 << mode::ACTIVE_BACKUP | 1 << mode::TLB | 1 << mode::ALB;
const ARP_MODES: u8 = !(1 << mode::AD | 1 << mode::TLB | 1 << mode::ALB);

const ANY: Opt = Opt {
    ty: 0,
    name: "",
    default: 0,
    range: (0, INT_MAX),
    names: &[],
    modes: u8::MAX,
    no_slaves: false,
    down: false,
};

/// An option that is off or on.
const SWITCH: Opt = Opt {
    range: (0, 1),
    ..ANY
};

const fn numbered(ty: u16, name: &'static str, default: u32, range: (u32, u32)) -> Opt {
    Opt {
        ty,
        name,
        default,
        range,
        ..ANY
    }
}

const fn named(ty: u16, name: &'static str, names: &'static [&'static str]) -> Opt {
    Opt {
        ty,
        name,
        range: (0, names.len() as u32 - 1),
        names,
        ..ANY
    }
}

/// The options in the order in which a request applies them (`bond_changelink`). Those whose values are no numbers
/// have no range.
pub static OPTIONS: &[Opt] = &[
    Opt {
        no_slaves: true,
        down: true,
        ..named(
            attr::MODE,
            "mode",
            &[
                "balance-rr",
                "active-backup",
                "balance-xor",
                "broadcast",
                "802.3ad",
                "balance-tlb",
                "balance-alb",
            ],
        )
    },
    Opt {
        ty: attr::ACTIVE_SLAVE,
        name: "active_slave",
        modes: PRIMARY_MODES,
        ..ANY
    },
    numbered(attr::MIIMON, "miimon", 0, (0, INT_MAX)),
    numbered(attr::UPDELAY, "updelay", 0, (0, INT_MAX)),
    numbered(attr::DOWNDELAY, "downdelay", 0, (0, INT_MAX)),
    numbered(attr::PEER_NOTIF_DELAY, "peer_notif_delay", 0, (0, 300_000)),
    Opt {
        ty: attr::USE_CARRIER,
        name: "use_carrier",
        default: 1,
        ..SWITCH
    },
    Opt {
        modes: ARP_MODES,
        ..numbered(attr::ARP_INTERVAL, "arp_interval", 0, (0, INT_MAX))
    },
    Opt {
        ty: attr::ARP_IP_TARGET,
        name: "arp_ip_target",
        ..ANY
    },
    Opt {
        ty: attr::NS_IP6_TARGET,
        name: "ns_ip6_target",
        ..ANY
    },
    Opt {
        modes: ARP_MODES,
        ..named(
            attr::ARP_VALIDATE,
            "arp_validate",
            &[
                "none",
                "active",
                "backup",
                "all",
                "filter",
                "filter_active",
                "filter_backup",
            ],
        )
    },
    named(attr::ARP_ALL_TARGETS, "arp_all_targets", &["any", "all"]),
    Opt {
        ty: attr::PRIMARY,
        name: "primary",
        modes: PRIMARY_MODES,
        ..ANY
    },
    named(
        attr::PRIMARY_RESELECT,
        "primary_reselect",
        &["always", "better", "failure"],
    ),
    Opt {
        no_slaves: true,
        ..named(
            attr::FAIL_OVER_MAC,
            "fail_over_mac",
            &["none", "active", "follow"],
        )
    },
    named(
        attr::XMIT_HASH_POLICY,
        "xmit_hash_policy",
        &[
            "layer2",
            "layer3+4",
            "layer2+3",
            "encap2+3",
            "encap3+4",
            "vlan+srcmac",
        ],
    ),
    numbered(attr::RESEND_IGMP, "resend_igmp", 1, (0, 255)),
    numbered(attr::NUM_PEER_NOTIF, "num_grat_arp", 1, (0, 255)),
    Opt {
        ty: attr::ALL_SLAVES_ACTIVE,
        name: "all_slaves_active",
        ..SWITCH
    },
    numbered(attr::MIN_LINKS, "min_links", 0, (0, INT_MAX)),
    numbered(attr::LP_INTERVAL, "lp_interval", 1, (1, INT_MAX)),
    Opt {
        modes: 1 << mode::ROUND_ROBIN,
        ..numbered(attr::PACKETS_PER_SLAVE, "packets_per_slave", 1, (0, 65_535))
    },
    Opt {
        default: 1,
        modes: AD_ONLY,
        down: true,
        ..named(attr::AD_LACP_ACTIVE, "lacp_active", &["off", "on"])
    },
    Opt {
        modes: AD_ONLY,
        down: true,
        ..named(attr::AD_LACP_RATE, "lacp_rate", &["slow", "fast"])
    },
    Opt {
        down: true,
        ..named(
            attr::AD_SELECT,
            "ad_select",
            &["stable", "bandwidth", "count"],
        )
    },
    Opt {
        modes: AD_ONLY,
        ..numbered(
            attr::AD_ACTOR_SYS_PRIO,
            "ad_actor_sys_prio",
            65_535,
            (1, 65_535),
        )
    },
    Opt {
        modes: AD_ONLY,
        down: true,
        ..numbered(attr::AD_USER_PORT_KEY, "ad_user_port_key", 0, (0, 1023))
    },
    Opt {
        ty: attr::AD_ACTOR_SYSTEM,
        name: "ad_actor_system",
        modes: AD_ONLY,
        ..ANY
    },
    Opt {
        ty: attr::TLB_DYNAMIC_LB,
        name: "tlb_dynamic_lb",
        default: 1,
        modes: 1 << mode::TLB,
        down: true,
        ..SWITCH
    },
    Opt {
        modes: ARP_MODES,
        ..numbered(attr::MISSED_MAX, "arp_missed_max", 2, (1, 255))
    },
];

/// Returns the option of an attribute.
pub fn option(ty: u16) -> Option<&'static Opt> {
    OPTIONS.iter().find(|option| option.ty == ty)
}

/// Returns the error of a value that the option does not have.
pub fn invalid() -> Error {
    Error::msg(errno::EINVAL, "invalid option value")
}

impl Opt {
    /// Checks that the option may be set at present (`bond_opt_check_deps`).
    ///
    /// # Errors
    /// EACCES in a mode that does not have the option, ENOTEMPTY with ports, EBUSY for a bond that is up.
    pub fn check_allowed(&self, mode: u32, has_slaves: bool, is_up: bool) -> Result<(), Error> {
        if self.modes >> mode & 1 == 0 {
            let text = "option not supported in mode";
            return Err(Error::msg(errno::EACCES, text));
        }
        if self.no_slaves && has_slaves {
            let text = "unable to set option because the bond device has slaves";
            return Err(Error::msg(errno::ENOTEMPTY, text));
        }
        if self.down && is_up {
            let text = "unable to set option because the bond is up";
            return Err(Error::msg(errno::EBUSY, text));
        }
        Ok(())
    }

    /// Checks a number (`bond_opt_parse`).
    ///
    /// # Errors
    /// EINVAL
    pub fn check_value(&self, value: u32) -> Result<(), Error> {
        let (min, max) = self.range;
        match (min..=max).contains(&value) {
            true => Ok(()),
            false => Err(invalid()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_has_one_option() {
        for ty in 1..=attr::NS_IP6_TARGET {
            let count = OPTIONS.iter().filter(|option| option.ty == ty).count();
            assert_eq!(count, usize::from(ty != attr::AD_INFO), "{ty}");
        }
        for option in OPTIONS {
            let (min, max) = option.range;
            assert!((min..=max).contains(&option.default), "{}", option.name);
        }
    }
}
