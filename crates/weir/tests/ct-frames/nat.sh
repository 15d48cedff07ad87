# SPDX-License-Identifier: Apache-2.0 OR MIT
# Address translation, exact to the checksum. The destination of a frame ends in the number of the filter of chain 1
# that its packet hit.
tc qdisc add dev d0 clsact
tc filter add dev d0 ingress pref 1 protocol ip flower ct_state -trk action ct nat pipe action goto chain 1
tc filter add dev d0 ingress pref 2 protocol ipv6 flower ct_state -trk action ct nat pipe action goto chain 1
commit() {
    number=$1 protocol=$2 match=$3
    shift 3
    tc filter add dev d0 ingress chain 1 pref $number protocol $protocol flower $match ct_state +trk+new action ct commit "$@" pipe action skbmod set dmac 02:00:00:00:00:$number pipe action mirred egress redirect dev d2
}
commit 10 ip "src_ip 10.1.0.1 dst_ip 10.1.0.2" nat src addr 192.0.2.1
commit 11 ip "src_ip 10.1.0.1 dst_ip 10.1.0.3 ip_proto tcp" nat src addr 192.0.2.1 port 5000
commit 12 ip "src_ip 10.1.0.1 dst_ip 10.1.0.3 ip_proto udp" nat dst addr 192.0.2.2 port 5353
commit 13 ip "src_ip 10.1.0.1 dst_ip 10.1.0.4" nat dst addr 192.0.2.2
commit 14 ip "src_ip 10.1.0.1 dst_ip 10.1.0.5 ip_proto sctp" nat src addr 192.0.2.1 port 6000
commit 15 ip "src_ip 10.1.0.1 dst_ip 10.1.0.5 ip_proto 21" nat src addr 192.0.2.1 port 6000
commit 16 ip "src_ip 10.1.0.1 dst_ip 10.1.0.5 ip_proto icmp" nat src addr 192.0.2.1 port 6000
commit 17 ipv6 "src_ip fd01::1 dst_ip fd01::2" nat src addr 2001:db8::1
commit 18 ipv6 "src_ip fd01::1 dst_ip fd01::3" nat dst addr 2001:db8::2 port 5353
commit 19 ip "src_ip 10.1.0.1 dst_ip 10.1.0.6" nat src addr 192.0.2.10-192.0.2.13
commit 20 ip "src_ip 10.1.0.1 dst_ip 10.1.0.7" nat dst addr 192.0.2.10-192.0.2.13
commit 21 ipv6 "src_ip fd01::1 dst_ip fd01::7" nat src addr 2001:db8::10-2001:db8::1:0
commit 22 ipv6 "src_ip fd01::1 dst_ip fd01::8" nat dst addr 2001:db8::10-2001:db8:1::20
pass() {
    tc filter add dev d0 ingress chain 1 pref $1 protocol all flower ct_state $2 action skbmod set dmac 02:00:00:00:00:$1 pipe action mirred egress redirect dev d2
}
pass 30 +trk+est+rpl
pass 31 +trk+est-rpl
pass 32 +trk+rel
pass 33 +trk+inv
pass 34 +trk
# TCP; an ICMP error about a translated packet, on both sides; an error that cannot be translated.
# frame: 10.1.0.1:1000 > 10.1.0.2:80 tcp S seq=1000
# frame: 10.1.0.2:80 > 192.0.2.1:1000 tcp SA seq=5000 ack=1001
# frame: 10.1.0.1:1000 > 10.1.0.2:80 tcp A seq=1001 ack=5001
# frame: 10.1.0.1:1000 > 10.1.0.2:80 tcp PA seq=1001 ack=5001 len=11
# frame: 10.1.0.2:80 > 192.0.2.1:1000 tcp PA seq=5001 ack=1012 len=5
# frame: 10.1.0.9 > 192.0.2.1 error/3/1/192.0.2.1:1000 > 10.1.0.2:80 tcp A seq=1012 ack=5006
# frame: 10.1.0.9 > 192.0.2.1 error/3/4/192.0.2.1:1000 > 10.1.0.2:80 tcp A seq=1012 ack=5006 keep=28
# frame: 10.1.0.1 > 10.1.0.2 error/11/0/10.1.0.2:80 > 10.1.0.1:1000 tcp A seq=5006 ack=1012
# frame: 10.1.0.9 > 192.0.2.1 error/5/1/192.0.2.1:1000 > 10.1.0.2:80 tcp A seq=1012 ack=5006
# frame: 10.1.0.1:1000 > 10.1.0.3:80 tcp S seq=1000
# frame: 10.1.0.3:80 > 192.0.2.1:5000 tcp SA seq=5000 ack=1001
# frame: 10.1.0.1:1001 > 10.1.0.3:80 tcp S seq=1000
# frame: 10.1.0.1:1000 > 10.1.0.4:80 tcp S seq=1000 tos=0x10
# frame: 192.0.2.2:80 > 10.1.0.1:1000 tcp SA seq=5000 ack=1001
# UDP, with and without a checksum.
# frame: 10.1.0.1:2000 > 10.1.0.2:53 udp
# frame: 10.1.0.2:53 > 192.0.2.1:2000 udp len=9
# frame: 10.1.0.1:2001 > 10.1.0.3:53 udp
# frame: 192.0.2.2:5353 > 10.1.0.1:2001 udp
# frame: 10.1.0.1:2002 > 10.1.0.2:53 udp nosum
# frame: 10.1.0.2:53 > 192.0.2.1:2002 udp nosum
# frame: 10.1.0.2 > 192.0.2.1 error/3/3/192.0.2.1:2000 > 10.1.0.2:53 udp
# frame: 10.1.0.2 > 192.0.2.1 error/3/3/192.0.2.1:2000 > 10.1.0.2:53 udp keep=24
# frame: 10.1.0.2 > 192.0.2.1 error/3/3/192.0.2.1:2002 > 10.1.0.2:53 udp nosum
# frame: 192.0.2.2 > 10.1.0.1 error/3/3/10.1.0.1:2001 > 192.0.2.2:5353 udp
# frame: 10.1.0.2:2000 > 10.1.0.9:53 udp
# frame: 10.1.0.1:2000 > 10.1.0.2:53 udp opt len=30
# An IPv4 header only, a cut one.
# frame: 10.1.0.1:2009 > 10.1.0.2:53 udp cut=8
# frame: 10.1.0.1:2009 > 10.1.0.2:53 udp cut=4
# ICMP echo, with its id and with another one.
# frame: 10.1.0.1:3000 > 10.1.0.2 icmp
# frame: 10.1.0.2:3000 > 192.0.2.1 icmp type=0
# frame: 10.1.0.1:3000 > 10.1.0.5 icmp
# frame: 10.1.0.5:6000 > 192.0.2.1 icmp type=0
# frame: 10.1.0.9 > 192.0.2.1 error/11/0/192.0.2.1:6000 > 10.1.0.5 icmp
# SCTP (CRC32c) and DCCP.
# frame: 10.1.0.1:5000 > 10.1.0.2:36412 sctp chunk=1 itag=10
# frame: 10.1.0.2:36412 > 192.0.2.1:5000 sctp chunk=2 tag=10 itag=20
# frame: 10.1.0.1:5000 > 10.1.0.2:36412 sctp chunk=10 tag=20
# frame: 10.1.0.1:5000 > 10.1.0.5:36412 sctp chunk=1 itag=10
# frame: 10.1.0.5:36412 > 192.0.2.1:6000 sctp chunk=2 tag=10 itag=20
# frame: 10.1.0.1:5000 > 10.1.0.5:36412 sctp chunk=10 tag=20
# frame: 10.1.0.5:36412 > 192.0.2.1:6000 sctp chunk=11 tag=10
# frame: 10.1.0.1:5000 > 10.1.0.5:36412 sctp chunk=0 tag=20 len=31
# frame: 10.1.0.5:36412 > 192.0.2.1:6000 sctp chunk=3 tag=10 len=12
# frame: 10.1.0.9 > 192.0.2.1 error/3/1/192.0.2.1:6000 > 10.1.0.5:36412 sctp chunk=0 tag=20 len=31
# frame: 10.1.0.1:5000 > 10.1.0.4:36412 sctp chunk=1 itag=10
# frame: 192.0.2.2:36412 > 10.1.0.1:5000 sctp chunk=2 tag=10 itag=20
# frame: 10.1.0.1:6000 > 10.1.0.2:7000 dccp type=0 seq=1000
# frame: 10.1.0.2:7000 > 192.0.2.1:6000 dccp type=1 seq=2000 ack=1000
# frame: 10.1.0.1:6001 > 10.1.0.5:7000 dccp type=0 seq=1000
# frame: 10.1.0.5:7000 > 192.0.2.1:6000 dccp type=1 seq=2000 ack=1000
# frame: 10.1.0.1:6001 > 10.1.0.5:7000 dccp type=3 seq=1001 ack=2000
# frame: 10.1.0.9 > 192.0.2.1 error/3/1/192.0.2.1:6000 > 10.1.0.5:7000 dccp type=3 seq=1001 ack=2000
# frame: 10.1.0.1:6002 > 10.1.0.4:7000 dccp type=0 seq=1000
# Without ports.
# frame: 10.1.0.1 > 10.1.0.2 gre key=7
# frame: 10.1.0.2 > 192.0.2.1 gre key=7
# frame: 10.1.0.1 > 10.1.0.4 raw proto=50
# frame: 192.0.2.2 > 10.1.0.1 raw proto=50
# IPv6.
# frame: fd01::1.1000 > fd01::2.80 tcp S seq=1000
# frame: fd01::2.80 > 2001:db8::1.1000 tcp SA seq=5000 ack=1001
# frame: fd01::1.2000 > fd01::2.53 udp
# frame: fd01::2.53 > 2001:db8::1.2000 udp
# frame: fd01::1.2001 > fd01::2.53 udp nosum
# frame: fd01::1.2002 > fd01::3.53 udp hop
# frame: 2001:db8::2.5353 > fd01::1.2002 udp
# frame: fd01::1.3000 > fd01::2 icmp type=128
# frame: fd01::2.3000 > 2001:db8::1 icmp type=129
# frame: fd01::9 > 2001:db8::1 error/2/0/2001:db8::1.1000 > fd01::2.80 tcp A seq=1001 ack=5001
# frame: fd01::2 > 2001:db8::1 error/1/4/2001:db8::1.2000 > fd01::2.53 udp
# frame: fd01::1.5000 > fd01::2.36412 sctp chunk=1 itag=10
# frame: fd01::2.36412 > 2001:db8::1.5000 sctp chunk=2 tag=10 itag=20
# frame: fd01::1.6000 > fd01::2.7000 dccp type=0 seq=1000
# frame: fd01::2.7000 > 2001:db8::1.6000 dccp type=1 seq=2000 ack=1000
# A range of addresses.
# frame: 10.1.0.1:1100 > 10.1.0.6:80 tcp S seq=1000
# frame: 10.1.0.1:1101 > 10.1.0.6:80 tcp S seq=1000
# frame: 10.1.0.1:1102 > 10.1.0.6:53 udp
# frame: 10.1.0.1:1102 > 10.1.0.7:53 udp
# frame: fd01::1.1102 > fd01::7.53 udp
# frame: fd01::1.1102 > fd01::8.53 udp
