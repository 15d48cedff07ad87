# SPDX-License-Identifier: Apache-2.0 OR MIT
# fq_pie with packets in it: the flows from which they leave, a lowered limit, changed options,
# replacement and deletion. A target of seconds prevents random drops. Its output on Linux 6.1 is
# fq_pie.txt beside it; record makes it.
. "$(dirname "$0")/common.sh"
F="tc qdisc change dev d0 parent 1:1 handle 10: fq_pie"
# fq_pie accepts no filters, so the frames of each port get its class as their priority.
ports() {
    tc qdisc add dev d0 clsact
    for port in 1 2 3 4; do
        tc filter add dev d0 egress protocol ip prio 1 u32 match ip dport $port 0xffff action skbedit priority "10:$port"
    done
}
# Shows the counters that do not depend on the size of packets in memory.
all() {
    echo "+ show"
    tc -s qdisc show dev d0 parent 1:1 | sed 's/ memory_used [0-9]*//'
    tc -s qdisc show dev d0 | grep -A2 tbf
}
for how in "flows 4" "flows 4 quantum 256" "flows 4 quantum 5000" "flows 4 quantum 600 limit 20" "flows 4 limit 30" "flows 4 memory_limit 1 ecn" "flows 4 limit 9 bytemode" "flows 4 dq_rate_estimator"; do
    behind 2000 fq_pie target 100s tupdate 20ms $how
    ports
    serve
    c $F limit 7
    all
    serve
    c $F limit 2 quantum 300
    all
    serve
    tc qdisc del dev d0 root
    tc qdisc del dev d0 clsact
done

behind 2000 fq_pie target 100s tupdate 20ms flows 4
ports
burst
c $F flows 5
c $F limit 100 target 50s tupdate 30ms alpha 3 beta 30 quantum 1000 memory_limit 100 ecn_prob 20 ecn bytemode
all
c $F noecn nobytemode quantum 255
all
c $F quantum 0
c $F quantum 1048577
c tc qdisc replace dev d0 parent 1:1 handle 10: fq_pie flows 4
c tc qdisc replace dev d0 parent 1:1 handle 10: fq_pie limit 10
all
c tc -j -s qdisc show dev d0 parent 1:1 | sed 's/"memory_used":[0-9]*//'
c tc qdisc replace dev d0 parent 1:1 handle 20: fq_pie limit 10 flows 1 target 100s tupdate 20ms
burst
all
c tc qdisc del dev d0 parent 1:1
all
tc qdisc del dev d0 root
tc qdisc del dev d0 clsact

# Down and up again.
behind 2000 fq_pie target 100s tupdate 20ms flows 4
ports
down_and_up
true
