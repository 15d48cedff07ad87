# Neighbours that expire at once, and neighbours that are never probed.
ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
ip link set v0 up
ip link set v1 up
ip addr add 10.0.0.1/24 dev v0
settle() { [ -n "${WEIR-}" ] || sleep 0.2; }
ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:12 dev v0 nud delay
ip neigh add 10.0.0.3 lladdr 02:00:00:00:00:13 dev v0 nud probe
ip neigh add 10.0.0.4 lladdr 02:00:00:00:00:14 dev v0 nud reachable
ip neigh change 10.0.0.4 lladdr 02:00:00:00:00:14 dev v0 nud delay
ip neigh add 10.0.0.5 lladdr 02:00:00:00:00:15 dev v0 nud reachable
ip neigh change 10.0.0.5 lladdr 02:00:00:00:00:16 dev v0 nud delay
ip neigh add 10.0.0.6 lladdr 02:00:00:00:00:16 dev v0 nud stale
ip neigh change 10.0.0.6 dev v0 nud delay
settle
ip neigh show dev v0 | grep 10.0.0 | sort
pass 6
ip neigh show dev v0 | grep 10.0.0 | sort
ip link add d0 address 02:00:00:00:00:a1 type dummy
ip link set d0 up
ip link set lo up
ip link set v0 broadcast 02:ff:ff:ff:ff:ff
ip neigh add 0.0.0.0 dev v0 nud stale
ip neigh add 0.0.0.0 dev d0 nud stale
ip neigh replace 0.0.0.0 dev v0 nud noarp
ip neigh add 0.0.0.0 dev lo nud stale
ip neigh add 0.0.0.9 dev v0 nud stale
ip neigh add 10.0.0.255 dev v0 nud stale
ip neigh add 10.0.0.254 dev v0 nud stale
ip neigh add 255.255.255.255 dev d0 nud stale
ip neigh show nud all | grep -v '^ff02::' | sort
