# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 ipinner
# out: u0
# Frames through vxlan devices whose remotes are groups.
# show: ip -s -s link show vx1 | tail -n +3
# show: ip -s -s link show vx2 | tail -n +3
# show: ip -s -s link show vx3 | tail -n +3
# show: ip -s -s link show vx4 | tail -n +3
# show: ip -s -s link show vx5 | tail -n +3
# show: bridge fdb show | grep vx | sort
. "$(dirname "$0")/common.sh"
a() { n=$1; shift; ip link add vx$n address 02:00:00:00:00:7$n type vxlan id $n srcport 5000 5001 "$@"; ip link set vx$n up; }
ip addr add 10.9.0.1/24 dev out0
a 1 dstport 4789 group 239.1.1.1 dev u0
a 2 dstport 4790 group 239.1.1.2 local 10.9.0.1 dev u0 ttl 9 df set
a 3 dstport 4791 group ff05::100 dev u0
a 4 dstport 4792 group ff02::100 local 2001:db8:1::1 dev u0 ttl 9
a 5 dstport 4793 group 239.1.1.1 dev out0 ttl 3
bridge fdb append 00:00:00:00:00:00 dev vx1 dst 192.0.2.2
bridge fdb append 00:00:00:00:00:00 dev vx1 dst 224.0.0.9 via u0
bridge fdb append 00:00:00:00:00:00 dev vx5 dst 239.1.1.5 via u0
ip route add 239.1.1.6 dev u0 src 192.0.2.1
bridge fdb append 00:00:00:00:00:00 dev vx5 dst 239.1.1.6
tc qdisc add dev in0 clsact
f() { tc filter add dev in0 ingress "$@"; }
f protocol ip prio 1 flower ip_proto udp $(redirect vx1)
f protocol ip prio 2 flower ip_proto tcp $(redirect vx2)
f protocol ipv6 prio 5 flower ip_proto udp $(redirect vx3)
f protocol ipv6 prio 6 flower ip_proto tcp $(redirect vx4)
f protocol all prio 20 matchall $(redirect vx5)
