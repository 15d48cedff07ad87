// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Attributes of links.

use super::{Family, Form, Printer, family};
use crate::attr::Attr;
use crate::consts::{af, ifla};
use crate::header::*;

family! { pub(super) LINK in ifla;
    ADDRESS Mac, BROADCAST Mac, IFNAME Str, MTU U32, LINK U32, QDISC Str,
    STATS Struct(as_struct::<LinkStats>), MASTER U32, PROTINFO Nest(&BRPORT), TXQLEN U32,
    MAP Struct(as_struct::<LinkIfMap>), WEIGHT U32, OPERSTATE U8, LINKMODE U8,
    LINKINFO Nest(&INFO), NET_NS_PID U32, IFALIAS Str, NUM_VF U32,
    STATS64 Struct(as_struct::<LinkStats64>), AF_SPEC Own(af_spec), GROUP U32, NET_NS_FD U32,
    EXT_MASK X32, PROMISCUITY U32, NUM_TX_QUEUES U32, NUM_RX_QUEUES U32, CARRIER U8,
    PHYS_PORT_ID Hex, CARRIER_CHANGES U32, PHYS_SWITCH_ID Hex, LINK_NETNSID I32,
    PHYS_PORT_NAME Str, PROTO_DOWN U8, GSO_MAX_SEGS U32, GSO_MAX_SIZE U32, PAD Flag,
    XDP Nest(&XDP), EVENT U32, NEW_NETNSID I32, IF_NETNSID I32, CARRIER_UP_COUNT U32,
    CARRIER_DOWN_COUNT U32, NEW_IFINDEX I32, MIN_MTU U32, MAX_MTU U32, PROP_LIST Nest(&PROPS),
    ALT_IFNAME Str, PERM_ADDRESS Mac, PARENT_DEV_NAME Str, PARENT_DEV_BUS_NAME Str,
    GRO_MAX_SIZE U32, TSO_MAX_SIZE U32, TSO_MAX_SEGS U32, ALLMULTI U32,
}

family! { PROPS in ifla; ALT_IFNAME Str }

family! { XDP in ifla::xdp; FD I32, ATTACHED U8, FLAGS X32, PROG_ID U32 }

family! { INFO in ifla::info, kind ifla::info::KIND;
    KIND Str, DATA Kind(data), XSTATS Hex, SLAVE_KIND Str, SLAVE_DATA Hex,
}

fn data(kind: &str) -> Option<&'static Family> {
    Some(match kind {
        "vlan" => &VLAN,
        "veth" => &VETH,
        "bridge" => &BRIDGE,
        "bond" => &BOND,
        "vxlan" => &VXLAN,
        "macvlan" | "macvtap" => &MACVLAN,
        "ipvlan" | "ipvtap" => &IPVLAN,
        "vrf" => &VRF,
        "gre" | "gretap" | "erspan" | "ip6gre" | "ip6gretap" | "ip6erspan" => &GRE,
        "ipip" | "sit" | "ip6tnl" => &IPTUN,
        "geneve" => &GENEVE,
        _ => return None,
    })
}

family! { VLAN in ifla::vlan;
    ID U16, FLAGS Struct(as_struct::<IflaVlanFlags>), EGRESS_QOS Nest(&QOS), INGRESS_QOS Nest(&QOS),
    PROTOCOL XBe16,
}

family! { QOS in ifla::vlan_qos; MAPPING Struct(as_struct::<IflaVlanQosMapping>) }

family! { VETH in ifla::veth; PEER Headed(IfInfoMsg::LEN, as_struct::<IfInfoMsg>, &LINK) }

family! { BRIDGE in ifla::br;
    FORWARD_DELAY U32, HELLO_TIME U32, MAX_AGE U32, AGEING_TIME U32, STP_STATE U32, PRIORITY U16,
    VLAN_FILTERING U8, VLAN_PROTOCOL XBe16, MCAST_SNOOPING U8, VLAN_DEFAULT_PVID U16,
}

family! { BRPORT in ifla::brport;
    STATE U8, PRIORITY U16, COST U32, MODE U8, GUARD U8, PROTECT U8, FAST_LEAVE U8, LEARNING U8,
    UNICAST_FLOOD U8, PROXYARP U8, MCAST_FLOOD U8, ISOLATED U8,
}

family! { BOND in ifla::bond;
    MODE U8, ACTIVE_SLAVE U32, MIIMON U32, UPDELAY U32, DOWNDELAY U32, XMIT_HASH_POLICY U8,
    AD_LACP_RATE U8,
}

family! { VXLAN in ifla::vxlan;
    ID U32, GROUP Ip, LINK U32, LOCAL Ip, TTL U8, TOS U8, LEARNING U8, AGEING U32, LIMIT U32,
    PROXY U8, RSC U8, L2MISS U8, L3MISS U8, PORT Be16, GROUP6 Ip, LOCAL6 Ip, UDP_CSUM U8,
    COLLECT_METADATA U8, GBP Flag, DF U8,
}

family! { GENEVE in ifla::geneve;
    ID U32, REMOTE Ip, TTL U8, TOS U8, PORT Be16, COLLECT_METADATA Flag, REMOTE6 Ip, UDP_CSUM U8,
}

family! { MACVLAN in ifla::macvlan; MODE U32, FLAGS U16, MACADDR_MODE U32, MACADDR Mac }

family! { IPVLAN in ifla::ipvlan; MODE U16, FLAGS U16 }

family! { VRF in ifla::vrf; TABLE U32 }

family! { GRE in ifla::gre;
    LINK U32, IFLAGS XBe16, OFLAGS XBe16, IKEY Be32, OKEY Be32, LOCAL Ip, REMOTE Ip, TTL U8, TOS U8,
    PMTUDISC U8, ENCAP_LIMIT U8, FLAGS X32, ENCAP_TYPE U16, ENCAP_FLAGS U16, ENCAP_SPORT Be16,
    ENCAP_DPORT Be16, COLLECT_METADATA Flag, IGNORE_DF U8, FWMARK X32,
    ERSPAN_INDEX U32, ERSPAN_VER U8, ERSPAN_DIR U8, ERSPAN_HWID U16,
}

family! { IPTUN in ifla::iptun;
    LINK U32, LOCAL Ip, REMOTE Ip, TTL U8, TOS U8, ENCAP_LIMIT U8, FLAGS X32, PROTO U8, PMTUDISC U8,
    FWMARK X32,
}

/// Prints `IFLA_AF_SPEC`, which is a nest of families, or for a bridge its own attributes.
fn af_spec(p: &mut Printer<'_>, attr: &Attr<'_>) {
    if p.family == af::BRIDGE {
        return p.nest(attr.attrs(), &BRIDGE_SPEC);
    }
    p.out.push('\n');
    p.depth += 1;
    for entry in attr.attrs() {
        let (name, form) = match u8::try_from(entry.ty) {
            Ok(af::INET) => (Some("INET"), Form::Nest(&INET)),
            Ok(af::INET6) => (Some("INET6"), Form::Nest(&INET6)),
            _ => (None, Form::Hex),
        };
        p.attr(&entry, name, form, None);
    }
    p.depth -= 1;
}

family! { BRIDGE_SPEC in ifla::bridge;
    FLAGS U16, MODE U16, VLAN_INFO Struct(as_struct::<BridgeVlanInfo>), VLAN_TUNNEL_INFO Hex,
}

family! { INET in ifla::inet; CONF Hex }

family! { INET6 in ifla::inet6;
    FLAGS X32, CONF Hex, STATS Hex, CACHEINFO Struct(as_struct::<IflaCacheInfo>), ICMP6STATS Hex,
    TOKEN Ip, ADDR_GEN_MODE U8, RA_MTU U32,
}

family! { pub(super) STATS in ifla::stats;
    LINK_64 Struct(as_struct::<LinkStats64>), LINK_XSTATS Hex, LINK_XSTATS_SLAVE Hex,
    LINK_OFFLOAD_XSTATS Hex, AF_SPEC Hex,
}
