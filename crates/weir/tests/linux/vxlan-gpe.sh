# SPDX-License-Identifier: Apache-2.0 OR MIT
# VXLAN devices with the generic protocol extension: what they go with, and what a device without link-layer address shows.
# Its output on Linux 6.1 is vxlan-gpe.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
# A kernel without CONFIG_RPS does not show receive queues.
l() { echo "+ ip -d link show $1"; ip -d link show $1 | sed 's/numrxqueues 1 //'; }
j() { echo "+ ip -d -j link show $1"; ip -d -j link show $1 | sed 's/"num_rx_queues":1,//'; }
c ip link add u0 type dummy
c ip addr add 10.0.0.1/24 dev u0
c ip link set u0 up
c ip link add vx type vxlan gpe id 5
c ip link add vx type vxlan gpe id 5 remote 10.0.0.2 nolearning
c ip link add vx type vxlan id 5 external gpe
for flag in learning proxy rsc l2miss l3miss gbp "ttl inherit" "tos inherit" "ttl 9" udpcsum noudpcsum udp6zerocsumtx udp6zerocsumrx "srcport 5000 5001" "ageing 20" "maxaddress 4" "df set" "df inherit" "dev u0" "local 10.0.0.1" "local fd00::1" "remote 10.0.0.2" "remote fd00::2" vnifilter "flowlabel 3" "group 239.1.1.1 dev u0" "remote fe80::2" "dev nosuch"; do
    c ip link add vx type vxlan external gpe dstport 4790 $flag && l vx && c ip link del vx
done
c ip link add vx mtu 9000 type vxlan external gpe dstport 4790 dev u0
l vx
c ip link set vx mtu 1465
c ip link set vx mtu 1464
c ip link del vx
c ip link add vx mtu 1480 type vxlan external gpe dstport 4790 dev u0 local fd00::1
c ip link set vx mtu 1445
c ip link set vx mtu 1444
l vx
c ip link del vx
c ip link add vx mtu 67 type vxlan external gpe
c ip link add vx address 02:00:00:00:00:01 type vxlan external gpe dstport 4790
l vx
j vx
c ip link set vx address 02:00:00:00:00:02
c ip link set vx broadcast 02:00:00:00:00:02
c ip link set vx type vxlan external gpe
c ip link set vx type vxlan gpe
c ip link set vx type vxlan learning
c ip link set vx type vxlan ttl inherit
c ip link set vx type vxlan ttl 4 tos 3 ageing 9
c ip link set vx type vxlan remote 10.0.0.7
l vx
c ip link set vx up
l vx
c ip addr add 192.0.2.1/24 dev vx
c ip addr add 2001:db8::1/64 dev vx nodad
c ip -4 addr show vx
ip -6 addr show dev vx scope link | sed "s!fe80::[0-9a-f:]*!fe80::X!; /valid_lft/d"
c ip route show dev vx
c ip -6 route show table all dev vx | grep -v fe80
c bridge fdb add 02:00:00:00:00:99 dev vx dst 10.0.0.9
c bridge fdb add 02:00:00:00:00:99 dev vx dst 10.0.0.9 self permanent
c bridge fdb append 02:00:00:00:00:99 dev vx dst 10.0.0.9
c bridge fdb del 02:00:00:00:00:99 dev vx dst 10.0.0.9
c bridge fdb get 02:00:00:00:00:99 dev vx self
c bridge fdb show dev vx
c ip maddr show dev vx
c ip link add br0 type bridge
c ip link set vx master br0
c ip link add link vx name vl type vlan id 3
c ip link add link vx name mv type macvlan
c ip link add link vx name iv type ipvlan
c ip link set vx down
# Of the devices at a port, all have the extension or none.
c ip link add v2 type vxlan external dstport 4790
c ip link add v3 type vxlan external gpe dstport 4790
c ip link add v3 type vxlan external gpe dstport 4790 udp6zerocsumrx
c ip link set v2 up
c ip link set vx up
c ip link set v3 up
c ip link set v2 down
c ip link set vx up
c ip link del u0
ip -o link | sed 's/ .*link.ether.*//;s/<.*//'
c ip link del vx
