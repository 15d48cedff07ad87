// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The core of the stack: namespaces, devices, CPUs, clock and timers, stages, drops, notification, and control requests on
//! their way.
//!
//! Nothing here knows a protocol, a link kind or a request type. The floors above register with a stack when it is made
//! ([`layers`]), and keep their state in places the core holds for them ([`parts`]). The lock order is in
//! [`weir_sync::order`].
#![deny(unsafe_code)]

pub mod clock;
pub mod conf;
pub mod cpu;
pub mod device;
pub mod drops;
pub mod ethtool;
pub mod features;
pub mod flow_limit;
pub mod kind;
pub mod layers;
mod link_stats;
pub mod measure;
pub mod name;
pub mod namespace;
pub mod netdev;
pub mod notify;
pub mod nsid;
pub mod parts;
mod posted;
pub mod random;
pub mod raw;
pub mod request;
pub mod stack;
pub mod stages;
pub mod steer;
pub mod taken;
pub mod trace;
mod traffic;
pub mod wire;
