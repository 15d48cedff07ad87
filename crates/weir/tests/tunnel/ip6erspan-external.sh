# SPDX-License-Identifier: Apache-2.0 OR MIT
# in: in0 ip6inner
# out: u0
# Frames that tunnel_key gives metadata, through an ip6erspan device in external mode.
# show: for d in e1; do echo $d; ip -s -s link show $d | tail -n +3; done
. "$(dirname "$0")/common.sh"
sysctl -qw net.ipv6.auto_flowlabels=0
ip link add e1 type ip6erspan external erspan_ver 2
ip link set e1 up
tc qdisc add dev in0 clsact
f() { tc filter add dev in0 ingress "$@"; }
set6="action tunnel_key set src_ip 2001:db8:1::77 dst_ip 2001:db8:1::2"
f protocol 802.1ad prio 11 flower action drop
f protocol ip prio 1 flower ip_proto udp $set6 id 5 tos 0x10 ttl 9 erspan_opts 1:0xabcde:0:0 $(redirect e1)
f protocol ip prio 2 flower ip_proto tcp $set6 id 6 nocsum erspan_opts 2:0:1:63 $(redirect e1)
f protocol ip prio 3 flower ip_proto icmp $set6 id 7 $(redirect e1)
f protocol ip prio 4 flower action tunnel_key set src_ip 192.0.2.1 dst_ip 192.0.2.2 id 5 erspan_opts 1:7:0:0 $(redirect e1)
f protocol ipv6 prio 5 flower ip_proto udp $set6 erspan_opts 2:0:0:17 $(redirect e1)
f protocol ipv6 prio 6 flower ip_proto tcp action tunnel_key set src_ip :: dst_ip 2001:db8:1::3 id 9 tos 0x20 ttl 77 erspan_opts 1:7:0:0 $(redirect e1)
f protocol ipv6 prio 7 flower action tunnel_key set src_ip 2001:db8:1::1 dst_ip 2001:db8:ffff::2 id 9 erspan_opts 1:7:0:0 $(redirect e1)
f protocol 802.1q prio 8 flower $set6 id 10 erspan_opts 1:8:0:0 $(redirect e1)
f protocol mpls_uc prio 10 flower $set6 id 1 tos 3 erspan_opts 2:0:1:1 $(redirect e1)
f protocol arp prio 12 flower $(redirect e1)
