// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unmodified programs talk through routers. They wait for much of their time, so the tests are one program, in which one
//! works while another waits.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

#[path = "../common/chain.rs"]
mod chain;
#[path = "../common/mod.rs"]
mod common;

mod routing;
mod runtimes;
mod servers;
mod tools;
