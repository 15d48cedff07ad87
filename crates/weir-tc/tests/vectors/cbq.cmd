# Classes of cbq, for the tests of its scheduler.
! ip link add d0 type veth peer name pd0
! ip link set d0 txqueuelen 1000
! ip link set pd0 up
! ip link set d0 up
tc qdisc add dev d0 root handle 1: cbq bandwidth 100mbit avpkt 1000
tc qdisc add dev d0 root handle 1: cbq bandwidth 100mbit avpkt 1000 cell 16 ewma 7 mpu 64
tc qdisc add dev d0 root handle 1: cbq bandwidth 8mbit avpkt 1000
tc class add dev d0 parent 1: classid 1:1 cbq bandwidth 100mbit rate 8mbit allot 1500 prio 5 bounded isolated avpkt 1000
tc class add dev d0 parent 1: classid 1:1 cbq bandwidth 100mbit rate 8mbit allot 1500 prio 5 bounded isolated avpkt 1000 maxburst 10 minburst 2 minidle 100
tc class add dev d0 parent 1: classid 1:2 cbq bandwidth 100mbit rate 2mbit allot 1500 prio 5 bounded isolated avpkt 1000 maxburst 10
tc class add dev d0 parent 1:1 classid 1:11 cbq bandwidth 100mbit rate 2mbit allot 1500 prio 3 avpkt 1000 maxburst 10
tc class add dev d0 parent 1:1 classid 1:12 cbq bandwidth 100mbit rate 6mbit allot 1500 prio 3 avpkt 1000 maxburst 10
tc class add dev d0 parent 1:1 classid 1:13 cbq bandwidth 100mbit rate 2mbit allot 1500 prio 3 avpkt 1000 maxburst 10 bounded sharing
tc class add dev d0 parent 1:1 classid 1:14 cbq bandwidth 100mbit rate 6mbit allot 1500 prio 3 avpkt 1000 maxburst 10 bounded isolated
tc class add dev d0 parent 1:1 classid 1:15 cbq bandwidth 100mbit rate 80kbit weight 1 allot 1500 prio 1 avpkt 1000 maxburst 10
tc class add dev d0 parent 1:1 classid 1:16 cbq bandwidth 100mbit rate 80kbit weight 1 allot 1500 prio 4 avpkt 1000 maxburst 10
tc class add dev d0 parent 1:1 classid 1:17 cbq bandwidth 100mbit rate 80kbit weight 3 allot 1500 prio 4 avpkt 1000 maxburst 10
tc class add dev d0 parent 1:1 classid 1:18 cbq bandwidth 100mbit rate 2mbit allot 1500 prio 3 avpkt 1000 maxburst 10 split 1: defmap c0
tc class add dev d0 parent 1:1 classid 1:19 cbq bandwidth 100mbit rate 2mbit allot 1500 prio 3 avpkt 1000 maxburst 10 split 1:1 defmap 3f
tc class add dev d0 parent 1: cbq bandwidth 100mbit rate 2mbit allot 1500 prio 3 avpkt 1000
tc class add dev d0 parent 1:1 classid 1:16 estimator 250ms 1s cbq bandwidth 100mbit rate 80kbit weight 1 allot 1500 prio 4 avpkt 1000 maxburst 10
tc class change dev d0 parent 1: classid 1:1 cbq bandwidth 100mbit rate 4mbit allot 1500 prio 5 bounded isolated avpkt 1000 maxburst 10
tc class change dev d0 parent 1:1 classid 1:18 cbq bandwidth 100mbit rate 2mbit allot 1500 prio 3 split 1: defmap 40/ff
tc class change dev d0 parent 1:2 classid 1:18 cbq bandwidth 100mbit rate 2mbit allot 1500 prio 3
tc class add dev d0 parent 1:9 classid 1:20 cbq bandwidth 100mbit rate 2mbit allot 1500 prio 3 avpkt 1000
tc class add dev d0 parent 1: classid 2:20 cbq bandwidth 100mbit rate 2mbit allot 1500 prio 3 avpkt 1000
tc class del dev d0 classid 1:1
tc class del dev d0 classid 1:11
tc class del dev d0 classid 1:18
tc class del dev d0 classid 1:19
