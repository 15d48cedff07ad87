// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/proc/sys/net` of a namespace: names, reads, writes.
//!
//! A path is relative to `/proc/sys/net`, without a leading slash. Paths of slots ([`super::Ipv4`],
//! ...) read and write the values that affect the datapath. The other names, listed in `names.tsv`,
//! are accepted and stored; they are Linux's names, with `*` for a device, `all` or `default`.
//! Everything else is ENOENT. Mirrors `net/ipv4/sysctl_net_ipv4.c`, `devinet.c`, `addrconf.c`,
//! `neighbour.c` and `net/sysctl_net.c`.
//!
//! Names that are only stored accept values of the same form as their default: the same number of
//! integers, or any single line of text. Not implemented: their ranges, except that of
//! `ip_local_port_range`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use weir_netlink::errno;
use weir_sync::order::{self, MutexGuard};

use super::{Conf, Core, HasIp, Ipv4, Ipv4Conf, Ipv6, Ipv6Conf, Neigh, Slot, Target, WithSettings};
use super::{fragments, mpls, netfilter, ports};
use crate::device::Device;
use crate::fib::host::WithRoutes;
use crate::ipv6::WithIpv6;
use crate::link::vrf;
use crate::namespace::Namespace;
use crate::stack::Stack;

/// `net.core.default_qdisc`
pub const DEFAULT_QDISC: &str = "core/default_qdisc";

/// `net.vrf.strict_mode`
const VRF_STRICT: &str = "vrf/strict_mode";

/// The files of `net.core` that each namespace has (`netns_core_table`, `xfrm_table`). The others exist
/// once, in the initial namespace.
const CORE_OF_EACH: [&str; 6] = [
    "core/somaxconn",
    "core/txrehash",
    "core/xfrm_acq_expires",
    "core/xfrm_aevent_etime",
    "core/xfrm_aevent_rseqth",
    "core/xfrm_larval_drop",
];

/// Returns whether a file exists once, in the initial namespace.
fn is_global(path: &str) -> bool {
    path.starts_with("core/") && !CORE_OF_EACH.contains(&path) || netfilter::is_global(path)
}

/// Returns whether a namespace shows a file.
fn is_shown(ns: &Namespace, path: &str) -> bool {
    ns.id == Stack::INITIAL || !is_global(path)
}

/// Returns the stored values among which that of a file is.
fn stored<'a>(
    ns: &'a Namespace,
    path: &str,
) -> MutexGuard<'a, BTreeMap<String, String>, order::Kept> {
    match is_global(path) {
        true => ns.global.kept.lock(),
        false => ns.kept.lock(),
    }
}

/// The names that are only stored: path, TAB, default.
static NAMES: &str = include_str!("names.tsv");

/// The kind of node at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// A directory.
    Directory,
    /// A readable file. It is writable if `true`.
    File(bool),
    /// A write-only file that triggers an action.
    Trigger,
}

/// The names of neighbour settings, as (name, slot, milliseconds per unit of the name, or 0 if it
/// is not a time).
const NEIGH_NAMES: &[(&str, Neigh, i32)] = &[
    ("anycast_delay", Neigh::AnycastDelay, 10),
    ("app_solicit", Neigh::AppSolicit, 0),
    ("base_reachable_time", Neigh::BaseReachableTime, 1000),
    ("base_reachable_time_ms", Neigh::BaseReachableTime, 1),
    ("delay_first_probe_time", Neigh::DelayFirstProbeTime, 1000),
    ("gc_stale_time", Neigh::GcStaleTime, 1000),
    ("interval_probe_time_ms", Neigh::IntervalProbeTime, 1),
    ("locktime", Neigh::Locktime, 10),
    ("mcast_resolicit", Neigh::McastResolicit, 0),
    ("mcast_solicit", Neigh::McastSolicit, 0),
    ("proxy_delay", Neigh::ProxyDelay, 10),
    ("proxy_qlen", Neigh::ProxyQlen, 0),
    ("retrans_time", Neigh::RetransTime, 10),
    ("retrans_time_ms", Neigh::RetransTime, 1),
    ("ucast_solicit", Neigh::UcastSolicit, 0),
    ("unres_qlen_bytes", Neigh::UnresQlenBytes, 0),
];

/// The number of bytes that one packet counts for in `unres_qlen` (`SKB_TRUESIZE(ETH_FRAME_LEN)`).
pub const UNRES_PACKET: i32 = 2090;

/// The minimum and maximum values, where Linux has them.
const RANGES: &[(&str, i32, i32)] = &[
    ("core/qdisc_max_burst", 0, i32::MAX),
    ("core/devconf_inherit_init_net", 0, 3),
    ("ipv4/ip_default_ttl", 1, 255),
    ("ipv4/tcp_l3mdev_accept", 0, 1),
    ("ipv4/udp_l3mdev_accept", 0, 1),
    ("ipv4/raw_l3mdev_accept", 0, 1),
    (VRF_STRICT, 0, 1),
    ("ipv4/fib_multipath_hash_policy", 0, 3),
    ("ipv6/fib_multipath_hash_policy", 0, 3),
    ("ipv4/fib_multipath_hash_fields", 1, 0x3ff),
    ("ipv6/fib_multipath_hash_fields", 1, 0x3ff),
    ("ipv4/fib_multipath_use_neigh", 0, 1),
    ("ipv4/nexthop_compat_mode", 0, 1),
    ("ipv4/ip_forward_update_priority", 0, 1),
    ("ipv4/icmp_msgs_per_sec", 0, i32::MAX),
    ("ipv4/icmp_msgs_burst", 0, i32::MAX),
    ("ipv4/ipfrag_max_dist", 0, i32::MAX),
    ("ipv6/bindv6only", 0, 1),
    ("ipv6/auto_flowlabels", 0, 3),
];

/// Files that forget the exceptions of routes when written (`ip route flush cache`).
const FLUSH: [&str; 2] = ["ipv4/route/flush", "ipv6/route/flush"];

/// The values that all namespaces of a stack share. Linux has them in the initial namespace only.
const MAX_BACKLOG: &str = "core/netdev_max_backlog";
const SOCK_FLOW_ENTRIES: &str = "core/rps_sock_flow_entries";
const FLOW_LIMIT_CPUS: &str = "core/flow_limit_cpu_bitmap";
const FLOW_LIMIT_LEN: &str = "core/flow_limit_table_len";

/// The location of a value.
enum Place {
    /// `net.core.*`
    Core(Core),
    /// `net.ipv4.*`
    Ipv4(Ipv4),
    /// `net.ipv6.*`
    Ipv6(Ipv6),
    /// `net.ipv4.conf.*`
    Ipv4Conf(Whose, Ipv4Conf),
    /// `net.ipv6.conf.*`
    Ipv6Conf(Whose, Ipv6Conf),
    /// `net.ipv{4,6}.neigh.*`: whether it is IPv6, the owner, the slot, the unit.
    Neigh(bool, Whose, Neigh, i32),
    /// `unres_qlen` of either family.
    UnresQlen(bool, Whose),
    /// `net.core.netdev_max_backlog` of the stack.
    MaxBacklog,
    /// `net.core.rps_sock_flow_entries` of the stack.
    SockFlowEntries,
    /// `net.core.flow_limit_cpu_bitmap` of the stack.
    FlowLimitCpus,
    /// `net.core.flow_limit_table_len` of the stack.
    FlowLimitLen,
    /// A setting or counter of connections.
    Netfilter(netfilter::File),
    /// A limit of fragments that wait.
    Fragments(fragments::File),
    /// A setting of MPLS.
    Mpls(mpls::File),
    /// `net.vrf.strict_mode`
    VrfStrict,
    /// `net.ipv6.conf.*.stable_secret`
    StableSecret(Whose),
    /// A stored name, with its default.
    Kept(&'static str),
}

/// The owner of a per-device value.
enum Whose {
    All,
    Default,
    Device(std::sync::Arc<Device>),
}

fn slot<S: Slot>(all: &[(S, &str, i32)], name: &str) -> Option<S> {
    all.iter()
        .find(|(_, path, _)| *path == name)
        .map(|(slot, _, _)| *slot)
}

/// Returns the owner of the per-device directory `name` in a family.
fn whose(ns: &Namespace, family: &str, name: &str) -> Option<Whose> {
    match name {
        "all" => Some(Whose::All),
        "default" => Some(Whose::Default),
        // A dot in a device's name is a slash in sysctl's notation, and is unchanged in the path.
        device => ns
            .device_by_name(device)
            .filter(|d| d.name() == device && d.has_ip(family == "ipv6"))
            .map(Whose::Device),
    }
}

fn place(ns: &Namespace, path: &str) -> Option<Place> {
    if !is_shown(ns, path) {
        return None;
    }
    match path {
        "ipv4/ip_forward" => return Some(Place::Ipv4Conf(Whose::All, Ipv4Conf::Forwarding)),
        MAX_BACKLOG => return Some(Place::MaxBacklog),
        SOCK_FLOW_ENTRIES => return Some(Place::SockFlowEntries),
        FLOW_LIMIT_CPUS => return Some(Place::FlowLimitCpus),
        FLOW_LIMIT_LEN => return Some(Place::FlowLimitLen),
        VRF_STRICT => return Some(Place::VrfStrict),
        _ => {}
    }
    if let Some(file) = netfilter::file(path) {
        return Some(Place::Netfilter(file));
    }
    if let Some(file) = fragments::file(path) {
        return Some(Place::Fragments(file));
    }
    if let Some(file) = mpls::file(ns, path) {
        return Some(Place::Mpls(file));
    }
    let parts: Vec<&str> = path.split('/').collect();
    let found = match parts[..] {
        ["ipv4", "conf", who, name] => {
            slot(Ipv4Conf::ALL, name).map(|s| whose(ns, "ipv4", who).map(|w| Place::Ipv4Conf(w, s)))
        }
        ["ipv6", "conf", who, "stable_secret"] => {
            Some(whose(ns, "ipv6", who).map(Place::StableSecret))
        }
        ["ipv6", "conf", who, name] => {
            slot(Ipv6Conf::ALL, name).map(|s| whose(ns, "ipv6", who).map(|w| Place::Ipv6Conf(w, s)))
        }
        [family @ ("ipv4" | "ipv6"), "neigh", who, name] => {
            let six = family == "ipv6";
            let owner = || whose(ns, family, who).filter(|who| !matches!(who, Whose::All));
            if name == "unres_qlen" {
                Some(owner().map(|who| Place::UnresQlen(six, who)))
            } else {
                let named = NEIGH_NAMES.iter().find(|(n, _, _)| *n == name);
                named.map(|(_, slot, unit)| owner().map(|who| Place::Neigh(six, who, *slot, *unit)))
            }
        }
        _ => None,
    };
    if let Some(found) = found {
        return found;
    }
    if let Some(name) = path.strip_prefix("core/")
        && let Some(slot) = slot(Core::ALL, name)
    {
        return Some(Place::Core(slot));
    }
    if let Some(name) = path.strip_prefix("ipv4/")
        && let Some(slot) = slot(Ipv4::ALL, name)
    {
        return Some(Place::Ipv4(slot));
    }
    if let Some(name) = path.strip_prefix("ipv6/")
        && let Some(slot) = slot(Ipv6::ALL, name)
    {
        return Some(Place::Ipv6(slot));
    }
    kept(ns, path).map(Place::Kept)
}

/// Returns the default of a name that is only stored.
fn kept(ns: &Namespace, path: &str) -> Option<&'static str> {
    let pattern = match path.split('/').collect::<Vec<_>>()[..] {
        [family, "conf", who, name] => {
            whose(ns, family, who)?;
            format!("{family}/conf/*/{name}")
        }
        _ => path.to_owned(),
    };
    names()
        .find(|(name, _)| *name == pattern)
        .map(|(_, default)| default)
}

fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    NAMES
        .lines()
        .map(|line| line.split_once('\t').unwrap_or((line, "")))
}

/// All paths, with `*` for a device, sorted.
static PATTERNS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut all: Vec<String> = patterns().collect();
    all.sort_unstable();
    all
});

fn patterns() -> impl Iterator<Item = String> {
    let conf4 = Ipv4Conf::ALL
        .iter()
        .map(|(_, name, _)| format!("ipv4/conf/*/{name}"));
    let conf6 = Ipv6Conf::ALL
        .iter()
        .map(|(_, name, _)| format!("ipv6/conf/*/{name}"));
    let core = Core::ALL.iter().map(|(_, name, _)| format!("core/{name}"));
    let ipv4 = Ipv4::ALL.iter().map(|(_, name, _)| format!("ipv4/{name}"));
    let ipv6 = Ipv6::ALL.iter().map(|(_, name, _)| format!("ipv6/{name}"));
    let neigh = ["ipv4", "ipv6"].into_iter().flat_map(|family| {
        let times = NEIGH_NAMES
            .iter()
            .map(|(name, _, _)| *name)
            .chain(["unres_qlen"]);
        times.map(move |name| format!("{family}/neigh/*/{name}"))
    });
    names()
        .map(|(name, _)| name.to_owned())
        .chain(
            [
                "ipv4/ip_forward",
                MAX_BACKLOG,
                SOCK_FLOW_ENTRIES,
                FLOW_LIMIT_CPUS,
                FLOW_LIMIT_LEN,
                VRF_STRICT,
                "ipv6/conf/*/stable_secret",
            ]
            .map(str::to_owned),
        )
        .chain(FLUSH.map(str::to_owned))
        .chain(netfilter::paths())
        .chain(fragments::paths())
        .chain(mpls::paths())
        .chain(conf4)
        .chain(conf6)
        .chain(core)
        .chain(ipv4)
        .chain(ipv6)
        .chain(neigh)
}

/// Returns the rest of a pattern below the directory `path`, or `None` if it is not below it. A
/// device in the path matches `*`.
fn below<'p>(pattern: &'p str, path: &str) -> Option<&'p str> {
    let mut rest = pattern;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let (first, after) = rest.split_once('/')?;
        if first != part && first != "*" {
            return None;
        }
        rest = after;
    }
    Some(rest)
}

/// Returns whether nobody may write a value: lists of what is available, and the counts of multicast routers.
fn is_read_only(path: &str) -> bool {
    path.contains("available") || path.ends_with("/mc_forwarding")
}

/// Returns the kind of node at `path`.
pub fn lookup(ns: &Namespace, path: &str) -> Option<Node> {
    if FLUSH.contains(&path) {
        return Some(Node::Trigger);
    }
    match place(ns, path) {
        Some(Place::Netfilter(file)) => {
            return Some(Node::File(netfilter::is_writable(ns, file)));
        }
        Some(_) => return Some(Node::File(!is_read_only(path))),
        None => {}
    }
    is_directory(ns, path).then_some(Node::Directory)
}

fn is_directory(ns: &Namespace, path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if let ["mpls", "conf", who] = parts[..] {
        return mpls::device(ns, who).is_some();
    }
    if let [family, "conf" | "neigh", who] = parts[..]
        && whose(ns, family, who).is_none()
    {
        return false;
    }
    PATTERNS
        .iter()
        .any(|pattern| below(pattern, path).is_some())
}

/// Returns the names in a directory, sorted.
pub fn list(ns: &Namespace, path: &str) -> Option<Vec<String>> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if !is_directory(ns, path) {
        return None;
    }
    let mut found = BTreeSet::new();
    for pattern in PATTERNS.iter().filter(|pattern| is_shown(ns, pattern)) {
        let Some(rest) = below(pattern, path) else {
            continue;
        };
        let name = rest.split('/').next().unwrap_or(rest);
        if parts.is_empty() && name == mpls::FOLDER && !mpls::is_used(ns) {
            continue;
        }
        if name == "*" && parts.first() == Some(&"mpls") {
            found.extend(ns.all_devices().iter().map(|device| device.name()));
        } else if name == "*" {
            found.insert("default".to_owned());
            if parts.last() == Some(&"conf") {
                found.insert("all".to_owned());
            }
            let family = parts.first().copied().unwrap_or_default();
            let devices = ns.all_devices();
            let devices = devices
                .iter()
                .filter(|device| device.has_ip(family == "ipv6"));
            found.extend(devices.map(|device| device.name()));
        } else {
            found.insert(name.to_owned());
        }
    }
    (!found.is_empty()).then(|| found.into_iter().collect())
}

/// Returns the settings of a device or of `default`.
fn neigh_conf<'a>(ns: &'a Namespace, six: bool, whose: &'a Whose) -> &'a Conf<Neigh> {
    match (whose, six) {
        (Whose::Device(device), false) => &device.conf().neigh4,
        (Whose::Device(device), true) => &device.conf().neigh6,
        (_, false) => &ns.conf().default.neigh4,
        (_, true) => &ns.conf().default.neigh6,
    }
}

fn ipv4_conf<'a>(ns: &'a Namespace, whose: &'a Whose) -> &'a Conf<Ipv4Conf> {
    match whose {
        Whose::All => &ns.conf().all.ipv4,
        Whose::Default => &ns.conf().default.ipv4,
        Whose::Device(device) => &device.conf().ipv4,
    }
}

fn ipv6_conf<'a>(ns: &'a Namespace, whose: &'a Whose) -> &'a Conf<Ipv6Conf> {
    match whose {
        Whose::All => &ns.conf().all.ipv6,
        Whose::Default => &ns.conf().default.ipv6,
        Whose::Device(device) => &device.conf().ipv6,
    }
}

/// Reads a value, including its newline. The error is an errno.
pub fn read(ns: &Namespace, path: &str) -> Result<String, i32> {
    if FLUSH.contains(&path) {
        return Err(errno::EINVAL);
    }
    let value = match place(ns, path).ok_or(errno::ENOENT)? {
        Place::Core(slot) => ns.global.core.get(slot).to_string(),
        Place::MaxBacklog => ns.softnet.max_backlog().to_string(),
        Place::SockFlowEntries => ns.softnet.sock_flow_entries().to_string(),
        Place::FlowLimitCpus => bitmap(&ns.softnet.limited(), ns.softnet.cpus().count()),
        Place::FlowLimitLen => ns.softnet.limit_len().to_string(),
        Place::VrfStrict => u8::from(vrf::is_strict(ns)).to_string(),
        Place::Ipv4(slot) => ns.conf().ipv4.get(slot).to_string(),
        Place::Ipv6(slot) => ns.conf().ipv6.get(slot).to_string(),
        Place::Ipv4Conf(whose, slot) => ipv4_conf(ns, &whose).get(slot).to_string(),
        Place::Ipv6Conf(whose, slot) => ipv6_conf(ns, &whose).get(slot).to_string(),
        Place::Neigh(six, whose, slot, unit) => {
            (neigh_conf(ns, six, &whose).get(slot) / unit.max(1)).to_string()
        }
        Place::UnresQlen(six, whose) => {
            (neigh_conf(ns, six, &whose).get(Neigh::UnresQlenBytes) / UNRES_PACKET).to_string()
        }
        Place::Netfilter(file) => netfilter::read(ns, file).to_string(),
        Place::Fragments(file) => fragments::read(ns, file).to_string(),
        Place::Mpls(file) => mpls::read(ns, &file).to_string(),
        Place::StableSecret(whose) => {
            let secret = match &whose {
                Whose::All => None,
                Whose::Default => *ns.ipv6().secret.lock(),
                Whose::Device(device) => device.ipv6().secret(),
            };
            let words = secret.ok_or(errno::EIO)?.segments();
            words.map(|word| format!("{word:04x}")).join(":")
        }
        Place::Kept(default) => {
            let kept = stored(ns, path);
            let value = kept.get(path).map_or(default, String::as_str);
            match numbers(default) {
                // Separate them as `proc_dointvec` does.
                Some(_) => value
                    .split_ascii_whitespace()
                    .collect::<Vec<_>>()
                    .join("\t"),
                None => value.to_owned(),
            }
        }
    };
    Ok(value + "\n")
}

/// Forgets the exceptions of a family's routes (`ipv4_sysctl_rtcache_flush`, `ipv6_sysctl_rtcache_flush`). Those of IPv6
/// that may have been idle for a number of ticks are forgotten, with 0 none.
fn flush(ns: &Namespace, path: &str, value: &[u8]) -> Result<(), i32> {
    if path == FLUSH[0] {
        ns.fib().v4.remove_exceptions(|_| true);
        return Ok(());
    }
    let text = std::str::from_utf8(value).map_err(|_| errno::EINVAL)?;
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\0');
    let ticks: i32 = text.parse().map_err(|_| errno::EINVAL)?;
    ns.fib().v6.remove_exceptions(|_| ticks > 0);
    Ok(())
}

/// Writes a value as `write(2)` to the file would. The error is an errno.
pub fn write(stack: &Stack, ns: &Namespace, path: &str, value: &[u8]) -> Result<(), i32> {
    if FLUSH.contains(&path) {
        return flush(ns, path, value);
    }
    let place = place(ns, path).ok_or(errno::ENOENT)?;
    if is_read_only(path) {
        return Err(errno::EACCES);
    }
    let text = std::str::from_utf8(value)
        .map_err(|_| errno::EINVAL)?
        .trim_matches(|c: char| c.is_ascii_whitespace() || c == '\0');
    let number = || {
        let number = integer(text).and_then(|number| i32::try_from(number).ok());
        let number = number.ok_or(errno::EINVAL)?;
        match RANGES.iter().find(|(name, _, _)| *name == path) {
            Some((_, min, max)) if number < *min || number > *max => Err(errno::EINVAL),
            _ => Ok(number),
        }
    };
    match place {
        Place::Core(slot) => ns.global.core.set(slot, number()?),
        Place::MaxBacklog => ns.softnet.set_max_backlog(number()?),
        Place::SockFlowEntries => {
            // As in Linux, a negative number is too large.
            let entries = number()? as u32;
            let set = ns.softnet.set_sock_flow_entries(entries);
            set.map_err(|error| error.errno)?;
        }
        Place::FlowLimitCpus => ns.softnet.set_limited(&of_bitmap(text)?),
        Place::VrfStrict => {
            let set = vrf::set_strict(ns, number()? != 0);
            set.map_err(|error| error.errno)?;
        }
        Place::FlowLimitLen => {
            let set = ns.softnet.set_limit_len(number()? as u32);
            set.map_err(|error| error.errno)?;
        }
        Place::Ipv4(slot) => ns.conf().ipv4.set(slot, number()?),
        Place::Ipv6(slot) => ns.conf().ipv6.set(slot, number()?),
        Place::Ipv4Conf(whose, slot) => {
            crate::ipv4::set_conf(stack, ns, target(whose), slot, number()?)
        }
        Place::Ipv6Conf(whose, slot) => {
            let value = number()?;
            let device = match &whose {
                Whose::Device(device) => Some(&**device),
                _ => None,
            };
            if slot == Ipv6Conf::AddrGenMode && !crate::ipv6::is_mode(ns, device, value) {
                return Err(errno::EINVAL);
            }
            crate::ipv6::set_conf(stack, ns, target(whose), slot, value)
        }
        Place::StableSecret(whose) => {
            let device = match &whose {
                Whose::All => return Err(errno::EIO),
                Whose::Default => None,
                Whose::Device(device) => Some(&**device),
            };
            let secret = text.parse().map_err(|_| errno::EIO)?;
            crate::ipv6::set_secret(ns, device, secret);
        }
        Place::Neigh(six, whose, slot, unit) => {
            let number = number()?;
            if number < 0 {
                return Err(errno::EINVAL);
            }
            neigh_conf(ns, six, &whose).set(slot, number.saturating_mul(unit.max(1)));
        }
        Place::UnresQlen(six, whose) => {
            let number = number()?;
            if !(0..=i32::MAX / UNRES_PACKET).contains(&number) {
                return Err(errno::EINVAL);
            }
            neigh_conf(ns, six, &whose).set(Neigh::UnresQlenBytes, number * UNRES_PACKET);
        }
        Place::Netfilter(file) => netfilter::write(stack, ns, file, number()?)?,
        Place::Fragments(file) => fragments::write(ns, file, text)?,
        Place::Mpls(file) => mpls::write(stack, ns, &file, number()?)?,
        Place::Kept(_) if path == ports::RESERVED => {
            let value = ports::normalized(text).ok_or(errno::EINVAL)?;
            stored(ns, path).insert(path.to_owned(), value);
        }
        Place::Kept(_) if path == ports::FIRST_UNPRIVILEGED => {
            let value = number()?;
            let (low, _) = ns.local_ports();
            if !(0..=i32::from(u16::MAX)).contains(&value) || value > i32::from(low) {
                return Err(errno::EINVAL);
            }
            stored(ns, path).insert(path.to_owned(), value.to_string());
        }
        Place::Kept(default) => {
            if RANGES.iter().any(|(name, ..)| *name == path) {
                number()?;
            }
            let first = read(ns, ports::FIRST_UNPRIVILEGED);
            let first = first.ok().and_then(|text| text.trim().parse().ok());
            let first: i64 = first.unwrap_or_default();
            let mut kept = stored(ns, path);
            let value = match numbers(default) {
                Some(_) => {
                    let before = kept.get(path).map_or(default, String::as_str);
                    let mut values = numbers(before).unwrap_or_default();
                    let given = numbers(text).ok_or(errno::EINVAL)?;
                    if given.is_empty() {
                        return Err(errno::EINVAL);
                    }
                    // Too few values change only the first ones; excess values are ignored
                    // (`do_proc_dointvec`).
                    for (value, given) in values.iter_mut().zip(given) {
                        *value = given;
                    }
                    if path == "ipv4/ip_local_port_range" {
                        match values[..] {
                            [low, high] if first.max(1) <= low && low <= high && high <= 65_535 => {
                                ns.set_local_ports(low as u16, high as u16);
                            }
                            _ => return Err(errno::EINVAL),
                        }
                    }
                    let values: Vec<_> = values.iter().map(i64::to_string).collect();
                    values.join(" ")
                }
                None if text.contains('\n') => return Err(errno::EINVAL),
                None if path == DEFAULT_QDISC
                    && weir_tc::qdisc::find_ops(text.as_bytes()).is_none() =>
                {
                    return Err(errno::ENOENT);
                }
                None => {
                    weir_socket::check_setting(path, text)?;
                    text.to_owned()
                }
            };
            kept.insert(path.to_owned(), value);
        }
    }
    Ok(())
}

/// Parses an integer as `proc_get_long` does: decimal, hexadecimal after `0x` or octal after `0`.
fn integer(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    // `from_str_radix` takes a sign of its own.
    if !digits.bytes().all(|digit| digit.is_ascii_alphanumeric()) {
        return None;
    }
    i64::from_str_radix(digits, radix)
        .ok()
        .map(|value| sign * value)
}

/// Parses a value that consists only of integers.
fn numbers(text: &str) -> Option<Vec<i64>> {
    let words = text.split_ascii_whitespace();
    let numbers: Option<Vec<i64>> = words.map(integer).collect();
    numbers.filter(|numbers| !numbers.is_empty())
}

/// Writes a set of CPUs in words of 32 bits, the highest first (`%*pb`).
fn bitmap(cpus: &BTreeSet<usize>, count: usize) -> String {
    let mut words = Vec::new();
    for word in (0..count.div_ceil(32)).rev() {
        let bits = (0..32).filter(|bit| cpus.contains(&(word * 32 + bit)));
        let value = bits.fold(0_u32, |value, bit| value | 1 << bit);
        let width = (count - word * 32).min(32).div_ceil(4);
        words.push(format!("{value:0width$x}"));
    }
    words.join(",")
}

/// Parses a set of CPUs (`bitmap_parse`). CPUs that do not exist are ignored.
fn of_bitmap(text: &str) -> Result<BTreeSet<usize>, i32> {
    let mut cpus = BTreeSet::new();
    for (word, digits) in text.rsplit(',').enumerate() {
        if digits.len() > 8 {
            return Err(errno::EOVERFLOW);
        }
        let value = u32::from_str_radix(digits, 16).map_err(|_| errno::EINVAL)?;
        let bits = (0..32).filter(|bit| value >> bit & 1 == 1);
        cpus.extend(bits.map(|bit| word * 32 + bit));
    }
    Ok(cpus)
}

fn target(whose: Whose) -> Target {
    match whose {
        Whose::All => Target::All,
        Whose::Default => Target::Default,
        Whose::Device(device) => Target::Device(device),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::Config;

    #[test]
    fn names_are_served_kept_or_unknown() {
        let stack = crate::build(Config::default());
        let ns = stack.namespace(Stack::INITIAL).unwrap();
        assert_eq!(lookup(&ns, "ipv4/conf/lo"), Some(Node::Directory));
        assert_eq!(lookup(&ns, "ipv4/conf/nosuch/rp_filter"), None);
        assert_eq!(read(&ns, "ipv4/ip_default_ttl").as_deref(), Ok("64\n"));
        assert_eq!(
            write(&stack, &ns, "ipv4/ip_default_ttl", b"0\n"),
            Err(errno::EINVAL)
        );
        assert_eq!(write(&stack, &ns, "ipv4/ip_default_ttl", b"32\n"), Ok(()));
        assert_eq!(read(&ns, "ipv4/ip_default_ttl").as_deref(), Ok("32\n"));
        assert_eq!(write(&stack, &ns, "ipv4/tcp_rmem", b"1 2 3\n"), Ok(()));
        assert_eq!(read(&ns, "ipv4/tcp_rmem").as_deref(), Ok("1\t2\t3\n"));
        assert_eq!(read(&ns, "ipv4/no_such_thing"), Err(errno::ENOENT));
        assert_eq!(
            write(&stack, &ns, "ipv4/neigh/default/gc_stale_time", b"7"),
            Ok(())
        );
        assert_eq!(ns.conf().default.neigh4.get(Neigh::GcStaleTime), 7000);
        let listed = list(&ns, "ipv4/conf").unwrap();
        assert_eq!(listed, ["all", "default", "lo"]);
        assert!(list(&ns, "").unwrap().contains(&"core".to_owned()));
    }

    #[test]
    fn a_new_namespace_shows_its_own_files_of_net_core() {
        let stack = crate::build(Config::default());
        let initial = stack.namespace(Stack::INITIAL).unwrap();
        let ns = stack.create_namespace();
        let own = list(&ns, "core").unwrap();
        assert_eq!(own.len(), CORE_OF_EACH.len());
        assert!(list(&initial, "core").unwrap().len() > 30);
        assert_eq!(write(&stack, &ns, "core/somaxconn", b"7"), Ok(()));
        assert_eq!(read(&initial, "core/somaxconn").as_deref(), Ok("4096\n"));
        for path in ["core/optmem_max", "core/dev_weight", DEFAULT_QDISC] {
            assert_eq!(lookup(&ns, path), None);
            assert_eq!(read(&ns, path), Err(errno::ENOENT));
            assert_eq!(write(&stack, &ns, path, b"1"), Err(errno::ENOENT));
            assert!(read(&initial, path).is_ok());
        }
        // They hold for all namespaces.
        assert_eq!(write(&stack, &initial, "core/dev_weight", b"9"), Ok(()));
        assert_eq!(ns.global.core.get(Core::DevWeight), 9);
    }

    #[test]
    fn forwarding_for_all_reaches_every_device() {
        let stack = crate::build(Config::default());
        let ns = stack.namespace(Stack::INITIAL).unwrap();
        write(&stack, &ns, "ipv4/ip_forward", b"1").unwrap();
        assert_eq!(read(&ns, "ipv4/conf/lo/forwarding").as_deref(), Ok("1\n"));
        assert_eq!(
            read(&ns, "ipv4/conf/default/forwarding").as_deref(),
            Ok("1\n")
        );
    }
}
