// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the attributes of route requests (`rtm_to_fib_config`, `rtm_to_fib6_config`,
//! `fib_get_nhs`, `ip_metrics_convert`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_netlink::rta::{self, ax, encap as kinds, encap_ip, encap_ip6, rtn};
use weir_netlink::{
    Attr, Attrs, Error, Fixed, Policy, RtMsg, RtNextHop, Rule, Strictness, Table, align, errno,
    policy,
};

use weir_packet::tunnel::{Ends, Tunnel};

use crate::clock::SECOND;
use crate::fib::encap::Encap;
use crate::fib::route::{HopConfig, Metrics, RouteConfig, flag};
use crate::rtnl::Ctl;

/// `rtm_ipv4_policy`
pub static POLICY4: Policy = policy! {
    max rta::MAX;
    rta::DST => Rule::u32(),
    rta::SRC => Rule::u32(),
    rta::IIF => Rule::u32(),
    rta::OIF => Rule::u32(),
    rta::GATEWAY => Rule::u32(),
    rta::PRIORITY => Rule::u32(),
    rta::PREFSRC => Rule::u32(),
    rta::METRICS => Rule::nested_any(),
    rta::MULTIPATH => Rule::unspec(8),
    rta::FLOW => Rule::u32(),
    rta::ENCAP_TYPE => Rule::u16(),
    rta::ENCAP => Rule::nested_any(),
    rta::UID => Rule::u32(),
    rta::MARK => Rule::u32(),
    rta::TABLE => Rule::u32(),
    rta::IP_PROTO => Rule::u8(),
    rta::SPORT => Rule::u16(),
    rta::DPORT => Rule::u16(),
    rta::NH_ID => Rule::u32(),
};

/// `rtm_ipv6_policy`
pub static POLICY6: Policy = policy! {
    max rta::MAX;
    rta::GATEWAY => Rule::unspec(16),
    rta::PREFSRC => Rule::unspec(16),
    rta::OIF => Rule::u32(),
    rta::IIF => Rule::u32(),
    rta::PRIORITY => Rule::u32(),
    rta::METRICS => Rule::nested_any(),
    rta::MULTIPATH => Rule::unspec(8),
    rta::PREF => Rule::u8(),
    rta::ENCAP_TYPE => Rule::u16(),
    rta::ENCAP => Rule::nested_any(),
    rta::EXPIRES => Rule::u32(),
    rta::UID => Rule::u32(),
    rta::MARK => Rule::u32(),
    rta::TABLE => Rule::u32(),
    rta::IP_PROTO => Rule::u8(),
    rta::SPORT => Rule::u16(),
    rta::DPORT => Rule::u16(),
    rta::NH_ID => Rule::u32(),
};

/// The text for a request with both `RTA_NH_ID` and a hop.
const EXCLUSIVE: &str = "Nexthop specification and nexthop id are mutually exclusive";

fn invalid<T>(text: &'static str) -> Result<T, Error> {
    Err(Error::msg(errno::EINVAL, text))
}

/// Parses an IPv4 route request.
pub fn config4(ctl: &Ctl<'_>) -> Result<RouteConfig<u32>, Error> {
    let message = ctl.message;
    let (header, attrs) = message.parse::<RtMsg>(&POLICY4, Strictness::Liberal)?;
    if header.tos & 3 != 0 {
        return invalid("Invalid dsfield (tos): ECN bits must be 0");
    }
    if header.ty > rtn::MAX {
        return invalid("Invalid route type");
    }
    refuse_unserved(&attrs)?;
    let gateway = attrs
        .get(rta::GATEWAY)
        .map(|attr| attr.ipv4())
        .transpose()?;
    let via = attrs.get(rta::VIA).map(|attr| via(&attr)).transpose()?;
    if header.dst_len > 32 {
        return invalid("Invalid prefix length");
    }
    let dst = attrs.ipv4(rta::DST)?.map_or(0, u32::from);
    if header.dst_len < 32 && dst << header.dst_len != 0 {
        return invalid("Invalid prefix for given prefix length");
    }
    if gateway.is_some() && via.is_some() {
        return invalid("Nexthop configuration can not contain both GATEWAY and VIA");
    }
    let nhid = attrs.u32(rta::NH_ID)?.unwrap_or(0);
    // Zeros count as absent.
    let named = attrs.u32(rta::OIF)?.unwrap_or(0) != 0
        || gateway.is_some_and(|gateway| !gateway.is_unspecified())
        || via.is_some()
        || attrs.has(rta::ENCAP)
        || attrs
            .get(rta::MULTIPATH)
            .is_some_and(|attr| !attr.payload.is_empty());
    if nhid != 0 && named {
        return invalid(EXCLUSIVE);
    }
    let hop = HopConfig {
        oif: attrs.u32(rta::OIF)?.unwrap_or(0),
        gateway: gateway
            .filter(|gateway| !gateway.is_unspecified())
            .map(IpAddr::from)
            .or(via),
        encap: encap(attrs.get(rta::ENCAP_TYPE), attrs.get(rta::ENCAP))?,
        ..HopConfig::default()
    };
    let multipath = attrs
        .get(rta::MULTIPATH)
        .map(|attr| hops(&attr, true))
        .transpose()?;
    Ok(RouteConfig {
        dst,
        tos: header.tos,
        scope: header.scope,
        prefsrc: attrs
            .ipv4(rta::PREFSRC)?
            .filter(|source| !source.is_unspecified())
            .map(IpAddr::from),
        hop,
        multipath,
        nhid,
        ..common(ctl, &header, &attrs)?
    })
}

/// Parses an IPv6 route request.
pub fn config6(ctl: &Ctl<'_>) -> Result<RouteConfig<u128>, Error> {
    let message = ctl.message;
    let (header, attrs) = message.parse::<RtMsg>(&POLICY6, Strictness::Liberal)?;
    if header.tos != 0 {
        return invalid("Invalid dsfield (tos): option not available for IPv6");
    }
    refuse_unserved(&attrs)?;
    let own = [rta::GATEWAY, rta::OIF, rta::MULTIPATH, rta::ENCAP];
    if attrs.has(rta::NH_ID) && own.iter().any(|&ty| attrs.has(ty)) {
        return invalid(EXCLUSIVE);
    }
    if attrs.has(rta::VIA) {
        return invalid("IPv6 does not support RTA_VIA attribute");
    }
    if header.src_len != 0 {
        return Err(Error::unsupported(
            "Weir does not route IPv6 by source prefix; use a rule",
        ));
    }
    let dst = match attrs.get(rta::DST) {
        None => 0,
        Some(attr) => prefix6(&attr, header.dst_len)?,
    };
    let multipath = attrs
        .get(rta::MULTIPATH)
        .map(|attr| hops(&attr, false))
        .transpose()?;
    let expires = attrs
        .u32(rta::EXPIRES)?
        .filter(|&seconds| seconds != u32::MAX)
        .map(|seconds| ctl.stack.clock.now() + u64::from(seconds) * SECOND);
    Ok(RouteConfig {
        dst,
        prefsrc: attrs
            .ipv6(rta::PREFSRC)?
            .filter(|source| !source.is_unspecified())
            .map(IpAddr::from),
        hop: HopConfig {
            oif: attrs.u32(rta::OIF)?.unwrap_or(0),
            gateway: attrs.ipv6(rta::GATEWAY)?.map(IpAddr::from),
            flags: header.flags as u8 & flag::ONLINK,
            encap: encap(attrs.get(rta::ENCAP_TYPE), attrs.get(rta::ENCAP))?,
            ..HopConfig::default()
        },
        multipath,
        nhid: attrs.u32(rta::NH_ID)?.unwrap_or(0),
        expires,
        pref: attrs
            .u8(rta::PREF)?
            .filter(|pref| [1, 3].contains(pref))
            .unwrap_or(0),
        ..common(ctl, &header, &attrs)?
    })
}

/// Parses the part that both families share.
fn common<K: crate::fib::Address>(
    ctl: &Ctl<'_>,
    header: &RtMsg,
    attrs: &Table<'_>,
) -> Result<RouteConfig<K>, Error> {
    Ok(RouteConfig {
        table: attrs
            .u32(rta::TABLE)?
            .unwrap_or_else(|| u32::from(header.table)),
        dst_len: header.dst_len,
        protocol: header.protocol,
        kind: header.ty,
        flags: header.flags,
        priority: attrs.u32(rta::PRIORITY)?.unwrap_or(0),
        metrics: attrs
            .get(rta::METRICS)
            .map(|attr| metrics(&attr).map(Box::new))
            .transpose()?,
        nlflags: ctl.message.header.flags,
        ..RouteConfig::default()
    })
}

/// Rejects the attributes of features that Weir does not have.
fn refuse_unserved(attrs: &Table<'_>) -> Result<(), Error> {
    let unserved = [(rta::FLOW, "Weir has no routing realms")];
    for (ty, text) in unserved {
        if let Some(attr) = attrs.get(ty) {
            return Err(Error::unsupported(text).at(&attr));
        }
    }
    Ok(())
}

/// Returns the leading bits of an address attribute, which may be as short as they are.
fn prefix6(attr: &Attr<'_>, len: u8) -> Result<u128, Error> {
    let octets = usize::from(len).div_ceil(8);
    let mut whole = [0; 16];
    match (whole.get_mut(..octets), attr.payload.get(..octets)) {
        (Some(room), Some(given)) => room.copy_from_slice(given),
        // A prefix length that is too large is rejected later with its own error text.
        (None, _) => {}
        (_, None) => return Err(Error::new(errno::EINVAL)),
    }
    Ok(u128::from_be_bytes(whole))
}

/// Parses `RTA_VIA` (`fib_gw_from_via`).
fn via(attr: &Attr<'_>) -> Result<IpAddr, Error> {
    let Some((family, address)) = attr.payload.split_first_chunk::<2>() else {
        return invalid("Invalid attribute length for RTA_VIA");
    };
    match u16::from_ne_bytes(*family) as u8 {
        weir_netlink::af::INET => match <[u8; 4]>::try_from(address) {
            Ok(octets) => Ok(IpAddr::from(octets)),
            Err(_) => invalid("Invalid IPv4 address in RTA_VIA"),
        },
        weir_netlink::af::INET6 => match <[u8; 16]>::try_from(address) {
            Ok(octets) => Ok(IpAddr::from(octets)),
            Err(_) => invalid("Invalid IPv6 address in RTA_VIA"),
        },
        _ => invalid("Unsupported address family in RTA_VIA"),
    }
}

/// Parses the hops of `RTA_MULTIPATH`.
fn hops(attr: &Attr<'_>, ipv4: bool) -> Result<Vec<HopConfig>, Error> {
    let mut rest = attr.payload;
    let mut hops = Vec::new();
    while let Some(header) = RtNextHop::from_bytes(rest) {
        let len = usize::from(header.len);
        let Some(own) = rest.get(RtNextHop::LEN..len) else {
            break;
        };
        let base = attr.offset + 4 + (attr.payload.len() - rest.len() + RtNextHop::LEN) as u32;
        rest = &rest[align(len).min(rest.len())..];
        hops.push(hop(&header, Attrs::new(own, base), ipv4)?);
    }
    // IPv6 accepts the hops up to the first one that does not fit.
    if ipv4 && !rest.is_empty() {
        return invalid("Invalid nexthop configuration - extra data after nexthops");
    }
    Ok(hops)
}

fn hop(header: &RtNextHop, attrs: Attrs<'_>, ipv4: bool) -> Result<HopConfig, Error> {
    let find = |ty| attrs.find_type(ty);
    if let Some(attr) = find(rta::FLOW).filter(|_| ipv4) {
        return Err(Error::unsupported("Weir has no routing realms").at(&attr));
    }
    let gateway = match (find(rta::GATEWAY), find(rta::VIA)) {
        (Some(_), Some(_)) if ipv4 => {
            return invalid("Nexthop configuration can not contain both GATEWAY and VIA");
        }
        (Some(attr), _) if ipv4 => match attr.payload.first_chunk::<4>() {
            Some(octets) => Some(IpAddr::from(*octets)).filter(|address| !address.is_unspecified()),
            None => return invalid("Invalid IPv4 address in RTA_GATEWAY"),
        },
        (None, Some(attr)) if ipv4 => Some(via(&attr)?),
        (Some(attr), _) => match attr.payload.first_chunk::<16>() {
            Some(octets) => Some(IpAddr::from(*octets)),
            // The text is Linux's.
            None => return invalid("Invalid IPv6 address in RTA_GATEWAY"),
        },
        (None, _) => None,
    };
    Ok(HopConfig {
        oif: header.ifindex as u32,
        gateway,
        flags: header.flags,
        weight: u32::from(header.hops) + 1,
        encap: encap(find(rta::ENCAP_TYPE), find(rta::ENCAP))?,
    })
}

/// `ip_tun_policy`
static ENCAP4: Policy = policy! {
    max encap_ip6::MAX;
    encap_ip::ID => Rule::u64(),
    encap_ip::DST => Rule::u32(),
    encap_ip::SRC => Rule::u32(),
    encap_ip::TTL => Rule::u8(),
    encap_ip::TOS => Rule::u8(),
    encap_ip::FLAGS => Rule::u16(),
    encap_ip6::OPTS => Rule::nested_any(),
};

/// `ip6_tun_policy`
static ENCAP6: Policy = policy! {
    max encap_ip6::MAX;
    encap_ip::ID => Rule::u64(),
    encap_ip::DST => Rule::unspec(16),
    encap_ip::SRC => Rule::unspec(16),
    encap_ip::TTL => Rule::u8(),
    encap_ip::TOS => Rule::u8(),
    encap_ip::FLAGS => Rule::u16(),
    encap_ip6::OPTS => Rule::nested_any(),
};

/// Bits of `LWTUNNEL_IP_FLAGS`.
mod tunnel_flag {
    pub const CSUM: u16 = 0x0001;
    pub const KEY: u16 = 0x0004;
    pub const DONT_FRAGMENT: u16 = 0x0100;
    /// Options follow (`TUNNEL_OPTIONS_PRESENT`).
    pub const OPTIONS: u16 = 0xd800;
}

/// Parses an encapsulation (`lwtunnel_valid_encap_type`, `ip_tun_build_state`).
fn encap(ty: Option<Attr<'_>>, attr: Option<Attr<'_>>) -> Result<Option<Arc<Encap>>, Error> {
    let ty = match ty {
        None => kinds::NONE,
        Some(attr) => match attr.payload.first_chunk() {
            Some(octets) => u16::from_ne_bytes(*octets),
            None => return Err(Error::new(errno::EINVAL)),
        },
    };
    let v6 = match ty {
        kinds::NONE if attr.is_none() => return Ok(None),
        kinds::NONE => return invalid("LWT encap type not specified"),
        kinds::IP | kinds::MPLS => false,
        kinds::IP6 => true,
        ty if ty > kinds::MAX => return invalid("Unknown lwt encapsulation type"),
        // As a kernel without the kind.
        _ => return Err(Error::unsupported("lwt encapsulation type not supported")),
    };
    let Some(attr) = attr else { return Ok(None) };
    if ty == kinds::MPLS {
        return super::labels::parse_encap(&attr).map(|encap| Some(Arc::new(encap)));
    }
    let inside = attr.parse(if v6 { &ENCAP6 } else { &ENCAP4 }, Strictness::Liberal)?;
    if let Some(options) = inside
        .get(encap_ip6::OPTS)
        .filter(|attr| !attr.payload.is_empty())
    {
        let text = "Weir serves no tunnel options in routes; tunnel_key sets them";
        return Err(Error::unsupported(text).at(&options));
    }
    let ends = if v6 {
        let end = |ty| {
            inside
                .ipv6(ty)
                .map(|found| found.unwrap_or(Ipv6Addr::UNSPECIFIED))
        };
        Ends::new(end(encap_ip::SRC)?.into(), end(encap_ip::DST)?.into())
    } else {
        let end = |ty| {
            inside
                .ipv4(ty)
                .map(|found| found.unwrap_or(Ipv4Addr::UNSPECIFIED))
        };
        Ends::new(end(encap_ip::SRC)?.into(), end(encap_ip::DST)?.into())
    };
    let Some(ends) = ends else {
        return Err(Error::new(errno::EINVAL));
    };
    let id = match inside.get(encap_ip::ID) {
        Some(attr) => attr.be64()?,
        None => 0,
    };
    let flags = inside.be16(encap_ip::FLAGS)?.unwrap_or(0) & !tunnel_flag::OPTIONS;
    let has = |flag| flags & flag != 0;
    Ok(Some(Arc::new(Encap::Tunnel {
        tunnel: Arc::new(Tunnel {
            ends,
            options: None,
            id: id as u32,
            src_port: 0,
            dst_port: 0,
            tos: inside.u8(encap_ip::TOS)?.unwrap_or(0),
            ttl: inside.u8(encap_ip::TTL)?.unwrap_or(0),
            has_id: has(tunnel_flag::KEY),
            checksum: has(tunnel_flag::CSUM),
            dont_fragment: has(tunnel_flag::DONT_FRAGMENT),
            transmit: true,
            bridge: false,
            hop: false,
        }),
        id,
        flags,
    })))
}

/// The TCP congestion control algorithms that a route may name.
const CONGESTION: [&str; 3] = ["reno", "cubic", "bbr"];

/// Parses the metrics (`ip_metrics_convert`).
fn metrics(attr: &Attr<'_>) -> Result<Metrics, Error> {
    let mut metrics = Metrics::default();
    for attr in attr.attrs() {
        if attr.ty == 0 {
            continue;
        }
        if attr.ty > ax::MAX {
            return invalid("Invalid metric type");
        }
        if attr.ty == ax::CC_ALGO {
            let name = String::from_utf8_lossy(attr.c_str()).into_owned();
            if !CONGESTION.contains(&name.as_str()) {
                return invalid("Unknown tcp congestion algorithm");
            }
            metrics.congestion = Some(name);
            continue;
        }
        let Ok(octets) = <[u8; 4]>::try_from(attr.payload) else {
            return Err(attr.invalid("Invalid attribute in metrics"));
        };
        let value = u32::from_ne_bytes(octets);
        let value = match attr.ty {
            ax::ADVMSS => value.min(65_535 - 40),
            ax::MTU => value.min(65_535 - 15),
            ax::HOPLIMIT => value.min(255),
            ax::FEATURES if value & !rta::feature::MASK != 0 => {
                return invalid("Unknown flag set in feature mask in metrics attribute");
            }
            _ => value,
        };
        metrics.values[usize::from(attr.ty) - 1] = value;
    }
    Ok(metrics)
}
