# SPDX-License-Identifier: Apache-2.0 OR MIT
# A bridge answers ARP requests of the port p1 (proxyarp) and for hosts behind the port p3 (proxyarp_wifi).
# frame: 0 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:08:01 type=0806 data=00010800060400010200000008010a0000010000000000000a000002
# frame: 20 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:08:01 type=0806 data=00010800060400010200000008010a0000010000000000000a000009
# frame: 40 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:08:03 type=0806 data=00010800060400010200000008030a0000030000000000000a000002
# frame: 60 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:08:02 type=0806 data=00010800060400010200000008020a0000020000000000000a000001
# frame: 80 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:08:03 type=0806 data=00010800060400010200000008030a0000030000000000000a00000a
# frame: 100 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:08:04 type=0806 data=00010800060400010200000008040a0000040000000000000a000003
# frame: 120 p4 02:00:00:00:08:77 02:00:00:00:08:04
# frame: 140 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:08:04
# frame: 160 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:08:01 type=0806 data=00010800060400010200000008010a0000010000000000000a000004
# frame: 180 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:08:04
ip link add br0 address 02:00:00:00:00:99 type bridge mcast_snooping 0
for port in p1 p2 p3 p4; do ip link set $port master br0; done
ip link set br0 up
ip link set p1 type bridge_slave proxy_arp on
ip link set p3 type bridge_slave proxy_arp_wifi on
for n in 1 2 3 9; do ip neigh add 10.0.0.$n lladdr 02:00:00:00:08:0$n dev br0 nud permanent; done
for n in 1 2 3; do bridge fdb add 02:00:00:00:08:0$n dev p$n master static; done
ip neigh add 10.0.0.10 dev br0 nud none
