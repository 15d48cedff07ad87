! ip link add d0 type veth peer name pd0
! ip link add d1 type veth peer name pd1
! ip link set d0 up
! ip link set d1 up
! ip addr add 192.0.2.1/24 dev d0
! ip addr add 198.51.100.1/24 dev d1
! ip addr add 2001:db8::1/64 dev d0
ip route add default via 192.0.2.254
ip route add 10.0.0.0/8 dev d0
ip route add 10.1.0.0/16 via 192.0.2.3 dev d0 src 192.0.2.1 metric 50 proto static
ip route add 10.2.0.0/16 nexthop via 192.0.2.3 dev d0 weight 2 nexthop via 198.51.100.3 dev d1 weight 1
ip route add 10.3.0.0/16 via 192.0.2.7 table 100 mtu 1400 advmss 1300 initcwnd 20 quickack 1
ip route add 10.4.0.0/16 dev d0 mtu lock 1300 window 1000 rtt 20ms rto_min 5ms features ecn congctl reno
ip route add 10.5.0.0/16 via inet6 fe80::9 dev d0
ip route add 10.6.0.0/16 dev d0 via 203.0.113.1 onlink
ip route add 10.7.0.0/16 encap ip id 3 dst 192.0.2.99 ttl 9 dev d1
ip route add 10.8.0.0/16 encap mpls 100/200 via 192.0.2.3
ip route add blackhole 10.9.0.0/16
ip route add unreachable 10.10.0.0/16 metric 7
ip route add prohibit 10.11.0.0/16
ip route add throw 10.12.0.0/16 table 77
ip route add local 10.13.0.0/24 dev lo
ip route add broadcast 10.14.0.255 dev d0
ip route add 10.15.0.0/24 dev d0 tos 0x10 scope link
ip route replace 10.0.0.0/8 dev d1
ip route change 10.0.0.0/8 dev d0 metric 0
ip route append 10.0.0.0/8 dev d1 metric 3
ip route prepend 10.0.0.0/8 dev d1
ip -6 route add default via fe80::1 dev d0 metric 1024
ip -6 route add 2001:db8:5::/48 dev d0 expires 300 pref high
ip -6 route add 2001:db8:6::/48 nexthop via 2001:db8::2 nexthop via 2001:db8::3 weight 4
ip -6 route add blackhole 2001:db8:7::/48
ip -6 route add 2001:db8:8::/48 from 2001:db8:9::/48 dev d0
ip -6 route add 2001:db8:a::/48 encap seg6 mode encap segs 2001:db8::5,2001:db8::6 dev d0
ip route del 10.1.0.0/16
ip route del 10.4.0.0/16 table main proto boot
ip route show
ip route show table all
ip route list table 100 dev d0
ip -6 route show
ip route show cache
ip route get 10.0.0.7
ip route get 10.0.0.7 from 192.0.2.1 iif d0 mark 5
ip route get 10.0.0.7 uid 0 ipproto tcp sport 1 dport 80
ip route get fibmatch 10.0.0.7
ip -6 route get 2001:db8:5::1 from 2001:db8::1
ip route flush table 100
ip nexthop add id 5 via 192.0.2.3 dev d0
ip nexthop add id 6 blackhole
ip nexthop add id 10 group 5,2/6
ip nexthop add id 11 group 5/6 type resilient buckets 32 idle_timer 60
ip route add 10.20.0.0/16 nhid 5
ip nexthop list
ip nexthop del id 6
