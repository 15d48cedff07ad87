# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 inner
# out: u0
# Frames through vxlan devices that have their own remotes.
# show: ip -s -s link show vx1 | tail -n +3
# show: ip -s -s link show vx2 | tail -n +3
# show: ip -s -s link show vx3 | tail -n +3
# show: ip -s -s link show vx4 | tail -n +3
# show: ip -s -s link show vx5 | tail -n +3
# show: ip -s -s link show vx6 | tail -n +3
. "$(dirname "$0")/common.sh"
a() { n=$1; shift; ip link add vx$n address 02:00:00:00:00:7$n type vxlan id $n srcport 5000 5001 "$@"; ip link set vx$n up; }
a 1 dstport 4789 remote 192.0.2.2 local 192.0.2.1 dev u0 ttl 9
a 2 dstport 4790 remote 192.0.2.3 ttl inherit tos inherit df inherit noudpcsum
a 3 dstport 4791 remote 2001:db8:1::2 local 2001:db8:1::1 flowlabel 0x12345 tos 0x20
a 4 dstport 4792 gbp df set remote 192.0.2.4
a 5 dstport 4793
a 6 dstport 4794 remote 2001:db8:1::3 udp6zerocsumtx ttl inherit tos inherit
bridge fdb append 00:00:00:00:00:00 dev vx1 dst 192.0.2.3
bridge fdb append 00:00:00:00:00:00 dev vx1 dst 192.0.2.4 port 4999 vni 4097
bridge fdb add 02:00:00:00:00:d0 dev vx5 dst 192.0.2.3 vni 99
tc qdisc add dev in0 clsact
f() { tc filter add dev in0 ingress "$@"; }
f protocol ip prio 1 flower ip_proto udp $(redirect vx1)
f protocol ip prio 2 flower ip_proto tcp $(redirect vx2)
f protocol ip prio 3 flower ip_proto icmp $(redirect vx3)
f protocol ip prio 4 flower $(redirect vx4)
f protocol ipv6 prio 5 flower ip_proto udp $(redirect vx2)
f protocol ipv6 prio 6 flower ip_proto tcp $(redirect vx6)
f protocol ipv6 prio 7 flower $(redirect vx5)
f protocol 802.1q prio 8 flower $(redirect vx2)
f protocol all prio 20 matchall $(redirect vx5)
