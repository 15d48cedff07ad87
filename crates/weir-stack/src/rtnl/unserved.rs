// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts of rtnetlink that Weir does not have: error texts for rejected requests.

use weir_netlink::{Error, rtm};

/// The first and last message type, and the error text.
const SENTENCES: &[(u16, u16, &str)] = &[
    (
        rtm::GETMULTICAST,
        rtm::GETMULTICAST,
        "Group memberships are listed in /proc/net/igmp and /proc/net/igmp6",
    ),
    (
        rtm::GETANYCAST,
        rtm::GETANYCAST,
        "Anycast addresses are not supported",
    ),
    (rtm::GETDCB, rtm::SETDCB, "Weir has no data center bridging"),
    (
        rtm::NEWSTATS,
        rtm::SETSTATS,
        "Devices have no statistics of hardware",
    ),
];

/// Returns the error for an unsupported message type.
pub fn refuse(ty: u16) -> Error {
    match SENTENCES
        .iter()
        .find(|(first, last, _)| (*first..=*last).contains(&ty))
    {
        Some((.., sentence)) => Error::unsupported(*sentence),
        None => Error::new(weir_netlink::errno::EOPNOTSUPP),
    }
}
