# SPDX-License-Identifier: Apache-2.0 OR MIT
# data
# Three bridges in a loop, which the spanning tree protocol breaks; one has another priority later.
# frame: 0 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01
# frame: 8000 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01
# frame: 8200 p3 02:00:00:00:01:01 02:00:00:00:01:03
# frame: 8400 p4 02:00:00:00:01:03 02:00:00:00:01:04
# frame: 8600 p2 02:00:00:00:01:42 02:00:00:00:01:02
# frame: 9000 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04
# frame: 9200 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04
for n in 0 1 2; do
    ip link add br$n address 02:00:00:00:00:9$n type bridge mcast_snooping 0 stp_state 1 forward_delay 200 hello_time 100 max_age 600
done
for pair in 01 12 20; do
    ip link add a$pair type veth peer name b$pair
    ip link set a$pair master br${pair%?} up; ip link set b$pair master br${pair#?} up
done
ip link set p1 master br0; ip link set p2 master br0; ip link set p3 master br1; ip link set p4 master br2
for n in 0 1 2; do ip link set br$n up; done
