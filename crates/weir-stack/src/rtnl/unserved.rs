// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What rtnetlink has and Weir does not: sentences for the refusals, and the dumps that are empty
//! because nothing of the kind can be made.

use weir_netlink::{Error, rtm};

use crate::rtnl::{Collected, Ctl, Dump, Handler};

/// The dumps that are empty.
pub const HANDLERS: &[Handler] = &[
    Handler {
        ty: rtm::GETNEXTHOP,
        doit: None,
        dumpit: Some(nothing),
    },
    Handler {
        ty: rtm::GETNEXTHOPBUCKET,
        doit: None,
        dumpit: Some(nothing),
    },
    // Of VXLAN devices that filter by VNI.
    Handler {
        ty: rtm::GETTUNNEL,
        doit: None,
        dumpit: Some(nothing),
    },
];

fn nothing(_: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    Ok(Collected::boxed(Vec::<()>::new(), false, |_, (), _| true))
}

/// First and last type, and what is to be said.
const SENTENCES: &[(u16, u16, &str)] = &[
    (
        rtm::GETMULTICAST,
        rtm::GETMULTICAST,
        "Group memberships are read from /proc/net/igmp and igmp6",
    ),
    (
        rtm::GETANYCAST,
        rtm::GETANYCAST,
        "Anycast addresses are not served",
    ),
    (rtm::GETDCB, rtm::SETDCB, "Weir has no data center bridging"),
    (rtm::NEWMDB, rtm::GETMDB, "Weir has no bridges"),
    (
        rtm::NEWSTATS,
        rtm::SETSTATS,
        "Statistics are served with links (RTM_GETLINK), not by RTM_GETSTATS",
    ),
    (
        rtm::NEWNEXTHOP,
        rtm::GETNEXTHOP,
        "Nexthop objects are not served",
    ),
    (rtm::NEWVLAN, rtm::GETVLAN, "Weir has no bridges"),
    (
        rtm::NEWNEXTHOPBUCKET,
        rtm::GETNEXTHOPBUCKET,
        "Nexthop objects are not served",
    ),
    (
        rtm::NEWTUNNEL,
        rtm::GETTUNNEL,
        "VXLAN devices do not filter by VNI",
    ),
];

/// The refusal of a type nobody serves.
pub fn refuse(ty: u16) -> Error {
    match SENTENCES
        .iter()
        .find(|(first, last, _)| (*first..=*last).contains(&ty))
    {
        Some((.., sentence)) => Error::unsupported(*sentence),
        None => Error::new(weir_netlink::errno::EOPNOTSUPP),
    }
}
