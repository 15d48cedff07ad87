# SPDX-License-Identifier: Apache-2.0 OR MIT
# Small limits, reached while the line above holds a peeked packet, which counts. Its output on
# Linux 6.1 is full.txt beside it; record makes it. Linux miscounts the backlog above hhf, so it is
# not shown.
. "$(dirname "$0")/common.sh"
full() {
    behind 2000 "$@"
    burst
    c tc -s qdisc show dev d0 parent 1:1 | grep -E 'Sent|backlog|maxq '
    tc qdisc change dev d0 root handle 1: tbf rate 8bit burst 3000 limit 1000000
    burst
    case $1 in
        hhf) show | grep -v backlog ;;
        *) show ;;
    esac
    tc qdisc del dev d0 root
}
for limit in 1 2 5; do
    full pfifo limit $limit
    full pfifo_head_drop limit $limit
    full codel limit $limit target 100s
    full pie limit $limit target 100s tupdate 20ms
    full fq limit $limit
    full fq_codel limit $limit target 100s flows 1
    full hhf limit $limit
    full skbprio limit $limit
    full netem limit $limit
    full choke limit $limit min 1000 max 2000 avpkt 500
    full sfb limit $limit
    full tbf rate 1gbit burst 5000 limit $limit
done
for limit in 2 5; do full sfq limit $limit; done
for limit in 1000 2000; do
    full plug limit $limit
    full bfifo limit $limit
done
# A lowered limit does not peek a packet.
behind 2000 fq
burst
c tc qdisc change dev d0 parent 1:1 handle 10: fq limit 5
burst
show
tc qdisc del dev d0 root
# cbs does not count what its queue drops.
behind 2000 cbs idleslope 1 sendslope 0 hicredit 1 locredit 1
c tc qdisc add dev d0 parent 10:1 handle 20: codel limit 4 target 100s
burst
show
tc qdisc del dev d0 root
# hfsc without classes is a queue.
behind 2000 hfsc
burst
show
show class
c tc class add dev d0 parent 10: classid 10:1 hfsc ls rate 1mbit
show class
tc qdisc del dev d0 root
behind 2000 sfb limit 4
c tc class del dev d0 classid 10:1
c tc class change dev d0 classid 10:1 sfb
tc qdisc del dev d0 root
c tc qdisc add dev d0 root handle 1: hfsc default 1
tc class add dev d0 parent 1: classid 1:1 hfsc ls rate 8bit ul rate 8bit
c tc qdisc add dev d0 parent 1:1 handle 10: fq_codel limit 4 flows 1 target 100s
burst
show
tc qdisc del dev d0 root
true
