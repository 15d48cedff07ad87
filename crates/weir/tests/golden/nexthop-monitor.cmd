# What listeners hear of nexthop objects and of routes by them.
sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0
ip link set lo up
ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
ip link add w0 address 02:00:00:00:00:11 type veth peer name w1 address 02:00:00:00:00:12
ip link set v0 up; ip link set v1 up; ip link set w0 up; ip link set w1 up
[ -n "${WEIR-}" ] || sleep 0.5
ip addr add 10.0.0.1/24 dev v0; ip addr add 10.9.0.1/24 dev w0
ip -6 addr add fd00::1/64 dev v0 nodad; ip -6 addr add fd09::1/64 dev w0 nodad
sleep 1
ip monitor nexthop >$tmp/nh 2>&1 & nh=$!; ip monitor nexthop route >$tmp/both 2>&1 & both=$!; sleep 0.5
ip nexthop add id 1 via 10.0.0.2 dev v0; ip nexthop add id 2 via 10.9.0.2 dev w0; ip nexthop add id 3 via fd00::2 dev v0; ip nexthop add id 4 via fd09::2 dev w0; ip nexthop add id 5 blackhole; ip nexthop add id 21 group 1/2; ip nexthop add id 22 group 3/4; ip nexthop add id 23 group 1/2; ip nexthop add id 24 group 1
ip route add 10.1.0.0/16 nhid 1; ip route add 10.2.0.0/16 nhid 21; ip -6 route add fd21::/32 nhid 3; ip -6 route add fd22::/32 nhid 22
ip nexthop replace id 1 via 10.0.0.77 dev v0; ip nexthop replace id 22 group 3,9/4; ip nexthop replace id 3 via fd00::77 dev v0
ip nexthop replace id 23 group 2; ip nexthop replace id 30 blackhole
ip route del 10.1.0.0/16; ip -6 route del fd21::/32
ip nexthop del id 1
ip nexthop del id 3
ip nexthop del id 22
ip nexthop del id 2
ip nexthop add id 1 via 10.0.0.2 dev v0; ip nexthop add id 2 via 10.9.0.2 dev w0; ip nexthop add id 3 via fd00::2 dev v0; ip nexthop add id 10 group 1/2 type resilient buckets 4; ip route add 10.3.0.0/16 nhid 10; ip -6 route add fd23::/32 nhid 3; ip nexthop replace id 10 group 1 type resilient; ip nexthop replace id 10 group 1/2 type resilient idle_timer 1
pass 3
sysctl -qw net.ipv4.nexthop_compat_mode=0; ip nexthop replace id 3 via fd00::88 dev v0; ip -6 route add fd24::/32 nhid 3; ip nexthop del id 3; sysctl -qw net.ipv4.nexthop_compat_mode=1
ip nexthop add id 3 via fd00::2 dev v0; ip -6 route add fd23::/32 nhid 3; ip nexthop del id 1
sleep 0.5; ip link set v1 down; [ -n "${WEIR-}" ] || sleep 0.5
ip nexthop flush
sleep 0.5; kill $nh $both; wait $nh $both; sed -E 's/(unbalanced_time|idle_time) [0-9.]+/\1 N/g' $tmp/nh
grep -v -e ff00:: -e fe80 -e 'dev lo' -e 'proto kernel' $tmp/both | sed -E 's/(unbalanced_time|idle_time) [0-9.]+/\1 N/g'
