# A complete router, for other tests too: addresses, routes, neighbours, policy, filters.
! ip link add d0 type veth peer name pd0
! ip link add d1 type veth peer name pd1
! sysctl -qw net.ipv6.conf.all.disable_ipv6=0
ip link set pd0 up
ip link set pd1 up
ip link set d0 address 02:00:00:01:00:01 up
ip link set d1 address 02:00:00:02:00:01 mtu 1400 up
ip link add link d0 name d0.10 type vlan id 10
ip link set d0.10 up
ip address add 10.1.0.1/24 brd + dev d0
ip address add 10.1.10.1/24 brd + dev d0.10
ip address add 10.2.0.1/24 brd + dev d1
ip address add 2001:db8:1::1/64 dev d0 nodad
ip address add 2001:db8:2::1/64 dev d1 nodad
ip neighbour add 10.1.0.2 lladdr 02:00:00:01:00:02 dev d0 nud permanent
ip neighbour add 10.2.0.2 lladdr 02:00:00:02:00:02 dev d1 nud permanent
ip neighbour add 2001:db8:1::2 lladdr 02:00:00:01:00:02 dev d0 nud permanent
ip neighbour add 2001:db8:2::2 lladdr 02:00:00:02:00:02 dev d1 nud permanent
ip route add default via 10.2.0.2
ip route add 10.3.0.0/16 nexthop via 10.2.0.2 weight 2 nexthop via 10.2.0.3
ip route add prohibit 10.8.0.0/16
ip route add unreachable 10.9.0.0/16
ip route add blackhole 10.10.0.0/16
ip route add default via 2001:db8:2::2
ip route add unreachable 2001:db8:9::/48
ip rule add from 10.1.10.0/24 lookup 10 priority 100
ip route add default via 10.2.0.2 table 10
ip route add throw 10.2.0.77 table 10
tc qdisc add dev d0 clsact
tc qdisc add dev d1 clsact
tc qdisc add dev d1 root handle 1: pfifo limit 10
tc filter add dev d0 ingress pref 1 protocol ip flower ip_proto tcp dst_port 80-90 action drop
tc filter add dev d0 ingress pref 2 protocol ip flower ip_proto udp dst_port 53 action mirred egress mirror dev d1
tc filter add dev d0 ingress pref 3 protocol 802.1q flower vlan_id 20 vlan_ethtype ipv4 action mirred egress redirect dev d1
tc filter add dev d0 ingress pref 4 protocol ipv6 flower ip_proto icmpv6 type 128 action pass random determ drop 3
tc filter add dev d0 ingress pref 5 protocol arp flower arp_op request action goto chain 5
tc filter add dev d0 ingress chain 5 protocol all matchall action continue action mirred ingress mirror dev d1
tc filter add dev d0 ingress pref 6 protocol ip flower ip_flags frag/firstfrag action reclassify
tc filter add dev d0 ingress pref 7 protocol ip flower ip_ttl 1/ff tcp_flags 2/2 action pipe action ok
tc filter add dev d1 egress pref 1 protocol all matchall action mirred egress mirror dev d0
tc filter add dev d1 ingress pref 1 protocol ipv6 flower src_ip 2001:db8:2::/48 dst_mac 02:00:00:02:00:01 action ok
