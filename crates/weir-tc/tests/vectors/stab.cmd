# Size tables and rate estimators.
! ip link add d0 type veth peer name pd0
! ip link add d1 type veth peer name pd1
! ip link set d0 txqueuelen 1000
! ip link set pd0 up
! ip link set d0 up
tc qdisc add dev d0 root handle 1: stab overhead 24 tbf rate 8mbit burst 2kb limit 1mb
tc qdisc change dev d0 root handle 1: tbf rate 8mbit burst 2kb limit 1mb
tc qdisc change dev d0 root handle 1: stab overhead 10 linklayer atm mtu 2048 tbf rate 8mbit burst 2kb limit 1mb
tc qdisc add dev d0 root handle 1: prio
tc qdisc add dev d0 parent 1:1 stab overhead 24 pfifo
tc qdisc add dev d0 root handle 1: estimator 250ms 1s pfifo limit 100
tc qdisc add dev d0 root handle 1: estimator 1s 8s pfifo limit 100
tc qdisc add dev d0 estimator 1s 8s clsact
