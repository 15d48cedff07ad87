# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 ip6inner
# out: u0
# Frames through ip6gre and ip6gretap devices that have their own remotes. Those that are redirected to a device without
# a link-layer header lose theirs.
# show: for d in g1 g2 g3 g4 g5 t1 t2 t3 t4; do echo $d; ip -s -s link show $d | tail -n +3; done
. "$(dirname "$0")/common.sh"
sysctl -qw net.ipv6.auto_flowlabels=0
a() { n=$1; shift; ip link add $n type "$@"; ip link set $n up; }
a g1 ip6gre remote 2001:db8:1::2 local 2001:db8:1::1 hoplimit 9 tclass 0x22 flowlabel 0x12345
a g2 ip6gre remote 2001:db8:1::3 local 2001:db8:1::1 key 5 csum seq hoplimit inherit tclass inherit flowlabel inherit
a g3 ip6gre remote 2001:db8:1::4 local 2001:db8:1::1 okey 0x10203 oseq encaplimit none
a g4 ip6gre remote 2001:db8:1::3
a g5 ip6gre remote 2001:db8:ffff::1 local 2001:db8:1::1
a t1 ip6gretap remote 2001:db8:1::2 local 2001:db8:1::1 key 77 dev u0
a t2 ip6gretap remote 2001:db8:1::3 local 2001:db8:1::1 csum seq encaplimit none tclass inherit flowlabel inherit hoplimit inherit
a t3 ip6gretap remote 2001:db8:ffff::1 local 2001:db8:1::1
a t4 ip6gretap remote 2001:db8::1 local 2001:db8:1::1
tc qdisc add dev in0 clsact
f() { tc filter add dev in0 ingress "$@"; }
m() { echo "action mirred egress mirror dev $1"; }
# Linux reads the IP header of frames with two tags at the wrong place.
f protocol 802.1ad prio 11 flower action drop
f protocol ip prio 1 flower ip_proto udp $(m g1) $(m t1) $(m g5) $(redirect t2)
f protocol ip prio 2 flower ip_proto tcp $(m g2) $(m t1) $(redirect g3)
f protocol ip prio 3 flower ip_proto icmp $(m g3) $(m t3) $(redirect g4)
f protocol ip prio 4 flower $(redirect t1)
f protocol ipv6 prio 5 flower ip_proto udp $(m g1) $(m t1) $(redirect g2)
f protocol ipv6 prio 6 flower ip_proto tcp $(m g2) $(m t2) $(m t4) $(redirect g3)
f protocol ipv6 prio 7 flower $(m g1) $(m t3) $(m t1) $(redirect g2)
f protocol 802.1q prio 8 flower $(m t1) $(redirect t2)
f protocol mpls_uc prio 9 flower $(m g1) $(m t1) $(redirect g2)
f protocol arp prio 10 flower $(m g3) $(m g2) $(redirect t2)
