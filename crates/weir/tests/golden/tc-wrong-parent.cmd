ip link add d0 address 02:00:00:00:00:01 type dummy
ip link set d0 up
tc qdisc add dev d0 root handle 1: prio
tc qdisc add dev d0 parent 1:1 handle 2: prio
tc qdisc add dev d0 parent 2:1 handle 1: prio
tc qdisc replace dev d0 parent 2:1 handle 1: prio
tc qdisc replace dev d0 parent 2:1 handle 2: prio
tc qdisc add dev d0 parent 1:1 handle 1: prio
tc qdisc add dev d0 parent 1:1 handle 2: pfifo
tc qdisc add dev d0 parent 1:4 handle 3: pfifo
tc qdisc add dev d0 parent 1:0 handle 3: pfifo
tc qdisc add dev d0 parent 3:1 handle 3: pfifo
tc qdisc change dev d0 parent 1:2 handle 2: prio
tc class add dev d0 parent 1: classid 1:5 prio
tc class del dev d0 classid 1:1
tc class del dev d0 classid 1:9
tc qdisc del dev d0 parent 1:9
tc qdisc show dev d0
tc qdisc replace dev d0 root handle 1: prio bands 1
tc qdisc replace dev d0 root handle 1: prio bands 17
tc qdisc replace dev d0 root handle 1: prio bands 2 priomap 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2
tc qdisc show dev d0
tc qdisc del dev d0 root
tc qdisc add dev d0 root handle 1: hfsc default 1
tc class add dev d0 parent 1: classid 1:1 hfsc ul rate 1mbit
tc class add dev d0 parent 1: classid 1:1 hfsc
tc class add dev d0 parent 1:7 classid 1:1 hfsc sc rate 1mbit
tc class add dev d0 parent 1: classid 1:1 hfsc sc rate 1mbit
tc class add dev d0 parent 1:1 classid 1:2 hfsc sc rate 1mbit
tc class change dev d0 parent 1:2 classid 1:1 hfsc sc rate 1mbit
tc class del dev d0 classid 1:1
tc class show dev d0
tc qdisc del dev d0 root
tc qdisc add dev d0 root handle 1: drr
tc class add dev d0 parent 1: classid 1:1 drr quantum 0
tc class add dev d0 parent 1: classid 1:1 drr
tc class add dev d0 parent 1:1 classid 1:2 drr
tc class del dev d0 classid 1:7
tc class show dev d0
tc qdisc del dev d0 root
# The builtin qdisc, before one is added and after it is deleted.
ip link add d1 address 02:00:00:00:00:02 type dummy
tc qdisc del dev d1 root handle 2:
tc qdisc del dev d1 root fq
tc qdisc del dev d1 root
tc qdisc del dev d1 ingress
tc qdisc del dev d1 parent ffff:fff1 handle 8001:
tc qdisc add dev d1 ingress
tc qdisc del dev d1 ingress
tc qdisc del dev d1 ingress
tc qdisc del dev d1 parent ffff:fff1 handle 8001:
tc qdisc del dev d1 parent ffff:fff1
