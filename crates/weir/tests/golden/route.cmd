ip link set lo up
ip link add d0 address 02:00:00:00:00:01 type dummy
ip link add d1 address 02:00:00:00:00:02 type dummy
ip link set d0 up
ip link set d1 up
ip addr add 10.0.0.1/24 dev d0
ip addr add 10.0.1.1/24 dev d1
ip route
ip route add default via 10.0.0.2
ip route add default via 10.0.0.3
ip route add default via 10.0.0.3 metric 10
ip route append default via 10.0.0.4
ip route replace default via 10.0.0.5
ip route change default via 10.0.0.6
ip route prepend default via 10.0.0.7
ip route
ip route del default via 10.0.0.4
ip route del default
ip route
ip route flush default
ip route flush exact 0.0.0.0/0
ip route
ip route add 10.1.0.0/16 via 10.0.0.2 dev d0 src 10.0.0.1 mtu 1400 advmss 1000 window 100 rtt 1s initcwnd 20 proto static
ip route add 10.2.0.0/16 dev d1 scope link proto 99 metric 5
ip route add blackhole 10.3.0.0/16
ip route add unreachable 10.4.0.0/16
ip route add prohibit 10.5.0.0/16
ip route add throw 10.6.0.0/16
ip route add local 10.7.0.0/16 dev lo
ip route add broadcast 10.8.0.255 dev d0
ip route add 10.9.0.0/16 nexthop via 10.0.0.2 weight 3 nexthop via 10.0.1.2 dev d1
ip route add 10.10.0.0/16 via 192.0.2.1 dev d0 onlink
ip route add 10.11.0.0/16 via inet6 fe80::1 dev d0
ip route add 10.12.0.0/16 dev d0 table 100
ip route add 10.13.0.0/16 dev d0 table 1000 tos 0x10
ip route
ip -d route
ip -j -p route
ip route show table 100
ip route show table 1000
ip route show table 7
ip route show table all
ip route show type blackhole
ip route show proto static
ip route show dev d1
ip route show via 10.0.0.2
ip route show root 10.0.0.0/8
ip route show match 10.1.2.3
ip route show exact 10.1.0.0/16
ip route show scope link
ip route show metric 5
ip route get 10.1.2.3
ip route get 10.2.2.3
ip route get 10.3.0.1
ip route get 10.4.0.1
ip route get 10.5.0.1
ip route get 10.6.0.1
ip route get 10.7.0.1
ip route get 10.0.0.1
ip route get 10.0.0.255
ip route get 10.10.0.1
ip route get 10.11.0.1
ip route get 224.0.0.1
ip route get 255.255.255.255
ip route get 127.0.0.1
ip route get 192.0.2.1
ip route get 10.1.2.3 from 10.0.0.1
ip route get 10.1.2.3 from 1.2.3.4
ip route get 10.1.2.3 oif d1
ip route get 10.0.0.1 from 10.0.1.5 iif d1
ip route get 10.1.2.3 from 10.0.1.5 iif d1
ip route get fibmatch 10.1.2.3
ip -j route get 10.1.2.3
ip route get 10.1.2.3 mark 5
ip -d route get 10.1.2.3
ip route get 10.1.2.3 iif nosuch
ip route get 0.0.0.0
ip route add 10.20.0.0/16 via 192.0.2.1
ip route add 10.20.0.0/16 via 192.0.2.1 dev d0
ip route add 10.20.0.0/16 via 10.0.0.1
ip route add 10.20.0.0/16 via 10.0.0.255
ip route add 10.20.0.1/16 dev d0
ip route add 10.20.0.0/16 dev nosuch
ip route add 10.20.0.0/16
ip route add 10.20.0.0/33 dev d0
ip route add 10.1.0.0/16 via 10.0.0.2
ip route del 10.99.0.0/16
ip route del 10.1.0.0/16 dev d1
ip route change 10.99.0.0/16 dev d1
ip route add 10.20.0.0/16 dev d0 src 1.2.3.4
ip route add 10.20.0.0/16 nexthop via 10.0.0.2 nexthop via 192.0.2.1
ip route add 10.20.0.0/16 dev d0 encap mpls 100
ip route add 224.0.0.0/4 dev d0
ip route add multicast 224.1.0.0/16 dev d0
ip route add 10.21.0.0/16 dev d0 mtu lock 1300 quickack 1 congctl cubic
ip route show 10.21.0.0/16
ip route del 10.9.0.0/16
ip route del blackhole 10.3.0.0/16
ip route del 10.4.0.0/16
ip link set d1 down
ip route
ip route add 10.30.0.0/16 dev d1
ip link set d1 up
ip route
ip addr del 10.0.1.1/24 dev d1
ip route
ip route flush table main
ip route
ip route flush table 100
ip route show table all
ip route flush table all
ip route show table all
ip route save table main | wc -c
ip route show cache
ip link del d0
ip route show table all
