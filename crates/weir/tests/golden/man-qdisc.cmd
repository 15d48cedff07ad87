# tc(8) and the manual pages of the qdiscs, option by option: the simple queues.
sysctl -qw net.ipv6.conf.all.disable_ipv6=1
ip link add d0 address 02:00:00:00:00:01 type dummy
ip link set d0 up
r() { tc qdisc replace dev d0 root handle 1: "$@" && tc -s -d qdisc show dev d0; }
x() { tc qdisc change dev d0 root handle 1: "$@" && tc -d qdisc show dev d0; }
j() { tc -s -d -j -p qdisc show dev d0; }
d() { tc qdisc del dev d0 root; }
r pfifo limit 7
x pfifo limit 8
x pfifo
x bfifo limit 8
r pfifo limit -1
r pfifo limit 4294967295
r pfifo limit 4294967296
r pfifo bogus
r pfifo limit
r bfifo limit 10kb
r bfifo limit 1mbit
j
r pfifo_head_drop limit 5
r pfifo_head_drop
x pfifo_head_drop limit 6
r pfifo_fast
r pfifo_fast bands 3
d
tc qdisc add dev d0 root handle 1: prio bands 5 priomap 4 3 2 1 0 0 0 0 1 1 1 1 2 2 2 2
tc -d qdisc show dev d0
j
x prio bands 2 priomap 0 1
x prio bands 1
x prio bands 17
x prio priomap 0 1 2 3
x prio multiqueue
tc -s class show dev d0
d
r tbf rate 1mbit burst 10kb latency 50ms
r tbf rate 1mbit burst 10kb/8 limit 20kb
r tbf rate 1mbit buffer 10kb limit 20kb peakrate 2mbit mtu 1540
r tbf rate 1mbit maxburst 10kb latency 10ms peakrate 2mbit minburst 1540 mpu 64 overhead 14 linklayer atm
j
r tbf rate 1mbit burst 10kb
r tbf rate 1mbit limit 10kb
r tbf burst 10kb limit 10kb
r tbf rate 1mbit burst 10kb limit 10kb latency 5ms
r tbf rate 1mbit burst 10kb limit 10kb peakrate 2mbit
r tbf rate bogus burst 10kb limit 10kb
r tbf rate 0 burst 10kb limit 10kb
r tbf rate 1mbit burst 10 limit 10kb
r tbf rate 10gbit burst 100kb limit 1mb
r tbf rate 100gbit burst 1mb latency 1ms
r tbf rate 1mbit burst 10kb limit 10kb linklayer bogus
x tbf rate 2mbit burst 5kb limit 5kb
tc class show dev d0
tc qdisc add dev d0 parent 1:1 handle 2: pfifo limit 3
tc qdisc show dev d0
x tbf rate 3mbit burst 5kb limit 5kb
d
r netem delay 10ms
r netem delay 10ms 5ms 25% distribution normal
r netem delay 10ms 5ms distribution pareto
r netem delay 10ms 5ms distribution bogus
r netem delay 10ms distribution normal
r netem loss 5%
r netem loss random 5% 10%
r netem loss state 5% 10% 20% 30% 1%
r netem loss gemodel 5% 10% 20% 1%
r netem loss gemodel 5%
r netem loss bogus 5%
r netem loss 105%
r netem duplicate 5% 3%
r netem corrupt 1% 2%
r netem delay 1ms reorder 25% 50% gap 5
r netem reorder 25%
r netem delay 1ms gap 3
r netem rate 1mbit
r netem rate 1mbit 10 20 30
r netem rate 1mbit -10
r netem slot 1ms 2ms packets 5 bytes 1000
r netem slot 1ms
r netem slot distribution normal 5ms 1ms
r netem slot distribution bogus 5ms 1ms
r netem limit 5 ecn loss 1%
r netem ecn
r netem limit 0
r netem delay bogus
r netem bogus
r netem
j
x netem delay 7ms loss 2%
tc class show dev d0
tc qdisc add dev d0 parent 1:1 handle 3: pfifo
d
r red limit 60kb min 15kb max 25kb avpkt 1000 burst 20 bandwidth 10mbit probability 0.1
r red limit 60kb min 15kb max 25kb avpkt 1000 burst 20 ecn harddrop adaptive
r red limit 60kb min 15kb max 25kb avpkt 1000 burst 20 ecn nodrop
r red limit 60kb min 15kb max 25kb avpkt 1000 burst 20 nodrop
r red limit 60kb avpkt 1000
r red limit 60kb min 15kb max 10kb avpkt 1000 burst 20
r red min 15kb max 25kb avpkt 1000
r red limit 60kb min 15kb max 25kb avpkt 1000 burst 2
r red limit 60kb min 15kb max 25kb avpkt 1000 burst 20 probability 2
j
x red limit 70kb min 15kb max 35kb avpkt 1000 burst 30
d
r choke limit 100 min 20 max 50 avpkt 1000 burst 30 bandwidth 10mbit probability 0.02 ecn
r choke limit 100 bandwidth 1mbit
r choke bandwidth 1mbit
r choke limit 100 min 60 max 50
j
d
r codel limit 500 target 10ms interval 200ms ecn ce_threshold 5ms
x codel noecn
r codel target 0
r codel bogus
j
d
r fq_codel limit 500 flows 256 target 10ms interval 200ms quantum 300 noecn ce_threshold 5ms memory_limit 1mb drop_batch 7 ce_threshold_selector 3/7
x fq_codel flows 512
x fq_codel quantum 100
x fq_codel ecn limit 600
r fq_codel flows 0
r fq_codel flows 70000
r fq_codel quantum bogus
j
tc -s class show dev d0
d
r sfq perturb 10 quantum 2000 limit 100 divisor 512 depth 50 flows 64 headdrop
r sfq redflowlimit 10kb min 1kb max 5kb probability 0.1 ecn burst 5 avpkt 1000 harddrop
r sfq divisor 500
r sfq quantum 1
r sfq perturb bogus
r sfq limit 100000
x sfq limit 50
x sfq divisor 256
j
d
