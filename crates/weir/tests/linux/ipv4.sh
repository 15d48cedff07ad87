# SPDX-License-Identifier: Apache-2.0 OR MIT
# IPv4 routes: every way of adding, showing, getting and deleting them.
# Its output on Linux 6.1 is ipv4.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
settle() { [ -n "$WEIR" ] || sleep 0.5; } # Linux's link state comes late
ip link add v0 type veth peer name v1
ip link add v2 type veth peer name v3
c ip route del 1.2.3.0/24
c ip -6 route del 2001:db8::/32
for d in v0 v1 v2 v3; do ip link set $d addrgenmode none; done
ip link set lo up
ip link set v0 up; ip link set v1 up; ip link set v2 up; ip link set v3 up
c ip route add local 10.0.0.1 dev v0 table local proto kernel scope host src 10.0.0.1
c ip route add 10.0.0.0/24 dev v0 proto kernel scope link src 10.0.0.1
c ip route add 1.0.0.0/8 via 10.0.0.99
c ip route add 1.0.0.0/8 via 10.0.0.98
c ip route append 1.0.0.0/8 via 10.0.0.98
c ip route append 1.0.0.0/8 via 10.0.0.98
c ip route prepend 1.0.0.0/8 via 10.0.0.97
c ip route add 1.0.0.0/8 via 10.0.0.98 metric 5
c ip route add 1.0.0.0/8 via 10.0.0.98 tos 0x10
c ip route add 1.0.0.0/8 via 10.0.0.98 tos 0x11
c ip route show
c ip route replace 1.0.0.0/8 via 10.0.0.90
c ip route replace 1.0.0.0/8 via 10.0.0.90
c ip route replace 1.0.0.0/8 via 10.0.0.98
c ip route show
c ip route add 2.0.0.0/8 via 77.0.0.1
c ip route add 2.0.0.0/8 via 10.0.0.1
c ip route add 2.0.0.0/8 via 10.0.0.9 dev v1
c ip route add 2.0.0.0/8 via 10.0.0.9 dev v1 onlink metric 3
c ip route add 2.0.0.0/8 via 10.0.0.1 dev v1 onlink metric 4
c ip route add 3.0.0.0/8 nexthop via 10.0.0.5 weight 3 nexthop via 10.0.0.6
c ip route add 3.1.0.0/16 nexthop via 10.0.0.5 dev v0 weight 3 nexthop dev v1 weight 256
c ip route add 3.1.0.0/16 nexthop via 10.0.0.5 dev v0 weight 3 nexthop dev v1 weight 257
c ip route add 3.2.0.0/16 via 10.0.0.9 nexthop via 10.0.0.5 dev v0
c ip route add blackhole 4.0.0.0/8
c ip route add unreachable 4.1.0.0/16 metric 7
c ip route add prohibit 4.2.0.0/16
c ip route add throw 4.3.0.0/16
c ip route add blackhole 4.4.0.0/16 dev v0
c ip route add 5.0.0.0/8 dev v0 src 9.9.9.9
c ip route add 5.0.0.0/8 dev v0 src 10.0.0.1 mtu 1400 advmss 1300 hoplimit 9 mtu lock 1300
c ip route add 5.1.0.0/16 dev v0 rtt 100ms rto_min 5s initcwnd 20 congctl reno features ecn quickack 1
c ip route add 5.2.0.0/16 dev v0 congctl nope
c ip route add 6.0.0.0/8 via inet6 fe80::1 dev v0
c ip route add 6.1.0.0/16 via inet6 fe80::1
c ip route add 6.2.0.0/16 via inet6 2001:dead::1
c ip route add 7.0.0.0/8 dev v0 scope host
c ip route add 7.1.0.0/16 via 10.0.0.4 scope host
c ip route add 7.2.0.0/16 dev v0 scope 77
c ip route change 8.0.0.0/8 dev v0
c ip route add 10.0.0.1/24 dev v0
c ip route add multicast 239.0.0.0/8 dev v0
c ip route add anycast 9.9.9.9 dev v0
c ip route add broadcast 9.9.9.255 dev v0
c ip route add default via 10.0.0.254 dev v0 proto bird
c ip route add default via 10.0.0.253 table 100
c ip route add default via 10.0.0.253 table 1000
c ip route add 11.0.0.0/8 dev v0 table default
c ip route show table all
c ip -d route show
c ip route show table 100
c ip route show table 55
c ip route show dev v1
c ip route show proto bird
c ip route show type blackhole
c ip route show 1.0.0.0/8
c ip route show root 4.0.0.0/8
c ip route show match 4.1.0.0
c ip route show table all cache
c ip -j route show
c ip -N route show table all
c ip route get 10.0.0.9
c ip route get 10.0.0.1
c ip route get 127.0.0.1
c ip route get 127.0.0.5 
c ip route get 4.0.0.1
c ip route get 4.1.0.1
c ip route get 4.2.0.1
c ip route get 4.3.0.1
c ip route get 8.8.8.8
c ip route get 8.8.8.8 from 10.0.0.1
c ip route get 8.8.8.8 from 99.0.0.1
c ip route get 8.8.8.8 oif v0
c ip route get 8.8.8.8 oif v2
c ip route get 8.8.8.8 mark 5 
c ip route get fibmatch 8.8.8.8
c ip route get fibmatch 10.0.0.7
c ip route get 5.1.2.3
c ip route get 5.0.2.3
c ip route get 6.5.5.5
c ip route get 239.1.1.1
c ip route get 224.0.0.1 oif v0
c ip route get 255.255.255.255
c ip route get 9.9.9.255
c ip route get 10.0.0.1 from 10.0.0.8 iif v0
c ip route get 8.8.8.8 from 10.0.0.8 iif v0
c ip route get 8.8.8.8 ipproto tcp sport 5 dport 6
c ip route get 8.8.8.8 ipproto sctp
c ip route get 0.0.0.0
c ip route del 1.0.0.0/8 via 10.0.0.99
c ip route del 1.0.0.0/8 via 10.0.0.55
c ip route del 1.0.0.0/8 metric 5
c ip route del 3.0.0.0/8 nexthop via 10.0.0.5 nexthop via 10.0.0.7
c ip route del 3.0.0.0/8 nexthop via 10.0.0.5 nexthop via 10.0.0.6
c ip route del 4.1.0.0/16 proto bird
c ip route del 4.1.0.0/16
c ip route del 5.0.0.0/8 mtu 1300
c ip route del 99.0.0.0/8
c ip route del 99.0.0.0/8 table 77
c ip route show
c ip route flush table 100
c ip route show table 100
c ip route flush proto bird
c ip route flush 1.0.0.0/8
c ip route show
c ip link set v0 down
c ip route show table all
c ip link set v0 up
c ip route show table all
ip link del v0
c ip route show table all
