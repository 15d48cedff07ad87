// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sysctls of a namespace as files ([`tree`]). The values the data path obeys are in [`crate::settings`].

mod fragments;
mod mpls;
mod netfilter;
mod ports;
pub mod tree;

pub use crate::conf::{Conf, Core, Slot, Target};
pub use crate::settings::*;
