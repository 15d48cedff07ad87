# The requests of src/control/tests.rs. d0 is index 3, d1 index 5.
! ip link add d0 type veth peer name pd0
! ip link add d1 type veth peer name pd1
tc qdisc add dev d0 clsact
tc qdisc add dev d0 ingress
tc qdisc add dev d0 ingress_block 22 egress_block 23 clsact
tc qdisc del dev d0 clsact
tc qdisc del dev d0 ingress
tc qdisc add dev d0 handle 1: root pfifo limit 10
tc qdisc add dev d0 handle 1: root bfifo
tc qdisc replace dev d0 handle 1: root bfifo limit 3000b
tc qdisc replace dev d0 handle 1: root pfifo limit 30
tc qdisc change dev d0 handle 1: root pfifo limit 20
tc qdisc del dev d0 handle 1: root
tc qdisc add dev d0 root handle 1: prio
tc qdisc add dev d0 parent 1:2 handle 20: pfifo limit 5
tc qdisc del dev d0 parent 1:2 handle 20:
tc qdisc add dev d0 root pfifo
tc qdisc add dev d0 root nosuch
tc qdisc show
tc qdisc show dev d0 invisible
tc class show dev d0
tc filter add dev d0 ingress matchall action drop
tc filter add dev d0 ingress protocol ip flower dst_ip 192.0.2.0/24 action drop
tc filter add dev d0 ingress protocol ip flower dst_ip 192.0.2.1 action pass
tc filter add dev d0 ingress protocol ip prio 7 handle 5 flower dst_ip 192.0.2.1 action pass
tc filter replace dev d0 ingress protocol ip prio 7 handle 5 flower dst_ip 192.0.2.2 action drop
tc filter change dev d0 ingress protocol ip prio 7 handle 9 flower dst_ip 192.0.2.2 action drop
tc filter del dev d0 ingress protocol ip prio 7 handle 5 flower
tc filter del dev d0 ingress protocol ip prio 7 handle 6 flower
tc filter del dev d0 ingress protocol ip prio 7
tc filter del dev d0 ingress
tc filter del dev d0 ingress chain 9
tc filter get dev d0 ingress protocol ip prio 7 handle 5 flower
tc filter add dev d0 ingress protocol ip prio 7 u32 match u32 0 0
tc filter add dev d0 ingress protocol ipv6 prio 7 flower action pass
tc filter add dev d0 ingress protocol ip prio 7 matchall action pass
tc filter add dev d0 egress protocol all prio 1 matchall action pass
tc filter add dev d1 ingress protocol all prio 1 matchall action pass
tc filter add dev d0 parent 1: protocol all prio 1 matchall classid 1:3 action pass
tc filter add dev d0 parent 1: protocol ip prio 1 matchall
tc filter add dev d0 ingress chain 5 protocol ip prio 1 flower dst_ip 10.0.0.1 action drop
tc filter add dev d0 ingress protocol ip prio 1 flower action goto chain 5
tc filter add dev d0 ingress protocol ip prio 2 flower skip_sw dst_ip 10.0.0.1 action drop
tc filter add dev d0 ingress protocol ip prio 2 flower skip_hw dst_ip 10.0.0.1 action drop
tc filter add dev d0 ingress protocol ip prio 2 flower ct_state +trk action drop
tc filter add block 22 protocol ip prio 1 flower dst_ip 192.0.2.9 action drop
tc filter show dev d0 ingress
tc -br filter show dev d0 ingress
tc filter show dev d0 ingress chain 5
tc chain add dev d0 ingress chain 5
tc chain add dev d0 ingress chain 6 protocol ip flower dst_ip 0.0.0.0/8
tc chain add dev d0 ingress chain 7 protocol ip matchall
tc filter add dev d0 ingress chain 6 protocol ip prio 1 flower dst_ip 10.0.0.0/8 action drop
tc filter add dev d0 ingress chain 6 protocol ip prio 1 flower dst_ip 10.1.0.0/16 action drop
tc filter add dev d0 ingress chain 6 protocol ip prio 1 matchall action drop
tc chain show dev d0 ingress
tc chain get dev d0 ingress chain 6
tc chain del dev d0 ingress chain 6
tc actions add action pass index 8
tc actions add action drop index 8
tc actions replace action drop index 8
tc actions add action pass random determ drop 3 index 9 cookie aabbcc
tc actions add action pass random netrand drop 3 index 10 no_percpu
tc actions add action goto chain 5
tc actions add action pass random determ goto chain 1 2 index 90
tc actions add action pass skip_sw
tc actions add action continue skip_sw
tc actions add action nat ingress 192.0.2.1 192.0.2.2 skip_sw
tc actions add action pedit munge ip ttl set 3 skip_sw
tc actions add action police rate 1mbit burst 10k conform-exceed reclassify skip_sw
tc actions add action police rate 1mbit burst 10k conform-exceed drop/pipe skip_sw
tc actions add action mpls dec_ttl skip_sw
tc actions add action mpls pop protocol ip skip_sw
tc actions add action skbedit mark 3 skip_sw
tc actions add action skbedit mark 3 priority 4 skip_sw
tc actions add action skbedit queue_mapping 3 skip_sw
tc actions add action vlan pop skip_sw
tc actions add action csum ip skip_sw
tc actions add action pass action drop action continue
tc actions add action mirred egress redirect dev d1 index 1
tc actions add action mirred ingress mirror dev d1 pipe index 2
tc actions get action gact index 8
tc actions get action gact index 9
tc actions get action gact index 10
tc actions get action mirred index 1
tc actions get action gact index 8888
tc actions list action gact
tc -br actions list action gact
tc actions list action gact since 1000
tc actions del action gact index 8
tc actions flush action gact
tc filter add dev d0 ingress protocol all prio 1 handle 0x1234 matchall action gact index 8
tc filter add dev d0 ingress protocol all prio 9 matchall action pipe action mirred egress mirror dev d1 action drop
tc actions add action police rate 1mbit burst 10k mtu 2000 conform-exceed drop/pipe index 7
tc actions get action police index 7
tc actions add action police pkts_rate 1000 pkts_burst 10 index 8
tc actions list action police
tc chain add dev d0 ingress chain 8 protocol ip flower dst_ip 0.0.0.0/0
tc filter replace dev d0 ingress protocol ip prio 7 handle 5 flower src_ip 192.0.2.2 action drop
tc filter add dev d0 ingress protocol ip prio 7 flower ip_proto tcp dst_port 10-20 action drop
tc filter add dev d0 ingress protocol ip prio 7 flower ip_proto tcp dst_port 15-30 action pass
tc filter add dev d0 egress protocol ip flower src_ip 192.0.2.1 action mirred egress mirror dev d1
tc filter add dev d0 ingress protocol ip flower src_ip 192.0.2.1 action mirred egress redirect dev d1
tc filter add dev d0 ingress protocol ip prio 3 flower src_ip 192.0.2.3 action mirred ingress redirect dev d1 pipe action drop
tc filter add dev d0 ingress protocol ip prio 4 flower src_ip 192.0.2.4 action reclassify
tc filter add dev d0 ingress protocol ip prio 5 flower src_ip 192.0.2.5 classid 1:7 action pass
tc filter add dev d0 ingress protocol ip prio 6 flower src_ip 192.0.2.6 action jump 2 action drop action pass
tc filter add dev d0 ingress protocol ip prio 8 flower src_ip 192.0.2.7 action pass random determ drop 3
tc filter add dev d0 ingress protocol ip prio 9 flower src_ip 192.0.2.8 action police rate 1mbit burst 100 conform-exceed drop/pass
tc filter add dev d0 ingress protocol ip prio 10 flower src_ip 192.0.2.9 action goto chain 9
tc filter add dev d0 ingress chain 9 protocol ip prio 1 flower src_ip 192.0.2.9 action drop
