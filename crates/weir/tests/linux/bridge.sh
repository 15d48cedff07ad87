# SPDX-License-Identifier: Apache-2.0 OR MIT
# Bridges, their ports and forwarding tables.
# Its output on Linux 6.1 is bridge.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
# A kernel without CONFIG_RPS does not show receive queues.
l() { echo "+ ip -d link show $1"; ip -d link show $1 | sed 's/numrxqueues 1 //; s/gc_timer *[0-9.]*//'; }
f() { echo "+ bridge fdb show $*"; bridge fdb show $* | grep -v " self " | sort; }
c ip link add br0 address 02:00:00:00:00:10 type bridge mcast_snooping 0
c ip link add br1 address 02:00:00:00:00:11 type bridge mcast_snooping 0 ageing_time 500 priority 4096 group_fwd_mask 8
c ip link add d0 address 02:00:00:00:00:01 type dummy
c ip link add d1 address 02:00:00:00:00:02 mtu 1400 type dummy
l br0
l br1
c ip link set d0 master br0
c ip link set d1 master br0
l d0
l br0
f br br0
c ip link set d0 up
c ip link set d1 up
c ip link set br0 up
sleep 1
c bridge link
c bridge -d link
c ip -br link show master br0
c ip link show br0
c bridge link set dev d1 state 0
c bridge link set dev d1 state 4
c bridge link set dev d1 hairpin on learning off flood off mcast_flood off
c bridge link set dev d0 isolated on cost 7 priority 5
c ip link set d0 type bridge_slave cost 8 bcast_flood off
c bridge -d link
c bridge link set dev d0 cost 0
c bridge link set dev d0 priority 64
c bridge link set dev d0 state 9
c bridge fdb add 02:00:00:00:00:99 dev d0 master static
c bridge fdb add 02:00:00:00:00:98 dev d0 master dynamic
c bridge fdb add 02:00:00:00:00:97 dev d0 master
c bridge fdb add 02:00:00:00:00:99 dev d0 master static
c bridge fdb replace 02:00:00:00:00:99 dev d1 master static sticky
c bridge fdb add 02:00:00:00:00:96 dev br0 self
c bridge fdb add 02:00:00:00:00:95 dev br0 self dynamic
c bridge fdb add 00:00:00:00:00:00 dev d0 master
c bridge fdb del 02:00:00:00:00:99 dev d0 master
c bridge fdb del 02:00:00:00:00:98 dev d0 master
f br br0
f dev d0
c bridge fdb get 02:00:00:00:00:97 br br0
c bridge fdb get 02:00:00:00:00:97 dev d0 master
c ip link set br1 master br0
c ip link set lo master br0
c ip link set d0 master d1
c ip link set d0 master br1
c ip link set d0 master nosuch
f br br0
c ip link add link br0 name br0.5 type vlan id 5
c ip link set br0.5 master br0
c ip link del br0.5
c ip link set d1 down
c bridge link
c bridge link set dev d1 state 1
c ip link set d1 address 02:00:00:00:00:33
f br br0
c ip link set br0 address 02:00:00:00:00:44
f br br0
c ip link set br0 mtu 1300
c ip link set d1 nomaster
sleep 1
c ip link show br0
f br br0
c ip link add br3 type bridge group_fwd_mask 7
c ip link add br3 type bridge forward_delay 50
c ip link set d1 master br0 up
c ip link del d1
c bridge link
c ip link del br1
c ip -br link show d0
