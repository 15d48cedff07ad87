# Addresses with autojoin join the groups they name.
ip link add d0 address 02:00:00:00:00:01 type dummy
ip link set d0 up
ip addr add 239.1.1.1/24 dev d0 autojoin
ip addr add 239.1.1.1/24 dev d0 autojoin
ip addr add 239.1.1.1/32 dev d0 autojoin
ip addr add 239.1.2.2/32 dev d0
ip addr add 10.0.0.1/24 dev d0 autojoin
ip -4 addr show dev d0
ip maddr show dev d0
cat /proc/net/igmp
ip addr del 239.1.2.2/32 dev d0
ip link set d0 down
ip maddr show dev d0
ip link set d0 up
pass 3
ip maddr show dev d0
ip -6 addr add ff05::123/64 dev d0 autojoin
ip -6 addr add ff05::123/64 dev d0 autojoin
ip -6 addr add ff05::124/64 dev d0
ip -6 addr add 2001:db8::9/64 dev d0 autojoin
ip -6 addr add ff02::77/64 dev d0 autojoin
ip -6 addr add ff0e::1/128 dev d0 autojoin nodad
ip -6 addr show dev d0
ip maddr show dev d0
cat /proc/net/igmp6 | grep d0 | cut -c6-
ip -6 addr del ff05::123/64 dev d0
ip addr del 239.1.1.1/24 dev d0
ip maddr show dev d0
cat /proc/net/igmp
sysctl -w net.ipv4.igmp_max_memberships=2
ip addr add 239.1.1.1/32 dev d0 autojoin
ip addr add 239.1.1.2/32 dev d0 autojoin
ip addr add 239.1.1.3/32 dev d0 autojoin
ip maddr show dev d0
sysctl -w net.ipv6.conf.d0.disable_ipv6=1
ip -6 addr add ff05::123/64 dev d0 autojoin
ip maddr show dev d0
