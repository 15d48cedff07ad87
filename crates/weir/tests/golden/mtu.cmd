# IPv6 is disabled on a device whose MTU is too small for it, and enabled again with a larger MTU.
ip link add d0 type dummy
ip link set d0 address 02:00:00:00:00:01
sysctl -w net.ipv6.conf.d0.hop_limit=33
sysctl -w net.ipv6.conf.d0.accept_dad=0
sysctl -w net.ipv6.neigh.d0.ucast_solicit=7
ip link set d0 up
pass 3
ip addr add 10.0.0.1/24 dev d0
ip addr add fd00::1/64 dev d0 nodad
ip route add fd01::/64 via fd00::2 dev d0
ip neigh add fd00::2 lladdr 02:00:00:00:00:02 dev d0
ip link set d0 mtu 1280
ip -6 addr show dev d0
ip link set d0 mtu 1279
ip addr show dev d0
ip -6 route show table all dev d0
ip neigh show dev d0
ip -6 link show dev d0
ip -d link show d0
ip -6 netconf show dev d0
ip -4 netconf show dev d0
ip -6 netconf show
ip ntable show dev d0 | sed "s/ reachable [0-9]*//"
ip ntable change name ndisc_cache dev d0 retrans 2000
ls /proc/sys/net/ipv6/conf
ls /proc/sys/net/ipv6/neigh | grep -v default
ls /proc/sys/net/ipv4/conf
cat /proc/sys/net/ipv6/conf/d0/hop_limit
sysctl net.ipv6.conf.d0.mtu
cat /proc/net/if_inet6
ip addr add fd00::1/64 dev d0
ip addr del fd00::1/64 dev d0
ip link set d0 addrgenmode none
ip link set d0 addrgenmode eui64
ip route add fd02::/64 dev d0
ip route add fd02::/64 via fd00::2 dev d0
ip -6 route add fd02::/64 nexthop via fd00::2 dev d0 nexthop via fd00::3 dev d0
ip -6 route add blackhole fd03::/64 dev d0
ip neigh add fd00::2 lladdr 02:00:00:00:00:02 dev d0
ip -6 neigh flush dev d0
ip link set d0 down
ip link set d0 up
ip -6 addr show dev d0
ls /proc/sys/net/ipv6/conf
ip link set d0 mtu 1280
pass 3
ls /proc/sys/net/ipv6/conf
ls /proc/sys/net/ipv6/neigh | grep -v default
sysctl net.ipv6.conf.d0.hop_limit net.ipv6.conf.d0.accept_dad net.ipv6.neigh.d0.ucast_solicit net.ipv6.conf.d0.mtu
ip addr show dev d0
ip -6 route show table all dev d0
ip link set d0 mtu 1000
ip link set d0 down
ip link set d0 mtu 1500
ls /proc/sys/net/ipv6/conf
ip addr show dev d0
ip link set d0 up
pass 3
ip addr show dev d0
# A device created with a small MTU has no IPv6.
ip link add d1 mtu 1000 address 02:00:00:00:00:09 type dummy
ls /proc/sys/net/ipv6/conf
ip -d link show d1
ip addr add fd00::5/64 dev d1
ip link set d1 up
ip addr show dev d1
ip link set d1 down
ip link set d1 name d2
ls /proc/sys/net/ipv6/conf
ip link set d2 mtu 1300
ls /proc/sys/net/ipv6/conf
ip link del d2
# lo keeps its settings.
ip link set lo up
ip link set lo mtu 1000
ip addr show dev lo
ls /proc/sys/net/ipv6/conf
ip -6 route show table all dev lo
ip addr add fd00::9/128 dev lo
ip addr show dev lo
ip link set lo down
ip link set lo up
ip addr show dev lo
ip link set lo mtu 65536
ip addr show dev lo
ip link set lo down
ip link set lo up
ip addr show dev lo
# IPv4 needs an MTU of 68.
ip link set d0 mtu 67
ip addr show dev d0
ip -4 route show table all dev d0
ls /proc/sys/net/ipv4/conf
ls /proc/sys/net/ipv4/neigh | grep -v default
ip -4 netconf show dev d0
ip ntable show dev d0 | sed "s/ reachable [0-9]*//"
ip -4 addr add 10.0.0.1/24 dev d0
ip route add 10.1.0.0/16 dev d0
ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev d0
ip route get 10.2.0.1 oif d0
ip route get 224.0.0.1 oif d0
ip route get 10.2.0.1 from 10.3.0.1 iif d0
ip route get 224.0.0.1 from 10.3.0.1 iif d0
ip -d link show d0
ip link set d0 mtu 68
ip route get 10.2.0.1 oif d0 | grep -o "10.2.0.1 dev d0"
ls /proc/sys/net/ipv4/conf
ip addr add 10.0.0.1/24 dev d0
ip addr show dev d0
ip -4 route show table all dev d0
ip link set d0 mtu 67
ip addr del 10.0.0.1/24 dev d0
ip link set d0 down
ip link set d0 mtu 1500
ip link set d0 up
pass 3
ip addr show dev d0
ip -4 route show table all dev d0
# A VLAN's MTU never exceeds its lower device's.
ip link add d0.5 link d0 type vlan id 5
ip link set d0.5 up
pass 3
ls /proc/sys/net/ipv6/conf
ip link set d0 mtu 1200
ip -6 addr show dev d0.5
ls /proc/sys/net/ipv6/conf
ip link set d0 mtu 1500
ls /proc/sys/net/ipv6/conf
