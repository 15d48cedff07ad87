# SPDX-License-Identifier: Apache-2.0 OR MIT
# A bond of mode active-backup takes the frames of all ports.
# frame: 0 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:08:01
# frame: 20 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:08:02
# frame: 40 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:08:03
# frame: 60 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:08:04
# frame: 80 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:08:05
# frame: 100 p1 02:00:00:00:08:01 02:00:00:00:08:07
# frame: 120 p2 02:00:00:00:08:01 02:00:00:00:08:07
# frame: 140 p2 01:80:c2:00:00:00 02:00:00:00:08:07
# frame: 160 p2 01:80:c2:00:00:0e 02:00:00:00:08:07
# frame: 180 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:08:07 type=0806 data=00010800060400010200000008070a0000070000000000000a000001
# frame: 200 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:08:07 type=0806 data=00010800060400010200000008070a0000070000000000000a000001
ip link add br0 address 02:00:00:00:00:99 type bridge mcast_snooping 0
ip link add bond0 address 02:00:00:00:00:50 type bond mode active-backup miimon 100 all_slaves_active 1
for port in p1 p2 p3; do ip link set $port down; ip link set $port master bond0; done
for port in bond0 p4; do ip link set $port master br0; ip link set $port up; done
ip link set br0 up
ip address add 10.0.0.1/24 dev br0
