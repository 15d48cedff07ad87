# SPDX-License-Identifier: Apache-2.0 OR MIT
# IPv6 routes: every way of adding, showing, getting and deleting them.
# Its output on Linux 6.1 is ipv6.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
settle() { [ -n "$WEIR" ] || sleep 0.5; } # Linux's link state comes late
ip link add v0 type veth peer name v1
ip link add v2 type veth peer name v3
ip link set lo up
# no link-local addresses
for d in v0 v1 v2 v3; do ip link set $d addrgenmode none; done
ip link set v0 up; ip link set v1 up; ip link set v2 up; ip link set v3 up
settle
ip -6 route flush table main
ip -6 route flush table local type multicast
c ip -6 route add 2001:db8:0::/64 dev v0
c ip -6 route add 2001:db8:1::/64 dev v2 metric 300
c ip -6 route add 2001:db8:1::/64 dev v2 metric 300
c ip -6 route show
c ip -6 route add 2001::/16 via 2001:db8::9
c ip -6 route add 2001::/16 via 2001:db8:1::9
c ip -6 route append 2001::/16 via 2001:db8:1::9
c ip -6 route append 2001::/16 via 2001:db8::9
c ip -6 route show
c ip -6 route replace 2001::/16 via 2001:db8::8
c ip -6 route show
c ip -6 route append 2001::/16 dev v0
c ip -6 route append 2001::/16 via 2001:db8:1::9
c ip -6 route show
c ip -6 route replace 2001::/16 dev v2
c ip -6 route show
c ip -6 route replace 2001::/16 nexthop via 2001:db8::7 weight 4 nexthop via 2001:db8:1::7
c ip -6 route show
c ip -6 route add 2003::/16 nexthop via 2001:db8::7 nexthop dev v0
c ip -6 route add 2003::/16 nexthop via 2001:db8::7 nexthop via 2001:db8::7
c ip -6 route change 2003::/16 via 2001:db8::7
c ip -6 route add 2003::/16 via 2001:dead::1
c ip -6 route add 2003::/16 via fe80::1
c ip -6 route add 2003::/16 via fe80::1 dev v0
c ip -6 route add 2003::/16 via fe80::2 dev v0 metric 5 pref high
c ip -6 route add 2003::/16 via fe80::3 dev v0 metric 6 pref low
c ip -6 route add 2004::/16 via ff02::1 dev v0
c ip -6 route add 2004::/16 via :: dev v0
c ip -6 route add 2004::/16 via 2001:db8:1::1 dev v0
c ip -6 route add 2004::/16 via 2001:ffff::1 dev v0 onlink
c ip -6 route add 2004:1::/32 via 2001:db8:1::1 dev v0 onlink
c ip -6 route add 2005::/16 dev lo
c ip -6 route add unreachable 2006::/16
c ip -6 route add blackhole 2006:1::/32
c ip -6 route add prohibit 2006:2::/32 metric 2
c ip -6 route add throw 2006:3::/32
c ip -6 route add 2007::/16 dev v0 src 2001:db8::1
c ip -6 route add 2007::/16 dev v0 mtu 1400 hoplimit 7
c ip -6 route add local 2008::1/128 dev v0 table local
c ip -6 route add 2007:1::/32 dev v0 src 2008::1
c ip -6 route add 2009::/16 via 2008::1 dev v0
c ip -6 route add 2009::/16 tos 4 dev v0
c ip -6 route add default via fe80::1 dev v2
c ip -6 route add default via fe80::1 dev v2 table 100
c ip -6 route add multicast ff05::/16 dev v2
c ip -6 route show
c ip -6 route show table all
c ip -6 -d route show
c ip -6 -j route show
c ip -6 route show table 100
c ip -6 route show table 101
c ip -6 route show dev v2
c ip -6 route show type unreachable
c ip -6 route show cache
c ip -6 route show 2006::/16
c ip -6 route show root 2006::/16
c ip -6 route get 2001:db8::5
c ip -6 route get 2001:db8::5 oif v2
c ip -6 route get 2006::1
c ip -6 route get 2006:1::1
c ip -6 route get 2006:2::1
c ip -6 route get 2006:3::1
c ip -6 route get 2005::1
c ip -6 route get ::1
c ip -6 route get 2008::1
c ip -6 route get 3000::1
c ip -6 route get fibmatch 3000::1
c ip -6 route get fe80::9
c ip -6 route get fe80::9 oif v0
c ip -6 route get ff02::1 oif v0
c ip -6 route get 3000::1 from 2008::1
c ip -6 route get 3000::1 from 2008::2
c ip -6 route del 2003::/16
c ip -6 route del 2003::/16 metric 6
c ip -6 route del 2003::/16 via fe80::9
c ip -6 route del 2003::/16 via fe80::2
c ip -6 route del 2001::/16 via 2001:db8::7
c ip -6 route show 2001::/16
c ip -6 route append 2001::/16 via 2001:db8::7
c ip -6 route del 2001::/16
c ip -6 route show 2001::/16
c ip -6 route del 2001::/16
c ip -6 route del 2001::/16 table 99
c ip -6 route flush table 100
c ip -6 route show
c ip link set v0 down
c ip -6 route show table all
