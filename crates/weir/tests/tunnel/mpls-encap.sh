# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 ipinner
# out: out0
# Packets to which routes add labels.
# show: for t in 5 6 7 8; do ip route show table $t; done; ip -6 route show default
# show: ip stats show dev out0 group afstats | tail -n +2
. "$(dirname "$0")/common.sh"
[ -n "${WEIR-}" ] || python3 -c "import socket; socket.socket(28, 3, 0)" 2>/dev/null || true
ip link set lo up
ip link set in0 address 02:00:00:00:00:d0
ip link set out0 address 02:00:00:00:0a:0a
# The frames come from an address of the underlay.
ip neigh add 2001:db8:1::b9 lladdr 02:00:00:00:06:b9 dev u0
sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.in0.accept_local=1
sysctl -qw net.ipv6.conf.all.forwarding=1 net.ipv6.conf.in0.disable_ipv6=0 net.ipv6.auto_flowlabels=0
sysctl -qw net.ipv6.conf.out0.addr_gen_mode=1
sysctl -qw net.ipv6.conf.out0.disable_ipv6=0
ip addr add 203.0.113.1/24 dev out0
ip -6 addr add 2001:db8:9::1/64 dev out0 nodad
for n in 2 3 4 9; do
    ip neigh add 203.0.113.$n lladdr 02:00:00:00:09:0$n dev out0
    ip neigh add 2001:db8:9::$n lladdr 02:00:00:00:19:0$n dev out0
done
# Nothing is for this host, which would answer with errors.
ip rule add pref 3 from 198.51.100.0/24 blackhole
ip rule add pref 4 lookup local
ip rule del pref 0
ip rule add pref 5 ipproto udp lookup 5
ip rule add pref 6 ipproto tcp lookup 6
ip rule add pref 7 ipproto icmp lookup 7
ip rule add pref 8 to 198.51.100.0/24 lookup 8
ip route add 198.51.100.0/24 table 5 encap mpls 100 via 203.0.113.2
ip route add 198.51.100.0/24 table 6 encap mpls 16/262144/400000 ttl 9 via 203.0.113.3
ip route add 198.51.100.0/24 table 7 encap mpls 300000 dev out0
ip route add 198.51.100.0/24 table 8 nexthop encap mpls 0 via 203.0.113.4
ip -6 route add default encap mpls 500/501 via 2001:db8:9::2
sysctl -qw net.mpls.ip_ttl_propagate=0 net.mpls.default_ttl=77
