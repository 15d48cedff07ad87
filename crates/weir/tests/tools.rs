// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that build networks and shape traffic by running `ip` and `tc`: Mininet, NeST, tcconfig, ifupdown and
//! Debian's wondershaper (cbq), and the command sequences of sqm-scripts and of wondershaper's htb variant, which are
//! in no registry.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::fs;
use std::path::Path;

use common::{Folder, has, output, text, users, weir, works};

/// Returns the Python of `tests/clients/requirements.txt`.
#[track_caller]
fn python_of_tools() -> Option<String> {
    let python = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../target/venv-tools/bin/python"
    );
    has(python, "python3-venv").then(|| python.to_owned())
}

/// Copies a client of `tests/clients` to where every user can read it.
fn client(folder: &Folder, name: &str) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/clients")
        .join(name);
    let program = folder.file(name);
    fs::write(&program, fs::read_to_string(source).unwrap()).unwrap();
    program
}

#[test]
fn mininet() {
    if !has("mn", "mininet") {
        return;
    }
    for user in users() {
        let folder = Folder::new();
        let program = client(&folder, "mininet_hosts.py");
        let printed = works(*user, &format!("/usr/bin/python3 {program} 2>/dev/null"));
        // Mininet's shells run on terminals.
        assert_eq!(
            printed.replace('\r', ""),
            "left 10.0.0.1 0
left-eth0 10.0.0.1/24
default via 10.0.0.2 dev left-eth0
10.0.0.0/24 dev left-eth0 proto kernel scope link src 10.0.0.1
middle 10.0.0.2 1
middle-eth0 10.0.0.2/24
middle-eth1 10.0.1.1/24
10.0.0.0/24 dev middle-eth0 proto kernel scope link src 10.0.0.2
10.0.1.0/24 dev middle-eth1 proto kernel scope link src 10.0.1.1
right 10.0.1.2 0
right-eth0 10.0.1.2/24
10.0.1.0/24 dev right-eth0 proto kernel scope link src 10.0.1.2
qdisc htb 5: root refcnt 2 r2q 10 default 0x1 direct_packets_stat 0 direct_qlen 1000
qdisc netem 10: parent 5:1 limit 100 delay 5ms loss 1%
class htb 5:1 root leaf 10: prio 0 rate 10Mbit ceil 10Mbit burst 15Kb cburst 1600b
",
            "{user:?}"
        );
    }
}

#[test]
fn nest() {
    let Some(python) = python_of_tools() else {
        return;
    };
    for user in users() {
        let folder = Folder::new();
        let program = client(&folder, "nest_hosts.py");
        let home = folder.0.display();
        let printed = works(
            *user,
            &format!("cd {home}; HOME={home} {python} {program} 2>/dev/null"),
        );
        for wanted in [
            "a 10.0.0.1/24\ndefault via 10.0.0.2 dev a \n",
            "b 10.0.0.2/24\nc 10.0.1.1/24\n10.0.0.0/24 dev b ",
            "d 10.0.1.2/24\ndefault via 10.0.1.1 dev d \n",
            "qdisc netem 11: dev a parent 1:1 limit 1000 delay 5ms\n",
            "qdisc netem 11: dev c parent 1:1 limit 1000 delay 10ms\n",
            "qdisc fq_codel 11: dev ",
        ] {
            assert!(printed.contains(wanted), "{user:?}: {wanted}\n{printed}");
        }
    }
}

#[test]
fn tcconfig() {
    let Some(python) = python_of_tools() else {
        return;
    };
    let bin = Path::new(&python).parent().unwrap().display();
    for user in users() {
        let printed = works(
            *user,
            &format!(
                "set -e
                PATH={bin}:$PATH
                ip link add eth0 type dummy
                ip addr add 10.0.0.1/24 dev eth0
                ip link set eth0 up
                tcset eth0 --rate 1Mbps --delay 100ms --loss 0.1%
                tcset eth0 --direction incoming --rate 2Mbps --network 192.168.0.0/24
                tcshow eth0
                tc qdisc show | cut -d' ' -f 2,4-5 | sed 's/ifb[0-9]*/ifb/'
                tcset eth0 --rate 3Mbps --overwrite
                tcshow eth0 | grep rate
                tcdel eth0 --all 2>/dev/null
                tc qdisc show
                ip -br link | cut -d' ' -f 1"
            ),
        );
        let without_spaces: String = printed.split_whitespace().collect();
        for wanted in [
            r#""outgoing":{"protocol=ip":{"filter_id":"800::800","delay":"100ms","loss":"0.1%","limit":1000,"rate":"1Mbps"}}"#,
            r#""incoming":{"dst_network=192.168.0.0/24,protocol=ip":{"filter_id":"800::800","limit":1000,"rate":"2Mbps"}}"#,
            "htbdeveth0netemdeveth0ingressdeveth0htbdevifbnetemdevifb",
            r#""rate":"3Mbps""#,
        ] {
            assert!(
                without_spaces.contains(wanted),
                "{user:?}: {wanted}\n{printed}"
            );
        }
        assert!(
            printed.ends_with("\nqdisc noqueue 0: dev eth0 root refcnt 2 \nlo\neth0\n"),
            "{user:?}: {printed}"
        );
    }
}

#[test]
fn ifupdown() {
    if !has("ifup", "ifupdown") {
        return;
    }
    for user in users() {
        let folder = Folder::new();
        let printed = works(
            *user,
            &format!(
                r#"cd {}
cat >interfaces <<END
auto lo
iface lo inet loopback
auto d0
iface d0 inet static
    pre-up ip link add d0 type dummy
    address 192.0.2.1/24
    gateway 192.0.2.254
    up ip route add 198.51.100.0/24 via 192.0.2.9
iface d0 inet6 static
    address 2001:db8::1/64
    dad-attempts 0
    post-down ip link del d0
auto d0.7
iface d0.7 inet static
    address 192.0.3.1/24
    mtu 1400
END
mkdir state
set -e
options="-i interfaces --state-dir state --no-scripts"
ifup -a $options
ip -4 -o addr | awk '{{ print $2, $4 }}'
ip -6 -o addr show dev d0 scope global | awk '{{ print $4 }}'
ip route
ip -o link show d0.7 | grep -o 'mtu [0-9]*'
ifquery --state $options
ifdown d0.7 d0 $options 2>/dev/null
ip -br link | cut -d' ' -f 1"#,
                folder.0.display()
            ),
        );
        assert_eq!(
            printed,
            "lo 127.0.0.1/8
d0 192.0.2.1/24
d0.7 192.0.3.1/24
2001:db8::1/64
default via 192.0.2.254 dev d0 onlink \n192.0.2.0/24 dev d0 proto kernel scope link src 192.0.2.1 \n\
             192.0.3.0/24 dev d0.7 proto kernel scope link src 192.0.3.1 \n\
             198.51.100.0/24 via 192.0.2.9 dev d0 \nmtu 1400\nd0.7=d0.7\nd0=d0\nlo=lo\nlo\n",
            "{user:?}"
        );
    }
}

/// The commands of sqm-scripts: `start_sqm` with `simple.qos`, then `piece_of_cake.qos`, then `stop_sqm`.
#[test]
fn sqm_scripts() {
    for user in users() {
        let printed = works(
            *user,
            r#"set -e
            ip link add eth0 type dummy
            ip link set eth0 up
            for module in sch_ingress act_mirred cls_fw cls_flow cls_u32 sch_htb sch_fq_codel sch_cake ifb; do
                modprobe -q $module
            done
            ip link add name ifb4eth0 type ifb
            fc() { tc filter add dev $dev protocol ip parent 1:0 prio $prio u32 match ip tos $1 0xfc classid $2
                prio=$((prio + 1))
                tc filter add dev $dev protocol ipv6 parent 1:0 prio $prio u32 match ip6 priority $1 0xfc classid $2
                prio=$((prio + 1)); }
            shape() {
                dev=$1 rate=$2
                tc qdisc add dev $dev root handle 1: stab mtu 2047 tsize 512 mpu 68 overhead 44 linklayer atm htb default 12
                tc class add dev $dev parent 1: classid 1:1 htb quantum 1500 rate ${rate}kbit ceil ${rate}kbit
                tc class add dev $dev parent 1:1 classid 1:11 htb quantum 1500 rate 128kbit ceil $((rate / 3))kbit prio 1
                tc class add dev $dev parent 1:1 classid 1:12 htb quantum 1500 rate $((rate / 6))kbit ceil $((rate - 16))kbit prio 2
                tc class add dev $dev parent 1:1 classid 1:13 htb quantum 1500 rate $((rate / 6))kbit ceil $((rate - 16))kbit prio 3
                for class in 1 2 3; do
                    tc qdisc add dev $dev parent 1:1$class handle 1${class}0: fq_codel limit 1001 noecn quantum 300 target 5ms
                    tc filter add dev $dev parent 1:0 protocol ip prio $class handle $class fw classid 1:1$class
                done
                prio=10
                fc 0x00 1:12 && fc 0x20 1:13 && fc 0x10 1:11 && fc 0xb8 1:11 && fc 0xc0 1:11
                tc filter add dev $dev parent 1:0 protocol arp prio $prio handle 1 fw classid 1:11
            }
            shape eth0 2000
            tc qdisc add dev eth0 handle ffff: ingress
            ip link set dev ifb4eth0 up
            shape ifb4eth0 10000
            tc filter add dev eth0 parent ffff: protocol all prio 10 u32 match u32 0 0 flowid 1:1 action mirred egress redirect dev ifb4eth0
            tc qdisc show | cut -d' ' -f 2-5 | LC_ALL=C sort
            tc class show dev ifb4eth0 | cut -d' ' -f 2-
            tc filter show dev ifb4eth0 | grep -c flowid
            tc qdisc del dev eth0 root
            tc qdisc del dev ifb4eth0 root
            tc qdisc add dev eth0 root cake bandwidth 2000kbit besteffort overhead 44 mpu 68 atm dual-srchost nat
            tc qdisc add dev ifb4eth0 root cake bandwidth 10000kbit besteffort wash ingress dual-dsthost nat
            tc qdisc show | cut -d' ' -f 2-
            tc qdisc del dev eth0 ingress
            tc qdisc del dev eth0 root
            ip link set dev ifb4eth0 down
            ip link del ifb4eth0
            tc qdisc show"#,
        );
        let lines: Vec<&str> = printed.lines().collect();
        let mut wanted: Vec<String> = vec!["ingress ffff: dev eth0".to_owned()];
        for dev in ["eth0", "ifb4eth0"] {
            wanted.push(format!("htb 1: dev {dev}"));
            wanted.extend((1..=3).map(|class| format!("fq_codel 1{class}0: dev {dev}")));
        }
        wanted.sort();
        assert_eq!(lines[..9], wanted, "{user:?}: {printed}");
        for line in [
            "htb 1:11 parent 1:1 leaf 110: prio 1 rate 128Kbit ceil 3333Kbit burst 1600b cburst 1599b ",
            "10",
        ] {
            assert!(lines.contains(&line), "{user:?}: {line}\n{printed}");
        }
        assert!(
            printed.contains("cake 8001: dev eth0 root refcnt 2 bandwidth 2Mbit besteffort"),
            "{printed}"
        );
        assert!(
            printed.ends_with("\nqdisc noqueue 0: dev eth0 root refcnt 2 \n"),
            "{printed}"
        );
    }
}

/// Debian's wondershaper shapes a link with cbq: 220 kbit/s up, small packets first, 800 kbit/s down.
#[test]
fn wondershaper_of_debian() {
    if !has("wondershaper", "wondershaper") {
        return;
    }
    let script = "set -e
        ip link add eth0 type dummy
        ip link add lan0 type dummy
        ip link set eth0 up
        ip link set lan0 up
        tc qdisc add dev lan0 clsact
        tc filter add dev lan0 ingress matchall action mirred egress redirect dev eth0
        wondershaper eth0 800 220
        tc qdisc show dev eth0 | cut -d' ' -f 2-5
        tc class show dev eth0
        sleep 5
        before=$(cat /sys/class/net/eth0/statistics/tx_bytes)
        sleep 20
        after=$(cat /sys/class/net/eth0/statistics/tx_bytes)
        sleep 7
        wondershaper eth0 | grep -A 1 'class cbq 1:10'
        tc -s filter show dev eth0 ingress | grep Sent
        echo sent $((after - before))
        wondershaper clear eth0
        tc qdisc show dev eth0";
    let from_lan = "lan0=proto=udp,rate=1mbit,size=1000,stop=35s";
    let small = "lan0=proto=tcp,rate=20,size=60,start=26s,count=100";
    let from_internet = "eth0=rate=2mbit,size=1000,stop=25s";
    for user in users() {
        let arguments = ["run", "--quiet", "--gen", from_lan, "--gen", small];
        let mut run = weir(*user, &arguments);
        run.args(["--gen", from_internet, "--", "sh", "-c", script]);
        let ran = output(&mut run);
        let printed = text(&ran.stdout);
        let why = format!("{user:?}: {printed}{}", text(&ran.stderr));
        assert!(ran.status.success(), "{why}");
        let lines: Vec<&str> = printed.lines().collect();
        let shown = [
            "cbq 1: root refcnt",
            "sfq 30: parent 1:30",
            "sfq 10: parent 1:10",
            "sfq 20: parent 1:20",
            "ingress ffff: parent ffff:fff1",
            "class cbq 1: root rate 10Mbit (bounded,isolated) prio no-transmit",
            "class cbq 1:1 parent 1: rate 220Kbit (bounded,isolated) prio 5",
            "class cbq 1:10 parent 1:1 leaf 10: rate 220Kbit prio 1",
            "class cbq 1:20 parent 1:1 leaf 20: rate 198Kbit prio 2",
            "class cbq 1:30 parent 1:1 leaf 30: rate 176Kbit prio 2",
            "class cbq 1:10 parent 1:1 leaf 10: rate 220Kbit prio 1",
        ];
        let found: Vec<_> = lines
            .iter()
            .take(shown.len())
            .map(|line| line.trim_end())
            .collect();
        assert_eq!(found, shown, "{why}");
        // All small packets have left, the first of 54 bytes, and none was dropped.
        let small = " Sent 5994 bytes 100 pkt (dropped 0, ";
        assert!(lines[shown.len()].starts_with(small), "{why}");
        let near = |octets: f64, seconds: f64, expected: f64| {
            let rate = octets * 8.0 / seconds;
            assert!((rate / expected - 1.0).abs() < 0.02, "{rate}: {why}");
        };
        let number = |line: &str, at: usize| -> f64 {
            let word = line
                .split([' ', ','])
                .filter(|word| !word.is_empty())
                .nth(at);
            word.and_then(|word| word.parse().ok())
                .unwrap_or_else(|| panic!("{why}"))
        };
        // `Sent N bytes N pkts (dropped N, ...`: the policer counts frames without their headers.
        let police = lines[shown.len() + 1];
        let passed = number(police, 3) - number(police, 6);
        near(passed * 986.0, 25.0, 800e3);
        near(number(lines[shown.len() + 2], 1), 20.0, 220e3);
        assert_eq!(
            lines[shown.len() + 3..],
            [
                "Wondershaper queues have been cleared.",
                "qdisc noqueue 0: root refcnt 2 "
            ],
            "{why}"
        );
    }
}

/// The commands of wondershaper's variant for htb (`wshaper.htb`).
#[test]
fn wondershaper() {
    for user in users() {
        let printed = works(
            *user,
            r#"set -e
            ip link add eth0 type dummy
            ip link set eth0 up
            tc qdisc del dev eth0 root 2>/dev/null || true
            tc qdisc del dev eth0 ingress 2>/dev/null || true
            tc qdisc add dev eth0 root handle 1: htb default 20
            tc class add dev eth0 parent 1: classid 1:1 htb rate 220kbit burst 6k
            tc class add dev eth0 parent 1:1 classid 1:10 htb rate 220kbit burst 6k prio 1
            tc class add dev eth0 parent 1:1 classid 1:20 htb rate 198kbit burst 6k prio 2
            tc class add dev eth0 parent 1:1 classid 1:30 htb rate 176kbit burst 6k prio 2
            for class in 10 20 30; do tc qdisc add dev eth0 parent 1:$class handle $class: sfq perturb 10; done
            tc filter add dev eth0 parent 1:0 protocol ip prio 10 u32 match ip tos 0x10 0xff flowid 1:10
            tc filter add dev eth0 parent 1:0 protocol ip prio 10 u32 match ip protocol 1 0xff flowid 1:10
            tc filter add dev eth0 parent 1: protocol ip prio 10 u32 match ip protocol 6 0xff \
                match u8 0x05 0x0f at 0 match u16 0x0000 0xffc0 at 2 match u8 0x10 0xff at 33 flowid 1:10
            for port in 25 80; do
                tc filter add dev eth0 parent 1: protocol ip prio 14 u32 match ip sport $port 0xffff flowid 1:30
            done
            tc filter add dev eth0 parent 1: protocol ip prio 18 u32 match ip dst 0.0.0.0/0 flowid 1:20
            tc qdisc add dev eth0 handle ffff: ingress
            tc filter add dev eth0 parent ffff: protocol ip prio 50 u32 match ip src 0.0.0.0/0 \
                police rate 800kbit burst 10k drop flowid :1
            tc qdisc show dev eth0 | cut -d' ' -f 2-3 | LC_ALL=C sort
            tc filter show dev eth0 | grep -c 'flowid'
            tc filter show dev eth0 ingress | grep -o 'rate .* action drop'
            tc qdisc del dev eth0 root
            tc qdisc del dev eth0 ingress
            tc qdisc show"#,
        );
        assert_eq!(
            printed,
            "htb 1:\ningress ffff:\nsfq 10:\nsfq 20:\nsfq 30:\n6\nrate 800Kbit burst 10Kb mtu 2Kb action drop\n\
             qdisc noqueue 0: dev eth0 root refcnt 2 \n",
            "{user:?}"
        );
    }
}
