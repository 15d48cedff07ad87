# SPDX-License-Identifier: Apache-2.0 OR MIT
# VLAN filtering with service tags.
# frame: 0 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01
# frame: 12 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01 81000000
# frame: 24 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01 8100a000
# frame: 36 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01 8100000a
# frame: 48 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01 81006014
# frame: 60 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01 81000014 81000007
# frame: 72 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01 88a8000a
# frame: 84 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01 88a8000a 81000014
# frame: 96 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01 81000001
# frame: 108 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01 81000ffe
# frame: 120 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01 81000fff
# frame: 132 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01 8100000a 88a80005
# frame: 144 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01 88a80014
# frame: 156 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01 88a80014 81000003
# frame: 168 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01 88a80000
# frame: 180 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02
# frame: 192 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 81000000
# frame: 204 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 8100a000
# frame: 216 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 8100000a
# frame: 228 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 81006014
# frame: 240 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 81000014 81000007
# frame: 252 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 88a8000a
# frame: 264 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 88a8000a 81000014
# frame: 276 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 81000001
# frame: 288 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 81000ffe
# frame: 300 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 81000fff
# frame: 312 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 8100000a 88a80005
# frame: 324 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 88a80014
# frame: 336 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 88a80014 81000003
# frame: 348 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 88a80000
# frame: 360 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03
# frame: 372 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 81000000
# frame: 384 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 8100a000
# frame: 396 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 8100000a
# frame: 408 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 81006014
# frame: 420 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 81000014 81000007
# frame: 432 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 88a8000a
# frame: 444 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 88a8000a 81000014
# frame: 456 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 81000001
# frame: 468 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 81000ffe
# frame: 480 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 81000fff
# frame: 492 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 8100000a 88a80005
# frame: 504 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 88a80014
# frame: 516 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 88a80014 81000003
# frame: 528 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 88a80000
# frame: 540 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04
# frame: 552 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 81000000
# frame: 564 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 8100a000
# frame: 576 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 8100000a
# frame: 588 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 81006014
# frame: 600 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 81000014 81000007
# frame: 612 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 88a8000a
# frame: 624 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 88a8000a 81000014
# frame: 636 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 81000001
# frame: 648 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 81000ffe
# frame: 660 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 81000fff
# frame: 672 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 8100000a 88a80005
# frame: 684 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 88a80014
# frame: 696 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 88a80014 81000003
# frame: 708 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 88a80000
# frame: 720 p1 01:80:c2:00:00:00 02:00:00:00:01:01
# frame: 732 p1 01:80:c2:00:00:01 02:00:00:00:01:01
# frame: 744 p1 01:80:c2:00:00:02 02:00:00:00:01:01
# frame: 756 p1 01:80:c2:00:00:03 02:00:00:00:01:01
# frame: 768 p1 01:80:c2:00:00:04 02:00:00:00:01:01
# frame: 780 p1 01:80:c2:00:00:05 02:00:00:00:01:01
# frame: 792 p1 01:80:c2:00:00:06 02:00:00:00:01:01
# frame: 804 p1 01:80:c2:00:00:07 02:00:00:00:01:01
# frame: 816 p1 01:80:c2:00:00:08 02:00:00:00:01:01
# frame: 828 p1 01:80:c2:00:00:09 02:00:00:00:01:01
# frame: 840 p1 01:80:c2:00:00:0a 02:00:00:00:01:01
# frame: 852 p1 01:80:c2:00:00:0b 02:00:00:00:01:01
# frame: 864 p1 01:80:c2:00:00:0c 02:00:00:00:01:01
# frame: 876 p1 01:80:c2:00:00:0d 02:00:00:00:01:01
# frame: 888 p1 01:80:c2:00:00:0e 02:00:00:00:01:01
# frame: 900 p1 01:80:c2:00:00:0f 02:00:00:00:01:01
ip link add br0 address 02:00:00:00:00:99 type bridge mcast_snooping 0 vlan_filtering 1 vlan_protocol 802.1ad
for port in p1 p2 p3 p4; do ip link set $port master br0; ip link set $port up; done
ip link set br0 up

bridge vlan add dev p1 vid 10 pvid untagged
bridge vlan del dev p1 vid 1
bridge vlan add dev p2 vid 10
bridge vlan add dev p2 vid 20
bridge vlan add dev p3 vid 20 pvid untagged
bridge vlan add dev p3 vid 10 untagged
bridge vlan add dev p4 vid 2-4094
bridge vlan del dev p4 vid 1
bridge vlan add dev br0 vid 20 self pvid untagged
bridge fdb add 02:00:00:00:01:77 dev p2 master static vlan 20
bridge fdb add 02:00:00:00:01:78 dev p1 master static
ip address add 10.0.0.1/24 dev br0
