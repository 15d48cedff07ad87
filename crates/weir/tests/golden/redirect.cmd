# Redirects received over IPv4: the gateway of one destination changes.
redirect() { python3 $here/frames.py redirect v1 "$@"; [ -n "${WEIR-}" ] && pass 1 || sleep 0.1; }
ip link add v0 address 02:00:00:00:00:10 type veth peer name v1 address 02:00:00:00:00:11
sysctl -qw net.ipv6.conf.v0.disable_ipv6=1 net.ipv6.conf.v1.disable_ipv6=1
ip link set v1 up
ip link set v0 up
ip addr add 10.0.0.1/24 dev v0
ip route add default via 10.0.0.254
for host in 10.0.0.251 10.0.0.252 10.0.0.253 10.0.0.254 172.16.0.1; do ip neigh add $host lladdr 02:00:00:00:00:09 dev v0; done
ip route get 192.0.2.1
# Not from the gateway.
redirect 10.0.0.9 10.0.0.1 10.0.0.253 192.0.2.1
ip route get 192.0.2.1
redirect 10.0.0.254 10.0.0.1 10.0.0.253 192.0.2.1
ip route get 192.0.2.1
ip -j route get 192.0.2.1
ip route get fibmatch 192.0.2.1
ip route get 192.0.2.1 from 10.0.0.1
ip route get 192.0.2.1 oif v0
ip route get 192.0.2.2
ip route show
ip route show cache
ip -d route show cache
ip route show cache dev v0
# From the gateway before, and from the new one.
redirect 10.0.0.254 10.0.0.1 10.0.0.252 192.0.2.1
ip route get 192.0.2.1
redirect 10.0.0.253 10.0.0.1 10.0.0.252 192.0.2.1
ip route get 192.0.2.1
# Back to the gateway of the route.
redirect 10.0.0.252 10.0.0.1 10.0.0.254 192.0.2.1
ip route get 192.0.2.1
# The codes.
for code in 0 2 3 4; do redirect 10.0.0.254 10.0.0.1 10.0.0.253 192.0.2.1$code code=$code; ip route get 192.0.2.1$code; done
# Gateways that are refused.
for gateway in 10.0.0.254 10.0.0.1 127.0.0.1 224.0.0.1 255.255.255.255 10.0.0.255 0.0.0.1; do redirect 10.0.0.254 10.0.0.1 $gateway 192.0.2.20; ip route get 192.0.2.20; done
# One that is elsewhere counts on a shared medium.
redirect 10.0.0.254 10.0.0.1 172.16.0.1 192.0.2.21
ip route get 192.0.2.21
# An unknown neighbour is asked only.
redirect 10.0.0.254 10.0.0.1 10.0.0.77 192.0.2.22
ip route get 192.0.2.22
ip neigh add 10.0.0.78 lladdr 02:00:00:00:00:09 nud stale dev v0
redirect 10.0.0.254 10.0.0.1 10.0.0.78 192.0.2.22
ip route get 192.0.2.22
# A destination on the link has no gateway.
redirect 10.0.0.254 10.0.0.1 10.0.0.253 10.0.0.40
ip route get 10.0.0.40
# What the redirect is about: no socket, and a socket.
for proto in 6 17 50; do redirect 10.0.0.254 10.0.0.1 10.0.0.253 192.0.2.30 proto=$proto; ip route get 192.0.2.30; done
redirect 10.0.0.254 10.0.0.1 10.0.0.253 192.0.2.30 udp=1
ip route get 192.0.2.30
# Flushed.
ip route show cache | sort
ip route flush cache
ip route show cache
ip route get 192.0.2.30
ip route get 192.0.2.1
# Settings.
sysctl -qw net.ipv4.conf.v0.accept_redirects=0
redirect 10.0.0.254 10.0.0.1 10.0.0.253 192.0.2.40
ip route get 192.0.2.40
sysctl -qw net.ipv4.conf.all.accept_redirects=0
redirect 10.0.0.254 10.0.0.1 10.0.0.253 192.0.2.41
ip route get 192.0.2.41
sysctl -qw net.ipv4.conf.v0.accept_redirects=1 net.ipv4.conf.v0.forwarding=1
redirect 10.0.0.254 10.0.0.1 10.0.0.253 192.0.2.42
ip route get 192.0.2.42
sysctl -qw net.ipv4.conf.all.accept_redirects=1
redirect 10.0.0.254 10.0.0.1 10.0.0.253 192.0.2.43
ip route get 192.0.2.43
ip route get 192.0.2.43 from 10.0.0.7 iif v0
sysctl -qw net.ipv4.conf.v0.forwarding=0
sysctl -qw net.ipv4.conf.v0.shared_media=0
redirect 10.0.0.254 10.0.0.1 172.16.0.1 192.0.2.44
ip route get 192.0.2.44
sysctl -qw net.ipv4.conf.all.shared_media=0
redirect 10.0.0.254 10.0.0.1 172.16.0.1 192.0.2.45
ip route get 192.0.2.45
redirect 10.0.0.254 10.0.0.1 10.0.0.253 192.0.2.46
ip route get 192.0.2.46
ip route add 198.51.100.0/24 via 10.0.0.253
redirect 10.0.0.254 10.0.0.1 10.0.0.253 192.0.2.46
ip route get 192.0.2.46
sysctl -qw net.ipv4.conf.v0.secure_redirects=0 net.ipv4.conf.all.secure_redirects=0
redirect 10.0.0.254 10.0.0.1 10.0.0.252 192.0.2.47
ip route get 192.0.2.47
# They belong to the route.
ip route replace default via 10.0.0.251
ip route get 192.0.2.47
ip route show cache
redirect 10.0.0.251 10.0.0.1 10.0.0.252 192.0.2.48
ip route add 192.0.2.0/24 via 10.0.0.254
ip route get 192.0.2.48
ip route del 192.0.2.0/24
ip route get 192.0.2.48
# Hops of a multipath route, and nexthop objects.
ip route replace default nexthop via 10.0.0.254 weight 1 nexthop via 10.0.0.254 weight 1
redirect 10.0.0.254 10.0.0.1 10.0.0.252 192.0.2.49
ip route get 192.0.2.49
ip nexthop add id 1 via 10.0.0.254 dev v0
ip route replace default nhid 1
redirect 10.0.0.254 10.0.0.1 10.0.0.252 192.0.2.50
ip route get 192.0.2.50
ip route show cache
