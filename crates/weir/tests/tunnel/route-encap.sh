# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 ipinner
# out: u0
# Packets that routes give metadata (encap ip, encap ip6), through devices in external mode.
# show: for t in 5 6 7 8; do ip route show table $t; done; ip -6 route show default
# show: for d in i1 vx; do echo $d; ip -s link show $d | tail -n +3; done
. "$(dirname "$0")/common.sh"
ip link set in0 address 02:00:00:00:00:d0
# The frames come from an address of the underlay.
ip neigh add 2001:db8:1::b9 lladdr 02:00:00:00:06:b9 dev u0
sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.in0.accept_local=1
sysctl -qw net.ipv6.conf.all.forwarding=1 net.ipv6.conf.in0.disable_ipv6=0 net.ipv6.auto_flowlabels=0
a() { ip link add "$@"; ip link set $1 up; }
a i1 type ipip external
a g1 type gre external
a vx address 02:00:00:00:0a:0a type vxlan external dstport 4789 srcport 50000 50001
sysctl -qw net.ipv6.conf.g1.disable_ipv6=0
ip neigh add 198.51.100.9 lladdr 02:00:00:00:09:09 dev vx
# Nothing is for this host, which would answer with errors.
ip rule add pref 3 from 198.51.100.0/24 blackhole
ip rule add pref 4 lookup local
ip rule del pref 0
ip rule add pref 5 ipproto udp lookup 5
ip rule add pref 6 ipproto tcp lookup 6
ip rule add pref 7 ipproto icmp lookup 7
ip rule add pref 8 to 198.51.100.0/24 lookup 8
ip route add 198.51.100.0/24 table 5 encap ip id 5 src 192.0.2.1 dst 192.0.2.2 tos 4 ttl 9 dev i1
ip route add 198.51.100.0/24 table 6 encap ip id 6 src 192.0.2.1 dst 192.0.2.3 key csum dev g1
ip route add 198.51.100.0/24 table 7 encap ip id 7 src 192.0.2.1 dst 192.0.2.4 ttl 3 csum dev vx
ip route add 198.51.100.0/24 table 8 nexthop encap ip6 id 8 src 2001:db8:1::1 dst 2001:db8:1::2 hoplimit 7 csum dev vx
ip -6 route add default encap ip id 9 src 192.0.2.1 dst 192.0.2.2 key dev g1
