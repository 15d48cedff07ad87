# ets: refused requests, stored options, classes.
ip link add d0 type dummy
ip link set d0 up
tc qdisc add dev d0 root handle 1: ets
tc qdisc add dev d0 root handle 1: ets bands 0
tc qdisc add dev d0 root handle 1: ets bands 17
tc qdisc add dev d0 root handle 1: ets bands 4 strict 5
tc qdisc add dev d0 root handle 1: ets strict 3 quanta 1000
tc qdisc show dev d0
tc class show dev d0
tc -s class show dev d0
tc -j qdisc show dev d0
tc -j class show dev d0
tc qdisc change dev d0 root handle 1: ets bands 3 strict 2 quanta 1000 2000
tc qdisc change dev d0 root handle 1: ets bands 3 strict 2 quanta 0
tc qdisc change dev d0 root handle 1: ets bands 3 strict 2 quanta 1
tc qdisc show dev d0
tc qdisc change dev d0 root handle 1: ets bands 3 strict 2 quanta 4000000
tc qdisc show dev d0
tc qdisc change dev d0 root handle 1: ets priomap 0 1 2
tc qdisc change dev d0 root handle 1: ets bands 3 priomap 0 1 3
tc qdisc change dev d0 root handle 1: ets bands 3 priomap 0 1 2 0 1 2 0 1 2 0 1 2 0 1 2 0
tc qdisc show dev d0
tc qdisc change dev d0 root handle 1: ets bands 3 priomap 0 1 2 0 1 2 0 1 2 0 1 2 0 1 2 0 1
tc qdisc change dev d0 root handle 1: ets
tc qdisc change dev d0 root handle 1: ets quanta 1000 2000 3000 4000 5000 6000 7000 8000 9000 10000 11000 12000 13000 14000 15000 16000
tc qdisc show dev d0
tc class show dev d0
tc qdisc change dev d0 root handle 1: ets quanta 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17
tc qdisc change dev d0 root handle 1: ets bands 5 strict 2 quanta 800
tc class show dev d0
tc class change dev d0 classid 1:1 ets quantum 900
tc class change dev d0 classid 1:3 ets quantum 900
tc class change dev d0 classid 1:4 ets quantum 1
tc class change dev d0 classid 1:5 ets quantum 4000000
tc class change dev d0 classid 1:5 ets
tc class change dev d0 classid 1:6 ets quantum 900
tc class add dev d0 parent 1: classid 1:6 ets quantum 900
tc class add dev d0 parent 1: classid 1:5 ets quantum 900
tc class replace dev d0 parent 1: classid 1:5 ets quantum 1900
tc class replace dev d0 parent 1: classid 1:7 ets quantum 1900
tc class change dev d0 parent 1:1 classid 1:5 ets quantum 1900
tc class add dev d0 parent 1: ets quantum 900
tc class add dev d0 root ets quantum 900
tc class del dev d0 classid 1:5
tc class del dev d0 classid 1:6
tc class show dev d0
tc class show dev d0 classid 1:3
tc class get dev d0 classid 1:3
tc class show dev d0 parent 1:
tc qdisc add dev d0 parent 1:1 handle 10: pfifo limit 5
tc qdisc add dev d0 parent 1:6 handle 16: pfifo limit 5
tc qdisc add dev d0 parent 1:1 handle 11: bfifo
tc qdisc replace dev d0 parent 1:1 handle 11: bfifo limit 5000
tc qdisc add dev d0 parent 1:5 handle 15: ets strict 2
tc qdisc add dev d0 parent 15:2 handle 25: fq_pie tupdate 20ms
tc qdisc add dev d0 parent 1:2 ingress
tc qdisc add dev d0 parent 1:2 clsact
tc qdisc show dev d0
tc class show dev d0
tc filter add dev d0 parent 1: protocol ip prio 1 u32 match ip dport 1 0xffff flowid 1:3
tc filter add dev d0 parent 1: protocol ip prio 1 u32 match ip dport 2 0xffff flowid 1:9
tc filter add dev d0 parent 1:2 protocol ip prio 1 u32 match ip dport 2 0xffff flowid 1:2
tc filter show dev d0
tc filter show dev d0 parent 1:
tc qdisc change dev d0 root handle 1: ets bands 2
tc filter show dev d0 parent 1:
tc qdisc show dev d0
tc class show dev d0
tc qdisc change dev d0 root handle 1: ets bands 6 strict 6
tc qdisc show dev d0
tc class change dev d0 classid 1:6 ets quantum 900
tc qdisc replace dev d0 root handle 1: ets bands 2
tc qdisc replace dev d0 root handle 2: ets bands 2
tc qdisc replace dev d0 root handle 2: prio
tc qdisc change dev d0 root handle 2: ets bands 2
tc qdisc replace dev d0 root ets strict 1
tc qdisc del dev d0 parent 8001:1
tc qdisc del dev d0 parent 8001:2
tc qdisc del dev d0 root
tc qdisc show dev d0
ip link set d0 mtu 200
tc qdisc add dev d0 root handle 1: ets bands 2
tc class show dev d0
tc qdisc change dev d0 root handle 1: ets bands 3 strict 1
tc class show dev d0
ip link set d0 mtu 9000
tc qdisc change dev d0 root handle 1: ets bands 3
tc class show dev d0
