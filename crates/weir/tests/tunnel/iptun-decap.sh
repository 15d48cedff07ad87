# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: u0 ipouter
# out: out0
# Packets for ipip, gre and gretap devices: those that come out, and the filters whose tunnel keys match. A packet
# without a link-layer header leaves by out0 as it is.
# show: for d in i1 i2 g1 g2 g3 g4 t1 t2 tunl0; do echo $d; ip -s -s link show $d | tail -n +3; done
. "$(dirname "$0")/common.sh"
a() { n=$1; shift; ip link add $n type "$@"; ip link set $n up; tc qdisc add dev $n clsact; }
a i1 ipip remote 192.0.2.2 local 192.0.2.1 dev u0
a i2 ipip remote 192.0.2.3
a g1 gre remote 192.0.2.2 local 192.0.2.1
a g2 gre remote 192.0.2.2 local 192.0.2.1 key 5 csum seq
a g3 gre remote 192.0.2.4 key 6
a g4 gre external
a t1 gretap remote 192.0.2.2 local 192.0.2.1 key 5
a t2 gretap external
ip link set tunl0 up
tc qdisc add dev tunl0 clsact
f() { d=$1; shift; tc filter add dev $d ingress "$@"; }
for d in i1 i2 g1 g2 g3 t1 tunl0; do f $d protocol all prio 9 matchall $(redirect out0); done
f g4 protocol all prio 1 flower enc_key_id 9 enc_src_ip 192.0.2.3 enc_dst_ip 192.0.2.1 enc_tos 0x10/0xfc enc_ttl 9 $(redirect out0)
f g4 protocol ip prio 2 flower enc_src_ip 192.0.2.4 ip_proto udp $(redirect out0)
f g4 protocol all prio 9 matchall action drop
f t2 protocol all prio 1 flower enc_key_id 10 enc_ttl 9 action vlan push id 11 $(redirect out0)
f t2 protocol all prio 2 flower enc_src_ip 192.0.2.4 action vlan push id 12 $(redirect out0)
f t2 protocol all prio 9 matchall action vlan push id 13 $(redirect out0)
