ip link set lo up
ip link add d0 address 02:00:00:00:00:01 type dummy
ip link add d1 address 02:00:00:00:00:02 type dummy
ip link set d0 up
ip link set d1 up
ip addr add 2001:db8::1/64 dev d0 nodad
ip addr add 2001:db8:1::1/64 dev d1 nodad
pass 2
ip -6 route
ip -6 route add default via 2001:db8::2
ip -6 route add default via 2001:db8::3
ip -6 route add default via fe80::1 dev d0 metric 10
ip -6 route append default via 2001:db8::4
ip -6 route
ip -6 route replace default via 2001:db8::5
ip -6 route
ip -6 route del default
ip -6 route
ip -6 route flush exact ::/0
ip -6 route add 2001:db8:10::/48 via 2001:db8::2 dev d0 mtu 1400 hoplimit 5 proto static metric 7
ip -6 route add 2001:db8:11::/48 dev d1
ip -6 route add blackhole 2001:db8:12::/48
ip -6 route add unreachable 2001:db8:13::/48
ip -6 route add prohibit 2001:db8:14::/48
ip -6 route add throw 2001:db8:15::/48
ip -6 route add local 2001:db8:16::/48 dev lo
ip -6 route add 2001:db8:17::/48 nexthop via 2001:db8::2 weight 2 nexthop via 2001:db8:1::2
ip -6 route add 2001:db8:18::/48 dev d0 table 100
ip -6 route add 2001:db8:19::/48 via 2001:db8::2 expires 100
ip -6 route add 2001:db8:1a::/48 dev d0 pref high
ip -6 route
ip -6 -j -p route
ip -6 route show table 100
ip -6 route show table all
ip -6 route show proto static
ip -6 route show dev d1
ip -6 route show root 2001:db8:10::/44
ip -6 route get 2001:db8:10::1
ip -6 route get 2001:db8:11::1
ip -6 route get 2001:db8:12::1
ip -6 route get 2001:db8:13::1
ip -6 route get 2001:db8:14::1
ip -6 route get 2001:db8:15::1
ip -6 route get 2001:db8:16::1
ip -6 route get 2001:db8::1
ip -6 route get 2001:db8::77
ip -6 route get ff02::1
ip -6 route get ff02::1 oif d1
ip -6 route get fe80::5 oif d1
ip -6 route get ::1
ip -6 route get 2001:dead::1
ip -6 route get 2001:db8:10::1 from 2001:db8::1
ip -6 route get 2001:db8:10::1 from 2001:db8:1::5 iif d1
ip -6 route get fibmatch 2001:db8:10::1
ip -6 -j route get 2001:db8:10::1
ip -6 route add 2001:db8:20::/48 via 2001:dead::1
ip -6 route add 2001:db8:20::/48 via 2001:db8::1
ip -6 route add 2001:db8:20::/48 via fe80::1
ip -6 route add 2001:db8:20::1/48 dev d0
ip -6 route add 2001:db8:20::/48
ip -6 route add 2001:db8:20::/48 dev nosuch
ip -6 route add 2001:db8:11::/48 dev d1
ip -6 route del 2001:db8:99::/48
ip -6 route change 2001:db8:99::/48 dev d1
ip -6 route del 2001:db8:17::/48 via 2001:db8::2
ip -6 route show 2001:db8:17::/48
ip -6 route del 2001:db8:17::/48
ip -6 route del 2001:db8:12::/48
ip link set d1 down
ip -6 route
ip link set d1 up
pass 2
ip -6 route
ip -6 route flush table main
ip -6 route show table all
ip link del d0
ip -6 route show table all
# Without a default route.
ip link add e0 type dummy
ip link set e0 up
ip -6 route del default table 77
ip -6 route change default dev e0 table 77
ip -6 route add 2001:db8:77::/48 dev e0 table 77
ip -6 route del default table 77
ip -6 route del default table 77 proto static
ip -6 route del default dev e0 table 77
ip -6 route change default dev e0 table 77
ip -6 route change 2001:db8:78::/48 dev e0 table 77
ip -6 route add blackhole 2001:db8:79::/48 pref high table 77
ip -6 route show table 77
ip link del e0
