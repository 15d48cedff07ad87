# SPDX-License-Identifier: Apache-2.0 OR MIT
# Statistics of links by RTM_GETSTATS: ip stats, and ip link xstats of bridges and their ports.
# Its output on Linux 6.1 is stats.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
ip link add br0 address 02:00:00:00:00:10 type bridge vlan_filtering 1
ip link add d0 address 02:00:00:00:00:01 type dummy
ip link set d0 master br0
c ip stats show dev d0
c ip stats show dev br0
c ip stats show dev lo
c ip stats show dev d0 group link
c ip stats show dev d0 group xstats_slave
c ip stats show dev d0 group xstats_slave subgroup bridge suite stp
c ip stats show dev br0 group xstats
c ip stats show dev d0 group xstats
c ip stats show dev d0 group offload
c ip stats show dev d0 group offload subgroup hw_stats_info
c ip stats show dev d0 group offload subgroup cpu_hit
c ip stats show dev d0 group offload subgroup l3_stats
c ip stats show dev d0 group afstats
c ip stats show group link
c ip stats show group offload
c ip -j stats show dev d0 group link
c ip link xstats type bridge
c ip link xstats type bridge dev br0
c ip link xstats type bridge_slave dev d0
c ip stats show dev nosuch
