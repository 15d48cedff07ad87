# SPDX-License-Identifier: Apache-2.0 OR MIT
# set
# The spanning tree protocol: the bridge is the root; a root behind p1; a shorter way behind p2, so that p1 blocks; an
# inferior bridge behind p3; silence, so that the bridge is the root again.
# frame: 0 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01
# frame: 3000 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01
# frame: 5000 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01
# frame: 6000 p1 01:80:c2:00:00:00 02:00:00:00:0a:02 type=0026 data=42420300000000001000020000000a01000000042000020000000a0280010000060001000200
# frame: 7200 p1 01:80:c2:00:00:00 02:00:00:00:0a:02 type=0026 data=42420300000000811000020000000a01000000042000020000000a0280010000060001000200
# frame: 9000 p2 01:80:c2:00:00:00 02:00:00:00:0a:03 type=0026 data=42420300000000001000020000000a01000000023000020000000a0380050000060001000200
# frame: 11000 p3 01:80:c2:00:00:00 02:00:00:00:0a:09 type=0026 data=42420300000000009000020000000a09000000009000020000000a0980010000060001000200
# frame: 12500 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04
# frame: 16500 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04
ip link add br0 address 02:00:00:00:00:99 type bridge mcast_snooping 0 stp_state 1 forward_delay 200 hello_time 100 max_age 600
for port in p1 p2 p3 p4; do ip link set $port master br0; ip link set $port up; done
ip link set br0 up
