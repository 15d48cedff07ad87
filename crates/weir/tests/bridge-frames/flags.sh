# SPDX-License-Identifier: Apache-2.0 OR MIT
# Hairpin, isolated ports, learning and the three kinds of flooding.
# frame: 0 p1 02:00:00:00:01:42 02:00:00:00:01:01
# frame: 20 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:0b
# frame: 40 p1 01:00:5e:01:02:03 02:00:00:00:01:15
# frame: 60 p1 02:00:00:00:01:4d 02:00:00:00:01:1f
# frame: 80 p1 02:00:00:00:01:77 02:00:00:00:01:29
# frame: 100 p2 02:00:00:00:01:42 02:00:00:00:01:02
# frame: 120 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:0c
# frame: 140 p2 01:00:5e:01:02:03 02:00:00:00:01:16
# frame: 160 p2 02:00:00:00:01:4d 02:00:00:00:01:20
# frame: 180 p2 02:00:00:00:01:77 02:00:00:00:01:2a
# frame: 200 p3 02:00:00:00:01:42 02:00:00:00:01:03
# frame: 220 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:0d
# frame: 240 p3 01:00:5e:01:02:03 02:00:00:00:01:17
# frame: 260 p3 02:00:00:00:01:4d 02:00:00:00:01:21
# frame: 280 p3 02:00:00:00:01:77 02:00:00:00:01:2b
# frame: 300 p4 02:00:00:00:01:42 02:00:00:00:01:04
# frame: 320 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:0e
# frame: 340 p4 01:00:5e:01:02:03 02:00:00:00:01:18
# frame: 360 p4 02:00:00:00:01:4d 02:00:00:00:01:22
# frame: 380 p4 02:00:00:00:01:77 02:00:00:00:01:2c
# frame: 400 p1 02:00:00:00:01:01 02:00:00:00:01:01
# frame: 420 p2 02:00:00:00:01:01 02:00:00:00:01:02
# frame: 440 p4 02:00:00:00:01:03 02:00:00:00:01:04
# frame: 460 p4 02:00:00:00:01:02 02:00:00:00:01:04
# frame: 480 p1 02:00:00:00:01:02 02:00:00:00:01:01
# frame: 500 p2 02:00:00:00:01:4e 02:00:00:00:01:78
# frame: 520 p1 02:00:00:00:01:78 02:00:00:00:01:01
# frame: 540 p2 02:00:00:00:01:01 02:00:00:00:01:77
# frame: 560 p4 02:00:00:00:01:77 02:00:00:00:01:04
ip link add br0 address 02:00:00:00:00:99 type bridge mcast_snooping 0 
for port in p1 p2 p3 p4; do ip link set $port master br0; ip link set $port up; done
ip link set br0 up

bridge link set dev p1 hairpin on isolated on
bridge link set dev p2 isolated on flood off
bridge link set dev p3 learning off mcast_flood off
bridge link set dev p4 bcast_flood off
bridge fdb add 02:00:00:00:01:77 dev p3 master static
bridge fdb add 02:00:00:00:01:78 dev p4 master static sticky
