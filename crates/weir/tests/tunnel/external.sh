# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 inner
# out: u0
# Frames that tunnel_key gives metadata, through vxlan devices in external mode.
# show: ip -s -s link show vx0 | tail -n +3
# show: ip -s -s link show vx1 | tail -n +3
. "$(dirname "$0")/common.sh"
ip link add vx0 address 02:00:00:00:00:70 type vxlan external dstport 4789 srcport 5000 5001
ip link add vx1 address 02:00:00:00:00:71 type vxlan external dstport 4790 srcport 5002 5003 gbp
ip link set vx0 up
ip link set vx1 up
tc qdisc add dev in0 clsact
f() { tc filter add dev in0 ingress "$@"; }
set4="action tunnel_key set src_ip 192.0.2.1 dst_ip 192.0.2.2"
set6="action tunnel_key set src_ip 2001:db8:1::1 dst_ip 2001:db8:1::2"
# Seven keys.
f protocol ip prio 1 flower dst_mac 02:00:00:00:00:d0 src_mac 02:00:00:00:00:01 ip_proto udp src_ip 192.0.2.1 dst_ip 198.51.100.9 src_port 4321 dst_port 53 \
    $set4 id 1000 dst_port 4789 ttl 64 $(redirect vx0)
f protocol ip prio 1 flower ip_proto udp $set4 id 5 dst_port 4789 tos 0x10 ttl 9 $(redirect vx0)
f protocol ip prio 2 flower ip_proto tcp $set4 id 16777215 nocsum $(redirect vx0)
f protocol ip prio 3 flower ip_proto icmp $set4 id 6 vxlan_opts 4784128 $(redirect vx1)
f protocol ip prio 4 flower $set4 dst_port 9999 $(redirect vx1)
f protocol ipv6 prio 5 flower ip_proto udp $set6 id 7 ttl 3 tos 0xb8 $(redirect vx0)
f protocol ipv6 prio 6 flower $set6 id 8 nocsum $(redirect vx0)
f protocol 802.1q prio 7 flower $set4 id 9 $(redirect vx0)
f protocol arp prio 8 flower $set4 id 10 action tunnel_key unset $(redirect vx0)
f protocol 0x88f7 prio 9 matchall $(redirect vx0)
# A source that is not a local address, and a destination without a route: neither packet leaves.
f protocol mpls_uc prio 10 flower action tunnel_key set src_ip 198.51.100.1 dst_ip 192.0.2.2 id 1 $(redirect vx0)
f protocol mpls_mc prio 11 flower action tunnel_key set src_ip 192.0.2.1 dst_ip 203.0.113.1 id 1 $(redirect vx0)
f protocol all prio 20 matchall $set4 id 11 $(redirect vx0)
