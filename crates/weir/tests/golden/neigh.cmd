ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
ip link set v0 up
ip link set v1 up
ip addr add 10.0.0.1/24 dev v0
ip neigh | sort
ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:12 dev v0
ip neigh add 10.0.0.3 lladdr 02:00:00:00:00:13 dev v0 nud stale
ip neigh add 10.0.0.4 lladdr 02:00:00:00:00:14 dev v0 nud noarp
ip neigh add 10.0.0.5 dev v0 nud none
ip neigh add 10.0.0.6 lladdr 02:00:00:00:00:16 dev v0 nud reachable
ip neigh add 10.0.0.7 lladdr 02:00:00:00:00:17 dev v0 router
ip neigh add 10.0.0.8 lladdr 02:00:00:00:00:18 dev v0 extern_learn
ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:19 dev v0 protocol static
ip neigh add 2001:db8::2 lladdr 02:00:00:00:00:12 dev v0
ip neigh add 2001:db8::3 lladdr 02:00:00:00:00:13 dev v0 router nud stale
ip neigh | sort
ip -4 neigh | sort
ip -s neigh show 10.0.0.2
ip -s neigh show 10.0.0.3
ip -j -p neigh show 10.0.0.7
ip -j neigh show 10.0.0.8
ip -6 neigh | sort
ip neigh show nud permanent | sort
ip -4 neigh show nud all | sort
ip neigh show dev v0 nud stale | sort
ip neigh show 10.0.0.2 | sort
ip neigh show to 10.0.0.0/30 | sort
ip neigh get 10.0.0.2 dev v0
ip neigh get 10.0.0.99 dev v0
ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:22 dev v0
ip neigh change 10.0.0.2 lladdr 02:00:00:00:00:22 dev v0
ip neigh change 10.0.0.98 lladdr 02:00:00:00:00:22 dev v0
ip neigh replace 10.0.0.97 lladdr 02:00:00:00:00:22 dev v0 nud stale
ip neigh add 10.0.0.20 lladdr 02:00:00:00 dev v0
ip neigh add 10.0.0.20 lladdr 02:00:00:00:00:20
ip neigh add 10.0.0.20 lladdr 02:00:00:00:00:20 dev nosuch
ip neigh add 10.0.0.20 dev v0
ip neigh del 10.0.0.2 dev v0
ip neigh del 10.0.0.2 dev v0
ip neigh del 10.0.0.96 dev v0
ip neigh show dev v0 | sort
ip neigh flush dev v0
ip neigh | sort
ip neigh flush dev v0 nud permanent
ip neigh | sort
ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:12 dev v0
ip link set v0 down
ip neigh | sort
ip link del v0
ip neigh | sort
# The loopback device has a single IPv4 neighbour, 0.0.0.0.
ip neigh add 10.9.9.9 lladdr 02:00:00:00:00:01 dev lo
ip neigh add 10.9.9.8 lladdr 02:00:00:00:00:02 dev lo
ip neigh add 2001:db8::9 lladdr 02:00:00:00:00:02 dev lo
ip neigh show dev lo
ip -6 neigh show dev lo
ip neigh del 10.9.9.9 dev lo
ip neigh del 0.0.0.0 dev lo
