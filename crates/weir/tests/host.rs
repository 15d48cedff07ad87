// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine's own network is the same before and after a run that does everything; and what
//! programs inside may not have of it is refused clearly.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

use common::{User, has, output, script, script_and_weir, script_with, text, users, works};

/// All settings below a directory, but those the kernel counts by itself.
fn settings(dir: &Path, out: &mut String) -> io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(dir)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            settings(&path, out)?;
        } else if !matches!(
            path.file_name().and_then(|name| name.to_str()),
            Some("nf_conntrack_count" | "flush" | "stat_refresh")
        ) {
            let value = fs::read(&path).unwrap_or_default();
            writeln!(out, "{} {}", path.display(), text(&value)).unwrap();
        }
    }
    Ok(())
}

/// The machine's network state as text.
fn snapshot() -> String {
    let mut found = String::new();
    for command in [
        &["ip", "-d", "-o", "link"][..],
        &["ip", "-o", "address"],
        &["ip", "route", "show", "table", "all"],
        &["ip", "-6", "route", "show", "table", "all"],
        &["ip", "rule"],
        &["ip", "-6", "rule"],
        &["ip", "neigh", "show", "nud", "permanent"],
        &["ip", "netns", "list-id"],
        &["tc", "qdisc"],
        &["tc", "actions", "list", "action", "gact"],
        &["ls", "-la", "/run/netns"],
        &["readlink", "/proc/self/ns/net"],
    ] {
        let mut run = common::command(User::Own, command[0]);
        let output = output(run.args(&command[1..]));
        writeln!(found, "{command:?}\n{}", text(&output.stdout)).unwrap();
    }
    settings(Path::new("/proc/sys/net"), &mut found).unwrap();
    found
}

/// Addresses live for a time, and the machine's own programs go on.
fn steady(text: &str) -> Vec<String> {
    let lived = |line: &str| {
        line.split_whitespace()
            .map(|word| if word.ends_with("sec") { "SEC" } else { word })
            .collect::<Vec<_>>()
            .join(" ")
    };
    text.lines().map(lived).collect()
}

const EVERYTHING: &str = r#"set -e
ip link set lo up
ip link add d0 type dummy
ip link add v0 type veth peer name v1
ip link add i0 type ifb
ip link add link d0 name d0.5 type vlan id 5
ip link set d0 up
ip link set v0 up
ip link property add dev d0 altname other
ip addr add 10.77.0.1/24 dev d0
ip addr add 2001:db8:77::1/64 dev d0
ip route add 10.78.0.0/16 via 10.77.0.2
ip route add blackhole 10.79.0.0/16 table 77
ip -6 route add 2001:db8:78::/48 via 2001:db8:77::2
ip rule add from 10.78.0.0/16 lookup 77
ip neigh add 10.77.0.9 lladdr 02:00:00:00:00:09 dev d0
ip netns add weir-test-inside
ip netns set weir-test-inside 77
ip link set v1 netns weir-test-inside
ip netns exec weir-test-inside sysctl -q -w net.ipv4.ip_forward=1
sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=2
echo 77 >/proc/sys/net/ipv4/ip_default_ttl
tc qdisc add dev d0 clsact
tc filter add dev d0 ingress matchall action drop
tc actions add action drop index 77
tc qdisc add dev v0 root pfifo limit 7
unshare -n ip link add z0 type dummy
ip -all netns exec ip link set lo up
"#;

#[test]
fn untouched_by_a_run_that_does_everything() {
    for user in users() {
        let before = snapshot();
        works(*user, EVERYTHING);
        // The same undone inside, and a script that fails half way.
        works(
            *user,
            &format!(
                "{EVERYTHING}\nip netns del weir-test-inside; ip link del d0; ip -all netns del"
            ),
        );
        let (_, status) = script(*user, &format!("{EVERYTHING}\nexit 3"));
        assert_eq!(status, 3);
        let after = snapshot();
        let (before, after) = (steady(&before), steady(&after));
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after, "the machine's own network changed");
        }
        assert_eq!(before.len(), after.len());
    }
}

#[test]
fn nothing_of_it_is_seen_inside() {
    for user in users() {
        let printed = works(
            *user,
            "ip -br link | cut -d' ' -f1; ip route; ip netns; ls /sys/class/net; ls /proc/sys/net/ipv4/conf; ls /run/netns 2>/dev/null; true",
        );
        assert_eq!(printed, "lo\nlo\nall\ndefault\nlo\n", "{user:?}");
        // Nor through a process outside, this one, in whatever way its files are named.
        let pid = std::process::id();
        let (printed, said, _) = script_and_weir(
            *user,
            &format!(
                "cat /proc/{pid}/net/dev; cat /proc/{pid}/task/{pid}/net/route; cd /proc/{pid}; cat net/dev;
                 ls /proc/{pid}/net; wc -l </proc/self/net/dev; wc -l </proc/thread-self/net/dev"
            ),
        );
        assert_eq!(printed.matches("Permission denied").count(), 4, "{printed}");
        assert!(printed.ends_with("\n3\n3\n"), "{user:?}: {printed}");
        assert!(
            said.contains("it is the host's network"),
            "{user:?}: {said}"
        );
    }
}

const SOCKETS: &str = r#"python3 - <<'X'
import socket, errno
for family, kind, address in [
    (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 9)),
    (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 9)),
    (socket.AF_INET6, socket.SOCK_STREAM, ("::1", 9)),
    (socket.AF_INET, socket.SOCK_RAW, ("127.0.0.1", 9)),
    (socket.AF_PACKET, socket.SOCK_RAW, ("lo", 3)),
]:
    for what in ("connect", "bind"):
        try:
            with socket.socket(family, kind) as s:
                getattr(s, what)(address)
            print("OPEN", family, kind, what)
        except OSError as error:
            print(errno.errorcode[error.errno], end=" ")
print()
X"#;

#[test]
fn internet_and_packet_sockets_are_refused_with_a_sentence() {
    if !has("python3", "python3") {
        return;
    }
    for user in users() {
        let (printed, said, _) = script_and_weir(*user, SOCKETS);
        assert!(!printed.contains("OPEN"), "{user:?}: {printed}");
        let expected = "ENETUNREACH EADDRNOTAVAIL ENETUNREACH EADDRNOTAVAIL ENETUNREACH EADDRNOTAVAIL \
            EPROTONOSUPPORT EPROTONOSUPPORT EAFNOSUPPORT EAFNOSUPPORT \n";
        assert_eq!(printed, expected, "{user:?}");
        assert!(
            said.contains("no connection or datagram of a program passes through the stack yet"),
            "{user:?}: {said}"
        );
        // Where it is asked for, it is the machine's.
        let (printed, status) = script_with(
            *user,
            &["--host-network"],
            "ip link add d0 type dummy && python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind((\"127.0.0.1\", 0))'",
        );
        assert_eq!((printed.as_str(), status), ("", 0), "{user:?}");
    }
}

/// Programs whose sockets are refused say what they say on a machine without routes, and Weir says
/// once what is missing and what serves instead.
#[test]
fn programs_whose_sockets_are_refused_are_told_once() {
    const AWAY: &str = "no connection or datagram of a program passes through the stack yet: \
        frames enter it by --in and --gen of weir run\n";
    const HERE: &str = "no connection or datagram reaches a program through the stack yet: \
        weir capture DEV shows what a device sends and receives\n";
    const PACKETS: &str = "packet sockets are not served; \
        weir capture DEV | tcpdump -r - shows a device's frames\n";
    const NETFILTER: &str = "there is no netfilter in the stack: no nft, iptables, conntrack, ipset; \
        tc filters drop and change packets\n";
    const SOCKETS: &str = "the stack has no sockets of programs to list (no NETLINK_SOCK_DIAG)\n";
    // Program, package, command, sentence, and a word of what the program says.
    let programs = [
        (
            "ping",
            "iputils-ping",
            "ping -c1 10.0.0.2",
            AWAY,
            "connect: Network is unreachable",
        ),
        (
            "host",
            "bind9-host",
            "host a.example 10.0.0.2",
            AWAY,
            "no servers could be reached",
        ),
        (
            "nc",
            "netcat-openbsd",
            "nc -v 10.0.0.2 80",
            AWAY,
            "Network is unreachable",
        ),
        (
            "nc",
            "netcat-openbsd",
            "nc -l 1234",
            HERE,
            "Cannot assign requested address",
        ),
        (
            "nc",
            "netcat-openbsd",
            "nc -l -u 1234",
            HERE,
            "Cannot assign requested address",
        ),
        (
            "iperf3",
            "iperf3",
            "iperf3 -s -1",
            HERE,
            "unable to start listener",
        ),
        (
            "dnsmasq",
            "dnsmasq-base",
            "dnsmasq -d --port 5353 --conf-file=/dev/null --user= --group=",
            HERE,
            "failed to create listening socket",
        ),
        (
            "tcpdump",
            "tcpdump",
            "tcpdump -c1 -i d0",
            PACKETS,
            "Address family not supported",
        ),
        (
            "nft",
            "nftables",
            "nft list ruleset",
            NETFILTER,
            "Operation not supported",
        ),
        (
            "iptables",
            "iptables",
            "iptables -L",
            NETFILTER,
            "Operation not supported",
        ),
        (
            "iptables-legacy",
            "iptables",
            "XTABLES_LOCKFILE=/dev/null iptables-legacy -L",
            NETFILTER,
            "Table does not exist",
        ),
        (
            "conntrack",
            "conntrack",
            "conntrack -L",
            NETFILTER,
            "Operation not supported",
        ),
        (
            "ss",
            "iproute2",
            "ss -tln",
            SOCKETS,
            "Protocol not supported",
        ),
        (
            "ethtool",
            "ethtool",
            "ethtool d0",
            "the stack has no ethtool (generic netlink)\n",
            "No data available",
        ),
        (
            "devlink",
            "iproute2",
            "devlink dev",
            "the stack has no devlink (generic netlink)\n",
            "Failed to connect to devlink Netlink",
        ),
    ];
    for (program, package, command, sentence, word) in programs {
        if !has(program, package) {
            continue;
        }
        for user in users() {
            let script = format!(
                "ip link add d0 type dummy
                ip addr add 10.0.0.1/24 dev d0
                ip link set d0 up
                {command}
                true"
            );
            let (printed, said, _) = script_and_weir(*user, &script);
            assert_eq!(
                said,
                format!("weir: {program}: {sentence}"),
                "{user:?}: {command}"
            );
            assert!(printed.contains(word), "{user:?}: {command}: {printed}");
        }
    }
}

#[test]
fn a_tap_and_kernel_namespaces_are_refused() {
    for user in users() {
        let (_, said, status) = script_and_weir(*user, "exec 3<>/dev/net/tun");
        assert!(
            status != 0 && said.contains("a tap device would be the host's"),
            "{said}"
        );
        // A process of the machine is in no namespace of Weir.
        let (printed, status) = script(
            *user,
            &format!(
                "ip link add d0 type dummy && ip link set d0 netns {}",
                std::process::id()
            ),
        );
        assert_eq!(
            (printed.as_str(), status),
            ("RTNETLINK answers: No such process\n", 2)
        );
    }
}
