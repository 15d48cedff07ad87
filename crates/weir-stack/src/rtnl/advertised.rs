// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What listeners hear of router advertisements: prefixes (RTM_NEWPREFIX, `inet6_prefix_notify`) and
//! options for resolvers (RTM_NEWNDUSEROPT, `ndisc_ra_useropt`).

use std::net::Ipv6Addr;

use weir_netlink::{NdUserOptMsg, PrefixCacheInfo, PrefixMsg, af, prefix as attr, rtm};
use weir_packet::header::ndisc::{ND_OPT_PREFIX_INFO, NDISC_ROUTER_ADVERTISEMENT, NdOption};

use crate::ipv6::address::auto::Prefix;
use crate::layers::Site;
use crate::rtnl::announce;

/// `NDUSEROPT_SRCADDR`
const SRCADDR: u16 = 1;

/// Tells of a prefix (`inet6_fill_prefix`).
pub fn prefix(site: &Site<'_>, prefix: &Prefix) {
    announce(site.ns, rtm::grp::IPV6_PREFIX, rtm::NEWPREFIX, |out| {
        out.fixed(&PrefixMsg {
            family: af::INET6,
            ifindex: site.device.ifindex() as i32,
            ty: ND_OPT_PREFIX_INFO,
            len: prefix.len,
            flags: prefix.flags,
            ..PrefixMsg::default()
        });
        out.put_ipv6(attr::ADDRESS, prefix.prefix);
        out.put_fixed(
            attr::CACHEINFO,
            &PrefixCacheInfo {
                preferred: prefix.preferred,
                valid: prefix.valid,
            },
        );
    });
}

/// Tells of an option.
pub fn option(site: &Site<'_>, option: &NdOption<'_>, router: Ipv6Addr) {
    let len = option.body.len() + 2;
    announce(site.ns, rtm::grp::ND_USEROPT, rtm::NEWNDUSEROPT, |out| {
        out.fixed(&NdUserOptMsg {
            family: af::INET6,
            opts_len: len as u16,
            ifindex: site.device.ifindex() as i32,
            icmp_type: NDISC_ROUTER_ADVERTISEMENT,
            ..NdUserOptMsg::default()
        });
        out.raw(&[&[option.kind, (len / 8) as u8][..], option.body].concat());
        out.put_ipv6(SRCADDR, router);
    });
}
