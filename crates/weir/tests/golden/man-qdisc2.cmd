# The manual pages of the qdiscs, option by option: fair queues, classful ones and several queues.
sysctl -qw net.ipv6.conf.all.disable_ipv6=1
ip link add d0 address 02:00:00:00:00:01 type dummy
ip link set d0 up
r() { tc qdisc replace dev d0 root handle 1: "$@" && tc -s -d qdisc show dev d0; }
x() { tc qdisc change dev d0 root handle 1: "$@" && tc -d qdisc show dev d0; }
c() { tc class replace dev d0 parent "$@" && tc -d class show dev d0; }
j() { tc -s -d -j -p qdisc show dev d0; }
d() { tc qdisc del dev d0 root; }
r fq limit 500 flow_limit 20 quantum 3000 initial_quantum 5000 maxrate 10mbit buckets 256 orphan_mask 511 refill_delay 20ms low_rate_threshold 1mbit ce_threshold 3ms timer_slack 5us horizon 2s horizon_drop
x fq nopacing horizon_cap
x fq pacing maxrate 1gbit
r fq buckets 100
r fq buckets bogus
r fq quantum 0
j
d
r pie limit 100 target 20ms tupdate 30ms alpha 5 beta 50 ecn bytemode dq_rate_estimator
x pie noecn nobytemode no_dq_rate_estimator
r pie alpha 100
r pie limit bogus
j
d
r hhf limit 500 quantum 1000 hh_limit 100 reset_timeout 20ms admit_bytes 10kb evict_timeout 1s non_hh_weight 3
x hhf limit 600
r hhf quantum 0
r hhf bogus
j
d
r sfb rehash 300s db 30s limit 500 max 20 target 10 increment 0.001 decrement 0.0001 penalty_rate 5 penalty_burst 6
r sfb max 5 target 10
j
d
r skbprio limit 7
x skbprio limit 8
r skbprio bogus
j
d
r cbs idleslope 98688 sendslope -901312 hicredit 153 locredit -1389
x cbs idleslope 98688 sendslope -901312 hicredit 154 locredit -1389 offload 0
r cbs idleslope 98688 sendslope -901312 hicredit 153 locredit -1389 offload 1
r cbs idleslope 98688
r cbs bogus
j
d
r etf clockid CLOCK_TAI delta 1000
r etf clockid CLOCK_TAI delta 1000 deadline_mode skip_sock_check
r etf clockid CLOCK_REALTIME delta 1000
r etf delta 1000
r etf clockid bogus
r etf clockid CLOCK_TAI delta 1000 offload
x etf clockid CLOCK_TAI delta 2000
j
d
r cake bandwidth 10mbit besteffort flows rtt 50ms noatm overhead 10 mpu 64 memlimit 1mb
r cake unlimited diffserv8 triple-isolate nat wash ingress ack-filter-aggressive split-gso
x cake diffserv4 dual-srchost nonat nowash egress no-ack-filter no-split-gso
x cake autorate-ingress fwmark 0xff00 internet
r cake bandwidth 1mbit ethernet ether-vlan
r cake docsis
r cake pppoe-ptm
r cake bogus
r cake bandwidth bogus
j
d
r drr
c 1: classid 1:1 drr
c 1: classid 1:2 drr quantum 3000
c 1: classid 1:2 drr quantum 0
c 1: classid 2:1 drr
c 1: classid 1:0 drr
c 1:1 classid 1:3 drr
tc -s -j class show dev d0
tc class del dev d0 classid 1:1
tc class del dev d0 classid 1:9
tc class change dev d0 classid 1:9 drr quantum 5
r drr bogus
d
r qfq
c 1: classid 1:1 qfq weight 10 maxpkt 2000
c 1: classid 1:2 qfq weight 1024
c 1: classid 1:3 qfq weight 1025
c 1: classid 1:3 qfq weight 0
c 1: classid 1:3 qfq maxpkt 100
c 1: classid 1:3 qfq maxpkt 100000
tc -s class show dev d0
d
d
r htb default 30 r2q 5 direct_qlen 50
r htb default 0x30
tc qdisc change dev d0 root handle 1: htb default 31
r htb bogus
c 1: classid 1:1 htb rate 10mbit ceil 20mbit burst 5kb cburst 6kb mtu 2000 mpu 64 overhead 20 linklayer atm prio 3 quantum 3000
c 1:1 classid 1:10 htb rate 5mbit
c 1:1 classid 1:11 htb rate 5mbit ceil 1mbit
c 1:1 classid 1:12 htb rate 0
c 1:1 classid 1:12 htb ceil 5mbit
c 1:1 classid 1:12 htb rate bogus
c 1:1 classid 1:12 htb rate 1mbit prio 8
c 1:1 classid 1:12 htb rate 1mbit burst 0
c 1:1 classid 1:12 htb rate 1mbit quantum 5
c 1:1 classid 1:12 htb rate 1mbit bogus
c 1:9 classid 1:12 htb rate 1mbit
c 1:1 classid 1:13 est 1s 4s htb rate 10gbit
c 1:1 classid 1:14 htb rate 8kbit
tc -s -d class show dev d0
tc -j -p class show dev d0
tc -g class show dev d0
tc -g -s class show dev d0
tc class show dev d0 root
tc class show dev d0 parent 1:1
tc class show dev d0 parent 1:
tc class show dev d0 classid 1:10
tc class show dev d0 bogus
tc class get dev d0 classid 1:10
tc class del dev d0 classid 1:1
tc class del dev d0 parent 1:1 classid 1:14
tc class del dev d0 classid 1:99
tc class del dev d0
tc class add dev d0 parent 1:1 classid 1:10 htb rate 1mbit
tc class add dev d0 parent 1:1 htb rate 1mbit
tc class add dev d0 classid 1:20 htb rate 1mbit
tc class add dev d0 parent 1:1 classid 1:21
tc class add dev d0 parent 1:1 classid 1:21 drr
tc class change dev d0 parent 1:1 classid 1:10 htb rate 6mbit ceil 7mbit
tc class change dev d0 parent 1: classid 1:10 htb rate 6mbit
tc class change dev d0 parent 1:1 classid 1:77 htb rate 6mbit
tc class replace dev d0 parent 1:10 classid 1:100 htb rate 1mbit
tc qdisc add dev d0 parent 1:10 handle 10: sfq
tc qdisc add dev d0 parent 1:100 handle 100: sfq
tc qdisc add dev d0 parent 1:55 handle 55: sfq
tc -g class show dev d0
tc qdisc show dev d0
tc qdisc show dev d0 parent 1:100
tc qdisc show dev d0 handle 100:
tc qdisc get dev d0 handle 100:
tc qdisc get dev d0 parent 1:100
tc qdisc del dev d0 parent 1:100
tc qdisc del dev d0 parent 1:100 handle 100:
tc qdisc del dev d0 handle 1:
tc qdisc change dev d0 parent 1:100 pfifo limit 5
tc qdisc link dev d0 parent 1:100 handle 10:
tc qdisc replace dev d0 parent 1:100 handle 1: pfifo
d
r hfsc default 10
c 1: classid 1:1 hfsc sc rate 1mbit ul rate 2mbit
c 1: classid 1:2 hfsc rt m1 2mbit d 10ms m2 1mbit
c 1: classid 1:3 hfsc ls umax 1500 dmax 10ms rate 1mbit
c 1:1 classid 1:4 hfsc ul rate 1mbit
c 1:1 classid 1:4 hfsc
c 1:1 classid 1:4 hfsc sc bogus
tc -s class show dev d0
tc class del dev d0 classid 1:1
x hfsc default 2
d
tc qdisc add dev d0 root handle 1: mq
tc qdisc add dev d0 root handle 1: mqprio
tc qdisc add dev d0 root handle 1: multiq
ip link add q0 numtxqueues 4 numrxqueues 4 address 02:00:00:00:00:02 type dummy
ip link set q0 up
tc qdisc show dev q0
tc qdisc add dev q0 root handle 1: mq
tc qdisc show dev q0
tc class show dev q0
tc -s class show dev q0
tc qdisc replace dev q0 parent 1:2 handle 2: fq_codel
tc qdisc show dev q0
tc qdisc del dev q0 parent 1:2
tc qdisc replace dev q0 root handle 1: mqprio num_tc 2 map 0 1 0 1 queues 2@0 2@2 hw 0
tc qdisc show dev q0
tc class show dev q0
tc qdisc replace dev q0 root handle 2: mqprio num_tc 3 map 0 1 2 queues 1@0 1@1 2@1 hw 0
tc qdisc del dev q0 root
tc qdisc add dev q0 root handle 1: multiq
tc -d qdisc show dev q0
tc class show dev q0
tc qdisc del dev q0 root
tc qdisc add dev q0 root handle 1: plug limit 1000
tc qdisc change dev q0 root handle 1: plug block
tc qdisc change dev q0 root handle 1: plug release_indefinite
tc qdisc show dev q0
tc qdisc del dev q0 root
tc qdisc add dev q0 stab mtu 1500 tsize 64 mpu 64 overhead 10 linklayer adsl root handle 1: pfifo
tc -d qdisc show dev q0
tc -s -d -j qdisc show dev q0
tc qdisc replace dev q0 stab bogus root handle 1: pfifo
tc qdisc replace dev q0 estimator 1s 4s root handle 2: pfifo
tc qdisc replace dev q0 estimator 1 root handle 2: pfifo
tc qdisc replace dev q0 root handle 2: estimator 1ms 4s pfifo
tc qdisc show dev q0
tc qdisc replace dev q0 root handle bogus: pfifo
tc qdisc replace dev q0 root parent 1:1 pfifo
tc qdisc replace dev q0 handle 3: pfifo
tc qdisc replace dev q0 root
tc qdisc replace dev q0
tc qdisc replace root pfifo
tc qdisc replace dev nosuch root pfifo
tc qdisc help
tc qdisc bogus
tc -N qdisc show dev q0
tc -o qdisc show dev q0
tc -t -d qdisc show dev q0
tc -c=never qdisc show dev q0
tc -n nosuch qdisc show
tc qdisc show dev lo
tc qdisc show dev nosuch
tc qdisc show ingress
tc qdisc show dev q0 root
