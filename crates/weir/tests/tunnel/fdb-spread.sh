# SPDX-License-Identifier: Apache-2.0 OR MIT
# Run by tunnel.rs: many flows through a vxlan device whose entry names a group of two remotes, one of which has three
# quarters of the weight. The entry goes with the last one.
. "$(dirname "$0")/common.sh"
ip link add vx1 address 02:00:00:00:00:71 type vxlan id 1 srcport 5000 5001 dstport 4789 local 192.0.2.1
ip link set vx1 up
ip nexthop add id 1 via 192.0.2.2 fdb
ip nexthop add id 2 via 192.0.2.3 fdb
ip nexthop add id 10 group 1,1/2,3 fdb
bridge fdb add 00:00:00:00:00:00 dev vx1 nhid 10
tc qdisc add dev in0 clsact
tc filter add dev in0 ingress protocol all matchall $(redirect vx1)
"$WEIR" play
bridge fdb show dev vx1
ip nexthop del id 1
ip nexthop del id 2
bridge fdb show dev vx1
