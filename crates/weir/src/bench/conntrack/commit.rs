// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ct commit` on a packet's path, and nf_conntrack of Linux 6.1 in User-Mode Linux beside it.
//!
//! Each side sends one packet of each flow, which makes its connection, and then more packets of the same flows in the
//! same order. It does so over a filter with `ct commit`, and over one with an action that only passes. The figures are
//! the differences, so that what a packet costs without connection tracking counts for neither side: in User-Mode Linux
//! these are slow system calls. Both sides count their connections, and fail if not every flow has got its own.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::io::IoSlice;
use rustix::net::{
    AddressFamily, MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, SocketFlags, SocketType,
    ipproto, sendmmsg, socket_with,
};
use weir_packet::header::ipv4::ipv4;
use weir_packet::header::transport::udp;
use weir_stack::Stack;

use super::super::path::play;
use super::super::uml::{self, PEER};
use super::{Row, Scale, Series, UDP, Work, row, set_up};

/// The packets of a call of `sendmmsg`.
const BATCH: u32 = 64;

/// Nanoseconds a packet.
struct Costs {
    /// What `ct commit` adds to the first packet of a flow.
    new: f64,
    /// What it adds to a later one.
    known: f64,
}

/// Adds the rows.
pub fn measure(scale: &Scale, rows: &mut Vec<Row>) -> Result<(), String> {
    let named = |what: &str| format!("{what}, {} flows of UDP, one CPU", scale.commits);
    let mut new = row(
        "commit-new",
        named("new connections by ct commit on the path, without the path"),
        "k/s",
        None,
    );
    new.higher_is_better = true;
    let mut known = row(
        "commit-known",
        named("ct commit of a known connection's packet: what it adds"),
        "ns",
        None,
    );
    for run in 0..scale.runs {
        eprint!("\rcommit, run {}          ", run + 1);
        let costs = weir(scale)?;
        new.weir.0.push(1e6 / costs.new);
        known.weir.0.push(costs.known);
    }
    eprint!("\rLinux             ");
    match linux(scale) {
        Ok(all) => {
            for costs in all {
                let peer = |row: &mut Row, figure| {
                    row.peers.entry(PEER.into()).or_default().0.push(figure);
                };
                peer(&mut new, 1e6 / costs.new);
                peer(&mut known, costs.known);
            }
            let note = "each side's time of the same packets with an action that only passes is subtracted: \
                        on Linux, the system call, the raw socket, the route and the dummy device";
            new.note = note.into();
            known.note = note.into();
        }
        Err(why) => {
            known.note.clone_from(&why);
            new.note = why;
        }
    }
    rows.extend([new, known]);
    Ok(())
}

/// Measures Weir once.
fn weir(scale: &Scale) -> Result<Costs, String> {
    let mut beds = [
        set_up(Work::Commit, scale.commits)?,
        set_up(Work::Pass, scale.commits)?,
    ];
    let mut both = |rounds| -> Result<f64, String> {
        let [with, without] = &mut beds;
        let (with, without) = (play(with, rounds)?, play(without, rounds)?);
        Ok(with - without)
    };
    let new = both(1)?;
    let known = both(scale.commit_rounds)?;
    let ns = (beds[0].stack.namespace(Stack::INITIAL)).ok_or("the stack has no namespace")?;
    let count = ns.tc.conntrack_if_used().map_or(0, |table| table.count());
    if count != scale.commits {
        return Err(format!("{count} connections of {} flows", scale.commits));
    }
    Ok(Costs { new, known })
}

/// Measures nf_conntrack, in one boot, in a new network namespace for each run. The namespace of the first run touches the
/// memory that the others use, so its figures are left out. Each has as many buckets as Linux has by default on a
/// machine with more than 4 GiB of memory.
fn linux(scale: &Scale) -> Result<Vec<Costs>, String> {
    let script = format!(
        "load nf_conntrack act_ct act_gact cls_matchall sch_ingress dummy\n\
         echo 262144 >/sys/module/nf_conntrack/parameters/hashsize\n\
         echo 1000000 >/proc/sys/net/netfilter/nf_conntrack_max\n\
         inside='set -e; for n in 0 1; do ip link add c$n type dummy; ip link set c$n up; \
         ip addr add 10.98.$n.1/24 dev c$n; tc qdisc add dev c$n clsact; done; \
         tc filter add dev c0 egress protocol ip matchall action ok; \
         tc filter add dev c1 egress protocol ip matchall action ct commit; \
         echo 600 >/proc/sys/net/netfilter/nf_conntrack_udp_timeout; \
         \"$weir\" bench conntrack --part linux:{}:{}'\n\
         export weir; for run in $(seq 0 {}); do unshare -n bash -c \"$inside\"; done",
        scale.commits, scale.commit_rounds, scale.runs,
    );
    let figures = uml::boot(&script, 120)?;
    let runs = figures.get(1..).unwrap_or_default();
    let costs = |figures: &Vec<f64>| match figures[..] {
        [new, known] => Ok(Costs { new, known }),
        _ => Err(format!("Linux 6.1 left out: not two figures: {figures:?}")),
    };
    match runs.len() == scale.runs {
        true => runs.iter().map(costs).collect(),
        false => Err(format!("Linux 6.1 left out: {} runs", runs.len())),
    }
}

/// Runs the part inside: `FLOWS:ROUNDS`. Packets to 10.98.1.0/24 pass `ct commit`, those to 10.98.0.0/24 do not.
pub fn here(what: &str) -> Result<String, String> {
    let wrong = || format!("linux:{what} is not linux:FLOWS:ROUNDS");
    let (flows, rounds) = what.split_once(':').ok_or_else(wrong)?;
    let flows: u32 = flows.parse().map_err(|_| wrong())?;
    let rounds: u32 = rounds.parse().map_err(|_| wrong())?;
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(ipproto::RAW),
    );
    let socket = socket.map_err(|error| format!("cannot open a raw socket: {error}"))?;
    let mut packets = [Packets::new([10, 98, 0, 2]), Packets::new([10, 98, 1, 2])];
    // Other work of the machine disturbs few of so many batches, so it does not count.
    let mut more = || -> Result<Series, String> {
        let mut batches = Series::default();
        for first in (0..flows).step_by(BATCH as usize) {
            let count = BATCH.min(flows - first);
            let [plain, tracked] = &mut packets;
            let plain = plain.send(&socket, first, count)?;
            let tracked = tracked.send(&socket, first, count)?;
            batches.0.push((tracked - plain) / f64::from(count));
        }
        Ok(batches)
    };
    expect(0)?;
    let new = more()?;
    expect(flows)?;
    let mut known = Series::default();
    for _ in 0..rounds {
        known.0.extend(more()?.0);
    }
    expect(flows)?;
    Ok(format!("figures {} {}\n", new.median(), known.median()))
}

/// Checks how many connections the kernel has in this network namespace.
fn expect(flows: u32) -> Result<(), String> {
    let path = "/proc/sys/net/netfilter/nf_conntrack_count";
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    match text.trim().parse::<u32>() {
        Ok(count) if flows == count => Ok(()),
        _ => Err(format!("{} connections of {flows} flows", text.trim())),
    }
}

/// The packets of a batch to an address.
struct Packets {
    to: SocketAddrAny,
    packets: Vec<Vec<u8>>,
}

impl Packets {
    fn new(to: [u8; 4]) -> Self {
        let packet = || {
            let mut packet = ipv4([0; 4], to, UDP, 64, 0, 1, 0, 26).to_vec();
            packet.extend(udp(2000, 53, 18));
            packet.resize(46, 0x55);
            packet
        };
        Self {
            to: SocketAddrAny::from(SocketAddrV4::new(Ipv4Addr::from(to), 0)),
            packets: (0..BATCH).map(|_| packet()).collect(),
        }
    }

    /// Sends a packet of each of `count` flows, and returns the nanoseconds of the system call.
    fn send(&mut self, socket: &OwnedFd, first: u32, count: u32) -> Result<f64, String> {
        // The kernel writes the checksum of the header.
        for (packet, flow) in self.packets.iter_mut().zip(first..) {
            if let Some(source) = packet.get_mut(12..16) {
                source.copy_from_slice(&(0x0b00_0000 | flow).to_be_bytes());
            }
        }
        let count = count as usize;
        let packets = self.packets.iter().take(count);
        let parts: Vec<_> = packets.map(|packet| [IoSlice::new(packet)]).collect();
        let mut control: Vec<_> = (0..count).map(|_| SendAncillaryBuffer::default()).collect();
        let mut messages: Vec<MMsgHdr<'_>> = (parts.iter().zip(&mut control))
            .map(|(parts, control)| MMsgHdr::new_with_addr(&self.to, parts, control))
            .collect();
        let start = Instant::now();
        match sendmmsg(socket, &mut messages, SendFlags::empty()) {
            Ok(sent) if sent == count => Ok(start.elapsed().as_nanos() as f64),
            Ok(sent) => Err(format!("{sent} packets of {count} were sent")),
            Err(error) => Err(format!("sendmmsg: {error}")),
        }
    }
}
