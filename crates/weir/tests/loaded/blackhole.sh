# SPDX-License-Identifier: Apache-2.0 OR MIT
# The qdisc blackhole with packets: as a root, and below the classes of other qdiscs, which count
# its drops. Its output on Linux 6.1 is blackhole.txt beside it; record makes it.
. "$(dirname "$0")/common.sh"
all() {
    show
    show class
}
c tc qdisc add dev d0 root handle 10: blackhole
burst
all
c tc qdisc replace dev d0 root handle 20: pfifo
burst
all
below() {
    tc qdisc del dev d0 root
    c tc qdisc add dev d0 root handle 10: "$@"
}
hole() { c tc qdisc add dev d0 parent 10:$1 handle 1$1: blackhole; }
try() {
    ports
    hole 2
    burst
    all
    c tc qdisc add dev d0 parent 10:2 handle 30: pfifo
    burst
    all
}
below prio bands 4
try
below drr
for class in 1 2 3 4; do tc class add dev d0 parent 10: classid 10:$class drr; done
try
below htb default 1
for class in 1 2 3 4; do tc class add dev d0 parent 10: classid 10:$class htb rate 1gbit burst 100k cburst 100k; done
try
below hfsc default 1
for class in 1 2 3 4; do tc class add dev d0 parent 10: classid 10:$class hfsc ls rate 1gbit; done
try
below qfq
for class in 1 2 3 4; do tc class add dev d0 parent 10: classid 10:$class qfq; done
try
below tbf rate 1gbit burst 100k limit 100k
hole 1
burst
all
below netem limit 10
hole 1
burst
all
below netem delay 1us
hole 1
burst
all
below red limit 100k avpkt 1000 burst 20 probability 0.02 min 10k max 30k bandwidth 1mbit
hole 1
burst
all
below sfb
hole 1
burst
all
below choke limit 100 avpkt 1000 burst 20 min 5 max 20 bandwidth 1mbit
c tc qdisc add dev d0 parent 10:1 handle 11: blackhole
below cbs hicredit 100 locredit -1500 sendslope -990000 idleslope 10000 offload 0
hole 1
burst
all
