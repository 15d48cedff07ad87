# SPDX-License-Identifier: Apache-2.0 OR MIT
# Entries age after two seconds without a frame from the host.
# frame: 0 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01
# frame: 20 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02
# frame: 40 p3 02:00:00:00:01:01 02:00:00:00:01:03
# frame: 1260 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01
# frame: 1280 p3 02:00:00:00:01:02 02:00:00:00:01:03
# frame: 2700 p3 02:00:00:00:01:01 02:00:00:00:01:03
# frame: 2720 p3 02:00:00:00:01:02 02:00:00:00:01:03
# frame: 5740 p2 02:00:00:00:01:03 02:00:00:00:01:02
# frame: 5760 p2 02:00:00:00:01:01 02:00:00:00:01:02
ip link add br0 address 02:00:00:00:00:99 type bridge mcast_snooping 0 ageing_time 200
for port in p1 p2 p3 p4; do ip link set $port master br0; ip link set $port up; done
ip link set br0 up
