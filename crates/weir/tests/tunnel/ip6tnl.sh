# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 ip6inner
# out: u0
# Packets through ip6tnl devices that have their own remotes. Frames that are redirected to a device without a
# link-layer header lose theirs.
# show: for d in t1 t2 t3 t4 t5 t6 t7 t8 t9; do echo $d; ip -s -s link show $d | tail -n +3; done
. "$(dirname "$0")/common.sh"
sysctl -qw net.ipv6.auto_flowlabels=0
a() { n=$1; shift; ip link add $n type ip6tnl "$@"; ip link set $n up; }
a t1 remote 2001:db8:1::2 local 2001:db8:1::1 mode any dev u0 hoplimit 9 tclass 0x20 flowlabel 0x12345
a t2 remote 2001:db8:1::3 local 2001:db8:1::1 mode any hoplimit inherit tclass inherit flowlabel inherit encaplimit none
a t3 remote 2001:db8:1::4 local 2001:db8:1::1 mode ip6ip6 tclass 0x3
a t4 remote 2001:db8:1::2 local 2001:db8:1::1 mode ipip6 encaplimit 0 hoplimit inherit
a t5 remote 2001:db8:1::3
a t6 local 2001:db8:1::1 mode any
a t7 remote 2001:db8:ffff::1 local 2001:db8:1::1 mode any
a t8 remote 2001:db8:1::1 local 2001:db8:1::1 mode any
a t9 remote 2001:db8::1 local 2001:db8:1::77 mode any
tc qdisc add dev in0 clsact
f() { tc filter add dev in0 ingress "$@"; }
m() { echo "action mirred egress mirror dev $1"; }
f protocol ip prio 1 flower ip_proto udp $(m t1) $(m t3) $(m t7) $(redirect t2)
f protocol ip prio 2 flower ip_proto tcp $(m t2) $(m t5) $(redirect t4)
f protocol ip prio 3 flower ip_proto icmp $(m t4) $(m t6) $(m t8) $(redirect t9)
f protocol ipv6 prio 5 flower ip_proto udp $(m t1) $(m t4) $(redirect t2)
f protocol ipv6 prio 6 flower ip_proto tcp $(m t2) $(m t5) $(m t6) $(redirect t3)
f protocol ipv6 prio 7 flower $(m t1) $(m t7) $(m t9) $(redirect t2)
f protocol mpls_uc prio 9 flower $(m t1) $(m t3) $(redirect t2)
f protocol arp prio 10 flower $(redirect t1)
