// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unmodified ip, tc and sysctl print the same in Weir as on Linux. Each `golden/NAME.cmd` is a
//! list of commands, and `NAME.expected` the output of Linux 6.1 (`golden/record.sh`). `refused`
//! lists what Weir does not serve, with Weir's messages, and was recorded from Weir.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use common::User;

/// Returns the first lines that differ, with some context.
fn difference(expected: &str, got: &str) -> Option<String> {
    if expected == got {
        return None;
    }
    let (expected, got): (Vec<_>, Vec<_>) = (expected.lines().collect(), got.lines().collect());
    let same = expected
        .iter()
        .zip(&got)
        .take_while(|(a, b)| a == b)
        .count();
    let mut text = String::new();
    for line in &expected[same.saturating_sub(3)..same] {
        writeln!(text, "  {line}").unwrap();
    }
    for line in expected.iter().skip(same).take(5) {
        writeln!(text, "- {line}").unwrap();
    }
    for line in got.iter().skip(same).take(5) {
        writeln!(text, "+ {line}").unwrap();
    }
    Some(text)
}

fn play(user: User, name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let expected = fs::read_to_string(folder.join(format!("{name}.expected"))).unwrap();
    let mut command = common::weir(user, &["run", "--quiet"]);
    if name == "link-chatter" {
        command.arg("--link-chatter");
    }
    command
        .args(["--", "bash"])
        .arg(folder.join("play.sh"))
        .arg(folder.join(format!("{name}.cmd")));
    let output = common::output(&mut command);
    let got = common::text(&output.stdout);
    if let Some(text) = difference(&expected, &got) {
        panic!(
            "{name} as {user:?}: `-` is Linux, `+` is Weir\n{text}{}",
            common::text(&output.stderr)
        );
    }
    assert!(output.status.success(), "{}", common::text(&output.stderr));
}

macro_rules! scripts {
    ($($test:ident = $name:literal,)*) => {
        const NAMES: &[&str] = &[$($name),*];
        $(
            #[test]
            fn $test() {
                for user in common::users() {
                    play(*user, $name);
                }
            }
        )*
    };
}

scripts! {
    address = "address",
    address6 = "address6",
    autojoin = "autojoin",
    batch = "batch",
    carrier = "carrier",
    conntrack = "conntrack",
    conntrack_nat = "conntrack-nat",
    conntrack_protocols = "conntrack-protocols",
    dad = "dad",
    encap = "encap",
    ethtool = "ethtool",
    ethtool_ioctl = "ethtool-ioctl",
    ethtool_monitor = "ethtool-monitor",
    ethtool_set = "ethtool-set",
    fdb = "fdb",
    fdb_groups = "fdb-groups",
    fdb_nexthop = "fdb-nexthop",
    geneve = "geneve",
    ifb = "ifb",
    link = "link",
    link_chatter = "link-chatter",
    link_names = "link-names",
    link_set = "link-set",
    link_state = "link-state",
    maddr = "maddr",
    man_action = "man-action",
    man_address = "man-address",
    man_filter = "man-filter",
    man_link = "man-link",
    man_neigh = "man-neigh",
    man_netns = "man-netns",
    man_qdisc = "man-qdisc",
    man_qdisc2 = "man-qdisc2",
    man_route = "man-route",
    man_route6 = "man-route6",
    man_rule = "man-rule",
    man_vlan = "man-vlan",
    monitor = "monitor",
    mpls = "mpls",
    mpls_monitor = "mpls-monitor",
    mroute = "mroute",
    mtu = "mtu",
    neigh = "neigh",
    neigh_app = "neigh-app",
    neigh_due = "neigh-due",
    neigh_flags = "neigh-flags",
    netns = "netns",
    nexthop = "nexthop",
    nexthop_monitor = "nexthop-monitor",
    nexthop_res = "nexthop-res",
    nexthop_route = "nexthop-route",
    ports = "ports",
    ra = "ra",
    ra_conf = "ra-conf",
    ra_temp = "ra-temp",
    redirect = "redirect",
    redirect6 = "redirect6",
    refused = "refused",
    route = "route",
    route6 = "route6",
    rule = "rule",
    rule_select = "rule-select",
    sysctl = "sysctl",
    sysctl_core = "sysctl-core",
    tc_action = "tc-action",
    tc_basic = "tc-basic",
    tc_bpf = "tc-bpf",
    tc_block = "tc-block",
    tc_classifiers = "tc-classifiers",
    tc_ct = "tc-ct",
    tc_ets = "tc-ets",
    tc_filter = "tc-filter",
    tc_fq_pie = "tc-fq-pie",
    tc_gate = "tc-gate",
    tc_qdisc = "tc-qdisc",
    tc_u32 = "tc-u32",
    tc_wrong_htb = "tc-wrong-htb",
    tc_wrong_options = "tc-wrong-options",
    tc_wrong_parent = "tc-wrong-parent",
    tcp_metrics = "tcp-metrics",
    tun = "tun",
    veth = "veth",
    vlan = "vlan",
    vlan_carrier = "vlan-carrier",
    vxlan_group = "vxlan-group",
    vxlan_miss = "vxlan-miss",
    vxlan_proxy = "vxlan-proxy",
    wire = "wire",
}

#[test]
fn every_script_is_played() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(name) = name.strip_suffix(".cmd") {
            assert!(NAMES.contains(&name), "{name} is in no test");
        }
    }
}
