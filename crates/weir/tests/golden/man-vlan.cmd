# VLAN and VXLAN links of ip-link(8), veth.
sysctl -qw net.ipv6.conf.all.disable_ipv6=1
ip link add p0 address 02:00:00:00:02:01 type dummy
ip link add link p0 name p0.1 type vlan protocol 802.1Q id 1 reorder_hdr on gvrp off mvrp off loose_binding off
ip -d link show p0.1
ip link add link p0 name p0.5 type vlan id 5 ingress-qos-map 0:1 1:2 7:7 egress-qos-map 0:3 5:4 9:7
ip -d link show p0.5
ip -d -j link show p0.5
ip link set p0.5 type vlan ingress-qos-map 0:0 1:5
ip link set p0.5 type vlan egress-qos-map 5:0
ip -d link show p0.5
ip link set p0.5 type vlan egress-qos-map 5:8
ip link set p0.5 type vlan ingress-qos-map 8:1
ip link set p0.5 type vlan ingress bogus
ip -d link show p0.5
ip -d link show p0.5
ip link set p0.5 type vlan reorder_hdr off loose_binding on
ip -d link show p0.5
ip link set p0.5 type vlan protocol 802.1ad
ip link set p0.5 type vlan id 5
ip link add link p0 name p0.6 type vlan protocol 0x9100 id 6
ip link add link p0 name p0.6 type vlan protocol 802.1q
ip link add link p0 name p0.6 type vlan id 6 reorder_hdr maybe
ip link add link p0 name p0.6 type vlan id 6 bogus
ip link add link p0 name p0.6 type vlan id x
ip link add link p0 name p0.6 address 02:00:00:00:02:06 mtu 1400 txqueuelen 3 numtxqueues 3 numrxqueues 2 type vlan id 6
ip -d link show p0.6
ip link add link p0 name p0.7 mtu 1600 type vlan id 7
ip link add link p0 name p0.8 up type vlan id 8
ip link set p0 up
ip link set p0.6 up
ip link set p0.6 address 02:00:00:00:02:66
ip link set p0 mtu 1390
ip link show p0.6
ip link set p0.6 promisc on
ip link show p0
ip link add link p0.6 name q0 type vlan id 7 protocol 802.1ad
ip -d link show q0
ip link show type vlan
ip link add link lo name lo.5 type vlan id 5
ip link del p0.6
ip link show q0
ip link del p0
ip link show type vlan
ip link add link p0 name x type vlan help
ip link add x0 address 02:00:00:00:02:11 type vxlan vni 9 dstport 4789 nolearning noproxy norsc nol2miss nol3miss noudpcsum noudp6zerocsumtx noudp6zerocsumrx noremcsumtx noremcsumrx
ip -d link show x0
ip link add x1 address 02:00:00:00:02:12 type vxlan vni 10 dstport 4789 local 10.0.0.1 remote 10.0.0.2 ttl auto tos 0x10 df unset ageing 0 maxaddress 0
ip -d link show x1
ip -d -j -p link show x1
ip link add x2 type vxlan vni 16777216 dstport 4789
ip link add x2 type vxlan vni -1
ip link add x2 type vxlan dstport 4789
ip link add x2 type vxlan vni 11 remote 10.0.0.3 group 239.1.1.1
ip link add x2 type vxlan vni 11 group 10.1.1.1 dstport 0
ip link add x2 type vxlan vni 11 remote 239.1.1.1 dstport 4789
ip link add x2 type vxlan vni 11 dstport 70000
ip link add x2 type vxlan vni 11 ttl 256 dstport 4789
ip link add x2 type vxlan vni 11 tos 256 dstport 4789
ip link add x2 type vxlan vni 11 df bogus dstport 4789
ip link add x2 type vxlan vni 11 srcport 5 dstport 4789
ip link add x2 type vxlan vni 11 dev nosuch dstport 4789
ip link add x2 type vxlan vni 11 bogus
ip link add x2 type vxlan external vni 11 dstport 4789
ip link set x0 type vxlan vni 9 ageing 7
ip link set x0 type vxlan vni 9 dstport 4790
ip link set x0 type vxlan ageing 8
ip -d link show x0
ip link set x0 type vxlan ttl 7
ip link set x0 type vxlan remote 10.0.0.9
ip -d link show x0
ip link del x0
ip link add w0 index 80 mtu 2000 numtxqueues 4 numrxqueues 2 address 02:00:00:00:02:21 type veth peer name w1 index 81 mtu 2001 numtxqueues 3 address 02:00:00:00:02:22
ip -d link show w0
ip -d link show w1
ip -d -j link show w0
ip link add w2 type veth peer name w2
ip link add w2 address 02:00:00:00:02:25 type veth peer
ip link add w2 type veth peer name w0
ip link add w2 type veth peer name "bad name"
ip link add w9 type veth peer mtu 7
ip link add w2 mtu 65536 type veth peer name w3
ip link add w2 up address 02:00:00:00:02:23 type veth peer name w3 up address 02:00:00:00:02:24
ip link show w2 | grep -v link.ether
ip link show w3
ip link add w4 type veth bogus
ip link show type veth | grep -v link.ether
ip link set w0 type veth
ip link set w0 master w1
ip link set w0 netns 1
ip link del w1
ip link show w0
