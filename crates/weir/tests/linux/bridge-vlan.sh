# SPDX-License-Identifier: Apache-2.0 OR MIT
# VLANs of bridges and their ports.
# Its output on Linux 6.1 is bridge-vlan.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
# Some kernels do not show receive queues.
l() { echo "+ ip -d link show $1"; ip -d link show $1 | sed 's/numrxqueues 1 //; s/gc_timer *[0-9.]*//'; }
f() { echo "+ bridge fdb show $*"; bridge fdb show $* | grep -v " self " | sort; }
c ip link add br0 address 02:00:00:00:00:10 type bridge mcast_snooping 0 vlan_filtering 1
c ip link add br1 address 02:00:00:00:00:11 type bridge mcast_snooping 0 vlan_default_pvid 0 vlan_protocol 802.1ad vlan_stats_enabled 1 vlan_stats_per_port 1
c ip link add d0 address 02:00:00:00:00:01 type dummy
c ip link add d1 address 02:00:00:00:00:02 type dummy
c ip link add d2 address 02:00:00:00:00:03 type dummy
l br0
l br1
c ip link set d0 master br0
c ip link set d1 master br0
c bridge vlan show
f br br0
f br br1
c bridge vlan add dev d0 vid 10 pvid untagged
c bridge vlan add dev d0 vid 20-25
c bridge vlan add dev d1 vid 10
c bridge vlan add dev br0 vid 10 self
c bridge vlan add dev d1 vid 30 master
c bridge vlan
c bridge -compressvlans vlan show
c bridge -d vlan show
c bridge -d -s vlan show
c bridge -s vlan show
c bridge -s vlan show dev d0
c bridge vlan show dev d0
c bridge -compressvlans vlan show dev d0
c bridge vlan show vid 10
c bridge -d vlan show vid 22
c bridge -j vlan show
f br br0
c bridge vlan del dev d0 vid 22
c bridge vlan del dev d0 vid 1
c bridge vlan del dev d0 vid 999
c bridge vlan del dev d1 vid 10 pvid
c bridge -compressvlans vlan show
c bridge vlan add dev d0 vid 0
c bridge vlan add dev d0 vid 4095
c bridge vlan add dev d0 vid 30-20
c bridge vlan add dev d0 vid 30-40 pvid
c bridge vlan add dev d2 vid 5
c bridge vlan add dev d2 vid 5 self
c bridge vlan add dev br0 vid 5
c bridge vlan add dev lo vid 5 self
c bridge vlan add dev d0 vid 6 self
c bridge vlan del dev d2 vid 5
c bridge vlan del dev br0 vid 99 self
c bridge vlan add dev d0 vid 10 pvid
c bridge vlan add dev d0 vid 10 pvid untagged
c bridge vlan add dev br0 vid 200-203 untagged self
c bridge -compressvlans vlan show dev br0
c bridge fdb add 02:00:00:00:00:99 dev d0 master static
c bridge fdb add 02:00:00:00:00:98 dev d0 master static vlan 10
c bridge fdb add 02:00:00:00:00:97 dev d0 master static vlan 11
c bridge fdb add 02:00:00:00:00:98 dev d0 master static vlan 10
c bridge fdb add 02:00:00:00:00:96 dev br0 self vlan 10
f br br0
c bridge fdb get 02:00:00:00:00:98 br br0 vlan 10
c bridge fdb get 02:00:00:00:00:98 br br0
c bridge fdb show br br0 vlan 10
c bridge fdb del 02:00:00:00:00:98 dev d0 master vlan 10
c bridge fdb del 02:00:00:00:00:98 dev d0 master vlan 11
c bridge fdb del 02:00:00:00:00:99 dev d0 master vlan 23
c bridge fdb del 02:00:00:00:00:99 dev d0 master
c bridge fdb add 02:00:00:00:00:95 dev d0 master dynamic vlan 10
f br br0
c ip link set d0 address 02:00:00:00:00:31
f dev d0
c ip link set br0 address 02:00:00:00:00:32
f dev br0
c ip link set br0 type bridge vlan_default_pvid 7
c bridge -compressvlans vlan show
c ip link set br0 type bridge vlan_default_pvid 8
c bridge -compressvlans vlan show
c ip link set d2 master br0
c bridge -compressvlans vlan show
c ip link set br0 type bridge vlan_default_pvid 0
c bridge -compressvlans vlan show
c ip link set br0 type bridge vlan_default_pvid 4095
c ip link set br0 type bridge vlan_stats_enabled 2
c ip link set br0 type bridge vlan_stats_enabled 1
c ip link set br0 type bridge vlan_stats_per_port 1
c ip link set br0 type bridge vlan_protocol 802.1ad
l br0
c ip link set br0 type bridge vlan_protocol 802.1Q
c ip link set br0 type bridge vlan_filtering 0
l br0
l d0
c bridge vlan add dev d0 vid 2-4094
c bridge -compressvlans vlan show dev d0
c bridge vlan del dev d0 vid 2-4094
c bridge -compressvlans vlan show
c ip link set d1 nomaster
c bridge -compressvlans vlan show
f br br0
c bridge vlan show dev nosuch
c bridge vlan show dev d1
c bridge -d vlan show dev d1
c ip link del br0
c bridge vlan show
