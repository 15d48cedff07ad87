ip maddr show
ip link add d0 address 02:00:00:00:00:01 type dummy
ip maddr show dev d0
ip link set d0 up
ip maddr show dev d0
ip -4 maddr show
ip -6 maddr show
ip -j maddr show dev d0
ip -s maddr show dev d0
ip -o maddr show dev d0
ip -0 maddr show dev d0
ip -f link maddr show dev d0
ip addr add 10.0.0.1/24 dev d0
ip addr add 2001:db8::1/64 dev d0
ip maddr show dev d0
ip addr add 2001:db8:1::1/64 dev d0 nodad
ip addr add 2001:db8:2::2/64 dev d0 nodad
ip maddr show dev d0
ip addr del 2001:db8:1::1/64 dev d0
ip maddr show dev d0
ip addr del 2001:db8:2::2/64 dev d0
ip maddr show dev d0
ip maddr add 33:33:00:00:00:05 dev d0
ip maddr add 33:33:00:00:00:05 dev d0
ip maddr show dev d0
ip maddr add 01:00:5e:00:00:09 dev d0
ip maddr show dev d0
ip maddr del 33:33:00:00:00:05 dev d0
ip maddr del 33:33:00:00:00:05 dev d0
ip maddr del 33:33:00:00:00:06 dev d0
ip maddr add 02:00:00:00:00:05 dev d0
ip maddr add 224.0.0.5 dev d0
ip maddr add 33:33:00:00:00:05 dev nosuch
ip maddr add 33:33:00:00:00:05
ip maddr add dev d0
ip maddr show dev nosuch
ip maddr bogus
ip addr show dev d0
ip link set d0 down
ip maddr show dev d0
ip link set d0 up
ip maddr show dev d0
sysctl -w net.ipv6.conf.d0.forwarding=1
ip maddr show dev d0
sysctl -w net.ipv6.conf.all.forwarding=1
ip maddr show
sysctl -w net.ipv6.conf.all.forwarding=0
ip maddr show dev d0
sysctl -w net.ipv6.conf.d0.disable_ipv6=1
ip maddr show dev d0
sysctl -w net.ipv6.conf.d0.disable_ipv6=0
ip maddr show dev d0
ip link set d0 multicast off
ip maddr show dev d0
ip link set d0 multicast on
ip maddr show dev d0
ip link set d0 mtu 1000
ip maddr show dev d0
ip link set d0 mtu 60
ip maddr show dev d0
ip link set d0 mtu 1500
ip maddr show dev d0
ip link add v0 address 02:00:00:00:00:10 type veth peer name v1 address 02:00:00:00:00:11
ip link set v0 up
ip maddr show dev v0
ip maddr show dev v1
ip link set v1 up
ip maddr show dev v0
pass 3
ip link add link v0 name v0.5 type vlan id 5
ip link set v0.5 up
ip maddr show dev v0
ip maddr show dev v0.5
ip link del v0
ip maddr show
ip link add i0 address 02:00:00:00:00:21 type ifb
ip link set i0 up
ip maddr show dev i0
ip link set lo up
ip maddr show dev lo
ip addr save >$tmp/save
ip addr showdump <$tmp/save
ip -4 addr save >$tmp/save4
ip addr showdump <$tmp/save4
ip addr flush dev lo
ip addr restore <$tmp/save4
ip addr show dev lo
ip addr save dev d0 >$tmp/save
ip addr showdump <$tmp/save
ip addr restore <$tmp/save
# Addresses of users: one reference of all users together, beside those of protocols.
ip link add e0 address 02:00:00:00:01:01 type veth peer name e1 address 02:00:00:00:01:02
ip maddr add 33:33:00:00:00:01 dev e0
ip maddr show dev e0
ip maddr del 33:33:00:00:00:01 dev e0
ip maddr del 33:33:00:00:00:01 dev e0
ip maddr show dev e0
ip maddr add 33:33:00:00:00:77 dev e0
ip link set e0 up
ip link set e1 up
pass 3
cat /proc/net/dev_mcast
cat /proc/net/igmp
ip maddr add 01:00:5e:00:00:01 dev e0
ip link set e0 down
ip maddr show dev e0
ip link set e0 up
pass 3
ip maddr show dev e0
ip maddr del 01:00:5e:00:00:01 dev e0
ip maddr show dev e0
ip maddr add 33:33:00:00:00:05 dev lo
ip maddr del 33:33:00:00:00:05 dev lo
ip maddr add 33:33:00:00:00:05 dev i0
ip maddr del 33:33:00:00:00:05 dev i0
ip maddr add 33:33:00:00:00:05:06 dev e0
ip maddr add 33:33:00 dev e0
ip maddr add zz dev e0
ip maddr del 33:33:00:00:00:05 dev nosuch
bridge fdb add 33:33:00:00:00:88 dev e0 self
bridge fdb add 02:00:00:00:00:99 dev e0 self
ip maddr add 33:33:00:00:00:88 dev e0
ip maddr show dev e0
bridge fdb show dev e0
bridge fdb del 33:33:00:00:00:88 dev e0 self
bridge fdb del 33:33:00:00:00:88 dev e0 self
ip maddr add 33:33:00:00:00:99 dev e0
bridge fdb add 33:33:00:00:00:99 dev e0 self
bridge fdb append 33:33:00:00:00:99 dev e0 self
ip maddr show dev e0
bridge fdb del 33:33:00:00:00:99 dev e0 self
ip maddr show dev e0
# A router is in the groups of all routers, unless its device has no multicast.
sysctl -w net.ipv6.conf.e0.forwarding=1
ip maddr show dev e0
cat /proc/net/igmp6 | cut -c6-
ip addr add 2001:db8:5::1/64 dev e0 nodad
ip addr add 2001:db8:5::2/64 dev e0 nodad
ip addr add 2001:db8:6::1/64 dev e0 nodad
pass 1
ip maddr show dev e0
ip addr del 2001:db8:5::1/64 dev e0
ip maddr show dev e0
ip addr del 2001:db8:5::2/64 dev e0
ip maddr show dev e0
ip link set e0 multicast off
ip maddr show dev e0
sysctl -w net.ipv6.conf.e0.forwarding=0
ip maddr show dev e0
ip link set e0 multicast on
sysctl -w net.ipv6.conf.e0.forwarding=1
ip maddr show dev e0
sysctl -w net.ipv6.conf.e0.forwarding=0
ip maddr show dev e0
sysctl -w net.ipv6.conf.e0.disable_ipv6=1
ip maddr show dev e0
ip -6 addr add 2001:db8:7::1/64 dev e0
ip maddr show dev e0
sysctl -w net.ipv6.conf.e0.disable_ipv6=0
pass 3
ip maddr show dev e0
ip link set e0 mtu 1000
ip maddr show dev e0
ip link set e0 mtu 1500
pass 3
ip maddr show dev e0
sysctl -w net.ipv6.conf.default.forwarding=1
ip link add d1 address 02:00:00:00:01:03 type dummy
ip link add e2 address 02:00:00:00:01:04 type veth peer name e3 address 02:00:00:00:01:05
ip maddr show dev d1
ip maddr show dev e2
sysctl -w net.ipv6.conf.e2.forwarding=0
ip maddr show dev e2
sysctl -w net.ipv6.conf.default.forwarding=0
# Addresses kept while the device is down are in no group.
sysctl -w net.ipv6.conf.e0.keep_addr_on_down=1
ip addr add 2001:db8:8::8:1/64 dev e0 nodad
pass 1
ip link set e0 down
ip maddr show dev e0
ip link set e0 up
pass 3
ip maddr show dev e0
# VLAN devices pass their lists on while they are up.
ip link add link e0 name e0.5 address 02:00:00:00:01:06 type vlan id 5
ip maddr show dev e0
ip maddr show dev e0.5
ip link set e0.5 up
pass 3
ip link add link e0.5 name e0.5.6 type vlan id 6
ip maddr add 33:33:00:00:00:66 dev e0.5.6
ip link set e0.5.6 up
pass 3
ip link show dev e0.5.6
ip maddr show dev e0
ip maddr show dev e0.5
ip maddr show dev e0.5.6
bridge fdb show dev e0
bridge fdb add 02:00:00:00:00:77 dev e0.5.6 self
bridge fdb show dev e0.5
bridge fdb show dev e0
ip link set e0.5 address 02:00:00:00:01:07
ip -br link show type vlan
bridge fdb show dev e0
ip link set e0.5 address 02:00:00:00:01:01
bridge fdb show dev e0
ip link set e0 address 02:00:00:00:01:08
ip -br link show type vlan
bridge fdb show dev e0
ip maddr del 33:33:00:00:00:66 dev e0.5.6
ip maddr show dev e0.5.6
ip maddr show dev e0
ip link set e0.5.6 down
ip maddr show dev e0.5
ip maddr show dev e0
ip link set e0.5.6 up
ip link set e0 down
ip maddr show dev e0
ip maddr show dev e0.5
ip link set e0 up
pass 3
ip maddr show dev e0
ip netns add n1
ip link set e0.5 netns n1
ip netns exec n1 ip maddr show dev e0.5
ip maddr show dev e0
ip link set e0 netns n1
ip netns exec n1 ip maddr show dev e0
ip netns exec n1 ip link set e0 up
ip netns exec n1 ip maddr show dev e0
ip netns exec n1 ip link del e0.5
ip netns exec n1 ip maddr show dev e0
