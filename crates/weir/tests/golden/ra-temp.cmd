# Temporary addresses (privacy extensions): of prefixes that routers advertise, and of addresses with mngtmpaddr.
ra() { python3 $here/frames.py ra v1 "$@"; pass 2; }
mask() { sed -E 's#(inet6 |from |src )(2001:db8:[0-9]+:)[0-9a-f]+:[0-9a-f:]*[0-9a-f]{3}[0-9a-f:]*#\1\2:T#; s#T/64#T/64#'; }
show() { ip -6 addr show dev v0 scope global | mask; }
conf() { for name; do printf '%s %s\n' "$name" "$(cat /proc/sys/net/ipv6/conf/$name)"; done; }
ip link add v0 address 02:00:00:00:00:10 type veth peer name v1 address 02:00:00:00:00:11
sysctl -w net.ipv6.conf.v1.disable_ipv6=1
conf v0/use_tempaddr v0/temp_valid_lft v0/temp_prefered_lft v0/regen_max_retry v0/max_desync_factor
conf all/use_tempaddr default/temp_valid_lft all/temp_prefered_lft default/regen_max_retry all/max_desync_factor
conf lo/use_tempaddr
ls /proc/sys/net/ipv6/conf/v0/regen_min_advance
ip link add t0 type sit remote 10.0.0.1
ip link add t1 type ip6tnl remote 2001:db8::1
ip link add t2 type gre remote 10.0.0.1
ip link add t3 type ip6gre remote 2001:db8::1
conf t0/use_tempaddr t1/use_tempaddr t2/use_tempaddr t3/use_tempaddr
for t in t0 t1 t2 t3; do ip link del $t; done
ip link set v1 up
ip link set v0 up
pass 2
# A prefix.
sysctl -w net.ipv6.conf.v0.use_tempaddr=1
sysctl -w net.ipv6.conf.v0.max_desync_factor=0
ip -o monitor address >$tmp/monitor & sleep 1
pass 1
ra source=020000000001 prefix=2001:db8:1::/64,c0,3600,1800
show
ip -6 route show dev v0
ip -6 route get 2001:db8:9::1 | mask
sysctl -w net.ipv6.conf.v0.use_tempaddr=2
ip -6 route get 2001:db8:9::1 | mask
ra source=020000000001 prefix=2001:db8:1::/64,c0,7200,3600
show
ip -j -6 addr show dev v0 scope global temporary | grep -o '"temporary":[a-z]*'
# Another, which goes.
ra prefix=2001:db8:2::/64,c0,3600,1800
show
ra prefix=2001:db8:2::/64,c0,0,0
show
# Without a preferred lifetime.
ra prefix=2001:db8:1::/64,c0,7200,0
show
ra prefix=2001:db8:1::/64,c0,7200,3600
show
# The setting stops new ones.
sysctl -w net.ipv6.conf.v0.use_tempaddr=0
ra prefix=2001:db8:1::/64,c0,7200,3600
ra prefix=2001:db8:3::/64,c0,7200,3600
show
sysctl -w net.ipv6.conf.v0.use_tempaddr=1
ra prefix=2001:db8:3::/64,c0,7200,3600
show
sed -E 's/^(Deleted )?[0-9]+: /\1/' $tmp/monitor | mask | sort
ip link set v0 down
show
ip link set v0 up
pass 2
show
# By hand.
ip addr add 2001:db8:3::1/64 dev v0 mngtmpaddr
pass 2
show
ip addr change 2001:db8:3::1/64 dev v0 mngtmpaddr valid_lft 1000 preferred_lft 500
show
ip addr change 2001:db8:3::1/64 dev v0 valid_lft 1000 preferred_lft 500
show
ip addr change 2001:db8:3::1/64 dev v0 mngtmpaddr valid_lft 1000 preferred_lft 500
pass 2
show
ip addr del 2001:db8:3::1/64 dev v0 mngtmpaddr
show
ip addr add 2001:db8:4::1/64 dev v0 mngtmpaddr
pass 2
ip addr del 2001:db8:4::1/64 dev v0
show
ip addr flush dev v0 scope global
show
ip addr add 2001:db8:5::1/80 dev v0 mngtmpaddr
ip addr add 2001:db8:5::1/64 dev v0 mngtmpaddr preferred_lft 3 valid_lft 100
pass 2
show
ip addr flush dev v0 scope global
# Its successors.
sysctl -w net.ipv6.conf.v0.temp_prefered_lft=20
sysctl -w net.ipv6.conf.v0.temp_valid_lft=39
sysctl -w net.ipv6.conf.v0.dad_transmits=2
ip addr add 2001:db8:6::1/64 dev v0 mngtmpaddr
pass 3
show
pass 14
show
pass 5
show
pass 9
show
pass 4
show
# Its lifetime is too short.
sysctl -w net.ipv6.conf.v0.temp_prefered_lft=3
ip addr flush dev v0 scope global
ip addr add 2001:db8:7::1/64 dev v0 mngtmpaddr
pass 3
show
