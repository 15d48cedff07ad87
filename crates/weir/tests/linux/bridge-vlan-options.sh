# SPDX-License-Identifier: Apache-2.0 OR MIT
# Options of the VLANs of bridges and their ports: states, global options, and their notifications.
# Its output on Linux 6.1 is bridge-vlan-options.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
c ip link add br0 address 02:00:00:00:00:10 type bridge vlan_filtering 1
c ip link add d0 address 02:00:00:00:00:01 type dummy
c ip link add d1 address 02:00:00:00:00:02 type dummy
c ip link add d2 address 02:00:00:00:00:03 type dummy
c ip link set d0 master br0
c ip link set d1 master br0
c bridge vlan add dev d0 vid 10-14
c bridge vlan add dev d1 vid 12
c bridge vlan add dev br0 vid 10-11 self
monitored=$(mktemp)
stdbuf -oL bridge monitor vlan >$monitored & monitor=$!
sleep 1
c bridge vlan set dev d0 vid 10 state 4
c bridge vlan set dev d0 vid 11 state learning
c bridge vlan set dev d0 vid 12-13 state blocking
c bridge vlan set dev d0 vid 12-13 state blocking
c bridge vlan set dev d0 vid 12-15 state listening
c bridge vlan set dev d0 vid 9-11 state listening
c bridge vlan set dev d0 vid 1 state disabled
c bridge vlan set dev d0 vid 10-14 state 3
c bridge vlan set dev d0 vid 12-13 state 4
c bridge vlan set dev d1 vid 10 state 4
c bridge vlan set dev d1 vid 12 state 9
c bridge vlan set dev d1 vid 12 state 5
c bridge vlan set dev d1 vid 12
c bridge vlan set dev d2 vid 12 state 4
c bridge vlan set dev nosuch vid 12 state 4
c bridge vlan set dev br0 vid 10 state 4
c bridge vlan set dev br0 vid 10 state 4 self
c bridge vlan set dev br0 vid 12 state 4 self
c bridge vlan set dev d0 vid 0 state 4
c bridge vlan set dev d0 vid 4095 state 4
c bridge -d vlan show
c bridge -d -compressvlans vlan show
c bridge -d vlan show dev d0 vid 12
c bridge -d -j vlan show dev d0
c bridge vlan add dev d0 vid 12 untagged
c bridge -d vlan show dev d0
c bridge vlan del dev d0 vid 12
c bridge vlan add dev d0 vid 12
c bridge -d vlan show dev d0
c ip link set br0 type bridge stp_state 1
c bridge vlan set dev d0 vid 10 state 4
c ip link set br0 type bridge stp_state 0
c bridge vlan global show
c bridge vlan global show dev br0
c bridge vlan global show dev br0 vid 12
c bridge vlan global show dev d0
c bridge -d vlan global show dev br0
c bridge vlan global set dev br0 vid 10 mcast_snooping 0
c bridge vlan global set dev br0 vid 10 mcast_snooping 0
c bridge vlan global set dev br0 vid 11-12 mcast_querier 1
c bridge vlan global set dev br0 vid 13 mcast_igmp_version 3 mcast_mld_version 2
c bridge vlan global set dev br0 vid 13 mcast_igmp_version 4
c bridge vlan global set dev br0 vid 13 mcast_mld_version 3
c bridge vlan global set dev br0 vid 14 mcast_last_member_count 5 mcast_last_member_interval 200 mcast_startup_query_count 7 mcast_startup_query_interval 50 mcast_membership_interval 1000 mcast_querier_interval 2000 mcast_query_interval 10 mcast_query_response_interval 300
c bridge vlan global set dev br0 vid 10-15 mcast_querier 1
c bridge vlan global set dev br0 vid 99 mcast_querier 1
c bridge vlan global set dev d0 vid 10 mcast_querier 1
c bridge vlan global set dev br0 vid 0 mcast_querier 1
c bridge vlan global show dev br0
c bridge -j vlan global show dev br0
c ip link set br0 type bridge mcast_snooping 0
c bridge vlan global show dev br0 vid 11
c bridge vlan del dev d0 vid 13
c bridge vlan add dev d0 vid 13
c bridge vlan global show dev br0 vid 13
c ip link set d0 nomaster
c bridge vlan global show
sleep 1
kill $monitor
echo "+ monitor"
cat $monitored
rm $monitored
