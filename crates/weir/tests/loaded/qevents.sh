# SPDX-License-Identifier: Apache-2.0 OR MIT
# Events of red: filter blocks that receive packets dropped early and packets marked. Its output on
# Linux 6.1 is qevents.txt beside it; record makes it.
. "$(dirname "$0")/common.sh"
RED="red limit 100000 min 60 max 61 avpkt 60 burst 1"
filters() {
    echo "+ filters $1"
    tc -s filter show block "$1" | sed -E 's/ installed [0-9]+ sec( used [0-9]+ sec)?//; s/ firstused [0-9]+ sec//'
}
behind 1000 $RED ecn qevent early_drop block 10 qevent mark block 20
c tc qdisc show dev d0
c tc -d -j qdisc show dev d0
burst
show
c tc filter add block 10 prio 1 protocol ip u32 match ip dport 1 0xffff action drop
c tc filter add block 10 prio 2 protocol ip u32 match ip dport 2 0xffff action mirred egress redirect dev d1
c tc filter add block 10 prio 3 protocol ip u32 match ip dport 3 0xffff action mirred egress mirror dev d1
c tc filter add block 20 prio 1 protocol ip u32 match ip dport 1 0xffff action drop
c tc filter add block 20 prio 2 protocol ip u32 match ip dport 2 0xffff action mirred egress redirect dev d1
c tc filter add block 20 prio 3 protocol ip u32 match ip dport 3 0xffff action mirred egress mirror dev d1
c tc filter add block 30 prio 3 matchall action drop
burst
show
c tc -s qdisc show dev d0 parent 1:1
filters 10
filters 20
c ip -s link show d1 | grep -A1 TX
c tc qdisc change dev d0 parent 1:1 handle 10: $RED ecn qevent early_drop block 11
c tc qdisc change dev d0 parent 1:1 handle 10: $RED ecn qevent mark block 10
c tc qdisc change dev d0 parent 1:1 handle 10: $RED ecn qevent mark block 0
c tc qdisc change dev d0 parent 1:1 handle 10: $RED ecn qevent mark block 20
c tc qdisc change dev d0 parent 1:1 handle 10: $RED ecn
c tc qdisc show dev d0
burst
show
filters 10
c tc qdisc del dev d0 parent 1:1
filters 10
c tc qdisc add dev d0 parent 1:1 handle 10: $RED qevent early_drop block 0
c tc qdisc add dev d0 parent 1:1 handle 10: $RED qevent mark block 0
c tc qdisc add dev d0 parent 1:1 handle 10: $RED qevent early_drop block 10 qevent mark block 0
c tc filter add block 10 matchall action drop
c tc qdisc add dev d0 parent 1:1 handle 10: $RED qevent nosuch block 1
c tc qdisc add dev d0 parent 1:1 handle 10: $RED qevent mark block 10 qevent mark block 11
c tc qdisc add dev d0 parent 1:1 handle 10: $RED qevent mark block 10
c tc qdisc show dev d0
c tc qdisc add dev d1 root handle 2: $RED ecn qevent mark block 10 qevent early_drop block 10
c tc qdisc show dev d1
c tc qdisc del dev d0 root
c tc filter add block 10 matchall action drop
c tc qdisc del dev d1 root
c tc filter show block 10
true
