// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parameters of IP tunnels (`struct ip_tunnel_parm`, `struct __ip6_tnl_parm`) and their attributes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_netlink::ifla::{self, gre, iptun};
use weir_netlink::{Attr, Error, Policy, Rule, Strictness, Table, Writer, errno, parse_at, policy};

/// `GRE_CSUM`: a checksum is present.
pub const GRE_CSUM: u16 = 0x8000;
/// `GRE_ROUTING`
pub const GRE_ROUTING: u16 = 0x4000;
/// `GRE_KEY`: a key is present.
pub const GRE_KEY: u16 = 0x2000;
/// `GRE_SEQ`: a sequence number is present.
pub const GRE_SEQ: u16 = 0x1000;
/// `GRE_VERSION`
pub const GRE_VERSION: u16 = 0x0007;

/// The parameters of ERSPAN, which other kinds do not use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Erspan {
    /// The version of the header: 0 for type I, 1 for type II, 2 for type III.
    pub version: u8,
    /// The mirrored port, 20 bits; of version 1.
    pub index: u32,
    /// Whether the port has sent (1) or received (0) the frames; of version 2.
    pub dir: u8,
    /// The engine that has mirrored the frames, 6 bits; of version 2.
    pub hwid: u16,
}

impl Erspan {
    /// Returns the length in bytes of the header of the version (`erspan_hdr_len`).
    pub fn header_len(&self) -> usize {
        match self.version {
            0 => 0,
            1 => 8,
            _ => 12,
        }
    }
}

/// The parameters of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parms {
    /// The outer source, or unspecified if the route selects it.
    pub local: IpAddr,
    /// The outer destination, or unspecified.
    pub remote: IpAddr,
    /// The index of the underlay device, or 0 for any.
    pub link: u32,
    /// The protocol of the payload, or 0 for all that the kind carries.
    pub proto: u8,
    /// The outer TTL, or 0 to copy that of the inner packet.
    pub ttl: u8,
    /// The outer type of service; bit 0 means to copy that of the inner packet.
    pub tos: u8,
    /// Set DF in the outer header (`pmtudisc`).
    pub df: bool,
    /// Do not copy DF from the inner packet.
    pub ignore_df: bool,
    /// `GRE_CSUM`, `GRE_KEY` and `GRE_SEQ` for received packets.
    pub iflags: u16,
    /// `GRE_CSUM`, `GRE_KEY` and `GRE_SEQ` for sent packets.
    pub oflags: u16,
    /// The key of received packets.
    pub ikey: u32,
    /// The key of sent packets.
    pub okey: u32,
    /// The mark for the route of outer packets.
    pub fwmark: u32,
    /// Sends by each packet's tunnel metadata, and sets it on received packets.
    pub external: bool,
    /// `IP6_TNL_F_*` of tunnels over IPv6.
    pub flags: u32,
    /// The traffic class and the flow label of outer IPv6 headers, in the layout of the header's first word.
    pub flowinfo: u32,
    /// How often packets may be encapsulated again (RFC 2473), unless the flags say that no limit is sent.
    pub encap_limit: u8,
    /// Those of ERSPAN.
    pub erspan: Erspan,
    /// Of sit: the addresses of next hops say where to, and senders are hosts or potential routers (`SIT_ISATAP`).
    pub isatap: bool,
}

impl Parms {
    /// The parameters of a request without attributes.
    pub fn new(ipv6: bool) -> Self {
        let any: IpAddr = match ipv6 {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        };
        Self {
            local: any,
            remote: any,
            link: 0,
            proto: 0,
            ttl: 0,
            tos: 0,
            df: false,
            ignore_df: false,
            iflags: 0,
            oflags: 0,
            ikey: 0,
            okey: 0,
            fwmark: 0,
            external: false,
            flags: 0,
            flowinfo: 0,
            encap_limit: 0,
            erspan: Erspan::default(),
            isatap: false,
        }
    }

    /// Returns the key that received packets must have, or `None` if they must have none.
    pub fn input_key(&self) -> Option<u32> {
        (self.iflags & GRE_KEY != 0).then_some(self.ikey)
    }
}

/// `ip6gre_policy`
static IP6GRE_POLICY: Policy = policy! {
    max gre::MAX;
    gre::LINK => Rule::u32(),
    gre::IFLAGS => Rule::u16(),
    gre::OFLAGS => Rule::u16(),
    gre::IKEY => Rule::u32(),
    gre::OKEY => Rule::u32(),
    gre::LOCAL => Rule::unspec(16),
    gre::REMOTE => Rule::unspec(16),
    gre::TTL => Rule::u8(),
    gre::ENCAP_LIMIT => Rule::u8(),
    gre::FLOWINFO => Rule::u32(),
    gre::FLAGS => Rule::u32(),
    gre::ENCAP_TYPE => Rule::u16(),
    gre::ENCAP_FLAGS => Rule::u16(),
    gre::ENCAP_SPORT => Rule::u16(),
    gre::ENCAP_DPORT => Rule::u16(),
    gre::COLLECT_METADATA => Rule::flag(),
    gre::FWMARK => Rule::u32(),
    gre::ERSPAN_INDEX => Rule::u32(),
    gre::ERSPAN_VER => Rule::u8(),
    gre::ERSPAN_DIR => Rule::u8(),
    gre::ERSPAN_HWID => Rule::u16(),
};

/// `ip6_tnl_policy`
static IP6TNL_POLICY: Policy = policy! {
    max iptun::MAX;
    iptun::LINK => Rule::u32(),
    iptun::LOCAL => Rule::unspec(16),
    iptun::REMOTE => Rule::unspec(16),
    iptun::TTL => Rule::u8(),
    iptun::ENCAP_LIMIT => Rule::u8(),
    iptun::FLOWINFO => Rule::u32(),
    iptun::FLAGS => Rule::u32(),
    iptun::PROTO => Rule::u8(),
    iptun::ENCAP_TYPE => Rule::u16(),
    iptun::ENCAP_FLAGS => Rule::u16(),
    iptun::ENCAP_SPORT => Rule::u16(),
    iptun::ENCAP_DPORT => Rule::u16(),
    iptun::COLLECT_METADATA => Rule::flag(),
    iptun::FWMARK => Rule::u32(),
};

/// `ipip_policy`, `ipip6_policy`
static IPTUN_POLICY: Policy = policy! {
    max iptun::MAX;
    iptun::LINK => Rule::u32(),
    iptun::LOCAL => Rule::unspec(4),
    iptun::REMOTE => Rule::unspec(4),
    iptun::TTL => Rule::u8(),
    iptun::TOS => Rule::u8(),
    iptun::FLAGS => Rule::u16(),
    iptun::PROTO => Rule::u8(),
    iptun::PMTUDISC => Rule::u8(),
    iptun::IPTUN_6RD_PREFIX => Rule::unspec(16),
    iptun::IPTUN_6RD_RELAY_PREFIX => Rule::u32(),
    iptun::IPTUN_6RD_PREFIXLEN => Rule::u16(),
    iptun::IPTUN_6RD_RELAY_PREFIXLEN => Rule::u16(),
    iptun::ENCAP_TYPE => Rule::u16(),
    iptun::ENCAP_FLAGS => Rule::u16(),
    iptun::ENCAP_SPORT => Rule::u16(),
    iptun::ENCAP_DPORT => Rule::u16(),
    iptun::COLLECT_METADATA => Rule::flag(),
    iptun::FWMARK => Rule::u32(),
};

/// `ipgre_policy`
static GRE_POLICY: Policy = policy! {
    max gre::MAX;
    gre::LINK => Rule::u32(),
    gre::IFLAGS => Rule::u16(),
    gre::OFLAGS => Rule::u16(),
    gre::IKEY => Rule::u32(),
    gre::OKEY => Rule::u32(),
    gre::LOCAL => Rule::unspec(4),
    gre::REMOTE => Rule::unspec(4),
    gre::TTL => Rule::u8(),
    gre::TOS => Rule::u8(),
    gre::PMTUDISC => Rule::u8(),
    gre::ENCAP_TYPE => Rule::u16(),
    gre::ENCAP_FLAGS => Rule::u16(),
    gre::ENCAP_SPORT => Rule::u16(),
    gre::ENCAP_DPORT => Rule::u16(),
    gre::COLLECT_METADATA => Rule::flag(),
    gre::IGNORE_DF => Rule::u8(),
    gre::FWMARK => Rule::u32(),
    gre::ERSPAN_INDEX => Rule::u32(),
    gre::ERSPAN_VER => Rule::u8(),
    gre::ERSPAN_DIR => Rule::u8(),
    gre::ERSPAN_HWID => Rule::u16(),
};

/// Parses `IFLA_INFO_DATA`; without it, nothing is set.
fn table<'a>(data: Option<Attr<'a>>, policy: &'static Policy) -> Result<Table<'a>, Error> {
    let Some(data) = data else {
        return Ok(Table::empty());
    };
    let inside = data.attrs();
    parse_at(inside.rest(), inside.offset(), policy, Strictness::Liberal)
}

/// Parses the attributes of the kind ip6tnl.
pub fn ip6tnl_table(data: Option<Attr<'_>>) -> Result<Table<'_>, Error> {
    table(data, &IP6TNL_POLICY)
}

/// Parses the attributes of the kinds ipip and sit.
pub fn iptun_table(data: Option<Attr<'_>>) -> Result<Table<'_>, Error> {
    table(data, &IPTUN_POLICY)
}

/// Parses the attributes of the kinds ip6gre and ip6gretap.
pub fn ip6gre_table(data: Option<Attr<'_>>) -> Result<Table<'_>, Error> {
    table(data, &IP6GRE_POLICY)
}

/// Parses the attributes of the kinds gre, gretap and erspan.
pub fn gre_table(data: Option<Attr<'_>>) -> Result<Table<'_>, Error> {
    table(data, &GRE_POLICY)
}

/// Returns an address of a family.
fn address(table: &Table<'_>, ty: u16, ipv6: bool) -> Result<IpAddr, Error> {
    Ok(match (table.get(ty), ipv6) {
        (Some(attr), true) => attr.ipv6()?.into(),
        (Some(attr), false) => attr.ipv4()?.into(),
        (None, true) => Ipv6Addr::UNSPECIFIED.into(),
        (None, false) => Ipv4Addr::UNSPECIFIED.into(),
    })
}

/// The attributes that all kinds have, by their numbers.
struct Common {
    link: u16,
    local: u16,
    remote: u16,
    ttl: u16,
    fwmark: u16,
    external: u16,
    encap: [u16; 4],
}

/// Those of the kinds without GRE.
const IPTUN: Common = Common {
    link: iptun::LINK,
    local: iptun::LOCAL,
    remote: iptun::REMOTE,
    ttl: iptun::TTL,
    fwmark: iptun::FWMARK,
    external: iptun::COLLECT_METADATA,
    encap: IPTUN_ENCAP,
};

/// Those of the kinds of GRE.
const GRE: Common = Common {
    link: gre::LINK,
    local: gre::LOCAL,
    remote: gre::REMOTE,
    ttl: gre::TTL,
    fwmark: gre::FWMARK,
    external: gre::COLLECT_METADATA,
    encap: GRE_ENCAP,
};

/// Returns the parameters that all kinds have.
fn common(table: &Table<'_>, ipv6: bool, ty: &Common) -> Result<Parms, Error> {
    let [encap, ..] = ty.encap;
    no_encap(table, encap)?;
    Ok(Parms {
        link: table.u32(ty.link)?.unwrap_or(0),
        local: address(table, ty.local, ipv6)?,
        remote: address(table, ty.remote, ipv6)?,
        ttl: table.u8(ty.ttl)?.unwrap_or(0),
        fwmark: table.u32(ty.fwmark)?.unwrap_or(0),
        external: table.has(ty.external),
        ..Parms::new(ipv6)
    })
}

/// Adds what the kinds over IPv6 have beside that.
fn over_ipv6(
    table: &Table<'_>,
    [encap_limit, flowinfo, flags]: [u16; 3],
    parms: Parms,
) -> Result<Parms, Error> {
    Ok(Parms {
        encap_limit: table.u8(encap_limit)?.unwrap_or(0),
        flowinfo: table.be32(flowinfo)?.unwrap_or(0),
        flags: table.u32(flags)?.unwrap_or(0),
        ..parms
    })
}

/// Adds the flags and keys of the kinds of GRE.
fn with_keys(table: &Table<'_>, parms: Parms) -> Result<Parms, Error> {
    let (iflags, oflags) = gre_flags(table)?;
    Ok(Parms {
        iflags,
        oflags,
        ikey: table.be32(gre::IKEY)?.unwrap_or(0),
        okey: table.be32(gre::OKEY)?.unwrap_or(0),
        ..parms
    })
}

/// Accepts no encapsulation in UDP, as a kernel without the modules fou and gue (`ip_tunnel_encap_setup`).
fn no_encap(table: &Table<'_>, ty: u16) -> Result<(), Error> {
    match table.u16(ty)? {
        None | Some(0) => Ok(()),
        Some(_) => Err(Error::new(errno::EINVAL)),
    }
}

/// Returns the parameters of the kinds ipip and sit (`ip_tunnel_netlink_parms`).
pub fn iptun(table: &Table<'_>, has_data: bool) -> Result<Parms, Error> {
    if !has_data {
        return Ok(Parms::new(false));
    }
    let parms = common(table, false, &IPTUN)?;
    Ok(Parms {
        tos: table.u8(iptun::TOS)?.unwrap_or(0),
        df: parms.ttl != 0 || table.u8(iptun::PMTUDISC)? != Some(0),
        proto: table.u8(iptun::PROTO)?.unwrap_or(0),
        ..parms
    })
}

/// Returns the parameters of the kind ip6tnl (`ip6_tnl_netlink_parms`).
pub fn ip6tnl(table: &Table<'_>, has_data: bool) -> Result<Parms, Error> {
    if !has_data {
        return Ok(Parms::new(true));
    }
    let types = [iptun::ENCAP_LIMIT, iptun::FLOWINFO, iptun::FLAGS];
    Ok(Parms {
        proto: table.u8(iptun::PROTO)?.unwrap_or(0),
        ..over_ipv6(table, types, common(table, true, &IPTUN)?)?
    })
}

/// Writes what all kinds without GRE write first.
pub fn fill_iptun_start(parms: &Parms, out: &mut Writer) {
    out.put_u32(iptun::LINK, parms.link);
    out.put_ip(iptun::LOCAL, parms.local);
    out.put_ip(iptun::REMOTE, parms.remote);
    out.put_u8(iptun::TTL, parms.ttl);
}

/// Writes the parameters of the kind ip6tnl (`ip6_tnl_fill_info`).
pub fn fill_ip6tnl(parms: &Parms, out: &mut Writer) {
    fill_iptun_start(parms, out);
    out.put_u8(iptun::ENCAP_LIMIT, parms.encap_limit);
    out.put_be32(iptun::FLOWINFO, parms.flowinfo);
    out.put_u32(iptun::FLAGS, parms.flags);
    out.put_u8(iptun::PROTO, parms.proto);
    out.put_u32(iptun::FWMARK, parms.fwmark);
    fill_no_encap(out, IPTUN_ENCAP);
    if parms.external {
        out.put_flag(iptun::COLLECT_METADATA);
    }
}

/// The attributes of an encapsulation, in the order in which they are written.
pub const IPTUN_ENCAP: [u16; 4] = [
    iptun::ENCAP_TYPE,
    iptun::ENCAP_SPORT,
    iptun::ENCAP_DPORT,
    iptun::ENCAP_FLAGS,
];

/// Writes the encapsulation of a tunnel that has none.
pub fn fill_no_encap(out: &mut Writer, [ty, sport, dport, flags]: [u16; 4]) {
    out.put_u16(ty, 0);
    out.put_be16(sport, 0);
    out.put_be16(dport, 0);
    out.put_u16(flags, 0);
}

/// Returns `IFLA_INFO_DATA` of a request for a link.
pub fn data<'a>(attrs: &Table<'a>) -> Option<Attr<'a>> {
    let info = attrs.get(ifla::LINKINFO)?;
    info.attrs().find_type(ifla::info::DATA)
}

/// Refuses a request for a tunnel, of which `table` has the attributes, whose protocol is another than these
/// (`IPPROTO_*`).
pub fn check_iptun_proto(table: &Table<'_>, known: &[u8]) -> Result<(), Error> {
    let proto = table.u8(iptun::PROTO)?;
    match proto.is_none_or(|proto| known.contains(&proto)) {
        true => Ok(()),
        false => Err(Error::new(errno::EINVAL)),
    }
}

/// Writes the parameters of the kind ipip (`ipip_fill_info`).
pub fn fill_iptun(parms: &Parms, out: &mut Writer) {
    fill_iptun_start(parms, out);
    out.put_u8(iptun::TOS, parms.tos);
    out.put_u8(iptun::PROTO, parms.proto);
    out.put_u8(iptun::PMTUDISC, u8::from(parms.df));
    out.put_u32(iptun::FWMARK, parms.fwmark);
    fill_no_encap(out, IPTUN_ENCAP);
    if parms.external {
        out.put_flag(iptun::COLLECT_METADATA);
    }
}

/// Returns the flags for received and for sent packets, or EINVAL for those that tunnels do not have
/// (`ipgre_tunnel_validate`, `ip6gre_tunnel_validate`).
pub fn gre_flags(table: &Table<'_>) -> Result<(u16, u16), Error> {
    let known = GRE_CSUM | GRE_KEY | GRE_SEQ;
    let (iflags, oflags) = (table.be16(gre::IFLAGS)?, table.be16(gre::OFLAGS)?);
    let (iflags, oflags) = (iflags.unwrap_or(0), oflags.unwrap_or(0));
    match (iflags | oflags) & (GRE_VERSION | GRE_ROUTING) {
        0 => Ok((iflags & known, oflags & known)),
        _ => Err(Error::new(errno::EINVAL)),
    }
}

/// Returns the parameters of the kinds ip6gre and ip6gretap (`ip6gre_netlink_parms`).
pub fn ip6gre(table: &Table<'_>, has_data: bool) -> Result<Parms, Error> {
    if !has_data {
        return Ok(Parms::new(true));
    }
    let types = [gre::ENCAP_LIMIT, gre::FLOWINFO, gre::FLAGS];
    with_keys(table, over_ipv6(table, types, common(table, true, &GRE)?)?)
}

/// The attributes of an encapsulation of the kinds of GRE, in the order in which they are written.
const GRE_ENCAP: [u16; 4] = [
    gre::ENCAP_TYPE,
    gre::ENCAP_SPORT,
    gre::ENCAP_DPORT,
    gre::ENCAP_FLAGS,
];

/// Writes what the kinds of GRE over IPv4 and IPv6 write first.
fn fill_gre_start(parms: &Parms, out: &mut Writer) {
    out.put_u32(gre::LINK, parms.link);
    out.put_be16(gre::IFLAGS, parms.iflags);
    out.put_be16(gre::OFLAGS, parms.oflags);
    out.put_be32(gre::IKEY, parms.ikey);
    out.put_be32(gre::OKEY, parms.okey);
    out.put_ip(gre::LOCAL, parms.local);
    out.put_ip(gre::REMOTE, parms.remote);
    out.put_u8(gre::TTL, parms.ttl);
}

/// Writes the parameters of the kinds ip6gre and ip6gretap (`ip6gre_fill_info`).
pub fn fill_ip6gre(parms: &Parms, out: &mut Writer) {
    fill_gre_start(parms, out);
    out.put_u8(gre::ENCAP_LIMIT, parms.encap_limit);
    out.put_be32(gre::FLOWINFO, parms.flowinfo);
    out.put_u32(gre::FLAGS, parms.flags);
    out.put_u32(gre::FWMARK, parms.fwmark);
    fill_no_encap(out, GRE_ENCAP);
    if parms.external {
        out.put_flag(gre::COLLECT_METADATA);
    }
}

/// Returns the parameters of the kinds gre and gretap (`ipgre_tunnel_validate`, `ipgre_netlink_parms`).
pub fn gre(table: &Table<'_>, has_data: bool) -> Result<Parms, Error> {
    if !has_data {
        return Ok(Parms::new(false));
    }
    let parms = Parms {
        tos: table.u8(gre::TOS)?.unwrap_or(0),
        df: table.u8(gre::PMTUDISC)? != Some(0),
        ignore_df: table.u8(gre::IGNORE_DF)?.is_some_and(|value| value != 0),
        ..with_keys(table, common(table, false, &GRE)?)?
    };
    match parms.ignore_df && parms.df {
        true => Err(Error::new(errno::EINVAL)),
        false => Ok(parms),
    }
}

/// Writes the parameters of the kinds gre and gretap (`ipgre_fill_info`).
pub fn fill_gre(parms: &Parms, out: &mut Writer) {
    fill_gre_start(parms, out);
    out.put_u8(gre::TOS, parms.tos);
    out.put_u8(gre::PMTUDISC, u8::from(parms.df));
    out.put_u32(gre::FWMARK, parms.fwmark);
    fill_no_encap(out, GRE_ENCAP);
    out.put_u8(gre::IGNORE_DF, u8::from(parms.ignore_df));
    if parms.external {
        out.put_flag(gre::COLLECT_METADATA);
    }
}
