# SPDX-License-Identifier: Apache-2.0 OR MIT
# Zones: the same addresses and ports are different connections in different zones. The destination of a frame ends in
# the number of the filter of chain 1 that its packet hit. The TOS of a packet chooses its zone; 10.1.0.1 in
# zone 5 is translated, fragments are joined for each zone, one packet passes two zones.
tc qdisc add dev d0 clsact
zone() {
    tc filter add dev d0 ingress pref $1 protocol ip flower ip_tos $2 ct_state -trk action ct zone $3 nat pipe action goto chain 1
}
zone 1 0x04 4
zone 2 0x08 5
zone 3 0x0c 65535
tc filter add dev d0 ingress pref 4 protocol ip flower ip_tos 0x10 ct_state -trk action ct zone 4 pipe action ct clear pipe action ct zone 5 pipe action goto chain 1
tc filter add dev d0 ingress pref 5 protocol ip flower ip_tos 0x14 ct_state -trk action ct zone 4 pipe action ct zone 5 pipe action goto chain 1
tc filter add dev d0 ingress pref 6 protocol ipv6 flower src_ip fd01::1 ct_state -trk action ct zone 6 pipe action goto chain 1
tc filter add dev d0 ingress pref 7 protocol ipv6 flower src_ip fd01::2 ct_state -trk action ct zone 6 pipe action goto chain 1
tc filter add dev d0 ingress pref 8 protocol ipv6 flower ct_state -trk action ct zone 7 pipe action goto chain 1
tc filter add dev d0 ingress pref 9 protocol ip flower ct_state -trk action ct pipe action goto chain 1
commit() {
    number=$1 protocol=$2 match=$3
    shift 3
    tc filter add dev d0 ingress chain 1 pref $number protocol $protocol flower $match action ct commit "$@" pipe action skbmod set dmac 02:00:00:00:00:$number pipe action mirred egress redirect dev d2
}
commit 10 ip "ct_zone 4 ct_state +trk+new" zone 4 mark 4
commit 11 ip "ct_zone 5 ct_state +trk+new ip_proto tcp" zone 5 mark 5 nat src addr 192.0.2.1 port 5000
commit 12 ip "ct_zone 5 ct_state +trk+new" zone 5 nat src addr 192.0.2.1
commit 13 ip "ct_zone 65535 ct_state +trk+new" zone 65535 label 0102
commit 14 ip "ct_zone 0 ct_state +trk+new dst_ip 10.1.0.8" zone 4
commit 15 ip "ct_zone 0 ct_state +trk+new"
commit 16 ipv6 "ct_zone 6 ct_state +trk+new" zone 6
commit 17 ipv6 "ct_zone 7 ct_state +trk+new" zone 7
pass() {
    tc filter add dev d0 ingress chain 1 pref $1 protocol all flower $2 action skbmod set dmac 02:00:00:00:00:$1 pipe action mirred egress redirect dev d2
}
pass 20 "ct_zone 4 ct_mark 4 ct_state +trk+est+rpl"
pass 21 "ct_zone 4 ct_state +trk+est"
pass 22 "ct_zone 5 ct_state +trk+est+rpl"
pass 23 "ct_zone 5/0x5 ct_state +trk+est"
pass 24 "ct_zone 65535 ct_label 0102 ct_state +trk+est"
pass 25 "ct_zone 0xff00/0xff00 ct_state +trk+est"
pass 26 "ct_state +trk+rel"
pass 27 "ct_state +trk+inv"
pass 28 "ct_zone 6 ct_state +trk+est"
pass 29 "ct_zone 7 ct_state +trk+est"
pass 30 "ct_zone 0 ct_state +trk+est+rpl"
pass 31 "ct_zone 0 ct_state +trk+est"
pass 32 "ct_state +trk+new"
pass 33 "ct_state -trk"
# The same connection in each zone.
# frame: 10.1.0.1:1000 > 10.1.0.2:80 tcp S seq=1000 tos=4
# frame: 10.1.0.1:1000 > 10.1.0.2:80 tcp S seq=1000 tos=8
# frame: 10.1.0.1:1000 > 10.1.0.2:80 tcp S seq=1000 tos=12
# frame: 10.1.0.1:1000 > 10.1.0.2:80 tcp S seq=1000
# frame: 10.1.0.2:80 > 10.1.0.1:1000 tcp SA seq=5000 ack=1001 tos=4
# frame: 10.1.0.2:80 > 192.0.2.1:5000 tcp SA seq=5000 ack=1001 tos=8
# frame: 10.1.0.2:80 > 10.1.0.1:1000 tcp SA seq=5000 ack=1001 tos=8
# frame: 10.1.0.2:80 > 10.1.0.1:1000 tcp SA seq=5000 ack=1001 tos=12
# frame: 10.1.0.2:80 > 10.1.0.1:1000 tcp SA seq=5000 ack=1001
# frame: 10.1.0.1:1000 > 10.1.0.2:80 tcp A seq=1001 ack=5001 tos=4
# frame: 10.1.0.1:1000 > 10.1.0.2:80 tcp A seq=1001 ack=5001 tos=8
# frame: 10.1.0.1:1000 > 10.1.0.2:80 tcp A seq=1001 ack=5001 tos=12
# frame: 10.1.0.1:1000 > 10.1.0.2:80 tcp A seq=1001 ack=5001
# Data in one zone only.
# frame: 10.1.0.1:1000 > 10.1.0.2:80 tcp PA seq=1001 ack=5001 len=9 tos=4
# Ports of a translation are those of the zone.
# frame: 10.1.0.1:1001 > 10.1.0.2:80 tcp S seq=1000 tos=8
# frame: 10.1.0.1:1002 > 10.1.0.2:80 tcp S seq=1000 tos=8
# frame: 10.1.0.1:1003 > 10.1.0.2:81 tcp S seq=1000 tos=8
# UDP in two zones; replies to the wrong one; an error in each.
# frame: 10.1.0.1:2000 > 10.1.0.2:53 udp tos=4
# frame: 10.1.0.1:2000 > 10.1.0.2:53 udp tos=8
# frame: 10.1.0.2:53 > 192.0.2.1:2000 udp tos=4
# frame: 10.1.0.2:53 > 192.0.2.1:2000 udp tos=8
# frame: 10.1.0.2:53 > 10.1.0.1:2000 udp tos=4
# frame: 10.1.0.2:53 > 10.1.0.1:2000 udp tos=12
# frame: 10.1.0.2 > 10.1.0.1 error/3/3/10.1.0.1:2000 > 10.1.0.2:53 udp
# Committed to another zone than looked up.
# frame: 10.1.0.1:3000 > 10.1.0.8:53 udp
# frame: 10.1.0.1:3000 > 10.1.0.8:53 udp
# frame: 10.1.0.8:53 > 10.1.0.1:3000 udp tos=4
# frame: 10.1.0.8:53 > 10.1.0.1:3000 udp
# A packet that passes two zones, with and without `ct clear`.
# frame: 10.1.0.1:2000 > 10.1.0.2:53 udp tos=0x10
# frame: 10.1.0.1:4000 > 10.1.0.2:53 udp tos=0x10
# frame: 10.1.0.1:4000 > 10.1.0.2:53 udp tos=0x14
# frame: 10.1.0.1:4001 > 10.1.0.2:53 udp tos=0x14
# frame: 10.1.0.2:53 > 192.0.2.1:4000 udp tos=8
# Fragments of one packet in two zones.
# frame: 10.1.0.1:5000 > 10.1.0.2:53 udp len=40 ipid=9 tos=4 fragments=24
# frame: 10.1.0.1:5000 > 10.1.0.2:53 udp len=40 ipid=9 tos=8 fragments=24
# frame: 10.1.0.1:5001 > 10.1.0.2:53 udp len=40 ipid=10 tos=4 fragments=24 order=0
# frame: 10.1.0.1:5001 > 10.1.0.2:53 udp len=40 ipid=10 tos=8 fragments=24 order=1
# frame: 10.1.0.1:5001 > 10.1.0.2:53 udp len=40 ipid=10 tos=4 fragments=24 order=1
# IPv6.
# frame: fd01::1.2000 > fd01::2.53 udp
# frame: fd01::2.53 > fd01::1.2000 udp
# frame: fd01::3.2000 > fd01::1.53 udp
# frame: fd01::1.53 > fd01::3.2000 udp
# frame: fd01::1.53 > fd01::3.2000 udp
