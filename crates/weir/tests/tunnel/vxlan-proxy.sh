# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 proxyinner
# out: out0
# Requests for neighbours of a vxlan device with `proxy`: its answers, which arrive at it.
# show: ip -s -s link show vx1 | tail -n +3
. "$(dirname "$0")/common.sh"
sysctl -qw net.ipv6.conf.u0.disable_ipv6=1
ip link add vx1 address 02:00:00:00:00:71 type vxlan id 1 dstport 4790 local 192.0.2.1 remote 192.0.2.4 dev u0 proxy l3miss
sysctl -qw net.ipv6.conf.vx1.addr_gen_mode=1 net.ipv6.conf.vx1.disable_ipv6=0
tc qdisc add dev vx1 clsact
# Reports of groups by the host itself.
tc filter add dev vx1 egress prio 1 flower dst_mac 33:33:00:00:00:16 action drop
ip link set vx1 up
for net in 10.0.0. fd00::; do
    for n in 1 2 3 4 5; do ip neigh add $net$n lladdr 02:00:00:00:08:0$n dev vx1 nud permanent; done
    ip neigh change ${net}3 lladdr 02:00:00:00:08:03 dev vx1 nud stale
    ip neigh add ${net}6 lladdr 02:00:00:00:08:06 dev vx1 nud noarp
    ip neigh add ${net}7 dev vx1 nud failed
done
bridge fdb add 02:00:00:00:08:02 dev vx1 dst 192.0.2.2
bridge fdb add 02:00:00:00:08:04 dev vx1 dst 0.0.0.0
bridge fdb add 02:00:00:00:08:05 dev vx1 dst 192.0.2.3 router
tc qdisc add dev in0 clsact
tc filter add dev in0 ingress matchall $(redirect vx1)
tc filter add dev vx1 ingress matchall $(redirect out0)
