# What listeners hear of MPLS routes and settings. The module is loaded first on Linux.
sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
[ -n "${WEIR-}" ] || python3 -c "import socket; socket.socket(28, 3, 0)" >/dev/null 2>&1 || true
sysctl -qw net.mpls.platform_labels=1000
ip link set lo up
ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
ip link set v0 up; ip link set v1 up
[ -n "${WEIR-}" ] || sleep 0.5
ip addr add 10.0.0.1/24 dev v0
sleep 0.5
ip -f mpls monitor route >$tmp/routes 2>&1 & routes=$!; ip monitor netconf >$tmp/conf 2>&1 & conf=$!; sleep 0.5
ip -f mpls route add 100 as 200 via inet 10.0.0.2
ip -f mpls route replace 100 as 201/16 via inet 10.0.0.2
ip -f mpls route add 101 nexthop via inet 10.0.0.2 nexthop dev v1
ip -f mpls route add 102 via inet 10.0.0.2
ip -f mpls route add 103 via inet 10.0.0.2
ip -f mpls route del 103
ip -f mpls route del 103
ip -f mpls route add 500 via inet 10.0.0.2
sysctl -qw net.mpls.conf.v0.input=1; sysctl -qw net.mpls.conf.v0.input=1; sysctl -qw net.mpls.conf.v0.input=0
sysctl -qw net.mpls.platform_labels=400
ip link add w0 type veth peer name w1; ip link set w0 name w2
ip link del v0
sleep 0.5; kill $routes $conf; wait $routes $conf; cat $tmp/routes
grep mpls $tmp/conf
