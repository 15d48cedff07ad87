// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The attributes of a Geneve device (`geneve_validate`, `geneve_nl2info`, `geneve_fill_info`).

use std::net::{IpAddr, Ipv4Addr};

use weir_netlink::ifla::geneve as attr;
use weir_netlink::{Attr, Error, Policy, Rule, Strictness, Table, Writer, errno, policy};

/// `GENEVE_UDP_PORT`
const PORT: u16 = 6081;
/// `GENEVE_N_VID`
const VNI_END: u32 = 1 << 24;
/// Always set DF (`GENEVE_DF_SET`).
pub const DF_SET: u8 = 1;
/// Copy DF from the inner packet (`GENEVE_DF_INHERIT`).
pub const DF_INHERIT: u8 = 2;

/// `geneve_policy`
static POLICY: Policy = policy! { max attr::MAX;
    attr::ID => Rule::u32(),
    attr::REMOTE => Rule::unspec(4),
    attr::REMOTE6 => Rule::unspec(16),
    attr::TTL => Rule::u8(),
    attr::TOS => Rule::u8(),
    attr::LABEL => Rule::u32(),
    attr::PORT => Rule::u16(),
    attr::COLLECT_METADATA => Rule::flag(),
    attr::UDP_CSUM => Rule::u8(),
    attr::UDP_ZERO_CSUM6_TX => Rule::u8(),
    attr::UDP_ZERO_CSUM6_RX => Rule::u8(),
    attr::TTL_INHERIT => Rule::u8(),
    attr::DF => Rule::u8(),
    attr::INNER_PROTO_INHERIT => Rule::flag(),
};

/// The configuration of a device (`struct geneve_config`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Network identifier.
    pub vni: u32,
    /// The outer destination, or IPv4's unspecified address.
    pub remote: IpAddr,
    /// The UDP port for sending and listening.
    pub port: u16,
    /// The outer TTL, or 0 for the route's.
    pub ttl: u8,
    /// Copy the TTL of the inner packet.
    pub ttl_inherit: bool,
    /// The outer type of service; 1 copies that of the inner packet.
    pub tos: u8,
    /// [`DF_SET`], [`DF_INHERIT`] or 0.
    pub df: u8,
    /// Flow label of IPv6.
    pub label: u32,
    /// All identifiers, by each packet's metadata.
    pub external: bool,
    /// Sent datagrams have a UDP checksum (`TUNNEL_CSUM`).
    pub checksum: bool,
    /// Received datagrams over IPv6 must have one.
    pub need_csum6: bool,
}

impl Config {
    /// Returns whether nothing is set that metadata would have to say (`is_tnl_info_zero`).
    pub fn is_plain(&self) -> bool {
        self.vni == 0
            && !self.checksum
            && self.tos == 0
            && self.ttl == 0
            && self.label == 0
            && self.remote.is_unspecified()
    }
}

fn text(message: &'static str) -> Error {
    Error::msg(errno::EINVAL, message)
}

/// Validates the attributes by themselves (`geneve_validate`).
pub fn parse<'a>(data: Option<Attr<'a>>) -> Result<Table<'a>, Error> {
    let data = data.ok_or(text(
        "Not enough attributes provided to perform the operation",
    ))?;
    let table = data.parse(&POLICY, Strictness::Liberal)?;
    if let Some(id) = table.get(attr::ID)
        && id.u32()? >= VNI_END
    {
        let error = Error::msg(errno::ERANGE, "Geneve ID must be lower than 16777216");
        return Err(error.at(&id));
    }
    if let Some(df) = table.get(attr::DF)
        && df.u8()? > DF_INHERIT
    {
        return Err(text("Invalid DF attribute").at(&df));
    }
    Ok(table)
}

/// Returns the requested configuration, based on `old` for a change (`geneve_nl2info`).
pub fn config(table: &Table<'_>, old: Option<&Config>) -> Result<Config, Error> {
    let default = Config {
        vni: 0,
        remote: Ipv4Addr::UNSPECIFIED.into(),
        port: PORT,
        ttl: 0,
        ttl_inherit: false,
        tos: 0,
        df: 0,
        label: 0,
        external: false,
        checksum: false,
        need_csum6: false,
    };
    let mut conf = old.cloned().unwrap_or(default);
    let fixed = |attr: &Attr<'_>| {
        let text = "Changing VNI, Port, endpoint IP address family, external, inner_proto_inherit, and UDP checksum attributes are not supported";
        Err(Error::msg(errno::EOPNOTSUPP, text).at(attr))
    };
    let (remote, remote6) = (table.get(attr::REMOTE), table.get(attr::REMOTE6));
    if remote.is_some() && remote6.is_some() {
        return Err(text("Cannot specify both IPv4 and IPv6 Remote addresses"));
    }
    if let Some(attr) = remote {
        if old.is_some_and(|old| old.remote.is_ipv6()) {
            return fixed(&attr);
        }
        let address = attr.ipv4()?;
        conf.remote = address.into();
        if address.is_multicast() {
            return Err(text("Remote IPv4 address cannot be Multicast").at(&attr));
        }
    }
    if let Some(attr) = remote6 {
        if old.is_some_and(|old| old.remote.is_ipv4()) {
            return fixed(&attr);
        }
        let address = attr.ipv6()?;
        conf.remote = address.into();
        if address.is_unicast_link_local() {
            return Err(text("Remote IPv6 address cannot be link-local").at(&attr));
        }
        if address.is_multicast() {
            return Err(text("Remote IPv6 address cannot be Multicast").at(&attr));
        }
        (conf.checksum, conf.need_csum6) = (true, true);
    }
    if let Some(attr) = table.get(attr::ID) {
        let vni = attr.u32()?;
        if old.is_some_and(|old| old.vni != vni) {
            return fixed(&attr);
        }
        conf.vni = vni;
    }
    if let Some(inherit) = table.u8(attr::TTL_INHERIT)? {
        conf.ttl_inherit = inherit != 0;
    } else if let Some(ttl) = table.u8(attr::TTL)? {
        (conf.ttl, conf.ttl_inherit) = (ttl, false);
    }
    conf.tos = table.u8(attr::TOS)?.unwrap_or(conf.tos);
    conf.df = table.u8(attr::DF)?.unwrap_or(conf.df);
    if let Some(attr) = table.get(attr::LABEL) {
        conf.label = attr.be32()? & 0xf_ffff;
        if conf.label != 0 && conf.remote.is_ipv4() {
            let message = "Label attribute only applies for IPv6 Geneve devices";
            return Err(text(message).at(&attr));
        }
    }
    let unchangeable = [
        attr::PORT,
        attr::COLLECT_METADATA,
        attr::UDP_CSUM,
        attr::UDP_ZERO_CSUM6_TX,
        attr::UDP_ZERO_CSUM6_RX,
        attr::INNER_PROTO_INHERIT,
    ];
    let mut changed = unchangeable.into_iter().filter_map(|ty| table.get(ty));
    if let (Some(attr), Some(_)) = (changed.next(), old) {
        return fixed(&attr);
    }
    conf.port = table.be16(attr::PORT)?.unwrap_or(conf.port);
    conf.external |= table.has(attr::COLLECT_METADATA);
    conf.checksum |= table.u8(attr::UDP_CSUM)?.unwrap_or(0) != 0;
    conf.checksum &= table.u8(attr::UDP_ZERO_CSUM6_TX)?.unwrap_or(0) == 0;
    conf.need_csum6 &= table.u8(attr::UDP_ZERO_CSUM6_RX)?.unwrap_or(0) == 0;
    if let Some(attr) = table.get(attr::INNER_PROTO_INHERIT) {
        let text = "Weir has no Geneve devices for packets without an Ethernet header";
        return Err(Error::unsupported(text).at(&attr));
    }
    Ok(conf)
}

/// Writes the attributes (`geneve_fill_info`).
pub fn fill(conf: &Config, out: &mut Writer) {
    out.put_u32(attr::ID, conf.vni);
    match conf.remote {
        _ if conf.external => {}
        IpAddr::V4(remote) => {
            out.put_ipv4(attr::REMOTE, remote);
            out.put_u8(attr::UDP_CSUM, conf.checksum.into());
        }
        IpAddr::V6(remote) => {
            out.put_ipv6(attr::REMOTE6, remote);
            out.put_u8(attr::UDP_ZERO_CSUM6_TX, (!conf.checksum).into());
        }
    }
    out.put_u8(attr::TTL, conf.ttl);
    out.put_u8(attr::TOS, conf.tos);
    out.put_be32(attr::LABEL, conf.label);
    out.put_u8(attr::DF, conf.df);
    out.put_be16(attr::PORT, conf.port);
    if conf.external {
        out.put_flag(attr::COLLECT_METADATA);
    }
    out.put_u8(attr::UDP_ZERO_CSUM6_RX, (!conf.need_csum6).into());
    out.put_u8(attr::TTL_INHERIT, conf.ttl_inherit.into());
}
