# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 ipinner
# out: u0
# Frames through vxlan devices whose entries name groups of remotes.
# show: bridge fdb show dev vx1
# show: ip -s -s link show vx1 | tail -n +3
# show: ip -s -s link show vx2 | tail -n +3
# show: ip -s -s link show vx3 | tail -n +3
. "$(dirname "$0")/common.sh"
a() { n=$1; shift; ip link add vx$n address 02:00:00:00:00:7$n type vxlan id $n srcport 5000 5001 "$@"; ip link set vx$n up; }
a 1 dstport 4789 local 192.0.2.1 ttl 9
a 2 dstport 4790 local 2001:db8:1::1
a 3 dstport 4791 remote 192.0.2.2
ip nexthop add id 1 via 192.0.2.2 fdb
ip nexthop add id 2 via 192.0.2.3 fdb
ip nexthop add id 3 via 2001:db8:1::3 fdb
ip nexthop add id 4 via 192.0.2.4 fdb
ip nexthop add id 10 group 1 fdb
ip nexthop add id 20 group 2 fdb type resilient buckets 4
ip nexthop add id 30 group 3 fdb
ip nexthop add id 40 group 4 fdb
bridge fdb add 00:00:00:00:00:00 dev vx1 nhid 10
bridge fdb add 02:00:00:00:00:d0 dev vx1 nhid 20
bridge fdb add 00:00:00:00:00:00 dev vx2 nhid 30
bridge fdb add 02:00:00:00:00:d0 dev vx3 nhid 40
bridge fdb append 00:00:00:00:00:00 dev vx1 dst 192.0.2.9
ip nexthop replace id 40 group 2 fdb
tc qdisc add dev in0 clsact
f() { tc filter add dev in0 ingress "$@"; }
f protocol ip prio 1 flower ip_proto udp $(redirect vx1)
f protocol ip prio 2 flower ip_proto tcp $(redirect vx2)
f protocol ip prio 3 flower ip_proto icmp $(redirect vx3)
f protocol ipv6 prio 5 flower ip_proto udp $(redirect vx1)
f protocol all prio 20 matchall $(redirect vx3)
