# SPDX-License-Identifier: Apache-2.0 OR MIT
# Rate estimators of qdiscs and classes, and size tables: where they are allowed and how they are
# shown. Its output on Linux 6.1 is estimators.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
ip link add d0 numtxqueues 2 type dummy
ip link add d1 type dummy
for dev in d0 d1; do
    sysctl -qw net.ipv6.conf.$dev.disable_ipv6=1
    ip link set $dev up
done
c tc qdisc add dev d0 root handle 1: estimator 1s 8s mq
c tc qdisc add dev d0 root handle 1: estimator 1s 8s mqprio num_tc 1 map 0 queues 1@0 hw 0
c tc qdisc add dev d0 root handle 1: mq
c tc qdisc change dev d0 root handle 1: estimator 1s 8s mq
c tc -s qdisc show dev d0
c tc qdisc add dev d0 parent 1:1 handle 11: estimator 1s 8s pfifo
c tc qdisc add dev d0 parent 1:2 handle 12: stab overhead 20 linklayer ethernet estimator 1s 8s prio
c tc qdisc add dev d0 parent 12:1 handle 13: stab overhead 20 linklayer ethernet pfifo
c tc -d -s qdisc show dev d0
c tc -s class show dev d0
for kind in drr qfq "hfsc ls rate 1mbit" "htb rate 1mbit"; do
    c tc qdisc add dev d1 root handle 2: ${kind%% *}
    c tc class add dev d1 parent 2: classid 2:1 estimator 1s 8s $kind
    c tc class add dev d1 parent 2: classid 2:2 estimator 1s 1s $kind
    c tc class add dev d1 parent 2: classid 2:3 $kind
    c tc -s class show dev d1 classid 2:1
    c tc -s class show dev d1 classid 2:3
    c tc class change dev d1 parent 2: classid 2:1 estimator 2s 16s $kind
    c tc class change dev d1 parent 2: classid 2:3 estimator 2s 16s $kind
    c tc -s class show dev d1
    tc qdisc del dev d1 root
done
