# Qdiscs and classes, for the tests of weir-tc.
! ip link add d0 type veth peer name pd0
! ip link add d1 type veth peer name pd1
! ip link set d0 txqueuelen 1000
! ip link set pd0 up
! ip link set d0 up
tc qdisc add dev d0 root handle 1: tbf rate 8mbit burst 3000 limit 100000
tc qdisc add dev d0 root handle 1: tbf rate 8mbit burst 20000 limit 100000 peakrate 16mbit mtu 2000
tc qdisc add dev d0 root handle 1: netem rate 8mbit
tc qdisc add dev d0 root handle 1: netem delay 10ms rate 8mbit 20 48 5
tc qdisc add dev d0 root handle 1: netem delay 10ms 3ms
tc qdisc add dev d0 root handle 1: netem delay 10ms 1ms distribution normal
tc qdisc add dev d0 root handle 1: netem loss random 10%
tc qdisc add dev d0 root handle 1: netem loss gemodel 5% 20%
tc qdisc add dev d0 root handle 1: netem loss state 5% 20%
tc qdisc add dev d0 root handle 1: netem duplicate 10%
tc qdisc add dev d0 root handle 1: netem corrupt 10%
tc qdisc add dev d0 root handle 1: netem delay 10ms reorder 25% gap 5
tc qdisc add dev d0 root handle 1: netem slot 10ms 10ms packets 3
tc qdisc add dev d0 root handle 1: htb default 12
tc class add dev d0 parent 1: classid 1:1 htb rate 10mbit burst 1600 cburst 1600
tc class add dev d0 parent 1:1 classid 1:11 htb rate 2mbit ceil 10mbit burst 1600 cburst 1600 prio 0
tc class add dev d0 parent 1:1 classid 1:12 htb rate 5mbit ceil 8mbit burst 3000 cburst 1600 prio 1
tc class add dev d0 parent 1:1 classid 1:13 htb rate 1mbit ceil 10mbit burst 1600 cburst 5000 prio 2
tc class add dev d0 parent 1:1 classid 1:14 htb rate 2mbit ceil 10mbit burst 1600 cburst 1600 prio 0 quantum 1000
tc class del dev d0 classid 1:11
tc qdisc add dev d0 parent 1:12 handle 12: pfifo limit 3
tc qdisc change dev d0 parent 1:12 handle 12: pfifo limit 1
tc qdisc del dev d0 parent 1:12
tc qdisc add dev d0 parent 1:12 handle 12: codel limit 100
tc qdisc change dev d0 parent 1:12 handle 12: codel limit 2
tc qdisc add dev d0 root handle 1: codel limit 10000
tc qdisc add dev d0 root handle 1: codel limit 10000 ecn
tc qdisc add dev d0 root handle 1: fq_codel limit 20 flows 256 quantum 1500
tc qdisc del dev d0 root
tc qdisc add dev d0 root handle 1: fq maxrate 8mbit quantum 1500 initial_quantum 1500
tc qdisc add dev d0 root handle 1: fq maxrate 400kbit
tc qdisc add dev d0 root handle 1: sfq limit 100 quantum 1500
tc qdisc add dev d0 root handle 1: red limit 400000 min 20000 max 60000 avpkt 1000 burst 30 bandwidth 8mbit probability 0.1
tc qdisc add dev d0 root handle 1: ets bands 3 strict 1 quanta 4000 1000
tc qdisc add dev d0 root handle 1: drr
tc class add dev d0 parent 1: classid 1:1 drr quantum 3000
tc class add dev d0 parent 1: classid 1:2 drr quantum 1000
tc qdisc add dev d0 root handle 1: plug limit 100000
tc qdisc change dev d0 root handle 1: plug release_indefinite
tc qdisc change dev d0 root handle 1: plug block
tc qdisc change dev d0 root handle 1: plug release
tc qdisc add dev d0 root handle 1: hfsc default 12
tc class add dev d0 parent 1: classid 1:1 hfsc sc rate 8mbit ul rate 8mbit
tc class add dev d0 parent 1:1 classid 1:11 hfsc rt m1 8mbit d 10ms m2 1mbit ls rate 2mbit
tc class add dev d0 parent 1:1 classid 1:12 hfsc ls rate 6mbit
tc qdisc add dev d0 parent 1:1 handle 10: codel limit 10000
tc qdisc add dev d0 root handle 1: tbf rate 8mbit burst 2000 limit 10000000
tc qdisc add dev d0 parent 1:1 handle 10: sfq limit 100 quantum 1500
tc qdisc add dev d0 parent 1:1 handle 10: red limit 400000 min 20000 max 60000 avpkt 1000 burst 30 bandwidth 8mbit probability 0.1
tc qdisc add dev d0 parent 1:1 handle 10: ets bands 3 strict 1 quanta 4000 1000
tc qdisc add dev d0 parent 1:1 handle 10: drr
tc class add dev d0 parent 10: classid 10:1 drr quantum 3000
tc class add dev d0 parent 10: classid 10:2 drr quantum 1000
tc qdisc add dev d0 parent 1:1 handle 10: fq_codel limit 1000 flows 256 quantum 1500
tc qdisc add dev d0 parent 1:1 handle 10: pie
tc qdisc add dev d0 parent 1:1 handle 10: fq_pie
tc qdisc add dev d0 parent 1:1 handle 10: choke limit 1000 min 20 max 60 burst 30 avpkt 1000 bandwidth 8mbit
tc qdisc add dev d0 parent 1:1 handle 10: skbprio
tc qdisc add dev d0 root handle 1: cbs hicredit 3000 locredit -10000 sendslope -8000 idleslope 2000
tc qdisc add dev d0 parent 1:1 handle 10: hhf admit_bytes 20000
tc qdisc add dev d0 parent 1:1 handle 10: sfb
tc qdisc add dev d0 root handle 1: tbf rate 8bit burst 2000 limit 10000000
tc qdisc add dev d0 parent 1:1 handle 10: qfq
tc class add dev d0 parent 10: classid 10:1 qfq weight 1
tc class add dev d0 parent 10: classid 10:2 qfq weight 10
tc class add dev d0 parent 10: classid 10:3 qfq weight 100
tc class add dev d0 parent 10: classid 10:4 qfq weight 1000
tc qdisc change dev d0 root handle 1: tbf rate 1gbit burst 2000 limit 10000000
tc class add dev d0 parent 10: classid 10:1 qfq weight 10 maxpkt 1500
tc class add dev d0 parent 10: classid 10:2 qfq weight 10 maxpkt 1500
tc class add dev d0 parent 10: classid 10:3 qfq weight 10 maxpkt 1500
tc class add dev d0 parent 10: classid 10:4 qfq weight 10 maxpkt 1500
tc class add dev d0 parent 10: classid 10:5 qfq weight 10 maxpkt 1500
tc class add dev d0 parent 10: classid 10:6 qfq weight 10 maxpkt 1500
tc class add dev d0 parent 10: classid 10:7 qfq weight 10 maxpkt 1500
tc class add dev d0 parent 10: classid 10:8 qfq weight 10 maxpkt 1500
tc class add dev d0 parent 10: classid 10:9 qfq weight 10 maxpkt 1500
tc class add dev d0 parent 10: classid 10:a qfq weight 10 maxpkt 1500
tc class add dev d0 parent 10: classid 10:b qfq weight 10 maxpkt 1500
tc class add dev d0 parent 10: classid 10:c qfq weight 10 maxpkt 1500
tc class add dev d0 parent 10: classid 10:1 qfq weight 50 maxpkt 600
tc class add dev d0 parent 10: classid 10:2 qfq weight 7
tc class add dev d0 parent 10: classid 10:3 qfq weight 300 maxpkt 1514
tc class add dev d0 parent 10: classid 10:4 qfq weight 7
tc class add dev d0 parent 10: classid 10:5 qfq weight 50 maxpkt 9000
tc qdisc change dev d0 root handle 1: tbf rate 8bit burst 2000 limit 10000000
tc class change dev d0 classid 10:3 qfq weight 3 maxpkt 1514
tc class change dev d0 classid 10:2 qfq weight 200 maxpkt 2000
tc class del dev d0 classid 10:4
tc qdisc add dev d0 parent 1:1 handle 10: gred setup vqs 4 default 0 limit 1000000
tc qdisc add dev d0 parent 1:1 handle 10: gred setup vqs 4 default 0 grio limit 1000000
tc qdisc change dev d0 parent 1:1 handle 10: gred limit 400000 DP 1 min 20000 max 60000 avpkt 1000 burst 75 bandwidth 8mbit probability 0.3 prio 2
tc qdisc change dev d0 parent 1:1 handle 10: gred limit 400000 DP 2 min 200000 max 390000 avpkt 1000 burst 270 bandwidth 8mbit probability 0.3 prio 1
tc qdisc change dev d0 parent 1:1 handle 10: gred limit 400000 DP 2 min 200000 max 390000 avpkt 1000 burst 270 bandwidth 8mbit probability 0.3 prio 2
tc qdisc change dev d0 parent 1:1 handle 10: gred limit 5000 DP 1 min 20000 max 60000 avpkt 1000 burst 30 bandwidth 8mbit probability 0.3
tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort flowblind rtt 1000s
tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort flowblind rtt 1000s overhead 20 mpu 200 atm
tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort flowblind rtt 1000s overhead 8 ptm
tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort flowblind
tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort flows
tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort dual-srchost
tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort srchost
tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort dual-dsthost
tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort
tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit
tc qdisc add dev d0 root handle 2: tbf rate 8mbit burst 2000 limit 10000000
tc qdisc add dev d0 parent 2:1 handle 1: cake
tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort rtt 1000s memlimit 100000
