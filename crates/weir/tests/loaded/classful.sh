# SPDX-License-Identifier: Apache-2.0 OR MIT
# Classes that hold packets while their queue is replaced, changed and removed, and while they are
# deleted: the counters of class, qdisc and line. Its output on Linux 6.1 is classful.txt beside it;
# record makes it.
. "$(dirname "$0")/common.sh"
# Runs with the classes 10:1 to 10:4.
try() {
    ports
    burst
    show
    show class
    c tc qdisc add dev d0 parent 10:2 handle 20: codel limit 10
    show
    show class
    burst
    c tc qdisc change dev d0 parent 10:2 handle 20: codel limit 2
    show
    show class
    c tc qdisc replace dev d0 parent 10:2 handle 21: pfifo limit 2
    show
    burst
    c tc qdisc del dev d0 parent 10:2
    show
    show class
}
behind 2000 prio bands 4 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
try
c tc qdisc change dev d0 parent 1:1 handle 10: prio bands 2 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
show
show class
burst
show
tc qdisc del dev d0 root

behind 2000 drr
for class in 1 2 3 4; do tc class add dev d0 parent 10: classid 10:$class drr quantum 1000; done
try
c tc class del dev d0 classid 10:3
tc filter del dev d0 parent 10: prio 1
c tc class del dev d0 classid 10:3
show
show class
burst
show
tc qdisc del dev d0 root

behind 2000 qfq
for class in 1 2 3 4; do tc class add dev d0 parent 10: classid 10:$class qfq weight $class; done
try
c tc class del dev d0 classid 10:3
tc filter del dev d0 parent 10: prio 1
c tc class del dev d0 classid 10:3
show
show class
burst
show
tc qdisc del dev d0 root

behind 2000 hfsc default 4
for class in 1 2 3 4; do tc class add dev d0 parent 10: classid 10:$class hfsc ls rate 1mbit; done
try
c tc class del dev d0 classid 10:3
tc filter del dev d0 parent 10: prio 1
c tc class del dev d0 classid 10:3
show
show class
c tc class add dev d0 parent 10:1 classid 10:5 hfsc ls rate 1mbit
show
show class
burst
show
tc qdisc del dev d0 root

behind 2000 htb default 4
for class in 1 2 3 4; do tc class add dev d0 parent 10: classid 10:$class htb rate 1mbit burst 10000; done
try
c tc class del dev d0 classid 10:3
tc filter del dev d0 parent 10: prio 1
c tc class del dev d0 classid 10:3
show
show class
c tc class add dev d0 parent 10:1 classid 10:5 htb rate 1mbit burst 10000
show
show class
burst
show
tc qdisc del dev d0 root
true
