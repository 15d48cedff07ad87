// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scripts in `linux/` print the same under Weir as on Linux 6.1, byte by byte, with an
//! unmodified `ip`. So do those in `loaded/`, whose queues hold packets. `record` in each folder
//! recorded the expectations.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::path::Path;
use std::process::Command;
use std::{env, fs, process};

use common::has;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

#[track_caller]
fn same_as_linux(name: &str) {
    same("linux", name, &[]);
}

/// Runs a script with the frames of `loaded/frames.py`.
#[track_caller]
fn loaded(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/loaded");
    let frames = Command::new("python3")
        .arg(folder.join("frames.py"))
        .args(["pcap", "120"])
        .output()
        .unwrap();
    assert!(frames.status.success());
    let capture = env::temp_dir().join(format!("weir-loaded-{name}-{}.pcap", process::id()));
    fs::write(&capture, frames.stdout).unwrap();
    same(
        "loaded",
        name,
        &["--in", &format!("in0={}", capture.display())],
    );
    let _ = fs::remove_file(&capture);
}

#[track_caller]
fn same(kind: &str, name: &str, arguments: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(kind);
    let answer = env::temp_dir().join(format!("weir-{kind}-{name}-{}", process::id()));
    let run = Command::new(WEIR)
        .arg("run")
        .args(arguments)
        .args(["--", "sh", "-c", "exec sh \"$0\" >\"$1\""])
        .arg(folder.join(format!("{name}.sh")))
        .arg(&answer)
        .env("WEIR", WEIR)
        .output()
        .unwrap();
    let found = fs::read_to_string(&answer).unwrap_or_default();
    let _ = fs::remove_file(&answer);
    let expected = fs::read_to_string(folder.join(format!("{name}.txt"))).unwrap();
    let mut command = "";
    for (number, (wanted, got)) in expected.lines().zip(found.lines()).enumerate() {
        if wanted.starts_with('+') {
            command = wanted;
        }
        assert_eq!(got, wanted, "{name}.txt line {}, {command}", number + 1);
    }
    assert_eq!(
        found.lines().count(),
        expected.lines().count(),
        "{name}: {}",
        String::from_utf8_lossy(&run.stderr)
    );
}

#[test]
fn ipv4_routes() {
    same_as_linux("ipv4");
}

/// `net.core.devconf_inherit_init_net`
#[test]
fn settings_of_new_namespaces() {
    same_as_linux("devconf");
}

#[test]
fn ipv6_routes() {
    same_as_linux("ipv6");
}

/// Multicast routes by the socket of a daemon.
#[test]
fn multicast_routes() {
    same_as_linux("mroute");
}

/// The same of IPv6.
#[test]
fn multicast_routes_of_ipv6() {
    same_as_linux("mroute6");
}

/// smcroute routes between three namespaces, for root and for an ordinary user.
#[test]
fn multicast_routing_daemon() {
    if has("/usr/sbin/smcrouted", "smcroute") {
        same_for_all_users("smcroute");
    }
}

/// The same of IPv6.
#[test]
fn multicast_routing_daemon_of_ipv6() {
    if has("/usr/sbin/smcrouted", "smcroute") {
        same_for_all_users("smcroute6");
    }
}

fn same_for_all_users(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/linux");
    let expected = fs::read_to_string(folder.join(name).with_extension("txt")).unwrap();
    for user in common::users() {
        let script = folder.join(name).with_extension("sh");
        let (printed, status) = common::script(*user, &format!("sh {}", script.display()));
        assert_eq!((&*printed, status), (&*expected, 0), "{user:?}");
    }
}

/// Multicast routes by netlink.
#[test]
fn multicast_routes_by_netlink() {
    same_as_linux("mroute-netlink");
}

/// The same of IPv6.
#[test]
fn multicast_routes_of_ipv6_by_netlink() {
    same_as_linux("mroute6-netlink");
}

/// A router's own reports of groups on its raw sockets.
#[test]
fn own_reports_of_groups() {
    same("linux", "mld-own", &["--link-chatter"]);
}

/// VIFs with tunnel devices, gre and ipip.
#[test]
fn multicast_routes_by_tunnels() {
    same_as_linux("mroute-tunnel");
}

/// PIM: the register VIF, reports with whole packets, received registers, for root and for an ordinary user.
#[test]
fn multicast_routes_by_pim() {
    same_for_all_users("mroute-pim");
}

/// The same of IPv6.
#[test]
fn multicast_routes_of_ipv6_by_pim() {
    same_for_all_users("mroute6-pim");
}

/// Several multicast routing tables, for root and for an ordinary user.
#[test]
fn multicast_routing_tables() {
    same_for_all_users("mroute-tables");
}

/// The same of IPv6.
#[test]
fn multicast_routing_tables_of_ipv6() {
    same_for_all_users("mroute6-tables");
}

#[test]
fn rules() {
    same_as_linux("rules");
}

#[test]
fn tables() {
    same_as_linux("tables");
}

#[test]
fn queues() {
    same_as_linux("queues");
}

/// Requests about filters, chains, blocks and actions that are refused, and the state after them.
#[test]
fn refusals() {
    same_as_linux("refusals");
}

#[test]
fn ip_tunnels() {
    same_as_linux("iptunnel");
}

/// `ip tunnel` and `ip -6 tunnel`
#[test]
fn tunnels_by_ioctl() {
    same_as_linux("tunnel-ioctl");
}

#[test]
fn ip6gre() {
    same_as_linux("ip6gre");
}

#[test]
fn ip6tnl() {
    same_as_linux("ip6tnl");
}

#[test]
fn erspan() {
    if has("ethtool", "ethtool") {
        same_as_linux("erspan");
    }
}

/// `rx_dropped` of frames that nothing takes.
#[test]
fn dropped_frames() {
    same_as_linux("rx-dropped");
}

/// The counters of LACP.
#[test]
fn lacp_counters() {
    same_as_linux("bond-xstats");
}

/// `net.ipv4.conf.default`, written after devices were made.
#[test]
fn defaults_of_settings() {
    same_as_linux("default-conf");
}

/// The netlink messages of a namespace, as packet sockets and tcpdump see them.
#[test]
fn nlmon() {
    let programs = [("ethtool", "ethtool"), ("tcpdump", "tcpdump")];
    if programs
        .iter()
        .all(|(program, package)| has(program, package))
    {
        same_as_linux("nlmon");
    }
}

#[test]
fn sit() {
    same_as_linux("sit");
}

/// `ip tunnel ... mode isatap`, `ip tunnel prl`
#[test]
fn isatap() {
    same_as_linux("isatap");
}

/// Groups with sources: IGMPv3 and MLDv2 of a bridge.
#[test]
fn bridge_mdb_sources() {
    if has("python3", "python3") {
        same_as_linux("bridge-mdb-sources");
    }
}

/// Remotes of tunnels without a route, on the link of the tunnel's device.
#[test]
fn tunnels_on_a_link() {
    if has("python3", "python3") {
        same_as_linux("tunnel-on-link");
    }
}

/// Types that Linux registers for one address family, and multicast routes of IPv6.
#[test]
fn families() {
    if has("python3", "python3") {
        same_as_linux("families");
    }
}

/// Bonds of mode 802.3ad, `/proc/net/bonding` and `/sys/class/net/BOND/bonding`.
#[test]
fn lacp() {
    same_as_linux("bond-lacp");
}

#[test]
fn terse_dumps() {
    same_as_linux("terse");
}

#[test]
fn taprio() {
    same_as_linux("taprio");
}

#[test]
fn bridge_mdb() {
    if has("stdbuf", "coreutils") {
        same_as_linux("bridge-mdb");
    }
}

#[test]
fn bridge_stp() {
    same_as_linux("bridge-stp");
}

#[test]
fn bridge_vlan() {
    same_as_linux("bridge-vlan");
}

/// `bridge vlan set`, `bridge vlan global`, and `bridge monitor vlan`.
#[test]
fn bridge_vlan_options() {
    if has("stdbuf", "coreutils") {
        same_as_linux("bridge-vlan-options");
    }
}

/// Instances of multiple spanning trees.
#[test]
fn bridge_mst() {
    same_as_linux("bridge-mst");
}

#[test]
fn tunnel_ids_of_vlans() {
    if has("stdbuf", "coreutils") {
        same_as_linux("vlan-tunnel");
    }
}

/// `mcast_vlan_snooping`, `bridge vlan set ... mcast_router`.
#[test]
fn bridge_groups_by_vlan() {
    if has("stdbuf", "coreutils") && has("python3", "python3") {
        same_as_linux("bridge-vlan-groups");
    }
}

/// `ip stats` and `ip link xstats`.
#[test]
fn statistics_of_links() {
    same_as_linux("stats");
}

#[test]
fn bridge_flush() {
    same_as_linux("bridge-flush");
}

/// The files of bridges and ports in /sys/class/net.
#[test]
fn bridge_sys() {
    same_as_linux("bridge-sys");
}

#[test]
fn bridge() {
    same_as_linux("bridge");
}

#[test]
fn bond() {
    if has("ethtool", "ethtool") {
        same_as_linux("bond");
    }
}

#[test]
fn ipvlan() {
    if has("ethtool", "ethtool") {
        same_as_linux("ipvlan");
    }
}

#[test]
fn macvlan() {
    if has("ethtool", "ethtool") {
        same_as_linux("macvlan");
    }
}

/// VRFs: rules, ports, and where the routes of ports are.
#[test]
fn vrf() {
    same_as_linux("vrf");
}

#[test]
fn vxlan() {
    same_as_linux("vxlan");
}

/// Devices with the generic protocol extension.
#[test]
fn vxlan_of_several_protocols() {
    same_as_linux("vxlan-gpe");
}

#[test]
fn vxlan_remote_checksums() {
    same_as_linux("vxlan-remcsum");
}

/// VNIs of devices that filter by them.
#[test]
fn vxlan_vnis() {
    same_as_linux("vxlan-vni");
}

#[test]
fn addresses() {
    same_as_linux("addresses");
}

/// Devices of the simulated bus.
#[test]
fn netdevsim() {
    same_as_linux("netdevsim");
}

#[test]
fn qfq() {
    same_as_linux("qfq");
}

/// The flow table of the action `ct`.
#[test]
fn flow_table() {
    if has("conntrack", "conntrack") {
        same_as_linux("flow-table");
    }
}

#[test]
fn gred() {
    same_as_linux("gred");
}

#[test]
fn cake() {
    same_as_linux("cake");
}

/// Includes the handles that are assigned to qdiscs without one, which count across namespaces.
#[test]
fn blackhole() {
    same_as_linux("blackhole");
}

#[test]
fn sys_class_net() {
    same_as_linux("sys-class-net");
}

#[test]
fn events() {
    same_as_linux("events");
}

#[test]
fn loaded_blackhole() {
    loaded("blackhole");
}

#[test]
fn loaded_classless() {
    loaded("classless");
}

#[test]
fn loaded_classful() {
    loaded("classful");
}

#[test]
fn loaded_ets() {
    loaded("ets");
}

#[test]
fn loaded_fq_pie() {
    loaded("fq_pie");
}

#[test]
fn loaded_full() {
    loaded("full");
}

#[test]
fn loaded_gate() {
    loaded("gate");
}

#[test]
fn loaded_lowered() {
    loaded("lowered");
}

#[test]
fn loaded_qevents() {
    loaded("qevents");
}

#[test]
fn loaded_served() {
    loaded("served");
}

#[test]
fn estimators() {
    same_as_linux("estimators");
}

/// `ifconfig`, `route`, `arp`, and busybox's `vconfig`.
#[test]
fn net_tools() {
    if has("ifconfig", "net-tools")
        && has("brctl", "bridge-utils")
        && has("busybox", "busybox-static")
    {
        same_as_linux("net-tools");
    }
}

/// Bridges by ioctl: `brctl` of bridge-utils and of busybox, and the oldest requests.
#[test]
fn brctl() {
    if has("brctl", "bridge-utils") && has("busybox", "busybox-static") && has("python3", "python3")
    {
        same_as_linux("brctl");
    }
}

/// `ip addrlabel`, `ip route flush cache`, `bridge` without bridges.
#[test]
fn address_labels() {
    same_as_linux("labels");
}

/// The files of `/proc/net` of an idle namespace, and the trie of its routes.
#[test]
fn proc_net() {
    same_as_linux("proc-net");
}

/// The SNMP counters, by frames that each increment some of them.
#[test]
fn counters() {
    if has("python3", "python3") {
        same_as_linux("counters");
    }
}

/// What the host sends by the ports of a VRF passes the VRF, its observers and its qdisc.
#[test]
fn vrf_qdisc() {
    if has("tcpdump", "tcpdump") && has("ping", "iputils-ping") {
        same_as_linux("vrf-qdisc");
    }
}

/// The options that programs choose for their packets (`IP_OPTIONS`).
#[test]
fn ip_options() {
    if has("python3", "python3") {
        same_as_linux("ip-options");
    }
}

#[test]
fn the_shape_of_every_message() {
    same_as_linux("attributes");
}

/// Malformed requests to connection tracking.
#[test]
fn refusals_of_connection_tracking() {
    same_as_linux("nfnetlink");
}

/// Connections in zones, by `conntrack`.
#[test]
fn zones_of_connections() {
    if has("conntrack", "conntrack") {
        same_as_linux("zones");
    }
}
