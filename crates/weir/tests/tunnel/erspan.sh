# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 ip6inner
# out: u0
# Frames through erspan devices of each version.
# show: for d in e0 e1 e2 e3 e4 e5 e6; do echo $d; ip -s -s link show $d | tail -n +3; done
. "$(dirname "$0")/common.sh"
a() { n=$1; shift; ip link add $n type erspan "$@"; ip link set $n up; }
a e0 erspan_ver 0 remote 192.0.2.2 local 192.0.2.1 ttl 9
a e1 erspan_ver 1 erspan 0xabcde seq key 5 remote 192.0.2.2 local 192.0.2.1 tos 0x20
a e2 erspan_ver 2 erspan_dir egress erspan_hwid 0x3f seq key 1023 remote 192.0.2.3 tos inherit ttl inherit
a e3 seq key 0x155 remote 192.0.2.4 nopmtudisc
ip link set e3 mtu 100
a e4 erspan_ver 2 erspan_dir ingress erspan_hwid 17 oseq key 7 remote 192.0.2.4
ip link set e4 mtu 70
a e5 seq key 8 remote 203.0.113.1
a e6 seq key 9
tc qdisc add dev in0 clsact
f() { tc filter add dev in0 ingress "$@"; }
m() { echo "action mirred egress mirror dev $1"; }
f protocol 802.1ad prio 11 flower action drop
f protocol ip prio 1 flower ip_proto udp $(m e0) $(m e1) $(m e2) $(m e3) $(redirect e4)
f protocol ip prio 2 flower ip_proto tcp $(m e1) $(m e2) $(m e5) $(redirect e4)
f protocol ip prio 3 flower ip_proto icmp $(m e0) $(m e6) $(redirect e3)
f protocol ip prio 4 flower $(redirect e1)
f protocol ipv6 prio 5 flower ip_proto udp $(m e1) $(m e2) $(m e3) $(redirect e0)
f protocol ipv6 prio 6 flower ip_proto tcp $(m e4) $(redirect e3)
f protocol ipv6 prio 7 flower $(redirect e2)
f protocol 802.1q prio 8 flower $(m e0) $(m e1) $(m e3) $(redirect e2)
f protocol mpls_uc prio 9 flower $(m e1) $(redirect e2)
f protocol arp prio 10 flower $(m e0) $(m e1) $(m e2) $(redirect e4)
