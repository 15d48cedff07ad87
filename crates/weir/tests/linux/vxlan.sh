# SPDX-License-Identifier: Apache-2.0 OR MIT
# VXLAN devices and their forwarding tables.
# Its output on Linux 6.1 is vxlan.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
# A kernel without CONFIG_RPS does not show receive queues.
l() { echo "+ ip -d link show $1"; ip -d link show $1 | sed 's/numrxqueues 1 //'; }
f() { echo "+ bridge $*"; bridge $* | sort; }
all() { echo "+ bridge fdb show"; bridge fdb show | grep vx | sort; }
c ip link add u0 type dummy
c ip addr add 10.0.0.1/24 dev u0
c ip link set u0 up
c ip link add vx0 address 02:00:00:00:00:01 type vxlan id 5 dstport 4789
c ip link add vx1 address 02:00:00:00:00:02 type vxlan id 6 remote 10.0.0.2 local 10.0.0.1 dev u0 dstport 4789 ttl 9 tos 4 ageing 100 nolearning srcport 5000 5001
c ip link add vx2 address 02:00:00:00:00:03 type vxlan external dstport 4790
c ip link add vx3 address 02:00:00:00:00:04 type vxlan id 7 remote fd00::2 dstport 4789 ttl inherit tos inherit noudpcsum udp6zerocsumtx udp6zerocsumrx gbp df set flowlabel 0x123 maxaddress 2
c ip link add vx6 address 02:00:00:00:00:07 mtu 9000 type vxlan id 8 remote 10.0.0.2 dev u0
c ip link add vx7 address 02:00:00:00:00:08 mtu 9000 type vxlan id 8 remote 10.0.0.2 df inherit
for d in vx0 vx1 vx2 vx3 vx6 vx7; do l $d; done
c bridge fdb add 02:00:00:00:00:99 dev vx1 dst 10.0.0.9
c bridge fdb append 00:00:00:00:00:00 dev vx1 dst 10.0.0.3
c bridge fdb append 00:00:00:00:00:00 dev vx1 dst 10.0.0.3
c bridge fdb add 02:00:00:00:00:98 dev vx1 dst 10.0.0.9 port 99 vni 77 via u0 self permanent
c bridge fdb add 02:00:00:00:00:96 dev vx1 dst 10.0.0.9 self dynamic
c bridge fdb add 02:00:00:00:00:95 dev vx1 dst 10.0.0.9 self static
f fdb show dev vx1
all
c bridge fdb append 02:00:00:00:00:99 dev vx1 dst 10.0.0.10
c bridge fdb add 02:00:00:00:00:99 dev vx1 dst 10.0.0.10
c bridge fdb replace 02:00:00:00:00:99 dev vx1 dst 10.0.0.10
f fdb show dev vx1
c bridge fdb replace 00:00:00:00:00:00 dev vx1 dst 10.0.0.10
c bridge fdb replace 01:00:5e:00:00:01 dev vx1 dst 10.0.0.10
c bridge fdb append 01:00:5e:00:00:01 dev vx1 dst 10.0.0.10
c bridge fdb append 01:00:5e:00:00:01 dev vx1 dst 10.0.0.11
c bridge fdb del 01:00:5e:00:00:01 dev vx1 dst 10.0.0.12
c bridge fdb del 01:00:5e:00:00:01 dev vx1 dst 10.0.0.10
f fdb show dev vx1
c bridge fdb del 02:00:00:00:00:99 dev vx1 dst 10.0.0.10
c bridge fdb del 02:00:00:00:00:99 dev vx1
c bridge fdb del 00:00:00:00:00:00 dev vx1 dst 10.0.0.3
c bridge fdb add 02:00:00:00:00:97 dev vx1 dst fd00::1
c bridge fdb add 02:00:00:00:00:97 dev vx1
c bridge fdb add 02:00:00:00:00:97 dev vx1 dst 10.0.0.1 via nosuch
c bridge fdb add 02:00:00:00:00:97 dev vx1 dst 10.0.0.1 master
c bridge fdb add 02:00:00:00:00:97 dev vx2 dst 10.0.0.7 src_vni 9 vni 10
c bridge fdb add 02:00:00:00:00:97 dev vx2 dst 10.0.0.8 src_vni 10
c bridge fdb add 02:00:00:00:00:a1 dev vx3 dst fd00::3
c bridge fdb add 02:00:00:00:00:a2 dev vx3 dst fd00::3
all
c bridge fdb get 02:00:00:00:00:98 dev vx1 self
c bridge fdb get 02:00:00:00:00:98 dev vx1
c bridge fdb get 02:00:00:00:00:88 dev vx1 self
c bridge fdb get 02:00:00:00:00:97 vni 10 dev vx2 self
c bridge fdb get 02:00:00:00:00:88 dev u0 self
c ip link add vx4 type vxlan id 6 remote 10.0.0.2 dstport 4789
c ip link add vx4 type vxlan id 10 remote 10.0.0.2 dstport 4789 flowlabel 9
c ip link add vx4 type vxlan id 9 remote fe80::2 dstport 4789
c ip link add vx4 type vxlan id 9 local fe80::2 dstport 4789
c ip link add vx4 type vxlan id 9 remote 10.0.0.2 srcport 9 8 dstport 4789
c ip link add vx4 mtu 67 type vxlan id 9 remote 10.0.0.2 dstport 4789
c ip link add vx4 type vxlan id 9 remote 10.0.0.2 dev lo dstport 4789
c ip link set vx1 type vxlan id 7
c ip link set vx1 type vxlan id 6 dstport 3
c ip link set vx1 type vxlan id 6 srcport 3 4
c ip link set vx1 type vxlan id 6 maxaddress 4
c ip link set vx1 type vxlan id 6 external
c ip link set vx1 type vxlan id 6 udpcsum
c ip link set vx1 type vxlan id 6 udp6zerocsumtx
c ip link set vx1 type vxlan id 6 gbp
c ip link set vx1 type vxlan id 6 remote fd00::5
c ip link set vx1 type vxlan id 6 local fd00::5
c ip link set vx1 type vxlan id 6 ttl 33 remote 10.0.0.77 learning ageing 20 tos inherit df set
c ip link set vx1 mtu 1451
c ip link set vx1 mtu 1450
c ip link set vx0 mtu 1600
l vx1
f fdb show dev vx1
c ip link set vx0 up
c ip link set vx1 up
c ip link set vx2 up
c ip link add vx5 type vxlan external dstport 4789
c ip link set vx5 up
c ip link set vx1 down
f fdb show dev vx1
c ip link set vx0 down
c ip link set vx5 up
c ip link del u0
ip -o link | sed 's/ .*link.ether.*//;s/<.*//'
all
c ip link del vx2
all
