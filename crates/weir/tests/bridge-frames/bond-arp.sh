# SPDX-License-Identifier: Apache-2.0 OR MIT
# A bond of mode active-backup with the ARP monitor, whose target is silent, reached by one port, and by another one.
# set
# frame: 0 p4 02:00:00:00:00:99 02:00:00:00:08:99
# frame: 3000 p1 02:00:00:00:00:50 02:00:00:00:0a:01 type=0806 data=0001080006040002020000000a010a0000020200000000500a000001
# frame: 3300 p1 02:00:00:00:00:50 02:00:00:00:0a:01 type=0806 data=0001080006040002020000000a010a0000020200000000500a000001
# frame: 3800 p1 02:00:00:00:00:50 02:00:00:00:0a:01 type=0806 data=0001080006040002020000000a010a0000020200000000500a000001
# frame: 4000 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:08:28
# frame: 4300 p1 02:00:00:00:00:50 02:00:00:00:0a:01 type=0806 data=0001080006040002020000000a010a0000020200000000500a000001
# frame: 4600 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:08:2e
# frame: 8500 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:08:55
# frame: 10200 p2 02:00:00:00:00:50 02:00:00:00:0a:01 type=0806 data=0001080006040002020000000a010a0000020200000000500a000001
# frame: 10500 p2 02:00:00:00:00:50 02:00:00:00:0a:01 type=0806 data=0001080006040002020000000a010a0000020200000000500a000001
# frame: 10900 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:08:6d
# frame: 11000 p2 02:00:00:00:00:50 02:00:00:00:0a:01 type=0806 data=0001080006040002020000000a010a0000020200000000500a000001
# frame: 11500 p2 02:00:00:00:00:50 02:00:00:00:0a:01 type=0806 data=0001080006040002020000000a010a0000020200000000500a000001
# frame: 11900 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:08:77
# frame: 12000 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:08:78
ip link add br0 address 02:00:00:00:00:99 type bridge mcast_snooping 0
ip link add bond0 address 02:00:00:00:00:50 type bond mode active-backup num_grat_arp 0 arp_interval 500 arp_ip_target 10.0.0.2
for port in p1 p2 p3; do ip link set $port down; ip link set $port master bond0; done
for port in bond0 p4; do ip link set $port master br0; ip link set $port up; done
ip link set br0 up
ip address add 10.0.0.1/24 dev br0
