# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: u0 mplsouter
# out: out0
# Labelled packets: swapped, popped, with more labels, to several hops, with explicit nulls, and what is dropped.
# show: ip -f mpls route show
# show: ip -s link show out0 | tail -n +3
# show: ip stats show dev u0 group afstats | tail -n +2
# show: ip stats show dev out0 group afstats | tail -n +2
. "$(dirname "$0")/common.sh"
[ -n "${WEIR-}" ] || python3 -c "import socket; socket.socket(28, 3, 0)" 2>/dev/null || true
ip link set lo up
ip link set out0 address 02:00:00:00:0a:0a
sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.lo.accept_local=1 net.ipv4.conf.lo.rp_filter=0
ip addr add 198.51.100.1/24 dev out0
for n in 2 3 4 9; do ip neigh add 198.51.100.$n lladdr 02:00:00:00:09:0$n dev out0; done
sysctl -qw net.mpls.platform_labels=1000 net.mpls.conf.u0.input=1
ip -f mpls route add 100 as 200 via inet 198.51.100.2
ip -f mpls route add 101 as 201/262144/400000 via inet 198.51.100.3
ip -f mpls route add 102 via inet 198.51.100.2
ip -f mpls route add 103 as 203 via link 02:00:00:00:09:99 dev out0
ip -f mpls route add 104 as 300000 dev out0
ip -f mpls route add 105 nexthop as 300 via inet 198.51.100.2 nexthop as 301 via inet 198.51.100.3 nexthop as 302 via inet 198.51.100.4
ip -f mpls route add 106 ttl-propagate disabled via inet 198.51.100.2
ip -f mpls route add 107 as 0 via inet 198.51.100.4
