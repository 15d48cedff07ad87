# SPDX-License-Identifier: Apache-2.0 OR MIT
# Marks that `connmark` and `ctinfo` copy. Each filter of chains 1 and 2 that a packet hits sends a copy whose
# destination ends in the filter's number.
tc qdisc add dev d0 clsact
tc filter add dev d0 ingress pref 1 protocol ip flower ip_proto tcp action ct commit mark 0x4100002a/0xffffffff pipe action connmark pipe action goto chain 1
tc filter add dev d0 ingress pref 2 protocol ip flower ip_proto udp dst_port 53 action connmark pipe action goto chain 1
tc filter add dev d0 ingress pref 3 protocol ip flower ip_proto udp dst_port 54 action ct pipe action connmark pipe action goto chain 1
tc filter add dev d0 ingress pref 4 protocol ip flower ip_proto udp dst_port 55 action ct commit mark 0x2a pipe action ct clear pipe action skbedit mark 7 pipe action connmark pipe action goto chain 1
tc filter add dev d0 ingress pref 5 protocol ip flower ip_proto udp dst_port 56 action ct commit mark 0xb800002a/0xff0000ff pipe action ctinfo dscp 0xfc000000 0x00000002 cpmark 0xff pipe action goto chain 1
tc filter add dev d0 ingress pref 6 protocol ip flower ip_proto udp dst_port 57 action ct commit mark 0xb8000028/0xff0000ff pipe action ctinfo dscp 0xfc000000 0x00000002 pipe action goto chain 1
tc filter add dev d0 ingress pref 7 protocol ip flower ip_proto udp dst_port 58 action ct commit mark 0xb8000008 pipe action ctinfo dscp 0xfc000000 pipe action goto chain 1
tc filter add dev d0 ingress pref 8 protocol ip flower ip_proto udp dst_port 59 action ctinfo cpmark pipe action goto chain 1
tc filter add dev d0 ingress pref 9 protocol ip flower ip_proto udp dst_port 60 action ct commit mark 0x2a pipe action ct commit mark 0/0x8 pipe action connmark pipe action goto chain 1
tc filter add dev d0 ingress pref 10 protocol ip flower ip_proto icmp action ct pipe action ctinfo cpmark pipe action goto chain 1
tc filter add dev d0 ingress pref 11 protocol ipv6 flower action ct commit mark 0xb800002a pipe action ctinfo dscp 0xfc000000 0x2 cpmark pipe action goto chain 1
tc filter add dev d0 ingress pref 12 protocol all flower action connmark pipe action goto chain 1
copy() {
    chain=$1 number=$2
    shift 2
    tc filter add dev d0 ingress chain $chain pref $number protocol all "$@" action skbmod set dmac 02:00:00:00:00:$number pipe action mirred egress mirror dev d2 continue
}
copy 1 10 flower
copy 1 11 handle 42 fw
copy 1 12 handle 7 fw
copy 1 13 handle 0x4100002a fw
copy 1 14 handle 0xb800002a fw
copy 1 15 handle 34 fw
copy 1 16 flower ct_state +trk+new
copy 1 17 flower ct_state +trk+est
copy 1 18 flower ct_state -trk
copy 1 19 flower ct_state +trk+inv
# TCP, with `ct`.
# frame: 10.1.0.1:1000 > 10.1.0.2:80 tcp S seq=1000
# frame: 10.1.0.2:80 > 10.1.0.1:1000 tcp SA seq=5000 ack=1001
# frame: 10.1.0.1:1001 > 10.1.0.2:80 tcp SF
# Without `ct`: nothing is known of the first, and the others belong to connections.
# frame: 10.1.0.1:2000 > 10.1.0.2:53 udp
# frame: 10.1.0.1:2001 > 10.1.0.2:54 udp
# frame: 10.1.0.1:2002 > 10.1.0.2:55 udp
# frame: 10.1.0.1:2002 > 10.1.0.2:55 udp
# frame: 10.1.0.2:55 > 10.1.0.1:53 udp
# frame: 10.1.0.1:53 > 10.1.0.2:55 udp
# frame: 10.1.0.2:55 > 10.1.0.1:53 udp
# frame: 10.1.0.2:55 > 10.1.0.1:2002 udp
# frame: 10.1.0.2:55 > 10.1.0.1:59 udp
# frame: 10.1.0.1:59 > 10.1.0.2:55 udp
# frame: 10.1.0.2:55 > 10.1.0.1:59 udp
# ctinfo: DSCP, state mask, mark.
# frame: 10.1.0.1:2003 > 10.1.0.2:56 udp
# frame: 10.1.0.1:2003 > 10.1.0.2:56 udp tos=3
# frame: 10.1.0.1:2003 > 10.1.0.2:56 udp tos=0xb8
# frame: 10.1.0.1:2004 > 10.1.0.2:57 udp tos=3
# frame: 10.1.0.1:2005 > 10.1.0.2:58 udp tos=0xff
# frame: 10.1.0.1:2006 > 10.1.0.2:60 udp
# frame: 10.1.0.1:2006 > 10.1.0.2:60 udp
# Errors about connections, and about none.
# frame: 10.1.0.2 > 10.1.0.1 error/3/3/10.1.0.1:2003 > 10.1.0.2:56 udp
# frame: 10.1.0.2 > 10.1.0.1 error/3/3/10.1.0.1:2999 > 10.1.0.2:56 udp
# frame: 10.1.0.1:7 > 10.1.0.2 icmp
# frame: fd01::1.2000 > fd01::2.53 udp
# frame: fd01::1.1000 > fd01::2.80 tcp S
# Not IP, and truncated.
# raw: 08060001080006040001020000000009
# frame: 10.1.0.2:56 > 10.1.0.1:2003 raw proto=50
# frame: 10.1.0.1 > 10.1.0.2 gre key=7
