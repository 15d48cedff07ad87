ip link add d0 address 02:00:00:00:00:01 type dummy
ip link set d0 up
tc qdisc replace dev d0 root tbf rate 0 burst 1000 limit 1000
tc qdisc replace dev d0 root tbf rate 1mbit burst 0 limit 1000
tc qdisc replace dev d0 root tbf rate 1mbit burst 1000 limit 0
tc qdisc replace dev d0 root tbf rate 1mbit burst 1000
tc qdisc replace dev d0 root tbf rate 2mbit burst 2000 limit 1000 peakrate 1mbit mtu 1500
tc qdisc replace dev d0 root tbf rate 1mbit burst 2000 limit 1000 peakrate 2mbit
tc qdisc replace dev d0 root tbf rate 1mbit burst 10 limit 1000
tc qdisc replace dev d0 root fq quantum 0
tc qdisc replace dev d0 root fq quantum 2000000
tc qdisc replace dev d0 root fq buckets 0
tc qdisc replace dev d0 root fq_codel quantum 2000000
tc qdisc replace dev d0 root fq_codel flows 0
tc qdisc replace dev d0 root fq_codel flows 65537
tc qdisc replace dev d0 root sfq limit 1
tc qdisc replace dev d0 root sfq divisor 3
tc qdisc replace dev d0 root sfq redflowlimit 10000 min 5000 max 1000 avpkt 500
tc qdisc replace dev d0 root red limit 1000 min 5000 max 1000 avpkt 500
tc qdisc replace dev d0 root red limit 0 min 1000 max 5000 avpkt 500
tc qdisc replace dev d0 root choke limit 100 min 80 max 60
tc qdisc replace dev d0 root netem delay 10ms 1ms distribution nosuch
tc qdisc replace dev d0 root netem delay 10ms distribution normal
tc qdisc replace dev d0 root netem loss 101%
tc qdisc replace dev d0 root netem loss nosuch 1%
tc qdisc replace dev d0 root netem slot 2ms 1ms
tc qdisc replace dev d0 root netem reorder 10%
tc qdisc replace dev d0 root netem corrupt 200%
tc qdisc replace dev d0 root netem rate -1
tc qdisc replace dev d0 root ets bands 17
tc qdisc replace dev d0 root ets bands 2 quanta 0 0
tc qdisc replace dev d0 root ets bands 2 strict 3
tc qdisc replace dev d0 root hhf quantum 0
tc qdisc replace dev d0 root cbs hicredit 1 locredit -1 sendslope 1 idleslope -1
tc qdisc replace dev d0 root etf clockid CLOCK_REALTIME delta 1
tc qdisc replace dev d0 root etf clockid CLOCK_TAI delta -1
tc qdisc replace dev d0 root plug limit -1
tc qdisc replace dev d0 root pfifo limit -1
tc qdisc show dev d0
tc qdisc replace dev d0 root handle 1: codel limit 0
tc qdisc replace dev d0 root handle 1: pie limit 0
tc qdisc replace dev d0 root handle 1: fq_codel limit 0
tc qdisc replace dev d0 root handle 1: fq limit 0
tc qdisc replace dev d0 root handle 1: netem limit 0
tc qdisc replace dev d0 root handle 1: skbprio limit 0
tc qdisc replace dev d0 root handle 1: bfifo limit 0
tc qdisc replace dev d0 root handle 1: sfq limit 0
tc qdisc replace dev d0 root handle 1: fq_codel target 0 interval 0
tc qdisc change dev d0 root handle 1: fq_codel flows 5
tc qdisc change dev d0 root handle 2: fq_codel limit 5
tc qdisc change dev d0 root handle 1: codel limit 5
tc qdisc show dev d0
