// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The attributes of a VXLAN device: parsing them into a validated configuration, and writing them.
//!
//! Mirrors `vxlan_policy`, `vxlan_validate`, `vxlan_nl2conf`, `vxlan_config_validate` and
//! `vxlan_fill_info` (drivers/net/vxlan/vxlan_core.c).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_netlink::ifla::vxlan as attr;
use weir_netlink::{Attr, Error, Policy, Rule, Strictness, Table, Writer, errno, policy};
use weir_sync::rcu::Guard;

use crate::device::Device;
use crate::namespace::Namespace;
use crate::settings::Ipv6Conf;
use crate::settings::WithSettings;

/// `vxlan_port`: Linux's port, not the one assigned by IANA.
const PORT: u16 = 8472;
/// `FDB_AGE_DEFAULT`, in seconds.
const AGEING: u32 = 300;
/// One past the largest network identifier (`VXLAN_N_VID`).
pub const VNI_END: u32 = 1 << 24;
/// Always set DF (`VXLAN_DF_SET`).
pub const DF_SET: u8 = 1;
/// Copy DF from the inner packet (`VXLAN_DF_INHERIT`).
pub const DF_INHERIT: u8 = 2;

static POLICY: Policy = policy! { max attr::MAX;
    attr::ID => Rule::u32(),
    attr::GROUP => Rule::unspec(4),
    attr::GROUP6 => Rule::unspec(16),
    attr::LINK => Rule::u32(),
    attr::LOCAL => Rule::unspec(4),
    attr::LOCAL6 => Rule::unspec(16),
    attr::TOS => Rule::u8(),
    attr::TTL => Rule::u8(),
    attr::LABEL => Rule::u32(),
    attr::LEARNING => Rule::u8(),
    attr::AGEING => Rule::u32(),
    attr::LIMIT => Rule::u32(),
    attr::PORT_RANGE => Rule::unspec(4),
    attr::PROXY => Rule::u8(),
    attr::RSC => Rule::u8(),
    attr::L2MISS => Rule::u8(),
    attr::L3MISS => Rule::u8(),
    attr::COLLECT_METADATA => Rule::u8(),
    attr::PORT => Rule::u16(),
    attr::UDP_CSUM => Rule::u8(),
    attr::UDP_ZERO_CSUM6_TX => Rule::u8(),
    attr::UDP_ZERO_CSUM6_RX => Rule::u8(),
    attr::REMCSUM_TX => Rule::u8(),
    attr::REMCSUM_RX => Rule::u8(),
    attr::GBP => Rule::flag(),
    attr::GPE => Rule::flag(),
    attr::REMCSUM_NOPARTIAL => Rule::flag(),
    attr::TTL_INHERIT => Rule::flag(),
    attr::DF => Rule::u8(),
    attr::VNIFILTER => Rule::u8(),
};

/// The configuration of a device (`struct vxlan_config`).
#[derive(Debug, Clone)]
pub struct Config {
    /// The network identifier, 24 bits.
    pub vni: u32,
    /// The remote for frames without an entry, or unspecified if there is none.
    pub remote: IpAddr,
    /// The outer source, or unspecified if the route selects it.
    pub local: IpAddr,
    /// The index of the underlay device, or 0 for any.
    pub lower: u32,
    /// The range of outer source ports, the end exclusive. If both are equal, the namespace's range
    /// is used.
    pub ports: (u16, u16),
    /// The outer destination port, which is also the port listened on.
    pub dst_port: u16,
    /// The outer TTL, or 0 for the route's.
    pub ttl: u8,
    /// Copy the outer TTL from the inner packet.
    pub ttl_inherit: bool,
    /// The outer TOS, or 1 to copy the inner packet's.
    pub tos: u8,
    /// [`DF_SET`], [`DF_INHERIT`] or 0.
    pub df: u8,
    /// The flow label for an IPv6 underlay.
    pub label: u32,
    /// Learn the location of addresses from received frames.
    pub learning: bool,
    /// Report unicast addresses without an entry.
    pub l2miss: bool,
    /// Answer ARP requests and neighbour solicitations.
    pub proxy: bool,
    /// Send packets for a router to the host behind it.
    pub rsc: bool,
    /// Report the neighbours that [`proxy`](Self::proxy) and [`rsc`](Self::rsc) lack.
    pub l3miss: bool,
    /// The time in seconds after which an unused entry is removed.
    pub ageing: u32,
    /// The maximum number of entries, or 0 for no limit.
    pub limit: u32,
    /// Send by the packets' tunnel metadata, and set it on received packets.
    pub external: bool,
    /// Send UDP checksums over IPv4.
    pub udp_csum: bool,
    /// Send no UDP checksums over IPv6.
    pub zero_csum6_tx: bool,
    /// Accept packets without UDP checksums over IPv6.
    pub zero_csum6_rx: bool,
    /// Leave checksums of inner packets that a device would compute to the receiver.
    pub remcsum_tx: bool,
    /// Compute checksums of inner packets that the sender has left to the receiver.
    pub remcsum_rx: bool,
    /// Do so at once, and verify them.
    pub remcsum_nopartial: bool,
    /// Use the group policy extension.
    pub gbp: bool,
    /// Use the generic protocol extension: the device has packets of several protocols and no link-layer address.
    pub gpe: bool,
    /// Receive only identifiers of the [filter](super::vnifilter).
    pub vnifilter: bool,
}

/// The flags of [`Config::receive_flags`], each of which is the setting of its name.
pub(super) mod received {
    pub const EXTERNAL: u32 = 1;
    pub const GBP: u32 = 1 << 1;
    pub const ZERO_CSUM6: u32 = 1 << 2;
    pub const VNIFILTER: u32 = 1 << 3;
    pub const GPE: u32 = 1 << 4;
    pub const REMCSUM: u32 = 1 << 5;
    pub const NOPARTIAL: u32 = 1 << 6;
}

impl Config {
    /// Returns whether the underlay is IPv6 (`VXLAN_F_IPV6`).
    pub fn is_ipv6(&self) -> bool {
        self.remote.is_ipv6()
    }

    /// Returns the flags on which all devices that share a socket must agree (`VXLAN_F_RCV_FLAGS`).
    pub fn receive_flags(&self) -> u32 {
        let flags = [
            (self.external, received::EXTERNAL),
            (self.gbp, received::GBP),
            (self.zero_csum6_rx, received::ZERO_CSUM6),
            (self.vnifilter, received::VNIFILTER),
            (self.gpe, received::GPE),
            (self.remcsum_rx, received::REMCSUM),
            (self.remcsum_nopartial, received::NOPARTIAL),
        ];
        let set = flags.into_iter().filter(|(set, _)| *set);
        set.fold(0, |all, (_, flag)| all | flag)
    }

    /// Returns the number of bytes in front of the inner network packet, including the inner
    /// Ethernet header, if there is one (`vxlan_headroom`).
    pub fn headroom(&self) -> u32 {
        let outer = if self.is_ipv6() { 56 } else { 36 };
        outer + if self.gpe { 0 } else { 14 }
    }

    /// Returns whether the generic protocol extension is used with something that it does not go with
    /// (`VXLAN_F_ALLOWED_GPE`).
    fn misuses_gpe(&self) -> bool {
        let others = [
            self.learning,
            self.proxy,
            self.rsc,
            self.l2miss,
            self.l3miss,
            self.ttl_inherit,
            self.gbp,
            self.remcsum_tx,
            self.remcsum_rx,
            self.remcsum_nopartial,
        ];
        self.gpe && (!self.external || others.contains(&true))
    }
}

fn unspecified(ipv6: bool) -> IpAddr {
    if ipv6 {
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        Ipv4Addr::UNSPECIFIED.into()
    }
}

fn text(message: &'static str) -> Error {
    Error::msg(errno::EINVAL, message)
}

/// Validates the attributes by themselves (`vxlan_validate`).
pub fn parse<'a>(data: Option<Attr<'a>>) -> Result<Table<'a>, Error> {
    let data = data.ok_or(text(
        "Required attributes not provided to perform the operation",
    ))?;
    let table = data.parse(&POLICY, Strictness::Liberal)?;
    if let Some(id) = table.get(attr::ID)
        && id.u32()? >= VNI_END
    {
        let error = Error::msg(errno::ERANGE, "VXLAN ID must be lower than 16777216");
        return Err(error.at(&id));
    }
    if let Some(range) = table.get(attr::PORT_RANGE) {
        let (low, high) = ports(&range)?;
        if high < low {
            return Err(text("Invalid source port range").at(&range));
        }
    }
    if let Some(df) = table.get(attr::DF)
        && df.u8()? > DF_INHERIT
    {
        return Err(text("Invalid DF attribute").at(&df));
    }
    Ok(table)
}

fn ports(range: &Attr<'_>) -> Result<(u16, u16), Error> {
    let [a, b, c, d] = range.array()?;
    Ok((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// Returns the address of whichever of the two attributes is present.
fn address(table: &Table<'_>, v4: u16, v6: u16) -> Result<Option<IpAddr>, Error> {
    if let Some(attr) = table.get(v4) {
        return Ok(Some(attr.ipv4()?.into()));
    }
    Ok(table.ipv6(v6)?.map(IpAddr::from))
}

fn refuse(errno: i32, message: &'static str) -> Result<(), Error> {
    Err(Error::msg(errno, message))
}

/// Rejects changes of the attributes that cannot be changed, each with its error text.
fn check_change(table: &Table<'_>, old: &Config) -> Result<(), Error> {
    let unsupported = |message| refuse(errno::EOPNOTSUPP, message);
    if table.u32(attr::ID)?.is_some_and(|vni| vni != old.vni) {
        return unsupported("Cannot change VNI");
    }
    let other =
        |address: Option<IpAddr>| address.is_some_and(|address| address.is_ipv6() != old.is_ipv6());
    if other(address(table, attr::GROUP, attr::GROUP6)?) {
        return unsupported("New group address family does not match old group");
    }
    if other(address(table, attr::LOCAL, attr::LOCAL6)?) {
        return unsupported("New local address family does not match old");
    }
    let fixed = [
        (attr::TTL_INHERIT, "vxlan: cannot change TTL_INHERIT flag"),
        (attr::PROXY, "vxlan: cannot change PROXY flag"),
        (attr::RSC, "vxlan: cannot change RSC flag"),
        (attr::L2MISS, "vxlan: cannot change L2MISS flag"),
        (attr::L3MISS, "vxlan: cannot change L3MISS flag"),
        (attr::LIMIT, "Cannot change limit"),
        (
            attr::COLLECT_METADATA,
            "vxlan: cannot change COLLECT_METADATA flag",
        ),
        (attr::PORT_RANGE, "Cannot change port range"),
        (attr::PORT, "Cannot change port"),
        (attr::UDP_CSUM, "Cannot change UDP_CSUM flag"),
        (
            attr::UDP_ZERO_CSUM6_TX,
            "vxlan: cannot change UDP_ZERO_CSUM6_TX flag",
        ),
        (
            attr::UDP_ZERO_CSUM6_RX,
            "vxlan: cannot change UDP_ZERO_CSUM6_RX flag",
        ),
        (attr::REMCSUM_TX, "vxlan: cannot change REMCSUM_TX flag"),
        (attr::REMCSUM_RX, "vxlan: cannot change REMCSUM_RX flag"),
        (attr::GBP, "vxlan: cannot change GBP flag"),
        (attr::GPE, "vxlan: cannot change GPE flag"),
        (
            attr::REMCSUM_NOPARTIAL,
            "vxlan: cannot change REMCSUM_NOPARTIAL flag",
        ),
        (attr::VNIFILTER, "vxlan: cannot change flag"),
    ];
    match fixed.iter().find(|(ty, _)| table.has(*ty)) {
        Some((_, message)) => unsupported(message),
        None => Ok(()),
    }
}

/// Returns the requested configuration, based on `old` for a change (`vxlan_nl2conf`).
pub fn config(table: &Table<'_>, old: Option<&Config>) -> Result<Config, Error> {
    if let Some(old) = old {
        check_change(table, old)?;
    }
    let remote = address(table, attr::GROUP, attr::GROUP6)?;
    let local = address(table, attr::LOCAL, attr::LOCAL6)?;
    let ipv6 = remote.or(local).is_some_and(|address| address.is_ipv6());
    let default = Config {
        vni: 0,
        remote: unspecified(remote.map_or(ipv6, |address| address.is_ipv6())),
        local: unspecified(local.map_or(ipv6, |address| address.is_ipv6())),
        lower: 0,
        ports: (0, 0),
        dst_port: 0,
        ttl: 0,
        ttl_inherit: false,
        tos: 0,
        df: 0,
        label: 0,
        // A new device learns by default.
        learning: true,
        l2miss: false,
        proxy: false,
        rsc: false,
        l3miss: false,
        ageing: 0,
        limit: 0,
        external: false,
        udp_csum: true,
        zero_csum6_tx: false,
        zero_csum6_rx: false,
        remcsum_tx: false,
        remcsum_rx: false,
        remcsum_nopartial: false,
        gbp: false,
        gpe: false,
        vnifilter: false,
    };
    let mut conf = old.cloned().unwrap_or(default);
    conf.vni = table.u32(attr::ID)?.unwrap_or(conf.vni);
    conf.remote = remote.unwrap_or(conf.remote);
    conf.local = local.unwrap_or(conf.local);
    conf.lower = table.u32(attr::LINK)?.unwrap_or(conf.lower);
    conf.tos = table.u8(attr::TOS)?.unwrap_or(conf.tos);
    conf.ttl = table.u8(attr::TTL)?.unwrap_or(conf.ttl);
    conf.ttl_inherit |= table.has(attr::TTL_INHERIT);
    let label = table.be32(attr::LABEL)?.map(|label| label & 0xf_ffff);
    conf.label = label.unwrap_or(conf.label);
    let flag = |ty, before: bool| Ok::<_, Error>(table.u8(ty)?.map_or(before, |value| value != 0));
    conf.learning = flag(attr::LEARNING, conf.learning)?;
    conf.proxy = flag(attr::PROXY, conf.proxy)?;
    conf.rsc = flag(attr::RSC, conf.rsc)?;
    conf.l2miss = flag(attr::L2MISS, conf.l2miss)?;
    conf.l3miss = flag(attr::L3MISS, conf.l3miss)?;
    conf.ageing = table.u32(attr::AGEING)?.unwrap_or(conf.ageing);
    conf.limit = table.u32(attr::LIMIT)?.unwrap_or(conf.limit);
    conf.external = flag(attr::COLLECT_METADATA, conf.external)?;
    if let Some(range) = table.get(attr::PORT_RANGE) {
        conf.ports = ports(&range)?;
    }
    conf.dst_port = table.be16(attr::PORT)?.unwrap_or(conf.dst_port);
    conf.udp_csum = flag(attr::UDP_CSUM, conf.udp_csum)?;
    conf.zero_csum6_tx = flag(attr::UDP_ZERO_CSUM6_TX, conf.zero_csum6_tx)?;
    conf.zero_csum6_rx = flag(attr::UDP_ZERO_CSUM6_RX, conf.zero_csum6_rx)?;
    conf.remcsum_tx = flag(attr::REMCSUM_TX, conf.remcsum_tx)?;
    conf.remcsum_rx = flag(attr::REMCSUM_RX, conf.remcsum_rx)?;
    conf.gbp |= table.has(attr::GBP);
    conf.gpe |= table.has(attr::GPE);
    conf.remcsum_nopartial |= table.has(attr::REMCSUM_NOPARTIAL);
    conf.df = table.u8(attr::DF)?.unwrap_or(conf.df);
    if let Some(attr) = table.get(attr::VNIFILTER) {
        conf.vnifilter = attr.u8()? != 0;
        if conf.vnifilter && !conf.external {
            let text = text("vxlan vnifilter only valid in collect metadata mode");
            return Err(text.at(&attr));
        }
    }
    Ok(conf)
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

fn is_link_local_group(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_multicast() && v6.octets()[1] & 15 == 2)
}

/// Validates a configuration against the namespace and fills in defaults. Returns the underlay
/// device (`vxlan_config_validate`, without the search for a device with the same identifier, which
/// is [`check_unused`](super::socket::check_unused)).
pub fn validate(
    ns: &Namespace,
    conf: &mut Config,
    guard: &Guard,
) -> Result<Option<Arc<Device>>, Error> {
    if conf.misuses_gpe() {
        return Err(text(
            "VXLAN GPE does not support this combination of attributes",
        ));
    }
    if conf.local.is_ipv6() != conf.remote.is_ipv6() {
        return Err(text(
            "Local and remote address must be from the same family",
        ));
    }
    if conf.local.is_multicast() {
        return Err(text("Local address cannot be multicast"));
    }
    let local_only = is_link_local(conf.local);
    if conf.is_ipv6() && !conf.external {
        let remote_only = is_link_local(conf.remote);
        let mixed = if local_only {
            !remote_only && !is_link_local_group(conf.remote) && !conf.remote.is_unspecified()
        } else {
            remote_only
        };
        if mixed {
            return Err(text(
                "Invalid combination of local and remote address scopes",
            ));
        }
    }
    if conf.label != 0 && !conf.is_ipv6() {
        return Err(text("Label attribute only applies to IPv6 VXLAN devices"));
    }
    let lower = if conf.lower != 0 {
        let lower = ns.device(conf.lower, guard).cloned().ok_or(Error::msg(
            errno::ENODEV,
            "Invalid local interface, device not found",
        ))?;
        if conf.is_ipv6() && lower.conf().ipv6.on(Ipv6Conf::DisableIpv6) {
            return Err(Error::msg(
                errno::EPERM,
                "IPv6 support disabled by administrator",
            ));
        }
        Some(lower)
    } else if conf.remote.is_multicast() {
        return Err(text(
            "Local interface required for multicast remote destination",
        ));
    } else if local_only && !conf.external {
        return Err(text(
            "Local interface required for link-local local/remote addresses",
        ));
    } else {
        None
    };
    if conf.dst_port == 0 {
        conf.dst_port = PORT;
    }
    if conf.ageing == 0 {
        conf.ageing = AGEING;
    }
    Ok(lower)
}

fn put_address(out: &mut Writer, address: IpAddr, v4: u16, v6: u16) {
    if !address.is_unspecified() {
        out.put_ip(if address.is_ipv4() { v4 } else { v6 }, address);
    }
}

/// Writes the attributes (`vxlan_fill_info`).
pub fn fill(conf: &Config, out: &mut Writer) {
    out.put_u32(attr::ID, conf.vni);
    put_address(out, conf.remote, attr::GROUP, attr::GROUP6);
    if conf.lower != 0 {
        out.put_u32(attr::LINK, conf.lower);
    }
    put_address(out, conf.local, attr::LOCAL, attr::LOCAL6);
    out.put_u8(attr::TTL, conf.ttl);
    out.put_u8(attr::TTL_INHERIT, u8::from(conf.ttl_inherit));
    out.put_u8(attr::TOS, conf.tos);
    out.put_u8(attr::DF, conf.df);
    out.put_be32(attr::LABEL, conf.label);
    out.put_u8(attr::LEARNING, u8::from(conf.learning));
    out.put_u8(attr::PROXY, u8::from(conf.proxy));
    out.put_u8(attr::RSC, u8::from(conf.rsc));
    out.put_u8(attr::L2MISS, u8::from(conf.l2miss));
    out.put_u8(attr::L3MISS, u8::from(conf.l3miss));
    out.put_u8(attr::COLLECT_METADATA, u8::from(conf.external));
    out.put_u32(attr::AGEING, conf.ageing);
    out.put_u32(attr::LIMIT, conf.limit);
    out.put_be16(attr::PORT, conf.dst_port);
    out.put_u8(attr::UDP_CSUM, u8::from(conf.udp_csum));
    out.put_u8(attr::UDP_ZERO_CSUM6_TX, u8::from(conf.zero_csum6_tx));
    out.put_u8(attr::UDP_ZERO_CSUM6_RX, u8::from(conf.zero_csum6_rx));
    out.put_u8(attr::REMCSUM_TX, u8::from(conf.remcsum_tx));
    out.put_u8(attr::REMCSUM_RX, u8::from(conf.remcsum_rx));
    let ([a, b], [c, d]) = (conf.ports.0.to_be_bytes(), conf.ports.1.to_be_bytes());
    out.put(attr::PORT_RANGE, &[a, b, c, d]);
    if conf.gbp {
        out.put_flag(attr::GBP);
    }
    if conf.gpe {
        out.put_flag(attr::GPE);
    }
    if conf.remcsum_nopartial {
        out.put_flag(attr::REMCSUM_NOPARTIAL);
    }
    if conf.vnifilter {
        out.put_u8(attr::VNIFILTER, 1);
    }
}
