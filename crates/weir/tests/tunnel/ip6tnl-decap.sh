# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: u0 ip6outer
# out: out0
# Packets for ip6tnl devices: those that come out, and the filters whose tunnel keys match. A packet without a
# link-layer header leaves by out0 as it is.
# show: for d in t1 t2 t3 t4 t5 ip6tnl0; do echo $d; ip -s -s link show $d | tail -n +3; done
. "$(dirname "$0")/common.sh"
a() { n=$1; shift; ip link add $n type ip6tnl "$@"; ip link set $n up; tc qdisc add dev $n clsact; }
a t1 remote 2001:db8:1::2 local 2001:db8:1::1 mode any dev u0
a t2 remote 2001:db8:1::3 local 2001:db8:1::1 mode any dscp inherit
a t3 remote 2001:db8:1::4 mode ip6ip6
a t4 remote 2001:db8:1::1 local 2001:db8:1::1 mode any
a t5 external
f() { d=$1; shift; tc filter add dev $d ingress "$@"; }
for d in t1 t2 t3 t4; do f $d protocol all prio 9 matchall $(redirect out0); done
f t5 protocol ip prio 1 flower enc_src_ip 2001:db8:7::9 enc_dst_ip 2001:db8:1::1 enc_tos 0x10/0xfc enc_ttl 9 $(redirect out0)
f t5 protocol all prio 9 matchall action drop
