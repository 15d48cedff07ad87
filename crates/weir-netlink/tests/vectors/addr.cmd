! ip link add d0 type veth peer name pd0
! ip link set d0 up
ip addr add 192.0.2.1/24 dev d0
ip addr add 192.0.2.2/24 brd + dev d0 label d0:1
ip addr add 10.0.0.1 peer 10.0.0.2/32 dev d0
ip addr add 198.51.100.1/24 dev d0 scope link valid_lft 600 preferred_lft 300
ip addr add 203.0.113.1/24 dev d0 noprefixroute metric 20
ip addr add 2001:db8::1/64 dev d0
ip addr add 2001:db8::2/64 dev d0 nodad home mngtmpaddr
ip addr add fe80::1/64 dev d0 scope link
ip addr add 2001:db8:1::1 peer 2001:db8:1::2/128 dev d0
ip addr change 192.0.2.1/24 dev d0 preferred_lft 0
ip addr replace 192.0.2.9/24 dev d0
ip addr del 192.0.2.2/24 dev d0
ip -6 addr del 2001:db8::1/64 dev d0
ip addr show
ip addr show dev d0
ip -6 addr show scope link
ip -4 addr show to 192.0.2.0/24
ip addrlabel add prefix 2001:db8::/32 label 99
ip addrlabel list
ip netconf show dev d0
ip netconf
ip ntable show dev d0
ip ntable change name arp_cache dev d0 ucast_probes 5 base_reachable 20000
ip token set ::5 dev d0
