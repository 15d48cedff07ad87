# Kinds missing from the other files, and qdiscs under classes of most kinds, for the request storms.
! ip link add d0 type veth peer name pd0
! ip link set d0 txqueuelen 1000
! ip link set pd0 up
! ip link set d0 up
tc qdisc add dev d0 root handle 1: pfifo limit 20
tc qdisc add dev d0 root handle 1: bfifo limit 9000
tc qdisc add dev d0 root handle 1: pfifo_head_drop limit 20
tc qdisc add dev d0 root handle 1: pfifo_fast
tc qdisc add dev d0 root handle 1: prio bands 4
tc qdisc add dev d0 root handle 1: prio bands 2 priomap 0 0 0 0 0 0 0 0 1 1 1 1 1 1 1 1
tc qdisc add dev d0 root handle 1: multiq
tc qdisc add dev d0 root handle 1: qfq
tc qdisc add dev d0 root handle 1: ets bands 4 strict 2 quanta 1000 3000
tc qdisc add dev d0 root handle 1: skbprio limit 30
tc qdisc add dev d0 root handle 1: choke limit 30 min 5 max 15 burst 5 avpkt 500 bandwidth 8mbit
tc qdisc add dev d0 root handle 1: hhf limit 30
tc qdisc add dev d0 root handle 1: sfb limit 30
tc qdisc add dev d0 root handle 1: fq_pie limit 30
tc qdisc add dev d0 root handle 1: noqueue
tc qdisc add dev d0 parent 1:1 handle 10: pfifo limit 5
tc qdisc add dev d0 parent 1:1 handle 10: pfifo limit 50
tc qdisc add dev d0 parent 1:1 handle 10: tbf rate 80kbit burst 2000 limit 20000
tc qdisc add dev d0 parent 1:2 handle 20: tbf rate 80kbit burst 2000 limit 9000
tc qdisc add dev d0 parent 1:2 handle 20: codel limit 7
tc qdisc add dev d0 parent 1:11 handle 20: sfq limit 30
tc qdisc add dev d0 parent 1:1 handle 10: fq limit 30
tc qdisc add dev d0 parent 1:1 handle 10: fq limit 5
tc qdisc add dev d0 parent 1:1 handle 10: fq_codel limit 5
tc qdisc add dev d0 parent 1:1 handle 10: netem limit 30 delay 20ms 5ms duplicate 20% corrupt 10% reorder 20%
tc qdisc add dev d0 parent 1:1 handle 10: netem limit 5 rate 800kbit
tc qdisc add dev d0 parent 1:1 handle 10: prio
tc qdisc add dev d0 parent 1:1 handle 10: hfsc default 1
tc qdisc add dev d0 parent 1:1 handle 10: htb default 1
tc qdisc add dev d0 parent 1:1 handle 10: plug limit 20000
tc qdisc add dev d0 parent 1:1 handle 10: cbs hicredit 3000 locredit -10000 sendslope -8000 idleslope 2000
tc qdisc add dev d0 parent 1:1 handle 10: etf clockid CLOCK_TAI delta 200000
tc qdisc add dev d0 parent 1:1 handle 10: cake bandwidth 800kbit memlimit 20000
tc qdisc add dev d0 parent 1:1 handle 10: skbprio limit 5
tc qdisc add dev d0 parent 1:1 handle 10: pie limit 5
tc qdisc add dev d0 parent 1:1 handle 10: fq_pie limit 5
tc qdisc add dev d0 parent 1:1 handle 10: hhf limit 5
tc qdisc add dev d0 parent 1:1 handle 10: choke limit 10 min 5 max 8 burst 5 avpkt 500 bandwidth 8mbit
tc qdisc add dev d0 parent 10:1 handle 30: tbf rate 80kbit burst 2000 limit 20000
tc qdisc add dev d0 parent 10:1 handle 30: pfifo limit 3
tc qdisc add dev d0 parent 30:1 handle 40: fq_codel limit 10
tc class add dev d0 parent 1: classid 1:1 drr quantum 700
tc class add dev d0 parent 1: classid 1:1 qfq weight 3
tc class add dev d0 parent 1: classid 1:2 qfq weight 30
tc class add dev d0 parent 10: classid 10:1 hfsc sc rate 800kbit ul rate 800kbit
tc class add dev d0 parent 10:1 classid 10:11 hfsc rt rate 400kbit ls rate 100kbit
tc class add dev d0 parent 10:1 classid 10:2 hfsc ls rate 100kbit
tc class add dev d0 parent 10: classid 10:1 htb rate 800kbit
tc class add dev d0 parent 10:1 classid 10:11 htb rate 400kbit ceil 800kbit
tc class add dev d0 parent 10:1 classid 10:2 htb rate 100kbit
tc class add dev d0 parent 10: classid 10:1 ets quantum 700
tc class del dev d0 classid 10:1
tc class del dev d0 classid 10:2
tc class del dev d0 classid 10:11
tc class del dev d0 classid 1:1
tc class del dev d0 classid 1:2
tc class del dev d0 classid 1:12
tc qdisc del dev d0 root
tc qdisc del dev d0 parent 1:1
tc qdisc del dev d0 parent 1:2
tc qdisc del dev d0 parent 10:1
tc qdisc del dev d0 parent 30:1
tc qdisc add dev d0 root handle 1: cake besteffort wash
tc qdisc add dev d0 root handle 1: cake besteffort
tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit fwmark 3
tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort flowblind ingress
tc qdisc add dev d0 root handle 1: cake bandwidth 100mbit autorate-ingress besteffort flowblind
tc qdisc add dev d0 root handle 1: cbq bandwidth 8mbit avpkt 1000
tc class add dev d0 parent 1: classid 1:1 cbq bandwidth 8mbit rate 2mbit allot 1500 prio 2 bounded avpkt 500
tc class add dev d0 parent 1:1 classid 1:11 cbq bandwidth 8mbit rate 1mbit allot 1500 prio 3 avpkt 500
tc class add dev d0 parent 1:1 classid 1:2 cbq bandwidth 8mbit rate 1mbit weight 1000 allot 300 prio 3 avpkt 500
tc class change dev d0 parent 1:1 classid 1:2 cbq bandwidth 8mbit rate 500kbit allot 600 prio 1 split 1:1 defmap 3
