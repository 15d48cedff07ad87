# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Devices with several transmit queues: what their qdiscs show and refuse.
exec 2>&1
cd "$(mktemp -d)"
c() { echo "+ $*"; "$@"; }
c ip link add d0 numtxqueues 4 numrxqueues 2 type dummy
c ip link set d0 address 02:00:00:00:00:01
ip -d link show d0 >d; sed 's/ numrxqueues 2//' d
c ip link set d0 up
c tc qdisc show
c ip link add d1 numtxqueues 0 type dummy
c ip link add d1 numtxqueues 4097 type dummy
c ip link add d1 numrxqueues 0 type dummy
c ip link add d1 numrxqueues 4097 type dummy
c ip link add v0 numtxqueues 3 numrxqueues 2 type veth peer name v1 numtxqueues 5
ip -d link show v0 >d; grep -o 'numtxqueues [0-9]*' d
ip -d link show v1 >d; grep -o 'numtxqueues [0-9]*' d

# mq
c tc qdisc add dev d0 root handle 1: mq
c tc -s qdisc show dev d0
c tc -s class show dev d0
c tc class show dev d0 classid 1:5
c tc qdisc add dev d0 root handle 1: mq
c tc qdisc change dev d0 root handle 1: mq
c tc qdisc add dev d0 parent 1:2 handle 20: pfifo limit 5
c tc qdisc add dev d0 parent 1:5 handle 50: pfifo limit 5
c tc qdisc add dev d0 parent 1:0 handle 50: pfifo limit 5
c tc qdisc add dev d0 parent 1:3 handle 30: prio
c tc qdisc add dev d0 parent 30:1 handle 31: bfifo limit 5000
c tc qdisc add dev d0 parent 1:4 handle 40: mq
c tc qdisc add dev d0 parent 1:4 handle 40: noqueue
c tc qdisc show dev d0
c tc class show dev d0
c tc class add dev d0 parent 1: classid 1:9 mq
c tc class del dev d0 classid 1:1
c tc filter add dev d0 parent 1: matchall action drop
c tc qdisc del dev d0 parent 1:1
c tc qdisc del dev d0 parent 1:2
c tc qdisc del dev d0 parent 1:2
c tc qdisc del dev d0 parent 1:3
c tc qdisc show dev d0
c tc class show dev d0
c ip link set d0 down
c tc qdisc show dev d0
c ip link set d0 up
c tc qdisc show dev d0
c tc qdisc del dev d0 root
c tc qdisc del dev d0 root
c tc qdisc show dev d0
c tc qdisc add dev d0 root mq
c tc qdisc show dev d0
c tc qdisc del dev d0 root
c ip link add i0 numtxqueues 3 type ifb
c tc qdisc show dev i0
c ip link set i0 up
c tc qdisc show dev i0
c tc class show dev i0
c tc qdisc del dev i0 root
c tc qdisc del dev i0 parent :1
c tc qdisc add dev i0 parent :1 handle 5: pfifo
c tc qdisc replace dev i0 root handle 7: pfifo limit 10
c tc qdisc show dev i0
c tc qdisc del dev i0 root
c tc qdisc show dev i0
c ip link add s0 type dummy
c ip link set s0 up
c tc qdisc add dev s0 root mq
c tc qdisc add dev s0 root multiq
c tc qdisc add dev s0 root mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 0
c tc qdisc add dev s0 root handle 1: prio
c tc qdisc add dev s0 parent 1:1 mq

# multiq
c tc qdisc add dev d0 root handle 2: multiq
c tc -s qdisc show dev d0
c tc -s class show dev d0
c tc qdisc add dev d0 parent 2:2 handle 20: pfifo limit 5
c tc qdisc add dev d0 parent 2:5 handle 50: pfifo limit 5
c tc class show dev d0
c tc qdisc del dev d0 parent 2:2
c tc class show dev d0
c tc qdisc del dev d0 parent 2:2
c tc qdisc change dev d0 root handle 2: multiq
c tc class show dev d0
c tc filter add dev d0 parent 2: prio 1 matchall action skbedit queue_mapping 1
c tc filter show dev d0
c tc qdisc replace dev d0 root handle 3: pfifo
c tc qdisc show dev d0
c tc qdisc del dev d0 root

# mqprio
c tc qdisc add dev d0 root handle 3: mqprio num_tc 3 map 0 1 2 0 0 1 1 2 queues 1@0 1@1 2@2 hw 0
c tc -s qdisc show dev d0
c tc class show dev d0
c tc -s class show dev d0 classid 3:ffe1
c tc -s class show dev d0 classid 3:ffe3
c tc qdisc add dev d0 parent 3:2 handle 20: pfifo limit 5
c tc qdisc add dev d0 parent 3:ffe0 handle 20: pfifo limit 5
c tc qdisc add dev d0 parent 3:5 handle 50: pfifo limit 5
c tc qdisc change dev d0 root handle 3: mqprio num_tc 3 map 0 1 2 0 0 1 1 2 queues 1@0 1@1 2@2 hw 0
c tc qdisc show dev d0
c tc class show dev d0
c tc qdisc del dev d0 root
c tc qdisc add dev d0 root mqprio num_tc 3 map 0 1 3 0 queues 1@0 1@1 2@2 hw 0
c tc qdisc add dev d0 root mqprio num_tc 3 map 0 1 2 0 queues 1@0 2@1 2@2 hw 0
c tc qdisc add dev d0 root mqprio num_tc 3 map 0 1 2 0 queues 1@0 1@1 3@2 hw 0
c tc qdisc add dev d0 root mqprio num_tc 3 map 0 1 2 0 queues 1@0 1@1 1@4 hw 0
c tc qdisc add dev d0 root mqprio num_tc 3 map 0 1 2 0 queues 1@0 1@1 0@2 hw 0
c tc qdisc add dev d0 root mqprio num_tc 17 map 0 1 2 0 queues 1@0 hw 0
c tc qdisc add dev d0 root mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 1
c tc qdisc add dev d0 root mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 0 mode channel
c tc qdisc add dev d0 root mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 1 mode channel shaper bw_rlimit min_rate 1Gbit 2Gbit
c tc qdisc add dev d0 parent 1:1 mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 0
c tc qdisc del dev d0 root
c tc qdisc show dev d0
c tc qdisc add dev i0 root handle 4: mqprio num_tc 1 map 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 queues 1@0 hw 0
c tc qdisc del dev i0 parent 4:ffe0
c tc qdisc show dev i0
c tc class show dev i0
