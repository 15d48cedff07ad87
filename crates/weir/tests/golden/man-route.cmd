# ip-route(8), option by option, IPv4.
ip link set lo up
ip link add d0 address 02:00:00:00:00:01 type dummy
ip link add d1 address 02:00:00:00:00:02 type dummy
sysctl -qw net.ipv6.conf.all.disable_ipv6=1
ip link set d0 up
ip link set d1 up
ip addr add 10.0.0.1/24 dev d0
ip addr add 10.0.1.1/24 dev d1
ip route add 20.0.0.0/24 via 10.0.0.2 rttvar 5ms reordering 7 cwnd 9 ssthresh 11
ip route add 20.0.1.0/24 via 10.0.0.2 mtu lock 1000 cwnd lock 5 window lock 3
ip route add 20.0.2.0/24 via 10.0.0.2 hoplimit 70 initrwnd 12 features ecn
ip route add 20.0.3.0/24 via 10.0.0.2 rto_min 200ms quickack 1 fastopen_no_cookie 1
ip route add 20.0.4.0/24 via 10.0.0.2 congctl lock cubic
ip route add 20.0.4.0/24 via 10.0.0.2 congctl nosuch
ip route add 20.0.5.0/24 via 10.0.0.2 mtu 70000
ip route add 20.0.6.0/24 via 10.0.0.2 hoplimit 300
ip route add 20.0.6.0/24 via 10.0.0.2 advmss 70000
ip route add 20.0.7.0/24 via 10.0.0.2 features bogus
ip route add 20.0.7.0/24 via 10.0.0.2 rtt bogus
ip route add 20.0.7.0/24 via 10.0.0.2 expires 5
ip route add 20.0.8.0/24 via 10.0.0.2 pref high
ip route add 20.0.9.0/24 via 10.0.0.2 scope link
ip route add 20.0.9.0/24 via 10.0.0.2 scope host
ip route add 20.0.9.0/24 via 10.0.0.2 scope site
ip route add 20.0.9.0/24 dev d0 scope host
ip route add 20.0.10.0/24 dev d0 scope nowhere
ip route add 20.0.11.0/24 dev d0 scope bogus
ip route add 20.0.11.0/24 dev d0 proto bogus
ip route add 20.0.11.0/24 dev d0 table bogus
ip route add 20.0.11.0/24 dev d0 tos bogus
ip route add 20.0.11.0/24 dev d0 metric bogus
ip route add 20.0.12.0/24 dev d0 proto kernel metric 4294967295
ip route add 20.0.13.0/24 dev d0 proto 250
ip route add 20.0.14.0/24 dev d0 tos 0x1c
ip route add 20.0.14.0/24 dev d0 tos 0x1d
ip route add 20.0.14.0/24 dev d1 tos lowdelay
ip route add 20.0.15.0/24 dev d0 table 255
ip route add 20.0.16.0/24 dev d0 table default
ip route add 20.0.17.0/24 dev d0 table 4294967294
ip route add 20.0.18.0/24 dev d0 table 0
ip route add nat 20.0.19.0/24 dev d0
ip route add anycast 20.0.19.0/24 dev d0
ip route add unicast 20.0.19.0/24 dev d0
ip route add blackhole 20.0.20.0/24 metric 5 proto static
ip route add blackhole 20.0.21.0/24 dev d0
ip route add unreachable 20.0.22.0/24 via 10.0.0.2
ip route add throw 20.0.23.0/24 src 10.0.0.1
ip route add local 20.0.24.0/24 dev d0 table 7
ip route add local 20.0.25.0/24 via 10.0.0.2
ip route add broadcast 20.0.26.255 dev d0 scope link table local
ip route add multicast 225.0.0.0/8 dev d0 table 9
ip route add 20.0.27.0/24 via 10.0.0.2 dev d0 onlink pervasive
ip route add 20.0.28.0/24 via 30.0.0.1 dev d1 onlink src 10.0.0.1
ip route add 20.0.28.0/24 via 30.0.0.1 dev lo onlink
ip route add 20.0.28.0/24 via 10.0.0.1 dev d0 onlink
ip route add 20.0.29.0/24 via inet 10.0.0.3
ip route add 20.0.29.0/24 via link 02:00:00:00:00:01 dev d0
ip route add 20.0.30.0/24 nexthop via 10.0.0.2 weight 256 nexthop via 10.0.1.2
ip route add 20.0.30.0/24 nexthop via 10.0.0.2 weight 257
ip route add 20.0.31.0/24 nexthop via 10.0.0.2 weight 0
ip route add 20.0.31.0/24 nexthop dev d0 nexthop dev d1 weight 2
ip route add 20.0.32.0/24 nexthop via 10.0.0.2 dev d1 nexthop via 10.0.1.2
ip route add 20.0.32.0/24 mtu 1400 src 10.0.0.1 nexthop via 10.0.0.2 dev d0 onlink nexthop via 10.0.1.2 weight 7
ip route add 20.0.33.0/24 nexthop
ip route add 20.0.33.0/24 via
ip route add 20.0.33.0/24 bogus
ip route add 20.0.33.0/24 ttl-propagate enabled dev d0
ip route add 20.0.35.0/24 dev d0 as 1.2.3.4
ip route add
ip route add to 20.0.36.0/24 dev d0
ip route add 20.0.37 dev d0
ip route add 20/8 dev d0
ip route add default dev d1 metric 7
ip route add 0/0 dev d1 metric 8
ip route add all dev d1 metric 9
ip route add 20.0.38.0/24 dev d0 src 10.0.1.1
ip route show
ip -d route show
ip -d -j route show
ip -s route show 20.0.0.0/24
ip -o route show 20.0.31.0/24
ip -N -d route show 20.0.16.0/24 table all
ip -h route show 20.0.0.0/24
ip route show table 7
ip route show table 9
ip route show table default
ip route show table 4294967294
ip route list tos 0x1c
ip route show proto kernel
ip route show proto boot
ip route show proto 250
ip route show scope host
ip route show scope nowhere
ip route show scope global dev d1
ip route show type unicast dev d1
ip route show type throw
ip route show type multicast table all
ip route show src 10.0.1.1
ip route show from 10.0.0.0/8
ip route show via 10.0.1.2
ip route show oif d1
ip route show dev nosuch
ip route show root 20.0.0.0/20
ip route show match 20.0.2.1/32
ip route show exact 20.0.2.0/24
ip route show exact default
ip route show default
ip route show 20.0.14.0/24
ip route show realms 5
ip route show cached
ip route show cloned
ip route show bogus
ip route show metric 7
ip route show vrf nosuch
ip route show table main 20.0.0.0/24 proto static
ip route show to root 0/0 dev d1 scope link
ip route get 20.0.0.1
ip route get 20.0.0.1 oif d0 mark 0x10 tos 0x8
ip route get 20.0.14.1 tos 0x1c
ip route get 20.0.14.1 tos 0x10
ip route get 20.0.14.1 tos 0
ip route get 20.0.20.1
ip route get 20.0.22.1
ip route get 20.0.23.1
ip route get 20.0.30.1 ipproto tcp sport 5 dport 6
ip route get 20.0.30.1 ipproto udp sport 7 dport 6
ip route get 20.0.30.1 ipproto icmp
ip route get 20.0.30.1 ipproto 99
ip route get 20.0.30.1 sport 70000
ip route get 20.0.30.1 sport 5
ip route get 20.0.28.1 uid 5
ip route get fibmatch 20.0.32.1
ip route get fibmatch 20.0.24.1
ip route get fibmatch 99.99.99.99
ip -d route get fibmatch 20.0.1.7
ip -j -p route get fibmatch 20.0.32.1
ip route get to 20.0.1.1 from 10.0.0.1
ip route get 20.0.1.1 from 10.0.1.1
ip route get 20.0.1.1 from 99.0.0.1
ip route get 20.0.1.1 from 10.0.0.9 iif d0
ip route get 20.0.1.1 iif d0
ip route get 20.0.1.1 dev d1
ip route get 20.0.1.1 oif nosuch
ip route get 20.0.1.1/24
ip route get 20.0.1.1 vrf nosuch
ip route get 20.0.1.1 connected
ip route get 20.0.2.1 notify
ip route get 10.0.0.0
ip route get 10.0.0.1 from 10.0.1.1
ip route get 255.255.255.255 oif d0
ip route get 255.255.255.255 dev lo
ip route get 224.1.2.3 oif d1
ip route get 240.0.0.1
ip route get
ip route get bogus
ip route change 20.0.0.0/24 via 10.0.0.3 mtu 900
ip route change 20.0.14.0/24 dev d1 tos 0x1c
ip route change default dev d0 metric 8
ip route change default dev d0 metric 70
ip route replace 20.0.0.0/24 dev d1 proto 7
ip route replace default dev d1 metric 70
ip route append 20.0.0.0/24 dev d0 proto 7
ip route append 20.0.0.0/24 dev d0 proto 7
ip route prepend 20.0.0.0/24 via 10.0.0.4
ip route test 20.0.0.0/24 via 10.0.0.4
ip route show 20.0.0.0/24
ip route del 20.0.0.0/24 proto 7 dev d0
ip route del 20.0.0.0/24 via 10.0.0.9
ip route del 20.0.0.0/24 metric 1
ip route del 20.0.14.0/24 tos 0x8
ip route del 20.0.14.0/24 tos 0x10
ip route del unreachable 20.0.20.0/24
ip route del 20.0.31.0/24 nexthop dev d1 nexthop dev d0
ip route del 20.0.31.0/24 nexthop dev d0 nexthop dev d1 weight 2
ip route del 20.0.30.0/24 via 10.0.0.2
ip route del 20.0.13.0/24 scope global
ip route del 20.0.13.0/24 src 10.0.0.1
ip route del 20.0.1.0/24 mtu 999
ip route del 20.0.1.0/24 mtu lock 1000
ip route del 20.0.17.0/24 table 4294967294
ip route del 20.0.17.0/24 table 4294967294
ip route del 20.0.17.0/24 table 12345
ip route show dev d0
ip route flush proto 250
ip -s route flush dev d1 scope link
ip -s -s route flush root 20.0.2.0/23
ip route flush 20.0.99.0/24
ip route flush
ip route flush type blackhole
ip route flush table 7
ip route flush cache 20.0.0.0/24
ip route show
ip route save >$tmp/routes
ip route showdump <$tmp/routes
ip route flush table main
ip route restore <$tmp/routes
ip addr add 10.0.0.1/24 dev d0
ip route
ip route help
ip route bogus
