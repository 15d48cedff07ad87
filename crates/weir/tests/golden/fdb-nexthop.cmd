# Entries of a vxlan device by nexthop objects: groups of the remote ends of tunnels.
ip link set lo up
ip nexthop add id 1 via 192.0.2.2 fdb
ip nexthop add id 2 via 192.0.2.3 fdb
ip nexthop add id 3 via 2001:db8::3 fdb
ip nexthop add id 10 group 1/2 fdb
ip nexthop add id 11 group 1 fdb
ip nexthop add id 12 group 3 fdb
ip nexthop add id 13 group 1/2 fdb type resilient buckets 8
ip nexthop add id 20 blackhole
ip nexthop add id 21 group 20
ip link add vx0 address 02:00:00:00:00:01 type vxlan id 5 dstport 4789 local 192.0.2.1
ip link add vx6 address 02:00:00:00:00:02 type vxlan id 6 dstport 4789 local 2001:db8::1
ip link add vxe address 02:00:00:00:00:03 type vxlan external dstport 4790
stdbuf -oL bridge monitor fdb >$tmp/fdb & sleep 1
bridge fdb add 02:00:00:00:01:01 dev vx0 nhid 10
bridge fdb add 02:00:00:00:01:01 dev vx0 nhid 10
bridge fdb add 02:00:00:00:01:02 dev vx0 nhid 13 static
bridge fdb add 02:00:00:00:01:03 dev vx0 nhid 99
bridge fdb add 02:00:00:00:01:03 dev vx0 nhid 0
bridge fdb add 02:00:00:00:01:03 dev vx0 nhid 1
bridge fdb add 02:00:00:00:01:03 dev vx0 nhid 20
bridge fdb add 02:00:00:00:01:03 dev vx0 nhid 21
bridge fdb add 02:00:00:00:01:03 dev vx0 nhid 12
bridge fdb add 02:00:00:00:01:03 dev vx6 nhid 10
bridge fdb add 02:00:00:00:01:03 dev vx6 nhid 12
bridge fdb add 02:00:00:00:01:03 dev vx0 nhid 10 dst 192.0.2.9
bridge fdb add 02:00:00:00:01:03 dev vx0 nhid 10 port 4000
bridge fdb add 02:00:00:00:01:03 dev vx0 nhid 10 vni 7
bridge fdb add 02:00:00:00:01:03 dev vx0 nhid 10 via vx6
bridge fdb add 02:00:00:00:01:04 dev vxe nhid 10 src_vni 100
bridge fdb add 02:00:00:00:01:04 dev vxe nhid 11 src_vni 101
bridge fdb show dev vx0 | sort
bridge -d fdb show dev vx0 | sort
bridge -j fdb show dev vx6
bridge fdb show dev vx6 | sort
bridge fdb show dev vxe | sort
bridge fdb get 02:00:00:00:01:01 dev vx0 self
bridge fdb replace 02:00:00:00:01:01 dev vx0 nhid 11
bridge fdb replace 02:00:00:00:01:01 dev vx0 nhid 12
bridge fdb replace 02:00:00:00:01:01 dev vx0 nhid 99
bridge fdb show dev vx0 | sort
bridge fdb replace 02:00:00:00:01:01 dev vx0 dst 192.0.2.7
bridge fdb show dev vx0 | sort
bridge fdb append 02:00:00:00:01:01 dev vx0 nhid 10
bridge fdb add 02:00:00:00:01:05 dev vx0 dst 192.0.2.7
bridge fdb replace 02:00:00:00:01:05 dev vx0 nhid 10
bridge fdb append 02:00:00:00:01:05 dev vx0 nhid 10
bridge fdb add 00:00:00:00:00:00 dev vx0 nhid 10
bridge fdb append 00:00:00:00:00:00 dev vx0 nhid 11
bridge fdb replace 00:00:00:00:00:00 dev vx0 nhid 11
bridge fdb append 00:00:00:00:00:00 dev vx0 dst 192.0.2.8
bridge fdb append 01:00:5e:00:00:05 dev vx0 nhid 10
bridge fdb append 01:00:5e:00:00:06 dev vx0 nhid 10
bridge fdb show dev vx0 | sort
bridge fdb del 02:00:00:00:01:01 dev vx0 nhid 10
bridge fdb del 02:00:00:00:01:02 dev vx0
bridge fdb del 02:00:00:00:01:03 dev vx0 nhid 10 dst 192.0.2.2
bridge fdb del 02:00:00:00:01:03 dev vx0
bridge fdb del 01:00:5e:00:00:05 dev vx0 dst 192.0.2.2
bridge fdb show dev vx0 | sort
bridge fdb add 02:00:00:00:01:06 dev vx0 nhid 11
bridge fdb add 02:00:00:00:01:07 dev vx0 nhid 11
ip nexthop replace id 11 group 2 fdb
ip nexthop replace id 11 group 2/1 fdb
ip nexthop replace id 11 group 3 fdb
ip nexthop replace id 1 via 2001:db8::9 fdb
ip nexthop replace id 11 group 20
ip nexthop show fdb
bridge fdb show dev vx0 | sort
ip nexthop del id 11
bridge fdb show dev vx0 | sort
bridge fdb show dev vxe | sort
ip nexthop del id 1
bridge fdb show dev vx0 | sort
ip nexthop del id 2
ip nexthop show
bridge fdb show dev vx0 | sort
bridge fdb show dev vxe | sort
bridge fdb show dev vx6 | sort
ip nexthop flush
bridge fdb show dev vx6 | sort
ip nexthop add id 1 via 192.0.2.2 fdb
ip nexthop add id 10 group 1 fdb
bridge fdb add 02:00:00:00:01:01 dev vx0 nhid 10
ip netns add b
ip link set vx0 netns b
bridge -n b fdb show dev vx0 | sort
bridge -n b fdb add 02:00:00:00:01:02 dev vx0 nhid 10
bridge -n b fdb show dev vx0 | sort
ip nexthop del id 10
bridge -n b fdb show dev vx0 | sort
sleep 1
cat $tmp/fdb
