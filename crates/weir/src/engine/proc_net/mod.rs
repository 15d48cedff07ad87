// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/proc/net` of a namespace: the files that `route`, `netstat`, `ifconfig`, `arp` and `ip maddr`
//! read, with Linux's columns. Routes, addresses and neighbours come from the dumps that a client
//! would get.
//!
//! All other files fail with ENOENT; the host's are never shown.

mod bonding;
mod conntrack;
mod groups;
mod mroute;
mod snmp;
mod sockets;
mod trie;
mod vlan;

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_intercept::{Errno, Node};
use weir_netlink::{
    Fixed, IfAddrMsg, Message, NdMsg, RtMsg, Table, Writer, af, ifa, messages, nda, nlm, rta, rtm,
};
use weir_stack::connection::{Connection, NoPeer};
use weir_stack::{Namespace, Stack};

/// The file that `tc` reads first. It gives the nanoseconds per tick as iproute2 and the kernel
/// define them: 1000 us in units of 64 ns, clock at 1 GHz.
const PSCHED: &str = "000003e8 00000040 000f4240 3b9aca00\n";

const UDP: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops";
const UDP6: &str = "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops";

/// The source of a file's content.
enum Content {
    /// Constant text.
    Text(&'static str),
    /// The header of an empty table, padded to this width.
    Head(&'static str, usize),
    /// Text formatted from the namespace.
    Made(fn(&Stack, &Arc<Namespace>) -> String),
}

/// The files, sorted.
const FILES: &[(&str, Content)] = &[
    ("anycast6", Content::Text("")),
    ("arp", Content::Made(arp)),
    ("dev", Content::Made(dev)),
    ("dev_mcast", Content::Made(groups::dev_mcast)),
    ("fib_trie", Content::Made(trie::fib_trie)),
    ("fib_triestat", Content::Made(trie::fib_triestat)),
    ("icmp", Content::Made(sockets::icmp)),
    ("icmp6", Content::Made(sockets::icmp6)),
    ("if_inet6", Content::Made(if_inet6)),
    ("igmp", Content::Made(groups::igmp)),
    ("igmp6", Content::Made(groups::igmp6)),
    (
        "ip6_flowlabel",
        Content::Text(
            "Label S Owner  Users  Linger Expires  Dst                              Opt\n",
        ),
    ),
    ("ip6_mr_cache", Content::Made(mroute::cache6)),
    ("ip6_mr_vif", Content::Made(mroute::vifs6)),
    ("ip_mr_cache", Content::Made(mroute::cache4)),
    ("ip_mr_vif", Content::Made(mroute::vifs4)),
    ("ipv6_route", Content::Made(ipv6_route)),
    (
        "mcfilter",
        Content::Text("Idx Device        MCA        SRC    INC    EXC\n"),
    ),
    (
        "mcfilter6",
        Content::Text(
            "Idx Device                Multicast Address                   Source Address    INC    EXC\n",
        ),
    ),
    ("netstat", Content::Made(snmp::netstat)),
    ("nf_conntrack", Content::Made(conntrack::connections)),
    ("nf_conntrack_expect", Content::Text("")),
    ("packet", Content::Made(sockets::packet)),
    ("psched", Content::Text(PSCHED)),
    ("raw", Content::Made(sockets::raw)),
    ("raw6", Content::Made(sockets::raw6)),
    ("route", Content::Made(route)),
    ("snmp", Content::Made(snmp::snmp)),
    ("snmp6", Content::Made(snmp::snmp6)),
    ("sockstat", Content::Made(snmp::sockstat)),
    ("sockstat6", Content::Made(snmp::sockstat6)),
    ("softnet_stat", Content::Made(snmp::softnet_stat)),
    ("tcp", Content::Made(sockets::tcp)),
    ("tcp6", Content::Made(sockets::tcp6)),
    ("udp", Content::Made(sockets::udp)),
    ("udp6", Content::Made(sockets::udp6)),
    ("udplite", Content::Head(UDP, 127)),
    ("udplite6", Content::Head(UDP6, 0)),
    (
        "unix",
        Content::Text("Num       RefCount Protocol Flags    Type St Inode Path\n"),
    ),
];

/// A directory with its content.
struct Folder {
    name: &'static str,
    names: fn(&Namespace) -> Vec<String>,
    read: fn(&Stack, &Arc<Namespace>, &str) -> Option<String>,
}

/// The directories, sorted.
const FOLDERS: &[Folder] = &[
    Folder {
        name: "bonding",
        names: bonding::names,
        read: bonding::read,
    },
    Folder {
        name: "dev_snmp6",
        names: snmp::devices,
        read: snmp::device,
    },
    Folder {
        name: "stat",
        names: conntrack::counters,
        read: conntrack::counter,
    },
    Folder {
        name: "vlan",
        names: vlan::names,
        read: vlan::read,
    },
];

fn folder(name: &str) -> Option<&'static Folder> {
    FOLDERS.iter().find(|folder| folder.name == name)
}

/// Looks up a path.
pub fn lookup(ns: &Namespace, path: &str) -> Option<Node> {
    let file = Node::File(0o444);
    match path.split_once('/') {
        None if path.is_empty() || folder(path).is_some() => Some(Node::Directory),
        None => FILES.iter().any(|(name, _)| *name == path).then_some(file),
        Some((parent, name)) => {
            let names = (folder(parent)?.names)(ns);
            names.iter().any(|other| other == name).then_some(file)
        }
    }
}

/// Lists the names in a directory.
pub fn list(ns: &Namespace, path: &str) -> Option<Vec<String>> {
    if !path.is_empty() {
        return Some((folder(path)?.names)(ns));
    }
    let files = FILES.iter().map(|(name, _)| *name);
    let mut names: Vec<&str> = files.chain(FOLDERS.iter().map(|f| f.name)).collect();
    names.sort_unstable();
    Some(names.into_iter().map(str::to_owned).collect())
}

/// Returns the content of a file, or `None` if it does not exist.
pub fn read(stack: &Stack, ns: &Arc<Namespace>, path: &str) -> Option<String> {
    if let Some((parent, name)) = path.split_once('/') {
        return (folder(parent)?.read)(stack, ns, name);
    }
    let (_, content) = FILES.iter().find(|(file, _)| *file == path)?;
    Some(match content {
        Content::Text(text) => (*text).to_owned(),
        Content::Head(head, width) => format!("{head:width$}\n"),
        Content::Made(make) => make(stack, ns),
    })
}

/// Applies a write of the supervisor for an ioctl. No client may open a file here for writing.
pub fn write(stack: &Stack, ns: &Namespace, path: &str, value: &[u8]) -> Result<(), Errno> {
    match path {
        "dev_mcast" => groups::write(stack, ns, value),
        "vlan/config" => vlan::write(ns, value),
        _ => Err(Errno(libc::EACCES)),
    }
}

/// Calls `see` for each message of a dump, with its attributes up to `max`.
fn dump<T: Fixed + Default>(
    stack: &Stack,
    ns: &Arc<Namespace>,
    ty: u16,
    header: &T,
    max: u16,
    mut see: impl FnMut(&T, &Table<'_>),
) {
    let mut out = Writer::new();
    let message = out.message(ty, nlm::F_REQUEST | nlm::F_DUMP, 1, 0);
    out.fixed(header);
    if out.finish(message).is_err() {
        return;
    }
    let mut connection = Connection::new(stack, ns, 0, Box::new(NoPeer), None);
    connection.request(out.bytes());
    loop {
        while let Some(datagram) = connection.mailbox().take() {
            let all = messages(&datagram).filter(|m: &Message<'_>| m.header.ty >= nlm::MIN_TYPE);
            for message in all {
                if let Ok(header) = message.fixed::<T>() {
                    see(&header, &weir_netlink::index(message.attrs::<T>(), max));
                }
            }
        }
        if !connection.pump() {
            return;
        }
    }
}

fn u32_of(attrs: &Table<'_>, ty: u16) -> u32 {
    attrs.u32(ty).ok().flatten().unwrap_or(0)
}

fn ipv4_of(attrs: &Table<'_>, ty: u16) -> Option<Ipv4Addr> {
    let octets: &[u8; 4] = attrs.get(ty)?.payload.first_chunk()?;
    Some(Ipv4Addr::from(*octets))
}

fn ipv6_of(attrs: &Table<'_>, ty: u16) -> Option<Ipv6Addr> {
    let octets: &[u8; 16] = attrs.get(ty)?.payload.first_chunk()?;
    Some(Ipv6Addr::from(*octets))
}

fn name_of(stack: &Stack, ns: &Namespace, index: u32) -> Option<String> {
    let guard = stack.domain.pin();
    ns.device(index, &guard).map(|device| device.name())
}

/// Returns an IPv4 address as the kernel prints its four bytes in memory.
fn raw(address: Ipv4Addr) -> u32 {
    u32::from_ne_bytes(address.octets())
}

/// Formats an IPv6 address (`%pi6`).
fn hex(address: Ipv6Addr) -> String {
    format!("{:032x}", u128::from(address))
}

/// Formats `/proc/net/dev` (`dev_seq_show`).
fn dev(_: &Stack, ns: &Arc<Namespace>) -> String {
    let mut text = String::from(
        "Inter-|   Receive                                                |  Transmit\n \
         face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n",
    );
    for device in ns.all_devices() {
        let t = device.totals();
        let _ = writeln!(
            text,
            "{:>6}: {:7} {:7} {:4} {:4} {:4} {:5} {:10} {:9} {:8} {:7} {:4} {:4} {:4} {:5} {:7} {:10}",
            device.name(),
            t.rx_bytes,
            t.rx_packets,
            t.rx_errors,
            t.rx_dropped,
            0,
            0,
            0,
            t.multicast,
            t.tx_bytes,
            t.tx_packets,
            t.tx_errors,
            t.tx_dropped,
            0,
            0,
            0,
            0,
        );
    }
    text
}

/// Formats `/proc/net/route` (`fib_route_seq_show`): the main table.
fn route(stack: &Stack, ns: &Arc<Namespace>) -> String {
    let head =
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT";
    let mut text = format!("{head:127}\n");
    let request = RtMsg {
        family: af::INET,
        ..RtMsg::default()
    };
    dump(
        stack,
        ns,
        rtm::GETROUTE,
        &request,
        rta::MAX,
        |route, attrs| {
            let table = attrs.u32(rta::TABLE).ok().flatten();
            if table.unwrap_or(u32::from(route.table)) != rta::table::MAIN
                || matches!(route.ty, rta::rtn::BROADCAST | rta::rtn::MULTICAST)
            {
                return;
            }
            // Only the first of several next hops is shown.
            let hop = attrs.get(rta::MULTIPATH).and_then(|attr| {
                let hop = weir_netlink::RtNextHop::from_bytes(attr.payload)?;
                let len = usize::from(hop.len).min(attr.payload.len());
                let inside = attr.payload.get(weir_netlink::RtNextHop::LEN..len)?;
                let inside = weir_netlink::index(weir_netlink::attrs(inside), rta::MAX);
                Some((hop.ifindex as u32, ipv4_of(&inside, rta::GATEWAY)))
            });
            let (oif, gateway) =
                hop.unwrap_or_else(|| (u32_of(attrs, rta::OIF), ipv4_of(attrs, rta::GATEWAY)));
            let mut flags = 1; // RTF_UP
            if matches!(route.ty, rta::rtn::UNREACHABLE | rta::rtn::PROHIBIT) {
                flags |= 0x200; // RTF_REJECT
            }
            if gateway.is_some() {
                flags |= 2; // RTF_GATEWAY
            }
            if route.dst_len == 32 {
                flags |= 4; // RTF_HOST
            }
            let metrics = attrs.get(rta::METRICS).map(|nest| nest.index(rta::ax::MAX));
            let metric = |ty| metrics.as_ref().map_or(0, |metrics| u32_of(metrics, ty));
            let advmss = metric(rta::ax::ADVMSS);
            let mask = weir_stack::ipv4::address::mask(route.dst_len);
            let line = format!(
                "{}\t{:08X}\t{:08X}\t{:04X}\t{}\t{}\t{}\t{:08X}\t{}\t{}\t{}",
                name_of(stack, ns, oif).unwrap_or_else(|| "*".to_owned()),
                raw(ipv4_of(attrs, rta::DST).unwrap_or(Ipv4Addr::UNSPECIFIED)),
                raw(gateway.unwrap_or(Ipv4Addr::UNSPECIFIED)),
                flags,
                0,
                0,
                u32_of(attrs, rta::PRIORITY),
                raw(Ipv4Addr::from(mask)),
                if advmss == 0 { 0 } else { advmss + 40 },
                metric(rta::ax::WINDOW),
                metric(rta::ax::RTT) >> 3,
            );
            let _ = writeln!(text, "{line:127}");
        },
    );
    text
}

/// Formats `/proc/net/ipv6_route` (`rt6_info_route`): all tables, the main one first. Each table
/// ends with its null entry. Reference counts are 1.
fn ipv6_route(stack: &Stack, ns: &Arc<Namespace>) -> String {
    let mut tables: Vec<(u32, String)> = [rta::table::MAIN, rta::table::LOCAL]
        .map(|table| (table, String::new()))
        .into();
    let request = RtMsg {
        family: af::INET6,
        ..RtMsg::default()
    };
    let line = |text: &mut String, dst: Ipv6Addr, len: u8, gateway, metric, flags, name: &str| {
        let zero = hex(Ipv6Addr::UNSPECIFIED);
        let (dst, gateway) = (hex(dst), hex(gateway));
        let _ = writeln!(
            text,
            "{dst} {len:02x} {zero} 00 {gateway} {metric:08x} 00000001 00000000 {flags:08x} {name:>8}"
        );
    };
    dump(
        stack,
        ns,
        rtm::GETROUTE,
        &request,
        rta::MAX,
        |route, attrs| {
            let table = u32_of(attrs, rta::TABLE);
            let gateway = ipv6_of(attrs, rta::GATEWAY);
            let mut flags: u32 = 1; // RTF_UP
            if gateway.is_some() {
                flags |= 2; // RTF_GATEWAY
            }
            flags |= match route.ty {
                rta::rtn::LOCAL => 0x8020_0000,   // RTF_LOCAL | RTF_NONEXTHOP
                rta::rtn::ANYCAST => 0x0030_0000, // RTF_ANYCAST | RTF_NONEXTHOP
                rta::rtn::BLACKHOLE
                | rta::rtn::UNREACHABLE
                | rta::rtn::PROHIBIT
                | rta::rtn::THROW => {
                    0x0020_0200 // RTF_NONEXTHOP | RTF_REJECT
                }
                _ => 0,
            };
            let name = name_of(stack, ns, u32_of(attrs, rta::OIF)).unwrap_or_default();
            if !tables.iter().any(|(number, _)| *number == table) {
                tables.push((table, String::new()));
            }
            if let Some((_, text)) = tables.iter_mut().find(|(number, _)| *number == table) {
                let dst = ipv6_of(attrs, rta::DST).unwrap_or(Ipv6Addr::UNSPECIFIED);
                line(
                    text,
                    dst,
                    route.dst_len,
                    gateway.unwrap_or(Ipv6Addr::UNSPECIFIED),
                    u32_of(attrs, rta::PRIORITY),
                    flags,
                    &name,
                );
            }
        },
    );
    let mut all = String::new();
    for (_, text) in &tables {
        all.push_str(text);
        let none = Ipv6Addr::UNSPECIFIED;
        line(&mut all, none, 0, none, u32::MAX, 0x0020_0200, "lo");
    }
    all
}

/// Formats `/proc/net/if_inet6` (`if6_seq_show`).
fn if_inet6(stack: &Stack, ns: &Arc<Namespace>) -> String {
    let mut text = String::new();
    let request = IfAddrMsg {
        family: af::INET6,
        ..IfAddrMsg::default()
    };
    dump(
        stack,
        ns,
        rtm::GETADDR,
        &request,
        ifa::MAX,
        |header, attrs| {
            let address = ipv6_of(attrs, ifa::LOCAL).or_else(|| ipv6_of(attrs, ifa::ADDRESS));
            let scope = match header.scope {
                rta::scope::HOST => 0x10,
                rta::scope::LINK => 0x20,
                rta::scope::SITE => 0x40,
                _ => 0,
            };
            let _ = writeln!(
                text,
                "{} {:02x} {:02x} {:02x} {:02x} {:>8}",
                hex(address.unwrap_or(Ipv6Addr::UNSPECIFIED)),
                header.index,
                header.prefixlen,
                scope,
                u32_of(attrs, ifa::FLAGS) as u8,
                name_of(stack, ns, header.index).unwrap_or_default(),
            );
        },
    );
    text
}

/// Formats `/proc/net/arp` (`arp_seq_show`).
fn arp(stack: &Stack, ns: &Arc<Namespace>) -> String {
    use weir_netlink::nda::nud;
    const VALID: u16 =
        nud::PERMANENT | nud::NOARP | nud::REACHABLE | nud::PROBE | nud::STALE | nud::DELAY;
    let mut text = String::from(
        "IP address       HW type     Flags       HW address            Mask     Device\n",
    );
    let request = NdMsg {
        family: af::INET,
        ..NdMsg::default()
    };
    dump(
        stack,
        ns,
        rtm::GETNEIGH,
        &request,
        nda::MAX,
        |header, attrs| {
            if header.state & nud::NOARP != 0 || header.state == nud::NONE {
                return;
            }
            // ATF_PERM, ATF_COM
            let flags = if header.state & nud::PERMANENT != 0 {
                6
            } else if header.state & VALID != 0 {
                2
            } else {
                0
            };
            let mac = attrs
                .get(nda::LLADDR)
                .and_then(|attr| attr.payload.first_chunk::<6>().copied())
                .unwrap_or_default()
                .map(|octet| format!("{octet:02x}"))
                .join(":");
            let _ = writeln!(
                text,
                "{:<16} 0x{:<10x}0x{flags:<10x}{mac:<17}     *        {}",
                ipv4_of(attrs, nda::DST)
                    .unwrap_or(Ipv4Addr::UNSPECIFIED)
                    .to_string(),
                1,
                name_of(stack, ns, header.ifindex as u32).unwrap_or_default(),
            );
        },
    );
    text
}
