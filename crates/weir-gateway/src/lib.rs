// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A way out of a namespace by the host's ordinary sockets, as slirp and passt provide it.
//!
//! The gateway is the other end of a device in a namespace. It takes the frames that the device sends ([`Gateway::frame`])
//! and gives those that the device receives ([`Gateway::pop`]). TCP ends here ([`weir_tcp`]), and each connection is joined
//! with one of the host. Each flow of UDP and of echo requests has a socket of the host. So a process without privileges
//! can lead a namespace to wherever it may connect to itself.
//!
//! | subject | where | source |
//! |---|---|---|
//! | frames: Ethernet, ARP, neighbour discovery, IPv4, IPv6, ICMP errors | `wire.rs` | RFC 826, 4861, 792, 4443 |
//! | fragments | `reassembly.rs`, `wire.rs` | RFC 791, 8200, 5722 |
//! | connections | `tcp.rs` | RFC 9293 |
//! | UDP, echo requests | `datagram.rs` | RFC 4787 |
//! | resolvers | `resolver.rs` | resolv.conf(5) |
//! | flows, timers | `flow.rs` | |
//! | the thread, and its port at the device | `port.rs` | |
//!
//! What is not served: multicast and broadcasts; protocols other than TCP, UDP and echo requests; options and
//! extension headers (they are not passed on); TTL and type of service (the host's sockets have their own); ICMP errors about
//! the host's path other than those that its sockets report.
//!
//! [`Gateway`] has no thread and takes its time from the machine's clock. [`port::Link`] runs it in a thread.
#![deny(unsafe_code)]

pub mod config;
mod context;
pub mod counters;
mod datagram;
mod flow;
mod gateway;
mod host;
pub mod port;
mod reassembly;
mod resolver;
mod tcp;
mod wire;

pub use config::{Addresses, Config, Outside};
pub use counters::Counters;
pub use gateway::{Gateway, Held};
pub use wire::{Frame, MAC};
