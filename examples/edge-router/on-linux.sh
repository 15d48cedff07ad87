#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# on-linux.sh [DIRECTORY]: runs this example on real Linux. expected/ holds the results.
#
# Runs setup.sh with veth ports and sends the recorded frames to lan0 and wan0 at their recorded
# pace. Writes to DIRECTORY (default: out) lan.txt, wan.txt and tap.txt, the frames that left these
# devices as summarised by summary.sh, and counters.txt, the filters' counters. Needs the same
# programs as record.sh. If the host's kernel lacks a feature:
#   ../on-linux.sh examples/edge-router/on-linux.sh DIRECTORY
set -eu

here=$(dirname "$(readlink -f "$0")")
out=${1:-out}
mkdir -p "$out"
out=$(readlink -f "$out")
if [ "${ON_LINUX_INSIDE:-}" != yes ]; then
    ON_LINUX_INSIDE=yes exec unshare --net --mount --pid --fork --kill-child "$0" "$out"
fi
mount -t tmpfs tmpfs /run
mount -t proc proc /proc
mkdir -p /run/netns /run/work
cd /run/work

PORT=veth "$here/setup.sh"

# The far ends of the ports are in namespaces that send nothing on their own.
listeners=
for side in "edge lan" "core wan"; do
    set -- $side
    ip netns add "$2"
    ip netns exec "$2" sysctl -q -w net.ipv6.conf.default.disable_ipv6=1
    ip -n "$1" link set veth0 netns "$2"
    ip -n "$2" link set veth0 arp off up
    ip netns exec "$2" tcpdump -Z root -i veth0 -Q in -s 4096 -B 16384 -n -U -w "$2.pcap" 2>"$2.log" &
    listeners="$listeners $!"
done
ip netns exec edge tcpdump -Z root -i tap -Q out -s 4096 -B 16384 -n -U -w tap.pcap 2>tap.log &
listeners="$listeners $!"
# Waits for duplicate address detection of the link-local addresses.
sleep 4

cat >replay.py <<'PYTHON'
"""replay.py CAPTURE FIRST START: sends the frames on veth0; stamp FIRST corresponds to clock START."""
import gzip, socket, struct, sys, time

def frames(name):
    with gzip.open(name) as file:
        while head := file.read(8):
            kind, total = struct.unpack("<II", head)
            body = file.read(total - 8)
            if kind == 6:
                _, high, low, captured, _ = struct.unpack_from("<IIIII", body)
                yield high << 32 | low, body[20 : 20 + captured]

if len(sys.argv) == 2:
    print(next(frames(sys.argv[1]))[0])
    sys.exit()
first, start = int(sys.argv[2]), float(sys.argv[3])
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
port.bind(("veth0", 0))
for stamp, data in frames(sys.argv[1]):
    time.sleep(max(0, start + (stamp - first) / 1e9 - time.monotonic()))
    port.send(data)
PYTHON
first=$(for side in lan wan; do python3 replay.py "$here/$side.pcapng.gz"; done | sort -n | head -n 1)
start=$(python3 -c 'import time; print(time.monotonic() + 1)')
players=
for side in lan wan; do
    ip netns exec $side python3 replay.py "$here/$side.pcapng.gz" "$first" "$start" &
    players="$players $!"
done
for player in $players; do wait "$player"; done
# Waits until the last unanswered neighbour solicitation has timed out.
sleep 4
kill -INT $listeners
for listener in $listeners; do wait "$listener"; done
for name in lan wan tap; do
    grep -q '^0 packets dropped by kernel' $name.log || { echo "on-linux.sh: tcpdump lost frames" >&2; exit 1; }
done

for name in lan wan tap; do
    "$here/summary.sh" $name.pcap >"$out/$name.txt"
done
# Strips the seconds, which differ from run to run.
{
    tc -n edge -s filter show dev lan0 ingress
    tc -n core -s filter show dev wan0 egress
    tc -n edge -s qdisc show dev ifb0
    for router in edge core; do
        ip netns exec $router awk -v router=$router '
            FNR % 2 { split($0, name); next }
            $1 == "Ip:" || $1 == "Icmp:" { for (i = 2; i <= NF; i++) if ($i) print router, $1 name[i], $i }
        ' /proc/net/snmp
        ip netns exec $router awk -v router=$router \
            '$2 && /^(Ip6InHdrErrors|Ip6InNoRoutes|Ip6OutForw|Icmp6InEchos|Icmp6OutDest|Icmp6OutTime|Icmp6OutEcho)/ { print router, $1, $2 }' \
            /proc/net/snmp6
    done
} | sed -E 's/ installed .*//; s/^(qdisc [a-z]+) [0-9a-f]+:/\1/' >"$out/counters.txt"
wc -l "$out"/*.txt
