#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# record.sh [DIRECTORY]: records lan.pcapng.gz and wan.pcapng.gz, the input of this example.
#
# Real programs communicate across two real Linux routers, in temporary namespaces:
#
#   client ------------ lan0 edge to-core --- to-edge core wan0 ------------ server
#   10.1.0.2/24         10.1.0.1   10.0.0.1   10.0.0.2     10.2.0.1     10.2.0.2/24
#   2001:db8:1::2/64    ::1      2001:db8:ff::1  ::2       ::1     2001:db8:2::2/64
#   02:00:00:01:00:02   ..:01:00:01                        ..:02:00:01   02:00:00:02:00:02
#   VLAN 10: 10.1.10.2/24, 10.1.10.1
#
# lan.pcapng.gz holds the frames that edge received on lan0, wan.pcapng.gz those that core received
# on wan0. setup.sh's routers have the same addresses, so they route these frames in the same way.
#
# Needs root, and a kernel with veth and vlan. Without these, record on a separate kernel
# (../on-linux.sh examples/edge-router/record.sh).
# Debian: apt install curl dnsmasq-base dnsutils ethtool iperf3 iproute2 iputils-ping python3
# tcpdump traceroute
set -eu

here=$(dirname "$(readlink -f "$0")")
out=$(readlink -f "${1:-$here}")

for tool in curl dig dnsmasq ethtool iperf3 ip ping python3 tcpdump traceroute; do
    command -v $tool >/dev/null || { echo "record.sh: $tool is missing, see its first lines" >&2; exit 1; }
done
[ "$(id -u)" = 0 ] || { echo "record.sh: needs root, or ../on-linux.sh" >&2; exit 1; }

# A private network and mount namespace: everything created below disappears with the last process.
if [ "${RECORD_INSIDE:-}" != yes ]; then
    RECORD_INSIDE=yes exec unshare --net --mount --pid --fork --kill-child "$0" "$out"
fi
mount -t tmpfs tmpfs /run
mount -t proc proc /proc
work=/run/record
mkdir -p /run/netns $work
cd $work

for name in client edge core server; do
    ip netns add $name
    ip -n $name link set lo up
done

# wire NAMESPACE DEVICE ADDRESS NAMESPACE DEVICE ADDRESS: connects two hosts by a cable
wire() {
    ip link add "$2" netns "$1" address "$3" type veth peer name "$5" netns "$4" address "$6"
    # Disables offloads, so that frames are as on a wire: no larger than the MTU, with checksums.
    for end in "$1 $2" "$4 $5"; do
        set -- $end
        ip netns exec "$1" ethtool -K "$2" tx off rx off tso off gso off gro off >/dev/null
    done
}
wire client eth0 02:00:00:01:00:02 edge lan0 02:00:00:01:00:01
wire edge to-core 02:00:00:00:00:01 core to-edge 02:00:00:00:00:02
wire core wan0 02:00:00:02:00:01 server eth0 02:00:00:02:00:02
ip -n client link add link eth0 name eth0.10 type vlan id 10
ip -n edge link add link lan0 name lan0.10 type vlan id 10

for router in edge core; do
    ip netns exec $router sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 \
        net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 \
        net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0
done

# listen NAMESPACE DEVICE FILE: records the frames that DEVICE receives
listen() {
    ip netns exec "$1" tcpdump -Z root -i "$2" -Q in -s 4096 -B 16384 -n \
        --time-stamp-precision=nano -U -w "$3" 2>"$3.log" &
    listeners="${listeners:-} $!"
    for _ in $(seq 50); do
        grep -q 'listening on' "$3.log" && return
        sleep 0.1
    done
    cat "$3.log" >&2
    exit 1
}
for end in "edge lan0" "edge to-core" "core to-edge" "core wan0"; do
    set -- $end
    ip -n "$1" link set "$2" up
done
listen edge lan0 lan.pcap
listen core wan0 wan.pcap

ip -n edge link set lan0.10 up
ip -n edge addr add 10.1.0.1/24 dev lan0
ip -n edge addr add 10.1.10.1/24 dev lan0.10
ip -n edge addr add 2001:db8:1::1/64 dev lan0
ip -n edge addr add 10.0.0.1/30 dev to-core
ip -n edge addr add 2001:db8:ff::1/64 dev to-core
ip -n edge route add default via 10.0.0.2
ip -n edge route add default via 2001:db8:ff::2
ip -n edge route add prohibit 10.8.0.0/16
ip -n edge route add unreachable 10.9.0.0/16
ip -n edge route add unreachable 2001:db8:9::/48

ip -n core addr add 10.2.0.1/24 dev wan0
ip -n core addr add 2001:db8:2::1/64 dev wan0
ip -n core addr add 10.0.0.2/30 dev to-edge
ip -n core addr add 2001:db8:ff::2/64 dev to-edge
ip -n core route add 10.1.0.0/16 via 10.0.0.1
ip -n core route add 2001:db8:1::/64 via 2001:db8:ff::1

ip -n client link set eth0 up
ip -n client link set eth0.10 up
ip -n client addr add 10.1.0.2/24 dev eth0
ip -n client addr add 10.1.10.2/24 dev eth0.10
ip -n client addr add 2001:db8:1::2/64 dev eth0
ip -n client route add default via 10.1.0.1
ip -n client route add default via 2001:db8:1::1
ip -n client rule add from 10.1.10.2 table 10
ip -n client route add default via 10.1.10.1 table 10

ip -n server link set eth0 up
ip -n server addr add 10.2.0.2/24 dev eth0
ip -n server addr add 2001:db8:2::2/64 dev eth0
ip -n server route add default via 10.2.0.1
ip -n server route add default via 2001:db8:2::1
# Waits for duplicate address detection.
sleep 3

mkdir www
python3 - <<'PYTHON'
import json
json.dump([{"id": n, "square": n * n} for n in range(2000)], open("www/numbers.json", "w"))
open("www/index.html", "w").write("<title>Weir</title><p>" + "What passes a weir, passes it. " * 100)
PYTHON
ip netns exec server python3 -m http.server --bind :: --directory www 80 >http.log 2>&1 &
ip netns exec server dnsmasq --keep-in-foreground --no-resolv --no-hosts --conf-file=/dev/null \
    --pid-file= --user=root --local=/example/ --host-record=www.example,10.2.0.2,2001:db8:2::2 \
    --txt-record=www.example,"$(printf 'a%.0s' $(seq 200))" >dns.log 2>&1 &
ip netns exec server iperf3 --server >iperf3.log 2>&1 &
for port in 53 80 5201; do
    for _ in $(seq 100); do
        ip netns exec server ss -Hltn "sport = :$port" | grep -q . && continue 2
        sleep 0.1
    done
    echo "record.sh: no server on port $port" >&2
    exit 1
done

# talk COMMAND...: runs a command on the client; some are meant to fail
talk() {
    echo "# $*"
    ip netns exec client "$@" || echo "# exit status $?"
}
{
    talk ping -n -c 3 -i 0.2 10.2.0.2
    talk ping -n -c 3 -i 0.2 2001:db8:2::2
    talk ping -n -c 2 -i 0.2 10.1.0.1
    talk ping -n -c 2 -i 0.2 2001:db8:1::1
    talk ping -n -c 3 -i 0.2 -I 10.1.10.2 10.2.0.2
    talk ping -n -c 2 -i 0.2 -s 4000 10.2.0.2
    talk ping -n -c 2 -i 0.2 -s 4000 2001:db8:2::2
    talk dig +tries=1 @10.2.0.2 www.example A
    talk dig +tries=1 @2001:db8:2::2 www.example AAAA
    talk dig +tries=1 +tcp @10.2.0.2 www.example TXT
    talk dig +tries=1 @10.2.0.2 nowhere.example A
    talk curl -sS http://10.2.0.2/
    talk curl -sS -o /dev/null -w '%{http_code} %{size_download}\n' http://10.2.0.2/numbers.json
    talk curl -sS -6 -o /dev/null -w '%{http_code} %{size_download}\n' 'http://[2001:db8:2::2]/numbers.json'
    talk curl -sS http://10.2.0.2:81/
    talk iperf3 -c 10.2.0.2 -n 300K
    talk iperf3 -c 10.2.0.2 -n 200K -R
    talk iperf3 -c 10.2.0.2 -u -b 2M -n 60K -l 1200
    talk traceroute -n -m 5 -q 3 -w 1 10.2.0.2
    talk traceroute -n -6 -m 5 -q 3 -w 1 2001:db8:2::2
    talk traceroute -n -I -m 5 -q 1 -w 1 10.2.0.2
    # Edge rejects these, and the client receives the ICMP errors.
    talk ping -n -c 2 -i 0.2 -W 1 10.8.0.1
    talk ping -n -c 2 -i 0.2 -W 1 10.9.0.1
    talk ping -n -c 2 -i 0.2 -W 1 2001:db8:9::1
    # There is no such host, so core gets no answer to its ARP requests.
    talk ping -n -c 1 -W 1 10.2.0.77
} 2>&1 | tee talk.log
sleep 1
kill -INT $listeners
for listener in $listeners; do wait "$listener"; done
for name in lan wan; do
    grep -q '^0 packets dropped by kernel' $name.pcap.log || { echo "record.sh: tcpdump lost frames" >&2; exit 1; }
done

# Converts tcpdump's pcap to pcapng, which also holds the device name. No option describes the machine.
for name in lan wan; do
    python3 - $name.pcap ${name}0 <<'PYTHON' | gzip -9 -n >"$out/$name.pcapng.gz"
import struct
import sys

def block(kind, body):
    body += bytes(-len(body) % 4)
    length = struct.pack("<I", len(body) + 12)
    sys.stdout.buffer.write(struct.pack("<I", kind) + length + body + length)

with open(sys.argv[1], "rb") as pcap:
    assert struct.unpack("<I", pcap.read(24)[:4])[0] == 0xA1B23C4D, "nanoseconds, little endian"
    name = sys.argv[2].encode()
    block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    padded = name + bytes(-len(name) % 4)
    block(1, struct.pack("<HHIHH", 1, 0, 0, 2, len(name)) + padded + struct.pack("<HHBxxxI", 9, 1, 9, 0))
    while header := pcap.read(16):
        seconds, nanoseconds, captured, length = struct.unpack("<IIII", header)
        stamp = seconds * 10**9 + nanoseconds
        data = pcap.read(captured)
        block(6, struct.pack("<IIIII", 0, stamp >> 32, stamp & 0xFFFFFFFF, captured, length)
              + data + bytes(-len(data) % 4) + struct.pack("<HHII", 2, 4, 1, 0))
PYTHON
done
ls -l "$out/lan.pcapng.gz" "$out/wan.pcapng.gz"
