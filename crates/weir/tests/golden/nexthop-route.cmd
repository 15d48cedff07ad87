# Routes by nexthop objects.
nh() { ip nexthop "$@"; }
r4() { ip route show | grep -v 'scope link src'; }
r6() { ip -6 route show | grep -v 'proto kernel'; }
sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0
ip link set lo up
ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
ip link add w0 address 02:00:00:00:00:11 type veth peer name w1 address 02:00:00:00:00:12
ip link set v0 up; ip link set v1 up; ip link set w0 up; ip link set w1 up
[ -n "${WEIR-}" ] || sleep 0.5
ip addr add 10.0.0.1/24 dev v0; ip addr add 10.9.0.1/24 dev w0
ip -6 addr add fd00::1/64 dev v0 nodad; ip -6 addr add fd09::1/64 dev w0 nodad
nh add id 1 via 10.0.0.2 dev v0
nh add id 2 via 10.9.0.2 dev w0
nh add id 3 via fd00::2 dev v0
nh add id 4 via fd09::2 dev w0
nh add id 5 blackhole
ip -6 nexthop add id 6 blackhole
nh add id 7 dev v0
ip -6 nexthop add id 8 dev v0
nh add id 9 via 192.0.2.9 dev v0 onlink
nh add id 10 via fe80::9 dev v0
nh add id 21 group 1/2
nh add id 22 group 3,3/4
nh add id 23 group 1/3
nh add id 24 group 5
nh add id 25 group 6
sysctl net.ipv4.nexthop_compat_mode
ip route add 10.1.0.0/16 nhid 1
ip route add 10.1.0.0/16 nhid 1
ip route add 10.1.0.0/16 nhid 2
ip route append 10.1.0.0/16 nhid 2
ip route add 10.2.0.0/16 nhid 21
ip route add 10.3.0.0/16 nhid 3
ip route add 10.4.0.0/16 nhid 22
ip route add 10.5.0.0/16 nhid 5
ip route add 10.6.0.0/16 nhid 7
ip route add 10.7.0.0/16 nhid 9
ip route add 10.8.0.0/16 nhid 10
ip route add 10.11.0.0/16 nhid 23
ip route add 10.12.0.0/16 nhid 24
ip route add 10.13.0.0/16 nhid 1 metric 5 mtu 1200 src 10.0.0.1 proto static tos 8
ip route add 10.14.0.0/16 nhid 6
ip route add 10.15.0.0/16 nhid 8
ip route add 10.16.0.0/16 nhid 99
ip route add 10.16.0.0/16 nhid 1 dev v0
ip route add 10.16.0.0/16 nhid 1 via 10.0.0.2
ip route add 10.16.0.0/16 nhid 1 nexthop via 10.0.0.2 nexthop via 10.0.0.3
ip route add blackhole 10.16.0.0/16 nhid 1
ip route add local 10.17.0.1/32 nhid 1
ip route add local 10.17.0.2/32 nhid 7
ip route add local 10.17.0.3/32 nhid 21
ip route add 10.18.0.1/32 nhid 1 scope host
ip route add 10.18.0.2/32 nhid 1 scope link
ip route add 10.18.0.3/32 nhid 9 scope link
ip route add 10.18.0.4/32 nhid 21 scope host
r4
ip -d route show 10.2.0.0/16
ip -j route show 10.2.0.0/16
ip -j route show 10.5.0.0/16
ip route show nhid 21
ip route show nhid 1
ip route show table all nhid 1
ip route show table local | grep nhid
ip route get 10.1.1.1
ip route get 10.5.1.1
ip route get 10.14.1.1
ip route get 10.12.1.1
ip route get 10.3.1.1
ip route get 10.7.1.1
ip route get 10.6.1.1
ip route get 10.17.0.2
ip route get fibmatch 10.1.1.1
ip route get fibmatch 10.2.1.1
ip route get fibmatch 10.5.1.1
ip route get 10.2.1.1 oif v0
ip route get 10.2.1.1 oif w0
ip -6 route add fd21::/32 nhid 3
ip -6 route add fd21::/32 nhid 3
ip -6 route add fd21::/32 nhid 4
ip -6 route append fd21::/32 nhid 4
ip -6 route add fd22::/32 nhid 22
ip -6 route add fd23::/32 nhid 6
ip -6 route add fd24::/32 nhid 8
ip -6 route add fd25::/32 nhid 10
ip -6 route add fd26::/32 nhid 25
ip -6 route add fd27::/32 nhid 4 metric 7 mtu 1300 src fd09::1 proto static pref high
ip -6 route add fd28::/32 nhid 1
ip -6 route add fd28::/32 nhid 5
ip -6 route add fd28::/32 nhid 21
ip -6 route add fd28::/32 nhid 23
ip -6 route add fd28::/32 nhid 24
ip -6 route add fd28::/32 nhid 99
ip -6 route add fd28::/32 nhid 3 dev v0
ip -6 route add fd28::/32 nhid 3 via fd00::2
ip -6 route add fd28::/32 nhid 3 nexthop via fd00::2 nexthop via fd00::3
ip -6 route add blackhole fd29::/32 nhid 3
ip -6 route add fd2a::/32 nhid 3 src fd77::1
r6
ip -d -6 route show fd22::/32
ip -j -6 route show fd22::/32
ip -j -6 route show fd23::/32
ip -6 route show nhid 22
ip -6 route get fd21::1
ip -6 route get fd23::1
ip -6 route get fd24::1
ip -6 route get fd26::1
ip -6 route get fibmatch fd21::1
ip -6 route get fibmatch fd23::1
ip route show dev v0 | grep nhid
ip route show dev w0 | grep nhid
ip -6 route show dev w0 | grep nhid
ip -6 route show dev v0 | grep nhid
# The short form.
sysctl -w net.ipv4.nexthop_compat_mode=0
r4
r6
ip -j route show 10.2.0.0/16
ip -j -6 route show fd22::/32
sysctl -w net.ipv4.nexthop_compat_mode=2
sysctl -w net.ipv4.nexthop_compat_mode=1
# Replacing: routes follow.
nh replace id 1 via 10.0.0.77 dev v0
ip route show 10.1.0.0/16
ip route show 10.2.0.0/16
ip route get 10.1.1.1
nh replace id 21 group 2,4/1
ip route show 10.2.0.0/16
nh replace id 21 group 1
ip route show 10.2.0.0/16
ip route get 10.2.1.1
nh replace id 3 via 10.0.0.2 dev v0
nh replace id 22 group 1
nh replace id 22 group 4
ip -6 route show fd22::/32
ip route show 10.4.0.0/16
nh replace id 8 blackhole
ip -6 route show fd24::/32
nh replace id 7 via 10.0.0.9 dev v0
ip route replace 10.1.0.0/16 nhid 2
ip route show 10.1.0.0/16
ip route replace 10.1.0.0/16 via 10.0.0.5
ip route show 10.1.0.0/16
ip route replace 10.1.0.0/16 nhid 1
ip -6 route replace fd21::/32 nhid 4
ip -6 route show fd21::/32
ip -6 route replace fd21::/32 via fd00::7
ip -6 route show fd21::/32
ip -6 route replace fd21::/32 nhid 3
ip -6 route show fd21::/32
ip -6 route add fd21::/32 via fd00::7
ip -6 route append fd21::/32 via fd00::7
ip -6 route append fd21::/32 via fd00::8
ip -6 route show fd21::/32
ip -6 route del fd21::/32 via fd00::7
ip -6 route del fd21::/32 via fd00::8
# Deleting routes.
ip route del 10.1.0.0/16 nhid 2
ip route del 10.1.0.0/16 via 10.0.0.77
ip route del 10.1.0.0/16 dev v0
ip route del 10.1.0.0/16 nexthop via 10.0.0.77
ip route del 10.1.0.0/16 nhid 1
ip route del 10.1.0.0/16
ip route del 10.2.0.0/16 nhid 21
ip route del 10.3.0.0/16
ip -6 route del fd21::/32 nhid 4
ip -6 route del fd21::/32 via fd00::99
ip -6 route show fd21::/32
ip -6 route del fd22::/32 nhid 22
ip -6 route del fd23::/32 dev w0
ip -6 route show fd23::/32
# Deleting nexthops.
nh del id 5
nh del id 6
nh del id 8
r4
r6
nh del id 1
r4
nh flush
r4
r6
# Devices.
nh add id 1 via 10.0.0.2 dev v0
nh add id 2 via 10.9.0.2 dev w0
nh add id 3 via fd00::2 dev v0
nh add id 4 via fd09::2 dev w0
nh add id 21 group 1/2
nh add id 22 group 3/4
ip route add 10.1.0.0/16 nhid 1
ip route add 10.2.0.0/16 nhid 21
ip -6 route add fd21::/32 nhid 3
ip -6 route add fd22::/32 nhid 22
ip link set v1 down
[ -n "${WEIR-}" ] || sleep 0.5
r4
r6
nh list
ip link set w0 down
r4
r6
nh list
