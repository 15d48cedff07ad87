// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses link attributes (`ifla_policy`, `validate_linkmsg`).

use std::sync::Arc;

use weir_netlink::{
    Attr, Error, IfInfoMsg, Policy, Rule, Strictness, Table, errno, ifla, parse_at, policy,
};

use crate::device::Mac;
use crate::kind::check_mac;
use crate::link::NewLink;
use crate::namespace::Namespace;
use crate::rtnl::Ctl;

/// The maximum length of an alternative name (`ALTIFNAMSIZ` without its NUL).
const ALT_NAME: u16 = 127;

/// `ifla_policy`
pub static POLICY: Policy = policy! {
    max ifla::MAX;
    ifla::IFNAME => Rule::string(15),
    ifla::ADDRESS => Rule::binary(32),
    ifla::BROADCAST => Rule::binary(32),
    ifla::MAP => Rule::unspec(28),
    ifla::MTU => Rule::u32(),
    ifla::LINK => Rule::u32(),
    ifla::MASTER => Rule::u32(),
    ifla::CARRIER => Rule::u8(),
    ifla::TXQLEN => Rule::u32(),
    ifla::WEIGHT => Rule::u32(),
    ifla::OPERSTATE => Rule::u8(),
    ifla::LINKMODE => Rule::u8(),
    ifla::LINKINFO => Rule::nested_any(),
    ifla::NET_NS_PID => Rule::u32(),
    ifla::NET_NS_FD => Rule::u32(),
    // A string, but possibly empty, which removes the alias.
    ifla::IFALIAS => Rule::binary(255),
    ifla::VFINFO_LIST => Rule::nested_any(),
    ifla::VF_PORTS => Rule::nested_any(),
    ifla::PORT_SELF => Rule::nested_any(),
    ifla::AF_SPEC => Rule::nested_any(),
    ifla::EXT_MASK => Rule::u32(),
    ifla::PROMISCUITY => Rule::u32(),
    ifla::NUM_TX_QUEUES => Rule::u32(),
    ifla::NUM_RX_QUEUES => Rule::u32(),
    ifla::GSO_MAX_SEGS => Rule::u32(),
    // The room TCP needs for headers: `MAX_TCP_HEADER + 1` of user-mode Linux.
    ifla::GSO_MAX_SIZE => Rule::u32().range(257, u32::MAX as u64),
    ifla::PHYS_PORT_ID => Rule::binary(32),
    ifla::CARRIER_CHANGES => Rule::u32(),
    ifla::PHYS_SWITCH_ID => Rule::binary(32),
    ifla::LINK_NETNSID => Rule::s32(),
    ifla::PROTO_DOWN => Rule::u8(),
    ifla::XDP => Rule::nested_any(),
    ifla::EVENT => Rule::u32(),
    ifla::GROUP => Rule::u32(),
    ifla::TARGET_NETNSID => Rule::s32(),
    ifla::CARRIER_UP_COUNT => Rule::u32(),
    ifla::CARRIER_DOWN_COUNT => Rule::u32(),
    ifla::MIN_MTU => Rule::u32(),
    ifla::MAX_MTU => Rule::u32(),
    ifla::PROP_LIST => Rule::nested_any(),
    ifla::ALT_IFNAME => Rule::string(ALT_NAME),
    ifla::PERM_ADDRESS => Rule::reject("Attribute is read-only"),
    ifla::PROTO_DOWN_REASON => Rule::nested_any(),
    ifla::NEW_IFINDEX => Rule::s32().signed(1, i32::MAX as i64),
    ifla::PARENT_DEV_NAME => Rule::nul_string(0),
    ifla::GRO_MAX_SIZE => Rule::u32(),
    ifla::TSO_MAX_SIZE => Rule::reject("Attribute is read-only"),
    ifla::TSO_MAX_SEGS => Rule::reject("Attribute is read-only"),
    ifla::ALLMULTI => Rule::reject("Attribute is read-only"),
};

/// `ifla_info_policy`
static INFO_POLICY: Policy = policy! {
    max ifla::info::MAX;
    ifla::info::KIND => Rule::string(0),
    ifla::info::DATA => Rule::nested_any(),
    ifla::info::SLAVE_KIND => Rule::string(0),
    ifla::info::SLAVE_DATA => Rule::nested_any(),
};

/// The contents of `IFLA_LINKINFO`.
pub struct LinkInfo<'a> {
    /// `IFLA_INFO_KIND`
    pub kind: Option<&'a str>,
    /// `IFLA_INFO_DATA`
    pub data: Option<Attr<'a>>,
    /// `IFLA_INFO_SLAVE_DATA`
    pub slave_data: Option<Attr<'a>>,
}

impl<'a> LinkInfo<'a> {
    /// Parses the nested attribute, if it is present.
    pub fn parse(attrs: &Table<'a>) -> Result<Self, Error> {
        let Some(nest) = attrs.get(ifla::LINKINFO) else {
            return Ok(Self {
                kind: None,
                data: None,
                slave_data: None,
            });
        };
        let inside = nest.attrs();
        let table = parse_at(
            inside.rest(),
            inside.offset(),
            &INFO_POLICY,
            Strictness::Liberal,
        )?;
        Ok(Self {
            kind: table.str(ifla::info::KIND)?,
            data: table.get(ifla::info::DATA),
            slave_data: table.get(ifla::info::SLAVE_DATA),
        })
    }
}

/// Checks that at most one attribute names a namespace (`rtnl_ensure_unique_netns`).
pub fn one_namespace(attrs: &Table<'_>) -> Result<(), Error> {
    let named = [ifla::NET_NS_PID, ifla::NET_NS_FD, ifla::TARGET_NETNSID];
    if named.iter().filter(|ty| attrs.has(**ty)).count() > 1 {
        return Err(Error::msg(
            errno::EOPNOTSUPP,
            "multiple netns identifying attributes specified",
        ));
    }
    Ok(())
}

/// Returns the namespace for the device, if the request names one (`rtnl_link_get_net`).
pub fn target_namespace(ctl: &Ctl<'_>, attrs: &Table<'_>) -> Result<Option<Arc<Namespace>>, Error> {
    if let Some(pid) = attrs.u32(ifla::NET_NS_PID)? {
        return ctl.namespace_by_pid(pid).map(Some);
    }
    if let Some(fd) = attrs.u32(ifla::NET_NS_FD)? {
        return ctl.namespace_by_fd(fd).map(Some);
    }
    match attrs.i32(ifla::TARGET_NETNSID)? {
        Some(nsid) => ctl
            .namespace_by_nsid(nsid)
            .map(Some)
            .ok_or_else(|| Error::new(errno::EINVAL)),
        None => Ok(None),
    }
}

/// Returns the namespace in which to look up `IFLA_LINK`, if the request names one.
pub fn link_namespace(ctl: &Ctl<'_>, attrs: &Table<'_>) -> Result<Option<Arc<Namespace>>, Error> {
    match attrs.i32(ifla::LINK_NETNSID)? {
        Some(nsid) => ctl
            .namespace_by_nsid(nsid)
            .map(Some)
            .ok_or_else(|| Error::msg(errno::EINVAL, "Unknown network namespace id")),
        None => Ok(None),
    }
}

/// Returns an Ethernet address. As in Linux, longer ones are truncated.
pub fn mac(attrs: &Table<'_>, ty: u16) -> Result<Option<Mac>, Error> {
    let Some(attr) = attrs.get(ty) else {
        return Ok(None);
    };
    attr.payload
        .first_chunk()
        .copied()
        .map(Some)
        .ok_or_else(|| Error::new(errno::EINVAL))
}

/// Returns the address for a new Ethernet device (`is_valid_ether_addr` in the `validate` functions
/// of the kinds).
fn new_address(attrs: &Table<'_>) -> Result<Option<Mac>, Error> {
    let Some(attr) = attrs.get(ifla::ADDRESS) else {
        return Ok(None);
    };
    let mac: Mac = attr
        .payload
        .try_into()
        .map_err(|_| Error::new(errno::EINVAL))?;
    check_mac(&mac)?;
    Ok(Some(mac))
}

/// Parses the common part of a request for a new link.
pub fn new_link<'a>(
    info: &IfInfoMsg,
    attrs: &Table<'a>,
    data: Option<Attr<'a>>,
    ns: Arc<Namespace>,
    link_ns: Arc<Namespace>,
    pattern: &str,
) -> Result<NewLink<'a>, Error> {
    let name = attrs
        .str(ifla::IFNAME)?
        .filter(|name| !name.is_empty())
        .unwrap_or(pattern);
    if !crate::link::is_valid_name(name) {
        return Err(Error::new(errno::EINVAL));
    }
    let ifindex = u32::try_from(info.index).map_err(|_| Error::new(errno::EINVAL))?;
    let count = |ty| match attrs.u32(ty) {
        Ok(Some(0 | 4097..)) => Err(Error::msg(
            errno::EINVAL,
            if ty == ifla::NUM_TX_QUEUES {
                "Invalid number of transmit queues"
            } else {
                "Invalid number of receive queues"
            },
        )),
        count => count,
    };
    let queues = (count(ifla::NUM_TX_QUEUES)?, count(ifla::NUM_RX_QUEUES)?);
    Ok(NewLink {
        ns,
        name: name.to_owned(),
        ifindex,
        mtu: attrs.u32(ifla::MTU)?,
        address: new_address(attrs)?,
        broadcast: mac(attrs, ifla::BROADCAST)?,
        txqlen: attrs.u32(ifla::TXQLEN)?,
        group: attrs.u32(ifla::GROUP)?,
        queues,
        link: attrs.u32(ifla::LINK)?,
        link_ns,
        flags: (info.flags, info.change),
        data,
    })
}

/// Parses the peer of a new veth: `VETH_INFO_PEER` holds an `ifinfomsg` and its own attributes.
pub fn parse_peer<'a>(
    ctl: &mut Ctl<'_>,
    new: &NewLink<'a>,
    nest: Attr<'a>,
    pattern: &str,
) -> Result<NewLink<'a>, Error> {
    let info = <IfInfoMsg as weir_netlink::Fixed>::from_bytes(nest.payload)
        .ok_or_else(|| Error::new(errno::EINVAL))?;
    let inside = nest.attrs_after(<IfInfoMsg as weir_netlink::Fixed>::LEN);
    let attrs = parse_at(inside.rest(), inside.offset(), &POLICY, Strictness::Liberal)?;
    one_namespace(&attrs)?;
    let ns = target_namespace(ctl, &attrs)?.unwrap_or_else(|| new.link_ns.clone());
    new_link(&info, &attrs, None, ns.clone(), ns, pattern)
}
