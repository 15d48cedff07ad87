# Forwarding entries of devices without a table of their own: the addresses they accept.
ip link add d0 address 02:00:00:00:00:01 type dummy
ip link add v0 address 02:00:00:00:00:02 type veth peer name v1 address 02:00:00:00:00:03
bridge fdb add 02:00:00:00:00:10 dev d0 self
bridge fdb add 02:00:00:00:00:10 dev d0 self
bridge fdb add 02:00:00:00:00:11 dev d0
bridge fdb add 02:00:00:00:00:12 dev d0 self permanent
bridge fdb add 02:00:00:00:00:13 dev d0 self static
bridge fdb add 02:00:00:00:00:14 dev d0 self dynamic
bridge fdb add 02:00:00:00:00:15 dev d0 master
bridge fdb add 02:00:00:00:00:16 dev d0 self master
bridge fdb add 01:00:5e:00:00:05 dev d0 self permanent
bridge fdb add 33:33:00:00:00:77 dev d0 self
bridge fdb add ff:ff:ff:ff:ff:ff dev d0 self
bridge fdb add 00:00:00:00:00:00 dev d0 self
bridge fdb add 02:00:00:00:00:01 dev d0 self
bridge fdb add 02:00:00:00:00:17 dev d0 self vlan 7
bridge fdb add 02:00:00:00:00:18 dev d0 self dst 10.0.0.1
bridge fdb add 02:00:00:00:00:18 dev d0 self vni 7
bridge fdb append 02:00:00:00:00:19 dev d0 self
bridge fdb replace 02:00:00:00:00:10 dev d0 self
bridge fdb replace 02:00:00:00:00:20 dev d0 self
bridge fdb add 02:00:00:00:00:21 dev lo self
bridge fdb show dev d0
bridge -s fdb show dev d0
bridge -d fdb show dev d0
bridge fdb get 02:00:00:00:00:10 dev d0 self
bridge fdb get 02:00:00:00:00:10 dev d0
bridge fdb get 02:00:00:00:00:10 br d0
bridge fdb del 02:00:00:00:00:10 dev d0 self
bridge fdb del 02:00:00:00:00:10 dev d0 self
bridge fdb del 02:00:00:00:00:99 dev d0 self
bridge fdb del 02:00:00:00:00:11 dev d0
bridge fdb del 02:00:00:00:00:11 dev d0 master
bridge fdb del 02:00:00:00:00:12 dev d0 self static
bridge fdb del 01:00:5e:00:00:05 dev d0 self
bridge fdb del 00:00:00:00:00:00 dev d0 self
bridge fdb del 02:00:00:00:00:13 dev d0 self vlan 7
bridge fdb del 02:00:00:00:00:21 dev lo self
bridge fdb show dev d0
bridge fdb add 02:00:00:00:00:10 dev v0 self
bridge fdb show dev v0
bridge fdb show brport d0
bridge fdb flush dev d0
bridge fdb flush dev d0 self
ip link add ifb0 address 02:00:00:00:00:06 type ifb
bridge fdb add 02:00:00:00:00:10 dev ifb0 self
bridge fdb show dev ifb0
ip link add link v0 name v0.5 type vlan id 5
bridge fdb add 02:00:00:00:00:30 dev v0.5 self
bridge fdb show dev v0.5
ip link set v0.5 up
ip link set v0 up
bridge fdb show dev v0
ip link set v0 down
bridge fdb show dev v0
ip link add vx0 type vxlan id 7 dstport 4789 remote 10.0.0.1
bridge fdb show dev vx0
bridge fdb add 02:00:00:00:00:10 dev vx0
bridge fdb add 02:00:00:00:00:10 dev vx0 dst 10.0.0.2
bridge fdb show dev vx0
bridge fdb show
ip link del v0
ip link add d5 type dummy
bridge fdb flush dev lo
bridge fdb get 02:00:00:00:00:10 br d5 dev d5 self
ip neigh flush dev d5
