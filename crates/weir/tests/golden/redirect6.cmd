# Redirects received over IPv6.
redirect() { python3 $here/frames.py redirect6 v1 "$@"; [ -n "${WEIR-}" ] && pass 1 || sleep 0.1; }
ip link add v0 address 02:00:00:00:00:10 type veth peer name v1 address 02:00:00:00:00:11
sysctl -qw net.ipv6.conf.v1.disable_ipv6=1 net.ipv6.conf.v0.accept_ra=0
ip link set v1 up
ip link set v0 up
ip addr add 2001:db8::1/64 dev v0 nodad
ip -6 route add default via fe80::1 dev v0
pass 2
ip -6 route get 2001:db8:9::1
# Not from the router, and from an address that is not of the link.
redirect fe80::9 2001:db8::1 fe80::2 2001:db8:9::1 mac=020000000002
redirect 2001:db8::9 2001:db8::1 fe80::2 2001:db8:9::1 mac=020000000002
redirect fe80::1 2001:db8::1 fe80::2 2001:db8:9::1 mac=020000000002 limit=64
ip -6 route get 2001:db8:9::1
ip -6 neigh show dev v0 | sort
redirect fe80::1 2001:db8::1 fe80::2 2001:db8:9::1 mac=020000000002
ip -6 route get 2001:db8:9::1
ip -d -6 route get 2001:db8:9::1
ip -j -6 route get 2001:db8:9::1
ip -6 route get fibmatch 2001:db8:9::1
ip -6 route get 2001:db8:9::2
ip -6 neigh show dev v0 | sort
ip -6 route show
ip -6 route show cache
ip -d -6 route show cache
# From the router before, and from the new one.
redirect fe80::1 2001:db8::1 fe80::3 2001:db8:9::1 mac=020000000003
ip -6 route get 2001:db8:9::1
redirect fe80::3 2001:db8::1 fe80::2 2001:db8:9::1
ip -6 route get 2001:db8:9::1
ip -6 neigh show dev v0 | sort
ip -6 route show cache
# Without the option of the link-layer address.
redirect fe80::1 2001:db8::1 fe80::4 2001:db8:9::4
ip -6 route get 2001:db8:9::4
ip -6 route flush cache
ip -6 neigh show dev v0 | sort
# The destination is on the link.
redirect fe80::1 2001:db8::1 2001:db8:9::5 2001:db8:9::5 mac=020000000005
ip -6 route get 2001:db8:9::5
ip -6 neigh show dev v0 | sort
# Targets and destinations that are refused.
redirect fe80::1 2001:db8::1 2001:db8::2 2001:db8:9::6 mac=020000000006
ip -6 route get 2001:db8:9::6
redirect fe80::1 2001:db8::1 fe80::2 ff05::6 mac=020000000006
ip -6 route get ff05::6
redirect fe80::1 2001:db8::1 fe80::2 2001:db8::7 mac=020000000006
ip -6 route get 2001:db8::7
# Without the packet that it is about; about one without a socket, and about one with a socket.
redirect fe80::1 2001:db8::1 fe80::2 2001:db8:9::8 header=0
ip -6 route get 2001:db8:9::8
for proto in 6 17 50; do redirect fe80::1 2001:db8::1 fe80::2 2001:db8:9::9 proto=$proto; ip -6 route get 2001:db8:9::9; done
redirect fe80::1 2001:db8::1 fe80::2 2001:db8:9::9 udp=1
ip -6 route get 2001:db8:9::9
ip -6 route get 2001:db8:9::9 oif v0
ip -6 route get 2001:db8:9::9 from 2001:db8::1
# Deleted and flushed.
ip -6 route flush cache
redirect fe80::1 2001:db8::1 fe80::2 2001:db8:9::9
ip -6 route del 2001:db8:9::9
ip -6 route get 2001:db8:9::9
ip -6 route show cache
ip -6 route flush cache
ip -6 route show cache
ip -6 route get 2001:db8:9::9
# Settings.
sysctl -qw net.ipv6.conf.v0.accept_redirects=0
redirect fe80::1 2001:db8::1 fe80::2 2001:db8:9::10
ip -6 route get 2001:db8:9::10
sysctl -qw net.ipv6.conf.v0.accept_redirects=1 net.ipv6.conf.v0.forwarding=1
redirect fe80::1 2001:db8::1 fe80::2 2001:db8:9::10
ip -6 route get 2001:db8:9::10
sysctl -qw net.ipv6.conf.v0.forwarding=0
redirect fe80::1 2001:db8::1 fe80::2 2001:db8:9::10
ip -6 route get 2001:db8:9::10
# They belong to the route.
ip -6 route add 2001:db8:9::/64 via fe80::4 dev v0
ip -6 route get 2001:db8:9::10
ip -6 route del 2001:db8:9::/64
ip -6 route get 2001:db8:9::10
ip -6 route del default
ip -6 route show cache
ip -6 route add default via fe80::1 dev v0
ip -6 route get 2001:db8:9::10
redirect fe80::1 2001:db8::1 fe80::2 2001:db8:9::11
sysctl -w net.ipv6.route.flush=1
ip -6 route show cache
ip nexthop add id 1 via fe80::1 dev v0
ip -6 route replace default nhid 1
redirect fe80::1 2001:db8::1 fe80::2 2001:db8:9::12
ip -6 route get 2001:db8:9::12
