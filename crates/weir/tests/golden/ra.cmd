# Routers' advertisements: default routes, prefixes, addresses, parameters of the link.
ra() { python3 $here/frames.py ra v1 "$@"; pass 2; }
show() { ip -6 addr show dev v0 scope global; ip -6 route show dev v0; ip -6 neigh show dev v0 | sort; }
conf() { for name; do printf '%s %s\n' "$name" "$(cat /proc/sys/net/ipv6/conf/v0/$name)"; done; }
times() { for name in base_reachable_time_ms retrans_time_ms; do printf '%s %s\n' "$name" "$(cat /proc/sys/net/ipv6/neigh/v0/$name)"; done; }
ip link add v0 address 02:00:00:00:00:10 type veth peer name v1 address 02:00:00:00:00:11
sysctl -w net.ipv6.conf.v1.disable_ipv6=1
ip link set v1 up
ip link set v0 up
pass 2
show
# A prefix with the flags L and A, and the router's link-layer address.
ip monitor route address prefix neigh >$tmp/monitor & sleep 1
python3 $here/frames.py hear 18 20 >$tmp/heard & sleep 1
pass 2
ra source=020000000001 prefix=2001:db8:1::/64,c0,3600,1800 rdnss=600,2001:db8::53
show
ra source=020000000001 prefix=2001:db8:1::/64,c0,7200,3600
show
ip -d -6 route show default
ip -j -6 route show default
ip -6 route get 2001:db8:9::1
# Other routers, with preferences.
ra src=fe80::2 mac=020000000002 source=020000000002 flags=08
ra src=fe80::3 mac=020000000003 source=020000000003 flags=18 life=600
show
ip -6 route get 2001:db8:9::1
# They go.
ra src=fe80::2 mac=020000000002 life=0
show
ra src=fe80::3 mac=020000000003 life=0
ra src=fe80::7 mac=020000000007 life=0
show
# Prefixes without a flag.
ra prefix=2001:db8:2::/64,80,3600,1800
ra prefix=2001:db8:3::/64,40,3600,1800
ra prefix=2001:db8:4::/64,00,3600,1800
show
# Wrong ones.
ra prefix=2001:db8:5::/60,c0,3600,1800
ra prefix=2001:db8:6::/64,c0,1800,3600
ra prefix=fe80::/64,c0,3600,1800
ra prefix=ff02::/64,c0,3600,1800
ra prefix=2001:db8:7::/64,c0,0,0
ra limit=64 prefix=2001:db8:8::/64,c0,3600,1800
ra src=2001:db8::1 prefix=2001:db8:8::/64,c0,3600,1800
ra option=0300000000000000 prefix=2001:db8:8::/64,c0,3600,1800
show
# A lifetime below two hours does not end an address at once.
ra prefix=2001:db8:1::/64,c0,60,0
show
ra prefix=2001:db8:2::/64,80,0,0
ra prefix=2001:db8:1::/64,c0,0,0
show
ra prefix=2001:db8:1::/64,c0,4294967295,4294967295
show
# Parameters.
conf hop_limit mtu
times
ra hop=17 reach=20000 retrans=500 mtu=1400
conf hop_limit mtu
times
ip -6 route show dev v0
ip link show v0 | grep -o "mtu [0-9]*"
ra hop=0 mtu=1200
ra mtu=9000
conf hop_limit mtu
ra mtu=1500
conf hop_limit mtu
sysctl -w net.ipv6.conf.v0.accept_ra_min_hop_limit=100
ra hop=50
conf hop_limit
ra hop=101
conf hop_limit
# Routes.
ra route=2001:db8:100::/48,00,600
ip -6 route show dev v0
sysctl -w net.ipv6.conf.v0.accept_ra_rt_info_max_plen=64
ra route=2001:db8:100::/48,00,600 route=2001:db8:200::/56,08,4294967295 route=2001:db8:300::/72,00,600
ip -6 route show dev v0
sysctl -w net.ipv6.conf.v0.accept_ra_rt_info_min_plen=50
ra route=2001:db8:400::/48,00,600 route=2001:db8:200::/56,00,0
ra route=::/0,18,300
ip -6 route show dev v0
sysctl -w net.ipv6.conf.v0.accept_ra_rt_info_min_plen=0
ra route=::/0,18,300
ip -6 route show dev v0
ra route=2001:db8:500::/48,10,300
ip -6 route show dev v0
# A neighbour that is no router any more.
python3 $here/frames.py na v1 a0000000 fe80::1 020000000001
ip -6 route show default
python3 $here/frames.py na v1 20000000 fe80::1 020000000001
ip -6 route show default
ip -6 neigh show dev v0 to fe80::1
pass 1
kill %1 %2
sed "s/ref [0-9]* //" $tmp/monitor
cat $tmp/heard
