# What a device takes from a router's advertisement.
ra() { python3 $here/frames.py ra v1 "$@"; pass 2; }
show() { ip -6 addr show dev v0 scope global; ip -6 route show dev v0; }
fresh() { ip link del v0 2>/dev/null; ip link add v0 address 02:00:00:00:00:10 type veth peer name v1 address 02:00:00:00:00:11; sysctl -qw net.ipv6.conf.v1.disable_ipv6=1; for set; do sysctl -qw net.ipv6.conf.v0.$set; done; ip link set v1 up; ip link set v0 up; pass 2; }
fresh accept_ra=0
ra prefix=2001:db8:1::/64,c0,3600,1800
show
fresh forwarding=1
ra prefix=2001:db8:1::/64,c0,3600,1800
show
fresh forwarding=1 accept_ra=2
ra prefix=2001:db8:1::/64,c0,3600,1800
show
fresh accept_ra_defrtr=0
ra prefix=2001:db8:1::/64,c0,3600,1800
show
fresh accept_ra_pinfo=0
ra prefix=2001:db8:1::/64,c0,3600,1800 mtu=1400
show
cat /proc/sys/net/ipv6/conf/v0/mtu
fresh accept_ra_mtu=0
ra prefix=2001:db8:1::/64,c0,3600,1800 mtu=1400
show
cat /proc/sys/net/ipv6/conf/v0/mtu
fresh accept_ra_rtr_pref=0
ra flags=08 prefix=2001:db8:1::/64,c0,3600,1800
show
fresh autoconf=0
ra prefix=2001:db8:1::/64,c0,3600,1800
show
fresh ra_defrtr_metric=77
ra prefix=2001:db8:1::/64,c0,3600,1800
show
fresh accept_ra_min_lft=100
ra life=50 prefix=2001:db8:1::/64,c0,3600,1800
show
fresh max_addresses=2
ra prefix=2001:db8:1::/64,c0,3600,1800 prefix=2001:db8:2::/64,c0,3600,1800 prefix=2001:db8:3::/64,c0,3600,1800
show
# The router is one of the own addresses.
fresh accept_ra_from_local=0
ip addr add fe80::1/64 dev v0 nodad
ra prefix=2001:db8:1::/64,c0,3600,1800
show
fresh accept_ra_from_local=1
ip addr add fe80::1/64 dev v0 nodad
ra prefix=2001:db8:1::/64,c0,3600,1800
show
# Forwarding ends the default routes.
fresh
ra prefix=2001:db8:1::/64,c0,3600,1800
sysctl -w net.ipv6.conf.v0.forwarding=1
show
sysctl -w net.ipv6.conf.v0.forwarding=0
ra
show
ip link set v0 down
show
ip link set v0 up
pass 2
ra prefix=2001:db8:1::/64,c0,3600,1800
show
ip -6 route del default
show
ip addr del 2001:db8:1::ff:fe00:10/64 dev v0
show
# An address configured by hand, and one that another host has.
fresh
ip addr add 2001:db8:1::ff:fe00:10/64 dev v0 nodad
ra prefix=2001:db8:1::/64,c0,3600,1800
show
# Interface identifiers.
fresh
ip token show
ip token set ::77 dev v0
ip token get dev v0
ra prefix=2001:db8:1::/64,c0,3600,1800
show
ip token set ::88 dev v0
show
ra prefix=2001:db8:1::/64,c0,3600,1800
pass 2
show
ip token set :: dev v0
ip token del dev v0
ip token set ::99 dev lo
sysctl -w net.ipv6.conf.v0.accept_ra=0
ip token set ::99 dev v0
sysctl -w net.ipv6.conf.v0.accept_ra=1
sysctl -w net.ipv6.conf.v0.router_solicitations=0
ip token set ::99 dev v0
fresh addr_gen_mode=1
ra prefix=2001:db8:1::/64,c0,3600,1800
show
fresh stable_secret=2001:db8::5ec
cat /proc/sys/net/ipv6/conf/v0/stable_secret
cat /proc/sys/net/ipv6/conf/v0/addr_gen_mode
ip -6 addr show dev v0
ra prefix=2001:db8:1::/64,c0,3600,1800
ip -6 addr show dev v0
sysctl -w net.ipv6.conf.v0.addr_gen_mode=0
ra prefix=2001:db8:2::/64,c0,3600,1800
ip -6 addr show dev v0
sysctl -w net.ipv6.conf.v0.addr_gen_mode=4
ip link set dev v0 addrgenmode none
ip -6 addr show dev v0
ip link set dev v0 addrgenmode stable_secret
ip link set dev lo addrgenmode stable_secret
ip link set dev v0 addrgenmode eui64
ip -6 addr show dev v0
sysctl -w net.ipv6.conf.default.stable_secret=2001:db8::beef
sysctl net.ipv6.conf.default.addr_gen_mode net.ipv6.conf.all.addr_gen_mode
fresh
ip -6 addr show dev v0
