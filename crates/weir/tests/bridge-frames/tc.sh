# SPDX-License-Identifier: Apache-2.0 OR MIT
# Filters at ports and at the bridge itself: drop, redirect, a VLAN tag pushed.
# frame: 0 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:e1
# frame: 20 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:e2
# frame: 40 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:e3
# frame: 60 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:e4
# frame: 80 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:e5
# frame: 100 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:e9
# frame: 120 p1 02:00:00:00:01:e6 02:00:00:00:01:01
# frame: 140 p4 02:00:00:00:01:e6 02:00:00:00:01:04
# frame: 160 p4 02:00:00:00:01:e7 02:00:00:00:01:04
# frame: 180 p1 02:00:00:00:01:04 02:00:00:00:01:01
# frame: 200 p1 02:00:00:00:01:e5 02:00:00:00:01:01
# frame: 220 p2 02:00:00:00:01:01 02:00:00:00:01:e5
# frame: 240 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:e8 type=0806 data=00010800060400010200000001e80a0000020000000000000a000001
# frame: 260 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 type=0806 data=00010800060400010200000001020a0000020000000000000a000001
# frame: 280 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 type=0806 data=00010800060400010200000001030a0000020000000000000a000001
# frame: 300 p1 02:00:00:00:01:e1 02:00:00:00:01:e4
# frame: 320 p2 02:00:00:00:01:e2 02:00:00:00:01:02
ip link add br0 address 02:00:00:00:00:99 type bridge mcast_snooping 0 
for port in p1 p2 p3 p4; do ip link set $port master br0; ip link set $port up; done
ip link set br0 up

ip address add 10.0.0.1/24 dev br0
for dev in p1 p2 p3 br0; do tc qdisc add dev $dev clsact; done
tc filter add dev p1 ingress protocol all pref 1 flower src_mac 02:00:00:00:01:e1 action drop
tc filter add dev p1 ingress protocol all pref 2 flower src_mac 02:00:00:00:01:e2 action mirred egress redirect dev p4
tc filter add dev p1 ingress protocol all pref 3 flower src_mac 02:00:00:00:01:e3 action mirred egress mirror dev p4
tc filter add dev p1 ingress protocol all pref 4 flower src_mac 02:00:00:00:01:e4 action vlan push id 10
tc filter add dev p2 ingress protocol all pref 1 flower src_mac 02:00:00:00:01:e5 action mirred ingress redirect dev p3
tc filter add dev p3 egress protocol all pref 1 flower dst_mac 02:00:00:00:01:e6 action drop
tc filter add dev p3 egress protocol all pref 2 flower dst_mac 02:00:00:00:01:e7 action mirred egress redirect dev p1
tc filter add dev p2 ingress protocol all pref 2 flower src_mac 02:00:00:00:01:e9 action mirred egress redirect dev br0
tc filter add dev br0 ingress protocol arp pref 1 flower src_mac 02:00:00:00:01:e8 action mirred egress redirect dev p2
tc filter add dev br0 egress protocol arp pref 1 flower dst_mac 02:00:00:00:01:02 action drop
