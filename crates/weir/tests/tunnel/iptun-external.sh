# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 ipinner
# out: u0
# Frames that tunnel_key gives metadata, through ipip, gre and gretap devices in external mode.
# show: for d in i1 g1 t1; do echo $d; ip -s -s link show $d | tail -n +3; done
. "$(dirname "$0")/common.sh"
a() { n=$1; shift; ip link add $n type "$@"; ip link set $n up; }
a i1 ipip external
a g1 gre external
a t1 gretap external
tc qdisc add dev in0 clsact
f() { tc filter add dev in0 ingress "$@"; }
set4="action tunnel_key set src_ip 192.0.2.1 dst_ip 192.0.2.2"
f protocol ip prio 1 flower ip_proto udp $set4 id 5 tos 0x10 ttl 9 $(redirect i1)
f protocol ip prio 2 flower ip_proto tcp $set4 id 6 nocsum $(redirect g1)
f protocol ip prio 3 flower ip_proto icmp $set4 tos 1 nocsum $(redirect g1)
f protocol ip prio 4 flower $set4 id 7 ttl 3 $(redirect t1)
f protocol ipv6 prio 5 flower ip_proto udp $set4 id 8 $(redirect i1)
f protocol ipv6 prio 6 flower ip_proto tcp $set4 id 9 $(redirect g1)
f protocol ipv6 prio 7 flower action tunnel_key set src_ip 2001:db8:1::1 dst_ip 2001:db8:1::2 id 9 $(redirect g1)
f protocol 802.1q prio 8 flower $set4 id 10 $(redirect t1)
f protocol arp prio 9 flower $set4 id 10 nocsum $(redirect t1)
f protocol mpls_uc prio 10 flower action tunnel_key set src_ip 192.0.2.1 dst_ip 203.0.113.1 id 1 $(redirect g1)
f protocol mpls_mc prio 11 flower $(redirect t1)
f protocol all prio 20 matchall $(redirect i1)
