# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 ip6inner
# out: u0
# Frames that tunnel_key gives metadata, through an ip6gre device in external mode.
# show: for d in g1; do echo $d; ip -s -s link show $d | tail -n +3; done
. "$(dirname "$0")/common.sh"
sysctl -qw net.ipv6.auto_flowlabels=0
ip link add g1 type ip6gre external
ip link set g1 up
tc qdisc add dev in0 clsact
f() { tc filter add dev in0 ingress "$@"; }
set6="action tunnel_key set src_ip 2001:db8:1::77 dst_ip 2001:db8:1::2"
f protocol ip prio 1 flower ip_proto udp $set6 id 5 tos 0x13 ttl 9 $(redirect g1)
f protocol ip prio 2 flower ip_proto tcp $set6 id 6 nocsum $(redirect g1)
f protocol ip prio 3 flower ip_proto icmp action tunnel_key set src_ip 192.0.2.1 dst_ip 192.0.2.2 id 5 $(redirect g1)
f protocol ipv6 prio 5 flower ip_proto udp $set6 nocsum $(redirect g1)
f protocol ipv6 prio 6 flower ip_proto tcp action tunnel_key set src_ip :: dst_ip 2001:db8:1::3 id 9 tos 0x20 ttl 77 $(redirect g1)
f protocol ipv6 prio 7 flower action tunnel_key set src_ip 2001:db8:1::1 dst_ip 2001:db8:ffff::2 id 9 $(redirect g1)
f protocol mpls_uc prio 10 flower $set6 id 1 tos 3 $(redirect g1)
f protocol arp prio 11 flower $(redirect g1)
