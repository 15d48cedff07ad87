# SPDX-License-Identifier: Apache-2.0 OR MIT
# The qdisc qfq: its classes, their display, and refused requests. Its output on Linux 6.1 is
# qfq.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
ip link add d0 type dummy
sysctl -qw net.ipv6.conf.d0.disable_ipv6=1
ip link set d0 up
c tc qdisc add dev d0 root handle 1: qfq
c tc -s qdisc show dev d0
c tc class add dev d0 parent 1: classid 1:1 qfq
c tc class add dev d0 parent 1: classid 1:2 qfq weight 10
c tc class add dev d0 parent 1: classid 1:3 qfq maxpkt 2000
c tc class add dev d0 parent 1: classid 1:4 qfq weight 1000 maxpkt 65536
c tc class add dev d0 parent 1: classid 1:5 qfq weight 777 maxpkt 512
c tc class show dev d0
c tc -s -d class show dev d0
c tc class add dev d0 parent 1: classid 1:5 qfq weight 3
c tc class add dev d0 parent 1: classid 1:6 qfq weight 0
c tc class add dev d0 parent 1: classid 1:6 qfq weight 1025
c tc class add dev d0 parent 1: classid 1:6 qfq maxpkt 511
c tc class add dev d0 parent 1: classid 1:6 qfq maxpkt 65537
c tc class add dev d0 parent 2: classid 2:6 qfq weight 1
c tc class add dev d0 parent 1:1 classid 1:6 qfq weight 1
c tc class change dev d0 parent 1: classid 1:2 qfq weight 20
c tc class change dev d0 parent 1: classid 1:2 qfq maxpkt 600
c tc class change dev d0 parent 1: classid 1:7 qfq weight 20
c tc class replace dev d0 parent 1: classid 1:7 qfq weight 20
c tc -s class show dev d0
c tc qdisc add dev d0 parent 1:7 handle 70: pfifo limit 10
c tc class show dev d0
c tc qdisc show dev d0
c tc filter add dev d0 parent 1: protocol ip prio 1 matchall classid 1:7
c tc filter add dev d0 parent 1:7 protocol ip prio 1 matchall classid 1:7
c tc class del dev d0 classid 1:7
c tc filter del dev d0 parent 1: prio 1
c tc class del dev d0 classid 1:7
c tc class del dev d0 classid 1:9
c tc class show dev d0
c tc qdisc show dev d0
ip link set d0 mtu 400
c tc class add dev d0 parent 1: classid 1:8 qfq weight 1
ip link set d0 mtu 1500
i=16
while [ $i -lt 80 ]; do
    tc class add dev d0 parent 1: classid 1:$(printf %x $i) qfq weight 1000 || echo "refused: $i"
    i=$((i + 1))
done
c tc class add dev d0 parent 1: classid 1:50 qfq weight 1000
c tc class show dev d0 classid 1:10
c tc qdisc del dev d0 root
c tc qdisc add dev d0 root handle 1: qfq weight 1
c tc -s qdisc show dev d0
