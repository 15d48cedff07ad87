# A device accepts the addresses of the groups that IP joins.
ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
bridge fdb show dev v0
ip link set v0 up
ip link set v1 up
pass 3
bridge fdb show dev v0
ip addr add 10.0.0.1/24 dev v0
ip addr add fd00::1/64 dev v0 nodad
ip addr add fd00::2:1/64 dev v0 nodad
pass 1
ip addr add fd00::3:1/64 dev v0 nodad
bridge fdb show dev v0
bridge -j fdb show dev v0
bridge fdb add 33:33:00:00:00:77 dev v0 self
ip addr add fd00::4/64 dev v0 nodad
pass 1
bridge fdb show dev v0
ip addr del fd00::2:1/64 dev v0
bridge fdb show dev v0
ip addr del fd00::1/64 dev v0
bridge fdb show dev v0
ip addr del fd00::3:1/64 dev v0
bridge fdb show dev v0
bridge fdb add 33:33:00:00:00:01 dev v0 self
bridge fdb show dev v0
sysctl -w net.ipv6.conf.v0.forwarding=1
pass 1
bridge fdb show dev v0
sysctl -w net.ipv6.conf.v0.forwarding=0
pass 1
bridge fdb show dev v0
sysctl -w net.ipv6.conf.v0.disable_ipv6=1
bridge fdb show dev v0
sysctl -w net.ipv6.conf.v0.disable_ipv6=0
pass 3
bridge fdb show dev v0
ip link set v0 mtu 1000
bridge fdb show dev v0
ip link set v0 mtu 60
bridge fdb show dev v0
ip link set v0 mtu 1500
pass 3
bridge fdb show dev v0
ip link set v0 down
bridge fdb show dev v0
ip link set v0 up
pass 3
bridge fdb show dev v0
# A VLAN's addresses are also its lower device's, while the VLAN is up.
ip link add link v0 name v0.5 address 02:00:00:00:00:05 type vlan id 5
bridge fdb show dev v0
bridge fdb show dev v0.5
ip link set v0.5 up
pass 3
bridge fdb show dev v0.5
bridge fdb show dev v0
ip link add link v0 name v0.6 type vlan id 6
ip link del v0.5
bridge fdb show dev v0
ip link del v0.6
bridge fdb show dev v0
# A device without neighbour discovery joins no solicited-node group.
ip link add d0 address 02:00:00:00:00:07 type dummy
ip link set d0 up
pass 3
bridge fdb show dev d0
ip link set lo up
bridge fdb show dev lo
# A new device with IPv6 disabled.
sysctl -w net.ipv6.conf.default.disable_ipv6=1
ip link add d1 address 02:00:00:00:00:08 type dummy
ip link set d1 up
pass 3
bridge fdb show dev d1
ip link set d1 down
ip link set d1 up
bridge fdb show dev d1
ip netns add n1
ip link set v0 netns n1
ip netns exec n1 bridge fdb show dev v0
