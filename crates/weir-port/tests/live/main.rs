// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Live ports against real devices and real peers. A test that needs devices runs itself again in user
//! and network namespaces of its own (`unshare -rn`), and is skipped where the machine refuses them.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod af_packet;
mod af_xdp;
mod common;
mod pcap;
mod sieve;
mod socket;
mod tap;
mod thousand;
