// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/sys/class/net/BRIDGE/bridge` and `/sys/class/net/PORT/brport` (`net/bridge/br_sysfs_br.c`, `br_sysfs_if.c`).
//!
//! A file shows the attribute of the same meaning of the netlink answer, and a write becomes the request. What the
//! request refuses is refused here too.

use weir_intercept::Errno;
use weir_netlink::ifla::{br, brport};
use weir_netlink::{Attr, Writer, attrs};

/// How an attribute is shown, and its size in a request.
#[derive(Clone, Copy)]
pub enum Form {
    /// One octet.
    U8,
    /// Two octets.
    U16,
    /// Two octets, in hexadecimal.
    Hex,
    /// Two octets in network order, in hexadecimal.
    Be,
    /// Four octets.
    U32,
    /// Eight octets.
    U64,
    /// A bridge identifier.
    Id,
    /// An Ethernet address.
    Mac,
    /// A bit of `struct br_boolopt_multi`.
    Bit(u32),
    /// No attribute: the same text always.
    Always(&'static str),
    /// The attribute is a command.
    Command,
}

use Form::{Always, Be, Bit, Command, Hex, Id, Mac, U8, U16, U32, U64};

/// A file: name, mode, attribute, form.
pub type File = (&'static str, u32, u16, Form);

/// The files of a bridge, sorted.
pub const BRIDGE: &[File] = &[
    ("ageing_time", 0o644, br::AGEING_TIME, U32),
    ("bridge_id", 0o444, br::BRIDGE_ID, Id),
    ("default_pvid", 0o644, br::VLAN_DEFAULT_PVID, U16),
    ("flush", 0o200, br::FDB_FLUSH, Command),
    ("forward_delay", 0o644, br::FORWARD_DELAY, U32),
    ("gc_timer", 0o444, br::GC_TIMER, U64),
    ("group_addr", 0o644, br::GROUP_ADDR, Mac),
    ("group_fwd_mask", 0o644, br::GROUP_FWD_MASK, Hex),
    ("hash_elasticity", 0o644, br::MCAST_HASH_ELASTICITY, U32),
    ("hash_max", 0o644, br::MCAST_HASH_MAX, U32),
    ("hello_time", 0o644, br::HELLO_TIME, U32),
    ("hello_timer", 0o444, br::HELLO_TIMER, U64),
    ("max_age", 0o644, br::MAX_AGE, U32),
    ("multicast_igmp_version", 0o644, br::MCAST_IGMP_VERSION, U8),
    (
        "multicast_last_member_count",
        0o644,
        br::MCAST_LAST_MEMBER_CNT,
        U32,
    ),
    (
        "multicast_last_member_interval",
        0o644,
        br::MCAST_LAST_MEMBER_INTVL,
        U64,
    ),
    (
        "multicast_membership_interval",
        0o644,
        br::MCAST_MEMBERSHIP_INTVL,
        U64,
    ),
    ("multicast_mld_version", 0o644, br::MCAST_MLD_VERSION, U8),
    ("multicast_querier", 0o644, br::MCAST_QUERIER, U8),
    (
        "multicast_querier_interval",
        0o644,
        br::MCAST_QUERIER_INTVL,
        U64,
    ),
    (
        "multicast_query_interval",
        0o644,
        br::MCAST_QUERY_INTVL,
        U64,
    ),
    (
        "multicast_query_response_interval",
        0o644,
        br::MCAST_QUERY_RESPONSE_INTVL,
        U64,
    ),
    (
        "multicast_query_use_ifaddr",
        0o644,
        br::MCAST_QUERY_USE_IFADDR,
        U8,
    ),
    ("multicast_router", 0o644, br::MCAST_ROUTER, U8),
    ("multicast_snooping", 0o644, br::MCAST_SNOOPING, U8),
    (
        "multicast_startup_query_count",
        0o644,
        br::MCAST_STARTUP_QUERY_CNT,
        U32,
    ),
    (
        "multicast_startup_query_interval",
        0o644,
        br::MCAST_STARTUP_QUERY_INTVL,
        U64,
    ),
    (
        "multicast_stats_enabled",
        0o644,
        br::MCAST_STATS_ENABLED,
        U8,
    ),
    ("nf_call_arptables", 0o644, br::NF_CALL_ARPTABLES, U8),
    ("nf_call_ip6tables", 0o644, br::NF_CALL_IP6TABLES, U8),
    ("nf_call_iptables", 0o644, br::NF_CALL_IPTABLES, U8),
    ("no_linklocal_learn", 0o644, br::MULTI_BOOLOPT, Bit(0)),
    ("priority", 0o644, br::PRIORITY, U16),
    ("root_id", 0o444, br::ROOT_ID, Id),
    ("root_path_cost", 0o444, br::ROOT_PATH_COST, U32),
    ("root_port", 0o444, br::ROOT_PORT, U16),
    ("stp_state", 0o644, br::STP_STATE, U32),
    ("tcn_timer", 0o444, br::TCN_TIMER, U64),
    ("topology_change", 0o444, br::TOPOLOGY_CHANGE, U8),
    (
        "topology_change_detected",
        0o444,
        br::TOPOLOGY_CHANGE_DETECTED,
        U8,
    ),
    (
        "topology_change_timer",
        0o444,
        br::TOPOLOGY_CHANGE_TIMER,
        U64,
    ),
    ("vlan_filtering", 0o644, br::VLAN_FILTERING, U8),
    ("vlan_protocol", 0o644, br::VLAN_PROTOCOL, Be),
    ("vlan_stats_enabled", 0o644, br::VLAN_STATS_ENABLED, U8),
    ("vlan_stats_per_port", 0o644, br::VLAN_STATS_PER_PORT, U8),
];

/// The files of a port, sorted.
pub const PORT: &[File] = &[
    ("backup_port", 0o644, brport::BACKUP_PORT, Always("")),
    ("bpdu_guard", 0o644, brport::GUARD, U8),
    ("broadcast_flood", 0o644, brport::BCAST_FLOOD, U8),
    ("change_ack", 0o444, brport::TOPOLOGY_CHANGE_ACK, U8),
    ("config_pending", 0o444, brport::CONFIG_PENDING, U8),
    ("designated_bridge", 0o444, brport::BRIDGE_ID, Id),
    ("designated_cost", 0o444, brport::DESIGNATED_COST, U16),
    ("designated_port", 0o444, brport::DESIGNATED_PORT, U16),
    ("designated_root", 0o444, brport::ROOT_ID, Id),
    ("flush", 0o200, brport::FLUSH, Command),
    (
        "forward_delay_timer",
        0o444,
        brport::FORWARD_DELAY_TIMER,
        U64,
    ),
    ("group_fwd_mask", 0o644, brport::GROUP_FWD_MASK, Hex),
    ("hairpin_mode", 0o644, brport::MODE, U8),
    ("hold_timer", 0o444, brport::HOLD_TIMER, U64),
    ("isolated", 0o644, brport::ISOLATED, U8),
    ("learning", 0o644, brport::LEARNING, U8),
    ("message_age_timer", 0o444, brport::MESSAGE_AGE_TIMER, U64),
    ("multicast_fast_leave", 0o644, brport::FAST_LEAVE, U8),
    ("multicast_flood", 0o644, brport::MCAST_FLOOD, U8),
    ("multicast_router", 0o644, brport::MULTICAST_ROUTER, U8),
    ("multicast_to_unicast", 0o644, brport::MCAST_TO_UCAST, U8),
    ("neigh_suppress", 0o644, brport::NEIGH_SUPPRESS, U8),
    ("path_cost", 0o644, brport::COST, U32),
    ("port_id", 0o444, brport::ID, Hex),
    ("port_no", 0o444, brport::NO, Hex),
    ("priority", 0o644, brport::PRIORITY, U16),
    ("proxyarp", 0o644, brport::PROXYARP, U8),
    ("proxyarp_wifi", 0o644, brport::PROXYARP_WIFI, U8),
    ("root_block", 0o644, brport::PROTECT, U8),
    ("state", 0o444, brport::STATE, U8),
    ("unicast_flood", 0o644, brport::UNICAST_FLOOD, U8),
];

/// Shows a file from the attributes of an answer.
pub fn show(file: &File, answer: &[u8]) -> Option<String> {
    let (_, _, ty, form) = *file;
    if let Always(text) = form {
        return Some(text.to_owned());
    }
    let attr = attrs(answer).find_type(ty)?;
    shown(form, &attr).ok()
}

fn shown(form: Form, attr: &Attr<'_>) -> Result<String, weir_netlink::Error> {
    Ok(match form {
        U8 => attr.u8()?.to_string(),
        U16 => attr.u16()?.to_string(),
        Hex => format!("{:#x}", attr.u16()?),
        Be => format!("{:#06x}", attr.be16()?),
        U32 => attr.u32()?.to_string(),
        U64 => attr.u64()?.to_string(),
        Id => {
            let octets = attr.payload.iter().map(|octet| format!("{octet:02x}"));
            let mut text: String = octets.collect();
            text.insert(4.min(text.len()), '.');
            text
        }
        Mac => {
            let octets = attr.payload.iter().map(|octet| format!("{octet:02x}"));
            octets.collect::<Vec<_>>().join(":")
        }
        Bit(bit) => (attr.payload.first().map_or(0, |octet| octet >> bit) & 1).to_string(),
        Always(text) => text.to_owned(),
        Command => String::new(),
    })
}

/// Writes the attribute of a request that sets a file to a value.
///
/// # Errors
/// ERANGE if the attribute cannot hold the value, EOPNOTSUPP if requests cannot set it.
pub fn store(file: &File, value: u64, out: &mut Writer) -> Result<(), Errno> {
    let (_, _, ty, form) = *file;
    let narrow = || u16::try_from(value).map_err(|_| Errno(libc::ERANGE));
    match form {
        U8 => out.put_u8(ty, u8::try_from(value).map_err(|_| Errno(libc::ERANGE))?),
        U16 | Hex => out.put_u16(ty, narrow()?),
        Be => out.put_be16(ty, narrow()?),
        U32 => out.put_u32(ty, u32::try_from(value).map_err(|_| Errno(libc::ERANGE))?),
        U64 => out.put_u64(ty, value),
        Bit(bit) => {
            let mut octets = [0; 8];
            octets[..4].copy_from_slice(&(u32::from(value != 0) << bit).to_ne_bytes());
            octets[4..].copy_from_slice(&(1u32 << bit).to_ne_bytes());
            out.put(ty, &octets);
        }
        Command => out.put_u8(ty, 1),
        Id | Mac | Always(_) => return Err(Errno(libc::EOPNOTSUPP)),
    }
    Ok(())
}
