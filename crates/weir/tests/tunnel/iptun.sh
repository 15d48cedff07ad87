# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 ipinner
# out: u0
# Frames through ipip, gre and gretap devices that have their own remotes. Those that are redirected to a device
# without a link-layer header lose theirs.
# show: for d in i1 i2 i3 g1 g2 g3 g4 t1 t2 t3; do echo $d; ip -s -s link show $d | tail -n +3; done
. "$(dirname "$0")/common.sh"
a() { n=$1; shift; ip link add $n type "$@"; ip link set $n up; }
a i1 ipip remote 192.0.2.2 local 192.0.2.1 dev u0 ttl 9 tos 0x20
a i2 ipip remote 192.0.2.3 ttl inherit tos inherit
a i3 ipip remote 192.0.2.4 nopmtudisc
a g1 gre remote 192.0.2.2 local 192.0.2.1
a g2 gre remote 192.0.2.3 local 192.0.2.1 key 5 csum seq ttl 7 tos inherit
a g3 gre remote 192.0.2.4 okey 0x10203 oseq nopmtudisc
a g4 gre remote 192.0.2.3 ocsum nopmtudisc ignore-df tos 0x11
a t1 gretap remote 192.0.2.2 local 192.0.2.1 key 77
a t2 gretap remote 192.0.2.3 csum seq nopmtudisc tos inherit
a t3 gretap remote 203.0.113.1
tc qdisc add dev in0 clsact
f() { tc filter add dev in0 ingress "$@"; }
# The odd frames that follow are left out: Linux reads on where their headers end.
f protocol ip prio 1 flower ip_proto udp $(redirect i1)
f protocol ip prio 2 flower ip_proto tcp action mirred egress mirror dev i2 action mirred egress mirror dev g1 $(redirect g2)
f protocol ip prio 3 flower ip_proto icmp action mirred egress mirror dev i3 action mirred egress mirror dev g3 $(redirect g4)
f protocol ip prio 4 flower $(redirect t1)
f protocol ipv6 prio 5 flower ip_proto udp action mirred egress mirror dev i1 $(redirect g1)
f protocol ipv6 prio 6 flower ip_proto tcp $(redirect g2)
f protocol ipv6 prio 7 flower action mirred egress mirror dev t3 $(redirect t2)
f protocol 802.1q prio 8 flower $(redirect t2)
f protocol mpls_uc prio 9 flower $(redirect g2)
f protocol arp prio 10 flower $(redirect g3)
f protocol all prio 20 matchall $(redirect t1)
