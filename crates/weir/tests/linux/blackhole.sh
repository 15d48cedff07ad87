# SPDX-License-Identifier: Apache-2.0 OR MIT
# The qdisc blackhole, as a root and below classes; and the handles assigned to qdiscs without one,
# which count across namespaces. Its output on Linux 6.1 is blackhole.txt beside it; record makes
# it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
ip link add d0 type dummy
sysctl -qw net.ipv6.conf.d0.disable_ipv6=1
ip link set d0 up
c tc qdisc add dev d0 root handle 1: blackhole
c tc -s qdisc show dev d0
c tc qdisc change dev d0 root handle 1: blackhole
c tc qdisc replace dev d0 root handle 1: blackhole
c tc qdisc add dev d0 parent 1:1 handle 2: pfifo
c tc class add dev d0 parent 1: classid 1:1 htb rate 1mbit
c tc filter add dev d0 parent 1: protocol ip matchall classid 1:1
c tc class show dev d0
c tc -j -s qdisc show dev d0
c tc qdisc add dev d0 root handle 1: blackhole limit 10
c tc qdisc del dev d0 root
c tc qdisc show dev d0
c tc qdisc add dev d0 root handle 1: stab mtu 2047 tsize 512 mpu 0 overhead 4 linklayer ethernet blackhole
c tc qdisc show dev d0
c tc qdisc replace dev d0 root handle 2: prio
for band in 1 2 3; do c tc qdisc add dev d0 parent 2:$band handle 2$band: blackhole; done
c tc qdisc show dev d0
c tc class show dev d0
c tc qdisc del dev d0 parent 2:2
c tc qdisc show dev d0
c tc qdisc del dev d0 root
c tc qdisc add dev d0 ingress
c tc qdisc add dev d0 parent ffff: blackhole
c tc qdisc add dev d0 handle ffff: ingress
c tc qdisc show dev d0
ip link add d1 type dummy
ip link set d1 up
# Handles across namespaces.
ip netns add one
ip netns add two
for ns in one two; do
    for dev in da db; do ip -n $ns link add $dev type dummy; done
done
c tc qdisc add dev d0 root pfifo
c tc -n one qdisc add dev da root pfifo
c tc -n two qdisc add dev da root pfifo
c tc -n one qdisc add dev db root prio
c tc qdisc add dev d1 root prio
c tc -n two qdisc add dev db root htb
for ns in one two; do c tc -n $ns qdisc show; done
c tc qdisc show
ip netns del one
ip netns del two
