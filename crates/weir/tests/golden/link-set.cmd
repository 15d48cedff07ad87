# The effect of a new broadcast address on neighbours, and the minimum of gso_max_size.
ip link add d0 type dummy
ip link set d0 up
ip neigh add 10.0.0.1 lladdr 02:00:00:00:00:01 dev d0
ip neigh add fd00::1 lladdr 02:00:00:00:00:01 dev d0
ip neigh show dev d0
ip link set d0 broadcast ff:ff:ff:ff:ff:ff
ip neigh show dev d0
ip link set d0 gso_max_size 256
ip link set d0 gso_max_size 257
ip link add d1 gso_max_size 256 type dummy
ip link add d1 gso_max_size 65537 type dummy
