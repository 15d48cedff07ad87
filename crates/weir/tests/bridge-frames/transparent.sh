# SPDX-License-Identifier: Apache-2.0 OR MIT
# Tagged frames while the bridge does not filter VLANs.
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
# frame: 144 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02
# frame: 156 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 81000000
# frame: 168 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 8100a000
# frame: 180 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 8100000a
# frame: 192 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 81006014
# frame: 204 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 81000014 81000007
# frame: 216 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 88a8000a
# frame: 228 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 88a8000a 81000014
# frame: 240 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 81000001
# frame: 252 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 81000ffe
# frame: 264 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 81000fff
# frame: 276 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 8100000a 88a80005
# frame: 288 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03
# frame: 300 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 81000000
# frame: 312 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 8100a000
# frame: 324 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 8100000a
# frame: 336 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 81006014
# frame: 348 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 81000014 81000007
# frame: 360 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 88a8000a
# frame: 372 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 88a8000a 81000014
# frame: 384 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 81000001
# frame: 396 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 81000ffe
# frame: 408 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 81000fff
# frame: 420 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 8100000a 88a80005
# frame: 432 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04
# frame: 444 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 81000000
# frame: 456 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 8100a000
# frame: 468 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 8100000a
# frame: 480 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 81006014
# frame: 492 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 81000014 81000007
# frame: 504 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 88a8000a
# frame: 516 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 88a8000a 81000014
# frame: 528 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 81000001
# frame: 540 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 81000ffe
# frame: 552 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 81000fff
# frame: 564 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 8100000a 88a80005
# frame: 576 p3 02:00:00:00:01:01 02:00:00:00:01:03 8100000a
# frame: 588 p3 02:00:00:00:01:77 02:00:00:00:01:03 8100000a
# frame: 600 p3 02:00:00:00:01:77 02:00:00:00:01:03 8100000a
ip link add br0 address 02:00:00:00:00:99 type bridge mcast_snooping 0 
for port in p1 p2 p3 p4; do ip link set $port master br0; ip link set $port up; done
ip link set br0 up

bridge vlan add dev p1 vid 10 pvid untagged
bridge vlan add dev p2 vid 10
bridge fdb add 02:00:00:00:01:77 dev p2 master static vlan 10
