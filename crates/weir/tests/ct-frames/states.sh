# SPDX-License-Identifier: Apache-2.0 OR MIT
# States, marks and labels of connections, as flower matches them. Each filter of chain 1 that a packet hits sends a
# copy whose destination ends in the filter's number.
tc qdisc add dev d0 clsact
tc filter add dev d0 ingress pref 1 protocol ip flower ct_state -trk action ct pipe action goto chain 1
tc filter add dev d0 ingress pref 2 protocol ipv6 flower ct_state -trk action ct pipe action goto chain 1
tc filter add dev d0 ingress pref 3 protocol 802.1q flower vlan_id 5 ct_state -trk action ct pipe action goto chain 1
tc filter add dev d0 ingress pref 4 protocol all flower ct_state -trk action skbmod set dmac 02:00:00:00:00:ff pipe action mirred egress redirect dev d2
copy() {
    number=$1
    shift
    tc filter add dev d0 ingress chain 1 pref $number protocol all flower "$@" action skbmod set dmac 02:00:00:00:00:$number pipe action mirred egress mirror dev d2 continue
}
copy 10 ct_state +trk
copy 11 ct_state -trk
copy 12 ct_state +trk+new
copy 13 ct_state +trk-new
copy 14 ct_state +trk+est
copy 15 ct_state +trk-est
copy 16 ct_state +trk+rel
copy 17 ct_state +trk+inv
copy 18 ct_state +trk-inv-rel
copy 19 ct_state +trk+rpl
copy 20 ct_state +trk-rpl
copy 21 ct_state +trk+new+rel
copy 22 ct_state +trk+est+rpl
copy 23 ct_mark 0x15
copy 24 ct_mark 0x10/0xf0
copy 25 ct_mark 0/0xff
copy 26 ct_label 00000000000000000000000000000007
copy 27 ct_label 04000000000000000000000000000000/0c000000000000000000000000000000
copy 28 ct_label 00000000000000000000000000000000
# New connections are committed; those of UDP to port 7 are not.
tc filter add dev d0 ingress chain 1 pref 39 protocol ip flower ip_proto tcp dst_port 81 ct_state +trk+new action ct commit mark 0x15
tc filter add dev d0 ingress chain 1 pref 40 protocol ip flower ip_proto tcp ct_state +trk+new action ct commit mark 0x15/0xff label 07000000000000000000000000000000
tc filter add dev d0 ingress chain 1 pref 41 protocol ip flower ip_proto udp dst_port 7 action pass
tc filter add dev d0 ingress chain 1 pref 42 protocol ip flower ct_state +trk+new action ct commit mark 0x110/0x1f0
tc filter add dev d0 ingress chain 1 pref 43 protocol ipv6 flower ct_state +trk+new action ct commit
# TCP from its beginning to its end.
# frame: 10.1.0.1:1000 > 10.1.0.2:80 tcp S seq=1000
# frame: 10.1.0.1:1000 > 10.1.0.2:80 tcp S seq=1000
# frame: 10.1.0.2:80 > 10.1.0.1:1000 tcp SA seq=5000 ack=1001
# frame: 10.1.0.1:1000 > 10.1.0.2:80 tcp A seq=1001 ack=5001
# frame: 10.1.0.1:1000 > 10.1.0.2:80 tcp PA seq=1001 ack=5001 len=10
# frame: 10.1.0.2:80 > 10.1.0.1:1000 tcp PA seq=5001 ack=1011 len=20
# frame: 10.1.0.9 > 10.1.0.1 error/3/1/10.1.0.1:1000 > 10.1.0.2:80 tcp A seq=1011 ack=5021
# frame: 10.1.0.1 > 10.1.0.2 error/3/4/10.1.0.2:80 > 10.1.0.1:1000 tcp A seq=5021 ack=1011
# frame: 10.1.0.1:1000 > 10.1.0.2:80 tcp FA seq=1011 ack=5021
# frame: 10.1.0.2:80 > 10.1.0.1:1000 tcp FA seq=5021 ack=1012
# frame: 10.1.0.1:1000 > 10.1.0.2:80 tcp A seq=1012 ack=5022
# frame: 10.1.0.1:1000 > 10.1.0.2:80 tcp S seq=90000
# Odd segments.
# frame: 10.1.0.1:1001 > 10.1.0.2:80 tcp SF seq=1000
# frame: 10.1.0.1:1001 > 10.1.0.2:80 tcp seq=1000
# frame: 10.1.0.1:1001 > 10.1.0.2:80 tcp R seq=1000
# frame: 10.1.0.1:1001 > 10.1.0.2:80 tcp SA seq=1000 ack=1
# frame: 10.1.0.1:1001 > 10.1.0.2:80 tcp S seq=1000 badsum
# frame: 10.1.0.1:1001 > 10.1.0.2:80 tcp S seq=1000 cut=12
# frame: 10.1.0.1:1002 > 10.1.0.2:80 tcp A seq=1000 ack=7000
# frame: 10.1.0.2:80 > 10.1.0.1:1002 tcp A seq=7000 ack=1000
# frame: 10.1.0.1:1003 > 10.1.0.2:81 tcp S seq=1000 opt
# frame: 10.1.0.2:81 > 10.1.0.1:1003 tcp RA seq=0 ack=1001
# frame: 10.1.0.1:1003 > 10.1.0.2:81 tcp A seq=1001 ack=1
# frame: 10.1.0.1:1004 > 10.1.0.2:80 tcp S seq=1000 tag
# frame: 10.1.0.2:80 > 10.1.0.1:1004 tcp SA seq=500 ack=1001 tag
# frame: 10.1.0.1:1005 > 10.1.0.2:80 tcp S seq=1000 pad
# Segments outside of the window while the connection begins.
# frame: 10.1.0.1:1006 > 10.1.0.2:80 tcp S seq=1000
# frame: 10.1.0.2:80 > 10.1.0.1:1006 tcp SA seq=5000 ack=77
# frame: 10.1.0.2:80 > 10.1.0.1:1006 tcp SA seq=5000 ack=1001
# frame: 10.1.0.1:1006 > 10.1.0.2:80 tcp R seq=900000
# UDP.
# frame: 10.1.0.1:2000 > 10.1.0.2:53 udp
# frame: 10.1.0.2:53 > 10.1.0.1:2000 udp
# frame: 10.1.0.1:2000 > 10.1.0.2:53 udp len=20
# frame: 10.1.0.2 > 10.1.0.1 error/3/3/10.1.0.1:2000 > 10.1.0.2:53 udp
# frame: 10.1.0.2 > 10.1.0.1 error/3/3/10.1.0.1:2000 > 10.1.0.2:53 udp badsum
# frame: 10.1.0.2 > 10.1.0.1 error/5/1/10.1.0.1:2000 > 10.1.0.2:53 udp
# frame: 10.1.0.2 > 10.1.0.1 error/11/0/10.1.0.1:2999 > 10.1.0.2:53 udp
# frame: 10.1.0.2 > 10.1.0.1 error/12/0/10.1.0.1:2000 > 10.1.0.2:53 udp keep=28
# frame: 10.1.0.2 > 10.1.0.1 error/3/3/10.1.0.1:2000 > 10.1.0.2:53 udp keep=24
# frame: 10.1.0.1:2001 > 10.1.0.2:7 udp
# frame: 10.1.0.1:2001 > 10.1.0.2:7 udp
# frame: 10.1.0.2:7 > 10.1.0.1:2001 udp
# frame: 10.1.0.1:2002 > 10.1.0.2:53 udp badsum
# frame: 10.1.0.1:2003 > 10.1.0.2:53 udp nosum
# frame: 10.1.0.1:2004 > 10.1.0.2:53 udp ulen=100
# frame: 10.1.0.1:2005 > 10.1.0.2:53 udp ulen=7
# frame: 10.1.0.1:0 > 10.1.0.2:53 udp
# ICMP.
# frame: 10.1.0.1:3000 > 10.1.0.2 icmp
# frame: 10.1.0.2:3000 > 10.1.0.1 icmp type=0
# frame: 10.1.0.1:3000 > 10.1.0.2 icmp
# frame: 10.1.0.2:3001 > 10.1.0.1 icmp type=0
# frame: 10.1.0.1:3002 > 10.1.0.2 icmp type=13
# frame: 10.1.0.2:3002 > 10.1.0.1 icmp type=14
# frame: 10.1.0.1:3003 > 10.1.0.2 icmp type=8 badsum
# frame: 10.1.0.1:3004 > 10.1.0.2 icmp type=99
# frame: 10.1.0.1:3005 > 10.1.0.2 icmp type=9
# frame: 10.1.0.1:3006 > 10.1.0.2 icmp cut=4
# Others.
# frame: 10.1.0.1:5000 > 10.1.0.2:36412 sctp chunk=1 itag=10
# frame: 10.1.0.2:36412 > 10.1.0.1:5000 sctp chunk=2 tag=10 itag=20
# frame: 10.1.0.1:5000 > 10.1.0.2:36412 sctp chunk=10 tag=20
# frame: 10.1.0.2:36412 > 10.1.0.1:5000 sctp chunk=11 tag=10
# frame: 10.1.0.1:5000 > 10.1.0.2:36412 sctp chunk=0 tag=99
# frame: 10.1.0.1:5001 > 10.1.0.2:36412 sctp chunk=0 tag=99
# frame: 10.1.0.1:6000 > 10.1.0.2:7000 dccp type=0 seq=1000
# frame: 10.1.0.2:7000 > 10.1.0.1:6000 dccp type=1 seq=2000 ack=1000
# frame: 10.1.0.1:6000 > 10.1.0.2:7000 dccp type=3 seq=1001 ack=2000
# frame: 10.1.0.1:6001 > 10.1.0.2:7000 dccp type=3 seq=1001 ack=2000
# frame: 10.1.0.1 > 10.1.0.2 gre key=7
# frame: 10.1.0.2 > 10.1.0.1 gre key=7
# frame: 10.1.0.1 > 10.1.0.2 raw proto=50
# frame: 10.1.0.2 > 10.1.0.1 raw proto=50
# raw: 08060001080006040001020000000009
# raw: 08004500
# IPv6.
# frame: fd01::1.1000 > fd01::2.80 tcp S seq=1000
# frame: fd01::2.80 > fd01::1.1000 tcp SA seq=5000 ack=1001
# frame: fd01::1.1000 > fd01::2.80 tcp A seq=1001 ack=5001
# frame: fd01::9 > fd01::1 error/2/0/fd01::1.1000 > fd01::2.80 tcp A seq=1001 ack=5001
# frame: fd01::1.2000 > fd01::2.53 udp
# frame: fd01::2.53 > fd01::1.2000 udp
# frame: fd01::1.2001 > fd01::2.53 udp nosum
# frame: fd01::1.2002 > fd01::2.53 udp badsum
# frame: fd01::1.2003 > fd01::2.53 udp hop
# frame: fd01::2.53 > fd01::1.2003 udp
# frame: fd01::1.3000 > fd01::2 icmp type=128
# frame: fd01::2.3000 > fd01::1 icmp type=129
# frame: fd01::2.3001 > fd01::1 icmp type=129
# frame: fe80::1 > ff02::1 icmp type=135
# frame: fe80::1 > ff02::1 icmp type=131
# frame: fd01::1.3002 > fd01::2 icmp type=128 badsum
# frame: fd01::2 > fd01::1 error/1/4/fd01::1.2000 > fd01::2.53 udp
# frame: fd01::2 > fd01::1 error/1/4/fd01::1.2999 > fd01::2.53 udp
