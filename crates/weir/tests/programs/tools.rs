// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unmodified tools and servers talk through a router: mtr, arping, dig with dnsmasq, iperf3, socat, nc, dhclient,
//! tcpdump, WireGuard, OpenVPN.

use crate::chain::{CHAIN, Time, have, holds, ordinarily, script};
use crate::common::{Folder, WEIR, command, ordinary_user, output, skip, text};

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

/// The addresses are those that Linux 6.1 records.
#[test]
fn ping_records_the_route() {
    if !have(&[("ping", "iputils-ping")]) {
        return;
    }
    let printed = ordinarily(Time::Virtual, "a ping -n -c 1 -R 10.0.1.2");
    let route = "RR: \t10.0.0.2\n\t10.0.1.1\n\t10.0.1.2\n\t10.0.1.2\n\t10.0.0.1\n\t10.0.0.2\n";
    holds(&printed, &[route]);
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
client() { await bound 5201; a timeout 60 iperf3 -J -p 5201 -n ${N:-300K} -c \"$@\" > out.json || cat out.json server.log
python3 -c '
import json; end = json.load(open(\"out.json\"))[\"end\"]
one = end.get(\"sum_received\") or end[\"sum\"]
print(\"received\" if one[\"bytes\"] > 100000 else end, \"lost\", one.get(\"lost_packets\", 0))'; }
client 10.0.1.2; client 10.0.1.2 -R; client fd01::2
# The receiver may not run meanwhile: what is sent fits into its buffer.
N=120K client 10.0.1.2 -u -b 10M; N=120K client fd01::2 -u -b 10M -R
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
a sh -c 'tcpdump -Z root -n -i v0 port 99 2> five & until grep -q listening five; do sleep 0.1; done; kill $!; wait'
grep captured five"#;
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

/// wireguard-go has its socket in `/run`, so that the stack has a `/run` of its own.
#[test]
fn wireguard_makes_a_tunnel() {
    let programs = [
        ("wireguard-go", "wireguard-go"),
        ("wg", "wireguard-tools"),
        ("unshare", "util-linux"),
    ];
    if !have(&programs) {
        return;
    }
    let user = ordinary_user();
    let allowed = output(command(user, "unshare").args(["-rm", "true"]));
    if !allowed.status.success() {
        return skip(&format!("no namespaces: {}", text(&allowed.stderr)));
    }
    let folder = Folder::new();
    let inside = r#"umask 077
for n in a b; do wg genkey > $n.key; wg pubkey < $n.key > $n.pub; done
# NAMESPACE PEER ADDRESS PEER'S-ADDRESS ENDPOINT
tunnel() {
    ip netns exec $1 wireguard-go -f wg-$1 > $1.log 2>&1 &
    await wg show wg-$1
    wg set wg-$1 private-key $1.key listen-port 51820 peer $(cat $2.pub) allowed-ips $4/32 endpoint $5:51820
    ip -n $1 addr add $3/24 dev wg-$1; ip -n $1 link set wg-$1 up
}
tunnel a b 192.168.9.1 192.168.9.2 10.0.1.2
tunnel b a 192.168.9.2 192.168.9.1 '[fd00::2]'
a ping -n -c 2 -i 0.2 -W 5 192.168.9.2
head -c 3000000 /dev/urandom > file
b python3 -m http.server --bind 192.168.9.2 80 > /dev/null 2>&1 &
ready 80
a curl -sS -m 20 -o copy http://192.168.9.2/file
cmp file copy && echo same
ip -n a link show wg-a; wg show wg-a; a ss -Hlun
finish"#;
    let inside = script(CHAIN, Time::Real, &folder, inside);
    let run = r#"mount -t tmpfs run /run && exec "$0" run --quiet --real-time -- bash -c "exec 2>&1
$1""#;
    let mut command = command(user, "unshare");
    command.args(["-rm", "sh", "-c", run, WEIR, &inside]);
    let found = output(&mut command);
    let printed = text(&found.stdout);
    assert!(found.status.success(), "{printed}\n{}", text(&found.stderr));
    holds(
        &printed,
        &[
            "64 bytes from 192.168.9.2: icmp_seq=1 ttl=64",
            " 0% packet loss",
            "same",
            "<POINTOPOINT,MULTICAST,NOARP,UP,LOWER_UP> mtu 1420",
            "latest handshake: ",
            "0.0.0.0:51820",
        ],
    );
}

#[test]
fn openvpn_makes_a_tunnel() {
    if !have(&[("openvpn", "openvpn")]) {
        return;
    }
    let script = r#"openvpn --genkey secret key > /dev/null
# NAMESPACE PROTOCOL ADDRESS PEER'S-ADDRESS OPTION...
tunnel() {
    local n=$1 protocol=$2 own=$3 other=$4; shift 4
    ip netns exec $n openvpn --dev tun9 --proto $protocol --ifconfig $own $other --secret key --cipher AES-256-CBC \
        --port 1194 "$@" > $n.log 2>&1 &
}
for protocol in udp tcp; do
    case $protocol in udp) ends="udp udp" ;; tcp) ends="tcp-server tcp-client" ;; esac
    tunnel b ${ends% *} 192.168.7.2 192.168.7.1
    ready 1194
    tunnel a ${ends#* } 192.168.7.1 192.168.7.2 --remote 10.0.1.2
    await a ping -n -c 1 -W 1 192.168.7.2
    a ping -n -c 2 -i 0.2 -W 5 -s 3000 192.168.7.2 | grep loss
    finish
done"#;
    let printed = ordinarily(Time::Real, script);
    let whole = "2 packets transmitted, 2 received, 0% packet loss";
    holds(&printed, &[whole, whole]);
}
