// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options that all kinds of sockets have: those of `SOL_SOCKET` ([`base`]), of IPv4 ([`ip`]) and of IPv6
//! ([`ipv6`]).

pub mod base;
pub mod ip;
pub mod ipv6;

use std::net::Ipv4Addr;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

use weir_netlink::errno;
use weir_packet::header::ipv4_options::Chosen;

use crate::abi::pmtudisc;

/// `net.core.rmem_max` and `wmem_max`, also the default of the buffers.
const BUFFER: u32 = 212_992;

/// The options of a socket, apart from those of its protocol.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub reuse: bool,
    pub reuseport: bool,
    pub broadcast: bool,
    pub dontroute: bool,
    pub keepalive: bool,
    pub oobinline: bool,
    pub no_check: bool,
    pub debug: bool,
    pub passcred: bool,
    pub rxq_ovfl: bool,
    pub select_err_queue: bool,
    pub rcvmark: bool,
    pub nofcs: bool,
    pub lock_filter: bool,
    pub txrehash: u8,
    pub priority: u32,
    pub mark: u32,
    pub sndbuf: u32,
    pub rcvbuf: u32,
    /// `SOCK_SNDBUF_LOCK` and `SOCK_RCVBUF_LOCK`.
    pub buffers_set: u8,
    pub rcvlowat: i32,
    pub peek_off: i32,
    pub busy_poll: i32,
    pub incoming_cpu: i32,
    pub pacing: u64,
    /// Whether it is on, and the seconds.
    pub linger: (bool, i32),
    pub rcvtimeo: [u8; 16],
    pub sndtimeo: [u8; 16],
    pub timestamp: Timestamp,
    /// `SOF_TIMESTAMPING_*`, and whether the layout is the new one.
    pub timestamping: (u32, bool),

    pub tos: u8,
    /// -1 is the default.
    pub ttl: i32,
    pub mc_ttl: u8,
    pub mc_loop: bool,
    pub mc_all: bool,
    pub mc_device: u32,
    /// The multicast routing table (`MRT_TABLE`, `MRT6_TABLE`), 0 for the one that every namespace has.
    pub multicast_table: u32,
    pub mc_address: Ipv4Addr,
    pub uc_device: u32,
    /// The IPv4 options of packets (`IP_OPTIONS`), which may be none, once the program has set them.
    pub ip_options: Option<Chosen>,
    pub pmtudisc: u8,
    pub hdrincl: bool,
    pub transparent: bool,
    pub freebind: bool,
    pub bind_no_port: bool,
    pub nodefrag: bool,
    pub min_ttl: u8,
    /// The control messages of received datagrams, as bits `1 << IP_*`.
    pub receive: u64,
    pub recverr: bool,
    pub rfc4884: bool,

    pub v6only: bool,
    pub hops: i32,
    pub mc_hops: i32,
    pub mc_loop6: bool,
    pub mc_all6: bool,
    pub mc_device6: u32,
    pub uc_device6: u32,
    pub tclass: u8,
    pub dontfrag: bool,
    pub pmtudisc6: u8,
    pub recverr6: bool,
    pub rfc4884_6: bool,
    pub flowinfo_send: bool,
    pub autoflowlabel: Option<bool>,
    pub min_hops: u8,
    pub preferences: u8,
    /// The control messages of received datagrams, as bits.
    pub receive6: u32,
}

impl Options {
    /// Returns the IPv4 options of packets.
    pub fn chosen(&self) -> &[u8] {
        self.ip_options.as_ref().map_or(&[], Chosen::bytes)
    }
}

/// The form in which a program wants the time of a datagram (`SO_TIMESTAMP*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timestamp {
    Off,
    /// Microseconds, in the old or the new layout.
    Micro(bool),
    /// Nanoseconds, in the old or the new layout.
    Nano(bool),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            reuse: false,
            reuseport: false,
            broadcast: false,
            dontroute: false,
            keepalive: false,
            oobinline: false,
            no_check: false,
            debug: false,
            passcred: false,
            rxq_ovfl: false,
            select_err_queue: false,
            rcvmark: false,
            nofcs: false,
            lock_filter: false,
            txrehash: 255,
            priority: 0,
            mark: 0,
            sndbuf: BUFFER,
            rcvbuf: BUFFER,
            buffers_set: 0,
            rcvlowat: 1,
            peek_off: -1,
            busy_poll: 0,
            incoming_cpu: -1,
            pacing: u64::MAX,
            linger: (false, 0),
            rcvtimeo: [0; 16],
            sndtimeo: [0; 16],
            timestamp: Timestamp::Off,
            timestamping: (0, false),
            tos: 0,
            ttl: -1,
            mc_ttl: 1,
            mc_loop: true,
            mc_all: true,
            mc_device: 0,
            multicast_table: 0,
            mc_address: Ipv4Addr::UNSPECIFIED,
            uc_device: 0,
            ip_options: None,
            pmtudisc: pmtudisc::WANT,
            hdrincl: false,
            transparent: false,
            freebind: false,
            bind_no_port: false,
            nodefrag: false,
            min_ttl: 0,
            receive: 0,
            recverr: false,
            rfc4884: false,
            v6only: false,
            hops: -1,
            mc_hops: 1,
            mc_loop6: true,
            mc_all6: true,
            mc_device6: 0,
            uc_device6: 0,
            tclass: 0,
            dontfrag: false,
            pmtudisc6: pmtudisc::WANT,
            recverr6: false,
            rfc4884_6: false,
            flowinfo_send: false,
            autoflowlabel: None,
            min_hops: 0,
            preferences: 0,
            receive6: 0,
        }
    }
}

/// The options of a socket. Those whose options are the same may share them: a change makes a copy first.
#[derive(Debug, Clone)]
pub struct Shared(Arc<Options>);

impl Default for Shared {
    fn default() -> Self {
        static DEFAULT: LazyLock<Arc<Options>> = LazyLock::new(Arc::default);
        Self(DEFAULT.clone())
    }
}

impl Deref for Shared {
    type Target = Options;

    fn deref(&self) -> &Options {
        &self.0
    }
}

impl DerefMut for Shared {
    fn deref_mut(&mut self) -> &mut Options {
        Arc::make_mut(&mut self.0)
    }
}

/// Reads an `int` at the beginning of a value.
///
/// # Errors
/// EINVAL if it is shorter.
pub fn int(value: &[u8]) -> Result<i32, i32> {
    let bytes = value.first_chunk().ok_or(errno::EINVAL)?;
    Ok(i32::from_ne_bytes(*bytes))
}

/// Reads an `int`, or a byte where there is no room for one; an empty value is 0.
pub fn int_or_byte(value: &[u8]) -> i32 {
    match (value.first_chunk(), value.first()) {
        (Some(bytes), _) => i32::from_ne_bytes(*bytes),
        (None, Some(byte)) => i32::from(*byte),
        (None, None) => 0,
    }
}

/// Writes an `int`.
pub fn of_int(value: i32) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

/// Reads a `u32` at an offset.
pub fn word(value: &[u8], at: usize) -> Option<u32> {
    let bytes = value.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}
