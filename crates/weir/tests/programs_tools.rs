// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unmodified tools and servers talk through a router: mtr, arping, dig with dnsmasq, iperf3, socat, nc, dhclient.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

#[path = "common/chain.rs"]
mod chain;
mod common;

use chain::{Time, have, holds, ordinarily};

#[test]
fn mtr_sees_each_hop() {
    if !have(&[("mtr", "mtr-tiny")]) {
        return;
    }
    let printed = ordinarily(
        Time::Virtual,
        "a mtr -n -r -c 3 10.0.1.2; a mtr -n -r -c 3 fd01::2",
    );
    let hop = |number: u32, address: &str| {
        format!("  {number}.|-- {address:<25}  0.0%     3    0.0   0.0   0.0   0.0   0.0")
    };
    holds(
        &printed,
        &[
            &hop(1, "10.0.0.1"),
            &hop(2, "10.0.1.2"),
            &hop(1, "fd00::1"),
            &hop(2, "fd01::2"),
        ],
    );
    let printed = ordinarily(Time::Real, "a mtr -n -r -c 1 -i 0.1 10.0.1.2");
    holds(&printed, &["1.|-- 10.0.0.1 ", "2.|-- 10.0.1.2 "]);
}

#[test]
fn arping_asks_a_neighbour() {
    if !have(&[("arping", "iputils-arping")]) {
        return;
    }
    let script = "a arping -c 2 -I v0 10.0.0.1; a arping -c 1 -w 1 -I v0 10.0.0.77 || echo nobody
a arping -D -c 1 -w 1 -I v0 10.0.0.1 || echo taken";
    for time in [Time::Virtual, Time::Real] {
        let printed = ordinarily(time, script);
        let parts = [
            "ARPING 10.0.0.1 from 10.0.0.2 v0",
            "Received 2 response(s)",
            "Received 0 response(s)",
            "nobody",
            "Unicast reply from 10.0.0.1",
            "taken",
        ];
        holds(&printed, &parts);
    }
}

#[test]
fn dig_asks_dnsmasq() {
    if !have(&[("dig", "bind9-dnsutils"), ("dnsmasq", "dnsmasq-base")]) {
        return;
    }
    let script = "text() { printf \"$1%.0s\" {1..200}; }
b dnsmasq -k --conf-file=/dev/null --user=root --group=root --pid-file= --no-resolv --no-hosts --port=5353 \\
    --address=/weir.test/192.0.2.7 --address=/weir.test/2001:db8::7 \\
    --txt-record=long.test,$(text x),$(text y),$(text z) &
ready 5353
a dig +short -p 5353 @10.0.1.2 weir.test A
a dig +short -p 5353 @fd01::2 weir.test AAAA
a dig +short +tcp -p 5353 @10.0.1.2 weir.test A
a dig +short +tcp -p 5353 @fd01::2 weir.test AAAA
a dig +noedns -p 5353 @10.0.1.2 long.test TXT | grep -E '^;; (Trunc|SERVER)'
a dig +short +tries=1 +timeout=1 -p 5354 @10.0.1.2 weir.test || echo nobody
finish";
    for time in [Time::Virtual, Time::Real] {
        let printed = ordinarily(time, script);
        let parts = [
            "192.0.2.7\n2001:db8::7\n192.0.2.7\n2001:db8::7\n;; Truncated, retrying in TCP mode.\n\
             ;; SERVER: 10.0.1.2#5353(10.0.1.2) (TCP)\n",
            "connection refused",
            "nobody",
        ];
        holds(&printed, &parts);
    }
}

#[test]
fn iperf3_sends_both_ways() {
    if !have(&[("iperf3", "iperf3")]) {
        return;
    }
    let script = "b iperf3 -s -p 5201 > server.log 2>&1 &
ready 5201
client() { await bound 5201; a timeout 60 iperf3 -J -p 5201 -n 300K -c \"$@\" > out.json || cat out.json server.log
python3 -c '
import json; end = json.load(open(\"out.json\"))[\"end\"]
one = end.get(\"sum_received\") or end[\"sum\"]
print(\"received\" if one[\"bytes\"] > 100000 else end, \"lost\", one.get(\"lost_packets\", 0))'; }
client 10.0.1.2; client 10.0.1.2 -R; client fd01::2
client 10.0.1.2 -u -b 10M; client fd01::2 -u -b 10M -R
finish";
    let printed = ordinarily(Time::Real, script);
    assert_eq!(printed.matches("received lost 0").count(), 5, "{printed}");
}

#[test]
fn socat_and_nc_connect() {
    if !have(&[
        ("socat", "socat"),
        ("nc", "netcat-openbsd"),
        ("rev", "bsdextrautils"),
    ]) {
        return;
    }
    let script = "b socat TCP6-LISTEN:7000,fork,reuseaddr EXEC:rev & b socat UDP6-RECVFROM:7001,fork EXEC:rev &
b nc -l -k -p 7002 > tcp & b nc -u -l -p 7003 > udp &
ready 7000 7001 7002 7003
echo hello | a socat - TCP:10.0.1.2:7000
echo hello | a socat - 'TCP6:[fd01::2]:7000'
echo datagram | a socat -t 1 - UDP:10.0.1.2:7001
echo one | a nc -N 10.0.1.2 7002; echo two | a nc -u -q 1 10.0.1.2 7003
a nc -z -v -w 2 10.0.1.2 7002 || true; a nc -z -v -w 2 10.0.1.2 7004 || true
await grep -q two udp; await grep -q one tcp; cat tcp udp
finish";
    let expected = "olleh\nolleh\nmargatad\nConnection to 10.0.1.2 7002 port [tcp/*] succeeded!\n\
                    nc: connect to 10.0.1.2 port 7004 (tcp) failed: Connection refused\none\ntwo\n";
    for time in [Time::Virtual, Time::Real] {
        assert_eq!(ordinarily(time, script), expected);
    }
}

#[test]
fn dhclient_gets_an_address_from_dnsmasq() {
    if !have(&[("dhclient", "isc-dhcp-client"), ("dnsmasq", "dnsmasq-base")]) {
        return;
    }
    let script = r#"ip -n a addr flush dev v0; ip -n a route flush table main
r dnsmasq -k --conf-file=/dev/null --user=root --group=root --pid-file= --no-resolv --no-hosts --port=0 --interface=r0 \
    --dhcp-range=10.0.0.50,10.0.0.50,1h --dhcp-option=3,10.0.0.1 --dhcp-leasefile=$D/leases --dhcp-authoritative \
    --no-ping --log-facility=- > server.log 2>&1 &
cat > script.sh <<'END'
#!/bin/sh
echo $reason $new_ip_address $new_routers
if [ $reason = BOUND ]; then ip addr add $new_ip_address/$new_subnet_mask dev $interface; ip route add default via $new_routers; fi
END
chmod +x script.sh; echo 'timeout 30;' > dhclient.conf
served() { r ss -Hlun | grep -q ':67 '; }
await served
a dhclient -1 -d -cf dhclient.conf -sf $D/script.sh -lf $D/lease -pf $D/pid v0 > client.log 2>&1 &
await grep -q ^BOUND client.log || cat client.log server.log
await sh -c 'ip -n a route | grep default'
ip -n a -br -4 addr show v0; ip -n a route show default
a ping -n -c 1 10.0.1.2 | grep received
finish"#;
    for time in [Time::Virtual, Time::Real] {
        let printed = ordinarily(time, script);
        let parts = ["10.0.0.50/24", "default via 10.0.0.1 dev v0", "1 received"];
        holds(&printed, &parts);
    }
}

#[test]
fn tcpdump_shows_packets() {
    if !have(&[("tcpdump", "tcpdump"), ("ping", "iputils-ping")]) {
        return;
    }
    let script = r#"listen() { a tcpdump -Z root -n "${@:2}" > $1 2> log & await grep -q listening log; mv log $1.log; }
listen one -i v0 -c 4 icmp
listen two -i any -c 1 'icmp6[0] = 128'
listen three -i v0 -c 1 -s 64 -w file udp
a ping -n -c 2 10.0.1.2 > /dev/null; a ping -n -c 1 fd01::2 > /dev/null; echo x | a nc -u -q 0 10.0.1.2 9
wait; cat one two; tcpdump -Z root -n -r file 2> /dev/null
# A filter on a tag, which is metadata.
ip -n a link add link v0 name v0.7 type vlan id 7; ip -n a link set v0.7 up; ip -n a addr add 10.7.0.1/24 dev v0.7
listen four -e -i v0 -c 1 vlan 7 and arp
a ping -n -c 1 -W 1 10.7.0.2 > /dev/null || true; wait; cat four
a timeout 2 tcpdump -Z root -n -i v0 port 99 2>&1 | grep captured"#;
    for time in [Time::Virtual, Time::Real] {
        let printed = ordinarily(time, script);
        let parts = [
            "IP 10.0.0.2 > 10.0.1.2: ICMP echo request, id ",
            "seq 1, length 64",
            "IP 10.0.1.2 > 10.0.0.2: ICMP echo reply, id ",
            "IP 10.0.0.2 > 10.0.1.2: ICMP echo request, id ",
            "seq 2, length 64",
            "IP 10.0.1.2 > 10.0.0.2: ICMP echo reply, id ",
            "v0    Out IP6 fd00::2 > fd01::2: ICMP6, echo request",
            "IP 10.0.0.2.",
            "> 10.0.1.2.9: UDP, length 2",
            "ethertype 802.1Q (0x8100), length 46: vlan 7, p 0, ethertype ARP (0x0806), Request who-has 10.7.0.2 tell 10.7.0.1",
            "0 packets captured",
        ];
        holds(&printed, &parts);
    }
}
