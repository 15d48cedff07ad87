#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# service.sh: a router that balances TCP to 192.0.2.80, port 80, over backends of the network of dmz0. One of them
# fails and comes back, and another is added. Then `weir stat balance` shows what became of the flows.
#
#     weir run --gen lan0=proto=tcp,rate=20000,stop=4s,flows=5000,zipf=0.7,src=10.1.0.2,dst=192.0.2.80,dport=80 \
#         examples/load-balancer/service.sh
set -eu
weir=${WEIR:-weir}
service=tcp:192.0.2.80:80

ip link add lan0 address 02:00:00:00:01:01 type dummy
ip link add dmz0 address 02:00:00:00:02:01 type dummy
ip address add 10.1.0.1/16 dev lan0
ip address add 10.9.0.1/24 dev dmz0
ip link set lan0 up
ip link set dmz0 up
sysctl -qw net.ipv4.ip_forward=1
for number in 1 2 3 4 5; do
    ip neighbour add 10.9.0.1$number lladdr 02:00:00:00:09:1$number dev dmz0
done

"$weir" balance add --replies dmz0 lan0 $service 10.9.0.11 10.9.0.12 10.9.0.13 10.9.0.14
"$weir" play --until 1s
"$weir" balance set $service 10.9.0.11 10.9.0.13 10.9.0.14
"$weir" play --until 2s
"$weir" balance set $service 10.9.0.11 10.9.0.12 10.9.0.13 10.9.0.14
"$weir" play --until 3s
"$weir" balance set $service 10.9.0.11 10.9.0.12 10.9.0.13 10.9.0.14 10.9.0.15
"$weir" play
"$weir" stat balance
