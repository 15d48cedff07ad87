# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 ipinner
# out: u0
# Packets that tunnel_key gives metadata, through vxlan devices with the generic protocol extension; routed ones besides.
# show: ip -s -s link show vx0 | tail -n +3
# show: ip -s -s link show vx1 | tail -n +3
. "$(dirname "$0")/common.sh"
ip link add vx0 type vxlan external gpe dstport 4790 srcport 5000 5001
ip link add vx1 type vxlan external gpe dstport 4791 srcport 5002 5003 vnifilter
ip link set vx0 up
ip link set vx1 up
bridge vni add dev vx1 vni 7
tc qdisc add dev in0 clsact
f() { tc filter add dev in0 ingress "$@"; }
set4="action tunnel_key set src_ip 192.0.2.1 dst_ip 192.0.2.2"
set6="action tunnel_key set src_ip 2001:db8:1::1 dst_ip 2001:db8:1::2"
f protocol ip prio 1 flower ip_proto udp $set4 id 5 dst_port 4789 tos 0x10 ttl 9 $(redirect vx0)
f protocol ip prio 2 flower ip_proto tcp $set4 id 16777215 nocsum $(redirect vx0)
f protocol ip prio 3 flower ip_proto icmp $set4 id 6 vxlan_opts 4784128 $(redirect vx1)
f protocol ip prio 4 flower $set4 dst_port 9999 $(redirect vx1)
f protocol ipv6 prio 5 flower ip_proto udp $set6 id 7 ttl 3 tos 0xb8 $(redirect vx1)
f protocol ipv6 prio 6 flower $set6 id 8 nocsum $(redirect vx0)
f protocol 802.1q prio 7 flower $set4 id 9 $(redirect vx0)
f protocol arp prio 8 flower $set4 id 10 $(redirect vx0)
f protocol mpls_uc prio 10 flower $set4 id 11 $(redirect vx0)
f protocol mpls_mc prio 11 flower $set4 id 12 $(redirect vx1)
f protocol 0x894f prio 12 matchall $set4 id 13 $(redirect vx0)
f protocol 0x6558 prio 13 matchall $set4 id 14 $(redirect vx0)
f protocol 0x88f7 prio 14 matchall $(redirect vx0)
f protocol all prio 20 matchall $set4 id 15 $(redirect vx0)
