# SPDX-License-Identifier: Apache-2.0 OR MIT
# Qdiscs that hold packets while their limit is lowered and while they are changed, replaced and
# deleted: their counters and those of the qdisc above. fq, fq_codel and hhf are in lowered.sh. Its
# output on Linux 6.1 is classless.txt beside it; record makes it.
. "$(dirname "$0")/common.sh"
# The arguments are KIND and its options, then its options while packets wait in it.
try() {
    behind 2000 $1
    burst
    show
    c tc qdisc change dev d0 parent 1:1 handle 10: $2
    show
    c tc qdisc replace dev d0 parent 1:1 handle 20: pfifo limit 3
    show
    burst
    show
    c tc qdisc del dev d0 parent 1:1
    show
    tc qdisc del dev d0 root
}
try "pfifo limit 100" "pfifo limit 5"
try "bfifo limit 100000" "bfifo limit 2000"
try "pfifo_head_drop limit 10" "pfifo_head_drop limit 5"
try "pfifo_fast" "pfifo_fast"
try "codel limit 100" "codel limit 5"
try "sfq limit 100" "sfq limit 5"
try "pie limit 100 tupdate 20ms" "pie limit 5"
try "choke limit 100 min 40 max 80 avpkt 500" "choke limit 5 min 1 max 4 avpkt 500"
try "red limit 100000 min 20000 max 60000 avpkt 500" "red limit 3000 min 500 max 2000 avpkt 500"
try "sfb limit 100" "sfb limit 5"
try "skbprio limit 100" "skbprio limit 5"
try "netem limit 100 delay 200s" "netem limit 5 delay 200s"
try "netem limit 100" "netem limit 5"
try "plug limit 100000" "plug limit 3000"
try "tbf rate 8bit burst 3000 limit 100000" "tbf rate 8bit burst 3000 limit 2000"
try "cbs" "cbs"
true
