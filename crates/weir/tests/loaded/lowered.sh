# SPDX-License-Identifier: Apache-2.0 OR MIT
# Limits lowered below the backlog, for kinds that drop the packets that would leave next: their
# counters and those of the qdisc above. Linux 6.1 miscounts the remaining backlog, also above hhf,
# so it is not shown. Its output on Linux 6.1 is lowered.txt beside it; record makes it.
. "$(dirname "$0")/common.sh"
# The arguments are KIND and its options, its options while packets wait in it, and the hidden
# counters.
lower() {
    behind 2000 $1
    burst
    c tc qdisc change dev d0 parent 1:1 handle 10: $2
    show | head -n 6 | grep -v "${3-^$}"
    tc qdisc del dev d0 root
}
lower "fq limit 100" "fq limit 5"
lower "fq limit 100 quantum 300 initial_quantum 300" "fq limit 5 quantum 300"
lower "fq limit 100 quantum 1000 initial_quantum 500" "fq limit 1"
lower "fq_codel limit 100" "fq_codel limit 5"
lower "hhf limit 100" "hhf limit 5" backlog
true
