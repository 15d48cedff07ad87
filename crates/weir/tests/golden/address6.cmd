ip link add d0 address 02:00:00:00:00:01 type dummy
ip addr add 2001:db8::1/64 dev d0
ip -6 addr show d0
ip -6 route show table all
ip link set d0 up
pass 2
ip -6 addr show d0
ip -6 route show table all
ip addr add 2001:db8::1/64 dev d0
ip addr add 2001:db8::2/64 dev d0
ip addr add 2001:db8:1::1/64 dev d0 nodad
ip addr add 2001:db8:2::1 peer 2001:db8:2::2/64 dev d0
ip addr add 2001:db8:3::1/64 dev d0 valid_lft 1000 preferred_lft 500
ip addr add 2001:db8:4::1/64 dev d0 noprefixroute
ip addr add 2001:db8:5::1/64 dev d0 metric 7
ip addr add 2001:db8:6::1/64 dev d0 home
ip addr add 2001:db8:7::1/64 dev d0 preferred_lft 0
ip addr add 2001:db8:8::1/128 dev d0
ip addr add fe80::99/64 dev d0
ip -6 addr show d0
ip -d -6 addr show d0
ip -j -p -6 addr show d0
ip -6 -o addr
ip -6 -br addr
ip -6 route show table all dev d0
ip -6 addr show deprecated
ip -6 addr show permanent dev d0
ip -6 addr show tentative
ip addr change 2001:db8:3::1/64 dev d0 valid_lft forever preferred_lft forever
ip addr change 2001:db8:4::1/64 dev d0
ip -6 addr show d0
ip addr add ff02::99/64 dev d0
ip addr add ::1/128 dev d0
ip addr add ::/0 dev d0
ip addr add 2001:db8::5/129 dev d0
ip addr add 2001:db8:9::1/64 dev d0 valid_lft 10 preferred_lft 20
ip addr add 2001:db8:9::1/64 dev d0 valid_lft 0
ip addr add 2001:db8:9::1/64 dev d0 mngtmpaddr
ip addr del 2001:db8::1/64 dev d0
ip addr del 2001:db8::1/64 dev d0
ip addr del 2001:db8:2::1 dev d0
ip addr del 2001:db8:2::1/64 dev d0
ip -6 addr show d0
ip -6 route show dev d0
ip -6 addr flush dev d0 scope global
ip -6 addr show d0
ip link set d0 down
ip -6 addr show d0
ip -6 route show table all
ip link set d0 up
pass 2
ip -6 addr show d0
ip link set lo up
ip -6 addr show lo
ip -6 route show table all
sysctl -w net.ipv6.conf.d0.disable_ipv6=1
ip -6 addr show d0
ip addr add 2001:db8::1/64 dev d0
sysctl -w net.ipv6.conf.d0.disable_ipv6=0
pass 2
ip -6 addr show d0
ip link add v0 address 02:00:00:00:00:03 type veth peer name v1 address 02:00:00:00:00:04
ip link set v0 up
ip addr add 2001:db8:a::1/64 dev v0
ip -6 addr show dev v0
ip link set v1 up
pass 3
ip -6 addr show dev v0
ip -6 addr show dev v1
ip link del d0
ip link del v0
ip -6 route show table all
