# SPDX-License-Identifier: Apache-2.0 OR MIT
# The qdisc gred: its set-up, its virtual queues, their display, and refused requests. Its output on
# Linux 6.1 is gred.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
Q="tc qdisc change dev d0 root handle 1: gred"
RED="min 15K max 25K avpkt 1500 burst 64 bandwidth 10Mbit probability 0.1"
ip link add d0 type dummy
sysctl -qw net.ipv6.conf.d0.disable_ipv6=1
ip link set d0 up
c tc qdisc add dev d0 root handle 1: gred
c tc qdisc add dev d0 root handle 1: gred setup vqs 17 default 0
c tc qdisc add dev d0 root handle 1: gred setup vqs 4 default 4
c tc qdisc add dev d0 root handle 1: gred limit 60KB $RED DP 1
c tc qdisc add dev d0 root handle 1: gred setup vqs 4 default 2
c tc -s qdisc show dev d0
c $Q limit 60KB DP 4 $RED
c $Q limit 60KB DP 1 min 25K max 15K avpkt 1500 burst 64 bandwidth 10Mbit
c $Q limit 60KB DP 1 $RED
c tc qdisc show dev d0
c tc -s qdisc show dev d0
c tc -d -s -j qdisc show dev d0
c $Q limit 600KB DP 2 prio 3 $RED
c tc -s qdisc show dev d0
c $Q limit 600KB DP 3 $RED ecn
c $Q limit 600KB DP 3 $RED harddrop
c tc -s qdisc show dev d0
c $Q setup vqs 4 default 2 ecn
c $Q setup vqs 3 default 2
c tc -s qdisc show dev d0
c $Q setup vqs 4 default 2 grio limit 1000000
c $Q limit 60KB DP 0 prio 2 $RED
c $Q limit 60KB DP 1 prio 2 $RED
c $Q limit 60KB DP 2 $RED
c tc -s -j qdisc show dev d0
c tc qdisc del dev d0 root
c tc qdisc add dev d0 root handle 1: gred setup vqs 10 default 1 grio ecn harddrop limit 1000
c tc -s qdisc show dev d0
c $Q limit 60KB DP 1 prio 2 $RED
c $Q limit 60KB DP 1 prio 2 $RED ecn
c tc -s qdisc show dev d0
c tc qdisc add dev d0 parent 1:1 pfifo
c tc class show dev d0
c tc qdisc replace dev d0 root handle 2: gred setup vqs 1 default 0
c tc qdisc show dev d0
