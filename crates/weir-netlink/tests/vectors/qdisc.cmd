! ip link add d0 type veth peer name pd0
! ip link set d0 up
tc qdisc add dev d0 root pfifo limit 100
tc qdisc replace dev d0 root bfifo limit 100000
tc qdisc add dev d0 ingress
tc qdisc del dev d0 ingress
tc qdisc add dev d0 clsact
tc qdisc add dev d0 ingress_block 7 egress_block 8 clsact
tc qdisc replace dev d0 root handle 1: prio bands 4 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1
tc qdisc add dev d0 parent 1:1 handle 10: tbf rate 1mbit burst 32kbit latency 400ms
tc qdisc replace dev d0 root handle 1: htb default 30 r2q 20
tc class add dev d0 parent 1: classid 1:1 htb rate 100mbit ceil 200mbit burst 15k prio 2
tc class change dev d0 parent 1: classid 1:1 htb rate 10gbit quantum 60000
tc class show dev d0
tc class del dev d0 classid 1:1
tc qdisc replace dev d0 root fq limit 5000 flow_limit 50 quantum 3028 maxrate 1gbit horizon 5s
tc qdisc replace dev d0 root fq_codel limit 2048 target 4ms interval 90ms ecn ce_threshold 1ms memory_limit 8Mb
tc qdisc replace dev d0 root netem delay 10ms 2ms 25% loss 1% duplicate 2% reorder 5% 50% corrupt 0.1% rate 1mbit limit 500
tc qdisc replace dev d0 root sfq perturb 10 quantum 1514
tc qdisc replace dev d0 root red limit 400000 min 30000 max 90000 avpkt 1000 burst 55 ecn bandwidth 10mbit
tc qdisc replace dev d0 root cake bandwidth 20mbit diffserv4 nat
tc qdisc replace dev d0 root drr
tc qdisc replace dev d0 root stab overhead 20 linklayer ethernet pfifo
tc qdisc replace dev d0 root hfsc default 1
tc qdisc replace dev d0 root codel
tc qdisc replace dev d0 root mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 0
tc qdisc replace dev d0 root noqueue
tc qdisc replace dev d0 root estimator 1s 4s pfifo
tc qdisc show
tc -s qdisc show dev d0
tc qdisc show dev d0 ingress
tc qdisc del dev d0 root
