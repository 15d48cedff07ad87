// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Linux's names and numbers, a module per family.
//!
//! A name is Linux's without the prefix its module stands for: `RTM_NEWLINK` is [`rtm::NEWLINK`],
//! `IFLA_INFO_KIND` is [`ifla::info::KIND`], `TCA_FLOWER_KEY_ETH_TYPE` is
//! [`tca::flower::KEY_ETH_TYPE`]. Where the rest would begin with a digit, the last word of the
//! prefix stays. Attribute types are `u16`; values have the width of the field that carries them.

pub mod addrlabel;
pub mod af;
pub mod devconf;
pub mod errno;
pub mod eth;
pub mod fra;
pub mod genl;
pub mod ifa;
pub mod ifla;
pub mod mib;
pub mod nda;
pub mod netconf;
pub mod netnsa;
pub mod nexthop;
pub mod nlm;
pub mod prefix;
pub mod psample;
pub mod rta;
pub mod rtm;
pub mod tca;
