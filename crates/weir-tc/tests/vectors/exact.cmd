# Configurations for the comparison of weir-tc's qdiscs with slow oracles.
! ip link add d0 type veth peer name pd0
! ip link add d1 type veth peer name pd1
! ip link set d0 txqueuelen 1000
! ip link set pd0 up
! ip link set d0 up
tc qdisc add dev d0 root handle 1: codel limit 200 target 4ms interval 50ms
tc qdisc add dev d0 root handle 1: codel limit 200 target 4ms interval 50ms ecn ce_threshold 20ms
tc qdisc add dev d0 root handle 1: fq_codel limit 120 flows 16 quantum 700 target 4ms interval 50ms drop_batch 8 noecn
tc qdisc add dev d0 root handle 1: red limit 90000 min 10000 max 40000 avpkt 700 burst 20 bandwidth 8mbit probability 0.05
tc qdisc add dev d0 root handle 1: red limit 90000 min 10000 max 40000 avpkt 700 burst 20 bandwidth 8mbit probability 0.02 adaptive
tc qdisc add dev d0 root handle 1: sfq limit 60 depth 20 divisor 16 quantum 700
tc qdisc add dev d0 root handle 1: sfq limit 60 depth 20 divisor 16 quantum 700 headdrop
tc qdisc add dev d0 root handle 1: sfq limit 400 depth 100 divisor 16 quantum 700 redflowlimit 60000 min 3000 max 9000 avpkt 600 burst 7 probability 0.1
tc qdisc add dev d0 root handle 1: sfq limit 400 depth 100 divisor 16 quantum 700 headdrop redflowlimit 60000 min 3000 max 9000 avpkt 600 burst 7 probability 0.1
tc qdisc add dev d0 root handle 1: pie limit 300 target 10ms tupdate 15ms
tc qdisc add dev d0 root handle 1: pie limit 300 target 10ms tupdate 15ms bytemode
tc qdisc add dev d0 root handle 1: fq maxrate 8mbit low_rate_threshold 10mbit
tc qdisc add dev d0 root handle 1: fq maxrate 400kbit orphan_mask 3
tc qdisc add dev d0 root handle 1: fq maxrate 8mbit ce_threshold 4ms
tc qdisc add dev d0 root handle 1: fq horizon 50ms horizon_drop
tc qdisc add dev d0 root handle 1: fq horizon 50ms horizon_cap
tc qdisc add dev d0 root handle 1: fq horizon 50ms horizon_cap ce_threshold 4ms
tc qdisc add dev d0 root handle 1: etf clockid CLOCK_TAI delta 200000
tc qdisc add dev d0 root handle 1: etf clockid CLOCK_TAI delta 200000 deadline_mode
tc qdisc add dev d0 root handle 1: etf clockid CLOCK_TAI delta 200000 skip_sock_check
tc qdisc add dev d0 root handle 1: netem delay 100ms 10ms distribution normal
tc qdisc add dev d0 root handle 1: netem delay 100ms 10ms distribution pareto
tc qdisc add dev d0 root handle 1: netem delay 100ms 10ms distribution paretonormal
tc qdisc add dev d0 root handle 1: netem delay 100ms 10ms distribution experimental
tc qdisc add dev d0 root handle 1: netem delay 100ms 10ms 50%
tc qdisc add dev d0 root handle 1: netem loss random 10% 50%
tc qdisc add dev d0 root handle 1: netem loss state 2% 30% 20% 40% 1%
tc qdisc add dev d0 root handle 1: netem loss gemodel 2% 20% 70% 1%
tc qdisc add dev d0 root handle 1: netem loss random 0% 50% duplicate 10% 30%
tc qdisc add dev d0 root handle 1: netem corrupt 10% 40%
tc qdisc add dev d0 root handle 1: netem delay 10ms reorder 25% 50% gap 5
tc qdisc add dev d0 root handle 1: netem delay 10ms reorder 40%
tc qdisc add dev d0 root handle 1: netem slot distribution normal 10ms 1ms packets 5
tc qdisc add dev d0 root handle 1: netem slot 5ms 15ms bytes 3000
tc qdisc add dev d0 root handle 1: netem rate 8mbit 30 53 -5
tc qdisc add dev d0 root handle 1: netem limit 5000 delay 10s 2s 50%
tc qdisc add dev d0 root handle 1: fq_pie limit 300 flows 16 target 10ms tupdate 15ms quantum 700 memory_limit 200000
tc qdisc add dev d0 root handle 1: fq_pie limit 300 flows 16 target 10ms tupdate 15ms quantum 700 memory_limit 200000 ecn ecn_prob 5 bytemode
# Limits low enough to be reached before any other drop.
tc qdisc add dev d0 root handle 1: choke limit 30 min 20 max 29 burst 60 avpkt 500 bandwidth 8mbit
tc qdisc add dev d0 root handle 1: fq limit 30
tc qdisc add dev d0 root handle 1: gred setup vqs 4 default 0 limit 9000
tc qdisc add dev d0 root handle 1: netem limit 30
tc qdisc change dev d0 root handle 1: fq_pie tupdate 40ms
tc qdisc change dev d0 root handle 1: fq_pie limit 20
# Under the classes of the htb above.
tc qdisc add dev d0 parent 1:11 handle 11: tbf rate 800kbit burst 2000 limit 30000
tc qdisc add dev d0 parent 1:12 handle 12: netem limit 50 delay 1ms duplicate 30%
tc qdisc add dev d0 parent 1:13 handle 13: pfifo limit 8
tc qdisc add dev d0 parent 1:14 handle 14: tbf rate 1600kbit burst 9000 limit 30000
