# MPLS: labels, their routes, routes that push labels. The module is loaded first on Linux.
sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0
[ -n "${WEIR-}" ] || python3 -c "import socket; socket.socket(28, 3, 0)" >/dev/null 2>&1 || true
ip link set lo up
ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
ip link set v0 up; ip link set v1 up
[ -n "${WEIR-}" ] || sleep 0.5
ip addr add 10.0.0.1/24 dev v0
ip -6 addr add fd00::1/64 dev v0 nodad
sysctl net.mpls
sysctl net.mpls.conf.v0.input net.mpls.conf.lo.input
sysctl net.mpls.conf.all.input
ip -f mpls route add 100 via inet 10.0.0.2
sysctl -w net.mpls.platform_labels=-1
sysctl -w net.mpls.platform_labels=1048576
sysctl -w net.mpls.default_ttl=0
sysctl -w net.mpls.default_ttl=256
sysctl -w net.mpls.ip_ttl_propagate=2
sysctl -w net.mpls.platform_labels=1000
ip -f mpls route show
ip -f mpls route get 0
ip -f mpls route get 16
ip -f mpls route add 100 via inet 10.0.0.2
ip -f mpls route add 100 via inet 10.0.0.2
ip -f mpls route add 101 as 200 via inet 10.0.0.2
ip -f mpls route add 102 as 200/300/400 via inet6 fd00::2 dev v0
ip -f mpls route add 103 as 200 via link 02:00:00:00:00:09 dev v0
ip -f mpls route add 104 dev lo
ip -f mpls route add 105 dev v0 ttl-propagate enabled
ip -f mpls route add 106 as 17 ttl-propagate disabled via inet 10.0.0.2
ip -f mpls route add 107 proto 42 nexthop as 300 via inet 10.0.0.2 nexthop as 301/302 via inet6 fd00::2 dev v0 nexthop via inet 10.0.0.3
ip -f mpls route add 108 nexthop via inet 10.0.0.2 weight 2 nexthop via inet 10.0.0.3
ip -f mpls route add 109 via inet 192.0.2.1
ip -f mpls route add 109 as 3 via inet 10.0.0.2
ip -f mpls route add 109 via link 02:00:00:00 dev v0
ip -f mpls route add 109 via link 02:00:00:00:00:09
ip -f mpls route add 15 via inet 10.0.0.2
ip -f mpls route add 1000 via inet 10.0.0.2
ip -f mpls route add 2000000 via inet 10.0.0.2
ip -f mpls route append 100 via inet 10.0.0.3
ip -f mpls route change 110 via inet 10.0.0.3
ip -f mpls route replace 110 via inet 10.0.0.3
ip -f mpls route replace 110 via inet 10.0.0.4
ip -f mpls route add 111 via 10.0.0.3
ip -f mpls route add 111 via inet 10.0.0.3 table 5
ip -f mpls route add 111 via inet 10.0.0.3 metric 5
ip -f mpls route add 111 via inet 10.0.0.3 scope link
ip -f mpls route add blackhole 111
ip -f mpls route add 111 via inet 10.0.0.3 onlink
ip -f mpls route add 111/112 via inet 10.0.0.3
ip -f mpls route add 111 as 1/2/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/21/22/23/24/25/26/27/28/29/30/31 via inet 10.0.0.3
ip -f mpls route del 111
ip -f mpls route add 111
ip -f mpls route add 111 dev nosuch
ip -f mpls route show
ip -j -f mpls route show
ip -f mpls route show dev lo
ip -f mpls route show proto 42
ip -f mpls route show 101
ip -f mpls route get 101 | sed 's/ tos [0-9a-fx]*//'
ip -f mpls route get fibmatch 101
ip -f mpls route get 107 | sed 's/ tos [0-9a-fx]*//'
ip -f mpls route get 120
ip -f mpls route get 1000
ip -f mpls route del 110
ip -f mpls route del 110
ip -f mpls route show 110
sysctl -w net.mpls.conf.v0.input=1
ip -f mpls netconf show dev v0
ip -f mpls netconf show dev lo
ip link set v0 down
ip -f mpls route show
ip link set v0 up
ip link set v1 down
ip -f mpls route show
ip link set v1 up
[ -n "${WEIR-}" ] || sleep 0.5
ip -6 addr add fd00::1/64 dev v0 nodad
sysctl -w net.mpls.platform_labels=102
ip -f mpls route show
sysctl -w net.mpls.platform_labels=1000
ip -f mpls route show
ip -f mpls route add 103 nexthop dev v0 nexthop dev lo
ip route add 10.1.0.0/16 encap mpls 100 via 10.0.0.2
ip route add 10.2.0.0/16 encap mpls 100/200/300 via inet6 fd00::2 dev v0
ip route add 10.3.0.0/16 encap mpls 100 ttl 9 via 10.0.0.2
ip route add 10.4.0.0/16 encap mpls 100 dev v0
ip route add 10.5.0.0/16 nexthop encap mpls 100 via 10.0.0.2 nexthop encap mpls 200 via 10.0.0.3
ip route add 10.6.0.0/16 encap mpls 3 via 10.0.0.2
ip route add 10.6.0.0/16 encap mpls 1/2/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/21/22/23/24/25/26/27/28/29/30/31 via 10.0.0.2
ip route add 10.6.0.0/16 encap mpls 1048575 via 10.0.0.2
ip route add 10.7.0.0/16 encap mpls 1048576 via 10.0.0.2
ip route add 10.1.0.0/16 encap mpls 101 via 10.0.0.2
ip -6 route add fd01::/32 encap mpls 100 via fd00::2
ip -6 route add fd02::/32 encap mpls 100/16 ttl 255 via fd00::2
ip -6 route add fd03::/32 encap mpls 100 dev v0
ip route show | grep encap
ip route show 10.5.0.0/16
ip -j route show 10.2.0.0/16
ip -6 route show | grep encap
ip route get 10.1.1.1
ip -6 route get fd01::1
ip route del 10.1.0.0/16 encap mpls 101 via 10.0.0.2
ip route del 10.1.0.0/16 encap mpls 100 via 10.0.0.2
ip link del v0
ip -f mpls route show
ip -f mpls netconf show
ip link afstats dev lo
ip stats show dev lo group afstats
ip -j stats show dev lo group afstats subgroup mpls
