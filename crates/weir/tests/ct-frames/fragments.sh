# SPDX-License-Identifier: Apache-2.0 OR MIT
# Fragments on the way through `ct`, and how the packets leave.
tc qdisc add dev d0 clsact
tc filter add dev d0 ingress pref 1 protocol ip flower dst_ip 10.1.0.2 action ct commit pipe action mirred egress redirect dev d2
tc filter add dev d0 ingress pref 2 protocol ip flower dst_ip 10.1.0.3 action ct commit nat src addr 192.0.2.1 port 5000 pipe action mirred egress redirect dev d2
tc filter add dev d0 ingress pref 3 protocol ip flower dst_ip 10.1.0.4 action mirred egress mirror dev d2 pipe action ct commit pipe action mirred egress redirect dev d2
tc filter add dev d0 ingress pref 5 protocol ip flower dst_ip 10.1.0.5 action ct commit pipe action mirred egress mirror dev d2 pipe action mirred egress redirect dev d2
tc filter add dev d0 ingress pref 6 protocol ipv6 flower dst_ip fd01::5 action ct commit pipe action mirred egress mirror dev d2
tc filter add dev d0 ingress pref 7 protocol ipv6 flower action ct commit pipe action mirred egress redirect dev d2
# Two equal fragments, in order and not; three; uneven ones; the last one longest.
# frame: 10.1.0.1:1000 > 10.1.0.2:53 udp len=100 fragments=56
# frame: 10.1.0.1:1000 > 10.1.0.2:53 udp len=100 ipid=2 order=1,0 fragments=56
# frame: 10.1.0.1:1001 > 10.1.0.2:53 udp len=1000 ipid=3 fragments=400
# frame: 10.1.0.1:1001 > 10.1.0.2:53 udp len=1000 ipid=4 fragments=400 order=2,0,1
# frame: 10.1.0.1:1001 > 10.1.0.2:53 udp len=1000 ipid=5 fragments=400,8,200,400
# frame: 10.1.0.1:1001 > 10.1.0.2:53 udp len=1000 ipid=6 fragments=8,8,8,984
# frame: 10.1.0.1:1001 > 10.1.0.2:53 udp len=2000 ipid=7 fragments=1000,1008
# frame: 10.1.0.1:1001 > 10.1.0.2:53 udp len=2000 ipid=8 fragments=1000,1008 df
# frame: 10.1.0.1:1001 > 10.1.0.2:53 udp len=2000 ipid=8 fragments=200,1000,808 df order=2,1,0
# frame: 10.1.0.1:1002 > 10.1.0.3:53 udp len=1000 ipid=9 fragments=400
# frame: 10.1.0.1:1002 > 10.1.0.3:53 udp len=1000 ipid=10 fragments=400,8,200,400
# frame: 10.1.0.1:1003 > 10.1.0.4:53 udp len=1000 ipid=11 fragments=400,200
# frame: 10.1.0.1:1003 > 10.1.0.4:53 udp len=100 ipid=11
# Doubled, overlapping.
# frame: 10.1.0.1:1004 > 10.1.0.2:53 udp len=1000 ipid=12 fragments=400 order=0,0,1,2
# frame: 10.1.0.1:1004 > 10.1.0.2:53 udp len=1000 ipid=13 fragments=400 order=0,1 tos=2
# frame: 10.1.0.1:1004 > 10.1.0.2:53 udp len=1000 ipid=13 fragments=400 order=2
# IPv6.
# frame: fd01::1.1000 > fd01::2.53 udp len=1000 fragments=400
# frame: fd01::1.1000 > fd01::2.53 udp len=3000 fragments=1400 ipid=2
# frame: fd01::1.1000 > fd01::2.53 udp len=3000 fragments=1400 ipid=3 order=2,1,0
# frame: fd01::1.1000 > fd01::2.53 udp len=3000 fragments=800,1400 ipid=4
# frame: fd01::1.1000 > fd01::2.53 udp len=3000 fragments=1400,8,200,1400 ipid=5
# Copies.
# frame: 10.1.0.1:1005 > 10.1.0.5:53 udp len=1000 ipid=14 fragments=400,8,200,400
# frame: 10.1.0.1:1005 > 10.1.0.5:53 udp len=1000 ipid=15 fragments=400 df
# frame: fd01::1.1000 > fd01::5.53 udp len=3000 fragments=1400,8,200,1400 ipid=6
