# Multicast routes and rules, without a daemon.
ip link set lo up
ip mroute
ip mroute show table all
ip -4 mroute
ip mroute show table 5
ip mroute show iif lo
ip -j mroute
ip -s mroute
ip mrule
ip -4 mrule
ip mrule add from 10.0.0.0/8 lookup 5
ip mrule del from 10.0.0.0/8 lookup 5
ip route show type multicast
ip route add multicast 224.1.0.0/16 dev lo
ip route add table local multicast 224.1.0.0/16 dev lo
ip route show table all type multicast
ip maddr show dev lo
cat /proc/net/ip_mr_cache /proc/net/ip_mr_vif
