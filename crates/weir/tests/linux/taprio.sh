# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The qdisc taprio: what it shows and refuses.
exec 2>&1
c() { echo "+ $*"; "$@"; }
c ip link add d0 numtxqueues 4 type dummy
c ip link set d0 up
c ip link add s0 type dummy
c ip link set s0 up
T="queues 1@0 1@1 2@2 base-time 4000000000000000000"
M="num_tc 3 map 2 2 1 0 2 2 2 2 2 2 2 2 2 2 2 2"
S="sched-entry S 01 300000 sched-entry S 03 300000 sched-entry S 04 400000"
c tc qdisc add dev s0 root handle 8: taprio $M $T $S clockid CLOCK_TAI
c tc qdisc add dev d0 root handle 1: prio
c tc qdisc add dev d0 parent 1:1 taprio $M $T $S clockid CLOCK_TAI
c tc qdisc del dev d0 root
c tc qdisc add dev d0 root handle 8: taprio $M $T $S clockid CLOCK_TAI
c tc -s qdisc show dev d0
c tc -s class show dev d0
c tc qdisc change dev d0 root handle 8: taprio $S clockid CLOCK_TAI base-time 4100000000000000000 cycle-time 900000 cycle-time-extension 5000
c tc qdisc show dev d0
c tc qdisc change dev d0 root handle 8: taprio $S clockid CLOCK_MONOTONIC base-time 4100000000000000000
c tc qdisc change dev d0 root handle 8: taprio $S clockid CLOCK_TAI flags 0x1
c tc qdisc change dev d0 root handle 8: taprio num_tc 2 map 0 1 queues 1@0 1@1 $S clockid CLOCK_TAI
c tc qdisc change dev d0 root handle 8: taprio $S clockid CLOCK_TAI cycle-time 100
c tc qdisc change dev d0 root handle 8: taprio sched-entry S 01 47999 clockid CLOCK_TAI
c tc qdisc change dev d0 root handle 8: taprio clockid CLOCK_TAI
c tc qdisc show dev d0
c tc qdisc del dev d0 root
c tc qdisc show dev d0
c tc qdisc add dev d0 root handle 8: taprio $S clockid CLOCK_TAI
c tc qdisc add dev d0 root handle 8: taprio $M queues 1@0 1@1 2@2 clockid CLOCK_TAI
c tc qdisc add dev d0 root handle 8: taprio $M queues 1@0 1@1 2@2 $S
c tc qdisc add dev d0 root handle 8: taprio $M queues 1@0 1@1 2@3 $S clockid CLOCK_TAI
c tc qdisc add dev d0 root handle 8: taprio $M queues 1@0 2@1 2@2 $S clockid CLOCK_TAI
c tc qdisc add dev d0 root handle 8: taprio num_tc 3 map 3 2 1 0 2 2 2 2 2 2 2 2 2 2 2 2 queues 1@0 1@1 2@2 $S clockid CLOCK_TAI
c tc qdisc add dev d0 root handle 8: taprio num_tc 5 map 0 1 2 3 4 queues 1@0 1@1 1@2 1@3 1@4 $S clockid CLOCK_TAI
c tc qdisc add dev d0 root handle 8: taprio $M $T $S clockid CLOCK_TAI cycle-time 4294967296
c tc qdisc add dev d0 root handle 8: taprio $M $T $S clockid CLOCK_TAI flags 0x3
c tc qdisc add dev d0 root handle 8: taprio $M $T $S clockid CLOCK_TAI flags 0x2
c tc qdisc add dev d0 root handle 8: taprio $M $T $S flags 0x2
c tc qdisc add dev d0 root handle 8: taprio $M $T $S clockid CLOCK_TAI txtime-delay 500000
c tc qdisc add dev d0 root handle 8: taprio $M queues 1@0 1@0 1@0 base-time 1000000000 $S flags 0x1 txtime-delay 500000 clockid CLOCK_TAI
c tc qdisc show dev d0
c tc qdisc change dev d0 root handle 8: taprio base-time 1000000000 $S flags 0x1 clockid CLOCK_TAI
c tc qdisc show dev d0
c tc qdisc del dev d0 root
c ip link add v2 numtxqueues 4 type veth peer name v3
c tc qdisc add dev v2 root handle 8: taprio $M $T $S clockid CLOCK_TAI
c tc qdisc show dev v2
c tc qdisc change dev v2 root handle 8: taprio sched-entry S 01 47 clockid CLOCK_TAI
c tc qdisc change dev v2 root handle 8: taprio sched-entry S 01 48 base-time 4000000000000000000 clockid CLOCK_TAI
c tc qdisc show dev v2
