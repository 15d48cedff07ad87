# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 ipinner
# out: u0
# Packets through sit devices. A redirected frame loses its link-layer header.
# show: for d in s1 s2 s3 s4; do echo $d; ip -s -s link show $d | tail -n +3; done
. "$(dirname "$0")/common.sh"
a() { n=$1; shift; ip link add $n type "$@"; ip link set $n up; }
a s1 sit remote 192.0.2.2 local 192.0.2.1 mode any
a s2 sit remote 192.0.2.3 ttl 9 tos 0x20 mode ip6ip
a s3 sit remote 192.0.2.4 nopmtudisc tos inherit mode any
a s4 sit remote 203.0.113.1 mode any
tc qdisc add dev in0 clsact
f() { tc filter add dev in0 ingress "$@"; }
f protocol ip prio 1 flower ip_proto udp action mirred egress mirror dev s2 $(redirect s1)
f protocol ip prio 2 flower ip_proto tcp $(redirect s3)
f protocol ipv6 prio 5 flower ip_proto udp action mirred egress mirror dev s2 action mirred egress mirror dev s4 $(redirect s1)
f protocol ipv6 prio 6 flower ip_proto tcp action mirred egress mirror dev s1 $(redirect s3)
f protocol arp prio 7 flower $(redirect s1)
