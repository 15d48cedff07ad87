ip link add d0 address 02:00:00:00:00:01 type dummy
ip addr add 10.0.0.1/24 dev d0
ip addr
ip addr show d0
ip -d addr show d0
ip route
ip route show table local
ip link set d0 up
ip addr show d0
ip route
ip route show table local
ip addr add 10.0.0.1/24 dev d0
ip addr add 10.0.0.2/24 dev d0
ip addr add 10.0.0.3/24 dev d0
ip addr show d0
ip addr add 10.0.1.1/24 brd + dev d0
ip addr add 10.0.2.1/24 brd 10.0.2.200 label d0:two dev d0
ip addr add 10.0.3.1 peer 10.0.3.2 dev d0
ip addr add 10.0.4.1/31 dev d0
ip addr add 10.0.5.1/32 dev d0 scope link
ip addr add 10.0.6.1/24 dev d0 valid_lft 1000 preferred_lft 500
ip addr add 10.0.7.1/24 dev d0 noprefixroute
ip addr add 10.0.8.1/24 dev d0 metric 50
ip addr add 10.0.9.1/24 dev d0 anycast 1.2.3.4
ip addr add 10.0.9.1/24 dev d0 proto 5
ip -4 addr show d0
ip -j -p -4 addr show d0
ip -o -4 addr
ip -br -4 addr
ip route show dev d0
ip route show table local dev d0
ip addr show to 10.0.3.0/24
ip addr show label 'd0:*'
ip addr show scope link
ip addr show secondary
ip addr show primary dev d0
ip addr show up
ip addr change 10.0.1.1/24 brd + dev d0 valid_lft 100 preferred_lft 50
ip addr replace 10.0.7.1/24 dev d0
ip addr replace 10.0.10.1/24 dev d0
ip -4 addr show d0
ip addr add 10.0.11.1/24 dev d0 valid_lft 10 preferred_lft 20
ip addr add 10.0.11.1/24 dev d0 valid_lft 0
ip addr add 10.0.11.1/24 dev d0 label wrong
ip addr add 10.0.11.1/33 dev d0
ip addr add 10.0.11.1/24 dev nosuch
ip addr add 10.0.11.1/24
ip addr del 10.0.0.1/24 dev d0
ip -4 addr show d0
ip route show dev d0
ip addr del 10.0.0.1/24 dev d0
ip addr del 10.0.3.1/32 dev d0
ip addr del 10.0.3.1 peer 10.0.3.2 dev d0
ip addr del 10.0.1.1 dev d0
ip addr del 10.0.2.1/24 dev d0 label d0
ip addr flush dev d0 label 'd0:*'
ip -4 addr show d0
sysctl -w net.ipv4.conf.d0.promote_secondaries=1
ip addr add 10.1.0.1/24 dev d0
ip addr add 10.1.0.2/24 dev d0
ip addr del 10.1.0.1/24 dev d0
ip addr show to 10.1.0.0/16
ip addr flush dev d0 scope global
ip addr show d0
ip route show table all dev d0
ip addr add 10.2.0.1/24 dev d0
ip link set d0 down
ip route show table all dev d0
ip link set d0 up
ip -4 route show table all dev d0
ip addr add 127.0.0.2/8 dev lo
ip link set lo up
ip -4 addr show lo
ip route show table local
ip addr add 224.0.0.1/24 dev d0
ip addr add 0.0.0.0/0 dev d0
ip addr add 255.255.255.255/32 dev d0
ip -4 addr show d0
ip addr save >/dev/null
ip link del d0
ip -4 route show table all
ip addr
