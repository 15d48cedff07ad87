# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 ipinner
# out: u0
# Frames go to Geneve devices with one remote each.
# show: for d in g1 g2 g3 g4 g5 g6; do echo $d; ip -s link show $d | tail -n +3; done
. "$(dirname "$0")/common.sh"
g() { d=$1 n=$2; shift 2; ip link add $d address 02:00:00:00:00:7$n type geneve id $n "$@"; ip link set $d up; }
g g1 1 remote 192.0.2.2
g g2 2 remote 192.0.2.3 ttl 9 tos 0x20 df set udpcsum
g g3 3 remote 192.0.2.4 ttl inherit tos inherit df inherit
g g4 4 remote 2001:db8:1::2 flowlabel 0x12345
g g5 5 remote 2001:db8:1::3 ttl inherit tos inherit udp6zerocsumtx
g g6 6 remote 203.0.113.1 dstport 7000
tc qdisc add dev in0 ingress
mirror=
for d in g1 g2 g3 g4 g5 g6; do mirror="$mirror action mirred egress mirror dev $d"; done
tc filter add dev in0 ingress matchall $mirror
