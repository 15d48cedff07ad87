# SPDX-License-Identifier: Apache-2.0 OR MIT
# The classes and queues of qfq, gred, drr and cake that packets enter and leave: statistics after
# some of them left. Its output on Linux 6.1 is served.txt beside it; record makes it.
. "$(dirname "$0")/common.sh"
# Packets wait; then the line passes 6000 bytes more when the next packets arrive.
serve() {
    burst
    c tc -s class show dev d0
    for more in 1 2; do
        c tc qdisc change dev d0 root handle 1: tbf rate 8bit burst 6000 limit 1000000
        burst
        c tc -s class show dev d0
        show
    done
}
behind 2000 qfq
c tc class add dev d0 parent 10: classid 10:1 qfq weight 1
c tc class add dev d0 parent 10: classid 10:2 qfq weight 10
c tc class add dev d0 parent 10: classid 10:3 qfq weight 100 maxpkt 512
c tc class add dev d0 parent 10: classid 10:4 qfq weight 10
ports
serve
c tc class change dev d0 parent 10: classid 10:1 qfq weight 500
c tc qdisc add dev d0 parent 10:4 handle 40: pfifo limit 2
serve
c tc -s -j class show dev d0 classid 10:3
tc qdisc del dev d0 root

behind 2000 drr
for class in 1 2 3 4; do c tc class add dev d0 parent 10: classid 10:$class drr quantum ${class}000; done
ports
serve
tc qdisc del dev d0 root

RED="min 60 max 61 avpkt 60 burst 1 bandwidth 10Mbit"
WIDE="min 200000 max 600000 avpkt 500 burst 500 bandwidth 10Mbit"
G="tc qdisc change dev d0 parent 1:1 handle 10: gred"
gred() {
    behind 2000 gred setup vqs 5 default 4 "$@"
    c $G limit 3000 DP 1 prio 3 $WIDE
    c $G limit 100000 DP 2 prio 2 $RED
    c $G limit 100000 DP 3 prio 1 $WIDE
    c $G limit 100000 DP 4 prio 4 $WIDE
    tc qdisc add dev d0 clsact
    for port in 1 2 3; do
        tc filter add dev d0 egress protocol ip prio 1 u32 match ip dport $port 0xffff classid 10:$port action ok
    done
    burst
    c tc -s qdisc show dev d0 parent 1:1
    burst
    c tc -s -j qdisc show dev d0 parent 1:1
    c $G limit 1000 DP 3 prio 1 $WIDE
    burst
    c tc -s qdisc show dev d0 parent 1:1
    tc qdisc del dev d0 root
    tc qdisc del dev d0 clsact
}
gred
gred ecn
gred grio
gred harddrop ecn grio

cake() {
    behind 2000 cake "$@"
    burst
    # The numbers of classes come from a random hash.
    echo "+ classes"
    tc -s class show dev d0 | sed 's/^class cake 10:[0-9a-f]*/class cake 10:X/' | LC_ALL=C sort
    burst
    c tc -s qdisc show dev d0 parent 1:1 | grep -vE 'delay|capacity|memory'
    tc qdisc del dev d0 root
}
cake besteffort
cake diffserv4
cake diffserv4 wash
cake precedence
true
