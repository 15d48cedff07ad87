# ip-route(8), option by option, IPv6.
ip link set lo up
ip link add d0 address 02:00:00:00:00:01 type dummy
ip link add d1 address 02:00:00:00:00:02 type dummy
ip link set d0 addrgenmode none up
ip link set d1 addrgenmode none up
ip addr add 2001:db8::1/64 dev d0 nodad
ip addr add 2001:db8:1::1/64 dev d1 nodad
ip -6 route add 2010::/64 via 2001:db8::2 rttvar 5ms reordering 7 cwnd 9 ssthresh 11 rtt 10ms
ip -6 route add 2010:1::/64 via 2001:db8::2 mtu lock 1300 hoplimit 7 advmss 1000 initcwnd 5 initrwnd 6
ip -6 route add 2010:2::/64 via 2001:db8::2 features ecn quickack 1 congctl reno
ip -6 route add 2010:3::/64 via 2001:db8::2 pref high
ip -6 route add 2010:4::/64 via 2001:db8::2 pref low expires 100
ip -6 route add 2010:5::/64 via 2001:db8::2 pref bogus
ip -6 route add 2010:6::/64 via 2001:db8::2 tos 8
ip -6 route add 2010:7::/64 via 2001:db8::2 scope link
ip -6 route add 2010:8::/64 dev d0 metric 0
ip -6 route add 2010:9::/64 dev d0 src 2001:db8:1::1
ip -6 route add 2010:9::/64 dev d0 src 2001:db8::99
ip -6 route add 2010:b::/64 dev d0 proto ra metric 7
ip -6 route add 2010:c::/64 dev d0 proto redirect
ip -6 route add blackhole 2010:d::/64
ip -6 route add blackhole 2010:e::/64 dev d0
ip -6 route add unreachable 2010:f::/64 metric 5
ip -6 route add prohibit 2010:10::/64 dev lo
ip -6 route add throw 2010:11::/64 table 7
ip -6 route add local 2010:12::/64 dev lo
ip -6 route add local 2010:13::/64 dev d0
ip -6 route add anycast 2010:14::1 dev d0
ip -6 route add multicast ff05::/16 dev d0 table local
ip -6 route add broadcast 2010:15::/64 dev d0
ip -6 route add nat 2010:15::/64 dev d0
ip -6 route add 2010:16::/64 via fe80::1
ip -6 route add 2010:16::/64 via fe80::1 dev d0
ip -6 route add 2010:17::/64 via 2001:db8::1
ip -6 route add 2010:17::/64 via 2001:db9::1 dev d0
ip -6 route add 2010:17::/64 via 2001:db9::1 dev d0 onlink
ip -6 route add 2010:18::/64 via ff02::1 dev d0
ip -6 route add 2010:18::/64 via ::1 dev d0
ip -6 route add 2010:18::/64 via inet 10.0.0.1 dev d0
ip -6 route add 2010:19::/64 nexthop via 2001:db8::2 weight 250 nexthop via 2001:db8:1::2 dev d1
ip -6 route add 2010:1a::/64 nexthop dev d0 nexthop dev d1
ip -6 route add 2010:1b::/64 nexthop via 2001:db8::2 nexthop via 2001:db8::2
ip -6 route add 2010:1b::/64 mtu 1400 nexthop via fe80::1 dev d0 onlink nexthop via fe80::2 dev d1
ip -6 route append 2010:16::/64 via fe80::2 dev d1
ip -6 route append 2010:16::/64 via fe80::2 dev d1
ip -6 route prepend 2010:16::/64 via fe80::3 dev d1 metric 7
ip -6 route change 2010:16::/64 via fe80::4 dev d0
ip -6 route change 2010:99::/64 dev d0
ip -6 route replace 2010:8::/64 dev d1
ip -6 route replace 2010:8::/64 dev d1 metric 9
ip -6 route add default via 2001:db8::2
ip -6 route add default via 2001:db8:1::2 metric 2048 pref medium
ip -6 route add ::/0 dev d1
ip -6 route add 2010:20::1/64 dev d0
ip -6 route add 2010:21::/129 dev d0
ip -6 route add 2010:22::/64 dev nosuch
ip -6 route add 2010:22::/64
ip -6 route add 2010:22::/64 dev d0 table 0
ip -6 route add 2010:22::/64 dev d0 table 1000
ip -6 route add 2010:24::/64 dev d0 ttl-propagate disabled
ip -6 route add 2010:25::/64 dev d0 metric 4294967295
ip -6 route show
ip -6 -d route show
ip -6 -j -d route show
ip -6 -o route show 2010:1b::/64
ip -6 -s route show 2010:1::/64
ip -6 -s -s route show 2010:4::/64
ip -6 route show table all
ip -6 route show table local
ip -6 route show table 1000
ip -6 route show type blackhole
ip -6 route show type local table local
ip -6 route show proto ra
ip -6 route show proto kernel
ip -6 route show via fe80::1
ip -6 route show src 2001:db8:1::1
ip -6 route show from 2001:db8::/64
ip -6 route show scope link
ip -6 route show metric 9
ip -6 route show dev d1
ip -6 route show root 2010::/28
ip -6 route show match 2010:1::5
ip -6 route show exact 2010:1::/64
ip -6 route show default
ip -6 route show cached
ip -6 route get 2010::1
ip -6 route get 2010:1::1 mark 7 tos 0x10
ip -6 route get 2010:9::1
ip -6 route get 2010:d::1
ip -6 route get 2010:f::1
ip -6 route get 2010:10::1
ip -6 route get 2010:12::1
ip -6 route get 2010:13::1
ip -6 route get 2010:14::1
ip -6 route get 2010:17::1 oif d1
ip -6 route get 2010:17::1 oif nosuch
ip -6 -j route get fibmatch 2010:1::1
ip -6 route get fibmatch 2011::1
ip -6 route get 2011::1
ip -6 route get 2001:db8::1
ip -6 route get ff02::1
ip -6 route get ff02::1 oif d1
ip -6 route get fe80::9
ip -6 route get fe80::9 oif d1
ip -6 route get ::
ip -6 route get 2010::1 from 2001:db8::5 iif d1
ip -6 route get 2010::1 from 2001:db8:1::1
ip -6 route get 2010::1 from 9999::1
ip -6 route get 2010:19::1 flowlabel 5
ip -6 route get 2010::1 uid 7
ip -6 route get ::ffff:10.0.0.1
ip -6 route get 10.0.0.1
ip -6 route del 2010::/64 via 2001:db8::9
ip -6 route del 2010::/64 metric 7
ip -6 route del 2010::/64 proto kernel
ip -6 route del 2010::/64 dev d1
ip -6 route del 2010::/64
ip -6 route del 2010:16::/64 via fe80::2 dev d1
ip -6 route del 2010:16::/64
ip -6 route del 2010:1a::/64 nexthop dev d1 nexthop dev d0
ip -6 route del 2010:1b::/64 dev d1
ip -6 route del blackhole 2010:d::/64
ip -6 route del 2010:22::/64 table 1000
ip -6 route del 2010:22::/64 table 999
ip -6 route del default via 2001:db8:1::2
ip -6 route del default
ip -6 route del default
ip -6 route show
ip -6 route flush dev d1
ip -6 -s route flush root 2010::/32
ip -6 route flush proto static
ip -6 route show table all
ip -6 route save table main >$tmp/routes
ip route showdump <$tmp/routes
ip -6 route flush table main
ip -6 route restore <$tmp/routes
ip -6 route show
