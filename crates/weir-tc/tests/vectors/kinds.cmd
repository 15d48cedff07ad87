# SPDX-License-Identifier: Apache-2.0 OR MIT
# All kinds of qdiscs, classifiers and actions. No line depends on another; the fuzz targets start from these.
! ip link add d0 type veth peer name pd0
! ip link add d1 numtxqueues 4 type veth peer name pd1
! ip link set pd0 up; ip link set d0 up; ip link set pd1 up; ip link set d1 up
tc qdisc add dev d0 root handle 1: noqueue
tc qdisc add dev d0 root handle 1: blackhole
tc qdisc add dev d0 root handle 1: pfifo limit 10
tc qdisc add dev d0 root handle 1: bfifo limit 3000
tc qdisc add dev d0 root handle 1: pfifo_head_drop limit 3
tc qdisc add dev d0 root handle 1: pfifo_fast
tc qdisc add dev d0 root handle 1: prio bands 4 priomap 3 2 1 0 3 2 1 0 3 2 1 0 3 2 1 0
tc qdisc add dev d0 root handle 1: tbf rate 1mbit burst 10k latency 50ms peakrate 2mbit minburst 1540
tc qdisc add dev d0 root handle 1: netem delay 10ms 3ms 20% distribution normal loss gemodel 1% 10% 70% 0.1% corrupt 1% duplicate 2% reorder 5% gap 3 rate 1mbit 5 100 5 slot 1ms 2ms packets 4 bytes 9000
tc qdisc add dev d0 root handle 1: netem loss state 1% 10% 5% 50% 1% ecn limit 7
tc qdisc add dev d0 root handle 1: htb default 1 r2q 5 direct_qlen 9 ;; tc class add dev d0 parent 1: classid 1:1 htb rate 1mbit ceil 2mbit burst 5k cburst 6k prio 1 quantum 2000 ;; tc class add dev d0 parent 1:1 classid 1:2 htb rate 500kbit
tc qdisc add dev d0 root handle 1: hfsc default 1 ;; tc class add dev d0 parent 1: classid 1:1 hfsc sc umax 1500b dmax 10ms rate 1mbit ul rate 2mbit
tc qdisc add dev d0 root handle 1: cbq bandwidth 10mbit avpkt 1000 cell 8 ewma 5 mpu 64 ;; tc class add dev d0 parent 1: classid 1:1 cbq bandwidth 10mbit rate 1mbit allot 1500 prio 5 weight 1 avpkt 1000 maxburst 20 minburst 3 minidle 10 ewma 6 cell 8 mpu 64 bounded isolated ;; tc class add dev d0 parent 1:1 classid 1:2 cbq bandwidth 10mbit rate 500kbit allot 1500 prio 3 avpkt 1000 split 1: defmap c0/ff
tc qdisc add dev d0 root handle 1: codel limit 100 target 4ms interval 80ms ecn ce_threshold 10ms
tc qdisc add dev d0 root handle 1: fq_codel limit 100 flows 8 target 4ms interval 80ms noecn quantum 300 memory_limit 1mb drop_batch 3 ce_threshold 5ms
tc qdisc add dev d0 root handle 1: cake bandwidth 1mbit diffserv4 triple-isolate nat wash split-gso rtt 50ms overhead 18 mpu 64 atm ack-filter memlimit 1mb fwmark 0xf
tc qdisc add dev d0 root handle 1: fq limit 100 flow_limit 10 quantum 3000 initial_quantum 15000 maxrate 1mbit buckets 8 orphan_mask 7 pacing refill_delay 30ms low_rate_threshold 100kbit ce_threshold 5ms timer_slack 5us horizon 3s horizon_drop
tc qdisc add dev d0 root handle 1: sfq limit 50 depth 20 flows 16 divisor 64 quantum 1600 perturb 5 headdrop redflowlimit 10000 min 2000 max 6000 probability 0.1 ecn harddrop
tc qdisc add dev d0 root handle 1: red limit 30000 min 3000 max 9000 avpkt 1000 burst 5 probability 0.1 ecn nodrop adaptive bandwidth 1mbit
tc qdisc add dev d0 root handle 1: ets bands 4 strict 1 quanta 1500 3000 4500 priomap 0 1 2 3
tc qdisc add dev d0 root handle 1: drr ;; tc class add dev d0 parent 1: classid 1:1 drr quantum 1500
tc qdisc add dev d0 root handle 1: qfq ;; tc class add dev d0 parent 1: classid 1:1 qfq weight 3 maxpkt 1600
tc qdisc add dev d0 root handle 1: plug limit 9000 ;; tc qdisc change dev d0 root handle 1: plug block ;; tc qdisc change dev d0 root handle 1: plug release
tc qdisc add dev d0 root handle 1: pie limit 90 target 10ms tupdate 20ms alpha 2 beta 25 ecn bytemode dq_rate_estimator
tc qdisc add dev d0 root handle 1: fq_pie limit 90 flows 8 target 10ms tupdate 20ms alpha 2 beta 25 quantum 900 memory_limit 1mb ecn_prob 8 ecn bytemode
tc qdisc add dev d0 root handle 1: choke limit 90 min 10 max 30 avpkt 1000 burst 20 probability 0.1 bandwidth 1mbit ecn
tc qdisc add dev d0 root handle 1: skbprio limit 20
tc qdisc add dev d0 root handle 1: cbs locredit -1470 hicredit 30 sendslope -980000 idleslope 20000 offload 0
tc qdisc add dev d0 root handle 1: etf clockid CLOCK_TAI delta 200000 deadline_mode skip_sock_check
tc qdisc add dev d0 root handle 1: hhf limit 90 quantum 900 hh_limit 8 reset_timeout 40ms admit_bytes 9000 evict_timeout 1s non_hh_weight 2
tc qdisc add dev d0 root handle 1: sfb limit 90 max 20 target 9 increment 0.001 decrement 0.0001 db 10 rehash 10000 penalty_rate 10 penalty_burst 20
tc qdisc add dev d0 root handle 1: gred setup DPs 4 default 1 grio limit 90000 ;; tc qdisc change dev d0 root handle 1: gred limit 30000 min 3000 max 9000 avpkt 1000 burst 5 bandwidth 1mbit DP 1 probability 0.1 prio 2
tc qdisc add dev d1 root handle 1: mq
tc qdisc add dev d1 root handle 1: multiq
tc qdisc add dev d1 root handle 1: mqprio num_tc 2 map 0 1 0 1 0 0 0 0 0 0 0 0 0 0 0 0 queues 1@0 1@1 hw 0
tc qdisc add dev d1 root handle 1: taprio num_tc 2 map 0 1 0 1 0 0 0 0 0 0 0 0 0 0 0 0 queues 1@0 1@1 base-time 100 sched-entry S 01 300000 sched-entry S 02 300000 clockid CLOCK_TAI
tc qdisc add dev d0 ingress
tc qdisc add dev d0 ingress_block 5 egress_block 6 clsact ;; tc filter add block 5 protocol ip pref 1 matchall action drop
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 1 basic match 'cmp(u16 at 9 layer 1 mask 0xff trans gt 5) and (u32(u16 0x0800 0xffff at -2) or not nbyte("abc" at 3 layer 2)) and meta(nf_mark mask 3 eq 2) and meta(random shift 2 lt 9)' classid 1:2 action pass
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol ip pref 2 bpf bytecode '6,40 0 0 12,21 0 2 2048,48 0 0 23,6 0 0 4294967295,2 0 0 3,6 0 0 0' classid 1:1 action drop
tc qdisc add dev d0 clsact ;; tc filter add dev d0 egress protocol ip pref 2 bpf bytecode '1,6 0 0 0' direct-action classid 1:1
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol ip pref 2 handle 1 cgroup match 'u32(u32 1 1 at 0)' action drop
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol ip pref 3 handle 7 flow hash keys src,dst,proto,proto-src,proto-dst,iif,priority,mark,vlan-tag,rxhash divisor 16 baseclass 1:1 perturb 10 match 'cmp(u8 at 9 layer 1 eq 6)' action pass
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol ip pref 4 handle 1 flow map key dst and 0xff or 1 xor 3 rshift 2 addend 5 divisor 7 baseclass 1:3
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 5 handle 3/0xff fw indev d0 classid 1:2 action drop
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol ip pref 6 route to 3 from 4 classid 1:2 action pass
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol ip pref 7 route fromif d0 action pass
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 8 matchall skip_hw classid 1:2 action drop
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 9 chain 3 matchall action goto chain 4
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol ip pref 10 handle 1: u32 divisor 16 ;; tc filter add dev d0 ingress protocol ip pref 10 u32 match ip protocol 6 0xff match mark 3 0xff link 1: offset at 0 mask 0x0f00 shift 6 plus 4 eat hashkey mask 0xff at 12 ;; tc filter add dev d0 ingress protocol ip pref 10 u32 ht 1:3 match tcp dst 80 0xffff indev d0 classid 1:4 police rate 1mbit burst 10k drop
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol ip pref 11 flower skip_hw dst_mac 02:00:00:00:00:01/ff:ff:ff:00:00:00 ip_proto tcp src_ip 10.0.0.0/8 dst_ip 10.0.0.1 src_port 1-9 dst_port 80-90 tcp_flags 0x12/0x17 ip_tos 4/0xfc ip_ttl 64 ip_flags frag/nofirstfrag indev d0 hw_tc 1
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol ipv6 pref 12 flower ip_proto icmpv6 type 128 code 0 src_ip 2001:db8::/32
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol arp pref 13 flower arp_sip 10.0.0.1 arp_tip 10.0.0.0/8 arp_op request arp_sha 02:00:00:00:00:01 arp_tha 02:00:00:00:00:02
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol 802.1ad pref 14 flower vlan_id 5 vlan_prio 3 vlan_ethtype 802.1q cvlan_id 6 cvlan_prio 2 cvlan_ethtype ip num_of_vlans 2
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol mpls_uc pref 15 flower mpls lse depth 1 label 5 tc 3 bos 0 ttl 9 lse depth 2 label 6
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol mpls_uc pref 16 flower mpls_label 5 mpls_tc 3 mpls_bos 1 mpls_ttl 9
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol ip pref 17 flower enc_src_ip 10.0.0.1 enc_dst_ip 10.0.0.2 enc_key_id 5 enc_dst_port 4789 enc_tos 4 enc_ttl 9 geneve_opts 0102:80:00880022/ffff:ff:ffffffff
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol ip pref 18 flower vxlan_opts 5/0xff
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol ip pref 19 flower erspan_opts 2:0:1:63
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol ip pref 20 flower gtp_opts 1:9
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol ip pref 21 flower ct_state +trk+new ct_zone 3 ct_mark 5/0xff ct_label 01/ff
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol ppp_ses pref 22 flower pppoe_sid 5 ppp_proto ip
tc qdisc add dev d0 clsact ;; tc chain add dev d0 ingress chain 5 proto ip flower dst_ip 0.0.0.0/24 ip_proto tcp ;; tc filter add dev d0 ingress chain 5 protocol ip pref 1 flower dst_ip 10.0.0.0/24 ip_proto tcp action drop
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 1 matchall action csum ip4h tcp udp icmp igmp udplite sctp
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 1 matchall action gact drop random determ pass 3 cookie 1234 no_percpu
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 1 matchall action gate priority 3 clockid CLOCK_TAI base-time 200 sched-entry open 1000 2 900 sched-entry close 500
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 1 matchall action ife encode use mark 7 allow prio use tcindex 5 type 0xfefe dst 02:aa:00:00:00:01 src 02:bb:00:00:00:02
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 1 matchall action ife decode allow mark
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 1 matchall action mirred egress mirror dev d1 pipe action mirred ingress redirect dev d1
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 1 matchall action mpls push protocol mpls_uc label 5 tc 3 ttl 9 bos 1 pipe action mpls modify label 6 pipe action mpls dec_ttl pipe action mpls mac_push label 7 pipe action mpls pop protocol ipv4
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 1 matchall action nat ingress 198.51.100.0/24 10.1.2.0 pipe action nat egress any 10.0.0.1
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 1 matchall action pedit ex munge eth dst set 02:aa:aa:aa:aa:aa munge ip ttl add 255 munge ip6 hoplimit set 9 munge tcp dport set 9 munge udp sport add 1 pipe action pedit munge offset 20 u32 at 0 0x0f 2 set 1 retain 0xff
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 1 matchall action police rate 1mbit burst 10k mtu 9000 peakrate 2mbit overhead 4 mpu 64 linklayer atm conform-exceed drop/pipe
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 1 matchall action police pkts_rate 1000 pkts_burst 200
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 1 matchall action sample rate 3 group 5 trunc 64
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 1 matchall action simple sdata hello
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 1 matchall action skbedit priority 1:2 queue_mapping 3 mark 5/0xff ptype host inheritdsfield
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 1 matchall action skbmod set dmac 02:aa:aa:aa:aa:aa smac 02:bb:bb:bb:bb:bb etype 0x1234 pipe action skbmod swap mac pipe action skbmod ecn
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 1 matchall action tunnel_key set src_ip 10.0.0.1 dst_ip 10.0.0.2 id 5 dst_port 4789 tos 4 ttl 9 nocsum geneve_opts 0102:80:00880022 pipe action tunnel_key unset
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 1 matchall action tunnel_key set src_ip fd00::1 dst_ip fd00::2 vxlan_opts 5
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 1 matchall action tunnel_key set src_ip 1.1.1.1 dst_ip 2.2.2.2 erspan_opts 1:5:0:0
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol all pref 1 matchall action vlan push protocol 802.1ad id 5 priority 3 pipe action vlan modify id 6 pipe action vlan pop pipe action vlan pop_eth pipe action vlan push_eth dst_mac 02:00:00:00:00:0a src_mac 02:00:00:00:00:0b
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol ip pref 1 matchall action ct commit zone 5 mark 7/0xff nat src addr 10.0.0.1-10.0.0.9 port 1024-2048
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol ip pref 1 matchall action connmark zone 5
tc qdisc add dev d0 clsact ;; tc filter add dev d0 ingress protocol ip pref 1 matchall action ctinfo dscp 0xfc000000 0x01000000
