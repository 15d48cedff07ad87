! ip link add d1 type veth peer name p2
! ip link add br0 type bridge
! ip link add uplink type veth peer name p0
! ip link add dummy0 type veth peer name p1
ip link add dummy0 type dummy
ip link add d2 mtu 1400 address 02:00:00:00:00:01 txqueuelen 500 numtxqueues 4 type dummy
ip link add v0 type veth peer name v1
ip link add v2 index 77 type veth peer name v3 mtu 9000 address 02:00:00:00:00:03
ip link add ifb0 type ifb
ip link add link dummy0 name dummy0.5 type vlan id 5
ip link add link dummy0 name dummy0.6 type vlan protocol 802.1ad id 6 reorder_hdr off gvrp on ingress-qos-map 1:2 egress-qos-map 3:4
ip link add br0 type bridge vlan_filtering 1
ip link add bond0 type bond mode active-backup miimon 100
ip link add vx0 type vxlan id 100 remote 192.0.2.1 dstport 4789 dev dummy0
ip link add mv0 link dummy0 type macvlan mode bridge
ip link add gre1 type gretap remote 192.0.2.1 local 192.0.2.2 key 7
ip link add es1 type erspan seq key 7 remote 192.0.2.1 local 192.0.2.2 erspan_ver 2 erspan_dir egress erspan_hwid 5
ip link add es2 type ip6erspan seq key 7 remote 2001:db8::1 local 2001:db8::2 erspan_ver 1 erspan 123
ip link add vrf1 type vrf table 10
ip link add nlmon0 mtu 4096 type nlmon
ip link set dummy0 up
ip link set dev dummy0 down
ip link set dummy0 mtu 1280
ip link set dummy0 address 02:aa:bb:cc:dd:ee
ip link set dummy0 alias uplink-to-core
ip link set dummy0 txqueuelen 1000
ip link set dummy0 name core0
ip link set uplink group 3
ip link set uplink promisc on
ip link set uplink arp off
ip link set uplink master br0
ip link set uplink nomaster
ip link set v1 netns 99999999
ip link set dev uplink addrgenmode none
ip link property add dev uplink altname a-much-longer-alternative-name
ip link property del dev uplink altname a-much-longer-alternative-name
ip link show
ip -s -d link show
ip link show dev uplink
ip -d link show type vlan
ip link show master br0
ip -s -s link show up
ip link set br0 type bridge stp_state 1 forward_delay 400
ip link delete d1
ip link del dev v0 type veth
ip link afstats dev uplink
bridge link show
bridge vlan add dev uplink vid 10
