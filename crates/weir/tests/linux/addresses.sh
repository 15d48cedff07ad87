# SPDX-License-Identifier: Apache-2.0 OR MIT
# The routes that addresses add, and what happens to them when devices change. Its output on Linux
# 6.1 is addresses.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
settle() { [ -n "$WEIR" ] || sleep 0.5; } # Linux's link state comes late
ip link add v0 type veth peer name v1
ip link add v2 type veth peer name v3
for d in v0 v1 v2 v3; do ip link set $d addrgenmode none; done
ip link set lo up
c ip route show table all
ip link set v0 up; ip link set v1 up; ip link set v2 up; ip link set v3 up
c ip addr add 10.0.0.1/24 dev v0
c ip addr add 10.0.0.2/24 dev v0
c ip addr add 10.0.0.3/24 brd + dev v0
c ip addr add 10.9.0.1/16 dev v0 metric 77
c ip addr add 10.10.0.1/16 dev v0 noprefixroute
c ip addr add 192.168.7.1 peer 192.168.8.1/32 dev v1
c ip addr add 172.16.0.1/31 dev v2
c ip addr add 172.17.0.1/32 dev v2
c ip -6 addr add 2001:db8::1/64 dev v0 nodad
c ip -6 addr add 2001:db8:1::1/64 dev v2 nodad
c ip -6 addr add fe80::1/64 dev v2 nodad
c ip -6 addr add 2001:db8:2::1 peer 2001:db8:2::2/128 dev v2 nodad
c ip route show table all
c ip route add default via 10.0.0.254
c ip route add 50.0.0.0/8 via 192.168.8.1
c ip route add 51.0.0.0/8 dev v2 src 10.0.0.2
c ip route add 52.0.0.0/8 dev v2 src 172.17.0.1
c ip -6 route add default via fe80::99 dev v2
c ip -6 route add 2002::/16 via 2001:db8::99
c ip -6 route add 2003::/16 dev v0 src 2001:db8:1::1
c ip -6 route add 2004::/16 via 2001:db8:1::1
c ip -6 route add 2004::/16 via 2001:db8:1::1 dev v0
for a in 10.0.0.9 10.0.0.1 10.0.0.2 10.0.0.255 10.0.0.0 127.0.0.1 127.8.8.8 127.255.255.255 8.8.8.8 50.1.1.1 51.1.1.1 172.16.0.0 172.16.0.1 172.17.0.1 192.168.8.1 192.168.7.1 224.0.0.5 255.255.255.255 0.0.0.0; do
c ip route get $a
done
c ip route get 8.8.8.8 from 10.0.0.2
c ip route get 8.8.8.8 from 10.0.0.77
c ip route get 8.8.8.8 oif v2
c ip route get 8.8.8.8 from 10.0.0.9 iif v0
echo "+ net.ipv4.ip_forward"; echo 1 > /proc/sys/net/ipv4/ip_forward
c ip route get 8.8.8.8 from 10.0.0.9 iif v0
c ip route get 50.8.8.8 from 10.0.0.9 iif v0
c ip route get 50.8.8.8 from 10.0.0.9 iif v2
c ip route get 50.8.8.8 from 10.0.0.1 iif v0
c ip route get 10.0.0.1 from 10.0.0.9 iif v0
c ip route get 10.0.0.255 from 10.0.0.9 iif v0
c ip route get 10.0.0.1 from 127.0.0.1 iif v0
c ip route get 127.0.0.1 from 10.0.0.9 iif v0
c ip route get 224.0.0.9 from 10.0.0.9 iif v0
c ip route get 1.1.1.1 from 99.0.0.1 iif v1
echo "+ net.ipv4.conf.all.rp_filter"; echo 1 > /proc/sys/net/ipv4/conf/all/rp_filter
c ip route get 10.0.0.1 from 50.0.0.9 iif v0
c ip route get 10.0.0.1 from 50.0.0.9 iif v1
for a in ::1 2001:db8::1 2001:db8::9 2001:db8:1::9 2002::1 3000::1 fe80::1 fe80::7 ff02::1 2001:db8:2::2; do
c ip -6 route get $a
c ip -6 route get $a oif v2
c ip -6 route get $a from 2001:db8::1
done
c ip -6 route get 3000::1 from 2001:db8::9 iif v0
echo "+ net.ipv6.conf.all.forwarding"; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
c ip -6 route get 3000::1 from 2001:db8::9 iif v0
c ip -6 route show table all
echo "+ net.ipv6.conf.all.forwarding"; echo 0 > /proc/sys/net/ipv6/conf/all/forwarding
c ip -6 route show table all
c ip addr del 10.0.0.1/24 dev v0
c ip route show table all
c ip addr del 172.17.0.1/32 dev v2
c ip route show table all
c ip -6 addr del 2001:db8:1::1/64 dev v2
c ip -6 route show table all
c ip link set v0 down
c ip route show table all
c ip link set v0 up
c ip route show table all
c ip link set v3 down
c ip route show table all
c ip route get 51.1.1.1
echo "+ net.ipv4.conf.v2.ignore_routes_with_linkdown"; echo 1 > /proc/sys/net/ipv4/conf/v2/ignore_routes_with_linkdown
c ip route show
c ip route get 51.1.1.1
c ip link set v3 up
c ip route show table all
c ip addr flush dev v0
c ip route show table all
ip link del v0
c ip route show table all
ip link set lo down
c ip route show table all
ip link set lo up
c ip route show table all
