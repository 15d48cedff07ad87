# Routes with encapsulation in tunnels, and kinds of encapsulation that the kernel lacks.
sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0
ip link set lo up
ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
ip link set v0 up; ip link set v1 up
[ -n "${WEIR-}" ] || sleep 0.5
ip addr add 10.0.0.1/24 dev v0
ip -6 addr add fd00::1/64 dev v0 nodad
ip link add vx0 address 02:00:00:00:00:0a type vxlan external dstport 4789
ip link set vx0 up
ip route add 10.1.0.0/16 encap ip id 100 dst 10.0.0.2 dev vx0
ip route add 10.2.0.0/16 encap ip id 200 dst 10.0.0.2 src 10.0.0.1 ttl 32 tos 4 key csum via 10.9.0.2 dev vx0 onlink
ip route add 10.3.0.0/16 encap ip6 id 300 dst fd00::2 src fd00::1 hoplimit 9 tc 8 dev vx0
ip route add 10.4.0.0/16 encap ip dst 10.0.0.2 dev vx0
ip route add 10.5.0.0/16 encap ip id 100 dev vx0
ip route add 10.6.0.0/16 encap ip id 100 dst fd00::2 dev vx0
ip route add 10.7.0.0/16 nexthop encap ip id 1 dst 10.0.0.2 dev vx0 nexthop encap ip id 2 dst 10.0.0.3 dev vx0 weight 3
ip route add 10.1.0.0/16 encap ip id 101 dst 10.0.0.2 dev vx0
ip route append 10.1.0.0/16 encap ip id 101 dst 10.0.0.2 dev vx0
ip -6 route add fd01::/32 encap ip id 100 dst 10.0.0.2 dev vx0
ip -6 route add fd02::/32 encap ip6 id 300 dst fd00::2 hoplimit 9 dev vx0
ip -6 route add fd03::/32 nexthop encap ip6 id 1 dst fd00::2 via fe80::2 dev vx0 nexthop encap ip6 id 2 dst fd00::3 via fe80::3 dev vx0
ip route show | grep -v 'scope link src'
ip -j route show 10.2.0.0/16
ip -j route show 10.3.0.0/16
ip -j route show 10.7.0.0/16
ip -6 route show | grep encap
ip route get 10.1.1.1
ip route get 10.3.1.1
ip route get fibmatch 10.2.1.1
ip -6 route get fd01::1
ip route del 10.1.0.0/16 encap ip id 999 dst 10.0.0.2 dev vx0
ip route del 10.1.0.0/16 encap ip id 101 dst 10.0.0.2 dev vx0
ip route show 10.1.0.0/16
ip route replace 10.1.0.0/16 encap ip id 5 dst 10.0.0.9 dev vx0
ip route show 10.1.0.0/16
ip route add 10.20.0.0/16 encap seg6 mode encap segs fd00::2 dev v0
ip -6 route add fd20::/32 encap seg6 mode encap segs fd00::2 dev v0
ip -6 route add fd20::/32 encap seg6local action End dev v0
ip -6 route add fd20::/32 encap rpl segs fd00::2 dev v0
ip -6 route add fd20::/32 encap ioam6 trace prealloc type 0x800000 ns 1 size 12 dev v0
ip -6 route add fd20::/32 encap xfrm if_id 5 dev v0
ip route add 10.20.0.0/16 encap xfrm if_id 5 dev v0
ip route add 10.20.0.0/16 encap ila 1:2:3:4 dev v0
ip route add 10.20.0.0/16 nexthop encap seg6 mode encap segs fd00::2 dev v0 nexthop via 10.0.0.2
