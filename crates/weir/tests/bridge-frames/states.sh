# SPDX-License-Identifier: Apache-2.0 OR MIT
# States of ports by hand.
# frame: 0 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01
# frame: 20 p1 02:00:00:00:01:42 02:00:00:00:01:01
# frame: 40 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02
# frame: 60 p2 02:00:00:00:01:42 02:00:00:00:01:02
# frame: 80 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03
# frame: 100 p3 02:00:00:00:01:42 02:00:00:00:01:03
# frame: 120 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04
# frame: 140 p4 02:00:00:00:01:42 02:00:00:00:01:04
# frame: 160 p4 02:00:00:00:01:01 02:00:00:00:01:04
# frame: 180 p4 02:00:00:00:01:02 02:00:00:00:01:04
# frame: 200 p4 02:00:00:00:01:03 02:00:00:00:01:04
ip link add br0 address 02:00:00:00:00:99 type bridge mcast_snooping 0 
for port in p1 p2 p3 p4; do ip link set $port master br0; ip link set $port up; done
ip link set br0 up

bridge link set dev p1 state 1
bridge link set dev p2 state 2
