# Rate estimators of classes, and of actions created by filters.
! ip link add d0 type veth peer name pd0
! ip link set d0 txqueuelen 1000
! ip link set pd0 up
! ip link set d0 up
tc qdisc add dev d0 root handle 1: drr
tc class add dev d0 parent 1: classid 1:1 estimator 250ms 1s drr quantum 1500
tc class change dev d0 parent 1: classid 1:1 estimator 500ms 2s drr quantum 1500
tc filter add dev d0 parent 1: prio 1 matchall classid 1:1
tc qdisc replace dev d0 root handle 2: htb
tc class add dev d0 parent 2: classid 2:1 estimator 250ms 1s htb rate 80mbit
tc filter add dev d0 parent 2: prio 1 matchall classid 2:1
tc qdisc replace dev d0 root handle 3: hfsc default 1
tc class add dev d0 parent 3: classid 3:1 estimator 250ms 1s hfsc ls rate 80mbit
tc qdisc replace dev d0 root handle 4: ets bands 2 quanta 1500 1500
tc class change dev d0 parent 4: classid 4:1 estimator 250ms 1s ets quantum 1500
tc qdisc replace dev d0 root handle 5: qfq
tc class add dev d0 parent 5: classid 5:1 estimator 250ms 1s qfq
tc filter add dev d0 parent 5: prio 1 matchall classid 5:1
tc qdisc add dev d0 clsact
tc filter add dev d0 ingress prio 1 estimator 250ms 1s matchall action police avrate 800kbit conform-exceed drop/pass
tc filter replace dev d0 ingress prio 2 estimator 250ms 1s matchall action drop
tc filter add dev d0 ingress prio 3 matchall action police avrate 800kbit conform-exceed drop/pass
tc filter add dev d0 ingress prio 4 estimator 250ms 1s u32 match u32 0 0 police avrate 800kbit drop flowid 1:1
tc actions add action police avrate 800kbit conform-exceed drop index 7
