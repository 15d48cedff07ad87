#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Usage: examples/live-router/run.sh [SECONDS]
#
# Two hosts in network namespaces of the kernel talk through a router and shaper in Weir: a veth pair leads
# from each host to a packet socket, which is a port of the stack. iperf3 crosses, first unshaped, then
# through htb and netem, and a report ends it. Needs iperf3 and user namespaces, and no privilege: the
# namespaces are this script's own. WEIR names the program (default: weir, or the one built here).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
seconds=${1:-3}
weir=${WEIR:-$(command -v weir || echo "$here/../../target/release/weir")}
export PATH="$PATH:/usr/sbin:/sbin"

if [ "${LIVE_ROUTER_INSIDE-}" != 1 ]; then
    # A network namespace of its own, in which this script may make devices.
    exec env LIVE_ROUTER_INSIDE=1 WEIR="$weir" unshare -rnm --propagation slave "$0" "$@"
fi

dir=$(mktemp -d)
socket=$dir/control
# The names of namespaces stand in a folder of their own, so that those of the host are left alone.
mount -t tmpfs none /run
mkdir -p /run/netns
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$dir"' EXIT

"$weir" up --socket "$socket" >"$dir/log" &
for _ in $(seq 100); do [ -S "$socket" ] && break; sleep 0.1; done

# The hosts, of the kernel.
for n in 1 2; do
    ip netns add host$n
    ip link add to$n type veth peer name eth0 netns host$n
    ip link set to$n up
    ip -n host$n addr add 10.0.$n.2/24 dev eth0
    ip -n host$n link set eth0 up
    ip -n host$n route add default via 10.0.$n.1
done

# The router, in Weir.
"$weir" exec --socket "$socket" -- sh -ec '
    for n in 1 2; do
        ip link add lan$n type dummy
        ip addr add 10.0.$n.1/24 dev lan$n
        ip link set lan$n up
    done
    sysctl -qw net.ipv4.ip_forward=1'
for n in 1 2; do
    "$weir" port add --socket "$socket" lan$n af_packet dev=to$n
done

ip netns exec host1 ping -c 2 -i 0.2 10.0.2.2
ip netns exec host2 iperf3 -s >/dev/null &
sleep 0.5
echo "== unshaped"
ip netns exec host1 iperf3 -f m -t "$seconds" -c 10.0.2.2 | tail -n 4 | head -n 2
echo "== htb 20 Mbit/s and netem 10 ms"
"$weir" exec --socket "$socket" -- sh -ec '
    tc qdisc add dev lan2 root handle 1: htb default 1
    tc class add dev lan2 parent 1: classid 1:1 htb rate 20mbit burst 15k
    tc qdisc add dev lan1 root netem delay 10ms'
ip netns exec host1 iperf3 -f m -t "$seconds" -c 10.0.2.2 | tail -n 4 | head -n 2
echo "== ports"
"$weir" port show --socket "$socket"
echo "== report"
"$weir" stat --socket "$socket"
