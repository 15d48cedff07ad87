// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/proc/net/nf_conntrack` and `/proc/net/stat/nf_conntrack` (net/netfilter/nf_conntrack_standalone.c).

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use weir_conntrack::{Counters, Family, Setting, Snapshot, Tuple, Zone, ips};
use weir_stack::{Namespace, Stack};

/// The protocols whose tuples have ports.
const PORTS: [u8; 5] = [6, 17, 33, 132, 136];
/// `IPPROTO_GRE`
const GRE: u8 = 47;

const HEAD: &str = "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop \
    early_drop icmp_error  expect_new expect_create expect_delete search_restart\n";

/// Returns the lines of all connections (`ct_seq_show`).
pub(super) fn connections(stack: &Stack, ns: &Arc<Namespace>) -> String {
    let mut out = String::new();
    let Some(table) = ns.tc.conntrack_if_used() else {
        return out;
    };
    let now = stack.clock.now();
    let timeouts = [Setting::gre_timeout, Setting::gre_timeout_stream]
        .map(|setting| table.settings().get(setting));
    let mut from = 0;
    while let Some(connection) = table.next(from, now) {
        from = connection.handle.index + 1;
        // Writing to a string does not fail.
        let _ = line(&mut out, &connection, timeouts, now);
    }
    out
}

/// Writes the line of a connection. `timeouts` are those of GRE.
fn line(out: &mut String, connection: &Snapshot, timeouts: [u32; 2], now: u64) -> std::fmt::Result {
    let (family, number) = match connection.original.family {
        Family::V4 => ("ipv4", 2),
        Family::V6 => ("ipv6", 10),
    };
    let protocol = connection.original.protocol;
    let name = name(protocol);
    write!(out, "{family:<8} {number} {name:<8} {protocol} ")?;
    // A connection in the flow table has neither time-out nor state.
    let offloaded = connection.status & ips::OFFLOAD != 0;
    if !offloaded {
        write!(out, "{} ", connection.timeout)?;
    }
    if !offloaded && let Some(state) = connection.state_name() {
        write!(out, "{state} ")?;
    }
    if protocol == GRE {
        let [timeout, stream] = timeouts;
        write!(out, "timeout={timeout}, stream_timeout={stream} ")?;
    }
    let counters = |at: usize| connection.counters.as_ref().map(|counters| &counters[at]);
    direction(out, &connection.original, connection.zone, 1, counters(0))?;
    if connection.status & ips::SEEN_REPLY == 0 {
        out.push_str("[UNREPLIED] ");
    }
    direction(out, &connection.reply, connection.zone, 2, counters(1))?;
    if offloaded {
        out.push_str("[OFFLOAD] ");
    } else if connection.status & ips::ASSURED != 0 {
        out.push_str("[ASSURED] ");
    }
    write!(out, "mark={} ", connection.mark)?;
    if connection.zone.directions == Zone::BOTH {
        write!(out, "zone={} ", connection.zone.id)?;
    }
    if let Some(started) = connection.started {
        write!(
            out,
            "delta-time={} ",
            now.saturating_sub(started) / 1_000_000_000
        )?;
    }
    writeln!(out, "use=2")
}

/// Writes a tuple with its zone and counters. `bit` is the direction's in [`Zone::directions`].
fn direction(
    out: &mut String,
    tuple: &Tuple,
    zone: Zone,
    bit: u8,
    counters: Option<&Counters>,
) -> std::fmt::Result {
    write!(
        out,
        "src={} dst={} ",
        address(tuple.source()),
        address(tuple.destination())
    )?;
    if let Some((kind, code, id)) = tuple.icmp() {
        write!(out, "type={kind} code={code} id={id} ")?;
    } else if PORTS.contains(&tuple.protocol) {
        write!(out, "sport={} dport={} ", tuple.src_port, tuple.dst_port)?;
    } else if tuple.protocol == GRE {
        write!(
            out,
            "srckey={:#x} dstkey={:#x} ",
            tuple.src_port, tuple.dst_port
        )?;
    }
    if zone.directions == bit {
        let name = if bit == 1 { "orig" } else { "reply" };
        write!(out, "zone-{name}={} ", zone.id)?;
    }
    if let Some(Counters { packets, bytes }) = counters {
        write!(out, "packets={packets} bytes={bytes} ")?;
    }
    Ok(())
}

/// Formats an address as the kernel does: an IPv6 address with all its digits (`%pI6`).
fn address(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let groups = address.segments().map(|group| format!("{group:04x}"));
            groups.join(":")
        }
    }
}

/// `l4proto_name`
fn name(protocol: u8) -> &'static str {
    match protocol {
        1 => "icmp",
        6 => "tcp",
        17 => "udp",
        33 => "dccp",
        47 => "gre",
        58 => "icmpv6",
        132 => "sctp",
        136 => "udplite",
        _ => "unknown",
    }
}

/// Lists the files of `/proc/net/stat`.
pub(super) fn counters(_: &Namespace) -> Vec<String> {
    vec!["nf_conntrack".to_owned()]
}

/// Reads a file of `/proc/net/stat`: a line for each CPU (`ct_cpu_seq_show`).
pub(super) fn counter(stack: &Stack, ns: &Arc<Namespace>, name: &str) -> Option<String> {
    if name != "nf_conntrack" {
        return None;
    }
    let mut out = HEAD.to_owned();
    let table = ns.tc.conntrack_if_used();
    let entries = table.map_or(0, |table| table.count());
    let counted = table.map(|table| table.statistics()).unwrap_or_default();
    for of in weir_stack::nfnl::conntrack::every_cpu(counted, stack.config.cpus) {
        // Writing to a string does not fail.
        let _ = write!(out, "{entries:08x} ");
        for (at, value) in [
            of.clash_resolve,
            of.found,
            0,
            of.invalid,
            0,
            0,
            of.chain_too_long,
            of.insert,
            of.insert_failed,
            of.drop,
            of.early_drop,
            of.error,
            0,
            0,
            0,
            of.search_restart,
        ]
        .into_iter()
        .enumerate()
        {
            let gap = if at == 12 { " " } else { "" };
            let _ = write!(out, "{gap} {value:08x}");
        }
        out.push('\n');
    }
    Some(out)
}
