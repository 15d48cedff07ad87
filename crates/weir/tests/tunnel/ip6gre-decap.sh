# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: u0 ip6outer
# out: out0
# Packets for ip6gre and ip6gretap devices: those that come out, and the filters whose tunnel keys match. A packet without
# a link-layer header leaves by out0 as it is.
# show: for d in g1 g2 g3 g4 g5 t1 t2 ip6gre0; do echo $d; ip -s -s link show $d | tail -n +3; done
. "$(dirname "$0")/common.sh"
a() { n=$1; shift; ip link add $n type "$@"; ip link set $n up; tc qdisc add dev $n clsact; }
a g1 ip6gre remote 2001:db8:1::2 local 2001:db8:1::1
a g2 ip6gre remote 2001:db8:1::2 local 2001:db8:1::1 key 5 csum seq
a g3 ip6gre remote 2001:db8:1::4 key 6
a g4 ip6gre local 2001:db8:1::1 key 6
a g5 ip6gre external
a t1 ip6gretap remote 2001:db8:1::2 local 2001:db8:1::1 key 5
a t2 ip6gretap remote 2001:db8:1::3 local 2001:db8:1::1 key 9
ip link set ip6gre0 up
f() { d=$1; shift; tc filter add dev $d ingress "$@"; }
for d in g1 g2 g3 g4 t1 t2; do f $d protocol all prio 9 matchall $(redirect out0); done
f g5 protocol all prio 1 flower enc_key_id 9 enc_src_ip 2001:db8:1::3 enc_dst_ip 2001:db8:1::1 enc_tos 0x10/0xfc enc_ttl 9 $(redirect out0)
f g5 protocol ip prio 2 flower enc_src_ip 2001:db8:7::9 ip_proto udp $(redirect out0)
f g5 protocol all prio 9 matchall action drop
