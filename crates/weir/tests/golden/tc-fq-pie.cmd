# fq_pie: refused requests and stored options. Times are multiples of a tick of the recorded Linux.
ip link add d0 type dummy
sysctl -qw net.ipv6.conf.d0.disable_ipv6=1
ip link set d0 up
tc qdisc add dev d0 root handle 1: fq_pie tupdate 20ms
tc qdisc show dev d0
tc -s qdisc show dev d0
tc -j qdisc show dev d0
tc -s -j qdisc show dev d0
tc class show dev d0
tc qdisc change dev d0 root handle 1: fq_pie limit 50
tc qdisc change dev d0 root handle 1: fq_pie limit 0
tc qdisc change dev d0 root handle 1: fq_pie flows 50
tc qdisc change dev d0 root handle 1: fq_pie flows 0
tc qdisc change dev d0 root handle 1: fq_pie flows 1024
tc qdisc show dev d0
tc qdisc change dev d0 root handle 1: fq_pie target 7ms tupdate 40ms
tc qdisc change dev d0 root handle 1: fq_pie target 0
tc qdisc change dev d0 root handle 1: fq_pie target 100s
tc qdisc show dev d0
tc qdisc change dev d0 root handle 1: fq_pie alpha 32 beta 32
tc qdisc change dev d0 root handle 1: fq_pie alpha 33 beta 40
tc qdisc change dev d0 root handle 1: fq_pie alpha 0 beta 0
tc qdisc show dev d0
tc qdisc change dev d0 root handle 1: fq_pie quantum 0
tc qdisc change dev d0 root handle 1: fq_pie quantum 1
tc qdisc show dev d0
tc qdisc change dev d0 root handle 1: fq_pie quantum 1048576
tc qdisc show dev d0
tc qdisc change dev d0 root handle 1: fq_pie quantum 1048577
tc qdisc change dev d0 root handle 1: fq_pie memory_limit 0
tc qdisc change dev d0 root handle 1: fq_pie memory_limit 10mb
tc qdisc change dev d0 root handle 1: fq_pie ecn_prob 0
tc qdisc change dev d0 root handle 1: fq_pie ecn_prob 101
tc qdisc show dev d0
tc qdisc change dev d0 root handle 1: fq_pie ecn bytemode dq_rate_estimator
tc qdisc show dev d0
tc -j qdisc show dev d0
tc -s qdisc show dev d0
tc qdisc change dev d0 root handle 1: fq_pie noecn nobytemode no_dq_rate_estimator
tc qdisc show dev d0
tc qdisc change dev d0 root handle 1: fq_pie
tc qdisc replace dev d0 root handle 3: fq_pie tupdate 20ms
tc qdisc replace dev d0 root handle 1: fq_pie limit 9
tc qdisc replace dev d0 root handle 2: fq_pie limit 9 tupdate 20ms
tc qdisc show dev d0
tc qdisc replace dev d0 root handle 3: fq_pie flows 0 tupdate 20ms
tc qdisc replace dev d0 root handle 3: fq_pie flows 65537
tc qdisc show dev d0
tc qdisc replace dev d0 root handle 3: fq_pie flows 65536 tupdate 20ms
tc qdisc show dev d0
tc qdisc replace dev d0 root handle 4: fq_pie flows 1 tupdate 20ms
tc qdisc replace dev d0 root handle 4: pie limit 5
tc qdisc add dev d0 parent 4:1 handle 5: pfifo
tc filter add dev d0 parent 4: protocol ip prio 1 u32 match ip dport 1 0xffff flowid 4:1
tc filter add dev d0 parent 4: protocol ip prio 1 matchall flowid 4:2
tc filter add dev d0 parent 4:1 protocol ip prio 1 matchall flowid 4:2
tc filter show dev d0 parent 4:
tc class add dev d0 parent 4: classid 4:1 fq_pie
tc class del dev d0 classid 4:1
tc qdisc del dev d0 root
ip link set d0 mtu 200
tc qdisc add dev d0 root handle 1: fq_pie tupdate 20ms
tc qdisc show dev d0
ip link set d0 mtu 2000000
tc qdisc replace dev d0 root handle 2: fq_pie tupdate 20ms
tc qdisc show dev d0
