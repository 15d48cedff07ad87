// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that monitor a machine show the devices and counters of the stack: `nstat`, `netstat`, collectd, and Prometheus's
//! node_exporter.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{Folder, User, has, users, works};

/// A router that has forwarded six packets from `in0` to `out0`.
fn router(folder: &Folder) -> String {
    let frames = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/linux/counters.py");
    let status = Command::new("python3")
        .arg(frames)
        .args(["pcap", folder.0.to_str().unwrap()])
        .status()
        .unwrap();
    assert!(status.success());
    format!(
        "set -e
        ip link set lo up
        ip link add in0 address 02:00:00:00:00:01 type veth peer name p0
        ip link add out0 type dummy
        sysctl -qw net.ipv4.ip_forward=1
        for device in in0 p0 out0; do
            sysctl -qw net.ipv6.conf.$device.disable_ipv6=1
            ip link set $device up
        done
        ip addr add 10.0.0.1/24 dev in0
        ip addr add 10.1.0.1/24 dev out0
        ip neigh add 10.1.0.2 lladdr 02:00:00:00:01:02 dev out0
        $WEIR inject --receive in0 {} >/dev/null
        cd {}\n",
        folder.file("forward.pcap"),
        folder.0.display(),
    )
}

/// Runs a script in the router as each user. Returns the output per user.
#[track_caller]
fn in_router(script: &str) -> Vec<(User, String)> {
    let run = |user: &User| {
        let folder = Folder::new();
        (*user, works(*user, &(router(&folder) + script)))
    };
    users().iter().map(run).collect()
}

#[track_caller]
fn assert_lines(printed: &str, lines: &[&str]) {
    for wanted in lines {
        assert!(
            printed.lines().any(|line| line.trim() == *wanted),
            "no line {wanted:?} in\n{printed}"
        );
    }
}

#[test]
fn nstat() {
    if !has("python3", "python3") {
        return;
    }
    for (user, printed) in in_router(
        "NSTAT_HISTORY=$PWD/history nstat | awk '{ print $1, $2 }'
        NSTAT_HISTORY=$PWD/history nstat | awk '{ print $1, $2 }'",
    ) {
        assert_eq!(
            printed,
            "#kernel \nIpInReceives 6\nIpForwDatagrams 6\nIpOutRequests 6\nIpExtInOctets 758\n\
             IpExtOutOctets 1416\nIpExtInNoECTPkts 2\nIpExtInECT1Pkts 1\nIpExtInECT0Pkts 1\n\
             IpExtInCEPkts 2\n#kernel \n",
            "{user:?}"
        );
    }
}

#[test]
fn netstat() {
    if !has("netstat", "net-tools") || !has("python3", "python3") {
        return;
    }
    for (_, printed) in in_router("netstat -s\nnetstat -i\nnetstat -rn\nnetstat -gn 2>/dev/null") {
        assert_lines(
            &printed,
            &[
                "Forwarding: 1",
                "6 total packets received",
                "6 forwarded",
                "6 requests sent out",
                "InOctets: 758",
                "InECT0Pkts: 1",
                "in0              1500        6      0      0 0             0      0      0      0 BMRU",
                "10.1.0.0        0.0.0.0         255.255.255.0   U         0 0          0 out0",
                "in0             1      224.0.0.1",
            ],
        );
    }
}

#[test]
fn collectd() {
    if !has("collectd", "collectd-core") || !has("python3", "python3") {
        return;
    }
    for (user, printed) in in_router(
        r#"cat >collectd.conf <<END
Hostname "host"
FQDNLookup false
Interval 1
BaseDir "$PWD"
PIDFile "$PWD/pid"
PluginDir "/usr/lib/collectd"
TypesDB "/usr/share/collectd/types.db"
LoadPlugin csv
<Plugin csv>
    DataDir "$PWD/csv"
</Plugin>
LoadPlugin interface
LoadPlugin protocols
END
        collectd -f -C collectd.conf >log 2>&1 &
        last() { tail -n 1 csv/host/$1-* 2>/dev/null | cut -d, -f 2-; }
        for _ in $(seq 100); do
            [ -n "$(last protocols-Udp/protocol_counter-NoPorts)" ] && break
            sleep .1
        done
        kill $!
        wait $! || cat log
        echo $(last interface-in0/if_packets) $(last interface-out0/if_packets)
        echo $(last protocols-Ip/protocol_counter-ForwDatagrams) $(last protocols-IpExt/protocol_counter-InOctets)"#,
    ) {
        assert_eq!(printed, "6,0 0,6\n6 758\n", "{user:?}");
    }
}

#[test]
fn node_exporter() {
    let installed = has("prometheus-node-exporter", "prometheus-node-exporter");
    if !installed || !has("python3", "python3") {
        return;
    }
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/node_exporter.py");
    let source = std::fs::read_to_string(client).unwrap();
    let script = format!("cat >client.py <<'END'\n{source}END\npython3 client.py socket\n");
    for (_, printed) in in_router(&script) {
        assert_lines(
            &printed,
            &[
                "node_netstat_Ip_Forwarding 1",
                "node_netstat_IpExt_InOctets 758",
                "node_network_receive_packets_total{device=\"in0\"} 6",
                "node_network_transmit_packets_total{device=\"out0\"} 6",
                "node_network_up{device=\"in0\"} 1",
                "node_arp_entries{device=\"out0\"} 1",
                "node_softnet_processed_total{cpu=\"0\"} 6",
                "node_sockstat_TCP_inuse 0",
            ],
        );
        for name in [
            "arp", "netclass", "netdev", "netstat", "sockstat", "softnet",
        ] {
            let line = format!("node_scrape_collector_success{{collector=\"{name}\"}} 1");
            assert_lines(&printed, &[&line]);
        }
    }
}
