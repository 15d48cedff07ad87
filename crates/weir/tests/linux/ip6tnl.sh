# SPDX-License-Identifier: Apache-2.0 OR MIT
# The link kind ip6tnl and its fallback device.
# Its output on Linux 6.1 is ip6tnl.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
# A kernel without CONFIG_RPS does not show receive queues. The permanent address is drawn at random. Linux gives a
# fallback device its settings of IPv6 too late.
l() { echo "+ ip -d link show $1"; ip -d link show $1 | sed 's/numrxqueues 1 //;s/^[0-9]*: //;s/permaddr [0-9a-f:]* //'; }
sysctl -qw net.ipv6.conf.default.disable_ipv6=0 net.ipv6.conf.default.accept_dad=0
ip link add u0 address 02:00:00:00:00:10 type dummy
ip link set u0 addrgenmode none
c ip addr add fd00::1/64 dev u0 nodad
c ip addr add fe80::1/64 dev u0 nodad
c ip link set u0 up
c ip link add i0 type ip6tnl
c ip link add i1 type ip6tnl remote fd00::2 local fd00::1 dev u0 hoplimit 9 tclass 0x20 flowlabel 0x12345
c ip link add i2 type ip6tnl remote fd00::2 local fd00::1 dev u0 hoplimit 11
c ip link add i2 type ip6tnl remote fd00::2 local fd00::1 mode any
c ip link add i3 type ip6tnl external
c ip link add i4 type ip6tnl external
c ip link add i4 type ip6tnl remote fd00::3 local fd00::1 mode ipip6 encaplimit none tclass inherit flowlabel inherit fwmark 5
c ip link add i5 mtu 9000 type ip6tnl local fd00::1 mode any dscp inherit fwmark inherit allow-localremote
c ip link add i6 mtu 60 type ip6tnl remote fd00::6 mode ip6ip6
c ip link add i7 mtu 1281 type ip6tnl remote fd00::7 mode ip4ip6
c ip link add i8 type ip6tnl remote fd00::8 encap fou
c ip link add i8 type ip6tnl remote fe80::8 local fe80::1
c ip link add i9 type ip6tnl remote fe80::9 local fe80::1 dev u0 encaplimit 7
c ip link add i10 type ip6tnl remote 2001:db8::1 local fd00::1
c ip link add i11 type ip6tnl remote ::1 local fd00::1
c ip link add i12 type ip6tnl remote fd00::1 local fd00::1
c ip link add i13 type ip6tnl remote ::ffff:1.2.3.4 local fd00::1
c ip link add i14 type ip6tnl dev u0
c ip link add x0 type ip6tnl remote fd00::f local fd00::1 mode gre
c ip link add x0 type ip6tnl remote 10.0.0.1
c ip link add x0 type ip6tnl remote fd00::f encaplimit 256
c ip link add x0 type ip6tnl remote fd00::f hoplimit 256
c ip link add x0 index 77 type ip6tnl remote fd00::e
for d in ip6tnl0 i1 i2 i3 i4 i5 i6 i7 i8 i9 i10 i11 i12 i13 i14; do l $d; done
c ip link set i1 type ip6tnl remote fd00::9 local fd00::1
l i1
c ip link set i1 type ip6tnl remote fd00::3 local fd00::1
c ip link set i1 type ip6tnl remote any local fd00::1
c ip link set i1 type ip6tnl remote fd00::19 local fd00::1 encaplimit none mode any
l i1
c ip link set i5 type ip6tnl remote fd00::5 local fd00::1
l i5
c ip link set i5 type ip6tnl local any
c ip link set i3 type ip6tnl external
c ip link set i3 type ip6tnl hoplimit 5
l i3
c ip link set ip6tnl0 type ip6tnl remote fd00::3
c ip link set i4 mtu 67
c ip link set i4 mtu 68
c ip link set i4 mtu 65495
c ip link set i4 mtu 65496
c ip link set i1 mtu 68
c ip link set i1 mtu 65535
c ip link set i1 mtu 65536
c ip link set i9 mtu 1279
c ip link set i9 mtu 1280
c ip link set i4 address 02:00:00:00:00:01
c ip link del ip6tnl0
l ip6tnl0
c ip netns add n1
c ip link set ip6tnl0 netns n1
c ip link set i4 netns n1
echo "+ ip -n n1 -d link show i4"
ip -n n1 -d link show i4 | sed 's/numrxqueues 1 //;s/^[0-9]*: //;s/permaddr [0-9a-f:]* //'
c ip link set i1 up
c ip link set i3 up
c ip link set i14 addrgenmode none
c ip link set i14 up
ip addr show dev i1 | sed 's/^[0-9]*: //;s/ permaddr [0-9a-f:]*//;s/fe80:[0-9a-f:]*ff:fe/fe80::ff:fe/;s/ff:fe[0-9a-f:]*/ff:fe/'
ip addr show dev i14 | sed 's/^[0-9]*: //;s/ permaddr [0-9a-f:]*//'
c ip addr add 10.9.0.1 peer 10.9.0.2 dev i1
c ip addr add 2001:db8:9::1/64 dev i1
c ip route add 2001:db8:a::/48 dev i1
ip route show dev i1
ip -6 route show dev i1 | grep -v fe80
c ip link del u0
c ip link del i1
c ip netns del n1
ip -o link | sed 's/[0-9]*: //;s/:.*//' | grep -v -e '^lo'
