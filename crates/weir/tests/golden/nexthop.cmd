# Nexthop objects: single ones of both families, groups, what is refused, dumps and their filters.
nh() { ip nexthop "$@"; }
ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
ip link add d0 address 02:00:00:00:00:a0 type dummy
sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0
nh list
nh add id 1 blackhole
nh add id 1 dev v0
ip link set lo up
nh add id 1 blackhole
nh list
ip link set v0 up
nh add id 2 dev v0
ip link set v1 up
[ -n "${WEIR-}" ] || sleep 0.5
ip addr add 10.0.0.1/24 dev v0
ip -6 addr add fd00::1/64 dev v0 nodad
nh add id 1 blackhole
nh add id 2 dev v0
nh add id 3 via 10.0.0.2 dev v0
nh add id 4 via fd00::2 dev v0
nh add id 5 via fe80::2 dev v0
nh -6 add id 6 dev v0
ip -6 nexthop add id 6 dev v0
ip -6 nexthop add id 7 blackhole
nh add id 8 via 10.0.0.3 dev v0 protocol static
nh add id 9 via 192.0.2.9 dev v0 onlink
nh add id 10 via 2001:db8::9 dev v0 onlink
nh add id 11 dev lo
ip -6 nexthop add id 12 dev lo
nh list
ip -d nexthop
ip -j nexthop
ip -j -p nexthop get id 3
ip -4 nexthop list
ip -6 nexthop list
nh list dev v0
nh list dev lo
nh list dev d0
nh list protocol static
nh list group
nh list fdb
nh get id 3
nh get id 99
nh get id 0
nh get
# Refused.
nh add id 3 via 10.0.0.2 dev v0
nh add id 20 via 10.0.0.1 dev v0
nh add id 20 via fd00::1 dev v0
nh add id 20 via 10.0.0.255 dev v0
nh add id 20 via 192.0.2.9 dev v0
nh add id 20 via 2001:db8::9 dev v0
nh add id 20 via ff02::1 dev v0
nh add id 20 via 10.0.0.2
nh add id 20 via 10.0.0.2 dev nope
nh add id 20 via 10.0.0.2 dev d0
nh add id 20 via 10.0.0.2 dev lo
nh add id 20 via fd00::2 dev lo
nh add id 20 dev v0 onlink
nh add id 20 via 0.0.0.0 dev v0
nh add id 20 via :: dev v0
nh add id 20
nh add dev v0
nh list dev v0
nh del id 13
nh del id 99
nh del id 0
nh add id 4294967295 dev v0
nh del id 4294967295
nh replace id 30 via 10.0.0.9 dev v0
nh replace id 30 via 10.0.0.8 dev v0 protocol 9
nh get id 30
nh replace id 30 via fd00::8 dev v0
nh get id 30
nh replace id 30 blackhole
nh get id 30
nh replace id 30 dev v0
nh get id 30
nh del id 30
# Groups.
nh add id 101 group 3/8
nh add id 102 group 3,2/8,5
nh add id 103 group 4/5
nh add id 104 group 3/4
nh add id 105 group 1
nh add id 106 group 1/3
nh add id 107 group 3/3
nh add id 107 group 3/99
nh add id 107 group 101/8
nh add id 107 group 3,256/8
nh add id 107 group 3,257/8
nh add id 107 group 3,0/8
nh add id 108 group 9/3 protocol bgp
nh add id 101 group 3
nh list group
nh list
ip -d nexthop list group
ip -j nexthop list group
nh list dev v0
nh replace id 101 group 3/8/9
nh get id 101
nh replace id 101 via 10.0.0.2 dev v0
nh replace id 3 group 8
nh replace id 3 blackhole
nh replace id 105 group 3
nh get id 105
nh replace id 1 via 10.0.0.2 dev v0
nh replace id 3 via 10.0.0.77 dev v0
nh list group
nh del id 3
nh list
nh del id 8
nh list group
nh flush protocol bgp
nh flush proto bgp
nh list group
nh flush
nh list
# fdb nexthops.
nh add id 1 via 192.0.2.1 fdb
nh add id 2 via 192.0.2.2 fdb
nh add id 3 via 2001:db8::3 fdb
nh add id 4 via 10.0.0.2 dev v0
nh add id 5 via 192.0.2.2 fdb dev v0
nh add id 5 blackhole fdb
nh add id 5 via 192.0.2.2 onlink fdb
nh add id 5 fdb
nh add id 11 group 1/2 fdb
nh add id 12 group 1/3 fdb
nh add id 12 group 1/4 fdb
nh add id 12 group 1/2
nh add id 12 group 4 fdb
nh list
nh list fdb
nh list group fdb
ip -j nexthop
ip route add 10.1.0.0/16 nhid 1
ip route add 10.1.0.0/16 nhid 11
ip -6 route add fd01::/16 nhid 3
nh flush
# The device.
ip link add red type vrf table 10
ip link set red up
nh add id 1 via 10.0.0.2 dev v0
nh add id 2 via fd00::2 dev v0
nh add id 3 blackhole
nh add id 4 group 1/2
nh list master red
nh list vrf red
ip link set v0 master red
[ -n "${WEIR-}" ] || sleep 0.5
nh list
nh add id 1 via 10.0.0.2 dev v0
ip -6 addr add fd00::1/64 dev v0 nodad
nh add id 2 via fd00::2 dev v0
nh list master red
nh list vrf red
nh list dev red
nh add id 8 dev red
ip link set v0 nomaster
[ -n "${WEIR-}" ] || sleep 0.5
nh list
nh flush
nh add id 1 via 10.0.0.2 dev v0
nh add id 3 blackhole
nh add id 4 group 1
nh add id 5 group 3
ip addr del 10.0.0.1/24 dev v0
nh list
ip addr add 10.0.0.1/24 dev v0
ip link set v1 down
[ -n "${WEIR-}" ] || sleep 0.5
nh list
ip link set v1 up
[ -n "${WEIR-}" ] || sleep 0.5
nh add id 1 via 10.0.0.2 dev v0
nh add id 2 dev v0
nh add id 4 group 1/2
ip link set v0 down
nh list
ip link set v0 up
[ -n "${WEIR-}" ] || sleep 0.5
nh add id 1 via 10.0.0.2 dev v0
nh add id 2 dev v0
ip link set v0 mtu 1400
nh list
ip link del v0
nh list
ip link set lo down
nh list
ip link set d0 up
nh add id 1 dev d0
nh add id 7 dev d0
ip -6 nexthop add id 2 dev d0
nh add id 3 blackhole
nh list
sysctl -qw net.ipv6.conf.d0.disable_ipv6=1
ip -6 nexthop add id 4 dev d0
nh list
ip netns add x; ip link set d0 netns x
nh list
