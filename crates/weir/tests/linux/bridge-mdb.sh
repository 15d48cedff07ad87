# SPDX-License-Identifier: Apache-2.0 OR MIT
# Groups of bridges: bridge mdb, mcast_* of bridges and ports.
# Its output on Linux 6.1 is bridge-mdb.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
m() { echo "+ bridge -d -s mdb show $*"; bridge -d -s mdb show $* | sed 's/ *[0-9]*\.[0-9][0-9]$/ T/' | sort; }
b() { echo "+ mcast of br0"; ip -d link show br0 | grep -o "mcast_snooping.*mld_version [0-9]*"; }
sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
c ip link add br0 address 02:00:00:00:00:10 type bridge
c ip link add d0 address 02:00:00:00:00:01 type dummy
c ip link add d1 address 02:00:00:00:00:02 type dummy
b
c ip link set d0 master br0
c ip link set d1 master br0
c bridge mdb add dev br0 port d0 grp 239.1.1.1
c ip link set d0 up
c ip link set br0 up
sleep 1
stdbuf -oL bridge monitor mdb >/tmp/bridge-mdb.$$ & monitor=$!
sleep 1
c bridge mdb add dev br0 port d0 grp 239.1.1.1
c bridge mdb add dev br0 port d0 grp 239.1.1.1
c bridge mdb add dev br0 port d0 grp 239.1.1.2 permanent
c bridge mdb add dev br0 port d0 grp 239.1.1.3 vid 5 temp
c bridge mdb add dev br0 port d1 grp 239.1.1.1 permanent
c bridge mdb add dev br0 port d1 grp 239.1.1.4
c bridge mdb add dev br0 port d0 grp ff0e::1 permanent
c bridge mdb add dev br0 port d0 grp 239.1.1.5 src 10.0.0.1 permanent
c bridge mdb add dev br0 port d0 grp 01:02:03:04:05:06
c bridge mdb add dev br0 port d0 grp 01:02:03:04:05:06 permanent
c bridge mdb add dev br0 port br0 grp 239.1.1.6
c bridge mdb add dev br0 port br0 grp 239.1.1.6
c bridge mdb add dev br0 port br0 grp 239.1.1.7 permanent
c bridge mdb add dev br0 port br0 grp 239.1.1.7 src 10.0.0.1
c bridge mdb add dev br0 port d0 grp 10.0.0.1
c bridge mdb add dev br0 port d0 grp 224.0.0.5
c bridge mdb add dev br0 port d0 grp ff02::1
c bridge mdb add dev br0 port d0 grp 02:02:03:04:05:06 permanent
c bridge mdb add dev br0 port d0 grp 239.1.1.8 vid 4095
c bridge mdb add dev br0 port d0 grp 239.1.1.8 src 239.0.0.1
c bridge mdb add dev d0 port d0 grp 239.1.1.8
c bridge mdb add dev br0 port lo grp 239.1.1.8
m
c bridge link set dev d0 mcast_router 2
c bridge link set dev d1 mcast_router 3
c bridge link set dev d0 mcast_router 4
c bridge link set dev d0 fastleave on
m
c bridge mdb show dev br0 vid 5
c bridge mdb del dev br0 port d0 grp 239.1.1.1
c bridge mdb del dev br0 port d0 grp 239.1.1.1
c bridge mdb del dev br0 port d0 grp 239.1.1.9
c bridge mdb del dev br0 port br0 grp 239.1.1.6
c bridge mdb del dev br0 port d0 grp 239.1.1.3 vid 5
c bridge link set dev d0 mcast_router 1
c bridge link set dev d1 mcast_router 0
m
c ip link set d0 down
m
c ip link set d0 up
c ip link set d0 nomaster
m
sleep 1
kill $monitor
echo "+ monitor"
sed 's/ *[0-9]*\.[0-9][0-9]$//' /tmp/bridge-mdb.$$
rm /tmp/bridge-mdb.$$
c ip link set br0 type bridge mcast_router 2 mcast_query_use_ifaddr 1 mcast_querier 1 mcast_hash_max 16 mcast_last_member_count 3 mcast_startup_query_count 4
c ip link set br0 type bridge mcast_last_member_interval 101 mcast_membership_interval 102 mcast_querier_interval 103 mcast_query_interval 104 mcast_query_response_interval 105 mcast_startup_query_interval 106 mcast_stats_enabled 1
b
c ip link set br0 type bridge mcast_query_interval 1 mcast_startup_query_interval 9000000
c ip link set br0 type bridge mcast_router 3
c ip link set br0 type bridge mcast_igmp_version 1
c ip link set br0 type bridge mcast_mld_version 3
b
c ip link set d0 master br0
c ip link set br0 type bridge vlan_filtering 1
c bridge vlan add dev d0 vid 7
c bridge mdb add dev br0 port d0 grp 239.2.1.1 permanent
m
c bridge mdb del dev br0 port d0 grp 239.2.1.1
m
c ip link set br0 type bridge mcast_hash_max 1
c bridge mdb add dev br0 port d0 grp 239.2.1.1 permanent vid 1
c bridge mdb add dev br0 port d0 grp 239.2.1.2 permanent vid 1
b
m
c bridge mdb add dev br0 port d0 grp 239.2.1.3 permanent vid 1
c ip link set br0 type bridge mcast_snooping 1
m
c bridge link set dev d0 mcast_to_unicast on
c ip link set d0 type bridge_slave mcast_to_unicast on
c bridge -d link
c bridge link set dev d0 mcast_to_unicast off
c bridge -d link show dev d0
