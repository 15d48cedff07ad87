# tc-flower(8), tc-matchall(8), tc-basic(8), tc-ematch(8), tc-fw(8), tc-flow(8), tc-route(8), tc-u32(8), tc-cgroup(8), option by option.
ip link add d0 address 02:00:00:00:00:01 type dummy
ip link set d0 up
tc qdisc add dev d0 clsact
again() { tc qdisc del dev d0 clsact; tc qdisc add dev d0 clsact; return $1; }
f() { tc filter add dev d0 ingress "$@" && tc filter show dev d0 ingress; again $?; }
j() { tc filter add dev d0 ingress "$@" && tc -s -j filter show dev d0 ingress | sed 's/,"installed":[0-9]*,"last_used":[0-9]*//g'; again $?; }
f protocol ip pref 5 flower indev d0 verbose
f protocol all flower dst_mac 02:00:00:00:00:05/ff:ff:ff:00:00:00 src_mac 02:00:00:00:00:06
f protocol 802.1q flower vlan_id 5 vlan_prio 3 vlan_ethtype ip dst_ip 10.0.0.1
f protocol 802.1q flower vlan_id 4096
f protocol 802.1q flower vlan_prio 8
f protocol 802.1ad flower vlan_id 5 vlan_ethtype 802.1q cvlan_id 6 cvlan_prio 2 cvlan_ethtype ipv6
f protocol ip flower vlan_id 5
f protocol all flower num_of_vlans 2
f protocol ip flower ip_proto tcp src_port 5 dst_port 10-20
f protocol ip flower ip_proto udp src_port 20-10
f protocol ip flower ip_proto icmp type 8 code 0
f protocol ip flower ip_proto tcp type 8
f protocol ip flower ip_proto tcp tcp_flags 0x12/0x3f
f protocol ip flower ip_proto sctp dst_port 7
f protocol ip flower dst_port 7
f protocol ip flower ip_proto 99 ip_tos 0x10/0xf0 ip_ttl 64/0xff
f protocol ip flower ip_tos 300
f protocol ip flower ip_flags frag/firstfrag
f protocol ip flower ip_flags nofrag
f protocol ip flower ip_flags bogus
f protocol ip flower src_ip 10.0.0.0/8 dst_ip 10.0.0.1/255.255.0.0
f protocol ip flower dst_ip 2001:db8::1
f protocol ipv6 flower src_ip 2001:db8::/32 ip_proto icmpv6 type 128 code 0/0
f protocol arp flower arp_tip 10.0.0.1 arp_sip 10.0.0.0/8 arp_op request arp_sha 02:00:00:00:00:01 arp_tha 02:00:00:00:00:02/ff:00:00:00:00:00
f protocol arp flower arp_op 7
f protocol mpls_uc flower mpls_label 5 mpls_tc 3 mpls_bos 1 mpls_ttl 9
f protocol mpls_uc flower mpls lse depth 1 label 5 lse depth 2 bos 1 ttl 3
f protocol mpls_uc flower mpls_label 1048576
f protocol ip flower enc_key_id 5 enc_src_ip 1.2.3.4 enc_dst_ip 1.2.3.0/24 enc_dst_port 4789 enc_tos 4 enc_ttl 9
f protocol ip flower geneve_opts 0102:34:05060708/ffff:ff:ffffffff
f protocol ip flower vxlan_opts 5/7
f protocol ip flower erspan_opts 1:5:0:0
f protocol ip flower enc_key_id bogus
f protocol ip flower ct_state +trk+est ct_mark 7/0xff ct_label 5
f protocol ip flower ct_state bogus
f protocol pppoe flower pppoe_sid 5 ppp_proto ip
f protocol ip flower ip_proto l2tp l2tpv3_sid 5
f protocol ip flower hw_tc 5
f protocol ip flower classid 1:5
f protocol ip flower skip_hw
f protocol ip flower skip_sw
f protocol ip flower skip_sw skip_hw
f protocol ip flower bogus
f protocol ip handle 5 flower dst_ip 10.0.0.1 action drop
f protocol ip handle 0x10 pref 7 chain 3 flower dst_ip 10.0.0.1 action pass
f protocol bogus flower
f pref 70000 flower
f pref 0 flower
f handle bogus flower
f parent 1: protocol ip flower
f protocol ip estimator 1s 4s flower
j protocol ip pref 5 flower dst_ip 10.0.0.1 ip_proto tcp dst_port 80 action drop
j protocol all pref 5 flower num_of_vlans 1 action pass
f protocol all matchall classid 1:5 action pass
f matchall skip_hw action drop
f matchall skip_sw
f matchall bogus
f matchall handle 5 action pass
f handle 5 matchall action pass
j matchall action ok
f protocol ip basic match 'meta(nf_mark gt 24)' classid 1:5
f protocol ip basic match 'meta(rxhash mask 0xf eq 5) and not meta(priority eq 6)'
f protocol ip basic match 'cmp(u16 at 3 layer 2 mask 0xff00 gt 20)'
f protocol ip basic match 'nbyte("ababa" at 12 layer 1)'
f protocol ip basic match 'u32(u16 0x1122 0xffff at nexthdr+4)'
f protocol ip basic match '(cmp(u8 at 0 layer 1 eq 5) or cmp(u8 at 1 eq 6)) and meta(random eq 5)'
f protocol ip basic match 'meta(dev eq indev)'
f protocol ip basic match 'bogus(1)'
f protocol ip basic match 'cmp(u16 at 3'
f protocol ip basic match 'canid(sff 0x123)'
f protocol ip basic
f protocol ip basic bogus
f protocol ip handle 6 fw classid 1:5
f protocol ip handle 6/0xff fw classid 1:5 action pass
f protocol ip handle 6 fw indev d0
f protocol ip handle 6 fw bogus
f protocol ip handle 5 flow hash keys src,dst,proto divisor 16 baseclass 1:5 perturb 10
f protocol ip handle 5 flow map key dst and 0xff xor 5 rshift 2 addend 3
f protocol ip handle 5 flow map key bogus
f protocol ip handle 5 flow hash keys mark divisor 0
f protocol ip handle 5 flow map key mark match 'meta(priority eq 6)'
f protocol ip flow hash keys src
f protocol ip handle 1 cgroup
f protocol ip handle 1 cgroup match 'meta(priority eq 6)'
f protocol ip handle 2 cgroup
f protocol ip u32 match ip src 10.0.0.0/8 match ip dport 80 0xffff flowid 1:5
f protocol ip u32 match u32 0 0 at 4
f protocol ip u32 match u16 0x1122 0xffff at nexthdr+2
f protocol ip u32 match u8 5 0xff at -14
f protocol ip u32 match ip tos 0x10 0xff match ip protocol 6 0xff match ip ihl 5 0xf match ip df match ip nofrag
f protocol ip u32 match tcp src 5 0xffff match tcp dst 6 0xffff
f protocol ip u32 match udp src 5 0xffff match icmp type 8 0xff match icmp code 0 0xff
f protocol ipv6 u32 match ip6 src 2001:db8::/32 match ip6 priority 5 0xff match ip6 flowlabel 7 0xfffff
f protocol all u32 match ether src 02:00:00:00:00:01 match ether dst 02:00:00:00:00:02
f protocol ip u32 match mark 5 0xff flowid 1:5
f protocol ip u32 match bogus 5
f protocol ip u32 match u32 0 0 at 5
f protocol ip u32 divisor 3
f protocol ip u32 divisor 256
f protocol ip handle 800::5 u32 match u32 0 0
f protocol ip handle 800::5000 u32 match u32 0 0
f protocol ip u32 ht 900: match u32 0 0
f protocol ip u32 link 9: match u32 0 0
f protocol ip u32 match u32 0 0 police rate 1mbit burst 10kb drop
f protocol ip u32 match u32 0 0 indev d0 skip_hw
f protocol ip u32 match u32 0 0 hashkey mask 0xff at 4 link 800:
j protocol ip u32 match ip src 10.0.0.0/8 flowid 1:5
f route from 5 to 6 classid 1:5
f protocol ip route fromif d0 classid 1:5
f protocol ip route to 7 action drop
f protocol ip route bogus
f protocol ip tcindex
f protocol ip nosuch
tc filter add dev nosuch ingress flower
tc filter add dev d0 ingress
tc filter add dev d0 egress protocol ip pref 3 flower dst_ip 1.1.1.1 action drop
tc filter add dev d0 egress protocol ip pref 3 flower dst_ip 1.1.1.1 action drop
tc filter add dev d0 egress protocol ipv6 pref 3 flower action drop
tc filter add dev d0 egress protocol ip pref 3 matchall action drop
tc filter replace dev d0 egress protocol ip pref 3 handle 1 flower dst_ip 1.1.1.2 action pass
tc filter change dev d0 egress protocol ip pref 3 handle 1 flower dst_ip 1.1.1.3 action pass
tc filter change dev d0 egress protocol ip pref 3 handle 2 flower dst_ip 1.1.1.3 action pass
tc filter replace dev d0 egress protocol ip pref 4 flower dst_ip 1.1.1.4 action pass
tc filter show dev d0 egress
tc -p filter show dev d0 egress
tc -d -s filter show dev d0 egress | sed 's/ installed [0-9]* sec used [0-9]* sec//'
tc filter show dev d0 egress protocol ip
tc filter show dev d0 egress pref 4
tc filter show dev d0 egress chain 5
tc filter show dev d0 root
tc filter show dev d0 parent ffff:fff3
tc filter show dev d0
tc filter show dev nosuch ingress
tc filter show block 9
tc filter get dev d0 egress protocol ip pref 3 handle 1 flower
tc -j filter get dev d0 egress protocol ip pref 3 handle 1 flower
tc filter get dev d0 egress protocol ip pref 3 handle 9 flower
tc filter get dev d0 egress protocol ip pref 3 handle 1 matchall
tc filter get dev d0 egress protocol ip pref 9 handle 1 flower
tc filter get dev d0 egress
tc filter del dev d0 egress protocol ip pref 3 handle 9 flower
tc filter del dev d0 egress protocol ip pref 3 handle 1 matchall
tc filter del dev d0 egress protocol ip pref 3 handle 1 flower
tc filter del dev d0 egress pref 9
tc filter del dev d0 egress protocol ipv6 pref 4
tc filter del dev d0 egress pref 4 chain 2
tc filter del dev d0 egress pref 4
tc filter show dev d0 egress
tc filter help
tc filter bogus
tc chain add dev d0 ingress chain 5
tc chain add dev d0 ingress chain 5
tc chain add dev d0 ingress
tc chain add dev d0 ingress chain bogus
tc chain add dev d0 ingress chain 4294967295
tc chain add dev d0 ingress chain 268435455
tc chain add dev d0 ingress chain 6 protocol ip flower ip_proto tcp dst_ip 0.0.0.0/16
tc chain add dev d0 ingress chain 7 protocol ip matchall
tc chain show dev d0 ingress
tc -j -p chain show dev d0 ingress
tc chain show dev d0 ingress chain 6
tc chain get dev d0 ingress chain 6
tc chain get dev d0 ingress chain 99
tc filter add dev d0 ingress chain 6 protocol ip flower ip_proto tcp dst_ip 10.0.0.0/16 action drop
tc filter add dev d0 ingress chain 6 protocol ip flower ip_proto tcp dst_ip 10.0.0.0/24 action drop
tc filter add dev d0 ingress chain 5 matchall action goto chain 6
tc filter show dev d0 ingress
tc filter show dev d0 ingress chain 5
tc chain del dev d0 ingress chain 99
tc chain del dev d0 ingress chain 6
tc chain del dev d0 ingress chain 5
tc filter del dev d0 ingress chain 6
tc filter del dev d0 ingress chain 5
tc filter del dev d0 ingress chain 99
tc chain flush dev d0 ingress
tc chain show dev d0 ingress
tc chain help
tc qdisc add dev d0 ingress_block 7 egress_block 8 clsact
tc qdisc del dev d0 clsact
tc qdisc add dev d0 ingress_block 7 egress_block 8 clsact
tc qdisc show dev d0
tc filter add block 7 protocol ip pref 1 flower dst_ip 1.1.1.1 action drop
tc filter show block 7
tc filter show dev d0 ingress
tc chain add block 7 chain 3
tc chain show block 7
tc filter add dev d0 ingress matchall
tc filter del block 7
tc filter del block 9
tc chain del block 7 chain 3
tc qdisc del dev d0 clsact
tc filter show block 7
