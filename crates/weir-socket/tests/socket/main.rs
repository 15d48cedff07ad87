// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of sockets through the public API, in one program, since each program links all crates below.

mod bad_path;
mod diag;
mod group;
mod icmp;
mod linux;
mod more;
mod noise;
mod packet;
mod tcp;
mod tcp_options;
mod tunnel;
mod udp;
#[path = "../world/mod.rs"]
mod world;
