# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 ipinner
# out: u0
# Frames for a router behind a vxlan device with `rsc`, which go to the neighbours that their packets are for.
# show: ip -d link show vx1 | grep -o 'dstport.*ttl'
# show: ip -s -s link show vx1 | tail -n +3
# show: ip -s -s link show vx2 | tail -n +3
# show: bridge fdb show | grep vx | sort
. "$(dirname "$0")/common.sh"
a() { n=$1; shift; ip link add vx$n address 02:00:00:00:00:7$n type vxlan id $n srcport 5000 5001 "$@"; ip link set vx$n up; }
a 1 dstport 4789 remote 192.0.2.4 local 192.0.2.1 rsc l3miss
a 2 dstport 4790 local 2001:db8:1::1 rsc nolearning
a 3 dstport 4791 remote 192.0.2.4 local 192.0.2.1 norsc
for n in 1 2 3; do
    ip neigh add 198.51.100.9 lladdr 02:00:00:00:08:09 dev vx$n nud permanent
    ip neigh add 192.0.2.1 lladdr 02:00:00:00:08:01 dev vx$n nud stale
done
bridge fdb add 02:00:00:00:00:d0 dev vx1 dst 192.0.2.2 router
bridge fdb add 02:00:00:00:08:09 dev vx1 dst 192.0.2.3
bridge fdb add 02:00:00:00:08:01 dev vx1 dst 0.0.0.0
bridge fdb add 02:00:00:00:00:d0 dev vx2 dst 2001:db8:1::2 router
bridge fdb add 02:00:00:00:08:01 dev vx2 dst 2001:db8:1::3
bridge fdb add 02:00:00:00:00:d0 dev vx3 dst 192.0.2.2 router
bridge fdb add 02:00:00:00:08:09 dev vx3 dst 192.0.2.3
tc qdisc add dev in0 clsact
f() { tc filter add dev in0 ingress "$@"; }
f protocol ip prio 1 flower ip_proto udp $(redirect vx1)
f protocol ip prio 2 flower ip_proto tcp $(redirect vx2)
f protocol ip prio 3 flower ip_proto icmp $(redirect vx3)
f protocol ipv6 prio 20 matchall $(redirect vx1)
f protocol arp prio 21 matchall $(redirect vx1)
