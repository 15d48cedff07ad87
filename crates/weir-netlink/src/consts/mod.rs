// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Linux's names and numbers, one module per family.
//!
//! Each name is Linux's name without the prefix that its module represents: `RTM_NEWLINK` is
//! [`rtm::NEWLINK`], `IFLA_INFO_KIND` is [`ifla::info::KIND`], `TCA_FLOWER_KEY_ETH_TYPE` is
//! [`tca::flower::KEY_ETH_TYPE`]. If the rest would begin with a digit, the last word of the prefix
//! is kept. Attribute types are `u16`; values have the width of the field that carries them.

pub mod addrlabel;
pub mod af;
pub mod cta;
pub mod devconf;
pub mod errno;
pub mod eth;
pub mod ethtool;
pub mod fra;
pub mod genl;
pub mod ifa;
pub mod ifla;
pub mod ipmra;
pub mod mib;
pub mod nda;
pub mod netconf;
pub mod netnsa;
pub mod nexthop;
pub mod nfnl;
pub mod nlm;
pub mod prefix;
pub mod psample;
pub mod rta;
pub mod rtm;
pub mod tca;
pub mod vnifilter;
