# Neighbours by flags: used, externally learned, routers. Nobody answers.
ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
ip link set v0 up
ip link set v1 up
ip addr add 10.0.0.1/24 dev v0
ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:12 dev v0
ip neigh add 10.0.0.3 lladdr 02:00:00:00:00:13 dev v0 nud stale
ip neigh add 10.0.0.4 lladdr 02:00:00:00:00:14 dev v0 nud noarp
ip neigh add 10.0.0.5 dev v0 nud none
ip neigh change 10.0.0.2 dev v0 use
ip neigh change 10.0.0.3 dev v0 use
ip neigh change 10.0.0.4 dev v0 use
ip neigh change 10.0.0.5 dev v0 use
ip neigh change 10.0.0.6 dev v0 use
ip neigh replace 10.0.0.7 dev v0 use
ip neigh add 10.0.0.8 dev v0 use
ip neigh add 10.0.0.8 dev v0 use
ip neigh replace 10.0.0.9 dev v0 lladdr 02:00:00:00:00:19 use
ip neigh replace 10.0.0.10 dev v0 use extern_learn
settle() { [ -n "${WEIR-}" ] || sleep 0.2; }
settle
ip neigh show dev v0 nud all | grep -v ^ff02 | sort
pass 12
ip neigh show dev v0 nud all | grep -v ^ff02 | sort
ip neigh add 10.0.1.1 lladdr 02:00:00:00:00:12 dev v0 extern_learn
ip neigh add 10.0.1.2 lladdr 02:00:00:00:00:12 dev v0 nud stale extern_learn
ip neigh add 10.0.1.3 lladdr 02:00:00:00:00:12 dev v0 nud reachable router
ip neigh show dev v0 | grep 10.0.1 | sort
ip neigh replace 10.0.1.1 lladdr 02:00:00:00:00:13 dev v0
ip neigh replace 10.0.1.2 lladdr 02:00:00:00:00:13 dev v0 nud stale
ip neigh replace 10.0.1.3 lladdr 02:00:00:00:00:13 dev v0 nud stale
ip neigh show dev v0 | grep 10.0.1 | sort
ip neigh change 10.0.1.1 lladdr 02:00:00:00:00:14 dev v0 extern_learn
ip neigh change 10.0.1.3 dev v0 nud stale router
ip neigh change 10.0.1.3 lladdr 02:00:00:00:00:14 dev v0 nud permanent
ip neigh show dev v0 | grep 10.0.1 | sort
ip neigh change 10.0.1.1 dev v0 use
ip neigh replace 10.0.1.3 dev v0 use
settle
ip neigh show dev v0 | grep 10.0.1 | sort
ip neigh replace 10.0.1.3 dev v0 use router
settle
ip neigh show dev v0 | grep 10.0.1 | sort
ip link set v0 down
ip neigh show dev v0 nud all | grep -v ^ff02 | sort
ip link set v0 up
ip neigh add fd00::2 lladdr 02:00:00:00:00:12 dev v0 nud stale extern_learn router
ip neigh replace fd00::2 dev v0 use
settle
ip neigh show dev v0 | grep fd00
ip neigh replace fd00::2 lladdr 02:00:00:00:00:12 dev v0
ip neigh show dev v0 | grep fd00
ip neigh add 10.0.3.1 lladdr 02:00:00:00:00:12 dev v0 nud permanent extern_learn
ip link set v1 down
settle
ip neigh show dev v0 nud all | grep -v ^ff02 | sort
ip neigh get 10.0.3.1 dev v0
ip neigh get 10.0.3.1 dev v0 proxy
ip neigh flush dev v0 nud permanent
ip neigh show dev v0
ip neigh flush all
ip neigh add 10.0.4.1 dev v0 nud incomplete
ip neigh add 10.0.4.2 dev v0 nud failed
ip neigh add 10.0.4.3 dev v0 nud reachable
ip neigh add 10.0.4.4 lladdr 02:00:00:00:00:14 dev v0 nud probe
ip neigh show dev v0 nud all | grep -v ^ff02 | sort
